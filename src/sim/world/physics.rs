//! Device readings: a pure function of the device, the time and the pod that it is allocated to.
//!
//! Nothing is stepped, so a page costs the same at any time and 80,000 idle readings cost nothing.

use model::base::Moment;

use super::World;
use super::bounds::TrueBound;
use super::catalog::{MIG, PoolSpec, SimVendor};
use super::node::{NodeId, SimNode};
use super::noise::{mix, smooth, unit};
use super::pod::{PodPhase, SimPod};
use super::work::{Profile, Work, WorkState};

/// Readings of a device at one time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DeviceSample {
    /// Share of time with work resident.
    pub util: f64,
    pub sm: f64,
    pub occupancy: f64,
    pub tensor: f64,
    pub dram: f64,
    pub memory_mib: f64,
    pub watts: f64,
    pub celsius: f64,
    pub memory_celsius: f64,
    pub sm_mhz: f64,
    pub memory_mhz: f64,
    /// NVLink or xGMI bytes a second.
    pub link: f64,
    pub pcie_tx: f64,
    pub pcie_rx: f64,
    pub throttle: u32,
}

/// Activity of a pod on its share of a device.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PodActivity {
    pub util: f64,
    pub sm: f64,
    pub tensor: f64,
    pub dram: f64,
    /// Share of the memory.
    pub memory: f64,
    pub link: f64,
    /// Runs at lowered clocks.
    pub slow: bool,
    /// A context is open: clocks stay up.
    pub awake: bool,
}

/// Load by time of day, 0 (deep night) to 1 (afternoon), at UTC−5.
pub(super) fn day(at: Moment) -> f64 {
    let hour = (at.millis() - 5 * 3_600_000).rem_euclid(86_400_000) as f64 / 3_600_000.0;
    let wave = 0.5 - 0.5 * (std::f64::consts::TAU * (hour - 3.5) / 24.0).cos();
    let evening = (-((hour - 20.5) / 2.2).powi(2)).exp();
    (wave * 0.9 + evening * 0.25).clamp(0.0, 1.0)
}

impl World {
    /// The hot rack: the first of the shared A100 pool.
    pub(super) fn hot_rack(&self) -> Option<u32> {
        self.staged.hot_rack
    }

    /// Inlet temperature of a node, degrees Celsius.
    pub(super) fn inlet(&self, node: &SimNode, at: Moment) -> f64 {
        let key = mix(self.options.seed ^ 0x417, u64::from(node.rack));
        let base = 21.0 + unit(key) * 3.0 + day(at) * 1.2 + smooth(key, at.millis(), 900_000) * 0.4;
        if self.hot_rack() == Some(node.rack) {
            // A blocked aisle: warm at the bottom, hot at the top where exhaust air recirculates.
            base + if node.rack_position >= 19 { 16.0 } else { 8.5 }
        } else if node.pool == MIG {
            base + 7.0
        } else {
            base
        }
    }

