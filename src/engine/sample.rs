//! Generates fleets of any size, for benchmarks and for properties that need more than a handful of nodes: several pools
//! and flavors, racks in blocks, cohorts with quotas, borrowing and preemption rules, a mix of single pods and gangs.
//! The same recipe gives the same snapshot.

use std::collections::BTreeMap;

use model::base::{Moment, Name, ObjectKey};
use model::fleet::job::JobKey;

use super::rng::Rng;
use super::snapshot::{
    Backfill, Borrow, DEVICES, DeviceRequest, EngineHealth, EngineOptions, FairStrategy,
    HeldDevices, OwnerRuntimes, Placement, PodSet, Preemption, Reclaim, ResourceRequests, Snapshot,
    SnapshotDevice, SnapshotFlavor, SnapshotNode, SnapshotQueue, SnapshotQuota, SnapshotTaint,
    SnapshotToleration, Status, System, TaintEffect, TopologyRequest, WHOLE, Within, Workload,
};

/// Devices of a node.
pub const GPUS: u32 = 8;

/// Nodes of a rack, and of a block.
const RACK: usize = 16;
const BLOCK: usize = 128;

/// Time of a generated snapshot, in milliseconds.
const NOW: i64 = 1_795_000_000_000;

/// The extended resource of a device.
const GPU: &str = "nvidia.com/gpu";

/// Pools: flavor, class, share of nodes in percent, cores and GiB per device.
const POOLS: [(&str, &str, usize, i64, i64); 4] = [
    ("h100", "h100-sxm", 50, 24, 192),
    ("a100", "a100-sxm", 25, 16, 128),
    ("l40s", "l40s", 15, 12, 64),
    ("h100-spot", "h100-sxm", 10, 24, 192),
];

