//! Lays the pools out: how many nodes each, on which racks and slices, with which units.

use std::sync::Arc;

use model::base::{Moment, Name};

use super::catalog::{
    A100, DRAWN, H100, L4, MI300X, MIG, NodeOrigin, POOL_COUNT, POOLS, RACK_ORDER, V5P, V6E,
};
use super::clients::patch::Edit;
use super::node::{SchedulableUnit, SimDevice, SimNode};
use super::noise::{hash, mix, unit};
use super::options::Options;

/// Schedulable units of the demo fleet's pools whose work is drawn.
const DEMO_DEVICES: u32 = 3296;

/// The smallest fleet, in nodes or devices, with the pools of fixed workloads.
const ROOM_FOR_ALL: (u32, u32) = (200, 1_600);

/// Nodes of each pool for these options.
pub(super) fn sizes(options: &Options) -> [u32; POOL_COUNT] {
    let all = match (options.nodes, options.devices) {
        (Some(nodes), _) => nodes >= ROOM_FOR_ALL.0,
        (None, Some(devices)) => devices >= ROOM_FOR_ALL.1,
        (None, None) => true,
    };
    let mut sizes = [0; POOL_COUNT];
    if all {
        for pool in DRAWN..POOL_COUNT {
            sizes[pool] = POOLS[pool].nodes;
        }
    }
    let nodes: u32 = sizes.iter().sum();
    let devices: u32 = (DRAWN..POOL_COUNT)
        .map(|pool| devices_of(pool, sizes[pool]))
        .sum();
    let demo: [u32; DRAWN] = std::array::from_fn(|pool| POOLS[pool].nodes);
    let drawn = match (options.nodes, options.devices) {
        (Some(wanted), _) => by_nodes(wanted - nodes, demo),
        (None, Some(wanted)) => by_devices(wanted - devices, demo),
        (None, None) => demo,
    };
    sizes[..DRAWN].copy_from_slice(&drawn);
    sizes
}

/// The order in which pools come into being in a fleet too small for all of them.
const FIRST: [usize; DRAWN] = [H100, A100, L4, MIG, V6E, MI300X, V5P];

fn by_nodes(nodes: u32, demo: [u32; DRAWN]) -> [u32; DRAWN] {
    let total: u32 = demo.iter().sum();
    let mut sizes = [0; DRAWN];
    for pool in FIRST {
        let share = (u64::from(demo[pool]) * u64::from(nodes) / u64::from(total)) as u32;
        let left = nodes.saturating_sub(sizes.iter().sum());
        sizes[pool] = share.max(1).min(left);
    }
    sizes[V5P] = whole_slices(sizes[V5P]);
    let mut turn = 0;
    while sizes.iter().sum::<u32>() < nodes {
        sizes[[H100, A100, L4][turn % 3]] += 1;
        turn += 1;
    }
    sizes
}

fn by_devices(devices: u32, demo: [u32; DRAWN]) -> [u32; DRAWN] {
    let mut sizes = [0u32; DRAWN];
    let mut left = i64::from(devices);
    for pool in FIRST {
        let share = (u64::from(demo[pool]) * u64::from(devices) / u64::from(DEMO_DEVICES)) as u32;
        let share = match pool {
            V5P => whole_slices(share),
            // A MIG node is 56 devices; the demo's fifth is cut into 48.
            MIG => (u64::from(devices) * 272 / u64::from(DEMO_DEVICES) + 8) as u32 / 56,
            _ => share,
        };
        sizes[pool] = share;
        left -= i64::from(devices_of(pool, share));
    }
    for pool in FIRST {
        // A MIG node has 56 devices: a smaller fleet has none.
        if sizes[pool] == 0 && left >= i64::from(devices_of(pool, 1)) {
            sizes[pool] = 1;
            left -= i64::from(devices_of(pool, 1));
        }
    }
    let mut turn = 0;
    while left >= 8 {
        sizes[[H100, A100][turn % 2]] += 1;
        left -= 8;
        turn += 1;
    }
    if left >= 4 || sizes.iter().all(|size| *size == 0) {
        sizes[L4] += 1;
    }
    sizes
}

fn devices_of(pool: usize, nodes: u32) -> u32 {
    match (pool, nodes) {
        (_, 0) => 0,
        (MIG, n) if n >= 5 => n * 56 - 8,
        (pool, n) => POOLS[pool].units() * n,
    }
}

