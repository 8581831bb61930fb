//! The palette's offers after `what-if`: the possible next words for the current fleet, until a change is complete.

use std::collections::BTreeSet;

use crate::fuzzy::FuzzyQuery;
use engine::what_if::{GRAMMAR, KEYWORDS, parse, split};
use model::base::{Name, SmallSort};
use model::fleet::Fleet;
use model::fleet::job::Job;
use model::fleet::node::Node;
use model::fleet::queue::{Measure, QueueKind};
use table::Facts;
use table::navigation::Selection;
use table::waiting::supposed;

use super::verdict::{Navigation, Offer};

/// The words before a change.
pub(super) const WORDS: &[&str] = &["what-if", "whatif", "what"];

/// The label that names a node's zone.
const ZONE: &str = "topology.kubernetes.io/zone";

/// The start of a change for the object under the cursor: of a waiting job the change that its page offers, else nodes of its pool.
pub fn begun(facts: &Facts, meant: &[Selection]) -> String {
    let fleet = &facts.fleet;
    let [of] = meant else {
        return String::new();
    };
    match of {
        Selection::Pool(pool) => format!("nodes {pool} "),
        Selection::Node(node) | Selection::Device(node, _) => {
            let pool = fleet.node(node).map(|node| &node.pool);
            pool.map_or_else(String::new, |pool| format!("nodes {pool} "))
        }
        Selection::Job(id) => {
            let job = fleet.job(id);
            let offered = job.and_then(|job| supposed(facts, job));
            let pool = || Some(format!("nodes {} ", fleet.pool_waited_for(job?)?));
            let whole = offered.or_else(pool);
            whole.unwrap_or_else(|| format!("job {} ", id.key))
        }
        Selection::Queue(queue) => format!("quota {queue}/"),
        _ => String::new(),
    }
}

/// The possible next words, or the change as typed where it is complete; beside the change of the waiting job under the cursor, more
/// nodes of its pool. `typed` is the text after the verb.
pub(super) fn offers(facts: &Facts, meant: &[Selection], typed: &str) -> Vec<Offer> {
    let fleet = &facts.fleet;
    // A change may be typed with the verb that is there already.
    let typed = WORDS.iter().fold(typed, |typed, word| {
        let behind = typed.trim_start().strip_prefix(word);
        behind.filter(|rest| rest.starts_with(' ')).unwrap_or(typed)
    });
    // With several changes, everything before the last `;` is complete.
    let (done, last) = match typed.rfind(';') {
        Some(at) => (format!("{}; ", typed[..at].trim()), &typed[at + 1..]),
        None => (String::new(), typed),
    };
    let mut words: Vec<&str> = last.split_whitespace().collect();
    let begun = match last.ends_with(char::is_whitespace) || words.is_empty() {
        true => "",
        false => words.pop().unwrap_or_default(),
    };
    let mut all = Vec::new();
    let wrong = split(typed.trim()).find_map(|change| parse(change).err());
    if wrong.is_none() {
        let changes = typed.trim();
        all.push(Offer {
            label: format!("what-if {changes}"),
            doc: String::from("what would change; writes nothing"),
            go: Navigation::WhatIf(Name::new(changes)),
        });
    }
    if let [Selection::Job(id)] = meant
        && !typed.trim().is_empty()
        && typed.trim() == self::begun(facts, meant).trim()
        && let Some(pool) = fleet.job(id).and_then(|job| fleet.pool_waited_for(job))
        && last.trim() != format!("nodes {pool}")
    {
        let changes = format!("nodes {pool} +4");
        all.push(Offer {
            label: format!("what-if {changes}"),
            doc: String::from("four more nodes of its pool"),
            go: Navigation::WhatIf(Name::new(&changes)),
        });
    }
    let query = FuzzyQuery::new(begun);
    let mut next: Vec<(u32, usize, Offer)> = Vec::new();
    for (order, (word, doc)) in after(fleet, &words).into_iter().enumerate() {
        let Some(cost) = query.cost(&word) else {
            continue;
        };
        let before: String = words.iter().map(|word| format!("{word} ")).collect();
        let change = format!("{before}{word}");
        // A word that is typed completely is the first offer already.
        if word == begun && parse(&change).is_ok() {
            continue;
        }
        let whole = format!("{done}{change}");
        // A complete change can be run even where more words could follow.
        let go = match parse(&change) {
            Ok(_) => Navigation::WhatIf(Name::new(&whole)),
            Err(_) => Navigation::Palette(format!("what-if {whole} ")),
        };
        let cost = if query.is_empty() { 0 } else { cost };
        let label = format!("what-if {whole}");
        next.push((cost, order, Offer { label, doc, go }));
    }
    next.small_sort_by_key(|(cost, order, _)| (*cost, *order));
    all.extend(next.into_iter().map(|(.., offer)| offer));
    if all.is_empty() {
        // Nothing fits: show the error; enter keeps the text.
        all.push(Offer {
            label: typed.trim().to_owned(),
            doc: wrong.unwrap_or_default(),
            go: Navigation::Palette(format!("what-if {typed}")),
        });
    }
    all
}

