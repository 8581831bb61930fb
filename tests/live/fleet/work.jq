# What runs on the large fleet apart from Kueue's: services without devices,
# serving, notebooks, jobs of other systems (JobSet's, LeaderWorkerSet's and
# Trainer's controllers run here, those of the others do not: what these would
# make, and write into a status, is made here), claims and autoscalers.
# jq -n --arg part owners|children|late|fill -f work.jq

def anything: [{operator: "Exists", effect: "NoSchedule"}];
def container($resource; $each): {
  name: "main", image: "registry.example/train:3",
  resources: ({requests: {cpu: "1", memory: "2Gi"}} + if $each > 0 then {limits: {($resource): ($each | tostring)}} else {} end)
};
def pods($selector; $resource; $each): {
  restartPolicy: "Never", terminationGracePeriodSeconds: 2, tolerations: anything, nodeSelector: $selector, containers: [container($resource; $each)]
};
def gpus($selector; $each): pods($selector; "nvidia.com/gpu"; $each);
def p4d: {"eks.amazonaws.com/nodegroup": "p4d"};
def nd: {"kubernetes.azure.com/agentpool": "ndh100", "nvidia.com/gpu.present": "true"};
def dra: {"live.stokehold.dev/dra": "true"};
def ray: {"karpenter.sh/nodepool": "l40s"};

