//! How many pods a HorizontalPodAutoscaler wants is what the real controller makes of the same metrics.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use model::base::{Moment, Names};
use model::fleet::observe::{Observation, Table};
use model::fleet::replicas::{Pods, Steady, desired, why_steady};
use model::fleet::scaling::PodScaler;
use serde_json::{Value, json};

use super::acting::Stage;
use super::metric_apis::MetricApis;
use super::plane::{PATIENCE, Wait, kubectl, rows};
use super::truth::{holds, list, text};

/// Namespace and node of the test.
const NAME: &str = "replicas";

/// What a metric is of, and its values.
enum Source {
    /// CPU of the pods in thousandths of a core, one after the other and again from the first; each requests 100.
    Cpu(&'static [u32]),
    /// Memory of the pods, MiB; each requests 100.
    Memory(&'static [u32]),
    /// A metric of the pods.
    Pods(&'static [&'static str]),
    /// A metric of a Service.
    Object(&'static str),
    /// Series outside the cluster; without any the metric is missing.
    External(&'static [&'static str]),
}
use Source::{Cpu, External, Memory, Object};

/// A Deployment with its autoscaler.
struct Case {
    name: &'static str,
    replicas: u32,
    /// Each with its target: `50%` is a utilization, `10` a mean, `=10` a value.
    metrics: Vec<(Source, &'static str)>,
    min: u32,
    max: u32,
    behavior: Value,
    /// Pods that are not ready.
    unready: u32,
    /// Pods that are pending.
    pending: u32,
    /// Pods without a metric.
    silent: u32,
}

/// At most twice as many or four more at once, and down at once.
fn case(name: &'static str, replicas: u32, metrics: Vec<(Source, &'static str)>) -> Case {
    Case {
        name,
        replicas,
        metrics,
        min: 1,
        max: 40,
        behavior: json!({"scaleDown": {"stabilizationWindowSeconds": 0}}),
        unready: 0,
        pending: 0,
        silent: 0,
    }
}

fn one(name: &'static str, replicas: u32, source: Source, target: &'static str) -> Case {
    case(name, replicas, vec![(source, target)])
}

fn bounded(
    name: &'static str,
    replicas: u32,
    value: &'static [&'static str],
    min: u32,
    max: u32,
) -> Case {
    Case {
        min,
        max,
        ..one(name, replicas, External(value), "=10")
    }
}

fn behaved(
    name: &'static str,
    replicas: u32,
    value: &'static [&'static str],
    behavior: Value,
) -> Case {
    Case {
        behavior,
        ..one(name, replicas, External(value), "=100")
    }
}

