//! Why a job waits, what would start it and when, as short text for a cell or a panel.

pub mod explanations;
pub mod prices;
pub mod unblock;

use std::cmp::Ordering;

use engine::explain::{
    Explanation, NodeSupply, Reason, StartState, Unblock, UnblockChange, amount, of_flavor,
};
use engine::explanations::ChangeWithStart;
use engine::forecast::{Basis, Start};
use engine::snapshot::ANY_FLAVOR;
use model::base::quantities::{counted, grouped};
use model::base::{Age, Moment, SmallSort};
use model::fleet::job::{Job, JobState};
use model::fleet::visibility::unseen_words;

use super::Facts;
use super::rows::job_place::where_or_why;
use super::rows::jobs::{self, class_words, first_waited};
use super::text::{NO_ETA, eta as eta_words, eta_alone, hour};
use super::waiting::explanations::{JobExplanation, victims_words};

/// In the place of words that are not known.
const UNKNOWN: &str = "–";

/// The jobs of a scope that wait, as places among all jobs: who has waited longest first, see [`first_waited`].
pub fn longest_first(facts: &Facts) -> Vec<u32> {
    let all = &facts.fleet.jobs;
    let mut waiting: Vec<u32> = (0..all.len() as u32)
        .filter(|at| {
            let job = &all[*at as usize];
            job.state == JobState::Waiting && facts.has_job(job)
        })
        .collect();
    waiting.small_sort_by_key(|at| first_waited(&all[*at as usize]));
    waiting
}

/// The engine's explanation of a waiting job.
pub fn explanation_of<'a>(facts: &'a Facts, job: &Job) -> Option<&'a JobExplanation> {
    matches!(job.state, JobState::Waiting | JobState::Suspended)
        .then(|| facts.answers.job(&job.id))
        .flatten()
}

/// The request of a waiting job, with the used and the free amount of the same resource, in the same unit.
#[derive(Clone, PartialEq, Debug)]
pub struct Shortage {
    /// Whose: `quota of h100 in queue research`.
    pub what: String,
    /// Used, without what is borrowed.
    pub own: i64,
    /// Used beyond the nominal quota.
    pub borrowed: i64,
    pub free: i64,
    pub asked: i64,
    /// The amounts in words.
    pub words: String,
}

/// The quotas and nodes that a waiting job finds too small, as the engine's reasons state them, the most significant first.
pub fn shortages(facts: &Facts, job: &Job) -> Vec<Shortage> {
    let Some(answer) = explanation_of(facts, job) else {
        return Vec::new();
    };
    let reasons = &answer.answer.explanation.reasons;
    // How much of it others use is unknown then.
    if reasons.iter().any(Reason::is_blind) {
        return Vec::new();
    }
    reasons.iter().filter_map(shortage).collect()
}

fn shortage(reason: &Reason) -> Option<Shortage> {
    match reason {
        Reason::Quota {
            queue,
            flavor,
            resource,
            asked,
            free,
            used,
            nominal,
            borrowed,
        } => Some(Shortage {
            what: format!(
                "{flavor} quota of queue {queue}: {} of its own",
                amount(resource, *nominal)
            ),
            own: used - borrowed,
            borrowed: *borrowed,
            free: (*free).max(0),
            asked: *asked,
            words: format!(
                "{} used{}, {} free, {} requested",
                amount(resource, used - borrowed),
                match borrowed {
                    0 => String::new(),
                    more => format!(" and {} borrowed", amount(resource, *more)),
                },
                amount(resource, (*free).max(0)),
                amount(resource, *asked)
            ),
        }),
        Reason::OverMost {
            queue,
            flavor,
            resource,
            asked,
            most,
        } => Some(Shortage {
            what: format!("{flavor} limit of queue {queue}, borrowing included"),
            own: 0,
            borrowed: 0,
            free: *most,
            asked: *asked,
            words: format!(
                "{} at most, {} requested",
                amount(resource, *most),
                amount(resource, *asked)
            ),
        }),
        Reason::NoRoom(supply) | Reason::Fragmented(supply) | Reason::Absent(supply) => {
            let whole = |milli: i64| grouped(milli / 1_000);
            let used = supply.devices_milli - supply.free_devices_milli;
            Some(Shortage {
                what: String::from("devices of the nodes that it can run on"),
                own: used,
                borrowed: 0,
                free: supply.free_devices_milli,
                asked: supply.asked_devices_milli,
                words: format!(
                    "{} allocated, {} free, {} requested: room for {} of {} pods",
                    whole(used),
                    whole(supply.free_devices_milli),
                    whole(supply.asked_devices_milli),
                    supply.room,
                    supply.asked
                ),
            })
        }
        _ => None,
    }
}

