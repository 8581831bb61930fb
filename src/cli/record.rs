//! `record`: writes observations to disk, until it is stopped. `replay`: the console on a record.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tokio::sync::{mpsc, oneshot};
use tokio::time::MissedTickBehavior;

use ::record::{Archive, RecordFault};
use model::base::{Age, Exit, Failure, Moment, When};

use crate::runtime::records::past;
use crate::runtime::records::record_metrics::{self, RecordMetrics, RemoteWriteNews};
use crate::runtime::records::record_status;
use crate::runtime::records::recorder::{self, PerJob, RecordSettings, TapeState};
use crate::runtime::session;
use crate::runtime::setup::Setup;
use crate::runtime::status_server;
use crate::runtime::store::Rules;
use crate::runtime::usage::facts::{self as usage_facts, UsageReader};
use crate::runtime::watch::Watcher;
use settings::Settings;
use source::kubeconfig::{self, ContextChoice};
use source::remote_write::RemoteWrite;
use table::Facts;
use table::changes::FleetChanges;

use super::common::console_options;
use super::common::flags::span;
use super::common::listen;
use super::common::out;
use super::common::setup::{self, Situation};
use super::common::simulated::{FleetFlags, speed};
use super::watch;

#[derive(Args, Clone, Debug)]
pub struct RecordFlags {
    /// The directory to write into; default: from the settings, else one for the context in the state directory
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// How long to keep recorded data; default: from the settings (30d)
    #[arg(long, value_name = "SPAN", value_parser = span)]
    keep: Option<Duration>,
    /// How large the record may grow, in bytes: 500M, 4G; default: from the settings (10G)
    #[arg(long, value_name = "SIZE", value_parser = size)]
    max_size: Option<u64>,
    /// Serve /healthz, /readyz and /metrics on this address, over plain HTTP: 127.0.0.1:9843, or :9843 for all interfaces
    #[arg(long, visible_alias = "metrics", value_name = "ADDRESS:PORT", value_parser = listen::address)]
    listen: Option<SocketAddr>,
    /// Send the metrics there as well, by Prometheus remote write; default: from the settings
    #[arg(long, value_name = "URL", value_parser = receiver)]
    remote_write: Option<String>,
    /// Send findings to the receivers of [[notify]] as well, as `watch` does
    #[arg(long, conflicts_with = "demo")]
    notify: bool,
    /// Record the simulated fleet, not the cluster
    #[arg(long)]
    demo: bool,
    #[command(flatten)]
    fleet: FleetFlags,
}

#[derive(Args, Clone, Debug)]
pub struct ReplayFlags {
    /// The directory of a record, or one of its segments; without it, that of the context
    #[arg(value_name = "DIR|FILE")]
    path: Option<PathBuf>,
    /// The moment to begin at: 03:12, yesterday 14:00, -2h, RFC 3339 (UTC; the end without it)
    #[arg(long, value_name = "T", value_parser = When::parse, allow_hyphen_values = true)]
    at: Option<When>,
    /// Playback speed; 0 pauses
    #[arg(long, value_name = "X", default_value = "1", value_parser = speed, allow_negative_numbers = true)]
    speed: f64,
}

impl ReplayFlags {
    pub(super) fn past(&self) -> PastFlags {
        PastFlags {
            at: self.at,
            record: self.path.clone(),
        }
    }

    /// How fast it is played.
    pub(super) fn speed(&self) -> f64 {
        self.speed
    }
}

/// Flags of commands that can look at a record instead of the cluster.
#[derive(Args, Clone, PartialEq, Eq, Debug, Default)]
pub struct PastFlags {
    /// As it was at that time, from the record: 03:12, yesterday 14:00, -2h, RFC 3339 (UTC)
    #[arg(long, value_name = "T", value_parser = When::parse, allow_hyphen_values = true)]
    pub at: Option<When>,
    /// The record to look at; without it, that of the context
    #[arg(long, value_name = "DIR")]
    pub record: Option<PathBuf>,
}

