//! Reads flavors, queues, budgets, past runs, routes and engine options.

use std::collections::BTreeMap;

use crate::packing::PackingPolicy;
use crate::snapshot::{
    Backfill, Borrow, DEVICES, EngineOptions, FairStrategy, FlavorChoice, FlavorPreference,
    Fungibility, LeftAlone, OptionOrigin, OptionOrigins, OptionSource, OwnerRuntimes, PLENTY,
    Preemption, QueueStop, QueueingStrategy, Reclaim, Route, SnapshotBudget, SnapshotFlavor,
    SnapshotPriorityClass, SnapshotQueue, SnapshotQuota, System, Within,
};
use model::base::{Name, SmallSort};

use super::limits;
use super::nodes::{BILLING, taint, toleration};
use super::reader::{DocumentCell, Flaw, Read, shown};

pub(super) fn flavor(cell: &DocumentCell<'_>) -> Read<SnapshotFlavor> {
    Ok(SnapshotFlavor {
        name: cell.need("name", |cell| cell.filled())?,
        labels: cell.or("node_labels", BTreeMap::new(), |cell| cell.labels())?,
        taints: cell.list("node_taints", taint)?,
        tolerations: cell.list("tolerations", toleration)?,
        topology: cell.maybe("topology", |cell| cell.filled())?,
        billing: cell.maybe("billing", |cell| cell.word("billing", &BILLING))?,
        price: cell.maybe("usd_per_device_hour", |cell| cell.dollars())?,
    })
}

fn quota(cell: &DocumentCell<'_>) -> Read<SnapshotQuota> {
    let resource = cell.or("resource", Name::from(DEVICES), |cell| cell.filled())?;
    let amount = |cell: &DocumentCell<'_>| cell.amount(&resource, PLENTY);
    Ok(SnapshotQuota {
        flavor: cell.need("flavor", |cell| cell.filled())?,
        nominal: cell.or("nominal", 0, amount)?,
        borrow: cell.maybe("borrow_limit", amount)?,
        lend: cell.maybe("lend_limit", amount)?,
        cap: cell.maybe("cap", amount)?,
        resource,
    })
}

fn preemption(cell: &DocumentCell<'_>) -> Read<Preemption> {
    cell.must_be_object()?;
    Ok(Preemption {
        within: cell.or("within", Within::Never, |cell| {
            cell.word(
                "preemption",
                &[
                    Within::Never,
                    Within::LowerPriority,
                    Within::LowerOrNewerEqual,
                ]
                .map(|one| (one.engine_name(), one)),
            )
        })?,
        reclaim: cell.or("reclaim", Reclaim::Never, |cell| {
            cell.word(
                "reclaim",
                &[Reclaim::Never, Reclaim::LowerPriority, Reclaim::Any]
                    .map(|one| (one.name(), one)),
            )
        })?,
        borrow: cell.or("borrow", Borrow::Never, |cell| {
            cell.word(
                "borrowing preemption",
                &[Borrow::Never, Borrow::LowerPriority].map(|one| (one.name(), one)),
            )
        })?,
        borrow_threshold: cell.maybe("borrow_threshold", priority)?,
    })
}

pub(super) fn priority(cell: &DocumentCell<'_>) -> Read<i32> {
    let whole = cell.whole(i64::from(i32::MIN), i64::from(i32::MAX))?;
    Ok(i32::try_from(whole).unwrap_or_default())
}

/// A queue or cohort.
pub(super) fn queue(cell: &DocumentCell<'_>) -> Read<SnapshotQueue> {
    let name = cell.need("name", |cell| cell.filled())?;
    let systems = System::ALL.map(|system| (system.name(), system));
    let stop = match cell.get("stopped") {
        None => QueueStop::None,
        Some(stopped) if stopped.is_flag() => match stopped.flag()? {
            true => QueueStop::Hold,
            false => QueueStop::None,
        },
        Some(stopped) => stopped.word(
            "stop policy",
            &[
                ("none", QueueStop::None),
                ("hold", QueueStop::Hold),
                ("drain", QueueStop::Drain),
                ("inactive", QueueStop::Inactive),
                ("None", QueueStop::None),
                ("Hold", QueueStop::Hold),
                ("HoldAndDrain", QueueStop::Drain),
            ],
        )?,
    };
    let fungibility = cell.or("fungibility", Fungibility::default(), |cell| {
        cell.must_be_object()?;
        let search = [("stop", true), ("next", false)];
        let preferences = [FlavorPreference::Borrowing, FlavorPreference::Preemption];
        let preferences = preferences.map(|one| (one.name(), one));
        Ok(Fungibility {
            borrow_stops: cell.or("borrow", true, |cell| cell.word("search", &search))?,
            preempt_stops: cell.or("preempt", false, |cell| cell.word("search", &search))?,
            preference: cell.or("preference", FlavorPreference::default(), |cell| {
                cell.word("preference", &preferences)
            })?,
        })
    })?;
    Ok(SnapshotQueue {
        object: cell.or("object", Name::default(), |cell| cell.name())?,
        parent: cell.maybe("parent", |cell| cell.filled())?,
        system: cell.or("system", System::Stokehold, |cell| {
            cell.word("system", &systems)
        })?,
        admits: cell.or("admits", true, |cell| cell.flag())?,
        weight_milli: cell.or("weight", 1_000, |cell| cell.milli(1_000_000))?,
        quotas: cell.list("quota", quota)?,
        preemption: cell.or("preemption", Preemption::default(), preemption)?,
        left_alone: cell.or("left_alone", LeftAlone::default(), |cell| {
            cell.must_be_object()?;
            Ok(LeftAlone {
                preempt_ms: cell.maybe("preempt_seconds", |cell| cell.span())?,
                reclaim_ms: cell.maybe("reclaim_seconds", |cell| cell.span())?,
            })
        })?,
        order: cell.or("strategy", QueueingStrategy::BestEffort, |cell| {
            cell.word(
                "strategy",
                &[QueueingStrategy::Strict, QueueingStrategy::BestEffort]
                    .map(|one| (one.name(), one)),
            )
        })?,
        stop,
        fungibility,
        orders_by_usage: cell.or("orders_by_usage", false, |cell| cell.flag())?,
        name,
    })
}

