//! Changes between two snapshots of the fleet: jobs, nodes, queues, findings, rates.
//!
//! Only differences between the two snapshots are reported: an object that came and went in between is missing. When one snapshot
//! lacks a list, its objects are not compared, and a note says so.

mod causes;
mod jobs;
mod log;
mod rest;
#[cfg(test)]
mod tests;
mod text;

use model::base::quantities::first_named;
use model::base::{Moment, Name, SmallSort};
use model::cost::{Money, SpendRates, SpendScope as CostScope};
use model::fleet::TableState;
use model::fleet::finding::Severity;
use model::fleet::observe::Table;

use super::Facts;

pub use causes::CauseGroup;
pub use log::{ChangeLog, STATED_FOR, SeenChanges};
pub use text::{
    NOTHING_DIFFERS, document, is_by_list, money_lines, seen_note, seen_summary, summary, text,
    when,
};

/// The kind of object that changed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Topic {
    Finding,
    Node,
    Job,
    /// A queue or a cohort, with its quotas.
    Queue,
}

impl Topic {
    /// Every topic, in the order for changes with the same time.
    pub const ALL: [Self; 4] = [Self::Finding, Self::Node, Self::Job, Self::Queue];

    /// The name in the JSON contract.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Finding => "finding",
            Self::Node => "node",
            Self::Job => "job",
            Self::Queue => "queue",
        }
    }

    /// True when the objects of this topic are built from this table: without the table, the objects are unknown.
    fn needs(self, table: Table) -> bool {
        let of_jobs = !table.holds_rules() && !table.holds_scaling() && table != Table::Nodes;
        match self {
            Self::Node => table == Table::Nodes,
            Self::Job => of_jobs,
            Self::Queue => matches!(
                table,
                Table::ClusterQueues | Table::Cohorts | Table::VolcanoQueues | Table::KaiQueues
            ),
            Self::Finding => of_jobs || table == Table::Nodes,
        }
    }

    /// The plural in words.
    const fn plural(self) -> &'static str {
        match self {
            Self::Finding => "findings",
            Self::Node => "nodes",
            Self::Job => "jobs",
            Self::Queue => "queues",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FleetChangeKind {
    /// A job was submitted and does not run yet.
    Queued,
    Started,
    Ended,
    Failed,
    /// A job was evicted by its queueing system.
    Evicted,
    /// A job lost its devices, and no queueing system gives a reason.
    Displaced,
    /// A job has lost some of the pods that it needs.
    Degraded,
    /// A job was suspended.
    Suspended,
    /// A job was resumed.
    Resumed,
    /// A job runs on other nodes or is in another queue.
    Moved,
    /// A job has more or fewer devices.
    Resized,
    /// The object no longer exists.
    Gone,
    /// A node has joined.
    Joined,
    /// A node is no longer ready.
    NotReady,
    /// A node is ready again.
    Ready,
    /// A node was cordoned.
    Cordoned,
    /// A node was uncordoned.
    Uncordoned,
    /// A queue or one of its quotas was created.
    Created,
    /// A quota was raised.
    Raised,
    /// A quota was lowered.
    Lowered,
    /// A queue stopped admitting.
    Stopped,
    /// A queue admits again.
    Opened,
    Began,
    Cleared,
}

impl FleetChangeKind {
    /// One or two words; the same as in the JSON contract.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Started => "started",
            Self::Ended => "ended",
            Self::Failed => "failed",
            Self::Evicted => "evicted",
            Self::Displaced => "displaced",
            Self::Degraded => "degraded",
            Self::Suspended => "suspended",
            Self::Resumed => "resumed",
            Self::Moved => "moved",
            Self::Resized => "resized",
            Self::Gone => "gone",
            Self::Joined => "joined",
            Self::NotReady => "not ready",
            Self::Ready => "ready",
            Self::Cordoned => "cordoned",
            Self::Uncordoned => "uncordoned",
            Self::Created => "created",
            Self::Raised => "raised",
            Self::Lowered => "lowered",
            Self::Stopped => "stopped",
            Self::Opened => "opened",
            Self::Began => "began",
            Self::Cleared => "cleared",
        }
    }
}

/// When a change happened, and how that is known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Dated {
    /// Reported by an object or an exporter.
    Reported(Moment),
    /// The moment of the first snapshot that shows the change, which happened a few seconds earlier.
    Seen(Moment),
}

