//! Plans on hand-written fleets: which jobs are evicted for a job that starts, and what a drain leaves behind.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use engine::compiled::CompiledFleet;
use engine::snapshot::{QueueingStrategy, Snapshot, Within, Workload};
use model::base::{Moment, Name};
use model::plan::{
    Budgets, CONTESTED, JobName, KnownVictims, Plan, RefusalCode, StartChange, Until, Verb,
};

use crate::effects::caused_changes::{Caused, ContentionIndex};
use crate::starts_without;
use crate::tests::fleet::{
    ask, ask_again, ask_with, fleet, forecast, full, kueue, lines, node, planned, queue, work,
};

fn priority(snapshot: &mut Snapshot, name: &str, priority: i32) {
    let mut all = snapshot.workloads.iter_mut();
    let found = all.find(|work| &*work.key.key.name == name);
    found.expect("a workload of this name").priority = priority;
}

/// A job that starts by itself in place of others names them, and needs no plan.
#[test]
fn who_starts_by_itself_names_whom_it_evicts() {
    let mut snapshot = full();
    snapshot.queues[0].preemption.within = Within::LowerPriority;
    let refusal = ask(&snapshot, "admit ml/big").expect_err("it starts by itself");
    assert_eq!(refusal.code, RefusalCode::AlreadySo);
    let named: Vec<String> = refusal
        .victims
        .iter()
        .map(|it| it.job.to_string())
        .collect();
    assert_eq!(named, ["ml/mid", "ml/new"]);
    assert!(
        refusal
            .sentence
            .starts_with("ml/big starts by itself, preempting ml/mid (8 devices,"),
        "{refusal}"
    );
    let document = serde_json::to_value(&refusal).expect("JSON");
    assert_eq!(document["victims"][0]["devices"], 8);
}

/// An admitted job whose pods wait for nodes: `low` has one that it needs, `high` another.
fn admitted() -> Snapshot {
    let runs = |name: &str, on: &str, priority: i32| {
        work(
            name,
            "Job",
            8,
            &[on],
            json!({ "queue": "ml", "admission": kueue(name), "priority": priority }),
        )
    };
    fleet(json!({
        "nodes": [node("a", "r1"), node("b", "r1")],
        "flavors": [{ "name": "h100", "node_labels": { "class": "h100" } }],
        "queues": [queue(json!({ "within": "never" }))],
        "workloads": [
            runs("low", "a", 10), runs("high", "b", 90),
            work("gang", "JobSet", 8, &[], json!({
                "queue": "ml", "admission": kueue("gang"), "priority": 50, "state": "running",
                "admitted_at": "2026-11-21T06:00:00Z",
            })),
        ],
    }))
}

#[test]
fn an_admitted_job_gets_its_nodes_from_those_of_lower_priority() {
    let snapshot = admitted();
    let refusal = ask(&snapshot, "admit ml/gang").expect_err("another must go");
    assert_eq!(refusal.code, RefusalCode::Policy);
    assert!(
        refusal.sentence.contains("has quota but no free nodes"),
        "{refusal}"
    );
    assert_eq!(refusal.victims[0].job.to_string(), "ml/low");
    let plan = planned(&snapshot, "admit ml/gang --preempt");
    assert_eq!(
        lines(&plan),
        ["suspend Workload ml/wl-low", "resume Workload ml/wl-low"]
    );
    let back = &plan.steps[1];
    assert_eq!(back.needs, [1]);
    assert_eq!(back.waits[0].until, Until::Elapsed { seconds: 120 });
    let predicted = forecast(&plan);
    assert_eq!(predicted.displaced[0].job.to_string(), "ml/low");
    // The reason and the rows of the displaced jobs say the same sum.
    let tenths = predicted.displaced.iter().map(|one| one.loss.tenths());
    let lost: u64 = tenths.sum::<Option<u64>>().expect("known");
    assert!(lost > 0);
    let sum = format!(
        "(1 job, {}.{} device-hours of work lost)",
        lost / 10,
        lost % 10
    );
    assert!(
        plan.reasons.iter().any(|reason| reason.contains(&sum)),
        "{sum}: {:?}",
        plan.reasons
    );
    assert!(
        plan.reasons
            .contains(&"there is room for it on a".to_owned()),
        "{:?}",
        plan.reasons
    );
}

