//! Look-ups of prices, and the law that every scope adds up to the header.

use std::sync::Arc;

use proptest::prelude::*;

use crate::base::{DeviceAmount, Name, Rate};
use crate::fleet::device::{Device, Pod};
use crate::fleet::node::{Billing, Node};
use crate::fleet::rules::accelerator::Catalog;
use crate::fleet::signal::Signals;

use super::book::PriceBook;
use super::money::Money;
use super::prices::{Override, Owned, PoolPrice, Price, Prices, STAND_IN_REMARKS};
use super::sample::{allocated_to, device, fleet, node, now, pod, resting, sliced};
use super::spend_rates;
use super::spend_rates::{Spend, SpendScope, UNATTRIBUTED};

const BOOKS: [&str; 3] = [
    r#"
provider = "aws"
schemes = ["aws"]
prices = [
  { instance = "big", accelerator = "H100", devices = 8, region = "us-east-1", purchase = "on-demand", usd_per_hour = 56.0, as_of = "2026-07-20" },
  { instance = "big", accelerator = "H100", devices = 8, region = "eu-west-1", purchase = "on-demand", usd_per_hour = 64.0, as_of = "2026-07-20" },
  { instance = "small", accelerator = "T4", devices = 1, purchase = "on-demand", usd_per_hour = 0.5, as_of = "2026-07-20" },
  { instance = "wide", accelerator = "T4", devices = 4, purchase = "on-demand", usd_per_hour = 4.0, as_of = "2026-07-20" },
  { instance = "broken", accelerator = "B200", devices = 1, purchase = "on-demand", usd_per_hour = 700.0, as_of = "2026-07-20" },
]
"#,
    r#"
provider = "gcp"
schemes = ["gce"]
prices = [
  { accelerator = "H100", devices = 1, purchase = "on-demand", usd_per_hour = 11.0, as_of = "2026-08-03" },
  { accelerator = "H100", devices = 1, purchase = "spot", usd_per_hour = 6.0, as_of = "2026-08-03" },
]
"#,
    r#"
provider = "market"
prices = [
  { accelerator = "H100", devices = 1, purchase = "on-demand", usd_per_hour = 4.0, as_of = "2026", note = "median of 8 providers" },
  { accelerator = "H100", devices = 1, purchase = "spot", usd_per_hour = 1.5, as_of = "2026" },
]
"#,
];

fn prices() -> Prices {
    let books = BOOKS.map(|text| PriceBook::parse(text, "test").expect("parses"));
    Prices::new(books.to_vec(), &Catalog::default())
}

/// Money of devices whose billing is not known.
fn list(usd: f64) -> Money {
    let all = Rate::from_usd(usd).expect("fits");
    Money { all, by_list: all }
}

fn one(instance: Option<&str>, class: &str) -> Node {
    node("n", "p", instance, vec![device("n", 0, class)])
}

/// USD, source and date of the node's first device.
fn asked(prices: &Prices, node: &Node) -> Option<(f64, String, Option<String>)> {
    prices.price(node, &node.devices[0]).map(|price| {
        (
            price.rate.usd(),
            price.source.to_string(),
            price.as_of.map(|date| date.to_string()),
        )
    })
}

fn usd(prices: &Prices, node: &Node) -> Option<f64> {
    asked(prices, node).map(|(usd, ..)| usd)
}

fn with_provider(mut node: Node, id: &str) -> Node {
    Arc::make_mut(&mut node.seen).provider_id = Some(Name::new(id));
    node
}

#[test]
fn the_machine_is_the_unit() {
    let prices = prices();
    assert_eq!(usd(&prices, &one(Some("small"), "T4")), Some(0.5));
    assert_eq!(usd(&prices, &one(Some("wide"), "T4")), Some(1.0));
    let mut far = one(Some("big"), "H100");
    assert_eq!(usd(&prices, &far), Some(7.0));
    far.region = Some(Name::new("eu-west-1"));
    assert_eq!(
        asked(&prices, &far),
        Some((
            8.0,
            "aws big eu-west-1 on-demand (list price, billing not known)".into(),
            Some("2026-07-20".into())
        ))
    );
}

