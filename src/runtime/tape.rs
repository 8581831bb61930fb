//! The recorder beside the store: it is shown every observation before the ledger is, and writes every few seconds.

use std::path::PathBuf;
use std::time::Duration;

use directories::ProjectDirs;
use tokio::sync::{oneshot, watch};

use model::base::{Exit, Failure, Moment};
use model::fleet::observe::Observation;
use model::fleet::runtimes::Runtimes;
use model::usage::UsageCounters;
use record::{RecordFault, RecordOptions, Recorder, Written};
use settings::Recording;
use source::client::Connection;
use table::Facts;

use super::store::{Rules, Store};
use super::usage::UsageTape;

/// While a cluster is recorded and nobody looks, pictures are this far apart: a replay makes as many before it shows a moment.
pub const PACE: Duration = Duration::from_secs(9);
/// How long the identity of a cluster is waited for before it is recorded or watched.
const IDENTITY: Duration = Duration::from_secs(10);

/// Where a record is written and how much of it is kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordSettings {
    /// The directory; `None` is [`place`].
    pub folder: Option<PathBuf>,
    /// What ended longer ago is deleted.
    pub keep: Duration,
    /// The oldest is deleted while all is larger, bytes.
    pub max_bytes: u64,
    /// Counts usage for metrics as well, each job by itself or not; `None` counts nothing.
    pub counts: Option<PerJob>,
}

/// Whether counters tell jobs apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PerJob(pub bool);

impl PerJob {
    /// Counters that tell jobs apart, or not.
    pub fn counters(self) -> UsageCounters {
        UsageCounters::new(COUNTED[usize::from(self.0)], self.0)
    }
}

/// Most pairs of a key and a part among the counters: each is two series, so that with those of queues, findings and budgets
/// there are at most some 2,000. With jobs told apart there may be more.
const COUNTED: [usize; 2] = [800, 8_000];

impl RecordSettings {
    /// As the settings say.
    pub fn of(settings: &Recording) -> Self {
        Self {
            folder: settings.dir.clone(),
            keep: settings.keep.duration(),
            max_bytes: settings.max_size.bytes(),
            counts: None,
        }
    }
}

/// Where records are kept on this machine: with the state of programs, one directory a context. `None` for a user
/// without a home.
pub fn place(context: &str) -> Option<PathBuf> {
    let own = ProjectDirs::from("", "", "stokehold")?;
    let folder = own.state_dir().unwrap_or_else(|| own.data_local_dir());
    Some(folder.join("record").join(folder_of(context)))
}

/// A context's name as that of a directory: no separators, and no two contexts in one.
pub(super) fn folder_of(context: &str) -> String {
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

/// How recording goes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TapeState {
    /// What was written so far.
    pub written: Written,
    /// Why nothing is written now; `None` while all is well.
    pub fault: Option<String>,
    /// Why the usage ledger is not written now; `None` while all is well.
    pub usage_fault: Option<String>,
    /// Everything is written and nothing more will be.
    pub ended: bool,
}

/// The UID of a cluster. Empty where it may not be read: the name of the context tells clusters apart then.
pub(super) async fn identity(connection: &Connection) -> String {
    let asked = exec::request::identity(&connection.client);
    let uid = tokio::time::timeout(IDENTITY, asked).await;
    uid.ok().and_then(Result::ok).unwrap_or_default()
}

