//! Jobs that a run holds suspended: what is found once nothing is left that would resume them.

use std::time::Duration;

use model::base::Name;
use model::fleet::finding::Severity;
use model::fleet::job::JobKey;
use model::fleet::run_hold::{OpenRun, RunHold};

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
        "nlp/held is suspended: ana's run should have resumed it by 2026-11-21T06:01:30Z"
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
        "nlp/held is suspended: ana's run was interrupted"
    );
    assert!(
        found.repair.contains("plan continue r1 --apply"),
        "{}",
        found.repair
    );
}

/// What a job states is the truth; of a job that can state nothing, the latest run has suspended it.
#[test]
fn a_job_is_held_by_the_run_that_it_states() {
    let run = |name: &str, minute: u64| OpenRun {
        run: Name::new(name),
        since: start().plus(Duration::from_secs(60 * minute)),
        ..open_run()
    };
    let runs = [run("r0", 1), run("r1", 2), run("r2", 3)];
    let job = held(Some(start()));
    let by_kind = |kind: &str, stated: Option<&RunHold>| {
        let id = JobKey {
            kind: Name::new(kind),
            ..job.id.clone()
        };
        let run = OpenRun::holder(&runs, &id, stated);
        run.map(|run| run.run.to_string())
    };
    let by = |stated: Option<&RunHold>| by_kind("Job", stated);
    assert_eq!(by(job.held.as_deref()).as_deref(), Some("r1"));
    assert_eq!(by(None), None, "somebody else has suspended it since");
    let by_commands = by_kind("VolcanoJob", None);
    assert_eq!(by_commands.as_deref(), Some("r2"), "it can state nothing");
    let elsewhere = RunHold {
        run: Name::new("r9"),
        ..(**job.held.as_ref().unwrap()).clone()
    };
    assert_eq!(by(Some(&elsewhere)), None, "a run of another machine");
}