/// Checks that no quota repeats a flavor and resource, that parents exist, and that no queue is its own ancestor.
pub(super) fn check_tree(cell: &DocumentCell<'_>, queues: &[SnapshotQueue]) -> Read<()> {
    let at: BTreeMap<&str, usize> = queues
        .iter()
        .enumerate()
        .map(|(at, queue)| (&*queue.name, at))
        .collect();
    let flaw = |queue: usize, message: String| Flaw {
        path: format!("{cell}[{queue}]"),
        message,
    };
    let mut above: Vec<Option<usize>> = Vec::with_capacity(queues.len());
    for (which, queue) in queues.iter().enumerate() {
        if at.get(&*queue.name) != Some(&which) {
            return Err(flaw(
                which,
                format!("another queue has the name `{}`", shown(&queue.name)),
            ));
        }
        let mut seen: Vec<(&Name, &Name)> = queue
            .quotas
            .iter()
            .map(|quota| (&quota.resource, &quota.flavor))
            .collect();
        seen.small_sort();
        if seen.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(flaw(
                which,
                "two quotas are of one flavor and resource".to_owned(),
            ));
        }
        above.push(match &queue.parent {
            None => None,
            Some(parent) => match at.get(&**parent) {
                Some(&parent) => Some(parent),
                None => {
                    let words = format!(
                        "its parent `{}` is not in the list; add it, with `admits: false` for a cohort",
                        shown(parent)
                    );
                    return Err(flaw(which, words));
                }
            },
        });
    }
    let most = limits::QUEUE_DEPTH;
    let too_deep = |queue| flaw(queue, format!("it has more than {most} ancestors"));
    // Number of ancestors of each queue, once known.
    let mut depth: Vec<Option<usize>> = vec![None; queues.len()];
    for start in 0..queues.len() {
        let (mut way, mut now) = (Vec::new(), Some(start));
        let mut deep = 0;
        while let Some(queue) = now {
            if let Some(known) = depth[queue] {
                deep = known + 1;
                break;
            }
            if way.contains(&queue) {
                return Err(flaw(queue, "it is its own ancestor".to_owned()));
            }
            if way.len() > most {
                return Err(too_deep(start));
            }
            way.push(queue);
            now = above[queue];
        }
        for queue in way.into_iter().rev() {
            if deep > most {
                return Err(too_deep(queue));
            }
            depth[queue] = Some(deep);
            deep += 1;
        }
    }
    Ok(())
}

pub(super) fn budget(cell: &DocumentCell<'_>) -> Read<SnapshotBudget> {
    let mut pods = cell.list("pods", |cell| cell.filled())?;
    pods.small_sort();
    pods.dedup();
    Ok(SnapshotBudget {
        namespace: cell.or("namespace", Name::default(), |cell| cell.name())?,
        name: cell.need("name", |cell| cell.filled())?,
        pods,
        allowed: cell.or("disruptions_allowed", 0, |cell| cell.count(u32::MAX))?,
        desired_healthy: cell.or("desired_healthy", 0, |cell| cell.count(u32::MAX))?,
    })
}

pub(super) fn class(cell: &DocumentCell<'_>) -> Read<SnapshotPriorityClass> {
    let kinds = [("PriorityClass", false), ("WorkloadPriorityClass", true)];
    Ok(SnapshotPriorityClass {
        of_workloads: cell.or("kind", false, |cell| cell.word("kind", &kinds))?,
        name: cell.need("name", |cell| cell.filled())?,
        value: cell.need("value", priority)?,
    })
}

