//! Delivery to one receiver: what it is sent, and when.

use std::time::Duration;

use model::base::{Moment, Name, SmallSort};
use model::fleet::finding::{Finding, PATIENCE, Severity};
use model::notify::{NotifyFilter, ReceiverKind};

use super::entry::{ALERT_LASTS, AlertGroup, Entry, FindingEnd, News};
use super::{Beat, CurrentAlerts, SavedDelivery, SavedEntry, SavedStatus};
use super::{alertmanager, text, webhook};

/// How long a new or resolved finding waits for others of its group. Alertmanager is exempt: it groups by itself.
pub const GROUP_WAIT: Duration = Duration::from_secs(3);
/// Minimum interval between two messages of a group.
pub const GROUP_INTERVAL: Duration = Duration::from_secs(60);
/// Most messages waiting for a receiver; beyond it, groups of the same code are merged.
pub const MOST_WAITING: usize = 64;
/// Most alerts in a request to Alertmanager.
const BATCH: usize = 256;
/// Backoff after the first failure; each further failure doubles it.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// Longest backoff, unless the receiver asks for more.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// A refused message is sent again after this.
const AFTER_REFUSAL: Duration = Duration::from_secs(15 * 60);
/// How long a finding restored from disk is kept beyond its check's `for`, until everything was read and checked again.
const RESTART: Duration = Duration::from_secs(180);

/// The settings of a receiver that messages depend on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeliveryRules {
    /// Its name in the settings.
    pub receiver: Name,
    pub kind: ReceiverKind,
    /// Which findings it is sent.
    pub filter: NotifyFilter,
    pub cluster: String,
}

/// Result of sending a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SendOutcome {
    Sent,
    /// Failed; retry, not before the given delay, with the reason.
    Again(Option<Duration>, String),
    /// Refused for good, or redirected, with the reason.
    Refused(String),
}

/// A message to be sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outgoing {
    pub body: String,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DeliveryCounts {
    pub sent: u64,
    /// Failed attempts that are retried.
    pub retries: u64,
    pub refused: u64,
    /// Findings that ended before a message about them was accepted.
    pub dropped: u64,
    pub waiting: usize,
    /// When a message was last accepted.
    pub last_sent: Option<Moment>,
    /// Why the last attempt failed; `None` after a success.
    pub fault: Option<String>,
}

/// A group with news to report.
struct WaitingGroup {
    group: AlertGroup,
    severity: Severity,
    changed: Duration,
    entries: Vec<usize>,
}

/// State of delivery to one receiver: what it was sent, and what is pending.
#[derive(Clone, Debug)]
pub struct Delivery {
    rules: DeliveryRules,
    entries: Vec<Entry>,
    /// When the last message of each code and place was sent.
    groups: Vec<(AlertGroup, Duration)>,
    failures: u32,
    not_before: Duration,
    busy: bool,
    /// True when the state on disk is out of date.
    is_dirty: bool,
    counts: DeliveryCounts,
}

impl Delivery {
    /// Delivery to a receiver that has been sent nothing.
    pub fn new(rules: DeliveryRules) -> Self {
        Self {
            rules,
            entries: Vec::new(),
            groups: Vec::new(),
            failures: 0,
            not_before: Duration::ZERO,
            busy: false,
            is_dirty: false,
            counts: DeliveryCounts::default(),
        }
    }

    /// Restores saved state. Returns the number of messages that were in flight when the process ended: it is unknown
    /// whether these arrived. They are not sent again, except to Alertmanager, where sending an alert again is harmless.
    pub fn restore(&mut self, saved: SavedDelivery) -> usize {
        let mut unsure = 0;
        let again = self.rules.kind == ReceiverKind::Alertmanager;
        for entry in saved.entries {
            unsure += usize::from(entry.status != SavedStatus::Told && !again);
            if entry.status == SavedStatus::Ending && !again {
                continue;
            }
            self.entries.push(Entry::restored(entry));
        }
        self.sort();
        unsure
    }

