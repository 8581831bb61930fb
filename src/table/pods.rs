//! Rows of `pods`: pods that request devices, with node, readiness and cost.

use schemars::JsonSchema;
use serde::Serialize;

use model::base::{SmallSort, natural};
use model::cost::Money;
use model::fleet::device::Pod;
use model::fleet::observe::Phase;

use super::list_price::{list_usd, rate_cell};
use super::select::Labelled;
use super::table::Column;
use super::text::{age, word};
use super::{Facts, non_empty};

/// One pod.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct PodRow<'a> {
    /// Its labels.
    #[serde(skip)]
    pub labels: Labelled<'a>,
    /// Namespace of the pod.
    pub namespace: &'a str,
    /// Name of the pod.
    pub name: &'a str,
    /// The node it is bound to.
    pub node: Option<&'a str>,
    /// Devices or slices that it requests.
    pub devices_requested: u32,
    /// Devices or slices known to be allocated to it.
    pub devices_allocated: u32,
    /// True when all its containers are ready.
    pub ready: bool,
    /// Total restarts of its containers.
    pub restarts: u32,
    /// Phase as the API reports it.
    #[schemars(with = "Phase")]
    pub phase: &'static str,
    /// True when it has a deletion timestamp.
    pub terminating: bool,
    /// Seconds since its creation.
    pub age_seconds: u64,
    /// Kind of the object of its job, `JobSet`.
    pub job_kind: &'a str,
    /// Name of its job.
    pub job: &'a str,
    /// The queue of its job.
    pub queue: Option<&'a str>,
    /// The team that it counts for.
    pub team: &'a str,
    /// Why it failed, restarts or is unscheduled.
    pub message: Option<&'a str>,
    /// Rate of its allocated devices, USD/h.
    #[schemars(range(min = 0))]
    pub burn_usd_per_hour: Option<f64>,
    /// The part of that rate that is list prices in place of what is paid, which is not known, USD/h.
    #[schemars(range(min = 0))]
    pub list_usd_per_hour: Option<f64>,
}

/// Columns as a table.
pub(super) fn columns<'a>() -> Vec<Column<PodRow<'a>>> {
    vec![
        Column::text("NAMESPACE", |row: &PodRow<'_>| row.namespace.to_owned()),
        Column::text("NAME", |row| row.name.to_owned()),
        Column::text("NODE", |row| word(row.node)),
        Column::number("DEVICES", |row: &PodRow<'_>| {
            format!("{}/{}", row.devices_allocated, row.devices_requested)
        })
        .by("devices_allocated"),
        Column::text("READY", |row| yes(row.ready).to_owned()),
        Column::number("RESTARTS", |row| row.restarts.to_string()),
        Column::text("PHASE", |row| stage(row.phase, row.terminating).to_owned()),
        Column::number("AGE", |row: &PodRow<'_>| age(Some(row.age_seconds))).by("age_seconds"),
        Column::text("JOB", |row| row.job.to_owned()),
        Column::wide_text("QUEUE", |row| word(row.queue)),
        Column::wide_text("TEAM", |row| row.team.to_owned()),
        Column::number("$/H", |row: &PodRow<'_>| {
            rate_cell(row.burn_usd_per_hour, row.list_usd_per_hour)
        })
        .by("burn_usd_per_hour"),
        Column::wide_text("MESSAGE", |row| word(row.message)),
    ]
}

/// `yes` or `no`.
pub const fn yes(is: bool) -> &'static str {
    if is { "yes" } else { "no" }
}

/// The phase as a table shows it: `Terminating` after deletion was requested, as in kubectl.
pub const fn stage(phase: &'static str, terminating: bool) -> &'static str {
    if terminating { "Terminating" } else { phase }
}

/// The phase as the API spells it.
pub const fn phase_name(phase: Phase) -> &'static str {
    phase.name()
}

/// True for a pod that requests devices, by resource or by claim.
pub fn asks_for_devices(pod: &Pod) -> bool {
    let seen = &pod.seen;
    seen.requests.device_count() > 0 || !seen.claims.is_empty() || !seen.claimed.is_empty()
}

/// Every pod that requests devices, by namespace and name.
pub fn rows(facts: &Facts) -> Vec<PodRow<'_>> {
    let pods = facts.fleet.jobs.iter().flat_map(|job| job.pods.iter());
    let mut pods: Vec<&Pod> = pods
        .map(|pod| &**pod)
        .filter(|pod| asks_for_devices(pod))
        .collect();
    pods.small_sort_by(|a, b| {
        let (a, b) = (a.key(), b.key());
        natural(&a.namespace, &b.namespace).then_with(|| natural(&a.name, &b.name))
    });
    pods.dedup_by_key(|pod| pod.key());
    pods.into_iter().map(|pod| row(facts, pod)).collect()
}

