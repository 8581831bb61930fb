//! From a dialect's TOML form to its compiled one; every mistake is found, with its line.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use regex_lite::Regex;
use rustc_hash::FxHashMap;
use toml::Spanned;

use model::base::{Name, time::parse_span};
use model::fleet::signal::{Signal, SignalType};

use super::dialect::{
    CoreRule, Derive, Dialect, Discovery, HostRule, How, Join, MetricUse, MissingValues, PodRule,
    SamplePart, SignalMapping, Sizes, SliceRule, UnitScale,
};
use super::labels::{DeviceLabels, LabelFilter, LabelSource, LabelSources};
use super::spec::{
    self, DeriveSpec, DialectSpec, FieldsSpec, FileFaults, HostSpec, JoinOn, Many, MapSpec,
    MetricType, Rollup, ScaleSpec, ScopeSpec, SliceSpec, SourceSpec,
};

/// Reads and checks one file; `None` when anything is wrong, which is then in `faults`.
pub(super) fn compile(faults: &mut FileFaults<'_>) -> Option<Dialect> {
    let spec = spec::parse(faults)?;
    let before = faults.found.len();
    let dialect = dialect(spec, faults);
    (faults.found.len() == before).then_some(dialect)
}

fn dialect(spec: DialectSpec, faults: &mut FileFaults<'_>) -> Dialect {
    let name = spec.name.get_ref();
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty() || !name.chars().all(plain) {
        faults.at(
            spec.name.span(),
            "a dialect's name is made of lower-case letters, digits and hyphens",
        );
    }
    if spec.detect.names.get_ref().is_empty() {
        faults.at(
            spec.detect.names.span(),
            "no metric name proves this dialect; give at least one",
        );
    }
    let interval = span(&spec.interval, faults);
    let timeout = spec
        .timeout
        .as_ref()
        .map_or(Duration::from_secs(10), |text| span(text, faults));
    let (maps, mut families) = maps(&spec, faults);
    let mut joins = Vec::new();
    for join in &spec.join {
        let mut labels = fields(&join.labels, faults);
        if join.on == JoinOn::Device {
            labels = or_else(labels, &fields(&spec.device, faults));
        }
        if join.from.get_ref().is_empty() {
            faults.at(join.from.span(), "no metric name to join on");
        }
        for name in join.from.get_ref() {
            families
                .entry(name.clone())
                .or_default()
                .push(MetricUse::Join(number(joins.len())));
        }
        joins.push(Join {
            page: join.on == JoinOn::Page,
            fields: labels,
        });
    }
    let core = spec.core.as_ref().map(|core| {
        if let Some(name) = &core.per_device_from {
            families
                .entry(name.clone())
                .or_default()
                .push(MetricUse::Cores);
        }
        CoreRule {
            index: field(&core.index, faults),
            per_device: core.per_device.filter(|count| *count > 0),
            per_device_label: core.per_device_label.clone(),
            per_device_by: core.per_device_by.as_ref().map(|by| {
                let of = by.of.iter().filter(|(_, count)| **count > 0);
                (
                    by.label.clone(),
                    of.map(|(value, count)| (value.clone(), *count)).collect(),
                )
            }),
        }
    });
    let sizes = spec.sizes.as_ref().map(|sizes| {
        for list in [&sizes.known_gib, &sizes.choices] {
            if list.get_ref().is_empty() || !list.get_ref().iter().all(|size| *size > 0.0) {
                faults.at(list.span(), "sizes are numbers above zero, at least one");
            }
        }
        Sizes {
            known: sizes
                .known_gib
                .get_ref()
                .iter()
                .map(|gib| gib * 1_073_741_824.0)
                .collect(),
            choices: sizes.choices.get_ref().clone(),
        }
    });
    Dialect {
        name: Name::new(name),
        title: spec.title.clone(),
        vendor: spec.vendor.clone(),
        docs: spec.docs.trim().to_owned(),
        file: faults.file.to_owned(),
        interval,
        timeout,
        priority: spec.priority,
        host: match spec.host {
            HostSpec::Target => HostRule::Target,
            HostSpec::Label => HostRule::Label,
            HostSpec::ProviderId => HostRule::ProviderId,
        },
        discovery: discovery(&spec.discovery, faults),
        prefixes: spec.prefixes.clone(),
        any_prefix: spec.any_prefix,
        signature: spec.detect.names.get_ref().clone(),
        signature_filter: filter(&spec.detect.filter, &[], &spec.detect.present),
        missing: MissingValues {
            values: spec.missing.values.clone(),
            ranges: spec.missing.ranges.clone(),
            above: spec.missing.above,
            texts: spec.missing.texts.clone(),
        },
        only: filter(&spec.rows.only, &[], &[]),
        ignore_with: spec.rows.ignore_with.clone(),
        fields: fields(&spec.device, faults),
        slice: spec.slice.as_ref().map(|slice| slice_rule(slice, faults)),
        core,
        served: spec
            .serving
            .as_ref()
            .map(|serving| field(&serving.model, faults)),
        derives: spec
            .derive
            .iter()
            .filter_map(|derive| self::derive(derive, faults))
            .collect(),
        pod: PodRule {
            labels: spec.pod.labels,
            own_pods: spec.pod.own_pods,
            own_containers: spec.pod.own_containers,
            copy: spec.pod.copy,
        },
        sizes,
        joins,
        maps,
        families,
    }
}

