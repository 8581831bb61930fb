//! What sources say: observations, objects of the cluster by kind, readings, and what cannot be seen.

pub mod claim;
pub mod condition;
pub mod kinds;
pub mod object_parts;
pub mod observe;
pub mod outage;
pub mod reading;
pub mod seen;
pub mod skipped_series;
pub mod source_errors;
pub mod source_fault;
pub mod visibility;
