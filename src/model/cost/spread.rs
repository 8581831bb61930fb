//! Spreads the money of every device over pools, classes, queues, teams and jobs, so that each scope adds up.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use rustc_hash::FxBuildHasher;

use crate::base::time::HOUR_MS;
use crate::base::{DeviceAmount, Name, Rate};
use crate::fleet::Fleet;
use crate::fleet::device::{Device, Pod, Slice};
use crate::fleet::job::JobKey;
use crate::fleet::observed::kinds::Table;
use crate::fleet::rules::accelerator::Vendor;
use crate::fleet::rules::judge::does_nothing;

use super::money::Money;
use super::prices::{Price, PriceList, Prices};
use super::spend_rates::{NodePrices, RateRow, Spend, SpendRates, SpendScope, UNATTRIBUTED};

type Map<K, V> = HashMap<K, V, FxBuildHasher>;

/// What the fleet burns an hour now, by every scope.
///
/// Every number is a sum of the cells of devices ([`Device::cells`]), in money and in devices: in each scope the rows (`unattributed`
/// among them) add up to the total. What no pod holds of a device is `unattributed`, and so is a device whose slices are of unknown size.
/// Of nodes that are known from their pods alone, what those pods hold counts.
pub fn spend_rates(fleet: &Fleet, prices: &Prices) -> SpendRates {
    let mut list = PriceList::new(prices);
    let listed = !fleet.is_hidden(Table::Nodes);
    let mut nodes = BTreeMap::new();
    for node in fleet.nodes.iter().filter(|node| !node.devices.is_empty()) {
        let mut last: Option<(&Name, Option<Arc<Price>>)> = None;
        let prices: NodePrices = node
            .devices
            .iter()
            .map(|device| {
                if !listed && may_be_shared(device) {
                    return None;
                }
                let price = match &last {
                    Some((class, price)) if **class == device.class => price.clone(),
                    _ => list.price(node, device),
                };
                last = Some((&device.class, price.clone()));
                price
            })
            .collect();
        nodes.insert(node.name().clone(), prices);
    }
    SpendRates {
        prices: list.groups(),
        ..spread(fleet, Arc::new(nodes), |_| true)
    }
}

/// True when a pod may hold a whole device of an unlisted node or only a share: the pod's request does not say which, and no
/// exporter reads the device. A MIG instance states its own size, and TPU chips are not shared.
fn may_be_shared(device: &Device) -> bool {
    let is_shared = |slice: &Slice| {
        let resource = slice.resource.as_ref();
        resource.is_some_and(|resource| resource.ends_with(".shared"))
    };
    let is_sized = !device.slices.is_empty() && !device.slices.iter().any(is_shared);
    device.read_at.is_none() && !is_sized && device.vendor != Vendor::Google
}

/// The part of `whole` that the pods of a scope burn. Prices and the rates of nodes and jobs stay those of the fleet.
pub fn spend_rates_of(fleet: &Fleet, whole: &SpendRates, has: impl Fn(&Pod) -> bool) -> SpendRates {
    let prices = Arc::clone(&whole.device_prices);
    let part = spread(fleet, prices, |pod| pod.is_some_and(&has));
    SpendRates {
        total: Spend {
            free: Some(Money::ZERO),
            ..part.total
        },
        prices: whole.prices.clone(),
        nodes: whole.nodes.clone(),
        jobs: whole.jobs.clone(),
        ..part
    }
}

