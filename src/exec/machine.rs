//! A run as a pure state machine: takes what was read and answered, returns what to read, write or wait for next.
//!
//! Uses no client, clock or file. It reads an object before it writes it, checks the step's guards, includes those guards in the
//! call, and stops after a step that failed. A step that waits (for a disruption budget, a checkpoint, or the end of a pod) is
//! set aside while steps that do not depend on it continue.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value};

use cluster::mutations::{self, Call, RunStep, text};
use model::base::{Moment, Name};
use model::fleet::run_hold::RunHold;
use model::plan::{Fact, Mutation, Object, Plan, Step, Test, Until, WaitOrder};

pub use super::command::{Note, ObjectRead, RunCommand, RunEnd, StepResult, StepStatus};
use super::hold_end::holds_until;
use super::response::{ResponseKind, ServerResponse};
use super::waits::{Others, Read, StepWait, pause, pending};

/// How long to wait for a disruption budget when the plan does not say.
pub(super) const BUDGET: Duration = Duration::from_secs(15 * 60);
/// How long to wait for a server that does not answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(10 * 60);
/// How often one step is retried after write conflicts.
const TRIES: u32 = 10;

#[derive(Clone, Debug)]
pub(super) struct StepProgress {
    pub(super) status: StepStatus,
    /// Number of attempts sent.
    pub(super) attempts: u32,
    /// The step was sent and its result is unknown.
    pub(super) unresolved: bool,
    /// Since when the step waits, before or after its call.
    pub(super) since: Option<Moment>,
    /// The object's version when the server rejected the call as invalid, with the server's message.
    invalid: Option<(String, String)>,
    /// Consecutive refusals, for the length of the pause.
    refusals: u32,
    /// What the step waits for, or why it failed.
    pub(super) words: String,
}

impl Default for StepProgress {
    fn default() -> Self {
        Self {
            status: StepStatus::Todo,
            attempts: 0,
            unresolved: false,
            since: None,
            invalid: None,
            refusals: 0,
            words: String::new(),
        }
    }
}

#[derive(Clone, Debug)]
enum Doing {
    Nothing,
    /// Reading for a step.
    Reading(StepRead),
    Writing(usize, Box<Call>, Map<String, Value>, String),
}

/// What is read for a step.
#[derive(Clone, Debug)]
struct StepRead {
    at: usize,
    /// The objects still to read, the step's own last.
    queue: Vec<Object>,
    /// The others as they were read, for the step's waits.
    others: Others,
}

/// State of a run.
#[derive(Clone, Debug)]
pub struct Machine {
    run: String,
    /// The user who carries it out.
    by: Name,
    steps: Vec<Step>,
    items: Vec<StepProgress>,
    doing: Doing,
    stop: bool,
    /// Since when the server has not answered.
    lost: Option<Moment>,
    /// A step with an unknown result: it must be resolved before any other step continues.
    unresolved: Option<usize>,
    end: Option<RunEnd>,
    notes: Vec<Note>,
}

impl Machine {
    /// Starts a run of this plan. `versions` are those that the cluster serves, for groups whose version the plan leaves open.
    pub fn new(run: impl Into<String>, plan: &Plan, versions: &BTreeMap<String, String>) -> Self {
        let mut steps = plan.steps.clone();
        let fill = |object: &mut Object| {
            if object.place.version.is_empty()
                && let Some(version) = versions.get(&*object.place.group)
            {
                object.place.version = Name::new(version);
            }
        };
        for step in &mut steps {
            step.objects_mut().for_each(fill);
        }
        Self {
            run: run.into(),
            by: Name::default(),
            items: vec![StepProgress::default(); steps.len()],
            steps,
            doing: Doing::Nothing,
            stop: false,
            lost: None,
            unresolved: None,
            end: None,
            notes: Vec::new(),
        }
    }

    /// Names the user who carries it out.
    #[must_use]
    pub fn by(mut self, user: &str) -> Self {
        self.by = Name::new(user);
        self
    }

    /// Sets the steps to the state in which an earlier process left them.
    pub(super) fn with_items(mut self, items: Vec<StepProgress>) -> Self {
        debug_assert_eq!(items.len(), self.steps.len(), "one for each step");
        self.unresolved = items.iter().position(|item| item.unresolved);
        self.items = items;
        for at in 0..self.steps.len() {
            if matches!(self.items[at].status, StepStatus::Settling(_)) && !self.settles(at) {
                // The call was accepted, and the process ended before it wrote the result.
                self.over(at, StepResult::Done, String::new());
            }
        }
        self
    }

    /// Stops the run after the current step.
    pub fn stop(&mut self) {
        self.stop = true;
    }

