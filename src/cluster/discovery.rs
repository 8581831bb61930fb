//! What the API server serves, out of its discovery: one aggregated document, or the groups one by one.

use std::collections::{BTreeMap, BTreeSet};

use model::fleet::observe::Table;

use super::partial::{List, Text, partial};
use super::table::place;

partial! {
    /// What `GET /apis` answers: an aggregated `APIGroupDiscoveryList`, or a plain `APIGroupList`.
    Groups {
        /// Aggregated groups.
        items: List<AggregatedGroup> = "items",
        /// Plain groups.
        groups: List<PlainGroup> = "groups",
    }
}

partial! {
    /// A group with everything in it.
    AggregatedGroup {
        /// Its name.
        meta: Named = "metadata",
        /// Versions, the preferred one first.
        versions: List<AggregatedVersion> = "versions",
    }
}

partial! {
    /// What has a name.
    Named {
        /// Name.
        name: Text = "name",
    }
}

partial! {
    /// A version with its resources.
    AggregatedVersion {
        /// Version.
        version: Text = "version",
        /// `Current`, or `Stale` when the server behind it could not be asked.
        freshness: Text = "freshness",
        /// Resources.
        resources: List<AggregatedResource> = "resources",
    }
}

partial! {
    /// A resource.
    AggregatedResource {
        /// Plural.
        plural: Text = "resource",
    }
}

partial! {
    /// A group as `GET /apis/GROUP` answers, too.
    PlainGroup {
        /// Name.
        name: Text = "name",
        /// Versions.
        versions: List<PlainVersion> = "versions",
        /// The one to speak.
        preferred: PlainVersion = "preferredVersion",
    }
}

partial! {
    /// A version by name alone.
    PlainVersion {
        /// Version.
        version: Text = "version",
    }
}

partial! {
    /// What `GET /apis/GROUP/VERSION` answers: an `APIResourceList`.
    Resources {
        /// Resources and subresources.
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
pub enum Found {
    /// In this version.
    In(String),
    /// In none.
    Nowhere,
    /// In one of these versions, the preferred one first, or in none: to be asked one by one.
    Among(Vec<String>),
    /// The server behind the group cannot be asked now.
    Unsaid,
}

/// What the server said of the groups that we look for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Catalogue(BTreeMap<String, Vec<Version>>);

/// A version of a group.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Version {
    name: String,
    /// Plurals of ours in it; `None` when only its name is known.
    plurals: Option<BTreeSet<&'static str>>,
    stale: bool,
}

impl Groups {
    /// The part of it that concerns our tables; `None` when it is no list of groups at all.
    pub fn catalogue(&self) -> Option<Catalogue> {
        if self.items.is_empty() && self.groups.is_empty() {
            return None;
        }
        let wanted = |group: &str| {
            Table::ALL
                .iter()
                .filter(|table| place(**table).group == group)
                .map(|table| table.plural())
                .collect::<BTreeSet<&'static str>>()
        };
        let mut out = BTreeMap::new();
        for group in self.items.iter() {
            let ours = wanted(&group.meta.name);
            if ours.is_empty() {
                continue;
            }
            let versions = group.versions.iter().map(|version| Version {
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
            let versions = group.versions().into_iter().map(|name| Version {
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
    pub fn find(&self, table: Table) -> Found {
        let Some(versions) = self.0.get(place(table).group) else {
            return Found::Nowhere;
        };
        let named = |version: &&Version| {
            let plurals = version.plurals.as_ref();
            plurals.is_some_and(|plurals| plurals.contains(table.plural()))
        };
        if let Some(version) = versions.iter().find(named) {
            return Found::In(version.name.clone());
        }
        if versions.iter().any(|version| version.stale) {
            return Found::Unsaid;
        }
        let open: Vec<String> = versions
            .iter()
            .filter(|version| version.plurals.is_none())
            .map(|version| version.name.clone())
            .collect();
        match open.is_empty() {
            true => Found::Nowhere,
            false => Found::Among(open),
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
        let at = |version: &str| Found::In(version.to_owned());
        assert_eq!(found.find(Table::ClusterQueues), at("v1beta2"));
        assert_eq!(found.find(Table::Topologies), at("v1beta1"));
        assert_eq!(found.find(Table::Cohorts), Found::Nowhere);
        assert_eq!(found.find(Table::PodGroups), at("v1alpha2"));
        assert_eq!(found.find(Table::RayJobs), Found::Unsaid);
        assert_eq!(found.find(Table::VolcanoQueues), Found::Nowhere);
    }

    #[test]
    fn plain_groups_leave_the_versions_to_be_asked() {
        let found = catalogue(
            r#"{"kind":"APIGroupList","groups":[{"name":"jobset.x-k8s.io",
                "versions":[{"version":"v1alpha1"},{"version":"v1alpha2"}],"preferredVersion":{"version":"v1alpha2"}}]}"#,
        );
        let among = Found::Among(vec!["v1alpha2".to_owned(), "v1alpha1".to_owned()]);
        assert_eq!(found.find(Table::JobSets), among);
        assert_eq!(found.find(Table::RayJobs), Found::Nowhere);
    }

    #[test]
    fn nonsense_is_no_catalogue() {
        for text in ["{}", "null", "[]", "7", r#"{"items":null,"groups":"x"}"#] {
            let groups: Groups = serde_json::from_str(text).expect("lenient");
            assert_eq!(groups.catalogue(), None, "{text}");
        }
    }
}
