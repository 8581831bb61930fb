//! Rows of `jobs`: what a team submitted, where it stands, why it waits and what it costs.

use std::borrow::Cow;

use serde::Serialize;

use model::base::natural;
use model::base::quantities::counted;
use model::base::{Age, Moment, Rate, SmallSort};
use model::cost::Spend;
use model::fleet::device::{Device, Pod};
use model::fleet::job::{Gang, Job, JobState};
use model::fleet::node::Node;
use model::fleet::observe;
use model::fleet::profile::Bound;

use super::select::Labelled;
use super::table::Column;
use super::text::{age, or_unknown, percent, usd, word};
use super::{Facts, said};

/// Pods that run together or not at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct GangCell {
    /// Pods that it wants.
    pub size: u32,
    /// Pods without which it does nothing.
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

/// Why a job failed or restarts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct FailureCell<'a> {
    /// Exit code of the container that ended last.
    pub exit_code: Option<i32>,
    /// What was said of it.
    pub message: Option<&'a str>,
    /// Restarts in all.
    pub restarts: u32,
    /// When a pod of it was last evicted, RFC 3339.
    pub last_eviction: Option<String>,
    /// When what failed last began to run again, RFC 3339; `None` while the failure stands.
    pub last_restart: Option<String>,
}

impl FailureCell<'_> {
    /// The same in a few words.
    fn words(&self) -> String {
        self.words_at(self.last_restart.as_deref())
    }

    /// The same, with when it restarted as one likes it.
    fn words_at(&self, restarted: Option<&str>) -> String {
        if let Some(at) = restarted {
            return self.over(at);
        }
        let exit = self.exit_code.map(|code| format!("exit code {code}"));
        let restarts = (self.restarts > 0).then(|| counted(u64::from(self.restarts), "restart"));
        let message = self.message.map(str::to_owned);
        let words: Vec<String> = [message, exit, restarts].into_iter().flatten().collect();
        match words.is_empty() {
            true => String::from("failed"),
            false => words.join(", "),
        }
    }

    /// A failure that is over: `restarted 12m ago after OOMKilled, exit code 137 (3 restarts)`.
    fn over(&self, at: &str) -> String {
        let exit = self.exit_code.map(|code| format!("exit code {code}"));
        let why = self.message.map(str::to_owned).into_iter().chain(exit);
        let why: Vec<String> = why.collect();
        let after = match why.is_empty() {
            true => String::new(),
            false => format!(" after {}", why.join(", ")),
        };
        let times = match self.restarts {
            0 | 1 => String::new(),
            count => format!(" ({})", counted(u64::from(count), "restart")),
        };
        format!("restarted {at}{after}{times}")
    }
}

impl<'a> From<&'a observe::Failure> for FailureCell<'a> {
    fn from(failure: &'a observe::Failure) -> Self {
        Self {
            exit_code: failure.exit_code,
            message: said(&failure.message),
            restarts: failure.restarts,
            last_eviction: failure.last_eviction.map(|at| at.rfc3339()),
            last_restart: failure.restarted.map(|at| at.rfc3339()),
        }
    }
}

/// One job.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct JobRow<'a> {
    /// Its labels and those of its pods.
    #[serde(skip)]
    pub labels: Labelled<'a>,
    /// Namespace.
    pub namespace: &'a str,
    /// Name.
    pub name: &'a str,
    /// Kind of object, `JobSet`.
    pub kind: &'a str,
    /// Queue.
    pub queue: Option<&'a str>,
    /// Team.
    pub team: &'a str,
    /// Which rule named the team.
    pub team_source: &'static str,
    /// Priority of its pods.
    pub priority: Option<i32>,
    /// `waiting`, `starting`, `running`, `suspended`, `finishing`, `failed` or `done`.
    pub state: &'static str,
    /// Devices or slices that it asks for.
    pub devices_requested: u32,
    /// Devices or slices that it holds.
    pub devices_allocated: u32,
    /// They are slices of devices.
    #[serde(skip)]
    pub is_sliced: bool,
    /// Class of those devices.
    pub class: Option<&'a str>,
    /// Its gang.
    pub gang: Option<GangCell>,
    /// Since it was made.
    pub age_seconds: u64,
    /// How long it has waited, while it waits or is suspended.
    pub waiting_seconds: Option<u64>,
    /// How long it has run; of one that is over, how long it ran.
    pub running_seconds: Option<u64>,
    /// A word for why it waits.
    pub reason_code: Option<&'static str>,
    /// The same in a sentence.
    pub reason: Option<&'a str>,
    /// Why it failed or restarts.
    pub failure: Option<FailureCell<'a>>,
    /// When it failed, RFC 3339; `None` where it did not, or nothing says it.
    #[serde(skip)]
    pub failed_at: Option<String>,
    /// Mean utilization of its devices, 0 to 1.
    pub util_ratio: Option<f64>,
    /// What bounds it by the last half hour: `idle`, `input`, `memory`, `tensor`, `compute`, `communication`, `mixed`; `None` where not
    /// judged.
    pub bound: Option<&'static str>,
    /// USD an hour of what it holds.
    pub burn_usd_per_hour: Option<f64>,
    /// USD so far for what it holds now; `None` once it has given devices back.
    pub cost_usd: Option<f64>,
}

