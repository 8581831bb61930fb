//! Plans as documents: to JSON and back, against the schema, and the errors of malformed ones.

use crate::cost::{BudgetChange, BudgetUnit, PeriodEnd};
use serde_json::{Value, json};

use super::*;

/// A plan in which every kind of mutation, test, wait and intent occurs once.
fn full() -> Plan {
    let at = Moment::parse("2026-11-21T06:40:00Z").expect("a time");
    let job = JobName(ObjectKey::new("nlp", "train"));
    let object = Object::new("batch", "v1", "jobs", "Job", "train")
        .within("nlp")
        .with_uid("u-1");
    let loss = Loss {
        device_seconds: Some(5280),
        micro_usd: Some(51_000_000),
        by_list: false,
        since: Some(at),
    };
    let mutations = [
        (Verb::Suspend, Mutation::Suspend { value: true }),
        (Verb::Suspend, Mutation::WorkloadActive { value: false }),
        (Verb::Reprioritise, Mutation::WorkloadPriority { value: -7 }),
        (
            Verb::Reprioritise,
            Mutation::KueuePriorityClass {
                name: "high".into(),
            },
        ),
        (
            Verb::Hold,
            Mutation::StopPolicy {
                value: StopPolicy::HoldAndDrain,
            },
        ),
        (
            Verb::Hold,
            Mutation::VolcanoCommand {
                action: VolcanoAction::CloseQueue,
            },
        ),
        (
            Verb::Reprioritise,
            Mutation::VolcanoPriorityClass {
                name: "high".into(),
            },
        ),
        (Verb::Scale, Mutation::VolcanoQueueWeight { value: 3 }),
        (
            Verb::Reprioritise,
            Mutation::KaiPriorityClass {
                name: "train".into(),
            },
        ),
        (
            Verb::Evict,
            Mutation::Evict {
                grace_seconds: Some(30),
            },
        ),
        (
            Verb::Cordon,
            Mutation::Cordon {
                by: "ana".into(),
                why: "XID 79".into(),
            },
        ),
        (Verb::Uncordon, Mutation::Uncordon),
        (
            Verb::Taint,
            Mutation::Taint {
                key: "k".into(),
                value: String::new(),
                effect: "NoExecute".into(),
            },
        ),
        (
            Verb::Untaint,
            Mutation::Untaint {
                key: "k".into(),
                effect: "NoExecute".into(),
            },
        ),
        (Verb::Admit, Mutation::Ungate { gate: "g".into() }),
        (Verb::Scale, Mutation::Scale { replicas: 0 }),
        (
            Verb::Mark,
            Mutation::Annotate {
                key: "stokehold.dev/x".into(),
                value: None,
            },
        ),
    ];
    let mut plan = Plan::new(
        "hold nlp/train",
        Intent::Hold {
            target: "nlp/train".into(),
        },
        at,
    );
    plan.revision = Some(88_412);
    for (verb, mutation) in mutations {
        plan.steps.push(Step::new(verb, object.clone(), mutation));
    }
    let fact = |test| Fact {
        object: object.clone(),
        test,
    };
    let first = &mut plan.steps[0];
    first.job = Some(JobRef {
        name: job.clone(),
        devices: Some(8),
        gang: Some(4),
    });
    first.guards = vec![
        fact(Test::Exists),
        fact(Test::Is {
            path: "/spec/suspend".into(),
            value: json!(false),
        }),
        fact(Test::Absent {
            path: "/metadata/deletionTimestamp".into(),
        }),
        fact(Test::Version {
            resource_version: "17".into(),
        }),
    ];
    let untils = [
        Until::Checkpoint { after: at },
        Until::Budget,
        Until::Gone,
        Until::Condition {
            name: "Suspended".into(),
            status: "True".into(),
        },
        Until::Is {
            path: "/status/active".into(),
            value: json!(0),
        },
        Until::Time { at },
        Until::Elapsed { seconds: 120 },
    ];
    first.waits = untils
        .into_iter()
        .map(|until| Wait {
            at_most_seconds: Some(600),
            ..Wait::new(WaitOrder::After, until)
        })
        .collect();
    first.side_effects = SideEffects {
        interrupts: true,
        budgets: Budgets::Ignored,
        timer_reset: true,
        loss: Some(loss.clone()),
        gang_broken: Some(4),
        overwritten_by: Some("somebody".into()),
        notes: vec!["a note".into()],
    };
    plan.steps[1].needs = vec![1];
    plan.reads = plan.steps[0].guards.clone();
    plan.effect = PlanEffect::Forecast(Forecast {
        contested: vec![JobName(ObjectKey::new("ml", "b"))],
        starts: vec![StartChange {
            job: job.clone(),
            devices: 8,
            before: None,
            after: Some(at),
        }],
        displaced: vec![Displaced {
            job,
            team: Name::default(),
            priority: None,
            devices: 8,
            loss,
            back: None,
            back_p10: None,
            back_p90: None,
        }],
        pools: vec![PoolChange {
            pool: Name::new("h100"),
            devices: 64,
            allocated_before: 60,
            allocated_after: 52,
        }],
        lost_device_seconds: None,
        lost_micro_usd: Some(1),
        burn_change_micro_usd_per_hour: Some(-3),
        budgets: vec![BudgetChange {
            name: Name::new("research"),
            period: "November".to_owned(),
            unit: BudgetUnit::Usd,
            amount: 40_000.0,
            change: Some(1_200.5),
            forecast_before: Some(PeriodEnd {
                low: 38_000.0,
                mid: 39_000.0,
                high: 41_000.0,
            }),
            forecast_after: None,
            reaches_percent: Some(100),
            stays_below_percent: None,
        }],
        spending: None,
    });
    plan.reasons = vec!["requested".into()];
    plan.alternatives = vec![Alternative {
        sentence: "wait".into(),
        command: Some("plan resume nlp/train".into()),
    }];
    plan.warnings = vec!["a budget allows nothing".into()];
    plan.checks = vec![PlanCheck {
        name: "rights".into(),
        outcome: Outcome::NotCheckableYet,
        sentence: String::new(),
    }];
    plan.undo = Undo {
        possible: true,
        notes: vec!["placement".into()],
    };
    plan
}

