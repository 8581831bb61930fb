//! Reads records: finds a time and plays forward from it. Any number of readers may run beside one writer.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use model::base::{Moment, SmallSort};

use super::codec::{Codec, RecordEntry};
use super::fault::{Damage, RecordFault};
use super::files::{head_of, segments};
use super::frame::{
    FrameHead, FrameKind, HEAD, ObjectHistory, SINCE, SegmentHead, frame_head, is_sound, unpack,
};
use super::keyframe::{self, Keyframe, Saved};

/// Frames further apart than this leave a gap.
const GAP: Duration = Duration::from_secs(60);

/// A segment and the index of its frames.
struct IndexedSegment {
    path: PathBuf,
    head: SegmentHead,
    frames: Vec<(u64, FrameHead)>,
}

/// A record as it was when it was opened. Cheap to clone.
#[derive(Clone)]
pub struct Archive {
    path: PathBuf,
    segments: Arc<Vec<Arc<IndexedSegment>>>,
    warnings: Arc<Vec<String>>,
}

/// The next step of a replay.
#[derive(Clone)]
pub enum ReplayStep {
    Entry(RecordEntry),
    /// The record restarts: the recorder was restarted, its clock went back, or a part is damaged. Discard all earlier state.
    Restart(Box<Keyframe>),
}

impl ReplayStep {
    /// Time of the step.
    pub fn at(&self) -> Moment {
        match self {
            Self::Entry((at, _)) => *at,
            Self::Restart(keyframe) => keyframe.at,
        }
    }
}

