//! Every check: that it fires, that it does not, and that a gap neither begins nor ends a finding.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ledger::checks::{self, CheckStates};
use model::base::{Moment, Name};
use model::fleet::device::Attribution;
use model::fleet::finding::PATIENCE;
use model::fleet::finding::{Finding, Severity};
use model::fleet::observe::{Condition, SourceState, Table};
use model::fleet::signal::Signal;
use model::fleet::thresholds::Thresholds;

use crate::objectives::serve;
use crate::parts::{Parts, held, open_run, pod, queues, start, with, without};

/// A change to a fleet in which all is well, so many seconds after the start.
type Change = fn(&mut Parts, u64);

/// The three cases that every check must have.
struct Case {
    code: &'static str,
    /// What is wrong, for as long as it takes.
    fire: Change,
    /// What looks alike and is not wrong. It also ends what `fire` began.
    calm: Change,
    /// What hides it.
    gap: Change,
}

const CASES: &[Case] = &[
    Case {
        code: "device-vanished",
        fire: |parts, _| parts.device(0, 3).read_at = Some(start().minus(Duration::from_secs(200))),
        calm: |parts, _| {
            parts.device(0, 3).read_at = Some(parts.now.minus(Duration::from_secs(40)))
        },
        gap: |parts, _| parts.blind(),
    },
    Case {
        code: "xid",
        fire: |parts, _| parts.set(0, 3, Signal::XidLast, 79.0),
        calm: |parts, _| parts.set(0, 3, Signal::XidLast, 0.0),
        gap: |parts, _| parts.blind(),
    },
    Case {
        code: "remap-failed",
        fire: |parts, _| parts.set(0, 3, Signal::RemapFailed, 1.0),
        calm: |parts, _| parts.set(0, 3, Signal::RemapFailed, 0.0),
        gap: |parts, _| {
            let device = parts.device(0, 3);
            device.signals = without(&device.signals, Signal::RemapFailed);
        },
    },
    Case {
        code: "ecc-uncorrected",
        fire: |parts, seconds| {
            let count = if seconds < 60 { 5.0 } else { 8.0 };
            parts.set(0, 3, Signal::EccUncorrected, count);
        },
        // High, but nothing new; and lower than after the fire: the driver was reloaded.
        calm: |parts, _| parts.set(0, 3, Signal::EccUncorrected, 7.0),
        gap: |parts, _| parts.blind(),
    },
    Case {
        code: "pcie-replay",
        fire: |parts, seconds| {
            parts.set(
                0,
                3,
                Signal::PcieReplay,
                500.0 + 12.0 * (seconds / 60) as f64,
            );
        },
        // Of another day; after the fire fewer than before: the driver was reloaded.
        calm: |parts, _| parts.set(0, 3, Signal::PcieReplay, 3.0),
        gap: |parts, _| parts.blind(),
    },
    Case {
        code: "recovery-action",
        fire: |parts, _| parts.set(0, 3, Signal::RecoveryAction, 2.0),
        calm: |parts, _| parts.set(0, 3, Signal::RecoveryAction, 0.0),
        gap: |parts, _| parts.blind(),
    },
    Case {
        code: "device-unhealthy",
        fire: |parts, _| parts.set(0, 3, Signal::Health, 0.0),
        calm: |parts, _| parts.set(0, 3, Signal::Health, 1.0),
        gap: |parts, _| parts.blind(),
    },
    Case {
        code: "node-not-ready",
        fire: |parts, _| {
            parts.nodes[1].ready = Some(false);
            parts.nodes[1].ready_since = Some(start());
        },
        // Not ready, but it has no devices.
        calm: |parts, _| {
            parts.nodes[1].ready = Some(false);
            parts.nodes[1].devices = Box::default();
            parts.nodes[1].device_capacity = 0;
        },
        gap: |parts, _| parts.lose(Table::Nodes),
    },
    Case {
        code: "node-condition",
        fire: |parts, _| {
            condition(
                parts,
                "AcceleratedHardwareReady",
                Some(false),
                "NvidiaXID79Error",
            )
        },
        calm: |parts, _| condition(parts, "AcceleratedHardwareReady", Some(true), "AllGood"),
        gap: |parts, _| condition(parts, "AcceleratedHardwareReady", None, "AgentSilent"),
    },
    Case {
        code: "power-brake",
        fire: |parts, _| parts.set(0, 3, Signal::ThrottleReasons, 128.0),
        calm: |parts, _| parts.set(0, 3, Signal::ThrottleReasons, 8.0),
        gap: |parts, _| parts.blind(),
    },
    Case {
        code: "rack-hot",
        fire: |parts, _| (0..5).for_each(|index| parts.set(0, index, Signal::Temp, 90.0)),
        calm: |parts, _| (0..2).for_each(|index| parts.set(0, index, Signal::Temp, 90.0)),
        gap: |parts, _| parts.blind(),
    },
    Case {
        code: "heat",
        fire: |parts, _| parts.set(0, 3, Signal::Temp, 90.0),
        // As hot, but it says itself that it may be.
        calm: |parts, _| {
            parts.set(0, 3, Signal::Temp, 90.0);
            parts.set(0, 3, Signal::TempMargin, 8.0);
        },
        gap: |parts, _| parts.blind(),
    },
    Case {
        code: "throttling",
        fire: |parts, _| parts.set(0, 3, Signal::ThrottleReasons, 64.0),
        // Idle, application clocks, software power cap, display: all normal.
        calm: |parts, _| parts.set(0, 3, Signal::ThrottleReasons, f64::from(0x107)),
        gap: |parts, _| parts.blind(),
    },
    Case {
        code: "gang-stalled",
        // A collective that spins: by utilization all is well. What is idle as a whole is another finding.
        fire: |parts, _| (0..7).for_each(|index| parts.set(0, index, Signal::SmActive, 0.04)),
        calm: |parts, _| parts.rest(0),
        gap: |parts, _| parts.blind(),
    },
    Case {
        code: "straggler",
        fire: |parts, _| parts.set(0, 3, Signal::Util, 0.3),
        // The whole gang is slow: nobody holds it up.
        calm: |parts, _| (0..8).for_each(|index| parts.set(0, index, Signal::Util, 0.6)),
        gap: |parts, _| parts.blind(),
    },
    Case {
        code: "pods-stuck",
        fire: |parts, _| {
            parts.nodes[0].ready = None;
            end_pod(parts, start());
        },
        // Ending on a node that is well.
        calm: |parts, _| end_pod(parts, start()),
        gap: |parts, _| parts.lose(Table::Pods),
    },
    Case {
        code: "device-count",
        fire: |parts, _| {
            parts.nodes[1].ignored_counts =
                Box::new([(Name::new("nvidia.com/gpu"), 4_000_000_000)]);
        },
        calm: |parts, _| parts.nodes[1].ignored_counts = Box::default(),
        gap: |parts, _| parts.lose(Table::Nodes),
    },
    Case {
        code: "plugin-not-ready",
        fire: |parts, _| {
            parts.nodes[1].device_capacity = 0;
            parts.nodes[1].device_allocatable = 0;
        },
        calm: |parts, _| {
            parts.nodes[1].device_capacity = 0;
            parts.nodes[1].device_allocatable = 0;
            Arc::make_mut(&mut parts.nodes[1].seen).labels = std::iter::empty().collect();
        },
        gap: |parts, _| parts.lose(Table::Nodes),
    },
    Case {
        code: "allocatable-below-capacity",
        fire: |parts, _| parts.nodes[1].device_allocatable = 7,
        calm: |parts, _| parts.nodes[1].device_allocatable = 8,
        gap: |parts, _| parts.lose(Table::Nodes),
    },
    Case {
        code: "objective-missed",
        fire: |parts, _| serve(parts, 4.0),
        calm: |parts, _| serve(parts, 1.0),
        // Its servers do not answer.
        gap: |parts, _| parts.jobs[0].serving = None,
    },
    Case {
        code: "run-interrupted",
        fire: |parts, _| {
            parts.open_runs = vec![open_run()];
            parts.jobs.push(held(None));
        },
        // The run goes on, and is to resume it later.
        calm: |parts, _| {
            let later = parts.now.plus(Duration::from_secs(600));
            parts.jobs.push(held(Some(later)));
        },
        gap: |parts, _| {
            parts.open_runs = vec![open_run()];
            parts.lose(Table::Jobs);
        },
    },
    Case {
        code: "queues-document",
        fire: |parts, _| parts.govern = Some(queues(Some("queues.toml:3: weight: not a number"))),
        calm: |parts, _| parts.govern = Some(queues(None)),
        gap: |parts, _| {
            parts.govern = Some(queues(None));
            parts.lose(Table::GovernQueues);
        },
    },
    Case {
        code: "source-lost",
        fire: |parts, _| parts.sources[1].state = SourceState::Lost,
        calm: |parts, _| parts.sources[1].state = SourceState::Live,
        gap: |parts, _| parts.sources[1].state = SourceState::Stale,
    },
    Case {
        code: "idle-allocated",
        fire: |parts, _| (0..8).for_each(|index| rest(parts, index, start())),
        // Idle, but since a moment ago only; and one that rests by its own count, but draws power.
        calm: |parts, _| {
            let since = parts.now.minus(Duration::from_secs(1200));
            rest(parts, 1, since);
            rest(parts, 2, start());
            parts.set(0, 2, Signal::Power, 400.0);
        },
        gap: |parts, _| {
            rest(parts, 1, start());
            parts.blind();
        },
    },
    Case {
        code: "busy-unallocated",
        fire: |parts, _| parts.set(1, 2, Signal::Util, 0.7),
        // On a node where placements are guesses, one busy free device for one quiet held one is the wrong guess.
        calm: |parts, _| {
            let holder = parts.device(0, 0).holder.clone();
            parts.device(1, 1).holder = holder;
            parts.device(1, 1).attribution = Attribution::Counted;
            parts.set(1, 2, Signal::Util, 0.7);
        },
        gap: |parts, _| parts.lose(Table::Pods),
    },
    Case {
        code: "remap-pending",
        fire: |parts, _| parts.set(0, 3, Signal::RemapPending, 1.0),
        calm: |parts, _| parts.set(0, 3, Signal::RemapPending, 0.0),
        gap: |parts, _| parts.blind(),
    },
    Case {
        code: "under-used",
        fire: |parts, _| parts.jobs[0].util = Some(0.04),
        // As little, but on shares of devices.
        calm: |parts, _| {
            parts.jobs[0].util = Some(0.04);
            for place in &mut parts.jobs[0].places {
                place.slice = Some(Name::from("share-0"));
            }
        },
        gap: |parts, _| parts.jobs[0].util = None,
    },
    Case {
        code: "power-capped",
        fire: |parts, _| {
            parts.set(0, 3, Signal::ThrottleReasons, 4.0);
            parts.set(0, 3, Signal::PowerLimit, 400.0);
        },
        // At its own full limit: normal under load.
        calm: |parts, _| parts.set(0, 3, Signal::ThrottleReasons, 4.0),
        gap: |parts, _| parts.blind(),
    },
    Case {
        code: "memory-saturated",
        fire: |parts, _| parts.set(0, 3, Signal::MemUsed, 79.5 * 1_073_741_824.0),
        calm: |parts, _| parts.set(0, 3, Signal::MemUsed, 70.0 * 1_073_741_824.0),
        gap: |parts, _| parts.blind(),
    },
    Case {
        code: "source-stale",
        fire: |parts, _| parts.sources[1].state = SourceState::Stale,
        calm: |parts, _| parts.sources[1].state = SourceState::Live,
        gap: |parts, _| {
            parts.sources[1].state = SourceState::Stale;
            parts.sources[1].last_ok = None;
        },
    },
];

