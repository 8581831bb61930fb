//! Total cost of ownership: the monthly cost of each device class's demand on demand, reserved, on spot, owned, and on
//! devices of another kind.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;

use model::base::name::printable;
use model::base::quantities::counted;
use model::base::{Moment, Name};
use model::cost::book::Purchase;
use model::cost::prices::PriceList;
use model::cost::tco::{BreakEven, DevicesUsed, Payment, as_many, break_even};
use model::cost::{Owned, Price, Prices};
use model::fleet::accelerator::{Accelerator, DeviceKind};
use model::fleet::device::Device;
use model::fleet::job::JobState;
use model::fleet::node::Node;
use model::schema::{SchemaHead, of_rows, one_of};
use usage::{HourRow, Span, start_of};

use super::Facts;
use super::table::text_table;
use super::text::{UNKNOWN, age, or_unknown, percent, usd};

/// The JSON Schema of the rows.
pub fn schema() -> serde_json::Value {
    of_rows::<TcoRow>(SchemaHead {
        name: "tco",
        title: "What the demand of each class of devices costs in each way of paying",
        description: "Unknown is null, never 0; units are in the names. A month is 730 hours.",
    })
}

/// The number of alternative classes listed.
const INSTEAD: usize = 3;

/// Hours of the ledger that count as a month.
pub const LOOKS_BACK_HOURS: i64 = 30 * 24;

/// Prices from the settings that price books do not have.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TcoInputs {
    /// Reserved price as a share of the on-demand price, 0 to 1.
    pub reserved: Option<f64>,
    /// Machines that could be bought: class, devices per machine, purchase terms.
    pub owned: Vec<(String, u32, Owned)>,
}

/// Usage of a class over a month of the ledger.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, JsonSchema)]
pub struct MonthCell {
    /// Allocated device-hours in the observed time.
    #[schemars(range(min = 0))]
    pub device_hours: f64,
    /// Mean allocated devices over the observed time.
    #[schemars(range(min = 0))]
    pub mean_devices: f64,
    /// Allocated devices in the peak hour.
    #[schemars(range(min = 0))]
    pub peak_devices: f64,
    /// Observed share of the month, 0 to 1.
    #[schemars(range(min = 0, max = 1))]
    pub observed_ratio: f64,
}

/// The present mix of ways of paying.
const NOW: &str = "now";

/// The present mix, or one way of paying.
struct PresentOrWay;

model::written_as!(
    PresentOrWay,
    one_of(std::iter::once(NOW).chain(Payment::WORDS.iter().copied()))
);

/// A way to pay for devices, and its cost.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct WayCell {
    /// How the devices are paid for; `now` for the present mix.
    #[schemars(with = "PresentOrWay")]
    pub way: &'static str,
    /// USD per device-hour; null where unknown.
    #[schemars(range(min = 0))]
    pub usd_per_device_hour: Option<f64>,
    /// USD per 730 hours for the present demand.
    #[schemars(range(min = 0))]
    pub usd_per_month: Option<f64>,
    /// USD per 730 hours for the ledger's month: committed devices at its peak, others at its mean.
    #[schemars(range(min = 0))]
    pub usd_of_ledger_month: Option<f64>,
    /// Price book and row, or the setting; or why the price is unknown.
    pub source: String,
}

/// The same work on devices of another kind.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct InsteadCell {
    /// Class of the other devices.
    pub class: String,
    /// Devices with the same total dense BF16 peak.
    #[schemars(range(min = 0))]
    pub devices: f64,
    /// On-demand price, USD per device-hour.
    #[schemars(range(min = 0))]
    pub usd_per_device_hour: f64,
    /// Cost of so many devices, USD per 730 hours.
    #[schemars(range(min = 0))]
    pub usd_per_month: f64,
    /// Price book and row of the price.
    pub source: String,
}

