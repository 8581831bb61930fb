//! Facts with the readings of an earlier moment; everything else stays current.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use model::base::Moment;
use model::fleet::Fleet;
use model::fleet::device::Device;
use model::fleet::history::{FleetSignal, Readings, Track};
use model::fleet::job::Job;
use model::fleet::pool::Pool;
use model::fleet::signal::{Signal, Signals};

use super::Facts;

/// The signals that the history keeps for a device; all others are unknown at an earlier moment.
const HELD: [Signal; 5] = [
    Signal::Util,
    Signal::MemUsed,
    Signal::MemUsedRatio,
    Signal::Temp,
    Signal::Power,
];

/// The facts with the readings of an earlier moment: utilization, memory, temperature and power of each device, and values
/// derived from these. Allocation, findings and cost stay current. `None` when the history has no readings of that moment.
pub fn at(facts: &Facts, moment: Moment) -> Option<Facts> {
    let readings = facts.history.readings(moment)?;
    let fleet = &facts.fleet;
    let mut utils: FxHashMap<(&str, u32), f64> = FxHashMap::default();
    let nodes: Vec<_> = fleet
        .nodes
        .iter()
        .map(|node| {
            if node.devices.is_empty() {
                return Arc::clone(node);
            }
            let mut then = (**node).clone();
            for device in &mut then.devices {
                rewind(device, &readings, moment);
                if let Some(util) = device.util() {
                    utils.insert((node.name().as_str(), device.index), util);
                }
            }
            Arc::new(then)
        })
        .collect();
    let jobs = fleet.jobs.iter().map(|job| rewind_job(job, &utils));
    let jobs: Vec<_> = jobs.collect();
    let pools: Vec<Pool> = fleet
        .pools
        .iter()
        .map(|pool| rewind_pool(facts, pool, &nodes, moment))
        .collect();
    let fleet = Fleet {
        at: moment,
        nodes: nodes.into(),
        jobs: jobs.into(),
        pools: pools.into(),
        ..(**fleet).clone()
    };
    Some(Facts {
        fleet: Arc::new(fleet),
        now: moment,
        ..facts.clone()
    })
}

fn rewind(device: &mut Device, readings: &Readings<'_>, moment: Moment) {
    let then = readings.of(&device.id);
    let total = device.memory().1;
    let limits = device
        .signals
        .iter()
        .filter(|(signal, _)| matches!(signal, Signal::MemTotal | Signal::PowerLimit));
    let mut values: Vec<(Signal, f64)> = limits.collect();
    let known = then.is_some_and(|then| then.is_known());
    if let Some(then) = then {
        let ratio = then.memory.map(f64::from);
        let used = ratio.zip(total).map(|(ratio, total)| ratio * total);
        let held = [then.util.map(f64::from), used, ratio];
        let rest = [then.temp.map(f64::from), then.power.map(f64::from)];
        let pairs = HELD.into_iter().zip(held.into_iter().chain(rest));
        values.extend(pairs.filter_map(|(signal, value)| Some((signal, value?))));
    }
    device.signals = values.into_iter().collect();
    for slice in &mut device.slices {
        slice.signals = Signals::default();
    }
    device.read_at = known.then_some(moment);
}

/// The job with the mean utilization of its devices at that moment.
fn rewind_job(job: &Arc<Job>, utils: &FxHashMap<(&str, u32), f64>) -> Arc<Job> {
    if job.places.is_empty() {
        return Arc::clone(job);
    }
    let known: Vec<f64> = job
        .places
        .iter()
        .filter_map(|place| utils.get(&(place.node.as_str(), place.device)).copied())
        .collect();
    let mut then = (**job).clone();
    then.util = (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64);
    Arc::new(then)
}

fn rewind_pool(
    facts: &Facts,
    pool: &Pool,
    nodes: &[Arc<model::fleet::node::Node>],
    moment: Moment,
) -> Pool {
    let own = || {
        nodes
            .iter()
            .filter(|node| node.pool == pool.name)
            .flat_map(|node| node.devices.iter())
    };
    let mean = |values: &mut dyn Iterator<Item = f64>| {
        let (sum, count) = values.fold((0.0, 0u32), |(sum, count), value| (sum + value, count + 1));
        (count > 0).then(|| sum / f64::from(count))
    };
    let around = std::time::Duration::from_secs(20);
    let power = facts
        .history
        .window(
            &Track::Pool(pool.name.clone(), FleetSignal::Power),
            moment.minus(around),
            moment.plus(around),
            1,
        )
        .into_iter()
        .flatten()
        .next();
    Pool {
        util: mean(&mut own().filter_map(Device::util)),
        mem_used: mean(&mut own().filter_map(Device::memory_ratio)),
        temp_max: own()
            .filter_map(|device| device.signals.get(Signal::Temp))
            .max_by(f64::total_cmp),
        power_watts: power.map(f64::from),
        stale: false,
        ..pool.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::sample;

    #[test]
    fn readings_go_back_and_nothing_else_does() {
        let mut facts = sample::facts();
        let mut history = (*facts.history).clone();
        let begun = facts.fleet.at;
        history.record(&facts.fleet, &|_| (1.0, 0.0));
        facts.history = Arc::new(history);
        let later = begun.plus(Duration::from_secs(600));
        let mut fleet = (*facts.fleet).clone();
        fleet.at = later;
        let nodes: Vec<_> = fleet
            .nodes
            .iter()
            .map(|node| {
                let mut node = (**node).clone();
                for device in &mut node.devices {
                    device.signals = [(Signal::Util, 0.125)].into_iter().collect();
                    device.read_at = Some(later);
                }
                Arc::new(node)
            })
            .collect();
        fleet.nodes = nodes.into();
        let newest = Facts {
            fleet: Arc::new(fleet),
            now: later,
            ..facts.clone()
        };
        let then = at(&newest, begun).expect("readings are held");
        assert_eq!((then.now, then.fleet.at), (begun, begun));
        let mut compared = 0;
        for ((_, was), (_, is)) in facts.fleet.devices().zip(then.fleet.devices()) {
            assert_eq!(was.holder, is.holder);
            if let (Some(was_util), false) = (was.util(), was.is_stale(begun)) {
                let is_util = is.util().expect("held");
                assert!((was_util - is_util).abs() < 0.01, "{was_util} {is_util}");
                compared += 1;
            } else {
                assert_eq!(is.util(), None, "what was not known then is not known");
            }
        }
        assert!(compared > 0);
        assert_eq!(then.spend_rates.total, newest.spend_rates.total);
        assert!(at(&newest, begun.minus(Duration::from_secs(3600))).is_none());
    }
}
