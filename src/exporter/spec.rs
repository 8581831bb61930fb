//! The TOML form of a dialect, as `config/exporters/*.toml` spells it.
//!
//! Every key is documented here; `dialect.rs` checks the values and compiles them.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{MapAccess, Visitor, value::MapAccessDeserializer};
use toml::Spanned;

pub(super) use super::faults::{FileFaults, nearest, parse};

/// A whole dialect file.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct DialectSpec {
    pub name: Spanned<String>,
    /// The exporter's own name.
    pub title: String,
    /// `nvidia`, `amd`, `google`, …; for people.
    #[serde(default)]
    pub vendor: String,
    /// Where the exporter is described, and what is strange about it.
    #[serde(default)]
    pub docs: String,
    /// How long the exporter keeps a value: never scrape faster.
    pub interval: Spanned<String>,
    /// How long a scrape may take.
    pub timeout: Option<Spanned<String>>,
    /// Which of two sources wins on one device: the higher.
    #[serde(default)]
    pub priority: i32,
    /// The source of the host's identity.
    #[serde(default)]
    pub host: HostSpec,
    /// Prefixes an operator may have put before every metric name.
    #[serde(default)]
    pub prefixes: Vec<String>,
    /// Take any prefix that ends in `_`.
    #[serde(default)]
    pub any_prefix: bool,
    /// How values of one signal at one place become one, where a mapping does not say.
    #[serde(default)]
    pub reduce: Reduce,
    pub detect: DetectSpec,
    #[serde(default)]
    pub discovery: DiscoverySpec,
    #[serde(default)]
    pub missing: MissingSpec,
    #[serde(default)]
    pub rows: RowsSpec,
    #[serde(default)]
    pub device: FieldsSpec,
    pub slice: Option<SliceSpec>,
    pub core: Option<CoreSpec>,
    pub serving: Option<ServingSpec>,
    #[serde(default)]
    pub pod: PodSpec,
    pub sizes: Option<SizesSpec>,
    #[serde(default)]
    pub join: Vec<JoinSpec>,
    pub map: Vec<MapSpec>,
    #[serde(default)]
    pub derive: Vec<DeriveSpec>,
}

#[derive(Deserialize, Debug, Default, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum HostSpec {
    /// The node of the scraped pod; labels are a hint.
    #[default]
    Target,
    Label,
    /// The host label is an instance id: the tail of a node's `spec.providerID`.
    ProviderId,
}

/// Proof that a page has this dialect.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct DetectSpec {
    /// Metric names, `*` for any text; one of them proves it.
    pub names: Spanned<Vec<String>>,
    /// Labels that one of those series must carry.
    #[serde(default, rename = "where")]
    pub filter: BTreeMap<String, Many>,
    /// Labels that one of those series must have, whatever their value.
    #[serde(default)]
    pub present: Vec<String>,
}

/// How a cluster source finds the exporter.
#[derive(Deserialize, Debug, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct DiscoverySpec {
    /// Pod labels, `key=value` joined by commas, `*` in a value for any text; any of them matches.
    #[serde(default)]
    pub selectors: Vec<Spanned<String>>,
    /// Namespaces to look in; empty is all.
    #[serde(default)]
    pub namespaces: Vec<String>,
    /// Ports in order of preference, used where the pod names none of `port_names`.
    #[serde(default)]
    pub ports: Vec<u16>,
    /// Names of container ports in order of preference.
    #[serde(default)]
    pub port_names: Vec<String>,
    /// Images of containers, `*` for any text; a pod that runs one of them serves the page. For servers that have
    /// no label of their own.
    #[serde(default)]
    pub images: Vec<String>,
    /// Path of the page.
    pub path: Option<String>,
    /// Protocol of the page: `http` or `https`.
    pub scheme: Option<Spanned<String>>,
}

