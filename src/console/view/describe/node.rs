//! A node: state, cordon, conditions, place, machine, taints.

use crate::painter::Painter;
use crate::text::per_hour;
use model::base::DeviceAmount;
use model::base::quantities::counted;
use model::fleet::device::Device;
use model::fleet::finding::Finding;
use model::fleet::node::Node;
use model::fleet::observe::Table;
use table::Facts;
use table::kinds;
use table::role::Role;
use table::text::whole_percent;

use super::Description;

/// What is known of a node.
pub(super) fn lines(
    table: &mut Description,
    facts: &Facts,
    node: &Node,
    painter: &mut Painter<'_>,
) {
    let (_, role, words) = kinds::nodes::state_of(facts, node);
    table.note = format!("pool {}", node.pool);
    table.words("state", words, role);
    let hidden = facts.fleet.is_hidden(Table::Nodes);
    if node.cordon.is_some() {
        let words = who_cordoned(node, painter);
        table.words("cordoned", words, Role::Warn);
    }
    let about = |finding: &&Finding| {
        finding.subject.kind == "Node" && finding.subject.key.name == *node.name()
    };
    let found: Vec<&Finding> = facts.fleet.findings.iter().filter(about).collect();
    for condition in &node.seen.conditions {
        // A condition that a finding reports is shown once.
        let is_reported = found
            .iter()
            .any(|finding| finding.message.contains(condition.kind.as_str()));
        if !is_reported && condition.is_wrong() == Some(true) {
            table.words("condition", condition_words(condition, painter), Role::Warn);
        }
    }
    table.findings(node.name(), found.into_iter(), painter);
    table.known("type", node.instance_type.as_ref());
    let place: Vec<&str> = [&node.zone, &node.rack, &node.clique]
        .into_iter()
        .filter_map(|name| name.as_deref())
        .collect();
    table.known("place", (!place.is_empty()).then(|| place.join(" · ")));
    table.known("billing", node.billing.map(|billing| billing.name()));
    table.known("driver", node.driver.as_ref());
    table.words_if_any("provider id", node.seen.provider_id.as_ref());
    table.words(
        "devices",
        match node.ignored_counts.first() {
            _ if hidden => format!(
                "{} allocated to visible pods; the node is not visible to you",
                node.devices.len()
            ),
            _ if node.withheld => {
                String::from("unknown: allocated by claim, and you may not list ResourceSlices")
            }
            Some((what, count)) if node.devices.is_empty() => {
                format!("unknown: reports {count} ({what}), ignored")
            }
            Some((what, count)) => format!(
                "{} found; reports {count} ({what}), ignored",
                node.devices.len()
            ),
            None => format!(
                "{} found, {} of {} allocatable",
                node.devices.len(),
                node.device_allocatable,
                node.device_capacity
            ),
        },
        if node.withheld
            || !node.ignored_counts.is_empty()
            || node.device_allocatable < node.device_capacity
        {
            Role::Warn
        } else {
            Role::Text
        },
    );
    let held: DeviceAmount = node.devices.iter().map(Device::allocated).sum();
    let idle = node
        .devices
        .iter()
        .filter(|device| facts.fleet.is_idle(device))
        .count();
    let mean = table::rows::nodes::mean(node.devices.iter(), Device::util).map(whole_percent);
    let util = mean.map_or(String::from("utilization –"), |mean| {
        format!("mean {mean}")
    });
    let idle_words = if idle > 0 {
        format!(", {idle} idle")
    } else {
        String::new()
    };
    let free = table::rows::nodes::counts(facts, node).free_words();
    let free = free.map_or_else(String::new, |words| format!(" · {words}"));
    let pods = match facts.fleet.sees_all_work() {
        true => format!(" · {}", counted(u64::from(node.pod_count), "pod")),
        false => String::new(),
    };
    table.words(
        "usage",
        format!("{held} allocated{idle_words}{free} · {util}{pods}"),
        if idle > 0 {
            Role::IdleMoney
        } else {
            Role::Text
        },
    );
    super::pool::free_slices(table, facts, std::iter::once(node));
    table.known(
        "power",
        table::rows::nodes::power(node.devices.iter())
            .map(|watts| format!("{:.1} kW", watts / 1000.0)),
    );
    if let Some(rate) = facts.spend_rates.nodes.get(node.name()).filter(|_| !hidden) {
        table.words("cost", per_hour(Some(*rate)), Role::Text);
        table.list_note(*rate);
    }
    if !hidden {
        table.words("age", painter.age(node.seen.created), Role::Text);
    }
    for taint in &node.seen.taints {
        let value = if taint.value.is_empty() {
            String::new()
        } else {
            format!("={}", taint.value)
        };
        table.words(
            "taint",
            format!("{}{value}:{}", taint.key, taint.effect),
            Role::Muted,
        );
    }
}

fn condition_words(
    condition: &model::fleet::observe::Condition,
    painter: &mut Painter<'_>,
) -> String {
    let ago = condition.since.map_or(String::new(), |since| {
        format!(" for {}", painter.age(since))
    });
    let status = match condition.status {
        Some(true) => "True",
        Some(false) => "False",
        None => "Unknown",
    };
    format!(
        "{} is {status}{ago}: {} {}",
        condition.kind, condition.reason, condition.message
    )
}

/// How long ago it was cordoned, who did it, and why.
fn who_cordoned(node: &Node, painter: &mut Painter<'_>) -> String {
    let by_whom = table::rows::nodes::cordoned_by(node).unwrap_or_default();
    let ago = node.cordon.as_ref().and_then(|cordon| cordon.at);
    match ago {
        Some(at) => format!("{} ago, {}", painter.age(at), by_whom),
        None => by_whom,
    }
}
