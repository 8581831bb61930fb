//! Machines that are removed, join, become unreachable and return, and the effect on their pods.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde_json::Value;

use model::base::{Moment, Name, ObjectKey, SmallSort};

use super::super::change::Resource;
use super::faults::FleetFault;
use super::layout::{NodeLocation, machine};
use super::node::{NodeId, SimTaint};
use super::noise::mix;
use super::pod::PodId;
use super::work::{WorkId, WorkKind};
use super::{Happening, Ref, World, seconds};

impl World {
    /// Removes a node from the cluster; its pods are garbage-collected.
    pub(super) fn remove_node(&mut self, id: NodeId, with_event: bool) {
        if self.nodes[id].gone {
            return;
        }
        let name = self.nodes[id].name.clone();
        if with_event {
            self.node_event(
                id,
                "Normal",
                "RemovingNode",
                format!("Node {name} event: Removing Node {name} from Controller"),
            );
        }
        // The collector of garbage clears those that have ended there too.
        let mut pods: Vec<PodId> = self
            .pods
            .iter()
            .filter(|(_, pod)| pod.node == Some(id))
            .map(|(pod, _)| *pod)
            .collect();
        pods.small_sort();
        self.nodes[id].gone = true;
        let pool = self.nodes[id].pool;
        self.pools[pool].retain(|node| *node != id);
        self.node_names.remove(&name);
        self.label_version += 1;
        self.retract(
            &Ref::Node(id),
            Resource::Nodes,
            ObjectKey::new("", name.clone()),
        );
        self.retract(
            &Ref::Lease(id),
            Resource::Leases,
            ObjectKey::new("kube-node-lease", name.clone()),
        );
        if self.nodes[id].by_claim() {
            let key = ObjectKey::new("", self.slice_name(id));
            self.retract(&Ref::Slice(id), Resource::ResourceSlices, key);
        }
        for pod in pods {
            let Some((work_id, group)) = self.pods.get(&pod).map(|pod| (pod.work, pod.group))
            else {
                continue;
            };
            let gang = self
                .works
                .get(&work_id)
                .is_some_and(|work| work.gang && !work.is_over());
            self.remove_pod(pod);
            if gang {
                self.restart_gang(work_id, format!("node {name} left, restarting all members"));
            } else {
                self.recreate_group(work_id, group);
            }
        }
    }

    /// A machine like the removed one joins under a new name.
    pub(super) fn join(&mut self, like: NodeId) {
        self.join_as(like, None);
    }

    /// A node that a client makes is that of a machine which registers itself: one like that whose labels its own resemble
    /// most, of the same machine type. Nothing where there is none.
    pub(super) fn join_at_request(&mut self, name: &Name, object: &Value) -> Option<NodeId> {
        const TYPE: &str = "node.kubernetes.io/instance-type";
        let written = object.pointer("/metadata/labels")?.as_object()?;
        let alike = |id: &NodeId| {
            let own = self.node_labels(&self.nodes[*id]);
            let same = |key: &str| written.get(key).is_some_and(|it| own.get(key) == Some(it));
            same(TYPE).then(|| own.keys().filter(|key| same(key)).count())
        };
        let all = self.pools.iter().flatten();
        // The first of those that are as much alike.
        let like = all
            .filter_map(|id| Some((Reverse(alike(id)?), *id)))
            .min()?
            .1;
        Some(self.join_as(like, Some(name)))
    }

    /// A machine like one joins, under this name or one that follows from those of its pool.
    fn join_as(&mut self, like: NodeId, name: Option<&Name>) -> NodeId {
        let now = self.now;
        let old = &self.nodes[like];
        let spec = old.spec();
        let next = self
            .nodes
            .iter()
            .filter(|node| node.pool == old.pool)
            .map(|node| node.serial)
            .max()
            .unwrap_or(0)
            + 1;
        let own = || Name::from(format!("{}-{next}", spec.prefix));
        let name = name.cloned().unwrap_or_else(own);
        let site = NodeLocation {
            pool: old.pool,
            serial: next,
            slice: old.slice,
            slice_hosts: old.slice_hosts,
            rack: old.rack,
            rack_position: old.rack_position,
            units: std::sync::Arc::clone(&old.units),
        };
        let seed = mix(self.options.seed, u64::from(next));
        let node = machine(site, name.clone(), seed, now, [self.options.at, now]);
        let id = self.nodes.len();
        self.pools[node.pool].push(id);
        self.nodes.push(node);
        self.label_version += 1;
        self.node_names.insert(name.clone(), id);
        self.touch(Ref::Node(id));
        self.touch(Ref::Lease(id));
        if self.nodes[id].by_claim() {
            self.touch(Ref::Slice(id));
        }
        self.node_event(
            id,
            "Normal",
            "RegisteredNode",
            format!("Node {name} event: Registered Node {name} in Controller"),
        );
        self.after(300_000, Happening::Heartbeat(id));
        let daemons: Vec<WorkId> = self
            .works
            .iter()
            .filter(|(_, work)| work.kind == WorkKind::DaemonSet)
            .map(|(id, _)| *id)
            .collect();
        for work in daemons {
            self.kick(work, 2_000);
        }
        self.kick_scheduler();
        id
    }