/// Values that say "no value".
#[derive(Deserialize, Debug, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct MissingSpec {
    #[serde(default)]
    pub values: Vec<f64>,
    #[serde(default)]
    pub ranges: Vec<[f64; 2]>,
    /// This and everything above.
    pub above: Option<f64>,
    /// Texts of identity labels that mean "not known".
    #[serde(default)]
    pub texts: Vec<String>,
}

#[derive(Deserialize, Debug, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct RowsSpec {
    /// Only rows with these labels.
    #[serde(default)]
    pub only: BTreeMap<String, Many>,
    /// Rows with one of these labels are ignored: they are about something else.
    #[serde(default)]
    pub ignore_with: Vec<String>,
}

/// Labels that say which device a row is about; of each list the first that answers.
#[derive(Deserialize, Debug, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct FieldsSpec {
    /// The identity of a device within one page, where that label may have no real id (zeros, for example).
    #[serde(default)]
    pub key: Vec<Spanned<SourceSpec>>,
    #[serde(default)]
    pub host: Vec<Spanned<SourceSpec>>,
    #[serde(default)]
    pub index: Vec<Spanned<SourceSpec>>,
    #[serde(default)]
    pub uuid: Vec<Spanned<SourceSpec>>,
    #[serde(default)]
    pub serial: Vec<Spanned<SourceSpec>>,
    #[serde(default)]
    pub pci: Vec<Spanned<SourceSpec>>,
    #[serde(default)]
    pub model: Vec<Spanned<SourceSpec>>,
    #[serde(default)]
    pub driver: Vec<Spanned<SourceSpec>>,
}

/// Slices of a device: MIG instances, partitions.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct SliceSpec {
    /// The slice's number; a row without it is about the whole device.
    pub id: Vec<Spanned<SourceSpec>>,
    /// Its profile; the slice is then called `profile-id`.
    #[serde(default)]
    pub profile: Vec<Spanned<SourceSpec>>,
    /// Rows with these labels are about the whole device all the same.
    #[serde(default)]
    pub unless: BTreeMap<String, Many>,
    /// The identity of a slice's device, in order, where each slice has its own index: `serial`, `uuid`, `pci`, `index`.
    #[serde(default)]
    pub parent: Vec<DeviceKey>,
    /// The slice's part of the device, out of its profile.
    pub share: Option<ShareSpec>,
    /// The slice's memory, out of its profile.
    pub memory: Option<ProfileMemorySpec>,
}

/// What a device is known by.
#[derive(Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum DeviceKey {
    Uuid,
    Serial,
    Pci,
    Index,
}

/// `share = { regex }`: parts of those that MIG cuts a device of its model into.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct ShareSpec {
    /// Its first group is the number of parts that the slice has.
    pub regex: Spanned<String>,
}

/// `memory = { regex, scale }`.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct ProfileMemorySpec {
    /// Its first group is the amount.
    pub regex: Spanned<String>,
    pub scale: f64,
}

/// Cores of a device, where the exporter reports only cores.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct CoreSpec {
    /// The core's number on its host.
    pub index: Vec<Spanned<SourceSpec>>,
    /// Cores of a device, where no series has them.
    pub per_device: Option<u32>,
    /// Metric with a label for the number of cores of a device.
    pub per_device_from: Option<String>,
    pub per_device_label: Option<String>,
    /// Cores of a device by another label of the rows, where no metric has them.
    pub per_device_by: Option<CoresBySpec>,
}

/// `per_device_by = { label, of }`.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct CoresBySpec {
    pub label: String,
    /// Its values (`*` for any text), with the number of cores that a device has.
    pub of: BTreeMap<String, u32>,
}

/// A server of models, where values are about it rather than about a device.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct ServingSpec {
    /// The model of a row; rows of different models are separate.
    #[serde(default)]
    pub model: Vec<Spanned<SourceSpec>>,
}

