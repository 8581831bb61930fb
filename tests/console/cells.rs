//! `get` and the console show the same numbers: every column that both have is compared cell by cell, on every fleet.

use std::collections::BTreeSet;

use console::view::queues;
use serde_json::Value as Json;
use table::cell::{Cell, Value};
use table::column::{KindSpec, Row};
use table::kinds::sources::state_named;
use table::navigation::RowScope;
use table::silence::Silence;
use table::{self, Facts, Format};
use table::{Query, render};

/// How a cell of the console stands to the document that `get -o json` prints.
#[derive(Clone, Copy)]
enum As {
    /// The same value at this path.
    Is(&'static str),
    /// A part and its whole at these paths.
    Part(&'static str, &'static str),
    /// Namespace and name at these paths.
    Path(&'static str, &'static str),
    /// An age: seconds at the first path that has any.
    Age(&'static str, &'static str),
    /// The same words as the cell of this title in the wide table.
    Title(&'static str),
    /// The console alone has it.
    Own,
}

/// Where rows of a kind are in the console, and how each of its columns is compared.
struct Compared {
    kind: &'static KindSpec,
    lenses: Vec<RowScope>,
    of: table::Kind,
    /// What tells a row of `get` from the others, of a row of the console.
    name: fn(&Facts, Row) -> Option<String>,
    key: fn(&Json) -> String,
    columns: &'static [(&'static str, As)],
}

fn text(json: &Json, path: &str) -> String {
    at(json, path).as_str().unwrap_or_default().to_owned()
}

fn at<'j>(json: &'j Json, path: &str) -> &'j Json {
    path.split('.').fold(json, |json, key| &json[key])
}

fn words(cell: &Cell<'_>) -> Option<String> {
    let (namespace, name) = cell.value.words()?;
    Some(match namespace {
        "" => name.to_owned(),
        namespace => format!("{namespace}/{name}"),
    })
}

fn first(kind: &'static KindSpec, facts: &Facts, row: Row) -> Option<String> {
    words(&(kind.columns[0].cell)(facts, row))
}

fn all() -> Vec<Compared> {
    let plain = |kind, of, columns, name, key| Compared {
        kind,
        lenses: vec![RowScope::All],
        of,
        name,
        key,
        columns,
    };
    vec![plain(
        &queues::KIND,
        table::Kind::Queues,
        &[
            ("queue", As::Own),
            ("left", As::Own),
            ("quota", As::Own),
            ("quota2", As::Own),
            ("quota3", As::Own),
            ("quota4", As::Own),
            ("quota5", As::Own),
            ("quota6", As::Own),
            ("quota7", As::Own),
            ("quota8", As::Own),
            ("share", As::Is("share")),
            ("run", As::Is("running")),
            ("wait", As::Is("waiting")),
            (
                "oldest",
                As::Age("oldest_waiting_seconds", "oldest_waiting_seconds"),
            ),
            ("burn", As::Is("burn_usd_per_hour")),
            ("budget", As::Own),
            ("system", As::Is("system")),
            ("weight", As::Is("weight")),
            ("strategy", As::Own),
            ("stopped", As::Own),
        ],
        // A queue that others hang below sums them up in the console: only leaves are rows of both.
        |facts, row| {
            let queue = facts.fleet.queues.get(row.1 as usize)?;
            let mut all = facts.fleet.queues.iter();
            let parent = all.any(|other| other.parent_key().as_ref() == Some(&queue.key));
            (!parent).then(|| format!("{} {}", queue.name(), queue.system().name()))
        },
        |json| format!("{} {}", text(json, "name"), text(json, "system")),
    )]
}

/// The rows of `get`, as a document and as the cells of the wide table by title.
fn printed(facts: &Facts, of: table::Kind) -> Vec<(Json, Vec<(String, String)>)> {
    let query = Query::all(of);
    let json = render(facts, &query, Format::Json).expect("all");
    let json: Vec<Json> = serde_json::from_str(&json).expect("an array");
    let table = table::output::output_table(facts, &query, Format::Wide, true).expect("all");
    let titles: Vec<&str> = table.titles.iter().map(|(title, _)| *title).collect();
    let cells = table.items.iter().map(|item| {
        let titles = titles.iter().map(|title| (*title).to_owned());
        titles.zip(item.cells.iter().cloned()).collect()
    });
    json.into_iter().zip(cells).collect()
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * a.abs().max(b.abs()).max(1.0)
}

