//! Rows of `jobs`: each job's state, why it waits, and what it costs.

use std::borrow::Cow;
use std::cmp::Reverse;

use schemars::JsonSchema;
use serde::Serialize;

use model::advice::waits_for_requests;
use model::base::quantities::counted;
use model::base::{Age, Moment, SmallSort};
use model::cost::{Money, Spend};
use model::fleet::finding::{Finding, Severity};
use model::fleet::job::{Gang, Job, JobState};
use model::fleet::observe;
use model::fleet::profile::Bottleneck;

use super::job_failure::{FailureCell, with_preemptor};
use super::list_price::list_usd;
use crate::{Facts, non_empty};

/// Pods that are scheduled all together or not at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct GangCell {
    /// Number of pods in the gang.
    pub size: u32,
    /// Minimum number of pods; with fewer, the job makes no progress.
    pub min: u32,
}

impl From<Gang> for GangCell {
    fn from(gang: Gang) -> Self {
        Self {
            size: gang.size,
            min: gang.min,
        }
    }
}

#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct JobRow<'a> {
    /// Namespace of the job.
    pub namespace: &'a str,
    /// Name of the object.
    pub name: &'a str,
    /// Kind of object, `JobSet`.
    pub kind: &'a str,
    /// The queue that it is submitted to.
    pub queue: Option<&'a str>,
    /// The team that it counts for.
    pub team: &'a str,
    /// The rule that determined the team.
    #[schemars(with = "model::fleet::device::TeamSource")]
    pub team_source: &'static str,
    /// Priority of its pods.
    pub priority: Option<i32>,
    /// `waiting`, `starting`, `running`, `suspended`, `finishing`, `failed` or `done`.
    #[schemars(with = "JobState")]
    pub state: &'static str,
    /// Devices or slices that it requests.
    pub devices_requested: u32,
    /// Devices or slices allocated to it.
    pub devices_allocated: u32,
    /// Class of those devices.
    pub class: Option<&'a str>,
    /// Its gang; null for a job whose pods start alone.
    pub gang: Option<GangCell>,
    /// Seconds since its creation.
    pub age_seconds: u64,
    /// Seconds that it has waited, while it waits or is suspended.
    pub waiting_seconds: Option<u64>,
    /// Seconds that it has run, or ran in total once finished.
    pub running_seconds: Option<u64>,
    /// Stable code of the reason why it waits.
    pub reason_code: Option<&'static str>,
    /// The reason why it waits, as a sentence.
    pub reason: Option<&'a str>,
    /// Why it failed or restarts.
    pub failure: Option<FailureCell<'a>>,
    /// Mean utilization of its devices, 0 to 1.
    #[schemars(range(min = 0, max = 1))]
    pub util_ratio: Option<f64>,
    /// Its bottleneck over the last half hour: `idle`, `input`, `memory`, `tensor`, `compute`, `communication`, `mixed`;
    /// null where not classified.
    #[schemars(with = "Option<Bottleneck>")]
    pub bound: Option<&'static str>,
    /// Rate of its allocated devices, USD/h.
    #[schemars(range(min = 0))]
    pub burn_usd_per_hour: Option<f64>,
    /// The part of that rate that is list prices in place of what is paid, which is not known, USD/h.
    #[schemars(range(min = 0))]
    pub list_usd_per_hour: Option<f64>,
    /// Cost so far of its current pods' devices, USD; null where it had devices before them, as after an eviction.
    #[schemars(range(min = 0))]
    pub cost_usd: Option<f64>,
}

/// Why a job's cost so far is unknown; `None` where it is known, and for a job without devices.
pub fn why_no_cost(facts: &Facts, job: &Job) -> Option<&'static str> {
    let holds = so_far(facts, job).is_none() && job.devices_allocated > 0;
    holds.then(|| no_cost(money(facts, job).is_some()))
}

/// Rate of a job's devices. Zero for a job without devices; `None` where its devices have no price.
pub fn money(facts: &Facts, job: &Job) -> Option<Spend> {
    match facts.spend_rates.jobs.get(&job.id) {
        Some((spend, _)) => Some(*spend),
        None => (job.devices_allocated == 0).then(Spend::default),
    }
}

/// Why the cost so far of a job with devices is unknown: its devices have no price (`is_priced` is false), or it released devices.
pub const fn no_cost(is_priced: bool) -> &'static str {
    match is_priced {
        true => "its past allocation is not recorded",
        false => "none of its devices has a price",
    }
}

