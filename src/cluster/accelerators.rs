//! Which extended resources count accelerators, of every vendor, and which merely accompany them.

use model::fleet::claim::{BY_CLASS, driver_of_class_name};

/// How the part of a resource name after the slash must look to count devices.
enum Shape {
    /// Exactly this.
    Is(&'static str),
    /// Begins with this.
    Starts(&'static str),
    /// NVIDIA passthrough names contain the chip name: two capitals and three digits (`GA102GL_A10`).
    Chip,
    /// AMD partitions: a compute and a memory mode (`cpx_nps4`).
    Partition,
}

use Shape::{Chip, Is, Partition, Starts};

/// Vendor domain and the resource names in that domain that count devices or slices.
const COUNTED: &[(&str, &[Shape])] = &[
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
const COMPANIONS: &[&str] = &[
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

/// True when the resource counts devices, slices or shares of devices; false for CPU, memory and for
/// resources that only accompany a device (`nvidia.com/gpumem`, `volcano.sh/vgpu-cores`).
///
/// Source: the vendors' device plugins, gathered in the project's reference of extended resources.
pub fn counts_devices(resource: &str) -> bool {
    let Some((domain, name)) = resource.split_once('/') else {
        return false;
    };
    if domain == BY_CLASS {
        return driver_of_class_name(name).is_some();
    }
    let Some((_, shapes)) = COUNTED.iter().find(|(known, _)| *known == domain) else {
        return false;
    };
    let companion = COMPANIONS.iter().any(|end| {
        name.strip_suffix(end)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with(['-', '.', '_']))
    });
    !companion && shapes.iter().any(|shape| shape.fits(name))
}

impl Shape {
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
    use super::counts_devices;

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
            "deviceclass.resource.kubernetes.io/fast-nic",
        ] {
            assert!(!counts_devices(not), "{not}");
        }
    }
}
