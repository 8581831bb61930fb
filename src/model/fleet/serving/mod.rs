//! Models that are served: histograms of requests, what servers say, replicas.

pub mod histogram;
pub mod replicas;
pub mod served_model;
