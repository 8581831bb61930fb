//! A plan as text: steps as table rows; effects, checks and alternatives as lines.

use crate::screen::Screen;
use crate::text::counted;
use crate::view::describe::{LABEL, Line};
use engine::options;
use model::base::{Age, Moment};
use model::cost::BudgetChange;
use model::cost::LIST_NOTE;
use model::plan::{Forecast, Mutation, Outcome, Plan, PlanEffect, StartChange, Step, Verb};
use table::Facts;
use table::cell::{Cell, Value};
use table::plan_steps::{CommonPhrases, verb_title};
use table::role::Role;
use table::rows::lost_work;
use table::spend::dollars;
use table::text::{back, start_change, with_hours};

use super::key_hints::{key_of, with_keys};
use super::plan::Dialog;

/// The steps of one row: one step, or a suspension with the resumption that follows it.
pub(super) struct PlanStepRow<'a> {
    at: usize,
    step: &'a Step,
    then: Option<&'a Step>,
}

impl PlanStepRow<'_> {
    /// The number of steps completed once the row is read.
    pub(super) fn last(&self) -> usize {
        self.at + 1 + usize::from(self.then.is_some())
    }
}

/// The steps as rows: a job that is stopped only to start elsewhere is one row.
pub(super) fn rows(plan: &Plan) -> Vec<PlanStepRow<'_>> {
    let mut rows: Vec<PlanStepRow<'_>> = Vec::new();
    let mut at = 0;
    while let Some(step) = plan.steps.get(at) {
        let then = plan.steps.get(at + 1).filter(|next| {
            step.verb == Verb::Suspend && next.verb == Verb::Resume && next.object == step.object
        });
        rows.push(PlanStepRow { at, step, then });
        at += 1 + usize::from(then.is_some());
    }
    rows
}

