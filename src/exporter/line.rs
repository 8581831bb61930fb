//! One line of an exposition page: name, labels, value, timestamp, exemplar.

use std::borrow::Cow;

use memchr::memchr2;

/// One label of a series. Borrowed from the page unless it had an escape or bytes that are not UTF-8.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Label<'a> {
    pub name: Cow<'a, str>,
    /// The label's value, unescaped.
    pub value: Cow<'a, str>,
}

/// Why a line is not a series.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LineFault {
    /// Longer than the limit.
    TooLong,
    /// More labels than the limit.
    TooManyLabels,
    /// It does not begin with a metric name.
    NoName,
    /// A label without a name, `=` or quotes.
    BadLabel,
    /// A quoted text without an end.
    OpenQuote,
    /// A label block without an end.
    OpenBrace,
    /// No value after the name.
    NoValue,
    /// The value is not a number.
    NotANumber,
    /// The timestamp is not a number.
    BadTimestamp,
    /// Text after the timestamp.
    Trailing,
}

impl LineFault {
    /// The fault in words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::TooLong => "longer than a line may be",
            Self::TooManyLabels => "more labels than a series may have",
            Self::NoName => "no metric name",
            Self::BadLabel => "a label is not of the form name=\"value\"",
            Self::OpenQuote => "a quote is never closed",
            Self::OpenBrace => "the label block is never closed",
            Self::NoValue => "no value",
            Self::NotANumber => "the value is not a number",
            Self::BadTimestamp => "the timestamp is not a number",
            Self::Trailing => "text after the value",
        }
    }
}

/// The name and label block at the head of a line.
pub(super) struct LineHead<'a> {
    pub name: Cow<'a, str>,
    /// The label block as written in the page, without braces.
    pub block: &'a [u8],
    /// True when the name is quoted inside the block.
    pub name_within: bool,
    /// Offset of the value, or of blanks before it.
    pub end: usize,
}

/// Range of the plain metric name at the start of a line; empty when there is none.
pub(super) fn plain_name(line: &[u8]) -> (usize, usize) {
    let start = blanks(line, 0);
    let mut at = start;
    while line.get(at).is_some_and(|byte| NAME[usize::from(*byte)]) {
        at += 1;
    }
    if line.get(start).is_some_and(u8::is_ascii_digit) {
        at = start;
    }
    (start, at)
}

/// Parses name and labels of `line` (without its line end), the latter into `labels`; `strange` counts texts
/// that are not UTF-8.
pub(super) fn head<'a>(
    line: &'a [u8],
    labels: &mut Vec<Label<'a>>,
    max_labels: usize,
    strange: &mut usize,
) -> Result<LineHead<'a>, LineFault> {
    labels.clear();
    let (start, end) = plain_name(line);
    let mut text = LineText {
        bytes: line,
        plain: std::str::from_utf8(line).ok(),
        strange,
    };
    let mut name = (end > start).then(|| text.cut(start, end));
    let name_before = name.is_some();
    let mut at = blanks(line, end);
    let mut block: &[u8] = &[];
    if line.get(at) == Some(&b'{') {
        let from = at + 1;
        at = block_of(&mut text, from, labels, &mut name, max_labels)?;
        block = &line[from..at - 1];
    }
    Ok(LineHead {
        name: name.ok_or(LineFault::NoName)?,
        block,
        name_within: !name_before,
        end: at,
    })
}

/// Parses what follows the labels: the value, and the timestamp in milliseconds since the epoch.
pub(super) fn tail(line: &[u8], at: usize) -> Result<(f64, Option<i64>), LineFault> {
    let at = blanks(line, at);
    let (token, next) = word(line, at);
    if token.is_empty() || token[0] == b'#' {
        return Err(LineFault::NoValue);
    }
    let value = number(token).ok_or(LineFault::NotANumber)?;
    let at = blanks(line, next);
    let mut timestamp = None;
    if line.get(at).is_some_and(|byte| *byte != b'#') {
        let (token, next) = word(line, at);
        timestamp = Some(moment(token).ok_or(LineFault::BadTimestamp)?);
        let at = blanks(line, next);
        if line.get(at).is_some_and(|byte| *byte != b'#') {
            return Err(LineFault::Trailing);
        }
    }
    Ok((value, timestamp))
}

/// A line, with its text when it is entirely UTF-8.
struct LineText<'a, 's> {
    bytes: &'a [u8],
    plain: Option<&'a str>,
    strange: &'s mut usize,
}

impl<'a> LineText<'a, '_> {
    fn cut(&mut self, from: usize, to: usize) -> Cow<'a, str> {
        match self.plain.and_then(|plain| plain.get(from..to)) {
            Some(text) => Cow::Borrowed(text),
            None => self.lossy(&self.bytes[from..to]),
        }
    }

    fn lossy<'b>(&mut self, bytes: &'b [u8]) -> Cow<'b, str> {
        let text = String::from_utf8_lossy(bytes);
        if matches!(text, Cow::Owned(_)) {
            *self.strange += 1;
        }
        text
    }
}