/// Columns as CSV.
pub(super) const FIELDS: &[&str] = &[
    "namespace",
    "name",
    "kind",
    "queue",
    "team",
    "team_source",
    "priority",
    "state",
    "devices_requested",
    "devices_allocated",
    "class",
    "gang.size",
    "gang.min",
    "age_seconds",
    "waiting_seconds",
    "running_seconds",
    "reason_code",
    "reason",
    "failure.exit_code",
    "failure.message",
    "failure.restarts",
    "failure.last_eviction",
    "failure.last_restart",
    "util_ratio",
    "bound",
    "burn_usd_per_hour",
    "cost_usd",
];

/// Columns as a table.
pub(super) fn columns<'a>() -> Vec<Column<JobRow<'a>>> {
    vec![
        Column::text("NAMESPACE", |row: &JobRow<'_>| row.namespace.to_owned()),
        Column::text("NAME", |row| row.name.to_owned()),
        Column::text("KIND", |row| row.kind.to_owned()),
        Column::text("QUEUE", |row| word(row.queue)),
        Column::text("TEAM", |row| row.team.to_owned()),
        Column::wide_number("PRIO", |row: &JobRow<'_>| or_unknown(row.priority)).by("priority"),
        Column::text("STATE", |row| row.state.to_owned()),
        Column::number("DEVICES", |row: &JobRow<'_>| {
            let slices = if row.is_sliced { " slices" } else { "" };
            format!(
                "{}/{}{slices}",
                row.devices_allocated, row.devices_requested
            )
        })
        .by("devices_allocated"),
        Column::text("CLASS", |row| word(row.class)),
        Column::wide_number("GANG", |row: &JobRow<'_>| {
            or_unknown(row.gang.map(|gang| format!("{}/{}", gang.min, gang.size)))
        })
        .by("gang.size"),
        Column::number("AGE", |row: &JobRow<'_>| age(Some(row.age_seconds))).by("age_seconds"),
        Column::number("WAIT/RUN", |row: &JobRow<'_>| {
            age(row.waiting_seconds.or(row.running_seconds))
        })
        .by("waiting_seconds|running_seconds"),
        // The only reading: without it the table waits for no exporter.
        Column::wide_number("UTIL", |row: &JobRow<'_>| percent(row.util_ratio)).by("util_ratio"),
        Column::wide_text("BOUND BY", |row: &JobRow<'_>| word(row.bound)).by("bound"),
        Column::number("$/H", |row: &JobRow<'_>| usd(row.burn_usd_per_hour))
            .by("burn_usd_per_hour"),
        Column::number("COST SINCE START", |row: &JobRow<'_>| usd(row.cost_usd)).by("cost_usd"),
        Column::wide_text("COST UNKNOWN", |row: &JobRow<'_>| word(row.why_no_cost())),
        Column::text("REASON", |row| {
            let failure = row.failure.as_ref().map(FailureCell::words);
            let reason = row.reason.map(plain);
            let words = word(reason.as_deref().or(failure.as_deref()));
            match &row.failed_at {
                Some(at) => format!("failed {at}: {words}"),
                None => words,
            }
        }),
    ]
}

impl JobRow<'_> {
    /// Why its cost so far is not known; `None` where it is, and for a job that holds nothing.
    fn why_no_cost(&self) -> Option<&'static str> {
        let holds = self.cost_usd.is_none() && self.devices_allocated > 0;
        holds.then(|| no_cost(self.burn_usd_per_hour.is_some()))
    }
}

/// Every job by namespace, name and kind.
pub fn rows(facts: &Facts) -> Vec<JobRow<'_>> {
    let mut jobs: Vec<&Job> = facts.fleet.jobs.iter().map(|job| &**job).collect();
    jobs.small_sort_by(|a, b| {
        natural(a.namespace(), b.namespace()).then_with(|| natural(a.name(), b.name()))
    });
    jobs.into_iter().map(|job| row(facts, job)).collect()
}

/// Every job, the one that failed last first; those of which nothing says when they failed last.
pub(super) fn newest_failure_first(facts: &Facts) -> Vec<JobRow<'_>> {
    let mut jobs: Vec<&Job> = facts.fleet.jobs.iter().map(|job| &**job).collect();
    jobs.small_sort_by_key(|job| (std::cmp::Reverse(failed_at(job)), job.id.clone()));
    jobs.into_iter().map(|job| row(facts, job)).collect()
}

/// What a job's devices cost an hour. A job that holds nothing costs nothing; one that holds devices without a price
/// costs an unknown sum.
pub fn money(facts: &Facts, job: &Job) -> Option<Spend> {
    match facts.burn.jobs.get(&job.id) {
        Some((spend, _)) => Some(*spend),
        None => (job.devices_allocated == 0).then(Spend::default),
    }
}

/// Why it is not known what a job that holds devices cost so far: none of them has a price (`is_priced` is false), or it held others.
pub const fn no_cost(is_priced: bool) -> &'static str {
    match is_priced {
        true => "what it held before is not kept",
        false => "none of its devices has a price",
    }
}

