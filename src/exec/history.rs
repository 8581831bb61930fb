//! Runs in the journal: what each run did and left undone, whether it can be resumed, and how to undo it.

use serde_json::{Map, Value};

use cluster::mutations::{Inverse, fields, inverse};
use model::base::{Moment, Name, ObjectKey, SmallSort};
use model::fleet::run_hold::{OpenRun, RunStop};
use model::plan::{
    Intent, JobName, Mutation, Plan, PlanEffect, Refusal, RefusalCode, Step, Undo, Verb,
};

use super::journal::Pages;
use super::machine::{RunEnd, StepProgress, StepResult, StepStatus};
use super::record::{ClusterIdentity, JournalLine, Record, Who};

#[derive(Clone, PartialEq, Debug)]
pub struct Run {
    /// Name of the run.
    pub name: String,
    pub begun: Moment,
    /// Time of the last journal line.
    pub last: Moment,
    /// Cluster of the run.
    pub cluster: ClusterIdentity,
    /// Who started the run.
    pub who: Who,
    /// Reason that the operator gave.
    pub reason: String,
    /// The plan that was confirmed.
    pub plan: Plan,
    /// Each step, in order.
    pub steps: Vec<Trace>,
    /// How it ended; `None` while it runs, or when its process was killed.
    pub end: Option<RunEnd>,
    /// Differences from the intended result after every step has finished; empty for none.
    pub aftermath: String,
}

/// Recorded state of one step.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Trace {
    /// Time of its first journal line; `None` before.
    pub began: Option<Moment>,
    /// Number of attempts sent.
    pub attempts: u32,
    /// Whether the last call was accepted (`Some(true)`) or refused (`Some(false)`); `None` when that is unknown.
    pub accepted: Option<bool>,
    /// Previous values of the fields that the step wrote, before the first call, by path.
    pub before: Option<Map<String, Value>>,
    /// Result; `None` while the step has not finished.
    pub over: Option<StepResult>,
    pub words: String,
}

impl Trace {
    /// Whether the step is known to have changed the cluster.
    pub fn has_written(&self) -> bool {
        self.accepted == Some(true)
    }

    /// Whether the step was sent and its result is unknown.
    pub fn is_unresolved(&self) -> bool {
        self.attempts > 0 && self.accepted.is_none() && self.over.is_none()
    }
}

/// The runs in a journal, oldest first.
pub fn runs(pages: &Pages) -> Vec<Run> {
    let mut all = Vec::new();
    extend(&mut all, &pages.lines);
    all
}

/// Adds further journal lines to the runs.
pub(super) fn extend(all: &mut Vec<Run>, lines: &[JournalLine]) {
    for line in lines {
        if let Record::Begin {
            cluster,
            who,
            reason,
            plan,
        } = &line.record
        {
            all.push(Run {
                name: line.run.clone(),
                begun: line.at,
                last: line.at,
                cluster: cluster.clone(),
                who: who.clone(),
                reason: reason.clone(),
                steps: vec![Trace::default(); plan.steps.len()],
                plan: (**plan).clone(),
                end: None,
                aftermath: String::new(),
            });
            continue;
        }
        // Most lines belong to the latest runs.
        let Some(run) = all.iter_mut().rev().find(|run| run.name == line.run) else {
            continue;
        };
        run.last = line.at;
        run.learn(&line.record, line.at);
    }
}

/// The run that undid this run, unless that undo was itself undone.
pub fn undone_by<'r>(all: &'r [Run], name: &str) -> Option<&'r Run> {
    let from = all.iter().position(|run| run.name == name)? + 1;
    let later = &all[from..];
    later.iter().rev().find(|run| {
        let takes_back = matches!(&run.plan.intent, Intent::Undo { run } if run == name);
        takes_back && run.end == Some(RunEnd::Done) && undone_by(later, &run.name).is_none()
    })
}

impl Run {
    /// Pods that the run evicted, each with its job.
    pub fn evicted_pods(&self) -> Vec<(JobName, ObjectKey)> {
        let steps = self.steps.iter().zip(&self.plan.steps);
        let sent = steps.filter(|(trace, step)| {
            matches!(step.mutation, Mutation::Evict { .. }) && trace.has_written()
        });
        sent.filter_map(|(_, step)| {
            let job = step.job.as_ref()?.name.clone();
            let pod = &step.object;
            Some((job, ObjectKey::new(pod.namespace.clone(), pod.name.clone())))
        })
        .collect()
    }

