//! Questions to the engine, each one call on a snapshot. They compile the snapshot anew, take up to a second on a fleet of
//! ten thousand nodes, and belong on a thread of their own.

use std::collections::BTreeMap;

use serde::Serialize;

use model::base::document::nearest;
use model::base::{Moment, SmallSort};
use model::fleet::job::JobKey;
use model::fleet::sight::unseen_words;

use super::compiled::{CompiledFleet, WorkloadId};
use super::explain::{Change, Explainer, Explanation, Reason, Unblock};
use super::forecast::{self, Basis, Start};
use super::options::{Used, used};
use super::route::{self, Routing};
use super::snapshot::{Snapshot, Status, Workload};
use super::state::State;
use super::what_if::{self, Outcome};

/// Why a workload waits, what helps, and when it starts by itself.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Answer {
    /// Why, and what helps.
    #[serde(flatten)]
    pub explanation: Explanation,
    /// When it starts; null for one that does not wait.
    pub start: Option<Start>,
    /// Where it never starts by itself, since it asks for more than its queue may ever use: the least raises of the quota with
    /// which it does, later. Those that start it at once are among the explanation's changes.
    pub later: Vec<Later>,
    /// What was decided by, and where each option came from.
    pub options: Vec<Used>,
}

/// A change with which a workload starts by itself later.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Later {
    /// The change.
    pub change: Change,
    /// When it starts then; the median is known.
    pub start: Start,
}

/// For so many of all that wait a later start is looked for: each is a forecast of its own.
const MOST_LATER: usize = 4;

/// A larger raise is told besides the least where the job starts this much sooner with it.
const MUCH_SOONER: std::time::Duration = std::time::Duration::from_hours(1);

/// For a workload that asks for more than its queue could ever use: the least raise of the quota with which it could, and one by as
/// much as it asks for.
fn raises(snapshot: &Snapshot, explanation: &Explanation) -> Vec<Change> {
    let mut over = explanation
        .reasons
        .iter()
        .filter_map(|reason| match reason {
            Reason::OverMost {
                queue,
                flavor,
                resource,
                asked,
                most,
            } => Some((queue, flavor, resource, *asked, *most)),
            _ => None,
        });
    // Where several of its resources are over, no one raise will do.
    let (Some((queue, flavor, resource, asked, most)), None) = (over.next(), over.next()) else {
        return Vec::new();
    };
    let found = snapshot.queues.iter().find(|it| it.name == *queue);
    let quota = found.and_then(|it| {
        let mut quotas = it.quotas.iter();
        quotas.find(|quota| quota.flavor == *flavor && quota.resource == *resource)
    });
    let nominal = quota.map_or(0, |quota| quota.nominal);
    let raise = |add: i64| Change::Quota {
        queue: queue.clone(),
        flavor: flavor.clone(),
        resource: resource.clone(),
        add,
        nominal: nominal.saturating_add(add),
    };
    vec![raise(asked.saturating_sub(most)), raise(asked)]
}

impl Answer {
    /// The same, with what would start it later where it never starts by itself; for [`MOST_LATER`] jobs, which `asked` counts.
    pub fn looking_later(mut self, snapshot: &Snapshot, key: &JobKey, asked: &mut usize) -> Self {
        let never = self.start.as_ref().is_some_and(|start| start.p50.is_none());
        let raises = match never && *asked < MOST_LATER {
            true => raises(snapshot, &self.explanation),
            false => Vec::new(),
        };
        *asked += usize::from(!raises.is_empty());
        for change in raises {
            let mut then = snapshot.clone();
            change.apply(&mut then, key);
            let compiled = CompiledFleet::new(then);
            let work = compiled.work(key);
            let start = work.and_then(|work| forecast::forecast_one(&State::new(&compiled), work));
            let at = start.as_ref().and_then(|start| start.p50);
            let (Some(start), Some(at)) = (start, at) else {
                continue;
            };
            let least = self.later.last().and_then(|least| least.start.p50);
            if least.is_none_or(|least| at.plus(MUCH_SOONER) < least) {
                self.later.push(Later { change, start });
            }
        }
        self
    }