/// Past runs of an owner.
pub(super) fn runs(cell: &DocumentCell<'_>) -> Read<OwnerRuntimes> {
    let runs = OwnerRuntimes {
        owner: cell.need("owner", |cell| cell.filled())?,
        count: cell.or("count", 1, |cell| cell.count(u32::MAX))?,
        p10_ms: cell.need("p10_seconds", |cell| cell.span())?,
        p50_ms: cell.need("p50_seconds", |cell| cell.span())?,
        p90_ms: cell.need("p90_seconds", |cell| cell.span())?,
    };
    if runs.p10_ms > runs.p50_ms || runs.p50_ms > runs.p90_ms {
        return cell.wrong("its quantiles do not increase");
    }
    Ok(runs)
}

/// A flavor with its speed, or its bare name.
pub(super) fn choice(cell: &DocumentCell<'_>) -> Read<FlavorChoice> {
    if cell.text().is_ok() {
        return Ok(FlavorChoice {
            flavor: cell.filled()?,
            speed_milli: 1_000,
        });
    }
    let choice = FlavorChoice {
        flavor: cell.need("flavor", |cell| cell.filled())?,
        speed_milli: cell.or("speed", 1_000, |cell| cell.milli(1_000))?,
    };
    if choice.speed_milli == 0 {
        return cell.wrong("a speed of 0 never finishes; leave the flavor out");
    }
    Ok(choice)
}

pub(super) fn route(cell: &DocumentCell<'_>) -> Read<Route> {
    let (queue, labels) = cell.or("match", (None, BTreeMap::new()), |cell| {
        cell.must_be_object()?;
        Ok((
            cell.maybe("queue", |cell| cell.filled())?,
            cell.or("label", BTreeMap::new(), |cell| cell.labels())?,
        ))
    })?;
    Ok(Route {
        queue,
        labels,
        flavors: cell.need("flavors", |cell| cell.items(choice))?,
        most_price: cell.maybe("max_usd_per_device_hour", |cell| cell.dollars())?,
        origin: cell.or("origin", OptionOrigin::document(), origin)?,
    })
}

fn origin(cell: &DocumentCell<'_>) -> Read<OptionOrigin> {
    cell.must_be_object()?;
    let source = cell.need("source", |cell| cell.word("source", &OptionSource::NAMES))?;
    let at = cell.maybe("at", |cell| cell.name())?;
    Ok(OptionOrigin::new(source, at.unwrap_or_default()))
}

/// Origins of the options: a value without an origin comes from the document itself.
pub(super) fn origins(cell: &DocumentCell<'_>) -> Read<OptionOrigins> {
    let of = |key: &str| match cell.get(key) {
        Some(_) => OptionOrigin::document(),
        None => OptionOrigin::default(),
    };
    let plain = OptionOrigins {
        placement: of("placement"),
        backfill: of("backfill"),
        fair_sharing: of("fair_sharing"),
    };
    cell.or("origins", plain.clone(), |cell| {
        cell.must_be_object()?;
        Ok(OptionOrigins {
            placement: cell.or("placement", plain.placement, origin)?,
            backfill: cell.or("backfill", plain.backfill, origin)?,
            fair_sharing: cell.or("fair_sharing", plain.fair_sharing, origin)?,
        })
    })
}

pub(super) fn options(cell: &DocumentCell<'_>) -> Read<EngineOptions> {
    cell.must_be_object()?;
    let plain = EngineOptions::default();
    let policies = PackingPolicy::ALL.map(|policy| (policy.name(), policy));
    let strategies = FairStrategy::ALL.map(|strategy| (strategy.name(), strategy));
    let both = || FairStrategy::ALL.to_vec();
    Ok(EngineOptions {
        placement: cell.or("placement", plain.placement, |cell| {
            cell.word("placement policy", &policies)
        })?,
        backfill: cell.or("backfill", plain.backfill, backfill)?,
        fair_sharing: match cell.get("fair_sharing") {
            None => None,
            Some(cell) if cell.is_flag() => cell.flag()?.then(both),
            Some(cell) => Some(cell.items(|cell| cell.word("strategy", &strategies))?),
        },
        exact_victims: cell.or("exact_victims", plain.exact_victims, |cell| cell.count(24))?,
        most_reservations: cell.or("most_reservations", plain.most_reservations, |cell| {
            cell.count(1_024)
        })?,
    })
}

/// `none`, `head`, or a number: the reservations per queue.
fn backfill(cell: &DocumentCell<'_>) -> Read<Backfill> {
    if cell.is_number() {
        return Ok(match cell.count(1_024)? {
            0 => Backfill::None,
            1 => Backfill::Head,
            depth => Backfill::Depth(u16::try_from(depth).unwrap_or(u16::MAX)),
        });
    }
    cell.word(
        "backfill",
        &[("none", Backfill::None), ("head", Backfill::Head)],
    )
}
