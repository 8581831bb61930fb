//! Reads the layers, checks each, and merges them key by key.

use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

use model::base::SmallSort;
use model::base::document::{self, DocumentFault, line_of, quoted};

use super::DEFAULTS;
use super::origin::{Layer, Origin, Origins};
use super::types::{RawSettings, Settings};
use super::variables::{self, READONLY};

/// Numeric keys among those without a default; the others are texts.
const NUMBERS: [&str; 3] = ["cost.usd_per_kwh", "cost.pue", "cost.kg_co2e_per_kwh"];

/// Keys without a default. A test checks this list against the comments of the defaults.
pub(super) const WITHOUT_DEFAULT: &[&str] = &[
    "journal_dir",
    "log_file",
    "alerts_file",
    "keys_file",
    "themes_dir",
    "exporters_dir",
    "accelerators_file",
    "engine.placement",
    "engine.backfill",
    "engine.fair_sharing",
    "scope.team",
    "prices.provider",
    "tco.reserved",
    "cost.usd_per_kwh",
    "cost.pue",
    "cost.kg_co2e_per_kwh",
    "cost.time_zone",
    "prometheus.url",
    "prometheus.service",
    "prometheus.matcher",
    "prometheus.bearer_file",
    "prometheus.ca_file",
    "record.dir",
    "record.cluster",
    "record.name",
    "record.remote_write.url",
    "record.remote_write.bearer_file",
    "record.remote_write.username",
    "record.remote_write.password_file",
    "record.remote_write.ca_file",
];

/// Text of a settings file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SettingsText {
    /// Layer of the file: `Machine` or `User`.
    pub layer: Layer,
    pub path: String,
    /// Content of the file.
    pub text: String,
}

/// All inputs of the settings.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Inputs {
    /// Files, lowest precedence first.
    pub files: Vec<SettingsText>,
    /// The kubeconfig context whose sections apply.
    pub context: Option<String>,
    /// Environment variables. Each `STOKEHOLD_*` variable must be a setting or be [known otherwise](super::variables).
    pub variables: Vec<(String, String)>,
    /// Flags: the flag as it was typed, the dotted key, the value.
    pub flags: Vec<(String, String, String)>,
    /// The user's home directory, for `~/`.
    pub home: Option<PathBuf>,
    /// The user's directory for state.
    pub state: Option<PathBuf>,
}

/// Merges the layers. Returns all faults if any layer has one.
pub fn load(inputs: &Inputs) -> Result<Settings, Vec<DocumentFault>> {
    let mut merge = Merge::default();
    merge.file(Layer::Default, "defaults", DEFAULTS, None);
    for file in &inputs.files {
        merge.file(file.layer, &file.path, &file.text, None);
    }
    // A faulty file was already reported; its sections are skipped.
    if let (Some(context), true) = (inputs.context.as_deref(), merge.faults.is_empty()) {
        for file in &inputs.files {
            merge.file(file.layer, &file.path, &file.text, Some(context));
        }
    }
    let keys = keys();
    for (name, value) in &inputs.variables {
        match keys.iter().find(|key| variable_of_key(key) == *name) {
            Some(key) => merge.word(Layer::Environment, name, key, value),
            None if variables::is_known(name) => {}
            None => merge.faults.push(variables::unknown(name, &keys)),
        }
    }
    for (flag, key, value) in &inputs.flags {
        merge.word(Layer::Flag, flag, key, value);
    }
    // Applied last: like --readonly, it overrides anything that allows writing.
    for (name, value) in inputs.variables.iter().filter(|(name, _)| name == READONLY) {
        match value.as_str() {
            "1" | "true" => merge.word(Layer::Environment, name, "write", "false"),
            "0" | "false" | "" => {}
            _ => {
                let message = format!("`{value}` is neither true nor false");
                merge
                    .faults
                    .push(DocumentFault::new(name, "write", message));
            }
        }
    }
    let mut settings = merge.finish(inputs.home.as_deref())?;
    settings.state_dir.clone_from(&inputs.state);
    Ok(settings)
}

/// All dotted keys that a single value can set, sorted: the keys that a variable or a flag may set.
pub fn keys() -> Vec<String> {
    let mut merge = Merge::default();
    merge.file(Layer::Default, "defaults", DEFAULTS, None);
    let with_default = merge.values.iter().map(|(path, ..)| path.join("."));
    let mut all: Vec<String> = with_default
        .chain(WITHOUT_DEFAULT.iter().map(|key| (*key).to_owned()))
        .collect();
    all.small_sort();
    all
}

/// The name of the variable that sets a key: `scrape.mode` is `STOKEHOLD_SCRAPE_MODE`.
pub fn variable_of_key(key: &str) -> String {
    format!("STOKEHOLD_{}", key.replace('.', "_").to_uppercase())
}

/// The layers merged so far.
#[derive(Default)]
struct Merge {
    values: Origins,
    faults: Vec<DocumentFault>,
}

impl Merge {
    /// Merges a file, or its section for a context, over the current values.
    fn file(&mut self, layer: Layer, place: &str, text: &str, context: Option<&str>) {
        let raw: RawSettings = match document::parse(text, place) {
            Ok(raw) => raw,
            Err(fault) => return self.faults.push(fault),
        };
        if let Some(nested) = raw.nested_context() {
            let key = format!("context.{}", quoted(nested));
            let message = "a context's section cannot hold sections of contexts";
            return self.faults.push(DocumentFault::new(place, key, message));
        }
        let (Ok(values), Ok(spans)) = (toml::from_str::<Table>(text), DeTable::parse(text)) else {
            return;
        };
        let mut walk = Walk {
            text,
            layer,
            place,
            into: &mut self.values,
        };
        let Some(context) = context else {
            return walk.table(&values, spans.get_ref(), &mut Vec::new());
        };
        walk.layer = match layer {
            Layer::Machine => Layer::MachineContext,
            _ => Layer::UserContext,
        };
        let values = values.get("context").and_then(|all| all.get(context));
        let spans = spans
            .get_ref()
            .get("context")
            .and_then(|all| all.get_ref().get(context));
        if let (Some(Value::Table(values)), Some(DeValue::Table(spans))) =
            (values, spans.map(toml::Spanned::get_ref))
        {
            walk.table(values, spans, &mut Vec::new());
        }
    }

