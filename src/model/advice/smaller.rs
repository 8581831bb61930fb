//! The cheapest device or MIG slice on which a job fits, by its measured use.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::base::Name;
use crate::cost::{Money, PriceGroup, SpendRates};
use crate::fleet::fleet::Fleet;
use crate::fleet::job::Job;
use crate::fleet::node::Billing;
use crate::fleet::profile::{Evidence, JobProfile};
use crate::fleet::rules::accelerator::{Accelerator, Catalog};

use super::Action;

/// What a job needs may fill this much of a smaller device, 0 to 1.
pub const ROOM: f64 = 0.8;

/// More than this over its links, bytes a second, and a device without links does not do.
const NEEDS_LINKS: f64 = 1e9;

/// Classes whose devices can be cut into seven compute and eight memory slices; NVIDIA's MIG guide.
const MIG: &[&str] = &[
    "A100",
    "A100-40GB",
    "A100-PCIe",
    "A800",
    "H100",
    "H100-NVL",
    "H100-PCIe",
    "H800",
    "H200",
    "H200-NVL",
    "GH200",
    "B200",
];

/// Compute slices of seven and memory slices of eight of the profiles that a job may move to.
const MIG_SLICES: [(u32, u32); 3] = [(1, 1), (2, 2), (3, 4)];

/// What nodes of the fleet offer to a job that moves.
#[derive(Default)]
pub(super) struct MoveOffers {
    /// Pools with devices that are not cut into slices, by pool and class.
    whole: FxHashSet<(Name, Name)>,
    /// Pools with devices that are.
    cut: FxHashSet<(Name, Name)>,
    /// The cheapest hourly rate of a slice, by class and profile.
    slices: FxHashMap<(Name, Name), Money>,
}

impl MoveOffers {
    /// What this fleet offers at these prices.
    pub(super) fn of(fleet: &Fleet, spend_rates: &SpendRates) -> Self {
        let mut offers = Self::default();
        for (node, device) in fleet.devices() {
            let pool = (node.pool.clone(), device.class.clone());
            if device.slices.is_empty() {
                offers.whole.insert(pool);
                continue;
            }
            offers.cut.insert(pool);
            let of_device = |group: &&PriceGroup| {
                group.pool == node.pool
                    && group.class == device.class
                    && group.billing == node.billing
                    && !is_spot(group)
            };
            let groups = spend_rates.prices.iter().filter(of_device);
            let rates = groups.filter_map(|group| Some(Money::of(group.price.as_ref()?)));
            let Some(rate) = rates.min() else { continue };
            for slice in &device.slices {
                let Some(((profile, _), share)) = slice.name.rsplit_once('-').zip(slice.share)
                else {
                    continue;
                };
                let key = (device.class.clone(), Name::new(profile));
                let rate = rate.each(|rate| share.of(rate));
                let known = offers.slices.entry(key).or_insert(rate);
                *known = rate.min(*known);
            }
        }
        offers
    }
}

fn is_spot(group: &PriceGroup) -> bool {
    group.billing == Some(Billing::Spot)
}

/// The cheapest device or slice that the job fits on, and its saving an hour. `None` where the job's need is unknown: a model
/// server takes all free memory.
pub(super) fn smaller(
    job: &Job,
    profile: &JobProfile,
    costs: Option<Money>,
    fleet: &Fleet,
    burn: &SpendRates,
    offers: &MoveOffers,
) -> Option<(Action, Money)> {
    if job.serving.is_some() {
        return None;
    }
    let devices = u64::from(profile.devices);
    let own_rate = costs?.share(1, devices.max(1));
    let catalog = &fleet.policy.catalog;
    let own = catalog.of_class(job.class.as_deref()?)?;
    let memory = memory_gib(job, fleet).or(own.memory_gib)?;
    let needs = DeviceNeeds::of(&profile.evidence, memory)?;
    let mut best: Option<(Action, Money)> = None;
    let mut offer = |action: Action, rate: Money| {
        if rate.all < own_rate.all && best.as_ref().is_none_or(|(_, known)| rate < *known) {
            best = Some((action, rate));
        }
    };
    for group in &burn.prices {
        // A device that is cut into slices is not to be had as a whole.
        let pool = (group.pool.clone(), group.class.clone());
        if offers.cut.contains(&pool) && !offers.whole.contains(&pool) {
            continue;
        }
        let other = fitting(group, own, &needs, profile, catalog);
        if let Some((class, rate)) = other.filter(|(class, _)| Some(class) != job.class.as_ref()) {
            offer(Action::SmallerDevice(class), rate);
        }
    }
    if devices == 1 && MIG.contains(&own.class.as_str()) {
        for (compute, parts) in MIG_SLICES {
            let (by_compute, by_memory) = (f64::from(compute) / 7.0, f64::from(parts) / 8.0);
            if needs.memory_gib <= ROOM * memory * by_memory
                && needs.sm <= ROOM * by_compute
                && needs.dram <= ROOM * by_memory
            {
                let gib = (memory * by_memory).round();
                let name = Name::from(format!("{compute}g.{gib}gb"));
                let offered = offers.slices.get(&(own.class.clone(), name.clone()));
                // Without a node that offers it: a device of the job's own pool is cut. A slice takes its part of the compute
                // slices or of the memory slices, the larger: of `3g.40gb`, two fill a device.
                let cut = own_rate.share(u64::from((compute * 8).max(parts * 7)), 56);
                offer(Action::MigSlice(name), offered.copied().unwrap_or(cut));
                break;
            }
        }
    }
    let (action, rate) = best?;
    let less = own_rate.less(rate);
    Some((action, less.times(devices)))
}

/// The memory size that a device of the job reports, GiB, rounded up as vendors name it.
fn memory_gib(job: &Job, fleet: &Fleet) -> Option<f64> {
    let place = job.places.first()?;
    let device = fleet.node(&place.node)?.device(place.device)?;
    device
        .memory()
        .1
        .map(|bytes| (bytes / 1_073_741_824.0).ceil())
}

/// What a job needs of a device: memory and compute by the 95th percentile, bandwidth by the mean.
struct DeviceNeeds {
    memory_gib: f64,
    /// Share of its own device's compute and memory bandwidth.
    sm: f64,
    dram: f64,
}

impl DeviceNeeds {
    /// `None` where a value is not known; the job's own devices have `memory` GiB.
    fn of(evidence: &Evidence, memory: f64) -> Option<Self> {
        Some(Self {
            memory_gib: evidence.memory_p95? * memory,
            sm: evidence.sm_p95?,
            dram: evidence.dram?,
        })
    }
}

/// The class and price of a group of devices that the job fits on.
fn fitting(
    group: &PriceGroup,
    own: &Accelerator,
    needs: &DeviceNeeds,
    profile: &JobProfile,
    catalog: &Catalog,
) -> Option<(Name, Money)> {
    let rate = Money::of(group.price.as_ref()?);
    // A spot price against another's is two changes at once.
    if is_spot(group) {
        return None;
    }
    let other = catalog.of_class(&group.class)?;
    let linked = profile.devices < 2
        || profile.evidence.link.is_some_and(|link| link < NEEDS_LINKS)
        || other.link_gb_s.is_some();
    let fits = other.vendor == own.vendor
        && linked
        && needs.memory_gib <= ROOM * other.memory_gib?
        && needs.sm * own.bf16_tflops? <= ROOM * other.bf16_tflops?
        && needs.dram * own.memory_tb_s? <= ROOM * other.memory_tb_s?;
    fits.then(|| (group.class.clone(), rate))
}
