//! Records observations: collects them and appends them to segments every few seconds.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::base::{Moment, Name};
use model::fleet::observe::{Observation, WorkloadFailure};

use super::archive::{objects_of, recalled};
use super::codec::{Codec, Writing};
use super::fault::RecordFault;
use super::files::{head_of, make_folder, name_of, private, segments};
use super::frame::{FrameBody, FrameKind, ObjectHistory, SegmentHead, file_head, frame};
use super::keyframe::{self, Saved};
use super::mirror::Mirror;

/// Entries are written when the recorder is called after this time. Entries that have not been written are lost if the process ends.
pub const FLUSH: Duration = Duration::from_secs(6);

/// Interval of keyframes. Seeking plays forward from a keyframe.
pub const KEYFRAMES: Duration = Duration::from_secs(15 * 60);

/// Maximum duration of a segment; [`LARGEST`] limits its size approximately. Only whole segments are deleted.
const LONGEST: Duration = Duration::from_secs(6 * 3600);
const LARGEST: u64 = 64 << 20;

/// A frame of this size is written at once, bytes.
const LARGE_FRAME: usize = 8 << 20;

/// If the clock goes back by less than this, the time stays the same until it catches up.
const WAVER: Duration = Duration::from_secs(2);

/// What to record, where, and how much to keep.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordOptions {
    /// The directory; created if it does not exist.
    pub folder: PathBuf,
    /// UID of the cluster's namespace `kube-system`; empty when it may not be read.
    pub cluster: String,
    /// Name of the kubeconfig context.
    pub context: String,
    /// Version of the program.
    pub program: String,
    /// Segments that ended longer ago are deleted.
    pub keep: Duration,
    /// The oldest segments are deleted while the total size exceeds this, bytes.
    pub max_bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Written {
    /// All frames and heads, bytes.
    pub bytes: u64,
    /// Size of the keyframes alone, bytes.
    pub keyframe_bytes: u64,
    pub frames: u64,
    /// Number of device readings.
    pub readings: u64,
    pub segments: u64,
}

/// The segment that is being written.
struct OpenSegment {
    path: PathBuf,
    file: File,
    size: u64,
    frames: u64,
    begun: Moment,
    /// Last time in the segment.
    last: Moment,
    /// The keyframe that others refer to: its offset, and the size of its objects in bytes.
    base: Option<(u64, usize)>,
    /// Objects since the last keyframe.
    history: ObjectHistory,
}

/// Writes a record. Dropping it discards unwritten entries; [`Recorder::close`] writes them.
pub struct Recorder {
    options: RecordOptions,
    /// Locked for the lifetime of the recorder.
    _lock: File,
    segment: Option<OpenSegment>,
    number: u64,
    mirror: Mirror,
    codec: Codec,
    frame: Option<Writing>,
    at: Moment,
    flushed: Moment,
    keyed: Moment,
    /// Write a keyframe with the next flush.
    wants_key: bool,
    /// The clock went back: the next entries go to a new segment.
    went_back: bool,
    written: Written,
    /// State that the earlier segments handed on, until it is taken.
    recalled: Saved,
}

fn describe(cluster: &str, context: &str) -> String {
    match cluster {
        "" => context.to_owned(),
        uid => format!("{context} ({uid})"),
    }
}

/// The head that shows that a directory belongs to another cluster. The latest UID decides; if either side has no UID, the
/// context names are compared.
fn other_cluster<'h>(heads: &'h [SegmentHead], options: &RecordOptions) -> Option<&'h SegmentHead> {
    let known = heads.iter().rev().find(|head| !head.cluster.is_empty());
    match known.filter(|_| !options.cluster.is_empty()) {
        Some(head) => Some(head).filter(|head| head.cluster != options.cluster),
        None => heads.last().filter(|head| head.context != options.context),
    }
}

