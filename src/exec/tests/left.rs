//! Tests: a finished run that left pods behind or a job stopped is not done.

use super::*;
use crate::history::runs;
use crate::journal::Pages;
use crate::record::{ClusterIdentity, JournalLine, Record, Who};
use model::base::ObjectKey;
use model::plan::{JobName, JobRef};

fn undone_text(records: Vec<Record>) -> Option<String> {
    run_of(plan(vec![evict("a"), evict("b")]), records).unmet()
}

pub(super) fn run_of(plan: Plan, records: Vec<Record>) -> crate::Run {
    let begin = Record::Begin {
        cluster: ClusterIdentity {
            context: "c".into(),
            server: String::new(),
            uid: String::new(),
        },
        who: Who {
            user: "me".into(),
            local: "me".into(),
        },
        reason: String::new(),
        plan: Box::new(plan),
    };
    let lines = std::iter::once(begin)
        .chain(records)
        .map(|record| JournalLine {
            at: Moment::from_seconds(1),
            run: "r".into(),
            record,
        });
    let pages = Pages {
        lines: lines.collect(),
        unreadable: 0,
    };
    runs(&pages).remove(0)
}

fn over(step: u32, how: StepResult) -> Record {
    Record::Finished {
        step,
        how,
        words: String::new(),
    }
}

#[test]
fn remaining_steps_and_pods_are_reported_after_the_run() {
    let end = || Record::End { end: RunEnd::Done };
    let behind = |pods: &[&str], unknown: &str| Record::Behind {
        pods: pods.iter().map(|pod| (*pod).to_owned()).collect(),
        unknown: unknown.to_owned(),
    };
    let done = || vec![over(1, StepResult::Done), over(2, StepResult::Done)];
    let with = |more: Vec<Record>| undone_text(done().into_iter().chain(more).collect());
    assert_eq!(with(vec![]), None, "it is not over");
    assert_eq!(with(vec![end()]), None);
    assert_eq!(with(vec![end(), behind(&[], "")]), None);
    assert_eq!(
        with(vec![end(), behind(&["nlp/x on n1"], "")]).as_deref(),
        Some(
            "1 pod is still on its nodes, most likely created after the plan was made: nlp/x on n1; plan the drain again"
        )
    );
    assert_eq!(
        with(vec![end(), behind(&[], "no answer")]).as_deref(),
        Some("its nodes may not be empty: no answer")
    );
    let waits = Record::NotStarted {
        job: "nlp/x".into(),
        why: "its pods wait for nodes".into(),
    };
    assert_eq!(
        with(vec![end(), waits]).as_deref(),
        Some("nlp/x is not running: its pods wait for nodes")
    );
    let left = vec![over(1, StepResult::Done), over(2, StepResult::Left), end()];
    assert_eq!(undone_text(left).as_deref(), Some("1 step was skipped"));
}

/// The plan's deadline ends a wait even when the wait began late.
#[test]
fn a_deadline_ends_a_wait_that_began_late() {
    let wait = Wait {
        at_most_seconds: Some(600),
        deadline: Some(Moment::from_seconds(1_000)),
        go_on: true,
        ..Wait::new(WaitOrder::Before, Until::Budget)
    };
    assert_eq!(
        wait.limit(Moment::from_seconds(100)),
        Some(Moment::from_seconds(700))
    );
    assert_eq!(
        wait.limit(Moment::from_seconds(900)),
        Some(Moment::from_seconds(1_000))
    );
}

/// A job that a run suspended is listed in `holds` until the run has resumed it.
#[test]
fn a_run_lists_the_jobs_it_keeps_suspended() {
    let job = JobName(ObjectKey::new("nlp", "a"));
    let of = |mut step: Step, verb| {
        step.verb = verb;
        step.job = Some(JobRef {
            name: job.clone(),
            devices: None,
            gang: None,
        });
        step
    };
    let answer = |step| Record::Answer {
        step,
        attempt: 1,
        code: Some(200),
        accepted: Some(true),
        words: String::new(),
    };
    let both = || {
        plan(vec![
            of(suspend("a"), Verb::Suspend),
            of(suspend("a"), Verb::Resume),
        ])
    };
    let held = |plan: Plan, records| run_of(plan, records).suspended_jobs();
    assert_eq!(held(both(), vec![]), [], "nothing was sent");
    assert_eq!(held(both(), vec![answer(1)]), std::slice::from_ref(&job));
    assert_eq!(held(both(), vec![answer(1), answer(2)]), []);
    let for_good = plan(vec![of(suspend("a"), Verb::Suspend)]);
    assert_eq!(held(for_good, vec![answer(1)]), [], "that is its purpose");
}
