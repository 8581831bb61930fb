//! Faults of the fleet: XIDs, dead kubelets, reclaimed spot nodes, a device plugin that does not start.

use rand::RngExt;
use rand_distr::{Distribution, Exp1};
use serde_json::json;

use model::base::{Moment, Name};

use super::catalog::{A100, DRAWN, H100, L4, MIG, NodeOrigin};
use super::node::{NodeId, SimTaint};
use super::pages::pci;
use super::pod::{Ending, PodId, SimPod};
use super::work::{Profile, WorkId, WorkKind};
use super::{Happening, Ref, World, seconds};

/// A fault of the fleet, at the moment it begins or ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum FleetFault {
    /// The provider announces that it reclaims a spot node in two minutes.
    Reclaim,
    /// The reclaimed node is removed.
    Leave(NodeId),
    /// A new node joins in place of a removed one.
    Join(NodeId),
    /// A kubelet stops posting node status.
    Silence,
    /// The tolerations of its pods have expired.
    Expel(NodeId, Moment),
    /// The kubelet posts its status again.
    Return(NodeId),
    /// A device reports an XID.
    Xid,
    /// A device that fell off the bus is no longer listed.
    Vanish(NodeId, usize),
    /// A stalled gang times out.
    Timeout(WorkId, u32),
    /// The device plugin registers.
    PluginUp(NodeId),
    /// A service runs out of memory and is restarted in place.
    Oom,
    /// A device is repaired: the node has been rebooted.
    Repaired(NodeId, usize),
}

