//! Layout of the heatmap: groups below one another, racks side by side, nodes as tiles.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::commands::Command;
use model::base::natural;
use model::base::{Name, SmallSort};
use model::fleet::device::{Device, Pod};
use model::fleet::node::Node;
use table::Facts;
use table::column::Row;

/// What a cell is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Zoom {
    Nodes,
    Devices,
    OneNode,
}

impl Zoom {
    /// The next one in or out; `None` where there is none.
    pub(super) const fn after(self, command: Command) -> Option<Self> {
        match (command, self) {
            (Command::ZoomIn, Self::Nodes) | (Command::ZoomOut, Self::OneNode) => {
                Some(Self::Devices)
            }
            (Command::ZoomIn, Self::Devices) => Some(Self::OneNode),
            (Command::ZoomOut, Self::Devices) => Some(Self::Nodes),
            _ => None,
        }
    }
}

/// What devices are grouped by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Grouping {
    #[default]
    Pool,
    Rack,
    /// NVLink domain or TPU slice.
    Domain,
    Queue,
    Job,
    Team,
    Zone,
}

impl Grouping {
    /// Every grouping, in the order of the key.
    pub const ALL: [Self; 7] = [
        Self::Pool,
        Self::Rack,
        Self::Domain,
        Self::Queue,
        Self::Job,
        Self::Team,
        Self::Zone,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Pool => "pool ▸ rack",
            Self::Rack => "rack",
            Self::Domain => "link domain",
            Self::Queue => "queue",
            Self::Job => "job",
            Self::Team => "team",
            Self::Zone => "zone",
        }
    }

    /// True when all devices of a node are in one group.
    const fn is_of_node(self) -> bool {
        matches!(self, Self::Pool | Self::Rack | Self::Domain | Self::Zone)
    }

    /// The group of a device with this holder, and the row of racks within it.
    fn of(self, node: &Node, holder: Option<&Arc<Pod>>) -> Key {
        let or_none =
            |name: Option<&Name>, none: &str| name.cloned().unwrap_or_else(|| Name::new(none));
        let group = match self {
            Self::Pool => return (node.pool.clone(), node.rack.clone()),
            Self::Rack => or_none(node.rack.as_ref(), "no rack known"),
            Self::Domain => or_none(node.clique.as_ref(), "no domain known"),
            Self::Zone => or_none(node.zone.as_ref(), "no zone known"),
            Self::Queue => or_none(holder.and_then(|pod| pod.queue.as_ref()), "no queue"),
            Self::Job => {
                holder.map_or_else(|| Name::new("free"), |pod| Name::from(pod.job.to_string()))
            }
            Self::Team => or_none(holder.map(|pod| &pod.team), "free"),
        };
        (group, None)
    }
}

/// A group, and a rack within it.
type Key = (Name, Option<Name>);

/// A cell's device, or a whole node where `row.1` is [`NODE`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeatmapCell {
    /// Column from the left of the map.
    pub x: u16,
    pub row: Row,
}

/// Index that means all devices of a node.
pub const NODE: u32 = u32::MAX;

/// One line of the map.
#[derive(Clone, PartialEq, Debug)]
pub enum MapLine {
    Head(usize),
    /// Cells: ranges of spots above and below, and labels with their columns.
    Cells {
        top: std::ops::Range<usize>,
        /// Lower devices; empty where each has a cell of its own.
        bottom: std::ops::Range<usize>,
        labels: Vec<(u16, Name)>,
        /// The group whose heading is left of the cells.
        head: Option<usize>,
    },
    Blank,
}

/// A group and the text of its heading.
#[derive(Clone, PartialEq, Debug)]
pub struct HeatmapGroup {
    pub name: Name,
    pub devices: usize,
    pub spots: std::ops::Range<usize>,
}

/// The whole map; only a window is drawn.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct HeatmapLayout {
    /// Lines from the top.
    pub lines: Vec<MapLine>,
    pub groups: Vec<HeatmapGroup>,
    /// Every cell, by line, upper before lower, from the left.
    pub spots: Vec<HeatmapCell>,
    /// Columns of a group's name.
    pub names: u16,
}

