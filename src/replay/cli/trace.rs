//! `trace`: published traces replayed through the engine, and the resulting figures.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args};
use serde::Serialize;
use tokio::time::Instant;

use engine::packing::PackingPolicy;
use model::base::document::DocumentFault;
use model::base::{Exit, Failure, Moment};
use source::local;
use table::table::text_table;
use table::text::{UNKNOWN, or_unknown};

use crate::packing::{self, PackingResult, PackingSetup};
use crate::queueing::{self, Discipline, Hindsight, QueueingReplayFigures, TraceJob, TraceQueue};
use crate::ratio::Ratio;

use super::figures::pairs;
use super::{Messages, ReplayFormat};

/// Which trace, and how.
#[derive(Args, Clone, Debug)]
#[command(group(ArgGroup::new("trace").required(true).multiple(true).args(["nodes", "pods", "jobs"])))]
pub(super) struct TraceFlags {
    /// Nodes to pack: CSV with sn, cpu_milli, memory_mib, gpu, model
    #[arg(long, value_name = "CSV", requires = "pods", conflicts_with = "jobs")]
    nodes: Option<PathBuf>,
    /// Pods to place: CSV with name, cpu_milli, memory_mib, num_gpu, gpu_milli, and gpu_spec where there is one
    #[arg(long, value_name = "CSV", requires = "nodes", conflicts_with = "jobs")]
    pods: Option<PathBuf>,
    /// Jobs to queue: CSV with timestamp, duration, num_gpus, cluster
    #[arg(long, value_name = "CSV")]
    jobs: Option<PathBuf>,
    /// One pool with so many devices for all jobs; by default as many as make it 70 % busy
    #[arg(long, value_name = "N", requires = "jobs", conflicts_with_all = ["queues", "nodes"],
          value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    devices: Option<u64>,
    /// A queue with nodes of its own for each cluster: CSV with cluster, and nodes (of eight devices) or devices;
    /// jobs of other clusters are left out
    #[arg(long, value_name = "CSV", requires = "jobs", conflicts_with = "nodes")]
    queues: Option<PathBuf>,
    /// Only jobs submitted at this time or later (2017-10-01, 2017-10-01T00:00:00Z)
    #[arg(long, value_name = "TIME", requires = "jobs", conflicts_with = "nodes", value_parser = time)]
    from: Option<Moment>,
    /// Only jobs submitted at this time or earlier
    #[arg(long, value_name = "TIME", requires = "jobs", conflicts_with = "nodes", value_parser = time)]
    until: Option<Moment>,
    /// Forecast the start of so many waiting jobs, at their submission and with durations hidden, and report how
    /// far that was off
    #[arg(long, value_name = "N", requires = "jobs", conflicts_with = "nodes",
          value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    forecasts: Option<u64>,
    /// Packing: best-fit, gpu-packing, gpu-clustering, dot-product, random, fgd, stokehold. Queueing: fifo,
    /// best-effort, easy, las (least attained service), stokehold, stokehold-unknown (durations not known)
    #[arg(long, value_name = "POLICY", default_value = "stokehold")]
    policy: String,
    /// GPU that arrives in all, as a share of the cluster's (1.3, 130%); 0 uses the list as it is [default: 1.3]
    #[arg(long, value_name = "R", requires = "pods", conflicts_with = "jobs")]
    inflate: Option<Ratio>,
    /// The most frequent specs that make up this share of the pods are typical (0.95, 95%) [default: 0.95]
    #[arg(long, value_name = "R", requires = "pods", conflicts_with = "jobs")]
    typical: Option<Ratio>,
    /// Orders pods and nodes, and draws what tops the list up; queueing has no randomness
    #[arg(long, value_name = "N", default_value_t = 42)]
    seed: u64,
    /// How to print it
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: ReplayFormat,
}

/// A moment of the command line; a day is its first moment.
fn time(text: &str) -> Result<Moment, String> {
    Moment::parse(text)
        .or_else(|| Moment::parse(&format!("{text}T00:00:00Z")))
        .or_else(|| Moment::parse(&format!("{}Z", text.replace(' ', "T"))))
        .ok_or_else(|| "write 2017-10-01 or 2017-10-01T00:00:00Z".to_owned())
}

