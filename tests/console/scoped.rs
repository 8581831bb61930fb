//! What teams have of a fleet: it adds up to all of it.

use std::collections::BTreeSet;

use model::base::Name;
use model::fleet::device::Device;
use model::fleet::node::Node;
use table::{Facts, Scope, nodes, pools, queues};

/// The fleet as each of its teams has it.
pub fn teams(facts: &Facts) -> Vec<Facts> {
    let teams: BTreeSet<&Name> = facts.fleet.jobs.iter().map(|job| &job.team).collect();
    let of = |team: &&Name| {
        facts.scoped(&Scope {
            team: Some((*team).clone()),
            ..Scope::default()
        })
    };
    teams.iter().map(of).collect()
}

/// Devices of a node that teams hold, each counted once for each team.
fn held_on(node: &Node) -> u32 {
    let of = |device: &Device| {
        let teams = device.holders().map(|(pod, _)| pod.team.clone());
        teams.collect::<BTreeSet<Name>>().len() as u32
    };
    node.devices.iter().map(of).sum()
}

/// What teams have adds up to what the fleet has, and what is the pool's or the queue's is the same for all.
pub fn add_up(facts: &Facts) {
    let near = |a: f64, b: f64| (a - b).abs() < 0.01;
    let teams = teams(facts);
    assert!(teams.len() > 2);
    for whole in pools::rows(facts) {
        let rows = || {
            teams
                .iter()
                .flat_map(pools::rows)
                .filter(|row| row.name == whole.name)
        };
        let of = |pick: &dyn Fn(&pools::PoolRow<'_>) -> u32| -> u32 {
            rows().map(|row| pick(&row)).sum()
        };
        let held = of(&|row| row.devices.allocated.unwrap_or(0));
        // Teams may hold parts of one device: it counts for each of them.
        let nodes = facts.fleet.nodes.iter();
        let members = nodes.filter(|node| node.pool.as_str() == whole.name);
        assert_eq!(held, members.map(|node| held_on(node)).sum::<u32>());
        // Fixtures have waiting devices that no job explains.
        let every = facts.fleet.pools_of(facts.now, |_| true, |_| true);
        if let Some(every) = every.iter().find(|pool| pool.name.as_str() == whole.name) {
            let waits = of(&|row| row.waiting_devices.unwrap_or(0));
            assert_eq!(waits, every.waiting_devices, "{}", whole.name);
        }
        for row in rows() {
            let devices = (row.devices.total, row.devices.free);
            assert_eq!(devices, (whole.devices.total, whole.devices.free));
            if whole.devices.total > Some(0) {
                assert_eq!(row.free_usd_per_hour, None, "nobody's");
            }
            assert!(row.devices.allocated <= whole.devices.allocated);
        }
    }
    let waits = teams.iter().flat_map(pools::rows);
    let waits = waits.filter_map(|row| row.waiting_devices).sum::<u32>();
    assert_eq!(waits, pools::waiting_devices(facts));
    for whole in queues::rows(facts) {
        let rows = teams.iter().map(queues::rows);
        let own = rows.filter_map(|rows| rows.into_iter().find(|row| row.name == whole.name));
        let (mut running, mut waiting) = (0, 0);
        for row in own {
            (running, waiting) = (running + row.running, waiting + row.waiting);
            assert_eq!(row.quota, whole.quota);
        }
        assert_eq!((running, waiting), (whole.running, whole.waiting));
    }
    let (mut seen, mut held) = (0, 0);
    for whole in nodes::rows(facts) {
        let rows = teams.iter().map(nodes::rows);
        let own = rows.filter_map(|rows| rows.into_iter().find(|row| row.name == whole.name));
        let own: Vec<_> = own.collect();
        let of_teams = own.iter().map(|row| row.devices.allocated.unwrap_or(0));
        let node = facts.fleet.node(whole.name).expect("it is there");
        assert_eq!(of_teams.sum::<u32>(), held_on(node), "{}", whole.name);
        if node.devices.iter().any(|device| !device.slices.is_empty()) {
            continue;
        }
        held += whole.devices.allocated.unwrap_or(0);
        let (all, free) = (whole.devices.total, whole.devices.free);
        if let (Some(rate), Some(0), true) = (whole.burn_usd_per_hour, free, all > Some(0)) {
            let teams = own.iter().filter_map(|row| row.burn_usd_per_hour).sum();
            assert!(near(rate, teams), "{}: {rate} is not {teams}", whole.name);
            seen += 1;
        }
    }
    assert!(seen > 0 && held > 0);
}
