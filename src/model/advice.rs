//! Advice on a job's devices: evidence, refutation, command, and savings at the current device price.
//!
//! Savings are costs no longer paid: releasing reserved or owned devices frees them for other jobs and saves no money.

use std::cell::LazyCell;

use crate::base::quantities::{counted, first_named};
use crate::base::{Age, Name, ObjectKey, Rate, SmallSort};
use crate::cost::{Money, PriceGroup, SpendRates};
use crate::fleet::finding::Finding;
use crate::fleet::fleet::Fleet;
use crate::fleet::job::{Job, JobKey, JobState};
use crate::fleet::node::Billing;
use crate::fleet::profile::{self, Bottleneck, Evidence, JobProfile, NotJudged, Profiles};

mod smaller;

pub use smaller::ROOM;
use smaller::{MoveOffers, smaller};

/// Hours per month for savings: 365 days over 12.
pub const MONTH_HOURS: i64 = 730;

/// Minimum idle share of a job's devices before fewer are advised, 0 to 1; a single idle device among many may be momentary.
pub const FEW_IDLE: f64 = 0.1;

/// Share of the window from which it counts as fully read, 0 to 1.
const NEARLY_ALL: f64 = 0.95;

/// Certainty of an advice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Certainty {
    /// The whole window was read.
    High,
    /// It assumes that half an hour is representative.
    Medium,
}

crate::words! {
    impl Certainty {
        /// Name in the JSON contract.
        pub fn name(self) {
            High => "high",
            Medium => "medium",
        }
    }
}

#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    Release,
    /// Request this many devices fewer.
    FewerDevices(u32),
    /// Run on devices of this class.
    SmallerDevice(Name),
    /// Run on a slice of this profile.
    MigSlice(Name),
    /// Run on spot devices of the same class.
    Spot,
    /// Move a pod off a straggler that slows its gang.
    LeaveDevice {
        /// The device, written `NODE/gpu3`.
        device: Name,
        /// The pod that it is allocated to.
        pod: ObjectKey,
    },
    /// Speed up its data input.
    FasterInput,
    /// Compute in a format that tensor cores support.
    UseTensorCores,
    /// Add nodes to the pool.
    AddNodes {
        nodes: u32,
        /// Jobs that start immediately on them, `NAMESPACE/NAME`.
        starts: Box<[Name]>,
        /// The autoscaler's maximum, when the new size would exceed it.
        above: Option<u32>,
    },
    /// Remove these idle nodes of the pool.
    RemoveNodes(Box<[Name]>),
}

crate::words! {
    impl Action {
        /// A stable code for scripts.
        pub fn code(&self) {
            Release => "release",
            FewerDevices(_) => "fewer-devices",
            SmallerDevice(_) => "smaller-device",
            MigSlice(_) => "mig-slice",
            Spot => "spot",
            LeaveDevice { .. } => "leave-device",
            FasterInput => "faster-input",
            UseTensorCores => "use-tensor-cores",
            AddNodes { .. } => "add-nodes",
            RemoveNodes(_) => "remove-nodes",
        }
    }
}

/// Object kind of an advice about a pool instead of a job.
pub const POOL: &str = "Pool";

/// Maximum number of nodes or jobs named.
const NAMED: usize = 3;

/// Maximum number of nodes in a command.
const NODES_IN_COMMAND: usize = 8;

/// One advice about one job or pool.
#[derive(Clone, PartialEq, Debug)]
pub struct Advice {
    /// The job; for a pool its name, with kind [`POOL`] and no namespace.
    pub job: JobKey,
    /// Its team; empty for a pool.
    pub team: Name,
    /// Its bottleneck, where known.
    pub bound: Option<Bottleneck>,
    pub action: Action,
    /// Number of devices concerned.
    pub devices: u32,
    /// Class of the job's devices.
    pub class: Option<Name>,
    pub evidence: Option<Evidence>,
    /// Hourly cost of the job's devices, or of the nodes to add or remove; `None` without a price.
    pub costs: Option<Money>,
    /// Hourly savings; `None` where not known in advance.
    pub saves: Option<Money>,
    /// Set when all its devices are reserved or owned, and so paid whether used or not.
    pub commitment: Option<Billing>,
    pub certainty: Certainty,
}

impl Advice {
    /// The pool, for an advice about a pool.
    pub fn pool(&self) -> Option<&Name> {
        (self.job.kind.as_str() == POOL).then_some(&self.job.key.name)
    }

    /// The object: `nlp/train`, `pool h100`.
    pub fn object(&self) -> String {
        match self.pool() {
            Some(pool) => format!("pool {pool}"),
            None => self.job.key.to_string(),
        }
    }

