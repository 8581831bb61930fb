//! Gangs: the devices that slow down the others.

use std::cmp::Reverse;

use model::base::SmallSort;
use model::fleet::device::{Device, Pod};
use model::fleet::job::Job;
use model::fleet::judge::GANG_WORKS;
use model::fleet::node::Node;

use crate::Facts;

/// With fewer devices read than this, a gang's median is not meaningful.
const FEW: usize = 4;

/// A device counts as slow where its utilization is this far below its gang's median, 0 to 1.
const APART: f64 = 0.3;

/// A device whose utilization lies nearer to its gang's median than this is no outlier, 0 to 1.
pub const NEAR_MEDIAN: f64 = 0.05;

/// The stragglers of a gang from its findings: node, device, pod.
pub fn stragglers<'a>(facts: &'a Facts, job: &Job) -> Vec<(&'a Node, &'a Device, &'a Pod)> {
    if !job.is_gang() || job.devices_allocated == 0 {
        return Vec::new();
    }
    let findings = facts.fleet.findings.iter();
    let of_devices =
        findings.filter(|one| one.code.as_str() == "straggler" && one.subject.kind == "Device");
    let found = of_devices.filter_map(|one| {
        let (node, device) = facts.fleet.device_of(&one.subject.key.name)?;
        let holder = device.holder.as_deref()?;
        (holder.job == job.id).then_some((&**node, device, holder))
    });
    found.collect()
}

/// The slowest device of a gang, far below the others.
#[derive(Clone, Copy, Debug)]
pub struct Slowest<'a> {
    pub node: &'a Node,
    pub device: &'a Device,
    /// The pod that it is allocated to.
    pub pod: &'a Pod,
    /// Its utilization, 0 to 1.
    pub util: f64,
    /// The gang's median utilization, 0 to 1.
    pub median: f64,
}

/// The slowest device of a working gang at this moment, which need not be a straggler yet. `None` where no device is far
/// below the median, and where too few are read.
pub fn slowest<'a>(facts: &'a Facts, job: &Job) -> Option<Slowest<'a>> {
    if !job.is_gang() {
        return None;
    }
    let places = job.places.iter().filter_map(|place| {
        let node = facts.fleet.node(&place.node)?;
        let device = node.device(place.device)?;
        let pod = device.holder.as_deref()?;
        Some((fresh_util(facts, device)?, &**node, device, pod))
    });
    let mut read: Vec<_> = places.collect();
    read.small_sort_by(|a, b| a.0.total_cmp(&b.0));
    let (util, node, device, pod) = *read.first()?;
    let median = read[read.len() / 2].0;
    let is_apart = read.len() >= FEW && median >= GANG_WORKS && median - util >= APART;
    is_apart.then_some(Slowest {
        node,
        device,
        pod,
        util,
        median,
    })
}

/// The utilization of a fresh reading of its present pod, 0 to 1.
fn fresh_util(facts: &Facts, device: &Device) -> Option<f64> {
    let is_own = device.is_fresh(facts.now) && !device.is_read_before_held();
    device.util().filter(|_| is_own)
}

/// The sort key of a gang's devices that puts the worst first: its stragglers, then those further from its median utilization, in
/// steps, so that noise moves none. `None` for a job that is no gang.
pub fn worst_first<'a>(
    facts: &'a Facts,
    job: &Job,
) -> Option<impl Fn(&Device) -> Reverse<(bool, u32)> + use<'a>> {
    if !job.is_gang() {
        return None;
    }
    let slow = stragglers(facts, job).into_iter();
    let slow: Vec<&Device> = slow.map(|(_, device, _)| device).collect();
    let devices = job.places.iter().filter_map(|place| {
        let node = facts.fleet.node(&place.node)?;
        node.device(place.device)
    });
    let mut utils: Vec<f64> = devices
        .filter_map(|device| fresh_util(facts, device))
        .collect();
    utils.small_sort_by(f64::total_cmp);
    let median = utils.get(utils.len() / 2).copied();
    let median = median.filter(|_| utils.len() >= FEW);
    Some(move |device: &Device| {
        let is_straggler = slow.iter().any(|one| one.id == device.id);
        let util = fresh_util(facts, device);
        let apart = util.zip(median).map(|(util, median)| (util - median).abs());
        let steps = apart.map_or(0, |apart| (apart / NEAR_MEDIAN) as u32);
        Reverse((is_straggler, steps))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use model::fleet::job::{Gang, HeldDevice};
    use model::fleet::signal::Signal;

    use super::*;
    use crate::sample;

    #[test]
    fn a_pod_far_below_its_gang_is_reported() {
        let mut facts = sample::facts();
        let mut jobs = facts.fleet.jobs.iter();
        let job = jobs.find(|job| !job.pods.is_empty()).expect("has pods");
        let mut job = (**job).clone();
        job.gang = Some(Gang { size: 4, min: 4 });
        let pod = Arc::clone(&job.pods[0]);
        let held = facts
            .fleet
            .devices()
            .take(5)
            .map(|(node, device)| HeldDevice {
                node: node.name().clone(),
                device: device.index,
                slice: None,
            });
        job.places = held.collect();
        let mut nodes = facts.fleet.nodes.to_vec();
        let mut all = Vec::new();
        let mut utils = |least: f64, others: f64| {
            all.clear();
            for node in &mut nodes {
                for device in &mut Arc::make_mut(node).devices {
                    if all.len() < 5 {
                        device.holder = Some(Arc::clone(&pod));
                        let util = if all.is_empty() { least } else { others };
                        let more = [(Signal::Util, util)];
                        device.signals = device.signals.iter().chain(more).collect();
                        device.read_at = Some(facts.now);
                        all.push(device.id.clone());
                    }
                }
            }
            Arc::make_mut(&mut facts.fleet).nodes = nodes.clone().into();
            let rank = worst_first(&facts, &job).expect("a gang");
            let ranks = facts.fleet.devices().take(5).map(|(_, one)| rank(one));
            let ranks: Vec<_> = ranks.collect();
            assert!(ranks[0] < ranks[1], "the one that is apart comes first");
            assert!(ranks[1..].iter().all(|rank| *rank == ranks[1]));
            let found = slowest(&facts, &job);
            found.map(|one| (one.device.id == all[0], one.util, one.median))
        };
        assert_eq!(utils(0.2, 0.8), Some((true, 0.2, 0.8)));
        assert_eq!(utils(0.7, 0.8), None, "a little less");
        assert_eq!(utils(0.0, 0.3), None, "the gang does not work");
        assert!(utils(0.2, 0.8).is_some());
        let mut late = (*pod).clone();
        Arc::make_mut(&mut late.seen).scheduled = Some(facts.now.plus(Duration::from_secs(1)));
        let late = Arc::new(late);
        for node in &mut nodes {
            for device in &mut Arc::make_mut(node).devices {
                device.holder = Some(Arc::clone(&late));
            }
        }
        Arc::make_mut(&mut facts.fleet).nodes = nodes.into();
        assert!(slowest(&facts, &job).is_none(), "read before it started");
    }
}
