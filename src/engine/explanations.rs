//! Questions to the engine, each one call on a snapshot. A call compiles the snapshot, takes up to a second on a fleet of
//! ten thousand nodes, and should run on its own thread.

use std::collections::BTreeMap;

use serde::Serialize;

use model::base::document::nearest;
use model::base::{Moment, SmallSort};
use model::fleet::job::JobKey;
use model::fleet::visibility::unseen_words;

use super::compiled::{CompiledFleet, WorkloadId};
use super::explain::{Explainer, Explanation, Reason, StartState, Unblock, UnblockChange};
use super::forecast::{self, Basis, Start};
use super::options::{Used, used};
use super::route::{self, Routing};
use super::snapshot::{Snapshot, Status, Workload};
use super::state::State;
use super::what_if::{self, WhatIfResult};

/// Why a workload is pending, what would unblock it, and when it starts.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct WorkloadExplanation {
    /// Reasons and changes that would unblock it.
    #[serde(flatten)]
    pub explanation: Explanation,
    /// Forecast start; null if it is not pending.
    pub start: Option<Start>,
    /// For a workload that never starts because it requests more than its queue may ever use: the smallest quota increases with
    /// which it starts later. Changes that start it now are in the explanation.
    pub later: Vec<ChangeWithStart>,
    /// Options behind the decision, and their origins.
    pub options: Vec<Used>,
}

/// A change with which a workload starts later.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ChangeWithStart {
    pub change: UnblockChange,
    /// Its start with the change; the median is known.
    pub start: Start,
}

impl WorkloadExplanation {
    /// What the changes with which it starts later ask of its queue, one for each of `later`: with the smallest one jobs
    /// that use its quota have to end first, a larger one has room for it beside them.
    pub fn later_conditions(&self) -> impl Iterator<Item = (&ChangeWithStart, &'static str)> {
        let several = self.later.len() > 1;
        self.later.iter().enumerate().map(move |(at, later)| {
            let condition = match at {
                0 if several => " (after jobs that use its quota end)",
                0 => "",
                _ => " (no job that uses its quota has to end first)",
            };
            (later, condition)
        })
    }
}

/// Number of workloads for which a later start is searched: each search is a forecast of its own.
const MOST_LATER: usize = 4;

/// A larger increase is offered besides the smallest if the job starts this much earlier with it.
const MUCH_SOONER: std::time::Duration = std::time::Duration::from_hours(1);

/// For a workload that requests more than its queue could ever use: the smallest quota increase with which it fits, and an
/// increase by its full request.
fn raises(snapshot: &Snapshot, explanation: &Explanation) -> Vec<UnblockChange> {
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
    // If several of its resources exceed their quota, no single increase suffices.
    let (Some((queue, flavor, resource, asked, most)), None) = (over.next(), over.next()) else {
        return Vec::new();
    };
    let found = snapshot.queues.iter().find(|it| it.name == *queue);
    let quota = found.and_then(|it| {
        let mut quotas = it.quotas.iter();
        quotas.find(|quota| quota.flavor == *flavor && quota.resource == *resource)
    });
    let nominal = quota.map_or(0, |quota| quota.nominal);
    let raise = |add: i64| UnblockChange::Quota {
        queue: queue.clone(),
        flavor: flavor.clone(),
        resource: resource.clone(),
        add,
        nominal: nominal.saturating_add(add),
    };
    vec![raise(asked.saturating_sub(most)), raise(asked)]
}