fn intents() -> Vec<Intent> {
    let job = JobName(ObjectKey::new("nlp", "train"));
    let nodes = vec![Name::new("a"), Name::new("b")];
    vec![
        Intent::Drain {
            nodes: nodes.clone(),
            deadline: Moment::parse("2026-11-21T07:00:00Z"),
        },
        Intent::Cordon {
            nodes: nodes.clone(),
            reason: "hot".into(),
        },
        Intent::Uncordon { nodes },
        Intent::Preempt { job: job.clone() },
        Intent::Admit {
            job: job.clone(),
            preempt: true,
        },
        Intent::Reprioritise {
            job: job.clone(),
            priority: "100".into(),
        },
        Intent::Resume {
            target: "nlp".into(),
        },
        Intent::Requeue { job },
        Intent::Evict {
            pod: "prod/chat-0".into(),
        },
        Intent::Scale {
            target: "Deployment/prod/chat".into(),
            replicas: 5,
        },
        Intent::Rebalance { pool: None },
        Intent::Undo { run: "r1".into() },
    ]
}

fn faults(document: &Value) -> Vec<String> {
    let schema = schema();
    let validator = jsonschema::draft202012::new(&schema).expect("is a schema");
    validator
        .iter_errors(document)
        .map(|error| format!("{} at {}", error, error.instance_path()))
        .collect()
}

#[test]
fn a_plan_survives_json_and_keeps_to_its_schema() {
    let mut all = vec![full()];
    for intent in intents() {
        let mut plan = full();
        plan.intent = intent;
        plan.effect = PlanEffect::Unknown {
            why: "the engine is not asked".into(),
        };
        all.push(plan);
    }
    for plan in all {
        let document = serde_json::to_value(&plan).expect("serializes");
        assert_eq!(faults(&document), [""; 0], "{:?}", plan.intent);
        let back: Plan = serde_json::from_value(document).expect("reads back");
        assert_eq!(back, plan);
        assert_eq!(plan.validate(), Ok(()));
    }
}

