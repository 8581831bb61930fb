//! Dynamic resource allocation: ResourceSlices, ResourceClaims, their templates, and DeviceClasses, in v1, v1beta2 and
//! v1beta1 (which keeps a device's fields under `basic`, and a request's beside its name).

use model::base::{Name, Names, SmallSort};
use model::fleet::claim::{
    ClaimRequest, ClaimResult, ClaimSeen, ClassSeen, Consumed, DeviceAccess, MOST_RESULTS,
    Published, SliceSeen, TemplateSeen,
};
use model::fleet::observe::{Observation, Table};

use super::Projected;
use super::lenient_json::{List, Map, Maybe, OptionalBool, Quantity, Text, Whole, partial};
use super::meta::Meta;
use super::pod_placement::{NodeSelector, RawTaint, node_terms, taints};
use super::shared_counters::{
    Capacity, CounterConsumption, CounterSet, capacities, counter_amounts,
};

/// Most devices accepted in one slice; the API allows 128, so more are an error.
const MOST_DEVICES: usize = 512;

partial! {
    SliceObject {
        meta: Meta = "metadata",
        spec: SliceSpec = "spec",
    }
}

partial! {
    SliceSpec {
        driver: Text = "driver",
        pool: SlicePool = "pool",
        /// The node of all its devices.
        node: Text = "nodeName",
        /// The nodes of all its devices.
        nodes: Maybe<NodeSelector> = "nodeSelector",
        all_nodes: OptionalBool = "allNodes",
        devices: List<SliceDevice> = "devices",
        /// What counter sets have in all.
        counters: List<CounterSet> = "sharedCounters",
    }
}

partial! {
    SlicePool {
        name: Text = "name",
        generation: Whole = "generation",
        /// Slices in this generation.
        slices: Whole = "resourceSliceCount",
    }
}

partial! {
    SliceDevice {
        name: Text = "name",
        /// Its fields in v1beta1.
        basic: Maybe<DeviceFields> = "basic",
        attributes: Map<Attribute> = "attributes",
        capacity: Map<Capacity> = "capacity",
        /// Counters that it draws from.
        counters: List<CounterConsumption> = "consumesCounters",
        node: Text = "nodeName",
        nodes: Maybe<NodeSelector> = "nodeSelector",
        all_nodes: OptionalBool = "allNodes",
        /// Several claims may share it.
        shared: OptionalBool = "allowMultipleAllocations",
        taints: List<RawTaint> = "taints",
    }
}

partial! {
    DeviceFields {
        attributes: Map<Attribute> = "attributes",
        capacity: Map<Capacity> = "capacity",
        /// Counters that it draws from.
        counters: List<CounterConsumption> = "consumesCounters",
        node: Text = "nodeName",
        nodes: Maybe<NodeSelector> = "nodeSelector",
        all_nodes: OptionalBool = "allNodes",
        /// Several claims may share it.
        shared: OptionalBool = "allowMultipleAllocations",
        taints: List<RawTaint> = "taints",
    }
}

partial! {
    /// An attribute: exactly one of these fields is set.
    Attribute {
        text: Text = "string",
        number: Whole = "int",
        version: Text = "version",
    }
}

impl SliceDevice {
    /// The same, with the fields of v1beta1 in their later place.
    fn fields(&self) -> DeviceFields {
        match &self.basic.0 {
            Some(basic) => basic.clone(),
            None => DeviceFields {
                attributes: self.attributes.clone(),
                capacity: self.capacity.clone(),
                counters: self.counters.clone(),
                node: self.node.clone(),
                nodes: self.nodes.clone(),
                all_nodes: self.all_nodes,
                shared: self.shared,
                taints: self.taints.clone(),
            },
        }
    }
}

/// Attributes with a PCI address.
const PCI: &[&str] = &["pciBusID", "pcieBusID", "pciAddress", "pciAddr"];

