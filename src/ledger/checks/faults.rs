//! One fault, one finding: consequences of a broken device are reported with it, and its repair fits the state of its node.

use std::collections::BTreeMap;

use model::base::Name;
use model::fleet::accelerator::Vendor;
use model::fleet::device::Device;
use model::fleet::finding::{DEVICE_FAULTS, Finding, Severity};
use model::fleet::fleet::Fleet;
use model::fleet::node::Node;

use super::context::MergeableFinding;

/// Checks of a node that see the same fault from outside.
const CONDITION: &str = "node-condition";
const ALLOCATABLE: &str = "allocatable-below-capacity";

/// The findings with one for each fault.
pub(super) fn joined(found: Vec<MergeableFinding>, fleet: &Fleet) -> Vec<MergeableFinding> {
    let mut leaders: BTreeMap<Name, usize> = BTreeMap::new();
    let mut follows: Vec<Option<usize>> = vec![None; found.len()];
    for (at, one) in found.iter().enumerate().filter(|(_, one)| is_fault(one)) {
        let leader = leaders
            .entry(one.finding.subject.key.name.clone())
            .or_insert(at);
        if rank(one) < rank(&found[*leader]) {
            *leader = at;
        }
    }
    for (at, one) in found.iter().enumerate().filter(|(_, one)| is_fault(one)) {
        let leader = leaders[&one.finding.subject.key.name];
        follows[at] = (leader != at).then_some(leader);
    }
    let mut on_nodes: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (device, at) in &leaders {
        if let Some((node, _)) = device.rsplit_once('/') {
            on_nodes.entry(node).or_default().push(*at);
        }
    }
    let mut conditions: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, one) in found.iter().enumerate() {
        let node = one.finding.subject.key.name.as_str();
        if one.check == CONDITION && !is_of_network(&one.finding.message) {
            let broken = on_nodes.get(node).map_or(&[][..], Vec::as_slice);
            follows[at] = match xid_in(&one.finding.message) {
                Some(xid) => {
                    let code = format!("xid-{xid}");
                    let same = |leader: &&usize| has_code(&found, &follows, **leader, &code);
                    broken.iter().find(same).copied()
                }
                None => broken.first().copied(),
            };
            if follows[at].is_none() {
                conditions.entry(node).or_insert(at);
            }
        }
    }
    for (at, one) in found.iter().enumerate() {
        if one.check != ALLOCATABLE {
            continue;
        }
        let node = one.finding.subject.key.name.as_str();
        let broken = on_nodes.get(node).map_or(&[][..], Vec::as_slice);
        let missing = one.finding.value.unwrap_or(f64::INFINITY);
        follows[at] = match broken.first() {
            Some(first) if missing <= broken.len() as f64 => Some(*first),
            Some(_) => None,
            None => conditions.get(node).copied(),
        };
    }
    let also: Vec<(usize, Finding)> = follows
        .iter()
        .zip(&found)
        .filter_map(|(leader, one)| Some(((*leader)?, one.finding.clone())))
        .collect();
    let mut out: Vec<Option<MergeableFinding>> = follows
        .into_iter()
        .zip(found)
        .map(|(leader, one)| leader.is_none().then_some(one))
        .collect();
    for (leader, follower) in also {
        if let Some(Some(leader)) = out.get_mut(leader) {
            merge_into(&mut leader.finding, &follower);
        }
    }
    let mut out: Vec<MergeableFinding> = out.into_iter().flatten().collect();
    for one in out
        .iter_mut()
        .filter(|one| is_fault(one) || one.check == CONDITION)
    {
        fit(&mut one.finding, fleet);
    }
    with_cause(&mut out);
    out
}

/// Checks of one device that explain why it is slower than its gang, the likeliest first.
const SLOWDOWNS: &[&str] = &[
    "power-brake",
    "throttling",
    "heat",
    "pcie-replay",
    "power-capped",
];

/// A finding that a device's fault causes has the repair of that fault: one fault, one repair. A straggler names what slows its device.
fn with_cause(found: &mut [MergeableFinding]) {
    let mut causes: BTreeMap<Name, (usize, String, String)> = BTreeMap::new();
    for one in found.iter() {
        let slows = SLOWDOWNS.iter().position(|check| *check == one.check);
        let rank = match (is_fault(one), slows) {
            (true, _) => 0,
            (false, Some(place)) => place + 1,
            (false, None) => continue,
        };
        let (device, finding) = (&one.finding.subject.key.name, &one.finding);
        if causes.get(device).is_none_or(|(known, ..)| rank < *known) {
            let why = finding.message.split("; ").next().unwrap_or_default();
            let cause = (rank, why.to_owned(), finding.repair.clone());
            causes.insert(device.clone(), cause);
        }
    }
    for one in found.iter_mut().filter(|one| !is_fault(one)) {
        let cause = one.cause.as_ref().and_then(|device| causes.get(device));
        let Some((rank, why, repair)) = cause else {
            continue;
        };
        let is_straggler = one.check == "straggler";
        if is_straggler {
            one.finding.message = format!("{}; likely cause: {why}", one.finding.message);
        }
        if is_straggler || *rank == 0 {
            one.finding.repair.clone_from(repair);
        }
    }
}

