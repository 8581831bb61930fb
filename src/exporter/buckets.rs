//! The buckets of a latency at a place, as one histogram.

use std::hash::{Hash, Hasher};

use model::fleet::histogram::Histogram;

use super::contribution::Contribution;
use super::dialect::{Dialect, SamplePart};
use super::exposition::Series;

/// The buckets of a page are no histogram.
pub(super) struct Malformed;

/// The histogram of the first rank that has buckets; engines of one server are added up. `group` is of one place and signal, in
/// the order of rank.
pub(super) fn histogram(
    dialect: &Dialect,
    group: &[Contribution],
) -> Option<Result<Histogram, Malformed>> {
    let first = group.iter().find(|one| one.part == SamplePart::Bucket)?;
    let signal = dialect.maps[usize::from(first.map)].signal;
    let mut all: Vec<&Contribution> = group
        .iter()
        .filter(|one| one.part == SamplePart::Bucket && one.rank == first.rank)
        .collect();
    all.sort_by_key(|one| one.item);
    let engines = all.chunk_by(|a, b| a.item == b.item).map(|engine| {
        let buckets = engine.iter().map(|one| (one.moment, one.value));
        Histogram::new(signal, buckets.collect()).ok_or(Malformed)
    });
    engines.reduce(|sum, more| sum?.plus(&more?).ok_or(Malformed))
}

/// The identity of a histogram on the page: the labels of its buckets without the bound, in any order.
pub(super) fn histogram_id(series: &Series<'_, '_>) -> u64 {
    let labels = series.labels.iter().filter(|label| label.name != "le");
    labels.fold(0, |sum: u64, label| {
        let mut hash = rustc_hash::FxHasher::default();
        (&label.name, &label.value).hash(&mut hash);
        sum.wrapping_add(hash.finish())
    })
}
