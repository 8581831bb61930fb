//! The catalogue of accelerators against the product strings that labels and exporters really write.

use model::fleet::accelerator::Catalog;
use proptest::prelude::*;

const PRODUCTS: &[(&str, &str)] = &[
    ("Tesla T4", "T4"),
    ("NVIDIA T4G", "T4G"),
    ("nvidia-tesla-t4", "T4"),
    ("Tesla-T4-SHARED", "T4"),
    ("NVIDIA A10G", "A10G"),
    ("NVIDIA A10", "A10"),
    ("NVIDIA-A10-24C", "A10"),
    ("NVIDIA L4", "L4"),
    ("nvidia-l4", "L4"),
    ("NVIDIA-L4-SHARED", "L4"),
    ("NVIDIA L40S", "L40S"),
    ("NVIDIA L40", "L40"),
    ("NVIDIA A40", "A40"),
    ("NVIDIA A30-MIG-1g.6gb", "A30"),
    ("NVIDIA A100-SXM4-40GB", "A100-40GB"),
    ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "A100-40GB"),
    ("NVIDIA-A100-PCIE-40GB", "A100-40GB"),
    ("nvidia-tesla-a100", "A100-40GB"),
    ("GRID A100-40C", "A100-40GB"),
    ("A100_PCIE_40GB", "A100-40GB"),
    ("NVIDIA A100-SXM4-80GB", "A100"),
    ("NVIDIA-A100-SXM4-80GB-MIG-3g.40gb", "A100"),
    ("NVIDIA-A100-SXM4-80GB-MIG-4g.40gb-SHARED", "A100"),
    ("nvidia-a100-80gb", "A100"),
    ("A100_NVLINK_80GB", "A100"),
    ("GRID A100D-80C", "A100"),
    ("a100", "A100"),
    ("NVIDIA A100 80GB PCIe", "A100-PCIe"),
    ("NVIDIA H100 80GB HBM3", "H100"),
    ("NVIDIA-H100-80GB-HBM3", "H100"),
    ("NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", "H100"),
    ("nvidia-h100-80gb", "H100"),
    ("nvidia-h100-mega-80gb", "H100"),
    ("H100_NVLINK_80GB", "H100"),
    ("NVIDIA H100 PCIe", "H100-PCIe"),
    ("NVIDIA H100 NVL", "H100-NVL"),
    ("NVIDIA H200", "H200"),
    ("nvidia-h200-141gb", "H200"),
    ("NVIDIA H200 NVL", "H200-NVL"),
    ("NVIDIA H20", "H20"),
    ("NVIDIA GH200 480GB", "GH200"),
    ("NVIDIA B200", "B200"),
    ("nvidia-b200", "B200"),
    ("NVIDIA GB200", "GB200"),
    ("NVIDIA B300 SXM6 AC", "B300"),
    ("NVIDIA GB300", "GB300"),
    ("Tesla V100-SXM2-16GB", "V100"),
    ("nvidia-tesla-v100", "V100"),
    ("Tesla V100-SXM2-32GB", "V100-32GB"),
    ("Tesla V100S-PCIE-32GB", "V100-32GB"),
    ("Tesla P100-PCIE-16GB", "P100"),
    ("nvidia-tesla-p4", "P4"),
    (
        "NVIDIA RTX PRO 6000 Blackwell Server Edition",
        "RTX-PRO-6000",
    ),
    ("NVIDIA RTX 6000 Ada Generation", "RTX-6000-Ada"),
    ("Quadro RTX 6000", "Quadro-RTX-6000"),
    ("NVIDIA RTX A6000", "RTX-A6000"),
    ("NVIDIA GeForce RTX 4090", "RTX-4090"),
    ("AMD_Instinct_MI300X_OAM", "MI300X"),
    ("AMD Instinct MI300X", "MI300X"),
    ("AMD_Instinct_MI300X_VF", "MI300X"),
    ("AMD Instinct MI325X", "MI325X"),
    ("AMD Instinct MI355X", "MI355X"),
    ("AMD Instinct MI350X", "MI350X"),
    ("AMD Instinct MI250X / MI250", "MI250X"),
    ("AMD Instinct MI210", "MI210"),
    ("tpu-v4-podslice", "v4"),
    ("tpu-v5-lite-podslice", "v5e"),
    ("tpu-v5-lite-device", "v5e"),
    ("v5litepod-8", "v5e"),
    ("tpu-v5p-slice", "v5p"),
    ("tpu-v6e-slice", "v6e"),
    ("tpu7x", "tpu7x"),
    ("TPU v5e", "v5e"),
    ("ct6e-standard-4t", "v6e"),
    ("Gaudi2", "Gaudi2"),
    ("HL-225H", "Gaudi2"),
    ("Intel Gaudi 3", "Gaudi3"),
    ("trainium", "Trainium1"),
    ("Trainium2", "Trainium2"),
    ("Inferentia", "Inferentia1"),
    ("inferentia2", "Inferentia2"),
];

