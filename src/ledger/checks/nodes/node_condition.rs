//! `node-condition`: a node condition about accelerators or their network reports a problem.
//! Agents of the cloud provider, the device vendor and node-problem-detector set such conditions, each with its own types and reasons.

use model::fleet::condition::{Condition, lower};
use model::fleet::kinds::Table;
use model::fleet::node::Node;

use crate::checks::context::{CheckContext, FindingDraft, subject};
use crate::checks::faults::xid_in;
use crate::checks::{Check, CheckWalk, Verdict};
use model::base::Name;

pub(crate) const CHECK: Check = Check {
    code: "node-condition",
    walk: CheckWalk::Nodes(check_node),
};

/// Parts of a condition's type or reason that show that it is about accelerators or their network.
const ACCELERATOR_WORDS: &[&str] = &["gpu", "xid", "accelerat", "neuron", "nvlink", "infiniband"];
/// Kubernetes' standard node conditions: other checks cover them, or none does.
const STANDARD_CONDITIONS: &[&str] = &[
    "Ready",
    "MemoryPressure",
    "DiskPressure",
    "PIDPressure",
    "NetworkUnavailable",
];

fn check_node(context: &mut CheckContext<'_>, node: &Node) {
    let known = context.fleet.visibility(Table::Nodes).is_known();
    for condition in &node.seen.conditions {
        if !is_about_accelerators(condition) {
            continue;
        }
        let key = Name::from(format!("{} {}", node.name(), condition.kind));
        let verdict = if known {
            verdict_of(condition)
        } else {
            Verdict::Unknown
        };
        let thresholds = context.thresholds;
        context.report_with_start(&key, verdict, condition.since, |_| {
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
fn is_about_accelerators(condition: &Condition) -> bool {
    if STANDARD_CONDITIONS.contains(&condition.kind.as_str()) {
        return false;
    }
    let text = lower(&format!("{} {}", condition.kind, condition.reason));
    ACCELERATOR_WORDS.iter().any(|topic| text.contains(topic))
}

/// Whether the condition reports a problem: see [`Condition::is_wrong`].
fn verdict_of(condition: &Condition) -> Verdict {
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
            assert!(is_about_accelerators(&seen), "{kind}");
            assert_eq!(
                verdict_of(&seen),
                Verdict::when(fires),
                "{kind} {status:?} {reason}"
            );
        }
        assert!(!is_about_accelerators(&condition(
            "Ready",
            Some(false),
            "GpuDriverMissing"
        )));
        assert!(!is_about_accelerators(&condition(
            "KernelDeadlock",
            Some(true),
            "DockerHung"
        )));
    }
}
