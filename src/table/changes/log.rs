//! What changed since reading began: differences from snapshot to snapshot, and of the time before what objects state themselves.

use std::sync::Arc;
use std::time::Duration;

use model::base::{Age, Moment};
use model::cost::SpendRates;
use model::fleet::finding::FIRST_READINGS;

use super::{
    Dated, FleetChange, FleetChangeKind, FleetChanges, MoneyChange, Topic, jobs, known_rates,
    money_changes, rest, team_rate,
};
use crate::Facts;
use crate::query::scope::ScopedFleet;

/// How far back the times that objects state are taken for changes.
pub const STATED_FOR: Duration = Duration::from_secs(30 * 60);

/// A job that loses its pods this soon after it was evicted, or before it ends, loses them by that.
const EVICTED_FOR: Age = Age::from_seconds(120);

/// What resizes a job this soon after the last time is one change with it.
const RESIZED_FOR: Age = Age::from_seconds(900);

/// The number of changes that are kept: the latest.
const MOST_CHANGES: usize = 4_096;

/// What changed, as far as a session saw it.
#[derive(Clone, Debug)]
pub struct SeenChanges {
    pub changes: FleetChanges,
    /// From this moment on snapshots are compared; of the time before it there is only what objects state.
    pub compared_since: Moment,
    /// The rates at that moment; `None` where they were unknown.
    rates: Option<Arc<SpendRates>>,
}

impl SeenChanges {
    /// What the objects of one snapshot state of the time since `from`: when jobs were made, started, ended and were evicted, when
    /// nodes joined, failed and were cordoned, when findings began. What was deleted, and what has no time of its own such as a
    /// quota, is not among it.
    pub fn stated(facts: &Facts, from: Moment) -> Self {
        let mut changes = FleetChanges::none(from, facts.now);
        let out = &mut changes.changes;
        for job in facts.fleet.jobs.iter() {
            jobs::stated(facts, job, from, out);
        }
        for node in facts.fleet.nodes.iter() {
            if node.seen.created >= from {
                rest::joined(node, "", out);
            }
            let is_recent = |at: Option<Moment>| at.is_some_and(|at| at >= from);
            if is_recent(node.ready_since) {
                match node.ready {
                    Some(true) if node.seen.created < from => out.push(rest::ready(node)),
                    Some(true) => {}
                    _ => out.push(rest::not_ready(node)),
                }
            }
            if let Some(cordon) = node.cordon.as_ref().filter(|cordon| is_recent(cordon.at)) {
                out.push(rest::cordoned(node, cordon));
            }
        }
        for finding in facts.fleet.findings.iter() {
            // First seen at the first reading: nothing tells when it began.
            if !finding.first_seen && finding.since >= from {
                out.push(rest::began(facts, finding));
            }
        }
        out.retain(|change| change.at.is_some_and(|dated| dated.at() <= facts.now));
        changes.sort();
        Self {
            changes,
            compared_since: facts.now,
            rates: known_rates(facts).map(|_| Arc::clone(&facts.spend_rates)),
        }
    }

    /// The changes between two moments of a record.
    pub fn of(changes: FleetChanges) -> Self {
        Self {
            compared_since: changes.from,
            changes,
            rates: None,
        }
    }

    /// Differences between two snapshots, where the earlier one is known.
    pub fn between(before: &Facts, after: &Facts) -> Self {
        Self {
            changes: FleetChanges::between(before, after),
            compared_since: before.now,
            rates: known_rates(before).map(|_| Arc::clone(&before.spend_rates)),
        }
    }