fn cases() -> Vec<Case> {
    let of_pods = Source::Pods;
    let policy =
        |kind: &str, value: u32| json!({"type": kind, "value": value, "periodSeconds": 60});
    let up = |rules: Value| json!({"scaleUp": rules});
    let down = |mut rules: Value| {
        rules["stabilizationWindowSeconds"] = 0.into();
        json!({"scaleDown": rules})
    };
    let not_ready = |case: Case, unready: u32, pending: u32| Case {
        unready,
        pending,
        ..case
    };
    let silent = |case: Case| Case { silent: 1, ..case };
    vec![
        one("cpu-up", 3, Cpu(&[100]), "50%"),
        one("cpu-down", 4, Cpu(&[20]), "50%"),
        one("cpu-within", 3, Cpu(&[54]), "50%"),
        one("cpu-uneven", 3, Cpu(&[31, 77, 100]), "60%"),
        one("cpu-value", 2, Cpu(&[90]), "40m"),
        one("memory", 2, Memory(&[90]), "50%"),
        one("memory-value", 2, Memory(&[96]), "64Mi"),
        one("memory-down", 3, Memory(&[30, 31]), "90%"),
        one("pods-up", 3, of_pods(&["12", "14", "13500m"]), "10"),
        one("pods-down", 3, of_pods(&["3"]), "10"),
        // The bounds of the tolerance are inclusive.
        one("pods-upper-bound", 3, of_pods(&["11"]), "10"),
        one("pods-lower-bound", 3, of_pods(&["9"]), "10"),
        one("pods-above-bound", 3, of_pods(&["11001m"]), "10"),
        one("pods-milli", 2, of_pods(&["700m", "701m"]), "500m"),
        // 25 times 1.12 is a little more than 28 in floating point.
        one("pods-product", 25, of_pods(&["112"]), "100"),
        one("external-value", 3, External(&["50"]), "=30"),
        one("external-sum", 2, External(&["20", "25"]), "=30"),
        one("external-mean-down", 3, External(&["20"]), "10"),
        one("external-mean-up", 2, External(&["45"]), "10"),
        one("external-mean-within", 3, External(&["31"]), "10"),
        one("external-mean-bound", 3, External(&["33"]), "10"),
        one("object-value", 2, Object("15"), "=10"),
        one("object-mean", 2, Object("35"), "10"),
        case(
            "most-of-two",
            3,
            vec![(Cpu(&[60]), "50%"), (External(&["30"]), "5")],
        ),
        case(
            "most-of-three",
            2,
            vec![
                (of_pods(&["30"]), "10"),
                (Memory(&[10]), "50%"),
                (External(&["4"]), "=10"),
            ],
        ),
        case(
            "missing-up",
            3,
            vec![(of_pods(&[]), "10"), (External(&["20"]), "=10")],
        ),
        case(
            "missing-down",
            3,
            vec![(External(&["2"]), "=10"), (of_pods(&[]), "10")],
        ),
        one("missing", 2, External(&[]), "=10"),
        bounded("at-max", 4, &["40"], 1, 4),
        bounded("to-max", 2, &["40"], 1, 3),
        bounded("at-min", 2, &["1"], 2, 9),
        bounded("to-min", 4, &["1"], 2, 9),
        bounded("below-min", 1, &["90"], 3, 9),
        bounded("above-max", 4, &["1"], 1, 2),
        behaved("doubles", 3, &["950"], Value::Null),
        behaved("four", 1, &["950"], Value::Null),
        behaved("stabilizes", 3, &["20"], Value::Null),
        behaved(
            "up-four",
            2,
            &["950"],
            json!({"scaleDown": {"stabilizationWindowSeconds": 0}}),
        ),
        behaved(
            "up-pods",
            4,
            &["300"],
            up(json!({"policies": [policy("Pods", 1)]})),
        ),
        behaved(
            "up-least",
            4,
            &["300"],
            up(
                json!({"selectPolicy": "Min", "policies": [policy("Pods", 3), policy("Percent", 40)]}),
            ),
        ),
        behaved(
            "up-most",
            4,
            &["300"],
            up(json!({"policies": [policy("Pods", 3), policy("Percent", 40)]})),
        ),
        behaved(
            "up-off",
            2,
            &["300"],
            up(json!({"selectPolicy": "Disabled"})),
        ),
        behaved(
            "down-percent",
            4,
            &["10"],
            down(json!({"policies": [policy("Percent", 30)]})),
        ),
        behaved(
            "down-least",
            4,
            &["10"],
            down(
                json!({"selectPolicy": "Min", "policies": [policy("Pods", 1), policy("Percent", 50)]}),
            ),
        ),
        behaved(
            "down-off",
            3,
            &["20"],
            down(json!({"selectPolicy": "Disabled"})),
        ),
        behaved(
            "tolerance-up",
            3,
            &["105"],
            up(json!({"tolerance": "0.02"})),
        ),
        behaved(
            "tolerance-down",
            3,
            &["55"],
            down(json!({"tolerance": "500m"})),
        ),
        not_ready(one("unready-cpu-up", 3, Cpu(&[100]), "50%"), 1, 0),
        not_ready(one("unready-cpu-same", 3, Cpu(&[60]), "50%"), 1, 0),
        not_ready(one("unready-cpu-down", 3, Cpu(&[20]), "50%"), 1, 0),
        not_ready(one("unready-external", 3, External(&["20"]), "=10"), 1, 0),
        not_ready(
            one("unready-external-mean", 3, External(&["50"]), "10"),
            1,
            0,
        ),
        not_ready(one("unready-pods", 3, of_pods(&["20"]), "10"), 1, 0),
        not_ready(one("pending-pods-up", 3, of_pods(&["20"]), "10"), 0, 1),
        not_ready(one("pending-pods-down", 3, of_pods(&["4"]), "10"), 0, 1),
        not_ready(one("pending-cpu", 3, Cpu(&[200]), "50%"), 1, 1),
        silent(one("silent-cpu-up", 3, Cpu(&[100]), "50%")),
        silent(one("silent-cpu-down", 3, Cpu(&[10]), "50%")),
        silent(one("silent-pods-up", 3, of_pods(&["30"]), "10")),
    ]
}

impl Case {
    /// Its name and what stands behind it in the metric's name.
    fn metric(&self, at: usize) -> String {
        format!("{}-{at}", self.name)
    }

