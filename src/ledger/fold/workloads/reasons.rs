//! The words of queueing systems for why a job waits, in our own words.

use model::fleet::admission::GroupSeen;
use model::fleet::queue::QueueSystem;

/// Our word for why a group waits, from its system's word and sentence.
///
/// Sources: Kueue's reasons of the condition `QuotaReserved` (typed since 0.19, before that one word and a
/// sentence), KAI's `UnschedulableExplanation`, Volcano's PodGroup conditions, Kubernetes' `PodGroupInitiallyScheduled`.
pub(crate) fn code(group: &GroupSeen) -> &'static str {
    let Some((word, sentence)) = &group.pending else {
        return "queued";
    };
    match group.system {
        QueueSystem::Kueue => kueue(word, sentence),
        QueueSystem::Volcano => match word.as_str() {
            "Pending" => "queued",
            "NotEnoughResources" | "NotEnoughTasks" | "NotEnoughPodsOfTask" | "Unschedulable" => {
                "unschedulable"
            }
            "Closed" | "Closing" | "QueueClosed" => "queue-stopped",
            _ => "unschedulable",
        },
        QueueSystem::Kai => match word.as_str() {
            "NonPreemptibleOverQuota" => "quota",
            "OverLimit" => "exceeds-quota",
            "PreemptionDelayNotElapsed" => "preemption-delay",
            "QueueDoesNotExist" => "no-queue",
            _ => "unschedulable",
        },
        QueueSystem::Stokehold | QueueSystem::None => match word.as_str() {
            "SchedulerError" => "scheduler-error",
            _ => "unschedulable",
        },
    }
}

fn kueue(word: &str, sentence: &str) -> &'static str {
    let says = |needle: &str| sentence.contains(needle);
    match word {
        "NoMatchingFlavor" => "no-flavor",
        "WaitingForQuota" => "quota",
        "ExceedsMaxQuota" => "exceeds-quota",
        "TopologyPlacementFailed" | "PendingDelayedTopologyRequests" => "topology",
        "WaitingForPreemptedWorkloads" => "preempting",
        "Misconfigured" => "misconfigured",
        "Suspended" => "suspended",
        "PendingEvaluation" => "queued",
        "WaitingForPodsReady" => "pods-ready",
        "AdmissionGated" => "gated",
        "OnHold" => "on-hold",
        "UnsatisfiedAdmissionChecks" => "admission-checks",
        "BlockedOnPreemptionGates" | "PreemptionGated" => "preemption-gated",
        // Before 0.19 only the message distinguishes them.
        _ if says("is inactive") || says("is stopped") => "queue-stopped",
        _ if says("doesn't exist") || says("not found") => "no-queue",
        _ if says("doesn't match") && says("namespace") => "namespace-refused",
        _ if says("request > maximum capacity") || says("insufficient quota") => "exceeds-quota",
        _ if says("insufficient unused quota") => "quota",
        _ if says("topology") => "topology",
        _ if says("reempt") => "preempting",
        _ if says("waiting for all admitted workloads to be in PodsReady") => "pods-ready",
        _ if says("untolerated taint")
            || says("affinity")
            || says("unavailable in ClusterQueue") =>
        {
            "no-flavor"
        }
        "Inadmissible" => "inadmissible",
        _ => "queued",
    }
}

#[cfg(test)]
mod tests {
    use super::kueue;

    #[test]
    fn old_sentences_and_new_words_come_to_the_same() {
        for (word, sentence, code) in [
            ("WaitingForQuota", "", "quota"),
            (
                "Pending",
                "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor h100, 8 more needed",
                "quota",
            ),
            ("ExceedsMaxQuota", "", "exceeds-quota"),
            (
                "Pending",
                "couldn't assign flavors to pod set main: insufficient quota for nvidia.com/gpu in flavor h100, request > maximum capacity (16 > 8)",
                "exceeds-quota",
            ),
            (
                "Inadmissible",
                "ClusterQueue a is inactive",
                "queue-stopped",
            ),
            ("Inadmissible", "LocalQueue b doesn't exist", "no-queue"),
            ("Inadmissible", "something new", "inadmissible"),
            (
                "Pending",
                "couldn't assign flavors to pod set main: topology \"default\" allows to fit only 2 out of 8 pod(s)",
                "topology",
            ),
            (
                "Pending",
                "couldn't assign flavors to pod set main: untolerated taint {gpu NoSchedule} in flavor x",
                "no-flavor",
            ),
            (
                "Pending",
                "Preempted to accommodate a workload",
                "preempting",
            ),
            ("NeverSeen", "", "queued"),
        ] {
            assert_eq!(kueue(word, sentence), code, "{word}: {sentence}");
        }
    }
}
