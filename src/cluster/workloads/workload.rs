//! ReplicaSets, Deployments, StatefulSets and DaemonSets: workloads of the `apps` group.

use std::sync::Arc;

use model::base::Names;
use model::fleet::observe::{Observation, Table, WorkloadSeen};

use super::pod_sets::only_set;
use crate::Projected;
use crate::lenient_json::{List, Whole, partial};
use crate::meta::{Meta, RawCondition, conditions, labels};
use crate::queues::kai::of_annotated_pod;
use crate::resources::{PodShape, Template, times};

partial! {
    /// An apps/v1 object with a pod template and a number of replicas.
    ReplicatedObject {
        meta: Meta = "metadata",
        spec: ReplicatedSpec = "spec",
        status: ReplicatedStatus = "status",
    }
}

partial! {
    ReplicatedSpec {
        /// Desired number of pods; 1 when not set.
        replicas: Whole = "replicas",
        template: Template = "template",
    }
}

partial! {
    ReplicatedStatus {
        /// A DaemonSet's number of nodes.
        desired: Whole = "desiredNumberScheduled",
        conditions: List<RawCondition> = "conditions",
    }
}

/// The scheduler of pods that do not name one.
const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// An empty workload of this key.
pub(crate) fn blank(
    table: Table,
    meta: &Meta,
    raw: &[RawCondition],
    shape: &PodShape,
    names: &mut Names,
) -> Option<WorkloadSeen> {
    let key = meta.key(names)?;
    Some(WorkloadSeen {
        table,
        kind: names.intern(table.api().shown),
        key,
        uid: names.intern(&meta.uid),
        labels: meta.labels(names),
        annotations: meta.annotations(names),
        owner: meta.owner(names),
        created: meta.created(),
        suspended: false,
        pods: 0,
        gang_min: None,
        per_pod: Default::default(),
        total: Default::default(),
        node_selector: labels(&shape.node_selector, names),
        priority_class: shape.priority_class.get().map(|class| names.intern(class)),
        conditions: conditions(raw, names),
        deleted: meta.deleted.moment(),
        started: None,
        finished: None,
        outcome: None,
        failed_pods: 0,
        pod_sets: Arc::from([]),
        time_limit: None,
        managed_by: None,
        scheduler: shape
            .scheduler
            .get()
            .filter(|name| *name != DEFAULT_SCHEDULER)
            .map(|name| names.intern(name)),
        succeeded_pods: 0,
        restarts: 0,
        generation: meta.generation.0.unwrap_or(0),
    })
}

impl Projected for ReplicatedObject {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn project(&self, table: Table, names: &mut Names) -> Option<Observation> {
        let shape = &self.spec.template.spec;
        let mut seen = blank(table, &self.meta, &self.status.conditions, shape, names)?;
        seen.pods = match table {
            Table::DaemonSets => self.status.desired.count().unwrap_or(0),
            _ => self.spec.replicas.count().unwrap_or(1),
        };
        let annotations = &self.spec.template.meta.annotations;
        seen.per_pod = of_annotated_pod(shape, annotations, names);
        seen.total = times(&seen.per_pod, seen.pods);
        seen.pod_sets = only_set(&seen, &self.spec.template, names);
        Some(Observation::Workload(Box::new(seen)))
    }
}
