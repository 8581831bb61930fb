# What tests/live/scale puts beside the small fleet: $nodes machines of eight H100 and ten pods on each, one of which holds
# all eight. jq -n --arg part nodes|pods --argjson nodes 1980 -f scale.jq

def name: "far-\(.)";
def node: . as $i | {
  apiVersion: "v1", kind: "Node",
  metadata: {
    name: ($i | name),
    labels: {
      "kubernetes.io/hostname": ($i | name), "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "node.kubernetes.io/instance-type": "p5.48xlarge",
      "topology.kubernetes.io/region": "us-east-1", "topology.kubernetes.io/zone": "us-east-1\(["a", "b", "c"][$i % 3])",
      "karpenter.sh/nodepool": "far-\($i % 20)", "karpenter.sh/capacity-type": "on-demand",
      "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.count": "8", "nvidia.com/gpu.memory": "81559"
    }
  },
  spec: {
    providerID: "aws:///us-east-1a/i-0f00\(100000 + $i)", podCIDR: "10.\(100 + (($i / 250) | floor)).\($i % 250).0/24", podCIDRs: ["10.\(100 + (($i / 250) | floor)).\($i % 250).0/24"],
    taints: [{key: "live.stokehold.dev/far", effect: "NoSchedule"}]
  },
  status: ({cpu: "192", memory: "2048Gi", pods: "110", "nvidia.com/gpu": "8"} as $has | {
    capacity: $has, allocatable: $has,
    nodeInfo: {
      architecture: "amd64", operatingSystem: "linux", bootID: "", machineID: "", systemUUID: "", kernelVersion: "6.12.46", osImage: "Amazon Linux 2023.9.20251105",
      containerRuntimeVersion: "containerd://2.1.4", kubeletVersion: "v1.36.3", kubeProxyVersion: ""
    }})
};
def pod($i; $k): {
  apiVersion: "v1", kind: "Pod",
  metadata: {name: "far-\($i)-\($k)", namespace: "far", labels: {app: "far-\($i % 50)"}},
  spec: {
    nodeName: ($i | name), terminationGracePeriodSeconds: 1, tolerations: [{operator: "Exists"}],
    containers: [{name: "main", image: "registry.example/train:3", resources: ({requests: {cpu: "1", memory: "2Gi"}} + if $k == 0 then {limits: {"nvidia.com/gpu": "8"}} else {} end)}]
  }
};
{
  nodes: ([{apiVersion: "v1", kind: "Namespace", metadata: {name: "far", labels: {team: "far"}}}] + [range($nodes) | node]),
  pods: [range($nodes) as $i | range(10) as $k | pod($i; $k)]
} | {apiVersion: "v1", kind: "List", items: .[$part]}