    /// Both told as one: where waiting helps, it helps until the moment that the forecast gives.
    pub fn new(mut explanation: Explanation, start: Option<Start>, now: Moment) -> Self {
        let first = explanation.unblock.take().into_iter();
        let mut all: Vec<Unblock> = first.chain(explanation.alternatives.drain(..)).collect();
        // Nine in ten: who waits until then has it.
        if let Some(start) = &start
            && let Some(at) = start.p90.or(start.p50)
        {
            // A range says that ends were taken together.
            let sure = matches!(start.basis, Basis::Now | Basis::Limits) && start.p10 == start.p90;
            for one in &mut all {
                if matches!(one.changes[..], [Change::Wait { .. }]) {
                    *one = Unblock::new(vec![Change::Wait { at }], one.proven && sure);
                }
            }
            all.small_sort_by_key(|unblock| unblock.cost(now));
        }
        let mut all = all.into_iter();
        explanation.unblock = all.next();
        explanation.alternatives = all.collect();
        Self {
            explanation,
            start,
            later: Vec::new(),
            options: Vec::new(),
        }
    }

    /// The same, with the options that a workload of the snapshot was judged by.
    pub fn decided_by(mut self, snapshot: &Snapshot, work: WorkloadId) -> Self {
        self.options = used(snapshot, snapshot.workloads.get(work));
        self
    }
}

/// The workload `NAMESPACE/NAME`, or the only one of a `NAME`.
///
/// # Errors
/// There is none; the text names the nearest. Or several have the name.
pub fn find(snapshot: &Snapshot, name: &str) -> Result<WorkloadId, String> {
    let text = |key: &JobKey| key.key.to_string();
    let mut all = snapshot.workloads.iter();
    if let Some(at) = all.position(|work| text(&work.key) == name) {
        return Ok(at);
    }
    let works = snapshot.workloads.iter().enumerate();
    let alike: Vec<(WorkloadId, String)> = works
        .filter(|(_, work)| work.key.key.name.as_str() == name)
        .map(|(at, work)| (at, text(&work.key)))
        .collect();
    match alike.as_slice() {
        [] => {}
        [(at, _)] => return Ok(*at),
        [(_, one), (_, other), ..] => {
            let count = alike.len();
            return Err(format!(
                "there are {count} jobs `{name}`, {one} and {other} among them; write NAMESPACE/NAME"
            ));
        }
    }
    let all: Vec<String> = snapshot
        .workloads
        .iter()
        .map(|work| text(&work.key))
        .collect();
    Err(match nearest(name, all.iter().map(String::as_str)) {
        Some(near) => format!("there is no job `{name}`; did you mean `{near}`?"),
        None => format!("there is no job `{name}`; write NAMESPACE/NAME"),
    })
}

/// Why a workload waits. The snapshot must be settled.
///
/// # Errors
/// As [`find`].
pub fn explain(snapshot: &Snapshot, name: &str) -> Result<Answer, String> {
    let work = find(snapshot, name)?;
    let quota_reserved = has_reserved_quota(&snapshot.workloads[work]);
    let compiled = match quota_reserved {
        true => CompiledFleet::new(past_queues(snapshot)),
        false => CompiledFleet::new(snapshot.clone()),
    };
    let mut scene = match quota_reserved {
        true => Explainer::past_queues(&compiled, snapshot),
        false => Explainer::new(&compiled),
    };
    let mut explanation = scene.explain(work);
    say_let_in(&mut explanation, &snapshot.workloads[work]);
    let start = scene.forecast_one(work);
    let key = &snapshot.workloads[work].key;
    Ok(Answer::new(explanation, start, snapshot.at)
        .looking_later(&compiled.snapshot, key, &mut 0)
        .decided_by(snapshot, work))
}

/// A workload that its queue has admitted, and no pod of which has a node yet.
pub fn has_reserved_quota(work: &Workload) -> bool {
    let unplaced = work.sets.iter().all(|set| set.placements.is_empty());
    work.status == Status::Running && unplaced && work.sets.iter().any(|set| set.count > 0)
}