#[test]
fn an_eviction_is_proposed_only_if_no_other_job_takes_the_freed_capacity() {
    let mut snapshot = admitted();
    let at = |snapshot: &Snapshot, name: &str| {
        let mut all = snapshot.workloads.iter();
        all.position(|work| &*work.key.key.name == name)
            .expect("a workload of this name")
    };
    let (gang, low) = (at(&snapshot, "gang"), at(&snapshot, "low"));
    assert!(starts_without(&snapshot, gang, &[low]));
    assert!(!starts_without(&snapshot, gang, &[]));
    let mut rival = snapshot.workloads[gang].clone();
    rival.key.key.name = Name::new("rival");
    rival.priority = 70;
    snapshot.workloads.push(rival);
    assert!(!starts_without(&snapshot, gang, &[low]));
    let refusal = ask(&snapshot, "admit ml/gang --preempt").expect_err("another goes before it");
    assert!(
        refusal.sentence.contains("would take the freed devices"),
        "{refusal}"
    );
}

/// A gang of two nodes is admitted; two other jobs have these nodes, and one more waits for as much quota as each of them frees.
fn gang_with_rival() -> Snapshot {
    let under = |name: &str, on: &[&str], more: Value| {
        let mut all = json!({ "queue": "ml", "admission": kueue(name) });
        let own = all.as_object_mut().expect("an object");
        own.extend(more.as_object().cloned().unwrap_or_default());
        work(name, "Job", 8, on, all)
    };
    let mut document = json!({
        "nodes": [node("a", "r1"), node("b", "r1")],
        "flavors": [{ "name": "h100", "node_labels": { "class": "h100" } }],
        "queues": [queue(json!({ "within": "never" }))],
        "workloads": [
            under("low1", &["a"], json!({ "priority": 10 })),
            under("low2", &["b"], json!({ "priority": 10 })),
            under("rival", &[], json!({ "priority": 0 })),
            under("gang", &[], json!({
                "priority": 50, "pods": 2, "state": "running", "admitted_at": "2026-11-21T06:00:00Z",
            })),
        ],
    });
    document["queues"][0]["quota"][0]["nominal"] = json!(32);
    fleet(document)
}

/// Victims end one after the other: a job behind in the queue would be admitted on the quota of the first, and take its node.
#[test]
fn rival_jobs_are_on_hold_until_the_job_starts() {
    let snapshot = gang_with_rival();
    let plan = planned(&snapshot, "admit ml/gang --preempt");
    assert_eq!(
        lines(&plan),
        [
            "suspend Workload ml/wl-rival",
            "suspend Workload ml/wl-low1",
            "suspend Workload ml/wl-low2",
            "resume Workload ml/wl-low1",
            "resume Workload ml/wl-low2",
            "resume Workload ml/wl-rival",
        ]
    );
    let guard = serde_json::to_string(&plan.steps[0].guards).expect("JSON");
    assert!(guard.contains("/status/admission"), "{guard}");
    assert_eq!(plan.steps[1].needs, [1], "nobody leaves before it is held");
    let last = &plan.steps[5];
    assert_eq!(last.needs, [1, 2, 3]);
    assert_eq!(last.waits[0].until, Until::Elapsed { seconds: 120 });
    let mentions = |words: &str| plan.reasons.iter().any(|reason| reason.contains(words));
    assert!(
        mentions(
            "ml/rival is held back for at least 120 s, so that ml/gang takes its devices first"
        ),
        "{:?}",
        plan.reasons
    );
    let left = forecast(&plan).displaced.iter();
    let left: Vec<String> = left.map(|one| one.job.to_string()).collect();
    assert_eq!(left, ["ml/low1", "ml/low2"], "it holds nothing to lose");
}

