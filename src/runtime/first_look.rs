//! How far a first look has come: what has answered, what is still waited for, and why nothing has.

use std::time::Duration;

use model::base::{Exit, Failure};
use model::fleet::observe::{LostKind, Table};
use model::fleet::queue::QueueSystem;
use model::fleet::sight::HELP;
use model::fleet::{Fleet, Known};
use table::Needs;

/// How long a first look waits for the last few exporters while none of them answers: one that hangs holds up no command.
const LULL: Duration = Duration::from_secs(5);

/// The same while many are still to answer: then the server, or the way to it, is slow.
const LONG_LULL: Duration = Duration::from_secs(10);

/// True once every exporter that a pod serves is among the sources. Pods that cannot be listed tell of none.
pub(super) fn has_found_all(fleet: &Fleet) -> bool {
    fleet.exporters_found || !matches!(fleet.known(Table::Pods), Known::Live)
}

/// Tables that are listed, absent or lost, of those that are needed.
pub(super) fn listed(fleet: &Fleet, needs: &Needs) -> (usize, usize) {
    let over = needs
        .tables
        .iter()
        .filter(|table| !matches!(fleet.known(**table), Known::Waiting));
    (over.count(), needs.tables.len())
}

/// How many exporters (or Prometheus in their stead) have answered or failed, and of how many.
pub(super) fn readings(fleet: &Fleet) -> (usize, usize) {
    let all = || fleet.sources.iter().filter(|row| row.gives_readings());
    (all().filter(|row| row.has_spoken()).count(), all().count())
}

/// How long none of the exporters that are still to answer may answer; of (those that have, all).
pub(super) fn lull((answered, all): (usize, usize)) -> Duration {
    let few = (all / 20).max(2);
    if all.saturating_sub(answered) <= few {
        LULL
    } else {
        LONG_LULL
    }
}

/// One answer of Prometheus' stands for a whole fleet's and may take its time.
pub(super) fn waits_for_prometheus(fleet: &Fleet) -> bool {
    let mut sources = fleet.sources.iter();
    sources.any(|row| row.kind.as_str() == "prometheus" && !row.has_spoken())
}

/// True once every workload that waits in a queue of Kueue's has its place.
pub(super) fn has_places(fleet: &Fleet) -> bool {
    fleet
        .jobs
        .iter()
        .filter_map(|job| job.admission.as_deref())
        .filter(|known| known.system() == QueueSystem::Kueue && known.queue.is_some())
        .filter(|known| known.seen.reserved_at.is_none() && known.seen.outcome.is_none())
        .all(|known| known.position.is_some())
}

pub(super) fn nothing_known(fleet: &Fleet) -> bool {
    !fleet
        .known
        .values()
        .any(|known| matches!(known, Known::Live))
}

/// Why nothing could be listed: the server that does not answer, or every missing right.
pub(super) fn why_nothing(fleet: &Fleet, server: &str) -> Failure {
    let lost = |kind: LostKind| {
        fleet.known.values().filter_map(move |known| match known {
            Known::Lost(lost) if lost.kind == kind => Some(lost.message.as_str()),
            _ => None,
        })
    };
    let at = if server.is_empty() {
        String::new()
    } else {
        format!("{}: ", server.trim_end_matches('/'))
    };
    if let Some(message) = lost(LostKind::Unreachable).next() {
        return Failure::new(Exit::Unreachable, format!("{at}{message}"));
    }
    if let Some(message) = lost(LostKind::Login).next() {
        return Failure::new(Exit::Refused, format!("{at}{message}"));
    }
    if let Some(hidden) = fleet.not_visible() {
        let message = format!("nothing may be read: {hidden}; {HELP}");
        return Failure::new(Exit::Refused, message);
    }
    let message = format!("{at}the API server has not answered in time");
    Failure::new(Exit::Unreachable, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_few_exporters_are_not_waited_for_as_long_as_many() {
        assert_eq!(lull((0, 1)), LULL);
        assert_eq!(lull((486, 487)), LULL);
        assert_eq!(lull((463, 487)), LULL);
        assert_eq!(lull((400, 487)), LONG_LULL);
        assert_eq!(lull((0, 3)), LONG_LULL);
    }
}