    /// Jobs that the run suspended and has not yet resumed: they stay suspended until the run is resumed or undone.
    pub fn suspended_jobs(&self) -> Vec<JobName> {
        let of = |verb| {
            let steps = self.steps.iter().zip(&self.plan.steps);
            steps.filter_map(move |(trace, step)| {
                let job = step.job.as_ref().filter(|_| step.verb == verb)?;
                Some((trace, &job.name))
            })
        };
        let sent = of(Verb::Suspend).filter(|(trace, _)| {
            // (The result is unknown: the job may be suspended.)
            trace.has_written() || trace.is_unresolved()
        });
        let is_left = |job: &JobName| {
            let mut resumes = of(Verb::Resume)
                .filter(|(_, other)| *other == job)
                .peekable();
            resumes.peek().is_some() && resumes.all(|(trace, _)| !trace.has_written())
        };
        let held = sent.filter(|(_, job)| is_left(job));
        held.map(|(_, job)| job.clone()).collect()
    }

    /// The jobs that the run has left suspended, where it goes on no more; `all` are the runs of its journal, `is_running` says
    /// of a run without an end whether a process carries it out.
    pub fn left_suspended(
        &self,
        all: &[Self],
        is_running: impl FnOnce(&str) -> bool,
    ) -> Option<OpenRun> {
        let stop = match &self.end {
            Some(RunEnd::Done) => return None,
            Some(RunEnd::Stopped) => RunStop::Stopped,
            Some(RunEnd::Failed { .. }) => RunStop::Failed,
            None => RunStop::BrokenOff,
        };
        let mut jobs: Vec<ObjectKey> = self.suspended_jobs().into_iter().map(|job| job.0).collect();
        let is_over = || self.end.is_some() || !is_running(&self.name);
        if jobs.is_empty() || undone_by(all, &self.name).is_some() || !is_over() {
            return None;
        }
        jobs.small_sort();
        Some(OpenRun {
            run: Name::new(&self.name),
            by: Name::new(self.who.name()),
            since: self.begun,
            stop,
            jobs,
        })
    }

    /// The trace of a step that a line of `at` is about.
    fn trace(&mut self, step: u32, at: Moment) -> Option<&mut Trace> {
        let trace = self.steps.get_mut((step as usize).checked_sub(1)?)?;
        trace.began.get_or_insert(at);
        Some(trace)
    }

    fn learn(&mut self, record: &Record, at: Moment) {
        match record {
            Record::Begin { .. } => {}
            Record::TakenUp { .. } => {
                self.end = None;
                self.aftermath.clear();
            }
            Record::Intent {
                step,
                attempt,
                before,
                ..
            } => {
                if let Some(trace) = self.trace(*step, at) {
                    trace.attempts = *attempt;
                    trace.accepted = None;
                    trace.before.get_or_insert_with(|| before.clone());
                }
            }
            Record::Answer {
                step,
                accepted,
                words,
                ..
            } => {
                if let Some(trace) = self.trace(*step, at) {
                    trace.accepted = *accepted;
                    trace.words.clone_from(words);
                }
            }
            Record::Resolved { step, done } => {
                if let Some(trace) = self.trace(*step, at) {
                    trace.accepted = Some(*done);
                }
            }
            Record::Waits { step, words } => {
                if let Some(trace) = self.trace(*step, at) {
                    trace.words.clone_from(words);
                }
            }
            Record::Finished { step, how, words } => {
                if let Some(trace) = self.trace(*step, at) {
                    trace.over = Some(*how);
                    trace.words.clone_from(words);
                }
            }
            Record::End { end } => self.end = Some(end.clone()),
            Record::Behind { .. } | Record::NotStarted { .. } => {
                self.aftermath = aftermath_words(record).unwrap_or_default();
            }
        }
    }

