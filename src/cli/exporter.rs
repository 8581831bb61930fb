//! `exporter`: lists the known dialects, and reads one page with them.

use std::fs::File;
use std::io::{self, Read, Write};
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use flate2::read::MultiGzDecoder;
use futures::StreamExt;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use exporter::{self, Dialects, PageReport};
use model::base::{Exit, Failure, Names};
use model::fleet::reading::{Reading, ReadingScope};
use model::fleet::signal::{Signal, Signals};
use table::table::{cell, text_table};
use table::text::{UNKNOWN, celsius, or_unknown, percent, seconds, watts, word};

use crate::runtime::host::Host;

use super::common::out;

/// Largest page in bytes, decompressed.
const LARGEST: u64 = 256 << 20;

/// Timeout of a page.
const PATIENCE: Duration = Duration::from_secs(30);

/// What to do with exporters.
#[derive(Subcommand, Clone, PartialEq, Eq, Debug)]
pub enum Exporter {
    /// List the known dialects
    List,
    /// Print what one exposition text means
    Read(ReadPage),
}

/// Which page to read, and how.
#[derive(Args, Clone, PartialEq, Eq, Debug)]
pub struct ReadPage {
    /// A file, an http(s) address, or - for standard input; may be gzip-encoded
    #[arg(value_name = "FILE|URL|-")]
    pub from: String,
    /// How to print it
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub output: PageFormat,
    /// The dialect, where it is not to be found out
    #[arg(long, value_name = "NAME")]
    pub dialect: Option<String>,
}

/// A format for a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum PageFormat {
    /// Columns
    Table,
    /// An array of objects
    Json,
}

/// One row of a page, as `-o json` prints it.
#[derive(Serialize)]
struct ReadingRow<'a> {
    dialect: &'a str,
    node: Option<&'a str>,
    index: Option<u32>,
    uuid: Option<&'a str>,
    model: Option<&'a str>,
    slice: Option<&'a str>,
    namespace: Option<&'a str>,
    pod: Option<&'a str>,
    container: Option<&'a str>,
    #[serde(serialize_with = "by_name")]
    signals: &'a Signals,
}

fn by_name<S: Serializer>(signals: &&Signals, out: S) -> Result<S::Ok, S::Error> {
    let mut map = out.serialize_map(Some(signals.len()))?;
    for (signal, value) in signals.iter() {
        map.serialize_entry(signal.name(), &value)?;
    }
    map.end()
}

impl<'a> From<&'a Reading> for ReadingRow<'a> {
    fn from(reading: &'a Reading) -> Self {
        Self {
            dialect: &reading.dialect,
            node: reading.host.as_deref(),
            index: reading.index,
            uuid: reading.uuid.as_deref(),
            model: reading.model.as_deref(),
            slice: reading.slice.as_deref(),
            namespace: reading.pod.as_ref().map(|pod| pod.namespace.as_str()),
            pod: reading.pod.as_ref().map(|pod| pod.name.as_str()),
            container: reading.container.as_deref(),
            signals: &reading.signals,
        }
    }
}

pub(super) fn run(
    host: &Host,
    exporter: &Exporter,
    dialects: &Dialects,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Exit, Failure> {
    match exporter {
        Exporter::List => {
            out::write(out, &list(dialects))?;
            Ok(Exit::Done)
        }
        Exporter::Read(page) => read(host, page, dialects, out, err),
    }
}

fn list(dialects: &Dialects) -> String {
    let titles = vec![
        ("NAME", false),
        ("EXPORTER", false),
        ("VENDOR", false),
        ("EVERY", true),
        ("SIGNALS", true),
        ("METRICS", true),
        ("FILE", false),
    ];
    let lines: Vec<Vec<String>> = dialects
        .iter()
        .map(|dialect| {
            vec![
                cell(&dialect.name),
                cell(&dialect.title),
                cell(&dialect.vendor),
                format!("{}s", dialect.interval.as_secs()),
                dialect.signals().len().to_string(),
                dialect.metrics().len().to_string(),
                cell(&dialect.file),
            ]
        })
        .collect();
    text_table(titles, &lines, true)
}

fn read(
    host: &Host,
    page: &ReadPage,
    dialects: &Dialects,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Exit, Failure> {
    if let Some(name) = &page.dialect {
        dialects
            .named(name)
            .map_err(|message| Failure::new(Exit::Usage, message))?;
    }
    let bytes = fetch(host, &page.from)?;
    let target = exporter::PageSource {
        dialect: page.dialect.as_deref(),
        ..exporter::PageSource::default()
    };
    let mut names = Names::default();
    let read = exporter::read(dialects, &bytes, &target, &mut names);
    for line in summary(&page.from, &read.report) {
        out::print_message(err, &line);
    }
    if read.report.dialect.is_none() && !read.report.starting {
        let message = format!("{}: no known exporter wrote this", page.from);
        return Err(Failure::new(Exit::Failed, message));
    }
    let rows = |serving: bool| -> Vec<ReadingRow<'_>> {
        let all = read.readings.iter();
        all.filter(|one| (one.scope == ReadingScope::Serving) == serving)
            .map(ReadingRow::from)
            .collect()
    };
    let (measured, served) = (rows(false), rows(true));
    let text = match page.output {
        PageFormat::Json => {
            let all: Vec<ReadingRow<'_>> = measured.into_iter().chain(served).collect();
            table::output::safe_json(&all)
        }
        PageFormat::Table if served.is_empty() => sheet(&measured),
        PageFormat::Table if measured.is_empty() => serving_sheet(&served),
        PageFormat::Table => format!("{}\n{}", sheet(&measured), serving_sheet(&served)),
    };
    out::write(out, &text)?;
    Ok(Exit::Done)
}

/// A summary of the parse, in lines.
fn summary(from: &str, report: &PageReport) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(dialect) = &report.dialect {
        lines.push(format!(
            "{from}: {dialect}, {} devices; {} series used, {} skipped, {} without a value, {} duplicate; {} bad lines",
            report.devices,
            report.series_used,
            report.series_skipped,
            report.missing_values,
            report.duplicates,
            report.bad_lines,
        ));
    }
    lines.extend(
        report
            .messages
            .iter()
            .map(|message| format!("{from}: {message}")),
    );
    lines
}

