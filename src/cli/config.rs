//! `config`: prints the paths of the settings files, prints the merged settings, or validates them.

use std::io::Write;
use std::path::PathBuf;

use clap::Subcommand;

use model::base::{Exit, Failure};
use settings::{self, Layer, SettingsText};
use source::local;

use super::common::flags::Global;
use super::common::{console_options, load, out};

/// What to do with the settings.
#[derive(Subcommand, Clone, PartialEq, Eq, Debug)]
pub enum Config {
    /// Name the settings files, which of them exist, and which one wins
    Path,
    /// Print every setting with where it came from
    Print,
    /// Check the settings and every file they name
    Validate {
        /// Check this file instead of the one in use
        file: Option<PathBuf>,
    },
}

pub(super) fn run(config: &Config, global: &Global, out: &mut dyn Write) -> Result<Exit, Failure> {
    match config {
        Config::Path => {
            out::write(out, &paths(&load::places(&global.host)))?;
        }
        Config::Print => {
            let settings = load::settings(global)?;
            out::write(out, &settings::print(&settings))?;
        }
        Config::Validate { file } => validate(file.as_ref(), global, out)?,
    }
    Ok(Exit::Done)
}

/// One line for each place of a settings file, weakest first, and the order in which they win.
fn paths(places: &[(Layer, PathBuf)]) -> String {
    let there: Vec<bool> = places.iter().map(|(_, path)| path.is_file()).collect();
    let mut text = String::new();
    for (at, (layer, path)) in places.iter().enumerate() {
        let state = match (there[at], layer) {
            (true, _) if there[..at].contains(&true) => "read; wins over the file above",
            (true, _) => "read",
            (false, Layer::User) => "not there; create it for your own settings",
            (false, _) => "not there; create it for every user of this machine",
        };
        text.push_str(&format!("{}  {state}\n", path.display()));
    }
    text.push_str(
        "A later file wins over an earlier one, STOKEHOLD_… variables over files, flags over both: `stokehold config print`\n",
    );
    text
}

fn validate(file: Option<&PathBuf>, global: &Global, out: &mut dyn Write) -> Result<(), Failure> {
    let mut inputs = load::inputs(global)?;
    if let Some(file) = file {
        let text = local::read_text(file).map_err(|error| {
            Failure::new(
                Exit::Usage,
                format!("{}: cannot be read: {error}", file.display()),
            )
        })?;
        inputs.files = vec![SettingsText {
            layer: Layer::User,
            path: file.display().to_string(),
            text,
        }];
    }
    let settings = settings::load(&inputs).map_err(load::faults)?;
    load::rulebook(&settings)?;
    // Called for its errors alone: theme, keys and the other options of the console.
    console_options::options(&global.host, &settings, false)?;
    let mut report = String::new();
    for file in &inputs.files {
        report.push_str(&format!("{}: ok\n", file.path));
    }
    if inputs.files.is_empty() {
        report.push_str("no settings file; the defaults apply\n");
    }
    out::write(out, &report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_say_which_file_exists_which_to_create_and_which_wins() {
        let folder = tempfile::TempDir::new().expect("a temporary folder");
        let machine = folder.path().join("machine.toml");
        let user = folder.path().join("user.toml");
        let places = [
            (Layer::Machine, machine.clone()),
            (Layer::User, user.clone()),
        ];
        let states = || {
            let text = paths(&places);
            let lines = text.lines().take(places.len()).zip(&places);
            let states = lines.map(|(line, (_, path))| {
                let state = line.strip_prefix(&path.display().to_string());
                state.expect("begins with the path").trim().to_owned()
            });
            states.collect::<Vec<String>>()
        };
        let absent = [
            "not there; create it for every user of this machine",
            "not there; create it for your own settings",
        ];
        assert_eq!(states(), absent);
        std::fs::write(&user, "").expect("can be written");
        assert_eq!(states(), [absent[0], "read"]);
        std::fs::write(&machine, "").expect("can be written");
        assert_eq!(states(), ["read", "read; wins over the file above"]);
    }
}
