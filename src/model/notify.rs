//! Receivers of findings: what sort of receiver it is, and which findings it is sent.

use serde::{Deserialize, Serialize};

use crate::base::Name;
use crate::fleet::Fleet;
use crate::fleet::finding::{Finding, Severity};
use crate::fleet::rules::policy::glob;

/// The protocol of a receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReceiverKind {
    /// Alertmanager's API, version 2: alerts are sent again while they last.
    Alertmanager,
    /// An incoming webhook of Slack, or of what takes the same, such as Mattermost: text.
    Slack,
    Webhook,
}

impl ReceiverKind {
    pub const ALL: [Self; 3] = [Self::Alertmanager, Self::Slack, Self::Webhook];

    /// As in the settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Alertmanager => "alertmanager",
            Self::Slack => "slack",
            Self::Webhook => "webhook",
        }
    }
}

/// Location of a finding's subject in the fleet, where known.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FindingPlace {
    pub node: Option<Name>,
    /// The rack of that node.
    pub rack: Option<Name>,
    /// The pool of that node.
    pub pool: Option<Name>,
}

impl FindingPlace {
    /// The place of what a finding is about.
    pub fn of(finding: &Finding, fleet: &Fleet) -> Self {
        let name = &finding.subject.key.name;
        let node = match finding.subject.kind {
            // The id of a device is `NODE/gpu3`.
            "Device" => name.rsplit_once('/').map(|(node, _)| Name::new(node)),
            "Node" => Some(name.clone()),
            "Source" => {
                let mut sources = fleet.sources.iter();
                let source = sources.find(|source| source.name == *name);
                source.and_then(|source| source.node.clone())
            }
            _ => None,
        };
        let known = node.as_ref().and_then(|name| fleet.node(name));
        let pool = match finding.subject.kind {
            "Pool" => Some(name.clone()),
            _ => known.map(|node| node.pool.clone()),
        };
        let rack = match finding.subject.kind {
            "Rack" => Some(name.clone()),
            _ => known.and_then(|node| node.rack.clone()),
        };
        let is_set = |name: &Name| !name.is_empty();
        Self {
            node: node.filter(is_set),
            rack: rack.filter(is_set),
            pool: pool.filter(is_set),
        }
    }
}

/// Which findings a receiver is sent: all that is said must hold, of a list any item. In codes, namespaces and pools a `*`
/// at the end of an item stands for any tail.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotifyFilter {
    /// At least as severe as this.
    pub min_severity: Severity,
    /// Codes; empty is all.
    pub codes: Vec<String>,
    /// Kinds of subjects, of [`crate::fleet::finding::KINDS`]; empty is all.
    pub kinds: Vec<String>,
    /// Namespaces; empty means every namespace, and findings without one.
    pub namespaces: Vec<String>,
    /// Pools; empty means every pool, and findings without one.
    pub pools: Vec<String>,
}

impl NotifyFilter {
    /// True where the receiver is sent this finding.
    pub fn has(&self, finding: &Finding, place: &FindingPlace) -> bool {
        let pool = place.pool.as_deref().unwrap_or_default();
        // (Crit comes first.)
        finding.severity <= self.min_severity
            && any(&self.codes, &finding.code)
            && any(&self.kinds, finding.subject.kind)
            && any(&self.namespaces, &finding.subject.key.namespace)
            && any(&self.pools, pool)
    }
}

fn any(patterns: &[String], text: &str) -> bool {
    patterns.is_empty() || patterns.iter().any(|pattern| glob(pattern, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Moment, ObjectKey};
    use crate::fleet::finding::Subject;

    fn finding(code: &str, severity: Severity) -> Finding {
        Finding {
            id: Name::new("a"),
            severity,
            code: Name::new(code),
            subject: Subject {
                kind: "Job",
                key: ObjectKey::new("nlp-dev", "train"),
            },
            since: Moment::from_seconds(0),
            first_seen: false,
            at_least: false,
            value: None,
            threshold: None,
            message: String::new(),
            repair: String::new(),
            members: Box::default(),
            also: Box::default(),
        }
    }

    #[test]
    fn all_given_conditions_must_hold_and_any_item_of_a_list() {
        let all = NotifyFilter {
            min_severity: Severity::Info,
            codes: Vec::new(),
            kinds: Vec::new(),
            namespaces: Vec::new(),
            pools: Vec::new(),
        };
        let list = |items: &[&str]| items.iter().map(|item| (*item).to_owned()).collect();
        let place = FindingPlace {
            pool: Some(Name::new("h100")),
            ..FindingPlace::default()
        };
        let xid = finding("xid-79", Severity::Warn);
        let has = |filter: NotifyFilter| filter.has(&xid, &place);
        assert!(has(all.clone()));
        for (severity, wanted) in [
            (Severity::Crit, false),
            (Severity::Warn, true),
            (Severity::Info, true),
        ] {
            let filter = NotifyFilter {
                min_severity: severity,
                ..all.clone()
            };
            assert_eq!(has(filter), wanted, "{severity:?}");
        }
        for (codes, wanted) in [
            (list(&["xid-*"]), true),
            (list(&["heat", "xid-79"]), true),
            (list(&["xid-7"]), false),
            (list(&["heat*"]), false),
        ] {
            let filter = NotifyFilter {
                codes,
                ..all.clone()
            };
            assert_eq!(has(filter.clone()), wanted, "{filter:?}");
        }
        let narrow = NotifyFilter {
            kinds: list(&["Job"]),
            namespaces: list(&["nlp-*"]),
            pools: list(&["h100"]),
            ..all.clone()
        };
        assert!(narrow.has(&xid, &place));
        assert!(
            !narrow.has(&xid, &FindingPlace::default()),
            "it is in no pool that is known"
        );
    }
}
