//! The fold on fleets made by hand and by chance.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use model::base::{Moment, Name, Rate};
use model::cost::sample::{allocated_to, device, fleet, node, pod, resting, sliced};
use model::cost::{PoolPrice, Prices, SpendScope, spend_rates};
use model::fleet::Fleet;
use model::fleet::admission::{Admission, Eviction, GroupSeen};
use model::fleet::device::{Device, Pod};
use model::fleet::fleet::TableState;
use model::fleet::job::{Job, JobState};
use model::fleet::kinds::Table;
use model::fleet::object_parts::{Resources, WorkloadFailure};
use model::fleet::observe::{Lost, LostKind};
use model::fleet::queue::QueueSystem;
use model::fleet::seen::PodSeen;
use model::fleet::signal::Signal;

use super::{
    CostPart, GAP, HOUR_MS, HourUsage, LossCause, UsageClass, UsageFold, UsageSample, start_of,
};

/// 06:00 of the day of the sample fleets, which stand at 06:40.
fn hour() -> i64 {
    super::hour_of(model::cost::sample::now())
}

fn at(minute: i64) -> Moment {
    Moment::from_millis(hour() * HOUR_MS + minute * 60_000)
}

/// The fleet with every table listed.
fn listed(mut fleet: Fleet) -> Fleet {
    fleet.known = Arc::new(
        Table::ALL
            .iter()
            .map(|table| (*table, TableState::Live))
            .collect(),
    );
    fleet
}

fn prices() -> Prices {
    Prices::default()
        .with_pool("a", PoolPrice::Rate(Rate::from_micros(4_123_457)))
        .with_pool("b", PoolPrice::Rate(Rate::from_micros(999_999)))
}

fn sample(minute: i64, fleet: &Fleet) -> UsageSample {
    sample_at(at(minute), fleet)
}

fn sample_at(at: Moment, fleet: &Fleet) -> UsageSample {
    let mut fleet = fleet.clone();
    fleet.at = at;
    // Readings and holders are as old as they are of the sample fleets.
    UsageSample::of(at, &fleet, &prices())
}

fn fold() -> UsageFold {
    UsageFold::new(GAP, [])
}

/// A minute apart, from one minute up to another.
fn minutes(fold: &mut UsageFold, span: std::ops::RangeInclusive<i64>, fleet: &Fleet) {
    for minute in span {
        fold.take(sample(minute, fleet));
    }
}

fn time(hour: &HourUsage, part: UsageClass) -> u64 {
    let rows = hour.rows.iter();
    rows.map(|row| row.device_ms[part as usize]).sum()
}

fn all_time(hour: &HourUsage) -> u64 {
    let rows = hour.rows.iter();
    rows.map(|row| row.device_ms.iter().sum::<u64>() + row.unobserved_ms)
        .sum()
}

fn cost(hour: &HourUsage) -> i64 {
    let rows = hour.rows.iter().filter_map(|row| row.cost_micros);
    rows.map(|parts| parts.iter().sum::<i64>()).sum()
}

#[test]
fn each_device_is_in_the_part_that_it_is_in() {
    let worker = pod("ns", "train-0", Some("q"), "t");
    let unread = |mut device: Device| {
        device.read_at = None;
        device
    };
    let weak = |mut device: Device| {
        device.signals = model::cost::sample::signals(0.3);
        device
    };
    let mut cordoned = node(
        "n2",
        "a",
        None,
        vec![
            device("n2", 0, "H100"),
            allocated_to(device("n2", 1, "H100"), &worker),
        ],
    );
    cordoned.cordon = Some(model::fleet::node::Cordon::default());
    let fleet = listed(fleet(vec![
        node(
            "n1",
            "a",
            None,
            vec![
                allocated_to(device("n1", 0, "H100"), &worker),
                allocated_to(weak(device("n1", 1, "H100")), &worker),
                allocated_to(resting(device("n1", 2, "H100")), &worker),
                allocated_to(unread(device("n1", 3, "H100")), &worker),
                device("n1", 4, "H100"),
            ],
        ),
        cordoned,
    ]));
    let mut fold = fold();
    fold.take(sample(40, &fleet));
    fold.take(sample(41, &fleet));
    let usage = fold.open().next().expect("an hour");
    let minute = 60_000;
    assert_eq!(
        time(&usage, UsageClass::Useful),
        2 * minute,
        "one of them on the cordoned node"
    );
    for part in [
        UsageClass::UnderUsed,
        UsageClass::Idle,
        UsageClass::NotRead,
        UsageClass::Unallocated,
        UsageClass::OutOfService,
    ] {
        assert_eq!(time(&usage, part), minute, "{part:?}");
    }
    let work = usage
        .rows
        .iter()
        .find(|row| !row.key.job.is_empty())
        .expect("a row");
    let key = &work.key;
    let names = [
        &key.pool,
        &key.class,
        &key.namespace,
        &key.team,
        &key.queue,
        &key.owner,
        &key.job,
    ];
    assert_eq!(
        names.map(Name::as_str),
        ["a", "H100", "ns", "t", "q", "Job", "train"]
    );
    assert_eq!(work.device_ms[UsageClass::Unallocated as usize], 0);
}

