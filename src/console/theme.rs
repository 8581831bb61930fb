//! Themes: a palette and what each role is painted with. Read from TOML, checked whole, reduced by rule.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::color::Rgb;
use table::role::Role;

use super::load::{LoadError, nearest};

/// Levels of the heat ramp.
pub const HEAT_LEVELS: usize = 16;

/// A theme: a color for each role and the heat ramp.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Theme {
    /// Its name, as `--theme` takes it.
    pub name: String,
    /// Light words on a dark ground.
    pub dark: bool,
    colors: [Rgb; Role::ALL.len()],
    heat: [Rgb; HEAT_LEVELS],
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTheme {
    name: String,
    dark: Option<bool>,
    inherits: Option<Spanned<String>>,
    #[serde(default)]
    palette: BTreeMap<String, Spanned<String>>,
    #[serde(default)]
    roles: BTreeMap<String, Spanned<toml::Value>>,
}

/// The default first, then dark before light.
const BUILTIN: [(&str, &str); 10] = [
    ("ember", include_str!("../../themes/ember.toml")),
    ("harbour", include_str!("../../themes/harbour.toml")),
    ("fjord", include_str!("../../themes/fjord.toml")),
    ("tide", include_str!("../../themes/tide.toml")),
    ("slate", include_str!("../../themes/slate.toml")),
    ("contrast", include_str!("../../themes/contrast.toml")),
    ("daylight", include_str!("../../themes/daylight.toml")),
    ("lagoon", include_str!("../../themes/lagoon.toml")),
    ("shoal", include_str!("../../themes/shoal.toml")),
    ("noon", include_str!("../../themes/noon.toml")),
];

/// Colors of teams on a dark and on a light ground, those of neighbors far apart. They are of xterm's color cube, so that 256 colors
/// show them as they are, and none has the hue of a severity.
const TEAMS: [[u8; 8]; 2] = [
    [39, 218, 36, 201, 159, 141, 49, 206],
    [27, 162, 29, 97, 17, 31, 128, 21],
];
/// Levels of the heat ramp for teams in a theme of grays.
const GRAY_TEAMS: [usize; 4] = [15, 9, 12, 6];
/// A color is gray where its channels differ by less than this.
const GRAY: u8 = 16;

/// Maximum depth of theme inheritance before it counts as a cycle.
const DEEPEST: usize = 8;

impl Theme {
    /// Names of the built-in themes.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILTIN.iter().map(|(name, _)| *name)
    }

    pub fn builtin(name: &str) -> Result<Self, LoadError> {
        match BUILTIN.iter().find(|(known, _)| *known == name) {
            Some((known, text)) => Self::parse(&format!("themes/{known}.toml"), text, &|_| None),
            None => Err(LoadError {
                file: String::from("theme"),
                line: None,
                message: format!(
                    "there is no theme `{name}`{}; there are {}",
                    nearest(name, Self::names()),
                    Self::names().collect::<Vec<_>>().join(", ")
                ),
            }),
        }
    }

    pub fn ember() -> Self {
        Self::builtin("ember").expect("the theme that comes with the program is checked by a test")
    }

    /// Reads a theme file. `others` gives the text of a theme that it may inherit from besides the built-in
    /// ones. Every role must be filled in by the file or by what it inherits.
    pub fn parse(
        file: &str,
        text: &str,
        others: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, LoadError> {
        let mut draft = Draft::default();
        draft.read(file, text, others, 0)?;
        draft.finish(file)
    }

    pub const fn color(&self, role: Role) -> Rgb {
        self.colors[role as usize]
    }

    /// The color of a team by its place in a legend; see [`TEAMS`].
    pub fn team(&self, at: usize) -> Rgb {
        let Rgb(r, g, b) = self.color(Role::Accent);
        if r.max(g).max(b) - r.min(g).min(b) < GRAY {
            return self.heat(GRAY_TEAMS[at % GRAY_TEAMS.len()]);
        }
        let colors = TEAMS[usize::from(!self.dark)];
        Rgb::of_256(colors[at % colors.len()])
    }

    /// The color of a heat level; levels beyond the last are the last.
    pub fn heat(&self, level: usize) -> Rgb {
        self.heat[level.min(HEAT_LEVELS - 1)]
    }
}