fn maps(
    spec: &DialectSpec,
    faults: &mut FileFaults<'_>,
) -> (Vec<SignalMapping>, FxHashMap<String, Vec<MetricUse>>) {
    let mut maps = Vec::new();
    let mut families: FxHashMap<String, Vec<MetricUse>> = FxHashMap::default();
    let mut ranks: FxHashMap<Signal, u16> = FxHashMap::default();
    for map in &spec.map {
        let Some(signal) = signal(&map.to, faults) else {
            continue;
        };
        if map.from.get_ref().is_empty() {
            faults.at(
                map.from.span(),
                format!("no metric name gives {}", signal.name()),
            );
        }
        for name in map.from.get_ref() {
            let rank = ranks.entry(signal).or_default();
            for (name, part) in parts(map, signal, name) {
                families.entry(name).or_default().push(MetricUse::Map {
                    map: number(maps.len()),
                    rank: *rank,
                    part,
                });
            }
            if !map.together {
                *rank = rank.saturating_add(1);
            }
        }
        if map.together {
            let rank = ranks.entry(signal).or_default();
            *rank = rank.saturating_add(1);
        }
        maps.push(one_map(map, signal, spec, faults));
    }
    if maps.is_empty() && faults.found.is_empty() {
        faults.whole("nothing is mapped");
    }
    (maps, families)
}

/// The metric names behind one name of a mapping, each with what it is of the signal.
fn parts(map: &MapSpec, signal: Signal, name: &str) -> Vec<(String, SamplePart)> {
    if !is_mean(map) {
        return vec![(name.to_owned(), SamplePart::Value)];
    }
    let at = map.from.get_ref().iter().position(|from| from == name);
    match at.and_then(|at| map.count.get(at)) {
        Some(count) => vec![
            (name.to_owned(), SamplePart::Sum),
            (count.clone(), SamplePart::Count),
        ],
        None => {
            let mut parts = vec![
                (format!("{name}_sum"), SamplePart::Sum),
                (format!("{name}_count"), SamplePart::Count),
            ];
            if matches!(signal, Signal::Ttft | Signal::Itl | Signal::Tpot) {
                parts.push((format!("{name}_bucket"), SamplePart::Bucket));
            }
            parts
        }
    }
}

fn is_mean(map: &MapSpec) -> bool {
    map.kind
        .as_ref()
        .is_some_and(|kind| *kind.get_ref() == MetricType::Mean)
}

