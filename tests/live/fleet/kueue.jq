# Kueue's side of the large fleet: cohorts on two levels, quotas, queues and
# jobs. Two jobs borrow; then a job of another queue wants its own back, and
# Kueue preempts one of the two. jq -n --arg part queues|first|second|held -f kueue.jq

def kueue($kind; $name; $spec): {apiVersion: "kueue.x-k8s.io/v1beta2", kind: $kind, metadata: {name: $name}, spec: $spec};

def flavor($name; $labels; $more):
  kueue("ResourceFlavor"; $name; {nodeLabels: $labels, tolerations: [{key: "nvidia.com/gpu", operator: "Exists", effect: "NoSchedule"}]} + $more);

# One quota: [nominal, borrowing limit, lending limit], the limits null for none.
def quota($resource; $q): {name: $resource, nominalQuota: ($q[0] | tostring)}
  + (if $q[1] == null then {} else {borrowingLimit: ($q[1] | tostring)} end)
  + (if $q[2] == null then {} else {lendingLimit: ($q[2] | tostring)} end);

# $quotas: [[flavor, [nominal, borrow, lend]], ...]
def queue($name; $cohort; $resource; $quotas; $more):
  kueue("ClusterQueue"; $name; {
    namespaceSelector: {}, resourceGroups: [{coveredResources: [$resource], flavors: [$quotas[] | {name: .[0], resources: [quota($resource; .[1])]}]}]
  } + (if $cohort then {cohortName: $cohort} else {} end) + $more);

def local($namespace; $name; $queue): kueue("LocalQueue"; $name; {clusterQueue: $queue}) | .metadata.namespace = $namespace;

