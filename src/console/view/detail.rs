//! One pool, node or job: what is known of it above, its nodes or devices below. Keys act on the object itself until the cursor
//! goes down to a row.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::brush::{Brush, Ink};
use crate::color::ColorDepth;
use crate::commands::{Command, Context};
use crate::theme::{Role, Theme};
use crate::widget::panel::foot;
use model::base::Name;
use model::fleet::job::JobKey;
use table::Facts;

use super::describe::{describe, draw_columns, draw_panel};
use super::sheet::Sheet;
use super::{Clip, Lens, Picked, TABLE, Turn, View, ViewId, devices, nodes};

/// An object's facts over a table of its parts.
pub struct Detail {
    subject: Picked,
    sheet: Sheet,
    width: u16,
    /// Lines that what is known takes at this width.
    lines: u16,
    /// The cursor is on a row of the table; else it is on the object itself.
    on_row: bool,
}

impl Detail {
    /// A pool and its nodes.
    pub fn pool(name: Name) -> Self {
        Self {
            subject: Picked::Pool(name.clone()),
            sheet: Sheet::new(ViewId::Pools, &nodes::KIND, Lens::Pool(name)),
            width: 120,
            lines: 10,
            on_row: false,
        }
    }

    /// A node.
    pub fn node(name: Name) -> Self {
        Self {
            subject: Picked::Node(name.clone()),
            sheet: Sheet::new(ViewId::Nodes, &devices::KIND, Lens::Node(name)),
            width: 120,
            lines: 10,
            on_row: false,
        }
    }

    /// A job.
    pub fn job(id: JobKey) -> Self {
        Self {
            subject: Picked::Job(id.clone()),
            sheet: Sheet::new(ViewId::Jobs, &devices::KIND, Lens::Job(id)),
            width: 120,
            lines: 10,
            on_row: false,
        }
    }

    /// What is known takes the height that it was seen to need, up to three fifths and what the table does not fill; the
    /// table has the rest.
    fn split(&self, area: Rect) -> (Rect, Rect) {
        let air = u16::from(area.height > 20);
        // Head and rows; where there is none, air and a sentence.
        let rows = u16::try_from(self.sheet.listing.rows().len()).unwrap_or(u16::MAX);
        let table = rows.saturating_add(1).max(3).saturating_add(air);
        let most = (area.height * 3 / 5).max(area.height.saturating_sub(table));
        let above = self.lines.saturating_add(2).min(most);
        (
            Rect::new(area.x, area.y, area.width, above),
            Rect::new(
                area.x,
                area.y + above + air,
                area.width,
                area.height - above - air,
            ),
        )
    }

    fn measure(&mut self, facts: &Facts, width: u16) {
        // What is measured is not shown: neither the moment nor the ink matters to the number of lines.
        let ink = Ink {
            theme: Theme::ember(),
            depth: ColorDepth::None,
            ascii: false,
        };
        let mut buf = Buffer::empty(Rect::new(0, 0, 1, 1));
        let mut brush = Brush::new(&mut buf, &ink, facts.now);
        self.width = width;
        self.lines = match describe(facts, &self.subject, &mut brush) {
            Some(sheet) => {
                let none = Rect::new(0, 0, width.saturating_sub(4), 0);
                draw_columns(&mut brush, none, &sheet.lines)
            }
            None => 1,
        };
    }
}

impl View for Detail {
    fn id(&self) -> ViewId {
        self.sheet.id()
    }
    fn trail(&self) -> String {
        self.subject.name()
    }
    fn contexts(&self) -> &'static [Context] {
        TABLE
    }
    fn fit(&mut self, facts: &Facts, area: Rect, _paired: bool) {
        self.measure(facts, area.width);
    }
    fn refresh(&mut self, facts: &Facts, settle: bool) {
        self.measure(facts, self.width);
        self.sheet.refresh(facts, settle);
    }
    fn on(&mut self, command: Command, facts: &Facts, area: Rect) -> Turn {
        let (_, below) = self.split(area);
        let listing = &self.sheet.listing;
        let (first, none) = (listing.cursor() == 0, listing.rows().is_empty());
        match command {
            // Above the first row is the object itself.
            Command::Top => self.on_row = false,
            Command::Up | Command::PageUp if self.on_row && first => {
                self.on_row = false;
                return Turn::Done;
            }
            Command::Up | Command::PageUp if !self.on_row => return Turn::Done,
            Command::Down | Command::Open if !self.on_row => {
                self.on_row = !none;
                return Turn::Done;
            }
            Command::Bottom
            | Command::PageDown
            | Command::Mark
            | Command::Range
            | Command::Invert => self.on_row = !none,
            _ => {}
        }
        self.sheet.obey(command, facts, below)
    }
    fn point(&mut self, facts: &Facts, x: u16, y: u16, area: Rect) -> bool {
        let (above, below) = self.split(area);
        if y < above.bottom() {
            self.on_row = false;
            return true;
        }
        let hit = self.sheet.point(facts, x, y, below);
        self.on_row |= hit;
        hit
    }
    fn set_filter(&mut self, words: &str, facts: &Facts) -> Result<(), String> {
        self.sheet.set_filter(words, facts)
    }
    fn filter(&self) -> &str {
        self.sheet.filter()
    }
    fn picked(&self, facts: &Facts) -> Option<Picked> {
        let row = self.sheet.picked(facts).filter(|_| self.on_row);
        row.or_else(|| Some(self.subject.clone()))
    }
    fn meant(&self, facts: &Facts) -> Vec<Picked> {
        if self.sheet.listing.marked().is_empty() {
            return self.picked(facts).into_iter().collect();
        }
        self.sheet.meant(facts)
    }
    fn clip(&self, facts: &Facts, ink: &Ink) -> Option<Clip> {
        let rows = self.on_row || !self.sheet.listing.marked().is_empty();
        rows.then(|| self.sheet.clip(facts, ink))
    }
    fn counts(&self) -> (usize, usize) {
        self.sheet.counts()
    }
    fn is_unsettled(&self) -> bool {
        self.sheet.is_unsettled()
    }
    fn faults_only(&self) -> bool {
        self.sheet.faults_only()
    }
    fn on_screen(&self, facts: &Facts, area: Rect) -> Vec<Name> {
        let (_, below) = self.split(area);
        let (_, rows) = self.sheet.listing.window(Sheet::height(below));
        let mut names: Vec<Name> = rows
            .iter()
            .filter_map(|row| facts.fleet.nodes.get(row.0 as usize))
            .map(|node| node.name().clone())
            .collect();
        names.dedup();
        names
    }

    fn sheet(&self) -> Option<&Sheet> {
        Some(&self.sheet)
    }
    fn sheet_mut(&mut self) -> Option<&mut Sheet> {
        Some(&mut self.sheet)
    }

    fn draw(&self, facts: &Facts, brush: &mut Brush<'_>, area: Rect) {
        let (above, below) = self.split(area);
        match describe(facts, &self.subject, brush) {
            Some(sheet) => {
                let hidden = draw_panel(brush, above, &sheet, !self.on_row);
                // What keys act on is said where that is not what the title names.
                let row = self.sheet.picked(facts).filter(|_| self.on_row);
                if let (Some(row), 0) = (row, hidden) {
                    let words = format!("keys act on {}, the row below", row.title(facts));
                    foot(brush, above, &words, Role::Mark);
                }
            }
            None => {
                let words = format!("{} has gone", self.subject.name());
                brush.say(above.x + 2, above.y, above.width, &words, Role::Warn);
            }
        }
        self.sheet.paint(facts, brush, below, self.on_row);
    }
}
