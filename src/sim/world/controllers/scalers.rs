//! Autoscalers of the simulated fleet: Karpenter's node pools and claims, the cluster autoscaler's status, a request for
//! capacity, pod autoscalers of services. They report what the world does; nothing is decided here.

use std::collections::BTreeMap;

use serde_json::Value;

use model::base::{Moment, ObjectKey};

use crate::change::Resource;
use crate::world::catalog::{A100, H100, NodeOrigin, POOLS};
use crate::world::node::SimNode;
use crate::world::noise::{mix, suffix, uuid};
use crate::world::physics::day;
use crate::world::render::{api_of, values};
use crate::world::work::{Work, WorkId, WorkState};
use crate::world::{Ref, World, seconds};

/// Interval of the updates of autoscalers, in milliseconds.
const EVERY: i64 = 30_000;

/// From the termination notice of a spot machine until its replacement has joined, in milliseconds.
const REPLACED_AFTER: i64 = 164_000;

/// From the notice until the replacement has its machine, in milliseconds.
const FOUND_AFTER: i64 = 40_000;

/// Waiting requests per server of the demo: the target of its autoscaler.
const QUEUE_DEPTH: f64 = 8.0;

/// The resources whose objects are made here.
const OURS: [Resource; 5] = [
    Resource::NodePools,
    Resource::NodeClaims,
    Resource::ProvisioningRequests,
    Resource::PodAutoscalers,
    Resource::ScaledObjects,
];

/// The service that KEDA scales.
const BY_KEDA: &str = "asr-stream";

type AutoscalerObjects = BTreeMap<(Resource, ObjectKey), Value>;

type MadeObject = ((Resource, ObjectKey), Value);

impl World {
    /// Updates the autoscalers' objects, when an update is due.
    pub(in crate::world) fn look_around(&mut self) {
        if self.live && self.now.millis() - self.scaled_at.millis() < EVERY {
            return;
        }
        self.scaled_at = self.now;
        let mut wanted = AutoscalerObjects::new();
        self.karpenter(&mut wanted);
        self.cluster_autoscaler(&mut wanted);
        self.asked_for(&mut wanted);
        self.pod_scalers(&mut wanted);
        let gone: Vec<(Resource, ObjectKey)> = OURS
            .into_iter()
            .flat_map(|resource| {
                let from = self.plain.range((resource, ObjectKey::default())..);
                from.take_while(move |(key, _)| key.0 == resource)
            })
            .map(|(key, _)| key.clone())
            .filter(|key| !wanted.contains_key(key))
            .collect();
        for (resource, key) in gone {
            self.plain.remove(&(resource, key.clone()));
            self.retract(&Ref::Plain(resource, key.clone()), resource, key);
        }
        for ((resource, key), object) in wanted {
            if self.plain.get(&(resource, key.clone())) != Some(&object) {
                self.plain.insert((resource, key.clone()), object);
                self.touch(Ref::Plain(resource, key));
            }
        }
    }

    fn karpenter(&self, wanted: &mut AutoscalerObjects) {
        for (pool, spec) in POOLS.iter().enumerate() {
            let NodeOrigin::Karpenter(capacity) = spec.origin else {
                continue;
            };
            let nodes = i64::try_from(self.pools[pool].len()).unwrap_or(i64::MAX);
            let (usual, each) = (i64::from(spec.nodes).max(nodes), i64::from(spec.per_node));
            let shared = pool == A100;
            let own = values!(
                resource: spec.resources[0],
                deviceLimit: shared.then(|| (usual * 5 / 4 * each).to_string()),
                nodeLimit: (!shared).then(|| (usual * 2).to_string()),
                weight: if shared { 50 } else { 10 },
                capacityType: capacity,
                instance: spec.instance,
                nodes: nodes.to_string(),
                devices: (nodes * each).to_string(),
                cpu: (nodes * i64::from(spec.cpu)).to_string(),
                memory: nodes * i64::from(spec.memory_gib),
            );
            wanted.extend([self.made(
                Resource::NodePools,
                ("", spec.name),
                self.queues.created,
                "NodePool",
                own,
            )]);
        }
        for node in &self.nodes {
            let NodeOrigin::Karpenter(capacity) = node.spec().origin else {
                continue;
            };
            let mut disrupted = node
                .taints
                .iter()
                .filter(|taint| taint.key.as_str() == "karpenter.sh/disrupted");
            let notice = disrupted.next().and_then(|taint| taint.added);
            if !node.gone {
                wanted.extend([self.claim_of(node, capacity, notice)]);
            }
            if let Some(notice) = notice
                && self.now.millis() - notice.millis() < REPLACED_AFTER
            {
                // The claim of the machine that replaces this one.
                let found = notice.plus(seconds(FOUND_AFTER / 1000));
                let (state, since) = match self.now >= found {
                    true => ("found", found),
                    false => ("launching", notice),
                };
                let mut own = self.claim(node, capacity);
                own.extend(values!(state: state, since: since));
                let name = claim_name(node, 1);
                wanted.extend([self.made(
                    Resource::NodeClaims,
                    ("", &name),
                    notice,
                    "NodeClaim",
                    own,
                )]);
            }
        }
    }

