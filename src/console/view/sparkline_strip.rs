//! Small charts of devices and time: the fleet's strip, the time strip, a tile for one device.

use std::time::Duration;

use ratatui::layout::Rect;

use crate::painter::Painter;
use crate::summary::fleet_util;
use crate::text::{counted, per_hour};
use crate::widget::bar::{bar, bar_role};
use crate::widget::heat::{HeatCell, HeatLevel, pair, single};
use crate::widget::panel::panel;
use crate::widget::spark::{ChartRange, chart_of_range, spark};
use model::base::{Moment, Name, SmallSort, natural};
use model::fleet::device::Device;
use model::fleet::history::{FleetSignal, Track};
use model::fleet::pool::NOT_VISIBLE;
use table::Facts;
use table::role::Role;
use table::text::whole_percent;

use super::device_heat::{DeviceHeats, HeatMetric, together};
use table::kinds::devices::health_of;

/// Every pool's devices as rows of cells.
#[derive(Clone, Debug, Default)]
pub struct DeviceStrip {
    pools: Vec<(Name, Vec<HeatCell>)>,
    /// Devices per half cell (per cell without half blocks).
    per: usize,
    width: u16,
    paired: bool,
}

/// Width of the pools' names, cells.
const LABEL: u16 = 16;

impl DeviceStrip {
    /// As many lines as `height` allows, in cells across `width`.
    pub fn of(facts: &Facts, glows: &DeviceHeats, width: u16, height: u16, paired: bool) -> Self {
        let width = width.saturating_sub(LABEL + 4);
        if width == 0 || height == 0 {
            return Self::default();
        }
        let fleet = &facts.fleet;
        let mut pools: Vec<(Name, Vec<HeatCell>)> = fleet
            .pools
            .iter()
            .filter(|pool| pool.name.as_str() != NOT_VISIBLE)
            .map(|pool| {
                (
                    pool.name.clone(),
                    Vec::with_capacity(pool.devices.total as usize),
                )
            })
            .collect();
        for (at, node) in fleet.nodes.iter().enumerate() {
            if let Ok(place) = pools.binary_search_by(|(name, _)| name.cmp(&node.pool)) {
                let cells = glows.node(at as u32).iter().zip(&node.devices);
                let ours = cells.filter(|(_, device)| facts.has_device(device));
                pools[place].1.extend(ours.map(|(cell, _)| *cell));
            }
        }
        pools.retain(|(_, cells)| !cells.is_empty());
        let mut others: Option<(Name, Vec<HeatCell>)> = None;
        // A strip of only some pools would mislead: with six lines or more the largest are shown by name, with fewer none is.
        if pools.len() > usize::from(height) {
            if height < 6 {
                return Self::default();
            }
            pools.small_sort_by_key(|(_, cells)| std::cmp::Reverse(cells.len()));
            // The smallest pools share the last line, so that none is omitted.
            let rest = pools.split_off(usize::from(height) - 1);
            let name = Name::from(format!("{} more pools", rest.len()));
            let cells = rest.into_iter().flat_map(|(_, cells)| cells).collect();
            others = Some((name, cells));
        }
        // As in the table of pools above.
        pools.small_sort_by(|a, b| natural(&a.0, &b.0));
        pools.extend(others);
        let line = usize::from(width) * if paired { 2 } else { 1 };
        let lines = |per: usize| -> usize {
            pools
                .iter()
                .map(|(_, cells)| cells.len().div_ceil(per).div_ceil(line))
                .sum()
        };
        let mut per = 1;
        while lines(per) > usize::from(height) && per < 1 << 20 {
            per *= 2;
        }
        if per > 1 {
            for (_, cells) in &mut pools {
                *cells = cells.chunks(per).filter_map(together).collect();
            }
        }
        Self {
            pools,
            per,
            width,
            paired,
        }
    }

    /// Lines with the heading.
    pub fn height(&self) -> u16 {
        if self.pools.is_empty() {
            return 0;
        }
        let line = usize::from(self.width.max(1)) * if self.paired { 2 } else { 1 };
        let cells: usize = self
            .pools
            .iter()
            .map(|(_, cells)| cells.len().div_ceil(line))
            .sum();
        1 + u16::try_from(cells).unwrap_or(u16::MAX)
    }

