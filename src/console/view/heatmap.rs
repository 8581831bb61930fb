//! The heatmap: every device a cell, grouped and zoomed; what is under the cursor beside it.

use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::base::Name;
use crate::console::brush::Brush;
use crate::console::commands::{Command, Context};
use crate::console::filter::Filter;
use crate::console::listing::{Row, fields, matches};
use crate::console::text::{counted, percent};
use crate::console::theme::{HEAT_LEVELS, Role};
use crate::console::widget::heat::{Ember, Glow, pair, single};
use crate::console::widget::panel::panel;
use crate::fleet::history::FleetSignal;
use crate::report::Facts;

use super::describe::{describe, draw_lines};
use super::glow::{Glows, Metric, Scale, together};
use super::layout::{Grouping, Line, Map, NODE, Plan};
use super::strip::time_strip;
use super::{HEATMAP, Lens, Picked, Place, Turn, View, ViewId, devices};

/// What a cell is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Zoom {
    Nodes,
    Devices,
    OneNode,
}

/// The heatmap's state.
pub struct Heatmap {
    lens: Lens,
    metric: Metric,
    grouping: Grouping,
    scale: Scale,
    by_value: bool,
    /// `None` until the operator or the first fleet decides.
    zoom: Option<Zoom>,
    filter: Option<Filter>,
    faults: bool,
    width: u16,
    height: u16,
    paired: bool,
    map: Map,
    glows: Glows,
    shown: usize,
    total: usize,
    cursor: usize,
    /// The device or node under the cursor, wherever it comes to stand.
    chosen: Option<(Name, u32)>,
    offset: usize,
}

/// Width of the panel beside the map, and from which width on there is one.
const PANEL: u16 = 44;
const PANEL_FROM: u16 = 100;
/// Lines above the map.
const HEAD: u16 = 2;
/// A tile of the one-node zoom.
const TILE: (u16, u16) = (38, 5);

struct Split {
    head: Rect,
    map: Rect,
    panel: Option<Rect>,
    strip: Option<Rect>,
    foot: Option<Rect>,
}

fn split(facts: &Facts, area: Rect) -> Split {
    let strip_height = if facts.history.since().is_some() && area.height >= 26 {
        8
    } else {
        0
    };
    let wide = area.width >= PANEL_FROM && area.height >= 8;
    let foot_height = if !wide && area.height >= 8 { 2 } else { 0 };
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
    Split {
        head: Rect::new(area.x, area.y, area.width, head_height),
        map: Rect::new(area.x + left, y, map_width - left, map_height),
        panel: wide.then(|| Rect::new(area.x + map_width + 1, y, PANEL, map_height)),
        strip: (strip_height > 0)
            .then(|| Rect::new(area.x, y + map_height, area.width, strip_height)),
        foot: (foot_height > 0).then(|| Rect::new(area.x, y + map_height, area.width, foot_height)),
    }
}

impl Heatmap {
    /// A heatmap of this part.
    pub fn new(lens: Lens) -> Self {
        Self {
            lens,
            metric: Metric::default(),
            grouping: Grouping::default(),
            scale: Scale::default(),
            by_value: false,
            zoom: None,
            filter: None,
            faults: false,
            width: 76,
            height: 20,
            paired: true,
            map: Map::default(),
            glows: Glows::default(),
            shown: 0,
            total: 0,
            cursor: 0,
            chosen: None,
            offset: 0,
        }
    }

    fn zoom(&self) -> Zoom {
        self.zoom.unwrap_or(Zoom::Devices)
    }

