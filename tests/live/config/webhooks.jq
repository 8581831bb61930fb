# What a controller of jobs needs in the cluster, out of its module's manifests: its webhooks are reached at an address instead
# of a service. Run over them with $program, $url and $ca (base64).

# Its kustomization limits the webhooks of pods to its own.
def own: {jobset: "jobset.sigs.k8s.io/jobset-name", lws: "leaderworkerset.sigs.k8s.io/name"}[$program];

.items |= map(
  if .kind | endswith("WebhookConfiguration") then
    .metadata.name = "\($program)-" + .metadata.name
    | .webhooks |= map(
        .clientConfig = {url: ($url + .clientConfig.service.path), caBundle: $ca}
        | if .name | endswith("pod.kb.io") then .objectSelector = {matchExpressions: [{key: own, operator: "Exists"}]} else . end)
  else . end)
