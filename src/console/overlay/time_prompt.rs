//! The prompt for a time of a record.

use ratatui::layout::{Position, Rect};

use crate::commands::Command;
use crate::msg::KeyPress;
use crate::painter::Painter;
use crate::screen::Screen;
use crate::widget::field::TextField;
use model::base::When;
use table::role::Role;

use super::verdict::{Navigation, Verdict};

/// The accepted formats of a time, shown until there is an error.
const FORMATS: &str = "03:12 · yesterday 14:00 · -2h · 2026-11-21 06:40 (UTC) · now: live again";

/// The prompt: the typed text, and the error of the last attempt.
pub struct TimePrompt {
    field: TextField,
    error: Option<String>,
}

impl TimePrompt {
    pub(super) fn new() -> Self {
        Self {
            field: TextField::new(""),
            error: None,
        }
    }

    pub(super) fn paste(&mut self, words: &str) {
        self.field.insert(words);
        self.error = None;
    }

    pub(super) fn key(
        &mut self,
        press: KeyPress,
        command: Option<Command>,
        screen: &dyn Screen,
    ) -> Verdict {
        match command {
            Some(Command::Close) => return Verdict::Close,
            Some(Command::Accept) => match self.read_time(screen) {
                Ok(to) => return Verdict::Navigation(to),
                Err(why) => self.error = Some(why),
            },
            _ if self.field.key(press) => self.error = None,
            _ => {}
        }
        Verdict::Stay
    }

    /// Where the typed time leads; an error when the text is no time, or the record does not have this time.
    fn read_time(&self, screen: &dyn Screen) -> Result<Navigation, String> {
        let is_present = matches!(self.field.text().trim(), "now" | "live");
        match (is_present, screen.is_rewound()) {
            (true, true) => return Ok(Navigation::Live),
            (true, false) if screen.timeline().is_none() => {
                return Err(String::from("this is the present"));
            }
            _ => {}
        }
        let when = When::parse(self.field.text())?;
        let Some(timeline) = screen.timeline() else {
            return Ok(Navigation::Rewind(when));
        };
        let at = when.in_record(timeline.from, timeline.to);
        let stamp = at.rfc3339();
        if at < timeline.from {
            let first = timeline.from.rfc3339();
            return Err(format!("{stamp}: the record begins at {first}"));
        }
        if at > timeline.to {
            let last = timeline.to.rfc3339();
            return Err(format!("{stamp}: the record ends at {last}"));
        }
        Ok(Navigation::Time(at))
    }

    pub(super) fn draw(&self, painter: &mut Painter<'_>, area: Rect) -> Position {
        let y = area.bottom().saturating_sub(1);
        painter.clear(Rect::new(area.x, y, area.width, 1), Role::Panel);
        let used = painter.text_in_role(area.x + 1, y, 12, "go to time", Role::Accent);
        let (note, role) = match &self.error {
            Some(error) => (error.as_str(), Role::Crit),
            None => (FORMATS, Role::Muted),
        };
        let x = area.x + 1 + used + 2;
        // A time is short: the formats or the error use the rest of the line.
        let note_room = area.right().saturating_sub(x + 24);
        let style = painter.render_style.fg(role);
        let note_width =
            painter.text_right(area.right().saturating_sub(1), y, note_room, note, style);
        let room = area.right().saturating_sub(x + note_width + 3);
        self.field.draw(painter, x, y, room)
    }
}
