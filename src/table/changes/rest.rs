//! Changes of nodes, queues and findings between two snapshots.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::base::quantities::{bytes, counted};
use model::base::{Name, SmallSort};
use model::fleet::finding::Finding;
use model::fleet::node::{Cordon, Node};
use model::fleet::queue::{Measure, Queue, Quota, Stop};

use super::{Dated, FleetChange, FleetChangeKind, Topic, pairs};
use crate::Facts;

fn change(
    topic: Topic,
    event: FleetChangeKind,
    name: &Name,
    at: Option<Dated>,
    detail: String,
) -> FleetChange {
    FleetChange {
        at,
        topic,
        event,
        id: Name::default(),
        namespace: Name::default(),
        name: name.clone(),
        team: None,
        severity: None,
        cause: Name::default(),
        detail,
        sizes: None,
    }
}

/// The cause of nodes of a pool that failed together, and of the findings about them.
fn failed_nodes(pool: &Name) -> Name {
    Name::from(format!("nodes of {pool} not ready"))
}

pub(super) fn nodes(before: &Facts, after: &Facts, out: &mut Vec<FleetChange>) {
    let reached = |facts: &Facts, name: &Name| {
        let part = facts.part.as_ref();
        part.is_none_or(|part| part.reach.has_node(name))
    };
    for (was, is) in pairs(&before.fleet.nodes, &after.fleet.nodes, |node| node.name()) {
        let Some(name) = is.or(was).map(|node| node.name().clone()) else {
            continue;
        };
        if !reached(before, &name) && !reached(after, &name) {
            continue;
        }
        match (was, is) {
            (Some(was), Some(is)) if Arc::ptr_eq(was, is) => {}
            (Some(was), Some(is)) if was.seen.uid != is.seen.uid && !was.seen.uid.is_empty() => {
                joined(is, "replaced by another machine of the same name, ", out);
            }
            (Some(was), Some(is)) => node(was, is, out),
            (None, Some(is)) => joined(is, "", out),
            (Some(was), None) => {
                let detail = format!("had {}", machine(was));
                out.push(FleetChange {
                    cause: was.pool.clone(),
                    ..change(Topic::Node, FleetChangeKind::Gone, &name, None, detail)
                });
            }
            (None, None) => {}
        }
    }
}

/// `8 devices, pool h100-train`.
fn machine(node: &Node) -> String {
    let devices = match node.is_counted() {
        true => counted(node.devices.len() as u64, "device"),
        false => "unknown devices".to_owned(),
    };
    format!("{devices}, pool {}", node.pool)
}

pub(super) fn joined(node: &Node, how: &str, out: &mut Vec<FleetChange>) {
    let at = Some(Dated::Reported(node.seen.created));
    let (event, detail) = (FleetChangeKind::Joined, format!("{how}{}", machine(node)));
    out.push(FleetChange {
        cause: node.pool.clone(),
        ..change(Topic::Node, event, node.name(), at, detail)
    });
}

/// A node that is no longer ready.
pub(super) fn not_ready(node: &Node) -> FleetChange {
    let why = match node.ready {
        None => "kubelet stopped posting node status",
        Some(_) => "",
    };
    let at = node.ready_since.map(Dated::Reported);
    let event = FleetChangeKind::NotReady;
    FleetChange {
        cause: failed_nodes(&node.pool),
        ..change(Topic::Node, event, node.name(), at, why.to_owned())
    }
}

/// A node that is ready again.
pub(super) fn ready(node: &Node) -> FleetChange {
    let at = node.ready_since.map(Dated::Reported);
    FleetChange {
        cause: node.pool.clone(),
        ..change(
            Topic::Node,
            FleetChangeKind::Ready,
            node.name(),
            at,
            String::new(),
        )
    }
}

