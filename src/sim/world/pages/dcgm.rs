//! dcgm-exporter's page: a node's NVIDIA devices, MIG instances included.

use std::fmt::Write;

use model::base::Moment;

use super::super::World;
use super::super::catalog::MIG;
use super::super::node::{Node, NodeId};
use super::super::noise::{mix, unit, uuid};
use super::super::physics::{PodActivity, Sample};
use super::super::render::NVIDIA_DRIVER;
use super::{Family, escape, head, number};

/// One labelled row of the page: a device, or a MIG instance of one.
struct Row {
    labels: String,
    pod: String,
    sample: Sample,
    /// Set for an instance: what it does and its memory in MiB.
    slice: Option<(PodActivity, f64)>,
    gpu: usize,
}

const G: &str = "gauge";
const C: &str = "counter";

impl World {
    /// The uuid of a physical NVIDIA device.
    pub(in super::super) fn gpu_uuid(node: &Node, gpu: usize) -> String {
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
            let tail = format!(
                "Hostname=\"{}\",DCGM_FI_DRIVER_VERSION=\"{NVIDIA_DRIVER}\"",
                node.name
            );
            let units: Vec<usize> = (0..node.units.len())
                .filter(|unit| usize::from(node.units[*unit].gpu) == gpu)
                .collect();
            for unit in units {
                let part = node.units[unit];
                let pod = if self.scenes.unlabelled == Some(id) {
                    String::new()
                } else {
                    self.holder(id, unit)
                        .map_or_else(String::new, |(pod, container)| {
                            format!(
                                ",container=\"{}\",namespace=\"{}\",pod=\"{}\"",
                                escape(&container),
                                escape(&pod.key.namespace),
                                escape(&pod.key.name)
                            )
                        })
                };
                if !spec.mig {
                    rows.push(Row {
                        labels: format!("{device},{tail}"),
                        pod,
                        sample,
                        slice: None,
                        gpu,
                    });
                    continue;
                }
                let (profile, memory) = if part.resource == 0 {
                    ("1g.10gb", 9_728.0)
                } else {
                    ("2g.20gb", 19_968.0)
                };
                let labels = format!(
                    "{device},GPU_I_PROFILE=\"{profile}\",GPU_I_ID=\"{}\",{tail}",
                    part.instance
                );
                let activity = self.unit_activity(node, unit, at);
                rows.push(Row {
                    labels,
                    pod,
                    sample,
                    slice: Some((activity, memory)),
                    gpu,
                });
            }
        }
        rows
    }

    pub(super) fn dcgm_page(&self, id: NodeId, at: Moment) -> String {
        let rows = self.rows(id, at);
        let node = &self.nodes[id];
        let spec = node.spec();
        let mut out = String::with_capacity(rows.len() * 48 * 220 + 4096);
        let mut family = |family: Family,
                          value: &dyn Fn(&Row) -> Option<f64>,
                          extra: &dyn Fn(&Row) -> String| {
            let mut named = false;
            for row in &rows {
                let Some(value) = value(row) else { continue };
                if !named {
                    head(&mut out, family);
                    named = true;
                }
                let _ = writeln!(
                    out,
                    "{}{{{}{}{}}} {}",
                    family.0,
                    row.labels,
                    extra(row),
                    row.pod,
                    number(value)
                );
            }
        };
        let none = |_: &Row| String::new();
        let device = |row: &Row| &node.devices[row.gpu];
        let key = |row: &Row| mix(node.uid, 700 + row.gpu as u64);
        let up = at.since(node.created).seconds() as f64;
        // Instances repeat device-level values, read one after another: not quite equal.
        let drift = |row: &Row| {
            if row.slice.is_some() {
                1.0 + 0.03 * unit(mix(key(row), row.labels.len() as u64 + at.millis() as u64))
            } else {
                1.0
            }
        };

        family(
            ("DCGM_FI_DEV_SM_CLOCK", "SM clock in MHz.", G),
            &|r| Some(r.sample.sm_mhz),
            &none,
        );
        family(
            ("DCGM_FI_DEV_MEM_CLOCK", "Memory clock in MHz.", G),
            &|r| Some(r.sample.memory_mhz),
            &none,
        );
        family(
            ("DCGM_FI_DEV_MEMORY_TEMP", "Memory temperature in C.", G),
            &|r| Some(r.sample.memory_celsius),
            &none,
        );
        family(
            ("DCGM_FI_DEV_GPU_TEMP", "GPU temperature in C.", G),
            &|r| Some(r.sample.celsius),
            &none,
        );
        family(
            (
                "DCGM_FI_DEV_SLOWDOWN_TEMP",
                "Temperature at which the GPU slows down, in C.",
                G,
            ),
            &|_| Some(if spec.flavor == "l4" { 93.0 } else { 87.0 }),
            &none,
        );
        family(
            (
                "DCGM_FI_DEV_SHUTDOWN_TEMP",
                "Temperature at which the GPU shuts down, in C.",
                G,
            ),
            &|_| Some(if spec.flavor == "l4" { 96.0 } else { 92.0 }),
            &none,
        );
        family(
            ("DCGM_FI_DEV_POWER_USAGE", "Power draw in W.", G),
            &|r| Some((r.sample.watts * drift(r) * 1000.0).round() / 1000.0),
            &none,
        );
        family(
            (
                "DCGM_FI_DEV_ENFORCED_POWER_LIMIT",
                "Power limit in force in W.",
                G,
            ),
            &|_| Some(spec.limit_watts),
            &none,
        );
        family(
            (
                "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
                "Energy used since the driver was loaded, in mJ.",
                C,
            ),
            &|r| {
                let device = device(r);
                let since = at.millis() - device.energy_at.millis();
                Some(
                    ((device.energy + device.draw * since.max(0) as f64 / 1000.0) * 1000.0).round(),
                )
            },
            &none,
        );
        family(
            ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "PCIe retries.", C),
            &|r| Some((up * unit(mix(key(r), 5)).powi(12) / 3600.0).floor()),
            &none,
        );
        family(
            ("DCGM_FI_DEV_GPU_UTIL", "GPU utilization in %.", G),
            &|r| r.slice.is_none().then(|| (r.sample.util * 100.0).round()),
            &none,
        );
        family(
            (
                "DCGM_FI_DEV_MEM_COPY_UTIL",
                "Memory controller utilization in %.",
                G,
            ),
            &|r| r.slice.is_none().then(|| (r.sample.dram * 88.0).round()),
            &none,
        );
        family(
            ("DCGM_FI_DEV_ENC_UTIL", "Encoder utilization in %.", G),
            &|r| r.slice.is_none().then_some(0.0),
            &none,
        );
        family(
            ("DCGM_FI_DEV_DEC_UTIL", "Decoder utilization in %.", G),
            &|r| r.slice.is_none().then_some(0.0),
            &none,
        );
        family(
            ("DCGM_FI_DEV_XID_ERRORS", "Value of the last XID seen.", G),
            &|r| {
                Some(
                    device(r)
                        .xid
                        .filter(|(_, since)| *since <= at)
                        .map_or(0.0, |(code, _)| f64::from(code)),
                )
            },
            &|r| {
                let code = device(r)
                    .xid
                    .filter(|(_, since)| *since <= at)
                    .map_or(0, |(code, _)| code);
                format!(",err_code=\"{code}\",err_msg=\"{}\"", xid_text(code))
            },
        );
        family(
            ("DCGM_EXP_XID_ERRORS_COUNT", "XIDs within the window.", C),
            &|r| {
                device(r)
                    .xid
                    .filter(|(_, since)| *since <= at && at.since(*since).seconds() < 300)
                    .map(|_| 1.0)
            },
            &|r| {
                format!(
                    ",window_size_in_ms=\"300000\",xid=\"{}\"",
                    device(r).xid.map_or(0, |(code, _)| code)
                )
            },
        );
        let used = |r: &Row| match r.slice {
            Some((activity, memory)) => (memory * activity.memory).round().max(12.0),
            None => r.sample.memory_mib,
        };
        let total = |r: &Row| {
            r.slice
                .map_or(f64::from(spec.device_mib), |(_, memory)| memory + 88.0)
        };
        let kept = |r: &Row| r.slice.map_or(f64::from(spec.reserved_mib), |_| 88.0);
        family(
            ("DCGM_FI_DEV_FB_FREE", "Framebuffer memory free, in MiB.", G),
            &|r| Some((total(r) - kept(r) - used(r)).max(0.0)),
            &none,
        );
        family(
            ("DCGM_FI_DEV_FB_USED", "Framebuffer memory used, in MiB.", G),
            &|r| Some(used(r)),
            &none,
        );
        family(
            (
                "DCGM_FI_DEV_FB_RESERVED",
                "Framebuffer memory reserved, in MiB.",
                G,
            ),
            &|r| Some(kept(r)),
            &none,
        );
        family(
            (
                "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL",
                "Single-bit volatile ECC errors.",
                C,
            ),
            &|r| Some(f64::from(device(r).single_bit)),
            &none,
        );
        family(
            (
                "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
                "Double-bit volatile ECC errors.",
                C,
            ),
            &|r| Some(f64::from(device(r).double_bit)),
            &none,
        );
        family(
            (
                "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
                "Rows remapped for uncorrectable errors.",
                C,
            ),
            &|r| Some(f64::from(device(r).remapped)),
            &none,
        );
        family(
            (
                "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
                "Rows remapped for correctable errors.",
                C,
            ),
            &|r| Some(f64::from(device(r).remapped_soft)),
            &none,
        );
        family(
            (
                "DCGM_FI_DEV_ROW_REMAP_FAILURE",
                "Whether remapping of rows has failed.",
                G,
            ),
            &|r| Some(f64::from(u8::from(device(r).remap_failed))),
            &none,
        );
        family(
            (
                "DCGM_FI_DEV_CLOCKS_EVENT_REASONS",
                "Why clocks are lowered, as a bit mask.",
                G,
            ),
            &|r| Some(f64::from(r.sample.throttle)),
            &none,
        );
        family(
            (
                "DCGM_FI_DEV_POWER_VIOLATION",
                "Throttling time for power, in ns.",
                C,
            ),
            &|r| Some((up * unit(mix(key(r), 6)) * 2.0e7).round()),
            &none,
        );
        family(
            (
                "DCGM_FI_DEV_THERMAL_VIOLATION",
                "Throttling time for heat, in ns.",
                C,
            ),
            &|r| {
                let hot = self.hot_rack() == Some(node.rack) && node.shelf >= 19;
                let began = self.options.at.minus(super::super::seconds(9_000));
                let span = if hot {
                    at.since(began.max(node.created)).seconds() as f64
                } else {
                    0.0
                };
                Some((span * 3.1e8 * (0.4 + 0.6 * unit(mix(key(r), 7)))).round())
            },
            &none,
        );
        family(
            ("DCGM_FI_DEV_VGPU_LICENSE_STATUS", "vGPU license status.", G),
            &|_| Some(0.0),
            &none,
        );
        if spec.link > 0.0 && node.pool != MIG {
            family(
                (
                    "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL",
                    "NVLink bandwidth over all lanes.",
                    C,
                ),
                &|r| Some((r.sample.link / 1.024e6).round()),
                &none,
            );
        }
        let share = |r: &Row, of_device: f64, of_slice: fn(&PodActivity) -> f64| {
            r.slice
                .map_or(of_device, |(activity, _)| of_slice(&activity))
        };
        let ratio = |value: f64| (value * 1e6).round() / 1e6;
        family(
            (
                "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
                "Ratio of time the graphics engine is active.",
                G,
            ),
            &|r| Some(ratio(share(r, r.sample.util * 0.995, |a| a.util))),
            &none,
        );
        family(
            (
                "DCGM_FI_PROF_SM_ACTIVE",
                "Ratio of cycles an SM has a warp assigned.",
                G,
            ),
            &|r| Some(ratio(share(r, r.sample.sm, |a| a.sm))),
            &none,
        );
        family(
            (
                "DCGM_FI_PROF_SM_OCCUPANCY",
                "Ratio of warps resident on an SM.",
                G,
            ),
            &|r| Some(ratio(share(r, r.sample.occupancy, |a| a.sm * 0.44))),
            &none,
        );
        family(
            (
                "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
                "Ratio of cycles the tensor pipe is active.",
                G,
            ),
            &|r| Some(ratio(share(r, r.sample.tensor, |a| a.tensor))),
            &none,
        );
        family(
            (
                "DCGM_FI_PROF_DRAM_ACTIVE",
                "Ratio of cycles the memory interface is active.",
                G,
            ),
            &|r| Some(ratio(share(r, r.sample.dram, |a| a.dram))),
            &none,
        );
        family(
            ("DCGM_FI_PROF_PCIE_TX_BYTES", "PCIe bytes sent a second.", G),
            &|r| r.slice.is_none().then(|| r.sample.pcie_tx.round()),
            &none,
        );
        family(
            (
                "DCGM_FI_PROF_PCIE_RX_BYTES",
                "PCIe bytes received a second.",
                G,
            ),
            &|r| r.slice.is_none().then(|| r.sample.pcie_rx.round()),
            &none,
        );
        out
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
