//! `get` and the console show the same numbers: every column that both have is compared cell by cell, on every fleet.

use serde_json::Value as Json;
use table::Facts;
use table::cell::Value;
use table::kinds::sources::state_named;
use table::silence::Silence;

fn at<'j>(json: &'j Json, path: &str) -> &'j Json {
    path.split('.').fold(json, |json, key| &json[key])
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * a.abs().max(b.abs()).max(1.0)
}

/// Compares every cell that both have, on each of these fleets; some row of each kind must be there.
pub fn compare(fleets: &[(&str, &Facts)]) {
    // No time has passed on any of these fleets: every job of theirs is given an advice, and all of them changes.
    let fleets = fleets.iter().map(|(name, facts)| {
        let changed = table::sample::changed((*facts).clone());
        (*name, table::sample::advised(&changed))
    });
    let fleets: Vec<(&str, Facts)> = fleets.collect();
    for kind in table::Kind::ALL {
        let rows = fleets
            .iter()
            .map(|(name, facts)| agree(name, facts, &[kind]));
        let found: usize = rows.sum();
        let is_one = kind == table::Kind::Fleet;
        assert!(
            is_one || found > 0,
            "no row of {} was compared",
            kind.name()
        );
    }
}

/// Compares the cells of these kinds; the number of rows that were compared.
pub fn agree(fleet: &str, facts: &Facts, kinds: &[table::Kind]) -> usize {
    let rows = kinds.iter().map(|kind| json_agrees(fleet, facts, *kind));
    rows.sum()
}

/// Compares each cell of a described kind with the fields of its row's JSON that it says it shows; the number of rows.
fn json_agrees(fleet: &str, facts: &Facts, kind: table::Kind) -> usize {
    let (spec, output) = (kind.spec(), kind.output());
    let rows = (output.rows)(facts, &|_, _| false);
    let json = (output.json)(facts, &rows, table::output::json_style::JsonStyle::Line);
    for (row, text) in rows.iter().zip(&json) {
        let json: Json = serde_json::from_str(text).expect("is JSON");
        for column in spec
            .columns
            .iter()
            .filter(|column| !column.field.is_empty())
        {
            let mut fields = column.field.split('|').map(|path| at(&json, path));
            let field = fields.find(|field| !field.is_null()).unwrap_or(&Json::Null);
            let value = (column.cell)(facts, *row).value;
            let same = match (&value, field) {
                // Where the size of a slice is not known, the document has no number, and tables what is known at least; of what
                // was first seen then, since when it is so is not known.
                (
                    Value::Unknown | Value::Empty | Value::AtLeast(_) | Value::SeenSince(_),
                    Json::Null,
                ) => true,
                // kubectl's status says why the readiness is not known.
                (Value::Text(words), Json::Null) => {
                    words.is_empty() || column.id == "status" || words == "free"
                }
                (Value::Text(words), Json::String(text)) => {
                    **words == **text
                        || is_silence(words)
                        || same_word(kind, column.id, words, text)
                }
                (Value::Trend(_, None), Json::Null) => true,
                (Value::Unknown, Json::String(text)) => text == "unknown",
                (Value::Unknown, Json::Array(list)) => list.is_empty(),
                // A bar is the share of the devices that it is sorted by.
                (Value::Bar(_), Json::Number(_)) if column.id == "alloc" => true,
                (Value::Part(part, whole), Json::Number(number)) => {
                    let number = number.as_u64();
                    number == Some(*part) || number == Some(*whole)
                }
                (Value::Branch(_, name), Json::String(text)) => name == text,
                // The words for it are the cell's own.
                (Value::Text(_) | Value::Path(..) | Value::Quota(_), _) => true,
                (Value::Since(since) | Value::SeenSince(since), Json::String(text)) => {
                    since.rfc3339() == *text
                }
                (Value::Starts(..), _) => true,
                (Value::Latency(ours, _), Json::Number(seconds)) => {
                    near(*ours, seconds.as_f64().unwrap_or(f64::NAN))
                }
                // Cells show whole numbers.
                (Value::Count(count), Json::Number(number)) => {
                    (*count as f64 - number.as_f64().unwrap_or(f64::NAN)).abs() <= 0.5
                }
                (Value::Since(_) | Value::SeenSince(_) | Value::Span(_), Json::Number(seconds)) => {
                    let ours = value.number(facts.now).unwrap_or(f64::NAN);
                    (ours - seconds.as_f64().unwrap_or(f64::NAN)).abs() <= 1.0
                }
                (_, Json::Number(number)) => near(
                    value.number(facts.now).unwrap_or(f64::NAN),
                    number.as_f64().unwrap_or(f64::NAN),
                ),
                _ => false,
            };
            let by_list = at(&json, "list_usd_per_hour").as_f64() > Some(0.0);
            assert!(
                column.field != "burn_usd_per_hour" || value.is_by_list() == by_list,
                "{fleet} {}: {value:?} of which a part is list prices\n{json:#}",
                column.id
            );
            assert!(
                same,
                "{fleet} {}: {value:?} is not {field}\n{json:#}",
                column.id
            );
        }
    }
    rows.len()
}

/// True for how an alert or an advice was silenced, which stands in the place of its level.
fn is_silence(words: &str) -> bool {
    [Silence::Muted, Silence::Acknowledged]
        .iter()
        .any(|silence| silence.name() == words)
}

/// True where a column says a word of the JSON in its own word.
fn same_word(kind: table::Kind, column: &str, words: &str, text: &str) -> bool {
    match (kind, column) {
        // "no answer yet" is stale.
        (table::Kind::Sources, "state") => state_named(words).unwrap_or("stale") == text,
        // A device that several pods share: the first of them, and how many more.
        (table::Kind::Devices, "pod") => {
            let name = words.rsplit('/').next().unwrap_or_default();
            let first = name
                .split_once(" +")
                .filter(|(_, more)| more.parse::<u32>().is_ok());
            first.is_some_and(|(first, _)| first == text)
        }
        // A fault and a warning say which.
        (table::Kind::Devices, "health") => words != "ok" && matches!(text, "fault" | "warn"),
        // The time of the day on screen, `~` before that of a snapshot.
        (table::Kind::Changes, "when") => {
            let own = words.trim_start_matches('~');
            let text = text.replace('T', " ");
            own.len() >= 8 && text.trim_end_matches('Z').ends_with(own)
        }
        // The phase of a pod that is being deleted stays what it was.
        (table::Kind::Pods, "phase") => words == "Terminating",
        _ => false,
    }
}
