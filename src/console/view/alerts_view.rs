//! The view of findings: the table above, all that is known of the one under the cursor below; mute and take on.

use ratatui::layout::Rect;

use crate::brush::Brush;
use crate::commands::{Command, Context};
use model::base::Name;
use model::fleet::finding::Finding;
use table::Facts;
use table::hush::{Entry, Hush};

use super::alerts::KIND;
use super::describe::{self, describe, draw_columns, draw_panel};
use super::sheet::Sheet;
use super::{ALERTS, Lens, Picked, Turn, View, ViewId};

/// Findings, worst first.
pub struct AlertsView {
    sheet: Sheet,
}

impl AlertsView {
    /// The view behind the tab.
    pub fn new(lens: Lens) -> Self {
        Self {
            sheet: Sheet::new(ViewId::Alerts, &KIND, lens),
        }
    }

    fn split(&self, area: Rect) -> (Rect, Rect) {
        if area.height < 16 || self.sheet.listing.rows().is_empty() {
            return (area, Rect { height: 0, ..area });
        }
        let rows = u16::try_from(self.sheet.listing.rows().len()).unwrap_or(u16::MAX);
        let above = rows.saturating_add(1).clamp(4, area.height / 2);
        let air = u16::from(area.width > 60);
        let below = Rect::new(
            area.x + air,
            area.y + above + 1,
            area.width - 2 * air,
            area.height - above - 1,
        );
        (
            Rect {
                height: above,
                ..area
            },
            below,
        )
    }

    fn finding<'a>(&self, facts: &'a Facts) -> Option<&'a Finding> {
        let row = self.sheet.listing.current()?;
        facts.fleet.findings.get(row.0 as usize)
    }
}

impl View for AlertsView {
    fn id(&self) -> ViewId {
        ViewId::Alerts
    }
    fn trail(&self) -> String {
        self.sheet.listing.lens.title()
    }
    fn contexts(&self) -> &'static [Context] {
        ALERTS
    }
    fn refresh(&mut self, facts: &Facts, settle: bool) {
        self.sheet.refresh(facts, settle);
    }
    fn on(&mut self, command: Command, facts: &Facts, area: Rect) -> Turn {
        let hush = match command {
            Command::Mute => Hush::Muted,
            Command::Acknowledge => Hush::Acknowledged,
            _ => {
                let (above, _) = self.split(area);
                return self.sheet.obey(command, facts, above);
            }
        };
        let Some(finding) = self.finding(facts) else {
            return Turn::Done;
        };
        // The same key again takes it back.
        let again = facts.hushed.of(finding, facts.now) == Some(hush);
        let entry = (!again).then_some(Entry {
            hush,
            at: facts.now,
        });
        Turn::Hush(finding.id.clone(), entry)
    }
    fn point(&mut self, facts: &Facts, x: u16, y: u16, area: Rect) -> bool {
        let (above, _) = self.split(area);
        y < above.bottom() && self.sheet.point(facts, x, y, above)
    }
    fn set_filter(&mut self, words: &str, facts: &Facts) -> Result<(), String> {
        self.sheet.set_filter(words, facts)
    }
    fn filter(&self) -> &str {
        self.sheet.filter()
    }
    fn picked(&self, facts: &Facts) -> Option<Picked> {
        self.sheet.picked(facts)
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
    fn on_screen(&self, _: &Facts, _: Rect) -> Vec<Name> {
        Vec::new()
    }
    fn sheet(&self) -> Option<&Sheet> {
        Some(&self.sheet)
    }
    fn sheet_mut(&mut self) -> Option<&mut Sheet> {
        Some(&mut self.sheet)
    }

    fn draw(&self, facts: &Facts, brush: &mut Brush<'_>, area: Rect) {
        let (above, below) = self.split(area);
        self.sheet.paint(facts, brush, above, true);
        let Some(finding) = self.finding(facts).filter(|_| below.height >= 4) else {
            return;
        };
        let picked = Picked::Finding(finding.id.clone());
        if let Some(sheet) = describe(facts, &picked, brush) {
            let sheet = describe::Sheet {
                title: finding.subject.key.to_string(),
                note: format!("{} {}", finding.severity.name(), finding.code),
                ..sheet
            };
            let none = Rect::new(0, 0, below.width - 4, 0);
            let lines = draw_columns(brush, none, &sheet.lines);
            let height = below.height.min(lines.saturating_add(2));
            draw_panel(brush, Rect { height, ..below }, &sheet, false);
        }
    }
}
