//! The heatmap: every device a cell, grouped and zoomed; what is under the cursor beside it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ratatui::layout::Rect;

use crate::commands::{Command, Context};
use crate::filter::RowFilter;
use crate::painter::Painter;
use crate::table_model::{fields, matches};
use model::base::{Name, SmallSort};
use model::fleet::history::Track;
use model::fleet::job::JobState;
use table::kinds::devices;
use table::navigation::{Destination, RowScope, Selection, ViewId};
use table::{Facts, column::Row};

use super::device_heat::{DeviceHeats, HeatMetric, Scale};
use super::heatmap_draw::{APART, TILE, split};
use super::layout::{Grouping, HeatmapLayout, HeatmapOptions, MapLine, NODE, Zoom};
use super::view_trait::{CommandOutcome, HEATMAP, View};

pub struct Heatmap {
    row_scope: RowScope,
    pub(super) metric: HeatMetric,
    pub(super) grouping: Grouping,
    pub(super) scale: Scale,
    pub(super) by_value: bool,
    /// `None` until the operator or the first fleet decides.
    zoom: Option<Zoom>,
    filter: Option<RowFilter>,
    faults: bool,
    width: u16,
    height: u16,
    pub(super) paired: bool,
    pub(super) map: HeatmapLayout,
    pub(super) glows: DeviceHeats,
    /// Mean of the metric of each group, where known.
    pub(super) means: Vec<Option<f64>>,
    /// The rack (where racks are known, else the group) with the highest mean, and that mean; for outliers the device that
    /// holds up its gang, or is furthest from it, and how far.
    pub(super) most: Option<(String, f64)>,
    /// That device, for outliers.
    furthest: Option<Row>,
    /// The cursor stays on that device, until it is moved.
    follows: bool,
    /// What the map was made of, while it shows everything by place.
    made_of: Option<u64>,
    shown: usize,
    pub(super) total: usize,
    pub(super) cursor: usize,
    /// The device or node under the cursor, wherever it is drawn.
    chosen: Option<(Name, u32)>,
    offset: usize,
}

/// A lasting outlier has been one for this long, on average.
const LASTING: Duration = Duration::from_secs(300);
/// This many of the furthest devices are checked for one whose job has settled.
const TRIED: usize = 256;

/// False while the job on a device is starting, or ended its start only some minutes ago: until then its pods differ anyway.
fn has_settled(facts: &Facts, row: Row) -> bool {
    let device = devices::device(facts, row).map(|(_, device)| device);
    let job = device.and_then(|device| facts.fleet.job(&facts.first_holder(device)?.0.job));
    let Some(job) = job else { return true };
    let begun = job.pods.iter().filter_map(|pod| pod.seen.started).max();
    let is_young = begun.is_some_and(|at| facts.now.since(at) < LASTING.into());
    job.state == JobState::Running && !is_young && job.pods.iter().all(|pod| pod.seen.ready)
}

impl Heatmap {
    /// A heatmap of this part.
    pub fn new(row_scope: RowScope) -> Self {
        Self {
            row_scope,
            metric: HeatMetric::default(),
            grouping: Grouping::default(),
            scale: Scale::default(),
            by_value: false,
            zoom: None,
            filter: None,
            faults: false,
            width: 76,
            height: 20,
            paired: true,
            map: HeatmapLayout::default(),
            glows: DeviceHeats::default(),
            means: Vec::new(),
            most: None,
            furthest: None,
            follows: false,
            made_of: None,
            shown: 0,
            total: 0,
            cursor: 0,
            chosen: None,
            offset: 0,
        }
    }

    pub(super) fn zoom(&self) -> Zoom {
        self.zoom.unwrap_or(Zoom::Devices)
    }

    fn relayout(&mut self, facts: &Facts) {
        self.glows.update(facts, self.metric, self.scale);
        let made_of = self.made_of(facts);
        let by_place = self.filter.is_none() && !self.faults && !self.by_value;
        if !by_place || self.made_of != Some(made_of) {
            self.lay_out(facts);
            self.made_of = by_place.then(|| self.made_of(facts));
        }
        self.means = self
            .map
            .groups
            .iter()
            .map(|group| {
                let spots = &self.map.spots[group.spots.clone()];
                let (sum, count) = spots.iter().fold((0.0, 0), |(sum, count), spot| {
                    let (more, known) = self.glows.sum(spot.row.0, spot.row.1);
                    (sum + more, count + known)
                });
                (count > 0).then(|| sum / f64::from(count))
            })
            .collect();
        let furthest = match self.scale {
            Scale::Outlier => self.furthest(facts),
            Scale::Absolute | Scale::Relative => None,
        };
        self.furthest = furthest.map(|(row, _)| row);
        self.most = match self.scale {
            Scale::Outlier => furthest.and_then(|(row, apart)| {
                let (_, device) = devices::device(facts, row)?;
                let above = self.glows.above(row.0, row.1).unwrap_or(apart);
                Some((device.id.to_string(), above))
            }),
            Scale::Absolute | Scale::Relative => self.highest(facts),
        };
        if self.follows {
            self.choose_furthest(facts);
        }
        self.find_cursor(facts);
    }

