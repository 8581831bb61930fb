//! The palette's answer to an incomplete or unknown word: the choices, or the nearest word.

use model::base::document::nearest;

use super::verdict::{Navigation, Offer};

/// Kinds that kubectl and k9s list and this console does not, by name and short names.
const NOT_HERE: &[&[&str]] = &[
    &["persistentvolumeclaims", "persistentvolumeclaim", "pvc"],
    &["persistentvolumes", "persistentvolume", "pv"],
    &["storageclasses", "storageclass", "sc"],
    &["deployments", "deployment", "deploy", "dp"],
    &["statefulsets", "statefulset", "sts"],
    &["daemonsets", "daemonset", "ds"],
    &["replicasets", "replicaset", "rs"],
    &["cronjobs", "cronjob", "cj"],
    &["configmaps", "configmap", "cm"],
    &["secrets", "secret", "sec"],
    &["serviceaccounts", "serviceaccount", "sa"],
    &["ingresses", "ingress", "ing"],
    &["endpoints", "ep"],
    &["networkpolicies", "networkpolicy", "netpol", "np"],
    &["poddisruptionbudgets", "poddisruptionbudget", "pdb"],
    &["customresourcedefinitions", "crds", "crd"],
    &["clusterroles", "clusterrole", "cr"],
    &["clusterrolebindings", "clusterrolebinding", "crb"],
    &["roles", "role", "ro"],
    &["rolebindings", "rolebinding", "rb"],
    &["resourcequotas", "resourcequota", "quota"],
    &["limitranges", "limitrange", "limits"],
];

/// A Kubernetes kind without a view here; enter keeps the text.
pub(super) fn not_here(word: &str) -> Option<Offer> {
    let names = NOT_HERE.iter().find(|names| names.contains(&word))?;
    Some(Offer {
        label: word.to_owned(),
        doc: format!("{}: no view here, use kubectl or k9s", names[0]),
        go: Navigation::Palette(word.to_owned()),
    })
}

/// An unknown word; enter types the nearest known one, where there is one.
pub(super) fn unknown<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Offer {
    let near = nearest(typed, known);
    let doc = match near {
        Some(near) => format!("unknown; did you mean {near}? enter types it"),
        None => String::from("unknown command; clear the line to list all"),
    };
    Offer {
        label: typed.to_owned(),
        doc,
        go: Navigation::Palette(near.unwrap_or(typed).to_owned()),
    }
}

/// Asks for one of a verb's choices.
pub(super) fn which(verb: &str, choices: usize) -> Offer {
    let doc = match (verb, choices) {
        ("ctx", 0) => "no other context; `stokehold --context NAME`".to_owned(),
        (_, 0) => format!("{verb}: none found"),
        ("ns", _) => "which namespace? enter, then choose or type it".to_owned(),
        ("ctx", _) => "which context? enter, then choose or type it".to_owned(),
        _ => "which? enter, then choose or type it".to_owned(),
    };
    Offer {
        label: verb.to_owned(),
        doc,
        go: Navigation::Palette(format!("{verb} ")),
    }
}
