//! Queues, and what they admit: Kueue's, Volcano's, KAI's, the queues of `govern`, and Kubernetes' own gangs.

pub mod admission;
pub mod gang;
pub mod govern;
pub mod kai;
pub mod kueue;
pub mod kueue_config;
pub mod quota;
pub mod volcano;
