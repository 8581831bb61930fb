//! Writes and deletes of clients, and the controllers' reactions to them.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use model::base::{Moment, Name, ObjectKey};

use super::patch::Edit;
use crate::change::Resource;
use crate::world::node::{NodeId, SimTaint};
use crate::world::render::template_of;
use crate::world::work::{Scheduler, WorkId, WorkKind};
use crate::world::{Ref, World};

/// A text inside an object; empty when it is not there.
pub(in crate::world) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
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

/// A whole number inside an object.
pub(in crate::world) fn number(object: &Value, pointer: &str) -> Option<u32> {
    object.pointer(pointer)?.as_u64()?.try_into().ok()
}

impl World {
    /// A client created or changed an object.
    pub(in crate::world) fn write(&mut self, resource: Resource, object: Value) {
        let key = key_of(&object);
        if resource == Resource::Nodes {
            let known = self.node_names.get(&key.name).copied();
            if let Some(id) = known.or_else(|| self.join_at_request(&key.name, &object)) {
                return self.write_node(id, object);
            }
        }
        if resource == Resource::Pods {
            return match self.pod_id(&key) {
                Some(id) => {
                    if let Some(pod) = self.pods.get(&id)
                        && let Some(base) = self.render_pod_base(pod)
                        && let Some(pod) = self.pods.get_mut(&id)
                    {
                        pod.edit.learn(&base, &object);
                        let work = pod.work;
                        self.group_pods(work);
                    }
                    self.touch(Ref::Pod(id));
                }
                None => self.create(WorkKind::Pod, &key, object),
            };
        }
        match (resource, self.names.get(&(resource, key.clone())).cloned()) {
            (_, Some(Ref::Work(id))) => self.write_work(id, object),
            (_, Some(Ref::Group(id, at))) => self.write_group(id, at, &object),
            (_, Some(Ref::Workload(id))) => self.write_workload(id, &object),
            // The controllers' own fields are kept.
            (_, Some(claim @ Ref::Claim(_))) => self.touch(claim),
            (Resource::Jobs, _) => self.create(WorkKind::Job, &key, object),
            (Resource::JobSets, _) => self.create(WorkKind::JobSet, &key, object),
            (Resource::Deployments, _) => self.create(WorkKind::Deployment, &key, object),
            (Resource::StatefulSets, _) => self.create(WorkKind::StatefulSet, &key, object),
            (Resource::ClusterQueues, _) => self.write_cluster(&key, &object),
            (Resource::VolcanoQueues, _) => self.write_volcano_queue(&key, &object),
            (Resource::VolcanoCommands, _) => self.write_command(key, object),
            (Resource::KaiQueues, _) => self.write_kai_queue(&key, &object),
            (Resource::LocalQueues, _) => self.write_local(&key, &object),
            (Resource::PodDisruptionBudgets, _) => self.write_budget(key, object),
            _ => self.write_plain(resource, key, object),
        }
    }

    /// An object without behavior is kept as it was written.
    pub(in crate::world) fn write_plain(
        &mut self,
        resource: Resource,
        key: ObjectKey,
        mut object: Value,
    ) {
        let uid = self.plain_uid(resource, &key);
        let created = self
            .plain
            .get(&(resource, key.clone()))
            .map(|old| text(old, "/metadata/creationTimestamp").to_owned())
            .unwrap_or_else(|| self.now.rfc3339());
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("resourceVersion");
            metadata.remove("managedFields");
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
        let own = self.nodes[id].spec().taint;
        let taints = object
            .pointer("/spec/taints")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter(|taint| {
                let key = text(taint, "/key");
                let it = (key, text(taint, "/value"));
                key != "node.kubernetes.io/unschedulable" && Some(it) != own
            })
            .map(|taint| {
                let effect = text(taint, "/effect");
                let added = Moment::parse(text(taint, "/timeAdded"))
                    .or((effect == "NoExecute").then_some(now));
                SimTaint::new(text(taint, "/key"), text(taint, "/value"), effect, added)
            })
            .collect();
        if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
            spec.remove("taints");
            spec.remove("unschedulable");
        }
        let node = &mut self.nodes[id];
        let was = node.cordoned;
        self.label_version += 1;
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
            .pointer(kind.suspend_path())
            .and_then(Value::as_bool)
            .unwrap_or(false);
        match kind {
            WorkKind::VolcanoJob => self.write_volcano_job(id, &object),
            WorkKind::LeaderWorkerSet => {
                self.scale_groups(id, number(&object, "/spec/replicas").unwrap_or(1));
            }
            WorkKind::Deployment | WorkKind::StatefulSet => {
                self.scale(id, number(&object, "/spec/replicas").unwrap_or(1));
            }
            WorkKind::Job => {
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
            WorkKind::JobSet | WorkKind::PyTorchJob | WorkKind::RayJob => {
                self.set_suspend(id, suspend)
            }
            WorkKind::DaemonSet | WorkKind::Pod => {}
        }
        self.redirect(id, &before, &object);
        if let Some(work) = self.works.get_mut(&id)
            && matches!(work.scheduler, Scheduler::Kai(_))
        {
            // KAI's pod-grouper takes the priority class from a label, else from the pods; it does not watch owners.
            work.owner_class = match text(&object, "/metadata/labels/priorityClassName") {
                "" => work.class.clone(),
                class => Name::new(class),
            };
        }
        let Some(work) = self.works.get_mut(&id) else {
            return;
        };
        if work.foreign.is_some() {
            crate::world::clients::objects::strip(&mut object);
            let changed = work
                .foreign
                .as_deref()
                .is_some_and(|old| template_of(old, kind) != template_of(&object, kind));
            work.foreign = Some(Arc::new(object));
            if changed && !kind.is_batch() {
                self.roll_out(id);
            }
        } else if let Some(work) = self.works.get(&id) {
            let base = self.render_work_base(id, work);
            // The controllers own suspension and scale from here on.
            for field in ["suspend", "parallelism", "replicas"] {
                if let (Some(spec), Some(now)) = (
                    object.get_mut("spec").and_then(Value::as_object_mut),
                    base.pointer(&format!("/spec/{field}")),
                ) {
                    spec.insert(field.to_owned(), now.clone());
                }
            }
            if kind == WorkKind::PyTorchJob
                && let Some(policy) = object.pointer_mut("/spec/runPolicy")
            {
                policy["suspend"] = base["spec"]["runPolicy"]["suspend"].clone();
            }
            if let Some(work) = self.works.get_mut(&id) {
                work.edit.learn(&base, &object);
            }
        }
        self.touch_work(id);
        self.kick(id, 500);
    }

