//! Decides which exporter is scraped next, and when: a state machine without a clock or a socket.
//!
//! No target is scraped before its exporter has new values. Requests through the API server's proxy keep a fixed
//! distance, except for the burst of a first look. Targets on screen have priority, but do not starve the others.
//! A target that fails is scraped less and less often. Targets that have failed use at most half of the slots, and
//! an overdue request gives its slot to another, so that hung targets block no others.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher;
use std::time::Duration;

use model::base::{Moment, Name};

use super::burst::Burst;
use super::page::ScrapeRoute;

/// Longest wait for a target that fails.
const LONGEST: Duration = Duration::from_secs(600);

/// After a 429, the request rate is halved for this long.
const PENANCE: Duration = Duration::from_secs(120);

/// Most halvings of the rate: to a sixteenth.
const LOWEST: u32 = 4;

/// A request that takes longer than this gives its slot to another; twice the slots are never exceeded.
const OVERDUE: Duration = Duration::from_secs(1);

/// One in this many requests goes to a target off screen, when one is due.
const FAIR: u64 = 4;

/// How a request ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScrapeEnd {
    Well,
    Badly,
    /// Refused over this path: another path is open.
    Elsewhere,
    /// With 429; the server may have sent `Retry-After`.
    Throttled(Option<Duration>),
}

/// What to do next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NextScrape {
    /// Scrape this target now.
    Ask(u64),
    /// Nothing to do before this time.
    Wait(Moment),
    /// Nothing to do until something ends or changes.
    Rest,
}

/// Priority of a target in the queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Rank {
    near: bool,
    way: ScrapeRoute,
    proven: bool,
    fresh: bool,
}

#[derive(Clone, Debug)]
struct ScheduledPage {
    node: Option<Name>,
    interval: Duration,
    /// The target's phase within its interval.
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
    /// For targets that were never scraped.
    burst: Burst,
    halved: u32,
    penance: Moment,
    held_until: Moment,
    /// Open requests: the target's rank at the start, and the start.
    under_way: BTreeMap<u64, (Rank, Moment)>,
    places: usize,
    asked: u64,
    /// Number of targets that are scraped through the proxy.
    proxied: u32,
}

