//! batch/v1 Jobs and JobSets: pods that end, and gangs of them.

use crate::base::Names;
use crate::fleet::observe::{Observation, Resources, Table, WorkloadSeen};

use super::Projected;
use super::meta::{Meta, RawCondition, find};
use super::partial::{Flag, List, Text, Whole, partial};
use super::resources::{PodShape, Template, of_pod, plus, times};
use super::workload::blank;

partial! {
    /// A batch/v1 Job.
    JobObject {
        /// Metadata.
        meta: Meta = "metadata",
        /// Spec.
        spec: JobSpec = "spec",
        /// Status.
        status: JobStatus = "status",
    }
}

partial! {
    /// `spec` of a Job.
    JobSpec {
        /// Pods at the same time; one when it does not say.
        parallelism: Whole = "parallelism",
        /// Pods that must end well.
        completions: Whole = "completions",
        /// `Indexed` or `NonIndexed`.
        completion_mode: Text = "completionMode",
        /// Held.
        suspend: Flag = "suspend",
        /// The pods' template.
        template: Template = "template",
    }
}

partial! {
    /// `status` of a Job.
    JobStatus {
        /// When it was first taken up.
        started: Text = "startTime",
        /// When it ended well.
        completed: Text = "completionTime",
        /// Pods that ended well.
        succeeded: Whole = "succeeded",
        /// Pods that failed.
        failed: Whole = "failed",
        /// Conditions.
        conditions: List<RawCondition> = "conditions",
    }
}

impl JobSpec {
    /// Pods at the same time, never more than are left to complete.
    fn width(&self, succeeded: u32) -> u32 {
        let parallelism = self.parallelism.count().unwrap_or(1);
        match self.completions.count() {
            Some(completions) => parallelism.min(completions.saturating_sub(succeeded)),
            None => parallelism,
        }
    }

    /// Pods that run together or not at all: an indexed Job whose every index runs at the same time.
    fn gang(&self) -> Option<u32> {
        let parallelism = self.parallelism.count().unwrap_or(1);
        let whole = &*self.completion_mode == "Indexed"
            && self.completions.count() == Some(parallelism)
            && parallelism > 1;
        whole.then_some(parallelism)
    }
}

/// Writes how it ended into `seen`, from the first of these conditions that is true.
fn end(seen: &mut WorkloadSeen, raw: &[RawCondition], well: &str, badly: &str) {
    for (kind, outcome) in [(well, true), (badly, false)] {
        if let Some(condition) = find(raw, kind).filter(|found| found.status() == Some(true)) {
            seen.outcome = Some(outcome);
            seen.finished = condition.since.moment();
            return;
        }
    }
}

impl Projected for JobObject {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn project(&self, table: Table, names: &mut Names) -> Option<Observation> {
        let (spec, status) = (&self.spec, &self.status);
        let shape = &spec.template.spec;
        let mut seen = blank(table, &self.meta, &status.conditions, shape, names)?;
        seen.suspended = spec.suspend.is_set();
        seen.gang_min = spec.gang();
        seen.pods = match seen.gang_min {
            Some(all) => all,
            None => spec.width(status.succeeded.count().unwrap_or(0)),
        };
        seen.per_pod = of_pod(shape, names);
        seen.total = times(&seen.per_pod, seen.pods);
        seen.started = status.started.moment();
        seen.failed_pods = status.failed.count().unwrap_or(0);
        end(&mut seen, &status.conditions, "Complete", "Failed");
        seen.finished = status.completed.moment().or(seen.finished);
        Some(Observation::Workload(Box::new(seen)))
    }
}

partial! {
    /// A JobSet, in any version served so far.
    JobSetObject {
        /// Metadata.
        meta: Meta = "metadata",
        /// Spec.
        spec: JobSetSpec = "spec",
        /// Status.
        status: JobSetStatus = "status",
    }
}

partial! {
    /// `spec` of a JobSet.
    JobSetSpec {
        /// Its pod sets.
        replicated: List<ReplicatedJob> = "replicatedJobs",
        /// Held.
        suspend: Flag = "suspend",
    }
}

partial! {
    /// A Job template and how often it is made.
    ReplicatedJob {
        /// Copies; one when it does not say.
        replicas: Whole = "replicas",
        /// The Job's template.
        template: JobTemplate = "template",
    }
}

partial! {
    /// A Job template.
    JobTemplate {
        /// Its Job spec.
        spec: JobSpec = "spec",
    }
}

partial! {
    /// `status` of a JobSet.
    JobSetStatus {
        /// Conditions.
        conditions: List<RawCondition> = "conditions",
        /// Its Jobs by pod set.
        jobs: List<ReplicatedJobStatus> = "replicatedJobsStatus",
    }
}

partial! {
    /// How the Jobs of one pod set fare.
    ReplicatedJobStatus {
        /// Jobs that failed.
        failed: Whole = "failed",
    }
}

impl Projected for JobSetObject {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn project(&self, table: Table, names: &mut Names) -> Option<Observation> {
        // The pod set that asks for most speaks for the whole: it decides where the gang can run.
        let asked: Vec<(u32, Resources, &PodShape)> = self
            .spec
            .replicated
            .iter()
            .map(|job| {
                let spec = &job.template.spec;
                let pods = job
                    .replicas
                    .count()
                    .unwrap_or(1)
                    .saturating_mul(spec.width(0));
                (
                    pods,
                    of_pod(&spec.template.spec, names),
                    &spec.template.spec,
                )
            })
            .collect();
        let largest = asked
            .iter()
            .rev()
            .max_by_key(|(_, one, _)| (one.device_count(), one.cpu_milli));
        let none = PodShape::default();
        let shape = largest.map_or(&none, |(_, _, shape)| *shape);
        let mut seen = blank(table, &self.meta, &self.status.conditions, shape, names)?;
        if seen.priority_class.is_none() {
            seen.priority_class = asked
                .iter()
                .find_map(|(_, _, shape)| shape.priority_class.get())
                .map(|class| names.intern(class));
        }
        seen.per_pod = largest.map(|(_, one, _)| one.clone()).unwrap_or_default();
        for (pods, one, _) in &asked {
            seen.pods = seen.pods.saturating_add(*pods);
            seen.total = plus(&seen.total, &times(one, *pods));
        }
        seen.suspended = self.spec.suspend.is_set();
        // Its Jobs start, stop and restart as one.
        seen.gang_min = (seen.pods > 1).then_some(seen.pods);
        seen.failed_pods = self
            .status
            .jobs
            .iter()
            .filter_map(|job| job.failed.count())
            .fold(0, u32::saturating_add);
        end(&mut seen, &self.status.conditions, "Completed", "Failed");
        Some(Observation::Workload(Box::new(seen)))
    }
}
