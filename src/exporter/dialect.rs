//! Dialects: the meaning of each exporter's metrics, compiled from TOML and recognized by metric names.

use std::time::Duration;

use memchr::memchr;
use regex_lite::Regex;
use rustc_hash::{FxHashMap, FxHashSet};

use model::base::Name;
use model::fleet::signal::Signal;

use super::labels::{DeviceLabels, LabelFilter, glob};
use super::line;
use super::spec::{self, DeviceKey, FileFaults, Reduce, Rollup, ScopeSpec};

/// The source of a host's identity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostRule {
    /// The node of the scraped pod; the exporter's host label is a hint.
    Target,
    /// The exporter's host label.
    Label,
    /// The exporter's host label is an instance id: the tail of a node's `spec.providerID`.
    ProviderId,
}

/// How a cluster's source finds and requests an exporter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Discovery {
    /// Pod labels; of the outer list any must match, of the inner all. `*` in a value matches any text.
    pub selectors: Vec<Vec<(String, String)>>,
    /// Namespaces to look in; empty is all.
    pub namespaces: Vec<String>,
    /// Names of container ports in order of preference.
    pub port_names: Vec<String>,
    /// Ports in order of preference, where the pod has none of those names.
    pub ports: Vec<u16>,
    /// Images of containers (`*` for any text), one of which is enough where no selector matches.
    pub images: Vec<String>,
    /// Path of the page, from `/`.
    pub path: String,
    /// Protocol of the page: `http` or `https`.
    pub scheme: String,
}

impl Discovery {
    /// True when a pod with these labels runs the exporter. `label` gives the value of a pod's label.
    pub fn matches<'l>(&self, label: impl Fn(&str) -> Option<&'l str>) -> bool {
        self.selectors.iter().any(|all| {
            all.iter()
                .all(|(key, value)| label(key).is_some_and(|has| glob(value, has)))
        })
    }

    /// True when a container of this image serves the page.
    pub fn runs(&self, image: &str) -> bool {
        self.images.iter().any(|known| glob(known, image))
    }
}

#[derive(Debug)]
pub struct Dialect {
    pub name: Name,
    /// The exporter's own name.
    pub title: String,
    /// `nvidia`, `amd`, `google`, …; empty when not given.
    pub vendor: String,
    /// Where the exporter is described, and what is strange about it.
    pub docs: String,
    /// The file it was read from.
    pub file: String,
    /// How long the exporter keeps a value: a scrape sooner gives the same numbers.
    pub interval: Duration,
    /// How long a scrape may take.
    pub timeout: Duration,
    /// Which of two sources wins on one device: the higher.
    pub priority: i32,
    /// The source of the host's identity.
    pub host: HostRule,
    /// How to find it.
    pub discovery: Discovery,
    pub(super) prefixes: Vec<String>,
    pub(super) any_prefix: bool,
    pub(super) signature: Vec<String>,
    pub(super) signature_filter: LabelFilter,
    pub(super) missing: MissingValues,
    pub(super) only: LabelFilter,
    pub(super) ignore_with: Vec<String>,
    pub(super) fields: DeviceLabels,
    pub(super) slice: Option<SliceRule>,
    pub(super) core: Option<CoreRule>,
    /// The model that a row about a server of models names.
    pub(super) served: Option<super::labels::LabelSources>,
    pub(super) pod: PodRule,
    pub(super) sizes: Option<Sizes>,
    pub(super) joins: Vec<Join>,
    pub(super) maps: Vec<SignalMapping>,
    pub(super) derives: Vec<Derive>,
    /// What each metric name is used for, without prefix.
    pub(super) families: FxHashMap<String, Vec<MetricUse>>,
}

impl Dialect {
    /// The signals it can give, each once, in the order of [`Signal::ALL`].
    pub fn signals(&self) -> Vec<Signal> {
        Signal::ALL
            .iter()
            .copied()
            .filter(|signal| {
                self.maps.iter().any(|map| map.signal == *signal)
                    || self.derives.iter().any(|derive| derive.to == *signal)
            })
            .collect()
    }

