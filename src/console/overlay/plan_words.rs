//! A plan in words: its steps as rows of a table, its effect, checks and alternatives as lines.

use crate::app::App;
use crate::text::counted;
use crate::theme::Role;
use crate::view::describe::Line;
use crate::widget::{Cell, Value};
use model::base::{Age, Moment, Rate};
use model::plan::{Effect, Forecast, Mutation, Outcome, Plan, Step, Verb};
use model::usage::BudgetChange;
use table::Facts;
use table::text::{back, start_change, with_hours};

use super::key_hints::{by_key, key_of};
use super::plan::Dialog;

/// Steps that stand in one row: one, or a suspension with the resumption that follows it.
pub(super) struct Row<'a> {
    at: usize,
    step: &'a Step,
    then: Option<&'a Step>,
}

impl Row<'_> {
    /// The steps that are told once it is read.
    pub(super) fn last(&self) -> usize {
        self.at + 1 + usize::from(self.then.is_some())
    }
}

/// The steps as rows: what is only stopped to be started elsewhere is one row.
pub(super) fn rows(plan: &Plan) -> Vec<Row<'_>> {
    let mut rows: Vec<Row<'_>> = Vec::new();
    let mut at = 0;
    while let Some(step) = plan.steps.get(at) {
        let then = plan.steps.get(at + 1).filter(|next| {
            step.verb == Verb::Suspend && next.verb == Verb::Resume && next.object == step.object
        });
        rows.push(Row { at, step, then });
        at += 1 + usize::from(then.is_some());
    }
    rows
}

/// A row of steps.
pub(super) fn cells<'a>(row: &Row<'a>, facts: &'a Facts) -> Vec<Cell<'a>> {
    let (at, step) = (row.at, row.step);
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
    let class = step.job.as_ref().and_then(|of| {
        let jobs = facts.fleet.jobs.iter();
        let job = jobs.into_iter().find(|job| job.id.key == of.name.0)?;
        job.class.as_deref()
    });
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
        Cell::text(match row.then {
            None => format!("{:>2} {}", at + 1, step.verb.word()),
            Some(then) => format!(
                "{:>2}–{} {}, {}",
                at + 1,
                at + 2,
                step.verb.word(),
                then.verb.word()
            ),
        })
        .role(role),
        Cell::text(name).role(Role::Title).middle(),
        Cell::new(match (devices, class) {
            (None, _) => Value::Empty,
            (Some(count), None) => Value::Count(i64::from(count)),
            (Some(count), Some(class)) => Value::text(format!("{count} {class}")),
        }),
        Cell::new(lost),
        Cell::new(match cost {
            None => Value::Empty,
            Some(cost) => Value::known(cost, |micros| Value::text(dollars(micros))),
        })
        .role(Role::Accent),
        Cell::text(match row.then {
            None => with_hours(&how(step), facts.now),
            Some(then) => {
                let words = format!("{}, then {}", how(step), how(then));
                with_hours(&words, facts.now)
            }
        })
        .role(Role::Muted),
    ]
}

fn dollars(micros: i64) -> String {
    format!("${}", Rate::from_micros(micros))
}

/// The lever and what it touches besides.
fn how(step: &Step) -> String {
    let mut words = vec![match &step.lever {
        Mutation::Suspend { value } => format!("suspend = {value}"),
        Mutation::WorkloadActive { value } => format!("Kueue: active = {value}"),
        Mutation::WorkloadPriority { value } => format!("Kueue: priority {value}"),
        Mutation::KueuePriorityClass { name } => format!("Kueue: class {name}"),
        Mutation::StopPolicy { value } => format!("Kueue: stopPolicy {}", value.word()),
        Mutation::VolcanoCommand { action } => format!("Volcano: {}", action.word()),
        Mutation::VolcanoPriorityClass { name } => format!("Volcano: class {name}"),
        Mutation::VolcanoQueueWeight { value } => format!("Volcano: weight {value}"),
        Mutation::KaiPriorityClass { name } => format!("KAI: class {name}"),
        Mutation::Evict { .. } => String::from("eviction, budgets asked"),
        Mutation::Cordon { .. } => String::from("unschedulable, with who and why"),
        Mutation::Uncordon => String::from("schedulable again"),
        Mutation::Taint { key, effect, .. } => format!("taint {key}:{effect}"),
        Mutation::Untaint { key, effect } => format!("no taint {key}:{effect}"),
        Mutation::Ungate { gate } => format!("scheduling gate {gate} removed"),
        Mutation::Scale { replicas } => counted(u64::from(*replicas), "replica"),
        Mutation::Annotate { key, value } => match value {
            Some(value) => format!("{key}={value}"),
            None => format!("no {key}"),
        },
    }];
    let effects = &step.side_effects;
    if let Some(gang) = effects.gang_broken {
        words.push(format!("gang of {gang} stops"));
    }
    if effects.timer_reset {
        words.push(String::from("activeDeadlineSeconds restarts"));
    }
    if let Some(who) = &effects.overwritten_by {
        words.push(format!("{who} may write it back"));
    }
    words.extend(effects.notes.iter().cloned());
    words.join("; ")
}

