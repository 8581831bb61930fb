//! The filter line at the bottom of the screen: applied while typing, with errors beside it.

use ratatui::layout::{Position, Rect};

use crate::commands::Command;
use crate::msg::KeyPress;
use crate::painter::Painter;
use crate::screen::Screen;
use crate::widget::field::TextField;
use table::role::Role;

use super::verdict::Verdict;

/// The typed text, the filter before it, and the error.
pub struct FilterLine {
    field: TextField,
    before: String,
    pub(super) wrong: Option<String>,
    /// Index of the recalled filter in the field, 1 for the latest; 0 is the typed text.
    recalled: usize,
    typed: String,
}

impl FilterLine {
    pub(super) fn new(now: &str) -> Self {
        Self {
            field: TextField::selected(now),
            before: now.to_owned(),
            wrong: None,
            recalled: 0,
            typed: now.to_owned(),
        }
    }

    pub(super) fn paste(&mut self, words: &str) -> Verdict {
        self.field.insert(words);
        self.changed()
    }

    pub(super) fn key(
        &mut self,
        press: KeyPress,
        command: Option<Command>,
        screen: &dyn Screen,
    ) -> Verdict {
        match command {
            Some(Command::Close) => Verdict::Filter(self.before.clone(), false),
            Some(Command::Accept) => Verdict::Filter(self.field.text().to_owned(), false),
            Some(Command::Previous) => self.recall(screen, self.recalled + 1),
            Some(Command::Next) => match self.recalled.checked_sub(1) {
                Some(later) => self.recall(screen, later),
                None => Verdict::Stay,
            },
            _ if self.field.key(press) => self.changed(),
            _ => Verdict::Stay,
        }
    }

    fn changed(&mut self) -> Verdict {
        self.recalled = 0;
        self.field.text().clone_into(&mut self.typed);
        Verdict::Filter(self.typed.clone(), true)
    }

    /// Puts an earlier filter of this view into the field.
    fn recall(&mut self, screen: &dyn Screen, nth: usize) -> Verdict {
        let used = screen.filters(screen.view().id());
        let words = match nth.checked_sub(1) {
            None => self.typed.clone(),
            Some(back) => match used.len().checked_sub(back + 1) {
                Some(at) => used[at].clone(),
                None => return Verdict::Stay,
            },
        };
        self.recalled = nth;
        self.field = TextField::new(&words);
        Verdict::Filter(words, true)
    }

    pub(super) fn draw(
        &self,
        screen: &dyn Screen,
        painter: &mut Painter<'_>,
        area: Rect,
    ) -> Position {
        let y = area.bottom().saturating_sub(1);
        painter.clear(Rect::new(area.x, y, area.width, 1), Role::Panel);
        painter.text_in_role(area.x + 1, y, 1, "/", Role::Accent);
        let (shown, total) = screen.view().counts();
        let (note, role) = match &self.wrong {
            Some(wrong) => (wrong.clone(), Role::Crit),
            None => (format!("{shown} of {total}"), Role::Muted),
        };
        let note_room = area.width.saturating_sub(3) / 2;
        let style = painter.render_style.fg(role);
        let used = painter.text_right(area.right().saturating_sub(1), y, note_room, &note, style);
        let room = area.width.saturating_sub(5 + used);
        self.field.draw(painter, area.x + 3, y, room)
    }
}
