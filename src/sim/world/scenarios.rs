//! The pieces that every demo fleet has: the gang that waits, the hoarders, the straggler, the services.

use model::base::{Moment, Name};

use super::catalog::{A100, CATALOG, H100, L4, MI300X, MIG, POOLS, V5P};
use super::noise::{mix, unit};
use super::work::{Profile, WorkId, WorkKind, WorkParameters};
use super::{World, seconds};

impl World {
    /// The number of nodes in proportion to the demo's pool.
    pub(super) fn part(&self, pool: usize, of_demo: u32) -> u32 {
        (f64::from(of_demo) * self.pools[pool].len() as f64 / f64::from(POOLS[pool].nodes)).round()
            as u32
    }

    pub(super) fn ago(&self, minutes: i64) -> Moment {
        self.now.minus(seconds(minutes * 60))
    }

    /// A work of the catalog with so many groups, pods of each at a time, and completions of each, and its creation time. Its own
    /// roles, if it has any, win.
    pub(super) fn story(
        &self,
        name: &str,
        [groups, pods, all]: [u32; 3],
    ) -> (WorkParameters, Moment) {
        let found = CATALOG.works.iter().find(|work| work.name == name);
        let spec = found.expect("the catalog has every work that is begun by name");
        let mut draft = WorkParameters::new(spec.namespace, name, spec.kind)
            .by(spec.user)
            .class(spec.class)
            .on(spec.pool, spec.devices)
            .acts(spec.profile, spec.util, spec.memory)
            .shape(groups, pods, all)
            .lasts(spec.minutes, spec.checkpoint);
        if !spec.roles.is_empty() {
            draft = draft.roles(&spec.roles);
        }
        draft.queue = spec.queue.map(Name::new);
        draft.gang = spec.gang;
        (draft, self.ago(spec.age))
    }

    /// Running and waiting work with a name and a reason.
    pub(super) fn scenarios(&mut self) {
        self.broken_gang();
        self.hot_gang();
        self.waiting_giants();
        let pods = self.part(H100, 16);
        if pods > 1 {
            let (draft, since) = self.story("moe-8x7b-r2", [1, pods, pods]);
            if let Some(id) = self.begin_running(draft, since, None)
                && let Some(work) = self.works.get_mut(&id)
            {
                work.straggler = Some((pods / 2, 3));
            }
        }
        let pods = self.part(H100, 4);
        if pods > 0 {
            let (draft, since) = self.story("video-vae-xl", [1, pods, pods]);
            self.begin_running(draft, since, None);
        }
        let wide = self.part(H100, 12);
        if wide > 1 {
            let (mut draft, since) = self.story("sweep-0412", [1, wide, wide * 5]);
            draft.labels.push((Name::new("sweep"), Name::new("0412")));
            self.begin_running(draft, since, None);
        }
        self.notebooks();
        self.odd_ones();
    }

    /// A gang with a rank on a device that is about to fall, or has fallen, off the bus.
    fn broken_gang(&mut self) {
        if !self.has(A100, 24) {
            return;
        }
        let nodes = self.serials(A100, 13..=20);
        let (draft, since) = self.story("clip-h", [1, 8, 8]);
        let id = self.begin_running(draft, since, Some(&nodes));
        self.staged.broken_gang = id;
        // With this the queue's quota is used up to the last device.
        let quota = self.part(A100, 16).saturating_sub(8 + 3);
        if quota > 0 {
            let (draft, since) = self.story("dit-b-ft", [1, quota, quota]);
            self.begin_running(draft, since, None);
        }
    }

    /// Hard work at the top of the rack whose aisle is blocked.
    fn hot_gang(&mut self) {
        if !self.has(A100, 24) {
            return;
        }
        let nodes = self.serials(A100, 21..=23);
        if let Some(node) = nodes.first() {
            self.staged.hot_rack = Some(self.nodes[*node].rack);
        }
        let (draft, since) = self.story("detr-xl", [1, 3, 3]);
        self.begin_running(draft, since, Some(&nodes));
    }

    /// Gangs that have their quota and wait for devices, and one that waits for quota.
    fn waiting_giants(&mut self) {
        let pods = self.part(H100, 64);
        if pods > 3 {
            let (draft, since) = self.story("llm-70b-sft", [1, pods, pods]);
            self.begin_waiting(draft, since, true);
        }
        let slices = self.pools[V5P].len() as u32 / self.slice_hosts().max(1);
        if slices > 1 {
            let hosts = self.slice_hosts();
            let (mut draft, since) = self.story("asr-xl", [slices / 2, hosts, hosts]);
            draft.sliced = true;
            self.begin_waiting(draft, since, true);
        }
        let pods = self.part(A100, 8);
        if pods > 0 && self.has(A100, 24) {
            let (draft, since) = self.story("clip-l", [1, pods, pods]);
            self.begin_waiting(draft, since, false);
        }
        let slots = self.part(MIG, 5) * 20;
        if slots > 0 {
            let (draft, since) = self.story("hpo-quant", [1, slots, slots * 2]);
            self.begin_waiting(draft, since, false);
        }
    }

