//! `idle-allocated`: devices that a job holds, and that have done no work for long. One finding a job.

use model::base::{Age, Moment};
use model::fleet::idle::IdleSince;
use model::fleet::judge::is_idle;
use model::fleet::policy::Policy;

use crate::checks::context::{
    CheckContext, FindingDraft, SubjectTally, counted, job_name, job_subject,
};
use crate::checks::{Check, CheckInput, CheckWalk, Verdict};

pub(crate) const CHECK: Check = Check {
    code: "idle-allocated",
    walk: CheckWalk::Tally(count, finish),
};

fn count(context: &mut CheckContext<'_>, input: &CheckInput<'_>) {
    let device = input.device;
    let (Some(idle), Some((pod, _))) = (device.idle(), device.first_holder()) else {
        return;
    };
    let hold = Age::from(context.rule.hold);
    let verdict = check(input, idle.since, hold, &context.fleet.policy);
    if verdict == Verdict::Ok {
        return;
    }
    let tally = context
        .tally
        .entry(job_name(&pod.job))
        .or_insert_with(|| SubjectTally::new(Some(pod.job.clone()), &device.class));
    if verdict == Verdict::Unknown {
        tally.unknown += 1;
    } else {
        tally.count += 1;
        tally.idle = IdleSince::longest(tally.idle.into_iter().chain([idle]));
    }
}

/// Checks whether one device has been idle for longer than `hold`, and allocated for longer than the policy's grace period.
fn check(input: &CheckInput<'_>, since: Moment, hold: Age, policy: &Policy) -> Verdict {
    if !input.fresh {
        return Verdict::Unknown;
    }
    if !is_idle(input.device, input.now, policy) {
        return Verdict::Ok;
    }
    Verdict::when(Some(input.now.since(since) >= hold))
}

fn finish(context: &mut CheckContext<'_>) {
    for (name, tally) in std::mem::take(&mut context.tally) {
        let Some(job) = tally.job else { continue };
        let verdict = if tally.count > 0 {
            Verdict::Firing(f64::from(tally.count))
        } else {
            Verdict::Unknown
        };
        let own = context.fleet.job(&job);
        let held = own.map(|job| job.devices_allocated);
        let hold = Age::from(context.rule.hold);
        let since = tally.idle.map(|idle| idle.since);
        context.report_with_start(&name, verdict, since, |count| {
            let of = match held {
                Some(held) if f64::from(held) > count => format!(" of its {held}"),
                _ => String::new(),
            };
            let unit = match own.is_some_and(|job| job.is_sliced()) {
                true => "slice",
                false => "device",
            };
            let devices = counted(count as usize, &format!("{} {unit}", tally.class));
            let more = own.map_or(0, |job| job.idle_devices.saturating_sub(count as u32));
            // Money and views count those that are idle now.
            let more = match more {
                0 => String::new(),
                more => format!(" for {hold} or more, {more} more for less"),
            };
            FindingDraft::new(
                job_subject(&job),
                // For how long, its age says.
                format!("{devices}{of} allocated but idle{more}"),
                "ask the owner to stop or shrink it",
            )
            .detail(&job.kind)
            .value(count)
            .at_least(tally.idle.is_some_and(|idle| idle.at_least))
        });
    }
}
