//! Queues and disruption budgets that clients write.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use model::base::quantities::quantity;
use model::base::{Name, ObjectKey};
use model::plan::StopPolicy;

use super::objects::{strings, strip};
use super::patch::Edit;
use super::requests::text;
use crate::world::catalog::POOLS;
use crate::world::noise::{hash, mix};
use crate::world::queueing::kueue::{ClusterQueue, LocalQueue, SimQuota, stop_policy};
use crate::world::work::{DisruptionBound, WorkId};
use crate::world::{Ref, SimBudget, World};

impl World {
    pub(in crate::world) fn write_cluster(&mut self, key: &ObjectKey, object: &Value) {
        let now = self.now;
        let known = self
            .queues
            .clusters
            .iter()
            .position(|queue| queue.name == key.name && !queue.gone);
        let at = known.unwrap_or_else(|| {
            let uid = mix(hash(&key.name), now.millis() as u64);
            self.queues
                .clusters
                .push(ClusterQueue::new(key.name.clone(), now, uid));
            self.queues.clusters.len() - 1
        });
        let stop = stop_policy(text(object, "/spec/stopPolicy"));
        let quotas = quotas(object, &self.queues.clusters[at].quotas);
        let queue = &mut self.queues.clusters[at];
        queue.stop = stop;
        queue.cohort = Name::new(text(object, "/spec/cohort"));
        queue.preempts_within =
            text(object, "/spec/preemption/withinClusterQueue") == "LowerPriority";
        queue.weight = object
            .pointer("/spec/fairSharing/weight")
            .and_then(|weight| weight.as_str().and_then(quantity).or(weight.as_i64()))
            .map_or(queue.weight, |weight| weight.max(0) as u32);
        // Reservations point at quotas by place: what is in use stays where it is.
        for (place, quota) in quotas {
            match place {
                Some(place) => queue.quotas[place] = quota,
                None => queue.quotas.push(quota),
            }
        }
        queue.edit.bump();
        let drained: Vec<WorkId> = if stop == StopPolicy::HoldAndDrain {
            queue.reserving.iter().copied().collect()
        } else {
            Vec::new()
        };
        for id in drained {
            self.evict_workload(id, "ClusterQueueStopped", "The ClusterQueue is stopped");
        }
        if let Some(base) = self.render_cluster_base(at) {
            let mut written = object.clone();
            written["spec"]["resourceGroups"] = base["spec"]["resourceGroups"].clone();
            self.queues.clusters[at].edit.learn(&base, &written);
        }
        self.touch(Ref::Cluster(at));
        for local in 0..self.queues.locals.len() {
            if self.queues.locals[local].cluster == key.name {
                self.touch(Ref::Local(local));
            }
        }
        self.requeue_orphans();
        self.kick_admission();
    }

    /// Enqueues all works without quota, for LocalQueues created since.
    pub(in crate::world) fn requeue_orphans(&mut self) {
        let ids: Vec<WorkId> = self
            .works
            .iter()
            .filter(|(_, work)| {
                work.workload
                    .as_ref()
                    .is_some_and(|workload| workload.reserved.is_none())
            })
            .map(|(id, _)| *id)
            .collect();
        for id in ids {
            self.enqueue(id);
        }
    }

    pub(in crate::world) fn write_local(&mut self, key: &ObjectKey, object: &Value) {
        let now = self.now;
        let known = self.queues.locals.iter().position(|local| {
            local.namespace == key.namespace && local.name == key.name && !local.gone
        });
        let at = known.unwrap_or_else(|| {
            let cluster = Name::new(text(object, "/spec/clusterQueue"));
            let uid = mix(
                mix(hash(&key.name), hash(&key.namespace)),
                now.millis() as u64,
            );
            let (namespace, name) = (key.namespace.clone(), key.name.clone());
            self.queues
                .locals
                .push(LocalQueue::new(namespace, name, cluster, now, uid));
            self.queues.locals.len() - 1
        });
        let stop = stop_policy(text(object, "/spec/stopPolicy"));
        self.queues.locals[at].stop = stop;
        self.queues.locals[at].edit.bump();
        if stop == StopPolicy::HoldAndDrain {
            let drained: Vec<WorkId> = self
                .works
                .iter()
                .filter(|(_, work)| {
                    work.namespace == key.namespace
                        && work.queue.as_ref() == Some(&key.name)
                        && work
                            .workload
                            .as_ref()
                            .is_some_and(|workload| workload.reserved.is_some())
                })
                .map(|(id, _)| *id)
                .collect();
            for id in drained {
                self.evict_workload(id, "LocalQueueStopped", "The LocalQueue is stopped");
            }
        }
        if let Some(base) = self.render_local_base(at) {
            self.queues.locals[at].edit.learn(&base, object);
        }
        self.touch(Ref::Local(at));
        self.requeue_orphans();
        self.kick_admission();
    }

    pub(in crate::world) fn write_budget(&mut self, key: ObjectKey, mut object: Value) {
        let now = self.now;
        let selector = strings(object.pointer("/spec/selector/matchLabels"));
        let bound = match object.pointer("/spec/minAvailable") {
            Some(value) => DisruptionBound::MinAvailable(value.clone()),
            None => DisruptionBound::MaxUnavailable(
                object
                    .pointer("/spec/maxUnavailable")
                    .cloned()
                    .unwrap_or(json!(1)),
            ),
        };
        strip(&mut object);
        let uid = mix(self.key_word(&key.name), now.millis() as u64);
        let budget = self
            .budgets
            .entry(key.clone())
            .or_insert_with(|| SimBudget {
                uid,
                created: now,
                selector: BTreeMap::new(),
                bound: bound.clone(),
                foreign: None,
                edit: Edit::default(),
            });
        budget.selector = selector;
        if budget.bound != bound {
            budget.edit.bump();
        }
        budget.bound = bound;
        budget.foreign = Some(Box::new(object));
        self.touch(Ref::Budget(key));
    }
}

/// The quotas that a client wrote, each with its place among the known ones.
fn quotas(object: &Value, known: &[SimQuota]) -> Vec<(Option<usize>, SimQuota)> {
    let rows = |value: &Value, pointer: &str| -> Vec<Value> {
        value
            .pointer(pointer)
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default()
    };
    let amount = |row: &Value, field: &str| -> Option<u32> {
        let value = row.get(field)?;
        let whole = value.as_str().and_then(quantity).or(value.as_i64())?;
        Some(whole.clamp(0, i64::from(u32::MAX)) as u32)
    };
    let mut all = Vec::new();
    for group in rows(object, "/spec/resourceGroups") {
        for flavor in rows(&group, "/flavors") {
            let Some(pool) = POOLS
                .iter()
                .position(|spec| spec.flavor == text(&flavor, "/name"))
            else {
                continue;
            };
            for row in rows(&flavor, "/resources") {
                let resource = Name::new(text(&row, "/name"));
                let place = known
                    .iter()
                    .position(|quota| quota.flavor == pool && quota.resource == resource);
                all.push((
                    place,
                    SimQuota {
                        flavor: pool,
                        resource,
                        nominal: amount(&row, "nominalQuota").unwrap_or(0),
                        borrow: amount(&row, "borrowingLimit"),
                        lend: amount(&row, "lendingLimit"),
                        used: place.map_or(0, |place| known[place].used),
                    },
                ));
            }
        }
    }
    all
}
