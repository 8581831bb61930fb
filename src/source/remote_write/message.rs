//! Messages of remote write 1.0, as `prometheus/prompb` has them, compressed with snappy.

use model::base::Moment;
use prost::Message;

/// The value that ends a series: a NaN of its own (<https://prometheus.io/docs/specs/prw/remote_write_spec/#stale-markers>).
pub const STALE: u64 = 0x7ff0_0000_0000_0002;

#[derive(Clone, PartialEq, Message)]
pub struct WriteRequest {
    /// Series with their samples.
    #[prost(message, repeated, tag = "1")]
    pub timeseries: Vec<TimeSeries>,
}

/// A series with samples, oldest first.
#[derive(Clone, PartialEq, Message)]
pub struct TimeSeries {
    /// Labels, sorted by name.
    #[prost(message, repeated, tag = "1")]
    pub labels: Vec<LabelPair>,
    #[prost(message, repeated, tag = "2")]
    pub samples: Vec<Sample>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct LabelPair {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub value: String,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct Sample {
    #[prost(double, tag = "1")]
    pub value: f64,
    /// Milliseconds since the Unix epoch.
    #[prost(int64, tag = "2")]
    pub timestamp: i64,
}

impl Sample {
    pub fn new(at: Moment, value: f64) -> Self {
        Self {
            value,
            timestamp: at.millis(),
        }
    }
}

impl TimeSeries {
    /// A series of these labels.
    pub fn new(labels: &[(String, String)], samples: Vec<Sample>) -> Self {
        let labels = labels.iter().map(|(name, value)| LabelPair {
            name: name.clone(),
            value: value.clone(),
        });
        Self {
            labels: labels.collect(),
            samples,
        }
    }
}

impl WriteRequest {
    /// How many samples it has.
    pub fn samples(&self) -> u64 {
        let series = self.timeseries.iter();
        series.map(|series| series.samples.len() as u64).sum()
    }

    /// The body of the request; `None` where it is larger than snappy can hold (4 GiB).
    pub fn body(&self) -> Option<Vec<u8>> {
        let plain = self.encode_to_vec();
        snap::raw::Encoder::new().compress_vec(&plain).ok()
    }
}