/// A node that was cordoned.
pub(super) fn cordoned(node: &Node, cordon: &Cordon) -> FleetChange {
    let (at, detail) = (cordon.at.map(Dated::Reported), words(cordon));
    FleetChange {
        cause: Name::new(&detail),
        ..change(
            Topic::Node,
            FleetChangeKind::Cordoned,
            node.name(),
            at,
            detail,
        )
    }
}

fn node(was: &Node, is: &Node, out: &mut Vec<FleetChange>) {
    match (was.ready == Some(true), is.ready == Some(true)) {
        (true, false) => out.push(not_ready(is)),
        (false, true) => out.push(ready(is)),
        _ => {}
    }
    match (&was.cordon, &is.cordon) {
        (None, Some(cordon)) => out.push(cordoned(is, cordon)),
        (Some(_), None) => out.push(change(
            Topic::Node,
            FleetChangeKind::Uncordoned,
            is.name(),
            None,
            String::new(),
        )),
        _ => {}
    }
}

/// `by anna: broken fan`.
fn words(cordon: &Cordon) -> String {
    let by = cordon.by.as_ref().map(|by| format!("by {by}"));
    let reason = cordon.reason.as_ref().map(ToString::to_string);
    let parts: Vec<String> = by.into_iter().chain(reason).collect();
    parts.join(": ")
}

pub(super) fn queues(before: &Facts, after: &Facts, out: &mut Vec<FleetChange>) {
    // Quotas belong to the whole cluster: a scope skips the queues that it does not draw from.
    let reached = |queue: &Queue| {
        let of = |facts: &Facts| {
            let part = facts.part.as_ref();
            part.is_none_or(|part| part.reach.has_queue(queue.name()))
        };
        of(before) || of(after)
    };
    for (was, is) in pairs(&before.fleet.queues, &after.fleet.queues, |queue| {
        &queue.key
    }) {
        let Some(queue) = is.or(was).filter(|queue| reached(queue)) else {
            continue;
        };
        let kind = queue.key.kind.name();
        let detail = format!("{kind} of {}", queue.system().name());
        let mut say = |event, detail| {
            let mut own = change(Topic::Queue, event, queue.name(), None, detail);
            own.id = Name::new(kind);
            out.push(own);
        };
        match (was, is) {
            (Some(was), Some(is)) if !Arc::ptr_eq(was, is) => {
                if was.stop != is.stop {
                    match is.stop {
                        Stop::None => say(FleetChangeKind::Opened, "admits again".to_owned()),
                        Stop::Hold => {
                            say(FleetChangeKind::Stopped, "admits no new jobs".to_owned())
                        }
                        Stop::Drain => {
                            say(
                                FleetChangeKind::Stopped,
                                "admits no jobs, evicts running jobs".to_owned(),
                            );
                        }
                    }
                }
                quotas(was, is, out);
            }
            (None, Some(is)) => {
                let at = Some(Dated::Reported(is.created));
                out.push(change(
                    Topic::Queue,
                    FleetChangeKind::Created,
                    is.name(),
                    at,
                    detail,
                ));
            }
            (Some(_), None) => say(FleetChangeKind::Gone, detail),
            _ => {}
        }
    }
}

