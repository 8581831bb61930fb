//! Encodes cells as terminal escape sequences, as few bytes as possible: shortest cursor moves, style differences only, and the
//! half block whose colors are set already.

use std::io::Write;

use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Position;
use ratatui::style::{Color, Modifier};

/// The output so far, and the terminal's state after it.
struct TerminalCursor {
    out: Vec<u8>,
    /// Cursor position, where known.
    at: Option<(u16, u16)>,
    /// All cells since the last cursor jump have an unambiguous width in every terminal.
    sure: bool,
    fg: Color,
    bg: Color,
    modifier: Modifier,
    width: u16,
}

const UPPER: &str = "▀";
const LOWER: &str = "▄";

const MODIFIERS: [(Modifier, &str); 9] = [
    (Modifier::BOLD, "1"),
    (Modifier::DIM, "2"),
    (Modifier::ITALIC, "3"),
    (Modifier::UNDERLINED, "4"),
    (Modifier::SLOW_BLINK, "5"),
    (Modifier::RAPID_BLINK, "6"),
    (Modifier::REVERSED, "7"),
    (Modifier::HIDDEN, "8"),
    (Modifier::CROSSED_OUT, "9"),
];

/// The bytes that change `shown` into `next`; all cells where `shown` is `None`. Leaves the terminal with the default style.
pub fn encode(shown: Option<&Buffer>, next: &Buffer, out: Vec<u8>) -> Vec<u8> {
    let mut pen = TerminalCursor {
        out,
        at: None,
        sure: true,
        fg: Color::Reset,
        bg: Color::Reset,
        modifier: Modifier::empty(),
        width: next.area.width,
    };
    let area = next.area;
    for y in area.top()..area.bottom() {
        let mut x = area.left();
        // Cells before `bare` were covered by a wide symbol that is gone: they must be painted.
        let mut bare = x;
        while x < area.right() {
            let cell = &next[(x, y)];
            let width = cells(cell.symbol()).min(area.right() - x);
            let same = shown.is_some_and(|shown| shown[(x, y)] == *cell) && x >= bare;
            if !same {
                if let Some(shown) = shown {
                    let covered = |at: u16| at + cells(shown[(at, y)].symbol());
                    let end = (x..x + width).map(covered).max();
                    bare = bare.max(end.unwrap_or(x));
                }
                pen.put(x, y, cell, width);
            }
            x += width;
        }
    }
    pen.plain();
    pen.out
}

/// Shows the cursor at a position, or hides it.
pub fn cursor(at: Option<Position>, out: &mut Vec<u8>) {
    match at {
        Some(at) => push(
            out,
            format_args!("\x1b[{};{}H\x1b[?25h", at.y + 1, at.x + 1),
        ),
        None => out.extend_from_slice(b"\x1b[?25l"),
    }
}

fn push(out: &mut Vec<u8>, words: std::fmt::Arguments<'_>) {
    out.write_fmt(words)
        .expect("a vector takes whatever is written");
}

impl TerminalCursor {
    fn put(&mut self, x: u16, y: u16, cell: &Cell, width: u16) {
        self.go(x, y);
        let (symbol, fg, bg) = self.halves(cell);
        self.style(fg, bg, cell.modifier);
        self.out.extend_from_slice(symbol.as_bytes());
        // After the last column the cursor position is undefined; after a wide symbol it is unknown.
        self.at = (x + 1 < self.width && width == 1).then_some((x + 1, y));
        self.sure &= is_single(symbol);
    }

    fn go(&mut self, x: u16, y: u16) {
        match self.at {
            Some((at, line)) if line == y && at == x => {}
            Some((at, line)) if line == y && at < x && self.sure => match x - at {
                1 => self.out.extend_from_slice(b"\x1b[C"),
                by => push(&mut self.out, format_args!("\x1b[{by}C")),
            },
            _ => {
                push(&mut self.out, format_args!("\x1b[{};{}H", y + 1, x + 1));
                self.sure = true;
            }
        }
    }

