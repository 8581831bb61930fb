//! Pictures of what waits: what it asks for beside what there is, and when it may start.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{AmountScale, Drawing, ObjectPicture, TimeSpan};
use crate::text::counted;
use model::base::{Moment, Name, SmallSort};
use model::fleet::job::{Job, JobState};
use table::Facts;
use table::role::Role;
use table::rows::queue_quotas::quota_uses;
use table::rows::queue_tree::QueueOrder;
use table::text::hour;
use table::waiting;

/// The pictures of a waiting job.
pub(super) fn of_job(facts: &Facts, job: &Job) -> Vec<ObjectPicture> {
    let scales = waiting::shortages(facts, job)
        .into_iter()
        .map(|shortage| AmountScale {
            name: shortage.what,
            own: shortage.own as f64,
            borrowed: shortage.borrowed as f64,
            free: shortage.free as f64,
            asked: shortage.asked as f64,
            words: shortage.words,
        });
    let note = "█ used ▓ borrowed ▒ requested ▚ lacking ░ free";
    let mut all = to_scale("what it requests, to scale", note, scales.collect());
    let is_own = |other: &Job| match &job.queue {
        Some(queue) => other.queue.as_ref() == Some(queue),
        None => other.class == job.class,
    };
    all.extend(times(facts, &is_own));
    let class = job.class.as_ref();
    all.extend(class.and_then(|class| super::objects::of_class(facts, class)));
    all
}

/// The picture of these amounts; none where there is no amount.
fn to_scale(title: &str, note: &str, scales: Vec<AmountScale>) -> Vec<ObjectPicture> {
    let is_any = !scales.is_empty();
    let picture = || ObjectPicture::new(title, note, Drawing::Scales(scales));
    is_any.then(picture).into_iter().collect()
}

/// The pictures of the queue of this name, as of [`of_queue`].
pub(super) fn of_queue_named(
    facts: &Facts,
    name: Option<&Name>,
    class: Option<&Name>,
) -> Vec<ObjectPicture> {
    let mut queues = facts.fleet.queues.iter();
    let at = queues.position(|own| Some(own.name()) == name);
    at.map_or_else(Vec::new, |at| of_queue(facts, at, class))
}

/// The pictures of a queue, by its index; whose devices they are of `class`, or of that which its jobs request most of.
pub fn of_queue(facts: &Facts, at: usize, class: Option<&Name>) -> Vec<ObjectPicture> {
    if facts.fleet.queues.get(at).is_none() {
        return Vec::new();
    }
    let queues = &facts.fleet.queues;
    let tree = QueueOrder::of(queues);
    let own = std::iter::once(at).chain(tree.below(at));
    let own: BTreeSet<&Name> = own.map(|at| queues[at].name()).collect();
    let is_own = |job: &Job| job.queue.as_ref().is_some_and(|name| own.contains(name));
    let scales = quota_uses(facts, at)
        .into_iter()
        .filter_map(|(name, quota)| {
            let used = quota.used?;
            let own = used.saturating_sub(quota.borrowed);
            let (left, free) = (quota.left()?, quota.nominal?.saturating_sub(used));
            Some(AmountScale {
                words: format!(
                    "{} used{}, {left} left of its own",
                    quota.numbers(),
                    quota.reserved_words()
                ),
                name,
                own: own as f64,
                borrowed: quota.borrowed as f64,
                free: free as f64,
                asked: quota.not_admitted as f64,
            })
        });
    let mut all = to_scale(
        "quota",
        "█ used ▓ borrowed ▒ reserved ░ unused",
        scales.collect(),
    );
    all.extend(times(facts, &is_own));
    let mut classes: BTreeMap<&Name, u32> = BTreeMap::new();
    for job in facts.fleet.jobs.iter().filter(|job| is_own(job)) {
        if let Some(class) = &job.class {
            *classes.entry(class).or_default() += job.devices_requested;
        }
    }
    let most = classes.into_iter().max_by_key(|(_, devices)| *devices);
    let class = class.or(most.map(|(class, _)| class));
    all.extend(class.and_then(|class| super::objects::of_class(facts, class)));
    all
}

/// When running jobs are expected to end, by their own estimates and time limits, and when waiting ones are forecast to start.
fn times(facts: &Facts, is_own: &dyn Fn(&Job) -> bool) -> Option<ObjectPicture> {
    let jobs = facts.fleet.jobs.iter().map(|job| &**job);
    let mut rows: Vec<TimeSpan> = Vec::new();
    for job in jobs.filter(|job| is_own(job) && facts.has_job(job)) {
        let name = job.id.key.to_string();
        let devices = job.devices_requested;
        if job.state == JobState::Running
            && let Some(started) = job.started
            && let Some(long) = job.estimate.or(job.time_limit)
        {
            let end = started.plus(long);
            let late = end <= facts.now;
            let how = if job.estimate.is_some() {
                "ends"
            } else {
                "ends at most"
            };
            let words = match late {
                true => format!("{devices} · {how}: overdue"),
                false => format!("{devices} · {how} {}", hour(end)),
            };
            let end = end.max(facts.now);
            rows.push(TimeSpan {
                name,
                times: [facts.now, end, end],
                words,
                role: Role::Muted,
            });
        } else if let Some(answer) = waiting::explanation_of(facts, job)
            && let Some(start) = &answer.answer.start
            && let (Some(from), Some(expected), Some(to)) = (start.p10, start.p50, start.p90)
            && let Some((eta, Some(_))) = waiting::eta(facts, job)
        {
            let known = [from, expected, to].map(|at| at.max(facts.now));
            rows.push(TimeSpan {
                name,
                times: known,
                words: format!("{devices} · starts {eta}"),
                role: Role::Title,
            });
        }
    }
    rows.small_sort_by_key(|row| row.times[1]);
    let end = rows.iter().take(super::MOST_TIMES);
    let end = end.map(|row| row.times[2]).max()?;
    let least = facts.now.plus(Duration::from_secs(600));
    let note = counted(rows.len() as u64, "job");
    Some(ObjectPicture::new(
        "expected ends and starts",
        note,
        Drawing::Times(rows, Moment::max(end, least)),
    ))
}
