//! The initial objects of any cluster: namespaces, classes, flavors, exporters.

use serde_json::{Value, json};

use model::base::{Moment, Name, ObjectKey};

use super::super::change::Resource;
use super::arrivals::selector;
use super::catalog::{CLASSES, DRAWN, H100, MI300X, POOLS, SYSTEM, TEAMS, V5P, Vendor};
use super::node::NodeId;
use super::noise::{hash, mix, uuid};
use super::pod::{Phase, PodId};
use super::work::{Kind, Toleration, WorkId, WorkParameters};
use super::{World, seconds};

impl World {
    /// Creates the initial objects of a cluster.
    pub(super) fn bootstrap(&mut self) {
        let born = self.queues.created.minus(seconds(86_400 * 61));
        for name in SYSTEM {
            self.plain_object(
                Resource::Namespaces,
                ("v1", "Namespace"),
                ("", name),
                born,
                json!({
                    "metadata": {"labels": {"kubernetes.io/metadata.name": name}},
                    "spec": {"finalizers": ["kubernetes"]},
                    "status": {"phase": "Active"},
                }),
            );
        }
        for (name, team, _) in TEAMS {
            self.plain_object(
                Resource::Namespaces,
                ("v1", "Namespace"),
                ("", name),
                born,
                json!({
                    "metadata": {"labels": {"kubernetes.io/metadata.name": name, "team": team}},
                    "spec": {"finalizers": ["kubernetes"]},
                    "status": {"phase": "Active"},
                }),
            );
        }
        for name in SYSTEM
            .iter()
            .copied()
            .chain(TEAMS.iter().map(|team| team.0))
        {
            self.plain_object(
                Resource::ServiceAccounts,
                ("v1", "ServiceAccount"),
                (name, "default"),
                born,
                json!({}),
            );
            self.plain_object(Resource::ConfigMaps, ("v1", "ConfigMap"), (name, "kube-root-ca.crt"), born, json!({
                "metadata": {"annotations": {"kubernetes.io/description": "Contains a CA bundle that can be used to verify the kube-apiserver."}},
                "data": {"ca.crt": ""},
            }));
        }
        // As Kueue's manifests install it: queues do not share by weight.
        self.plain_object(Resource::ConfigMaps, ("v1", "ConfigMap"), ("kueue-system", "kueue-manager-config"), born, json!({
            "data": {"controller_manager_config.yaml": "apiVersion: config.kueue.x-k8s.io/v1beta1\nkind: Configuration\nmanageJobsWithoutQueueName: false\n"},
        }));
        for (name, value, text) in CLASSES {
            self.plain_object(Resource::PriorityClasses, ("scheduling.k8s.io/v1", "PriorityClass"), ("", name), born, json!({
                "value": value, "description": text, "globalDefault": false, "preemptionPolicy": "Never",
            }));
        }
        for (name, value) in [
            ("system-cluster-critical", 2_000_000_000),
            ("system-node-critical", 2_000_001_000),
        ] {
            self.plain_object(
                Resource::PriorityClasses,
                ("scheduling.k8s.io/v1", "PriorityClass"),
                ("", name),
                born,
                json!({
                    "value": value, "globalDefault": false, "preemptionPolicy": "Never",
                }),
            );
        }
        for pool in 0..DRAWN {
            self.flavor(pool);
        }
        self.plain_object(Resource::Services, ("v1", "Service"), ("default", "kubernetes"), born, json!({
            "metadata": {"labels": {"component": "apiserver", "provider": "kubernetes"}},
            "spec": {
                "clusterIP": "172.20.0.1", "clusterIPs": ["172.20.0.1"], "type": "ClusterIP", "sessionAffinity": "None",
                "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "internalTrafficPolicy": "Cluster",
                "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 443}],
            },
            "status": {"loadBalancer": {}},
        }));
        self.exporters_begin(born);
    }

    /// The same world as a separate cluster: its namespace `kube-system` has a UID derived from this number, by which
    /// clients distinguish clusters.
    #[must_use]
    pub fn identified(mut self, identity: u64) -> Self {
        let key = ObjectKey::new("", "kube-system");
        if let Some(object) = self.plain.get_mut(&(Resource::Namespaces, key)) {
            object["metadata"]["uid"] = json!(uuid(mix(hash("kube-system"), identity)));
        }
        self
    }

