//! Maps an exporter page to readings: each series to its device, pod and signal.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::hash::{Hash, Hasher};

use rustc_hash::FxHashMap;

use model::base::name::printable;
use model::base::{Moment, Name, Names, ObjectKey};
use model::fleet::signal::Signal;
use model::fleet::skipped_series::{SkipReason, SkippedSeries};

use super::buckets::histogram_id;
use super::contribution::{Contribution, NONE};
use super::device_rows::{PageRows, RowPosition};
use super::dialect::{Dialect, Dialects, MetricUse, SamplePart, SignalMapping, UnitScale};
use super::exposition::{Limits, Nature, Scan, Series, scan};
use super::fold;
use super::labels::label;
use super::page::{PageReport, ParsedPage};
use super::spec::ScopeSpec;

/// The scrape target of a page.
#[derive(Clone, Debug, Default)]
pub struct PageSource<'a> {
    /// The exporter's own pod: a row that names it does not name the pod of a device.
    pub pod: Option<ObjectKey>,
    /// The node that pod runs on.
    pub node: Option<Name>,
    /// The dialect, where known; otherwise it is detected.
    pub dialect: Option<&'a str>,
}

/// Reads a page. Never fails: errors are in the report.
pub fn read(
    dialects: &Dialects,
    page: &[u8],
    target: &PageSource<'_>,
    names: &mut Names,
) -> ParsedPage {
    let mut report = PageReport::default();
    let wanted = match target.dialect.map(|name| dialects.named(name)) {
        Some(Err(message)) => {
            report.messages.push(message);
            return ParsedPage {
                report,
                ..ParsedPage::default()
            };
        }
        Some(Ok(dialect)) => Some(&*dialect.name),
        None => None,
    };
    let Some((dialect, prefix)) = dialects.detect_with_prefix(page, wanted) else {
        let met = scan(page, Limits::default(), |_| {});
        report.series_skipped = met.series;
        describe(&met, &mut report);
        if met.series > 0 {
            report.messages.push(format!(
                "no dialect knows these metrics ({} series); name one, or add one under exporters/",
                met.series
            ));
        }
        return ParsedPage {
            report,
            ..ParsedPage::default()
        };
    };
    report.dialect = Some(dialect.name.clone());
    let mut reader = PageReader::new(dialect, prefix, target, names);
    let met = scan(page, Limits::default(), |series| reader.take(series));
    reader.report(&mut report);
    describe(&met, &mut report);
    fold::fold(reader.dialect, reader.rows, reader.contributions, report)
}

/// Passes each series to a callback.
pub(super) type Show<'s, 'a> = dyn FnMut(&mut dyn FnMut(&Series<'a, '_>)) + 's;

/// Reads series of a known `dialect`, with `prefix` prepended to their names.
pub(super) fn read_rows<'a>(
    dialect: &Dialect,
    prefix: &'a str,
    target: &PageSource<'_>,
    names: &mut Names,
    show: &mut Show<'_, 'a>,
) -> ParsedPage {
    let mut report = PageReport {
        dialect: Some(dialect.name.clone()),
        ..PageReport::default()
    };
    let mut reader = PageReader::new(dialect, prefix, target, names);
    show(&mut |series| reader.take(series));
    reader.report(&mut report);
    fold::fold(dialect, reader.rows, reader.contributions, report)
}

/// Adds the scan's findings to the report.
fn describe(met: &Scan, report: &mut PageReport) {
    report.bad_lines = met.bad;
    report.starting = met.nature == Nature::Empty;
    let explanation = match met.nature {
        Nature::Metrics => None,
        Nature::Empty => Some("nothing measured yet: the exporter is starting"),
        Nature::Html => Some("this is HTML, not metrics; check port and path"),
        Nature::Json => Some("this is JSON, not metrics; check the path"),
        Nature::Gzip => Some("this is a gzip stream that was not unpacked"),
        Nature::Binary => Some("this is not text; check port and path"),
    };
    report.messages.extend(explanation.map(String::from));
    if met.bad > 0 && matches!(met.nature, Nature::Metrics) {
        let mut text = format!("{} bad {}:", met.bad, plural(met.bad, "line", "lines"));
        for (at, bad) in met.first_bad.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            let _ = write!(text, "{comma} line {}: {}", bad.line, bad.fault.text());
        }
        if met.bad > met.first_bad.len() {
            text.push_str(", …");
        }
        report.messages.push(text);
    }
    if met.left_out > 0 {
        report.messages.push(format!(
            "the page is too long: its last {} bytes were not read",
            met.left_out
        ));
    }
    if met.not_utf8 > 0 {
        report.messages.push(format!(
            "{} names or label values are not UTF-8",
            met.not_utf8
        ));
    }
    if met.open_end && met.series + met.bad > 0 {
        report
            .messages
            .push("the last line has no line end: the page may be cut".into());
    }
}