/// The fleet as it is to pods behind the queues: what is admitted waits for nodes alone, on those of its flavors; what
/// still queues is out of their way.
pub fn past_queues(snapshot: &Snapshot) -> Snapshot {
    let mut beyond = snapshot.clone();
    for work in &mut beyond.workloads {
        if !has_reserved_quota(work) {
            if work.status == Status::Waiting && work.queue.is_some() {
                work.status = Status::Held;
            }
            continue;
        }
        work.status = Status::Waiting;
        work.queue = None;
        work.admitted_at = None;
        for set in &mut work.sets {
            for name in std::mem::take(&mut set.admitted).into_values() {
                let flavor = snapshot.flavors.iter().find(|flavor| flavor.name == name);
                if let Some(flavor) = flavor {
                    set.selector.extend(flavor.labels.clone());
                    set.tolerations.extend(flavor.tolerations.iter().cloned());
                }
            }
        }
    }
    beyond.settle();
    beyond
}

/// Puts into the words on a workload that it is past its queue.
pub fn say_let_in(explanation: &mut Explanation, work: &Workload) {
    let (true, Some(queue)) = (has_reserved_quota(work), &work.queue) else {
        return;
    };
    explanation.queue = Some(queue.clone());
    (explanation.position, explanation.ahead) = (None, explanation.ahead.map(|_| 0));
    explanation.ahead_first.clear();
    explanation.reasons.push(Reason::LetIn {
        queue: queue.clone(),
    });
    let told: Vec<String> = explanation.reasons.iter().map(Reason::sentence).collect();
    explanation.reason = told.join("; ");
}

/// The same for all that wait, by key.
pub fn explain_all(snapshot: &Snapshot) -> BTreeMap<JobKey, Answer> {
    let compiled = CompiledFleet::new(snapshot.clone());
    let mut all = answers_of(&compiled, Explainer::new(&compiled));
    if snapshot.workloads.iter().any(has_reserved_quota) {
        let beyond = CompiledFleet::new(past_queues(snapshot));
        let more = answers_of(&beyond, Explainer::past_queues(&beyond, snapshot));
        all.extend(let_in_of(snapshot, more));
    }
    all
}

fn answers_of(compiled: &CompiledFleet, mut scene: Explainer<'_>) -> BTreeMap<JobKey, Answer> {
    let mut starts = scene.forecast();
    let all = scene.explain_all().into_iter();
    let mut asked = 0;
    let answer = |(work, explanation): (WorkloadId, Explanation)| {
        let start = starts.remove(&work);
        let key = compiled.workload(work).key.clone();
        let answer = Answer::new(explanation, start, compiled.snapshot.at)
            .looking_later(&compiled.snapshot, &key, &mut asked)
            .decided_by(&compiled.snapshot, work);
        (key, answer)
    };
    all.map(answer).collect()
}

/// Of the answers past the queues, those on what was admitted.
fn let_in_of(
    snapshot: &Snapshot,
    mut answers: BTreeMap<JobKey, Answer>,
) -> impl Iterator<Item = (JobKey, Answer)> {
    let quota_reserved = snapshot
        .workloads
        .iter()
        .filter(|work| has_reserved_quota(work));
    quota_reserved.filter_map(move |work| {
        let mut answer = answers.remove(&work.key)?;
        say_let_in(&mut answer.explanation, work);
        // It is judged past its queue; what its queue was told is of the queue as it stands.
        answer.options = used(snapshot, Some(work));
        Some((work.key.clone(), answer))
    })
}

/// When all that wait start, by key.
pub fn forecast(snapshot: &Snapshot) -> BTreeMap<JobKey, Start> {
    let compiled = CompiledFleet::new(snapshot.clone());
    let starts = forecast::forecast(&State::new(&compiled)).into_iter();
    starts
        .map(|(work, start)| (compiled.workload(work).key.clone(), start))
        .collect()
}

