//! Which facts are shown: the newest, or those that are held still; and when rows may change places.

use std::sync::Arc;

use crate::base::{Moment, Name};
use crate::console::overlay::Overlay;
use crate::console::summary::Summary;
use crate::report::Facts;
use crate::report::hush::Entry;

use super::{App, QUIET};

impl App {
    pub(super) fn quiet(&self) -> u64 {
        self.facts.now.since(self.last_key).millis()
    }

    pub(super) fn is_quiet(&self) -> bool {
        u128::from(self.quiet()) >= QUIET.as_millis()
    }

    pub(super) fn take(&mut self, mut facts: Facts) {
        facts.hushed = Arc::clone(&self.facts.hushed);
        if let Some(held) = &mut self.frozen {
            *held = Some(Box::new(facts));
            return;
        }
        let same = Arc::ptr_eq(&facts.fleet, &self.facts.fleet)
            && Arc::ptr_eq(&facts.burn, &self.facts.burn);
        self.facts = facts;
        if same {
            return;
        }
        self.summary = Summary::of(&self.facts);
        let settle = self.is_quiet();
        self.refresh(settle);
    }

    pub(super) fn refresh(&mut self, settle: bool) {
        let facts = self.facts.clone();
        self.view_mut().refresh(&facts, settle);
    }

    pub(super) fn fit(&mut self) {
        let facts = self.facts.clone();
        let (body, paired) = (self.body(), self.ink.half_blocks());
        self.view_mut().fit(&facts, body, paired);
    }

    pub(super) fn tick(&mut self, now: Moment) {
        if let Some(words) = self.typed.take() {
            let wrong = self.filter(&words);
            let overlay = std::mem::replace(&mut self.overlay, Overlay::None);
            self.overlay = overlay.with_error(wrong);
        }
        if self.is_frozen() {
            return;
        }
        self.facts.now = now;
        if self.notice.as_ref().is_some_and(|(_, until)| now >= *until) {
            self.notice = None;
        }
        if self.is_quiet() && self.view().is_unsettled() {
            self.refresh(true);
        }
    }

    /// Notes what the operator did with a finding.
    pub(super) fn hush(&mut self, id: Name, entry: Option<Entry>) {
        Arc::make_mut(&mut self.facts.hushed).set(id, entry);
        self.summary = Summary::of(&self.facts);
        self.refresh(false);
    }

    pub(super) fn freeze(&mut self) {
        match self.frozen.take() {
            None => self.frozen = Some(None),
            Some(held) => {
                if let Some(facts) = held {
                    self.take(*facts);
                }
            }
        }
    }

    /// True while the picture is held still.
    pub const fn is_frozen(&self) -> bool {
        self.frozen.is_some()
    }
}
