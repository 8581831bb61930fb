//! Keeps the usage ledger: from a recorder's own snapshots, or from an existing record.

pub mod budgets;
pub(super) mod demo;
mod demo_budgets;
pub mod facts;
pub mod prometheus;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::sync::watch;

use model::base::{Exit, Failure, Moment};
use model::cost::Prices;
use record::usage::{UsageFault, UsageFile};
use record::{Archive, RecordFault, RecordLock};
use table::Facts;
use table::spend::ObservedSpan;
use usage::{GAP, HourUsage, RunLoss, Span, UsageCounters, UsageFold, UsageSample, start_of};

use super::records::past;
use super::records::recorder::TapeState;
use super::store::Rules;

/// Longest interval between two writes of the ledger.
const WRITING: Duration = Duration::from_secs(50);

/// A ledger this close to the end of its record counts as complete; the rest is added when recording continues.
const NEAR: Duration = Duration::from_secs(60);

/// The ledger file and the fold that fills it.
pub struct UsageLedger {
    file: UsageFile,
    fold: UsageFold,
    /// Closed hours that are not written yet.
    closed: Vec<HourUsage>,
    /// Failed runs whose losses are not written yet.
    lost: Vec<RunLoss>,
    written: Option<Moment>,
    /// The record was read to its end, and no sample was taken since.
    begins: bool,
    /// The last write failed.
    fails: bool,
}

impl UsageLedger {
    /// A ledger that continues the file. Time between snapshots more than `gap` apart is unobserved.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn new(file: UsageFile, gap: Duration) -> Result<Self, UsageFault> {
        let fold = UsageFold::new(gap, file.closed()?);
        Ok(Self {
            file,
            fold,
            closed: Vec::new(),
            lost: Vec::new(),
            written: None,
            begins: false,
            fails: false,
        })
    }

    /// Adds what the record has and the file lacks, from the first hour that is not closed. `go_on` is called with the time of
    /// each snapshot; when it returns false, the result so far is kept.
    ///
    /// # Errors
    /// The record cannot be read, or the file cannot be written.
    pub fn catch_up(
        &mut self,
        archive: &Archive,
        rules: &Rules,
        mut go_on: impl FnMut(Moment) -> bool,
    ) -> Result<(), Failure> {
        let from = self.file.resumes_at().map_err(failed)?;
        let from = from.map_or(archive.start(), start_of);
        let mut fault = None;
        past::pictures(archive, rules.clone(), from, |facts| {
            fault = fault
                .take()
                .or(self.take(sample(facts, &rules.prices)).err());
            fault.is_none() && go_on(facts.now)
        })
        .map_err(failed)?;
        match fault {
            Some(fault) => Err(failed(fault)),
            None => self.flush().map_err(failed),
        }
    }

    /// Takes a sample, and writes where that is due.
    ///
    /// # Errors
    /// The file cannot be written: nothing is lost, and the next write is tried when due.
    pub fn take(&mut self, sample: UsageSample) -> Result<(), UsageFault> {
        let at = sample.at();
        self.fold.take(sample);
        self.closed.extend(self.fold.closed());
        self.lost.extend(self.fold.lost());
        let last = *self.written.get_or_insert(at);
        // After a failure it is retried at the regular interval, not on every sample.
        let ended = self.closed.len() == 1 && !self.fails;
        let due = at < last || at.since(last) >= WRITING.into();
        match due || ended {
            true => {
                self.written = Some(at);
                self.flush()
            }
            false => Ok(()),
        }
    }

    /// Writes everything that is not written yet.
    ///
    /// # Errors
    /// As [`UsageLedger::take`].
    pub fn flush(&mut self) -> Result<(), UsageFault> {
        let count = self.closed.len();
        let mut hours = std::mem::take(&mut self.closed);
        hours.extend(self.fold.open());
        let written = self.file.write(&hours, &self.lost);
        self.fails = written.is_err();
        match written {
            Ok(()) => self.lost.clear(),
            Err(_) => {
                hours.truncate(count);
                self.closed = hours;
            }
        }
        written
    }

    pub fn file(&self) -> &UsageFile {
        &self.file
    }
}

fn failed(fault: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Failed, fault.to_string())
}

pub(super) fn sample(facts: &Facts, prices: &Prices) -> UsageSample {
    UsageSample::of(facts.now, &facts.fleet, prices)
}

