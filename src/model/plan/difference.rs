//! The jobs that a plan evicts, and the difference between two plans for one intent: in their steps, not in the figures of their
//! effect.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::quantities::counted;
use crate::base::{Moment, Name};

use super::{Fact, Intent, JobName, Mutation, Plan, PlanEffect, Step, Test, Verb};

/// Maximum number of jobs named in a line.
const NAMED: usize = 2;

/// Identity of a step, without its guards.
type Identity<'a> = (Verb, &'a Name, &'a Name, &'a Name, &'a Name);

impl Plan {
    /// The jobs whose running work its own steps stop.
    pub fn stops(&self) -> impl Iterator<Item = &JobName> {
        let steps = self.steps.iter();
        let stops = steps.filter(|step| step.side_effects.interrupts);
        stops.filter_map(|step| step.job.as_ref().map(|job| &job.name))
    }

    /// The jobs whose running work is evicted, by its steps or by the scheduler in the forecast.
    pub fn evicts(&self) -> BTreeSet<&JobName> {
        let displaced = match &self.effect {
            PlanEffect::Forecast(forecast) => forecast.displaced.as_slice(),
            PlanEffect::Unknown { .. } => &[],
        };
        let displaced = displaced.iter().map(|one| &one.job);
        self.stops().chain(displaced).collect()
    }

    /// The pod of an [`Intent::Evict`], else the evicted jobs (`3 jobs: nlp/a, nlp/b and 1 more`); `None` where none is evicted.
    pub fn evicts_words(&self) -> Option<String> {
        if let Intent::Evict { pod } = &self.intent {
            return Some(format!("pod {pod}"));
        }
        let all: Vec<&JobName> = self.evicts().into_iter().collect();
        match all.as_slice() {
            [] => None,
            [one] => Some(one.to_string()),
            more => Some(format!("{}: {}", self.evicts_count(), names(more))),
        }
    }

    /// As [`Plan::evicts_words`], by number alone: `3 jobs`.
    pub fn evicts_count(&self) -> String {
        match self.intent {
            Intent::Evict { .. } => counted(1, "pod"),
            _ => counted(self.evicts().len() as u64, "job"),
        }
    }

    /// True when no step of this plan names the job: the scheduler evicts it for another job.
    pub fn is_evicted_besides(&self, job: &JobName) -> bool {
        let mut named = self.steps.iter().filter_map(|step| step.job.as_ref());
        self.evicts().contains(job) && !named.any(|one| one.name == *job)
    }

    /// The step that resumes a job that the plan itself keeps waiting until then; `None` where there is none.
    pub fn goes_on_at(&self, job: &JobName) -> Option<u32> {
        let is_own = |step: &Step| step.job.as_ref().is_some_and(|own| own.name == *job);
        let mut own = (1..).zip(&self.steps).filter(|(_, step)| is_own(step));
        own.find(|(_, step)| step.frees_nothing())?;
        own.find(|(_, step)| step.verb == Verb::Resume)
            .map(|(number, _)| number)
    }

    /// Jobs that `new` evicts and this plan does not, and the reverse.
    fn moved<'a>(&'a self, new: &'a Self) -> (Vec<&'a JobName>, Vec<&'a JobName>) {
        let (was, is) = (self.evicts(), new.evicts());
        let too = is.difference(&was).copied().collect();
        (too, was.difference(&is).copied().collect())
    }

    /// What `new` evicts beyond this plan, in one line; `None` for nothing.
    pub fn evicts_besides(&self, new: &Self) -> Option<String> {
        let (too, spared) = self.moved(new);
        if !too.is_empty() {
            return moved_words(&too, &spared);
        }
        // A pod without a job is work too.
        let come = unlike(&self.steps, &new.steps).come;
        let mut come = come.into_iter().filter(|step| step.job.is_none());
        let stops = come.find(|step| step.side_effects.interrupts)?;
        Some(format!("new: {stops}"))
    }

    /// How the steps of `new` differ, in one line; `None` where they are the same. Lost work, starts, warnings and the order of
    /// steps change while a plan is open, and are ignored.
    pub fn difference(&self, new: &Self) -> Option<String> {
        let (too, spared) = self.moved(new);
        let mut differences: Vec<String> = moved_words(&too, &spared).into_iter().collect();
        let is_reported = |step: &&Step| {
            let job = step.job.as_ref().map(|job| &job.name);
            !job.is_some_and(|job| too.contains(&job) || spared.contains(&job))
        };
        let Unlike { gone, come, other } = unlike(&self.steps, &new.steps);
        let gone: Vec<&Step> = gone.into_iter().filter(is_reported).collect();
        let come: Vec<&Step> = come.into_iter().filter(is_reported).collect();
        match (&come[..], &gone[..]) {
            ([], []) => {}
            ([come], []) => differences.push(format!("new: {come}")),
            ([], [gone]) => differences.push(format!("no longer: {gone}")),
            ([come], [gone]) => differences.push(format!("{come} instead of {gone}")),
            (come, gone) => {
                let (more, fewer) = (come.len() as u64, gone.len() as u64);
                if more > 0 {
                    differences.push(format!("{} more", counted(more, "step")));
                }
                if fewer > 0 {
                    differences.push(format!("{} fewer", counted(fewer, "step")));
                }
            }
        }
        let other: Vec<_> = other
            .into_iter()
            .filter(|(step, _)| is_reported(step))
            .collect();
        match &other[..] {
            [] => {}
            [(_, why)] => differences.push(why.clone()),
            more => differences.push(format!("{} of its objects have changed", more.len())),
        }
        (!differences.is_empty()).then(|| differences.join("; "))
    }
}

