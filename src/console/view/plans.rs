//! Plans that were carried out on this cluster, and those that are: from the journal on this machine. Below them the run under the
//! cursor, and what can be planned.

use ratatui::layout::Rect;

use crate::action_keys;
use crate::commands::{Command, Context};
use crate::keys::Keymap;
use crate::painter::Painter;
use crate::widget::panel::panel;
use crate::widget::table::{TableLook, table};
use model::base::Name;
use plan::actions::{ActionName, ActionSpec, command_line};
use table::Facts;
use table::actions::{May, RunRow, RunState, StepState};
use table::cell::{Cell, Value};
use table::column::{Align, Column, ColumnHead, KindSpec, Row, Width, id_of};
use table::navigation::{Destination, RowScope, Selection, ViewId};
use table::role::Role;

use super::describe::{describe, draw_columns, draw_panel};
use super::run_jobs;
use super::table_view::TableView;
use super::view_trait::{CommandOutcome, PLANS, View};

/// The table of runs.
pub static KIND: KindSpec = KindSpec {
    columns: &[
        Column::words("plan", "PLAN", 0, (20, 48), |facts, row| {
            of(facts, row, |run| Value::text(run.title.as_str())).role(Role::Title)
        })
        .sign(|facts, row| run(facts, row).map_or(("–", Role::Muted), |run| sign(run.state))),
        Column::words("state", "STATE", 1, (7, 10), |facts, row| {
            let role = run(facts, row).map_or(Role::Muted, |run| sign(run.state).1);
            of(facts, row, |run| Value::text(run.state.name())).role(role)
        }),
        Column::number("steps", "STEPS", 2, 5, |facts, row| {
            of(facts, row, |run| {
                Value::Part(run.over() as u64, run.steps.len() as u64)
            })
        }),
        Column::number("begun", "STARTED", 0, 6, |facts, row| {
            of(facts, row, |run| Value::Since(run.begun))
        }),
        Column::words("by", "BY", 4, (6, 20), |facts, row| {
            of(facts, row, |run| Value::text(run.by.as_str()))
        }),
        Column::words("reason", "REASON", 5, (8, 30), |facts, row| {
            of(facts, row, |run| Value::text(run.reason.as_str())).role(Role::Muted)
        })
        .rare(),
        Column::words("now", "PROGRESS", 1, (28, 60), |facts, row| {
            of(facts, row, |run| Value::text(status_text(facts, run)))
        }),
        Column::words("run", "RUN", 6, (21, 24), |facts, row| {
            of(facts, row, |run| Value::text(run.name.as_str())).role(Role::Muted)
        }),
    ],
    collect: |facts, _: &RowScope| {
        (0..facts.acts.runs.len() as u32)
            .map(|at| (at, 0))
            .collect()
    },
    id: |facts, row| run(facts, row).map_or(0, |run| id_of(&run.name)),
    label: |_, _, _| None,
    selection: |facts, row| run(facts, row).map(|run| Selection::Run(Name::new(&run.name))),
    open: |facts, row| {
        run(facts, row).map(|run| Destination::Facts(Selection::Run(Name::new(&run.name))))
    },
    faulty: |facts, row| {
        run(facts, row).is_some_and(|run| {
            matches!(
                run.state,
                RunState::Failed | RunState::Incomplete | RunState::BrokenOff
            )
        })
    },
    worst: None,
    last: |_, _| false,
    searched: None,
    sort: None,
    none: "no runs from this machine on this cluster; capital letters open a plan",
};

fn run(facts: &Facts, row: Row) -> Option<&RunRow> {
    facts.acts.runs.get(row.0 as usize)
}

fn of<'a>(facts: &'a Facts, row: Row, make: impl FnOnce(&'a RunRow) -> Value<'a>) -> Cell<'a> {
    Cell::new(run(facts, row).map_or(Value::Unknown, make))
}

/// A run's state as a sign.
pub(super) const fn sign(state: RunState) -> (&'static str, Role) {
    match state {
        RunState::Running => ("◐", Role::Info),
        RunState::BrokenOff | RunState::Stopped | RunState::Incomplete => ("□", Role::Warn),
        RunState::Failed => ("×", Role::Crit),
        RunState::Done => ("✓", Role::Ok),
        RunState::Undone => ("↶", Role::Muted),
    }
}

