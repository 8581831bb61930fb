//! Resolution of recorded readings: the last thousandth of a sensor reading is noise, and noise does not compress.
//!
//! Readings are rounded before the recording console processes them, so that the console and a replay show exactly the same
//! values.

use model::fleet::observe::SourceHealth;
use model::fleet::reading::Page;
use model::fleet::signal::{Signal, Signals};

use model::base::Moment;

/// Resolution of memory used and free, bytes: 0.04 % of an 80 GB device.
const MEMORY: f64 = 33_554_432.0;

/// Numbers up to this are exact as integer and as floating point.
const MOST: f64 = 9e15;

/// Resolution of a signal.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Grid {
    /// Integer multiples of the first number divided by the second.
    Steps(f64, f64),
    /// This many significant digits.
    Digits(i32),
}

const fn grid(signal: Signal) -> Grid {
    match signal {
        Signal::Util
        | Signal::SmActive
        | Signal::SmOccupancy
        | Signal::TensorActive
        | Signal::DramActive
        | Signal::EncoderUtil
        | Signal::DecoderUtil
        | Signal::MemUsedRatio
        | Signal::KvCache
        | Signal::PrefixHit => Grid::Steps(1.0, 200.0),
        Signal::MemUsed | Signal::MemFree => Grid::Steps(MEMORY, 1.0),
        Signal::Temp
        | Signal::MemTemp
        | Signal::TempSlowdown
        | Signal::TempShutdown
        | Signal::TempMargin => Grid::Steps(1.0, 2.0),
        Signal::Power | Signal::PowerLimit => Grid::Steps(1.0, 1.0),
        Signal::Energy => Grid::Steps(1000.0, 1.0),
        Signal::SmClock | Signal::MemClock => Grid::Steps(1_000_000.0, 1.0),
        Signal::PowerViolation | Signal::ThermalViolation => Grid::Steps(1.0, 10.0),
        Signal::PcieTx | Signal::PcieRx | Signal::Nvlink | Signal::NvlinkTx | Signal::NvlinkRx => {
            Grid::Digits(2)
        }
        Signal::Ttft | Signal::Itl | Signal::Tpot | Signal::QueueTime | Signal::E2e => {
            Grid::Digits(3)
        }
        _ => Grid::Steps(1.0, 1.0),
    }
}

/// The step number of a value; `None` when the value is not on a step.
pub(crate) fn step(signal: Signal, value: f64) -> Option<i64> {
    let number = nearest(signal, value)?;
    // Bitwise comparison: minus zero differs from zero.
    (of_step(signal, number).to_bits() == value.to_bits()).then_some(number)
}

fn nearest(signal: Signal, value: f64) -> Option<i64> {
    match grid(signal) {
        Grid::Steps(times, by) => {
            let number = (value / times * by).round();
            (number.abs() <= MOST).then_some(number as i64)
        }
        Grid::Digits(digits) => {
            if value == 0.0 {
                return Some(0);
            }
            if !(1e-9..1e18).contains(&value) {
                return None;
            }
            let decade = 10i64.pow(digits.unsigned_abs() - 1);
            let text = format!("{:.*e}", digits.unsigned_abs() as usize - 1, value);
            let (mantissa, exponent) = text.split_once('e')?;
            let mantissa: i64 = mantissa.replace('.', "").parse().ok()?;
            let exponent: i64 = exponent.parse().ok()?;
            // 0 means zero. Each decade has nine tenths of its numbers.
            Some((exponent + 10) * 9 * decade + mantissa - decade + 1)
        }
    }
}

pub(crate) fn of_step(signal: Signal, number: i64) -> f64 {
    match grid(signal) {
        Grid::Steps(times, by) => number as f64 * times / by,
        Grid::Digits(_) if number <= 0 => 0.0,
        Grid::Digits(digits) => {
            let decade = 10i64.pow(digits.unsigned_abs() - 1);
            let (exponent, mantissa) = ((number - 1) / (9 * decade), (number - 1) % (9 * decade));
            let exponent = exponent - 10 - i64::from(digits - 1);
            let text = format!("{}e{exponent}", mantissa + decade);
            text.parse().unwrap_or(0.0)
        }
    }
}

fn rounded(signals: &Signals) -> Signals {
    signals
        .iter()
        .map(|(signal, value)| {
            let near = nearest(signal, value).map(|number| of_step(signal, number));
            (signal, near.unwrap_or(value))
        })
        .collect()
}

/// Rounds the readings of a page to the recorded resolution.
pub(crate) fn round_page(page: &mut Page) {
    for reading in &mut page.readings {
        reading.signals = rounded(&reading.signals);
    }
}

/// Rounds source health: times to whole seconds, latency to two digits.
pub(crate) fn round_source(health: &mut SourceHealth) {
    let second = |at: Moment| Moment::from_millis(at.millis().div_euclid(1000) * 1000);
    health.last_ok = health.last_ok.map(second);
    health.latency_ms = health.latency_ms.map(|latency| match latency {
        0..=99 => latency,
        _ => {
            let step = 10u32.pow(latency.ilog10() - 1);
            latency / step * step
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_rounded_value_is_on_a_step_and_near(at in 0..Signal::ALL.len(), value in prop_oneof![
            0.0..1.5f64, 0.0..1000.0f64, 0.0..1e12f64, -50.0..0.0f64])
        {
            let signal = Signal::ALL[at];
            let one: Signals = [(signal, value)].into_iter().collect();
            let near = rounded(&one).get(signal).expect("is there");
            if let Some(number) = step(signal, near) {
                prop_assert_eq!(of_step(signal, number).to_bits(), near.to_bits());
            } else {
                prop_assert_eq!(near.to_bits(), value.to_bits());
            }
            let twice = rounded(&[(signal, near)].into_iter().collect());
            prop_assert_eq!(twice.get(signal).map(f64::to_bits), Some(near.to_bits()));
        }
    }

    #[test]
    fn no_share_and_no_latency_is_kept_in_whole_numbers() {
        let small = |name: &str| name.ends_with("_ratio") || name.ends_with("_seconds");
        for signal in Signal::ALL.iter().filter(|signal| small(signal.name())) {
            let one: Signals = [(*signal, 0.4375)].into_iter().collect();
            let kept = rounded(&one).get(*signal).expect("is there");
            assert!((kept - 0.4375).abs() < 0.004, "{}: {kept}", signal.name());
        }
    }

    #[test]
    fn what_a_sensor_says_in_whole_steps_stays() {
        for (signal, value, kept) in [
            (Signal::Util, 0.7, 0.7),
            (Signal::Util, 1.0, 1.0),
            (Signal::SmActive, 0.558_111, 0.56),
            (Signal::Power, 460.26, 460.0),
            (Signal::PcieTx, 983_622_036.0, 980_000_000.0),
            (Signal::PcieTx, 0.0, 0.0),
            (Signal::Ttft, 0.123_456, 0.123),
            (Signal::MemTotal, 85_520_809_984.0, 85_520_809_984.0),
            (Signal::XidLast, 79.0, 79.0),
            (Signal::SmClock, 1_755_000_000.0, 1_755_000_000.0),
        ] {
            let one: Signals = [(signal, value)].into_iter().collect();
            assert_eq!(rounded(&one).get(signal), Some(kept), "{}", signal.name());
        }
    }
}
