//! Heat cells: two devices a cell as half blocks, or one a cell as a digit where colour cannot tell.

use ratatui::style::{Color, Style};

use crate::brush::Brush;
use crate::theme::Role;

/// How one device glows. Quantised: what does not change it repaints nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Glow {
    /// Works, at this level of the ramp.
    Heat(u8),
    /// Held, and does no work.
    Idle,
    /// Held by nobody.
    Free,
    /// Broken.
    Fault,
    /// Nothing is known.
    Unknown,
}

/// One device's cell: how it glows, and whether that is old.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ember {
    /// How it glows.
    pub glow: Glow,
    /// The reading is stale.
    pub stale: bool,
}

impl Ember {
    /// A fresh one.
    pub const fn fresh(glow: Glow) -> Self {
        Self { glow, stale: false }
    }

    fn color(self, brush: &Brush<'_>) -> Color {
        match self.glow {
            Glow::Heat(level) => brush.ink.held_heat(usize::from(level), self.stale),
            Glow::Idle => brush.ink.fill(Role::IdleDevice, self.stale),
            Glow::Free => brush.ink.fill(Role::Panel, false),
            Glow::Fault => brush.ink.fill(Role::Crit, false),
            Glow::Unknown => brush.ink.fill(Role::Faint, false),
        }
    }

    /// The sign that tells it without colour.
    pub const fn sign(self) -> &'static str {
        const DIGITS: [&str; 16] = [
            "0", "0", "1", "1", "2", "3", "3", "4", "5", "5", "6", "6", "7", "8", "8", "9",
        ];
        match self.glow {
            Glow::Heat(level) => DIGITS[if level > 15 { 15 } else { level as usize }],
            Glow::Idle => "i",
            Glow::Free => "·",
            Glow::Fault => "×",
            Glow::Unknown => "?",
        }
    }

    fn style(self, brush: &Brush<'_>) -> Style {
        match self.glow {
            Glow::Heat(level) => {
                Style::new().fg(brush.ink.lettered_heat(usize::from(level), self.stale))
            }
            Glow::Idle => brush.ink.fg(Role::IdleMoney),
            Glow::Free => brush.ink.fg(Role::Faint),
            Glow::Fault => brush.ink.bold(Role::Crit),
            Glow::Unknown => brush.ink.fg(Role::Muted),
        }
    }
}

/// Paints one device in one cell.
pub fn single(brush: &mut Brush<'_>, x: u16, y: u16, ember: Ember) {
    brush.sign(x, y, ember.sign(), ember.style(brush));
}

/// Paints two devices in one cell, top and bottom; `None` is no device.
pub fn pair(brush: &mut Brush<'_>, x: u16, y: u16, top: Option<Ember>, bottom: Option<Ember>) {
    let whole = |glow: Glow| {
        top.is_none_or(|ember| ember.glow == glow) && bottom.is_none_or(|ember| ember.glow == glow)
    };
    let Some(any) = top.or(bottom) else { return };
    // A fault is a cross whatever shares its cell; free and unknown are signs when the cell is all theirs.
    for ember in [top, bottom].into_iter().flatten() {
        if ember.glow == Glow::Fault {
            let other = [top, bottom]
                .into_iter()
                .flatten()
                .find(|ember| ember.glow != Glow::Fault && ember.glow != Glow::Free);
            let mut style = brush.ink.bold(Role::Crit);
            if let Some(other) = other.filter(|other| matches!(other.glow, Glow::Heat(0..=5))) {
                style = style.bg(other.color(brush));
            }
            brush.sign(x, y, "×", style);
            return;
        }
    }
    if whole(Glow::Free) || whole(Glow::Unknown) {
        let sign = match any.glow {
            Glow::Unknown => "–",
            _ => "·",
        };
        brush.sign(x, y, sign, any.style(brush));
        return;
    }
    match (top, bottom) {
        (Some(top), Some(bottom)) => {
            let (above, below) = (top.color(brush), bottom.color(brush));
            let style = Style::new().fg(above).bg(below);
            brush.sign(x, y, "▀", style);
        }
        (Some(only), None) => brush.sign(x, y, "▀", Style::new().fg(only.color(brush))),
        (None, Some(only)) => brush.sign(x, y, "▄", Style::new().fg(only.color(brush))),
        (None, None) => {}
    }
}

#[cfg(test)]
mod tests {
    use ratatui::buffer::Buffer;
    use ratatui::layout::Rect;

    use super::*;
    use crate::brush::Ink;
    use crate::{ColorDepth, Theme};
    use model::base::Moment;

    fn painted(top: Option<Glow>, bottom: Option<Glow>) -> String {
        let ink = Ink {
            theme: Theme::ember(),
            depth: ColorDepth::True,
            ascii: false,
        };
        let mut buf = Buffer::empty(Rect::new(0, 0, 1, 1));
        let mut brush = Brush::new(&mut buf, &ink, Moment::default());
        pair(
            &mut brush,
            0,
            0,
            top.map(Ember::fresh),
            bottom.map(Ember::fresh),
        );
        buf[(0, 0)].symbol().to_owned()
    }

    #[test]
    fn two_devices_share_a_cell() {
        assert_eq!(painted(Some(Glow::Heat(3)), Some(Glow::Heat(9))), "▀");
        assert_eq!(painted(Some(Glow::Heat(3)), None), "▀");
        assert_eq!(painted(None, Some(Glow::Idle)), "▄");
        assert_eq!(painted(Some(Glow::Free), Some(Glow::Free)), "·");
        assert_eq!(painted(Some(Glow::Free), Some(Glow::Heat(1))), "▀");
        assert_eq!(painted(Some(Glow::Heat(15)), Some(Glow::Fault)), "×");
        assert_eq!(painted(Some(Glow::Unknown), None), "–");
        assert_eq!(painted(None, None), " ");
    }

    #[test]
    fn without_colour_every_state_has_a_sign_of_its_own() {
        let glows = [
            Glow::Heat(7),
            Glow::Idle,
            Glow::Free,
            Glow::Fault,
            Glow::Unknown,
        ];
        let signs: std::collections::BTreeSet<_> = glows
            .iter()
            .map(|glow| Ember::fresh(*glow).sign())
            .collect();
        assert_eq!(signs.len(), glows.len());
    }
}