/// True when a value says what a document says. Nothing to say and not known are null there.
fn says(facts: &Facts, value: &Value<'_>, json: &Json) -> bool {
    match (value, json) {
        (Value::Unknown | Value::Empty | Value::Trend(_, None), Json::Null) => true,
        (Value::Text(words), Json::Null) => words.is_empty(),
        (Value::Text(words), Json::String(text)) => **words == **text,
        (value, Json::Number(number)) => {
            let (ours, theirs) = (value.number(facts.now), number.as_f64());
            ours.zip(theirs).is_some_and(|(a, b)| near(a, b))
        }
        _ => false,
    }
}

fn same(facts: &Facts, cell: &Cell<'_>, json: &Json, cells: &[(String, String)], how: As) -> bool {
    match how {
        As::Own => true,
        As::Is("burn_usd_per_hour") => {
            let list = at(json, "list_usd_per_hour").as_f64();
            says(facts, &cell.value, at(json, "burn_usd_per_hour"))
                && cell.value.is_by_list() == (list > Some(0.0))
        }
        As::Is(path) => says(facts, &cell.value, at(json, path)),
        // Without its part the whole is not shown either.
        As::Part(part, _) if cell.value == Value::Unknown => at(json, part).is_null(),
        As::Part(part, whole) if matches!(cell.value, Value::Devices(..)) => {
            let amount = at(json, part).as_f64();
            let whole = at(json, whole).as_u64();
            let own = cell.value.number(facts.now);
            own.zip(amount).is_some_and(|(a, b)| near(a, b))
                && matches!(cell.value, Value::Devices(_, Some(of)) if Some(u64::from(of)) == whole)
        }
        As::Part(part, whole) => match (
            &cell.value,
            at(json, part).as_u64(),
            at(json, whole).as_u64(),
        ) {
            (Value::Part(a, b), Some(part), Some(whole)) => (*a, *b) == (part, whole),
            (Value::Count(count), Some(part), Some(whole)) => {
                *count == whole as i64 && (part == whole || part == 0)
            }
            _ => false,
        },
        As::Path(namespace, name) => {
            let path = match at(json, namespace).as_str() {
                Some(namespace) => format!("{namespace}/{}", text(json, name)),
                None => text(json, name),
            };
            words(cell).as_deref() == Some(&path)
        }
        As::Age(first, second) => {
            let seconds = at(json, first)
                .as_f64()
                .or_else(|| at(json, second).as_f64());
            match (cell.value.number(facts.now), seconds) {
                (Some(ours), Some(theirs)) => (ours - theirs).abs() <= 1.0,
                (None, None) => true,
                _ => false,
            }
        }
        As::Title(title) => {
            let found = cells.iter().find(|(known, _)| known == title);
            let shown = &found.unwrap_or_else(|| panic!("no column {title}")).1;
            let ours = match &cell.value {
                Value::Text(words) if words.is_empty() || &**words == "–" => "-".to_owned(),
                Value::Text(words) => words.split_whitespace().collect::<Vec<_>>().join(" "),
                Value::Unknown | Value::Empty | Value::Trend(_, None) => "-".to_owned(),
                Value::Ratio(ratio) | Value::Trend(_, Some(ratio)) => {
                    table::text::whole_percent(*ratio)
                }
                other => panic!("{title}: {other:?}"),
            };
            ours == *shown || (ours == "-" && shown == "unknown")
        }
    }
}