    /// True where the state to save has changed since the last call.
    pub fn has_changed(&mut self) -> bool {
        std::mem::take(&mut self.is_dirty)
    }

    /// True while a message is in flight.
    pub fn is_busy(&self) -> bool {
        self.busy
    }

    /// The state to save.
    pub fn saved(&self) -> SavedDelivery {
        let entries = self.entries.iter().filter_map(|entry| {
            let status = match entry.in_flight {
                Some((News::Firing, _)) => SavedStatus::Sending,
                Some((News::Over, _)) => SavedStatus::Ending,
                None if entry.sent_severity.is_some() => SavedStatus::Told,
                None => return None,
            };
            let sent = entry.in_flight.map(|(_, severity)| severity);
            Some(SavedEntry {
                status,
                finding: Finding {
                    severity: sent.or(entry.sent_severity).unwrap_or(entry.severity()),
                    ..entry.alert.finding.clone()
                },
                place: entry.alert.place.clone(),
            })
        });
        SavedDelivery {
            receiver: self.rules.receiver.clone(),
            entries: entries.collect(),
        }
    }

    /// The settings of the receiver.
    pub fn rules(&self) -> &DeliveryRules {
        &self.rules
    }

    pub fn counts(&self) -> DeliveryCounts {
        DeliveryCounts {
            waiting: match self.rules.kind {
                ReceiverKind::Alertmanager => self.waiting_alerts().count().div_ceil(BATCH),
                _ => self.waiting().len(),
            },
            ..self.counts.clone()
        }
    }

    fn sort(&mut self) {
        let id = |entry: &Entry| entry.alert.finding.id.clone();
        self.entries.small_sort_by_key(id);
    }

    fn at(&self, id: &Name) -> Result<usize, usize> {
        self.entries
            .binary_search_by(|entry| entry.alert.finding.id.cmp(id))
    }

    /// Updates the entries from the current findings. `hold` returns a check's `for`: how long a condition lasts before it is a finding.
    pub fn update(
        &mut self,
        beat: Beat,
        standing: &CurrentAlerts,
        hold: impl Fn(&str) -> Duration,
    ) {
        let mut seen = vec![false; self.entries.len()];
        let mut new = Vec::new();
        for alert in &standing.alerts {
            if !self.rules.filter.has(&alert.finding, &alert.place) {
                continue;
            }
            match self.at(&alert.finding.id) {
                Ok(at) => {
                    seen[at] = true;
                    self.entries[at].refresh(alert, beat);
                }
                Err(_) => new.push(Entry::new(alert, beat)),
            }
        }
        let gone = self.entries.iter_mut().zip(seen);
        for (entry, _) in gone.filter(|(entry, seen)| !seen && entry.ended.is_none()) {
            let finding = &entry.alert.finding;
            let ended = if standing.muted.contains(&finding.id) {
                FindingEnd::Muted
            } else if !standing.cluster_known
                || standing.covers(&entry.alert)
                || (finding.subject.kind == super::budgets::SUBJECT && !standing.budgets_known)
                || (entry.restored && beat.up < hold(&finding.code) + RESTART)
                || (entry.restored && beat.up < PATIENCE && !standing.can_judge(&entry.alert))
            {
                continue;
            } else {
                FindingEnd::Resolved
            };
            entry.ended = Some(ended);
            entry.changed = beat.up;
            entry.not_before = Duration::ZERO;
        }
        // Nothing was sent about these, and they are over.
        let before = self.entries.len();
        let dropped =
            |entry: &Entry| entry.ended == Some(FindingEnd::Resolved) && entry.is_unsent();
        self.counts.dropped += self.entries.iter().filter(|entry| dropped(entry)).count() as u64;
        self.entries
            .retain(|entry| entry.ended.is_none() || !entry.is_unsent());
        if !new.is_empty() || before != self.entries.len() {
            self.entries.append(&mut new);
            self.sort();
        }
    }