const STRANGERS: &[&str] = &[
    "",
    "unknown",
    "L4000X",
    "XL4",
    "A1000",
    "NVIDIA T400",
    "NVIDIA T1000",
    "MI300",
    "ND96amsr_v4",
    "a2-highgpu-8g",
    "p4d.24xlarge",
    "t4g.large",
    "Radeon Pro V520",
    "Intel Xeon Platinum 8480",
    "Ascend910B",
];

#[test]
fn real_product_strings_find_their_class() {
    let catalog = Catalog::embedded();
    for (product, class) in PRODUCTS {
        let found = catalog.find(product).map(|model| &*model.class);
        assert_eq!(found, Some(*class), "{product}");
    }
    for product in STRANGERS {
        let found = catalog.find(product).map(|model| &*model.class);
        assert_eq!(found, None, "{product}");
    }
}

#[test]
fn every_model_is_well_described() {
    let catalog = Catalog::embedded();
    let mut classes = std::collections::BTreeSet::new();
    for model in &catalog.accelerators {
        let class = &*model.class;
        assert!(classes.insert(class.to_ascii_lowercase()), "{class} twice");
        assert!(!model.source.is_empty(), "{class} has no source");
        assert_eq!(catalog.of_class(class), Some(model));
        for fragments in &model.product {
            assert!(!fragments.is_empty(), "{class}");
            for fragment in fragments {
                assert_eq!(fragment, &fragment.to_ascii_lowercase(), "{class}");
                assert!(
                    fragment.len() > 2 && fragment.contains('-'),
                    "{class}: {fragment}"
                );
            }
            // Each way to find a model does find it: no entry before it is in the way.
            let example = fragments.join("x");
            let found = catalog.find(&example).map(|model| &*model.class);
            assert_eq!(found, Some(class), "{example}");
        }
        for value in [
            model.memory_gib,
            model.tdp_watts,
            model.idle_watts,
            model.slowdown_celsius,
            model.bf16_tflops,
            model.memory_tb_s,
        ] {
            assert!(
                value.is_none_or(|value| value.is_finite() && value > 0.0),
                "{class}"
            );
        }
        if let (Some(idle), Some(tdp)) = (model.idle_watts, model.tdp_watts) {
            assert!(
                idle * 1.5 < tdp,
                "{class}: idle power would pass for full power"
            );
        }
    }
}

#[test]
fn a_users_model_comes_first() {
    let mine = Catalog::embedded()
        .with("[[accelerator]]\nclass = \"Ours\"\nvendor = \"other\"\nkind = \"other\"\nproduct = [[\"-H100-\"], [\"\"]]\n")
        .expect("good");
    assert_eq!(
        mine.find("NVIDIA H100").map(|model| &*model.class),
        Some("Ours")
    );
    assert_eq!(
        mine.find("NVIDIA L4").map(|model| &*model.class),
        Some("L4")
    );
    let error = Catalog::embedded()
        .with("[[accelerator]]\nclas = \"x\"\n")
        .expect_err("bad");
    assert!(error.to_string().contains("clas"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Separators and case do not matter, and a longer word is another word.
    #[test]
    fn spelling_does_not_matter(at in 0..PRODUCTS.len(), separator in "[-_ /]{1,2}", upper: bool) {
        let (product, class) = PRODUCTS[at];
        let other = product.replace(['-', '_', ' ', '/'], &separator);
        let other = if upper { other.to_uppercase() } else { other.to_lowercase() };
        let catalog = Catalog::embedded();
        prop_assert_eq!(catalog.find(&other).map(|model| &*model.class), Some(class));
        let longer = format!("zz{}", product.replace(['-', '_', ' ', '/', '.'], ""));
        prop_assert!(catalog.find(&longer).is_none(), "{}", longer);
    }

    /// No text, however odd, breaks it.
    #[test]
    fn any_text_is_survived(product in ".{0,60}") {
        let _ = Catalog::embedded().find(&product);
    }
}
