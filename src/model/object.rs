//! What a view wants read of the cluster for one object, and what comes of it: plain data on both sides.

use crate::base::{Moment, Name, ObjectKey};

/// An object of the cluster.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ObjectRef {
    /// Its kind, `JobSet` say.
    pub kind: Name,
    /// Namespace (empty for what is of the whole cluster) and name.
    pub key: ObjectKey,
}

impl ObjectRef {
    /// An object of this kind.
    pub fn new(kind: &str, key: ObjectKey) -> Self {
        Self {
            kind: Name::new(kind),
            key,
        }
    }

    /// A node.
    pub fn node(name: &Name) -> Self {
        Self::new("Node", ObjectKey::new("", name.clone()))
    }
}

/// Logs of pods.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogWant {
    /// The pods, the first one asked for its containers.
    pub pods: Vec<ObjectKey>,
    /// The container; `None` is the pod's default one.
    pub container: Option<Name>,
    /// Of the container's run before this one.
    pub previous: bool,
    /// Lines of each pod to begin with.
    pub tail: u32,
}

/// What is to be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ObjectPart {
    /// The object as YAML.
    Yaml(ObjectRef),
    /// Events about these objects.
    Events(Vec<ObjectRef>),
    /// Logs, followed as they come.
    Logs(LogWant),
}

/// What the view in front wants read. A new one takes the place of the one before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ObjectRequest {
    /// What.
    pub part: ObjectPart,
    /// Grows when the same is wanted anew.
    pub turn: u32,
}

/// An event of the cluster.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EventSeen {
    /// Kind and name of what it is about.
    pub about: String,
    /// Not just a note.
    pub warning: bool,
    /// A word for programs.
    pub reason: String,
    /// A sentence for people.
    pub message: String,
    /// When it was first seen.
    pub first: Option<Moment>,
    /// When it was last seen.
    pub last: Option<Moment>,
    /// How often.
    pub count: u32,
    /// Who says so.
    pub by: String,
}

/// A line of a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogLine {
    /// Which of the wanted pods.
    pub pod: u32,
    /// When it was written, as the node says.
    pub at: Option<Moment>,
    /// The line, without control characters.
    pub words: String,
}

/// What came of a want.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ObjectNews {
    /// The text, whole.
    Text(Vec<String>),
    /// The events, whole, the latest first; and whether there are more than these.
    Events(Vec<EventSeen>, bool),
    /// The containers of the first pod and the one that is shown.
    Containers(Vec<Name>, Name),
    /// More lines.
    Lines(Vec<LogLine>),
    /// This pod's log is at its end, or was never there: why.
    Ended(u32, Option<String>),
    /// It cannot be read: why, and the mend.
    Failed(String),
}
