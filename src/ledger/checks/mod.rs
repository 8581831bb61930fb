//! Checks: derive findings from a fleet. One file a check, declared and put in order here.
//!
//! A check looks at one subject and gives a [`Verdict`]. The [`CheckStates`] remembers, for each check and subject,
//! since when it has been true: a finding shows once that has lasted for the rule's `for`, ends at the rule's
//! `clear` level, and survives a gap in what is known for up to [`PATIENCE`]. A gap begins nothing and ends nothing.
//!
//! A message does not repeat the subject's name: a view shows it beside.

mod context;
mod faults;
mod merge;
mod queues_document;
mod source_lost;
mod source_stale;

/// Checks of single devices.
mod devices {
    pub(super) mod busy_unallocated;
    pub(super) mod device_unhealthy;
    pub(super) mod device_vanished;
    pub(super) mod ecc_uncorrected;
    pub(super) mod heat;
    pub(super) mod idle_allocated;
    pub(super) mod memory_saturated;
    pub(super) mod pcie_replay;
    pub(super) mod power_brake;
    pub(super) mod power_capped;
    pub(super) mod recovery_action;
    pub(super) mod remap_failed;
    pub(super) mod remap_pending;
    pub(super) mod throttling;
    pub(super) mod under_used;
    pub(super) mod xid;
}

/// Checks of jobs, gangs and their pods.
mod jobs {
    pub(super) mod gang_stalled;
    pub(super) mod gangs;
    pub(super) mod objective_missed;
    pub(super) mod pods_stuck;
    pub(super) mod run_interrupted;
    pub(super) mod straggler;
}

/// Checks of nodes and racks.
mod nodes {
    pub(super) mod allocatable_below_capacity;
    pub(super) mod device_count;
    pub(super) mod node_condition;
    pub(super) mod node_not_ready;
    pub(super) mod plugin_not_ready;
    pub(super) mod rack_hot;
}

use model::base::{Moment, Name};

use model::fleet::accelerator::Accelerator;
use model::fleet::device::Device;
use model::fleet::finding::Finding;
use model::fleet::fleet::Fleet;
use model::fleet::node::Node;
use model::fleet::signal::Signal;
use model::fleet::thresholds::{Rule, Thresholds};

use context::CheckContext;
pub use context::CheckStates;
use model::fleet::finding::PATIENCE;

/// What a check says about one subject.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Verdict {
    Ok,
    /// Between the clear level and the threshold: begins nothing, ends nothing.
    Held(f64),
    /// It is true, with the measured value.
    Firing(f64),
    /// Too little is known: begins nothing, ends nothing.
    Unknown,
}

impl Verdict {
    /// The verdict on a level by a rule's threshold and clear level; unknown without a value.
    pub fn of(value: Option<f64>, rule: &Rule) -> Self {
        match value.filter(|value| !value.is_nan()) {
            None => Self::Unknown,
            Some(value) if rule.above => {
                if value >= rule.threshold {
                    Self::Firing(value)
                } else if value > rule.clear {
                    Self::Held(value)
                } else {
                    Self::Ok
                }
            }
            Some(value) => {
                if value <= rule.threshold {
                    Self::Firing(value)
                } else if value < rule.clear {
                    Self::Held(value)
                } else {
                    Self::Ok
                }
            }
        }
    }

    /// The verdict of a plain yes or no.
    pub fn when(fires: Option<bool>) -> Self {
        match fires {
            None => Self::Unknown,
            Some(true) => Self::Firing(1.0),
            Some(false) => Self::Ok,
        }
    }
}

/// One device as a check sees it.
struct CheckInput<'a> {
    node: &'a Node,
    device: &'a Device,
    /// Its model, where the catalogue knows it.
    model: Option<&'a Accelerator>,
    /// It has been read, and not too long ago.
    fresh: bool,
    /// Its fresh readings by signal, cached for a dozen checks; a value that is not a number is unknown.
    values: &'a [f64; Signal::ALL.len()],
    now: Moment,
}

impl CheckInput<'_> {
    /// A fresh value of a signal.
    fn get(&self, signal: Signal) -> Option<f64> {
        let value = self.values[signal as usize];
        (!value.is_nan()).then_some(value)
    }

    /// A fresh gauge that is 1 or 0.
    fn flag(&self, signal: Signal) -> Option<bool> {
        self.get(signal).map(|value| value >= 0.5)
    }

    /// The bits of a fresh bit mask.
    fn bits(&self, signal: Signal) -> Option<u64> {
        self.get(signal).and_then(model::fleet::xid::bits)
    }
}

