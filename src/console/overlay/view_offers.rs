//! The palette's offers of views: by name and short name, with a namespace, context or filter.

use crate::commands::Command;
use crate::msg::Switch;
use crate::screen::Screen;
use model::base::Name;
use table::Kind;
use table::navigation::{Destination, RowScope, ViewId};

use super::verdict::{Navigation, Offer};

/// A view by name or short name, with the text after it: a namespace, or a filter that starts with `-` or `/`.
pub(super) fn view_of(screen: &dyn Screen, word: &str, rest: &str) -> Option<Offer> {
    let mut kinds = Kind::ALL.into_iter();
    let kind = kinds.find(|kind| kind.words().any(|own| own == word))?;
    let (name, view) = (kind.name(), kind.view());
    let offer = |label: String, doc: String, place: Destination, filter: &str| Offer {
        label,
        doc,
        go: Navigation::Destination(place, filter.to_owned()),
    };
    let whole = kind.destination();
    if rest.is_empty() {
        let doc = format!("view · {}", view.doc.unwrap_or_else(|| view.tab.doc()));
        return Some(offer(name.to_owned(), doc, whole, ""));
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
            go: Navigation::There(view.tab, Switch::Context(Name::new(context))),
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
    let mut jobs = screen.facts().fleet.jobs.iter();
    let known = jobs.any(|job| job.namespace().as_str() == rest);
    let namespace = Name::new(rest);
    let row_scope = match kind {
        _ if !known => return None,
        Kind::Jobs => RowScope::Namespace(namespace),
        _ if view.by_namespace => RowScope::Kind(kind, Some(namespace)),
        _ => return None,
    };
    let doc = format!("view · {name} of namespace {rest}");
    let place = Destination::Part(view.tab, row_scope);
    Some(offer(format!("{name} {rest}"), doc, place, ""))
}

/// Every tab's view, by its name.
pub(super) fn views() -> impl Iterator<Item = Offer> {
    ViewId::ALL.iter().map(|tab| Offer {
        label: tab.name().to_owned(),
        doc: format!("view · {}", tab.doc()),
        go: Navigation::Command(Command::View(*tab)),
    })
}
