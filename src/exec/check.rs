//! Checks before a plan is confirmed: access reviews and server-side dry runs.

use std::collections::BTreeSet;

use futures::{StreamExt, stream};
use kube::Client;

use cluster::mutations::{self, RunStep};
use model::plan::{Outcome, Plan, PlanCheck, Step, Until, Wait, WaitOrder};

use super::machine::ObjectRead;
use super::request::{may, read};
use super::response::ResponseKind;
use super::writer::Probe;

/// Maximum number of steps that are sent as dry runs: only the first ones of a plan.
const MOST: usize = 200;

fn check(name: &str, outcome: Outcome, sentence: String) -> PlanCheck {
    PlanCheck {
        name: name.to_owned(),
        outcome,
        sentence,
    }
}

/// Maximum reads of an object that other clients write frequently.
const LOOKS: usize = 3;

/// Concurrent requests to the API server. Answers are processed in step order.
const AT_ONCE: usize = 8;

/// Runs the checks of a plan. Without a probe, which requires a grant, no dry run is sent: what the objects alone forbid fails the
/// check all the same.
pub async fn checks(plan: &Plan, reading: &Client, probe: Option<&Probe>) -> Vec<PlanCheck> {
    let (rights, dry_run) = futures::join!(rights(plan, reading), dry_run(plan, reading, probe));
    vec![rights, dry_run]
}

async fn rights(plan: &Plan, reading: &Client) -> PlanCheck {
    let wanted: BTreeSet<_> = plan.steps.iter().flat_map(mutations::rights).collect();
    let (mut lacking, mut unsaid) = (Vec::new(), false);
    let ask = |right| async move { (right, may(reading, right).await) };
    let asks: Vec<_> = wanted.iter().map(ask).collect();
    let mut asked = stream::iter(asks).buffered(AT_ONCE);
    while let Some((right, allowed)) = asked.next().await {
        match allowed {
            Some(true) => {}
            Some(false) => lacking.push(right.to_string()),
            None => unsaid = true,
        }
    }
    if !lacking.is_empty() {
        let sentence = format!(
            "you may not {}; ask for the role that `stokehold rbac operator` prints",
            lacking.join(", nor ")
        );
        return check("rights", Outcome::Failed, sentence);
    }
    if unsaid {
        let sentence = "the server does not report what you may do".to_owned();
        return check("rights", Outcome::NotChecked, sentence);
    }
    check("rights", Outcome::Ok, String::new())
}

async fn dry_run(plan: &Plan, reading: &Client, probe: Option<&Probe>) -> PlanCheck {
    const NAME: &str = "server dry run";
    let checkable = |at: usize, step: &Step| {
        // (What a disruption budget allows now, the server's answer says.)
        let before = |wait: &Wait| wait.when == WaitOrder::Before && wait.until != Until::Budget;
        let waits = step.waits.iter().any(before);
        let asks = probe.is_some() || mutations::depends_on_the_object(&step.mutation);
        at < MOST && !waits && step.needs.is_empty() && asks
    };
    let steps = plan.steps.iter().enumerate();
    let (tried, rest): (Vec<_>, Vec<_>) = steps.partition(|(at, step)| checkable(*at, step));
    let mut later = rest.len();
    let tries = tried.into_iter().map(|(at, step)| async move {
        let number = u32::try_from(at + 1).unwrap_or(u32::MAX);
        (number, step, try_dry(number, step, reading, probe).await)
    });
    let tries: Vec<_> = tries.collect();
    let mut answers = stream::iter(tries).buffered(AT_ONCE);
    while let Some((number, step, answer)) = answers.next().await {
        match answer {
            Ok(None | Some(ResponseKind::Accepted)) => {}
            // The run waits for a disruption budget and retries a busy server: neither fails the check.
            Ok(Some(ResponseKind::Budget(..) | ResponseKind::Busy(..))) => later += 1,
            Ok(Some(
                ResponseKind::Conflict(words)
                | ResponseKind::Invalid(words)
                | ResponseKind::Gone(words)
                | ResponseKind::Refused(words),
            ))
            | Err(words) => {
                let sentence = format!("step {number}, {step}: {words}");
                return check(NAME, Outcome::Failed, sentence);
            }
            Ok(Some(ResponseKind::Unknown(words))) => {
                let sentence = format!("step {number}: {words}");
                return check(NAME, Outcome::NotChecked, sentence);
            }
        }
    }
    if probe.is_none() {
        let sentence = "read-only: a dry run needs the right to write".to_owned();
        return check(NAME, Outcome::NotChecked, sentence);
    }
    match later {
        0 => check(NAME, Outcome::Ok, String::new()),
        later => check(
            NAME,
            Outcome::NotCheckableYet,
            format!(
                "{} of {} steps; the rest depend on earlier steps or wait",
                plan.steps.len() - later,
                plan.steps.len()
            ),
        ),
    }
}

/// Sends one step as a dry run. Returns the server's answer (none without a probe), or why nothing was sent. If another client
/// writes the object between the read and the dry run, the object is read again, so that the message names the change and not the
/// patch that no longer applies.
async fn try_dry(
    number: u32,
    step: &Step,
    reading: &Client,
    probe: Option<&Probe>,
) -> Result<Option<ResponseKind>, String> {
    let (mut known, mut looks) = (None, 0);
    loop {
        let object = match read(reading, &step.object).await {
            ObjectRead::There(object) => object,
            ObjectRead::Gone => return Err("it no longer exists".to_owned()),
            ObjectRead::Not(_) if probe.is_none() => return Ok(None),
            ObjectRead::Not(answer) => return Err(answer.words()),
        };
        let mark = RunStep {
            run: "dry-run",
            step: number,
            hold: None,
        };
        let call = mutations::call(step, &object, mark).map_err(|refusal| refusal.to_string())?;
        let Some(probe) = probe else {
            return Ok(None);
        };
        let verdict = probe.ask(&call).await.verdict(&call);
        let version = object["metadata"]["resourceVersion"].as_str();
        let raced = matches!(
            verdict,
            ResponseKind::Conflict(_) | ResponseKind::Invalid(_)
        );
        looks += 1;
        if !raced || looks >= LOOKS || known.as_deref() == version {
            return Ok(Some(verdict));
        }
        known = version.map(str::to_owned);
    }
}
