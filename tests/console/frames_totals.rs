//! Pools and money of the fleets that frames are drawn of.

use super::*;

pub(super) fn pool(plan: &PoolPlan, nodes: &[Arc<Node>], policy: &Policy) -> Pool {
    let mut counts = DeviceCounts::default();
    let mut node_counts = NodeCounts {
        min: Some(0),
        max: Some(200),
        ..NodeCounts::default()
    };
    let (mut util, mut known) = (0.0, 0);
    let (mut used, mut total) = (0.0, 0.0);
    let (mut hottest, mut watts, mut limit) = (None::<f64>, None::<f64>, None::<f64>);
    for node in of_pool(plan, nodes) {
        node_counts.total += 1;
        node_counts.ready += u32::from(node.ready == Some(true));
        node_counts.cordoned += u32::from(node.cordon.is_some());
        for device in &node.devices {
            counts.total += 1;
            counts.allocated += device.allocated();
            counts.unhealthy += u32::from(device.health.is_fault());
            if model::fleet::judge::is_idle(device, NOW, policy) {
                counts.idle_allocated += device.allocated();
            }
            if let Some(value) = device.util() {
                util += value;
                known += 1;
            }
            if let (Some(a), Some(b)) = device.memory() {
                used += a;
                total += b;
            }
            if let Some(value) = device.signals.get(Signal::Temp) {
                hottest = Some(hottest.map_or(value, |most| most.max(value)));
            }
            if let Some(value) = device.signals.get(Signal::Power) {
                watts = Some(watts.unwrap_or(0.0) + value);
                limit = Some(limit.unwrap_or(0.0) + 700.0);
            }
        }
    }
    counts.free = DeviceAmount::whole(counts.total).less(counts.allocated);
    Pool {
        name: Name::new(plan.name),
        mode: Some(plan.mode),
        billing: Some(plan.billing),
        billing_mixed: false,
        owner: None,
        classes: Box::new([ClassCount {
            class: Name::new(plan.class),
            vendor: if plan.tpu {
                Vendor::Google
            } else {
                Vendor::Nvidia
            },
            kind: if plan.tpu {
                DeviceKind::Tpu
            } else {
                DeviceKind::Gpu
            },
            devices: counts.total,
            per_node: Some(plan.per_node),
        }]),
        nodes: node_counts,
        devices: counts,
        util: (known > 0).then(|| util / f64::from(known)),
        mem_used: (total > 0.0).then(|| used / total),
        temp_max: hottest,
        power_watts: watts,
        power_limit_watts: limit,
        waiting_devices: 0,
        waiting_slices: 0,
        stale: false,
        visibility: Default::default(),
    }
}

/// Adds the money of a pool to every scope.
pub(super) fn charge(plan: &PoolPlan, nodes: &[Arc<Node>], policy: &Policy, burn: &mut SpendRates) {
    let paid = Rate::from_usd(plan.usd).expect("a price");
    let rate = Money::known(paid);
    let price = Arc::new(Price {
        rate: paid,
        source: Name::new("list aws/p5"),
        as_of: Some(Name::new("2026-07-20")),
        is_stand_in: false,
        on_demand: None,
    });
    for node in of_pool(plan, nodes) {
        let prices = NodePrices::Alike(Some(Arc::clone(&price)));
        Arc::make_mut(&mut burn.device_prices).insert(node.name().clone(), prices);
        for device in &node.devices {
            burn.devices += DeviceAmount::ONE;
            *burn.nodes.entry(node.name().clone()).or_default() += rate;
            for cell in device.cells() {
                let is_held = cell.holder.is_some();
                let idle = is_held && model::fleet::judge::is_idle(device, NOW, policy);
                let when = |yes: bool| if yes { rate } else { Money::ZERO };
                let spend = Spend {
                    rate,
                    free: Some(when(!is_held)),
                    idle_allocated: Some(when(idle)),
                };
                charge_cell(node, device, cell, spend.of_cell(&cell), burn);
            }
        }
    }
}

fn charge_cell(
    node: &Node,
    device: &Device,
    cell: AllocationCell<'_>,
    spend: Spend,
    burn: &mut SpendRates,
) {
    burn.total += spend;
    let holder = cell.holder;
    let none = || Name::new("unattributed");
    for scope in SpendScope::ALL {
        let name = match scope {
            SpendScope::Pool => node.pool.clone(),
            SpendScope::Class => device.class.clone(),
            SpendScope::Team => holder.map_or_else(none, |pod| pod.team.clone()),
            SpendScope::Queue => holder
                .and_then(|pod| pod.queue.clone())
                .unwrap_or_else(none),
            SpendScope::Job => holder.map_or_else(none, |pod| Name::from(pod.job.to_string())),
        };
        let rows = burn.rows.entry(scope).or_default();
        let at = match rows.iter().position(|row| row.name == name) {
            Some(at) => at,
            None => {
                rows.push(RateRow {
                    scope,
                    name,
                    devices: DeviceAmount::ZERO,
                    unknown_slices: 0,
                    spend: Spend::default(),
                    unpriced: 0,
                    price_source: Some(Name::new("list aws/p5")),
                    price_as_of: Some(Name::new("2026-07-20")),
                });
                rows.len() - 1
            }
        };
        rows[at].devices += cell.share.unwrap_or_default();
        rows[at].spend += spend;
    }
    if let Some(pod) = holder {
        let (of_job, so_far) = burn.jobs.entry(pod.job.clone()).or_default();
        *of_job += spend;
        *so_far = Money::known(of_job.rate.all.times(5));
    }
}

pub(super) fn settle_burn(burn: &mut SpendRates) {
    for rows in burn.rows.values_mut() {
        rows.sort_by_key(|row| (row.name.as_str() == "unattributed", row.name.clone()));
    }
}
