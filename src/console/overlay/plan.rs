//! The plan dialog: the only way to a change. It shows the plan, takes a reason and the confirmation, then shows the run's
//! progress. It sends nothing itself.

use std::time::Duration;

use crate::action_keys::{ActionRequest, ConfirmedPlan, PlanOutcome, PlanRequest};
use crate::commands::{Command, Context};
use crate::msg::{Key, KeyPress};
use crate::screen::Screen;
use crate::widget::field::TextField;
use model::base::Moment;
use model::fleet::job::JobKey;
use model::plan::{Intent, JobName, KnownVictims, Plan, Refusal};
use plan::actions::ActionName;
use plan::grant::{Confirmation, Confirmed};
use table::actions::{May, RunState};

use super::priority_prompt;
use super::verdict::{PLAN, PROMPT, Verdict};

/// An enter this soon after the plan appeared was meant for something else and does not confirm it.
const SETTLE: Duration = Duration::from_millis(300);
/// An open plan is recomputed this often, because its facts may have changed.
const ANEW: Duration = Duration::from_secs(6);

/// Input that is needed before a plan can be made.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum PlanInput {
    Priority(JobName),
    /// A number of replicas for a workload.
    Replicas(JobKey),
    /// A reason to cordon nodes.
    Cordon(Vec<model::base::Name>),
}

#[derive(Clone, PartialEq, Debug)]
pub(super) enum PlanPhase {
    /// Input is needed first.
    Value(PlanInput),
    /// The plan is being computed.
    Computing,
    Shown(Box<Plan>),
    /// The plan was refused.
    Refused(Refusal),
    /// The plan could not be computed.
    Failed(String),
    /// Confirmed; the run has not started yet.
    Sent(Box<Plan>),
    /// A run that was interrupted or stopped; a confirmation continues it.
    Stands(String),
    /// Running or finished: the run's name.
    Runs(String),
}

/// What a plan would be if it was made anew.
#[derive(Clone, PartialEq, Debug)]
enum Newer {
    /// Another plan, and how it differs.
    Plan(Box<Plan>, String),
    Refused(Refusal),
}

/// The field with focus.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Focus {
    /// No field: letters are hot keys.
    Steps,
    Reason,
    Typed,
}

/// How far a dialog scrolls as it is drawn: the lines of a page, and the farthest position.
pub(super) type ScrollExtent = fn(&Dialog, &dyn Screen) -> (usize, usize);

pub struct Dialog {
    number: u64,
    pub(super) intent: Option<Intent>,
    pub(super) phase: PlanPhase,
    pub(super) value: TextField,
    pub(super) reason: TextField,
    pub(super) typed: TextField,
    /// Text typed before the plan appeared; it goes to the field that has focus then.
    pub(super) early: TextField,
    /// The last chosen field; [`Dialog::focus`] says which one is shown.
    chosen: Focus,
    pub(super) skip: usize,
    /// Newer facts where they differ from the shown plan, which does not change until it is made again.
    newer: Option<Newer>,
    pub(super) error: Option<String>,
    asked_at: Moment,
    shown_at: Moment,
    asking: bool,
}

impl Dialog {
    /// A dialog for a request with this number.
    pub fn new(number: u64, request: ActionRequest, now: Moment) -> Self {
        let (phase, intent) = match request {
            ActionRequest::Intent(intent) => (PlanPhase::Computing, Some(intent)),
            ActionRequest::Priority(job) => (PlanPhase::Value(PlanInput::Priority(job)), None),
            ActionRequest::Replicas(id) => (PlanPhase::Value(PlanInput::Replicas(id)), None),
            ActionRequest::Cordon(nodes) => (PlanPhase::Value(PlanInput::Cordon(nodes)), None),
            ActionRequest::Continue(run) => (PlanPhase::Stands(run), None),
        };
        Self {
            number,
            intent,
            phase,
            value: TextField::default(),
            reason: TextField::default(),
            typed: TextField::default(),
            early: TextField::default(),
            chosen: Focus::Typed,
            skip: 0,
            newer: None,
            error: None,
            asked_at: now,
            shown_at: now,
            asking: false,
        }
    }

