//! What changed, newest first, and what it costs: as far as this session saw it, or between two moments of a record.

use std::borrow::Cow;

use ratatui::layout::Rect;

use crate::commands::{Command, Context};
use crate::painter::Painter;
use crate::text::wrap;
use model::cost::LIST_NOTE;
use table::Facts;
use table::changes::{
    FleetChanges, MoneyChange, is_by_list, money_lines, seen_note, seen_summary, summary,
};
use table::kinds::changes::KIND;
use table::navigation::{RowScope, ViewId};
use table::role::Role;

use super::table_view::TableView;
use super::view_trait::{CommandOutcome, TABLE, View};

/// A table of changes, with their money and notes above it.
pub struct ChangesView {
    table: TableView,
    /// Below the title: what could not be compared or was not seen, and what stands for money; empty where there is nothing to say.
    notes: String,
}

/// What a view of changes shows.
enum ShownChanges<'f> {
    /// Nothing yet, and why.
    Not(String),
    /// A comparison that failed, and why.
    Failed(&'f str),
    Changes {
        title: String,
        changes: &'f FleetChanges,
        money: Cow<'f, [MoneyChange]>,
        /// Since when the money differs, where that is not in the title.
        money_since: String,
        notes: Vec<String>,
    },
}

impl ChangesView {
    /// The changes of a scope: a comparison, what this session saw, or one cause in one of them.
    pub fn new(row_scope: RowScope) -> Self {
        Self {
            table: TableView::new(ViewId::Alerts, &KIND, row_scope),
            notes: String::new(),
        }
    }

    fn shown<'f>(&self, facts: &'f Facts) -> ShownChanges<'f> {
        if let RowScope::Changes(name) | RowScope::OneCause(Some(name), _) =
            &self.table.table_model.row_scope
        {
            return match facts.compared.get(name) {
                None => ShownChanges::Not(format!("{name} · comparing…")),
                Some((_, Err(why))) => ShownChanges::Failed(why),
                Some((_, Ok(changes))) => ShownChanges::Changes {
                    title: summary(changes),
                    changes,
                    money: Cow::Borrowed(&changes.money),
                    money_since: String::new(),
                    notes: changes.notes.clone(),
                },
            };
        }
        match &facts.changes {
            None => ShownChanges::Not("the first lists are being read".to_owned()),
            Some(seen) => ShownChanges::Changes {
                title: seen_summary(seen),
                changes: &seen.changes,
                money: Cow::Owned(seen.money(facts)),
                money_since: format!("since {} UTC: ", seen.compared_since.clock()),
                notes: vec![seen_note(seen)],
            },
        }
    }

    /// The notes, in lines as wide as the view.
    fn note_lines(&self, area: Rect) -> Vec<String> {
        match self.notes.is_empty() {
            true => Vec::new(),
            false => wrap(&self.notes, usize::from(area.width.saturating_sub(4))),
        }
    }

    /// Above the table: what is compared, its money, what could not be compared, air.
    fn below(&self, area: Rect) -> Rect {
        let lines = self.note_lines(area).len() as u16;
        let above = (3 + lines).min(area.height);
        Rect::new(area.x, area.y + above, area.width, area.height - above)
    }
}

/// Cost in one line: the total, then the teams whose cost differs most.
fn money_text(money: &[MoneyChange]) -> String {
    let line = |[title, before, after, by]: [String; 4]| match by.as_str() {
        "" if before == after => format!("{title} {after}"),
        "" => format!("{title} {before} to {after}"),
        by => format!("{title} {after} ({by})"),
    };
    let lines: Vec<String> = money_lines(money).into_iter().map(line).collect();
    lines.join(" · ")
}

impl View for ChangesView {
    fn id(&self) -> ViewId {
        ViewId::Alerts
    }
    fn trail(&self) -> String {
        self.table.table_model.row_scope.title()
    }
    fn contexts(&self) -> &'static [Context] {
        TABLE
    }
    fn refresh(&mut self, facts: &Facts, settle: bool) {
        self.notes = match self.shown(facts) {
            ShownChanges::Changes { money, notes, .. } => {
                let listed = is_by_list(&money).then(|| LIST_NOTE.to_owned());
                notes
                    .into_iter()
                    .chain(listed)
                    .collect::<Vec<_>>()
                    .join(" · ")
            }
            ShownChanges::Not(_) | ShownChanges::Failed(_) => String::new(),
        };
        self.table.refresh(facts, settle);
    }
    fn on(&mut self, command: Command, facts: &Facts, area: Rect) -> CommandOutcome {
        self.table.obey(command, facts, self.below(area))
    }
    fn table_area(&self, area: Rect) -> Rect {
        self.below(area)
    }
    fn table(&self) -> Option<&TableView> {
        Some(&self.table)
    }
    fn table_mut(&mut self) -> Option<&mut TableView> {
        Some(&mut self.table)
    }

    fn draw(&self, facts: &Facts, painter: &mut Painter<'_>, area: Rect) {
        let room = area.width.saturating_sub(4);
        let x = area.x + 2;
        let (title, changes, money) = match self.shown(facts) {
            ShownChanges::Changes {
                title,
                changes,
                money,
                money_since,
                ..
            } => (title, changes, money_since + &money_text(&money)),
            ShownChanges::Not(words) => {
                painter.text_in_role(x, area.y, room, &words, Role::Muted);
                return;
            }
            ShownChanges::Failed(why) => {
                for (line, words) in wrap(why, usize::from(room)).iter().enumerate() {
                    let y = area.y.saturating_add(line as u16);
                    painter.text_in_role(x, y, room, words, Role::Crit);
                }
                return;
            }
        };
        painter.text_in_role(x, area.y, room, &title, Role::Title);
        painter.text_in_role(x, area.y + 1, room, &money, Role::Text);
        for (line, words) in self.note_lines(area).iter().enumerate() {
            let y = area.y.saturating_add(2 + line as u16);
            painter.text_in_role(x, y, room, words, Role::Muted);
        }
        if !changes.changes.is_empty() {
            self.table.paint(facts, painter, self.below(area), true);
        }
    }
}
