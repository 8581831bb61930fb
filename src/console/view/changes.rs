//! What changed between two moments of a record: jobs, nodes, quotas, findings, newest first, and what it costs.

use ratatui::layout::Rect;

use crate::commands::{Command, Context};
use crate::painter::Painter;
use crate::text::wrap;
use model::base::{Moment, Name};
use model::cost::LIST_NOTE;
use model::fleet::finding::Severity;
use model::fleet::job::JobKey;
use table::Facts;
use table::cell::{Cell, Value};
use table::changes::{
    FleetChange, FleetChangeKind, FleetChanges, NOTHING_DIFFERS, Topic, is_by_list, money_lines,
    summary, when,
};
use table::column::{Column, KindSpec, Row, id_of};
use table::navigation::{Destination, RowScope, Selection, ViewId};
use table::role::Role;

use super::table_view::TableView;
use super::view_trait::{CommandOutcome, TABLE, View};

/// Changes. A row is the place of the comparison and that of the change in it.
static KIND: KindSpec = KindSpec {
    columns: &[
        Column::words("when", "WHEN (UTC)", 1, (11, 17), |facts, row| {
            of(facts, row, |change| moment(change, facts.now)).role(Role::Muted)
        })
        .sign(|facts, row| change(facts, row).map_or(("–", Role::Muted), sign)),
        Column::words("kind", "KIND", 3, (5, 7), |facts, row| {
            of(facts, row, |change| Value::text(change.topic.name())).role(Role::Muted)
        }),
        Column::words("change", "CHANGE", 0, (7, 10), |facts, row| {
            let role = change(facts, row).map_or(Role::Muted, |change| sign(change).1);
            of(facts, row, |change| Value::text(change.event.name())).role(role)
        }),
        Column::words("name", "NAME", 0, (16, 40), |facts, row| {
            of(facts, row, |change| {
                Value::Path(&change.namespace, &change.name)
            })
            .role(Role::Title)
            .middle()
        }),
        Column::words("team", "TEAM", 4, (6, 16), |facts, row| {
            of(facts, row, |change| {
                Value::known(change.team.as_deref(), Value::text)
            })
        }),
        Column::words("detail", "DETAIL", 2, (20, 100), |facts, row| {
            of(facts, row, |change| Value::text(change.detail.as_str()))
        }),
    ],
    collect: |facts, row_scope| {
        let RowScope::Changes(name) = row_scope else {
            return Vec::new();
        };
        match facts.compared.get(name) {
            Some((at, Ok(changes))) => (0..changes.changes.len() as u32)
                .map(|change| (at as u32, change))
                .collect(),
            _ => Vec::new(),
        }
    },
    id: |facts, row| {
        change(facts, row).map_or(0, |own| {
            id_of((own.topic, own.event, &own.id, &own.namespace, &own.name))
        })
    },
    label: |_, _, _| None,
    selection: |facts, row| change(facts, row).and_then(|change| subject(facts, change)),
    open: |facts, row| {
        let change = change(facts, row)?;
        Some(match subject(facts, change)? {
            Selection::Job(job) => Destination::Part(ViewId::Jobs, RowScope::Job(job)),
            Selection::Node(node) => Destination::Part(ViewId::Nodes, RowScope::Node(node)),
            other => Destination::Facts(other),
        })
    },
    faulty: |facts, row| {
        let weight = change(facts, row).and_then(FleetChange::weight);
        matches!(weight, Some(Severity::Crit | Severity::Warn))
    },
    worst: None,
    last: |_, _| false,
    searched: None,
    sort: None,
    none: NOTHING_DIFFERS,
};

/// When a change was; of the day on screen the time alone.
fn moment(change: &FleetChange, now: Moment) -> Value<'_> {
    let Some(dated) = change.at else {
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

fn change(facts: &Facts, row: Row) -> Option<&FleetChange> {
    facts.compared.change(row.0 as usize, row.1 as usize)
}

fn of<'a>(facts: &'a Facts, row: Row, make: impl FnOnce(&'a FleetChange) -> Value<'a>) -> Cell<'a> {
    Cell::new(change(facts, row).map_or(Value::Unknown, make))
}

