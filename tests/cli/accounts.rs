//! The usage ledger against the simulated world's own accounts, in virtual time: what the API and the exporters serve is decoded,
//! observed, judged and added up as a recorder does it, and the world books at each event who has which device.
//!
//! Left out of the path: HTTP, the pace at which exporters are asked, and the segments of the record, which have tests of their own.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use exporter::{Dialects, PageSource, Rates};
use model::base::{Moment, Name, Names, ObjectKey, Rate};
use model::cost::{PoolPrice, Prices};
use model::fleet::observe::{Observation, Table};
use model::fleet::reading::Page;
use record::usage::UsageFile;
use replay::rehearsal::{observed, tables};
use serde_json::Value;
use sim::change::{Request, Resource, SimBackend, WorldChange};
use sim::world::{AccountRow, DeviceUse, Options, World};
use stokehold::runtime::store::{Rules, Store};
use stokehold::runtime::usage::UsageLedger;
use usage::{GAP, HourRow, UsageFilter, UsageSample};

use super::recorded::setup;

/// USD an hour of a device, in micro-USD, by pool and class: the price list of both sides.
const PRICES: [(&str, &str, i64); 11] = [
    ("h100-train", "H100", 4_123_457),
    ("a100-shared", "A100", 2_345_679),
    ("l4-serve", "L4", 700_001),
    ("tpu-v5p", "v5p", 4_200_000),
    ("tpu-v6e", "v6e", 2_700_000),
    ("mi300x-lab", "MI300X", 3_000_003),
    ("a100-mig", "A100", 1_500_007),
    ("b200-shared", "B200", 8_000_001),
    ("l40s-dra", "L40S", 1_100_003),
    ("a10g-volcano", "A10G", 900_001),
    ("a100-40gb-kai", "A100-40GB", 1_900_003),
];

/// The price of a pool's devices.
pub(super) fn price_of(pool: &str) -> Rate {
    let own = PRICES.iter().find(|(name, ..)| *name == pool);
    Rate::from_micros(own.expect("has a price").2)
}

/// A world, what is observed of it, and the ledger that is kept of that.
pub(super) struct Lived {
    pub(super) world: World,
    pub(super) store: Store,
    ledger: UsageLedger,
    prices: Arc<Prices>,
    names: Names,
    dialects: Dialects,
    rates: HashMap<ObjectKey, Rates>,
    /// Nodes of the pods.
    nodes: HashMap<ObjectKey, Name>,
    pictures: u64,
}

impl Lived {
    pub(super) fn begin(options: Options, activity: bool, file: UsageFile) -> Self {
        Self::begin_with(options, activity, file, false)
    }

    /// The same, with the last hour kept for those who look at it.
    pub(super) fn begin_with(
        options: Options,
        activity: bool,
        file: UsageFile,
        history: bool,
    ) -> Self {
        let setup = setup();
        let prices = PRICES.iter().fold(Prices::default(), |prices, row| {
            prices.with_pool(row.0, PoolPrice::Rate(Rate::from_micros(row.2)))
        });
        let prices = Arc::new(prices);
        let rules = Rules {
            context: Name::new("sim"),
            policy: Arc::clone(&setup.rulebook.policy),
            thresholds: Arc::clone(&setup.rulebook.thresholds),
            prices: Arc::clone(&prices),
            refresh: Duration::from_secs(1),
            judging: stokehold::runtime::store::JUDGING,
            one_look: false,
            history,
        };
        let mut lived = Self {
            world: World::new(options).with_accounts(activity),
            store: Store::new(rules),
            ledger: UsageLedger::new(file, GAP).expect("can be read"),
            prices,
            names: Names::default(),
            dialects: Dialects::builtin(),
            rates: HashMap::new(),
            nodes: HashMap::new(),
            pictures: 0,
        };
        let tables = tables();
        for table in &tables {
            lived.store.apply(Observation::Begin(*table));
        }
        let all = lived.world.start();
        lived.observe(all);
        for table in &tables {
            lived.store.apply(Observation::End(*table));
        }
        // What is not observed is not there: the picture is complete.
        for table in Table::ALL.iter().filter(|table| !tables.contains(table)) {
            lived.store.apply(Observation::Begin(*table));
            lived.store.apply(Observation::End(*table));
        }
        lived
    }

    fn observe(&mut self, changes: Vec<WorldChange>) {
        for change in changes {
            if let WorldChange::Put(Resource::Pods, pod) = &change {
                let text = |at: &str| pod.pointer(at).and_then(|value| value.as_str());
                let name = text("/metadata/namespace").zip(text("/metadata/name"));
                if let (Some((namespace, name)), Some(node)) = (name, text("/spec/nodeName")) {
                    self.nodes
                        .insert(ObjectKey::new(namespace, name), Name::new(node));
                }
            }
            if let WorldChange::Remove(Resource::Pods, key) = &change {
                self.nodes.remove(key);
            }
            if let Some(observation) = observed(change, &mut self.names) {
                self.store.apply(observation);
            }
        }
    }

