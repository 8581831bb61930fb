//! What-if results as tables: figures before and after, and each affected job. Printed by the command line and drawn by the
//! console.

use std::fmt::Write as _;

use engine::explanations;
use engine::live;
use engine::what_if::{Shift, StartEstimate, WhatIfEffect, WhatIfFigures, WhatIfResult};
use model::base::name::printable;
use model::base::quantities::grouped;
use model::base::{Age, Moment, Name};
use model::cost::ASSUMPTION;
use model::cost::LIST_MARK;

use super::spend::dollars;
use super::table::{cell, text_table};
use super::text::{UNKNOWN, eta, hour, or_unknown};
use super::{Facts, budgets, gaps};

/// The number of results kept, the latest ones.
const KEPT: usize = 8;

/// The result of a what-if question.
#[derive(Clone, PartialEq, Debug)]
pub enum Supposed {
    Asked,
    /// Computed from the fleet at this moment, with notes about what was unknown.
    Told(Box<WhatIfResult>, Moment, Vec<String>),
    /// Failed, with the reason.
    Failed(String),
}

impl Supposed {
    /// Computes the result. Takes a second on a fleet of thousands of nodes: call it outside every loop.
    pub fn of(facts: &Facts, changes: &str) -> Self {
        if !facts.fleet.is_complete() {
            return Self::Failed("the fleet has not been read yet".to_owned());
        }
        let gaps = match gaps(facts) {
            Ok(gaps) => gaps,
            Err(failure) => return Self::Failed(failure.message),
        };
        let snapshot = live::snapshot(&facts.fleet, &facts.spend_rates);
        match explanations::what_if(&snapshot, &[changes]) {
            Ok(mut outcome) => {
                outcome.jobs.retain(|shift| is_reported(shift, snapshot.at));
                Self::Told(Box::new(outcome), snapshot.at, gaps)
            }
            Err(why) => Self::Failed(why),
        }
    }
}

/// Adds the effect of the changes on the visible budgets.
pub fn budgeted(facts: &Facts, outcome: &mut WhatIfResult, at: Moment) {
    let [before, after] = &outcome.spending;
    outcome.budgets = budgets::changes(facts, [before, after], at);
    if !outcome.budgets.is_empty() {
        outcome.notes.insert(0, ASSUMPTION.to_owned());
    }
}

/// What-if questions of a session by their text, the latest last.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Suppositions(Vec<(Name, Supposed)>);

impl Suppositions {
    /// Stores a result. A computed result stays until the new one arrives.
    pub fn put(&mut self, changes: &Name, supposed: Supposed) {
        match self.0.iter_mut().find(|(known, _)| known == changes) {
            Some((_, Supposed::Told(..))) if supposed == Supposed::Asked => {}
            Some((_, own)) => *own = supposed,
            None => self.0.push((changes.clone(), supposed)),
        }
        let over = self.0.len().saturating_sub(KEPT);
        self.0.drain(..over);
    }

    /// The result of these changes, and its index.
    pub fn get(&self, changes: &str) -> Option<(usize, &Supposed)> {
        let mut all = self.0.iter().enumerate();
        all.find_map(|(at, (known, own))| (**known == *changes).then_some((at, own)))
    }

    /// A job of the result at this index.
    pub fn job(&self, at: usize, job: usize) -> Option<(&Shift, Moment)> {
        match self.0.get(at) {
            Some((_, Supposed::Told(outcome, now, _))) => Some((outcome.jobs.get(job)?, *now)),
            _ => None,
        }
    }
}

/// One figure: label, before, after, difference (empty where equal).
pub type Figure = [String; 4];

