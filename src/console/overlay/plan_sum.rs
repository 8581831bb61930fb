//! What a plan does in sum, for screens on which not all of it fits: who is evicted, what is lost, what starts, what warns.

use std::collections::BTreeSet;

use crate::app::App;
use crate::text::counted;
use crate::theme::Role;
use crate::view::describe::Line;
use model::base::Moment;
use model::plan::{Effect, Forecast, JobName, Outcome, Plan, StartChange, Verb};
use table::text::{start_moves, with_hours};

use super::plan::Dialog;
use super::plan_words::lost_work;

/// Jobs of many that are named.
const NAMED: usize = 2;

/// The plan in a few lines.
pub(super) fn sum(dialog: &Dialog, plan: &Plan, app: &App) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut say = |label: &'static str, words: String, role| {
        let words = with_hours(&words, app.facts.now);
        lines.push(Line::Words(label.into(), words, role));
    };
    if let Some(words) = &dialog.changed {
        say("changed", words.clone(), Role::Warn);
    }
    let steps = counted(plan.steps.len() as u64, "step");
    let evicts = evicts(plan);
    let mut parts = vec![steps];
    parts.extend(evicts);
    parts.extend(freed(plan));
    if let Effect::Forecast(forecast) = &plan.effect {
        parts.extend(lost_work(forecast));
    }
    say("in sum", parts.join(", "), Role::Text);
    match &plan.effect {
        Effect::Unknown { why } => say("effect", format!("not known: {why}"), Role::Muted),
        Effect::Forecast(forecast) => {
            if let Some(words) = starts(forecast, app.facts.now) {
                say("starts", words, Role::Text);
            }
        }
    }
    if let Some(first) = plan.warnings.first() {
        let more = match plan.warnings.len() - 1 {
            0 => String::new(),
            more => format!(" (and {more} more below)"),
        };
        say("warning", format!("{first}{more}"), Role::Warn);
    }
    for check in &plan.checks {
        if check.outcome == Outcome::Failed {
            let words = format!("× {} fails: {}", check.name, check.sentence);
            say("checks", words, Role::Crit);
        }
    }
    let open = |outcome: Outcome| matches!(outcome, Outcome::NotChecked | Outcome::NotCheckableYet);
    let open: Vec<&str> = plan
        .checks
        .iter()
        .filter(|check| open(check.outcome))
        .map(|check| check.name.as_str())
        .collect();
    if !open.is_empty() {
        say(
            "checks",
            format!("○ not checked: {}", open.join(", ")),
            Role::Muted,
        );
    }
    if !plan.undo.possible {
        say("undo", String::from("cannot be undone"), Role::Warn);
    }
    lines
}

/// Who is evicted; `None` where that is not known.
fn evicts(plan: &Plan) -> Option<String> {
    let evictions = || {
        let steps = plan.steps.iter();
        steps.filter(|step| step.verb == Verb::Evict)
    };
    let pods = evictions().count() as u64;
    let jobs = evictions().filter_map(|step| step.job.as_ref().map(|job| &job.name));
    let of: BTreeSet<&JobName> = jobs.collect();
    let whole = plan.evicts().difference(&of).count() as u64;
    Some(match (pods, of.len() as u64, whole) {
        (0, _, 0) if matches!(plan.effect, Effect::Unknown { .. }) => return None,
        (0, _, 0) => String::from("evicts no running work"),
        (0, _, whole) => format!("evicts {}", counted(whole, "job")),
        (pods, of, whole) => {
            let of = match of {
                0 => String::new(),
                of => format!(" of {}", counted(of, "job")),
            };
            let whole = match whole {
                0 => String::new(),
                whole => format!(" and all pods of {}", counted(whole, "job")),
            };
            format!("evicts {}{of}{whole}", counted(pods, "pod"))
        }
    })
}

/// Devices that are given back; `None` where that is not known, or none are.
fn freed(plan: &Plan) -> Option<String> {
    let Effect::Forecast(forecast) = &plan.effect else {
        return None;
    };
    let devices: u64 = forecast
        .displaced
        .iter()
        .map(|one| u64::from(one.devices))
        .sum();
    (devices > 0).then(|| format!("frees {}", counted(devices, "device")))
}

/// What starts at once, and how many start at another time.
fn starts(forecast: &Forecast, now: Moment) -> Option<String> {
    let moved: Vec<&StartChange> = forecast
        .starts
        .iter()
        .filter(|change| start_moves(now, change).is_some())
        .collect();
    let at_once = |change: &&&StartChange| change.after.is_some_and(|after| after <= now);
    let first: Vec<String> = moved
        .iter()
        .filter(at_once)
        .map(|change| change.job.to_string())
        .collect();
    let later = moved.len() - first.len();
    let mut parts = Vec::new();
    if !first.is_empty() {
        let mut names = first[..first.len().min(NAMED)].join(", ");
        if first.len() > NAMED {
            names.push_str(&format!(" and {} more", first.len() - NAMED));
        }
        parts.push(format!("now: {names}"));
    }
    if later > 0 {
        parts.push(format!("at another time: {}", counted(later as u64, "job")));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}