impl Recorder {
    /// Opens the directory and starts a segment.
    ///
    /// # Errors
    /// Another process records to it, it contains another cluster's record, or it cannot be written.
    pub fn open(options: RecordOptions, at: Moment) -> Result<Self, RecordFault> {
        let folder = &options.folder;
        make_folder(folder).map_err(RecordFault::io("make the directory", folder))?;
        let lock = lock(folder)?;
        let known = segments(folder)?;
        // Foreign and unreadable files are skipped; the others identify the recorded cluster.
        let heads = known.iter().filter_map(|(_, path)| head_of(path).ok());
        let heads: Vec<SegmentHead> = heads.map(|(_, head, _)| head).collect();
        if let Some(held) = other_cluster(&heads, &options) {
            return Err(RecordFault::OtherCluster {
                folder: folder.clone(),
                held: describe(&held.cluster, &held.context),
                wanted: describe(&options.cluster, &options.context),
            });
        }
        let recalled = recalled(folder, None);
        let mut recorder = Self {
            number: known.last().map_or(1, |(number, _)| number + 1),
            options,
            _lock: lock,
            segment: None,
            mirror: Mirror::default(),
            codec: Codec::default(),
            frame: None,
            at,
            flushed: at,
            keyed: at,
            wants_key: false,
            went_back: false,
            written: Written::default(),
            recalled: recalled.clone(),
        };
        recorder.begin(at, false)?;
        recorder.key(at, recalled)?;
        Ok(recorder)
    }

    /// Takes the state that the earlier segments handed on when the record was opened.
    pub fn take_recalled(&mut self) -> Saved {
        std::mem::take(&mut self.recalled)
    }

    pub fn folder(&self) -> &Path {
        &self.options.folder
    }

    /// Amounts written so far.
    pub fn written(&self) -> Written {
        self.written
    }

    /// Rounds values to the recorded resolution, and removes what is never recorded. The recording console does this before it
    /// processes an observation, so that it shows the same as a replay.
    pub fn round(observation: &mut Observation) {
        match observation {
            Observation::Page(page) => super::grid::round_page(page),
            Observation::Source(health) => super::grid::round_source(health),
            Observation::Pod(pod) => {
                if let Some(failure) = &mut pod.failure {
                    leave_out_log(failure);
                }
            }
            _ => {}
        }
    }

    fn clock(&mut self, at: Moment) {
        if at.plus(WAVER) < self.at {
            self.went_back = true;
        }
        self.at = at;
    }

    /// Start time of a frame: times never decrease within a segment.
    fn from(&self, at: Moment) -> Moment {
        let last = self.segment.as_ref().map(|segment| segment.last);
        last.map_or(at, |last| at.max(last))
    }

    /// Takes an observation at time `at` on the server's clock. Nothing is written to disk yet.
    pub fn see(&mut self, at: Moment, observation: &Observation) {
        self.clock(at);
        let from = self.from(at);
        let frame = self.frame.get_or_insert_with(|| Writing::new(from));
        match observation {
            // Prometheus keeps the past; what it says of now is recorded (`IdleBefore`).
            Observation::Past(_) => {}
            Observation::Page(page) if page.readings.is_empty() => {}
            Observation::Page(page) => {
                self.written.readings += page.readings.len() as u64;
                self.codec.page(frame, at, page);
            }
            Observation::Source(health) => {
                if self.mirror.see_source(health) {
                    self.codec.source(frame, at, health);
                }
            }
            other => {
                let codec = &mut self.codec;
                let write = |bytes: &[u8]| codec.object(frame, at, bytes);
                if is_log_text_in(other) {
                    let mut clean = other.clone();
                    Self::round(&mut clean);
                    self.mirror.see(&clean, write);
                } else {
                    self.mirror.see(other, write);
                }
            }
        }
    }

    /// Records that a snapshot was taken at `at` and evaluated if due. A replay takes and evaluates snapshots at the same times.
    pub fn judged(&mut self, at: Moment) {
        self.clock(at);
        let from = self.from(at);
        let frame = self.frame.get_or_insert_with(|| Writing::new(from));
        self.codec.judged(frame, at);
    }

    /// Requests a keyframe with the next flush, because the first lists have arrived.
    pub fn want_keyframe(&mut self) {
        self.wants_key = true;
    }

    /// True when it is time to flush.
    pub fn is_due(&self, at: Moment) -> bool {
        let large = self
            .frame
            .as_ref()
            .is_some_and(|frame| frame.len() >= LARGE_FRAME);
        large || at < self.flushed || at.since(self.flushed) >= FLUSH.into()
    }

