//! The writer: takes what sources say, and adds it to segments every few seconds.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::base::{Moment, Name};
use model::fleet::observe::{Failure, Observation};

use super::archive::objects_of;
use super::codec::{Codec, Writing};
use super::fault::RecordFault;
use super::files::{head_of, make_folder, name_of, private, segments};
use super::frame::{Body, FrameKind, Head, History, file_head, frame};
use super::keyframe::{self, Saved};
use super::mirror::Mirror;

/// What has come is written after this long, whenever the recorder is asked next. What is not written yet is lost with the
/// process.
pub const FLUSH: Duration = Duration::from_secs(6);

/// How far keyframes lie apart: a moment is found by reading on from one.
pub const KEYFRAMES: Duration = Duration::from_secs(15 * 60);

/// A segment is at most this long, and about this large: whole ones are deleted.
const LONGEST: Duration = Duration::from_secs(6 * 3600);
const LARGEST: u64 = 64 << 20;

/// A frame of this size does not wait, bytes.
const LARGE_FRAME: usize = 8 << 20;

/// A clock that goes back by less only stands still meanwhile.
const WAVER: Duration = Duration::from_secs(2);

/// What is recorded, where, and how much of it is kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordOptions {
    /// The directory; it is made where it is not there.
    pub folder: PathBuf,
    /// UID of the cluster's namespace `kube-system`; empty where that may not be read.
    pub cluster: String,
    /// Name of the context.
    pub context: String,
    /// Version of the program.
    pub program: String,
    /// Segments that ended longer ago are deleted.
    pub keep: Duration,
    /// The oldest segments are deleted while all are larger than this, bytes.
    pub max_bytes: u64,
}

/// What was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Written {
    /// Bytes of all frames and heads.
    pub bytes: u64,
    /// Of these, keyframes.
    pub keyframe_bytes: u64,
    /// Frames.
    pub frames: u64,
    /// Readings of devices.
    pub readings: u64,
    /// Segments.
    pub segments: u64,
}

/// The segment that is written.
struct Segment {
    path: PathBuf,
    file: File,
    size: u64,
    frames: u64,
    begun: Moment,
    /// The last moment in it.
    last: Moment,
    /// The keyframe that others look back to: where it stands, and how many bytes its objects are.
    base: Option<(u64, usize)>,
    /// What came since its last keyframe.
    history: History,
}

/// See the head of this file. Dropped, it writes nothing more; [`Recorder::close`] writes what is left.
pub struct Recorder {
    options: RecordOptions,
    /// Held for as long as the recorder lives.
    _lock: File,
    segment: Option<Segment>,
    number: u64,
    mirror: Mirror,
    codec: Codec,
    frame: Option<Writing>,
    at: Moment,
    flushed: Moment,
    keyed: Moment,
    /// A keyframe is wanted before its time.
    wants_key: bool,
    /// The clock went back: what comes belongs into a segment of its own.
    went_back: bool,
    written: Written,
}

fn describe(cluster: &str, context: &str) -> String {
    match cluster {
        "" => context.to_owned(),
        uid => format!("{context} ({uid})"),
    }
}

/// The head that shows that a directory is another cluster's. The latest UID decides; where none is known on one of both
/// sides, the names do.
fn other_cluster<'h>(heads: &'h [Head], options: &RecordOptions) -> Option<&'h Head> {
    let known = heads.iter().rev().find(|head| !head.cluster.is_empty());
    match known.filter(|_| !options.cluster.is_empty()) {
        Some(head) => Some(head).filter(|head| head.cluster != options.cluster),
        None => heads.last().filter(|head| head.context != options.context),
    }
}

