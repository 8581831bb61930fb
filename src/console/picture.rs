//! A frame as an SVG image: saved by `ctrl-s` and shown in the README.

use std::fmt::Write;

use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier};

use super::color::Rgb;
use super::text;
use super::theme::Theme;
use table::role::Role;

/// Size of a cell, pixels.
const CELL: (f64, f64) = (9.0, 18.0);

/// The buffer as an SVG document. Block characters are drawn as shapes, so that no font leaves gaps.
pub fn svg(buf: &Buffer, theme: &Theme) -> String {
    let (width, height) = (
        f64::from(buf.area.width) * CELL.0,
        f64::from(buf.area.height) * CELL.1,
    );
    let ground = theme.color(Role::Background);
    let mut out = String::with_capacity(buf.content.len() * 24);
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"'JetBrains Mono','DejaVu Sans Mono',Menlo,Consolas,monospace\" font-size=\"15\" xml:space=\"preserve\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"{}\"/>\n",
        ground.hex()
    );
    for y in 0..buf.area.height {
        grounds(&mut out, buf, y, theme);
        signs(&mut out, buf, y, theme);
    }
    out.push_str("</svg>\n");
    out
}

/// One line's backgrounds, as runs of one color.
fn grounds(out: &mut String, buf: &Buffer, y: u16, theme: &Theme) {
    let ground = theme.color(Role::Background);
    let mut run: Option<(u16, Rgb, u16)> = None;
    for x in 0..buf.area.width {
        let cell = &buf[(buf.area.x + x, buf.area.y + y)];
        let (_, bg) = colors(cell.fg, cell.bg, cell.modifier, theme);
        match &mut run {
            Some((_, color, length)) if *color == bg => *length += 1,
            _ => {
                flush_ground(out, run.take(), y, ground);
                run = Some((x, bg, 1));
            }
        }
    }
    flush_ground(out, run, y, ground);
}

/// One line's block characters and text.
fn signs(out: &mut String, buf: &Buffer, y: u16, theme: &Theme) {
    let mut words: Option<Words> = None;
    for x in 0..buf.area.width {
        let cell = &buf[(buf.area.x + x, buf.area.y + y)];
        let (fg, _) = colors(cell.fg, cell.bg, cell.modifier, theme);
        let sign = cell.symbol();
        let bold = cell.modifier.contains(Modifier::BOLD);
        if let Some((left, top, width, height)) = shape(sign) {
            flush_words(out, words.take(), y);
            let _ = writeln!(
                out,
                "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\" shape-rendering=\"crispEdges\"/>",
                (f64::from(x) + left) * CELL.0,
                (f64::from(y) + top) * CELL.1,
                width * CELL.0,
                height * CELL.1,
                fg.hex()
            );
        } else if sign == " " || sign.is_empty() {
            flush_words(out, words.take(), y);
        } else {
            match &mut words {
                Some(words) if sign.is_ascii() && words.same(fg, bold) => words.text.push_str(sign),
                _ => {
                    flush_words(out, words.take(), y);
                    words = Some(Words {
                        x,
                        fg,
                        bold,
                        plain: sign.is_ascii(),
                        text: sign.to_owned(),
                    });
                }
            }
        }
    }
    flush_words(out, words, y);
}

struct Words {
    x: u16,
    fg: Rgb,
    bold: bool,
    plain: bool,
    text: String,
}

impl Words {
    fn same(&self, fg: Rgb, bold: bool) -> bool {
        self.plain && self.fg == fg && self.bold == bold
    }
}

fn flush_ground(out: &mut String, run: Option<(u16, Rgb, u16)>, y: u16, ground: Rgb) {
    if let Some((x, color, length)) = run
        && color != ground
    {
        let _ = writeln!(
            out,
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\" shape-rendering=\"crispEdges\"/>",
            f64::from(x) * CELL.0,
            f64::from(y) * CELL.1,
            f64::from(length) * CELL.0,
            CELL.1,
            color.hex()
        );
    }
}