/// Pods of a gang, devices per pod, and the percentage of workloads with that shape.
const SHAPES: [(u32, u32, usize); 9] = [
    (1, 1, 34),
    (1, 2, 14),
    (1, 4, 12),
    (1, 8, 14),
    (2, 8, 10),
    (4, 8, 7),
    (8, 8, 5),
    (32, 8, 3),
    (64, 8, 1),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recipe {
    /// Nodes, of [`GPUS`] devices each.
    pub nodes: usize,
    pub waiting: usize,
    /// Percentage of devices that are allocated.
    pub full: usize,
    pub queues: usize,
    /// Queues may preempt and reclaim.
    pub preempts: bool,
    /// Queues share by weight.
    pub fair: bool,
    /// The largest pending gang, in devices.
    pub widest: u32,
    pub seed: u64,
}

impl Recipe {
    /// A fleet that is 90 % allocated, with this many pending workloads.
    pub const fn crowded(nodes: usize, waiting: usize) -> Self {
        Self {
            nodes,
            waiting,
            full: 90,
            queues: 40,
            preempts: true,
            fair: false,
            widest: 512,
            seed: 7,
        }
    }

    /// An idle fleet with this many pending single pods and small gangs, all of which fit if there are as many nodes.
    pub const fn idle(nodes: usize, waiting: usize) -> Self {
        Self {
            full: 0,
            widest: 32,
            ..Self::crowded(nodes, waiting)
        }
    }

    pub fn snapshot(&self) -> Snapshot {
        let mut rng = Rng::new(self.seed);
        let nodes: Vec<SnapshotNode> = (0..self.nodes).map(|at| node(at, self.nodes)).collect();
        let mut workloads = self.running(&nodes, &mut rng);
        for _ in 0..self.waiting {
            let (pods, gpus) = self.shape(&mut rng);
            let mut work = self.workload(workloads.len(), pods, gpus, &mut rng);
            if pods > 1 && rng.below(4) == 0 {
                let level = if pods <= 8 { "rack" } else { "block" };
                work.sets[0].topology = Some(TopologyRequest {
                    level: Name::from(level),
                    required: rng.below(2) == 0,
                });
            }
            if pods > 2 && rng.below(8) == 0 {
                work.sets[0].min = pods / 2;
            }
            workloads.push(work);
        }
        let mut snapshot = Snapshot {
            at: Moment::from_millis(NOW),
            flavors: flavors(),
            queues: self.tree(&nodes, &mut rng),
            runs: runs(),
            options: EngineOptions {
                backfill: Backfill::Head,
                fair_sharing: self.fair.then(|| FairStrategy::ALL.to_vec()),
                ..EngineOptions::default()
            },
            nodes,
            workloads,
            ..Snapshot::default()
        };
        snapshot.settle();
        snapshot
    }

    fn shape(&self, rng: &mut Rng) -> (u32, u32) {
        loop {
            let mut at = rng.below(100);
            for (pods, gpus, share) in SHAPES {
                if at < share {
                    if pods * gpus <= self.widest {
                        return (pods, gpus);
                    }
                    break;
                }
                at -= share;
            }
        }
    }

    /// Workloads that fill a fleet from the first node on, with some free devices and nodes in between.
    fn running(&self, nodes: &[SnapshotNode], rng: &mut Rng) -> Vec<Workload> {
        let mut works: Vec<Workload> = Vec::new();
        let (mut at, mut held) = (0, 0);
        while at < nodes.len() {
            // Skip nodes to reach the requested allocation overall.
            let devices = (at + 1) * GPUS as usize;
            if held * 100 >= self.full * devices {
                at += 1;
                continue;
            }
            let pool = &nodes[at].pool;
            let same = nodes[at..].iter().take_while(|node| node.pool == *pool);
            let wide = [1, 1, 1, 2, 4, 8, 32][rng.below(7)].min(same.count());
            if wide > 1 {
                let mut gang = self.allocated_workload(works.len(), wide as u32, GPUS, pool, rng);
                let names = nodes[at..at + wide].iter();
                gang.sets[0].placements =
                    names.map(|node| placement(&node.name, 0, GPUS)).collect();
                works.push(gang);
                at += wide;
                held += wide * GPUS as usize;
                continue;
            }
            let mut next = 0;
            while next < GPUS && rng.below(12) > 0 {
                let gpus = [1, 1, 2, 4, 8][rng.below(5)].min(GPUS - next);
                let mut single = self.allocated_workload(works.len(), 1, gpus, pool, rng);
                single.sets[0].placements = vec![placement(&nodes[at].name, next, gpus)];
                works.push(single);
                next += gpus;
            }
            held += next as usize;
            at += 1;
        }
        works
    }

    fn allocated_workload(
        &self,
        at: usize,
        pods: u32,
        gpus: u32,
        pool: &Name,
        rng: &mut Rng,
    ) -> Workload {
        let mut work = self.workload(at, pods, gpus, rng);
        work.status = Status::Running;
        work.admitted_at = Some(Moment::from_millis(
            NOW - 60_000 * (1 + rng.below(600) as i64),
        ));
        work.preemptible = rng.below(10) > 0;
        work.sets[0].admitted = BTreeMap::from([(Name::from(DEVICES), pool.clone())]);
        if rng.below(2) == 0 {
            work.checkpoint = Some(Moment::from_millis(
                NOW - 60_000 * (1 + rng.below(60) as i64),
            ));
        }
        work
    }

    fn workload(&self, at: usize, pods: u32, gpus: u32, rng: &mut Rng) -> Workload {
        let mut work = Workload {
            key: JobKey {
                kind: Name::from("Job"),
                key: ObjectKey {
                    namespace: Name::from("ml"),
                    name: Name::from(format!("w{at:06}")),
                },
            },
            queue: Some(queue(rng.below(self.queues))),
            priority: [0, 0, 0, 0, 10, 10, 50, 100][rng.below(8)],
            created: Moment::from_millis(NOW - 60_000 * (700 + rng.below(20_000) as i64)),
            sets: vec![PodSet {
                count: pods,
                min: pods,
                requests: ResourceRequests {
                    cpu_milli: i64::from(gpus) * 1_000 * [4, 8, 10][rng.below(3)],
                    memory_bytes: i64::from(gpus) * ([16, 32, 56][rng.below(3)] << 30),
                    devices: vec![DeviceRequest {
                        resource: Name::from(GPU),
                        count: gpus,
                        milli: WHOLE,
                    }],
                },
                ..PodSet::default()
            }],
            owner: Name::from(format!("owner{:02}", rng.below(OWNERS))),
            preemptible: true,
            ..Workload::default()
        };
        if rng.below(3) > 0 {
            work.estimate_ms = Some(600_000 * (1 + rng.below(144) as i64));
        }
        if rng.below(5) == 0 {
            work.sets[0].tolerations = vec![SnapshotToleration {
                key: Some(Name::from("spot")),
                value: None,
                effect: None,
            }];
        }
        work
    }

    /// A root cohort, four cohorts below it, and queues in those; their quotas add up to the capacity.
    fn tree(&self, nodes: &[SnapshotNode], rng: &mut Rng) -> Vec<SnapshotQueue> {
        let mut out = vec![SnapshotQueue {
            name: Name::from("all"),
            admits: false,
            ..SnapshotQueue::default()
        }];
        out.extend((0..4).map(|at| SnapshotQueue {
            name: cohort(at),
            parent: Some(Name::from("all")),
            admits: false,
            ..SnapshotQueue::default()
        }));
        for at in 0..self.queues {
            let quotas = POOLS.iter().map(|(flavor, ..)| {
                let count = nodes.iter().filter(|node| *node.pool == **flavor).count();
                let devices = count as i64 * i64::from(GPUS);
                let share = devices * WHOLE as i64 / self.queues as i64 / 1_000 * 1_000;
                SnapshotQuota {
                    flavor: Name::from(*flavor),
                    resource: Name::from(DEVICES),
                    nominal: share,
                    borrow: (rng.below(4) == 0).then_some(share),
                    lend: (rng.below(4) == 0).then_some(share / 2 / 1_000 * 1_000),
                    cap: None,
                }
            });
            let quotas = quotas.collect();
            out.push(SnapshotQueue {
                name: queue(at),
                parent: Some(cohort(at % 4)),
                system: System::Stokehold,
                weight_milli: [1_000, 1_000, 2_000][rng.below(3)],
                quotas,
                preemption: if self.preempts {
                    Preemption {
                        within: Within::LowerPriority,
                        reclaim: [Reclaim::Any, Reclaim::LowerPriority][rng.below(2)],
                        borrow: [Borrow::Never, Borrow::LowerPriority][rng.below(2)],
                        borrow_threshold: None,
                    }
                } else {
                    Preemption::default()
                },
                ..SnapshotQueue::default()
            });
        }
        out
    }
}

/// Number of owners of past runs.
const OWNERS: usize = 40;

fn runs() -> Vec<OwnerRuntimes> {
    let one = |at: usize| {
        let minutes = |count: usize| 60_000 * count as i64;
        OwnerRuntimes {
            owner: Name::from(format!("owner{at:02}")),
            count: 30,
            p10_ms: minutes(2 + at),
            p50_ms: minutes(20 + 10 * at),
            p90_ms: minutes(120 + 60 * at),
        }
    };
    (0..OWNERS).map(one).collect()
}

fn queue(at: usize) -> Name {
    Name::from(format!("q{at:03}"))
}

fn cohort(at: usize) -> Name {
    Name::from(format!("cohort{at}"))
}

fn spot() -> SnapshotTaint {
    SnapshotTaint {
        key: Name::from("spot"),
        value: Name::from("yes"),
        effect: TaintEffect::NoSchedule,
    }
}

fn flavors() -> Vec<SnapshotFlavor> {
    let flavor = |name: &str| SnapshotFlavor {
        name: Name::from(name),
        labels: BTreeMap::from([(Name::from("pool"), Name::from(name))]),
        taints: name.ends_with("-spot").then(spot).into_iter().collect(),
        ..SnapshotFlavor::default()
    };
    POOLS.iter().map(|(name, ..)| flavor(name)).collect()
}

fn placement(node: &Name, first: u32, gpus: u32) -> Placement {
    let grip = |device| HeldDevices {
        device,
        slice: None,
        milli: WHOLE,
    };
    Placement {
        pod: Name::default(),
        uid: Name::default(),
        deleted: None,
        node: node.clone(),
        devices: (first..first + gpus).map(grip).collect(),
        started: None,
    }
}

fn node(at: usize, of: usize) -> SnapshotNode {
    let mut share = at * 100 / of.max(1);
    let mut pool = POOLS[0];
    for next in POOLS {
        pool = next;
        if share < next.2 {
            break;
        }
        share -= next.2;
    }
    let (flavor, class, _, cores, gib) = pool;
    let name = |kind: &str, at: usize| Name::from(format!("{kind}{at:05}"));
    SnapshotNode {
        name: name("n", at),
        pool: Name::from(flavor),
        ready: true,
        labels: BTreeMap::from([
            (Name::from("pool"), Name::from(flavor)),
            (Name::from("kubernetes.io/hostname"), name("n", at)),
        ]),
        taints: flavor.ends_with("-spot").then(spot).into_iter().collect(),
        cpu_milli: i64::from(GPUS) * cores * 1_000,
        memory_bytes: i64::from(GPUS) * (gib << 30),
        topology: vec![
            (Name::from("block"), name("b", at / BLOCK)),
            (Name::from("rack"), name("r", at / RACK)),
        ],
        devices: (0..GPUS)
            .map(|index| SnapshotDevice {
                index,
                class: Name::from(class),
                resource: Name::from(GPU),
                health: EngineHealth::Ok,
                price: None,
                by_list: false,
                slices: Vec::new(),
            })
            .collect(),
        ..SnapshotNode::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compiled::CompiledFleet;
    use crate::fixture::check;
    use crate::state::State;

    #[test]
    fn a_recipe_gives_the_fleet_that_it_says_and_the_same_each_time() {
        let recipe = Recipe::crowded(300, 200);
        let snapshot = recipe.snapshot();
        assert_eq!(snapshot, recipe.snapshot());
        let compiled = CompiledFleet::new(snapshot);
        let state = State::new(&compiled);
        check(&state);
        assert_eq!((state.nodes(), state.waiting().count()), (300, 200));
        let free = state.free_units(0);
        assert!((120..480).contains(&free), "{free} of 2,400 are free");
    }
}