impl WorkloadExplanation {
    /// Adds what would start it later if it never starts otherwise; for [`MOST_LATER`] jobs, counted in `asked`.
    fn looking_later(mut self, snapshot: &Snapshot, key: &JobKey, asked: &mut usize) -> Self {
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
                self.later.push(ChangeWithStart { change, start });
            }
        }
        self
    }

    /// Combines both: where waiting helps, it helps until the forecast start.
    fn new(mut explanation: Explanation, start: Option<Start>, now: Moment) -> Self {
        let first = explanation.unblock.take().into_iter();
        let mut all: Vec<Unblock> = first.chain(explanation.alternatives.drain(..)).collect();
        // 90th percentile, so that waiting until then most likely suffices.
        if let Some(start) = &start
            && let Some(at) = start.p90.or(start.p50)
        {
            // A range means that ends were grouped.
            let sure = matches!(start.basis, Basis::Now | Basis::Limits) && start.p10 == start.p90;
            let reserved = |one: &Unblock| matches!(one.changes[..], [UnblockChange::Wait { .. }]);
            all.retain(|one| !reserved(one));
            if explanation.state == StartState::Waiting && at > now {
                all.push(Unblock::new(vec![UnblockChange::Wait { at }], sure));
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

    /// Drops offers that add more than its own devices need: jobs ahead of it would take the rest. They stay if there are no others.
    fn without_surplus(mut self, devices: u64) -> Self {
        let is_own = |one: &Unblock| one.for_others(devices).is_none();
        let known = &self.explanation;
        if known.unblock.iter().chain(&known.alternatives).any(is_own) {
            self.explanation.offers(is_own);
        }
        self
    }

    /// Adds the options that apply to a workload of the snapshot.
    fn decided_by(mut self, snapshot: &Snapshot, work: WorkloadId) -> Self {
        self.options = used(snapshot, snapshot.workloads.get(work));
        self
    }
}

/// The workload `NAMESPACE/NAME`, or the only one named `NAME`.
///
/// # Errors
/// There is none, and the text names the nearest; or several have the name.
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
                "there are {count} jobs `{name}`, such as {one} and {other}; write NAMESPACE/NAME"
            ));
        }
    }
    Err(no_such_job(snapshot, name))
}

/// Message for an unknown job, with a suggestion: the same name in another namespace, else the nearest name.
pub(crate) fn no_such_job(snapshot: &Snapshot, name: &str) -> String {
    let works = snapshot.workloads.iter();
    let all: Vec<String> = works.map(|work| work.key.key.to_string()).collect();
    let bare = name.rsplit_once('/').map(|(_, bare)| format!("/{bare}"));
    let elsewhere = bare.and_then(|bare| all.iter().find(|known| known.ends_with(&bare)));
    let near = elsewhere.map(String::as_str);
    match near.or_else(|| nearest(name, all.iter().map(String::as_str))) {
        Some(near) => format!("there is no job `{name}`; did you mean `{near}`?"),
        None => format!("there is no job `{name}`; write NAMESPACE/NAME"),
    }
}

/// Why a workload is pending. The snapshot must be settled.
///
/// # Errors
/// As [`find`].
pub fn explain(snapshot: &Snapshot, name: &str) -> Result<WorkloadExplanation, String> {
    let work = find(snapshot, name)?;
    Ok(WaitingFleet::around(snapshot, work).explain(work))
}

/// The same for all pending workloads, by key.
pub fn explain_all(snapshot: &Snapshot) -> BTreeMap<JobKey, WorkloadExplanation> {
    let parts = WaitingFleet::parts(snapshot);
    parts.flat_map(|part| part.explain_all()).collect()
}

/// The fleet as a part of its waiting workloads sees it. Every explanation of a workload is put together here.
pub struct WaitingFleet<'s> {
    /// The fleet as it is.
    pub whole: &'s Snapshot,
    /// The fleet that the part sees, with the same workloads in the same order.
    pub compiled: CompiledFleet,
    /// True for the part that has its quota reserved and waits for nodes; the other waits for quota, or for nodes in no queue.
    pub quota_reserved: bool,
}

impl<'s> WaitingFleet<'s> {
    fn of(whole: &'s Snapshot, quota_reserved: bool) -> Self {
        let seen = match quota_reserved {
            true => past_queues(whole),
            false => whole.clone(),
        };
        Self {
            whole,
            compiled: CompiledFleet::new(seen),
            quota_reserved,
        }
    }

    /// The fleet as one workload of a settled snapshot sees it.
    pub fn around(whole: &'s Snapshot, work: WorkloadId) -> Self {
        Self::of(whole, has_reserved_quota(&whole.workloads[work]))
    }

    /// The fleet as each part sees it, one after the other; a part without workloads is left out.
    pub fn parts(whole: &'s Snapshot) -> impl Iterator<Item = Self> {
        let reserved = whole.workloads.iter().any(has_reserved_quota);
        let parts = [Some(false), reserved.then_some(true)]
            .into_iter()
            .flatten();
        parts.map(|quota_reserved| Self::of(whole, quota_reserved))
    }