fn flush_words(out: &mut String, words: Option<Words>, y: u16) {
    let Some(words) = words else { return };
    let weight = if words.bold {
        " font-weight=\"bold\""
    } else {
        ""
    };
    let cells = text::width(&words.text);
    let escaped = words
        .text
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    let _ = writeln!(
        out,
        "<text x=\"{}\" y=\"{}\" fill=\"{}\" textLength=\"{}\" lengthAdjust=\"spacingAndGlyphs\"{weight}>{escaped}</text>",
        f64::from(words.x) * CELL.0,
        f64::from(y) * CELL.1 + CELL.1 * 0.75,
        words.fg.hex(),
        cells as f64 * CELL.0,
    );
}

/// The part of a cell that a block character fills: left, top, width, height, each 0 to 1.
fn shape(sign: &str) -> Option<(f64, f64, f64, f64)> {
    Some(match sign {
        "█" => (0.0, 0.0, 1.0, 1.0),
        "▀" => (0.0, 0.0, 1.0, 0.5),
        "▄" => (0.0, 0.5, 1.0, 0.5),
        "▁" => (0.0, 0.875, 1.0, 0.125),
        "▂" => (0.0, 0.75, 1.0, 0.25),
        "▃" => (0.0, 0.625, 1.0, 0.375),
        "▅" => (0.0, 0.375, 1.0, 0.625),
        "▆" => (0.0, 0.25, 1.0, 0.75),
        "▇" => (0.0, 0.125, 1.0, 0.875),
        "▌" => (0.0, 0.0, 0.5, 1.0),
        _ => return None,
    })
}

fn colors(fg: Color, bg: Color, modifier: Modifier, theme: &Theme) -> (Rgb, Rgb) {
    let fg = rgb(fg).unwrap_or_else(|| theme.color(Role::Text));
    let bg = rgb(bg).unwrap_or_else(|| theme.color(Role::Background));
    if modifier.contains(Modifier::REVERSED) {
        (bg, fg)
    } else {
        (fg, bg)
    }
}

/// The color with xterm's palette; `None` for the terminal's default.
fn rgb(color: Color) -> Option<Rgb> {
    Some(match color {
        Color::Rgb(r, g, b) => Rgb(r, g, b),
        Color::Indexed(index @ 16..) => Rgb::of_256(index),
        Color::Black => Rgb(0, 0, 0),
        Color::Red => Rgb(205, 0, 0),
        Color::Green => Rgb(0, 205, 0),
        Color::Yellow => Rgb(205, 205, 0),
        Color::Blue => Rgb(70, 70, 238),
        Color::Magenta => Rgb(205, 0, 205),
        Color::Cyan => Rgb(0, 205, 205),
        Color::Gray => Rgb(229, 229, 229),
        Color::DarkGray => Rgb(127, 127, 127),
        Color::LightRed => Rgb(255, 90, 90),
        Color::LightGreen => Rgb(0, 255, 0),
        Color::LightYellow => Rgb(255, 255, 0),
        Color::LightBlue => Rgb(92, 92, 255),
        Color::LightMagenta => Rgb(255, 0, 255),
        Color::LightCyan => Rgb(0, 255, 255),
        Color::White => Rgb(255, 255, 255),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use ratatui::layout::Rect;
    use ratatui::style::Style;

    use super::*;

    #[test]
    fn a_picture_is_whole_and_escaped() {
        let mut buf = Buffer::empty(Rect::new(0, 0, 6, 1));
        buf.set_string(0, 0, "a<b&▀", Style::new());
        let picture = svg(&buf, &Theme::ember());
        assert!(picture.contains("a&lt;b&amp;"));
        assert!(picture.starts_with("<svg") && picture.ends_with("</svg>\n"));
        assert!(picture.contains("height=\"9\""));
    }
}
