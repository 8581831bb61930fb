//! `what-if`: the same fleet with something changed.

use std::io::Write;

use clap::Args;

use engine::explanations;
use engine::what_if::{WhatIfResult, split};
use model::base::{Exit, Failure, Moment};
use table::output::safe_json;

use super::common::figures::TableOrJson;
use super::common::out;
use super::common::setup::Situation;
use super::plan::FleetRead;
use super::record::PastFlags;

#[derive(Args, Clone, PartialEq, Eq, Debug)]
pub struct WhatIf {
    /// Each in quotes, or one without quotes; separate several by `;`
    #[arg(required = true, value_name = "CHANGE", allow_negative_numbers = true)]
    pub changes: Vec<String>,
    /// How to print it
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub output: TableOrJson,
    /// The moment of a record to look at instead
    #[command(flatten)]
    pub past: PastFlags,
}

pub(super) fn run(
    situation: &Situation,
    what_if: &WhatIf,
    out: &mut dyn Write,
    err: &mut (dyn Write + Send),
) -> Result<Exit, Failure> {
    let joined;
    let changes: Vec<&str> = if what_if.changes.iter().any(|change| change.contains(' ')) {
        what_if.changes.iter().map(String::as_str).collect()
    } else {
        joined = what_if.changes.join(" ");
        vec![&joined]
    };
    // An invalid change is refused without waiting for the cluster.
    for change in changes.iter().flat_map(|text| split(text)) {
        engine::what_if::parse(change).map_err(|fault| Failure::new(Exit::Usage, fault))?;
    }
    let seen = FleetRead::for_decision(situation, err)?;
    let mut outcome = explanations::what_if(&seen.snapshot, &changes)
        .map_err(|message| Failure::new(Exit::Usage, message))?;
    table::what_if::budgeted(&seen.facts, &mut outcome, seen.snapshot.at);
    for gap in &seen.gaps {
        out::print_message(err, gap);
    }
    out::write(out, &printed(&outcome, seen.snapshot.at, what_if.output))?;
    Ok(Exit::Done)
}

/// An outcome as text or as a document.
pub(super) fn printed(outcome: &WhatIfResult, now: Moment, format: TableOrJson) -> String {
    match format {
        TableOrJson::Json => safe_json(outcome),
        TableOrJson::Table => table::what_if::text(outcome, now),
    }
}