def thing($version; $kind; $namespace; $name; $rest): {apiVersion: $version, $kind, metadata: ({$name} + if $namespace == "" then {} else {$namespace} end)} + $rest;
def owned($version; $kind; $name): .metadata.ownerReferences = [{apiVersion: $version, $kind, $name, uid: "?", controller: true, blockOwnerDeletion: true}];
def labelled($labels): .metadata.labels = ((.metadata.labels // {}) + $labels);
def pod($namespace; $name; $labels; $spec): thing("v1"; "Pod"; $namespace; $name; {$spec}) | labelled($labels);
def condition($type; $reason): {$type, status: "True", $reason, message: "", lastTransitionTime: "2026-11-20T08:00:00Z"};
def update($type; $reason): condition($type; $reason) + {lastUpdateTime: "2026-11-20T08:00:00Z"};

def job($namespace; $name; $count; $spec):
  thing("batch/v1"; "Job"; $namespace; $name; {spec: ({parallelism: $count, completions: $count, backoffLimit: 3, template: {spec: $spec}} + if $count > 1 then {completionMode: "Indexed"} else {} end)});
def deployment($namespace; $name; $count; $spec):
  thing("apps/v1"; "Deployment"; $namespace; $name; {spec: {
    replicas: $count, selector: {matchLabels: {app: $name}}, template: {metadata: {labels: {app: $name}}, spec: ($spec | del(.restartPolicy))}}}) | labelled({app: $name});
def budget($namespace; $name; $spec): thing("policy/v1"; "PodDisruptionBudget"; $namespace; $name; {spec: ($spec + {selector: {matchLabels: {app: $name}}})});
def claims($names): .containers[0].resources = {requests: {cpu: "1", memory: "2Gi"}, claims: [$names[] | {name: .}]};

# A replica of the training operator or of MPI, as it stands in the job's spec.
def replicas($count; $spec): {replicas: $count, restartPolicy: "OnFailure", template: {spec: ($spec | del(.restartPolicy))}};

def device($node; $i): {
  name: "gpu-\($i)",
  attributes: {
    uuid: {string: "GPU-0d0a0000-0000-4000-80\($node[-2:])-00000000000\($i)"}, productName: {string: "NVIDIA H100 80GB HBM3"}, brand: {string: "Nvidia"}, architecture: {string: "Hopper"},
    type: {string: "gpu"}, index: {int: $i}, driverVersion: {version: "580.95.5"}, cudaComputeCapability: {version: "9.0.0"}, "resource.kubernetes.io/pcieRoot": {string: "pci0000:\($i)0"}
  },
  capacity: {memory: {value: "81559Mi"}}
};
def slice($node; $count): thing("resource.k8s.io/v1"; "ResourceSlice"; ""; "\($node)-gpu.nvidia.com-0"; {
  spec: {driver: "gpu.nvidia.com", nodeName: $node, pool: {name: $node, generation: 1, resourceSliceCount: 1}, devices: [range($count) | device($node; .)]}});
def ask($count): {devices: {requests: [{name: "gpu", exactly: {deviceClassName: "gpu.nvidia.com", allocationMode: "ExactCount", count: $count}}]}};

{
  owners: (
    [["web", "shop"], ["inference", "inference"], ["robotics", "robotics"], ["lab", "lab"], ["claims", "claims"]
       | {apiVersion: "v1", kind: "Namespace", metadata: {name: .[0], labels: {team: .[1]}}}]
    # Exporters that GKE manages itself.
    + [{apiVersion: "v1", kind: "Namespace", metadata: {name: "gke-managed-system"}}]
    + [thing("apps/v1"; "DaemonSet"; "gke-managed-system"; "dcgm-exporter"; {spec: {
        selector: {matchLabels: {"app.kubernetes.io/name": "gke-managed-dcgm-exporter"}},
        template: {metadata: {labels: {"app.kubernetes.io/name": "gke-managed-dcgm-exporter"}}, spec: {
          priorityClassName: "system-node-critical", terminationGracePeriodSeconds: 1, nodeSelector: {"cloud.google.com/gke-accelerator": "nvidia-h100-mega-80gb"}, tolerations: anything,
          containers: [{name: "dcgm-exporter", image: "registry.example/gke-dcgm-exporter:3", ports: [{name: "metrics", containerPort: 9400}]}]}}}}) | labelled({"app.kubernetes.io/name": "gke-managed-dcgm-exporter"})]
    + [range(4) | deployment("web"; "shop-\(.)"; 100; pods({"karpenter.sh/nodepool": "general"}; ""; 0) | .containers[0].resources.requests = {cpu: "100m", memory: "64Mi"})]
    # (Most of the pods without devices are bound by hand, which is quicker than by the scheduler.)
    + [range(1072) | pod("web"; "page-\(.)"; {app: "page"}; {
        nodeName: "ip-10-2-\(. % 24)-3.ec2.internal", terminationGracePeriodSeconds: 1,
        containers: [{name: "main", image: "registry.example/page:1", resources: {requests: {cpu: "100m", memory: "64Mi"}}}]})]
    + [deployment("inference"; "embed"; 30; gpus(ray; 1) | .priorityClassName = "production"), budget("inference"; "embed"; {maxUnavailable: "20%"}),
       thing("autoscaling/v2"; "HorizontalPodAutoscaler"; "inference"; "embed"; {spec: {
         scaleTargetRef: {apiVersion: "apps/v1", kind: "Deployment", name: "embed"}, minReplicas: 30, maxReplicas: 30,
         metrics: [{type: "Pods", pods: {metric: {name: "queue_depth"}, target: {type: "AverageValue", averageValue: "8"}}}]}})]
    + [range(30) | pod("lab"; "notebook-\(.)"; {}; gpus({"kubernetes.azure.com/agentpool": "nca100"}; 1)) | .metadata.annotations = {"live.stokehold.dev/load": "idle"}]
    + [job("lab"; "v5p-run"; 4; pods({"cloud.google.com/gke-nodepool": "v5p-0"}; "google.com/tpu"; 4))]
    + [thing("trainer.kubeflow.org/v1alpha1"; "ClusterTrainingRuntime"; ""; "torch-distributed"; {spec: {mlPolicy: {numNodes: 1, torch: {}}, template: {spec: {replicatedJobs: [
         {name: "node", template: {metadata: {labels: {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}, spec: {template: {spec: {restartPolicy: "Never", terminationGracePeriodSeconds: 2, tolerations: anything, nodeSelector: p4d, containers: [{name: "node", image: "registry.example/train:3"}]}}}}}]}}}})]
    # The training operator, MPI, Kubeflow Trainer over JobSet, Ray, LeaderWorkerSet.
    + [thing("kubeflow.org/v1"; "PyTorchJob"; "robotics"; "walker"; {
         spec: {pytorchReplicaSpecs: {Master: replicas(1; gpus(p4d; 8)), Worker: replicas(3; gpus(p4d; 8))}},
         status: {startTime: "2026-11-20T08:00:00Z", conditions: [update("Created"; "PyTorchJobCreated"), update("Running"; "PyTorchJobRunning")], replicaStatuses: {Master: {active: 1}, Worker: {active: 3}}}}),
       thing("kubeflow.org/v2beta1"; "MPIJob"; "robotics"; "lidar"; {
         spec: {slotsPerWorker: 8, mpiReplicaSpecs: {Launcher: replicas(1; pods(p4d; ""; 0)), Worker: replicas(2; gpus(p4d; 8))}},
         status: {startTime: "2026-11-20T08:00:00Z", conditions: [update("Created"; "MPIJobCreated"), update("Running"; "MPIJobRunning")], replicaStatuses: {Launcher: {active: 1}, Worker: {active: 2}}}}),
       thing("jobset.x-k8s.io/v1alpha2"; "JobSet"; "research-llm"; "pretrain-moe"; {
         spec: {replicatedJobs: [{name: "node", replicas: 2, template: {spec: {parallelism: 4, completions: 4, completionMode: "Indexed", template: {spec: gpus(nd; 8)}}}}]}}),
       thing("ray.io/v1"; "RayJob"; "robotics"; "tune"; {
         spec: {entrypoint: "python tune.py", rayClusterSpec: {headGroupSpec: {rayStartParams: {}, template: {spec: pods(ray; ""; 0)}},
           workerGroupSpecs: [{groupName: "gpu", replicas: 3, minReplicas: 0, maxReplicas: 8, rayStartParams: {}, template: {spec: gpus(ray; 2)}}]}},
         status: {jobStatus: "RUNNING", jobDeploymentStatus: "Running", rayClusterName: "tune-raycluster-x7k2p", jobId: "tune-1"}}),
       thing("leaderworkerset.x-k8s.io/v1"; "LeaderWorkerSet"; "inference"; "llama"; {
         spec: {replicas: 2, leaderWorkerTemplate: {size: 2, restartPolicy: "RecreateGroupOnPodRestart", workerTemplate: {spec: (gpus(nd; 8) | del(.restartPolicy))}}}})]
    # Volcano and KAI.
    + [thing("scheduling.volcano.sh/v1beta1"; "Queue"; ""; "research"; {spec: {weight: 3, reclaimable: true, capability: {"nvidia.com/gpu": "64"}, deserved: {"nvidia.com/gpu": "32"}},
         status: {state: "Open", running: 1, pending: 0, inqueue: 0, allocated: {"nvidia.com/gpu": "16"}}}),
       thing("scheduling.volcano.sh/v1beta1"; "Queue"; ""; "idle"; {spec: {weight: 1}, status: {state: "Closed"}}),
       thing("batch.volcano.sh/v1alpha1"; "Job"; "robotics"; "sim-farm"; {spec: {minAvailable: 2, queue: "research", schedulerName: "volcano", tasks: [{name: "worker", replicas: 2, template: {spec: gpus(p4d; 8)}}]},
         status: {state: {phase: "Running"}, running: 2, minAvailable: 2}}),
       thing("scheduling.volcano.sh/v1beta1"; "PodGroup"; "robotics"; "sim-farm-5a1b"; {spec: {minMember: 2, queue: "research", minResources: {"nvidia.com/gpu": "16"}}, status: {phase: "Running", running: 2}}),
       thing("scheduling.run.ai/v2"; "Queue"; ""; "kai-root"; {spec: {resources: {gpu: {quota: 16, limit: 32, overQuotaWeight: 1}, cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}}}),
       thing("scheduling.run.ai/v2"; "Queue"; ""; "kai-lab"; {spec: {parentQueue: "kai-root", priority: 100, resources: {gpu: {quota: 8, limit: 16, overQuotaWeight: 2}, cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}},
         status: {allocated: {"nvidia.com/gpu": "8"}, requested: {"nvidia.com/gpu": "8"}}}),
       thing("scheduling.run.ai/v2alpha2"; "PodGroup"; "lab"; "pg-kai-train"; {spec: {queue: "kai-lab", minMember: 1, priorityClassName: "research"}, status: {phase: "Running", running: 1}})]
    # A gang of the core scheduler.
    + [thing("scheduling.k8s.io/v1alpha2"; "PodGroup"; "lab"; "core-gang"; {spec: {schedulingPolicy: {gang: {minCount: 2}}}})]
    # Claims: what the driver would write, what users ask for. kube-scheduler allocates.
    + [thing("resource.k8s.io/v1"; "DeviceClass"; ""; "gpu.nvidia.com"; {spec: {selectors: [{cel: {expression: "device.driver == 'gpu.nvidia.com'"}}]}}),
       slice("aks-ndh100-26093472-vmss100022"; 8), slice("aks-ndh100-26093472-vmss100023"; 8),
       thing("resource.k8s.io/v1"; "ResourceClaim"; "claims"; "four"; {spec: ask(4)}),
       thing("resource.k8s.io/v1"; "ResourceClaimTemplate"; "claims"; "each-two"; {spec: {spec: ask(2)}})]
    # Autoscalers.
    + [["l40s", "spot", "40"], ["general", "on-demand", "64"]
       | thing("karpenter.sh/v1"; "NodePool"; ""; .[0]; {
           spec: {limits: {"nvidia.com/gpu": "200"}, disruption: {consolidateAfter: "5m", consolidationPolicy: "WhenEmpty"}, template: {spec: {
             nodeClassRef: {group: "karpenter.k8s.aws", kind: "EC2NodeClass", name: "default"}, requirements: [{key: "karpenter.sh/capacity-type", operator: "In", values: [.[1]]}]}}},
           status: {resources: {nodes: .[2], "nvidia.com/gpu": "160"}, conditions: [condition("Ready"; "Ready")]}})]
    + [thing("autoscaling.x-k8s.io/v1"; "ProvisioningRequest"; "lab"; "burst"; {
         spec: {provisioningClassName: "queued-provisioning.gke.io", parameters: {maxRunDurationSeconds: "3600"}, podSets: [{count: 4, podTemplateRef: {name: "burst"}}]},
         status: {conditions: [condition("Accepted"; "Accepted")]}})]),

  children: (
    [pod("robotics"; "walker-master-0"; {"training.kubeflow.org/job-name": "walker", "training.kubeflow.org/replica-type": "master", "training.kubeflow.org/replica-index": "0"}; gpus(p4d; 8)),
     (range(3) | pod("robotics"; "walker-worker-\(.)"; {"training.kubeflow.org/job-name": "walker", "training.kubeflow.org/replica-type": "worker", "training.kubeflow.org/replica-index": "\(.)"}; gpus(p4d; 8)))
     | owned("kubeflow.org/v1"; "PyTorchJob"; "walker")]
    + [pod("robotics"; "lidar-launcher-x2k9p"; {"training.kubeflow.org/job-name": "lidar", "training.kubeflow.org/job-role": "launcher"}; pods(p4d; ""; 0)) | owned("kubeflow.org/v2beta1"; "MPIJob"; "lidar")]
    + [range(2) | pod("robotics"; "lidar-worker-\(.)"; {"training.kubeflow.org/job-name": "lidar", "training.kubeflow.org/job-role": "worker"}; gpus(p4d; 8)) | owned("kubeflow.org/v2beta1"; "MPIJob"; "lidar")]
    # (Trainer refuses a job whose runtime it does not know yet.)
    + [thing("trainer.kubeflow.org/v1alpha1"; "TrainJob"; "robotics"; "grasp"; {
         spec: {runtimeRef: {apiGroup: "trainer.kubeflow.org", kind: "ClusterTrainingRuntime", name: "torch-distributed"}, trainer: {numNodes: 2, resourcesPerNode: {limits: {"nvidia.com/gpu": "8"}}}}})]
    + [thing("ray.io/v1"; "RayCluster"; "robotics"; "tune-raycluster-x7k2p"; {
         spec: {headGroupSpec: {rayStartParams: {}, template: {spec: pods(ray; ""; 0)}}, workerGroupSpecs: [{groupName: "gpu", replicas: 3, minReplicas: 0, maxReplicas: 8, rayStartParams: {}, template: {spec: gpus(ray; 2)}}]},
         status: {state: "ready", desiredWorkerReplicas: 3, readyWorkerReplicas: 3, availableWorkerReplicas: 3, desiredGPU: "6"}}) | owned("ray.io/v1"; "RayJob"; "tune")]
    + [range(2) | pod("robotics"; "sim-farm-worker-\(.)"; {"volcano.sh/job-name": "sim-farm", "volcano.sh/queue-name": "research"}; gpus(p4d; 8))
       | .metadata.annotations = {"scheduling.k8s.io/group-name": "sim-farm-5a1b"} | owned("batch.volcano.sh/v1alpha1"; "Job"; "sim-farm")]
    + [pod("lab"; "kai-train"; {"kai.scheduler/queue": "kai-lab"}; gpus(p4d; 8)) | .metadata.annotations = {"pod-group-name": "pg-kai-train"}]
    + [range(2) | pod("lab"; "core-gang-\(.)"; {}; gpus(p4d; 8) | .schedulingGroup = {podGroupName: "core-gang"})]
    + [pod("claims"; "four-at-once"; {}; pods(dra; ""; 0) | claims(["gpu"]) | .resourceClaims = [{name: "gpu", resourceClaimName: "four"}]),
       job("claims"; "two-each"; 3; pods(dra; ""; 0) | claims(["gpu"]) | .resourceClaims = [{name: "gpu", resourceClaimTemplateName: "each-two"}])]),

  # When the first gangs have their nodes: the rest of the gangs.
  late: (
    [pod("robotics"; "tune-raycluster-x7k2p-head-a1"; {"ray.io/cluster": "tune-raycluster-x7k2p", "ray.io/node-type": "head"}; pods(ray; ""; 0)),
       (range(3) | pod("robotics"; "tune-raycluster-x7k2p-gpu-worker-b\(.)"; {"ray.io/cluster": "tune-raycluster-x7k2p", "ray.io/node-type": "worker", "ray.io/group": "gpu"}; gpus(ray; 2)))
       | owned("ray.io/v1"; "RayCluster"; "tune-raycluster-x7k2p")]),

  # When every gang has its nodes: what would break whole nodes up.
  fill: [job("lab"; "sweep"; 48; gpus(p4d; 1))]
} | {apiVersion: "v1", kind: "List", items: .[$part]}