/// Who holds the device.
#[derive(Deserialize, Debug, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct PodSpec {
    /// Sets of labels that belong together, in order of trust.
    #[serde(default)]
    pub labels: Vec<PodLabelsSpec>,
    /// Pod names that are the exporter itself (`*` for any text).
    #[serde(default)]
    pub own_pods: Vec<String>,
    /// Container names that are the exporter itself (`*` for any text).
    #[serde(default)]
    pub own_containers: Vec<String>,
    /// Labels that mark a row as one pod's copy of a shared device.
    #[serde(default)]
    pub copy: Vec<String>,
}

/// One set of pod labels.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct PodLabelsSpec {
    pub pod: String,
    pub namespace: String,
    pub container: Option<String>,
}

/// Choice of a unit by which a memory size is a known one.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct SizesSpec {
    /// Known sizes of devices and slices in GiB.
    pub known_gib: Spanned<Vec<f64>>,
    /// Bytes per unit; the first is the default without evidence.
    pub choices: Spanned<Vec<f64>>,
}

/// Identity out of an info metric.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct JoinSpec {
    /// Names of the info metric.
    pub from: Spanned<Vec<String>>,
    /// `device`: joined by the labels of the device. `page`: applies to every row.
    #[serde(default)]
    pub on: JoinOn,
    /// Labels of the info metric; a list left out is that of `[device]` (on = "device") or nothing (on = "page").
    #[serde(default)]
    pub labels: FieldsSpec,
}

#[derive(Deserialize, Debug, Default, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum JoinOn {
    #[default]
    Device,
    Page,
}

/// One mapping: metric names to a canonical signal. Mappings of one signal are tried in the order of the file,
/// names in the order of the list; the first that has a value at a place wins there.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct MapSpec {
    pub to: Spanned<String>,
    pub from: Spanned<Vec<String>>,
    /// For a `kind = "mean"` whose names are no histograms: the counts that divide each of the names.
    #[serde(default)]
    pub count: Vec<String>,
    /// The names are parts of one whole: they share a rank and are reduced together.
    #[serde(default)]
    pub together: bool,
    /// Canonical units per unit of the exporter, or `"by-size"`.
    pub scale: Option<Spanned<ScaleSpec>>,
    /// The kind of the value, whatever the type line is.
    pub kind: Option<Spanned<MetricType>>,
    /// What the value is about.
    #[serde(default)]
    pub scope: ScopeSpec,
    /// Only rows with these labels.
    #[serde(default, rename = "where")]
    pub filter: BTreeMap<String, Many>,
    /// Only rows without these labels.
    #[serde(default)]
    pub absent: Vec<String>,
    /// Only rows that have these labels.
    #[serde(default)]
    pub present: Vec<String>,
    /// Labels that `reduce` folds: of rows equal in all of them the last counts.
    #[serde(default)]
    pub over: Vec<String>,
    /// How several values become one.
    pub reduce: Option<Reduce>,
    /// How values of slices or cores become the device's.
    pub rollup: Option<Spanned<Rollup>>,
    /// Zero is no value.
    #[serde(default)]
    pub zero_is_unknown: bool,
    /// Raw values that mean a missing one, besides those of `[missing]`.
    #[serde(default)]
    pub missing: Vec<f64>,
    /// Raw values above this are no value.
    pub ceiling: Option<f64>,
    /// Ratios above 1 are 1 rather than a mistake.
    #[serde(default)]
    pub clamp: bool,
    /// Raw value to canonical value; others are no value.
    #[serde(default)]
    pub values: BTreeMap<String, f64>,
    /// The value is this label's, not the series'.
    pub value_label: Option<String>,
    /// The series' own value is a moment: of several rows the one with the highest counts. Requires `value_label`.
    #[serde(default)]
    pub newest: bool,
}

/// A number or `"by-size"`.
#[derive(Deserialize, Debug, Clone)]
#[serde(untagged)]
pub(super) enum ScaleSpec {
    Number(f64),
    Word(String),
}

