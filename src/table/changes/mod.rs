//! What changed between two pictures of the fleet: jobs, nodes, queues, findings, money.
//!
//! Only what differs between the two is told: what came and went in between is in neither. Where a list was not there in one
//! of them, nothing is concluded from it, and that is said.

mod jobs;
mod rest;
#[cfg(test)]
mod tests;
mod text;

use model::base::quantities::first_named;
use model::base::{Moment, Name, Rate, SmallSort};
use model::cost::{Burn, Scope as CostScope};
use model::fleet::Known;
use model::fleet::finding::Severity;
use model::fleet::observe::Table;

use super::Facts;

pub use text::{NOTHING_DIFFERS, document, money_lines, summary, text, when};

/// What a change is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Topic {
    /// A finding.
    Finding,
    /// A node.
    Node,
    /// A job.
    Job,
    /// A queue or a cohort, its quotas.
    Queue,
}

impl Topic {
    /// Every topic, in the order in which changes of one moment stand.
    pub const ALL: [Self; 4] = [Self::Finding, Self::Node, Self::Job, Self::Queue];

    /// As in the JSON contract.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Finding => "finding",
            Self::Node => "node",
            Self::Job => "job",
            Self::Queue => "queue",
        }
    }

    /// True when the rows of this table make such objects: without it nothing is known of them.
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

    /// Several of them, in words.
    const fn plural(self) -> &'static str {
        match self {
            Self::Finding => "findings",
            Self::Node => "nodes",
            Self::Job => "jobs",
            Self::Queue => "queues",
        }
    }
}

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Event {
    /// A job was submitted and does not run yet.
    Queued,
    /// A job runs that did not.
    Started,
    /// A job ended well.
    Ended,
    /// A job ended badly.
    Failed,
    /// Its queueing system evicted a job.
    Evicted,
    /// A job lost what it ran on, and no queueing system says why.
    Displaced,
    /// A job has lost some of the pods that it needs.
    Degraded,
    /// A job is held.
    Suspended,
    /// A job is no longer held.
    Resumed,
    /// A job runs on other nodes, or stands in another queue.
    Moved,
    /// A job holds more devices, or fewer.
    Resized,
    /// The object is no longer there.
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
    /// A queue or a quota of it is new.
    Created,
    /// A quota was raised.
    Raised,
    /// A quota was lowered.
    Lowered,
    /// A queue admits nothing any more.
    Stopped,
    /// A queue admits again.
    Opened,
    /// A finding began.
    Began,
    /// A finding ended.
    Cleared,
}

impl Event {
    /// In a word or two; as in the JSON contract.
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

/// When a change was, and how that is known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Dated {
    /// An object or an exporter says so.
    Told(Moment),
    /// The first picture that shows it is of this moment: it was a few seconds before.
    Seen(Moment),
}

impl Dated {
    /// The moment.
    pub const fn at(self) -> Moment {
        match self {
            Self::Told(at) | Self::Seen(at) => at,
        }
    }
}

/// One thing that differs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// When it was; `None` where that is not known.
    pub at: Option<Dated>,
    /// What it is about.
    pub topic: Topic,
    /// What happened.
    pub event: Event,
    /// Tells it from other changes of one name: kind of a job, id of a finding, flavor and resource of a quota.
    pub id: Name,
    /// Namespace; empty for what has none.
    pub namespace: Name,
    /// Name.
    pub name: Name,
    /// Whose job it is.
    pub team: Option<Name>,
    /// How grave the finding is.
    pub severity: Option<Severity>,
    /// In words: how many devices, where, why; may be empty.
    pub detail: String,
}

impl Change {
    /// How much it matters to somebody who looks for what went wrong; `None` for what is passed over.
    pub fn weight(&self) -> Option<Severity> {
        match (self.topic, self.event) {
            (Topic::Finding, Event::Began) => self.severity.filter(|own| *own != Severity::Info),
            (Topic::Node, Event::NotReady | Event::Gone) => Some(Severity::Crit),
            (Topic::Node, Event::Cordoned)
            | (Topic::Job, Event::Evicted | Event::Displaced | Event::Failed | Event::Degraded) => {
                Some(Severity::Warn)
            }
            (Topic::Job, Event::Started | Event::Ended | Event::Gone) => Some(Severity::Info),
            _ => None,
        }
    }

