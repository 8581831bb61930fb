//! Samples of Prometheus' HTTP API, kept compactly by their target.
//!
//! An answer is read in one pass without a document in memory. A device's label set is repeated in each of its
//! series, so each set is kept once; so is each text.

use std::borrow::Cow;
use std::fmt;

use rustc_hash::FxHashMap;
use serde::de::{
    self, Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

use model::base::Moment;

/// Labels that name a target, and the replica of Prometheus that scraped it.
const TARGET_LABELS: &[&str] = &[
    "job",
    "instance",
    "cluster",
    "prometheus",
    "prometheus_replica",
    "replica",
];

/// Series that one store takes at most: what a fleet of 80,000 devices has, and some more.
const MOST: usize = 8 << 20;

/// A number of a text in [`Samples`].
pub(super) type TextId = u32;

/// Labels as pairs of texts, in order.
pub(super) type Pairs = Box<[(TextId, TextId)]>;

/// One sample of one series.
#[derive(Clone, Copy, Debug)]
pub(super) struct SeriesSample {
    /// The metric's name; the empty text where a function took it off.
    pub name: TextId,
    /// The label set within the target.
    pub block: u32,
    /// Milliseconds since the Unix epoch.
    pub at: i64,
    pub value: f64,
}

/// What was scraped from one target.
#[derive(Debug, Default)]
pub(super) struct Scraped {
    /// Its labels of [`TARGET_LABELS`].
    pub key: Pairs,
    /// Label sets, without names of metrics.
    pub blocks: Vec<Pairs>,
    /// Samples, in the order of the answers.
    pub samples: Vec<SeriesSample>,
}

#[derive(Debug, Default)]
pub struct Samples {
    texts: Vec<Box<str>>,
    ids: FxHashMap<Box<str>, TextId>,
    targets: Vec<Scraped>,
    by_key: FxHashMap<Pairs, u32>,
    blocks: FxHashMap<(u32, Pairs), u32>,
    series: usize,
    /// The newest moment that an answer gave for a sample: when Prometheus evaluated the query.
    evaluated: Option<i64>,
}

/// Why an answer gave no samples.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BadAnswer {
    /// Prometheus reports an error: its type, and its message.
    Refused(String, String),
    /// It is not an answer of Prometheus' API.
    Nonsense(String),
    /// More series than the limit.
    TooMany,
}

impl fmt::Display for BadAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(kind, words) => write!(f, "{kind}: {words}"),
            Self::Nonsense(words) => {
                write!(f, "this is not an answer of a Prometheus API ({words})")
            }
            Self::TooMany => write!(f, "more than {MOST} series"),
        }
    }
}

impl Samples {
    /// Adds the samples of an answer to `query` or `query_range`. Samples before a fault are kept.
    ///
    /// # Errors
    /// The answer is an error, or not one of Prometheus.
    pub fn take(&mut self, body: &[u8]) -> Result<(), BadAnswer> {
        let mut from = serde_json::Deserializer::from_slice(body);
        let response = Envelope { into: self }
            .deserialize(&mut from)
            .map_err(|error| BadAnswer::Nonsense(error.to_string()))?;
        match response {
            ResponseStatus {
                error: Some(error),
                kind,
                ..
            } => Err(BadAnswer::Refused(kind, error)),
            ResponseStatus { success: true, .. } if self.series > MOST => Err(BadAnswer::TooMany),
            ResponseStatus { success: true, .. } => Ok(()),
            ResponseStatus { .. } => Err(BadAnswer::Nonsense("it has no status".to_owned())),
        }
    }

    /// Number of accepted series.
    pub fn series(&self) -> usize {
        self.series
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.series == 0
    }

    /// How many targets they come from.
    pub fn targets(&self) -> usize {
        self.targets.len()
    }

    /// When Prometheus evaluated the latest query, on its own clock; `None` before any sample.
    pub fn evaluated(&self) -> Option<Moment> {
        self.evaluated.map(Moment::from_millis)
    }

    pub(super) fn scraped(&self) -> &[Scraped] {
        &self.targets
    }

