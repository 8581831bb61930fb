//! One line of an exposition page: name, labels, value, timestamp, exemplar.

use std::borrow::Cow;

use memchr::memchr2;

/// One label of a series. Borrowed from the page unless it held an escape or bytes that are not UTF-8.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Label<'a> {
    /// The label's name.
    pub name: Cow<'a, str>,
    /// The label's value, unescaped.
    pub value: Cow<'a, str>,
}

/// What a line's text says, with the labels left in the caller's buffer.
pub(super) struct Parsed<'a> {
    pub name: Cow<'a, str>,
    /// The label block as it stands in the page, without braces.
    pub block: &'a [u8],
    pub value: f64,
    /// Milliseconds since the epoch.
    pub timestamp: Option<i64>,
}

/// Why a line is not a series.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Longer than the limit.
    TooLong,
    /// More labels than the limit.
    TooManyLabels,
    /// It does not begin with a metric name.
    NoName,
    /// A label without a name, a `=` or quotes.
    BadLabel,
    /// A quoted text that never ends.
    OpenQuote,
    /// A label block that never ends.
    OpenBrace,
    /// Nothing after the name.
    NoValue,
    /// The value is text.
    NotANumber,
    /// The timestamp is text.
    BadTimestamp,
    /// Something stands after the timestamp.
    Trailing,
}

impl Fault {
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

/// Parses `line` (without its line end) into `labels`; `strange` counts texts that were not UTF-8.
pub(super) fn parse<'a>(
    line: &'a [u8],
    labels: &mut Vec<Label<'a>>,
    max_labels: usize,
    strange: &mut usize,
) -> Result<Parsed<'a>, Fault> {
    labels.clear();
    let start = blanks(line, 0);
    let mut at = start;
    while line.get(at).is_some_and(|byte| is_name(*byte)) {
        at += 1;
    }
    if line.get(start).is_some_and(u8::is_ascii_digit) {
        return Err(Fault::NoName);
    }
    let mut name = (at > start).then(|| text(&line[start..at], strange));
    at = blanks(line, at);
    let mut block: &[u8] = &[];
    if line.get(at) == Some(&b'{') {
        let from = at + 1;
        at = block_of(line, from, labels, &mut name, max_labels, strange)?;
        block = &line[from..at - 1];
    }
    let name = name.ok_or(Fault::NoName)?;
    at = blanks(line, at);
    let (token, next) = word(line, at);
    if token.is_empty() || token[0] == b'#' {
        return Err(Fault::NoValue);
    }
    let value = number(token).ok_or(Fault::NotANumber)?;
    at = blanks(line, next);
    let mut timestamp = None;
    if line.get(at).is_some_and(|byte| *byte != b'#') {
        let (token, next) = word(line, at);
        timestamp = Some(moment(token).ok_or(Fault::BadTimestamp)?);
        at = blanks(line, next);
        if line.get(at).is_some_and(|byte| *byte != b'#') {
            return Err(Fault::Trailing);
        }
    }
    Ok(Parsed {
        name,
        block,
        value,
        timestamp,
    })
}

/// Parses a label block from just after its `{`; returns where the line goes on after `}`.
fn block_of<'a>(
    line: &'a [u8],
    mut at: usize,
    labels: &mut Vec<Label<'a>>,
    name: &mut Option<Cow<'a, str>>,
    max_labels: usize,
    strange: &mut usize,
) -> Result<usize, Fault> {
    loop {
        at = blanks(line, at);
        let key = match line.get(at) {
            None => return Err(Fault::OpenBrace),
            Some(b'}') => return Ok(at + 1),
            Some(b',') => {
                at += 1;
                continue;
            }
            Some(b'"') => {
                let (quoted, next) = quoted(line, at + 1, strange)?;
                at = blanks(line, next);
                if line.get(at) != Some(&b'=') {
                    // A name that is not plain stands quoted, first in the braces.
                    if name.is_some() || !labels.is_empty() || quoted.is_empty() {
                        return Err(Fault::BadLabel);
                    }
                    *name = Some(quoted);
                    continue;
                }
                quoted
            }
            Some(_) => {
                let from = at;
                while line.get(at).is_some_and(|byte| is_label_name(*byte)) {
                    at += 1;
                }
                if at == from {
                    return Err(Fault::BadLabel);
                }
                let plain = text(&line[from..at], strange);
                at = blanks(line, at);
                plain
            }
        };
        if line.get(at) != Some(&b'=') {
            return Err(if at >= line.len() {
                Fault::OpenBrace
            } else {
                Fault::BadLabel
            });
        }
        at = blanks(line, at + 1);
        match line.get(at) {
            None => return Err(Fault::OpenBrace),
            Some(b'"') => {}
            Some(_) => return Err(Fault::BadLabel),
        }
        let (value, next) = quoted(line, at + 1, strange)?;
        if labels.len() >= max_labels {
            return Err(Fault::TooManyLabels);
        }
        labels.push(Label { name: key, value });
        at = blanks(line, next);
        if !matches!(line.get(at), None | Some(b',' | b'}')) {
            return Err(Fault::BadLabel);
        }
    }
}

/// The text from `at` to its closing quote, unescaped, and where the line goes on after the quote.
fn quoted<'a>(
    line: &'a [u8],
    at: usize,
    strange: &mut usize,
) -> Result<(Cow<'a, str>, usize), Fault> {
    let first = memchr2(b'"', b'\\', &line[at..]).ok_or(Fault::OpenQuote)? + at;
    if line[first] == b'"' {
        return Ok((text(&line[at..first], strange), first + 1));
    }
    let mut plain = line[at..first].to_vec();
    let mut at = first;
    loop {
        match line[at] {
            b'"' => {
                let value = text(&plain, strange).into_owned();
                return Ok((Cow::Owned(value), at + 1));
            }
            _ => {
                match line.get(at + 1).ok_or(Fault::OpenQuote)? {
                    b'n' => plain.push(b'\n'),
                    b'"' => plain.push(b'"'),
                    b'\\' => plain.push(b'\\'),
                    // No such escape: both characters are meant.
                    other => plain.extend_from_slice(&[b'\\', *other]),
                }
                at += 2;
            }
        }
        let next = memchr2(b'"', b'\\', &line[at..]).ok_or(Fault::OpenQuote)? + at;
        plain.extend_from_slice(&line[at..next]);
        at = next;
    }
}

fn text<'a>(bytes: &'a [u8], strange: &mut usize) -> Cow<'a, str> {
    let text = String::from_utf8_lossy(bytes);
    if matches!(text, Cow::Owned(_)) {
        *strange += 1;
    }
    text
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
    // Whole numbers up to nine digits take the short road: most values are.
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
        // 1e11 ms is March 1973, 1e11 s is the year 5138: no exporter means either.
        return Some(if whole.unsigned_abs() < 100_000_000_000 {
            whole * 1000
        } else {
            whole
        });
    }
    let seconds = token.parse::<f64>().ok()?;
    (seconds.is_finite() && seconds.abs() < 1e15).then(|| (seconds * 1000.0).round() as i64)
}

const fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':')
}

const fn is_label_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':' | b'.' | b'-' | b'/')
}
