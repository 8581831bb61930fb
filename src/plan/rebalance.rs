//! Rebalance: moves small jobs off nodes that they hardly fill, so that whole nodes become free.
//!
//! Only jobs on one node whose owner can be stopped and requeued are moved, and only where the consolidated devices are worth
//! more, for an hour, than the lost work.

use engine::compiled::{CompiledFleet, NodeId, WorkloadId};
use engine::fit::Relaxation;
use engine::snapshot::{Snapshot, Status};
use engine::state::State;
use model::base::quantities::counted;
use model::base::{Name, SmallSort};
use model::plan::{
    Alternative, Intent, Plan, PlanEffect, Refusal, RefusalCode, Undo, Until, Wait, WaitOrder,
};

use super::effects::effect::{Leaver, Picture, Then, compare, news};
use super::planner_context::{self, EvictBy, fact, seated};
use super::{cordon, hold};

/// For how many seconds consolidated devices count as a gain.
const HORIZON: i64 = 3_600;

/// Most nodes that one plan empties.
const MOST: usize = 8;

/// A node that is emptied.
struct Move {
    node: NodeId,
    works: Vec<WorkloadId>,
}

/// The plan that empties nodes of a pool, or of any.
///
/// # Errors
/// There is no such pool, or no move gains more than it costs.
pub(super) fn plan(snapshot: &Snapshot, pool: Option<&Name>) -> Result<Plan, Refusal> {
    if let Some(pool) = pool
        && !snapshot.nodes.iter().any(|node| node.pool == *pool)
    {
        super::places::nodes(snapshot, &format!("pool/{pool}"))?;
    }
    let moves = moves(snapshot, pool);
    if moves.is_empty() {
        let sentence = match pool {
            Some(pool) => format!("no move in {pool} gains more than it costs"),
            None => "no move gains more than it costs".to_owned(),
        };
        return Err(Refusal::new(RefusalCode::AlreadySo, sentence)
            .instead("see what waits and why: `get jobs`"));
    }
    let title = match pool {
        Some(pool) => format!("rebalance {pool}"),
        None => "rebalance".to_owned(),
    };
    let intent = Intent::Rebalance {
        pool: pool.cloned(),
    };
    let mut plan = Plan::new(title, intent, snapshot.at);
    let mut after = snapshot.clone();
    let mut leavers = Vec::new();
    let mut displaced = Vec::new();
    let count = |plan: &Plan| u32::try_from(plan.steps.len()).unwrap_or(u32::MAX);
    for one in &moves {
        let node = &snapshot.nodes[one.node];
        plan.steps.push(cordon::close(
            node,
            "stokehold",
            "its jobs are being moved away",
        )?);
        let closed = count(&plan);
        let mut back = Vec::new();
        for work in &one.works {
            let model = &snapshot.workloads[*work];
            let mut stop = planner_context::stop(snapshot, model)?;
            stop.needs.push(closed);
            stop.reason = format!("it moves away from {}", node.name);
            plan.steps.push(stop);
            let stopped = count(&plan);
            displaced.push((plan.steps.len() - 1, model.key.clone()));
            let mut again = planner_context::again(snapshot, model)?;
            again.needs.push(stopped);
            again.reason = "it restarts elsewhere".to_owned();
            if matches!(planner_context::way(snapshot, model)?, EvictBy::Kueue(_)) {
                again.waits.push(Wait {
                    at_most_seconds: Some(hold::SETTLE),
                    go_on: true,
                    ..Wait::new(
                        WaitOrder::After,
                        Until::Condition {
                            name: "PodsReady".to_owned(),
                            status: "True".to_owned(),
                        },
                    )
                });
            }
            plan.steps.push(again);
            back.push(count(&plan));
            leavers.extend(Leaver::whole(snapshot, *work));
            after.displace(*work, false);
        }
        let mut open = cordon::open(node)?;
        let object = cordon::object(node);
        open.guards.push(fact(&object, "/spec/unschedulable", true));
        open.needs = back;
        open.reason = "all its devices are free".to_owned();
        plan.steps.push(open);
        after.nodes[one.node].cordoned = true;
    }
    after.settle();
    // Moved jobs are placed while their nodes are cordoned; then these nodes are open for pending jobs.
    let emptied: Vec<NodeId> = moves.iter().map(|one| one.node).collect();
    let open = Then {
        opened: &emptied,
        ..Then::default()
    };
    let during = Picture::and_then(&after, open);
    for (step, key) in &displaced {
        let note = during.where_to(key);
        plan.steps[*step].side_effects.notes.push(note);
    }
    let before = Picture::of(snapshot);
    let forecast = compare(snapshot, &before, &during, leavers);
    let names: Vec<&str> = moves
        .iter()
        .map(|one| snapshot.nodes[one.node].name.as_str())
        .collect();
    let moved: usize = moves.iter().map(|one| one.works.len()).sum();
    plan.reasons.push(format!(
        "{} {}, and all devices of {} become free",
        counted(moved as u64, "job"),
        if moved == 1 { "moves" } else { "move" },
        names.join(", ")
    ));
    plan.reasons.extend(news(&forecast, snapshot.at));
    plan.effect = PlanEffect::Forecast(forecast);
    plan.alternatives.push(Alternative {
        sentence: "do nothing: jobs that end also free devices".to_owned(),
        command: None,
    });
    plan.undo = Undo {
        possible: true,
        notes: vec!["moved jobs do not move back, and lost work stays lost".to_owned()],
    };
    Ok(plan)
}

