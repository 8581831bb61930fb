//! The catalogue of accelerators: from a product string to class, vendor, memory, power and heat limits.

use std::sync::{Arc, LazyLock};

use serde::Deserialize;

use crate::base::Name;

/// Who made a device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Vendor {
    Nvidia,
    Amd,
    Google,
    Intel,
    Aws,
    Furiosa,
    Huawei,
    Cambricon,
    Metax,
    Rebellions,
    /// Not known to us.
    #[default]
    Other,
}

crate::words! {
    impl Vendor {
        /// Lower-case name, as in the JSON contract.
        pub fn name(self) {
            Nvidia => "nvidia",
            Amd => "amd",
            Google => "google",
            Intel => "intel",
            Aws => "aws",
            Furiosa => "furiosa",
            Huawei => "huawei",
            Cambricon => "cambricon",
            Metax => "metax",
            Rebellions => "rebellions",
            Other => "other",
        }
    }
}

/// What sort of accelerator a device is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceKind {
    Gpu,
    Tpu,
    #[default]
    Other,
}

crate::words! {
    impl DeviceKind {
        /// Lower-case name, as in the JSON contract.
        pub fn name(self) {
            Gpu => "gpu",
            Tpu => "tpu",
            Other => "other",
        }
    }
}

/// Properties of one model.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accelerator {
    /// Short class, `H100`: what pools, quotas and prices speak of.
    pub class: Name,
    pub vendor: Vendor,
    /// GPU, TPU or other.
    pub kind: DeviceKind,
    /// Lower-case fragments that must all occur in a product string, in this order; any one list suffices.
    pub product: Vec<Vec<String>>,
    /// Nominal device memory, GiB. The device's own metric and its labels come first.
    #[serde(default)]
    pub memory_gib: Option<f64>,
    /// Board power limit, watts.
    #[serde(default)]
    pub tdp_watts: Option<f64>,
    /// Power drawn with nothing to do, watts.
    #[serde(default)]
    pub idle_watts: Option<f64>,
    /// Core temperature at which it slows down, degrees Celsius.
    #[serde(default)]
    pub slowdown_celsius: Option<f64>,
    /// Dense bf16 peak, TFLOP/s.
    #[serde(default)]
    pub bf16_tflops: Option<f64>,
    /// Memory bandwidth of a device, TB/s.
    #[serde(default)]
    pub memory_tb_s: Option<f64>,
    /// Devices in one scale-up domain (NVLink, xGMI).
    #[serde(default)]
    pub link_domain: Option<u32>,
    /// What its NVLink or xGMI carries, both directions together, GB/s.
    #[serde(default)]
    pub link_gb_s: Option<f64>,
    /// Where these figures come from.
    #[serde(default)]
    pub source: String,
}

/// Every known accelerator, most specific first.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalog {
    /// The models; the first that matches a product string wins.
    #[serde(default, rename = "accelerator")]
    pub accelerators: Vec<Accelerator>,
}

/// The catalogue that comes with the program.
static EMBEDDED: LazyLock<Arc<Catalog>> = LazyLock::new(|| {
    Arc::new(
        toml::from_str(include_str!("../../../../config/accelerators.toml"))
            .expect("the embedded accelerators.toml is checked by a test"),
    )
});

impl Catalog {
    /// The catalogue that comes with the program.
    pub fn embedded() -> Arc<Self> {
        EMBEDDED.clone()
    }

    /// This catalogue with the models of `text` (TOML, `[[accelerator]]`) before its own, so that they win.
    ///
    /// # Errors
    /// On text that is no such TOML; the message names line and key.
    pub fn with(&self, text: &str) -> Result<Self, toml::de::Error> {
        let mut all = toml::from_str::<Self>(text)?;
        for product in all.accelerators.iter_mut().flat_map(|one| &mut one.product) {
            product.retain(|fragment| !fragment.is_empty());
            for fragment in product {
                fragment.make_ascii_lowercase();
            }
        }
        all.accelerators.extend_from_slice(&self.accelerators);
        Ok(all)
    }

    /// The model of a product string as a label or an exporter writes it (`NVIDIA-H100-80GB-HBM3`,
    /// `tpu-v5p-slice`, `nvidia-l4`). Case, spaces and separators do not matter.
    pub fn find(&self, product: &str) -> Option<&Accelerator> {
        let plain = normalized(product);
        self.accelerators.iter().find(|accelerator| {
            accelerator
                .product
                .iter()
                .any(|fragments| occurs_in_order(&plain, fragments))
        })
    }

    /// The model of a class name, `H100` say.
    pub fn of_class(&self, class: &str) -> Option<&Accelerator> {
        self.accelerators
            .iter()
            .find(|accelerator| accelerator.class.eq_ignore_ascii_case(class))
    }
}

/// The compute slices that MIG cuts a GPU of this class or product string into: four of an A30 and of the RTX PRO boards, else seven
/// (NVIDIA's MIG user guide, supported profiles).
pub fn mig_compute_slices(product: &str) -> u32 {
    let words: Vec<&str> = product
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    let is = |word: &str, wanted: &str| word.eq_ignore_ascii_case(wanted);
    let mut pairs = words.windows(2);
    let of_four = pairs.any(|pair| is(pair[0], "RTX") && is(pair[1], "PRO"))
        || words.iter().any(|word| is(word, "A30"));
    if of_four { 4 } else { 7 }
}

/// Lower case, every run of other characters than letters, digits and dots as one dash.
fn normalized(product: &str) -> String {
    let mut out = String::with_capacity(product.len() + 2);
    out.push('-');
    for c in product.chars() {
        if c.is_ascii_alphanumeric() || c == '.' {
            out.push(c.to_ascii_lowercase());
        } else if !out.ends_with('-') {
            out.push('-');
        }
    }
    if !out.ends_with('-') {
        out.push('-');
    }
    out
}

fn occurs_in_order(text: &str, fragments: &[String]) -> bool {
    let mut rest = text;
    for fragment in fragments {
        let Some(at) = rest.find(fragment.as_str()) else {
            return false;
        };
        rest = &rest[at + fragment.len()..];
    }
    !fragments.is_empty()
}
