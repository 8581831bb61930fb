//! Turns single findings into the list for operators: findings about one fact are merged, the worst come first.

use std::collections::{BTreeMap, BTreeSet};

use model::base::{Name, SmallSort};
use model::fleet::finding::{Finding, Subject};
use model::fleet::fleet::Fleet;

use super::CHECKS;
use super::context::MergeableFinding;
use super::faults;

/// So many findings with one code under one group become one.
const MANY: usize = 3;

/// The findings as they are shown: one for each fault, a rack's instead of its devices', a group's instead of its members',
/// worst first, then by check, then oldest first.
pub(super) fn merged(found: Vec<MergeableFinding>, fleet: &Fleet) -> Vec<Finding> {
    let mut found = faults::joined(found, fleet);
    let hot: BTreeSet<Name> = found
        .iter()
        .filter(|one| one.check == "rack-hot")
        .map(|one| one.finding.subject.key.name.clone())
        .collect();
    if !hot.is_empty() {
        found.retain(|one| {
            one.check != "heat"
                || !rack_of(&one.finding, fleet).is_some_and(|rack| hot.contains(&rack))
        });
    }
    let mut groups: BTreeMap<(Name, Subject), usize> = BTreeMap::new();
    for one in &found {
        if let Some((subject, _)) = &one.group {
            let key = (one.finding.code.clone(), subject.clone());
            *groups.entry(key).or_default() += 1;
        }
    }
    groups.retain(|_, count| *count >= MANY);
    let mut members: BTreeMap<(Name, Subject), Vec<Name>> = BTreeMap::new();
    let mut out: Vec<(usize, Finding)> = Vec::with_capacity(found.len());
    let mut at: BTreeMap<(Name, Subject), usize> = BTreeMap::new();
    for one in found {
        let rank = CHECKS
            .iter()
            .position(|check| check.code == one.check)
            .unwrap_or(CHECKS.len());
        let group = one
            .group
            .map(|(subject, words)| ((one.finding.code.clone(), subject), words))
            .filter(|(key, _)| groups.contains_key(key));
        let Some((key, words)) = group else {
            out.push((rank, one.finding));
            continue;
        };
        let names = members.entry(key.clone()).or_default();
        names.push(one.finding.subject.key.name.clone());
        if let Some(first) = at.get(&key) {
            let whole = &mut out[*first].1;
            if one.finding.since < whole.since {
                whole.first_seen = one.finding.first_seen;
                whole.at_least = one.finding.at_least;
                whole.since = one.finding.since;
            }
            whole.severity = whole.severity.min(one.finding.severity);
            continue;
        }
        let count = groups[&key];
        at.insert(key.clone(), out.len());
        out.push((
            rank,
            Finding {
                id: Name::from(format!("{}:{}:{}:*", key.0, key.1.kind, key.1.key)),
                subject: key.1,
                value: Some(count as f64),
                threshold: None,
                message: format!("{count} {words}"),
                ..one.finding
            },
        ));
    }
    for (key, at) in at {
        out[at].1.members = members.remove(&key).unwrap_or_default().into();
    }
    out.small_sort_by(|(rank_a, a), (rank_b, b)| {
        (a.severity, rank_a, a.since, &a.id).cmp(&(b.severity, rank_b, b.since, &b.id))
    });
    out.into_iter().map(|(_, finding)| finding).collect()
}

/// The rack of a device finding's device: its id is `NODE/gpu3`.
fn rack_of(finding: &Finding, fleet: &Fleet) -> Option<Name> {
    let (node, _) = finding.subject.key.name.rsplit_once('/')?;
    fleet.node(node)?.rack.clone()
}