/// Adds up the cells of devices whose holder is counted.
fn spread(
    fleet: &Fleet,
    device_prices: Arc<BTreeMap<Name, NodePrices>>,
    counts: impl Fn(Option<&Pod>) -> bool,
) -> SpendRates {
    let mut out = SpendRates::default();
    let mut pools = ScopeRows::default();
    let mut classes = ScopeRows::default();
    let mut held = HolderScopes::default();
    let mut ordinal = 0u32;
    let visible = fleet.sees_devices();
    let listed = !fleet.is_hidden(Table::Nodes);
    out.total.free = visible.then_some(Money::ZERO);
    for node in fleet.nodes.iter().filter(|node| !node.devices.is_empty()) {
        let prices = device_prices.get(node.name());
        let mut of_node = None::<Money>;
        let mut pool = None;
        for (at, device) in node.devices.iter().enumerate() {
            ordinal += 1;
            let price = prices.and_then(|prices| prices.of(at));
            let mut unpriced = false;
            let mut class = None;
            let mut add = |pod: Option<&Arc<Pod>>, part: &DeviceShare<'_>| {
                // Free devices of a node that is not listed are not known.
                if !counts(pod.map(|pod| &**pod)) || (pod.is_none() && !listed) {
                    return;
                }
                if part.price.is_some() {
                    of_node = Some(of_node.unwrap_or_default() + part.spend.rate);
                }
                unpriced |= part.price.is_none();
                out.devices += part.amount;
                out.total += part.spend;
                let pool = *pool.get_or_insert_with(|| pools.row(&node.pool));
                pools.add(pool, part);
                let class = *class.get_or_insert_with(|| classes.row(&device.class));
                classes.add(class, part);
                held.give(fleet, pod, part);
            };
            let price_of = price.map_or(Money::ZERO, |price| Money::of(price));
            let whole = |is_held| spend_of(fleet, device, price_of, visible, is_held);
            for cell in device.cells() {
                if cell.share.is_some() || cell.holder.is_some() {
                    let part = DeviceShare {
                        ordinal,
                        amount: cell.share.unwrap_or_default(),
                        spend: whole(cell.holder.is_some()).of_cell(&cell),
                        price: price.filter(|_| cell.share.is_some()),
                    };
                    add(cell.holder, &part);
                }
            }
            if device.has_unknown_slices() {
                let part = DeviceShare {
                    ordinal,
                    amount: DeviceAmount::ONE,
                    spend: whole(device.is_allocated()),
                    price,
                };
                add(None, &part);
            }
            out.unpriced += u32::from(unpriced);
        }
        if let Some(rate) = of_node {
            out.nodes.insert(node.name().clone(), rate);
        }
    }
    out.device_prices = device_prices;
    out.jobs = held.money.into_values().collect();
    let columns = [
        (SpendScope::Pool, pools),
        (SpendScope::Queue, held.queues),
        (SpendScope::Team, held.teams),
        (SpendScope::Job, held.jobs),
        (SpendScope::Class, classes),
    ];
    out.rows = columns
        .into_iter()
        .map(|(scope, column)| (scope, column.finish(scope)))
        .collect();
    out
}

/// The cost of a device whose cells are all allocated, or all free.
fn spend_of(fleet: &Fleet, device: &Device, price: Money, visible: bool, is_held: bool) -> Spend {
    let when = |yes: bool| if yes { price } else { Money::ZERO };
    Spend {
        rate: price,
        free: visible.then(|| when(!is_held)),
        idle_allocated: match is_held {
            false => Some(Money::ZERO),
            true => does_nothing(device, &fleet.policy).map(|_| when(fleet.is_idle(device))),
        },
    }
}

/// A device, or a part of one, on its way into a row.
struct DeviceShare<'a> {
    /// Which device of the fleet, so that a row notes an unpriced one only once.
    ordinal: u32,
    /// Its part of the device; zero where that is not known.
    amount: DeviceAmount,
    spend: Spend,
    price: Option<&'a Arc<Price>>,
}

/// Where the prices of a row come from.
#[derive(Default)]
enum PriceOrigin {
    #[default]
    None,
    One(Arc<Price>),
    Several,
}

#[derive(Default)]
struct SpendRow {
    name: Name,
    devices: DeviceAmount,
    unknown_slices: u32,
    spend: Spend,
    unpriced: u32,
    last_unpriced: u32,
    origin: PriceOrigin,
    as_of: Option<Name>,
}

/// The rows of one scope while they are filled. Row 0 is `unattributed`.
struct ScopeRows {
    index: Map<Name, usize>,
    rows: Vec<SpendRow>,
}