    /// The metric names it reads, sorted.
    pub fn metrics(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.families.keys().map(String::as_str).collect();
        names.sort_unstable();
        names
    }

    /// The part of a metric's name after `prefix`, with what it is used for.
    pub(super) fn family(&self, prefix: &str, name: &str) -> Option<&[MetricUse]> {
        let bare = name.strip_prefix(prefix)?;
        // OpenMetrics puts this suffix on every counter, whatever the exporter calls it.
        self.families
            .get(bare)
            .or_else(|| self.families.get(bare.strip_suffix("_total")?))
            .map(Vec::as_slice)
    }

    /// The prefix under which `name` belongs to the signature.
    pub(super) fn signature_prefix<'n>(&self, name: &'n str) -> Option<&'n str> {
        let signs = |text: &str| self.signature.iter().any(|sign| glob(sign, text));
        if signs(name) {
            return Some("");
        }
        for prefix in &self.prefixes {
            if name.strip_prefix(&**prefix).is_some_and(signs) {
                return Some(&name[..prefix.len()]);
            }
        }
        if !self.any_prefix {
            return None;
        }
        self.signature
            .iter()
            .filter(|sign| !sign.contains('*'))
            .filter_map(|sign| name.strip_suffix(&**sign))
            .find(|prefix| prefix.ends_with('_'))
    }

    /// The prefix that its names have on a page, by the first of its signature there.
    fn prefix_of<'p>(&self, page: &'p [u8]) -> Option<&'p str> {
        let mut last = "";
        let lines = page.split(|byte| *byte == b'\n');
        lines.filter_map(leading_name).find_map(|name| {
            let again = name == std::mem::replace(&mut last, name);
            (!again).then(|| self.signature_prefix(name)).flatten()
        })
    }
}

/// What a metric name is used for.
#[derive(Clone, Copy, Debug)]
pub(super) enum MetricUse {
    /// A mapping, and the name's rank among all names that give its signal: the lowest wins.
    Map {
        map: u16,
        rank: u16,
        part: SamplePart,
    },
    Join(u16),
    /// The number of cores of a device.
    Cores,
}

/// What a value is of its signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SamplePart {
    Value,
    /// The total of a mean.
    Sum,
    Count,
    /// A bucket of the histogram that it is the mean of.
    Bucket,
}

#[derive(Debug, Default)]
pub(super) struct MissingValues {
    pub values: Vec<f64>,
    pub ranges: Vec<[f64; 2]>,
    pub above: Option<f64>,
    pub texts: Vec<String>,
}

impl MissingValues {
    /// True when `value` is how the exporter writes "no value".
    pub fn has(&self, value: f64) -> bool {
        self.above.is_some_and(|above| value >= above)
            || self.values.contains(&value)
            || self
                .ranges
                .iter()
                .any(|[from, to]| (*from..=*to).contains(&value))
    }
}

#[derive(Debug)]
pub(super) struct SliceRule {
    pub id: super::labels::LabelSources,
    pub profile: super::labels::LabelSources,
    pub unless: Vec<LabelFilter>,
    pub parent: Vec<DeviceKey>,
    /// Its first group is the number of compute slices of the device that the slice has.
    pub share: Option<Regex>,
    pub memory: Option<(Regex, f64)>,
}

#[derive(Debug)]
pub(super) struct CoreRule {
    pub index: super::labels::LabelSources,
    pub per_device: Option<u32>,
    pub per_device_label: Option<String>,
    /// Label, and cores of a device by its value.
    pub per_device_by: Option<(String, Vec<(String, u32)>)>,
}

#[derive(Debug, Default)]
pub(super) struct PodRule {
    pub labels: Vec<spec::PodLabelsSpec>,
    pub own_pods: Vec<String>,
    pub own_containers: Vec<String>,
    pub copy: Vec<String>,
}

#[derive(Debug)]
pub(super) struct Sizes {
    /// Known sizes, in bytes.
    pub known: Vec<f64>,
    /// Bytes of one unit.
    pub choices: Vec<f64>,
}

