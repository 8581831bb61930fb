//! Autoscalers of the simulated fleet: Karpenter's node pools and claims, the cluster autoscaler's status, a request for
//! capacity, pod autoscalers of services. They report what the world does; nothing is decided here.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde_json::{Value, json};

use model::base::{Moment, ObjectKey};

use super::super::change::Resource;
use super::catalog::{A100, H100, Origin, POOLS};
use super::node::Node;
use super::noise::{mix, suffix, uuid};
use super::physics::day;
use super::render::api_of;
use super::work::{State, Work, WorkId};
use super::{Ref, World, seconds};

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

/// The cluster autoscaler's status.
const STATUS: (&str, &str) = ("kube-system", "cluster-autoscaler-status");

type AutoscalerObjects = BTreeMap<(Resource, ObjectKey), Value>;

impl World {
    /// Updates the autoscalers' objects, when an update is due.
    pub(super) fn look_around(&mut self) {
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

    /// An object with the metadata that every object has.
    fn object_with_metadata(
        &self,
        resource: Resource,
        (api, kind): (&str, &str),
        (namespace, name): (&str, &str),
        created: Moment,
        body: Value,
    ) -> ((Resource, ObjectKey), Value) {
        let key = ObjectKey::new(namespace, name);
        let mut object = json!({
            "apiVersion": api, "kind": kind,
            "metadata": {
                "name": name, "uid": self.plain_uid(resource, &key), "creationTimestamp": created.rfc3339(), "generation": 1,
            },
        });
        if !namespace.is_empty() {
            object["metadata"]["namespace"] = json!(namespace);
        }
        super::edit::merge(&mut object, &body);
        ((resource, key), object)
    }

    fn karpenter(&self, wanted: &mut AutoscalerObjects) {
        let born = self.queues.created;
        for (pool, spec) in POOLS.iter().enumerate() {
            let Origin::Karpenter(capacity) = spec.origin else {
                continue;
            };
            let nodes = i64::try_from(self.pools[pool].len()).unwrap_or(i64::MAX);
            let devices = nodes * i64::from(spec.per_node);
            let usual = i64::from(spec.nodes).max(nodes);
            let limits = match pool {
                A100 => {
                    json!({spec.resources[0]: (usual * 5 / 4 * i64::from(spec.per_node)).to_string()})
                }
                _ => json!({"nodes": (usual * 2).to_string()}),
            };
            let (key, object) = self.object_with_metadata(Resource::NodePools, ("karpenter.sh/v1", "NodePool"), ("", spec.name), born, json!({
                "spec": {
                    "limits": limits, "weight": if pool == A100 { 50 } else { 10 },
                    "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "15m", "budgets": [{"nodes": "10%"}]},
                    "template": {
                        "metadata": {"labels": {"stokehold.dev/pool": spec.name}},
                        "spec": {
                            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"},
                            "expireAfter": "Never",
                            "requirements": requirements(pool, capacity),
                        },
                    },
                },
                "status": {
                    "resources": {
                        "nodes": nodes.to_string(), spec.resources[0]: devices.to_string(),
                        "cpu": (nodes * i64::from(spec.cpu)).to_string(), "memory": format!("{}Gi", nodes * i64::from(spec.memory_gib)),
                    },
                    "conditions": [
                        condition("ValidationSucceeded", "True", "ValidationSucceeded", "", born),
                        condition("NodeClassReady", "True", "NodeClassReady", "", born),
                        condition("Ready", "True", "Ready", "", born),
                    ],
                },
            }));
            wanted.insert(key, object);
        }
        for node in &self.nodes {
            let Origin::Karpenter(capacity) = node.spec().origin else {
                continue;
            };
            let notice = node
                .taints
                .iter()
                .find(|taint| taint.key.as_str() == "karpenter.sh/disrupted")
                .and_then(|taint| taint.added);
            if !node.gone {
                self.claim_of(node, capacity, notice, wanted);
            }
            if let Some(notice) = notice
                && self.now.millis() - notice.millis() < REPLACED_AFTER
            {
                self.replacement(node, capacity, notice, wanted);
            }
        }
    }

    /// The claim of an existing node. It changes only when its machine gets a termination notice.
    fn claim_of(
        &self,
        node: &Node,
        capacity: &str,
        notice: Option<Moment>,
        wanted: &mut AutoscalerObjects,
    ) {
        let spec = node.spec();
        let name = claim_name(node, 0);
        let key = (Resource::NodeClaims, ObjectKey::new("", name.as_str()));
        if notice.is_none()
            && let Some(old) = self.plain.get(&key)
        {
            wanted.insert(key, old.clone());
            return;
        }
        let machine = json!({"cpu": spec.cpu.to_string(), "memory": format!("{}Gi", spec.memory_gib), spec.resources[0]: spec.per_node.to_string()});
        let mut body = self.claim(node, capacity);
        body["metadata"]["labels"]["node.kubernetes.io/instance-type"] = json!(spec.instance);
        body["metadata"]["labels"]["topology.kubernetes.io/zone"] = json!(node.zone);
        body["status"] = json!({
            "nodeName": &*node.name, "capacity": machine, "allocatable": machine,
            "conditions": [
                condition("Launched", "True", "Launched", "", node.created),
                condition("Registered", "True", "Registered", "", node.created),
                condition("Initialized", "True", "Initialized", "", node.created),
                condition("Ready", "True", "Ready", "", node.created),
            ],
        });
        if let Some(notice) = notice {
            body["metadata"]["deletionTimestamp"] = json!(notice.rfc3339());
            body["metadata"]["finalizers"] = json!(["karpenter.sh/termination"]);
        }
        let created = node.created.minus(seconds(90));
        let (key, object) = self.object_with_metadata(
            Resource::NodeClaims,
            ("karpenter.sh/v1", "NodeClaim"),
            ("", &name),
            created,
            body,
        );
        wanted.insert(key, object);
    }

    /// The claim of the machine that replaces one with a termination notice.
    fn replacement(
        &self,
        node: &Node,
        capacity: &str,
        notice: Moment,
        wanted: &mut AutoscalerObjects,
    ) {
        let found = notice.plus(seconds(FOUND_AFTER / 1000));
        let mut body = self.claim(node, capacity);
        body["status"]["conditions"] = match self.now >= found {
            false => json!([
                condition(
                    "Launched",
                    "Unknown",
                    "AwaitingReconciliation",
                    "object is awaiting reconciliation",
                    notice
                ),
                condition(
                    "Registered",
                    "Unknown",
                    "AwaitingReconciliation",
                    "object is awaiting reconciliation",
                    notice
                ),
                condition(
                    "Initialized",
                    "Unknown",
                    "AwaitingReconciliation",
                    "object is awaiting reconciliation",
                    notice
                ),
            ]),
            true => json!([
                condition("Launched", "True", "Launched", "", found),
                condition(
                    "Registered",
                    "Unknown",
                    "NodeNotFound",
                    "Node not registered with cluster",
                    found
                ),
                condition(
                    "Initialized",
                    "Unknown",
                    "NodeNotFound",
                    "Node not registered with cluster",
                    found
                ),
            ]),
        };
        let name = claim_name(node, 1);
        let (key, object) = self.object_with_metadata(
            Resource::NodeClaims,
            ("karpenter.sh/v1", "NodeClaim"),
            ("", &name),
            notice,
            body,
        );
        wanted.insert(key, object);
    }

    /// The part of a claim that is set at creation.
    fn claim(&self, node: &Node, capacity: &str) -> Value {
        let spec = node.spec();
        let pool = self.plain_uid(Resource::NodePools, &ObjectKey::new("", spec.name));
        json!({
            "metadata": {
                "labels": {"karpenter.sh/nodepool": spec.name, "karpenter.sh/capacity-type": capacity, "stokehold.dev/pool": spec.name},
                "ownerReferences": [{"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": spec.name, "uid": pool, "blockOwnerDeletion": true}],
            },
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"},
                "requirements": requirements(node.pool, capacity),
                "resources": {"requests": {"cpu": "8", spec.resources[0]: spec.per_node.to_string()}},
            },
        })
    }

