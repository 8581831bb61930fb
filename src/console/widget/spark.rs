//! Sparks: values over time as columns colored by heat. A gap stays a gap.

use ratatui::layout::Rect;
use ratatui::style::Style;

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
                let style =
                    Style::new().fg(painter.render_style.heat_for_symbol(level(ratio), stale));
                painter.sign(x + at, y, sign, style);
            }
            None => painter.sign(x + at, y, "·", painter.render_style.fg(Role::Faint)),
        }
    }
}

/// The least span of a chart as a share of its largest value: noise of less is no movement.
const LEAST_SPAN: f32 = 0.05;

/// The range that a chart of these values spans: their own, at least [`LEAST_SPAN`] of the largest. `None` without a value.
pub fn own_range(values: impl Iterator<Item = Option<f32>> + Clone) -> Option<(f32, f32)> {
    let known = || values.clone().flatten().filter(|value| value.is_finite());
    let low = known().reduce(f32::min)?;
    let high = known().reduce(f32::max)?;
    let lacks = (high.abs() * LEAST_SPAN - (high - low)).max(0.0);
    // A quantity that is never negative has no room below nothing.
    let below = (lacks / 2.0).min(if low >= 0.0 { low } else { f32::MAX });
    Some((low - below, high + (lacks - below)))
}

/// How a chart is drawn: the color of its columns, the words at the ends of its range, and an amount that is a line through it.
pub struct ChartRange<'a> {
    pub role: Role,
    pub words: &'a dyn Fn(f32) -> String,
    pub limit: Option<f32>,
}

/// Paints a chart over the range of its own values, and of the limit, with the ends of the range in words at its left. What moves is
/// seen; how large it is, is said. Returns where the values stand, one a cell; of more values than cells the last.
pub fn chart_of_range(
    painter: &mut Painter<'_>,
    area: Rect,
    values: &[Option<f32>],
    chart: &ChartRange<'_>,
) -> Rect {
    let with_limit = values.iter().copied().chain([chart.limit]);
    let Some((low, high)) = own_range(with_limit).filter(|_| area.height > 0) else {
        return area;
    };
    let ends = [high, low].map(chart.words);
    let body = axis_ends(painter, area, &ends);
    // What is the same in words does not move; nothing at all is at the bottom.
    let share = |value: f32| match ends[0] == ends[1] {
        true if high <= 0.0 => 0.0,
        true => 0.5,
        false => f64::from((value - low) / (high - low).max(f32::MIN_POSITIVE)),
    };
    // The lowest is a line, too: a gap is something else.
    let lines = f64::from(body.height) * 8.0 - 1.0;
    let eighths = |value: f32| (1.0 + share(value).clamp(0.0, 1.0) * lines).round() as u16;
    let skipped = values.len().saturating_sub(usize::from(body.width));
    let line = chart.limit.map(|limit| (eighths(limit) - 1) / 8);
    // The line is in its color; what is below it is shade.
    let style = painter.render_style.fg(chart.role);
    let faint = painter.render_style.fg(Role::Border);
    for at in 0..body.width {
        let x = body.x + at;
        let value = values.get(skipped + usize::from(at)).copied().flatten();
        if let Some(value) = value {
            area_column(painter, body, x, eighths(value), (style, faint));
        } else if skipped + usize::from(at) < values.len() {
            painter.sign(
                x,
                body.bottom() - 1,
                "·",
                painter.render_style.fg(Role::Faint),
            );
        }
        if let Some(line) = line
            && value.is_none_or(|value| (eighths(value) - 1) / 8 != line)
        {
            painter.sign(
                x,
                body.bottom() - 1 - line,
                "╌",
                painter.render_style.fg(Role::Title),
            );
        }
    }
    body
}

