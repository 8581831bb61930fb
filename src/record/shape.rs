//! Shapes of pages: a page without its values, and comparison of pages by shape.

use model::fleet::histogram::Histogram;
use model::fleet::reading::{Reading, ReadingScope};
use model::fleet::signal::Signals;

/// True for scopes that are identified by a pod.
pub(crate) fn is_of_a_pod(scope: ReadingScope) -> bool {
    matches!(scope, ReadingScope::PodCopy | ReadingScope::Serving)
}

/// A reading without its values.
pub(crate) fn bare(reading: &Reading) -> Reading {
    Reading {
        signals: Signals::default(),
        histograms: reading.histograms.iter().map(without_counts).collect(),
        ..reading.clone()
    }
}

/// True when two readings describe the same thing, regardless of their values.
pub(crate) fn is_alike(a: &Reading, b: &Reading) -> bool {
    a.scope == b.scope
        && a.index == b.index
        && a.dialect == b.dialect
        && a.uuid == b.uuid
        && a.pod == b.pod
        && a.slice == b.slice
        && a.host == b.host
        && a.model == b.model
        && a.container == b.container
        && a.serial == b.serial
        && a.pci == b.pci
        && a.driver == b.driver
        && a.histograms.len() == b.histograms.len()
        && a.histograms
            .iter()
            .zip(&b.histograms)
            .all(|(a, b)| a.signal == b.signal && a.bounds == b.bounds)
}

fn without_counts(histogram: &Histogram) -> Histogram {
    Histogram {
        signal: histogram.signal,
        bounds: histogram.bounds.clone(),
        counts: Box::default(),
    }
}