/// What becomes of the fleet under changes in the words of [`what_if::GRAMMAR`]; `;` stands between several in one text.
///
/// # Errors
/// A change is not understood, or names what is not there.
pub fn what_if(snapshot: &Snapshot, changes: &[&str]) -> Result<Outcome, String> {
    visible(snapshot)?;
    let all = changes.iter().flat_map(|text| what_if::split(text));
    let read = all.map(what_if::parse);
    let changes: Vec<_> = read.collect::<Result<_, _>>()?;
    what_if::what_if(snapshot, &changes)
}

/// Nothing is concluded from a part of the fleet.
fn visible(snapshot: &Snapshot) -> Result<(), String> {
    match snapshot.not_visible.as_slice() {
        [] => Ok(()),
        all => Err(format!("cannot be computed: {}", unseen_words(all))),
    }
}

/// Which flavor a workload had best ask for.
///
/// # Errors
/// As [`find`].
pub fn route(snapshot: &Snapshot, name: &str) -> Result<Routing, String> {
    let work = find(snapshot, name)?;
    visible(snapshot)?;
    Ok(route::route(&CompiledFleet::new(snapshot.clone()), work))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixture::{compiled, node, work};

    #[test]
    fn each_question_is_one_call() {
        let runs = json!({ "state": "running", "admitted_at": "2026-11-21T06:40:00Z", "runtime_estimate_seconds": 600,
                           "placements": [{ "node": "a" }] });
        let compiled = compiled(json!({
            "nodes": [node("a", 8, "r", "b")], "flavors": [{ "name": "h100", "node_labels": { "class": "h100" } }],
            "workloads": [work("runs", 1, 8, runs), work("waits", 1, 8, json!({}))],
        }));
        let snapshot = &compiled.snapshot;
        let answer = explain(snapshot, "ml/waits").expect("there");
        let document = serde_json::to_value(&answer).expect("serializes");
        assert_eq!(
            document["unblock"]["changes"][0],
            json!({ "kind": "wait", "at": "2026-11-21T06:50:00Z" })
        );
        assert_eq!(
            (&document["start"]["p50"], &document["start"]["basis"]),
            (&json!("2026-11-21T06:50:00Z"), &json!("limits"))
        );
        assert_eq!(
            explain_all(snapshot).into_values().collect::<Vec<_>>(),
            [answer]
        );
        assert_eq!(forecast(snapshot).len(), 1);
        assert_eq!(
            what_if(snapshot, &["nodes a +1"])
                .expect("known")
                .jobs
                .len(),
            1
        );
        assert_eq!(route(snapshot, "ml/waits").expect("there").flavors.len(), 1);
        let told = explain(snapshot, "ml/wait").expect_err("not there");
        assert_eq!(told, "there is no job `ml/wait`; did you mean `ml/waits`?");
        assert_eq!(find(snapshot, "waits"), find(snapshot, "ml/waits"));
        let mut twice = snapshot.as_ref().clone();
        let mut other = twice.workloads[1].clone();
        other.key.key.namespace = "cv".into();
        twice.workloads.push(other);
        let name = twice.workloads[1].key.key.name.clone();
        let told = find(&twice, &name).expect_err("two have it");
        assert!(told.starts_with("there are 2 jobs `"), "{told}");
    }

    /// It never starts by itself: the least quota with which it does is told, with the start that it then has.
    #[test]
    fn who_asks_for_more_than_its_queue_may_use_is_told_what_starts_it_later() {
        let runs = |name: &str, node: &str| {
            let more = json!({ "state": "running", "queue": "ml", "admitted_at": "2026-11-21T06:40:00Z",
                               "admitted": { "nvidia.com/gpu": "h100" },
                               "runtime_estimate_seconds": 600, "placements": [{ "node": node }] });
            work(name, 1, 8, more)
        };
        let compiled = compiled(json!({
            "nodes": [node("a", 8, "r", "b"), node("b", 8, "r", "b")],
            "flavors": [{ "name": "h100", "node_labels": { "class": "h100" } }],
            "queues": [{ "name": "ml", "quota": [{ "flavor": "h100", "nominal": 8 }] }],
            "workloads": [runs("runs", "a"), work("wide", 2, 8, json!({ "queue": "ml" })),
                          work("next", 1, 8, json!({ "queue": "ml", "runtime_estimate_seconds": 600 }))],
        }));
        let answer = explain(&compiled.snapshot, "ml/wide").expect("there");
        assert_eq!(answer.start.expect("it waits").p50, None);
        let [least] = &answer.later[..] else {
            panic!(
                "one raise, the other is not much sooner: {:?}",
                answer.later
            );
        };
        assert_eq!(
            least.change.sentence(),
            "raise queue ml's quota by 8 devices of h100",
            "16 - 8"
        );
        // All 16 devices, once the one that runs has ended.
        let end = Moment::parse("2026-11-21T06:50:00Z").expect("a moment");
        assert_eq!(least.start.p50, Some(end));
        let next = explain(&compiled.snapshot, "ml/next").expect("there");
        assert!(next.later.is_empty(), "it starts without");
        let mut asked = MOST_LATER;
        let more = Answer::new(answer.explanation, next.start, compiled.snapshot.at);
        let key = &compiled.snapshot.workloads[1].key;
        let more = more.looking_later(&compiled.snapshot, key, &mut asked);
        assert!(more.later.is_empty(), "no more are asked about");
    }

    /// The room that is kept may be taken by others of which the cycle does not know: the forecast does.
    #[test]
    fn waiting_helps_until_the_forecast_says() {
        let now = Moment::from_seconds(1_000);
        let later = |seconds: u64| now.plus(std::time::Duration::from_secs(seconds));
        let compiled = compiled(json!({
            "nodes": [node("a", 8, "r", "b")], "workloads": [work("waits", 1, 8, json!({}))],
        }));
        let mut explanation = Explainer::new(&compiled).explain(0);
        let wait = |at: Moment| Unblock::new(vec![Change::Wait { at }], true);
        let flavor = Unblock::new(
            vec![Change::Flavor {
                flavor: "l4".into(),
            }],
            true,
        );
        explanation.unblock = Some(wait(later(60)));
        explanation.alternatives = vec![flavor.clone()];
        let start = |p90: Option<Moment>| Start {
            p10: p90,
            p50: None,
            p90,
            ..forecast::forecast_one(&State::new(&compiled), 0).expect("it waits")
        };
        let known = Answer::new(explanation.clone(), Some(start(Some(later(86_400)))), now);
        assert_eq!(known.explanation.unblock, Some(flavor.clone()));
        assert_eq!(known.explanation.alternatives, [wait(later(86_400))]);
        let unknown = Answer::new(explanation, Some(start(None)), now).explanation;
        assert_eq!(unknown.unblock, Some(wait(later(60))));
        assert_eq!(unknown.alternatives, [flavor]);
    }

    #[test]
    fn what_is_let_in_waits_for_nodes_alone() {
        let quota_reserved = json!({ "state": "running", "queue": "ml", "admitted_at": "2026-11-21T06:40:00Z", "admitted": { "nvidia.com/gpu": "h100" } });
        let compiled = compiled(json!({
            "nodes": [node("a", 8, "r", "b")],
            "flavors": [{ "name": "h100", "node_labels": { "class": "h100" } }],
            "queues": [{ "name": "ml", "quota": [{ "flavor": "h100", "nominal": 16 }] }],
            "workloads": [
                work("big", 2, 8, quota_reserved),
                work("queued", 1, 8, json!({ "queue": "ml" })),
            ],
        }));
        let answer = explain(&compiled.snapshot, "ml/big").expect("there");
        let codes: Vec<&str> = answer
            .explanation
            .reasons
            .iter()
            .map(Reason::code)
            .collect();
        assert_eq!(codes.last(), Some(&"let-in"), "{codes:?}");
        assert!(codes.len() > 1, "and why its pods find no nodes: {codes:?}");
        assert_eq!(answer.explanation.queue.as_deref(), Some("ml"));
        let unblock = answer.explanation.unblock.expect("one node more");
        assert!(unblock.proven, "{}", unblock.sentence);
        let all = explain_all(&compiled.snapshot);
        assert_eq!(all.len(), 2, "and the one that queues for quota");
        let queued = explain(&compiled.snapshot, "ml/queued").expect("there");
        assert!(all.values().any(|one| *one == queued));
    }
}