    /// A work that has been waiting since `since`, with its quota reserved or not.
    pub(super) fn begin_waiting(
        &mut self,
        draft: WorkParameters,
        since: Moment,
        admitted: bool,
    ) -> WorkId {
        let now = std::mem::replace(&mut self.now, since);
        let shape = draft.groups.clone();
        let id = self.begin(draft, since);
        if admitted {
            let cell = self.works.get(&id).and_then(|work| {
                let (cluster, _) = self.queues.find(&work.namespace, work.queue.as_ref()?)?;
                let cell = self.queues.cell(cluster, work)?;
                (self.queues.available(cluster, cell) >= work.devices()).then_some((cluster, cell))
            });
            if let Some((cluster, cell)) = cell {
                self.now = since.plus(seconds(21));
                self.reserve(cluster, cell, id);
                let at = self.now;
                if let Some(work) = self.works.get_mut(&id) {
                    work.suspended = false;
                    work.suspended_since = at;
                    for group in &mut work.groups {
                        group.started = Some(at);
                    }
                }
                for (group, (_, parallelism, _)) in shape.iter().enumerate() {
                    for index in 0..*parallelism {
                        self.make_pod(id, group as u32, index);
                    }
                }
            }
        }
        self.now = now;
        id
    }

    /// Notebooks: hoarders on whole A100 nodes, and many on MIG slices.
    fn notebooks(&mut self) {
        let count = self.part(A100, 13);
        for at in 0..count {
            let team = &CATALOG.teams[[1, 0, 3, 2, 5, 3, 1][at as usize % 7]];
            let (namespace, people) = (team.namespace, &team.people);
            let word = mix(self.key_word("hoard"), u64::from(at));
            let user = people[at as usize % people.len()];
            let (size, minutes) = match at {
                0 => (8, 182),
                n if n % 4 == 3 => (4, 60 + (word % 2_000) as i64),
                _ => (8, 200 + (word % 3_400) as i64),
            };
            let name = if at == 0 {
                "notebook-4".to_owned()
            } else {
                format!("notebook-{user}-{}", at + 4)
            };
            let user = if at == 0 { "kim" } else { user };
            let mut draft = WorkParameters::new(namespace, &name, WorkKind::StatefulSet)
                .by(user)
                .on(A100, size);
            let used = if at % 5 == 4 { 0.6 } else { 0.0 };
            draft = draft
                .acts(Profile::Notebook, used, 0.2 + 0.7 * unit(word))
                .shape(1, 1, 1);
            draft.length = (minutes + 240 + (word % 1_500) as i64) * 60_000;
            let since = self.ago(minutes);
            self.begin_running(draft, since, None);
        }
        for (namespace, name, user, pool, minutes) in [
            ("nlp", "debug-mei", "mei", A100, 96),
            ("vision", "shell-lena", "lena", L4, 27),
        ] {
            if self.has(pool, 8) {
                let mut draft = WorkParameters::new(namespace, name, WorkKind::Pod)
                    .by(user)
                    .on(pool, 1)
                    .acts(Profile::Notebook, 0.35, 0.18)
                    .shape(1, 1, 1);
                draft.length = (minutes + 150) * 60_000;
                let since = self.ago(minutes);
                self.begin_running(draft, since, None);
            }
        }
        let slots = self.capacity(MIG) * 2 / 5;
        for at in 0..slots {
            let team = &CATALOG.teams[at as usize % 4];
            let (namespace, people) = (team.namespace, &team.people);
            let word = mix(self.key_word("slice"), u64::from(at));
            let user = people[word as usize % people.len()];
            let mut draft =
                WorkParameters::new(namespace, &format!("nb-{user}-{at}"), WorkKind::StatefulSet)
                    .by(user)
                    .on(MIG, 1)
                    .acts(
                        Profile::Notebook,
                        0.2 + 0.5 * unit(mix(word, 2)),
                        0.15 + 0.7 * unit(mix(word, 3)),
                    )
                    .shape(1, 1, 1);
            if at % 9 == 8 && self.nodes.iter().any(|node| node.capacity(1) > 0) && at < 48 {
                draft.ask.resource = Some(Name::new(POOLS[MIG].resources[1]));
            }
            let minutes = 20 + (word % 1_400) as i64;
            draft.length = (minutes + 30 + (mix(word, 5) % 1_500) as i64) * 60_000;
            let since = self.ago(minutes);
            self.begin_running(draft, since, None);
        }
    }

    /// Jobs that wait for a reason of their own.
    fn odd_ones(&mut self) {
        if self.has(MI300X, 1) {
            let (mut draft, since) = self.story("rocm-port-ci", [1, 1, 1]);
            draft.tolerations.clear();
            self.begin_loose(draft, since);
        }
        let (mut draft, since) = self.story("h200-probe", [1, 2, 2]);
        draft.pool = None;
        draft.selector = std::iter::once((
            Name::new("nvidia.com/gpu.product"),
            Name::new("NVIDIA-H200"),
        ))
        .collect();
        self.begin_loose(draft, since);
        if self.has(A100, 1) {
            let (mut draft, since) = self.story("graph-build", [1, 1, 1]);
            draft.ask.memory_mib = 1400 * 1024;
            self.begin_loose(draft, since);
        }
        if self.has(H100, 2) {
            let (mut draft, since) = self.story("tts-multi-v2", [1, 2, 2]);
            draft.held = true;
            self.begin(draft, since);
        }
        if self.has(H100, 8) {
            let quota = self.part(H100, 40);
            let (draft, since) = self.story("scaling-law-xxl", [1, quota, quota]);
            self.begin_waiting(draft, since, false);
        }
    }

    /// A job outside every queue whose pods have been waiting since `since`.
    pub(super) fn begin_loose(&mut self, draft: WorkParameters, since: Moment) -> WorkId {
        let now = std::mem::replace(&mut self.now, since);
        let groups = draft.groups.clone();
        let id = self.begin(draft, since);
        for (group, (_, pods, _)) in groups.into_iter().enumerate() {
            for index in 0..pods {
                self.make_pod(id, group as u32, index);
            }
        }
        if let Some(work) = self.works.get_mut(&id) {
            for group in &mut work.groups {
                group.started = Some(since);
            }
        }
        self.now = now;
        id
    }
}