    pub(super) fn text(&self, id: TextId) -> &str {
        &self.texts[id as usize]
    }

    /// The labels that name the target, in the order of [`TARGET_LABELS`].
    pub(super) fn key(&self, target: &Scraped) -> Vec<(&str, &str)> {
        let text = |id: TextId| self.text(id);
        target
            .key
            .iter()
            .map(|(name, value)| (text(*name), text(*value)))
            .collect()
    }

    fn intern(&mut self, text: &str) -> TextId {
        if let Some(id) = self.ids.get(text) {
            return *id;
        }
        let id = self.texts.len() as TextId;
        self.texts.push(text.into());
        self.ids.insert(text.into(), id);
        id
    }

    fn add(&mut self, metric: &[(Cow<'_, str>, Cow<'_, str>)], values: &[(i64, f64)]) {
        self.series += 1;
        if self.series > MOST {
            return;
        }
        let mut name = None;
        let mut block = Vec::with_capacity(metric.len());
        let mut key = Vec::new();
        for (label, value) in metric {
            let pair = (self.intern(label), self.intern(value));
            if label == "__name__" {
                name = Some(pair.1);
                continue;
            }
            if TARGET_LABELS.contains(&&**label) {
                key.push(pair);
            }
            block.push(pair);
        }
        key.sort_unstable();
        block.sort_unstable();
        let (key, block): (Box<[_]>, Box<[_]>) = (key.into(), block.into());
        let target = match self.by_key.get(&key) {
            Some(target) => *target,
            None => {
                let target = self.targets.len() as u32;
                self.targets.push(Scraped {
                    key: key.clone(),
                    ..Scraped::default()
                });
                self.by_key.insert(key, target);
                target
            }
        };
        let place = (target, block);
        let block = match self.blocks.get(&place) {
            Some(block) => *block,
            None => {
                let blocks = &mut self.targets[target as usize].blocks;
                let number = blocks.len() as u32;
                blocks.push(place.1.clone());
                self.blocks.insert(place, number);
                number
            }
        };
        let name = name.unwrap_or_else(|| self.intern(""));
        for (at, value) in values {
            self.evaluated = self.evaluated.max(Some(*at));
            self.targets[target as usize].samples.push(SeriesSample {
                name,
                block,
                at: *at,
                value: *value,
            });
        }
    }
}

/// The fields of an answer besides its samples.
#[derive(Default)]
struct ResponseStatus {
    success: bool,
    kind: String,
    error: Option<String>,
}

struct Envelope<'s> {
    into: &'s mut Samples,
}

impl<'de> DeserializeSeed<'de> for Envelope<'_> {
    type Value = ResponseStatus;
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<ResponseStatus, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Envelope<'_> {
    type Value = ResponseStatus;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an answer of Prometheus' HTTP API")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ResponseStatus, A::Error> {
        let mut response = ResponseStatus::default();
        while let Some(BorrowedText(key)) = map.next_key()? {
            match &*key {
                "status" => response.success = map.next_value::<BorrowedText<'_>>()?.0 == "success",
                "errorType" => response.kind = map.next_value::<BorrowedText<'_>>()?.0.into_owned(),
                "error" => {
                    let message = map.next_value::<BorrowedText<'_>>()?.0.into_owned();
                    response.error = Some(message).filter(|message| !message.is_empty());
                }
                "data" => map.next_value_seed(DataSeed {
                    into: &mut *self.into,
                })?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(response)
    }
}

struct DataSeed<'s> {
    into: &'s mut Samples,
}

