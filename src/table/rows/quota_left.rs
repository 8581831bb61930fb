//! What is left of the quotas of a row of cost: of a queue, or of the queues that a team has jobs in.

use std::collections::{BTreeMap, BTreeSet};

use model::base::Name;
use model::cost::{RateRow, SpendScope};
use model::fleet::queue::QueueKind;

use super::queue_quotas::left_of;
use crate::cell::{Cell, Value};
use crate::{Facts, UNATTRIBUTED};

/// Quota left of a queue, or of the queues of a team's jobs.
pub fn quota_left_of<'a>(facts: &Facts, row: &RateRow) -> Cell<'a> {
    match quota_left_words(facts, row) {
        QuotaLeft::Words(words) => Cell::text(words),
        QuotaLeft::Unknown => Cell::new(Value::Unknown),
        QuotaLeft::None => Cell::new(Value::Empty),
    }
}

/// What is left of the quotas of a row of cost.
pub enum QuotaLeft {
    /// Rows of its scope have no quota.
    None,
    /// Queues may not be seen.
    Unknown,
    /// What is left, whole.
    Words(String),
}

/// What is left of the quotas of a queue, or of the queues that a team has jobs in, in words.
pub fn quota_left_words(facts: &Facts, row: &RateRow) -> QuotaLeft {
    if row.name.as_str() == UNATTRIBUTED {
        return QuotaLeft::None;
    }
    let names: BTreeSet<&Name> = match row.scope {
        SpendScope::Queue => BTreeSet::from([&row.name]),
        SpendScope::Team => {
            let jobs = facts.fleet.jobs.iter().filter(|job| job.team == row.name);
            jobs.filter_map(|job| job.queue.as_ref()).collect()
        }
        SpendScope::Pool | SpendScope::Job | SpendScope::Class => return QuotaLeft::None,
    };
    if !facts.fleet.sees_queues() {
        return QuotaLeft::Unknown;
    }
    let all = facts.fleet.queues.iter().enumerate();
    let queues: Vec<usize> = all
        .filter(|(_, queue)| queue.key.kind == QueueKind::Queue && names.contains(queue.name()))
        .map(|(at, _)| at)
        .collect();
    let left = left_of(facts, &queues);
    if left.is_empty() {
        return QuotaLeft::Words(left);
    }
    let mut notes = Vec::new();
    if queues.len() > 1 {
        let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
        notes.push(format!("queues {}", names.join(", ")));
    }
    if row.scope == SpendScope::Team {
        notes.extend(shared_words(facts, &row.name, &names, queues.len() > 1));
    }
    let notes = match notes.is_empty() {
        true => String::new(),
        false => format!(" ({})", notes.join("; ")),
    };
    QuotaLeft::Words(format!("{left}{notes}"))
}

/// Which of a team's queues other teams have jobs in: `b200 shared with research`. What is left of them is no team's alone.
fn shared_words(
    facts: &Facts,
    team: &Name,
    queues: &BTreeSet<&Name>,
    named: bool,
) -> Option<String> {
    let mut shared: BTreeMap<&Name, BTreeSet<&str>> = BTreeMap::new();
    let others = facts.fleet.jobs.iter();
    for job in others.filter(|job| job.team != *team && !job.team.is_empty()) {
        if let Some(queue) = job.queue.as_ref().filter(|queue| queues.contains(queue)) {
            shared.entry(queue).or_default().insert(&job.team);
        }
    }
    let words = shared.into_iter().map(|(queue, teams)| {
        let teams: Vec<&str> = teams.into_iter().collect();
        let queue = if named {
            format!("{queue} ")
        } else {
            String::new()
        };
        format!("{queue}shared with {}", teams.join(", "))
    });
    let words: Vec<String> = words.collect();
    (!words.is_empty()).then(|| words.join("; "))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::fleet::job::Job;

    use super::*;
    use crate::sample;

    #[test]
    fn a_queue_that_other_teams_have_jobs_in_is_shared_with_them() {
        let mut facts = sample::facts();
        let queued = |job: &&Arc<Job>| job.queue.is_some() && !job.team.is_empty();
        let job = Arc::clone(
            facts
                .fleet
                .jobs
                .iter()
                .find(queued)
                .expect("it has a queue"),
        );
        let queue = job.queue.clone().expect("it has a queue");
        let queues = BTreeSet::from([&queue]);
        let of_queue = |own: &Arc<Job>| own.queue.as_ref() == Some(&queue);
        // Alone in its queue.
        let fleet = Arc::make_mut(&mut facts.fleet);
        let jobs = fleet.jobs.iter().cloned();
        fleet.jobs = jobs
            .filter(|own| !of_queue(own) || own.team == job.team)
            .collect();
        assert_eq!(shared_words(&facts, &job.team, &queues, false), None);
        // Beside jobs of two teams.
        let fleet = Arc::make_mut(&mut facts.fleet);
        let others = ["speech", "ads", "ads"].map(|team| {
            let mut other = Job::clone(&job);
            other.team = Name::new(team);
            Arc::new(other)
        });
        fleet.jobs = fleet.jobs.iter().cloned().chain(others).collect();
        let words = |named| shared_words(&facts, &job.team, &queues, named);
        assert_eq!(words(false).as_deref(), Some("shared with ads, speech"));
        let named = format!("{queue} shared with ads, speech");
        assert_eq!(words(true), Some(named));
    }
}
