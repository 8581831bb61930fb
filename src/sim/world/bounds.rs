//! The true bottleneck of each work, and its effect on device readings. Tests compare profiles with it.

use super::World;
use super::catalog::POOLS;
use super::noise::mix;
use super::work::{Profile, Work, WorkState};

/// The true bottleneck of a work.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TrueBound {
    Idle,
    /// Its data loader is too slow.
    Input,
    /// The bandwidth of device memory.
    Memory,
    /// Tensor cores: it is healthy.
    Tensor,
    /// It computes in FP32 without tensor cores.
    Fp32,
    AllReduce,
}

/// A training with a lower utilization than this does not represent its bottleneck.
const BUSY: f64 = 0.7;

impl Work {
    /// Its bottleneck while it works; `None` for work that depends on users (services and notebooks) and for half-busy work.
    pub(super) fn bound(&self, has_links: bool) -> Option<TrueBound> {
        match self.profile {
            Profile::InputBound | Profile::Eval => Some(TrueBound::Input),
            Profile::Notebook if self.util == 0.0 => Some(TrueBound::Idle),
            Profile::Sweep if self.util >= BUSY => Some(TrueBound::Tensor),
            Profile::Train if self.straggler.is_some() => Some(TrueBound::Tensor),
            Profile::Train if self.util >= BUSY => Some(self.training_bound(has_links)),
            _ => None,
        }
    }

    /// Most trainings are healthy; each other bottleneck occurs too.
    fn training_bound(&self, has_links: bool) -> TrueBound {
        let linked = has_links && self.ask.count > 1;
        match mix(self.noise(), 77) % 100 {
            0..12 => TrueBound::Memory,
            12..26 if linked => TrueBound::AllReduce,
            26..34 if self.util >= 0.88 => TrueBound::Fp32,
            _ => TrueBound::Tensor,
        }
    }
}

/// Device readings of a training by its bottleneck: SM, tensor and memory activity and link traffic as multiples of utilization.
pub(super) struct Mix {
    pub sm: f64,
    pub tensor: f64,
    pub dram: f64,
    pub link: f64,
}

impl TrueBound {
    /// The readings at a time in milliseconds.
    pub(super) fn mix(self, at: i64) -> Mix {
        let parts = |sm: f64, tensor: f64, dram: f64, link: f64| Mix {
            sm,
            tensor,
            dram,
            link,
        };
        match self {
            Self::Memory => parts(0.47, 0.13, 0.72, 0.5),
            // Ranks compute, then wait for each other.
            Self::AllReduce => match at.div_euclid(37_000) % 2 {
                0 => parts(0.54, 0.16, 0.32, 2.5),
                _ => parts(0.26, 0.08, 0.2, 2.5),
            },
            Self::Fp32 => parts(0.96, 0.015, 0.4, 0.6),
            Self::Idle | Self::Input | Self::Tensor => parts(0.9, 0.62, 0.52, 1.0),
        }
    }
}

/// A work with its true bottleneck.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BoundWork {
    pub namespace: String,
    /// Name of the controller.
    pub name: String,
    pub bound: TrueBound,
    /// One of its devices is slow, and the others wait for it.
    pub straggler: bool,
}

impl World {
    /// True when the work's devices are linked with each other.
    pub(super) fn has_links(&self, work: &Work) -> bool {
        work.pool.is_some_and(|pool| POOLS[pool].link > 0.0)
    }

    /// The true bottleneck of each work that has run for at least `least_run` milliseconds, and does not wait for a dead rank.
    pub fn true_bounds(&self, least_run: i64) -> Vec<BoundWork> {
        let runs = |work: &&Work| {
            work.state == WorkState::Running
                && work.stalled.is_none()
                && work
                    .running_since
                    .is_some_and(|since| self.now.since(since).millis() as i64 >= least_run)
        };
        self.works
            .values()
            .filter(runs)
            .filter_map(|work| {
                Some(BoundWork {
                    namespace: work.namespace.as_str().to_owned(),
                    name: work.name.as_str().to_owned(),
                    bound: work.bound(self.has_links(work))?,
                    straggler: work.straggler.is_some(),
                })
            })
            .collect()
    }
}