    fn make(&mut self, facts: &Facts) {
        self.total = facts
            .fleet
            .nodes
            .iter()
            .flat_map(|node| node.devices.iter().map(move |device| (node, device)))
            .filter(|(node, device)| devices::holds(&self.lens, node, device))
            .count();
        if self.zoom.is_none() && self.total > 0 {
            // A fleet of more than two screens begins as nodes.
            let screen = usize::from(self.width) * usize::from(self.height.max(1)) * 2;
            self.zoom = Some(if self.total > screen * 2 {
                Zoom::Nodes
            } else {
                Zoom::Devices
            });
        }
        self.glows = Glows::of(facts, self.metric, self.scale);
        let zoom = self.zoom();
        let only = match (&self.chosen, zoom) {
            (Some((node, _)), Zoom::OneNode) => Some(node.clone()),
            _ => None,
        };
        let metric = self.metric;
        let plan = Plan {
            grouping: if zoom == Zoom::OneNode {
                Grouping::Pool
            } else {
                self.grouping
            },
            width: self.width,
            paired: self.paired && zoom != Zoom::OneNode,
            by_node: zoom == Zoom::Nodes,
        };
        let mut shown = 0usize;
        let counter = std::cell::Cell::new(0usize);
        let (lens, filter, faults) = (&self.lens, self.filter.as_ref(), self.faults);
        self.map = Map::make(
            facts,
            plan,
            |node, device, row: Row| {
                let is = only.as_ref().is_none_or(|only| node.name() == only)
                    && devices::holds(lens, node, device)
                    && (!faults || (devices::KIND.faulty)(facts, row))
                    && filter.is_none_or(|filter| matches(filter, &devices::KIND, facts, row));
                counter.set(counter.get() + usize::from(is));
                is
            },
            |device| metric.of(device, facts),
            self.by_value,
        );
        shown += counter.get();
        self.shown = shown;
        self.find_cursor(facts);
    }

    /// Puts the cursor back on what it stood on; where that has gone, it stays in its place.
    fn find_cursor(&mut self, facts: &Facts) {
        let place = self.chosen.as_ref().and_then(|(node, index)| {
            let at = facts
                .fleet
                .nodes
                .binary_search_by(|known| known.name().cmp(node))
                .ok()?;
            let within = facts.fleet.nodes[at]
                .devices
                .iter()
                .position(|device| device.index == *index);
            let spots = &self.map.spots;
            let exact = within.and_then(|within| {
                spots
                    .iter()
                    .position(|spot| spot.row == (at as u32, within as u32))
            });
            // After a zoom the node stands for the device, or its first device for the node.
            exact.or_else(|| spots.iter().position(|spot| spot.row.0 == at as u32))
        });
        self.cursor = place
            .unwrap_or(self.cursor)
            .min(self.map.spots.len().saturating_sub(1));
        self.choose(facts);
    }

    fn choose(&mut self, facts: &Facts) {
        if let Some(spot) = self.map.spots.get(self.cursor)
            && let Some(node) = facts.fleet.nodes.get(spot.row.0 as usize)
        {
            let index = match node.devices.get(spot.row.1 as usize) {
                Some(device) => device.index,
                None => match &self.chosen {
                    Some((name, index)) if name == node.name() => *index,
                    _ => 0,
                },
            };
            self.chosen = Some((node.name().clone(), index));
        }
        self.offset = self.first();
    }

    /// The first line of the window: the cursor's line is in sight, with its group's head if that fits.
    fn first(&self) -> usize {
        if self.zoom() == Zoom::OneNode {
            return 0;
        }
        let height = usize::from(self.height.max(1));
        let most = self.map.lines.len().saturating_sub(height);
        let line = self.map.line_of(self.cursor).map_or(0, |(line, _)| line);
        let least = (line + 1).saturating_sub(height);
        let head = if line <= 1 { 0 } else { line };
        self.offset.max(least).min(head).min(most)
    }

    fn moved(&mut self, facts: &Facts, command: Command) {
        let page = isize::try_from(self.height.max(2)).unwrap_or(20);
        let last = self.map.spots.len().saturating_sub(1);
        let columns = usize::from((self.width / TILE.0).max(1));
        let in_node = self.zoom() == Zoom::OneNode;
        let cursor = self.cursor;
        self.cursor = match command {
            Command::Left if in_node => cursor.saturating_sub(1),
            Command::Right if in_node => (cursor + 1).min(last),
            Command::Up if in_node => cursor.checked_sub(columns).unwrap_or(cursor),
            Command::Down if in_node => {
                if cursor + columns <= last {
                    cursor + columns
                } else {
                    cursor
                }
            }
            Command::Left => self.map.horizontal(cursor, false),
            Command::Right => self.map.horizontal(cursor, true),
            Command::Up => self.map.vertical(cursor, -1),
            Command::Down => self.map.vertical(cursor, 1),
            Command::PageUp => self.map.vertical(cursor, -page),
            Command::PageDown => self.map.vertical(cursor, page),
            Command::Top => 0,
            _ => last,
        };
        self.choose(facts);
    }