    /// A half block in two colors can be written as upper or lower half: chooses the one whose colors are set already.
    fn halves<'a>(&self, cell: &'a Cell) -> (&'a str, Color, Color) {
        let (symbol, fg, bg) = (cell.symbol(), cell.fg, cell.bg);
        let plain = cell.modifier.is_empty() && fg != Color::Reset && bg != Color::Reset;
        let kept = |fg: Color, bg: Color| u8::from(fg == self.fg) + u8::from(bg == self.bg);
        if plain && symbol == UPPER && kept(bg, fg) > kept(fg, bg) {
            (LOWER, bg, fg)
        } else {
            (symbol, fg, bg)
        }
    }

    fn style(&mut self, fg: Color, bg: Color, modifier: Modifier) {
        if (fg, bg, modifier) == (self.fg, self.bg, self.modifier) {
            return;
        }
        self.out.extend_from_slice(b"\x1b[");
        let mut first = true;
        let mut part = |out: &mut Vec<u8>| {
            if !std::mem::take(&mut first) {
                out.push(b';');
            }
        };
        // Removing a modifier resets the whole style: single modifiers have no reliable reset code.
        if !modifier.contains(self.modifier) {
            part(&mut self.out);
            self.out.push(b'0');
            (self.fg, self.bg, self.modifier) = (Color::Reset, Color::Reset, Modifier::empty());
        }
        for (one, code) in MODIFIERS {
            if modifier.contains(one) && !self.modifier.contains(one) {
                part(&mut self.out);
                self.out.extend_from_slice(code.as_bytes());
            }
        }
        if fg != self.fg {
            part(&mut self.out);
            color(&mut self.out, fg, false);
        }
        if bg != self.bg {
            part(&mut self.out);
            color(&mut self.out, bg, true);
        }
        self.out.push(b'm');
        (self.fg, self.bg, self.modifier) = (fg, bg, modifier);
    }

    fn plain(&mut self) {
        let none = (Color::Reset, Color::Reset, Modifier::empty());
        if (self.fg, self.bg, self.modifier) != none {
            self.out.extend_from_slice(b"\x1b[0m");
        }
    }
}

/// Width of a symbol in cells, at least 1.
fn cells(symbol: &str) -> u16 {
    if symbol.len() <= 1 || is_single(symbol) {
        return 1;
    }
    u16::try_from(console::text::width(symbol).max(1)).unwrap_or(1)
}

/// True for symbols of width 1 in every terminal: ASCII, box drawing, blocks and shapes.
fn is_single(symbol: &str) -> bool {
    let mut chars = symbol.chars();
    let single = |c: char| c.is_ascii_graphic() || c == ' ' || matches!(c, '─'..='▟');
    chars.next().is_some_and(single) && chars.next().is_none()
}

