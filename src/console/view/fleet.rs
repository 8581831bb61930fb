//! The fleet: the answer in five seconds. Pools, every device, what waits, what burns, what needs you.

use ratatui::layout::Rect;

use crate::commands::{Command, Context};
use crate::painter::Painter;
use crate::text::counted;
use model::base::SmallSort;
use model::cost::SpendScope as By;
use model::fleet::finding::{Finding, Severity};
use table::Facts;
use table::column::{KindSpec, Row};
use table::kinds::{alerts, cost};
use table::navigation::{Destination, RowScope, Selection, ViewId};
use table::role::Role;

use super::device_heat::{DeviceHeats, HeatMetric, Scale};
use super::fleet_sources::{draw_sources, speaks};
use super::sparkline_strip::DeviceStrip;
use super::table_view::TableView;
use super::view_trait::{CommandOutcome, FLEET, View};

/// What has the cursor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Panel {
    /// The table of pools.
    Pools,
    Waiting,
    Teams,
    Needs,
}

impl Panel {
    /// In the order of the key, as they are arranged side by side or above one another.
    const ALL: [Self; 4] = [Self::Pools, Self::Waiting, Self::Teams, Self::Needs];
}

/// The fleet at a glance.
pub struct FleetView {
    table: TableView,
    strip: DeviceStrip,
    glows: DeviceHeats,
    /// Waiting jobs, longest first.
    pub(super) waiting: Vec<u32>,
    /// Teams by burn, most first.
    pub(super) teams: Vec<u32>,
    /// Findings that need action, as indices into all.
    pub(super) needs: Vec<u32>,
    /// What has the cursor.
    pub(super) panel: Panel,
    /// The row of the panel under the cursor.
    pub(super) row: usize,
    /// Sources that have something to say.
    troubled: u16,
    size: (u16, u16),
    paired: bool,
}

/// Below this height a panel is too small to be useful.
const SMALL: u16 = 10;
/// Side panels fold below this width.
const PANELS_FROM: u16 = 100;

struct FleetAreas {
    table: Rect,
    strip: Rect,
    panels: Rect,
    sources: Rect,
}

impl FleetView {
    /// The view behind the first tab.
    pub fn new() -> Self {
        Self {
            table: TableView::new(ViewId::Fleet, &table::kinds::pools::KIND, RowScope::All),
            strip: DeviceStrip::default(),
            glows: DeviceHeats::default(),
            waiting: Vec::new(),
            teams: Vec::new(),
            needs: Vec::new(),
            panel: Panel::Pools,
            row: 0,
            troubled: 0,
            size: (80, 20),
            paired: true,
        }
    }

    fn table_height(&self, height: u16) -> u16 {
        let rows = u16::try_from(self.table.table_model.rows().len()).unwrap_or(u16::MAX);
        if height < SMALL {
            // Where next to nothing fits, the pools come first.
            return rows.saturating_add(1).min(height);
        }
        rows.clamp(2, (height * 2 / 5).max(3))
            .min(height.saturating_sub(1))
            + 1
    }

    /// Lines that the strip may take: what table, panels and sources leave.
    fn strip_room(&self, height: u16) -> u16 {
        let rest = height.saturating_sub(self.table_height(height));
        if rest < 12 {
            return 0;
        }
        let others = match rest {
            28.. => 11 + 3 + self.troubled.min(3),
            18..28 => 10,
            _ => 9,
        };
        rest.saturating_sub(others + 2).min(14)
    }

    fn split(&self, area: Rect) -> FleetAreas {
        let table = self.table_height(area.height).min(area.height);
        let strip = self.strip.height().min(self.strip_room(area.height) + 1);
        let mut y = area.y + table;
        let mut rest = area.height - table;
        let mut take = |height: u16| {
            let height = height.min(rest);
            let rect = Rect::new(area.x, y, area.width, height);
            y += height;
            rest -= height;
            rect
        };
        if strip > 0 {
            take(1);
        }
        let strip = take(strip);
        if area.height >= 16 {
            take(1);
        }
        let left = area.bottom() - strip.bottom();
        let sources = if left >= 16 {
            3 + self.troubled.min(3)
        } else {
            0
        };
        let room = area
            .bottom()
            .saturating_sub(strip.bottom() + u16::from(area.height >= 16));
        let panels = take(room.saturating_sub(sources).min(16));
        let sources = take(sources);
        FleetAreas {
            table: Rect::new(area.x, area.y, area.width, table),
            strip,
            panels: inset(panels),
            sources: inset(sources),
        }
    }

    fn restrip(&mut self, facts: &Facts) {
        let (width, height) = self.size;
        let room = self.strip_room(height);
        if room > 0 {
            self.glows.update(facts, HeatMetric::Util, Scale::Absolute);
        }
        self.strip = DeviceStrip::of(facts, &self.glows, width, room, self.paired);
    }
}

