//! `rebalance`: moves jobs so that whole nodes become free.

use clap::Args;
use model::base::Name;
use model::plan::{Intent, Plan, Refusal};

use super::{
    ActionRequest, ActionSpec, NameResolver, ObjectKind, ParseError, PlannedFrom, PlannerInput,
    Selected, SelectedObject, Values, always,
};

/// Move jobs so that whole nodes become free
#[derive(Args, Clone, PartialEq, Eq, Debug)]
pub struct RebalanceArguments {
    /// Only in this pool
    pool: Option<String>,
}

pub(super) const SPEC: ActionSpec = ActionSpec {
    verb: "rebalance",
    planned_from: PlannedFrom::Fleet,
    completes: &[("pool", Values::Pools)],
    command: "rebalance",
    key: Some("B"),
    done_by: None,
    title: "rebalance",
    run_title: None,
    doc: "plan: move jobs so that free devices are on the same nodes",
    fits: &[ObjectKind::Pool],
    rights: &[],
    request,
    availability: always,
};

impl RebalanceArguments {
    pub(super) fn intent(&self, _: &NameResolver<'_>) -> Result<Intent, ParseError> {
        let pool = self.pool.as_deref();
        Ok(Intent::Rebalance {
            pool: pool.map(|pool| Name::new(pool.strip_prefix("pool/").unwrap_or(pool))),
        })
    }
}

fn request(selected: &Selected<'_>) -> Result<ActionRequest, String> {
    let pool = match selected.objects {
        [SelectedObject::Pool(pool)] => Some(pool.clone()),
        _ => None,
    };
    Ok(ActionRequest::Intent(Intent::Rebalance { pool }))
}

pub(super) fn plan(on: &PlannerInput<'_>, pool: &Option<Name>) -> Result<Plan, Refusal> {
    crate::rebalance::plan(on.snapshot, pool.as_ref())
}
