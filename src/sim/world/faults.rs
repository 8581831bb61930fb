//! What goes wrong: XIDs, dead kubelets, reclaimed spot machines, a device plugin that does not come up.

use std::collections::BTreeMap;

use rand::RngExt;
use rand_distr::{Distribution, Exp1};
use serde_json::json;

use crate::base::{Moment, Name, ObjectKey};

use super::super::change::Resource;
use super::catalog::{A100, H100, L4, MIG, Origin};
use super::layout::{Site, machine};
use super::node::{NodeId, Taint};
use super::noise::mix;
use super::pages::pci;
use super::pod::{Ending, PodId};
use super::work::{Kind, WorkId};
use super::{Happening, Ref, World, seconds};

/// A fault of the fleet, at the moment it begins or ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// The provider wants a spot machine back in two minutes.
    Reclaim,
    /// It takes it.
    Leave(NodeId),
    /// A new machine joins in place of one that left.
    Join(NodeId),
    /// A kubelet goes silent.
    Silence,
    /// Tolerations of its pods have run out.
    Expel(NodeId, Moment),
    /// It comes back.
    Return(NodeId),
    /// A device reports an XID.
    Xid,
    /// A device that fell off the bus is no longer listed.
    Vanish(NodeId, usize),
    /// A stalled gang gives up.
    Timeout(WorkId, u32),
    /// The device plugin registers at last.
    PluginUp(NodeId),
    /// A device is repaired: the node has been rebooted.
    Repaired(NodeId, usize),
}

/// Standing peculiarities of this fleet.
#[derive(Clone, Debug, Default)]
pub(super) struct Scenes {
    /// The rack whose aisle is blocked.
    pub hot_rack: Option<u32>,
    /// A node whose exporter cannot see pods.
    pub unlabelled: Option<NodeId>,
    /// The gang that has lost a rank.
    pub broken_gang: Option<WorkId>,
}

impl World {
    /// Sets the scenes that are on when the fleet is first seen, and the clocks of those to come.
    pub(super) fn scenes_begin(&mut self) {
        let at = self.now;
        if self.has(A100, 24)
            && let Some(&node) = self.serials(A100, 17..=17).first()
        {
            let since = at.minus(seconds(433));
            self.xid_at(node, 3, 79, since);
            if let Some(id) = self.scenes.broken_gang {
                let mut epoch = 0;
                if let Some(work) = self.works.get_mut(&id) {
                    work.stalled = Some(since);
                    epoch = work.epoch;
                }
                self.after(1_367_000, Happening::Fault(Fault::Timeout(id, epoch)));
            }
            self.after(900_000, Happening::Fault(Fault::Vanish(node, 3)));
        }
        if self.has(H100, 8) {
            let node = self.empty_or_last(H100, 77);
            self.xid_at(node, 5, 48, at.minus(seconds(86_400 + 7_400)));
            self.nodes[node].devices[5].double_bit = 1;
            self.cordon(
                node,
                at.minus(seconds(7_020)),
                "rosa",
                "XID 48 on gpu 5, RMA 88213 is open",
            );
        }
        if self.has(MIG, 2) {
            let node = self.pools[MIG][1];
            self.xid_at(node, 2, 63, at.minus(seconds(41_000)));
            self.nodes[node].devices[2].remapped = 1;
        }
        if self.has(A100, 60) {
            let node = self.pools[A100][39];
            self.xid_at(node, 6, 94, at.minus(seconds(5_230)));
            self.nodes[node].devices[6].remapped = 2;
            self.scenes.unlabelled = Some(self.pools[A100][48]);
        }
        if self.has(L4, 30) {
            self.plugin_down(22);
            let silent = self.pools[L4][60 % self.pools[L4].len()];
            self.silence(silent, at.minus(seconds(95)));
            self.after(170_000, Happening::Fault(Fault::Return(silent)));
        }
        self.after(150_000, Happening::Fault(Fault::Reclaim));
        self.next_fault(2_400_000.0, Fault::Silence);
        self.next_fault(5_400_000.0, Fault::Xid);
    }

    /// A machine of the pool that nobody uses; the one with this serial when there is none.
    fn empty_or_last(&self, pool: usize, serial: u32) -> NodeId {
        let ids = &self.pools[pool];
        ids.iter()
            .copied()
            .find(|id| self.nodes[*id].held.iter().all(Option::is_none))
            .or_else(|| {
                ids.iter()
                    .copied()
                    .find(|id| self.nodes[*id].serial == serial)
            })
            .unwrap_or(ids[0])
    }

