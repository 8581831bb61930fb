//! Everything known of an object, as lines: for the facts popup, the heatmap's panel, the detail and describe views.

mod device;
mod job;
mod lines;
mod node;
pub mod page;
mod pod;
mod pool;
mod scaling;
mod sources_of_kind;
mod team;

use std::borrow::Cow;
use std::collections::BTreeSet;

use crate::painter::Painter;
use crate::text::{UNKNOWN, per_hour};
use model::base::Name;
use model::cost::{LIST_NOTE, Money, SpendScope};
use model::fleet::finding::{Finding, Severity};
use model::fleet::history::Track;
use model::fleet::job::JobState;
use model::fleet::queue::QueueKind;
use table::actions::{RunState, still_faulty};
use table::kinds::sources::{fault, words_of};
use table::role::Role;
use table::rows::{queue_quotas, queue_tree};
use table::spend::{list_share, listed_dollars};
use table::{Facts, UNATTRIBUTED};

use super::{object_tree, plans, run_jobs, subject, table_view};
use ::table::kinds::alerts;
use ::table::kinds::cost::{known_devices, month_of, row_of};
use ::table::rows::quota_left::{QuotaLeft, quota_left_words};
use table::navigation::Selection;

pub(crate) use lines::LABEL;
pub use lines::{draw_columns, draw_lines, draw_panel};
use sources_of_kind::errors_and_skipped;
pub use sources_of_kind::sources_of_kind;