#[derive(Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum MetricType {
    Gauge,
    /// A running total; of a signal that is a rate, the difference over time.
    Counter,
    /// A count within a window.
    Window,
    Rate,
    /// The mean of a histogram (its `_sum` over its `_count`), or of a total over `count`: of the observations since the
    /// previous page, and of all on the first page. Of a latency that services are judged by (`ttft_seconds`, `tpot_seconds`,
    /// `itl_seconds`) the buckets are read too.
    Mean,
}

#[derive(Deserialize, Debug, Default, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ScopeSpec {
    /// The device, on every row with its labels: rows of slices repeat it.
    #[default]
    Device,
    /// The device, on rows that name no slice.
    Whole,
    /// The slice that the row names, or the device where it names none.
    Slice,
    Core,
    Node,
    /// One pod's use of a device.
    Pod,
    /// Every device of the page.
    Each,
    /// The server of models that the page is of; needs `[serving]`.
    Serving,
}

#[derive(Deserialize, Debug, Default, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Reduce {
    #[default]
    Last,
    Max,
    Min,
    Sum,
    Mean,
}

#[derive(Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Rollup {
    Sum,
    Mean,
    Max,
    /// Sum weighted by each slice's part of the device.
    Share,
}

/// A signal out of others, where no mapping gave it. Exactly one of `sum`, `minus`, `ratio`.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct DeriveSpec {
    pub to: Spanned<String>,
    /// All of these added.
    #[serde(default)]
    pub sum: Vec<Spanned<String>>,
    /// The first less the others.
    #[serde(default)]
    pub minus: Vec<Spanned<String>>,
    /// One signal over the sum of others.
    pub ratio: Option<RatioSpec>,
}

/// `ratio = { of, to, at_least }`.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct RatioSpec {
    pub of: Spanned<String>,
    pub to: Vec<Spanned<String>>,
    /// No answer when the divisor is below this.
    #[serde(default)]
    pub at_least: f64,
}

/// One text or several.
#[derive(Deserialize, Debug, Clone)]
#[serde(untagged)]
pub(super) enum Many {
    One(String),
    Several(Vec<String>),
}

impl Many {
    pub fn to_vec(&self) -> Vec<String> {
        match self {
            Self::One(one) => vec![one.clone()],
            Self::Several(all) => all.clone(),
        }
    }
}

/// A label, with what is done to its value: a plain text is the label's name.
#[derive(Debug, Clone, Default)]
pub(super) struct SourceSpec {
    pub label: String,
    pub regex: Option<String>,
    pub strip: Option<String>,
    pub prefix: Option<String>,
    pub lower: bool,
    pub add: Option<i64>,
    pub filter: BTreeMap<String, Many>,
}

/// The long form of [`SourceSpec`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LongSource {
    label: String,
    /// The first group (or the whole match) is the value; no match is no value.
    regex: Option<String>,
    /// A prefix to remove, where present.
    strip: Option<String>,
    /// A prefix to add, where missing.
    prefix: Option<String>,
    /// Turns the value into lower case.
    #[serde(default)]
    lower: bool,
    /// Added to the number that it then is; what is no number is no value.
    add: Option<i64>,
    /// Only on rows with these labels.
    #[serde(default, rename = "where")]
    filter: BTreeMap<String, Many>,
}

impl<'de> Deserialize<'de> for SourceSpec {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = SourceSpec;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a label's name, or { label, regex, strip, prefix, lower, add, where }")
            }
            fn visit_str<E>(self, label: &str) -> Result<SourceSpec, E> {
                Ok(SourceSpec {
                    label: label.to_owned(),
                    ..SourceSpec::default()
                })
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<SourceSpec, A::Error> {
                let long = LongSource::deserialize(MapAccessDeserializer::new(map))?;
                Ok(SourceSpec {
                    label: long.label,
                    regex: long.regex,
                    strip: long.strip,
                    prefix: long.prefix,
                    lower: long.lower,
                    add: long.add,
                    filter: long.filter,
                })
            }
        }
        from.deserialize_any(Either)
    }
}