    /// The managed node group that is no business of Karpenter's.
    fn cluster_autoscaler(&self, wanted: &mut AutoscalerObjects) {
        let spec = &POOLS[H100];
        let nodes = &self.pools[H100];
        let ready = nodes.iter().filter(|id| self.nodes[**id].ready).count();
        let size = nodes.len();
        let now = self.now.rfc3339();
        let born = self.queues.created.rfc3339();
        let word = if ready * 2 >= nodes.len() {
            "Healthy"
        } else {
            "Unhealthy"
        };
        let counts = format!(
            "      nodeCounts:\n        registered:\n          total: {total}\n          ready: {ready}\n          notStarted: 0\n          unready:\n            total: {unready}\n            resourceUnready: 0\n        longUnregistered: 0\n        unregistered: 0\n",
            total = nodes.len(),
            unready = nodes.len() - ready,
        );
        let times =
            format!("      lastProbeTime: \"{now}\"\n      lastTransitionTime: \"{born}\"\n");
        let wide: String = [&*counts, &*times]
            .concat()
            .lines()
            .map(|line| format!("{}\n", &line[2..]))
            .collect();
        let name = format!("eks-{}-{}", spec.name, uuid(mix(self.options.seed, 77)));
        let status = format!(
            "time: {stamp}\nautoscalerStatus: Running\nclusterWide:\n  health:\n    status: {word}\n{wide}  scaleUp:\n    status: NoActivity\n  scaleDown:\n    status: NoCandidates\n\
             nodeGroups:\n  - name: {name}\n    health:\n      status: {word}\n{counts}      cloudProviderTarget: {size}\n      minSize: {size}\n      maxSize: {size}\n{times}    scaleUp:\n      status: NoActivity\n{times}    scaleDown:\n      status: NoCandidates\n      candidates: 0\n{times}",
            stamp = stamp(self.now),
        );
        let (key, mut object) = self.object_with_metadata(Resource::ConfigMaps, ("v1", "ConfigMap"), STATUS, self.queues.created, json!({
            "metadata": {"annotations": {"cluster-autoscaler.kubernetes.io/last-updated": stamp(self.now)}},
            "data": {"status": status},
        }));
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("generation");
        }
        wanted.insert(key, object);
    }

    /// The request for capacity of one job of the shared pool.
    fn asked_for(&mut self, wanted: &mut AutoscalerObjects) {
        let waits = |work: &Work| {
            work.state == State::Waiting && work.pool == Some(A100) && work.kind.is_batch()
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
        let accepted = since.plus(seconds(5));
        let (key, object) = self.object_with_metadata(
            Resource::ProvisioningRequests,
            ("autoscaling.x-k8s.io/v1", "ProvisioningRequest"),
            (&work.namespace, &name),
            since,
            json!({
                "metadata": {"ownerReferences": [{"apiVersion": api_of(kind), "kind": kind, "name": &*work.name, "uid": uuid(work.uid), "controller": true}]},
                "spec": {
                    "provisioningClassName": "best-effort-atomic-scale-up.autoscaling.x-k8s.io",
                    "parameters": {"ValidUntilSeconds": "86400"},
                    "podSets": [{"count": work.width().max(1), "podTemplateRef": {"name": &*name}}],
                },
                "status": {"conditions": [
                    condition("Accepted", "True", "Accepted", "ProvisioningRequest is accepted by the cluster autoscaler", accepted),
                    condition("Provisioned", "False", "CapacityIsNotFound", "no capacity for all of its pods at once, it is tried again", accepted),
                ]},
            }),
        );
        wanted.insert(key, object);
    }

    /// A request does not outlive the job that it is for.
    pub(super) fn collect_request(&mut self) {
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
            let able = stabilized(now, depth / QUEUE_DEPTH, (least, most));
            let depth = match depth.fract() == 0.0 {
                true => depth.to_string(),
                false => format!("{}m", (depth * 1_000.0).round()),
            };
            let limited = match now >= most && most > least {
                true => condition(
                    "ScalingLimited",
                    "True",
                    "TooManyReplicas",
                    "the desired replica count is more than the maximum replica count",
                    work.created,
                ),
                false => condition(
                    "ScalingLimited",
                    "False",
                    "DesiredWithinRange",
                    "the desired count is within the acceptable range",
                    work.created,
                ),
            };
            let mut name = work.name.to_string();
            if name == BY_KEDA {
                name = format!("keda-hpa-{name}");
                let (key, object) = self.scaled_object(work, (least, most), &name);
                wanted.insert(key, object);
            }
            let (key, object) = self.object_with_metadata(Resource::PodAutoscalers, ("autoscaling/v2", "HorizontalPodAutoscaler"), (&work.namespace, &name), work.created, json!({
                "spec": {
                    "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": &*work.name},
                    "minReplicas": least, "maxReplicas": most,
                    "metrics": [{"type": "Pods", "pods": {"metric": {"name": "requests_waiting"}, "target": {"type": "AverageValue", "averageValue": QUEUE_DEPTH.to_string()}}}],
                },
                "status": {
                    "currentReplicas": now, "desiredReplicas": now,
                    "currentMetrics": [{"type": "Pods", "pods": {"metric": {"name": "requests_waiting"}, "current": {"averageValue": depth}}}],
                    "conditions": [
                        condition("AbleToScale", "True", able.0, able.1, work.created),
                        condition("ScalingActive", "True", "ValidMetricFound", "the HPA was able to successfully calculate a replica count", work.created),
                        limited,
                    ],
                },
            }));
            wanted.insert(key, object);
        }
    }
}

