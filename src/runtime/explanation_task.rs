//! The engine beside the console: the latest picture goes to a thread of its own, what it says comes back when it comes.
//!
//! One answer is worked out and at most one waits: whoever has the latest picture is next, none is broken off. Work is
//! spaced by what the last answer cost, so that a large fleet costs a few hundredths of a core, and nothing is asked
//! while nothing that the scheduler looks at has changed.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHasher;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use model::advice::Advice;
use model::base::{Age, Moment, Name};
use model::fleet::Fleet;
use model::fleet::device::Device;
use table::Facts;
use table::explanations::JobExplanations;

/// Between two answers, at least.
const LEAST: Duration = Duration::from_secs(2);

/// Time alone moves forecasts: asked again after this long although nothing has changed.
const STALE: Duration = Duration::from_secs(60);

/// Advice about pools is for months: it is worked out this often at most.
const POOLS: Duration = Duration::from_secs(60);

/// A node is taken for idle once it has held no work for so long: what the cluster autoscaler waits before it removes one
/// (`--scale-down-unneeded-time`).
const EMPTY: Age = Age::from_seconds(600);

/// So many times what an answer cost is left between it and the next.
const SHARE: u32 = 60;

/// Nobody waits longer than this for a newer answer, unless it costs more than a tenth of a core.
const LONGEST: Duration = Duration::from_secs(60);

/// The facts with the engine's answers to them, for one look.
pub fn answered(facts: Facts) -> Facts {
    let (fleet, burn) = (&facts.fleet, &facts.burn);
    let answers = JobExplanations::of(fleet, burn).with_pools(fleet, burn, &BTreeSet::new());
    Facts {
        answers: Arc::new(answers),
        ..facts
    }
}

/// How long to rest after an answer that took `cost`.
fn rest(cost: Duration) -> Duration {
    (cost * SHARE).clamp(LEAST, LONGEST.max(cost * 9))
}

/// What the scheduler looks at, as one number: while it stays, so do the answers. Readings are not in it.
fn digest(fleet: &Fleet) -> u64 {
    fn place<T: ?Sized>(what: &Arc<T>, hasher: &mut FxHasher) {
        std::ptr::hash(Arc::as_ptr(what), hasher);
    }
    let mut hasher = FxHasher::default();
    for node in fleet.nodes.iter().filter(|node| !node.devices.is_empty()) {
        node.name().hash(&mut hasher);
        (node.ready, node.seen.unschedulable, node.seen.taints.len()).hash(&mut hasher);
        for device in &node.devices {
            device.health.is_fault().hash(&mut hasher);
            device
                .holder
                .as_ref()
                .map(|pod| pod.key())
                .hash(&mut hasher);
            for slice in &device.slices {
                slice.holder.as_ref().map(|pod| pod.key()).hash(&mut hasher);
            }
        }
    }
    for job in fleet.jobs.iter() {
        job.id.hash(&mut hasher);
        (job.state as u8, job.priority, &job.queue).hash(&mut hasher);
        (job.devices_requested, job.devices_allocated).hash(&mut hasher);
        if let Some(admission) = &job.admission {
            (admission.seen.active, admission.has_quota()).hash(&mut hasher);
            admission.position.hash(&mut hasher);
        }
    }
    place(&fleet.queues, &mut hasher);
    fleet.kueue.as_ref().map(Arc::as_ptr).hash(&mut hasher);
    place(&fleet.flavors, &mut hasher);
    place(&fleet.topologies, &mut hasher);
    place(&fleet.budgets, &mut hasher);
    hasher.finish()
}

/// Nodes that hold no work, and since when; `None` before the first look. Those that were empty at it have been for an unknown time.
#[derive(Default)]
struct EmptyNodes(Option<BTreeMap<Name, Moment>>);

impl EmptyNodes {
    /// Which have held no work for less than [`EMPTY`].
    fn look(&mut self, fleet: &Fleet) -> BTreeSet<Name> {
        let before = self.0.take();
        let since = |name: &Name| match &before {
            Some(known) => known.get(name).copied().unwrap_or(fleet.at),
            None => Moment::default(),
        };
        let nodes = fleet.nodes.iter();
        let empty = nodes.filter(|node| !node.devices.iter().any(Device::is_allocated));
        let all = empty.map(|node| (node.name().clone(), since(node.name())));
        let all = self.0.insert(all.collect());
        let lately = |since: &Moment| fleet.at.since(*since) < EMPTY;
        let nodes = all.iter().filter(|(_, since)| lately(since));
        nodes.map(|(name, _)| name.clone()).collect()
    }
}