impl Schedule {
    /// An empty queue that sends at most `per_second` requests a second through the proxy (at least one in ten
    /// seconds) and has at most `places` open.
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
            // Whole milliseconds, rounded up: never faster than the limit.
            spacing: Duration::from_millis((1000.0 / per_second).ceil() as u64),
            slot: Moment::from_millis(i64::MIN),
            burst: Burst::new(0),
            halved: 0,
            penance: Moment::from_millis(i64::MIN),
            held_until: Moment::from_millis(i64::MIN),
            under_way: BTreeMap::new(),
            places: places.max(1),
            asked: 0,
            proxied: 0,
        }
    }

    /// The same with a burst of `size` requests for targets that were never scraped.
    pub fn with_burst(self, size: u32) -> Self {
        Self {
            burst: Burst::new(size),
            ..self
        }
    }

    /// Adds a target, to be scraped as soon as there is a slot. A target with the same id keeps its history.
    pub fn add(
        &mut self,
        id: u64,
        node: Option<Name>,
        interval: Duration,
        way: ScrapeRoute,
        now: Moment,
    ) {
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
        self.proxied += u32::from(way == ScrapeRoute::Proxy);
        self.queues.entry(rank).or_default().insert((now, id));
    }

    /// Removes a target. An open request still counts until it ends.
    pub fn remove(&mut self, id: u64) {
        if let Some(target) = self.targets.remove(&id) {
            self.proxied -= u32::from(target.rank.way == ScrapeRoute::Proxy);
            self.dequeue(target.rank, target.due, id);
        }
    }

    /// Sets the nodes that are on screen.
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

    /// Changes how a target is reached.
    pub fn send_by(&mut self, id: u64, way: ScrapeRoute) {
        self.rerank(id, |rank| rank.way = way);
    }

    /// Schedules every target as soon as its exporter has new values, including those in back-off. The
    /// request budget and the server's `Retry-After` still apply.
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
            // Targets that were scraped together are spread again.
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

    /// How long it takes to scrape every target once through the proxy.
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
        self.proxied -= u32::from(old.way == ScrapeRoute::Proxy);
        self.proxied += u32::from(new.way == ScrapeRoute::Proxy);
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

    /// What to do at `now`. A target that it returns counts as scraped.
    pub fn next(&mut self, now: Moment) -> NextScrape {
        if now >= self.penance && self.halved > 0 {
            self.halved -= 1;
            self.penance = now.plus(PENANCE);
        }
        let (busy, failed, frees) = self.places_taken(now);
        if busy >= self.places || self.under_way.len() >= self.places.saturating_mul(2) {
            return frees.map_or(NextScrape::Rest, NextScrape::Wait);
        }
        // Targets that have failed leave half of the slots to others, never-scraped ones an eighth.
        let half = failed < self.places.div_ceil(2);
        let most = busy < self.places - self.places / 8;
        let open = self.slot.max(self.held_until);
        let first = self
            .burst
            .opens(now)
            .map_or(open, |at| at.max(self.held_until).min(open));
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
                ScrapeRoute::Proxy if rank.fresh => (*due).max(first),
                ScrapeRoute::Proxy => (*due).max(open),
                ScrapeRoute::Direct => *due,
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
            return wake.map_or(NextScrape::Rest, NextScrape::Wait);
        };
        self.dequeue(rank, due, id);
        if let Some(target) = self.targets.get_mut(&id) {
            target.running = true;
            target.asked = Some(now);
            target.rank.fresh = false;
        }
        let in_burst = rank.fresh && rank.way == ScrapeRoute::Proxy && self.burst.take(now);
        if rank.way == ScrapeRoute::Proxy && !in_burst {
            self.slot = now.plus(self.distance());
        }
        self.under_way.insert(id, (rank, now));
        self.asked += 1;
        NextScrape::Ask(id)
    }

    /// How many slots are in use, how many of them by targets that have failed before, and when the next request becomes
    /// overdue and frees its slot.
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

    /// Notes that a request has ended.
    pub fn ended(&mut self, id: u64, how: ScrapeEnd, now: Moment) {
        if let Some((rank, since)) = self.under_way.remove(&id)
            && rank.way == ScrapeRoute::Proxy
        {
            let took = now.since(since).millis();
            self.burst.answered(Duration::from_millis(took));
        }
        if let ScrapeEnd::Throttled(wait) = how {
            self.burst.end();
            self.held_until = self
                .held_until
                .max(now.plus(wait.unwrap_or(Duration::from_secs(5))));
            self.halved = (self.halved + 1).min(LOWEST);
            self.penance = now.plus(PENANCE);
        }
        let Some(target) = self.targets.get_mut(&id) else {
            return;
        };
        if !target.running {
            // Removed and added again meanwhile: it is queued already.
            return;
        }
        let asked = target.asked.unwrap_or(now);
        let wait = match how {
            ScrapeEnd::Well => {
                target.failures = 0;
                target.rank.proven = true;
                // Once, so that targets found together are spread.
                let first = !std::mem::replace(&mut target.spread, true);
                target.interval + if first { target.phase } else { Duration::ZERO }
            }
            ScrapeEnd::Badly => {
                // First retry after the usual interval: exporters restart.
                let patience = target.interval.saturating_mul(1 << target.failures.min(10));
                target.failures = target.failures.saturating_add(1);
                target.rank.proven = false;
                patience.min(LONGEST.max(target.interval))
            }
            ScrapeEnd::Throttled(_) => target.interval,
            ScrapeEnd::Elsewhere => Duration::ZERO,
        };
        target.running = false;
        target.due = asked.plus(wait);
        let (rank, due) = (target.rank, target.due);
        self.queues.entry(rank).or_default().insert((due, id));
    }
}

#[cfg(test)]
mod tests;