/// Reason and message of `AbleToScale` at so many times the target. The number of pods follows the day: where the metric asks for
/// another, a stabilization window is what keeps a real controller from it.
fn stabilized(now: u32, ratio: f64, (least, most): (u32, u32)) -> (&'static str, &'static str) {
    let asked = match (0.9..=1.1).contains(&ratio) {
        true => now,
        false => ((f64::from(now) * ratio).ceil() as u32).clamp(least, most),
    };
    match asked.cmp(&now) {
        Ordering::Equal => ("ReadyForNewScale", "recommended size matches current size"),
        Ordering::Less => (
            "ScaleDownStabilized",
            "recent recommendations were higher than current one, applying the highest recent recommendation",
        ),
        Ordering::Greater => (
            "ScaleUpStabilized",
            "recent recommendations were lower than current one, applying the lowest recent recommendation",
        ),
    }
}

impl World {
    /// What KEDA has of a service, whose autoscaler it made.
    fn scaled_object(
        &self,
        work: &Work,
        (least, most): (u32, u32),
        autoscaler: &str,
    ) -> ((Resource, ObjectKey), Value) {
        let at = work.created;
        self.object_with_metadata(
            Resource::ScaledObjects,
            ("keda.sh/v1alpha1", "ScaledObject"),
            (&work.namespace, &work.name),
            at,
            json!({
                "spec": {
                    "scaleTargetRef": {"name": &*work.name},
                    "minReplicaCount": least, "maxReplicaCount": most, "pollingInterval": 30, "cooldownPeriod": 300,
                    "triggers": [{"type": "prometheus", "metricType": "AverageValue", "metadata": {
                        "serverAddress": "http://prometheus.monitoring:9090", "query": "sum(requests_waiting)", "threshold": QUEUE_DEPTH.to_string(),
                    }}],
                },
                "status": {
                    "hpaName": autoscaler, "originalReplicaCount": least,
                    "scaleTargetGVKR": {"group": "apps", "kind": "Deployment", "resource": "deployments", "version": "v1"},
                    "scaleTargetKind": "apps/v1.Deployment",
                    "conditions": [
                        condition("Ready", "True", "ScaledObjectReady", "ScaledObject is defined correctly and is ready for scaling", at),
                        condition("Active", "True", "ScalerActive", "Scaling is performed because triggers are active", at),
                        condition("Fallback", "False", "NoFallbackFound", "No fallbacks are active on this scaled object", at),
                    ],
                },
            }),
        )
    }
}

/// The identity of a booked job, and the time of its request.
pub(super) type Booked = (WorkId, Moment);

fn condition(kind: &str, status: &str, reason: &str, message: &str, since: Moment) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since.rfc3339(), "observedGeneration": 1})
}

/// What the machines of a pool fulfil.
fn requirements(pool: usize, capacity: &str) -> Value {
    json!([
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [capacity]},
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [POOLS[pool].instance]},
        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
    ])
}

/// The name of a node's claim, or of the `n`th after it.
fn claim_name(node: &Node, n: u64) -> String {
    format!("{}-{}", node.spec().name, suffix(mix(node.uid, 31 + n), 5))
}

/// A moment as Go prints it.
fn stamp(at: Moment) -> String {
    at.rfc3339().replace('T', " ").replace('Z', " +0000 UTC")
}