/// Compares every cell that both have, on each of these fleets; some row of each kind must be there.
pub fn compare(fleets: &[(&str, &Facts)]) {
    // Half an hour has not passed on any of these fleets: every job of theirs is given an advice.
    let fleets = fleets
        .iter()
        .map(|(name, facts)| (*name, table::sample::advised(facts)));
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

/// Compares every cell that both have of these kinds; the number of rows that were compared.
pub fn agree(fleet: &str, facts: &Facts, kinds: &[table::Kind]) -> usize {
    let all = all();
    let wanted = all.iter().filter(|one| kinds.contains(&one.of));
    let compared: usize = wanted
        .map(|compared| agree_in(fleet, facts, compared))
        .sum();
    let described = kinds.iter().map(|kind| json_agrees(fleet, facts, *kind));
    let described: usize = described.sum();
    compared + described
}

/// Compares each cell of a described kind with the fields of its row's JSON that it says it shows; the number of rows.
fn json_agrees(fleet: &str, facts: &Facts, kind: table::Kind) -> usize {
    let Some(spec) = table::kinds::spec(kind) else {
        return 0;
    };
    let output = spec.output.expect("get prints it");
    let rows = (output.rows)(facts, &table::Select::default());
    let json = (output.json)(facts, &rows, table::json_style::JsonStyle::Line);
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
                (Value::Unknown, Json::Array(list)) => list.is_empty(),
                // A bar is the share of the devices that it is sorted by.
                (Value::Bar(_), Json::Number(_)) if column.id == "alloc" => true,
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
        // The phase of a pod that is being deleted stays what it was.
        (table::Kind::Pods, "phase") => words == "Terminating",
        _ => false,
    }
}

/// Compares the cells of one kind; the number of rows that were compared.
fn agree_in(fleet: &str, facts: &Facts, compared: &Compared) -> usize {
    let (mut found, mut wrong) = (0, Vec::new());
    let printed = printed(facts, compared.of);
    for row in compared
        .lenses
        .iter()
        .flat_map(|row_scope| (compared.kind.collect)(facts, row_scope))
    {
        let Some(name) = (compared.name)(facts, row) else {
            continue;
        };
        let Some((json, cells)) = printed
            .iter()
            .find(|(json, _)| (compared.key)(json) == name)
        else {
            continue;
        };
        found += 1;
        for (column, (id, how)) in compared.kind.columns.iter().zip(compared.columns) {
            let cell = (column.cell)(facts, row);
            if !same(facts, &cell, json, cells, *how) {
                wrong.push(format!("{fleet} {name} {id}: {:?}\n{json:#}", cell.value));
            }
        }
        if wrong.len() > 5 {
            break;
        }
    }
    assert!(
        wrong.is_empty(),
        "{}: {}",
        compared.of.name(),
        wrong.join("\n")
    );
    found
}

/// Every column of the console is compared, or said to be its own.
pub fn every_column() {
    for compared in all() {
        let shown: Vec<&str> = compared
            .kind
            .columns
            .iter()
            .map(|column| column.id)
            .collect();
        let told: Vec<&str> = compared.columns.iter().map(|(id, _)| *id).collect();
        assert_eq!(shown, told, "{}", compared.of.name());
    }
    let kinds: BTreeSet<&str> = all().iter().map(|compared| compared.of.name()).collect();
    let printed = table::Kind::ALL
        .iter()
        .filter(|kind| **kind != table::Kind::Fleet);
    let printed: BTreeSet<&str> = printed.map(|kind| kind.name()).collect();
    let described = table::Kind::ALL.into_iter();
    let described = described.filter(|kind| table::kinds::spec(*kind).is_some());
    let kinds: BTreeSet<&str> = described.map(table::Kind::name).chain(kinds).collect();
    assert_eq!(kinds, printed, "every kind is compared");
}

/// A title means the same in both, whatever else a kind shows.
pub fn one_title_is_one_thing(facts: &Facts) {
    for compared in all() {
        let table =
            table::output::output_table(facts, &Query::all(compared.of), Format::Wide, true);
        let titles = table.expect("all").titles;
        for (column, (id, how)) in compared.kind.columns.iter().zip(compared.columns) {
            let both = titles
                .iter()
                .any(|(title, _)| title.eq_ignore_ascii_case(&column.title(facts)));
            // What a title of both heads must be compared; these are told in other words in each.
            let worded = matches!(
                *id,
                "class" | "quota" | "mem" | "pod" | "stopped" | "object"
            );
            let own = matches!(how, As::Own) && !worded;
            assert!(!(both && own), "{} {id}", compared.of.name());
        }
    }
}