fn condition(parts: &mut Parts, kind: &str, status: Option<bool>, reason: &str) {
    Arc::make_mut(&mut parts.nodes[1].seen).conditions = vec![Condition {
        kind: Name::from(kind),
        status,
        reason: Name::from(reason),
        message: Name::from("the agent says so"),
        since: None,
    }];
}

/// A held device that does nothing.
fn rest(parts: &mut Parts, index: usize, since: Moment) {
    parts.set(0, index, Signal::Util, 0.0);
    parts.set(0, index, Signal::Power, 95.0);
    parts.device(0, index).idle_since = Some(since);
}

fn end_pod(parts: &mut Parts, at: Moment) {
    let mut pod = pod(parts.now, "llm-0", "n1");
    let whole = Arc::make_mut(&mut pod);
    Arc::make_mut(&mut whole.seen).deleted = Some(at);
    parts.nodes[0].pods = Box::from([pod]);
}

/// A watch over a fleet, a minute a step.
pub struct Watch {
    state: CheckStates,
    thresholds: Thresholds,
    pub seconds: u64,
}

pub const STEP: u64 = 60;

impl Watch {
    pub fn new() -> Self {
        Self {
            state: CheckStates::default(),
            thresholds: Thresholds::default(),
            seconds: 0,
        }
    }

