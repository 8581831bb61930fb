//! Fuzzing of the exposition parser and the dialects.
//!
//! `fuzz_exposition` is the body: under cargo-fuzz, `fuzz_target!(|data: &[u8]| fuzz_exposition(data))`; in
//! `cargo test`, a fixed number of mutations of the sample pages from a fixed seed.

use std::sync::LazyLock;

use exporter::{Dialects, Limits, PageSource, read, scan};
use model::base::Names;

/// Reads arbitrary bytes in every way there is; panics when an invariant does not hold.
pub fn fuzz_exposition(data: &[u8]) {
    static DIALECTS: LazyLock<Dialects> = LazyLock::new(Dialects::builtin);
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
    let names = DIALECTS.iter().map(|dialect| Some(&*dialect.name));
    for dialect in names.chain([None]) {
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
            }
        }
        for total in &found.totals {
            assert!(total.reading < found.readings.len());
        }
    }
}

/// Pages to start from.
const SEEDS: &[&[u8]] = &[
    include_bytes!("pages/dcgm.prom"),
    include_bytes!("pages/dcgm-mig.prom"),
    include_bytes!("pages/dcgm-shared.prom"),
    include_bytes!("pages/amd-cpx.prom"),
    include_bytes!("pages/tpu.prom"),
    include_bytes!("pages/gke-gpu.prom"),
    b"{\"a.b\",c=\"d\\n\\\"\"} +Inf 1700000000.5 # {t=\"x\"} 1\n# EOF\n",
];

/// Bits of text that parsers trip over.
const BITS: &[&[u8]] = &[
    b"{",
    b"}",
    b"\"",
    b"\\",
    b",",
    b"=",
    b"#",
    b" ",
    b"\n",
    b"\r",
    b"\t",
    b"\0",
    b"\xff",
    b"\xf0\x9f",
    b"NaN",
    b"-Inf",
    b"1e999",
    b"-",
    b"9223372036854775807",
    b"1.4e14",
    b"pod=\"\"",
    b"GPU_I_ID=\"-1\"",
    b"gpu=\"4294967296\"",
    b"# TYPE",
    b"\\n",
    b"0",
];

#[test]
fn mutated_pages_keep_the_invariants() {
    // xorshift64*: the same mutations on every machine.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move |below: usize| {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % below.max(1)
    };
    for _ in 0..300 {
        let seed = SEEDS[next(SEEDS.len())];
        let from = next(seed.len());
        let mut page = seed[from..(from + 1 + next(3000)).min(seed.len())].to_vec();
        for _ in 0..1 + next(8) {
            let at = next(page.len() + 1);
            match next(5) {
                0 => page.truncate(at),
                1 => {
                    let bit = BITS[next(BITS.len())];
                    page.splice(at..at, bit.iter().copied());
                }
                2 => {
                    let end = (at + next(40)).min(page.len());
                    page.drain(at..end);
                }
                3 => {
                    if let Some(byte) = page.get_mut(at) {
                        *byte ^= 1 << next(8);
                    }
                }
                _ => {
                    let end = (at + next(400)).min(page.len());
                    let copy = page[at..end].to_vec();
                    page.extend_from_slice(&copy);
                }
            }
        }
        fuzz_exposition(&page);
    }
}
