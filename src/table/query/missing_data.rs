//! Missing data: tables that could not be listed, and the answers and plans that they limit.

use model::base::{Exit, Failure};
use model::fleet::TableState;
use model::fleet::observe::{ListedNamespaces, LostKind, SourceState, Table};
use model::fleet::visibility::HELP;

use crate::kinds::sources;
use crate::{Facts, Kind};

/// The missing tables of a kind, each with its exit code and a message.
pub fn losses(facts: &Facts, kind: Kind) -> Vec<(Exit, String)> {
    let matters = kind.output().reads;
    let fleet = &facts.fleet;
    let tables: Vec<Table> = Table::ALL
        .iter()
        .copied()
        .filter(|table| matters(*table))
        .collect();
    let mut messages = Vec::new();
    // Everything that RBAC hides becomes one message, and so does everything that an outage affects.
    let hidden = [
        fleet.confined().filter(|_| kind != Kind::Sources),
        fleet.hidden_of(&tables),
    ];
    let hidden: Vec<String> = hidden.into_iter().flatten().collect();
    if !hidden.is_empty() {
        let help = fleet.rights_help();
        messages.push((Exit::Refused, format!("{}; {help}", hidden.join("; "))));
    }
    let lost: Vec<(Exit, String)> = tables
        .iter()
        .filter_map(|table| loss(facts, *table))
        .collect();
    match fleet.outage() {
        Some(outage) if lost.len() > 1 => {
            let exit = lost.iter().map(|(exit, _)| *exit).max();
            let words = format!("{}: {}", outage.title(), outage.message);
            messages.push((exit.unwrap_or(Exit::Unreachable), words));
        }
        _ => messages.extend(lost),
    }
    messages
}

/// That devices have no readings because no source of any is read, where permissions or the chosen namespaces are why.
pub fn no_readings(facts: &Facts) -> Option<&'static str> {
    let fleet = &facts.fleet;
    if !fleet.is_complete() || fleet.sees_all_work() {
        return None;
    }
    let mut sources = fleet.sources.iter();
    let is_asked =
        sources.any(|source| source.gives_readings() && source.state != SourceState::NotVisible);
    let mut devices = fleet.devices();
    let is_read = devices.any(|(_, device)| device.read_at.is_some());
    // (A Prometheus has the readings of exporters that are not visible.)
    let mut profiles = facts.history.profiles().values();
    if is_asked || is_read || profiles.any(|profile| profile.known > 0.0) {
        return None;
    }
    Some(match fleet.extent {
        ListedNamespaces::Chosen(_) => {
            "no device readings: no exporter is in the namespaces that are read"
        }
        _ => "no device readings: no exporter is visible to you",
    })
}

/// Where readings come from all the same.
pub const READ_PROMETHEUS: &str =
    "set prometheus.url in stokehold.toml to a Prometheus that you can query";

/// Message about the exporters that did not answer, of those that this kind reads; `None` where all did.
pub fn silent(facts: &Facts, kind: Kind) -> Option<String> {
    if let Some(words) = no_readings(facts).filter(|_| kind == Kind::Devices) {
        return Some(format!("{words}; {READ_PROMETHEUS}"));
    }
    let all = facts.fleet.sources.iter().filter(|_| kind != Kind::Sources);
    let exporters: Vec<_> = all.filter(|source| source.gives_readings()).collect();
    let silent: Vec<_> = exporters
        .iter()
        .filter(|source| {
            let hidden = source.state == SourceState::NotVisible;
            !hidden && (source.state == SourceState::Lost || !source.has_spoken())
        })
        .collect();
    let hidden = exporters
        .iter()
        .filter(|source| source.state == SourceState::NotVisible)
        .count();
    // Prefer one with a reason.
    let Some(first) = silent
        .iter()
        .find(|source| source.has_spoken())
        .or(silent.first())
    else {
        return (hidden > 0).then(|| {
            format!(
                "readings: {hidden} of {} exporters are not visible to you; what they read is unknown: {HELP}",
                exporters.len()
            )
        });
    };
    Some(format!(
        "readings: {} of {} exporters have not answered (such as {}: {}); what they read is unknown: see `stokehold get sources`",
        silent.len(),
        exporters.len(),
        first.name,
        sources::message(facts, first)
    ))
}

