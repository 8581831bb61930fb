//! Each mutation on a document like the API's: the exact call, the refusals, and the inverse.

use serde_json::{Value, json};

use model::base::Name;
use model::fleet::govern::KUEUE_QUEUE;
use model::plan::{
    Fact, Mutation, Object, RefusalCode, Step, StopPolicy, Test, Verb, VolcanoAction,
};

use super::*;

mod nodes;
mod role;

const MARK: RunStep<'static> = RunStep {
    run: "r1",
    step: 2,
    hold: None,
};

fn object(group: &str, version: &str, plural: &str, kind: &str) -> Object {
    let cluster_wide = matches!(plural, "nodes" | "clusterqueues" | "queues");
    let object = Object::new(group, version, plural, kind, "x").with_uid("u-1");
    if cluster_wide {
        object
    } else {
        object.within("nlp")
    }
}

fn job() -> Object {
    object("batch", "v1", "jobs", "Job")
}

fn step(object: Object, mutation: Mutation) -> Step {
    Step::new(Verb::Suspend, object, mutation)
}

fn read(spec: Value) -> Value {
    json!({"metadata": {"name": "x", "uid": "u-1", "resourceVersion": "7"}, "spec": spec})
}

fn body(step: &Step, now: &Value) -> Value {
    let call = call(step, now, MARK).unwrap_or_else(|refusal| panic!("{step}: {refusal}"));
    assert!(call.is_listed(), "{call:?}");
    call.body
}

/// The real server's JSON Patch: a test for null passes where the field is missing and its parent is there.
pub(super) fn applied(now: &Value, patch: &Value) -> Result<Value, String> {
    let mut now = now.clone();
    for operation in patch.as_array().expect("a patch") {
        let (path, value) = (text(operation, "/path"), &operation["value"]);
        if operation["op"] == "test" && value.is_null() {
            let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
            let missing = now.pointer(parent).is_some_and(Value::is_object)
                && now.pointer(path).is_none_or(Value::is_null);
            if missing {
                continue;
            }
        }
        let one: json_patch::Patch =
            serde_json::from_value(json!([operation])).expect("an operation");
        json_patch::patch(&mut now, &one).map_err(|error| format!("{operation}: {error}"))?;
    }
    Ok(now)
}

fn test_uid() -> Value {
    json!({"op": "test", "path": "/metadata/uid", "value": "u-1"})
}

#[test]
fn a_job_is_suspended_only_while_it_is_what_the_plan_saw() {
    let mut step = step(job(), Mutation::Suspend { value: true });
    step.guards.push(Fact {
        object: job(),
        test: Test::Is {
            path: "/spec/suspend".into(),
            value: false.into(),
        },
    });
    let absent = read(json!({"parallelism": 2}));
    assert_eq!(
        body(&step, &absent),
        json!([test_uid(), {"op": "test", "path": "/spec/suspend", "value": null}, {"op": "add", "path": "/spec/suspend", "value": true}])
    );
    let there = read(json!({"suspend": false}));
    assert_eq!(
        body(&step, &there)[1],
        json!({"op": "test", "path": "/spec/suspend", "value": false})
    );
    let sent = call(&step, &there, MARK).expect("goes");
    assert_eq!(
        sent.path(false).as_deref(),
        Some("/apis/batch/v1/namespaces/nlp/jobs/x?fieldManager=stokehold")
    );
    assert_eq!(
        sent.path(true).as_deref(),
        Some("/apis/batch/v1/namespaces/nlp/jobs/x?fieldManager=stokehold&dryRun=All")
    );
    // Another client was quicker, in any way: the patch does not apply.
    let patch = body(&step, &there);
    for other in [
        read(json!({"suspend": true})),
        json!({"metadata": {"uid": "u-2"}, "spec": {"suspend": false}}),
    ] {
        assert!(applied(&other, &patch).is_err(), "{other}");
    }
}

