//! What becomes of the fleet under changes that are supposed, as tables: the figures of both sides, and each job that the changes
//! do something to. The command line prints them, the console draws them.

use std::fmt::Write as _;

use engine::explanations;
use engine::live;
use engine::what_if::{Figures, Outcome, Shift, When};
use model::base::name::printable;
use model::base::quantities::grouped;
use model::base::{Age, Moment, Name};
use model::usage::ASSUMPTION;

use super::table::{Layout, cell};
use super::text::{UNKNOWN, eta, hour, or_unknown};
use super::{Facts, budgets, gaps};

/// Of so many suppositions the answers are kept, the latest.
const KEPT: usize = 8;

/// What came of a supposition.
#[derive(Clone, PartialEq, Debug)]
pub enum Supposed {
    /// It is being computed.
    Asked,
    /// It was computed of the fleet at this moment; what was not known of that fleet is said beside it.
    Told(Box<Outcome>, Moment, Vec<String>),
    /// It cannot be computed: why.
    Failed(String),
}

impl Supposed {
    /// Computes it. On a fleet of thousands of nodes this takes a second: it belongs off every loop.
    pub fn of(facts: &Facts, changes: &str) -> Self {
        if !facts.fleet.is_complete() {
            return Self::Failed("the fleet has not been read yet".to_owned());
        }
        let gaps = match gaps(facts) {
            Ok(gaps) => gaps,
            Err(failure) => return Self::Failed(failure.message),
        };
        let snapshot = live::snapshot(&facts.fleet, &facts.burn);
        match explanations::what_if(&snapshot, &[changes]) {
            Ok(outcome) => Self::Told(Box::new(outcome), snapshot.at, gaps),
            Err(why) => Self::Failed(why),
        }
    }
}

/// Fills in what the changes do to the budgets that may be seen.
pub fn budgeted(facts: &Facts, outcome: &mut Outcome, at: Moment) {
    let [before, after] = &outcome.spending;
    outcome.budgets = budgets::changes(facts, [before, after], at);
    if !outcome.budgets.is_empty() {
        outcome.notes.insert(0, ASSUMPTION.to_owned());
    }
}

/// What was supposed in a session, by the changes as they were typed, the latest last.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Suppositions(Vec<(Name, Supposed)>);

impl Suppositions {
    /// Keeps what came of a supposition. What is computed stands until the new answer comes.
    pub fn put(&mut self, changes: &Name, supposed: Supposed) {
        match self.0.iter_mut().find(|(known, _)| known == changes) {
            Some((_, Supposed::Told(..))) if supposed == Supposed::Asked => {}
            Some((_, own)) => *own = supposed,
            None => self.0.push((changes.clone(), supposed)),
        }
        let over = self.0.len().saturating_sub(KEPT);
        self.0.drain(..over);
    }

    /// What came of these changes, and its place among all.
    pub fn get(&self, changes: &str) -> Option<(usize, &Supposed)> {
        let mut all = self.0.iter().enumerate();
        all.find_map(|(at, (known, own))| (**known == *changes).then_some((at, own)))
    }

    /// A job of what stands at this place.
    pub fn job(&self, at: usize, job: usize) -> Option<(&Shift, Moment)> {
        match self.0.get(at) {
            Some((_, Supposed::Told(outcome, now, _))) => Some((outcome.jobs.get(job)?, *now)),
            _ => None,
        }
    }
}

/// One figure: what it is of, without the changes, with them, and by how much it differs (empty where it does not).
pub type Figure = [String; 4];