/// What the current pods of a job have cost so far; `None` where it had devices before them.
pub fn so_far(facts: &Facts, job: &Job) -> Option<Money> {
    match facts.spend_rates.jobs.get(&job.id) {
        Some((_, so_far)) => (!job.held_before()).then_some(*so_far),
        None => job.never_started().then_some(Money::ZERO),
    }
}

/// The age of a job: of its wait while it waits, otherwise of its run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JobAge {
    /// Running since this moment.
    Since(Moment),
    /// Final: the job has finished.
    Over(Age),
}

/// True while a job waits for devices or is suspended.
pub const fn waits(job: &Job) -> bool {
    matches!(job.state, JobState::Waiting | JobState::Suspended)
}

/// How long a job has waited or run; `None` where the start is unknown.
pub fn clock(job: &Job) -> Option<JobAge> {
    match job.state {
        JobState::Done | JobState::Failed => {
            let (started, finished) = job.started.zip(job.finished)?;
            Some(JobAge::Over(finished.since(started)))
        }
        _ if waits(job) => Some(JobAge::Since(job.waiting_since.unwrap_or(job.created))),
        _ => job.started.map(JobAge::Since),
    }
}

/// The event that a job's wait is counted from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waited {
    /// Creation: it never ran.
    SinceMade,
    SinceSuspended(Moment),
    SinceEvicted(Moment),
    /// Submission to its queue.
    SinceQueued(Moment),
    /// Creation of its new pods: the earlier pods are gone.
    SinceNewPods(Moment),
}

/// The start of a job's wait; `None` for a job that is not waiting.
pub fn waited(job: &Job) -> Option<Waited> {
    if !waits(job) {
        return None;
    }
    let evicted = || {
        let seen = job.admission.as_ref().map(|admission| &admission.seen);
        let by_queue = seen.is_some_and(|seen| seen.queued_at.is_some());
        let pods = job.failure.as_ref();
        by_queue || pods.is_some_and(|failure| failure.last_eviction.is_some())
    };
    Some(match job.waiting_since {
        None => Waited::SinceMade,
        Some(at) if at <= job.created => Waited::SinceMade,
        Some(at) if evicted() => Waited::SinceEvicted(at),
        Some(at) if job.state == JobState::Suspended => Waited::SinceSuspended(at),
        Some(at) if job.pods.is_empty() => Waited::SinceQueued(at),
        Some(at) => Waited::SinceNewPods(at),
    })
}

/// The moment that orders jobs by their wait. An eviction, a hold or new pods begin a new wait, but do not move a job to the end:
/// it counts from its creation.
pub fn first_waited(job: &Job) -> Moment {
    let since = job.waiting_since.filter(|_| !waits_anew(job));
    since.unwrap_or(job.created)
}

/// True for a job that waits and did not wait all the time since its submission.
pub fn waits_anew(job: &Job) -> bool {
    matches!(
        waited(job),
        Some(Waited::SinceSuspended(_) | Waited::SinceEvicted(_) | Waited::SinceNewPods(_))
    )
}

/// A job's current wait, and how long ago it was created: `26s since it was evicted, created 5h23m ago`; `None` for a job that
/// does not wait. `age` writes how long ago a moment was.
pub fn waited_words(job: &Job, mut age: impl FnMut(Moment) -> String) -> Option<String> {
    let made = age(job.created);
    let (at, what) = match waited(job)? {
        Waited::SinceMade => return Some(format!("{made} since it was created")),
        Waited::SinceSuspended(at) => (at, "it was suspended"),
        Waited::SinceEvicted(at) => (at, "it was evicted"),
        Waited::SinceQueued(at) => (at, "it was queued"),
        Waited::SinceNewPods(at) => (at, "its pods were recreated"),
    };
    Some(format!("{} since {what}, created {made} ago", age(at)))
}

/// When a job failed or was last evicted; otherwise when its pod failed, or started; `None` where unknown.
pub fn failed_at(job: &Job) -> Option<Moment> {
    let failure = job.failure.as_ref()?;
    let failed = job.pods.iter().filter_map(|pod| {
        let failure = pod.seen.failure.as_ref()?;
        failure.ended.or(pod.seen.started)
    });
    job.finished.or(failure.last_eviction.max(failed.max()))
}

