//! A roofline: what a device reaches against how much it computes for each byte of its memory, both on logarithmic scales.
//!
//! Source: Williams, Waterman, Patterson, "Roofline" (2009). Below the ridge memory bandwidth is the roof, beyond it the peak.

/// Powers of ten of the horizontal axis: 1 to 10,000 FLOP for a byte.
const DECADES_X: f64 = 4.0;
/// Powers of ten of the vertical axis below the peak.
const DECADES_Y: f64 = 3.0;

/// Limits of a device and its measured work.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Roofline {
    /// Peak, FLOP a second.
    pub peak: f64,
    /// Memory bandwidth, bytes a second.
    pub bandwidth: f64,
    /// Measured rate, FLOP per second.
    pub rate: f64,
    /// Memory traffic, bytes per second.
    pub traffic: f64,
}

impl Roofline {
    /// FLOP for a byte at which both roofs meet.
    pub fn ridge(&self) -> f64 {
        self.peak / self.bandwidth
    }

    /// Arithmetic intensity, FLOP per byte.
    pub fn intensity(&self) -> f64 {
        self.rate / self.traffic
    }

    /// True where memory bandwidth is the roof over it.
    pub fn is_memory_bound(&self) -> bool {
        self.intensity() < self.ridge()
    }

    /// The roof over this intensity, FLOP a second.
    pub fn roof(&self, intensity: f64) -> f64 {
        self.peak.min(intensity * self.bandwidth)
    }
}

/// The dots of a braille cell, by row and column.
const DOTS: [[u32; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];
/// A braille cell without dots.
const BLANK: u32 = 0x2800;

/// The plot, `width` cells wide and `height` high: the roof in dots, the operating point as `●`. Its axes are named: the limits of the
/// vertical one to the right, the decades of the horizontal one below. Empty if a figure is not a positive number.
pub fn roofline(figures: &Roofline, width: usize, height: usize) -> Vec<String> {
    let all = [
        figures.peak,
        figures.bandwidth,
        figures.rate,
        figures.traffic,
    ];
    if width == 0 || height == 0 || all.iter().any(|value| !value.is_normal() || *value < 0.0) {
        return Vec::new();
    }
    let (columns, rows) = (width * 2, height * 4);
    // Of a place from the left and of a value from the top, in dots.
    let intensity = |x: usize| 10f64.powf(DECADES_X * x as f64 / (columns - 1).max(1) as f64);
    let row = |value: f64| {
        let below = (figures.peak / value).log10() / DECADES_Y;
        ((below * (rows - 1) as f64).round().max(0.0) as usize).min(rows - 1)
    };
    let mut cells = vec![vec![BLANK; width]; height];
    for x in 0..columns {
        let roof = figures.roof(intensity(x));
        if roof * 10f64.powf(DECADES_Y) < figures.peak {
            continue;
        }
        let y = row(roof);
        cells[y / 4][x / 2] |= DOTS[y % 4][x % 2];
    }
    let mut lines: Vec<Vec<char>> = cells
        .into_iter()
        .map(|cells| {
            let dots = cells
                .into_iter()
                .map(|cell| char::from_u32(cell).unwrap_or(' '));
            dots.collect()
        })
        .collect();
    let at = figures.intensity().log10() / DECADES_X * (width - 1) as f64;
    let x = (at.round().max(0.0) as usize).min(width - 1);
    lines[row(figures.rate) / 4][x] = '●';
    let mut lines: Vec<String> = lines.into_iter().map(String::from_iter).collect();
    let ridge = (figures.ridge().log10() / DECADES_X * (width - 1) as f64).round();
    let mut axis: Vec<char> = vec!['─'; width];
    axis[(ridge.max(0.0) as usize).min(width - 1)] = '┼';
    let lowest = figures.peak / 10f64.powf(DECADES_Y);
    if height > 1 {
        lines[height - 1].push_str(&format!("  {:.0} GFLOP/s", lowest / 1e9));
    }
    lines[0].push_str(&format!("  {:.0} TFLOP/s", figures.peak / 1e12));
    lines.push(String::from_iter(axis));
    lines.push(format!("{}  FLOP/byte", ticks(width)));
    lines
}

/// The numbers below the horizontal axis, `width` cells.
fn ticks(width: usize) -> String {
    let mut line = vec![' '; width];
    for (decade, number) in ["1", "10", "100", "1k", "10k"].into_iter().enumerate() {
        let at = (decade as f64 / DECADES_X * (width - 1) as f64).round() as usize;
        // The last one ends with the axis.
        let from = at.min(width.saturating_sub(number.len()));
        for (cell, sign) in line[from..].iter_mut().zip(number.chars()) {
            *cell = sign;
        }
    }
    String::from_iter(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn h100(rate: f64, traffic: f64) -> Roofline {
        Roofline {
            peak: 989e12,
            bandwidth: 3.35e12,
            rate,
            traffic,
        }
    }

    fn place(lines: &[String]) -> (usize, usize) {
        let found = lines.iter().enumerate().find_map(|(y, line)| {
            let x = line.chars().position(|cell| cell == '●')?;
            Some((x, y))
        });
        found.expect("it stands somewhere")
    }

    #[test]
    fn the_point_is_drawn_under_the_roof() {
        // At the peak, far right of the ridge: the top row.
        let lines = roofline(&h100(989e12, 989e9), 33, 6);
        assert_eq!(lines.len(), 8);
        assert_eq!(place(&lines), (24, 0));
        assert!(lines[0].ends_with("  989 TFLOP/s"), "{lines:?}");
        assert!(lines[5].ends_with("  989 GFLOP/s"), "{lines:?}");
        let below = "1       10      100     1k    10k  FLOP/byte";
        assert_eq!(lines[7], below);
        // A thousandth of the peak: the lowest row.
        assert_eq!(place(&roofline(&h100(0.989e12, 0.989e12), 33, 6)).1, 5);
        // The ridge of an H100 is at 295 FLOP a byte.
        let figures = h100(1e14, 1e12);
        assert!((figures.ridge() - 295.2).abs() < 0.1);
        let axis = lines[6].chars().position(|cell| cell == '┼');
        assert_eq!(axis, Some(20));
        // The roof rises to the left of the ridge and is flat to the right.
        assert!(figures.is_memory_bound() && !h100(1e14, 1e11).is_memory_bound());
        assert!(figures.roof(10.0) < figures.roof(100.0));
        assert_eq!(figures.roof(1e3), figures.roof(1e4));
    }

    #[test]
    fn nothing_is_drawn_of_what_is_not_known() {
        for (rate, traffic) in [(0.0, 1.0), (1.0, 0.0), (f64::NAN, 1.0), (-1.0, 1.0)] {
            assert!(roofline(&h100(rate, traffic), 33, 6).is_empty());
        }
        assert!(roofline(&h100(1e12, 1e12), 0, 6).is_empty());
        // Out of the picture is at its edge.
        let lines = roofline(&h100(1e30, 1.0), 10, 3);
        assert_eq!(place(&lines), (9, 0));
        assert_eq!(place(&roofline(&h100(1.0, 1e30), 10, 3)), (0, 2));
    }
}
