//! How the heatmap is drawn: legend, map, cursor, tiles, and what is under the cursor.

use ratatui::layout::Rect;

use crate::painter::Painter;
use crate::text::counted;
use crate::theme::HEAT_LEVELS;
use crate::widget::heat::{HeatCell, HeatLevel, pair, single};
use model::fleet::TableState;
use model::fleet::history::FleetSignal;
use model::fleet::observe::Table;
use table::Facts;
use table::role::Role;
use table::text::whole_percent;

use super::describe::{describe, draw_lines, draw_panel};
use super::device_heat::{HeatMetric, Scale, together};
use super::heatmap::Heatmap;
use super::layout::{HeatmapCell, MapLine, NODE, Zoom};
use super::sparkline_strip::time_strip;
use super::view_trait::View;

/// Width of the panel beside the map, and from which width on there is one.
const PANEL: u16 = 44;
const PANEL_FROM: u16 = 100;
/// A device that lies nearer to the median of its gang is no outlier, a share of the whole range.
pub(super) const APART: f64 = table::rows::gangs::NEAR_MEDIAN;
/// Lines above the map.
const HEAD: u16 = 2;
/// A tile of the one-node zoom.
pub(super) const TILE: (u16, u16) = (38, 5);

/// The areas of the view's parts.
pub(super) struct HeatmapAreas {
    head: Rect,
    pub(super) map: Rect,
    panel: Option<Rect>,
    strip: Option<Rect>,
    foot: Option<Rect>,
}

/// Head above, panel beside, foot or strip below, the map in what is left.
pub(super) fn split(facts: &Facts, area: Rect, scale: Scale) -> HeatmapAreas {
    let strip_height = if facts.history.since().is_some() && area.height >= 26 {
        8
    } else {
        0
    };
    let wide = area.width >= PANEL_FROM && area.height >= 8;
    let foot_height = match scale {
        _ if wide || area.height < 8 => 0,
        // Which device is furthest from its gang is a sentence of its own.
        Scale::Outlier => 3,
        Scale::Absolute | Scale::Relative => 2,
    };
    let head_height = HEAD.min(area.height);
    let map_height = area
        .height
        .saturating_sub(head_height + strip_height + foot_height);
    let map_width = if wide {
        area.width - PANEL - 1
    } else {
        area.width
    };
    let y = area.y + head_height;
    let left = 2.min(map_width);
    HeatmapAreas {
        head: Rect::new(area.x, area.y, area.width, head_height),
        map: Rect::new(area.x + left, y, map_width - left, map_height),
        panel: wide.then(|| Rect::new(area.x + map_width + 1, y, PANEL, map_height)),
        strip: (strip_height > 0)
            .then(|| Rect::new(area.x, y + map_height, area.width, strip_height)),
        foot: (foot_height > 0).then(|| Rect::new(area.x, y + map_height, area.width, foot_height)),
    }
}

impl Heatmap {
    /// Draws the whole view.
    pub(super) fn paint(&self, facts: &Facts, painter: &mut Painter<'_>, area: Rect) {
        let split = split(facts, area, self.scale);
        let is_stated = self.draw_head(facts, painter, split.head);
        if self.map.spots.is_empty() {
            self.draw_empty(facts, painter, split.map);
        } else if self.zoom() == Zoom::OneNode {
            self.draw_tiles(facts, painter, split.map);
        } else {
            self.draw_map(facts, painter, split.map);
        }
        if let Some(area) = split.panel {
            self.draw_panel(facts, painter, area);
        }
        if let Some(area) = split.foot {
            self.draw_foot(facts, painter, area, is_stated);
        }
        if let Some(area) = split.strip {
            time_strip(facts, painter, area, FleetSignal::Util);
        }
    }