/// A rival without a queue cannot be put on hold: the plan warns about it.
#[test]
fn a_rival_that_cannot_be_put_on_hold_gives_a_warning() {
    let mut snapshot = gang_with_rival();
    let mut all = snapshot.workloads.iter_mut();
    let rival = all.find(|work| &*work.key.key.name == "rival");
    let rival = rival.expect("there");
    (rival.queue, rival.admission) = (None, None);
    let plan = planned(&snapshot, "admit ml/gang --preempt");
    assert_eq!(plan.steps.len(), 4);
    let mentions = |words: &str| plan.warnings.iter().any(|warning| warning.contains(words));
    assert!(
        mentions("other waiting jobs may take some"),
        "{:?}",
        plan.warnings
    );
}

#[test]
fn an_admitted_job_without_victims_gives_the_reason() {
    let mut snapshot = admitted();
    priority(&mut snapshot, "low", 60);
    let refusal = ask(&snapshot, "admit ml/gang --preempt").expect_err("all are above it");
    assert_eq!(refusal.code, RefusalCode::Policy);
    assert!(
        refusal.instead.iter().any(|one| one.contains("add 1 node")),
        "{refusal}"
    );
}

/// A queue that never preempts: only its administrator can change that, and an operator may evict by hand.
#[test]
fn a_queue_that_never_preempts_gives_its_policy_and_operators_may_evict() {
    let snapshot = full();
    let plan = ask(&snapshot, "admit ml/big --preempt").expect("a job can be evicted for it");
    let mentions = |words: &str| plan.reasons.iter().any(|reason| reason.contains(words));
    assert!(mentions("evicted by this plan: ml/"), "{:?}", plan.reasons);
    assert!(mentions("withinClusterQueue: Never"), "{:?}", plan.reasons);
    assert!(mentions("administrator"), "{:?}", plan.reasons);
    assert_eq!(plan.steps[0].verb, Verb::Suspend);
    let refusal = ask(&snapshot, "admit ml/big").expect_err("without --preempt nothing is evicted");
    assert_eq!(refusal.code, RefusalCode::Policy);
    assert!(
        refusal.instead[0].contains("plan admit ml/big --preempt"),
        "{refusal}"
    );
    assert!(!refusal.victims.is_empty(), "{refusal}");
}

/// A Deployment under a budget that allows no evictions, beside a job.
fn under_budget(more: Value) -> Snapshot {
    let mut web = work("web", "Deployment", 1, &["a", "a", "b"], json!({}));
    if let (Value::Object(set), Value::Object(more)) = (&mut web["pod_sets"][0], more) {
        set.extend(more);
    }
    fleet(json!({
        "nodes": [node("a", "r1"), node("b", "r1")],
        "budgets": [{ "namespace": "ml", "name": "keep", "pods": ["web-0", "web-1", "web-2"], "disruptions_allowed": 0, "desired_healthy": 3 }],
        "workloads": [web, work("train", "Job", 2, &["a"], json!({}))],
    }))
}

fn evicted<'a>(plan: &'a Plan, pod: &str) -> &'a model::plan::Step {
    let mut all = plan.steps.iter();
    all.find(|step| *step.object.name == *pod).expect("a step")
}

