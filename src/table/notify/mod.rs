//! Notification delivery: which messages receivers are sent about findings, and what they contain. Pure: the caller sends
//! them and reports each result.
//!
//! There is no queue of messages: for each finding [`Delivery`] keeps what the receiver was sent and what is current, and
//! builds the next message from the difference when the receiver is free. After an outage the receiver gets the current
//! state; at most [`delivery::MOST_WAITING`] messages wait, and a restart resumes from the saved state.

pub(crate) mod alertmanager;
mod delivery;
mod entry;
#[cfg(test)]
mod properties;
mod saved;
#[cfg(test)]
mod tests;
mod text;
mod webhook;

use std::time::Duration;

use model::base::{Moment, Name};
use model::fleet::finding::Finding;
use model::fleet::observe::Table;
use model::fleet::{TableState, finding};
use model::notify::FindingPlace;

use super::silence::Silence;
use super::spend::UsageStatus;
use super::{Facts, budgets};

pub use delivery::{Delivery, DeliveryCounts, DeliveryRules, MOST_WAITING, Outgoing, SendOutcome};
pub use saved::{SavedDelivery, SavedEntry, SavedStatus, read as read_saved, text as saved_text};

/// A moment on both clocks used by delivery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Beat {
    /// Cluster time, for timestamps in messages.
    pub now: Moment,
    /// Time since the process started watching, for waits: monotonic.
    pub up: Duration,
}

/// A finding as receivers get it.
#[derive(Clone, PartialEq, Debug)]
pub struct Alert {
    pub finding: Finding,
    pub place: FindingPlace,
    pub acknowledged: bool,
}

/// Everything that can be reported at a moment.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct CurrentAlerts {
    /// Firing findings that are not muted, most severe first.
    pub alerts: Vec<Alert>,
    /// Ids of muted findings.
    pub muted: Vec<Name>,
    /// False while budgets cannot be read: their findings are then kept.
    pub budgets_known: bool,
    /// False while nodes or pods cannot be listed: no finding ends then.
    pub cluster_known: bool,
    /// Names of nodes with a device that has no fresh reading.
    pub unread: Vec<Name>,
}

impl CurrentAlerts {
    /// The reportable state of a snapshot, within its scope.
    pub fn of(facts: &Facts) -> Self {
        let mut standing = Self {
            budgets_known: match facts.usage.status {
                UsageStatus::Read(_) | UsageStatus::Absent => true,
                UsageStatus::Unread | UsageStatus::Failed(_) => false,
            },
            cluster_known: [Table::Nodes, Table::Pods].into_iter().all(|table| {
                let known = facts.fleet.visibility(table);
                known.is_known() || matches!(known, TableState::NotVisible(_))
            }),
            unread: unread(facts),
            ..Self::default()
        };
        let findings = facts.fleet.findings.iter();
        for finding in findings.filter(|finding| facts.concerns(finding)) {
            let silence = facts.silences.of(finding, facts.now);
            if silence == Some(Silence::Muted) {
                standing.muted.push(finding.id.clone());
                continue;
            }
            standing.alerts.push(Alert {
                finding: finding.clone(),
                place: FindingPlace::of(finding, &facts.fleet),
                acknowledged: silence == Some(Silence::Acknowledged),
            });
        }
        standing
    }

    /// False where too few readings exist to say that a finding from before a restart has ended.
    fn can_judge(&self, gone: &Alert) -> bool {
        let subject = &gone.finding.subject;
        match &gone.place.node {
            Some(node) => self.unread.binary_search(node).is_err(),
            None if matches!(subject.kind, "Job" | "Rack" | "Pool") => self.unread.is_empty(),
            None => true,
        }
    }

    /// True where a finding that is gone is covered by a current one: three faults on a node become one of the node, a
    /// device's fault is reported with a more severe one, a budget threshold with the next.
    fn covers(&self, gone: &Alert) -> bool {
        let mut all = self.alerts.iter();
        all.any(|alert| covers(alert, gone))
    }
}

/// Nodes with a device that has no fresh reading, though it had one or should have one.
fn unread(facts: &Facts) -> Vec<Name> {
    let nodes = facts.fleet.nodes.iter();
    let nodes = nodes.filter(|node| {
        let mut devices = node.devices.iter();
        devices.any(|device| device.read_at.is_none() || device.is_stale(facts.now))
    });
    nodes.map(|node| node.name().clone()).collect()
}

fn covers(alert: &Alert, gone: &Alert) -> bool {
    let (by, of) = (&alert.finding, &gone.finding);
    if by.id == of.id {
        return false;
    }
    let node = |alert: &Alert| alert.place.node.clone();
    if by.code == of.code && by.id.ends_with(":*") {
        return match by.subject.kind {
            "Node" => node(gone).as_ref() == Some(&by.subject.key.name),
            _ => true,
        };
    }
    if by.code.as_str() == "rack-hot" && of.code.as_str() == "heat" {
        return gone.place.rack.as_ref() == Some(&by.subject.key.name);
    }
    if by.subject.kind == budgets::SUBJECT {
        let step = |id: &str| id.rsplit_once('/').map(|(head, _)| head.to_owned());
        return by.code == of.code && step(&by.id) == step(&of.id);
    }
    let is_fault = by.subject.kind == "Device" && finding::fault(&by.code).is_some();
    is_fault
        && match of.code.as_str() {
            "node-condition" | "allocatable-below-capacity" => node(alert) == node(gone),
            code => by.subject == of.subject && finding::fault(code).is_some(),
        }
}