#[test]
fn the_provider_comes_from_the_node_then_the_setting_then_the_machine_type_then_the_market() {
    let node = one(None, "H100");
    assert_eq!(usd(&prices(), &node), Some(4.0));
    assert_eq!(usd(&prices().with_provider("gcp"), &node), Some(11.0));
    let gce = with_provider(node.clone(), "gce://project/zone/n");
    assert_eq!(usd(&prices().with_provider("aws"), &gce), Some(11.0));
    assert_eq!(usd(&prices(), &with_provider(node, "kwok://n")), Some(4.0));
    assert_eq!(usd(&prices(), &one(Some("big"), "H100")), Some(7.0));
}

#[test]
fn unknown_prices_are_unknown_and_never_zero() {
    let prices = prices();
    assert_eq!(usd(&prices, &one(Some("broken"), "B200")), None);
    assert_eq!(usd(&prices, &one(None, "TPU 7x")), None);
    let burnt = spend_rates(&fleet(vec![one(None, "TPU 7x")]), &prices);
    assert_eq!((burnt.devices, burnt.unpriced), (DeviceAmount::ONE, 1));
    assert_eq!(burnt.known(), None);
    assert!(burnt.nodes.is_empty());
    let row = burnt.row(SpendScope::Pool, "p").expect("has a row");
    assert_eq!((row.known(), row.price_source.as_ref()), (None, None));
}

#[test]
fn a_billing_mode_missing_from_the_price_book_is_reported() {
    let prices = prices();
    let paid = |instance, class, billing| {
        let mut node = one(instance, class);
        node.billing = Some(billing);
        asked(&prices, &node).map(|(usd, source, _)| (usd, source))
    };
    assert_eq!(
        paid(None, "H100", Billing::Spot),
        Some((1.5, "market H100 spot".into()))
    );
    assert_eq!(
        paid(Some("small"), "T4", Billing::Spot),
        Some((0.5, "aws small on-demand (no spot price known)".into()))
    );
    let (usd, source) = paid(Some("big"), "H100", Billing::Reserved).expect("listed");
    assert_eq!(usd, 7.0);
    assert!(
        source.ends_with("(reserved: no commitment price in the price book)"),
        "{source}"
    );
    let (_, source) = paid(None, "H100", Billing::Owned).expect("listed");
    assert!(
        source.contains("no amortization known; median of 8"),
        "{source}"
    );
}

/// The price paid is known if the billing is known and the price is of that billing, or if the operator sets it.
#[test]
fn a_list_price_of_another_billing_replaces_an_unknown_price() {
    let is_list_price = |prices: &Prices, instance, class, billing| {
        let mut node = one(instance, class);
        node.billing = billing;
        let price = prices.price(&node, &node.devices[0]).expect("is listed");
        // What the usage ledger keeps of a price says so, too.
        let says = |remark: &&str| price.source.contains(remark);
        if !price.source.starts_with("settings: ") {
            assert_eq!(
                STAND_IN_REMARKS.iter().any(says),
                price.is_stand_in,
                "{price:?}"
            );
        }
        price.is_stand_in
    };
    let (books, big) = (prices(), Some("big"));
    let paid = |billing| !is_list_price(&books, big, "H100", billing);
    assert!(paid(Some(Billing::OnDemand)) && !paid(None));
    assert!(!paid(Some(Billing::Reserved)) && !paid(Some(Billing::Owned)));
    let spot = |instance, class| is_list_price(&books, instance, class, Some(Billing::Spot));
    assert!(!spot(None, "H100") && spot(Some("small"), "T4"));
    let rate = Rate::from_usd(1.25).expect("fits");
    for priced in [PoolPrice::Rate(rate), PoolPrice::Multiplier(0.6)] {
        let priced = prices().with_pool("p", priced);
        for billing in [None, Some(Billing::Reserved), Some(Billing::Owned)] {
            assert!(!is_list_price(&priced, big, "H100", billing));
        }
    }
    // A factor on the list price of spot says nothing where only the on-demand price is listed.
    let factor = prices().with_pool("p", PoolPrice::Multiplier(0.6));
    assert!(is_list_price(
        &factor,
        Some("small"),
        "T4",
        Some(Billing::Spot)
    ));
    let rule = Override {
        instance: None,
        class: None,
        billing: None,
        rate,
    };
    let over = prices().with_override(rule);
    assert!(!is_list_price(&over, big, "H100", Some(Billing::Reserved)));
}

