//! LeaderWorkerSets: replicated groups of one leader and its workers, each group a gang.

use model::base::Names;
use model::fleet::observe::{Observation, Table};

use super::pod_sets::{of_sets, pod_set};
use crate::Projected;
use crate::lenient_json::{List, Maybe, Text, Whole, partial};
use crate::meta::{Meta, RawCondition};
use crate::pod_placement::topology_constraint;
use crate::resources::Template;

partial! {
    LeaderWorkerSetObject {
        meta: Meta = "metadata",
        spec: LeaderWorkerSetSpec = "spec",
        status: LeaderWorkerSetStatus = "status",
    }
}

partial! {
    LeaderWorkerSetSpec {
        /// Groups; one when absent.
        replicas: Whole = "replicas",
        group: GroupTemplate = "leaderWorkerTemplate",
    }
}

partial! {
    GroupTemplate {
        /// The leader's template; the workers' template when absent.
        leader: Maybe<Template> = "leaderTemplate",
        worker: Template = "workerTemplate",
        /// Pods of a group, the leader included; one when absent.
        size: Whole = "size",
    }
}

partial! {
    LeaderWorkerSetStatus {
        conditions: List<RawCondition> = "conditions",
    }
}

impl Projected for LeaderWorkerSetObject {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn project(&self, table: Table, names: &mut Names) -> Option<Observation> {
        let group = &self.spec.group;
        let replicas = self.spec.replicas.count().unwrap_or(1);
        let size = group.size.count().unwrap_or(1).max(1);
        let leader = group.leader.0.as_ref().unwrap_or(&group.worker);
        let mut sets = vec![(
            pod_set("leader", replicas, replicas.min(1), leader, names),
            &leader.spec,
        )];
        if size > 1 {
            let workers = replicas.saturating_mul(size - 1);
            let set = pod_set("workers", workers, size - 1, &group.worker, names);
            sets.push((set, &group.worker.spec));
        }
        if let Some(level) = self
            .meta
            .annotations
            .get("leaderworkerset.sigs.k8s.io/exclusive-topology")
            .and_then(Text::get)
        {
            // Each group has its own topology domain.
            for (set, _) in &mut sets {
                set.topology = match replicas {
                    0 | 1 => topology_constraint(Some(level), None, false, None, names),
                    _ => topology_constraint(None, None, false, Some((level, size)), names),
                };
            }
        }
        let mut seen = of_sets(table, &self.meta, &self.status.conditions, sets, names)?;
        seen.gang_min = (size > 1 && replicas > 0).then_some(size);
        Some(Observation::Workload(Box::new(seen)))
    }
}
