//! `govern` on the simulated cluster, whose Job controller and scheduler do the rest, in tokio's own time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use cluster::mutations::{GovernSeen, GovernWrite};
use exec::govern::{GovernOutcome, GovernWriter};
use exec::lease::{Lead, Leadership};
use http::Method;
use model::base::Moment;
use model::fleet::Fleet;
use model::fleet::govern::Governed;
use model::fleet::job::JobState;
use model::plan::Object;
use serde_json::{Value, json};
use sim::Service;
use source::api_stats::{ApiStats, Clock};
use stokehold::runtime::govern::Governor;
use stokehold::runtime::govern::metrics::ServedGovern;
use stokehold::runtime::status_server::ServedStatus;
use table::Facts;
use tokio::sync::watch;

use super::stage::{self, cluster, settings, ticking, world};
use super::{Fate, FaultyService, grant};

const JOBS: &str = "/apis/batch/v1/namespaces/nlp/jobs";

/// A simulated cluster without a queueing system for its free devices, and what was said about them.
struct Stage {
    service: Service,
    faulty: FaultyService,
    clock: Clock,
    /// A class of devices, of which so many are free.
    class: String,
    free: u32,
    log_lines: Vec<String>,
    /// Each second's devices that governed pods hold.
    held: Vec<u32>,
    /// Who leads, where several may.
    lead: Lead,
}

fn facts(fleet: Fleet) -> Facts {
    Facts::new("sim".into(), Arc::new(fleet), Arc::default())
}

