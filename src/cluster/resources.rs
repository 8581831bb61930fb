//! Resources of nodes and requests of pods: CPU, memory and accelerators.

use std::collections::BTreeMap;

use model::base::{Name, Names};
use model::fleet::claim::ClaimAsk;
use model::fleet::observe::Resources;

use super::accelerators::{SAME_SILICON, counts_devices};
use super::lenient_json::{List, Map, Quantity, Text, Whole, partial};
use super::meta::Meta;
use super::pod_placement::{Affinity, Named, RawToleration, SchedulingGroup};

/// A resource list as the API writes it.
pub type ResourceList = Map<Quantity>;

partial! {
    /// `resources` of a container or pod.
    Asked {
        requests: ResourceList = "requests",
        limits: ResourceList = "limits",
    }
}

partial! {
    /// The part of a container with its requests and ports.
    Container {
        resources: Asked = "resources",
        /// `Always` makes an init container a sidecar.
        restart_policy: Text = "restartPolicy",
        ports: List<Port> = "ports",
        image: Text = "image",
    }
}

partial! {
    /// A port of a container.
    Port {
        name: Text = "name",
        number: Whole = "containerPort",
    }
}

partial! {
    /// The part of a pod's spec (or template) with its requests and placement rules.
    PodShape {
        containers: List<Container> = "containers",
        /// Init containers and sidecars, in order.
        init_containers: List<Container> = "initContainers",
        /// Overhead of the sandbox.
        overhead: ResourceList = "overhead",
        /// Resources of the pod as a whole.
        resources: Asked = "resources",
        priority_class: Text = "priorityClassName",
        /// Resolved priority; in templates it is not.
        priority: Whole = "priority",
        /// Node that it is bound to.
        node: Text = "nodeName",
        node_selector: Map<Text> = "nodeSelector",
        affinity: Affinity = "affinity",
        tolerations: List<RawToleration> = "tolerations",
        claims: List<PodClaim> = "resourceClaims",
        /// Gates that keep the scheduler away.
        gates: List<Named> = "schedulingGates",
        scheduler: Text = "schedulerName",
        /// The gang of the pod, from Kubernetes 1.36.
        scheduling_group: SchedulingGroup = "schedulingGroup",
        /// The gang of the pod, in Kubernetes 1.35.
        workload_ref: Named = "workloadRef",
    }
}

partial! {
    /// A claim that a pod uses, or the claim's template.
    PodClaim {
        claim: Text = "resourceClaimName",
        template: Text = "resourceClaimTemplateName",
        /// Both, before Kubernetes 1.31.
        source: ClaimSource = "source",
    }
}

partial! {
    /// Source of a pod's claim, before Kubernetes 1.31.
    ClaimSource {
        claim: Text = "resourceClaimName",
        template: Text = "resourceClaimTemplateName",
    }
}

impl PodClaim {
    /// The name of the claim that it references.
    pub fn claim(&self) -> Option<&str> {
        self.claim.get().or_else(|| self.source.claim.get())
    }

    fn ask(&self, names: &mut Names) -> Option<ClaimAsk> {
        let template = || self.template.get().or_else(|| self.source.template.get());
        match self.claim() {
            Some(claim) => Some(ClaimAsk::Claim(names.intern(claim))),
            None => Some(ClaimAsk::Template(names.intern(template()?))),
        }
    }
}

partial! {
    Template {
        /// Its labels and annotations.
        meta: Meta = "metadata",
        spec: PodShape = "spec",
    }
}

/// Amounts in thousandths of each resource's unit.
#[derive(Clone, Default, PartialEq, Debug)]
struct MilliAmounts(BTreeMap<Box<str>, i64>);

impl MilliAmounts {
    /// Requests of a container, and its limits where it has no request (the API server fills that in for pods,
    /// but not in templates).
    fn requests_of(asked: &Asked) -> Self {
        let mut out = Self::default();
        for (name, quantity) in asked.limits.iter().chain(asked.requests.iter()) {
            if let Some(milli) = quantity.0 {
                out.0.insert(name.into(), milli.max(0));
            }
        }
        out
    }

    fn add(&mut self, other: &Self) {
        for (name, milli) in &other.0 {
            let sum = self.0.entry(name.clone()).or_default();
            *sum = sum.saturating_add(*milli);
        }
    }

    fn raise_to(&mut self, other: &Self) {
        for (name, milli) in &other.0 {
            let highest = self.0.entry(name.clone()).or_default();
            *highest = (*highest).max(*milli);
        }
    }