/// The failed jobs of a scope, the latest failure first; one without a known time of failure is last.
pub fn failed_latest_first(facts: &Facts) -> Vec<&Job> {
    let jobs = facts.fleet.jobs.iter().map(|job| &**job);
    let is_failed = |job: &&Job| job.state == JobState::Failed && facts.has_job(job);
    let mut failed: Vec<&Job> = jobs.filter(is_failed).collect();
    failed.small_sort_by_key(|job| Reverse(failed_at(job)));
    failed
}

/// A job that has run for longer than this since its failure counts as healthy.
const RECENT: Age = Age::from_seconds(3_600);

/// True for a failure that persists or ended recently.
pub fn is_failing(failure: &observe::WorkloadFailure, now: Moment) -> bool {
    failure.restarted.is_none_or(|at| now.since(at) < RECENT)
}

/// A scheduler's reason for pending pods in short form: the shortage, and the number of eligible nodes. Other sentences are unchanged.
///
/// `0/497 nodes are available: 32 Insufficient nvidia.com/gpu, 465 node(s) had untolerated taint(s). preemption: …` becomes
/// `unschedulable: Insufficient nvidia.com/gpu; 32 of 497 nodes eligible`; Kueue's `couldn't assign flavors to pod set main:
/// insufficient unused quota …` keeps only the shortage.
pub fn plain(reason: &str) -> Cow<'_, str> {
    in_short(reason).map_or(Cow::Borrowed(reason), Cow::Owned)
}

/// Why a job waits, in short form, with the job that preempted it.
pub fn reason(facts: &Facts, job: &Job) -> String {
    with_preemptor(&facts.fleet, &plain(&job.reason)).into_owned()
}

/// kube-scheduler's reason for a node with too few devices for a pod's claims.
const CLAIMS: &str = "cannot allocate all claims";

fn in_short(reason: &str) -> Option<String> {
    // Kueue: the shortage follows.
    if let Some(rest) = reason.strip_prefix("couldn't assign flavors to pod set ") {
        return rest.split_once(": ").map(|(_, why)| why.to_owned());
    }
    let (head, rest) = reason.split_once(" nodes are available: ")?;
    let nodes: u64 = head.strip_prefix("0/")?.parse().ok()?;
    // What follows the sentence is of the plugins that look for a way out: of preemption, in 1.36 of claims, too.
    let rest = rest.split(". ").next().unwrap_or(rest);
    let rest = rest.split(" preemption: ").next().unwrap_or(rest);
    let clauses = rest.trim_end().trim_end_matches('.').split(", ");
    let counts = clauses.filter_map(|clause| {
        let (count, why) = clause.split_once(' ')?;
        Some((count.parse::<u64>().ok()?, why))
    });
    let (short, others): (Vec<_>, Vec<_>) =
        counts.partition(|(_, why)| why.starts_with("Insufficient ") || *why == CLAIMS);
    if short.is_empty() {
        let (count, why) = others.iter().max_by_key(|(count, _)| *count)?;
        return Some(format!(
            "unschedulable: no eligible node: {why} ({count} of {nodes})"
        ));
    }
    let refused: u64 = others
        .iter()
        .fold(0, |sum, (count, _)| sum.saturating_add(*count));
    let what: Vec<&str> = short
        .iter()
        .map(|(_, why)| {
            why.strip_prefix("Insufficient ")
                .unwrap_or("devices by claim")
        })
        .collect();
    Some(format!(
        "unschedulable: Insufficient {}; {} of {} eligible",
        what.join(", "),
        nodes.saturating_sub(refused),
        counted(nodes, "node"),
    ))
}

/// Class of the devices that it requests or has, marked when these are slices; `None` where unknown.
pub fn class_words(job: &Job) -> Option<String> {
    let class = job.class.as_ref()?;
    Some(match job.is_sliced() {
        true if job.devices_requested == 1 => format!("{class} slice"),
        true => format!("{class} slices"),
        false => class.to_string(),
    })
}

/// Mean utilization of its devices, 0 to 1.
pub fn util(job: &Job) -> Option<f64> {
    job.util.filter(|_| job.devices_allocated > 0)
}