impl Stage {
    async fn new() -> Self {
        let clock = ticking();
        let service = cluster(world(3, 40, false), clock.clone());
        let faulty = FaultyService::new(service.clone());
        let fleet = stage::fleet(&service);
        let mut free: BTreeMap<String, u32> = BTreeMap::new();
        for node in fleet.nodes.iter().filter(|node| !node.seen.unschedulable) {
            let idle = node.devices.iter().filter(|device| device.holder.is_none());
            let nvidia = idle.filter(|device| {
                device.resource.as_str() == "nvidia.com/gpu" && device.slices.is_empty()
            });
            for device in nvidia.filter(|_| node.seen.taints.is_empty()) {
                *free.entry(device.class.to_string()).or_default() += 1;
            }
        }
        let most = free.into_iter().max_by_key(|(_, count)| *count);
        let (class, free) = most.expect("a class with free devices");
        let stage = Self {
            service,
            faulty,
            clock,
            class,
            free,
            log_lines: Vec::new(),
            held: Vec::new(),
            lead: Lead::default(),
        };
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "stokehold"}});
        let (code, _) = stage
            .faulty
            .send(Method::POST, "/api/v1/namespaces", &namespace)
            .await;
        assert_eq!(code, 201);
        stage
    }

    async fn queues(&self, text: &str) {
        let path = "/api/v1/namespaces/stokehold/configmaps";
        let body = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "stokehold-queues", "namespace": "stokehold"}, "data": {"queues.toml": text},
        });
        let (code, _) = self.faulty.send(Method::POST, path, &body).await;
        if code == 409 {
            let path = format!("{path}/stokehold-queues");
            let change = json!({"data": {"queues.toml": text}});
            let (code, answer) = self.faulty.send(Method::PATCH, &path, &change).await;
            assert_eq!(code, 200, "{answer}");
        }
    }

    /// A queue `a` of so many devices.
    async fn quota(&self, nominal: u32) {
        let class = &self.class;
        self.queues(&format!(
            "[[queue]]\nname = \"a\"\npreemption = {{ within = \"lower-priority\" }}\n[[queue.quota]]\nflavor = \"{class}\"\nnominal = {nominal}\n"
        ))
        .await;
    }

    /// A Job of so many pods of one device each, as its owner makes it: not suspended.
    async fn submit(&self, name: &str, queue: Option<&str>, priority: i32, pods: u32) {
        let mut body = json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {
                "name": name, "namespace": "nlp", "labels": {"stokehold.dev/priority": priority.to_string()},
                "annotations": {"stokehold.dev/runtime-estimate": "5m"},
            },
            "spec": {
                "parallelism": pods, "completions": pods, "completionMode": "Indexed",
                "template": {"spec": {"restartPolicy": "Never", "containers": [{
                    "name": "a", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 1}},
                }]}},
            },
        });
        if let Some(queue) = queue {
            body["metadata"]["labels"]["stokehold.dev/queue"] = queue.into();
        }
        let (code, answer) = self.faulty.send(Method::POST, JOBS, &body).await;
        assert_eq!(code, 201, "{answer}");
    }

    async fn job(&self, name: &str) -> Value {
        self.faulty.get(&format!("{JOBS}/{name}")).await
    }

    async fn note(&self, name: &str, key: &str) -> Option<String> {
        let job = self.job(name).await;
        let note = &job["metadata"]["annotations"][format!("stokehold.dev/{key}")];
        note.as_str().map(str::to_owned)
    }

    async fn suspended(&self, name: &str) -> bool {
        self.job(name).await["spec"]["suspend"] == true
    }

    /// A leader, which knows nothing but what stands on the cluster, governs for so many seconds; then it is killed.
    async fn govern(&mut self, seconds: u64, writes: bool) {
        let first = facts(stage::fleet(&self.service));
        let (publish, pictures) = watch::channel(Some(Arc::new(first)));
        let writer = writes.then(|| {
            let grant = grant();
            let client = exec::client_for(
                &grant,
                self.faulty.clone(),
                ApiStats::new(self.clock.clone()),
            );
            GovernWriter::new(&grant, client)
        });
        let governor = Governor::new(pictures, writer, &settings(&[]));
        let mut governor = governor.only_while_leading(self.lead.clone());
        let served = ServedGovern(governor.status());
        let mut log_lines = Vec::new();
        let mut held = Vec::new();
        let service = &self.service;
        let watches = async {
            // A long time is looked at less closely.
            let step = if seconds > 100 { 10 } else { 1 };
            for _ in 0..seconds / step {
                tokio::time::sleep(Duration::from_secs(step)).await;
                let fleet = stage::fleet(service);
                let ours = |queue: &str| queue == "a" || queue == "nowhere";
                let governed = fleet
                    .jobs
                    .iter()
                    .filter(|job| job.govern.as_ref().is_some_and(|it| ours(&it.queue)));
                held.push(governed.map(|job| job.devices_allocated).sum());
                publish.send_replace(Some(Arc::new(facts(fleet))));
            }
        };
        let mut say = |words: &str| log_lines.push(words.to_owned());
        tokio::select! {
            ended = governor.run(std::future::pending(), &mut say) => ended.expect("it goes on"),
            () = watches => {}
        }
        let page = served.metrics();
        assert!(page.contains("stokehold_govern_decisions_total"), "{page}");
        self.log_lines.append(&mut log_lines);
        self.held.append(&mut held);
    }

    /// Paths of all that changed something but events, in order, with the moment.
    fn writes(&self) -> Vec<(Moment, String)> {
        let core = self.service.cluster().audit();
        let entries = core
            .entries()
            .filter(|entry| entry.has_changed() && entry.method == "PATCH");
        entries
            .map(|entry| (entry.at, entry.path.clone()))
            .collect()
    }
}

