//! Actions on objects of each queueing system.

mod evict;
mod evicted;
pub(crate) mod fleet;
mod groups;
mod one_answer;
mod scale;

use serde_json::{Value, json};

use cluster::mutations::{self, RunStep};
use model::base::Moment;
use model::plan::{Mutation, Object, RefusalCode, StopPolicy, VolcanoAction};

use super::tests::fleet::{fleet, kueue, node, work};
use super::*;

fn now() -> Moment {
    Moment::from_seconds(10_000)
}

pub(super) fn found(
    group: &str,
    plural: &str,
    kind: &str,
    namespaced: bool,
    now: Value,
) -> FoundObject {
    let object = Object::new(group, "v1", plural, kind, "train").with_uid("u-1");
    let mut now = now;
    now["kind"] = kind.into();
    now["metadata"]["uid"] = "u-1".into();
    FoundObject {
        object: if namespaced {
            object.within("nlp")
        } else {
            object
        },
        now,
    }
}

pub(super) fn subject(top: FoundObject) -> JobSubject {
    JobSubject {
        chain: vec![top],
        workloads: Vec::new(),
        pod_group: None,
        classes: vec![SubjectPriorityClass {
            name: "high".into(),
            value: 1000,
        }],
        workload_classes: vec![SubjectPriorityClass {
            name: "urgent".into(),
            value: 500,
        }],
    }
}

fn job(spec: Value) -> FoundObject {
    found("batch", "jobs", "Job", true, json!({"spec": spec}))
}

fn target(subject: &JobSubject) -> ActionTarget {
    ActionTarget::Job(Box::new(subject.clone()))
}

fn under_kueue(active: bool, reserved: &str) -> JobSubject {
    let mut top = job(json!({"suspend": false}));
    top.now["metadata"]["labels"] = json!({"kueue.x-k8s.io/queue-name": "q"});
    let mut subject = subject(top);
    subject.workloads.push(found(
        "kueue.x-k8s.io",
        "workloads",
        "Workload",
        true,
        json!({
            "spec": {"active": active, "priority": 10, "podSets": [{"count": 4}]},
            "status": {"conditions": [{"type": "QuotaReserved", "status": reserved}]},
        }),
    ));
    subject
}

/// Checks that the plan's one step makes a call on its object.
fn sound(plan: &model::plan::Plan, on: &Value) {
    plan.validate().expect("is well formed");
    assert_eq!(plan.steps.len(), 1);
    assert!(!plan.reads.is_empty(), "it relied on something");
    assert!(matches!(
        plan.effect,
        model::plan::PlanEffect::Unknown { .. }
    ));
    let mark = RunStep {
        run: "r",
        step: 1,
        hold: None,
    };
    mutations::call(&plan.steps[0], on, mark).expect("can be sent");
    for guard in &plan.steps[0].guards {
        assert_eq!(mutations::check_fact(guard, Some(on)), Ok(()));
    }
}