/// The possible next words, each with its meaning.
fn after(fleet: &Fleet, words: &[&str]) -> Vec<(String, String)> {
    let plain = |all: &[&str], doc: &str| -> Vec<(String, String)> {
        let one = |word: &&str| ((*word).to_owned(), doc.to_owned());
        all.iter().map(one).collect()
    };
    let named = |names: BTreeSet<&Name>, doc: &str| -> Vec<(String, String)> {
        let known = names.into_iter().filter(|name| !name.is_empty());
        known
            .map(|name| (name.to_string(), doc.to_owned()))
            .collect()
    };
    let nodes = || fleet.nodes.iter().filter(|node| !node.devices.is_empty());
    let pools = || fleet.pools.iter().map(|pool| &pool.name).collect();
    let zones = || {
        nodes()
            .filter_map(|node| node.seen.labels.get(ZONE))
            .collect()
    };
    let classes = || {
        let pools = fleet.pools.iter().flat_map(|pool| pool.classes.iter());
        pools.map(|known| &known.class).collect()
    };
    let flavors = || fleet.flavors.iter().map(|flavor| &flavor.name).collect();
    let jobs = || -> Vec<(String, String)> {
        let jobs = fleet.jobs.iter().filter(|job| job.is_live());
        let one = |job: &std::sync::Arc<Job>| {
            (
                job.id.key.to_string(),
                format!("job · {}", job.state.name()),
            )
        };
        jobs.map(one).collect()
    };
    match words {
        [] => KEYWORDS
            .iter()
            .map(|verb| (String::from(*verb), forms(verb)))
            .collect(),
        ["nodes"] => {
            let mut all = named(pools(), "pool");
            let types = nodes().filter_map(|node| node.instance_type.as_ref());
            all.extend(named(types.collect(), "machine type"));
            all
        }
        ["pool"] | ["spot"] => named(pools(), "pool"),
        ["zone"] => named(zones(), "zone"),
        ["node"] => {
            let one =
                |node: &std::sync::Arc<Node>| (node.name().to_string(), node.pool.to_string());
            nodes().map(one).collect()
        }
        ["quota"] => quotas(fleet),
        ["price"] => {
            let mut all = named(flavors(), "flavor");
            all.extend(named(classes(), "class"));
            all
        }
        ["job"] => jobs(),
        ["nodes", _] => plain(&["+1", "+4", "-1"], "nodes more or fewer; any +N or -N"),
        ["pool" | "zone" | "node", _] => plain(&["lost"], "all its nodes are lost"),
        ["quota", target] if target.contains("->") => plain(&["8"], "devices to move; any number"),
        ["quota", _] => plain(
            &["+8", "-8", "=8"],
            "devices more, fewer, or in total; any number",
        ),
        ["price" | "spot", _] => plain(&["2.50"], "USD a device-hour; any price"),
        ["job", _] => {
            let mut all = plain(&["removed"], "the job is removed");
            all.extend(plain(&["priority"], "another priority"));
            all.extend(plain(&["flavor"], "it requests only this flavor"));
            all.extend(plain(&["+1"], "more waiting jobs like it"));
            all
        }
        ["job", _, "flavor"] => named(flavors(), "flavor"),
        ["job", _, "priority"] => plain(&["100"], "any whole number"),
        _ => Vec::new(),
    }
}

/// Queues with their device flavors.
fn quotas(fleet: &Fleet) -> Vec<(String, String)> {
    let queues = fleet.queues.iter();
    let queues = queues.filter(|queue| queue.key.kind == QueueKind::Queue);
    queues
        .flat_map(|queue| {
            let quotas = queue.quotas.iter();
            let devices = quotas.filter(|quota| quota.measure == Measure::MilliDevices);
            devices.map(|quota| {
                let nominal = quota.nominal.map_or_else(
                    || String::from("no limit"),
                    |milli| format!("now {}", milli / 1_000),
                );
                let target = format!("{}/{}", queue.name(), quota.flavor);
                (target, format!("quota · {nominal}"))
            })
        })
        .collect()
}

/// The forms of a change that starts with this word.
fn forms(verb: &str) -> String {
    let own = GRAMMAR
        .iter()
        .filter(|form| form.split(' ').next() == Some(verb));
    let own: Vec<&str> = own.map(|form| form[verb.len()..].trim()).collect();
    own.join(" · ")
}
