//! Spreads the money of every device over pools, classes, queues, teams and jobs, so that each scope adds up.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use rustc_hash::FxBuildHasher;

use crate::base::{Name, Rate};
use crate::fleet::Fleet;
use crate::fleet::device::{Device, Pod};
use crate::fleet::job::JobKey;
use crate::fleet::judge::does_nothing;

use super::prices::{Price, PriceList, Prices};
use super::spend_rates::{RateRow, Scope, Spend, SpendRates, UNATTRIBUTED};

type Map<K, V> = HashMap<K, V, FxBuildHasher>;

/// What the fleet burns an hour now, by every scope.
///
/// In each scope, the rows (`unattributed` among them) add up to the total in money and devices. A shared
/// device spreads its money over its slices by their size; what no slice holder pays for is `unattributed`.
/// The device itself is counted in the row of its first holder.
pub fn spend_rates(fleet: &Fleet, prices: &Prices) -> SpendRates {
    let mut list = PriceList::new(prices);
    let mut out = SpendRates::default();
    let mut pools = Column::default();
    let mut classes = Column::default();
    let mut held = HolderScopes::default();
    let mut ordinal = 0u32;
    let visible = fleet.sees_devices();
    out.total.free = visible.then_some(Rate::ZERO);
    for node in fleet.nodes.iter().filter(|node| !node.devices.is_empty()) {
        let pool = pools.row(&node.pool);
        let mut of_node = None::<Rate>;
        let mut last: Option<(&Name, Option<Arc<Price>>)> = None;
        for device in &node.devices {
            ordinal += 1;
            let price = match &last {
                Some((class, price)) if **class == device.class => price.clone(),
                _ => list.price(node, device),
            };
            last = Some((&device.class, price.clone()));
            let price = price.as_ref();
            let rate = price.map_or(Rate::ZERO, |price| price.rate);
            let part = DeviceShare {
                ordinal,
                counted: true,
                shared: false,
                spend: spend_of(fleet, device, rate, visible),
                price,
            };
            if price.is_some() {
                of_node = Some(of_node.unwrap_or_default() + rate);
            }
            out.devices += 1;
            out.unpriced += u32::from(price.is_none());
            out.total += part.spend;
            pools.add(pool, &part);
            let class = classes.row(&device.class);
            classes.add(class, &part);
            held.spread(fleet, device, &part);
        }
        if let Some(rate) = of_node {
            out.nodes.insert(node.name().clone(), rate);
        }
    }
    out.prices = list.groups();
    out.jobs = held.money.into_values().collect();
    let columns = [
        (Scope::Pool, pools),
        (Scope::Queue, held.queues),
        (Scope::Team, held.teams),
        (Scope::Job, held.jobs),
        (Scope::Class, classes),
    ];
    out.rows = columns
        .into_iter()
        .map(|(scope, column)| (scope, column.finish(scope)))
        .collect();
    out
}

fn spend_of(fleet: &Fleet, device: &Device, rate: Rate, visible: bool) -> Spend {
    let allocated = device.is_allocated();
    let when = |yes: bool| if yes { rate } else { Rate::ZERO };
    Spend {
        rate,
        free: visible.then(|| when(!allocated)),
        idle_allocated: match allocated {
            false => Some(Rate::ZERO),
            true => does_nothing(device, &fleet.policy).map(|_| when(fleet.is_idle(device))),
        },
    }
}

/// A device, or a part of one, on its way into a row.
struct DeviceShare<'a> {
    /// Which device of the fleet, so that a row notes an unpriced one only once.
    ordinal: u32,
    /// The device counts here, and in no other row of the scope.
    counted: bool,
    /// Others may hold parts of the device.
    shared: bool,
    spend: Spend,
    price: Option<&'a Arc<Price>>,
}

/// Where the prices of a row come from.
#[derive(Default)]
enum Origin {
    #[default]
    None,
    One(Arc<Price>),
    Several,
}

#[derive(Default)]
struct Row {
    name: Name,
    devices: u32,
    shared: u32,
    spend: Spend,
    unpriced: u32,
    last_unpriced: u32,
    origin: Origin,
    as_of: Option<Name>,
}

/// The rows of one scope while they are filled. Row 0 is `unattributed`.
struct Column {
    index: Map<Name, usize>,
    rows: Vec<Row>,
}

impl Default for Column {
    fn default() -> Self {
        Self {
            index: Map::default(),
            rows: vec![Row {
                name: Name::new(UNATTRIBUTED),
                ..Row::default()
            }],
        }
    }
}

impl Column {
    fn row(&mut self, name: &Name) -> usize {
        if let Some(at) = self.index.get(name) {
            return *at;
        }
        let at = self.push(name.clone());
        self.index.insert(name.clone(), at);
        at
    }

    fn push(&mut self, name: Name) -> usize {
        self.rows.push(Row {
            name,
            ..Row::default()
        });
        self.rows.len() - 1
    }

    fn add(&mut self, at: usize, part: &DeviceShare<'_>) {
        let row = &mut self.rows[at];
        row.devices += u32::from(part.counted);
        row.shared += u32::from(part.counted && part.shared);
        row.spend += part.spend;
        let Some(price) = part.price else {
            if row.last_unpriced != part.ordinal {
                row.last_unpriced = part.ordinal;
                row.unpriced += 1;
            }
            return;
        };
        row.origin = match std::mem::take(&mut row.origin) {
            Origin::None => {
                row.as_of.clone_from(&price.as_of);
                Origin::One(Arc::clone(price))
            }
            Origin::One(known) if Arc::ptr_eq(&known, price) => Origin::One(known),
            other => {
                row.as_of = row
                    .as_of
                    .take()
                    .into_iter()
                    .chain(price.as_of.clone())
                    .min();
                match other {
                    Origin::One(known) if known.source == price.source => Origin::One(known),
                    _ => Origin::Several,
                }
            }
        };
    }

