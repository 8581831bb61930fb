//! Draws text and backgrounds into a clipped buffer, in the colors of roles. It also tracks when a displayed age next changes.

use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

use model::base::Moment;
use table::role::Role;

use super::color::{ColorDepth, Rgb};
use super::text;
use super::theme::{HEAT_LEVELS, Theme};

/// Minimum contrast of thin symbols.
const MIN_CONTRAST_SYMBOL: f64 = 1.9;

/// Minimum contrast of a filled cell against the background.
const MIN_CONTRAST_CELL: f64 = 1.25;

/// Minimum contrast of digits.
const MIN_CONTRAST_TEXT: f64 = 3.0;

/// The theme and the terminal's capabilities.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RenderStyle {
    pub theme: Theme,
    /// Color depth of the terminal.
    pub depth: ColorDepth,
    pub ascii: bool,
}

/// Gives a painter of which nothing is seen: for words and heights, which depend neither on colors nor on the room.
pub fn unseen<T>(now: Moment, make: impl FnOnce(&mut Painter<'_>) -> T) -> T {
    let render_style = RenderStyle {
        theme: Theme::ember(),
        depth: ColorDepth::None,
        ascii: false,
    };
    let mut nothing = Buffer::empty(Rect::new(0, 0, 1, 1));
    make(&mut Painter::new(&mut nothing, &render_style, now))
}

impl RenderStyle {
    /// True when a half-block cell can show two devices by color.
    pub const fn half_blocks(&self) -> bool {
        self.depth.shows_heat() && !self.ascii
    }

    fn for_terminal(&self, rgb: Rgb) -> Color {
        match self.depth {
            ColorDepth::True => rgb.color(),
            ColorDepth::Ansi256 => Color::Indexed(rgb.to_256()),
            ColorDepth::Ansi16 | ColorDepth::None => Color::Reset,
        }
    }

    /// The style of text in this role.
    pub fn fg(&self, role: Role) -> Style {
        let style = match self.depth {
            ColorDepth::True | ColorDepth::Ansi256 => {
                Style::new().fg(self.for_terminal(self.theme.color(role)))
            }
            ColorDepth::Ansi16 => Style::new().fg(ansi16(role)),
            ColorDepth::None => match role {
                Role::Accent | Role::Crit | Role::Mark => Style::new().add_modifier(Modifier::BOLD),
                Role::Muted | Role::Faint | Role::Border => {
                    Style::new().add_modifier(Modifier::DIM)
                }
                _ => Style::new(),
            },
        };
        match role {
            Role::Title => style.add_modifier(Modifier::BOLD),
            _ => style,
        }
    }

    /// Bold text in this role.
    pub fn bold(&self, role: Role) -> Style {
        self.fg(role).add_modifier(Modifier::BOLD)
    }

    /// The style of a background in this role.
    pub fn background(&self, role: Role) -> Style {
        match self.depth {
            ColorDepth::True | ColorDepth::Ansi256 => {
                Style::new().bg(self.for_terminal(self.theme.color(role)))
            }
            ColorDepth::Ansi16 | ColorDepth::None => match role {
                Role::Selection | Role::Accent => Style::new().add_modifier(Modifier::REVERSED),
                _ => Style::new(),
            },
        }
    }

    /// The style of the selected tab: text in the background color, on the accent color.
    pub fn tab(&self) -> Style {
        match self.depth {
            ColorDepth::True | ColorDepth::Ansi256 => Style::new()
                .fg(self.for_terminal(self.theme.color(Role::Background)))
                .bg(self.for_terminal(self.theme.color(Role::Accent)))
                .add_modifier(Modifier::BOLD),
            ColorDepth::Ansi16 | ColorDepth::None => {
                Style::new().add_modifier(Modifier::REVERSED | Modifier::BOLD)
            }
        }
    }

    /// The color of a heat level; a stale one is blended with the background.
    pub fn heat(&self, level: usize, stale: bool) -> Color {
        let level = level.min(HEAT_LEVELS - 1);
        if self.depth == ColorDepth::Ansi16 {
            return match level {
                // Red is reserved for faults.
                0..=3 => Color::DarkGray,
                4..=9 => Color::Reset,
                10..=13 => Color::Yellow,
                _ => Color::LightYellow,
            };
        }
        let full = self.theme.heat(level);
        self.for_terminal(if stale {
            full.toward(self.theme.color(Role::Background), 0.5)
        } else {
            full
        })
    }

    /// The heat color for thin symbols: low levels are raised until they are visible.
    pub fn heat_for_symbol(&self, level: usize, stale: bool) -> Color {
        // A dark theme shows low levels as they are.
        let floor = if self.theme.dark {
            1.0
        } else {
            MIN_CONTRAST_SYMBOL
        };
        self.heat_above(floor, level, stale)
    }

    /// The heat color for digits and letters: low levels are raised until they are legible.
    pub fn heat_for_text(&self, level: usize, stale: bool) -> Color {
        self.heat_above(MIN_CONTRAST_TEXT, level, stale)
    }

    /// The heat color for a filled cell: an allocated device differs from the background even when cold.
    pub fn heat_for_cell(&self, level: usize, stale: bool) -> Color {
        self.heat_above(MIN_CONTRAST_CELL, level, stale)
    }

    /// The color of the first heat level, from `level` up, that has this contrast against the background.
    fn heat_above(&self, contrast: f64, level: usize, stale: bool) -> Color {
        if !self.depth.shows_heat() {
            return self.heat(level, stale);
        }
        let background = self.theme.color(Role::Background);
        let is_visible = |level: &usize| self.theme.heat(*level).contrast(background) >= contrast;
        let first = (0..HEAT_LEVELS).find(is_visible).unwrap_or(0);
        self.heat(level.max(first), stale)
    }

    /// The color of a team by its place in a legend. Its letter stands beside it: there are more teams than colors.
    pub fn team(&self, at: usize) -> Color {
        const OF_16: [Color; 4] = [Color::Cyan, Color::Magenta, Color::Blue, Color::White];
        match self.depth {
            ColorDepth::True | ColorDepth::Ansi256 => self.for_terminal(self.theme.team(at)),
            ColorDepth::Ansi16 => OF_16[at % OF_16.len()],
            ColorDepth::None => Color::Reset,
        }
    }

    /// The color of a role for a filled cell; a stale one is blended with the background.
    pub fn fill(&self, role: Role, stale: bool) -> Color {
        if self.depth == ColorDepth::Ansi16 {
            return ansi16(role);
        }
        let full = self.theme.color(role);
        self.for_terminal(if stale {
            full.toward(self.theme.color(Role::Background), 0.5)
        } else {
            full
        })
    }
}

/// The 16 colors belong to the user's palette, so roles are mapped by meaning, not by color distance.
const fn ansi16(role: Role) -> Color {
    match role {
        Role::Background | Role::Panel | Role::Selection | Role::Text | Role::Title => Color::Reset,
        Role::Muted | Role::Faint | Role::Border => Color::DarkGray,
        Role::Accent => Color::Magenta,
        Role::Warn => Color::Yellow,
        Role::Ok => Color::Green,
        Role::Crit => Color::LightRed,
        Role::Info | Role::IdleMoney => Color::Cyan,
        Role::Mark => Color::White,
        Role::IdleDevice => Color::Blue,
    }
}

/// Paints into a buffer.
pub struct Painter<'a> {
    pub buf: &'a mut Buffer,
    /// The theme and capabilities that it uses.
    pub render_style: &'a RenderStyle,
    /// The moment that ages are relative to.
    pub now: Moment,
    /// Milliseconds until the next frame is due; `None` when nothing on the screen changes with time.
    redraw_in_ms: Option<u64>,
}

