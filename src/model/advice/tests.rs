//! Advice on one job at a time: each rule at its threshold, and jobs without advice.

use std::sync::Arc;

use super::*;
use crate::base::{Moment, ObjectKey};
use crate::cost::{Money, Price, Spend};
use crate::fleet::job::{Gang, HeldDevice};
use crate::fleet::rules::accelerator::Catalog;
use crate::fleet::rules::policy::Policy;

/// A job on so many devices of a class that does a little of everything, where an A100 costs 4 USD an hour, an L4 0.5 and an H100 8.
fn fleet(class: &str, devices: u32) -> (Fleet, SpendRates, Job, JobProfile) {
    let policy = Policy {
        catalog: Catalog::embedded(),
        ..Policy::default()
    };
    let fleet = Fleet::unknown(Arc::new(policy));
    let mut job = Job::unknown(JobKey {
        key: ObjectKey::new("nlp", "tune"),
        kind: Name::new("Job"),
    });
    job.state = JobState::Running;
    job.class = Some(Name::new(class));
    job.devices_allocated = devices;
    let mut burn = SpendRates::default();
    for (class, billing, usd) in [
        ("A100", Billing::OnDemand, 4.0),
        ("A100", Billing::Spot, 1.5),
        ("H100", Billing::OnDemand, 8.0),
        ("L4", Billing::OnDemand, 0.5),
    ] {
        burn.prices.push(PriceGroup {
            pool: Name::new(class),
            class: Name::new(class),
            instance_type: None,
            region: None,
            billing: Some(billing),
            price: Some(Arc::new(Price {
                rate: Rate::from_usd(usd).expect("is a rate"),
                source: Name::new("test"),
                as_of: None,
                is_stand_in: false,
                on_demand: None,
            })),
        });
    }
    let own = if class == "A100" { 4.0 } else { 8.0 };
    let spend = Spend {
        rate: Money::known(Rate::from_usd(own * f64::from(devices)).expect("is a rate")),
        ..Spend::default()
    };
    burn.jobs.insert(job.id.clone(), (spend, Money::ZERO));
    let evidence = Evidence {
        util: Some(0.5),
        util_most: Some(0.5),
        sm: Some(0.35),
        sm_p95: Some(0.6),
        tensor: Some(0.1),
        dram: Some(0.3),
        pcie: Some(1e8),
        link: Some(0.0),
        memory_p95: Some(0.9),
        ..Evidence::default()
    };
    let profile = JobProfile {
        devices,
        known: 1.0,
        verdict: profile::judge(1.0, &evidence),
        evidence,
    };
    (fleet, burn, job, profile)
}

/// The advice after a change of the evidence.
fn advised(class: &str, devices: u32, change: impl Fn(&mut Job, &mut Evidence)) -> Vec<Advice> {
    let (mut fleet, burn, mut job, mut profile) = fleet(class, devices);
    change(&mut job, &mut profile.evidence);
    profile.verdict = profile::judge(profile.known, &profile.evidence);
    let profiles: Profiles = std::iter::once((job.id.clone(), profile)).collect();
    fleet.jobs = Arc::from([Arc::new(job)]);
    advise(&fleet, &burn, &profiles)
}

fn only(all: &[Advice]) -> &Advice {
    let [one] = all else { panic!("{all:#?}") };
    one
}

fn month(usd_an_hour: f64) -> Option<Money> {
    Rate::from_usd(usd_an_hour * 730.0).map(Money::known)
}

#[test]
fn devices_that_do_nothing_are_given_back_for_what_they_cost() {
    let idle = advised("A100", 2, |_, e| e.util_most = Some(0.01));
    let one = only(&idle);
    assert_eq!(
        (one.action.code(), one.saves_a_month()),
        ("release", month(8.0))
    );
    assert_eq!(one.certainty, Certainty::High);
    assert_eq!(
        one.command().as_deref(),
        Some("stokehold plan hold nlp/tune")
    );
    let notebook = advised("A100", 1, |job, e| {
        (e.util_most, e.sm) = (Some(0.01), None);
        job.id.kind = Name::new("StatefulSet");
    });
    // Its money is that of the job that was: unknown here.
    let one = only(&notebook);
    assert_eq!((one.certainty, one.saves), (Certainty::Medium, None));
    assert_eq!(
        one.command().as_deref(),
        Some("kubectl -n nlp scale statefulset/tune --replicas=0")
    );
    let some = advised("A100", 4, |_, e| e.idle_devices = 3);
    let one = only(&some);
    assert_eq!(
        (one.action.code(), one.saves_a_month()),
        ("fewer-devices", month(12.0))
    );
}

