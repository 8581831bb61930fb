//! Kubernetes objects in, observations out; plan steps in, API calls out ([`levers`]). Pure: takes JSON that a source
//! has read and keeps no object.
//!
//! Each table has a partial struct that reads only the fields that the fleet uses. Every field is read
//! leniently: one that is null, absent or of another type than the API promises counts as not given,
//! never as an error, so that one odd object loses neither itself nor the list that it stands in.

pub mod accelerators;
pub mod admission;
pub mod claim;
pub mod discovery;
pub mod gang;
pub mod job;
pub mod kai;
pub mod kueue;
pub mod leader;
pub mod levers;
pub mod meta;
pub mod node;
pub mod partial;
pub mod pod;
pub mod policy;
pub mod quota;
pub mod ray;
pub mod resources;
pub mod rights;
pub mod sets;
pub mod siting;
pub mod table;
pub mod training;
pub mod volcano;
pub mod workload;

use crate::base::Names;
use crate::fleet::observe::{Observation, Table};

pub use meta::Meta;

/// A partial object of one or more tables, ready to be turned into what the fleet calls it.
pub trait Projected:
    serde::de::DeserializeOwned + Clone + Send + std::fmt::Debug + 'static
{
    /// Its metadata.
    fn meta(&self) -> &Meta;
    /// The observation that it has been seen as it now is. `None` when it has no name: nothing could be
    /// said about such an object.
    fn project(&self, table: Table, names: &mut Names) -> Option<Observation>;
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_claims;
#[cfg(test)]
mod tests_gangs;
#[cfg(test)]
mod tests_jobs;
#[cfg(test)]
mod tests_queues;
