//! Scans a record for notable events, beside the playback task.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use model::base::Moment;
use record::{Archive, RecordFault};
use table::changes::FleetChanges;
use table::timeline::TimelineMark;

use super::past::RecordReplay;
use crate::runtime::store::Rules;

/// How far from the time on screen the record is scanned in the background; further only when a jump needs it.
const AROUND: Duration = Duration::from_secs(12 * 3600);

/// The parts of a record between two keyframes, by time.
pub(crate) fn windows(archive: &Archive) -> Vec<(Moment, Moment)> {
    let keys = archive.keyframes();
    let ends = keys.iter().skip(1).copied().chain([archive.end()]);
    keys.iter().copied().zip(ends).collect()
}

/// Index of the part that contains a time.
fn window_of(windows: &[(Moment, Moment)], at: Moment) -> usize {
    windows
        .partition_point(|(from, _)| *from <= at)
        .saturating_sub(1)
}

/// Where to scan next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Aim {
    /// The part nearest to this time.
    pub(crate) at: Moment,
    /// `Some(true)`: only later parts, `Some(false)`: only earlier ones, without the limit [`AROUND`].
    pub(crate) search: Option<bool>,
}

/// Index of a part, with its marks or why it cannot be read.
pub(crate) type ScannedPart = (usize, Result<Vec<TimelineMark>, RecordFault>);

/// Scans the parts of a record, each on a thread that may block.
pub(crate) struct Scanner {
    pub(crate) archive: Archive,
    pub(crate) rules: Rules,
    pub(crate) windows: Vec<(Moment, Moment)>,
    /// Parts that are scanned already.
    pub(crate) done: BTreeSet<usize>,
    pub(crate) aim: watch::Receiver<Aim>,
    pub(crate) found: mpsc::Sender<ScannedPart>,
}

impl Scanner {
    /// Scans until all parts are done or the receiver is dropped.
    pub(crate) async fn run(mut self) {
        let mut done = std::mem::take(&mut self.done);
        while !self.found.is_closed() {
            let aim = *self.aim.borrow_and_update();
            let Some(next) = next_window(&self.windows, &done, aim) else {
                if done.len() == self.windows.len() || self.aim.changed().await.is_err() {
                    return;
                }
                continue;
            };
            let begun = Instant::now();
            let (archive, rules) = (self.archive.clone(), self.rules.clone());
            let window = self.windows[next];
            let marks = tokio::task::spawn_blocking(move || marks(&archive, rules, window));
            let Ok(marks) = marks.await else { return };
            done.insert(next);
            if self.found.send((next, marks)).await.is_err() {
                return;
            }
            // A background scan uses at most half of one core.
            if aim.search.is_none() {
                let (pause, changed) = (begun.elapsed(), self.aim.changed());
                if let Ok(Err(_)) = tokio::time::timeout(pause, changed).await {
                    return;
                }
            }
        }
    }
}

fn marks(
    archive: &Archive,
    rules: Rules,
    (from, to): (Moment, Moment),
) -> Result<Vec<TimelineMark>, RecordFault> {
    let mut replay = RecordReplay::open(archive, rules, from)?;
    let (mut last, mut marks) = (replay.facts(from), Vec::new());
    replay.look(to, |facts| {
        marks.extend(TimelineMark::of(&FleetChanges::between(&last, &facts)));
        last = facts;
    })?;
    Ok(marks)
}

/// The part to scan next: the nearest unscanned one that `aim` allows.
fn next_window(windows: &[(Moment, Moment)], done: &BTreeSet<usize>, aim: Aim) -> Option<usize> {
    let here = window_of(windows, aim.at);
    let wanted = |window: &usize| match aim.search {
        Some(true) => *window >= here,
        Some(false) => *window <= here,
        None => {
            let (from, to) = windows[*window];
            from.since(aim.at) < AROUND.into() && aim.at.since(to) < AROUND.into()
        }
    };
    let open = (0..windows.len()).filter(|window| !done.contains(window));
    // Later parts are needed more often than earlier ones.
    open.filter(wanted)
        .min_by_key(|window| (window.abs_diff(here), *window < here))
}

/// Scan results of the parts of a record.
pub(crate) struct Marks {
    pub(crate) windows: Vec<(Moment, Moment)>,
    /// For each part, once it is scanned: its marks, or why it cannot be read.
    pub(crate) known: Vec<Option<Result<Vec<TimelineMark>, RecordFault>>>,
}

/// Result of a search for a mark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MarkSearch {
    Found(Moment),
    /// A part on the way is not scanned yet.
    Open,
    None,
}

impl Marks {
    /// All known marks, by time.
    pub(crate) fn all(&self) -> Arc<[TimelineMark]> {
        let readable = self.known.iter().flatten().flatten();
        readable.flatten().copied().collect()
    }

    /// The end of the last part.
    pub(crate) fn end(&self) -> Moment {
        self.windows.last().map_or(Moment::default(), |(_, to)| *to)
    }

