//! A record that is replayed: from when to when it is, how it is played, and where in it something changed that matters.

use std::sync::Arc;

use model::base::{Moment, Name};
use model::fleet::finding::Severity;

use super::Scope;
use super::changes::Changes;

/// A moment at which something changed that matters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Mark {
    /// The moment of the first picture that shows it.
    pub at: Moment,
    /// The gravest of what changed.
    pub weight: Severity,
}

impl Mark {
    /// The mark of what differs between two pictures that follow each other; nothing where none of it matters.
    pub fn of(step: &Changes) -> Option<Self> {
        let at = step.to;
        step.weight().map(|weight| Self { at, weight })
    }
}

/// What a replay is of, and how it stands.
#[derive(Clone, PartialEq, Debug)]
pub struct Timeline {
    /// The first moment of the record.
    pub from: Moment,
    /// The last one.
    pub to: Moment,
    /// Seconds of the record a second, while it is played; `None` while it stands still.
    pub speed: Option<f64>,
    /// What matters, by time.
    pub marks: Arc<[Mark]>,
    /// The parts that were looked through for what matters, by time: the rest is not known yet.
    pub looked: Arc<[(Moment, Moment)]>,
}

impl Timeline {
    /// A record that stands still, and that nobody has looked through yet.
    pub fn new(from: Moment, to: Moment) -> Self {
        Self {
            from,
            to,
            speed: None,
            marks: Arc::from([]),
            looked: Arc::from([]),
        }
    }

    /// Where `at` stands on a line of so many cells.
    pub fn cell(&self, at: Moment, cells: u16) -> u16 {
        let all = self.to.since(self.from).millis().max(1);
        let past = at.since(self.from).millis().min(all);
        let last = u64::from(cells.saturating_sub(1));
        // Both are less than a few thousand years: a product of them and a few thousand cells fits.
        (u128::from(past) * u128::from(last) / u128::from(all)) as u16
    }

    /// The gravest mark in each cell of a line; `None` where nothing matters.
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

    /// True when the part of the record that a cell stands for was looked through.
    pub fn has_looked(&self, cell: u16, cells: u16) -> bool {
        // A part that only touches a cell leaves the rest of it unknown.
        self.looked.iter().any(|(from, to)| {
            let (first, last) = (self.cell(*from, cells), self.cell(*to, cells));
            (first..=last).contains(&cell)
                && (first < cell || *from <= self.from)
                && (cell < last || *to >= self.to)
        })
    }
}

/// What is done with a replay.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Playback {
    /// Go to a moment.
    Go(Moment),
    /// Go to the next change that matters, or to the one before.
    Change {
        /// The next one.
        forward: bool,
    },
    /// Play, or stand still.
    Toggle,
    /// Compare two moments, of what this scope has; the answer comes under this name.
    Compare {
        /// Under which the answer comes.
        name: Name,
        /// The earlier one.
        from: Moment,
        /// The later one.
        to: Moment,
        /// Whose changes.
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
        let mark = |seconds, weight| Mark {
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
        // What lies outside stands at its end, and a record of one moment is no division by zero.
        assert_eq!(timeline.cell(after(5000), 11), 10);
        assert_eq!(Timeline::new(from, from).cell(from, 11), 0);
    }
}
