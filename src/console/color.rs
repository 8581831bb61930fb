//! Colors: parsing, contrast, and reduction from true color to the terminal's color depth.

use ratatui::style::Color;

/// Color depth of the terminal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ColorDepth {
    /// 24 bits for each color.
    #[default]
    True,
    Ansi256,
    /// The 16 colors of the user's palette.
    Ansi16,
    /// No color: `NO_COLOR`, or not a terminal.
    None,
}

impl ColorDepth {
    /// True when colors alone can show the heat ramp; otherwise digits are used.
    pub const fn shows_heat(self) -> bool {
        matches!(self, Self::True | Self::Ansi256)
    }
}

/// An sRGB channel as linear light, 0 to 1.
pub fn linear(channel: u8) -> f64 {
    let share = f64::from(channel) / 255.0;
    if share <= 0.04045 {
        share / 12.92
    } else {
        ((share + 0.055) / 1.055).powf(2.4)
    }
}

/// Channel levels of xterm's color cube.
const STEPS: [u8; 6] = [0, 95, 135, 175, 215, 255];

/// A color with 8 bits a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rgb(pub u8, pub u8, pub u8);

/// Maximum change of hue in the 256-color reduction, degrees.
const TURN: f64 = 14.0;

/// A color is pale where its channels differ by less than this.
const PALE: u8 = 40;

/// Distance of two hues on the color circle, degrees.
fn hue_distance(one: f64, other: f64) -> f64 {
    let turn = (one - other).abs();
    turn.min(360.0 - turn)
}