    fn explainer(&self) -> Explainer<'_> {
        match self.quota_reserved {
            true => Explainer::past_queues(&self.compiled, self.whole),
            false => Explainer::new(&self.compiled),
        }
    }

    /// Why a workload of this part is pending.
    pub fn explain(&self, work: WorkloadId) -> WorkloadExplanation {
        let mut explainer = self.explainer();
        let explanation = explainer.explain(work);
        self.answer(work, explanation, explainer.forecast_one(work), &mut 0)
    }

    /// The same for all workloads of this part, by key.
    pub fn explain_all(&self) -> BTreeMap<JobKey, WorkloadExplanation> {
        let mut explainer = self.explainer();
        let mut starts = explainer.forecast();
        let mut asked = 0;
        let mut all = explainer.explain_all();
        all.retain(|work, _| {
            has_reserved_quota(&self.whole.workloads[*work]) == self.quota_reserved
        });
        let answer = |(work, explanation): (WorkloadId, Explanation)| {
            let answer = self.answer(work, explanation, starts.remove(&work), &mut asked);
            (self.whole.workloads[work].key.clone(), answer)
        };
        all.into_iter().map(answer).collect()
    }

    /// `asked`: as in [`WorkloadExplanation::looking_later`].
    fn answer(
        &self,
        work: WorkloadId,
        mut explanation: Explanation,
        start: Option<Start>,
        asked: &mut usize,
    ) -> WorkloadExplanation {
        let model = &self.whole.workloads[work];
        add_quota_reserved(&mut explanation, model);
        WorkloadExplanation::new(explanation, start, self.whole.at)
            .without_surplus(model.device_count())
            .looking_later(&self.compiled.snapshot, &model.key, asked)
            // The options are those of its queue, also where it is judged without it.
            .decided_by(self.whole, work)
    }
}

/// Whether a workload has its quota reserved and none of its pods has a node, though they could have one.
pub fn has_reserved_quota(work: &Workload) -> bool {
    let unplaced = work.sets.iter().all(|set| set.placements.is_empty());
    let is_blocked = work.blocked.is_some();
    work.status == Status::Running
        && unplaced
        && !is_blocked
        && work.sets.iter().any(|set| set.count > 0)
}

/// The fleet as admitted pods see it: admitted workloads wait for nodes of their flavors only; workloads that are not
/// admitted are left out.
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
        // Its pods are created at its admission, and the scheduler takes the pods of one priority by age.
        work.created = work.admitted_at.take().unwrap_or(work.created);
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

/// Adds to the explanation that the workload is already admitted.
fn add_quota_reserved(explanation: &mut Explanation, work: &Workload) {
    let (true, Some(queue)) = (has_reserved_quota(work), &work.queue) else {
        return;
    };
    explanation.queue = Some(queue.clone());
    (explanation.position, explanation.ahead) = (None, explanation.ahead.map(|_| 0));
    explanation.ahead_first.clear();
    explanation.reasons.push(Reason::QuotaReserved {
        queue: queue.clone(),
    });
    let sentences: Vec<String> = explanation.reasons.iter().map(Reason::sentence).collect();
    explanation.reason = sentences.join("; ");
}

/// Starts of all pending workloads, by key.
pub fn forecast(snapshot: &Snapshot) -> BTreeMap<JobKey, Start> {
    let compiled = CompiledFleet::new(snapshot.clone());
    let starts = forecast::forecast(&State::new(&compiled)).into_iter();
    starts
        .map(|(work, start)| (compiled.workload(work).key.clone(), start))
        .collect()
}

/// Result of changes in the grammar of [`what_if::GRAMMAR`]; `;` separates several changes in one text.
///
/// # Errors
/// A change cannot be parsed, or names an object that does not exist.
pub fn what_if(snapshot: &Snapshot, changes: &[&str]) -> Result<WhatIfResult, String> {
    visible(snapshot)?;
    let all = changes.iter().flat_map(|text| what_if::split(text));
    let read = all.map(what_if::parse);
    let changes: Vec<_> = read.collect::<Result<_, _>>()?;
    what_if::what_if(snapshot, &changes)
}