    /// True where there was room to say where the metric is highest.
    fn draw_head(&self, facts: &Facts, painter: &mut Painter<'_>, area: Rect) -> bool {
        if area.height == 0 {
            return false;
        }
        let (muted, title) = (
            painter.render_style.fg(Role::Muted),
            painter.render_style.fg(Role::Title),
        );
        let accent = painter.render_style.bold(Role::Accent);
        let cell = match self.zoom() {
            Zoom::Nodes => "node",
            Zoom::Devices => "device",
            Zoom::OneNode => "one node",
        };
        let order = match self.scale {
            Scale::Outlier => "outliers first",
            Scale::Absolute | Scale::Relative => "highest first",
        };
        let wide = area.width >= 130;
        let gap = if wide { "    " } else { "  " };
        let mut pieces = vec![
            ("metric ", muted),
            (self.metric.name(), accent),
            (gap, muted),
            ("group ", muted),
            (self.grouping.name(), title),
            (gap, muted),
            ("scale ", muted),
            (self.scale.name(), title),
            (gap, muted),
            ("cell ", muted),
            (cell, title),
        ];
        if self.by_value {
            pieces.extend([(gap, muted), ("order ", muted), (order, title)]);
        }
        let used = painter.pieces(area.x + 2, area.y, area.width.saturating_sub(2), &pieces);
        let from = area.x + 2 + used + 2;
        let beside = self.draw_legend(painter, area, from, 3);
        if area.height < 2 {
            return false;
        }
        let below = Rect::new(area.x, area.y + 1, area.width, 1);
        let most = self.most_words(facts);
        if !beside {
            // Rather without its last sign than without these words.
            let after = area.x + 4 + painter.width(&most);
            if !self.draw_legend(painter, below, after, 3) {
                self.draw_legend(painter, below, area.x + 2, 0);
            }
        }
        // The legend is drawn first; the text gets the columns that are left before it.
        let free = (area.left() + 2..area.right())
            .take_while(|x| painter.buf[(*x, below.y)].symbol() == " ")
            .count();
        let width = painter.width(&most);
        let fits = width > 0 && usize::from(width) + 1 < free;
        if fits {
            painter.text_in_role(area.x + 2, below.y, width, &most, Role::Muted);
        }
        fits
    }

    /// Where the metric is highest, on average over a rack; for outliers which device is furthest from its gang.
    fn most_words(&self, facts: &Facts) -> String {
        let Some((place, mean)) = &self.most else {
            let metric = self.metric.name();
            return match (table::no_readings(facts), self.scale) {
                (Some(why), _) => format!("{metric} unknown: {why}"),
                (None, Scale::Outlier) => format!(
                    "no straggler by {metric}: no device stays {} from its gang's median",
                    self.points(APART)
                ),
                _ => String::new(),
            };
        };
        if self.scale == Scale::Outlier {
            if mean.abs() < APART {
                return format!("straggler (alert): {place}");
            }
            let side = if *mean < 0.0 { "below" } else { "above" };
            let apart = self.points(mean.abs());
            // In a gang the slow device keeps working while the others wait for it.
            if matches!(self.metric, HeatMetric::Util) && *mean >= 0.0 {
                return format!(
                    "likely straggler: {place} works while its gang waits ({apart} above)"
                );
            }
            return format!("outlier: {place}, {apart} {side} its gang's median");
        }
        let (word, value) = match self.metric {
            HeatMetric::Temp => ("hottest", format!("{:.0}°", mean * 60.0 + 30.0)),
            HeatMetric::Util | HeatMetric::Tensor | HeatMetric::Dram => {
                ("busiest", whole_percent(*mean))
            }
            HeatMetric::Memory => ("fullest", whole_percent(*mean)),
            HeatMetric::Power => ("thirstiest", whole_percent(*mean)),
        };
        format!("{word} {place}, mean {value}")
    }

    /// A difference of the metric, a share of the whole range, in the unit that is shown.
    fn points(&self, apart: f64) -> String {
        match self.metric {
            HeatMetric::Temp => format!("{:.0}°", apart * 60.0),
            _ => counted((apart * 100.0).round() as u64, "point"),
        }
    }

    /// Draws the ramp and as many signs as fit to the right of `from`. Draws nothing and returns false where fewer than `least` signs fit.
    fn draw_legend(&self, painter: &mut Painter<'_>, area: Rect, from: u16, least: usize) -> bool {
        let (cold, hot) = match self.scale {
            Scale::Outlier => ("as its gang", "apart"),
            Scale::Relative => ("the lowest", "the highest"),
            Scale::Absolute => self.metric.ends(),
        };
        let idle = [(HeatLevel::Idle, "idle alloc")];
        let signs = idle.iter().chain(&HeatLevel::LEGEND);
        let ramp = painter.width(cold) + painter.width(hot) + 2 + HEAT_LEVELS as u16;
        let mut room = area.right().saturating_sub(from + 1);
        if room < ramp {
            return false;
        }
        room -= ramp;
        let shown: Vec<_> = signs
            // Only utilization shows idle devices.
            .filter(|(heat, _)| *heat != HeatLevel::Idle || self.metric == HeatMetric::Util)
            .take_while(|(_, words)| {
                let need = painter.width(words) + 4;
                let fits = room >= need;
                room = room.saturating_sub(need);
                fits
            })
            .collect();
        if shown.len() < least {
            return false;
        }
        let mut x = area.right()
            - 1
            - ramp
            - shown
                .iter()
                .map(|(_, words)| painter.width(words) + 4)
                .sum::<u16>();
        x += painter.text_in_role(x, area.y, 20, cold, Role::Muted) + 1;
        for level in 0..HEAT_LEVELS as u8 {
            let cell = HeatCell::fresh(HeatLevel::Heat(level));
            if painter.render_style.half_blocks() {
                pair(painter, x, area.y, Some(cell), Some(cell));
            } else {
                single(painter, x, area.y, cell);
            }
            x += 1;
        }
        x += 1 + painter.text_in_role(x + 1, area.y, 20, hot, Role::Muted);
        for (heat, words) in shown {
            let cell = HeatCell::fresh(*heat);
            if painter.render_style.half_blocks() {
                pair(painter, x + 2, area.y, Some(cell), Some(cell));
            } else {
                single(painter, x + 2, area.y, cell);
            }
            x += 4 + painter.text_in_role(x + 4, area.y, 20, words, Role::Muted);
        }
        true
    }