#[test]
fn the_operators_word_comes_first() {
    let node = one(Some("big"), "H100");
    let rate = Rate::from_usd(1.25).expect("fits");
    let by_pool = |price| usd(&prices().with_pool("p", price), &node);
    assert_eq!(by_pool(PoolPrice::Rate(rate)), Some(1.25));
    assert_eq!(by_pool(PoolPrice::Multiplier(0.5)), Some(3.5));
    let rule = |class: &str, billing| Override {
        instance: None,
        class: Some(class.into()),
        billing,
        rate,
    };
    let over = |rule| usd(&prices().with_override(rule), &node);
    assert_eq!(over(rule("h100", None)), Some(1.25));
    assert_eq!(over(rule("A100", None)), Some(7.0));
    assert_eq!(over(rule("H100", Some(Billing::Spot))), Some(7.0));
    // A factor is on the list price: an override counts as it is written.
    let half = prices().with_pool("p", PoolPrice::Multiplier(0.5));
    let both = half.with_override(rule("H100", None));
    assert_eq!(usd(&both, &node), Some(1.25));
}

#[test]
fn a_spot_hour_has_an_on_demand_price_where_both_are_known() {
    let spot = |instance, class| {
        let mut node = one(instance, class);
        node.billing = Some(Billing::Spot);
        node
    };
    let listed = |prices: &Prices, node: &Node| {
        let price = prices.price(node, &node.devices[0]).expect("has a price");
        (
            price.rate.usd(),
            price.on_demand.map(crate::base::Rate::usd),
        )
    };
    let own = |billing, usd| Override {
        instance: None,
        class: Some("H100".to_owned()),
        billing,
        rate: Rate::from_usd(usd).expect("a rate"),
    };
    let h100 = spot(None, "H100");
    let demand = asked(&prices(), &one(None, "H100")).expect("listed").0;
    assert_eq!(listed(&prices(), &h100), (1.5, Some(demand)));
    // The on-demand price replaces the spot price: the saving is unknown, not zero.
    assert_eq!(listed(&prices(), &spot(Some("small"), "T4")), (0.5, None));
    // The same price for all says nothing of on-demand hours; one for them does.
    let all = prices().with_override(own(None, 1.25));
    assert_eq!(listed(&all, &h100), (1.25, Some(demand)));
    let both = prices()
        .with_override(own(Some(Billing::OnDemand), 9.0))
        .with_override(own(Some(Billing::Spot), 1.0));
    assert_eq!(listed(&both, &h100), (1.0, Some(9.0)));
    // Hours that are not spot have none.
    let plain = one(None, "H100");
    assert_eq!(listed(&prices(), &plain).1, None);
}

#[test]
fn owned_machines_are_written_off() {
    let owned = Owned {
        capex_usd: 320_000.0,
        years: 4.0,
        residual: 0.0,
        overhead: 0.2,
        kw: 10.2,
        pue: 1.3,
        usd_per_kwh: 0.09,
        other_usd_per_hour: 0.0,
    };
    let usd = owned.usd_per_device_hour(8).expect("has devices");
    assert!((usd - 1.52).abs() < 0.005, "{usd}");
    assert_eq!(owned.usd_per_device_hour(0), None);
    let eight = node(
        "n",
        "p",
        None,
        (0..8).map(|at| device("n", at, "X")).collect(),
    );
    let prices = prices().with_pool("p", PoolPrice::Owned(owned));
    let whole = spend_rates(&fleet(vec![eight]), &prices).total.rate.usd();
    assert!((whole - 8.0 * usd).abs() < 1e-4, "{whole}");
}

#[test]
fn idle_money_of_devices_that_are_not_read_is_not_zero() {
    let unread = || Device {
        signals: Signals::default(),
        ..allocated_to(device("n", 0, "H100"), &pod("nlp", "train-0", None, "nlp"))
    };
    let free = || device("n", 1, "H100");
    let four = list(4.0);
    let total = |devices| spend_rates(&fleet(vec![node("n", "p", None, devices)]), &prices()).total;
    for devices in [vec![unread(), free()], vec![free(), unread()]] {
        let spend = total(devices);
        assert_eq!((spend.free, spend.idle_allocated), (Some(four), None));
        assert_eq!(spend.idle(), None);
    }
    assert_eq!(total(vec![free()]).idle(), Some(four));
    // Of two allocated devices, the one that is read counts.
    let lazy = resting(allocated_to(free(), &pod("nlp", "train-1", None, "nlp")));
    assert_eq!(total(vec![unread(), lazy]).idle(), Some(four));
}

