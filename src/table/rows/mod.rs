//! The rows of kinds as JSON, and what they are made of.

pub mod devices;
pub mod document;
pub mod gangs;
pub mod inventory;
pub mod job_failure;
pub mod job_place;
pub mod jobs;
pub mod list_price;
pub mod lost_work;
pub mod nodes;
pub mod pools;
pub mod queue_quotas;
pub mod queue_tree;
pub mod queues;
pub mod quota_left;
pub mod scalers;
pub mod scheduling;
pub mod services;
pub(crate) mod token_cost;