    /// Reads every exporter once.
    fn scrape(&mut self) {
        let at = self.world.now();
        for (pod, port, path) in self.world.exporters() {
            let page = self.world.page(&pod, port, path).expect("is served");
            let node = self.nodes.get(&pod).cloned();
            let source = PageSource {
                pod: Some(pod.clone()),
                node: node.clone(),
                dialect: None,
            };
            let mut read = exporter::read(
                &self.dialects,
                page.body.as_bytes(),
                &source,
                &mut self.names,
            );
            self.rates.entry(pod).or_default().fill(at, &mut read);
            let dialect = read.report.dialect.as_ref().expect("is known");
            let interval = self.dialects.get(dialect).expect("is known").interval;
            self.store.apply(Observation::Page(Box::new(Page {
                node,
                at,
                interval,
                readings: read.readings,
            })));
        }
    }

    /// Makes a picture of now and takes it.
    pub(super) fn take(&mut self) {
        let now = self.world.now();
        let facts = self.store.publish(now);
        let sample = UsageSample::of(now, &facts.fleet, &self.prices);
        self.ledger.take(sample).expect("can be written");
        self.pictures += 1;
    }

    /// Lives on until `to` in steps, with a picture at each; exporters are read at each picture whose number `scrape_every`
    /// divides, or never.
    pub(super) fn live(&mut self, to: Moment, step: Duration, scrape_every: Option<u64>) {
        while self.world.now() < to {
            let next = self.world.now().plus(step).min(to);
            let changes = self.world.advance(next);
            self.observe(changes);
            if scrape_every.is_some_and(|every| self.pictures.is_multiple_of(every)) {
                self.scrape();
            }
            self.take();
        }
        self.ledger.flush().expect("can be written");
    }

    /// What a client asks of the API server.
    pub(super) fn request(&mut self, request: Request) {
        let changes = self.world.request(request);
        self.observe(changes);
    }

    /// A node of a pool, as it is served.
    fn node(&self, pool: &str, at: usize) -> Value {
        let mut nodes = self
            .world
            .objects()
            .into_iter()
            .filter_map(|object| match object {
                WorldChange::Put(Resource::Nodes, node) => Some(node),
                _ => None,
            });
        let of_pool = |node: &Value| {
            let labels = node["metadata"]["labels"].as_object().expect("labels");
            labels.values().any(|value| value == pool)
        };
        nodes.by_ref().filter(of_pool).nth(at).expect("is there")
    }

    fn rows(&self) -> Vec<HourRow> {
        let file = self.ledger.file();
        let span = file.extent().expect("can be read").expect("has hours");
        file.rows(span, &UsageFilter::default())
            .expect("can be read")
    }
}