/// Grace period before we report that the cluster has not started a job that the engine finds startable.
const TURN: Age = Age::from_seconds(120);

/// True when by our calculation the job could start, but minutes after its admission its cluster has refused it or created no
/// pods: no start is predicted.
fn is_stuck(facts: &Facts, job: &Job, answer: &JobExplanation) -> bool {
    let admission = job.admission.as_ref().map(|known| &known.seen);
    let quota_reserved = admission.and_then(|seen| seen.admitted_at.max(seen.reserved_at));
    let pods = job.pods.iter().map(|pod| pod.seen.created).max();
    let since = job.waiting_since.max(quota_reserved).max(pods);
    answer.answer.explanation.state == StartState::Ready
        && matches!(job.reason_code, Some("unschedulable" | "no-pods"))
        && facts.now.since(since.unwrap_or(job.created)) > TURN
}

/// What by our reckoning it could start with.
fn stuck_words(explanation: &Explanation) -> &'static str {
    match explanation.victims.is_empty() {
        true => "enough devices are free",
        false => "it may preempt others",
    }
}

/// Why it waits; for what does not wait, where it is or why it failed.
pub fn why(facts: &Facts, job: &Job) -> String {
    let answer = explanation_of(facts, job).filter(|answer| !is_stuck(facts, job, answer));
    let Some(answer) = answer else {
        return where_or_why(facts, job);
    };
    let explanation = &answer.answer.explanation;
    match (explanation.state, explanation.reasons.first()) {
        (StartState::Held, _) if !job.reason.is_empty() => job.reason.to_string(),
        // The message of the job's own queueing system or scheduler is more useful than our lack of permission.
        (_, Some(reason)) if reason.is_blind() && !job.reason.is_empty() => {
            jobs::reason(facts, job)
        }
        (_, Some(reason)) => brief(reason, job),
        (StartState::Ready, None) => match evicts(explanation.victims.len()) {
            None => String::from("nothing blocks it: next scheduling cycle"),
            Some(words) => format!("starts in its scheduler's next cycle{words}"),
        },
        (_, None) => where_or_why(facts, job),
    }
}

/// Why it waits, and before that whether `A` starts it: a table cuts the end.
pub fn why_and_start(facts: &Facts, job: &Job) -> String {
    let why = why(facts, job);
    match explanation_of(facts, job)
        .is_some_and(|answer| answer.now.is_some() && !is_stuck(facts, job, answer))
    {
        true => format!("key A admits it · {why}"),
        false => why,
    }
}

/// Why a job waits, as its queueing system or scheduler reports it: `Kueue says: insufficient unused quota …`.
pub fn says(facts: &Facts, job: &Job) -> String {
    let who = match job.admission.as_ref().map(|known| known.system()) {
        _ if job.reason.contains(" nodes are available") => "the scheduler",
        Some(system) => system.title(),
        None => job.queue_system.title(),
    };
    format!("{who} says: {}", jobs::reason(facts, job))
}

/// That what would help a job cannot be worked out, where a reason is that objects are not visible.
pub fn no_help(reasons: &[Reason]) -> Option<String> {
    reasons.iter().find_map(|reason| match reason {
        Reason::NotVisible { what } => Some(format!(
            "what would help cannot be worked out: {}",
            unseen_words(what)
        )),
        _ => None,
    })
}

/// What is missing for an answer of our own, where the job's own system has given one.
pub fn blind(facts: &Facts, job: &Job) -> Option<String> {
    let explained = explanation_of(facts, job)?;
    no_help(&explained.answer.explanation.reasons).filter(|_| !job.reason.is_empty())
}

