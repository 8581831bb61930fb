//! One page, four paths: read at the pod's address, through the API server's pod proxy, and from a Prometheus that scrapes with
//! honorLabels and one that scrapes without. The readings and whose a device is are the same.

use std::collections::BTreeMap;
use std::thread::scope;

use serde_json::{Value, json};

use super::plane::{HttpAnswer, calm, home, stokehold};
use super::truth::text;

/// The readings that are compared: those that the exporter's page and a Prometheus' present value both give.
const LISTED: [&str; 20] = [
    "util_ratio",
    "tensor_active_ratio",
    "dram_active_ratio",
    "mem_used_bytes",
    "mem_free_bytes",
    "mem_reserved_bytes",
    "mem_total_bytes",
    "mem_used_ratio",
    "temp_celsius",
    "mem_temp_celsius",
    "power_watts",
    "power_limit_watts",
    "energy_joules_total",
    "sm_clock_hz",
    "mem_clock_hz",
    "pcie_tx_bytes_per_s",
    "pcie_rx_bytes_per_s",
    "pcie_replay_total",
    "xid_last",
    "remapped_rows_uncorrectable",
];

/// Pools of the small fleet, which both of Prometheus' jobs scrape.
const POOLS: [&str; 4] = ["h100", "gb200", "a100", "l4"];

/// Rows of the small fleet's devices and slices as these settings read them: identity, holder and the listed readings.
fn read(settings: &str) -> BTreeMap<String, Value> {
    let home = home(settings);
    let answer = HttpAnswer::whole(
        stokehold("live-viewer", &["get", "devices", "-o", "json"])
            .env("XDG_CONFIG_HOME", home.path()),
    );
    let rows = answer
        .rows()
        .into_iter()
        .filter(|row| POOLS.contains(&text(row, "/pool")));
    rows.map(|row| {
        let signals: BTreeMap<&str, &Value> = LISTED.iter().map(|name| (*name, &row["signals"][*name])).collect();
        let seen = json!({
            "uuid": row["uuid"], "model": row["model"], "namespace": row["namespace"], "pod": row["pod"],
            "attribution": row["attribution"], "health": row["health"], "signals": signals,
        });
        (text(&row, "/id").to_owned(), seen)
    })
    .collect()
}

#[test]
#[ignore = "needs the plane of tests/live/up"]
fn every_scrape_path_gives_the_same_readings() {
    let _plane = calm();
    let prometheus = |job: &str| {
        format!(
            "[prometheus]\nurl = \"http://10.255.0.1:9090\"\nmatcher = 'job=\"{job}\"'\nhistory = \"0s\"\n"
        )
    };
    let pages =
        |mode: &str| format!("[prometheus]\ndiscover = false\n[scrape]\nmode = \"{mode}\"\n");
    let roads = [
        ("at the pods", pages("direct")),
        ("through the pod proxy", pages("proxy")),
        ("from Prometheus with honorLabels", prometheus("dcgm")),
        ("from Prometheus without", prometheus("dcgm-relabelled")),
    ];
    let read: Vec<_> = scope(|scope| {
        let tasks: Vec<_> = roads
            .iter()
            .map(|(_, settings)| scope.spawn(|| read(settings)))
            .collect();
        tasks
            .into_iter()
            .map(|task| task.join().expect("read"))
            .collect()
    });
    let first = &read[0];
    let whole = first
        .keys()
        .filter(|id| id.matches('/').count() == 1)
        .count();
    assert_eq!(whole, 128, "devices of the small fleet");
    for name in LISTED {
        let known = first
            .values()
            .filter(|row| row["signals"][name].is_number())
            .count();
        assert!(known >= 64, "{name} is known of {known} rows at the pods");
    }
    for ((path, _), rows) in roads.iter().zip(&read).skip(1) {
        assert_eq!(
            first.keys().collect::<Vec<_>>(),
            rows.keys().collect::<Vec<_>>(),
            "{path}"
        );
        for (id, row) in rows {
            assert_eq!(row, &first[id], "{id} {path}, and at the pod");
        }
    }
}