/// What a job cost so far; unknown where it gave devices back, since what it held before is not kept.
pub fn so_far(facts: &Facts, job: &Job) -> Option<Rate> {
    match facts.burn.jobs.get(&job.id) {
        Some((_, so_far)) => (!job.held_before()).then_some(*so_far),
        None => job.never_started().then_some(Rate::ZERO),
    }
}

/// The one clock of a job: of its wait while it waits, else of its run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clock {
    /// It goes on since this moment.
    Since(Moment),
    /// It stands: the job is over.
    Over(Age),
}

/// True while a job waits for devices or for somebody to resume it.
pub const fn waits(job: &Job) -> bool {
    matches!(job.state, JobState::Waiting | JobState::Suspended)
}

/// How long a job waits or runs; `None` where it is not known when that began.
pub fn clock(job: &Job) -> Option<Clock> {
    match job.state {
        JobState::Done | JobState::Failed => {
            let (started, finished) = job.started.zip(job.finished)?;
            Some(Clock::Over(finished.since(started)))
        }
        _ if waits(job) => Some(Clock::Since(job.waiting_since.unwrap_or(job.created))),
        _ => job.started.map(Clock::Since),
    }
}

/// Since when a job waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waited {
    /// Since it was made: it never ran.
    SinceMade,
    /// Since it was suspended.
    SinceSuspended(Moment),
    /// Since it was evicted, or put back into its queue.
    SinceEvicted(Moment),
    /// Since it was put into its queue.
    SinceQueued(Moment),
    /// Since its pods were made anew: those before them have gone.
    SinceNewPods(Moment),
}

/// Since when a job waits and why since then; `None` for one that does not wait.
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

/// When a job failed or was last evicted, or, where no more is known, when the pod that failed began; `None` where nothing says it.
pub fn failed_at(job: &Job) -> Option<Moment> {
    let failure = job.failure.as_ref()?;
    let failed = job.pods.iter().filter(|pod| pod.seen.failure.is_some());
    let began = failed.filter_map(|pod| pod.seen.started).max();
    job.finished.or(failure.last_eviction.max(began))
}

/// What failed and has run again for longer than this is well.
const RECENT: Age = Age::from_seconds(3_600);

/// True for a failure that stands, or that was over only lately.
pub fn is_failing(failure: &observe::Failure, now: Moment) -> bool {
    failure.restarted.is_none_or(|at| now.since(at) < RECENT)
}

/// A failure in a few words.
pub fn why_failed(failure: &observe::Failure, now: Moment) -> String {
    let restarted = failure.restarted;
    let restarted = restarted.map(|at| format!("{} ago", now.since(at)));
    FailureCell::from(failure).words_at(restarted.as_deref())
}

/// A scheduler's sentence of why pods have no node, in short: what is short, and on how many nodes they may run. Other sentences
/// stay as they are.
///
/// `0/497 nodes are available: 32 Insufficient nvidia.com/gpu, 465 node(s) had untolerated taint(s). preemption: …` becomes
/// `unschedulable: Insufficient nvidia.com/gpu; 32 of 497 nodes eligible`.
pub fn plain(reason: &str) -> Cow<'_, str> {
    in_short(reason).map_or(Cow::Borrowed(reason), Cow::Owned)
}

fn in_short(reason: &str) -> Option<String> {
    let (head, rest) = reason.split_once(" nodes are available: ")?;
    let nodes: u64 = head.strip_prefix("0/")?.parse().ok()?;
    let rest = rest.split(" preemption: ").next().unwrap_or(rest);
    let clauses = rest.trim_end().trim_end_matches('.').split(", ");
    let counts = clauses.filter_map(|clause| {
        let (count, why) = clause.split_once(' ')?;
        Some((count.parse::<u64>().ok()?, why))
    });
    let (short, others): (Vec<_>, Vec<_>) =
        counts.partition(|(_, why)| why.starts_with("Insufficient "));
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
        .map(|(_, why)| &why["Insufficient ".len()..])
        .collect();
    Some(format!(
        "unschedulable: Insufficient {}; {} of {} eligible",
        what.join(", "),
        nodes.saturating_sub(refused),
        counted(nodes, "node"),
    ))
}

