//! What would start a waiting job, as far as the facts alone tell; what takes planning is the engine's to say.

use crate::text::UNKNOWN;
use model::base::quantities::grouped;
use model::fleet::job::Job;
use model::fleet::queue::{Measure, Queue, QueueKind};
use table::Facts;

/// What would start it, in a few words; a dash where nothing tells.
pub fn unblock(facts: &Facts, job: &Job) -> String {
    let queue = job.queue.as_ref().and_then(|name| {
        let queues = facts.fleet.queues.iter();
        queues
            .into_iter()
            .find(|queue| queue.key.kind == QueueKind::Queue && queue.name() == name)
    });
    if let Some(queue) = queue
        && queue.is_stopped()
    {
        return format!("queue {} resumes", queue.name());
    }
    if let Some(admission) = &job.admission {
        if !admission.seen.active {
            return String::from("activate its Workload (spec.active)");
        }
        if let Some(check) = admission.seen.checks.first() {
            return format!("check {} passes: now {}", check.name, check.state);
        }
        if let Some(at) = admission.seen.requeue.and_then(|requeue| requeue.at)
            && at > facts.now
        {
            return format!("the pause after its eviction ends at {}", at.clock());
        }
        if !admission.has_quota()
            && let Some(queue) = queue
            && let Some(words) = quota(queue, job)
        {
            return words;
        }
    }
    devices(facts, job)
}

/// What is missing in the queue's own quota, and whether it could borrow it.
fn quota(queue: &Queue, job: &Job) -> Option<String> {
    let wanted = i64::from(job.devices_requested.saturating_sub(job.devices_allocated)) * 1000;
    let quotas = || {
        let all = queue.quotas.iter();
        all.filter(|quota| quota.measure == Measure::MilliDevices)
    };
    let free = |quota: &model::fleet::queue::Quota| {
        Some((quota.nominal? - quota.used.unwrap_or(0)).max(0))
    };
    let best = quotas().max_by_key(|quota| free(quota))?;
    let short = wanted - free(best)?;
    if short <= 0 {
        return None;
    }
    let may_borrow = best.borrow_limit != Some(0) && queue.parent.is_some();
    let borrow = if may_borrow { ", or borrowed" } else { "" };
    Some(format!(
        "{} more of {} in {}{borrow}",
        grouped((short + 999) / 1000),
        best.flavor,
        queue.name()
    ))
}

/// Free devices of its class, beside what it wants.
fn devices(facts: &Facts, job: &Job) -> String {
    let wanted = job.devices_requested.saturating_sub(job.devices_allocated);
    let Some(class) = &job.class else {
        return String::from(UNKNOWN);
    };
    // Which devices are free, only who sees every node and pod knows.
    if !facts.fleet.sees_devices() {
        return String::from(UNKNOWN);
    }
    let mut best: Option<(&str, u32)> = None;
    let mut free_in_all = 0;
    for pool in facts.fleet.pools.iter() {
        if pool.classes.iter().any(|known| known.class == *class) {
            free_in_all += pool.devices.free;
            if best.is_none_or(|(_, free)| pool.devices.free > free) {
                best = Some((&pool.name, pool.devices.free));
            }
        }
    }
    match best {
        None => format!("a pool of {class}: none in this cluster"),
        Some((pool, free)) if free >= wanted => {
            format!("{free} {class} free in {pool}, none fit its constraints")
        }
        Some((pool, free)) if free_in_all >= wanted => format!(
            "{} more {class} in one pool: {free} in {pool}, {free_in_all} in all",
            wanted - free
        ),
        Some(_) => format!(
            "{} more {class}: {} of {} free",
            grouped(i64::from(wanted - free_in_all)),
            grouped(i64::from(free_in_all)),
            grouped(i64::from(wanted))
        ),
    }
}
