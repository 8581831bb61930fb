//! Smaller pictures of devices and time: the fleet's strip, the time strip, a tile for one device.

use ratatui::layout::Rect;

use crate::base::{Age, Moment, Name};
use crate::console::brush::Brush;
use crate::console::text::{counted, percent};
use crate::console::theme::Role;
use crate::console::widget::bar::bar;
use crate::console::widget::heat::{Ember, pair, single};
use crate::console::widget::panel::panel;
use crate::console::widget::spark::{chart, spark};
use crate::fleet::device::Device;
use crate::fleet::history::{FleetSignal, Track};
use crate::report::Facts;

use super::devices::health_of;
use super::glow::{Glows, Metric, Scale, together};

/// Every pool's devices as rows of cells.
#[derive(Clone, Debug, Default)]
pub struct Strip {
    pools: Vec<(Name, Vec<Ember>)>,
    /// Devices that one half of a cell (one cell without half blocks) stands for.
    per: usize,
    width: u16,
    paired: bool,
}

/// Cells of the pools' names.
const LABEL: u16 = 16;

impl Strip {
    /// As many lines as `height` allows, in cells across `width`.
    pub fn of(facts: &Facts, width: u16, height: u16, paired: bool) -> Self {
        let width = width.saturating_sub(LABEL + 4);
        if width == 0 || height == 0 {
            return Self::default();
        }
        let glows = Glows::of(facts, Metric::Util, Scale::Absolute);
        let fleet = &facts.fleet;
        let mut pools: Vec<(Name, Vec<Ember>)> = fleet
            .pools
            .iter()
            .map(|pool| {
                (
                    pool.name.clone(),
                    Vec::with_capacity(pool.devices.total as usize),
                )
            })
            .collect();
        for (at, node) in fleet.nodes.iter().enumerate() {
            if let Ok(place) = pools.binary_search_by(|(name, _)| name.cmp(&node.pool)) {
                pools[place].1.extend_from_slice(glows.node(at as u32));
            }
        }
        pools.retain(|(_, embers)| !embers.is_empty());
        // A strip of a few of many pools would mislead: from six lines on it shows the largest, below it shows all.
        if pools.len() > usize::from(height) {
            if height < 6 {
                return Self::default();
            }
            pools.sort_by_key(|(_, embers)| std::cmp::Reverse(embers.len()));
            pools.truncate(usize::from(height));
            pools.sort_by(|a, b| a.0.cmp(&b.0));
        }
        let line = usize::from(width) * if paired { 2 } else { 1 };
        let lines = |per: usize| -> usize {
            pools
                .iter()
                .map(|(_, embers)| embers.len().div_ceil(per).div_ceil(line))
                .sum()
        };
        let mut per = 1;
        while lines(per) > usize::from(height) && per < 1 << 20 {
            per *= 2;
        }
        if per > 1 {
            for (_, embers) in &mut pools {
                *embers = embers.chunks(per).filter_map(together).collect();
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
            .map(|(_, embers)| embers.len().div_ceil(line))
            .sum();
        1 + u16::try_from(cells).unwrap_or(u16::MAX)
    }

    /// Draws the heading and the pools.
    pub fn draw(&self, brush: &mut Brush<'_>, area: Rect) {
        if area.height == 0 || self.pools.is_empty() {
            return;
        }
        let used = brush.say(area.x + 2, area.y, area.width, "DEVICES", Role::Muted);
        let half = if self.paired {
            "half a cell is "
        } else {
            "a cell is "
        };
        let what = format!(
            "{half}{}; brighter is busier, blue is held but idle",
            counted(self.per as u64, "device")
        );
        let room = area.width.saturating_sub(used + 4);
        brush.say(area.x + used + 4, area.y, room, &what, Role::Muted);
        let mut y = area.y + 1;
        let across = usize::from(self.width);
        for (name, embers) in &self.pools {
            if y < area.bottom() {
                brush.say(area.x + 2, y, LABEL - 1, name, Role::Muted);
            }
            let line = across * if self.paired { 2 } else { 1 };
            for row in embers.chunks(line.max(1)) {
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
                        pair(brush, x, y, Some(row[at]), row.get(top + at).copied());
                    } else {
                        single(brush, x, y, row[at]);
                    }
                }
                y += 1;
            }
        }
    }
}

