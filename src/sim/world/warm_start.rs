//! The state at the start: a fleet in mid-life, drawn directly instead of simulated.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use model::base::{Moment, Name, ObjectKey};

use super::arrivals::draw;
use super::catalog::{A100, DRAWN, H100, L4, MI300X, MIG, POOLS, V5P, V6E};
use super::node::NodeId;
use super::noise::{mix, unit};
use super::pod::{Ending, PastRun, PodId, PodPhase};
use super::work::{Profile, WorkId, WorkKind, WorkParameters, WorkState};
use super::{Happening, World, seconds};

/// Devices of a pool per past run.
const PAST_SHARE: u32 = 12;

impl World {
    /// Draws the whole initial state.
    pub(super) fn warm_start(&mut self) {
        self.plan_arrivals();
        self.scenarios();
        self.services();
        self.fill();
        self.wait_in_line();
        self.stage_faults();
        for node in 0..self.nodes.len() {
            let left = 300_000 - self.now.since(self.nodes[node].heartbeat).millis() as i64;
            self.after(left.clamp(1, 300_000), Happening::Heartbeat(node));
        }
        for pool in 0..DRAWN {
            self.next_arrival(pool);
        }
        self.live = true;
        for _ in 0..4 {
            self.admit();
            self.reconcile_admitted();
            self.schedule();
        }
        self.age_the_lucky();
        if self.options.past {
            self.past_runs();
        }
    }

    /// Creates the pods of admitted work immediately, without a controller's delay.
    fn reconcile_admitted(&mut self) {
        let admitted = self.works.iter();
        let admitted = admitted.filter(|(_, work)| work.queued_reconcile && !work.suspended);
        let admitted: Vec<WorkId> = admitted.map(|(id, _)| *id).collect();
        for id in admitted {
            self.reconcile(id);
        }
    }

    /// Sets the start of immediately placed work in the past.
    fn age_the_lucky(&mut self) {
        let now = self.now;
        let lucky: Vec<(WorkId, Moment)> = self
            .works
            .iter()
            .filter(|(_, work)| {
                work.state == WorkState::Waiting
                    && work.kind.is_batch()
                    && work.groups.iter().all(|group| !group.live.is_empty())
                    && work
                        .pods
                        .iter()
                        .all(|pod| self.pods.get(pod).is_some_and(|pod| pod.node.is_some()))
            })
            .map(|(id, work)| (*id, work.created))
            .collect();
        for (id, created) in lucky {
            let waited = now.since(created).seconds() as f64 * unit(mix(u64::from(id), 0x1c));
            let since = created.plus(seconds(waited as i64 + 5)).min(now);
            if let Some(work) = self.works.get_mut(&id) {
                work.suspended_since = since;
                for group in &mut work.groups {
                    group.started = Some(since);
                }
                if let Some((_, _, at)) = work
                    .workload
                    .as_mut()
                    .and_then(|workload| workload.reserved.as_mut())
                {
                    *at = since;
                }
                work.length = work.length.max(now.since(since).millis() as i64 + 120_000);
            }
            self.age(id, since);
        }
    }

    /// Starts a work that has run since `since`. False, without effect, when quota or free devices are missing.
    pub(super) fn begin_running(
        &mut self,
        draft: WorkParameters,
        since: Moment,
        only: Option<&[NodeId]>,
    ) -> Option<WorkId> {
        let at = self.now;
        let waited = seconds((mix(draft.length as u64, 17) % 900) as i64 + 3);
        let managed = draft.queue.is_some() && draft.kind.is_batch();
        let replicas = draft.groups.clone();
        self.now = since;
        let id = self.begin(draft, since.minus(waited));
        let quota = if managed {
            self.has_quota(id)
        } else {
            Some(None)
        };
        let placed = quota.and_then(|cell| {
            let mut wanted = Vec::new();
            for (group, (_, parallelism, completions)) in replicas.iter().enumerate() {
                let done = self.already_done(id, group as u32, since, at);
                wanted.extend(
                    (done..*completions)
                        .take(*parallelism as usize)
                        .map(|index| (group as u32, index)),
                );
            }
            let pods: Vec<PodId> = wanted
                .iter()
                .map(|(group, index)| self.make_pod(id, *group, *index))
                .collect();
            let plan = self.seats(id, &pods, only)?;
            Some((cell, plan))
        });
        let Some((cell, plan)) = placed else {
            self.remove_work(id);
            self.now = at;
            return None;
        };
        if let Some((cluster, cell)) = cell {
            self.reserve(cluster, cell, id);
        }
        if let Some(work) = self.works.get_mut(&id) {
            work.suspended = false;
            work.suspended_since = since;
            for group in &mut work.groups {
                group.started = Some(since);
            }
        }
        for (pod, node) in plan {
            self.bind(pod, node);
        }
        self.now = at;
        self.age(id, since);
        Some(id)
    }