    /// Writes the collected entries, and a keyframe if one is due; `saved` returns the state for the keyframe.
    ///
    /// # Errors
    /// The file cannot be written. Earlier data is intact, the collected entries are lost, and the next call starts a new
    /// segment.
    pub fn flush(&mut self, at: Moment, saved: impl FnOnce() -> Saved) -> Result<(), RecordFault> {
        self.clock(at);
        let written = self.write(at, saved);
        self.flushed = at;
        if written.is_err() {
            self.frame = None;
            // Remove segments without frames, so that they do not pile up while the disk is full.
            if let Some(segment) = self.segment.take().filter(|segment| segment.frames == 0) {
                let _ = fs::remove_file(segment.path);
            }
        }
        written
    }

    fn is_full(&self, at: Moment) -> bool {
        self.segment.as_ref().is_some_and(|segment| {
            segment.size >= LARGEST || at.since(segment.begun) >= LONGEST.into()
        })
    }

    /// True when the next flush also writes a keyframe.
    pub fn is_key_due(&self, at: Moment) -> bool {
        let late = at.since(self.keyed) >= KEYFRAMES.into();
        late || self.wants_key || self.went_back || self.segment.is_none() || self.is_full(at)
    }

    /// Writes the entries since the last frame. Without a segment they are lost.
    fn delta(&mut self) -> Result<(), RecordFault> {
        let frame = self.frame.take().filter(|frame| !frame.is_empty());
        let Some(frame) = frame.filter(|_| self.segment.is_some()) else {
            return Ok(());
        };
        let (from, to) = frame.span();
        let (numbers, objects) = frame.finish(&mut self.codec);
        let history = self
            .segment
            .as_mut()
            .map(|segment| std::mem::take(&mut segment.history));
        let mut history = history.unwrap_or_default();
        let written = self.append(&FrameBody {
            kind: FrameKind::Delta,
            from,
            to,
            numbers: &numbers,
            objects: &objects,
            base: history.base(),
        });
        if let Some(segment) = self.segment.as_mut().filter(|_| written.is_ok()) {
            history.take(&objects);
            segment.history = history;
        }
        written
    }

    fn write(&mut self, at: Moment, saved: impl FnOnce() -> Saved) -> Result<(), RecordFault> {
        let broken = self.segment.is_none();
        self.delta()?;
        let full = self.is_full(at);
        let anew = broken || full || self.went_back;
        let due = self.is_key_due(at);
        if anew {
            self.begin(at, full && !broken && !self.went_back)?;
        }
        if anew || due {
            self.key(at, saved())?;
        }
        self.went_back = false;
        Ok(())
    }

    /// Starts a segment, and deletes expired ones.
    fn begin(&mut self, at: Moment, continues: bool) -> Result<(), RecordFault> {
        self.segment = None;
        let path = self.options.folder.join(name_of(self.number, at));
        let failed = || RecordFault::io("write", &path);
        let head = SegmentHead {
            cluster: self.options.cluster.clone(),
            context: self.options.context.clone(),
            number: self.number,
            started_ms: at.millis(),
            continues,
            program: self.options.program.clone(),
        };
        let mut options = private();
        let options = options.append(true).create_new(true);
        let mut file = options.open(&path).map_err(failed())?;
        let bytes = file_head(&head);
        let begun = file
            .write_all(&bytes)
            .and_then(|()| file.sync_data())
            .and_then(|()| File::open(&self.options.folder)?.sync_all());
        if let Err(error) = begun {
            // An incomplete head cannot be read.
            let _ = fs::remove_file(&path);
            return Err(failed()(error));
        }
        self.number += 1;
        self.written.segments += 1;
        self.written.bytes += bytes.len() as u64;
        self.segment = Some(OpenSegment {
            path,
            file,
            size: bytes.len() as u64,
            frames: 0,
            begun: at,
            last: at,
            base: None,
            history: ObjectHistory::default(),
        });
        self.forget_old(at)
    }

