//! Which extended resources count accelerators (GPUs, TPUs, NPUs) of any vendor, and which only measure a part of one, such as memory.

use model::fleet::claim::{BY_CLASS, driver_of_class_name};

/// How the part of a resource name after the slash must look to count devices.
enum ResourceNamePattern {
    Is(&'static str),
    Starts(&'static str),
    /// NVIDIA passthrough resources start with the chip: two capital letters and three digits (`GA102GL_A10`).
    Chip,
    /// AMD partitions: a compute and a memory mode (`cpx_nps4`).
    Partition,
}

use ResourceNamePattern::{Chip, Is, Partition, Starts};

/// Vendor domain and the resource names in that domain that count devices or slices.
const COUNTED: &[(&str, &[ResourceNamePattern])] = &[
    (
        "nvidia.com",
        &[
            Is("gpu"),
            Is("pgpu"),
            Is("vgpu"),
            Starts("gpu."),
            Starts("mig-"),
            Chip,
        ],
    ),
    ("amd.com", &[Is("gpu"), Partition]),
    ("google.com", &[Is("tpu")]),
    ("gpu.intel.com", &[Is("i915"), Is("xe")]),
    ("habana.ai", &[Is("gaudi"), Is("goya")]),
    (
        "aws.amazon.com",
        &[Is("neuron"), Is("neurondevice"), Is("neuroncore")],
    ),
    ("volcano.sh", &[Is("vgpu-number")]),
    ("hami.io", &[Is("gpu")]),
    ("huawei.com", &[Starts("Ascend")]),
    ("cambricon.com", &[Is("vmlu"), Starts("mlu")]),
    ("hygon.com", &[Is("dcunum"), Is("dcu")]),
    ("metax-tech.com", &[Is("sgpu"), Is("gpu")]),
    ("mthreads.com", &[Is("gpu"), Is("vgpu")]),
    ("enflame.com", &[Is("drs-gcu"), Is("gcu"), Is("vgcu")]),
    ("kunlunxin.com", &[Is("xpu"), Is("vxpu")]),
    ("iluvatar.ai", &[Is("gpu"), Is("vgpu")]),
    ("vastaitech.com", &[Is("va")]),
    ("birentech.com", &[Is("gpu")]),
    ("rebellions.ai", &[Starts("ATOM"), Starts("REBEL")]),
    ("furiosa.ai", &[Is("rngd"), Is("warboy"), Starts("rngd-")]),
    (
        "tenstorrent.com",
        &[Starts("n"), Starts("wormhole"), Starts("blackhole")],
    ),
    ("qualcomm.com", &[Starts("qaic")]),
];

/// Suffixes of resources that measure a share of a device (memory, cores), published beside the resource that counts devices.
const SHARE_SUFFIXES: &[&str] = &[
    "memory",
    "memory.max",
    "mem",
    "gpumem",
    "cores",
    "core",
    "percentage",
    "priority",
    "vmemory",
    "vcore",
    "millicores",
    "tiles",
    "monitoring",
];

/// True when the resource counts devices, slices or shares of devices; false for CPU, memory and for resources that only measure a
/// share of a device (`nvidia.com/gpumem`, `volcano.sh/vgpu-cores`). A name that is not in `COUNTED` counts when its words name a
/// device: an operator may rename a plugin's resource (`nvidia.com/gtx-1080-ti`), and passthrough resources are named by chip.
///
/// Source: the documentation of the vendors' device plugins.
pub fn counts_devices(resource: &str) -> bool {
    let Some((domain, name)) = resource.split_once('/') else {
        return false;
    };
    if domain == BY_CLASS {
        return driver_of_class_name(name).is_some();
    }
    let measures_share = SHARE_SUFFIXES.iter().any(|end| {
        name.strip_suffix(end)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with(['-', '.', '_']))
    });
    !measures_share && (is_listed(domain, name) || names_a_device(domain, name))
}

/// True for a resource that counts as devices by its name alone: no known plugin offers it, so the class of these devices is unknown.
pub fn is_unlisted_device(resource: &str) -> bool {
    resource.split_once('/').is_some_and(|(domain, name)| {
        domain != BY_CLASS && !is_listed(domain, name) && counts_devices(resource)
    })
}

fn is_listed(domain: &str, name: &str) -> bool {
    COUNTED.iter().any(|(known, shapes)| {
        *known == domain
            && shapes.iter().any(|shape| shape.fits(name))
            && !names_other_hardware(name)
    })
}

/// Domains in which schedulers count parts of devices that another resource counts as well.
const SCHEDULER_DOMAINS: &[&str] = &[
    "koordinator.sh",
    "aliyun.com",
    "tencent.com",
    "elasticgpu.io",
    "volcano.sh",
    "hami.io",
];

/// Words in a resource's name that name a device.
const DEVICE_WORDS: &[&str] = &[
    "gpu", "gpus", "pgpu", "vgpu", "gpgpu", "npu", "vnpu", "tpu", "xpu", "gcu", "dcu", "mlu",
    "ppu", "hpu", "gtx", "rtx", "geforce", "tesla", "quadro", "titan", "instinct", "radeon",
    "gaudi", "gaudi2", "gaudi3",
];

/// Prefixes of words of name of network interfaces, switches and channels: an IMEX channel. GPU vendors' domains have such resources as well.
const OTHER_HARDWARE_PREFIXES: &[&str] = &[
    "rdma",
    "roce",
    "hca",
    "sriov",
    "mlnx",
    "mlx",
    "hostdev",
    "nic",
    "net",
    "vnic",
    "eth",
    "efa",
    "rail",
    "bluefield",
    "connectx",
    "nvswitch",
    "switch",
    "imex",
    "fuse",
    "kvm",
];

/// Chips whose names have one digit.
const SHORT_CHIPS: &[&str] = &["t4", "p4", "l4", "l2", "a2"];

/// Prefixes of chip names, followed by two to four digits.
const CHIPS: &[&str] = &["a", "b", "gb", "gh", "h", "k", "l", "m", "mi", "p", "v"];

/// True when a resource that is not in `COUNTED` has a word that names an accelerator.
fn names_a_device(domain: &str, name: &str) -> bool {
    let of_kubernetes = domain == "kubernetes.io" || domain.ends_with(".kubernetes.io");
    let of_quota = domain.starts_with("requests.") || domain.starts_with("limits.");
    if of_kubernetes
        || of_quota
        || SCHEDULER_DOMAINS.contains(&domain)
        || names_other_hardware(name)
    {
        return false;
    }
    let lower = name.to_ascii_lowercase();
    let mut words = lower.split(['-', '_', '.']);
    let in_domain = domain.split('.').any(|word| DEVICE_WORDS.contains(&word));
    let is_vendor = in_domain || COUNTED.iter().any(|(known, _)| *known == domain);
    let has_device_word =
        words.any(|word| DEVICE_WORDS.contains(&word) || (is_vendor && is_chip(word)));
    has_device_word || in_domain || (domain == "nvidia.com" && is_pci_name(name))
}

/// True for other hardware in a GPU vendor's domain: network interfaces, switches, IMEX channels.
fn names_other_hardware(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let mut words = lower.split(['-', '_', '.']);
    words.any(|word| {
        OTHER_HARDWARE_PREFIXES
            .iter()
            .any(|other| word.starts_with(other))
    })
}

/// True for the name of a chip: `a100`, `h200`, `l40s`, `mi300x`, `t4`.
fn is_chip(word: &str) -> bool {
    SHORT_CHIPS.contains(&word)
        || CHIPS.iter().any(|start| {
            word.strip_prefix(start).is_some_and(|rest| {
                let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
                (2..=4).contains(&digits) && rest.len() <= digits + 2
            })
        })
}

/// True for a passthrough resource, which has the device's name in the PCI ID database: `GM204GL_TESLA_M6`, `ARIEL_DEVICE_24_FUNCTION_3`.
///
/// Source: NVIDIA's plugins for KubeVirt and Kata sandboxes.
fn is_pci_name(name: &str) -> bool {
    name.contains('_')
        && name.bytes().any(|b| b.is_ascii_uppercase())
        && name
            .bytes()
            .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

impl ResourceNamePattern {
    fn fits(&self, name: &str) -> bool {
        match self {
            Is(exact) => name == *exact,
            Starts(start) => name.starts_with(start),
            Chip => {
                let bytes = name.as_bytes();
                bytes.len() > 5
                    && bytes[..2].iter().all(u8::is_ascii_uppercase)
                    && bytes[2..5].iter().all(u8::is_ascii_digit)
            }
            Partition => name.split_once("_nps").is_some_and(|(compute, memory)| {
                matches!(compute, "spx" | "dpx" | "tpx" | "qpx" | "cpx")
                    && !memory.is_empty()
                    && memory.bytes().all(|b| b.is_ascii_digit())
            }),
        }
    }
}

/// Resources that count the same hardware at different granularities, finest last. For a node that offers several,
/// only the first is counted.
pub const SAME_SILICON: &[&str] = &[
    "aws.amazon.com/neuron",
    "aws.amazon.com/neurondevice",
    "aws.amazon.com/neuroncore",
];

#[cfg(test)]
mod tests {
    use super::{counts_devices, is_unlisted_device};

    #[test]
    fn devices_count_and_companions_do_not() {
        for counted in [
            "nvidia.com/gpu",
            "nvidia.com/gpu.shared",
            "nvidia.com/mig-1g.10gb",
            "nvidia.com/mig-3g.40gb.shared",
            "nvidia.com/GA102GL_A10",
            "amd.com/gpu",
            "amd.com/cpx_nps4",
            "google.com/tpu",
            "gpu.intel.com/i915",
            "gpu.intel.com/xe",
            "habana.ai/gaudi",
            "aws.amazon.com/neuron",
            "aws.amazon.com/neuroncore",
            "volcano.sh/vgpu-number",
            "huawei.com/Ascend910",
            "cambricon.com/vmlu",
            "hygon.com/dcunum",
            "metax-tech.com/sgpu",
            "enflame.com/drs-gcu",
            "kunlunxin.com/xpu",
            "vastaitech.com/va",
            "birentech.com/gpu",
            "hami.io/gpu",
            "rebellions.ai/ATOM",
            "furiosa.ai/rngd",
            "deviceclass.resource.kubernetes.io/gpu.nvidia.com",
        ] {
            assert!(counts_devices(counted), "{counted}");
        }
        for not in [
            "cpu",
            "memory",
            "ephemeral-storage",
            "hugepages-2Mi",
            "nvidia.com/gpumem",
            "nvidia.com/gpumem-percentage",
            "nvidia.com/gpucores",
            "nvidia.com/priority",
            "nvidia.com/gpu.memory",
            "nvidia.com/hostdev",
            "nvidia.com/rdma_shared_device_a",
            "gpu.intel.com/i915_monitoring",
            "gpu.intel.com/monitoring",
            "gpu.intel.com/memory.max",
            "gpu.intel.com/millicores",
            "volcano.sh/vgpu-memory",
            "volcano.sh/vgpu-cores",
            "volcano.sh/vgpu-memory-percentage",
            "huawei.com/Ascend910B-memory",
            "hygon.com/dcumem",
            "hami.io/gpumem",
            "cambricon.com/mlu.smlu.vmemory",
            "vpc.amazonaws.com/pod-eni",
            "amd.com/cpx_npsx",
            "smarter-devices/fuse",
            "nvidia.com/mlnxnics",
            "nvidia.com/sriov_rail0",
            "nvidia.com/rail_0",
            "nvidia.com/bf3_p0_vfs",
            "nvidia.com/ens2f0",
            "nvidia.com/GH100_H100_NVSWITCH",
            "nvidia.com/MT43244_BLUEFIELD_3",
            "amd.com/vnic",
            "koordinator.sh/gpu",
            "koordinator.sh/gpu-core",
            "aliyun.com/gpu-mem",
            "gpu.intel.com/millicores",
            "requests.kubernetes.io/gpu",
            "rdma/hca_shared_devices_a",
            "xilinx.com/fpga-u280",
            "example.com/a100",
            "example.com/credits",
            "deviceclass.resource.kubernetes.io/fast-nic",
        ] {
            assert!(!counts_devices(not), "{not}");
        }
    }

    #[test]
    fn a_name_that_no_plugin_has_counts_where_it_says_a_device() {
        for resource in [
            "nvidia.com/gtx-1080-ti",
            "nvidia.com/a100-80gb",
            "nvidia.com/H100",
            "nvidia.com/l40s",
            "nvidia.com/GM204GL_TESLA_M6",
            "nvidia.com/ARIEL_DEVICE_24_FUNCTION_3",
            "amd.com/mi300x",
            "gpu.intel.com/flex",
            "example.com/gpu",
            "example.com/npu.large",
            "gpu.example.com/big",
            "k8s.amazonaws.com/vgpu",
        ] {
            assert!(counts_devices(resource), "{resource}");
        }
        assert!(is_unlisted_device("nvidia.com/gtx-1080-ti"));
        assert!(is_unlisted_device("example.com/gpu"));
        for resource in [
            "nvidia.com/gpu",
            "amd.com/cpx_nps1",
            "nvidia.com/rail_0",
            "cpu",
        ] {
            assert!(!is_unlisted_device(resource), "{resource}");
        }
    }
}
