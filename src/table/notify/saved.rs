//! The state that a watcher keeps on disk about what receivers were sent.

use serde::{Deserialize, Serialize};

use model::base::Name;
use model::fleet::finding::Finding;
use model::notify::FindingPlace;

/// The version of the file.
const VERSION: u32 = 1;

/// What the receiver was sent about a finding.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SavedStatus {
    Told,
    /// A message about it was in flight.
    Sending,
    /// A message about its end was in flight.
    Ending,
}

/// A finding that a receiver was sent.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SavedEntry {
    pub status: SavedStatus,
    /// The finding as last known.
    pub finding: Finding,
    pub place: FindingPlace,
}

/// What one receiver was sent.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct SavedDelivery {
    /// Its name in the settings.
    pub receiver: Name,
    pub entries: Vec<SavedEntry>,
}

#[derive(Serialize, Deserialize)]
struct DeliveryFile {
    version: u32,
    cluster: String,
    receivers: Vec<SavedDelivery>,
}

#[derive(Deserialize)]
struct SavedVersion {
    version: u32,
}

/// The text of a cluster's state file.
pub fn text(cluster: &str, receivers: Vec<SavedDelivery>) -> String {
    let file = DeliveryFile {
        version: VERSION,
        cluster: cluster.to_owned(),
        receivers,
    };
    let text = serde_json::to_string(&file).expect("has text keys");
    text + "\n"
}

/// Parses the state file; `None` where it belongs to another cluster.
///
/// # Errors
/// The file is truncated, or of a later version.
pub fn read(text: &str, cluster: &str) -> Result<Option<Vec<SavedDelivery>>, String> {
    let version: SavedVersion = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if version.version != VERSION {
        return Err(format!("version {} is not known here", version.version));
    }
    let file: DeliveryFile = serde_json::from_str(text).map_err(|error| error.to_string())?;
    Ok((file.cluster == cluster).then_some(file.receivers))
}
