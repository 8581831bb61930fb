//! Why a job waits, what would start it and when, in the few words that a cell or a panel has room for.

use crate::painter::Painter;
use crate::table_model::Scope;
use crate::text::{UNKNOWN, counted};
use engine::explain::{Change, NodeSupply, Reason, StartState, Unblock, amount};
use engine::forecast::{Basis, Start};
use model::base::quantities::grouped;
use model::base::{Age, Moment, Name};
use model::fleet::job::{Job, JobState};
use table::Facts;
use table::explanations::{JobExplanation, Now};

use super::{jobs, unblock};

/// The jobs of a scope that wait, as places among all jobs: who has waited longest first.
pub fn longest_first(facts: &Facts, scope: &Scope) -> Vec<u32> {
    let all = &facts.fleet.jobs;
    let mut waiting: Vec<u32> = (0..all.len() as u32)
        .filter(|at| {
            let job = &all[*at as usize];
            job.state == JobState::Waiting && scope.has_job(job)
        })
        .collect();
    waiting.sort_by_key(|at| {
        let job = &all[*at as usize];
        job.waiting_since.unwrap_or(job.created)
    });
    waiting
}

/// Beyond so many milliseconds a start is told as a span, not as a time of day.
const DAY: i64 = 20 * 3_600_000;

/// From one midnight to the next, milliseconds.
const MIDNIGHT: i64 = 24 * 3_600_000;

/// What the engine says of a job that wants to start.
pub(super) fn told<'a>(facts: &'a Facts, job: &Job) -> Option<&'a JobExplanation> {
    matches!(job.state, JobState::Waiting | JobState::Suspended)
        .then(|| facts.answers.job(&job.id))
        .flatten()
}

/// What the engine finds free to start may be refused by its cluster, or forgotten, for longer than this before we say so.
const TURN: Age = Age::from_seconds(120);

/// By our reckoning it could start, and since it was admitted, minutes ago, its cluster has said otherwise or made no pods: a
/// start is not promised.
fn is_stuck(facts: &Facts, job: &Job, told: &JobExplanation) -> bool {
    let admission = job.admission.as_ref().map(|known| &known.seen);
    let quota_reserved = admission.and_then(|seen| seen.admitted_at.max(seen.reserved_at));
    let since = job.waiting_since.max(quota_reserved).max(job.started);
    told.answer.explanation.state == StartState::Ready
        && matches!(job.reason_code, Some("unschedulable" | "no-pods"))
        && facts.now.since(since.unwrap_or(job.created)) > TURN
}

/// Why it waits; for what does not wait, where it is or why it failed.
pub fn why(facts: &Facts, job: &Job) -> String {
    let told = told(facts, job).filter(|told| !is_stuck(facts, job, told));
    let Some(told) = told else {
        return jobs::where_or_why(job);
    };
    let explanation = &told.answer.explanation;
    match (explanation.state, explanation.reasons.first()) {
        (StartState::Held, _) if !job.reason.is_empty() => job.reason.to_string(),
        // What its own queueing system or scheduler says is more than that we may not see it.
        (_, Some(reason)) if reason.is_blind() && !job.reason.is_empty() => job.reason.to_string(),
        (_, Some(reason)) => brief(reason, job.class.as_ref()),
        (StartState::Ready, None) => match evicts(explanation.victims.len()) {
            None => String::from("nothing blocks it: next scheduling cycle"),
            Some(words) => format!("starts in its scheduler's next cycle{words}"),
        },
        (_, None) => jobs::where_or_why(job),
    }
}

/// A reason in few words.
fn brief(reason: &Reason, class: Option<&Name>) -> String {
    let class = class.map_or("devices", Name::as_str);
    let number = |milli: i64| grouped((milli + 999) / 1_000);
    match reason {
        Reason::LetIn { .. } => String::from("admitted, waiting for nodes"),
        Reason::Held => String::from("held: suspended, taken out of its queue, or gated"),
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
            let (used, nominal) = (amount(resource, *used), amount(resource, *nominal));
            // Slices of several sizes are of one flavor, each with a quota of its own.
            let flavor = match resource.rsplit_once('/') {
                Some((_, slice)) if slice.starts_with("mig-") => slice,
                _ => flavor.as_str(),
            };
            if *free <= 0 {
                format!("{queue} is over quota: {used}/{nominal} {flavor}")
            } else {
                let (free, asked) = (amount(resource, *free), amount(resource, *asked));
                format!("quota of {queue}: {free} of {nominal} {flavor} left, needs {asked}")
            }
        }
        Reason::Fragmented(NodeSupply {
            asked,
            room,
            free_devices_milli,
            ..
        }) => format!(
            "{} {class} free, not together: room for {room} of {}",
            number(*free_devices_milli),
            counted(u64::from(*asked), "pod")
        ),
        Reason::NoRoom(NodeSupply {
            asked_devices_milli: asked,
            free_devices_milli: free,
            asked: pods,
            room,
            ..
        }) => {
            if asked > free {
                format!("needs {} more {class}", number(asked - free))
            } else {
                format!("room for {room} of {}", counted(u64::from(*pods), "pod"))
            }
        }
        Reason::Absent(NodeSupply {
            asked_devices_milli: asked,
            devices_milli: all,
            ..
        }) => format!(
            "needs {}; eligible nodes have {} in all",
            number(*asked),
            number(*all)
        ),
        Reason::Topology { level, asked, best } => {
            format!("no {level} has room for {asked} pods; the best for {best}")
        }
        Reason::Behind { job } => format!("behind {job} in a strict queue"),
        Reason::Reserved { job } => format!("devices are reserved for {job}"),
        other => other.sentence(),
    }
}