/// The color of a step's state.
pub const fn color(stand: StepState) -> Role {
    match stand {
        StepState::Todo | StepState::Left => Role::Muted,
        StepState::Waiting => Role::Info,
        StepState::Unresolved => Role::Warn,
        StepState::Done | StepState::Already => Role::Ok,
        StepState::Failed => Role::Crit,
    }
}

/// Current step of the run, or why it stopped, and the state of the jobs that it has stopped.
fn status_text(facts: &Facts, run: &RunRow) -> String {
    let jobs = match run.state {
        RunState::Running => None,
        _ => run_jobs::in_sum(facts, run),
    };
    let own = at(run);
    match (own.is_empty(), jobs) {
        (_, None) => own,
        (true, Some(jobs)) => jobs,
        (false, Some(jobs)) => format!("{jobs}; {own}"),
    }
}

fn at(run: &RunRow) -> String {
    if !run.words.is_empty() {
        return run.words.clone();
    }
    let open = run.steps.iter().find(|step| !step.state.is_over());
    match (run.state, open) {
        (RunState::Done, _) | (_, None) => String::new(),
        (_, Some(step)) if step.note.is_empty() => step.words.clone(),
        (_, Some(step)) => format!("{}: {}", step.words, step.note),
    }
}

/// The runs, the one under the cursor below them, and room for what can be planned.
pub struct PlansView {
    table: TableView,
    /// The room below the run when it was last drawn; empty before.
    spare: std::cell::Cell<Rect>,
}

impl PlansView {
    /// The view of the runs behind a tab.
    pub fn new(id: ViewId, row_scope: RowScope) -> Self {
        Self {
            table: TableView::new(id, &KIND, row_scope),
            spare: std::cell::Cell::default(),
        }
    }
}

impl View for PlansView {
    fn id(&self) -> ViewId {
        self.table.id()
    }
    fn trail(&self) -> String {
        self.table.trail()
    }
    fn contexts(&self) -> &'static [Context] {
        PLANS
    }
    fn on(&mut self, command: Command, facts: &Facts, area: Rect) -> CommandOutcome {
        self.table.obey(command, facts, self.table_area(area))
    }
    fn table_area(&self, area: Rect) -> Rect {
        let rows = u16::try_from(self.table.table_model.rows().len()).unwrap_or(u16::MAX);
        let height = match (rows, area.height) {
            (_, ..16) => area.height,
            // Titles, and the words that there is no run.
            (0, _) => 3,
            (rows, all) => rows.saturating_add(1).clamp(2, all / 2),
        };
        Rect { height, ..area }
    }
    fn table(&self) -> Option<&TableView> {
        Some(&self.table)
    }
    fn table_mut(&mut self) -> Option<&mut TableView> {
        Some(&mut self.table)
    }
    fn room_for_actions(&self) -> Option<Rect> {
        Some(self.spare.get()).filter(|room| !room.is_empty())
    }

    fn draw(&self, facts: &Facts, painter: &mut Painter<'_>, area: Rect) {
        let above = self.table_area(area);
        self.table.draw(facts, painter, above);
        let mut below = Rect {
            x: area.x + 1,
            y: above.bottom() + 1,
            width: area.width.saturating_sub(2),
            height: area.height.saturating_sub(above.height + 1),
        };
        let run = self.table.selection(facts).filter(|_| below.height >= 4);
        if let Some(run) = run.and_then(|run| describe(facts, &run, painter)) {
            let none = Rect::new(0, 0, below.width.saturating_sub(4), 0);
            let wanted = draw_columns(painter, none, &run.lines).saturating_add(2);
            let height = below.height.min(wanted);
            draw_panel(painter, Rect { height, ..below }, &run, false);
            below.y += height;
            below.height -= height;
        }
        self.spare.set(below);
    }
}

const ACTIONS: &[ColumnHead] = &[
    ColumnHead::new("KEY", Align::Left, Width::Cut(3, 9), 0),
    ColumnHead::new("ACTION", Align::Left, Width::Cut(12, 14), 0),
    ColumnHead::new("WHAT IT PLANS", Align::Left, Width::Cut(24, 90), 0),
    ColumnHead::new("OFFERED FOR", Align::Left, Width::Cut(13, 60), 2),
    ColumnHead::new("ALLOWED", Align::Left, Width::Cut(9, 40), 0),
];