    /// The cluster queue and quota that can admit a work; the inner `None` when it needs no quota.
    fn has_quota(&self, id: WorkId) -> Option<Option<(usize, usize)>> {
        let work = self.works.get(&id)?;
        let queue = work.queue.as_ref()?;
        let (cluster, _) = self.queues.find(&work.namespace, queue)?;
        let cell = self.queues.cell(cluster, work)?;
        (self.queues.available(cluster, cell) >= work.devices()).then_some(Some((cluster, cell)))
    }

    /// Marks the indices that an independent work has completed since it began.
    fn already_done(&mut self, id: WorkId, group: u32, since: Moment, at: Moment) -> u32 {
        let Some(work) = self.works.get_mut(&id) else {
            return 0;
        };
        let (length, rounds) = (work.length.max(1), work.kind.is_batch() && !work.gang);
        let Some(part) = work.groups.get_mut(group as usize) else {
            return 0;
        };
        if !rounds || part.completions <= part.parallelism {
            return 0;
        }
        let rounds = at.since(since).millis() as i64 / length;
        let done = (rounds as u32 * part.parallelism).min(part.completions - part.parallelism);
        part.done.extend(0..done);
        done
    }

    /// Nodes for pods: as the scheduler would choose, or the given ones.
    fn seats(
        &self,
        id: WorkId,
        pods: &[PodId],
        only: Option<&[NodeId]>,
    ) -> Option<Vec<(PodId, NodeId)>> {
        let work = self.works.get(&id)?;
        match only {
            Some(nodes) => {
                let mut seats = nodes.iter().flat_map(|node| {
                    std::iter::repeat_n(*node, self.takes(&self.nodes[*node], work) as usize)
                });
                pods.iter().map(|pod| Some((*pod, seats.next()?))).collect()
            }
            None if work.sliced => self.plan_slices(work, pods),
            None if work.gang || pods.len() > 1 => self.plan_racks(work, pods),
            None => Some(vec![(*pods.first()?, self.best_node(id)?)]),
        }
    }

