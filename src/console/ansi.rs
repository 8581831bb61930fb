//! A frame as text with ANSI colors: for `cat`, pagers and chats.

use std::fmt::Write;

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};

use super::text;

/// The buffer line by line, each ended by a reset and without trailing blanks in the default background.
pub fn ansi(buf: &Buffer) -> String {
    let mut out = String::with_capacity(buf.content.len() * 4);
    for y in buf.area.top()..buf.area.bottom() {
        let plain = |cell: &Cell| {
            cell.symbol() == " "
                && cell.bg == Color::Reset
                && !cell.modifier.contains(Modifier::REVERSED)
        };
        let end = (buf.area.left()..buf.area.right())
            .rev()
            .find(|x| !plain(&buf[(*x, y)]))
            .map_or(buf.area.left(), |x| x + 1);
        let mut last = String::new();
        let mut skip = 0;
        for x in buf.area.left()..end {
            if skip > 0 {
                skip -= 1;
                continue;
            }
            let cell = &buf[(x, y)];
            let style = sequence(cell);
            if style != last {
                out.push_str(&style);
                last = style;
            }
            out.push_str(cell.symbol());
            skip = text::width(cell.symbol()).saturating_sub(1);
        }
        if !last.is_empty() && last != RESET {
            out.push_str(RESET);
        }
        out.push('\n');
    }
    out
}

const RESET: &str = "\u{1b}[0m";

/// The escape sequence that sets a cell's whole style, independent of the previous style.
fn sequence(cell: &Cell) -> String {
    let mut out = String::from("\u{1b}[0");
    for (modifier, code) in [
        (Modifier::BOLD, 1),
        (Modifier::DIM, 2),
        (Modifier::ITALIC, 3),
        (Modifier::UNDERLINED, 4),
        (Modifier::REVERSED, 7),
    ] {
        if cell.modifier.contains(modifier) {
            let _ = write!(out, ";{code}");
        }
    }
    color(&mut out, cell.fg, 30);
    color(&mut out, cell.bg, 40);
    out.push('m');
    out
}

/// Appends a color; `base` is 30 for the foreground and 40 for the background.
fn color(out: &mut String, color: Color, base: u8) {
    let number = match color {
        Color::Reset => return,
        Color::Rgb(r, g, b) => {
            let _ = write!(out, ";{};2;{r};{g};{b}", base + 8);
            return;
        }
        Color::Indexed(index) => {
            let _ = write!(out, ";{};5;{index}", base + 8);
            return;
        }
        Color::Black => 0,
        Color::Red => 1,
        Color::Green => 2,
        Color::Yellow => 3,
        Color::Blue => 4,
        Color::Magenta => 5,
        Color::Cyan => 6,
        Color::Gray => 7,
        Color::DarkGray => 60,
        Color::LightRed => 61,
        Color::LightGreen => 62,
        Color::LightYellow => 63,
        Color::LightBlue => 64,
        Color::LightMagenta => 65,
        Color::LightCyan => 66,
        Color::White => 67,
    };
    let _ = write!(out, ";{}", base + number);
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::layout::Rect;
    use ratatui::style::Style;

    #[test]
    fn a_line_sets_each_style_once_and_resets_at_its_end() {
        let mut buf = Buffer::empty(Rect::new(0, 0, 6, 2));
        buf.set_string(0, 0, "ab", Style::new().fg(Color::Rgb(1, 2, 3)));
        buf.set_string(
            2,
            0,
            "日",
            Style::new().bg(Color::Red).add_modifier(Modifier::BOLD),
        );
        assert_eq!(
            ansi(&buf),
            "\u{1b}[0;38;2;1;2;3mab\u{1b}[0;1;41m日\u{1b}[0m\n\n"
        );
    }
}