impl Recorder {
    /// Opens the directory and begins a segment.
    ///
    /// # Errors
    /// Another process records into it, it holds another cluster's record, or it cannot be written.
    pub fn open(options: RecordOptions, at: Moment) -> Result<Self, RecordFault> {
        let folder = &options.folder;
        make_folder(folder).map_err(RecordFault::io("make the directory", folder))?;
        let lock = lock(folder)?;
        let known = segments(folder)?;
        // One that is not ours or not to be read is left alone; the others tell whose record it is.
        let heads = known.iter().filter_map(|(_, path)| head_of(path).ok());
        let heads: Vec<Head> = heads.map(|(_, head, _)| head).collect();
        if let Some(held) = other_cluster(&heads, &options) {
            return Err(RecordFault::OtherCluster {
                folder: folder.clone(),
                held: describe(&held.cluster, &held.context),
                wanted: describe(&options.cluster, &options.context),
            });
        }
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
        };
        recorder.begin(at, false)?;
        recorder.key(at, Saved::default())?;
        Ok(recorder)
    }

    /// Where it writes.
    pub fn folder(&self) -> &Path {
        &self.options.folder
    }

    /// What was written so far.
    pub fn written(&self) -> Written {
        self.written
    }

    /// Rounds what is kept rounded, and leaves out what is never kept. The recording console does it before it looks itself, so that what it shows and what
    /// a replay shows are the same.
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

    /// Where a frame begins: within a segment no time goes back.
    fn from(&self, at: Moment) -> Moment {
        let last = self.segment.as_ref().map(|segment| segment.last);
        last.map_or(at, |last| at.max(last))
    }

    /// Takes what a source said at `at`, on the server's clock. Nothing is written to disk yet.
    pub fn see(&mut self, at: Moment, observation: &Observation) {
        self.clock(at);
        let from = self.from(at);
        let frame = self.frame.get_or_insert_with(|| Writing::new(from));
        match observation {
            // What was is in Prometheus; history alone takes it.
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

    /// Takes that a picture was made at `at`, and judged where that was due: a replay makes one at the same moments, and judges alike.
    pub fn judged(&mut self, at: Moment) {
        self.clock(at);
        let from = self.from(at);
        let frame = self.frame.get_or_insert_with(|| Writing::new(from));
        self.codec.judged(frame, at);
    }

    /// The next time that is written, a keyframe is: the first lists have come.
    pub fn want_keyframe(&mut self) {
        self.wants_key = true;
    }

    /// True when it is time to write.
    pub fn is_due(&self, at: Moment) -> bool {
        let large = self
            .frame
            .as_ref()
            .is_some_and(|frame| frame.len() >= LARGE_FRAME);
        large || at < self.flushed || at.since(self.flushed) >= FLUSH.into()
    }

    /// Writes what has come, and a keyframe where one is due; `saved` is asked for what belongs into it.
    ///
    /// # Errors
    /// The file cannot be written. What was written before stays as it is, what has come since is lost, and the next call
    /// tries again with a segment of its own.
    pub fn flush(&mut self, at: Moment, saved: impl FnOnce() -> Saved) -> Result<(), RecordFault> {
        self.clock(at);
        let written = self.write(at, saved);
        self.flushed = at;
        if written.is_err() {
            self.frame = None;
            // While a disk is full no heads without frames pile up.
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

    /// True when the next flush writes a keyframe as well.
    pub fn is_key_due(&self, at: Moment) -> bool {
        let late = at.since(self.keyed) >= KEYFRAMES.into();
        late || self.wants_key || self.went_back || self.segment.is_none() || self.is_full(at)
    }

    /// Writes what has come since the last frame; where there is no segment it is lost.
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
        let written = self.append(&Body {
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

    /// Begins a segment, and deletes those that are kept no longer.
    fn begin(&mut self, at: Moment, continues: bool) -> Result<(), RecordFault> {
        self.segment = None;
        let path = self.options.folder.join(name_of(self.number, at));
        let failed = || RecordFault::io("write", &path);
        let head = Head {
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
            // Half a head is nothing that anybody could read.
            let _ = fs::remove_file(&path);
            return Err(failed()(error));
        }
        self.number += 1;
        self.written.segments += 1;
        self.written.bytes += bytes.len() as u64;
        self.segment = Some(Segment {
            path,
            file,
            size: bytes.len() as u64,
            frames: 0,
            begun: at,
            last: at,
            base: None,
            history: History::default(),
        });
        self.forget_old(at)
    }

    fn key(&mut self, at: Moment, saved: Saved) -> Result<(), RecordFault> {
        let (numbers, objects, next) = keyframe::write(&self.mirror, saved, &self.codec);
        let base = self.segment.as_ref().and_then(|segment| segment.base);
        // One that has grown much is no base for what comes.
        let base = base.filter(|(_, base)| objects.len() <= base / 2 * 3);
        // It is as large as all objects: it is read again rather than kept for minutes.
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
        let body = Body {
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

    fn append(&mut self, body: &Body<'_>) -> Result<(), RecordFault> {
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
                // Half a frame is cut again; where even that fails a reader cuts it.
                let _ = segment.file.set_len(segment.size);
                Err(RecordFault::io("write", &segment.path)(error))
            }
        }
    }

    /// Deletes the oldest segments, never the one that is written, and none that this version cannot read.
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
        // A segment ends where the next one begins.
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

    /// Writes what is left.
    ///
    /// # Errors
    /// As [`Recorder::flush`].
    pub fn close(mut self) -> Result<Written, RecordFault> {
        self.delta()?;
        Ok(self.written)
    }
}

/// What a container wrote as it ended may be the end of its log: of that nothing is written.
fn leave_out_log(failure: &mut Failure) {
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

/// The right to write into the directory of a record, for as long as it is kept.
pub struct RecordLock {
    _file: File,
}

impl RecordLock {
    /// Takes it.
    ///
    /// # Errors
    /// Another process records into the directory, or it cannot be written.
    pub fn take(folder: &Path) -> Result<Self, RecordFault> {
        lock(folder).map(|file| Self { _file: file })
    }
}

/// Takes the directory for one writer.
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
