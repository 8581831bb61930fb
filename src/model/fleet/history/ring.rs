//! A ring of frames on a fixed grid of time, and the way from frames to the points of a chart.

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::base::{Moment, Name};

/// Maximum number of steps without a frame for which the last frame is still valid.
const BRIDGE: i64 = 3;
/// A clock that goes back by fewer steps than this has only wavered.
const WAVER: i64 = 4;

/// Names with the row of each.
#[derive(Debug, Default)]
pub(super) struct Roster {
    pub(super) names: Box<[Name]>,
    rows: FxHashMap<Name, u32>,
}

impl Roster {
    /// The roster of these names; `old` itself when it holds the same.
    pub(super) fn of<'a, I: Iterator<Item = &'a Name>>(
        old: Option<&Arc<Self>>,
        names: impl Fn() -> I,
    ) -> Arc<Self> {
        if let Some(old) = old
            && old.names.iter().eq(names())
        {
            return old.clone();
        }
        let names: Box<[Name]> = names().cloned().collect();
        let rows = names
            .iter()
            .enumerate()
            .map(|(row, name)| (name.clone(), u32::try_from(row).unwrap_or(u32::MAX)))
            .collect();
        Arc::new(Self { names, rows })
    }

    pub(super) fn row(&self, name: &str) -> Option<usize> {
        self.rows.get(name).map(|row| *row as usize)
    }

    /// Bytes on the heap, without the names' own texts.
    pub(super) fn heap_bytes(&self) -> usize {
        // The map's table is a power of two, at most seven eighths full, with a control byte an entry.
        let slots = (self.rows.capacity() * 8 / 7).next_power_of_two();
        self.names.len() * size_of::<Name>() + slots * (size_of::<(Name, u32)>() + 1)
    }
}

/// Measurements at one step of the grid.
#[derive(Debug)]
pub(super) struct Frame<C> {
    /// Number of the step.
    pub(super) slot: i64,
    /// What its rows are about.
    pub(super) roster: Arc<Roster>,
    pub(super) columns: C,
}

/// Frames, oldest first, each of its own step. Cloning costs one reference count.
#[derive(Debug)]
pub(super) struct Ring<C> {
    step: i64,
    keep: i64,
    frames: Arc<VecDeque<Arc<Frame<C>>>>,
}

impl<C> Clone for Ring<C> {
    fn clone(&self) -> Self {
        Self {
            step: self.step,
            keep: self.keep,
            frames: self.frames.clone(),
        }
    }
}

impl<C> Ring<C> {
    /// A ring of `keep` steps of `step` milliseconds.
    pub(super) fn new(step: i64, keep: i64) -> Self {
        Self {
            step,
            keep,
            frames: Arc::default(),
        }
    }

    /// The step in which `at` lies.
    pub(super) fn slot(&self, at: Moment) -> i64 {
        at.millis().div_euclid(self.step)
    }

    /// The step for which a frame is due at `at`: one for each step, never twice. When the clock went far back,
    /// the frames from what is now the future are dropped.
    pub(super) fn due(&mut self, at: Moment) -> Option<i64> {
        let slot = self.slot(at);
        let newest = |ring: &Self| ring.frames.back().map(|frame| frame.slot);
        if newest(self).is_some_and(|last| last - slot >= WAVER) {
            self.drop_after(slot);
        }
        newest(self).is_none_or(|last| last < slot).then_some(slot)
    }

    /// Drops the frames of steps after this one.
    pub(super) fn drop_after(&mut self, slot: i64) {
        if self.frames.back().is_some_and(|frame| frame.slot > slot) {
            Arc::make_mut(&mut self.frames).retain(|frame| frame.slot <= slot);
        }
    }

    /// Adds a frame that was due, and drops those that are too old.
    pub(super) fn push(&mut self, frame: Frame<C>) {
        let oldest = frame.slot - self.keep;
        let frames = Arc::make_mut(&mut self.frames);
        frames.push_back(Arc::new(frame));
        while frames.front().is_some_and(|frame| frame.slot <= oldest) {
            frames.pop_front();
        }
    }

    /// Puts what `make` makes of the frame at `slot` (if there is one) in its place; nothing at steps that are too old
    /// or newer than the newest.
    pub(super) fn fill(
        &mut self,
        slot: i64,
        newest: i64,
        make: impl FnOnce(Option<&Arc<Frame<C>>>) -> Option<Frame<C>>,
    ) {
        if slot <= newest - self.keep || slot > newest {
            return;
        }
        let place = self.frames.binary_search_by_key(&slot, |frame| frame.slot);
        let old = place.ok().and_then(|at| self.frames.get(at));
        let Some(frame) = make(old) else { return };
        let frames = Arc::make_mut(&mut self.frames);
        match place {
            Ok(at) => frames[at] = Arc::new(frame),
            Err(at) => frames.insert(at, Arc::new(frame)),
        }
    }

