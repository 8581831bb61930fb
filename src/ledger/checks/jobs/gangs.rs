//! Gangs with their devices, for the checks that judge a gang as a whole.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use model::fleet::device::{Device, Pod};
use model::fleet::job::{Job, JobKey};
use model::fleet::node::Node;

use crate::checks::context::CheckContext;

/// One device of a gang.
pub(crate) struct GangMember<'a> {
    pub(crate) node: &'a Node,
    pub(crate) device: &'a Device,
    pub(crate) pod: &'a Arc<Pod>,
    /// Its readings are not too old.
    pub(crate) fresh: bool,
}

impl GangMember<'_> {
    /// What its readings say, where they are fresh.
    pub(crate) fn read(&self, of: impl FnOnce(&Device) -> Option<f64>) -> Option<f64> {
        self.fresh.then(|| of(self.device)).flatten()
    }
}

/// The gangs that are to be judged and hold as many devices as the check's rule asks for, each with its whole devices.
pub(crate) fn gangs<'a>(
    context: &CheckContext<'a>,
    is_judged: impl Fn(&Job) -> bool,
) -> Vec<(&'a Job, Vec<GangMember<'a>>)> {
    let (fleet, now, rule) = (context.fleet, context.now, context.rule);
    let jobs = fleet
        .jobs
        .iter()
        .filter(|job| job.is_gang() && job.devices_allocated >= rule.devices && is_judged(job));
    let mut gangs: FxHashMap<&JobKey, (&Job, Vec<GangMember<'_>>)> =
        jobs.map(|job| (&job.id, (&**job, Vec::new()))).collect();
    if gangs.is_empty() {
        return Vec::new();
    }
    for (node, device) in fleet.devices() {
        let Some(pod) = device.holder.as_ref().filter(|_| device.slices.is_empty()) else {
            continue;
        };
        if let Some((_, members)) = gangs.get_mut(&pod.job) {
            members.push(GangMember {
                node,
                device,
                pod,
                fresh: device.is_fresh(now),
            });
        }
    }
    gangs.into_values().collect()
}