/// The part of a qualified name after its domain.
fn plain(name: &str) -> &str {
    name.rsplit_once('/').map_or(name, |(_, name)| name)
}

impl DeviceFields {
    /// The first of these attributes that is present, in any domain.
    fn attribute(&self, wanted: &[&str]) -> Option<&Attribute> {
        wanted.iter().find_map(|wanted| {
            let mut all = self.attributes.iter();
            all.find(|(name, _)| plain(name).eq_ignore_ascii_case(wanted))
                .map(|(_, attribute)| attribute)
        })
    }

    fn text(&self, wanted: &[&str]) -> Option<&str> {
        let attribute = self.attribute(wanted)?;
        attribute.text.get().or_else(|| attribute.version.get())
    }

    fn number(&self, wanted: &[&str]) -> Option<u32> {
        u32::try_from(self.attribute(wanted)?.number.0?).ok()
    }

    fn read(&self, name: &str, names: &mut Names) -> Published {
        let kind = self
            .text(&["type"])
            .unwrap_or_default()
            .to_ascii_lowercase();
        let parent = self.text(&["parentUUID"]);
        let profile = self.text(&["profile", "partitionProfile"]);
        let part = parent.is_some() || kind == "mig" || kind.contains("partition");
        let index = match part {
            true => self.number(&["parentIndex", "parentMinor"]),
            false => self
                .number(&["index", "minor", "cardIndex"])
                .or_else(|| trailing_number(name)),
        };
        let memory = self
            .capacity
            .iter()
            .find(|(name, _)| plain(name) == "memory")
            .and_then(|(_, capacity)| capacity.value.0)
            .map(|milli| milli / 1000)
            .filter(|bytes| *bytes > 0);
        let mut own = |text: Option<&str>| text.map(|text| names.intern(text));
        Published {
            name: own(Some(name)).unwrap_or_default(),
            uuid: own(self.text(&["uuid", "deviceUUID", "serial"])),
            parent: own(parent),
            pci: own(match part {
                // A partition has an address of its own, or that of its device.
                true => self
                    .text(&["parentPciAddr", "parentPciBusID"])
                    .or_else(|| self.text(PCI)),
                false => self.text(PCI),
            }),
            product: own(self.text(&[
                "productName",
                "product",
                "model",
                "modelName",
                "tpuType",
                "acceleratorType",
                "tpuGen",
            ])),
            profile: own(profile.filter(|_| part)),
            version: own(self.text(&["driverVersion"])),
            index,
            part,
            memory,
            counters: {
                let mut sets: Vec<Name> = self
                    .counters
                    .iter()
                    .filter_map(|used| used.set.get())
                    .map(|set| names.intern(set))
                    .collect();
                sets.small_sort();
                sets.dedup();
                sets.into_boxed_slice()
            },
            draws: counter_amounts(
                self.counters.iter().map(|used| (&used.set, &used.counters)),
                names,
            ),
            reach: reach(&self.node, &self.nodes, self.all_nodes, names),
            shared: self.shared.is_set().then(|| {
                let all = self.capacity.iter();
                capacities(all.map(|(name, capacity)| (name, capacity.value)), names)
            }),
            taints: taints(&self.taints, names)
                .into_iter()
                .filter(|taint| !taint.key.is_empty())
                .collect(),
        }
    }
}

/// `gpu-3` and `tpu3` are the third of their kind; a longer number is no index.
fn trailing_number(name: &str) -> Option<u32> {
    let start = name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let digits = &name[start..];
    (digits.len() <= 3).then(|| digits.parse().ok()).flatten()
}

fn reach(
    node: &Text,
    nodes: &Maybe<NodeSelector>,
    all: OptionalBool,
    names: &mut Names,
) -> DeviceAccess {
    if let Some(node) = node.get() {
        return DeviceAccess::Node(names.intern(node));
    }
    if all.is_set() {
        return DeviceAccess::All;
    }
    match &nodes.0 {
        Some(selector) => DeviceAccess::Nodes(node_terms(selector, names)),
        None => DeviceAccess::Unsaid,
    }
}