/// A chart of the fleet over the span that history holds, and which span that is.
pub fn time_strip(facts: &Facts, brush: &mut Brush<'_>, area: Rect, signal: FleetSignal) {
    let Some(since) = facts.history.since() else {
        return;
    };
    let span = facts.now.since(since).max(Age::from_seconds(60));
    let note = format!("now {}", facts.now.clock().get(..5).unwrap_or_default());
    let title = format!("utilisation, last {}", brush.age(since));
    let inside = panel(brush, area, &title, &note);
    if inside.height < 3 {
        return;
    }
    let points = usize::from(inside.width);
    let values = window(facts, &Track::Fleet(signal), span, points);
    let body = Rect::new(inside.x, inside.y, inside.width, inside.height - 2);
    chart(brush, body, &values, 1.0);
    let y = inside.bottom() - 2;
    for quarter in 0..4u16 {
        let at = span.millis() / 4 * u64::from(4 - quarter);
        let when = Moment::from_millis(facts.now.millis() - at as i64);
        let clock = when.clock();
        let x = inside.x + inside.width / 4 * quarter;
        brush.say(x, y, 5, clock.get(..5).unwrap_or_default(), Role::Muted);
    }
    brush.right(inside.right(), y, 3, "now", brush.ink.fg(Role::Text));
    let last = values.iter().rev().find_map(|value| *value);
    let (muted, title) = (brush.ink.fg(Role::Muted), brush.ink.fg(Role::Title));
    let util = last.map_or_else(|| String::from("–"), |value| percent(f64::from(value)));
    let idle = format!("${}/h", facts.burn.total.idle_allocated);
    brush.pieces(
        inside.x,
        inside.bottom() - 1,
        inside.width,
        &[
            ("fleet utilisation ", muted),
            (&util, title),
            ("   allocated but idle ", muted),
            (&idle, brush.ink.bold(Role::IdleMoney)),
        ],
    );
}

/// The last `span` of a track in whole steps, so that it moves only when a step is full.
pub fn window(facts: &Facts, track: &Track, span: Age, points: usize) -> Vec<Option<f32>> {
    let step = (span.millis() / points.max(1) as u64).max(1) as i64;
    let to = facts.now.millis().div_euclid(step) * step;
    let from = to - step * points as i64;
    facts.history.window(
        track,
        Moment::from_millis(from),
        Moment::from_millis(to),
        points,
    )
}

/// One device with its own trend: what the closest zoom shows.
pub fn device_tile(
    facts: &Facts,
    brush: &mut Brush<'_>,
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
        brush.ground(ground, Role::Selection);
        for y in ground.top()..ground.bottom() {
            brush.sign(area.x, y, "▌", brush.ink.fg(Role::Accent));
        }
    }
    let (x, room) = (area.x + 2, area.width - 2);
    let (sign, role, health) = health_of(device);
    let head = format!("{}", device.index);
    brush.sign(x, area.y, sign, brush.ink.fg(role));
    let used = brush.say(x + 2, area.y, room, &head, Role::Title);
    let class = format!(" {}  {health}", device.class);
    brush.say(
        x + 2 + used,
        area.y,
        room.saturating_sub(2 + used),
        &class,
        Role::Muted,
    );
    let words = |metric: Metric| {
        metric
            .words(device, facts)
            .unwrap_or_else(|| String::from("–"))
    };
    let stale = device.is_stale(facts.now);
    let numbers = if stale { Role::Muted } else { Role::Text };
    if area.height > 1 {
        let line = format!(
            "util {}  mem {}  {}",
            words(Metric::Util),
            words(Metric::Memory),
            words(Metric::Temp)
        );
        brush.say(x, area.y + 1, room, &line, numbers);
    }
    if area.height > 2 {
        let track = Track::DeviceUtil(device.id.clone());
        let past = super::sheet::past(facts, &track, usize::from(room));
        match device.util() {
            // Without a past the present stands alone.
            Some(util) if past.iter().all(Option::is_none) => {
                let role = if stale { Role::Muted } else { Role::Accent };
                bar(brush, x, area.y + 2, room, util, role);
            }
            _ => spark(brush, x, area.y + 2, &past, stale),
        }
    }
    if area.height > 3 {
        let holder = device.first_holder().map_or_else(
            || String::from("free"),
            |(pod, attribution)| format!("{}{}", pod.key(), attribution.mark()),
        );
        brush.say(x, area.y + 3, room, &holder, Role::Muted);
    }
}