    /// The contexts whose keys apply: letters are hot keys only while no field is shown.
    pub fn contexts(&self, may: &May) -> &'static [Context] {
        match (&self.phase, self.focus(may)) {
            (PlanPhase::Value(_) | PlanPhase::Computing, _) | (_, Focus::Reason | Focus::Typed) => {
                PROMPT
            }
            _ => PLAN,
        }
    }

    /// True once there is nothing to confirm or type. A run continues without the dialog.
    pub(super) const fn gives_way(&self) -> bool {
        matches!(
            self.phase,
            PlanPhase::Refused(_) | PlanPhase::Failed(_) | PlanPhase::Runs(_)
        )
    }

    /// The field with focus: always one that is drawn.
    pub(super) fn focus(&self, may: &May) -> Focus {
        match (&self.phase, may) {
            (PlanPhase::Shown(plan), May::Yes) if plan.needs_typed_name() => self.chosen,
            (PlanPhase::Shown(_), May::Yes) => Focus::Reason,
            _ => Focus::Steps,
        }
    }

    /// The plan request that is due: at first, and again while the plan is open.
    pub fn due(&mut self, now: Moment) -> Option<PlanRequest> {
        let again =
            matches!(self.phase, PlanPhase::Shown(_)) && now.since(self.asked_at) >= ANEW.into();
        let first = matches!(self.phase, PlanPhase::Computing);
        if self.asking || !(first || again) {
            return None;
        }
        let intent = self.intent.clone()?;
        let known = match &self.phase {
            PlanPhase::Shown(plan) => KnownVictims::read(plan),
            _ => KnownVictims::default(),
        };
        self.asking = true;
        self.asked_at = now;
        Some(PlanRequest {
            number: self.number,
            intent,
            known,
        })
    }

    /// Handles the outcome of a plan request. Typed text stays.
    pub fn made(&mut self, number: u64, made: PlanOutcome, now: Moment) {
        if number != self.number {
            return;
        }
        self.asking = false;
        match (&self.phase, made) {
            (PlanPhase::Computing, PlanOutcome::Plan(plan)) => {
                self.shown_at = now;
                let early = std::mem::take(&mut self.early);
                match plan.needs_typed_name() {
                    true => self.typed = early,
                    false if self.reason.text().is_empty() => self.reason = early,
                    false => {}
                }
                self.phase = PlanPhase::Shown(plan);
            }
            (PlanPhase::Shown(shown), PlanOutcome::Plan(plan)) => {
                let differs = shown.difference(&plan);
                self.newer = differs.map(|words| Newer::Plan(plan, words));
            }
            (PlanPhase::Computing, PlanOutcome::Refused(refusal)) => {
                self.phase = PlanPhase::Refused(refusal);
            }
            (PlanPhase::Shown(_), PlanOutcome::Refused(refusal)) => {
                self.newer = Some(Newer::Refused(refusal));
            }
            (PlanPhase::Computing, PlanOutcome::Failed(why)) => self.phase = PlanPhase::Failed(why),
            // Recomputing failed: the shown plan stays; the writer checks every step's guards anyway.
            (PlanPhase::Shown(_), PlanOutcome::Failed(why)) => self.error = Some(why),
            _ => {}
        }
    }

    /// What has changed since the shown plan was made; `None` where it would be the same.
    pub(super) fn changed(&self) -> Option<String> {
        let words = match self.newer.as_ref()? {
            Newer::Plan(_, words) => words,
            Newer::Refused(refusal) => &refusal.sentence,
        };
        Some(format!("{words}; ctrl-r recomputes the plan"))
    }

    /// Shows what is known now in the place of the plan that stood still.
    fn make_anew(&mut self, now: Moment) {
        match (&self.phase, self.newer.take()) {
            (PlanPhase::Shown(_), Some(Newer::Plan(plan, _))) => {
                self.phase = PlanPhase::Shown(plan)
            }
            (PlanPhase::Shown(_), Some(Newer::Refused(refusal))) => {
                self.phase = PlanPhase::Refused(refusal);
            }
            (PlanPhase::Shown(_), None) => {
                // The figures of the effect are new, too.
                self.phase = PlanPhase::Computing;
                self.early = std::mem::take(&mut self.typed);
                self.asking = false;
            }
            _ => return,
        }
        self.error = None;
        self.shown_at = now;
    }

    /// Handles the start of the run.
    pub fn began(&mut self, number: u64, run: Result<String, String>) {
        if number != self.number {
            return;
        }
        match (&self.phase, run) {
            (PlanPhase::Sent(_), Ok(run)) => self.phase = PlanPhase::Runs(run),
            (PlanPhase::Sent(plan), Err(why)) => {
                self.phase = PlanPhase::Shown(plan.clone());
                self.refuse(why);
            }
            _ => {}
        }
    }

    /// The run that it shows, while in progress.
    pub fn running(&self, screen: &dyn Screen) -> Option<String> {
        let PlanPhase::Runs(name) = &self.phase else {
            return None;
        };
        let run = screen.facts().acts.run(name);
        run.is_none_or(|run| run.state == RunState::Running)
            .then(|| name.clone())
    }

    pub(super) fn paste(&mut self, words: &str, may: &May) {
        match (&self.phase, self.focus(may)) {
            (PlanPhase::Value(_), _) => self.value.insert(words),
            (PlanPhase::Computing, _) => self.early.insert(words),
            (PlanPhase::Shown(_), Focus::Reason) => self.reason.insert(words),
            (PlanPhase::Shown(_), Focus::Typed) => self.typed.insert(words),
            _ => {}
        }
    }

    pub(super) fn key(
        &mut self,
        press: KeyPress,
        command: Option<Command>,
        screen: &dyn Screen,
        extent: ScrollExtent,
    ) -> Verdict {
        let may = &screen.facts().acts.may;
        // Non-letter keys scroll the plan while text is typed.
        if matches!(self.phase, PlanPhase::Shown(_))
            && (press.ctrl || press.alt || !matches!(press.key, Key::Char(_)))
            && let Some(command) = screen.keys().command(press, PLAN)
            && (command == Command::PlanAnew || self.scrolls(command, may))
        {
            self.obey(command, screen, extent);
            return Verdict::Stay;
        }
        match command {
            Some(Command::Close) => return Verdict::Close,
            Some(Command::Accept) => return self.accept(screen),
            Some(Command::Next | Command::Previous) => self.next_field(may),
            Some(Command::Action(ActionName::Undo)) => return self.undo(screen),
            Some(command) => self.obey(command, screen, extent),
            None => {
                self.error = None;
                match (&self.phase, self.focus(may)) {
                    (PlanPhase::Value(_), _) => self.value.key(press),
                    (PlanPhase::Computing, _) => self.early.key(press),
                    (PlanPhase::Shown(_), Focus::Reason) => self.reason.key(press),
                    (PlanPhase::Shown(_), Focus::Typed) => self.typed.key(press),
                    _ => false,
                };
            }
        }
        Verdict::Stay
    }

    /// True for a command that scrolls while a field has focus: home and end do where the field is empty.
    fn scrolls(&self, command: Command, may: &May) -> bool {
        match command {
            Command::Up | Command::Down | Command::PageUp | Command::PageDown => true,
            Command::Top | Command::Bottom => match self.focus(may) {
                Focus::Reason => self.reason.text().is_empty(),
                Focus::Typed => self.typed.text().is_empty(),
                Focus::Steps => true,
            },
            _ => false,
        }
    }

    fn obey(&mut self, command: Command, screen: &dyn Screen, extent: ScrollExtent) {
        match command {
            Command::PlanAnew => self.make_anew(screen.present()),
            _ => self.scroll(command, extent(self, screen)),
        }
    }

    fn scroll(&mut self, command: Command, (page, most): (usize, usize)) {
        self.skip = match command {
            Command::Up => self.skip.min(most).saturating_sub(1),
            Command::Down => (self.skip + 1).min(most),
            Command::PageUp => self.skip.min(most).saturating_sub(page),
            Command::PageDown => (self.skip + page).min(most),
            Command::Top => 0,
            Command::Bottom => most,
            _ => self.skip,
        };
    }

    /// True when the command has an effect now: only these are hinted.
    pub(super) fn does(&self, command: Command, screen: &dyn Screen) -> bool {
        let may = &screen.facts().acts.may;
        match (&self.phase, command) {
            (PlanPhase::Shown(_), Command::Action(ActionName::Undo)) => false,
            (PlanPhase::Shown(_), Command::PlanAnew) => true,
            (PlanPhase::Shown(_), Command::Next | Command::Previous) => self.has_two_fields(may),
            (PlanPhase::Shown(_), Command::Accept) => matches!(may, May::Yes),
            (PlanPhase::Shown(_), _) | (_, Command::Close) => true,
            (PlanPhase::Value(_) | PlanPhase::Stands(_), Command::Accept) => true,
            (PlanPhase::Runs(_), Command::Action(ActionName::Undo)) => {
                self.running(screen).is_none()
            }
            _ => false,
        }
    }

    /// When the plan was requested.
    pub(super) const fn asked_at(&self) -> Moment {
        self.asked_at
    }

    /// Moves the focus to the other field, where there are two.
    fn next_field(&mut self, may: &May) {
        if self.has_two_fields(may) {
            self.error = None;
            self.chosen = match self.chosen {
                Focus::Typed => Focus::Reason,
                _ => Focus::Typed,
            };
        }
    }

    fn has_two_fields(&self, may: &May) -> bool {
        self.needs_typed_name() && matches!(may, May::Yes)
    }

    pub(super) fn needs_typed_name(&self) -> bool {
        matches!(&self.phase, PlanPhase::Shown(plan) if plan.needs_typed_name())
    }

    pub(super) fn may(&self, screen: &dyn Screen) -> bool {
        matches!(screen.facts().acts.may, May::Yes)
    }

    fn accept(&mut self, screen: &dyn Screen) -> Verdict {
        self.error = None;
        match &self.phase {
            PlanPhase::Value(wanted) => {
                let typed = self.value.text().trim().to_owned();
                if let PlanInput::Priority(job) = wanted
                    && let Some(why) = priority_prompt::refused(job, &typed, screen.facts())
                {
                    self.error = Some(why);
                    return Verdict::Stay;
                }
                self.intent = Some(match wanted {
                    PlanInput::Priority(job) => Intent::Reprioritise {
                        job: job.clone(),
                        priority: typed,
                    },
                    PlanInput::Replicas(id) => {
                        let pods = screen.facts().fleet.job(id).map(|job| job.pods.len());
                        let Some(replicas) = replica_count(&typed, pods) else {
                            let words =
                                "a number of replicas, 0 or more; +2 or -2 changes it by two";
                            self.error = Some(String::from(words));
                            return Verdict::Stay;
                        };
                        Intent::Scale {
                            target: format!("{}/{}", id.kind, id.key),
                            replicas,
                        }
                    }
                    PlanInput::Cordon(nodes) => Intent::Cordon {
                        nodes: nodes.clone(),
                        reason: typed,
                    },
                });
                if matches!(wanted, PlanInput::Cordon(_)) {
                    self.reason = TextField::new(self.value.text());
                }
                self.phase = PlanPhase::Computing;
                Verdict::Stay
            }
            PlanPhase::Shown(plan) => {
                let plan = plan.clone();
                self.confirm(screen, *plan)
            }
            PlanPhase::Refused(_) | PlanPhase::Failed(_) => Verdict::Close,
            PlanPhase::Runs(name) => match screen.facts().acts.run(name) {
                Some(run) if run.state != RunState::Running => Verdict::Close,
                _ => Verdict::Stay,
            },
            PlanPhase::Stands(name) => {
                if let May::No { sentence, .. } = &screen.facts().acts.may {
                    self.error = Some(sentence.clone());
                    return Verdict::Stay;
                }
                let name = name.clone();
                self.phase = PlanPhase::Runs(name.clone());
                Verdict::GoOn(name)
            }
            PlanPhase::Computing | PlanPhase::Sent(_) => Verdict::Stay,
        }
    }

    /// Rejects a confirmation with a reason. The typed confirmation is cleared.
    fn refuse(&mut self, why: String) {
        self.error = Some(why);
        self.typed = TextField::default();
        self.chosen = Focus::Typed;
    }

    fn confirm(&mut self, screen: &dyn Screen, plan: Plan) -> Verdict {
        if screen.present().since(self.shown_at) < SETTLE.into() {
            return Verdict::Stay;
        }
        match &screen.facts().acts.may {
            May::Yes => {}
            May::No { sentence, .. } => {
                self.error = Some(sentence.clone());
                return Verdict::Stay;
            }
            May::Unknown => {
                self.error = Some(String::from("write access is not known yet"));
                return Verdict::Stay;
            }
        }
        if let Some(changed) = self.changed() {
            self.refuse(format!("not started: {changed}"));
            return Verdict::Stay;
        }
        if let Some(check) = plan.failed_check() {
            self.refuse(format!("it would fail: {}: {}", check.name, check.sentence));
            return Verdict::Stay;
        }
        let wanted = plan.typed(&screen.facts().context);
        // The confirmation text is not a reason: it must not end up in the log. Who typed it expects that nothing is written yet.
        if self.reason.text().trim() == wanted {
            self.chosen = Focus::Reason;
            self.error = Some(match plan.needs_typed_name() {
                true => format!("type {wanted} in the other field; this field is for the reason"),
                false => {
                    self.reason = TextField::default();
                    String::from("nothing has to be typed: nothing is evicted; enter applies it")
                }
            });
            return Verdict::Stay;
        }
        if plan.needs_typed_name() && self.typed.text().trim() != wanted {
            self.error = Some(format!("type {wanted}, then enter, to confirm"));
            self.chosen = Focus::Typed;
            return Verdict::Stay;
        }
        let consent = Confirmation {
            reason: self.reason.text().trim().to_owned(),
            confirmed: Confirmed::Typed(wanted),
        };
        let mut plan = plan;
        plan.say_why(&consent.reason);
        self.phase = PlanPhase::Sent(Box::new(plan.clone()));
        Verdict::Carry(Box::new(ConfirmedPlan {
            number: self.number,
            plan,
            confirmation: consent,
        }))
    }

    /// Plans the undo of the run on screen.
    fn undo(&self, screen: &dyn Screen) -> Verdict {
        match &self.phase {
            PlanPhase::Runs(name) if self.running(screen).is_none() => {
                Verdict::ActionRequest(ActionRequest::Intent(Intent::Undo { run: name.clone() }))
            }
            _ => Verdict::Stay,
        }
    }
}

/// The number of replicas that is meant: `8`, or `+2` and `-2` from the present number of pods.
fn replica_count(typed: &str, pods: Option<usize>) -> Option<u32> {
    if !typed.starts_with(['+', '-']) {
        return typed.parse().ok();
    }
    let by: i64 = typed.parse().ok()?;
    u32::try_from(i64::try_from(pods?).ok()?.checked_add(by)?).ok()
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
