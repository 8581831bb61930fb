//! Readings from Prometheus: its samples turned back into their pages, and read by the same code as pages.
//!
//! A scrape adds labels of its target to every row, and renames an exporter's own label of the same name
//! (`exported_pod`), unless `honor_labels` is set. The series `up` has only the target's labels, so with it both
//! forms can be turned back into the rows of the page.

use std::borrow::Cow;
use std::cmp::Ordering;

use rustc_hash::FxHashMap;

use model::base::{Moment, Name, Names, ObjectKey};

use super::dialect::Dialect;
use super::exposition::Series;
use super::line::Label;
use super::mapper::{PageSource, read_rows};
use super::page::ParsedPage;
use super::samples::{Samples, Scraped, SeriesSample};

/// Labels by which targets name the node they are on.
const NODE_LABELS: &[&str] = &[
    "node",
    "kubernetes_node",
    "node_name",
    "nodename",
    "kubernetes_io_hostname",
    "k8s_node_name",
];

/// Labels that name a pod together.
const POD_LABELS: &[&str] = &["namespace", "pod", "container"];

/// The targets in `up`: their own labels, and the time of each last scrape.
#[derive(Debug, Default)]
pub struct Ups {
    by_key: FxHashMap<Vec<(String, String)>, Up>,
}

#[derive(Debug)]
struct Up {
    labels: Vec<(Box<str>, Box<str>)>,
    at: Moment,
}

impl Ups {
    /// Reads the answer to `timestamp(up{…})`: the value is the moment of the last scrape in seconds.
    pub fn of(samples: &Samples) -> Self {
        let mut ups = Self::default();
        for target in samples.scraped() {
            let Some(last) = target
                .samples
                .iter()
                .max_by(|a, b| a.value.total_cmp(&b.value))
                .filter(|last| last.value.is_finite())
            else {
                continue;
            };
            let labels = target.blocks[last.block as usize]
                .iter()
                .map(|(name, value)| (samples.text(*name).into(), samples.text(*value).into()))
                .collect();
            let at = Moment::from_millis((last.value * 1000.0).round() as i64);
            ups.by_key
                .insert(own(samples.key(target)), Up { labels, at });
        }
        ups
    }

    /// How many targets are known.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// True when none is.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }
}

fn own(key: Vec<(&str, &str)>) -> Vec<(String, String)> {
    let mut key: Vec<(String, String)> = key
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    key.sort();
    key
}

fn id_of(samples: &Samples, target: &Scraped) -> String {
    let parts: Vec<String> = own(samples.key(target))
        .into_iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    parts.join(",")
}

#[derive(Clone, Copy, Debug)]
pub struct Scrape<'s> {
    samples: &'s Samples,
    target: &'s Scraped,
    up: Option<&'s Up>,
}

impl Samples {
    /// The scrape of each target, with its state from `ups`.
    pub fn scrapes<'s>(&'s self, ups: &'s Ups) -> impl Iterator<Item = Scrape<'s>> {
        self.scraped().iter().map(|target| Scrape {
            samples: self,
            target,
            up: ups.by_key.get(&own(self.key(target))),
        })
    }

    /// The newest value of each target as a moment: the answer to `timestamp(…)`, by [`Scrape::id`].
    pub fn newest(&self) -> impl Iterator<Item = (String, Moment)> {
        self.scraped().iter().filter_map(|target| {
            let values = target.samples.iter().map(|sample| sample.value);
            let last = values
                .filter(|value| value.is_finite())
                .max_by(f64::total_cmp)?;
            let id = id_of(self, target);
            Some((id, Moment::from_millis((last * 1000.0).round() as i64)))
        })
    }

    /// The jobs of all targets, each once.
    pub fn jobs(&self) -> std::collections::BTreeSet<&str> {
        let targets = self.scraped().iter();
        targets
            .filter_map(|target| {
                let key = self.key(target);
                key.into_iter()
                    .find(|(name, _)| *name == "job")
                    .map(|(_, job)| job)
            })
            .collect()
    }
}

impl<'s> Scrape<'s> {
    /// The identity of the target.
    pub fn id(&self) -> String {
        id_of(self.samples, self.target)
    }

