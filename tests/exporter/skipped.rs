//! Series of a page that become no reading: their metrics, how many, and why.

use exporter::{Dialects, PageSource, ParsedPage, read};
use model::base::Names;
use model::fleet::skipped_series::{SkipReason, SkippedSeries};

use crate::pages::page_of;

/// The skipped series as a text: metric, count, reason.
pub fn skipped(read: &ParsedPage) -> Vec<String> {
    let all = read.report.skipped.iter();
    all.map(|one| format!("{} {} {}", one.metric, one.series, one.reason.name()))
        .collect()
}

#[test]
fn skipped_series_are_listed_by_metric_and_reason_most_series_first() {
    let mut text = String::from("process_a 1\nprocess_b 1\n");
    for gpu in 0..3 {
        text.push_str(&format!(
            "DCGM_FI_DEV_GPU_TEMP{{gpu=\"{gpu}\"}} 40\nDCGM_FI_DEV_OTHER{{gpu=\"{gpu}\"}} 1\n"
        ));
    }
    text.push_str("DCGM_FI_DEV_GPU_TEMP{x=\"1\"} 40\nDCGM_FI_DEV_GPU_TEMP{x=\"2\"} 40\n");
    let read = page_of(
        &text,
        &PageSource {
            dialect: Some("dcgm"),
            ..PageSource::default()
        },
    );
    assert_eq!(
        (read.report.series_used, read.report.series_skipped),
        (3, 7)
    );
    assert_eq!(
        skipped(&read),
        [
            "DCGM_FI_DEV_OTHER 3 no-mapping",
            "DCGM_FI_DEV_GPU_TEMP 2 no-device",
            "process_a 1 no-mapping",
            "process_b 1 no-mapping",
        ]
    );
    let two: Vec<_> = read
        .report
        .skipped
        .iter()
        .chain(&read.report.skipped)
        .collect();
    let sum = SkippedSeries::sum(two);
    assert_eq!(
        (sum.len(), sum[0].series, sum[0].reason),
        (4, 6, SkipReason::NoMapping)
    );
}

#[test]
fn no_more_than_so_many_skipped_metrics_are_listed() {
    let mut text = String::from("DCGM_FI_DEV_GPU_TEMP{gpu=\"0\"} 40\n");
    for number in 0..1000 {
        text.push_str(&format!("other_{number:03} 1\n"));
    }
    text.push_str("other_zzz{a=\"1\"} 1\nother_zzz{a=\"2\"} 1\n");
    let mut names = Names::default();
    let read = read(
        &Dialects::builtin(),
        text.as_bytes(),
        &PageSource::default(),
        &mut names,
    );
    assert_eq!(read.report.series_skipped, 1002);
    assert_eq!(read.report.skipped.len(), SkippedSeries::MOST);
    assert_eq!(skipped(&read)[0], "other_zzz 2 no-mapping");
    assert!(
        names.len() < 100,
        "names of all of them are kept: {}",
        names.len()
    );
}