impl<'a> Painter<'a> {
    /// A painter for this buffer.
    pub fn new(buf: &'a mut Buffer, render_style: &'a RenderStyle, now: Moment) -> Self {
        Self {
            buf,
            render_style,
            now,
            redraw_in_ms: None,
        }
    }

    /// Paints text in at most `max` cells from `x`, cut with an ellipsis. Returns the cells used.
    pub fn text(&mut self, x: u16, y: u16, max: u16, words: &str, style: Style) -> u16 {
        let area = self.buf.area;
        if y < area.top() || y >= area.bottom() || x < area.left() || x >= area.right() {
            return 0;
        }
        let room = max.min(area.right() - x);
        let clean = text::clean(words, self.render_style.ascii);
        let shown = text::cut(&clean, usize::from(room), self.render_style.ascii);
        let (end, _) = self.buf.set_stringn(x, y, &shown, usize::from(room), style);
        end - x
    }

    /// Paints text in the color of a role; [`Painter::text`] takes a style. Returns the cells used.
    pub fn text_in_role(&mut self, x: u16, y: u16, max: u16, words: &str, role: Role) -> u16 {
        self.text(x, y, max, words, self.render_style.fg(role))
    }

    /// Paints text so that it ends before column `right`, within `max` cells. Returns the cells used.
    pub fn text_right(&mut self, right: u16, y: u16, max: u16, words: &str, style: Style) -> u16 {
        let clean = text::clean(words, self.render_style.ascii);
        let shown = text::cut(&clean, usize::from(max), self.render_style.ascii).into_owned();
        let width = self.width(&shown);
        self.text(right.saturating_sub(width), y, width, &shown, style)
    }