#[test]
fn traps_of_jobs_are_refused_with_the_way_out() {
    let step = step(job(), Mutation::Suspend { value: true });
    let with = |metadata: Value, spec: Value| json!({"metadata": metadata, "spec": spec});
    let cases = [
        (
            with(
                json!({"ownerReferences": [{"kind": "JobSet", "name": "big", "controller": true}]}),
                json!({}),
            ),
            RefusalCode::OwnedByAnother,
            "act on JobSet big",
        ),
        (
            with(json!({"labels": {KUEUE_QUEUE: "q"}}), json!({})),
            RefusalCode::OwnedByAnother,
            "Workload",
        ),
        (
            with(json!({}), json!({"managedBy": "kueue.x-k8s.io/multikueue"})),
            RefusalCode::OwnedByAnother,
            "multikueue",
        ),
        (
            json!({"metadata": {}, "status": {"conditions": [{"type": "Complete", "status": "True"}]}}),
            RefusalCode::IllegalState,
            "has ended",
        ),
    ];
    for (now, code, words) in cases {
        let refusal = call(&step, &now, MARK).expect_err("a trap");
        assert_eq!(refusal.code, code, "{refusal}");
        assert!(refusal.to_string().contains(words), "{refusal}");
    }
    let own = with(
        json!({"ownerReferences": [{"kind": "CronJob", "name": "c"}]}),
        json!({"managedBy": "kubernetes.io/job-controller"}),
    );
    assert!(
        call(&step, &own, MARK).is_ok(),
        "an owner that controls nothing"
    );
}

#[test]
fn every_kind_is_suspended_where_its_api_has_the_field() {
    for (group, version, plural, kind, path) in [
        ("batch", "v1", "jobs", "Job", "/spec/suspend"),
        (
            "jobset.x-k8s.io",
            "v1alpha2",
            "jobsets",
            "JobSet",
            "/spec/suspend",
        ),
        (
            "trainer.kubeflow.org",
            "v1alpha1",
            "trainjobs",
            "TrainJob",
            "/spec/suspend",
        ),
        (
            "kubeflow.org",
            "v1",
            "pytorchjobs",
            "PyTorchJob",
            "/spec/runPolicy/suspend",
        ),
        (
            "kubeflow.org",
            "v2beta1",
            "mpijobs",
            "MPIJob",
            "/spec/runPolicy/suspend",
        ),
        ("ray.io", "v1", "rayclusters", "RayCluster", "/spec/suspend"),
    ] {
        let hold = step(
            object(group, version, plural, kind),
            Mutation::Suspend { value: true },
        );
        let before = read(json!({}));
        let after = applied(&before, &body(&hold, &before)).expect("applies");
        assert_eq!(after.pointer(path), Some(&json!(true)), "{kind}");
        assert!(is_done(&hold, Some(&after)) && !is_done(&hold, Some(&before)));
        let Inverse::Step(back) = inverse(&hold, &before) else {
            panic!("{kind} can be resumed");
        };
        let again = applied(&after, &body(&back, &after)).expect("applies");
        assert_eq!(again.pointer(path), Some(&json!(false)), "{kind}");
    }
    for (group, plural, kind, instead) in [
        (
            "leaderworkerset.x-k8s.io",
            "leaderworkersets",
            "LeaderWorkerSet",
            "scale it to 0",
        ),
        ("apps", "deployments", "Deployment", "scale it to 0"),
        ("batch.volcano.sh", "jobs", "Job", "AbortJob"),
        ("", "pods", "Pod", "evict"),
        ("example.org", "things", "Thing", "owns its pods"),
    ] {
        let it = object(group, "v1", plural, kind);
        let refusal = support(&it, &Mutation::Suspend { value: true }).expect_err("no such field");
        assert_eq!(refusal.code, RefusalCode::Unsupported);
        assert!(refusal.to_string().contains(instead), "{refusal}");
    }
}