impl PastFlags {
    /// True when a record is chosen.
    pub(super) fn is_given(&self) -> bool {
        self.at.is_some() || self.record.is_some()
    }
}

/// A moment of a record, in the place of a cluster.
#[derive(Clone, Debug)]
pub struct RecordMoment {
    /// Which record, and when.
    pub flags: PastFlags,
    /// Whose record, where no directory is given.
    pub choice: ContextChoice,
    /// Playback speed; 0 pauses.
    pub speed: f64,
}

impl RecordFlags {
    /// The simulated fleet, if that is the source.
    pub(super) fn fleet(&self) -> Option<FleetFlags> {
        self.demo.then_some(self.fleet)
    }
}

/// Parses a size into bytes: `500M`, `4G`.
fn size(text: &str) -> Result<u64, String> {
    settings::Size::parse(text).map(settings::Size::bytes)
}

/// An address that samples can be sent to.
fn receiver(url: &str) -> Result<String, String> {
    match settings::not_a_receiver(url) {
        Some(why) => Err(why),
        None => Ok(url.to_owned()),
    }
}

/// A fault of a record, or of its ledger, as one of the command.
pub(super) fn failed(fault: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Failed, fault.to_string())
}

pub(super) fn run(
    situation: &Situation,
    record: &RecordFlags,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Exit, Failure> {
    record
        .fleet
        .refuse_unless(record.demo, "record", "--demo")?;
    if record.notify {
        watch::require_receiver(situation, "leave --notify out")?;
    }
    let own = RecordSettings::of(&situation.settings);
    // The simulated fleet is not what the settings have a receiver for.
    let given = record.remote_write.as_deref();
    let remote = record_metrics::remote_write(&situation.settings, given)
        .filter(|_| given.is_some() || !record.demo);
    let counts = record.listen.is_some() || remote.is_some();
    let per_job = PerJob(situation.settings.record.job_metrics);
    let settings = RecordSettings {
        // The settings' directory is that of a cluster.
        folder: record.dir.clone().or(own.folder.filter(|_| !record.demo)),
        keep: record.keep.unwrap_or(own.keep),
        max_bytes: record.max_size.unwrap_or(own.max_bytes),
        counts: counts.then_some(per_job),
        state_dir: own.state_dir,
    };
    situation.host.block_on(async {
        let setup = situation.setup(true);
        let listener = match record.listen {
            Some(address) => Some(status_server::listen(address).await?),
            None => None,
        };
        let (session, mut control, folder) =
            session::record(&setup, situation.target()?, &settings).await?;
        let begun = session.clock.now();
        out::write(
            out,
            &format!(
                "recording {} into {1}, for `stokehold replay {1}` and `get KIND --at T --record {1}`; ctrl-c ends it\n",
                session.context,
                folder.display(),
            ),
        )?;
        if let Some(address) = listener.as_ref().and_then(|known| known.local_addr().ok()) {
            let words = format!("serves http://{address}/healthz, /readyz and /metrics\n");
            out::write(out, &words)?;
        }
        let (sender, mut heard) = mpsc::unbounded_channel::<String>();
        let watcher = match record.notify {
            true => Some(watch::watcher_of_recorder(situation, &session, &folder, err)?),
            false => None,
        };
        let watch_status = watcher.as_ref().map(Watcher::status);
        let (stop, stopped) = oneshot::channel::<()>();
        let watching = async {
            let Some(watcher) = watcher else {
                return std::future::pending().await;
            };
            let stopped = async {
                let _ = stopped.await;
            };
            let mut say = |words: &str| {
                let _ = sender.send(words.to_owned());
            };
            watcher.run(stopped, &mut say).await
        };
        let (state, now) = (control.state(), || session.clock.now());
        let every = situation.settings.record.remote_write.interval.duration();
        let mut sends = remote.map(RemoteWrite::start);
        let metrics = control.counters().map(|counters| {
            let reader = UsageReader::new(&situation.host, &situation.settings, &session.context);
            let reader = reader.in_folder(&folder).of_budgets();
            RecordMetrics {
                facts: session.facts.clone(),
                counters,
                usage: usage_facts::followed(reader, session.clock.clone()),
                remote: sends.as_ref().map(RemoteWrite::state),
                notify: watch_status.clone(),
                common: RecordMetrics::common(&situation.settings, &session.context),
            }
        });
        let served = metrics.clone();
        let answers = async {
            match listener {
                Some(listener) => record_status::serve(listener, state, served, now).await,
                None => std::future::pending().await,
            }
        };
        let end = setup::ended();
        let mut ticks = tokio::time::interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut news = RemoteWriteNews::default();
        tokio::pin!(end, answers, watching);
        // What ends the watcher ends the recorder, which closes what it has written first.
        let mut watched = None;
        loop {
            tokio::select! {
                () = &mut end => break,
                () = &mut answers => {}
                ended = &mut watching => {
                    watched = Some(ended);
                    break;
                }
                Some(words) = heard.recv() => out::print_message(err, &words),
                _ = ticks.tick(), if sends.is_some() => {
                    let (Some(sends), Some(metrics)) = (&mut sends, &metrics) else { continue };
                    let state = sends.state().borrow().clone();
                    if let Some(words) = news.of(&state) {
                        out::print_message(err, &words);
                    }
                    // Nothing is known before the first picture.
                    if metrics.facts.borrow().is_some() {
                        sends.send(session.clock.now(), metrics.values());
                    }
                }
                watch_status = control.news() => match watch_status {
                    Some(words) => out::print_message(err, &words),
                    None => return Err(failed("every source has ended; start again")),
                },
            }
        }
        if record.notify {
            let _ = stop.send(());
            if watched.is_none() {
                watched = Some(watching.await);
            }
            while let Ok(words) = heard.try_recv() {
                out::print_message(err, &words);
            }
        }
        let state = control.stop().await;
        if let Some((mut sends, metrics)) = sends.zip(metrics) {
            sends.send(session.clock.now(), metrics.values());
            if let Some(words) = news.of(&sends.close().await) {
                out::print_message(err, &words);
            }
        }
        let lasted = session.clock.now().since(begun);
        out::write(out, &summary(&state, lasted, &folder))?;
        if let Some(ended) = watched {
            ended?;
        }
        match state.fault {
            Some(fault) => Err(failed(fault)),
            None => Ok(Exit::Done),
        }
    })
}

fn summary(state: &TapeState, lasted: Age, folder: &std::path::Path) -> String {
    let written = state.written;
    format!(
        "recorded {lasted} into {}: {:.1} MB in {} {}, {} readings\n",
        folder.display(),
        written.bytes as f64 / 1e6,
        written.segments,
        if written.segments == 1 {
            "segment"
        } else {
            "segments"
        },
        written.readings,
    )
}

/// A recorder that runs writes this often, with a little to spare.
const LATE: Age = Age::from_seconds(60);

/// The directory of a record: the one that is named, that of the settings, or that of the context.
pub(super) fn directory_of(moment: &RecordMoment, settings: &Settings) -> Result<PathBuf, Failure> {
    let named = moment.flags.record.as_ref();
    if let Some(path) = named.or(settings.record.dir.as_ref()) {
        return Ok(path.clone());
    }
    context(moment)
        .as_deref()
        .and_then(|context| recorder::directory_of(settings, context))
        .ok_or_else(|| {
            let message = "which record? name its directory, or a context (--context)";
            Failure::new(Exit::Usage, message)
        })
}

/// The name of the chosen context: the named one, or the current one.
pub(super) fn context(moment: &RecordMoment) -> Option<String> {
    match &moment.choice.context {
        Some(context) => Some(context.clone()),
        None => kubeconfig::contexts(&moment.choice)
            .ok()
            .and_then(|(_, current)| current),
    }
}

/// The changes between two moments of a record, within the settings' scope. `from` is the earlier one, by the later one.
///
/// # Errors
/// As [`open`]; the moments are in the wrong order, or nothing was recorded at the earlier one.
pub(super) fn changes(
    situation: &Situation,
    moment: &RecordMoment,
    from: impl FnOnce(&Archive, Moment) -> Moment,
    err: &mut dyn Write,
) -> Result<FleetChanges, Failure> {
    let (archive, to) = open(moment, &situation.settings, situation.quiet, err)?;
    let from = from(&archive, to);
    if from >= to {
        let (from, to) = (from.rfc3339(), to.rfc3339());
        let message = format!("--from must be before --to: {from} is not before {to}");
        return Err(Failure::new(Exit::Usage, message));
    }
    let rules = session::past_rules(&situation.setup(true), &archive);
    past::changes(
        &archive,
        &rules,
        from,
        to,
        &console_options::scope(&situation.settings),
    )
    .map_err(failed)
}

/// Opens a record, with the selected time. What cannot be read is reported on standard error.
///
/// # Errors
/// There is none, it cannot be read, or it ends before that moment.
pub(super) fn open(
    moment: &RecordMoment,
    settings: &Settings,
    quiet: bool,
    err: &mut dyn Write,
) -> Result<(Archive, Moment), Failure> {
    let path = directory_of(moment, settings)?;
    let archive = Archive::open(&path).map_err(failed)?;
    if !quiet {
        for warning in archive.warnings() {
            out::print_message(err, warning);
        }
    }
    let end = archive.end();
    let at = moment
        .flags
        .at
        .map_or(end, |when| when.in_record(archive.start(), end));
    if at.since(end) > LATE {
        let (asked, end) = (at.rfc3339(), end.rfc3339());
        return Err(failed(format!(
            "nothing was recorded at {asked}: the record ends at {end}"
        )));
    }
    if !quiet {
        let mut words = format!("as of {}, from the record {}", at.rfc3339(), path.display());
        if let Some((from, to)) = archive.gap_at(at) {
            let gap = format!(
                "; nothing was recorded from {} to {}: the values are from before",
                from.rfc3339(),
                to.rfc3339()
            );
            words.push_str(&gap);
        }
        out::print_message(err, &words);
    }
    Ok((archive, at))
}

/// How facts at a moment are read from a record.
type ReadPast = fn(&Archive, Rules, Moment) -> Result<Facts, RecordFault>;

/// The facts at a moment of a record, as `read` has them: [`past::facts_at`], or [`past::half_hour`] with the half hour before it.
///
/// # Errors
/// As [`open`]; nothing was recorded that early.
pub(super) fn facts(
    setup: &Setup,
    moment: &RecordMoment,
    quiet: bool,
    err: &mut dyn Write,
    read: ReadPast,
) -> Result<Facts, Failure> {
    let (archive, at) = open(moment, &setup.settings, quiet, err)?;
    let rules = session::past_rules(setup, &archive);
    read(&archive, rules, at).map_err(failed)
}

/// The facts at the end of the record of a cluster's context, where one is written now, with the half hour before it.
pub(super) fn half_hour_so_far(
    setup: &Setup,
    choice: &ContextChoice,
    quiet: bool,
    err: &mut dyn Write,
) -> Option<Facts> {
    let moment = RecordMoment {
        flags: PastFlags::default(),
        choice: choice.clone(),
        speed: 0.0,
    };
    let path = directory_of(&moment, &setup.settings).ok()?;
    let archive = Archive::open(&path).ok()?;
    let at = archive.end();
    if setup.host.now().since(at) > LATE {
        return None;
    }
    let rules = session::past_rules(setup, &archive);
    let facts = past::half_hour(&archive, rules, at).ok()?;
    if !quiet {
        let words = format!("as of {}, from the record {}", at.rfc3339(), path.display());
        out::print_message(err, &words);
    }
    Some(facts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_or_refused() {
        assert_eq!(size("500M"), Ok(500 << 20));
        assert_eq!(size("4G"), Ok(4 << 30));
        assert_eq!(size("1048576"), Ok(1 << 20));
        for bad in ["", "G", "4g", "4GB", "-1G", "12", "99999999999T"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }
}