fn plural<'a>(count: usize, one: &'a str, many: &'a str) -> &'a str {
    if count == 1 { one } else { many }
}

/// Labels and values, sorted.
type LabelSet<'a> = Vec<(Cow<'a, str>, Cow<'a, str>)>;

/// State while a page is read.
struct PageReader<'d, 'a, 'n> {
    dialect: &'d Dialect,
    prefix: &'a str,
    rows: PageRows<'d, 'n>,
    /// Parsed identity of each label block of the page.
    spots: Vec<Option<RowPosition>>,
    /// Distinct label sets, regardless of order.
    sets: FxHashMap<LabelSet<'a>, u32>,
    /// The label set of each label block of the page.
    blocks: Vec<Option<u32>>,
    families: FxHashMap<Cow<'a, str>, u32>,
    /// Skipped series of each family, by reason.
    skips: Vec<[u32; SkipReason::ALL.len()]>,
    /// The family of the previous series: most are in the same.
    last: (Cow<'a, str>, u32, Option<&'d [MetricUse]>),
    /// Series seen: family and label set, with the position of their contributions.
    seen: FxHashMap<(u32, u32), (usize, usize)>,
    contributions: Vec<Contribution>,
    used: usize,
    skipped: usize,
    no_device: usize,
    missing: usize,
    duplicates: usize,
    first_duplicate: Option<(usize, String)>,
    newest: Option<i64>,
    unbelievable: Vec<(Signal, f64, usize)>,
}

impl<'d, 'a, 'n> PageReader<'d, 'a, 'n> {
    fn new(
        dialect: &'d Dialect,
        prefix: &'a str,
        target: &PageSource<'_>,
        names: &'n mut Names,
    ) -> Self {
        Self {
            dialect,
            prefix,
            rows: PageRows::new(dialect, target.pod.clone(), names),
            spots: Vec::new(),
            sets: FxHashMap::default(),
            blocks: Vec::new(),
            families: FxHashMap::default(),
            skips: Vec::new(),
            last: (Cow::Borrowed(""), NONE, None),
            seen: FxHashMap::default(),
            contributions: Vec::new(),
            used: 0,
            skipped: 0,
            no_device: 0,
            missing: 0,
            duplicates: 0,
            first_duplicate: None,
            newest: None,
            unbelievable: Vec::new(),
        }
    }

    fn take(&mut self, series: &Series<'a, '_>) {
        if self.last.0 != series.name {
            let uses = self.dialect.family(self.prefix, &series.name);
            let next = count(self.families.len());
            let number = *self.families.entry(series.name.clone()).or_insert(next);
            self.skips.resize(self.families.len(), Default::default());
            self.last = (series.name.clone(), number, uses);
        }
        let (_, family, Some(uses)) = self.last else {
            return self.skip(SkipReason::NoMapping);
        };
        self.newest = self.newest.max(series.timestamp);
        if !self.dialect.only.passes(series.labels) {
            return self.skip(SkipReason::Filtered);
        }
        let set = self.set_number(series);
        let key = (family, set);
        self.unless_seen(key, series);
        let from = self.contributions.len();
        let (mut used, mut without_device) = (false, false);
        for using in uses {
            match *using {
                MetricUse::Join(join) => {
                    used |= self.rows.join(usize::from(join), series.labels);
                }
                MetricUse::Cores => used |= self.rows.cores(series.labels),
                MetricUse::Map { map, rank, part } => {
                    let rule = &self.dialect.maps[usize::from(map)];
                    if !rule.filter.passes(series.labels) {
                        continue;
                    }
                    let spot = self.spot(series);
                    match self.place(rule, spot, series) {
                        Placed::At { place, pod, core } => {
                            used = true;
                            let Some(value) = self.value(rule, part, series) else {
                                self.missing += 1;
                                continue;
                            };
                            let item = match part {
                                SamplePart::Bucket => histogram_id(series),
                                _ => item(rule, series, key),
                            };
                            self.contributions.push(Contribution {
                                place,
                                map,
                                rank,
                                pod,
                                core,
                                item,
                                value,
                                part,
                                moment: match part {
                                    SamplePart::Bucket => bound(rule, series),
                                    _ if rule.newest => series.value,
                                    _ => 0.0,
                                },
                            });
                        }
                        Placed::Elsewhere => {}
                        Placed::Nowhere => without_device = true,
                    }
                }
            }
        }
        if used {
            self.used += 1;
        } else if without_device {
            self.skip(SkipReason::NoDevice);
            self.no_device += 1;
        } else {
            self.skip(SkipReason::Filtered);
        }
        let added = self.contributions.len() - from;
        self.seen.insert(key, (from, added));
    }

