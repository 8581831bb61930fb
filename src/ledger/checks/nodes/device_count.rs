//! `device-count`: a node claims more devices than a node can have; the claim is ignored.

use model::fleet::kinds::Table;
use model::fleet::node::Node;

use crate::checks::context::{CheckContext, FindingDraft, subject};
use crate::checks::{Check, CheckWalk, Verdict};

pub(crate) const CHECK: Check = Check {
    code: "device-count",
    walk: CheckWalk::Nodes(check),
};

fn check(context: &mut CheckContext<'_>, node: &Node) {
    if !context.fleet.known(Table::Nodes).is_known() {
        context.unknown(node.name());
        return;
    }
    let most = node.ignored.iter().max_by_key(|(_, count)| *count);
    let verdict = match most {
        Some((_, count)) => Verdict::Firing(f64::from(*count)),
        None => Verdict::Ok,
    };
    context.report(node.name(), verdict, |count| {
        let (what, _) = most.cloned().unwrap_or_default();
        FindingDraft::new(
            subject("Node", node.name()),
            format!("claims {count:.0} devices ({what}), ignored"),
            "Find what writes this number: the device plugin, GPU Feature Discovery, a DRA driver, an exporter, or a user with the right to patch nodes",
        )
        .value(count)
    });
}
