//! Which exporter is asked next, and when: a machine without a clock or a socket.
//!
//! No target is asked sooner than its exporter has new values; requests through the API server's proxy keep a
//! distance of a fixed share of a second, but for the burst of a first look; targets on screen go first, but never alone;
//! a target that fails is asked less and less often; targets that have failed take up no more than half the places, and
//! one that has not answered for a while gives its place to another, so that hung ones hold nobody up.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher;
use std::time::Duration;

use model::base::{Moment, Name};

use super::burst::Burst;

/// Longest wait for a target that fails.
const LONGEST: Duration = Duration::from_secs(600);

/// A server that throttles gets half the requests for this long.
const PENANCE: Duration = Duration::from_secs(120);

/// How far the rate is halved at most: to a sixteenth.
const LOWEST: u32 = 4;

/// A request that has taken this long gives its place to another; twice the places are never exceeded.
const OVERDUE: Duration = Duration::from_secs(1);

/// One in this many requests goes to a target off screen, when one is due.
const FAIR: u64 = 4;

/// Which way a target is asked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Way {
    /// Through the API server: within the budget.
    Proxy,
    /// At its own address.
    Direct,
}

/// How a request ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// With a page.
    Well,
    /// Without one.
    Badly,
    /// Refused where it was asked: another way is open.
    Elsewhere,
    /// With 429; the server may have said for how long.
    Throttled(Option<Duration>),
}

/// What to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Ask this target now.
    Ask(u64),
    /// Nothing to do before this moment.
    Wait(Moment),
    /// Nothing to do until something ends or changes.
    Rest,
}

/// Where a target stands in the queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Rank {
    near: bool,
    way: Way,
    proven: bool,
    /// Never asked yet.
    fresh: bool,
}

#[derive(Clone, Debug)]
struct ScheduledPage {
    node: Option<Name>,
    interval: Duration,
    /// The target's own place within its interval.
    phase: Duration,
    spread: bool,
    due: Moment,
    asked: Option<Moment>,
    failures: u32,
    rank: Rank,
    running: bool,
}

/// The queue of all targets.
#[derive(Debug)]
pub struct Schedule {
    targets: BTreeMap<u64, ScheduledPage>,
    queues: BTreeMap<Rank, BTreeSet<(Moment, u64)>>,
    near: BTreeSet<Name>,
    spacing: Duration,
    slot: Moment,
    /// For targets that were never asked.
    burst: Burst,
    halved: u32,
    penance: Moment,
    held: Moment,
    /// Requests under way: what the target was when it was asked, and when that was.
    under_way: BTreeMap<u64, (Rank, Moment)>,
    places: usize,
    asked: u64,
    /// Targets that are asked through the proxy.
    proxied: u32,
}

impl Schedule {
    /// An empty queue that sends at most `per_second` requests a second through the proxy (at least one in ten
    /// seconds) and has at most `places` under way.
    pub fn new(per_second: f64, places: usize) -> Self {
        let per_second = if per_second.is_finite() {
            per_second.clamp(0.1, 1000.0)
        } else {
            20.0
        };
        Self {
            targets: BTreeMap::new(),
            queues: BTreeMap::new(),
            near: BTreeSet::new(),
            // Whole milliseconds, rounded up: never faster than asked for.
            spacing: Duration::from_millis((1000.0 / per_second).ceil() as u64),
            slot: Moment::from_millis(i64::MIN),
            burst: Burst::new(0),
            halved: 0,
            penance: Moment::from_millis(i64::MIN),
            held: Moment::from_millis(i64::MIN),
            under_way: BTreeMap::new(),
            places: places.max(1),
            asked: 0,
            proxied: 0,
        }
    }

    /// The same with a burst of `size` requests for targets that were never asked.
    pub fn with_burst(self, size: u32) -> Self {
        Self {
            burst: Burst::new(size),
            ..self
        }
    }

