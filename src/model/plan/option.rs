//! Which options a plan or an answer was decided by, and where the value of each came from.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::base::Name;

/// What says the value of an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "Source", rename_all = "kebab-case")]
pub enum OptionSource {
    /// Nothing else: it is the program's default.
    #[default]
    Default,
    /// The default, as what could say otherwise is not known.
    Assumed,
    /// The settings of this program.
    Setting,
    /// An object of the cluster.
    Object,
    /// The fleet document that was given.
    Document,
}

impl OptionSource {
    /// Every source, with its name in documents.
    pub const NAMES: [(&'static str, Self); 5] = [
        ("default", Self::Default),
        ("assumed", Self::Assumed),
        ("setting", Self::Setting),
        ("object", Self::Object),
        ("document", Self::Document),
    ];
}

/// Where a value came from.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OptionOrigin {
    pub source: OptionSource,
    /// The object, or the file and line; for an assumed value, why it is unknown. Empty where there is none.
    pub at: Name,
}

impl OptionOrigin {
    /// A value that `source` says at this place.
    pub fn new(source: OptionSource, at: impl Into<Name>) -> Self {
        Self {
            source,
            at: at.into(),
        }
    }

    /// A value of the fleet document.
    pub fn document() -> Self {
        Self::new(OptionSource::Document, Name::default())
    }
}

impl fmt::Display for OptionOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.source {
            OptionSource::Default => f.write_str("default"),
            OptionSource::Assumed => write!(f, "assumed, {}", self.at),
            OptionSource::Document => f.write_str("fleet document"),
            OptionSource::Setting | OptionSource::Object => f.write_str(&self.at),
        }
    }
}

/// Where the options of a snapshot came from; each route knows its own place.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OptionOrigins {
    /// Of the placement policy.
    pub placement: OptionOrigin,
    /// Of the depth of backfill.
    pub backfill: OptionOrigin,
    pub fair_sharing: OptionOrigin,
}

/// An option that was used.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Used {
    /// Name of the option.
    pub option: String,
    /// Value of the option.
    pub value: String,
    /// Where the value came from.
    pub source: OptionSource,
    /// The object, or the file and line; for an assumed value, why it is unknown; null where there is none.
    pub at: Option<String>,
}

impl Used {
    /// An option with its value, and where that came from.
    pub fn new(option: &str, value: impl Into<String>, origin: &OptionOrigin) -> Self {
        Self {
            option: option.to_owned(),
            value: value.into(),
            source: origin.source,
            at: (!origin.at.is_empty()).then(|| origin.at.to_string()),
        }
    }
}

/// `fair sharing: off (ConfigMap kueue-system/kueue-manager-config)`.
impl fmt::Display for Used {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let origin = OptionOrigin::new(self.source, self.at.as_deref().unwrap_or_default());
        match (self.option.as_str(), self.value.as_str()) {
            ("placement", policy) => write!(f, "placement policy: {policy}")?,
            ("backfill", "none") => {
                f.write_str("backfill: any job that fits starts, without reservations")?
            }
            ("backfill", "head") => {
                f.write_str("backfill: never delays the first job of a queue")?
            }
            ("backfill", depth) => write!(
                f,
                "backfill: never delays the first {depth} jobs of a queue"
            )?,
            (name, value) => write!(f, "{}: {value}", name.replace('_', " "))?,
        }
        write!(f, " ({origin})")
    }
}