#[tokio::test(start_paused = true)]
async fn jobs_are_suspended_admitted_run_and_end_across_leaders() {
    let mut stage = Stage::new().await;
    assert!(stage.free >= 7, "{} free of {}", stage.free, stage.class);
    stage.quota(4).await;
    stage.submit("low", Some("a"), 0, 2).await;
    stage.submit("high", Some("a"), 5, 2).await;
    stage.submit("middle", Some("a"), 3, 2).await;
    stage.submit("lost", Some("nowhere"), 9, 1).await;
    stage.submit("other", None, 0, 1).await;
    for _ in 0..8 {
        // It is killed every five seconds.
        stage.govern(5, true).await;
    }
    let log = stage.log_lines.join("\n");
    assert!(
        !stage.suspended("high").await && !stage.suspended("middle").await,
        "{log}"
    );
    assert!(
        stage.suspended("low").await && stage.suspended("lost").await,
        "{log}"
    );
    let flavor = stage.note("high", "flavor").await;
    assert_eq!(
        flavor.map(|it| it.to_lowercase()),
        Some(stage.class.to_lowercase())
    );
    stage.govern(40, true).await;
    assert_eq!(stage.note("low", "position").await.as_deref(), Some("1"));
    let reason = stage.note("low", "reason").await.expect("a reason");
    assert!(
        reason.to_lowercase().contains("quota") || reason.contains("needs"),
        "{reason}"
    );
    let eta = stage.note("low", "eta").await.expect("an expected start");
    assert!(Moment::parse(&eta).is_some(), "{eta}");
    let reason = stage.note("lost", "reason").await.expect("a reason");
    assert!(reason.contains("there is no queue nowhere"), "{reason}");
    stage.govern(900, true).await;
    let fleet = stage::fleet(&stage.service);
    for name in ["low", "high", "middle"] {
        let mut jobs = fleet.jobs.iter();
        let job = jobs.find(|job| job.id.key.name.as_str() == name);
        let state = job.map(|job| job.state);
        assert!(
            matches!(state, None | Some(JobState::Done)),
            "{name} {state:?}\n{}",
            stage.log_lines.join("\n")
        );
        let admitted = stage.log_lines.iter().filter(|line| {
            line.contains("action=admit")
                && line.contains("outcome=done")
                && line.contains(&format!("nlp/{name} "))
        });
        assert_eq!(admitted.count(), 1, "{name}");
    }
    // Never more than the quota, though nobody but the leader kept it.
    let most = stage.held.iter().max().copied();
    assert!(most <= Some(4) && most >= Some(1), "{most:?}");
    assert!(stage.suspended("lost").await);
    // Nothing but the jobs with the label was written on.
    let ours: BTreeSet<String> = ["low", "high", "middle", "lost"]
        .map(|name| format!("{JOBS}/{name}?fieldManager=stokehold&timeout=4s"))
        .into();
    let written: BTreeSet<String> = stage
        .writes()
        .into_iter()
        .map(|(_, path)| path)
        .filter(|path| path.contains("fieldManager=stokehold"))
        .collect();
    assert_eq!(written, ours);
    let other = stage.job("other").await;
    assert!(other["metadata"]["annotations"]["stokehold.dev/reason"].is_null());
}

#[tokio::test(start_paused = true)]
async fn who_does_not_lead_writes_nothing_and_who_ceases_to_lead_stops() {
    let mut stage = Stage::new().await;
    stage.quota(4).await;
    stage.submit("one", Some("a"), 0, 2).await;
    let other = Leadership::held_by("other".into(), None, 0);
    let (leads, leadership) = watch::channel(other.clone());
    stage.lead = Lead::by(leadership);
    stage.govern(30, true).await;
    assert_eq!(stage.writes().len(), 0, "{}", stage.log_lines.join("\n"));
    let now = tokio::time::Instant::now();
    let soon = Some(now + Duration::from_secs(20));
    leads.send_replace(Leadership::held_by("own".into(), soon, 1));
    stage.govern(15, true).await;
    let log = stage.log_lines.join("\n");
    assert!(!stage.suspended("one").await, "{log}");
    // Its time is over, though nobody has said so.
    tokio::time::sleep(Duration::from_secs(6)).await;
    let before = stage.writes().len();
    assert!(before > 0);
    stage.submit("two", Some("a"), 0, 2).await;
    stage.govern(30, true).await;
    assert_eq!(
        stage.writes().len(),
        before,
        "{}",
        stage.log_lines.join("\n")
    );
    assert!(!stage.suspended("two").await);
}