    /// Adds a target, to be asked as soon as there is room. One of the same id keeps its history.
    pub fn add(&mut self, id: u64, node: Option<Name>, interval: Duration, way: Way, now: Moment) {
        let near = node.as_ref().is_some_and(|node| self.near.contains(node));
        if let Some(known) = self.targets.get_mut(&id) {
            known.node = node;
            known.interval = interval;
            self.rerank(id, |rank| {
                rank.near = near;
                rank.way = way;
            });
            return;
        }
        let mut hasher = rustc_hash::FxHasher::default();
        hasher.write_u64(id);
        let share = (hasher.finish() >> 40) as f64 / f64::from(1u32 << 24);
        let rank = Rank {
            near,
            way,
            proven: false,
            fresh: true,
        };
        self.targets.insert(
            id,
            ScheduledPage {
                node,
                interval,
                phase: interval.mul_f64(share),
                spread: false,
                due: now,
                asked: None,
                failures: 0,
                rank,
                running: false,
            },
        );
        self.proxied += u32::from(way == Way::Proxy);
        self.queues.entry(rank).or_default().insert((now, id));
    }

    /// Forgets a target. A request under way still counts until it ends.
    pub fn remove(&mut self, id: u64) {
        if let Some(target) = self.targets.remove(&id) {
            self.proxied -= u32::from(target.rank.way == Way::Proxy);
            self.dequeue(target.rank, target.due, id);
        }
    }

    /// Tells which nodes are on screen.
    pub fn look_at(&mut self, nodes: impl IntoIterator<Item = Name>) {
        self.near = nodes.into_iter().collect();
        let moved: Vec<(u64, bool)> = self
            .targets
            .iter()
            .map(|(id, target)| {
                let near = target
                    .node
                    .as_ref()
                    .is_some_and(|node| self.near.contains(node));
                (*id, target.rank.near, near)
            })
            .filter(|(_, was, is)| was != is)
            .map(|(id, _, is)| (id, is))
            .collect();
        for (id, near) in moved {
            self.rerank(id, |rank| rank.near = near);
        }
    }

    /// Sends a target another way from now on.
    pub fn send_by(&mut self, id: u64, way: Way) {
        self.rerank(id, |rank| rank.way = way);
    }

    /// Asks every target as soon as its exporter has new values, those too that failed and would wait for longer. The
    /// budget stays, and so does a wait that the server asked for.
    pub fn hasten(&mut self) {
        let all: Vec<u64> = self.targets.keys().copied().collect();
        for id in all {
            self.hasten_one(id);
        }
    }

    /// The same for one target.
    pub fn hasten_one(&mut self, id: u64) {
        let Some(target) = self.targets.get_mut(&id) else {
            return;
        };
        let Some(asked) = target.asked.filter(|_| !target.running) else {
            return;
        };
        let due = target.due.min(asked.plus(target.interval));
        target.failures = 0;
        if due < target.due {
            // They are spread again after they were asked together.
            target.spread = false;
            let (rank, before) = (target.rank, std::mem::replace(&mut target.due, due));
            self.dequeue(rank, before, id);
            self.queues.entry(rank).or_default().insert((due, id));
        }
    }

