# What KAI and Karpenter need in the cluster beside their definitions.
# jq -n -f second.jq

def namespace($name): {apiVersion: "v1", kind: "Namespace", metadata: {$name}};
def class($name; $value): {apiVersion: "scheduling.k8s.io/v1", kind: "PriorityClass", metadata: {$name}, $value};

{
  apiVersion: "v1", kind: "List",
  items: [
    namespace("karpenter"), namespace("kai-scheduler"), namespace("kai-resource-reservation"),
    {apiVersion: "v1", kind: "ServiceAccount", metadata: {name: "kai-resource-reservation", namespace: "kai-resource-reservation"}},
    class("train"; 50), class("build"; 100), class("inference"; 125),
    {apiVersion: "karpenter.kwok.sh/v1alpha1", kind: "KWOKNodeClass", metadata: {name: "default"}}
  ]
}
