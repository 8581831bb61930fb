//! Recorder beside the store: gets every observation before the ledger does, and writes every few seconds.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use model::base::{Exit, Failure, Moment};
use model::fleet::observe::Observation;
use model::fleet::runtimes::Runtimes;
use record::{RecordFault, RecordOptions, Recorder, Saved, Written};
use settings::Settings;
use source::client::Connection;
use table::Facts;
use usage::UsageCounters;

use crate::runtime::store::{Rules, Store};
use crate::runtime::usage::UsageTape;

/// Interval between snapshots while recording without a screen: a replay builds the same number before it shows a time.
pub const SNAPSHOT_INTERVAL: Duration = Duration::from_secs(9);
/// Longest wait for the identity of a cluster before it is recorded or watched.
const IDENTITY: Duration = Duration::from_secs(10);

/// Where a record is written, and its retention.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordSettings {
    /// The directory; `None` means that of the context in `state_dir`.
    pub folder: Option<PathBuf>,
    /// The user's directory for state.
    pub state_dir: Option<PathBuf>,
    /// Segments that ended longer ago are deleted.
    pub keep: Duration,
    /// The oldest segments are deleted while the total is larger, bytes.
    pub max_bytes: u64,
    /// Count usage for metrics as well, by job or not; `None` counts nothing.
    pub counts: Option<PerJob>,
}

/// Whether counters are kept per job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PerJob(pub bool);

impl PerJob {
    /// New counters, per job or not.
    pub fn counters(self) -> UsageCounters {
        UsageCounters::new(COUNTED[usize::from(self.0)], self.0)
    }
}

/// Most pairs of a key and a part among the counters, without and with jobs. Each is two series, so that without jobs there are
/// about 2,000 series in all, with those of queues, findings and budgets.
const COUNTED: [usize; 2] = [800, 8_000];

impl RecordSettings {
    pub fn of(settings: &Settings) -> Self {
        let state_dir = settings.state_dir.clone();
        let settings = &settings.record;
        Self {
            state_dir,
            folder: settings.dir.clone(),
            keep: settings.keep.duration(),
            max_bytes: settings.max_size.bytes(),
            counts: None,
        }
    }
}

/// Directory of a context's record, in the state directory. `None` for a user without a home directory.
pub fn directory_of(settings: &Settings, context: &str) -> Option<PathBuf> {
    in_state(settings.state_dir.as_deref(), context)
}

fn in_state(state_dir: Option<&Path>, context: &str) -> Option<PathBuf> {
    Some(state_dir?.join("record").join(folder_of(context)))
}

/// Directory of the record of a context: `record.dir` of the settings, else the default of this machine.
pub(crate) fn kept(settings: &Settings, context: &str) -> Option<PathBuf> {
    let named = settings.record.dir.clone();
    named.or_else(|| directory_of(settings, context))
}

/// A context's name as a directory name: without separators, and unique.
pub(crate) fn folder_of(context: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '@' | '=');
    let mut out = String::new();
    for c in context.chars() {
        match c {
            '.' if !out.is_empty() => out.push('.'),
            c if plain(c) => out.push(c),
            c => out.push_str(&format!("%{:x}%", u32::from(c))),
        }
    }
    out
}

/// State of a recording.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TapeState {
    /// What has been written.
    pub written: Written,
    /// Why nothing is written now; `None` while it works.
    pub fault: Option<String>,
    /// Why the usage ledger is not written now; `None` while it works.
    pub usage_fault: Option<String>,
    /// Everything is written and the recording has ended.
    pub ended: bool,
}

/// The UID of a cluster. Empty if it cannot be read: then the context's name distinguishes clusters.
pub(crate) async fn identity(connection: &Connection) -> String {
    let asked = exec::request::identity(&connection.client);
    let uid = tokio::time::timeout(IDENTITY, asked).await;
    uid.ok().and_then(Result::ok).unwrap_or_default()
}

