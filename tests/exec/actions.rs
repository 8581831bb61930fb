//! Hold, resume and reprioritise end to end on the simulated fleet, and what a read-only session sends.

use std::time::Duration;

use cluster::mutations::rights;
use exec::request::missing;
use exec::{Looker, Probe, RunEnd, checks};
use http::Method;
use model::plan::Outcome;
use plan::{ActionTarget, hold, reprioritise, resume};
use sim::world::{Options, World};
use source::client::{Connection, client_for as reading};

use super::stage::ticking;

use super::*;

/// KAI's pod-grouper watches pods, not their owners: the class of a job counts once a pod was touched.
#[tokio::test(start_paused = true)]
async fn a_job_of_kai_is_reprioritised_when_its_pod_group_says_so() {
    let mut options = Options::new(Moment::parse("2026-11-21T08:00:00Z").expect("a moment"));
    options.nodes = Some(200);
    let cluster = embed(Box::new(World::new(options)), ticking(), 100.0, 1).expect("a cluster");
    let service = FaultyService::new(cluster);
    let operator = Operator::new(&service);
    let group = async |service: &FaultyService| {
        let path = "/apis/scheduling.run.ai/v2alpha2/namespaces/speech/podgroups";
        let list = service.get(path).await;
        let items = list["items"].as_array().expect("a list").clone();
        let mut own = items
            .into_iter()
            .filter(|item| item["metadata"]["ownerReferences"][0]["name"] == "diarize-l");
        own.next().expect("its PodGroup")
    };
    let class = async |service: &FaultyService| {
        let group = group(service).await;
        group["spec"]["priorityClassName"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    assert_eq!(class(&service).await, "research");
    let now = service.inner.cluster().now();
    let target = look(&service, "speech/diarize-l").await;
    let bare = reprioritise::plan(subject(&target), "research-high", now).expect("can be changed");
    let mut plan = bare.clone();
    let looker = Looker::new(connection(&service).client, "default");
    looker.settle(&mut plan).await;
    let [label, touch] = &plan.steps[..] else {
        panic!("{:?}", plan.steps);
    };
    assert_eq!(
        (&*label.object.kind, &*touch.object.kind),
        ("PyTorchJob", "Pod")
    );
    // The label alone changes nothing at KAI.
    let (run, end) = operator.carry_out(bare).await;
    assert_eq!(end.expect("runs"), RunEnd::Done);
    assert_eq!(class(&service).await, "research");
    let undo = async |run: &str| {
        let past = operator.runs().into_iter().find(|known| known.name == run);
        let now = service.inner.cluster().now();
        let mut undo = past.expect("a run").undo(now).expect("can be taken back");
        looker.settle(&mut undo).await;
        let (_, end) = operator.carry_out(undo).await;
        assert_eq!(end.expect("runs"), RunEnd::Done);
    };
    undo(&run).await;
    let (run, end) = operator.carry_out(plan).await;
    assert_eq!(end.expect("runs"), RunEnd::Done);
    assert_eq!(class(&service).await, "research-high");
    // So does the undo.
    undo(&run).await;
    assert_eq!(class(&service).await, "research");
}

/// The simulated fleet; its time runs a hundred times as fast.
fn fleet() -> FaultyService {
    let at = Moment::parse("2026-11-21T08:00:00Z").expect("a moment");
    let mut options = Options::new(at);
    options.nodes = Some(24);
    let world = World::new(options);
    let clock = ticking();
    FaultyService::new(embed(Box::new(world), clock, 100.0, 1).expect("a cluster"))
}

fn connection(service: &FaultyService) -> Connection {
    reading(service.clone(), "tiny", ticking(), [])
}

/// A job under Kueue that runs, and one that waits: `NAMESPACE/NAME` each.
async fn workloads(service: &FaultyService) -> (String, String) {
    let list = service.get("/apis/kueue.x-k8s.io/v1beta1/workloads").await;
    let items = list["items"].as_array().expect("workloads");
    let with = |status: &str| {
        let found = items.iter().find(|item| {
            let conditions = item["status"]["conditions"].as_array();
            let is = |kind: &str, status: &str| {
                conditions.is_some_and(|all| {
                    all.iter()
                        .any(|c| c["type"] == kind && c["status"] == status)
                })
            };
            let job = item["metadata"]["ownerReferences"][0]["kind"] == "Job";
            job && is("QuotaReserved", status) && !is("Finished", "True")
        });
        let found = found.unwrap_or_else(|| panic!("no workload with {status}"));
        let owner = found["metadata"]["ownerReferences"][0]["name"].as_str();
        let namespace = found["metadata"]["namespace"].as_str();
        format!("{}/{}", namespace.expect("one"), owner.expect("one"))
    };
    (with("True"), with("False"))
}

async fn look(service: &FaultyService, name: &str) -> ActionTarget {
    let looker = Looker::new(connection(service).client, "default");
    match looker.target(name).await {
        Ok(target) => target,
        Err(unseen) => panic!("{name}: {unseen:?}"),
    }
}

fn subject(target: &ActionTarget) -> &plan::JobSubject {
    match target {
        ActionTarget::Job(subject) => subject,
        ActionTarget::Queue(queue) => panic!("{} is a queue", queue.object),
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_under_kueue_is_put_on_hold_undone_and_reprioritised() {
    let service = fleet();
    let operator = Operator::new(&service);
    let (running, waiting) = workloads(&service).await;
    let now = service.inner.cluster().now();
    let before = look(&service, &running).await;
    let plan = hold::plan(&before, &running, now).expect("can be held");
    let (run, end) = operator.carry_out(plan).await;
    assert_eq!(end.expect("runs"), RunEnd::Done);
    let held = look(&service, &running).await;
    assert!(!subject(&held).is_running(), "its quota is free");
    let workload = &subject(&held).workloads[0];
    assert_eq!(workload.now["spec"]["active"], false);
    // Undo restores every field that was written.
    let past = operator.runs().into_iter().find(|known| known.name == run);
    let undo = past.expect("a run").undo(now).expect("can be taken back");
    let (_, end) = operator.carry_out(undo).await;
    assert_eq!(end.expect("runs"), RunEnd::Done);
    let after = look(&service, &running).await;
    let spec = |target: &ActionTarget| {
        let workload = &subject(target).workloads[0];
        workload.now["spec"].clone()
    };
    assert_eq!(spec(&after), spec(&before));

    let target = look(&service, &waiting).await;
    let plan = reprioritise::plan(subject(&target), "4321", now).expect("can be changed");
    let (_, end) = operator.carry_out(plan).await;
    assert_eq!(end.expect("runs"), RunEnd::Done);
    let target = look(&service, &waiting).await;
    assert_eq!(spec(&target)["priority"], 4321);
}

#[tokio::test(start_paused = true)]
async fn a_queue_is_put_on_hold_and_resumed() {
    let service = fleet();
    let operator = Operator::new(&service);
    let now = service.inner.cluster().now();
    let stop = async |service: &FaultyService| match look(service, "nlp").await {
        ActionTarget::Queue(queue) => {
            assert_eq!(&*queue.object.kind, "ClusterQueue");
            queue.now["spec"]["stopPolicy"].clone()
        }
        ActionTarget::Job(_) => panic!("is a queue"),
    };
    let target = look(&service, "nlp").await;
    let plan = hold::plan(&target, "nlp", now).expect("can be held");
    assert_eq!(
        operator.carry_out(plan).await.1.expect("runs"),
        RunEnd::Done
    );
    assert_eq!(stop(&service).await, "Hold");
    let target = look(&service, "nlp").await;
    let plan = resume::plan(&target, "nlp", now).expect("can go on");
    assert_eq!(
        operator.carry_out(plan).await.1.expect("runs"),
        RunEnd::Done
    );
    assert_eq!(stop(&service).await, "None");
}

#[tokio::test(start_paused = true)]
async fn checks_list_what_would_fail_and_what_rbac_hides() {
    let service = fleet();
    let operator = Operator::new(&service);
    let (running, _) = workloads(&service).await;
    let now = service.inner.cluster().now();
    let plan = hold::plan(&look(&service, &running).await, &running, now).expect("can be held");
    let client = connection(&service).client;
    let probe = Probe::new(&operator.grant, operator.client.clone());
    let outcomes = |checks: &[model::plan::PlanCheck]| {
        checks.iter().map(|check| check.outcome).collect::<Vec<_>>()
    };
    let all = checks(&plan, &client, Some(&probe)).await;
    assert_eq!(outcomes(&all), [Outcome::Ok, Outcome::Ok], "{all:?}");
    let read_only = checks(&plan, &client, None).await;
    assert_eq!(outcomes(&read_only), [Outcome::Ok, Outcome::NotChecked]);
    assert!(service.writes().is_empty(), "a dry run writes nothing");
    let mut viewer = service.clone();
    viewer.inner = viewer.inner.signed(User::Viewer);
    let client = connection(&viewer).client;
    let refused = checks(&plan, &client, None).await;
    assert_eq!(refused[0].outcome, Outcome::Failed);
    assert!(
        refused[0]
            .sentence
            .contains("patch workloads.kueue.x-k8s.io"),
        "{refused:?}"
    );
    let lacking = missing(&client, &rights(&plan.steps[0])).await;
    assert_eq!(lacking.len(), 1, "reading is allowed: {lacking:?}");
    // A plan that a step of it would fail now is said to.
    let mut late = plan.clone();
    late.steps[0].object.name = Name::new("no-such-workload");
    let failed = checks(&late, &connection(&service).client, Some(&probe)).await;
    assert_eq!(failed[1].outcome, Outcome::Failed, "{failed:?}");
    // Who may only read is told as well.
    let failed = checks(&late, &connection(&service).client, None).await;
    assert_eq!(failed[1].outcome, Outcome::Failed, "{failed:?}");
    // Many are tried side by side; what is told is the first step that fails.
    let mut many = plan.clone();
    many.steps = vec![plan.steps[0].clone(); 12];
    for at in [3, 4, 9] {
        many.steps[at].object.name = Name::new("no-such-workload");
    }
    let failed = checks(&many, &connection(&service).client, Some(&probe)).await;
    assert!(failed[1].sentence.starts_with("step 4,"), "{failed:?}");
}

#[tokio::test(start_paused = true)]
async fn a_read_only_session_sends_nothing_that_changes_anything() {
    let service = fleet();
    let (running, _) = workloads(&service).await;
    service.seen.lock().unwrap().clear();
    let client = connection(&service).client;
    let now = service.inner.cluster().now();
    for name in [&*running, "nlp", "nlp/none"] {
        let looker = Looker::new(client.clone(), "default");
        if let Ok(target) = looker.target(name).await
            && let Ok(plan) = hold::plan(&target, name, now)
        {
            checks(&plan, &client, None).await;
        }
    }
    // What mutations would send is refused before it reaches the service.
    let patch = http::Request::patch("/apis/kueue.x-k8s.io/v1beta1/clusterqueues/nlp")
        .body(kube::client::Body::empty())
        .expect("a request");
    let refused = client
        .send(patch)
        .await
        .expect_err("the read gate refuses it");
    assert!(format!("{refused:?}").contains("PATCH"), "{refused:?}");
    tokio::time::sleep(Duration::from_millis(50)).await;
    let seen = service.seen.lock().unwrap();
    assert!(seen.len() > 10, "it has looked around");
    for (method, path, _) in seen.iter() {
        let harmless = *method == Method::GET || path.contains("selfsubject");
        assert!(harmless, "{method} {path}");
    }
}
