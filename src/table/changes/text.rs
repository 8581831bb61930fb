//! Changes as text and as a document.

use serde::Serialize;

use model::base::Moment;
use model::base::name::printable;
use model::base::quantities::counted;
use model::cost::{LIST_MARK, LIST_NOTE, Money};

use super::{CENT, Dated, FleetChange, FleetChanges, MoneyChange, SeenChanges};
use crate::output::safe_json;
use crate::rows::list_price::list_usd;
use crate::spend::dollars;
use crate::table::{cell, text_table};
use crate::text::UNKNOWN;
use crate::{UNATTRIBUTED, non_empty};

/// The version of the document.
const VERSION: u32 = 1;

/// Date and time in UTC: `2026-11-21 08:10:04`.
fn stamp(at: Moment) -> String {
    let text = at.rfc3339();
    text.get(..19).unwrap_or(&text).replace('T', " ")
}

/// When a change happened, as in the table: `11-21 08:12:40`. `~` marks the time of the first snapshot that shows it, a few
/// seconds after the change.
pub fn when(at: Option<Dated>) -> String {
    let Some(dated) = at else {
        return UNKNOWN.to_owned();
    };
    let short = dated.at().short();
    match dated {
        Dated::Reported(_) => short,
        Dated::Seen(_) => format!("~{short}"),
    }
}

/// Printed where nothing differs.
pub const NOTHING_DIFFERS: &str = "no job, node, queue or finding differs";

/// `2026-11-21 08:10:00 to 2026-11-21 08:20:00 UTC · 14 changes`.
pub fn summary(changes: &FleetChanges) -> String {
    let count = match changes.changes.len() {
        0 if changes.notes.is_empty() => NOTHING_DIFFERS.to_owned(),
        0 => "no differences in what can be compared".to_owned(),
        count => counted(count as u64, "change"),
    };
    let (from, to) = (stamp(changes.from), stamp(changes.to));
    format!("{from} to {to} UTC · {count}")
}

/// `since 13:32 UTC · 14 changes`.
pub fn seen_summary(seen: &SeenChanges) -> String {
    let count = match seen.changes.rows() {
        0 => "nothing changed".to_owned(),
        count => counted(count as u64, "change"),
    };
    format!("since {} UTC · {count}", seen.changes.from.clock())
}

/// What the list of seen changes lacks.
pub fn seen_note(seen: &SeenChanges) -> String {
    let since = seen.compared_since.clock();
    format!(
        "until {since}, when reading began, only what objects state themselves: no quota changes, nothing that was deleted"
    )
}

fn per_hour(rate: Option<Money>) -> String {
    rate.map_or_else(|| UNKNOWN.to_owned(), Money::per_hour)
}

/// True where what is paid is not known of the money of one of them.
pub fn is_by_list(money: &[MoneyChange]) -> bool {
    let mut rates = money.iter().flat_map(|row| [row.before, row.after]);
    rates.any(|rate| rate.is_some_and(Money::is_by_list))
}

/// Rates before, after and the difference; the whole view first, then the teams.
pub fn money_lines(money: &[MoneyChange]) -> Vec<[String; 4]> {
    let line = |row: &MoneyChange| {
        let title = match &row.team {
            None => "cost".to_owned(),
            Some(team) if **team == *UNATTRIBUTED => UNATTRIBUTED.to_owned(),
            Some(team) => format!("team {}", printable(team)),
        };
        let by = match row.difference() {
            None => String::new(),
            Some(micros) if micros.abs() < CENT => String::new(),
            Some(micros) => {
                let sign = if micros > 0 { '+' } else { '-' };
                let by = dollars(micros.abs());
                let by_list = |rate: Option<Money>| rate.map(|rate| rate.by_list);
                let mark = match by_list(row.before) == by_list(row.after) {
                    true => "",
                    false => LIST_MARK,
                };
                format!("{sign}{by}/h{mark}")
            }
        };
        [title, per_hour(row.before), per_hour(row.after), by]
    };
    money.iter().map(line).collect()
}

pub fn text(changes: &FleetChanges) -> String {
    let table = |titles: &[(&'static str, bool)], lines: Vec<Vec<String>>| {
        text_table(titles.to_vec(), &lines, true)
    };
    let titles = [
        ("", false),
        ("BEFORE", true),
        ("AFTER", true),
        ("CHANGE", true),
    ];
    let lines = money_lines(&changes.money)
        .into_iter()
        .map(Vec::from)
        .collect();
    let mut money = table(&titles, lines);
    if is_by_list(&changes.money) {
        money.push_str(&format!("{LIST_NOTE}\n"));
    }
    let summary = summary(changes);
    if changes.changes.is_empty() {
        return format!("{summary}\n\n{money}");
    }
    let titles = ["WHEN", "KIND", "CHANGE", "NAME", "TEAM", "DETAIL"].map(|title| (title, false));
    let lines = (0..changes.rows()).filter_map(|row| changes.row(row));
    let lines = lines.map(|group| {
        let first = group.first();
        vec![
            when(group.at()),
            first.topic.name().to_owned(),
            first.event.name().to_owned(),
            cell(&group.subject()),
            group.team().map(|team| cell(team)).unwrap_or_default(),
            cell(&group.detail()),
        ]
    });
    format!("{summary}\n\n{money}\n{}", table(&titles, lines.collect()))
}

#[derive(Serialize)]
struct ChangeCell<'a> {
    at: Option<String>,
    at_from: Option<&'static str>,
    kind: &'static str,
    change: &'static str,
    namespace: Option<&'a str>,
    name: &'a str,
    id: Option<&'a str>,
    team: Option<&'a str>,
    severity: Option<&'static str>,
    detail: Option<&'a str>,
}

#[derive(Serialize)]
struct MoneyCell<'a> {
    team: Option<&'a str>,
    before_usd_per_hour: Option<f64>,
    before_list_usd_per_hour: Option<f64>,
    after_usd_per_hour: Option<f64>,
    after_list_usd_per_hour: Option<f64>,
}

#[derive(Serialize)]
struct ChangesDocument<'a> {
    version: u32,
    from: String,
    to: String,
    money: Vec<MoneyCell<'a>>,
    changes: Vec<ChangeCell<'a>>,
    notes: &'a [String],
}

impl<'a> From<&'a FleetChange> for ChangeCell<'a> {
    fn from(change: &'a FleetChange) -> Self {
        Self {
            at: change.at.map(|dated| dated.at().rfc3339()),
            at_from: change.at.map(|dated| match dated {
                Dated::Reported(_) => "object",
                Dated::Seen(_) => "record",
            }),
            kind: change.topic.name(),
            change: change.event.name(),
            namespace: non_empty(&change.namespace),
            name: &change.name,
            id: non_empty(&change.id),
            team: change.team.as_deref(),
            severity: change.severity.map(|severity| severity.name()),
            detail: non_empty(&change.detail),
        }
    }
}

/// Changes as a versioned JSON document.
pub fn document(changes: &FleetChanges) -> String {
    let money = changes.money.iter().map(|row| MoneyCell {
        team: row.team.as_deref(),
        before_usd_per_hour: row.before.map(Money::usd),
        before_list_usd_per_hour: list_usd(row.before),
        after_usd_per_hour: row.after.map(Money::usd),
        after_list_usd_per_hour: list_usd(row.after),
    });
    safe_json(&ChangesDocument {
        version: VERSION,
        from: changes.from.rfc3339(),
        to: changes.to.rfc3339(),
        money: money.collect(),
        changes: changes.changes.iter().map(ChangeCell::from).collect(),
        notes: &changes.notes,
    })
}
