//! The record: written beside the store, played, scanned, and gone back into from a live console.

pub mod past;
pub mod playback;
pub mod record_metrics;
pub mod record_status;
pub mod recorder;
pub mod rewind;
pub(super) mod scanner;