    /// How many targets there are.
    pub fn len(&self) -> usize {
        self.targets.len()
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    /// How long it takes to ask every target once through the proxy.
    pub fn round(&self) -> Duration {
        self.distance().saturating_mul(self.proxied)
    }

    fn distance(&self) -> Duration {
        self.spacing.saturating_mul(1 << self.halved)
    }

    fn rerank(&mut self, id: u64, change: impl FnOnce(&mut Rank)) {
        let Some(target) = self.targets.get_mut(&id) else {
            return;
        };
        let old = target.rank;
        change(&mut target.rank);
        let (new, due, running) = (target.rank, target.due, target.running);
        self.proxied -= u32::from(old.way == Way::Proxy);
        self.proxied += u32::from(new.way == Way::Proxy);
        if old != new && !running {
            self.dequeue(old, due, id);
            self.queues.entry(new).or_default().insert((due, id));
        }
    }

    fn dequeue(&mut self, rank: Rank, due: Moment, id: u64) {
        if let Some(queue) = self.queues.get_mut(&rank) {
            queue.remove(&(due, id));
        }
    }

    /// What to do at `now`. A target that it names counts as asked.
    pub fn next(&mut self, now: Moment) -> Next {
        if now >= self.penance && self.halved > 0 {
            self.halved -= 1;
            self.penance = now.plus(PENANCE);
        }
        let (busy, failed, frees) = self.places_taken(now);
        if busy >= self.places || self.under_way.len() >= self.places.saturating_mul(2) {
            return frees.map_or(Next::Rest, Next::Wait);
        }
        // Those that have failed before leave half the places to others, those never asked an eighth.
        let half = failed < self.places.div_ceil(2);
        let most = busy < self.places - self.places / 8;
        let open = self.slot.max(self.held);
        let first = self
            .burst
            .opens(now)
            .map_or(open, |at| at.max(self.held).min(open));
        let mut wake: Option<Moment> = None;
        let mut best: Option<(bool, Moment, u64, Rank)> = None;
        let off_screen = self.asked % FAIR == FAIR - 1;
        for (rank, queue) in &self.queues {
            let Some((due, id)) = queue.first() else {
                continue;
            };
            let room = match (rank.proven, rank.fresh) {
                (true, _) => true,
                (false, true) => most,
                (false, false) => half,
            };
            if !room {
                wake = wake.into_iter().chain(frees).min();
                continue;
            }
            let at = match rank.way {
                Way::Proxy if rank.fresh => (*due).max(first),
                Way::Proxy => (*due).max(open),
                Way::Direct => *due,
            };
            if at > now {
                wake = Some(wake.map_or(at, |known| known.min(at)));
                continue;
            }
            let behind = rank.near == off_screen;
            let candidate = (behind, *due, *id, *rank);
            if best
                .as_ref()
                .is_none_or(|known| (candidate.0, candidate.1) < (known.0, known.1))
            {
                best = Some(candidate);
            }
        }
        let Some((_, due, id, rank)) = best else {
            return wake.map_or(Next::Rest, Next::Wait);
        };
        self.dequeue(rank, due, id);
        if let Some(target) = self.targets.get_mut(&id) {
            target.running = true;
            target.asked = Some(now);
            target.rank.fresh = false;
        }
        let in_burst = rank.fresh && self.burst.take(now);
        if rank.way == Way::Proxy && !in_burst {
            self.slot = now.plus(self.distance());
        }
        self.under_way.insert(id, (rank, now));
        self.asked += 1;
        Next::Ask(id)
    }

    /// How many places are taken, how many of them by targets that have failed before, and when the next request is
    /// overdue and gives its place up.
    fn places_taken(&self, now: Moment) -> (usize, usize, Option<Moment>) {
        let (mut busy, mut failed, mut frees) = (0, 0, None::<Moment>);
        for (rank, since) in self.under_way.values() {
            failed += usize::from(!rank.proven && !rank.fresh);
            let over = since.plus(OVERDUE);
            if over > now {
                busy += 1;
                frees = frees.into_iter().chain([over]).min();
            }
        }
        (busy, failed, frees)
    }

    /// Takes note that a request has ended.
    pub fn ended(&mut self, id: u64, how: Ended, now: Moment) {
        if let Some((rank, since)) = self.under_way.remove(&id)
            && rank.way == Way::Proxy
        {
            let took = now.since(since).millis();
            self.burst.answered(Duration::from_millis(took));
        }
        if let Ended::Throttled(wait) = how {
            self.burst.end();
            self.held = self
                .held
                .max(now.plus(wait.unwrap_or(Duration::from_secs(5))));
            self.halved = (self.halved + 1).min(LOWEST);
            self.penance = now.plus(PENANCE);
        }
        let Some(target) = self.targets.get_mut(&id) else {
            return;
        };
        if !target.running {
            // Forgotten and added again meanwhile: it stands in its queue already.
            return;
        }
        let asked = target.asked.unwrap_or(now);
        let wait = match how {
            Ended::Well => {
                target.failures = 0;
                target.rank.proven = true;
                // Once, so that targets found together do not stay together.
                let first = !std::mem::replace(&mut target.spread, true);
                target.interval + if first { target.phase } else { Duration::ZERO }
            }
            Ended::Badly => {
                // Once more after the usual time: exporters restart.
                let patience = target.interval.saturating_mul(1 << target.failures.min(10));
                target.failures = target.failures.saturating_add(1);
                target.rank.proven = false;
                patience.min(LONGEST.max(target.interval))
            }
            Ended::Throttled(_) => target.interval,
            Ended::Elsewhere => Duration::ZERO,
        };
        target.running = false;
        target.due = asked.plus(wait);
        let (rank, due) = (target.rank, target.due);
        self.queues.entry(rank).or_default().insert((due, id));
    }
}

#[cfg(test)]
mod tests;
