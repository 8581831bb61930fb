//! Rows of readings as numbers: each value relative to the row's previous value.

use model::fleet::histogram::Histogram;
use model::fleet::signal::{Signal, SignalType, Signals};

use super::coder::{BitCoder, BitModel, Number, raw};
use super::grid;

/// The signals of a row, in order.
pub(crate) type SignalList = Vec<Signal>;

/// Previous value of one signal in one row.
#[derive(Clone, Copy, Default)]
struct PriorValue {
    known: bool,
    /// The value is not on a step: its bits.
    odd: Option<u64>,
    /// Step number of the value.
    last: i64,
    /// Last increase, for counters.
    slope: i64,
    /// The last value was as predicted.
    quiet: bool,
}

/// Previous values of one row.
#[derive(Clone, Default)]
pub(crate) struct PreviousRow {
    cells: Vec<PriorValue>,
    /// Counts of each histogram bucket, one histogram after the other.
    buckets: Vec<i64>,
}

impl PreviousRow {
    /// The row with a new signal list; signals in both lists keep their state.
    pub(crate) fn moved(&self, from: &[Signal], to: &[Signal]) -> Self {
        let cells = to.iter().map(|signal| {
            let place = from.iter().position(|old| old == signal);
            place
                .and_then(|at| self.cells.get(at))
                .copied()
                .unwrap_or_default()
        });
        Self {
            cells: cells.collect(),
            buckets: self.buckets.clone(),
        }
    }

    fn fit(&mut self, count: usize) {
        self.cells.resize(count, PriorValue::default());
    }
}

/// Models of one signal.
#[derive(Clone, Default)]
struct SignalModels {
    same: [BitModel; 4],
    odd: BitModel,
    by: Number,
    /// Last first value of a new row, from which the next new row is predicted.
    first: i64,
    begin: Number,
}

/// Models of all signals.
pub(crate) struct RowModels {
    fields: Vec<SignalModels>,
    /// Whether all quiet cells of a row stay quiet.
    still: [BitModel; 2],
    was_still: usize,
    /// Whether a bucket is unchanged; separate models after an unchanged and a changed bucket.
    empty: [BitModel; 2],
    came: Number,
}

impl Default for RowModels {
    fn default() -> Self {
        Self {
            fields: vec![SignalModels::default(); Signal::ALL.len()],
            still: Default::default(),
            was_still: 0,
            empty: Default::default(),
            came: Number::default(),
        }
    }
}

/// Predicted value of a cell. Free memory decreases by the increase of used memory.
fn expected(cell: &PriorValue, signal: Signal, used: i64) -> i64 {
    match signal {
        Signal::MemFree => cell.last.wrapping_sub(used),
        _ if signal.kind() == SignalType::Counter => cell.last.wrapping_add(cell.slope),
        _ => cell.last,
    }
}

impl RowModels {
    /// Writes or reads one row. When writing, `values` are its signals in the order of `list`. Returns the values that
    /// were written or read.
    pub(crate) fn code(
        &mut self,
        coder: &mut impl BitCoder,
        list: &[Signal],
        row: &mut PreviousRow,
        values: &[f64],
    ) -> Signals {
        row.fit(list.len());
        let value = |at: usize| values.get(at).copied().unwrap_or_default();
        // In the order of signals, used memory comes before free memory, so its increase is known.
        let mut used = 0;
        let mut still = true;
        for (at, (signal, cell)) in list.iter().zip(&row.cells).enumerate() {
            let number = grid::step(*signal, value(at));
            if *signal == Signal::MemUsed
                && let (Some(number), true) = (number, cell.known && cell.odd.is_none())
            {
                used = number.wrapping_sub(cell.last);
            }
            if cell.quiet && !is_same(cell, *signal, used, value(at), number) {
                still = false;
            }
        }
        let still = self.still[self.was_still].code(coder, still);
        self.was_still = usize::from(still);
        let mut used = 0;
        let mut before = true;
        let mut out = Vec::with_capacity(list.len());
        for (at, (signal, cell)) in list.iter().zip(&mut row.cells).enumerate() {
            let (last, was_known) = (cell.last, cell.known && cell.odd.is_none());
            if !(cell.quiet && still) {
                let field = &mut self.fields[*signal as usize];
                before = code_cell(coder, field, cell, *signal, (used, before), value(at));
            } else if cell.odd.is_none() {
                let next = expected(cell, *signal, used);
                cell.slope = next.wrapping_sub(cell.last);
                cell.last = next;
            }
            if *signal == Signal::MemUsed && was_known && cell.odd.is_none() {
                used = cell.last.wrapping_sub(last);
            }
            let value = match cell.odd {
                Some(bits) => f64::from_bits(bits),
                None => grid::of_step(*signal, cell.last),
            };
            cell.known = true;
            out.push((*signal, value));
        }
        out.into_iter().collect()
    }
}