    /// All findings after one more step.
    pub fn step(&mut self, change: impl FnOnce(&mut Parts, u64)) -> Vec<Finding> {
        self.seconds += STEP;
        let now = start().plus(Duration::from_secs(self.seconds));
        let mut parts = Parts::well(now);
        change(&mut parts, self.seconds - STEP);
        checks::run(&mut self.state, &parts.fleet(), now, &self.thresholds)
    }

    /// The one finding of a check after one more step.
    pub fn one(&mut self, code: &str, change: impl FnOnce(&mut Parts, u64)) -> Option<Finding> {
        let mut of = self.step(change).into_iter().filter(|finding| {
            &*finding.code == code || code == "xid" && finding.code.starts_with("xid-")
        });
        let first = of.next();
        assert!(of.next().is_none(), "{code}: more than one finding");
        first
    }
}

#[test]
fn every_check_has_its_cases_and_its_rule() {
    let cases: BTreeSet<&str> = CASES.iter().map(|case| case.code).collect();
    let checks: BTreeSet<&str> = checks::codes().collect();
    assert_eq!(
        cases, checks,
        "a check without its three cases, or the reverse"
    );
    let base = Thresholds::default();
    let rules: BTreeSet<&str> = base.codes().collect();
    assert_eq!(
        rules, checks,
        "a check without a rule in alerts.toml, or the reverse"
    );
}