    fn highest(&self, facts: &Facts) -> Option<(String, f64)> {
        let mut racks: BTreeMap<(&Name, &Name), (f64, u32)> = BTreeMap::new();
        for spot in &self.map.spots {
            let node = facts.fleet.nodes.get(spot.row.0 as usize)?;
            let Some(rack) = &node.rack else { continue };
            let (sum, count) = self.glows.sum(spot.row.0, spot.row.1);
            let entry = racks.entry((&node.pool, rack)).or_default();
            *entry = (entry.0 + sum, entry.1 + count);
        }
        let mean = |(sum, count): (f64, u32)| (count > 0).then(|| sum / f64::from(count));
        let rack = racks
            .into_iter()
            .filter_map(|((pool, rack), sums)| Some((format!("{rack} of {pool}"), mean(sums)?)))
            .max_by(|a, b| a.1.total_cmp(&b.1));
        rack.or_else(|| {
            let groups = self.map.groups.iter().zip(&self.means);
            groups
                .filter_map(|(group, mean)| Some((group.name.to_string(), (*mean)?)))
                .max_by(|a, b| a.1.total_cmp(&b.1))
        })
    }

    /// The device of a straggler finding, else the one furthest from the median of its gang, if by [`APART`] or more.
    fn furthest(&self, facts: &Facts) -> Option<(Row, f64)> {
        let stragglers: BTreeSet<&Name> = facts
            .fleet
            .findings
            .iter()
            .filter(|finding| finding.code.as_str() == "straggler")
            .map(|finding| &finding.subject.key.name)
            .collect();

        let devices = self.map.spots.iter().flat_map(|spot| {
            let (node, device) = spot.row;
            let count = facts.fleet.nodes.get(node as usize);
            let count = count.map_or(0, |node| node.devices.len() as u32);
            let all = if device == NODE {
                0..count
            } else {
                device..device + 1
            };
            all.map(move |device| (node, device))
        });
        let ranked = devices
            .filter_map(|(node, device)| Some(((node, device), self.glows.rank(node, device)?)));
        // Runs of a sweep have no pace in common, whatever one of them does for a moment.
        let counts = |row: Row| {
            let device = devices::device(facts, row).map(|(_, device)| device);
            let job = device.and_then(|device| facts.fleet.job(&facts.first_holder(device)?.0.job));
            (
                device.is_some_and(|device| stragglers.contains(&device.id)),
                job.is_some_and(|job| job.is_gang()),
            )
        };
        let mut ranked: Vec<_> = ranked
            .map(|(row, apart)| (counts(row), row, apart))
            .filter(|((alerted, _), row, _)| *alerted || has_settled(facts, *row))
            .collect();
        let furthest_first = |a: &((bool, bool), Row, f64), b: &((bool, bool), Row, f64)| {
            (b.0.cmp(&a.0))
                .then(b.2.total_cmp(&a.2))
                .then(a.1.cmp(&b.1))
        };
        if ranked.len() > TRIED {
            ranked.select_nth_unstable_by(TRIED, furthest_first);
            ranked.truncate(TRIED);
        }
        ranked.small_sort_by(furthest_first);
        // Every device pauses for a moment now and then.
        let mut tried = ranked.into_iter();
        let lasting = tried.find(|((alerted, _), row, _)| *alerted || self.lasts(facts, *row));
        let apart = lasting.filter(|((alerted, _), _, apart)| *alerted || *apart >= APART);
        apart.map(|(_, row, apart)| (row, apart))
    }

    /// True where a device has been apart from its gang's present median for some minutes, on the whole; also where that is not known.
    fn lasts(&self, facts: &Facts, row: Row) -> bool {
        let known = devices::device(facts, row).map(|(_, device)| device);
        let apart = self.glows.above(row.0, row.1);
        let (HeatMetric::Util, Some(device), Some(apart)) = (self.metric, known, apart) else {
            return true;
        };
        let Some(util) = device.util() else {
            return true;
        };
        let track = Track::DeviceUtil(device.id.clone());
        let span = (facts.now.minus(LASTING), facts.now);
        let since = device.held_since();
        let window = facts.history.window_since(&track, span, since, 1);
        window.into_iter().flatten().next().is_none_or(|mean| {
            let was = f64::from(mean) - (util - apart);
            was * apart.signum() >= apart.abs() / 2.0
        })
    }