pub(super) fn cells<'a>(
    row: &PlanStepRow<'a>,
    common: &CommonPhrases,
    facts: &'a Facts,
) -> Vec<Cell<'a>> {
    let how = |step: &Step| common.rest(step, phrases(step)).join("; ");
    let (at, step) = (row.at, row.step);
    let effects = &step.side_effects;
    let role = match step.verb {
        Verb::Suspend | Verb::Evict | Verb::Hold | Verb::Cordon | Verb::Taint => Role::Warn,
        Verb::Resume | Verb::Admit | Verb::Uncordon | Verb::Untaint | Verb::Release => Role::Ok,
        Verb::Reprioritise | Verb::Scale | Verb::Mark => Role::Text,
    };
    let object = &step.object;
    let name = if let Some(job) = step.job_of_workload() {
        job.to_string()
    } else if object.namespace.is_empty() {
        format!("{} {}", object.kind, object.name)
    } else {
        format!("{}/{}", object.namespace, object.name)
    };
    let devices = step.job.as_ref().and_then(|job| job.devices);
    let class = step.job.as_ref().and_then(|of| {
        let jobs = facts.fleet.jobs.iter();
        let job = jobs.into_iter().find(|job| job.id.key == of.name.0)?;
        table::rows::jobs::class_words(job)
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
    let cost = effects.loss.as_ref().map(lost_work::cost);
    vec![
        Cell::text(match row.then {
            None => format!("{:>2} {}", at + 1, verb_title(step.verb)),
            Some(then) => format!(
                "{:>2}–{} {}, {}",
                at + 1,
                at + 2,
                verb_title(step.verb),
                verb_title(then.verb)
            ),
        })
        .role(role),
        Cell::text(name).role(Role::Title).middle(),
        Cell::new(match (devices, class) {
            (None, _) => Value::Empty,
            // As on the page of a job that waits.
            (Some(count), class) if step.frees_nothing() => {
                let class = class.map_or_else(String::new, |class| format!(" {class}"));
                Value::text(format!("0 of {count}{class}"))
            }
            (Some(count), None) => Value::Count(i64::from(count)),
            (Some(count), Some(class)) => Value::text(format!("{count} {class}")),
        }),
        Cell::new(lost),
        Cell::new(match cost {
            None => Value::Empty,
            Some(cost) => Value::known(cost, Value::text),
        }),
        {
            let words = match row.then.map(how).filter(|then| !then.is_empty()) {
                None => how(step),
                Some(then) => format!("{}; then {then}", how(step)),
            };
            match words.is_empty() {
                true => Cell::new(Value::Empty),
                false => Cell::text(with_hours(&words, facts.now)).role(Role::Muted),
            }
        },
    ]
}

/// The phrases that all steps of a verb share: they are shown once.
pub(super) fn common(plan: &Plan) -> CommonPhrases {
    CommonPhrases::of(plan, phrases)
}

/// The mutation and its side effects.
fn phrases(step: &Step) -> Vec<String> {
    let mut words = vec![match &step.mutation {
        Mutation::Suspend { value } => format!("suspend = {value}"),
        Mutation::WorkloadActive { value } => format!("Kueue: active = {value}"),
        Mutation::WorkloadPriority { value } => format!("Kueue: priority {value}"),
        Mutation::KueuePriorityClass { name } => format!("Kueue: class {name}"),
        Mutation::StopPolicy { value } => format!("Kueue: stopPolicy {}", value.word()),
        Mutation::VolcanoCommand { action } => format!("Volcano: {}", action.word()),
        Mutation::VolcanoPriorityClass { name } => format!("Volcano: class {name}"),
        Mutation::VolcanoQueueWeight { value } => format!("Volcano: weight {value}"),
        Mutation::KaiPriorityClass { name } => format!("KAI priority class {name}"),
        Mutation::Evict { .. } => String::from("eviction, PDBs checked"),
        Mutation::Cordon { .. } => String::from("cordon, and record who and why"),
        Mutation::Uncordon => String::from("schedulable again"),
        Mutation::Taint { key, effect, .. } => format!("taint {key}:{effect}"),
        Mutation::Untaint { key, effect } => format!("remove taint {key}:{effect}"),
        Mutation::Ungate { gate } => format!("scheduling gate {gate} removed"),
        Mutation::Scale { replicas } => counted(u64::from(*replicas), "replica"),
        Mutation::Annotate { key, value } => match value {
            Some(value) => format!("{key}={value}"),
            None => format!("remove {key}"),
        },
    }];
    let effects = &step.side_effects;
    if let Some(gang) = effects.gang_broken {
        words.push(format!("gang of {gang} stops"));
    }
    if effects.timer_reset {
        words.push(String::from("its time limit starts over"));
    }
    if let Some(who) = &effects.overwritten_by {
        words.push(format!("{who} may revert it"));
    }
    words.extend(effects.notes.iter().cloned());
    words
}

/// What a check has not shown, in words; `None` where it found all well.
pub(super) const fn unfinished(outcome: Outcome) -> Option<&'static str> {
    match outcome {
        Outcome::Ok => None,
        Outcome::Failed => Some("fails"),
        Outcome::NotCheckableYet => Some("checked in part"),
        Outcome::NotChecked => Some("not checked"),
    }
}

