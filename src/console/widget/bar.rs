//! A bar: a share of one, with the empty part shown.

use crate::painter::Painter;
use table::role::Role;

/// The empty part of a bar that is drawn with parts of blocks.
pub const EMPTY: &str = "▁";

/// The role of a bar that says how much of something is used: it is data, neither chosen nor a state.
pub const fn bar_role(stale: bool) -> Role {
    if stale { Role::Faint } else { Role::Muted }
}

/// Paints a bar of `width` cells. Anything above nothing fills a cell; only the whole fills all.
pub fn bar(painter: &mut Painter<'_>, x: u16, y: u16, width: u16, ratio: f64, role: Role) {
    let cells = filled(ratio, width);
    let blocks = painter.render_style.half_blocks();
    // Three quarters high, so that bars on adjacent lines stay separate. The empty part has its own sign: it is seen without color.
    let (full, empty) = if blocks {
        ("▆", EMPTY)
    } else {
        ("█", "░")
    };
    let full_style = painter.render_style.fg(role);
    let empty_style = painter.render_style.fg(Role::Faint);
    for at in 0..width {
        if at < cells {
            painter.sign(x + at, y, full, full_style);
        } else {
            painter.sign(x + at, y, empty, empty_style);
        }
    }
}

fn filled(ratio: f64, width: u16) -> u16 {
    if ratio.is_nan() || ratio <= 0.0 || width == 0 {
        return 0;
    }
    if ratio >= 1.0 {
        return width;
    }
    let cells = (ratio * f64::from(width)).round() as u16;
    cells.clamp(1, if width > 1 { width - 1 } else { 1 })
}

#[cfg(test)]
mod tests {
    use ratatui::buffer::Buffer;
    use ratatui::layout::Rect;

    use super::*;
    use crate::painter::RenderStyle;
    use crate::{ColorDepth, Theme};
    use model::base::Moment;

    #[test]
    fn the_empty_part_differs_without_color() {
        for (depth, ascii, expected) in [
            (ColorDepth::True, false, "▆▆▁▁"),
            (ColorDepth::Ansi256, false, "▆▆▁▁"),
            (ColorDepth::Ansi16, false, "██░░"),
            (ColorDepth::None, false, "██░░"),
            (ColorDepth::True, true, "##.."),
            (ColorDepth::None, true, "##.."),
        ] {
            let render_style = RenderStyle {
                theme: Theme::ember(),
                depth,
                ascii,
            };
            let mut buf = Buffer::empty(Rect::new(0, 0, 4, 1));
            let mut painter = Painter::new(&mut buf, &render_style, Moment::default());
            bar(&mut painter, 0, 0, 4, 0.5, Role::Accent);
            let line: String = (0..4).map(|x| buf[(x, 0)].symbol()).collect();
            assert_eq!(line, expected, "{depth:?}, ascii {ascii}");
        }
    }

    #[test]
    fn a_little_shows_and_nearly_all_is_not_all() {
        assert_eq!(filled(0.0, 10), 0);
        assert_eq!(filled(f64::NAN, 10), 0);
        assert_eq!(filled(0.001, 10), 1);
        assert_eq!(filled(0.999, 10), 9);
        assert_eq!(filled(1.0, 10), 10);
        assert_eq!(filled(7.0, 10), 10);
        assert_eq!(filled(0.5, 1), 1);
    }
}