impl Dated {
    pub const fn at(self) -> Moment {
        match self {
            Self::Reported(at) | Self::Seen(at) => at,
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FleetChange {
    /// Time of the change; `None` when unknown.
    pub at: Option<Dated>,
    /// Kind of the object.
    pub topic: Topic,
    pub event: FleetChangeKind,
    /// Distinguishes objects of the same name: kind of a job, id of a finding, flavor and resource of a quota.
    pub id: Name,
    /// Namespace; empty for a cluster-scoped object.
    pub namespace: Name,
    pub name: Name,
    pub team: Option<Name>,
    /// Severity of a finding; `None` for other topics.
    pub severity: Option<Severity>,
    /// What caused it, where changes of several objects can have one cause: a finding's code, the pool whose nodes came or failed,
    /// why jobs were evicted, the queue of several quotas. Empty for a change that stands alone.
    pub cause: Name,
    /// Details in words: how many devices, where, why; may be empty.
    pub detail: String,
    /// Devices before and after, of a job that was resized.
    pub sizes: Option<(u32, u32)>,
}

impl FleetChange {
    /// How important the change is to an incident investigation; `None` for routine changes.
    pub fn weight(&self) -> Option<Severity> {
        match (self.topic, self.event) {
            (Topic::Finding, FleetChangeKind::Began) => {
                self.severity.filter(|own| *own != Severity::Info)
            }
            (Topic::Node, FleetChangeKind::NotReady | FleetChangeKind::Gone) => {
                Some(Severity::Crit)
            }
            (Topic::Node, FleetChangeKind::Cordoned)
            | (
                Topic::Job,
                FleetChangeKind::Evicted
                | FleetChangeKind::Displaced
                | FleetChangeKind::Failed
                | FleetChangeKind::Degraded,
            ) => Some(Severity::Warn),
            (
                Topic::Job,
                FleetChangeKind::Started | FleetChangeKind::Ended | FleetChangeKind::Gone,
            ) => Some(Severity::Info),
            _ => None,
        }
    }

    /// The object in words: a job or the subject of a finding with its namespace.
    pub fn subject(&self) -> String {
        match self.namespace.is_empty() {
            true => self.name.to_string(),
            false => format!("{}/{}", self.namespace, self.name),
        }
    }

    /// True when the other change is about the same object.
    fn is_of(&self, other: &Self) -> bool {
        (self.topic, &self.id, &self.namespace, &self.name)
            == (other.topic, &other.id, &other.namespace, &other.name)
    }
}

/// The rate of the fleet or of a team in both snapshots; `None` where unknown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MoneyChange {
    /// The team; `None` for the whole view.
    pub team: Option<Name>,
    /// Rate in the earlier snapshot.
    pub before: Option<Money>,
    /// Rate in the later snapshot.
    pub after: Option<Money>,
}

impl MoneyChange {
    /// The difference, micro-USD/h; `None` where one side is unknown.
    pub fn difference(&self) -> Option<i64> {
        let (before, after) = self.before.zip(self.after)?;
        Some(after.all.micros() - before.all.micros())
    }
}

/// All differences between two snapshots.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FleetChanges {
    /// The moment of the earlier snapshot.
    pub from: Moment,
    /// The moment of the later snapshot.
    pub to: Moment,
    /// Newest first; changes without a time are last.
    pub changes: Vec<FleetChange>,
    /// The whole view first, then the teams whose rate differs, by the size of the difference.
    pub money: Vec<MoneyChange>,
    /// Lists that could not be compared, and why.
    pub notes: Vec<String>,
    /// Places of the changes that are one row: those of one cause that came close together.
    groups: Vec<Vec<u32>>,
}

impl FleetChanges {
    /// No change yet, of the time from `from` to `to`.
    pub const fn none(from: Moment, to: Moment) -> Self {
        Self {
            from,
            to,
            changes: Vec::new(),
            money: Vec::new(),
            notes: Vec::new(),
            groups: Vec::new(),
        }
    }

    /// Compares two snapshots of one cluster, the earlier one first.
    pub fn between(before: &Facts, after: &Facts) -> Self {
        let mut changes = Self::of_objects(before, after);
        changes.money = money_changes(known_rates(before), known_rates(after));
        changes
    }

