//! The permissions that reading needs: one list, from which roles are printed and access reviews are made.

use std::fmt::Write as _;

use model::fleet::observe::Table;

/// Verbs for resources that are listed and watched.
const WATCHED: &[&str] = &["get", "list", "watch"];

/// The API group that serves the order of a Kueue queue.
pub const VISIBILITY: &str = "visibility.kueue.x-k8s.io";

/// The role that shells and port-forwards in pods need besides the viewer's.
pub const SHELL: &str = include_str!("../../config/kubernetes/shell.yaml");

/// One permission, as a rule of a role.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Right {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Plural names, with a subresource after a slash.
    pub resources: Vec<&'static str>,
    /// Namespace and name of the only object that it covers; `None` for all.
    pub only: Option<(&'static str, &'static str)>,
    /// The one namespace in which it is used; `None` for any.
    pub namespace: Option<&'static str>,
    /// Verbs.
    pub verbs: &'static [&'static str],
    /// What is missing without this permission.
    pub what: &'static str,
}

/// Resources that are read besides tables.
const OTHERS: &[(&str, &str, &[&str], &str)] = &[
    ("", "events", &["list"], "events of an object"),
    ("", "pods/log", &["get"], "logs of a pod"),
];

/// Rights that only a user of the whole cluster needs.
const CLUSTER: &[(&str, &str, &[&str], &str)] = &[
    (
        "",
        "pods/proxy",
        &["get"],
        "exporters' pages through the API server",
    ),
    (
        "",
        "services",
        &["list"],
        "finding a Prometheus among the services",
    ),
    (
        "",
        "services/proxy",
        &["get"],
        "querying Prometheus through the API server",
    ),
];

/// The least rights for reading everything that is shown: over the whole cluster, or within a namespace.
pub fn rights(within: bool) -> Vec<Right> {
    let mut all: Vec<Right> = Vec::new();
    for table in Table::ALL {
        let api = table.api();
        if within && !api.namespaced {
            continue;
        }
        let known = all.iter_mut().find(|right| {
            right.group == api.group && right.only == api.only && right.namespace == api.namespace()
        });
        match known {
            Some(right) => right.resources.push(api.plural),
            None => all.push(Right {
                group: api.group,
                resources: vec![api.plural],
                only: api.only,
                namespace: api.namespace(),
                verbs: WATCHED,
                what: api.what,
            }),
        }
    }
    let cluster = CLUSTER.iter().filter(|_| !within);
    all.extend(
        OTHERS
            .iter()
            .chain(cluster)
            .map(|(group, resource, verbs, what)| Right {
                group,
                resources: vec![resource],
                only: None,
                namespace: None,
                verbs,
                what,
            }),
    );
    let orders = Table::ALL.contains(&Table::ClusterQueues) && !within;
    if orders {
        all.push(Right {
            group: VISIBILITY,
            resources: vec!["clusterqueues/pendingworkloads"],
            only: None,
            namespace: None,
            verbs: &["get"],
            what: "the order of a queue's pending workloads",
        });
    }
    all
}

/// The viewer's role as YAML: a ClusterRole, or with namespaces a Role in each of them.
pub fn viewer(namespaces: &[String]) -> String {
    if namespaces.is_empty() {
        let mut out = String::from(
            "# The least rights with which Stokehold shows everything: read nodes, pods, workloads and queues, and fetch the pages of\n\
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
            "# The least rights with which a team sees its jobs and queues in the namespace {namespace}: no nodes, no proxies. Devices come from\n\
             # a Prometheus at prometheus.url. Grant it with\n\
             #   kubectl -n {namespace} create rolebinding stokehold-viewer --role=stokehold-viewer --user=NAME"
        );
        role(&mut out, Some(namespace));
    }
    out
}

/// The role of a process that reads only tables, as YAML: no logs, no details of pods and services.
pub fn govern_reader() -> String {
    let mut out = String::from(
        "# What `stokehold govern` decides by: nodes, pods, workloads, queues. Printed by `stokehold rbac govern`.\n",
    );
    let all = rights(false);
    let of_tables = all.into_iter().filter(|right| right.verbs == WATCHED);
    named(&mut out, "stokehold-govern-reader", None, of_tables);
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
    rights: impl IntoIterator<Item = Right>,
) {
    let rights: Vec<Right> = rights.into_iter().collect();
    // A ClusterRole knows no namespaces: what is read in one of them may cover what is read in all.
    let is_covered = |right: &&Right| {
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
        let reader = govern_reader();
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
