//! KAI: PodGroups and Queues of `scheduling.run.ai`.

use model::base::{Name, Names};
use model::fleet::admission::GroupSeen;
use model::fleet::observe::{DevicePart, Observation, Reserved, Resources, Table};
use model::fleet::queue::{
    DEVICES, Measure, PreemptionPolicy, Queue, QueueKey, QueueKind, QueueSystem, Quota, Reclaim,
    Within,
};

use super::quota::{amount, measure};
use crate::Projected;
use crate::lenient_json::{List, Map, Maybe, Real, Text, Whole, partial};
use crate::meta::Meta;
use crate::pod_placement::topology_constraint;
use crate::resources::{PodShape, ResourceList, of_pod};

partial! {
    /// A PodGroup of KAI's.
    KaiPodGroupObject {
        meta: Meta = "metadata",
        spec: KaiPodGroupSpec = "spec",
        status: KaiPodGroupStatus = "status",
    }
}

partial! {
    KaiPodGroupSpec {
        /// Pods without which it does nothing.
        min: Whole = "minMember",
        /// Parts that are gangs of their own.
        parts: List<SubGroup> = "subGroups",
        queue: Text = "queue",
        priority_class: Text = "priorityClassName",
        /// May be preempted or not: `preemptible` or `non-preemptible`.
        preemptibility: Text = "preemptibility",
        topology: TopologyConstraint = "topologyConstraint",
    }
}

partial! {
    /// A part of a PodGroup.
    SubGroup {
        /// Pods without which it does nothing.
        min: Whole = "minMember",
    }
}

partial! {
    TopologyConstraint {
        /// The level that all pods must share.
        required: Text = "requiredTopologyLevel",
        /// The level that they should share.
        preferred: Text = "preferredTopologyLevel",
    }
}

partial! {
    KaiPodGroupStatus {
        /// Why it cannot be scheduled, pool by pool; the last is the latest.
        conditions: List<SchedulingCondition> = "schedulingConditions",
        running: Whole = "running",
    }
}

partial! {
    /// An entry of `schedulingConditions`.
    SchedulingCondition {
        kind: Text = "type",
        /// `True` or `False`; `True` when absent.
        status: Text = "status",
        /// Reason, in older versions.
        reason: Text = "reason",
        /// A sentence, in older versions.
        message: Text = "message",
        reasons: List<Explanation> = "reasons",
        /// Time of the last transition.
        since: Text = "lastTransitionTime",
    }
}

partial! {
    /// An entry of `reasons`.
    Explanation {
        reason: Text = "reason",
        message: Text = "message",
    }
}

/// The resource whose devices KAI shares out.
const SHARED: &str = "nvidia.com/gpu";

/// More devices for one pod are a mistake.
const MOST_SHARED: u32 = 64;

/// How many devices a pod of this scheduler asks to share, and which part of each; `None` for a pod that asks for no part.
///
/// Source: KAI's documentation of GPU sharing: annotations `gpu-fraction`, `gpu-memory` (MiB) and `gpu-fraction-num-devices`.
fn fraction(scheduler: &str, annotations: &Map<Text>) -> Option<(u32, DevicePart)> {
    if matches!(scheduler, "" | "default-scheduler") {
        return None;
    }
    let read = |key: &str| annotations.get(key).and_then(|text| text.get());
    let devices = read("gpu-fraction-num-devices").and_then(|text| text.trim().parse().ok());
    let devices = devices.filter(|count| (1..=MOST_SHARED).contains(count));
    let part = match read("gpu-fraction").map(|text| text.trim().parse::<f64>()) {
        Some(Ok(part)) if part > 0.0 && part <= 1.0 => {
            DevicePart::Milli(((part * 1000.0).round() as u32).max(1))
        }
        _ => {
            let mib = read("gpu-memory")?.trim().parse().ok()?;
            (mib > 0).then_some(DevicePart::MemoryMib(mib))?
        }
    };
    Some((devices.unwrap_or(1), part))
}

/// Requests of a pod of this shape with these annotations: with a scheduler that shares devices, annotations request parts of them.
pub fn of_annotated_pod(shape: &PodShape, annotations: &Map<Text>, names: &mut Names) -> Resources {
    let mut out = of_pod(shape, names);
    if out.device_count() == 0
        && let Some((devices, part)) = fraction(&shape.scheduler, annotations)
    {
        out.devices = Box::from([(names.intern(SHARED), devices)]);
        out.part = Some(part);
    }
    out
}