    fn finish(self, scope: Scope) -> Vec<RateRow> {
        let mut rows = self.rows.into_iter().map(|row| RateRow {
            scope,
            name: row.name,
            devices: row.devices,
            shared: row.shared,
            spend: row.spend,
            unpriced: row.unpriced,
            price_source: match row.origin {
                Origin::None => None,
                Origin::One(price) => Some(price.source.clone()),
                Origin::Several => Some(Name::new("mixed")),
            },
            price_as_of: row.as_of,
        });
        let unattributed = rows
            .next()
            .filter(|row| row.devices > 0 || row.unpriced > 0 || row.spend.rate != Rate::ZERO);
        let mut rows: Vec<RateRow> = rows.collect();
        rows.sort_by(|a, b| a.name.cmp(&b.name));
        rows.extend(unattributed);
        rows
    }
}

/// The scopes that follow from who holds a device.
#[derive(Default)]
struct HolderScopes {
    queues: Column,
    teams: Column,
    jobs: Column,
    job_rows: BTreeMap<JobKey, usize>,
    job_names: Map<Name, JobKey>,
    /// Rows of a pod's queue, team and job, by the pod's address: alive for as long as the fleet is.
    rows: Map<usize, [usize; 3]>,
    /// What each job burns and has burnt, by its row.
    money: Map<usize, (JobKey, (Spend, Rate))>,
}

impl HolderScopes {
    fn spread(&mut self, fleet: &Fleet, device: &Device, whole: &DeviceShare<'_>) {
        if let Some(pod) = &device.holder {
            self.give(fleet, Some(pod), whole);
        } else if device.slices.iter().any(|slice| slice.holder.is_some()) {
            self.slice_up(fleet, device, whole);
        } else {
            self.give(fleet, None, whole);
        }
    }

    /// Each slice takes its share of the money by size. Shares are cut from a running sum, so that they add
    /// up to the device to the micro-dollar.
    fn slice_up(&mut self, fleet: &Fleet, device: &Device, whole: &DeviceShare<'_>) {
        let weights = sizes(device.slices.iter().map(|slice| &slice.name));
        let all: u64 = weights.iter().sum();
        let mut counted = false;
        let mut before = 0;
        for (slice, weight) in device.slices.iter().zip(weights) {
            let first = !counted && slice.holder.is_some();
            counted |= first;
            let part = DeviceShare {
                ordinal: whole.ordinal,
                counted: first,
                shared: true,
                spend: whole.spend.cut(before, weight, all),
                price: whole.price,
            };
            self.give(fleet, slice.holder.as_ref(), &part);
            before += weight;
        }
    }

    fn give(&mut self, fleet: &Fleet, pod: Option<&Arc<Pod>>, part: &DeviceShare<'_>) {
        let [queue, team, job] = pod.map_or([0; 3], |pod| self.rows_of(pod));
        self.queues.add(queue, part);
        self.teams.add(team, part);
        self.jobs.add(job, part);
        let (Some(pod), Some(_)) = (pod, part.price) else {
            return;
        };
        let millis = i128::from(fleet.at.since(pod.held_since()).millis());
        let so_far = i128::from(part.spend.rate.micros()) * millis / 3_600_000;
        let fresh = || (pod.job.clone(), Default::default());
        let (_, money) = self.money.entry(job).or_insert_with(fresh);
        money.0 += part.spend;
        money.1 += Rate::from_micros(i64::try_from(so_far).unwrap_or(i64::MAX));
    }

    fn rows_of(&mut self, pod: &Arc<Pod>) -> [usize; 3] {
        let address = Arc::as_ptr(pod) as usize;
        if let Some(rows) = self.rows.get(&address) {
            return *rows;
        }
        let rows = [
            pod.queue.as_ref().map_or(0, |queue| self.queues.row(queue)),
            self.teams.row(&pod.team),
            self.job_row(&pod.job),
        ];
        self.rows.insert(address, rows);
        rows
    }

    /// The row of a job: `namespace/name`, with the kind behind it when two kinds share a name.
    fn job_row(&mut self, job: &JobKey) -> usize {
        if let Some(at) = self.job_rows.get(job) {
            return *at;
        }
        let plain = Name::from(job.to_string());
        let name = if self.job_names.contains_key(&plain) {
            Name::from(format!("{job} ({})", job.kind))
        } else {
            self.job_names.insert(plain.clone(), job.clone());
            plain
        };
        let at = self.jobs.push(name);
        self.job_rows.insert(job.clone(), at);
        at
    }
}

/// Sizes of a device's slices by their names: compute parts where every name tells them (`3g.40gb-1`), else all alike.
pub fn sizes<'a>(slices: impl ExactSizeIterator<Item = &'a Name>) -> Vec<u64> {
    let count = slices.len();
    let parts: Option<Vec<u64>> = slices
        .map(|name| {
            let (parts, _) = name.split_once("g.")?;
            parts.parse().ok().filter(|parts| (1..=64).contains(parts))
        })
        .collect();
    parts.unwrap_or_else(|| vec![1; count])
}
