//! What one receiver is sent, and when.

use std::time::Duration;

use model::base::{Moment, Name, SmallSort};
use model::fleet::checks::PATIENCE;
use model::fleet::finding::{Finding, Severity};
use model::notify::{NotifyFilter, ReceiverKind};

use super::{Alert, Beat, SavedDelivery, SavedEntry, SavedStatus, Standing};
use super::{alertmanager, text, webhook};

/// What begins or ends waits so long for more of its group, except for Alertmanager, which groups by itself.
pub const GROUP_WAIT: Duration = Duration::from_secs(3);
/// Two messages of a group are this far apart.
pub const GROUP_INTERVAL: Duration = Duration::from_secs(60);
/// More messages than this never wait for a receiver: groups of the same code are put together.
pub const MOST_WAITING: usize = 64;
/// An alert that is not sent again ends in Alertmanager after this; it is sent again after a third of it.
pub const ALERT_LASTS: Duration = Duration::from_secs(300);
/// Most alerts in a request to Alertmanager.
const BATCH: usize = 256;
/// The wait after the first failure; each further one doubles it.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest wait between two tries, unless the receiver asks for more.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// What a receiver refused is offered again after this.
const AFTER_REFUSAL: Duration = Duration::from_secs(15 * 60);
/// What was told before a restart holds for so long beyond its check's `for`, until everything was read and judged once more.
const RESTART: Duration = Duration::from_secs(180);

/// What a receiver is, as far as messages depend on it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeliveryRules {
    /// Its name in the settings.
    pub receiver: Name,
    /// Its protocol.
    pub kind: ReceiverKind,
    /// What it is sent.
    pub filter: NotifyFilter,
    /// What the cluster is called.
    pub cluster: String,
}

/// What came of sending.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SendOutcome {
    /// The receiver took it.
    Sent,
    /// It may take it later, not before this time: it does not answer, or says that it fails.
    Again(Option<Duration>, String),
    /// It does not take it: a refusal, a redirect.
    Refused(String),
}

/// A message to be sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outgoing {
    /// JSON.
    pub body: String,
}

/// How delivery goes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DeliveryCounts {
    /// Messages that the receiver took.
    pub sent: u64,
    /// Tries that failed and are made again.
    pub retries: u64,
    /// Messages that it refused.
    pub refused: u64,
    /// Findings that ended before the receiver took a message about them.
    pub dropped: u64,
    /// Messages that wait.
    pub waiting: usize,
    /// When it last took one.
    pub last_sent: Option<Moment>,
    /// Why the last try failed; `None` while all is well.
    pub fault: Option<String>,
}

/// Why a finding does not stand any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ended {
    /// It is not found any more.
    Resolved,
    /// It was muted.
    Muted,
}

/// What there is to be said of a finding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum News {
    /// It stands.
    Firing,
    /// It does not.
    Over,
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) alert: Alert,
    /// `None` while it stands.
    pub(super) ended: Option<Ended>,
    /// As how severe the receiver knows it; `None` where it does not.
    pub(super) told: Option<Severity>,
    /// When what is to be said became so.
    changed: Duration,
    /// When it was last sent by this process.
    sent: Option<Duration>,
    /// Refused: not offered before.
    not_before: Duration,
    /// Told before a restart and not seen since.
    restored: bool,
    /// What the message that is under way says of it, and how severe it is there.
    in_flight: Option<(News, Severity)>,
}

impl Entry {
    fn new(alert: &Alert, beat: Beat) -> Self {
        Self {
            alert: alert.clone(),
            ended: None,
            told: None,
            changed: beat.up,
            sent: None,
            not_before: Duration::ZERO,
            restored: false,
            in_flight: None,
        }
    }

    /// What was told before a restart.
    fn restored(saved: SavedEntry) -> Self {
        Self {
            told: Some(saved.finding.severity),
            alert: Alert {
                finding: saved.finding,
                place: saved.place,
                acknowledged: false,
            },
            ended: None,
            changed: Duration::ZERO,
            sent: None,
            not_before: Duration::ZERO,
            restored: true,
            in_flight: None,
        }
    }

    /// It stands, as it is told now.
    fn stands(&mut self, alert: &Alert, beat: Beat) {
        let had = self.news();
        let old = &self.alert;
        // What is known of its place may come late and go; as long as it stands it is told at one.
        let place = match self.is_untold() {
            true => alert.place.clone(),
            false => old.place.clone(),
        };
        // A restart does not make it younger.
        let (since, first_seen) = (old.finding.since, old.finding.first_seen);
        let older = since < alert.finding.since;
        self.alert = Alert {
            place,
            ..alert.clone()
        };
        if older {
            let finding = &mut self.alert.finding;
            (finding.since, finding.first_seen) = (since, first_seen);
        }
        self.restored = false;
        self.ended = None;
        if self.news() != had {
            self.changed = beat.up;
        }
    }