#[test]
fn no_price_is_unknown_and_not_nothing() {
    let fleet = listed(fleet(vec![node(
        "n1",
        "elsewhere",
        None,
        vec![device("n1", 0, "none")],
    )]));
    let mut fold = fold();
    minutes(&mut fold, 0..=1, &fleet);
    let usage = fold.open().next().expect("an hour");
    assert_eq!(usage.rows.len(), 1);
    assert_eq!(usage.rows[0].cost_micros, None);
    assert_eq!(time(&usage, UsageClass::Unallocated), 60_000);
}

#[test]
fn what_was_not_seen_is_not_guessed() {
    let seen = listed(fleet(vec![node(
        "n1",
        "a",
        None,
        vec![device("n1", 0, "H100")],
    )]));
    let mut lost = seen.clone();
    let mut known = (*lost.known).clone();
    let why = Lost {
        kind: LostKind::Unreachable,
        since: at(20),
        message: String::new(),
    };
    known.insert(Table::Pods, TableState::Lost(why));
    lost.known = Arc::new(known);
    let mut fold = fold();
    // Begins at :10; the list of pods is lost from :20 to :30; no picture from :40 to :50.
    minutes(&mut fold, 10..=19, &seen);
    minutes(&mut fold, 20..=29, &lost);
    minutes(&mut fold, 30..=40, &seen);
    minutes(&mut fold, 50..=60, &seen);
    let closed = fold.closed();
    let [usage] = closed.as_slice() else {
        panic!("one hour is closed: {closed:?}")
    };
    assert!(usage.closed);
    assert_eq!(usage.observed_ms, 30 * 60_000);
    assert_eq!(time(usage, UsageClass::Unallocated), 30 * 60_000);
    assert_eq!(all_time(usage), HOUR_MS as u64);
    // 4.123457 $/h for half an hour: nothing is paid for what was not seen.
    assert_eq!(cost(usage), 2_061_728);
}

#[test]
fn a_clock_that_goes_back_counts_nothing_twice() {
    let fleet = listed(fleet(vec![node(
        "n1",
        "a",
        None,
        vec![device("n1", 0, "H100")],
    )]));
    let mut fold = fold();
    minutes(&mut fold, 0..=30, &fleet);
    minutes(&mut fold, 20..=40, &fleet);
    let usage = fold.open().next().expect("an hour");
    assert_eq!(
        (usage.observed_ms, time(&usage, UsageClass::Unallocated)),
        (40 * 60_000, 40 * 60_000)
    );
    // An hour that is closed takes nothing more.
    minutes(&mut fold, 41..=61, &fleet);
    let closed = fold.closed();
    assert_eq!(closed.len(), 1);
    minutes(&mut fold, 30..=61, &fleet);
    assert!(fold.closed().is_empty());
    let open: Vec<i64> = fold.open().map(|usage| usage.hour).collect();
    assert_eq!(open, [hour() + 1]);
}