    /// Puts the cursor on the device that is furthest from its gang.
    fn choose_furthest(&mut self, facts: &Facts) {
        if let Some(row) = self.furthest
            && let Some((node, device)) = devices::device(facts, row)
        {
            self.chosen = Some((node.name().clone(), device.index));
        }
    }

    /// What the map of all devices by place depends on, as a number: while it stays, so does the map.
    fn made_of(&self, facts: &Facts) -> u64 {
        use std::hash::{Hash, Hasher};
        let mut hasher = rustc_hash::FxHasher::default();
        let zoom = self.zoom.map(|zoom| zoom as u8);
        (zoom, self.grouping as u8, self.width, self.paired).hash(&mut hasher);
        if self.zoom() == Zoom::OneNode {
            self.chosen.as_ref().map(|(node, _)| node).hash(&mut hasher);
        }
        let holders = matches!(
            self.grouping,
            Grouping::Queue | Grouping::Job | Grouping::Team
        ) || matches!(
            self.row_scope,
            RowScope::Job(_) | RowScope::Team(_) | RowScope::Queue(_)
        ) || facts.part.is_some();
        facts
            .part
            .as_ref()
            .map(|part| &part.scope)
            .hash(&mut hasher);
        for node in facts.fleet.nodes.iter() {
            (node.name(), &node.pool, &node.rack, node.devices.len()).hash(&mut hasher);
            match self.grouping {
                Grouping::Domain => node.clique.hash(&mut hasher),
                Grouping::Zone => node.zone.hash(&mut hasher),
                _ if holders => {
                    for device in &node.devices {
                        let pod = facts
                            .first_holder(device)
                            .map(|(pod, _)| std::sync::Arc::as_ptr(pod));
                        pod.hash(&mut hasher);
                    }
                }
                _ => {}
            }
        }
        hasher.finish()
    }

    fn lay_out(&mut self, facts: &Facts) {
        self.total = facts
            .fleet
            .nodes
            .iter()
            .flat_map(|node| node.devices.iter().map(move |device| (node, device)))
            .filter(|(node, device)| {
                devices::in_scope(&self.row_scope, node, device) && facts.has_device(device)
            })
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
        let zoom = self.zoom();
        let only = match (&self.chosen, zoom) {
            (Some((node, _)), Zoom::OneNode) => Some(node.clone()),
            _ => None,
        };
        let plan = HeatmapOptions {
            grouping: if zoom == Zoom::OneNode {
                Grouping::Pool
            } else {
                self.grouping
            },
            width: self.width,
            paired: self.paired && zoom != Zoom::OneNode,
            by_node: zoom == Zoom::Nodes,
        };
        let (row_scope, glows) = (&self.row_scope, &self.glows);
        let (filter, faults) = (self.filter.as_ref(), self.faults);
        let value = |row: Row| glows.rank(row.0, row.1).unwrap_or(-1.0);
        self.map = HeatmapLayout::new(
            facts,
            plan,
            |node, device, row: Row| {
                only.as_ref().is_none_or(|only| node.name() == only)
                    && devices::in_scope(row_scope, node, device)
                    && facts.has_device(device)
                    && (!faults || (devices::KIND.faulty)(facts, row))
                    && filter.is_none_or(|filter| matches(filter, &devices::KIND, facts, row))
            },
            self.by_value.then_some(&value as &dyn Fn(Row) -> f64),
        );
        self.shown = self.map.groups.iter().map(|group| group.devices).sum();
    }

    /// Puts the cursor back on its device or node; where that is gone, the cursor stays in its place.
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
            // After a zoom a device's cursor goes to its node, and a node's to its first device.
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
    pub(super) fn first(&self) -> usize {
        if self.zoom() == Zoom::OneNode {
            return 0;
        }
        let height = usize::from(self.height.max(1));
        let most = self.map.lines.len().saturating_sub(height);
        let line = self.map.line_of(self.cursor).map_or(0, |(line, _)| line);
        // While lines follow below, the last one shows their number.
        let shown = if most > 0 { height.max(2) - 1 } else { height };
        let least = (line + 1).saturating_sub(shown);
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

    fn visible(&self) -> &[MapLine] {
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
        self.row_scope.title()
    }
    fn contexts(&self) -> &'static [Context] {
        HEATMAP
    }

