//! Rates out of running totals: the difference of two pages over the time between them.

use rustc_hash::FxHashMap;

use crate::base::{Moment, Name};
use crate::fleet::reading::{Reading, Scope};
use crate::fleet::signal::{Signal, Signals};

use super::map::Read;

/// A running total whose signal is a rate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Total {
    /// The reading it belongs to, as an index into [`Read::readings`].
    pub reading: usize,
    /// The rate it makes, in units a second.
    pub signal: Signal,
    /// The total.
    pub value: f64,
}

/// What a total belongs to, from page to page.
#[derive(PartialEq, Eq, Hash, Debug, Clone)]
struct Key {
    scope: Scope,
    host: Option<Name>,
    device: Option<Name>,
    index: Option<u32>,
    slice: Option<Name>,
    pod: Option<crate::base::ObjectKey>,
    signal: Signal,
}

impl Key {
    fn of(reading: &Reading, signal: Signal) -> Self {
        Self {
            scope: reading.scope,
            host: reading.host.clone(),
            device: reading.uuid.clone(),
            index: reading.index,
            slice: reading.slice.clone(),
            // A device's totals go on when its holder changes; only copies are told apart by pod.
            pod: (reading.scope == Scope::PodCopy)
                .then(|| reading.pod.clone())
                .flatten(),
            signal,
        }
    }
}

/// The totals of one target's last page.
#[derive(Debug, Default, Clone)]
pub struct Rates(FxHashMap<Key, (Moment, f64)>);

impl Rates {
    /// Adds the rates since the page before to the readings of `read`, which was read at `at`.
    ///
    /// A total that fell (a restart) gives no rate, nor does the first page, nor one of the same moment.
    pub fn fill(&mut self, at: Moment, read: &mut Read) {
        let mut now = FxHashMap::default();
        for total in &read.totals {
            let Some(reading) = read.readings.get_mut(total.reading) else {
                continue;
            };
            let key = Key::of(reading, total.signal);
            let mut kept = (at, total.value);
            if let Some((before, old)) = self.0.get(&key).copied() {
                let millis = at.since(before).millis();
                if millis == 0 {
                    kept = (before, old);
                } else if total.value >= old {
                    let rate = (total.value - old) / (millis as f64 / 1000.0);
                    let rates: Signals = [(total.signal, rate)].into_iter().collect();
                    reading.signals = reading.signals.or(&rates);
                }
            }
            now.insert(key, kept);
        }
        self.0 = now;
    }
}
