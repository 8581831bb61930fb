//! Pools with fixed workloads: a few nodes each, with the workload kinds that the other pools do not have.
//!
//! They are added last, so that the rest of a fleet is the same for a seed with and without them.

use model::base::Name;

use super::super::change::Resource;
use super::catalog::{B200, DRA, KAI, POOLS, VOLCANO};
use super::claims::DRIVER;
use super::edit::Edit;
use super::kai::KaiQueue;
use super::kueue::{ClusterQueue, LocalQueue, Quota};
use super::node::Node;
use super::noise::{hash, mix};
use super::render::{request, values};
use super::volcano::{ROOT, VolcanoQueue};
use super::work::{Kind, Profile, Scheduler, WorkId, WorkParameters};
use super::{Happening, World};

/// The B200 that the cluster queue has: those that Kueue's jobs share, without the ones that serve.
const SHARED: u32 = 20;

impl World {
    /// Adds the nodes, with the workloads on them.
    pub(super) fn guests(&mut self, nodes: Vec<Node>) {
        if nodes.is_empty() {
            return;
        }
        let first = self.nodes.len();
        for node in nodes {
            let id = self.nodes.len();
            self.pools[node.pool].push(id);
            self.node_names.insert(node.name.clone(), id);
            let left = 300_000 - self.now.since(node.heartbeat).millis() as i64;
            self.nodes.push(node);
            self.after(left.clamp(1, 300_000), Happening::Heartbeat(id));
        }
        self.label_version += 1;
        // No events are recorded until everything is set up.
        let live = std::mem::replace(&mut self.live, false);
        let daemons: Vec<WorkId> = self
            .works
            .iter()
            .filter(|(_, work)| work.kind == Kind::DaemonSet)
            .map(|(id, _)| *id)
            .collect();
        for id in daemons {
            self.reconcile(id);
            self.mature(id, first);
        }
        self.training_begins();
        let waiting = [
            self.claims_begin(),
            self.volcano_begins(),
            self.kai_begins(),
        ];
        self.live = live;
        for id in waiting {
            self.place_gang(id);
        }
    }

    /// Volcano's queues, a job that runs, and one that is admitted and finds no room.
    fn volcano_begins(&mut self) -> WorkId {
        let created = self.queues.created;
        for (name, parent, capability, deserved) in [
            (ROOT, "", None, None),
            ("default", ROOT, None, None),
            ("rendering", ROOT, Some(24), Some(16)),
        ] {
            self.volcano.push(VolcanoQueue {
                name: Name::new(name),
                parent: Name::new(parent),
                capability,
                deserved,
                weight: if capability.is_some() { 4 } else { 1 },
                open: true,
                created,
                uid: mix(hash(name), 0x70c),
                edit: Edit::default(),
            });
        }
        let draft = |job: &str, user: &str, devices| {
            WorkParameters::new("lab", job, Kind::VolcanoJob)
                .by(user)
                .class("research")
                .on(VOLCANO, devices)
                .by_scheduler(Scheduler::Volcano(Name::new("rendering")))
                .gang()
        };
        let running = draft("render-sim", "wei", 4)
            .acts(Profile::Train, 0.84, 0.7)
            .roles(&[("worker", 2)])
            .lasts(1_100, 15);
        let since = self.ago(266);
        let running = self.begin_running(running, since, None);
        let waiting = draft("nerf-bake", "jonas", 8)
            .acts(Profile::Train, 0.8, 0.6)
            .roles(&[("worker", 2)])
            .lasts(400, 15);
        let waited = self.ago(52);
        let waiting = self.begin_loose(waiting, waited);
        for (id, since) in [(running, since), (Some(waiting), waited)] {
            if let Some(work) = id.and_then(|id| self.works.get_mut(&id)) {
                work.inqueue = Some(since);
            }
        }
        waiting
    }

    /// KAI's queues, a job that runs, and one that its queue's limit keeps out.
    fn kai_begins(&mut self) -> WorkId {
        let created = self.queues.created;
        for (name, parent, quota, limit) in
            [("media", "", 16, None), ("audio", "media", 8, Some(12))]
        {
            self.kai.push(KaiQueue {
                name: Name::new(name),
                parent: Name::new(parent),
                quota: Some(quota),
                limit,
                created,
                uid: mix(hash(name), 0xca1),
                edit: Edit::default(),
            });
        }
        let queue = "audio";
        let draft = |job: &str, user: &str, devices| {
            let mut draft = WorkParameters::new("speech", job, Kind::PyTorchJob)
                .by(user)
                .class("research")
                .on(KAI, devices)
                .by_scheduler(Scheduler::Kai(Name::new(queue)))
                .roles(&[("master", 1), ("worker", 1)])
                .gang();
            let label = (Name::new("kai.scheduler/queue"), Name::new(queue));
            draft.labels.push(label);
            draft
        };
        let running = draft("wav2vec-ft", "yuki", 4)
            .acts(Profile::Train, 0.9, 0.72)
            .lasts(1_600, 20);
        self.begin_running(running, self.ago(498), None);
        let waiting = draft("diarize-l", "paulo", 4)
            .acts(Profile::Train, 0.8, 0.6)
            .lasts(700, 20);
        self.begin_loose(waiting, self.ago(71))
    }

