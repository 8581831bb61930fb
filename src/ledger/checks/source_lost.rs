//! `source-lost`: a source fails. Its last data stays on screen with its age; it is never treated as empty. An outage of the API
//! server is one finding; a table that RBAC refuses is none.

use model::base::{Moment, Name};
use model::fleet::finding::Severity;
use model::fleet::fleet::TableState;
use model::fleet::kinds::Table;
use model::fleet::observe::{LostKind, SourceHealth, SourceState};
use model::fleet::outage::{API, Outage};
use model::fleet::source_fault::split;

use super::context::{CheckContext, FindingDraft, subject};
use super::{Check, CheckWalk, Verdict};

/// Repair for faults that name no repair.
const REPAIR: &str = "check its logs and events; its last values stay on screen with their age";

pub(super) const CHECK: Check = Check {
    code: "source-lost",
    walk: CheckWalk::Fleet(check_fleet),
};

fn check_fleet(context: &mut CheckContext<'_>) {
    let (fleet, now) = (context.fleet, context.now);
    if let Some(outage) = fleet.outage() {
        return whole(context, &outage);
    }
    let severity = context.rule.severity;
    for source in fleet.sources.iter() {
        let since = fleet.fails_since(source);
        let since = since.filter(|(_, first_seen)| !first_seen);
        let since = since.map(|(since, _)| since);
        let table = table_of(&source.name).map(|table| fleet.visibility(table));
        let since = since.or(match table {
            Some(TableState::Lost(lost)) => Some(lost.since),
            _ => None,
        });
        context.report_with_start(&source.name, check(source), since, |_| {
            let on = source.node.as_ref().map(|node| format!(" (node {node})"));
            let fault = fleet.source_fault(source, now);
            let draft = FindingDraft::new(
                subject("Source", &source.name),
                words(now, source.last_ok, &on.unwrap_or_default(), &fault.cause),
                repair(fault.repair),
            );
            if source.gives_readings() {
                return draft.group(subject("Source", &source.kind), "sources unreachable");
            }
            let known = table_of(&source.name).map(|table| fleet.visibility(table));
            draft.severity(api_severity(known, severity))
        });
    }
    for (table, known) in fleet.known.iter() {
        let TableState::Lost(lost) = known else {
            continue;
        };
        let name = Name::from(format!("api {}", table.name()));
        if fleet.sources.iter().any(|source| source.name == name) {
            continue;
        }
        context.report_with_start(&name, Verdict::Firing(1.0), Some(lost.since), |_| {
            let (cause, to_do) = split(&lost.message);
            FindingDraft::new(
                subject("Source", &name),
                words(now, Some(lost.since), "", &cause),
                repair(to_do),
            )
            .severity(api_severity(Some(known), severity))
        });
    }
}

/// The API server as a whole fails: findings about its tables would repeat that, and nothing read through it is known.
fn whole(context: &mut CheckContext<'_>, outage: &Outage<'_>) {
    let (fleet, severity) = (context.fleet, context.rule.severity);
    let api = Name::new(API);
    context.report_with_start(&api, Verdict::Firing(1.0), outage.since, |_| {
        FindingDraft::new(
            subject("Source", &api),
            format!("{}: {}", outage.title(), outage.message),
            match outage.kind {
                LostKind::Unreachable => String::from(
                    "check the VPN, the proxy and the server's address (`kubectl cluster-info`); the last values stay on screen with their age",
                ),
                LostKind::Login => {
                    String::from("log in again; the last values stay on screen with their age")
                }
                LostKind::Rights => fleet.rights_help(),
            },
        )
        .severity(match outage.kind {
            LostKind::Rights => severity,
            LostKind::Unreachable | LostKind::Login => Severity::Crit,
        })
    });
    for source in fleet.sources.iter().filter(|one| one.gives_readings()) {
        context.report_unknown(&source.name);
    }
}

fn repair(words: String) -> String {
    match words.is_empty() {
        true => REPAIR.to_owned(),
        false => words,
    }
}

/// `unreachable for 2m: connection refused`.
fn words(now: Moment, last: Option<Moment>, on: &str, message: &str) -> String {
    let silent = match last {
        Some(at) => format!("unreachable for {}{on}", now.since(at)),
        None => format!("unreachable{on}"),
    };
    match message {
        "" => silent,
        message => format!("{silent}: {message}"),
    }
}

/// The table that a Kubernetes source lists, by its name `api nodes`.
fn table_of(name: &str) -> Option<Table> {
    let name = name.strip_prefix("api ")?;
    Table::ALL
        .iter()
        .copied()
        .find(|table| table.name() == name)
}

/// Without the API the console is blind; without the right to a table it only sees less.
fn api_severity(known: Option<&TableState>, otherwise: Severity) -> Severity {
    match known {
        Some(TableState::Lost(lost)) if lost.kind == LostKind::Rights => otherwise,
        _ => Severity::Crit,
    }
}

/// Firing when the source fails; unknown while it is stale; ok when it refuses us.
fn check(source: &SourceHealth) -> Verdict {
    match source.state {
        SourceState::Lost => Verdict::Firing(1.0),
        SourceState::Stale => Verdict::Unknown,
        SourceState::Live | SourceState::NotVisible => Verdict::Ok,
    }
}
