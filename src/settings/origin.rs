//! Origin of a value.

use std::collections::BTreeMap;
use std::fmt;

/// Layers of settings, lowest precedence first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Layer {
    Default,
    Machine,
    User,
    /// The section of a context in the machine's file.
    MachineContext,
    /// The section of a context in the user's file.
    UserContext,
    Environment,
    Flag,
}

/// Origin of one value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Origin {
    pub layer: Layer,
    /// The file, variable or flag.
    pub place: String,
    /// The line in a file, from 1.
    pub line: Option<usize>,
    /// The lines of the entries of an array of tables.
    pub items: Vec<usize>,
}

impl Origin {
    /// Origin of one entry of an array of tables.
    pub fn of_item(&self, at: usize) -> String {
        match self.items.get(at) {
            Some(line) => format!("{}:{line}", self.place),
            None => self.to_string(),
        }
    }
}

/// `default`, `/etc/stokehold/stokehold.toml:12`, `STOKEHOLD_THEME`, `--theme`.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.layer, self.line) {
            (Layer::Default, _) => f.write_str("default"),
            (_, Some(line)) => write!(f, "{}:{line}", self.place),
            (_, None) => f.write_str(&self.place),
        }
    }
}

/// The merged values by dotted key, each with its origin.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Origins(pub(super) BTreeMap<Vec<String>, (toml::Value, Origin)>);

impl Origins {
    /// Origin of the value of a dotted key (`idle.grace`); `None` when it is not set.
    pub fn of(&self, key: &str) -> Option<&Origin> {
        let path: Vec<String> = key.split('.').map(str::to_owned).collect();
        self.0.get(&path).map(|(_, origin)| origin)
    }

    /// All values that are set, with path and origin, in key order.
    pub fn iter(&self) -> impl Iterator<Item = (&[String], &toml::Value, &Origin)> {
        self.0
            .iter()
            .map(|(path, (value, origin))| (path.as_slice(), value, origin))
    }
}
