//! The priority prompt: a queueing system takes a number, a class name, or neither.

use crate::text::UNKNOWN;
use model::fleet::job::{Job, JobState};
use model::fleet::observe::Table;
use model::fleet::queue::{PriorityClass, PriorityKind, QueueSystem};
use model::plan::JobName;
use plan::actions::ordered_by;
use table::Facts;

/// The number of classes named.
const NAMED: usize = 8;

fn job_of<'a>(name: &JobName, facts: &'a Facts) -> Option<&'a Job> {
    facts.fleet.job_named(&name.to_string()).map(|job| &**job)
}

/// The classes available in this system, highest first.
fn classes(system: QueueSystem, facts: &Facts) -> Vec<&PriorityClass> {
    let kind = match system {
        QueueSystem::Kueue => PriorityKind::Workload,
        QueueSystem::Volcano | QueueSystem::Kai => PriorityKind::Pod,
        QueueSystem::Stokehold | QueueSystem::None => return Vec::new(),
    };
    let all = facts.fleet.priority_classes.iter().map(|class| &**class);
    let own = |class: &&PriorityClass| class.kind == kind && !class.name.starts_with("system-");
    let mut own: Vec<&PriorityClass> = all.filter(own).collect();
    own.sort_by_key(|class| (-i64::from(class.value), class.name.clone()));
    own
}

fn named(classes: &[&PriorityClass]) -> String {
    let mut words: Vec<String> = classes
        .iter()
        .take(NAMED)
        .map(|class| format!("{} ({})", class.name, class.value))
        .collect();
    if classes.len() > NAMED {
        words.push(format!("{} more", classes.len() - NAMED));
    }
    words.join(", ")
}

/// The hint before anything is typed.
pub(super) fn hint(name: &JobName, facts: &Facts) -> String {
    let job = job_of(name, facts);
    let now = job.and_then(|job| job.priority);
    let now = now.map_or(UNKNOWN.to_owned(), |now| now.to_string());
    let system = job.map_or(QueueSystem::None, ordered_by);
    let classes = classes(system, facts);
    let takes = match (system, classes.is_empty()) {
        (QueueSystem::Kueue, true) => String::from("type a number, higher goes first"),
        (QueueSystem::Kueue, false) => format!(
            "type a number, higher goes first, or a WorkloadPriorityClass: {}",
            named(&classes)
        ),
        (QueueSystem::Stokehold, _) => String::from("type a number, higher goes first"),
        (QueueSystem::Volcano | QueueSystem::Kai, true) => format!(
            "{} takes a PriorityClass name, not a number; no PriorityClass found",
            system.title()
        ),
        (QueueSystem::Volcano | QueueSystem::Kai, false) => format!(
            "{} takes only these PriorityClasses: {}",
            system.title(),
            named(&classes)
        ),
        (QueueSystem::None, _) => String::from(
            "no queueing system manages this job, and a pod's own priority cannot be changed",
        ),
    };
    let others = job.and_then(|job| others(job, facts)).unwrap_or_default();
    format!("now {now}{others}; {takes}")
}

/// The priorities of the other jobs that wait in its queue: `, others waiting in nlp 20 to 60`.
fn others(job: &Job, facts: &Facts) -> Option<String> {
    let queue = job.queue.as_ref()?;
    let others = facts.fleet.jobs.iter().filter(|other| {
        other.state == JobState::Waiting
            && other.id != job.id
            && other.queue.as_ref() == Some(queue)
    });
    let all: Vec<i32> = others.filter_map(|other| other.priority).collect();
    let (least, most) = (all.iter().min()?, all.iter().max()?);
    Some(match least == most {
        true => format!(", others waiting in {queue} {most}"),
        false => format!(", others waiting in {queue} {least} to {most}"),
    })
}

/// Why the typed text cannot be this job's priority; `None` where the plan decides.
pub(super) fn refused(name: &JobName, typed: &str, facts: &Facts) -> Option<String> {
    let system = job_of(name, facts).map_or(QueueSystem::None, ordered_by);
    let classes = classes(system, facts);
    let number: Option<i32> = typed.parse().ok();
    let takes_numbers = matches!(system, QueueSystem::Kueue | QueueSystem::Stokehold);
    let is_class = |class: &&PriorityClass| match number {
        Some(value) => class.value == value,
        None => *class.name == *typed,
    };
    if typed.is_empty() {
        return Some(String::from(match (takes_numbers, classes.is_empty()) {
            (true, true) => "type a number",
            (true, false) => "type a number, or the name of a class",
            (false, _) => "type the name of a PriorityClass",
        }));
    }
    let is_number = typed.parse::<f64>().is_ok();
    let table = facts.fleet.visibility(Table::WorkloadPriorityClasses);
    let has_names = system == QueueSystem::Kueue && !(classes.is_empty() && table.is_known());
    if takes_numbers && number.is_none() && (is_number || !has_names) {
        return Some(format!(
            "type a whole number from {} to {}",
            i32::MIN,
            i32::MAX
        ));
    }
    // Without known classes the plan decides.
    if classes.is_empty() || takes_numbers && number.is_some() || classes.iter().any(is_class) {
        return None;
    }
    Some(match number {
        Some(value) => {
            format!("no PriorityClass has the value {value}: type one of the values above")
        }
        None => format!("no such class: `{typed}`"),
    })
}
