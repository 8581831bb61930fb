//! The permissions that each mutation needs, and the list of everything that may be written.

use serde::Serialize;

use model::base::SmallSort;
use model::fleet::kinds;
use model::plan::{Mutation, Object, Step};

use super::call::{Call, Method, Subresource};

/// One permission: a verb on a resource, as in RBAC and access reviews.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
pub struct Right {
    /// `get`, `create` or `patch`.
    pub verb: &'static str,
    /// API group; empty for the core group.
    pub group: String,
    pub resource: String,
    /// Subresource; empty for the object itself.
    pub subresource: &'static str,
    /// Namespace; empty for everywhere.
    pub namespace: String,
}

/// `patch jobs.batch`, `create pods/eviction`.
impl std::fmt::Display for Right {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        if !self.subresource.is_empty() {
            write!(f, "/{}", self.subresource)?;
        }
        if !self.namespace.is_empty() {
            write!(f, " in {}", self.namespace)?;
        }
        Ok(())
    }
}

/// What plans create: group, and plural with a subresource after a slash.
pub(crate) const CREATED: &[(&str, &str)] = &[
    ("", "pods/eviction"),
    ("", "events"),
    ("bus.volcano.sh", "commands"),
];

/// Everything that plans, and the runs around them, ever write: group, plural, subresource, verb.
pub fn writable() -> impl Iterator<Item = (&'static str, &'static str, &'static str, &'static str)>
{
    let patched = kinds::all().filter(|kind| kind.patched);
    patched
        .map(|kind| (kind.group, kind.plural, "", "patch"))
        .chain(CREATED.iter().map(|(group, resource)| {
            let (plural, subresource) = resource.split_once('/').unwrap_or((resource, ""));
            (*group, plural, subresource, "create")
        }))
}

/// Whether a request is one of [`writable`]: the write gate permits nothing else.
pub fn writes(group: &str, plural: &str, subresource: &str, verb: &str) -> bool {
    writable().any(|known| known == (group, plural, subresource, verb))
}

impl Call {
    /// Whether [`writable`] lists this call.
    pub fn is_listed(&self) -> bool {
        let place = &self.object.place;
        let subresource = match self.subresource {
            Subresource::None => "",
            Subresource::Eviction => "eviction",
        };
        writes(&place.group, &place.plural, subresource, self.method.verb())
    }
}

fn right(verb: &'static str, object: &Object, subresource: &'static str) -> Right {
    Right {
        verb,
        group: object.place.group.to_string(),
        resource: object.place.plural.to_string(),
        subresource,
        namespace: object.namespace.to_string(),
    }
}

/// The permissions that a step needs: to read its object and those it relies on, and to write.
pub fn rights(step: &Step) -> Vec<Right> {
    let it = &step.object;
    let mut all = vec![right("get", it, "")];
    for guard in &step.guards {
        all.push(right("get", &guard.object, ""));
    }
    all.push(match &step.mutation {
        Mutation::Evict { .. } => right(Method::Create.verb(), it, "eviction"),
        Mutation::VolcanoCommand { .. } => Right {
            verb: Method::Create.verb(),
            group: "bus.volcano.sh".to_owned(),
            resource: "commands".to_owned(),
            subresource: "",
            namespace: if it.namespace.is_empty() {
                "default".to_owned()
            } else {
                it.namespace.to_string()
            },
        },
        _ => right(Method::Patch.verb(), it, ""),
    });
    all.small_sort();
    all.dedup();
    all
}
