# What Kueue needs in the cluster, out of its own definitions: its webhooks and
# conversions are reached at an address instead of a service. Run over its
# definitions, roles and webhooks with $url and $ca (base64).
def client($path): {url: ($url + $path), caBundle: $ca};

def account: {kind: "User", apiGroup: "rbac.authorization.k8s.io", name: "system:serviceaccount:kueue-system:kueue-controller-manager"};

def bound($name; $role): {
  apiVersion: "rbac.authorization.k8s.io/v1", kind: "ClusterRoleBinding", metadata: {name: $name},
  roleRef: {apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: $role}, subjects: [account]
};

[.[].items[]] | map(
  if .kind == "CustomResourceDefinition" and (.metadata.name | IN("localqueues.kueue.x-k8s.io", "clusterqueues.kueue.x-k8s.io", "cohorts.kueue.x-k8s.io",
      "workloads.kueue.x-k8s.io", "multikueueclusters.kueue.x-k8s.io")) then
    .spec.conversion = {strategy: "Webhook", webhook: {conversionReviewVersions: ["v1"], clientConfig: client("/convert")}}
  elif .kind | endswith("WebhookConfiguration") then
    .metadata.name = "kueue-" + .metadata.name
    | .webhooks |= map(
        .clientConfig = client(.clientConfig.service.path)
        # Only pods of the namespaces that say so: the plane's other pods are none of Kueue's.
        | if .name | test("^[mv](pod|deployment|statefulset)\\.") then .namespaceSelector = {matchLabels: {"live.stokehold.dev/kueue": "pods"}} else . end)
  elif .metadata.namespace then .metadata.namespace = "kueue-system" | .metadata.name = "kueue-" + .metadata.name
  elif .kind == "ClusterRole" then .metadata.name = "kueue-" + .metadata.name
  else . end)
| (map(select(.kind == "CustomResourceDefinition"))) as $definitions
| {
    definitions: {apiVersion: "v1", kind: "List", items: $definitions},
    webhooks: {apiVersion: "v1", kind: "List", items: map(select(.kind | endswith("WebhookConfiguration")))},
    rest: {apiVersion: "v1", kind: "List", items: (
      [{apiVersion: "v1", kind: "Namespace", metadata: {name: "kueue-system"}}]
      + map(select(.kind | IN("ClusterRole", "Role")))
      + [bound("kueue-manager"; "kueue-manager-role"), bound("kueue-delegator"; "system:auth-delegator"),
         {apiVersion: "rbac.authorization.k8s.io/v1", kind: "RoleBinding", metadata: {name: "kueue-secrets", namespace: "kueue-system"},
          roleRef: {apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: "kueue-manager-secrets-role"}, subjects: [account]},
         {apiVersion: "rbac.authorization.k8s.io/v1", kind: "RoleBinding", metadata: {name: "kueue-visibility", namespace: "kube-system"},
          roleRef: {apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: "extension-apiserver-authentication-reader"}, subjects: [account]},
         {apiVersion: "v1", kind: "Service", metadata: {name: "visibility-server", namespace: "kueue-system"}, spec: {ports: [{name: "https", port: 443, targetPort: 8082}]}},
         {apiVersion: "v1", kind: "Endpoints", metadata: {name: "visibility-server", namespace: "kueue-system"},
          subsets: [{addresses: [{ip: "10.255.0.1"}], ports: [{name: "https", port: 8082}]}]}]
      + ["v1beta1", "v1beta2"] | map(if type == "object" then . else
          {apiVersion: "apiregistration.k8s.io/v1", kind: "APIService", metadata: {name: "\(.).visibility.kueue.x-k8s.io"},
           spec: {group: "visibility.kueue.x-k8s.io", version: ., groupPriorityMinimum: 100, versionPriority: 100, insecureSkipTLSVerify: true,
             service: {name: "visibility-server", namespace: "kueue-system"}}} end))}
  }