    fn draw_empty(&self, facts: &Facts, painter: &mut Painter<'_>, area: Rect) {
        let words = if self.total > 0 {
            format!(
                "none of {} matches  ·  esc shows everything",
                counted(self.total as u64, "device")
            )
        } else {
            match facts.fleet.visibility(Table::Nodes) {
                TableState::NotVisible(_) => format!(
                    "nodes are not visible to you: {}",
                    facts.fleet.rights_help()
                ),
                TableState::Waiting => String::from("reading nodes…"),
                TableState::Lost(lost) => format!("nodes unreachable: {}", lost.message),
                _ => facts.none_in_scope("no node has an accelerator"),
            }
        };
        painter.text_in_role(area.x, area.y, area.width, &words, Role::Muted);
    }

    fn draw_map(&self, facts: &Facts, painter: &mut Painter<'_>, area: Rect) {
        let from = self.first();
        let cursor = self.map.line_of(self.cursor);
        let hidden = self
            .map
            .lines
            .len()
            .saturating_sub(from + usize::from(area.height));
        let notice = hidden > 0 && area.height > 1;
        let bottom = area.bottom() - u16::from(notice);
        for (line_at, line) in self.map.lines.iter().enumerate().skip(from) {
            let y = area.y + (line_at - from) as u16;
            if y >= bottom {
                break;
            }
            match line {
                MapLine::Blank => {}
                MapLine::Head(group) => {
                    let used = self.draw_group(painter, area, y, *group);
                    self.draw_ruler(painter, area, y, line_at + 1, used);
                }
                MapLine::Cells {
                    top,
                    bottom,
                    labels,
                    head,
                } => {
                    if let Some(group) = head {
                        self.draw_group(painter, area, y, *group);
                    }
                    for (x, label) in labels {
                        painter.text_in_role(area.x + x, y, 10, label, Role::Muted);
                    }
                    self.draw_cells(painter, area, y, top.clone(), bottom.clone());
                    self.draw_nodes(facts, painter, area, y, line_at);
                    if let Some((at, lower)) = cursor
                        && at == line_at
                    {
                        self.draw_cursor(painter, area, y, lower);
                    }
                }
            }
        }
        if notice {
            let words = format!(" {} more ▾ ", counted(hidden as u64 + 1, "line"));
            let y = area.bottom() - 1;
            painter.text_right(
                area.right(),
                y,
                area.width,
                &words,
                painter.render_style.fg(Role::Muted),
            );
        }
    }

    /// Draws the heading of a group; returns the cells used.
    fn draw_group(&self, painter: &mut Painter<'_>, area: Rect, y: u16, at: usize) -> u16 {
        let Some(group) = self.map.groups.get(at) else {
            return 0;
        };
        let column = self.map.names;
        let mut words = format!("{:>14}", counted(group.devices as u64, "device"));
        if let Some(mean) = self.means.get(at).copied().flatten() {
            // Show degrees Celsius, not the ramp's scale.
            let mean = if self.metric == HeatMetric::Temp {
                format!("{:.0}°", mean * 60.0 + 30.0)
            } else {
                whole_percent(mean)
            };
            words.push_str(&format!("   mean {mean}"));
        }
        painter.text_in_role(area.x, y, column, &group.name, Role::Title);
        let room = area.width - column;
        column + painter.text_in_role(area.x + column, y, room, &words, Role::Muted)
    }

