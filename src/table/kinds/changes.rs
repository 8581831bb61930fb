//! What changed: jobs, nodes, quotas and findings, newest first; those of one cause are one row.

use schemars::JsonSchema;
use serde::Serialize;

use model::base::{Moment, Name, ObjectKey};
use model::fleet::finding::Severity;
use model::fleet::job::JobKey;
use model::schema::of_rows;

use crate::Facts;
use crate::cell::{Cell, Value};
use crate::changes::{
    CauseGroup, Dated, FleetChange, FleetChangeKind, FleetChanges, NOTHING_DIFFERS, Topic, when,
};
use crate::column::{Column, KindSpec, Row, RowOutput, id_of};
use crate::kind::{Exporters, KindNames, KindView, UNKNOWN_IS_NULL};
use crate::navigation::{Destination, RowScope, Selection, ViewId};
use crate::non_empty;
use crate::role::Role;

/// One object of a change.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct ChangedObject<'a> {
    /// Time of its change; null when unknown.
    pub at: Option<String>,
    /// Its kind: finding, node, job or queue.
    pub kind: &'static str,
    /// Namespace; null for a cluster-scoped object.
    pub namespace: Option<&'a str>,
    /// Name of the object.
    pub name: &'a str,
    /// Team; null where it has none.
    pub team: Option<&'a str>,
    /// What is known of it in words.
    pub detail: Option<&'a str>,
}

/// Changes of one cause that came close together.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct ChangeRow<'a> {
    /// Time of the latest of them, RFC 3339; null when unknown.
    pub at: Option<String>,
    /// Where that time comes from: an object or exporter states it, or it is that of the first snapshot that shows the change.
    pub at_from: Option<&'static str>,
    /// What changed: finding, node, job or queue.
    pub kind: &'static str,
    /// How it changed, in one or two words.
    pub change: &'static str,
    /// The object, or how many of which kind.
    pub name: String,
    /// Team of all of them; null where there is none, or several.
    pub team: Option<&'a str>,
    /// Severity for somebody who looks for a cause; null for a routine change.
    pub severity: Option<&'static str>,
    /// What is known in words.
    pub detail: String,
    /// Each object that changed.
    pub objects: Vec<ChangedObject<'a>>,
}

/// The place of what this session saw, beside those of its comparisons.
const SEEN: u32 = 0xffff;

/// Added to the place of a list of changes where the row is one change of it and not a row of one cause.
const SINGLE: u32 = 0x1_0000;

/// Changes. A row is the place of their list, and that of the row or of the change in it.
pub static KIND: KindSpec = KindSpec {
    columns: &[
        Column::words("when", "WHEN (UTC)", 1, (11, 17), |facts, row| {
            of(facts, row, |group| moment(group.at(), facts.now)).role(Role::Muted)
        })
        .sign(|facts, row| group(facts, row).map_or(("–", Role::Muted), sign))
        .by("at"),
        Column::words("kind", "KIND", 3, (5, 7), |facts, row| {
            of(facts, row, |group| Value::text(group.first().topic.name())).role(Role::Muted)
        })
        .by("kind"),
        Column::words("change", "CHANGE", 0, (7, 10), |facts, row| {
            let role = group(facts, row).map_or(Role::Muted, |group| sign(group).1);
            of(facts, row, |group| Value::text(group.first().event.name())).role(role)
        })
        .by("change"),
        Column::words("name", "NAME", 0, (16, 40), |facts, row| {
            of(facts, row, |group| Value::text(group.subject()))
                .role(Role::Title)
                .middle()
        })
        .by("name"),
        Column::words("team", "TEAM", 4, (6, 16), |facts, row| {
            of(facts, row, |group| match group.team() {
                Some(team) => Value::text(team.as_str()),
                None => Value::Empty,
            })
        })
        .by("team"),
        Column::words("detail", "DETAIL", 2, (20, 100), |facts, row| {
            of(facts, row, |group| Value::text(group.detail()))
        })
        .by("detail"),
    ],
    collect,
    id: |facts, row| {
        group(facts, row).map_or(0, |group| {
            let own = group.all().last().unwrap_or(group.first());
            id_of((
                own.topic,
                own.event,
                &own.id,
                &own.namespace,
                &own.name,
                own.at,
            ))
        })
    },
    label: |_, _, _| None,
    selection: |facts, row| group(facts, row).and_then(|group| subject(facts, group.first())),
    open: |facts, row| {
        let group = group(facts, row)?;
        if group.all().nth(1).is_some() {
            return Some(Destination::Part(ViewId::Alerts, one_cause(facts, row)?));
        }
        Some(match subject(facts, group.first())? {
            Selection::Job(job) => Destination::Part(ViewId::Jobs, RowScope::Job(job)),
            Selection::Node(node) => Destination::Part(ViewId::Nodes, RowScope::Node(node)),
            other => Destination::Facts(other),
        })
    },
    faulty: |facts, row| {
        let weight = group(facts, row).and_then(CauseGroup::weight);
        matches!(weight, Some(Severity::Crit | Severity::Warn))
    },
    worst: None,
    last: |_, _| false,
    searched: None,
    sort: None,
    none: NOTHING_DIFFERS,
};

