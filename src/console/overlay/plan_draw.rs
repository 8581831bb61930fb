//! How the plan dialog looks: steps as a table, effect and checks below, what is typed at the foot.

use ratatui::layout::{Position, Rect};

use crate::base::{Age, Moment, Rate};
use crate::console::app::App;
use crate::console::brush::Brush;
use crate::console::text::{self, UNKNOWN, counted};
use crate::console::theme::Role;
use crate::console::view::describe::{Line, draw_lines};
use crate::console::view::plans::colour;
use crate::console::widget::panel::{centred, panel, popup};
use crate::console::widget::table::{Align, Head, Look, Width, table};
use crate::console::widget::{Cell, Value};
use crate::engine::plan::{Effect, Forecast, Lever, Outcome, Plan, Refusal, Step, Verb};
use crate::report::acts::{May, RunRow, RunState};

use super::plan::{Dialog, Focus, Phase, Wanted};

const fn head(title: &'static str, align: Align, width: Width, drop: u8) -> Head {
    Head {
        title,
        align,
        width,
        drop,
    }
}

const STEPS: &[Head] = &[
    head("STEP", Align::Left, Width::Cut(10, 16), 0),
    head("OBJECT", Align::Left, Width::Cut(14, 44), 0),
    head("DEVICES", Align::Right, Width::Fit(7), 2),
    head("WORK LOST", Align::Right, Width::Fit(9), 1),
    head("COST", Align::Right, Width::Fit(4), 3),
    head(
        "HOW, AND WHAT IT TOUCHES",
        Align::Left,
        Width::Cut(12, 60),
        4,
    ),
];

const PROGRESS: &[Head] = &[
    head("#", Align::Right, Width::Fit(2), 0),
    head("STEP", Align::Left, Width::Cut(20, 60), 0),
    head("STATE", Align::Left, Width::Cut(8, 18), 0),
    head("", Align::Left, Width::Cut(10, 60), 1),
];

/// Draws it; returns where the cursor stands in what is typed.
pub(super) fn draw(
    dialog: &Dialog,
    app: &App,
    brush: &mut Brush<'_>,
    area: Rect,
) -> Option<Position> {
    match &dialog.phase {
        Phase::Value(wanted) => Some(draw_value(dialog, wanted, app, brush, area)),
        Phase::Computing => {
            let frame = centred(area, 60.min(area.width), 3);
            let inside = popup(brush, frame, "PLAN", "");
            let words = "working it out on the latest picture…";
            brush.say(inside.x, inside.y, inside.width, words, Role::Muted);
            None
        }
        Phase::Refused(refusal) => {
            draw_refused(refusal, brush, area);
            None
        }
        Phase::Failed(why) => {
            let lines = vec![
                Line::Words("".into(), why.clone(), Role::Crit),
                Line::Gap,
                Line::Words("".into(), String::from("esc closes"), Role::Muted),
            ];
            draw_box(brush, area, "PLAN  could not be made", &lines);
            None
        }
        Phase::Shown(plan) | Phase::Sent(plan) => draw_plan(dialog, plan, app, brush, area),
        Phase::Runs(name) | Phase::Stands(name) => {
            draw_run(dialog, app.facts.acts.run(name), name, brush, area);
            None
        }
    }
}

fn draw_box(brush: &mut Brush<'_>, area: Rect, title: &str, lines: &[Line]) {
    let width = 90.min(area.width);
    let none = Rect::new(0, 0, width.saturating_sub(4), 0);
    let high = draw_lines(brush, none, lines, 0);
    let height = u16::try_from(high + 2).unwrap_or(u16::MAX);
    let inside = popup(brush, centred(area, width, height), title, "");
    draw_lines(brush, inside, lines, 0);
}