/// The Lease may be lost between the reading of a job and the write.
#[tokio::test(start_paused = true)]
async fn a_write_is_not_sent_once_another_may_govern() {
    let mut stage = Stage::new().await;
    stage.quota(4).await;
    stage.submit("one", Some("a"), 0, 2).await;
    let now = tokio::time::Instant::now();
    let soon = Some(now + Duration::from_secs(600));
    let (leads, leadership) = watch::channel(Leadership::held_by("own".into(), soon, 1));
    stage.lead = Lead::by(leadership);
    let ceases = leads.clone();
    stage.faulty.rule(move |method: &Method, path: &str| {
        if *method == Method::GET && path.contains("/jobs/one") {
            ceases.send_replace(Leadership::held_by("other".into(), None, 0));
        }
        Fate::Pass
    });
    stage.govern(20, true).await;
    assert_eq!(stage.writes().len(), 0, "{}", stage.log_lines.join("\n"));
    stage.faulty.rule(|_: &Method, _: &str| Fate::Pass);
    assert!(!stage.suspended("one").await);
}

/// Somebody else may have led and written between two turns.
#[tokio::test(start_paused = true)]
async fn who_lost_the_lease_and_holds_it_again_takes_over_anew() {
    let mut stage = Stage::new().await;
    stage.quota(4).await;
    stage.submit("one", Some("a"), 0, 2).await;
    let soon = Some(tokio::time::Instant::now() + Duration::from_secs(600));
    let (leads, leadership) = watch::channel(Leadership::held_by("own".into(), soon, 1));
    stage.lead = Lead::by(leadership);
    let again = Arc::new(std::sync::Mutex::new(None));
    let (status, clock) = (Arc::clone(&again), stage.clock.clone());
    stage.faulty.rule(move |method: &Method, path: &str| {
        if *method == Method::GET && path.contains("/jobs/one") {
            status.lock().unwrap().get_or_insert_with(|| {
                leads.send_replace(Leadership::held_by("own".into(), soon, 2));
                clock()
            });
        }
        Fate::Pass
    });
    stage.govern(20, true).await;
    let again = again.lock().unwrap().expect("a write was about to be sent");
    let written: Vec<Moment> = stage.writes().into_iter().map(|(at, _)| at).collect();
    assert!(!written.is_empty(), "{}", stage.log_lines.join("\n"));
    let looked = written[0].since(again);
    assert!(
        looked >= Duration::from_secs(2).into(),
        "wrote after {looked:?}"
    );
}

/// Nobody waits for the room of a job that the server does not let start, and all are told where they stand.
#[tokio::test(start_paused = true)]
async fn a_job_that_may_not_be_changed_holds_nothing_up() {
    let policy = "jobs.batch \"first\" is forbidden: ValidatingAdmissionPolicy 'frozen' denied request: not on Fridays";
    for (code, words) in [(422, policy), (500, "a webhook fails")] {
        let mut stage = Stage::new().await;
        stage.quota(4).await;
        stage.submit("first", Some("a"), 9, 4).await;
        stage.submit("second", Some("a"), 5, 4).await;
        stage.submit("third", Some("a"), 0, 4).await;
        stage.govern(3, true).await;
        let answer = json!({"kind": "Status", "status": "Failure", "code": code, "message": words});
        stage.faulty.rule(move |method: &Method, path: &str| {
            match *method == Method::PATCH && path.contains("/jobs/first") {
                true => Fate::Answer(code, answer.clone()),
                false => Fate::Pass,
            }
        });
        stage.log_lines.clear();
        stage.govern(90, true).await;
        let log = stage.log_lines.join("\n");
        let tried = stage.log_lines.iter();
        let tried = tried.filter(|line| line.contains("nlp/first ")).count();
        assert!((1..=6).contains(&tried), "{code}: {tried}\n{log}");
        assert!(!stage.suspended("second").await, "{code}: {log}");
        assert!(!log.contains("action=preempt"), "{code}: {log}");
        let position = stage.note("third", "position").await;
        assert!(position.is_some(), "{code}: {log}");
        // Once it may be changed, it is its turn again.
        stage.faulty.rule(|_: &Method, _: &str| Fate::Pass);
        stage.govern(160, true).await;
        let log = stage.log_lines.join("\n");
        assert!(
            log.contains("action=admit outcome=done kind=Job job=nlp/first"),
            "{code}: {log}"
        );
    }
}