#[test]
fn energy_is_what_the_counters_grew_by() {
    let metered = |joules: f64| {
        let mut device = allocated_to(device("n1", 0, "H100"), &pod("ns", "train-0", None, "t"));
        device.signals = [(Signal::Util, 0.9), (Signal::Energy, joules)]
            .into_iter()
            .collect();
        listed(fleet(vec![node("n1", "a", None, vec![device])]))
    };
    let mut fold = fold();
    // The driver was loaded anew between the third and the fourth.
    for (minute, joules) in [
        (40, 1e6),
        (41, 1.036e6),
        (42, 1.072e6),
        (43, 100.0),
        (44, 3_700.0),
    ] {
        let mut fleet = metered(joules);
        fleet.at = at(minute);
        let nodes: Vec<_> = fleet
            .nodes
            .iter()
            .map(|node| {
                let mut node = (**node).clone();
                node.devices[0].read_at = Some(at(minute));
                Arc::new(node)
            })
            .collect();
        fleet.nodes = Arc::from(nodes);
        fold.take(sample(minute, &fleet));
    }
    let usage = fold.open().next().expect("an hour");
    // 75,600 J are 21 Wh.
    let held = usage.rows.iter().find(|row| !row.key.job.is_empty());
    assert_eq!(held.and_then(|row| row.energy_mwh), Some(21_000));
    // A counter that was not read anew is no energy of 0.
    let mut still = self::fold();
    minutes(&mut still, 40..=42, &metered(1e6));
    let usage = still.open().next().expect("an hour");
    assert!(usage.rows.iter().all(|row| row.energy_mwh.is_none()));
}

/// A fleet in which `ns/train` has held a device since :10, or as `change` makes it.
fn with_job(change: impl FnOnce(&mut Job, &mut bool)) -> Fleet {
    let worker = pod("ns", "train-0", None, "t");
    let seen = PodSeen {
        scheduled: Some(at(10)),
        requests: Resources {
            devices: vec![(Name::new("nvidia.com/gpu"), 1)].into(),
            ..Resources::default()
        },
        ..(*worker.seen).clone()
    };
    let worker = Arc::new(Pod {
        seen: Arc::new(seen),
        ..(*worker).clone()
    });
    let mut job = Job::unknown(worker.job.clone());
    job.state = JobState::Running;
    job.pods = vec![Arc::clone(&worker)].into();
    let mut holds = true;
    change(&mut job, &mut holds);
    let mut one = device("n1", 0, "H100");
    if holds {
        one = allocated_to(one, &worker);
    } else {
        job.pods = Box::default();
    }
    let mut fleet = listed(fleet(vec![node("n1", "a", None, vec![one])]));
    fleet.jobs = Arc::from([Arc::new(job)]);
    fleet
}

#[test]
fn what_a_run_that_fails_had_since_its_checkpoint_is_lost() {
    let running = with_job(|job, _| job.last_checkpoint = Some(at(25)));
    let failed = with_job(|job, holds| {
        job.state = JobState::Failed;
        *holds = false;
    });
    let mut fold = fold();
    minutes(&mut fold, 10..=39, &running);
    minutes(&mut fold, 40..=50, &failed);
    let usage = fold.open().next().expect("an hour");
    let [loss] = usage.losses.as_slice() else {
        panic!("{:?}", usage.losses)
    };
    assert_eq!(loss.cause, LossCause::Failure);
    // Thirty minutes were allocated, half of them since the checkpoint.
    assert_eq!(loss.device_ms, [15 * 60_000, 0, 0, 0].map(|ms| ms));
    let row = usage
        .rows
        .iter()
        .find(|row| row.key == loss.key)
        .expect("a row");
    assert_eq!(
        row.device_ms[UsageClass::Useful as usize],
        30 * 60_000,
        "the row stays"
    );
    assert_eq!(loss.cost_micros.map(|cost| cost[0]), Some(4_123_457 / 4));
    assert_eq!(fold.lost().len(), 1);
}

