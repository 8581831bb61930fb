//! Queues of every system and what they admit: quotas, admissions, placement, priorities, budgets of disruption.

pub mod admission;
pub mod budget;
pub mod govern;
pub mod kueue_resources;
pub mod queue;
pub mod queue_document;
pub mod run_hold;
pub mod scheduling;
pub mod siting;
