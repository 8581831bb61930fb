//! Discovery: the groups, versions and resources that the API server serves, from one aggregated document or group by group.

use std::collections::{BTreeMap, BTreeSet};

use model::fleet::observe::Table;

use super::lenient_json::{List, Text, partial};

partial! {
    /// What `GET /apis` answers: an aggregated `APIGroupDiscoveryList`, or a plain `APIGroupList`.
    Groups {
        items: List<AggregatedGroup> = "items",
        groups: List<PlainGroup> = "groups",
    }
}

partial! {
    /// A group with its versions and resources.
    AggregatedGroup {
        meta: Named = "metadata",
        /// Versions, the preferred one first.
        versions: List<AggregatedVersion> = "versions",
    }
}

partial! {
    /// An object of which only the name is read.
    Named {
        name: Text = "name",
    }
}

partial! {
    /// A version with its resources.
    AggregatedVersion {
        version: Text = "version",
        /// `Current`, or `Stale` when the server behind it did not answer.
        freshness: Text = "freshness",
        resources: List<AggregatedResource> = "resources",
    }
}

partial! {
    AggregatedResource {
        plural: Text = "resource",
    }
}

partial! {
    /// A group as `GET /apis/GROUP` answers, too.
    PlainGroup {
        name: Text = "name",
        versions: List<PlainVersion> = "versions",
        preferred: PlainVersion = "preferredVersion",
    }
}

partial! {
    /// A version by name only.
    PlainVersion {
        version: Text = "version",
    }
}

partial! {
    /// What `GET /apis/GROUP/VERSION` answers: an `APIResourceList`.
    Resources {
        resources: List<Named> = "resources",
    }
}

impl PlainGroup {
    /// Versions, the preferred one first.
    pub fn versions(&self) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for version in std::iter::once(&self.preferred).chain(self.versions.iter()) {
            if let Some(version) = version.version.get()
                && !all.iter().any(|known| known == version)
            {
                all.push(version.to_owned());
            }
        }
        all
    }
}

impl Resources {
    /// True when this plural is among them.
    pub fn has(&self, plural: &str) -> bool {
        self.resources.iter().any(|known| &*known.name == plural)
    }
}

/// Where a table is served.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TableLocation {
    In(String),
    /// The server serves it in no version.
    Nowhere,
    /// Possibly in one of these versions, the preferred one first: each must be queried.
    Among(Vec<String>),
    /// The server behind the group does not answer.
    Unsaid,
}

/// The served versions of the API groups that we look for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Catalogue(BTreeMap<String, Vec<ServedVersion>>);

/// A version of a group.
#[derive(Clone, PartialEq, Eq, Debug)]
struct ServedVersion {
    name: String,
    /// Our plurals in this version; `None` when only the version's name is known.
    plurals: Option<BTreeSet<&'static str>>,
    stale: bool,
}

impl Groups {
    /// The groups that our tables need; `None` when the document is not a list of groups.
    pub fn catalogue(&self) -> Option<Catalogue> {
        if self.items.is_empty() && self.groups.is_empty() {
            return None;
        }
        let wanted = |group: &str| {
            Table::ALL
                .iter()
                .filter(|table| table.api().group == group)
                .map(|table| table.plural())
                .collect::<BTreeSet<&'static str>>()
        };
        let mut out = BTreeMap::new();
        for group in self.items.iter() {
            let ours = wanted(&group.meta.name);
            if ours.is_empty() {
                continue;
            }
            let versions = group.versions.iter().map(|version| ServedVersion {
                name: version.version.to_string(),
                plurals: Some(
                    ours.iter()
                        .filter(|plural| {
                            version
                                .resources
                                .iter()
                                .any(|resource| &*resource.plural == **plural)
                        })
                        .copied()
                        .collect(),
                ),
                stale: &*version.freshness == "Stale",
            });
            out.insert(group.meta.name.to_string(), versions.collect());
        }
        for group in self.groups.iter() {
            if wanted(&group.name).is_empty() {
                continue;
            }
            let versions = group.versions().into_iter().map(|name| ServedVersion {
                name,
                plurals: None,
                stale: false,
            });
            out.insert(group.name.to_string(), versions.collect());
        }
        Some(Catalogue(out))
    }
}

