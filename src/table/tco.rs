//! Total cost of ownership: what the demand of each class of devices costs a month on demand, reserved, on spot and owned, and on devices
//! of the other kind.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use model::base::name::printable;
use model::base::quantities::counted;
use model::base::{Moment, Name};
use model::cost::book::Purchase;
use model::cost::prices::PriceList;
use model::cost::tco::{BreakEven, Demand, Way, as_many, break_even};
use model::cost::{Owned, Price, Prices};
use model::fleet::accelerator::{Accelerator, DeviceKind};
use model::fleet::device::Device;
use model::fleet::job::JobState;
use model::fleet::node::Node;
use model::usage::{HourRow, Span, start_of};

use super::Facts;
use super::table::Layout;
use super::text::{UNKNOWN, age, or_unknown, percent, usd};

/// The JSON Schema of the answer.
pub const SCHEMA: &str = include_str!("../../config/schema/tco.json");

/// So many classes of the other kind are named.
const INSTEAD: usize = 3;

/// Hours of a ledger's month.
pub const LOOKS_BACK_HOURS: i64 = 30 * 24;

/// What the price books do not know, by the settings.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TcoInputs {
    /// A reserved hour as a share of one on demand.
    pub reserved: Option<f64>,
    /// Machines that could be bought: class, devices of a machine, what it costs.
    pub owned: Vec<(String, u32, Owned)>,
}

/// What was used of a class in a month of the ledger.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct MonthCell {
    /// Allocated device-hours that were observed.
    pub device_hours: f64,
    /// Allocated devices on average, over the observed time.
    pub mean_devices: f64,
    /// Allocated devices in the busiest hour.
    pub peak_devices: f64,
    /// For how much of the month there are pictures, 0 to 1.
    pub observed_ratio: f64,
}

/// One way of paying.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct WayCell {
    /// `now`, `on-demand`, `reserved`, `spot` or `owned`.
    pub way: &'static str,
    /// USD a device-hour; `None` where it is not known.
    pub usd_per_device_hour: Option<f64>,
    /// USD for the present demand in 730 hours.
    pub usd_per_month: Option<f64>,
    /// USD for the ledger's month in 730 hours: committed devices at its peak, others at its mean.
    pub usd_of_ledger_month: Option<f64>,
    /// Book and row, or the setting; or why the price is not known.
    pub source: String,
}

/// The same work on devices of another kind.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct InsteadCell {
    /// Class.
    pub class: String,
    /// Devices that do as much by their dense BF16 peak.
    pub devices: f64,
    /// USD a device-hour on demand.
    pub usd_per_device_hour: f64,
    /// USD in 730 hours.
    pub usd_per_month: f64,
    /// Book and row.
    pub source: String,
}

/// One class.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TcoRow {
    /// Class.
    pub class: String,
    /// `gpu`, `tpu` or `other`.
    pub kind: &'static str,
    /// Devices held now: the present demand.
    pub devices: u32,
    /// Devices that waiting jobs ask for.
    pub devices_waiting: u64,
    /// Jobs that wait for them.
    pub jobs_waiting: usize,
    /// Median of their forecast waits with the devices that there are, seconds; `None` where none is known.
    pub wait_p50_seconds: Option<u64>,
    /// Of these, how many have a forecast start.
    pub jobs_with_start: usize,
    /// The ledger's month; `None` without a ledger.
    pub ledger_month: Option<MonthCell>,
    /// Ways of paying, the present one first.
    pub ways: Vec<WayCell>,
    /// Share of hours in use above which owned costs less than on demand.
    pub owned_pays_above_ratio: Option<f64>,
    /// Months of full use after which owned devices have paid off against on demand.
    pub owned_pays_after_months: Option<f64>,
    /// The cheapest classes of the other kind.
    pub instead: Vec<InsteadCell>,
}

/// The months of a ledger by class. `ratio` is for how much of the span there are pictures.
pub fn months(rows: &[HourRow], span: Span, ratio: f64) -> BTreeMap<Name, MonthCell> {
    let mut hours: BTreeMap<(&Name, i64), i64> = BTreeMap::new();
    for row in rows {
        let totals = &row.totals;
        let allocated = totals.busy_ms + totals.idle_ms + totals.not_read_ms;
        *hours.entry((&row.key.class, row.hour)).or_default() += allocated;
    }
    let observed = (span.to - span.from) as f64 * ratio;
    let mut all: BTreeMap<Name, MonthCell> = BTreeMap::new();
    for ((class, _), ms) in hours {
        let devices = ms as f64 / 3.6e6;
        let cell = all.entry(class.clone()).or_insert(MonthCell {
            device_hours: 0.0,
            mean_devices: 0.0,
            peak_devices: 0.0,
            observed_ratio: ratio,
        });
        cell.device_hours += devices;
        cell.peak_devices = cell.peak_devices.max(devices);
    }
    for cell in all.values_mut() {
        cell.mean_devices = match observed > 0.0 {
            true => cell.device_hours / observed,
            false => 0.0,
        };
        // In hours that were observed in part the peak is counted too low; it is never below the mean.
        cell.peak_devices = cell.peak_devices.max(cell.mean_devices);
    }
    all.retain(|_, cell| cell.device_hours > 0.0 && ratio > 0.0);
    all
}