    fn key(&mut self, at: Moment, saved: Saved) -> Result<(), RecordFault> {
        let (numbers, objects, next) = keyframe::write(&self.mirror, saved, &self.codec);
        let base = self.segment.as_ref().and_then(|segment| segment.base);
        // A keyframe that has grown much does not use the old base.
        let base = base.filter(|(_, base)| objects.len() <= base / 2 * 3);
        // The base is as large as all objects, so it is read again instead of being kept in memory.
        let base_objects = self
            .segment
            .as_ref()
            .zip(base)
            .and_then(|(segment, (place, _))| {
                let file = File::open(&segment.path).ok()?;
                objects_of(&file, &segment.path, place).ok()
            });
        let base = base.filter(|_| base_objects.is_some());
        let place = self.segment.as_ref().map_or(0, |segment| segment.size);
        let body = FrameBody {
            kind: FrameKind::Key,
            from: at,
            to: at,
            numbers: &numbers,
            objects: &objects,
            base: base.map(|(place, _)| place).zip(base_objects.as_deref()),
        };
        self.append(&body)?;
        if let Some(segment) = &mut self.segment {
            self.written.keyframe_bytes += segment.size - place;
            segment.base = Some(base.unwrap_or((place, objects.len())));
            segment.history.clear();
        }
        self.codec = next;
        self.frame = None;
        self.keyed = at;
        self.wants_key = false;
        Ok(())
    }

    fn append(&mut self, body: &FrameBody<'_>) -> Result<(), RecordFault> {
        let Some(segment) = &mut self.segment else {
            return Ok(());
        };
        let written = frame(body).and_then(|bytes| {
            segment.file.write_all(&bytes)?;
            segment.file.sync_data()?;
            Ok(bytes.len() as u64)
        });
        match written {
            Ok(size) => {
                segment.size += size;
                segment.frames += 1;
                segment.last = body.to;
                self.written.bytes += size;
                self.written.frames += 1;
                Ok(())
            }
            Err(error) => {
                // Remove the incomplete frame. If that fails too, readers ignore it.
                let _ = segment.file.set_len(segment.size);
                Err(RecordFault::io("write", &segment.path)(error))
            }
        }
    }

    /// Deletes the oldest segments, but never the current one or segments that this version cannot read.
    fn forget_old(&self, at: Moment) -> Result<(), RecordFault> {
        let folder = &self.options.folder;
        let mut all = Vec::new();
        for (number, path) in segments(folder)? {
            if let Ok((file, head, _)) = head_of(&path) {
                let size = file.metadata().map_or(0, |metadata| metadata.len());
                all.push((number, path, head.started_ms, size));
            }
        }
        let mut sum: u64 = all.iter().map(|(.., size)| size).sum();
        // A segment ends where the next one starts.
        for pair in all.windows(2) {
            let [(number, path, _, size), (_, _, end, _)] = pair else {
                break;
            };
            let old = at.since(Moment::from_millis(*end)) > self.options.keep.into();
            if *number + 1 >= self.number || !(old || sum > self.options.max_bytes) {
                break;
            }
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(RecordFault::io("delete", path)(error));
                }
                _ => sum -= size,
            }
        }
        Ok(())
    }

    /// Writes the remaining entries.
    ///
    /// # Errors
    /// See [`Recorder::flush`].
    pub fn close(mut self) -> Result<Written, RecordFault> {
        self.delta()?;
        Ok(self.written)
    }
}

/// Removes the termination message of a container, which may be the end of its log.
fn leave_out_log(failure: &mut WorkloadFailure) {
    if failure.own_words {
        let reason = failure.message.split(':').next().unwrap_or_default();
        failure.message = Name::new(reason);
        failure.own_words = false;
    }
}

fn is_log_text_in(observation: &Observation) -> bool {
    let Observation::Pod(pod) = observation else {
        return false;
    };
    pod.failure
        .as_ref()
        .is_some_and(|failure| failure.own_words)
}

/// An exclusive lock on a record's directory, released on drop.
pub struct RecordLock {
    _file: File,
}

impl RecordLock {
    /// Acquires the lock.
    ///
    /// # Errors
    /// Another process records to the directory, or it cannot be written.
    pub fn take(folder: &Path) -> Result<Self, RecordFault> {
        lock(folder).map(|file| Self { _file: file })
    }
}

/// Locks the directory for one writer.
fn lock(folder: &Path) -> Result<File, RecordFault> {
    let path = folder.join("lock");
    let mut options = private();
    let options = options.read(true).write(true).create(true).truncate(false);
    let file = options
        .open(&path)
        .map_err(RecordFault::io("write", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(RecordFault::Locked(folder.to_owned())),
        Err(TryLockError::Error(error)) => Err(RecordFault::io("lock", &path)(error)),
    }
}