#[test]
fn devices_idle_all_along_are_advised_about_though_the_others_have_just_stopped() {
    let stopped = |gang: Option<Gang>| {
        advised("A100", 8, |job, e| {
            job.gang = gang;
            (e.util_most, e.most_lately, e.idle_devices) = (Some(0.6), Some(0.0), 2);
            assert_eq!(profile::judge(1.0, e), Err(NotJudged::Stopped));
        })
    };
    let alone = stopped(None);
    let one = only(&alone);
    assert_eq!(
        (one.action.code(), one.bound, one.saves_a_month()),
        ("fewer-devices", None, month(8.0))
    );
    // A gang that stalls is mended, not shrunk.
    assert_eq!(stopped(Some(Gang { size: 8, min: 8 })), []);
}

#[test]
fn a_healthy_job_is_left_alone() {
    let tensor = advised("H100", 8, |job, e| {
        (e.sm, e.tensor, e.memory_p95) = (Some(0.8), Some(0.5), Some(0.1));
        job.last_checkpoint = Some(Moment::default());
    });
    assert!(tensor.is_empty(), "{tensor:#?}");
    // Half the devices idle is not optimal.
    let half = advised("H100", 8, |_, e| {
        (e.sm, e.tensor, e.idle_devices) = (Some(0.45), Some(0.3), 4);
    });
    let one = only(&half);
    assert_eq!(
        (one.action.code(), one.saves_a_month()),
        ("fewer-devices", month(32.0))
    );
    // An unknown value is no reason, either.
    for change in [
        (|e: &mut Evidence| e.memory_p95 = None) as fn(&mut Evidence),
        |e| e.sm_p95 = None,
        |e| e.dram = None,
    ] {
        let all = advised("A100", 1, |_, e| {
            (e.memory_p95, e.sm_p95) = (Some(0.05), Some(0.05));
            change(e);
        });
        assert!(all.is_empty(), "{all:#?}");
    }
    let serves = advised("A100", 1, |job, e| {
        (e.memory_p95, e.sm_p95, e.dram) = (Some(0.05), Some(0.05), Some(0.02));
        job.serving = Some(crate::fleet::job::Serving::default());
    });
    assert!(serves.is_empty(), "a server takes all memory: {serves:#?}");
}

#[test]
fn a_smaller_device_has_room_to_a_hundredth() {
    // An L4 has 24 GiB, 121 TFLOP/s and 0.3 TB/s, an A100 80 GiB, 312 TFLOP/s and 2.039 TB/s.
    let catalog = Catalog::embedded();
    let (small, own) = (catalog.of_class("L4"), catalog.of_class("A100"));
    let (small, own) = (small.expect("is known"), own.expect("is known"));
    let most = |small: Option<f64>, own: Option<f64>| ROOM * small.unwrap() / own.unwrap();
    let memory = most(small.memory_gib, own.memory_gib);
    let sm = most(small.bf16_tflops, own.bf16_tflops);
    let dram = most(small.memory_tb_s, own.memory_tb_s);
    let fits = |by: [f64; 3]| {
        let all = advised("A100", 2, |_, e| {
            e.memory_p95 = Some(memory * by[0]);
            e.sm_p95 = Some(sm * by[1]);
            e.dram = Some(dram * by[2]);
        });
        all.first()
            .map(|one| (one.action.clone(), one.saves_a_month()))
    };
    let small = Some((Action::SmallerDevice(Name::new("L4")), month(7.0)));
    assert_eq!(fits([0.99, 0.99, 0.99]), small);
    assert_eq!(fits([1.01, 0.99, 0.99]), None);
    assert_eq!(fits([0.99, 1.01, 0.99]), None);
    assert_eq!(fits([0.99, 0.99, 1.01]), None);
    // What talks over NVLink does not go where there is none.
    let linked = advised("A100", 2, |_, e| {
        (e.memory_p95, e.sm_p95, e.dram) = (Some(0.1), Some(0.1), Some(0.05));
        e.link = Some(5e10);
    });
    assert!(linked.is_empty(), "{linked:#?}");
}