/// The jobs evicted in addition, and those no longer evicted; `None` for none.
fn moved_words(too: &[&JobName], spared: &[&JobName]) -> Option<String> {
    Some(match (too, spared) {
        ([], []) => return None,
        (more, []) => format!("also evicts {}", names(more)),
        ([], fewer) => format!("no longer evicts {}", names(fewer)),
        (come, gone) => format!("evicts {} instead of {}", names(come), names(gone)),
    })
}

/// Steps that differ between two plans.
struct Unlike<'a> {
    gone: Vec<&'a Step>,
    come: Vec<&'a Step>,
    /// The same action on the same object with other guards, and the difference.
    other: Vec<(&'a Step, String)>,
}

fn unlike<'a>(before: &'a [Step], after: &'a [Step]) -> Unlike<'a> {
    let mut known: BTreeMap<Identity<'_>, Vec<&Step>> = BTreeMap::new();
    for step in before {
        known.entry(identity(step)).or_default().push(step);
    }
    let (mut come, mut other) = (Vec::new(), Vec::new());
    for step in after {
        let Some(same) = known.get_mut(&identity(step)).filter(|all| !all.is_empty()) else {
            come.push(step);
            continue;
        };
        let like = same.iter().position(|old| otherwise(old, step).is_none());
        let old = same.remove(like.unwrap_or(0));
        other.extend(otherwise(old, step).map(|why| (step, why)));
    }
    let gone = known.into_values().flatten().collect();
    Unlike { gone, come, other }
}

fn identity(step: &Step) -> Identity<'_> {
    let object = &step.object;
    let place = &object.place;
    (
        step.verb,
        &place.group,
        &place.plural,
        &object.namespace,
        &object.name,
    )
}

/// The difference of two steps on the same object; `None` where they are equal.
fn otherwise(old: &Step, new: &Step) -> Option<String> {
    let object = &new.object;
    if old.object.uid != object.uid {
        return Some(format!("{object} was recreated"));
    }
    if !same_call(&old.mutation, &new.mutation) {
        return Some(format!("{new} by another call"));
    }
    if old.side_effects.interrupts != new.side_effects.interrupts {
        let now = match new.side_effects.interrupts {
            true => "runs now",
            false => "no longer runs",
        };
        return Some(format!("{object} {now}"));
    }
    let (was, is) = (conditions(old), conditions(new));
    let fact = is.iter().find(|fact| !contains_fact(&was, fact));
    let fact = fact.or_else(|| was.iter().find(|fact| !contains_fact(&is, fact)))?;
    Some(match &fact.test {
        Test::Is { path, .. } | Test::Absent { path } => {
            format!("{} has changed: {path}", fact.object)
        }
        Test::Exists | Test::Version { .. } => format!("{} has changed", fact.object),
    })
}

/// True for the same call, with any timestamp.
fn same_call(old: &Mutation, new: &Mutation) -> bool {
    match (old, new) {
        (
            Mutation::Annotate {
                key,
                value: Some(was),
            },
            Mutation::Annotate {
                key: also,
                value: Some(is),
            },
        ) if Moment::parse(was).is_some() && Moment::parse(is).is_some() => key == also,
        _ => old == new,
    }
}

/// The guards of a step, without the resource version, which every write changes.
fn conditions(step: &Step) -> Vec<&Fact> {
    let firm = |fact: &&Fact| !matches!(fact.test, Test::Version { .. });
    step.guards.iter().filter(firm).collect()
}

fn contains_fact(all: &[&Fact], fact: &Fact) -> bool {
    let same = |one: &&Fact| one.object.is(&fact.object) && one.test == fact.test;
    all.iter().any(same)
}

/// `a`, `a and b`, `a, b and 3 more`.
fn names(jobs: &[&JobName]) -> String {
    match jobs {
        [one] => one.to_string(),
        [one, other] => format!("{one} and {other}"),
        more => {
            let first: Vec<String> = more.iter().take(NAMED).map(ToString::to_string).collect();
            format!("{} and {} more", first.join(", "), more.len() - NAMED)
        }
    }
}