/// A cell of air at both sides.
fn inset(area: Rect) -> Rect {
    let air = u16::from(area.width > 60);
    Rect::new(area.x + air, area.y, area.width - 2 * air, area.height)
}

impl Default for FleetView {
    fn default() -> Self {
        Self::new()
    }
}

impl View for FleetView {
    fn id(&self) -> ViewId {
        ViewId::Fleet
    }
    fn trail(&self) -> String {
        String::new()
    }
    fn contexts(&self) -> &'static [Context] {
        FLEET
    }

    fn fit(&mut self, facts: &Facts, area: Rect, paired: bool) {
        if (area.width, area.height) != self.size || paired != self.paired {
            self.size = (area.width, area.height);
            self.paired = paired;
            self.restrip(facts);
        }
    }

    fn refresh(&mut self, facts: &Facts, settle: bool) {
        self.table.refresh(facts, settle);
        self.waiting = table::waiting::longest_first(facts);
        let rows = facts.spend_rates.rows.get(&By::Team).map_or(0, Vec::len);
        self.teams = (0..rows as u32).collect();
        if let Some(rows) = facts.spend_rates.rows.get(&By::Team) {
            self.teams
                .small_sort_by_key(|at| std::cmp::Reverse(rows[*at as usize].spend.rate.all));
        }
        let findings = facts.fleet.findings.iter().enumerate();
        self.needs = findings
            .filter(|(_, finding)| needs_operator(facts, finding))
            .map(|(at, _)| at as u32)
            .collect();
        self.keep_row();
        let troubled = facts.fleet.sources.iter().filter(|source| speaks(source));
        self.troubled = u16::try_from(troubled.count()).unwrap_or(u16::MAX);
        self.restrip(facts);
    }

    fn on(&mut self, command: Command, facts: &Facts, area: Rect) -> CommandOutcome {
        let table = self.split(area).table;
        match command {
            Command::NextPanel => return self.next_panel(area, 1),
            Command::PreviousPanel => return self.next_panel(area, Panel::ALL.len() - 1),
            _ if self.panel != Panel::Pools => {
                if let Some(outcome) = self.in_panel(command, facts) {
                    return outcome;
                }
            }
            _ => {}
        }
        // From the fleet, a pool opens its devices; its details are in the pools tab.
        match self.table.obey(command, facts, table) {
            CommandOutcome::Navigate(Destination::Part(
                ViewId::Pools,
                row_scope @ RowScope::Pool(_),
            )) => CommandOutcome::Navigate(Destination::Part(ViewId::Devices, row_scope)),
            other => other,
        }
    }
    fn point(&mut self, facts: &Facts, x: u16, y: u16, area: Rect) -> bool {
        let table = self.split(area).table;
        let hit = y < table.bottom() && self.table.point(facts, x, y, table);
        if hit {
            self.panel = Panel::Pools;
        }
        hit
    }
    fn selection(&self, facts: &Facts) -> Option<Selection> {
        match self.panel {
            Panel::Pools => self.table.selection(facts),
            _ => {
                let (kind, row) = self.row_of_panel()?;
                (kind.selection)(facts, row)
            }
        }
    }
    fn meant(&self, facts: &Facts) -> Vec<Selection> {
        match self.panel {
            Panel::Pools => self.table.meant(facts),
            _ => self.selection(facts).into_iter().collect(),
        }
    }

    fn table(&self) -> Option<&TableView> {
        Some(&self.table)
    }
    fn table_mut(&mut self) -> Option<&mut TableView> {
        Some(&mut self.table)
    }

    fn draw(&self, facts: &Facts, painter: &mut Painter<'_>, area: Rect) {
        let split = self.split(area);
        let in_table = self.panel == Panel::Pools;
        self.table.paint(facts, painter, split.table, in_table);
        let shown = usize::from(split.table.height.saturating_sub(1));
        let more = self.rows(Panel::Pools).saturating_sub(shown);
        if more > 0 && split.table.bottom() < area.bottom() {
            let words = format!("+{}", counted(more as u64, "more pool"));
            let line = Rect {
                y: split.table.bottom(),
                height: 1,
                ..inset(split.table)
            };
            painter.text_in_role(line.x + 1, line.y, line.width, &words, Role::Muted);
        }
        self.strip.draw(painter, split.strip);
        self.draw_panels(facts, painter, split.panels);
        if split.sources.height > 2 {
            draw_sources(facts, painter, split.sources);
        }
    }
}

