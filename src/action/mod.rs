//! What an operator may ask for on one object, turned into a plan without the scheduling engine. One file an action.
//!
//! Pure: takes the objects as they were just read ([`Subject`], [`Found`]) and gives a plan or a refusal that says what
//! can be done instead. What the scheduler makes of it is not computed here, and such a plan says so.

pub mod hold;
pub mod reprioritise;
pub mod resume;
mod subject;
#[cfg(test)]
mod tests;

pub use subject::{Class, Found, Subject, System, Target};

use crate::engine::plan::Effect;

/// Said of every plan that is made here: nobody has computed what the fleet will be like.
fn not_computed() -> Effect {
    Effect::Unknown {
        why: "only this object was read: what starts earlier or later is not computed".to_owned(),
    }
}