/// Hours of devices and USD of a group.
type Sums = BTreeMap<(&'static str, String), [f64; 2]>;

fn by_world(rows: &[AccountRow]) -> Sums {
    let mut sums = Sums::new();
    for row in rows {
        let (_, class, _) = PRICES
            .iter()
            .find(|(pool, ..)| *pool == row.pool)
            .expect("has a price");
        let usd = row.device_hours * price_of(row.pool).usd();
        let (part, team) = match &row.device_use {
            DeviceUse::Allocated(team) => ("allocated", team.as_str()),
            DeviceUse::Unallocated => ("unallocated", ""),
            DeviceUse::OutOfService => ("out of service", ""),
        };
        for key in [
            ("team", team.to_owned()),
            ("pool", row.pool.to_owned()),
            ("class", (*class).to_owned()),
            ("part", part.to_owned()),
        ] {
            let sum = sums.entry(key).or_default();
            sum[0] += row.device_hours;
            sum[1] += usd;
        }
    }
    sums
}

fn by_ledger(rows: &[HourRow]) -> Sums {
    let mut sums = Sums::new();
    for row in rows {
        let totals = &row.totals;
        let hours = |ms: i64| ms as f64 / 3.6e6;
        let all = totals.observed_ms();
        let usd = totals.cost_micros().map_or(f64::NAN, |cost| cost as f64) / 1e6;
        let rate = usd / hours(all);
        for key in [
            ("team", row.key.team.to_string()),
            ("pool", row.key.pool.to_string()),
            ("class", row.key.class.to_string()),
        ] {
            let sum = sums.entry(key).or_default();
            sum[0] += hours(all);
            sum[1] += usd;
        }
        for (part, ms) in [
            ("allocated", totals.allocated_ms()),
            ("unallocated", totals.unallocated_ms),
            ("out of service", totals.out_of_service_ms),
        ] {
            let sum = sums.entry(("part", part.to_owned())).or_default();
            sum[0] += hours(ms);
            sum[1] += if ms == 0 { 0.0 } else { rate * hours(ms) };
        }
    }
    sums
}

/// The largest difference of a group, relative to its own sum, and which one. Prints each group.
fn worst(world: &Sums, ledger: &Sums, by: &str) -> f64 {
    let mut worst: f64 = 0.0;
    let keys = world
        .keys()
        .chain(ledger.keys().filter(|key| !world.contains_key(*key)));
    for key in keys.filter(|key| key.0 == by) {
        let zero = [0.0; 2];
        let (reported, true_) = (
            ledger.get(key).unwrap_or(&zero),
            world.get(key).unwrap_or(&zero),
        );
        let difference = |at: usize| match (reported[at] - true_[at]).abs() {
            0.0 => 0.0,
            difference => difference / true_[at].max(1e-9),
        };
        println!(
            "{by:14} {:28} ledger {:12.3} h {:14.2} $   world {:12.3} h {:14.2} $   {:.4} %",
            key.1,
            reported[0],
            reported[1],
            true_[0],
            true_[1],
            100.0 * difference(0).max(difference(1))
        );
        worst = worst.max(difference(0)).max(difference(1));
    }
    worst
}

pub(super) fn begin() -> Moment {
    Moment::parse("2026-11-01T00:00:00Z").expect("a moment")
}

pub(super) fn memory() -> UsageFile {
    UsageFile::in_memory().expect("there is memory")
}

/// Holds the ledger against the accounts; gives the worst relative difference by team, pool, class and part.
fn compared(lived: &mut Lived) -> [(&'static str, f64); 4] {
    let (world, ledger) = (by_world(&lived.world.accounts()), by_ledger(&lived.rows()));
    ["team", "pool", "class", "part"].map(|by| (by, worst(&world, &ledger, by)))
}

#[test]
fn the_ledger_is_what_the_world_booked() {
    let options = Options {
        nodes: Some(18),
        ..Options::new(begin())
    };
    let mut lived = Lived::begin(options, true, memory());
    lived.take();
    let hour = |hours: u64| begin().plus(Duration::from_secs(hours * 3_600));
    let step = Duration::from_secs(15);
    lived.live(hour(1), step, Some(4));
    // A node is cordoned for an hour, and another is lost.
    let mut cordoned = lived.node("a100-shared", 0);
    cordoned["spec"]["unschedulable"] = Value::Bool(true);
    lived.request(Request::Write(Resource::Nodes, cordoned.clone()));
    let lost = lived.node("h100-train", 1);
    let lost = lost["metadata"]["name"].as_str().expect("a name");
    let lost = ObjectKey::new("", lost);
    lived.request(Request::Delete(Resource::Nodes, lost, None));
    lived.live(hour(2), step, Some(4));
    cordoned["spec"]["unschedulable"] = Value::Bool(false);
    lived.request(Request::Write(Resource::Nodes, cordoned));
    lived.live(hour(3), step, Some(4));

    for (by, worst) in compared(&mut lived) {
        assert!(worst < 0.005, "by {by} {:.3} % apart", worst * 100.0);
    }
    let accounts = lived.world.accounts();
    let out = |row: &&AccountRow| row.device_use == DeviceUse::OutOfService;
    assert!(
        accounts
            .iter()
            .filter(out)
            .any(|row| row.device_hours > 0.5)
    );
    // Nothing is called idle that works, and what is idle and not called so was not read.
    let rows = lived.rows();
    let hours = |ms: fn(&HourRow) -> i64| rows.iter().map(ms).sum::<i64>() as f64 / 3.6e6;
    let idle = hours(|row| row.totals.idle_ms);
    let not_read = hours(|row| row.totals.not_read_ms);
    let really: f64 = accounts.iter().map(|row| row.idle_hours).sum();
    assert!(really > 1.0, "{really} h");
    assert!(idle <= really * 1.02, "{idle} h {really} h");
    assert!(
        idle + not_read >= really * 0.98,
        "{idle} h {not_read} h {really} h"
    );
    assert!(not_read < 6.0, "{not_read} h");
}

/// The figures of a month.
#[test]
#[ignore = "long: tests/long"]
fn a_month_of_3000_devices_is_what_the_world_booked() {
    let options = Options {
        devices: Some(3_000),
        ..Options::new(begin())
    };
    let mut lived = Lived::begin(options, false, memory());
    lived.take();
    for day in 1..=30 {
        let end = begin().plus(Duration::from_secs(day * 86_400));
        lived.live(end, Duration::from_secs(120), None);
        println!("day {day}: {} pictures", lived.pictures);
        for (by, worst) in compared(&mut lived) {
            println!("worst by {by}: {:.4} %", worst * 100.0);
        }
    }
    for (by, worst) in compared(&mut lived) {
        assert!(worst < 0.005, "by {by} {:.3} % apart", worst * 100.0);
    }
}
