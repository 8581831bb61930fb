//! The page of a kind of sources: how many answer, and each source that does not.

use std::sync::Arc;

use model::fleet::observe::{SourceHealth, SourceState};
use model::fleet::skipped_series::{SkipReason, SkippedSeries};
use model::fleet::source_errors::SourceErrors;
use table::Facts;
use table::column::Row;
use table::kinds::sources::{
    is_well, live_of, message, not_visible, sources, state_sign, words_of,
};
use table::role::Role;

use super::Description;

/// The page of a row that combines several sources; `None` when none of these sources is left.
pub fn sources_of_kind(facts: &Facts, row: Row) -> Option<Description> {
    let all = || sources(facts, row);
    let mut table = Description {
        title: format!("sources of {}", all().next()?.kind),
        ..Description::default()
    };
    let worst = all().map(|source| source.state).max()?;
    let (live, readable) = live_of(all());
    table.words(
        "state",
        format!("{live} of {readable} live"),
        state_sign(worst).1,
    );
    if let Some(hidden) = not_visible(all()) {
        table.words("rights", hidden, Role::Muted);
    }
    for source in all().filter(|source| !is_well(source)) {
        let (role, word) = words_of(source);
        let message = message(facts, source);
        table.words(word, format!("{}: {message}", source.name), role);
    }
    errors_and_skipped(&mut table, facts, &all().collect::<Vec<_>>());
    table.words("", "enter lists each of them", Role::Muted);
    Some(table)
}

/// Adds the failures of one source, or of several, each failure then with the source's name; and the metrics that were skipped.
pub(super) fn errors_and_skipped(table: &mut Description, facts: &Facts, all: &[&SourceHealth]) {
    // What a user may not read is no failure.
    let read = all
        .iter()
        .filter(|one| one.state != SourceState::NotVisible);
    let all: &[&SourceHealth] = &read.copied().collect::<Vec<_>>();
    let errors = match all {
        [one] => SourceErrors {
            count: one.errors,
            last: Arc::clone(&one.last_errors),
        },
        _ => SourceErrors::sum(
            all.iter()
                .map(|one| (&*one.name, one.errors, &*one.last_errors)),
        ),
    };
    if errors.count > 0 {
        let failed = format!("{} requests failed since stokehold started", errors.count);
        table.words("errors", failed, Role::Text);
    }
    for error in errors.last.iter() {
        let (clock, age) = (error.at.clock(), facts.now.since(error.at));
        table.words(
            "",
            format!("{clock}, {age} ago: {}", error.message),
            Role::Text,
        );
    }
    let counts = all.iter().filter_map(|one| one.series_skipped);
    let total = counts.map(u64::from).reduce(|sum, one| sum + one);
    table.words_if_any("skipped", total);
    let listed = SkippedSeries::sum(all.iter().flat_map(|one| one.skipped.iter()));
    for reason in SkipReason::ALL {
        let of = listed.iter().filter(|one| one.reason == reason);
        let names: Vec<String> = of
            .map(|one| format!("{} ×{}", one.metric, one.series))
            .collect();
        let why = match reason {
            SkipReason::NoMapping => "metrics that it does not use",
            SkipReason::Filtered => "rows that its dialect leaves out",
            SkipReason::NoDevice => "no device in the labels",
        };
        if !names.is_empty() {
            table.words("", format!("{why}: {}", names.join(", ")), Role::Text);
        }
    }
    let named: u64 = listed.iter().map(|one| u64::from(one.series)).sum();
    let rest = total.unwrap_or(0).saturating_sub(named);
    if named > 0 && rest > 0 {
        table.words("", format!("and {rest} more series or lines"), Role::Muted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::describe::Line;
    use model::base::Name;
    use std::time::Duration;

    #[test]
    fn errors_and_skipped_metrics_are_named() {
        let facts = table::sample::facts();
        let mut one = facts.fleet.sources[0].clone();
        one.name = Name::new("dcgm a");
        one.series_skipped = Some(14);
        let skip = |metric: &str, series, reason| SkippedSeries {
            metric: Name::new(metric),
            series,
            reason,
        };
        one.skipped = Arc::new([
            skip("DCGM_X", 8, SkipReason::NoMapping),
            skip("DCGM_Y", 2, SkipReason::NoDevice),
            skip("DCGM_Z", 1, SkipReason::NoMapping),
        ]);
        let mut errors = SourceErrors::default();
        let at = |seconds| facts.now.minus(Duration::from_secs(seconds));
        errors.add(at(300), "timeout");
        errors.add(at(60), "refused");
        (one.errors, one.last_errors) = (errors.count, errors.last);
        let mut other = one.clone();
        other.name = Name::new("dcgm b");
        let lines = |all: &[&SourceHealth]| {
            let mut table = Description::default();
            errors_and_skipped(&mut table, &facts, all);
            let lines = table.lines.iter().filter_map(|line| match line {
                Line::Words(label, words, _) => Some(format!("{label}|{words}")),
                _ => None,
            });
            lines.collect::<Vec<String>>()
        };
        let (first, second) = (at(60).clock(), at(300).clock());
        let wanted = [
            "errors|2 requests failed since stokehold started",
            &format!("|{first}, 1m ago: refused"),
            &format!("|{second}, 5m ago: timeout"),
            "skipped|14",
            "|metrics that it does not use: DCGM_X ×8, DCGM_Z ×1",
            "|no device in the labels: DCGM_Y ×2",
            "|and 3 more series or lines",
        ];
        assert_eq!(lines(&[&one]), wanted);
        let wanted = [
            "errors|4 requests failed since stokehold started",
            &format!("|{first}, 1m ago: dcgm a: refused"),
            &format!("|{first}, 1m ago: dcgm b: refused"),
            &format!("|{second}, 5m ago: dcgm a: timeout"),
            &format!("|{second}, 5m ago: dcgm b: timeout"),
            "skipped|28",
            "|metrics that it does not use: DCGM_X ×16, DCGM_Z ×2",
            "|no device in the labels: DCGM_Y ×4",
            "|and 6 more series or lines",
        ];
        assert_eq!(lines(&[&one, &other]), wanted);
    }
}
