//! Which facts are shown: the newest, those that are held still, or readings of an earlier moment.

use std::sync::Arc;
use std::time::Duration;

use crate::msg::Effect;
use crate::overlay::Overlay;
use crate::summary::Summary;
use model::base::{Moment, Name};
use table::actions::ActionState;
use table::explanations::JobExplanations;
use table::silence::Entry;
use table::spend::UsageFacts;
use table::what_if::Supposed;
use table::{Facts, past};

use super::{App, QUIET};

/// One step through the history.
const STEP: Duration = Duration::from_secs(60);

/// What is shown instead of the newest facts. They are kept for when it goes on.
pub(super) enum Held {
    /// The newest facts are shown.
    Live,
    /// The picture is held still.
    Still(Box<Facts>),
    /// Readings of the shown moment, over everything else of the newest facts when it was stepped to.
    Past(Box<Facts>),
}

impl App {
    /// True while the picture is held still, or shows the past.
    pub const fn is_frozen(&self) -> bool {
        !matches!(self.held, Held::Live)
    }

    /// True while readings of the past are shown.
    pub const fn is_past(&self) -> bool {
        matches!(self.held, Held::Past(_))
    }

    /// The present, whatever is shown.
    pub fn present(&self) -> Moment {
        self.clock
    }

    fn quiet(&self) -> Duration {
        Duration::from_millis(self.clock.since(self.last_key).millis())
    }

    /// How long until rows may change places; nothing when they may now.
    pub(super) fn until_quiet(&self) -> Option<Duration> {
        QUIET
            .checked_sub(self.quiet())
            .filter(|left| !left.is_zero())
    }

    pub(super) fn take(&mut self, mut facts: Facts) {
        // A record brings what had been done with its findings by then.
        if self.timeline.is_none() && facts.silences.is_empty() {
            facts.silences = Arc::clone(&self.facts.silences);
        }
        facts.answers = Arc::clone(&self.facts.answers);
        facts.acts = Arc::clone(&self.facts.acts);
        facts.supposed = Arc::clone(&self.facts.supposed);
        facts.compared = Arc::clone(&self.facts.compared);
        facts.take_usage(Arc::clone(&self.facts.usage));
        if self.timeline.is_some() {
            // A record goes back as well.
            if facts.now < self.clock {
                self.last_key = facts.now.minus(QUIET);
            }
            self.clock = facts.now;
            if self.aim.is_some_and(|aim| aim == facts.now) {
                self.aim = None;
            }
        } else {
            self.clock = self.clock.max(facts.now);
        }
        match &mut self.held {
            Held::Still(newest) | Held::Past(newest) => **newest = facts,
            Held::Live => self.put(facts),
        }
    }

    /// Takes what the engine says of the work that waits.
    pub(super) fn answered(&mut self, answers: Arc<JobExplanations>) {
        match &mut self.held {
            // What is held still, stands still.
            Held::Still(newest) => {
                newest.answers = answers;
                return;
            }
            Held::Past(newest) => newest.answers = Arc::clone(&answers),
            Held::Live => {}
        }
        self.facts.answers = answers;
        self.refresh(false);
    }

    /// Takes what the usage ledger tells.
    pub(super) fn told_usage(&mut self, usage: Arc<UsageFacts>) {
        if let Held::Still(newest) | Held::Past(newest) = &mut self.held {
            newest.take_usage(Arc::clone(&usage));
        }
        self.facts.take_usage(usage);
        self.summarize();
        self.refresh(false);
    }

    /// Takes what may be done and what was done.
    pub(super) fn acted(&mut self, acts: Arc<ActionState>) {
        if let Held::Still(newest) | Held::Past(newest) = &mut self.held {
            newest.acts = Arc::clone(&acts);
        }
        self.facts.acts = acts;
        self.refresh(false);
    }

    /// Asks what these changes would do.
    pub(super) fn suppose(&mut self, changes: &Name, effects: &mut Vec<Effect>) {
        self.supposed(changes, Supposed::Asked);
        effects.push(Effect::Suppose(changes.clone()));
    }

    /// Takes what came of what was supposed.
    pub(super) fn supposed(&mut self, changes: &Name, mut supposed: Supposed) {
        if let Supposed::Told(outcome, at, _) = &mut supposed {
            table::what_if::budgeted(&self.facts, outcome, *at);
        }
        Arc::make_mut(&mut self.facts.supposed).put(changes, supposed);
        if let Held::Still(newest) | Held::Past(newest) = &mut self.held {
            newest.supposed = Arc::clone(&self.facts.supposed);
        }
        self.refresh(true);
    }