/// What a change is about, where it is still there.
fn subject(facts: &Facts, change: &FleetChange) -> Option<Selection> {
    let fleet = &facts.fleet;
    match change.topic {
        Topic::Job => {
            let key = JobKey {
                key: model::base::ObjectKey {
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

fn sign(change: &FleetChange) -> (&'static str, Role) {
    match (change.weight(), change.event) {
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

/// What changed between two moments.
pub struct ChangesView {
    name: Name,
    table: TableView,
    /// What could not be compared; empty where all was.
    notes: String,
}

impl ChangesView {
    /// The comparison of this name.
    pub fn new(name: Name) -> Self {
        Self {
            table: TableView::new(ViewId::Alerts, &KIND, RowScope::Changes(name.clone())),
            name,
            notes: String::new(),
        }
    }

    /// The notes, in lines as wide as the view.
    fn note_lines(&self, area: Rect) -> Vec<String> {
        match self.notes.is_empty() {
            true => Vec::new(),
            false => wrap(&self.notes, usize::from(area.width.saturating_sub(4))),
        }
    }

    /// Above the table: what is compared, its money, what could not be compared, air.
    fn below(&self, area: Rect) -> Rect {
        let lines = self.note_lines(area).len() as u16;
        let above = (3 + lines).min(area.height);
        Rect::new(area.x, area.y + above, area.width, area.height - above)
    }
}

/// Cost in one line: the total, then the teams whose cost differs most.
fn money(changes: &FleetChanges) -> String {
    let line = |[title, before, after, by]: [String; 4]| match by.as_str() {
        "" if before == after => format!("{title} {after}"),
        "" => format!("{title} {before} to {after}"),
        by => format!("{title} {after} ({by})"),
    };
    let lines: Vec<String> = money_lines(changes).into_iter().map(line).collect();
    lines.join(" · ")
}

impl View for ChangesView {
    fn id(&self) -> ViewId {
        ViewId::Alerts
    }
    fn trail(&self) -> String {
        self.table.table_model.row_scope.title()
    }
    fn contexts(&self) -> &'static [Context] {
        TABLE
    }
    fn refresh(&mut self, facts: &Facts, settle: bool) {
        let compared = facts.compared.get(&self.name);
        self.notes = match compared {
            Some((_, Ok(changes))) => {
                let listed = is_by_list(changes).then_some(LIST_NOTE);
                let notes = changes.notes.iter().map(String::as_str);
                notes.chain(listed).collect::<Vec<_>>().join(" · ")
            }
            _ => String::new(),
        };
        self.table.refresh(facts, settle);
    }
    fn on(&mut self, command: Command, facts: &Facts, area: Rect) -> CommandOutcome {
        self.table.obey(command, facts, self.below(area))
    }
    fn table_area(&self, area: Rect) -> Rect {
        self.below(area)
    }
    fn table(&self) -> Option<&TableView> {
        Some(&self.table)
    }
    fn table_mut(&mut self) -> Option<&mut TableView> {
        Some(&mut self.table)
    }

    fn draw(&self, facts: &Facts, painter: &mut Painter<'_>, area: Rect) {
        let room = area.width.saturating_sub(4);
        let x = area.x + 2;
        match facts.compared.get(&self.name) {
            None => {
                let words = format!("{} · comparing…", self.name);
                painter.text_in_role(x, area.y, room, &words, Role::Muted);
            }
            Some((_, Err(why))) => {
                for (line, words) in wrap(why, usize::from(room)).iter().enumerate() {
                    painter.text_in_role(
                        x,
                        area.y.saturating_add(line as u16),
                        room,
                        words,
                        Role::Crit,
                    );
                }
            }
            Some((_, Ok(changes))) => {
                painter.text_in_role(x, area.y, room, &summary(changes), Role::Title);
                painter.text_in_role(x, area.y + 1, room, &money(changes), Role::Text);
                for (line, words) in self.note_lines(area).iter().enumerate() {
                    let y = area.y.saturating_add(2 + line as u16);
                    painter.text_in_role(x, y, room, words, Role::Warn);
                }
                let below = self.below(area);
                if !changes.changes.is_empty() {
                    self.table.paint(facts, painter, below, true);
                }
            }
        }
    }
}