/// Packing figures, as the contract has them.
#[derive(Serialize)]
struct PackingFigures {
    policy: &'static str,
    seed: u64,
    nodes: usize,
    devices: u64,
    pods: usize,
    arrived_ratio: f64,
    allocation_ratio: f64,
    fragmentation_ratio: Option<f64>,
    curve: Vec<CurvePoint>,
    placements: usize,
    failed: usize,
    failed_by_size: BTreeMap<String, usize>,
    wall_seconds: f64,
    placements_per_second: Option<f64>,
}

/// One point of the curve.
#[derive(Serialize)]
struct CurvePoint {
    arrived: f64,
    allocation: f64,
    fragmentation: Option<f64>,
}

/// Queueing figures, as the contract has them; times in seconds.
#[derive(Serialize)]
struct QueueingFigures {
    policy: &'static str,
    jobs: usize,
    jct_mean: Option<f64>,
    jct_p50: Option<f64>,
    jct_p95: Option<f64>,
    wait_mean: Option<f64>,
    wait_p95: Option<f64>,
    wait_p99_gangs: Option<f64>,
    preemptions: u64,
    lost_device_hours: f64,
    wall_seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    forecast: Option<ForecastFigures>,
}

/// Forecast errors, if forecasts were requested; times in seconds.
#[derive(Serialize)]
struct ForecastFigures {
    asked: usize,
    unknown: usize,
    judged: usize,
    abs_error_p50_seconds: Option<f64>,
    abs_error_p90_seconds: Option<f64>,
    wait_p50_seconds: Option<f64>,
    wait_p90_seconds: Option<f64>,
    coverage_ratio: Option<f64>,
    early_ratio: Option<f64>,
}

pub(super) fn run(flags: &TraceFlags, messages: &mut Messages<'_>) -> Result<String, Failure> {
    match (&flags.nodes, &flags.pods, &flags.jobs) {
        (Some(nodes), Some(pods), _) => pack(flags, nodes, pods, messages),
        (_, _, Some(jobs)) => queue(flags, jobs, messages),
        _ => {
            let message = "give --nodes and --pods, or --jobs";
            Err(Failure::new(Exit::Usage, message))
        }
    }
}

/// Reads and parses a file.
fn read<T>(
    path: &Path,
    parse: impl Fn(&[u8], &str) -> Result<T, DocumentFault>,
) -> Result<T, Failure> {
    let name = path.display().to_string();
    let failed = |message: String| Failure::new(Exit::Failed, message);
    let text =
        local::read(path).map_err(|error| failed(format!("{name}: cannot be read: {error}")))?;
    parse(&text, &name).map_err(|fault| failed(fault.to_string()))
}

fn named<T: std::str::FromStr<Err = String>>(policy: &str) -> Result<T, Failure> {
    policy
        .parse()
        .map_err(|message| Failure::new(Exit::Usage, format!("--policy: {message}")))
}

fn pack(
    flags: &TraceFlags,
    nodes: &Path,
    pods: &Path,
    messages: &mut Messages<'_>,
) -> Result<String, Failure> {
    let usual = PackingSetup::default();
    let setup = PackingSetup {
        policy: named::<PackingPolicy>(&flags.policy)?,
        inflate: flags.inflate.unwrap_or(usual.inflate),
        typical: flags.typical.unwrap_or(usual.typical),
        seed: flags.seed,
    };
    if setup.typical.is_zero() || setup.typical > Ratio::WHOLE {
        let message = "--typical: must be above 0 and at most 1, as 0.95";
        return Err(Failure::new(Exit::Usage, message));
    }
    let fleet = read(nodes, packing::nodes)?;
    let list = read(pods, packing::pods)?;
    let watch = Instant::now();
    let mut run = packing::PackingReplay::new(&fleet, &list, setup)
        .map_err(|message| Failure::new(Exit::Failed, format!("{}: {message}", nodes.display())))?;
    let all = run.len();
    let mut progress = messages.progress();
    let mut done = 0;
    while run.next().is_some() {
        done += 1;
        progress.report("pods", done, all);
    }
    drop(progress);
    let outcome = run.outcome();
    let seconds = watch.elapsed().as_secs_f64();
    let figures = packing_figures(outcome, seconds);
    Ok(flags.output.print(&figures, packing_table))
}