#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct TcoRow {
    /// Class of the devices.
    pub class: String,
    /// What kind of accelerator they are.
    #[schemars(with = "DeviceKind")]
    pub kind: &'static str,
    /// Allocated devices: the present demand.
    pub devices: u32,
    /// Devices that waiting jobs request.
    pub devices_waiting: u64,
    /// Number of waiting jobs that request them.
    pub jobs_waiting: usize,
    /// Median of the forecast waits of these jobs with the existing devices, seconds; null where none is known.
    pub wait_p50_seconds: Option<u64>,
    /// How many of these jobs have a forecast start.
    pub jobs_with_start: usize,
    /// The ledger's month; null without a ledger.
    pub ledger_month: Option<MonthCell>,
    /// Purchase options, the present one first.
    pub ways: Vec<WayCell>,
    /// Share of hours in use above which owned devices cost less than on-demand ones; above 1: never.
    #[schemars(range(min = 0))]
    pub owned_pays_above_ratio: Option<f64>,
    /// Months of full use after which owned devices break even with on-demand ones.
    #[schemars(range(min = 0))]
    pub owned_pays_after_months: Option<f64>,
    /// The cheapest classes of another kind.
    pub instead: Vec<InsteadCell>,
}

/// The ledger's month by class. `ratio` is the observed share of the span.
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
        // In partly observed hours the peak is underestimated; it is never below the mean.
        cell.peak_devices = cell.peak_devices.max(cell.mean_devices);
    }
    all.retain(|_, cell| cell.device_hours > 0.0 && ratio > 0.0);
    all
}

/// Allocated devices of a class, with a sample node and device from each pool.
struct ClassDevices<'a> {
    devices: u32,
    /// Rate of the allocated devices, USD/h; `None` where a price is unknown.
    usd: Option<f64>,
    pools: BTreeMap<&'a Name, (u32, &'a Node, &'a Device)>,
    kind: DeviceKind,
}

