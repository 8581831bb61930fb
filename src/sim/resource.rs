//! The table of resources that the simulated cluster serves: names, verbs, subresources, field selectors.

use serde_json::Value;

use super::change::Resource;
use super::json::{flag, int, name, namespace, text};

/// How a resource's main object is written back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spec {
    /// Which one.
    pub resource: Resource,
    /// API group; empty for the core group.
    pub group: &'static str,
    /// API version.
    pub version: &'static str,
    /// Kind of one object.
    pub kind: &'static str,
    /// Plural name, as in paths.
    pub plural: &'static str,
    /// Singular name.
    pub singular: &'static str,
    /// Short names, as `kubectl` takes them.
    pub short: &'static [&'static str],
    /// Categories, as `kubectl get all` takes them.
    pub categories: &'static [&'static str],
    /// True when it lives in namespaces.
    pub namespaced: bool,
    /// True when it is defined by a custom resource definition.
    pub custom: bool,
    /// Subresources by name.
    pub subresources: &'static [&'static str],
    /// The hash that discovery gives to the storage version.
    pub hash: &'static str,
}

const STATUS: &[&str] = &["status"];
const SCALED: &[&str] = &["scale", "status"];

const fn core(
    resource: Resource,
    kind: &'static str,
    names: [&'static str; 2],
    short: &'static [&'static str],
    namespaced: bool,
    subresources: &'static [&'static str],
    hash: &'static str,
) -> Spec {
    let [plural, singular] = names;
    Spec {
        resource,
        group: "",
        version: "v1",
        kind,
        plural,
        singular,
        short,
        categories: &[],
        namespaced,
        custom: false,
        subresources,
        hash,
    }
}

impl Spec {
    const fn of(mut self, group: &'static str, version: &'static str) -> Self {
        self.group = group;
        self.version = version;
        self
    }

    const fn all(mut self) -> Self {
        self.categories = &["all"];
        self
    }

    const fn custom(mut self) -> Self {
        self.custom = true;
        self
    }

    /// `VERSION` for the core group, else `GROUP/VERSION`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// `PLURAL` for the core group, else `PLURAL.GROUP`, as messages name a resource.
    pub fn qualified(&self) -> String {
        qualified(self.group, self.plural)
    }

    /// `KIND` for the core group, else `KIND.GROUP`, as messages name a kind.
    pub fn qualified_kind(&self) -> String {
        qualified(self.group, self.kind)
    }

    /// The name of the real server's Go package that holds the kind, as its messages show it.
    pub fn package(&self) -> &'static str {
        match self.group {
            _ if self.custom => "unstructured",
            "" => "core",
            group => group.split('.').next().unwrap_or(group),
        }
    }

    /// The verbs of the main resource, in the order of the real server's discovery.
    pub fn verbs(&self) -> &'static [&'static str] {
        if self.custom {
            &[
                "delete",
                "deletecollection",
                "get",
                "list",
                "patch",
                "create",
                "update",
                "watch",
            ]
        } else if self.resource == Resource::Namespaces {
            &[
                "create", "delete", "get", "list", "patch", "update", "watch",
            ]
        } else {
            &[
                "create",
                "delete",
                "deletecollection",
                "get",
                "list",
                "patch",
                "update",
                "watch",
            ]
        }
    }

    /// True when its `status` is written through a subresource only.
    pub fn has_status(&self) -> bool {
        self.subresources.contains(&"status")
    }

    /// True when `spec` changes count in `metadata.generation`.
    pub fn has_generation(&self) -> bool {
        self.has_status()
            && !matches!(
                self.resource,
                Resource::Nodes | Resource::Namespaces | Resource::Services
            )
    }
}

/// `NAME` for the core group, else `NAME.GROUP`.
pub fn qualified(group: &str, name: &str) -> String {
    if group.is_empty() {
        name.to_owned()
    } else {
        format!("{name}.{group}")
    }
}