/// The figures before and after.
pub fn figures(outcome: &WhatIfResult) -> Vec<Figure> {
    let (before, after) = (&outcome.before, &outcome.after);
    let signed = |by: i64| match by {
        0 => String::new(),
        by => format!("{by:+}"),
    };
    let count = |title: &str, of: fn(&WhatIfFigures) -> usize| -> Figure {
        let (was, is) = (of(before), of(after));
        let by = signed(is as i64 - was as i64);
        let whole = |count: usize| grouped(i64::try_from(count).unwrap_or(i64::MAX));
        [title.to_owned(), whole(was), whole(is), by]
    };
    let tenth = |milli: i64| {
        let sign = if milli < 0 { "-" } else { "" };
        let whole = grouped(milli.abs() / 1_000);
        match milli.abs() % 1_000 / 100 {
            0 => format!("{sign}{whole}"),
            part => format!("{sign}{whole}.{part}"),
        }
    };
    let held = [before, after].map(|side| side.allocated_milli);
    let by_held = match held[1] - held[0] {
        0 => String::new(),
        by if by > 0 => format!("+{}", tenth(by)),
        by => tenth(by),
    };
    let wait = |side: &WhatIfFigures| {
        side.wait_p50_seconds
            .map(|wait| Age::from_seconds(wait.max(0) as u64))
    };
    // The difference of the displayed values: whole minutes, or whole hours from one day on.
    let shown = |side: &WhatIfFigures| {
        let seconds = side.wait_p50_seconds?;
        let unit = match seconds {
            86_400.. => 3_600,
            60.. => 60,
            _ => 1,
        };
        Some(seconds / unit * unit)
    };
    let by_wait = match (shown(before), shown(after)) {
        (Some(was), Some(is)) if was != is => {
            let sign = if is > was { '+' } else { '-' };
            format!("{sign}{}", Age::from_seconds(is.abs_diff(was)))
        }
        _ => String::new(),
    };
    let mut all = vec![
        count("nodes", |side| side.nodes),
        count("devices", |side| side.devices),
        [
            "allocated devices".to_owned(),
            tenth(held[0]),
            tenth(held[1]),
            by_held,
        ],
        count("jobs running", |side| side.running),
        count("jobs waiting", |side| side.waiting),
        count("waiting without an ETA", |side| side.unknown),
        [
            "median time to start".to_owned(),
            or_unknown(wait(before)),
            or_unknown(wait(after)),
            by_wait,
        ],
        money(before, after),
    ];
    all.extend(outcome.budgets.iter().map(|budget| {
        [
            format!("budget {}, {}", budget.name, budget.period),
            or_unknown(budget.forecast_before.map(|end| budget.end_words(end))),
            or_unknown(budget.forecast_after.map(|end| budget.end_words(end))),
            budget.change_words(),
        ]
    }));
    all
}

/// The rate of all devices; unknown where none has a price.
fn money(before: &WhatIfFigures, after: &WhatIfFigures) -> Figure {
    let rate = |side: &WhatIfFigures| {
        let none_priced = side.devices_without_price >= side.devices && side.devices > 0;
        let [all, by_list] = [side.burn_micro_usd_per_hour, side.list_micro_usd_per_hour];
        (!none_priced).then_some([all, by_list])
    };
    let mark = |by_list: i64| if by_list == 0 { "" } else { LIST_MARK };
    let rate_text = |rate: Option<[i64; 2]>| {
        rate.map_or_else(
            || UNKNOWN.to_owned(),
            |[all, by_list]| format!("{}/h{}", dollars(all), mark(by_list)),
        )
    };
    let by = match (rate(before), rate(after)) {
        (Some([was, was_by_list]), Some([is, is_by_list])) if was != is => {
            let sign = if is > was { '+' } else { '-' };
            let by = dollars((is - was).abs());
            format!("{sign}{by}/h{}", mark(is_by_list - was_by_list))
        }
        _ => String::new(),
    };
    [
        "cost".to_owned(),
        rate_text(rate(before)),
        rate_text(rate(after)),
        by,
    ]
}

/// A job's start on one side, relative to `now`.
pub fn when(side: Option<&StartEstimate>, now: Moment) -> String {
    match side {
        None => UNKNOWN.to_owned(),
        Some(side) if side.runs => "running".to_owned(),
        Some(side) => eta(now, [side.p10, side.p50, side.p90]),
    }
}

/// False for a start that moves so little that both sides read the same.
fn is_reported(shift: &Shift, now: Moment) -> bool {
    let moves = matches!(shift.effect, WhatIfEffect::Earlier | WhatIfEffect::Later);
    !moves || when(shift.before.as_ref(), now) != when(shift.after.as_ref(), now)
}

/// Column titles of the table of jobs.
const TITLES: [(&str, bool); 6] = [
    ("CHANGE", false),
    ("JOB", false),
    ("QUEUE", false),
    ("DEVICES", true),
    ("BEFORE", false),
    ("AFTER", false),
];

fn cells(shift: &Shift, now: Moment) -> Vec<String> {
    vec![
        shift.effect.name().to_owned(),
        cell(&shift.job.to_string()),
        cell(shift.queue.as_deref().unwrap_or(UNKNOWN)),
        shift.devices.to_string(),
        when(shift.before.as_ref(), now),
        when(shift.after.as_ref(), now),
    ]
}

/// The changes, and the moment that the result is for.
pub fn title(outcome: &WhatIfResult, now: Moment) -> String {
    format!(
        "what if {} · as of {} UTC",
        outcome.changes.join("; "),
        hour(now)
    )
}

/// Printed where no job is affected.
pub const NO_JOB_AFFECTED: &str = "no job is affected";

