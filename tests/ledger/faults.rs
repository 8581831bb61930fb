//! One fault is one finding, with the fault's own age and a repair that fits the state of its node.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ledger::checks::{self, CheckStates};
use model::base::{Moment, Name};
use model::fleet::device::Health;
use model::fleet::finding::{Finding, Severity};
use model::fleet::observe::{Condition, SourceState};
use model::fleet::signal::Signal;
use model::fleet::thresholds::Thresholds;

use crate::checks::Watch;
use crate::parts::{Parts, start};

fn day_ago() -> Moment {
    start().minus(Duration::from_secs(26 * 3600))
}

fn condition(parts: &mut Parts, node: usize, kind: &str, message: &str) {
    let seen = Arc::make_mut(&mut parts.nodes[node].seen);
    seen.conditions.push(Condition {
        kind: Name::from(kind),
        status: Some(true),
        reason: Name::from("Found"),
        message: Name::from(message),
        since: Some(day_ago()),
    });
}

/// A double-bit ECC error on `n2/gpu5`, as its exporter, a node agent and the device plugin each see it.
fn broken(change: impl FnOnce(&mut Parts)) -> Vec<Finding> {
    let mut parts = Parts::well(start());
    parts.set(1, 5, Signal::XidLast, 48.0);
    parts.set(1, 5, Signal::RemapPending, 1.0);
    condition(&mut parts, 1, "GpuXidProblem", "XID 48 on GPU 5");
    parts.nodes[1].device_allocatable = 7;
    change(&mut parts);
    let thresholds = Thresholds::default().at_once();
    checks::run(
        &mut CheckStates::default(),
        &parts.fleet(),
        start(),
        &thresholds,
    )
}

#[test]
fn one_fault_is_one_finding_with_its_own_age() {
    let found = broken(|_| {});
    let [one] = found.as_slice() else {
        panic!("{found:#?}");
    };
    assert_eq!((&*one.code, one.severity), ("xid-48", Severity::Crit));
    for part in [
        "XID 48: double-bit (uncorrectable) ECC error",
        "row remap pending",
        "condition GpuXidProblem: XID 48 on GPU 5",
        "7 of 8 devices allocatable",
    ] {
        assert!(one.message.contains(part), "{part}: {}", one.message);
    }
    assert_eq!((one.since, one.first_seen), (day_ago(), false));
    let codes = one.also.iter().map(|id| id.split(':').next().unwrap_or(id));
    let codes: BTreeSet<&str> = codes.collect();
    assert!(
        codes.contains("node-condition") && codes.len() == 3,
        "{:?}",
        one.also
    );
}

#[test]
fn the_repair_fits_the_state_of_the_node() {
    let repair = |change: fn(&mut Parts)| broken(change)[0].repair.clone();
    assert!(
        repair(|_| {})
            .starts_with("Drain the node, then reset the GPU: `nvidia-smi --gpu-reset -i 5`; "),
        "{}",
        repair(|_| {})
    );
    let cordoned = repair(|parts| {
        Arc::make_mut(&mut parts.nodes[1].seen).unschedulable = true;
        parts.nodes[1].pods = Box::from([]);
    });
    assert!(
        cordoned
            .starts_with("Reset the GPU: `nvidia-smi --gpu-reset -i 5`, then uncordon the node; "),
        "{cordoned}"
    );
    assert!(!cordoned.to_lowercase().contains("drain"), "{cordoned}");
}

#[test]
fn what_a_broken_device_causes_has_the_repair_of_that_device() {
    // A GPU of the gang on n1 has fallen off the bus; its ranks wait for it, and it lags behind them.
    let gang = |fault: bool, change: fn(&mut Parts)| -> Vec<Finding> {
        let mut watch = Watch::new();
        let mut found = Vec::new();
        for _ in 0..60 {
            found = watch.step(|parts, _| {
                if fault {
                    parts.set(0, 3, Signal::XidLast, 79.0);
                    parts.device(0, 3).health = Health::Fault(Name::from("XID 79"));
                }
                change(parts);
            });
        }
        found
    };
    let repair = |found: &[Finding], code: &str| -> String {
        let one = found.iter().find(|one| one.code.as_str() == code);
        one.unwrap_or_else(|| panic!("no {code}: {found:#?}"))
            .repair
            .clone()
    };
    type Change = fn(&mut Parts);
    let stalled: Change =
        |parts| (0..7).for_each(|index| parts.set(0, index, Signal::SmActive, 0.04));
    let lags: Change = |parts| parts.set(0, 3, Signal::Util, 0.3);
    for (code, change) in [("gang-stalled", stalled), ("straggler", lags)] {
        let found = gang(true, change);
        let own = repair(&found, code);
        assert_eq!(own, repair(&found, "xid-79"), "{code}");
        assert!(own.starts_with("Drain the node"), "{own}");
        assert!(
            !repair(&gang(false, change), code).starts_with("Drain"),
            "{code}"
        );
    }
}