    /// Differences from the intended result of a run whose steps have all finished: skipped steps, and pods on nodes that should
    /// be empty. `None` for a run that has not finished or has no differences.
    pub fn unmet(&self) -> Option<String> {
        if self.end != Some(RunEnd::Done) {
            return None;
        }
        let left = |trace: &&Trace| trace.over == Some(StepResult::Left);
        let count = self.steps.iter().filter(left).count();
        let steps = match count {
            0 => String::new(),
            1 => "1 step was skipped".to_owned(),
            more => format!("{more} steps were skipped"),
        };
        let all: Vec<&str> = [steps.as_str(), self.aftermath.as_str()]
            .into_iter()
            .filter(|words| !words.is_empty())
            .collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// Checks that the run can be resumed.
    ///
    /// # Errors
    /// The run is finished, or it failed: the cluster has changed, so a new plan is needed.
    pub fn can_go_on(&self) -> Result<(), String> {
        match &self.end {
            None | Some(RunEnd::Stopped) => Ok(()),
            Some(RunEnd::Done) => Err(format!(
                "{} is done: nothing is left to carry out",
                self.name
            )),
            Some(RunEnd::Failed { step, words }) => Err(format!(
                "{} failed at step {step} ({words}); make a new plan, or undo it with `plan undo {}`",
                self.name, self.name
            )),
        }
    }

    /// The steps in the state from which a machine resumes them.
    pub(super) fn items(&self) -> Vec<StepProgress> {
        self.steps
            .iter()
            .map(|trace| {
                let mut item = StepProgress::default();
                item.attempts = trace.attempts;
                item.unresolved = trace.is_unresolved();
                item.status = match (trace.over, trace.accepted) {
                    (Some(how), _) => StepStatus::Finished(how),
                    (None, Some(true)) => StepStatus::Settling(self.last),
                    _ => StepStatus::Todo,
                };
                item
            })
            .collect()
    }

    /// The plan that undoes this run, last step first.
    ///
    /// # Errors
    /// The run changed nothing, or nothing that can be undone.
    pub fn undo(&self, now: Moment) -> Result<Plan, Refusal> {
        let title = format!("undo {}", self.plan.title);
        let mut plan = Plan::new(
            title,
            Intent::Undo {
                run: self.name.clone(),
            },
            now,
        );
        let mut never = Vec::new();
        let done = || {
            let all = self.steps.iter().zip(&self.plan.steps).enumerate();
            all.filter_map(|(number, (trace, step))| {
                let before = trace.before.as_ref()?;
                let sent = trace.has_written() || trace.is_unresolved();
                sent.then_some((number, trace, step, before))
            })
        };
        // Several writes to the same fields (suspend, then resume) are undone to the values before the first write.
        let same =
            |one: &Step, other: &Step| one.object.is(&other.object) && fields(one) == fields(other);
        let all: Vec<_> = done().collect();
        for (at, (number, trace, step, _)) in all.iter().enumerate().rev() {
            if all[at + 1..]
                .iter()
                .any(|(_, _, later, _)| same(step, later))
            {
                continue;
            }
            let first = all.iter().find(|(_, _, other, _)| same(step, other));
            let before = restored(first.map_or(&Map::new(), |(_, _, _, before)| before));
            if trace.is_unresolved() {
                plan.warnings.push(format!(
                    "step {} was sent but not answered: it is checked first",
                    number + 1
                ));
            }
            match inverse(step, &before) {
                Inverse::Step(mut back) => {
                    back.reason = format!("undoes step {} of {}", number + 1, self.name);
                    // Steps are undone in reverse order.
                    back.needs = match u32::try_from(plan.steps.len()) {
                        Ok(count) if count > 0 => vec![count],
                        _ => Vec::new(),
                    };
                    plan.reads.extend(back.guards.iter().cloned());
                    plan.steps.push(*back);
                }
                Inverse::Nothing => {}
                Inverse::Never(why) => never.push(why),
            }
        }
        if plan.steps.is_empty() {
            let why = match (never.is_empty(), self.plan.evicts_words()) {
                (false, _) => format!("cannot be undone: {}", never.join("; ")),
                (true, Some(evicted)) => {
                    format!("has nothing left to undo: the eviction of {evicted} cannot be undone")
                }
                (true, None) => String::from("changed nothing: nothing to undo"),
            };
            let sentence = format!("{} {why}", self.name);
            return Err(Refusal::new(RefusalCode::AlreadySo, sentence));
        }
        plan.reasons.push(format!("it undoes run {}", self.name));
        plan.effect = PlanEffect::Unknown {
            why: "the scheduler decides what runs here".to_owned(),
        };
        plan.undo = Undo {
            possible: true,
            notes: Vec::new(),
        };
        plan.warnings.extend(never);
        Ok(plan)
    }
}

/// Describes how the result that a record reports differs from the plan; `None` for no difference.
pub fn aftermath_words(record: &Record) -> Option<String> {
    match record {
        Record::Behind { unknown, .. } if !unknown.is_empty() => {
            Some(format!("its nodes may not be empty: {unknown}"))
        }
        Record::Behind { pods, .. } if pods.is_empty() => None,
        Record::Behind { pods, .. } => {
            let count = match pods.len() {
                1 => String::from("1 pod is"),
                more => format!("{more} pods are"),
            };
            let named = pods[..pods.len().min(8)].join(", ");
            Some(format!(
                "{count} still on its nodes, most likely created after the plan was made: {named}; plan the drain again"
            ))
        }
        Record::NotStarted { job, why } => Some(format!("{job} is not running: {why}")),
        _ => None,
    }
}

/// An object with the previous values of just these fields.
fn restored(before: &Map<String, Value>) -> Value {
    let mut object = Value::Object(Map::new());
    for (path, value) in before {
        if value.is_null() {
            continue;
        }
        let mut at = &mut object;
        for key in path.split('/').skip(1) {
            let key = key.replace("~1", "/").replace("~0", "~");
            if !at.is_object() {
                *at = Value::Object(Map::new());
            }
            let Value::Object(map) = at else { break };
            at = map.entry(key).or_insert(Value::Null);
        }
        *at = value.clone();
    }
    object
}