/// What a check walks over.
enum CheckWalk {
    /// Runs for each device, then `finish` runs for the counts.
    Devices(fn(&mut CheckContext<'_>, &CheckInput<'_>)),
    Nodes(fn(&mut CheckContext<'_>, &Node)),
    /// The fleet as a whole.
    Fleet(fn(&mut CheckContext<'_>)),
    /// Runs for each device, then once more for the counts.
    Tally(
        fn(&mut CheckContext<'_>, &CheckInput<'_>),
        fn(&mut CheckContext<'_>),
    ),
}

/// A check of the registry.
struct Check {
    /// Its name in `alerts.toml`, and the code of its findings unless they bring their own.
    code: &'static str,
    walk: CheckWalk,
}

/// Every check, most pressing first: among findings of one severity this order decides.
const CHECKS: &[Check] = &[
    devices::device_vanished::CHECK,
    devices::xid::CHECK,
    devices::remap_failed::CHECK,
    devices::ecc_uncorrected::CHECK,
    devices::recovery_action::CHECK,
    devices::device_unhealthy::CHECK,
    nodes::node_not_ready::CHECK,
    nodes::node_condition::CHECK,
    jobs::run_interrupted::CHECK,
    devices::power_brake::CHECK,
    nodes::rack_hot::CHECK,
    devices::heat::CHECK,
    devices::throttling::CHECK,
    jobs::objective_missed::CHECK,
    jobs::gang_stalled::CHECK,
    jobs::straggler::CHECK,
    jobs::pods_stuck::CHECK,
    nodes::device_count::CHECK,
    nodes::plugin_not_ready::CHECK,
    nodes::allocatable_below_capacity::CHECK,
    source_lost::CHECK,
    queues_document::CHECK,
    devices::idle_allocated::CHECK,
    devices::busy_unallocated::CHECK,
    devices::remap_pending::CHECK,
    devices::under_used::CHECK,
    devices::power_capped::CHECK,
    devices::pcie_replay::CHECK,
    devices::memory_saturated::CHECK,
    source_stale::CHECK,
];

/// The code of every check, most pressing first.
pub fn codes() -> impl Iterator<Item = &'static str> {
    CHECKS.iter().map(|check| check.code)
}

/// The findings of a fleet at `now`, worst first. Call it with the same `state` each time the fleet has
/// changed or time has passed; `fleet.findings` is not looked at.
pub fn run(
    state: &mut CheckStates,
    fleet: &Fleet,
    now: Moment,
    thresholds: &Thresholds,
) -> Vec<Finding> {
    let mut on_nodes = Vec::new();
    let mut on_devices = Vec::new();
    let mut at_end = Vec::new();
    let stale = std::mem::take(&mut state.stale);
    for check in CHECKS {
        if !thresholds.rule(check.code).enabled {
            continue;
        }
        let mut context = state.open(check.code, fleet, now, (thresholds, &stale));
        context.walks_devices = matches!(check.walk, CheckWalk::Devices(_));
        match check.walk {
            CheckWalk::Nodes(run_check) => on_nodes.push((run_check, context)),
            CheckWalk::Devices(run_check) => on_devices.push((run_check, None, context)),
            CheckWalk::Tally(run_check, finish) => {
                on_devices.push((run_check, Some(finish), context))
            }
            CheckWalk::Fleet(run_check) => at_end.push((run_check, context)),
        }
    }
    // One pass over the devices for all checks: at 80,000 devices each pass costs more than a check. Neighbors
    // are of one class mostly, so the catalogue is asked when the class changes.
    let mut known: Option<(&Name, Option<&Accelerator>)> = None;
    for node in fleet.nodes.iter() {
        for (run_check, context) in &mut on_nodes {
            run_check(context, node);
        }
        for device in &node.devices {
            let model = match known {
                Some((class, model)) if *class == device.class => model,
                _ => fleet.policy.catalog.of_class(&device.class),
            };
            known = Some((&device.class, model));
            let fresh = device.is_fresh(now);
            if !fresh {
                state.stale.push(device.id.clone());
            }
            let mut values = [f64::NAN; Signal::ALL.len()];
            if fresh {
                for (signal, value) in device.signals.iter() {
                    values[signal as usize] = value;
                }
            }
            let input = CheckInput {
                node,
                device,
                model,
                fresh,
                values: &values,
                now,
            };
            for (run_check, _, context) in &mut on_devices {
                run_check(context, &input);
            }
        }
    }
    for (_, finish, context) in &mut on_devices {
        if let Some(finish) = finish {
            finish(context);
        }
    }
    for (run_check, context) in &mut at_end {
        run_check(context);
    }
    let desks = (on_nodes.into_iter().map(|(_, context)| context))
        .chain(on_devices.into_iter().map(|(.., context)| context))
        .chain(at_end.into_iter().map(|(_, context)| context));
    let mut found = Vec::new();
    let mut check_states = Vec::with_capacity(CHECKS.len());
    for context in desks {
        let code = context.code;
        let (check_state, mut these) = context.close();
        found.append(&mut these);
        check_states.push((code, check_state));
    }
    state.put_back(check_states);
    merge::merged(found, fleet)
}
