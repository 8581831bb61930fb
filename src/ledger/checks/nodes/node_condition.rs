//! `node-condition`: a node condition that speaks of accelerators or their network says that something is wrong.
//! Node agents write these (of the cloud, of the vendor, of the node problem detector), each in its own words.

use model::fleet::condition::{Condition, lower};
use model::fleet::kinds::Table;
use model::fleet::node::Node;

use crate::checks::context::{CheckContext, FindingDraft, subject};
use crate::checks::faults::xid_in;
use crate::checks::{Check, CheckWalk, Verdict};
use model::base::Name;

pub(crate) const CHECK: Check = Check {
    code: "node-condition",
    walk: CheckWalk::Nodes(evaluate),
};

/// Words by which a condition is known to speak of accelerators.
const TOPICS: &[&str] = &["gpu", "xid", "accelerat", "neuron", "nvlink", "infiniband"];
/// Conditions of every node, which have other checks or none.
const GENERAL: &[&str] = &[
    "Ready",
    "MemoryPressure",
    "DiskPressure",
    "PIDPressure",
    "NetworkUnavailable",
];

fn evaluate(context: &mut CheckContext<'_>, node: &Node) {
    let known = context.fleet.known(Table::Nodes).is_known();
    for condition in &node.seen.conditions {
        if !speaks(condition) {
            continue;
        }
        let key = Name::from(format!("{} {}", node.name(), condition.kind));
        let verdict = if known {
            check(condition)
        } else {
            Verdict::Unknown
        };
        let thresholds = context.thresholds;
        context.report_since(&key, verdict, condition.since, |_| {
            let why = if condition.message.is_empty() {
                &condition.reason
            } else {
                &condition.message
            };
            let message = format!("condition {}: {why}", condition.kind);
            let repair = match xid_in(&message) {
                Some(xid) => thresholds.xid.get(xid).repair.clone(),
                None => String::from(
                    "check the log of the agent that sets the condition; a reset needs the node drained",
                ),
            };
            FindingDraft::new(subject("Node", node.name()), message, repair)
            .detail(&condition.kind)
        });
    }
}

/// True for a condition whose type or reason speaks of accelerators or their network.
fn speaks(condition: &Condition) -> bool {
    if GENERAL.contains(&condition.kind.as_str()) {
        return false;
    }
    let text = lower(&format!("{} {}", condition.kind, condition.reason));
    TOPICS.iter().any(|topic| text.contains(topic))
}

/// Whether a condition reports a problem. A type that names a good state is a problem when false, a type that names a problem
/// when true; if the type does not decide, the reason does.
fn check(condition: &Condition) -> Verdict {
    Verdict::when(condition.is_wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(kind: &str, status: Option<bool>, reason: &str) -> Condition {
        Condition {
            kind: kind.into(),
            status,
            reason: reason.into(),
            message: "".into(),
            since: None,
        }
    }

    #[test]
    fn each_agents_words_are_understood() {
        for (kind, status, reason, fires) in [
            (
                "AcceleratedHardwareReady",
                Some(false),
                "NvidiaXID79Error",
                Some(true),
            ),
            (
                "AcceleratedHardwareReady",
                Some(true),
                "NvidiaAcceleratedHardwareIsReady",
                Some(false),
            ),
            ("AcceleratedHardwareReady", None, "", None),
            ("NeuronHealth", Some(false), "NeuronHasNoError", Some(false)),
            (
                "NeuronHealth",
                Some(true),
                "NeuronHasError_SRAM_UNCORRECTABLE",
                Some(true),
            ),
            ("GpuXidProblem", Some(true), "XidFound", Some(true)),
            ("GpuXidProblem", Some(false), "NoXid", Some(false)),
            ("InfinibandLinkDown", Some(true), "PortDown", Some(true)),
            ("InfinibandLinkDown", Some(false), "", Some(false)),
            ("GpuUnavailable", Some(true), "", Some(true)),
            ("GpuUnhealthy", Some(false), "", Some(false)),
            ("GpuAvailable", Some(true), "", Some(false)),
        ] {
            let seen = condition(kind, status, reason);
            assert!(speaks(&seen), "{kind}");
            assert_eq!(
                check(&seen),
                Verdict::when(fires),
                "{kind} {status:?} {reason}"
            );
        }
        assert!(!speaks(&condition(
            "Ready",
            Some(false),
            "GpuDriverMissing"
        )));
        assert!(!speaks(&condition(
            "KernelDeadlock",
            Some(true),
            "DockerHung"
        )));
    }
}