    fn deployment(&self, stage: &Stage) -> Value {
        let labels = json!({"app": self.name});
        let mut template = stage.pods(&labels, 0);
        // (More than its node has: what it asks of a node is no matter here.)
        template["spec"]["nodeName"] = NAME.into();
        template["spec"]["containers"][0]["resources"] =
            json!({"requests": {"cpu": "100m", "memory": "100Mi"}});
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": self.name, "namespace": NAME},
            "spec": {"replicas": self.replicas, "selector": {"matchLabels": labels}, "template": template},
        })
    }

    fn autoscaler(&self) -> Value {
        let metric = |(at, (source, target)): (usize, &(Source, &str))| {
            let target = match (target.strip_suffix('%'), target.strip_prefix('=')) {
                (Some(percent), _) => {
                    let percent: u32 = percent.parse().expect("percent");
                    json!({"type": "Utilization", "averageUtilization": percent})
                }
                (_, Some(value)) => json!({"type": "Value", "value": value}),
                (None, None) => json!({"type": "AverageValue", "averageValue": target}),
            };
            let name = json!({"name": self.metric(at)});
            match source {
                Cpu(_) => {
                    json!({"type": "Resource", "resource": {"name": "cpu", "target": target}})
                }
                Memory(_) => {
                    json!({"type": "Resource", "resource": {"name": "memory", "target": target}})
                }
                Source::Pods(_) => {
                    json!({"type": "Pods", "pods": {"metric": name, "target": target}})
                }
                Object(_) => json!({"type": "Object", "object": {
                    "metric": name, "target": target, "describedObject": {"apiVersion": "v1", "kind": "Service", "name": "door"},
                }}),
                External(_) => {
                    json!({"type": "External", "external": {"metric": name, "target": target}})
                }
            }
        };
        let mut spec = json!({
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": self.name},
            "minReplicas": self.min, "maxReplicas": self.max,
            "metrics": self.metrics.iter().enumerate().map(metric).collect::<Value>(),
        });
        if !self.behavior.is_null() {
            spec["behavior"] = self.behavior.clone();
        }
        json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": self.name, "namespace": NAME}, "spec": spec,
        })
    }

    /// What the metric APIs answer of it, whose pods are these.
    fn answers(&self, pods: &[String], at: &str) -> BTreeMap<String, Value> {
        let mut answers = BTreeMap::new();
        let mut usage: Vec<Value> = pods.iter().map(|_| json!({})).collect();
        let loud = |pod: &usize| *pod >= self.silent as usize;
        for (index, (source, _)) in self.metrics.iter().enumerate() {
            let name = self.metric(index);
            let of = |kind: &str, object: &str, value: &str| {
                json!({
                    "describedObject": {"apiVersion": "/v1", "kind": kind, "namespace": NAME, "name": object},
                    "metric": {"name": name}, "timestamp": at, "value": value,
                })
            };
            let many = |items: Vec<Value>| json!({"kind": "MetricValueList", "apiVersion": "custom.metrics.k8s.io/v1beta2", "metadata": {}, "items": items});
            match source {
                Cpu(values) => {
                    for (pod, usage) in usage.iter_mut().enumerate() {
                        usage["cpu"] = format!("{}m", values[pod % values.len()]).into();
                    }
                }
                Memory(values) => {
                    for (pod, usage) in usage.iter_mut().enumerate() {
                        usage["memory"] = format!("{}Mi", values[pod % values.len()]).into();
                    }
                }
                Source::Pods([]) | External([]) => {}
                Source::Pods(values) => {
                    let each = (0..pods.len()).filter(loud);
                    let each = each.map(|pod| of("Pod", &pods[pod], values[pod % values.len()]));
                    answers.insert(name.clone(), many(each.collect()));
                }
                Object(value) => {
                    answers.insert(name.clone(), many(vec![of("Service", "door", value)]));
                }
                External(values) => {
                    let each = values.iter().map(|value| {
                        json!({"metricName": name, "metricLabels": {}, "timestamp": at, "value": value})
                    });
                    let all = json!({
                        "kind": "ExternalMetricValueList", "apiVersion": "external.metrics.k8s.io/v1beta1", "metadata": {},
                        "items": each.collect::<Value>(),
                    });
                    answers.insert(name.clone(), all);
                }
            }
        }
        let items = (0..pods.len()).filter(loud).map(|pod| {
            json!({
                "metadata": {"name": pods[pod], "namespace": NAME}, "timestamp": at, "window": "1s",
                "containers": [{"name": "main", "usage": usage[pod]}],
            })
        });
        let items: Value = items.collect();
        answers.insert(
            format!("pods/{}", self.name),
            json!({"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}, "items": items}),
        );
        answers
    }

    /// Its pods as they are.
    const fn pods(&self) -> Pods {
        Pods {
            ready: self.replicas - self.unready - self.pending,
            unready: self.unready,
            pending: self.pending,
        }
    }
}

/// Autoscalers as they change. Ends with the value.
struct Changes {
    child: Child,
    lines: Receiver<Value>,
}

impl Changes {
    fn start() -> Self {
        let path =
            format!("/apis/autoscaling/v2/namespaces/{NAME}/horizontalpodautoscalers?watch=1");
        let mut child = Command::new("kubectl")
            .args(["--context=live-admin", "get", "--raw", &path])
            .stdout(Stdio::piped())
            .spawn()
            .expect("kubectl runs");
        let (send, lines) = channel();
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                let change: Value = serde_json::from_str(&line).expect("a change a line");
                if send.send(change).is_err() {
                    return;
                }
            }
        });
        Self { child, lines }
    }

    /// The next change until then.
    fn next(&self, end: Instant) -> Option<Value> {
        let left = end.saturating_duration_since(Instant::now());
        let mut change = self.lines.recv_timeout(left).ok()?;
        Some(change["object"].take())
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What our program makes of the object.
fn read(object: &Value) -> PodScaler {
    match cluster::seen(Table::PodAutoscalers, object, &mut Names::default()) {
        Some(Observation::PodScaler(scaler)) => *scaler,
        other => panic!("{other:?}"),
    }
}

fn reason<'o>(object: &'o Value, kind: &str) -> &'o str {
    let mut conditions = list(object, "/status/conditions").iter();
    let found = conditions.find(|condition| condition["type"] == kind);
    found.map_or("", |condition| text(condition, "/reason"))
}

