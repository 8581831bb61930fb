//! Which facts are shown: the latest, frozen ones, or readings of an earlier moment.

use std::sync::Arc;
use std::time::Duration;

use crate::msg::Effect;
use crate::overlay::Overlay;
use crate::summary::Summary;
use model::base::{Moment, Name};
use table::actions::ActionState;
use table::silence::SilenceEntry;
use table::spend::UsageFacts;
use table::waiting::explanations::JobExplanations;
use table::what_if::Supposed;
use table::{Facts, past_facts};

use super::{App, QUIET};

/// One step in the history.
const STEP: Duration = Duration::from_secs(60);

/// What is shown instead of the latest facts. These are kept for returning to live.
pub(super) enum ShownFacts {
    /// The latest facts are shown.
    Live,
    /// Frozen; holds the latest facts.
    Still(Box<Facts>),
    /// Readings of an earlier moment are shown, over the facts that were the latest then; holds the latest facts.
    Past(Box<Facts>),
}

impl App {
    /// True while frozen, or while the past is shown.
    pub const fn is_frozen(&self) -> bool {
        !matches!(self.shown_facts, ShownFacts::Live)
    }

    /// True while readings of the past are shown.
    pub const fn is_past(&self) -> bool {
        matches!(self.shown_facts, ShownFacts::Past(_))
    }

    /// The current time, also while an earlier moment is shown.
    pub fn present(&self) -> Moment {
        self.clock
    }

    fn quiet(&self) -> Duration {
        Duration::from_millis(self.clock.since(self.last_key).millis())
    }

    /// How long until rows may be reordered; `None` when they may be now.
    pub(super) fn until_quiet(&self) -> Option<Duration> {
        QUIET
            .checked_sub(self.quiet())
            .filter(|left| !left.is_zero())
    }

    pub(super) fn take(&mut self, mut facts: Facts) {
        // A record has its own silences of that moment.
        if self.timeline.is_none() && facts.silences.is_empty() {
            facts.silences = Arc::clone(&self.facts.silences);
        }
        facts.answers = Arc::clone(&self.facts.answers);
        facts.acts = Arc::clone(&self.facts.acts);
        facts.supposed = Arc::clone(&self.facts.supposed);
        facts.compared = Arc::clone(&self.facts.compared);
        facts.take_usage(Arc::clone(&self.facts.usage));
        if self.timeline.is_some() {
            // A record can also go back in time.
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
        match &mut self.shown_facts {
            ShownFacts::Still(newest) | ShownFacts::Past(newest) => **newest = facts,
            ShownFacts::Live => self.put(facts),
        }
    }

    /// Updates the engine's explanations.
    pub(super) fn answered(&mut self, answers: Arc<JobExplanations>) {
        match &mut self.shown_facts {
            // While frozen, the screen does not change.
            ShownFacts::Still(newest) => {
                newest.answers = answers;
                return;
            }
            ShownFacts::Past(newest) => newest.answers = Arc::clone(&answers),
            ShownFacts::Live => {}
        }
        self.facts.answers = answers;
        self.refresh(false);
    }

    /// Updates the usage ledger's figures.
    pub(super) fn receive_usage(&mut self, usage: Arc<UsageFacts>) {
        match &mut self.shown_facts {
            ShownFacts::Still(newest) => {
                newest.take_usage(usage);
                return;
            }
            ShownFacts::Past(newest) => newest.take_usage(Arc::clone(&usage)),
            ShownFacts::Live => {}
        }
        self.facts.take_usage(usage);
        self.summarize();
        self.refresh(false);
    }

    /// Updates write access and runs.
    pub(super) fn acted(&mut self, acts: Arc<ActionState>) {
        if let ShownFacts::Still(newest) | ShownFacts::Past(newest) = &mut self.shown_facts {
            newest.acts = Arc::clone(&acts);
        }
        self.facts.acts = acts;
        self.refresh(false);
    }

    /// Requests a what-if result.
    pub(super) fn suppose(&mut self, changes: &Name, effects: &mut Vec<Effect>) {
        self.supposed(changes, Supposed::Asked);
        effects.push(Effect::Suppose(changes.clone()));
    }

    /// Stores a what-if result.
    pub(super) fn supposed(&mut self, changes: &Name, mut supposed: Supposed) {
        if let Supposed::Told(outcome, at, _) = &mut supposed {
            table::what_if::budgeted(&self.facts, outcome, *at);
        }
        Arc::make_mut(&mut self.facts.supposed).put(changes, supposed);
        if let ShownFacts::Still(newest) | ShownFacts::Past(newest) = &mut self.shown_facts {
            newest.supposed = Arc::clone(&self.facts.supposed);
        }
        self.refresh(true);
    }

    pub(super) fn put(&mut self, mut facts: Facts) {
        let same = Arc::ptr_eq(&facts.fleet, &self.facts.fleet)
            && Arc::ptr_eq(&facts.spend_rates, &self.whole);
        self.whole = Arc::clone(&facts.spend_rates);
        if same {
            facts.spend_rates = Arc::clone(&self.facts.spend_rates);
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

    /// The facts on screen for the whole fleet, unscoped.
    pub(super) fn unscoped(&self) -> Facts {
        Facts {
            spend_rates: Arc::clone(&self.whole),
            part: None,
            ..self.facts.clone()
        }
    }

    /// Limits rates, counts and readings to the scope, so that header, totals and rows agree.
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
        if self
            .notice
            .as_ref()
            .is_some_and(|notice| now >= notice.until)
        {
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

    /// Sets the silence of a finding.
    pub(super) fn silence(&mut self, id: Name, entry: Option<SilenceEntry>) {
        Arc::make_mut(&mut self.facts.silences).set(id, entry);
        self.summarize();
        self.refresh(false);
    }

    /// Freezes the screen, or unfreezes it.
    pub(super) fn freeze(&mut self) {
        if self.is_frozen() {
            self.live();
        } else {
            self.shown_facts = ShownFacts::Still(Box::new(self.unscoped()));
        }
    }

    /// Shows the latest facts again.
    pub(super) fn live(&mut self) {
        if let ShownFacts::Still(newest) | ShownFacts::Past(newest) =
            std::mem::replace(&mut self.shown_facts, ShownFacts::Live)
        {
            let mut newest = *newest;
            newest.now = self.clock.max(newest.now);
            self.put(newest);
        }
    }

    /// Steps through the history: readings of that moment, everything else current.
    pub(super) fn step(&mut self, back: bool) {
        let newest = match &self.shown_facts {
            ShownFacts::Live => {
                if !back {
                    self.notify(String::from("this is the present"));
                    return;
                }
                self.unscoped()
            }
            ShownFacts::Still(newest) | ShownFacts::Past(newest) => (**newest).clone(),
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
        // Less than half a step from now is the present.
        if to.plus(STEP / 2) >= newest.now {
            self.live();
            return;
        }
        let Some(facts) = past_facts::at(&newest, to) else {
            self.notify(match newest.history.readings_since() {
                Some(since) => format!(
                    "no readings before {}; T goes to a time in the record",
                    since.clock()
                ),
                None => String::from("no readings yet"),
            });
            return;
        };
        if !self.is_past() {
            self.notify(String::from(
                "frozen · past readings; allocation and cost are live   f: live",
            ));
        }
        self.shown_facts = ShownFacts::Live;
        self.put(facts);
        self.shown_facts = ShownFacts::Past(Box::new(newest));
    }
}
