//! The view of findings: the table above, all that is known of the one under the cursor below; mute and acknowledge.

use ratatui::layout::Rect;

use crate::commands::{Command, Context};
use crate::painter::Painter;
use model::fleet::finding::Finding;
use table::Facts;
use table::silence::{Entry, Silence};

use super::alerts::KIND;
use super::describe::{self, describe, draw_columns, draw_panel};
use super::table_view::TableView;
use super::{ALERTS, CommandOutcome, RowScope, Selection, View, ViewId};

/// Findings, worst first.
pub struct AlertsView {
    table: TableView,
}

impl AlertsView {
    /// The view behind the tab.
    pub fn new(row_scope: RowScope) -> Self {
        Self {
            table: TableView::new(ViewId::Alerts, &KIND, row_scope),
        }
    }

    fn split(&self, area: Rect) -> (Rect, Rect) {
        if area.height < 16 || self.table.table_model.rows().is_empty() {
            return (area, Rect { height: 0, ..area });
        }
        let rows = u16::try_from(self.table.table_model.rows().len()).unwrap_or(u16::MAX);
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
        let row = self.table.table_model.current()?;
        facts.fleet.findings.get(row.0 as usize)
    }
}

impl View for AlertsView {
    fn id(&self) -> ViewId {
        ViewId::Alerts
    }
    fn trail(&self) -> String {
        self.table.table_model.row_scope.title()
    }
    fn contexts(&self) -> &'static [Context] {
        ALERTS
    }
    fn on(&mut self, command: Command, facts: &Facts, area: Rect) -> CommandOutcome {
        let silence = match command {
            Command::Mute => Silence::Muted,
            Command::Acknowledge => Silence::Acknowledged,
            _ => {
                let (above, _) = self.split(area);
                return self.table.obey(command, facts, above);
            }
        };
        let Some(finding) = self.finding(facts) else {
            return CommandOutcome::Done;
        };
        // The same key again takes it back.
        let again = facts.silences.of(finding, facts.now) == Some(silence);
        let entry = (!again).then_some(Entry {
            silence,
            at: facts.now,
        });
        CommandOutcome::Hush(finding.id.clone(), entry)
    }
    fn point(&mut self, facts: &Facts, x: u16, y: u16, area: Rect) -> bool {
        let (above, _) = self.split(area);
        y < above.bottom() && self.table.point(facts, x, y, above)
    }
    fn table(&self) -> Option<&TableView> {
        Some(&self.table)
    }
    fn table_mut(&mut self) -> Option<&mut TableView> {
        Some(&mut self.table)
    }

    fn draw(&self, facts: &Facts, painter: &mut Painter<'_>, area: Rect) {
        let (above, below) = self.split(area);
        self.table.paint(facts, painter, above, true);
        let Some(finding) = self.finding(facts).filter(|_| below.height >= 4) else {
            return;
        };
        let selection = Selection::Finding(finding.id.clone());
        if let Some(table) = describe(facts, &selection, painter) {
            let table = describe::Description {
                title: finding.subject.key.to_string(),
                note: format!("{} {}", finding.severity.name(), finding.code),
                ..table
            };
            let none = Rect::new(0, 0, below.width - 4, 0);
            let lines = draw_columns(painter, none, &table.lines);
            let height = below.height.min(lines.saturating_add(2));
            draw_panel(painter, Rect { height, ..below }, &table, false);
        }
    }
}