/// The smallest change that would start it.
pub fn mend(facts: &Facts, job: &Job) -> String {
    let Some(told) = told(facts, job) else {
        return unblock::unblock(facts, job);
    };
    let explanation = &told.answer.explanation;
    if explanation.reasons.iter().any(Reason::is_blind) {
        return String::from(UNKNOWN);
    }
    match explanation.state {
        StartState::Held => return String::from("resume it"),
        StartState::Ready if is_stuck(facts, job, told) => {
            return String::from("unknown: enough devices are free; see its events");
        }
        StartState::Ready => {
            let evicts = evicts(explanation.victims.len()).unwrap_or_default();
            return format!("the next scheduling cycle{evicts}");
        }
        _ => {}
    }
    match (&explanation.unblock, &told.now) {
        (Some(change), _) => change_words(change, facts.now),
        (None, Some(now)) => format!("preempt {}", victims(now)),
        (None, None) => unblock::unblock(facts, job),
    }
}

/// A change in few words; what was reckoned and not tried is marked.
pub(super) fn change_words(change: &Unblock, now: Moment) -> String {
    let proven = change.proven;
    let all: Vec<String> = change
        .changes
        .iter()
        .map(|change| match change {
            Change::Wait { at } if proven => format!("wait {}, until {}", at.since(now), hour(*at)),
            Change::Wait { at } => format!("wait: 9 in 10 start within {}", at.since(now)),
            other => other.sentence(),
        })
        .collect();
    let mark = if change.proven { "" } else { "~ " };
    let by_hand = |change: &Change| matches!(change, Change::Preempt { .. });
    let victims = match change.changes.iter().any(by_hand) {
        true => None,
        false => evicts(change.victims.len()),
    };
    format!(
        "{mark}{}{}",
        all.join(", and "),
        victims.unwrap_or_default()
    )
}

/// `, evicting 4 jobs`; nothing for none.
fn evicts(jobs: usize) -> Option<String> {
    (jobs > 0).then(|| format!(", evicting {}", counted(jobs as u64, "job")))
}

/// `4 jobs ($212)`.
pub(super) fn victims(now: &Now) -> String {
    let jobs = counted(now.jobs as u64, "job");
    match now.lost {
        Some(lost) => format!("{jobs} (${lost})"),
        None => {
            let hours = now.lost_ms as f64 / 3_600_000.0;
            format!("{jobs} ({hours:.1} device-hours lost)")
        }
    }
}

/// `14:40` in UTC.
fn hour(at: Moment) -> String {
    let clock = at.clock();
    clock.get(..5).unwrap_or(&clock).to_owned()
}

/// When it starts: `~14:40`; empty where nothing waits or nothing is known yet.
pub fn eta(facts: &Facts, job: &Job) -> Option<String> {
    let told = told(facts, job)?;
    if told.answer.explanation.reasons.iter().any(Reason::is_blind) {
        return Some(String::from(UNKNOWN));
    }
    let start = told.answer.start.as_ref()?;
    if is_stuck(facts, job, told) {
        return Some(String::from("unknown"));
    }
    Some(match (start.basis, start.p50) {
        (Basis::Now, _) => String::from("now"),
        (_, None) => String::from("unknown"),
        (_, Some(at)) if at <= facts.now => String::from("any moment"),
        (_, Some(at)) if at.millis() - facts.now.millis() > DAY => {
            format!("~in {}", at.since(facts.now))
        }
        (_, Some(at)) => format!("~{}", hour(at)),
    })
}

/// How far a start may lie from the middle: ` ±25m`, half of what lies between one in ten and nine in ten; where one side
/// is much longer than the other, both ends: ` (02:39–15:31)`.
fn spread(start: &Start) -> Option<String> {
    let (early, middle, late) = (
        start.p10?.millis(),
        start.p50?.millis(),
        start.p90?.millis(),
    );
    let span = (late - early) / 120_000;
    if span <= 0 {
        return None;
    }
    let (before, after) = (middle - early, late - middle);
    let lopsided = before.max(after) > 2 * before.min(after);
    // Where they are of different days, times of day would not tell which.
    Some(
        if lopsided && span > 10 && early / MIDNIGHT == late / MIDNIGHT {
            format!(
                " ({}–{})",
                hour(Moment::from_millis(early)),
                hour(Moment::from_millis(late))
            )
        } else if lopsided && span > 10 {
            format!(
                " (-{} +{})",
                minutes(before / 60_000),
                minutes(after / 60_000)
            )
        } else {
            format!(" ±{}", minutes(span))
        },
    )
}