/// Nodes of a line that need no numbers.
const UNNUMBERED: usize = 4;

/// Columns of a heading behind its name, with air: `1 024 devices   mean 100%`.
const HEADING: usize = 28;

/// How the map is made.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HeatmapOptions {
    /// What devices are grouped by.
    pub grouping: Grouping,
    pub width: u16,
    /// Two devices a cell.
    pub paired: bool,
    /// A cell is a node.
    pub by_node: bool,
}

/// The devices of one node in one rack of a group.
type Tile = Vec<Row>;
type Racks = BTreeMap<Option<Name>, Vec<Tile>>;

struct Gathered {
    racks: Racks,
    devices: usize,
}

impl HeatmapLayout {
    /// Lays out the devices that pass `wanted`; within a rack sorted by `value` where there is one, highest first, else by position.
    pub fn new(
        facts: &Facts,
        plan: HeatmapOptions,
        wanted: impl Fn(&Node, &Device, Row) -> bool,
        value: Option<&dyn Fn(Row) -> f64>,
    ) -> Self {
        let mut gathered = gather(facts, plan, wanted);
        let mut names: Vec<Name> = gathered.keys().cloned().collect();
        names.small_sort_by(|a, b| natural(a, b));
        // The same label width in every group, so that the tiles align.
        let label = gathered
            .values()
            .flat_map(|group| group.racks.keys().flatten())
            .map(|rack| super::super::text::width(rack))
            .max()
            // Two blank cells: the cursor's bracket takes one.
            .map_or(0, |widest| widest.min(10) + 2);
        let widest = names.iter().map(|name| crate::text::width(name));
        let column = widest.max().unwrap_or(0).min(usize::from(plan.width / 3));
        let left = column + HEADING;
        let mut map = Self {
            names: column as u16,
            ..Self::default()
        };
        let mut was_beside = false;
        for name in names {
            let Some(mut group) = gathered.remove(&name) else {
                continue;
            };
            if let Some(value) = value {
                sort_by_value(&mut group.racks, value);
            }
            let beside = fits_beside(plan, left + label, &group.racks);
            let is_next = beside && was_beside;
            if !map.lines.is_empty() && !is_next {
                map.lines.push(MapLine::Blank);
            }
            was_beside = beside;
            let head = beside.then_some(map.groups.len());
            if head.is_none() {
                map.lines.push(MapLine::Head(map.groups.len()));
            }
            map.groups.push(HeatmapGroup {
                name,
                devices: group.devices,
                spots: 0..0,
            });
            let from = map.spots.len();
            let left = if beside { left } else { 0 };
            map.band(plan, label, left, head, group.racks);
            if let Some(group) = map.groups.last_mut() {
                group.spots = from..map.spots.len();
            }
        }
        map
    }

