//! A replayed record: its span, playback, and the moments of notable changes.

use std::sync::Arc;

use model::base::{Moment, Name};
use model::fleet::finding::Severity;

use super::Scope;
use super::changes::FleetChanges;

/// A moment with a notable change.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TimelineMark {
    /// The moment of the first snapshot that shows it.
    pub at: Moment,
    /// The highest severity of the changes.
    pub weight: Severity,
}

impl TimelineMark {
    /// The mark of the changes between two consecutive snapshots; `None` where none is notable.
    pub fn of(step: &FleetChanges) -> Option<Self> {
        let at = step.to;
        step.weight().map(|weight| Self { at, weight })
    }
}

/// The span of a replay and its playback state.
#[derive(Clone, PartialEq, Debug)]
pub struct Timeline {
    /// Start of the record.
    pub from: Moment,
    /// End of the record.
    pub to: Moment,
    /// Playback speed, seconds of the record per second; `None` while paused.
    pub speed: Option<f64>,
    /// Notable changes, by time.
    pub marks: Arc<[TimelineMark]>,
    /// Spans that were scanned for notable changes, by time; the rest is unknown.
    pub looked: Arc<[(Moment, Moment)]>,
}

impl Timeline {
    /// A paused record that has not been scanned.
    pub fn new(from: Moment, to: Moment) -> Self {
        Self {
            from,
            to,
            speed: None,
            marks: Arc::from([]),
            looked: Arc::from([]),
        }
    }

    /// The cell of `at` on a line of `cells` cells.
    pub fn cell(&self, at: Moment, cells: u16) -> u16 {
        let all = self.to.since(self.from).millis().max(1);
        let past = at.since(self.from).millis().min(all);
        let last = u64::from(cells.saturating_sub(1));
        // Both are below a few thousand years: their product with a few thousand cells fits.
        (u128::from(past) * u128::from(last) / u128::from(all)) as u16
    }

    /// The highest severity in each cell of a line; `None` without a mark.
    pub fn cells(&self, cells: u16) -> Vec<Option<Severity>> {
        let mut line = vec![None; usize::from(cells)];
        for mark in self.marks.iter() {
            let place = usize::from(self.cell(mark.at, cells));
            if let Some(cell) = line.get_mut(place) {
                *cell = Some(cell.map_or(mark.weight, |known| mark.weight.min(known)));
            }
        }
        line
    }

    /// True when the cell's part of the record was scanned.
    pub fn has_looked(&self, cell: u16, cells: u16) -> bool {
        // A span that only touches a cell leaves the rest of the cell unscanned.
        self.looked.iter().any(|(from, to)| {
            let (first, last) = (self.cell(*from, cells), self.cell(*to, cells));
            (first..=last).contains(&cell)
                && (first < cell || *from <= self.from)
                && (cell < last || *to >= self.to)
        })
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Playback {
    /// Jump to a moment.
    Go(Moment),
    /// Jump to the next or the previous notable change.
    Change {
        /// True for the next one.
        forward: bool,
    },
    Toggle,
    /// Compare two moments within a scope; the result is stored under `name`.
    Compare {
        /// Name of the comparison.
        name: Name,
        from: Moment,
        to: Moment,
        scope: Scope,
    },
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn marks_stand_where_they_were_and_the_gravest_of_a_cell_counts() {
        let from = Moment::from_seconds(1_000_000);
        let after = |seconds| from.plus(Duration::from_secs(seconds));
        let mark = |seconds, weight| TimelineMark {
            at: after(seconds),
            weight,
        };
        let timeline = Timeline {
            marks: Arc::from([
                mark(0, Severity::Info),
                mark(501, Severity::Warn),
                mark(502, Severity::Crit),
                mark(1000, Severity::Info),
            ]),
            looked: Arc::from([(after(400), after(600))]),
            ..Timeline::new(from, after(1000))
        };
        let line = timeline.cells(11);
        assert_eq!(line[0], Some(Severity::Info));
        assert_eq!(line[5], Some(Severity::Crit));
        assert_eq!(line[10], Some(Severity::Info));
        assert_eq!(line.iter().flatten().count(), 3);
        assert!(timeline.has_looked(5, 11) && !timeline.has_looked(1, 11));
        // A moment outside is clamped, and a record of a single moment does not divide by zero.
        assert_eq!(timeline.cell(after(5000), 11), 10);
        assert_eq!(Timeline::new(from, from).cell(from, 11), 0);
    }
}