#[test]
fn a_budget_that_never_allows_it_keeps_its_pods_last_in_a_drain() {
    let snapshot = under_budget(json!({}));
    let plan = planned(&snapshot, "drain a --deadline 10m");
    assert_eq!(
        lines(&plan),
        [
            "cordon Node a",
            "evict Pod ml/train-0",
            "evict Pod ml/web-0",
            "evict Pod ml/web-1",
        ]
    );
    let budgets = ["train-0", "web-0"].map(|name| evicted(&plan, name).side_effects.budgets);
    assert_eq!(budgets, [Budgets::Respected, Budgets::Refusing]);
    let step = evicted(&plan, "web-0");
    assert!(
        step.side_effects.notes[0].starts_with("stays: disruption budget ml/keep allows 0"),
        "{:?}",
        step.side_effects.notes
    );
    assert_eq!(step.side_effects.loss, None);
    let until = Moment::parse("2026-11-21T06:50:00Z");
    assert!(
        step.waits.iter().all(|wait| wait.deadline == until),
        "{:?}",
        step.waits
    );
    let began = snapshot.at.plus(std::time::Duration::from_secs(540));
    assert_eq!(step.waits[0].limit(began), until, "however late it begins");
    let gone: Vec<String> = forecast(&plan)
        .displaced
        .iter()
        .map(|one| one.job.to_string())
        .collect();
    assert_eq!(gone, ["ml/train"]);
}

/// One pod of a job is evicted: the step shows its own devices, not those of its job.
#[test]
fn an_eviction_names_the_devices_of_its_pod() {
    let mut snapshot = under_budget(json!({}));
    snapshot.budgets.clear();
    let plan = planned(&snapshot, "drain a");
    let step = evicted(&plan, "web-0");
    assert_eq!(step.job.as_ref().and_then(|job| job.devices), Some(1));
}

#[test]
fn pods_that_tolerate_the_cordon_are_noted_as_returning() {
    let mut snapshot = under_budget(json!({ "tolerations": [{ "operator": "Exists" }] }));
    snapshot.budgets.clear();
    let plan = planned(&snapshot, "drain a");
    assert!(
        plan.warnings
            .iter()
            .any(|one| one.contains("ml/web: its pods tolerate the cordon")),
        "{:?}",
        plan.warnings
    );
    let holds = plan
        .alternatives
        .iter()
        .any(|one| one.command.as_deref() == Some("plan hold ml/web"));
    assert!(holds, "{:?}", plan.alternatives);
    let notes = &evicted(&plan, "web-0").side_effects.notes;
    assert!(
        notes
            .iter()
            .any(|note| note.contains("may be scheduled here again")),
        "{notes:?}"
    );
    let plain = planned(&under_budget(json!({})), "drain a");
    assert!(!plain.warnings.iter().any(|one| one.contains("tolerate")));
}

/// While a Kueue job is requeued its queue may admit the next one: neither start is claimed.
#[test]
fn a_quota_that_is_lost_in_the_gap_is_contested() {
    let runs = |name: &str, on: &str| {
        work(
            name,
            "Job",
            8,
            &[on],
            json!({ "queue": "ml", "admission": kueue(name), "created": "2026-11-21T04:00:00Z" }),
        )
    };
    let mut queue = queue(json!({}));
    queue["quota"][0]["nominal"] = json!(8);
    let snapshot = fleet(json!({
        "nodes": [node("a", "r1"), node("b", "r1")],
        "flavors": [{ "name": "h100", "node_labels": { "class": "h100" } }],
        "queues": [queue],
        "workloads": [
            runs("runs", "a"),
            work("next", "Job", 8, &[], json!({ "queue": "ml", "admission": kueue("next") })),
        ],
    }));
    let plan = planned(&snapshot, "drain a");
    let contested: Vec<String> = forecast(&plan)
        .contested
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(contested, ["ml/next", "ml/runs"]);
    assert_eq!(forecast(&plan).displaced[0].back, None);
    // Its step and the effect agree.
    assert!(forecast(&plan).is_contested(&forecast(&plan).displaced[0].job));
    let notes = &plan.steps[1].side_effects.notes;
    assert!(notes.iter().any(|note| note == CONTESTED), "{notes:?}");
}