    /// Activity of a pod on its device `lane` at a time.
    pub(super) fn activity(&self, pod: &SimPod, work: &Work, lane: u64, at: Moment) -> PodActivity {
        let Some(started) = pod.started.filter(|started| *started <= at) else {
            return PodActivity::default();
        };
        if pod.phase != PodPhase::Running || pod.deleting.is_some() {
            return PodActivity::default();
        }
        let own = mix(pod.uid, lane);
        let age = at.since(started).millis() as i64;
        let loading = 25_000 + (mix(work.noise(), 3) % 120_000) as i64;
        let waits = work.gang && work.state != WorkState::Running;
        if waits || (age < loading && work.profile != Profile::Notebook) {
            return PodActivity {
                util: 0.01 + 0.02 * unit(mix(own, at.millis() as u64 / 30_000)),
                memory: (work.memory * age as f64 / loading as f64)
                    .clamp(0.006, work.memory.max(0.006)),
                awake: true,
                ..PodActivity::default()
            };
        }
        if work.stalled.is_some_and(|since| since <= at) {
            // A collective that hangs: its kernel spins on a few multiprocessors.
            return PodActivity {
                util: 0.03 + 0.02 * unit(mix(own, at.millis() as u64 / 30_000)),
                sm: 0.02,
                memory: work.memory,
                awake: true,
                ..PodActivity::default()
            };
        }
        let t = at.millis();
        let shared = smooth(work.noise(), t, 600_000) * 0.025
            + smooth(mix(work.noise(), 7), t, 5_400_000) * 0.02;
        let single = smooth(own, t, 90_000) * 0.012;
        let memory = (work.memory * (1.0 + 0.01 * smooth(mix(own, 2), t, 1_200_000))).min(0.985);
        let base = work.util;
        match work.profile {
            Profile::Train => self.training(pod, work, lane, at, (base + shared + single, memory)),
            Profile::InputBound => {
                let wave = smooth(mix(work.noise(), 9), t, 70_000);
                let util = (base + 0.16 * wave + single).clamp(0.02, 1.0);
                PodActivity {
                    util,
                    sm: util * 0.7,
                    tensor: util * 0.35,
                    dram: util * 0.3,
                    memory,
                    link: util * 0.4,
                    slow: false,
                    awake: true,
                }
            }
            Profile::Sweep => {
                let util = (base + 0.08 * smooth(mix(own, 4), t, 240_000) + single).clamp(0.0, 1.0);
                PodActivity {
                    util,
                    sm: util * 0.74,
                    tensor: util * 0.42,
                    dram: util * 0.38,
                    memory,
                    link: 0.0,
                    slow: false,
                    awake: true,
                }
            }
            Profile::Eval => {
                // One batch is processed, then the next one is loaded.
                let period = 180_000 + (own % 80_000) as i64;
                let on = (t + (own % 997_000) as i64) % period < period * 3 / 5;
                let util = if on {
                    (base + 0.1 * smooth(own, t, 40_000)).clamp(0.0, 1.0)
                } else {
                    0.04
                };
                PodActivity {
                    util,
                    sm: util * 0.66,
                    tensor: util * 0.36,
                    dram: util * 0.5,
                    memory,
                    link: util * 0.2,
                    slow: false,
                    awake: true,
                }
            }
            Profile::Serve => {
                let load = base
                    * (0.5 + 0.5 * day(at))
                    * (1.0
                        + 0.18 * smooth(own, t, 60_000)
                        + 0.1 * smooth(work.noise(), t, 300_000));
                let util = load.clamp(0.02, 1.0);
                PodActivity {
                    util,
                    sm: util * 0.6,
                    tensor: util * 0.3,
                    dram: (util * 0.8).min(0.85),
                    memory,
                    link: util * 0.3,
                    slow: false,
                    awake: true,
                }
            }
            Profile::Notebook => {
                // A cell runs now and then; never in a hoarder's notebook.
                let on = base > 0.0 && unit(mix(own, (t / 420_000) as u64)) < 0.12;
                let util = if on {
                    base * (0.5 + 0.5 * unit(mix(own, (t / 30_000) as u64)))
                } else {
                    0.0
                };
                PodActivity {
                    util,
                    sm: util * 0.5,
                    tensor: util * 0.15,
                    dram: util * 0.3,
                    memory,
                    link: 0.0,
                    slow: false,
                    awake: true,
                }
            }
            Profile::Infra => PodActivity::default(),
        }
    }