/// Hosts of one v5p slice in a pool of `nodes` hosts.
const fn slice_hosts(nodes: u32) -> u32 {
    match nodes {
        48.. => 16,
        16..48 => 8,
        8..16 => 4,
        4..8 => 2,
        _ => 1,
    }
}

const fn whole_slices(nodes: u32) -> u32 {
    nodes - nodes % slice_hosts(nodes)
}

/// The topology label of a v5p slice of that many hosts of four chips.
pub(super) const fn v5p_topology(hosts: u32) -> &'static str {
    match hosts {
        16 => "4x4x4",
        8 => "2x4x4",
        4 => "2x2x4",
        2 => "2x2x2",
        _ => "2x2x1",
    }
}

/// Units of the nodes of a pool: the ordinary ones and the one MIG node that is cut differently.
pub(super) struct Cuts {
    plain: [Arc<[SchedulableUnit]>; POOL_COUNT],
    mixed: Arc<[SchedulableUnit]>,
}

impl Cuts {
    /// Cuts every pool's devices.
    pub(super) fn new() -> Self {
        let plain = std::array::from_fn(|pool| {
            let spec = &POOLS[pool];
            let mut units = Vec::new();
            for gpu in 0..spec.per_node as u8 {
                if spec.mig {
                    units.extend((7..14).map(|instance| SchedulableUnit {
                        gpu,
                        resource: 0,
                        instance,
                    }));
                } else {
                    units.push(SchedulableUnit {
                        gpu,
                        resource: 0,
                        instance: 0,
                    });
                }
            }
            Arc::from(units)
        });
        let mut mixed = Vec::new();
        for gpu in 0..8u8 {
            if gpu < 6 {
                mixed.extend((7..14).map(|instance| SchedulableUnit {
                    gpu,
                    resource: 0,
                    instance,
                }));
            } else {
                mixed.extend((3..6).map(|instance| SchedulableUnit {
                    gpu,
                    resource: 1,
                    instance,
                }));
            }
        }
        Self {
            plain,
            mixed: Arc::from(mixed),
        }
    }

    fn of(&self, pool: usize, serial: u32, nodes: u32) -> Arc<[SchedulableUnit]> {
        if pool == MIG && nodes >= 5 && serial == 5 {
            Arc::clone(&self.mixed)
        } else {
            Arc::clone(&self.plain[pool])
        }
    }
}

/// A node's location; a new machine in its place inherits it.
pub(super) struct NodeLocation {
    pub pool: usize,
    pub serial: u32,
    pub slice: u32,
    pub slice_hosts: u32,
    pub rack: u32,
    pub rack_position: u32,
    pub units: Arc<[SchedulableUnit]>,
}

/// A fresh, empty, ready machine at a site. `start` is when the world began: what a machine is like goes by the time from there, so
/// that worlds of one seed are alike whenever they begin.
pub(super) fn machine(
    site: NodeLocation,
    name: Name,
    seed: u64,
    created: Moment,
    [start, now]: [Moment; 2],
) -> SimNode {
    let spec = &POOLS[site.pool];
    let since_start = created.millis() - start.millis();
    let uid = mix(mix(seed, hash(&name)), since_start.cast_unsigned());
    let zone = spec.zones[(mix(uid, 11) % spec.zones.len() as u64) as usize];
    let devices = (0..spec.per_node)
        .map(|at| {
            let word = mix(uid, 40 + u64::from(at));
            let worn = unit(mix(word, 1));
            SimDevice {
                energy: now.since(created).seconds() as f64 * spec.limit_watts * (0.4 + 0.4 * worn),
                energy_at: now,
                draw: spec.idle_watts,
                remapped_soft: if worn > 0.97 { 1 } else { 0 },
                single_bit: if worn > 0.9 { (word % 12) as u16 } else { 0 },
                ..SimDevice::default()
            }
        })
        .collect();
    let beat = 300_000 - (mix(uid, 12) % 300_000) as i64;
    SimNode {
        name,
        pool: site.pool,
        serial: site.serial,
        slice: site.slice,
        slice_hosts: site.slice_hosts,
        rack: site.rack,
        rack_position: site.rack_position,
        zone,
        created,
        uid,
        cordoned: false,
        cordoned_at: None,
        taints: Vec::new(),
        ready: true,
        ready_since: created.plus(std::time::Duration::from_secs(48)).min(now),
        heartbeat: Moment::from_millis(now.millis() - beat).max(created),
        plugin_down: false,
        complaint: None,
        masks: std::array::from_fn(|resource| {
            (0..site.units.len())
                .filter(|at| usize::from(site.units[*at].resource) == resource)
                .fold(0, |mask, at| mask | 1 << at)
        }),
        taken: 0,
        unit_pods: vec![None; site.units.len()],
        units: site.units,
        lost: 0,
        cpu_free: spec.cpu_offered(),
        memory_free: spec.memory_offered_kib(uid) / 1024,
        pods: Default::default(),
        devices,
        gone: false,
        edit: Edit::default(),
    }
}