    /// Lays the racks of one group side by side, line under line, from the column `left`; `head` stands left of them.
    fn band(
        &mut self,
        plan: HeatmapOptions,
        label: usize,
        left: usize,
        head: Option<usize>,
        racks: Racks,
    ) {
        let tile = racks
            .values()
            .flatten()
            .map(Vec::len)
            .max()
            .unwrap_or(1)
            .clamp(1, usize::from(plan.width.max(1)));
        // Tiles of one or two cells need no gap, which would take more space than the tiles.
        let gap = usize::from(tile > 2);
        let most_tiles = racks.values().map(Vec::len).max().unwrap_or(1);
        let room = usize::from(plan.width).saturating_sub(label).max(1);
        let fit = ((room + gap) / (tile + gap)).max(1);
        let rows_a_line = if plan.paired { 2 } else { 1 };
        let across = if most_tiles > fit * rows_a_line {
            // As few rows as possible, evenly filled, so that no row has a single tile.
            most_tiles.div_ceil(most_tiles.div_ceil(fit))
        } else {
            most_tiles.div_ceil(rows_a_line).max(1)
        };
        let unit = label + across * (tile + gap) - gap;
        let units = if racks.len() > 1 {
            ((usize::from(plan.width) + 2) / (unit + 2)).max(1)
        } else {
            1
        };
        let mut order: Vec<(Option<Name>, Vec<Tile>)> = racks.into_iter().collect();
        order.small_sort_by(|a, b| match (&a.0, &b.0) {
            (Some(a), Some(b)) => natural(a, b),
            (a, b) => b.is_some().cmp(&a.is_some()),
        });
        for side_by_side in order.chunks(units) {
            let rows = side_by_side
                .iter()
                .map(|(_, tiles)| tiles_high(tiles, tile, across))
                .max()
                .unwrap_or(0);
            for line in 0..rows.div_ceil(rows_a_line) {
                let labels = if line == 0 {
                    side_by_side
                        .iter()
                        .enumerate()
                        .filter_map(|(at, (rack, _))| {
                            Some(((left + at * (unit + 2)) as u16, rack.clone()?))
                        })
                        .collect()
                } else {
                    Vec::new()
                };
                let mut ranges = [0..0, 0..0];
                for (half, range) in ranges.iter_mut().enumerate().take(rows_a_line) {
                    let from = self.spots.len();
                    let row = line * rows_a_line + half;
                    for (at, (_, tiles)) in side_by_side.iter().enumerate() {
                        let left = left + at * (unit + 2) + label;
                        place(&mut self.spots, tiles, row, tile, gap, across, left);
                    }
                    *range = from..self.spots.len();
                }
                let [top, bottom] = ranges;
                self.lines.push(MapLine::Cells {
                    top,
                    bottom,
                    labels,
                    head,
                });
            }
        }
    }

    /// The line of a spot and whether it is the lower device.
    pub fn line_of(&self, spot: usize) -> Option<(usize, bool)> {
        // Lines contain ascending ranges of spots (headings and blank lines none), so this is the first line that ends after the
        // spot.
        let at = self.lines.iter().position(|line| match line {
            MapLine::Cells { top, bottom, .. } => top.contains(&spot) || bottom.contains(&spot),
            _ => false,
        })?;
        match &self.lines[at] {
            MapLine::Cells { bottom, .. } => Some((at, bottom.contains(&spot))),
            _ => None,
        }
    }

    /// Rows of devices from the top: each a range of spots.
    fn rows(&self) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
        self.lines
            .iter()
            .filter_map(|line| match line {
                MapLine::Cells { top, bottom, .. } => Some([top.clone(), bottom.clone()]),
                _ => None,
            })
            .flatten()
            .filter(|range| !range.is_empty())
    }

    /// The spot `by` rows below (above when negative), in the nearest column that the row has.
    pub fn vertical(&self, spot: usize, by: isize) -> usize {
        let rows: Vec<std::ops::Range<usize>> = self.rows().collect();
        let Some(at) = rows.iter().position(|range| range.contains(&spot)) else {
            return spot;
        };
        let target = at
            .saturating_add_signed(by)
            .min(rows.len().saturating_sub(1));
        let x = self.spots[spot].x;
        rows[target]
            .clone()
            .min_by_key(|candidate| self.spots[*candidate].x.abs_diff(x))
            .unwrap_or(spot)
    }

    /// The next spot to the right or left in the same row; stays at its ends.
    pub fn horizontal(&self, spot: usize, right: bool) -> usize {
        let Some(range) = self.rows().find(|range| range.contains(&spot)) else {
            return spot;
        };
        if right {
            (spot + 1).min(range.end - 1)
        } else {
            spot.saturating_sub(1).max(range.start)
        }
    }
}