    /// A unique id, stable while the advice applies.
    pub fn id(&self) -> String {
        let of = format!("{}:{}/{}", self.action.code(), self.job.kind, self.job.key);
        match &self.action {
            Action::LeaveDevice { device, .. } => format!("{of}@{device}"),
            _ => of,
        }
    }

    /// Savings per month of [`MONTH_HOURS`].
    pub fn saves_a_month(&self) -> Option<Money> {
        self.saves.map(a_month)
    }

    /// Removes the savings of reserved and owned devices: all, or, where the job has others too, the known part.
    fn pay(&mut self, job: &Job, fleet: &Fleet) {
        let nodes = job.places.iter().map(|place| fleet.node(&place.node));
        let billings = nodes.map(|node| node.and_then(|node| node.billing));
        let mut any = billings.clone().flatten();
        if !any.any(Billing::is_committed) {
            return;
        }
        self.commitment = committed(billings);
        self.saves = match self.commitment {
            Some(_) => self.saves.map(|_| Money::ZERO),
            None => None,
        };
    }

    /// The action as a sentence, with its effect where it saves no money.
    pub fn words(&self) -> String {
        self.words_idle(None)
    }

    /// The same; `idle_for` is how long its devices are idle: `>43m`.
    pub fn words_idle(&self, idle_for: Option<&str>) -> String {
        let what = self.what(idle_for);
        match self.commitment.filter(|_| self.saves.is_some()) {
            Some(billing) => format!("{what}; {}: frees devices, saves no money", billing.name()),
            None => what,
        }
    }

    fn what(&self, idle_for: Option<&str>) -> String {
        let class = self.class.as_ref().map_or("", |class| class.as_str());
        let devices = counted(u64::from(self.devices), "device");
        match &self.action {
            Action::Release => match (self.devices, idle_for) {
                (1, None) => String::from("release its device: it is idle"),
                (_, None) => format!("release its {devices}: they are idle"),
                (1, Some(long)) => format!("release its device: idle for {long}"),
                (_, Some(long)) => format!("release its {devices}: idle for {long}"),
            },
            Action::FewerDevices(idle) => {
                let fewer = counted(u64::from(*idle), "device");
                let are = if *idle == 1 { "is" } else { "are" };
                format!(
                    "request {fewer} fewer: {idle} of {} {are} idle",
                    self.devices
                )
            }
            Action::SmallerDevice(to) => format!("run it on {to} instead of {class}: it fits"),
            Action::MigSlice(profile) => {
                format!("run it on a {profile} slice of {class}: it fits")
            }
            Action::Spot => format!("run it on spot {class}: it saves checkpoints"),
            // A pod that is only deleted may be scheduled on the same device again.
            Action::LeaveDevice { device, pod } => format!(
                "cordon {}, then delete pod {}: {device} is a straggler, it slows the whole gang; the gang then repeats its work since the last checkpoint",
                node_of(device),
                pod.name
            ),
            Action::FasterInput => {
                let waits = if self.devices == 1 { "waits" } else { "wait" };
                format!(
                    "try more loader workers, prefetch or a local cache: its {devices} {waits} for data"
                )
            }
            Action::UseTensorCores => {
                String::from("compute in BF16 or TF32: its tensor cores are idle")
            }
            Action::AddNodes {
                nodes,
                starts,
                above,
            } => {
                let verb = if starts.len() == 1 { "starts" } else { "start" };
                let raised = above.map_or_else(String::new, |max| {
                    format!("; the pool's maximum is {max} nodes: raise it")
                });
                format!(
                    "add {} ({devices}): {} {verb} now{raised}",
                    counted(u64::from(*nodes), "node"),
                    first_named(starts, NAMED)
                )
            }
            Action::RemoveNodes(nodes) => format!(
                "remove {} ({devices}), no job starts later: {}",
                counted(nodes.len() as u64, "idle node"),
                first_named(nodes, NAMED)
            ),
        }
    }