    /// Adds what differs between the last snapshot and this one.
    fn follow(&mut self, new: Vec<FleetChange>, to: Moment) {
        let own = &mut self.changes;
        own.to = to;
        // That an evicted job no longer has its pods is the same change.
        let was_evicted = |change: &FleetChange| {
            let mut evicted = own
                .changes
                .iter()
                .take_while(|known| (known.at).is_none_or(|at| to.since(at.at()) <= EVICTED_FOR));
            evicted.any(|known| known.event == FleetChangeKind::Evicted && known.is_of(change))
        };
        let mut new: Vec<FleetChange> = (new.into_iter())
            .filter(|change| change.event != FleetChangeKind::Displaced || !was_evicted(change))
            .collect();
        // A job whose pods are gone a moment before it states its end has ended.
        let is_superseded = |known: &FleetChange| {
            let mut ends = new.iter().filter(|change| change.is_of(known));
            let is_late = known.at.is_some_and(|at| to.since(at.at()) > EVICTED_FOR);
            let (ended, failed) = (FleetChangeKind::Ended, FleetChangeKind::Failed);
            match known.event {
                FleetChangeKind::Displaced => {
                    !is_late && ends.any(|change| [ended, failed].contains(&change.event))
                }
                FleetChangeKind::Degraded => !is_late && ends.any(|change| change.event == ended),
                _ => false,
            }
        };
        own.changes.retain(|known| !is_superseded(known));
        // A job that grows and shrinks is one change, and none where it has its devices back.
        new.retain_mut(|change| {
            let Some((_, is)) = change.sizes else {
                return true;
            };
            let last = own.changes.iter().enumerate().find_map(|(place, known)| {
                let is_recent = known.at.is_some_and(|at| to.since(at.at()) <= RESIZED_FOR);
                let (was, _) = known.sizes.filter(|_| known.is_of(change) && is_recent)?;
                Some((place, was))
            });
            let Some((place, was)) = last else {
                return true;
            };
            own.changes.remove(place);
            change.sizes = Some((was, is));
            change.detail = jobs::sizes_words((was, is));
            was != is
        });
        own.changes.extend(new.into_iter().map(|mut change| {
            change.at = change.at.or(Some(Dated::Seen(to)));
            change
        }));
        own.sort();
        if own.changes.len() > MOST_CHANGES {
            own.changes.truncate(MOST_CHANGES);
            let oldest = own.changes.last().and_then(|change| change.at);
            own.from = oldest.map_or(own.from, Dated::at);
            own.sort();
        }
    }

    /// The rates then and now: those of the fleet and the teams, of the team of the scope, or none of a scope of namespaces.
    pub fn money(&self, facts: &Facts) -> Vec<MoneyChange> {
        let (before, after) = (self.rates.as_deref(), known_rates(facts));
        match facts.part.as_ref().map(|part| &part.scope) {
            None => money_changes(before, after),
            Some(scope) if scope.namespaces.is_empty() => {
                let whole = after.map(|_| facts.whole_burn());
                let of = |team| MoneyChange {
                    before: before.and_then(|rates| team_rate(rates, team)),
                    after: whole.and_then(|rates| team_rate(rates, team)),
                    team: Some(team.clone()),
                };
                scope.team.iter().map(of).collect()
            }
            Some(_) => Vec::new(),
        }
    }

    /// The changes of a scope.
    pub fn scoped(&self, facts: &Facts, part: &ScopedFleet) -> Self {
        let is_own = |change: &FleetChange| match change.topic {
            Topic::Job => {
                let team = change.team.as_deref();
                part.scope.has(Some(&change.namespace), team)
            }
            Topic::Node => part.reach.has_node(&change.name),
            Topic::Queue => part.reach.has_queue(&change.name),
            Topic::Finding => {
                let mut known = facts.fleet.findings.iter();
                match known.find(|finding| finding.id == change.id) {
                    Some(finding) => facts.concerns(finding),
                    // It has ended: its object tells.
                    None => part.reach.has_named(&change.namespace, &change.name),
                }
            }
        };
        let mut changes = FleetChanges::none(self.changes.from, self.changes.to);
        let all = self.changes.changes.iter();
        changes.changes = all.filter(|change| is_own(change)).cloned().collect();
        changes.sort();
        Self {
            changes,
            compared_since: self.compared_since,
            rates: self.rates.clone(),
        }
    }
}

/// The changes of a session, kept up with its snapshots.
#[derive(Clone, Debug, Default)]
pub struct ChangeLog(Option<Arc<SeenChanges>>);

impl ChangeLog {
    /// Takes a snapshot, with the one before it. The first complete one begins the log.
    pub fn see(&mut self, before: Option<&Facts>, after: &Facts) {
        match (&mut self.0, before) {
            (Some(log), Some(before)) => {
                let mut new = FleetChanges::of_objects(before, after).changes;
                let (begun, read) = (log.compared_since, log.compared_since.plus(FIRST_READINGS));
                new.retain(|change| {
                    let mut known = after.fleet.findings.iter();
                    let finding = known.find(|finding| finding.id == change.id);
                    let began = finding.filter(|_| change.event == FleetChangeKind::Began);
                    began.is_none_or(|finding| match after.now <= read {
                        true => !finding.first_seen && finding.since >= begun,
                        false => !finding.first_seen || finding.since > read,
                    })
                });
                if !new.is_empty() {
                    Arc::make_mut(log).follow(new, after.now);
                }
            }
            (None, _) if after.fleet.is_complete() => {
                let from = after.now.minus(STATED_FOR);
                self.0 = Some(Arc::new(SeenChanges::stated(after, from)));
            }
            _ => {}
        }
    }

    /// What was seen; `None` until the first lists are read.
    pub fn seen(&self) -> Option<Arc<SeenChanges>> {
        self.0.clone()
    }
}
