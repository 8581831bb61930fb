//! The console's look out of the settings and this terminal: theme, keys, colors.

use std::fs;
use std::path::Path;

use console::{AppOptions, ColorDepth, Keymap, LoadError, Theme};
use model::base::{Exit, Failure, Name, SmallSort};
use settings::{ColorChoice, Layer, Settings};
use source::local;
use table::Scope;

use crate::runtime::host::Host;

/// The console's options. `terminal` is true when its output is a terminal.
pub(crate) fn options(
    host: &Host,
    settings: &Settings,
    terminal: bool,
) -> Result<AppOptions, Failure> {
    let theme = theme(settings, &settings.theme)?;
    let base = AppOptions::default();
    let scope = scope(settings);
    Ok(AppOptions {
        themes: others(settings, base.themes)?,
        theme,
        depth: depth(settings.color, terminal, &|name| host.text_variable(name)),
        ascii: ascii(settings, terminal, &|name| host.text_variable(name)),
        keys: keys(settings)?,
        team: scope.team,
        namespaces: scope.namespaces,
        ..base
    })
}

/// Which part of everything is worked in.
pub(crate) fn scope(settings: &Settings) -> Scope {
    let namespaces = settings.scope.namespaces.iter();
    Scope {
        team: settings.scope.team.as_deref().map(Name::new),
        namespaces: namespaces.map(|name| Name::new(name)).collect(),
    }
}

/// A theme of the user's own folder, or a built-in one.
fn theme(settings: &Settings, name: &str) -> Result<Theme, Failure> {
    let own = |name: &str| {
        // A theme is a name, never a path to another file.
        let plain = !name.contains(['/', '\\']) && name != "..";
        let folder = settings.themes_dir.as_deref().filter(|_| plain)?;
        local::read_text(&folder.join(format!("{name}.toml"))).ok()
    };
    let found = match own(name) {
        Some(text) => Theme::parse(&format!("{name}.toml"), &text, &own),
        None => Theme::builtin(name),
    };
    found.map_err(|error| {
        if error.line.is_some() {
            wrong(&error)
        } else {
            let fault = settings.fault("theme", error.message);
            Failure::new(Exit::Usage, fault.to_string())
        }
    })
}

/// Every theme that can be chosen: those of the user's folder behind those of the program.
fn others(settings: &Settings, mut themes: Vec<Theme>) -> Result<Vec<Theme>, Failure> {
    let Some(folder) = settings.themes_dir.as_deref() else {
        return Ok(themes);
    };
    let mut names: Vec<String> = fs::read_dir(folder)
        .map_err(|error| {
            let message = format!("cannot read the folder {}: {error}", folder.display());
            Failure::new(
                Exit::Usage,
                settings.fault("themes_dir", message).to_string(),
            )
        })?
        .filter_map(|entry| name_of(&entry.ok()?.path()))
        .collect();
    names.small_sort();
    for name in names {
        let own = theme(settings, &name)?;
        themes.retain(|known| known.name != own.name);
        themes.push(own);
    }
    Ok(themes)
}

fn name_of(path: &Path) -> Option<String> {
    let is_toml = path.extension().is_some_and(|end| end == "toml");
    let name = path.file_stem()?.to_str()?;
    is_toml.then(|| name.to_owned())
}

/// The built-in keys with those of the settings' `keys_file`.
///
/// # Errors
/// The file cannot be read or has a wrong key: the line and the fix.
pub(crate) fn keys(settings: &Settings) -> Result<Keymap, Failure> {
    let Some(path) = settings.keys_file.as_deref() else {
        return Ok(Keymap::builtin());
    };
    let text = local::read_text(path).map_err(|error| {
        let message = format!("cannot read {}: {error}", path.display());
        Failure::new(
            Exit::Usage,
            settings.fault("keys_file", message).to_string(),
        )
    })?;
    Keymap::builtin()
        .with(&path.display().to_string(), &text)
        .map_err(|error| wrong(&error))
}

fn wrong(error: &LoadError) -> Failure {
    Failure::new(Exit::Usage, error.to_string())
}

