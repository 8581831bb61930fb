//! Several processes that wait for one Lease, over networks that fail.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use exec::lease::{Elector, LASTS, LEADS, Lead, Leadership, PACE, RESTS};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use kube::client::Body;
use model::base::Moment;
use serde_json::{Value, json};
use source::api_stats::ApiStats;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tower::service_fn;

use super::grant;

const OWN: &str = "/apis/coordination.k8s.io/v1/namespaces/ops/leases/watch";

/// One Lease, kept as an API server keeps it.
#[derive(Default)]
struct Server {
    lease: Option<Value>,
    version: u64,
    /// What every request is answered with, in place of an answer.
    refuses: Option<(u16, &'static str)>,
}

impl Server {
    fn answer(&mut self, method: &Method, path: &str, mut body: Value) -> (u16, Value) {
        if let Some((code, message)) = self.refuses {
            return (
                code,
                json!({"kind": "Status", "code": code, "message": message}),
            );
        }
        let held = self.lease.as_ref();
        match (method.as_str(), held) {
            ("GET", Some(lease)) if path == OWN => (200, lease.clone()),
            ("GET", None) if path == OWN => (404, json!({"message": "not found"})),
            ("POST", Some(_)) => (409, json!({"message": "exists"})),
            ("PUT", Some(lease))
                if lease["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"] =>
            {
                (409, json!({"message": "the object has been modified"}))
            }
            ("POST", None) | ("PUT", Some(_)) => {
                self.version += 1;
                body["metadata"]["resourceVersion"] = self.version.to_string().into();
                self.lease = Some(body.clone());
                (200, body)
            }
            _ => (405, json!({"message": format!("{method} {path}")})),
        }
    }

    fn spec(&self) -> Value {
        self.lease.as_ref().expect("a Lease")["spec"].clone()
    }
}

/// What the network of one process does to its requests: how long each takes there and back, and whether it arrives at all.
#[derive(Clone, Copy, Default)]
struct NetworkPath {
    there: u64,
    back: u64,
    cut: bool,
    cut_back: bool,
}

type Shared<T> = Arc<Mutex<T>>;

fn elector(
    server: &Shared<Server>,
    network: &Shared<NetworkPath>,
    name: &str,
    skew_seconds: i64,
) -> Elector {
    let (server, network) = (Arc::clone(server), Arc::clone(network));
    let service = service_fn(move |request: Request<Body>| {
        let (server, network) = (Arc::clone(&server), Arc::clone(&network));
        async move {
            let on = *network.lock().unwrap();
            sleep(Duration::from_millis(on.there)).await;
            if on.cut {
                std::future::pending::<()>().await;
            }
            let (method, path) = (request.method().clone(), request.uri().path().to_owned());
            let body = request.into_body().collect().await?.to_bytes();
            let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
            let (code, body) = server.lock().unwrap().answer(&method, &path, body);
            sleep(Duration::from_millis(on.back)).await;
            if on.cut_back {
                std::future::pending::<()>().await;
            }
            let mut response = Response::new(Full::from(body.to_string()));
            *response.status_mut() = code.try_into().unwrap();
            Ok::<_, tower::BoxError>(response)
        }
    });
    let clock = Arc::new(move || Moment::from_seconds(1_800_000_000 + skew_seconds));
    let lease = "ops/watch".parse().expect("a name");
    Elector::on(
        &grant(),
        service,
        ApiStats::new(clock),
        lease,
        name.to_owned(),
    )
}

struct Process {
    leadership: watch::Receiver<Leadership>,
    task: tokio::task::JoinHandle<()>,
    end: Option<tokio::sync::oneshot::Sender<()>>,
    network: Shared<NetworkPath>,
}

impl Process {
    fn start(server: &Shared<Server>, name: &str, skew_seconds: i64) -> Self {
        let network = Shared::default();
        let elector = elector(server, &network, name, skew_seconds);
        let leadership = elector.leadership();
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            let ended = async {
                let _ = ended.await;
            };
            elector.run(ended, |_| {}).await;
        });
        Self {
            leadership,
            task,
            end: Some(end),
            network,
        }
    }

    fn leads(&self) -> bool {
        self.leadership.borrow().leads()
    }
}

fn server() -> Shared<Server> {
    Shared::default()
}

/// Waits until `done`; gives how long that took.
async fn until(mut done: impl FnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < Duration::from_secs(120), "waited in vain");
        sleep(Duration::from_millis(20)).await;
    }
    begun.elapsed()
}

#[tokio::test(start_paused = true)]
async fn the_next_one_leads_after_the_first_was_killed_and_not_before() {
    let server = server();
    let first = Process::start(&server, "a", 0);
    until(|| first.leads()).await;
    // A clock that is half a minute ahead takes nothing away.
    let second = Process::start(&server, "b", 30);
    sleep(Duration::from_secs(60)).await;
    assert!(first.leads() && !second.leads());
    assert_eq!(second.leadership.borrow().holder, "a");
    assert_eq!(server.lock().unwrap().spec()["leaseTransitions"], 0);
    first.task.abort();
    let took = until(|| second.leads()).await;
    assert!(took >= LASTS - PACE, "{took:?}");
    assert!(took <= LASTS + 2 * PACE, "{took:?}");
    assert_eq!(server.lock().unwrap().spec()["leaseTransitions"], 1);
}

