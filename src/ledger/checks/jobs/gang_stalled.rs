//! `gang-stalled`: a running gang with almost no activity on its devices. One rank hangs or has died, and the others wait for it.

use model::base::{Age, SmallSort};
use model::fleet::device::Device;
use model::fleet::job::{Job, JobState};
use model::fleet::judge::{activity, does_nothing};
use model::fleet::signal::Signal;

use super::gangs::{GangMember, gangs};
use crate::checks::context::{CheckContext, FindingDraft, job_name, job_subject};
use crate::checks::{Check, CheckWalk, Verdict};

pub(crate) const CHECK: Check = Check {
    code: "gang-stalled",
    walk: CheckWalk::Fleet(check_fleet),
};

/// Share of the gang that must be known, and share of the known part that must be inactive, 0 to 1.
const MOST: f64 = 0.75;

fn check_fleet(context: &mut CheckContext<'_>) {
    let (now, grace) = (context.now, Age::from(context.fleet.policy.idle_grace));
    // A gang that has just been placed loads its data and compiles.
    let is_settled = |job: &Job| {
        let pods = job.pods.iter().filter(|pod| pod.holds_devices());
        let newest = pods.map(|pod| pod.held_since()).max();
        newest.is_some_and(|since| now.since(since) >= grace)
    };
    let is_judged = |job: &Job| job.state == JobState::Running && is_settled(job);
    for (job, members) in gangs(context, is_judged) {
        judge(context, job, &members);
    }
}

/// How much a device works, 0 to 1: a collective that never ends keeps utilization at 100 %, and few multiprocessors.
fn work(device: &Device) -> Option<f64> {
    device
        .signals
        .get(Signal::SmActive)
        .or_else(|| activity(device))
}

fn judge(context: &mut CheckContext<'_>, job: &Job, members: &[GangMember<'_>]) {
    let rule = context.rule;
    let mut known: Vec<f64> = members.iter().filter_map(|one| one.read(work)).collect();
    known.small_sort_by(f64::total_cmp);
    let enough = known.len() as f64 >= MOST * members.len() as f64;
    let place = (known.len() as f64 * MOST).ceil() as usize;
    let most = known.get(place.saturating_sub(1)).copied();
    let idles =
        |one: &GangMember<'_>| does_nothing(one.device, &context.fleet.policy) == Some(true);
    let mut measured = members.iter().filter(|one| one.read(work).is_some());
    let verdict = match most.filter(|_| enough) {
        None => Verdict::Unknown,
        // A gang that is idle as a whole is the business of `idle-allocated`.
        Some(_) if measured.all(idles) => Verdict::Ok,
        Some(most) => Verdict::of(Some(most), rule),
    };
    let broken = members.iter().find(|one| one.device.health.is_fault());
    context.report(&job_name(&job.id), verdict, |most| {
        let (cause, repair) = match broken {
            Some(one) => (
                format!("{} is broken", one.device.id),
                format!(
                    "cordon {}, then delete pod {}, which is on it, so that the gang restarts from its last checkpoint",
                    one.node.name(),
                    one.pod.key()
                ),
            ),
            None => (
                String::from("one rank may be hung"),
                String::from(
                    "look in its pods' logs for the rank that stopped logging; restart the gang from its last checkpoint",
                ),
            ),
        };
        FindingDraft::new(
            job_subject(&job.id),
            format!(
                "most of its {} devices show less than {:.0} % activity (SM, else utilization): {cause}",
                members.len(),
                (most * 100.0).ceil()
            ),
            repair,
        )
        .detail(&job.id.kind)
        .caused_by(broken.map(|one| &one.device.id))
        .value(most)
        .threshold(rule.threshold)
    });
}