/// Terminals whose fonts lack most of our signs, or that show no Unicode at all: consoles of Linux and FreeBSD, DEC's terminals,
/// serial lines. `linux-16color` counts as `linux`.
const FEW_SIGNS: &[&str] = &["linux", "ansi", "cons25", "vt52", "vt100", "vt102", "vt220"];

/// Whether to draw with ASCII only: as set; where nothing is set, on a terminal with few signs.
fn ascii(settings: &Settings, terminal: bool, variable: &dyn Fn(&str) -> Option<String>) -> bool {
    let origin = settings.origins.of("ascii");
    if origin.is_some_and(|origin| origin.layer != Layer::Default) {
        return settings.ascii;
    }
    let term = variable("TERM").unwrap_or_default();
    let family = term.split('-').next().unwrap_or_default();
    settings.ascii || (terminal && FEW_SIGNS.contains(&family))
}

/// How many colors to use. `auto` believes `COLORTERM` and `TERM`, and `NO_COLOR` above both.
fn depth(
    choice: ColorChoice,
    terminal: bool,
    variable: &dyn Fn(&str) -> Option<String>,
) -> ColorDepth {
    let able = || {
        let term = variable("TERM").unwrap_or_default();
        let promised = variable("COLORTERM").is_some_and(|value| {
            value.eq_ignore_ascii_case("truecolor") || value.eq_ignore_ascii_case("24bit")
        });
        if term == "dumb" {
            ColorDepth::None
        } else if promised || term.ends_with("-direct") {
            ColorDepth::True
        } else if term.contains("256color") {
            ColorDepth::Ansi256
        } else {
            ColorDepth::Ansi16
        }
    };
    match choice {
        ColorChoice::Never => ColorDepth::None,
        ColorChoice::Ansi16 => ColorDepth::Ansi16,
        ColorChoice::Ansi256 => ColorDepth::Ansi256,
        ColorChoice::True => ColorDepth::True,
        ColorChoice::Always => match able() {
            ColorDepth::None => ColorDepth::Ansi16,
            able => able,
        },
        ColorChoice::Auto if !terminal || variable("NO_COLOR").is_some() => ColorDepth::None,
        ColorChoice::Auto => able(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ffi::OsString;
    use std::sync::Arc;

    use super::*;
    use crate::cli::tests::host;
    use settings::{Inputs, load};

    fn with(flags: &[(&str, &str)]) -> Settings {
        let flags = flags
            .iter()
            .map(|(key, value)| (format!("--{key}"), (*key).to_owned(), (*value).to_owned()));
        let inputs = Inputs {
            flags: flags.collect(),
            ..Inputs::default()
        };
        load(&inputs).expect("is right")
    }

    #[test]
    fn a_terminal_with_few_signs_gets_ascii_unless_the_operator_says_otherwise() {
        let seen = |settings: &Settings, terminal, term: &str| {
            ascii(settings, terminal, &|name| {
                (name == "TERM").then(|| term.to_owned())
            })
        };
        let unset = with(&[]);
        for few in [
            "linux",
            "linux-16color",
            "vt100",
            "vt100-nav",
            "vt220",
            "ansi",
        ] {
            assert!(seen(&unset, true, few), "{few}");
            assert!(!seen(&unset, false, few), "{few}: a file is no terminal");
            assert!(!seen(&with(&[("ascii", "false")]), true, few), "{few}");
        }
        for many in [
            "xterm-256color",
            "tmux-256color",
            "screen",
            "foot",
            "xterm-kitty",
            "",
        ] {
            assert!(!seen(&unset, true, many), "{many}");
            assert!(seen(&with(&[("ascii", "true")]), true, many), "{many}");
        }
    }

    /// Signs that fonts of Debian's console setup (Lat15, Uni2) have, besides ASCII. What is drawn there must be among these.
    const CONSOLE_FONT: &str = "█░▒▲▸●│─┌┐└┘├┤┬┴┼╭╮╰╯·°±×…–";

    #[test]
    fn every_view_on_a_console_has_only_signs_of_its_font() {
        let facts = table::sample::facts();
        for term in ["linux", "vt100", "ansi"] {
            let mut host = host();
            let variables = [(OsString::from("TERM"), OsString::from(term))];
            host.variables = Arc::new(BTreeMap::from(variables));
            let options = options(&host, &with(&[]), true).expect("is right");
            for view in table::navigation::ViewId::ALL {
                for size in [(100, 30), (80, 24)] {
                    let options = console::AppOptions {
                        view: *view,
                        ..options.clone()
                    };
                    let mut app = console::App::new(options);
                    app.picture([
                        console::Msg::Resize(size.0, size.1),
                        console::Msg::Facts(facts.clone()),
                    ]);
                    let text = console::render_text(&app, size.0, size.1);
                    let missing = text.chars().filter(|sign| !sign.is_ascii());
                    let missing: String = missing
                        .filter(|sign| !CONSOLE_FONT.contains(*sign))
                        .collect();
                    assert_eq!(missing, "", "{term} {view:?}: {text}");
                    assert!(!text.trim().is_empty(), "{term} {view:?}");
                }
            }
        }
    }

    #[test]
    fn colors_follow_the_terminal_and_the_operator_above_it() {
        use ColorChoice::{Always, Ansi16, Auto, Never, True};
        let seen = |choice, terminal, variables: &[(&str, &str)]| {
            depth(choice, terminal, &|name| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        let xterm = ("TERM", "xterm-256color");
        assert_eq!(seen(Auto, true, &[xterm]), ColorDepth::Ansi256);
        assert_eq!(
            seen(Auto, true, &[xterm, ("COLORTERM", "truecolor")]),
            ColorDepth::True
        );
        assert_eq!(seen(Auto, true, &[("TERM", "linux")]), ColorDepth::Ansi16);
        assert_eq!(seen(Auto, true, &[("TERM", "dumb")]), ColorDepth::None);
        assert_eq!(
            seen(Auto, true, &[xterm, ("NO_COLOR", "1")]),
            ColorDepth::None
        );
        assert_eq!(seen(Auto, false, &[xterm]), ColorDepth::None);
        assert_eq!(
            seen(Always, false, &[xterm, ("NO_COLOR", "1")]),
            ColorDepth::Ansi256
        );
        assert_eq!(seen(Never, true, &[xterm]), ColorDepth::None);
        assert_eq!(seen(Ansi16, false, &[]), ColorDepth::Ansi16);
        assert_eq!(seen(True, true, &[("NO_COLOR", "1")]), ColorDepth::True);
    }

    #[test]
    fn a_theme_that_is_not_there_is_refused_with_the_nearest() {
        let failure =
            options(&host(), &with(&[("theme", "embr")]), true).expect_err("is not there");
        assert_eq!(failure.exit, Exit::Usage);
        assert!(
            failure
                .message
                .starts_with("--theme: theme: there is no theme `embr`; did you mean `ember`?"),
            "{failure}"
        );
        let far = options(&host(), &with(&[("theme", "../../etc/passwd")]), true)
            .expect_err("is not there");
        assert_eq!(far.exit, Exit::Usage);
    }

    #[test]
    fn themes_and_keys_of_ones_own_count() {
        let folder = tempfile::TempDir::new().expect("a temporary folder");
        let path = folder.path().display().to_string();
        fs::write(
            folder.path().join("ash.toml"),
            "name = \"ash\"\ninherits = \"ember\"\n",
        )
        .expect("written");
        let own = options(
            &host(),
            &with(&[("themes_dir", &path), ("theme", "ash")]),
            true,
        )
        .expect("is right");
        assert_eq!(own.theme.name, "ash");
        assert!(own.themes.iter().any(|theme| theme.name == "ash"));
        fs::write(
            folder.path().join("bad.toml"),
            "name = \"bad\"\nrolls = 1\n",
        )
        .expect("written");
        let failure =
            options(&host(), &with(&[("themes_dir", &path)]), true).expect_err("is wrong");
        assert!(failure.message.starts_with("bad.toml:2: "), "{failure}");
        let keys = with(&[("keys_file", "/nowhere/keys.toml")]);
        let failure = options(&host(), &keys, true).expect_err("is not there");
        assert!(
            failure
                .message
                .starts_with("--keys_file: keys_file: cannot read"),
            "{failure}"
        );
    }
}