    /// Merges the value of a variable or flag over the current values. Its type follows from the current value.
    fn word(&mut self, layer: Layer, place: &str, key: &str, word: &str) {
        let path: Vec<String> = key.split('.').map(str::to_owned).collect();
        let value = match self.values.0.get(&path).map(|(value, _)| value) {
            Some(Value::Boolean(_)) => match word {
                "1" | "true" => Ok(Value::Boolean(true)),
                "0" | "false" => Ok(Value::Boolean(false)),
                _ => Err(format!("`{word}` is neither true nor false")),
            },
            Some(Value::Integer(_) | Value::Float(_)) => word
                .parse::<i64>()
                .map(Value::Integer)
                .or_else(|_| word.parse::<f64>().map(Value::Float))
                .map_err(|_| format!("`{word}` is not a number")),
            Some(Value::Array(_)) => Ok(Value::Array(
                word.split(',')
                    .map(str::trim)
                    .filter(|item| !item.is_empty())
                    .map(|item| Value::String(item.to_owned()))
                    .collect(),
            )),
            _ if NUMBERS.contains(&key) => word
                .parse::<f64>()
                .map(Value::Float)
                .map_err(|_| format!("`{word}` is not a number")),
            _ => Ok(Value::String(word.to_owned())),
        };
        let checked = value.and_then(|value| check(&path, &value).map(|()| value));
        match checked {
            Ok(value) => {
                let origin = Origin {
                    layer,
                    place: place.to_owned(),
                    line: None,
                    items: Vec::new(),
                };
                lay(&mut self.values, &path, value, origin);
            }
            Err(message) => self.faults.push(DocumentFault::new(place, key, message)),
        }
    }

    fn finish(self, home: Option<&Path>) -> Result<Settings, Vec<DocumentFault>> {
        if !self.faults.is_empty() {
            return Err(self.faults);
        }
        let mut all = Table::new();
        for (path, value, _) in self.values.iter() {
            put(&mut all, path, value.clone());
        }
        let mut settings: Settings = all.try_into().map_err(|error: toml::de::Error| {
            vec![DocumentFault::new("settings", "", error.message())]
        })?;
        settings.origins = self.values;
        settings.resolve(home);
        let faults = settings.contradictions();
        if faults.is_empty() {
            Ok(settings)
        } else {
            Err(faults)
        }
    }
}

/// Merges one value. A prohibition in the machine's file cannot be lifted by the layers of other users.
fn lay(values: &mut Origins, path: &[String], value: Value, origin: Origin) {
    let machines = |layer| matches!(layer, Layer::Machine | Layer::MachineContext);
    let forbidden = path == ["forbid_write"]
        && values
            .0
            .get(path)
            .is_some_and(|(value, by)| *value == Value::Boolean(true) && machines(by.layer));
    if !forbidden || machines(origin.layer) {
        values.0.insert(path.to_vec(), (value, origin));
    }
}

/// Validates one value as its section would.
fn check(path: &[String], value: &Value) -> Result<(), String> {
    let mut alone = Table::new();
    put(&mut alone, path, value.clone());
    match toml::to_string(&alone) {
        Ok(text) => document::parse::<RawSettings>(&text, "")
            .map(|_| ())
            .map_err(|fault| fault.message),
        Err(error) => Err(error.to_string()),
    }
}

fn put(table: &mut Table, path: &[String], value: Value) {
    match path {
        [] => {}
        [last] => {
            table.insert(last.clone(), value);
        }
        [first, rest @ ..] => {
            let inner = table
                .entry(first.clone())
                .or_insert_with(|| Value::Table(Table::new()));
            if let Value::Table(inner) = inner {
                put(inner, rest, value);
            }
        }
    }
}

/// Walks a document together with its positions.
struct Walk<'a> {
    text: &'a str,
    layer: Layer,
    place: &'a str,
    into: &'a mut Origins,
}

impl Walk<'_> {
    fn table(&mut self, values: &Table, spans: &DeTable<'_>, path: &mut Vec<String>) {
        for (key, position) in spans {
            let name: &str = key.get_ref();
            let Some(value) = values.get(name) else {
                continue;
            };
            if path.is_empty() && name == "context" {
                continue;
            }
            path.push(name.to_owned());
            match (value, position.get_ref()) {
                (Value::Table(values), DeValue::Table(spans)) => self.table(values, spans, path),
                (value, position) => {
                    let items = match (value, position) {
                        (Value::Array(all), DeValue::Array(items))
                            if all.iter().all(Value::is_table) =>
                        {
                            let lines = items.iter();
                            let lines = lines.map(|item| line_of(self.text, item.span().start));
                            lines.collect()
                        }
                        _ => Vec::new(),
                    };
                    let origin = Origin {
                        layer: self.layer,
                        place: self.place.to_owned(),
                        line: Some(line_of(self.text, key.span().start)),
                        items,
                    };
                    lay(self.into, path, value.clone(), origin);
                }
            }
            path.pop();
        }
    }
}
