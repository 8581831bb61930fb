//! Progress of the first snapshot: what has answered, what is still pending, and why nothing has.

use std::sync::Arc;
use std::time::Duration;

use model::base::{Exit, Failure};
use model::fleet::observe::LostKind;
use model::fleet::queue::QueueSystem;
use model::fleet::{Fleet, TableState};
use source::scrape_coverage::ScrapedNodes;
use table::{Facts, Needs};

use super::exporter_answers::{has_found_all, readings};
use super::session::Session;

/// Longest wait for the first snapshot. What has not answered by then is unknown.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How long the first snapshot, once its tables are complete, waits for queue positions of pending workloads. A Kueue without
/// them says so at once; a slow one is not waited for.
const ORDER: Duration = Duration::from_millis(1500);

/// Progress of the first snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Coming {
    /// Tables that are listed, absent or lost, and all needed ones.
    pub tables: (usize, usize),
    /// Exporters (or Prometheus in their place) that have answered or failed, and all.
    pub readings: (usize, usize),
}

/// How long the first snapshot waits for the runs of this machine's journal that have left jobs suspended.
const RUNS: Duration = Duration::from_secs(5);

/// How long the first snapshot waits for the last few exporters while none of them answers, so that a hanging one blocks no command.
const LULL: Duration = Duration::from_secs(5);

/// The same while many are pending: then the server or the network is slow.
const LONG_LULL: Duration = Duration::from_secs(10);

impl Session {
    /// A single snapshot, as it is printed.
    pub(super) async fn look(
        &mut self,
        needs: &Needs,
        progress: &mut (dyn FnMut(Coming) + Send),
    ) -> Result<Facts, Failure> {
        if let Some(runs) = self.runs_read.take() {
            let _ = tokio::time::timeout(RUNS, runs).await;
        }
        let facts = self.first(needs, progress).await?;
        let mut fleet = (*facts.fleet).clone();
        // A single snapshot has no rates: one answer's latency and half a minute's counts would be noise.
        let still: Vec<_> = fleet
            .sources
            .iter()
            .map(|source| {
                let mut source = source.clone();
                source.latency_ms = None;
                source.calls_per_minute = None;
                source
            })
            .collect();
        fleet.sources = still.into();
        fleet.revision = 1;
        Ok(Facts {
            fleet: Arc::new(fleet),
            ..(*facts).clone()
        })
    }

    /// Waits until everything needed has answered or failed, and returns the facts. `progress` is called about five times a second.
    ///
    /// # Errors
    /// Nothing could be listed: forbidden or unreachable.
    pub async fn first(
        &mut self,
        needs: &Needs,
        progress: &mut (dyn FnMut(Coming) + Send),
    ) -> Result<Arc<Facts>, Failure> {
        let begun = tokio::time::Instant::now();
        let mut latest: Option<Arc<Facts>> = None;
        let mut listed_at = None;
        let mut answered = (0, begun);
        while begun.elapsed() < PATIENCE {
            match tokio::time::timeout(Duration::from_millis(200), self.facts.changed()).await {
                Ok(Ok(())) => latest = self.facts.borrow_and_update().clone(),
                Ok(Err(_)) => break,
                Err(_) => {}
            }
            let Some(fleet) = latest.as_ref().map(|facts| &facts.fleet) else {
                continue;
            };
            let coming = Coming {
                tables: listed(fleet, needs),
                readings: readings(fleet),
            };
            progress(coming);
            if coming.tables.0 < coming.tables.1 {
                continue;
            }
            let listed_at = *listed_at.get_or_insert_with(tokio::time::Instant::now);
            if nothing_known(fleet) {
                break;
            }
            if *self.reach.borrow() == ScrapedNodes::Undecided {
                let nodes = needs.nodes(fleet);
                self.reach
                    .send_replace(nodes.map_or(ScrapedNodes::All, ScrapedNodes::Nodes));
                answered = (0, tokio::time::Instant::now());
            }
            let placed = !needs.queue_positions
                || fleet.order_unknown
                || has_places(fleet)
                || listed_at.elapsed() >= ORDER;
            if coming.readings.0 != answered.0 || !has_found_all(fleet) {
                answered = (coming.readings.0, tokio::time::Instant::now());
            }
            let read = match &*self.reach.borrow() {
                ScrapedNodes::Nodes(nodes) if nodes.is_empty() => true,
                _ if !has_found_all(fleet) => false,
                _ => {
                    let lull = answered.1.elapsed() >= lull(coming.readings);
                    coming.readings.0 == coming.readings.1 || lull && !waits_for_prometheus(fleet)
                }
            };
            if placed && read {
                break;
            }
        }
        match latest {
            Some(facts) if nothing_known(&facts.fleet) => {
                Err(why_nothing(&facts.fleet, &self.server))
            }
            Some(facts) => Ok(facts),
            None => Err(Failure::new(Exit::Unreachable, "no source has answered")),
        }
    }
}

/// Number of needed tables that are listed, absent or lost, and of all needed tables.
fn listed(fleet: &Fleet, needs: &Needs) -> (usize, usize) {
    let over = needs
        .tables
        .iter()
        .filter(|table| !matches!(fleet.visibility(**table), TableState::Waiting));
    (over.count(), needs.tables.len())
}

/// How long to wait while no further exporter answers; the argument is (answered, all).
fn lull((answered, all): (usize, usize)) -> Duration {
    let few = (all / 20).max(2);
    if all.saturating_sub(answered) <= few {
        LULL
    } else {
        LONG_LULL
    }
}

/// True while Prometheus has not answered: one answer covers a whole fleet and may take long.
fn waits_for_prometheus(fleet: &Fleet) -> bool {
    let mut sources = fleet.sources.iter();
    sources.any(|row| row.kind.as_str() == "prometheus" && !row.has_spoken())
}

/// True once every workload pending in a Kueue queue has its position.
fn has_places(fleet: &Fleet) -> bool {
    fleet
        .jobs
        .iter()
        .filter_map(|job| job.admission.as_deref())
        .filter(|known| known.system() == QueueSystem::Kueue && known.queue.is_some())
        .filter(|known| known.seen.reserved_at.is_none() && known.seen.outcome.is_none())
        .all(|known| known.position.is_some())
}

fn nothing_known(fleet: &Fleet) -> bool {
    !fleet
        .known
        .values()
        .any(|known| matches!(known, TableState::Live))
}

/// Why nothing could be listed: the server is unreachable, or the missing rights.
fn why_nothing(fleet: &Fleet, server: &str) -> Failure {
    let lost = |kind: LostKind| {
        fleet.known.values().filter_map(move |known| match known {
            TableState::Lost(lost) if lost.kind == kind => Some(lost.message.as_str()),
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
        let help = fleet.rights_help();
        let message = format!("nothing may be read: {hidden}; {help}");
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