    /// What it is about, in one word: a job or the subject of a finding with its namespace.
    pub fn subject(&self) -> String {
        match self.namespace.is_empty() {
            true => self.name.to_string(),
            false => format!("{}/{}", self.namespace, self.name),
        }
    }

    /// True when the other one is of the same object.
    fn is_of(&self, other: &Self) -> bool {
        (self.topic, &self.id, &self.namespace, &self.name)
            == (other.topic, &other.id, &other.namespace, &other.name)
    }
}

/// What somebody's devices cost an hour, in both pictures; `None` where that is not known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MoneyChange {
    /// A team; `None` is all that is looked at.
    pub team: Option<Name>,
    /// In the earlier picture.
    pub before: Option<Rate>,
    /// In the later one.
    pub after: Option<Rate>,
}

impl MoneyChange {
    /// By how much it differs, micro-dollars an hour; `None` where one side is not known.
    pub fn difference(&self) -> Option<i64> {
        let (before, after) = self.before.zip(self.after)?;
        Some(after.micros() - before.micros())
    }
}

/// All that differs between two pictures.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Changes {
    /// The moment of the earlier picture.
    pub from: Moment,
    /// That of the later one.
    pub to: Moment,
    /// Newest first; what has no known moment stands last.
    pub changes: Vec<Change>,
    /// All that is looked at first, then the teams of which it differs, by how much.
    pub money: Vec<MoneyChange>,
    /// What could not be compared, and why.
    pub notes: Vec<String>,
}

impl Changes {
    /// Compares two pictures of one cluster, the earlier one first.
    pub fn between(before: &Facts, after: &Facts) -> Self {
        let mut changes = Self {
            from: before.now,
            to: after.now,
            changes: Vec::new(),
            money: money(before, after),
            notes: Vec::new(),
        };
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
        // What is told of another time is not of these changes: a start long ago, or a clock that is wrong.
        let within = changes.from..=changes.to;
        for change in &mut changes.changes {
            change.at = change.at.filter(|dated| within.contains(&dated.at()));
        }
        changes.sort();
        changes
    }

    /// True when both pictures have the lists that the topic is made of. Notes what keeps it from being compared.
    fn may_compare(&mut self, topic: Topic, before: &Facts, after: &Facts) -> bool {
        let (mut missing, mut unknown) = ([Vec::new(), Vec::new()], Vec::new());
        for table in Table::ALL.iter().filter(|table| topic.needs(**table)) {
            let sides = [before, after].map(|facts| facts.fleet.known(*table));
            let is_there =
                sides.map(|known| !matches!(known, Known::Waiting | Known::NotVisible(_)));
            match is_there {
                [true, true] => {}
                [false, false] => unknown.push(table.name()),
                [earlier, _] => missing[usize::from(earlier)].push(table.name()),
            }
            for (known, at) in sides.into_iter().zip([before.now, after.now]) {
                if let Known::Lost(lost) = known {
                    let (since, at) = (lost.since.clock(), at.clock());
                    let table = table.name();
                    self.note(format!(
                        "{table}: lost since {since}, what is compared as of {at} is what was known then"
                    ));
                }
            }
        }
        let plural = topic.plural();
        for (names, at) in missing.iter().zip([before.now, after.now]) {
            if !names.is_empty() {
                let (lists, at) = (first_named(names, NAMED), at.clock());
                self.note(format!(
                    "{plural} are not compared: {lists} not listed at {at}"
                ));
            }
        }
        // Findings are of what is known, at both moments the same.
        if !unknown.is_empty() && topic != Topic::Finding {
            let lists = first_named(&unknown, NAMED);
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
            let order = |own: &Change| (own.at.is_none(), own.topic, own.severity);
            let newest = b.at.map(Dated::at).cmp(&a.at.map(Dated::at));
            newest
                .then_with(|| order(a).cmp(&order(b)))
                .then_with(|| (&a.namespace, &a.name, &a.id).cmp(&(&b.namespace, &b.name, &b.id)))
        });
    }

    /// True while a change has no moment.
    pub fn is_undated(&self) -> bool {
        self.changes.iter().any(|change| change.at.is_none())
    }

    /// Dates changes by what differs between two pictures that lie between these, one after the other. Given such steps in
    /// their order, the last one that brought a change counts. A job of which nothing is left ended in a step as it did.
    pub fn date(&mut self, step: &Self, undated: &[bool]) {
        for (own, undated) in self.changes.iter_mut().zip(undated) {
            if !undated {
                continue;
            }
            for seen in &step.changes {
                if !seen.is_of(own) {
                    continue;
                }
                let ended = matches!(seen.event, Event::Ended | Event::Failed);
                if own.event == Event::Gone && own.topic == Topic::Job && ended {
                    own.event = seen.event;
                    own.detail.clone_from(&seen.detail);
                } else if own.event != seen.event {
                    continue;
                }
                own.at = seen.at.or(Some(Dated::Seen(step.to)));
            }
        }
    }

    /// Which changes have no moment, for [`Changes::date`].
    pub fn undated(&self) -> Vec<bool> {
        self.changes
            .iter()
            .map(|change| change.at.is_none())
            .collect()
    }

    /// Puts the newest first again, after changes were dated.
    pub fn dated(mut self) -> Self {
        self.sort();
        self
    }

    /// What of it matters, the gravest; `None` where nothing does.
    pub fn weight(&self) -> Option<Severity> {
        self.changes.iter().filter_map(Change::weight).min()
    }
}

