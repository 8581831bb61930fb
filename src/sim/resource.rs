//! What is known of each resource that the simulated cluster serves: names, verbs, subresources, field selectors.

use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::Value;
use sha2::{Digest, Sha256};

use model::fleet::kinds::{self, Table};

use super::change::Resource;
use super::json::{flag, int, text};
use super::specs::SPECS;

/// A resource as the API server describes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spec {
    pub resource: Resource,
    /// The table of the fleet that lists it; `None` for what the fleet is not made of.
    pub table: Option<Table>,
    /// API group; empty for the core group.
    pub group: &'static str,
    pub version: &'static str,
    /// Kind of one object.
    pub kind: &'static str,
    /// Plural name, as in paths.
    pub plural: &'static str,
    /// Short names, as `kubectl` takes them.
    pub short: &'static [&'static str],
    /// Categories, as `kubectl get all` takes them.
    pub categories: &'static [&'static str],
    /// True when it lives in namespaces.
    pub namespaced: bool,
    pub subresources: &'static [&'static str],
}

impl Spec {
    /// A resource that a table of the fleet lists.
    pub(super) const fn listed(resource: Resource, version: &'static str, table: Table) -> Self {
        let api = table.api();
        let mut spec = Self::own(resource, version, api.group, api.plural, api.kind);
        spec.table = Some(table);
        spec.namespaced = api.namespaced;
        spec
    }

    /// A resource that no table of the fleet lists as a whole.
    pub(super) const fn own(
        resource: Resource,
        version: &'static str,
        group: &'static str,
        plural: &'static str,
        kind: &'static str,
    ) -> Self {
        Self {
            resource,
            table: None,
            group,
            version,
            kind,
            plural,
            short: &[],
            categories: &[],
            namespaced: true,
            subresources: &[],
        }
    }

    pub(super) const fn cluster_wide(mut self) -> Self {
        self.namespaced = false;
        self
    }

    pub(super) const fn sub(mut self, subresources: &'static [&'static str]) -> Self {
        self.subresources = subresources;
        self
    }

    pub(super) const fn short(mut self, names: &'static [&'static str]) -> Self {
        self.short = names;
        self
    }

    /// The same in the category `all`.
    pub(super) const fn all(mut self) -> Self {
        self.categories = &["all"];
        self
    }

    /// True when it is defined by a custom resource definition.
    pub fn is_custom(&self) -> bool {
        !kinds::is_built_in(self.group)
    }

    pub fn singular(&self) -> String {
        self.kind.to_ascii_lowercase()
    }

    /// The hash that discovery gives to the storage version: base64 of the first 8 bytes of the SHA-256 of `GROUP/VERSION/KIND`.
    pub fn hash(&self) -> String {
        let named = format!("{}/{}/{}", self.group, self.version, self.kind);
        BASE64_STANDARD.encode(&Sha256::digest(named)[..8])
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
            _ if self.is_custom() => "unstructured",
            "" => "core",
            group => group.split('.').next().unwrap_or(group),
        }
    }

    /// The verbs of the main resource, in the order of the real server's discovery.
    pub fn verbs(&self) -> &'static [&'static str] {
        if self.is_custom() {
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
    &SPECS[resource as usize]
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
    let pointer = format!("/{}", field.replace('.', "/"));
    let at = |pointer: &str| Ok(text(object, pointer).to_owned());
    match (spec.resource, field) {
        (_, "metadata.name") | (Resource::Namespaces, "name") => return at("/metadata/name"),
        (_, "metadata.namespace") if spec.namespaced => return at("/metadata/namespace"),
        (Resource::Pods, "spec.host") => return at("/spec/nodeName"),
        (Resource::Pods, "status.podIPs") => return at("/status/podIP"),
        (Resource::Pods, "spec.hostNetwork") | (Resource::Nodes, "spec.unschedulable") => {
            return Ok(flag(object, &pointer).to_string());
        }
        (Resource::Jobs, "status.successful") => {
            return Ok(int(object, "/status/succeeded").to_string());
        }
        (Resource::Events, "source") => {
            return match at("/source/component") {
                Ok(source) if !source.is_empty() => Ok(source),
                _ => at("/reportingComponent"),
            };
        }
        _ => {}
    }
    let known = match spec.resource {
        Resource::Pods => {
            "spec.nodeName spec.restartPolicy spec.schedulerName spec.serviceAccountName status.phase status.podIP \
             status.nominatedNodeName"
        }
        Resource::Events => {
            "involvedObject.kind involvedObject.namespace involvedObject.name involvedObject.uid \
             involvedObject.apiVersion involvedObject.resourceVersion involvedObject.fieldPath reason \
             reportingComponent type"
        }
        Resource::Namespaces => "status.phase",
        Resource::Services => "spec.clusterIP spec.type",
        Resource::ResourceSlices => "spec.nodeName spec.driver",
        Resource::Nodes => "",
        Resource::Jobs => {
            return Err(format!(
                "field label {} not supported for Job",
                super::names::quoted(field)
            ));
        }
        _ if spec.is_custom() => "",
        _ => {
            return Err(format!(
                "{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
                super::names::quoted(field)
            ));
        }
    };
    match known
        .split(' ')
        .any(|one| one == field && !field.is_empty())
    {
        true => at(&pointer),
        false => Err(format!("field label not supported: {field}")),
    }
}