    fn fit(&mut self, facts: &Facts, area: Rect, paired: bool) {
        let map = split(facts, area, self.scale).map;
        if (map.width, map.height, paired) != (self.width, self.height, self.paired) {
            (self.width, self.height, self.paired) = (map.width, map.height, paired);
            self.relayout(facts);
        }
    }

    fn refresh(&mut self, facts: &Facts, _settle: bool) {
        self.relayout(facts);
    }

    fn does(&self, command: Command, facts: &Facts) -> bool {
        match command {
            Command::ZoomIn | Command::ZoomOut => self.zoom().after(command).is_some(),
            Command::Open => self.selection(facts).is_some(),
            Command::Metric | Command::Group | Command::Scale => self.counts().1 > 0,
            Command::Filter | Command::Faults => self.counts().1 > 0,
            _ => true,
        }
    }

    fn on(&mut self, command: Command, facts: &Facts, area: Rect) -> CommandOutcome {
        self.follows &= matches!(command, Command::Scale | Command::Metric);
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
                return CommandOutcome::Done;
            }
            Command::Open => {
                return match (self.zoom(), self.selection(facts)) {
                    (Zoom::Nodes, Some(Selection::Node(node))) => CommandOutcome::Navigate(
                        Destination::Part(ViewId::Nodes, RowScope::Node(node)),
                    ),
                    (_, selection) => selection.map(Destination::Facts).into(),
                };
            }
            Command::Metric => self.metric = next(&HeatMetric::ALL, self.metric),
            Command::Group => self.grouping = next(&Grouping::ALL, self.grouping),
            Command::Scale => {
                self.scale = next(&Scale::ALL, self.scale);
                self.follows = self.scale == Scale::Outlier;
                self.relayout(facts);
                // The foot has a line more for outliers: the cursor's line stays in sight.
                self.fit(facts, area, self.paired);
                return CommandOutcome::Done;
            }
            Command::Order => self.by_value = !self.by_value,
            Command::Faults => self.faults = !self.faults,
            Command::ZoomIn | Command::ZoomOut => {
                self.zoom = self.zoom().after(command).or(self.zoom)
            }
            _ => return CommandOutcome::NotMine,
        }
        self.relayout(facts);
        CommandOutcome::Done
    }

    fn point(&mut self, facts: &Facts, x: u16, y: u16, area: Rect) -> bool {
        let map = split(facts, area, self.scale).map;
        if self.zoom() == Zoom::OneNode || x < map.x || y < map.y {
            return false;
        }
        let line = self.first() + usize::from(y - map.y);
        let Some(MapLine::Cells { top, bottom, .. }) = self.map.lines.get(line) else {
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
            Some(RowFilter::parse(words, &fields(&devices::KIND))?)
        };
        if filter != self.filter {
            self.filter = filter;
            self.relayout(facts);
        }
        Ok(())
    }
    fn filter(&self) -> &str {
        self.filter.as_ref().map_or("", |filter| &filter.text)
    }
    fn selection(&self, facts: &Facts) -> Option<Selection> {
        let spot = self.map.spots.get(self.cursor)?;
        let node = facts.fleet.nodes.get(spot.row.0 as usize)?;
        if spot.row.1 == NODE {
            return Some(Selection::Node(node.name().clone()));
        }
        let device = node.devices.get(spot.row.1 as usize)?;
        Some(Selection::Device(node.name().clone(), device.index))
    }
    fn counts(&self) -> (usize, usize) {
        (self.shown, self.total)
    }
    fn faults_only(&self) -> bool {
        self.faults
    }

    fn on_screen(&self, facts: &Facts, _area: Rect) -> Vec<Name> {
        let mut nodes: Vec<u32> = Vec::new();
        for line in self.visible() {
            if let MapLine::Cells { top, bottom, .. } = line {
                for spot in top.clone().chain(bottom.clone()) {
                    let node = self.map.spots[spot].row.0;
                    if nodes.last() != Some(&node) {
                        nodes.push(node);
                    }
                }
            }
        }
        nodes.small_sort();
        nodes.dedup();
        nodes
            .iter()
            .filter_map(|at| facts.fleet.nodes.get(*at as usize))
            .map(|node| node.name().clone())
            .collect()
    }

    fn draw(&self, facts: &Facts, painter: &mut Painter<'_>, area: Rect) {
        self.paint(facts, painter, area);
    }
}
