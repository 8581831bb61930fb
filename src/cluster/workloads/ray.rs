//! RayJobs and RayClusters: a head and groups of workers.

use model::base::Names;
use model::fleet::observe::{Observation, Table};
use model::fleet::siting::JobPodSet;

use super::pod_sets::{common_condition, of_sets, pod_set};
use crate::Projected;
use crate::lenient_json::{List, Maybe, OptionalBool, Text, Whole, partial};
use crate::meta::{Meta, RawCondition};
use crate::resources::{PodShape, Template};

partial! {
    RayClusterObject {
        meta: Meta = "metadata",
        spec: RayClusterSpec = "spec",
        status: RayClusterStatus = "status",
    }
}

partial! {
    RayClusterSpec {
        suspend: OptionalBool = "suspend",
        head: HeadGroup = "headGroupSpec",
        workers: List<WorkerGroup> = "workerGroupSpecs",
    }
}

partial! {
    HeadGroup {
        template: Template = "template",
    }
}

partial! {
    /// An entry of `workerGroupSpecs`.
    WorkerGroup {
        name: Text = "groupName",
        /// Replicas; `minReplicas` when absent.
        replicas: Whole = "replicas",
        min: Whole = "minReplicas",
        /// Pods of a replica; one when absent.
        hosts: Whole = "numOfHosts",
        suspend: OptionalBool = "suspend",
        template: Template = "template",
    }
}

partial! {
    RayClusterStatus {
        conditions: List<RawCondition> = "conditions",
    }
}

impl RayClusterSpec {
    fn sets(&self, names: &mut Names) -> Vec<(JobPodSet, &PodShape)> {
        let head = &self.head.template;
        let mut sets = vec![(pod_set("head", 1, 1, head, names), &head.spec)];
        for (at, group) in self.workers.iter().enumerate() {
            let hosts = group.hosts.count().unwrap_or(1).max(1);
            let min = group.min.count().unwrap_or(0);
            let replicas = match group.suspend.is_set() {
                true => 0,
                false => group.replicas.count().unwrap_or(min),
            };
            let named = format!("workers-{at}");
            let name = group.name.get().unwrap_or(&named).to_ascii_lowercase();
            let set = pod_set(
                &name,
                replicas.saturating_mul(hosts),
                min.min(replicas).saturating_mul(hosts),
                &group.template,
                names,
            );
            sets.push((set, &group.template.spec));
        }
        sets
    }
}

impl Projected for RayClusterObject {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn project(&self, table: Table, names: &mut Names) -> Option<Observation> {
        let sets = self.spec.sets(names);
        let mut seen = of_sets(table, &self.meta, &self.status.conditions, sets, names)?;
        seen.suspended = self.spec.suspend.is_set();
        Some(Observation::Workload(Box::new(seen)))
    }
}

partial! {
    RayJobObject {
        meta: Meta = "metadata",
        spec: RayJobSpec = "spec",
        status: RayJobStatus = "status",
    }
}

partial! {
    RayJobSpec {
        suspend: OptionalBool = "suspend",
        /// The controller that manages it.
        managed_by: Text = "managedBy",
        /// Maximum run time, seconds.
        deadline: Whole = "activeDeadlineSeconds",
        /// The cluster that is created for it; absent when it runs on an existing one.
        cluster: Maybe<RayClusterSpec> = "rayClusterSpec",
    }
}

partial! {
    RayJobStatus {
        /// `PENDING`, `RUNNING`, `STOPPED`, `SUCCEEDED`, `FAILED`.
        job: Text = "jobStatus",
        /// `Initializing`, `Running`, `Complete`, `Failed`, `ValidationFailed`, `Suspended`, ….
        deployment: Text = "jobDeploymentStatus",
        reason: Text = "reason",
        /// The same in a sentence.
        message: Text = "message",
        /// How many of its tries have failed (`RayJobStatus.failed`); each but the last was followed by another.
        failed: Whole = "failed",
        /// When it first ran.
        started: Text = "startTime",
        ended: Text = "endTime",
    }
}

impl Projected for RayJobObject {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn project(&self, table: Table, names: &mut Names) -> Option<Observation> {
        let status = &self.status;
        let sets = match &self.spec.cluster.0 {
            Some(cluster) => cluster.sets(names),
            None => Vec::new(),
        };
        let mut seen = of_sets(table, &self.meta, &[], sets, names)?;
        seen.suspended = self.spec.suspend.is_set();
        seen.managed_by = self.spec.managed_by.get().map(|by| names.intern(by));
        seen.time_limit = self.spec.deadline.seconds();
        seen.started = status.started.moment();
        seen.outcome = match (&*status.deployment, &*status.job) {
            ("Complete", "SUCCEEDED") => Some(true),
            ("Complete", "FAILED" | "STOPPED") | ("Failed" | "ValidationFailed", _) => Some(false),
            _ => None,
        };
        let is_over = u32::from(seen.outcome == Some(false));
        let failed = status.failed.count().unwrap_or(0);
        seen.restarts = failed.saturating_sub(is_over);
        if seen.outcome.is_some() {
            seen.finished = status.ended.moment();
        }
        if seen.outcome == Some(false) {
            let reason = status.reason.get().unwrap_or("Failed");
            let message = status.message.get().unwrap_or(reason);
            seen.conditions
                .push(common_condition("Failed", reason, message));
        }
        Some(Observation::Workload(Box::new(seen)))
    }
}