/// A missing table, with its exit code and a message.
fn loss(facts: &Facts, table: Table) -> Option<(Exit, String)> {
    let name = table.name();
    match facts.fleet.visibility(table) {
        // Reported by `losses`.
        TableState::NotVisible(_) | TableState::Live | TableState::Absent => None,
        TableState::Waiting => Some((
            Exit::Unreachable,
            format!("{name}: not listed in time, missing from the output"),
        )),
        TableState::Lost(lost) => {
            let exit = match lost.kind {
                LostKind::Rights | LostKind::Login => Exit::Refused,
                LostKind::Unreachable => Exit::Unreachable,
            };
            Some((exit, format!("{name}: {}", lost.message)))
        }
    }
}

/// Why permissions leave no plan of the whole fleet, in a few words: [`gaps`] refuses it.
pub fn unplannable(facts: &Facts) -> Option<String> {
    let hidden = facts.fleet.hidden_of(&[Table::Nodes, Table::Pods]);
    let confined = || facts.fleet.confined();
    hidden.or_else(|| confined().map(|_| String::from("other namespaces were not read")))
}

/// Notes for a plan about data that is missing.
///
/// # Errors
/// Nodes or pods are missing: no plan is made over missing facts.
pub fn gaps(facts: &Facts) -> Result<Vec<String>, Failure> {
    let needed = [Table::Nodes, Table::Pods];
    if let Some(hidden) = facts.fleet.hidden_of(&needed) {
        let message = format!("{hidden}; without them no plan can be made: {HELP}");
        return Err(Failure::new(Exit::Refused, message));
    }
    for table in needed {
        if let Some((exit, loss_text)) = loss(facts, table) {
            let message = format!("{loss_text}; without them no plan can be made");
            return Err(Failure::new(exit, message));
        }
    }
    if let Some(confined) = facts.fleet.confined() {
        let message = format!("{confined}; a plan needs the pods of all namespaces: {HELP}");
        return Err(Failure::new(Exit::Refused, message));
    }
    let lost = losses(facts, Kind::Fleet);
    Ok(lost.into_iter().map(|(_, loss_text)| loss_text).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::sample::facts;
    use model::base::Name;

    #[test]
    fn missing_exporters_are_reported_where_readings_are_needed() {
        let mut facts = facts();
        assert_eq!(silent(&facts, Kind::Pools), None);
        let fleet = Arc::make_mut(&mut facts.fleet);
        let mut rows = fleet.sources.to_vec();
        for (name, state) in [("a", SourceState::Live), ("b", SourceState::Lost)] {
            let mut row = rows[0].clone();
            row.name = Name::new(&format!("dcgm gpu/{name}"));
            row.kind = Name::new("dcgm");
            row.state = state;
            row.message = format!("{name} times out");
            rows.push(row);
        }
        fleet.sources = rows.into();
        let message = silent(&facts, Kind::Pools).expect("one is silent");
        let begins =
            "readings: 1 of 2 exporters have not answered (such as dcgm gpu/b: b times out)";
        assert!(message.starts_with(begins), "{message}");
        assert_eq!(silent(&facts, Kind::Sources), None, "its rows say so");
        // An exporter that hangs is stale, not lost yet; it has no readings either.
        let fleet = Arc::make_mut(&mut facts.fleet);
        let mut rows = fleet.sources.to_vec();
        for row in rows.iter_mut().filter(|row| row.gives_readings()) {
            row.state = SourceState::Stale;
            row.last_ok = None;
        }
        fleet.sources = rows.into();
        let message = silent(&facts, Kind::Pools).expect("two are silent");
        assert!(
            message.starts_with("readings: 2 of 2 exporters"),
            "{message}"
        );
    }

    #[test]
    fn no_plan_is_made_without_nodes_and_pods_and_other_gaps_are_reported() {
        let mut facts = facts();
        let known = &mut Arc::make_mut(&mut facts.fleet).known;
        Arc::make_mut(known).extend(Table::ALL.iter().map(|table| (*table, TableState::Live)));
        assert_eq!(gaps(&facts), Ok(Vec::new()));
        let mut waits = |table: Table, known: TableState| {
            let fleet = Arc::make_mut(&mut facts.fleet);
            Arc::make_mut(&mut fleet.known).insert(table, known);
            gaps(&facts)
        };
        let message = waits(Table::ClusterQueues, TableState::Waiting).expect("a plan can be made");
        assert!(message[0].contains("clusterqueues"), "{message:?}");
        for table in [Table::Pods, Table::Nodes] {
            let failure = waits(table, TableState::Waiting).expect_err("no plan");
            assert_eq!(failure.exit, Exit::Unreachable);
            let words = "without them no plan can be made";
            assert!(failure.message.starts_with(table.name()), "{failure:?}");
            assert!(failure.message.ends_with(words), "{failure:?}");
            waits(table, TableState::Live).expect("they are known again");
        }
    }
}
