//! Delivery: which messages receivers are to be sent about findings, and what is in them. Pure: the caller sends, and reports each outcome.
//!
//! There is no queue of messages: [`Delivery`] holds, for each finding, what the receiver was told and what holds now, and makes the next
//! message of the difference when the receiver is free. What a receiver missed while it failed is told as it stands then, at most
//! [`delivery::MOST_WAITING`] messages wait, and a restart goes on from what was told.

mod alertmanager;
mod delivery;
#[cfg(test)]
mod laws;
mod saved;
#[cfg(test)]
mod tests;
mod text;
mod webhook;

use std::time::Duration;

use model::base::{Moment, Name};
use model::fleet::Known;
use model::fleet::checks;
use model::fleet::finding::Finding;
use model::fleet::observe::Table;
use model::notify::FindingPlace;

use super::Facts;
use super::budgets;
use super::silence::Silence;
use super::spend::UsageStatus;

pub use delivery::{Delivery, DeliveryCounts, DeliveryRules, MOST_WAITING, Outgoing, SendOutcome};
pub use saved::{SavedDelivery, SavedEntry, SavedStatus, read as read_saved, text as saved_text};

/// A moment on both clocks that delivery goes by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Beat {
    /// The cluster's: times in messages.
    pub now: Moment,
    /// Time since the process began to watch: waits, which no change of a clock lengthens.
    pub up: Duration,
}

/// A finding as receivers are told of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Alert {
    /// The finding.
    pub finding: Finding,
    /// Where it is.
    pub place: FindingPlace,
    /// It was acknowledged.
    pub acknowledged: bool,
}

/// Everything that can be said at a moment.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Standing {
    /// Findings that stand and are not muted, worst first.
    pub alerts: Vec<Alert>,
    /// Ids of those that are muted.
    pub muted: Vec<Name>,
    /// False while budgets cannot be read: what was said of them holds.
    pub budgets_known: bool,
    /// False while nodes or pods cannot be listed: nothing has ended then.
    pub cluster_known: bool,
    /// Nodes of which a device has no fresh reading, by name.
    pub unread: Vec<Name>,
}

impl Standing {
    /// What stands of a picture, of its scope.
    pub fn of(facts: &Facts) -> Self {
        let mut standing = Self {
            budgets_known: match facts.usage.status {
                UsageStatus::Read(_) | UsageStatus::Absent => true,
                UsageStatus::Unread | UsageStatus::Failed(_) => false,
            },
            cluster_known: [Table::Nodes, Table::Pods].into_iter().all(|table| {
                let known = facts.fleet.known(table);
                known.is_known() || matches!(known, Known::NotVisible(_))
            }),
            unread: unread(facts),
            ..Self::default()
        };
        let findings = facts.fleet.findings.iter();
        for finding in findings.filter(|finding| facts.concerns(&finding.subject)) {
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

    /// False where too little is read to say that a finding of before a restart has ended.
    fn can_tell(&self, gone: &Alert) -> bool {
        let subject = &gone.finding.subject;
        match &gone.place.node {
            Some(node) => self.unread.binary_search(node).is_err(),
            None if matches!(subject.kind, "Job" | "Rack" | "Pool") => self.unread.is_empty(),
            None => true,
        }
    }

    /// True where a finding that is not there by itself any more is part of one that is: three of a node are one of the node, a fault
    /// of a device is told with a graver one, a step of a budget by the next.
    fn covers(&self, gone: &Alert) -> bool {
        let mut all = self.alerts.iter();
        all.any(|alert| covers(alert, gone))
    }
}

/// Nodes of which a device was read before, or should have been, and is not now.
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
    let is_fault = by.subject.kind == "Device" && checks::fault(&by.code).is_some();
    is_fault
        && match of.code.as_str() {
            "node-condition" | "allocatable-below-capacity" => node(alert) == node(gone),
            code => by.subject == of.subject && checks::fault(code).is_some(),
        }
}