#[derive(Debug)]
pub(super) struct Join {
    pub page: bool,
    pub fields: DeviceLabels,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum UnitScale {
    /// Times the first, over the second: a hundredth is a division by 100, for 57 * 0.01 is not 0.57.
    By(f64, f64),
    BySize,
}

impl UnitScale {
    pub fn of(by: f64) -> Self {
        let over = (1.0 / by).round();
        if over > 1.0 && (by * over - 1.0).abs() < 1e-12 {
            Self::By(1.0, over)
        } else {
            Self::By(by, 1.0)
        }
    }
}

#[derive(Debug)]
pub(super) struct SignalMapping {
    pub signal: Signal,
    pub scale: UnitScale,
    /// A running total behind a signal that is a rate.
    pub total: bool,
    pub scope: ScopeSpec,
    pub filter: LabelFilter,
    pub over: Vec<String>,
    pub reduce: Reduce,
    pub rollup: Option<Rollup>,
    pub zero_is_unknown: bool,
    pub missing: Vec<f64>,
    pub ceiling: Option<f64>,
    pub clamp: bool,
    pub values: Vec<(f64, f64)>,
    pub value_label: Option<String>,
    pub newest: bool,
    /// Values are sums and counts.
    pub mean: bool,
}

#[derive(Debug)]
pub(super) struct Derive {
    pub to: Signal,
    pub how: How,
}

#[derive(Debug)]
pub(super) enum How {
    Sum(Vec<Signal>),
    Minus(Vec<Signal>),
    Ratio {
        of: Signal,
        to: Vec<Signal>,
        at_least: f64,
    },
}

/// Every dialect that is known.
#[derive(Debug)]
pub struct Dialects(Vec<Dialect>);

/// Files of `config/exporters`, each with its text.
macro_rules! files {
    ($($file:literal)*) => {
        &[$(($file, include_str!(concat!("../../config/exporters/", $file)))),*]
    };
}

/// The dialects that come with the program.
const BUILTIN: &[(&str, &str)] = files![
    "dcgm.toml"
    "amd.toml"
    "tpu.toml"
    "gke-gpu.toml"
    "nvidia-smi.toml"
    "xpum.toml"
    "xpumd.toml"
    "gaudi.toml"
    "neuron.toml"
    "hami.toml"
    "hami-scheduler.toml"
    "all-smi.toml"
    "vllm.toml"
    "triton.toml"
    "sglang.toml"
    "tgi.toml"
    "trtllm.toml"
    "nim.toml"
];

impl Dialects {
    /// The dialects that come with the program.
    pub fn builtin() -> Self {
        Self::with(&[]).expect("a test compiles every dialect that is built in")
    }

    /// The built-in dialects and those of `extra` (file name, text); one of the same name takes a built-in's place.
    ///
    /// # Errors
    /// Everything that is wrong in any file, each with file, line and the nearest valid spelling.
    pub fn with(extra: &[(&str, &str)]) -> Result<Self, Vec<String>> {
        let mut all: Vec<Dialect> = Vec::new();
        let mut wrong = Vec::new();
        for (at, (file, text)) in BUILTIN.iter().chain(extra).enumerate() {
            let mut faults = FileFaults {
                file,
                text,
                found: Vec::new(),
            };
            let compiled = super::compile::compile(&mut faults);
            wrong.append(&mut faults.found);
            let Some(dialect) = compiled else { continue };
            match all.iter_mut().position(|known| known.name == dialect.name) {
                Some(known)
                    if at >= BUILTIN.len()
                        && BUILTIN.iter().any(|(file, _)| *file == all[known].file) =>
                {
                    all[known] = dialect;
                }
                Some(known) => wrong.push(format!(
                    "{file}: the name \"{}\" is taken by {}",
                    dialect.name, all[known].file
                )),
                None => all.push(dialect),
            }
        }
        if wrong.is_empty() {
            Ok(Self(all))
        } else {
            Err(wrong)
        }
    }