/// How `get` finds and writes the rows.
pub static OUTPUT: RowOutput = RowOutput {
    names: KindNames {
        plural: "changes",
        singular: "change",
        aliases: &["change"],
        help: "What changed in the last half hour (--since): jobs, nodes, quotas, findings",
        title: "Changes",
        description: UNKNOWN_IS_NULL,
        schema: of_rows::<ChangeRow<'_>>,
    },
    view: KindView::under(
        ViewId::Alerts,
        "what changed: jobs, nodes, quotas, findings, money, newest first",
    )
    .key("f6"),
    reads: |table| !table.holds_scaling(),
    exporters: |_| Exporters::All,
    note: |_, _| None,
    rows: |facts, _| collect(facts, &RowScope::All),
    key: |facts, row| {
        group(facts, row).map_or_else(String::new, |group| {
            let at = group.at().map_or_else(String::new, |at| at.at().rfc3339());
            let first = group.first();
            format!(
                "{at}/{}/{}/{}",
                first.topic.name(),
                first.event.name(),
                first.subject()
            )
        })
    },
    also: |_, _| Vec::new(),
    name: None,
    place: None,
    labels: None,
    json: |facts, rows, style| style.each(rows, |at| row(facts, at)),
};

/// The row in the JSON contract's form.
fn row(facts: &Facts, at: Row) -> ChangeRow<'_> {
    let group = group(facts, at).expect("a row of these facts");
    let first = group.first();
    let moment = |at: Option<Dated>| at.map(|dated| dated.at().rfc3339());
    ChangeRow {
        at: moment(group.at()),
        at_from: group.at().map(|dated| match dated {
            Dated::Reported(_) => "object",
            Dated::Seen(_) => "snapshot",
        }),
        kind: first.topic.name(),
        change: first.event.name(),
        name: group.subject(),
        team: group.team().map(Name::as_str),
        severity: group.weight().map(Severity::name),
        detail: group.detail(),
        objects: (group.all())
            .map(|change| ChangedObject {
                at: moment(change.at),
                kind: change.topic.name(),
                namespace: non_empty(&change.namespace),
                name: &change.name,
                team: change.team.as_deref(),
                detail: non_empty(&change.detail),
            })
            .collect(),
    }
}

/// When a change was; of the day on screen the time alone.
fn moment(at: Option<Dated>, now: Moment) -> Value<'static> {
    let Some(dated) = at else {
        return Value::Unknown;
    };
    let text = when(Some(dated));
    let today = dated.at().rfc3339().get(..10) == now.rfc3339().get(..10);
    match text.split_once(' ').filter(|_| today) {
        Some((date, time)) if date.starts_with('~') => Value::text(format!("~{time}")),
        Some((_, time)) => Value::text(time.to_owned()),
        None => Value::text(text),
    }
}

fn list(facts: &Facts, place: u32) -> Option<&FleetChanges> {
    match place {
        SEEN => facts.changes.as_deref().map(|seen| &seen.changes),
        place => facts.compared.changes(place as usize),
    }
}