/// What is held of a class, and a node and device that stand for it: of the largest pool.
struct Held<'a> {
    devices: u32,
    /// USD an hour of what is held; `None` where a price is not known.
    usd: Option<f64>,
    pools: BTreeMap<&'a Name, (u32, &'a Node, &'a Device)>,
    kind: DeviceKind,
}

fn held<'a>(facts: &'a Facts, prices: &Prices) -> BTreeMap<&'a Name, Held<'a>> {
    let mut list = PriceList::new(prices);
    let mut all: BTreeMap<&Name, Held<'_>> = BTreeMap::new();
    for node in facts.fleet.nodes.iter() {
        for device in node
            .devices
            .iter()
            .filter(|device| !device.class.is_empty())
        {
            let class = all.entry(&device.class).or_insert_with(|| Held {
                devices: 0,
                usd: Some(0.0),
                pools: BTreeMap::new(),
                kind: device.kind,
            });
            let pool = class.pools.entry(&node.pool).or_insert((0, node, device));
            pool.0 += 1;
            if device.holders().next().is_some() {
                class.devices += 1;
                let price = list.price(node, device);
                class.usd = class
                    .usd
                    .zip(price)
                    .map(|(sum, price)| sum + price.rate.usd());
            }
        }
    }
    // Pools at zero nodes have none, and their jobs wait all the same.
    for job in facts
        .fleet
        .jobs
        .iter()
        .filter(|job| job.state == JobState::Waiting)
    {
        let Some(class) = job.class.as_ref().filter(|class| !class.is_empty()) else {
            continue;
        };
        let known = facts.fleet.policy.catalog.of_class(class);
        all.entry(class).or_insert_with(|| Held {
            devices: 0,
            usd: Some(0.0),
            pools: BTreeMap::new(),
            kind: known.map_or(DeviceKind::Other, |known| known.kind),
        });
    }
    all
}

/// Every class of the fleet that is held or waited for, by name.
pub fn rows(
    facts: &Facts,
    prices: &Prices,
    inputs: &TcoInputs,
    months: &BTreeMap<Name, MonthCell>,
) -> Vec<TcoRow> {
    let catalog = &facts.fleet.policy.catalog;
    let all = held(facts, prices);
    let rows = all.into_iter().map(|(class, held)| {
        let mut waits: Vec<u64> = Vec::new();
        let (mut devices_waiting, mut jobs_waiting) = (0, 0);
        let jobs = facts.fleet.jobs.iter();
        for job in
            jobs.filter(|job| job.state == JobState::Waiting && job.class.as_ref() == Some(class))
        {
            jobs_waiting += 1;
            devices_waiting += u64::from(job.devices_requested);
            let told = facts.answers.job(&job.id);
            let start = told.and_then(|told| told.answer.start.as_ref()?.p50);
            waits.extend(start.map(|at| at.since(facts.now).seconds()));
        }
        waits.sort_unstable();
        let month = months.get(class).copied();
        let now = f64::from(held.devices);
        let present = Demand {
            mean: now,
            peak: now,
        };
        let past = month.map(|month| Demand {
            mean: month.mean_devices,
            peak: month.peak_devices,
        });
        let offers = offers(class, &held, prices, inputs);
        let mut ways = vec![WayCell {
            way: "now",
            usd_per_device_hour: held.usd.filter(|_| held.devices > 0).map(|usd| usd / now),
            usd_per_month: held.usd.map(|usd| usd * model::cost::tco::MONTH_HOURS),
            usd_of_ledger_month: None,
            source: String::from("what the held devices cost now"),
        }];
        for (way, offer) in &offers.ways {
            let rate = offer.as_ref().ok().map(|(rate, _)| *rate);
            ways.push(WayCell {
                way: way.name(),
                usd_per_device_hour: rate,
                usd_per_month: rate.map(|rate| present.usd_per_month(*way, rate)),
                usd_of_ledger_month: rate
                    .zip(past)
                    .map(|(rate, past)| past.usd_per_month(*way, rate)),
                source: match offer {
                    Ok((_, source)) => source.clone(),
                    Err(why) => why.clone(),
                },
            });
        }
        TcoRow {
            class: class.to_string(),
            kind: held.kind.name(),
            devices: held.devices,
            devices_waiting,
            jobs_waiting,
            wait_p50_seconds: waits.get(waits.len().saturating_sub(1) / 2).copied(),
            jobs_with_start: waits.len(),
            ledger_month: month,
            ways,
            owned_pays_above_ratio: offers.even.map(|even| even.used_ratio),
            owned_pays_after_months: offers.even.and_then(|even| even.months),
            instead: catalog
                .of_class(class)
                .map(|own| instead(own, now, &catalog.accelerators, prices))
                .unwrap_or_default(),
        }
    });
    rows.filter(|row| row.devices > 0 || row.jobs_waiting > 0 || row.ledger_month.is_some())
        .collect()
}

