//! Alerts: findings, most severe first, each with a suggested repair.

use schemars::JsonSchema;
use serde::Serialize;

use model::base::{Moment, Name, SmallSort};
use model::fleet::finding::{Finding, Severity, Subject};
use model::fleet::thresholds::LASTING;
use model::schema::of_rows;

use crate::cell::{Cell, Value};
use crate::column::{Column, KindSpec, Row, RowOutput, id_of};
use crate::facts::FIRST_LOOK;
use crate::kind::{Exporters, Format, KindNames, KindView, UNKNOWN_IS_NULL, is_needed_for_jobs};
use crate::navigation::{Destination, RowScope, Selection, ViewId};
use crate::role::Role;
use crate::silence::Silence;
use crate::{Facts, non_empty};

/// The object of an alert.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct ObjectCell<'a> {
    /// Kind, `Device`, `Node`, `Job`, ….
    pub kind: &'static str,
    /// Namespace; null for a cluster-scoped object.
    pub namespace: Option<&'a str>,
    /// Name of the object.
    pub name: &'a str,
}

#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct AlertRow<'a> {
    /// Id, stable while the alert lasts.
    pub id: &'a str,
    /// Severity as its check gives it, whether muted or not.
    #[schemars(with = "model::fleet::finding::Severity")]
    pub severity: &'static str,
    /// Stable code of the finding, `xid-79`.
    pub code: &'a str,
    /// The object that it is about.
    pub object: ObjectCell<'a>,
    /// Since when it has been true, RFC 3339; null where neither an object nor an exporter reports it.
    #[schemars(with = "Option<model::base::Moment>")]
    pub since: Option<String>,
    /// When this program first saw it, RFC 3339, where no start time is reported.
    #[schemars(with = "Option<model::base::Moment>")]
    pub first_seen: Option<String>,
    /// The measured value, in the unit of `threshold`.
    pub value: Option<f64>,
    /// The threshold that it passed.
    pub threshold: Option<f64>,
    /// What is wrong, as a sentence.
    pub message: &'a str,
    /// What to do about it.
    pub repair: Option<&'a str>,
    /// Muted by a user.
    pub muted: bool,
}

