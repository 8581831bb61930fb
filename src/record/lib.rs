//! The record: what sources said, on disk, and read again.
//!
//! A record is a directory of segments that are only ever added to ([`frame`](self) says how they look). It holds what the
//! ledger is fed: observations. Every few minutes a keyframe says everything; between two of them stands what came, in its
//! order. A replay feeds the same ledger, so whatever is shown of the present is shown of the past.
//!
//! No secret and no text of a log is written. Observations hold next to none: Secrets are never read, of pods neither
//! environment nor arguments are, of annotations only those that we know by name (`cluster` projects the others away), an
//! address that may hold a password stays out of messages (`source`), logs and manifests go to the screen by another road.
//! The one exception is what a container wrote as it ended, which may be the end of its log: the recorder leaves it out.
//! What is written is what a view shows: names, labels, conditions with their messages, readings.

mod archive;
mod codec;
mod coder;
mod fares;
mod fault;
mod files;
mod frame;
mod grid;
mod keyframe;
mod mirror;
mod models;
mod recorder;
mod rows;
mod shape;
pub mod usage;

pub use archive::{Archive, Player, Step};
pub use codec::{Entry, Said};
pub use fault::RecordFault;
pub use frame::Head;
pub use keyframe::{Keyframe, Saved};
pub use recorder::{FLUSH, KEYFRAMES, RecordLock, RecordOptions, Recorder, Written};

/// The version of the format that this program writes, and the latest that it reads.
/// The second looks back from a frame to those before it; the third has latencies of model servers.
pub const VERSION: u16 = 3;