/// USD a device-hour and where it is from, or why it is not known.
type Offer = Result<(f64, String), String>;

struct Offers {
    ways: Vec<(Way, Offer)>,
    even: Option<BreakEven>,
}

fn source(price: &Price) -> String {
    match &price.as_of {
        // (Some notes in books begin with the date.)
        Some(as_of) if !price.source.contains(as_of.as_str()) => {
            format!("{} {as_of}", price.source)
        }
        _ => price.source.to_string(),
    }
}

fn offers(class: &str, held: &Held<'_>, prices: &Prices, inputs: &TcoInputs) -> Offers {
    let largest = held
        .pools
        .values()
        .max_by_key(|(count, node, _)| (*count, node.name()));
    let listed = |purchase: Purchase| -> Offer {
        let price = match largest {
            Some((_, node, device)) => prices.offer(node, device, purchase),
            // None of it is there to say what machine it is in.
            None => prices.of_class(class, purchase),
        };
        let told = price.map(|price| (price.rate.usd(), source(&price)));
        told.ok_or_else(|| {
            format!(
                "no {} price of it is in a book: set [[prices.override]]",
                purchase.name()
            )
        })
    };
    let on_demand = listed(Purchase::OnDemand);
    let agreed = largest.and_then(|(_, node, device)| prices.reserved(node, device));
    let reserved = match (agreed, inputs.reserved, &on_demand) {
        (Some(rate), _, _) => Ok((rate.usd(), String::from("settings: price override"))),
        (None, Some(share), Ok((rate, _))) => Ok((
            rate * share,
            format!(
                "settings: tco.reserved, {} of on demand",
                percent(Some(share))
            ),
        )),
        (None, Some(_), Err(why)) => Err(why.clone()),
        (None, None, _) => Err(String::from(
            "books have no commitments: set tco.reserved, or an override with billing = \"reserved\"",
        )),
    };
    let mut machines = inputs.owned.iter();
    let machine = machines
        .find(|(of, ..)| of.eq_ignore_ascii_case(class))
        .map(|(_, devices, owned)| (*owned, *devices, String::from("settings: tco.owned")));
    let machine = machine.or_else(|| {
        held.pools.iter().find_map(|(pool, (_, node, _))| {
            let devices = u32::try_from(node.devices.len()).unwrap_or(u32::MAX);
            let owned = prices.owned(pool)?;
            Some((
                *owned,
                devices,
                format!("settings: machines of pool {pool}"),
            ))
        })
    });
    let owned = match &machine {
        Some((owned, devices, source)) => owned
            .usd_per_device_hour(*devices)
            .map(|rate| (rate, source.clone()))
            .ok_or_else(|| format!("{source}: no device or no years")),
        None => Err(String::from(
            "what a machine costs is not known: set [[tco.owned]]",
        )),
    };
    let even = machine.as_ref().zip(on_demand.as_ref().ok());
    let even = even.and_then(|((owned, devices, _), (rate, _))| break_even(*rate, owned, *devices));
    Offers {
        ways: vec![
            (Way::OnDemand, on_demand),
            (Way::Reserved, reserved),
            (Way::Spot, listed(Purchase::Spot)),
            (Way::Owned, owned),
        ],
        even,
    }
}