/// A reason as short text.
fn brief(reason: &Reason, job: &Job) -> String {
    let class = class_words(job).unwrap_or_else(|| String::from("devices"));
    let number = |milli: i64| grouped((milli + 999) / 1_000);
    match reason {
        Reason::QuotaReserved { .. } => String::from("admitted, waiting for nodes"),
        Reason::Held => String::from("held: suspended, deactivated or gated"),
        Reason::Quota {
            queue,
            flavor,
            resource,
            asked,
            free,
            used,
            nominal,
            ..
        } => {
            let is_over = *free <= 0 && used > nominal;
            let own_left = (nominal - used).max(0);
            let (used, nominal) = (amount(resource, *used), amount(resource, *nominal));
            // Slices of several sizes share a flavor, but each size has its own quota.
            let flavor = match resource.rsplit_once('/') {
                Some((_, slice)) if slice.starts_with("mig-") => slice,
                _ if flavor.as_str() == ANY_FLAVOR => "devices",
                _ => flavor.as_str(),
            };
            // Less may be free than its own quota allows, because other queues of its cohort borrow it.
            if is_over {
                format!("no {flavor} left to borrow: {queue} uses {used} of its {nominal}")
            } else {
                let (left, asked) = (amount(resource, (*free).max(0)), amount(resource, *asked));
                match (*free).max(0).cmp(&own_left) {
                    Ordering::Less => format!(
                        "{queue}'s cohort has {left} {flavor} left, needs {asked} ({queue}: {used}/{nominal})"
                    ),
                    Ordering::Equal if *free <= 0 => {
                        format!("{queue} has no {flavor} left: {used}/{nominal} in use")
                    }
                    Ordering::Equal => {
                        format!("{queue} has {left} of {nominal} {flavor} left, needs {asked}")
                    }
                    Ordering::Greater => {
                        format!(
                            "{queue} has {left} {flavor} left with borrowing, needs {asked} ({used}/{nominal} in use)"
                        )
                    }
                }
            }
        }
        Reason::Fragmented(supply) => format!(
            "{} {class} free{}: room for {} of {}",
            number(supply.free_devices_milli),
            supply.apart(),
            supply.room,
            counted(u64::from(supply.asked), "pod")
        ),
        Reason::NoRoom(supply) => {
            let pods = counted(u64::from(supply.asked), "pod");
            match (supply.asked_devices_milli, supply.free_devices_milli) {
                (asked, free) if asked > free => {
                    format!("needs {} {class}, {} free", number(asked), number(free))
                }
                _ => format!("room for {} of {pods}", supply.room),
            }
        }
        Reason::Absent(NodeSupply {
            asked_devices_milli: asked,
            devices_milli: all,
            ..
        }) => format!(
            "needs {}; eligible nodes have {} total",
            number(*asked),
            number(*all)
        ),
        Reason::Topology { level, asked, best } => {
            format!("no {level} has room for {asked} pods; the best for {best}")
        }
        Reason::Ending { job } => format!("waits for {job} to end"),
        Reason::GetsQuota { .. } => "has quota, waits for nodes".to_owned(),
        Reason::Behind { job } => format!("behind {job} in a strict queue"),
        Reason::Reserved { job } => format!("devices are reserved for {job}"),
        other => other.sentence(),
    }
}

/// Shown until the engine has answered.
const COMPUTING: &str = "computing…";

/// The smallest change that would start it, now or later.
pub fn mend(facts: &Facts, job: &Job) -> String {
    let Some(answer) = explanation_of(facts, job) else {
        return unblock::comes_first(facts, job).unwrap_or_else(|| {
            String::from(match facts.answers.at {
                None => COMPUTING,
                Some(_) => UNKNOWN,
            })
        });
    };
    let explanation = &answer.answer.explanation;
    if explanation.reasons.iter().any(Reason::is_blind) {
        return String::from(UNKNOWN);
    }
    match explanation.state {
        StartState::Held => return String::from("resume it"),
        StartState::Ready if is_stuck(facts, job, answer) => {
            return format!("unknown: {}; see its events", stuck_words(explanation));
        }
        StartState::Ready => {
            let evicts = evicts(explanation.victims.len()).unwrap_or_default();
            return format!("the next scheduling cycle{evicts}");
        }
        _ => {}
    }
    // Where it never starts by itself the least raise with which it does is less than all that starts it at once.
    if let Some(later) = answer.answer.later.first() {
        return later_words(later, facts.now);
    }
    match (&explanation.unblock, &answer.now) {
        (Some(change), _) => change_words(change, job, facts.now),
        (None, Some(now)) => format!("preempt {}", victims_words(now)),
        (None, None) => unblock::comes_first(facts, job)
            .unwrap_or_else(|| String::from("no single change would start it")),
    }
}