/// Every resource served, grouped by API group and version in discovery order.
pub static SPECS: &[Spec] = &[
    core(
        Resource::ConfigMaps,
        "ConfigMap",
        ["configmaps", "configmap"],
        &["cm"],
        true,
        &[],
        "qFsyl6wFWjQ=",
    ),
    core(
        Resource::Events,
        "Event",
        ["events", "event"],
        &["ev"],
        true,
        &[],
        "r2yiGXH7wu8=",
    ),
    core(
        Resource::Namespaces,
        "Namespace",
        ["namespaces", "namespace"],
        &["ns"],
        false,
        &["finalize", "status"],
        "Q3oi5N2YM8M=",
    ),
    core(
        Resource::Nodes,
        "Node",
        ["nodes", "node"],
        &["no"],
        false,
        &["proxy", "status"],
        "XwShjMxG9Fs=",
    ),
    core(
        Resource::Pods,
        "Pod",
        ["pods", "pod"],
        &["po"],
        true,
        &[
            "attach",
            "binding",
            "ephemeralcontainers",
            "eviction",
            "exec",
            "log",
            "portforward",
            "proxy",
            "resize",
            "status",
        ],
        "xPOwRZ+Yhw8=",
    )
    .all(),
    core(
        Resource::ServiceAccounts,
        "ServiceAccount",
        ["serviceaccounts", "serviceaccount"],
        &["sa"],
        true,
        &[],
        "pbx9ZvyFpBE=",
    ),
    core(
        Resource::Services,
        "Service",
        ["services", "service"],
        &["svc"],
        true,
        &["proxy", "status"],
        "0/CO1lhkEBI=",
    )
    .all(),
    core(
        Resource::DaemonSets,
        "DaemonSet",
        ["daemonsets", "daemonset"],
        &["ds"],
        true,
        STATUS,
        "dd7pWHUlMKQ=",
    )
    .all()
    .of("apps", "v1"),
    core(
        Resource::Deployments,
        "Deployment",
        ["deployments", "deployment"],
        &["deploy"],
        true,
        SCALED,
        "8aSe+NMegvE=",
    )
    .all()
    .of("apps", "v1"),
    core(
        Resource::ReplicaSets,
        "ReplicaSet",
        ["replicasets", "replicaset"],
        &["rs"],
        true,
        SCALED,
        "P1RzHs8/mWQ=",
    )
    .all()
    .of("apps", "v1"),
    core(
        Resource::StatefulSets,
        "StatefulSet",
        ["statefulsets", "statefulset"],
        &["sts"],
        true,
        SCALED,
        "H+vl74LkKdo=",
    )
    .all()
    .of("apps", "v1"),
    core(
        Resource::PodAutoscalers,
        "HorizontalPodAutoscaler",
        ["horizontalpodautoscalers", "horizontalpodautoscaler"],
        &["hpa"],
        true,
        STATUS,
        "qwQve8ut294=",
    )
    .all()
    .of("autoscaling", "v2"),
    core(
        Resource::Jobs,
        "Job",
        ["jobs", "job"],
        &[],
        true,
        STATUS,
        "mudhfqk/qZY=",
    )
    .all()
    .of("batch", "v1"),
    core(
        Resource::PodDisruptionBudgets,
        "PodDisruptionBudget",
        ["poddisruptionbudgets", "poddisruptionbudget"],
        &["pdb"],
        true,
        STATUS,
        "EVWiDmWqyJw=",
    )
    .of("policy", "v1"),
    core(
        Resource::PriorityClasses,
        "PriorityClass",
        ["priorityclasses", "priorityclass"],
        &["pc"],
        false,
        &[],
        "1QwjyaZjj3Y=",
    )
    .of("scheduling.k8s.io", "v1"),
    core(
        Resource::Leases,
        "Lease",
        ["leases", "lease"],
        &[],
        true,
        &[],
        "gqkMMb/YqFM=",
    )
    .of("coordination.k8s.io", "v1"),
    core(
        Resource::JobSets,
        "JobSet",
        ["jobsets", "jobset"],
        &[],
        true,
        STATUS,
        "KpiKgyjBCag=",
    )
    .of("jobset.x-k8s.io", "v1alpha2")
    .custom(),
    core(
        Resource::ClusterQueues,
        "ClusterQueue",
        ["clusterqueues", "clusterqueue"],
        &["cq"],
        false,
        STATUS,
        "iGds19+cj/o=",
    )
    .of("kueue.x-k8s.io", "v1beta1")
    .custom(),
    core(
        Resource::LocalQueues,
        "LocalQueue",
        ["localqueues", "localqueue"],
        &["queue", "queues", "lq"],
        true,
        STATUS,
        "QS3xrHsn1fU=",
    )
    .of("kueue.x-k8s.io", "v1beta1")
    .custom(),
    core(
        Resource::ResourceFlavors,
        "ResourceFlavor",
        ["resourceflavors", "resourceflavor"],
        &["flavor", "flavors", "rf"],
        false,
        &[],
        "8cmMw/zZL6I=",
    )
    .of("kueue.x-k8s.io", "v1beta1")
    .custom(),
    core(
        Resource::Workloads,
        "Workload",
        ["workloads", "workload"],
        &["wl"],
        true,
        STATUS,
        "/RGEkJN+gBs=",
    )
    .of("kueue.x-k8s.io", "v1beta1")
    .custom(),
    core(
        Resource::NodePools,
        "NodePool",
        ["nodepools", "nodepool"],
        &[],
        false,
        STATUS,
        "Vc6J1THIlNI=",
    )
    .of("karpenter.sh", "v1")
    .custom(),
    core(
        Resource::NodeClaims,
        "NodeClaim",
        ["nodeclaims", "nodeclaim"],
        &[],
        false,
        STATUS,
        "QTizURWjI3E=",
    )
    .of("karpenter.sh", "v1")
    .custom(),
    core(
        Resource::ProvisioningRequests,
        "ProvisioningRequest",
        ["provisioningrequests", "provisioningrequest"],
        &["provreq", "provreqs"],
        true,
        STATUS,
        "qffvPoUECeA=",
    )
    .of("autoscaling.x-k8s.io", "v1")
    .custom(),
];

