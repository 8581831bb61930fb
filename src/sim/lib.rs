//! The simulated cluster: a pure world, and the Kubernetes API that serves it.
//!
//! `change` is the seam between the two. `cluster` holds a world with the store of its objects; `api` answers
//! requests on it as a Kubernetes API server would; `serve` listens with it over HTTPS, and [`embed`] hands the
//! same service to a client in process.

pub mod api;
pub mod audit;
pub mod change;
pub mod cluster;
pub mod exporters;
pub mod faults;
pub mod field_owners;
pub mod human;
mod json;
pub mod kubeconfig;
mod names;
pub mod prometheus;
pub mod resource;
pub mod selector;
pub mod serve;
pub mod specs;
pub mod store;
pub mod table;
pub mod users;

pub use api::Service;
pub use cluster::{Clock, SimCluster};
pub use faults::InjectedFaults;
pub use serve::{Running, ServeOptions, Server, embed};
pub use users::User;
pub mod world;
