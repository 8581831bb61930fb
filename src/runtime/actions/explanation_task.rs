//! Explanation task: runs the engine on the latest snapshot on its own thread, beside the console.
//!
//! At most one computation runs and one snapshot waits: the latest. Computations are never canceled. The pause after one is
//! proportional to its cost, so that a large fleet costs a few hundredths of a core, and nothing is computed while no input of the
//! scheduler has changed. The effects of a run of this console are computed sooner.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHasher;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until};

use model::advice::Advice;
use model::base::{Age, Moment, Name};
use model::fleet::Fleet;
use model::fleet::device::Device;
use table::Facts;
use table::waiting::explanations::JobExplanations;

/// Shortest pause between two computations.
const LEAST: Duration = Duration::from_secs(2);

/// Forecasts move with time: recomputed after this long even if nothing has changed.
const STALE: Duration = Duration::from_secs(60);

/// Shortest interval between two computations of the advice on pools, which changes slowly.
const POOLS: Duration = Duration::from_secs(60);

/// A node counts as idle after this long without work: the default of the cluster autoscaler's `--scale-down-unneeded-time`.
const EMPTY: Age = Age::from_seconds(600);

/// Pause after a computation, as a multiple of its cost.
const SHARE: u32 = 60;

/// Longest pause, unless a computation costs more than a tenth of a core.
const LONGEST: Duration = Duration::from_secs(60);

/// How long after progress of a run its effects are watched: controllers and schedulers take seconds.
const EFFECTS: Duration = Duration::from_secs(20);

/// Pause while effects are watched, as a multiple of the cost of a computation.
const SHARE_OF_EFFECTS: u32 = 4;

/// The facts with the engine's explanations, for one snapshot.
pub fn answered(facts: Facts) -> Facts {
    let (fleet, burn) = (&facts.fleet, &facts.spend_rates);
    let answers = JobExplanations::of(fleet, burn).with_pools(fleet, burn, &BTreeSet::new());
    Facts {
        answers: Arc::new(answers),
        ..facts
    }
}

/// Pause after a computation that took `cost`.
fn rest(cost: Duration) -> Duration {
    (cost * SHARE).clamp(LEAST, LONGEST.max(cost * 9))
}

/// Pause while the effects of a run are watched.
fn rest_of_effects(cost: Duration) -> Duration {
    (cost * SHARE_OF_EFFECTS).max(LEAST).min(rest(cost))
}

/// Pauses after a computation that took `cost`; shorter once a run makes progress, by `acted`.
async fn rests(cost: Duration, acted: &mut Option<watch::Receiver<Option<Instant>>>) {
    let now = Instant::now();
    let (soon, late) = (now + rest_of_effects(cost), now + rest(cost));
    let Some(acted) = acted else {
        return sleep_until(late).await;
    };
    loop {
        let at = *acted.borrow_and_update();
        let lately = at.is_some_and(|at| at.elapsed() < EFFECTS);
        tokio::select! {
            () = sleep_until(if lately { soon } else { late }) => return,
            Ok(()) = acted.changed() => {}
        }
    }
}

/// Hash of the scheduler's inputs: while it is the same, so are the explanations. Readings are not part.
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

/// Nodes without work, and since when; `None` before the first snapshot. Nodes that were empty in the first one have been so
/// for an unknown time.
#[derive(Default)]
struct EmptyNodes(Option<BTreeMap<Name, Moment>>);

impl EmptyNodes {
    /// Nodes that have been without work for less than [`EMPTY`].
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

/// Computes explanations while facts come and there is a receiver. `acted`: when a run of this console last made progress; `None`
/// where the console cannot act.
pub async fn run(
    mut facts: watch::Receiver<Option<Arc<Facts>>>,
    out: watch::Sender<Arc<JobExplanations>>,
    mut acted: Option<watch::Receiver<Option<Instant>>>,
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
            let answers = JobExplanations::of(&latest.fleet, &latest.spend_rates);
            match known {
                Some(pools) => JobExplanations { pools, ..answers },
                None => answers.with_pools(&latest.fleet, &latest.spend_rates, &emptied),
            }
        });
        // A panic in the engine costs its explanations, never the console.
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
        rests(cost, &mut acted).await;
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

    #[tokio::test(start_paused = true)]
    async fn what_follows_a_run_is_answered_sooner() {
        let cost = Duration::from_millis(500);
        let took = async |acted: Option<watch::Receiver<Option<Instant>>>| {
            let begun = Instant::now();
            rests(cost, &mut { acted }).await;
            begun.elapsed()
        };
        assert_eq!(took(None).await, rest(cost));
        let (sender, acted) = watch::channel(None);
        assert_eq!(took(Some(acted.clone())).await, rest(cost));
        // Progress of a run ends the current pause.
        let rests = tokio::spawn({
            let acted = acted.clone();
            async move {
                let begun = Instant::now();
                rests(cost, &mut Some(acted)).await;
                begun.elapsed()
            }
        });
        tokio::time::sleep(Duration::from_secs(7)).await;
        sender.send_replace(Some(Instant::now()));
        assert_eq!(rests.await.expect("ends"), Duration::from_secs(7));
        assert_eq!(took(Some(acted.clone())).await, rest_of_effects(cost));
        tokio::time::sleep(EFFECTS).await;
        assert_eq!(took(Some(acted)).await, rest(cost));
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