/// The ledger beside a recorder, on a thread of its own, so that a slow disk blocks nothing.
pub(super) struct UsageTape {
    samples: Option<Sender<UsageSample>>,
    prices: Arc<Prices>,
    counters: Option<watch::Sender<UsageCounters>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl UsageTape {
    /// Starts beside the recording into a directory; `counters` get each sample as well. Write failures and recoveries go to `state`.
    pub(super) fn start(
        folder: PathBuf,
        rules: Rules,
        state: watch::Sender<TapeState>,
        counters: Option<watch::Sender<UsageCounters>>,
    ) -> Self {
        let (samples, taken) = mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let prices = Arc::clone(&rules.prices);
        let keeper = Keeper {
            folder,
            rules,
            stop: Arc::clone(&stop),
            state,
        };
        let thread = thread::Builder::new().name("usage".to_owned());
        let thread = thread.spawn(move || keeper.run(&taken)).ok();
        Self {
            samples: Some(samples),
            prices,
            counters,
            stop,
            thread,
        }
    }

    /// Takes the usage of a snapshot.
    pub(super) fn see(&mut self, facts: &Facts) {
        let sample = sample(facts, &self.prices);
        if let Some(counters) = &self.counters {
            counters.send_modify(|counters| counters.take(&sample));
        }
        if let Some(samples) = &self.samples {
            // If the thread is gone, the record still has the data.
            let _ = samples.send(sample);
        }
    }

    pub(super) fn close(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.samples = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Writes the ledger on its thread.
struct Keeper {
    folder: PathBuf,
    rules: Rules,
    stop: Arc<AtomicBool>,
    state: watch::Sender<TapeState>,
}

impl Keeper {
    fn run(&self, samples: &Receiver<UsageSample>) {
        let mut ledger = self.begin();
        let mut tried = None;
        while let Ok(sample) = samples.recv() {
            let at = sample.at();
            let Some(known) = &mut ledger else {
                let last = *tried.get_or_insert(at);
                let stopped = self.stop.load(Ordering::Relaxed);
                if !stopped && (at.since(last) >= WRITING.into() || at < last) {
                    tried = Some(at);
                    ledger = self.begin();
                }
                continue;
            };
            // Already counted from the record.
            let is_near = |until: Moment| at <= until && until.since(at) < NEAR.into();
            if known.begins && known.fold.at().is_some_and(is_near) {
                continue;
            }
            known.begins = false;
            let taken = known.take(sample);
            self.publish(taken.err().map(|fault| fault.to_string()));
        }
        if let Some(ledger) = &mut ledger {
            let flushed = ledger.flush();
            self.publish(flushed.err().map(|fault| fault.to_string()));
        }
    }

    fn begin(&self) -> Option<UsageLedger> {
        let begun = self.opened();
        if self.stop.load(Ordering::Relaxed) {
            return begun.ok();
        }
        self.publish(begun.as_ref().err().map(|failure| failure.message.clone()));
        begun.ok()
    }

    /// The ledger, with everything that the record has.
    fn opened(&self) -> Result<UsageLedger, Failure> {
        let file = UsageFile::open(&self.folder).map_err(failed)?;
        let mut ledger = UsageLedger::new(file, GAP).map_err(failed)?;
        let stopped = || self.stop.load(Ordering::Relaxed);
        match Archive::open(&self.folder) {
            Ok(archive) => ledger.catch_up(&archive, &self.rules, |_| !stopped())?,
            Err(RecordFault::Empty(_)) => {}
            Err(fault) => return Err(failed(fault)),
        }
        ledger.begins = true;
        // After an incomplete catch-up, new samples would leave a gap that reads as unobserved: the next start continues there.
        match stopped() {
            true => Err(Failure::quiet(Exit::Done)),
            false => Ok(ledger),
        }
    }

    fn publish(&self, fault: Option<String>) {
        self.state.send_if_modified(|state| {
            let differs = state.usage_fault != fault;
            state.usage_fault = fault;
            differs
        });
    }
}

/// Share of the elapsed part of a span (up to `now`) that snapshots cover, and the number of its open hours.
///
/// # Errors
/// The file cannot be read.
pub fn seen(file: &UsageFile, span: Span, now: Moment) -> Result<(ObservedSpan, i64), UsageFault> {
    let coverage = file.coverage(span)?;
    let end = start_of(span.to).min(now);
    let over = end.since(start_of(span.from)).millis();
    let ratio = match over {
        0 => 0.0,
        over => (coverage.observed_ms as f64 / over as f64).min(1.0),
    };
    Ok((ObservedSpan { span, ratio }, coverage.open))
}

/// Opens the ledger of a record for reading. If no recorder holds the directory, missing hours are added from the record first,
/// in memory where the directory is not writable. Also returns the name of the context. `coming` gets the time of each snapshot
/// on the way and that of the end.
///
/// # Errors
/// There is neither a record nor a ledger, or one of them cannot be read.
pub fn of_record(
    folder: &Path,
    rules: impl FnOnce(&Archive) -> Rules,
    mut coming: impl FnMut(Moment, Moment),
) -> Result<(UsageFile, Option<String>), Failure> {
    let archive = match Archive::open(folder) {
        Ok(archive) => archive,
        Err(fault) => {
            // The record's segments may have been deleted: the ledger is kept longer.
            let file = UsageFile::open_to_read(folder).map_err(|other| match other {
                UsageFault::Absent(_) => failed(fault),
                other => failed(other),
            });
            return file.map(|file| (file, None));
        }
    };
    let end = archive.end();
    let context = Some(archive.context().to_owned());
    let file = match (folder.is_dir(), RecordLock::take(folder)) {
        // A single segment of a record.
        (false, _) => (UsageFile::in_memory().map_err(failed)?, None),
        // A recorder keeps it up to date.
        (true, Err(RecordFault::Locked(_))) => {
            let file = UsageFile::open_to_read(folder).map_err(failed)?;
            return Ok((file, context));
        }
        (true, Ok(lock)) => match UsageFile::open(folder) {
            Ok(file) => (file, Some(lock)),
            Err(fault @ (UsageFault::Foreign(_) | UsageFault::Newer(..))) => {
                return Err(failed(fault));
            }
            Err(_) => (UsageFile::copied(folder).map_err(failed)?, Some(lock)),
        },
        (true, Err(_)) => (UsageFile::copied(folder).map_err(failed)?, None),
    };
    let (file, _lock) = file;
    let until = file.until().map_err(failed)?;
    if until.is_some_and(|until| end.since(until) < NEAR.into()) {
        return Ok((file, context));
    }
    let mut ledger = UsageLedger::new(file, GAP).map_err(failed)?;
    ledger.catch_up(&archive, &rules(&archive), |at| {
        coming(at, end);
        true
    })?;
    Ok((ledger.file, context))
}