impl FleetView {
    fn rows(&self, panel: Panel) -> usize {
        match panel {
            Panel::Pools => self.table.table_model.rows().len(),
            Panel::Waiting => self.waiting.len(),
            Panel::Teams => self.teams.len(),
            Panel::Needs => self.needs.len(),
        }
    }

    /// Moves the cursor on by `by` panels, past those that are not drawn or have no row.
    fn next_panel(&mut self, area: Rect, by: usize) -> CommandOutcome {
        let panels = self.split(area).panels;
        let drawn = |panel: Panel| match panel {
            Panel::Pools => true,
            Panel::Teams => panels.height >= 3 && panels.width >= PANELS_FROM,
            Panel::Waiting | Panel::Needs if Self::has_room_for_one(panels) => {
                panels.height >= 3 && panel == self.only_panel()
            }
            Panel::Waiting | Panel::Needs => panels.height >= 3,
        };
        let order = Panel::ALL;
        let count = order.len();
        let from = order.iter().position(|panel| *panel == self.panel);
        let turns = (1..=count).map(|turn| order[(from.unwrap_or(0) + by * turn) % count]);
        let mut open = turns.filter(|panel| drawn(*panel) && self.rows(*panel) > 0);
        self.panel = open.next().unwrap_or(Panel::Pools);
        self.row = 0;
        CommandOutcome::Done
    }

    /// Handles a command in a panel; `None` if it is not a panel's.
    fn in_panel(&mut self, command: Command, facts: &Facts) -> Option<CommandOutcome> {
        let last = self.rows(self.panel).saturating_sub(1);
        match command {
            Command::Up => self.row = self.row.saturating_sub(1),
            Command::Down => self.row = (self.row + 1).min(last),
            Command::Top | Command::PageUp => self.row = 0,
            Command::Bottom | Command::PageDown => self.row = last,
            Command::Open => {
                let row = self.row_of_panel();
                return Some(row.and_then(|(kind, row)| (kind.open)(facts, row)).into());
            }
            _ => return None,
        }
        Some(CommandOutcome::Done)
    }

    /// The table that the row under the cursor of a panel is of, and that row.
    fn row_of_panel(&self) -> Option<(&'static KindSpec, Row)> {
        let at = |rows: &[u32]| rows.get(self.row).copied();
        Some(match self.panel {
            Panel::Pools => return None,
            Panel::Waiting => (&table::kinds::jobs::KIND, (0, at(&self.waiting)?)),
            Panel::Teams => (&cost::KIND, (By::Team as u32, at(&self.teams)?)),
            Panel::Needs => (&alerts::KIND, (at(&self.needs)?, 0)),
        })
    }

    /// Keeps the cursor within its panel; one that has become empty loses it.
    fn keep_row(&mut self) {
        match self.rows(self.panel) {
            0 => (self.panel, self.row) = (Panel::Pools, 0),
            rows => self.row = self.row.min(rows - 1),
        }
    }

    fn draw_panels(&self, facts: &Facts, painter: &mut Painter<'_>, area: Rect) {
        if area.height < 3 {
            return;
        }
        if area.width >= PANELS_FROM {
            let third = area.width / 3;
            let waiting = area.width - 2 * third;
            self.draw_waiting(
                facts,
                painter,
                Rect {
                    width: waiting,
                    ..area
                },
            );
            let burn = Rect {
                x: area.x + waiting,
                width: third,
                ..area
            };
            self.draw_burn(facts, painter, burn);
            let needs = Rect {
                x: area.x + waiting + third,
                width: third,
                ..area
            };
            self.draw_needs(facts, painter, needs);
            return;
        }
        // On a narrow screen panels are above one another; money is in the header.
        if Self::has_room_for_one(area) {
            return match self.only_panel() {
                Panel::Needs => self.draw_needs(facts, painter, area),
                _ => self.draw_waiting(facts, painter, area),
            };
        }
        let half = area.height / 2;
        let first = Rect {
            height: area.height - half,
            ..area
        };
        let second = Rect {
            y: first.bottom(),
            height: half,
            ..area
        };
        self.draw_waiting(facts, painter, first);
        self.draw_needs(facts, painter, second);
    }

    /// True where panels above one another leave room for only one of them.
    fn has_room_for_one(panels: Rect) -> bool {
        panels.width < PANELS_FROM && panels.height < 8
    }

    /// The panel that is drawn where one has room: the urgent one.
    fn only_panel(&self) -> Panel {
        match self.needs.is_empty() {
            true => Panel::Waiting,
            false => Panel::Needs,
        }
    }
}

/// True for a finding above info that is neither muted nor acknowledged.
pub(super) fn needs_operator(facts: &Facts, finding: &Finding) -> bool {
    finding.severity != Severity::Info
        && facts.concerns(finding)
        && facts.silences.of(finding, facts.now).is_none()
}
