//! The summary of a plan for small screens: evictions, lost work, starts, warnings.

use std::collections::BTreeSet;

use crate::screen::Screen;
use crate::text::counted;
use crate::view::describe::Line;
use model::base::Moment;
use model::plan::{Forecast, JobName, Outcome, Plan, PlanEffect, StartChange, Verb};
use table::role::Role;
use table::text::{start_moves, with_hours};

use super::plan::Dialog;
use super::plan_words::{total_lost, unfinished};

/// The number of jobs named in a list.
const NAMED: usize = 2;

/// The plan in a few lines.
pub(super) fn sum(dialog: &Dialog, plan: &Plan, screen: &dyn Screen) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut say = |label: &'static str, words: String, role| {
        let words = with_hours(&words, screen.facts().now);
        lines.push(Line::Words(label.into(), words, role));
    };
    if let Some(words) = dialog.changed() {
        say("changed", words, Role::Warn);
    }
    let steps = counted(plan.steps.len() as u64, "step");
    let evicts = evicts(plan);
    let mut parts = vec![steps];
    parts.extend(evicts);
    parts.extend(freed(plan));
    if let PlanEffect::Forecast(forecast) = &plan.effect {
        parts.extend(total_lost(forecast));
    }
    say("total", parts.join(", "), Role::Text);
    match &plan.effect {
        PlanEffect::Unknown { why } => say("effect", format!("unknown: {why}"), Role::Muted),
        PlanEffect::Forecast(forecast) => {
            if let Some(words) = starts(forecast, screen.facts().now) {
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
    let open: Vec<String> = plan
        .checks
        .iter()
        .filter(|check| check.outcome != Outcome::Failed)
        .filter_map(|check| {
            let words = unfinished(check.outcome)?;
            Some(format!("{} {words}", check.name))
        })
        .collect();
    if !open.is_empty() {
        say("checks", format!("○ {}", open.join(", ")), Role::Muted);
    }
    if !plan.undo.possible {
        say("undo", String::from("cannot be undone"), Role::Warn);
    }
    lines
}

/// The evicted jobs; `None` where unknown.
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
        (0, _, 0) if matches!(plan.effect, PlanEffect::Unknown { .. }) => return None,
        (0, _, 0) => String::from("evicts no running jobs"),
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

/// Devices that are freed; `None` where unknown or zero.
fn freed(plan: &Plan) -> Option<String> {
    let PlanEffect::Forecast(forecast) = &plan.effect else {
        return None;
    };
    let devices: u64 = forecast
        .displaced
        .iter()
        .map(|one| u64::from(one.devices))
        .sum();
    (devices > 0).then(|| format!("frees {}", counted(devices, "device")))
}

/// What starts at once, and how many jobs start earlier or later.
fn starts(forecast: &Forecast, now: Moment) -> Option<String> {
    let moved: Vec<&StartChange> = forecast
        .starts
        .iter()
        .filter(|change| start_moves(now, change).is_some())
        .collect();
    let at_once = |change: &&&StartChange| change.is_at_once(now);
    let first: Vec<String> = moved
        .iter()
        .filter(at_once)
        .map(|change| change.job.to_string())
        .collect();
    let others = moved.iter().filter(|change| !at_once(change));
    let earlier = others.clone().filter(|change| change.is_earlier()).count();
    let later = others.count() - earlier;
    let mut parts = Vec::new();
    if !first.is_empty() {
        let mut names = first[..first.len().min(NAMED)].join(", ");
        if first.len() > NAMED {
            names.push_str(&format!(" and {} more", first.len() - NAMED));
        }
        parts.push(format!("now: {names}"));
    }
    for (count, when) in [(earlier, "earlier"), (later, "later")] {
        if count > 0 {
            parts.push(format!("{when}: {}", counted(count as u64, "job")));
        }
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}