#[test]
fn few_idle_devices_links_and_certainty_hold_to_a_hundredth() {
    // One device of a thousand more or less is a hundredth of the threshold.
    let fewer = |idle: u32| advised("H100", 1_000, |_, e| e.idle_devices = idle);
    assert_eq!(only(&fewer(100)).action, Action::FewerDevices(100));
    assert!(fewer(99).is_empty());
    // An L4 has no links.
    let talks = |link: f64| {
        let all = advised("A100", 2, |_, e| {
            (e.memory_p95, e.sm_p95, e.dram) = (Some(0.1), Some(0.1), Some(0.05));
            e.link = Some(link);
        });
        all.len()
    };
    assert_eq!((talks(0.99e9), talks(1.01e9)), (1, 0));
    let certainty = |known: f64| {
        let (mut fleet, burn, job, mut profile) = fleet("A100", 1);
        (profile.known, profile.evidence.util_most) = (known, Some(0.01));
        profile.verdict = profile::judge(known, &profile.evidence);
        let profiles: Profiles = std::iter::once((job.id.clone(), profile)).collect();
        fleet.jobs = Arc::from([Arc::new(job)]);
        only(&advise(&fleet, &burn, &profiles)).certainty
    };
    assert_eq!(certainty(NEARLY_ALL * 1.01), Certainty::High);
    assert_eq!(certainty(NEARLY_ALL * 0.99), Certainty::Medium);
}

#[test]
fn a_slice_has_room_to_a_hundredth() {
    let slice = |memory: f64, sm: f64, dram: f64| {
        // More memory than an L4 has: only slices are left.
        let all = advised("H100", 1, |_, e| {
            (e.memory_p95, e.sm_p95, e.dram) = (Some(memory), Some(sm), Some(dram));
        });
        all.iter().find_map(|one| match &one.action {
            Action::MigSlice(name) => Some((name.to_string(), one.saves)),
            _ => None,
        })
    };
    let name = |found: Option<(String, Option<Money>)>| found.map(|(name, _)| name);
    let half = ROOM * 0.5;
    assert_eq!(
        name(slice(half * 0.99, 0.3, 0.39)).as_deref(),
        Some("3g.40gb")
    );
    assert_eq!(name(slice(half * 1.01, 0.3, 0.39)), None);
    let three = ROOM * 3.0 / 7.0;
    assert_eq!(
        name(slice(0.39, three * 0.99, 0.39)).as_deref(),
        Some("3g.40gb")
    );
    assert_eq!(name(slice(0.39, three * 1.01, 0.39)), None);
    // Two of these slices fill a device of 8 USD.
    let (_, saves) = slice(half * 0.99, 0.3, 0.39).expect("fits");
    assert_eq!(saves, Rate::from_usd(4.0).map(Money::known));
}

#[test]
fn a_slice_costs_what_the_node_that_offers_it_costs_and_a_pool_of_slices_has_no_whole_device() {
    let advised = |slices: &[&str], needs: f64| {
        let (mut fleet, burn, job, mut profile) = fleet("H100", 1);
        let e = &mut profile.evidence;
        (e.memory_p95, e.sm_p95, e.dram) = (Some(needs), Some(needs), Some(needs));
        let slices: Vec<_> = slices.iter().map(|name| (*name, None)).collect();
        let nodes = [("h100", "H100"), ("a100", "A100")].map(|(name, class)| {
            let device = crate::cost::sample::device(name, 0, class);
            let device = crate::cost::sample::sliced(device, &slices);
            let mut node = crate::cost::sample::node(name, class, None, vec![device]);
            node.billing = Some(Billing::OnDemand);
            Arc::new(node)
        });
        fleet.nodes = Arc::from(nodes);
        let profiles: Profiles = std::iter::once((job.id.clone(), profile)).collect();
        fleet.jobs = Arc::from([Arc::new(job)]);
        let all = advise(&fleet, &burn, &profiles);
        let one = only(&all);
        (one.action.clone(), one.saves)
    };
    let usd = |usd: f64| Rate::from_usd(usd).map(Money::known);
    let slice = |name: &str| Action::MigSlice(Name::new(name));
    let thirds = ["2g.20gb-0", "2g.20gb-1", "2g.20gb-2"];
    let cut = usd(8.0).expect("is a rate");
    // Two of seven compute slices, regardless of the GPU's other slices.
    let offered = cut.less(cut.share(285_714, 1_000_000));
    assert_eq!(advised(&thirds, 0.15), (slice("2g.20gb"), Some(offered)));
    // Where no node is cut like this, a device of 8 USD is.
    let own = cut.less(cut.share(2, 7));
    assert_eq!(advised(&["1g.10gb-0"], 0.15), (slice("2g.20gb"), Some(own)));
    // As long as A100s are whole, one of them is cheaper than half an H100.
    let smaller = Action::SmallerDevice(Name::new("A100"));
    assert_eq!(advised(&[], 0.21), (smaller, usd(4.0)));
    assert_eq!(advised(&thirds, 0.21), (slice("3g.40gb"), usd(4.0)));
}

