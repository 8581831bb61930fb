//! dcgm-exporter's page: a node's NVIDIA devices, MIG instances included.

use model::base::Moment;

use super::super::World;
use super::super::catalog::MIG;
use super::super::node::{NodeId, SimNode};
use super::super::noise::{mix, unit, uuid};
use super::super::physics::{DeviceSample, PodActivity};
use super::super::render::NVIDIA_DRIVER;
use super::{PageText, families, pod_labels};

/// A device, or a MIG instance of one.
struct DcgmDevice {
    sample: DeviceSample,
    /// Set for an instance: what it does and its memory in MiB.
    slice: Option<(PodActivity, f64)>,
    gpu: usize,
}

type Row = super::LabelRow<DcgmDevice>;

impl World {
    /// The uuid of a physical NVIDIA device.
    pub(in super::super) fn gpu_uuid(node: &SimNode, gpu: usize) -> String {
        format!("GPU-{}", uuid(mix(node.uid, 500 + gpu as u64)))
    }

    fn rows(&self, id: NodeId, at: Moment) -> Vec<Row> {
        let node = &self.nodes[id];
        let spec = node.spec();
        let mut rows = Vec::with_capacity(node.units.len());
        for gpu in 0..spec.per_node as usize {
            if node.devices[gpu].vanished.is_some_and(|since| since <= at) {
                continue;
            }
            let sample = self.sample(id, gpu, at);
            let device = format!(
                "gpu=\"{gpu}\",UUID=\"{}\",pci_bus_id=\"{}\",device=\"nvidia{gpu}\",modelName=\"{}\"",
                Self::gpu_uuid(node, gpu),
                pci(gpu),
                spec.model,
            );
            let host = format!(
                "Hostname=\"{}\",DCGM_FI_DRIVER_VERSION=\"{NVIDIA_DRIVER}\"",
                node.name
            );
            let units: Vec<usize> = (0..node.units.len())
                .filter(|unit| usize::from(node.units[*unit].gpu) == gpu)
                .collect();
            for unit in units {
                let part = node.units[unit];
                let holder = self
                    .holder(id, unit)
                    .filter(|_| self.staged.unlabelled != Some(id));
                let pod = holder.map_or_else(String::new, |holder| pod_labels(&holder));
                let mut row = Row {
                    labels: format!("{device},{host}"),
                    tail: pod,
                    of: DcgmDevice {
                        sample,
                        slice: None,
                        gpu,
                    },
                };
                if !spec.mig {
                    rows.push(row);
                    continue;
                }
                let (profile, memory) = if part.resource == 0 {
                    ("1g.10gb", 9_728.0)
                } else {
                    ("2g.20gb", 19_968.0)
                };
                row.labels = format!(
                    "{device},GPU_I_PROFILE=\"{profile}\",GPU_I_ID=\"{}\",{host}",
                    part.instance
                );
                row.of.slice = Some((self.unit_activity(node, unit, at), memory));
                rows.push(row);
            }
        }
        rows
    }

