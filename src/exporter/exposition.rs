//! The Prometheus and OpenMetrics text formats, read line by line without copying.
//!
//! Tolerant by design: a line that is not a series is counted with its number and the reason, and reading
//! continues. Comments (`# TYPE`, `# HELP`, `# UNIT`, `# EOF`) are skipped: a metric's meaning comes from its dialect,
//! because exporters' own type lines are often wrong. Bounded: bytes, line length and labels have limits.

use std::borrow::Cow;

use memchr::{memchr, memrchr};
use rustc_hash::FxHashMap;

use super::line;
pub use super::line::{Label, LineFault};

/// How much of a page is read at most.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of the page; what lies beyond is not read.
    pub bytes: usize,
    /// Bytes of a line; a longer one is a bad line.
    pub line: usize,
    /// Labels of a series; one with more is a bad line.
    pub labels: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bytes: 64 << 20,
            line: 64 << 10,
            labels: 128,
        }
    }
}

#[derive(Debug)]
pub struct Series<'a, 'b> {
    /// Number of the line in the page, from 1.
    pub line: usize,
    pub name: Cow<'a, str>,
    /// The labels in the order of the page.
    pub labels: &'b [Label<'a>],
    /// Number of the label block among those of the page, where it is kept: equal numbers are equal labels. Two
    /// blocks of the same labels in another order have different numbers.
    pub block: Option<u32>,
    /// The value; may be NaN or infinite.
    pub value: f64,
    /// Milliseconds since the Unix epoch, when the line has a timestamp.
    pub timestamp: Option<i64>,
}

impl Series<'_, '_> {
    /// The value of a label; `None` when it is absent or empty, which the format holds to be the same.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels
            .iter()
            .find(|label| label.name == name)
            .map(|label| &*label.value)
            .filter(|value| !value.is_empty())
    }
}

/// A line that could not be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadLine {
    /// Its number, from 1.
    pub line: usize,
    pub fault: LineFault,
}

/// What the page is, by its looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Nature {
    /// Series were found, or the page may still get some.
    #[default]
    Metrics,
    /// Nothing but blanks and comments: an exporter before its first cycle.
    Empty,
    Html,
    Json,
    /// A gzip stream that was not decompressed.
    Gzip,
    /// Bytes that are not text.
    Binary,
}

/// How many bad lines a [`Scan`] keeps in full; the rest are only counted.
pub const BAD_LINES_KEPT: usize = 5;

/// What a pass over a page met.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Scan {
    /// Lines in all, with comments and blank ones.
    pub lines: usize,
    /// Lines that are series.
    pub series: usize,
    /// Lines that are not.
    pub bad: usize,
    /// The first [`BAD_LINES_KEPT`] of them.
    pub first_bad: Vec<BadLine>,
    /// Names and label values that were not UTF-8; the strange bytes became U+FFFD.
    pub not_utf8: usize,
    /// Bytes beyond the limit, which were not read.
    pub left_out: usize,
    /// The last line has no line end, so that it may have been cut.
    pub open_end: bool,
    /// What the page is.
    pub nature: Nature,
}