    /// Gives a running work its past: start times, checkpoints, and an end in the future.
    fn age(&mut self, id: WorkId, since: Moment) {
        let at = self.now;
        let Some(work) = self.works.get_mut(&id) else {
            return;
        };
        let running = since.plus(seconds(40)).min(at);
        work.state = WorkState::Running;
        work.running_since = Some(running);
        if let Some(workload) = &mut work.workload {
            workload.pods_ready = Some(running);
        }
        let elapsed = at.since(running).millis() as i64;
        if work.checkpoint_every > 0 && elapsed > work.checkpoint_every {
            let past = elapsed / work.checkpoint_every * work.checkpoint_every;
            work.last_checkpoint = Some(Moment::from_millis(running.millis() + past));
        }
        let next = work.checkpoint_every - elapsed.rem_euclid(work.checkpoint_every.max(1));
        let left = (work.length - elapsed).max(45_000);
        let (every, gang, notebook, epoch) = (
            work.checkpoint_every,
            work.gang,
            work.profile == Profile::Notebook,
            work.epoch,
        );
        let (batch, bare) = (work.kind.is_batch(), work.kind == WorkKind::Pod);
        let (single, length) = (work.width() == 1, work.length);
        let serves = work.profile == Profile::Serve;
        let pods: Vec<PodId> = work.live_pods().collect();
        if gang || notebook {
            self.after(left, Happening::WorkEnds(id, epoch));
            if every > 0 {
                self.after(next, Happening::Checkpoint(id, epoch));
            }
        }
        let mut recent: Vec<(Moment, ObjectKey, u64, Name)> = Vec::new();
        for pod_id in pods {
            let word = mix(u64::from(pod_id), 0xa6e);
            let Some(pod) = self.pods.get_mut(&pod_id) else {
                continue;
            };
            // Independent members of a sweep are at different points of their runs.
            let began = if gang || single || !batch {
                since
            } else {
                since.max(Moment::from_millis(
                    at.millis() - (unit(word) * length as f64 * 0.9) as i64,
                ))
            };
            let floor = pod.node.map_or(began, |node| self.nodes[node].ready_since);
            let began = began.max(floor.min(at));
            let began = Moment::from_millis(began.millis() / 1000 * 1000);
            pod.created = began;
            pod.scheduled = Some(began);
            pod.started = Some(began.plus(seconds(3 + (word % 18) as i64)).min(at));
            pod.ready = pod.started.map(|started| {
                if notebook || batch {
                    started
                } else {
                    started.plus(seconds(48)).min(at)
                }
            });
            pod.phase = PodPhase::Running;
            if at.since(began).seconds() < 3600
                && let Some(node) = pod.node
            {
                let (key, uid) = (pod.key.clone(), pod.uid);
                recent.push((began, key, uid, self.nodes[node].name.clone()));
            }
            let started = pod.started.unwrap_or(at);
            if serves && unit(mix(word, 8)) < 0.02 && at.since(started).seconds() > 900 {
                // Its container has been OOM-killed before.
                let again = Moment::from_millis(
                    started.millis()
                        + (at.since(started).millis() as f64 * unit(mix(word, 9)) * 0.9) as i64,
                );
                let again = Moment::from_millis(again.millis() / 1000 * 1000);
                pod.last = Some(PastRun {
                    ending: Ending::OutOfMemory,
                    started,
                    finished: again,
                });
                pod.restarts = 1 + (word % 3) as u32;
                pod.started = Some(again.plus(seconds(11)));
                pod.ready = Some(again.plus(seconds(52)));
            }
            if !gang && (batch || (bare && !notebook)) {
                let (length, ending) = self.fate(pod_id);
                let left = length - at.since(started).millis() as i64;
                let left = if left > 0 {
                    left
                } else {
                    (unit(mix(word, 4)) * 1_200_000.0) as i64 + 30_000
                };
                self.after(left, Happening::PodEnds(pod_id, ending));
            }
        }
        // Events that the API server would still have.
        for (began, key, uid, node) in recent {
            let now = std::mem::replace(&mut self.now, began);
            let message = format!("Successfully assigned {key} to {node}");
            let about = ("Pod", &*key.name, uid);
            self.event(&key.namespace, about, "Normal", "Scheduled", message);
            self.now = now;
        }
    }

    /// Fills every pool with ordinary work up to its target allocation.
    fn fill(&mut self) {
        for (pool, spec) in POOLS[..DRAWN].iter().enumerate() {
            let capacity = self.capacity(pool);
            let hosts = self.slice_hosts();
            let goal = (f64::from(capacity) * spec.full) as u32;
            let mut misses = 0;
            let mut held: u32 = self.held_units(pool);
            while held < goal && misses < 60 {
                let at = self.now;
                let mut draft = self.seen_at_random(pool, capacity, hosts);
                if draft.groups.iter().map(|group| group.1).sum::<u32>() * draft.ask.count
                    > goal - held
                {
                    // Fills the last gaps with small work.
                    draft = self.small(pool, goal - held, &draft);
                }
                let whole = draft.length as f64
                    * f64::from(draft.groups[0].2.div_ceil(draft.groups[0].1.max(1)));
                let elapsed = (whole * (0.03 + 0.94 * self.rng.random::<f64>())) as i64 / 1000;
                let since = at.minus(seconds(elapsed.max(20)));
                let wide: u32 =
                    draft.groups.iter().map(|group| group.1).sum::<u32>() * draft.ask.count;
                match self.begin_running(draft, since, None) {
                    Some(_) => {
                        held += wide;
                        misses = 0;
                    }
                    None => misses += 1,
                }
            }
        }
    }

