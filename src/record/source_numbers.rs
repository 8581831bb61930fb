//! Source health as numbers: only the fields that change with each answer.

use model::fleet::observe::SourceHealth;

/// The numbers of a source that change with each answer; -1 for an absent one.
pub(crate) fn numbers_of(health: &SourceHealth) -> [i64; 5] {
    let or = |value: Option<u32>| value.map_or(-1, i64::from);
    [
        or(health.latency_ms),
        health.errors as i64,
        or(health.series_used),
        or(health.series_skipped),
        or(health.calls_per_minute),
    ]
}

pub(crate) fn set_numbers(health: &mut SourceHealth, numbers: [i64; 5]) {
    let or = |value: i64| u32::try_from(value).ok();
    health.latency_ms = or(numbers[0]);
    health.errors = numbers[1] as u64;
    health.series_used = or(numbers[2]);
    health.series_skipped = or(numbers[3]);
    health.calls_per_minute = or(numbers[4]);
}

/// True when only these numbers differ and they can be written as numbers.
pub(crate) fn differs_in_numbers(known: &SourceHealth, now: &SourceHealth) -> bool {
    let whole = now.last_ok.is_some_and(|at| at.millis() % 1000 == 0);
    let mut alike = known.clone();
    alike.last_ok = now.last_ok;
    set_numbers(&mut alike, numbers_of(now));
    (whole || known.last_ok == now.last_ok) && alike == *now
}
