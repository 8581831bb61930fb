# Labels that more than one pool bears.

def strings: map_values(tostring);

# The labels of GPU Feature Discovery for one homogeneous set of devices.
def gfd($g):
  {
    "nvidia.com/gfd.timestamp": "1763700000",
    "nvidia.com/gpu.machine": $g.machine,
    "nvidia.com/gpu.count": $g.count,
    "nvidia.com/gpu.replicas": ($g.replicas // 1),
    "nvidia.com/gpu.sharing-strategy": (if $g.replicas then "time-slicing" else "none" end),
    "nvidia.com/gpu.product": ($g.product + ($g.suffix // "")),
    "nvidia.com/gpu.memory": $g.memory,
    "nvidia.com/gpu.family": $g.family,
    "nvidia.com/gpu.mode": "compute",
    "nvidia.com/gpu.compute.major": $g.compute[0],
    "nvidia.com/gpu.compute.minor": $g.compute[1],
    "nvidia.com/mig.capable": ($g.mig_capable // false),
    "nvidia.com/mig.strategy": ($g.mig_strategy // "mixed"),
    "nvidia.com/mps.capable": false,
    "nvidia.com/vgpu.present": false,
    "nvidia.com/cuda.driver-version.full": "580.95.05",
    "nvidia.com/cuda.driver-version.major": 580,
    "nvidia.com/cuda.driver-version.minor": 95,
    "nvidia.com/cuda.driver-version.revision": "05",
    "nvidia.com/cuda.driver.major": 580,
    "nvidia.com/cuda.driver.minor": 95,
    "nvidia.com/cuda.driver.rev": "05",
    "nvidia.com/cuda.runtime-version.full": "13.0",
    "nvidia.com/cuda.runtime-version.major": 13,
    "nvidia.com/cuda.runtime-version.minor": 0,
    "nvidia.com/cuda.runtime.major": 13,
    "nvidia.com/cuda.runtime.minor": 0,
    "nvidia.com/gpu.present": true
  }
  + (if $g.clique then {"nvidia.com/gpu.clique": $g.clique} else {} end)
  + (if $g.mig_capable then {"nvidia.com/mig.config": ($g.mig_config // "all-disabled"), "nvidia.com/mig.config.state": "success"} else {} end)
  + (["container-toolkit", "dcgm", "dcgm-exporter", "device-plugin", "driver", "gpu-feature-discovery", "node-status-exporter", "operator-validator"]
     | map({key: "nvidia.com/gpu.deploy.\(.)", value: true}) | from_entries)
  + (if $g.mig_capable then {"nvidia.com/gpu.deploy.mig-manager": true} else {} end)
  + {"nvidia.com/gpu-driver-upgrade-state": "upgrade-done"}
  + ($g.extra // {})
  | strings;

def gpus($n): {"nvidia.com/gpu": ($n | tostring)};

def karpenter($pool; $type): {
  "karpenter.sh/nodepool": $pool, "karpenter.sh/capacity-type": $type, "karpenter.sh/initialized": "true", "karpenter.sh/registered": "true"
};
