//! Alerts: findings, worst first, each with the repair that is suggested.

use model::base::{Name, SmallSort};
use model::fleet::finding::{Finding, Severity, Subject};
use table::Facts;
use table::cell::{Cell, Value};
use table::column::{Column, KindSpec, Row, id_of};
use table::kinds::alerts;
use table::role::Role;
use table::silence::Silence;

use table::navigation::{Destination, RowScope, Selection, ViewId};

/// The table of findings.
pub static KIND: KindSpec = KindSpec {
    columns: &[
        Column::words("severity", "LEVEL", 0, (6, 10), severity).sign(|facts, row| {
            finding(facts, row).map_or(("–", Role::Muted), |finding| {
                match facts.silences.of(finding, facts.now) {
                    Some(Silence::Muted) => ("–", Role::Muted),
                    Some(Silence::Acknowledged) => ("✓", Role::Muted),
                    None => sign(finding.severity),
                }
            })
        }),
        Column::words("kind", "KIND", 6, (6, 8), |facts, row| {
            of(facts, row, |finding| Value::text(finding.subject.kind)).role(Role::Muted)
        })
        .wide(),
        Column::words("object", "OBJECT", 0, (12, 20), |facts, row| {
            of(facts, row, |finding| Value::path(&finding.subject.key))
                .role(Role::Title)
                .middle()
        }),
        Column::words("code", "CODE", 4, (12, 24), |facts, row| {
            of(facts, row, |finding| Value::text(finding.code.as_str()))
        }),
        Column::number("since", "FOR", 1, 6, |facts, row| {
            of(facts, row, |finding| match finding.first_seen {
                true => Value::SeenSince(finding.since),
                false => Value::Since(finding.since),
            })
        }),
        Column::words("message", "MESSAGE", 2, (28, 64), |facts, row| {
            of(facts, row, |finding| Value::text(finding.message.as_str()))
        }),
        Column::words("repair", "REPAIR", 3, (22, 70), |facts, row| {
            of(facts, row, |finding| Value::text(finding.repair.as_str())).role(Role::Muted)
        }),
    ],
    collect: |facts, _| by_object(facts),
    id: |facts, row| finding(facts, row).map_or(0, |finding| id_of(&finding.id)),
    label: |_, _, _| None,
    selection: |facts, row| {
        finding(facts, row).map(|finding| Selection::Finding(finding.id.clone()))
    },
    open: |facts, row| {
        let finding = finding(facts, row)?;
        Some(
            place(facts, &finding.subject)
                .unwrap_or_else(|| Destination::Facts(Selection::Finding(finding.id.clone()))),
        )
    },
    faulty: |facts, row| {
        finding(facts, row).is_some_and(|finding| finding.severity == Severity::Crit)
    },
    worst: None,
    last: |facts, row| {
        finding(facts, row).is_some_and(|finding| facts.silences.of(finding, facts.now).is_some())
    },
    searched: None,
    sort: None,
    none: "nothing needs you",
    output: None,
};

/// Findings, worst first; equally severe ones are grouped by node.
fn by_object(facts: &Facts) -> Vec<Row> {
    let findings = &facts.fleet.findings;
    let mut groups: Vec<(&str, &str)> = Vec::new();
    let mut rows: Vec<(Severity, usize, u32)> = Vec::with_capacity(findings.len());
    for (at, finding) in findings.iter().enumerate() {
        let whose = host(finding);
        let group = groups.iter().position(|known| *known == whose);
        let group = group.unwrap_or_else(|| {
            groups.push(whose);
            groups.len() - 1
        });
        rows.push((finding.severity, group, at as u32));
    }
    rows.small_sort();
    rows.into_iter().map(|(.., at)| (at, 0)).collect()
}

/// The group of a finding: the node of a device, else its own object.
fn host(finding: &Finding) -> (&str, &str) {
    let subject = &finding.subject;
    match subject.kind {
        "Device" => match subject.key.name.rsplit_once('/') {
            Some((node, _)) => ("Node", node),
            None => ("Device", &subject.key.name),
        },
        kind => (kind, &subject.key.name),
    }
}

fn finding(facts: &Facts, row: Row) -> Option<&Finding> {
    facts.fleet.findings.get(row.0 as usize)
}

fn of<'a>(facts: &'a Facts, row: Row, make: impl FnOnce(&'a Finding) -> Value<'a>) -> Cell<'a> {
    match finding(facts, row) {
        Some(finding) => Cell::new(make(finding)),
        None => Cell::new(Value::Unknown),
    }
}

/// A severity as a sign.
pub const fn sign(severity: Severity) -> (&'static str, Role) {
    match severity {
        Severity::Crit => ("▲", Role::Crit),
        Severity::Warn => ("●", Role::Warn),
        Severity::Info => ("○", Role::Info),
    }
}

fn severity(facts: &Facts, row: Row) -> Cell<'_> {
    let Some(finding) = finding(facts, row) else {
        return Cell::new(Value::Unknown);
    };
    let role = match facts.silences.of(finding, facts.now) {
        Some(_) => Role::Muted,
        None => sign(finding.severity).1,
    };
    Cell::text(alerts::level(facts, finding)).role(role)
}

/// Where the object of a finding is shown.
pub fn place(facts: &Facts, subject: &Subject) -> Option<Destination> {
    let name = &subject.key.name;
    match subject.kind {
        "Node" => Some(Destination::Part(
            ViewId::Nodes,
            RowScope::Node(name.clone()),
        )),
        "Pool" => Some(Destination::Part(
            ViewId::Pools,
            RowScope::Pool(name.clone()),
        )),
        "Device" => device_of(facts, name).map(Destination::Facts),
        "Source" => Some(Destination::Facts(Selection::Source(name.clone()))),
        "Run" => known_run(facts, name).map(Destination::Facts),
        "Job" => facts
            .fleet
            .jobs
            .iter()
            .find(|job| job.id.key == subject.key)
            .map(|job| Destination::Part(ViewId::Jobs, RowScope::Job(job.id.clone()))),
        "Pod" => facts
            .fleet
            .pod(&subject.key)
            .map(|pod| Destination::Part(ViewId::Jobs, RowScope::Job(pod.job.clone()))),
        _ => None,
    }
}

/// A run of this machine's journal.
pub fn known_run(facts: &Facts, name: &Name) -> Option<Selection> {
    facts.acts.run(name).map(|_| Selection::Run(name.clone()))
}

/// The device of this id, `NODE/gpu3`.
pub fn device_of(facts: &Facts, id: &Name) -> Option<Selection> {
    let (node, _) = id.rsplit_once('/')?;
    let node = facts.fleet.node(node)?;
    let device = node.devices.iter().find(|device| device.id == *id)?;
    Some(Selection::Device(node.name().clone(), device.index))
}
