//! The exporter room: pages of each dialect give the readings that their numbers mean.

use stokehold::base::{Moment, Names, ObjectKey};
use stokehold::exporter::{Dialects, Read, Target, read};
use stokehold::fleet::reading::{Reading, Scope};
use stokehold::fleet::signal::Signal;

/// Reads a page as no particular target's.
fn page(text: &str) -> Read {
    read(
        &Dialects::builtin(),
        text.as_bytes(),
        &Target::default(),
        &mut Names::default(),
    )
}

fn of(read: &Read, scope: Scope) -> Vec<&Reading> {
    read.readings
        .iter()
        .filter(|reading| reading.scope == scope)
        .collect()
}

/// The value, to nine figures: scales are decimal, doubles are not.
fn value(reading: &Reading, signal: Signal) -> Option<f64> {
    reading
        .signals
        .get(signal)
        .map(|value| format!("{value:.9e}").parse().expect("a number"))
}

#[test]
fn dcgm_units_and_labels() {
    let read = page(include_str!("exporters/dcgm.prom"));
    assert_eq!(read.report.dialect.as_deref(), Some("dcgm"));
    assert_eq!(read.readings.len(), 2);
    let [busy, idle] = &*of(&read, Scope::Device) else {
        panic!("{:?}", read.readings)
    };
    assert_eq!(busy.index, Some(0));
    assert_eq!(
        busy.uuid.as_deref(),
        Some("GPU-a0000000-0000-4000-8000-000000000000")
    );
    assert_eq!(busy.host.as_deref(), Some("exporter-x1"));
    assert_eq!(busy.model.as_deref(), Some("NVIDIA H100 80GB HBM3"));
    assert_eq!(busy.driver.as_deref(), Some("570.86.15"));
    assert_eq!(busy.pci.as_deref(), Some("00000000:19:00.0"));
    assert_eq!(busy.pod, Some(ObjectKey::new("nlp", "llm-0")));
    assert_eq!(busy.container.as_deref(), Some("train"));
    for (signal, want) in [
        (Signal::Util, 0.97),
        (Signal::TensorActive, 0.412),
        (Signal::Temp, 61.0),
        (Signal::MemTemp, 74.0),
        (Signal::Power, 652.125),
        (Signal::Energy, 4500.0),
        (Signal::SmClock, 1.98e9),
        (Signal::MemUsed, 61000.0 * 1_048_576.0),
        (Signal::MemFree, 20000.0 * 1_048_576.0),
        (Signal::MemTotal, 81559.0 * 1_048_576.0),
        (Signal::Nvlink, 2.56e8),
        (Signal::PcieTx, 1.5e9),
        (Signal::XidLast, 0.0),
    ] {
        let want: f64 = format!("{want:.9e}").parse().expect("a number");
        assert_eq!(value(busy, signal), Some(want), "{}", signal.name());
    }
    assert_eq!(busy.signals.get(Signal::MemUsedRatio), Some(61.0 / 81.0));
    assert_eq!(idle.pod, None);
    assert_eq!(value(idle, Signal::MemTemp), None, "0 is unknown");
    assert_eq!(value(idle, Signal::Util), Some(0.0));
    assert_eq!(value(idle, Signal::XidLast), Some(79.0));
    assert_eq!(value(idle, Signal::Energy), None);
    assert_eq!(read.report.series_skipped, 1, "MEM_COPY_UTIL");
    assert_eq!(read.report.bad_lines, 0);
    assert_eq!(read.report.messages, Vec::<String>::new());
    let _ = Moment::from_millis(0);
}