fn quotas(was: &Queue, is: &Queue, out: &mut Vec<FleetChange>) {
    let by_place = |queue: &Queue| -> BTreeMap<(Name, Name), Quota> {
        let all = queue.quotas.iter();
        all.map(|quota| {
            (
                (quota.flavor.clone(), quota.resource.clone()),
                quota.clone(),
            )
        })
        .collect()
    };
    let (before, after) = (by_place(was), by_place(is));
    let mut places: Vec<&(Name, Name)> = before.keys().chain(after.keys()).collect();
    places.small_sort();
    places.dedup();
    for place in places {
        let title = match place {
            (flavor, resource) if flavor.is_empty() => resource.to_string(),
            (flavor, resource) => format!("{flavor} {resource}"),
        };
        let mut say = |event, id: String, detail| {
            let mut own = change(Topic::Queue, event, is.name(), None, detail);
            own.id = Name::from(id);
            own.cause = is.name().clone();
            out.push(own);
        };
        let (was, is) = match (before.get(place), after.get(place)) {
            (Some(was), Some(is)) => (was, is),
            (None, Some(is)) => {
                let nominal = amount(is.nominal, is.measure, "unlimited");
                say(
                    FleetChangeKind::Created,
                    title.clone(),
                    format!("{title}: {nominal}"),
                );
                continue;
            }
            (Some(_), None) => {
                say(
                    FleetChangeKind::Gone,
                    title.clone(),
                    format!("{title}: quota removed"),
                );
                continue;
            }
            (None, None) => continue,
        };
        let bounds = [
            ("quota", was.nominal, is.nominal, "unlimited"),
            (
                "borrowing limit",
                was.borrow_limit,
                is.borrow_limit,
                "no limit",
            ),
            ("lending limit", was.lend_limit, is.lend_limit, "all of it"),
            ("limit", was.cap, is.cap, "no limit"),
        ];
        for (bound, from, to, none) in bounds.into_iter().filter(|(_, from, to, _)| from != to) {
            // An unlimited quota is larger than any limit.
            let size = |amount: Option<i64>| amount.unwrap_or(i64::MAX);
            let event = match size(to) > size(from) {
                true => FleetChangeKind::Raised,
                false => FleetChangeKind::Lowered,
            };
            let (from, to) = (
                amount(from, was.measure, none),
                amount(to, is.measure, none),
            );
            say(
                event,
                format!("{title} {bound}"),
                format!("{bound} of {title}: {from} to {to}"),
            );
        }
    }
}

fn amount(amount: Option<i64>, measure: Measure, none: &str) -> String {
    match (amount, measure) {
        (None, _) => none.to_owned(),
        (Some(amount), Measure::Bytes) => bytes(amount as f64),
        (Some(amount), measure) => (amount as f64 / measure.whole() as f64).to_string(),
    }
}

fn findings_by_id(facts: &Facts) -> BTreeMap<&Name, &Finding> {
    let all = facts.fleet.findings.iter();
    all.filter(|finding| facts.concerns(finding))
        .map(|finding| (&finding.id, finding))
        .collect()
}

pub(super) fn findings(before: &Facts, after: &Facts, out: &mut Vec<FleetChange>) {
    if Arc::ptr_eq(&before.fleet.findings, &after.fleet.findings) {
        return;
    }
    let (was, is) = (findings_by_id(before), findings_by_id(after));
    for own in is.values().filter(|own| !was.contains_key(&own.id)) {
        out.push(began(after, own));
    }
    // What is part of another finding now is not over.
    let merged: BTreeSet<&Name> = is.values().flat_map(|own| &own.also).collect();
    for own in was.values().filter(|own| !is.contains_key(&own.id)) {
        if !merged.contains(&own.id) {
            out.push(of_finding(after, FleetChangeKind::Cleared, own, None));
        }
    }
}

/// A finding that began.
pub(super) fn began(facts: &Facts, own: &Finding) -> FleetChange {
    let at = match own.first_seen {
        true => Dated::Seen(own.since),
        false => Dated::Reported(own.since),
    };
    of_finding(facts, FleetChangeKind::Began, own, Some(at))
}

fn of_finding(
    facts: &Facts,
    event: FleetChangeKind,
    own: &Finding,
    at: Option<Dated>,
) -> FleetChange {
    let key = &own.subject.key;
    let node = facts.fleet.node(&key.name);
    let detail = format!("{}: {}", own.code, own.message);
    FleetChange {
        id: own.id.clone(),
        namespace: key.namespace.clone(),
        severity: Some(own.severity),
        cause: match node.filter(|node| node.ready != Some(true)) {
            Some(node) => failed_nodes(&node.pool),
            None => own.code.clone(),
        },
        ..change(Topic::Finding, event, &key.name, at, detail)
    }
}