impl Default for ScopeRows {
    fn default() -> Self {
        Self {
            index: Map::default(),
            rows: vec![SpendRow {
                name: Name::new(UNATTRIBUTED),
                ..SpendRow::default()
            }],
        }
    }
}

impl ScopeRows {
    fn row(&mut self, name: &Name) -> usize {
        if let Some(at) = self.index.get(name) {
            return *at;
        }
        let at = self.push(name.clone());
        self.index.insert(name.clone(), at);
        at
    }

    fn push(&mut self, name: Name) -> usize {
        self.rows.push(SpendRow {
            name,
            ..SpendRow::default()
        });
        self.rows.len() - 1
    }

    fn add(&mut self, at: usize, part: &DeviceShare<'_>) {
        let row = &mut self.rows[at];
        row.devices += part.amount;
        row.unknown_slices += u32::from(part.amount.is_zero());
        row.spend += part.spend;
        let Some(price) = part.price else {
            if row.last_unpriced != part.ordinal {
                row.last_unpriced = part.ordinal;
                row.unpriced += 1;
            }
            return;
        };
        row.origin = match std::mem::take(&mut row.origin) {
            PriceOrigin::None => {
                row.as_of.clone_from(&price.as_of);
                PriceOrigin::One(Arc::clone(price))
            }
            PriceOrigin::One(known) if Arc::ptr_eq(&known, price) => PriceOrigin::One(known),
            other => {
                row.as_of = row
                    .as_of
                    .take()
                    .into_iter()
                    .chain(price.as_of.clone())
                    .min();
                match other {
                    PriceOrigin::One(known) if known.source == price.source => {
                        PriceOrigin::One(known)
                    }
                    _ => PriceOrigin::Several,
                }
            }
        };
    }

    fn finish(self, scope: SpendScope) -> Vec<RateRow> {
        let mut rows = self.rows.into_iter().map(|row| RateRow {
            scope,
            name: row.name,
            devices: row.devices,
            unknown_slices: row.unknown_slices,
            spend: row.spend,
            unpriced: row.unpriced,
            price_source: match row.origin {
                PriceOrigin::None => None,
                PriceOrigin::One(price) => Some(price.source.clone()),
                PriceOrigin::Several => Some(Name::new("mixed")),
            },
            price_as_of: row.as_of,
        });
        let unattributed = rows.next().filter(|row| {
            !row.devices.is_zero() || row.unpriced > 0 || row.spend.rate != Money::ZERO
        });
        let mut rows: Vec<RateRow> = rows.collect();
        rows.sort_by(|a, b| a.name.cmp(&b.name));
        rows.extend(unattributed);
        rows
    }
}

/// The scopes that follow from who holds a device.
#[derive(Default)]
struct HolderScopes {
    queues: ScopeRows,
    teams: ScopeRows,
    jobs: ScopeRows,
    job_rows: BTreeMap<JobKey, usize>,
    job_names: Map<Name, JobKey>,
    /// Rows of a pod's queue, team and job, by the pod's address: alive for as long as the fleet is.
    rows: Map<usize, [usize; 3]>,
    /// Rate and cost of each job so far, by its row.
    money: Map<usize, (JobKey, (Spend, Money))>,
}

impl HolderScopes {
    fn give(&mut self, fleet: &Fleet, pod: Option<&Arc<Pod>>, part: &DeviceShare<'_>) {
        let [queue, team, job] = pod.map_or([0; 3], |pod| self.rows_of(pod));
        self.queues.add(queue, part);
        self.teams.add(team, part);
        self.jobs.add(job, part);
        let (Some(pod), Some(_)) = (pod, part.price) else {
            return;
        };
        let millis = i128::from(fleet.at.since(pod.held_since()).millis());
        let so_far = |rate: Rate| {
            let micros = i128::from(rate.micros()) * millis / i128::from(HOUR_MS);
            Rate::from_micros(i64::try_from(micros).unwrap_or(i64::MAX))
        };
        let fresh = || (pod.job.clone(), Default::default());
        let (_, money) = self.money.entry(job).or_insert_with(fresh);
        money.0 += part.spend;
        money.1 += part.spend.rate.each(so_far);
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
