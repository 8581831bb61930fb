//! Contents of one exposition page about one device, slice or node, in canonical terms.

use serde::{Deserialize, Serialize};

use crate::base::{Moment, Name, ObjectKey};

use crate::fleet::serving::histogram::Histogram;
use crate::fleet::signal::Signals;

/// What a reading describes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum ReadingScope {
    Node,
    Device,
    /// A MIG instance or an AMD partition.
    Slice,
    /// One pod's copy of a shared device's row; never summed.
    PodCopy,
    /// A server of models in a pod: requests rather than devices. `model` is the model that it serves.
    Serving,
}

/// One row of canonical facts out of one page.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Reading {
    /// Name of the dialect that read it.
    pub dialect: Name,
    /// What the row describes.
    pub scope: ReadingScope,
    /// The host as the exporter calls it: a hint only, for it may be a pod name or an instance id.
    pub host: Option<Name>,
    /// The device's index on its host.
    pub index: Option<u32>,
    /// The device's own id, as its vendor writes it (`GPU-…`).
    pub uuid: Option<Name>,
    /// Board serial number, for a repair ticket.
    pub serial: Option<Name>,
    pub pci: Option<Name>,
    /// Product name as the exporter prints it; of a server of models, the model that it serves.
    pub model: Option<Name>,
    pub driver: Option<Name>,
    /// Slice within the device: `profile-id` (`1g.10gb-7`), or the partition's number.
    pub slice: Option<Name>,
    /// The pod the exporter says holds it.
    pub pod: Option<ObjectKey>,
    /// The container within that pod.
    pub container: Option<Name>,
    pub signals: Signals,
    /// Latencies of a server of models, totals since it started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub histograms: Vec<Histogram>,
}

impl Reading {
    /// An empty reading of `dialect`.
    pub fn new(dialect: Name, scope: ReadingScope) -> Self {
        Self {
            dialect,
            scope,
            host: None,
            index: None,
            uuid: None,
            serial: None,
            pci: None,
            model: None,
            driver: None,
            slice: None,
            pod: None,
            container: None,
            signals: Signals::default(),
            histograms: Vec::new(),
        }
    }
}

/// The readings of one page, with where and when it was read.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Page {
    /// The node of the scraped pod, when the page came from one: the host identity that is trusted.
    pub node: Option<Name>,
    /// When it was read, on the server's clock.
    pub at: Moment,
    /// How long the exporter keeps a value before it refreshes it.
    pub interval: std::time::Duration,
    pub readings: Vec<Reading>,
}
