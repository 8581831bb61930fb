//! Cost: the rate in $/h, by one scope at a time. The rows add up to the total, which is above them.

use ratatui::layout::Rect;

use crate::commands::{Command, Context};
use crate::painter::Painter;
use crate::text::{UNKNOWN, dollars, per_hour};
use crate::widget::cell::devices_words;
use model::base::DeviceAmount;
use model::cost::SpendScope;
use table::Facts;
use table::kinds::cost::{IDLE, KIND, scope_of};
use table::navigation::{RowScope, ViewId};
use table::role::Role;
use table::rows::list_price;
use table::rows::pools::{unallocated, waste};

use super::table_view::TableView;
use super::view_trait::{COST, CommandOutcome, View};
use super::{cost_history, pictures};

/// The header's idle money, and what it is the sum of: a label, `$1 284/h`, `: $944 unalloc + $340 allocated`. Unallocated
/// devices belong to no scope: there is nothing to add up in one.
pub(super) fn idle_sum(facts: &Facts) -> (&'static str, String, String) {
    let known = facts.spend_rates.known();
    let both = per_hour(known.and_then(|spend| waste(facts, &spend)));
    if facts.part.is_some() {
        return ("idle allocated ", both, String::new());
    }
    let free = dollars(known.and_then(|spend| unallocated(facts, &spend)));
    let held = dollars(known.and_then(|spend| spend.idle_allocated));
    if free == UNKNOWN && held == UNKNOWN {
        return ("idle ", "unknown".to_owned(), String::new());
    }
    (
        "idle ",
        both,
        format!(": {free} unalloc + {held} allocated"),
    )
}

/// Money by one scope, with the scopes to choose from and the total above.
pub struct CostView {
    table: TableView,
}

/// Lines above the table: scopes, total, air.
const ABOVE: u16 = 3;
/// Least lines of the picture of the days.
const LEAST_PICTURE: u16 = 9;
/// Lines that the table needs beside the ledger's panel.
const TABLE_LEAST: u16 = 10;

impl CostView {
    /// Money by this scope.
    pub fn new(scope: SpendScope) -> Self {
        Self {
            table: TableView::new(ViewId::Cost, &KIND, RowScope::Cost(scope)),
        }
    }

    /// Money for idle allocated devices, by job.
    pub fn idle() -> Self {
        Self {
            table: TableView::new(ViewId::Cost, &IDLE, RowScope::Idle),
        }
    }

    /// The areas of the table and of the ledger's panel below it: the panel is left out where the table would be too small, and what
    /// it says of the month and its budgets is above the table.
    fn below(facts: &Facts, area: Rect) -> (Rect, Rect) {
        let above = ABOVE.min(area.height);
        let left = area.height - above;
        let wanted = match cost_history::height(facts, area.width) {
            wanted @ 2.. if left >= wanted + TABLE_LEAST && area.width >= 70 => wanted,
            _ => 0,
        };
        let folded = match wanted {
            0 => cost_history::lines(facts).len().saturating_sub(1) as u16,
            _ => 0,
        };
        // The table has its titles and a few rows on any screen.
        let above = above + folded.min(left.saturating_sub(TABLE_LEAST));
        let left = area.height - above;
        let table = Rect::new(area.x, area.y + above, area.width, left - wanted);
        let history = Rect::new(area.x, table.bottom(), area.width, wanted);
        (table, history)
    }
}