    fn training(
        &self,
        pod: &SimPod,
        work: &Work,
        lane: u64,
        at: Moment,
        base: (f64, f64),
    ) -> PodActivity {
        let (mut util, memory) = base;
        let since = work.running_since.or(pod.started).unwrap_or(at);
        let run = at.since(since).millis() as i64;
        // A checkpoint stops every rank at the same time; an evaluation about every hour halves the load.
        let saving = work.checkpoint_every > 0
            && run > work.checkpoint_every
            && run % work.checkpoint_every < 34_000;
        let evaluating =
            work.util < 0.95 && (run + (work.noise() % 3_600_000) as i64) % 3_900_000 < 120_000;
        let mut link = 1.0;
        if saving {
            util = 0.06;
            link = 0.02;
        } else if evaluating {
            util *= 0.55;
            link = 0.3;
        }
        let by = work.bound(self.has_links(work));
        let mix = by.unwrap_or(TrueBound::Tensor).mix(at.millis());
        let mut tensor = util * mix.tensor;
        let mut sm = util * mix.sm;
        link *= mix.link;
        let mut slow = false;
        if let Some((index, device)) = work.straggler {
            if pod.index == index && lane == u64::from(device) {
                // The straggler is always busy; its peers wait for it at every step.
                util = util.max(0.97);
                sm = 0.95;
                tensor = 0.4;
                slow = true;
            } else {
                util *= 0.74;
                sm *= 0.66;
                tensor *= 0.6;
                link *= 0.6;
            }
        }
        let util = util.clamp(0.0, 1.0);
        PodActivity {
            util,
            sm: sm.clamp(0.0, 1.0),
            tensor: tensor.clamp(0.0, 1.0),
            dram: (util * mix.dram).clamp(0.0, 1.0),
            memory,
            link: link * util * f64::from(u8::from(work.gang || work.ask.count > 1)),
            slow,
            awake: true,
        }
    }

    /// Activity of the pod that a unit is allocated to.
    pub(super) fn unit_activity(&self, node: &SimNode, at_unit: usize, at: Moment) -> PodActivity {
        let Some(pod) = node.unit_pods[at_unit].and_then(|id| self.pods.get(&id)) else {
            return PodActivity::default();
        };
        let Some(work) = self.works.get(&pod.work) else {
            return PodActivity::default();
        };
        let lane = pod
            .units
            .iter()
            .position(|unit| usize::from(*unit) == at_unit)
            .unwrap_or(0);
        self.activity(pod, work, lane as u64, at)
    }

    /// Readings of a physical device at a time.
    pub(super) fn sample(&self, id: NodeId, gpu: usize, at: Moment) -> DeviceSample {
        let node = &self.nodes[id];
        let spec = node.spec();
        let key = mix(node.uid, 900 + gpu as u64);
        let mut total = PodActivity::default();
        let parts = node
            .units
            .iter()
            .filter(|unit| usize::from(unit.gpu) == gpu)
            .count()
            .max(1);
        for at_unit in
            (0..node.units.len()).filter(|unit| usize::from(node.units[*unit].gpu) == gpu)
        {
            let part = self.unit_activity(node, at_unit, at);
            let share = if spec.mig { 1.0 / parts as f64 } else { 1.0 };
            total.util += part.util * share;
            total.sm += part.sm * share;
            total.tensor += part.tensor * share;
            total.dram += part.dram * share;
            total.memory += part.memory * share;
            total.link += part.link * share;
            total.slow |= part.slow;
            total.awake |= part.awake;
        }
        let broken = node.devices[gpu]
            .xid
            .is_some_and(|(code, since)| matches!(code, 48 | 79 | 95) && since <= at);
        if broken {
            total = PodActivity {
                memory: total.memory,
                ..PodActivity::default()
            };
        }
        self.reading(spec, key, total, self.inlet(node, at), at)
    }

