//! The page of an object: everything known, its labels, and the events about it. The console draws it, `describe` prints it.

use std::fmt::Write as _;

use crate::painter::{Painter, unseen};
use crate::text::{clean, counted};
use crate::view::subject;
use model::object::{EventSeen, ObjectPart, ObjectRequest};
use table::Facts;
use table::navigation::Selection;
use table::role::Role;

use super::{Description, Line, describe};

/// The events about an object, and whether they have been read.
pub enum Events<'a> {
    /// Not an object of the cluster: no events.
    None,
    Asked,
    /// Reading failed, with the reason.
    Failed(&'a str),
    /// All events, newest first.
    Told(&'a [EventSeen]),
}

/// Everything known of an object, its labels, and the events about it.
pub fn page(
    facts: &Facts,
    selection: &Selection,
    events: &Events<'_>,
    painter: &mut Painter<'_>,
) -> Description {
    let mut table = describe(facts, selection, painter).unwrap_or_default();
    if table.lines.is_empty() {
        table.words("", "no longer exists", Role::Warn);
    }
    labels(facts, selection, &mut table.lines);
    if matches!(events, Events::None) {
        return table;
    }
    table.lines.push(Line::Gap);
    table.lines.push(Line::Head("events"));
    add_events(&mut table, events, painter);
    table
}

/// Adds a line for each event, or why there is none.
pub fn add_events(table: &mut Description, events: &Events<'_>, painter: &mut Painter<'_>) {
    let events = match events {
        Events::None => return,
        Events::Asked => return table.words("", "reading…", Role::Muted),
        Events::Failed(why) => return table.words("", *why, Role::Crit),
        Events::Told([]) => {
            let words = "none found; the API server deletes them after an hour";
            return table.words("", words, Role::Muted);
        }
        Events::Told(events) => *events,
    };
    // The same event of many pods is shown once.
    let mut merged: Vec<(&EventSeen, usize)> = Vec::new();
    for event in events {
        let same = |known: &&mut (&EventSeen, usize)| {
            known.0.reason == event.reason
                && known.0.message == event.message
                && known.0.about != event.about
        };
        match merged.iter_mut().find(same) {
            Some((_, others)) => *others += 1,
            None => merged.push((event, 0)),
        }
    }
    for (event, others) in merged {
        let age = event.last.map_or(String::from("–"), |at| painter.age(at));
        let times = if event.count > 1 {
            format!(" ×{}", event.count)
        } else {
            String::new()
        };
        let more = match others {
            0 => String::new(),
            count => format!(" and {}", counted(count as u64, "other")),
        };
        let words = format!(
            "{}{times}  {}{more}: {}",
            event.reason, event.about, event.message
        );
        table.words(age, words, role_of(event));
    }
}

/// How an event is painted.
pub const fn role_of(event: &EventSeen) -> Role {
    if event.warning {
        Role::Warn
    } else {
        Role::Text
    }
}

/// An object's labels, where they are known.
fn labels(facts: &Facts, selection: &Selection, lines: &mut Vec<Line>) {
    let of_pods =
        |job: &model::fleet::job::Job| job.pods.first().map(|pod| pod.seen.labels.clone());
    let (labels, head) = match selection {
        Selection::Node(name) => {
            let node = facts.fleet.node(name);
            (node.map(|node| node.seen.labels.clone()), "labels")
        }
        Selection::Pod(key) => {
            let pod = facts.fleet.pod(key);
            (pod.map(|pod| pod.seen.labels.clone()), "labels")
        }
        Selection::Job(id) => match facts.fleet.job(id) {
            Some(job) if job.labels.is_some() => (job.labels.clone(), "labels"),
            Some(job) => (of_pods(job), "labels of its pods"),
            None => (None, ""),
        },
        _ => (None, ""),
    };
    let Some(labels) = labels.filter(|labels| !labels.is_empty()) else {
        return;
    };
    lines.push(Line::Gap);
    lines.push(Line::Head(head));
    for (key, value) in labels.iter() {
        lines.push(Line::Words(
            "".into(),
            format!("{key}={value}"),
            Role::Muted,
        ));
    }
}

/// What an object's page reads from the cluster; `None` for what is not an object of the cluster.
pub fn object_request(facts: &Facts, selection: &Selection) -> Option<ObjectRequest> {
    let things = subject::things(facts, selection);
    let part = (!things.is_empty()).then_some(ObjectPart::Events(things))?;
    Some(ObjectRequest { part, turn: 0 })
}

/// Cells of the labels on a printed page.
const LABEL: usize = 14;

/// The page as plain text: a heading, then one line per fact, not wrapped or cut.
pub fn text(facts: &Facts, selection: &Selection, events: &Events<'_>) -> String {
    let table = unseen(facts.now, |painter| page(facts, selection, events, painter));
    let title = match table.title.is_empty() {
        true => selection.heading(facts),
        false => table.title,
    };
    let mut out = match table.note.is_empty() {
        true => format!("{}\n", clean(&title, false)),
        false => format!(
            "{}  ·  {}\n",
            clean(&title, false),
            clean(&table.note, false)
        ),
    };
    for line in &table.lines {
        let (label, words): (&str, &str) = match line {
            Line::Gap => {
                out.push('\n');
                continue;
            }
            Line::Head(words) => {
                let _ = writeln!(out, "{}", words.to_uppercase());
                continue;
            }
            // A picture is for the screen; its values are in the words as well.
            Line::Picture(..) => continue,
            Line::Table(label, parts) => {
                for (at, part) in parts.iter().enumerate() {
                    let label = if at == 0 { *label } else { "" };
                    let _ = writeln!(
                        out,
                        "  {:<LABEL$}{}",
                        clean(label, false),
                        clean(part, false)
                    );
                }
                continue;
            }
            Line::Words(label, words, _) => (label, words),
            Line::Bar(label, _, words, _) | Line::Past(label, _, words) => (label, words),
        };
        let line = format!("  {:<LABEL$}{}", clean(label, false), clean(words, false));
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out
}
