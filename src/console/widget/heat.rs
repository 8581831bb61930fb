//! Heat cells: two devices a cell as half blocks, or one a cell as a digit where color cannot tell.

use ratatui::style::{Color, Style};

use crate::painter::Painter;
use crate::theme::Role;

/// How one device glows. Quantized: what does not change it repaints nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heat {
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
pub struct HeatCell {
    /// How it glows.
    pub heat: Heat,
    /// The reading is stale.
    pub stale: bool,
}

impl HeatCell {
    /// A fresh one.
    pub const fn fresh(heat: Heat) -> Self {
        Self { heat, stale: false }
    }

    fn color(self, painter: &Painter<'_>) -> Color {
        match self.heat {
            Heat::Heat(level) => painter
                .render_style
                .held_heat(usize::from(level), self.stale),
            Heat::Idle => painter.render_style.fill(Role::IdleDevice, self.stale),
            Heat::Free => painter.render_style.fill(Role::Panel, false),
            Heat::Fault => painter.render_style.fill(Role::Crit, false),
            Heat::Unknown => painter.render_style.fill(Role::Faint, false),
        }
    }

    /// The sign that tells it without color.
    pub const fn sign(self) -> &'static str {
        const DIGITS: [&str; 16] = [
            "0", "0", "1", "1", "2", "3", "3", "4", "5", "5", "6", "6", "7", "8", "8", "9",
        ];
        match self.heat {
            Heat::Heat(level) => DIGITS[if level > 15 { 15 } else { level as usize }],
            Heat::Idle => "i",
            Heat::Free => "·",
            Heat::Fault => "×",
            Heat::Unknown => "?",
        }
    }

    fn style(self, painter: &Painter<'_>) -> Style {
        match self.heat {
            Heat::Heat(level) => Style::new().fg(painter
                .render_style
                .lettered_heat(usize::from(level), self.stale)),
            Heat::Idle => painter.render_style.fg(Role::IdleMoney),
            Heat::Free => painter.render_style.fg(Role::Faint),
            Heat::Fault => painter.render_style.bold(Role::Crit),
            Heat::Unknown => painter.render_style.fg(Role::Muted),
        }
    }
}

/// Paints one device in one cell.
pub fn single(painter: &mut Painter<'_>, x: u16, y: u16, ember: HeatCell) {
    painter.sign(x, y, ember.sign(), ember.style(painter));
}

/// Paints two devices in one cell, top and bottom; `None` is no device.
pub fn pair(
    painter: &mut Painter<'_>,
    x: u16,
    y: u16,
    top: Option<HeatCell>,
    bottom: Option<HeatCell>,
) {
    let whole = |heat: Heat| {
        top.is_none_or(|ember| ember.heat == heat) && bottom.is_none_or(|ember| ember.heat == heat)
    };
    let Some(any) = top.or(bottom) else { return };
    // A fault is a cross whatever shares its cell; free and unknown are signs when the cell is all theirs.
    for ember in [top, bottom].into_iter().flatten() {
        if ember.heat == Heat::Fault {
            let other = [top, bottom]
                .into_iter()
                .flatten()
                .find(|ember| ember.heat != Heat::Fault && ember.heat != Heat::Free);
            let mut style = painter.render_style.bold(Role::Crit);
            if let Some(other) = other.filter(|other| matches!(other.heat, Heat::Heat(0..=5))) {
                style = style.bg(other.color(painter));
            }
            painter.sign(x, y, "×", style);
            return;
        }
    }
    if whole(Heat::Free) || whole(Heat::Unknown) {
        let sign = match any.heat {
            Heat::Unknown => "–",
            _ => "·",
        };
        painter.sign(x, y, sign, any.style(painter));
        return;
    }
    match (top, bottom) {
        (Some(top), Some(bottom)) => {
            let (above, below) = (top.color(painter), bottom.color(painter));
            let style = Style::new().fg(above).bg(below);
            painter.sign(x, y, "▀", style);
        }
        (Some(only), None) => painter.sign(x, y, "▀", Style::new().fg(only.color(painter))),
        (None, Some(only)) => painter.sign(x, y, "▄", Style::new().fg(only.color(painter))),
        (None, None) => {}
    }
}

#[cfg(test)]
mod tests {
    use ratatui::buffer::Buffer;
    use ratatui::layout::Rect;

    use super::*;
    use crate::painter::RenderStyle;
    use crate::{ColorDepth, Theme};
    use model::base::Moment;

    fn painted(top: Option<Heat>, bottom: Option<Heat>) -> String {
        let render_style = RenderStyle {
            theme: Theme::ember(),
            depth: ColorDepth::True,
            ascii: false,
        };
        let mut buf = Buffer::empty(Rect::new(0, 0, 1, 1));
        let mut painter = Painter::new(&mut buf, &render_style, Moment::default());
        pair(
            &mut painter,
            0,
            0,
            top.map(HeatCell::fresh),
            bottom.map(HeatCell::fresh),
        );
        buf[(0, 0)].symbol().to_owned()
    }

    #[test]
    fn two_devices_share_a_cell() {
        assert_eq!(painted(Some(Heat::Heat(3)), Some(Heat::Heat(9))), "▀");
        assert_eq!(painted(Some(Heat::Heat(3)), None), "▀");
        assert_eq!(painted(None, Some(Heat::Idle)), "▄");
        assert_eq!(painted(Some(Heat::Free), Some(Heat::Free)), "·");
        assert_eq!(painted(Some(Heat::Free), Some(Heat::Heat(1))), "▀");
        assert_eq!(painted(Some(Heat::Heat(15)), Some(Heat::Fault)), "×");
        assert_eq!(painted(Some(Heat::Unknown), None), "–");
        assert_eq!(painted(None, None), " ");
    }

    #[test]
    fn without_color_every_state_has_a_sign_of_its_own() {
        let glows = [
            Heat::Heat(7),
            Heat::Idle,
            Heat::Free,
            Heat::Fault,
            Heat::Unknown,
        ];
        let signs: std::collections::BTreeSet<_> = glows
            .iter()
            .map(|heat| HeatCell::fresh(*heat).sign())
            .collect();
        assert_eq!(signs.len(), glows.len());
    }
}