fn draw_refused(refusal: &Refusal, brush: &mut Brush<'_>, area: Rect) {
    let mut lines = vec![Line::Words(
        "no plan".into(),
        refusal.sentence.clone(),
        Role::Warn,
    )];
    let mut label = "instead";
    for instead in &refusal.instead {
        lines.push(Line::Words(label.into(), instead.clone(), Role::Text));
        label = "or";
    }
    lines.push(Line::Gap);
    let closing = String::from("nothing was changed; esc closes");
    lines.push(Line::Words("".into(), closing, Role::Muted));
    draw_box(brush, area, "PLAN  there is none", &lines);
}

fn draw_value(
    dialog: &Dialog,
    wanted: &Wanted,
    app: &App,
    brush: &mut Brush<'_>,
    area: Rect,
) -> Position {
    let (title, hint) = match wanted {
        Wanted::Priority(job) => {
            let classes: Vec<String> = app
                .facts
                .fleet
                .priority_classes
                .iter()
                .filter(|class| !class.name.starts_with("system-"))
                .map(|class| format!("{} {}", class.name, class.value))
                .collect();
            let now = app
                .facts
                .fleet
                .jobs
                .iter()
                .find(|known| known.id.key == job.0);
            let now = now.and_then(|job| job.priority);
            let now = now.map_or(UNKNOWN.to_owned(), |now| now.to_string());
            let known = match classes.is_empty() {
                true => String::new(),
                false => format!("; classes: {}", classes.join(", ")),
            };
            let hint = format!("now {now}; a number, or the name of a class{known}");
            (format!("PLAN  priority of {job}"), hint)
        }
        Wanted::Cordon(nodes) => {
            let what = match nodes.as_slice() {
                [one] => one.to_string(),
                many => counted(many.len() as u64, "node"),
            };
            let hint = String::from("why? it is written on the node for whoever comes next");
            (format!("PLAN  cordon {what}"), hint)
        }
    };
    let width = 80.min(area.width);
    let inner = usize::from(width.saturating_sub(4));
    let mut hints = text::wrap(&text::clean(&hint, brush.ink.ascii), inner);
    hints.truncate(4);
    let height = hints.len() as u16 + 5;
    let inside = popup(brush, centred(area, width, height), &title, "");
    let mut y = inside.y;
    for line in &hints {
        brush.say(inside.x, y, inside.width, line, Role::Muted);
        y += 1;
    }
    y += 1;
    brush.say(inside.x, y, 2, "▸", Role::Accent);
    let position = dialog
        .value
        .draw(brush, inside.x + 2, y, inside.width.saturating_sub(2));
    let (words, role) = match &dialog.error {
        Some(error) => (error.as_str(), Role::Crit),
        None => ("enter makes the plan, esc cancels", Role::Muted),
    };
    brush.say(inside.x, y + 1, inside.width, words, role);
    position
}