/// Alerts. A row is the place of its finding among all findings.
pub static KIND: KindSpec = KindSpec {
    columns: &[
        Column::words("severity", "LEVEL", 0, (6, 10), |facts, row| {
            let role = finding(facts, row).map_or(Role::Muted, |finding| sign_of(facts, finding).1);
            of(facts, row, |finding| Value::text(level(facts, finding))).role(role)
        })
        .sign(|facts, row| {
            finding(facts, row).map_or(("–", Role::Muted), |finding| sign_of(facts, finding))
        })
        .by("severity"),
        Column::words("kind", "KIND", 6, (6, 8), |facts, row| {
            of(facts, row, |finding| Value::text(finding.subject.kind)).role(Role::Muted)
        })
        .by("object.kind")
        .wide_on_screen(),
        Column::words("object", "OBJECT", 0, (12, 20), |facts, row| {
            of(facts, row, |finding| Value::path(&finding.subject.key))
                .role(Role::Title)
                .middle()
        })
        .by("object.name"),
        Column::words("code", "CODE", 4, (12, 24), |facts, row| {
            of(facts, row, |finding| Value::text(finding.code.as_str()))
        })
        .by("code"),
        Column::number("since", "AGE", 1, 6, |facts, row| {
            of(facts, row, |finding| age(finding, facts.now))
        })
        .by("since|first_seen"),
        Column::number("value", "VALUE", 7, 6, |facts, row| {
            of(facts, row, |finding| level_value(finding.value))
        })
        .by("value")
        .wide(),
        Column::number("threshold", "THRESHOLD", 7, 6, |facts, row| {
            of(facts, row, |finding| level_value(finding.threshold))
        })
        .by("threshold")
        .wide(),
        Column::words("message", "MESSAGE", 2, (28, 140), |facts, row| {
            of(facts, row, |finding| Value::text(finding.message.as_str()))
        })
        .by("message"),
        Column::words("repair", "REPAIR", 3, (22, 140), |facts, row| {
            of(facts, row, |finding| Value::text(finding.repair.as_str())).role(Role::Muted)
        })
        .by("repair")
        .wide_output(),
    ],
    collect,
    id: |facts, row| finding(facts, row).map_or(0, |finding| id_of(&finding.id)),
    label: |_, _, _| None,
    selection: |facts, row| {
        finding(facts, row).map(|finding| Selection::Finding(finding.id.clone()))
    },
    open: |facts, row| {
        let finding = finding(facts, row)?;
        Some(
            job_held_up(facts, finding)
                .or_else(|| place(facts, &finding.subject))
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
};

/// How `get` finds and writes the rows.
pub static OUTPUT: RowOutput = RowOutput {
    names: KindNames {
        plural: "alerts",
        singular: "alert",
        aliases: &["alert"],
        help: "Findings, worst first",
        title: "Findings, worst first",
        description: UNKNOWN_IS_NULL,
        schema: of_rows::<AlertRow<'_>>,
    },
    view: KindView::tab(ViewId::Alerts).with_facts(),
    reads: is_needed_for_jobs,
    exporters: |_| Exporters::All,
    note: |facts, format| match format {
        // Programs know what they ask for.
        Format::Table | Format::Wide => looked_once(facts),
        _ => None,
    },
    rows: |facts, _| collect(facts, &RowScope::Ungrouped),
    key: |facts, row| finding(facts, row).map_or_else(String::new, |own| own.id.to_string()),
    also: |facts, row| {
        let names = finding(facts, row).map(|own| [&own.subject.key.name, &own.code]);
        names.iter().flatten().map(ToString::to_string).collect()
    },
    name: None,
    place: None,
    labels: None,
    json: |facts, rows, style| {
        let alert = |at: &Row| {
            finding(facts, *at).map(|finding| AlertRow {
                muted: facts.silences.of(finding, facts.now) == Some(Silence::Muted),
                ..row(finding, facts.now)
            })
        };
        rows.iter().map(|at| style.write(&alert(at))).collect()
    },
};

/// Findings, most severe first; in a scope, those that concern it. On the screen those of one node and one severity stand together.
fn collect(facts: &Facts, row_scope: &RowScope) -> Vec<Row> {
    let findings = (0..).zip(facts.fleet.findings.iter());
    let findings = findings.filter(|(_, finding)| facts.concerns(finding));
    if *row_scope == RowScope::Ungrouped {
        return findings.map(|(at, _)| (at, 0)).collect();
    }
    let mut groups: Vec<(&str, &str)> = Vec::new();
    let mut rows: Vec<(Severity, usize, u32)> = Vec::new();
    for (at, finding) in findings {
        let whose = host(finding);
        let group = groups.iter().position(|known| *known == whose);
        let group = group.unwrap_or_else(|| {
            groups.push(whose);
            groups.len() - 1
        });
        rows.push((finding.severity, group, at));
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
    Cell::new(finding(facts, row).map_or(Value::Unknown, make))
}

/// The time since a finding began, a lower bound where it was so when this program first looked.
fn age(finding: &Finding, now: Moment) -> Value<'_> {
    match finding.at_least {
        false => Value::Since(finding.since),
        true if is_first_look(finding, now) => Value::Unknown,
        true => Value::SeenSince(finding.since),
    }
}

/// True while all that is known is that it was so at the first look: that says nothing about a fault's age.
fn is_first_look(finding: &Finding, now: Moment) -> bool {
    finding.at_least && now.since(finding.since) < FIRST_LOOK
}

/// The mark before the age of a finding: `>` where it may be older.
pub const fn age_mark(finding: &Finding) -> &'static str {
    if finding.at_least { ">" } else { "" }
}

/// What was measured, or a threshold for it: whole numbers without a fraction. Empty for a finding about no number.
fn level_value(value: Option<f64>) -> Value<'static> {
    match value.filter(|value| value.is_finite()) {
        None => Value::Empty,
        Some(whole) if whole.fract() == 0.0 && whole.abs() < 1e15 => Value::Count(whole as i64),
        Some(value) => Value::Number(value),
    }
}

