//! The initial objects of any cluster: namespaces, classes, flavors, exporters.

use serde_json::{Value, json};

use model::base::{Moment, Name, ObjectKey};

use super::super::change::Resource;
use super::arrivals::selector;
use super::catalog::{CATALOG, DRAWN, POOLS};
use super::node::NodeId;
use super::noise::{hash, mix, uuid};
use super::pod::{PodId, PodPhase};
use super::render::{filled, identity, texts, values};
use super::work::{SimToleration, WorkId, WorkKind, WorkParameters};
use super::{World, seconds};

impl World {
    /// Creates the initial objects of a cluster.
    pub(super) fn bootstrap(&mut self) {
        let born = self.queues.created.minus(seconds(86_400 * 61));
        let teams = CATALOG
            .teams
            .iter()
            .map(|team| (team.namespace, Some(team.team)));
        for (name, team) in CATALOG.system.iter().map(|name| (*name, None)).chain(teams) {
            self.plain_object(
                Resource::Namespaces,
                ("", name),
                born,
                "Namespace",
                values!(team: team),
            );
            self.plain_object(
                Resource::ServiceAccounts,
                (name, "default"),
                born,
                "ServiceAccount",
                vec![],
            );
            let key = (name, "kube-root-ca.crt");
            self.plain_object(Resource::ConfigMaps, key, born, "root-certificates", vec![]);
        }
        let name = "kueue-manager-config";
        self.plain_object(
            Resource::ConfigMaps,
            ("kueue-system", name),
            born,
            name,
            vec![],
        );
        let system = [
            ("system-cluster-critical", 2_000_000_000),
            ("system-node-critical", 2_000_001_000),
        ];
        let classes = CATALOG
            .classes
            .iter()
            .map(|(name, value, text)| (*name, *value, Some(*text)));
        for (name, value, text) in classes.chain(system.map(|(name, value)| (name, value, None))) {
            let own = values!(value: value, description: text);
            self.plain_object(
                Resource::PriorityClasses,
                ("", name),
                born,
                "PriorityClass",
                own,
            );
        }
        for pool in 0..DRAWN {
            self.flavor(pool);
        }
        self.plain_object(
            Resource::Services,
            ("default", "kubernetes"),
            born,
            "kubernetes-service",
            vec![],
        );
        self.exporters_begin(born);
    }

    /// The same world as a separate cluster: its namespace `kube-system` has a UID derived from this number, by
    /// which clients distinguish clusters.
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
        let taint = spec.taint.map(|(key, _)| key);
        let own = values!(labels: texts(selector(pool).iter()), taint: taint);
        let created = self.queues.created;
        self.plain_object(
            Resource::ResourceFlavors,
            ("", spec.flavor),
            created,
            "ResourceFlavor",
            own,
        );
    }

    /// An object of a template, with the UID that one without behavior has.
    pub(super) fn made(
        &self,
        resource: Resource,
        (namespace, name): (&str, &str),
        created: Moment,
        template: &str,
        mut own: Vec<(&'static str, Value)>,
    ) -> ((Resource, ObjectKey), Value) {
        let key = ObjectKey::new(namespace, name);
        let mut identity = identity(namespace, name, 0, created);
        identity.insert("uid".to_owned(), self.plain_uid(resource, &key).into());
        own.extend(values!(identity: identity, name: name, created: created));
        ((resource, key), filled(template, own))
    }

    /// Keeps an object without behavior.
    pub(super) fn plain_object(
        &mut self,
        resource: Resource,
        key: (&str, &str),
        created: Moment,
        template: &str,
        own: Vec<(&'static str, Value)>,
    ) {
        let (key, object) = self.made(resource, key, created, template, own);
        self.plain.insert(key, object);
    }

    fn exporters_begin(&mut self, born: Moment) {
        for exporter in &CATALOG.exporters {
            let name = |(key, value): &(&str, &str)| (Name::new(key), Name::new(value));
            let mut draft =
                WorkParameters::new(exporter.namespace, exporter.name, WorkKind::DaemonSet);
            draft.team = Name::default();
            draft.pool = Some(exporter.pool);
            draft.ask.cpu_milli = 100;
            draft.ask.memory_mib = 256;
            draft.class = Name::new("system-node-critical");
            draft.priority = 2_000_001_000;
            draft.image = exporter.image;
            draft.labels = exporter.labels.iter().map(name).collect();
            draft.tolerations = vec![SimToleration {
                key: Name::default(),
                value: None,
                effect: Name::default(),
                seconds: None,
            }];
            draft.selector = exporter.selector.iter().map(name).collect();
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
            pod.phase = PodPhase::Running;
        }
    }
}