/// An evicted job that gets its quota again gets nodes when others end: its start is shown, as for an admitted job.
#[test]
fn a_job_with_quota_and_without_nodes_has_a_forecast_start() {
    let runs = |name: &str, on: &str, more: Value| {
        let mut all = json!({ "queue": "ml", "admission": kueue(name) });
        for (key, value) in more.as_object().expect("an object") {
            all[key] = value.clone();
        }
        work(name, "Job", 8, &[on], all)
    };
    let snapshot = fleet(json!({
        "nodes": [node("a", "r1"), node("b", "r1")],
        "flavors": [{ "name": "h100", "node_labels": { "class": "h100" } }],
        "queues": [queue(json!({}))],
        "workloads": [
            runs("moves", "a", json!({})),
            runs("ends", "b", json!({ "admitted_at": "2026-11-21T06:40:00Z", "runtime_estimate_seconds": 3_600 })),
        ],
    }));
    let end = Moment::parse("2026-11-21T07:40:00Z");
    let plan = planned(&snapshot, "drain a");
    assert_eq!(forecast(&plan).displaced[0].back, end);
    let notes = plan.steps[1].side_effects.notes.concat();
    assert!(
        notes.contains("gets its quota back at once, and nodes at about 2026-11-21T07:40:00Z"),
        "{notes}"
    );
    // The start of another admitted job that waits for those nodes equals the one in the list.
    let mut snapshot = snapshot;
    let mut admitted = snapshot.workloads[1].clone();
    assert_eq!(&*admitted.key.key.name, "moves");
    admitted.key.key.name = Name::new("admitted");
    for set in &mut admitted.sets {
        set.placements.clear();
    }
    snapshot.queues[0].quotas[0].nominal += 8_000;
    snapshot.workloads.push(admitted);
    snapshot.settle();
    let listed = engine::explanations::explain(&snapshot, "ml/admitted").expect("there");
    assert_eq!(listed.start.and_then(|start| start.p50), end);
    let plan = planned(&snapshot, "drain b");
    let mut starts = forecast(&plan).starts.iter();
    let before = starts
        .find(|start| &*start.job.0.name == "admitted")
        .map(|start| start.before);
    assert_eq!(before, Some(end), "{:?}", forecast(&plan).starts);
}

