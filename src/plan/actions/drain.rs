//! `drain`: cordons nodes, then evicts or requeues all work on them.

use clap::Args;
use model::base::{Moment, Name};
use model::plan::{Intent, Plan, Refusal};

use super::{
    ActionRequest, ActionSpec, NameResolver, ObjectKind, ParseError, PlannedFrom, PlannerInput,
    Selected, Values, always,
};

/// Cordon nodes, then evict or requeue all work on them
#[derive(Args, Clone, PartialEq, Eq, Debug)]
pub struct DrainArguments {
    /// NODE, pool/NAME, rack/NAME, zone/NAME, or any level of the topology
    #[arg(required = true)]
    nodes: Vec<String>,
    /// Finish by then (30m, 2h, 2026-11-21T12:00:00Z); until then the drain waits for checkpoints and disruption budgets
    #[arg(long, value_name = "TIME")]
    deadline: Option<String>,
}

pub(super) const SPEC: ActionSpec = ActionSpec {
    verb: "drain",
    planned_from: PlannedFrom::Fleet,
    completes: &[("nodes", Values::Nodes)],
    command: "drain",
    key: Some("D"),
    done_by: None,
    title: "drain",
    run_title: None,
    doc: "plan: drain the node, the marked nodes or the pool",
    fits: &[ObjectKind::Node, ObjectKind::Pool],
    rights: &[("create", "", "pods", "eviction")],
    request,
    availability: always,
};

impl DrainArguments {
    pub(super) fn intent(&self, names: &NameResolver<'_>) -> Result<Intent, ParseError> {
        let until = |text: &String| deadline(text, names.snapshot.at).map_err(ParseError::Usage);
        Ok(Intent::Drain {
            nodes: names.nodes(&self.nodes)?,
            deadline: self.deadline.as_ref().map(until).transpose()?,
        })
    }
}

fn request(selected: &Selected<'_>) -> Result<ActionRequest, String> {
    Ok(ActionRequest::Intent(Intent::Drain {
        nodes: selected.nodes()?,
        deadline: None,
    }))
}

pub(super) fn plan(
    on: &PlannerInput<'_>,
    nodes: &[Name],
    deadline: &Option<Moment>,
) -> Result<Plan, Refusal> {
    crate::drain::plan(on.snapshot, nodes, *deadline, on.author)
}

/// Parses a time (`2026-11-21T12:00:00Z`), or a duration from now (`30m`, `2h`, `1h30m`, `90s`).
fn deadline(text: &str, now: Moment) -> Result<Moment, String> {
    if let Some(at) = Moment::parse(text) {
        return Ok(at);
    }
    let wrong = || format!("`{text}` is not a deadline: write 30m, 2h or 2026-11-21T12:00:00Z");
    let (mut seconds, mut digits) = (0_u64, String::new());
    for c in text.chars() {
        if c.is_ascii_digit() {
            digits.push(c);
            continue;
        }
        let unit = match c {
            's' => 1,
            'm' => 60,
            'h' => 3_600,
            'd' => 86_400,
            _ => return Err(wrong()),
        };
        let number: u64 = digits.parse().map_err(|_| wrong())?;
        digits.clear();
        seconds = number
            .checked_mul(unit)
            .and_then(|part| seconds.checked_add(part))
            .filter(|sum| *sum <= 366 * 86_400)
            .ok_or_else(wrong)?;
    }
    if !digits.is_empty() || seconds == 0 {
        return Err(wrong());
    }
    Ok(now.plus(std::time::Duration::from_secs(seconds)))
}