fn group(facts: &Facts, row: Row) -> Option<CauseGroup<'_>> {
    let changes = list(facts, row.0 % SINGLE)?;
    match row.0 >= SINGLE {
        true => changes.changes.get(row.1 as usize).map(CauseGroup::single),
        false => changes.row(row.1 as usize),
    }
}

fn of<'a>(facts: &'a Facts, row: Row, make: impl FnOnce(CauseGroup<'a>) -> Value<'a>) -> Cell<'a> {
    Cell::new(group(facts, row).map_or(Value::Unknown, make))
}

/// The rows of what was seen, of a comparison, or of one cause in one of them.
fn collect(facts: &Facts, row_scope: &RowScope) -> Vec<Row> {
    let place = match row_scope {
        RowScope::Changes(name) => facts.compared.get(name).map(|(at, _)| at as u32),
        RowScope::OneCause(Some(name), _) => facts.compared.get(name).map(|(at, _)| at as u32),
        _ => Some(SEEN),
    };
    let Some((place, changes)) = place.and_then(|place| Some((place, list(facts, place)?))) else {
        return Vec::new();
    };
    let rows = 0..changes.rows() as u32;
    let RowScope::OneCause(_, key) = row_scope else {
        return rows.map(|row| (place, row)).collect();
    };
    let is_it = |row: &u32| {
        changes
            .row(*row as usize)
            .is_some_and(|own| cause_key(own) == *key)
    };
    let of_it = rows
        .filter(is_it)
        .filter_map(|row| changes.row(row as usize));
    let changed = of_it.flat_map(CauseGroup::all);
    let places = changed.filter_map(|one| {
        let mut all = changes.changes.iter();
        all.position(|change| std::ptr::eq(change, one))
    });
    places.map(|at| (place + SINGLE, at as u32)).collect()
}

/// The changes of a row, one row each.
fn one_cause(facts: &Facts, row: Row) -> Option<RowScope> {
    let key = cause_key(group(facts, row)?);
    let compared = match row.0 {
        SEEN => None,
        place => Some(facts.compared.name(place as usize)?.clone()),
    };
    Some(RowScope::OneCause(compared, key))
}

/// The name of a row of one cause: its cause with its oldest change, which stays while newer ones join.
fn cause_key(group: CauseGroup<'_>) -> Name {
    let oldest = group
        .all()
        .filter_map(|change| change.at)
        .map(Dated::at)
        .min();
    let at = oldest.map_or_else(String::new, Moment::rfc3339);
    let first = group.first();
    Name::from(format!("{} {} {at}", first.event.name(), first.cause))
}

/// What a change is about, where it is still there.
fn subject(facts: &Facts, change: &FleetChange) -> Option<Selection> {
    let fleet = &facts.fleet;
    match change.topic {
        Topic::Job => {
            let key = JobKey {
                key: ObjectKey {
                    namespace: change.namespace.clone(),
                    name: change.name.clone(),
                },
                kind: change.id.clone(),
            };
            fleet.job(&key).map(|job| Selection::Job(job.id.clone()))
        }
        Topic::Node => {
            let node = fleet.node(&change.name)?;
            Some(Selection::Node(node.name().clone()))
        }
        Topic::Queue => {
            let mut queues = fleet.queues.iter();
            queues
                .any(|queue| *queue.name() == change.name)
                .then(|| Selection::Queue(change.name.clone()))
        }
        Topic::Finding => {
            let mut findings = fleet.findings.iter();
            findings
                .any(|finding| finding.id == change.id)
                .then(|| Selection::Finding(change.id.clone()))
        }
    }
}

fn sign(group: CauseGroup<'_>) -> (&'static str, Role) {
    match (group.weight(), group.first().event) {
        (Some(Severity::Crit), _) => ("▲", Role::Crit),
        (Some(Severity::Warn), _) => ("●", Role::Warn),
        (
            _,
            FleetChangeKind::Started
            | FleetChangeKind::Ready
            | FleetChangeKind::Joined
            | FleetChangeKind::Cleared
            | FleetChangeKind::Opened,
        ) => ("●", Role::Ok),
        _ => ("○", Role::Info),
    }
}
