//! The TPU device plugin's page: the chips of one host, per container and per node.

use std::fmt::Write;

use model::base::Moment;

use super::super::World;
use super::super::catalog::V5P;
use super::super::layout::v5p_topology;
use super::super::node::NodeId;
use super::super::noise::mix;
use super::{Family, escape, head, number};

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
        let total = f64::from(spec.device_mib) * 1_048_576.0;
        let chips: Vec<_> = (0..node.units.len())
            .map(|unit| {
                (
                    unit,
                    self.holder(id, unit),
                    self.unit_activity(node, unit, at),
                )
            })
            .collect();
        let mut out = String::with_capacity(chips.len() * 12 * 220);
        let device = |unit: usize| {
            format!(
                "accelerator_id=\"{instance}-{unit}\",make=\"cloud-tpu\",model=\"{}\",tpu_topology=\"{topology}\"",
                spec.model
            )
        };
        type Value<'a> = &'a dyn Fn(&super::super::physics::PodActivity) -> f64;
        let ratio = |value: f64| (value * 1e4).round() / 100.0;
        let families: [(Family, Family, bool, Value<'_>); 5] = [
            (
                (
                    "duty_cycle",
                    "Percent of time over the past sample period during which the accelerator was processing.",
                    "gauge",
                ),
                (
                    "duty_cycle_node",
                    "Percent of time during which the node's accelerator was processing.",
                    "gauge",
                ),
                true,
                &|a| ratio(a.util),
            ),
            (
                (
                    "tensorcore_utilization",
                    "Percent of the tensor core in use.",
                    "gauge",
                ),
                (
                    "tensorcore_utilization_node",
                    "Percent of the tensor core in use, by node.",
                    "gauge",
                ),
                false,
                &|a| ratio(a.tensor),
            ),
            (
                (
                    "memory_bandwidth_utilization",
                    "Percent of the memory bandwidth in use.",
                    "gauge",
                ),
                (
                    "memory_bandwidth_utilization_node",
                    "Percent of the memory bandwidth in use, by node.",
                    "gauge",
                ),
                false,
                &|a| ratio(a.dram),
            ),
            (
                (
                    "memory_used",
                    "Accelerator memory in use, in bytes.",
                    "gauge",
                ),
                (
                    "memory_used_node",
                    "Accelerator memory in use by node, in bytes.",
                    "gauge",
                ),
                true,
                &|a| (total * a.memory / 65_536.0).round() * 65_536.0,
            ),
            (
                (
                    "memory_total",
                    "Accelerator memory in all, in bytes.",
                    "gauge",
                ),
                (
                    "memory_total_node",
                    "Accelerator memory in all by node, in bytes.",
                    "gauge",
                ),
                true,
                &|_| total,
            ),
        ];
        for (own, twin, runtime, value) in families {
            let mut named = false;
            for (unit, holder, activity) in &chips {
                // Runtime metrics exist only while a workload exposes them.
                let Some((pod, container)) = holder else {
                    continue;
                };
                if runtime && !activity.awake {
                    continue;
                }
                if !named {
                    head(&mut out, own);
                    named = true;
                }
                let _ = writeln!(
                    out,
                    "{}{{{},container=\"{}\",namespace=\"{}\",pod=\"{}\"}} {}",
                    own.0,
                    device(*unit),
                    escape(container),
                    escape(&pod.key.namespace),
                    escape(&pod.key.name),
                    number(value(activity))
                );
            }
            let mut named = false;
            for (unit, _, activity) in &chips {
                if runtime && !activity.awake && own.0 != "memory_total" {
                    continue;
                }
                if !named {
                    head(&mut out, twin);
                    named = true;
                }
                let _ = writeln!(
                    out,
                    "{}{{{}}} {}",
                    twin.0,
                    device(*unit),
                    number(value(activity))
                );
            }
        }
        let mut named = false;
        let mut told = std::collections::BTreeSet::new();
        for (_, holder, _) in &chips {
            let Some((pod, container)) = holder else {
                continue;
            };
            if !told.insert(pod.key.clone()) {
                continue;
            }
            if !named {
                head(
                    &mut out,
                    (
                        "accelerator_request",
                        "Number of accelerators requested by the container.",
                        "gauge",
                    ),
                );
                named = true;
            }
            let _ = writeln!(
                out,
                "accelerator_request{{container=\"{}\",namespace=\"{}\",pod=\"{}\",resource_name=\"google.com/tpu\"}} {}",
                escape(container),
                escape(&pod.key.namespace),
                escape(&pod.key.name),
                pod.units.len()
            );
        }
        head(
            &mut out,
            (
                "node_token_broker_status",
                "Whether the node's token broker answers.",
                "gauge",
            ),
        );
        out.push_str("node_token_broker_status 1\n");
        out
    }
}
