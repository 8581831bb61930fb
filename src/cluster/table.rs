//! Where each table stands in the API: group, version, plural, kind and scope.

use serde::Deserialize;

use crate::fleet::observe::Table;

/// The API coordinates of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Version; empty where the cluster decides and discovery must be asked.
    pub version: &'static str,
    /// Kind of one object.
    pub kind: &'static str,
    /// True when its objects live in namespaces.
    pub namespaced: bool,
}

/// The API coordinates of `table`.
pub const fn place(table: Table) -> Place {
    let (group, version, kind, namespaced) = match table {
        Table::Nodes => ("", "v1", "Node", false),
        Table::Pods => ("", "v1", "Pod", true),
        Table::Namespaces => ("", "v1", "Namespace", false),
        Table::ReplicaSets => ("apps", "v1", "ReplicaSet", true),
        Table::Deployments => ("apps", "v1", "Deployment", true),
        Table::StatefulSets => ("apps", "v1", "StatefulSet", true),
        Table::DaemonSets => ("apps", "v1", "DaemonSet", true),
        Table::Jobs => ("batch", "v1", "Job", true),
        // Its versions have changed before and will again: whichever the cluster serves.
        Table::JobSets => ("jobset.x-k8s.io", "", "JobSet", true),
    };
    Place {
        group,
        version,
        kind,
        namespaced,
    }
}

/// What an API group says of itself (`GET /apis/GROUP`).
#[derive(Deserialize, Default, Debug)]
#[serde(default, rename_all = "camelCase")]
pub struct Group {
    versions: Vec<GroupVersion>,
    preferred_version: Option<GroupVersion>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(default)]
struct GroupVersion {
    version: String,
}

impl Group {
    /// The version to speak: the one the server prefers, else the first it serves.
    pub fn version(&self) -> Option<&str> {
        self.preferred_version
            .iter()
            .chain(&self.versions)
            .map(|known| known.version.as_str())
            .find(|version| !version.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_names_the_version_to_speak() {
        let group: Group = serde_json::from_str(
            r#"{"kind":"APIGroup","versions":[{"version":"v1alpha1"},{"version":"v1alpha2"}],
                "preferredVersion":{"groupVersion":"jobset.x-k8s.io/v1alpha2","version":"v1alpha2"}}"#,
        )
        .expect("a group");
        assert_eq!(group.version(), Some("v1alpha2"));
        let bare: Group =
            serde_json::from_str(r#"{"versions":[{"version":"v1"}]}"#).expect("a group");
        assert_eq!(bare.version(), Some("v1"));
        assert_eq!(Group::default().version(), None);
    }

    #[test]
    fn only_nodes_and_namespaces_are_cluster_wide() {
        for table in Table::ALL {
            let wide = matches!(table, Table::Nodes | Table::Namespaces);
            assert_eq!(place(*table).namespaced, !wide, "{table:?}");
        }
    }
}