    fn visible(&self) -> &[Line] {
        let from = self.first();
        let to = (from + usize::from(self.height)).min(self.map.lines.len());
        &self.map.lines[from..to]
    }
}

fn next<T: Copy + PartialEq>(all: &[T], now: T) -> T {
    let at = all.iter().position(|known| *known == now).unwrap_or(0);
    all[(at + 1) % all.len()]
}

impl View for Heatmap {
    fn id(&self) -> ViewId {
        ViewId::Devices
    }
    fn trail(&self) -> String {
        self.lens.title()
    }
    fn contexts(&self) -> &'static [Context] {
        HEATMAP
    }

    fn fit(&mut self, facts: &Facts, area: Rect, paired: bool) {
        let map = split(facts, area).map;
        if (map.width, map.height, paired) != (self.width, self.height, self.paired) {
            (self.width, self.height, self.paired) = (map.width, map.height, paired);
            self.make(facts);
        }
    }

    fn refresh(&mut self, facts: &Facts, _settle: bool) {
        self.make(facts);
    }

    fn on(&mut self, command: Command, facts: &Facts, _area: Rect) -> Turn {
        match command {
            Command::Up
            | Command::Down
            | Command::Left
            | Command::Right
            | Command::Top
            | Command::Bottom
            | Command::PageUp
            | Command::PageDown => {
                self.moved(facts, command);
                return Turn::Done;
            }
            Command::Open => {
                return match (self.zoom(), self.picked(facts)) {
                    (Zoom::Nodes, Some(Picked::Node(node))) => {
                        Turn::Go(Place::Part(ViewId::Nodes, Lens::Node(node)))
                    }
                    (_, picked) => picked.map(Place::Facts).into(),
                };
            }
            Command::Metric => self.metric = next(&Metric::ALL, self.metric),
            Command::Group => self.grouping = next(&Grouping::ALL, self.grouping),
            Command::Scale => self.scale = next(&Scale::ALL, self.scale),
            Command::Order => self.by_value = !self.by_value,
            Command::Faults => self.faults = !self.faults,
            Command::ZoomIn => {
                self.zoom = Some(match self.zoom() {
                    Zoom::Nodes => Zoom::Devices,
                    Zoom::Devices | Zoom::OneNode => Zoom::OneNode,
                });
            }
            Command::ZoomOut => {
                self.zoom = Some(match self.zoom() {
                    Zoom::OneNode => Zoom::Devices,
                    Zoom::Devices | Zoom::Nodes => Zoom::Nodes,
                });
            }
            _ => return Turn::NotMine,
        }
        self.make(facts);
        Turn::Done
    }

    fn point(&mut self, facts: &Facts, x: u16, y: u16, area: Rect) -> bool {
        let map = split(facts, area).map;
        if self.zoom() == Zoom::OneNode || x < map.x || y < map.y {
            return false;
        }
        let line = self.first() + usize::from(y - map.y);
        let Some(Line::Cells { top, bottom, .. }) = self.map.lines.get(line) else {
            return false;
        };
        let hit = top
            .clone()
            .chain(bottom.clone())
            .find(|spot| self.map.spots[*spot].x == x - map.x);
        if let Some(spot) = hit {
            self.cursor = spot;
            self.choose(facts);
        }
        hit.is_some()
    }

    fn set_filter(&mut self, words: &str, facts: &Facts) -> Result<(), String> {
        let filter = if words.trim().is_empty() {
            None
        } else {
            Some(Filter::parse(words, &fields(&devices::KIND))?)
        };
        if filter != self.filter {
            self.filter = filter;
            self.make(facts);
        }
        Ok(())
    }
    fn filter(&self) -> &str {
        self.filter.as_ref().map_or("", |filter| &filter.text)
    }
    fn picked(&self, facts: &Facts) -> Option<Picked> {
        let spot = self.map.spots.get(self.cursor)?;
        let node = facts.fleet.nodes.get(spot.row.0 as usize)?;
        if spot.row.1 == NODE {
            return Some(Picked::Node(node.name().clone()));
        }
        let device = node.devices.get(spot.row.1 as usize)?;
        Some(Picked::Device(node.name().clone(), device.index))
    }
    fn counts(&self) -> (usize, usize) {
        (self.shown, self.total)
    }
    fn is_unsettled(&self) -> bool {
        false
    }
    fn faults_only(&self) -> bool {
        self.faults
    }

    fn on_screen(&self, facts: &Facts, _area: Rect) -> Vec<Name> {
        let mut nodes: Vec<u32> = Vec::new();
        for line in self.visible() {
            if let Line::Cells { top, bottom, .. } = line {
                for spot in top.clone().chain(bottom.clone()) {
                    let node = self.map.spots[spot].row.0;
                    if nodes.last() != Some(&node) {
                        nodes.push(node);
                    }
                }
            }
        }
        nodes.sort_unstable();
        nodes.dedup();
        nodes
            .iter()
            .filter_map(|at| facts.fleet.nodes.get(*at as usize))
            .map(|node| node.name().clone())
            .collect()
    }

    fn draw(&self, facts: &Facts, brush: &mut Brush<'_>, area: Rect) {
        let split = split(facts, area);
        self.draw_head(brush, split.head);
        if self.map.spots.is_empty() {
            self.draw_empty(facts, brush, split.map);
        } else if self.zoom() == Zoom::OneNode {
            self.draw_tiles(facts, brush, split.map);
        } else {
            self.draw_map(brush, split.map);
        }
        if let Some(area) = split.panel {
            self.draw_panel(facts, brush, area);
        }
        if let Some(area) = split.foot {
            self.draw_foot(facts, brush, area);
        }
        if let Some(area) = split.strip {
            time_strip(facts, brush, area, FleetSignal::Util);
        }
    }
}