/// Begins to record a connection; also returns the directory.
///
/// # Errors
/// The record cannot be written there.
pub(crate) async fn begin(
    connection: &Connection,
    settings: &RecordSettings,
) -> Result<(Tape, TapeControl, PathBuf), Failure> {
    let uid = identity(connection).await;
    let folder = match &settings.folder {
        Some(folder) => folder.clone(),
        None => in_state(settings.state_dir.as_deref(), &connection.context).ok_or_else(|| {
            let message = "there is no home directory to record into: give one (--dir)";
            Failure::new(Exit::Usage, message)
        })?,
    };
    let options = RecordOptions {
        folder: folder.clone(),
        cluster: uid,
        context: connection.context.to_string(),
        program: env!("CARGO_PKG_VERSION").to_owned(),
        keep: settings.keep,
        max_bytes: settings.max_bytes,
    };
    let recorder = Recorder::open(options, connection.stats.now())
        .map_err(|fault| Failure::new(Exit::Failed, fault.to_string()))?;
    let (mut tape, mut control) = Tape::new(recorder);
    if let Some(PerJob(jobs)) = settings.counts {
        let (counters, counted) = watch::channel(PerJob(jobs).counters());
        tape.counters = Some(counters);
        control.counters = Some(counted);
    }
    Ok((tape, control, folder))
}

/// A recorder beside a store. Dropped without being stopped, it loses what came since the last write.
pub struct Tape {
    recorder: Option<Box<Recorder>>,
    stop: oneshot::Receiver<()>,
    state: watch::Sender<TapeState>,
    usage: Option<UsageTape>,
    counters: Option<watch::Sender<UsageCounters>>,
    complete: bool,
    /// The known past runs at the last snapshot.
    runtimes: Runtimes,
    /// The earliest time of the next observation.
    floor: Moment,
}

/// If the clock is set back by less than this, time does not advance meanwhile: no stamp is earlier than that of the snapshot before it.
const WAVER: Duration = Duration::from_secs(2);

/// Handle of a [`Tape`]: reports its state, and ends it.
pub struct TapeControl {
    stop: Option<oneshot::Sender<()>>,
    state: watch::Receiver<TapeState>,
    counters: Option<watch::Receiver<UsageCounters>>,
    /// A write failure was reported.
    fails: bool,
    /// A failure of the usage ledger was reported.
    usage_fails: bool,
}

impl TapeControl {
    /// Resolves with a message when writing begins to fail and when it works again; `None` once the recording has ended.
    pub async fn news(&mut self) -> Option<String> {
        loop {
            self.state.changed().await.ok()?;
            let state = self.state.borrow_and_update().clone();
            let fault = state.fault;
            match (state.usage_fault, self.usage_fails) {
                (Some(fault), false) => {
                    self.usage_fails = true;
                    return Some(format!(
                        "the usage ledger is not written: {fault}; recording continues, and it is tried again"
                    ));
                }
                (None, true) => {
                    self.usage_fails = false;
                    return Some("the usage ledger is written again".to_owned());
                }
                _ => {}
            }
            match (fault, self.fails) {
                (Some(fault), false) => {
                    self.fails = true;
                    return Some(format!("nothing is recorded: {fault}; it is tried again"));
                }
                (None, true) => {
                    self.fails = false;
                    let words = "recording continues; data from the gap is missing";
                    return Some(words.to_owned());
                }
                _ => {}
            }
        }
    }

    /// The state, from now on.
    pub fn state(&self) -> watch::Receiver<TapeState> {
        self.state.clone()
    }

    /// The usage counters, where they were requested.
    pub fn counters(&self) -> Option<watch::Receiver<UsageCounters>> {
        self.counters.clone()
    }

    /// Writes the rest and ends the recording; returns its last state.
    pub async fn stop(&mut self) -> TapeState {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        let ended = self.state.wait_for(|state| state.ended).await;
        ended.map(|state| state.clone()).unwrap_or_default()
    }
}

impl Tape {
    pub fn new(recorder: Recorder) -> (Self, TapeControl) {
        let (end, stop) = oneshot::channel();
        let (state, receiver) = watch::channel(TapeState::default());
        let tape = Self {
            recorder: Some(Box::new(recorder)),
            stop,
            state,
            usage: None,
            counters: None,
            complete: false,
            runtimes: Runtimes::default(),
            floor: Moment::default(),
        };
        let control = TapeControl {
            stop: Some(end),
            state: receiver,
            counters: None,
            fails: false,
            usage_fails: false,
        };
        (tape, control)
    }

