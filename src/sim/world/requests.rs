//! What clients write and delete, and what the cluster's controllers make of it.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::base::quantities::{quantity, quantity_milli};
use crate::base::time::parse_span;
use crate::base::{Moment, Name, ObjectKey};

use super::super::change::Resource;
use super::catalog::POOLS;
use super::edit::Edit;
use super::kueue::{ClusterQueue, LocalQueue, Quota, Stop};
use super::node::{NodeId, Taint};
use super::noise::{hash, mix, suffix};
use super::render::template_of;
use super::work::{Ask, Bound, Draft, Kind, Profile, Toleration, WorkId};
use super::{Budget, Ref, World};

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn key_of(object: &Value) -> ObjectKey {
    ObjectKey::new(
        text(object, "/metadata/namespace"),
        text(object, "/metadata/name"),
    )
}

fn number(object: &Value, pointer: &str) -> Option<u32> {
    object.pointer(pointer)?.as_u64()?.try_into().ok()
}

impl World {
    /// A client created or changed an object.
    pub(super) fn write(&mut self, resource: Resource, object: Value) {
        let key = key_of(&object);
        if resource == Resource::Nodes
            && let Some(&id) = self.node_names.get(&key.name)
        {
            return self.write_node(id, object);
        }
        if resource == Resource::Pods {
            return match self.pod_id(&key) {
                Some(id) => {
                    if let Some(pod) = self.pods.get(&id)
                        && let Some(base) = self.render_pod_base(pod)
                        && let Some(pod) = self.pods.get_mut(&id)
                    {
                        pod.edit.learn(&base, &object);
                    }
                    self.touch(Ref::Pod(id));
                }
                None => self.create(Kind::Pod, &key, object),
            };
        }
        match (resource, self.names.get(&(resource, key.clone())).cloned()) {
            (_, Some(Ref::Work(id))) => self.write_work(id, object),
            (_, Some(Ref::Group(id, at))) => self.write_group(id, at, &object),
            (_, Some(Ref::Workload(id))) => self.write_workload(id, &object),
            (Resource::Jobs, _) => self.create(Kind::Job, &key, object),
            (Resource::JobSets, _) => self.create(Kind::JobSet, &key, object),
            (Resource::Deployments, _) => self.create(Kind::Deployment, &key, object),
            (Resource::StatefulSets, _) => self.create(Kind::StatefulSet, &key, object),
            (Resource::ClusterQueues, _) => self.write_cluster(&key, &object),
            (Resource::LocalQueues, _) => self.write_local(&key, &object),
            (Resource::PodDisruptionBudgets, _) => self.write_budget(key, object),
            _ => self.write_plain(resource, key, object),
        }
    }