    /// Counts a series of the last family as skipped.
    fn skip(&mut self, reason: SkipReason) {
        self.skipped += 1;
        if let Some(skips) = self.skips.get_mut(self.last.1 as usize) {
            skips[reason as usize] += 1;
        }
    }

    /// The metrics that were skipped, those with the most series first.
    fn skipped(&mut self) -> Vec<SkippedSeries> {
        let (skips, names) = (&self.skips, &mut *self.rows.names);
        let counts = self.families.iter().flat_map(|(name, number)| {
            let all = SkipReason::ALL.into_iter().zip(skips[*number as usize]);
            let met = all.filter(|(_, series)| *series > 0);
            met.map(move |(reason, series)| (name, reason, series))
        });
        SkippedSeries::most(counts, |name| names.intern(&printable(name)))
    }

    /// Removes the contribution of an earlier line with the same name and labels: the last one counts.
    fn unless_seen(&mut self, key: (u32, u32), series: &Series<'a, '_>) {
        let Some((from, count)) = self.seen.get(&key).copied() else {
            return;
        };
        for old in &mut self.contributions[from..from + count] {
            old.value = f64::NAN;
        }
        self.duplicates += 1;
        if self.first_duplicate.is_none() {
            self.first_duplicate = Some((series.line, series.name.clone().into_owned()));
        }
    }

    fn spot(&mut self, series: &Series<'a, '_>) -> RowPosition {
        let kept = series.block.map(|block| block as usize);
        if let Some(Some(spot)) = kept.and_then(|at| self.spots.get(at)) {
            return *spot;
        }
        let spot = self.rows.spot(series.labels);
        if let Some(at) = kept {
            if self.spots.len() <= at {
                self.spots.resize(at + 1, None);
            }
            self.spots[at] = Some(spot);
        }
        spot
    }

    fn set_number(&mut self, series: &Series<'a, '_>) -> u32 {
        let kept = series.block.map(|block| block as usize);
        if let Some(Some(known)) = kept.and_then(|at| self.blocks.get(at)) {
            return *known;
        }
        let mut labels: LabelSet<'a> = series
            .labels
            .iter()
            .filter(|label| !label.value.is_empty())
            .map(|label| (label.name.clone(), label.value.clone()))
            .collect();
        labels.sort_unstable();
        let next = count(self.sets.len());
        let number = *self.sets.entry(labels).or_insert(next);
        if let Some(at) = kept {
            if self.blocks.len() <= at {
                self.blocks.resize(at + 1, None);
            }
            self.blocks[at] = Some(number);
        }
        number
    }

    /// The target of a value of `rule` on a row at `spot`.
    fn place(
        &mut self,
        rule: &SignalMapping,
        spot: RowPosition,
        series: &Series<'a, '_>,
    ) -> Placed {
        if spot.ignored {
            return Placed::Elsewhere;
        }
        let at = |place, pod| Placed::At {
            place,
            pod,
            core: NONE,
        };
        match rule.scope {
            ScopeSpec::Serving => at(self.rows.serving_place(series.labels), NONE),
            ScopeSpec::Node => at(self.rows.node_place(spot.host), NONE),
            ScopeSpec::Each => at(self.rows.each_place(spot.host), NONE),
            ScopeSpec::Core => match self.rows.core(series.labels) {
                Some(core) => Placed::At {
                    place: if spot.device == NONE {
                        self.rows.core_place(spot.host)
                    } else {
                        spot.device_place
                    },
                    pod: spot.pod,
                    core,
                },
                None => Placed::Nowhere,
            },
            _ if spot.device == NONE => Placed::Nowhere,
            ScopeSpec::Slice => {
                self.rows.set_holder(spot.place, spot.pod);
                at(spot.place, spot.pod)
            }
            ScopeSpec::Pod if spot.pod == NONE => Placed::Elsewhere,
            ScopeSpec::Pod => {
                self.rows.copy(spot.place, spot.pod);
                at(spot.place, spot.pod)
            }
            ScopeSpec::Whole if spot.place != spot.device_place => Placed::Elsewhere,
            ScopeSpec::Whole | ScopeSpec::Device => {
                self.rows.set_holder(spot.place, spot.pod);
                // A device value on a slice's row does not identify the device's pod.
                let lifted = spot.place != spot.device_place;
                at(spot.device_place, if lifted { NONE } else { spot.pod })
            }
        }
    }

