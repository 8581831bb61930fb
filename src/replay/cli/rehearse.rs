//! `rehearse`: compares forecasts of a simulated week with what happened.

use std::time::Duration;

use clap::Args;

use model::base::Moment;
use model::base::time::parse_span;
use sim::world::Options;
use table::text::or_unknown;

use crate::rehearsal::{BacktestResult, BacktestSetup, rehearse};

use super::figures::pairs;
use super::{Messages, ReplayFormat};

/// Which world, and for how long.
#[derive(Args, Clone, Debug)]
pub(super) struct RehearsalFlags {
    /// Size of the world by devices
    #[arg(long, value_name = "N", default_value_t = 400, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    devices: u32,
    /// Seed of the world
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// How long forecasts are made and compared with the outcome
    #[arg(long = "for", value_name = "DURATION", default_value = "168h", value_parser = span)]
    length: Duration,
    /// How long it runs before that, so that runs have ended from which something can be learnt
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = span)]
    warm_up: Duration,
    /// Its time at the start, RFC 3339
    #[arg(long, value_name = "T", default_value = "2026-11-02T00:00:00Z", value_parser = moment)]
    at: Moment,
    /// Forecast without how long past jobs ran, to see what that knowledge gains
    #[arg(long)]
    without_history: bool,
    /// How to print it
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: ReplayFormat,
}

fn span(text: &str) -> Result<Duration, String> {
    parse_span(text).ok_or_else(|| "write 90m, 24h or 7d".to_owned())
}

fn moment(text: &str) -> Result<Moment, String> {
    Moment::parse(text).ok_or_else(|| "write 2026-11-02T00:00:00Z".to_owned())
}

pub(super) fn run(flags: &RehearsalFlags, messages: &mut Messages<'_>) -> String {
    let millis = |span: Duration| i64::try_from(span.as_millis()).unwrap_or(i64::MAX / 4);
    let setup = BacktestSetup {
        world: Options {
            seed: flags.seed,
            devices: Some(flags.devices),
            ..Options::new(flags.at)
        },
        warm_up_ms: millis(flags.warm_up).min(i64::MAX / 4),
        length_ms: millis(flags.length).min(i64::MAX / 4),
        history: !flags.without_history,
    };
    let mut progress = messages.progress();
    let outcome = rehearse(&setup, |done, all| progress.report("hours", done, all));
    drop(progress);
    flags.output.print(&outcome, table)
}

fn table(outcome: &BacktestResult) -> String {
    let minutes = |seconds: Option<f64>| {
        or_unknown(seconds.map(|seconds| format!("{:.1} min", seconds / 60.0)))
    };
    let percent =
        |share: Option<f64>| or_unknown(share.map(|share| format!("{:.1}%", share * 100.0)));
    let bases: Vec<String> = outcome
        .by_basis
        .iter()
        .map(|(basis, count)| format!("{basis} {count}"))
        .collect();
    pairs(&[
        ("NODES", outcome.nodes.to_string()),
        ("DEVICES", outcome.devices.to_string()),
        ("ASKED", outcome.asked.to_string()),
        ("STILL WAITING", outcome.still_waiting.to_string()),
        ("OPEN", outcome.open.to_string()),
        ("GONE", outcome.gone.to_string()),
        ("UNKNOWN", outcome.unknown.to_string()),
        ("JUDGED", outcome.judged.to_string()),
        ("ERROR P50", minutes(outcome.abs_error_p50_seconds)),
        ("ERROR P90", minutes(outcome.abs_error_p90_seconds)),
        ("WAIT P50", minutes(outcome.wait_p50_seconds)),
        ("WAIT P90", minutes(outcome.wait_p90_seconds)),
        ("IN P10-P90", percent(outcome.coverage_ratio)),
        ("EARLIER", percent(outcome.early_ratio)),
        ("FROM", bases.join(", ")),
    ])
}
