//! Everything that a view or an output may look at, at one moment.

use std::sync::Arc;

use model::advice::Advice;
use model::base::{Moment, Name};
use model::cost::Burn;
use model::fleet::Fleet;
use model::fleet::history::History;

use super::actions::ActionState;
use super::changes::Compared;
use super::explanations::JobExplanations;
use super::scope::Part;
use super::silence::Silences;
use super::spend::UsageFacts;
use super::what_if::Suppositions;

/// A picture of everything, handed over as a few reference counts.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Name of the kubeconfig context, or `demo`.
    pub context: Name,
    /// The fleet.
    pub fleet: Arc<Fleet>,
    /// Its money.
    pub burn: Arc<Burn>,
    /// What a scope has of it; `None` is all of it.
    pub part: Option<Arc<Part>>,
    /// Its past.
    pub history: Arc<History>,
    /// What to do about its jobs' devices, what saves most first.
    pub advice: Arc<[Advice]>,
    /// Findings that somebody muted or took on.
    pub silences: Arc<Silences>,
    /// What the engine says of the work that waits, of a picture a little older than the fleet.
    pub answers: Arc<JobExplanations>,
    /// What may be done, and what was done from here.
    pub acts: Arc<ActionState>,
    /// What was supposed in this session, and what came of it.
    pub supposed: Arc<Suppositions>,
    /// What was compared in this session, of a record.
    pub compared: Arc<Compared>,
    /// What the usage ledger of its record tells.
    pub usage: Arc<UsageFacts>,
    /// The moment of drawing, on the server's clock: ages count from here.
    pub now: Moment,
}

impl Facts {
    /// Of a fleet and its money alone, as of the fleet's moment.
    pub fn new(context: Name, fleet: Arc<Fleet>, burn: Arc<Burn>) -> Self {
        Self {
            context,
            now: fleet.at,
            fleet,
            burn,
            part: None,
            history: Arc::default(),
            advice: Arc::default(),
            silences: Arc::default(),
            answers: Arc::default(),
            acts: Arc::default(),
            supposed: Arc::default(),
            compared: Arc::default(),
            usage: Arc::default(),
        }
    }
}
