//! Kueue's objects: cluster queues, local queues and workloads, as `kueue.x-k8s.io/v1beta1`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use model::base::Name;

use super::super::World;
use super::super::catalog::POOLS;
use super::super::kueue::{ClusterQueue, Quota, Stop};
use super::super::work::{State, Work, Workload};
use super::{api_of, condition, metadata, object, owner};

impl World {
    pub(super) fn render_cluster(&self, at: usize) -> Option<Value> {
        let mut object = self.render_cluster_base(at)?;
        self.queues.clusters[at].edit.apply(&mut object);
        Some(object)
    }

    /// A cluster queue without what clients wrote over it.
    pub(in super::super) fn render_cluster_base(&self, at: usize) -> Option<Value> {
        let queue = self.queues.clusters.get(at).filter(|queue| !queue.gone)?;
        let mut meta = metadata("", &queue.name, queue.uid, queue.created);
        meta["generation"] = json!(queue.edit.generation());
        // A flavor is in one resource group only, with all resources that the group covers.
        let mut groups: Vec<(Vec<&Name>, Vec<Value>)> = Vec::new();
        for (_, quotas) in by_flavor(queue) {
            let covered: Vec<&Name> = quotas.iter().map(|quota| &quota.resource).collect();
            let flavor = json!({
                "name": POOLS[quotas[0].flavor].flavor,
                "resources": quotas.iter().map(|quota| quota_spec(quota)).collect::<Vec<_>>(),
            });
            match groups.iter_mut().find(|group| group.0 == covered) {
                Some(group) => group.1.push(flavor),
                None => groups.push((covered, vec![flavor])),
            }
        }
        let groups: Vec<Value> = groups
            .into_iter()
            .map(|(covered, flavors)| {
                let covered: Vec<&str> = covered.iter().map(|name| &***name).collect();
                json!({"coveredResources": covered, "flavors": flavors})
            })
            .collect();
        let mut spec = json!({
            "queueingStrategy": "BestEffortFIFO",
            "namespaceSelector": {},
            "resourceGroups": groups,
            "flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "TryNextFlavor"},
            "preemption": {
                "reclaimWithinCohort": "Any",
                "borrowWithinCohort": {"policy": "Never"},
                "withinClusterQueue": if queue.preempts_within { "LowerPriority" } else { "Never" },
            },
            "fairSharing": {"weight": queue.weight.to_string()},
            "stopPolicy": queue.stop.word(),
        });
        if !queue.cohort.is_empty() {
            spec["cohort"] = json!(&*queue.cohort);
        }
        let active = if queue.stop == Stop::None {
            condition(
                "Active",
                "True",
                "Ready",
                "Can admit new workloads",
                queue.created,
            )
        } else {
            condition(
                "Active",
                "False",
                "Stopped",
                "Can't admit new workloads: is stopped.",
                queue.created,
            )
        };
        let usage = usage(queue);
        Some(json!({
            "apiVersion": "kueue.x-k8s.io/v1beta1",
            "kind": "ClusterQueue",
            "metadata": meta,
            "spec": spec,
            "status": {
                "admittedWorkloads": queue.reserving.len(),
                "reservingWorkloads": queue.reserving.len(),
                "pendingWorkloads": queue.pending.len(),
                "flavorsReservation": usage,
                "flavorsUsage": usage,
                "conditions": [active],
            },
        }))
    }

    pub(super) fn render_local(&self, at: usize) -> Option<Value> {
        let mut object = self.render_local_base(at)?;
        self.queues.locals[at].edit.apply(&mut object);
        Some(object)
    }

