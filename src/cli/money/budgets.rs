//! `get budgets`: the spend of each budget of the settings, and the forecast for its period.

use std::io::Write;

use model::base::{Exit, Failure};
use usage::{Span, hour_of};

use crate::runtime::usage::budgets;

use super::cost::exit_of;
use super::usage::{back_from, ends, ledger};
use crate::cli::common::setup::Situation;
use crate::cli::common::{console_options, out};
use crate::cli::get::{FormatName, Get, Output};
use crate::cli::record::failed;

pub(crate) fn get(
    situation: &Situation,
    get: &Get,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Exit, Failure> {
    let refused = [
        (!get.selector.is_empty(), "-l"),
        (!get.field_selector.is_empty(), "--field-selector"),
        (get.sort_by.is_some(), "--sort-by"),
        (get.watch, "--watch"),
        (get.from.is_some() || get.to.is_some(), "--from and --to"),
        (matches!(get.output, Output::JsonPath(_)), "this output"),
    ];
    if let Some((_, what)) = refused.iter().find(|(given, _)| *given) {
        let message = format!(
            "get budgets does not take {what}: it takes a NAME, --at, --record, -n, --team, and -o table, wide, json, yaml, csv or name"
        );
        return Err(Failure::new(Exit::Usage, message));
    }
    let scope = console_options::scope(&situation.settings);
    let mut all = budgets::of_settings(&situation.host, &situation.settings)?;
    if all.is_empty() {
        out::print_message(
            err,
            "no budget is set: add a [[budget]] to the settings (`stokehold config path`)",
        );
    }
    let any = !all.is_empty();
    all.retain(|budget| table::budgets::is_of(&scope, &budget.scope));
    if any && all.is_empty() {
        out::print_message(err, &format!("no budget applies to {}", scope.words()));
    }
    for name in &get.names {
        if !all.iter().any(|budget| budget.name.as_str() == name) {
            let message = format!("there is no budget `{name}`");
            return Err(Failure::new(Exit::Failed, message));
        }
    }
    if !get.names.is_empty() {
        all.retain(|budget| get.names.iter().any(|name| budget.name.as_str() == name));
    }
    // Without a budget no ledger is needed to say so.
    let (states, now) = match all.is_empty() {
        true => (Vec::new(), situation.host.now()),
        false => {
            let (file, _) = ledger(situation, err, |now| {
                let now = back_from(get.past.at, now);
                let from = all.iter().map(|budget| budget.looks_at(now).from).min();
                let hour = hour_of(now);
                Span {
                    from: from.unwrap_or(hour),
                    to: hour + 1,
                }
            })?;
            let now = match (get.past.at, ends(&file)?) {
                (Some(when), Some((start, end))) => when.in_record(start, end),
                _ => situation.host.now(),
            };
            let states = budgets::states(&file, &all, now).map_err(failed)?;
            (states, now)
        }
    };
    for state in states.iter().filter(|state| state.observed_ratio == 0.0) {
        let (name, period) = (&state.budget.name, state.period_words());
        let words = format!(
            "budget {name}: {period} was not observed, its spend is unknown: run `stokehold record`"
        );
        out::print_message(err, &words);
    }
    let titled = !get.no_headers;
    let rows = table::budgets::rows(&states);
    let text = match get.output {
        Output::Plain(FormatName::Json) => {
            serde_json::to_string_pretty(&rows).map_err(failed)? + "\n"
        }
        Output::Plain(FormatName::Yaml) => serde_saphyr::to_string(&rows).map_err(failed)?,
        Output::Plain(FormatName::Csv) => table::budgets::csv(&states, titled),
        Output::Plain(FormatName::Name) => rows
            .iter()
            .map(|row| format!("budget/{}\n", row.name))
            .collect(),
        Output::Plain(FormatName::Wide) => table::budgets::table(&states, now, titled, true),
        Output::Plain(FormatName::Table) | Output::JsonPath(_) => {
            table::budgets::table(&states, now, titled, false)
        }
    };
    out::write(out, &text)?;
    if let Some(note) = table::rows::list_price::note(&text) {
        out::print_message(err, note);
    }
    // As in `cost`: where nothing of any period was observed, nothing is known.
    let is_observed = states.is_empty() || states.iter().any(|state| state.observed_ratio > 0.0);
    Ok(exit_of(is_observed))
}