/// A theme while its file and those that it inherits from are read.
#[derive(Default)]
struct Draft {
    name: String,
    dark: Option<bool>,
    palette: BTreeMap<String, Rgb>,
    roles: BTreeMap<&'static str, Rgb>,
    heat: Option<[Rgb; HEAT_LEVELS]>,
}

impl Draft {
    fn read(
        &mut self,
        file: &str,
        text: &str,
        others: &dyn Fn(&str) -> Option<String>,
        depth: usize,
    ) -> Result<(), LoadError> {
        let raw: RawTheme =
            toml::from_str(text).map_err(|error| LoadError::toml(file, text, &error))?;
        if let Some(parent) = &raw.inherits {
            let name = parent.get_ref();
            let wrong =
                |message: String| Err(LoadError::at(file, text, Some(parent.span()), message));
            if depth + 1 >= DEEPEST || *name == raw.name {
                return wrong(format!("`inherits = \"{name}\"` is circular"));
            }
            let found = others(name).or_else(|| {
                let known = BUILTIN.iter().find(|(known, _)| known == name);
                known.map(|(_, text)| (*text).to_owned())
            });
            match found {
                Some(found) => {
                    self.read(&format!("themes/{name}.toml"), &found, others, depth + 1)?;
                }
                None => {
                    return wrong(format!(
                        "inherits from `{name}`, which does not exist{}",
                        nearest(name, Theme::names())
                    ));
                }
            }
        }
        self.name = raw.name;
        self.dark = raw.dark.or(self.dark);
        for (name, color) in &raw.palette {
            let parsed = Rgb::parse(color.get_ref()).ok_or_else(|| {
                LoadError::at(
                    file,
                    text,
                    Some(color.span()),
                    format!(
                        "palette color `{name}` is `{}`, not of the form `#rrggbb`",
                        color.get_ref()
                    ),
                )
            })?;
            self.palette.insert(name.clone(), parsed);
        }
        for (name, value) in &raw.roles {
            self.role(name, value.get_ref())
                .map_err(|message| LoadError::at(file, text, Some(value.span()), message))?;
        }
        Ok(())
    }

    fn role(&mut self, name: &str, value: &toml::Value) -> Result<(), String> {
        if name == "heat" {
            let steps = value
                .as_array()
                .filter(|steps| steps.len() == HEAT_LEVELS)
                .ok_or_else(|| format!("`heat` must be a list of {HEAT_LEVELS} colors"))?;
            let mut ramp = [Rgb::default(); HEAT_LEVELS];
            for (slot, step) in ramp.iter_mut().zip(steps) {
                *slot = self.resolve("heat", step)?;
            }
            self.heat = Some(ramp);
            return Ok(());
        }
        let role = Role::ALL
            .iter()
            .find(|role| role.name() == name)
            .ok_or_else(|| {
                let known = Role::ALL.iter().map(|role| role.name()).chain(["heat"]);
                format!("there is no role `{name}`{}", nearest(name, known))
            })?;
        let color = self.resolve(name, value)?;
        self.roles.insert(role.name(), color);
        Ok(())
    }

    fn resolve(&self, role: &str, value: &toml::Value) -> Result<Rgb, String> {
        let text = value
            .as_str()
            .ok_or_else(|| format!("role `{role}` must be `#rrggbb` or a palette name"))?;
        Rgb::parse(text)
            .or_else(|| self.palette.get(text).copied())
            .ok_or_else(|| {
                format!(
                    "role `{role}` names the color `{text}`, which the palette does not have{}",
                    nearest(text, self.palette.keys().map(String::as_str))
                )
            })
    }