    /// Evidence that would refute the advice.
    pub const fn refuted_by(&self) -> &'static str {
        match self.action {
            Action::Release => "these devices do work within the next half hour",
            Action::FewerDevices(_) => "the idle devices do work",
            Action::SmallerDevice(_) => {
                "a later phase needs more memory or compute, or the job would use more memory if it had it"
            }
            Action::MigSlice(_) => {
                "a later phase needs more, or the rest of the device stays unallocated"
            }
            Action::Spot => "interruptions cost more than the price difference saves",
            Action::LeaveDevice { .. } => "the gang is no faster without it",
            Action::FasterInput => "SM activity stays low with the data in memory",
            Action::UseTensorCores => "the results need FP32 or FP64",
            Action::AddNodes { .. } => {
                "the cloud provider has no capacity, or devices become free before the nodes are ready"
            }
            Action::RemoveNodes(_) => {
                "jobs arrive before nodes can be added again (new arrivals are not forecast)"
            }
        }
    }

    /// The command; `None` where the change is in the job's own code or manifest.
    pub fn command(&self) -> Option<String> {
        let key = &self.job.key;
        let scale = |kind: &str| {
            let (namespace, name) = (&key.namespace, &key.name);
            format!("kubectl -n {namespace} scale {kind}/{name} --replicas=0")
        };
        match (&self.action, self.job.kind.as_str()) {
            (Action::AddNodes { nodes, .. }, _) => {
                Some(format!("stokehold what-if 'nodes {} +{nodes}'", key.name))
            }
            (Action::RemoveNodes(nodes), _) => {
                let names: Vec<&str> = nodes.iter().map(Name::as_str).collect();
                (names.len() <= NODES_IN_COMMAND)
                    .then(|| format!("stokehold plan cordon {}", names.join(" ")))
            }
            (Action::Release, "Deployment") => Some(scale("deployment")),
            (Action::Release, "StatefulSet") => Some(scale("statefulset")),
            (Action::Release, "Pod") => Some(format!(
                "kubectl -n {} delete pod {}",
                key.namespace, key.name
            )),
            (Action::Release, _) => Some(format!("stokehold plan hold {key}")),
            (Action::LeaveDevice { device, pod }, _) => {
                let (node, namespace, name) = (node_of(device), &pod.namespace, &pod.name);
                Some(format!(
                    "kubectl cordon {node} && kubectl -n {namespace} delete pod {name}"
                ))
            }
            _ => None,
        }
    }
}

/// The node of a device id.
fn node_of(device: &str) -> &str {
    device.rsplit_once('/').map_or(device, |(node, _)| node)
}

/// The billing of these, taken from the first, when all are reserved or owned.
pub fn committed(billings: impl Iterator<Item = Option<Billing>>) -> Option<Billing> {
    let mut first = None;
    for billing in billings {
        let billing = billing.filter(|billing| billing.is_committed())?;
        first = first.or(Some(billing));
    }
    first
}

/// A rate per month of [`MONTH_HOURS`].
pub fn a_month(rate: Money) -> Money {
    rate.times(MONTH_HOURS.unsigned_abs())
}

/// All advice, highest savings first; then unknown savings, by cost of the devices.
pub fn advise(fleet: &Fleet, burn: &SpendRates, profiles: &Profiles) -> Vec<Advice> {
    let mut all = Vec::new();
    let offers = LazyCell::new(|| MoveOffers::of(fleet, burn));
    for job in fleet.jobs.iter() {
        if job.state != JobState::Running {
            continue;
        }
        let Some(profile) = profiles.get(&job.id) else {
            continue;
        };
        about(job, profile, fleet, burn, &offers, &mut all);
    }
    for finding in fleet.findings.iter() {
        all.extend(slow_device(finding, fleet, burn, profiles));
    }
    for advice in &mut all {
        if let Some(job) = fleet.job(&advice.job) {
            advice.pay(job, fleet);
        }
    }
    all.small_sort_by(|a, b| {
        (b.saves.cmp(&a.saves))
            .then_with(|| b.costs.cmp(&a.costs))
            .then_with(|| a.job.cmp(&b.job))
            .then_with(|| a.action.code().cmp(b.action.code()))
    });
    all
}

/// True for a serving workload whose devices wait: it has no data loader, so they wait for requests, which is no bottleneck.
pub fn waits_for_requests(job: &Job, bound: Bottleneck) -> bool {
    bound == Bottleneck::Input && serves(job)
}

/// True for a serving workload: a model server, or an object whose pods serve.
fn serves(job: &Job) -> bool {
    job.serving.is_some() || job.is_service() || job.id.kind.as_str() == "StatefulSet"
}

/// What a job's devices cost an hour; `None` where some have no price, or where it holds slices as well: then one device's part is not known.
fn costs_of(job: &Job, burn: &SpendRates) -> Option<Money> {
    let whole = job.places.iter().all(|place| place.slice.is_none());
    let of_job = |group: &&PriceGroup| {
        Some(&group.class) == job.class.as_ref() && job.pools.contains(&group.pool)
    };
    let priced = burn
        .prices
        .iter()
        .filter(of_job)
        .all(|group| group.price.is_some());
    let (spend, _) = burn.jobs.get(&job.id)?;
    (whole && priced).then_some(spend.rate)
}

