//! The scheduler: what would run where. Pure: no clock, no I/O, no hash order, no float in a decision, and
//! randomness only from a seed, so that the same input gives the same bytes on every machine.
//!
//! What stands here: the replay of published traces, for packing (placement policies on a full cluster) and
//! for queueing (who runs next); and the plan as data ([`plan`]), which planners return and others carry out.

pub mod dice;
pub mod document;
pub mod model;
pub mod packing;
pub mod percent;
pub mod plan;
pub mod queueing;
pub mod sheet;
