//! `doctor`: what is reachable, allowed, found and covered, each finding with its fix.

use std::io::Write;

use clap::{Args, ValueEnum};

use model::base::{Exit, Failure};
use settings;
use table::checkup::{self, CheckupItem, Point};

use super::flags::Global;
use super::setup::{self, FactsSource, Situation};
use super::{load, look, out};

/// How to print what is found.
#[derive(Args, Clone, Copy, PartialEq, Eq, Debug)]
pub struct Doctor {
    /// How to print it
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub output: DoctorFormat,
}

/// A format on the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum DoctorFormat {
    /// A line a finding, its fix below
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
    let (mut points, situation) = settled(global);
    if let Some(situation) = situation {
        points.extend(setup::examine(&situation, err)?);
    }
    let text = match doctor.output {
        DoctorFormat::Table => checkup::text(&points),
        DoctorFormat::Json => checkup::json(&points),
    };
    out::write(out, &text)?;
    Ok(checkup::exit(&points))
}

/// The check of the settings; with invalid settings no further check is possible.
fn settled(global: &Global) -> (Vec<Point>, Option<Situation>) {
    let wrong = |failure: Failure| {
        let mend = "correct it, and see `stokehold config validate`";
        let lines = failure.message.lines().map(str::to_owned);
        let points = lines.map(|line| Point::fail(CheckupItem::Settings, failure.exit, line, mend));
        (points.collect::<Vec<Point>>(), None)
    };
    let inputs = match load::inputs(global) {
        Ok(inputs) => inputs,
        Err(failure) => return wrong(failure),
    };
    let loaded = settings::load(&inputs)
        .map_err(load::faults)
        .and_then(|settings| {
            let rulebook = load::rulebook(&settings)?;
            look::options(&global.host, &settings, false)?;
            load::log(&global.host, &settings)?;
            Ok((settings, rulebook))
        });
    let (settings, rulebook) = match loaded {
        Ok(loaded) => loaded,
        Err(failure) => return wrong(failure),
    };
    let files: Vec<&str> = inputs.files.iter().map(|file| file.path.as_str()).collect();
    let message = match files.as_slice() {
        [] => "no settings file; the defaults apply".to_owned(),
        files => format!("{} is right", files.join(", ")),
    };
    let points = vec![Point::ok(CheckupItem::Settings, message)];
    let situation = Situation {
        every_namespace: false,
        settings,
        rulebook,
        target: FactsSource::Cluster(global.choice()),
        quiet: global.flags.quiet,
        host: global.host.clone(),
    };
    (points, Some(situation))
}