/// The same with the reason.
pub fn no_effect(outcome: &WhatIfResult) -> String {
    let waiting = outcome.after.waiting;
    match waiting {
        0 => format!("{NO_JOB_AFFECTED}: no job waits"),
        1 => format!(
            "{NO_JOB_AFFECTED}: the waiting job does not start; `stokehold explain job` shows what would start it"
        ),
        more => format!(
            "{NO_JOB_AFFECTED}: none of the {more} waiting jobs starts; `stokehold explain job NAME` shows what would start one"
        ),
    }
}

/// A result as text.
pub fn text(outcome: &WhatIfResult, now: Moment) -> String {
    let mut out = format!("{}\n\n", printable(&title(outcome, now)));
    let mut table = |titles: Vec<(&'static str, bool)>, lines: Vec<Vec<String>>| {
        out.push_str(&text_table(titles, &lines, true));
        out.push('\n');
    };
    let right = [
        ("", false),
        ("BEFORE", true),
        ("AFTER", true),
        ("CHANGE", true),
    ];
    let lines = figures(outcome).into_iter().map(Vec::from).collect();
    table(right.to_vec(), lines);
    let mut reported = outcome
        .jobs
        .iter()
        .filter(|shift| is_reported(shift, now))
        .peekable();
    if reported.peek().is_some() {
        let jobs = reported.map(|shift| cells(shift, now)).collect();
        table(TITLES.to_vec(), jobs);
    } else {
        let _ = write!(out, "{}\n\n", no_effect(outcome));
    }
    for note in &outcome.notes {
        let _ = writeln!(out, "note: {}", printable(note));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::facts;

    fn outcome_of(changes: &str) -> (WhatIfResult, Moment) {
        match Supposed::of(&complete(), changes) {
            Supposed::Told(outcome, now, _) => (*outcome, now),
            other => panic!("{changes}: {other:?}"),
        }
    }

    /// The sample fleet with every table known.
    fn complete() -> Facts {
        use model::fleet::{TableState, observe::Table};
        use std::sync::Arc;
        let mut facts = facts();
        let known = &mut Arc::make_mut(&mut facts.fleet).known;
        Arc::make_mut(known).extend(Table::ALL.iter().map(|table| (*table, TableState::Live)));
        facts
    }

    #[test]
    fn a_change_lists_figures_of_both_sides_and_waits_in_minutes() {
        let facts = complete();
        let pool = facts.fleet.pools[0].name.to_string();
        let (outcome, now) = outcome_of(&format!("nodes {pool} +2"));
        let figures = figures(&outcome);
        assert_eq!(figures[0][0], "nodes");
        assert_eq!(figures[0][3], "+2");
        let text = text(&outcome, now);
        assert!(
            text.starts_with(&format!("what if nodes {pool} +2 · as of ")),
            "{text}"
        );
        assert!(
            text.contains("BEFORE") && text.contains("median time to start"),
            "{text}"
        );
        assert!(!text.contains("seconds"), "{text}");
    }

    #[test]
    fn what_is_not_there_fails_and_nothing_is_concluded_from_half_a_fleet() {
        let wrong = Supposed::of(&complete(), "pool nowhere lost");
        assert!(
            matches!(&wrong, Supposed::Failed(why) if why.contains("unknown pool `nowhere`")),
            "{wrong:?}"
        );
        let mut half = complete();
        let fleet = std::sync::Arc::make_mut(&mut half.fleet);
        std::sync::Arc::make_mut(&mut fleet.known).remove(&model::fleet::observe::Table::Pods);
        let refused = Supposed::of(&half, "nodes a +1");
        assert!(matches!(refused, Supposed::Failed(_)), "{refused:?}");
    }

    #[test]
    fn the_latest_results_are_cached_and_kept_during_a_repeat() {
        let mut all = Suppositions::default();
        let name = |at: usize| Name::new(&format!("nodes a +{at}"));
        for at in 0..10 {
            all.put(&name(at), Supposed::Asked);
        }
        assert_eq!((all.get("nodes a +0"), all.0.len()), (None, KEPT));
        let (outcome, now) = outcome_of(&format!("nodes {} +1", facts().fleet.pools[0].name));
        let outcome_of = Supposed::Told(Box::new(outcome), now, Vec::new());
        all.put(&name(9), outcome_of.clone());
        all.put(&name(9), Supposed::Asked);
        assert_eq!(all.get("nodes a +9").map(|(_, own)| own), Some(&outcome_of));
        all.put(&name(9), Supposed::Failed("gone".to_owned()));
        assert!(all.job(KEPT - 1, 0).is_none());
    }
}
