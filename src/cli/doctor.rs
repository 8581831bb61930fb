//! `doctor`: checks the settings, the connection, the rights and the sources, and prints a fix for each problem.

use std::io::Write;

use clap::{Args, ValueEnum};

use model::base::{Exit, Failure};
use settings;
use table::checkup::{self, CheckupItem, Point};

use super::common::flags::Global;
use super::common::setup::{self, FactsSource, Situation};
use super::common::{console_options, load, out};

/// Flags of `doctor`.
#[derive(Args, Clone, Copy, PartialEq, Eq, Debug)]
pub struct Doctor {
    /// How to print it
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub output: DoctorFormat,
}

/// A format on the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum DoctorFormat {
    /// One line per check, with the fix below it
    Table,
    /// An array of objects
    Json,
}

/// Runs `doctor`. The exit code is that of its worst finding: 2 for settings, 3 for rights, 4 when the cluster does not answer.
pub(super) fn run(
    doctor: Doctor,
    global: &Global,
    out: &mut dyn Write,
    err: &mut (dyn Write + Send),
) -> Result<Exit, Failure> {
    let (mut results, situation) = check_settings(global);
    if let Some(situation) = situation {
        results.extend(setup::examine(&situation, err)?);
    }
    let text = match doctor.output {
        DoctorFormat::Table => checkup::text(&results),
        DoctorFormat::Json => checkup::json(&results),
    };
    out::write(out, &text)?;
    Ok(checkup::exit(&results))
}

/// Checks the settings. Returns no [`Situation`] when they are invalid: then no other check is possible.
fn check_settings(global: &Global) -> (Vec<Point>, Option<Situation>) {
    let invalid_settings = |failure: Failure| {
        let fix = "correct the settings, and check them with `stokehold config validate`";
        let lines = failure.message.lines().map(str::to_owned);
        let results = lines.map(|line| Point::fail(CheckupItem::Settings, failure.exit, line, fix));
        (results.collect::<Vec<Point>>(), None)
    };
    let inputs = match load::inputs(global) {
        Ok(inputs) => inputs,
        Err(failure) => return invalid_settings(failure),
    };
    let loaded = settings::load(&inputs)
        .map_err(load::faults)
        .and_then(|settings| {
            let rulebook = load::rulebook(&settings)?;
            // Only for their errors: the options of the console and the log file.
            console_options::options(&global.host, &settings, false)?;
            load::open_log(&global.host, &settings)?;
            Ok((settings, rulebook))
        });
    let (settings, rulebook) = match loaded {
        Ok(loaded) => loaded,
        Err(failure) => return invalid_settings(failure),
    };
    let files: Vec<&str> = inputs.files.iter().map(|file| file.path.as_str()).collect();
    let message = match files.as_slice() {
        [] => "no settings file; the defaults apply".to_owned(),
        files => format!("valid: {}", files.join(", ")),
    };
    let results = vec![Point::ok(CheckupItem::Settings, message)];
    let situation = Situation {
        every_namespace: false,
        settings,
        rulebook,
        target: FactsSource::Cluster(global.choice()),
        quiet: global.flags.quiet,
        host: global.host.clone(),
    };
    (results, Some(situation))
}
