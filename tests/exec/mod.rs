//! Plans carried out on the simulated cluster, over a service that may fail in any way.

mod actions;
mod behind;
mod chaos;
mod churn;
pub mod command_line;
mod commands;
mod faults;
mod faulty_service;
mod govern;
mod identity;
mod interrupted;
mod keyboard;
mod killed;
mod lease;
mod looks;
mod on_screen;
mod pictures;
mod plan_outcomes;
mod randomly;
mod rewind;
pub mod stage;
#[path = "../sim/tiny_world.rs"]
mod tiny_world;
mod unblock;

use std::sync::Arc;

use exec::{
    Journal, Run, RunContext, RunEnd, RunError, Writer, WritingClient, client_for, name_of_run,
    runs,
};
use http::{Method, Request};
use model::base::{Moment, Name};
use model::plan::{Fact, Intent, Mutation, Object, Plan, Step, Test, Verb};
use plan::grant::{Approved, Confirmation, Confirmed, Grant};
use serde_json::{Value, json};
use settings::{Inputs, load};
use sim::{Service, User, embed};
use source::api_stats::ApiStats;
use tokio::sync::watch;

use faulty_service::{Fate, FaultyService};

impl FaultyService {
    /// What arrived and changed something, in order.
    fn writes(&self) -> Vec<String> {
        let seen = self.seen.lock().unwrap();
        let writes = seen.iter().filter(|(method, path, code)| {
            *method != Method::GET
                && *code < 300
                && !path.contains("/events")
                && !path.contains("selfsubject")
                && !path.contains("dryRun")
        });
        writes.map(|(_, path, _)| path.clone()).collect()
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> (u16, Value) {
        use http_body_util::BodyExt;
        let kind = match method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", kind)
            .body(http_body_util::Full::new(bytes::Bytes::from(
                body.to_string(),
            )))
            .expect("a request");
        let (parts, body) = self.inner.answer(request).await.into_parts();
        let bytes = body.collect().await.expect("a body").to_bytes();
        let value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        (parts.status.as_u16(), value)
    }

    async fn get(&self, path: &str) -> Value {
        self.send(Method::GET, path, &Value::Null).await.1
    }
}

/// A tiny cluster whose clock stands still until it is moved.
fn tiny() -> FaultyService {
    let clock = Arc::new(|| Moment::from_seconds(0));
    FaultyService::new(embed(Box::new(tiny_world::Tiny::new()), clock, 0.0, 7).expect("a cluster"))
}

fn grant() -> Grant {
    let inputs = Inputs {
        flags: vec![("--write".into(), "write".into(), "true".into())],
        ..Inputs::default()
    };
    let settings = load(&inputs).expect("is right");
    Grant::from_settings(&settings, &Name::new("tiny"), false).expect("granted")
}

/// One operator: a grant, a client, a journal.
struct Operator {
    grant: Grant,
    client: WritingClient,
    journal: Journal,
    folder: tempfile::TempDir,
}

impl Operator {
    fn new(faulty: &FaultyService) -> Self {
        Self::at(faulty, stage::ticking())
    }

    /// One whose machine has this clock.
    fn at(faulty: &FaultyService, clock: source::api_stats::Clock) -> Self {
        let grant = grant();
        let client = client_for(&grant, faulty.clone(), ApiStats::new(clock));
        let folder = tempfile::TempDir::new().expect("a folder");
        Self {
            grant,
            client,
            journal: Journal::new(folder.path()),
            folder,
        }
    }

    fn approve(&self, plan: Plan) -> Approved {
        let consent = Confirmation {
            reason: "a test".into(),
            confirmed: Confirmed::ByFlag,
        };
        self.grant.approve(plan, consent).expect("is confirmed")
    }

    async fn context<T>(
        &self,
        stop: watch::Receiver<bool>,
        act: impl AsyncFnOnce(RunContext<'_>) -> T,
    ) -> T {
        let writer = Writer::new(&self.grant, self.client.clone());
        let context = RunContext {
            writer: &writer,
            journal: &self.journal,
            local: "tester".into(),
            clock: &stage::begin,
            progress: watch::Sender::new(None),
            stop,
        };
        act(context).await
    }

    /// Carries out a plan; the run's name and its end.
    async fn carry_out(&self, plan: Plan) -> (String, Result<RunEnd, RunError>) {
        let approved = self.approve(plan);
        let run = name_of_run(stage::begin());
        let (_stop, stopped) = watch::channel(false);
        let end = self
            .context(stopped, async |context| {
                context.carry_out(&approved, &run).await
            })
            .await;
        (run, end)
    }

    async fn resume_run(&self, run: &str) -> Result<RunEnd, RunError> {
        let (_stop, stopped) = watch::channel(false);
        self.context(stopped, async |context| {
            context.resume_run(&self.grant, run).await
        })
        .await
    }

    fn runs(&self) -> Vec<Run> {
        runs(&self.journal.read().expect("a journal"))
    }
}

fn job(name: &str) -> Object {
    Object::new("batch", "v1", "jobs", "Job", name).within("nlp")
}

/// Makes jobs, and the plan that suspends each in turn.
async fn jobs(faulty: &FaultyService, names: &[&str]) -> Plan {
    let mut steps = Vec::new();
    for name in names {
        let body = json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "nlp"},
            "spec": {"suspend": false, "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "i"}]}}},
        });
        let path = "/apis/batch/v1/namespaces/nlp/jobs";
        let (code, made) = faulty.send(Method::POST, path, &body).await;
        assert_eq!(code, 201, "{made}");
        let object = job(name).with_uid(made["metadata"]["uid"].as_str().expect("a uid"));
        let mut step = Step::new(
            Verb::Suspend,
            object.clone(),
            Mutation::Suspend { value: true },
        );
        step.guards.push(Fact {
            object,
            test: Test::Is {
                path: "/spec/suspend".into(),
                value: false.into(),
            },
        });
        steps.push(step);
    }
    let mut plan = Plan::new(
        "suspend them",
        Intent::Hold {
            target: "nlp".into(),
        },
        Moment::from_seconds(0),
    );
    plan.steps = steps;
    plan
}

async fn is_suspended(faulty: &FaultyService, name: &str) -> bool {
    let now = faulty
        .get(&format!("/apis/batch/v1/namespaces/nlp/jobs/{name}"))
        .await;
    now["spec"]["suspend"] == true
}