    /// Every dialect, built-in ones first.
    pub fn iter(&self) -> impl Iterator<Item = &Dialect> {
        self.0.iter()
    }

    pub fn get(&self, name: &str) -> Option<&Dialect> {
        self.0.iter().find(|dialect| &*dialect.name == name)
    }

    /// The dialect of this name, or an error that names the nearest one.
    ///
    /// # Errors
    /// No dialect has this name.
    pub fn named(&self, name: &str) -> Result<&Dialect, String> {
        self.get(name).ok_or_else(|| {
            let names = || self.0.iter().map(|dialect| &*dialect.name);
            match spec::nearest(name, names()) {
                Some(near) => {
                    format!("no dialect has the name \"{name}\"; did you mean \"{near}\"?")
                }
                None => format!(
                    "no dialect has the name \"{name}\"; there are {}",
                    names().collect::<Vec<_>>().join(", ")
                ),
            }
        })
    }

    /// The dialect of `page`: of those whose signature it has, the one with most of its names.
    pub fn detect(&self, page: &[u8]) -> Option<&Dialect> {
        self.detect_with_prefix(page, None).map(|(found, _)| found)
    }

    /// The dialect with the prefix of its names; `only` restricts the choice to that dialect.
    pub(super) fn detect_with_prefix<'p>(
        &self,
        page: &'p [u8],
        only: Option<&str>,
    ) -> Option<(&Dialect, &'p str)> {
        struct Clue<'p> {
            prefix: Option<&'p str>,
            proven: bool,
            known: usize,
        }
        if let Some(only) = only {
            let dialect = self.get(only)?;
            return Some((dialect, dialect.prefix_of(page).unwrap_or("")));
        }
        let mut clues: Vec<Clue<'p>> = self
            .0
            .iter()
            .map(|dialect| Clue {
                prefix: None,
                proven: dialect.signature_filter.is_empty(),
                known: 0,
            })
            .collect();
        let mut seen: FxHashSet<&'p str> = FxHashSet::default();
        let mut last = "";
        let mut rest = page;
        let mut labels = Vec::new();
        while !rest.is_empty() {
            let end = memchr(b'\n', rest).unwrap_or(rest.len());
            let text = &rest[..end];
            rest = &rest[(end + 1).min(rest.len())..];
            // Most lines are of the family of the line before.
            if !last.is_empty()
                && text.starts_with(last.as_bytes())
                && text.get(last.len()) == Some(&b'{')
                && clues
                    .iter()
                    .all(|clue| clue.proven || clue.prefix.is_none())
            {
                continue;
            }
            let Some(name) = leading_name(text) else {
                continue;
            };
            let new = name != last && seen.insert(name);
            last = name;
            for (dialect, clue) in self.0.iter().zip(&mut clues) {
                if !new && clue.proven {
                    continue;
                }
                let sign = dialect.signature_prefix(name);
                if clue.prefix.is_none() {
                    clue.prefix = sign;
                }
                if !clue.proven && sign.is_some() {
                    clue.proven = line::head(text, &mut labels, 128, &mut 0).is_ok()
                        && dialect.signature_filter.passes(&labels);
                }
            }
        }
        for name in &seen {
            for (dialect, clue) in self.0.iter().zip(&mut clues) {
                let known = clue
                    .prefix
                    .is_some_and(|prefix| dialect.family(prefix, name).is_some());
                clue.known += usize::from(known);
            }
        }
        let mut best: Option<(usize, usize)> = None;
        for (at, clue) in clues.iter().enumerate() {
            if clue.proven
                && clue.prefix.is_some()
                && best.is_none_or(|(_, known)| clue.known > known)
            {
                best = Some((at, clue.known));
            }
        }
        best.map(|(at, _)| (&self.0[at], clues[at].prefix.unwrap_or("")))
    }
}

/// The metric name a line begins with; `None` for comments and lines of other forms.
fn leading_name(text: &[u8]) -> Option<&str> {
    let (start, end) = line::plain_name(text);
    (end > start)
        .then(|| std::str::from_utf8(&text[start..end]).ok())
        .flatten()
}