/// The figures of both sides.
pub fn figures(outcome: &Outcome) -> Vec<Figure> {
    let (before, after) = (&outcome.before, &outcome.after);
    let signed = |by: i64| match by {
        0 => String::new(),
        by => format!("{by:+}"),
    };
    let count = |title: &str, of: fn(&Figures) -> usize| -> Figure {
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
    let wait = |side: &Figures| {
        side.wait_p50_seconds
            .map(|wait| Age::from_seconds(wait.max(0) as u64))
    };
    // The difference of what is shown: whole minutes, of days whole hours.
    let shown = |side: &Figures| {
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
        count("of these without ETA", |side| side.unknown),
        [
            "median wait".to_owned(),
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

/// What all devices cost. Where none has a price that is not known.
fn money(before: &Figures, after: &Figures) -> Figure {
    let rate = |side: &Figures| {
        let none_priced = side.devices_without_price >= side.devices && side.devices > 0;
        (!none_priced).then_some(side.burn_micro_usd_per_hour)
    };
    let dollars = |micro: i64| {
        let cents = micro % 1_000_000 / 10_000;
        format!("{}.{cents:02}", grouped(micro / 1_000_000))
    };
    let told = |micro: Option<i64>| {
        micro.map_or_else(
            || UNKNOWN.to_owned(),
            |micro| format!("${}/h", dollars(micro)),
        )
    };
    let by = match (rate(before), rate(after)) {
        (Some(was), Some(is)) if was != is => {
            let sign = if is > was { '+' } else { '-' };
            format!("{sign}${}/h", dollars((is - was).abs()))
        }
        _ => String::new(),
    };
    ["cost".to_owned(), told(rate(before)), told(rate(after)), by]
}

/// When a job starts, on one side of the changes, as told at this moment.
pub fn when(side: Option<&When>, now: Moment) -> String {
    match side {
        None => UNKNOWN.to_owned(),
        Some(side) if side.runs => "running".to_owned(),
        Some(side) => eta(now, [side.p10, side.p50, side.p90]),
    }
}

/// Titles of the table of jobs.
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

/// What was supposed, and of which moment the answer is.
pub fn title(outcome: &Outcome, now: Moment) -> String {
    format!(
        "what if {} · as of {} UTC",
        outcome.changes.join("; "),
        hour(now)
    )
}

/// What there is to say where no job is touched.
pub const NOBODY: &str = "no job starts, waits or runs otherwise";

/// The same, and why.
pub fn nobody(outcome: &Outcome) -> String {
    let waiting = outcome.after.waiting;
    match waiting {
        0 => format!("{NOBODY}: none waits"),
        1 => format!(
            "{NOBODY}: the job that waits is short of something else, see `stokehold explain job`"
        ),
        more => format!(
            "{NOBODY}: the {more} jobs that wait are short of something else, see `stokehold explain job NAME`"
        ),
    }
}

/// An outcome as text.
pub fn text(outcome: &Outcome, now: Moment) -> String {
    let mut out = format!("{}\n\n", printable(&title(outcome, now)));
    let mut table = |titles: Vec<(&'static str, bool)>, lines: Vec<Vec<String>>| {
        let layout = Layout::new(titles, &lines);
        out.push_str(&layout.header());
        for line in &lines {
            out.push_str(&layout.line(line));
        }
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
    if !outcome.jobs.is_empty() {
        let jobs = outcome.jobs.iter().map(|shift| cells(shift, now)).collect();
        table(TITLES.to_vec(), jobs);
    } else {
        let _ = write!(out, "{}\n\n", nobody(outcome));
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

    fn told(changes: &str) -> (Outcome, Moment) {
        match Supposed::of(&complete(), changes) {
            Supposed::Told(outcome, now, _) => (*outcome, now),
            other => panic!("{changes}: {other:?}"),
        }
    }

    /// The sample with every table known.
    fn complete() -> Facts {
        use model::fleet::{Known, observe::Table};
        use std::sync::Arc;
        let mut facts = facts();
        let known = &mut Arc::make_mut(&mut facts.fleet).known;
        Arc::make_mut(known).extend(Table::ALL.iter().map(|table| (*table, Known::Live)));
        facts
    }

    #[test]
    fn a_change_is_told_in_figures_of_both_sides_and_no_wait_in_seconds() {
        let facts = complete();
        let pool = facts.fleet.pools[0].name.to_string();
        let (outcome, now) = told(&format!("nodes {pool} +2"));
        let figures = figures(&outcome);
        assert_eq!(figures[0][0], "nodes");
        assert_eq!(figures[0][3], "+2");
        let text = text(&outcome, now);
        assert!(
            text.starts_with(&format!("what if nodes {pool} +2 · as of ")),
            "{text}"
        );
        assert!(
            text.contains("BEFORE") && text.contains("median wait"),
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
    fn the_latest_answers_are_kept_and_one_that_is_asked_again_stands_meanwhile() {
        let mut all = Suppositions::default();
        let name = |at: usize| Name::new(&format!("nodes a +{at}"));
        for at in 0..10 {
            all.put(&name(at), Supposed::Asked);
        }
        assert_eq!((all.get("nodes a +0"), all.0.len()), (None, KEPT));
        let (outcome, now) = told(&format!("nodes {} +1", facts().fleet.pools[0].name));
        let told = Supposed::Told(Box::new(outcome), now, Vec::new());
        all.put(&name(9), told.clone());
        all.put(&name(9), Supposed::Asked);
        assert_eq!(all.get("nodes a +9").map(|(_, own)| own), Some(&told));
        all.put(&name(9), Supposed::Failed("gone".to_owned()));
        assert!(all.job(KEPT - 1, 0).is_none());
    }
}