/// What a placeholder of KAI's holds its device for; `None` for any other pod. Its namespace and name are settings of KAI's: it is
/// known by its labels.
pub fn reserved(meta: &Meta, requests: &Resources, names: &mut Names) -> Option<Reserved> {
    const GROUP: &str = "runai-gpu-group";
    const APPS: [&str; 2] = ["kai-resource-reservation", "runai-reservation"];
    let label = |key: &str| meta.labels.get(key).and_then(|text| text.get());
    let is_placeholder = label("app").is_some_and(|app| APPS.contains(&app));
    if requests.part.is_some() || requests.device_count() == 0 {
        return None;
    }
    let group = label(GROUP).or_else(|| is_placeholder.then_some(""))?;
    let device = meta.annotations.get("run.ai/reserve_for_gpu_index");
    Some(Reserved {
        group: names.intern(group),
        device: device
            .and_then(|text| text.get())
            .map(|device| names.intern(device)),
    })
}

impl Projected for KaiPodGroupObject {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn project(&self, table: Table, names: &mut Names) -> Option<Observation> {
        let key = self.meta.key(names)?;
        let kind = names.intern("PodGroup");
        let mut seen = GroupSeen::unknown(table, QueueSystem::Kai, kind, key);
        let spec = &self.spec;
        seen.uid = names.intern(&self.meta.uid);
        seen.owner = self.meta.main_owner(names);
        seen.labels = self.meta.labels(names);
        seen.annotations = self.meta.annotations(names);
        seen.created = self.meta.created();
        seen.deleted = self.meta.deleted.moment();
        seen.queue_name = spec.queue.get().map(|queue| names.intern(queue));
        let parts = spec.parts.iter().filter_map(|part| part.min.count());
        seen.gang_min = spec.min.count().or_else(|| {
            let all = parts.fold(0, u32::saturating_add);
            (all > 0).then_some(all)
        });
        seen.priority_class = spec.priority_class.get().map(|class| names.intern(class));
        seen.preemptible = match &*spec.preemptibility {
            "preemptible" => Some(true),
            "non-preemptible" => Some(false),
            _ => None,
        };
        let topology = &spec.topology;
        let (required, preferred) = (topology.required.get(), topology.preferred.get());
        seen.topology = topology_constraint(required, preferred, false, None, names);
        let running = self.status.running.count().unwrap_or(0) > 0;
        let latest = self
            .status
            .conditions
            .iter()
            .filter(|condition| &*condition.status != "False")
            .max_by_key(|condition| condition.since.moment());
        match latest {
            Some(condition) if !running => {
                let (reason, message) = match condition.reasons.first() {
                    Some(first) => (&first.reason, &first.message),
                    None => (&condition.reason, &condition.message),
                };
                let message = message.get().unwrap_or(&condition.message);
                seen.pending = Some((names.intern(reason), Name::new(message)));
            }
            _ => {}
        }
        Some(Observation::Group(Box::new(seen)))
    }
}

partial! {
    /// A Queue of KAI's.
    KaiQueueObject {
        meta: Meta = "metadata",
        spec: KaiQueueSpec = "spec",
        status: KaiQueueStatus = "status",
    }
}

partial! {
    KaiQueueSpec {
        parent: Text = "parentQueue",
        /// Priority among queues; 100 when absent.
        priority: Whole = "priority",
        /// How long workloads run before others of the queue preempt them.
        preempt_after: Text = "preemptMinRuntime",
        /// How long before others of other queues do.
        reclaim_after: Text = "reclaimMinRuntime",
        /// Quotas; unlimited when absent.
        resources: Maybe<KaiResources> = "resources",
    }
}

partial! {
    KaiResources {
        gpu: KaiQuota = "gpu",
        /// Thousandths of a core.
        cpu: KaiQuota = "cpu",
        /// Megabytes of 10^6 bytes.
        memory: KaiQuota = "memory",
    }
}

partial! {
    /// The quota of one resource; `-1` means unlimited.
    KaiQuota {
        quota: Real = "quota",
        /// Hard limit; the quota itself when absent or 0.
        limit: Real = "limit",
        /// Weight when resources over quota are shared out.
        weight: Real = "overQuotaWeight",
    }
}

partial! {
    KaiQueueStatus {
        /// Resources allocated to its workloads.
        allocated: Maybe<ResourceList> = "allocated",
    }
}