#[test]
fn a_plain_job_is_held_by_its_own_field_and_says_what_that_costs() {
    let mut top = job(json!({
        "parallelism": 4, "completions": 4, "completionMode": "Indexed", "suspend": false,
        "template": {"spec": {"containers": [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": "2"}}}]}},
    }));
    top.now["metadata"]["name"] = "train".into();
    top.now["metadata"]["namespace"] = "nlp".into();
    top.now["status"]["startTime"] = Moment::from_seconds(9_000).rfc3339().into();
    let subject = subject(top);
    let plan = hold::plan(&target(&subject), "nlp/train", now()).expect("can be held");
    sound(&plan, &subject.top().now);
    let step = &plan.steps[0];
    assert_eq!(step.mutation, Mutation::Suspend { value: true });
    let effects = &step.side_effects;
    assert!(effects.interrupts && effects.timer_reset);
    assert_eq!(effects.gang_broken, Some(4));
    let loss = effects.loss.as_ref().expect("it runs");
    assert_eq!(loss.device_seconds, Some(8 * 1000));
    assert!(plan.needs_typed_name(), "a gang stops");
    let refused = resume::plan(&target(&subject), "nlp/train", now()).expect_err("it runs");
    assert_eq!(refused.code, RefusalCode::AlreadySo);
}

/// A kind that cannot be suspended is scaled to 0; the journal has its previous number of replicas.
#[test]
fn a_workload_with_replicas_is_put_on_hold_by_scaling_to_zero() {
    for (group, plural, kind) in [
        ("apps", "deployments", "Deployment"),
        ("apps", "statefulsets", "StatefulSet"),
        (
            "leaderworkerset.x-k8s.io",
            "leaderworkersets",
            "LeaderWorkerSet",
        ),
    ] {
        let of = |replicas: u32| {
            subject(found(
                group,
                plural,
                kind,
                true,
                json!({"spec": {"replicas": replicas}}),
            ))
        };
        let made = hold::plan(&target(&of(3)), "nlp/train", now()).expect("a plan");
        sound(&made, &of(3).top().now);
        assert_eq!(made.steps[0].mutation, Mutation::Scale { replicas: 0 });
        assert!(made.steps[0].waits.is_empty(), "{kind}");
        let command = made.alternatives[0].command.as_deref();
        assert_eq!(command, Some("plan undo RUN"), "{kind}");
        let again = hold::plan(&target(&of(0)), "nlp/train", now()).expect_err("it is held");
        assert_eq!(again.code, RefusalCode::AlreadySo, "{again}");
        let back = resume::plan(&target(&of(0)), "nlp/train", now()).expect_err("no number");
        assert!(back.to_string().contains("plan undo"), "{back}");
    }
}

#[test]
fn a_job_under_kueue_is_put_on_hold_through_its_workload() {
    let running = under_kueue(true, "True");
    let plan = hold::plan(&target(&running), "nlp/train", now()).expect("can be held");
    sound(&plan, &running.workloads[0].now);
    let step = &plan.steps[0];
    assert_eq!(step.mutation, Mutation::WorkloadActive { value: false });
    assert_eq!(step.waits.len(), 1, "until its quota is free");
    assert_eq!(step.job.as_ref().and_then(|job| job.gang), Some(4));
    let waiting = under_kueue(true, "False");
    let plan = hold::plan(&target(&waiting), "nlp/train", now()).expect("can be held");
    assert!(plan.steps[0].waits.is_empty() && !plan.steps[0].side_effects.interrupts);
    let held = under_kueue(false, "False");
    let again = hold::plan(&target(&held), "nlp/train", now()).expect_err("is held");
    assert_eq!(again.code, RefusalCode::AlreadySo);
    let plan = resume::plan(&target(&held), "nlp/train", now()).expect("can go on");
    assert_eq!(
        plan.steps[0].mutation,
        Mutation::WorkloadActive { value: true }
    );
    let mut unmade = under_kueue(true, "True");
    unmade.workloads.clear();
    let refused = hold::plan(&target(&unmade), "nlp/train", now()).expect_err("no Workload");
    assert_eq!(refused.code, RefusalCode::Unknown);
}

/// A LeaderWorkerSet under Kueue, with a Workload for each of its groups.
fn in_groups(groups: &[(bool, &str)]) -> JobSubject {
    let mut subject = under_kueue(true, "True");
    subject.chain[0].object = Object::new(
        "leaderworkerset.x-k8s.io",
        "v1",
        "leaderworkersets",
        "LeaderWorkerSet",
        "serve",
    )
    .within("nlp");
    subject.workloads.clear();
    let template = json!({"spec": {"containers": [{"name": "main", "resources": {
        "requests": {"nvidia.com/gpu": "8"}}}]}});
    for (at, (active, reserved)) in groups.iter().enumerate() {
        let mut workload = under_kueue(*active, reserved).workloads.remove(0);
        let name = format!("leaderworkerset-serve-{at}");
        workload.object.name = name.as_str().into();
        workload.now["metadata"]["name"] = json!(name);
        workload.now["spec"]["podSets"] =
            json!([{"name": "main", "count": 2, "template": template}]);
        subject.workloads.push(workload);
    }
    subject
}

#[test]
fn all_groups_of_a_job_are_acted_on_each_by_its_own_workload() {
    let names = |plan: &model::plan::Plan| -> Vec<String> {
        let steps = plan.steps.iter();
        steps.map(|step| step.object.name.to_string()).collect()
    };
    let subject = in_groups(&[(true, "True"), (true, "True"), (true, "False")]);
    let plan = hold::plan(&target(&subject), "nlp/serve", now()).expect("can be held");
    plan.validate().expect("is well formed");
    let all: Vec<String> = (0..3)
        .map(|at| format!("leaderworkerset-serve-{at}"))
        .collect();
    assert_eq!(names(&plan), all);
    let devices = |plan: &model::plan::Plan| -> Vec<Option<u32>> {
        let jobs = plan.steps.iter().filter_map(|step| step.job.as_ref());
        jobs.map(|job| job.devices).collect()
    };
    assert_eq!(devices(&plan), [Some(16); 3], "each what its group has");
    let stops: Vec<bool> = plan
        .steps
        .iter()
        .map(|step| step.side_effects.interrupts && !step.waits.is_empty())
        .collect();
    assert_eq!(stops, [true, true, false], "the last one has nothing");
    assert_eq!(plan.reads.len(), 3);

    let half = in_groups(&[(false, "False"), (true, "True")]);
    let plan = hold::plan(&target(&half), "nlp/serve", now()).expect("one goes on");
    assert_eq!(names(&plan), ["leaderworkerset-serve-1"]);
    let plan = resume::plan(&target(&half), "nlp/serve", now()).expect("one is held");
    assert_eq!(names(&plan), ["leaderworkerset-serve-0"]);
    let held = in_groups(&[(false, "False"), (false, "False")]);
    let again = hold::plan(&target(&held), "nlp/serve", now()).expect_err("all are held");
    assert_eq!(again.code, RefusalCode::AlreadySo);
    let plan = resume::plan(&target(&held), "nlp/serve", now()).expect("can go on");
    assert_eq!(plan.steps.len(), 2);
    let plan = reprioritise::plan(&subject, "99", now()).expect("by number");
    assert_eq!(names(&plan), all);
}

#[test]
fn an_owned_job_is_acted_on_at_its_top() {
    let mut subject = subject(job(json!({})));
    let set = found(
        "jobset.x-k8s.io",
        "jobsets",
        "JobSet",
        true,
        json!({"spec": {}}),
    );
    subject.chain.push(set);
    let plan = hold::plan(&target(&subject), "nlp/train", now()).expect("can be held");
    assert_eq!(&*plan.steps[0].object.kind, "JobSet");
    assert!(
        plan.reasons[0].contains("belongs to JobSet"),
        "{:?}",
        plan.reasons
    );
}

#[test]
fn queues_are_put_on_hold_by_the_means_of_their_system() {
    let queue = |group: &str, plural: &str, namespaced: bool, now: Value| {
        ActionTarget::Queue(Box::new(found(group, plural, "Queue", namespaced, now)))
    };
    let open = queue(
        "kueue.x-k8s.io",
        "clusterqueues",
        false,
        json!({"spec": {}}),
    );
    let plan = hold::plan(&open, "nlp", now()).expect("can be held");
    assert_eq!(
        plan.steps[0].mutation,
        Mutation::StopPolicy {
            value: StopPolicy::Hold
        }
    );
    let held = queue(
        "kueue.x-k8s.io",
        "localqueues",
        true,
        json!({"spec": {"stopPolicy": "HoldAndDrain"}}),
    );
    assert!(hold::plan(&held, "nlp", now()).is_err());
    let plan = resume::plan(&held, "nlp", now()).expect("can go on");
    assert_eq!(
        plan.steps[0].mutation,
        Mutation::StopPolicy {
            value: StopPolicy::None
        }
    );
    let volcano = queue(
        "scheduling.volcano.sh",
        "queues",
        false,
        json!({"status": {"state": "Open"}}),
    );
    let plan = hold::plan(&volcano, "nlp", now()).expect("can be held");
    assert_eq!(
        plan.steps[0].mutation,
        Mutation::VolcanoCommand {
            action: VolcanoAction::CloseQueue
        }
    );
    let kai = queue("scheduling.run.ai", "queues", false, json!({}));
    let refused = hold::plan(&kai, "nlp", now()).expect_err("KAI has no such field");
    assert!(refused.to_string().contains("limits"), "{refused}");
}

#[test]
fn priorities_go_where_each_system_reads_them() {
    let kueue = under_kueue(true, "True");
    let plan = reprioritise::plan(&kueue, "99", now()).expect("by number");
    sound(&plan, &kueue.workloads[0].now);
    assert_eq!(
        plan.steps[0].mutation,
        Mutation::WorkloadPriority { value: 99 }
    );
    assert!(!plan.needs_typed_name());
    let same = reprioritise::plan(&kueue, "10", now()).expect_err("has it");
    assert_eq!(same.code, RefusalCode::AlreadySo);
    let class = reprioritise::plan(&kueue, "urgent", now()).expect_err("runs without one");
    assert!(
        class.to_string().contains("reprioritise nlp/train 500"),
        "{class}"
    );
    let mut had = kueue.clone();
    had.chain[0].now["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = "low".into();
    let plan = reprioritise::plan(&had, "urgent", now()).expect("a class for a class");
    sound(&plan, &had.top().now);
    let unknown = reprioritise::plan(&had, "nope", now()).expect_err("no such class");
    assert!(unknown.to_string().contains("urgent (500)"), "{unknown}");

    let volcano = subject(found(
        "batch.volcano.sh",
        "jobs",
        "Job",
        true,
        json!({"spec": {}}),
    ));
    let plan = reprioritise::plan(&volcano, "1000", now()).expect("by the class of that value");
    assert_eq!(
        plan.steps[0].mutation,
        Mutation::VolcanoPriorityClass {
            name: "high".into()
        }
    );
    assert!(
        reprioritise::plan(&volcano, "7", now()).is_err(),
        "no class of that value"
    );

    let mut kai = subject(job(json!({})));
    kai.chain[0].now["metadata"]["labels"] = json!({"kai.scheduler/queue": "q"});
    let plan = reprioritise::plan(&kai, "high", now()).expect("by label");
    assert_eq!(
        plan.steps[0].mutation,
        Mutation::KaiPriorityClass {
            name: "high".into()
        }
    );
    let notes = &plan.steps[0].side_effects.notes;
    assert!(
        notes.iter().any(|note| note.contains("its pods")),
        "{notes:?}"
    );

    let plain = reprioritise::plan(&subject(job(json!({}))), "5", now()).expect_err("no lever");
    assert_eq!(plain.code, RefusalCode::Unsupported);
    assert!(plain.instead.len() >= 2, "{plain}");
}

/// An admitted job without nodes loses nothing by a hold, whatever its Workload says.
#[test]
fn a_hold_of_what_has_no_nodes_stops_nothing() {
    let planned = |nodes: &[&str]| {
        let subject = under_kueue(true, "True");
        let mut plan = hold::plan(&target(&subject), "nlp/train", now()).expect("a plan");
        assert!(plan.needs_typed_name(), "as far as its Workload says");
        let more = json!({ "namespace": "nlp", "admission": kueue("train") });
        let snapshot = fleet(json!({
            "nodes": [node("a", "r1")], "workloads": [work("train", "Job", 8, nodes, more)],
        }));
        add_forecast(&snapshot, &mut plan);
        plan
    };
    let runs = planned(&["a"]);
    assert!(runs.needs_typed_name());
    let loss = runs.steps[0].side_effects.loss.as_ref();
    assert!(
        loss.is_some_and(|loss| loss.device_seconds > Some(0)),
        "{loss:?}"
    );
    let waits = planned(&[]);
    assert!(!waits.needs_typed_name());
    assert!(waits.steps[0].side_effects.loss.is_none() && waits.undo.notes.is_empty());
}

/// A job of a queue of `govern`, suspended until it is admitted, with these annotations.
fn governed(notes: Value) -> JobSubject {
    let mut top = job(json!({"suspend": true}));
    top.now["metadata"]["labels"] = json!({"stokehold.dev/queue": "a"});
    top.now["metadata"]["annotations"] = notes;
    subject(top)
}

#[test]
fn a_new_priority_says_that_the_label_does_not_count_beside_it() {
    let mut of = governed(json!({}));
    of.chain[0].now["metadata"]["labels"]["stokehold.dev/priority"] = "10".into();
    let plan = reprioritise::plan(&of, "15", now()).expect("a number");
    let notes = &plan.steps[0].side_effects.notes;
    let words = "the annotation now overrides the label stokehold.dev/priority=10";
    assert!(notes.iter().any(|note| note.contains(words)), "{notes:?}");
    let plan = reprioritise::plan(&of, "10", now()).expect("a number");
    assert!(plan.steps[0].side_effects.notes.is_empty());
}

#[test]
fn a_job_that_waits_in_a_queue_of_govern_is_held_there_and_resumed_into_it() {
    let key = "stokehold.dev/hold";
    let waits = governed(json!({"stokehold.dev/position": "3"}));
    let plan = hold::plan(&target(&waits), "nlp/train", now()).expect("can be held");
    sound(&plan, &waits.top().now);
    assert_eq!(
        plan.steps[0].mutation,
        Mutation::Annotate {
            key: key.to_owned(),
            value: Some("true".to_owned())
        }
    );
    assert!(!plan.steps[0].side_effects.interrupts);
    assert!(
        plan.reasons
            .iter()
            .any(|why| why.contains("does not admit it"))
    );

    let held = governed(json!({key: "true"}));
    let again = hold::plan(&target(&held), "nlp/train", now()).expect_err("is held");
    assert_eq!(again.code, RefusalCode::AlreadySo);
    let plan = resume::plan(&target(&held), "nlp/train", now()).expect("can be resumed");
    sound(&plan, &held.top().now);
    assert_eq!(
        plan.steps[0].mutation,
        Mutation::Annotate {
            key: key.to_owned(),
            value: None
        }
    );
    // One that somebody suspended after its admission is resumed by its own field, which puts it into its queue.
    let stopped = governed(json!({key: "suspended"}));
    let plan = resume::plan(&target(&stopped), "nlp/train", now()).expect("can be resumed");
    assert_eq!(plan.steps[0].mutation, Mutation::Suspend { value: false });
}
