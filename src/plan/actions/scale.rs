//! `scale`: changes the number of replicas of a workload.

use clap::Args;
use model::plan::{Intent, Plan, Refusal};

use super::{
    ActionRequest, ActionSpec, NameResolver, ObjectKind, ParseError, PlannedFrom, PlannerInput,
    Selected, Values, always, has_replicas,
};

/// Change the number of replicas of a Deployment, StatefulSet or LeaderWorkerSet
#[derive(Args, Clone, PartialEq, Eq, Debug)]
#[command(
    override_usage = "stokehold plan scale [OPTIONS] [KIND] NAMESPACE/NAME REPLICAS\n       \
        stokehold plan scale [OPTIONS] [KIND] NAMESPACE/NAME --replicas REPLICAS"
)]
pub struct ScaleArguments {
    /// [KIND] NAMESPACE/NAME REPLICAS, such as deployment prod/chat 5
    #[arg(required = true, num_args = 1..=3, value_name = "WORKLOAD")]
    words: Vec<String>,
    /// The number of replicas, if it is not the last word
    #[arg(long)]
    replicas: Option<String>,
}

pub(super) const SPEC: ActionSpec = ActionSpec {
    verb: "scale",
    planned_from: PlannedFrom::ObjectOrFleet,
    completes: &[("words", Values::Scalable)],
    command: "replicas",
    key: Some("N"),
    done_by: None,
    title: "replicas",
    run_title: None,
    doc: "plan: change the number of replicas of the workload",
    fits: &[ObjectKind::Scalable],
    rights: &[],
    request,
    availability: always,
};

impl ScaleArguments {
    pub(super) fn intent(&self, names: &NameResolver<'_>) -> Result<Intent, ParseError> {
        let (target, replicas) = self.target_and_replicas().map_err(ParseError::Usage)?;
        let target = match names.namespace {
            Some(namespace) if !target.contains('/') => format!("{namespace}/{target}"),
            _ => target,
        };
        Ok(Intent::Scale { target, replicas })
    }

    /// The workload as it is typed, its kind before its name with a slash, and the new number of replicas. The kind may also
    /// precede the name as a word of its own.
    ///
    /// # Errors
    /// The words have another form.
    pub fn target_and_replicas(&self) -> Result<(String, u32), String> {
        let misread = || {
            let written = self.words.join(" ");
            format!(
                "`{written}` is not understood; write [KIND] NAMESPACE/NAME REPLICAS, such as deployment prod/chat 5"
            )
        };
        let (named, replicas) = match (&self.replicas, self.words.split_last()) {
            (Some(flag), Some((last, named))) => match last.parse::<u32>() {
                Ok(_) if !named.is_empty() => {
                    return Err(format!(
                        "the number of replicas is given twice: `{last}` and --replicas {flag}"
                    ));
                }
                _ => (self.words.as_slice(), flag),
            },
            (None, Some((last, named))) => (named, last),
            (_, None) => return Err(misread()),
        };
        let target = match named {
            [target] => target.clone(),
            [kind, name] if !kind.contains('/') => format!("{kind}/{name}"),
            _ => return Err(misread()),
        };
        let count = replicas.parse().ok();
        let count = count.filter(|count| *count <= i32::MAX as u32);
        let count = count
            .ok_or_else(|| format!("`{replicas}` is not a number of replicas: write 0 or more"))?;
        Ok((target, count))
    }
}

fn request(selected: &Selected<'_>) -> Result<ActionRequest, String> {
    let id = &selected.job()?.id;
    match has_replicas(id) {
        true => Ok(ActionRequest::Replicas(id.clone())),
        false => Err(format!(
            "a {} has no replicas: put the cursor on a Deployment, StatefulSet or LeaderWorkerSet",
            id.kind
        )),
    }
}

pub(super) fn plan(on: &PlannerInput<'_>, target: &str, replicas: &u32) -> Result<Plan, Refusal> {
    crate::scale::on_fleet(on.snapshot, target, *replicas)
}