#[tokio::test(start_paused = true)]
async fn one_that_ends_lets_go() {
    let server = server();
    let mut first = Process::start(&server, "a", 0);
    until(|| first.leads()).await;
    let second = Process::start(&server, "b", -30);
    sleep(Duration::from_secs(10)).await;
    first.end.take().expect("runs").send(()).expect("runs");
    let took = until(|| second.leads()).await;
    assert!(took <= 2 * PACE, "{took:?}");
}

/// Who holds it and does not get on leaves it to another.
#[tokio::test(start_paused = true)]
async fn one_whose_work_is_stuck_lets_go_and_stays_away_for_a_while() {
    let server = server();
    let service = Shared::default();
    let stuck = Arc::new(std::sync::atomic::AtomicBool::default());
    let flag = Arc::clone(&stuck);
    let first = elector(&server, &service, "a", 0).unless(move || {
        let stuck = flag.load(std::sync::atomic::Ordering::SeqCst);
        stuck.then(|| "nothing was decided".to_owned())
    });
    let leadership = first.leadership();
    tokio::spawn(first.run(std::future::pending(), |_| {}));
    let lead = Lead::by(leadership.clone());
    until(|| leadership.borrow().leads()).await;
    let second = Process::start(&server, "b", 0);
    sleep(Duration::from_secs(10)).await;
    assert_eq!(lead.term().number(), 1, "however often it is renewed");
    stuck.store(true, std::sync::atomic::Ordering::SeqCst);
    let took = until(|| second.leads()).await;
    assert!(took <= 3 * PACE, "{took:?}");
    assert!(!leadership.borrow().leads());
    // It is well again, and does not take anything away; once the other has gone it leads again.
    stuck.store(false, std::sync::atomic::Ordering::SeqCst);
    second.task.abort();
    sleep(LASTS + 2 * PACE).await;
    assert!(!leadership.borrow().leads(), "it stays away for a while");
    sleep(RESTS).await;
    assert!(leadership.borrow().leads());
    assert_eq!(lead.term().number(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_ceases_before_another_begins() {
    let server = server();
    let first = Process::start(&server, "a", 0);
    until(|| first.leads()).await;
    let second = Process::start(&server, "b", 0);
    sleep(Duration::from_secs(10)).await;
    first.network.lock().unwrap().cut = true;
    let ceased = until(|| !first.leads()).await;
    assert!(ceased <= LEADS, "{ceased:?}");
    assert!(!second.leads());
    until(|| second.leads()).await;
    // It comes back, and does not take anything away.
    first.network.lock().unwrap().cut = false;
    sleep(Duration::from_secs(30)).await;
    assert!(second.leads() && !first.leads());
}

#[tokio::test(start_paused = true)]
async fn two_processes_never_lead_over_any_network_fault() {
    for seed in 0..20_u64 {
        let server = server();
        let all: Vec<Process> = (0..3_u8)
            .map(|at| Process::start(&server, &format!("p{at}"), i64::from(at) * 17 - 17))
            .collect();
        let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut next = move |below: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % below
        };
        let mut leaders = Vec::new();
        for step in 0..6000 {
            if step % 150 == 0 {
                for process in &all {
                    *process.network.lock().unwrap() = NetworkPath {
                        there: next(3000),
                        back: next(3000),
                        cut: next(5) == 0,
                        cut_back: next(5) == 0,
                    };
                }
            }
            sleep(Duration::from_millis(100)).await;
            let leads: Vec<usize> = (0..all.len()).filter(|at| all[*at].leads()).collect();
            assert!(leads.len() <= 1, "seed {seed}, step {step}: {leads:?} lead");
            if let [one] = leads.as_slice()
                && leaders.last() != Some(one)
            {
                leaders.push(*one);
            }
        }
        assert!(leaders.len() > 1, "seed {seed}: nobody took over");
        for process in all {
            process.task.abort();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_reason_for_not_acquiring_the_lease_is_reported_once() {
    let server = server();
    server.lock().unwrap().refuses = Some((403, "leases is forbidden"));
    let elector = elector(&server, &Shared::default(), "a", 0);
    let leadership = elector.leadership();
    let log = Rc::new(RefCell::new(Vec::new()));
    let heard = Rc::clone(&log);
    let end = sleep(Duration::from_secs(20));
    let say = move |words: &str| heard.borrow_mut().push(words.to_owned());
    elector.run(end, say).await;
    assert!(!leadership.borrow().leads());
    assert_eq!(
        *log.borrow(),
        [
            "does not lead: waits for the Lease ops/watch",
            "the Lease ops/watch cannot be acquired or renewed: leases is forbidden",
        ]
    );
}
