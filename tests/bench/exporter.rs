//! Benchmarks of the exporter room, in bytes a second: the scan of a page, and the reading of it.

use std::fmt::Write as _;
use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use exporter::{Dialects, Limits, PageSource, read, scan};
use model::base::Names;

/// A page as one exporter for `devices` devices writes it: 20 families, ten labels a row.
fn page(devices: usize) -> String {
    let mut page = String::new();
    for family in [
        "DEV_SM_CLOCK",
        "DEV_MEM_CLOCK",
        "DEV_MEMORY_TEMP",
        "DEV_GPU_TEMP",
        "DEV_POWER_USAGE",
        "DEV_TOTAL_ENERGY_CONSUMPTION",
        "DEV_PCIE_REPLAY_COUNTER",
        "DEV_GPU_UTIL",
        "DEV_MEM_COPY_UTIL",
        "DEV_ENC_UTIL",
        "DEV_DEC_UTIL",
        "DEV_XID_ERRORS",
        "DEV_FB_FREE",
        "DEV_FB_USED",
        "DEV_FB_RESERVED",
        "DEV_ROW_REMAP_FAILURE",
        "DEV_NVLINK_BANDWIDTH_TOTAL",
        "PROF_GR_ENGINE_ACTIVE",
        "PROF_PIPE_TENSOR_ACTIVE",
        "PROF_DRAM_ACTIVE",
    ] {
        let _ = writeln!(
            page,
            "# HELP DCGM_FI_{family} Help of it.\n# TYPE DCGM_FI_{family} gauge"
        );
        for at in 0..devices {
            let value = if family.starts_with("PROF") {
                format!("0.{:06}", at * 7919 % 1_000_000)
            } else {
                (at * 31 % 100).to_string()
            };
            let _ = writeln!(
                page,
                "DCGM_FI_{family}{{gpu=\"{}\",UUID=\"GPU-{at:08x}-0000-4000-8000-000000000001\",pci_bus_id=\"00000000:19:00.0\",device=\"nvidia{}\",modelName=\"NVIDIA H100 80GB HBM3\",Hostname=\"node-{}\",DCGM_FI_DRIVER_VERSION=\"570.86.15\",container=\"train\",namespace=\"nlp\",pod=\"llm-{at}\"}} {value}",
                at % 8,
                at % 8,
                at / 8,
            );
        }
    }
    page
}

fn pages(c: &mut Criterion) {
    let dialects = Dialects::builtin();
    for devices in [8, 800] {
        let page = page(devices);
        let mut group = c.benchmark_group(format!("{devices} devices"));
        group.throughput(Throughput::Bytes(page.len() as u64));
        group.bench_function("scan", |b| {
            b.iter(|| {
                scan(black_box(page.as_bytes()), Limits::default(), |one| {
                    black_box(one.value);
                })
            });
        });
        group.bench_function("detect", |b| {
            b.iter(|| dialects.detect(black_box(page.as_bytes())).is_some());
        });
        group.bench_function("read", |b| {
            let mut names = Names::default();
            b.iter(|| {
                read(
                    &dialects,
                    black_box(page.as_bytes()),
                    &PageSource::default(),
                    &mut names,
                )
            });
        });
        group.finish();
    }
}

criterion_group!(benches, pages);
criterion_main!(benches);