const NO_FORECAST: &str = "no ETA";

/// When it starts by itself, or what would start it now, in one line: `starts ~14:40 ±25m, or now by preempting 4 jobs ($212)`.
pub fn outlook(facts: &Facts, job: &Job) -> Option<String> {
    let told = told(facts, job)?;
    let explanation = &told.answer.explanation;
    if explanation.state == StartState::Held {
        return Some(String::from("starts when it is resumed"));
    }
    if let Some(blind) = explanation.reasons.iter().find(|reason| reason.is_blind()) {
        return Some(format!(
            "{NO_FORECAST}: {}",
            blind.sentence().trim_start_matches("unknown: ")
        ));
    }
    if is_stuck(facts, job, told) {
        return Some(format!(
            "{NO_FORECAST}: enough devices are free, and it does not start; see its events"
        ));
    }
    let start = told.answer.start.as_ref();
    let when = match (eta(facts, job).as_deref(), start) {
        (Some("now" | "any moment"), _) => String::from("starts in the next scheduling cycle"),
        (None | Some("unknown"), _) => {
            format!("{NO_FORECAST}: what it waits for has no known end")
        }
        (Some(eta), Some(start)) => {
            let spread = spread(start).unwrap_or_default();
            let open = if start.p90.is_none() { " or later" } else { "" };
            format!("starts {eta}{spread}{open}")
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
    Some(match (&told.now, &explanation.unblock) {
        _ if near => when,
        (Some(now), _) => format!("{when}, or now by preempting {}", victims(now)),
        (None, Some(change))
            if !change
                .changes
                .iter()
                .all(|change| matches!(change, Change::Wait { .. })) =>
        {
            let words = change_words(change, facts.now);
            match when.strip_prefix(NO_FORECAST) {
                Some(_) => format!("{NO_FORECAST}; to unblock: {words}"),
                None => format!("{when}, or now: {words}"),
            }
        }
        _ => when,
    })
}

fn minutes(minutes: i64) -> String {
    match minutes {
        ..100 => format!("{minutes}m"),
        _ => format!("{}h", (minutes + 30) / 60),
    }
}

/// `9 in 10 by 15:05, from what jobs say of their runtimes`.
pub(super) fn confidence(facts: &Facts, start: &Start) -> Option<String> {
    start.p50?;
    let when = |at: Option<Moment>| match at {
        None => String::from("an unknown time"),
        Some(at) if at.millis() - facts.now.millis() > DAY => {
            format!("{} from now", at.since(facts.now))
        }
        Some(at) => format!("{} UTC", hour(at)),
    };
    let basis = match start.basis {
        Basis::Now => return None,
        Basis::Limits => "runtimes that jobs state",
        Basis::History => "past runs of the same owners",
        Basis::None => "nothing",
    };
    Some(format!(
        "1 in 10 by {}, 9 in 10 by {}; from {basis}; without preemption, without new arrivals",
        when(start.p10),
        when(start.p90)
    ))
}

/// How old the answers are, behind a count: nothing while they are of just now.
pub(super) fn answered(facts: &Facts, painter: &mut Painter<'_>) -> String {
    match facts.answers.at {
        None => String::from(" · working out why"),
        Some(at) if facts.now.since(at) < std::time::Duration::from_secs(30).into() => {
            String::new()
        }
        Some(at) => format!(" · as of {} ago", painter.age(at)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::base::ObjectKey;
    use model::plan::JobName;

    #[test]
    fn a_lopsided_spread_shows_both_ends() {
        let at = |minutes: i64| Some(Moment::from_millis(1_800_000_000_000 + minutes * 60_000));
        let start = |early, middle, late| Start {
            job: JobName(ObjectKey::new("nlp", "a")),
            p10: at(early),
            p50: at(middle),
            p90: at(late),
            basis: Basis::History,
            victims: Vec::new(),
        };
        assert_eq!(spread(&start(60, 120, 180)).as_deref(), Some(" ±60m"));
        assert_eq!(
            spread(&start(118, 120, 130)).as_deref(),
            Some(" ±6m"),
            "small"
        );
        assert_eq!(
            spread(&start(60, 120, 600)).as_deref(),
            Some(" (09:00–18:00)")
        );
        assert_eq!(
            spread(&start(60, 120, 3000)).as_deref(),
            Some(" (-60m +48h)")
        );
        assert_eq!(spread(&start(120, 120, 120)), None);
    }
}