fn read_head(file: &File, at: u64) -> io::Result<Option<[u8; HEAD]>> {
    let mut bytes = [0; HEAD];
    match file.read_exact_at(&mut bytes, at) {
        Ok(()) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

fn body(file: &File, at: u64, head: &FrameHead) -> io::Result<Vec<u8>> {
    let mut body = vec![0; head.body()];
    file.read_exact_at(&mut body, at + HEAD as u64)?;
    Ok(body)
}

/// Reads the frame at byte offset `at` and verifies its checksum.
fn frame_at(file: &File, path: &Path, at: u64) -> Result<(FrameHead, Vec<u8>), RecordFault> {
    let failed = || RecordFault::io("read", path);
    let damaged = || RecordFault::of(path, Damage::Frame("a frame's checksum is wrong"));
    let bytes = read_head(file, at).map_err(failed())?.ok_or_else(damaged)?;
    let head = frame_head(&bytes).ok_or_else(damaged)?;
    let body = body(file, at, &head).map_err(failed())?;
    match is_sound(&bytes, &head, &body) {
        true => Ok((head, body)),
        false => Err(damaged()),
    }
}

/// The objects of the keyframe at byte offset `at`, which has no base.
///
/// # Errors
/// The frame cannot be read, or is damaged.
pub(crate) fn objects_of(file: &File, path: &Path, at: u64) -> Result<Vec<u8>, RecordFault> {
    let (head, body) = frame_at(file, path, at)?;
    let packed = &body[(head.numbers as usize).min(body.len())..];
    unpack(packed, head.plain, None).map_err(|damage| RecordFault::of(path, damage))
}

/// The complete frames of a segment from a byte offset on, and the number of bytes after them that form no frame. No frame may
/// end before `after` or before the previous frame, because a recorder whose clock goes back starts a new segment.
fn whole_frames(
    path: &Path,
    file: &File,
    begin: u64,
    mut after: Moment,
) -> Result<(Vec<(u64, FrameHead)>, u64), RecordFault> {
    let failed = || RecordFault::io("read", path);
    let size = file.metadata().map_err(failed())?.len();
    let mut frames: Vec<(u64, FrameHead)> = Vec::new();
    let mut at = begin;
    while let Some(bytes) = read_head(file, at).map_err(failed())? {
        let Some(frame) = frame_head(&bytes) else {
            break;
        };
        let end = at + (HEAD + frame.body()) as u64;
        if end > size || frame.to < after {
            break;
        }
        if end == size && !is_sound(&bytes, &frame, &body(file, at, &frame).map_err(failed())?) {
            break;
        }
        frames.push((at, frame));
        (at, after) = (end, frame.to);
    }
    Ok((frames, size.saturating_sub(at)))
}

impl IndexedSegment {
    /// Indexes a segment. An incomplete end is ignored with an entry in `warnings`: the writer was killed, or is writing now.
    fn open(path: &Path, warnings: &mut Vec<String>) -> Result<Self, RecordFault> {
        let (file, head, begin) = head_of(path)?;
        let (frames, left) = whole_frames(path, &file, begin, Moment::from_millis(i64::MIN))?;
        if left > 0 {
            warnings.push(format!(
                "{}: the last {left} bytes are not whole and are left out",
                path.display(),
            ));
        }
        Ok(Self {
            path: path.to_owned(),
            head,
            frames,
        })
    }

    /// The segment with the frames added since it was opened; `None` if there are none.
    fn grown(&self) -> Result<Option<Self>, RecordFault> {
        let (file, head, begin) = head_of(&self.path)?;
        let last = self.frames.last();
        let from = last.map_or(begin, |(at, frame)| at + (HEAD + frame.body()) as u64);
        let after = last.map_or(Moment::from_millis(i64::MIN), |(_, frame)| frame.to);
        let (more, _) = whole_frames(&self.path, &file, from, after)?;
        if more.is_empty() {
            return Ok(None);
        }
        Ok(Some(Self {
            path: self.path.clone(),
            head,
            frames: [self.frames.as_slice(), &more].concat(),
        }))
    }

    fn span(&self) -> Option<(Moment, Moment)> {
        let (_, first) = self.frames.first()?;
        let (_, last) = self.frames.last()?;
        Some((first.from, last.to))
    }
}

impl Archive {
    /// Opens a directory of segments, or one segment.
    ///
    /// # Errors
    /// There is nothing to read; the file is not a record, or was written by a later version.
    pub fn open(path: &Path) -> Result<Self, RecordFault> {
        let mut warnings = Vec::new();
        if path.is_file() {
            let segment = IndexedSegment::open(path, &mut warnings)?;
            return Self::of(path, vec![segment], warnings);
        }
        let (mut all, mut fault) = (Vec::new(), None);
        for (_, path) in segments(path)? {
            match IndexedSegment::open(&path, &mut warnings) {
                Ok(segment) => all.push(segment),
                // The other segments are still readable.
                Err(RecordFault::Io(_, _, error)) if error.kind() == io::ErrorKind::NotFound => {}
                Err(one) => {
                    warnings.push(one.to_string());
                    fault = Some(one);
                }
            }
        }
        match (all.is_empty(), fault) {
            (true, Some(fault)) => Err(fault),
            _ => Self::of(path, all, warnings),
        }
    }

    fn of(
        path: &Path,
        mut segments: Vec<IndexedSegment>,
        warnings: Vec<String>,
    ) -> Result<Self, RecordFault> {
        segments.retain(|segment| !segment.frames.is_empty());
        if segments.is_empty() {
            return Err(RecordFault::Empty(path.to_owned()));
        }
        Ok(Self {
            path: path.to_owned(),
            segments: Arc::new(segments.into_iter().map(Arc::new).collect()),
            warnings: Arc::new(warnings),
        })
    }

    /// The record with everything added since it was opened; `None` if nothing was added. Reads only the new part. An incomplete
    /// frame is skipped without a warning, because it is being written.
    ///
    /// # Errors
    /// The directory or the latest segment can no longer be read.
    pub fn grown(&self) -> Result<Option<Self>, RecordFault> {
        let paths = match self.path.is_file() {
            true => vec![self.path.clone()],
            false => segments(&self.path)?
                .into_iter()
                .map(|(_, path)| path)
                .collect(),
        };
        let last = self.segments.len().saturating_sub(1);
        let (mut all, mut is_new) = (Vec::new(), false);
        for path in paths {
            let known = self.segments.iter().position(|known| known.path == path);
            let segment = match known {
                Some(place) if place < last => Some(Arc::clone(&self.segments[place])),
                Some(place) => {
                    let grown = self.segments[place].grown()?.map(Arc::new);
                    is_new |= grown.is_some();
                    Some(grown.unwrap_or_else(|| Arc::clone(&self.segments[place])))
                }
                // An unreadable segment was reported when the record was opened.
                None => IndexedSegment::open(&path, &mut Vec::new())
                    .ok()
                    .filter(|segment| !segment.frames.is_empty())
                    .map(|segment| {
                        is_new = true;
                        Arc::new(segment)
                    }),
            };
            all.extend(segment);
        }
        Ok(is_new.then(|| Self {
            path: self.path.clone(),
            segments: Arc::new(all),
            warnings: Arc::clone(&self.warnings),
        }))
    }

    /// Warnings about parts that were skipped.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The directory that contains the segments.
    pub fn folder(&self) -> &Path {
        match self.path.is_dir() {
            true => &self.path,
            false => self.path.parent().unwrap_or(&self.path),
        }
    }

    /// Name of the recorded kubeconfig context.
    pub fn context(&self) -> &str {
        self.segments
            .last()
            .map_or("", |segment| segment.head.context.as_str())
    }

    /// First time in the record.
    pub fn start(&self) -> Moment {
        let spans = self.segments.iter().filter_map(|it| it.span());
        spans.map(|(from, _)| from).min().unwrap_or_default()
    }

    /// Last time in the record.
    pub fn end(&self) -> Moment {
        let spans = self.segments.iter().filter_map(|it| it.span());
        spans.map(|(_, to)| to).max().unwrap_or_default()
    }

    /// Times of the keyframes, in order: playback can start at each without earlier frames.
    pub fn keyframes(&self) -> Vec<Moment> {
        let frames = self.segments.iter().flat_map(|segment| &segment.frames);
        let keys = frames.filter(|(_, frame)| frame.kind == FrameKind::Key);
        let mut moments: Vec<Moment> = keys.map(|(_, frame)| frame.to).collect();
        moments.small_sort();
        moments.dedup();
        moments
    }

    /// The gap that contains `at`, if any: the recorder did not run, or could not write.
    pub fn gap_at(&self, at: Moment) -> Option<(Moment, Moment)> {
        let (mut before, mut after) = (None, None);
        for (_, frame) in self.segments.iter().flat_map(|segment| &segment.frames) {
            if frame.from <= at && at <= frame.to.plus(GAP) {
                return None;
            }
            if frame.to <= at {
                before = before.max(Some(frame.to));
            } else {
                after = Some(after.map_or(frame.from, |after| frame.from.min(after)));
            }
        }
        before.zip(after)
    }

    /// The last keyframe at or before `at`, and a player that continues from it. If a time was recorded twice because the clock
    /// went back, the later recording is used.
    ///
    /// # Errors
    /// Nothing was recorded that early, or the keyframe is damaged.
    pub fn seek(&self, at: Moment) -> Result<(Keyframe, Player), RecordFault> {
        let begun = |segment: &&(usize, &IndexedSegment)| {
            segment.1.span().is_some_and(|(from, _)| from <= at)
        };
        let segments: Vec<(usize, &IndexedSegment)> =
            self.segments.iter().map(|it| &**it).enumerate().collect();
        let found = segments.iter().rev().find(begun);
        let Some((number, segment)) = found else {
            return Err(RecordFault::Before {
                asked: at.rfc3339(),
                first: self.start().rfc3339(),
            });
        };
        let keys = segment.frames.iter().enumerate();
        let mut keys: Vec<usize> = keys
            .filter(|(_, (_, frame))| frame.kind == FrameKind::Key && frame.to <= at)
            .map(|(index, _)| index)
            .collect();
        let mut fault = None;
        // Skip damaged keyframes: an earlier one works too.
        while let Some(index) = keys.pop() {
            let mut player = Player {
                archive: self.clone(),
                segment: *number,
                frame: index,
                file: None,
                base: None,
                history: ObjectHistory::default(),
                codec: Codec::default(),
                ready: VecDeque::new(),
            };
            match player.keyframe() {
                Ok(keyframe) => return Ok((keyframe, player)),
                Err(one) => fault = Some(one),
            }
        }
        Err(fault.unwrap_or_else(|| RecordFault::Empty(segment.path.clone())))
    }
}

/// State that the last readable keyframe of a directory hands on to the next program on the same cluster; empty without one.
/// With a `context`, segments of other contexts are skipped.
pub fn recalled(folder: &Path, context: Option<&str>) -> Saved {
    let newest_first = segments(folder).unwrap_or_default().into_iter().rev();
    let mut keyframes = newest_first.filter_map(|(_, path)| {
        let archive = Archive::open(&path).ok()?;
        if context.is_some_and(|context| context != archive.context()) {
            return None;
        }
        let (keyframe, _) = archive.seek(archive.end()).ok()?;
        Some(keyframe.saved.handed_on(keyframe.at))
    });
    keyframes.next().unwrap_or_default()
}

/// Plays a record forward from a keyframe.
pub struct Player {
    archive: Archive,
    segment: usize,
    /// Index of the next frame to read.
    frame: usize,
    file: Option<(usize, File)>,
    /// Base of a segment's keyframes: segment number, offset, objects.
    base: Option<(usize, u64, Vec<u8>)>,
    /// Objects since the last keyframe.
    history: ObjectHistory,
    codec: Codec,
    ready: VecDeque<ReplayStep>,
}

impl Player {
    /// Continues in `archive`, the same record with later entries; false when the segment being read is no longer in it.
    pub fn follow(&mut self, archive: &Archive) -> bool {
        let known = self.archive.segments.get(self.segment);
        let place = known.and_then(|known| {
            let segments = &archive.segments;
            segments.iter().position(|it| it.path == known.path)
        });
        let Some(place) = place else {
            return false;
        };
        let held = self.segment;
        self.file = self.file.take().filter(|(of, _)| *of == held);
        self.base = self.base.take().filter(|(of, ..)| *of == held);
        if let Some((of, _)) = &mut self.file {
            *of = place;
        }
        if let Some((of, ..)) = &mut self.base {
            *of = place;
        }
        self.segment = place;
        self.archive = archive.clone();
        true
    }

    fn place(&self) -> Option<(&IndexedSegment, u64, FrameHead)> {
        let segment = self.archive.segments.get(self.segment)?;
        let (at, head) = segment.frames.get(self.frame)?;
        Some((segment, *at, *head))
    }

    fn file(&mut self) -> Result<&File, RecordFault> {
        let path = &self.archive.segments[self.segment].path;
        let file = match self.file.take() {
            Some((of, file)) if of == self.segment => file,
            _ => head_of(path)?.0,
        };
        Ok(&self.file.insert((self.segment, file)).1)
    }

    /// The head, numbers and objects of the frame at byte offset `at`.
    fn parts(&mut self, at: u64) -> Result<(FrameHead, Vec<u8>, Vec<u8>), RecordFault> {
        let path = self.archive.segments[self.segment].path.clone();
        let (head, mut body) = frame_at(self.file()?, &path, at)?;
        let packed = body.split_off(head.numbers as usize);
        let has_base = head.kind == FrameKind::Key && head.base != 0;
        if has_base {
            let known = self.base.as_ref();
            if known.is_none_or(|(of, place, _)| (*of, *place) != (self.segment, head.base)) {
                let objects = objects_of(self.file()?, &path, head.base)?;
                self.base = Some((self.segment, head.base, objects));
            }
        }
        let base = match head.kind {
            FrameKind::Key => self
                .base
                .as_ref()
                .filter(|_| has_base)
                .map(|(.., base)| base.as_slice()),
            FrameKind::Delta => self
                .history
                .base()
                .filter(|_| head.base == SINCE)
                .map(|(_, since)| since),
        };
        let objects =
            unpack(&packed, head.plain, base).map_err(|damage| RecordFault::of(&path, damage))?;
        match head.kind {
            FrameKind::Key => self.history.clear(),
            FrameKind::Delta => self.history.take(&objects),
        }
        Ok((head, body, objects))
    }

    /// Reads the next keyframe.
    fn keyframe(&mut self) -> Result<Keyframe, RecordFault> {
        let Some((segment, at, _)) = self.place() else {
            return Err(RecordFault::Empty(PathBuf::new()));
        };
        let path = segment.path.clone();
        let (head, numbers, objects) = self.parts(at)?;
        let (keyframe, codec) = keyframe::read(head.to, &numbers, &objects)
            .map_err(|damage| RecordFault::of(&path, damage))?;
        self.codec = codec;
        self.frame += 1;
        Ok(keyframe)
    }

    /// Time of the next step; `None` at the end of the record.
    ///
    /// # Errors
    /// The file can no longer be read.
    pub fn next_at(&mut self) -> Result<Option<Moment>, RecordFault> {
        while self.ready.is_empty() {
            if !self.read_frame()? {
                return Ok(None);
            }
        }
        Ok(self.ready.front().map(ReplayStep::at))
    }

    /// Passes every step up to `at` to `take`, in order.
    ///
    /// # Errors
    /// The file can no longer be read.
    pub fn until(
        &mut self,
        at: Moment,
        mut take: impl FnMut(ReplayStep),
    ) -> Result<(), RecordFault> {
        while self.next_at()?.is_some_and(|next| next <= at) {
            if let Some(step) = self.ready.pop_front() {
                take(step);
            }
        }
        Ok(())
    }

    /// Reads one more frame; false at the end of the record.
    fn read_frame(&mut self) -> Result<bool, RecordFault> {
        let Some((segment, at, head)) = self.place() else {
            let next = self.archive.segments.get(self.segment + 1);
            let Some(continues) = next.map(|next| next.head.continues) else {
                return Ok(false);
            };
            self.segment += 1;
            self.frame = 0;
            if !continues {
                return self.restart();
            }
            return Ok(true);
        };
        let path = segment.path.clone();
        let read = match head.kind {
            FrameKind::Delta => self.parts(at).and_then(|(head, numbers, objects)| {
                let ready = &mut self.ready;
                self.codec
                    .read(&numbers, &objects, head.from, |entry| {
                        ready.push_back(ReplayStep::Entry(entry));
                    })
                    .map_err(|damage| RecordFault::of(&path, damage))
            }),
            // Its content is already known; only the codec is reset.
            FrameKind::Key => self.parts(at).and_then(|(_, _, objects)| {
                self.codec = keyframe::codec_of(&objects)
                    .map_err(|damage| RecordFault::of(&path, damage))?;
                Ok(())
            }),
        };
        match read {
            Ok(()) => self.frame += 1,
            Err(fault @ RecordFault::Io(..)) => return Err(fault),
            Err(_) => {
                self.frame += 1;
                return self.restart();
            }
        }
        Ok(true)
    }

    /// Continues at the next intact keyframe, in this segment or a later one; false if there is none.
    fn restart(&mut self) -> Result<bool, RecordFault> {
        loop {
            match self.place() {
                Some((_, _, head)) if head.kind == FrameKind::Key => match self.keyframe() {
                    Ok(keyframe) => {
                        self.ready
                            .push_back(ReplayStep::Restart(Box::new(keyframe)));
                        return Ok(true);
                    }
                    Err(fault @ RecordFault::Io(..)) => return Err(fault),
                    Err(_) => self.frame += 1,
                },
                Some(_) => self.frame += 1,
                None if self.segment + 1 < self.archive.segments.len() => {
                    self.segment += 1;
                    self.frame = 0;
                }
                None => return Ok(false),
            }
        }
    }
}