#[test]
fn a_fleet_that_is_well_has_no_findings() {
    let mut watch = Watch::new();
    for _ in 0..90 {
        assert_eq!(watch.step(|_, _| {}), []);
    }
}

#[test]
fn what_is_wrong_fires_after_its_time_and_ends() {
    for case in CASES {
        let mut watch = Watch::new();
        let hold = watch.thresholds.rule(case.code).hold.as_secs();
        let mut found = None;
        for _ in 0..120 {
            found = watch.one(case.code, case.fire);
            if found.is_some() {
                break;
            }
        }
        let found = found.unwrap_or_else(|| panic!("{} never fires", case.code));
        assert!(watch.seconds >= hold, "{}: before its time", case.code);
        assert!(
            watch.seconds - found.since.since(start()).seconds() >= hold,
            "{}",
            case.code
        );
        assert!(
            !found.message.is_empty() && !found.repair.is_empty(),
            "{}",
            case.code
        );
        assert!(
            found.id.starts_with(&*found.code),
            "{}: {}",
            case.code,
            found.id
        );
        let again = watch.one(case.code, case.fire).expect("it stands");
        assert_eq!(
            (&again.id, again.since),
            (&found.id, found.since),
            "{}",
            case.code
        );
        assert_eq!(
            watch.one(case.code, case.calm),
            None,
            "{} does not end",
            case.code
        );
    }
}

#[test]
fn what_only_looks_alike_does_not_fire() {
    for case in CASES {
        let mut watch = Watch::new();
        for _ in 0..120 {
            assert_eq!(watch.one(case.code, case.calm), None, "{}", case.code);
        }
    }
}

#[test]
fn a_gap_begins_nothing() {
    for case in CASES {
        let mut watch = Watch::new();
        for _ in 0..120 {
            assert_eq!(watch.one(case.code, case.gap), None, "{}", case.code);
        }
    }
}