/// All nodes of the fleet by pool: the pools with fixed workloads come last.
pub(super) fn nodes(options: &Options, cuts: &Cuts) -> Vec<SimNode> {
    let sizes = sizes(options);
    let mut first_rack = [1u32; POOL_COUNT];
    let mut rack = 1;
    for pool in RACK_ORDER.into_iter().chain(DRAWN..POOL_COUNT) {
        first_rack[pool] = rack;
        rack += sizes[pool].div_ceil(POOLS[pool].rack_size);
    }
    let mut all = Vec::with_capacity(sizes.iter().sum::<u32>() as usize);
    for (pool, spec) in POOLS.iter().enumerate() {
        let hosts = if pool == V5P {
            slice_hosts(sizes[pool])
        } else {
            1
        };
        for at in 0..sizes[pool] {
            let serial = at + 1;
            let slice = at / hosts;
            let name = if pool == V5P {
                Name::from(format!("{}-s{}-w{}", spec.prefix, slice, at % hosts))
            } else {
                Name::from(format!("{}-{serial}", spec.prefix))
            };
            // Static machines are months old, Karpenter's days, spot machines hours.
            let oldest = match spec.origin {
                NodeOrigin::Karpenter("spot") | NodeOrigin::Gke("spot") => 40.0,
                NodeOrigin::Karpenter(_) => 24.0 * 12.0,
                _ => 24.0 * 120.0,
            };
            let age = oldest * (0.15 + 0.85 * unit(mix(options.seed, hash(&name)))) * 3_600_000.0;
            let created = Moment::from_millis((options.at.millis() - age as i64) / 1000 * 1000);
            let site = NodeLocation {
                pool,
                serial,
                slice,
                slice_hosts: hosts,
                rack: first_rack[pool] + at / spec.rack_size,
                rack_position: at % spec.rack_size,
                units: cuts.of(pool, serial, sizes[pool]),
            };
            all.push(machine(site, name, options.seed, created, [options.at; 2]));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn devices(options: &Options) -> usize {
        nodes(options, &Cuts::new())
            .iter()
            .map(|node| node.units.len())
            .sum()
    }

    #[test]
    fn the_demo_fleet_is_the_picture() {
        let options = Options::new(Moment::from_seconds(1_795_000_000));
        assert_eq!(devices(&options), 3296 + 72);
        assert_eq!(sizes(&options)[H100] * 8, 1024);
    }

    #[test]
    fn sizes_hit_what_was_asked() {
        for wanted in [4u32, 16, 100, 512, 1000, 3296, 8000, 80_000] {
            let options = Options {
                devices: Some(wanted),
                ..Options::new(Moment::from_seconds(1_795_000_000))
            };
            let got = devices(&options) as i64;
            assert!(
                got - i64::from(wanted) <= 0 && i64::from(wanted) - got < 8,
                "{wanted} {got}"
            );
        }
        for wanted in [1u32, 3, 7, 20, 96, 420, 10_000] {
            let options = Options {
                nodes: Some(wanted),
                ..Options::new(Moment::from_seconds(1_795_000_000))
            };
            assert_eq!(sizes(&options).iter().sum::<u32>(), wanted);
        }
    }

    #[test]
    fn racks_follow_the_halls() {
        let all = nodes(
            &Options::new(Moment::from_seconds(1_795_000_000)),
            &Cuts::new(),
        );
        let rack_of = |name: &str| all.iter().find(|n| &*n.name == name).map(|n| n.rack);
        assert_eq!(rack_of("h100-1"), Some(1));
        assert_eq!(rack_of("h100-128"), Some(4));
        assert_eq!(rack_of("a100-17"), Some(7));
        assert_eq!(rack_of("a100-96"), Some(10));
    }
}