/// Reads `page` line by line and shows each series to `visit`, in the order of the page.
pub fn scan<'a>(page: &'a [u8], limits: Limits, mut visit: impl FnMut(&Series<'a, '_>)) -> Scan {
    let mut scan = Scan::default();
    let mut rest = page.strip_prefix(b"\xef\xbb\xbf").unwrap_or(page);
    if rest.len() > limits.bytes {
        // A line cut by the limit is left out whole: half a number is a wrong number.
        let kept = memrchr(b'\n', &rest[..limits.bytes]).map_or(0, |at| at + 1);
        scan.left_out = rest.len() - kept;
        rest = &rest[..kept];
    }
    let body = rest;
    let mut blocks = Blocks::default();
    while !rest.is_empty() {
        let (line, next) = match memchr(b'\n', rest) {
            Some(at) => (&rest[..at], &rest[at + 1..]),
            None => {
                scan.open_end = true;
                (rest, &rest[rest.len()..])
            }
        };
        rest = next;
        scan.lines += 1;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match line.iter().find(|byte| !matches!(byte, b' ' | b'\t')) {
            None | Some(b'#') => continue,
            Some(_) => {}
        }
        let read = if line.len() > limits.line {
            Err(LineFault::TooLong)
        } else {
            blocks.read(line, limits.labels, &mut scan.not_utf8)
        };
        match read {
            Ok((name, block, value, timestamp)) => {
                scan.series += 1;
                visit(&Series {
                    line: scan.lines,
                    name,
                    labels: match block {
                        Some(block) => &blocks.labels[block as usize],
                        None => &blocks.spare,
                    },
                    block,
                    value,
                    timestamp,
                });
            }
            Err(fault) => {
                scan.bad += 1;
                if scan.first_bad.len() < BAD_LINES_KEPT {
                    scan.first_bad.push(BadLine {
                        line: scan.lines,
                        fault,
                    });
                }
            }
        }
    }
    scan.nature = nature(body, &scan);
    scan
}

/// Label blocks of the page. A device's block is repeated in each of its metric families, so a
/// block is parsed once.
#[derive(Default)]
struct Blocks<'a> {
    known: FxHashMap<&'a [u8], u32>,
    labels: Vec<Vec<Label<'a>>>,
    /// Labels in all of `labels`, so that a hostile page cannot make them grow without end.
    held: usize,
    /// Labels of a line whose block is not kept.
    spare: Vec<Label<'a>>,
}

/// How many labels [`Blocks`] keeps.
const LABELS_KEPT: usize = 1 << 18;

type Line<'a> = (Cow<'a, str>, Option<u32>, f64, Option<i64>);

impl<'a> Blocks<'a> {
    fn read(
        &mut self,
        line: &'a [u8],
        max_labels: usize,
        strange: &mut usize,
    ) -> Result<Line<'a>, LineFault> {
        let (start, end) = line::plain_name(line);
        if end > start
            && line.get(end) == Some(&b'{')
            && let Some(close) = memrchr(b'}', &line[end + 1..])
            && let Some(block) = self.known.get(&line[end + 1..end + 1 + close])
            && let Ok(name) = std::str::from_utf8(&line[start..end])
        {
            let (value, timestamp) = line::tail(line, end + close + 2)?;
            return Ok((Cow::Borrowed(name), Some(*block), value, timestamp));
        }
        let before = *strange;
        let head = line::head(line, &mut self.spare, max_labels, strange)?;
        let (value, timestamp) = line::tail(line, head.end)?;
        let keep = !head.name_within
            && *strange == before
            && self.held + self.spare.len() < LABELS_KEPT
            && self.labels.len() < LABELS_KEPT;
        let block = keep.then(|| {
            let number = self.labels.len() as u32;
            self.held += self.spare.len();
            let spare = Vec::with_capacity(self.spare.len());
            self.labels.push(std::mem::replace(&mut self.spare, spare));
            *self.known.entry(head.block).or_insert(number)
        });
        Ok((head.name, block, value, timestamp))
    }
}

/// Classifies a page without series.
fn nature(body: &[u8], scan: &Scan) -> Nature {
    if scan.series > 0 {
        return Nature::Metrics;
    }
    let head = body.trim_ascii_start();
    if body.starts_with(&[0x1f, 0x8b]) {
        Nature::Gzip
    } else if head.first() == Some(&b'<') {
        Nature::Html
    } else if matches!(head.first(), Some(b'{' | b'[')) {
        Nature::Json
    } else if scan.bad == 0 && scan.left_out == 0 {
        Nature::Empty
    } else {
        let look = &body[..body.len().min(4096)];
        let strange = look
            .iter()
            .filter(|byte| **byte < 0x20 && !matches!(byte, b'\n' | b'\r' | b'\t'))
            .count();
        if strange * 50 > look.len() {
            Nature::Binary
        } else {
            Nature::Metrics
        }
    }
}
