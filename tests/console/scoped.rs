//! What teams have of a fleet: it adds up to all of it.

use std::collections::BTreeSet;

use model::base::{DeviceAmount, Name};
use model::fleet::device::Device;
use model::fleet::node::Node;
use table::rows::{nodes, pools, queues};
use table::{Facts, Scope};

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

/// What pods hold of a node's devices.
fn held_on(node: &Node) -> DeviceAmount {
    node.devices.iter().map(Device::allocated).sum()
}

/// What teams have adds up to what the fleet has, and what is the pool's or the queue's is the same for all.
pub fn add_up(facts: &Facts) {
    let near = |a: f64, b: f64| (a - b).abs() < 0.01;
    let teams = teams(facts);
    assert!(teams.len() > 2);
    for whole in table::kinds::pools::rows(facts) {
        let rows = || {
            teams
                .iter()
                .flat_map(table::kinds::pools::rows)
                .filter(|row| row.name == whole.name)
        };
        let held = rows().filter_map(|row| row.devices.allocated);
        let held: DeviceAmount = held.sum();
        let nodes = facts.fleet.nodes.iter();
        let members = nodes.filter(|node| node.pool.as_str() == whole.name);
        assert_eq!(
            held,
            members.map(|node| held_on(node)).sum::<DeviceAmount>()
        );
        let every = facts.fleet.pools_of(facts.now, |_| true, |_| true);
        if let Some(every) = every.iter().find(|pool| pool.name.as_str() == whole.name) {
            let waits: u32 = rows().filter_map(|row| row.waiting_devices).sum();
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
    let waits = teams.iter().flat_map(table::kinds::pools::rows);
    let waits = waits.filter_map(|row| row.waiting_devices).sum::<u32>();
    assert_eq!(waits, pools::waiting_devices(facts).0);
    for whole in queues::rows(facts) {
        let rows = teams.iter().map(queues::rows);
        let own = rows.filter_map(|rows| rows.into_iter().find(|row| row.name == whole.name));
        let (mut running, mut waiting) = (0, 0);
        for row in own {
            running += row.running.expect("every job is visible");
            waiting += row.waiting.expect("every job is visible");
            assert_eq!(row.quota, whole.quota);
        }
        assert_eq!(
            (Some(running), Some(waiting)),
            (whole.running, whole.waiting)
        );
    }
    let (mut seen, mut held) = (0, DeviceAmount::ZERO);
    for whole in node_rows(facts) {
        let rows = teams.iter().map(node_rows);
        let own = rows.filter_map(|rows| rows.into_iter().find(|row| row.name == whole.name));
        let own: Vec<_> = own.collect();
        let of_teams = own.iter().filter_map(|row| row.devices.allocated);
        let node = facts.fleet.node(whole.name).expect("it is there");
        assert_eq!(
            of_teams.sum::<DeviceAmount>(),
            held_on(node),
            "{}",
            whole.name
        );
        if node.devices.iter().any(|device| !device.slices.is_empty()) {
            continue;
        }
        held += whole.devices.allocated.unwrap_or_default();
        let (all, free) = (whole.devices.total, whole.devices.free);
        let is_full = free == Some(DeviceAmount::ZERO) && all > Some(0);
        if let (Some(rate), true) = (whole.burn_usd_per_hour, is_full) {
            let teams = own.iter().filter_map(|row| row.burn_usd_per_hour).sum();
            assert!(near(rate, teams), "{}: {rate} is not {teams}", whole.name);
            seen += 1;
        }
    }
    assert!(seen > 0 && !held.is_zero());
}

/// The rows of `get nodes`.
fn node_rows(facts: &Facts) -> Vec<nodes::NodeRow<'_>> {
    let rows = &table::kinds::nodes::OUTPUT;
    let rows = (rows.rows)(facts, &|_, _| false).into_iter();
    rows.map(|row| nodes::row(facts, &facts.fleet.nodes[row.0 as usize]))
        .collect()
}