    /// Jobs that have their devices by claim, and one that waits for them.
    fn claims_begin(&mut self) -> WorkId {
        let born = self.queues.created;
        self.plain_object(
            Resource::DeviceClasses,
            ("", DRIVER),
            born,
            "DeviceClass",
            vec![],
        );
        for (namespace, name, count) in [
            ("speech", "four-gpus", 4),
            ("speech", "eight-gpus", 8),
            ("research", "one-gpu", 1),
        ] {
            let own = values!(request: request(count));
            let resource = Resource::ResourceClaimTemplates;
            self.plain_object(
                resource,
                (namespace, name),
                born,
                "ResourceClaimTemplate",
                own,
            );
        }
        let draft = |namespace: &str, job: &str, user: &str, template: &str, count| {
            let mut draft = WorkParameters::new(namespace, job, Kind::Job)
                .by(user)
                .class("research")
                .on(DRA, count);
            draft.ask.claim = Some(Name::new(template));
            draft
        };
        let running = draft("speech", "asr-distill", "yuki", "four-gpus", 4)
            .acts(Profile::Train, 0.83, 0.77)
            .shape(1, 2, 2)
            .gang()
            .lasts(1_400, 20);
        self.begin_running(running, self.ago(351), None);
        let running = draft("research", "rag-ablation", "noor", "one-gpu", 1)
            .acts(Profile::Sweep, 0.71, 0.55)
            .shape(1, 3, 96)
            .lasts(18, 0);
        self.begin_running(running, self.ago(203), None);
        let waiting = draft("speech", "vocoder-xl", "paulo", "eight-gpus", 8)
            .acts(Profile::Train, 0.8, 0.7)
            .shape(1, 1, 1)
            .gang()
            .lasts(600, 20);
        self.begin_loose(waiting, self.ago(48))
    }

    /// Training operators and KubeRay under Kueue, and a LeaderWorkerSet for serving.
    fn training_begins(&mut self) {
        self.flavor(B200);
        let created = self.queues.created;
        let cluster = self.queues.clusters.len();
        let name = POOLS[B200].flavor;
        let resource = Name::new(POOLS[B200].resources[0]);
        self.queues.clusters.push(ClusterQueue {
            quotas: vec![Quota {
                flavor: B200,
                resource,
                nominal: SHARED,
                borrow: None,
                lend: None,
                used: 0,
            }],
            ..ClusterQueue::new(Name::new(name), created, mix(hash(name), 71))
        });
        for namespace in ["vision", "research"] {
            let uid = mix(hash(namespace), hash(name));
            let own = Name::new(name);
            let local = LocalQueue::new(Name::new(namespace), own.clone(), own, created, uid);
            self.queues.locals.push(local);
        }
        let train = |namespace: &str, job: &str, kind, user: &str, devices| {
            WorkParameters::new(namespace, job, kind)
                .by(user)
                .queue(name)
                .class("research")
                .on(B200, devices)
                .gang()
        };
        let draft = train("vision", "segformer-b5", Kind::PyTorchJob, "lena", 8)
            .acts(Profile::Train, 0.87, 0.81)
            .roles(&[("master", 1), ("worker", 1)])
            .lasts(2_900, 20);
        self.begin_running(draft, self.ago(412), None);
        let mut draft = train("research", "rlhf-ppo", Kind::RayJob, "emma", 2)
            .acts(Profile::Sweep, 0.74, 0.58)
            .roles(&[("head", 1), ("workers", 1)])
            .lasts(1_260, 30);
        draft.image = "registry.internal/ml/ray:2.52.0-gpu";
        self.begin_running(draft, self.ago(183), None);
        let mut draft = WorkParameters::new("nlp", "chat-70b", Kind::LeaderWorkerSet)
            .by("mei")
            .class("prod-serve")
            .on(B200, 1)
            .acts(Profile::Serve, 0.68, 0.9)
            .shape(2, 2, 2);
        draft.gang = false;
        self.begin_running(draft, self.ago(5_704), None);
        let draft = train("vision", "sam2-ft", Kind::PyTorchJob, "omar", 4)
            .acts(Profile::Train, 0.8, 0.7)
            .roles(&[("master", 1), ("worker", 1)])
            .lasts(600, 20);
        let waiting = self.begin_waiting(draft, self.ago(37), false);
        self.consider(cluster, waiting);
    }
}