    /// The same without the rates.
    fn of_objects(before: &Facts, after: &Facts) -> Self {
        let mut changes = Self::none(before.now, after.now);
        for topic in Topic::ALL {
            if !changes.may_compare(topic, before, after) {
                continue;
            }
            let out = &mut changes.changes;
            match topic {
                Topic::Job => jobs::compare(before, after, out),
                Topic::Node => rest::nodes(before, after, out),
                Topic::Queue => rest::queues(before, after, out),
                Topic::Finding => rest::findings(before, after, out),
            }
        }
        // A time outside the span does not date this change: an old start time, or a wrong clock.
        let within = changes.from..=changes.to;
        for change in &mut changes.changes {
            change.at = change.at.filter(|dated| within.contains(&dated.at()));
        }
        changes.sort();
        changes
    }

    /// True when both snapshots have the lists of the topic; otherwise adds a note that says what is missing.
    fn may_compare(&mut self, topic: Topic, before: &Facts, after: &Facts) -> bool {
        let (mut missing, mut unknown) = ([Vec::new(), Vec::new()], Vec::new());
        for table in Table::ALL.iter().filter(|table| topic.needs(**table)) {
            let sides = [before, after].map(|facts| facts.fleet.visibility(*table));
            let is_there = sides
                .map(|known| !matches!(known, TableState::Waiting | TableState::NotVisible(_)));
            match is_there {
                [true, true] => {}
                [false, false] => unknown.push(table.name()),
                [earlier, _] => missing[usize::from(earlier)].push(table.name()),
            }
            for (known, at) in sides.into_iter().zip([before.now, after.now]) {
                if let TableState::Lost(lost) = known {
                    let (since, at) = (lost.since.clock(), at.clock());
                    let table = table.name();
                    self.note(format!(
                        "{table}: unreachable since {since}; for {at} the last known values are compared"
                    ));
                }
            }
        }
        let plural = topic.plural();
        for (names, at) in missing.iter().zip([before.now, after.now]) {
            if !names.is_empty() {
                let (lists, at) = (first_named(names, MOST_NAMED), at.clock());
                self.note(format!(
                    "{plural} are not compared: {lists} not listed at {at}"
                ));
            }
        }
        // Findings are derived from the same known tables on both sides: they need no such note.
        if !unknown.is_empty() && topic != Topic::Finding {
            let lists = first_named(&unknown, MOST_NAMED);
            self.note(format!("{plural}: {lists} not listed at either moment"));
        }
        missing.iter().all(Vec::is_empty)
    }

    fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    fn sort(&mut self) {
        self.changes.small_sort_by(|a, b| {
            let order = |own: &FleetChange| (own.at.is_none(), own.topic, own.severity);
            let newest = b.at.map(Dated::at).cmp(&a.at.map(Dated::at));
            newest
                .then_with(|| order(a).cmp(&order(b)))
                .then_with(|| (&a.namespace, &a.name, &a.id).cmp(&(&b.namespace, &b.name, &b.id)))
        });
        self.groups = causes::groups(&self.changes);
    }

    /// True when a change has no time.
    pub fn is_undated(&self) -> bool {
        self.changes.iter().any(|change| change.at.is_none())
    }

    /// Sets the time of the changes that have none, from a step: the differences between two snapshots within the span. Called with
    /// each step in order; the last step that shows a change counts. A job that no longer exists takes the ending that a step shows.
    /// `undated` are the changes without a time before the first step.
    pub fn date(&mut self, step: &Self, undated: &[bool]) {
        for (change, undated) in self.changes.iter_mut().zip(undated) {
            if !undated {
                continue;
            }
            for shown in &step.changes {
                if !shown.is_of(change) {
                    continue;
                }
                let ended = matches!(
                    shown.event,
                    FleetChangeKind::Ended | FleetChangeKind::Failed
                );
                if change.event == FleetChangeKind::Gone && change.topic == Topic::Job && ended {
                    change.event = shown.event;
                    change.detail.clone_from(&shown.detail);
                } else if change.event != shown.event {
                    continue;
                }
                change.at = shown.at.or(Some(Dated::Seen(step.to)));
            }
        }
    }

    /// For each change, whether it has no time; for [`FleetChanges::date`].
    pub fn undated(&self) -> Vec<bool> {
        self.changes
            .iter()
            .map(|change| change.at.is_none())
            .collect()
    }

