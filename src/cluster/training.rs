//! Kubeflow's training jobs: replicas by role (PyTorchJob, TFJob, MPIJob of every version) and TrainJobs.

use model::base::Names;
use model::fleet::observe::{Observation, Table};

use super::Projected;
use super::meta::{Meta, RawCondition};
use super::partial::{Flag, List, Map, Text, Whole, partial};
use super::resources::{Asked, PodShape, Template, of_pod};
use super::sets::{end, of_sets, pod_set};

partial! {
    /// A training job with replicas by role.
    ReplicaJobObject {
        /// Metadata.
        meta: Meta = "metadata",
        /// Spec.
        spec: ReplicaJobSpec = "spec",
        /// Status.
        status: TrainingStatus = "status",
    }
}

partial! {
    /// Its `spec`: one of the maps is there, by kind.
    ReplicaJobSpec {
        /// Of a PyTorchJob.
        pytorch: Map<Replicas> = "pytorchReplicaSpecs",
        /// Of a TFJob.
        tf: Map<Replicas> = "tfReplicaSpecs",
        /// Of an MPIJob.
        mpi: Map<Replicas> = "mpiReplicaSpecs",
        /// How it runs.
        policy: RunPolicy = "runPolicy",
        /// How far a PyTorchJob may shrink.
        elastic: Elastic = "elasticPolicy",
    }
}

partial! {
    /// The replicas of one role.
    Replicas {
        /// Pods; one when it does not say.
        replicas: Whole = "replicas",
        /// Their template.
        template: Template = "template",
    }
}

partial! {
    /// `runPolicy`.
    RunPolicy {
        /// Held.
        suspend: Flag = "suspend",
        /// The controller that manages it.
        managed_by: Text = "managedBy",
        /// How long it may run, seconds.
        deadline: Whole = "activeDeadlineSeconds",
        /// How its gang is scheduled.
        scheduling: SchedulingPolicy = "schedulingPolicy",
    }
}

partial! {
    /// `schedulingPolicy`.
    SchedulingPolicy {
        /// Pods without which it does nothing.
        min: Whole = "minAvailable",
        /// Its priority class.
        priority_class: Text = "priorityClass",
    }
}

partial! {
    /// `elasticPolicy`.
    Elastic {
        /// Workers without which it does nothing.
        min: Whole = "minReplicas",
    }
}

partial! {
    /// `status` of any training job.
    TrainingStatus {
        /// Conditions.
        conditions: List<RawCondition> = "conditions",
        /// When it was first taken up.
        started: Text = "startTime",
        /// When it ended.
        completed: Text = "completionTime",
        /// How its replicas fare, by role.
        replicas: Map<ReplicaStatus> = "replicaStatuses",
    }
}

partial! {
    /// How the replicas of one role fare.
    ReplicaStatus {
        /// Pods that failed.
        failed: Whole = "failed",
    }
}

/// Pods that run when each set has what it needs at least.
fn needed<'a>(sets: impl Iterator<Item = &'a model::fleet::siting::PodSet>) -> u32 {
    sets.map(|set| set.min).fold(0, u32::saturating_add)
}

impl Projected for ReplicaJobObject {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn project(&self, table: Table, names: &mut Names) -> Option<Observation> {
        let spec = &self.spec;
        let shrinks = spec.elastic.min.count();
        let mut sets = Vec::new();
        for (role, replicas) in [&spec.pytorch, &spec.tf, &spec.mpi]
            .into_iter()
            .flat_map(|map| map.iter())
        {
            let count = replicas.replicas.count().unwrap_or(1);
            let min = match (role, shrinks) {
                ("Worker", Some(min)) => min.min(count),
                _ => count,
            };
            let set = pod_set(
                &role.to_ascii_lowercase(),
                count,
                min,
                &replicas.template,
                names,
            );
            sets.push((set, &replicas.template.spec));
        }
        let min = needed(sets.iter().map(|(set, _)| set));
        let mut seen = of_sets(table, &self.meta, &self.status.conditions, sets, names)?;
        // Its replicas talk to each other from the first step on.
        let min = spec.policy.scheduling.min.count().unwrap_or(min);
        seen.gang_min = (seen.pods > 1).then_some(min.min(seen.pods));
        seen.suspended = spec.policy.suspend.is_set();
        seen.managed_by = spec.policy.managed_by.get().map(|by| names.intern(by));
        seen.time_limit = spec.policy.deadline.seconds();
        if let Some(class) = spec.policy.scheduling.priority_class.get() {
            seen.priority_class = Some(names.intern(class));
        }
        seen.started = self.status.started.moment();
        seen.failed_pods = self
            .status
            .replicas
            .iter()
            .filter_map(|(_, role)| role.failed.count())
            .fold(0, u32::saturating_add);
        end(&mut seen, &self.status.conditions, "Succeeded", "Failed");
        seen.finished = self.status.completed.moment().or(seen.finished);
        Some(Observation::Workload(Box::new(seen)))
    }
}

partial! {
    /// A TrainJob.
    TrainJobObject {
        /// Metadata.
        meta: Meta = "metadata",
        /// Spec.
        spec: TrainJobSpec = "spec",
        /// Status.
        status: TrainingStatus = "status",
    }
}

partial! {
    /// Its `spec`. What it leaves out its runtime decides; the JobSet that comes of it tells.
    TrainJobSpec {
        /// Held.
        suspend: Flag = "suspend",
        /// The controller that manages it.
        managed_by: Text = "managedBy",
        /// How long it may run, seconds.
        deadline: Whole = "activeDeadlineSeconds",
        /// The training pods.
        trainer: Trainer = "trainer",
    }
}

partial! {
    /// `trainer`.
    Trainer {
        /// Pods; the runtime's number when it does not say.
        nodes: Whole = "numNodes",
        /// What each asks for; the runtime's resources when it does not say.
        resources: Asked = "resourcesPerNode",
    }
}

impl Projected for TrainJobObject {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn project(&self, table: Table, names: &mut Names) -> Option<Observation> {
        let trainer = &self.spec.trainer;
        let pods = trainer.nodes.count().unwrap_or(1);
        let template = Template {
            spec: PodShape {
                resources: trainer.resources.clone(),
                ..PodShape::default()
            },
            ..Template::default()
        };
        let tells = of_pod(&template.spec, names).wants_devices();
        let sets = tells
            .then(|| {
                let set = pod_set("node", pods, pods, &template, names);
                (set, &template.spec)
            })
            .into_iter()
            .collect();
        let mut seen = of_sets(table, &self.meta, &self.status.conditions, sets, names)?;
        seen.pods = pods;
        seen.gang_min = (tells && pods > 1).then_some(pods);
        seen.suspended = self.spec.suspend.is_set();
        seen.managed_by = self.spec.managed_by.get().map(|by| names.intern(by));
        seen.time_limit = self.spec.deadline.seconds();
        end(&mut seen, &self.status.conditions, "Complete", "Failed");
        Some(Observation::Workload(Box::new(seen)))
    }
}
