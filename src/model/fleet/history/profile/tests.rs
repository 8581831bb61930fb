//! Profiles from readings: gaps, verdicts by utilization alone, and verdicts by the course over time.

use super::*;
use crate::cost::sample::{device, node, now, pod, signals};
use crate::fleet::profile::Bottleneck;
use crate::fleet::rules::accelerator::Vendor;
use crate::fleet::signal::{Signal, Signals};

/// The profile of a job on so many devices of each of these nodes after half an hour in which they were read: by node, index and step.
fn profile_on(
    nodes: &[&str],
    devices: u32,
    read: impl Fn(usize, u32, i64) -> Option<Signals>,
) -> JobProfile {
    let holder = pod("nlp", "tune-0", None, "nlp");
    let mut fleet = Fleet::unknown(Arc::default());
    let mut history = History::default();
    for step in 0..ACTIVITY_KEEP {
        fleet.at = now().plus(std::time::Duration::from_millis(
            (step * DEVICE_STEP) as u64,
        ));
        let nodes = nodes.iter().enumerate().map(|(at, name)| {
            let all = (0..devices).map(|index| {
                let mut own = device(name, index, "H100");
                own.holder = Some(Arc::clone(&holder));
                let signals = read(at, index, step);
                own.read_at = signals.as_ref().map(|_| fleet.at);
                own.signals = signals.unwrap_or_default();
                own
            });
            Arc::new(node(name, "h100", None, all.collect()))
        });
        fleet.nodes = nodes.collect();
        history.record(&fleet, &|_| (0.0, 0.0));
    }
    history.judge(&fleet);
    let profile = history.profiles().get(&holder.job).expect("holds devices");
    assert_eq!(profile.devices, devices * nodes.len() as u32);
    profile.clone()
}

/// The same on one node.
fn profile_of(devices: u32, read: impl Fn(u32, i64) -> Option<Signals>) -> JobProfile {
    profile_on(&["n"], devices, |_, index, step| read(index, step))
}

/// The verdict on a job of ten devices after half an hour in which these were idle and the others had no readings.
fn verdict(idle: u32) -> Result<Bottleneck, NotJudged> {
    profile_of(10, |index, _| (index < idle).then(|| signals(0.0))).verdict
}

/// Utilization of a square wave of three minutes a half.
fn wave(step: i64) -> f64 {
    if step / 6 % 2 == 0 { 0.02 } else { 0.9 }
}

#[test]
fn rules_on_utilization_are_judged_and_others_name_their_exporter() {
    let only = |util: fn(i64) -> f64| {
        let read = move |_, step| {
            let signals = std::iter::once((Signal::Util, util(step)));
            Some(signals.collect::<Signals>())
        };
        profile_of(2, read).verdict
    };
    assert_eq!(only(|_| 0.0), Ok(Bottleneck::Idle));
    assert_eq!(only(wave), Ok(Bottleneck::Input));
    // It stops after 20 minutes.
    let stops = only(|step| if step < 40 { 0.9 } else { 0.0 });
    assert_eq!(stops, Err(NotJudged::Stopped));
    let busy = only(|_| 0.9).expect_err("utilization tells no bound");
    assert_eq!(busy, NotJudged::UtilizationOnly);
    let line = busy.mend(Vendor::Nvidia).expect("is known");
    for field in [
        "DCGM_FI_PROF_SM_ACTIVE",
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
        "DCGM_FI_PROF_DRAM_ACTIVE",
        "DCGM_FI_PROF_PCIE_TX_BYTES",
    ] {
        assert!(line.contains(field), "{line}");
    }
}

#[test]
fn gaps_are_neither_idle_nor_a_wave_and_few_of_them_change_no_verdict() {
    let part = |util: fn(i64) -> f64, known: fn(i64) -> bool| {
        profile_of(2, |_, step| known(step).then(|| active(util(step)))).verdict
    };
    // Each fifth step is missing: four fifths of the window are known.
    let most = |step: i64| step % 5 != 0;
    assert_eq!(part(|_| 0.0, most), Ok(Bottleneck::Idle));
    assert_eq!(part(wave, most), Ok(Bottleneck::Input));
    assert_eq!(part(|_| 0.9, most), Ok(Bottleneck::Tensor));
    // One more, and too little is.
    let fewer = |step: i64| step % 5 != 0 && step != 1;
    let all: [fn(i64) -> f64; 3] = [|_| 0.0, wave, |_| 0.9];
    for util in all {
        assert_eq!(part(util, fewer), Err(NotJudged::Short));
    }
}