#[test]
fn the_schema_refuses_what_the_reader_refuses() {
    let good = serde_json::to_value(full()).expect("serializes");
    let broken: [(&str, Value); 9] = [
        ("/version", json!("1")),
        ("/computed_at", json!(17)),
        ("/intent", json!({"action": "explode"})),
        (
            "/intent",
            json!({"action": "preempt", "job": "no-namespace"}),
        ),
        ("/steps/0/verb", json!("delete")),
        ("/steps/0/lever", json!({"kind": "suspend"})),
        ("/steps/0/object/place", json!({"group": "batch"})),
        ("/steps/0/needs", json!([-1])),
        ("/effect", json!({"state": "none"})),
    ];
    for (path, value) in broken {
        let mut document = good.clone();
        *document.pointer_mut(path).expect("is there") = value.clone();
        assert!(!faults(&document).is_empty(), "schema: {path} {value}");
        assert!(
            serde_json::from_value::<Plan>(document).is_err(),
            "reader: {path} {value}"
        );
    }
    let mut more = good.clone();
    more["steps"][0]["force"] = json!(true);
    assert!(!faults(&more).is_empty() && serde_json::from_value::<Plan>(more).is_err());
    // Every key that is written is required: a scheme that accepts anything checks nothing.
    for key in good.as_object().expect("an object").keys() {
        let mut less = good.clone();
        less.as_object_mut().expect("an object").remove(key);
        assert!(!faults(&less).is_empty(), "without {key}");
    }
}

#[test]
fn an_order_that_cannot_be_is_refused() {
    let mut plan = full();
    plan.steps[0].needs = vec![1];
    assert!(plan.validate().is_err_and(|fault| fault.contains("step 1")));
    plan.steps[0].needs = vec![0];
    assert!(plan.validate().is_err());
    plan.steps[0].needs = Vec::new();
    plan.version = 9;
    assert!(
        plan.validate()
            .is_err_and(|fault| fault.contains("version 9"))
    );
}

#[test]
fn what_evicts_running_work_must_be_typed() {
    let mut plan = full();
    assert!(plan.needs_typed_name(), "its step interrupts");
    plan.steps[0].side_effects.interrupts = false;
    assert!(plan.needs_typed_name(), "the scheduler evicts a job for it");
    plan.effect = PlanEffect::Forecast(Forecast::default());
    assert!(!plan.needs_typed_name(), "nothing that runs is evicted");
    plan.steps[4].side_effects.interrupts = true;
    assert!(plan.needs_typed_name(), "a whole queue");
    assert_eq!(plan.typed("prod"), "prod/train");
    plan.intent = Intent::Cordon {
        nodes: vec![Name::new("a")],
        reason: String::new(),
    };
    assert_eq!(plan.typed("prod"), "prod/a");
    assert_eq!(plan.steps[0].to_string(), "suspend Job nlp/train");
}

/// A job that a plan keeps waiting resumes with a step of its own.
#[test]
fn a_job_that_a_plan_keeps_waiting_goes_on_with_a_step() {
    let mut plan = full();
    let job = plan.steps[0].job.clone().expect("a job's step");
    plan.steps.truncate(2);
    plan.steps[0].verb = Verb::Suspend;
    plan.steps[1].verb = Verb::Resume;
    plan.steps[1].job = Some(job.clone());
    assert_eq!(plan.goes_on_at(&job.name), None, "it ran: it is evicted");
    plan.steps[0].side_effects.interrupts = false;
    assert_eq!(plan.goes_on_at(&job.name), Some(2));
    let other = JobName(ObjectKey::new("prod", "other"));
    assert_eq!(plan.goes_on_at(&other), None);
    plan.steps.truncate(1);
    assert_eq!(plan.goes_on_at(&job.name), None, "nothing lets it go on");
}

/// A plan that is made again: writes, tests and forecast are newer, and the same is done.
#[test]
fn figures_of_an_effect_are_no_difference() {
    let old = full();
    let mut new = full();
    let later = Moment::parse("2026-11-21T06:40:09Z").expect("a time");
    new.computed_at = later;
    new.revision = Some(88_413);
    new.warnings = vec!["a budget allows 1 of 2".into()];
    let first = &mut new.steps[0];
    first.side_effects.loss = None;
    first.side_effects.notes = vec!["starts again later".into()];
    first.waits.clear();
    first.guards[3].test = Test::Version {
        resource_version: "18".into(),
    };
    let PlanEffect::Forecast(forecast) = &mut new.effect else {
        panic!("a forecast");
    };
    forecast.starts[0].after = Some(later);
    forecast.lost_micro_usd = Some(2);
    forecast.displaced[0].back = Some(later);
    new.steps.reverse();
    assert_eq!(old.difference(&new), None);
    // The mark is the moment that it is written at.
    let stamp = |at: &str| {
        let mut plan = full();
        plan.steps[16].mutation = Mutation::Annotate {
            key: "k".into(),
            value: Some(at.into()),
        };
        plan
    };
    let (one, other) = (stamp("2026-11-21T06:40:00Z"), stamp("2026-11-21T06:41:00Z"));
    assert_eq!(one.difference(&other), None);
    assert!(one.difference(&stamp("yes")).is_some());
}

