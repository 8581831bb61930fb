//! Quantities in ResourceSlices (DRA): device capacities, and counters that devices share.

use model::base::Names;
use model::fleet::claim::{CapacityAmount, CounterAmount};

use super::lenient_json::{Map, Quantity, Text, partial};

partial! {
    /// The quantity of a capacity or of a counter.
    Capacity {
        value: Quantity = "value",
    }
}

partial! {
    /// An entry of `spec.sharedCounters`: a counter set that devices share.
    CounterSet {
        name: Text = "name",
        counters: Map<Capacity> = "counters",
    }
}

partial! {
    /// An entry of a device's `consumesCounters`: how much it uses of one counter set.
    CounterConsumption {
        set: Text = "counterSet",
        /// The quantity used of each counter.
        counters: Map<Capacity> = "counters",
    }
}

/// All counters with a positive amount, each with its counter set; amounts in thousandths.
pub(super) fn counter_amounts<'a>(
    sets: impl Iterator<Item = (&'a Text, &'a Map<Capacity>)>,
    names: &mut Names,
) -> Box<[CounterAmount]> {
    let mut out = Vec::new();
    for (set, counters) in sets {
        let Some(set) = set.get() else { continue };
        for (counter, capacity) in counters.iter() {
            if let Some(milli) = capacity.value.0.filter(|milli| *milli > 0) {
                out.push(CounterAmount {
                    set: names.intern(set),
                    counter: names.intern(counter),
                    milli,
                });
            }
        }
    }
    out.into_boxed_slice()
}

/// All capacities above zero, in thousandths.
pub(super) fn capacities<'a>(
    all: impl Iterator<Item = (&'a str, Quantity)>,
    names: &mut Names,
) -> Box<[CapacityAmount]> {
    let above_zero =
        all.filter_map(|(name, amount)| Some((name, amount.0.filter(|milli| *milli > 0)?)));
    above_zero
        .map(|(name, milli)| CapacityAmount {
            name: names.intern(name),
            milli,
        })
        .collect()
}
