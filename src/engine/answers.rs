//! Questions to the engine, each one call on a snapshot. They compile the snapshot anew, take up to a second on a fleet of
//! ten thousand nodes, and belong on a thread of their own.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::base::document::nearest;
use crate::fleet::job::JobKey;

use super::explain::{Explanation, Scene};
use super::forecast::{self, Start};
use super::model::Snapshot;
use super::plant::{Plant, WorkId};
use super::route::{self, Routing};
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
}

/// The workload `NAMESPACE/NAME`.
///
/// # Errors
/// There is none; the text names the nearest.
pub fn find(snapshot: &Snapshot, name: &str) -> Result<WorkId, String> {
    let text = |key: &JobKey| key.key.to_string();
    let mut all = snapshot.workloads.iter();
    if let Some(at) = all.position(|work| text(&work.key) == name) {
        return Ok(at);
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
    let plant = Plant::new(snapshot.clone());
    let explanation = Scene::new(&plant).explain(work);
    let start = forecast::forecast_one(&State::new(&plant), work);
    Ok(Answer { explanation, start })
}

/// The same for all that wait, by key.
pub fn explain_all(snapshot: &Snapshot) -> BTreeMap<JobKey, Answer> {
    let plant = Plant::new(snapshot.clone());
    let mut starts = forecast::forecast(&State::new(&plant));
    let all = Scene::new(&plant).explain_all();
    all.into_iter()
        .map(|(work, explanation)| {
            let start = starts.remove(&work);
            (
                plant.workload(work).key.clone(),
                Answer { explanation, start },
            )
        })
        .collect()
}

/// When all that wait start, by key.
pub fn forecast(snapshot: &Snapshot) -> BTreeMap<JobKey, Start> {
    let plant = Plant::new(snapshot.clone());
    let starts = forecast::forecast(&State::new(&plant)).into_iter();
    starts
        .map(|(work, start)| (plant.workload(work).key.clone(), start))
        .collect()
}

/// What becomes of the fleet under changes in the words of [`what_if::GRAMMAR`].
///
/// # Errors
/// A change is not understood, or names what is not there.
pub fn what_if(snapshot: &Snapshot, changes: &[&str]) -> Result<Outcome, String> {
    let read = changes.iter().map(|text| what_if::parse(text));
    let changes: Vec<_> = read.collect::<Result<_, _>>()?;
    what_if::what_if(snapshot, &changes)
}

/// Which flavor a workload had best ask for.
///
/// # Errors
/// As [`find`].
pub fn route(snapshot: &Snapshot, name: &str) -> Result<Routing, String> {
    let work = find(snapshot, name)?;
    Ok(route::route(&Plant::new(snapshot.clone()), work))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::engine::fixture::{node, plant, work};

    #[test]
    fn each_question_is_one_call() {
        let runs = json!({ "state": "running", "admitted_at": "2026-11-21T06:40:00Z", "runtime_estimate_seconds": 600,
                           "placements": [{ "node": "a" }] });
        let plant = plant(json!({
            "nodes": [node("a", 8, "r", "b")], "flavors": [{ "name": "h100", "node_labels": { "class": "h100" } }],
            "workloads": [work("runs", 1, 8, runs), work("waits", 1, 8, json!({}))],
        }));
        let snapshot = &plant.snapshot;
        let answer = explain(snapshot, "ml/waits").expect("there");
        let document = serde_json::to_value(&answer).expect("serialises");
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
                .starts
                .len(),
            1
        );
        assert_eq!(route(snapshot, "ml/waits").expect("there").flavors.len(), 1);
        let told = explain(snapshot, "ml/wait").expect_err("not there");
        assert_eq!(told, "there is no job `ml/wait`; did you mean `ml/waits`?");
    }
}
