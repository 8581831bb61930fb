//! The file format: a head, then frames, each with its time range, its lengths and a checksum.
//!
//! ```text
//! file   magic "STKHREC\n", format u16, length of the head u16, head (JSON), CRC-32 of all before
//! frame  "FRAM", kind u8, 3 zeros, from i64, to i64 (ms), base u64, numbers u32, objects u32, plain u32, CRC-32
//!        numbers (range-coded), objects (zstd; `plain` is their length without it)
//! ```
//!
//! All numbers are little-endian. The checksum of a frame covers its head and body. `base` names the zstd dictionary prefix: for
//! a keyframe, the offset of another keyframe in the same file, whose objects are used; for a frame after a keyframe, [`SINCE`],
//! the objects since that keyframe ([`ObjectHistory`]); 0 for none.

use std::io::{self, Read};

use serde::{Deserialize, Serialize};
use zstd::zstd_safe::{self, CParameter};

use model::base::Moment;

use super::VERSION;
use super::fault::Damage;

const MAGIC: &[u8; 8] = b"STKHREC\n";
const MARK: &[u8; 4] = b"FRAM";

/// Size of a frame's head, bytes.
pub(crate) const HEAD: usize = 48;

/// Maximum size of a frame, bytes: limits the memory that a foreign file can consume.
const MOST: u32 = 1 << 28;

/// Window size of zstd, as a power of two: a keyframe can refer to all of its base.
const WINDOW: u32 = 26;

/// Compression level of zstd: higher levels cost much time and save little.
const LEVEL: i32 = 6;

/// The `base` of a frame that refers to the objects since its keyframe.
pub(crate) const SINCE: u64 = u64::MAX;

/// The objects since a keyframe, which the writer and every reader keep. A changed object mostly repeats its previous version.
#[derive(Default)]
pub(crate) struct ObjectHistory(Vec<u8>);

impl ObjectHistory {
    /// Minimum size of the history that is kept, bytes. At most twice as much is kept.
    const KEPT: usize = 1 << 20;

    /// Adds the objects of one more frame.
    pub(crate) fn take(&mut self, objects: &[u8]) {
        self.0.extend_from_slice(objects);
        if self.0.len() > 2 * Self::KEPT {
            self.0.drain(..self.0.len() - Self::KEPT);
        }
    }

    /// Clears the history at a keyframe.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// The base of the next frame; `None` directly after a keyframe.
    pub(crate) fn base(&self) -> Option<(u64, &[u8])> {
        (!self.0.is_empty()).then_some((SINCE, self.0.as_slice()))
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SegmentHead {
    /// UID of the cluster's namespace `kube-system`; empty when it may not be read.
    pub cluster: String,
    /// Name of the kubeconfig context.
    pub context: String,
    /// Number of the segment in the record.
    pub number: u64,
    /// Start time, milliseconds since the Unix epoch.
    pub started_ms: i64,
    /// The segment continues the previous one without a break.
    pub continues: bool,
    /// Version of the program that wrote the segment.
    pub program: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FrameKind {
    Key,
    /// Changes since the previous frame.
    Delta,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FrameHead {
    pub(crate) kind: FrameKind,
    pub(crate) from: Moment,
    pub(crate) to: Moment,
    pub(crate) base: u64,
    pub(crate) numbers: u32,
    pub(crate) objects: u32,
    pub(crate) plain: u32,
    sum: u32,
}

impl FrameHead {
    /// Size of the body, bytes.
    pub(crate) fn body(&self) -> usize {
        self.numbers as usize + self.objects as usize
    }
}

/// Serializes the head of a file.
pub(crate) fn file_head(head: &SegmentHead) -> Vec<u8> {
    let json = serde_json::to_vec(head).unwrap_or_default();
    let mut out = Vec::with_capacity(json.len() + 16);
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&(json.len() as u16).to_le_bytes());
    out.extend_from_slice(&json);
    let sum = crc32fast::hash(&out);
    out.extend_from_slice(&sum.to_le_bytes());
    out
}

/// Reads the head of a file and its size in bytes.
///
/// # Errors
/// Outer: the file cannot be read. Inner: it is not a segment, or was written by a later version.
pub(crate) fn read_file_head(
    file: &mut impl Read,
) -> io::Result<Result<(SegmentHead, u64), Damage>> {
    let mut start = [0; 12];
    match file.read_exact(&mut start) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            return Ok(Err(Damage::Foreign));
        }
        other => other?,
    }
    if &start[..8] != MAGIC {
        return Ok(Err(Damage::Foreign));
    }
    let version = u16::from_le_bytes([start[8], start[9]]);
    if version > VERSION {
        return Ok(Err(Damage::Newer(version)));
    }
    let length = u16::from_le_bytes([start[10], start[11]]) as usize;
    let mut rest = vec![0; length + 4];
    match file.read_exact(&mut rest) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            return Ok(Err(Damage::Foreign));
        }
        other => other?,
    }
    let (json, sum) = rest.split_at(length);
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&start);
    hasher.update(json);
    let sound = sum == hasher.finalize().to_le_bytes();
    let head = serde_json::from_slice(json).ok().filter(|_| sound);
    Ok(head
        .map(|head| (head, (start.len() + rest.len()) as u64))
        .ok_or(Damage::Foreign))
}