/// Begins to record what is connected; gives the directory as well.
///
/// # Errors
/// The record cannot be written there.
pub(super) async fn begin(
    connection: &Connection,
    settings: &RecordSettings,
) -> Result<(Tape, TapeControl, PathBuf), Failure> {
    let uid = identity(connection).await;
    let folder = match &settings.folder {
        Some(folder) => folder.clone(),
        None => place(&connection.context).ok_or_else(|| {
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

/// A recorder on its way along a store. Dropped without being stopped, it loses what came since it last wrote.
pub struct Tape {
    recorder: Option<Box<Recorder>>,
    stop: oneshot::Receiver<()>,
    state: watch::Sender<TapeState>,
    usage: Option<UsageTape>,
    counters: Option<watch::Sender<UsageCounters>>,
    complete: bool,
    /// What was known of past runs at the last picture.
    runtimes: Runtimes,
    /// Nothing is stamped earlier.
    floor: Moment,
}

/// A clock that goes back by less stands still meanwhile: what came after a picture is never stamped before it.
const WAVER: Duration = Duration::from_secs(2);

/// The other end of a [`Tape`]: tells how it goes, and ends it.
pub struct TapeControl {
    stop: Option<oneshot::Sender<()>>,
    state: watch::Receiver<TapeState>,
    counters: Option<watch::Receiver<UsageCounters>>,
    /// It was told that nothing is written.
    fails: bool,
    /// It was told that the usage ledger is not.
    usage_fails: bool,
}

impl TapeControl {
    /// Comes when writing begins to fail, and when it works again: in words. `None` once nothing will be written any more.
    pub async fn news(&mut self) -> Option<String> {
        loop {
            self.state.changed().await.ok()?;
            let state = self.state.borrow_and_update().clone();
            let fault = state.fault;
            match (state.usage_fault, self.usage_fails) {
                (Some(fault), false) => {
                    self.usage_fails = true;
                    return Some(format!(
                        "the usage ledger is not written: {fault}; recording goes on, and it is tried again"
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
                    let words = "recording goes on; what came meanwhile is missing";
                    return Some(words.to_owned());
                }
                _ => {}
            }
        }
    }

    /// How it goes, from now on.
    pub fn state(&self) -> watch::Receiver<TapeState> {
        self.state.clone()
    }

    /// What is counted for metrics, where that is asked for.
    pub fn counters(&self) -> Option<watch::Receiver<UsageCounters>> {
        self.counters.clone()
    }

    /// Writes what is left and ends the recording; gives how it stands then.
    pub async fn stop(&mut self) -> TapeState {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        let ended = self.state.wait_for(|state| state.ended).await;
        ended.map(|state| state.clone()).unwrap_or_default()
    }
}

impl Tape {
    /// A tape of this recorder.
    pub fn new(recorder: Recorder) -> (Self, TapeControl) {
        let (end, stop) = oneshot::channel();
        let (state, told) = watch::channel(TapeState::default());
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
            state: told,
            counters: None,
            fails: false,
            usage_fails: false,
        };
        (tape, control)
    }

    /// Comes when the recording is to end.
    pub(super) async fn stopped(&mut self) {
        let _ = (&mut self.stop).await;
    }

    /// The moment of what comes now, by a clock that says `now`.
    pub(super) fn stamp(&mut self, now: Moment) -> Moment {
        if now >= self.floor || self.floor.since(now) > WAVER.into() {
            self.floor = now;
        }
        self.floor
    }

    /// Takes an observation, and rounds it to what is kept of it.
    pub(super) fn see(&mut self, now: Moment, observation: &mut Observation) {
        let at = self.stamp(now);
        if let Some(recorder) = &mut self.recorder {
            Recorder::round(observation);
            recorder.see(at, observation);
        }
    }

    /// Keeps the usage ledger beside the record.
    pub(super) fn keep_usage(&mut self, rules: Rules) {
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

    /// Writes what is due after a picture; `judged` where its checks were run.
    pub(super) fn published(&mut self, store: &Store, facts: &Facts, judged: bool) {
        let at = facts.now;
        let complete = facts.fleet.is_complete();
        // A replay makes the same pictures: those that were judged, and those that a run was learned of. Its job may have gone by
        // the next that is judged.
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
        // A keyframe is made of a picture that was judged, a few seconds later at most.
        if recorder.is_due(at) && (judged || !recorder.is_key_due(at)) {
            let written = recorder.flush(at, || store.saved());
            let fault = written.err();
            self.tell(fault.as_ref());
        }
    }

    fn tell(&self, fault: Option<&RecordFault>) {
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

    /// Writes what is left.
    pub(super) fn close(&mut self) {
        let Some(recorder) = self.recorder.take() else {
            return;
        };
        // While the directory is still ours alone.
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
