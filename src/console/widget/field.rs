//! A line of text that is being typed.

use ratatui::layout::Position;
use ratatui::style::Modifier;
use unicode_segmentation::UnicodeSegmentation;

use crate::msg::{Key, KeyPress};
use crate::painter::Painter;
use crate::text;
use model::base::name::printable;
use table::role::Role;

/// Most characters that are taken: a paste of a whole file must not freeze the screen.
const LONGEST: usize = 400;

/// Text with a cursor.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TextField {
    text: String,
    /// Byte offset of the cursor, between graphemes.
    at: usize,
    /// All text is selected: the first typed character replaces it.
    selected: bool,
}

impl TextField {
    /// A field with this text and the cursor at its end.
    pub fn new(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            at: text.len(),
            selected: false,
        }
    }

    /// A field with this text selected: the first character typed replaces it, an editing key keeps it.
    pub fn selected(text: &str) -> Self {
        Self {
            selected: !text.is_empty(),
            ..Self::new(text)
        }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Inserts text at the cursor, or replaces the selection: one line, without control characters.
    pub fn insert(&mut self, words: &str) {
        if std::mem::take(&mut self.selected) {
            self.text.clear();
            self.at = 0;
        }
        let line: String = printable(words)
            .chars()
            .filter(|c| *c != '\u{fffd}')
            .take(LONGEST.saturating_sub(self.text.chars().count()))
            .collect();
        self.text.insert_str(self.at, &line);
        self.at += line.len();
    }

    /// Takes a key; true when the text changed or the cursor moved.
    pub fn key(&mut self, press: KeyPress) -> bool {
        let before = (self.text.len(), self.at, self.selected);
        if !matches!(
            (press.key, press.ctrl, press.alt),
            (Key::Char(_), false, false)
        ) {
            self.selected = false;
        }
        match (press.key, press.ctrl, press.alt) {
            (Key::Char(c), false, false) => self.insert(c.encode_utf8(&mut [0; 4])),
            (Key::Backspace, false, false) | (Key::Char('h'), true, false) => {
                let from = self.left();
                self.text.replace_range(from..self.at, "");
                self.at = from;
            }
            (Key::Delete, ..) | (Key::Char('d'), true, false) => {
                let to = self.right();
                self.text.replace_range(self.at..to, "");
            }
            (Key::Left, ..) | (Key::Char('b'), true, false) => self.at = self.left(),
            (Key::Right, ..) | (Key::Char('f'), true, false) => self.at = self.right(),
            (Key::Home, ..) | (Key::Char('a'), true, false) => self.at = 0,
            (Key::End, ..) | (Key::Char('e'), true, false) => self.at = self.text.len(),
            (Key::Char('u'), true, false) => {
                self.text.replace_range(..self.at, "");
                self.at = 0;
            }
            (Key::Char('k'), true, false) => self.text.truncate(self.at),
            (Key::Char('w'), true, false) | (Key::Backspace, ..) => {
                let head = self.text[..self.at].trim_end();
                let from = head.rfind(char::is_whitespace).map_or(0, |at| {
                    at + head[at..].chars().next().map_or(1, char::len_utf8)
                });
                self.text.replace_range(from..self.at, "");
                self.at = from;
            }
            _ => return false,
        }
        before != (self.text.len(), self.at, self.selected)
    }

    fn left(&self) -> usize {
        self.text[..self.at]
            .grapheme_indices(true)
            .next_back()
            .map_or(0, |(at, _)| at)
    }

    fn right(&self) -> usize {
        self.text[self.at..]
            .graphemes(true)
            .next()
            .map_or(self.at, |grapheme| self.at + grapheme.len())
    }

    /// Paints the text so that the cursor is visible; returns the cursor's position.
    pub fn draw(&self, painter: &mut Painter<'_>, x: u16, y: u16, width: u16) -> Position {
        let before = text::width(&text::clean(
            &self.text[..self.at],
            painter.render_style.ascii,
        ));
        let room = usize::from(width.saturating_sub(1));
        // What does not fit is left out at the front.
        let (mut skip, mut shown) = (0, before);
        for grapheme in self.text[..self.at].graphemes(true) {
            if shown <= room {
                break;
            }
            skip += grapheme.len();
            shown -= text::width(&text::clean(grapheme, painter.render_style.ascii));
        }
        let mut style = painter.render_style.fg(Role::Title);
        if self.selected {
            // Reversed in every depth of color: without any, nothing else would show it.
            style = style.add_modifier(Modifier::REVERSED);
        }
        painter.text(x, y, width, &self.text[skip..], style);
        Position::new(x + u16::try_from(shown).unwrap_or(0).min(width), y)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(field: &mut TextField, keys: &[KeyPress]) {
        for key in keys {
            field.key(*key);
        }
    }

    #[test]
    fn a_line_is_edited_as_in_a_shell() {
        let mut field = TextField::new("util<20 held>2h");
        typed(&mut field, &[KeyPress::ctrl('w')]);
        assert_eq!(field.text(), "util<20 ");
        typed(&mut field, &[KeyPress::ctrl('a'), KeyPress::char('x')]);
        assert_eq!(field.text(), "xutil<20 ");
        typed(
            &mut field,
            &[KeyPress::plain(Key::Delete), KeyPress::ctrl('k')],
        );
        assert_eq!(field.text(), "x");
        typed(&mut field, &[KeyPress::ctrl('u')]);
        assert_eq!(field.text(), "");
    }

    #[test]
    fn what_is_selected_is_replaced_by_what_is_typed_and_kept_by_editing() {
        let mut field = TextField::selected("pool:l4");
        typed(&mut field, &[KeyPress::char('x'), KeyPress::char('y')]);
        assert_eq!(field.text(), "xy");
        for (key, kept) in [
            (Key::Left, "pool:l!4"),
            (Key::End, "pool:l4!"),
            (Key::Backspace, "pool:l!"),
        ] {
            let mut field = TextField::selected("pool:l4");
            typed(&mut field, &[KeyPress::plain(key), KeyPress::char('!')]);
            assert_eq!(field.text(), kept);
        }
        let mut field = TextField::selected("pool:l4");
        field.insert("pasted");
        assert_eq!(field.text(), "pasted");
    }

    #[test]
    fn graphemes_go_whole_and_pastes_are_one_short_line() {
        let mut field = TextField::new("a👩‍👩‍👧");
        field.key(KeyPress::plain(Key::Backspace));
        assert_eq!(field.text(), "a");
        field.insert("b\u{1b}[2J\nc");
        assert_eq!(field.text(), "ab[2Jc");
        field.insert(&"x".repeat(100_000));
        assert_eq!(field.text().len(), LONGEST);
    }
}