#[test]
fn what_a_run_suspends_for_a_while_states_it_and_what_is_resumed_does_not() {
    use model::base::Moment;
    use model::fleet::run_hold::{HELD, RunHold};

    let hold = RunHold {
        run: Name::new("r1"),
        by: Name::new("ana"),
        since: Moment::from_seconds(0),
        until: Moment::from_seconds(60),
    };
    let mark = RunStep {
        hold: Some(&hold),
        ..MARK
    };
    let workload = object("kueue.x-k8s.io", "v1beta2", "workloads", "Workload");
    for (of, stop, go_on) in [
        (
            job(),
            Mutation::Suspend { value: true },
            Mutation::Suspend { value: false },
        ),
        (
            workload,
            Mutation::WorkloadActive { value: false },
            Mutation::WorkloadActive { value: true },
        ),
    ] {
        let (stop, go_on) = (step(of.clone(), stop), step(of, go_on));
        let before = read(json!({}));
        let patch = call(&stop, &before, mark).expect("can be sent").body;
        let held = applied(&before, &patch).expect("applies");
        let text = entry(&held, "annotations", HELD).expect("is stated");
        let read: RunHold = serde_json::from_str(text).expect("can be read");
        assert_eq!(read, hold);
        assert!(is_done(&stop, Some(&held)) && !is_done(&go_on, Some(&held)));
        let resumed = applied(&held, &body(&go_on, &held)).expect("applies");
        assert_eq!(entry(&resumed, "annotations", HELD), None);
        assert!(is_done(&go_on, Some(&resumed)));
        // An object that was resumed by another client still states the hold.
        let mut other = resumed.clone();
        other["metadata"]["annotations"][HELD] = text.into();
        assert!(!is_done(&go_on, Some(&other)));
        // A hold for good says that no run resumes it.
        let for_good = applied(&other, &body(&stop, &other)).expect("applies");
        assert_eq!(entry(&for_good, "annotations", HELD), None);
    }
}

#[test]
fn a_rayjob_is_suspended_only_with_a_cluster_of_its_own_that_it_shuts_down() {
    let hold = step(
        object("ray.io", "v1", "rayjobs", "RayJob"),
        Mutation::Suspend { value: true },
    );
    assert!(
        call(
            &hold,
            &read(json!({"shutdownAfterJobFinishes": true})),
            MARK
        )
        .is_ok()
    );
    for spec in [
        json!({}),
        json!({"shutdownAfterJobFinishes": true, "clusterSelector": {"a": "b"}}),
    ] {
        let refusal = call(&hold, &read(spec), MARK).expect_err("Ray refuses it");
        assert_eq!(refusal.code, RefusalCode::IllegalState);
    }
}

#[test]
fn kueue_has_its_mutations() {
    let workload = object("kueue.x-k8s.io", "v1beta2", "workloads", "Workload");
    let before = read(json!({"active": true, "priority": 10, "queueName": "q"}));
    for (mutation, path, after) in [
        (
            Mutation::WorkloadActive { value: false },
            "/spec/active",
            json!(false),
        ),
        (
            Mutation::WorkloadPriority { value: -5 },
            "/spec/priority",
            json!(-5),
        ),
    ] {
        let it = step(workload.clone(), mutation);
        let now = applied(&before, &body(&it, &before)).expect("applies");
        assert_eq!(now.pointer(path), Some(&after));
        assert!(is_done(&it, Some(&now)));
        let Inverse::Step(back) = inverse(&it, &before) else {
            panic!("can be taken back")
        };
        let again = applied(&now, &body(&back, &now)).expect("applies");
        assert_eq!(again, before);
        // Another client has changed it since: an undo would revert that change.
        assert!(check_fact(&back.guards[0], Some(&before)).is_err());
    }
    let over = json!({"status": {"conditions": [{"type": "Finished", "status": "True"}]}});
    let late = step(workload, Mutation::WorkloadActive { value: true });
    assert_eq!(
        call(&late, &over, MARK).expect_err("has ended").code,
        RefusalCode::IllegalState
    );
    for plural in ["clusterqueues", "localqueues"] {
        let queue = object("kueue.x-k8s.io", "v1beta1", plural, "Queue");
        let hold = step(
            queue,
            Mutation::StopPolicy {
                value: StopPolicy::Hold,
            },
        );
        let open = read(json!({}));
        let held = applied(&open, &body(&hold, &open)).expect("applies");
        assert_eq!(held["spec"]["stopPolicy"], "Hold");
        let Inverse::Step(back) = inverse(&hold, &open) else {
            panic!("can be taken back")
        };
        assert_eq!(
            back.mutation,
            Mutation::StopPolicy {
                value: StopPolicy::None
            }
        );
        assert!(is_done(&back, Some(&open)), "absent is None");
    }
    // A class can be changed on what runs, not added.
    let class = step(
        job(),
        Mutation::KueuePriorityClass {
            name: "high".into(),
        },
    );
    let running = read(json!({"suspend": false}));
    assert_eq!(
        call(&class, &running, MARK)
            .expect_err("Kueue refuses")
            .code,
        RefusalCode::IllegalState
    );
    let mut had = running.clone();
    had["metadata"]["labels"] = json!({KUEUE_CLASS: "low"});
    let after = applied(&had, &body(&class, &had)).expect("applies");
    assert_eq!(entry(&after, "labels", KUEUE_CLASS), Some("high"));
    assert!(matches!(
        inverse(&class, &read(json!({"suspend": true}))),
        Inverse::Never(_)
    ));
}

