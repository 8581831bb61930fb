//! The palette: its text, its offers, and how these are drawn.

use std::sync::Arc;

use ratatui::layout::{Position, Rect};

use crate::commands::Command;
use crate::msg::KeyPress;
use crate::painter::Painter;
use crate::screen::Screen;
use crate::widget::field::TextField;
use crate::widget::panel::{centred, popup, wide};
use model::fleet::Fleet;
use table::role::Role;

use super::offers::{NameIndex, offers};
use super::verdict::{Offer, Verdict};

/// The palette's state. Offers are computed on typing, never while drawing.
pub struct Palette {
    field: TextField,
    chosen: usize,
    offers: Vec<Offer>,
    found: usize,
    /// The names of all objects, indexed on the first letter typed.
    index: Option<(Arc<Fleet>, NameIndex)>,
}

impl Palette {
    pub(super) fn new(screen: &dyn Screen, words: &str) -> Self {
        let mut palette = Self {
            field: TextField::new(words),
            chosen: 0,
            offers: Vec::new(),
            found: 0,
            index: None,
        };
        palette.look(screen);
        palette
    }

    pub(super) fn paste(&mut self, words: &str, screen: &dyn Screen) {
        self.field.insert(words);
        self.look(screen);
    }

    /// Searches for the text.
    fn look(&mut self, screen: &dyn Screen) {
        let text = self.field.text();
        self.chosen = 0;
        if !text.trim().is_empty() && self.index.is_none() {
            let fleet = Arc::clone(&screen.facts().fleet);
            let index = NameIndex::of(&fleet);
            self.index = Some((fleet, index));
        }
        let index = self.index.as_mut().map(|(_, index)| index);
        (self.offers, self.found) = offers(screen, text, index);
    }

    pub(super) fn key(
        &mut self,
        press: KeyPress,
        command: Option<Command>,
        screen: &dyn Screen,
    ) -> Verdict {
        let count = self.offers.len().max(1);
        match command {
            Some(Command::Close) => return Verdict::Close,
            Some(Command::Next) => self.chosen = (self.chosen + 1) % count,
            Some(Command::Previous) => self.chosen = (self.chosen + count - 1) % count,
            Some(Command::Accept) => {
                if let Some(offer) = self.offers.get(self.chosen) {
                    return Verdict::Navigation(offer.go.clone());
                }
            }
            _ => {
                if self.field.key(press) {
                    self.look(screen);
                }
            }
        }
        Verdict::Stay
    }

    pub(super) fn draw(&self, painter: &mut Painter<'_>, area: Rect) -> Position {
        let rows = u16::try_from(self.offers.len().clamp(1, 12)).unwrap_or(12);
        let mut frame = centred(area, wide(area.width, 84), rows + 4);
        frame.y = area.y + (area.height - frame.height) / 4;
        let note = if self.found > self.offers.len() {
            format!("{} of {}", self.offers.len(), self.found)
        } else {
            String::new()
        };
        let inside = popup(painter, frame, "go to, or do", &note);
        painter.text_in_role(inside.x, inside.y, 2, ":", Role::Accent);
        let room = inside.width.saturating_sub(2);
        let cursor = self.field.draw(painter, inside.x + 2, inside.y, room);
        let shown = usize::from(inside.height.saturating_sub(2));
        let first = (self.chosen + 1).saturating_sub(shown.max(1));
        if self.offers.is_empty() && inside.height > 2 {
            let words = "no match";
            painter.text_in_role(inside.x, inside.y + 2, inside.width, words, Role::Muted);
        }
        let names = self
            .offers
            .iter()
            .skip(first)
            .take(shown)
            .map(|offer| painter.width(&offer.label))
            .max()
            .unwrap_or(0)
            .clamp(18, (inside.width / 2).max(18));
        for (line, offer) in self.offers.iter().enumerate().skip(first).take(shown) {
            let y = inside.y + 2 + (line - first) as u16;
            let (x, width) = (inside.x, inside.width);
            if line == self.chosen {
                painter.background(Rect::new(x, y, width, 1), Role::Selection);
                painter.sign(x, y, "▌", painter.render_style.fg(Role::Accent));
            }
            painter.text_in_role(x + 2, y, names, &offer.label, Role::Title);
            let left = width.saturating_sub(names + 4);
            painter.text_in_role(x + names + 4, y, left, &offer.doc, Role::Muted);
        }
        cursor
    }
}
