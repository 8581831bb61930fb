//! What goes wrong while a plan runs: each stops or waits as designed, and the journal tells the truth.

use std::time::Duration;

use exec::{RunEnd, StepResult};
use http::Method;
use model::plan::{Intent, Mutation, Object, Plan, Step, Until, Verb, Wait, WaitOrder};
use serde_json::json;

use super::*;

fn failed(end: Result<RunEnd, RunError>) -> (u32, String) {
    match end {
        Ok(RunEnd::Failed { step, words }) => (step, words),
        other => panic!("{other:?} is no failure"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_plan_is_executed_with_events_and_journal_entries() {
    let service = tiny();
    let operator = Operator::new(&service);
    let plan = jobs(&service, &["a", "b"]).await;
    let (run, end) = operator.carry_out(plan).await;
    assert_eq!(end.expect("runs"), RunEnd::Done);
    assert!(is_suspended(&service, "a").await && is_suspended(&service, "b").await);
    let past = operator.runs().pop().expect("a run");
    assert_eq!((&past.name, &past.end), (&run, &Some(RunEnd::Done)));
    assert_eq!(
        (past.reason.as_str(), past.who.local.as_str()),
        ("a test", "tester")
    );
    assert_eq!(past.who.user, "sim-admin");
    assert!(
        past.steps
            .iter()
            .all(|step| step.over == Some(StepResult::Done))
    );
    let events = service.get("/api/v1/namespaces/nlp/events").await;
    let reasons = events["items"]
        .as_array()
        .expect("events")
        .iter()
        .filter(|event| {
            event["reason"] == "Stokehold"
                && event["message"]
                    .as_str()
                    .is_some_and(|m| m.contains("a test"))
        });
    assert_eq!(reasons.count(), 2);
    let managers = service.get("/apis/batch/v1/namespaces/nlp/jobs/a").await;
    assert_eq!(managers["spec"]["suspend"], true);
    let asked = service.seen.lock().unwrap();
    assert!(asked.iter().any(
        |(method, path, _)| method == Method::PATCH && path.contains("fieldManager=stokehold")
    ));
}

#[tokio::test(start_paused = true)]
async fn a_403_half_way_stops_and_what_was_done_can_be_taken_back() {
    let service = tiny();
    let operator = Operator::new(&service);
    let plan = jobs(&service, &["a", "b", "c"]).await;
    service.rule(|method, path| match (method, path.contains("/jobs/b")) {
        (&Method::PATCH, true) => Fate::Answer(
            403,
            json!({"kind": "Status", "message": "jobs.batch \"b\" is forbidden"}),
        ),
        _ => Fate::Pass,
    });
    let (run, end) = operator.carry_out(plan).await;
    let (step, words) = failed(end);
    assert_eq!(step, 2);
    assert!(words.contains("forbidden"), "{words}");
    assert!(is_suspended(&service, "a").await);
    assert!(!is_suspended(&service, "b").await && !is_suspended(&service, "c").await);
    assert!(
        operator.resume_run(&run).await.is_err(),
        "a failed run is not gone on with"
    );
    let past = operator.runs().pop().expect("a run");
    let undo = past
        .undo(Moment::from_seconds(0))
        .expect("can be taken back");
    assert_eq!(undo.steps.len(), 1);
    service.rule(|_, _| Fate::Pass);
    let (_, end) = operator.carry_out(undo).await;
    assert_eq!(end.expect("runs"), RunEnd::Done);
    assert!(!is_suspended(&service, "a").await);
}

#[tokio::test(start_paused = true)]
async fn conflicts_and_a_busy_server_are_waited_out() {
    let service = tiny();
    let operator = Operator::new(&service);
    let plan = jobs(&service, &["a"]).await;
    let mut left = vec![
        Fate::Answer(
            429,
            json!({"kind": "Status", "message": "too many requests"}),
        ),
        Fate::Answer(
            409,
            json!({"kind": "Status", "reason": "Conflict", "message": "modified"}),
        ),
        Fate::Answer(
            409,
            json!({"kind": "Status", "reason": "Conflict", "message": "modified"}),
        ),
    ];
    service.rule(move |method, _| {
        if method == Method::PATCH {
            left.pop().unwrap_or(Fate::Pass)
        } else {
            Fate::Pass
        }
    });
    let (_, end) = operator.carry_out(plan).await;
    assert_eq!(end.expect("runs"), RunEnd::Done);
    assert_eq!(service.writes().len(), 1, "{:?}", service.writes());
}

#[tokio::test(start_paused = true)]
async fn an_object_that_has_gone_stops_the_run() {
    let service = tiny();
    let operator = Operator::new(&service);
    let plan = jobs(&service, &["a", "b"]).await;
    let path = "/apis/batch/v1/namespaces/nlp/jobs/b";
    service
        .send(
            Method::DELETE,
            path,
            &json!({"propagationPolicy": "Background"}),
        )
        .await;
    let (_, end) = operator.carry_out(plan.clone()).await;
    let (step, words) = failed(end);
    assert!(
        step == 2 && words.contains("no longer exists"),
        "{step} {words}"
    );
    // Made again under the same name, it is another job.
    let again = jobs(&service, &["b"]).await;
    let mut old = plan;
    old.steps.remove(0);
    let (_, end) = operator.carry_out(old).await;
    assert!(failed(end).1.contains("another object"));
    assert!(!is_suspended(&service, "b").await);
    drop(again);
}

#[tokio::test(start_paused = true)]
async fn a_fleet_that_has_changed_since_stops_the_run_where_it_has() {
    let service = tiny();
    let operator = Operator::new(&service);
    let plan = jobs(&service, &["a", "b", "c"]).await;
    // Somebody suspends the second while the first is being done; he has his own reasons.
    let other = service.clone();
    let stops = json!({"spec": {"suspend": true}});
    let path = "/apis/batch/v1/namespaces/nlp/jobs/b";
    let (begun, mut seen) = watch::channel(false);
    service.rule(move |method, path| {
        if method == Method::PATCH && path.contains("/jobs/a") {
            begun.send_replace(true);
        }
        Fate::Pass
    });
    let meddler = async move {
        seen.wait_for(|begun| *begun).await.expect("it begins");
        assert_eq!(other.send(Method::PATCH, path, &stops).await.0, 200);
    };
    let ((run, end), ()) = tokio::join!(operator.carry_out(plan), meddler);
    let (step, words) = failed(end);
    assert_eq!(step, 2, "{words}");
    assert!(
        words.contains("has changed since the plan was made"),
        "{words}"
    );
    assert!(is_suspended(&service, "a").await && !is_suspended(&service, "c").await);
    let past = operator.runs().pop().expect("a run");
    let overs: Vec<Option<StepResult>> = past.steps.iter().map(|step| step.over).collect();
    assert_eq!(
        overs,
        [Some(StepResult::Done), Some(StepResult::Failed), None]
    );
    assert_eq!(past.name, run);
    // What is taken back is what this run did, and not what the other did.
    let undo = past
        .undo(Moment::from_seconds(0))
        .expect("can be taken back");
    let (_, end) = operator.carry_out(undo).await;
    assert_eq!(end.expect("runs"), RunEnd::Done);
    assert!(!is_suspended(&service, "a").await && is_suspended(&service, "b").await);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_dies_and_comes_back_is_waited_for_and_nothing_is_done_twice() {
    for carried_out in [false, true] {
        let service = tiny();
        let operator = Operator::at(&service, stage::ticking());
        let plan = jobs(&service, &["a", "b"]).await;
        let mut lost = 0;
        service.rule(move |method, path| {
            // It dies at the first write, and for two more requests nobody answers.
            let begins = method == Method::PATCH && path.contains("/jobs/a") && lost == 0;
            if begins || (1..3).contains(&lost) {
                lost += 1;
                return Fate::Lost {
                    carried_out: carried_out && begins,
                };
            }
            Fate::Pass
        });
        let (_, end) = operator.carry_out(plan).await;
        assert_eq!(end.expect("runs"), RunEnd::Done);
        assert_eq!(service.writes().len(), 2, "{:?}", service.writes());
        assert!(is_suspended(&service, "a").await && is_suspended(&service, "b").await);
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_concurrent_operators_one_fails_with_a_reason() {
    let service = tiny();
    let (first, second) = (Operator::new(&service), Operator::new(&service));
    for name in ["a", "b", "c", "d", "e"] {
        let plan = jobs(&service, &[name]).await;
        let ((_, one), (_, other)) =
            tokio::join!(first.carry_out(plan.clone()), second.carry_out(plan));
        let ends = [one.expect("runs"), other.expect("runs")];
        let won = ends.iter().filter(|end| **end == RunEnd::Done).count();
        assert_eq!(won, 1, "{ends:?}");
        let is_reported = ends.iter().any(|end| {
            matches!(end, RunEnd::Failed { words, .. } if words.contains("/spec/suspend is true and was false"))
        });
        assert!(is_reported, "{ends:?}");
        assert!(is_suspended(&service, name).await);
    }
    assert_eq!(service.writes().len(), 5);
}

fn evict(name: &str) -> Step {
    let pod = Object::new("", "v1", "pods", "Pod", name)
        .within("nlp")
        .with_uid(&format!("uid-nlp-{name}"));
    let mut step = Step::new(
        Verb::Evict,
        pod,
        Mutation::Evict {
            grace_seconds: Some(0),
        },
    );
    step.waits.push(Wait {
        at_most_seconds: Some(60),
        ..Wait::new(WaitOrder::After, Until::Gone)
    });
    step
}

fn evictions(names: &[&str]) -> Plan {
    let mut plan = Plan::new(
        "drain gpu-a",
        Intent::Drain {
            nodes: vec![Name::new("gpu-a")],
            deadline: None,
        },
        Moment::from_seconds(0),
    );
    plan.steps = names.iter().map(|name| evict(name)).collect();
    plan
}

#[tokio::test(start_paused = true)]
async fn a_blocked_eviction_waits_while_others_go_on() {
    let service = tiny();
    let operator = Operator::new(&service);
    let mut plan = evictions(&["serve-0", "serve-1"]);
    let other = jobs(&service, &["after"]).await;
    plan.steps.extend(other.steps);
    let budget = "/apis/policy/v1/namespaces/nlp/poddisruptionbudgets/serve/status";
    let healthy = |n: u32| json!({"status": {"currentHealthy": n, "disruptionsAllowed": n.saturating_sub(2)}});
    let helper = service.clone();
    let controller = async move {
        // The budget has one to give. Once it is spent, the last step goes on; then a new pod is healthy.
        helper.send(Method::PATCH, budget, &healthy(3)).await;
        loop {
            tokio::time::sleep(Duration::from_millis(50)).await;
            if is_suspended(&helper, "after").await {
                break;
            }
        }
        assert_ne!(
            helper.get("/api/v1/namespaces/nlp/pods/serve-1").await["kind"],
            "Status",
            "is still there"
        );
        helper.send(Method::PATCH, budget, &healthy(3)).await;
    };
    let ((_, end), ()) = tokio::join!(operator.carry_out(plan), controller);
    assert_eq!(end.expect("runs"), RunEnd::Done);
    let writes = service.writes();
    assert_eq!(writes.len(), 3, "{writes:?}");
    assert!(writes[2].contains("serve-1/eviction"), "{writes:?}");
    let refused = service
        .seen
        .lock()
        .unwrap()
        .iter()
        .filter(|(_, _, code)| *code == 429)
        .count();
    assert!(refused >= 1, "the budget has refused");
}

#[tokio::test(start_paused = true)]
async fn a_journal_that_cannot_be_written_sends_nothing() {
    let service = tiny();
    let operator = Operator::new(&service);
    let plan = jobs(&service, &["a"]).await;
    std::fs::create_dir_all(operator.folder.path().join("journal.jsonl"))
        .expect("a folder in its place");
    let (_, end) = operator.carry_out(plan).await;
    let error = end.expect_err("no journal, no act").to_string();
    assert!(error.contains("journal_dir"), "{error}");
    assert!(service.writes().is_empty() && !is_suspended(&service, "a").await);
}

#[tokio::test(start_paused = true)]
async fn a_stop_comes_after_the_step_under_way_and_the_run_goes_on_later() {
    let service = tiny();
    let operator = Operator::new(&service);
    let plan = jobs(&service, &["a", "b", "c"]).await;
    let approved = operator.approve(plan);
    let (stop, stopped) = watch::channel(false);
    service.rule(move |method, path| {
        if method == Method::PATCH && path.contains("/jobs/b") {
            stop.send_replace(true);
        }
        Fate::Pass
    });
    let end = operator
        .context(stopped, async |context| {
            context.carry_out(&approved, "r1").await
        })
        .await;
    assert_eq!(end.expect("runs"), RunEnd::Stopped);
    assert!(is_suspended(&service, "b").await && !is_suspended(&service, "c").await);
    assert_eq!(
        operator.resume_run("r1").await.expect("goes on"),
        RunEnd::Done
    );
    assert!(is_suspended(&service, "c").await);
    assert_eq!(service.writes().len(), 3);
    let over = operator
        .resume_run("r1")
        .await
        .expect_err("nothing is left");
    assert!(over.to_string().contains("nothing is left"), "{over}");
}
