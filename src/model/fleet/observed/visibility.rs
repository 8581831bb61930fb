//! Visibility: the part of the cluster that RBAC allows to read. Invisible data is neither empty nor lost; totals, reasons,
//! suggestions and alerts check it here.

use std::collections::BTreeMap;
use std::fmt::Display;

use crate::base::Name;

use super::kinds::Table;
use super::observe::ListedNamespaces;
use crate::fleet::fleet::{Fleet, TableState};
use crate::fleet::pool::{PoolSight, VisibleCounts};

/// How to get the missing permissions on the whole cluster.
pub const HELP: &str = "ask for the role that `stokehold rbac viewer` prints";

/// The command that prints the role for reading within these namespaces.
pub fn viewer_of<N: Display>(namespaces: &[N]) -> String {
    let names: Vec<String> = namespaces.iter().map(ToString::to_string).collect();
    format!("`stokehold rbac viewer -n {}`", names.join(","))
}

/// How to get the missing permissions within these namespaces; on the whole cluster where there is none.
pub fn help_within<N: Display>(namespaces: &[N]) -> String {
    match namespaces {
        [] => HELP.to_owned(),
        _ => format!(
            "ask for the role that {} prints, or without -n for the whole cluster",
            viewer_of(namespaces)
        ),
    }
}

/// Workloads outside of the namespaces that the operator chose, in [`Fleet::unseen`]: a choice, not missing permissions.
const NOT_CHOSEN: &str = "namespaces that were not chosen";

/// Workloads outside of the one namespace that is read because listing all is forbidden: whether they are visible is not known.
const NOT_READ: &str = "namespaces that were not read";

/// What [`Fleet::unseen`] names, as the end of a sentence: `nodes and queues not visible to you`.
pub fn unseen_words(unseen: &[Name]) -> String {
    let hidden: Vec<&str> = unseen
        .iter()
        .map(Name::as_str)
        .filter(|name| ![NOT_CHOSEN, NOT_READ].contains(name))
        .collect();
    let mut words = Vec::new();
    if !hidden.is_empty() {
        words.push(format!("{} not visible to you", hidden.join(", ")));
    }
    let has = |what: &str| unseen.iter().any(|name| name.as_str() == what);
    if has(NOT_CHOSEN) {
        words.push(String::from(
            "other namespaces were not read (-n or the settings leave them out; -A reads all)",
        ));
    }
    if has(NOT_READ) {
        words.push(String::from(
            "other namespaces were not read (-n reads them)",
        ));
    }
    words.join("; ")
}

/// Number of kinds that a sentence names; the others are counted.
const NAMED: usize = 3;

/// Tables of queues and their quotas.
const QUEUES: &[Table] = &[
    Table::ClusterQueues,
    Table::Cohorts,
    Table::ResourceFlavors,
    Table::VolcanoQueues,
    Table::KaiQueues,
];

impl TableState {
    /// True when access is forbidden and the table was never listed.
    pub const fn is_hidden(&self) -> bool {
        matches!(self, Self::NotVisible(_))
    }
}

impl ListedNamespaces {
    /// The namespaces; `None` for all.
    pub fn namespaces(&self) -> Option<&[Name]> {
        match self {
            Self::All => None,
            Self::Chosen(names) | Self::Only(names) => Some(names),
            Self::Fallback { namespace, .. } => Some(std::slice::from_ref(namespace)),
        }
    }

    /// What our permissions limit the lists to, as a clause: `reading namespace lab (that of the context); others: -n`. `None`
    /// where they limit nothing, or leave nothing.
    pub fn limit(&self) -> Option<String> {
        match self {
            Self::All | Self::Chosen(_) => None,
            Self::Only(names) => {
                let all: Vec<&str> = names.iter().map(Name::as_str).collect();
                let noun = match all.as_slice() {
                    [] => return None,
                    [_] => "namespace",
                    _ => "namespaces",
                };
                let all = all.join(", ");
                Some(format!(
                    "reading {noun} {all}; the others that were chosen are not visible to you"
                ))
            }
            Self::Fallback {
                namespace,
                of_context,
            } => {
                let which = match of_context {
                    true => "that of the context",
                    false => "the first of the settings",
                };
                Some(format!(
                    "reading namespace {namespace} ({which}); others: -n"
                ))
            }
        }
    }
}

/// Visibility of the pools.
pub fn of_pools(known: &BTreeMap<Table, TableState>, extent: &ListedNamespaces) -> PoolSight {
    let hidden = |table: Table| known.get(&table).is_some_and(TableState::is_hidden);
    PoolSight {
        nodes: !hidden(Table::Nodes),
        pods: !hidden(Table::Pods) && *extent == ListedNamespaces::All,
    }
}