    /// Draws the heading and the pools.
    pub fn draw(&self, painter: &mut Painter<'_>, area: Rect) {
        if area.height == 0 || self.pools.is_empty() {
            return;
        }
        let used = painter.text_in_role(area.x + 2, area.y, area.width, "DEVICES", Role::Muted);
        let half = if self.paired {
            "each half block is "
        } else {
            "a cell is "
        };
        // Without half blocks, digits show utilization.
        let busier = match (self.paired, painter.render_style.theme.dark) {
            (true, true) => "brighter is busier",
            (true, false) => "darker is busier",
            (false, _) => "9 is busiest",
        };
        let what = format!("{half}{}; {busier}, ", counted(self.per as u64, "device"));
        let x = area.x + used + 4;
        let room = area.width.saturating_sub(used + 4);
        let used = painter.text_in_role(x, area.y, room, &what, Role::Muted);
        let idle = HeatCell::fresh(HeatLevel::Idle);
        if room > used + 24 {
            if self.paired {
                pair(painter, x + used, area.y, Some(idle), Some(idle));
            } else {
                single(painter, x + used, area.y, idle);
            }
            let width = used + 2;
            let width = width
                + painter.text_in_role(x + width, area.y, 22, "is allocated but idle", Role::Muted);
            let mut at = x + width;
            for (heat, words) in HeatLevel::LEGEND {
                if area.right().saturating_sub(at) > 14 {
                    painter.text_in_role(at, area.y, 2, ",", Role::Muted);
                    single(painter, at + 2, area.y, HeatCell::fresh(heat));
                    at += 4 + painter.text_in_role(at + 4, area.y, 10, words, Role::Muted);
                }
            }
        }
        let mut y = area.y + 1;
        let across = usize::from(self.width);
        for (name, cells) in &self.pools {
            if y < area.bottom() {
                painter.text_in_role(area.x + 2, y, LABEL - 1, name, Role::Muted);
            }
            let line = across * if self.paired { 2 } else { 1 };
            for row in cells.chunks(line.max(1)) {
                if y >= area.bottom() {
                    return;
                }
                // A last line that is not full still fills from the left, both halves.
                let top = if self.paired {
                    row.len().div_ceil(2).min(across)
                } else {
                    row.len()
                };
                for at in 0..top {
                    let x = area.x + 2 + LABEL + at as u16;
                    if self.paired {
                        pair(painter, x, y, Some(row[at]), row.get(top + at).copied());
                    } else {
                        single(painter, x, y, row[at]);
                    }
                }
                y += 1;
            }
        }
    }
}

/// The history of a track: one value per step, oldest first, and the step.
pub struct TrackHistory {
    pub values: Vec<Option<f32>>,
    pub step: Duration,
    /// The end of the last.
    pub to: Moment,
}

/// Possible time steps of one chart cell, seconds: each at most one and a half times the one before, so that a span fills at
/// least two thirds of the width.
const STEPS: [i64; 20] = [
    15, 20, 30, 40, 60, 90, 120, 180, 240, 360, 480, 720, 900, 1200, 1800, 2700, 3600, 5400, 7200,
    10_800,
];

/// The step, in milliseconds, with which a span fits into fewer than `width` cells.
fn step_of(span: i64, width: i64) -> i64 {
    let steps = STEPS.iter().map(|seconds| seconds * 1000);
    let last = STEPS[STEPS.len() - 1] * 1000;
    let mut steps = steps.chain((2..).map(|times| times * last));
    let fits = |step: &i64| span.div_euclid(*step) < width;
    steps.find(fits).unwrap_or(last)
}

impl TrackHistory {
    /// The span of history in at most `width` values. It advances only when a step is complete.
    pub fn of(facts: &Facts, track: &Track, width: u16) -> Option<Self> {
        Self::until(facts, track, width, facts.now)
    }