/// Adds the advice for one job from its profile.
fn about(
    job: &Job,
    profile: &JobProfile,
    fleet: &Fleet,
    burn: &SpendRates,
    offers: &LazyCell<MoveOffers, impl FnOnce() -> MoveOffers>,
    all: &mut Vec<Advice>,
) {
    let bound = match profile.verdict {
        Ok(bound) => Some(bound),
        // What bounded it has stopped: of its devices that did nothing all along, that is known all the same.
        Err(NotJudged::Stopped) if !job.is_gang() => None,
        Err(_) => return,
    };
    let evidence = profile.evidence;
    let costs = costs_of(job, burn);
    let advice = |action: Action, saves: Option<Money>, certainty: Certainty| Advice {
        job: job.id.clone(),
        team: job.team.clone(),
        bound,
        action,
        devices: profile.devices,
        class: job.class.clone(),
        evidence: Some(evidence),
        costs,
        saves,
        commitment: None,
        certainty,
    };
    match bound {
        Some(Bottleneck::Idle) => {
            let sure = if profile.known >= NEARLY_ALL && evidence.sm.is_some() {
                Certainty::High
            } else {
                Certainty::Medium
            };
            all.push(advice(Action::Release, costs, sure));
            return;
        }
        Some(Bottleneck::Input | Bottleneck::Compute) if serves(job) => {}
        Some(Bottleneck::Input) => all.push(advice(Action::FasterInput, None, Certainty::Medium)),
        Some(Bottleneck::Compute) => {
            all.push(advice(Action::UseTensorCores, None, Certainty::Medium));
        }
        Some(
            Bottleneck::Tensor | Bottleneck::Memory | Bottleneck::Communication | Bottleneck::Mixed,
        )
        | None => {}
    }
    // The devices of a pod that begins are idle, and a service that lacks capacity needs them.
    let idle = match is_short(job) || job.pods.iter().any(|pod| !pod.seen.ready) {
        true => 0,
        false => evidence.idle_devices,
    };
    if f64::from(idle) >= FEW_IDLE * f64::from(profile.devices)
        && idle > 0
        && idle < profile.devices
    {
        let saves = costs.map(|costs| costs.share(u64::from(idle), u64::from(profile.devices)));
        all.push(advice(Action::FewerDevices(idle), saves, Certainty::Medium));
        return;
    }
    // Of the one there is nothing to improve, and of the other it is not known what fits.
    if matches!(bound, Some(Bottleneck::Tensor) | None) {
        return;
    }
    if let Some((action, saves)) = smaller(job, profile, costs, fleet, burn, offers) {
        all.push(advice(action, Some(saves), Certainty::Medium));
    } else if let Some(saves) = spot(job, profile, costs, fleet, burn) {
        all.push(advice(Action::Spot, Some(saves), Certainty::Medium));
    }
}

/// True for a service that lacks capacity, by its servers.
fn is_short(job: &Job) -> bool {
    let mut served = job.serving.iter().flat_map(|serving| &*serving.served);
    served.any(|one| one.saturation().next().is_some())
}

/// Hourly savings of a job on spot devices of its class, if it saves checkpoints and is not a gang.
fn spot(
    job: &Job,
    profile: &JobProfile,
    costs: Option<Money>,
    fleet: &Fleet,
    burn: &SpendRates,
) -> Option<Money> {
    job.last_checkpoint?;
    let own_rate = costs?.share(1, u64::from(profile.devices.max(1)));
    let on_demand = job.places.iter().all(|place| {
        let node = fleet.node(&place.node);
        node.is_some_and(|node| node.billing == Some(Billing::OnDemand))
    });
    if job.is_gang() || !on_demand {
        return None;
    }
    let of_class = |group: &&PriceGroup| {
        group.billing == Some(Billing::Spot) && Some(&group.class) == job.class.as_ref()
    };
    let rates = burn.prices.iter().filter(of_class);
    let rate = rates
        .filter_map(|group| Some(Money::of(group.price.as_ref()?)))
        .min()?;
    let less = own_rate.less(rate);
    (less.all > Rate::ZERO).then(|| less.times(u64::from(profile.devices)))
}

/// The advice for a straggler that slows its gang.
fn slow_device(
    finding: &Finding,
    fleet: &Fleet,
    burn: &SpendRates,
    profiles: &Profiles,
) -> Option<Advice> {
    if finding.code.as_str() != "straggler" || finding.subject.kind != "Device" {
        return None;
    }
    let device = &finding.subject.key.name;
    let holder = fleet.device_of(device)?.1.holder.as_ref()?;
    let job = fleet.job(&holder.job)?;
    let profile = profiles.get(&job.id);
    Some(Advice {
        job: job.id.clone(),
        team: job.team.clone(),
        bound: profile.and_then(|profile| profile.verdict.ok()),
        action: Action::LeaveDevice {
            device: device.clone(),
            pod: holder.key().clone(),
        },
        devices: 1,
        class: job.class.clone(),
        evidence: profile.map(|profile| profile.evidence),
        costs: costs_of(job, burn),
        saves: None,
        commitment: None,
        certainty: Certainty::Medium,
    })
}

/// The time window of every advice.
pub const WINDOW: Age = profile::WINDOW;

#[cfg(test)]
mod tests;
