//! What teams submit: sizes, durations and shapes drawn from heavy-tailed distributions.
//!
//! The shape follows published traces: nine in ten jobs need one device, a few gangs need hundreds, durations
//! are log-normal with a long tail.

use std::collections::BTreeMap;

use rand::{Rng, RngExt};
use rand_distr::{Distribution, Exp1, LogNormal};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::SeedableRng;

use model::base::Name;

use super::catalog::{A100, DRAWN, H100, MI300X, MIG, POOLS, V5P, V6E, class_value, team, team_of};
use super::noise::{hash, hex, mix, suffix};
use super::physics::day;
use super::pod::Ending;
use super::serving::image_of;
use super::work::{
    Profile, Scheduler, SimToleration, WorkId, WorkKind, WorkParameters, WorkloadRequests,
};
use super::{Happening, World};

const MINUTE: f64 = 60_000.0;
/// The longest job: four days.
const LONGEST: f64 = 4.0 * 24.0 * 60.0 * MINUTE;

/// Arrival rates of the pools.
#[derive(Clone, Debug, Default)]
pub(super) struct Arrivals {
    /// Mean milliseconds between arrivals; 0 for no arrivals.
    pub mean: [f64; DRAWN],
}

fn pick<'a, T>(rng: &mut impl Rng, choices: &'a [(f64, T)]) -> &'a T {
    let total: f64 = choices.iter().map(|choice| choice.0).sum();
    let mut at = rng.random::<f64>() * total;
    for (weight, choice) in choices {
        at -= weight;
        if at <= 0.0 {
            return choice;
        }
    }
    &choices[choices.len() - 1].1
}

fn millis(rng: &mut impl Rng, median_minutes: f64, sigma: f64) -> i64 {
    let drawn = LogNormal::new((median_minutes * MINUTE).ln(), sigma)
        .map_or(median_minutes * MINUTE, |law| law.sample(rng));
    drawn.clamp(MINUTE, LONGEST) as i64
}

impl WorkParameters {
    /// A one-pod job with default values.
    pub(super) fn new(namespace: &str, name: &str, kind: WorkKind) -> Self {
        Self {
            namespace: Name::new(namespace),
            name: Name::new(name),
            kind,
            user: Name::default(),
            team: Name::new(team_of(namespace)),
            queue: None,
            class: Name::default(),
            priority: 0,
            ask: WorkloadRequests::default(),
            pool: None,
            selector: BTreeMap::new(),
            tolerations: Vec::new(),
            gang: false,
            scheduler: Scheduler::Kube,
            sliced: false,
            groups: vec![(Name::new(name), 1, 1)],
            profile: Profile::Infra,
            util: 0.0,
            memory: 0.0,
            length: 3_600_000,
            ending: Ending::Success,
            checkpoint_every: 0,
            image: "registry.internal/ml/base:2026.11",
            held: false,
            curve: None,
            labels: Vec::new(),
            foreign: None,
        }
    }

    /// The same with another priority class.
    pub(super) fn class(mut self, class: &str) -> Self {
        self.class = Name::new(class);
        self.priority = class_value(class);
        self
    }

    /// The same through a local queue.
    pub(super) fn queue(mut self, queue: &str) -> Self {
        self.queue = Some(Name::new(queue));
        self
    }

    /// The same with groups of these names, each with its number of pods.
    pub(super) fn roles(mut self, roles: &[(&str, u32)]) -> Self {
        self.groups = roles
            .iter()
            .map(|(name, pods)| (Name::new(name), *pods, *pods))
            .collect();
        self
    }

    /// The same placed by another scheduler.
    pub(super) fn by_scheduler(mut self, scheduler: Scheduler) -> Self {
        self.scheduler = scheduler;
        self
    }

