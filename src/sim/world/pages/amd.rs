//! AMD's device-metrics-exporter: the Instinct devices of one node.

use std::fmt::Write;

use model::base::Moment;

use super::super::World;
use super::super::node::NodeId;
use super::super::noise::{hex, mix};
use super::super::render::AMD_DRIVER;
use super::{escape, head, number};

impl World {
    pub(super) fn amd_page(&self, id: NodeId, at: Moment) -> String {
        let node = &self.nodes[id];
        let spec = node.spec();
        let mut out = String::with_capacity(8 * 40 * 420);
        let mut rows = Vec::with_capacity(8);
        for gpu in 0..spec.per_node as usize {
            let sample = self.sample(id, gpu, at);
            let (pod, container) = self
                .holder(id, gpu)
                .map_or((None, String::new()), |(pod, container)| {
                    (Some(pod), container)
                });
            let (namespace, name) =
                pod.map_or(("", ""), |pod| (&*pod.key.namespace, &*pod.key.name));
            let labels = format!(
                "card_model=\"102-G30211-0C\",card_series=\"AMD Instinct MI300X OAM\",card_vendor=\"Advanced Micro Devices, Inc. [AMD/ATI]\",cluster_name=\"\",container=\"{}\",deployment_mode=\"baremetal\",driver_version=\"{AMD_DRIVER}\",gpu_compute_partition_type=\"spx\",gpu_id=\"{gpu}\",gpu_memory_partition_type=\"nps1\",gpu_partition_id=\"0\",hostname=\"{}\",job_id=\"\",job_partition=\"\",job_user=\"\",namespace=\"{}\",pod=\"{}\",serial_number=\"{}\",vbios_version=\"113-M3000100-102\"",
                escape(&container),
                node.name,
                escape(namespace),
                escape(name),
                hex(mix(node.uid, 820 + gpu as u64), 12).to_uppercase(),
            );
            let device = &node.devices[gpu];
            let joules = device.energy
                + device.draw * (at.millis() - device.energy_at.millis()).max(0) as f64 / 1000.0;
            rows.push((labels, sample, joules));
        }
        type Row = (String, super::super::physics::Sample, f64);
        type Value<'a> = &'a dyn Fn(&Row) -> f64;
        let mib = f64::from(spec.device_mib);
        head(
            &mut out,
            ("gpu_nodes_total", "Number of GPUs on the node", "gauge"),
        );
        let _ = writeln!(
            out,
            "gpu_nodes_total{{hostname=\"{}\"}} {}",
            node.name,
            rows.len()
        );
        let families: [(&str, &str, &str, Value<'_>); 22] = [
            (
                "gpu_gfx_activity",
                "Graphics engine usage in percent",
                "",
                &|r| (r.1.util * 100.0).round(),
            ),
            (
                "gpu_umc_activity",
                "Memory controller usage in percent",
                "",
                &|r| (r.1.dram * 100.0).round(),
            ),
            (
                "gpu_mma_activity",
                "Multimedia engine usage in percent",
                "",
                &|_| 0.0,
            ),
            ("gpu_total_vram", "Total VRAM of the GPU in MB", "", &|_| {
                mib
            }),
            ("gpu_used_vram", "Used VRAM of the GPU in MB", "", &|r| {
                r.1.memory_mib.max(284.0)
            }),
            ("gpu_free_vram", "Free VRAM of the GPU in MB", "", &|r| {
                mib - r.1.memory_mib.max(284.0)
            }),
            (
                "gpu_junction_temperature",
                "Junction temperature in Celsius",
                "",
                &|r| r.1.celsius,
            ),
            (
                "gpu_memory_temperature",
                "Memory temperature in Celsius",
                "",
                &|r| r.1.memory_celsius,
            ),
            ("gpu_package_power", "Socket power in Watts", "", &|r| {
                r.1.watts.round()
            }),
            (
                "gpu_energy_consumed",
                "Energy consumed by the GPU in uJ",
                "",
                &|r| (r.2 * 1e6).round(),
            ),
            (
                "gpu_clock",
                "Clock of the GPU in MHz",
                ",clock_index=\"0\",clock_type=\"system\"",
                &|r| r.1.sm_mhz,
            ),
            (
                "gpu_clock",
                "",
                ",clock_index=\"8\",clock_type=\"memory\"",
                &|r| r.1.memory_mhz,
            ),
            (
                "gpu_ecc_correct_total",
                "Correctable ECC errors",
                "",
                &|_| 0.0,
            ),
            (
                "gpu_ecc_uncorrect_total",
                "Uncorrectable ECC errors",
                "",
                &|_| 0.0,
            ),
            ("gpu_ecc_deferred_total", "Deferred ECC errors", "", &|_| {
                0.0
            }),
            ("pcie_replay_count", "PCIe replays", "", &|_| 0.0),
            ("pcie_speed", "PCIe link speed in GT/s", "", &|_| 32.0),
            ("pcie_bandwidth", "PCIe bandwidth in Mb/s", "", &|r| {
                ((r.1.pcie_tx + r.1.pcie_rx) / 125_000.0).round()
            }),
            (
                "gpu_violation_ppt_accumulated",
                "Package power tracking violation counter",
                "",
                &|_| 0.0,
            ),
            (
                "gpu_violation_socket_thermal_tracking_accumulated",
                "Socket thermal tracking violation counter",
                "",
                &|_| 0.0,
            ),
            (
                "gpu_prof_sm_active",
                "Ratio of cycles the compute units are active, in percent",
                "",
                &|r| (r.1.sm * 10_000.0).round() / 100.0,
            ),
            (
                "gpu_health",
                "Health of the GPU (0 unhealthy, 1 healthy)",
                "",
                &|_| 1.0,
            ),
        ];
        for (name, help, extra, value) in families {
            if !help.is_empty() {
                let kind = if name.starts_with("gpu_ecc") || name == "pcie_replay_count" {
                    "counter"
                } else {
                    "gauge"
                };
                head(&mut out, (name, help, kind));
            }
            for row in &rows {
                let _ = writeln!(out, "{name}{{{}{extra}}} {}", row.0, number(value(row)));
            }
        }
        out
    }
}