#[test]
fn a_state_that_is_written_and_read_back_says_the_same() {
    for case in CASES {
        let mut watch = Watch::new();
        let found = (0..120).find_map(|_| watch.one(case.code, case.fire));
        assert!(found.is_some(), "{} never fires", case.code);
        let mut read = Watch::new();
        read.seconds = watch.seconds;
        for change in [case.gap, case.gap, case.fire, case.gap] {
            let text = serde_json::to_string(&watch.state).expect("can be written");
            read.state = serde_json::from_str(&text).expect("can be read");
            assert_eq!(read.step(change), watch.step(change), "{}", case.code);
        }
    }
}

#[test]
fn a_gap_ends_nothing_until_patience_does() {
    for case in CASES {
        let mut watch = Watch::new();
        let found = (0..120)
            .find_map(|_| watch.one(case.code, case.fire))
            .unwrap_or_else(|| panic!("{} never fires", case.code));
        for minute in 0..PATIENCE.as_secs() / STEP {
            let still = watch
                .one(case.code, case.gap)
                .unwrap_or_else(|| panic!("{} ended by a gap of {minute} min", case.code));
            assert_eq!((&still.id, still.since), (&found.id, found.since));
        }
        for _ in 0..2 {
            watch.one(case.code, case.gap);
        }
        assert_eq!(
            watch.one(case.code, case.gap),
            None,
            "{} outlives its patience",
            case.code
        );
    }
}

#[test]
fn time_in_a_gap_does_not_count_towards_firing() {
    let mut watch = Watch::new();
    let case = CASES
        .iter()
        .find(|case| case.code == "memory-saturated")
        .expect("a case");
    assert_eq!(watch.one(case.code, case.fire), None);
    for _ in 0..20 {
        assert_eq!(watch.one(case.code, case.gap), None);
    }
    assert_eq!(
        watch.one(case.code, case.fire),
        None,
        "ten minutes in the dark are not evidence"
    );
    assert!((0..12).any(|_| watch.one(case.code, case.fire).is_some()));
}

#[test]
fn a_finding_of_a_rack_replaces_those_of_its_devices() {
    let mut watch = Watch::new();
    let mut found = Vec::new();
    for _ in 0..10 {
        found = watch.step(|parts, _| {
            for index in 0..7 {
                parts.set(index / 4, index % 4, Signal::Temp, 91.0);
            }
        });
    }
    let [rack] = found.as_slice() else {
        panic!("one finding about the rack, not {found:#?}");
    };
    assert_eq!((rack.subject.kind, &*rack.subject.key.name), ("Rack", "r1"));
    assert_eq!(rack.value, Some(7.0));
    assert!(rack.message.contains("91 °C"), "{}", rack.message);
}

#[test]
fn many_of_one_kind_become_one() {
    let mut watch = Watch::new();
    let all = |parts: &mut Parts, _| {
        (0..8).for_each(|index| parts.set(0, index, Signal::ThrottleReasons, 128.0));
    };
    watch.step(all);
    let found = watch.step(all);
    let [brake] = found.as_slice() else {
        panic!("{found:#?}");
    };
    assert_eq!(
        (brake.subject.kind, &*brake.subject.key.name),
        ("Node", "n1")
    );
    assert!(brake.message.starts_with("8 devices"), "{}", brake.message);
    assert_eq!(brake.severity, Severity::Crit);
}

#[test]
fn findings_come_worst_first_with_ids_of_their_own() {
    let mut watch = Watch::new();
    let mess = |parts: &mut Parts, _| {
        parts.set(0, 0, Signal::XidLast, 79.0);
        parts.set(0, 1, Signal::XidLast, 31.0);
        parts.set(0, 2, Signal::RemapPending, 1.0);
        parts.set(0, 4, Signal::MemUsed, 79.9 * 1_073_741_824.0);
        parts.set(1, 1, Signal::Util, 0.9);
        parts.nodes[1].device_allocatable = 5;
        parts.sources[0].state = SourceState::Lost;
    };
    let mut found = Vec::new();
    for _ in 0..15 {
        found = watch.step(mess);
    }
    let ids: BTreeSet<&Name> = found.iter().map(|finding| &finding.id).collect();
    assert_eq!(ids.len(), found.len());
    assert!(found.len() >= 7, "{found:#?}");
    assert!(found.is_sorted_by_key(|finding| finding.severity));
    assert_eq!(&*found[0].code, "xid-79");
    let program = found
        .iter()
        .find(|finding| &*finding.code == "xid-31")
        .expect("31");
    assert_eq!(program.severity, Severity::Info);
    assert!(program.message.contains("nlp/llm-0"), "{}", program.message);
}

