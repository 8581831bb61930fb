//! A plan and a refusal as text or as a document.

use std::fmt::Write as _;

use serde_json::json;

use engine::options;
use model::base::name::printable;
use model::base::quantities::counted;
use model::base::{Exit, Failure, Moment};
use model::cost::LIST_NOTE;
use model::cost::{ASSUMPTION, BudgetChange};
use model::plan::{Budgets, Forecast, Outcome as Checked, Plan, PlanEffect, Refusal, Step};
use model::value::Json;
use table::plan_steps::CommonPhrases;
use table::rows::lost_work;
use table::text::{back, start_change, with_hours};

use super::PlanFormat;
use crate::cli::common::out;

/// Printed for a step that evicts without a check of disruption budgets.
const NOT_ASKED: &str = "ignores PodDisruptionBudgets";

/// Reports a refusal: as a document unless the format is a table, and in words on standard error, with exit code 3.
pub(in crate::cli) fn report_refusal(
    refusal: &Refusal,
    now: Moment,
    format: PlanFormat,
    out: &mut dyn std::io::Write,
) -> Result<Exit, Failure> {
    report(&json!({ "refusal": refusal }), refusal, now, format, out)
}

/// Reports that a plan differs from the plan shown before. A document includes the new plan; a table has shown it already.
pub(super) fn report_changed_plan(
    refusal: &Refusal,
    plan: &Plan,
    now: Moment,
    format: PlanFormat,
    out: &mut dyn std::io::Write,
) -> Result<Exit, Failure> {
    let document = json!({ "refusal": refusal, "plan": plan });
    report(&document, refusal, now, format, out)
}

/// Prints the document unless the format is a table, and fails with the sentence of the refusal.
fn report(
    document: &serde_json::Value,
    refusal: &Refusal,
    now: Moment,
    format: PlanFormat,
    out: &mut dyn std::io::Write,
) -> Result<Exit, Failure> {
    if format != PlanFormat::Table {
        out::write(out, &document_text(document, format))?;
    }
    Err(Failure::new(
        Exit::Refused,
        printable(&with_hours(&refusal.to_string(), now)).into_owned(),
    ))
}

/// The lines of a forecast that `plan` prints as `effect`.
fn forecast_lines(forecast: &Forecast, plan: &Plan) -> Vec<String> {
    const MOST: usize = 12;
    let now = plan.computed_at;
    let mut lines = Vec::new();
    lines.extend(lost_work::lines(plan, forecast, now, usize::MAX, MOST));
    for displaced in lost_work::apart(forecast) {
        let lost = lost_work::words(&displaced.loss);
        let besides = match plan.is_evicted_besides(&displaced.job) {
            true => "is evicted by its scheduler, ",
            false => "",
        };
        lines.push(format!(
            "{} {besides}frees {}, loses {lost}, {}",
            displaced.job,
            counted(displaced.devices.into(), "device"),
            back(now, forecast, displaced)
        ));
    }
    let starts = forecast.starts.iter();
    let mut moved: Vec<String> = starts
        .filter_map(|one| start_change(now, plan, one))
        .collect();
    let more = moved.len().saturating_sub(MOST);
    moved.truncate(MOST);
    lines.extend(moved);
    if more > 0 {
        lines.push(format!("and {}", counted(more as u64, "other job")));
    }
    for pool in &forecast.pools {
        lines.push(format!(
            "{}: {} of {} devices allocated, before: {}",
            pool.pool, pool.allocated_after, pool.devices, pool.allocated_before
        ));
    }
    if lines.is_empty() {
        lines.push("no job starts or is evicted now".to_owned());
    }
    lines.extend(forecast.budgets.iter().map(BudgetChange::words));
    if !forecast.budgets.is_empty() {
        lines.push(ASSUMPTION.to_owned());
    }
    if forecast.displaced.iter().any(|one| one.loss.by_list) {
        lines.push(LIST_NOTE.to_owned());
    }
    lines
}

