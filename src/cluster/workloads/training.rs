//! Kubeflow's training jobs: replicas by role (PyTorchJob, TFJob, JAXJob, PaddleJob, XGBoostJob, MPIJob of every version) and TrainJobs.

use model::base::Names;
use model::fleet::observe::{Observation, Table};
use model::fleet::siting::StartBlock;

use super::pod_sets::{end, of_sets, pod_set};
use crate::Projected;
use crate::lenient_json::{List, Map, OptionalBool, Text, Whole, partial};
use crate::meta::{Meta, RawCondition};
use crate::resources::{Asked, PodShape, Template, of_pod};

partial! {
    /// A training job with replicas by role.
    ReplicaJobObject {
        meta: Meta = "metadata",
        spec: ReplicaJobSpec = "spec",
        status: TrainingStatus = "status",
    }
}

partial! {
    /// Its `spec`: one of the maps is set, by kind.
    ReplicaJobSpec {
        pytorch: Map<Replicas> = "pytorchReplicaSpecs",
        tf: Map<Replicas> = "tfReplicaSpecs",
        mpi: Map<Replicas> = "mpiReplicaSpecs",
        jax: Map<Replicas> = "jaxReplicaSpecs",
        paddle: Map<Replicas> = "paddleReplicaSpecs",
        xgboost: Map<Replicas> = "xgbReplicaSpecs",
        policy: RunPolicy = "runPolicy",
        /// The elastic bounds of a PyTorchJob or PaddleJob.
        elastic: Elastic = "elasticPolicy",
    }
}

partial! {
    /// The replicas of one role.
    Replicas {
        /// Number of pods; 1 when not set.
        replicas: Whole = "replicas",
        template: Template = "template",
    }
}

partial! {
    RunPolicy {
        /// True while the job is suspended.
        suspend: OptionalBool = "suspend",
        /// The controller that manages it.
        managed_by: Text = "managedBy",
        /// Longest run time, in seconds.
        deadline: Whole = "activeDeadlineSeconds",
        scheduling: SchedulingPolicy = "schedulingPolicy",
    }
}

partial! {
    SchedulingPolicy {
        /// Minimum number of pods (gang size).
        min: Whole = "minAvailable",
        priority_class: Text = "priorityClass",
    }
}

partial! {
    Elastic {
        /// Minimum number of workers.
        min: Whole = "minReplicas",
    }
}

partial! {
    /// `status` of any training job.
    TrainingStatus {
        conditions: List<RawCondition> = "conditions",
        /// When the controller first processed it.
        started: Text = "startTime",
        completed: Text = "completionTime",
        /// Status of its replicas, by role.
        replicas: Map<ReplicaStatus> = "replicaStatuses",
    }
}

partial! {
    /// Status of the replicas of one role.
    ReplicaStatus {
        failed: Whole = "failed",
    }
}

/// The sum of the minimum pods of all sets.
fn needed<'a>(sets: impl Iterator<Item = &'a model::fleet::siting::JobPodSet>) -> u32 {
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
        let maps = [
            &spec.pytorch,
            &spec.tf,
            &spec.mpi,
            &spec.jax,
            &spec.paddle,
            &spec.xgboost,
        ];
        for (role, replicas) in maps.into_iter().flat_map(|map| map.iter()) {
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
        // Its replicas communicate from the first step on.
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
    TrainJobObject {
        meta: Meta = "metadata",
        spec: TrainJobSpec = "spec",
        status: TrainingStatus = "status",
    }
}

partial! {
    /// Its `spec`. The training runtime supplies absent fields; the resulting JobSet shows them.
    TrainJobSpec {
        /// True while the job is suspended.
        suspend: OptionalBool = "suspend",
        /// The controller that manages it.
        managed_by: Text = "managedBy",
        /// Longest run time, in seconds.
        deadline: Whole = "activeDeadlineSeconds",
        trainer: Trainer = "trainer",
    }
}

partial! {
    Trainer {
        /// Number of pods; the runtime's number when not set.
        nodes: Whole = "numNodes",
        /// Requests of each pod; the runtime's when not set.
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
        let has_devices = of_pod(&template.spec, names).wants_devices();
        let sets = has_devices
            .then(|| {
                let mut set = pod_set("node", pods, pods, &template, names);
                // Node selector, tolerations and roles that come first are its runtime's: its JobSet has them.
                set.blocked = Some(Box::new(StartBlock::NoPlacement));
                (set, &template.spec)
            })
            .into_iter()
            .collect();
        let mut seen = of_sets(table, &self.meta, &self.status.conditions, sets, names)?;
        seen.pods = pods;
        seen.gang_min = (has_devices && pods > 1).then_some(pods);
        seen.suspended = self.spec.suspend.is_set();
        seen.managed_by = self.spec.managed_by.get().map(|by| names.intern(by));
        seen.time_limit = self.spec.deadline.seconds();
        end(&mut seen, &self.status.conditions, "Complete", "Failed");
        Some(Observation::Workload(Box::new(seen)))
    }
}
