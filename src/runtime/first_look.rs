//! Progress of the first snapshot: what has answered, what is still pending, and why nothing has.

use std::time::Duration;

use model::base::{Exit, Failure};
use model::fleet::observe::{LostKind, Table};
use model::fleet::queue::QueueSystem;
use model::fleet::sight::HELP;
use model::fleet::{Fleet, Known};
use table::Needs;

/// How long the first snapshot waits for the last few exporters while none of them answers, so that a hanging one blocks no
/// command.
const LULL: Duration = Duration::from_secs(5);

/// The same while many are pending: then the server or the network is slow.
const LONG_LULL: Duration = Duration::from_secs(10);

/// True once every exporter pod is among the sources; also where pods cannot be listed.
pub(super) fn has_found_all(fleet: &Fleet) -> bool {
    fleet.exporters_found || !matches!(fleet.known(Table::Pods), Known::Live)
}

/// Number of needed tables that are listed, absent or lost, and of all needed tables.
pub(super) fn listed(fleet: &Fleet, needs: &Needs) -> (usize, usize) {
    let over = needs
        .tables
        .iter()
        .filter(|table| !matches!(fleet.known(**table), Known::Waiting));
    (over.count(), needs.tables.len())
}

/// Number of exporters (or Prometheus in their place) that have answered or failed, and of all.
pub(super) fn readings(fleet: &Fleet) -> (usize, usize) {
    let all = || fleet.sources.iter().filter(|row| row.gives_readings());
    (all().filter(|row| row.has_spoken()).count(), all().count())
}

/// How long to wait while no further exporter answers; the argument is (answered, all).
pub(super) fn lull((answered, all): (usize, usize)) -> Duration {
    let few = (all / 20).max(2);
    if all.saturating_sub(answered) <= few {
        LULL
    } else {
        LONG_LULL
    }
}

/// True while Prometheus has not answered: one answer covers a whole fleet and may take long.
pub(super) fn waits_for_prometheus(fleet: &Fleet) -> bool {
    let mut sources = fleet.sources.iter();
    sources.any(|row| row.kind.as_str() == "prometheus" && !row.has_spoken())
}

/// True once every workload pending in a Kueue queue has its position.
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

/// Why nothing could be listed: the server is unreachable, or the missing rights.
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
