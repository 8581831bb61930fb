//! `shot`: draws a view of a cluster, of a record or of the simulated fleet as a picture, without a terminal.

use std::convert::Infallible;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::runtime::actions::explanation_task;
use crate::runtime::screen::effects;
use console::{App, AppOptions, ColorDepth, Key, KeyPress, Msg, Theme, ansi, buffer_text, picture};
use model::base::{Exit, Failure, Moment, When};
use settings::ColorChoice;
use table::navigation::ViewId;
use table::{Facts, Kind, Needs};

use super::common::flags::size;
use super::common::setup::{self, Situation};
use super::common::simulated::FleetFlags;
use super::common::{console_options, out};
use super::record::PastFlags;

/// Size of a picture when none is given, columns and lines.
const SIZE: (u16, u16) = (120, 40);

/// A picture of `--all`: its file name without extension, its view, its theme, and its size in columns and lines.
type Picture = (&'static str, ViewId, &'static str, (u16, u16));

/// The pictures of the README, one or more of each view.
const GALLERY: &[Picture] = &[
    ("fleet", ViewId::Fleet, "ember", (170, 44)),
    ("pools", ViewId::Pools, "ember", (170, 30)),
    ("devices", ViewId::Devices, "ember", (170, 44)),
    ("queues", ViewId::Queues, "ember", (170, 32)),
    ("jobs", ViewId::Jobs, "ember", (170, 32)),
    ("nodes", ViewId::Nodes, "ember", (170, 32)),
    ("cost", ViewId::Cost, "ember", (170, 24)),
    ("alerts", ViewId::Alerts, "ember", (170, 40)),
    ("plans", ViewId::Plans, "ember", (170, 24)),
    ("sources", ViewId::Sources, "ember", (170, 24)),
    ("fleet-daylight", ViewId::Fleet, "daylight", (120, 40)),
    ("devices-harbour", ViewId::Devices, "harbour", (120, 40)),
    ("fleet-80x24", ViewId::Fleet, "ember", (80, 24)),
];

/// What a picture is written as.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum ShotFormat {
    /// A drawing for browsers and documents
    Svg,
    /// Text with colors for terminals
    Ansi,
    /// Text alone
    #[default]
    Txt,
}

/// Draw a view as a picture
#[derive(Args, Clone, Debug)]
pub struct Shot {
    /// The view: that of a tab (fleet, pools, …), or one that is opened under a tab (services, teams, changes, …)
    #[arg(value_parser = view, required_unless_present = "all")]
    view: Option<ShotView>,
    /// Size in columns and lines, `120x40`
    #[arg(long, value_name = "WxH", value_parser = size)]
    size: Option<(u16, u16)>,
    /// Format of the picture
    #[arg(short, long, value_name = "FORM", default_value = "txt")]
    output: ShotFormat,
    /// Keys that are pressed first, as one types them: `jj<enter>`
    #[arg(long, value_name = "KEYS", value_parser = keys, default_value = "")]
    keys: KeySequence,
    /// Of the simulated fleet, not of the cluster
    #[arg(long)]
    demo: bool,
    #[command(flatten)]
    fleet: FleetFlags,
    /// Of a record, as it was at --at; of its end without
    #[arg(long, value_name = "DIR", conflicts_with_all = ["demo", "all"])]
    record: Option<PathBuf>,
    /// Draw the pictures of the README into this folder, as SVG, and nothing else
    #[arg(long, value_name = "DIR", conflicts_with_all = ["view", "size", "keys"])]
    all: Option<PathBuf>,
}

impl Shot {
    /// The flags of the simulated fleet, if that is drawn.
    pub(super) fn fleet(&self) -> Option<FleetFlags> {
        let fixed = FleetFlags {
            // The clock is stopped while a picture is drawn.
            speed: 0.0,
            ..self.fleet
        };
        (self.demo || self.all.is_some()).then_some(fixed)
    }

    /// The record and the moment in it, if a record is drawn.
    pub(super) fn past(&self) -> PastFlags {
        PastFlags {
            at: self
                .fleet
                .at
                .map(When::at)
                .filter(|_| self.record.is_some()),
            record: self.record.clone(),
        }
    }

    /// The output format; always SVG for the pictures of the README.
    fn form(&self) -> ShotFormat {
        match self.all {
            Some(_) => ShotFormat::Svg,
            None => self.output,
        }
    }
}

/// A view by its name: a tab's, or one of a kind of rows that is opened under a tab.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ShotView {
    Tab(ViewId),
    Under(Kind),
}