impl Projected for SliceObject {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn project(&self, _: Table, names: &mut Names) -> Option<Observation> {
        let spec = &self.spec;
        Some(Observation::Slice(Box::new(SliceSeen {
            name: names.intern(self.meta.name.get()?),
            driver: names.intern(&spec.driver),
            pool: names.intern(&spec.pool.name),
            generation: spec.pool.generation.0.unwrap_or(0),
            slices: spec.pool.slices.count().unwrap_or(1).max(1),
            reach: reach(&spec.node, &spec.nodes, spec.all_nodes, names),
            devices: spec
                .devices
                .iter()
                .filter(|device| device.name.get().is_some())
                .take(MOST_DEVICES)
                .map(|device| device.fields().read(&device.name, names))
                .collect(),
            counters: counter_amounts(
                spec.counters.iter().map(|set| (&set.name, &set.counters)),
                names,
            ),
        })))
    }
}

partial! {
    ClaimObject {
        meta: Meta = "metadata",
        spec: ClaimSpec = "spec",
        status: ClaimStatus = "status",
    }
}

partial! {
    ClaimSpec {
        devices: ClaimDevices = "devices",
    }
}

partial! {
    /// `spec.devices` of a claim.
    ClaimDevices {
        requests: List<RawRequest> = "requests",
    }
}

partial! {
    RawRequest {
        name: Text = "name",
        /// The request, from v1beta2 on.
        exactly: Maybe<Exact> = "exactly",
        /// Alternatives, the preferred one first.
        first: List<Exact> = "firstAvailable",
        /// In v1beta1: see [`Exact`].
        class: Text = "deviceClassName",
        /// In v1beta1: see [`Exact`].
        mode: Text = "allocationMode",
        /// In v1beta1: see [`Exact`].
        count: Whole = "count",
        /// In v1beta1: see [`Exact`].
        admin: OptionalBool = "adminAccess",
    }
}

partial! {
    /// Device class, mode and count of one request.
    Exact {
        class: Text = "deviceClassName",
        /// How devices are allocated: `ExactCount` or `All`.
        mode: Text = "allocationMode",
        /// Devices; one when absent.
        count: Whole = "count",
        admin: OptionalBool = "adminAccess",
    }
}

partial! {
    ClaimStatus {
        allocation: Maybe<Allocation> = "allocation",
        /// Consumers that the claim is reserved for.
        reserved: List<Consumer> = "reservedFor",
    }
}

partial! {
    Allocation {
        devices: AllocatedDevices = "devices",
    }
}

partial! {
    AllocatedDevices {
        /// One result per device.
        results: List<RawResult> = "results",
    }
}

partial! {
    RawResult {
        request: Text = "request",
        driver: Text = "driver",
        pool: Text = "pool",
        device: Text = "device",
        admin: OptionalBool = "adminAccess",
        /// Id of its part of a device that several claims share.
        share: Text = "shareID",
        /// How much of its capacities that part takes.
        consumed: Map<Quantity> = "consumedCapacity",
    }
}

partial! {
    /// A consumer that a claim is reserved for.
    Consumer {
        /// API group; empty for pods.
        group: Text = "apiGroup",
        resource: Text = "resource",
        uid: Text = "uid",
    }
}

fn requests(devices: &ClaimDevices, names: &mut Names) -> Box<[ClaimRequest]> {
    let read = |request: &RawRequest| {
        let old = Exact {
            class: request.class.clone(),
            mode: request.mode.clone(),
            count: request.count,
            admin: request.admin,
        };
        let exact = request.exactly.0.as_ref().or(request.first.first());
        let exact = exact.unwrap_or(&old);
        let class = exact.class.get()?;
        let all = &*exact.mode == "All";
        Some(ClaimRequest {
            name: names.intern(&request.name),
            class: names.intern(class),
            count: match all {
                true => 1,
                false => exact.count.count().unwrap_or(1).clamp(1, MOST_RESULTS),
            },
            all,
            admin: exact.admin.is_set(),
        })
    };
    devices
        .requests
        .iter()
        .take(MOST_RESULTS as usize)
        .filter_map(read)
        .collect()
}

