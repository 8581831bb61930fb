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
    /// Name the settings files, in the order in which they win
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
            let lines: Vec<String> = load::places(&global.host)
                .into_iter()
                .map(|(_, path)| {
                    let state = if path.is_file() { "" } else { "  (none)" };
                    format!("{}{state}\n", path.display())
                })
                .collect();
            out::write(out, &lines.concat())?;
        }
        Config::Print => {
            let settings = load::settings(global)?;
            out::write(out, &settings::print(&settings))?;
        }
        Config::Validate { file } => validate(file.as_ref(), global, out)?,
    }
    Ok(Exit::Done)
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