impl Rgb {
    /// Parses `#rrggbb`; `None` for any other form.
    pub fn parse(text: &str) -> Option<Self> {
        let hex = text.strip_prefix('#')?;
        if hex.len() != 6 || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let channel = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).ok();
        Some(Self(channel(0)?, channel(2)?, channel(4)?))
    }

    /// Writes the color as `#rrggbb`.
    pub fn hex(self) -> String {
        format!("#{:02x}{:02x}{:02x}", self.0, self.1, self.2)
    }

    /// Relative luminance, 0 to 1, as WCAG 2.2 defines it.
    pub fn luminance(self) -> f64 {
        0.2126 * linear(self.0) + 0.7152 * linear(self.1) + 0.0722 * linear(self.2)
    }

    /// CIE lightness L*, 0 to 100: perceptually uniform.
    pub fn lightness(self) -> f64 {
        let y = self.luminance();
        if y <= 216.0 / 24389.0 {
            y * 24389.0 / 27.0
        } else {
            y.cbrt() * 116.0 - 16.0
        }
    }

    /// Contrast ratio, 1 to 21, as WCAG 2.2 defines it.
    pub fn contrast(self, other: Self) -> f64 {
        let (a, b) = (self.luminance(), other.luminance());
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    /// This color mixed with another by `share`, 0 to 1.
    #[must_use]
    pub fn toward(self, other: Self, share: f64) -> Self {
        let mix = |from: u8, to: u8| {
            (f64::from(from) + (f64::from(to) - f64::from(from)) * share.clamp(0.0, 1.0)).round()
                as u8
        };
        Self(
            mix(self.0, other.0),
            mix(self.1, other.1),
            mix(self.2, other.2),
        )
    }

    /// As ratatui's true color.
    pub const fn color(self) -> Color {
        Color::Rgb(self.0, self.1, self.2)
    }

    /// The nearest of xterm's 6x6x6 cube and 24 grays, by index.
    pub fn to_256(self) -> u8 {
        let near = |channel: u8| {
            (0u8..6)
                .min_by_key(|step| STEPS[usize::from(*step)].abs_diff(channel))
                .unwrap_or(0)
        };
        let (r, g, b) = (near(self.0), near(self.1), near(self.2));
        let cube = Self(
            STEPS[usize::from(r)],
            STEPS[usize::from(g)],
            STEPS[usize::from(b)],
        );
        let mean = (u16::from(self.0) + u16::from(self.1) + u16::from(self.2)) / 3;
        let grey_step = (mean.saturating_sub(3) / 10).min(23) as u8;
        let grey_level = 8 + 10 * grey_step;
        let grey = Self(grey_level, grey_level, grey_level);
        // The nearest color to a pale one may have another hue: a warm white must not become pink.
        let (least, most) = (
            self.0.min(self.1).min(self.2),
            self.0.max(self.1).max(self.2),
        );
        let is_pale = most - least < PALE;
        let turns = || match (self.hue(), cube.hue()) {
            (Some(own), Some(other)) => hue_distance(own, other) > TURN,
            _ => false,
        };
        if self.distance(grey) < self.distance(cube) || is_pale && turns() {
            232 + grey_step
        } else {
            16 + 36 * r + 6 * g + b
        }
    }

    /// The color of an xterm index in the cube or the grays; the first 16 belong to the user's palette and are black here.
    pub fn of_256(index: u8) -> Self {
        match index {
            0..=15 => Self(0, 0, 0),
            16..=231 => {
                let at = usize::from(index - 16);
                Self(STEPS[at / 36], STEPS[at / 6 % 6], STEPS[at % 6])
            }
            232.. => {
                let level = 8 + 10 * (index - 232);
                Self(level, level, level)
            }
        }
    }

    /// Hue in degrees; `None` for a gray.
    fn hue(self) -> Option<f64> {
        let [r, g, b] = [self.0, self.1, self.2].map(f64::from);
        let (most, least) = (r.max(g).max(b), r.min(g).min(b));
        let span = most - least;
        if span <= 0.0 {
            return None;
        }
        let sixth = if most == r {
            (g - b) / span
        } else if most == g {
            2.0 + (b - r) / span
        } else {
            4.0 + (r - g) / span
        };
        Some((sixth * 60.0).rem_euclid(360.0))
    }

    /// The nearest of xterm's cube and grays that is a gray or has the hue of `like`: the cube has few dark colors, and the
    /// nearest one to a dark amber is pink.
    pub fn to_256_like(self, like: Self) -> u8 {
        let [light, a, b] = self.lab();
        let fits = |index: &u8| match (Self::of_256(*index).hue(), like.hue()) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(hue), Some(wanted)) => hue_distance(hue, wanted) <= TURN,
        };
        let far = |index: u8| {
            let [l, x, y] = Self::of_256(index).lab();
            // Lightness separates foreground from background; chroma matters less.
            (l - light).powi(2) + 0.5 * ((x - a).powi(2) + (y - b).powi(2))
        };
        (16..=255u8)
            .filter(fits)
            .min_by(|one, other| far(*one).total_cmp(&far(*other)))
            .unwrap_or(16)
    }

    /// CIE L*a*b* under D65.
    fn lab(self) -> [f64; 3] {
        let [r, g, b] = [self.0, self.1, self.2].map(linear);
        let curve = |t: f64| {
            if t > 216.0 / 24389.0 {
                t.cbrt()
            } else {
                (t * 24389.0 / 27.0 + 16.0) / 116.0
            }
        };
        let x = curve((0.412_456_4 * r + 0.357_576_1 * g + 0.180_437_5 * b) / 0.950_47);
        let y = curve(0.212_672_9 * r + 0.715_152_2 * g + 0.072_175 * b);
        let z = curve((0.019_333_9 * r + 0.119_192 * g + 0.950_304_1 * b) / 1.088_83);
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    /// CIE76 color difference: 2 is barely visible, 10 is obvious.
    pub fn apart(self, other: Self) -> f64 {
        let square: f64 = self
            .lab()
            .iter()
            .zip(other.lab())
            .map(|(a, b)| (a - b).powi(2))
            .sum();
        square.sqrt()
    }

    fn distance(self, other: Self) -> u32 {
        let square = |a: u8, b: u8| u32::from(a.abs_diff(b)).pow(2);
        square(self.0, other.0) + square(self.1, other.1) + square(self.2, other.2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors_parse_or_are_refused() {
        assert_eq!(Rgb::parse("#12110f"), Some(Rgb(18, 17, 15)));
        for bad in ["12110f", "#12110", "#12110g", "#+1+1+1", ""] {
            assert_eq!(Rgb::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn contrast_runs_from_1_to_21() {
        assert!((Rgb(0, 0, 0).contrast(Rgb(255, 255, 255)) - 21.0).abs() < 1e-9);
        assert!((Rgb(9, 9, 9).contrast(Rgb(9, 9, 9)) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn what_steps_back_keeps_its_hue_in_256_colors() {
        let ground = Rgb(18, 17, 15);
        for full in [
            Rgb(255, 175, 95),
            Rgb(215, 175, 95),
            Rgb(255, 135, 95),
            Rgb(255, 95, 95),
            Rgb(95, 175, 215),
            Rgb(208, 208, 208),
        ] {
            let faded = Rgb::of_256(full.toward(ground, 0.55).to_256_like(full));
            assert!(faded.luminance() < full.luminance(), "{full:?} {faded:?}");
            if let (Some(hue), Some(before)) = (faded.hue(), full.hue()) {
                assert!((hue - before).abs() <= 14.0, "{full:?} {faded:?}");
            }
        }
        // The amber of titles and keys, which used to turn pink.
        assert_eq!(
            Rgb::of_256(Rgb(125, 88, 51).to_256_like(Rgb(255, 175, 95))),
            Rgb(135, 95, 0)
        );
    }

    #[test]
    fn reduction_keeps_greys_grey_and_primaries_pure() {
        assert_eq!(Rgb(255, 0, 0).to_256(), 196);
        assert_eq!(Rgb(18, 18, 18).to_256(), 233);
        assert_eq!(Rgb(255, 255, 255).to_256(), 231);
        assert_eq!(Rgb(0, 0, 0).to_256(), 16);
        // The warm white of text, which used to turn pink.
        assert_eq!(Rgb(244, 233, 210).to_256(), 254);
    }
}
