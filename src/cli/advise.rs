//! `advise`: what to do about jobs' devices, by what they did in the last half hour.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};

use model::base::name::printable;
use model::base::{Exit, Failure, Name};
use table::kinds::advice::Judged;
use table::waiting::explanations::JobExplanations;
use table::{Facts, Format, Kind, Query};

use super::common::flags::span;
use super::common::setup::{self, Situation};
use super::record::PastFlags;
use super::{
    common::{console_options, out},
    get,
};

/// What to do about jobs' devices.
///
/// It judges the last half hour: by the context's record while one is written, else by Prometheus, else by what it sees itself with
/// --for. A saving is what the devices cost now, for 730 hours.
#[derive(Args, Clone, PartialEq, Eq, Debug)]
pub struct Advise {
    /// Whose jobs it is about
    #[command(subcommand)]
    pub of: Option<AdviseOf>,
    /// How to print it
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        default_value = "table",
        global = true
    )]
    pub output: get::FormatName,
    /// Watch the exporters for so long first, at most (30m is enough for all)
    #[arg(long = "for", value_name = "DURATION", value_parser = span, global = true)]
    pub watch: Option<Duration>,
    /// The moment of a record to look at instead
    #[command(flatten)]
    pub past: PastFlags,
}

#[derive(Subcommand, Clone, PartialEq, Eq, Debug)]
pub enum AdviseOf {
    /// The devices of one job
    Job {
        /// NAME, or NAMESPACE/NAME
        name: String,
    },
    /// The jobs of one team
    Team {
        /// Name of the team
        name: String,
    },
    /// All jobs
    All,
}

pub(super) fn run(
    situation: &Situation,
    advise: &Advise,
    out: &mut dyn Write,
    err: &mut (dyn Write + Send),
) -> Result<Exit, Failure> {
    if advise.watch.is_some() && advise.past.is_given() {
        let message = "--for watches a cluster: leave out --at and --record";
        return Err(Failure::new(Exit::Usage, message));
    }
    let mut query = Query {
        scope: console_options::scope(&situation.settings),
        ..Query::all(Kind::Advice)
    };
    let mut job = None;
    match &advise.of {
        None | Some(AdviseOf::All) => {}
        Some(AdviseOf::Team { name }) => query.scope.team = Some(Name::new(name)),
        Some(AdviseOf::Job { name }) => job = Some(name),
    }
    let whole = setup::half_hour(situation, advise.watch, err)?;
    if let Some(team) = &query.scope.team
        && whole.fleet.jobs.iter().all(|job| job.team != *team)
    {
        let message = format!("no job belongs to a team `{}`", printable(team));
        return Err(Failure::new(Exit::Failed, message));
    }
    let mut facts = match job {
        None => with_pools(whole, &query),
        Some(_) => get::part_of(&whole, &query),
    };
    if let Some(name) = job {
        // For one job, the reasons for which other jobs are not judged are not printed.
        let (id, note) = of_job(&facts, &query, name)?;
        out::print_message(err, &note);
        let all = facts.advice.iter().filter(|advice| advice.job == id);
        facts.advice = all.cloned().collect();
        return get::print(&facts, &query, advise.output.into(), out, err);
    }
    print(&facts, &query, advise.output.into(), out, err)
}

/// The facts as a query has them, with advice about pools where it is of the whole fleet.
pub(super) fn with_pools(facts: Facts, query: &Query) -> Facts {
    if !query.scope.is_all() {
        return get::part_of(&facts, query);
    }
    let answers =
        JobExplanations::default().with_pools(&facts.fleet, &facts.spend_rates, &BTreeSet::new());
    Facts {
        answers: Arc::new(answers),
        ..facts
    }
}

/// Prints advice, or why there is none.
pub(super) fn print(
    facts: &Facts,
    query: &Query,
    format: Format,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Exit, Failure> {
    let judged = table::kinds::advice::judged(facts);
    if judged.jobs > 0 && judged.jobs == judged.silent && facts.advice.is_empty() {
        // Advice about pools is printed all the same.
        if !table::kinds::advice::all(facts).is_empty() {
            get::print(facts, query, format, out, err)?;
        }
        return Err(Failure::new(Exit::Failed, none_judged(facts, &judged)));
    }
    if judged.silent > 0 {
        let words = format!(
            "no verdict for {} of {} running jobs ({})",
            judged.silent, judged.jobs, judged.why
        );
        out::print_message(err, &words);
    }
    get::print(facts, query, format, out, err)
}

fn none_judged(facts: &Facts, judged: &Judged) -> String {
    if table::no_readings(facts).is_some() {
        return format!(
            "no verdict for any job ({}); {}",
            judged.why,
            table::READ_PROMETHEUS
        );
    }
    format!(
        "no verdict for any job ({}). A verdict needs the readings of the last half hour: set `prometheus.url`, keep `stokehold record` running, or wait with `stokehold advise --for 30m`",
        judged.why
    )
}

/// Prints why no running job has a verdict, where none has one.
pub(super) fn say_not_judged(facts: &Facts, err: &mut dyn Write) {
    let judged = table::kinds::advice::judged(facts);
    if judged.jobs > 0 && judged.jobs == judged.silent {
        out::print_message(err, &none_judged(facts, &judged));
    }
}

/// The job of this name, and what bounds it in a sentence.
fn of_job(
    facts: &Facts,
    query: &Query,
    name: &str,
) -> Result<(model::fleet::job::JobKey, String), Failure> {
    let mut jobs = facts.fleet.jobs.iter();
    let own = jobs.find(|job| {
        let full = job.id.key.to_string();
        query.scope.has_job(job) && (full == name || job.name().as_str() == name)
    });
    let Some(job) = own else {
        let message = format!("no job named `{name}`");
        return Err(Failure::new(Exit::Failed, message));
    };
    Ok((
        job.id.clone(),
        table::kinds::advice::verdict_words(facts, job),
    ))
}