    /// Status of each step, with what it waits for or why it failed.
    pub fn step_statuses(&self) -> impl Iterator<Item = (&Step, StepStatus, &str)> {
        self.steps
            .iter()
            .zip(&self.items)
            .map(|(step, item)| (step, item.status, item.words.as_str()))
    }

    /// Takes the journal entries since the last call.
    pub fn notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.notes)
    }

    /// Returns what to do at `now`.
    pub fn next(&mut self, now: Moment) -> RunCommand {
        if let Some(end) = &self.end {
            return RunCommand::End(end.clone());
        }
        match &self.doing {
            Doing::Reading(reading) => {
                if let Some(object) = reading.queue.first() {
                    return RunCommand::Read(object.clone());
                }
            }
            Doing::Writing(at, call, before, _) => {
                return RunCommand::Write {
                    step: number(*at),
                    attempt: self.items[*at].attempts,
                    call: call.clone(),
                    before: before.clone(),
                };
            }
            Doing::Nothing => {}
        }
        if self.stop {
            self.end = Some(RunEnd::Stopped);
            return RunCommand::End(RunEnd::Stopped);
        }
        let mut earliest: Option<Moment> = None;
        let all = 0..self.steps.len();
        for at in self.unresolved.map_or(all, |held| held..held + 1) {
            let until = match self.items[at].status {
                StepStatus::Finished(_) => continue,
                StepStatus::Settling(until) => until,
                _ if !self.is_free(at) => continue,
                StepStatus::Todo => now,
                StepStatus::Waiting(until) => until,
            };
            if until <= now {
                return self.begin(at);
            }
            earliest = Some(earliest.map_or(until, |first| first.min(until)));
        }
        match earliest {
            Some(until) => RunCommand::Sleep(until),
            None => {
                self.end = Some(RunEnd::Done);
                RunCommand::End(RunEnd::Done)
            }
        }
    }

    /// True once all steps that this step needs have finished.
    fn is_free(&self, at: usize) -> bool {
        self.steps[at].needs.iter().all(|need| {
            let needed = (*need as usize).checked_sub(1);
            needed
                .and_then(|needed| self.items.get(needed))
                .is_some_and(|item| matches!(item.status, StepStatus::Finished(_)))
        })
    }

    fn begin(&mut self, at: usize) -> RunCommand {
        let step = &self.steps[at];
        let mut queue: Vec<Object> = Vec::new();
        let (guards, when) = match self.items[at].status {
            StepStatus::Settling(_) => (&[][..], WaitOrder::After),
            _ => (step.guards.as_slice(), WaitOrder::Before),
        };
        let guards = guards.iter().map(|fact| &fact.object);
        for object in guards.chain(step.shown_by(when)) {
            if !object.is(&step.object) && !queue.iter().any(|known| known.is(object)) {
                queue.push(object.clone());
            }
        }
        queue.push(step.object.clone());
        let first = queue[0].clone();
        self.doing = Doing::Reading(StepRead {
            at,
            queue,
            others: Vec::new(),
        });
        RunCommand::Read(first)
    }

    /// Takes the result of the last [`RunCommand::Read`].
    pub fn read(&mut self, now: Moment, seen: ObjectRead) {
        let mut reading = match std::mem::replace(&mut self.doing, Doing::Nothing) {
            Doing::Reading(reading) => reading,
            other => {
                self.doing = other;
                return;
            }
        };
        if reading.queue.is_empty() {
            return;
        }
        let at = reading.at;
        let read = reading.queue.remove(0);
        let object = match seen {
            ObjectRead::There(object) => Some(object),
            ObjectRead::Gone => None,
            ObjectRead::Not(answer) => return self.unread(now, at, &read, &answer),
        };
        self.lost = None;
        self.unresolved = None;
        let settles = matches!(self.items[at].status, StepStatus::Settling(_));
        if reading.queue.is_empty() {
            let seen = (object.as_deref(), &reading.others);
            return match settles {
                true => self.settle(now, at, seen),
                false => self.decide(now, at, seen),
            };
        }
        let facts = self.steps[at].guards.iter().filter(|_| !settles);
        let broken = facts
            .filter(|fact| fact.object.is(&read))
            .find_map(|fact| mutations::check_fact(fact, object.as_deref()).err());
        match broken {
            Some(words) => self.fail(at, changed(&words)),
            None => {
                reading.others.push((read, object.map(|object| *object)));
                self.doing = Doing::Reading(reading);
            }
        }
    }

    fn unread(&mut self, now: Moment, at: usize, read: &Object, answer: &ServerResponse) {
        let words = answer.words();
        match answer.code {
            Some(429 | 500..=599) | None => self.lose(now, at, words, answer.retry_after),
            _ => self.fail(at, format!("{read} cannot be read: {words}")),
        }
    }

    /// The server does not answer: the step waits, and the run ends if that lasts too long.
    fn lose(&mut self, now: Moment, at: usize, words: String, asked: Option<Duration>) {
        let since = *self.lost.get_or_insert(now);
        if now.since(since) > PATIENCE.into() {
            let words = format!(
                "no answer from the API server for {}: {words}",
                now.since(since)
            );
            return self.fail(at, words);
        }
        self.unresolved = Some(at);
        let item = &mut self.items[at];
        let until = now.plus(pause(item.refusals, asked));
        item.refusals += 1;
        item.status = match item.status {
            StepStatus::Settling(_) => StepStatus::Settling(until),
            _ => StepStatus::Waiting(until),
        };
        self.waits(at, words);
    }

    fn waits(&mut self, at: usize, words: String) {
        if self.items[at].words != words {
            self.items[at].words.clone_from(&words);
            self.notes.push(Note::Waits {
                step: number(at),
                words,
            });
        }
    }

    fn over(&mut self, at: usize, how: StepResult, words: String) {
        let item = &mut self.items[at];
        item.status = StepStatus::Finished(how);
        item.words.clone_from(&words);
        self.notes.push(Note::Finished {
            step: number(at),
            how,
            words,
        });
    }

    fn fail(&mut self, at: usize, words: String) {
        self.over(at, StepResult::Failed, words.clone());
        self.end = Some(RunEnd::Failed {
            step: number(at),
            words,
        });
    }

    fn settles(&self, at: usize) -> bool {
        let waits = &self.steps[at].waits;
        waits.iter().any(|wait| wait.when == WaitOrder::After)
    }

    /// The call was carried out: finishes the step, or waits for its effect.
    fn sent(&mut self, now: Moment, at: usize) {
        let settles = self.settles(at);
        let item = &mut self.items[at];
        item.unresolved = false;
        item.refusals = 0;
        if settles {
            item.since = Some(now);
            item.status = StepStatus::Settling(now);
            item.words.clear();
        } else {
            self.over(at, StepResult::Done, String::new());
        }
    }

    /// Checks a step's object before the call.
    fn decide(&mut self, now: Moment, at: usize, seen: Read<'_>) {
        let (object, others) = seen;
        let step = self.steps[at].clone();
        let done = mutations::is_done(&step, object);
        if self.items[at].unresolved {
            self.notes.push(Note::Resolved {
                step: number(at),
                done,
            });
            self.items[at].unresolved = false;
            if done {
                return self.sent(now, at);
            }
        }
        let evicts = matches!(step.mutation, Mutation::Evict { .. });
        let own = Fact {
            object: step.object.clone(),
            test: Test::Exists,
        };
        let facts = step
            .guards
            .iter()
            .filter(|fact| fact.object.is(&step.object));
        let broken = std::iter::once(&own)
            .chain(facts)
            .find_map(|fact| mutations::check_fact(fact, object).err());
        if self.ended_by_itself(at, object) {
            return self.over(at, StepResult::Already, "it has already ended".to_owned());
        }
        let there = object.filter(|_| broken.is_none());
        let Some(object) = there else {
            if evicts && done {
                // The pod is already terminating or gone, whatever ended it.
                return self.already(now, at);
            }
            return self.fail(at, changed(&broken.unwrap_or_default()));
        };
        if done {
            return self.already(now, at);
        }
        let version = text(object, "/metadata/resourceVersion");
        if let Some((words, tried)) = self.items[at].invalid.take()
            && tried == version
        {
            return self.fail(at, words);
        }
        match self.pending(now, at, WaitOrder::Before, (Some(object), others)) {
            StepWait::No => {}
            StepWait::Until(until, words) => {
                self.items[at].status = StepStatus::Waiting(until);
                return self.waits(at, words);
            }
            StepWait::Late(words) => return self.fail(at, words),
        }
        let until = holds_until(&self.steps, &self.items, now, at);
        let hold = until.map(|until| RunHold {
            run: Name::new(&self.run),
            by: self.by.clone(),
            since: now,
            until,
        });
        let mark = RunStep {
            run: &self.run,
            step: number(at),
            hold: hold.as_ref(),
        };
        match mutations::call(&step, object, mark) {
            Ok(call) => {
                let before = mutations::fields(&step).into_iter().map(|path| {
                    let value = object.pointer(&path).cloned().unwrap_or(Value::Null);
                    (path, value)
                });
                self.items[at].attempts += 1;
                self.doing =
                    Doing::Writing(at, Box::new(call), before.collect(), version.to_owned());
            }
            Err(refusal) => self.fail(at, refusal.to_string()),
        }
    }

    /// True when a suspend or resume step's job, one of several, finished before the step ran. Its resources are free, so the
    /// run continues with the other jobs.
    fn ended_by_itself(&self, at: usize, object: Option<&Value>) -> bool {
        let step = &self.steps[at];
        let stops = matches!(
            step.mutation,
            Mutation::Suspend { .. }
                | Mutation::WorkloadActive { .. }
                | Mutation::VolcanoCommand { .. }
        );
        let others = self
            .steps
            .iter()
            .any(|other| !other.object.is(&step.object));
        let uid = step.object.uid.as_deref();
        let is_it = |object: &Value| uid.is_none_or(|uid| text(object, "/metadata/uid") == uid);
        stops
            && others
            && object.is_some_and(|object| is_it(object) && mutations::has_ended(object))
    }

    fn already(&mut self, now: Moment, at: usize) {
        if self.settles(at) {
            return self.sent(now, at);
        }
        self.over(
            at,
            StepResult::Already,
            "unchanged: it was already in this state".to_owned(),
        );
    }

    /// Checks after the call what shows a step's effect.
    fn settle(&mut self, now: Moment, at: usize, seen: Read<'_>) {
        match self.pending(now, at, WaitOrder::After, seen) {
            StepWait::No => self.over(at, StepResult::Done, String::new()),
            StepWait::Until(until, words) => {
                self.items[at].status = StepStatus::Settling(until);
                self.waits(at, words);
            }
            StepWait::Late(words) => self.fail(at, words),
        }
    }

    /// What the step still waits for.
    fn pending(&mut self, now: Moment, at: usize, when: WaitOrder, seen: Read<'_>) -> StepWait {
        pending(&self.steps[at], &mut self.items[at].since, now, when, seen)
    }

    /// Takes the answer to the last [`RunCommand::Write`].
    pub fn answered(&mut self, now: Moment, answer: &ServerResponse) {
        let (at, call, version) = match std::mem::replace(&mut self.doing, Doing::Nothing) {
            Doing::Writing(at, call, _, version) => (at, call, version),
            other => {
                self.doing = other;
                return;
            }
        };
        let verdict = answer.verdict(&call);
        if !matches!(verdict, ResponseKind::Unknown(_) | ResponseKind::Busy(..)) {
            self.lost = None;
        }
        match verdict {
            ResponseKind::Accepted => self.sent(now, at),
            ResponseKind::Budget(words, asked) => self.refused_by_budget(now, at, words, asked),
            ResponseKind::Busy(words, asked) => self.lose(now, at, words, asked),
            ResponseKind::Unknown(words) => {
                self.items[at].unresolved = true;
                self.lose(now, at, words, None);
            }
            ResponseKind::Conflict(words) | ResponseKind::Invalid(words)
                if self.items[at].attempts >= TRIES =>
            {
                self.fail(
                    at,
                    format!(
                        "{} keeps being changed by others: {words}",
                        self.steps[at].object
                    ),
                );
            }
            ResponseKind::Conflict(words) => {
                self.unresolved = Some(at);
                let item = &mut self.items[at];
                item.status = StepStatus::Waiting(now.plus(Duration::from_millis(100)));
                self.waits(at, words);
            }
            ResponseKind::Invalid(words) => {
                let item = &mut self.items[at];
                item.invalid = Some((words, version));
                item.status = StepStatus::Todo;
            }
            // The pod to evict no longer exists.
            ResponseKind::Gone(_) if matches!(self.steps[at].mutation, Mutation::Evict { .. }) => {
                self.over(at, StepResult::Already, "it was already deleted".to_owned());
            }
            ResponseKind::Gone(words) | ResponseKind::Refused(words) => {
                self.fail(at, format!("{}: {words}", self.steps[at].object));
            }
        }
    }

    fn refused_by_budget(
        &mut self,
        now: Moment,
        at: usize,
        words: String,
        asked: Option<Duration>,
    ) {
        let wait = self.steps[at]
            .waits
            .iter()
            .find(|wait| wait.until == Until::Budget);
        let item = &mut self.items[at];
        let since = *item.since.get_or_insert(now);
        let (limit, go_on) = match wait {
            Some(wait) => (wait.limit(since), wait.go_on),
            None => (Some(since.plus(BUDGET)), false),
        };
        if limit.is_some_and(|limit| now >= limit) {
            let words = format!(
                "{}: its disruption budget has blocked the eviction for {}: {words}",
                self.steps[at].object,
                now.since(since)
            );
            if go_on {
                return self.over(at, StepResult::Left, words);
            }
            return self.fail(at, words);
        }
        let until = now.plus(pause(item.refusals, asked));
        item.refusals += 1;
        item.status = StepStatus::Waiting(limit.map_or(until, |limit| until.min(limit)));
        self.waits(at, words);
    }
}

fn number(at: usize) -> u32 {
    u32::try_from(at + 1).unwrap_or(u32::MAX)
}

fn changed(words: &str) -> String {
    format!("the cluster has changed since the plan was made: {words}")
}