    /// The receiver knows nothing of it.
    fn is_untold(&self) -> bool {
        self.told.is_none() && self.in_flight.is_none()
    }

    fn news(&self) -> Option<News> {
        match (self.ended, self.told) {
            (None, None) => Some(News::Firing),
            // It became worse.
            (None, Some(told)) => (self.alert.finding.severity < told).then_some(News::Firing),
            (Some(_), told) => told.map(|_| News::Over),
        }
    }

    fn severity(&self) -> Severity {
        self.alert.finding.severity
    }
}

/// Findings that go into one message: what is new, the code, and the place or the finding itself.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Group {
    pub(super) news: News,
    pub(super) code: Name,
    /// Rack or pool with its name; `None` for the whole fleet.
    pub(super) place: Option<(&'static str, Name)>,
}

impl Group {
    fn of(entry: &Entry, news: News) -> Self {
        let (finding, place) = (&entry.alert.finding, &entry.alert.place);
        let rack = place.rack.clone().map(|name| ("rack", name));
        let pool = || place.pool.clone().map(|name| ("pool", name));
        let key = &finding.subject.key;
        let own = || match finding.subject.kind {
            "Job" | "Pod" => ("namespace", key.namespace.clone()),
            "Budget" => ("budget", key.name.clone()),
            _ => ("", Name::default()),
        };
        let place = rack.or_else(pool).unwrap_or_else(own);
        Self {
            news,
            code: finding.code.clone(),
            place: (!place.1.is_empty()).then_some(place),
        }
    }
}

/// A group with something to be said of it.
struct Waiting {
    group: Group,
    severity: Severity,
    changed: Duration,
    entries: Vec<usize>,
}

/// What one receiver was told and is to be told.
#[derive(Clone, Debug)]
pub struct Delivery {
    rules: DeliveryRules,
    entries: Vec<Entry>,
    /// When the last message of a group was sent, by code and place.
    groups: Vec<(Group, Duration)>,
    failures: u32,
    not_before: Duration,
    busy: bool,
    /// Something of what is kept on disk has changed.
    is_dirty: bool,
    counts: DeliveryCounts,
}

impl Delivery {
    /// Of a receiver that was told nothing yet.
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

    /// Goes on from what was kept; gives how many messages were under way when the process ended. Whether these arrived is not known:
    /// they are not sent again, except to Alertmanager, which takes an alert as often as it is sent.
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

    /// True where what is to be kept has changed since the last call.
    pub fn has_changed(&mut self) -> bool {
        std::mem::take(&mut self.is_dirty)
    }

    /// True while a message is under way.
    pub fn is_busy(&self) -> bool {
        self.busy
    }

