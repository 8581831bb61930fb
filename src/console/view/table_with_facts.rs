//! A table above, all that is known of the object under the cursor below. Of findings, it mutes and acknowledges too.

use ratatui::layout::Rect;

use crate::commands::{Command, Context};
use crate::painter::Painter;
use model::base::Name;
use model::cost::LIST_NOTE;
use model::fleet::finding::Finding;
use table::Facts;
use table::column::KindSpec;
use table::kinds::sources::sources;
use table::kinds::{advice, scalers};
use table::navigation::{RowScope, Selection, ViewId};
use table::role::Role;
use table::silence::{Silence, SilenceEntry};

use super::describe::{Line, describe, sources_of_kind};
use super::pictures;
use super::table_view::TableView;
use super::view_trait::{ALERTS, CommandOutcome, TABLE, View};

/// A table with the facts of its current row below, where there is room.
pub struct TableWithFacts {
    table: TableView,
}

impl TableWithFacts {
    /// The view of this kind behind a tab.
    pub fn new(id: ViewId, kind: &'static KindSpec, row_scope: RowScope) -> Self {
        Self {
            table: TableView::new(id, kind, row_scope),
        }
    }

    fn split(&self, area: Rect) -> (Rect, Rect) {
        if area.height < 16 || self.table.table_model.rows().is_empty() {
            return (area, Rect { height: 0, ..area });
        }
        let rows = u16::try_from(self.table.table_model.rows().len()).unwrap_or(u16::MAX);
        // Rows take precedence, as long as the facts below have a few lines. Where jobs and nodes fill a small screen, they have it all.
        let kept = match self.id() {
            ViewId::Jobs | ViewId::Nodes if area.height < 26 => 0,
            _ if area.height < 26 => 8,
            _ => area.height / 3,
        };
        let most = (area.height / 2).max(area.height - kept);
        if kept == 0 && rows >= most {
            return (area, Rect { height: 0, ..area });
        }
        let table = &self.table.table_model;
        let note = u16::from(table.has_list_prices() || table.unseen_note().is_some());
        let note = note + u16::from(self.table.has_total());
        let above = rows.saturating_add(1 + note).clamp(4, most);
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

    /// The alert under the cursor and its silence, if any.
    fn hushed(&self, facts: &Facts) -> Option<(Name, Option<Silence>)> {
        if std::ptr::eq(self.table.table_model.kind, &raw const advice::KIND) {
            return advice::id_and_silence(facts, self.table.table_model.current()?);
        }
        let finding = self.finding(facts)?;
        Some((finding.id.clone(), facts.silences.of(finding, facts.now)))
    }

    fn finding<'a>(&self, facts: &'a Facts) -> Option<&'a Finding> {
        match self.table.selection(facts)? {
            Selection::Finding(id) => facts.fleet.findings.iter().find(|known| known.id == id),
            _ => None,
        }
    }
}

impl View for TableWithFacts {
    fn id(&self) -> ViewId {
        self.table.id()
    }
    fn trail(&self) -> String {
        self.table.table_model.row_scope.title()
    }
    fn contexts(&self) -> &'static [Context] {
        match self.id() {
            ViewId::Alerts => ALERTS,
            _ => TABLE,
        }
    }
    fn on(&mut self, command: Command, facts: &Facts, area: Rect) -> CommandOutcome {
        let silence = match command {
            Command::Mute => Silence::Muted,
            Command::Acknowledge => Silence::Acknowledged,
            _ => {
                return self.table.obey(command, facts, self.table_area(area));
            }
        };
        let Some((id, present)) = self.hushed(facts) else {
            return CommandOutcome::Done;
        };
        // The same key again takes it back.
        let again = present == Some(silence);
        let entry = (!again).then_some(SilenceEntry {
            silence,
            at: facts.now,
        });
        CommandOutcome::Hush(id, entry)
    }
    fn table_area(&self, area: Rect) -> Rect {
        self.split(area).0
    }
    fn table(&self) -> Option<&TableView> {
        Some(&self.table)
    }
    fn table_mut(&mut self) -> Option<&mut TableView> {
        Some(&mut self.table)
    }

    fn draw(&self, facts: &Facts, painter: &mut Painter<'_>, area: Rect) {
        let (above, below) = self.split(area);
        self.table.paint_above(facts, painter, above, below);
        let table = &self.table.table_model;
        let Some(row) = table.current().filter(|_| below.height >= 4) else {
            return;
        };
        let selection = (table.kind.selection)(facts, row);
        let is_kind = selection.is_none() && self.id() == ViewId::Sources;
        let facts_of = match &selection {
            Some(selection) => describe(facts, selection, painter),
            // A row that combines several sources has no facts of a single one.
            None if is_kind => sources_of_kind(facts, row),
            None => None,
        };
        let Some(mut facts_of) = facts_of else {
            return;
        };
        // The table may cut it.
        let is_scaler = std::ptr::eq(table.kind, &raw const scalers::KIND);
        if let Some(why) = is_scaler.then(|| scalers::why(facts, row)).flatten() {
            let says = |line: &Line| matches!(line, Line::Words(_, own, _) if own.contains(&why));
            if !facts_of.lines.iter().any(says) {
                let line = Line::Words("why".into(), why, Role::Text);
                facts_of.lines.insert(0, line);
            }
        }
        // It is said once on a screen.
        if self.table.has_list_note() {
            facts_of.leave_out(LIST_NOTE);
        }
        if let Some(finding) = self.finding(facts) {
            facts_of.title = finding.subject.key.to_string();
            facts_of.note = format!("{} {}", finding.severity.name(), finding.code);
        }
        pictures::draw_under(facts, painter, below, facts_of, || match &selection {
            Some(selection) => pictures::of_selection(facts, selection),
            None => pictures::of_sources(facts, &sources(facts, row).collect::<Vec<_>>()),
        });
    }
}