# $g: namespace, queue, pods, each, and optional resource, selector, class, priority, gang, annotations.
def job($name; $g):
  ({"kueue.x-k8s.io/queue-name": $g.queue} + if $g.class then {"kueue.x-k8s.io/priority-class": $g.class} else {} end) as $labels
  | {
      apiVersion: "batch/v1", kind: "Job", metadata: {name: $name, namespace: $g.namespace, labels: ($labels + ($g.labels // {}))},
      spec: ({
        parallelism: $g.pods, completions: $g.pods, backoffLimit: 3, suspend: true,
        template: {
          metadata: {annotations: ({"live.stokehold.dev/load": ($g.load // "busy")} + ($g.annotations // {}))},
          spec: ({
            restartPolicy: "Never", terminationGracePeriodSeconds: 2,
            tolerations: [{operator: "Exists", effect: "NoSchedule"}],
            containers: [{name: "main", image: "registry.example/train:3", resources: {requests: {cpu: "1", memory: "2Gi"}, limits: {($g.resource // "nvidia.com/gpu"): ($g.each | tostring)}}}]
          } + (if $g.selector then {nodeSelector: $g.selector} else {} end))
        }
      } + (if $g.pods > 1 then {completionMode: "Indexed"} else {} end))
    };

# (Kueue holds a selector against a flavor's own labels only: both bear the same key.)
def h100: {"node.kubernetes.io/instance-type": "a3-megagpu-8g"};
def l40s: {"node.kubernetes.io/instance-type": "g6e.12xlarge"};
def namespaces: ["research-llm", "research-vision", "product-serve", "product-batch", "tpu-lab"];
def gang($name; $namespace; $queue; $nodes; $class): job($name; {$namespace, $queue, pods: $nodes, each: 8, selector: h100, $class});
# One pod with $each L40S devices.
def small($name; $namespace; $queue; $each; $class): job($name; {$namespace, $queue, pods: 1, $each, selector: l40s, $class});

{
  queues: (
    [namespaces[] | {apiVersion: "v1", kind: "Namespace", metadata: {name: ., labels: {team: (split("-")[1])}}}]
    + [["urgent", 1000], ["normal", 100], ["low", 10]
       | {apiVersion: "kueue.x-k8s.io/v1beta2", kind: "WorkloadPriorityClass", metadata: {name: .[0]}, value: .[1], description: ""}]
    + [kueue("Topology"; "tpu-slices"; {levels: [{nodeLabel: "cloud.google.com/gke-nodepool"}, {nodeLabel: "kubernetes.io/hostname"}]}),
       flavor("h100-mega"; h100; {}), flavor("l40s"; l40s; {}),
       flavor("tpu-v5e"; {"cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice"};
         {topologyName: "tpu-slices", tolerations: [{key: "google.com/tpu", operator: "Exists", effect: "NoSchedule"}]}),
       kueue("Cohort"; "org"; {}), kueue("Cohort"; "research"; {parentName: "org"}), kueue("Cohort"; "product"; {parentName: "org"}),
       queue("research-llm"; "research"; "nvidia.com/gpu"; [["h100-mega", [96, 64, null]]];
         {preemption: {withinClusterQueue: "Never", reclaimWithinCohort: "Never"}}),
       queue("research-vision"; "research"; "nvidia.com/gpu"; [["h100-mega", [64, 0, null]], ["l40s", [40, 10, 20]]];
         {preemption: {withinClusterQueue: "LowerPriority", reclaimWithinCohort: "Any"}}),
       queue("product-serve"; "product"; "nvidia.com/gpu"; [["h100-mega", [48, null, 16]]]; {}),
       queue("product-batch"; "product"; "nvidia.com/gpu"; [["h100-mega", [48, null, null]], ["l40s", [40, null, null]]]; {fairSharing: {weight: "2"}}),
       queue("tpu-lab"; null; "google.com/tpu"; [["tpu-v5e", [64, null, null]]]; {}),
       queue("frozen"; null; "nvidia.com/gpu"; [["l40s", [8, null, null]]]; {stopPolicy: "Hold"})]
    + [local("research-llm"; "llm"; "research-llm"), local("research-vision"; "vision"; "research-vision"), local("product-serve"; "serve"; "product-serve"),
       local("product-batch"; "batch"; "product-batch"), local("product-batch"; "frozen"; "frozen"), local("tpu-lab"; "tpu"; "tpu-lab")]),

  # The quotas are full: 96 of its own and 64 borrowed for research-llm, 48 and 48 for the two of product.
  first: (
    [gang("moe-400b"; "research-llm"; "llm"; 12; "normal"),
     gang("ablate-a"; "research-llm"; "llm"; 4; "normal"), gang("ablate-b"; "research-llm"; "llm"; 4; "low"),
     gang("rerank"; "product-serve"; "serve"; 6; "urgent"), gang("distil"; "product-batch"; "batch"; 6; "normal")]
    + [range(3) | job("sweep-\(.)"; {namespace: "tpu-lab", queue: "tpu", resource: "google.com/tpu", pods: 4, each: 4,
        annotations: {"kueue.x-k8s.io/podset-required-topology": "cloud.google.com/gke-nodepool"}})]
    + [range(40) | small("batch-\(.)"; "product-batch"; "batch"; 1; "normal")]
    + [range(20) | small("aug-\(.)"; "research-vision"; "vision"; 2; "normal")]),

  # research-vision reclaims 32 of its 64: the younger and lower of the borrowers goes.
  second: [gang("detect-xl"; "research-vision"; "vision"; 4; "normal")],

  # What then waits: a queue of several with different priorities, one larger than its quota, and one behind a stopped queue.
  held: (
    [["long-run", 8, "normal"], ["tiny-run", 2, "low"], ["fix-run", 4, "urgent"], ["second-run", 4, "normal"]
       | gang(.[0]; "research-llm"; "llm"; .[1]; .[2])]
    + [gang("too-wide"; "research-vision"; "vision"; 40; "normal")]
    + [range(24) | small("more-\(.)"; "product-batch"; "batch"; 1; (if . % 3 == 0 then "low" else "normal" end))]
    + [small("stopped"; "product-batch"; "frozen"; 1; "normal")]
    + [job("sweep-wide"; {namespace: "tpu-lab", queue: "tpu", resource: "google.com/tpu", pods: 8, each: 4,
        annotations: {"kueue.x-k8s.io/podset-required-topology": "cloud.google.com/gke-nodepool"}})])
} | {apiVersion: "v1", kind: "List", items: .[$part]}
