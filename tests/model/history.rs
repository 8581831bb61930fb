//! History: nothing is invented, gaps stay gaps, and it stays small.

use std::time::Duration;

use model::base::{Moment, Name};
use model::fleet::Fleet;
use model::fleet::history::{FleetSignal, History, PastReading, RATIO_ERROR, Track, WHOLE_ERROR};
use model::fleet::observe::Table;
use model::fleet::signal::Signal;
use proptest::prelude::*;

use crate::parts::{Parts, node, pool, start};

fn after(seconds: u64) -> Moment {
    start().plus(Duration::from_secs(seconds))
}

/// A fleet whose device `n1/gpu0` reads `util`; `None` is a device that nobody has read for long.
fn fleet(seconds: u64, util: Option<f64>) -> Fleet {
    let mut parts = Parts::well(after(seconds));
    match util {
        Some(util) => parts.set(0, 0, Signal::Util, util),
        None => parts.blind(),
    }
    parts.fleet()
}

fn util() -> Track {
    Track::DeviceUtil(Name::from("n1/gpu0"))
}

fn free(_: Option<&str>) -> (f64, f64) {
    (f64::NAN, f64::NAN)
}

#[test]
fn what_was_read_is_found_again() {
    let mut history = History::default();
    assert_eq!(history.since(), None);
    for step in 0..10 {
        history.record(&fleet(step * 30, Some(step as f64 / 10.0)), &free);
    }
    let points = history.window(&util(), after(0), after(300), 10);
    for (step, point) in points.iter().enumerate() {
        let value = point.expect("read");
        assert!(
            (value - step as f32 / 10.0).abs() <= RATIO_ERROR,
            "{step}: {value}"
        );
    }
    assert_eq!(history.since(), Some(after(0)));
    // A pod's past begins with the pod: not a value of who held the device before.
    let span = (after(0), after(300));
    let own = history.window_since(&util(), span, Some(after(100)), 10);
    assert!(own[..4].iter().all(Option::is_none), "{own:?}");
    assert_eq!(own[4..], points[4..]);
    let of = |track: Track| history.window(&track, after(0), after(30), 1)[0].expect("read");
    let id = Name::from("n1/gpu1");
    assert!((of(Track::DeviceTemp(id.clone())) - 60.0).abs() <= WHOLE_ERROR);
    assert!((of(Track::DevicePower(id.clone())) - 500.0).abs() <= WHOLE_ERROR);
    assert!((of(Track::DeviceMemory(id)) - 0.5).abs() <= RATIO_ERROR);
    let unknown_device = Track::DeviceUtil(Name::from("n9/gpu0"));
    assert_eq!(
        history.window(&unknown_device, after(0), after(300), 3),
        [None; 3]
    );
}

#[test]
fn a_gap_is_not_a_zero() {
    let mut history = History::default();
    for step in 0..10 {
        let value = (!(4..7).contains(&step)).then_some(0.5);
        history.record(&fleet(step * 30, value), &free);
    }
    let points = history.window(&util(), after(0), after(300), 10);
    let known: Vec<bool> = points.iter().map(Option::is_some).collect();
    assert_eq!(
        known,
        [
            true, true, true, true, false, false, false, true, true, true
        ]
    );
    // Nobody looked at all for ten minutes: that is a gap too.
    history.record(&fleet(900, Some(0.5)), &free);
    assert_eq!(
        history.window(&util(), after(400), after(880), 4),
        [None; 4]
    );
    // Nothing lies outside of time.
    assert_eq!(
        history.window(&util(), after(960), after(2000), 2),
        [None; 2]
    );
    assert_eq!(
        history.window(&util(), after(300), after(300), 2),
        [None; 2]
    );
    assert_eq!(history.window(&util(), after(300), after(0), 2), [None; 2]);
    assert_eq!(history.window(&util(), after(0), after(300), 0), []);
}