impl<'de> DeserializeSeed<'de> for DataSeed<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for DataSeed<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a vector or a matrix")
    }
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(BorrowedText(key)) = map.next_key()? {
            match &*key {
                "resultType" => {
                    let kind = map.next_value::<BorrowedText<'_>>()?.0;
                    if !matches!(&*kind, "vector" | "matrix") {
                        return Err(de::Error::custom(format_args!(
                            "its result is a {kind}, not a vector"
                        )));
                    }
                }
                "result" => map.next_value_seed(SeriesSeed {
                    into: &mut *self.into,
                })?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

struct SeriesSeed<'s> {
    into: &'s mut Samples,
}

impl<'de> DeserializeSeed<'de> for SeriesSeed<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for SeriesSeed<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of series")
    }
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut rows: A) -> Result<(), A::Error> {
        while let Some(JsonSeries { metric, values }) = rows.next_element()? {
            self.into.add(&metric, &values);
        }
        Ok(())
    }
}

/// One series of a result.
struct JsonSeries<'de> {
    metric: Vec<(Cow<'de, str>, Cow<'de, str>)>,
    values: Vec<(i64, f64)>,
}

impl<'de> Deserialize<'de> for JsonSeries<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct RowVisitor;
        impl<'de> Visitor<'de> for RowVisitor {
            type Value = JsonSeries<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a series with its samples")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JsonSeries<'de>, A::Error> {
                let mut row = JsonSeries {
                    metric: Vec::new(),
                    values: Vec::new(),
                };
                while let Some(BorrowedText(key)) = map.next_key()? {
                    match &*key {
                        "metric" => row.metric = map.next_value::<MetricLabels<'de>>()?.0,
                        "value" => row.values.push(map.next_value::<JsonPoint>()?.0),
                        "values" => {
                            let points: Vec<JsonPoint> = map.next_value()?;
                            row.values.extend(points.into_iter().map(|point| point.0));
                        }
                        // Native histograms are no reading.
                        _ => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(row)
            }
        }
        from.deserialize_map(RowVisitor)
    }
}

struct MetricLabels<'de>(Vec<(Cow<'de, str>, Cow<'de, str>)>);

impl<'de> Deserialize<'de> for MetricLabels<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct MetricVisitor;
        impl<'de> Visitor<'de> for MetricVisitor {
            type Value = MetricLabels<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("labels")
            }
            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<MetricLabels<'de>, A::Error> {
                let mut labels = Vec::new();
                while let Some((BorrowedText(name), BorrowedText(value))) = map.next_entry()? {
                    // An empty label is no label.
                    if !value.is_empty() {
                        labels.push((name, value));
                    }
                }
                Ok(MetricLabels(labels))
            }
        }
        from.deserialize_map(MetricVisitor)
    }
}

/// A moment in seconds and a value: `[1700000000.123, "42"]`.
struct JsonPoint((i64, f64));

impl<'de> Deserialize<'de> for JsonPoint {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let (at, BorrowedText(value)): (f64, BorrowedText<'de>) = Deserialize::deserialize(from)?;
        let value = match &*value {
            "NaN" => f64::NAN,
            "+Inf" => f64::INFINITY,
            "-Inf" => f64::NEG_INFINITY,
            number => number
                .parse()
                .map_err(|_| de::Error::custom(format_args!("`{number}` is no value")))?,
        };
        // Out of range is clamped: such a moment is only ever too far away.
        Ok(Self(((at * 1000.0).round() as i64, value)))
    }
}

/// A text, borrowed where it holds no escape.
struct BorrowedText<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for BorrowedText<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Cow<'de, str>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Cow::Borrowed(text))
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Cow::Owned(text.to_owned()))
            }
        }
        from.deserialize_str(TextVisitor).map(Self)
    }
}

/// The texts of an answer whose data is a list of them: names of labels, of metrics.
///
/// # Errors
/// The answer is an error, or not one of Prometheus.
pub fn words(body: &[u8]) -> Result<Vec<String>, BadAnswer> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Answer {
        status: String,
        #[serde(default)]
        data: Option<Vec<String>>,
        #[serde(default)]
        error_type: String,
        #[serde(default)]
        error: String,
    }
    let answer: Answer =
        serde_json::from_slice(body).map_err(|error| BadAnswer::Nonsense(error.to_string()))?;
    if answer.status == "success" {
        return Ok(answer.data.unwrap_or_default());
    }
    Err(BadAnswer::Refused(answer.error_type, answer.error))
}