/// Effect, checks, what could be done instead, what is to be known.
pub(super) fn about(dialog: &Dialog, plan: &Plan, app: &App) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut say = |label: &'static str, words: String, role| {
        let words = with_hours(&words, app.facts.now);
        lines.push(Line::Words(label.into(), words, role));
    };
    if let Some(words) = &dialog.changed {
        say("changed", words.clone(), Role::Warn);
    }
    match &plan.effect {
        Effect::Unknown { why } => say("effect", format!("not known: {why}"), Role::Muted),
        Effect::Forecast(forecast) => {
            let mut label = "effect";
            for words in effects(plan, forecast, app.facts.now) {
                say(label, words, Role::Text);
                label = "";
            }
        }
    }
    let mut label = "because";
    for reason in plan.reasons.iter().take(4) {
        say(label, by_key(reason, &app.options.keys), Role::Muted);
        label = "";
    }
    let mut label = "warning";
    for warning in &plan.warnings {
        say(label, by_key(warning, &app.options.keys), Role::Warn);
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
            Outcome::NotCheckableYet => ("○", "not checked: depends on earlier steps", Role::Muted),
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
        let keys = &app.options.keys;
        let key = other.command.as_deref().and_then(|line| key_of(line, keys));
        let key = key.map_or(String::new(), |key| format!(": {key}"));
        say(
            label,
            format!("{}{key}", by_key(&other.sentence, keys)),
            Role::Info,
        );
        label = "or";
    }
    let mut label = "undo";
    if !plan.undo.possible && plan.undo.notes.is_empty() {
        say(label, String::from("cannot be undone"), Role::Warn);
    }
    for note in &plan.undo.notes {
        say(label, note.clone(), Role::Muted);
        label = "";
    }
    let mut label = "options";
    for used in &plan.options {
        say(label, used.to_string(), Role::Muted);
        label = "";
    }
    lines
}

/// The first four of a list on jobs, and of how many more `what` is said, of one and of several.
fn first_four(mut lines: impl Iterator<Item = String>, [one, several]: [&str; 2]) -> Vec<String> {
    let mut said: Vec<String> = lines.by_ref().take(4).collect();
    let more = lines.count();
    if more > 0 {
        let what = if more == 1 { one } else { several };
        said.push(format!("{} {what}", counted(more as u64, "other job")));
    }
    said
}

/// The fleet afterwards, in lines.
fn effects(plan: &Plan, forecast: &Forecast, now: Moment) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(first_four(
        forecast
            .starts
            .iter()
            .filter_map(|change| start_change(now, plan, change)),
        ["starts at another time", "start at another time"],
    ));
    lines.extend(first_four(
        forecast.displaced.iter().map(|displaced| {
            let besides = match plan.is_evicted_besides(&displaced.job) {
                true => "is evicted by its scheduler, ",
                false => "",
            };
            let job = &displaced.job;
            let devices = counted(u64::from(displaced.devices), "device");
            let back = back(now, forecast, displaced);
            format!("{job} {besides}frees {devices}, {back}")
        }),
        ["is evicted", "are evicted"],
    ));
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
    rest.extend(lost_work(forecast));
    if let Some(change) = forecast
        .burn_change_micro_usd_per_hour
        .filter(|change| *change != 0)
    {
        let sign = if change < 0 { "-" } else { "+" };
        rest.push(format!("burn {sign}{}/h", dollars(change.saturating_abs())));
    }
    if !rest.is_empty() {
        lines.push(rest.join(" · "));
    }
    if lines.is_empty() {
        lines.push(String::from("no job starts or is evicted now"));
    }
    lines.extend(forecast.budgets.iter().map(BudgetChange::words));
    lines
}

/// The work that evicted jobs lose: in money, else in device-hours; unknown where neither is known of one of them. `None` where no
/// job is evicted.
pub(super) fn lost_work(forecast: &Forecast) -> Option<String> {
    if forecast.displaced.is_empty() {
        return None;
    }
    match (forecast.lost_micro_usd, forecast.lost_device_seconds) {
        (Some(lost), _) => Some(format!("lost work {}", dollars(lost))),
        (None, Some(seconds)) => {
            let hours = seconds as f64 / 3600.0;
            Some(format!("lost work {hours:.1} device-hours"))
        }
        (None, None) => Some(String::from("lost work unknown")),
    }
}