    /// The same with this many equal groups.
    pub(super) fn shape(mut self, groups: u32, parallelism: u32, completions: u32) -> Self {
        self.groups = (0..groups)
            .map(|at| {
                let name = match self.kind {
                    WorkKind::JobSet => Name::from(format!("{}-workers-{at}", self.name)),
                    WorkKind::LeaderWorkerSet => Name::from(format!("{}-{at}", self.name)),
                    WorkKind::Deployment => {
                        Name::from(format!("{}-{}", self.name, suffix(hash(&self.name), 10)))
                    }
                    _ => self.name.clone(),
                };
                (name, parallelism, completions)
            })
            .collect();
        self
    }

    /// The same with `count` devices a pod in a pool, and the pool's selector and tolerations.
    pub(super) fn on(mut self, pool: usize, count: u32) -> Self {
        let spec = &POOLS[pool];
        self.pool = Some(pool);
        self.ask.resource = Some(Name::new(spec.resources[0]));
        self.ask.count = count;
        let share = f64::from(count) / f64::from(spec.units());
        self.ask.cpu_milli = ((f64::from(spec.cpu) * 0.45 * share).floor() as i64).max(1) * 1000;
        self.ask.memory_mib =
            ((f64::from(spec.memory_gib) * 0.45 * share).floor() as i64).max(1) * 1024;
        self.selector = selector(pool);
        self.tolerations
            .extend(spec.taint.map(|(key, _)| SimToleration {
                key: Name::new(key),
                value: None,
                effect: Name::new("NoSchedule"),
                seconds: None,
            }));
        self
    }

    /// The same with this behavior: profile, mean utilization, share of device memory.
    pub(super) fn acts(mut self, profile: Profile, util: f64, memory: f64) -> Self {
        self.profile = profile;
        self.util = util;
        self.memory = memory;
        self.image = match (profile, self.pool) {
            (Profile::Serve, _) => image_of(&self.name),
            (Profile::Notebook, _) => "registry.internal/tools/jupyter-gpu:5.3",
            (Profile::Eval, _) => "registry.internal/ml/evals:2026.11",
            (_, Some(V5P | V6E)) => "registry.internal/ml/maxtext:2026.10",
            (_, Some(MI300X)) => "registry.internal/ml/pytorch-rocm:7.1",
            _ => "registry.internal/ml/pytorch:2.9-cu130",
        };
        self
    }

    /// The same with this owner.
    pub(super) fn by(mut self, user: &str) -> Self {
        self.user = Name::new(user);
        self
    }

    /// The same with this length in minutes, and minutes between checkpoints (0: none).
    pub(super) fn lasts(mut self, minutes: i64, checkpoint: i64) -> Self {
        self.length = minutes * 60_000;
        self.checkpoint_every = checkpoint * 60_000;
        self
    }

    /// The same as a gang.
    pub(super) fn gang(mut self) -> Self {
        self.gang = true;
        self
    }
}

/// The node labels that select a pool.
pub(super) fn selector(pool: usize) -> BTreeMap<Name, Name> {
    let pairs = POOLS[pool].selector.iter();
    pairs
        .map(|(key, value)| (Name::new(key), Name::new(value)))
        .collect()
}

fn person(rng: &mut impl Rng, namespace: &str) -> &'static str {
    let people = team(namespace).map_or(&["unknown"][..], |team| &team.people);
    people[rng.random_range(0..people.len())]
}

fn project(rng: &mut impl Rng, namespace: &str, big: bool) -> &'static str {
    let team = team(namespace);
    let names = team.map_or(&["unknown"][..], |team| {
        if big { &team.large } else { &team.small }
    });
    names[rng.random_range(0..names.len())]
}