    /// An object without behaviour is kept as it was written.
    fn write_plain(&mut self, resource: Resource, key: ObjectKey, mut object: Value) {
        let uid = self.plain_uid(resource, &key);
        let created = self
            .plain
            .get(&(resource, key.clone()))
            .map(|old| text(old, "/metadata/creationTimestamp").to_owned())
            .unwrap_or_else(|| self.now.rfc3339());
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("resourceVersion");
            let has = metadata
                .get("uid")
                .and_then(Value::as_str)
                .is_some_and(|uid| !uid.is_empty());
            if !has {
                metadata.insert("uid".into(), json!(uid));
            }
            metadata.insert("creationTimestamp".into(), json!(created));
        }
        if resource == Resource::Namespaces {
            object["status"]["phase"] = json!("Active");
            if object["spec"].is_null() {
                object["spec"] = json!({"finalizers": ["kubernetes"]});
            }
            object["metadata"]["labels"]["kubernetes.io/metadata.name"] = json!(&*key.name);
        }
        self.plain.insert((resource, key.clone()), object);
        self.touch(Ref::Plain(resource, key));
    }

    fn write_node(&mut self, id: NodeId, mut object: Value) {
        let now = self.now;
        let Some(base) = self.render_node_base(id) else {
            return;
        };
        let cordoned = object
            .pointer("/spec/unschedulable")
            .and_then(Value::as_bool)
            .unwrap_or(false);
        let own: Vec<String> = {
            let mut bare = self.nodes[id].clone();
            bare.taints.clear();
            bare.cordoned = false;
            bare.all_taints()
                .iter()
                .map(|taint| taint.key.to_string())
                .collect()
        };
        let taints = object
            .pointer("/spec/taints")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter(|taint| {
                let key = text(taint, "/key");
                key != "node.kubernetes.io/unschedulable" && !own.iter().any(|have| have == key)
            })
            .map(|taint| Taint {
                key: Name::new(text(taint, "/key")),
                value: Name::new(text(taint, "/value")),
                effect: Name::new(text(taint, "/effect")),
                added: Moment::parse(text(taint, "/timeAdded"))
                    .or((text(taint, "/effect") == "NoExecute").then_some(now)),
            })
            .collect();
        if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
            spec.remove("taints");
            spec.remove("unschedulable");
        }
        let node = &mut self.nodes[id];
        let was = node.cordoned;
        node.edit.learn(&base, &object);
        node.cordoned = cordoned;
        node.taints = taints;
        if was != cordoned {
            node.cordoned_at = cordoned.then_some(now);
            let name = node.name.clone();
            let reason = if cordoned {
                "NodeNotSchedulable"
            } else {
                "NodeSchedulable"
            };
            self.node_event(
                id,
                "Normal",
                reason,
                format!("Node {name} status is now: {reason}"),
            );
        }
        self.touch(Ref::Node(id));
        self.enforce_taints(id);
        self.kick_scheduler();
    }

    /// Value of a priority class: the catalog's, or one that a client made.
    fn priority_of(&self, class: &str) -> i32 {
        self.plain
            .get(&(Resource::PriorityClasses, ObjectKey::new("", class)))
            .and_then(|object| object.get("value"))
            .and_then(Value::as_i64)
            .map_or(0, |value| value as i32)
    }

    /// A client made a pod or a controller.
    fn create(&mut self, kind: Kind, key: &ObjectKey, mut object: Value) {
        if let Some(fields) = object.as_object_mut() {
            fields.remove("status");
        }
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("resourceVersion");
            metadata.remove("managedFields");
        }
        let template = template_of(&object, kind)
            .cloned()
            .unwrap_or_else(|| json!({}));
        let spec = template.get("spec").cloned().unwrap_or_else(|| json!({}));
        let mut draft = Draft::new(&key.namespace, &key.name, kind);
        let label = |name: &str| {
            let path = format!("/metadata/labels/{}", name.replace('/', "~1"));
            object
                .pointer(&path)
                .or_else(|| template.pointer(&path))
                .and_then(Value::as_str)
                .map(Name::new)
        };
        draft.queue = label("kueue.x-k8s.io/queue-name");
        draft.team = label("team").unwrap_or(draft.team);
        draft.class = Name::new(text(&spec, "/priorityClassName"));
        draft.priority = self.priority_of(&draft.class);
        draft.ask = ask(&spec);
        draft.selector = strings(spec.get("nodeSelector"));
        draft.tolerations = tolerations(&spec);
        let devices = draft.ask.count > 0;
        (draft.profile, draft.util, draft.memory) = match (kind, devices) {
            (_, false) => (Profile::Infra, 0.0, 0.0),
            (Kind::JobSet, true) => (Profile::Train, 0.88, 0.75),
            (Kind::Job | Kind::Pod, true) => (Profile::Sweep, 0.8, 0.6),
            _ => (Profile::Serve, 0.6, 0.88),
        };
        draft.length = object
            .pointer("/metadata/annotations/stokehold.dev~1runtime-estimate")
            .and_then(Value::as_str)
            .and_then(parse_span)
            .map_or(if devices { 1_800_000 } else { 60_000 }, |span| {
                span.as_millis() as i64
            });
        draft.held = object
            .pointer("/spec/suspend")
            .and_then(Value::as_bool)
            .unwrap_or(false)
            && draft.queue.is_none();
        draft.groups = groups(&object, kind, key);
        draft.gang = kind == Kind::JobSet;
        let bare = kind == Kind::Pod;
        draft.foreign = Some(Box::new(object));
        let id = self.begin(draft, self.now);
        if bare {
            self.make_pod(id, 0, 0);
            self.kick_scheduler();
        }
    }

    fn write_work(&mut self, id: WorkId, mut object: Value) {
        let Some(work) = self.works.get(&id) else {
            return;
        };
        let (kind, old) = (work.kind, self.render_work_base(id, work));
        let mut before = old.clone();
        work.edit.apply(&mut before);
        if before.get("spec") != object.get("spec")
            && let Some(work) = self.works.get_mut(&id)
        {
            work.edit.bump();
        }
        let suspend = object
            .pointer("/spec/suspend")
            .and_then(Value::as_bool)
            .unwrap_or(false);
        match kind {
            Kind::Deployment | Kind::StatefulSet => {
                self.scale(id, number(&object, "/spec/replicas").unwrap_or(1));
            }
            Kind::Job => {
                if let Some(group) = self
                    .works
                    .get_mut(&id)
                    .and_then(|work| work.groups.first_mut())
                {
                    group.parallelism =
                        number(&object, "/spec/parallelism").unwrap_or(group.parallelism);
                }
                self.set_suspend(id, suspend);
            }
            Kind::JobSet => self.set_suspend(id, suspend),
            Kind::DaemonSet | Kind::Pod => {}
        }
        let Some(work) = self.works.get_mut(&id) else {
            return;
        };
        if work.foreign.is_some() {
            if let Some(fields) = object.as_object_mut() {
                fields.remove("status");
            }
            if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.remove("resourceVersion");
                metadata.remove("managedFields");
            }
            work.foreign = Some(Box::new(object));
        } else if let Some(work) = self.works.get(&id) {
            let base = self.render_work_base(id, work);
            // Suspension and scale are the controllers' business from here on.
            for field in ["suspend", "parallelism", "replicas"] {
                if let (Some(spec), Some(now)) = (
                    object.get_mut("spec").and_then(Value::as_object_mut),
                    base.pointer(&format!("/spec/{field}")),
                ) {
                    spec.insert(field.to_owned(), now.clone());
                }
            }
            if let Some(work) = self.works.get_mut(&id) {
                work.edit.learn(&base, &object);
            }
        }
        self.touch_work(id);
        self.kick(id, 500);
    }

    /// A client suspends or resumes a job. Kueue has the last word on what it manages.
    fn set_suspend(&mut self, id: WorkId, suspend: bool) {
        let Some(work) = self.works.get_mut(&id) else {
            return;
        };
        if work.suspended == suspend {
            return;
        }
        let admitted = work
            .workload
            .as_ref()
            .map(|workload| workload.reserved.is_some());
        match admitted {
            // Admitted: Kueue lets it go on. Not admitted: Kueue keeps it back.
            Some(_) => {}
            None if suspend => {
                work.held = true;
                self.suspend(id);
            }
            None => {
                work.held = false;
                self.resume(id);
            }
        }
    }

    fn write_group(&mut self, id: WorkId, at: u32, object: &Value) {
        let Some(work) = self.works.get(&id) else {
            return;
        };
        let base = self.render_group_base(work, at);
        let mut written = object.clone();
        // The owner's controller restores what it dictates.
        written["spec"] = base["spec"].clone();
        if let Some(group) = self
            .works
            .get_mut(&id)
            .and_then(|work| work.groups.get_mut(at as usize))
        {
            group.edit.learn(&base, &written);
        }
        self.touch(Ref::Group(id, at));
    }

    fn write_workload(&mut self, id: WorkId, object: &Value) {
        let active = object
            .pointer("/spec/active")
            .and_then(Value::as_bool)
            .unwrap_or(true);
        let priority = object
            .pointer("/spec/priority")
            .and_then(Value::as_i64)
            .map(|value| value as i32);
        let Some(work) = self.works.get_mut(&id) else {
            return;
        };
        let class = work.priority;
        let Some(workload) = &mut work.workload else {
            return;
        };
        let was = std::mem::replace(&mut workload.active, active);
        let before = workload.priority;
        workload.priority = priority.filter(|value| *value != class);
        if was != active || before != workload.priority {
            workload.edit.bump();
        }
        if was && !active {
            self.evict_workload(id, "Deactivated", "The workload is deactivated");
        }
        let Some(work) = self.works.get(&id) else {
            return;
        };
        if let Some(workload) = &work.workload {
            let base = self.render_workload_base(work, workload);
            let mut written = object.clone();
            for field in ["active", "priority"] {
                written["spec"][field] = base["spec"][field].clone();
            }
            if let Some(workload) = self
                .works
                .get_mut(&id)
                .and_then(|work| work.workload.as_mut())
            {
                if active && !was {
                    workload.queued = self.now;
                    workload.evicted = None;
                    workload.pending.0 = Name::new("Pending");
                }
                workload.edit.learn(&base, &written);
            }
        }
        self.touch(Ref::Workload(id));
        self.enqueue(id);
    }

    fn write_cluster(&mut self, key: &ObjectKey, object: &Value) {
        let now = self.now;
        let known = self
            .queues
            .clusters
            .iter()
            .position(|queue| queue.name == key.name && !queue.gone);
        let at = known.unwrap_or_else(|| {
            self.queues.clusters.push(ClusterQueue {
                name: key.name.clone(),
                cohort: Name::default(),
                weight: 1,
                quotas: Vec::new(),
                stop: Stop::None,
                preempts_within: false,
                created: now,
                uid: mix(hash(&key.name), now.millis() as u64),
                pending: Default::default(),
                reserving: Default::default(),
                gone: false,
                edit: Edit::default(),
            });
            self.queues.clusters.len() - 1
        });
        let stop = Stop::parse(text(object, "/spec/stopPolicy"));
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
        let drained: Vec<WorkId> = if stop == Stop::HoldAndDrain {
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

    /// Puts works at the door of a queue that did not exist before.
    fn requeue_orphans(&mut self) {
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

    fn write_local(&mut self, key: &ObjectKey, object: &Value) {
        let now = self.now;
        let known = self.queues.locals.iter().position(|local| {
            local.namespace == key.namespace && local.name == key.name && !local.gone
        });
        let at = known.unwrap_or_else(|| {
            self.queues.locals.push(LocalQueue {
                namespace: key.namespace.clone(),
                name: key.name.clone(),
                cluster: Name::new(text(object, "/spec/clusterQueue")),
                stop: Stop::None,
                created: now,
                uid: mix(
                    mix(hash(&key.name), hash(&key.namespace)),
                    now.millis() as u64,
                ),
                gone: false,
                edit: Edit::default(),
            });
            self.queues.locals.len() - 1
        });
        let stop = Stop::parse(text(object, "/spec/stopPolicy"));
        self.queues.locals[at].stop = stop;
        self.queues.locals[at].edit.bump();
        if stop == Stop::HoldAndDrain {
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

    fn write_budget(&mut self, key: ObjectKey, mut object: Value) {
        let now = self.now;
        let selector = strings(object.pointer("/spec/selector/matchLabels"));
        let bound = match object.pointer("/spec/minAvailable") {
            Some(value) => Bound::MinAvailable(value.clone()),
            None => Bound::MaxUnavailable(
                object
                    .pointer("/spec/maxUnavailable")
                    .cloned()
                    .unwrap_or(json!(1)),
            ),
        };
        if let Some(fields) = object.as_object_mut() {
            fields.remove("status");
        }
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("resourceVersion");
            metadata.remove("managedFields");
        }
        let uid = mix(self.key_word(&key.name), now.millis() as u64);
        let budget = self.budgets.entry(key.clone()).or_insert_with(|| Budget {
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

    /// A client deleted an object.
    pub(super) fn delete(&mut self, resource: Resource, key: &ObjectKey, grace: Option<u64>) {
        match resource {
            Resource::Pods => {
                if let Some(id) = self.pod_id(key) {
                    self.disrupt_pod(id, grace);
                }
            }
            Resource::Nodes => {
                if let Some(&id) = self.node_names.get(&key.name) {
                    self.leave(id, true);
                }
            }
            Resource::Namespaces => self.delete_namespace(key),
            Resource::PodDisruptionBudgets => {
                self.budgets.remove(key);
                self.retract(&Ref::Budget(key.clone()), resource, key.clone());
            }
            Resource::ClusterQueues => {
                let found = self
                    .queues
                    .clusters
                    .iter()
                    .position(|queue| queue.name == key.name && !queue.gone);
                if let Some(at) = found {
                    self.queues.clusters[at].gone = true;
                    self.queues.clusters[at].pending.clear();
                    self.retract(&Ref::Cluster(at), resource, key.clone());
                }
            }
            Resource::LocalQueues => {
                let found = self.queues.locals.iter().position(|local| {
                    local.name == key.name && local.namespace == key.namespace && !local.gone
                });
                if let Some(at) = found {
                    self.queues.locals[at].gone = true;
                    self.retract(&Ref::Local(at), resource, key.clone());
                }
            }
            _ => match self.names.get(&(resource, key.clone())).cloned() {
                Some(Ref::Work(id)) => self.remove_work(id),
                Some(Ref::Group(id, at)) => self.delete_group(id, at),
                Some(Ref::Workload(id)) => self.delete_workload(id, key),
                _ => {
                    if self.plain.remove(&(resource, key.clone())).is_some() {
                        self.retract(&Ref::Plain(resource, key.clone()), resource, key.clone());
                    }
                }
            },
        }
    }

    /// A child that its controller will make again.
    fn delete_group(&mut self, id: WorkId, at: u32) {
        let Some(work) = self.works.get(&id) else {
            return;
        };
        if work.gang {
            let name = work
                .groups
                .get(at as usize)
                .map(|group| group.name.clone())
                .unwrap_or_default();
            return self.restart_gang(
                id,
                format!("job {name} was deleted, restarting all members"),
            );
        }
        let pods: Vec<_> = work
            .groups
            .get(at as usize)
            .into_iter()
            .flat_map(|group| group.live.values().copied())
            .collect();
        for pod in pods {
            self.delete_pod(pod, None);
        }
        self.touch_work(id);
        self.kick(id, 700);
    }

    /// Kueue makes a new Workload for the job, which waits again.
    fn delete_workload(&mut self, id: WorkId, key: &ObjectKey) {
        self.retract(&Ref::Workload(id), Resource::Workloads, key.clone());
        self.unreserve(id);
        self.suspend(id);
        let (now, fresh) = (self.now, self.fresh());
        if let Some(workload) = self
            .works
            .get_mut(&id)
            .and_then(|work| work.workload.as_mut())
        {
            workload.uid = fresh;
            workload.created = now;
            workload.queued = now;
            workload.active = true;
            workload.priority = None;
            workload.evicted = None;
            workload.preempted = None;
            workload.edit = Edit::default();
        }
        self.touch(Ref::Workload(id));
        self.enqueue(id);
    }

    fn delete_namespace(&mut self, key: &ObjectKey) {
        let works: Vec<WorkId> = self
            .works
            .iter()
            .filter(|(_, work)| work.namespace == key.name)
            .map(|(id, _)| *id)
            .collect();
        for id in works {
            self.remove_work(id);
        }
        let inside: Vec<(Resource, ObjectKey)> = self
            .plain
            .keys()
            .filter(|(_, inner)| inner.namespace == key.name)
            .cloned()
            .collect();
        for (resource, inner) in inside {
            self.delete(resource, &inner, None);
        }
        let budgets: Vec<ObjectKey> = self
            .budgets
            .keys()
            .filter(|inner| inner.namespace == key.name)
            .cloned()
            .collect();
        for inner in budgets {
            self.delete(Resource::PodDisruptionBudgets, &inner, None);
        }
        let locals: Vec<ObjectKey> = self
            .queues
            .locals
            .iter()
            .filter(|local| local.namespace == key.name && !local.gone)
            .map(|local| ObjectKey::new(local.namespace.clone(), local.name.clone()))
            .collect();
        for inner in locals {
            self.delete(Resource::LocalQueues, &inner, None);
        }
        self.plain.remove(&(Resource::Namespaces, key.clone()));
        self.retract(
            &Ref::Plain(Resource::Namespaces, key.clone()),
            Resource::Namespaces,
            key.clone(),
        );
    }
}

fn strings(object: Option<&Value>) -> BTreeMap<Name, Name> {
    object
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((Name::new(key), Name::new(value.as_str()?))))
        .collect()
}

fn tolerations(spec: &Value) -> Vec<Toleration> {
    spec.get("tolerations")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .map(|row| Toleration {
            key: Name::new(text(row, "/key")),
            value: (text(row, "/operator") != "Exists").then(|| Name::new(text(row, "/value"))),
            effect: Name::new(text(row, "/effect")),
            seconds: row.get("tolerationSeconds").and_then(Value::as_i64),
        })
        .collect()
}

/// What the containers of a pod ask for together.
fn ask(spec: &Value) -> Ask {
    let mut ask = Ask::default();
    for container in spec
        .get("containers")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let mut amounts: Map<String, Value> = Map::new();
        for section in ["limits", "requests"] {
            if let Some(Value::Object(rows)) = container.pointer(&format!("/resources/{section}")) {
                amounts.extend(rows.clone());
            }
        }
        for (name, amount) in amounts {
            let written = amount
                .as_str()
                .map_or_else(|| amount.to_string(), str::to_owned);
            match name.as_str() {
                "cpu" => ask.cpu_milli += quantity_milli(&written).unwrap_or(0),
                "memory" => ask.memory_mib += quantity(&written).unwrap_or(0) / 1_048_576,
                name if name.contains('/') => {
                    ask.resource = Some(Name::new(name));
                    ask.count += quantity(&written).unwrap_or(0).clamp(0, 1 << 20) as u32;
                }
                _ => {}
            }
        }
    }
    ask
}

/// Groups of a controller that a client wrote: name, pods at the same time, completions.
fn groups(object: &Value, kind: Kind, key: &ObjectKey) -> Vec<(Name, u32, u32)> {
    let own = key.name.clone();
    match kind {
        Kind::Job => {
            let parallelism = number(object, "/spec/parallelism").unwrap_or(1);
            let completions = number(object, "/spec/completions").unwrap_or(parallelism.max(1));
            vec![(own, parallelism, completions)]
        }
        Kind::JobSet => {
            let jobs = object
                .pointer("/spec/replicatedJobs")
                .and_then(Value::as_array);
            let all: Vec<(Name, u32, u32)> = jobs
                .into_iter()
                .flatten()
                .flat_map(|job| {
                    let name = text(job, "/name").to_owned();
                    let parallelism = number(job, "/template/spec/parallelism").unwrap_or(1);
                    let completions =
                        number(job, "/template/spec/completions").unwrap_or(parallelism);
                    let own = key.name.clone();
                    (0..number(job, "/replicas").unwrap_or(1)).map(move |at| {
                        (
                            Name::from(format!("{own}-{name}-{at}")),
                            parallelism,
                            completions,
                        )
                    })
                })
                .collect();
            if all.is_empty() {
                vec![(own, 1, 1)]
            } else {
                all
            }
        }
        Kind::Deployment => {
            let replicas = number(object, "/spec/replicas").unwrap_or(1);
            let name = Name::from(format!(
                "{own}-{}",
                suffix(hash(&object["spec"]["template"].to_string()), 10)
            ));
            vec![(name, replicas, replicas)]
        }
        Kind::StatefulSet => {
            let replicas = number(object, "/spec/replicas").unwrap_or(1);
            vec![(own, replicas, replicas)]
        }
        Kind::DaemonSet | Kind::Pod => vec![(own, 1, 1)],
    }
}

/// The quotas that a client wrote, each with its place among the known ones.
fn quotas(object: &Value, known: &[Quota]) -> Vec<(Option<usize>, Quota)> {
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
                    Quota {
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
