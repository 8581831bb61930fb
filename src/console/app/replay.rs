//! Navigation in a record: keys become playback commands.

use std::time::Duration;

use table::changes::STATED_FOR;
use table::navigation::{Destination, RowScope, ViewId};
use table::timeline::{Playback, Timeline};
use table::{Facts, Kind};

use super::shown::ShownFacts;
use super::{App, NOTICE, QUIET};
use crate::commands::Command;
use crate::msg::{Effect, Rewind};
use crate::overlay::Overlay;
use model::base::{Moment, Name, When};

/// One step in a record.
const STEP: Duration = Duration::from_secs(60);

impl App {
    /// Replay state; `None` for a live cluster.
    pub fn timeline(&self) -> Option<&Timeline> {
        self.timeline.as_ref()
    }

    /// True for a command that navigates in a replayed record, or needs one; it has been handled then.
    pub(super) fn moves_in_record(&mut self, command: Command, effects: &mut Vec<Effect>) -> bool {
        let Some(timeline) = &self.timeline else {
            return self.enters_record(command, effects);
        };
        let playback = match command {
            Command::GoToTime => {
                self.overlay = Overlay::time();
                return true;
            }
            Command::Back if self.is_rewound() => {
                effects.push(Effect::Live);
                return true;
            }
            Command::Leave if self.is_rewound() && self.is_at_top() => {
                effects.push(Effect::Live);
                return true;
            }
            Command::NextChange => Playback::Change { forward: true },
            Command::PreviousChange => Playback::Change { forward: false },
            Command::Freeze => Playback::Toggle,
            Command::TimeBack | Command::TimeForward => {
                // Presses before the first snapshot arrives add up.
                let from = self.aim.unwrap_or(self.facts.now);
                let to = match command {
                    Command::TimeBack => from.minus(STEP).max(timeline.from),
                    _ => from.plus(STEP).min(timeline.to),
                };
                if to == from {
                    let end = if to == timeline.to {
                        "end"
                    } else {
                        "beginning"
                    };
                    self.notify(format!("this is the {end} of the record"));
                    return true;
                }
                self.go_to(to, effects);
                return true;
            }
            _ => return false,
        };
        self.aim = None;
        effects.push(Effect::Replay(playback));
        true
    }

    /// True for a command that switches from a live console to the record of its cluster; it has been handled then.
    fn enters_record(&mut self, command: Command, effects: &mut Vec<Effect>) -> bool {
        match command {
            Command::GoToTime => self.overlay = Overlay::time(),
            Command::PreviousChange => {
                self.notify(String::from("scanning the record for the last change…"));
                effects.push(Effect::Rewind(Rewind::LastChange));
            }
            Command::NextChange => self.notify(String::from("this is the present")),
            _ => return false,
        }
        true
    }

    /// True while the record of the cluster is shown instead of its session, which stays open.
    pub fn is_rewound(&self) -> bool {
        self.live_facts.is_some()
    }

    /// Shows the record of the cluster, starting with this snapshot. The session stays open; its last facts are kept.
    pub(super) fn rewound(&mut self, facts: Facts, timeline: Timeline) {
        self.close_plan();
        self.live();
        let live = self.unscoped();
        self.live_facts.get_or_insert_with(|| Box::new(live));
        self.timeline = Some(timeline);
        self.show_anew(facts);
    }

    /// Shows the session's last facts again; newer ones follow.
    pub(super) fn returned(&mut self) {
        if let Some(live) = self.live_facts.take() {
            self.close_plan();
            self.timeline = None;
            self.show_anew(*live);
        }
    }

    /// Shows facts of another moment in the open views.
    fn show_anew(&mut self, facts: Facts) {
        (self.aim, self.notice, self.wanted) = (None, None, None);
        self.clock = facts.now;
        // Rows may be reordered at once: they are different rows.
        self.last_key = facts.now.minus(QUIET);
        self.shown_facts = ShownFacts::Live;
        self.put(facts);
        self.fit();
    }

    /// Jumps to a moment of the record.
    pub(super) fn go_to(&mut self, at: Moment, effects: &mut Vec<Effect>) {
        // During playback, the moment on screen has moved on before the next press.
        let is_paused = self
            .timeline
            .as_ref()
            .is_some_and(|timeline| timeline.speed.is_none());
        self.aim = is_paused.then_some(at);
        effects.push(Effect::Replay(Playback::Go(at)));
    }

    /// Opens the rows of a kind. What changed is in a record a comparison with the half hour before.
    pub(super) fn open_kind(&mut self, kind: Kind, effects: &mut Vec<Effect>) {
        if let (Kind::Changes, Some(timeline)) = (kind, &self.timeline) {
            let back = self.facts.now.minus(STATED_FOR).max(timeline.from);
            self.compare(When::at(back), effects);
        } else if let Destination::Part(tab, rows) = kind.destination() {
            self.open_whole(tab, rows);
        }
    }

    /// Compares an earlier moment with the one on screen, and opens the result.
    pub(super) fn compare(&mut self, when: When, effects: &mut Vec<Effect>) {
        let Some(timeline) = &self.timeline else {
            self.notify(String::from(
                "no record is open: T opens it; `stokehold diff` compares two times of a record",
            ));
            return;
        };
        let to = self.facts.now;
        let from = when.in_record(timeline.from, to);
        if from >= to {
            let clock = to.clock();
            self.notify(format!(
                "the earlier time must be before {clock}, the time on screen"
            ));
            return;
        }
        let name = Name::from(format!("{} to {}", from.short(), to.short()));
        effects.push(Effect::Replay(Playback::Compare {
            name: name.clone(),
            from,
            to,
            scope: self.scope.clone(),
        }));
        self.go(Destination::Part(ViewId::Alerts, RowScope::Changes(name)));
    }

    /// How long a notice is shown, on the clock of the shown facts: a record may be played fast.
    pub(super) fn notice_stays(&self) -> Duration {
        let speed = self.timeline.as_ref().and_then(|timeline| timeline.speed);
        NOTICE.mul_f64(speed.unwrap_or(1.0).clamp(1.0, 1e6))
    }
}
