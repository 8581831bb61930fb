//! The record: stores observations on disk and plays them back.
//!
//! A record is a directory of append-only segments ([`frame`](self) defines the format). It contains the input of the ledger:
//! observations. Every few minutes a keyframe stores the complete state; frames between keyframes store the changes in order. A
//! replay feeds the same ledger, so every view works on the past as on the present.
//!
//! No secrets and no log text are written. Observations contain almost none: Secrets are never read; of pods, neither
//! environment nor arguments are read; of annotations, only those known by name are read (`cluster` drops the others); an
//! address that may contain a password is kept out of messages (`source`); logs and manifests are shown without passing through
//! observations. One exception is the termination message of a container, which may be the end of its log: the recorder removes
//! it. The recorded data is what views show: names, labels, conditions with their messages, and readings.

mod archive;
mod codec;
mod coder;
mod fault;
mod files;
mod frame;
mod grid;
mod keyframe;
mod mirror;
mod models;
mod recorder;
mod row_models;
mod shape;
mod source_numbers;
pub mod usage;

pub use archive::{Archive, Player, ReplayStep, recalled};
pub use codec::{RecordEntry, RecordedEvent};
pub use fault::RecordFault;
pub use frame::SegmentHead;
pub use keyframe::{Keyframe, Saved};
pub use recorder::{FLUSH, KEYFRAMES, RecordLock, RecordOptions, Recorder, Written};

/// Format version that this program writes, and the latest that it reads. Version 2 added frames that refer to earlier ones;
/// version 3 added latencies of model servers.
pub const VERSION: u16 = 3;
