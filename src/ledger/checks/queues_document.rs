//! `queues-document`: the ConfigMap that holds the queues of `govern` is wrong. The queues of the last good one count on.

use model::base::Name;
use model::fleet::fleet::TableState;
use model::fleet::kinds::Table;

use super::context::{CheckContext, FindingDraft, subject};
use super::{Check, CheckWalk, Verdict};

const REPAIR: &str = "correct the document and apply the ConfigMap again; try it first: `stokehold govern check FILE`";

pub(super) const CHECK: Check = Check {
    code: "queues-document",
    walk: CheckWalk::Fleet(check_fleet),
};

fn check_fleet(context: &mut CheckContext<'_>) {
    let fleet = context.fleet;
    let Some(state) = fleet.govern.as_deref() else {
        return;
    };
    let source = Name::from(format!("api {}", Table::GovernQueues.name()));
    let verdict = match fleet.visibility(Table::GovernQueues) {
        TableState::Live => Verdict::when(Some(state.fault.is_some())),
        _ => Verdict::Unknown,
    };
    context.report(&source, verdict, |_| {
        FindingDraft::new(
            subject("Source", &source),
            state.fault_words().unwrap_or_default(),
            REPAIR,
        )
    });
}