/// Effects, checks, alternatives and notes, in lines of `width` cells.
pub(super) fn about(
    dialog: &Dialog,
    plan: &Plan,
    common: &CommonPhrases,
    screen: &dyn Screen,
    width: u16,
) -> Vec<Line> {
    let now = screen.facts().now;
    let line = |label: &'static str, words: String, role| {
        Line::Words(label.into(), with_hours(&words, now), role)
    };
    let mut lines = Vec::new();
    if let Some(words) = dialog.changed() {
        lines.push(line("changed", words, Role::Warn));
    }
    match &plan.effect {
        PlanEffect::Unknown { why } => {
            lines.push(line("effect", format!("unknown: {why}"), Role::Muted));
        }
        PlanEffect::Forecast(forecast) => {
            let mut label = "effect";
            for words in effects(plan, forecast, now) {
                lines.push(line(label, words, Role::Text));
                label = "";
            }
            let room = usize::from(width.saturating_sub(LABEL.min(width / 3)));
            let losses = lost_work::lines(plan, forecast, now, room, LOSERS);
            if !losses.is_empty() {
                lines.push(Line::Table("lost work", losses));
            }
        }
    }
    let mut say = |label, words, role| lines.push(line(label, words, role));
    let mut label = "how";
    for words in common.sentences() {
        say(label, words, Role::Muted);
        label = "";
    }
    let mut label = "reason";
    for reason in plan.reasons.iter().take(4) {
        say(label, with_keys(reason, screen.keys()), Role::Muted);
        label = "";
    }
    let mut label = "warning";
    for warning in &plan.warnings {
        say(label, with_keys(warning, screen.keys()), Role::Warn);
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
        let Some(words) = unfinished(check.outcome) else {
            continue;
        };
        let (sign, role) = match check.outcome {
            Outcome::Failed => ("×", Role::Crit),
            _ => ("○", Role::Muted),
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
        let keys = screen.keys();
        let key = other.command.as_deref().and_then(|line| key_of(line, keys));
        let key = key.map_or(String::new(), |key| format!(": {key}"));
        say(
            label,
            format!("{}{key}", with_keys(&other.sentence, keys)),
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
    let mut label = "settings";
    for used in options::changed(&plan.options) {
        say(label, used.to_string(), Role::Muted);
        label = "";
    }
    lines
}

/// The number of jobs with a line of their own.
const NAMED: usize = 4;

/// The number of jobs of a team with a line of their own among those that lose work.
const LOSERS: usize = 4;

/// The line for the remaining jobs, singular and plural: `2 other jobs start earlier`; `None` for zero.
fn others(count: usize, [one, several]: [&str; 2]) -> Option<String> {
    let what = if count == 1 { one } else { several };
    (count > 0).then(|| format!("{} {what}", counted(count as u64, "other job")))
}

/// Effects on the fleet, in lines.
fn effects(plan: &Plan, forecast: &Forecast, now: Moment) -> Vec<String> {
    let mut lines = Vec::new();
    let mut moved = forecast
        .starts
        .iter()
        .filter_map(|change| Some((start_change(now, plan, change)?, change)));
    lines.extend(moved.by_ref().take(NAMED).map(|(words, _)| words));
    let (first, rest): (Vec<&StartChange>, Vec<&StartChange>) = moved
        .map(|(_, change)| change)
        .partition(|it| it.is_at_once(now));
    let (earlier, later): (Vec<&StartChange>, Vec<&StartChange>) =
        rest.into_iter().partition(|it| it.is_earlier());
    lines.extend(others(first.len(), ["starts now", "start now"]));
    lines.extend(others(earlier.len(), ["starts earlier", "start earlier"]));
    lines.extend(others(later.len(), ["starts later", "start later"]));
    lines.extend(lost_work::apart(forecast).iter().map(|displaced| {
        let besides = match plan.is_evicted_besides(&displaced.job) {
            true => "is evicted by its scheduler, ",
            false => "",
        };
        let job = &displaced.job;
        let devices = counted(u64::from(displaced.devices), "device");
        let back = back(now, forecast, displaced);
        format!("{job} {besides}frees {devices}, {back}")
    }));
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
    rest.extend(total_lost(forecast));
    if let Some(change) = forecast
        .burn_change_micro_usd_per_hour
        .filter(|change| *change != 0)
    {
        let sign = if change < 0 { "-" } else { "+" };
        rest.push(format!("rate {sign}{}/h", dollars(change.saturating_abs())));
    }
    if !rest.is_empty() {
        lines.push(rest.join(" · "));
    }
    if lines.is_empty() {
        lines.push(String::from("no job starts or is evicted now"));
    }
    lines.extend(forecast.budgets.iter().map(BudgetChange::words));
    if forecast.displaced.iter().any(|one| one.loss.by_list) {
        lines.push(LIST_NOTE.to_owned());
    }
    lines
}

/// Lost work of the evicted jobs: in money, otherwise in device-hours; unknown where a job has neither. `None` where no job is evicted.
pub(super) fn total_lost(forecast: &Forecast) -> Option<String> {
    if forecast.displaced.is_empty() {
        return None;
    }
    match (
        lost_work::total_cost(forecast),
        forecast.lost_device_seconds,
    ) {
        (Some(lost), _) => Some(format!("lost work {lost}")),
        (None, Some(seconds)) => {
            let hours = seconds as f64 / 3600.0;
            Some(format!("lost work {hours:.1} device-hours"))
        }
        (None, None) => Some(String::from("lost work unknown")),
    }
}