    /// A local queue without what clients wrote over it.
    pub(in super::super) fn render_local_base(&self, at: usize) -> Option<Value> {
        let local = self.queues.locals.get(at).filter(|local| !local.gone)?;
        let mut meta = metadata(&local.namespace, &local.name, local.uid, local.created);
        meta["generation"] = json!(local.edit.generation());
        let cluster = self
            .queues
            .clusters
            .iter()
            .find(|queue| queue.name == local.cluster && !queue.gone);
        let mine = |id: &u32| {
            self.works.get(id).is_some_and(|work| {
                work.namespace == local.namespace && work.queue.as_ref() == Some(&local.name)
            })
        };
        let reserving = cluster.map_or(0, |queue| {
            queue.reserving.iter().filter(|id| mine(id)).count()
        });
        let pending = cluster.map_or(0, |queue| {
            queue.pending.iter().filter(|entry| mine(&entry.2)).count()
        });
        let active = match cluster {
            None => condition(
                "Active",
                "False",
                "ClusterQueueDoesNotExist",
                "Can't submit new workloads to clusterQueue",
                local.created,
            ),
            Some(_) if local.stop != Stop::None => condition(
                "Active",
                "False",
                "Stopped",
                "LocalQueue is stopped",
                local.created,
            ),
            Some(queue) if queue.stop != Stop::None => condition(
                "Active",
                "False",
                "ClusterQueueIsInactive",
                "Can't submit new workloads to clusterQueue",
                local.created,
            ),
            Some(_) => condition(
                "Active",
                "True",
                "Ready",
                "Can submit new workloads to clusterQueue",
                local.created,
            ),
        };
        Some(json!({
            "apiVersion": "kueue.x-k8s.io/v1beta1",
            "kind": "LocalQueue",
            "metadata": meta,
            "spec": {"clusterQueue": &*local.cluster, "stopPolicy": local.stop.word()},
            "status": {
                "admittedWorkloads": reserving,
                "reservingWorkloads": reserving,
                "pendingWorkloads": pending,
                "conditions": [active],
            },
        }))
    }

    pub(super) fn render_workload(&self, work: &Work, workload: &Workload) -> Value {
        let mut object = self.render_workload_base(work, workload);
        workload.edit.apply(&mut object);
        object
    }

    /// A Workload without what clients wrote over it.
    pub(in super::super) fn render_workload_base(&self, work: &Work, workload: &Workload) -> Value {
        let mut meta = metadata(
            &work.namespace,
            &workload.name,
            workload.uid,
            workload.created,
        );
        meta["generation"] = json!(workload.edit.generation());
        meta["labels"] = json!({"kueue.x-k8s.io/job-uid": super::super::noise::uuid(work.uid)});
        meta["ownerReferences"] = owner(
            api_of(work.kind.word()),
            work.kind.word(),
            &work.name,
            work.uid,
        );
        let sets = Self::pod_sets(work).into_iter().map(|(name, count)| {
            let template = object([
                (
                    "metadata",
                    object([("labels", Value::Object(self.template_labels(work)))]),
                ),
                ("spec", self.template_spec(work)),
            ]);
            object([
                ("name", json!(name)),
                ("count", json!(count)),
                ("template", template),
            ])
        });
        let mut spec = json!({
            "active": workload.active,
            "queueName": work.queue.as_deref().unwrap_or_default(),
            "podSets": sets.collect::<Vec<Value>>(),
            "priority": Self::rank(work),
        });
        if !work.class.is_empty() {
            spec["priorityClassName"] = json!(&*work.class);
            spec["priorityClassSource"] = json!("scheduling.k8s.io/priorityclass");
        }
        object([
            ("apiVersion", json!("kueue.x-k8s.io/v1beta1")),
            ("kind", json!("Workload")),
            ("metadata", meta),
            ("spec", spec),
            ("status", self.workload_status(work, workload)),
        ])
    }

