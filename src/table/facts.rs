//! Everything that a view or an output reads, at one moment.

use std::sync::Arc;

use model::advice::Advice;
use model::base::{Age, Moment, Name};
use model::cost::SpendRates;
use model::fleet::Fleet;
use model::fleet::history::History;

use super::actions::ActionState;
use super::changes::{Compared, SeenChanges};
use super::query::scope::ScopedFleet;
use super::silence::Silences;
use super::spend::UsageFacts;
use super::waiting::explanations::JobExplanations;
use super::what_if::Suppositions;

/// A snapshot of everything, shared by reference counts.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Name of the kubeconfig context, or `demo`.
    pub context: Name,
    pub fleet: Arc<Fleet>,
    /// Cost rates of the fleet.
    pub spend_rates: Arc<SpendRates>,
    /// The part in the current scope; `None` for the whole fleet.
    pub part: Option<Arc<ScopedFleet>>,
    pub history: Arc<History>,
    /// Advice about jobs' devices, largest savings first.
    pub advice: Arc<[Advice]>,
    /// Findings that a user muted or acknowledged.
    pub silences: Arc<Silences>,
    /// The engine's explanations of waiting work, from a slightly older snapshot.
    pub answers: Arc<JobExplanations>,
    /// Write access and runs.
    pub acts: Arc<ActionState>,
    /// What-if questions of this session, with their results.
    pub supposed: Arc<Suppositions>,
    /// Comparisons of this session, from a record.
    pub compared: Arc<Compared>,
    /// What changed since reading began; `None` until the first lists are read, and of a record.
    pub changes: Option<Arc<SeenChanges>>,
    /// Usage and budgets from the usage ledger.
    pub usage: Arc<UsageFacts>,
    /// The time of drawing on the server's clock; ages are relative to it.
    pub now: Moment,
}

/// Readings for at most this long are those of a single snapshot: what is found in them may be older.
pub(crate) const FIRST_LOOK: Age = Age::from_seconds(30);

impl Facts {
    /// True while all readings are of the last moments, as for a command that takes a single snapshot.
    pub fn is_first_look(&self) -> bool {
        let since = self.history.readings_since();
        since.is_some_and(|since| self.now.since(since) < FIRST_LOOK)
    }

    /// Facts of a fleet and its rates only, as of the fleet's moment.
    pub fn new(context: Name, fleet: Arc<Fleet>, burn: Arc<SpendRates>) -> Self {
        Self {
            context,
            now: fleet.at,
            fleet,
            spend_rates: burn,
            part: None,
            history: Arc::default(),
            advice: Arc::default(),
            silences: Arc::default(),
            answers: Arc::default(),
            acts: Arc::default(),
            supposed: Arc::default(),
            compared: Arc::default(),
            changes: None,
            usage: Arc::default(),
        }
    }
}