    /// A job as a random observer finds it running: drawn with odds proportional to its length.
    fn seen_at_random(&mut self, pool: usize, capacity: u32, hosts: u32) -> WorkParameters {
        let mut drawn: Vec<WorkParameters> = (0..6)
            .map(|_| draw(&mut self.rng, pool, capacity, hosts))
            .collect();
        let total: f64 = drawn.iter().map(|draft| draft.length as f64).sum();
        let mut left = self.rng.random::<f64>() * total;
        let at = drawn
            .iter()
            .position(|draft| {
                left -= draft.length as f64;
                left <= 0.0
            })
            .unwrap_or(0);
        drawn.swap_remove(at)
    }

    fn small(&mut self, pool: usize, room: u32, like: &WorkParameters) -> WorkParameters {
        if pool == V5P {
            return like.clone();
        }
        let count = room.clamp(
            1,
            if pool == V6E {
                8
            } else {
                POOLS[pool]
                    .per_node
                    .min(room.next_power_of_two() / 2)
                    .max(1)
            },
        );
        let count = if POOLS[pool].mig { 1 } else { count };
        let mut draft = WorkParameters::new(&like.namespace, &like.name, WorkKind::Job);
        draft.user = like.user.clone();
        draft.queue = like.queue.clone();
        draft.class = like.class.clone();
        draft.priority = like.priority;
        let mut draft = draft
            .on(pool, count)
            .acts(Profile::Train, like.util, like.memory)
            .shape(1, 1, 1)
            .gang();
        draft.length = like.length;
        draft
    }

    /// Allocated units of a pool's first resource.
    pub(super) fn held_units(&self, pool: usize) -> u32 {
        self.pools[pool]
            .iter()
            .map(|id| self.nodes[*id].unit_pods.iter().flatten().count() as u32)
            .sum()
    }

    /// Ordinary jobs that are pending, and some that ended within the last half hour.
    fn wait_in_line(&mut self) {
        for (pool, share) in [
            (H100, 0.06),
            (A100, 0.10),
            (V6E, 0.12),
            (MI300X, 0.1),
            (MIG, 0.06),
            (L4, 0.01),
        ] {
            let capacity = self.capacity(pool);
            if capacity == 0 {
                continue;
            }
            let goal = (f64::from(capacity) * share).ceil() as u32;
            let mut waiting = 0;
            for _ in 0..200 {
                if waiting >= goal {
                    break;
                }
                let hosts = self.slice_hosts();
                let draft = draw(&mut self.rng, pool, capacity, hosts);
                let wide: u32 =
                    draft.groups.iter().map(|group| group.1).sum::<u32>() * draft.ask.count;
                if wide > goal {
                    continue;
                }
                waiting += wide;
                let ago = (self.rng.random::<f64>().powi(2) * 5400.0) as i64 + 15;
                self.begin(draft, self.now.minus(seconds(ago)));
            }
        }
        self.recent_past();
    }