/// The change that [`mend`] offers, in the grammar of what-if; `None` where it has no words for it.
pub fn supposed(facts: &Facts, job: &Job) -> Option<String> {
    let answer = &explanation_of(facts, job)?.answer;
    if answer.explanation.reasons.iter().any(Reason::is_blind) {
        return None;
    }
    if let Some(later) = answer.later.first() {
        return supposed_change(job, &later.change);
    }
    let changes = answer.explanation.unblock.as_ref()?.changes.iter();
    let words: Option<Vec<String>> = changes.map(|change| supposed_change(job, change)).collect();
    words
        .filter(|words| !words.is_empty())
        .map(|words| words.join("; "))
}

/// One change in the grammar of [`engine::what_if::GRAMMAR`].
fn supposed_change(job: &Job, change: &UnblockChange) -> Option<String> {
    let of_job = |words: String| Some(format!("job {} {words}", job.id.key));
    match change {
        UnblockChange::Quota {
            queue,
            flavor,
            resource,
            add,
            ..
        } => {
            // Only quotas of devices, in whole ones.
            let is_whole = add % 1_000 == 0 && resource.contains('/') && **flavor != *ANY_FLAVOR;
            is_whole.then(|| format!("quota {queue}/{flavor} +{}", add / 1_000))
        }
        UnblockChange::Nodes { like, count, .. } => Some(format!("nodes {like} +{count}")),
        UnblockChange::Priority { to, .. } => of_job(format!("priority {to}")),
        UnblockChange::Flavor { flavor } => of_job(format!("flavor {flavor}")),
        UnblockChange::Wait { .. }
        | UnblockChange::Tolerate { .. }
        | UnblockChange::RelaxTopology { .. }
        | UnblockChange::Labels { .. }
        | UnblockChange::Ask { .. }
        | UnblockChange::ResumeQueue { .. }
        | UnblockChange::Preempt { .. }
        | UnblockChange::Uncordon { .. } => None,
    }
}

/// A change as short text.
fn short_change(change: &UnblockChange, proven: bool, now: Moment) -> String {
    match change {
        UnblockChange::Wait { at } if proven => {
            format!("wait {}, until {}", at.since(now), hour(*at))
        }
        UnblockChange::Wait { at } => format!("wait: 9 in 10 start within {}", at.since(now)),
        // The number comes first, because a table cuts the end.
        UnblockChange::Quota {
            queue,
            flavor,
            resource,
            add,
            ..
        } => format!("+{} quota for {queue}", of_flavor(resource, flavor, *add)),
        other => other.sentence(),
    }
}

/// True for a change that is nothing but time.
pub fn only_waits(change: &Unblock) -> bool {
    let mut all = change.changes.iter();
    all.all(|change| matches!(change, UnblockChange::Wait { .. }))
}

/// A change as short text; one that was calculated but not simulated is marked.
pub fn change_words(change: &Unblock, job: &Job, now: Moment) -> String {
    let all = change.changes.iter();
    let all: Vec<String> = all
        .map(|one| short_change(one, change.proven, now))
        .collect();
    let (mark, end) = match only_waits(change) {
        true => ("", ""),
        false => change.marks(),
    };
    let by_hand = |change: &UnblockChange| matches!(change, UnblockChange::Preempt { .. });
    let victims = match change.changes.iter().any(by_hand) {
        true => None,
        false => evicts(change.victims.len()),
    };
    let others = change.for_others(job.devices_requested.into());
    let others = others.map_or_else(String::new, |words| format!(", {words}"));
    format!(
        "{mark}{}{others}{}{end}",
        all.join(" and "),
        victims.unwrap_or_default()
    )
}

/// A change after which the job starts later without further action: `+64 h100 quota for research: starts ~14:40 (13:55–15:30)`.
pub fn later_words(later: &ChangeWithStart, now: Moment) -> String {
    let start = &later.start;
    format!(
        "{}: starts {}",
        short_change(&later.change, false, now),
        eta_words(now, [start.p10, start.p50, start.p90])
    )
}

/// `, preempting 4 jobs`; `None` for 0.
fn evicts(jobs: usize) -> Option<String> {
    (jobs > 0).then(|| format!(", preempting {}", counted(jobs as u64, "job")))
}

