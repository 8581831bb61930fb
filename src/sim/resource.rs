//! What is known of each resource that the simulated cluster serves: names, verbs, subresources, field selectors.

use serde_json::Value;

use super::change::Resource;
use super::json::{flag, int, name, namespace, text};
use super::specs::SPECS;

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
    /// The hash that discovery gives to the storage version: base64 of the first 8 bytes of the SHA-256 of `GROUP/VERSION/KIND`.
    pub hash: &'static str,
}

impl Spec {
    /// The same in this group and version.
    pub(super) const fn of(mut self, group: &'static str, version: &'static str) -> Self {
        self.group = group;
        self.version = version;
        self
    }

    /// The same in the category `all`.
    pub(super) const fn all(mut self) -> Self {
        self.categories = &["all"];
        self
    }

    /// The same, defined by a custom resource definition.
    pub(super) const fn custom(mut self) -> Self {
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
        Resource::ResourceSlices => &["spec.nodeName", "spec.driver"],
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