    /// Takes the state that the record handed on when it was opened.
    pub(crate) fn take_recalled(&mut self) -> Saved {
        let recorder = self.recorder.as_mut();
        recorder.map_or_else(Saved::default, |recorder| recorder.take_recalled())
    }

    /// Resolves when the recording must end.
    pub(crate) async fn stopped(&mut self) {
        let _ = (&mut self.stop).await;
    }

    /// The time stamp of the next observation, when the clock says `now`.
    pub(crate) fn stamp(&mut self, now: Moment) -> Moment {
        if now >= self.floor || self.floor.since(now) > WAVER.into() {
            self.floor = now;
        }
        self.floor
    }

    /// Records an observation, and rounds it to the recorded precision.
    pub(crate) fn see(&mut self, now: Moment, observation: &mut Observation) {
        let at = self.stamp(now);
        if let Some(recorder) = &mut self.recorder {
            Recorder::round(observation);
            recorder.see(at, observation);
        }
    }

    /// Starts the usage ledger beside the record.
    pub(crate) fn keep_usage(&mut self, rules: Rules) {
        let Some(recorder) = &self.recorder else {
            return;
        };
        self.usage = Some(UsageTape::start(
            recorder.folder().to_owned(),
            rules,
            self.state.clone(),
            self.counters.take(),
        ));
    }

    /// Writes what is due after a snapshot; `judged` where its checks were run.
    pub(crate) fn published(&mut self, store: &Store, facts: &Facts, judged: bool) {
        let at = facts.now;
        let complete = facts.fleet.is_complete();
        // A replay builds the same snapshots: those whose checks were run, and those with a newly ended run, whose job may be
        // gone by the next run of the checks.
        let before = std::mem::replace(&mut self.runtimes, facts.fleet.runtimes.clone());
        let kept = judged || !before.is_same(&self.runtimes);
        if let Some(usage) = self.usage.as_mut().filter(|_| kept) {
            usage.see(facts);
        }
        self.floor = at.plus(Duration::from_millis(1));
        let Some(recorder) = &mut self.recorder else {
            return;
        };
        if kept {
            recorder.judged(at);
        }
        if complete && !self.complete {
            self.complete = true;
            recorder.want_keyframe();
        }
        // A keyframe is made only from a snapshot whose checks were run, so it may be a few seconds late.
        if recorder.is_due(at) && (judged || !recorder.is_key_due(at)) {
            let written = recorder.flush(at, || store.saved());
            let fault = written.err();
            self.publish(fault.as_ref());
        }
    }

    fn publish(&self, fault: Option<&RecordFault>) {
        let written = self.recorder.as_ref().map(|recorder| recorder.written());
        self.state.send_if_modified(|state| {
            let next = TapeState {
                written: written.unwrap_or(state.written),
                fault: fault.map(ToString::to_string),
                usage_fault: state.usage_fault.clone(),
                ended: false,
            };
            let differs = *state != next;
            *state = next;
            differs
        });
    }

    pub(crate) fn close(&mut self) {
        let Some(recorder) = self.recorder.take() else {
            return;
        };
        // Must happen while this process still holds the directory's lock.
        if let Some(usage) = self.usage.take() {
            usage.close();
        }
        let before = recorder.written();
        let closed = recorder.close();
        self.state.send_modify(|state| {
            state.written = *closed.as_ref().unwrap_or(&before);
            state.fault = closed.err().map(|fault| fault.to_string());
            state.ended = true;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_is_a_directory_of_its_own() {
        for (context, folder) in [
            ("kind-lab", "kind-lab"),
            (
                "arn:aws:eks:us-east-1:1:cluster/prod",
                "arn%3a%aws%3a%eks%3a%us-east-1%3a%1%3a%cluster%2f%prod",
            ),
            ("..", "%2e%."),
            ("a%2f%b", "a%25%2f%25%b"),
        ] {
            assert_eq!(folder_of(context), folder);
        }
    }
}
