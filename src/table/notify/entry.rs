//! What a receiver has been sent about each finding, and what is new since then: the parts of a message.

use std::time::Duration;

use model::base::Name;
use model::fleet::finding::Severity;

use super::{Alert, Beat, SavedEntry};

/// Alertmanager resolves an alert that is not sent again within this time; alerts are sent again after a third of this time.
pub const ALERT_LASTS: Duration = Duration::from_secs(300);

/// Why a finding is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FindingEnd {
    /// Not found any more.
    Resolved,
    Muted,
}

/// What is reported about a finding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum News {
    Firing,
    Over,
}

/// A finding that a receiver was sent, or is to be sent. Durations are since this process started watching.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) alert: Alert,
    /// `None` while it is firing.
    pub(super) ended: Option<FindingEnd>,
    /// The severity that the receiver was last sent; `None` where it was sent none.
    pub(super) sent_severity: Option<Severity>,
    /// When the unreported change happened.
    pub(super) changed: Duration,
    /// When this process last sent it.
    pub(super) sent: Option<Duration>,
    /// After a refusal: not sent before this.
    pub(super) not_before: Duration,
    /// Restored from disk and not found again since.
    pub(super) restored: bool,
    /// What the message in flight reports about it, and with which severity.
    pub(super) in_flight: Option<(News, Severity)>,
}

impl Entry {
    pub(super) fn new(alert: &Alert, beat: Beat) -> Self {
        Self {
            alert: alert.clone(),
            ended: None,
            sent_severity: None,
            changed: beat.up,
            sent: None,
            not_before: Duration::ZERO,
            restored: false,
            in_flight: None,
        }
    }

    /// An entry restored from disk.
    pub(super) fn restored(saved: SavedEntry) -> Self {
        Self {
            sent_severity: Some(saved.finding.severity),
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

    /// Updates the entry from a firing finding.
    pub(super) fn refresh(&mut self, alert: &Alert, beat: Beat) {
        let had = self.news();
        let old = &self.alert;
        // The place may become known late or be lost again: once sent, it stays the same while the finding is firing.
        let place = match self.is_unsent() {
            true => alert.place.clone(),
            false => old.place.clone(),
        };
        // A restart does not make it younger.
        let known = &old.finding;
        let (since, first_seen, at_least) = (known.since, known.first_seen, known.at_least);
        let older = since < alert.finding.since;
        self.alert = Alert {
            place,
            ..alert.clone()
        };
        if older {
            let finding = &mut self.alert.finding;
            (finding.since, finding.first_seen) = (since, first_seen);
            finding.at_least = at_least;
        }
        self.restored = false;
        self.ended = None;
        if self.news() != had {
            self.changed = beat.up;
        }
    }

    /// True when the receiver has been sent nothing about it.
    pub(super) fn is_unsent(&self) -> bool {
        self.sent_severity.is_none() && self.in_flight.is_none()
    }

    pub(super) fn news(&self) -> Option<News> {
        match (self.ended, self.sent_severity) {
            (None, None) => Some(News::Firing),
            // Its severity has increased.
            (None, Some(sent)) => (self.alert.finding.severity < sent).then_some(News::Firing),
            (Some(_), sent) => sent.map(|_| News::Over),
        }
    }

    pub(super) fn severity(&self) -> Severity {
        self.alert.finding.severity
    }
}

/// Findings of one message: same news, same code, same place.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct AlertGroup {
    pub(super) news: News,
    pub(super) code: Name,
    /// Rack or pool with its name; `None` for the whole fleet.
    pub(super) place: Option<(&'static str, Name)>,
}

impl AlertGroup {
    pub(super) fn of(entry: &Entry, news: News) -> Self {
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