/// The cheapest classes of the other kind that do as much by their peaks: TPUs for GPUs, GPUs for TPUs.
fn instead(
    own: &Accelerator,
    devices: f64,
    all: &[Accelerator],
    prices: &Prices,
) -> Vec<InsteadCell> {
    let wanted = match own.kind {
        DeviceKind::Gpu => DeviceKind::Tpu,
        DeviceKind::Tpu => DeviceKind::Gpu,
        DeviceKind::Other => return Vec::new(),
    };
    let others = all.iter().filter(|other| other.kind == wanted);
    let mut found: Vec<InsteadCell> = others
        .filter_map(|other| {
            let count = as_many(devices, own.bf16_tflops?, other.bf16_tflops?)?;
            let price = prices.of_class(&other.class, Purchase::OnDemand)?;
            let rate = price.rate.usd();
            (count > 0.0).then(|| InsteadCell {
                class: other.class.to_string(),
                devices: count,
                usd_per_device_hour: rate,
                usd_per_month: Demand {
                    mean: count,
                    peak: count,
                }
                .usd_per_month(Way::OnDemand, rate),
                source: source(&price),
            })
        })
        .collect();
    found.sort_by(|a, b| {
        a.usd_per_month
            .total_cmp(&b.usd_per_month)
            .then_with(|| a.class.cmp(&b.class))
    });
    found.dedup_by(|b, a| a.class == b.class);
    found.truncate(INSTEAD);
    found
}

/// The rows as text; `month` is the ledger's, where there is one.
pub fn text(rows: &[TcoRow], at: Moment, month: Option<Span>) -> String {
    let mut out = format!("as of {} · a month is 730 h\n", at.rfc3339());
    if let Some(span) = month {
        let (from, to) = (start_of(span.from).rfc3339(), start_of(span.to).rfc3339());
        let _ = writeln!(
            out,
            "ledger month {from} to {to}: on demand and spot by its mean, reserved and owned by its busiest hour"
        );
    }
    for row in rows {
        let waits = match (row.jobs_waiting, row.wait_p50_seconds) {
            (0, _) => String::from("none waits"),
            (jobs, wait) => {
                let wait = match wait {
                    Some(seconds) => format!(
                        "median forecast wait {} ({} of {jobs} known)",
                        age(Some(seconds)),
                        row.jobs_with_start
                    ),
                    None => String::from("no start is forecast"),
                };
                let jobs = counted(jobs as u64, "job");
                format!("{} waited for by {jobs}, {wait}", row.devices_waiting)
            }
        };
        let _ = write!(
            out,
            "\n{} ({}): {} held, {waits}\n",
            printable(&row.class),
            row.kind,
            row.devices
        );
        if let Some(month) = row.ledger_month {
            let _ = writeln!(
                out,
                "  ledger month: {:.0} device-hours, {:.1} devices on average, {:.0} in the busiest hour, {} observed",
                month.device_hours,
                month.mean_devices,
                month.peak_devices,
                percent(Some(month.observed_ratio))
            );
        }
        let mut titles = vec![("WAY", false), ("$/DEVICE-H", true), ("HELD $/MONTH", true)];
        if row.ledger_month.is_some() {
            titles.push(("$ LEDGER MONTH", true));
        }
        titles.push(("FROM", false));
        let lines: Vec<Vec<String>> = row
            .ways
            .iter()
            .map(|way| {
                let mut cells = vec![
                    way.way.to_owned(),
                    or_unknown(way.usd_per_device_hour.map(|rate| format!("{rate:.2}"))),
                    usd(way.usd_per_month),
                ];
                if row.ledger_month.is_some() {
                    cells.push(usd(way.usd_of_ledger_month));
                }
                cells.push(printable(&way.source).into_owned());
                cells
            })
            .collect();
        let layout = Layout::new(titles, &lines);
        for line in
            std::iter::once(layout.header()).chain(lines.iter().map(|line| layout.line(line)))
        {
            let _ = write!(out, "  {line}");
        }
        if let Some(ratio) = row.owned_pays_above_ratio {
            let _ = match (ratio > 1.0, row.owned_pays_after_months) {
                (true, _) => writeln!(
                    out,
                    "  owned never costs less than on demand within the years of its write-off"
                ),
                (false, Some(months)) => writeln!(
                    out,
                    "  owned costs less than on demand above {} use; it has paid off after {months:.0} months of full use",
                    percent(Some(ratio))
                ),
                (false, None) => writeln!(
                    out,
                    "  owned costs less than on demand above {} use",
                    percent(Some(ratio))
                ),
            };
        }
        for other in &row.instead {
            let _ = writeln!(
                out,
                "  as much by BF16 peak: {:.0} × {} on demand, {} a month ({})",
                other.devices,
                other.class,
                usd(Some(other.usd_per_month)),
                printable(&other.source)
            );
        }
    }
    if rows.is_empty() {
        let _ = writeln!(out, "{UNKNOWN} no device is held or waited for");
    }
    out
}

#[cfg(test)]
mod tests;