/// Parses the name of a view.
///
/// # Errors
/// There is no view of this name.
fn view(name: &str) -> Result<ShotView, String> {
    let tabs = ViewId::ALL
        .iter()
        .map(|tab| (tab.name(), ShotView::Tab(*tab)));
    let under = Kind::ALL
        .into_iter()
        .filter(|kind| kind.view().doc.is_some());
    let all = tabs.chain(under.map(|kind| (kind.name(), ShotView::Under(kind))));
    let found = all.clone().find(|(known, _)| *known == name);
    found.map(|(_, view)| view).ok_or_else(|| {
        let known: Vec<&str> = all.map(|(known, _)| known).collect();
        format!("there is no such view; there are {}", known.join(", "))
    })
}

#[derive(Clone, Default, Debug)]
struct KeySequence(Vec<KeyPress>);

/// Parses typed keys, `jj<enter>/a100<enter>`. A `<` that begins no name of a key is the key `<`.
///
/// # Errors
/// The text has a control character.
fn keys(text: &str) -> Result<KeySequence, String> {
    let mut all = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let named = rest
            .strip_prefix('<')
            .and_then(|rest| rest.split_once('>'))
            .and_then(|(name, after)| Some((KeyPress::parse(name)?, after)));
        if let Some((press, after)) = named {
            all.push(press);
            rest = after;
            continue;
        }
        if c.is_control() {
            return Err(String::from(
                "a control character is not a key; write <enter>, <ctrl-f>, <esc>",
            ));
        }
        all.push(KeyPress::plain(Key::Char(c)));
        rest = &rest[c.len_utf8()..];
    }
    Ok(KeySequence(all))
}

pub(super) fn run(
    situation: &Situation,
    shot: &Shot,
    out: &mut dyn Write,
    err: &mut (dyn Write + Send),
) -> Result<Exit, Failure> {
    let own = FleetFlags {
        // With --record, --at is a moment of the record and not of the simulated fleet.
        at: shot.fleet.at.filter(|_| shot.record.is_none()),
        ..shot.fleet
    };
    own.refuse_unless(
        shot.fleet().is_some(),
        "shot",
        "--demo, or --record DIR for --at",
    )?;
    let base = options(situation, shot.form())?;
    let facts = explanation_task::answered(setup::snapshot(situation, &Needs::everything(), err)?);
    let facts = setup::with_runs(situation, setup::with_usage(situation, facts))?;
    if let Some(folder) = &shot.all {
        return gallery(&base, &facts, folder, out);
    }
    let Some(view) = shot.view else {
        return Err(Failure::new(Exit::Usage, "name a view, or --all DIR"));
    };
    let drawn = Screenshot::new(base, &facts, view, shot.size.unwrap_or(SIZE), &shot.keys.0);
    let text = match shot.form() {
        ShotFormat::Svg => drawn.svg(),
        ShotFormat::Ansi => ansi::ansi(&drawn.buf),
        ShotFormat::Txt => buffer_text(&drawn.buf),
    };
    out::write(out, &text)?;
    Ok(Exit::Done)
}

/// The options of the settings, with the colors of the format: true color unless the settings have fewer; none in plain text,
/// where signs and digits replace them.
fn options(situation: &Situation, form: ShotFormat) -> Result<AppOptions, Failure> {
    let mut options = console_options::options(&situation.host, &situation.settings, true)?;
    options.depth = depth(form, situation.settings.color, options.depth);
    // A picture does not depend on the signs of this terminal.
    options.ascii = situation.settings.ascii;
    Ok(options)
}

/// Color depth of a picture. `able` is the depth of the console here: it applies to an explicit choice of fewer colors, and
/// ANSI output has no colors where it has none (`NO_COLOR`).
const fn depth(form: ShotFormat, choice: ColorChoice, able: ColorDepth) -> ColorDepth {
    match (form, choice, able) {
        (ShotFormat::Txt, ..) | (ShotFormat::Ansi, ColorChoice::Auto, ColorDepth::None) => {
            ColorDepth::None
        }
        (_, ColorChoice::Auto | ColorChoice::Always, _) => ColorDepth::True,
        _ => able,
    }
}

struct Screenshot {
    buf: Buffer,
    theme: Theme,
}