    /// The same, ending at another moment than the one on screen.
    fn until(facts: &Facts, track: &Track, width: u16, end: Moment) -> Option<Self> {
        let since = facts.history.since()?;
        let span = end.since(since).millis() as i64;
        let width = i64::from(width.max(1));
        let step = step_of(span, width);
        let to = (end.millis().div_euclid(step) + 1) * step;
        let points = ((to - since.millis().div_euclid(step) * step) / step).clamp(1, width);
        let values = facts.history.window(
            track,
            Moment::from_millis(to - points * step),
            Moment::from_millis(to),
            points as usize,
        );
        Some(Self {
            values,
            step: Duration::from_millis(step as u64),
            to: Moment::from_millis(to),
        })
    }

    /// The same over the whole width: each value is as many cells wide as it takes.
    pub fn stretched(self, width: u16) -> Self {
        let (count, width) = (self.values.len(), usize::from(width));
        if count == 0 || width <= count {
            return self;
        }
        let values = (0..width).map(|cell| self.values[cell * count / width]);
        Self {
            values: values.collect(),
            step: self.step * count as u32 / width as u32,
            to: self.to,
        }
    }

    /// Paints the time of day below the values, which begin at the left of this line: a label at every twentieth cell, so that the
    /// labels stay in place while the chart grows.
    pub fn clocks(&self, painter: &mut Painter<'_>, line: Rect) {
        let begin = self.to.minus(self.step * self.values.len() as u32);
        let mut last = String::new();
        for cell in (0..self.values.len()).step_by(20) {
            let clock = begin.plus(self.step * cell as u32).clock();
            let room = line.width.saturating_sub(cell as u16);
            let words = clock.get(..5).unwrap_or_default();
            // A minute of many cells is said once.
            if room >= 5 && words != last {
                painter.text_in_role(line.x + cell as u16, line.y, 5, words, Role::Muted);
                words.clone_into(&mut last);
            }
        }
    }

    /// Which value is that of a moment.
    fn place(&self, at: Moment) -> Option<usize> {
        let begin = self.to.minus(self.step * self.values.len() as u32);
        let into = at.millis().checked_sub(begin.millis())?;
        let place = usize::try_from(into.div_euclid(self.step.as_millis().max(1) as i64)).ok()?;
        (place < self.values.len()).then_some(place)
    }

    /// The last value that is known.
    pub fn last(&self) -> Option<f64> {
        let last = self.values.iter().rev().find_map(|value| *value);
        last.map(f64::from)
    }
}

/// What lies further back than this behind the newest is the past.
const LATELY: Duration = Duration::from_secs(45);

/// Cells for the ends of the chart's range: `100%` and air.
const LABELS: u16 = 5;

/// A chart of the fleet over the span of history, with that span in its title.
pub fn time_strip(facts: &Facts, painter: &mut Painter<'_>, area: Rect, signal: FleetSignal) {
    let Some(since) = facts.history.since() else {
        return;
    };
    // The moment on screen may be in the past; the chart still extends to the newest sample.
    let newest = facts
        .history
        .until()
        .map_or(facts.now, |at| at.max(facts.now));
    let back = newest.since(facts.now);
    let is_past = back >= LATELY.into();
    let clock = facts.now.clock();
    let clock = clock.get(..5).unwrap_or_default();
    let note = if is_past {
        format!("showing {clock} UTC, {back} before the latest")
    } else {
        format!("now {clock} UTC")
    };
    let span = match is_past {
        true => newest.since(since).to_string(),
        false => painter.age(since),
    };
    let past = TrackHistory::until(
        facts,
        &Track::Fleet(signal),
        area.width.saturating_sub(4 + LABELS),
        newest,
    );
    // One point makes no line; say that there is no history yet.
    let Some(past) = past.filter(|past| past.values.iter().flatten().count() > 1) else {
        let inside = panel(painter, area, "utilization", &note);
        let words = "no history yet: it needs two readings";
        painter.text_in_role(inside.x, inside.y, inside.width, words, Role::Muted);
        return;
    };
    let inside = panel(painter, area, &format!("utilization, last {span}"), &note);
    if inside.height < 3 {
        return;
    }
    let body = Rect::new(inside.x, inside.y, inside.width, inside.height - 2);
    let range = ChartRange {
        role: Role::Text,
        words: &|share| whole_percent(f64::from(share)),
        limit: None,
    };
    let body = chart_of_range(painter, body, &past.values, &range);
    let y = inside.bottom() - 2;
    past.clocks(
        painter,
        Rect {
            y,
            height: 1,
            ..body
        },
    );
    let here = past.place(facts.now).filter(|_| is_past);
    if let Some(cell) = here {
        painter.sign(
            body.x + cell as u16,
            y,
            "▲",
            painter.render_style.bold(Role::Mark),
        );
    }
    let (muted, title) = (
        painter.render_style.fg(Role::Muted),
        painter.render_style.fg(Role::Title),
    );
    let shown = match here {
        Some(cell) => past.values[cell].map(f64::from),
        // The same number as in the header: the last sample may be 15 s old.
        None => fleet_util(&facts.fleet).or_else(|| past.last()),
    };
    let util = shown.map_or_else(|| String::from("–"), whole_percent);
    let idle = per_hour(
        facts
            .spend_rates
            .known()
            .and_then(|spend| spend.idle_allocated),
    );
    painter.pieces(
        inside.x,
        inside.bottom() - 1,
        inside.width,
        &[
            ("fleet utilization ", muted),
            (&util, title),
            ("   allocated but idle ", muted),
            (&idle, painter.render_style.bold(Role::IdleMoney)),
        ],
    );
}