impl KaiQuota {
    /// In units of `measure`, of which one of KAI's is `scale` thousandths.
    fn quota(&self, resource: Name, measure: Measure, scale: i64, used: Option<i64>) -> Quota {
        let scaled = |milli: i64| milli.saturating_mul(scale) / 1000;
        let unbounded = |number: Real| number.0.is_some_and(|number| number < 0.0);
        let nominal = match unbounded(self.quota) {
            true => None,
            false => Some(self.quota.milli().map_or(0, scaled)),
        };
        let limit = self.limit.milli().filter(|limit| *limit > 0).map(scaled);
        let cap = match unbounded(self.limit) {
            true => None,
            false => match nominal {
                None => limit,
                Some(own) => Some(limit.unwrap_or(own).max(own)),
            },
        };
        Quota {
            resource,
            measure,
            nominal,
            cap,
            surplus_weight: self.weight.milli().map(|weight| weight / 1000),
            used,
            reserved: used,
            borrowed: used.map(|used| nominal.map_or(0, |own| (used - own).max(0))),
            ..Quota::default()
        }
    }
}

/// A duration as Kubernetes writes it (`1h30m`, `1.5s`, `300ms`), in whole milliseconds; `None` for any other text.
fn duration(text: &str) -> Option<i64> {
    if text.trim() == "0" {
        return Some(0);
    }
    let mut rest = text.trim();
    let mut nanos: Option<i128> = None;
    while !rest.is_empty() {
        let number = rest.find(|it: char| !it.is_ascii_digit() && it != '.')?;
        let (value, unit) = rest.split_at(number);
        let letters = unit.find(|it: char| it.is_ascii_digit());
        let (unit, after) = unit.split_at(letters.unwrap_or(unit.len()));
        let scale: i128 = match unit {
            "h" => 3_600_000_000_000,
            "m" => 60_000_000_000,
            "s" => 1_000_000_000,
            "ms" => 1_000_000,
            "us" | "µs" => 1_000,
            "ns" => 1,
            _ => return None,
        };
        let (whole, part) = value.split_once('.').unwrap_or((value, ""));
        if (whole.is_empty() && part.is_empty()) || whole.len() > 12 || part.len() > 18 {
            return None;
        }
        let digits: i128 = format!("{whole}{part}").parse().ok()?;
        nanos = Some(nanos.unwrap_or(0) + digits * scale / 10_i128.pow(part.len() as u32));
        rest = after;
    }
    i64::try_from(nanos? / 1_000_000).ok()
}

impl KaiQueueObject {
    fn quotas(&self, names: &mut Names) -> Box<[Quota]> {
        let Some(resources) = &self.spec.resources.0 else {
            return Box::default();
        };
        let allocated = self.status.allocated.0.as_ref();
        let used = |measured: Measure| {
            allocated.map(|list| {
                list.iter()
                    .filter(|(name, _)| measure(name) == measured)
                    .filter_map(|(_, quantity)| amount(*quantity, measured))
                    .fold(0, i64::saturating_add)
            })
        };
        let mut quota = |of: &KaiQuota, resource, measure, scale| {
            of.quota(names.intern(resource), measure, scale, used(measure))
        };
        let milli = Measure::MilliDevices;
        Box::from([
            quota(&resources.gpu, DEVICES, milli, 1000),
            quota(&resources.cpu, "cpu", Measure::MilliCores, 1),
            quota(&resources.memory, "memory", Measure::Bytes, 1_000_000),
        ])
    }
}

impl Projected for KaiQueueObject {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn project(&self, table: Table, names: &mut Names) -> Option<Observation> {
        let name = names.intern(self.meta.name.get()?);
        let gpu = self.spec.resources.0.as_ref().map(|all| all.gpu.weight);
        Some(Observation::Queue(
            table,
            Box::new(Queue {
                uid: names.intern(&self.meta.uid),
                parent: self
                    .spec
                    .parent
                    .get()
                    .filter(|parent| *parent != &*name)
                    .map(|parent| names.intern(parent)),
                weight: gpu.and_then(|weight| weight.0),
                priority: Some(self.spec.priority.small().unwrap_or(100)),
                preemption: PreemptionPolicy {
                    within: Within::LowerPriority,
                    reclaim: Reclaim::Any,
                    min_runtime_ms: self.spec.preempt_after.get().and_then(duration),
                    reclaim_min_runtime_ms: self.spec.reclaim_after.get().and_then(duration),
                    ..PreemptionPolicy::default()
                },
                reclaimable: true,
                quotas: self.quotas(names),
                created: self.meta.created(),
                key: QueueKey {
                    system: QueueSystem::Kai,
                    kind: QueueKind::Queue,
                    name,
                },
                ..Queue::default()
            }),
        ))
    }
}