impl Screenshot {
    fn new(
        options: AppOptions,
        facts: &Facts,
        view: ShotView,
        (width, height): (u16, u16),
        keys: &[KeyPress],
    ) -> Self {
        let theme = options.theme.clone();
        let (view, opened) = match view {
            ShotView::Tab(tab) => (tab, String::new()),
            ShotView::Under(kind) => (kind.view().tab, format!(":{}\n", kind.name())),
        };
        let mut app = App::new(AppOptions { view, ..options });
        app.picture([
            Msg::Resize(width, height),
            // The clock and the last key are at the epoch: when the facts arrive, no key is recent, and rows are ordered at once.
            Msg::Tick(Moment::default()),
            Msg::Silences((*facts.silences).clone()),
            Msg::Usage(Arc::clone(&facts.usage)),
            Msg::JobExplanations(Arc::clone(&facts.answers)),
            Msg::ActionState(Arc::clone(&facts.acts)),
            Msg::Facts(facts.clone()),
        ]);
        let typed = opened.chars().map(|c| match c {
            '\n' => KeyPress::plain(Key::Enter),
            c => KeyPress::plain(Key::Char(c)),
        });
        for press in typed.chain(keys.iter().copied()) {
            let Ok(()) = effects::deliver(&mut app, Msg::Key(press), |effect| {
                Ok::<_, Infallible>(effects::answer(facts, effect).into_iter().collect())
            });
        }
        let area = Rect::new(0, 0, width, height);
        let mut buf = Buffer::empty(area);
        app.draw(area, &mut buf);
        Self { buf, theme }
    }

    fn svg(&self) -> String {
        picture::svg(&self.buf, &self.theme)
    }
}

/// Draws the pictures of the README into a folder and prints their paths.
fn gallery(
    base: &AppOptions,
    facts: &Facts,
    folder: &Path,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let wrong = |path: &Path, error: std::io::Error| {
        Failure::new(
            Exit::Failed,
            format!("cannot write {}: {error}", path.display()),
        )
    };
    fs::create_dir_all(folder).map_err(|error| wrong(folder, error))?;
    for (name, view, theme, size) in GALLERY {
        let theme =
            Theme::builtin(theme).map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
        let options = AppOptions {
            theme,
            ..base.clone()
        };
        let drawn = Screenshot::new(options, facts, ShotView::Tab(*view), *size, &[]);
        let path = folder.join(format!("{name}.svg"));
        fs::write(&path, drawn.svg()).map_err(|error| wrong(&path, error))?;
        out::write(out, &format!("{}\n", path.display()))?;
    }
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_view_has_a_name_and_no_other_word_is_one() {
        assert_eq!(view("jobs"), Ok(ShotView::Tab(ViewId::Jobs)));
        assert_eq!(view("services"), Ok(ShotView::Under(Kind::Services)));
        let why = view("diff").expect_err("no view");
        assert!(why.contains("sources") && why.contains("teams"), "{why}");
    }

    #[test]
    fn typed_keys_are_parsed_and_control_characters_refused() {
        let read = |text: &str| keys(text).map(|keys| keys.0);
        assert_eq!(
            read("j<enter>/a<ctrl-f>"),
            Ok(vec![
                KeyPress::char('j'),
                KeyPress::plain(Key::Enter),
                KeyPress::char('/'),
                KeyPress::char('a'),
                KeyPress::ctrl('f'),
            ])
        );
        assert_eq!(read("<"), Ok(vec![KeyPress::char('<')]));
        assert_eq!(read("<nope>").map(|keys| keys.len()), Ok(6));
        assert!(read("\u{1b}").is_err());
    }

    #[test]
    fn text_has_no_color_and_pictures_have_the_colors_of_the_settings() {
        use ColorChoice::{Always, Ansi256, Auto, Never};
        for (form, choice, able, wanted) in [
            (ShotFormat::Txt, Auto, ColorDepth::True, ColorDepth::None),
            (ShotFormat::Txt, Always, ColorDepth::True, ColorDepth::None),
            (ShotFormat::Ansi, Auto, ColorDepth::None, ColorDepth::None),
            (ShotFormat::Ansi, Auto, ColorDepth::Ansi16, ColorDepth::True),
            (
                ShotFormat::Ansi,
                Ansi256,
                ColorDepth::Ansi256,
                ColorDepth::Ansi256,
            ),
            (ShotFormat::Svg, Auto, ColorDepth::None, ColorDepth::True),
            (ShotFormat::Svg, Never, ColorDepth::None, ColorDepth::None),
        ] {
            assert_eq!(depth(form, choice, able), wanted, "{form:?} {choice:?}");
        }
    }

    #[test]
    fn every_view_has_a_picture_and_every_picture_has_a_built_in_theme() {
        for (name, _, theme, _) in GALLERY {
            assert!(Theme::builtin(theme).is_ok(), "{name}");
        }
        for view in ViewId::ALL {
            assert!(GALLERY.iter().any(|picture| picture.1 == *view), "{view:?}");
        }
    }
}
