//! Pools with fixed workloads: a few nodes each, with the workload kinds that the other pools do not have.
//!
//! They are added last, so that the rest of a fleet is the same for a seed with and without them.

use model::base::Name;

use super::super::change::Resource;
use super::catalog::{B200, POOLS};
use super::claims::DRIVER;
use super::clients::patch::Edit;
use super::node::SimNode;
use super::noise::{hash, mix};
use super::queueing::kai::KaiQueue;
use super::queueing::kueue::{ClusterQueue, LocalQueue, SimQuota};
use super::queueing::volcano::{ROOT, VolcanoQueue};
use super::render::{request, values};
use super::work::{Scheduler, WorkId, WorkKind, WorkParameters};
use super::{Happening, World};

/// The B200 that the cluster queue has: those that Kueue's jobs share, without the ones that serve.
const SHARED: u32 = 20;

impl World {
    /// Adds the nodes, with the workloads on them.
    pub(super) fn add_fixed_pools(&mut self, nodes: Vec<SimNode>) {
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
            .filter(|(_, work)| work.kind == WorkKind::DaemonSet)
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
        let scheduler = || Scheduler::Volcano(Name::new("rendering"));
        let (running, since) = self.story("render-sim", [1; 3]);
        let running = self.begin_running(running.by_scheduler(scheduler()), since, None);
        let (waiting, waited) = self.story("nerf-bake", [1; 3]);
        let waiting = self.begin_loose(waiting.by_scheduler(scheduler()), waited);
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
        let by_kai = |mut draft: WorkParameters| {
            let queue = Name::new("audio");
            draft
                .labels
                .push((Name::new("kai.scheduler/queue"), queue.clone()));
            draft.by_scheduler(Scheduler::Kai(queue))
        };
        let (running, since) = self.story("wav2vec-ft", [1; 3]);
        self.begin_running(by_kai(running), since, None);
        let (waiting, since) = self.story("diarize-l", [1; 3]);
        self.begin_loose(by_kai(waiting), since)
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
        let by_claim = |(mut draft, since): (WorkParameters, _), template: &str| {
            draft.ask.claim = Some(Name::new(template));
            (draft, since)
        };
        let (running, since) = by_claim(self.story("asr-distill", [1, 2, 2]), "four-gpus");
        self.begin_running(running, since, None);
        let (running, since) = by_claim(self.story("rag-ablation", [1, 3, 96]), "one-gpu");
        self.begin_running(running, since, None);
        let (waiting, since) = by_claim(self.story("vocoder-xl", [1, 1, 1]), "eight-gpus");
        self.begin_loose(waiting, since)
    }

    /// Training operators and KubeRay under Kueue, and a LeaderWorkerSet for serving.
    fn training_begins(&mut self) {
        self.flavor(B200);
        let created = self.queues.created;
        let cluster = self.queues.clusters.len();
        let name = POOLS[B200].flavor;
        let resource = Name::new(POOLS[B200].resources[0]);
        self.queues.clusters.push(ClusterQueue {
            quotas: vec![SimQuota {
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
        let (draft, since) = self.story("segformer-b5", [1; 3]);
        self.begin_running(draft, since, None);
        let (mut draft, since) = self.story("rlhf-ppo", [1; 3]);
        draft.image = "registry.internal/ml/ray:2.52.0-gpu";
        self.begin_running(draft, since, None);
        let (draft, since) = self.story("chat-70b", [2, 2, 2]);
        self.begin_running(draft, since, None);
        let (draft, since) = self.story("sam2-ft", [1; 3]);
        let waiting = self.begin_waiting(draft, since, false);
        self.consider(cluster, waiting);
    }
}
