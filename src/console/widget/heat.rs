//! Heat cells: two devices per cell as half blocks, or one per cell as a digit where color is not available.

use ratatui::style::{Color, Style};

use crate::painter::Painter;
use table::role::Role;

/// Heat of one device, quantized so that small changes need no repaint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeatLevel {
    /// Works, at this level of the ramp.
    Heat(u8),
    /// Allocated, but does no work.
    Idle,
    Free,
    /// Free, but a new pod cannot use it.
    Unusable,
    Fault,
    Unknown,
}

impl HeatLevel {
    /// What the signs beside the ramp say.
    pub const LEGEND: [(Self, &'static str); 4] = [
        (Self::Free, "free"),
        (Self::Fault, "fault"),
        (Self::Unknown, "unknown"),
        (Self::Unusable, "not usable"),
    ];

    /// True where no pod has it and it has no fault.
    const fn is_free(self) -> bool {
        matches!(self, Self::Free | Self::Unusable)
    }
}

/// One device's cell: its heat, and whether that is stale.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeatCell {
    pub heat: HeatLevel,
    /// The reading is stale.
    pub stale: bool,
}

impl HeatCell {
    pub const fn fresh(heat: HeatLevel) -> Self {
        Self { heat, stale: false }
    }

    fn color(self, painter: &Painter<'_>) -> Color {
        match self.heat {
            HeatLevel::Heat(level) => painter
                .render_style
                .heat_for_cell(usize::from(level), self.stale),
            HeatLevel::Idle => painter.render_style.fill(Role::IdleDevice, self.stale),
            HeatLevel::Free | HeatLevel::Unusable => painter.render_style.fill(Role::Panel, false),
            HeatLevel::Fault => painter.render_style.fill(Role::Crit, false),
            HeatLevel::Unknown => painter.render_style.fill(Role::Faint, false),
        }
    }

    /// The sign that identifies it without color.
    pub const fn sign(self) -> &'static str {
        const DIGITS: [&str; 16] = [
            "0", "0", "1", "1", "2", "3", "3", "4", "5", "5", "6", "6", "7", "8", "8", "9",
        ];
        match self.heat {
            HeatLevel::Heat(level) => DIGITS[if level > 15 { 15 } else { level as usize }],
            HeatLevel::Idle => "i",
            HeatLevel::Free => "·",
            HeatLevel::Unusable => "/",
            HeatLevel::Fault => "×",
            HeatLevel::Unknown => "?",
        }
    }

    fn style(self, painter: &Painter<'_>) -> Style {
        match self.heat {
            HeatLevel::Heat(level) => Style::new().fg(painter
                .render_style
                .heat_for_text(usize::from(level), self.stale)),
            HeatLevel::Idle => painter.render_style.fg(Role::IdleMoney),
            HeatLevel::Free => painter.render_style.fg(Role::Faint),
            HeatLevel::Fault => painter.render_style.bold(Role::Crit),
            HeatLevel::Unknown | HeatLevel::Unusable => painter.render_style.fg(Role::Muted),
        }
    }
}

/// Paints one device in one cell.
pub fn single(painter: &mut Painter<'_>, x: u16, y: u16, ember: HeatCell) {
    painter.sign(x, y, ember.sign(), ember.style(painter));
}

/// Paints two devices in one cell, top and bottom; `None` means no device.
pub fn pair(
    painter: &mut Painter<'_>,
    x: u16,
    y: u16,
    top: Option<HeatCell>,
    bottom: Option<HeatCell>,
) {
    let whole = |heat: HeatLevel| {
        top.is_none_or(|ember| ember.heat == heat) && bottom.is_none_or(|ember| ember.heat == heat)
    };
    let Some(any) = top.or(bottom) else { return };
    // A fault is a cross whatever shares its cell; free and unknown are signs when the cell is all theirs.
    for ember in [top, bottom].into_iter().flatten() {
        if ember.heat == HeatLevel::Fault {
            let other = [top, bottom]
                .into_iter()
                .flatten()
                .find(|ember| ember.heat != HeatLevel::Fault && !ember.heat.is_free());
            let mut style = painter.render_style.bold(Role::Crit);
            if let Some(other) = other.filter(|other| matches!(other.heat, HeatLevel::Heat(0..=5)))
            {
                style = style.bg(other.color(painter));
            }
            painter.sign(x, y, "×", style);
            return;
        }
    }
    let is_free = |ember: HeatCell| ember.heat.is_free();
    if top.is_none_or(is_free) && bottom.is_none_or(is_free) {
        // Where they differ, what can be used is shown.
        let usable = bottom.filter(|ember| ember.heat == HeatLevel::Free);
        single(painter, x, y, usable.unwrap_or(any));
        return;
    }
    if whole(HeatLevel::Unknown) {
        painter.sign(x, y, "–", any.style(painter));
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

    fn painted(top: Option<HeatLevel>, bottom: Option<HeatLevel>) -> String {
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
        assert_eq!(
            painted(Some(HeatLevel::Heat(3)), Some(HeatLevel::Heat(9))),
            "▀"
        );
        assert_eq!(painted(Some(HeatLevel::Heat(3)), None), "▀");
        assert_eq!(painted(None, Some(HeatLevel::Idle)), "▄");
        assert_eq!(painted(Some(HeatLevel::Free), Some(HeatLevel::Free)), "·");
        assert_eq!(
            painted(Some(HeatLevel::Free), Some(HeatLevel::Heat(1))),
            "▀"
        );
        assert_eq!(
            painted(Some(HeatLevel::Heat(15)), Some(HeatLevel::Fault)),
            "×"
        );
        assert_eq!(painted(Some(HeatLevel::Unknown), None), "–");
        for (top, bottom, sign) in [
            (HeatLevel::Unusable, HeatLevel::Unusable, "/"),
            (HeatLevel::Unusable, HeatLevel::Free, "·"),
            (HeatLevel::Free, HeatLevel::Unusable, "·"),
            (HeatLevel::Unusable, HeatLevel::Heat(9), "▀"),
        ] {
            assert_eq!(painted(Some(top), Some(bottom)), sign, "{top:?} {bottom:?}");
        }
        assert_eq!(painted(None, None), " ");
    }

    #[test]
    fn without_color_every_state_has_a_sign_of_its_own() {
        let glows = [
            HeatLevel::Heat(7),
            HeatLevel::Idle,
            HeatLevel::Free,
            HeatLevel::Unusable,
            HeatLevel::Fault,
            HeatLevel::Unknown,
        ];
        let signs: std::collections::BTreeSet<_> = glows
            .iter()
            .map(|heat| HeatCell::fresh(*heat).sign())
            .collect();
        assert_eq!(signs.len(), glows.len());
    }
}