    fn plugin_down(&mut self, at: usize) {
        let ids = self.pools[L4].clone();
        let Some(&node) = ids
            .iter()
            .cycle()
            .skip(at)
            .take(ids.len())
            .find(|id| self.nodes[**id].held.iter().all(Option::is_none))
        else {
            return;
        };
        self.nodes[node].plugin_down = true;
        self.after(2_900_000, Happening::Fault(Fault::PluginUp(node)));
    }

    /// Marks a node as cordoned, with who and why.
    fn cordon(&mut self, node: NodeId, since: Moment, by: &str, why: &str) {
        let Some(base) = self.render_node_base(node) else {
            return;
        };
        let mut written = base.clone();
        written["metadata"]["annotations"]["stokehold.dev/cordoned-by"] = json!(by);
        written["metadata"]["annotations"]["stokehold.dev/cordoned-why"] = json!(why);
        self.nodes[node].edit.learn(&base, &written);
        self.nodes[node].cordoned = true;
        self.nodes[node].cordoned_at = Some(since);
    }

    /// A device reports an XID: it is marked, and where it is serious the device plugin withdraws it.
    fn xid_at(&mut self, node: NodeId, gpu: usize, code: u16, since: Moment) {
        let device = &mut self.nodes[node].devices[gpu];
        device.xid = Some((code, since));
        let pci = pci(gpu);
        let (name, text) = match code {
            79 => ("NvidiaXID79Error", "GPU has fallen off the bus"),
            48 => ("NvidiaXID48Error", "Double Bit ECC Error"),
            63 => ("NvidiaXID63Error", "Row remapping event, reset pending"),
            _ => ("", "Contained memory error, the application was ended"),
        };
        if matches!(code, 48 | 79 | 63) {
            let message = format!("XID {code} on PCI {pci}: {text}");
            self.nodes[node].complaint = Some((Name::new(name), Name::from(message), since));
        }
        if matches!(code, 48 | 79) {
            for unit in 0..self.nodes[node].units.len() {
                if usize::from(self.nodes[node].units[unit].gpu) == gpu {
                    self.nodes[node].lost |= 1 << unit;
                }
            }
        }
        let now = std::mem::replace(&mut self.now, since);
        if now.since(since).seconds() < 3600 {
            self.node_event(
                node,
                "Warning",
                "NvidiaXID",
                format!("NVRM: Xid (PCI:{pci}): {code}, {text}"),
            );
        }
        self.now = now;
        self.touch(Ref::Node(node));
    }

    fn next_fault(&mut self, mean: f64, fault: Fault) {
        let size = self.devices().max(64) as f64 / 3296.0;
        let wait: f64 = Exp1.sample(&mut self.rng);
        self.after(
            (wait * mean / size.max(0.3)).clamp(60_000.0, 8.64e7) as i64,
            Happening::Fault(fault),
        );
    }

    fn any_node(&mut self, pools: &[usize]) -> Option<NodeId> {
        let ids: Vec<NodeId> = pools
            .iter()
            .flat_map(|pool| self.pools[*pool].iter().copied())
            .filter(|id| self.nodes[*id].ready && self.nodes[*id].taints.is_empty())
            .collect();
        (!ids.is_empty()).then(|| ids[self.rng.random_range(0..ids.len())])
    }

    /// Carries a fault out.
    pub(super) fn fault(&mut self, fault: Fault) {
        match fault {
            Fault::Reclaim => self.reclaim(),
            Fault::Leave(node) => self.leave(node, true),
            Fault::Join(like) => self.join(like),
            Fault::Silence => {
                if let Some(node) = self.any_node(&[H100, A100, L4]) {
                    self.silence(node, self.now);
                    let minutes = 2.0 + self.rng.random::<f64>() * 7.0;
                    self.after(
                        (minutes * 60_000.0) as i64,
                        Happening::Fault(Fault::Return(node)),
                    );
                }
                self.next_fault(2_400_000.0, Fault::Silence);
            }
            Fault::Expel(node, since) => self.expel(node, since),
            Fault::Return(node) => self.come_back(node),
            Fault::Xid => {
                self.random_xid();
                self.next_fault(5_400_000.0, Fault::Xid);
            }
            Fault::Vanish(node, gpu) => {
                if !self.nodes[node].gone {
                    self.nodes[node].devices[gpu].vanished = Some(self.now);
                }
            }
            Fault::Timeout(id, epoch) => {
                let stalled = self
                    .works
                    .get(&id)
                    .is_some_and(|work| work.stalled.is_some() && work.epoch == epoch);
                if stalled {
                    self.crash(id, epoch);
                }
            }
            Fault::PluginUp(node) => {
                if !self.nodes[node].gone {
                    self.nodes[node].plugin_down = false;
                    self.touch(Ref::Node(node));
                    self.kick_scheduler();
                }
            }
            Fault::Repaired(node, gpu) => self.repaired(node, gpu),
        }
    }