    /// The canonical value of a series; `None` for a sentinel.
    fn value(
        &mut self,
        rule: &SignalMapping,
        part: SamplePart,
        series: &Series<'_, '_>,
    ) -> Option<f64> {
        let raw = match &rule.value_label {
            Some(name) => label(series.labels, name)?.trim().parse().ok()?,
            None => series.value,
        };
        if part == SamplePart::Bucket {
            // Kept: without a bucket it would be a different histogram.
            return Some(if raw.is_finite() { raw } else { -1.0 });
        }
        if part == SamplePart::Count {
            return (raw.is_finite() && raw >= 0.0).then_some(raw);
        }
        if !raw.is_finite()
            || self.dialect.missing.has(raw)
            || rule.missing.contains(&raw)
            || rule.ceiling.is_some_and(|ceiling| raw > ceiling)
            || (rule.zero_is_unknown && raw == 0.0)
        {
            return None;
        }
        let raw = if rule.values.is_empty() {
            raw
        } else {
            rule.values.iter().find(|(from, _)| *from == raw)?.1
        };
        let value = match rule.scale {
            UnitScale::By(times, over) => raw * times / over,
            UnitScale::BySize => raw,
        };
        let believed = believe(rule, value);
        if believed.is_none() {
            match self
                .unbelievable
                .iter_mut()
                .find(|(signal, ..)| *signal == rule.signal)
            {
                Some((.., times)) => *times += 1,
                None => self.unbelievable.push((rule.signal, value, 1)),
            }
        }
        believed
    }

    fn report(&mut self, report: &mut PageReport) {
        report.series_used = self.used;
        report.series_skipped = self.skipped;
        report.skipped = self.skipped();
        report.no_device = self.no_device;
        report.missing_values = self.missing;
        report.duplicates = self.duplicates;
        report.newest = self.newest.map(Moment::from_millis);
        if let Some((line, name)) = &self.first_duplicate {
            report.messages.push(format!(
                "{} duplicate series, the last of each was kept; the first is {} in line {line}",
                self.duplicates,
                printable(name)
            ));
        }
        for (signal, value, times) in &self.unbelievable {
            report.messages.push(format!(
                "{} read {value}, which cannot be: left out {times} {} (is the dialect's scale right?)",
                signal.name(),
                plural(*times, "time", "times")
            ));
        }
        if self.no_device > 0 {
            report.messages.push(format!(
                "{} series {} no device and {} left out",
                self.no_device,
                plural(self.no_device, "names", "name"),
                plural(self.no_device, "was", "were")
            ));
        }
        if self.rows.own_pod > 0 {
            report.messages.push(format!(
                "{} {} the exporter's own pod, to which nothing is allocated",
                self.rows.own_pod,
                plural(self.rows.own_pod, "row names", "rows name")
            ));
        }
        if self.rows.zero_ids > 0 {
            report.messages.push(format!(
                "{} {} an id of zeros only, which names no device",
                self.rows.zero_ids,
                plural(self.rows.zero_ids, "row has", "rows have")
            ));
        }
    }
}

/// The upper bound of a bucket in the signal's unit; NaN where the series has none.
fn bound(rule: &SignalMapping, series: &Series<'_, '_>) -> f64 {
    let bound = label(series.labels, "le").and_then(|le| le.trim().parse::<f64>().ok());
    match rule.scale {
        UnitScale::By(times, over) => bound.unwrap_or(f64::NAN) * times / over,
        UnitScale::BySize => f64::NAN,
    }
}

/// Distinguishes series that are folded together; `key` is family and label set.
fn item(rule: &SignalMapping, series: &Series<'_, '_>, key: (u32, u32)) -> u64 {
    if rule.over.is_empty() {
        return u64::from(key.0) << 32 | u64::from(key.1);
    }
    let mut hash = rustc_hash::FxHasher::default();
    key.0.hash(&mut hash);
    for name in &rule.over {
        label(series.labels, name).hash(&mut hash);
    }
    hash.finish()
}

/// Target of a value.
enum Placed {
    At {
        place: u32,
        pod: u32,
        core: u32,
    },
    /// The row concerns something that this mapping ignores.
    Elsewhere,
    /// The row does not identify its device.
    Nowhere,
}

/// The value, unless implausible: a ratio far above one, a negative amount.
fn believe(rule: &SignalMapping, value: f64) -> Option<f64> {
    let ratio = rule.signal.name().ends_with("_ratio");
    let signed = matches!(
        rule.signal,
        Signal::Temp
            | Signal::MemTemp
            | Signal::TempSlowdown
            | Signal::TempShutdown
            | Signal::TempMargin
    );
    // The sums behind a mean are not ratios.
    if ratio && !rule.total && !rule.mean {
        // Rounding gives slightly more than one; a wrong scale gives far more.
        if value > 1.05 && !rule.clamp {
            return None;
        }
        return (value >= 0.0).then(|| value.min(1.0));
    }
    (signed || value >= 0.0).then_some(value)
}

/// A length as a table index; pages are too short to overflow it.
fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(NONE)
}
