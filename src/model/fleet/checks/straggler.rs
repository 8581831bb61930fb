//! `straggler`: one device of a gang does far less than the others, or runs at a far lower clock. The whole gang
//! waits for it.

use rustc_hash::FxHashMap;

use crate::base::{ObjectKey, SmallSort};
use crate::fleet::device::Device;
use crate::fleet::job::{Job, JobKey, JobState};
use crate::fleet::node::Node;
use crate::fleet::signal::Signal;
use crate::fleet::thresholds::Rule;

use super::context::{CheckContext, Draft, subject};
use super::{Check, Verdict, Walk};

pub(super) const CHECK: Check = Check {
    code: "straggler",
    walk: Walk::Fleet(look),
};

/// A gang whose median utilization (0 to 1) is lower does not work now: it starts, saves, or waits as a whole, and none of it is a
/// straggler.
pub const GANG_WORKS: f64 = 0.5;
/// When more than this share of a gang is behind, it is lopsided by design, not held up by one.
const FEW: f64 = 0.25;

/// One device of a gang.
struct Member<'a> {
    node: &'a Node,
    device: &'a Device,
    pod: &'a ObjectKey,
    util: Option<f64>,
    clock: Option<f64>,
}

fn look(context: &mut CheckContext<'_>) {
    let (fleet, now, rule) = (context.fleet, context.now, context.rule);
    let mut gangs: FxHashMap<&JobKey, (&Job, Vec<Member<'_>>)> = fleet
        .jobs
        .iter()
        .filter(|job| {
            matches!(job.state, JobState::Running | JobState::Starting)
                && job.is_gang()
                && job.devices_allocated >= rule.devices
        })
        .map(|job| (&job.id, (&**job, Vec::new())))
        .collect();
    if gangs.is_empty() {
        return;
    }
    for (node, device) in fleet.devices() {
        let Some(pod) = device.holder.as_ref().filter(|_| device.slices.is_empty()) else {
            continue;
        };
        let Some((_, members)) = gangs.get_mut(&pod.job) else {
            continue;
        };
        let fresh = device.read_at.is_some() && !device.is_stale(now);
        members.push(Member {
            node,
            device,
            pod: pod.key(),
            util: fresh.then(|| device.util()).flatten(),
            clock: fresh.then(|| device.signals.get(Signal::SmClock)).flatten(),
        });
    }
    for (job, members) in gangs.into_values() {
        judge(context, job, &members, rule);
    }
}

fn judge(context: &mut CheckContext<'_>, job: &Job, members: &[Member<'_>], rule: &Rule) {
    let util = median(members.iter().filter_map(|member| member.util));
    let clock = median(members.iter().filter_map(|member| member.clock));
    let known = members
        .iter()
        .filter(|member| member.util.is_some())
        .count();
    let enough = known >= rule.devices as usize && known * 2 > members.len();
    let verdicts: Vec<Verdict> = members
        .iter()
        .map(|member| match (enough, util) {
            (true, Some(util)) => check(member, util, clock, rule),
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
            let by_clock = share_of(member.clock, clock).is_some_and(|clock| clock <= share);
            let what = if by_clock { "SM clock" } else { "utilization" };
            Draft::new(
                subject("Device", &member.device.id),
                format!(
                    "its {what} is {:.0} % of the median of {}'s {} devices: the others wait for it",
                    share * 100.0,
                    job.id,
                    members.len()
                ),
                format!(
                    "look for heat, throttling, PCIe or network errors on its node; if it lasts, cordon {node} before you delete pod {pod}, or the pod may return there",
                    node = member.node.name(),
                    pod = member.pod,
                ),
            )
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
fn check(member: &Member<'_>, util: f64, clock: Option<f64>, rule: &Rule) -> Verdict {
    if util < GANG_WORKS {
        return Verdict::Ok;
    }
    let both = [
        share_of(member.util, Some(util)),
        share_of(member.clock, clock),
    ];
    Verdict::of(both.into_iter().flatten().reduce(f64::min), rule)
}

/// The middle value; `None` of nothing.
fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut all: Vec<f64> = values.filter(|value| value.is_finite()).collect();
    all.small_sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied()
}