    /// Shows these facts.
    pub(super) fn put(&mut self, mut facts: Facts) {
        let same =
            Arc::ptr_eq(&facts.fleet, &self.facts.fleet) && Arc::ptr_eq(&facts.burn, &self.whole);
        self.whole = Arc::clone(&facts.burn);
        if same {
            facts.burn = Arc::clone(&self.facts.burn);
            facts.part = self.facts.part.clone();
        }
        self.facts = facts;
        if !same {
            self.keep_to_part();
            self.summarize();
            let settle = self.until_quiet().is_none();
            self.refresh(settle);
        }
    }

    /// What is shown, of the whole fleet.
    pub(super) fn unscoped(&self) -> Facts {
        Facts {
            burn: Arc::clone(&self.whole),
            part: None,
            ..self.facts.clone()
        }
    }

    /// Money, counts and readings are those of the scope: header, totals and rows agree.
    pub(super) fn keep_to_part(&mut self) {
        self.facts = self.unscoped().scoped(&self.scope);
    }

    pub(super) fn summarize(&mut self) {
        self.summary = Summary::of(&self.facts);
    }

    pub(super) fn refresh(&mut self, settle: bool) {
        let facts = self.facts.clone();
        self.view_mut().refresh(&facts, settle);
    }

    pub(super) fn fit(&mut self) {
        let facts = self.facts.clone();
        let (body, paired) = (self.body(), self.render_style.half_blocks());
        self.view_mut().fit(&facts, body, paired);
    }

    pub(super) fn tick(&mut self, now: Moment) {
        if let Some(words) = self.typed.take() {
            let wrong = self.filter_so_far(&words);
            let overlay = std::mem::replace(&mut self.overlay, Overlay::None);
            self.overlay = overlay.with_error(wrong);
        }
        self.clock = now;
        if self.notice.as_ref().is_some_and(|(_, until)| now >= *until) {
            self.notice = None;
        }
        if self.is_frozen() {
            return;
        }
        self.facts.now = now;
        if self.until_quiet().is_none() && self.view().is_unsettled() {
            self.refresh(true);
        }
    }

    /// Notes what the operator did with a finding.
    pub(super) fn silence(&mut self, id: Name, entry: Option<Entry>) {
        Arc::make_mut(&mut self.facts.silences).set(id, entry);
        self.summarize();
        self.refresh(false);
    }

    /// Holds the picture still, or lets it go on.
    pub(super) fn freeze(&mut self) {
        if self.is_frozen() {
            self.live();
        } else {
            self.held = Held::Still(Box::new(self.unscoped()));
        }
    }

    /// Shows the newest facts again.
    pub(super) fn live(&mut self) {
        if let Held::Still(newest) | Held::Past(newest) =
            std::mem::replace(&mut self.held, Held::Live)
        {
            let mut newest = *newest;
            newest.now = self.clock.max(newest.now);
            self.put(newest);
        }
    }

    /// Steps through the history: readings as they were, everything else as it is.
    pub(super) fn step(&mut self, back: bool) {
        let newest = match &self.held {
            Held::Live => {
                if !back {
                    self.notify(String::from("this is the present"));
                    return;
                }
                self.unscoped()
            }
            Held::Still(newest) | Held::Past(newest) => (**newest).clone(),
        };
        let from = if self.is_past() {
            self.facts.now
        } else {
            newest.now
        };
        let to = if back {
            from.minus(STEP)
        } else {
            from.plus(STEP)
        };
        // What is less than half a step away is the present.
        if to.plus(STEP / 2) >= newest.now {
            self.live();
            return;
        }
        let Some(facts) = past::at(&newest, to) else {
            self.notify(match newest.history.readings_since() {
                Some(since) => format!(
                    "no readings are held before {}; T goes to a time in the record",
                    since.clock()
                ),
                None => String::from("no readings are held yet"),
            });
            return;
        };
        if !self.is_past() {
            self.notify(String::from(
                "readings as they were; who holds what, and money, as they are   f: live",
            ));
        }
        self.held = Held::Live;
        self.put(facts);
        self.held = Held::Past(Box::new(newest));
    }
}