impl Heatmap {
    fn draw_head(&self, brush: &mut Brush<'_>, area: Rect) {
        if area.height == 0 {
            return;
        }
        let (muted, title) = (brush.ink.fg(Role::Muted), brush.ink.fg(Role::Title));
        let accent = brush.ink.bold(Role::Accent);
        let cell = match self.zoom() {
            Zoom::Nodes => "node",
            Zoom::Devices => "device",
            Zoom::OneNode => "one node",
        };
        let order = if self.by_value { "value" } else { "place" };
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
        let used = brush.pieces(area.x + 2, area.y, area.width.saturating_sub(2), &pieces);
        self.draw_legend(brush, area, area.x + 2 + used + 2);
    }

    /// The ramp and the signs, as far as there is room to the right of `from`.
    fn draw_legend(&self, brush: &mut Brush<'_>, area: Rect, from: u16) {
        let (cold, hot) = if self.scale == Scale::Outlier {
            ("as its gang", "apart")
        } else {
            self.metric.ends()
        };
        let signs: [(Glow, &str); 4] = [
            (Glow::Idle, "held, idle"),
            (Glow::Free, "free"),
            (Glow::Fault, "fault"),
            (Glow::Unknown, "unknown"),
        ];
        let ramp = brush.width(cold) + brush.width(hot) + 2 + HEAT_LEVELS as u16;
        let mut room = area.right().saturating_sub(from + 1);
        if room < ramp {
            return;
        }
        room -= ramp;
        let shown: Vec<_> = signs
            .iter()
            .take_while(|(_, words)| {
                let need = brush.width(words) + 4;
                let fits = room >= need;
                room = room.saturating_sub(need);
                fits
            })
            .collect();
        let mut x = area.right()
            - 1
            - ramp
            - shown
                .iter()
                .map(|(_, words)| brush.width(words) + 4)
                .sum::<u16>();
        x += brush.say(x, area.y, 20, cold, Role::Muted) + 1;
        for level in 0..HEAT_LEVELS as u8 {
            let ember = Ember::fresh(Glow::Heat(level));
            if brush.ink.half_blocks() {
                pair(brush, x, area.y, Some(ember), Some(ember));
            } else {
                single(brush, x, area.y, ember);
            }
            x += 1;
        }
        x += 1 + brush.say(x + 1, area.y, 20, hot, Role::Muted);
        for (glow, words) in shown {
            let ember = Ember::fresh(*glow);
            if brush.ink.half_blocks() {
                pair(brush, x + 2, area.y, Some(ember), Some(ember));
            } else {
                single(brush, x + 2, area.y, ember);
            }
            x += 4 + brush.say(x + 4, area.y, 20, words, Role::Muted);
        }
    }