/// Answers for as long as facts come and somebody listens.
pub async fn run(
    mut facts: watch::Receiver<Option<Arc<Facts>>>,
    out: watch::Sender<Arc<JobExplanations>>,
) {
    let mut last: Option<(u64, Instant)> = None;
    let mut pools: Option<(Arc<[Advice]>, Instant)> = None;
    let mut empty = EmptyNodes::default();
    while facts.changed().await.is_ok() {
        let Some(latest) = facts.borrow_and_update().clone() else {
            continue;
        };
        if !latest.fleet.is_complete() {
            continue;
        }
        let key = digest(&latest.fleet);
        if last.is_some_and(|(known, at)| known == key && at.elapsed() < STALE) {
            continue;
        }
        let emptied = empty.look(&latest.fleet);
        let begun = Instant::now();
        last = Some((key, begun));
        let known = pools.as_ref().filter(|(_, at)| at.elapsed() < POOLS);
        let known = known.map(|(advice, _)| Arc::clone(advice));
        let is_new = known.is_none();
        let asked = spawn_blocking(move || {
            let answers = JobExplanations::of(&latest.fleet, &latest.burn);
            match known {
                Some(pools) => JobExplanations { pools, ..answers },
                None => answers.with_pools(&latest.fleet, &latest.burn, &emptied),
            }
        });
        // A fault in the engine costs its answers, never the console.
        let cost = match asked.await {
            Ok(answers) => {
                if is_new {
                    pools = Some((Arc::clone(&answers.pools), Instant::now()));
                }
                if out.send(Arc::new(answers)).is_err() {
                    return;
                }
                begun.elapsed()
            }
            Err(error) => {
                tracing::warn!(%error, "the engine has no answer");
                LONGEST
            }
        };
        sleep(rest(cost)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_costs_a_few_hundredths_of_a_core_and_a_dear_one_a_tenth() {
        let ms = Duration::from_millis;
        assert_eq!(rest(ms(1)), LEAST);
        assert_eq!(rest(ms(100)), ms(6_000));
        assert_eq!(rest(ms(2_000)), LONGEST);
        assert_eq!(rest(ms(20_000)), ms(180_000));
    }

    #[test]
    fn readings_change_nothing_for_the_scheduler_and_holders_do() {
        let facts = table::sample::facts();
        let before = digest(&facts.fleet);
        let mut fleet = (*facts.fleet).clone();
        let mut nodes: Vec<_> = fleet.nodes.to_vec();
        for node in &mut nodes {
            for device in &mut Arc::make_mut(node).devices {
                device.read_at = Some(fleet.at);
            }
        }
        fleet.nodes = nodes.into();
        assert_eq!(digest(&fleet), before, "a reading");
        let mut nodes: Vec<_> = fleet.nodes.to_vec();
        let held = |node: &Arc<model::fleet::node::Node>| {
            node.devices.iter().any(|device| device.holder.is_some())
        };
        let node = nodes.iter_mut().find(|node| held(node)).expect("one holds");
        for device in &mut Arc::make_mut(node).devices {
            device.holder = None;
        }
        fleet.nodes = nodes.into();
        assert_ne!(digest(&fleet), before, "a device became free");
    }

    #[test]
    fn a_node_that_has_just_become_empty_is_not_idle_yet() {
        let mut fleet = (*table::sample::facts().fleet).clone();
        let is_empty =
            |node: &&Arc<model::fleet::node::Node>| !node.devices.iter().any(Device::is_allocated);
        let busy = fleet.nodes.iter().find(|node| !is_empty(node));
        let busy = busy.expect("one is held").name().clone();
        let mut empty = EmptyNodes::default();
        assert!(
            empty.look(&fleet).is_empty(),
            "before the first look: unknown"
        );
        let mut nodes: Vec<_> = fleet.nodes.to_vec();
        for node in nodes.iter_mut().filter(|node| *node.name() == busy) {
            for device in &mut Arc::make_mut(node).devices {
                device.holder = None;
                device.slices = Box::default();
            }
        }
        fleet.nodes = nodes.into();
        assert_eq!(empty.look(&fleet), BTreeSet::from([busy.clone()]));
        fleet.at = fleet.at.plus(Duration::from_secs(601));
        assert!(empty.look(&fleet).is_empty(), "ten minutes later it is");
    }
}
