//! `tco`: what the demand of each class costs on demand, reserved, on spot and owned, and on devices of the other kind.

use std::collections::BTreeMap;
use std::io::Write;

use clap::Args;

use model::base::name::printable;
use model::base::{Exit, Failure};
use table::output::safe_json;
use table::tco::{self, LOOKS_BACK_HOURS, TcoInputs};
use table::waiting::explanations::JobExplanations;
use table::{Facts, Needs};
use usage::{Span, UsageFilter, hour_of};

use crate::runtime::usage::seen;

use super::usage::ledger;
use crate::cli::common::figures::TableOrJson;
use crate::cli::common::out;
use crate::cli::common::setup::{self, FactsSource, Situation};
use crate::cli::record::{PastFlags, failed};

/// What devices cost on demand, reserved, on spot and owned, and when buying pays off.
///
/// For the devices that are allocated now; with --record or --at also for the 30 days of that record's usage ledger. Prices come from the
/// price books and [[prices.override]]; what a commitment or a machine costs, from [tco] of the settings. What is unknown is marked.
#[derive(Args, Clone, PartialEq, Eq, Debug)]
pub struct TcoFlags {
    /// Only this class of devices: H100
    pub class: Option<String>,
    /// How to print it
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub output: TableOrJson,
    /// The moment of a record to look at instead
    #[command(flatten)]
    pub past: PastFlags,
}

pub(crate) fn run(
    situation: &Situation,
    flags: &TcoFlags,
    out: &mut dyn Write,
    err: &mut (dyn Write + Send),
) -> Result<Exit, Failure> {
    let facts = setup::snapshot(situation, &Needs::everything(), err)?;
    for (_, loss) in table::losses(&facts, table::Kind::Fleet) {
        out::print_message(err, &loss);
    }
    let answers = JobExplanations::of(&facts.fleet, &facts.spend_rates);
    let facts = Facts {
        answers: answers.into(),
        ..facts
    };
    let mut month = None;
    let mut months = BTreeMap::new();
    if matches!(situation.target, FactsSource::Record(_)) {
        let to = hour_of(facts.now);
        let span = Span {
            from: to - LOOKS_BACK_HOURS,
            to,
        };
        let (file, _) = ledger(situation, err, |_| span)?;
        let unread = |fault: ::record::usage::UsageFault| failed(fault.to_string());
        let (ledger_usage, _) = seen(&file, span, facts.now).map_err(unread)?;
        let rows = file.rows(span, &UsageFilter::default()).map_err(unread)?;
        months = tco::months(&rows, span, ledger_usage.ratio);
        month = Some(span);
    }
    let settings = &situation.settings.tco;
    let inputs = TcoInputs {
        reserved: settings.reserved.map(settings::Ratio::get),
        owned: settings
            .owned
            .iter()
            .map(|one| {
                let machine = one.machine.of(&situation.settings.prices.owned);
                (one.class.clone(), one.devices.get(), machine)
            })
            .collect(),
    };
    let catalog = &facts.fleet.policy.catalog;
    for one in &settings.owned {
        let class = &one.class;
        let mut of_fleet = facts.fleet.devices().map(|(_, device)| &device.class);
        let is_there = of_fleet.any(|known| known.eq_ignore_ascii_case(class));
        let mut known = catalog
            .accelerators
            .iter()
            .map(|known| known.class.as_str());
        if !is_there && !known.clone().any(|known| known.eq_ignore_ascii_case(class)) {
            let near = model::base::document::nearest(class, known.by_ref());
            let near = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
            let class = printable(class);
            let message = format!("tco.owned: no class of devices has the name `{class}`{near}");
            out::print_message(err, &message);
        }
    }
    let mut rows = tco::rows(&facts, &situation.rulebook.prices, &inputs, &months);
    if let Some(class) = &flags.class {
        let known: Vec<String> = rows.iter().map(|row| row.class.clone()).collect();
        rows.retain(|row| row.class.eq_ignore_ascii_case(class));
        if rows.is_empty() {
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            let message = model::base::document::unknown("class", class, &known);
            return Err(Failure::new(Exit::Failed, message));
        }
    }
    let text = match flags.output {
        TableOrJson::Json => safe_json(&rows),
        TableOrJson::Table => tco::text(&rows, facts.now, month),
    };
    out::write(out, &text)?;
    Ok(Exit::Done)
}