/// Parses a label block from just after its `{`; returns the offset after `}`.
fn block_of<'a>(
    text: &mut LineText<'a, '_>,
    mut at: usize,
    labels: &mut Vec<Label<'a>>,
    name: &mut Option<Cow<'a, str>>,
    max_labels: usize,
) -> Result<usize, LineFault> {
    let line = text.bytes;
    loop {
        at = blanks(line, at);
        let key = match line.get(at) {
            None => return Err(LineFault::OpenBrace),
            Some(b'}') => return Ok(at + 1),
            Some(b',') => {
                at += 1;
                continue;
            }
            Some(b'"') => {
                let (quoted, next) = quoted(text, at + 1)?;
                at = blanks(line, next);
                if line.get(at) != Some(&b'=') {
                    // A name that is not plain is quoted, first in the braces.
                    if name.is_some() || !labels.is_empty() || quoted.is_empty() {
                        return Err(LineFault::BadLabel);
                    }
                    *name = Some(quoted);
                    continue;
                }
                quoted
            }
            Some(_) => {
                let from = at;
                while line
                    .get(at)
                    .is_some_and(|byte| LABEL_NAME[usize::from(*byte)])
                {
                    at += 1;
                }
                if at == from {
                    return Err(LineFault::BadLabel);
                }
                let plain = text.cut(from, at);
                at = blanks(line, at);
                plain
            }
        };
        if line.get(at) != Some(&b'=') {
            return Err(if at >= line.len() {
                LineFault::OpenBrace
            } else {
                LineFault::BadLabel
            });
        }
        at = blanks(line, at + 1);
        match line.get(at) {
            None => return Err(LineFault::OpenBrace),
            Some(b'"') => {}
            Some(_) => return Err(LineFault::BadLabel),
        }
        let (value, next) = quoted(text, at + 1)?;
        if labels.len() >= max_labels {
            return Err(LineFault::TooManyLabels);
        }
        labels.push(Label { name: key, value });
        at = blanks(line, next);
        if !matches!(line.get(at), None | Some(b',' | b'}')) {
            return Err(LineFault::BadLabel);
        }
    }
}

/// The unescaped text from `at` to its closing quote, and the offset after the quote.
fn quoted<'a>(text: &mut LineText<'a, '_>, at: usize) -> Result<(Cow<'a, str>, usize), LineFault> {
    let line = text.bytes;
    let first = memchr2(b'"', b'\\', &line[at..]).ok_or(LineFault::OpenQuote)? + at;
    if line[first] == b'"' {
        return Ok((text.cut(at, first), first + 1));
    }
    let mut plain = line[at..first].to_vec();
    let mut at = first;
    loop {
        match line[at] {
            b'"' => {
                let value = text.lossy(&plain).into_owned();
                return Ok((Cow::Owned(value), at + 1));
            }
            _ => {
                match line.get(at + 1).ok_or(LineFault::OpenQuote)? {
                    b'n' => plain.push(b'\n'),
                    b'"' => plain.push(b'"'),
                    b'\\' => plain.push(b'\\'),
                    // Not an escape: keep both characters.
                    other => plain.extend_from_slice(&[b'\\', *other]),
                }
                at += 2;
            }
        }
        let next = memchr2(b'"', b'\\', &line[at..]).ok_or(LineFault::OpenQuote)? + at;
        plain.extend_from_slice(&line[at..next]);
        at = next;
    }
}

fn blanks(line: &[u8], mut at: usize) -> usize {
    while matches!(line.get(at), Some(b' ' | b'\t')) {
        at += 1;
    }
    at
}

fn word(line: &[u8], at: usize) -> (&[u8], usize) {
    let mut end = at;
    while line
        .get(end)
        .is_some_and(|byte| !matches!(byte, b' ' | b'\t'))
    {
        end += 1;
    }
    (&line[at.min(line.len())..end], end)
}

/// A value as the text format writes it: Go's float syntax, `NaN`, `+Inf`, `-Inf`.
fn number(token: &[u8]) -> Option<f64> {
    // Fast path for whole numbers of up to nine digits: most values are.
    if token.len() <= 9 && token.iter().all(u8::is_ascii_digit) {
        let whole = token
            .iter()
            .fold(0u32, |sum, digit| sum * 10 + u32::from(digit - b'0'));
        return Some(f64::from(whole));
    }
    std::str::from_utf8(token).ok()?.parse().ok()
}

/// A timestamp in milliseconds: whole milliseconds in the text format, seconds in OpenMetrics.
fn moment(token: &[u8]) -> Option<i64> {
    let token = std::str::from_utf8(token).ok()?;
    if let Ok(whole) = token.parse::<i64>() {
        // 1e11 ms is March 1973, 1e11 s is the year 5138: no exporter has either.
        return Some(if whole.unsigned_abs() < 100_000_000_000 {
            whole * 1000
        } else {
            whole
        });
    }
    let seconds = token.parse::<f64>().ok()?;
    (seconds.is_finite() && seconds.abs() < 1e15).then(|| (seconds * 1000.0).round() as i64)
}

const NAME: [bool; 256] = bytes_of(b"_:");
const LABEL_NAME: [bool; 256] = bytes_of(b"_:.-/");

/// Letters, digits and `more`.
const fn bytes_of(more: &[u8]) -> [bool; 256] {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let mut at = 0;
    while at < more.len() {
        table[more[at] as usize] = true;
        at += 1;
    }
    table
}