fn draw_plan(
    dialog: &Dialog,
    plan: &Plan,
    app: &App,
    brush: &mut Brush<'_>,
    area: Rect,
) -> Option<Position> {
    let width = area
        .width
        .saturating_sub(if area.width > 100 { 8 } else { 0 })
        .min(150);
    let may = dialog.may(app);
    let lines = about(dialog, plan, app);
    let none = Rect::new(0, 0, width.saturating_sub(4), 0);
    let below = draw_lines(brush, none, &lines, 0) as u16;
    // Head and steps, air, what is known, air, fields, foot.
    let fields: u16 = if may { 3 } else { 0 };
    let steps = plan.steps.len() as u16 + 1;
    let wanted = steps + 1 + below + 1 + fields + 1 + 2;
    let frame = centred(area, width, wanted);
    let title = format!("PLAN  {}  on {}", plan.title, app.facts.context);
    let note = format!("computed {} ago", brush.age(plan.computed_at));
    let inside = popup(brush, frame, &title, &note);
    let foot = inside.bottom().saturating_sub(1);
    let room = inside.height.saturating_sub(fields + 1);
    // Where room is short, what is known of the plan goes before its last steps do.
    let high = steps
        .min((room / 2).max(room.saturating_sub(below + 1)))
        .min(room);
    let shown = usize::from(high.saturating_sub(1));
    let skip = dialog.skip.min(plan.steps.len().saturating_sub(shown));
    let rows: Vec<Vec<Cell<'_>>> = plan
        .steps
        .iter()
        .enumerate()
        .skip(skip)
        .take(shown)
        .map(|(at, step)| cells(at, step))
        .collect();
    let wide = Rect::new(inside.x - 2, inside.y, inside.width + 2, high);
    table(brush, wide, STEPS, &[], &rows, &Look::default());
    let y = inside.y + high + u16::from(room > high + below);
    let left = Rect::new(
        inside.x,
        y,
        inside.width,
        (inside.y + room).saturating_sub(y),
    );
    // Scrolled beyond the steps, what is known of it moves on.
    let beyond = dialog.skip.saturating_sub(skip);
    let most = usize::from(below.saturating_sub(left.height));
    draw_lines(brush, left, &lines, beyond.min(most));
    let hidden = plan.steps.len().saturating_sub(shown) + most;
    draw_foot(dialog, app, brush, inside, hidden);
    if !may || inside.height < fields + 2 {
        return None;
    }
    draw_fields(
        dialog,
        plan,
        app,
        brush,
        Rect::new(inside.x, foot - fields, inside.width, fields),
    )
}

fn draw_foot(dialog: &Dialog, app: &App, brush: &mut Brush<'_>, inside: Rect, hidden: usize) {
    let y = inside.bottom().saturating_sub(1);
    let scroll = if hidden > 0 {
        "   tab, then j k: the rest"
    } else {
        ""
    };
    let (words, role) = match (&dialog.error, &dialog.phase, &app.facts.acts.may) {
        (Some(error), ..) => (error.clone(), Role::Crit),
        (None, Phase::Sent(_), _) => (String::from("confirmed: it is on its way…"), Role::Info),
        (None, _, May::No { sentence, .. }) => (format!("{sentence}{scroll}"), Role::Warn),
        (None, ..) => (
            format!(
                "nothing is written before you confirm; it stops at the first failure and can be undone from 9 plans{scroll}"
            ),
            Role::Muted,
        ),
    };
    brush.say(inside.x, y, inside.width, &words, role);
}

fn draw_fields(
    dialog: &Dialog,
    plan: &Plan,
    app: &App,
    brush: &mut Brush<'_>,
    area: Rect,
) -> Option<Position> {
    let grave = plan.is_grave();
    let half = if grave { area.width / 2 } else { area.width };
    let mut cursor = None;
    let first = Rect::new(area.x, area.y, half.saturating_sub(u16::from(grave)), 3);
    let inside = panel(brush, first, "reason, for the log", "");
    let at = dialog.reason.draw(brush, inside.x, inside.y, inside.width);
    if dialog.focus == Focus::Reason {
        cursor = Some(at);
    }
    if grave {
        let wanted = plan.typed(&app.facts.context);
        let second = Rect::new(area.x + half, area.y, area.width - half, 3);
        let inside = panel(brush, second, &format!("type {wanted} to confirm"), "");
        let at = dialog.typed.draw(brush, inside.x, inside.y, inside.width);
        let typed = dialog.typed.text();
        if let Some(rest) = wanted.strip_prefix(typed).filter(|rest| !rest.is_empty()) {
            let used = brush.width(typed);
            let left = inside.width.saturating_sub(used);
            brush.say(inside.x + used, inside.y, left, rest, Role::Muted);
        }
        if dialog.focus == Focus::Typed {
            cursor = Some(at);
        }
    }
    cursor
}