    fn random_xid(&mut self) {
        let Some(node) = self.any_node(&[H100, A100, L4]) else {
            return;
        };
        let gpu = self.rng.random_range(0..self.nodes[node].devices.len());
        let code = [94, 63, 79, 94, 48][self.rng.random_range(0..5)];
        self.xid_at(node, gpu, code, self.now);
        match code {
            63 => self.nodes[node].devices[gpu].remapped += 1,
            48 => self.nodes[node].devices[gpu].double_bit += 1,
            _ => {}
        }
        let victim = (0..self.nodes[node].units.len())
            .find(|unit| usize::from(self.nodes[node].units[*unit].gpu) == gpu)
            .and_then(|unit| self.nodes[node].held[unit]);
        if let Some(pod) = victim
            && matches!(code, 48 | 79 | 94)
        {
            self.after(40_000, Happening::PodEnds(pod, Ending::Exit(1)));
        }
        if code == 79 {
            self.after(600_000, Happening::Fault(Fault::Vanish(node, gpu)));
        }
        self.after(5_400_000, Happening::Fault(Fault::Repaired(node, gpu)));
    }

    fn repaired(&mut self, node: NodeId, gpu: usize) {
        let now = self.now;
        let machine = &mut self.nodes[node];
        if machine.gone {
            return;
        }
        let device = &mut machine.devices[gpu];
        device.xid = None;
        device.vanished = None;
        device.double_bit = 0;
        device.energy = 0.0;
        device.energy_at = now;
        machine.complaint = None;
        for unit in 0..machine.units.len() {
            if usize::from(machine.units[unit].gpu) == gpu {
                machine.lost &= !(1 << unit);
            }
        }
        self.touch(Ref::Node(node));
        self.node_event(
            node,
            "Normal",
            "NvidiaDeviceRecovered",
            format!("GPU {gpu} is healthy again after a reset"),
        );
        self.kick_scheduler();
    }

    /// Two minutes' notice for a spot machine.
    fn reclaim(&mut self) {
        let spot: Vec<usize> = (0..super::catalog::POOLS.len())
            .filter(|pool| {
                matches!(
                    super::catalog::POOLS[*pool].origin,
                    Origin::Karpenter("spot")
                )
            })
            .collect();
        if let Some(node) = self.any_node(&spot) {
            let now = self.now;
            self.nodes[node].taints.push(Taint {
                key: Name::new("karpenter.sh/disrupted"),
                value: Name::default(),
                effect: Name::new("NoSchedule"),
                added: Some(now),
            });
            self.touch(Ref::Node(node));
            let name = self.nodes[node].name.clone();
            self.node_event(
                node,
                "Warning",
                "SpotInterrupted",
                format!("Spot interruption warning was triggered for {name}"),
            );
            self.node_event(
                node,
                "Normal",
                "DisruptionLaunching",
                "Launching a replacement for a reclaimed machine".to_owned(),
            );
            let pods: Vec<PodId> = self.nodes[node].pods.iter().copied().collect();
            for pod in pods {
                self.drain_one(pod, "SpotInterrupted", &name);
            }
            self.after(118_000, Happening::Fault(Fault::Leave(node)));
            self.after(164_000, Happening::Fault(Fault::Join(node)));
        }
        self.next_fault(1_500_000.0, Fault::Reclaim);
    }

    fn drain_one(&mut self, pod: PodId, reason: &'static str, node: &str) {
        let now = self.now;
        let Some(work) = self
            .pods
            .get(&pod)
            .and_then(|pod| self.works.get(&pod.work))
        else {
            return;
        };
        if work.kind == Kind::DaemonSet {
            return;
        }
        if let Some(pod) = self.pods.get_mut(&pod) {
            pod.disrupted = Some((
                "EvictionByEvictionAPI",
                Name::new("Eviction API: evicting"),
                now,
            ));
        }
        if let Some((key, uid)) = self.pods.get(&pod).map(|pod| (pod.key.clone(), pod.uid)) {
            self.pod_event(
                &key,
                uid,
                "Normal",
                "Evicted",
                format!("Evicted pod: {reason} on {node}"),
            );
        }
        self.disrupt_pod(pod, Some(30));
    }

