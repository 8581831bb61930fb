//! `gang-stalled`: a running gang whose devices all but stand still. One rank hangs or has died, and the others wait for it.

use rustc_hash::FxHashMap;

use crate::base::{Age, Name, SmallSort};
use crate::fleet::device::{Device, Pod};
use crate::fleet::job::{Job, JobKey, JobState};
use crate::fleet::judge::{activity, does_nothing};
use crate::fleet::signal::Signal;
use crate::fleet::thresholds::Rule;

use super::context::{CheckContext, Draft, job_name, job_subject};
use super::{Check, Verdict, Walk};

pub(super) const CHECK: Check = Check {
    code: "gang-stalled",
    walk: Walk::Fleet(look),
};

/// So much of a gang must be known, and so much of what is known must stand still, 0 to 1.
const MOST: f64 = 0.75;

/// What is known of a gang.
#[derive(Default)]
struct Gang<'a> {
    devices: usize,
    work: Vec<f64>,
    /// Those that do nothing at all.
    idle: usize,
    /// A device of it that is broken, with its node and the pod on it.
    broken: Option<(&'a Device, &'a Name, &'a Pod)>,
}

fn look(context: &mut CheckContext<'_>) {
    let (fleet, now, rule) = (context.fleet, context.now, context.rule);
    // A gang that has just been placed loads its data and compiles.
    let settled = |job: &Job| {
        let pods = job.pods.iter().filter(|pod| pod.holds_devices());
        let newest = pods.map(|pod| pod.held_since()).max();
        newest.is_some_and(|since| now.since(since) >= Age::from(fleet.policy.idle_grace))
    };
    let jobs = fleet.jobs.iter().filter(|job| {
        job.state == JobState::Running
            && job.is_gang()
            && job.devices_allocated >= rule.devices
            && settled(job)
    });
    let mut gangs: FxHashMap<&JobKey, (&Job, Gang<'_>)> = jobs
        .map(|job| (&job.id, (&**job, Gang::default())))
        .collect();
    if gangs.is_empty() {
        return;
    }
    for (node, device) in fleet.devices() {
        let Some(pod) = device.holder.as_ref().filter(|_| device.slices.is_empty()) else {
            continue;
        };
        let Some((_, gang)) = gangs.get_mut(&pod.job) else {
            continue;
        };
        gang.devices += 1;
        if device.health.is_fault() {
            gang.broken.get_or_insert((device, node.name(), pod));
        }
        let fresh = device.read_at.is_some() && !device.is_stale(now);
        if let Some(work) = fresh.then(|| work(device)).flatten() {
            gang.work.push(work);
            gang.idle += usize::from(does_nothing(device, &fleet.policy) == Some(true));
        }
    }
    for (job, gang) in gangs.into_values() {
        report(context, job, gang, rule);
    }
}

/// How much a device works, 0 to 1: a collective that never ends keeps utilization at 100 %, and few multiprocessors.
fn work(device: &Device) -> Option<f64> {
    device
        .signals
        .get(Signal::SmActive)
        .or_else(|| activity(device))
}

fn report(context: &mut CheckContext<'_>, job: &Job, mut gang: Gang<'_>, rule: &Rule) {
    gang.work.small_sort_by(f64::total_cmp);
    let known = gang.work.len();
    let enough = known as f64 >= MOST * gang.devices as f64;
    let place = (known as f64 * MOST).ceil() as usize;
    let most = gang.work.get(place.saturating_sub(1)).copied();
    let verdict = match most.filter(|_| enough) {
        None => Verdict::Unknown,
        // All of it idle: `idle-allocated` says so.
        Some(_) if gang.idle == known => Verdict::Ok,
        Some(most) => Verdict::of(Some(most), rule),
    };
    context.report(&job_name(&job.id), verdict, |most| {
        let (cause, repair) = match gang.broken {
            Some((device, node, pod)) => (
                format!("{} is broken", device.id),
                format!(
                    "cordon {node}, then delete pod {}, which is on it, so that the gang restarts from its last checkpoint",
                    pod.key()
                ),
            ),
            None => (
                String::from("one rank may hang"),
                String::from(
                    "look in its pods' logs for the rank that went silent; restart the gang from its last checkpoint",
                ),
            ),
        };
        Draft::new(
            job_subject(&job.id),
            format!(
                "most of its {} devices work less than {:.0} % of the time: {cause}",
                gang.devices,
                (most * 100.0).ceil()
            ),
            repair,
        )
        .detail(&job.id.kind)
        .value(most)
        .threshold(rule.threshold)
    });
}
