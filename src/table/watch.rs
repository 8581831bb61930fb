//! What changed between two sets of rows: the lines of `--watch`.

use std::collections::BTreeMap;

use model::base::Moment;

use super::output::{Item, OutputTable};
use model::value::Value;

/// Fields that the clock alone changes: a row that differs only in these has not changed.
const CLOCKS: &[&str] = &[
    "age_seconds",
    "held_seconds",
    "waiting_seconds",
    "oldest_waiting_seconds",
    "cost_usd",
    "at",
];

/// What happened to a row.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Event {
    /// It is new, or has changed.
    Set,
    /// It is no longer there; its last values are given.
    Gone,
}

impl Event {
    /// As in the JSON contract.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Set => "set",
            Self::Gone => "gone",
        }
    }
}

/// One change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// What happened.
    pub event: Event,
    /// The row, as it is or as it last was.
    pub item: Item,
}

impl Change {
    /// `{"event": …, "at": …, "object": {…}}` on one line.
    pub fn line(&self, at: Moment) -> String {
        format!(
            "{{\"event\":\"{}\",\"at\":\"{}\",\"object\":{}}}\n",
            self.event.name(),
            at.rfc3339(),
            self.item.json
        )
    }
}

/// The rows as they were last told. Rows must carry JSON on one line.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    told: BTreeMap<String, (String, Item)>,
}

impl Watch {
    /// Takes the rows as they are now; tells what changed since the last time: what is set in the order of the
    /// rows, then what has gone.
    pub fn update(&mut self, sheet: OutputTable) -> Vec<Change> {
        let mut before = std::mem::take(&mut self.told);
        let mut changes = Vec::new();
        for item in sheet.items {
            let known = before.remove(&item.key);
            let shape = match &known {
                Some((shape, told)) if told.json == item.json => shape.clone(),
                _ => shape(&item.json),
            };
            if known.is_none_or(|(known, _)| known != shape) {
                changes.push(Change {
                    event: Event::Set,
                    item: item.clone(),
                });
            }
            self.told.insert(item.key.clone(), (shape, item));
        }
        changes.extend(before.into_values().map(|(_, item)| Change {
            event: Event::Gone,
            item,
        }));
        changes
    }
}

/// The row's JSON without what the clock changes.
fn shape(json: &str) -> String {
    Value::of(json).without(CLOCKS).flat()
}