/// Kinds of one group may be served in other versions: MPIJob v2beta1 of mpi-operator beside PyTorchJob v1.
#[tokio::test(start_paused = true)]
async fn a_kind_is_written_on_in_the_version_that_has_it() {
    let stage = Stage::new().await;
    stage.faulty.rule(|method: &Method, path: &str| {
        let suspended = *method == Method::PATCH;
        let list = |names: &[&str]| {
            let all: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
            json!({"kind": "APIResourceList", "resources": all})
        };
        let version = |version: &str| json!({"groupVersion": format!("kubeflow.org/{version}"), "version": version});
        let answer = match path.split('?').next() {
            Some("/apis/kubeflow.org") => json!({
                "kind": "APIGroup", "name": "kubeflow.org", "versions": [version("v1"), version("v2beta1")],
                "preferredVersion": version("v1"),
            }),
            Some("/apis/kubeflow.org/v1") => list(&["pytorchjobs"]),
            Some("/apis/kubeflow.org/v2beta1") => list(&["mpijobs", "mpijobs/status"]),
            Some("/apis/kubeflow.org/v2beta1/namespaces/nlp/mpijobs/x") => json!({
                "metadata": {"name": "x", "namespace": "nlp", "labels": {"stokehold.dev/queue": "a"}},
                "spec": {"runPolicy": {"suspend": suspended}},
            }),
            _ => return Fate::Answer(404, json!({"kind": "Status", "message": "not found"})),
        };
        Fate::Answer(200, answer)
    });
    let client = exec::client_for(
        &grant(),
        stage.faulty.clone(),
        ApiStats::new(stage.clock.clone()),
    );
    let writer = GovernWriter::new(&grant(), client);
    let governed = Governed {
        queue: "a".into(),
        ..Governed::default()
    };
    let write = GovernWrite {
        object: Object::new("kubeflow.org", "", "mpijobs", "MPIJob", "x").within("nlp"),
        seen: GovernSeen::of(&governed),
        suspend: Some(true),
        notes: Vec::new(),
        nodes: None,
    };
    let outcome = writer.write(&write, &Lead::default().term()).await;
    assert_eq!(outcome, GovernOutcome::Written);
}

/// What is undone at once has been seen all the same.
#[tokio::test(start_paused = true)]
async fn suspending_an_admitted_job_delays_no_other_job() {
    let mut stage = Stage::new().await;
    stage.quota(4).await;
    stage.submit("first", Some("a"), 9, 4).await;
    stage.submit("second", Some("a"), 5, 4).await;
    let faulty = stage.faulty.clone();
    let undoes = tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let body = json!({"spec": {"suspend": true}});
            let path = format!("{JOBS}/first");
            faulty.send(Method::PATCH, &path, &body).await;
        }
    });
    stage.govern(20, true).await;
    undoes.abort();
    let log = stage.log_lines.join("\n");
    assert!(log.contains("action=hold"), "{log}");
    assert!(stage.suspended("first").await, "{log}");
    assert!(!stage.suspended("second").await, "{log}");
}

