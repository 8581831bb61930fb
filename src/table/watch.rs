//! Changes between two sets of rows: the lines of `--watch`.

use std::collections::BTreeMap;

use model::base::Moment;

use super::output::{OutputRow, OutputTable};
use model::value::Json;

/// Fields that change with time alone: a row that differs only in these is unchanged.
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
pub enum RowEvent {
    Set,
    /// Deleted; its last values are given.
    Gone,
}

impl RowEvent {
    /// The name in the JSON contract.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Set => "set",
            Self::Gone => "gone",
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RowChange {
    pub event: RowEvent,
    /// The row, current or last known.
    pub item: OutputRow,
}

impl RowChange {
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

/// The last reported rows. Each row's JSON must be a single line.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    reported: BTreeMap<String, (String, OutputRow)>,
}

impl Watch {
    /// Updates to the current rows. Returns the changes since the last call: new and changed rows in row order, then deleted rows.
    pub fn update(&mut self, sheet: OutputTable) -> Vec<RowChange> {
        let mut before = std::mem::take(&mut self.reported);
        let mut changes = Vec::new();
        for item in sheet.items {
            let known = before.remove(&item.key);
            let shape = match &known {
                Some((shape, previous)) if previous.json == item.json => shape.clone(),
                _ => shape(&item.json),
            };
            if known.is_none_or(|(known, _)| known != shape) {
                changes.push(RowChange {
                    event: RowEvent::Set,
                    item: item.clone(),
                });
            }
            self.reported.insert(item.key.clone(), (shape, item));
        }
        changes.extend(before.into_values().map(|(_, item)| RowChange {
            event: RowEvent::Gone,
            item,
        }));
        changes
    }
}

/// The row's JSON without its time-dependent fields.
fn shape(json: &str) -> String {
    Json::of(json).without(CLOCKS).flat()
}