fn cells(at: usize, step: &Step) -> Vec<Cell<'_>> {
    let effects = &step.side_effects;
    let role = match step.verb {
        Verb::Suspend | Verb::Evict | Verb::Hold | Verb::Cordon | Verb::Taint => Role::Warn,
        Verb::Resume | Verb::Admit | Verb::Uncordon | Verb::Untaint | Verb::Release => Role::Ok,
        Verb::Reprioritise | Verb::Scale | Verb::Mark => Role::Text,
    };
    let object = &step.object;
    let name = if object.namespace.is_empty() {
        format!("{} {}", object.kind, object.name)
    } else {
        format!("{}/{}", object.namespace, object.name)
    };
    let devices = step.job.as_ref().and_then(|job| job.devices);
    let lost = effects.loss.as_ref();
    let per_device = lost.and_then(|loss| {
        let devices = u64::from(devices?).max(1);
        Some(Age::from_seconds(loss.device_seconds? / devices).to_string())
    });
    let lost = match (lost, per_device) {
        (None, _) => Value::Empty,
        (Some(_), Some(span)) => Value::text(span),
        (Some(_), None) => Value::Unknown,
    };
    let cost = effects.loss.as_ref().map(|loss| loss.micro_usd);
    vec![
        Cell::text(format!("{:>2} {}", at + 1, step.verb.word())).role(role),
        Cell::text(name).role(Role::Title),
        Cell::new(devices.map_or(Value::Empty, |count| Value::Count(i64::from(count)))),
        Cell::new(lost),
        Cell::new(match cost {
            None => Value::Empty,
            Some(cost) => Value::known(cost, |micros| Value::text(dollars(micros))),
        })
        .role(Role::Accent),
        Cell::text(how(step)).role(Role::Muted),
    ]
}

fn dollars(micros: i64) -> String {
    format!("${}", Rate::from_micros(micros))
}

/// The lever and what it touches besides.
fn how(step: &Step) -> String {
    let mut words = vec![match &step.lever {
        Lever::Suspend { value } => format!("suspend = {value}"),
        Lever::WorkloadActive { value } => format!("Kueue: active = {value}"),
        Lever::WorkloadPriority { value } => format!("Kueue: priority {value}"),
        Lever::KueuePriorityClass { name } => format!("Kueue: class {name}"),
        Lever::StopPolicy { value } => format!("Kueue: stopPolicy {}", value.word()),
        Lever::VolcanoCommand { action } => format!("Volcano: {}", action.word()),
        Lever::VolcanoPriorityClass { name } => format!("Volcano: class {name}"),
        Lever::VolcanoQueueWeight { value } => format!("Volcano: weight {value}"),
        Lever::KaiPriorityClass { name } => format!("KAI: class {name}"),
        Lever::Evict { .. } => String::from("eviction, budgets asked"),
        Lever::Cordon { .. } => String::from("unschedulable, with who and why"),
        Lever::Uncordon => String::from("schedulable again"),
        Lever::Taint { key, effect, .. } => format!("taint {key}:{effect}"),
        Lever::Untaint { key, effect } => format!("no taint {key}:{effect}"),
        Lever::Ungate { gate } => format!("gate {gate} taken off"),
        Lever::Scale { replicas } => counted(u64::from(*replicas), "replica"),
        Lever::Annotate { key, value } => match value {
            Some(value) => format!("{key}={value}"),
            None => format!("no {key}"),
        },
    }];
    let effects = &step.side_effects;
    if let Some(gang) = effects.gang_broken {
        words.push(format!("gang of {gang} stops"));
    }
    if effects.timer_reset {
        words.push(String::from("its timer starts anew"));
    }
    if let Some(who) = &effects.overwritten_by {
        words.push(format!("{who} may write it back"));
    }
    words.extend(effects.notes.iter().cloned());
    words.join("; ")
}