    /// The claim of an existing node. It changes only when its machine gets a termination notice.
    fn claim_of(&self, node: &SimNode, capacity: &str, notice: Option<Moment>) -> MadeObject {
        let name = claim_name(node, 0);
        let key = (Resource::NodeClaims, ObjectKey::new("", name.as_str()));
        if notice.is_none()
            && let Some(old) = self.plain.get(&key)
        {
            return (key, old.clone());
        }
        let spec = node.spec();
        let mut own = self.claim(node, capacity);
        own.extend(values!(
            machine: spec.instance,
            zone: node.zone,
            node: &node.name,
            cpu: spec.cpu.to_string(),
            memory: spec.memory_gib,
            state: "joined",
            since: node.created,
            notice: notice,
            finalizer: notice.map(|_| "karpenter.sh/termination"),
        ));
        self.made(
            key.0,
            ("", &name),
            node.created.minus(seconds(90)),
            "NodeClaim",
            own,
        )
    }

    /// What a claim names from its creation on.
    fn claim(&self, node: &SimNode, capacity: &str) -> Vec<(&'static str, Value)> {
        let spec = node.spec();
        values!(
            pool: spec.name,
            poolUid: self.plain_uid(Resource::NodePools, &ObjectKey::new("", spec.name)),
            capacityType: capacity,
            instance: spec.instance,
            resource: spec.resources[0],
            devices: spec.per_node.to_string(),
        )
    }

    /// The managed node group, which Karpenter does not scale.
    fn cluster_autoscaler(&self, wanted: &mut AutoscalerObjects) {
        let nodes = &self.pools[H100];
        let ready = nodes.iter().filter(|id| self.nodes[**id].ready).count();
        let own = values!(
            stamp: stamp(self.now),
            now: self.now,
            health: if ready * 2 >= nodes.len() { "Healthy" } else { "Unhealthy" },
            size: nodes.len(),
            ready: ready,
            unready: nodes.len() - ready,
            group: format!("eks-{}-{}", POOLS[H100].name, uuid(mix(self.options.seed, 77))),
        );
        let name = "cluster-autoscaler-status";
        wanted.extend([self.made(
            Resource::ConfigMaps,
            ("kube-system", name),
            self.queues.created,
            name,
            own,
        )]);
    }

    /// The request for capacity of one job of the shared pool.
    fn asked_for(&mut self, wanted: &mut AutoscalerObjects) {
        let waits = |work: &Work| {
            work.state == WorkState::Waiting && work.pool == Some(A100) && work.kind.is_batch()
        };
        let kept = self
            .booked
            .filter(|(id, _)| self.works.get(id).is_some_and(waits));
        let first = || {
            let (id, _) = self.works.iter().find(|(_, work)| waits(work))?;
            Some((*id, self.now))
        };
        self.booked = kept.or_else(first);
        let Some((id, since)) = self.booked else {
            return;
        };
        let Some(work) = self.works.get(&id) else {
            return;
        };
        let name = format!("{}-capacity", work.name);
        let kind = work.kind.word();
        let own = values!(
            api: api_of(kind),
            kind: kind,
            work: &work.name,
            workUid: uuid(work.uid),
            pods: work.width().max(1),
            accepted: since.plus(seconds(5)),
        );
        let key = (&*work.namespace, &*name);
        wanted.extend([self.made(
            Resource::ProvisioningRequests,
            key,
            since,
            "ProvisioningRequest",
            own,
        )]);
    }