/// Draws a submission to a pool of `capacity` devices.
pub(super) fn draw(
    rng: &mut Pcg64Mcg,
    pool: usize,
    capacity: u32,
    slice_hosts: u32,
) -> WorkParameters {
    let (namespace, queue) = *pick(rng, &POOLS[pool].teams);
    let size = *pick(rng, &POOLS[pool].sizes);
    let tail = hex(rng.random::<u64>(), 4);
    let user = person(rng, namespace);
    let most = capacity / 4;
    if pool == V5P {
        return draw_slices(rng, (namespace, queue, user), size, slice_hosts, &tail);
    }
    let per_node = POOLS[pool].per_node;
    let size = if POOLS[pool].mig {
        1
    } else {
        size.min(most.max(1))
    };
    let sweep = size == 1 && matches!(pool, A100 | MIG | H100) && rng.random::<f64>() < 0.16;
    let big = size > per_node;
    let kind = if big { WorkKind::JobSet } else { WorkKind::Job };
    let name = format!(
        "{}-{tail}",
        project(rng, namespace, size >= per_node && !POOLS[pool].mig)
    );
    let class = match (queue, size) {
        ("ranker" | "serve", _) => "prod-batch",
        (_, 1) if rng.random::<f64>() < 0.3 => "evaluation",
        _ if rng.random::<f64>() < 0.3 => "research-low",
        _ => "research",
    };
    let mut draft = WorkParameters::new(namespace, &name, kind)
        .by(user)
        .queue(queue)
        .class(class);
    let count = size.min(per_node);
    let heat = match pool {
        H100 => 0.80 + 0.17 * rng.random::<f64>(),
        A100 => *pick(rng, &[(0.5, 0.42), (0.3, 0.24), (0.2, 0.8)]) + 0.1 * rng.random::<f64>(),
        V6E => 0.66 + 0.2 * rng.random::<f64>(),
        MI300X => 0.12 + 0.2 * rng.random::<f64>(),
        _ => 0.55 + 0.3 * rng.random::<f64>(),
    };
    let memory = 0.55 + 0.4 * rng.random::<f64>();
    draft = draft.on(pool, count);
    draft = if sweep {
        let width = *pick(rng, &[(0.4, 4), (0.4, 8), (0.2, 12)]);
        let width = width.min((capacity / 8).max(1));
        draft
            .acts(Profile::Sweep, heat, memory * 0.6)
            .shape(1, width, width * 4)
    } else if size <= 2 && rng.random::<f64>() < 0.35 {
        draft.acts(Profile::Eval, heat, memory).shape(1, 1, 1)
    } else if rng.random::<f64>() < 0.05 && size >= 8 {
        draft
            .acts(Profile::InputBound, 0.31, memory)
            .shape(1, size.div_ceil(per_node), size.div_ceil(per_node))
            .gang()
    } else {
        let pods = size.div_ceil(per_node);
        draft
            .acts(Profile::Train, heat, memory)
            .shape(1, pods, pods)
            .gang()
    };
    draft.length = match size {
        _ if sweep => millis(rng, 35.0, 0.7),
        1 | 2 => millis(rng, 26.0, 1.5),
        3..=8 => millis(rng, 130.0, 1.2),
        _ => millis(rng, 420.0, 0.9),
    };
    if draft.gang && draft.length > 3_600_000 {
        draft.checkpoint_every = [600_000, 900_000, 1_200_000, 1_800_000][rng.random_range(0..4)];
    }
    draft.ending = match rng.random::<f64>() {
        p if p < 0.05 => Ending::Exit(1),
        p if p < 0.075 => Ending::OutOfMemory,
        p if p < 0.085 => Ending::Exit(139),
        _ => Ending::Success,
    };
    draft
}

fn draw_slices(
    rng: &mut Pcg64Mcg,
    who: (&str, &str, &str),
    slices: u32,
    hosts: u32,
    tail: &str,
) -> WorkParameters {
    let (namespace, queue, user) = who;
    let name = format!("{}-{tail}", project(rng, namespace, true));
    let mut draft = WorkParameters::new(namespace, &name, WorkKind::JobSet)
        .by(user)
        .queue(queue)
        .class(if rng.random::<f64>() < 0.2 {
            "research-high"
        } else {
            "research"
        })
        .on(V5P, 4)
        .acts(
            Profile::Train,
            0.86 + 0.09 * rng.random::<f64>(),
            0.78 + 0.15 * rng.random::<f64>(),
        )
        .shape(slices, hosts, hosts)
        .gang();
    draft.sliced = true;
    draft.length = millis(rng, 600.0, 0.8);
    draft.checkpoint_every = 1_200_000;
    draft
}