#[tokio::test(start_paused = true)]
async fn a_higher_priority_preempts_and_what_was_preempted_runs_later() {
    let mut stage = Stage::new().await;
    stage.quota(4).await;
    stage.submit("low", Some("a"), 0, 4).await;
    stage.govern(40, true).await;
    assert!(
        !stage.suspended("low").await,
        "{}",
        stage.log_lines.join("\n")
    );
    stage.submit("high", Some("a"), 5, 4).await;
    stage.govern(60, true).await;
    let log = stage.log_lines.join("\n");
    assert!(
        stage.suspended("low").await && !stage.suspended("high").await,
        "{log}"
    );
    assert_eq!(stage.note("low", "evictions").await.as_deref(), Some("1"));
    let preempted = stage
        .log_lines
        .iter()
        .filter(|line| line.contains("action=preempt"));
    assert_eq!(preempted.count(), 1, "{log}");
    stage.govern(900, true).await;
    let low = stage.job("low").await;
    let log = stage.log_lines.join("\n");
    let conditions = low["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    assert!(
        conditions.iter().any(|it| it["type"] == "Complete"),
        "{low}\n{log}"
    );
    assert!(stage.held.iter().all(|held| *held <= 4), "{:?}", stage.held);
    let events = stage.faulty.get("/api/v1/namespaces/nlp/events").await;
    let events = events["items"].as_array().cloned().unwrap_or_default();
    let reported = |reason: &str| {
        events
            .iter()
            .any(|event| event["reason"] == reason && event["involvedObject"]["name"] == "low")
    };
    assert!(reported("Admitted") && reported("Preempted"));
}

#[tokio::test(start_paused = true)]
async fn a_raised_quota_admits_and_a_broken_document_changes_nothing() {
    let mut stage = Stage::new().await;
    stage.quota(4).await;
    stage.submit("first", Some("a"), 0, 4).await;
    stage.submit("second", Some("a"), 0, 4).await;
    stage.govern(30, true).await;
    assert!(!stage.suspended("first").await && stage.suspended("second").await);
    stage.queues("[[queue]]\nname = \"a\"\nquota = 3\n").await;
    stage.govern(10, true).await;
    // A leader that begins now knows no queue at all, and decides nothing.
    let log = stage.log_lines.join("\n");
    assert!(
        log.contains("decides=nothing") && log.contains("queues.toml:3"),
        "{log}"
    );
    assert!(!stage.suspended("first").await && stage.suspended("second").await);
    stage.quota(8).await;
    stage.govern(20, true).await;
    assert!(
        !stage.suspended("second").await,
        "{}",
        stage.log_lines.join("\n")
    );
}

/// The one that decides and the one that does not both say that the document is invalid, while the queues of the last valid one
/// apply.
#[tokio::test(start_paused = true)]
async fn an_invalid_document_is_reported_at_once_by_every_process() {
    for leads in [true, false] {
        let stage = Stage::new().await;
        stage.quota(8).await;
        let first = stage::fleet(&stage.service);
        let (publish, pictures) = watch::channel(Some(Arc::new(facts(first.clone()))));
        let grant = grant();
        let faulty = ApiStats::new(stage.clock.clone());
        let client = exec::client_for(&grant, stage.faulty.clone(), faulty);
        let writer = GovernWriter::new(&grant, client);
        let governor = Governor::new(pictures, Some(writer), &settings(&[]));
        let term = match leads {
            true => Lead::default(),
            false => Lead::by(watch::channel(Leadership::held_by("other".into(), None, 0)).1),
        };
        let mut governor = governor.only_while_leading(term);
        let served = ServedGovern(governor.status());
        let mut log_lines: Vec<String> = Vec::new();
        let mut say = |words: &str| log_lines.push(words.to_owned());
        let steps = async {
            tokio::time::sleep(Duration::from_secs(3)).await;
            assert_eq!(served.degraded(), None);
            assert!(served.metrics().contains("stokehold_govern_queues_valid 1"));
            let mut fleet = first.clone();
            fleet.revision += 1;
            let state = fleet.govern.as_mut().expect("queues were read");
            Arc::make_mut(state).fault = Some("queues.toml:7: no such key".into());
            publish.send_replace(Some(Arc::new(facts(fleet))));
            tokio::time::sleep(Duration::from_secs(2)).await;
            assert_eq!(served.not_ready(), None, "it decides by the last valid one");
            let why = served.degraded().expect("the fault");
            assert!(
                why.contains(
                    "queues.toml:7: no such key; the queues of the last valid version stay in effect (since "
                ),
                "{why}"
            );
            assert!(served.metrics().contains("stokehold_govern_queues_valid 0"));
            publish.send_replace(Some(Arc::new(facts(first.clone()))));
            tokio::time::sleep(Duration::from_secs(2)).await;
            assert_eq!(served.degraded(), None);
        };
        tokio::select! {
            ended = governor.run(std::future::pending(), &mut say) => ended.expect("it goes on"),
            () = steps => {}
        }
        let log = log_lines.join("\n");
        assert_eq!(log.matches("queues=invalid").count(), 1, "{log}");
        assert_eq!(log.matches("queues=valid").count(), 1, "{log}");
        // Only the one that decides writes.
        let path = "/api/v1/namespaces/stokehold/events";
        let events = stage.faulty.get(path).await;
        let reported = events["items"].as_array().expect("a list").iter();
        let reported = reported
            .filter(|event| event["reason"] == "QueuesInvalid" && event["type"] == "Warning");
        assert_eq!(reported.count(), usize::from(leads), "{events}");
    }
}