#[test]
fn volcano_gets_idempotent_commands() {
    let vcjob = object("batch.volcano.sh", "v1alpha1", "jobs", "Job");
    let abort = step(
        vcjob,
        Mutation::VolcanoCommand {
            action: VolcanoAction::AbortJob,
        },
    );
    let mut running = read(json!({}));
    running["status"]["state"]["phase"] = "Running".into();
    let sent = call(&abort, &running, MARK).expect("goes");
    assert_eq!(
        sent.path(false).as_deref(),
        Some("/apis/bus.volcano.sh/v1alpha1/namespaces/nlp/commands?fieldManager=stokehold")
    );
    assert_eq!(sent.body["metadata"]["name"], "stokehold-r1-2");
    assert_eq!(
        (
            &sent.body["action"],
            &sent.body["target"]["uid"],
            &sent.body["target"]["apiVersion"]
        ),
        (
            &json!("AbortJob"),
            &json!("u-1"),
            &json!("batch.volcano.sh/v1alpha1")
        )
    );
    let Inverse::Step(back) = inverse(&abort, &running) else {
        panic!("can be resumed")
    };
    let refusal = call(&back, &running, MARK).expect_err("it runs");
    assert_eq!(refusal.code, RefusalCode::IllegalState);
    running["status"]["state"]["phase"] = "Aborted".into();
    assert!(is_done(&abort, Some(&running)) && call(&back, &running, MARK).is_ok());
    let queue = object("scheduling.volcano.sh", "v1beta1", "queues", "Queue");
    let close = step(
        queue.clone(),
        Mutation::VolcanoCommand {
            action: VolcanoAction::CloseQueue,
        },
    );
    let sent = call(&close, &read(json!({})), MARK).expect("goes");
    assert_eq!(
        &*sent.object.namespace, "default",
        "a Command is namespaced, a Queue is not"
    );
    assert!(
        support(
            &queue,
            &Mutation::VolcanoCommand {
                action: VolcanoAction::AbortJob
            }
        )
        .is_err()
    );
    let weight = step(queue.clone(), Mutation::VolcanoQueueWeight { value: 4 });
    let after = applied(&read(json!({})), &body(&weight, &read(json!({})))).expect("applies");
    assert_eq!(after["spec"]["weight"], 4);
    assert!(support(&queue, &Mutation::VolcanoQueueWeight { value: 0 }).is_err());
    let group = object("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup");
    let class = step(
        group,
        Mutation::VolcanoPriorityClass {
            name: "high".into(),
        },
    );
    let mut owned = read(json!({}));
    assert!(call(&class, &owned, MARK).is_ok());
    owned["metadata"]["ownerReferences"] =
        json!([{"kind": "Job", "name": "v", "controller": true}]);
    let refusal = call(&class, &owned, MARK).expect_err("is written back");
    assert!(refusal.to_string().contains("the job v"), "{refusal}");
}

#[test]
fn kai_gets_the_label_of_the_owner_and_its_podgroup_is_not_written() {
    let mutation = Mutation::KaiPriorityClass {
        name: "train".into(),
    };
    let group = object("scheduling.run.ai", "v2alpha2", "podgroups", "PodGroup");
    assert!(support(&group, &mutation).is_err_and(|r| r.to_string().contains("pod-grouper")));
    let label = step(job(), mutation);
    let before = read(json!({}));
    let after = applied(&before, &body(&label, &before)).expect("applies");
    assert_eq!(entry(&after, "labels", KAI_CLASS), Some("train"));
    let Inverse::Step(back) = inverse(&label, &before) else {
        panic!("can be taken back")
    };
    let again = applied(&after, &body(&back, &after)).expect("applies");
    assert_eq!(entry(&again, "labels", KAI_CLASS), None);
    let queue = object("scheduling.run.ai", "v2", "queues", "Queue");
    let refusal = support(
        &queue,
        &Mutation::StopPolicy {
            value: StopPolicy::Hold,
        },
    )
    .expect_err("no hold");
    assert!(refusal.to_string().contains("limits"), "{refusal}");
}