/// The devices that hold up a gang, each with its pod, as its findings have it: node, device, pod.
pub fn stragglers<'a>(facts: &'a Facts, job: &Job) -> Vec<(&'a Node, &'a Device, &'a Pod)> {
    if !job.is_gang() || job.devices_allocated == 0 {
        return Vec::new();
    }
    let findings = facts.fleet.findings.iter();
    let of_devices =
        findings.filter(|one| one.code.as_str() == "straggler" && one.subject.kind == "Device");
    let found = of_devices.filter_map(|one| {
        let (node, _) = one.subject.key.name.rsplit_once('/')?;
        let node = facts.fleet.node(node)?;
        let mut devices = node.devices.iter();
        let device = devices.find(|device| device.id == one.subject.key.name)?;
        let holder = device.holder.as_deref()?;
        (holder.job == job.id).then_some((&**node, device, holder))
    });
    found.collect()
}

/// True where what it holds, or asks for while it holds nothing, are slices of devices alone.
pub fn is_sliced(job: &Job) -> bool {
    if !job.places.is_empty() {
        return job.places.iter().all(|place| place.slice.is_some());
    }
    let asked = || {
        let sets = job.pod_sets.iter();
        sets.flat_map(|set| set.request.devices.iter())
            .filter(|(_, count)| *count > 0)
    };
    asked().next().is_some() && asked().all(|(resource, _)| resource.contains("/mig-"))
}

/// Mean utilization of the devices that it holds.
pub fn util(job: &Job) -> Option<f64> {
    job.util.filter(|_| job.devices_allocated > 0)
}

/// What bounds a job, where that is judged.
pub fn bound(facts: &Facts, job: &Job) -> Option<Bound> {
    let profile = facts.history.profiles().get(&job.id)?;
    profile.verdict.ok().filter(|_| job.devices_allocated > 0)
}

/// The row of one job.
pub fn row<'a>(facts: &Facts, job: &'a Job) -> JobRow<'a> {
    let money = money(facts, job);
    let clock = clock(job);
    let seconds = |clock: Option<Clock>| match clock? {
        Clock::Since(at) => Some(facts.now.since(at).seconds()),
        Clock::Over(span) => Some(span.seconds()),
    };
    JobRow {
        labels: Labelled::Job(job),
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
        is_sliced: is_sliced(job),
        class: job.class.as_deref(),
        gang: job.gang.map(GangCell::from),
        age_seconds: facts.now.since(job.created).seconds(),
        waiting_seconds: seconds(clock.filter(|_| waits(job))),
        running_seconds: seconds(clock.filter(|_| !waits(job))),
        reason_code: job.reason_code,
        reason: said(&job.reason),
        failure: job.failure.as_ref().map(FailureCell::from),
        failed_at: (job.state == JobState::Failed)
            .then(|| failed_at(job).map(Moment::rfc3339))
            .flatten(),
        util_ratio: util(job),
        bound: bound(facts, job).map(Bound::name),
        burn_usd_per_hour: money.map(|spend| spend.burn.usd()),
        cost_usd: so_far(facts, job).map(Rate::usd),
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
        let raw = "0/4 nodes are available: 3 node(s) didn't match Pod's node affinity/selector, 1 node(s) were unschedulable.";
        assert_eq!(
            plain(raw),
            "unschedulable: no eligible node: node(s) didn't match Pod's node affinity/selector (3 of 4)"
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

    #[test]
    fn a_failure_that_is_over_is_told_as_a_restart() {
        let restarted = Moment::from_millis(0);
        let failure = observe::Failure {
            exit_code: Some(137),
            message: "OOMKilled".into(),
            restarts: 3,
            restarted: Some(restarted),
            ..observe::Failure::default()
        };
        let now = Moment::from_millis(12 * 60_000);
        assert_eq!(
            why_failed(&failure, now),
            "restarted 12m ago after OOMKilled, exit code 137 (3 restarts)"
        );
        assert_eq!(
            FailureCell::from(&failure).words(),
            "restarted 1970-01-01T00:00:00Z after OOMKilled, exit code 137 (3 restarts)"
        );
        let stands = observe::Failure {
            restarted: None,
            ..failure
        };
        assert_eq!(
            why_failed(&stands, now),
            "OOMKilled, exit code 137, 3 restarts"
        );
    }
}