#[tokio::test(start_paused = true)]
async fn at_most_twenty_writes_a_second_and_a_busy_server_is_left_alone() {
    let mut stage = Stage::new().await;
    stage.quota(0).await;
    for at in 0..90 {
        stage.submit(&format!("j{at:02}"), Some("a"), 0, 1).await;
    }
    stage.govern(20, true).await;
    let fleet = stage::fleet(&stage.service);
    let is_suspended =
        |job: &&Arc<model::fleet::job::Job>| job.govern.as_ref().is_some_and(|it| it.suspended);
    let suspended = fleet.jobs.iter().filter(is_suspended);
    assert_eq!(suspended.count(), 90, "{}", stage.log_lines.join("\n"));
    let mut seconds: BTreeMap<i64, u32> = BTreeMap::new();
    for (at, path) in stage.writes() {
        if path.contains("fieldManager=stokehold") {
            *seconds.entry(at.millis() / 1000).or_default() += 1;
        }
    }
    assert!(seconds.values().all(|count| *count <= 21), "{seconds:?}");
    let refuses = |method: &Method, _: &str| match *method == Method::PATCH {
        true => Fate::Answer(
            429,
            json!({"kind": "Status", "message": "too many requests"}),
        ),
        false => Fate::Pass,
    };
    stage.faulty.rule(refuses);
    stage.quota(4).await;
    stage.log_lines.clear();
    stage.govern(60, true).await;
    let busy = stage
        .log_lines
        .iter()
        .filter(|line| line.contains("outcome=busy"))
        .count();
    assert!(
        (3..=8).contains(&busy),
        "{busy}: {}",
        stage.log_lines.join("\n")
    );
}

#[tokio::test(start_paused = true)]
async fn observing_sends_nothing_that_changes_anything() {
    let mut stage = Stage::new().await;
    stage.quota(4).await;
    stage.submit("first", Some("a"), 0, 4).await;
    stage.submit("second", Some("a"), 0, 4).await;
    let before = stage
        .service
        .cluster()
        .audit()
        .entries()
        .filter(|entry| entry.is_mutating())
        .count();
    stage.govern(60, false).await;
    let after = stage
        .service
        .cluster()
        .audit()
        .entries()
        .filter(|entry| entry.is_mutating())
        .count();
    assert_eq!(before, after);
    let log = stage.log_lines.join("\n");
    assert!(log.contains("compared=\"kube-scheduler: "), "{log}");
    assert!(!stage.suspended("first").await && !stage.suspended("second").await);
}
