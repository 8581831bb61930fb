//! AMD's device-metrics-exporter: the Instinct devices of one node.

use model::base::Moment;

use super::super::World;
use super::super::node::NodeId;
use super::super::noise::{hex, mix};
use super::super::physics::DeviceSample;
use super::super::render::AMD_DRIVER;
use super::{LabelRow, PageText, escape, families};

impl World {
    pub(super) fn amd_page(&self, id: NodeId, at: Moment) -> String {
        let node = &self.nodes[id];
        let spec = node.spec();
        let row = |gpu: usize| {
            let (pod, container) = self.holder(id, gpu).unzip();
            let [namespace, name] =
                pod.map_or([""; 2], |pod| [&*pod.key.namespace, &*pod.key.name]);
            let labels = format!(
                "card_model=\"102-G30211-0C\",card_series=\"AMD Instinct MI300X OAM\",card_vendor=\"Advanced Micro Devices, Inc. [AMD/ATI]\",cluster_name=\"\",container=\"{}\",deployment_mode=\"baremetal\",driver_version=\"{AMD_DRIVER}\",gpu_compute_partition_type=\"spx\",gpu_id=\"{gpu}\",gpu_memory_partition_type=\"nps1\",gpu_partition_id=\"0\",hostname=\"{}\",job_id=\"\",job_partition=\"\",job_user=\"\",namespace=\"{}\",pod=\"{}\",serial_number=\"{}\",vbios_version=\"113-M3000100-102\"",
                escape(container.as_deref().unwrap_or_default()),
                node.name,
                escape(namespace),
                escape(name),
                hex(mix(node.uid, 820 + gpu as u64), 12).to_uppercase(),
            );
            let device = &node.devices[gpu];
            let since = (at.millis() - device.energy_at.millis()).max(0) as f64;
            let joules = device.energy + device.draw * since / 1000.0;
            LabelRow {
                labels,
                tail: String::new(),
                of: (self.sample(id, gpu, at), joules),
            }
        };
        let rows: Vec<LabelRow<(DeviceSample, f64)>> =
            (0..spec.per_node as usize).map(row).collect();
        let mut page = PageText::of(rows);
        page.head("gpu_nodes_total", "gauge", "Number of GPUs on the node");
        let host = format!("hostname=\"{}\"", node.name);
        page.line("gpu_nodes_total", &[&host], f64::from(spec.per_node));
        let mib = f64::from(spec.device_mib);
        let used = |sample: &DeviceSample| sample.memory_mib.max(284.0);
        families! { page:
            "gpu_gfx_activity" gauge "Graphics engine usage in percent" = |r| (r.of.0.util * 100.0).round();
            "gpu_umc_activity" gauge "Memory controller usage in percent" = |r| (r.of.0.dram * 100.0).round();
            "gpu_mma_activity" gauge "Multimedia engine usage in percent" = |_| 0.0;
            "gpu_total_vram" gauge "Total VRAM of the GPU in MB" = |_| mib;
            "gpu_used_vram" gauge "Used VRAM of the GPU in MB" = |r| used(&r.of.0);
            "gpu_free_vram" gauge "Free VRAM of the GPU in MB" = |r| mib - used(&r.of.0);
            "gpu_junction_temperature" gauge "Junction temperature in Celsius" = |r| r.of.0.celsius;
            "gpu_memory_temperature" gauge "Memory temperature in Celsius" = |r| r.of.0.memory_celsius;
            "gpu_package_power" gauge "Socket power in Watts" = |r| r.of.0.watts.round();
            "gpu_energy_consumed" gauge "Energy consumed by the GPU in uJ" = |r| (r.of.1 * 1e6).round();
            "gpu_clock" gauge "Clock of the GPU in MHz" {|_| ",clock_index=\"0\",clock_type=\"system\""} = |r| r.of.0.sm_mhz;
            "gpu_clock" {|_| ",clock_index=\"8\",clock_type=\"memory\""} = |r| r.of.0.memory_mhz;
            "gpu_ecc_correct_total" counter "Correctable ECC errors" = |_| 0.0;
            "gpu_ecc_uncorrect_total" counter "Uncorrectable ECC errors" = |_| 0.0;
            "gpu_ecc_deferred_total" counter "Deferred ECC errors" = |_| 0.0;
            "pcie_replay_count" counter "PCIe replays" = |_| 0.0;
            "pcie_speed" gauge "PCIe link speed in GT/s" = |_| 32.0;
            "pcie_bandwidth" gauge "PCIe bandwidth in Mb/s" = |r| ((r.of.0.pcie_tx + r.of.0.pcie_rx) / 125_000.0).round();
            "gpu_violation_ppt_accumulated" gauge "Package power tracking violation counter" = |_| 0.0;
            "gpu_violation_socket_thermal_tracking_accumulated" gauge "Socket thermal tracking violation counter" = |_| 0.0;
            "gpu_prof_sm_active" gauge "Ratio of cycles the compute units are active, in percent" = |r| (r.of.0.sm * 10_000.0).round() / 100.0;
            "gpu_health" gauge "Health of the GPU (0 unhealthy, 1 healthy)" = |_| 1.0;
        }
        page.text
    }
}