fn packing_figures(outcome: PackingResult, seconds: f64) -> PackingFigures {
    let point = |mark: &packing::ArrivalPoint| CurvePoint {
        arrived: mark.arrived,
        allocation: mark.allocation,
        fragmentation: mark.fragmentation,
    };
    PackingFigures {
        policy: outcome.policy.name(),
        seed: outcome.seed,
        nodes: outcome.nodes,
        devices: outcome.devices,
        pods: outcome.pods,
        arrived_ratio: outcome.arrived,
        allocation_ratio: outcome.allocation,
        fragmentation_ratio: outcome.fragmentation,
        curve: outcome.curve.iter().map(point).collect(),
        placements: outcome.placements,
        failed: outcome.failed,
        failed_by_size: outcome.failed_by_size,
        wall_seconds: seconds,
        placements_per_second: (seconds > 0.0).then(|| outcome.placements as f64 / seconds),
    }
}

fn hundredths(ratio: Option<f64>) -> String {
    ratio.map_or_else(
        || UNKNOWN.to_owned(),
        |ratio| format!("{:.2}%", ratio * 100.0),
    )
}

fn packing_table(figures: &PackingFigures) -> String {
    let failed: Vec<String> = figures
        .failed_by_size
        .iter()
        .map(|(size, count)| format!("{size} {count}"))
        .collect();
    let mut text = pairs(&[
        ("POLICY", figures.policy.to_owned()),
        ("SEED", figures.seed.to_string()),
        ("NODES", figures.nodes.to_string()),
        ("DEVICES", figures.devices.to_string()),
        ("PODS", figures.pods.to_string()),
        ("ARRIVED", hundredths(Some(figures.arrived_ratio))),
        ("ALLOCATION", hundredths(Some(figures.allocation_ratio))),
        ("FRAGMENTATION", hundredths(figures.fragmentation_ratio)),
        ("PLACED", figures.placements.to_string()),
        ("FAILED", figures.failed.to_string()),
        ("FAILED BY SIZE", failed.join(", ")),
        ("SECONDS", format!("{:.3}", figures.wall_seconds)),
        (
            "PLACEMENTS/S",
            or_unknown(
                figures
                    .placements_per_second
                    .map(|rate| format!("{rate:.0}")),
            ),
        ),
    ]);
    let lines: Vec<Vec<String>> = figures
        .curve
        .iter()
        .filter(|point| ((point.arrived * 100.0).round() as u64).is_multiple_of(10))
        .map(|point| {
            vec![
                format!("{:.0}%", point.arrived * 100.0),
                hundredths(Some(point.allocation)),
                hundredths(point.fragmentation),
            ]
        })
        .collect();
    let titles = vec![
        ("ARRIVED", true),
        ("ALLOCATION", true),
        ("FRAGMENTATION", true),
    ];
    text.push('\n');
    text + &text_table(titles, &lines, true)
}

fn queue(flags: &TraceFlags, path: &Path, messages: &mut Messages<'_>) -> Result<String, Failure> {
    let discipline: Discipline = named(&flags.policy)?;
    let mut jobs: Vec<TraceJob> = read(path, queueing::jobs)?;
    let after = |job: &TraceJob| flags.from.is_none_or(|from| job.submit >= from.millis());
    let before = |job: &TraceJob| flags.until.is_none_or(|until| job.submit <= until.millis());
    jobs.retain(|job| after(job) && before(job));
    let queues: Vec<TraceQueue> = match (&flags.queues, flags.devices) {
        (Some(file), _) => read(file, queueing::queues)?,
        (None, Some(devices)) => vec![queueing::pool(devices)],
        (None, None) => {
            let pool = queueing::sized(&jobs);
            let devices: u32 = pool.nodes.iter().sum();
            messages.print(&format!(
                "one pool of {devices} devices; --devices or --queues set others"
            ));
            vec![pool]
        }
    };
    if flags.queues.is_some() {
        let all = jobs.len();
        jobs.retain(|job| queues.iter().any(|queue| queue.name == job.queue));
        if jobs.len() < all {
            messages.print(&format!(
                "{} jobs of other clusters are left out",
                all - jobs.len()
            ));
        }
    }
    if jobs.is_empty() {
        let message = format!(
            "{}: no job is left to replay; widen --from, --until or --queues",
            path.display()
        );
        return Err(Failure::new(Exit::Failed, message));
    }
    let watch = Instant::now();
    let mut progress = messages.progress();
    let past = queueing::replay(&jobs, &queues, discipline, &mut |done, all| {
        progress.report("jobs", done, all);
    });
    drop(progress);
    let figures = QueueingReplayFigures::of(&jobs, &past);
    let seconds = watch.elapsed().as_secs_f64();
    let forecast = flags.forecasts.map(|most| {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let mut progress = messages.progress();
        queueing::foresight(&jobs, &queues, &past, discipline, most, &mut |done, all| {
            progress.report("forecasts", done, all);
        })
    });
    if figures.never > 0 {
        let message = format!(
            "{} jobs ask for more than their queue has; they never run and are left out",
            figures.never
        );
        messages.print(&message);
    }
    let figures = QueueingFigures {
        forecast: forecast.map(forecast_figures),
        ..queueing_figures(discipline, &figures, seconds)
    };
    Ok(flags.output.print(&figures, queueing_table))
}