fn color(out: &mut Vec<u8>, color: Color, ground: bool) {
    let shift = if ground { 10 } else { 0 };
    let basic = |code: u8| 30 + shift + code;
    let bright = |code: u8| 90 + shift + code;
    let code = match color {
        Color::Rgb(r, g, b) => {
            return push(out, format_args!("{};2;{r};{g};{b}", 38 + shift));
        }
        Color::Indexed(index) => return push(out, format_args!("{};5;{index}", 38 + shift)),
        Color::Reset => 39 + shift,
        Color::Black => basic(0),
        Color::Red => basic(1),
        Color::Green => basic(2),
        Color::Yellow => basic(3),
        Color::Blue => basic(4),
        Color::Magenta => basic(5),
        Color::Cyan => basic(6),
        Color::Gray => basic(7),
        Color::DarkGray => bright(0),
        Color::LightRed => bright(1),
        Color::LightGreen => bright(2),
        Color::LightYellow => bright(3),
        Color::LightBlue => bright(4),
        Color::LightMagenta => bright(5),
        Color::LightCyan => bright(6),
        Color::White => bright(7),
    };
    push(out, format_args!("{code}"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use ratatui::layout::Rect;
    use ratatui::style::Style;

    const AREA: Rect = Rect::new(0, 0, 24, 6);

    fn parser() -> vt100::Parser {
        let size = |length: u16| length.try_into().expect("not zero");
        vt100::Parser::new(size(AREA.height), size(AREA.width), 0)
    }

    /// The visible content of a cell: for half blocks, the colors of its upper and lower half.
    fn seen(symbol: &str, fg: Color, bg: Color) -> (String, Color, Color) {
        match symbol {
            LOWER => (UPPER.to_owned(), bg, fg),
            "" => (" ".to_owned(), Color::Reset, bg),
            // The foreground of a blank is invisible.
            " " => (" ".to_owned(), Color::Reset, bg),
            other => (other.to_owned(), fg, bg),
        }
    }

    fn of_terminal(color: vt100::Color) -> Color {
        match color {
            vt100::Color::Default => Color::Reset,
            vt100::Color::Idx(index) => Color::Indexed(index),
            vt100::Color::Rgb(r, g, b) => Color::Rgb(r, g, b),
        }
    }

    fn as_index(color: Color) -> Color {
        match color {
            Color::Red => Color::Indexed(1),
            Color::DarkGray => Color::Indexed(8),
            other => other,
        }
    }

    fn check(parser: &vt100::Parser, frame: &Buffer) {
        let mut skip = 0;
        for y in 0..AREA.height {
            for x in 0..AREA.width {
                if skip > 0 {
                    skip -= 1;
                    continue;
                }
                let cell = &frame[(x, y)];
                skip = console::text::width(cell.symbol()).saturating_sub(1);
                let there = parser.screen().cell(y, x).expect("within");
                let fg = of_terminal(there.fgcolor());
                let bg = of_terminal(there.bgcolor());
                assert_eq!(
                    seen(there.contents(), fg, bg),
                    seen(cell.symbol(), as_index(cell.fg), as_index(cell.bg)),
                    "at {x},{y}"
                );
                if !cell.symbol().trim().is_empty() {
                    let bold = cell.modifier.contains(Modifier::BOLD);
                    let turned = cell.modifier.contains(Modifier::REVERSED);
                    assert_eq!((there.bold(), there.inverse()), (bold, turned), "{x},{y}");
                }
            }
        }
    }

    fn colors() -> impl Strategy<Value = Color> {
        prop_oneof![
            Just(Color::Reset),
            Just(Color::Red),
            Just(Color::DarkGray),
            (0..4u8).prop_map(|level| Color::Rgb(level * 60, 10, 200 - level)),
            (16..20u8).prop_map(Color::Indexed),
        ]
    }

    fn writes() -> impl Strategy<Value = Vec<(u16, u16, &'static str, Color, Color, u8)>> {
        let symbols =
            prop::sample::select(vec!["a", "Z", "▀", "▀", "▀", "▄", "│", "●", "日", " ", "é"]);
        let one = (
            0..AREA.width,
            0..AREA.height,
            symbols,
            colors(),
            colors(),
            0..4u8,
        );
        prop::collection::vec(one, 0..120)
    }

    fn painted(before: &Buffer, writes: &[(u16, u16, &str, Color, Color, u8)]) -> Buffer {
        let mut frame = before.clone();
        for (x, y, symbol, fg, bg, modifier) in writes {
            // A symbol under the second half of a wide one erases the wide one.
            if *x > 0 && console::text::width(frame[(x - 1, *y)].symbol()) > 1 {
                frame[(x - 1, *y)].reset();
            }
            let mut style = Style::reset().fg(*fg).bg(*bg);
            if modifier & 1 > 0 {
                style = style.add_modifier(Modifier::BOLD);
            }
            if modifier & 2 > 0 {
                style = style.add_modifier(Modifier::REVERSED);
            }
            frame.set_stringn(*x, *y, symbol, usize::from(AREA.width - x), style);
        }
        frame
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(192))]
        #[test]
        fn a_terminal_comes_to_show_every_frame(first in writes(), second in writes(), third in writes()) {
            let mut parser = parser();
            parser.process(b"leftovers of a shell\r\n$ ");
            let mut shown = Buffer::empty(AREA);
            for (nth, writes) in [first, second, third].iter().enumerate() {
                let next = painted(&shown, writes);
                let known = (nth > 0).then_some(&shown);
                parser.process(&encode(known, &next, Vec::new()));
                check(&parser, &next);
                assert!(encode(Some(&next), &next, Vec::new()).is_empty());
                shown = next;
            }
        }
    }

    #[test]
    fn a_change_of_one_half_says_one_color() {
        let (hot, cold, warm) = (
            Color::Rgb(200, 30, 10),
            Color::Rgb(20, 20, 20),
            Color::Rgb(90, 9, 9),
        );
        let mut frame = Buffer::empty(AREA);
        for x in 0..8 {
            frame.set_string(x, 0, UPPER, Style::new().fg(hot).bg(cold));
        }
        let mut next = frame.clone();
        // The lower half of one, and its neighbor's upper half.
        next.set_string(3, 0, UPPER, Style::new().fg(hot).bg(warm));
        next.set_string(5, 0, UPPER, Style::new().fg(warm).bg(hot));
        let bytes = encode(Some(&frame), &next, Vec::new());
        assert_eq!(
            String::from_utf8(bytes).expect("text"),
            "\x1b[1;4H\x1b[38;2;200;30;10;48;2;90;9;9m▀\x1b[C▄\x1b[0m"
        );
    }
}
