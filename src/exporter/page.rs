//! What a page says: its readings, the totals behind them, and a report.

use model::base::{Moment, Name};
use model::fleet::reading::Reading;
use model::fleet::signal::Signal;
use model::fleet::skipped_series::SkippedSeries;

/// The result of reading a page.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ParsedPage {
    /// One reading per node, device, slice and pod, in that order within a device; devices sorted by host and index.
    pub readings: Vec<Reading>,
    /// Counters behind rate signals: [`super::Rates`] computes the rates.
    pub totals: Vec<Total>,
    /// Report of the read.
    pub report: PageReport,
}

/// Report of reading a page.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PageReport {
    /// The dialect, when one was found.
    pub dialect: Option<Name>,
    /// True for a page without measurements: the exporter runs and has not measured yet.
    pub starting: bool,
    /// Series that gave a value or an identity.
    pub series_used: usize,
    /// Series that the dialect does not have, or whose rows it ignores.
    pub series_skipped: usize,
    /// The metrics of these series, those with the most series first; empty without a dialect.
    pub skipped: Vec<SkippedSeries>,
    /// Series of known metrics on rows without a device; part of `series_skipped`.
    pub no_device: usize,
    /// Lines that are not series.
    pub bad_lines: usize,
    /// Series repeated with the same labels: the last one counts.
    pub duplicates: usize,
    /// Series with a sentinel, non-finite or implausible value.
    pub missing_values: usize,
    /// Latency metrics whose buckets are not a valid histogram; their value is unknown.
    pub malformed_histograms: usize,
    /// Devices on the page.
    pub devices: usize,
    /// The newest timestamp on the page, where it has any.
    pub newest: Option<Moment>,
    /// Messages for the operator.
    pub messages: Vec<String>,
}

/// A running total whose signal is a rate or a mean.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Total {
    /// The reading it belongs to, as an index into [`ParsedPage::readings`].
    pub reading: usize,
    /// The rate or mean that it makes.
    pub signal: Signal,
    pub value: f64,
    /// Of how many, for a mean.
    pub count: Option<f64>,
}