/// Makes the first pods of each list not ready, as its case has it.
fn unready(case: &Case, pods: &[String]) {
    let condition = |status: &str| json!({"conditions": [{"type": "Ready", "status": status}]});
    let patch = |pod: &str, status: &Value| {
        let patch = json!({"status": status}).to_string();
        kubectl(&[
            "-n",
            NAME,
            "patch",
            "pod",
            pod,
            "--subresource=status",
            "-p",
            &patch,
        ]);
    };
    let (not_ready, rest) = pods.split_at(case.unready as usize);
    for pod in not_ready {
        patch(pod, &condition("False"));
    }
    for pod in &rest[..case.pending as usize] {
        // KWOK lets a pending pod run: not before the test is over.
        let late = "live.stokehold.dev/ready-after=1h";
        kubectl(&["-n", NAME, "annotate", "pod", pod, late]);
        let mut status = condition("False");
        status["phase"] = "Pending".into();
        patch(pod, &status);
    }
}

/// Holds the first number that the controller wants of a case to ours; what differs is told.
fn differs(case: &Case, object: &Value) -> Option<String> {
    let scaler = read(object);
    let ours = desired(&scaler, Some(case.pods()));
    let theirs = scaler.desired?;
    let computed = ours.map(|ours| (ours.bounded, ours.held));
    let (name, current) = (case.name, case.replicas);
    eprintln!("{name}: {current} now, {theirs} by the controller, {computed:?} by us");
    let difference = || format!("{name}: {theirs} by the controller, {ours:?} by us: {scaler:?}");
    let is_same = match ours {
        // It keeps what it desired before: nothing yet.
        None => theirs == 0 && scaler.failing.is_some(),
        Some(ours) if ours.held => theirs == 0 && scaler.failing.is_some(),
        Some(ours) if reason(object, "AbleToScale") == "ScaleDownStabilized" => {
            let why = why_steady(&scaler, Some(case.pods()));
            theirs == case.replicas && ours.bounded < theirs && why == Some(Steady::Stabilizing)
        }
        // Which pods have no metric is not in its status: the controller does not go further than we say.
        Some(ours) if case.silent > 0 => {
            let (low, high) = (
                case.replicas.min(ours.bounded),
                case.replicas.max(ours.bounded),
            );
            (low..=high).contains(&theirs)
        }
        Some(ours) => ours.bounded == theirs,
    };
    (!is_same).then(difference)
}

