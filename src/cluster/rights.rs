//! The permissions that reading needs: one list, from which roles are printed and access reviews are made.

use std::fmt::Write as _;

use model::fleet::kinds::{self, KindRole, Table};

use super::mutations::CREATED;

/// Verbs for resources that are listed and watched.
const WATCHED: &[&str] = &["get", "list", "watch"];

/// What a role that writes is for.
const PLANS: &str = "carrying out plans";

/// The API group that serves the order of a Kueue queue.
pub const VISIBILITY: &str = "visibility.kueue.x-k8s.io";

/// The role that shells and port-forwards in pods need besides the viewer's.
pub const SHELL: &str = include_str!("../../config/kubernetes/shell.yaml");

/// One permission, as a rule of a role.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RoleRule {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Plural names, with a subresource after a slash.
    pub resources: Vec<&'static str>,
    /// Namespace and name of the only object that it covers; `None` for all.
    pub only: Option<(&'static str, &'static str)>,
    /// The one namespace in which it is used; `None` for any.
    pub namespace: Option<&'static str>,
    pub verbs: &'static [&'static str],
    /// Data that is missing without this permission.
    pub what: &'static str,
}

impl RoleRule {
    const fn new(group: &'static str, verbs: &'static [&'static str], what: &'static str) -> Self {
        Self {
            group,
            resources: Vec::new(),
            only: None,
            namespace: None,
            verbs,
            what,
        }
    }

    /// Adds a resource to the permissions: to the rule that grants the same otherwise, or as a rule.
    fn grant(self, resource: &'static str, all: &mut Vec<Self>) {
        let same = all.iter_mut().find(|known| {
            (known.group, known.only, known.namespace, known.verbs)
                == (self.group, self.only, self.namespace, self.verbs)
        });
        match same {
            Some(known) => known.resources.push(resource),
            None => all.push(Self {
                resources: vec![resource],
                ..self
            }),
        }
    }
}

/// Reads other than tables; `within` a namespace without the rule that only a user of the whole cluster needs.
const OTHERS: &[(bool, &str, &str, &[&str], &str)] = &[
    (true, "", "events", &["list"], "events of an object"),
    (true, "", "pods/log", &["get"], "logs of a pod"),
    (
        false,
        "",
        "pods/proxy",
        &["get"],
        "exporters' pages through the API server",
    ),
    (
        false,
        "",
        "services",
        &["list"],
        "finding a Prometheus among the services",
    ),
    (
        false,
        "",
        "services/proxy",
        &["get"],
        "querying Prometheus through the API server",
    ),
    (
        false,
        VISIBILITY,
        "clusterqueues/pendingworkloads",
        &["get"],
        "the order of a queue's pending workloads",
    ),
];

/// The least rights for reading everything that is shown: over the whole cluster, or within a namespace.
pub fn rights(within: bool) -> Vec<RoleRule> {
    let mut all: Vec<RoleRule> = Vec::new();
    let tables = Table::ALL.iter().map(|table| table.api());
    for api in tables.filter(|api| api.namespaced || !within) {
        let right = RoleRule {
            only: api.only,
            namespace: api.namespace(),
            ..RoleRule::new(api.group, WATCHED, api.what)
        };
        right.grant(api.plural, &mut all);
    }
    let others = OTHERS
        .iter()
        .filter(|(in_namespace, ..)| *in_namespace || !within);
    all.extend(others.map(|(_, group, resource, verbs, what)| RoleRule {
        resources: vec![resource],
        ..RoleRule::new(group, verbs, what)
    }));
    all
}

/// The viewer's role as YAML: a ClusterRole, or with namespaces a Role in each of them.
pub fn viewer(namespaces: &[String]) -> String {
    if namespaces.is_empty() {
        let mut out = String::from(
            "# The minimum permissions to show everything: read nodes, pods, workloads and queues, and fetch the pages of\n\
             # exporters and of Prometheus through the API server. Without the rules on proxies, devices are shown without their\n\
             # readings. Written by `stokehold rbac viewer`; grant it with\n\
             #   kubectl create clusterrolebinding stokehold-viewer --clusterrole=stokehold-viewer --user=NAME\n",
        );
        role(&mut out, None);
        return out;
    }
    let mut out = String::new();
    for namespace in namespaces {
        if !out.is_empty() {
            out.push_str("---\n");
        }
        let _ = writeln!(
            out,
            "# The minimum permissions for a team to see its jobs and queues in the namespace {namespace}: no nodes, no proxies. Devices come from\n\
             # a Prometheus at prometheus.url. Grant it with\n\
             #   kubectl -n {namespace} create rolebinding stokehold-viewer --role=stokehold-viewer --user=NAME"
        );
        role(&mut out, Some(namespace));
    }
    out
}

/// The role of `operator` besides the viewer's, as YAML: what plans read and write.
pub fn operator() -> String {
    let mut all = Vec::new();
    for kind in kinds::all() {
        let verbs: &[&str] = match (kind.patched, kinds::is_built_in(kind.group)) {
            (true, true) => &["patch"],
            (true, false) => &["get", "list", "watch", "patch"],
            // A job is looked up in it, and the viewer reads listed kinds alone.
            (false, _) if kind.table.is_none() && kind.role == KindRole::Job => &["get"],
            (false, _) => continue,
        };
        RoleRule::new(kind.group, verbs, PLANS).grant(kind.plural, &mut all);
    }
    for (group, resource) in CREATED {
        RoleRule::new(group, &["create"], PLANS).grant(resource, &mut all);
    }
    let classes = Table::PriorityClasses.api();
    RoleRule::new(classes.group, &["get", "list"], PLANS).grant(classes.plural, &mut all);
    let mut out = String::from(
        "# The minimum permissions to apply plans, in addition to what `stokehold rbac viewer` prints: bind both. Leave out the\n\
         # groups of systems that your cluster does not run, and Stokehold grays out their keys.\n",
    );
    named(&mut out, "stokehold-operator", None, all);
    out
}

/// The two roles of `govern` as YAML: its reads, without logs and details of pods and services, and its writes.
pub fn govern() -> String {
    let mut out = String::from(
        "# What `stokehold govern` reads: nodes, pods, workloads, queues. Printed by `stokehold rbac govern`.\n",
    );
    let all = rights(false);
    let of_tables = all.into_iter().filter(|right| right.verbs == WATCHED);
    named(&mut out, "stokehold-govern-reader", None, of_tables);
    out.push_str(
        "---\n\
         # What `stokehold govern` writes: bind both. It reads and patches the kinds of job that can be suspended, and writes events on\n\
         # them. Leave out the groups that your cluster does not serve.\n",
    );
    let mut writes = Vec::new();
    for kind in kinds::all().filter(|kind| kind.governed) {
        RoleRule::new(kind.group, &["get", "patch"], PLANS).grant(kind.plural, &mut writes);
    }
    RoleRule::new("", &["create"], PLANS).grant("events", &mut writes);
    named(&mut out, "stokehold-govern", None, writes);
    out
}

fn role(out: &mut String, namespace: Option<&str>) {
    let all = rights(namespace.is_some());
    named(out, "stokehold-viewer", namespace, all);
}

fn named(
    out: &mut String,
    name: &str,
    namespace: Option<&str>,
    rights: impl IntoIterator<Item = RoleRule>,
) {
    let rights: Vec<RoleRule> = rights.into_iter().collect();
    // A ClusterRole has no namespaces: the right to read a table in one namespace may cover reading it in all.
    let is_covered = |right: &&RoleRule| {
        rights.iter().any(|other| {
            other != *right
                && other.group == right.group
                && other.only.is_none()
                && right
                    .resources
                    .iter()
                    .all(|it| other.resources.contains(it))
                && right.verbs.iter().all(|it| other.verbs.contains(it))
        })
    };
    let kind = if namespace.is_some() {
        "Role"
    } else {
        "ClusterRole"
    };
    let _ = writeln!(
        out,
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: {kind}\nmetadata:\n  name: {name}"
    );
    if let Some(namespace) = namespace {
        let _ = writeln!(out, "  namespace: {namespace}");
    }
    out.push_str("rules:\n");
    for right in rights.iter().filter(|right| !is_covered(right)) {
        let group = if right.group.is_empty() {
            "\"\""
        } else {
            right.group
        };
        let only = right.only.map_or_else(String::new, |(_, name)| {
            format!("    resourceNames: [{name}]\n")
        });
        let _ = writeln!(
            out,
            "  - apiGroups: [{group}]\n    resources: [{}]\n{only}    verbs: [{}]",
            right.resources.join(", "),
            right.verbs.join(", ")
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_is_covered_and_nothing_writes() {
        let all = rights(false);
        for table in Table::ALL {
            let covered = all.iter().any(|right| {
                right.group == table.api().group
                    && right.only == table.api().only
                    && right.resources.contains(&table.plural())
                    && right.verbs == WATCHED
            });
            assert!(covered, "{}", table.name());
        }
        let verbs: Vec<&str> = all.iter().flat_map(|right| right.verbs).copied().collect();
        assert!(
            verbs
                .iter()
                .all(|verb| ["get", "list", "watch"].contains(verb))
        );
        let govern = govern();
        let (reader, _) = govern.split_once("---").expect("two roles");
        for absent in ["proxy", "pods/log", "services"] {
            assert!(!reader.contains(absent), "{absent}");
        }
        assert!(reader.contains("resources: [nodes, pods"), "{reader}");
        // Only the ConfigMaps that are read, by name.
        let maps = all
            .iter()
            .filter(|right| right.resources.contains(&"configmaps"));
        assert!(maps.into_iter().all(|right| right.only.is_some()));
        assert!(viewer(&[]).contains(
            "resources: [configmaps]\n    resourceNames: [cluster-autoscaler-status]\n    verbs: [get, list, watch]"
        ));
        let team = rights(true);
        let has = |resource: &str| team.iter().any(|right| right.resources.contains(&resource));
        assert!(has("pods") && has("jobs") && has("pods/log"));
        assert!(
            !has("nodes")
                && !has("configmaps")
                && !has("namespaces")
                && !has("pods/proxy")
                && !has("services")
        );
    }

    #[test]
    fn a_team_gets_a_role_in_each_of_its_namespaces() {
        let text = viewer(&["ml".to_owned(), "nlp".to_owned()]);
        assert_eq!(text.matches("kind: Role\n").count(), 2, "{text}");
        assert!(text.contains("  namespace: ml\n") && text.contains("\n---\n"));
        assert!(!text.contains("ClusterRole"));
    }
}
