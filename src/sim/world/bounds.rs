//! What truly bounds a piece of work, and what its devices' parts do because of it. A profile is held against this.

use super::World;
use super::catalog::POOLS;
use super::noise::mix;
use super::work::{Profile, State, Work};

/// What truly holds a piece of work back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TrueBound {
    /// It does nothing.
    Idle,
    /// Its loader is too slow.
    Input,
    /// The bandwidth of device memory.
    Memory,
    /// Nothing but tensor cores: it is healthy.
    Tensor,
    /// It computes in FP32 without tensor cores.
    Fp32,
    /// Its all-reduces.
    AllReduce,
}

/// A training that is used less than this does not stand for its kind of bound.
const BUSY: f64 = 0.7;

impl Work {
    /// What holds it back while it works; `None` for what follows its users: services and notebooks, and what is half busy.
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

    /// Most trainings are as they should be; of the others each kind is there.
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

/// What a training's devices do by what bounds it: SM, tensor and memory activity and link traffic as multiples of utilization.
pub(super) struct Mix {
    pub sm: f64,
    pub tensor: f64,
    pub dram: f64,
    pub link: f64,
}

impl TrueBound {
    /// At a moment, milliseconds.
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

/// A piece of work with what truly bounds it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BoundWork {
    /// Namespace.
    pub namespace: String,
    /// Name of the controller.
    pub name: String,
    /// What bounds it.
    pub bound: TrueBound,
}

impl World {
    /// Whether the devices that a work runs on have links among them.
    pub(super) fn has_links(&self, work: &Work) -> bool {
        work.pool.is_some_and(|pool| POOLS[pool].link > 0.0)
    }

    /// What truly bounds each work that has run for so long, milliseconds, and is not held back by a rank that died.
    pub fn true_bounds(&self, least_run: i64) -> Vec<BoundWork> {
        let runs = |work: &&Work| {
            work.state == State::Running
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
                })
            })
            .collect()
    }
}
