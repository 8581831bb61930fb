//! Checks over drawn readings: no finding without its time, and none panics.

use model::fleet::signal::Signal;
use proptest::prelude::*;

use crate::checks::{STEP, Watch};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Whatever comes: nothing is shown that was never at its threshold for its time, what is at or below the
    /// clear level is never shown, and ids do not repeat.
    #[test]
    fn any_sequence_of_levels_and_gaps(
        shares in prop::collection::vec(prop::option::of(0.90f64..1.0), 1..80)
    ) {
        let mut watch = Watch::new();
        let mut lasted = 0u64;
        let mut shown_before = false;
        for share in shares {
            let found = watch.one("memory-saturated", |parts, _| match share {
                Some(share) => parts.set(0, 3, Signal::MemUsed, share * 80.0 * 1_073_741_824.0),
                None => parts.blind(),
            });
            match share {
                Some(share) if share >= 0.98 => lasted += STEP,
                Some(_) => lasted = 0,
                None => {}
            }
            if found.is_some() && !shown_before {
                prop_assert!(lasted >= 600, "shown after {lasted} s");
            }
            if share.is_some_and(|share| share <= 0.95) {
                prop_assert!(found.is_none());
            }
            if share.is_none() {
                prop_assert!(found.is_none() || shown_before, "a gap began a finding");
            }
            shown_before = found.is_some();
        }
    }

    /// Hostile readings (huge, negative, not whole) never panic a check.
    #[test]
    fn hostile_readings_are_survived(
        values in prop::collection::vec((0..Signal::ALL.len(), prop::num::f64::ANY), 0..40),
        seconds in prop::collection::vec(0u64..100_000, 1..6),
    ) {
        let mut watch = Watch::new();
        for second in seconds {
            watch.seconds = second;
            watch.step(|parts, _| {
                for (at, (signal, value)) in values.iter().enumerate() {
                    let device = parts.device(at % 2, at % 8);
                    device.signals = device
                        .signals
                        .iter()
                        .chain([(Signal::ALL[*signal], *value)])
                        .collect();
                }
            });
        }
    }
}
