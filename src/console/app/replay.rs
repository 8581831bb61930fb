//! Moving in a record: keys become what is done with the replay.

use std::time::Duration;

use table::timeline::{Playback, Timeline};

use super::{App, NOTICE};
use crate::commands::Command;
use crate::msg::Effect;
use crate::overlay::Overlay;
use crate::view::{Destination, RowScope, ViewId};
use model::base::{Moment, Name, When};

/// One step through a record.
const STEP: Duration = Duration::from_secs(60);

/// Said where there is nothing to go through.
const NO_RECORD: &str =
    "no record is replayed: `stokehold replay` opens one; [ ] step through the last hour here";

impl App {
    /// How the record stands that is replayed; `None` for a cluster.
    pub fn timeline(&self) -> Option<&Timeline> {
        self.timeline.as_ref()
    }

    /// True for a command that moves in the record that is replayed, or that needs one; it is obeyed then.
    pub(super) fn moves_in_record(&mut self, command: Command, effects: &mut Vec<Effect>) -> bool {
        let needs = matches!(
            command,
            Command::GoToTime | Command::NextChange | Command::PreviousChange
        );
        let Some(timeline) = &self.timeline else {
            if needs {
                self.notify(String::from(NO_RECORD));
            }
            return needs;
        };
        let playback = match command {
            Command::GoToTime => {
                self.overlay = Overlay::time();
                return true;
            }
            Command::NextChange => Playback::Change { forward: true },
            Command::PreviousChange => Playback::Change { forward: false },
            Command::Freeze => Playback::Toggle,
            Command::TimeBack | Command::TimeForward => {
                // Several presses before the first picture comes go on from each other.
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

    /// Goes to a moment of the record.
    pub(super) fn go_to(&mut self, at: Moment, effects: &mut Vec<Effect>) {
        // While it is played, the picture has moved on before the next press.
        let stands = self
            .timeline
            .as_ref()
            .is_some_and(|timeline| timeline.speed.is_none());
        self.aim = stands.then_some(at);
        effects.push(Effect::Replay(Playback::Go(at)));
    }

    /// Asks what changed from an earlier moment to the one on screen, and goes to the answer.
    pub(super) fn compare(&mut self, when: When, effects: &mut Vec<Effect>) {
        let Some(timeline) = &self.timeline else {
            self.notify(String::from(
                "no record is replayed: `stokehold replay` opens one, `stokehold diff` compares its moments",
            ));
            return;
        };
        let to = self.facts.now;
        let from = when.in_record(timeline.from, to);
        if from >= to {
            let clock = to.clock();
            self.notify(format!(
                "the earlier moment must be before {clock}, which is on screen"
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

    /// How long a notice stays on the clock of what is shown: a record may be played fast.
    pub(super) fn notice_stays(&self) -> Duration {
        let speed = self.timeline.as_ref().and_then(|timeline| timeline.speed);
        NOTICE.mul_f64(speed.unwrap_or(1.0).clamp(1.0, 1e6))
    }
}
