//! Pages of exporters.

use std::sync::LazyLock;

use exporter::{Dialects, Limits, PageSource, read, scan};
use model::base::Names;

use super::{Shape, Target, pick};

pub(super) const EXPOSITION: Target = Target {
    name: "exposition",
    tried: 1500,
    body: exposition,
    words: &[
        "# TYPE",
        "# HELP",
        "# EOF",
        "pod=\"\"",
        "namespace=\"ml\"",
        "GPU_I_ID=\"-1\"",
        "gpu=\"4294967296\"",
        "UUID=\"GPU-a\"",
        "_bucket",
        "_sum",
        "_count",
        "_total",
        "le=\"+Inf\"",
        "+Inf",
        "-Inf",
        "NaN",
        "1e999",
        "1.4e14",
        "\\n",
        "\\\"",
        "histogram",
        "counter",
        "DCGM_FI_DEV_GPU_UTIL",
        "DCGM_FI_DEV_FB_USED",
        "DCGM_FI_DEV_XID_ERRORS",
        "Hostname=\"n1\"",
        "modelName=\"NVIDIA H100 80GB HBM3\"",
    ],
    most: 2_000,
    made: others,
};

/// The pages of every dialect that other tests read.
fn others() -> Vec<Vec<u8>> {
    let folder = crate::corpus().join("../../exporter/pages");
    let pages = crate::files(&folder);
    assert!(pages.len() > 10, "no pages in {}", folder.display());
    pages
        .iter()
        .map(|path| std::fs::read(path).expect("can be read"))
        .collect()
}

/// Scans a page under two limits, and reads it as a dialect and as what it is taken for.
fn exposition(data: &[u8]) -> u64 {
    static DIALECTS: LazyLock<Dialects> = LazyLock::new(Dialects::builtin);
    static NAMES: LazyLock<Vec<&str>> =
        LazyLock::new(|| DIALECTS.iter().map(|dialect| &*dialect.name).collect());
    let mut series = 0;
    let met = scan(data, Limits::default(), |one| {
        series += 1;
        assert!(!one.name.is_empty() && one.line >= 1);
    });
    assert_eq!(met.series, series);
    assert!(met.series + met.bad <= met.lines);
    assert!(met.first_bad.len() <= met.bad);
    let tight = Limits {
        bytes: 100,
        line: 40,
        labels: 2,
    };
    scan(data, tight, |_| {});
    let mut shape = Shape::default().count(met.series).count(met.bad);
    for dialect in [Some(NAMES[pick(data, NAMES.len())]), None] {
        let target = PageSource {
            dialect,
            ..PageSource::default()
        };
        let found = read(&DIALECTS, data, &target, &mut Names::default());
        let report = &found.report;
        assert_eq!(report.bad_lines, met.bad);
        assert_eq!(report.series_used + report.series_skipped, met.series);
        for reading in &found.readings {
            for (signal, value) in reading.signals.iter() {
                let ratio = signal.name().ends_with("_ratio");
                assert!(value.is_finite() && (!ratio || (0.0..=1.0).contains(&value)));
                shape = shape.words(signal.name());
            }
        }
        for total in &found.totals {
            assert!(total.reading < found.readings.len());
        }
        shape = shape
            .words(dialect.unwrap_or_default())
            .words(&report.messages.join(" "))
            .count(found.readings.len())
            .count(report.series_used);
    }
    shape.end()
}