/// A document as YAML or indented JSON.
pub(in crate::cli) fn document_text(document: &serde_json::Value, format: PlanFormat) -> String {
    if format == PlanFormat::Yaml {
        let value = Json::of(&document.to_string()).printable();
        return serde_saphyr::to_string(&value).expect("documents have text keys");
    }
    let mut text =
        serde_json::to_string_pretty(document).expect("a value of JSON can be written as JSON");
    text.push('\n');
    text
}

/// The side effects of a step, in sentences.
fn side_effects(step: &Step) -> Vec<String> {
    let effects = &step.side_effects;
    let mut notes = effects.notes.clone();
    let is_noted = notes.iter().any(|note| note.contains(NOT_ASKED));
    if effects.budgets == Budgets::Ignored && !is_noted {
        notes.push(NOT_ASKED.to_owned());
    }
    notes
}

/// A plan as text, or as a document. `context` is the kubeconfig context in the title.
pub(in crate::cli) fn plan_text(plan: &Plan, context: Option<&str>, format: PlanFormat) -> String {
    if format != PlanFormat::Table {
        let document = serde_json::to_value(plan).expect("a plan is a document");
        return document_text(&document, format);
    }
    let mut text = format!(
        "PLAN  {}{}\n",
        printable(&plan.title),
        context.map_or_else(String::new, |context| format!(
            "  on {}",
            printable(context)
        ))
    );
    let common = CommonPhrases::of(plan, side_effects);
    for (at, step) in plan.steps.iter().enumerate() {
        let _ = write!(text, "  {} {}", at + 1, printable(&step.words()));
        if let Some(devices) = step.job.as_ref().and_then(|job| job.devices) {
            let none = if step.frees_nothing() { "0 of " } else { "" };
            let _ = write!(text, "  {none}{}", counted(devices.into(), "device"));
        }
        let effects = &step.side_effects;
        if let Some(gang) = effects.gang_broken {
            let _ = write!(text, "  gang of {gang} stops");
        }
        match effects.loss.as_ref().map(|loss| loss.device_seconds) {
            Some(Some(seconds)) => {
                let _ = write!(text, "  loses {:.1} device-hours", seconds as f64 / 3600.0);
            }
            Some(None) => text.push_str("  loses an unknown amount of work"),
            None => {}
        }
        text.push('\n');
        for note in common.rest(step, side_effects(step)) {
            let note = with_hours(&note, plan.computed_at);
            let _ = writeln!(text, "      {}", printable(&note));
        }
    }
    let mut line = |title: &str, words: &str| {
        if !words.is_empty() {
            let words = with_hours(words, plan.computed_at);
            let _ = writeln!(text, "{title:<9} {}", printable(&words));
        }
    };
    for words in common.sentences() {
        line("steps", &words);
    }
    match &plan.effect {
        PlanEffect::Unknown { why } => line("effect", &format!("unknown: {why}")),
        PlanEffect::Forecast(forecast) => {
            for words in forecast_lines(forecast, plan) {
                line("effect", &words);
            }
        }
    }
    for reason in &plan.reasons {
        line("reason", reason);
    }
    for warning in &plan.warnings {
        line("warning", warning);
    }
    for check in &plan.checks {
        let outcome = match check.outcome {
            Checked::Ok => "ok",
            Checked::Failed => "FAILED",
            Checked::NotCheckableYet => "checked in part",
            Checked::NotChecked => "not checked",
        };
        let words = if check.sentence.is_empty() {
            String::new()
        } else {
            format!(": {}", check.sentence)
        };
        line("check", &format!("{} {outcome}{words}", check.name));
    }
    for alternative in &plan.alternatives {
        let command = alternative.command.as_ref();
        let command = command.map_or_else(String::new, |command| format!(": stokehold {command}"));
        line("instead", &format!("{}{command}", alternative.sentence));
    }
    for note in &plan.undo.notes {
        line("undo", note);
    }
    for used in options::changed(&plan.options) {
        line("settings", &used.to_string());
    }
    text
}