    /// Marks all pending news as sent by another process: the receiver knows it from here on, and no message is counted.
    pub fn mark_all_sent(&mut self, beat: Beat) {
        for entry in &mut self.entries {
            if entry.news().is_some() {
                entry.sent_severity = entry.ended.is_none().then(|| entry.severity());
                entry.sent = Some(beat.up);
                self.is_dirty = true;
            }
        }
        self.entries
            .retain(|entry| entry.ended.is_none() || entry.sent_severity.is_some());
    }

    /// The next message, where one is due and none is in flight.
    pub fn next(&mut self, beat: Beat) -> Option<Outgoing> {
        if self.busy || beat.up < self.not_before {
            return None;
        }
        let body = match self.rules.kind {
            ReceiverKind::Alertmanager => self.alerts(beat)?,
            ReceiverKind::Slack | ReceiverKind::Webhook => self.message(beat)?,
        };
        self.busy = true;
        Some(Outgoing { body })
    }

    /// Alerts for Alertmanager: new and resolved ones, otherwise those due to be sent again.
    fn alerts(&mut self, beat: Beat) -> Option<String> {
        // A refused alert waits by itself and does not block the others.
        let ripe = |at: &usize| beat.up >= self.entries[*at].not_before;
        let mut due: Vec<usize> = self.waiting_alerts().filter(ripe).collect();
        if due.is_empty() {
            let again = |entry: &Entry| {
                let last = entry.sent.map_or(Duration::ZERO, |at| at + ALERT_LASTS / 3);
                entry.sent_severity.is_some() && beat.up >= last
            };
            let entries = self.entries.iter().enumerate();
            let all = entries.filter(|(_, entry)| again(entry));
            due = all.map(|(at, _)| at).filter(ripe).collect();
        }
        // Highest severity first, then firing before resolved.
        due.small_sort_by_key(|at| {
            (
                self.entries[*at].severity(),
                self.entries[*at].ended.is_some(),
            )
        });
        due.truncate(BATCH);
        if due.is_empty() {
            return None;
        }
        let entries = due.iter().map(|at| &self.entries[*at]);
        let body = alertmanager::body(&self.rules.cluster, entries, beat.now);
        self.take_off(&due);
        Some(body)
    }

    /// Marks these entries as in flight.
    fn take_off(&mut self, entries: &[usize]) {
        for at in entries {
            let entry = &mut self.entries[*at];
            let news = match entry.ended {
                None => News::Firing,
                Some(_) => News::Over,
            };
            entry.in_flight = Some((news, entry.severity()));
        }
    }

    fn waiting_alerts(&self) -> impl Iterator<Item = usize> {
        let entries = self.entries.iter().enumerate();
        let changed = |entry: &Entry| {
            entry.news().is_some()
                || entry
                    .sent_severity
                    .is_some_and(|sent| sent != entry.severity())
        };
        entries
            .filter(move |(_, entry)| changed(entry))
            .map(|(at, _)| at)
    }

    /// The pending messages, one per group.
    fn waiting(&self) -> Vec<WaitingGroup> {
        let waiting = self.grouped(AlertGroup::of);
        match waiting.len() > MOST_WAITING {
            false => waiting,
            // An alert storm over many places: one message per code.
            true => self.grouped(|entry, news| AlertGroup {
                place: None,
                ..AlertGroup::of(entry, news)
            }),
        }
    }

    fn grouped(&self, group: impl Fn(&Entry, News) -> AlertGroup) -> Vec<WaitingGroup> {
        let entries = self.entries.iter().enumerate();
        let news = entries.filter_map(|(at, entry)| Some((group(entry, entry.news()?), at)));
        let mut news: Vec<(AlertGroup, usize)> = news.collect();
        news.small_sort();
        let mut out: Vec<WaitingGroup> = Vec::new();
        for (group, at) in news {
            let entry = &self.entries[at];
            let changed = entry.changed.max(entry.not_before);
            match out.last_mut().filter(|last| last.group == group) {
                Some(last) => {
                    last.severity = last.severity.min(entry.severity());
                    last.changed = last.changed.min(changed);
                    last.entries.push(at);
                }
                None => out.push(WaitingGroup {
                    group,
                    severity: entry.severity(),
                    changed,
                    entries: vec![at],
                }),
            }
        }
        out
    }