    /// The Kueue flavor of a pool.
    pub(super) fn flavor(&mut self, pool: usize) {
        let spec = &POOLS[pool];
        let labels: std::collections::BTreeMap<String, String> = selector(pool)
            .iter()
            .map(|(key, value)| (key.to_string(), value.to_string()))
            .collect();
        let mut body = json!({"spec": {"nodeLabels": labels}});
        let taint = match spec.vendor {
            Vendor::Google => Some("google.com/tpu"),
            Vendor::Amd => Some("amd.com/gpu"),
            Vendor::Nvidia => None,
        };
        if let Some(key) = taint {
            body["spec"]["tolerations"] =
                json!([{"key": key, "operator": "Exists", "effect": "NoSchedule"}]);
        }
        self.plain_object(
            Resource::ResourceFlavors,
            ("kueue.x-k8s.io/v1beta1", "ResourceFlavor"),
            ("", spec.flavor),
            self.queues.created,
            body,
        );
    }

    /// Keeps an object without behavior.
    pub(super) fn plain_object(
        &mut self,
        resource: Resource,
        (api, kind): (&str, &str),
        (namespace, name): (&str, &str),
        created: Moment,
        body: Value,
    ) {
        let key = ObjectKey::new(namespace, name);
        let mut object = json!({
            "apiVersion": api,
            "kind": kind,
            "metadata": {
                "name": name,
                "uid": self.plain_uid(resource, &key),
                "creationTimestamp": created.rfc3339(),
            },
        });
        if !namespace.is_empty() {
            object["metadata"]["namespace"] = json!(namespace);
        }
        super::edit::merge(&mut object, &body);
        self.plain.insert((resource, key), object);
    }

    fn exporters_begin(&mut self, born: Moment) {
        type Exporter = (
            &'static str,
            &'static str,
            usize,
            &'static [(&'static str, &'static str)],
        );
        let sets: [Exporter; 3] = [
            (
                "gpu-operator",
                "nvidia-dcgm-exporter",
                H100,
                &[
                    ("app", "nvidia-dcgm-exporter"),
                    ("app.kubernetes.io/managed-by", "gpu-operator"),
                    ("helm.sh/chart", "gpu-operator-v25.10.0"),
                ],
            ),
            (
                "kube-system",
                "tpu-device-plugin",
                V5P,
                &[("k8s-app", "tpu-device-plugin")],
            ),
            (
                "kube-amd-gpu",
                "default-metrics-exporter",
                MI300X,
                &[
                    ("app", "default-amdgpu-metrics-exporter"),
                    ("app.kubernetes.io/name", "metrics-exporter"),
                    ("daemonset-name", "default"),
                ],
            ),
        ];
        for (namespace, name, pool, labels) in sets {
            let mut draft = WorkParameters::new(namespace, name, Kind::DaemonSet);
            draft.team = Name::default();
            draft.pool = Some(pool);
            draft.ask.cpu_milli = 100;
            draft.ask.memory_mib = 256;
            draft.class = Name::new("system-node-critical");
            draft.priority = 2_000_001_000;
            draft.image = match pool {
                H100 => "nvcr.io/nvidia/k8s/dcgm-exporter:4.4.1-4.6.0-distroless",
                V5P => "gke.gcr.io/tpu-device-plugin:0.1.52",
                _ => "docker.io/rocm/device-metrics-exporter:v1.4.0",
            };
            draft.labels = labels
                .iter()
                .map(|(key, value)| (Name::new(key), Name::new(value)))
                .collect();
            draft.tolerations = vec![Toleration {
                key: Name::default(),
                value: None,
                effect: Name::default(),
                seconds: None,
            }];
            // The TPU plugin's pods find their nodes by affinity.
            draft.selector = std::iter::once(match pool {
                H100 => (
                    Name::new("nvidia.com/gpu.deploy.dcgm-exporter"),
                    Name::new("true"),
                ),
                _ => (
                    Name::new("feature.node.kubernetes.io/amd-gpu"),
                    Name::new("true"),
                ),
            })
            .filter(|_| pool != V5P)
            .collect();
            let id = self.begin(draft, born);
            self.reconcile(id);
            self.mature(id, 0);
        }
    }

    /// Makes a workload's pods, on nodes from this one on, as old as the workload, but not older than their node.
    pub(super) fn mature(&mut self, id: WorkId, from: NodeId) {
        let Some(work) = self.works.get(&id) else {
            return;
        };
        let pods: Vec<PodId> = work.pods.iter().copied().collect();
        let born = work.created;
        for pod_id in pods {
            let Some(pod) = self.pods.get_mut(&pod_id) else {
                continue;
            };
            let Some(node) = pod.node.filter(|node| *node >= from) else {
                continue;
            };
            let made = born.max(self.nodes[node].created.plus(seconds(31)));
            pod.created = made;
            pod.scheduled = Some(made);
            pod.started = Some(made.plus(seconds(12)));
            pod.ready = Some(made.plus(seconds(58)));
            pod.phase = Phase::Running;
        }
    }
}