/// Of so many comparisons the answers are kept, the latest.
const KEPT: usize = 8;

/// What was compared in a session, by the names of the comparisons, the latest last.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Compared(Vec<(Name, Result<Changes, String>)>);

impl Compared {
    /// Keeps what came of a comparison: the changes, or why there are none.
    pub fn put(&mut self, name: Name, told: Result<Changes, String>) {
        self.0.retain(|(known, _)| *known != name);
        self.0.push((name, told));
        let over = self.0.len().saturating_sub(KEPT);
        self.0.drain(..over);
    }

    /// What came of the comparison of this name, and its place among all; `None` until it has come.
    pub fn get(&self, name: &str) -> Option<(usize, &Result<Changes, String>)> {
        let mut all = self.0.iter().enumerate();
        all.find_map(|(at, (known, told))| (**known == *name).then_some((at, told)))
    }

    /// A change of the comparison at this place.
    pub fn change(&self, at: usize, change: usize) -> Option<&Change> {
        let (_, told) = self.0.get(at)?;
        told.as_ref().ok()?.changes.get(change)
    }
}

/// Micro-dollars. What differs by less is a rounding of shares.
const CENT: i64 = 10_000;

/// Lists that a note names; the others are counted.
const NAMED: usize = 3;

/// What somebody has of the money; `None` while the lists are read without which nothing true can be said of it.
fn known_rate(facts: &Facts, of: impl FnOnce(&Burn) -> Option<Rate>) -> Option<Rate> {
    let is_read = facts.fleet.unread().is_empty();
    of(&facts.burn).filter(|_| is_read)
}

fn money(before: &Facts, after: &Facts) -> Vec<MoneyChange> {
    let all = |burn: &Burn| burn.known().map(|spend| spend.burn);
    let total = MoneyChange {
        team: None,
        before: known_rate(before, all),
        after: known_rate(after, all),
    };
    let teams = |facts: &Facts| -> Vec<Name> {
        let rows = facts.burn.rows.get(&CostScope::Team);
        rows.into_iter()
            .flatten()
            .map(|row| row.name.clone())
            .collect()
    };
    let mut names = teams(before);
    names.extend(teams(after));
    names.small_sort();
    names.dedup();
    let mut rows: Vec<MoneyChange> = names
        .into_iter()
        .map(|team| {
            // A team without a row holds nothing: that costs nothing, where money is known at all.
            let own = |burn: &Burn| match burn.row(CostScope::Team, &team) {
                Some(row) => row.known().map(|spend| spend.burn),
                None => burn.known().map(|_| Rate::ZERO),
            };
            let (before, after) = (known_rate(before, own), known_rate(after, own));
            MoneyChange {
                team: Some(team),
                before,
                after,
            }
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

/// Pairs what two sorted lists have of one key.
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