    /// Work that ended recently, successfully or not.
    fn recent_past(&mut self) {
        let total: u32 = (0..DRAWN).map(|pool| self.capacity(pool)).sum();
        for at in 0..(total / 160).clamp(2, 200) {
            let pool = [H100, A100, MIG, A100][at as usize % 4];
            let capacity = self.capacity(pool);
            let Some(&node) =
                self.pools[pool].get((at as usize * 7) % self.pools[pool].len().max(1))
            else {
                continue;
            };
            let hosts = self.slice_hosts();
            let mut draft = draw(&mut self.rng, pool, capacity, hosts);
            draft.groups.truncate(1);
            draft = draft.shape(1, 1, 1);
            let ending = match at % 4 {
                1 => Ending::Exit(1),
                3 => Ending::OutOfMemory,
                _ => Ending::Success,
            };
            draft.ending = ending;
            let ended = self
                .now
                .minus(seconds(40 + (self.rng.random::<f64>() * 1700.0) as i64));
            let began = ended.minus(seconds(60 + (draft.length / 1000).min(20_000)));
            self.has_run(draft, node, began, ended);
        }
    }

    /// Successful runs that are not cleaned up yet, from which forecasts learn. Drawn from a random stream of their own, so that
    /// the rest of the world does not depend on them.
    fn past_runs(&mut self) {
        let mut rng = Pcg64Mcg::seed_from_u64(mix(self.options.seed, 0x9a57));
        for pool in 0..DRAWN {
            let capacity = self.capacity(pool);
            let hosts = self.slice_hosts();
            let nodes = self.pools[pool].clone();
            let Some(last) = nodes.len().checked_sub(1) else {
                continue;
            };
            for at in 0..(capacity / PAST_SHARE).clamp(6, 120) as usize {
                let mut draft = draw(&mut rng, pool, capacity, hosts);
                if !draft.kind.is_batch() {
                    continue;
                }
                draft.groups.truncate(1);
                draft = draft.shape(1, 1, 1);
                draft.ending = Ending::Success;
                let ended = self
                    .now
                    .minus(seconds(40 + (rng.random::<f64>() * 1700.0) as i64));
                let began = ended.minus(seconds(6 + draft.length / 1000));
                self.has_run(draft, nodes[(at * 7) % (last + 1)], began, ended);
            }
        }
    }

    /// Adds a finished work of one pod that ran on a node.
    fn has_run(&mut self, draft: WorkParameters, node: NodeId, began: Moment, ended: Moment) {
        let ending = draft.ending;
        let now = std::mem::replace(&mut self.now, began);
        let id = self.begin(draft, began.minus(seconds(30)));
        let pod = self.make_pod(id, 0, 0);
        self.now = now;
        if let Some(work) = self.works.get_mut(&id) {
            work.suspended = false;
            work.suspended_since = began;
            work.groups[0].started = Some(began);
            work.groups[0].live.clear();
            work.groups[0].completed = Some(ended);
            work.state = WorkState::Done(ended, ending == Ending::Success);
            if ending == Ending::Success {
                work.groups[0].done.insert(0);
            } else {
                work.groups[0].failed = 1;
                work.failure = Some((
                    Name::new("BackoffLimitExceeded"),
                    Name::new("Job has reached the specified backoff limit"),
                ));
            }
            let entry = (-work.priority, began.millis(), id, pod);
            self.unplaced.remove(&entry);
        }
        self.enqueue(id);
        if let Some(pod) = self.pods.get_mut(&pod) {
            pod.node = Some(node);
            pod.scheduled = Some(began);
            pod.started = Some(began.plus(seconds(6)));
            pod.finished = Some(ended);
            pod.phase = if ending == Ending::Success {
                PodPhase::Succeeded
            } else {
                PodPhase::Failed
            };
            pod.ending = Some(ending);
        }
        let left = 1800 - self.now.since(ended).seconds() as i64;
        self.after(left.max(5) * 1000, Happening::Expire(id));
    }

    /// Nodes of a pool with these serials.
    pub(super) fn serials(
        &self,
        pool: usize,
        serials: std::ops::RangeInclusive<u32>,
    ) -> Vec<NodeId> {
        self.pools[pool]
            .iter()
            .copied()
            .filter(|id| serials.contains(&self.nodes[*id].serial))
            .collect()
    }

    /// True when the pool has at least this many nodes.
    pub(super) fn has(&self, pool: usize, nodes: usize) -> bool {
        self.pools[pool].len() >= nodes
    }
}