    /// Sorts newest first again, after changes were dated.
    pub fn dated(mut self) -> Self {
        self.sort();
        self
    }

    /// The highest weight of the changes; `None` where none has one.
    pub fn weight(&self) -> Option<Severity> {
        self.changes.iter().filter_map(FleetChange::weight).min()
    }
}

/// The number of comparisons that are kept: the latest.
const MOST_KEPT: usize = 8;

/// Comparisons of this session by name, the latest last.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Compared(Vec<(Name, Result<FleetChanges, String>)>);

impl Compared {
    /// Stores the result of a comparison: the changes, or why it failed.
    pub fn put(&mut self, name: Name, result: Result<FleetChanges, String>) {
        self.0.retain(|(known, _)| *known != name);
        self.0.push((name, result));
        let over = self.0.len().saturating_sub(MOST_KEPT);
        self.0.drain(..over);
    }

    /// The result of the comparison of this name, and its index; `None` until it is finished.
    pub fn get(&self, name: &str) -> Option<(usize, &Result<FleetChanges, String>)> {
        let mut all = self.0.iter().enumerate();
        all.find_map(|(at, (known, result))| (**known == *name).then_some((at, result)))
    }

    /// The name of a comparison, by its index.
    pub fn name(&self, at: usize) -> Option<&Name> {
        self.0.get(at).map(|(name, _)| name)
    }

    /// The changes of a comparison, by its index; `None` where it failed.
    pub fn changes(&self, at: usize) -> Option<&FleetChanges> {
        let (_, result) = self.0.get(at)?;
        result.as_ref().ok()
    }
}

/// One cent in micro-USD. Smaller differences are rounding of shares.
const CENT: i64 = 10_000;

/// The number of lists named in a note; the rest are counted.
const MOST_NAMED: usize = 3;

/// The rates of a snapshot; `None` while the lists that rates depend on are still being read.
fn known_rates(facts: &Facts) -> Option<&SpendRates> {
    (facts.fleet.unread().is_empty()).then_some(&*facts.spend_rates)
}

/// A team's rate. A team without a row has no devices: its rate is zero where rates are known at all.
fn team_rate(rates: &SpendRates, team: &Name) -> Option<Money> {
    match rates.row(CostScope::Team, team) {
        Some(row) => row.known().map(|spend| spend.rate),
        None => rates.known().map(|_| Money::ZERO),
    }
}

/// The rates of the fleet, and of each team whose rate differs by at least a cent an hour or is unknown in one snapshot.
fn money_changes(before: Option<&SpendRates>, after: Option<&SpendRates>) -> Vec<MoneyChange> {
    let all = |rates: &SpendRates| rates.known().map(|spend| spend.rate);
    let total = MoneyChange {
        team: None,
        before: before.and_then(all),
        after: after.and_then(all),
    };
    let rows = [before, after].into_iter().flatten();
    let rows = rows.filter_map(|rates| rates.rows.get(&CostScope::Team));
    let mut names: Vec<Name> = rows.flatten().map(|row| row.name.clone()).collect();
    names.small_sort();
    names.dedup();
    let mut rows: Vec<MoneyChange> = names
        .into_iter()
        .map(|team| MoneyChange {
            before: before.and_then(|rates| team_rate(rates, &team)),
            after: after.and_then(|rates| team_rate(rates, &team)),
            team: Some(team),
        })
        .filter(|row| {
            let difference = row.difference().map_or(CENT, i64::abs);
            row.before != row.after && difference >= CENT
        })
        .collect();
    rows.small_sort_by_key(|row| std::cmp::Reverse(row.difference().map(i64::abs)));
    rows.insert(0, total);
    rows
}

/// Pairs the items of two sorted lists by key.
fn pairs<'a, T, K: Ord>(
    before: &'a [T],
    after: &'a [T],
    key: impl Fn(&'a T) -> K,
) -> Vec<(Option<&'a T>, Option<&'a T>)> {
    let (mut a, mut b) = (before.iter().peekable(), after.iter().peekable());
    let mut out = Vec::new();
    loop {
        let order = match (a.peek(), b.peek()) {
            (None, None) => return out,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some(a), Some(b)) => key(a).cmp(&key(b)),
        };
        let was = if order.is_le() { a.next() } else { None };
        let is = if order.is_ge() { b.next() } else { None };
        out.push((was, is));
    }
}
