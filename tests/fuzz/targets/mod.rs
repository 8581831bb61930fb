//! The targets, one file a group of readers.

mod documents;
mod files;
mod objects;
mod pages;
mod segments;

use super::Target;
use super::shape::Shape;

/// Every target.
pub const TARGETS: &[Target] = &[
    pages::EXPOSITION,
    objects::WATCH,
    objects::FLEET,
    files::KUBECONFIG,
    documents::SETTINGS,
    documents::FILTER,
    documents::DOCUMENT,
    files::JOURNAL,
    segments::SEGMENT,
    documents::QUEUES,
    documents::PRICES,
    documents::ACCELERATORS,
    documents::LOOK,
];

/// No input is made.
fn none() -> Vec<Vec<u8>> {
    Vec::new()
}

/// A place among `end` that follows from the input.
fn pick(data: &[u8], end: usize) -> usize {
    crc32fast::hash(data) as usize % end.max(1)
}