/// A severity as a sign.
pub const fn sign(severity: Severity) -> (&'static str, Role) {
    let sign = match severity {
        Severity::Crit => "▲",
        Severity::Warn => "●",
        Severity::Info => "○",
    };
    (sign, Role::of_severity(severity))
}

/// The sign of a finding: how it was silenced, else its severity.
fn sign_of(facts: &Facts, finding: &Finding) -> (&'static str, Role) {
    match facts.silences.of(finding, facts.now) {
        Some(Silence::Muted) => ("–", Role::Muted),
        Some(Silence::Acknowledged) => ("✓", Role::Muted),
        None => sign(finding.severity),
    }
}

/// The job whose gang waits for a straggler.
fn job_held_up(facts: &Facts, finding: &Finding) -> Option<Destination> {
    if finding.code.as_str() != "straggler" {
        return None;
    }
    let (_, device) = facts.fleet.device_of(&finding.subject.key.name)?;
    let (pod, _) = device.first_holder()?;
    Some(Destination::Part(
        ViewId::Jobs,
        RowScope::Job(pod.job.clone()),
    ))
}

/// Where the object of a finding is shown.
fn place(facts: &Facts, subject: &Subject) -> Option<Destination> {
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
fn known_run(facts: &Facts, name: &Name) -> Option<Selection> {
    facts.acts.run(name).map(|_| Selection::Run(name.clone()))
}

/// The device of this id, `NODE/gpu3`.
pub fn device_of(facts: &Facts, id: &Name) -> Option<Selection> {
    let (node, device) = facts.fleet.device_of(id)?;
    Some(Selection::Device(node.name().clone(), device.index))
}

/// Note for a command that took a single snapshot; `None` where earlier readings exist.
pub fn looked_once(facts: &Facts) -> Option<String> {
    let is_single = facts.history.readings_since().is_none() || facts.is_first_look();
    is_single.then(|| {
        format!(
            "from a single reading, without findings that must persist ({}): `stokehold get alerts --watch` and the console keep reading and show them",
            LASTING.join(", ")
        )
    })
}

/// The severity of a finding, or how it was silenced.
fn level(facts: &Facts, finding: &Finding) -> &'static str {
    match facts.silences.of(finding, facts.now) {
        Some(silence) => silence.name(),
        None => finding.severity.name(),
    }
}

/// The row of one finding as of `now`, ignoring silences.
pub fn row(finding: &Finding, now: Moment) -> AlertRow<'_> {
    AlertRow {
        id: &finding.id,
        severity: finding.severity.name(),
        code: &finding.code,
        object: ObjectCell {
            kind: finding.subject.kind,
            namespace: non_empty(&finding.subject.key.namespace),
            name: &finding.subject.key.name,
        },
        since: (!finding.first_seen).then(|| finding.since.rfc3339()),
        first_seen: (finding.first_seen && !is_first_look(finding, now))
            .then(|| finding.since.rfc3339()),
        value: finding.value.filter(|value| value.is_finite()),
        threshold: finding.threshold.filter(|value| value.is_finite()),
        message: &finding.message,
        repair: non_empty(&finding.repair),
        muted: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    /// A command takes one snapshot: it names the checks that need minutes of readings.
    #[test]
    fn one_look_names_findings_that_need_more_time() {
        let facts = sample::facts();
        assert_eq!(
            facts.history.readings_since(),
            None,
            "nothing is remembered"
        );
        let message = looked_once(&facts).expect("is said");
        assert!(
            LASTING.iter().all(|code| message.contains(code)),
            "{message}"
        );
    }
}