#[test]
fn steps_that_differ_between_plans_are_summarized_in_a_line() {
    let old = full();
    let difference = |change: fn(&mut Plan)| {
        let mut new = full();
        change(&mut new);
        old.difference(&new).unwrap_or_default()
    };
    let evicts = |plan: &mut Plan, name: &str| {
        let PlanEffect::Forecast(forecast) = &mut plan.effect else {
            panic!("a forecast");
        };
        let mut one = forecast.displaced[0].clone();
        one.job = JobName(ObjectKey::new("prod", name));
        forecast.displaced.push(one);
    };
    let mut new = full();
    evicts(&mut new, "two-tower-34e7");
    assert_eq!(
        old.difference(&new).as_deref(),
        Some("also evicts prod/two-tower-34e7")
    );
    assert_eq!(
        new.difference(&old).as_deref(),
        Some("no longer evicts prod/two-tower-34e7")
    );
    let mut other = full();
    evicts(&mut other, "b");
    assert_eq!(
        new.difference(&other).as_deref(),
        Some("evicts prod/b instead of prod/two-tower-34e7")
    );
    let besides = JobName(ObjectKey::new("prod", "b"));
    assert!(other.is_evicted_besides(&besides), "no step names it");
    assert!(!new.is_evicted_besides(&besides), "it is not evicted");
    let by_step = other.steps.iter().filter_map(|step| step.job.as_ref());
    for job in by_step {
        assert!(!other.is_evicted_besides(&job.name), "a step names it");
    }
    for name in ["b", "c", "d"] {
        evicts(&mut new, name);
    }
    assert_eq!(
        old.difference(&new).as_deref(),
        Some("also evicts prod/b, prod/c and 2 more")
    );
    let more = |plan: &mut Plan, name: &str| {
        let object = Object::new("batch", "v1", "jobs", "Job", name).within("nlp");
        let mutation = Mutation::Suspend { value: true };
        plan.steps.push(Step::new(Verb::Suspend, object, mutation));
    };
    let mut new = full();
    more(&mut new, "b");
    assert_eq!(
        old.difference(&new).as_deref(),
        Some("new: suspend Job nlp/b")
    );
    let mut instead = full();
    more(&mut instead, "c");
    assert_eq!(
        new.difference(&instead).as_deref(),
        Some("suspend Job nlp/c instead of suspend Job nlp/b")
    );
    more(&mut new, "c");
    assert_eq!(old.difference(&new).as_deref(), Some("2 steps more"));
    assert_eq!(new.difference(&old).as_deref(), Some("2 steps fewer"));
    assert_eq!(
        difference(|plan| plan.steps[0].object.uid = Some(Name::new("u-2"))),
        "Job nlp/train was recreated"
    );
    assert_eq!(
        difference(|plan| {
            plan.steps[0].guards[1].test = Test::Is {
                path: "/spec/suspend".into(),
                value: json!(true),
            };
        }),
        "Job nlp/train has changed: /spec/suspend"
    );
    assert_eq!(
        difference(|plan| plan.steps[5].mutation = Mutation::Suspend { value: false }),
        "hold Job nlp/train by another call"
    );
}

#[test]
fn a_refusal_says_what_can_be_done_instead() {
    let refusal = Refusal::new(
        RefusalCode::Unsupported,
        "a LeaderWorkerSet cannot be suspended",
    )
    .instead("scale it to 0")
    .instead("hold its queue");
    assert_eq!(
        refusal.to_string(),
        "a LeaderWorkerSet cannot be suspended; instead: scale it to 0; or: hold its queue"
    );
    let json = serde_json::to_value(&refusal).expect("serializes");
    assert_eq!(json["code"], "unsupported");
    assert_eq!(
        serde_json::from_value::<Refusal>(json).expect("reads back"),
        refusal
    );
}
