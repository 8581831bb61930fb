//! `straggler`: one device of a gang does far less than the others, or runs at a far lower clock. The whole gang
//! waits for it.

use model::base::SmallSort;
use model::fleet::device::Device;
use model::fleet::job::{Job, JobState};
use model::fleet::judge::GANG_WORKS;
use model::fleet::signal::Signal;
use model::fleet::thresholds::Rule;

use super::gangs::{GangMember, gangs};
use crate::checks::context::{CheckContext, FindingDraft, subject};
use crate::checks::{Check, CheckWalk, Verdict};

pub(crate) const CHECK: Check = Check {
    code: "straggler",
    walk: CheckWalk::Fleet(check_fleet),
};

/// When more than this share of a gang is behind, the gang is unbalanced by design, not slowed by one member.
const FEW: f64 = 0.25;

fn check_fleet(context: &mut CheckContext<'_>) {
    let works = |job: &Job| matches!(job.state, JobState::Running | JobState::Starting);
    let rule = context.rule;
    for (job, members) in gangs(context, works) {
        judge(context, job, &members, rule);
    }
}

fn util(member: &GangMember<'_>) -> Option<f64> {
    member.read(Device::util)
}

fn clock(member: &GangMember<'_>) -> Option<f64> {
    member.read(|device| device.signals.get(Signal::SmClock))
}

fn judge(context: &mut CheckContext<'_>, job: &Job, members: &[GangMember<'_>], rule: &Rule) {
    let median_util = median(members.iter().filter_map(util));
    let median_clock = median(members.iter().filter_map(clock));
    let known = members.iter().filter_map(util).count();
    let enough = known >= rule.devices as usize && known * 2 > members.len();
    let verdicts: Vec<Verdict> = members
        .iter()
        .map(|member| match (enough, median_util) {
            (true, Some(of_gang)) => check(member, of_gang, median_clock, rule),
            _ => Verdict::Unknown,
        })
        .collect();
    let behind = verdicts
        .iter()
        .filter(|verdict| matches!(verdict, Verdict::Firing(_)))
        .count();
    if behind as f64 > FEW * members.len() as f64 {
        return;
    }
    for (member, verdict) in members.iter().zip(verdicts) {
        context.report(&member.device.id, verdict, |share| {
            let by_clock = share_of(clock(member), median_clock).is_some_and(|clock| clock <= share);
            let what = if by_clock { "SM clock" } else { "utilization" };
            FindingDraft::new(
                subject("Device", &member.device.id),
                format!(
                    "its {what} is {:.0} % of the median of its gang's {} devices; {} waits for its pod {}",
                    share * 100.0,
                    members.len(),
                    job.id,
                    member.pod.key().name
                ),
                format!(
                    "look for heat, throttling, PCIe or network errors on its node; if it lasts, cordon {node} before you delete pod {pod}, or the pod may return there",
                    node = member.node.name(),
                    pod = member.pod.key(),
                ),
            )
            .caused_by(Some(&member.device.id))
            .value(share)
            .threshold(rule.threshold)
        });
    }
}

/// A device's own as a share of the gang's median.
fn share_of(own: Option<f64>, median: Option<f64>) -> Option<f64> {
    let (own, median) = own.zip(median.filter(|median| *median > 0.0))?;
    Some(own / median)
}

/// Firing with the device's utilization or clock, the lower, as a share of the gang's median.
fn check(
    member: &GangMember<'_>,
    median_util: f64,
    median_clock: Option<f64>,
    rule: &Rule,
) -> Verdict {
    // A checkpoint begins no straggler and ends none.
    if median_util < GANG_WORKS {
        return Verdict::Unknown;
    }
    let both = [
        share_of(util(member), Some(median_util)),
        share_of(clock(member), median_clock),
    ];
    Verdict::of(both.into_iter().flatten().reduce(f64::min), rule)
}

/// The middle value; `None` of nothing.
fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut all: Vec<f64> = values.filter(|value| value.is_finite()).collect();
    all.small_sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied()
}
