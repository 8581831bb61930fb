# Twenty GPU nodes in four pools, with the labels that GPU Feature Discovery
# and the GPU operator write. Run as: jq -n -f nodes.jq

include "gfd" {search: "./"};

# The labels of one MIG resource under the mixed strategy.
def mig($name; $product; $count; $memory; $sms; $gi; $ci; $copy; $dec):
  {
    count: $count, memory: $memory, multiprocessors: $sms, product: "\($product)-MIG-\($name)", replicas: 1, "sharing-strategy": "none",
    "slices.gi": $gi, "slices.ci": $ci, "engines.copy": $copy, "engines.decoder": $dec, "engines.encoder": 0, "engines.jpeg": 0, "engines.ofa": 0
  } | with_entries(.key |= "nvidia.com/mig-\($name).\(.)");

def node($pool; $i; $g):
  ($g.first + $i) as $n
  | ($g.zones[$i % ($g.zones | length)]) as $zone
  | ("\($pool)-\($i)") as $name
  | {
      apiVersion: "v1", kind: "Node",
      metadata: {
        name: $name,
        annotations: ({"node.alpha.kubernetes.io/ttl": "0"} + ($g.annotations // {})),
        labels: (
          {
            "kubernetes.io/hostname": $name, "kubernetes.io/os": "linux", "kubernetes.io/arch": ($g.arch // "amd64"),
            "beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": ($g.arch // "amd64"),
            "node.kubernetes.io/instance-type": $g.machine,
            "topology.kubernetes.io/region": "us-east-1", "topology.kubernetes.io/zone": $zone,
            "topology.k8s.aws/zone-id": ("use1-az" + ({"us-east-1a": "1", "us-east-1b": "2", "us-east-1c": "4"}[$zone])),
            "topology.k8s.aws/network-node-layer-1": "nn-\($zone[-1:])0000000000000001",
            "topology.k8s.aws/network-node-layer-2": "nn-\($zone[-1:])00000000000010\(($i / 4) | floor)",
            "topology.k8s.aws/network-node-layer-3": "nn-\($zone[-1:])0000000000010\(($i / 2) | floor)0"
          } + $g.pool_labels + gfd($g))
      },
      spec: {
        providerID: "aws:///\($zone)/i-0a1b2c3d4e5f\((10000 + $n) | tostring)",
        podCIDR: "10.244.\($n).0/24", podCIDRs: ["10.244.\($n).0/24"],
        taints: [{key: "nvidia.com/gpu", value: "present", effect: "NoSchedule"}]
      },
      status: {
        capacity: ({cpu: $g.cpu, memory: $g.ram, "ephemeral-storage": "3600Gi", pods: "110", "hugepages-2Mi": "0"} + $g.resources),
        allocatable: ({cpu: $g.cpu, memory: $g.ram, "ephemeral-storage": "3300Gi", pods: "110", "hugepages-2Mi": "0"} + ($g.allocatable // $g.resources)),
        nodeInfo: {
          architecture: ($g.arch // "amd64"), operatingSystem: "linux", bootID: "", machineID: "", systemUUID: "",
          kernelVersion: "6.12.46-66.121.amzn2023", osImage: "Amazon Linux 2023.9.20251105", containerRuntimeVersion: "containerd://2.1.4",
          kubeletVersion: "v1.36.3", kubeProxyVersion: ""
        }
      }
    };

def h100: {
  first: 1, machine: "p5.48xlarge", cpu: "192", ram: "2048Gi", zones: ["us-east-1a"], count: 8, product: "NVIDIA-H100-80GB-HBM3", memory: 81559,
  family: "hopper", compute: [9, 0], mig_capable: true, resources: gpus(8), pool_labels: karpenter("h100"; "on-demand")
};
def gb200: {
  first: 11, machine: "p6e-gb200.36xlarge", cpu: "144", ram: "960Gi", zones: ["us-east-1b"], count: 4, product: "NVIDIA-GB200", memory: 189471,
  family: "blackwell", compute: [10, 0], mig_capable: true, arch: "arm64", clique: "7b968a6d-c8aa-45e1-9e07-e1e51be99c31.32766", resources: gpus(4),
  pool_labels: (karpenter("gb200"; "reserved") + {"karpenter.k8s.aws/capacity-reservation-id": "cr-0123456789abcdef0"})
};
def a100: {
  first: 21, machine: "p4de.24xlarge", cpu: "96", ram: "1152Gi", zones: ["us-east-1a", "us-east-1b"], count: 8, product: "NVIDIA-A100-SXM4-80GB", memory: 81920,
  family: "ampere", compute: [8, 0], mig_capable: true, resources: gpus(8),
  pool_labels: {"eks.amazonaws.com/nodegroup": "a100", "eks.amazonaws.com/capacityType": "ON_DEMAND"}
};
def l4: {
  first: 31, machine: "g6.12xlarge", cpu: "48", ram: "192Gi", zones: ["us-east-1a", "us-east-1b", "us-east-1c"], count: 4, product: "NVIDIA-L4", memory: 23034,
  family: "ada-lovelace", compute: [8, 9], resources: gpus(4), pool_labels: karpenter("l4"; "spot")
};

{
  apiVersion: "v1", kind: "List",
  items: (
    [range(6) as $i | node("h100"; $i; h100 + (
      # The device plugin gave one device of h100-5 up.
      if $i == 5 then {allocatable: gpus(7)} else {} end))]
    + [range(2) as $i | node("gb200"; $i; gb200)]
    + [range(6) as $i | node("a100"; $i; a100 + (
      # a100-4: MIG with a resource for each profile; a100-5: one profile for all, under the name of the whole device.
      if $i == 4 then {
        mig_config: "all-balanced", mig_strategy: "mixed",
        resources: {"nvidia.com/gpu": "0", "nvidia.com/mig-1g.10gb": "16", "nvidia.com/mig-2g.20gb": "8", "nvidia.com/mig-3g.40gb": "8"},
        extra: (mig("1g.10gb"; "NVIDIA-A100-SXM4-80GB"; 16; 9728; 14; 1; 1; 1; 0) + mig("2g.20gb"; "NVIDIA-A100-SXM4-80GB"; 8; 19968; 28; 2; 2; 2; 1)
          + mig("3g.40gb"; "NVIDIA-A100-SXM4-80GB"; 8; 40192; 42; 3; 3; 3; 2))
      } elif $i == 5 then {
        mig_config: "all-1g.10gb", mig_strategy: "single", suffix: "-MIG-1g.10gb", count: 56, memory: 9728, resources: gpus(56),
        extra: {"nvidia.com/gpu.multiprocessors": 14, "nvidia.com/gpu.slices.gi": 1, "nvidia.com/gpu.slices.ci": 1, "nvidia.com/gpu.engines.copy": 1,
          "nvidia.com/gpu.engines.decoder": 0, "nvidia.com/gpu.engines.encoder": 0, "nvidia.com/gpu.engines.jpeg": 0, "nvidia.com/gpu.engines.ofa": 0}
      } else {} end))]
    + [range(6) as $i | node("l4"; $i; l4 + (
      # l4-4: each device is shared by four; l4-5: cordoned by up.
      if $i == 4 then {suffix: "-SHARED", replicas: 4, resources: gpus(16)} else {} end))]
  )
}