/// Readings of a device that uses its tensor cores as far as it is used.
fn active(util: f64) -> Signals {
    let active = [
        (Signal::SmActive, util * 0.8),
        (Signal::TensorActive, util * 0.6),
        (Signal::DramActive, util * 0.5),
        (Signal::PcieTx, 1e8),
        (Signal::PcieRx, 1e8),
    ];
    signals(util).iter().chain(active).collect()
}

/// Whether a device swings that has these utilizations one after the other.
fn swings(values: impl IntoIterator<Item = f64>) -> Option<bool> {
    let mut tally = ProfileTally::new(0, 0, 0);
    for util in values {
        tally.add(Some(util), None, &DeviceActivity::default(), false);
    }
    tally.swings()
}

#[test]
fn a_square_wave_holds_to_a_hundredth_of_its_thresholds() {
    assert_eq!(swings([]), None);
    let ends = |low: f64, high: f64| {
        swings((0..60).map(|step| if step / 6 % 2 == 0 { low } else { high }))
    };
    assert_eq!(ends(SWING_LOW * 0.99, SWING_HIGH * 1.01), Some(true));
    assert_eq!(ends(SWING_LOW * 1.01, SWING_HIGH * 1.01), Some(false));
    assert_eq!(ends(SWING_LOW * 0.99, SWING_HIGH * 0.99), Some(false));
    // Of 2000 steps in five periods, so many hundredths are low and so many lie between; the others are high.
    let shares = |low: f64, between: f64| {
        let (low, between) = ((low * 400.0) as usize, (between * 400.0) as usize);
        let period = (0..400).map(move |step| match step {
            step if step < low => 0.0,
            step if step < low + between => 0.3,
            _ => 1.0,
        });
        swings((0..5).flat_map(|_| period.clone()))
    };
    assert_eq!(shares(SWING_SHARE * 1.02, 0.0), Some(true));
    assert_eq!(shares(SWING_SHARE * 0.99, 0.0), Some(false));
    assert_eq!(shares(1.0 - SWING_SHARE * 1.01, 0.0), Some(true));
    assert_eq!(shares(1.0 - SWING_SHARE * 0.98, 0.0), Some(false));
    assert_eq!(shares(0.4, SWING_BETWEEN * 0.99), Some(true));
    assert_eq!(shares(0.4, SWING_BETWEEN * 1.02), Some(false));
    let turns = |turns: u32| {
        let halves = (0..=turns).map(|half| f64::from(half % 2));
        swings(halves.flat_map(|util| [util; 10]))
    };
    assert_eq!(turns(SWING_TURNS), Some(true));
    assert_eq!(turns(SWING_TURNS - 1), Some(false));
}

#[test]
fn nodes_that_are_read_at_different_times_still_dip_together() {
    // Two nodes of two devices, whose exporters read opposite halves of the same wave.
    let evidence = profile_on(&["a", "b"], 2, |node, _, step| {
        let low = (step + node as i64) % 2 == 0;
        Some(active(if low { 0.3 } else { 0.7 }))
    })
    .evidence;
    // SM activity is 0.24 and 0.56 by turns.
    let dip = evidence.dip.expect("is known");
    assert!((dip - 0.16).abs() < 0.01, "{dip}");
    assert!(evidence.together > Some(0.99), "{:?}", evidence.together);
}

#[test]
fn a_device_without_readings_is_not_idle() {
    assert_eq!(verdict(10), Ok(Bottleneck::Idle));
    assert_eq!(verdict(9), Err(NotJudged::UtilizationOnly));
    assert_eq!(verdict(7), Err(NotJudged::Short));
}