/// The entry of a resource.
pub fn spec(resource: Resource) -> &'static Spec {
    SPECS
        .iter()
        .find(|spec| spec.resource == resource)
        .expect("every resource of the seam stands in the table")
}

/// The entry served under a group, version and plural name.
pub fn find(group: &str, version: &str, plural: &str) -> Option<&'static Spec> {
    SPECS
        .iter()
        .find(|s| s.group == group && s.version == version && s.plural == plural)
}

/// The API groups with their versions, in discovery order, without the core group.
pub fn groups() -> Vec<(&'static str, &'static str)> {
    let mut groups: Vec<(&str, &str)> = vec![
        ("apps", "v1"),
        ("authentication.k8s.io", "v1"),
        ("authorization.k8s.io", "v1"),
    ];
    for spec in SPECS.iter().filter(|s| !s.group.is_empty()) {
        if !groups.contains(&(spec.group, spec.version)) {
            groups.push((spec.group, spec.version));
        }
    }
    groups
}

/// The value of a selectable field of an object.
///
/// # Errors
/// The API server's message when the resource cannot be selected by this field.
pub fn field(spec: &Spec, object: &Value, field: &str) -> Result<String, String> {
    let unsupported = || Err(format!("field label not supported: {field}"));
    match (spec.resource, field) {
        (_, "metadata.name") => return Ok(name(object).to_owned()),
        (_, "metadata.namespace") if spec.namespaced => return Ok(namespace(object).to_owned()),
        (Resource::Pods, "spec.host") => return Ok(text(object, "/spec/nodeName").to_owned()),
        (Resource::Pods, "status.podIPs") => return Ok(text(object, "/status/podIP").to_owned()),
        (Resource::Pods, "spec.hostNetwork") => {
            return Ok(flag(object, "/spec/hostNetwork").to_string());
        }
        (Resource::Nodes, "spec.unschedulable") => {
            return Ok(flag(object, "/spec/unschedulable").to_string());
        }
        (Resource::Namespaces, "name") => return Ok(name(object).to_owned()),
        (Resource::Jobs, "status.successful") => {
            return Ok(int(object, "/status/succeeded").to_string());
        }
        (Resource::Events, "source") => {
            let source = text(object, "/source/component");
            let named = if source.is_empty() {
                text(object, "/reportingComponent")
            } else {
                source
            };
            return Ok(named.to_owned());
        }
        _ => {}
    }
    let known: &[&str] = match spec.resource {
        Resource::Pods => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        Resource::Events => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "type",
        ],
        Resource::Namespaces => &["status.phase"],
        Resource::Services => &["spec.clusterIP", "spec.type"],
        Resource::Jobs => {
            return Err(format!(
                "field label {} not supported for Job",
                super::names::quoted(field)
            ));
        }
        Resource::Nodes => return unsupported(),
        _ if spec.custom => return unsupported(),
        _ => {
            return Err(format!(
                "{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
                super::names::quoted(field)
            ));
        }
    };
    if !known.contains(&field) {
        return unsupported();
    }
    Ok(text(object, &format!("/{}", field.replace('.', "/"))).to_owned())
}