    fn into_resources(self, names: &mut Names) -> Resources {
        let mut out = Resources::default();
        let mut devices: Vec<(Name, u32)> = Vec::new();
        for (name, milli) in &self.0 {
            let whole = milli / 1000;
            match &**name {
                "cpu" => out.cpu_milli = *milli,
                "memory" => out.memory_bytes = whole,
                resource if counts_devices(resource) => devices.push((
                    names.intern(resource),
                    u32::try_from(whole.max(0)).unwrap_or(u32::MAX),
                )),
                _ => {}
            }
        }
        out.devices = devices.into_boxed_slice();
        out
    }
}

/// Resources of a node, from `status.capacity` or `status.allocatable`. Of several resources for the same
/// hardware only the coarsest is kept, so that no device counts twice.
pub fn of_node(list: &ResourceList, names: &mut Names) -> Resources {
    let mut amounts = MilliAmounts::default();
    for (name, quantity) in list.iter() {
        if let Some(milli) = quantity.0 {
            amounts.0.insert(name.into(), milli.max(0));
        }
    }
    let mut coarsest = None;
    for resource in SAME_SILICON {
        match coarsest {
            None => {
                coarsest = amounts
                    .0
                    .get(*resource)
                    .filter(|milli| **milli > 0)
                    .map(|_| *resource)
            }
            Some(_) => {
                amounts.0.remove(*resource);
            }
        }
    }
    amounts.into_resources(names)
}

/// Requests of a pod of this shape: the sum of its main containers and sidecars, or the peak of an init container
/// together with the sidecars started before it, plus the overhead.
///
/// Source: Kubernetes' documentation of init and sidecar containers (resource sharing within containers).
pub fn of_pod(shape: &PodShape, names: &mut Names) -> Resources {
    let mut sidecars = MilliAmounts::default();
    let mut start = MilliAmounts::default();
    for container in shape.init_containers.iter() {
        let asked = MilliAmounts::requests_of(&container.resources);
        if &*container.restart_policy == "Always" {
            sidecars.add(&asked);
            start.raise_to(&sidecars);
        } else {
            let mut at_once = sidecars.clone();
            at_once.add(&asked);
            start.raise_to(&at_once);
        }
    }
    let mut all = sidecars;
    for container in shape.containers.iter() {
        all.add(&MilliAmounts::requests_of(&container.resources));
    }
    all.raise_to(&start);
    // Pod-level resources replace the containers' sum, resource by resource.
    all.0.extend(MilliAmounts::requests_of(&shape.resources).0);
    let mut overhead = MilliAmounts::default();
    for (name, quantity) in shape.overhead.iter() {
        overhead
            .0
            .insert(name.into(), quantity.0.unwrap_or(0).max(0));
    }
    all.add(&overhead);
    let mut out = all.into_resources(names);
    let mut asks: BTreeMap<ClaimAsk, u32> = BTreeMap::new();
    for ask in shape.claims.iter().filter_map(|claim| claim.ask(names)) {
        *asks.entry(ask).or_default() += 1;
    }
    out.claims = asks.into_iter().map(once).collect();
    out
}

/// A claim referenced by name is one claim, however many requests reference it.
fn once((ask, count): (ClaimAsk, u32)) -> (ClaimAsk, u32) {
    match ask {
        ClaimAsk::Claim(_) => (ask, count.min(1)),
        ClaimAsk::Template(_) => (ask, count),
    }
}

/// `times` times `one`, saturating.
pub fn times(one: &Resources, times: u32) -> Resources {
    Resources {
        cpu_milli: one.cpu_milli.saturating_mul(i64::from(times)),
        memory_bytes: one.memory_bytes.saturating_mul(i64::from(times)),
        devices: one
            .devices
            .iter()
            .map(|(name, count)| (name.clone(), count.saturating_mul(times)))
            .collect(),
        part: one.part,
        claims: one
            .claims
            .iter()
            .map(|(ask, count)| once((ask.clone(), count.saturating_mul(times))))
            .collect(),
    }
}

pub fn plus(a: &Resources, b: &Resources) -> Resources {
    let mut devices: BTreeMap<Name, u32> = BTreeMap::new();
    for (name, count) in a.devices.iter().chain(b.devices.iter()) {
        let sum = devices.entry(name.clone()).or_default();
        *sum = sum.saturating_add(*count);
    }
    let mut claims: BTreeMap<ClaimAsk, u32> = BTreeMap::new();
    for (ask, count) in a.claims.iter().chain(b.claims.iter()) {
        let sum = claims.entry(ask.clone()).or_default();
        *sum = sum.saturating_add(*count);
    }
    Resources {
        cpu_milli: a.cpu_milli.saturating_add(b.cpu_milli),
        memory_bytes: a.memory_bytes.saturating_add(b.memory_bytes),
        devices: devices.into_iter().collect(),
        part: a.part.filter(|_| a.part == b.part),
        claims: claims.into_iter().map(once).collect(),
    }
}