impl Fleet {
    /// True when access to this table is forbidden and it was never listed.
    pub fn is_hidden(&self, table: Table) -> bool {
        self.visibility(table).is_hidden()
    }

    /// The tables that are forbidden.
    pub fn hidden(&self) -> Vec<Table> {
        let hidden = self
            .known
            .iter()
            .filter(|(table, known)| known.is_hidden() && !table.is_optional());
        hidden.map(|(table, _)| *table).collect()
    }

    /// True when every node and every pod is visible, so that all devices and the free ones are known.
    pub fn sees_devices(&self) -> bool {
        of_pools(&self.known, &self.extent) == PoolSight::default()
    }

    /// Which device counts may be shown for all pools together.
    pub fn visible_counts(&self) -> VisibleCounts {
        let visibility = of_pools(&self.known, &self.extent);
        self.device_counts().seen_with(visibility)
    }

    /// True when the pods and jobs of all namespaces are visible: a device without a visible pod is free.
    pub fn sees_all_work(&self) -> bool {
        !self.is_hidden(Table::Pods) && self.extent == ListedNamespaces::All
    }

    /// True when queues and their quotas are visible.
    pub fn sees_queues(&self) -> bool {
        !QUEUES.iter().any(|table| self.is_hidden(*table))
    }

    /// Data that an explanation of a wait needs and that is not visible.
    pub fn unseen(&self) -> Vec<&'static str> {
        let mut unseen = Vec::new();
        if self.is_hidden(Table::Nodes) {
            unseen.push("nodes");
        }
        if !self.sees_queues() {
            unseen.push("queues");
        }
        if !self.sees_all_work() {
            unseen.push(match (self.is_hidden(Table::Pods), &self.extent) {
                (true, _) => "pods",
                (false, ListedNamespaces::Chosen(_)) => NOT_CHOSEN,
                (false, ListedNamespaces::Fallback { .. }) => NOT_READ,
                (false, _) => "other namespaces",
            });
        }
        unseen
    }

    /// Names of the invisible ones of these tables: `nodes, pods and 3 other kinds`.
    fn hidden_names(&self, tables: &[Table]) -> Option<String> {
        let hidden: Vec<&str> = tables
            .iter()
            .filter(|table| self.is_hidden(**table) && !table.is_optional())
            .map(|table| table.name())
            .collect();
        let more = hidden.len().saturating_sub(NAMED);
        Some(match hidden.as_slice() {
            [] => return None,
            [only] => (*only).to_owned(),
            all if more > 1 => {
                format!("{} and {more} other kinds", all[..NAMED].join(", "))
            }
            [first @ .., last] => format!("{} and {last}", first.join(", ")),
        })
    }

    /// The invisible ones of these tables as a clause: `nodes, pods and 3 other kinds are not visible to you`.
    pub fn hidden_of(&self, tables: &[Table]) -> Option<String> {
        let names = self.hidden_names(tables)?;
        Some(format!("{names} are not visible to you"))
    }

    /// The namespaces that are read because our permissions do not reach further; empty when they are not limited, or when pods
    /// are not visible even there.
    pub fn confined_to(&self) -> &[Name] {
        match self.confined() {
            Some(_) => self.extent.namespaces().unwrap_or_default(),
            None => &[],
        }
    }

    /// The same in one clause.
    pub fn confined(&self) -> Option<String> {
        let limit = self.extent.limit();
        limit.filter(|_| !self.is_hidden(Table::Pods))
    }

    /// True if namespaces other than those that are read may be visible: none was tried.
    pub fn may_read_more(&self) -> bool {
        matches!(self.extent, ListedNamespaces::Fallback { .. })
    }

    /// How to get the missing permissions: within the namespaces that are read, or on the whole cluster.
    pub fn rights_help(&self) -> String {
        match &self.extent {
            // The context's namespace is refused, too: which one is meant is not known.
            ListedNamespaces::Fallback { .. } if self.is_hidden(Table::Pods) => {
                help_within(&["NAMESPACE"])
            }
            extent => help_within(extent.namespaces().unwrap_or_default()),
        }
    }

    /// Limits a statement to the listed namespaces: `nothing waits in namespace lab`.
    pub fn within(&self, words: &str) -> String {
        match self.extent.namespaces() {
            Some([one]) => format!("{words} in namespace {one}"),
            Some(many) => format!("{words} in namespaces {}", many.join(", ")),
            None => words.to_owned(),
        }
    }

    /// Everything that our permissions hide, in one sentence; `None` where they suffice.
    pub fn not_visible(&self) -> Option<String> {
        let names = self.hidden_names(&self.hidden());
        match (self.confined(), names) {
            (None, None) => None,
            (Some(confined), None) => Some(confined),
            (None, Some(names)) => Some(format!("not visible to you: {names}")),
            (Some(confined), Some(names)) => {
                Some(format!("{confined}; not visible to you: {names}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::base::Moment;
    use crate::fleet::observed::observe::{Lost, LostKind};

    fn fleet(hidden: &[Table], extent: ListedNamespaces) -> Fleet {
        let mut fleet = Fleet::unknown(Arc::default());
        let refused = || {
            TableState::NotVisible(Lost {
                kind: LostKind::Rights,
                since: Moment::default(),
                message: String::from("403: may not list it"),
            })
        };
        let known = Table::ALL.iter().map(|table| {
            let known = if hidden.contains(table) {
                refused()
            } else {
                TableState::Live
            };
            (*table, known)
        });
        fleet.known = Arc::new(known.collect());
        fleet.extent = extent;
        fleet
    }

    #[test]
    fn full_read_rights_give_no_visibility_notice() {
        let fleet = fleet(&[], ListedNamespaces::All);
        assert_eq!(fleet.not_visible(), None);
        assert!(fleet.sees_devices() && fleet.sees_queues() && fleet.unseen().is_empty());
    }

    fn lab() -> ListedNamespaces {
        ListedNamespaces::Fallback {
            namespace: Name::new("lab"),
            of_context: true,
        }
    }

    #[test]
    fn invisible_tables_are_one_sentence() {
        let team = fleet(&[Table::Nodes, Table::ClusterQueues], lab());
        let sentence = team.not_visible().expect("little is seen");
        assert_eq!(
            sentence,
            "reading namespace lab (that of the context); others: -n; not visible to you: nodes and clusterqueues"
        );
        assert_eq!(team.unseen(), ["nodes", "queues", NOT_READ]);
        assert!(!team.sees_devices());
        let unprivileged = fleet(Table::ALL, lab());
        let sentence = unprivileged.not_visible().expect("nothing is seen");
        let all = Table::ALL.iter().filter(|table| !table.is_optional());
        let rest = all.count() - NAMED;
        assert_eq!(
            sentence,
            format!("not visible to you: nodes, pods, namespaces and {rest} other kinds")
        );
    }

    #[test]
    fn a_session_within_namespaces_is_sent_to_the_role_for_them() {
        let all = fleet(&[Table::Nodes], ListedNamespaces::All);
        assert_eq!(all.rights_help(), HELP);
        let team = fleet(&[Table::Nodes], lab());
        assert_eq!(
            team.rights_help(),
            "ask for the role that `stokehold rbac viewer -n lab` prints, or without -n for the whole cluster"
        );
        let nobody = fleet(Table::ALL, lab());
        assert!(nobody.rights_help().contains("viewer -n NAMESPACE`"));
        assert_eq!(
            viewer_of(&["lab", "nlp"]),
            "`stokehold rbac viewer -n lab,nlp`"
        );
    }

    #[test]
    fn a_namespace_is_called_invisible_only_where_it_was_refused() {
        let context = fleet(&[], lab());
        assert!(context.may_read_more() && context.confined_to() == [Name::new("lab")]);
        let sentence = context.confined().expect("only one is read");
        assert!(!sentence.contains("visible"), "{sentence}");
        let sentence = unseen_words(&[Name::new(NOT_READ)]);
        assert_eq!(sentence, "other namespaces were not read (-n reads them)");
        let refused = fleet(
            &[],
            ListedNamespaces::Only(Arc::from([Name::new("lab"), Name::new("nlp")])),
        );
        assert!(!refused.may_read_more());
        assert_eq!(
            refused.confined().as_deref(),
            Some("reading namespaces lab, nlp; the others that were chosen are not visible to you")
        );
    }

    #[test]
    fn a_choice_of_namespaces_hides_who_holds_the_other_devices() {
        let chosen = fleet(&[], ListedNamespaces::Chosen(Arc::from([Name::new("lab")])));
        assert_eq!(chosen.not_visible(), None, "no right is missing");
        assert!(!chosen.sees_devices() && !chosen.sees_all_work());
        assert_eq!(chosen.unseen(), [NOT_CHOSEN]);
        let sentence = unseen_words(&[Name::new(NOT_CHOSEN)]);
        assert!(
            sentence.contains("were not read") && !sentence.contains("visible"),
            "{sentence}"
        );
    }
}