#[test]
fn a_run_is_preempted_where_its_queue_says_so_and_lost_in_every_hour() {
    let evicted = |count, holds_now: bool| {
        with_job(move |job, holds| {
            let mut seen = GroupSeen::unknown(
                Table::KueueWorkloads,
                QueueSystem::Kueue,
                Name::new("Workload"),
                job.id.key.clone(),
            );
            seen.evictions = (count > 0)
                .then(|| Eviction {
                    count,
                    ..Eviction::default()
                })
                .into_iter()
                .collect();
            job.admission = Some(Arc::new(Admission {
                seen: Arc::new(seen),
                queue: None,
                position: None,
                local_position: None,
                others: Box::from([]),
            }));
            *holds = holds_now;
        })
    };
    let mut fold = fold();
    minutes(&mut fold, 10..=64, &evicted(0, true));
    minutes(&mut fold, 65..=66, &evicted(1, false));
    // It runs again, and ends well: nothing more is lost.
    minutes(&mut fold, 67..=70, &evicted(1, true));
    let lost = fold.lost();
    assert_eq!(lost.len(), 1);
    assert_eq!(
        (lost[0].cause, lost[0].booked_from),
        (LossCause::Preemption, hour() + 1)
    );
    // The fold has closed the first hour; the five minutes of the second one it books itself.
    let usage = fold.open().next().expect("an hour");
    let booked: u64 = usage.losses.iter().flat_map(|loss| loss.device_ms).sum();
    assert_eq!(booked, 5 * 60_000);
    assert_eq!(lost[0].share_of(hour()), Some((50 * 60_000, 50 * 60_000)));
}

#[test]
fn a_run_that_ends_well_or_is_deleted_loses_nothing() {
    let done = with_job(|job, holds| {
        job.state = JobState::Done;
        *holds = false;
    });
    let mut gone = done.clone();
    gone.jobs = Arc::from([]);
    let restarted = with_job(|job, _| {
        job.failure = Some(WorkloadFailure {
            restarts: 3,
            ..WorkloadFailure::default()
        })
    });
    for end in [done, gone, restarted] {
        let mut fold = fold();
        minutes(&mut fold, 10..=19, &with_job(|_, _| ()));
        minutes(&mut fold, 20..=21, &end);
        assert!(fold.lost().is_empty());
    }
}

#[test]
fn a_job_that_ends_well_is_counted_once_where_it_had_most() {
    let running = with_job(|_, _| ());
    let released = with_job(|_, holds| *holds = false);
    let done = with_job(|job, holds| {
        job.state = JobState::Done;
        *holds = false;
    });
    let mut fold = fold();
    minutes(&mut fold, 10..=19, &running);
    // Its pods are over some pictures before its object says so.
    minutes(&mut fold, 20..=22, &released);
    minutes(&mut fold, 23..=30, &done);
    let usage = fold.open().next().expect("an hour");
    let [finished] = usage.finished.as_slice() else {
        panic!("{:?}", usage.finished)
    };
    assert_eq!(finished.seen_ms, at(23).millis());
    assert_eq!(finished.key.pool.as_str(), "a");
    assert!(usage.rows.iter().any(|row| row.key == finished.key));
    // It runs again, over the end of the hour, and ends with the first picture of the next.
    minutes(&mut fold, 31..=59, &running);
    minutes(&mut fold, 60..=61, &done);
    let closed = fold.closed();
    assert_eq!(closed[0].finished.len(), 1);
    assert_eq!(fold.open().next().expect("an hour").finished.len(), 1);
    // One that was done when it was first seen, one that fails and one that is deleted are not counted.
    let failed = with_job(|job, holds| {
        job.state = JobState::Failed;
        *holds = false;
    });
    let mut gone = done.clone();
    gone.jobs = Arc::from([]);
    for (first, end) in [(&done, &done), (&running, &failed), (&running, &gone)] {
        let mut fold = self::fold();
        minutes(&mut fold, 10..=12, first);
        minutes(&mut fold, 13..=20, end);
        let usage = fold.open().next().expect("an hour");
        assert_eq!(usage.finished, []);
    }
}