    /// The frame of a step.
    pub(super) fn at(&self, slot: i64) -> Option<&Arc<Frame<C>>> {
        let place = self
            .frames
            .binary_search_by_key(&slot, |frame| frame.slot)
            .ok()?;
        self.frames.get(place)
    }

    /// The steps that lie in a span, the first whole or not.
    pub(super) fn slots(&self, from: Moment, to: Moment) -> std::ops::RangeInclusive<i64> {
        self.slot(from)..=self.slot(Moment::from_millis(to.millis().saturating_sub(1)))
    }

    /// The frames, oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Frame<C>>> {
        self.frames.iter()
    }

    pub(super) fn newest(&self) -> Option<&Arc<Frame<C>>> {
        self.frames.back()
    }

    /// The frame for `at`: that of its step, or the last of the few before it.
    pub(super) fn near(&self, at: Moment) -> Option<&Frame<C>> {
        let slot = self.slot(at);
        let frame = self.frames.iter().rev().find(|frame| frame.slot <= slot)?;
        (slot - frame.slot < BRIDGE).then_some(frame)
    }

    /// When the oldest frame begins, milliseconds.
    pub(super) fn start(&self) -> Option<i64> {
        self.frames
            .front()
            .map(|frame| frame.slot.saturating_mul(self.step))
    }

    /// When the newest frame begins, milliseconds.
    pub(super) fn end(&self) -> Option<i64> {
        self.frames
            .back()
            .map(|frame| frame.slot.saturating_mul(self.step))
    }

    /// Adds the value of each frame to `chart`, for the span of the frame, up to `before`.
    pub(super) fn draw(
        &self,
        chart: &mut Chart,
        before: Option<i64>,
        mut value: impl FnMut(&Arc<Frame<C>>) -> Option<f32>,
    ) {
        for (at, frame) in self.frames.iter().enumerate() {
            let begin = frame.slot.saturating_mul(self.step);
            let next = self.frames.get(at + 1).map(|next| next.slot);
            let steps = match next {
                Some(next) if next - frame.slot <= BRIDGE => next - frame.slot,
                _ => 1,
            };
            let mut end = begin.saturating_add(self.step.saturating_mul(steps));
            if let Some(before) = before {
                end = end.min(before);
            }
            if chart.overlaps(begin, end)
                && let Some(value) = value(frame)
            {
                chart.add(begin, end, value);
            }
        }
    }
}

/// The points of a chart while they are filled: means over equal spans, of the known values of each.
pub(super) struct Chart {
    from: i64,
    /// Measurements before this moment are not drawn.
    since: i64,
    width: f64,
    to: i64,
    points: Vec<RingPoint>,
}

#[derive(Clone, Copy)]
struct RingPoint {
    sum: f64,
    known: f64,
    least: f32,
    most: f32,
}

impl Chart {
    /// `points` equal spans between two moments; empty ones when they are not in order.
    pub(super) fn new(from: Moment, to: Moment, points: usize) -> Self {
        let empty = RingPoint {
            sum: 0.0,
            known: 0.0,
            least: f32::INFINITY,
            most: f32::NEG_INFINITY,
        };
        let span = to.millis().saturating_sub(from.millis()).max(0);
        Self {
            from: from.millis(),
            since: i64::MIN,
            to: to.millis().max(from.millis()),
            width: span as f64 / points.max(1) as f64,
            points: vec![empty; points],
        }
    }

    /// The same without measurements before `since`.
    pub(super) fn not_before(mut self, since: Option<Moment>) -> Self {
        self.since = since.map_or(i64::MIN, Moment::millis);
        self
    }

    fn overlaps(&self, begin: i64, end: i64) -> bool {
        begin < self.to && end > self.from && begin < end && begin >= self.since
    }

    fn add(&mut self, begin: i64, end: i64, value: f32) {
        if self.width <= 0.0 || !value.is_finite() {
            return;
        }
        let begin = (begin.max(self.from) - self.from) as f64;
        let end = (end.min(self.to) - self.from) as f64;
        let first = (begin / self.width).floor() as usize;
        for at in first..self.points.len() {
            let low = self.width * at as f64;
            if low >= end {
                break;
            }
            let overlap = end.min(low + self.width) - begin.max(low);
            if overlap <= 0.0 {
                continue;
            }
            let point = &mut self.points[at];
            point.sum += f64::from(value) * overlap;
            point.known += overlap;
            point.least = point.least.min(value);
            point.most = point.most.max(value);
        }
    }

    /// The points, oldest first; `None` where nothing was known.
    pub(super) fn finish(self) -> Vec<Option<f32>> {
        self.points
            .into_iter()
            .map(|point| {
                // Rounding must not carry a mean beyond the measured values.
                (point.known > 0.0)
                    .then(|| ((point.sum / point.known) as f32).clamp(point.least, point.most))
            })
            .collect()
    }
}
