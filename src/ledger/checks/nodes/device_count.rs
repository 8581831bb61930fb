//! `device-count`: a node reports more devices than one node can have; the count is ignored.

use model::fleet::kinds::Table;
use model::fleet::node::Node;

use crate::checks::context::{CheckContext, FindingDraft, subject};
use crate::checks::{Check, CheckWalk, Verdict};

pub(crate) const CHECK: Check = Check {
    code: "device-count",
    walk: CheckWalk::Nodes(check_node),
};

fn check_node(context: &mut CheckContext<'_>, node: &Node) {
    if !context.fleet.visibility(Table::Nodes).is_known() {
        context.report_unknown(node.name());
        return;
    }
    let largest = node.ignored_counts.iter().max_by_key(|(_, count)| *count);
    let verdict = match largest {
        Some((_, count)) => Verdict::Firing(f64::from(*count)),
        None => Verdict::Ok,
    };
    context.report(node.name(), verdict, |count| {
        let (what, _) = largest.cloned().unwrap_or_default();
        FindingDraft::new(
            subject("Node", node.name()),
            format!("reports {count:.0} devices ({what}): the count is ignored"),
            "find what writes this number: the device plugin, GPU Feature Discovery, a DRA driver, an exporter, or a user with the right to patch nodes",
        )
        .value(count)
    });
}