    /// Numbers the nodes of each rack of the line below, from 1, where the heading leaves room.
    fn draw_ruler(&self, painter: &mut Painter<'_>, area: Rect, y: u16, below: usize, used: u16) {
        let Some(MapLine::Cells { top, labels, .. }) = self.map.lines.get(below) else {
            return;
        };
        // Sorted by value, the tiles are not nodes.
        if self.by_value {
            return;
        }
        let mut free = used + 2;
        let (mut node, mut number, mut racks) = (None, 0u32, 0);
        for spot in &self.map.spots[top.clone()] {
            let rack = labels.iter().filter(|(x, _)| *x <= spot.x).count();
            if rack != racks {
                (node, number, racks) = (None, 0, rack);
            }
            if node.replace(spot.row.0) == Some(spot.row.0) {
                continue;
            }
            number += 1;
            let words = number.to_string();
            let end = spot.x.saturating_add(words.len() as u16);
            // Where a cell is a node, every tenth has its number.
            let is_due = self.zoom() == Zoom::Devices || number % 10 == 0;
            if is_due && spot.x >= free && end <= area.width {
                painter.text_in_role(area.x + spot.x, y, end - spot.x, &words, Role::Muted);
                free = end + 1;
            }
        }
    }

    /// Names the first and the last node of a rack's line to the right of it, where there is room.
    fn draw_nodes(
        &self,
        facts: &Facts,
        painter: &mut Painter<'_>,
        area: Rect,
        y: u16,
        line_at: usize,
    ) {
        let mut above = self.map.lines[..=line_at].iter().rev();
        // Racks side by side have no room for names of their own.
        let racks = above.find_map(|line| match line {
            MapLine::Cells { labels, .. } if labels.is_empty() => None,
            MapLine::Cells { labels, .. } => Some(labels.len()),
            MapLine::Head(_) | MapLine::Blank => Some(1),
        });
        let Some(MapLine::Cells { top, bottom, .. }) = self.map.lines.get(line_at) else {
            return;
        };
        if self.by_value || racks.is_some_and(|racks| racks > 1) {
            return;
        }
        let spots: Vec<&HeatmapCell> = (top.clone().chain(bottom.clone()))
            .filter_map(|spot| self.map.spots.get(spot))
            .collect();
        let name = |spot: &&HeatmapCell| {
            let node = facts.fleet.nodes.get(spot.row.0 as usize)?;
            Some(node.name().clone())
        };
        let ends = (spots.first().and_then(name), spots.last().and_then(name));
        let (Some(first), Some(last)) = ends else {
            return;
        };
        let words = match first == last {
            true => first.to_string(),
            false => format!("{first} to {last}"),
        };
        // Beside the last cell is the cursor's bracket.
        let x = spots
            .iter()
            .map(|spot| spot.x.saturating_add(3))
            .max()
            .unwrap_or(0);
        let width = painter.width(&words);
        if x.saturating_add(width) <= area.width {
            painter.text_in_role(area.x + x, y, width, &words, Role::Muted);
        }
    }

    fn cell(&self, spot: usize) -> Option<(u16, HeatCell)> {
        let spot = self.map.spots.get(spot)?;
        let cell = if spot.row.1 == NODE {
            together(self.glows.node(spot.row.0))?
        } else {
            self.glows.device(spot.row.0, spot.row.1)?
        };
        Some((spot.x, cell))
    }

    fn draw_cells(
        &self,
        painter: &mut Painter<'_>,
        area: Rect,
        y: u16,
        top: std::ops::Range<usize>,
        bottom: std::ops::Range<usize>,
    ) {
        let mut above = top.filter_map(|spot| self.cell(spot)).peekable();
        let mut below = bottom.filter_map(|spot| self.cell(spot)).peekable();
        loop {
            let x = match (above.peek(), below.peek()) {
                (Some((a, _)), Some((b, _))) => (*a).min(*b),
                (Some((a, _)), None) => *a,
                (None, Some((b, _))) => *b,
                (None, None) => break,
            };
            let upper = above.next_if(|(at, _)| *at == x).map(|(_, cell)| cell);
            let lower = below.next_if(|(at, _)| *at == x).map(|(_, cell)| cell);
            if x >= area.width {
                continue;
            }
            if self.paired {
                pair(painter, area.x + x, y, upper, lower);
            } else if let Some(cell) = upper {
                single(painter, area.x + x, y, cell);
            }
        }
    }