impl Catalogue {
    /// Where this table is served.
    pub fn find(&self, table: Table) -> TableLocation {
        let Some(versions) = self.0.get(table.api().group) else {
            return TableLocation::Nowhere;
        };
        let named = |version: &&ServedVersion| {
            let plurals = version.plurals.as_ref();
            plurals.is_some_and(|plurals| plurals.contains(table.plural()))
        };
        if let Some(version) = versions.iter().find(named) {
            return TableLocation::In(version.name.clone());
        }
        if versions.iter().any(|version| version.stale) {
            return TableLocation::Unsaid;
        }
        let open: Vec<String> = versions
            .iter()
            .filter(|version| version.plurals.is_none())
            .map(|version| version.name.clone())
            .collect();
        match open.is_empty() {
            true => TableLocation::Nowhere,
            false => TableLocation::Among(open),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalogue(text: &str) -> Catalogue {
        let groups: Groups = serde_json::from_str(text).expect("lenient");
        groups.catalogue().expect("groups")
    }

    #[test]
    fn the_aggregated_document_says_where_each_table_is() {
        let found = catalogue(
            r#"{"kind":"APIGroupDiscoveryList","items":[
                {"metadata":{"name":"kueue.x-k8s.io"},"versions":[
                    {"version":"v1beta2","freshness":"Current","resources":[{"resource":"clusterqueues"},{"resource":"workloads"}]},
                    {"version":"v1beta1","freshness":"Current","resources":[{"resource":"clusterqueues"},{"resource":"topologies"}]}]},
                {"metadata":{"name":"scheduling.k8s.io"},"versions":[
                    {"version":"v1","resources":[{"resource":"priorityclasses"}]},
                    {"version":"v1alpha2","resources":[{"resource":"podgroups"},{"resource":"workloads"}]}]},
                {"metadata":{"name":"ray.io"},"versions":[{"version":"v1","freshness":"Stale"}]},
                {"metadata":{"name":"somebody.else"},"versions":[{"version":"v1","resources":[{"resource":"queues"}]}]}]}"#,
        );
        let at = |version: &str| TableLocation::In(version.to_owned());
        assert_eq!(found.find(Table::ClusterQueues), at("v1beta2"));
        assert_eq!(found.find(Table::Topologies), at("v1beta1"));
        assert_eq!(found.find(Table::Cohorts), TableLocation::Nowhere);
        assert_eq!(found.find(Table::PodGroups), at("v1alpha2"));
        assert_eq!(found.find(Table::RayJobs), TableLocation::Unsaid);
        assert_eq!(found.find(Table::VolcanoQueues), TableLocation::Nowhere);
    }

    #[test]
    fn plain_groups_leave_the_versions_to_be_asked() {
        let found = catalogue(
            r#"{"kind":"APIGroupList","groups":[{"name":"jobset.x-k8s.io",
                "versions":[{"version":"v1alpha1"},{"version":"v1alpha2"}],"preferredVersion":{"version":"v1alpha2"}}]}"#,
        );
        let among = TableLocation::Among(vec!["v1alpha2".to_owned(), "v1alpha1".to_owned()]);
        assert_eq!(found.find(Table::JobSets), among);
        assert_eq!(found.find(Table::RayJobs), TableLocation::Nowhere);
    }

    #[test]
    fn nonsense_is_no_catalogue() {
        for text in ["{}", "null", "[]", "7", r#"{"items":null,"groups":"x"}"#] {
            let groups: Groups = serde_json::from_str(text).expect("lenient");
            assert_eq!(groups.catalogue(), None, "{text}");
        }
    }
}
