//! Prometheus remote write 1.0: which samples are sent, their encoding, and the task that sends them.
//!
//! The protocol: <https://prometheus.io/docs/specs/prw/remote_write_spec/>. A failing receiver blocks nothing: batches that it
//! does not accept wait in a bounded queue, whose oldest are dropped first.

mod message;
mod sender;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use model::base::{Moment, SmallSort};

pub use message::{LabelPair, STALE, Sample, TimeSeries, WriteRequest};
pub use sender::{RemoteWrite, RemoteWriteState};

use crate::scrape::Endpoint;

/// Where samples are sent, and how.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RemoteWriteOptions {
    /// The receiver: its address, headers, and the files with a bearer token and the CA of its certificate.
    pub endpoint: Endpoint,
    /// User of basic authentication; needs `password_file`.
    pub username: Option<String>,
    /// File with the password; read at each request.
    pub password_file: Option<PathBuf>,
    /// How long one answer may take.
    pub timeout: Duration,
    /// Most requests that are queued for a receiver that does not accept them.
    pub queue: usize,
}

/// Labels of a series, sorted by name, `__name__` among them.
pub type SeriesLabels = Vec<(String, String)>;

/// The value of a series at the moment of its batch.
#[derive(Clone, PartialEq, Debug)]
pub struct SeriesValue {
    /// Its labels. Empty values are not sent.
    pub labels: SeriesLabels,
    pub value: f64,
    /// True for a counter: a new series is first sent with a 0 at the time of the previous batch, or its first increase would
    /// be lost to `increase()`.
    pub is_counter: bool,
}

/// Encodes batches as requests, one after the other.
#[derive(Default)]
pub struct BatchEncoder {
    last: Option<Moment>,
    sent: BTreeMap<SeriesLabels, ()>,
}

impl BatchEncoder {
    /// The request of a batch. Series of the previous batch that this one lacks are marked as stale.
    pub fn encode(&mut self, at: Moment, values: Vec<SeriesValue>) -> WriteRequest {
        let mut before = std::mem::take(&mut self.sent);
        let last = self.last.filter(|last| *last < at);
        let mut timeseries = Vec::with_capacity(values.len());
        for SeriesValue {
            mut labels,
            value,
            is_counter,
        } in values
        {
            labels.retain(|(_, value)| !value.is_empty());
            labels.small_sort();
            let known = before.remove(&labels).is_some();
            let born = last.filter(|_| is_counter && !known);
            let mut samples = Vec::with_capacity(1);
            samples.extend(born.map(|at| Sample::new(at, 0.0)));
            samples.push(Sample::new(at, value));
            timeseries.push(TimeSeries::new(&labels, samples));
            self.sent.insert(labels, ());
        }
        for labels in before.into_keys() {
            timeseries.push(TimeSeries::new(
                &labels,
                vec![Sample::new(at, f64::from_bits(STALE))],
            ));
        }
        self.last = Some(at);
        WriteRequest { timeseries }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(name: &str, value: f64, is_counter: bool) -> SeriesValue {
        let labels = [("z", ""), ("pool", "a"), ("__name__", name)];
        SeriesValue {
            labels: labels.map(|(a, b)| (a.to_owned(), b.to_owned())).to_vec(),
            value,
            is_counter,
        }
    }

    fn at(seconds: i64) -> Moment {
        Moment::from_seconds(seconds)
    }

    #[test]
    fn labels_are_sorted_and_a_vanished_series_is_stale() {
        let mut encoder = BatchEncoder::default();
        let first = encoder.encode(
            at(10),
            vec![value("a_total", 5.0, true), value("b", 1.0, false)],
        );
        let names: Vec<&str> = first.timeseries[0]
            .labels
            .iter()
            .map(|label| label.name.as_str())
            .collect();
        assert_eq!(names, ["__name__", "pool"], "sorted, without empty ones");
        assert_eq!(
            first.timeseries[0].samples,
            [Sample::new(at(10), 5.0)],
            "no batch before"
        );
        let next = encoder.encode(
            at(25),
            vec![value("a_total", 9.0, true), value("c_total", 4.0, true)],
        );
        assert_eq!(next.timeseries[0].samples, [Sample::new(at(25), 9.0)]);
        assert_eq!(
            next.timeseries[1].samples,
            [Sample::new(at(10), 0.0), Sample::new(at(25), 4.0)],
            "a counter begins at 0"
        );
        assert_eq!(next.timeseries[2].labels[0].value, "b");
        assert_eq!(next.timeseries[2].samples[0].value.to_bits(), STALE);
        let last = encoder.encode(at(40), Vec::new());
        assert_eq!(last.timeseries.len(), 2, "a stale series is marked once");
    }
}