    /// Paints segments of text one after the other. Returns the cells used.
    pub fn pieces(&mut self, x: u16, y: u16, max: u16, pieces: &[(&str, Style)]) -> u16 {
        let mut used = 0;
        for (words, style) in pieces {
            if used >= max {
                break;
            }
            used += self.text(x + used, y, max - used, words, *style);
        }
        used
    }

    /// Total width of text segments, cells.
    pub fn width_of(&self, pieces: &[(&str, Style)]) -> u16 {
        pieces.iter().map(|(words, _)| self.width(words)).sum()
    }

    /// Width of the text on this screen, cells.
    pub fn width(&self, words: &str) -> u16 {
        let clean = text::clean(words, self.render_style.ascii);
        u16::try_from(text::width(&clean)).unwrap_or(u16::MAX)
    }

    /// Paints one symbol in one cell; style attributes that are not set stay.
    pub fn sign(&mut self, x: u16, y: u16, sign: &str, style: Style) {
        let clean = text::clean(sign, self.render_style.ascii);
        if let Some(cell) = self.buf.cell_mut((x, y)) {
            cell.set_symbol(&clean).set_style(style);
        }
    }

    /// Sets the background of an area and keeps the text.
    pub fn background(&mut self, area: Rect, role: Role) {
        let style = self.render_style.background(role);
        self.buf.set_style(area.intersection(self.buf.area), style);
    }

    /// Removes text colors in a reversed area, on terminals without theme backgrounds: reversed, a text color would become a background
    /// color. Bars and sparklines lose the reversal: reversed, a full bar would look empty.
    pub fn uncolor(&mut self, area: Rect) {
        if matches!(
            self.render_style.depth,
            ColorDepth::True | ColorDepth::Ansi256
        ) {
            return;
        }
        let area = area.intersection(self.buf.area);
        for at in area.positions() {
            let cell = &mut self.buf[at];
            if cell
                .symbol()
                .starts_with(|c| matches!(c, '\u{2580}'..='\u{259f}'))
            {
                cell.modifier.remove(Modifier::REVERSED);
                continue;
            }
            cell.fg = Color::Reset;
            cell.modifier.remove(Modifier::DIM);
        }
    }

    /// Dims an area, as behind a dialog.
    pub fn dim(&mut self, area: Rect) {
        let area = area.intersection(self.buf.area);
        let background = self.render_style.theme.color(Role::Background);
        let mut cache: [Option<u8>; 256] = [None; 256];
        let mut faded = |color: Color| match color {
            Color::Rgb(r, g, b) => Rgb(r, g, b).toward(background, 0.55).color(),
            Color::Indexed(index) => {
                let full = Rgb::of_256(index);
                let slot = &mut cache[usize::from(index)];
                let fade = || full.toward(background, 0.55).to_256_like(full);
                Color::Indexed(*slot.get_or_insert_with(fade))
            }
            other => other,
        };
        for y in area.top()..area.bottom() {
            for x in area.left()..area.right() {
                let cell = &mut self.buf[(x, y)];
                cell.fg = faded(cell.fg);
                cell.bg = faded(cell.bg);
                if matches!(
                    self.render_style.depth,
                    ColorDepth::Ansi16 | ColorDepth::None
                ) {
                    cell.modifier.remove(Modifier::BOLD);
                    cell.modifier.insert(Modifier::DIM);
                }
            }
        }
    }