pub enum Line {
    /// A label and words.
    Words(Cow<'static, str>, String, Role),
    /// A label, a share as a bar, and words.
    Bar(&'static str, f64, String, Role),
    /// A label, the last hour as shares, 0 to 1, and words for now.
    Past(&'static str, Vec<Option<f32>>, String),
    /// A label and a picture of cells, line by line.
    Picture(&'static str, Vec<String>),
    /// A label and a table: its titles, then its rows.
    Table(&'static str, Vec<String>),
    /// What the lines below are about.
    Head(&'static str),
    Gap,
}

/// Points of a past at most.
const POINTS: usize = 60;

/// An object's title, a note, and its lines.
#[derive(Default)]
pub struct Description {
    pub title: String,
    pub note: String,
    pub lines: Vec<Line>,
}

impl Description {
    pub(super) fn words(
        &mut self,
        label: impl Into<Cow<'static, str>>,
        words: impl Into<String>,
        role: Role,
    ) {
        self.lines
            .push(Line::Words(label.into(), words.into(), role));
    }

    fn known(&mut self, label: &'static str, words: Option<impl ToString>) {
        match words {
            Some(words) => self.words(label, words.to_string(), Role::Text),
            None => self.words(label, UNKNOWN, Role::Muted),
        }
    }

    /// Adds a line only if it has words.
    fn words_if_any(&mut self, label: &'static str, words: Option<impl ToString>) {
        if let Some(words) = words {
            self.words(label, words.to_string(), Role::Text);
        }
    }

    /// What the mark of list prices says, where this money has it.
    fn list_note(&mut self, money: Money) {
        if money.is_by_list() {
            self.words("", LIST_NOTE, Role::Muted);
        }
    }

    /// Leaves out the lines of these words.
    pub(super) fn leave_out(&mut self, words: &str) {
        let is_it = |line: &Line| matches!(line, Line::Words(_, own, _) if own == words);
        self.lines.retain(|line| !is_it(line));
    }

    fn gap(&mut self) {
        if !matches!(self.lines.last(), None | Some(Line::Gap | Line::Head(_))) {
            self.lines.push(Line::Gap);
        }
    }

    fn head(&mut self, words: &'static str) {
        self.gap();
        self.lines.push(Line::Head(words));
    }

    /// Up to four findings on the page of `about`; a device is named where the page is not its own.
    fn findings<'a>(
        &mut self,
        about: &Name,
        findings: impl Iterator<Item = &'a Finding>,
        painter: &mut Painter<'_>,
    ) {
        for finding in findings.take(4) {
            let (_, role) = alerts::sign(finding.severity);
            let (mark, age) = (alerts::age_mark(finding), painter.age(finding.since));
            let device = match finding.subject.kind {
                "Device" if finding.subject.key.name != *about => {
                    format!("{}: ", finding.subject.key.name)
                }
                _ => String::new(),
            };
            let words = format!("{device}{} · for {mark}{age}", finding.message);
            self.words("finding", words, role);
            if !finding.repair.is_empty() {
                let role = match finding.severity {
                    Severity::Info => Role::Muted,
                    _ => Role::Warn,
                };
                self.words("repair", finding.repair.clone(), role);
            }
        }
    }

    /// The last hour of a track against `top`; without one against its own highest.
    fn past(
        &mut self,
        facts: &Facts,
        label: &'static str,
        track: &Track,
        top: Option<f32>,
        words: &dyn Fn(f32) -> String,
    ) {
        let mut values = table_view::past(facts, track, None, POINTS);
        let known = || values.iter().flatten().copied().filter(|v| v.is_finite());
        let count = known().count();
        if count == 0 {
            return;
        }
        let mean = known().sum::<f32>() / count as f32;
        let most = known().fold(f32::MIN, f32::max);
        let top = top.unwrap_or(most).max(f32::MIN_POSITIVE);
        for value in values.iter_mut().flatten() {
            *value = (*value / top).clamp(0.0, 1.0);
        }
        self.lines.push(Line::Past(
            label,
            values,
            format!("mean {} max {}", words(mean), words(most)),
        ));
    }
}

/// A number with two digits behind the point at most.
fn plain(number: f64) -> String {
    let text = format!("{number:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The page of an object; `None` when it was deleted.
pub fn describe(
    facts: &Facts,
    selection: &Selection,
    painter: &mut Painter<'_>,
) -> Option<Description> {
    let mut table = Description {
        title: selection.heading(facts),
        ..Description::default()
    };
    match selection {
        Selection::Device(node, index) => {
            let node = facts.fleet.node(node)?;
            let device = node.device(*index)?;
            device::lines(&mut table, facts, node, device, painter);
        }
        Selection::Node(name) => node::lines(&mut table, facts, facts.fleet.node(name)?, painter),
        Selection::Job(id) => job::lines(&mut table, facts, facts.fleet.job(id)?, painter),
        Selection::Pod(key) => pod::lines(&mut table, facts, key, painter)?,
        Selection::Pool(name) => pool::lines(&mut table, facts, name, painter)?,
        Selection::Finding(id) => {
            let finding = facts
                .fleet
                .findings
                .iter()
                .find(|finding| finding.id == *id)?;
            let (_, role) = alerts::sign(finding.severity);
            table.words("message", finding.message.clone(), role);
            if !finding.repair.is_empty() {
                table.words("repair", finding.repair.clone(), Role::Warn);
            }
            // A finding calls every workload a job.
            let kind = match subject::behind(facts, id) {
                Some(Selection::Job(job)) => job.kind,
                _ => Name::new(finding.subject.kind),
            };
            table.words(
                "object",
                format!("{kind} {}", finding.subject.key),
                Role::Title,
            );
            let age = painter.age(finding.since);
            let since = match finding.first_seen {
                true => format!("first seen {age} ago"),
                false => format!("for {age}"),
            };
            let mut what = format!("{} {}, {since}", finding.severity.name(), finding.code);
            // An XID is a name, not an amount.
            let is_amount = !finding.code.starts_with("xid-");
            if let Some(value) = finding.value.filter(|_| is_amount) {
                what.push_str(&format!(", measured {}", plain(value)));
            }
            if let Some(threshold) = finding.threshold {
                what.push_str(&format!(", threshold {}", plain(threshold)));
            }
            table.words("finding", what, Role::Text);
            if let Some(silence) = facts.silences.of(finding, facts.now) {
                table.words("", silence.name(), Role::Muted);
            }
            let of = finding.id.clone();
            if let Some(behind) = subject::behind(facts, &of)
                && !matches!(behind, Selection::Source(_))
                && let Some(rest) = describe(facts, &behind, painter)
            {
                // The finding itself is shown above.
                table.gap();
                let again = [finding.message.as_str(), finding.repair.as_str()];
                let known = |words: &str| {
                    let mut again = again.iter();
                    again.any(|shown| {
                        let rest = words.strip_prefix(*shown);
                        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(" · for "))
                            || (words.contains(' ') && shown.contains(words))
                    })
                };
                table.lines.extend(
                    rest.lines
                        .into_iter()
                        .filter(|line| !matches!(line, Line::Words(_, words, _) if known(words))),
                );
            }
        }
        Selection::Source(name) => {
            let source = facts
                .fleet
                .sources
                .iter()
                .find(|source| source.name == *name)?;
            let (role, word) = words_of(source);
            table.words("state", word, role);
            // Faults come first: a small screen cuts the end.
            let fault = fault(facts, source);
            if !fault.cause.is_empty() {
                table.words("message", fault.cause, Role::Warn);
            }
            if !fault.repair.is_empty() {
                table.words("repair", fault.repair, Role::Warn);
            }
            table.known("kind", Some(&source.kind));
            table.known("node", source.node.as_ref());
            if let Some((at, first_seen)) = facts.fleet.fails_since(source) {
                let age = painter.age(at);
                let words = match first_seen {
                    true => format!("failing, first seen {age} ago"),
                    false => format!("failing for {age}"),
                };
                table.words("since", words, role);
            }
            if let Some((from, to)) = source.last_outage {
                let (age, ago) = (to.since(from), painter.age(to));
                let words = format!("{age}, from {} to {}, {ago} ago", from.clock(), to.clock());
                table.words("last outage", words, Role::Text);
            }
            let answered = match source.last_ok {
                Some(at) => format!("{} ago", painter.age(at)),
                None => String::from("none since stokehold started"),
            };
            table.words("last answer", answered, Role::Text);
            table.known("latency", source.latency_ms.map(|ms| format!("{ms} ms")));
            table.known("series used", source.series_used);
            table.known("calls/min", source.calls_per_minute);
            errors_and_skipped(&mut table, facts, &[source]);
        }
        Selection::Queue(name) | Selection::Cohort(name) => {
            let kind = match selection {
                Selection::Cohort(_) => QueueKind::Cohort,
                _ => QueueKind::Queue,
            };
            let members = match kind {
                QueueKind::Cohort => queue_tree::members(&facts.fleet.queues, name),
                QueueKind::Queue => BTreeSet::from([name.clone()]),
            };
            if kind == QueueKind::Cohort {
                let names = members.iter().map(Name::as_str).collect::<Vec<_>>();
                table.words("queues", names.join(", "), Role::Text);
            }
            let of = |is_meant: fn(&JobState) -> bool| {
                let jobs = facts.fleet.jobs.iter();
                let own = jobs.filter(|job| {
                    let queue = job.queue.as_ref();
                    queue.is_some_and(|queue| members.contains(queue))
                });
                own.filter(|job| is_meant(&job.state)).count()
            };
            let (hold, wait) = (
                of(|state| matches!(state, JobState::Starting | JobState::Running)),
                of(|state| *state == JobState::Waiting),
            );
            table.words(
                "jobs",
                format!("{hold} running, {wait} waiting"),
                Role::Text,
            );
            let queues = facts.fleet.queues.iter().enumerate();
            for (at, _) in
                queues.filter(|(_, queue)| queue.name() == name && queue.key.kind == kind)
            {
                for words in queue_quotas::quota_words(facts, at) {
                    table.words("quota", words, Role::Text);
                }
            }
        }
        Selection::Run(name) => {
            let run = facts.acts.run(name)?;
            table.title.clone_from(&run.title);
            table.note = name.to_string();
            let (_, role) = plans::sign(run.state);
            table.words("state", run.state.name(), role);
            if !run.words.is_empty() {
                table.words("why", run.words.clone(), role);
            }
            if run.state != RunState::Undone {
                for words in still_faulty(&*facts.fleet.findings, &run.cordons, "undo") {
                    table.words("warning", words, Role::Warn);
                }
            }
            table.words("by", run.by.clone(), Role::Text);
            if !run.reason.is_empty() {
                table.words("reason", run.reason.clone(), Role::Text);
            }
            table.words(
                "started",
                format!("{} ago", painter.age(run.begun)),
                Role::Text,
            );
            let jobs = run_jobs::lines(facts, run);
            if !jobs.is_empty() {
                table.head("current state of the jobs that it started or stopped");
                for (job, words, role) in jobs {
                    table.words("", format!("{job}: {words}"), role);
                }
            }
            if !run.losses.is_empty() {
                table.head("work lost by team, as the plan forecast it");
            }
            for one in &run.losses {
                let words = format!("{} · {} · {}", one.team, one.hours(), one.besides());
                let share = one.share(&run.losses);
                table.lines.push(Line::Bar("", share, words, Role::Warn));
            }
            table.head("steps");
            for (at, step) in run.steps.iter().enumerate() {
                let mut words = format!("{}: {}", step.words, step.state.name());
                if let Some(began) = step.began {
                    words.push_str(&format!(", began {}", began.clock()));
                }
                if !step.note.is_empty() {
                    words.push_str(&format!(", {}", step.note));
                }
                table.words((at + 1).to_string(), words, plans::color(step.state));
            }
        }
        Selection::Cost(scope, name) => {
            let row = &*row_of(facts, *scope, name)?;
            table.note = format!("cost of the {}", scope.name());
            table.words("devices", known_devices(row), Role::Text);
            let spend = row.known();
            let burn = per_hour(spend.map(|spend| spend.rate));
            table.words("rate", burn, Role::Text);
            // What a team or a job has is allocated.
            if !matches!(scope, SpendScope::Team | SpendScope::Job) || **name == *UNATTRIBUTED {
                let free = spend.and_then(|spend| ::table::rows::pools::unallocated(facts, &spend));
                table.words("unallocated", per_hour(free), Role::IdleMoney);
            }
            let idle = per_hour(spend.and_then(|spend| spend.idle_allocated));
            table.words("idle alloc", idle, Role::IdleMoney);
            if let Some(sum) = month_of(facts, row) {
                let share = sum.and_then(list_share).unwrap_or_default();
                let sum = sum.map_or_else(|| UNKNOWN.to_owned(), listed_dollars);
                table.words("this month", format!("{sum}{share}"), Role::Text);
            }
            match quota_left_words(facts, row) {
                QuotaLeft::None => {}
                QuotaLeft::Unknown => table.words("quota left", UNKNOWN, Role::Muted),
                QuotaLeft::Words(words) => table.words("quota left", words, Role::Text),
            }
            if *scope == SpendScope::Team {
                team::lines(&mut table, facts, name, painter);
            }
            table.known("no price", Some(row.unpriced));
            table.known("price from", row.price_source.as_ref());
            table.list_note(row.spend.rate);
            // The day of a price list, no time of what is shown; of several the oldest.
            if let Some(day) = &row.price_as_of {
                let several = row.price_source.as_deref() == Some("mixed");
                let words = match several {
                    true => format!("price lists of {day} and later"),
                    false => format!("price list of {day}"),
                };
                table.words("priced", words, Role::Text);
            }
            // What the money is for, below it.
            if let Some((_, object)) = object_tree::tab(facts, selection)
                && let Some(rest) = describe(facts, &object, painter)
            {
                table.gap();
                table.lines.extend(rest.lines);
            }
        }
    }
    Some(table)
}