#[test]
fn spot_time_has_its_on_demand_cost_beside_it_unless_some_of_it_is_not_known() {
    use model::cost::{Override, PriceBook};
    use model::fleet::accelerator::Catalog;
    use model::fleet::node::Billing;
    let book = "provider = \"market\"\nprices = [\n\
        { accelerator = \"H100\", devices = 1, purchase = \"spot\", usd_per_hour = 1.5, as_of = \"2026-01-01\" },\n\
        { accelerator = \"H100\", devices = 1, purchase = \"on-demand\", usd_per_hour = 4.0, as_of = \"2026-01-01\" },\n]\n";
    let book = PriceBook::parse(book, "test").expect("parses");
    let prices = Prices::new(vec![book], &Catalog::default()).with_override(Override {
        instance: None,
        class: Some("L4".to_owned()),
        billing: Some(Billing::Spot),
        rate: Rate::from_micros(300_000),
    });
    let worker = pod("ns", "train-0", None, "t");
    let third = sliced(
        device("n1", 1, "H100"),
        &[("1g.10gb-0", Some(&worker)), ("2g.20gb-1", None)],
    );
    let mut nodes = vec![
        node(
            "n1",
            "x",
            None,
            vec![allocated_to(device("n1", 0, "H100"), &worker), third],
        ),
        // No on-demand price of this class is known.
        node("n2", "x", None, vec![device("n2", 0, "L4")]),
        node("n3", "y", None, vec![device("n3", 0, "H100")]),
    ];
    nodes[0].billing = Some(Billing::Spot);
    nodes[1].billing = Some(Billing::Spot);
    let fleet = listed(fleet(nodes));
    let mut fold = fold();
    for minute in 0..=60 {
        let mut fleet = fleet.clone();
        fleet.at = at(minute);
        fold.take(UsageSample::of(at(minute), &fleet, &prices));
    }
    let usage = fold.closed().remove(0);
    let mut summed = [(0, 0); 2];
    for row in &usage.rows {
        let cost: i64 = row.cost_micros.expect("all have a price").iter().sum();
        match (row.key.pool.as_str(), row.key.class.as_str()) {
            ("x", "H100") => {
                summed[0].0 += cost;
                summed[0].1 += row.on_demand_micros.expect("is known");
            }
            _ => assert_eq!(row.on_demand_micros, None, "{:?}", row.key),
        }
    }
    // Two devices for an hour, one of them cut in slices.
    assert_eq!(summed[0], (3_000_000, 8_000_000));
}

fn arb_device() -> impl Strategy<Value = (u8, u8, bool)> {
    (0u8..6, 0u8..4, any::<bool>())
}

/// A node: which pool, whether it is ready, and of each device what it is, whose, and whether it is broken.
type NodeMade = (u8, bool, Vec<(u8, u8, bool)>);

/// A fleet of nodes with devices that are allocated, shared, idle, unread, failed or unpriced.
fn made(nodes: &[NodeMade]) -> Fleet {
    let pods: Vec<Arc<Pod>> = ["x-0", "y-0", "z-0", "w-0"]
        .iter()
        .enumerate()
        .map(|(at, name)| pod("ns", name, (at > 1).then_some("q"), ["t1", "t2"][at % 2]))
        .collect();
    let nodes = nodes
        .iter()
        .enumerate()
        .map(|(number, (pool, ready, devices))| {
            let name = format!("n{number}");
            let pool = ["a", "b", "unpriced"][usize::from(*pool % 3)];
            let devices = devices
                .iter()
                .enumerate()
                .map(|(index, (kind, holder, broken))| {
                    let mut one = device(&name, index as u32, "H100");
                    let by = &pods[usize::from(*holder)];
                    if *broken {
                        one.health = model::fleet::device::Health::Fault(Name::new("broken"));
                    }
                    match kind {
                        0 => one,
                        1 => allocated_to(one, by),
                        2 => allocated_to(resting(one), by),
                        3 => sliced(
                            one,
                            &[
                                ("1g.10gb-0", Some(by)),
                                ("2g.20gb-1", None),
                                ("4g.40gb-2", Some(&pods[0])),
                            ],
                        ),
                        4 => sliced(
                            one,
                            &[
                                ("share-0", Some(by)),
                                ("share-1", Some(&pods[1])),
                                ("share-2", None),
                            ],
                        ),
                        _ => {
                            one.read_at = None;
                            allocated_to(one, by)
                        }
                    }
                });
            let mut node = node(&name, pool, None, devices.collect());
            node.ready = Some(*ready);
            node
        });
    listed(fleet(nodes.collect()))
}

