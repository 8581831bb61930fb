//! `rebalance`: moves jobs so that whole nodes become free.

use clap::Args;
use model::base::Name;
use model::plan::{Intent, Plan, Refusal};

use super::{ActionSpec, Names, ParseError, PlannedFrom, PlannerInput, Values};

/// Move jobs so that whole nodes become free
#[derive(Args, Clone, PartialEq, Eq, Debug)]
pub struct Rebalance {
    /// Only in this pool
    pool: Option<String>,
}

pub(super) const SPEC: ActionSpec = ActionSpec {
    verb: "rebalance",
    planned_from: PlannedFrom::Fleet,
    completes: &[("pool", Values::Pools)],
};

impl Rebalance {
    pub(super) fn intent(&self, _: &Names<'_>) -> Result<Intent, ParseError> {
        let pool = self.pool.as_deref();
        Ok(Intent::Rebalance {
            pool: pool.map(|pool| Name::new(pool.strip_prefix("pool/").unwrap_or(pool))),
        })
    }
}

pub(super) fn plan(on: &PlannerInput<'_>, pool: &Option<Name>) -> Result<Plan, Refusal> {
    crate::rebalance::plan(on.snapshot, pool.as_ref())
}