#[test]
fn free_and_idle_money_stand_apart() {
    let busy = pod("nlp", "train-0", Some("research"), "nlp");
    let lazy = resting(allocated_to(device("n", 1, "H100"), &busy));
    let devices = vec![
        allocated_to(device("n", 0, "H100"), &busy),
        lazy,
        device("n", 2, "H100"),
    ];
    let burnt = spend_rates(&fleet(vec![node("n", "p", None, devices)]), &prices());
    let (four, eight) = (list(4.0), list(8.0));
    assert_eq!(
        burnt.total,
        Spend {
            rate: list(12.0),
            free: Some(four),
            idle_allocated: Some(four)
        }
    );
    assert_eq!(burnt.total.idle(), Some(eight));
    let team = burnt.row(SpendScope::Team, "nlp").expect("has a row");
    assert_eq!(
        (team.devices, team.spend.rate),
        (DeviceAmount::whole(2), eight)
    );
    let rest = burnt
        .row(SpendScope::Team, UNATTRIBUTED)
        .expect("has a row");
    assert_eq!(
        (rest.devices, rest.spend.free),
        (DeviceAmount::ONE, Some(four))
    );
    // Two devices at 4 USD for the hour since the pod was bound.
    let (_, (spend, so_far)) = burnt.jobs.first_key_value().expect("one job");
    assert_eq!((spend.rate, *so_far), (eight, eight));
    assert_eq!(
        burnt
            .row(SpendScope::Job, "nlp/train")
            .map(|row| row.devices),
        Some(DeviceAmount::whole(2))
    );
}

#[test]
fn slices_pay_and_count_by_their_size() {
    let (big, small) = (
        pod("a", "big-0", None, "alpha"),
        pod("b", "small-0", None, "beta"),
    );
    let mig = sliced(
        device("n", 0, "H100"),
        &[
            ("4g.40gb-1", Some(&big)),
            ("2g.20gb-3", Some(&small)),
            ("1g.10gb-9", None),
        ],
    );
    let burnt = spend_rates(&fleet(vec![node("n", "p", None, vec![mig])]), &prices());
    let of = |team: &str| {
        let row = burnt.row(SpendScope::Team, team).expect("has a row");
        (row.devices.millionths(), row.spend.rate.all.micros())
    };
    assert_eq!(of("alpha"), (571_428, 2_285_712));
    assert_eq!(of("beta"), (285_714, 1_142_856));
    assert_eq!(of(UNATTRIBUTED), (142_858, 571_432));
}

#[test]
fn a_share_of_an_unpriced_device_is_unknown() {
    let (one, two) = (
        pod("a", "x-0", None, "alpha"),
        pod("b", "y-0", None, "beta"),
    );
    let shared = sliced(
        device("n", 0, "mystery"),
        &[("0", Some(&one)), ("1", Some(&two))],
    );
    let burnt = spend_rates(&fleet(vec![node("n", "p", None, vec![shared])]), &prices());
    for team in ["alpha", "beta"] {
        assert_eq!(
            burnt
                .row(SpendScope::Team, team)
                .and_then(|row| row.known()),
            None
        );
    }
    assert!(burnt.jobs.is_empty());
}

#[test]
fn two_kinds_of_one_name_stay_apart() {
    let job = pod("a", "x-0", None, "alpha");
    let mut other = (*job).clone();
    other.job.kind = Name::new("JobSet");
    let devices = vec![
        allocated_to(device("n", 0, "H100"), &job),
        allocated_to(device("n", 1, "H100"), &Arc::new(other)),
    ];
    let burnt = spend_rates(&fleet(vec![node("n", "p", None, devices)]), &prices());
    let names: Vec<&str> = burnt.rows[&SpendScope::Job]
        .iter()
        .map(|row| &*row.name)
        .collect();
    assert_eq!(names, ["a/x", "a/x (JobSet)"]);
}

/// Allocation of a device: none, one pod, or slices for some of the pods.
#[derive(Clone, Debug)]
enum Hold {
    Nobody,
    Whole(usize),
    Slices(Vec<Option<usize>>, bool),
}