/// One device with its own trend, for the closest zoom.
pub fn device_tile(
    facts: &Facts,
    painter: &mut Painter<'_>,
    area: Rect,
    device: &Device,
    selected: bool,
) {
    if area.height < 2 || area.width < 8 {
        return;
    }
    if selected {
        let ground = Rect::new(
            area.x,
            area.y,
            area.width,
            area.height.saturating_sub(1).max(1),
        );
        painter.background(ground, Role::Selection);
        for y in ground.top()..ground.bottom() {
            painter.sign(area.x, y, "▌", painter.render_style.fg(Role::Accent));
        }
    }
    let (x, room) = (area.x + 2, area.width - 2);
    let (sign, role, health) = health_of(device);
    let head = format!("{}", device.index);
    painter.sign(x, area.y, sign, painter.render_style.fg(role));
    let used = painter.text_in_role(x + 2, area.y, room, &head, Role::Title);
    let class = format!(" {}  {health}", device.class);
    painter.text_in_role(
        x + 2 + used,
        area.y,
        room.saturating_sub(2 + used),
        &class,
        Role::Muted,
    );
    // A reading from before its pod was there is another's.
    let is_its = !device.is_read_before_held();
    let words = |metric: HeatMetric| {
        let own = (is_its || metric == HeatMetric::Temp).then(|| metric.words(device, facts));
        own.flatten().unwrap_or_else(|| String::from("–"))
    };
    let stale = device.is_stale(facts.now);
    let numbers = if stale { Role::Muted } else { Role::Text };
    if area.height > 1 {
        let line = format!(
            "util {}  mem {}  {}",
            words(HeatMetric::Util),
            words(HeatMetric::Memory),
            words(HeatMetric::Temp)
        );
        painter.text_in_role(x, area.y + 1, room, &line, numbers);
    }
    if area.height > 2 {
        let track = Track::DeviceUtil(device.id.clone());
        let past = super::table_view::past(facts, &track, device.held_since(), usize::from(room));
        match device.util().filter(|_| is_its) {
            // Without history, only the current value is shown.
            Some(util) if past.iter().all(Option::is_none) => {
                let role = bar_role(stale);
                bar(painter, x, area.y + 2, room, util, role);
            }
            _ => spark(painter, x, area.y + 2, &past, stale),
        }
    }
    if area.height > 3 {
        let holder = facts.first_holder(device).map_or_else(
            || String::from("free"),
            |(pod, attribution)| format!("{}{}", pod.key(), attribution.mark()),
        );
        painter.text_in_role(x, area.y + 3, room, &holder, Role::Muted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_fills_most_of_the_width() {
        for width in [40, 76, 120, 196] {
            // From where the finest step fills it on.
            for minutes in (width / 4 + 1)..3_000 {
                let step = step_of(minutes * 60_000, width);
                let cells = minutes * 60_000 / step + 1;
                assert!(
                    cells <= width && cells * 3 >= width * 2 - 6,
                    "{minutes} min in {width}: {cells}"
                );
            }
        }
    }
}