/// From this width on the columns of actions stand apart.
const WIDE: u16 = 170;

/// Draws what can be planned, an action a row, where all rows have room; where there is more room, with how each is typed and its rights.
pub fn draw_actions(painter: &mut Painter<'_>, area: Rect, facts: &Facts, keys: &Keymap) {
    let all = ActionName::ALL;
    let least = all.len() as u16 + 3;
    if area.height < least - 2 {
        return;
    }
    let (inside, each) = match area.height < least {
        true => (area, 1),
        false => {
            // (The last row needs no blank.)
            let each = ((area.height - 2) / all.len() as u16).min(3);
            let height = 3 + each * all.len() as u16 - u16::from(each == 3);
            let note = "put the cursor on the object, press the key; nothing is written before you confirm";
            let frame = Rect { height, ..area };
            (panel(painter, frame, "what can be planned", note), each)
        }
    };
    let rows: Vec<Vec<Cell<'_>>> = all
        .iter()
        .flat_map(|name| action_lines(*name, facts, keys, each))
        .collect();
    let wide = Rect {
        x: inside.x.saturating_sub(2),
        width: inside.width + 2,
        ..inside
    };
    // A reason is not cut: other columns give way.
    let own = |name: &ActionName| action_keys::barred(Command::Action(*name), facts);
    let widest = all.iter().filter_map(own).map(|why| painter.width(&why));
    let widest = widest.max();
    let mut heads = ACTIONS.to_vec();
    if area.width >= WIDE {
        // The columns share the whole width.
        heads[2].width = Width::Fit(area.width * 2 / 5);
        heads[3].width = Width::Fit(area.width * 2 / 7);
    }
    if let (Some(allowed), Some(widest)) = (heads.last_mut(), widest) {
        allowed.width = Width::Cut(widest.min(40), 40);
    }
    table(painter, wide, &heads, &[], &rows, &TableLook::default());
}

/// An action in `each` lines: what it is, then how it is typed, then nothing.
fn action_lines(
    name: ActionName,
    facts: &Facts,
    keys: &Keymap,
    each: u16,
) -> Vec<Vec<Cell<'static>>> {
    let spec = name.spec();
    let own = Command::Action(spec.done_by.unwrap_or(name));
    let key = keys.keys(Context::Global, own).first().copied();
    let barred = action_keys::barred(Command::Action(name), facts);
    let allowed = match (barred, &facts.acts.may) {
        (Some(why), _) => Cell::text(why).role(Role::Warn),
        (None, May::Unknown) => Cell::text("not known yet").role(Role::Muted),
        (None, _) => Cell::text("yes").role(Role::Ok),
    };
    let fits: Vec<&str> = spec.fits.iter().map(|kind| kind.name()).collect();
    let muted = |words: String| Cell::text(words).role(Role::Muted);
    let none = || Cell::new(Value::Empty);
    let lines = [
        vec![
            match key {
                Some(key) => Cell::text(key.to_string()).role(Role::Accent),
                None => none(),
            },
            Cell::text(spec.verb).role(Role::Title),
            Cell::text(spec.doc.trim_start_matches("plan: ")),
            Cell::text(fits.join(", ")),
            allowed,
        ],
        vec![
            none(),
            none(),
            muted(command_line(spec)),
            muted(rights(spec)),
            none(),
        ],
        vec![none(), none(), none(), none(), none()],
    ];
    lines.into_iter().take(usize::from(each)).collect()
}

/// The rights of an action: `needs patch jobs or patch workloads`.
fn rights(spec: &ActionSpec) -> String {
    let one = |(verb, _, resource, part): &(&str, &str, &str, &str)| match part.is_empty() {
        true => format!("{verb} {resource}"),
        false => format!("{verb} {resource}/{part}"),
    };
    let rights: Vec<String> = spec.rights.iter().map(one).collect();
    match rights.is_empty() {
        true => String::new(),
        false => format!("needs {}", rights.join(" or ")),
    }
}