    /// Clears an area and sets its background.
    pub fn clear(&mut self, area: Rect, role: Role) {
        let area = area.intersection(self.buf.area);
        let style = self
            .render_style
            .background(role)
            .patch(self.render_style.fg(Role::Text));
        for y in area.top()..area.bottom() {
            for x in area.left()..area.right() {
                let cell = &mut self.buf[(x, y)];
                cell.reset();
                cell.set_style(style);
            }
        }
    }

    /// The age since `since`. Below one minute it changes every second; above, all ages change together at each full minute.
    pub fn age(&mut self, since: Moment) -> String {
        let exact = self.now.since(since);
        if exact.millis() < 60_000 {
            let from_future = since > self.now;
            let left = if from_future {
                u64::try_from(since.millis().saturating_sub(self.now.millis())).unwrap_or(1000)
            } else {
                1000 - exact.millis() % 1000
            };
            self.wake_in(left.max(1));
            return exact.to_string();
        }
        let into_minute = self.now.millis().rem_euclid(60_000);
        self.wake_in(60_000 - into_minute.unsigned_abs());
        exact.to_string()
    }

    /// Requests a frame after at most this many milliseconds.
    pub fn wake_in(&mut self, millis: u64) {
        self.redraw_in_ms = Some(
            self.redraw_in_ms
                .map_or(millis, |earlier| earlier.min(millis)),
        );
    }

    /// When the frame next changes by itself.
    pub fn wake(&self) -> Option<Duration> {
        self.redraw_in_ms.map(Duration::from_millis)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render_style() -> RenderStyle {
        RenderStyle {
            theme: Theme::ember(),
            depth: ColorDepth::True,
            ascii: false,
        }
    }

    #[test]
    fn painting_outside_is_clipped() {
        let render_style = render_style();
        let mut buf = Buffer::empty(Rect::new(0, 0, 5, 2));
        let mut painter = Painter::new(&mut buf, &render_style, Moment::default());
        assert_eq!(painter.text(9, 0, 5, "x", Style::new()), 0);
        assert_eq!(painter.text(0, 9, 5, "x", Style::new()), 0);
        assert_eq!(painter.text(3, 0, 50, "abcdef", Style::new()), 2);
        painter.sign(80, 80, "x", Style::new());
        painter.clear(Rect::new(3, 1, 90, 90), Role::Panel);
        assert_eq!(buf[(4, 0)].symbol(), "…");
    }

    #[test]
    fn ages_tick_by_the_second_then_together_by_the_minute() {
        let render_style = render_style();
        let mut buf = Buffer::empty(Rect::new(0, 0, 5, 2));
        let now = Moment::from_millis(600_000 + 20_500);
        let mut painter = Painter::new(&mut buf, &render_style, now);
        assert_eq!(painter.age(now.minus(Duration::from_secs(3600))), "1h00m");
        assert_eq!(painter.wake(), Some(Duration::from_millis(39_500)));
        assert_eq!(painter.age(now.minus(Duration::from_millis(70_000))), "1m");
        assert_eq!(painter.age(now.minus(Duration::from_millis(5_200))), "5s");
        assert_eq!(painter.wake(), Some(Duration::from_millis(800)));
    }

    #[test]
    fn without_color_nothing_is_colored() {
        for depth in [ColorDepth::None, ColorDepth::Ansi16] {
            let render_style = RenderStyle {
                depth,
                ..render_style()
            };
            for role in Role::ALL {
                let style = render_style.fg(*role).patch(render_style.background(*role));
                let plain = |color: Option<Color>| matches!(color, None | Some(Color::Reset));
                assert!(!matches!(
                    style.fg,
                    Some(Color::Rgb(..) | Color::Indexed(_))
                ));
                if depth == ColorDepth::None {
                    assert!(plain(style.fg) && plain(style.bg));
                }
            }
        }
    }
}
