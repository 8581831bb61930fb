//! Reads the layers, checks each, and merges them key by key.

use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

use model::base::SmallSort;
use model::base::document::{self, Fault, line_of, quoted};

use super::DEFAULTS;
use super::origin::{Layer, Origin, Origins};
use super::types::{RawSettings, Settings};
use super::variables::{self, READONLY};

/// Of the keys without a default, those that are numbers; the others are texts.
const NUMBERS: [&str; 3] = ["cost.usd_per_kwh", "cost.pue", "cost.kg_co2e_per_kwh"];

/// Keys that have no default. The test of the defaults' comments holds this list to the file.
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
pub struct Text {
    /// `Machine` or `User`.
    pub layer: Layer,
    /// Its path.
    pub path: String,
    /// What stands in it.
    pub text: String,
}

/// Everything that settings are made of.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Inputs {
    /// Files, weakest first.
    pub files: Vec<Text>,
    /// The kubeconfig context whose sections count.
    pub context: Option<String>,
    /// Environment variables. Those of ours (`STOKEHOLD_*`) must be settings, or be [known otherwise](super::variables).
    pub variables: Vec<(String, String)>,
    /// Flags: the flag as it was typed, the dotted key, the value.
    pub flags: Vec<(String, String, String)>,
    /// The user's home directory, for `~/`.
    pub home: Option<PathBuf>,
}

/// Merges the layers; every fault that was found when any layer has one.
pub fn load(inputs: &Inputs) -> Result<Settings, Vec<Fault>> {
    let mut merge = Merge::default();
    merge.file(Layer::Default, "defaults", DEFAULTS, None);
    for file in &inputs.files {
        merge.file(file.layer, &file.path, &file.text, None);
    }
    // A file at fault has said so once; its sections are not asked again.
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
    // Last: like --readonly it wins over whatever allows writing.
    for (name, value) in inputs.variables.iter().filter(|(name, _)| name == READONLY) {
        match value.as_str() {
            "1" | "true" => merge.word(Layer::Environment, name, "write", "false"),
            "0" | "false" | "" => {}
            _ => {
                let message = format!("`{value}` is neither true nor false");
                merge.faults.push(Fault::new(name, "write", message));
            }
        }
    }
    merge.finish(inputs.home.as_deref())
}

/// Every key that one word can set, dotted, in order: what a variable or a flag may speak of.
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

/// The layers so far.
#[derive(Default)]
struct Merge {
    values: Origins,
    faults: Vec<Fault>,
}

impl Merge {
    /// Lays a file, or its section of a context, over what is there.
    fn file(&mut self, layer: Layer, place: &str, text: &str, context: Option<&str>) {
        let raw: RawSettings = match document::parse(text, place) {
            Ok(raw) => raw,
            Err(fault) => return self.faults.push(fault),
        };
        if let Some(nested) = raw.nested_context() {
            let key = format!("context.{}", quoted(nested));
            let message = "a context's section cannot hold sections of contexts";
            return self.faults.push(Fault::new(place, key, message));
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

    /// Lays one word of a variable or a flag over what is there. What it means follows from what stands there.
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
            Err(message) => self.faults.push(Fault::new(place, key, message)),
        }
    }

    fn finish(self, home: Option<&Path>) -> Result<Settings, Vec<Fault>> {
        if !self.faults.is_empty() {
            return Err(self.faults);
        }
        let mut all = Table::new();
        for (path, value, _) in self.values.iter() {
            put(&mut all, path, value.clone());
        }
        let mut settings: Settings = all
            .try_into()
            .map_err(|error: toml::de::Error| vec![Fault::new("settings", "", error.message())])?;
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

/// Lays a value over what is there. What the machine's file forbids, no later layer of somebody else allows.
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

/// Checks one value as its section would.
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

/// Goes through a document and its positions side by side.
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