/// The victims of a plan that was read stay its choice, whatever others would lose, until one of them has ended; a much smaller
/// loss is shown as an alternative.
#[test]
fn a_plan_that_is_read_keeps_its_choice() {
    // By hand, and as its queue would preempt once the job is first.
    let mut by_queue = full();
    by_queue.queues[0].preemption.within = Within::LowerPriority;
    let is_big = |work: &Workload| &*work.key.key.name == "big";
    by_queue.workloads.retain(|work| !is_big(work));
    for (before, text) in [
        (full(), "admit ml/big --preempt"),
        (by_queue, "admit ml/small --preempt"),
    ] {
        let leave = |plan: &Plan| plan.stops().cloned().collect::<BTreeSet<_>>();
        let since = |snapshot: &mut Snapshot, name: &str, at: &str| {
            let mut all = snapshot.workloads.iter_mut();
            let work = all
                .find(|work| &*work.key.key.name == name)
                .expect("it runs");
            work.admitted_at = Moment::parse(at);
        };
        let known = leave(&ask(&before, text).expect("a plan"));
        let one = known.first().expect("somebody leaves").0.name.clone();
        let other = ["old", "mid", "new"]
            .into_iter()
            .find(|name| !known.iter().any(|job| *job.0.name == **name))
            .expect("somebody stays");
        // Now the other job would lose a little less than this one.
        let mut then = before.clone();
        for work in &mut then.workloads {
            if known.iter().any(|job| job.0 == work.key.key) {
                work.admitted_at = Moment::parse("2026-11-21T05:40:00Z");
            }
        }
        since(&mut then, other, "2026-11-21T05:42:00Z");
        let anew = ask(&then, text).expect("a plan");
        assert_ne!(leave(&anew), known, "{text}: by itself it takes another");
        let again = ask_again(&then, text, &known).expect("a plan");
        assert_eq!(leave(&again), known, "{text}: {one} stays the choice");
        again.validate().expect("is well formed");
        assert_eq!(ask_again(&before, text, &known), ask(&before, text));
        // Much less.
        since(&mut then, other, "2026-11-21T06:39:00Z");
        let again = ask_again(&then, text, &known).expect("a plan");
        assert_eq!(leave(&again), known, "{text}: who is read leaves");
        let mentions = |plan: &Plan| {
            plan.alternatives
                .iter()
                .any(|it| it.sentence.contains("make a new one"))
        };
        // Victims that were only shown on the job's page are kept only where they lose less.
        let planned_for = |jobs: &BTreeSet<JobName>| {
            let known = KnownVictims::shown(jobs.clone());
            leave(&ask_with(&then, text, &known).expect("a plan"))
        };
        let least = leave(&ask(&then, text).expect("a plan"));
        assert_ne!(least, known, "{text}");
        assert_eq!(
            planned_for(&known),
            least,
            "{text}: a first plan takes the least"
        );
        let by_hand = again
            .reasons
            .iter()
            .any(|it| it.starts_with("evicted by this plan"));
        assert!(mentions(&again) || by_hand, "{:?}", again.alternatives);
        assert!(!mentions(&ask(&before, text).expect("a plan")));
        // It has ended, and another job has its devices.
        let mut then = before.clone();
        let mut all = then.workloads.iter_mut();
        let gone = all.find(|work| work.key.key.name == one).expect("it runs");
        gone.key.key.name = "another".into();
        then.settle();
        let again = ask_again(&then, text, &known).expect("a plan");
        assert!(again.stops().all(|job| job.0.name != one));
    }
}

/// A start that moves within the forecast's resolution, or of an unrelated job, is not reported.
#[test]
fn starts_that_a_plan_does_not_cause_are_omitted() {
    let in_pool = |name: &str, pool: &str| {
        let mut node = node(name, "r1");
        node["pool"] = json!(pool);
        node["labels"]["class"] = json!(pool);
        node
    };
    let of = |name: &str, queue: &str, pool: &str, on: &[&str]| {
        let mut work = work(
            name,
            "Job",
            8,
            on,
            json!({ "queue": queue, "admission": kueue(name) }),
        );
        work["pod_sets"][0]["node_selector"] = json!({ "class": pool });
        work
    };
    let quotas = |name: &str| {
        json!({ "name": name, "system": "kueue", "cohort": "all", "quota": [
            { "flavor": "h100", "nominal": 8 }, { "flavor": "a100", "nominal": 8 },
        ]})
    };
    let flavors = ["h100", "a100"];
    let flavors = flavors.map(|name| json!({ "name": name, "node_labels": { "class": name } }));
    let snapshot = fleet(json!({
        "nodes": [in_pool("a", "a100"), in_pool("h", "h100")],
        "flavors": flavors,
        "queues": [quotas("ml"), quotas("cv")],
        "workloads": [
            of("runs", "ml", "h100", &["h"]), of("next", "cv", "h100", &[]), of("same", "ml", "a100", &[]),
            of("other", "cv", "a100", &["a"]), of("last", "cv", "a100", &[]),
        ],
    }));
    let mut after = snapshot.clone();
    let at = |name: &str| {
        let mut all = snapshot.workloads.iter();
        all.position(|work| &*work.key.key.name == name)
            .expect("a workload of this name")
    };
    after.displace(at("runs"), false);
    after.settle();
    let reach = |snapshot: &Snapshot| ContentionIndex::of(&CompiledFleet::new(snapshot.clone()));
    let caused = Caused::of(&reach(&snapshot), &reach(&after));
    let later = |seconds: u64| Some(snapshot.at.plus(std::time::Duration::from_secs(seconds)));
    let is_reported = |name: &str, before: Option<Moment>, after: Option<Moment>| {
        let key = &snapshot.workloads[at(name)].key;
        let job = JobName(key.key.clone());
        caused.is_caused(
            key,
            &StartChange {
                job,
                devices: 8,
                before,
                after,
            },
        )
    };
    assert!(is_reported("next", later(7_200), later(3_600)));
    assert!(is_reported("next", later(7_200), None));
    assert!(
        !is_reported("next", later(7_200), later(7_000)),
        "3 % of the time until then"
    );
    assert!(!is_reported("next", later(90), later(60)), "half a minute");
    // A change of the planned job itself is always reported.
    assert!(is_reported("runs", later(60), later(90)));
    // Another pool and a separate quota, though in the same queue.
    for name in ["same", "last"] {
        assert!(!is_reported(name, later(7_200), later(3_600)), "{name}");
    }
    // In one strict queue it may.
    let strict = |snapshot: &Snapshot| {
        let mut snapshot = snapshot.clone();
        for queue in &mut snapshot.queues {
            queue.order = QueueingStrategy::Strict;
        }
        reach(&snapshot)
    };
    let caused = Caused::of(&strict(&snapshot), &strict(&after));
    let job = JobName(snapshot.workloads[at("same")].key.key.clone());
    let change = StartChange {
        job,
        devices: 8,
        before: later(7_200),
        after: later(3_600),
    };
    assert!(caused.is_caused(&snapshot.workloads[at("same")].key, &change));
}

