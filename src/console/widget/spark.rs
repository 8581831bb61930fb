//! Sparks: values over time as columns colored by heat. A gap stays a gap.

use ratatui::layout::Rect;

use crate::painter::Painter;
use crate::theme::HEAT_LEVELS;
use table::role::Role;

const STEPS: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

/// The heat level of a share, 0 to 15.
pub fn level(ratio: f64) -> usize {
    let last = HEAT_LEVELS - 1;
    if ratio.is_nan() {
        return 0;
    }
    ((ratio.clamp(0.0, 1.0) * HEAT_LEVELS as f64) as usize).min(last)
}

/// The digit, 0 to 9, for a share where color is not available.
pub fn digit(ratio: f64) -> &'static str {
    const DIGITS: [&str; 10] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];
    if ratio.is_nan() {
        return DIGITS[0];
    }
    DIGITS[((ratio.clamp(0.0, 1.0) * 10.0) as usize).min(9)]
}

/// Paints one line of shares, 0 to 1, one per cell.
pub fn spark(painter: &mut Painter<'_>, x: u16, y: u16, values: &[Option<f32>], stale: bool) {
    for (at, value) in values.iter().enumerate() {
        let Ok(at) = u16::try_from(at) else { break };
        match value {
            Some(value) => {
                let ratio = f64::from(*value);
                let sign = if painter.render_style.ascii {
                    digit(ratio)
                } else {
                    STEPS[level(ratio) / 2]
                };
                let style = ratatui::style::Style::new()
                    .fg(painter.render_style.heat_for_symbol(level(ratio), stale));
                painter.sign(x + at, y, sign, style);
            }
            None => painter.sign(x + at, y, "·", painter.render_style.fg(Role::Faint)),
        }
    }
}

/// Paints a chart as high as the area. The values are scaled to `top`; the heat is that of the share times `heat`,
/// for not every top is a blaze.
pub fn chart(painter: &mut Painter<'_>, area: Rect, values: &[Option<f32>], top: f32, heat: f64) {
    for (at, value) in values.iter().enumerate().take(usize::from(area.width)) {
        let x = area.x + at as u16;
        let Some(value) = value else {
            let bottom = area.bottom().saturating_sub(1);
            painter.sign(x, bottom, "·", painter.render_style.fg(Role::Faint));
            continue;
        };
        let share = if top > 0.0 {
            f64::from(value / top).clamp(0.0, 1.0)
        } else {
            0.0
        };
        let eighths = (share * f64::from(area.height) * 8.0).round() as u16;
        let style = ratatui::style::Style::new().fg(painter
            .render_style
            .heat_for_symbol(level(share * heat), false));
        for line in 0..area.height {
            let here = eighths.max(1).saturating_sub(line * 8).min(8);
            if here == 0 {
                break;
            }
            let y = area.bottom() - 1 - line;
            let sign = if painter.render_style.ascii {
                "#"
            } else {
                STEPS[usize::from(here) - 1]
            };
            painter.sign(x, y, sign, style);
        }
    }
}

#[cfg(test)]
mod tests {
    use ratatui::buffer::Buffer;

    use super::*;
    use crate::painter::RenderStyle;
    use crate::{ColorDepth, Theme};
    use model::base::Moment;

    #[test]
    fn levels_cover_the_ramp() {
        assert_eq!((level(0.0), level(0.5), level(1.0)), (0, 8, 15));
        assert_eq!((level(-1.0), level(f64::NAN), level(9.0)), (0, 0, 15));
        assert_eq!((digit(0.0), digit(0.99), digit(1.0)), ("0", "9", "9"));
    }

    #[test]
    fn a_gap_is_not_a_zero() {
        let render_style = RenderStyle {
            theme: Theme::ember(),
            depth: ColorDepth::True,
            ascii: false,
        };
        let mut buf = Buffer::empty(Rect::new(0, 0, 3, 2));
        let mut painter = Painter::new(&mut buf, &render_style, Moment::default());
        spark(&mut painter, 0, 0, &[Some(0.0), None, Some(1.0)], false);
        chart(
            &mut painter,
            Rect::new(0, 1, 3, 1),
            &[Some(0.5), None],
            1.0,
            1.0,
        );
        let line = |y: u16| (0..3).map(|x| buf[(x, y)].symbol()).collect::<String>();
        assert_eq!(line(0), "▁·█");
        assert_eq!(line(1), "▄· ");
    }
}
