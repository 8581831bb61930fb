//! Jobs that a run holds suspended: what is found once nothing is left that would resume them.

use std::time::Duration;

use model::fleet::finding::Severity;

use crate::checks::Watch;
use crate::parts::{Parts, held, open_run, start};

/// Any console sees that a run of another machine did not resume in time what it had suspended.
#[test]
fn a_hold_that_should_have_ended_is_found_wherever_the_run_was_carried_out() {
    let mut watch = Watch::new();
    let until = start().plus(Duration::from_secs(90));
    let hold = |parts: &mut Parts, _| parts.jobs.push(held(Some(until)));
    assert_eq!(
        watch.one("run-interrupted", hold),
        None,
        "its time is not over"
    );
    let found = watch
        .one("run-interrupted", hold)
        .expect("its time is over");
    assert_eq!((found.severity, found.since), (Severity::Crit, start()));
    assert_eq!(
        (found.subject.kind, &*found.subject.key.name),
        ("Run", "r1")
    );
    assert_eq!(
        found.message,
        "1 job is suspended: ana's run was to resume it by 2026-11-21T06:01:30Z"
    );
    assert_eq!(found.repair, "undo it: `stokehold plan undo r1 --apply`");
    // The journal of this machine knows more.
    let found = watch.one("run-interrupted", |parts, _| {
        parts.open_runs = vec![open_run()];
        parts.jobs.push(held(Some(until)));
    });
    let found = found.expect("the same one");
    assert_eq!(
        found.message,
        "1 job is suspended: ana's run was broken off"
    );
    assert!(
        found.repair.contains("plan continue r1 --apply"),
        "{}",
        found.repair
    );
}