#[test]
fn xids_are_events_of_a_sticky_gauge() {
    let mut watch = Watch::new();
    let xid = |code: f64| move |parts: &mut Parts, _: u64| parts.set(0, 3, Signal::XidLast, code);
    let hardware = watch.one("xid", xid(79.0)).expect("79");
    assert_eq!(&*hardware.code, "xid-79");
    assert_eq!(hardware.severity, Severity::Crit);
    // The cleanup that follows an error does not hide it.
    assert_eq!(watch.one("xid", xid(45.0)).expect("still").id, hardware.id);
    // Another code is another finding, with a beginning of its own.
    let next = watch.one("xid", xid(48.0)).expect("48");
    assert_eq!(&*next.code, "xid-48");
    assert!(next.since > hardware.since);
    // A program's fault fades, though the gauge stays.
    assert!(watch.one("xid", xid(13.0)).is_some());
    let last = (0..70)
        .map(|_| watch.one("xid", xid(13.0)))
        .last()
        .expect("steps");
    assert_eq!(last, None);
    // What the user says about a code counts.
    watch.thresholds = Thresholds::default()
        .with("[xid.code.13]\nseverity = \"crit\"\n", "mine.toml")
        .expect("good");
    assert_eq!(
        watch.one("xid", xid(13.0)).map(|found| found.severity),
        Some(Severity::Crit)
    );
}

#[test]
fn an_amd_field_id_is_no_xid() {
    let mut watch = Watch::new();
    let found = watch.one("xid", |parts, _| {
        parts.device(0, 3).vendor = model::fleet::accelerator::Vendor::Amd;
        parts.set(0, 3, Signal::XidLast, 79.0);
    });
    assert_eq!(found, None);
}

#[test]
fn heat_believes_the_device_first() {
    for (values, beyond) in [
        (vec![(Signal::Temp, 70.0), (Signal::TempMargin, -1.0)], true),
        (
            vec![(Signal::Temp, 86.0), (Signal::TempSlowdown, 98.0)],
            false,
        ),
        (vec![(Signal::Temp, 86.0)], true),
        (vec![(Signal::Temp, 80.0)], false),
        // A margin of 0 on a cool device is a field that it does not have.
        (vec![(Signal::Temp, 35.0), (Signal::TempMargin, 0.0)], false),
    ] {
        let mut watch = Watch::new();
        let last = (0..5)
            .map(|_| {
                watch.one("heat", |parts, _| {
                    let device = parts.device(0, 3);
                    for (signal, value) in &values {
                        device.signals = with(&device.signals, *signal, *value);
                    }
                })
            })
            .last()
            .expect("steps");
        assert_eq!(last.is_some(), beyond, "{values:?}");
    }
}

#[test]
fn a_level_ends_at_its_clear_level_only() {
    let mut watch = Watch::new();
    let full = |share: f64| {
        move |parts: &mut Parts, _: u64| {
            parts.set(0, 3, Signal::MemUsed, share * 80.0 * 1_073_741_824.0);
        }
    };
    // In the band from the start: nothing.
    assert!((0..20).all(|_| watch.one("memory-saturated", full(0.97)).is_none()));
    assert!((0..20).any(|_| watch.one("memory-saturated", full(0.99)).is_some()));
    assert!((0..20).all(|_| watch.one("memory-saturated", full(0.96)).is_some()));
    assert_eq!(watch.one("memory-saturated", full(0.94)), None);
    assert_eq!(watch.one("memory-saturated", full(0.97)), None);
}