    /// What is to be kept.
    pub fn saved(&self) -> SavedDelivery {
        let entries = self.entries.iter().filter_map(|entry| {
            let status = match entry.in_flight {
                Some((News::Firing, _)) => SavedStatus::Sending,
                Some((News::Over, _)) => SavedStatus::Ending,
                None if entry.told.is_some() => SavedStatus::Told,
                None => return None,
            };
            let sent = entry.in_flight.map(|(_, severity)| severity);
            Some(SavedEntry {
                status,
                finding: Finding {
                    severity: sent.or(entry.told).unwrap_or(entry.severity()),
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

    /// What the receiver is.
    pub fn rules(&self) -> &DeliveryRules {
        &self.rules
    }

    /// How it goes.
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

    /// Takes what stands now. `hold` says how long a finding's check lets it last before it is one.
    pub fn update(&mut self, beat: Beat, standing: &Standing, hold: impl Fn(&str) -> Duration) {
        let mut seen = vec![false; self.entries.len()];
        let mut new = Vec::new();
        for alert in &standing.alerts {
            if !self.rules.filter.has(&alert.finding, &alert.place) {
                continue;
            }
            match self.at(&alert.finding.id) {
                Ok(at) => {
                    seen[at] = true;
                    self.entries[at].stands(alert, beat);
                }
                Err(_) => new.push(Entry::new(alert, beat)),
            }
        }
        let gone = self.entries.iter_mut().zip(seen);
        for (entry, _) in gone.filter(|(entry, seen)| !seen && entry.ended.is_none()) {
            let finding = &entry.alert.finding;
            let ended = if standing.muted.contains(&finding.id) {
                Ended::Muted
            } else if !standing.cluster_known
                || standing.covers(&entry.alert)
                || (finding.subject.kind == super::budgets::SUBJECT && !standing.budgets_known)
                || (entry.restored && beat.up < hold(&finding.code) + RESTART)
                || (entry.restored && beat.up < PATIENCE && !standing.can_tell(&entry.alert))
            {
                continue;
            } else {
                Ended::Resolved
            };
            entry.ended = Some(ended);
            entry.changed = beat.up;
            entry.not_before = Duration::ZERO;
        }
        // Nothing was told of these, and nothing is left to be told.
        let before = self.entries.len();
        let dropped = |entry: &Entry| entry.ended == Some(Ended::Resolved) && entry.is_untold();
        self.counts.dropped += self.entries.iter().filter(|entry| dropped(entry)).count() as u64;
        self.entries
            .retain(|entry| entry.ended.is_none() || !entry.is_untold());
        if !new.is_empty() || before != self.entries.len() {
            self.entries.append(&mut new);
            self.sort();
        }
    }

    /// What waits to be said has been said by another process: it is known to the receiver from here on, and no message is counted.
    pub fn take_as_told(&mut self, beat: Beat) {
        for entry in &mut self.entries {
            if entry.news().is_some() {
                entry.told = entry.ended.is_none().then(|| entry.severity());
                entry.sent = Some(beat.up);
                self.is_dirty = true;
            }
        }
        self.entries
            .retain(|entry| entry.ended.is_none() || entry.told.is_some());
    }

    /// The next message, where one is due and none is under way.
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

    /// Alerts for Alertmanager: those that are new or over, else those that are due again.
    fn alerts(&mut self, beat: Beat) -> Option<String> {
        // What was refused waits for its time alone, and holds up none of the others.
        let ripe = |at: &usize| beat.up >= self.entries[*at].not_before;
        let mut due: Vec<usize> = self.waiting_alerts().filter(ripe).collect();
        if due.is_empty() {
            let again = |entry: &Entry| {
                let last = entry.sent.map_or(Duration::ZERO, |at| at + ALERT_LASTS / 3);
                entry.told.is_some() && beat.up >= last
            };
            let entries = self.entries.iter().enumerate();
            let all = entries.filter(|(_, entry)| again(entry));
            due = all.map(|(at, _)| at).filter(ripe).collect();
        }
        // The worst first, and of these what fires.
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

    /// A message about these is under way.
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
            entry.news().is_some() || entry.told.is_some_and(|told| told != entry.severity())
        };
        entries
            .filter(move |(_, entry)| changed(entry))
            .map(|(at, _)| at)
    }

    /// What waits, a message each.
    fn waiting(&self) -> Vec<Waiting> {
        let waiting = self.grouped(Group::of);
        match waiting.len() > MOST_WAITING {
            false => waiting,
            // A storm over many places: one message for each code.
            true => self.grouped(|entry, news| Group {
                place: None,
                ..Group::of(entry, news)
            }),
        }
    }

    fn grouped(&self, group: impl Fn(&Entry, News) -> Group) -> Vec<Waiting> {
        let entries = self.entries.iter().enumerate();
        let news = entries.filter_map(|(at, entry)| Some((group(entry, entry.news()?), at)));
        let mut news: Vec<(Group, usize)> = news.collect();
        news.small_sort();
        let mut out: Vec<Waiting> = Vec::new();
        for (group, at) in news {
            let entry = &self.entries[at];
            let changed = entry.changed.max(entry.not_before);
            match out.last_mut().filter(|last| last.group == group) {
                Some(last) => {
                    last.severity = last.severity.min(entry.severity());
                    last.changed = last.changed.min(changed);
                    last.entries.push(at);
                }
                None => out.push(Waiting {
                    group,
                    severity: entry.severity(),
                    changed,
                    entries: vec![at],
                }),
            }
        }
        out
    }

    /// One message about a group: the worst first, of these what fires, of these the oldest.
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

    /// Takes what came of the message that was under way. `jitter` is from 0 to 1: waits are longer by up to a fifth.
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
                // A server that asks for less than our own wait is not asked sooner.
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
                let told = (news == News::Firing).then_some(severity);
                self.is_dirty |= edges || entry.told != told;
                (entry.told, entry.sent) = (told, Some(beat.up));
                // It came back, or ended, while it was told otherwise.
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
            .retain(|entry| entry.ended.is_none() || entry.told.is_some());
    }
}