impl Projected for ClaimObject {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn project(&self, _: Table, names: &mut Names) -> Option<Observation> {
        let key = self.meta.key(names)?;
        let allocation = self.status.allocation.0.as_ref();
        let results = allocation.map(|given| {
            let whole = |result: &&RawResult| {
                result.driver.get().is_some() && result.device.get().is_some()
            };
            given
                .devices
                .results
                .iter()
                .filter(whole)
                .take(MOST_RESULTS as usize)
                .map(|result| ClaimResult {
                    request: names.intern(&result.request),
                    driver: names.intern(&result.driver),
                    pool: names.intern(&result.pool),
                    device: names.intern(&result.device),
                    admin: result.admin.is_set(),
                    consumed: result.share.get().map(|share| Consumed {
                        share: names.intern(share),
                        amounts: capacities(
                            result.consumed.iter().map(|(name, amount)| (name, *amount)),
                            names,
                        ),
                    }),
                })
                .collect()
        });
        let pods = self.status.reserved.iter();
        Some(Observation::Claim(Box::new(ClaimSeen {
            key,
            requests: requests(&self.spec.devices, names),
            results,
            pods: pods
                .filter(|user| user.group.get().is_none() && &*user.resource == "pods")
                .filter_map(|user| user.uid.get())
                .map(Name::new)
                .collect(),
        })))
    }
}

partial! {
    TemplateObject {
        meta: Meta = "metadata",
        spec: TemplateSpec = "spec",
    }
}

partial! {
    TemplateSpec {
        /// The spec of the claims created from it.
        spec: ClaimSpec = "spec",
    }
}

impl Projected for TemplateObject {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn project(&self, _: Table, names: &mut Names) -> Option<Observation> {
        Some(Observation::ClaimTemplate(Box::new(TemplateSeen {
            key: self.meta.key(names)?,
            requests: requests(&self.spec.spec.devices, names),
        })))
    }
}

partial! {
    ClassObject {
        meta: Meta = "metadata",
        spec: ClassSpec = "spec",
    }
}

partial! {
    ClassSpec {
        /// Selectors that its devices must satisfy.
        selectors: List<ClassSelector> = "selectors",
        /// Extended resource that also requests this class.
        extended: Text = "extendedResourceName",
    }
}

partial! {
    ClassSelector {
        cel: Cel = "cel",
    }
}

partial! {
    Cel {
        expression: Text = "expression",
    }
}

impl Projected for ClassObject {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn project(&self, _: Table, names: &mut Names) -> Option<Observation> {
        let texts = || self.spec.selectors.iter().map(|one| &*one.cel.expression);
        Some(Observation::DeviceClass(Box::new(ClassSeen {
            name: names.intern(self.meta.name.get()?),
            driver: texts()
                .find_map(|text| compared(text, "device.driver"))
                .map(|driver| names.intern(driver)),
            parts: texts().any(|text| {
                compared(text, ".type").is_some_and(|kind| {
                    kind.eq_ignore_ascii_case("mig") || kind.contains("partition")
                })
            }),
            extended: self.spec.extended.get().map(|name| names.intern(name)),
        })))
    }
}

/// What `field` is compared with by `==` in an expression.
fn compared<'t>(text: &'t str, field: &str) -> Option<&'t str> {
    let mut rest = text;
    while let Some(at) = rest.find(field) {
        rest = &rest[at + field.len()..];
        let Some(value) = rest.trim_start().strip_prefix("==") else {
            continue;
        };
        let value = value.trim_start();
        let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        let value = &value[1..];
        return value.find(quote).map(|end| &value[..end]);
    }
    None
}
