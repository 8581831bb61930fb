//! The palette's offers of views: by name and short name, with a namespace, context or filter.

use crate::app::App;
use crate::commands::COMMANDS;
use crate::msg::Switch;
use model::base::Name;
use table::navigation::{Destination, RowScope, ViewId};

use super::Navigation;
use super::offers::Offer;

/// Short names of views, as in kubectl and k9s; the first word is the displayed one.
pub(super) const VIEWS: [(&[&str], ViewId); 11] = [
    (&["fleet", "pulse", "pulses", "pu"], ViewId::Fleet),
    (&["pods", "pod", "po"], ViewId::Jobs),
    (&["services", "service", "svc"], ViewId::Jobs),
    (&["jobs", "job", "jo"], ViewId::Jobs),
    (&["nodes", "node", "no"], ViewId::Nodes),
    (&["queues", "queue", "q", "cq", "lq"], ViewId::Queues),
    (&["devices", "device", "dev", "gpu"], ViewId::Devices),
    (&["pools", "pool"], ViewId::Pools),
    (&["alerts", "alert"], ViewId::Alerts),
    (&["advice", "advise"], ViewId::Alerts),
    (&["scalers", "scaler", "hpa", "nodepools"], ViewId::Pools),
];

/// The row scope of a kind shown under the jobs tab, by namespace, and its description.
type Under = (fn(Option<Name>) -> RowScope, &'static str);

/// The kinds shown under the jobs tab.
fn under_jobs(name: &str) -> Option<Under> {
    match name {
        "pods" => Some((
            RowScope::Pods,
            "view · pods that ask for devices: node, readiness, restarts, job, money",
        )),
        "services" => Some((
            RowScope::Services,
            "view · models that are served: requests, cache, latencies, tokens, $ for a million of them",
        )),
        _ => None,
    }
}

/// A view by name or short name, with the text after it: a namespace, or a filter that starts with `-` or `/`.
pub(super) fn view_of(app: &App, word: &str, rest: &str) -> Option<Offer> {
    let (words, id) = VIEWS.iter().find(|(words, _)| words.contains(&word))?;
    let (name, id) = (words[0], *id);
    let under = under_jobs(name);
    let offer = |label: String, doc: String, row_scope: RowScope, filter: &str| Offer {
        label,
        doc,
        go: Navigation::Destination(Destination::Part(id, row_scope), filter.to_owned()),
    };
    let (whole, doc) = match (under, name) {
        (Some((part, doc)), _) => (part(None), doc),
        (None, "advice") => (
            RowScope::Advice,
            "view · what to do about jobs' devices and about pools, what saves most first",
        ),
        (None, "scalers") => (
            RowScope::Scalers,
            "view · autoscalers of nodes and pods: desired counts, and why they do not scale",
        ),
        (None, _) => (RowScope::All, "view"),
    };
    if rest.is_empty() {
        return Some(offer(name.to_owned(), doc.to_owned(), whole, ""));
    }
    if rest.starts_with(['-', '/', '!']) {
        let filter = rest.trim_start_matches('/').trim();
        let doc = String::from("view, filtered");
        return Some(offer(format!("{name} {rest}"), doc, whole, filter));
    }
    // `nodes @CONTEXT`, as in k9s.
    if let Some(context) = rest.strip_prefix('@').filter(|context| !context.is_empty()) {
        return Some(Offer {
            label: format!("{name} {rest}"),
            doc: format!("view · {name} of context {context}"),
            go: Navigation::There(id, Switch::Context(Name::new(context))),
        });
    }
    // `pods app=web,tier=front`, as in k9s.
    if rest.contains('=') && !rest.contains(char::is_whitespace) {
        let labels: Vec<String> = rest.split(',').map(|one| format!("-l {one}")).collect();
        let doc = String::from("view, only what has these labels");
        return Some(offer(
            format!("{name} {rest}"),
            doc,
            whole,
            &labels.join(" "),
        ));
    }
    // `pods NAMESPACE`, as in k9s; any other word is searched for in the names of that kind.
    let mut jobs = app.facts.fleet.jobs.iter();
    let known = jobs.any(|job| job.namespace().as_str() == rest);
    let namespace = Name::new(rest);
    let row_scope = match (id, under) {
        (ViewId::Jobs, Some((part, _))) if known => part(Some(namespace)),
        (ViewId::Jobs, None) if known => RowScope::Namespace(namespace),
        _ => return None,
    };
    let doc = format!("view · {name} of namespace {rest}");
    Some(offer(format!("{name} {rest}"), doc, row_scope, ""))
}

/// Every tab's view, by its name.
pub(super) fn views() -> impl Iterator<Item = Offer> {
    ViewId::ALL.iter().filter_map(|id| {
        let spec = COMMANDS
            .iter()
            .find(|spec| spec.command.view() == Some(*id))?;
        Some(Offer {
            label: id.name().to_owned(),
            doc: format!("view · {}", spec.doc),
            go: Navigation::Command(spec.command),
        })
    })
}