    fn draw_empty(&self, facts: &Facts, brush: &mut Brush<'_>, area: Rect) {
        let words = if self.total > 0 {
            format!(
                "none of {} matches   esc shows everything",
                counted(self.total as u64, "device")
            )
        } else {
            match facts.fleet.known(crate::fleet::observe::Table::Nodes) {
                crate::fleet::Known::Waiting => String::from("reading nodes…"),
                crate::fleet::Known::Lost(lost) => format!("nodes lost: {}", lost.message),
                _ => String::from("no node has an accelerator"),
            }
        };
        brush.say(area.x, area.y, area.width, &words, Role::Muted);
    }

    fn draw_map(&self, brush: &mut Brush<'_>, area: Rect) {
        let from = self.first();
        let cursor = self.map.line_of(self.cursor);
        for (line_at, line) in self.map.lines.iter().enumerate().skip(from) {
            let y = area.y + (line_at - from) as u16;
            if y >= area.bottom() {
                break;
            }
            match line {
                Line::Blank => {}
                Line::Head(group) => self.draw_group(brush, area, y, *group),
                Line::Cells {
                    top,
                    bottom,
                    labels,
                } => {
                    for (x, label) in labels {
                        brush.say(area.x + x, y, 10, label, Role::Muted);
                    }
                    self.draw_cells(brush, area, y, top.clone(), bottom.clone());
                    if let Some((at, lower)) = cursor
                        && at == line_at
                    {
                        self.draw_cursor(brush, area, y, lower);
                    }
                }
            }
        }
        let to = from + usize::from(area.height);
        if to < self.map.lines.len() && area.height > 1 {
            let words = format!(
                " {} more ▾ ",
                counted((self.map.lines.len() - to) as u64, "line")
            );
            let y = area.bottom() - 1;
            brush.right(
                area.right(),
                y,
                area.width,
                &words,
                brush.ink.fg(Role::Muted),
            );
        }
    }

    fn draw_group(&self, brush: &mut Brush<'_>, area: Rect, y: u16, group: usize) {
        let Some(group) = self.map.groups.get(group) else {
            return;
        };
        let names = self.map.groups.iter().map(|group| brush.width(&group.name));
        let column = names.max().unwrap_or(0).min(area.width / 3);
        let mut words = format!("{:>14}", counted(group.devices as u64, "device"));
        if let Some(mean) = group.mean {
            // The ramp's scale of temperature is not what one reads on a thermometer.
            let mean = if self.metric == Metric::Temp {
                format!("{:.0}°", mean * 60.0 + 30.0)
            } else {
                percent(mean)
            };
            words.push_str(&format!("   mean {mean}"));
        }
        brush.say(area.x, y, column, &group.name, Role::Title);
        brush.say(area.x + column, y, area.width - column, &words, Role::Muted);
    }

    fn ember(&self, spot: usize) -> Option<(u16, Ember)> {
        let spot = self.map.spots.get(spot)?;
        let ember = if spot.row.1 == NODE {
            together(self.glows.node(spot.row.0))?
        } else {
            self.glows.device(spot.row.0, spot.row.1)?
        };
        Some((spot.x, ember))
    }