/// A partly visible fleet allows no conclusions.
fn visible(snapshot: &Snapshot) -> Result<(), String> {
    match snapshot.not_visible.as_slice() {
        [] => Ok(()),
        all => Err(format!("cannot be computed: {}", unseen_words(all))),
    }
}

/// The best flavor for a workload.
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
        let message = explain(snapshot, "ml/wait").expect_err("not there");
        assert_eq!(
            message,
            "there is no job `ml/wait`; did you mean `ml/waits`?"
        );
        let message = explain(snapshot, "default/waits").expect_err("not there");
        assert_eq!(
            message,
            "there is no job `default/waits`; did you mean `ml/waits`?"
        );
        assert_eq!(find(snapshot, "waits"), find(snapshot, "ml/waits"));
        let mut twice = snapshot.as_ref().clone();
        let mut other = twice.workloads[1].clone();
        other.key.key.namespace = "cv".into();
        twice.workloads.push(other);
        let name = twice.workloads[1].key.key.name.clone();
        let message = find(&twice, &name).expect_err("two have it");
        assert!(message.starts_with("there are 2 jobs `"), "{message}");
    }

    /// It never starts by itself: the answer names the smallest quota that changes that, with the resulting start.
    #[test]
    fn a_request_above_the_queue_maximum_names_the_quota_that_starts_it_later() {
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
            "raise ml's quota by 8 devices of h100",
            "16 - 8"
        );
        // All 16 devices, once the running workload has ended.
        let end = Moment::parse("2026-11-21T06:50:00Z").expect("a moment");
        assert_eq!(least.start.p50, Some(end));
        let next = explain(&compiled.snapshot, "ml/next").expect("there");
        assert!(next.later.is_empty(), "it starts without");
        let mut asked = MOST_LATER;
        let more = WorkloadExplanation::new(answer.explanation, next.start, compiled.snapshot.at);
        let key = &compiled.snapshot.workloads[1].key;
        let more = more.looking_later(&compiled.snapshot, key, &mut asked);
        assert!(more.later.is_empty(), "no more are asked about");
    }

    /// Other workloads may take the reserved capacity; the cycle does not know that, the forecast does.
    #[test]
    fn waiting_helps_until_the_forecast_says() {
        let now = Moment::from_seconds(1_000);
        let later = |seconds: u64| now.plus(std::time::Duration::from_secs(seconds));
        let compiled = compiled(json!({
            "nodes": [node("a", 8, "r", "b")], "workloads": [work("waits", 1, 8, json!({}))],
        }));
        let mut explanation = Explainer::new(&compiled).explain(0);
        explanation.state = StartState::Waiting;
        let wait = |at: Moment| Unblock::new(vec![UnblockChange::Wait { at }], true);
        let flavor = Unblock::new(
            vec![UnblockChange::Flavor {
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
        let known =
            WorkloadExplanation::new(explanation.clone(), Some(start(Some(later(86_400)))), now);
        assert_eq!(known.explanation.unblock, Some(flavor.clone()));
        assert_eq!(known.explanation.alternatives, [wait(later(86_400))]);
        let unknown = WorkloadExplanation::new(explanation, Some(start(None)), now).explanation;
        assert_eq!(unknown.unblock, Some(wait(later(60))));
        assert_eq!(unknown.alternatives, [flavor]);
    }

    #[test]
    fn an_admitted_workload_waits_for_nodes_only() {
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
        assert_eq!(codes.last(), Some(&"quota-reserved"), "{codes:?}");
        assert!(codes.len() > 1, "and why its pods find no nodes: {codes:?}");
        assert_eq!(answer.explanation.queue.as_deref(), Some("ml"));
        let unblock = answer.explanation.unblock.clone().expect("one node more");
        assert!(unblock.proven, "{}", unblock.sentence);
        let all = explain_all(&compiled.snapshot);
        assert_eq!(all.len(), 2, "and the one that queues for quota");
        let queued = explain(&compiled.snapshot, "ml/queued").expect("there");
        for one in [answer, queued] {
            assert!(all.values().any(|other| *other == one));
        }
    }
}
