//! Printer columns of dynamic resource allocation.

use serde_json::Value;

use super::{AGE, NAME, PrinterColumn, age, column};
use crate::json::{list, name, text};
use model::base::Moment;

pub(super) const SLICES: &[PrinterColumn] = &[
    NAME,
    column("Node", "The node of its devices."),
    column("Driver", "The driver that publishes them."),
    column("Pool", "The pool that it is a part of."),
    AGE,
];

pub(super) fn slice(object: &Value, now: Moment) -> Vec<Value> {
    vec![
        name(object).into(),
        text(object, "/spec/nodeName").into(),
        text(object, "/spec/driver").into(),
        text(object, "/spec/pool/name").into(),
        age(object, now),
    ]
}

pub(super) const CLAIMS: &[PrinterColumn] = &[
    NAME,
    column("State", "Whether it is allocated, and reserved for a pod."),
    AGE,
];

pub(super) fn claim(object: &Value, now: Moment) -> Vec<Value> {
    let deleted = !text(object, "/metadata/deletionTimestamp").is_empty();
    let mut states = Vec::new();
    if deleted {
        states.push("deleted");
    }
    if object.pointer("/status/allocation").is_some() {
        states.push("allocated");
        if !list(object, "/status/reservedFor").is_empty() {
            states.push("reserved");
        }
    } else if !deleted {
        states.push("pending");
    }
    vec![
        name(object).into(),
        states.join(",").into(),
        age(object, now),
    ]
}

pub(super) const TEMPLATES: &[PrinterColumn] = &[NAME, AGE];
pub(super) const CLASSES: &[PrinterColumn] = &[NAME, AGE];

/// The cells of what has a name and an age only.
pub(super) fn named(object: &Value, now: Moment) -> Vec<Value> {
    vec![name(object).into(), age(object, now)]
}