    fn finish(self, file: &str) -> Result<Theme, LoadError> {
        let missing = |what: &str| LoadError {
            file: file.to_owned(),
            line: None,
            message: format!("role `{what}` has no color; set it, or add `inherits = \"ember\"`"),
        };
        let mut colors = [Rgb::default(); Role::ALL.len()];
        for (slot, role) in colors.iter_mut().zip(Role::ALL) {
            *slot = *self
                .roles
                .get(role.name())
                .ok_or_else(|| missing(role.name()))?;
        }
        let heat = self.heat.ok_or_else(|| missing("heat"))?;
        let background = colors[Role::Background as usize];
        Ok(Theme {
            name: self.name,
            dark: self.dark.unwrap_or(background.lightness() < 50.0),
            colors,
            heat,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        Theme::parse("my.toml", text, &|_| None)
            .expect_err("must be refused")
            .to_string()
    }

    #[test]
    fn every_builtin_theme_is_whole_and_readable() {
        for name in Theme::names() {
            let theme = Theme::builtin(name).expect(name);
            assert_eq!(theme.name, name);
            let grounds = [Role::Background, Role::Panel, Role::Selection];
            for ground in grounds {
                let on = |role: Role| theme.color(role).contrast(theme.color(ground));
                for role in [
                    Role::Text,
                    Role::Title,
                    Role::Accent,
                    Role::Ok,
                    Role::Warn,
                    Role::Crit,
                    Role::Info,
                    Role::Mark,
                    Role::IdleMoney,
                ] {
                    let floor = if name == "noon" { 7.0 } else { 4.5 };
                    assert!(
                        on(role) >= floor,
                        "{name}: {role:?} on {ground:?} {}",
                        on(role)
                    );
                    let reduced = |role: Role| Rgb::of_256(theme.color(role).to_256());
                    let ratio = reduced(role).contrast(reduced(ground));
                    assert!(
                        ratio >= 3.6,
                        "{name}, 256 colors: {role:?} on {ground:?} {ratio}"
                    );
                }
                assert!(on(Role::Muted) >= 3.0, "{name}: muted on {ground:?}");
            }
            // Decoration is seen, the cold of an idle device is neither any heat nor the ground.
            let ground = theme.color(Role::Background);
            assert!(theme.color(Role::Border).contrast(ground) >= 1.2, "{name}");
            let idle = theme.color(Role::IdleDevice);
            assert!(idle.apart(ground) >= 25.0, "{name}: idle on the ground");
            for level in 0..HEAT_LEVELS {
                let apart = idle.apart(theme.heat(level));
                assert!(apart >= 11.0, "{name}: idle and heat {level} {apart}");
            }
            // The open tab and a notice are written in the background color on these.
            for ground in [Role::Accent, Role::Crit] {
                let ratio = theme.color(Role::Background).contrast(theme.color(ground));
                assert!(ratio >= 4.5, "{name}: background on {ground:?} {ratio}");
            }
        }
    }

    /// Linear RGB as the three kinds of color blindness see it (Machado, Oliveira and Fernandes 2009, severity 1).
    const BLIND: [[[f64; 3]; 3]; 3] = [
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ],
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ],
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ],
    ];

    fn as_blind(color: Rgb, matrix: &[[f64; 3]; 3]) -> Rgb {
        let linear = [color.0, color.1, color.2].map(super::super::color::linear);
        let seen = matrix.map(|row| {
            let sum: f64 = row.iter().zip(linear).map(|(a, b)| a * b).sum();
            let share = sum.clamp(0.0, 1.0);
            let coded = if share <= 0.003_130_8 {
                12.92 * share
            } else {
                1.055 * share.powf(1.0 / 2.4) - 0.055
            };
            (coded * 255.0).round() as u8
        });
        Rgb(seen[0], seen[1], seen[2])
    }

    #[test]
    fn harbour_and_lagoon_are_safe_for_color_blind_eyes() {
        for name in ["harbour", "lagoon"] {
            let theme = Theme::builtin(name).expect(name);
            for matrix in &BLIND {
                let states = [Role::Ok, Role::Warn, Role::Crit].map(|role| theme.color(role));
                for (at, one) in states.iter().enumerate() {
                    for other in &states[at + 1..] {
                        let apart = as_blind(*one, matrix).apart(as_blind(*other, matrix));
                        assert!(apart >= 15.0, "{name}: {one:?} and {other:?} {apart}");
                    }
                }
                let idle = as_blind(theme.color(Role::IdleDevice), matrix);
                for level in 0..HEAT_LEVELS {
                    let apart = idle.apart(as_blind(theme.heat(level), matrix));
                    assert!(apart >= 11.0, "{name}: idle and heat {level} {apart}");
                }
            }
        }
    }

    #[test]
    fn the_accent_is_no_severity_and_teams_are_neither() {
        for name in Theme::names() {
            let theme = Theme::builtin(name).expect(name);
            let background = theme.color(Role::Background);
            let is_gray = name == "slate";
            let count = if is_gray { GRAY_TEAMS.len() } else { 8 };
            let teams: Vec<Rgb> = (0..count).map(|at| theme.team(at)).collect();
            for (at, one) in teams.iter().enumerate() {
                assert!(one.contrast(background) >= 3.0, "{name}: {one:?}");
                for other in &teams[..at] {
                    let least = if is_gray { 15.0 } else { 35.0 };
                    assert!(one.apart(*other) >= least, "{name}: {one:?} {other:?}");
                }
            }
            if is_gray {
                continue;
            }
            for severity in [Role::Warn, Role::Crit].map(|role| theme.color(role)) {
                let accent = theme.color(Role::Accent);
                assert!(accent.apart(severity) >= 20.0, "{name}: {severity:?}");
                for one in &teams {
                    assert!(one.apart(severity) >= 14.0, "{name}: {one:?} {severity:?}");
                    let reduced = Rgb::of_256(one.to_256());
                    assert_eq!(reduced, *one, "{name}: shown as it is in 256 colors");
                }
            }
        }
    }

    #[test]
    fn there_is_a_theme_for_every_room() {
        let all: Vec<Theme> = Theme::names()
            .map(|name| Theme::builtin(name).expect(name))
            .collect();
        assert!(all.iter().filter(|theme| theme.dark).count() >= 4);
        assert!(all.iter().filter(|theme| !theme.dark).count() >= 4);
    }

    #[test]
    fn heat_rises_evenly_in_lightness() {
        for name in Theme::names() {
            let theme = Theme::builtin(name).expect(name);
            let steps: Vec<f64> = (1..HEAT_LEVELS)
                .map(|level| theme.heat(level).lightness() - theme.heat(level - 1).lightness())
                .map(|step| if theme.dark { step } else { -step })
                .collect();
            for (level, step) in steps.iter().enumerate() {
                assert!(
                    *step > 0.4 && *step < 10.0,
                    "{name}: step {level} is {step}"
                );
            }
        }
    }

    #[test]
    fn a_wrong_theme_says_where_and_what_was_meant() {
        assert_eq!(
            error("name = \"x\"\ninherits = \"ember\"\n[roles]\nwarm = \"#ffffff\"\n"),
            "my.toml:4: there is no role `warm`; did you mean `warn`?"
        );
        assert!(
            error("name = \"x\"\n[roles]\ntext = \"#fff\"\n").contains("my.toml:3: role `text`")
        );
        assert!(error("name = \"x\"\n").contains("has no color"));
        assert!(error("name = \"x\"\ninherits = \"embr\"\n").contains("did you mean `ember`"));
        assert!(error("name = \"x\"\ninherits = \"x\"\n").contains("circular"));
        assert!(error("name = \"x\"\nroless = 1\n").contains("my.toml:2"));
        assert!(error("name = \"x\"\n[roles]\nheat = [\"#000000\"]\n").contains("list of 16"));
        let circle = Theme::parse("a.toml", "name = \"a\"\ninherits = \"b\"", &|_| {
            Some(String::from("name = \"b\"\ninherits = \"a\""))
        });
        assert!(circle.expect_err("circle").message.contains("circular"));
    }

    #[test]
    fn a_theme_inherits_what_it_does_not_say() {
        let theme = Theme::parse(
            "my.toml",
            "name = \"x\"\ninherits = \"ember\"\n[roles]\naccent = \"moss\"\n",
            &|_| None,
        )
        .expect("valid");
        assert_eq!(theme.color(Role::Accent), Theme::ember().color(Role::Ok));
        assert_eq!(theme.color(Role::Text), Theme::ember().color(Role::Text));
    }
}
