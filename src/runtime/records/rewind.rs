//! Switches from a live console to the record of its cluster and back; the live session continues meanwhile.

use std::path::{Path, PathBuf};

use console::msg::Rewind;
use model::base::{Age, Exit, Failure, Moment, Name};
use record::Archive;
use table::silence::{SilenceEntry, Silences};
use table::timeline::Playback;

use super::recorder;
use crate::runtime::session::{self, Session};
use crate::runtime::setup::Setup;
use crate::runtime::silence;

/// Hint how to get a record.
const NONE: &str = "run `stokehold record` beside the console, or set `[record] enabled = true`";

/// Hint for a record that has just begun.
const BEGUN: &str = "it has just begun: try again in some seconds";

/// A shorter record may have no complete picture.
const YOUNG: Age = Age::from_seconds(10);

/// A running recorder writes at least this often, with a margin: a later time than its end still means its end.
const LATE: Age = Age::from_seconds(60);

/// The record of a cluster.
#[derive(Clone, Debug)]
pub struct PastRecord {
    setup: Setup,
    place: PathBuf,
    context: Name,
    /// What to do where there is none.
    hint: &'static str,
}

impl PastRecord {
    /// The record of a console's cluster: the directory of the settings, else that of the context.
    ///
    /// # Errors
    /// Why there can be none.
    pub(crate) fn of(setup: &Setup, context: &Name) -> Result<Self, String> {
        let place = recorder::kept(&setup.settings, context);
        Ok(Self {
            setup: setup.clone(),
            place: place.ok_or("there is no home directory to keep a record in: set record.dir")?,
            context: context.clone(),
            hint: NONE,
        })
    }

    /// The record of a simulated fleet, in a directory of its own.
    pub(crate) fn of_demo(setup: &Setup, context: &Name, place: PathBuf) -> Self {
        Self {
            setup: setup.clone(),
            place,
            context: context.clone(),
            hint: BEGUN,
        }
    }

    /// Its directory, where it exists and belongs to this cluster. Silences and acknowledgments are logged there.
    fn folder(&self) -> Option<&Path> {
        // A recorder that holds the lock has checked that; else only the record names its cluster.
        let archive = Archive::open(&self.place).ok()?;
        let is_own = archive.context() == self.context.as_str() && self.place.is_dir();
        is_own.then_some(self.place.as_path())
    }

    /// Logs a change of a finding's silence at `now` in the record's directory; does nothing without a record.
    ///
    /// # Errors
    /// The log cannot be written.
    pub(crate) fn log(
        &self,
        id: &str,
        entry: Option<SilenceEntry>,
        now: Moment,
    ) -> Result<(), String> {
        match self.folder() {
            Some(folder) => silence::log(folder, id, entry, now),
            None => Ok(()),
        }
    }

    /// Logs the existing silences in the record's directory.
    ///
    /// # Errors
    /// The log cannot be written.
    pub(crate) fn log_all(&self, silences: &Silences, now: Moment) -> Result<(), String> {
        match self.folder().filter(|_| !silences.is_empty()) {
            Some(folder) => silence::log_all(folder, silences, now),
            None => Ok(()),
        }
    }

    /// Opens the record at the requested time, paused; `now` is the time on the session's clock. Must be called within a tokio
    /// runtime, on a thread that may block.
    ///
    /// # Errors
    /// There is no record, it belongs to another cluster, or it has no data at that time.
    pub(crate) fn open(&self, to: Rewind, now: Moment) -> Result<Session, Failure> {
        let failed = |message: String| Failure::new(Exit::Failed, message);
        let archive = Archive::open(&self.place).map_err(|fault| match fault.is_absent() {
            true => failed(format!(
                "there is no record of {}: {}",
                self.context, self.hint
            )),
            false => failed(fault.to_string()),
        })?;
        if archive.context() != self.context.as_str() {
            let place = self.place.display();
            return Err(failed(format!(
                "the record in {place} is of {}: `stokehold replay {place}` shows it",
                archive.context()
            )));
        }
        let (start, end) = (archive.start(), archive.end());
        if end.since(start) < YOUNG {
            return Err(failed(format!("the record of {}: {BEGUN}", self.context)));
        }
        let at = match to {
            Rewind::To(when) => when.in_record(start, now),
            Rewind::LastChange => end,
        };
        if at < start {
            let (at, start) = (at.rfc3339(), start.rfc3339());
            return Err(failed(format!("{at}: the record begins at {start}")));
        }
        if at.since(end) > LATE {
            let (at, end) = (at.rfc3339(), end.rfc3339());
            return Err(failed(format!("{at}: the record ends at {end}")));
        }
        let session = session::replay(&self.setup, archive, at.min(end), 0.0)?;
        if let (Rewind::LastChange, Some(replay)) = (to, &session.replay) {
            replay.send(Playback::Change { forward: false });
        }
        Ok(session)
    }
}