#[test]
fn money_and_counts_are_kept_by_pool_and_for_a_day() {
    let mut history = History::default();
    let money = |pool: Option<&str>| match pool {
        None => (9042.37, 1205.5),
        Some("h100") => (3072.0, 58.0),
        Some(_) => (f64::NAN, f64::NAN),
    };
    for step in 0..(24 * 3600 / 60) {
        let mut parts = Parts::well(after(step * 60));
        parts.pools = vec![pool("a100", 0, 0), pool("h100", 16, 8)];
        history.record(&parts.fleet(), &money);
    }
    let day = (after(0), after(24 * 3600));
    let all = |track: &Track| history.window(track, day.0, day.1, 24);
    for point in all(&Track::Fleet(FleetSignal::Burn)) {
        assert!((point.expect("known all day") - 9042.37).abs() < 0.01);
    }
    let pool = |name: &str, signal| all(&Track::Pool(Name::from(name), signal));
    assert!(
        pool("h100", FleetSignal::Idle)
            .iter()
            .all(|point| *point == Some(58.0))
    );
    assert!(
        pool("h100", FleetSignal::Allocated)
            .iter()
            .all(|point| *point == Some(0.5))
    );
    assert!(
        pool("h100", FleetSignal::Power)
            .iter()
            .all(|point| *point == Some(4500.0))
    );
    assert_eq!(
        pool("a100", FleetSignal::Burn),
        [None; 24],
        "no price is not free"
    );
    assert_eq!(
        pool("a100", FleetSignal::Allocated),
        [None; 24],
        "nothing of nothing"
    );
    assert_eq!(pool("gone", FleetSignal::Util), [None; 24]);
    assert!(
        all(&util())[..22].iter().all(Option::is_none),
        "a device has its hour"
    );
    assert!(all(&util())[23].is_some());
}

#[test]
fn while_a_list_fails_there_are_no_counts() {
    let mut history = History::default();
    let mut parts = Parts::well(after(0));
    parts.lose(Table::Pods);
    history.record(&parts.fleet(), &|_| (1.0, 1.0));
    let point = |signal| history.window(&Track::Fleet(signal), after(0), after(15), 1)[0];
    assert_eq!(point(FleetSignal::Allocated), None);
    assert_eq!(point(FleetSignal::Burn), None);
    assert!(point(FleetSignal::Util).is_some(), "the devices were read");
}

#[test]
fn old_steps_are_dropped() {
    let mut history = History::default();
    for step in 0..400 {
        history.record(&fleet(step * 30, Some(0.5)), &free);
    }
    let hour = history.window(&util(), after(400 * 30 - 3600), after(400 * 30), 12);
    assert!(hour.iter().all(Option::is_some));
    let before = history.window(&util(), after(0), after(400 * 30 - 3600), 12);
    assert!(before.iter().all(Option::is_none));
    assert!(
        history.since().expect("some") <= after(900),
        "the long columns go further back"
    );
}

#[test]
fn a_clone_keeps_what_it_was() {
    let mut history = History::default();
    history.record(&fleet(0, Some(0.25)), &free);
    let held = history.clone();
    history.record(&fleet(30, Some(0.75)), &free);
    assert_eq!(held.window(&util(), after(30), after(60), 1), [None]);
    assert!(history.window(&util(), after(30), after(60), 1)[0].is_some());
}

#[test]
fn a_device_that_came_later_has_no_past_and_one_that_went_keeps_its_own() {
    let mut history = History::default();
    history.record(&fleet(0, Some(0.5)), &free);
    let mut parts = Parts::well(after(30));
    parts.nodes[0] = node(after(30), "n0", None);
    history.record(&parts.fleet(), &free);
    let of = |id: &str| {
        let track = Track::DeviceUtil(Name::from(id));
        history.window(&track, after(0), after(60), 2)
    };
    assert_eq!(of("n0/gpu3"), [None, Some(0.0)]);
    let went = of("n1/gpu0");
    assert!(went[0].is_some() && went[1].is_none());
}