#[test]
fn an_eviction_names_the_pod_it_means_and_spares_daemons() {
    let pod = object("", "v1", "pods", "Pod");
    let evict = step(
        pod,
        Mutation::Evict {
            grace_seconds: Some(9),
        },
    );
    let sent = call(&evict, &read(json!({})), MARK).expect("goes");
    assert_eq!(
        sent.path(true).as_deref(),
        Some("/api/v1/namespaces/nlp/pods/x/eviction?dryRun=All")
    );
    assert_eq!(
        sent.body["deleteOptions"],
        json!({"preconditions": {"uid": "u-1"}, "gracePeriodSeconds": 9})
    );
    for metadata in [
        json!({"annotations": {"kubernetes.io/config.mirror": "abc"}}),
        json!({"ownerReferences": [{"kind": "DaemonSet", "name": "d", "controller": true}]}),
    ] {
        assert!(call(&evict, &json!({"metadata": metadata}), MARK).is_err());
    }
    assert!(is_done(&evict, None), "gone");
    let other = json!({"metadata": {"uid": "u-2"}});
    assert!(is_done(&evict, Some(&other)), "another pod has its name");
    assert!(matches!(
        inverse(&evict, &read(json!({}))),
        Inverse::Never(_)
    ));
}

#[test]
fn guards_compare_facts_with_the_object_as_read() {
    let fact = |test| Fact {
        object: job(),
        test,
    };
    let now = read(json!({"suspend": true, "managedBy": null}));
    assert!(check_fact(&fact(Test::Exists), Some(&now)).is_ok());
    assert!(
        check_fact(&fact(Test::Exists), None).is_err_and(|why| why.contains("no longer exists"))
    );
    let other = json!({"metadata": {"uid": "u-2"}});
    assert!(
        check_fact(&fact(Test::Exists), Some(&other)).is_err_and(|why| why.contains("another"))
    );
    let is = |value: Value| {
        fact(Test::Is {
            path: "/spec/suspend".into(),
            value,
        })
    };
    assert!(check_fact(&is(json!(true)), Some(&now)).is_ok());
    let why = check_fact(&is(json!(false)), Some(&now)).expect_err("has changed");
    assert_eq!(why, "Job nlp/x: /spec/suspend is true and was false");
    let absent = |path: &str| fact(Test::Absent { path: path.into() });
    assert!(check_fact(&absent("/spec/managedBy"), Some(&now)).is_ok());
    assert!(check_fact(&absent("/spec/suspend"), Some(&now)).is_err());
    let version = |v: &str| {
        fact(Test::Version {
            resource_version: v.into(),
        })
    };
    assert!(
        check_fact(&version("7"), Some(&now)).is_ok()
            && check_fact(&version("8"), Some(&now)).is_err()
    );
}

#[test]
fn names_that_would_change_the_path_go_nowhere() {
    for name in ["..", "a/b", "a?b", "a%2fb", "", "a b", "a#b"] {
        let mut it = job();
        it.name = Name::new(name);
        assert_eq!(path(&it, false), None, "{name}");
    }
    let mut unknown = job();
    unknown.place.version = Name::default();
    assert_eq!(path(&unknown, false), None, "the version is not known");
}

#[test]
fn rights_name_the_verb_the_resource_and_where() {
    let evict = step(
        object("", "v1", "pods", "Pod"),
        Mutation::Evict {
            grace_seconds: None,
        },
    );
    let words: Vec<String> = rights(&evict).iter().map(ToString::to_string).collect();
    assert_eq!(words, ["create pods/eviction in nlp", "get pods in nlp"]);
    let queue = object("scheduling.volcano.sh", "v1beta1", "queues", "Queue");
    let close = step(
        queue,
        Mutation::VolcanoCommand {
            action: VolcanoAction::CloseQueue,
        },
    );
    let words: Vec<String> = rights(&close).iter().map(ToString::to_string).collect();
    assert_eq!(
        words,
        [
            "get queues.scheduling.volcano.sh",
            "create commands.bus.volcano.sh in default"
        ]
        .map(str::to_owned)
        .into_iter()
        .collect::<std::collections::BTreeSet<_>>()
        .into_iter()
        .collect::<Vec<_>>()
    );
}