#[test]
fn spot_is_advised_with_checkpoints_and_without_a_gang() {
    let with = |checkpoint: bool, gang: bool, billing: Billing| {
        let (mut fleet, burn, mut job, profile) = fleet("A100", 2);
        job.last_checkpoint = checkpoint.then(Moment::default);
        job.gang = gang.then_some(crate::fleet::job::Gang { size: 2, min: 2 });
        let mut node = crate::cost::sample::node("a100-1", "a100", None, Vec::new());
        node.billing = Some(billing);
        job.places = Box::from([HeldDevice {
            node: node.name().clone(),
            device: 0,
            slice: None,
        }]);
        fleet.nodes = Arc::from([Arc::new(node)]);
        let profiles: Profiles = std::iter::once((job.id.clone(), profile)).collect();
        fleet.jobs = Arc::from([Arc::new(job)]);
        let all = advise(&fleet, &burn, &profiles);
        all.first()
            .map(|one| (one.action.code(), one.saves_a_month()))
    };
    assert_eq!(
        with(true, false, Billing::OnDemand),
        Some(("spot", month(5.0)))
    );
    assert_eq!(with(false, false, Billing::OnDemand), None);
    assert_eq!(with(true, true, Billing::OnDemand), None);
    assert_eq!(with(true, false, Billing::Reserved), None);
}

#[test]
fn the_largest_saving_comes_first_and_an_unknown_one_last() {
    let input = advised("A100", 2, |_, e| {
        (e.sm, e.pcie, e.idle_devices) = (Some(0.1), Some(2e9), 1);
    });
    let codes: Vec<&str> = input.iter().map(|one| one.action.code()).collect();
    assert_eq!(codes, ["fewer-devices", "faster-input"]);
    assert_eq!(input[1].saves, None);
}

#[test]
fn what_is_reserved_or_owned_is_freed_and_saves_no_money() {
    let advised = |billings: &[Billing]| {
        let (mut fleet, burn, mut job, mut profile) = fleet("A100", 2);
        profile.evidence.util_most = Some(0.01);
        profile.verdict = profile::judge(profile.known, &profile.evidence);
        let nodes = billings.iter().enumerate().map(|(at, billing)| {
            let devices = vec![crate::cost::sample::device(&format!("n{at}"), 0, "A100")];
            let mut node = crate::cost::sample::node(&format!("n{at}"), "a100", None, devices);
            node.billing = Some(*billing);
            Arc::new(node)
        });
        fleet.nodes = nodes.collect();
        let places = (0..billings.len()).map(|at| HeldDevice {
            node: Name::from(format!("n{at}")),
            device: 0,
            slice: None,
        });
        job.places = places.collect();
        job.pools = Box::from([Name::new("A100")]);
        let profiles: Profiles = std::iter::once((job.id.clone(), profile)).collect();
        fleet.jobs = Arc::from([Arc::new(job)]);
        let all = advise(&fleet, &burn, &profiles);
        let one = only(&all);
        (one.saves_a_month(), one.commitment, one.words())
    };
    let release = "release its 2 devices: they are idle";
    assert_eq!(
        advised(&[Billing::OnDemand, Billing::Spot]),
        (month(8.0), None, release.to_owned())
    );
    assert_eq!(
        advised(&[Billing::Reserved, Billing::Owned]),
        (
            Some(Money::ZERO),
            Some(Billing::Reserved),
            format!("{release}; reserved: frees devices, saves no money")
        )
    );
    // The committed part is not known.
    assert_eq!(
        advised(&[Billing::Reserved, Billing::OnDemand]),
        (None, None, release.to_owned())
    );
}