#[test]
fn a_straggler_names_its_job_and_what_slows_its_device() {
    let found = |change: fn(&mut Parts)| {
        let mut watch = Watch::new();
        let steps = (0..60).map(|_| {
            watch.step(|parts, _| {
                parts.set(0, 3, Signal::Util, 0.3);
                change(parts);
            })
        });
        steps.last().expect("a step")
    };
    let of = |all: &[Finding], code: &str| {
        let mut all = all.iter().filter(|one| one.code.as_str() == code);
        let one = all.next().unwrap_or_else(|| panic!("no {code}"));
        (one.message.clone(), one.repair.clone())
    };
    let (message, repair) = of(&found(|_| ()), "straggler");
    assert!(message.starts_with("its utilization is "), "{message}");
    assert!(message.contains(" waits for its pod "), "{message}");
    assert!(!message.contains("cause"), "{message}");
    assert!(repair.contains("cordon"), "{repair}");
    // In the power brake, which comes before its heat.
    let braked = found(|parts| {
        parts.set(0, 3, Signal::ThrottleReasons, f64::from(0x88));
        parts.set(0, 3, Signal::Temp, 90.0);
    });
    let (message, repair) = of(&braked, "straggler");
    assert!(
        message.ends_with("; likely cause: HW power brake slowdown"),
        "{message}"
    );
    assert_eq!(repair, of(&braked, "power-brake").1);
    // What slows another device of the gang is no cause.
    let other = found(|parts| parts.set(0, 4, Signal::ThrottleReasons, f64::from(0x88)));
    assert!(!of(&other, "straggler").0.contains("cause"));
}

#[test]
fn a_node_condition_that_names_an_xid_has_the_repair_of_that_xid() {
    // Without readings, only the agent on the node tells of it.
    let mut parts = Parts::well(start());
    condition(&mut parts, 1, "GpuXidProblem", "XID 79 on GPU 5");
    let thresholds = Thresholds::default().at_once();
    let found = checks::run(
        &mut CheckStates::default(),
        &parts.fleet(),
        start(),
        &thresholds,
    );
    let repair = &found[0].repair.to_lowercase();
    let table = &thresholds.xid.get(79).repair.to_lowercase();
    assert!(
        repair.starts_with(table.split("; ").next().unwrap_or(table)),
        "{repair}: {table}"
    );
}

#[test]
fn what_another_fault_explains_is_not_swallowed() {
    // Two devices are missing and one is broken; another XID; a link.
    let found = broken(|parts| {
        parts.nodes[1].device_allocatable = 6;
        condition(parts, 1, "GpuXidSeen", "XID 79 on GPU 1");
        condition(parts, 1, "InfinibandLinkDown", "port 1");
        parts.nodes[0].device_allocatable = 7;
    });
    let mut codes: Vec<String> = found
        .iter()
        .map(|one| format!("{} {}", one.code, one.subject.key.name))
        .collect();
    codes.sort();
    assert_eq!(
        codes,
        [
            "allocatable-below-capacity n1",
            "allocatable-below-capacity n2",
            "node-condition n2",
            "node-condition n2",
            "xid-48 n2/gpu5",
        ]
    );
}

#[test]
fn an_exporter_that_never_responded_fails_since_its_node_failed_or_since_unknown() {
    let message = "503: no way to the pod; check its port (refused)";
    let fail = |parts: &mut Parts| {
        let source = &mut parts.sources[1];
        (source.state, source.last_ok) = (SourceState::Lost, None);
        source.failing_since = Some(parts.now);
        source.message = String::from(message);
        source.node = Some(parts.nodes[1].name().clone());
    };
    let thresholds = Thresholds::default().at_once();
    let mut parts = Parts::well(start());
    fail(&mut parts);
    let found = checks::run(
        &mut CheckStates::default(),
        &parts.fleet(),
        start(),
        &thresholds,
    );
    let found = found.iter().find(|one| one.code.as_str() == "source-lost");
    let found = found.expect("it fails");
    assert!(found.first_seen, "{found:?}");
    assert!(
        found.message.contains("no way to the pod (refused)"),
        "{found:?}"
    );
    assert_eq!(found.repair, "check its port");

    let mut parts = Parts::well(start());
    fail(&mut parts);
    parts.nodes[1].ready = Some(false);
    parts.nodes[1].ready_since = Some(start().minus(std::time::Duration::from_secs(120)));
    let fleet = parts.fleet();
    let fault = fleet.source_fault(&fleet.sources[1], start());
    assert!(
        fault.cause.contains("is not ready for 2m; 503"),
        "{fault:?}"
    );
    assert!(fault.repair.contains("its node"), "{fault:?}");
}
