//! Evictions: deletions of pods that disruption budgets must allow.
//!
//! Follows `k8s.io/kubernetes/pkg/registry/core/pod/storage/eviction.go`, its messages included.

use std::sync::Arc;

use serde_json::{Value, json};

use super::request::ResourcePath;
use super::status::ApiStatus;
use super::validate::{self, Deletion};
use super::{ApiRequest, ApiResult, write};
use crate::change::{Request, Resource};
use crate::cluster::{Core, SimCluster};
use crate::json::{condition, int, list, name, text};
use crate::resource::spec;
use crate::selector::LabelSelector;
use crate::store::ListOptions;
use model::base::Moment;

/// `POST` on `pods/NAME/eviction`.
///
/// # Errors
/// 400 on a malformed eviction, 404 when there is no such pod, 409 on a failed precondition, 429 when a
/// disruption budget does not allow it.
pub fn create(cluster: &Arc<SimCluster>, asked: &ApiRequest, target: &ResourcePath) -> ApiResult {
    let manner = asked.manner()?;
    let eviction = validate::body(asked, "Eviction")?;
    let kind = text(&eviction, "/kind");
    let version = text(&eviction, "/apiVersion");
    if !matches!(kind, "" | "Eviction") || !matches!(version, "" | "policy/v1" | "policy/v1beta1") {
        return Err(ApiStatus::bad_request(format!(
            "not a Eviction object: {version} {kind}"
        )));
    }
    if name(&eviction) != target.name {
        return Err(ApiStatus::bad_request(
            "name in URL does not match name in Eviction object",
        ));
    }
    let options = eviction.get("deleteOptions").cloned().unwrap_or_default();
    let mut deletion = Deletion::of_options(&options)?;
    deletion.dry_run |= asked.dry_run()?;
    let outcome = {
        let mut core = cluster.core();
        evict(&mut core, target, &deletion)?
    };
    if !deletion.dry_run {
        cluster.announce();
    }
    manner.document(201, &outcome)
}

fn evict(core: &mut Core, target: &ResourcePath, deletion: &Deletion) -> Result<Value, ApiStatus> {
    let pods = spec(Resource::Pods);
    let now = core.world.now();
    let pod = target.object(core, pods)?;
    let unguarded = matches!(
        text(&pod, "/status/phase"),
        "Succeeded" | "Failed" | "Pending"
    ) || pod.pointer("/metadata/deletionTimestamp").is_some();
    if !unguarded {
        let budgets = budgets_of(core, &pod)?;
        if budgets.len() > 1 {
            // The real server says so in the body of a 201.
            return Ok(json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
                "code": 500,
            }));
        }
        // Preconditions hold before a budget is spent.
        deletion.check(&pod, pods)?;
        if let Some(budget) = budgets.first() {
            spend(core, budget, &pod, deletion.dry_run, now)?;
        }
    }
    deletion.check(&pod, pods)?;
    if !deletion.dry_run {
        mark(core, &pod, now);
    }
    // Marking the pod has given it a new revision, which the preconditions no longer name.
    let pod = target.object(core, pods).unwrap_or(pod);
    write::go(core, pods, &pod, deletion, now);
    Ok(
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}),
    )
}

/// The disruption budgets that select a pod.
fn budgets_of(core: &Core, pod: &Value) -> Result<Vec<Arc<Value>>, ApiStatus> {
    let what = ListOptions {
        namespace: Some(text(pod, "/metadata/namespace")),
        ..ListOptions::default()
    };
    let selects = |budget: &Value| {
        budget
            .pointer("/spec/selector")
            .and_then(LabelSelector::of_object)
            .is_some_and(|labels| labels.matches(pod))
    };
    let page = core
        .store
        .list(Resource::PodDisruptionBudgets, &what, &selects);
    Ok(page.map_err(ApiStatus::expired)?.items)
}

/// Takes one disruption from a budget, if the budget allows it or does not apply.
fn spend(
    core: &mut Core,
    budget: &Arc<Value>,
    pod: &Value,
    dry_run: bool,
    now: Moment,
) -> Result<(), ApiStatus> {
    let (healthy, desired) = (
        int(budget, "/status/currentHealthy"),
        int(budget, "/status/desiredHealthy"),
    );
    if condition(pod, "Ready") != "True" {
        let always = text(budget, "/spec/unhealthyPodEvictionPolicy") == "AlwaysAllow";
        if always || (healthy >= desired && desired > 0) {
            return Ok(());
        }
    }
    let own = name(budget);
    if int(budget, "/status/observedGeneration") < int(budget, "/metadata/generation") {
        let why = format!("The disruption budget {own} is still being processed by the server.");
        return Err(ApiStatus::budget(why, 10));
    }
    let allowed = int(budget, "/status/disruptionsAllowed");
    if allowed == 0 {
        return Err(ApiStatus::budget(refusal(budget, healthy, desired), 0));
    }
    if dry_run {
        return Ok(());
    }
    let mut spent = (**budget).clone();
    spent["status"]["disruptionsAllowed"] = (allowed - 1).into();
    if !spent["status"]["disruptedPods"].is_object() {
        spent["status"]["disruptedPods"] = json!({});
    }
    spent["status"]["disruptedPods"][name(pod)] = now.rfc3339().into();
    if allowed == 1 {
        let generation = int(budget, "/metadata/generation");
        set_condition(
            &mut spent,
            json!({
                "type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "message": "",
                "observedGeneration": generation, "lastTransitionTime": now.rfc3339(),
            }),
        );
    }
    core.carry_out(Request::Write(Resource::PodDisruptionBudgets, spent));
    Ok(())
}

/// Why a budget without disruptions refuses.
fn refusal(budget: &Value, healthy: i64, desired: i64) -> String {
    let own = name(budget);
    let condition = list(budget, "/status/conditions")
        .iter()
        .find(|c| text(c, "/type") == "DisruptionAllowed")
        .filter(|c| text(c, "/status") == "False" && !text(c, "/message").is_empty());
    match condition {
        Some(c) if text(c, "/reason") == "SyncFailed" => format!(
            "The disruption budget {own} does not allow evicting pods currently because it failed sync: {}",
            text(c, "/message")
        ),
        _ if healthy <= desired => format!(
            "The disruption budget {own} needs {desired} healthy pods and has {healthy} currently"
        ),
        Some(c) => format!(
            "The disruption budget {own} does not allow evicting pods currently ({}): {}",
            text(c, "/reason"),
            text(c, "/message")
        ),
        None => format!("The disruption budget {own} does not allow evicting pods currently"),
    }
}

/// Puts a condition in the place of the one of its type.
fn set_condition(object: &mut Value, condition: Value) {
    let status = crate::json::map_mut(object, "status");
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    let Some(conditions) = conditions.as_array_mut() else {
        return;
    };
    let kind = condition["type"].clone();
    match conditions.iter_mut().find(|c| c["type"] == kind) {
        Some(old) => *old = condition,
        None => conditions.push(condition),
    }
}

/// Sets the pod's `DisruptionTarget` condition.
fn mark(core: &mut Core, pod: &Value, now: Moment) {
    let mut marked = pod.clone();
    set_condition(
        &mut marked,
        json!({
            "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting", "lastProbeTime": null, "lastTransitionTime": now.rfc3339(),
        }),
    );
    core.carry_out(Request::Write(Resource::Pods, marked));
}
