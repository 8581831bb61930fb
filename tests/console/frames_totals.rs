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
            counts.allocated += u32::from(device.is_allocated());
            counts.unhealthy += u32::from(device.health.is_fault());
            counts.idle_allocated += u32::from(model::fleet::judge::is_idle(device, NOW, policy));
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
    counts.free = counts.total - counts.allocated;
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
        waiting_devices: match plan.name {
            "h100-train" => 512,
            "a100-shared" => 64,
            "tpu-v5p" => 256,
            _ => 0,
        },
        stale: false,
        sight: Default::default(),
    }
}

/// Adds the money of a pool to every scope.
pub(super) fn charge(plan: &PoolPlan, nodes: &[Arc<Node>], policy: &Policy, burn: &mut SpendRates) {
    let rate = Rate::from_usd(plan.usd).expect("a price");
    for node in of_pool(plan, nodes) {
        for device in &node.devices {
            let idle = model::fleet::judge::is_idle(device, NOW, policy);
            let spend = Spend {
                rate,
                free: if device.is_allocated() {
                    Some(Rate::ZERO)
                } else {
                    Some(rate)
                },
                idle_allocated: Some(if idle { rate } else { Rate::ZERO }),
            };
            burn.total += spend;
            burn.devices += 1;
            *burn.nodes.entry(node.name().clone()).or_default() += rate;
            let holder = device.first_holder().map(|(pod, _)| pod);
            let none = || Name::new("unattributed");
            for scope in Scope::ALL {
                let name = match scope {
                    Scope::Pool => node.pool.clone(),
                    Scope::Class => device.class.clone(),
                    Scope::Team => holder.map_or_else(none, |pod| pod.team.clone()),
                    Scope::Queue => holder
                        .and_then(|pod| pod.queue.clone())
                        .unwrap_or_else(none),
                    Scope::Job => holder.map_or_else(none, |pod| Name::from(pod.job.to_string())),
                };
                let rows = burn.rows.entry(scope).or_default();
                let at = match rows.iter().position(|row| row.name == name) {
                    Some(at) => at,
                    None => {
                        rows.push(RateRow {
                            scope,
                            name,
                            devices: 0,
                            shared: 0,
                            spend: Spend::default(),
                            unpriced: 0,
                            price_source: Some(Name::new("list aws/p5")),
                            price_as_of: Some(Name::new("2026-07-20")),
                        });
                        rows.len() - 1
                    }
                };
                rows[at].devices += 1;
                rows[at].spend += spend;
            }
            if let Some(pod) = holder {
                let (of_job, so_far) = burn.jobs.entry(pod.job.clone()).or_default();
                *of_job += spend;
                *so_far = of_job.rate.times(5);
            }
        }
    }
}

pub(super) fn settle_burn(burn: &mut SpendRates) {
    for rows in burn.rows.values_mut() {
        rows.sort_by_key(|row| (row.name.as_str() == "unattributed", row.name.clone()));
    }
}
