//! Printer columns of roles, of network and admission policies, and of volume claims.

use serde_json::Value;

use super::{AGE, NAME, PrinterColumn, age, column, labels, or};
use crate::json::{list, name, text};
use crate::selector::Labels;
use model::base::Moment;

pub(super) const CLAIMS: &[PrinterColumn] = &[
    NAME,
    column("Status", "Its phase."),
    column("Volume", "The volume that it is bound to."),
    column("Capacity", "Size of that volume."),
    column("Access Modes", "How that volume is mounted."),
    column("StorageClass", "The class that it asks for."),
    column(
        "VolumeAttributesClass",
        "The class of attributes that it asks for.",
    ),
    AGE,
    column("VolumeMode", "A file system or a block device.").wide(),
];

pub(super) fn claim(object: &Value, now: Moment) -> Vec<Value> {
    let shown = |pointer: &str| Value::from(text(object, pointer));
    let modes = list(object, "/status/accessModes").iter().map(|mode| {
        match mode.as_str().unwrap_or_default() {
            "ReadWriteOnce" => "RWO",
            "ReadOnlyMany" => "ROX",
            "ReadWriteMany" => "RWX",
            "ReadWriteOncePod" => "RWOP",
            other => other,
        }
    });
    let modes: Vec<&str> = modes.collect();
    let attributes = text(object, "/spec/volumeAttributesClassName");
    vec![
        name(object).into(),
        shown("/status/phase"),
        shown("/spec/volumeName"),
        shown("/status/capacity/storage"),
        modes.join(",").into(),
        shown("/spec/storageClassName"),
        or(attributes, "<unset>").into(),
        age(object, now),
        shown("/spec/volumeMode"),
    ]
}

pub(super) const ROLES: &[PrinterColumn] = &[
    NAME,
    column("Created At", "When it was created.").typed("date"),
];

pub(super) fn role(object: &Value) -> Vec<Value> {
    let created = text(object, "/metadata/creationTimestamp");
    vec![name(object).into(), created.into()]
}

pub(super) const BINDINGS: &[PrinterColumn] = &[
    NAME,
    column("Role", "The role that it grants."),
    AGE,
    column("Users", "Users that have the role by it.").wide(),
    column("Groups", "Groups that have the role by it.").wide(),
    column(
        "ServiceAccounts",
        "Service accounts that have the role by it.",
    )
    .wide(),
];

pub(super) fn binding(object: &Value, now: Moment) -> Vec<Value> {
    let subjects = |kind: &str| -> Value {
        let of_kind = list(object, "/subjects")
            .iter()
            .filter(|subject| text(subject, "/kind") == kind);
        let names = of_kind.map(|subject| match text(subject, "/namespace") {
            "" => text(subject, "/name").to_owned(),
            namespace => format!("{namespace}/{}", text(subject, "/name")),
        });
        names.collect::<Vec<String>>().join(", ").into()
    };
    let role = ["/roleRef/kind", "/roleRef/name"].map(|pointer| text(object, pointer));
    vec![
        name(object).into(),
        role.join("/").into(),
        age(object, now),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]
}

pub(super) const NETWORK: &[PrinterColumn] = &[
    NAME,
    column("Pod-Selector", "Label selector of the pods that it is for."),
    AGE,
];

pub(super) fn network(object: &Value, now: Moment) -> Vec<Value> {
    let selector = object.pointer("/spec/podSelector");
    let shown = selector.and_then(Labels::of_object);
    let shown = shown.map(|labels| labels.show()).unwrap_or_default();
    vec![
        name(object).into(),
        or(&shown, "<none>").into(),
        age(object, now),
    ]
}

pub(super) const VALIDATING: &[PrinterColumn] = &[
    NAME,
    column("Validations", "Number of its validations.").typed("integer"),
    PARAM_KIND,
    AGE,
];

pub(super) const MUTATING: &[PrinterColumn] = &[
    NAME,
    column("Mutations", "Number of its mutations.").typed("integer"),
    PARAM_KIND,
    AGE,
];

const PARAM_KIND: PrinterColumn = column("ParamKind", "Kind of its parameters.");

/// A validating or mutating policy, whose rules are the list at a pointer.
pub(super) fn admission(object: &Value, rules: &str, now: Moment) -> Vec<Value> {
    let kind = ["apiVersion", "kind"].map(|key| text_of(object, "/spec/paramKind", key));
    let kind = match kind {
        ["", ""] => "<unset>".to_owned(),
        kind => kind.join("/"),
    };
    vec![
        name(object).into(),
        list(object, rules).len().into(),
        kind.into(),
        age(object, now),
    ]
}

fn text_of<'a>(object: &'a Value, pointer: &str, key: &str) -> &'a str {
    text(object, &format!("{pointer}/{key}"))
}

pub(super) const POLICY_BINDINGS: &[PrinterColumn] = &[
    NAME,
    column("PolicyName", "The policy that it puts into effect."),
    column("ParamRef", "The parameters that it gives the policy."),
    AGE,
];

pub(super) fn policy_binding(object: &Value, now: Moment) -> Vec<Value> {
    let parameters = match object.pointer("/spec/paramRef") {
        None => "<unset>".to_owned(),
        Some(parameters) => match text_of(parameters, "", "name") {
            "" => labels(parameters.pointer("/selector/matchLabels")),
            name => [text_of(parameters, "", "namespace"), name].join("/"),
        },
    };
    vec![
        name(object).into(),
        text(object, "/spec/policyName").into(),
        parameters.into(),
        age(object, now),
    ]
}