fn one_map(
    map: &MapSpec,
    signal: Signal,
    spec: &DialectSpec,
    faults: &mut FileFaults<'_>,
) -> SignalMapping {
    let scale = match map
        .scale
        .as_ref()
        .map(|scale| (scale.get_ref(), scale.span()))
    {
        None => UnitScale::of(1.0),
        Some((ScaleSpec::Number(by), at)) => {
            if !by.is_finite() || *by == 0.0 {
                faults.at(at, "a scale is a number other than zero");
            }
            UnitScale::of(*by)
        }
        Some((ScaleSpec::Word(word), at)) => {
            if word != "by-size" {
                faults.at(at, format!("scale = \"{word}\": a number or \"by-size\""));
            } else if spec.sizes.is_none() {
                faults.at(at, "\"by-size\" needs a [sizes] table");
            }
            UnitScale::BySize
        }
    };
    let kind = map.kind.as_ref().map(|kind| *kind.get_ref());
    if let Some(at) = map.kind.as_ref().map(Spanned::span)
        && signal.kind() == SignalType::Counter
        && kind != Some(MetricType::Counter)
    {
        faults.at(
            at,
            format!(
                "{} is a running total: its kind is \"counter\"",
                signal.name()
            ),
        );
    }
    let rolled = map.rollup.as_ref().map(|rollup| *rollup.get_ref());
    if let Some(rollup) = &map.rollup {
        let share = spec
            .slice
            .as_ref()
            .is_some_and(|slice| slice.share.is_some());
        if !matches!(map.scope, ScopeSpec::Slice | ScopeSpec::Core) {
            faults.at(rollup.span(), "only scope \"slice\" or \"core\" rolls up");
        } else if rolled == Some(Rollup::Share) && (map.scope != ScopeSpec::Slice || !share) {
            faults.at(
                rollup.span(),
                "\"share\" needs scope \"slice\" and slice.share",
            );
        }
    }
    if (map.scope == ScopeSpec::Slice && spec.slice.is_none())
        || (map.scope == ScopeSpec::Core && spec.core.is_none())
        || (map.scope == ScopeSpec::Serving && spec.serving.is_none())
    {
        faults.at(
            map.to.span(),
            "the scope needs a [slice], [core] or [serving] table",
        );
    }
    if !map.count.is_empty() && (!is_mean(map) || map.count.len() != map.from.get_ref().len()) {
        faults.at(
            map.from.span(),
            "count goes with kind = \"mean\", one count for each name",
        );
    }
    if map.newest && map.value_label.is_none() {
        faults.at(map.to.span(), "newest goes with value_label");
    }
    let values = map
        .values
        .iter()
        .filter_map(|(raw, value)| match raw.parse() {
            Ok(raw) => Some((raw, *value)),
            Err(_) => {
                faults.at(map.to.span(), format!("values: \"{raw}\" is not a number"));
                None
            }
        })
        .collect();
    SignalMapping {
        signal,
        scale,
        total: signal.kind() == SignalType::Gauge && kind == Some(MetricType::Counter),
        scope: map.scope,
        filter: filter(&map.filter, &map.absent, &map.present),
        over: map.over.clone(),
        reduce: map.reduce.unwrap_or(spec.reduce),
        rollup: rolled.or((map.scope == ScopeSpec::Core).then_some(Rollup::Mean)),
        zero_is_unknown: map.zero_is_unknown,
        missing: map.missing.clone(),
        ceiling: map.ceiling,
        clamp: map.clamp,
        values,
        value_label: map.value_label.clone(),
        newest: map.newest,
        mean: is_mean(map),
    }
}

fn slice_rule(slice: &SliceSpec, faults: &mut FileFaults<'_>) -> SliceRule {
    SliceRule {
        id: field(&slice.id, faults),
        profile: field(&slice.profile, faults),
        // Any one of the labels is enough.
        unless: slice
            .unless
            .iter()
            .map(|(name, values)| LabelFilter {
                equal: vec![(name.clone(), values.to_vec())],
                ..LabelFilter::default()
            })
            .collect(),
        parent: slice.parent.clone(),
        share: slice
            .share
            .as_ref()
            .and_then(|share| regex(share.regex.get_ref(), share.regex.span(), faults)),
        memory: slice.memory.as_ref().and_then(|memory| {
            Some((
                regex(memory.regex.get_ref(), memory.regex.span(), faults)?,
                memory.scale,
            ))
        }),
    }
}

fn derive(derive: &DeriveSpec, faults: &mut FileFaults<'_>) -> Option<Derive> {
    let to = signal(&derive.to, faults)?;
    let given = [
        !derive.sum.is_empty(),
        !derive.minus.is_empty(),
        derive.ratio.is_some(),
    ];
    if given.iter().filter(|given| **given).count() != 1 {
        faults.at(
            derive.to.span(),
            "a derivation has exactly one of sum, minus and ratio",
        );
        return None;
    }
    let mut all = |names: &[Spanned<String>]| -> Option<Vec<Signal>> {
        names.iter().map(|name| signal(name, faults)).collect()
    };
    let how = match &derive.ratio {
        Some(ratio) => How::Ratio {
            of: *all(std::slice::from_ref(&ratio.of))?.first()?,
            to: all(&ratio.to)?,
            at_least: ratio.at_least,
        },
        None if derive.minus.is_empty() => How::Sum(all(&derive.sum)?),
        None => How::Minus(all(&derive.minus)?),
    };
    Some(Derive { to, how })
}

