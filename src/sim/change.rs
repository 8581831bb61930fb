//! The interface between the simulated world and its API: the world returns changes, the API passes it requests.
//!
//! Objects have the JSON form that the API serves. The world never sets `metadata.resourceVersion`
//! (the store numbers its writes); it does set `metadata.uid`, `metadata.creationTimestamp` and the rest.

use serde_json::Value;

use model::base::{Moment, ObjectKey};

pub use super::specs::Resource;

/// One thing that changed in the world.
#[derive(Clone, PartialEq, Debug)]
pub enum WorldChange {
    /// The object's new state (created or replaced).
    Put(Resource, Value),
    /// The object was deleted. The namespace is empty for a cluster-scoped one.
    Remove(Resource, ObjectKey),
}

/// A client's request, after the API has checked rights, versions and shape.
#[derive(Clone, PartialEq, Debug)]
pub enum Request {
    /// Created or written: the whole object in its new state.
    Write(Resource, Value),
    /// Deleted (or evicted, when it is a pod and its budget allowed it), with the grace in seconds.
    Delete(Resource, ObjectKey, Option<u64>),
}

/// A page that a pod of the world serves over HTTP.
#[derive(Clone, PartialEq, Debug)]
pub struct ServedPage {
    pub content_type: &'static str,
    pub body: String,
}

/// What the API needs of a world. One implementation, `sim::world::World`; a trait only so that the
/// API's own tests can drive it with a handful of objects.
pub trait SimBackend: Send {
    /// All objects at the start, in an order in which they could have been created.
    fn start(&mut self) -> Vec<WorldChange>;
    fn now(&self) -> Moment;
    /// Moves the clock to `to` (never back) and returns the changes on the way, in order.
    fn advance(&mut self, to: Moment) -> Vec<WorldChange>;
    /// Applies a client's write and returns its immediate changes (including the written object).
    fn request(&mut self, request: Request) -> Vec<WorldChange>;
    /// The page at `path` on `port` of a pod; `None` when nothing listens there.
    fn page(&self, pod: &ObjectKey, port: u16, path: &str) -> Option<ServedPage>;
    /// The same page at a past time, if the world can compute it.
    fn page_at(&self, pod: &ObjectKey, port: u16, path: &str, at: Moment) -> Option<ServedPage> {
        (at >= self.now())
            .then(|| self.page(pod, port, path))
            .flatten()
    }
    /// The pod's log so far, oldest line first, each with its time; `None` when the container does not exist.
    fn log(
        &self,
        pod: &ObjectKey,
        container: Option<&str>,
        previous: bool,
    ) -> Option<Vec<(Moment, String)>>;
    /// Every (pod, port, path) that serves an exposition page, in a stable order.
    fn exporters(&self) -> Vec<(ObjectKey, u16, &'static str)>;
}
