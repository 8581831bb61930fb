//! Notes about what a label selector could not match.

use std::collections::BTreeSet;

use model::base::Name;

use super::Query;
use crate::Facts;
use crate::kinds::output::rows_in;
use crate::row_labels::RowLabels;
use crate::table::cell;

/// The note about a label selector that could not be decided, or that no object matches.
pub fn unselected(facts: &Facts, query: &Query) -> Option<Unselected> {
    let (unknown, keys) = described(facts, query)?;
    let kind = query.kind.name();
    if unknown > 0 {
        return Some(Unselected::NotKnown(format!(
            "-l: the labels of {unknown} {kind} are not known (their objects are not listed, and they have no pods); they are left out"
        )));
    }
    let (key, near) = query.select.unheard(keys.iter())?;
    let near = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
    let kind = query.kind.singular();
    Some(Unselected::NoSuch(format!(
        "-l: no {kind} has a label `{}`{near}",
        cell(key)
    )))
}

/// The number of rows asked for whose labels are unknown, and the known label keys; `None` for a kind without labels.
fn described(facts: &Facts, query: &Query) -> Option<(usize, BTreeSet<Name>)> {
    let output = query.kind.output();
    let labels = output.labels?;
    let rows = rows_in(output, facts, query).into_iter();
    Some(labelled(rows.filter_map(|row| labels(facts, row))))
}

/// A note about the result of a selector.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unselected {
    /// Some labels are unknown: rows may be missing.
    NotKnown(String),
    /// No object has this label.
    NoSuch(String),
}

/// The number of objects with unknown labels, and the known label keys.
fn labelled<'a>(all: impl Iterator<Item = RowLabels<'a>>) -> (usize, BTreeSet<Name>) {
    let (mut unknown, mut keys) = (0, BTreeSet::new());
    for labels in all {
        match labels.all() {
            Some(labels) => keys.extend(labels.into_keys()),
            None => unknown += 1,
        }
    }
    (unknown, keys)
}