    /// A request does not outlive the job that it is for.
    pub(in crate::world) fn collect_request(&mut self) {
        let Some((id, _)) = self.booked else {
            return;
        };
        let lives = self.works.get(&id).is_some_and(|work| {
            let key = ObjectKey::new(work.namespace.clone(), work.name.clone());
            work.kind
                .resource()
                .is_some_and(|kind| self.names.contains_key(&(kind, key)))
        });
        if lives {
            return;
        }
        self.booked = None;
        let resource = Resource::ProvisioningRequests;
        let held = self.plain.range((resource, ObjectKey::default())..);
        let held: Vec<ObjectKey> = held
            .take_while(|(key, _)| key.0 == resource)
            .filter(|(_, object)| object.pointer("/metadata/ownerReferences").is_some())
            .map(|(key, _)| key.1.clone())
            .collect();
        for key in held {
            self.plain.remove(&(resource, key.clone()));
            self.retract(&Ref::Plain(resource, key.clone()), resource, key);
        }
    }

    /// What scales services with the hour of the day.
    fn pod_scalers(&self, wanted: &mut AutoscalerObjects) {
        let level = day(self.now);
        for work in self.works.values() {
            let Some((least, most)) = work
                .curve
                .filter(|_| work.kind.resource() == Some(Resource::Deployments))
            else {
                continue;
            };
            let now = work.groups.first().map_or(0, |group| group.parallelism);
            let wants = least + (f64::from(most - least) * level).round() as u32;
            let curved = (QUEUE_DEPTH * f64::from(wants) / f64::from(now.max(1))).round();
            // Where servers report requests, the depth comes from them; a floor that follows the time of day keeps the pods.
            let (depth, least) = match self.mean_waiting(work) {
                Some(waiting) => (waiting, now.clamp(least, most)),
                None => (curved, least),
            };
            // The number of pods follows the day: where the metric asks for another, a stabilization window is what keeps a real
            // controller from it.
            let ratio = depth / QUEUE_DEPTH;
            let asked = match (0.9..=1.1).contains(&ratio) {
                true => now,
                false => ((f64::from(now) * ratio).ceil() as u32).clamp(least, most),
            };
            let depth = match depth.fract() == 0.0 {
                true => depth.to_string(),
                false => format!("{}m", (depth * 1_000.0).round()),
            };
            let mut name = work.name.to_string();
            if name == BY_KEDA {
                name = format!("keda-hpa-{name}");
                let own = values!(least: least, most: most, target: QUEUE_DEPTH.to_string(), autoscaler: &name);
                let key = (&*work.namespace, &*work.name);
                wanted.extend([self.made(
                    Resource::ScaledObjects,
                    key,
                    work.created,
                    "ScaledObject",
                    own,
                )]);
            }
            let own = values!(
                work: &work.name,
                least: least,
                most: most,
                target: QUEUE_DEPTH.to_string(),
                replicas: now,
                depth: depth,
                able: asked.cmp(&now) as i32,
                limited: now >= most && most > least,
            );
            let key = (&*work.namespace, &*name);
            wanted.extend([self.made(
                Resource::PodAutoscalers,
                key,
                work.created,
                "HorizontalPodAutoscaler",
                own,
            )]);
        }
    }
}

/// The identity of a booked job, and the time of its request.
pub(in crate::world) type Booked = (WorkId, Moment);

/// The name of a node's claim, or of the `n`th after it.
fn claim_name(node: &SimNode, n: u64) -> String {
    format!("{}-{}", node.spec().name, suffix(mix(node.uid, 31 + n), 5))
}

/// A moment as Go prints it.
fn stamp(at: Moment) -> String {
    at.rfc3339().replace('T', " ").replace('Z', " +0000 UTC")
}