/// The pod of a row, if it is known.
fn pod_of(row: &ReadingRow<'_>) -> String {
    match (row.namespace, row.pod) {
        (Some(namespace), Some(pod)) => format!("{namespace}/{pod}"),
        _ => UNKNOWN.to_owned(),
    }
}

/// Table of model servers: requests rather than devices.
fn serving_sheet(rows: &[ReadingRow<'_>]) -> String {
    let titles = vec![
        ("MODEL", false),
        ("RUNNING", true),
        ("WAITING", true),
        ("CACHE", true),
        ("FIRST-TOKEN", true),
        ("ANSWER", true),
        ("SIGNALS", true),
        ("POD", false),
    ];
    let lines: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let get = |signal| row.signals.get(signal);
            let count = |value: Option<f64>| or_unknown(value.map(|value| format!("{value:.0}")));
            vec![
                cell(&word(row.model)),
                count(get(Signal::RequestsRunning)),
                count(get(Signal::RequestsWaiting)),
                percent(get(Signal::KvCache)),
                seconds(get(Signal::Ttft)),
                seconds(get(Signal::E2e)),
                row.signals.len().to_string(),
                cell(&pod_of(row)),
            ]
        })
        .collect();
    text_table(titles, &lines, true)
}

fn sheet(rows: &[ReadingRow<'_>]) -> String {
    let titles = vec![
        ("NODE", false),
        ("INDEX", true),
        ("SLICE", false),
        ("MODEL", false),
        ("UTIL", true),
        ("MEM", true),
        ("TEMP", true),
        ("POWER", true),
        ("SIGNALS", true),
        ("POD", false),
    ];
    let lines: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let pod = pod_of(row);
            let memory = row.signals.get(Signal::MemUsed);
            vec![
                cell(&word(row.node)),
                or_unknown(row.index),
                cell(&word(row.slice)),
                cell(&word(row.model)),
                percent(row.signals.get(Signal::Util)),
                or_unknown(memory.map(model::base::quantities::bytes)),
                celsius(row.signals.get(Signal::Temp)),
                watts(row.signals.get(Signal::Power)),
                row.signals.len().to_string(),
                cell(&pod),
            ]
        })
        .collect();
    text_table(titles, &lines, true)
}

/// The bytes of a page, decompressed.
fn fetch(host: &Host, from: &str) -> Result<Vec<u8>, Failure> {
    let failed =
        |what: &dyn std::fmt::Display| Failure::new(Exit::Failed, format!("{from}: {what}"));
    let raw = if from == "-" {
        bounded(&mut *host.input.lock()).map_err(|error| failed(&error))?
    } else if from.starts_with("http://") || from.starts_with("https://") {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| failed(&error))?;
        runtime.block_on(download(from))?
    } else {
        let file = File::open(from).map_err(|error| failed(&error))?;
        bounded(file).map_err(|error| failed(&error))?
    };
    if raw.starts_with(&[0x1f, 0x8b]) {
        return bounded(MultiGzDecoder::new(&*raw))
            .map_err(|error| failed(&format_args!("cannot be unpacked: {error}")));
    }
    Ok(raw)
}

fn bounded(from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        return Err(io::Error::other(too_large()));
    }
    Ok(bytes)
}

fn too_large() -> String {
    format!(
        "is larger than {} MiB, too large for an exporter's page",
        LARGEST >> 20
    )
}

async fn download(url: &str) -> Result<Vec<u8>, Failure> {
    let unreachable = |error: reqwest::Error| {
        // The outermost error is "error sending request"; the innermost cause is the useful one.
        let mut cause: &dyn std::error::Error = &error;
        while let Some(deeper) = cause.source() {
            cause = deeper;
        }
        Failure::new(Exit::Unreachable, format!("{url}: {cause}"))
    };
    // Another part of the program may have chosen the provider already; it is the same one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = source::trust::client(url, || reqwest::Client::builder().timeout(PATIENCE))
        .map_err(|words| Failure::new(Exit::Unreachable, format!("{url}: {words}")))?;
    let answer = client.get(url).send().await.map_err(unreachable)?;
    let status = answer.status();
    if !status.is_success() {
        let exit = match status.as_u16() {
            401 | 403 => Exit::Refused,
            _ => Exit::Failed,
        };
        return Err(Failure::new(exit, format!("{url} answered {status}")));
    }
    let mut bytes = Vec::new();
    let mut body = answer.bytes_stream();
    while let Some(chunk) = body.next().await {
        bytes.extend_from_slice(&chunk.map_err(unreachable)?);
        if bytes.len() as u64 > LARGEST {
            return Err(Failure::new(
                Exit::Failed,
                format!("{url}: {}", too_large()),
            ));
        }
    }
    Ok(bytes)
}