/// The ends of a vertical axis in words, once in the middle where both round to the same. Returns what is right of them.
pub fn axis_ends(painter: &mut Painter<'_>, area: Rect, ends: &[String; 2]) -> Rect {
    let room = ends.iter().map(|words| painter.width(words)).max();
    let room = room.unwrap_or(0).min(area.width / 3);
    let muted = painter.render_style.fg(Role::Muted);
    let [upper, lower] = ends;
    let last = area.height.saturating_sub(1);
    let labels = match upper == lower {
        true => vec![(last / 2, upper)],
        false => vec![(0, upper), (last, lower)],
    };
    for (line, words) in labels {
        painter.text_right(area.x + room, area.y + line, room, words, muted);
    }
    Rect {
        x: area.x + room + 1,
        width: area.width.saturating_sub(room + 1),
        ..area
    }
}

/// A column of so many eighths of a line from the bottom: its upper end in the first style, what is below it in the second.
pub fn area_column(
    painter: &mut Painter<'_>,
    area: Rect,
    x: u16,
    eighths: u16,
    (top, under): (Style, Style),
) {
    let lines = eighths.div_ceil(8).min(area.height);
    for line in 0..lines {
        let is_top = line + 1 == lines;
        let step = if is_top { eighths - line * 8 } else { 8 };
        let sign = match (painter.render_style.ascii, is_top) {
            (true, true) => "#",
            (true, false) => ":",
            (false, _) => STEPS[usize::from(step.clamp(1, 8)) - 1],
        };
        let style = if is_top { top } else { under };
        painter.sign(x, area.bottom() - 1 - line, sign, style);
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
        let line = |y: u16| (0..3).map(|x| buf[(x, y)].symbol()).collect::<String>();
        assert_eq!(line(0), "▁·█");
    }

    #[test]
    fn a_chart_spans_its_own_range_and_says_it() {
        let render_style = RenderStyle {
            theme: Theme::ember(),
            depth: ColorDepth::True,
            ascii: false,
        };
        let mut buf = Buffer::empty(Rect::new(0, 0, 9, 2));
        let mut painter = Painter::new(&mut buf, &render_style, Moment::default());
        let values = [Some(900.0), None, Some(1_000.0), Some(950.0)];
        let whole = Rect::new(0, 0, 9, 2);
        let number = |value: f32| format!("{value:.0}");
        let range = ChartRange {
            role: Role::Accent,
            words: &number,
            limit: None,
        };
        chart_of_range(&mut painter, whole, &values, &range);
        let line = |y: u16| (0..9).map(|x| buf[(x, y)].symbol()).collect::<String>();
        // A third of nine cells has room for the numbers' last digits alone: a text that is cut says so.
        assert!(
            line(0).contains('█') && line(1).contains('▁'),
            "{}\n{}",
            line(0),
            line(1)
        );
        assert_eq!(line(1).matches('·').count(), 1, "{}", line(1));
        // Ends that round to the same words are one label.
        let mut buf = Buffer::empty(Rect::new(0, 0, 9, 3));
        let mut painter = Painter::new(&mut buf, &render_style, Moment::default());
        let ends = ["98%", "98%"].map(String::from);
        let body = axis_ends(&mut painter, Rect::new(0, 0, 9, 3), &ends);
        assert_eq!((body.x, body.width), (4, 5));
        let labels = [0, 1, 2].map(|y| buf[(0, y)].symbol().to_owned());
        assert_eq!(labels, [" ", "9", " "]);
        // Nothing at all is at the bottom, not in the middle.
        let mut buf = Buffer::empty(Rect::new(0, 0, 9, 3));
        let mut painter = Painter::new(&mut buf, &render_style, Moment::default());
        chart_of_range(&mut painter, Rect::new(0, 0, 9, 3), &[Some(0.0); 9], &range);
        let row = |y: u16| (0..9).map(|x| buf[(x, y)].symbol()).collect::<String>();
        assert!(row(1).trim_matches(['0', ' ']).is_empty(), "{}", row(1));
        assert!(row(2).contains('▁'), "{}", row(2));
        // What hardly moves is no mountain range, and nothing is below nothing.
        let (low, high) = own_range([Some(1_000.0), Some(1_001.0)].into_iter()).expect("a range");
        assert!(low < 1_000.0 && high > 1_001.0 && (high - low - 50.05).abs() < 0.1);
        assert_eq!(
            own_range([Some(0.0), Some(0.01)].into_iter()),
            Some((0.0, 0.01))
        );
        assert_eq!(own_range([None].into_iter()), None);
    }
}