/// When it starts: `~14:40`, and the moment; empty where nothing waits or nothing is known yet.
pub fn eta(facts: &Facts, job: &Job) -> Option<(String, Option<Moment>)> {
    let answer = explanation_of(facts, job)?;
    if answer
        .answer
        .explanation
        .reasons
        .iter()
        .any(Reason::is_blind)
    {
        return Some((String::from(UNKNOWN), None));
    }
    let start = answer.answer.start.as_ref()?;
    if is_stuck(facts, job, answer) {
        return Some((String::from("unknown"), None));
    }
    let words = match (start.basis, start.p50) {
        (Basis::Now, _) => String::from("now"),
        (_, None) => String::from(NO_ETA),
        (_, Some(at)) if at <= facts.now => String::from("any moment"),
        (_, Some(_)) => eta_alone(facts.now, [start.p10, start.p50, start.p90]),
    };
    Some((words, start.p50))
}

/// True when what would start the job is unknown because objects are not visible, and its queueing system or scheduler says why.
pub fn is_blind(facts: &Facts, job: &Job) -> bool {
    let reasons = explanation_of(facts, job).map(|answer| &answer.answer.explanation.reasons);
    !job.reason.is_empty() && reasons.is_some_and(|all| all.iter().any(Reason::is_blind))
}

/// Predicted start, and what would start the job now, in one line: `starts ~14:40 (13:55–15:30), or now by preempting 4 jobs ($212)`.
pub fn outlook(facts: &Facts, job: &Job) -> Option<String> {
    let answer = explanation_of(facts, job)?;
    let explanation = &answer.answer.explanation;
    if explanation.state == StartState::Held {
        return Some(String::from("starts when it is resumed"));
    }
    if let Some(blind) = explanation.reasons.iter().find(|reason| reason.is_blind()) {
        return Some(format!(
            "{NO_ETA}: {}",
            blind.sentence().trim_start_matches("unknown: ")
        ));
    }
    let mut reasons = explanation.reasons.iter();
    if let Some(Reason::NotForecast { why, .. }) = reasons.find(|it| it.is_not_forecast()) {
        return Some(format!("{NO_ETA}, not forecast: {why}"));
    }
    if is_stuck(facts, job, answer) {
        return Some(format!(
            "{NO_ETA}: {}, but it does not start; see its events",
            stuck_words(explanation)
        ));
    }
    let start = answer.answer.start.as_ref();
    let eta = eta(facts, job).map(|(words, _)| words);
    let when = match (eta.as_deref(), start) {
        (Some("now" | "any moment"), _) => String::from("starts in the next scheduling cycle"),
        (None | Some("unknown"), _) => {
            format!("{NO_ETA}: the wait has no known end")
        }
        (Some(NO_ETA), _) => String::from(NO_ETA),
        (Some(_), Some(start)) => {
            let ends = [start.p10, start.p50, start.p90];
            format!("starts {}", eta_words(facts.now, ends))
        }
        (Some(eta), None) => format!("starts {eta}"),
    };
    if explanation.state == StartState::Ready {
        let evicts = evicts(explanation.victims.len()).unwrap_or_default();
        return Some(format!("{when}{evicts}"));
    }
    let near = start
        .and_then(|start| start.p50)
        .is_some_and(|at| at <= facts.now);
    Some(match (&answer.now, &explanation.unblock) {
        _ if near => when,
        (Some(now), _) => format!("{when}, or now by preempting {}", victims_words(now)),
        (None, Some(change)) if !only_waits(change) => {
            if let Some(later) = answer.answer.later.first() {
                return Some(format!("{NO_ETA}; {}", later_words(later, facts.now)));
            }
            let words = change_words(change, job, facts.now);
            match when.strip_prefix(NO_ETA) {
                Some(_) => format!("{NO_ETA}; to start it now: {words}"),
                None => format!("{when}, or now: {words}"),
            }
        }
        _ => when,
    })
}

/// Meaning and basis of an ETA's range: `80% range, from runtimes set on the jobs; …`.
pub fn confidence(start: &Start) -> Option<String> {
    start.p50?;
    let basis = match start.basis {
        Basis::Now | Basis::None | Basis::NotForecast => return None,
        Basis::Limits => "runtimes set on the jobs",
        Basis::History => "past runs of the same owners",
    };
    let range = if start.p10 == start.p90 {
        "no range"
    } else {
        "80% range"
    };
    Some(format!(
        "{range}, from {basis}; assumes no preemption and no new jobs"
    ))
}
