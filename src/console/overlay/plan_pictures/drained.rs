//! The devices of drained nodes, before and after the drain: the letter of a team, a dot where no pod has a device, a cross where that
//! device has a fault.

use std::collections::{BTreeMap, BTreeSet};

use crate::text::counted;
use crate::widget::team_letters::{TeamLetters, letter};
use model::base::{Name, ObjectKey, SmallSort};
use model::fleet::device::{Device, Pod};
use model::plan::{Budgets, Intent, JobName, Plan, PlanEffect, Verb};
use table::Facts;
use table::UNATTRIBUTED;
use table::role::Role;

use super::{PictureLine, PicturePart};

/// Devices of a node at most: more are no picture.
const CELLS: usize = 16;
/// Cells between two nodes beside each other.
const GAP: usize = 3;

/// The signs of a device before and after the drain.
struct DrainedDevice {
    before: char,
    after: char,
}

/// The nodes of a drain.
pub(super) struct DrainedNodes {
    nodes: Vec<(Name, Vec<DrainedDevice>)>,
    /// Letters and their teams, with the devices of each.
    legend: Vec<(char, String, usize)>,
    /// Where their jobs go, as far as the plan knows it.
    sentence: String,
}

/// The sign of a device that no pod has: of a drained node it is not free, the node is cordoned.
const UNALLOCATED: char = '·';
/// The sign of a device that no pod has and that has a fault.
const FAULT: char = '×';
/// The sign of a device that pods of several teams have.
const SEVERAL: char = '+';
/// The sign of a device of a pod whose team is not known.
const UNKNOWN: char = '?';

impl DrainedNodes {
    /// `None` for a plan that is no drain, and for nodes without devices.
    pub(super) fn of(plan: &Plan, facts: &Facts) -> Option<Self> {
        let Intent::Drain { nodes, .. } = &plan.intent else {
            return None;
        };
        let nodes: Vec<_> = nodes.iter().filter_map(|it| facts.fleet.node(it)).collect();
        let devices = || nodes.iter().flat_map(|node| node.devices.iter());
        if devices().next().is_none() || nodes.iter().any(|node| node.devices.len() > CELLS) {
            return None;
        }
        let mut count: BTreeMap<&Name, usize> = BTreeMap::new();
        for device in devices() {
            for team in teams(device, |_| true) {
                *count.entry(team).or_default() += 1;
            }
        }
        let mut legend: Vec<(&Name, usize)> = count.into_iter().collect();
        legend.small_sort_by(|(_, a), (_, b)| b.cmp(a));
        let letters = TeamLetters::of(facts);
        let letter = |team: &Name| letters.place(team).map_or(UNKNOWN, letter);
        let sign = |device: &Device, teams: BTreeSet<&Name>| {
            let mut teams = teams.into_iter();
            match (teams.next(), teams.next()) {
                (None, _) if device.health.is_fault() => FAULT,
                (None, _) => UNALLOCATED,
                (Some(team), None) => letter(team),
                _ => SEVERAL,
            }
        };
        let evicted = plan.evicts();
        // Whether each eviction is refused.
        let steps = plan.steps.iter().filter(|step| step.verb == Verb::Evict);
        let pods = steps.map(|step| {
            let is_refused = step.side_effects.budgets == Budgets::Refusing;
            ((&step.object.namespace, &step.object.name), is_refused)
        });
        let pods: BTreeMap<(&Name, &Name), bool> = pods.collect();
        let stays = |pod: &Pod| {
            let ObjectKey { namespace, name } = pod.key();
            let is_refused = pods.get(&(namespace, name)).copied();
            is_refused.unwrap_or_else(|| !evicted.contains(&JobName(pod.job.key.clone())))
        };
        let mut emptied = 0;
        let nodes: Vec<_> = nodes
            .iter()
            .map(|node| {
                let cells = node.devices.iter().map(|device| {
                    let before = sign(device, teams(device, |_| true));
                    let after = sign(device, teams(device, stays));
                    emptied += u64::from(!is_empty(before) && is_empty(after));
                    DrainedDevice { before, after }
                });
                (node.name().clone(), cells.collect())
            })
            .collect();
        let has_slices = devices().any(|device| !device.slices.is_empty());
        Some(Self {
            nodes,
            legend: legend
                .into_iter()
                .map(|(team, count)| match team.is_empty() {
                    true => (UNKNOWN, UNATTRIBUTED.to_owned(), count),
                    false => (letter(team), team.to_string(), count),
                })
                .collect(),
            sentence: destinations(plan, (!has_slices).then_some(emptied)),
        })
    }