#[test]
fn a_check_that_is_off_is_silent_and_forgets() {
    let mut watch = Watch::new();
    let fault = |parts: &mut Parts, _: u64| parts.set(0, 3, Signal::RemapFailed, 1.0);
    assert!(watch.one("remap-failed", fault).is_some());
    watch.thresholds = Thresholds::default()
        .with("[remap-failed]\nenabled = false\n", "mine.toml")
        .expect("good");
    assert_eq!(watch.one("remap-failed", fault), None);
}

#[test]
fn a_single_look_does_not_wait() {
    let look = |thresholds: &Thresholds| {
        let mut parts = Parts::well(start());
        parts.set(0, 3, Signal::Temp, 95.0);
        (4..8).for_each(|index| rest(&mut parts, index, start()));
        let found = checks::run(
            &mut CheckStates::default(),
            &parts.fleet(),
            start(),
            thresholds,
        );
        let codes: Vec<String> = found.iter().map(|one| one.code.to_string()).collect();
        (codes, found)
    };
    assert_eq!(look(&Thresholds::default()).0, [] as [&str; 0]);
    let (codes, found) = look(&Thresholds::default().at_once());
    // What is about how long something lasts is not claimed: the console counts the same.
    assert_eq!(codes, ["heat"]);
    assert!(found[0].first_seen, "nothing says since when");
}

#[test]
fn a_lost_table_is_a_finding_and_rights_are_not_a_catastrophe() {
    let mut watch = Watch::new();
    let lose = |parts: &mut Parts, _: u64| parts.lose(Table::Jobs);
    watch.step(lose);
    watch.step(lose);
    // Each step loses it anew, so it has lasted for no time; a loss that lasts does show.
    let found = watch.one("source-lost", |parts, _| {
        let lost = model::fleet::observe::Lost {
            kind: model::fleet::observe::LostKind::Rights,
            since: start(),
            message: String::from("list jobs is forbidden; ask for the role `view`"),
        };
        let lost = model::fleet::TableState::Lost(lost);
        parts.known.insert(Table::Jobs, lost);
    });
    let found = found.expect("lost");
    assert_eq!(found.severity, Severity::Warn);
    assert!(
        found.repair.contains("ask for the role") && !found.message.contains("ask for"),
        "{} {}",
        found.message,
        found.repair
    );
}

#[test]
fn an_outage_of_the_server_is_one_finding_and_missing_rights_are_none() {
    use model::fleet::observe::{Lost, LostKind};
    let lost = |kind: LostKind| Lost {
        kind,
        since: start(),
        message: String::from("connection refused"),
    };
    let mut watch = Watch::new();
    let mut last = Vec::new();
    for _ in 0..4 {
        last = watch.step(|parts, _| {
            for table in Table::ALL {
                let known = model::fleet::TableState::Lost(lost(LostKind::Unreachable));
                parts.known.insert(*table, known);
            }
        });
    }
    let sources: Vec<_> = last
        .iter()
        .filter(|one| one.code.as_str() == "source-lost")
        .collect();
    assert_eq!(sources.len(), 1, "{sources:?}");
    assert_eq!(sources[0].subject.key.name.as_str(), "api");
    assert_eq!(sources[0].since, start());
    assert!(
        sources[0]
            .message
            .starts_with("the cluster does not answer: ")
    );
    let mut watch = Watch::new();
    for _ in 0..4 {
        last = watch.step(|parts, _| {
            for table in Table::ALL {
                let known = model::fleet::TableState::NotVisible(lost(LostKind::Rights));
                parts.known.insert(*table, known);
            }
        });
    }
    assert!(last.is_empty(), "{last:?}");
}

#[test]
fn a_clock_that_goes_back_leaves_no_beginning_in_the_future() {
    let mut watch = Watch::new();
    let fault = |parts: &mut Parts, _: u64| parts.set(0, 3, Signal::RemapFailed, 1.0);
    for _ in 0..30 {
        watch.one("remap-failed", fault);
    }
    watch.seconds = 0;
    let found = watch.one("remap-failed", fault).expect("it stands");
    assert!(found.since <= start().plus(Duration::from_secs(STEP)));
}
