//! Skipped series: metrics of an exporter's page that gave no reading, and why.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::base::Name;

/// Why a series of a page gives no reading.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SkipReason {
    /// The exporter's dialect has no mapping for the metric.
    NoMapping,
    /// The dialect maps the metric, but filters out rows with these labels.
    Filtered,
    /// The labels identify no device.
    NoDevice,
}

crate::words! {
    impl SkipReason {
        /// Name in the JSON contract.
        pub fn name(self) {
            NoMapping => "no-mapping",
            Filtered => "filtered",
            NoDevice => "no-device",
        }
    }
}

impl SkipReason {
    /// Every reason, in the order of the variants.
    pub const ALL: [Self; 3] = [Self::NoMapping, Self::Filtered, Self::NoDevice];
}

/// Series of one metric that were skipped for one reason.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SkippedSeries {
    /// Name of the metric, as on the page.
    pub metric: Name,
    /// How many of its series were skipped in the last page.
    pub series: u32,
    /// Why they were skipped.
    pub reason: SkipReason,
}

impl SkippedSeries {
    /// Entries that a list has at most.
    pub const MOST: usize = 24;

    /// The [`Self::MOST`] entries with the most series, those first; `name` makes the metric's name, for these only.
    pub fn most<N: Ord>(
        counts: impl IntoIterator<Item = (N, SkipReason, u32)>,
        mut name: impl FnMut(N) -> Name,
    ) -> Vec<Self> {
        let mut all: Vec<_> = counts.into_iter().collect();
        all.sort_unstable_by(|a, b| (Reverse(a.2), &a.0, a.1).cmp(&(Reverse(b.2), &b.0, b.1)));
        all.truncate(Self::MOST);
        let one = |(metric, reason, series)| Self {
            metric: name(metric),
            series,
            reason,
        };
        all.into_iter().map(one).collect()
    }

    /// The entries of several lists as one list, summed by metric and reason.
    pub fn sum<'a>(lists: impl IntoIterator<Item = &'a Self>) -> Vec<Self> {
        let mut sums: BTreeMap<(&Name, SkipReason), u32> = BTreeMap::new();
        for one in lists {
            let sum = sums.entry((&one.metric, one.reason)).or_default();
            *sum = sum.saturating_add(one.series);
        }
        let counts = sums.into_iter();
        Self::most(
            counts.map(|((m, reason), series)| (m, reason, series)),
            Name::clone,
        )
    }
}
