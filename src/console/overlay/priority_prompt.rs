//! What a job's priority may be: its queueing system takes a number, the name of a class, or neither.

use crate::text::UNKNOWN;
use model::fleet::job::Job;
use model::fleet::queue::{PriorityClass, PriorityKind, QueueSystem};
use model::plan::JobName;
use table::Facts;

/// Classes that are named at most.
const NAMED: usize = 8;

/// Whose order a job stands in.
fn system(job: Option<&Job>) -> QueueSystem {
    let Some(job) = job else {
        return QueueSystem::None;
    };
    let admission = job.admission.as_ref();
    admission.map_or(job.queue_system, |known| known.system())
}

fn job_of<'a>(name: &JobName, facts: &'a Facts) -> Option<&'a Job> {
    facts.fleet.job_named(&name.to_string()).map(|job| &**job)
}

/// The classes that a job of this system may be given, the highest first.
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

/// As its own project writes it.
const fn word(system: QueueSystem) -> &'static str {
    match system {
        QueueSystem::Volcano => "Volcano",
        QueueSystem::Kai => "KAI",
        QueueSystem::Kueue => "Kueue",
        QueueSystem::Stokehold => "Stokehold",
        QueueSystem::None => "nothing",
    }
}

/// What is said before anything is typed.
pub(super) fn hint(name: &JobName, facts: &Facts) -> String {
    let job = job_of(name, facts);
    let now = job.and_then(|job| job.priority);
    let now = now.map_or(UNKNOWN.to_owned(), |now| now.to_string());
    let system = system(job);
    let classes = classes(system, facts);
    let takes = match (system, classes.is_empty()) {
        (QueueSystem::Kueue, true) => String::from("type a number: Kueue orders by it"),
        (QueueSystem::Kueue, false) => format!(
            "type a number, or a WorkloadPriorityClass: {}",
            named(&classes)
        ),
        (QueueSystem::Stokehold, _) => String::from("type a number"),
        (QueueSystem::Volcano | QueueSystem::Kai, true) => format!(
            "{} takes the name of a PriorityClass and no number; no PriorityClass is seen here",
            word(system)
        ),
        (QueueSystem::Volcano | QueueSystem::Kai, false) => format!(
            "{} takes one of these PriorityClasses, and no other number: {}",
            word(system),
            named(&classes)
        ),
        (QueueSystem::None, _) => String::from(
            "no queueing system is seen to order this job: a pod's own priority cannot be changed",
        ),
    };
    format!("now {now}; {takes}")
}

/// Why what was typed cannot be this job's priority; `None` where a plan may say otherwise.
pub(super) fn refused(name: &JobName, typed: &str, facts: &Facts) -> Option<String> {
    let system = system(job_of(name, facts));
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
    // Without any class to go by the plan decides.
    if classes.is_empty() || takes_numbers && number.is_some() || classes.iter().any(is_class) {
        return None;
    }
    Some(match number {
        Some(value) => format!("no PriorityClass has the value {value}: type one of those above"),
        None => format!("no such class: `{typed}`"),
    })
}