/// Effect, checks, what could be done instead, what is to be known.
fn about(dialog: &Dialog, plan: &Plan, app: &App) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut say = |label: &'static str, words: String, role| {
        lines.push(Line::Words(label.into(), words, role));
    };
    let mut label = "changed";
    for words in &dialog.changed {
        say(label, words.clone(), Role::Warn);
        label = "";
    }
    match &plan.effect {
        Effect::Unknown { why } => say("effect", format!("not known: {why}"), Role::Muted),
        Effect::Forecast(forecast) => {
            let mut label = "effect";
            for words in effects(forecast, app.facts.now) {
                say(label, words, Role::Text);
                label = "";
            }
        }
    }
    let mut label = "because";
    for reason in plan.reasons.iter().take(4) {
        say(label, reason.clone(), Role::Muted);
        label = "";
    }
    let mut label = "warning";
    for warning in &plan.warnings {
        say(label, warning.clone(), Role::Warn);
        label = "";
    }
    let fine: Vec<String> = plan
        .checks
        .iter()
        .filter(|check| check.outcome == Outcome::Ok)
        .map(|check| format!("✓ {}", check.name))
        .collect();
    let mut label = "checks";
    if !fine.is_empty() {
        say(label, fine.join("   "), Role::Ok);
        label = "";
    }
    for check in &plan.checks {
        let (sign, words, role) = match check.outcome {
            Outcome::Ok => continue,
            Outcome::Failed => ("×", "fails", Role::Crit),
            Outcome::NotCheckableYet => ("○", "not checkable yet", Role::Muted),
            Outcome::NotChecked => ("○", "not checked", Role::Muted),
        };
        let more = match check.sentence.is_empty() {
            true => String::new(),
            false => format!(": {}", check.sentence),
        };
        say(label, format!("{sign} {} {words}{more}", check.name), role);
        label = "";
    }
    let mut label = "instead";
    for other in &plan.alternatives {
        say(label, other.sentence.clone(), Role::Info);
        label = "or";
    }
    let mut label = "undo";
    if !plan.undo.possible && plan.undo.notes.is_empty() {
        say(label, String::from("cannot be taken back"), Role::Warn);
    }
    for note in &plan.undo.notes {
        say(label, note.clone(), Role::Muted);
        label = "";
    }
    lines
}

/// The fleet afterwards, in lines.
fn effects(forecast: &Forecast, now: Moment) -> Vec<String> {
    let when = |at: Option<Moment>| match at {
        None => String::from("at an unknown time"),
        Some(at) if at <= now => String::from("now"),
        Some(at) => format!("in {}", at.since(now)),
    };
    let mut lines = Vec::new();
    for change in forecast.starts.iter().take(4) {
        lines.push(format!(
            "{} ({}) starts {} instead of {}",
            change.job,
            counted(u64::from(change.devices), "device"),
            when(change.after),
            when(change.before)
        ));
    }
    if forecast.starts.len() > 4 {
        let more = forecast.starts.len() - 4;
        lines.push(format!(
            "{} start at another time",
            counted(more as u64, "other job")
        ));
    }
    for displaced in forecast.displaced.iter().take(4) {
        lines.push(format!(
            "{} gives back {}, back {}",
            displaced.job,
            counted(u64::from(displaced.devices), "device"),
            when(displaced.back)
        ));
    }
    if forecast.displaced.len() > 4 {
        let more = forecast.displaced.len() - 4;
        lines.push(format!(
            "{} leave their devices",
            counted(more as u64, "other job")
        ));
    }
    let mut rest: Vec<String> = forecast
        .pools
        .iter()
        .take(4)
        .map(|pool| {
            format!(
                "{} {} → {} of {}",
                pool.pool, pool.allocated_before, pool.allocated_after, pool.devices
            )
        })
        .collect();
    if let Some(lost) = forecast.lost_micro_usd {
        rest.push(format!("lost work {}", dollars(lost)));
    } else if let Some(seconds) = forecast.lost_device_seconds {
        rest.push(format!(
            "lost work {:.1} device-hours",
            seconds as f64 / 3600.0
        ));
    }
    if let Some(change) = forecast
        .burn_change_micro_usd_per_hour
        .filter(|change| *change != 0)
    {
        let sign = if change < 0 { "-" } else { "+" };
        rest.push(format!("burn {sign}{}/h", dollars(change.saturating_abs())));
    }
    if !rest.is_empty() {
        lines.push(rest.join("   "));
    }
    if lines.is_empty() {
        lines.push(String::from("nothing starts, stops or moves by it"));
    }
    lines
}