#[test]
#[ignore = "needs the plane of tests/live/up"]
fn the_wanted_replicas_are_the_controllers() {
    let stage = Stage::new(NAME);
    let apis = MetricApis::serve(NAME);
    let cases = cases();
    let deployments: Vec<Value> = cases.iter().map(|case| case.deployment(&stage)).collect();
    stage.create(&deployments);
    let count: u32 = cases.iter().map(|case| case.replicas).sum();
    stage.until("the pods are ready", || {
        let pods = stage.all("pods");
        pods.iter().filter(|pod| holds(pod, "Ready")).count() == count as usize
    });
    let mut pods: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for pod in stage.all("pods") {
        let own = pods.entry(text(&pod, "/metadata/labels/app").to_owned());
        own.or_default()
            .push(text(&pod, "/metadata/name").to_owned());
    }
    // A sample that is not a window after its pod became ready does not count.
    let soon = || {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("now");
        Moment::from_millis(since.as_millis() as i64 + 5_000).rfc3339()
    };
    let at = soon();
    for case in &cases {
        unready(case, &pods[case.name]);
        apis.answer(case.answers(&pods[case.name], &at));
    }

    // The controller looks for the APIs now and then: the rest begins when it has found each of them.
    let changes = Changes::start();
    let first = Case {
        min: 2,
        max: 2,
        ..case(
            "first",
            2,
            vec![
                (Cpu(&[50]), "50%"),
                (Source::Pods(&["1"]), "1"),
                (External(&["1"]), "=1"),
            ],
        )
    };
    stage.create(&[first.deployment(&stage), first.autoscaler()]);
    let own = || {
        let of = |pod: &Value| {
            (pod["metadata"]["labels"]["app"] == "first")
                .then(|| text(pod, "/metadata/name").to_owned())
                .filter(|_| holds(pod, "Ready"))
        };
        stage
            .all("pods")
            .iter()
            .filter_map(of)
            .collect::<Vec<String>>()
    };
    stage.until("two pods more", || own().len() == 2);
    apis.answer(first.answers(&own(), &soon()));
    let wait = Wait::begins("the controller to find the metric APIs");
    let end = Instant::now() + PATIENCE;
    loop {
        let object = changes.next(end).expect("it finds them");
        let metrics = list(&object, "/status/currentMetrics").iter();
        if metrics.filter(|metric| metric["type"] != "").count() == 3 {
            break;
        }
    }
    drop(wait);

    let autoscalers: Vec<Value> = cases.iter().map(Case::autoscaler).collect();
    stage.create(&autoscalers);
    let mut seen: BTreeMap<String, Value> = BTreeMap::new();
    let wait = Wait::begins("the controller to judge each");
    let end = Instant::now() + PATIENCE;
    while seen.len() < cases.len() {
        let Some(object) = changes.next(end) else {
            let silent = cases
                .iter()
                .map(|case| case.name)
                .filter(|name| !seen.contains_key(*name));
            panic!("nothing of {:?}", silent.collect::<Vec<_>>());
        };
        let name = text(&object, "/metadata/name").to_owned();
        let status = &object["status"];
        if name == "first" || seen.contains_key(&name) || !status["currentReplicas"].is_u64() {
            continue;
        }
        if status["currentReplicas"] != status["desiredReplicas"] {
            // The first number is compared: it does not go on from there.
            kubectl(&["-n", NAME, "delete", "hpa", &name, "--wait=false"]);
        }
        seen.insert(name, object);
    }
    drop(wait);
    let differ: Vec<String> = cases
        .iter()
        .filter_map(|case| differs(case, &seen[case.name]))
        .collect();
    assert!(
        differ.is_empty(),
        "{} of {}: {differ:#?}",
        differ.len(),
        cases.len()
    );
    let ways: Vec<_> = seen
        .values()
        .map(|object| {
            let status = &object["status"];
            status["desiredReplicas"]
                .as_u64()
                .cmp(&status["currentReplicas"].as_u64())
        })
        .collect();
    for way in [
        std::cmp::Ordering::Less,
        std::cmp::Ordering::Equal,
        std::cmp::Ordering::Greater,
    ] {
        assert!(
            ways.iter().filter(|it| **it == way).count() >= 8,
            "{ways:?}"
        );
    }

    // The program prints the controller's number, and why it stays.
    let rows = rows("live-viewer", "scalers");
    for (name, state, why) in [
        ("cpu-within", "steady", "within tolerance"),
        ("at-min", "steady", "at min: its metrics ask for no more"),
        (
            "stabilizes",
            "stabilizing",
            "waits for its stabilization window",
        ),
        ("up-off", "steady", "disabled by its behavior"),
        (
            "silent-cpu-down",
            "steady",
            "pods not ready or without metrics",
        ),
    ] {
        let row = rows
            .iter()
            .find(|row| row["namespace"] == NAME && row["name"] == name);
        let row = row.unwrap_or_else(|| panic!("no row of {name}"));
        assert_eq!(
            row["wanted"], seen[name]["status"]["desiredReplicas"],
            "{row}"
        );
        assert_eq!(row["state"], state, "{row}");
        let said = row["why"].as_str().unwrap_or_default();
        assert!(said.ends_with(why), "{row}");
    }
}
