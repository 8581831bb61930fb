//! Amounts in ResourceSlices: capacities, and the counters that devices share.

use model::base::Names;
use model::fleet::claim::{CapacityAmount, CounterAmount};

use super::lenient_json::{Map, Quantity, Text, partial};

partial! {
    Capacity {
        value: Quantity = "value",
    }
}

partial! {
    /// A counter set that devices share.
    CounterSet {
        name: Text = "name",
        counters: Map<Capacity> = "counters",
    }
}

partial! {
    /// Consumption of the counters of one counter set.
    CounterUse {
        set: Text = "counterSet",
        /// How much of each.
        counters: Map<Capacity> = "counters",
    }
}

/// Counters of sets with their amounts, in thousandths.
pub(super) fn amounts<'a>(
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

/// Amounts of capacities, in thousandths.
pub(super) fn capacities<'a>(
    all: impl Iterator<Item = (&'a str, Quantity)>,
    names: &mut Names,
) -> Box<[CapacityAmount]> {
    let above_zero =
        all.filter_map(|(name, amount)| Some((name, amount.0.filter(|all| *all > 0)?)));
    above_zero
        .map(|(name, milli)| CapacityAmount {
            name: names.intern(name),
            milli,
        })
        .collect()
}