fn discovery(spec: &spec::DiscoverySpec, faults: &mut FileFaults<'_>) -> Discovery {
    let mut selectors = Vec::new();
    for selector in &spec.selectors {
        let pairs: Option<Vec<_>> = selector
            .get_ref()
            .split(',')
            .map(|pair| {
                let (key, value) = pair.trim().split_once('=')?;
                (!key.is_empty() && !value.is_empty()).then(|| (key.to_owned(), value.to_owned()))
            })
            .collect();
        match pairs {
            Some(pairs) => selectors.push(pairs),
            None => faults.at(
                selector.span(),
                format!(
                    "\"{}\" is not of the form key=value,key=value",
                    selector.get_ref()
                ),
            ),
        }
    }
    let scheme = spec.scheme.as_ref().map_or("http", |scheme| {
        if !matches!(scheme.get_ref().as_str(), "http" | "https") {
            faults.at(scheme.span(), "the scheme is \"http\" or \"https\"");
        }
        scheme.get_ref()
    });
    let path = spec.path.as_deref().unwrap_or("/metrics");
    Discovery {
        selectors,
        namespaces: spec.namespaces.clone(),
        port_names: spec.port_names.clone(),
        ports: spec.ports.clone(),
        images: spec.images.clone(),
        path: if path.starts_with('/') {
            path.to_owned()
        } else {
            format!("/{path}")
        },
        scheme: scheme.to_owned(),
    }
}

fn fields(spec: &FieldsSpec, faults: &mut FileFaults<'_>) -> DeviceLabels {
    DeviceLabels {
        key: field(&spec.key, faults),
        host: field(&spec.host, faults),
        index: field(&spec.index, faults),
        uuid: field(&spec.uuid, faults),
        serial: field(&spec.serial, faults),
        pci: field(&spec.pci, faults),
        model: field(&spec.model, faults),
        driver: field(&spec.driver, faults),
    }
}

/// `first`, with the lists of `second` where it has none.
fn or_else(first: DeviceLabels, second: &DeviceLabels) -> DeviceLabels {
    let pick = |a: LabelSources, b: &LabelSources| if a.0.is_empty() { b.clone() } else { a };
    DeviceLabels {
        key: pick(first.key, &second.key),
        host: pick(first.host, &second.host),
        index: pick(first.index, &second.index),
        uuid: pick(first.uuid, &second.uuid),
        serial: pick(first.serial, &second.serial),
        pci: pick(first.pci, &second.pci),
        model: pick(first.model, &second.model),
        driver: pick(first.driver, &second.driver),
    }
}

fn field(sources: &[Spanned<SourceSpec>], faults: &mut FileFaults<'_>) -> LabelSources {
    let compiled = sources.iter().map(|source| {
        let at = source.span();
        let source = source.get_ref();
        LabelSource {
            label: source.label.clone(),
            moved: format!("exported_{}", source.label),
            regex: source
                .regex
                .as_ref()
                .and_then(|text| regex(text, at, faults)),
            strip: source.strip.clone(),
            prefix: source.prefix.clone(),
            lower: source.lower,
            add: source.add,
            filter: filter(&source.filter, &[], &[]),
        }
    });
    LabelSources(compiled.collect())
}

fn filter(equal: &BTreeMap<String, Many>, absent: &[String], present: &[String]) -> LabelFilter {
    LabelFilter {
        equal: equal
            .iter()
            .map(|(name, values)| (name.clone(), values.to_vec()))
            .collect(),
        absent: absent.to_vec(),
        present: present.to_vec(),
    }
}

fn regex(text: &str, at: Range<usize>, faults: &mut FileFaults<'_>) -> Option<Regex> {
    match Regex::new(text) {
        Ok(regex) => Some(regex),
        Err(error) => {
            faults.at(
                at,
                format!("\"{text}\" is not a regular expression: {error}"),
            );
            None
        }
    }
}

fn span(text: &Spanned<String>, faults: &mut FileFaults<'_>) -> Duration {
    parse_span(text.get_ref())
        .filter(|span| !span.is_zero())
        .unwrap_or_else(|| {
            faults.at(
                text.span(),
                format!("\"{}\" is not a duration such as 30s", text.get_ref()),
            );
            Duration::from_secs(30)
        })
}

fn signal(name: &Spanned<String>, faults: &mut FileFaults<'_>) -> Option<Signal> {
    let found = Signal::from_name(name.get_ref());
    if found.is_none() {
        let known = Signal::ALL.iter().map(|signal| signal.name());
        let hint = spec::nearest(name.get_ref(), known)
            .map(|near| format!("; did you mean \"{near}\"?"))
            .unwrap_or_default();
        faults.at(
            name.span(),
            format!("no signal has the name \"{}\"{hint}", name.get_ref()),
        );
    }
    found
}

/// A table's length as an index; no file has more entries than this holds.
fn number(count: usize) -> u16 {
    u16::try_from(count).unwrap_or(u16::MAX)
}
