//! Rows of `devices`: one for each device, and one for each slice of a partitioned or shared device.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use model::base::DeviceAmount;
use model::fleet::device::{Attribution, Device, Health, Pod, Slice};
use model::fleet::idle::IdleSince;
use model::fleet::job::Job;
use model::fleet::node::Node;
use model::fleet::signal::{Signal, Signals};

use crate::{Facts, non_empty};

/// One device, or one slice of a device. Device counts use only the rows without a slice.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct DeviceRow<'a> {
    /// `NODE/gpu3`; a slice adds `/SLICE`.
    pub id: Cow<'a, str>,
    /// The node that it is in.
    pub node: &'a str,
    /// Index on its node, from 0.
    pub index: u32,
    /// The vendor's unique ID, `GPU-…`.
    pub uuid: Option<&'a str>,
    /// Serial number of the board.
    pub serial: Option<&'a str>,
    /// PCI bus address, `0000:17:00.0`.
    pub pci: Option<&'a str>,
    /// Vendor of the device.
    #[schemars(with = "model::fleet::accelerator::Vendor")]
    pub vendor: &'static str,
    /// Product name, `NVIDIA H100 80GB HBM3`.
    pub model: Option<&'a str>,
    /// Short name of the class, `H100`.
    pub class: &'a str,
    /// The pool of its node.
    pub pool: &'a str,
    /// Slice; null in the row of the device itself. Count devices by these rows.
    pub slice: Option<&'a str>,
    /// Its part of the device, 0 to 1: 1 for the device itself. Null where the part of a slice is not known.
    #[schemars(range(max = 1))]
    pub share: Option<DeviceAmount>,
    /// Its allocated part, 0 to 1; null where the part of a slice is not known. The rows of whole devices add up to the pool.
    #[schemars(range(max = 1))]
    pub allocated: Option<DeviceAmount>,
    /// Namespace of the pod that it is allocated to. A shared device shows the first of its pods, as in the counts.
    pub namespace: Option<&'a str>,
    /// Name of that pod.
    pub pod: Option<&'a str>,
    /// Job of that pod.
    pub job: Option<&'a str>,
    /// Queue of that job.
    pub queue: Option<&'a str>,
    /// Team of that job.
    pub team: Option<&'a str>,
    /// The rule that determined the team.
    #[schemars(with = "Option<model::fleet::device::TeamSource>")]
    pub team_source: Option<&'static str>,
    /// How the pod was determined; `counted` is a guess.
    #[schemars(with = "Attribution")]
    pub attribution: &'static str,
    /// Its health; `unknown` where nothing says so.
    #[schemars(with = "Health")]
    pub health: &'static str,
    /// Utilization, 0 to 1: its own, or the mean of its slices.
    #[serde(rename = "util_ratio")]
    #[schemars(range(min = 0, max = 1))]
    pub util: Option<f64>,
    /// How long that pod has held it, seconds.
    pub held_seconds: Option<u64>,
    /// How long the device is idle, seconds; null where it is not, and for a slice.
    pub idle_seconds: Option<u64>,
    /// True where it may be idle for longer: it was idle at the first reading that is known.
    pub idle_at_least: Option<bool>,
    /// Age of its readings, seconds.
    pub age_seconds: Option<u64>,
    /// Its readings by canonical name; a signal that is not there is unknown.
    #[serde(serialize_with = "by_name")]
    #[schemars(schema_with = "readings")]
    pub signals: Cow<'a, Signals>,
}

/// The readings that a device may have; those of model servers are in rows of services.
fn readings(_: &mut SchemaGenerator) -> Schema {
    let own = Signal::ALL.iter().filter(|signal| !signal.is_of_a_server());
    let each = own.map(|signal| {
        let reading = json_schema!({ "type": "number", "description": signal.meaning() });
        (signal.name().to_owned(), reading.to_value())
    });
    let each: serde_json::Map<String, serde_json::Value> = each.collect();
    json_schema!({ "type": "object", "properties": each, "additionalProperties": false })
}

/// Serializes the readings as a map by canonical name.
fn by_name<S: Serializer>(signals: &Signals, out: S) -> Result<S::Ok, S::Error> {
    let mut map = out.serialize_map(Some(signals.len()))?;
    for (signal, value) in signals.iter() {
        map.serialize_entry(signal.name(), &value)?;
    }
    map.end()
}

/// The row of a device itself.
pub fn row<'a>(facts: &Facts, node: &'a Node, device: &'a Device) -> DeviceRow<'a> {
    let idle = device.idle();
    DeviceRow {
        idle_seconds: idle.map(|idle| facts.now.since(idle.since).seconds()),
        idle_at_least: idle.map(|idle| idle.at_least),
        ..bare(facts, node, device, facts.first_holder(device))
    }
}

/// The row of a slice of a device.
pub fn slice_row<'a>(
    facts: &Facts,
    node: &'a Node,
    device: &'a Device,
    slice: &'a Slice,
) -> DeviceRow<'a> {
    let holder = slice.holder.as_ref().map(|pod| (pod, slice.attribution));
    let of_holder = is_of_holder(device, slice);
    DeviceRow {
        id: Cow::Owned(format!("{}/{}", device.id, slice.name)),
        slice: Some(&slice.name),
        share: slice.share,
        allocated: match slice.holder {
            Some(_) => slice.share,
            None => Some(DeviceAmount::ZERO),
        },
        util: slice.signals.get(Signal::Util).filter(|_| of_holder),
        signals: match of_holder {
            true => Cow::Borrowed(&slice.signals),
            false => Cow::Owned(without_work(&slice.signals)),
        },
        ..bare(facts, node, device, holder)
    }
}