    pub(super) fn dcgm_page(&self, id: NodeId, at: Moment) -> String {
        let mut page = PageText::of(self.rows(id, at));
        let node = &self.nodes[id];
        let spec = node.spec();
        let device = |row: &Row| &node.devices[row.of.gpu];
        let key = |row: &Row| mix(node.uid, 700 + row.of.gpu as u64);
        let up = at.since(node.created).seconds() as f64;
        let [slowdown, shutdown] = match spec.flavor {
            "l4" => [93.0, 96.0],
            _ => [87.0, 92.0],
        };
        // What is read of a device as a whole; its instances have none of their own.
        let whole = |row: &Row, value: f64| row.of.slice.is_none().then_some(value);
        // Instances repeat device-level values, read one after another: not quite equal.
        let drift = |row: &Row| {
            if row.of.slice.is_some() {
                1.0 + 0.03 * unit(mix(key(row), row.labels.len() as u64 + at.millis() as u64))
            } else {
                1.0
            }
        };
        let millijoules = |row: &Row| {
            let device = device(row);
            let since = at.millis() - device.energy_at.millis();
            ((device.energy + device.draw * since.max(0) as f64 / 1000.0) * 1000.0).round()
        };
        let xid = |row: &Row| device(row).xid.filter(|(_, since)| *since <= at);
        let code = |row: &Row| xid(row).map_or(0, |(code, _)| code);
        let in_window = |row: &Row| {
            let recent = xid(row).filter(|(_, since)| at.since(*since).seconds() < 300);
            recent.map(|_| 1.0)
        };
        let xid_labels = |row: &Row| {
            format!(
                ",err_code=\"{0}\",err_msg=\"{1}\"",
                code(row),
                xid_text(code(row))
            )
        };
        let window_labels =
            |row: &Row| format!(",window_size_in_ms=\"300000\",xid=\"{}\"", code(row));
        let used = |row: &Row| match row.of.slice {
            Some((activity, memory)) => (memory * activity.memory).round().max(12.0),
            None => row.of.sample.memory_mib,
        };
        let total = |row: &Row| {
            let device = f64::from(spec.device_mib);
            row.of.slice.map_or(device, |(_, memory)| memory + 88.0)
        };
        let kept = |row: &Row| row.of.slice.map_or(f64::from(spec.reserved_mib), |_| 88.0);
        let hot_since = self.options.at.minus(super::super::seconds(9_000));
        let hot_seconds = match self.hot_rack() == Some(node.rack) && node.rack_position >= 19 {
            true => at.since(hot_since.max(node.created)).seconds() as f64,
            false => 0.0,
        };
        families! { page:
            "DCGM_FI_DEV_SM_CLOCK" gauge "SM clock in MHz." = |r| r.of.sample.sm_mhz;
            "DCGM_FI_DEV_MEM_CLOCK" gauge "Memory clock in MHz." = |r| r.of.sample.memory_mhz;
            "DCGM_FI_DEV_MEMORY_TEMP" gauge "Memory temperature in C." = |r| r.of.sample.memory_celsius;
            "DCGM_FI_DEV_GPU_TEMP" gauge "GPU temperature in C." = |r| r.of.sample.celsius;
            "DCGM_FI_DEV_SLOWDOWN_TEMP" gauge "Temperature at which the GPU slows down, in C." = |_| slowdown;
            "DCGM_FI_DEV_SHUTDOWN_TEMP" gauge "Temperature at which the GPU shuts down, in C." = |_| shutdown;
            "DCGM_FI_DEV_POWER_USAGE" gauge "Power draw in W." = |r| (r.of.sample.watts * drift(r) * 1000.0).round() / 1000.0;
            "DCGM_FI_DEV_ENFORCED_POWER_LIMIT" gauge "Power limit in force in W." = |_| spec.limit_watts;
            "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION" counter "Energy used since the driver was loaded, in mJ." = millijoules;
            "DCGM_FI_DEV_PCIE_REPLAY_COUNTER" counter "PCIe retries." = |r| (up * unit(mix(key(r), 5)).powi(12) / 3600.0).floor();
            "DCGM_FI_DEV_GPU_UTIL" gauge "GPU utilization in %." = |r| whole(r, (r.of.sample.util * 100.0).round());
            "DCGM_FI_DEV_MEM_COPY_UTIL" gauge "Memory controller utilization in %." = |r| whole(r, (r.of.sample.dram * 88.0).round());
            "DCGM_FI_DEV_ENC_UTIL" gauge "Encoder utilization in %." = |r| whole(r, 0.0);
            "DCGM_FI_DEV_DEC_UTIL" gauge "Decoder utilization in %." = |r| whole(r, 0.0);
            "DCGM_FI_DEV_XID_ERRORS" gauge "Value of the last XID seen." {xid_labels} = |r| f64::from(code(r));
            "DCGM_EXP_XID_ERRORS_COUNT" counter "XIDs within the window." {window_labels} = in_window;
            "DCGM_FI_DEV_FB_FREE" gauge "Framebuffer memory free, in MiB." = |r| (total(r) - kept(r) - used(r)).max(0.0);
            "DCGM_FI_DEV_FB_USED" gauge "Framebuffer memory used, in MiB." = used;
            "DCGM_FI_DEV_FB_RESERVED" gauge "Framebuffer memory reserved, in MiB." = kept;
            "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL" counter "Single-bit volatile ECC errors." = |r| f64::from(device(r).single_bit);
            "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL" counter "Double-bit volatile ECC errors." = |r| f64::from(device(r).double_bit);
            "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS" counter "Rows remapped for uncorrectable errors." = |r| f64::from(device(r).remapped);
            "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS" counter "Rows remapped for correctable errors." = |r| f64::from(device(r).remapped_soft);
            "DCGM_FI_DEV_ROW_REMAP_FAILURE" gauge "Whether remapping of rows has failed." = |r| f64::from(u8::from(device(r).remap_failed));
            "DCGM_FI_DEV_CLOCKS_EVENT_REASONS" gauge "Why clocks are lowered, as a bit mask." = |r| f64::from(r.of.sample.throttle);
            "DCGM_FI_DEV_POWER_VIOLATION" counter "Throttling time for power, in ns." = |r| (up * unit(mix(key(r), 6)) * 2.0e7).round();
            "DCGM_FI_DEV_THERMAL_VIOLATION" counter "Throttling time for heat, in ns." = |r| (hot_seconds * 3.1e8 * (0.4 + 0.6 * unit(mix(key(r), 7)))).round();
            "DCGM_FI_DEV_VGPU_LICENSE_STATUS" gauge "vGPU license status." = |_| 0.0;
        }
        if spec.link > 0.0 && node.pool != MIG {
            families! { page:
                "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL" counter "NVLink bandwidth over all lanes." = |r| (r.of.sample.link / 1.024e6).round();
            }
        }
        // The ratio of the device, or of the instance.
        let ratio = |row: &Row, of_device: f64, of_slice: fn(&PodActivity) -> f64| {
            let slice = row.of.slice.map(|(activity, _)| of_slice(&activity));
            (slice.unwrap_or(of_device) * 1e6).round() / 1e6
        };
        families! { page:
            "DCGM_FI_PROF_GR_ENGINE_ACTIVE" gauge "Ratio of time the graphics engine is active." = |r| ratio(r, r.of.sample.util * 0.995, |a| a.util);
            "DCGM_FI_PROF_SM_ACTIVE" gauge "Ratio of cycles an SM has a warp assigned." = |r| ratio(r, r.of.sample.sm, |a| a.sm);
            "DCGM_FI_PROF_SM_OCCUPANCY" gauge "Ratio of warps resident on an SM." = |r| ratio(r, r.of.sample.occupancy, |a| a.sm * 0.44);
            "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE" gauge "Ratio of cycles the tensor pipe is active." = |r| ratio(r, r.of.sample.tensor, |a| a.tensor);
            "DCGM_FI_PROF_DRAM_ACTIVE" gauge "Ratio of cycles the memory interface is active." = |r| ratio(r, r.of.sample.dram, |a| a.dram);
            "DCGM_FI_PROF_PCIE_TX_BYTES" gauge "PCIe bytes sent a second." = |r| whole(r, r.of.sample.pcie_tx.round());
            "DCGM_FI_PROF_PCIE_RX_BYTES" gauge "PCIe bytes received a second." = |r| whole(r, r.of.sample.pcie_rx.round());
        }
        page.text
    }
}

/// PCI address of the n-th device.
pub(in super::super) fn pci(gpu: usize) -> String {
    const BUSES: [u8; 8] = [0x10, 0x16, 0x49, 0x4d, 0x8a, 0x8f, 0xc6, 0xca];
    format!("00000000:{:02X}:00.0", BUSES[gpu % 8])
}

fn xid_text(code: u16) -> &'static str {
    match code {
        0 => "No Error",
        48 => "Double Bit ECC Error",
        63 => "GPU memory remapping event",
        79 => "GPU has fallen off the bus",
        94 => "Contained memory error",
        _ => "Unknown Error",
    }
}
