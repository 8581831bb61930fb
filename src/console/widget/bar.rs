//! A bar: a share of one, with the empty part shown.

use crate::painter::Painter;
use table::role::Role;

/// Paints a bar of `width` cells. Anything above nothing fills a cell; only the whole fills all.
pub fn bar(painter: &mut Painter<'_>, x: u16, y: u16, width: u16, ratio: f64, role: Role) {
    let cells = filled(ratio, width);
    let blocks = painter.render_style.half_blocks();
    // Three quarters high, so that bars on adjacent lines stay separate.
    let (full, empty) = if blocks {
        ("▆", "▆")
    } else {
        ("█", "░")
    };
    let full_style = painter.render_style.fg(role);
    let empty_style = painter
        .render_style
        .fg(if blocks { Role::Border } else { Role::Faint });
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
    use super::*;

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