    /// Brackets in the neighboring cells, on the background of a selection: above for an upper device, below for a lower one.
    fn draw_cursor(&self, painter: &mut Painter<'_>, area: Rect, y: u16, lower: bool) {
        let Some(spot) = self.map.spots.get(self.cursor) else {
            return;
        };
        let (left, right) = match (self.paired, lower) {
            (true, false) => ("⌈", "⌉"),
            (true, true) => ("⌊", "⌋"),
            (false, _) => ("[", "]"),
        };
        let style = painter.render_style.bold(Role::Mark);
        let x = area.x + spot.x;
        let ground = painter.render_style.background(Role::Selection);
        if x > 0 {
            painter.sign(x - 1, y, left, style.patch(ground));
        }
        painter.sign(x + 1, y, right, style.patch(ground));
    }

    fn draw_tiles(&self, facts: &Facts, painter: &mut Painter<'_>, area: Rect) {
        let (width, height) = TILE;
        let columns = usize::from((area.width / width).max(1));
        let fit = usize::from((area.height / height).max(1));
        let row = self.cursor / columns;
        let first = (row + 1).saturating_sub(fit);
        for (at, spot) in self
            .map
            .spots
            .iter()
            .enumerate()
            .skip(first * columns)
            .take(fit * columns)
        {
            let Some((_, device)) = table::kinds::devices::device(facts, spot.row) else {
                continue;
            };
            let x = area.x + (at % columns) as u16 * width;
            let y = area.y + (at / columns - first) as u16 * height;
            let tile = Rect::new(x, y, width - 1, height.min(area.bottom().saturating_sub(y)));
            super::sparkline_strip::device_tile(facts, painter, tile, device, at == self.cursor);
        }
    }

    fn draw_panel(&self, facts: &Facts, painter: &mut Painter<'_>, area: Rect) {
        let Some(selection) = self.selection(facts) else {
            return;
        };
        if let Some(table) = describe(facts, &selection, painter) {
            let none = Rect::new(0, 0, area.width - 4, 0);
            let lines = draw_lines(painter, none, &table.lines, 0) as u16;
            let height = area.height.min(lines.saturating_add(2));
            draw_panel(painter, Rect { height, ..area }, &table, false);
        }
    }

    /// The panel in two lines, where there is no room for it.
    fn draw_foot(&self, facts: &Facts, painter: &mut Painter<'_>, area: Rect, is_stated: bool) {
        let Some(selection) = self.selection(facts) else {
            return;
        };
        let mut first = selection.title(facts);
        let mut second = String::new();
        if let Some(spot) = self.map.spots.get(self.cursor)
            && let Some((_, device)) = table::kinds::devices::device(facts, spot.row)
        {
            let metrics: &[HeatMetric] = match self.scale {
                Scale::Outlier => &[self.metric],
                Scale::Absolute | Scale::Relative => {
                    &[HeatMetric::Util, HeatMetric::Memory, HeatMetric::Temp]
                }
            };
            for metric in metrics {
                if let Some(words) = metric.words(device, facts) {
                    first.push_str(&format!("  {} {words}", short(*metric)));
                }
            }
            let (node, at) = spot.row;
            if let (Scale::Outlier, Some(above)) = (self.scale, self.glows.above(node, at)) {
                let side = if above < 0.0 { "below" } else { "above" };
                let apart = self.points(above.abs());
                first.push_str(&format!("  {apart} {side} its gang's median"));
            }
            let (_, _, health) = table::kinds::devices::health_of(device);
            first.push_str(&format!("  {health}"));
            second = match facts.first_holder(device) {
                Some((pod, attribution)) => format!(
                    "{}{}  team {}  job {}",
                    pod.key(),
                    attribution.mark(),
                    pod.team,
                    pod.job.key.name
                ),
                None => match self.glows.device(node, at).map(|cell| cell.heat) {
                    Some(HeatLevel::Unusable) => String::from("free, not usable"),
                    _ => String::from("free"),
                },
            };
        }
        painter.text_in_role(area.x + 2, area.y, area.width - 2, &first, Role::Title);
        painter.text_in_role(area.x + 2, area.y + 1, area.width - 2, &second, Role::Muted);
        if area.height > 2 && !is_stated {
            let most = self.most_words(facts);
            painter.text_in_role(area.x + 2, area.y + 2, area.width - 2, &most, Role::Info);
        }
    }
}

const fn short(metric: HeatMetric) -> &'static str {
    match metric {
        HeatMetric::Util => "util",
        HeatMetric::Memory => "mem",
        HeatMetric::Temp => "temp",
        _ => metric.name(),
    }
}