/// The findings about a job, the faults of its devices, and those of them that slow down its gang; worst first.
pub fn findings<'a>(facts: &'a Facts, job: &'a Job) -> impl Iterator<Item = &'a Finding> {
    let is_its = |id: &str| {
        let device = facts.fleet.device_of(id);
        device.is_some_and(|(_, device)| device.holders().any(|(pod, _)| pod.job == job.id))
    };
    let about = move |finding: &&Finding| match finding.subject.kind {
        "Job" => finding.subject.key == job.id.key,
        "Device" => {
            (finding.severity == Severity::Crit || finding.code.as_str() == "straggler")
                && is_its(&finding.subject.key.name)
        }
        _ => false,
    };
    facts.fleet.findings.iter().filter(about)
}

/// The worst of these findings that is at least a warning and neither muted nor acknowledged. `None` for a job without devices.
pub fn worst<'a>(facts: &'a Facts, job: &'a Job) -> Option<&'a Finding> {
    if job.devices_allocated == 0 {
        return None;
    }
    findings(facts, job)
        .filter(|own| own.severity != Severity::Info)
        .find(|own| facts.silences.of(own, facts.now).is_none())
}

/// A job's bottleneck, where it is classified and is one.
pub fn bound(facts: &Facts, job: &Job) -> Option<Bottleneck> {
    let profile = facts.history.profiles().get(&job.id)?;
    let bound = profile.verdict.ok().filter(|_| job.devices_allocated > 0);
    bound.filter(|bound| !waits_for_requests(job, *bound))
}

pub fn row<'a>(facts: &Facts, job: &'a Job) -> JobRow<'a> {
    let money = money(facts, job);
    let clock = clock(job);
    let seconds = |clock: Option<JobAge>| match clock? {
        JobAge::Since(at) => Some(facts.now.since(at).seconds()),
        JobAge::Over(span) => Some(span.seconds()),
    };
    JobRow {
        namespace: job.namespace(),
        name: job.name(),
        kind: &job.id.kind,
        queue: job.queue.as_deref(),
        team: &job.team,
        team_source: job.team_source.name(),
        priority: job.priority,
        state: job.state.name(),
        devices_requested: job.devices_requested,
        devices_allocated: job.devices_allocated,
        class: job.class.as_deref(),
        gang: job.gang.map(GangCell::from),
        age_seconds: facts.now.since(job.created).seconds(),
        waiting_seconds: seconds(clock.filter(|_| waits(job))),
        running_seconds: seconds(clock.filter(|_| !waits(job))),
        reason_code: job.reason_code,
        reason: non_empty(&job.reason),
        failure: job.failure.as_ref().map(FailureCell::from),
        util_ratio: util(job),
        bound: bound(facts, job).map(Bottleneck::name),
        burn_usd_per_hour: money.map(|spend| spend.rate.usd()),
        list_usd_per_hour: list_usd(money.map(|spend| spend.rate)),
        cost_usd: so_far(facts, job).map(Money::usd),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_scheduler_says_is_short() {
        let raw = "0/497 nodes are available: 32 Insufficient nvidia.com/gpu, 3 Insufficient cpu, 465 node(s) had untolerated taint(s). preemption: 0/497 nodes are available: 497 Preemption is not helpful for scheduling.";
        assert_eq!(
            plain(raw),
            "unschedulable: Insufficient nvidia.com/gpu, cpu; 32 of 497 nodes eligible"
        );
        // What kube-scheduler 1.36 adds of claims.
        let raw = "0/24 nodes are available: 24 Insufficient nvidia.com/gpu. no new claims to deallocate, preemption: 0/24 nodes are available: 24 No preemption victims found for incoming pods.";
        assert_eq!(
            plain(raw),
            "unschedulable: Insufficient nvidia.com/gpu; 24 of 24 nodes eligible"
        );
        let raw = "0/4 nodes are available: 3 node(s) didn't match Pod's node affinity/selector, 1 node(s) were unschedulable.";
        assert_eq!(
            plain(raw),
            "unschedulable: no eligible node: node(s) didn't match Pod's node affinity/selector (3 of 4)"
        );
        let raw = "0/506 nodes are available: 2 cannot allocate all claims, 504 node(s) didn't match Pod's node affinity/selector.";
        assert_eq!(
            plain(raw),
            "unschedulable: Insufficient devices by claim; 2 of 506 nodes eligible"
        );
        let raw = "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor h100, 8 more needed";
        assert_eq!(
            plain(raw),
            "insufficient unused quota for nvidia.com/gpu in flavor h100, 8 more needed"
        );
        for other in [
            "",
            "pending",
            "0/x nodes are available: ",
            "insufficient quota",
        ] {
            assert_eq!(plain(other), other);
        }
    }
}