/// 80,000 devices with their hour must stay below 130 MiB, and one device below 1.5 KiB.
#[test]
fn an_hour_of_a_large_fleet_is_small() {
    let nodes = 250;
    let mut history = History::default();
    for step in 0..130 {
        let now = after(step * 30);
        let mut parts = Parts::well(now);
        parts.nodes = (0..nodes)
            .map(|n| node(now, &format!("n{n:05}"), None))
            .collect();
        // What only has to be there once.
        history.record(&parts.fleet(), &free);
    }
    let a_device = history.heap_bytes() / (nodes * 8);
    assert!(a_device <= 1536, "{a_device} bytes a device");
    assert!(
        a_device * 80_000 < 130 * 1024 * 1024,
        "{a_device} bytes a device"
    );
    assert!(
        a_device > 120 * 5,
        "less than the values themselves: {a_device}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Of any readings at any moments (clocks that go back included), any window holds only values between
    /// the least and the most that was read, and nothing before or after all readings.
    #[test]
    fn a_window_never_invents(
        steps in prop::collection::vec((-600i64..1800, prop::option::of(0.0f64..=1.0)), 1..60),
        from in 0u64..8000, span in 0u64..8000, points in 1usize..60,
    ) {
        let mut history = History::default();
        let mut seconds = 4000i64;
        let mut read = Vec::new();
        for (by, value) in steps {
            seconds = (seconds + by).max(0);
            history.record(&fleet(seconds as u64, value), &free);
            read.extend(value);
        }
        let least = read.iter().copied().fold(f64::INFINITY, f64::min) as f32 - RATIO_ERROR;
        let most = read.iter().copied().fold(f64::NEG_INFINITY, f64::max) as f32 + RATIO_ERROR;
        let window = history.window(&util(), after(from), after(from + span), points);
        prop_assert_eq!(window.len(), points);
        for value in window.into_iter().flatten() {
            prop_assert!((least..=most).contains(&value), "{value} not in {least}..{most}");
        }
        let late = history.window(&util(), after(seconds as u64 + 400), after(1_000_000), 5);
        prop_assert_eq!(late, vec![None; 5]);
    }
}

#[test]
fn the_past_fills_gaps_and_nothing_else() {
    let mut history = History::default();
    // Somebody looks from the tenth minute on; a gap follows.
    for step in 20..24 {
        let value = (step != 22).then_some(0.5);
        history.record(&fleet(step * 30, value), &free);
    }
    let now = fleet(720, Some(0.5));
    let past = |seconds: u64, util: f64| PastReading {
        device: Name::from("n1/gpu0"),
        at: after(seconds),
        signals: [(Signal::Util, util), (Signal::Power, 300.0)]
            .into_iter()
            .collect(),
    };
    let mut readings: Vec<PastReading> = (0..12).map(|minute| past(minute * 60, 0.25)).collect();
    // Later than now, or long before what is kept: neither is taken.
    readings.push(past(3600, 0.9));
    readings.push(PastReading {
        device: Name::from("n9/gpu9"),
        ..past(0, 0.9)
    });
    history.fill(&now, Duration::from_secs(60), &readings);
    let points = history.window(&util(), after(0), after(720), 24);
    let close = |value: Option<f32>, wanted: f32| {
        let value = value.expect("is known");
        assert!((value - wanted).abs() <= RATIO_ERROR, "{value} {wanted}");
    };
    for (at, point) in points.iter().enumerate() {
        close(*point, if at < 20 || at == 22 { 0.25 } else { 0.5 });
    }
    assert_eq!(history.since(), Some(after(0)));
    let fleet_util = Track::Fleet(FleetSignal::Util);
    assert_eq!(history.window(&fleet_util, after(0), after(300), 1), [None]);
    history.fill_sums(&now);
    close(
        history.window(&fleet_util, after(0), after(300), 1)[0],
        0.25,
    );
    // The power of one device is not the fleet's.
    let power = Track::Fleet(FleetSignal::Power);
    assert_eq!(history.window(&power, after(0), after(300), 1), [None]);
}