/// Since when all idle devices of a job are idle; `None` if none is. As in findings, a shared device is its first pod's.
pub fn job_idle_since(facts: &Facts, job: &Job) -> Option<IdleSince> {
    let places = job.places.iter();
    let devices = places.filter_map(|place| facts.fleet.node(&place.node)?.device(place.device));
    let own = devices.filter(|device| {
        let first = device.first_holder();
        first.is_some_and(|(pod, _)| pod.job == job.id)
    });
    let all = own.filter_map(Device::idle);
    all.max_by_key(|idle| (idle.since, !idle.at_least))
}

/// The fault or warning of a device; without either, the name of its health.
pub fn health_words(device: &Device) -> &str {
    match &device.health {
        Health::Fault(why) | Health::Warn(why) => why,
        Health::Ok | Health::Unknown => device.health.name(),
    }
}

/// The row of a device without its idle time; a slice replaces its id, share and readings. `holder` is the pod that is shown.
fn bare<'a>(
    facts: &Facts,
    node: &'a Node,
    device: &'a Device,
    holder: Option<(&'a std::sync::Arc<Pod>, Attribution)>,
) -> DeviceRow<'a> {
    let (pod, attribution) = holder.unzip();
    let pod = pod.map(|pod| &**pod);
    // Readings from before the oldest allocation belong to another pod.
    let of_holder = !device.is_read_before_held();
    DeviceRow {
        id: Cow::Borrowed(device.id.as_str()),
        node: node.name(),
        index: device.index,
        uuid: device.uuid.as_deref(),
        serial: device.serial.as_deref(),
        pci: device.pci.as_deref(),
        vendor: device.vendor.name(),
        model: non_empty(&device.model),
        class: &device.class,
        pool: &node.pool,
        slice: None,
        share: Some(DeviceAmount::ONE),
        allocated: (!device.has_unknown_slices()).then(|| facts.held_of(device)),
        namespace: pod.map(|pod| pod.key().namespace.as_str()),
        pod: pod.map(|pod| pod.key().name.as_str()),
        job: pod.map(|pod| pod.job.key.name.as_str()),
        queue: pod.and_then(|pod| pod.queue.as_deref()),
        team: pod.map(|pod| pod.team.as_str()),
        team_source: pod.map(|pod| pod.team_source.name()),
        attribution: attribution.unwrap_or(Attribution::None).name(),
        health: device.health.name(),
        util: device.util().filter(|_| of_holder),
        held_seconds: pod.map(|pod| facts.now.since(pod.held_since()).seconds()),
        idle_seconds: None,
        idle_at_least: None,
        age_seconds: device.age(facts.now).map(|age| age.seconds()),
        signals: match of_holder {
            true => Cow::Borrowed(&device.signals),
            false => Cow::Owned(without_work(&device.signals)),
        },
    }
}

/// True if a slice is not allocated, or its device was read since the allocation.
pub fn is_of_holder(device: &Device, slice: &Slice) -> bool {
    let holder = slice.holder.as_ref();
    holder.is_none_or(|pod| device.read_at >= Some(pod.held_since()))
}

/// True for a reading that depends on the work on the device: one that is older than the allocation says nothing of its holder. All
/// others (temperatures, power, limits, errors) are the device's own.
pub const fn is_of_work(signal: Signal) -> bool {
    use Signal::{
        DecoderUtil, DramActive, EncoderUtil, MemClock, MemFree, MemUsed, MemUsedRatio, Nvlink,
        NvlinkRx, NvlinkTx, PcieRx, PcieTx, SmActive, SmClock, SmOccupancy, TensorActive,
        ThrottleReasons, Util,
    };
    signal.is_of_a_server()
        || matches!(
            signal,
            Util | SmActive | SmOccupancy | TensorActive | DramActive | EncoderUtil | DecoderUtil
        )
        || matches!(
            signal,
            MemUsed | MemFree | MemUsedRatio | SmClock | MemClock
        )
        || matches!(
            signal,
            PcieTx | PcieRx | Nvlink | NvlinkTx | NvlinkRx | ThrottleReasons
        )
}

/// The readings that do not depend on work.
fn without_work(signals: &Signals) -> Signals {
    let all = signals.iter();
    all.filter(|(signal, _)| !is_of_work(*signal)).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn utilization_read_before_the_allocation_is_unknown_and_temperature_and_errors_are_not() {
        let mut facts = crate::sample::facts();
        let fleet = Arc::make_mut(&mut facts.fleet);
        let mut nodes: Vec<Arc<Node>> = fleet.nodes.to_vec();
        let device = &mut Arc::make_mut(&mut nodes[0]).devices[0];
        assert!(device.util().is_some() && device.is_allocated());
        let since = device.held_since().expect("is held");
        device.read_at = Some(since.minus(std::time::Duration::from_secs(10)));
        let errors: Signals = [(Signal::EccUncorrected, 2.0)].into_iter().collect();
        device.signals = device.signals.or(&errors);
        fleet.nodes = nodes.into();
        let node = &facts.fleet.nodes[0];
        let row = row(&facts, node, &node.devices[0]);
        assert_eq!((row.util, row.signals.get(Signal::Util)), (None, None));
        assert!(row.signals.get(Signal::Temp).is_some(), "the device's own");
        assert!(row.signals.get(Signal::EccUncorrected).is_some(), "also");
    }
}
