//! Requests of a view to read one object from the cluster, and their results: plain data on both sides.

use crate::base::{Moment, Name, ObjectKey};

/// An object of the cluster.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ObjectRef {
    /// Kind, such as `JobSet`.
    pub kind: Name,
    /// Namespace (empty for a cluster-scoped object) and name.
    pub key: ObjectKey,
}

impl ObjectRef {
    pub fn new(kind: &str, key: ObjectKey) -> Self {
        Self {
            kind: Name::new(kind),
            key,
        }
    }

    pub fn node(name: &Name) -> Self {
        Self::new("Node", ObjectKey::new("", name.clone()))
    }
}

/// A request for pod logs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogWant {
    /// The pods; the containers are listed for the first one.
    pub pods: Vec<ObjectKey>,
    /// The container; `None` for the pod's default container.
    pub container: Option<Name>,
    /// True for the previous run of the container.
    pub previous: bool,
    /// Lines per pod to start with.
    pub tail: u32,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ObjectPart {
    Yaml(ObjectRef),
    Events(Vec<ObjectRef>),
    Logs(LogWant),
}

/// The request of the front view. A new request replaces the previous one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ObjectRequest {
    pub part: ObjectPart,
    /// Incremented to repeat the same request.
    pub turn: u32,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EventSeen {
    /// Kind and name of the object that it concerns.
    pub about: String,
    /// True for type `Warning`.
    pub warning: bool,
    pub reason: String,
    pub message: String,
    pub first: Option<Moment>,
    pub last: Option<Moment>,
    pub count: u32,
    pub by: String,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogLine {
    /// Index of the pod in the request.
    pub pod: u32,
    /// Timestamp from the node.
    pub at: Option<Moment>,
    /// The line, without control characters.
    pub words: String,
}

/// The end of the reason of a container whose earlier run left no log.
pub const NO_EARLIER_LOG: &str = "no earlier log on the node";

/// A result of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ObjectNews {
    Text(Vec<String>),
    /// All events, newest first; true when there are more than these.
    Events(Vec<EventSeen>, bool),
    /// The containers of the first pod, and the one that is shown.
    Containers(Vec<Name>, Name),
    Lines(Vec<LogLine>),
    /// The log of this pod (by index) has ended or does not exist, with the reason.
    Ended(u32, Option<String>),
    /// The read failed: reason and repair.
    Failed(String),
}
