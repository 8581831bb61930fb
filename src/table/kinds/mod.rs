//! The kinds of rows, one file each: what a row is, its columns, its object, where it leads, and how `get` writes it.

use crate::Kind;
use crate::column::KindSpec;

pub mod advice;
pub mod alerts;
pub mod cost;
pub mod devices;
pub mod fleet;
pub mod jobs;
pub mod nodes;
pub(crate) mod output;
pub mod pods;
pub mod pools;
pub mod queues;
pub mod scalers;
pub mod services;
pub mod sources;

/// The description of a kind, from which `get`, the console and their docs are made.
pub fn spec(kind: Kind) -> &'static KindSpec {
    match kind {
        Kind::Devices => &devices::KIND,
        Kind::Jobs => &jobs::KIND,
        Kind::Nodes => &nodes::KIND,
        Kind::Pools => &pools::KIND,
        Kind::Pods => &pods::KIND,
        Kind::Queues => &queues::KIND,
        Kind::Cost => &cost::KIND,
        Kind::Alerts => &alerts::KIND,
        Kind::Advice => &advice::KIND,
        Kind::Scalers => &scalers::KIND,
        Kind::Services => &services::KIND,
        Kind::Sources => &sources::KIND,
        Kind::Fleet => &fleet::KIND,
    }
}