    fn draw_cells(
        &self,
        brush: &mut Brush<'_>,
        area: Rect,
        y: u16,
        top: std::ops::Range<usize>,
        bottom: std::ops::Range<usize>,
    ) {
        let mut above = top.filter_map(|spot| self.ember(spot)).peekable();
        let mut below = bottom.filter_map(|spot| self.ember(spot)).peekable();
        loop {
            let x = match (above.peek(), below.peek()) {
                (Some((a, _)), Some((b, _))) => (*a).min(*b),
                (Some((a, _)), None) => *a,
                (None, Some((b, _))) => *b,
                (None, None) => break,
            };
            let upper = above.next_if(|(at, _)| *at == x).map(|(_, ember)| ember);
            let lower = below.next_if(|(at, _)| *at == x).map(|(_, ember)| ember);
            if x >= area.width {
                continue;
            }
            if self.paired {
                pair(brush, area.x + x, y, upper, lower);
            } else if let Some(ember) = upper {
                single(brush, area.x + x, y, ember);
            }
        }
    }

    /// Brackets in the neighbouring cells: above for an upper device, below for a lower one.
    fn draw_cursor(&self, brush: &mut Brush<'_>, area: Rect, y: u16, lower: bool) {
        let Some(spot) = self.map.spots.get(self.cursor) else {
            return;
        };
        let (left, right) = match (self.paired, lower) {
            (true, false) => ("⌈", "⌉"),
            (true, true) => ("⌊", "⌋"),
            (false, _) => ("[", "]"),
        };
        let style = Style::new().patch(brush.ink.bold(Role::Mark));
        let x = area.x + spot.x;
        let ground = brush.ink.ground(Role::Background);
        if x > 0 {
            brush.sign(x - 1, y, left, style.patch(ground));
        }
        brush.sign(x + 1, y, right, style.patch(ground));
    }

    fn draw_tiles(&self, facts: &Facts, brush: &mut Brush<'_>, area: Rect) {
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
            let Some((_, device)) = devices::device(facts, spot.row) else {
                continue;
            };
            let x = area.x + (at % columns) as u16 * width;
            let y = area.y + (at / columns - first) as u16 * height;
            let tile = Rect::new(x, y, width - 1, height.min(area.bottom().saturating_sub(y)));
            super::strip::device_tile(facts, brush, tile, device, at == self.cursor);
        }
    }

    fn draw_panel(&self, facts: &Facts, brush: &mut Brush<'_>, area: Rect) {
        let Some(picked) = self.picked(facts) else {
            return;
        };
        if let Some(sheet) = describe(facts, &picked, brush) {
            let none = Rect::new(0, 0, area.width - 4, 0);
            let lines = draw_lines(brush, none, &sheet.lines, 0) as u16;
            let height = area.height.min(lines.saturating_add(2));
            let inside = panel(brush, Rect { height, ..area }, &sheet.title, &sheet.note);
            draw_lines(brush, inside, &sheet.lines, 0);
        }
    }

    /// The panel in two lines, where there is no room for it.
    fn draw_foot(&self, facts: &Facts, brush: &mut Brush<'_>, area: Rect) {
        let Some(picked) = self.picked(facts) else {
            return;
        };
        let mut first = picked.name();
        let mut second = String::new();
        if let Some(spot) = self.map.spots.get(self.cursor)
            && let Some((_, device)) = devices::device(facts, spot.row)
        {
            for metric in [Metric::Util, Metric::Memory, Metric::Temp] {
                if let Some(words) = metric.words(device, facts) {
                    first.push_str(&format!("  {} {words}", short(metric)));
                }
            }
            let (_, _, health) = devices::health_of(device);
            first.push_str(&format!("  {health}"));
            second = match device.first_holder() {
                Some((pod, attribution)) => format!(
                    "{}{}  team {}  job {}",
                    pod.key(),
                    attribution.mark(),
                    pod.team,
                    pod.job.key.name
                ),
                None => String::from("free"),
            };
        }
        brush.say(area.x + 2, area.y, area.width - 2, &first, Role::Title);
        brush.say(area.x + 2, area.y + 1, area.width - 2, &second, Role::Muted);
    }
}

const fn short(metric: Metric) -> &'static str {
    match metric {
        Metric::Util => "util",
        Metric::Memory => "mem",
        Metric::Temp => "temp",
        _ => metric.name(),
    }
}