    /// The next message about a group: highest severity first, then firing before resolved, then oldest first.
    fn message(&mut self, beat: Beat) -> Option<String> {
        self.groups
            .retain(|(_, sent)| beat.up < *sent + GROUP_INTERVAL);
        let mut waiting = self.waiting();
        waiting.retain(|one| {
            let mut groups = self.groups.iter();
            let recent = groups.any(|(group, _)| {
                (&group.code, &group.place) == (&one.group.code, &one.group.place)
            });
            !recent && beat.up >= one.changed + GROUP_WAIT
        });
        let next = waiting
            .into_iter()
            .min_by_key(|one| (one.severity, one.group.news, one.changed))?;
        let entries: Vec<&Entry> = next.entries.iter().map(|at| &self.entries[*at]).collect();
        let cluster = &self.rules.cluster;
        let body = match self.rules.kind {
            ReceiverKind::Slack => text::slack(cluster, &next.group, &entries),
            _ => webhook::body(cluster, &next.group, &entries, beat.now),
        };
        self.take_off(&next.entries);
        self.is_dirty = true;
        self.groups.push((next.group, beat.up));
        Some(body)
    }

    /// Handles the result of the message in flight. `jitter` is from 0 to 1 and lengthens a wait by up to a fifth.
    pub fn done(&mut self, beat: Beat, outcome: SendOutcome, jitter: f64) {
        self.busy = false;
        let sent = outcome == SendOutcome::Sent;
        match &outcome {
            SendOutcome::Sent => {
                self.failures = 0;
                self.counts.sent += 1;
                self.counts.last_sent = Some(beat.now);
                self.counts.fault = None;
            }
            SendOutcome::Again(asked, why) => {
                let wait = FIRST_WAIT * (1 << self.failures.min(6));
                // A `Retry-After` shorter than our backoff does not shorten it.
                let wait = asked.unwrap_or_default().max(wait.min(LONGEST_WAIT));
                self.failures = self.failures.saturating_add(1);
                self.not_before = beat.up + wait.mul_f64(1.0 + jitter.clamp(0.0, 1.0) / 5.0);
                self.counts.retries += 1;
                self.counts.fault = Some(why.clone());
                // The group was not sent.
                self.groups.pop();
            }
            SendOutcome::Refused(why) => {
                self.failures = 0;
                self.counts.refused += 1;
                self.counts.fault = Some(why.clone());
                self.groups.pop();
            }
        }
        let refused = matches!(outcome, SendOutcome::Refused(_));
        let pause = match self.rules.kind {
            ReceiverKind::Alertmanager => LONGEST_WAIT,
            _ => AFTER_REFUSAL,
        };
        let edges = self.rules.kind != ReceiverKind::Alertmanager;
        for entry in &mut self.entries {
            let Some((news, severity)) = entry.in_flight.take() else {
                continue;
            };
            if sent {
                let severity_sent = (news == News::Firing).then_some(severity);
                self.is_dirty |= edges || entry.sent_severity != severity_sent;
                (entry.sent_severity, entry.sent) = (severity_sent, Some(beat.up));
                // It changed again while the message was in flight.
                if entry.news().is_some() {
                    entry.changed = beat.up;
                }
            } else {
                self.is_dirty |= edges;
                if refused {
                    entry.not_before = beat.up + pause;
                }
            }
        }
        self.entries
            .retain(|entry| entry.ended.is_none() || entry.sent_severity.is_some());
    }
}