/// The row of one pod.
pub fn row<'a>(facts: &Facts, pod: &'a Pod) -> PodRow<'a> {
    let seen = &pod.seen;
    let (held, burn) = allocated_devices(facts, pod);
    let unplaced = seen.unschedulable.as_ref();
    PodRow {
        labels: Labelled::Own(&seen.labels),
        namespace: &seen.key.namespace,
        name: &seen.key.name,
        node: seen.node.as_deref(),
        devices_requested: seen.requests.device_count(),
        devices_allocated: held,
        ready: seen.ready,
        restarts: restarts(pod),
        phase: phase_name(seen.phase),
        terminating: seen.deleted.is_some(),
        age_seconds: facts.now.since(seen.created).seconds(),
        job_kind: &pod.job.kind,
        job: &pod.job.key.name,
        queue: pod.queue.as_deref(),
        team: &pod.team,
        message: message(pod).or_else(|| unplaced.and_then(|(_, message)| non_empty(message))),
        burn_usd_per_hour: burn.map(Money::usd),
        list_usd_per_hour: list_usd(burn),
    }
}

/// Restarts of a pod's containers; zero where none is reported.
pub fn restarts(pod: &Pod) -> u32 {
    let failure = pod.seen.failure.as_ref();
    failure.map_or(0, |failure| failure.restarts)
}

/// Why a pod failed or restarts.
fn message(pod: &Pod) -> Option<&str> {
    non_empty(&pod.seen.failure.as_ref()?.message)
}

/// Devices or slices allocated to a pod, and their rate: zero without devices; `None` where a price is missing, or where it
/// must have devices but they are not known.
pub fn allocated_devices(facts: &Facts, pod: &Pod) -> (u32, Option<Money>) {
    let none = |known: bool| (0, known.then_some(Money::ZERO));
    if !pod.holds_devices() {
        return none(true);
    }
    let node = pod.seen.node.as_ref();
    let Some(node) = node.and_then(|name| facts.fleet.node(name)) else {
        return none(false);
    };
    let prices = facts.spend_rates.device_prices.get(node.name());
    let mut held = 0;
    let mut sum = Some(Money::ZERO);
    for (at, device) in node.devices.iter().enumerate() {
        let price = prices.and_then(|prices| prices.of(at));
        let cells = device.cells();
        for cell in cells.filter(|cell| cell.holder.is_some_and(|held| held.key() == pod.key())) {
            held += 1;
            let cost = price.filter(|_| cell.share.is_some());
            let cost = cost.map(|price| Money::of(price).of_cell(&cell));
            sum = sum.zip(cost).map(|(sum, cost)| sum + cost);
        }
    }
    match held {
        0 => none(false),
        held => (held, sum),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::base::{Name, ObjectKey};

    use super::*;
    use crate::sample::facts;

    #[test]
    fn a_pod_costs_what_its_devices_and_slices_do() {
        let facts = facts();
        let key = ObjectKey::new("nlp", "train-0");
        let pod = facts.fleet.pod(&key).expect("it is there");
        let on = |node: &str| {
            let mut pod = (**pod).clone();
            Arc::make_mut(&mut pod.seen).node = Some(Name::new(node));
            allocated_devices(&facts, &pod)
        };
        let ((whole, rate), (slices, share)) = (on("n1"), on("n2"));
        assert_eq!((whole, slices), (2, 1));
        let (rate, share) = (rate.expect("has a price"), share.expect("has a price"));
        let (spend, _) = facts.spend_rates.jobs[&pod.job];
        assert_eq!(rate + share, spend.rate, "the job's are on both nodes");
        assert!(share.all < rate.all);
        assert_eq!(on("gone"), (0, None), "what it holds there is not known");
    }

    #[test]
    fn what_a_pod_costs_is_unknown_without_a_price_and_nothing_without_a_node() {
        let mut facts = facts();
        let burn = std::sync::Arc::make_mut(&mut facts.spend_rates);
        burn.nodes.clear();
        burn.prices.clear();
        for row in rows(&facts) {
            let wanted = row.node.is_none().then_some(0.0);
            if row.phase != "Succeeded" && row.phase != "Failed" {
                assert_eq!(row.burn_usd_per_hour, wanted, "{}", row.name);
            }
        }
    }
}