    /// A kubelet stops reporting: the node controller marks the node and, later, its pods.
    pub(super) fn silence(&mut self, id: NodeId, since: Moment) {
        let node = &mut self.nodes[id];
        if !node.ready || node.gone {
            return;
        }
        node.ready = false;
        node.ready_since = since;
        node.heartbeat = node.heartbeat.min(since.minus(seconds(40)));
        for effect in ["NoSchedule", "NoExecute"] {
            node.taints.push(SimTaint::new(
                "node.kubernetes.io/unreachable",
                "",
                effect,
                Some(since),
            ));
        }
        let name = node.name.clone();
        let now = std::mem::replace(&mut self.now, since);
        self.node_event(
            id,
            "Normal",
            "NodeNotReady",
            format!("Node {name} status is now: NodeNotReady"),
        );
        self.now = now;
        let left = 300_000 - now.since(since).millis() as i64;
        self.after(left, Happening::Fault(FleetFault::Expel(id, since)));
        self.touch_node_pods(id);
    }

    pub(super) fn touch_node_pods(&mut self, id: NodeId) {
        self.touch(Ref::Node(id));
        self.touch(Ref::Lease(id));
        let pods: Vec<PodId> = self.nodes[id].pods.iter().copied().collect();
        for pod in pods {
            self.touch(Ref::Pod(pod));
            if let Some(work) = self.pods.get(&pod).map(|pod| pod.work) {
                self.touch_work(work);
            }
        }
    }

    /// Five minutes unreachable: the taint manager deletes pods that do not tolerate it. No kubelet confirms the deletion, so the
    /// pods stay terminating, with their devices allocated.
    pub(super) fn expel(&mut self, id: NodeId, since: Moment) {
        if self.nodes[id].ready || self.nodes[id].gone || self.nodes[id].ready_since != since {
            return;
        }
        let now = self.now;
        let pods: Vec<PodId> = self.nodes[id].pods.iter().copied().collect();
        for pod_id in pods {
            let Some(pod) = self.pods.get(&pod_id) else {
                continue;
            };
            let Some(work) = self.works.get(&pod.work) else {
                continue;
            };
            if work.kind == WorkKind::DaemonSet
                || work.kind == WorkKind::StatefulSet && pod.deleting.is_some()
            {
                continue;
            }
            let (key, uid) = (pod.key.clone(), pod.uid);
            if let Some(pod) = self.pods.get_mut(&pod_id) {
                pod.disrupted = Some(by_taint_manager(now));
            }
            self.pod_event(
                &key,
                uid,
                "Normal",
                "TaintManagerEviction",
                format!("Marking for deletion Pod {key}"),
            );
            self.touch(Ref::Pod(pod_id));
            self.disrupt_pod(pod_id, Some(30));
        }
    }

    pub(super) fn come_back(&mut self, id: NodeId) {
        let now = self.now;
        let node = &mut self.nodes[id];
        if node.ready || node.gone {
            return;
        }
        node.ready = true;
        node.ready_since = now;
        node.heartbeat = now;
        node.taints
            .retain(|taint| &*taint.key != "node.kubernetes.io/unreachable");
        let name = node.name.clone();
        self.node_event(
            id,
            "Normal",
            "NodeReady",
            format!("Node {name} status is now: NodeReady"),
        );
        self.touch_node_pods(id);
        let ending: Vec<PodId> = self.nodes[id]
            .pods
            .iter()
            .copied()
            .filter(|pod| self.pods.get(pod).is_some_and(|pod| pod.deleting.is_some()))
            .collect();
        for pod in ending {
            self.after(1_500, Happening::PodGone(pod));
        }
        self.kick_scheduler();
    }

    /// Taints that clients set: what does not tolerate a new NoExecute taint is deleted.
    pub(super) fn enforce_taints(&mut self, id: NodeId) {
        let executing: Vec<SimTaint> = self.nodes[id]
            .taints
            .iter()
            .filter(|taint| {
                &*taint.effect == "NoExecute" && !taint.key.starts_with("node.kubernetes.io/")
            })
            .cloned()
            .collect();
        if executing.is_empty() {
            return;
        }
        let now = self.now;
        let doomed: BTreeMap<PodId, ()> = self.nodes[id]
            .pods
            .iter()
            .copied()
            .filter(|pod| {
                self.pods
                    .get(pod)
                    .and_then(|pod| self.works.get(&pod.work))
                    .is_some_and(|work| {
                        executing.iter().any(|taint| {
                            !super::controllers::scheduler::tolerates(
                                &work.tolerations,
                                &taint.key,
                                &taint.value,
                                &taint.effect,
                            )
                        })
                    })
            })
            .map(|pod| (pod, ()))
            .collect();
        for pod_id in doomed.into_keys() {
            if let Some(pod) = self.pods.get_mut(&pod_id) {
                pod.disrupted = Some(by_taint_manager(now));
            }
            // It may be on its way out already, with the rest of its gang.
            self.touch(Ref::Pod(pod_id));
            self.disrupt_pod(pod_id, None);
        }
    }
}

/// The disruption of a pod that does not tolerate a taint of its node.
fn by_taint_manager(at: Moment) -> (&'static str, Name, Moment) {
    let message = Name::new("Taint manager: deleting due to NoExecute taint");
    ("DeletionByTaintManager", message, at)
}