    /// Replaces the parts; results of unchanged ones are kept.
    pub(crate) fn cover(&mut self, windows: Vec<(Moment, Moment)>) {
        let mut old: Vec<_> = std::mem::take(&mut self.windows)
            .into_iter()
            .zip(std::mem::take(&mut self.known))
            .collect();
        self.known = windows
            .iter()
            .map(|window| {
                let place = old.iter().position(|(known, _)| known == window)?;
                old.swap_remove(place).1
            })
            .collect();
        self.windows = windows;
    }

    /// Number of unreadable parts: changes in them are unknown.
    pub(crate) fn unreadable(&self) -> u64 {
        let scanned = self.known.iter().flatten();
        scanned.filter(|found| found.is_err()).count() as u64
    }

    /// The scanned intervals; adjacent ones are merged.
    pub(crate) fn looked(&self) -> Arc<[(Moment, Moment)]> {
        let mut out: Vec<(Moment, Moment)> = Vec::new();
        for ((from, to), known) in self.windows.iter().zip(&self.known) {
            match out.last_mut() {
                _ if !matches!(known, Some(Ok(_))) => {}
                Some(last) if last.1 == *from => last.1 = *to,
                _ => out.push((*from, *to)),
            }
        }
        out.into()
    }

    /// The next mark after a time, or the last one before it.
    pub(crate) fn search(&self, from: Moment, forward: bool) -> MarkSearch {
        let here = window_of(&self.windows, from);
        let ahead: Vec<usize> = match forward {
            true => (here..self.known.len()).collect(),
            false => (0..=here).rev().collect(),
        };
        for window in ahead {
            let Some(Some(found)) = self.known.get(window) else {
                return if window < self.known.len() {
                    MarkSearch::Open
                } else {
                    MarkSearch::None
                };
            };
            let marks = found.as_deref().unwrap_or_default();
            let found = match forward {
                true => marks.iter().find(|mark| mark.at > from),
                false => marks.iter().rev().find(|mark| mark.at < from),
            };
            if let Some(mark) = found {
                return MarkSearch::Found(mark.at);
            }
        }
        MarkSearch::None
    }
}

#[cfg(test)]
mod tests {
    use model::fleet::finding::Severity;

    use super::*;

    fn at(minute: i64) -> Moment {
        Moment::from_seconds(minute * 60)
    }

    fn marks(known: Vec<Option<Vec<i64>>>) -> Marks {
        let windows = (0..known.len() as i64).map(|window| (at(window * 15), at(window * 15 + 15)));
        let mark = |minute: i64| TimelineMark {
            at: at(minute),
            weight: Severity::Warn,
        };
        let of = |minutes: Vec<i64>| minutes.into_iter().map(mark).collect();
        Marks {
            windows: windows.collect(),
            known: known
                .into_iter()
                .map(|own| own.map(|minutes| Ok(of(minutes))))
                .collect(),
        }
    }

    #[test]
    fn the_next_mark_is_found_and_never_one_behind_a_part_that_is_not_known() {
        let known = marks(vec![
            Some(vec![3, 9]),
            Some(vec![]),
            Some(vec![40]),
            None,
            Some(vec![70]),
        ]);
        let search = |minute, forward| known.search(at(minute), forward);
        assert_eq!(search(0, true), MarkSearch::Found(at(3)));
        assert_eq!(search(3, true), MarkSearch::Found(at(9)));
        assert_eq!(search(9, true), MarkSearch::Found(at(40)));
        assert_eq!(search(40, true), MarkSearch::Open);
        assert_eq!(search(70, true), MarkSearch::None);
        assert_eq!(search(70, false), MarkSearch::Open);
        assert_eq!(search(40, false), MarkSearch::Found(at(9)));
        assert_eq!(search(3, false), MarkSearch::None);
        assert_eq!(&*known.looked(), &[(at(0), at(45)), (at(60), at(75))]);
        assert_eq!(marks(Vec::new()).search(at(1), true), MarkSearch::None);
    }

    #[test]
    fn the_nearest_part_is_looked_through_first_and_only_in_the_direction_of_a_search() {
        let windows = marks(vec![None, None, None, None]).windows;
        let order = |minute, search| {
            let aim = Aim {
                at: at(minute),
                search,
            };
            let mut done = BTreeSet::new();
            while let Some(next) = next_window(&windows, &done, aim) {
                done.insert(next);
            }
            (next_window(&windows, &BTreeSet::new(), aim), done.len())
        };
        assert_eq!(order(20, None), (Some(1), 4));
        assert_eq!(order(35, Some(true)), (Some(2), 2));
        assert_eq!(order(35, Some(false)), (Some(2), 3));
        let aim = Aim {
            at: at(20),
            search: None,
        };
        assert_eq!(next_window(&windows, &BTreeSet::from([1]), aim), Some(2));
        // More than twelve hours away nothing is scanned without a search.
        assert_eq!(order(60 * 24, None), (None, 0));
        assert_eq!(order(60 * 24, Some(false)), (Some(3), 4));
    }
}