    fn workload_status(&self, work: &Work, workload: &Workload) -> Value {
        let mut status = Map::new();
        let mut rows = Vec::new();
        match workload.reserved {
            Some((cluster, cell, since)) => {
                let queue = &self.queues.clusters[cluster];
                let mut assignments = Vec::new();
                let sets = Self::pod_sets(work);
                for (name, count) in &sets {
                    let mut assignment = json!({"name": name, "count": count});
                    if let (Some(quota), Some(resource)) =
                        (queue.quotas.get(cell), &work.ask.resource)
                    {
                        // What was reserved stays so while a job of one set is scaled.
                        let usage = match sets.len() {
                            1 => workload.size,
                            _ => count * work.ask.count,
                        };
                        assignment["flavors"] = json!({&**resource: POOLS[quota.flavor].flavor});
                        assignment["resourceUsage"] = json!({&**resource: usage.to_string()});
                    }
                    assignments.push(assignment);
                }
                status.insert(
                    "admission".into(),
                    json!({"clusterQueue": &*queue.name, "podSetAssignments": assignments}),
                );
                rows.push(condition(
                    "QuotaReserved",
                    "True",
                    "QuotaReserved",
                    &format!("Quota reserved in ClusterQueue {}", queue.name),
                    since,
                ));
                if workload.evicted.is_some() {
                    rows.push(condition(
                        "Evicted",
                        "False",
                        "QuotaReserved",
                        "Previously: the workload was evicted",
                        since,
                    ));
                    rows.push(requeued(workload));
                }
                rows.push(condition(
                    "Admitted",
                    "True",
                    "Admitted",
                    "The workload is admitted",
                    since,
                ));
                rows.push(match workload.pods_ready {
                    Some(at) => condition(
                        "PodsReady",
                        "True",
                        "Started",
                        "All pods reached readiness and the workload is running",
                        at,
                    ),
                    None => condition(
                        "PodsReady",
                        "False",
                        "WaitForStart",
                        "Not all pods are ready or succeeded",
                        since,
                    ),
                });
            }
            None if !work.is_over() => {
                let (reason, message, since) = &workload.pending;
                rows.push(condition("QuotaReserved", "False", reason, message, *since));
                if let Some((reason, message, at)) = &workload.evicted {
                    rows.push(condition("Evicted", "True", reason, message, *at));
                    rows.push(condition(
                        "Admitted",
                        "False",
                        "NoReservation",
                        "The workload has no reservation",
                        *at,
                    ));
                    rows.push(condition(
                        "PodsReady",
                        "False",
                        "WaitForStart",
                        "Not all pods are ready or succeeded",
                        *at,
                    ));
                    if let Some(why) = &workload.preempted {
                        rows.push(condition("Preempted", "True", why, message, *at));
                    }
                    if workload.active && work.suspended {
                        rows.push(requeued(workload));
                    }
                }
                if workload.active && workload.evicted.is_none() {
                    let wanted = work.ask.resource.as_ref().map(|resource| {
                        let rows = Self::pod_sets(work).into_iter().map(|(name, count)| {
                            let devices = (count * work.ask.count).to_string();
                            json!({"name": name, "resources": {&**resource: devices}})
                        });
                        Value::Array(rows.collect())
                    });
                    if let Some(wanted) = wanted {
                        status.insert("resourceRequests".into(), wanted);
                    }
                }
            }
            None => {}
        }
        if let State::Done(end, ok) = work.state {
            let (reason, message) = if ok {
                ("Succeeded", "Job finished successfully")
            } else {
                ("Failed", "Job failed")
            };
            rows.push(condition(
                "QuotaReserved",
                "True",
                "QuotaReserved",
                "Quota was reserved",
                workload.queued,
            ));
            rows.push(condition(
                "Admitted",
                "True",
                "Admitted",
                "The workload is admitted",
                workload.queued,
            ));
            rows.push(condition("Finished", "True", reason, message, end));
        }
        for row in &mut rows {
            row["observedGeneration"] = json!(workload.edit.generation());
        }
        status.insert("conditions".into(), Value::Array(rows));
        Value::Object(status)
    }
}

/// The `Requeued` condition of a workload that was evicted or activated again.
fn requeued(workload: &Workload) -> Value {
    let evicted = workload.evicted.as_ref().map(|(reason, ..)| &**reason);
    let (reason, message) = match evicted {
        Some("Deactivated") => ("Reactivated", "The workload was reactivated"),
        Some(reason) => (reason, "The workload was requeued"),
        None => ("Pending", "The workload was requeued"),
    };
    condition("Requeued", "True", reason, message, workload.queued)
}

fn by_flavor(queue: &ClusterQueue) -> BTreeMap<usize, Vec<&Quota>> {
    let mut flavors: BTreeMap<usize, Vec<&Quota>> = BTreeMap::new();
    for quota in &queue.quotas {
        flavors.entry(quota.flavor).or_default().push(quota);
    }
    flavors
}

fn quota_spec(quota: &Quota) -> Value {
    let mut resource = json!({"name": &*quota.resource, "nominalQuota": quota.nominal.to_string()});
    if let Some(borrow) = quota.borrow {
        resource["borrowingLimit"] = json!(borrow.to_string());
    }
    if let Some(lend) = quota.lend {
        resource["lendingLimit"] = json!(lend.to_string());
    }
    resource
}

fn usage(queue: &ClusterQueue) -> Value {
    let rows: Vec<Value> = by_flavor(queue)
        .into_iter()
        .map(|(flavor, quotas)| {
            let resources: Vec<Value> = quotas
                .iter()
                .map(|quota| {
                    let borrowed = quota.used.saturating_sub(quota.nominal);
                    json!({"name": &*quota.resource, "total": quota.used.to_string(), "borrowed": borrowed.to_string()})
                })
                .collect();
            json!({"name": POOLS[flavor].flavor, "resources": resources})
        })
        .collect();
    Value::Array(rows)
}