    /// A node leaves the cluster; its pods are collected.
    pub(super) fn leave(&mut self, id: NodeId, told: bool) {
        if self.nodes[id].gone {
            return;
        }
        let name = self.nodes[id].name.clone();
        if told {
            self.node_event(
                id,
                "Normal",
                "RemovingNode",
                format!("Node {name} event: Removing Node {name} from Controller"),
            );
        }
        let pods: Vec<PodId> = self.nodes[id].pods.iter().copied().collect();
        self.nodes[id].gone = true;
        let pool = self.nodes[id].pool;
        self.pools[pool].retain(|node| *node != id);
        self.node_names.remove(&name);
        self.retract(
            &Ref::Node(id),
            Resource::Nodes,
            ObjectKey::new("", name.clone()),
        );
        for pod in pods {
            let Some(work_id) = self.pods.get(&pod).map(|pod| pod.work) else {
                continue;
            };
            let gang = self
                .works
                .get(&work_id)
                .is_some_and(|work| work.gang && !work.is_over());
            self.remove_pod(pod);
            if gang {
                self.restart_gang(work_id, format!("node {name} left, restarting all members"));
            }
        }
    }

    /// A machine like the one that left joins under a name of its own.
    fn join(&mut self, like: NodeId) {
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
        let name = Name::from(format!("{}-{next}", spec.prefix));
        let site = Site {
            pool: old.pool,
            serial: next,
            slice: old.slice,
            slice_hosts: old.slice_hosts,
            rack: old.rack,
            shelf: old.shelf,
            units: std::sync::Arc::clone(&old.units),
        };
        let seed = mix(self.options.seed, u64::from(next));
        let node = machine(site, name.clone(), seed, now, now);
        let id = self.nodes.len();
        self.pools[node.pool].push(id);
        self.nodes.push(node);
        self.node_names.insert(name.clone(), id);
        self.touch(Ref::Node(id));
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
            .filter(|(_, work)| work.kind == Kind::DaemonSet)
            .map(|(id, _)| *id)
            .collect();
        for work in daemons {
            self.kick(work, 2_000);
        }
        self.kick_scheduler();
    }

    /// A kubelet stops reporting: the node controller marks the node and, later, its pods.
    fn silence(&mut self, id: NodeId, since: Moment) {
        let node = &mut self.nodes[id];
        if !node.ready || node.gone {
            return;
        }
        node.ready = false;
        node.ready_since = since;
        node.heartbeat = node.heartbeat.min(since.minus(seconds(40)));
        for effect in ["NoSchedule", "NoExecute"] {
            node.taints.push(Taint {
                key: Name::new("node.kubernetes.io/unreachable"),
                value: Name::default(),
                effect: Name::new(effect),
                added: Some(since),
            });
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
        self.after(left, Happening::Fault(Fault::Expel(id, since)));
        self.touch_node_pods(id);
    }

    fn touch_node_pods(&mut self, id: NodeId) {
        self.touch(Ref::Node(id));
        let pods: Vec<PodId> = self.nodes[id].pods.iter().copied().collect();
        for pod in pods {
            self.touch(Ref::Pod(pod));
            if let Some(work) = self.pods.get(&pod).map(|pod| pod.work) {
                self.touch_work(work);
            }
        }
    }

    /// Five minutes unreachable: the taint manager deletes what does not tolerate it. Nobody is there to
    /// confirm, so the pods stay, terminating, with their devices.
    fn expel(&mut self, id: NodeId, since: Moment) {
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
            if work.kind == Kind::DaemonSet
                || work.kind == Kind::StatefulSet && pod.deleting.is_some()
            {
                continue;
            }
            let (key, uid) = (pod.key.clone(), pod.uid);
            if let Some(pod) = self.pods.get_mut(&pod_id) {
                pod.disrupted = Some((
                    "DeletionByTaintManager",
                    Name::new("Taint manager: deleting due to NoExecute taint"),
                    now,
                ));
            }
            self.pod_event(
                &key,
                uid,
                "Normal",
                "TaintManagerEviction",
                format!("Marking for deletion Pod {key}"),
            );
            self.disrupt_pod(pod_id, Some(30));
        }
    }

    fn come_back(&mut self, id: NodeId) {
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
        let executing: Vec<Taint> = self.nodes[id]
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
                            !super::scheduler::tolerates(
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
                pod.disrupted = Some((
                    "DeletionByTaintManager",
                    Name::new("Taint manager: deleting due to NoExecute taint"),
                    now,
                ));
            }
            self.disrupt_pod(pod_id, None);
        }
    }
}
