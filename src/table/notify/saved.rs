//! What a watcher keeps on disk of what receivers were told, as text.

use serde::{Deserialize, Serialize};

use model::base::Name;
use model::fleet::finding::Finding;
use model::notify::FindingPlace;

/// The version of the file.
const VERSION: u32 = 1;

/// What was told of a finding, as it was last known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SavedStatus {
    /// The receiver was told of it.
    Told,
    /// A message about it was under way.
    Sending,
    /// A message that it has ended was under way.
    Ending,
}

/// One finding of which a receiver was told.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SavedEntry {
    /// What was told.
    pub status: SavedStatus,
    /// The finding as it was last known.
    pub finding: Finding,
    /// Where it is.
    pub place: FindingPlace,
}

/// What one receiver was told.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct SavedDelivery {
    /// Its name in the settings.
    pub receiver: Name,
    /// Findings.
    pub entries: Vec<SavedEntry>,
}

#[derive(Serialize, Deserialize)]
struct File {
    version: u32,
    cluster: String,
    receivers: Vec<SavedDelivery>,
}

#[derive(Deserialize)]
struct Version {
    version: u32,
}

/// The text of the file of a cluster.
pub fn text(cluster: &str, receivers: Vec<SavedDelivery>) -> String {
    let file = File {
        version: VERSION,
        cluster: cluster.to_owned(),
        receivers,
    };
    let text = serde_json::to_string(&file).expect("has text keys");
    text + "\n"
}

/// What the file says; nothing where it is another cluster's.
///
/// # Errors
/// It is torn, or of a later version.
pub fn read(text: &str, cluster: &str) -> Result<Option<Vec<SavedDelivery>>, String> {
    let version: Version = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if version.version != VERSION {
        return Err(format!("version {} is not known here", version.version));
    }
    let file: File = serde_json::from_str(text).map_err(|error| error.to_string())?;
    Ok((file.cluster == cluster).then_some(file.receivers))
}