/// True for what says that a device is broken. A program's own XID is none.
fn is_fault(one: &MergeableFinding) -> bool {
    one.finding.subject.kind == "Device"
        && DEVICE_FAULTS.contains(&one.check)
        && one.finding.severity != Severity::Info
}

fn rank(one: &MergeableFinding) -> (Severity, usize) {
    let place = DEVICE_FAULTS.iter().position(|check| *check == one.check);
    (one.finding.severity, place.unwrap_or(DEVICE_FAULTS.len()))
}

/// True when the finding at `leader`, or one that follows from it, has this code.
fn has_code(
    found: &[MergeableFinding],
    follows: &[Option<usize>],
    leader: usize,
    code: &str,
) -> bool {
    found.iter().enumerate().any(|(at, one)| {
        (at == leader || follows[at] == Some(leader)) && one.finding.code.as_str() == code
    })
}

/// True for a condition about links between nodes or devices: that is a fault of its own.
fn is_of_network(message: &str) -> bool {
    let text = message.to_ascii_lowercase();
    ["nvlink", "infiniband", "network"]
        .iter()
        .any(|word| text.contains(word))
}

/// The XID that a text names: `XID 48`, `NvidiaXID79Error`, `xid=31`.
pub(super) fn xid_in(text: &str) -> Option<u32> {
    let text = text.to_ascii_lowercase();
    text.match_indices("xid").find_map(|(at, word)| {
        let rest = text[at + word.len()..].trim_start_matches([' ', '=', ':', '-', '_', '(']);
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        rest[..digits].parse().ok()
    })
}

/// Adds what follows from a fault. A time that an object or an exporter gives counts before our own first look.
fn merge_into(leader: &mut Finding, follower: &Finding) {
    let what = follower.message.split("; ").next().unwrap_or_default();
    leader.message = format!("{}; also {what}", leader.message);
    leader.severity = leader.severity.min(follower.severity);
    let also = leader.also.iter().chain([&follower.id]).cloned();
    leader.also = also.collect();
    if !follower.first_seen && (leader.first_seen || follower.since < leader.since) {
        leader.since = follower.since;
        leader.first_seen = false;
        leader.at_least = false;
    }
}

/// Makes the repair fit: the device's own number in its command, and nothing advised that is done.
fn fit(finding: &mut Finding, fleet: &Fleet) {
    let name = &finding.subject.key.name;
    let node = match finding.subject.kind {
        "Device" => name.rsplit_once('/').map(|(node, _)| node),
        _ => Some(name.as_str()),
    };
    let Some(node) = node.and_then(|node| fleet.node(node)) else {
        return;
    };
    let device = node.devices.iter().find(|device| device.id == *name);
    finding.repair = fitted(&finding.repair, node, device);
}

/// Ways in which a repair begins that takes the node out of use first.
const DRAINS: &[&str] = &[
    "drain the node, then ",
    "drain the node and ",
    "drain and ",
    "drain, then ",
];

fn fitted(repair: &str, node: &Node, device: Option<&Device>) -> String {
    let (first, rest) = match repair.split_once("; ") {
        Some((first, rest)) => (first, Some(rest)),
        None => (repair, None),
    };
    let strip = |text: &str| -> Option<String> {
        DRAINS
            .iter()
            .find_map(|drain| text.strip_prefix(drain))
            .map(str::to_owned)
    };
    let is_out = node.seen.unschedulable && node.pods.is_empty();
    let act = strip(first).map(|act| strip(&act).unwrap_or(act));
    let free = device.is_some_and(|device| !device.is_allocated());
    let waits = first.strip_prefix("wait until its jobs have ended, then ");
    let mut words = match (&act, waits) {
        (Some(act), _) if is_out => match act.strip_suffix(" it") {
            Some(act) => format!("{act} the node"),
            None => act.clone(),
        },
        (Some(act), _) => format!("drain the node, then {act}"),
        (None, Some(act)) if free => act.to_owned(),
        _ => first.to_owned(),
    };
    if let Some(device) = device.filter(|device| device.vendor == Vendor::Nvidia) {
        let command = format!(
            "reset the GPU: `nvidia-smi --gpu-reset -i {}`",
            device.index
        );
        words = words.replacen("reset the GPU", &command, 1);
    }
    let comes_back = words.contains("reset the GPU")
        || words.contains("reboot")
        || words.contains("power-cycle");
    if is_out && comes_back && (act.is_some() || waits.is_some()) {
        words.push_str(", then uncordon the node");
    }
    let mut letters = words.chars();
    let words: String = letters
        .next()
        .into_iter()
        .flat_map(char::to_uppercase)
        .chain(letters)
        .collect();
    match rest {
        Some(rest) => format!("{words}; {rest}"),
        None => words,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_xid_is_found_in_every_agents_words() {
        for (text, xid) in [
            ("condition GpuXidProblem: XID 48 on GPU 5", Some(48)),
            (
                "condition AcceleratedHardwareReady: NvidiaXID79Error",
                Some(79),
            ),
            ("condition GpuXidProblem: xid=31", Some(31)),
            ("condition GpuXidProblem: see the log", None),
            ("condition GpuUnhealthy: 1 GPU of 8", None),
        ] {
            assert_eq!(xid_in(text), xid, "{text}");
        }
    }
}
