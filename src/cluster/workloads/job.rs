//! batch/v1 Jobs and JobSets: pods that run to completion, and gangs of such pods.

use model::base::Names;
use model::fleet::observe::{Observation, Table};
use model::fleet::siting::StartBlock;

use super::pod_sets::{end, of_sets, only_set, pod_set};
use super::workload::blank;
use crate::Projected;
use crate::lenient_json::{List, OptionalBool, Text, Whole, partial};
use crate::meta::{Meta, RawCondition, find};
use crate::pod_placement::topology_constraint;
use crate::queues::kai::of_annotated_pod;
use crate::resources::{Template, times};

partial! {
    JobObject {
        meta: Meta = "metadata",
        spec: JobSpec = "spec",
        status: JobStatus = "status",
    }
}

partial! {
    JobSpec {
        /// Concurrent pods; one when absent.
        parallelism: Whole = "parallelism",
        /// Pods that must end well.
        completions: Whole = "completions",
        /// How completions count: `Indexed` or `NonIndexed`.
        completion_mode: Text = "completionMode",
        suspend: OptionalBool = "suspend",
        /// The controller that manages it.
        managed_by: Text = "managedBy",
        /// Maximum run time, seconds.
        deadline: Whole = "activeDeadlineSeconds",
        template: Template = "template",
    }
}