/// Kueue preempts until the quota suffices, whether a node fits then or not.
#[test]
fn a_priority_that_preempts_for_quota_promises_no_nodes() {
    let on = |name: &str, node: &str, more: Value| work(name, "Job", 4, &[node], more);
    let low = |name: &str| json!({ "queue": "ml", "admission": kueue(name), "priority": 5, "admitted_at": "2026-11-21T06:00:00Z" });
    let mut queue = queue(json!({ "within": "lower-priority" }));
    queue["quota"][0]["nominal"] = json!(8);
    let snapshot = fleet(json!({
        "nodes": [node("a", "r1"), node("b", "r1")],
        "flavors": [{ "name": "h100", "node_labels": { "class": "h100" } }],
        "queues": [queue],
        "workloads": [
            on("other-a", "a", json!({})), on("other-b", "b", json!({})),
            on("low-a", "a", low("low-a")), on("low-b", "b", low("low-b")),
            work("high", "Job", 8, &[], json!({ "queue": "ml", "admission": kueue("high"), "priority": 5 })),
        ],
    }));
    let plan = planned(&snapshot, "reprioritise ml/high 6");
    // What has quota and no nodes stops nothing.
    let mut unplaced = snapshot.clone();
    let mut all = unplaced.workloads.iter_mut();
    let low = all.find(|work| &*work.key.key.name == "low-b");
    for set in &mut low.expect("low-b").sets {
        set.placements.clear();
    }
    let reasons = planned(&unplaced, "reprioritise ml/high 6").reasons;
    let words = "ml/low-b, which waits for nodes, loses its quota for ml/high";
    assert!(reasons.iter().any(|it| it == words), "{reasons:?}");
    for sentence in [
        "ml/low-a is preempted for ml/high",
        "ml/low-b is preempted for ml/high",
        "ml/high gets its quota then, and waits for nodes",
    ] {
        assert!(
            plan.reasons.iter().any(|it| it == sentence),
            "{sentence}: {:?}",
            plan.reasons
        );
    }
    let predicted = forecast(&plan);
    assert_eq!(predicted.displaced.len(), 2);
    let now = |change: &StartChange| change.after.is_some_and(|at| at <= snapshot.at);
    assert!(!predicted.starts.iter().any(now), "{:?}", predicted.starts);
}