    /// The scheduling directives of a suspended job's template may change: its next pods have the new ones.
    fn redirect(&mut self, id: WorkId, before: &Value, object: &Value) {
        let Some(work) = self.works.get_mut(&id) else {
            return;
        };
        if !work.suspended || !work.kind.is_batch() {
            return;
        }
        let spec = |object| template_of(object, work.kind).and_then(|it| it.get("spec"));
        let (Some(old), Some(new)) = (spec(before), spec(object)) else {
            return;
        };
        if old.get("tolerations") != new.get("tolerations") {
            work.tolerations = crate::world::clients::objects::tolerations(new);
        }
        if old.get("nodeSelector") != new.get("nodeSelector") {
            work.selector = crate::world::clients::objects::strings(new.get("nodeSelector"));
            work.matching = None;
            work.pool = None;
            self.match_selector(id);
            if let Some(work) = self.works.get_mut(&id) {
                let nodes = work.matching.iter().flat_map(|(_, nodes)| nodes.iter());
                let pools: BTreeSet<usize> = nodes.map(|node| self.nodes[*node].pool).collect();
                // With several pools, the pool of the quota is taken at admission.
                work.pool = pools.first().copied().filter(|_| pools.len() == 1);
            }
        }
        self.kick_admission();
    }

    /// Replaces the pods of a service whose template has changed.
    fn roll_out(&mut self, id: WorkId) {
        let Some(work) = self.works.get_mut(&id) else {
            return;
        };
        let Some(object) = work.foreign.clone() else {
            return;
        };
        let asked = template_of(&object, work.kind)
            .and_then(|template| template.get("spec"))
            .map(crate::world::clients::objects::ask);
        // Pods return what was allocated to them, so the old pods are deleted before the new request applies.
        let pods: Vec<_> = work.pods.iter().copied().collect();
        if let Some(asked) = asked
            && asked == work.ask
        {
            for pod in pods {
                self.delete_pod(pod, None);
            }
        }
    }

    /// A client suspends or resumes a job. Kueue overrides this for the jobs that it manages.
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
            // Admitted: Kueue keeps it running. Not admitted: Kueue keeps it suspended.
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
        let Some(base) = self.render_child_base(work, at) else {
            return;
        };
        // A child that is created with the pods is recreated with them: clients' changes are lost.
        let child_is_group = matches!(work.kind, WorkKind::JobSet | WorkKind::Deployment);
        let mut written = object.clone();
        // The owner's controller restores the fields that it owns.
        written["spec"] = base["spec"].clone();
        if let Some(group) = self
            .works
            .get_mut(&id)
            .and_then(|work| work.groups.get_mut(at as usize))
            .filter(|_| child_is_group)
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
                    // (The Evicted condition remains until quota is reserved again, as with Kueue.)
                    workload.queued = self.now;
                    workload.pending.0 = Name::new("Pending");
                }
                workload.edit.learn(&base, &written);
            }
        }
        self.touch(Ref::Workload(id));
        self.enqueue(id);
    }

    /// A client deleted an object.
    pub(in crate::world) fn delete(
        &mut self,
        resource: Resource,
        key: &ObjectKey,
        grace: Option<u64>,
    ) {
        match resource {
            Resource::Pods => {
                if let Some(id) = self.pod_id(key) {
                    self.disrupt_pod(id, grace);
                }
            }
            Resource::Nodes => {
                if let Some(&id) = self.node_names.get(&key.name) {
                    self.remove_node(id, true);
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
            Resource::VolcanoQueues => self.delete_volcano_queue(key),
            Resource::KaiQueues => self.delete_kai_queue(key),
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
                // A claim in use by a pod is protected.
                Some(claim @ Ref::Claim(_)) => self.touch(claim),
                _ => {
                    if self.plain.remove(&(resource, key.clone())).is_some() {
                        self.retract(&Ref::Plain(resource, key.clone()), resource, key.clone());
                    }
                }
            },
        }
    }

    /// A child that its controller recreates.
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

    /// Kueue creates a new Workload for the job, which is pending again.
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
