//! The TPU device plugin's page: the chips of one host, per container and per node.

use std::collections::BTreeSet;

use model::base::Moment;

use super::super::World;
use super::super::catalog::V5P;
use super::super::layout::v5p_topology;
use super::super::node::NodeId;
use super::super::noise::mix;
use super::super::physics::PodActivity;
use super::{PageText, families, pod_labels};

/// A chip, as its container's or as its node's.
struct Chip {
    of_node: bool,
    activity: PodActivity,
}

type Row = super::LabelRow<Chip>;

impl World {
    pub(super) fn tpu_page(&self, id: NodeId, at: Moment) -> String {
        let node = &self.nodes[id];
        let spec = node.spec();
        let topology = if node.pool == V5P {
            v5p_topology(node.slice_hosts)
        } else {
            "2x4"
        };
        let instance = mix(node.uid, 4) % 9_000_000_000_000_000_000 + 1_000_000_000_000;
        let mut rows = Vec::with_capacity(node.units.len() * 2);
        let mut requests = Vec::new();
        let mut pods = BTreeSet::new();
        for unit in 0..node.units.len() {
            let row = |of_node, tail| Row {
                labels: format!(
                    "accelerator_id=\"{instance}-{unit}\",make=\"cloud-tpu\",model=\"{}\",tpu_topology=\"{topology}\"",
                    spec.model
                ),
                tail,
                of: Chip {
                    of_node,
                    activity: self.unit_activity(node, unit, at),
                },
            };
            if let Some(holder) = self.holder(id, unit) {
                let labels = pod_labels(&holder);
                if pods.insert(&holder.0.key) {
                    requests.push((labels[1..].to_owned(), holder.0.units.len() as f64));
                }
                rows.push(row(false, labels));
            }
            rows.push(row(true, String::new()));
        }
        let mut page = PageText::of(rows);
        let total = f64::from(spec.device_mib) * 1_048_576.0;
        let ratio = |value: f64| (value * 1e4).round() / 100.0;
        let used = |row: &Row| (total * row.of.activity.memory / 65_536.0).round() * 65_536.0;
        let of_pod = |row: &Row, value: f64| (!row.of.of_node).then_some(value);
        let of_node = |row: &Row, value: f64| row.of.of_node.then_some(value);
        // Some metrics exist only while a workload exposes them.
        let awake = |row: &Row, value: Option<f64>| value.filter(|_| row.of.activity.awake);
        families! { page:
            "duty_cycle" gauge "Percent of time over the past sample period during which the accelerator was processing." = |r| awake(r, of_pod(r, ratio(r.of.activity.util)));
            "duty_cycle_node" gauge "Percent of time during which the node's accelerator was processing." = |r| awake(r, of_node(r, ratio(r.of.activity.util)));
            "tensorcore_utilization" gauge "Percent of the tensor core in use." = |r| of_pod(r, ratio(r.of.activity.tensor));
            "tensorcore_utilization_node" gauge "Percent of the tensor core in use, by node." = |r| of_node(r, ratio(r.of.activity.tensor));
            "memory_bandwidth_utilization" gauge "Percent of the memory bandwidth in use." = |r| of_pod(r, ratio(r.of.activity.dram));
            "memory_bandwidth_utilization_node" gauge "Percent of the memory bandwidth in use, by node." = |r| of_node(r, ratio(r.of.activity.dram));
            "memory_used" gauge "Accelerator memory in use, in bytes." = |r| awake(r, of_pod(r, used(r)));
            "memory_used_node" gauge "Accelerator memory in use by node, in bytes." = |r| awake(r, of_node(r, used(r)));
            "memory_total" gauge "Accelerator memory in all, in bytes." = |r| awake(r, of_pod(r, total));
            "memory_total_node" gauge "Accelerator memory in all by node, in bytes." = |r| of_node(r, total);
        }
        if !requests.is_empty() {
            let help = "Number of accelerators requested by the container.";
            page.head("accelerator_request", "gauge", help);
        }
        for (labels, units) in requests {
            let resource = ",resource_name=\"google.com/tpu\"";
            page.line("accelerator_request", &[&labels, resource], units);
        }
        let help = "Whether the node's token broker answers.";
        page.head("node_token_broker_status", "gauge", help);
        page.text.push_str("node_token_broker_status 1\n");
        page.text
    }
}
