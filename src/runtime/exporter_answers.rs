//! How many exporters have answered.

use model::fleet::observe::Table;
use model::fleet::{Fleet, TableState};

/// True once every exporter pod is among the sources; also where pods cannot be listed.
pub(super) fn has_found_all(fleet: &Fleet) -> bool {
    fleet.exporters_found || !matches!(fleet.visibility(Table::Pods), TableState::Live)
}

/// Number of exporters (or Prometheus in their place) that have answered or failed, and of all.
pub(super) fn readings(fleet: &Fleet) -> (usize, usize) {
    let all = || fleet.sources.iter().filter(|row| row.gives_readings());
    (all().filter(|row| row.has_spoken()).count(), all().count())
}