/// Milliseconds as seconds.
fn in_seconds(millis: Option<i64>) -> Option<f64> {
    millis.map(|millis| millis as f64 / 1_000.0)
}

fn queueing_figures(
    discipline: Discipline,
    figures: &QueueingReplayFigures,
    seconds: f64,
) -> QueueingFigures {
    QueueingFigures {
        policy: discipline.name(),
        jobs: figures.jobs,
        jct_mean: in_seconds(figures.jct_mean),
        jct_p50: in_seconds(figures.jct_p50),
        jct_p95: in_seconds(figures.jct_p95),
        wait_mean: in_seconds(figures.wait_mean),
        wait_p95: in_seconds(figures.wait_p95),
        wait_p99_gangs: in_seconds(figures.wait_p99_gangs),
        preemptions: figures.preemptions,
        lost_device_hours: figures.lost as f64 / 3_600_000.0,
        wall_seconds: seconds,
        forecast: None,
    }
}

fn forecast_figures(found: Hindsight) -> ForecastFigures {
    let judged = found.asked - found.unknown;
    let share = |part: usize| (judged > 0).then(|| part as f64 / judged as f64);
    ForecastFigures {
        asked: found.asked,
        unknown: found.unknown,
        judged,
        abs_error_p50_seconds: in_seconds(found.error_p50),
        abs_error_p90_seconds: in_seconds(found.error_p90),
        wait_p50_seconds: in_seconds(found.wait_p50),
        wait_p90_seconds: in_seconds(found.wait_p90),
        coverage_ratio: share(found.within),
        early_ratio: share(found.early),
    }
}

fn queueing_table(figures: &QueueingFigures) -> String {
    let seconds = |value: Option<f64>| or_unknown(value.map(|value| format!("{value:.0}s")));
    let mut text = pairs(&[
        ("POLICY", figures.policy.to_owned()),
        ("JOBS", figures.jobs.to_string()),
        ("COMPLETION MEAN", seconds(figures.jct_mean)),
        ("COMPLETION P50", seconds(figures.jct_p50)),
        ("COMPLETION P95", seconds(figures.jct_p95)),
        ("WAIT MEAN", seconds(figures.wait_mean)),
        ("WAIT P95", seconds(figures.wait_p95)),
        ("WAIT P99, GANGS OF 8+", seconds(figures.wait_p99_gangs)),
        ("PREEMPTIONS", figures.preemptions.to_string()),
        (
            "LOST DEVICE HOURS",
            format!("{:.1}", figures.lost_device_hours),
        ),
        ("SECONDS", format!("{:.3}", figures.wall_seconds)),
    ]);
    if let Some(forecast) = &figures.forecast {
        text.push('\n');
        text.push_str(&pairs(&[
            ("FORECASTS", forecast.asked.to_string()),
            ("UNKNOWN", forecast.unknown.to_string()),
            ("ERROR P50", seconds(forecast.abs_error_p50_seconds)),
            ("ERROR P90", seconds(forecast.abs_error_p90_seconds)),
            ("WAIT P50", seconds(forecast.wait_p50_seconds)),
            ("WAIT P90", seconds(forecast.wait_p90_seconds)),
            ("WITHIN P10-P90", hundredths(forecast.coverage_ratio)),
            ("BEFORE P10", hundredths(forecast.early_ratio)),
        ]));
    }
    text
}