partial! {
    JobStatus {
        /// When it was first taken up.
        started: Text = "startTime",
        /// When it ended well.
        completed: Text = "completionTime",
        /// Pods that ended well.
        succeeded: Whole = "succeeded",
        failed: Whole = "failed",
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

    /// Gang size: the parallelism of an indexed Job whose indexes all run at the same time.
    fn gang(&self) -> Option<u32> {
        let parallelism = self.parallelism.count().unwrap_or(1);
        let whole = &*self.completion_mode == "Indexed"
            && self.completions.count() == Some(parallelism)
            && parallelism > 1;
        whole.then_some(parallelism)
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
        seen.managed_by = spec.managed_by.get().map(|by| names.intern(by));
        seen.gang_min = spec.gang();
        seen.pods = match seen.gang_min {
            Some(all) => all,
            None => spec.width(status.succeeded.count().unwrap_or(0)),
        };
        // For a gang, completed pods count as well.
        if seen.gang_min.is_some() {
            seen.succeeded_pods = status.succeeded.count().unwrap_or(0);
        }
        let annotations = &spec.template.meta.annotations;
        seen.per_pod = of_annotated_pod(shape, annotations, names);
        seen.total = times(&seen.per_pod, seen.pods);
        seen.pod_sets = only_set(&seen, &spec.template, names);
        seen.time_limit = spec.deadline.seconds();
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
        meta: Meta = "metadata",
        spec: JobSetSpec = "spec",
        status: JobSetStatus = "status",
    }
}

partial! {
    /// `spec` of a JobSet.
    JobSetSpec {
        replicated: List<ReplicatedJob> = "replicatedJobs",
        suspend: OptionalBool = "suspend",
        /// The controller that manages it.
        managed_by: Text = "managedBy",
        /// Order in which its pod sets start.
        startup: StartupPolicy = "startupPolicy",
    }
}

partial! {
    StartupPolicy {
        /// `AnyOrder` or `InOrder`: each pod set after all before it are ready.
        order: Text = "startupPolicyOrder",
    }
}

partial! {
    /// A pod set that has to reach a status first.
    Dependency {
        /// Name of the pod set.
        name: Text = "name",
        /// State that it must reach first: `Complete` or `Ready`.
        status: Text = "status",
    }
}

partial! {
    /// A Job template and how often it is made.
    ReplicatedJob {
        name: Text = "name",
        /// Replicas; one when absent.
        replicas: Whole = "replicas",
        template: JobTemplate = "template",
        /// Pod sets that come first.
        depends_on: List<Dependency> = "dependsOn",
    }
}

partial! {
    JobTemplate {
        /// Its labels and annotations.
        meta: Meta = "metadata",
        spec: JobSpec = "spec",
    }
}

partial! {
    /// `status` of a JobSet.
    JobSetStatus {
        conditions: List<RawCondition> = "conditions",
        /// Its Jobs by pod set, in any order.
        jobs: List<ReplicatedJobStatus> = "replicatedJobsStatus",
        /// How often all of its Jobs were created again.
        restarts: Whole = "restarts",
    }
}

partial! {
    /// Status of the Jobs of one pod set.
    ReplicatedJobStatus {
        /// Name of the pod set.
        name: Text = "name",
        active: Whole = "active",
        /// Jobs of which all pods are ready or succeeded.
        ready: Whole = "ready",
        failed: Whole = "failed",
        /// Jobs that succeeded: their pods are not created again.
        succeeded: Whole = "succeeded",
    }
}

impl JobSetStatus {
    fn of(&self, name: &str) -> Option<&ReplicatedJobStatus> {
        self.jobs.iter().find(|job| job.name.get() == Some(name))
    }

    /// The Jobs of a pod set that succeeded.
    fn succeeded(&self, name: &str) -> u32 {
        let own = self.of(name);
        own.and_then(|job| job.succeeded.count()).unwrap_or(0)
    }

    /// Whether all Jobs of a pod set have this status. Source: JobSet's `dependencyReachedStatus` and `allReplicasStarted`.
    fn has_reached(&self, job: &ReplicatedJob, status: &str) -> bool {
        let name = job.name.get().unwrap_or_default();
        let reached = match (self.of(name), status) {
            (None, _) => 0,
            (Some(own), "Complete") => own.succeeded.count().unwrap_or(0),
            (Some(own), _) => [&own.ready, &own.succeeded, &own.failed]
                .iter()
                .filter_map(|jobs| jobs.count())
                .fold(0, u32::saturating_add),
        };
        reached >= job.replicas.count().unwrap_or(1)
    }

    /// Whether a pod set has Jobs that run or ran.
    fn has_begun(&self, name: &str) -> bool {
        self.of(name).is_some_and(|own| {
            let jobs = [&own.active, &own.ready, &own.succeeded, &own.failed];
            jobs.iter().any(|jobs| jobs.count().unwrap_or(0) > 0)
        })
    }
}

impl JobSetSpec {
    /// What the pod set at `at` starts after, while that has not come about.
    fn block(
        &self,
        at: usize,
        status: &JobSetStatus,
        names: &mut Names,
    ) -> Option<Box<StartBlock>> {
        const READY: &str = "Ready";
        let own = self.replicated.get(at)?;
        if status.has_begun(own.name.get().unwrap_or_default()) {
            return None;
        }
        let in_order = &*self.startup.order == "InOrder";
        let before = self.replicated.iter().take(if in_order { at } else { 0 });
        let named = own.depends_on.iter().filter_map(|dependency| {
            let mut all = self.replicated.iter();
            let job = all.find(|job| job.name.get() == dependency.name.get())?;
            Some((job, dependency.status.get().unwrap_or(READY)))
        });
        let mut first = before.map(|job| (job, READY)).chain(named);
        let (on, until) = first.find(|(job, until)| !status.has_reached(job, until))?;
        Some(Box::new(StartBlock::Role {
            on: names.intern(on.name.get().unwrap_or_default()),
            until: names.intern(until),
        }))
    }
}

impl Projected for JobSetObject {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn project(&self, table: Table, names: &mut Names) -> Option<Observation> {
        let exclusive = |meta: &Meta| {
            meta.annotations
                .get("alpha.jobset.sigs.k8s.io/exclusive-topology")
                .and_then(Text::get)
                .map(str::to_owned)
        };
        let of_all = exclusive(&self.meta);
        // Of one that has ended the size is that of its spec.
        let ended = |kind: &str| find(&self.status.conditions, kind).and_then(RawCondition::status);
        let is_over = [ended("Completed"), ended("Failed")].contains(&Some(true));
        let sets = self
            .spec
            .replicated
            .iter()
            .enumerate()
            .map(|(at, job)| {
                let spec = &job.template.spec;
                let (copies, width) = (job.replicas.count().unwrap_or(1), spec.width(0));
                let named = format!("set-{at}");
                let name = job.name.get().unwrap_or(&named);
                let left = match is_over {
                    true => copies,
                    false => copies.saturating_sub(self.status.succeeded(name)),
                };
                let pods = left.saturating_mul(width);
                let mut set = pod_set(name, pods, pods, &spec.template, names);
                // Each of its Jobs has a domain of its own.
                if let Some(level) = exclusive(&job.template.meta).or_else(|| of_all.clone()) {
                    set.topology = match copies {
                        1 => topology_constraint(Some(&level), None, false, None, names),
                        _ => topology_constraint(None, None, false, Some((&level, width)), names),
                    };
                }
                if !is_over {
                    set.blocked = self.spec.block(at, &self.status, names);
                }
                (set, &spec.template.spec)
            })
            .collect();
        let mut seen = of_sets(table, &self.meta, &self.status.conditions, sets, names)?;
        seen.suspended = self.spec.suspend.is_set();
        seen.managed_by = self.spec.managed_by.get().map(|by| names.intern(by));
        // The Jobs of a JobSet start, stop and restart together.
        seen.gang_min = (seen.pods > 1).then_some(seen.pods);
        seen.restarts = self.status.restarts.count().unwrap_or(0);
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