    /// A label of the target itself.
    pub fn label(&self, name: &str) -> Option<&'s str> {
        if let Some(up) = self.up {
            let found = up.labels.iter().find(|(known, _)| &**known == name);
            return found.map(|(_, value)| &**value);
        }
        let key = self.samples.key(self.target);
        key.into_iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value)
    }

    /// The pod that was scraped, where the target's labels say.
    pub fn pod(&self) -> Option<ObjectKey> {
        self.up?;
        Some(ObjectKey::new(self.label("namespace")?, self.label("pod")?))
    }

    /// The node, where the target's labels say.
    pub fn node(&self) -> Option<&'s str> {
        NODE_LABELS.iter().find_map(|name| self.label(name))
    }

    /// The address that was scraped, without its port.
    pub fn address(&self) -> Option<&'s str> {
        let instance = self.label("instance")?;
        let host = match instance.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
            _ => instance,
        };
        Some(host.trim_start_matches('[').trim_end_matches(']'))
    }

    /// When it was last scraped, on Prometheus' clock; `None` where `up` does not say.
    pub fn scraped_at(&self) -> Option<Moment> {
        self.up.map(|up| up.at)
    }

    /// How many series it has.
    pub fn series(&self) -> usize {
        self.target.samples.len()
    }

    /// A name of a metric that it has, to ask for its time with.
    pub fn any_name(&self) -> Option<&'s str> {
        self.target
            .samples
            .first()
            .map(|sample| self.samples.text(sample.name))
    }

    /// The moments of its samples, oldest first, each once.
    pub fn moments(&self) -> Vec<Moment> {
        let mut all: Vec<i64> = self.target.samples.iter().map(|sample| sample.at).collect();
        all.sort_unstable();
        all.dedup();
        all.into_iter().map(Moment::from_millis).collect()
    }

    /// Its samples as pages in `dialect`, one for each moment, oldest first; empty when its dialect is another.
    /// `node` is its node, where that is known.
    pub fn read(
        &self,
        dialect: &Dialect,
        node: Option<&Name>,
        names: &mut Names,
    ) -> Vec<(Moment, ParsedPage)> {
        let blocks: Vec<Vec<Label<'s>>> = (0..self.target.blocks.len())
            .map(|block| self.rows_labels(block))
            .collect();
        let Some(prefix) = self.prefix(dialect, &blocks) else {
            return Vec::new();
        };
        let target = PageSource {
            pod: self.pod(),
            node: node.cloned(),
            dialect: None,
        };
        let text = |sample: &SeriesSample| self.samples.text(sample.name);
        let order: Vec<u32> = ranks(&blocks);
        let mut all: Vec<&SeriesSample> = self.target.samples.iter().collect();
        all.sort_by(|a, b| {
            let rank = |sample: &SeriesSample| order[sample.block as usize];
            (a.at, text(a), rank(a)).cmp(&(b.at, text(b), rank(b)))
        });
        all.chunk_by(|a, b| a.at == b.at)
            .map(|page| {
                let read = read_rows(dialect, prefix, &target, names, &mut |take| {
                    for (at, sample) in page.iter().enumerate() {
                        take(&Series {
                            line: at + 1,
                            name: Cow::Borrowed(text(sample)),
                            labels: &blocks[sample.block as usize],
                            block: Some(sample.block),
                            value: sample.value,
                            timestamp: None,
                        });
                    }
                });
                (Moment::from_millis(page[0].at), read)
            })
            .collect()
    }

    /// The prefix of the dialect's names, when a row proves that the target has this dialect.
    fn prefix(&self, dialect: &Dialect, blocks: &[Vec<Label<'s>>]) -> Option<&'s str> {
        self.target.samples.iter().find_map(|sample| {
            let prefix = dialect.signature_prefix(self.samples.text(sample.name))?;
            dialect
                .signature_filter
                .passes(&blocks[sample.block as usize])
                .then_some(prefix)
        })
    }

    /// A label set as on the exporter's page, where that can be reconstructed.
    fn rows_labels(&self, block: usize) -> Vec<Label<'s>> {
        let pairs: Vec<(&'s str, &'s str)> = self.target.blocks[block]
            .iter()
            .map(|(name, value)| (self.samples.text(*name), self.samples.text(*value)))
            .collect();
        let row = |name: &str| {
            pairs
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| *value)
        };
        let label = |name: &'s str, value: &'s str| Label {
            name: Cow::Borrowed(name),
            value: Cow::Borrowed(value),
        };
        let Some(up) = self.up else {
            return pairs
                .into_iter()
                .map(|(name, value)| label(name, value))
                .collect();
        };
        let of_target = |name: &str| {
            let found = up.labels.iter().find(|(known, _)| &**known == name);
            found.map(|(_, value)| &**value)
        };
        // Labels of a pod belong together: where the pod is not the target's, neither is its namespace.
        let holder = of_target("pod").is_some()
            && (row("pod") != of_target("pod") || row("namespace") != of_target("namespace"));
        let mut out = Vec::with_capacity(pairs.len());
        for (name, value) in &pairs {
            if let Some(moved) = name.strip_prefix("exported_")
                && of_target(moved).is_some()
            {
                out.push(label(moved, value));
                continue;
            }
            let added = of_target(name) == Some(*value);
            if added && !(holder && POD_LABELS.contains(name)) {
                continue;
            }
            out.push(label(name, value));
        }
        out.sort_by(|a, b| a.name.cmp(&b.name));
        out
    }
}

/// The rank of each label set in an order independent of the order of an answer: numbers as numbers.
fn ranks(blocks: &[Vec<Label<'_>>]) -> Vec<u32> {
    let by_value = |a: &str, b: &str| match (a.parse::<u64>(), b.parse::<u64>()) {
        (Ok(a), Ok(b)) => a.cmp(&b),
        _ => a.cmp(b),
    };
    let mut order: Vec<usize> = (0..blocks.len()).collect();
    order.sort_by(|a, b| {
        for (a, b) in blocks[*a].iter().zip(&blocks[*b]) {
            let order = a
                .name
                .cmp(&b.name)
                .then_with(|| by_value(&a.value, &b.value));
            if order != Ordering::Equal {
                return order;
            }
        }
        blocks[*a].len().cmp(&blocks[*b].len())
    });
    let mut ranks = vec![0; blocks.len()];
    for (rank, block) in order.into_iter().enumerate() {
        ranks[block] = rank as u32;
    }
    ranks
}
