# The rest of the large fleet: 180 nodes, labelled as GKE, EKS, Karpenter and AKS
# label theirs, with the labels of GPU Feature Discovery where the GPU operator
# runs (GKE manages its drivers itself and has none). jq -n -f wide-nodes.jq

include "gfd" {search: "./"};

def two: if . < 10 then "0\(.)" else "\(.)" end;

# A node without a cloud's or a vendor's labels.
def bare($number; $name; $g): {
  apiVersion: "v1", kind: "Node",
  metadata: {
    name: $name, annotations: {"node.alpha.kubernetes.io/ttl": "0"},
    labels: ({
      "kubernetes.io/hostname": $name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "amd64",
      "node.kubernetes.io/instance-type": $g.machine, "topology.kubernetes.io/region": $g.region, "topology.kubernetes.io/zone": $g.zone
    } + $g.labels | strings)
  },
  spec: {
    providerID: $g.provider,
    podCIDR: "10.244.\($number).0/24", podCIDRs: ["10.244.\($number).0/24"],
    taints: ($g.taints // [])
  },
  status: (
    ({cpu: $g.cpu, memory: $g.ram, "ephemeral-storage": "3600Gi", pods: "110"} + ($g.resources // {})) as $has
    | {
        capacity: $has, allocatable: $has,
        nodeInfo: {
          architecture: "amd64", operatingSystem: "linux", bootID: "", machineID: "", systemUUID: "", kernelVersion: "6.12.46", osImage: $g.image,
          containerRuntimeVersion: "containerd://2.1.4", kubeletVersion: "v1.36.3", kubeProxyVersion: ""
        }
      })
};

def nvidia: [{key: "nvidia.com/gpu", value: "present", effect: "NoSchedule"}];

def gke($pool; $zone; $more): {
  region: "us-central1", zone: $zone, image: "Container-Optimized OS from Google",
  labels: ({
    "cloud.google.com/gke-nodepool": $pool, "cloud.google.com/gke-os-distribution": "cos", "cloud.google.com/gke-container-runtime": "containerd",
    "cloud.google.com/gke-boot-disk": "hyperdisk-balanced", "cloud.google.com/machine-family": ($more.machine | split("-")[0]), "cloud.google.com/private-node": "true"
  } + $more.labels)
} + ($more | del(.labels));

# A3 Mega: 32 nodes in four blocks; the last eight are reserved.
def h100($i):
  gke("a3-mega"; "us-central1-c"; {
    machine: "a3-megagpu-8g", cpu: "208", ram: "1872Gi", resources: gpus(8), taints: nvidia,
    provider: "gce://tenant/us-central1-c/gke-a3-mega-\($i | two)",
    labels: ({
      "cloud.google.com/gke-accelerator": "nvidia-h100-mega-80gb", "cloud.google.com/gke-accelerator-count": 8, "cloud.google.com/gke-gpu": true,
      "cloud.google.com/gke-gpu-driver-version": "latest", "cloud.google.com/gce-topology-block": "block-\(($i / 8) | floor)",
      "cloud.google.com/gce-topology-subblock": "sub-\(($i / 4) | floor)", "cloud.google.com/gce-topology-host": "host-\($i)"
    } + if $i >= 24 then {"cloud.google.com/reservation-name": "h100-2026"} else {} end)
  }) as $g | bare(41 + $i; "gke-a3-mega-\($i | two)"; $g);

# TPU slices: a node pool each, since all hosts of a slice come and go together.
def tpu($number; $slice; $i; $chip; $topology; $machine; $provisioning):
  gke($slice; "us-central1-a"; {
    machine: $machine, cpu: "112", ram: "192Gi", resources: {"google.com/tpu": "4"}, taints: [{key: "google.com/tpu", value: "present", effect: "NoSchedule"}],
    provider: "gce://tenant/us-central1-a/gke-\($slice)-\($i)",
    labels: ({
      "cloud.google.com/gke-tpu-accelerator": $chip, "cloud.google.com/gke-tpu-topology": $topology, "cloud.google.com/gke-accelerator-count": 4
    } + $provisioning)
  }) as $g | bare($number; "gke-\($slice)-\($i)"; $g);

# Karpenter's L40S nodes, spot.
def l40s($i):
  bare(121 + $i; "ip-10-0-\(100 + $i)-7.ec2.internal"; {
    machine: "g6e.12xlarge", cpu: "48", ram: "384Gi", resources: gpus(4), taints: nvidia, region: "us-east-1", zone: "us-east-1\(["a", "b", "c"][$i % 3])",
    image: "Amazon Linux 2023.9.20251105", provider: "aws:///us-east-1\(["a", "b", "c"][$i % 3])/i-0b40\(10000 + $i)",
    labels: (karpenter("l40s"; "spot") + {
      "karpenter.k8s.aws/instance-family": "g6e", "karpenter.k8s.aws/instance-gpu-count": 4, "karpenter.k8s.aws/instance-gpu-name": "l40s", "karpenter.k8s.aws/instance-size": "12xlarge"
    } + gfd({machine: "g6e.12xlarge", count: 4, product: "NVIDIA-L40S", memory: 46068, family: "ada-lovelace", compute: [8, 9]}))
  });

# A managed node group of EKS, bought as a capacity block.
def a100($i):
  bare(161 + $i; "ip-10-1-\($i)-9.ec2.internal"; {
    machine: "p4d.24xlarge", cpu: "96", ram: "1152Gi", resources: gpus(8), taints: nvidia, region: "us-east-1", zone: "us-east-1a",
    image: "Amazon Linux 2023.9.20251105", provider: "aws:///us-east-1a/i-0a40\(10000 + $i)",
    labels: ({
      "eks.amazonaws.com/nodegroup": "p4d", "eks.amazonaws.com/capacityType": "CAPACITY_BLOCK", "eks.amazonaws.com/nodegroup-image": "ami-00000000000000001",
      "topology.k8s.aws/network-node-layer-1": "nn-1", "topology.k8s.aws/network-node-layer-2": "nn-2\(($i / 8) | floor)", "topology.k8s.aws/network-node-layer-3": "nn-3\(($i / 4) | floor)"
    } + gfd({machine: "p4d.24xlarge", count: 8, product: "NVIDIA-A100-SXM4-40GB", memory: 40960, family: "ampere", compute: [8, 0], mig_capable: true}))
  });

def aks($pool; $machine; $more): {
  machine: $machine, region: "eastus2", zone: "eastus2-1", image: "Ubuntu 24.04.3 LTS",
  labels: ({
    "agentpool": $pool, "kubernetes.azure.com/agentpool": $pool, "kubernetes.azure.com/mode": "user", "kubernetes.azure.com/cluster": "MC_ml_fleet_eastus2",
    "kubernetes.azure.com/os-sku": "Ubuntu", "kubernetes.azure.com/role": "agent", "kubernetes.azure.com/storagetier": "Premium_LRS"
  } + $more.labels)
} + ($more | del(.labels));

# AKS: H100 nodes; the last two speak of their devices through the DRA driver only.
def ndh100($i):
  ("aks-ndh100-26093472-vmss\(100000 + $i)") as $name
  | bare(185 + $i; $name; aks("ndh100"; "Standard_ND96isr_H100_v5"; {
      cpu: "96", ram: "1900Gi", taints: (nvidia + [{key: "sku", value: "gpu", effect: "NoSchedule"}]), resources: (if $i >= 22 then {} else gpus(8) end),
      provider: "azure:///subscriptions/0/resourceGroups/mc_ml_fleet_eastus2/providers/Microsoft.Compute/virtualMachineScaleSets/aks-ndh100-26093472-vmss/virtualMachines/\($i)",
      labels: ({"kubernetes.azure.com/accelerator": "nvidia", "accelerator": "nvidia"}
        + if $i >= 22 then {"live.stokehold.dev/dra": "true"}
          else gfd({machine: "Virtual-Machine", count: 8, product: "NVIDIA-H100-80GB-HBM3", memory: 81559, family: "hopper", compute: [9, 0], mig_capable: true}) end)
    }));

# AKS: A100 nodes, spot.
def nca100($i):
  bare(209 + $i; "aks-nca100-31177210-vmss\(100000 + $i)"; aks("nca100"; "Standard_NC96ads_A100_v4"; {
    cpu: "96", ram: "880Gi", resources: gpus(4), taints: (nvidia + [{key: "kubernetes.azure.com/scalesetpriority", value: "spot", effect: "NoSchedule"}]),
    provider: "azure:///subscriptions/0/resourceGroups/mc_ml_fleet_eastus2/providers/Microsoft.Compute/virtualMachineScaleSets/aks-nca100-31177210-vmss/virtualMachines/\($i)",
    labels: ({"kubernetes.azure.com/accelerator": "nvidia", "accelerator": "nvidia", "kubernetes.azure.com/scalesetpriority": "spot"}
      + gfd({machine: "Virtual-Machine", count: 4, product: "NVIDIA-A100-80GB-PCIe", memory: 81920, family: "ampere", compute: [8, 0], mig_capable: true}))
  }));

# Machines without devices.
def plain($i):
  bare(221 + $i; "ip-10-2-\($i)-3.ec2.internal"; {
    machine: "m7i.16xlarge", cpu: "64", ram: "256Gi", region: "us-east-1", zone: "us-east-1\(["a", "b"][$i % 2])", image: "Amazon Linux 2023.9.20251105",
    provider: "aws:///us-east-1\(["a", "b"][$i % 2])/i-0c40\(10000 + $i)", labels: karpenter("general"; "on-demand")
  });

{
  apiVersion: "v1", kind: "List",
  items: (
    [range(32) as $i | h100($i)]
    + [range(4) as $s | range(4) as $i | tpu(73 + 4 * $s + $i; "v5e-\($s)"; $i; "tpu-v5-lite-podslice"; "4x4"; "ct5lp-hightpu-4t"; {})]
    + [range(2) as $s | range(4) as $i | tpu(89 + 4 * $s + $i; "v5p-\($s)"; $i; "tpu-v5p-slice"; "2x2x4"; "ct5p-hightpu-4t"; {"cloud.google.com/gke-spot": "true"})]
    + [range(40) as $i | l40s($i)]
    + [range(24) as $i | a100($i)]
    + [range(24) as $i | ndh100($i)]
    + [range(12) as $i | nca100($i)]
    + [range(24) as $i | plain($i)])
}
