//! `source-lost`: a source fails. What it said before stays on screen, aged; it is never taken for empty.

use crate::base::Name;
use crate::fleet::finding::Severity;
use crate::fleet::fleet::Known;
use crate::fleet::observe::{LostKind, SourceHealth, SourceState, Table};

use super::desk::{Desk, Draft, subject};
use super::{Check, Verdict, Walk};

pub(super) const CHECK: Check = Check {
    code: "source-lost",
    walk: Walk::Fleet(look),
};

fn look(desk: &mut Desk<'_>) {
    let (fleet, now) = (desk.fleet, desk.now);
    let severity = desk.rule.severity;
    for source in fleet.sources.iter() {
        // One that never answered may have failed before this program first asked.
        let since = source.failing_since.filter(|_| source.last_ok.is_some());
        let since = since.or(match fleet.known(table_of(&source.name)) {
            Known::Lost(lost) if source.kind.as_str() == "kubernetes" => Some(lost.since),
            _ => None,
        });
        desk.report_since(&source.name, check(source), since, |_| {
            let on = source.node.as_ref().map(|node| format!(" (node {node})"));
            let on = on.unwrap_or_default();
            let silent = match source.last_ok {
                Some(at) => format!("no good answer for {}{on}", now.since(at)),
                None => format!("no good answer yet{on}"),
            };
            let draft = Draft::new(
                subject("Source", &source.name),
                if source.message.is_empty() {
                    silent
                } else {
                    format!("{silent}: {}", source.message)
                },
                "earlier values stay, dimmed and with their age; see the sources view",
            );
            if source.kind.as_str() == "kubernetes" {
                draft.severity(api_severity(fleet.known(table_of(&source.name)), severity))
            } else {
                draft.group(subject("Source", &source.kind), "sources unreachable")
            }
        });
    }
    for (table, known) in fleet.known.iter() {
        let Known::Lost(lost) = known else { continue };
        let name = Name::from(format!("api {}", table.name()));
        if fleet.sources.iter().any(|source| source.name == name) {
            continue;
        }
        desk.report_since(&name, Verdict::Firing(1.0), Some(lost.since), |_| {
            Draft::new(
                subject("Source", &name),
                format!("lost for {}: {}", now.since(lost.since), lost.message),
                "earlier values stay, dimmed and with their age; see the sources view",
            )
            .severity(api_severity(known, severity))
        });
    }
}

/// The table that a Kubernetes source lists, by its name `api nodes`.
fn table_of(name: &str) -> Table {
    let name = name.strip_prefix("api ").unwrap_or(name);
    Table::ALL
        .iter()
        .copied()
        .find(|table| table.name() == name)
        .unwrap_or(Table::Nodes)
}

/// Without the API the console is blind; without the right to a table it only sees less.
fn api_severity(known: &Known, otherwise: Severity) -> Severity {
    match known {
        Known::Lost(lost) if lost.kind == LostKind::Rights => otherwise,
        _ => Severity::Crit,
    }
}

/// Firing when the source fails; a stale one cannot tell yet.
fn check(source: &SourceHealth) -> Verdict {
    match source.state {
        SourceState::Lost => Verdict::Firing(1.0),
        SourceState::Stale => Verdict::Unknown,
        SourceState::Live => Verdict::Ok,
    }
}