fn hold() -> impl Strategy<Value = Hold> {
    prop_oneof![
        Just(Hold::Nobody),
        (0usize..6).prop_map(Hold::Whole),
        (
            prop::collection::vec(prop::option::of(0usize..6), 1..8),
            any::<bool>()
        )
            .prop_map(|(holders, sized)| Hold::Slices(holders, sized)),
    ]
}

fn pods() -> Vec<Arc<Pod>> {
    (0..6)
        .map(|at| {
            let queue = (at % 3 > 0).then(|| format!("q{}", at % 3));
            pod(
                &format!("ns{}", at % 2),
                &format!("job{}-0", at / 2),
                queue.as_deref(),
                &format!("team{}", at % 4),
            )
        })
        .collect()
}

fn billing() -> impl Strategy<Value = Option<Billing>> {
    let known = [
        Billing::OnDemand,
        Billing::Spot,
        Billing::Reserved,
        Billing::Owned,
    ];
    prop::option::of(prop::sample::select(known.to_vec()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_scope_adds_up_to_the_header(
        nodes in prop::collection::vec(
            (0usize..3, 0usize..4, billing(), prop::collection::vec((0usize..3, hold(), any::<bool>()), 0..9)),
            0..6,
        ),
    ) {
        let pods = pods();
        let nodes: Vec<Node> = nodes.into_iter().enumerate().map(|(at, (pool, instance, billing, devices))| {
            let name = format!("n{at}");
            let devices = devices.into_iter().enumerate().map(|(index, (class, hold, idle))| {
                let mut device = device(&name, index as u32, ["H100", "T4", "mystery"][class]);
                if idle {
                    device = resting(device);
                }
                match hold {
                    Hold::Nobody => device,
                    Hold::Whole(by) => allocated_to(device, &pods[by]),
                    Hold::Slices(holders, sized) => {
                        let names: Vec<String> = (0..holders.len())
                            .map(|at| if sized { format!("{}g.x-{at}", at % 4 + 1) } else { at.to_string() })
                            .collect();
                        let slices: Vec<(&str, Option<&Arc<Pod>>)> = names.iter().zip(&holders)
                            .map(|(name, by)| (name.as_str(), by.map(|by| &pods[by])))
                            .collect();
                        sliced(device, &slices)
                    }
                }
            }).collect();
            let instance = [None, Some("big"), Some("small"), Some("wide")][instance];
            let mut node = node(&name, &format!("pool{pool}"), instance, devices);
            node.billing = billing;
            node
        }).collect();
        let fleet = fleet(nodes);
        // An odd rate, so that shares do not divide evenly.
        let prices = prices().with_pool("pool1", PoolPrice::Rate(Rate::from_micros(1_000_003)));
        let burnt = spend_rates(&fleet, &prices);
        prop_assert_eq!(DeviceAmount::whole(fleet.devices().count() as u32), burnt.devices);
        for scope in SpendScope::ALL {
            let rows = &burnt.rows[&scope];
            let mut sum = Spend::default();
            for row in rows {
                sum += row.spend;
            }
            prop_assert_eq!(sum, burnt.total, "{:?}", scope);
            prop_assert_eq!(rows.iter().map(|row| row.devices).sum::<DeviceAmount>(), burnt.devices);
            prop_assert!(rows.iter().all(|row| row.spend.idle().map(|idle| idle.all) <= Some(row.spend.rate.all)));
            prop_assert!(rows.iter().all(|row| row.spend.rate.by_list <= row.spend.rate.all));
        }
        prop_assert_eq!(burnt.nodes.values().copied().sum::<Money>(), burnt.total.rate);
        let jobs: Money = burnt.jobs.values().map(|(spend, _)| spend.rate).sum();
        let rest = burnt.row(SpendScope::Job, UNATTRIBUTED).map_or(Money::ZERO, |row| row.spend.rate);
        prop_assert_eq!(jobs + rest, burnt.total.rate);
        let priced = fleet.devices().filter_map(|(node, device)| prices.price(node, device));
        let (by_list, paid): (Vec<_>, Vec<_>) = priced.partition(|price| price.is_stand_in);
        let sum = |of: &[Price]| of.iter().map(|price| price.rate).sum::<Rate>();
        prop_assert_eq!(burnt.total.rate.by_list, sum(&by_list));
        prop_assert_eq!(burnt.total.rate.all, sum(&by_list) + sum(&paid));
        prop_assert_eq!(fleet.at, now());
    }
}