fn arb_fleet() -> impl Strategy<Value = Fleet> {
    let one = (
        0u8..3,
        any::<bool>(),
        proptest::collection::vec(arb_device(), 1..9),
    );
    proptest::collection::vec(one, 1..6).prop_map(|nodes| made(&nodes))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Rows and parts add up to what the fleet burnt, to the micro-dollar, and to devices times time, to the millisecond.
    #[test]
    fn sums_equal_their_parts(
        fleets in proptest::collection::vec((arb_fleet(), 1i64..119_000), 2..12),
    ) {
        let mut fold = fold();
        let mut moment = start_of(hour()).millis() + 40 * 60_000;
        // By hour and by team: micro-dollars an hour times milliseconds, added up on another way.
        let mut burnt: BTreeMap<(i64, Name), i128> = BTreeMap::new();
        let mut total: BTreeMap<i64, (i128, u64)> = BTreeMap::new();
        let last = fleets.len() - 1;
        for (at, (fleet, step)) in fleets.iter().enumerate() {
            let mut fleet = fleet.clone();
            fleet.at = Moment::from_millis(moment);
            fold.take(UsageSample::of(fleet.at, &fleet, &prices()));
            if at == last { break; }
            let burn = spend_rates(&fleet, &prices());
            let mut from = moment;
            moment += step;
            while from < moment {
                let hour = from.div_euclid(HOUR_MS);
                let to = moment.min((hour + 1) * HOUR_MS);
                for row in &burn.rows[&SpendScope::Team] {
                    *burnt.entry((hour, row.name.clone())).or_default() += i128::from(row.spend.rate.all.micros()) * i128::from(to - from);
                }
                let sum = total.entry(hour).or_default();
                sum.0 += i128::from(burn.total.rate.all.micros()) * i128::from(to - from);
                sum.1 += u64::from(burn.devices.floor()) * (to - from) as u64;
                from = to;
            }
        }
        let mut hours = fold.closed();
        hours.extend(fold.open());
        for usage in &hours {
            let (micros, device_ms) = total.get(&usage.hour).copied().unwrap_or_default();
            prop_assert_eq!(i128::from(cost(usage)), micros / i128::from(HOUR_MS));
            let seen: u64 = usage.rows.iter().flat_map(|row| row.device_ms).sum();
            prop_assert_eq!(seen, device_ms);
            for row in &usage.rows {
                prop_assert_eq!(row.cost_micros.is_none(), row.key.pool.as_str() == "unpriced");
            }
            for ((of, team), micros) in burnt.iter().filter(|((of, _), _)| *of == usage.hour) {
                let name = if team.as_str() == "unattributed" { "" } else { team.as_str() };
                let rows = usage.rows.iter().filter(|row| row.key.team.as_str() == name);
                let own: i64 = rows.filter_map(|row| row.cost_micros).flatten().sum();
                let rows = usage.rows.len() as i128;
                let expected = micros / i128::from(HOUR_MS);
                prop_assert!((i128::from(own) - expected).abs() <= rows, "{} {:?}: {} {}", of, team, own, expected);
            }
        }
    }

    /// A fleet that stays as it is: every moment of every device is in the hour once, whenever pictures are made.
    #[test]
    fn every_device_is_accounted_for_at_every_moment(
        fleet in arb_fleet(),
        steps in proptest::collection::vec(1i64..900_000, 1..20),
    ) {
        let mut fold = fold();
        let mut moment = start_of(hour()).millis() + 60_000;
        for step in steps.iter().chain([&HOUR_MS]) {
            let mut fleet = fleet.clone();
            fleet.at = Moment::from_millis(moment);
            fold.take(UsageSample::of(fleet.at, &fleet, &prices()));
            moment += step;
        }
        let devices = fleet.devices().count() as u64;
        for usage in fold.closed() {
            prop_assert_eq!(all_time(&usage), devices * HOUR_MS as u64);
        }
        for usage in fold.open() {
            prop_assert_eq!(all_time(&usage) % devices, 0);
        }
    }
}

#[test]
fn the_parts_of_cost_are_those_of_the_rows_and_the_lost() {
    for part in UsageClass::ALL {
        assert_eq!(CostPart::ALL[part as usize] as usize, part as usize);
    }
    assert_eq!(GAP, Duration::from_secs(120));
}