/// The nodes that are worth emptying, the cheapest first.
fn moves(snapshot: &Snapshot, pool: Option<&Name>) -> Vec<Move> {
    let compiled = CompiledFleet::new(snapshot.clone());
    let mut state = State::new(&compiled);
    let mut by_node: Vec<Vec<WorkloadId>> = vec![Vec::new(); snapshot.nodes.len()];
    let mut stays = vec![false; snapshot.nodes.len()];
    for (work, model) in snapshot.workloads.iter().enumerate() {
        let mut nodes: Vec<usize> = seated(model)
            .filter_map(|(_, pod)| {
                snapshot
                    .nodes
                    .binary_search_by(|node| node.name.cmp(&pod.node))
                    .ok()
            })
            .collect();
        nodes.small_sort();
        nodes.dedup();
        let movable = nodes.len() == 1
            && model.status == Status::Running
            && model.preemptible
            && matches!(
                planner_context::way(snapshot, model),
                Ok(EvictBy::Kueue(_) | EvictBy::Suspend(_))
            );
        for node in nodes {
            by_node[node].push(work);
            stays[node] |= !movable;
        }
    }
    let lost = |state: &State<'_>, works: &[WorkloadId]| -> i64 {
        works.iter().map(|work| state.lost_ms(*work) / 1_000).sum()
    };
    let mut candidates: Vec<(i64, usize)> = snapshot
        .nodes
        .iter()
        .enumerate()
        .filter(|(at, node)| {
            pool.is_none_or(|pool| node.pool == *pool)
                && node.is_open()
                && node.devices.len() > 1
                && !by_node[*at].is_empty()
                && !stays[*at]
                && free(&state, *at) * 2 >= node.devices.len()
        })
        .map(|(at, _)| (lost(&state, &by_node[at]), at))
        .collect();
    candidates.small_sort();
    let mut taken: Vec<bool> = vec![false; snapshot.nodes.len()];
    let mut out: Vec<Move> = Vec::new();
    for (cost, node) in candidates {
        let devices = i64::try_from(snapshot.nodes[node].devices.len()).unwrap_or(0);
        if out.len() >= MOST || cost >= devices * HORIZON || taken[node] {
            continue;
        }
        let mark = state.mark();
        let works = by_node[node].clone();
        state.set_open(node, false);
        for work in &works {
            state.evict(*work);
        }
        // They must fit on nodes that are in use: on a free node nothing would be gained.
        let mut targets = Vec::new();
        let found = works.iter().all(|work| {
            let Ok(allocation) = state.find(*work, &Relaxation::default()) else {
                return false;
            };
            let nodes = allocation.nodes();
            let fills = nodes
                .iter()
                .all(|at| free(&state, *at) < snapshot.nodes[*at].devices.len());
            targets.extend(nodes);
            state.admit(*work, allocation);
            fills
        });
        if found {
            for at in targets {
                taken[at] = true;
            }
            out.push(Move { node, works });
        } else {
            state.undo_to(mark);
        }
    }
    out
}

/// Number of devices of a node that are entirely free.
fn free(state: &State<'_>, node: NodeId) -> usize {
    let left = state.left(node).iter();
    left.filter(|left| **left >= engine::snapshot::WHOLE)
        .count()
}