    /// Where the jobs go and what the letters say; then the nodes in columns, each with its devices before and after.
    pub(super) fn lines(&self, width: usize) -> Vec<PictureLine> {
        let name = |(name, _): &(Name, Vec<_>)| name.chars().count();
        let name = self.nodes.iter().map(name).max().unwrap_or(0).clamp(4, 20);
        let most = self.nodes.iter().map(|(_, cells)| cells.len()).max();
        // As wide as its title.
        let most = most.unwrap_or(0).max(6);
        let one = name + 2 * (2 + most);
        let columns = ((width + GAP) / (one + GAP)).clamp(1, self.nodes.len());
        let gap = || PicturePart::muted(" ".repeat(GAP));
        let head = format!("{:name$}  {:most$}  {:most$}", "NODE", "BEFORE", "AFTER");
        let mut lines = Vec::new();
        let legend = self.legend.iter();
        let legend = legend.map(|(sign, team, count)| format!("{sign} = {team} ({count})"));
        let cells = || self.nodes.iter().flat_map(|(_, cells)| cells);
        let has_faults = cells().any(|cell| cell.after == FAULT);
        let legend: Vec<String> = legend
            .chain([format!("{UNALLOCATED} = not allocated")])
            .chain(has_faults.then(|| format!("{FAULT} = fault")))
            .collect();
        for words in [self.sentence.clone(), legend.join(", ")] {
            let parts = crate::text::wrap(&words, width);
            lines.extend(parts.into_iter().map(|part| vec![PicturePart::muted(part)]));
        }
        let heads = (0..columns).flat_map(|_| [PicturePart::muted(head.clone()), gap()]);
        lines.push(heads.collect());
        for row in self.nodes.chunks(columns) {
            let mut line: PictureLine = Vec::new();
            for (node, cells) in row {
                let node: String = node.chars().take(name).collect();
                line.push(PicturePart::Words(format!("{node:name$}  "), Role::Title));
                line.extend(signs(cells, |cell| {
                    (cell.before, cell.before != cell.after)
                }));
                line.push(PicturePart::muted(" ".repeat(most - cells.len() + 2)));
                line.extend(signs(cells, |cell| (cell.after, false)));
                line.push(PicturePart::muted(" ".repeat(most - cells.len())));
                line.push(gap());
            }
            lines.push(line);
        }
        lines
    }
}

/// True for the signs of a device that no pod has.
const fn is_empty(sign: char) -> bool {
    matches!(sign, UNALLOCATED | FAULT)
}

/// The teams of the pods that a device is allocated to.
fn teams(device: &Device, counts: impl Fn(&Pod) -> bool) -> BTreeSet<&Name> {
    let pods = device.holders().map(|(pod, _)| pod);
    pods.filter(|pod| counts(pod))
        .map(|pod| &pod.team)
        .collect()
}

/// Signs in the roles of what they say: free, evicted, and what stays; signs of one role are one piece.
fn signs(
    cells: &[DrainedDevice],
    of: impl Fn(&DrainedDevice) -> (char, bool),
) -> impl Iterator<Item = PicturePart> {
    let mut pieces: Vec<(String, Role)> = Vec::new();
    for (sign, evicted) in cells.iter().map(of) {
        let role = match (sign, evicted) {
            (UNALLOCATED, _) => Role::Muted,
            (FAULT, _) => Role::Crit,
            (_, true) => Role::Warn,
            (_, false) => Role::Text,
        };
        match pieces.last_mut() {
            Some((signs, same)) if *same == role => signs.push(sign),
            _ => pieces.push((sign.to_string(), role)),
        }
    }
    pieces
        .into_iter()
        .map(|(signs, role)| PicturePart::Words(signs, role))
}

/// Of the devices that the displaced jobs release: how many start again at once, and how many wait. `here`: those of the drained
/// nodes; `None` where they cannot be compared.
fn destinations(plan: &Plan, here: Option<u64>) -> String {
    let forecast = match &plan.effect {
        PlanEffect::Forecast(forecast) => forecast,
        PlanEffect::Unknown { .. } => {
            return String::from("it is not known when and where their jobs start again");
        }
    };
    let [mut all, mut at_once, mut contested, mut later, mut unknown] = [0; 5];
    for one in &forecast.displaced {
        let devices = u64::from(one.devices);
        all += devices;
        *match one.back {
            Some(back) if back <= plan.computed_at => &mut at_once,
            Some(_) => &mut later,
            None if forecast.is_contested(&one.job) => &mut contested,
            None => &mut unknown,
        } += devices;
    }
    if forecast.displaced.is_empty() {
        return String::from("no job loses a device");
    }
    let elsewhere = match here.map(|here| all.saturating_sub(here)) {
        None | Some(0) => String::new(),
        Some(more) => format!(", {more} of them on other nodes"),
    };
    let parts = [
        (at_once, "start again at once"),
        (contested, "start again at once unless another job is first"),
        (later, "wait again"),
        (unknown, "wait again without an ETA"),
    ];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> = parts
        .map(|(count, words)| format!("{count} {words}"))
        .collect();
    let devices = counted(all, "device");
    format!(
        "their jobs release {devices}{elsewhere}: {}",
        parts.join(", ")
    )
}