/// Permanent peculiarities of this fleet.
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
    /// Sets up the staged faults that are active at the start, and schedules the later ones.
    pub(super) fn stage_faults(&mut self) {
        let at = self.now;
        if self.has(A100, 24)
            && let Some(&node) = self.serials(A100, 17..=17).first()
        {
            let since = at.minus(seconds(433));
            self.xid_at(node, 3, 79, since);
            if let Some(id) = self.staged.broken_gang {
                let mut epoch = 0;
                if let Some(work) = self.works.get_mut(&id) {
                    work.stalled = Some(since);
                    epoch = work.epoch;
                }
                self.after(1_367_000, Happening::Fault(FleetFault::Timeout(id, epoch)));
            }
            self.after(900_000, Happening::Fault(FleetFault::Vanish(node, 3)));
        }
        if self.has(H100, 8)
            && let Some(node) = self.empty_or_first(H100, 77)
        {
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
            self.staged.unlabelled = Some(self.pools[A100][48]);
        }
        if self.has(L4, 30) {
            self.plugin_down(22);
            let silent = self.pools[L4][60 % self.pools[L4].len()];
            self.silence(silent, at.minus(seconds(95)));
            self.after(640_000, Happening::Fault(FleetFault::Return(silent)));
        }
        self.after(150_000, Happening::Fault(FleetFault::Reclaim));
        self.next_fault(2_400_000.0, FleetFault::Silence);
        self.next_fault(5_400_000.0, FleetFault::Xid);
        self.next_fault(2_700_000.0, FleetFault::Oom);
    }

    /// An unallocated node of the pool; without one, the node with this serial; without that, the first. `None` of an empty pool.
    fn empty_or_first(&self, pool: usize, serial: u32) -> Option<NodeId> {
        let ids = &self.pools[pool];
        let empty = |id: &&NodeId| self.nodes[**id].unit_pods.iter().all(Option::is_none);
        let named = |id: &&NodeId| self.nodes[**id].serial == serial;
        let found = ids.iter().find(empty).or_else(|| ids.iter().find(named));
        found.or(ids.first()).copied()
    }

    fn plugin_down(&mut self, at: usize) {
        let ids = self.pools[L4].clone();
        let Some(&node) = ids
            .iter()
            .cycle()
            .skip(at)
            .take(ids.len())
            .find(|id| self.nodes[**id].unit_pods.iter().all(Option::is_none))
        else {
            return;
        };
        self.nodes[node].plugin_down = true;
        self.after(2_900_000, Happening::Fault(FleetFault::PluginUp(node)));
    }

    /// Cordons a node, with user and reason.
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

    /// A device reports an XID: the device is marked, and after a serious one the device plugin reports it unhealthy.
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

    fn next_fault(&mut self, mean: f64, fault: FleetFault) {
        let drawn = self.pools[..DRAWN].iter().flatten();
        let devices: usize = drawn.map(|node| self.nodes[*node].units.len()).sum();
        let size = devices.max(64) as f64 / 3296.0;
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

    pub(super) fn fault(&mut self, fault: FleetFault) {
        match fault {
            FleetFault::Reclaim => self.reclaim(),
            FleetFault::Leave(node) => self.remove_node(node, true),
            FleetFault::Join(like) => self.join(like),
            FleetFault::Silence => {
                if let Some(node) = self.any_node(&[H100, A100, L4]) {
                    self.silence(node, self.now);
                    let minutes = 2.0 + self.rng.random::<f64>() * 7.0;
                    self.after(
                        (minutes * 60_000.0) as i64,
                        Happening::Fault(FleetFault::Return(node)),
                    );
                }
                self.next_fault(2_400_000.0, FleetFault::Silence);
            }
            FleetFault::Expel(node, since) => self.expel(node, since),
            FleetFault::Return(node) => self.come_back(node),
            FleetFault::Xid => {
                self.random_xid();
                self.next_fault(5_400_000.0, FleetFault::Xid);
            }
            FleetFault::Vanish(node, gpu) => {
                if !self.nodes[node].gone {
                    self.nodes[node].devices[gpu].vanished = Some(self.now);
                }
            }
            FleetFault::Timeout(id, epoch) => {
                let stalled = self
                    .works
                    .get(&id)
                    .is_some_and(|work| work.stalled.is_some() && work.epoch == epoch);
                if stalled {
                    self.crash(id, epoch);
                }
            }
            FleetFault::PluginUp(node) => {
                if !self.nodes[node].gone {
                    self.nodes[node].plugin_down = false;
                    self.touch(Ref::Node(node));
                    self.kick_scheduler();
                }
            }
            FleetFault::Oom => {
                self.oom();
                self.next_fault(2_700_000.0, FleetFault::Oom);
            }
            FleetFault::Repaired(node, gpu) => self.repaired(node, gpu),
        }
    }

    fn oom(&mut self) {
        let serving: Vec<PodId> = self
            .works
            .values()
            .filter(|work| work.profile == Profile::Serve)
            .flat_map(|work| work.pods.iter().copied())
            .filter(|pod| self.pods.get(pod).is_some_and(SimPod::is_ready))
            .collect();
        if !serving.is_empty() {
            let pod = serving[self.rng.random_range(0..serving.len())];
            self.pod_ends(pod, Ending::OutOfMemory);
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
            .and_then(|unit| self.nodes[node].unit_pods[unit]);
        if let Some(pod) = victim
            && matches!(code, 48 | 79 | 94)
        {
            self.after(40_000, Happening::PodEnds(pod, Ending::Exit(1)));
        }
        if code == 79 {
            self.after(600_000, Happening::Fault(FleetFault::Vanish(node, gpu)));
        }
        self.after(5_400_000, Happening::Fault(FleetFault::Repaired(node, gpu)));
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
        let spot: Vec<usize> = (0..super::catalog::POOL_COUNT)
            .filter(|pool| {
                matches!(
                    super::catalog::POOLS[*pool].origin,
                    NodeOrigin::Karpenter("spot")
                )
            })
            .collect();
        if let Some(node) = self.any_node(&spot) {
            let now = self.now;
            self.nodes[node].taints.push(SimTaint::new(
                "karpenter.sh/disrupted",
                "",
                "NoSchedule",
                Some(now),
            ));
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
            self.after(118_000, Happening::Fault(FleetFault::Leave(node)));
            self.after(164_000, Happening::Fault(FleetFault::Join(node)));
        }
        self.next_fault(1_500_000.0, FleetFault::Reclaim);
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
        if work.kind == WorkKind::DaemonSet {
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
        self.touch(Ref::Pod(pod));
        self.disrupt_pod(pod, Some(30));
    }
}
