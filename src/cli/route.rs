//! `route`: on which flavor a job would finish first, what that costs, and why.

use std::fmt::Write as _;
use std::io::Write;

use clap::{Args, Subcommand};

use engine::explain::StartState;
use engine::explanations;
use engine::options;
use engine::route::{FlavorCandidate, Routing};
use model::base::name::printable;
use model::base::{Exit, Failure, Moment, Rate};
use table::output::safe_json;
use table::rows::list_price::{marked, note};
use table::table::text_table;
use table::text::{age, hour, or_unknown, usd, word};

use super::common::figures::TableOrJson;
use super::common::out;
use super::common::setup::Situation;
use super::plan::FleetRead;
use super::record::PastFlags;

/// On which flavor a job would finish first.
///
/// Flavors are those of its `[[route]]` or its own list, and those that its queue has besides. Ranked by what the route pays at most,
/// then by when the run is done by the median forecast, then by cost.
#[derive(Args, Clone, PartialEq, Eq, Debug)]
pub struct RouteFlags {
    /// What to route
    #[command(subcommand)]
    what: RouteOf,
}

#[derive(Subcommand, Clone, PartialEq, Eq, Debug)]
pub enum RouteOf {
    /// A job that waits
    Job {
        /// NAMESPACE/NAME
        name: String,
        /// How to print it
        #[arg(short, long, value_name = "FORMAT", default_value = "table")]
        output: TableOrJson,
        /// The moment of a record to look at instead
        #[command(flatten)]
        past: PastFlags,
    },
}

impl RouteFlags {
    /// The moment of a record, if one was given.
    pub(super) fn past(&self) -> &PastFlags {
        let RouteOf::Job { past, .. } = &self.what;
        past
    }
}

pub(super) fn run(
    situation: &Situation,
    route: &RouteFlags,
    out: &mut dyn Write,
    err: &mut (dyn Write + Send),
) -> Result<Exit, Failure> {
    let RouteOf::Job { name, output, .. } = &route.what;
    let seen = FleetRead::for_report(situation, err)?;
    let name = match (
        name.contains('/'),
        situation.settings.scope.namespaces.as_slice(),
    ) {
        (false, [namespace]) => format!("{namespace}/{name}"),
        _ => name.clone(),
    };
    let mut works = seen.snapshot.workloads.iter();
    let work = works.find(|work| work.key.key.to_string() == name);
    if work.is_some_and(|work| work.queue.is_none()) {
        let message = format!(
            "{name} is in no queue: it has no choice of flavors; `stokehold explain job {name}` says where it may run"
        );
        return Err(Failure::new(
            Exit::Refused,
            printable(&message).into_owned(),
        ));
    }
    let routing = explanations::route(&seen.snapshot, &name)
        .map_err(|message| Failure::new(Exit::Failed, message))?;
    for gap in &seen.gaps {
        out::print_message(err, gap);
    }
    out::write(out, &printed(&routing, seen.snapshot.at, *output))?;
    Ok(Exit::Done)
}

/// A routing as text or as a document.
pub(super) fn printed(routing: &Routing, now: Moment, format: TableOrJson) -> String {
    if format == TableOrJson::Json {
        return safe_json(routing);
    }
    let mut text = format!(
        "{} · as of {} UTC\n",
        printable(&routing.job.to_string()),
        hour(now)
    );
    let state = match routing.state {
        StartState::Running => {
            Some("it is already running: start and finish assume that it starts now")
        }
        StartState::Held => Some("it is suspended: start and finish assume that it is resumed now"),
        StartState::Blocked => {
            Some("no queue or scheduler can start it: start and finish assume that they could")
        }
        StartState::Ending => Some("it is ending"),
        StartState::Waiting | StartState::Ready => None,
    };
    if let Some(state) = state {
        let _ = writeln!(text, "  {state}");
    }
    if let Some(most) = routing.most_micro_usd_per_device_hour {
        let most = usd(Some(Rate::from_micros(most).usd()));
        let _ = writeln!(text, "  its route allows at most {most} a device-hour");
    }
    if routing.flavors.is_empty() {
        text.push_str("  no flavor: neither its queue nor a route names one\n");
    } else {
        let titles = vec![
            ("FLAVOR", false),
            ("START", false),
            ("FINISH", false),
            ("RUN", true),
            ("COST", true),
            ("$/DEVICE-H", true),
            ("SPEED", true),
            ("WHY", false),
        ];
        let lines: Vec<Vec<String>> = routing
            .flavors
            .iter()
            .map(|flavor| line(flavor, now))
            .collect();
        text.push_str(&text_table(titles, &lines, true));
    }
    if routing.flavors.iter().any(|flavor| !flavor.named) {
        text.push_str(
            "  SPEED is 1.00, a guess, where neither a [[route]] nor the job names the flavor\n",
        );
    }
    if let Some(note) = note(&text) {
        let _ = writeln!(text, "  {note}");
    }
    for used in options::changed(&routing.options) {
        let _ = writeln!(text, "  settings   {}", printable(&used.to_string()));
    }
    text
}

fn line(flavor: &FlavorCandidate, now: Moment) -> Vec<String> {
    let money = |micros: Option<i64>| {
        let usd = micros.map(|micros| Rate::from_micros(micros).usd());
        marked(usd, flavor.list_price)
    };
    let moment = |at: Option<Moment>| match at {
        Some(at) if at <= now => String::from("now"),
        at => or_unknown(at.map(hour)),
    };
    vec![
        printable(&flavor.flavor).into_owned(),
        moment(flavor.start),
        moment(flavor.done),
        age(flavor.run_seconds.map(i64::unsigned_abs)),
        money(flavor.cost_micro_usd),
        money(flavor.micro_usd_per_device_hour),
        format!("{:.2}", flavor.speed_milli as f64 / 1000.0),
        // Its start is printed before it.
        word(Some(flavor.why.as_str()).filter(|_| flavor.start.is_none() || !flavor.allowed)),
    ]
}
