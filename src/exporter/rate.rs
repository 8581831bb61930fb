//! Rates from running totals: the difference of two pages over the time between them. And means: the sum of new observations
//! since the previous page over their number.

use rustc_hash::FxHashMap;

use model::base::{Moment, Name};
use model::fleet::reading::{Reading, ReadingScope};
use model::fleet::signal::{Signal, Signals};

use super::page::ParsedPage;

/// What a total belongs to, from page to page.
#[derive(PartialEq, Eq, Hash, Debug, Clone)]
struct TotalKey {
    scope: ReadingScope,
    host: Option<Name>,
    device: Option<Name>,
    index: Option<u32>,
    slice: Option<Name>,
    pod: Option<model::base::ObjectKey>,
    model: Option<Name>,
    signal: Signal,
}

impl TotalKey {
    fn of(reading: &Reading, signal: Signal) -> Self {
        Self {
            scope: reading.scope,
            host: reading.host.clone(),
            device: reading.uuid.clone(),
            index: reading.index,
            slice: reading.slice.clone(),
            // A device's totals continue when its pod changes; only copies are separate by pod.
            pod: matches!(reading.scope, ReadingScope::PodCopy | ReadingScope::Serving)
                .then(|| reading.pod.clone())
                .flatten(),
            model: (reading.scope == ReadingScope::Serving)
                .then(|| reading.model.clone())
                .flatten(),
            signal,
        }
    }
}

/// The totals of one target's last page.
#[derive(Debug, Default, Clone)]
pub struct Rates(FxHashMap<TotalKey, Last>);

/// The last total of a key, with its count where it makes a mean.
#[derive(Debug, Clone, Copy)]
struct Last {
    at: Moment,
    value: f64,
    count: f64,
}

impl Rates {
    /// Adds the rates since the previous page to the readings of `read`, which was read at `at`.
    ///
    /// A total that fell (a restart) gives no rate, nor does the first page, nor one of the same moment. A mean is
    /// then over all observations, and absent without a new one since the previous page.
    pub fn fill(&mut self, at: Moment, read: &mut ParsedPage) {
        let mut now = FxHashMap::default();
        for total in &read.totals {
            let Some(reading) = read.readings.get_mut(total.reading) else {
                continue;
            };
            let key = TotalKey::of(reading, total.signal);
            let count = total.count.unwrap_or(0.0);
            let mut kept = Last {
                at,
                value: total.value,
                count,
            };
            if let Some(old) = self.0.get(&key).copied() {
                let millis = at.since(old.at).millis();
                let more = total.value - old.value;
                if millis == 0 {
                    kept = old;
                } else if total.count.is_some() && more >= 0.0 && count >= old.count {
                    let mean = (count > old.count).then(|| more / (count - old.count));
                    let others = reading.signals.iter();
                    reading.signals = others
                        .filter(|(signal, _)| *signal != total.signal)
                        .chain(mean.map(|mean| (total.signal, mean)))
                        .collect();
                } else if total.count.is_none() && more >= 0.0 {
                    let rate = more / (millis as f64 / 1000.0);
                    let rates: Signals = [(total.signal, rate)].into_iter().collect();
                    reading.signals = reading.signals.or(&rates);
                }
            }
            now.insert(key, kept);
        }
        self.0 = now;
    }
}