    fn reading(
        &self,
        spec: &PoolSpec,
        key: u64,
        on: PodActivity,
        inlet: f64,
        at: Moment,
    ) -> DeviceSample {
        let t = at.millis();
        let jitter = smooth(mix(key, 1), t, 45_000);
        let intensity = if on.slow {
            0.5
        } else {
            0.45 * on.util + 0.55 * on.sm
        };
        let mut watts = spec.idle_watts + (spec.limit_watts - spec.idle_watts) * intensity * 0.99;
        if on.awake && on.util < 0.05 {
            // An open context keeps the memory clocks up.
            watts = spec.idle_watts * 1.32;
        }
        watts = (watts * (1.0 + 0.012 * jitter)).clamp(0.0, spec.limit_watts * 1.004);
        // Coolers differ: up to two degrees between siblings.
        let fit = unit(mix(key, 2)) * 4.0 - 2.0;
        let celsius =
            (inlet + 7.0 + spec.heat * watts + fit + 0.6 * smooth(mix(key, 3), t, 120_000))
                .max(18.0);
        let mut throttle = 0;
        let mut sm_mhz = if on.awake { spec.sm_mhz } else { spec.idle_mhz };
        if on.util < 0.02 {
            throttle |= 0x1;
        }
        if watts > spec.limit_watts * 0.965 && spec.limit_watts > 0.0 {
            throttle |= 0x4;
            sm_mhz *= 0.965;
        }
        if celsius >= 85.0 {
            throttle |= 0x20;
            sm_mhz *= (1.0 - (celsius - 84.0) * 0.045).max(0.5);
        }
        if on.slow {
            throttle |= 0x8 | 0x80;
            sm_mhz *= 0.56;
        }
        sm_mhz = (sm_mhz / 15.0).round() * 15.0;
        let memory_mhz = if on.awake {
            spec.mem_mhz
        } else {
            spec.mem_mhz.min(405.0)
        };
        let usable = f64::from(spec.device_mib - spec.reserved_mib);
        let memory_mib = (usable * on.memory)
            .round()
            .max(if on.awake { 420.0 } else { 3.0 });
        let flow = on.util * (1.0 + 0.3 * smooth(mix(key, 5), t, 30_000));
        DeviceSample {
            util: on.util,
            sm: on.sm,
            occupancy: on.sm * 0.44,
            tensor: on.tensor,
            dram: on.dram,
            memory_mib: memory_mib.min(usable),
            watts,
            celsius: celsius.round(),
            memory_celsius: if spec.flavor == "l4" {
                0.0
            } else {
                (celsius + 6.0 + 9.0 * on.dram).round()
            },
            sm_mhz,
            memory_mhz,
            link: spec.link * on.link * (1.0 + 0.05 * jitter),
            pcie_tx: 4.0e7 + flow * 1.1e9,
            pcie_rx: 2.5e7 + flow * 2.6e9,
            throttle,
        }
    }

    /// Updates the energy counters of a node, before or after a change of allocations.
    pub(super) fn meter(&mut self, id: NodeId) {
        self.account(id);
        let now = self.now;
        let draws: Vec<f64> = (0..self.nodes[id].devices.len())
            .map(|gpu| self.mean_watts(&self.nodes[id], gpu))
            .collect();
        for (device, draw) in self.nodes[id].devices.iter_mut().zip(draws) {
            device.energy += device.draw * now.since(device.energy_at).millis() as f64 / 1000.0;
            device.energy_at = now;
            device.draw = draw;
        }
    }

    /// Mean watts of a device with its current pods.
    fn mean_watts(&self, node: &SimNode, gpu: usize) -> f64 {
        let spec = node.spec();
        if spec.vendor == SimVendor::Google {
            return 0.0;
        }
        let mut busy = 0.0;
        for (unit, held) in node.units.iter().zip(&node.unit_pods) {
            if usize::from(unit.gpu) == gpu
                && let Some(work) = held
                    .and_then(|pod| self.pods.get(&pod))
                    .and_then(|pod| self.works.get(&pod.work))
            {
                busy += work.util * if spec.mig { 1.0 / 7.0 } else { 1.0 };
            }
        }
        spec.idle_watts + (spec.limit_watts - spec.idle_watts) * 0.88 * busy.min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_day_has_a_night_and_an_afternoon() {
        let at = |hour: i64| day(Moment::from_seconds(hour * 3600));
        assert!(at(8) < 0.1, "03:00 local is deep night: {}", at(8));
        assert!(at(20) > 0.8, "15:00 local is busy: {}", at(20));
        for quarter in 0..192 {
            let level = day(Moment::from_seconds(quarter * 900));
            assert!((0.0..=1.0).contains(&level));
        }
    }
}