fn class_devices<'a>(facts: &'a Facts, prices: &Prices) -> BTreeMap<&'a Name, ClassDevices<'a>> {
    let mut list = PriceList::new(prices);
    let mut all: BTreeMap<&Name, ClassDevices<'_>> = BTreeMap::new();
    for node in facts.fleet.nodes.iter() {
        for device in node
            .devices
            .iter()
            .filter(|device| !device.class.is_empty())
        {
            let class = all.entry(&device.class).or_insert_with(|| ClassDevices {
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
    // Pools scaled to zero have no devices, but jobs may wait for them.
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
        all.entry(class).or_insert_with(|| ClassDevices {
            devices: 0,
            usd: Some(0.0),
            pools: BTreeMap::new(),
            kind: known.map_or(DeviceKind::Other, |known| known.kind),
        });
    }
    all
}

/// Every device class of the fleet that is allocated or waited for, by name.
pub fn rows(
    facts: &Facts,
    prices: &Prices,
    inputs: &TcoInputs,
    months: &BTreeMap<Name, MonthCell>,
) -> Vec<TcoRow> {
    let catalog = &facts.fleet.policy.catalog;
    let all = class_devices(facts, prices);
    let rows = all.into_iter().map(|(class, held)| {
        let mut waits: Vec<u64> = Vec::new();
        let (mut devices_waiting, mut jobs_waiting) = (0, 0);
        let jobs = facts.fleet.jobs.iter();
        for job in
            jobs.filter(|job| job.state == JobState::Waiting && job.class.as_ref() == Some(class))
        {
            jobs_waiting += 1;
            devices_waiting += u64::from(job.devices_requested);
            let answer = facts.answers.job(&job.id);
            let start = answer.and_then(|answer| answer.answer.start.as_ref()?.p50);
            waits.extend(start.map(|at| at.since(facts.now).seconds()));
        }
        waits.sort_unstable();
        let month = months.get(class).copied();
        let now = f64::from(held.devices);
        let present = DevicesUsed {
            mean: now,
            peak: now,
        };
        let past = month.map(|month| DevicesUsed {
            mean: month.mean_devices,
            peak: month.peak_devices,
        });
        let offers = offers(class, &held, prices, inputs);
        let mut ways = vec![WayCell {
            way: NOW,
            usd_per_device_hour: held.usd.filter(|_| held.devices > 0).map(|usd| usd / now),
            usd_per_month: held.usd.map(|usd| usd * model::cost::tco::MONTH_HOURS),
            usd_of_ledger_month: None,
            source: String::from("what the allocated devices cost now"),
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

/// USD per device-hour and its source, or why it is unknown.
type Offer = Result<(f64, String), String>;

struct ClassOffers {
    ways: Vec<(Payment, Offer)>,
    even: Option<BreakEven>,
}

fn source(price: &Price) -> String {
    match &price.as_of {
        // Some sources in price books start with the date.
        Some(as_of) if !price.source.contains(as_of.as_str()) => {
            format!("{} {as_of}", price.source)
        }
        _ => price.source.to_string(),
    }
}

fn offers(
    class: &str,
    held: &ClassDevices<'_>,
    prices: &Prices,
    inputs: &TcoInputs,
) -> ClassOffers {
    let largest = held
        .pools
        .values()
        .max_by_key(|(count, node, _)| (*count, node.name()));
    let listed = |purchase: Purchase| -> Offer {
        let price = match largest {
            Some((_, node, device)) => prices.offer(node, device, purchase),
            // No device of the class exists, so its machine type is unknown.
            None => prices.of_class(class, purchase),
        };
        let priced = price.map(|price| (price.rate.usd(), source(&price)));
        priced.ok_or_else(|| {
            format!(
                "the price books have no {} price for it: set [[prices.override]]",
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
            "the price books have no commitments: set tco.reserved, or an override with billing = \"reserved\"",
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
        None => Err(String::from("machine cost unknown: set [[tco.owned]]")),
    };
    let even = machine.as_ref().zip(on_demand.as_ref().ok());
    let even = even.and_then(|((owned, devices, _), (rate, _))| break_even(*rate, owned, *devices));
    ClassOffers {
        ways: vec![
            (Payment::OnDemand, on_demand),
            (Payment::Reserved, reserved),
            (Payment::Spot, listed(Purchase::Spot)),
            (Payment::Owned, owned),
        ],
        even,
    }
}

/// The cheapest classes of another kind with the same total peak: TPUs for GPUs, GPUs for TPUs.
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
                usd_per_month: DevicesUsed {
                    mean: count,
                    peak: count,
                }
                .usd_per_month(Payment::OnDemand, rate),
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

/// The rows as text; `month` is the ledger's span, where a ledger exists.
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
            (0, _) => String::from("none waiting"),
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
                format!(
                    "{} requested by {jobs} waiting, {wait}",
                    row.devices_waiting
                )
            }
        };
        let _ = write!(
            out,
            "\n{} ({}): {} allocated, {waits}\n",
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
        let mut titles = vec![
            ("WAY", false),
            ("$/DEVICE-H", true),
            ("ALLOCATED $/MONTH", true),
        ];
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
        for line in text_table(titles, &lines, true).lines() {
            let _ = writeln!(out, "  {line}");
        }
        if let Some(ratio) = row.owned_pays_above_ratio {
            let _ = match (ratio > 1.0, row.owned_pays_after_months) {
                (true, _) => writeln!(
                    out,
                    "  owned never costs less than on demand within the years of its write-off"
                ),
                (false, Some(months)) => writeln!(
                    out,
                    "  owned costs less than on demand above {} use; it pays off after {months:.0} months of full use",
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
                "  same BF16 peak: {:.0} × {} on demand, {} a month ({})",
                other.devices,
                other.class,
                usd(Some(other.usd_per_month)),
                printable(&other.source)
            );
        }
    }
    if rows.is_empty() {
        let _ = writeln!(out, "{UNKNOWN} no device is allocated or requested");
    }
    out
}

#[cfg(test)]
mod tests;