impl View for CostView {
    fn id(&self) -> ViewId {
        ViewId::Cost
    }
    fn trail(&self) -> String {
        let row_scope = &self.table.table_model.row_scope;
        match row_scope {
            RowScope::Idle => String::from("wasted by job"),
            _ => format!("by {}", scope_of(row_scope).name()),
        }
    }
    fn contexts(&self) -> &'static [Context] {
        COST
    }
    fn on(&mut self, command: Command, facts: &Facts, area: Rect) -> CommandOutcome {
        if command == Command::Group {
            let scope = scope_of(&self.table.table_model.row_scope);
            let at = SpendScope::ALL.iter().position(|known| *known == scope);
            let next = SpendScope::ALL[(at.unwrap_or(0) + 1) % SpendScope::ALL.len()];
            self.table.table_model.set_lens(RowScope::Cost(next), facts);
            return CommandOutcome::Done;
        }
        self.table.obey(command, facts, Self::below(facts, area).0)
    }
    fn point(&mut self, facts: &Facts, x: u16, y: u16, area: Rect) -> bool {
        let (table, _) = Self::below(facts, area);
        y < table.bottom() && self.table.point(facts, x, y, table)
    }

    fn table(&self) -> Option<&TableView> {
        Some(&self.table)
    }
    fn table_mut(&mut self) -> Option<&mut TableView> {
        Some(&mut self.table)
    }

    fn draw(&self, facts: &Facts, painter: &mut Painter<'_>, area: Rect) {
        let chosen = scope_of(&self.table.table_model.row_scope);
        let (muted, title) = (
            painter.render_style.fg(Role::Muted),
            painter.render_style.fg(Role::Title),
        );
        let mut pieces = vec![("cost per hour by  ", muted)];
        for scope in SpendScope::ALL {
            let style = if scope == chosen {
                painter.render_style.bold(Role::Accent)
            } else {
                muted
            };
            pieces.push((scope.name(), style));
            pieces.push(("   ", muted));
        }
        let room = area.width.saturating_sub(2);
        painter.pieces(area.x + 2, area.y, room, &pieces);
        if area.height > 1 {
            let burn = &facts.spend_rates;
            let known = burn.known();
            let total = per_hour(known.map(|spend| spend.rate));
            let (label, both, parts) = idle_sum(facts);
            let devices = match burn.devices == DeviceAmount::ONE {
                true => String::from("1 device"),
                false => format!("{} devices", devices_words(burn.devices, None)),
            };
            let unpriced = if burn.unpriced > 0 {
                format!("   {} without a price", burn.unpriced)
            } else {
                String::new()
            };
            let prices = list_price::dated(&burn.prices);
            let (accent, blue) = (
                painter.render_style.bold(Role::Title),
                painter.render_style.bold(Role::IdleMoney),
            );
            let line = |(with_devices, prices)| {
                let mut pieces = vec![
                    ("total  ", muted),
                    (&*total, accent),
                    ("   ", muted),
                    (label, muted),
                    (&*both, blue),
                    (&*parts, muted),
                ];
                if with_devices {
                    pieces.extend([("   ", muted), (&*devices, title)]);
                }
                pieces.extend([
                    (&*unpriced, painter.render_style.fg(Role::Warn)),
                    ("   ", muted),
                    (prices, muted),
                    (", not a bill", muted),
                ]);
                pieces
            };
            // The source of the prices is never cut; the devices are in the header and in the table.
            let forms = [(true, &*prices), (false, &*prices)];
            let mut forms = forms.map(line).into_iter();
            let whole = forms.find(|pieces| painter.width_of(pieces) <= room);
            let pieces = whole.unwrap_or_else(|| line((false, list_price::UNDATED)));
            painter.pieces(area.x + 2, area.y + 1, room, &pieces);
        }
        let (table, history) = Self::below(facts, area);
        if history.height > 0 {
            cost_history::draw(facts, painter, history);
        } else if area.height > ABOVE {
            let lines = cost_history::lines(facts);
            for (words, y) in lines.iter().zip(area.y + 2..table.y) {
                painter.text_in_role(area.x + 2, y, room, words, Role::Muted);
            }
        }
        // What few rows leave is for the days.
        let rows = u16::try_from(self.table.table_model.rows().len()).unwrap_or(u16::MAX);
        let used = rows.saturating_add(3).min(table.height);
        let rest = table.height - used;
        let picture = match rest >= LEAST_PICTURE {
            true => pictures::of_days(facts, None),
            false => None,
        };
        let Some(picture) = picture else {
            self.table.paint(facts, painter, table, true);
            return;
        };
        let height = used;
        self.table
            .paint(facts, painter, Rect { height, ..table }, true);
        let y = table.y + used;
        let below = Rect {
            y,
            height: rest,
            ..table
        };
        pictures::draw(facts, painter, below, &[&picture]);
    }
}