fn draw_run(dialog: &Dialog, run: Option<&RunRow>, name: &str, brush: &mut Brush<'_>, area: Rect) {
    let width = area
        .width
        .saturating_sub(if area.width > 100 { 8 } else { 0 })
        .min(130);
    let Some(run) = run else {
        let frame = centred(area, 60.min(area.width), 3);
        let inside = popup(brush, frame, "PLAN  begins", "");
        let words = format!("run {name}");
        brush.say(inside.x, inside.y, inside.width, &words, Role::Muted);
        return;
    };
    let wanted = run.steps.len() as u16 + 1 + 3 + 2;
    let frame = centred(area, width, wanted);
    let title = format!("PLAN  {}", run.title);
    let note = format!(
        "{} of {} · begun {} ago",
        run.over(),
        run.steps.len(),
        brush.age(run.begun)
    );
    let inside = popup(brush, frame, &title, &note);
    let high = inside.height.saturating_sub(3);
    let shown = usize::from(high.saturating_sub(1));
    let open = run.steps.iter().position(|step| !step.stand.is_over());
    // The step that it is at stays in sight, unless somebody scrolls.
    let most = run.steps.len().saturating_sub(shown);
    let skip = match (dialog.skip, open) {
        (0, Some(at)) => at.saturating_sub(shown / 2).min(most),
        (0, None) => most,
        (skip, _) => (skip - 1).min(most),
    };
    let rows: Vec<Vec<Cell<'_>>> = run
        .steps
        .iter()
        .enumerate()
        .skip(skip)
        .take(shown)
        .map(|(at, step)| {
            vec![
                Cell::new(Value::Count(at as i64 + 1)).role(Role::Muted),
                Cell::text(step.words.as_str()),
                Cell::text(step.stand.name()).role(colour(step.stand)),
                Cell::text(step.note.as_str()).role(Role::Muted),
            ]
        })
        .collect();
    let wide = Rect::new(inside.x - 2, inside.y, inside.width + 2, high);
    table(brush, wide, PROGRESS, &[], &rows, &Look::default());
    let (words, role) = match (&dialog.error, run.state) {
        (Some(error), _) => (error.clone(), Role::Crit),
        _ if matches!(dialog.phase, Phase::Stands(_)) => (
            format!("{}: enter goes on with it, esc leaves it", run.state.name()),
            Role::Warn,
        ),
        (None, state) => ends(run, state),
    };
    let foot = Rect::new(inside.x, inside.y + high + 1, inside.width, 2);
    let words = text::clean(&words, brush.ink.ascii).into_owned();
    let parts = text::wrap(&words, usize::from(foot.width));
    for (at, part) in parts.iter().take(2).enumerate() {
        brush.say(foot.x, foot.y + at as u16, foot.width, part, role);
    }
}

/// What can be done about a run as it stands.
fn ends(run: &RunRow, state: RunState) -> (String, Role) {
    match state {
        RunState::Running => (
            String::from("esc leaves it running in 9 plans; ctrl-c stops after the current step"),
            Role::Muted,
        ),
        RunState::Done => (String::from("done; U takes it back, esc closes"), Role::Ok),
        RunState::Stopped | RunState::BrokenOff => (
            format!(
                "{}; H in 9 plans goes on with it, U takes back what was done",
                run.state.name()
            ),
            Role::Warn,
        ),
        RunState::Failed => (
            format!(
                "{}; nothing was sent after it; U takes back what was done",
                run.words
            ),
            Role::Crit,
        ),
    }
}