impl RowModels {
    /// Writes or reads the bucket counts of a row's histograms. When writing, `histograms` contain them; when reading, they are
    /// set. Both sides know the bounds.
    pub(crate) fn code_buckets(
        &mut self,
        coder: &mut impl BitCoder,
        row: &mut PreviousRow,
        histograms: &mut [Histogram],
    ) {
        let wanted = histograms.iter().map(|one| one.bounds.len() + 1).sum();
        row.buckets.resize(wanted, 0);
        let mut known = row.buckets.iter_mut();
        for histogram in histograms {
            let (mut written, mut read) = (0i64, 0i64);
            let (mut was_empty, mut counts) = (true, Vec::new());
            for (at, last) in known.by_ref().take(histogram.bounds.len() + 1).enumerate() {
                let count = histogram.counts.get(at).map_or(0, |count| *count as i64);
                let more = count.wrapping_sub(written).wrapping_sub(*last);
                written = count;
                let empty = self.empty[usize::from(was_empty)].code(coder, more == 0);
                if !empty {
                    *last = last.wrapping_add(self.came.code(coder, more));
                }
                was_empty = empty;
                read = read.wrapping_add(*last);
                counts.push(read as u64);
            }
            histogram.counts = counts.into();
        }
    }
}

fn is_same(cell: &PriorValue, signal: Signal, used: i64, value: f64, number: Option<i64>) -> bool {
    match cell.odd {
        Some(bits) => value.to_bits() == bits,
        None => cell.known && number == Some(expected(cell, signal, used)),
    }
}

/// Writes or reads one cell; true when it was as predicted.
fn code_cell(
    coder: &mut impl BitCoder,
    field: &mut SignalModels,
    cell: &mut PriorValue,
    signal: Signal,
    (used, before): (i64, bool),
    value: f64,
) -> bool {
    let number = grid::step(signal, value);
    let context = usize::from(cell.quiet) * 2 + usize::from(before);
    let same = is_same(cell, signal, used, value, number);
    let same = field.same[context].code(coder, same);
    cell.quiet = same;
    if same {
        if cell.odd.is_none() {
            let next = expected(cell, signal, used);
            cell.slope = next.wrapping_sub(cell.last);
            cell.last = next;
        }
        return true;
    }
    if field.odd.code(coder, number.is_none()) {
        cell.odd = Some(raw(coder, value.to_bits()));
        return false;
    }
    let number = number.unwrap_or_default();
    let next = match cell.known {
        true => {
            let from = expected(cell, signal, used);
            from.wrapping_add(field.by.code(coder, number.wrapping_sub(from)))
        }
        false => {
            let from = field.first;
            from.wrapping_add(field.begin.code(coder, number.wrapping_sub(from)))
        }
    };
    field.first = next;
    cell.odd = None;
    cell.slope = match cell.known {
        true => next.wrapping_sub(cell.last),
        false => 0,
    };
    cell.last = next;
    false
}

#[cfg(test)]
mod tests {
    use super::super::coder::{Decoder, Encoder};
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rows_come_back_to_the_bit(rows in proptest::collection::vec(
            (0..3usize, proptest::collection::vec(prop_oneof![
                Just(0.0f64), Just(-0.0), Just(0.5), Just(71.0), Just(33_554_432.0), 0.0..1e6f64, -5.0..5.0f64, any::<f64>()
            ], 5)), 0..60))
        {
            let list = [Signal::Util, Signal::MemUsed, Signal::MemFree, Signal::Energy, Signal::PcieTx];
            let finite = |value: f64| if value.is_finite() { value } else { 1.0 };
            let mut states = vec![PreviousRow::default(); 3];
            let (mut bits, mut coder) = (Encoder::new(), RowModels::default());
            for (at, values) in &rows {
                let values: Vec<f64> = values.iter().copied().map(finite).collect();
                coder.code(&mut bits, &list, &mut states[*at], &values);
            }
            let bytes = bits.finish();
            let mut states = vec![PreviousRow::default(); 3];
            let (mut bits, mut coder) = (Decoder::new(&bytes), RowModels::default());
            for (at, values) in &rows {
                let got = coder.code(&mut bits, &list, &mut states[*at], &[]);
                for (signal, value) in list.iter().zip(values) {
                    let got = got.get(*signal).expect("is there");
                    prop_assert_eq!(got.to_bits(), finite(*value).to_bits());
                }
            }
        }
    }
}
