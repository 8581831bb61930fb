//! Jobs with several Workloads: what a plan does to one of them, it does to all. Planners act on the Workload that decides over a
//! job; a LeaderWorkerSet has one for each of its groups.

use engine::snapshot::{OtherHandle, Snapshot, Workload};
use model::base::Name;
use model::plan::{JobRef, Mutation, Object, Plan, SideEffects, Step, Until};

/// Adds the steps on the other Workloads of each job that a plan changes by one of them. A step that needs one of them needs all.
pub(super) fn on_all(snapshot: &Snapshot, plan: &mut Plan) {
    let others = |step: &Step| -> &[OtherHandle] {
        let work = by_its_workload(snapshot, step);
        let handle = work.and_then(|work| work.admission.as_ref());
        handle.map_or(&[], |handle| &handle.others)
    };
    if plan.steps.iter().all(|step| others(step).is_empty()) {
        return;
    }
    let mut steps: Vec<Step> = Vec::with_capacity(plan.steps.len());
    // The new numbers of each step.
    let mut numbers: Vec<Vec<u32>> = Vec::with_capacity(plan.steps.len());
    for mut step in std::mem::take(&mut plan.steps) {
        let needed = step.needs.iter().flat_map(|need| {
            let at = (*need as usize).checked_sub(1)?;
            numbers.get(at)
        });
        step.needs = needed.flatten().copied().collect();
        let more: Vec<Step> = others(&step)
            .iter()
            .filter(|other| takes_part(&steps, &step, other))
            .map(|other| like(&step, other))
            .collect();
        let first = steps.len() as u32 + 1;
        numbers.push((first..=first + more.len() as u32).collect());
        steps.push(step);
        steps.extend(more);
    }
    plan.steps = steps;
}

/// The job that a step changes by one of its Workloads.
fn by_its_workload<'s>(snapshot: &'s Snapshot, step: &Step) -> Option<&'s Workload> {
    let by_one = matches!(
        step.mutation,
        Mutation::WorkloadActive { .. } | Mutation::WorkloadPriority { .. }
    );
    let job = step.job.as_ref().filter(|_| by_one)?;
    let mut all = snapshot.workloads.iter();
    all.find(|work| work.key.key == job.name.0)
}

/// Whether a step is to be taken on another Workload of its job as well: what this plan stopped it resumes, and nothing else.
fn takes_part(before: &[Step], step: &Step, other: &OtherHandle) -> bool {
    let stopped = |name: &Name| {
        let mut stops = before.iter();
        stops.any(|it| {
            it.object.name == *name && it.mutation == Mutation::WorkloadActive { value: false }
        })
    };
    match step.mutation {
        Mutation::WorkloadActive { value: false } => other.active,
        Mutation::WorkloadActive { value: true } => match stopped(&step.object.name) {
            true => stopped(&other.name),
            false => !other.active,
        },
        _ => true,
    }
}

/// The same step on another Workload. The job's lost work is counted once, at the first step.
fn like(step: &Step, other: &OtherHandle) -> Step {
    let object = Object {
        name: other.name.clone(),
        ..step.object.clone()
    }
    .with_uid(&other.uid);
    let mut same = step.clone();
    for guard in &mut same.guards {
        if guard.object.is(&step.object) {
            guard.object = object.clone();
        }
    }
    same.object = object;
    same.waits.retain(|wait| match &wait.until {
        Until::Condition { name, status } => {
            other.has_quota || name != "QuotaReserved" || status != "False"
        }
        _ => true,
    });
    same.job = step.job.as_ref().map(|job| JobRef {
        devices: None,
        gang: None,
        ..job.clone()
    });
    same.side_effects = SideEffects {
        interrupts: step.side_effects.interrupts && other.has_quota,
        budgets: step.side_effects.budgets,
        ..SideEffects::default()
    };
    same
}