/// Content of a frame.
pub(crate) struct FrameBody<'a> {
    pub(crate) kind: FrameKind,
    pub(crate) from: Moment,
    pub(crate) to: Moment,
    pub(crate) numbers: &'a [u8],
    pub(crate) objects: &'a [u8],
    /// The base as in the head, and its bytes.
    pub(crate) base: Option<(u64, &'a [u8])>,
}

/// Serializes a frame.
///
/// # Errors
/// zstd failed, for lack of memory.
pub(crate) fn frame(body: &FrameBody<'_>) -> io::Result<Vec<u8>> {
    let packed = pack(body.objects, body.base.map(|(_, base)| base))?;
    let mut out = Vec::with_capacity(HEAD + body.numbers.len() + packed.len());
    out.extend_from_slice(MARK);
    out.extend_from_slice(&[u8::from(body.kind == FrameKind::Delta), 0, 0, 0]);
    out.extend_from_slice(&body.from.millis().to_le_bytes());
    out.extend_from_slice(&body.to.millis().to_le_bytes());
    out.extend_from_slice(&body.base.map_or(0, |(at, _)| at).to_le_bytes());
    for length in [body.numbers.len(), packed.len(), body.objects.len()] {
        out.extend_from_slice(&(length as u32).to_le_bytes());
    }
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&out);
    hasher.update(body.numbers);
    hasher.update(&packed);
    out.extend_from_slice(&hasher.finalize().to_le_bytes());
    out.extend_from_slice(body.numbers);
    out.extend_from_slice(&packed);
    Ok(out)
}

/// Parses the head of a frame; `None` if the bytes are not one.
pub(crate) fn frame_head(bytes: &[u8; HEAD]) -> Option<FrameHead> {
    let word =
        |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
    let kind = match bytes[4] {
        0 => FrameKind::Key,
        1 => FrameKind::Delta,
        _ => return None,
    };
    let head = FrameHead {
        kind,
        from: Moment::from_millis(long(8).cast_signed()),
        to: Moment::from_millis(long(16).cast_signed()),
        base: long(24),
        numbers: word(32),
        objects: word(36),
        plain: word(40),
        sum: word(44),
    };
    let sane = &bytes[..4] == MARK
        && head.numbers <= MOST
        && head.objects <= MOST
        && head.plain <= MOST
        && head.from <= head.to;
    sane.then_some(head)
}

/// True when head and body match the checksum.
pub(crate) fn is_sound(head: &[u8; HEAD], read: &FrameHead, body: &[u8]) -> bool {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&head[..HEAD - 4]);
    hasher.update(body);
    hasher.finalize() == read.sum
}

fn pack(objects: &[u8], base: Option<&[u8]>) -> io::Result<Vec<u8>> {
    if objects.is_empty() {
        return Ok(Vec::new());
    }
    let mut packer = zstd::bulk::Compressor::new(LEVEL)?;
    packer.set_parameter(CParameter::WindowLog(WINDOW))?;
    if let Some(base) = base {
        // (The usual match finder covers only a small part of a keyframe.)
        packer.set_parameter(CParameter::EnableLongDistanceMatching(true))?;
        let referred = packer.context_mut().ref_prefix(base);
        referred.map_err(|code| io::Error::other(zstd_safe::get_error_name(code)))?;
    }
    packer.compress(objects)
}

/// Decompresses the objects of a frame.
///
/// # Errors
/// The data is damaged.
pub(crate) fn unpack(packed: &[u8], plain: u32, base: Option<&[u8]>) -> Result<Vec<u8>, Damage> {
    if packed.is_empty() {
        return Ok(Vec::new());
    }
    let mut unpacker = zstd_safe::DCtx::create();
    let mut objects = Vec::with_capacity(plain as usize);
    let referred = base.map_or(Ok(0), |base| unpacker.ref_prefix(base));
    let unpacked = referred.and_then(|_| unpacker.decompress(&mut objects, packed));
    match unpacked {
        Ok(_) => Ok(objects),
        Err(_) => Err(Damage::Frame("its objects cannot be unpacked")),
    }
}