fn gather(
    facts: &Facts,
    plan: HeatmapOptions,
    wanted: impl Fn(&Node, &Device, Row) -> bool,
) -> FxHashMap<Name, Gathered> {
    let mut groups: FxHashMap<Name, Gathered> = FxHashMap::default();
    // By name as people count, as in the table of nodes.
    let nodes = &facts.fleet.nodes;
    let mut order: Vec<usize> = (0..nodes.len()).collect();
    order.small_sort_by(|a, b| natural(nodes[*a].name(), nodes[*b].name()));
    for at in order {
        let node = &nodes[at];
        // Adjacent devices mostly have the same group, so it is looked up once per run of them.
        let mut run: Tile = Vec::with_capacity(node.devices.len());
        let mut last: Option<(Option<&Arc<Pod>>, Key)> = None;
        for (within, device) in node.devices.iter().enumerate() {
            let row = (at as u32, within as u32);
            if !wanted(node, device, row) {
                continue;
            }
            let holder = facts.first_holder(device).map(|(pod, _)| pod);
            let same = last.as_ref().is_some_and(|(before, _)| {
                plan.grouping.is_of_node()
                    || match (before, holder) {
                        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
                        (a, b) => a.is_none() && b.is_none(),
                    }
            });
            if !same {
                if let Some((_, key)) = last.take() {
                    add(&mut groups, key, std::mem::take(&mut run), plan);
                }
                last = Some((holder, plan.grouping.of(node, holder)));
            }
            run.push(row);
        }
        if let Some((_, key)) = last {
            add(&mut groups, key, run, plan);
        }
    }
    groups
}

/// Adds a run of devices of one node to its group.
fn add(groups: &mut FxHashMap<Name, Gathered>, key: Key, run: Tile, plan: HeatmapOptions) {
    let group = groups.entry(key.0).or_insert_with(|| Gathered {
        racks: Racks::new(),
        devices: 0,
    });
    group.devices += run.len();
    let tiles = match group.racks.get_mut(&key.1) {
        Some(tiles) => tiles,
        None => group.racks.entry(key.1).or_default(),
    };
    let node = run[0].0;
    match tiles.last_mut().filter(|tile| tile[0].0 == node) {
        Some(_) if plan.by_node => {}
        Some(tile) => tile.extend(run),
        None if plan.by_node => tiles.push(vec![(node, NODE)]),
        None => tiles.push(run),
    }
}

fn sort_by_value(racks: &mut Racks, value: &dyn Fn(Row) -> f64) {
    for tiles in racks.values_mut() {
        let sizes: Vec<usize> = tiles.iter().map(Vec::len).collect();
        let mut keyed: Vec<(f64, Row)> = tiles
            .drain(..)
            .flatten()
            .map(|row| (value(row), row))
            .collect();
        keyed.small_sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut rest = keyed.into_iter().map(|(_, row)| row);
        tiles.extend(
            sizes
                .into_iter()
                .map(|size| rest.by_ref().take(size).collect::<Tile>()),
        );
    }
}

/// True for one rack whose tiles all fit in one line behind a heading that takes `left` columns, and need no numbers above them.
fn fits_beside(plan: HeatmapOptions, left: usize, racks: &Racks) -> bool {
    let mut all = racks.values();
    let (Some(tiles), None) = (all.next(), all.next()) else {
        return false;
    };
    let tile = tiles.iter().map(Vec::len).max().unwrap_or(1).max(1);
    let gap = usize::from(tile > 2);
    let room = usize::from(plan.width).saturating_sub(left);
    let rows = if plan.paired { 2 } else { 1 };
    tile <= room && tiles.len() <= ((room + gap) / (tile + gap)).min(UNNUMBERED) * rows
}

/// Rows of devices that these tiles take; a tile wider than the map is wrapped.
fn tiles_high(tiles: &[Tile], tile: usize, across: usize) -> usize {
    let deep = tiles
        .iter()
        .map(|cells| cells.len().div_ceil(tile))
        .max()
        .unwrap_or(1);
    tiles.len().div_ceil(across) * deep
}

/// Appends the spots of one row of one rack.
fn place(
    spots: &mut Vec<HeatmapCell>,
    tiles: &[Tile],
    row: usize,
    tile: usize,
    gap: usize,
    across: usize,
    left: usize,
) {
    let deep = tiles
        .iter()
        .map(|cells| cells.len().div_ceil(tile))
        .max()
        .unwrap_or(1);
    let (tile_row, within) = (row / deep, row % deep);
    for (column, cells) in tiles
        .iter()
        .skip(tile_row * across)
        .take(across)
        .enumerate()
    {
        for (at, cell) in cells.iter().skip(within * tile).take(tile).enumerate() {
            spots.push(HeatmapCell {
                x: u16::try_from(left + column * (tile + gap) + at).unwrap_or(u16::MAX),
                row: *cell,
            });
        }
    }
}
