//! `source-stale`: a source has been silent for longer than its interval allows; its data ages.

use model::fleet::observe::{SourceHealth, SourceState};

use super::context::{CheckContext, FindingDraft, subject};
use super::{Check, CheckWalk, Verdict};

pub(super) const CHECK: Check = Check {
    code: "source-stale",
    walk: CheckWalk::Fleet(check_fleet),
};

fn check_fleet(context: &mut CheckContext<'_>) {
    let (fleet, now) = (context.fleet, context.now);
    // While the API server is lost, what comes through it is late as well: that is one finding, of another check.
    if fleet.outage().is_some() {
        return fleet
            .sources
            .iter()
            .for_each(|source| context.report_unknown(&source.name));
    }
    for source in fleet.sources.iter() {
        let silent = |at: &model::base::Moment| now.since(*at) > source.patience.into();
        let since = source.last_ok.filter(silent);
        context.report_with_start(&source.name, check(source), since, |_| {
            let silent = match source.last_ok {
                Some(at) => format!("stale: last answer {} ago", now.since(at)),
                None => String::from("no answer yet"),
            };
            FindingDraft::new(
                subject("Source", &source.name),
                silent,
                "its values are shown with their age; see the sources view for its last error",
            )
            .group(subject("Source", &source.kind), "sources stale")
        });
    }
}

/// Firing when the source is stale. A lost one has a finding of its own; a new one has not been late yet.
fn check(source: &SourceHealth) -> Verdict {
    match (source.state, source.last_ok) {
        (SourceState::Stale, Some(_)) => Verdict::Firing(1.0),
        (SourceState::Stale, None) => Verdict::Unknown,
        (SourceState::Live | SourceState::Lost | SourceState::NotVisible, _) => Verdict::Ok,
    }
}