impl World {
    /// Computes the arrival rates at which submissions equal completions in each pool.
    pub(super) fn plan_arrivals(&mut self) {
        for pool in 0..DRAWN {
            let capacity = self.capacity(pool);
            let mut rng = Pcg64Mcg::seed_from_u64(mix(self.options.seed, 400 + pool as u64));
            let hosts = self.slice_hosts();
            let work: f64 = (0..256)
                .map(|_| {
                    let draft = draw(&mut rng, pool, capacity, hosts);
                    let pods: u32 = draft.groups.iter().map(|group| group.2).sum();
                    f64::from(pods * draft.ask.count) * draft.length as f64
                })
                .sum::<f64>()
                / 256.0;
            let share = POOLS[pool].open;
            self.arrivals.mean[pool] = if capacity == 0 {
                0.0
            } else {
                work / (f64::from(capacity) * share)
            };
        }
    }

    /// Schedulable devices of a pool.
    pub(super) fn capacity(&self, pool: usize) -> u32 {
        self.pools[pool]
            .iter()
            .map(|id| self.nodes[*id].capacity(0))
            .sum()
    }

    /// Hosts of one v5p slice.
    pub(super) fn slice_hosts(&self) -> u32 {
        self.pools[V5P]
            .first()
            .map_or(1, |id| self.nodes[*id].slice_hosts)
    }

    /// Schedules the next arrival of a pool.
    pub(super) fn next_arrival(&mut self, pool: usize) {
        let mean = self.arrivals.mean[pool];
        if mean > 0.0 {
            let wait: f64 = Exp1.sample(&mut self.rng);
            // More submissions by day than by night.
            let busy = 0.65 + 0.7 * day(self.now);
            self.after(
                (wait * mean / busy).min(8.64e7) as i64 + 1,
                Happening::Arrival(pool),
            );
        }
    }

    /// The same world without new submissions.
    #[must_use]
    pub fn without_arrivals(mut self) -> Self {
        self.arrivals.mean = [0.0; DRAWN];
        self.agenda
            .retain(|_, what| !matches!(what, Happening::Arrival(_)));
        self
    }

    /// Submits a job, unless the queue is so long that users wait.
    pub(super) fn arrive(&mut self, pool: usize) {
        let capacity = self.capacity(pool);
        let hosts = self.slice_hosts();
        let draft = draw(&mut self.rng, pool, capacity, hosts);
        let waiting: u32 = self
            .works
            .values()
            .filter(|work| {
                work.pool == Some(pool)
                    && work.queue == draft.queue
                    && work.kind.is_batch()
                    && work.state == super::work::WorkState::Waiting
            })
            .map(super::work::Work::devices)
            // A very wide job that will wait for days does not count.
            .filter(|wide| *wide < capacity / 4)
            .sum();
        if waiting < (capacity / 8).max(8) {
            self.begin(draft, self.now);
        }
        self.next_arrival(pool);
    }

    /// Scales a service to the load of the hour.
    pub(super) fn follow_curve(&mut self, id: WorkId) {
        let level = day(self.now);
        let Some(work) = self.works.get(&id) else {
            return;
        };
        let Some((least, most)) = work.curve else {
            return;
        };
        let current = work.groups.first().map_or(0, |group| group.parallelism);
        let wanted = least + (f64::from(most - least) * level).round() as u32;
        // As an autoscaler does: a dead band of a tenth, and a few replicas per step.
        let band = (current / 10).max(1);
        let step = (current / 20).max(1);
        if wanted > current + band / 2 {
            self.scale(id, (current + step).min(wanted));
        } else if wanted + band < current {
            self.scale(id, (current - step).max(wanted));
        }
        self.after(300_000, Happening::Curve(id));
    }
}
