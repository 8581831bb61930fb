//! Usage facts for the console, from the ledger of a cluster's record: read on a thread of its own, at most once a minute.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use ::usage::{Dimension, Period, Span, UsageBudget, UsageFilter, hour_of};
use model::base::Moment;
use model::cost::SpendScope;
use record::Archive;
use record::usage::{UsageFault, UsageFile};
use settings::Settings;
use table::Facts;
use table::spend::{CostBasis, PeriodCost, PeriodSums, UsageFacts, UsageStatus};

use super::demo::DemoLedger;
use super::prometheus::PrometheusUsage;
use super::{budgets, demo};
use crate::runtime::clock::SessionClock;
use crate::runtime::host::Host;
use crate::runtime::setup::Setup;
use crate::runtime::{records::recorder, usage};

/// Interval between reads; longer where reading takes long.
const EVERY: Duration = Duration::from_secs(60);
/// Pause after a read, as a multiple of its duration.
const SHARE: u32 = 100;

/// The periods that are read.
const PERIODS: [Period; 4] = [Period::Today, Period::Week, Period::Days30, Period::Month];

/// Scopes whose cost in the month is read beside that of teams.
const BY_MONTH: [(SpendScope, Dimension); 3] = [
    (SpendScope::Pool, Dimension::Pool),
    (SpendScope::Class, Dimension::Class),
    (SpendScope::Queue, Dimension::Queue),
];

/// Location and scope of the ledger.
#[derive(Clone)]
pub struct UsageReader {
    folder: Option<std::path::PathBuf>,
    context: String,
    budgets: Result<Vec<UsageBudget>, String>,
    periods: &'static [Period],
    basis: Result<CostBasis, String>,
    /// Used where this machine has no ledger.
    prometheus: Option<PrometheusUsage>,
}

impl UsageReader {
    /// A reader for the record of a context, in the directory of the settings.
    pub fn new(host: &Host, settings: &Settings, context: &str) -> Self {
        Self {
            folder: recorder::kept(settings, context),
            context: context.to_owned(),
            budgets: budgets::of_settings(host, settings).map_err(|failure| failure.message),
            periods: &PERIODS,
            basis: budgets::cost_basis(host, settings).map_err(|failure| failure.message),
            prometheus: PrometheusUsage::of(settings, Some(context)),
        }
    }

    /// Takes these budgets where the settings have none.
    #[must_use]
    pub fn or_budgets(mut self, budgets: &[UsageBudget]) -> Self {
        if self.budgets.as_ref().is_ok_and(Vec::is_empty) {
            self.budgets = Ok(budgets.to_vec());
        }
        self
    }

    /// Restricts the reader to budgets.
    #[must_use]
    pub fn of_budgets(mut self) -> Self {
        self.periods = &[];
        self
    }

    /// Restricts the reader to the ledger in this directory.
    #[must_use]
    pub fn in_folder(mut self, folder: &Path) -> Self {
        self.folder = Some(folder.to_owned());
        self.prometheus = None;
        self
    }

    pub fn read(&self, now: Moment) -> UsageFacts {
        let latest = self
            .folder
            .as_deref()
            .map(|folder| self.read_facts(folder, now));
        let absent = |latest: &UsageFacts| latest.status == UsageStatus::Absent;
        let latest = match (latest, &self.prometheus) {
            (None, Some(known)) => self.of_prometheus(known, now).transpose(),
            (Some(Ok(latest)), Some(known)) if absent(&latest) => self
                .of_prometheus(known, now)
                .transpose()
                .or(Some(Ok(latest))),
            (latest, _) => latest,
        };
        match latest {
            Some(Ok(facts)) => facts,
            Some(Err(why)) => UsageFacts {
                status: UsageStatus::Failed(why),
                ..UsageFacts::default()
            },
            None => UsageFacts {
                status: UsageStatus::Absent,
                ..UsageFacts::default()
            },
        }
    }

    fn read_facts(&self, folder: &Path, now: Moment) -> Result<UsageFacts, String> {
        let failed = |fault: UsageFault| fault.to_string();
        let file = match UsageFile::open_to_read(folder) {
            Ok(file) => file,
            Err(UsageFault::Absent(_)) => {
                return Ok(UsageFacts {
                    status: UsageStatus::Absent,
                    ..UsageFacts::default()
                });
            }
            Err(fault) => return Err(failed(fault)),
        };
        // A directory of the settings may have another cluster's record.
        if let Some(other) = Archive::open(folder)
            .ok()
            .filter(|archive| archive.context() != self.context)
        {
            return Err(format!(
                "{} is the record of {}: name one for {} (record.dir in [context.\"{}\"])",
                folder.display(),
                other.context(),
                self.context,
                self.context
            ));
        }
        let Some(until) = file.until().map_err(failed)? else {
            return Ok(UsageFacts {
                status: UsageStatus::Absent,
                ..UsageFacts::default()
            });
        };
        self.of_file(&file, until, now)
    }

    /// The usage facts from a Prometheus with a recorder's metrics; `None` where it has none.
    fn of_prometheus(
        &self,
        known: &PrometheusUsage,
        now: Moment,
    ) -> Result<Option<UsageFacts>, String> {
        let zone = self.basis.clone()?.zone.zone;
        let periods = self.periods.iter();
        let periods = periods.map(|period| period.spans(now, &zone).1.from);
        let budgets = self.budgets.iter().flatten();
        let budgets = budgets.map(|budget| budget.looks_at(now).from);
        let Some(from) = periods.chain(budgets).min() else {
            return Ok(None);
        };
        let span = Span {
            from,
            to: hour_of(now) + 1,
        };
        let facts = known.with_ledger(span, now, |file, name| {
            let until = file.until().map_err(|fault| fault.to_string())?;
            let Some(until) = until else { return Ok(None) };
            let facts = self.of_file(file, until, now)?;
            Ok(Some(UsageFacts {
                prometheus: Some(name.to_owned()),
                ..facts
            }))
        });
        facts.map(Option::flatten)
    }

    /// The usage facts of a ledger that this process keeps.
    pub(crate) fn of_ledger(&self, file: &UsageFile, now: Moment) -> UsageFacts {
        let facts = file.until().map_err(|fault| fault.to_string());
        let facts = facts.and_then(|until| {
            let until = until.ok_or_else(|| String::from("the ledger is empty so far"))?;
            self.of_file(file, until, now)
        });
        facts.unwrap_or_else(|why| UsageFacts {
            status: UsageStatus::Failed(why),
            ..UsageFacts::default()
        })
    }

    fn of_file(&self, file: &UsageFile, until: Moment, now: Moment) -> Result<UsageFacts, String> {
        let failed = |fault: UsageFault| fault.to_string();
        let basis = self.basis.clone()?;
        let by = [Dimension::Team, Dimension::Namespace];
        let sums = |span: Span, steps| file.sums(span, &by, steps, &UsageFilter::default());
        let period = |period: &Period| {
            let (this, before) = period.spans(now, &basis.zone.zone);
            Ok(PeriodSums {
                period: *period,
                now: usage::seen(file, this, now)?.0,
                before: usage::seen(file, before, now)?.0,
                sums: sums(this, PeriodCost::steps(this))?,
                sums_before: sums(before, 1)?,
            })
        };
        let periods = self.periods.iter().map(period);
        let periods: Result<Vec<PeriodSums>, UsageFault> = periods.collect();
        let set = self.budgets.as_ref().map_err(Clone::clone)?;
        let (this, _) = Period::Month.spans(now, &basis.zone.zone);
        let by = |(scope, by)| Ok((scope, file.sums(this, &[by], 1, &UsageFilter::default())?));
        let scopes = BY_MONTH.into_iter();
        let scopes = scopes.filter(|_| self.periods.contains(&Period::Month));
        let month: Result<Vec<_>, UsageFault> = scopes.map(by).collect();
        Ok(UsageFacts {
            status: UsageStatus::Read(until),
            periods: periods.map_err(failed)?,
            month: month.map_err(failed)?,
            budgets: budgets::states(file, set, now).map_err(failed)?,
            is_demo: false,
            prometheus: None,
            basis,
        })
    }
}

/// The usage facts of a session, updated periodically. A simulated fleet of this process has its own ledger where the
/// settings name no record.
pub(crate) fn watched(
    setup: &Setup,
    context: &str,
    demo: Option<DemoLedger>,
    (facts, clock): (watch::Receiver<Option<Arc<Facts>>>, SessionClock),
) -> watch::Receiver<Arc<UsageFacts>> {
    let mut reader = UsageReader::new(&setup.host, &setup.settings, context);
    let Some(ledger) = demo else {
        return followed(reader, clock);
    };
    reader.prometheus = None;
    let record = &setup.settings.record;
    match record.enabled && record.dir.is_some() {
        true => followed(reader, clock),
        false => {
            let prices = Arc::clone(&setup.rulebook.prices);
            demo::followed(reader, ledger, facts, prices, clock)
        }
    }
}

/// A reader's usage facts, updated periodically. Must be called within a tokio runtime.
pub fn followed(reader: UsageReader, clock: SessionClock) -> watch::Receiver<Arc<UsageFacts>> {
    let (say, receiver) = watch::channel(Arc::default());
    tokio::spawn(async move {
        loop {
            let begun = Instant::now();
            let (asked, now) = (reader.clone(), clock.now());
            let read = spawn_blocking(move || asked.read(now)).await;
            let Ok(facts) = read else { return };
            say.send_if_modified(|known| {
                let differs = **known != facts;
                *known = Arc::new(facts);
                differs
            });
            tokio::select! {
                () = tokio::time::sleep(EVERY.max(begun.elapsed() * SHARE)) => {}
                () = say.closed() => return,
            }
        }
    });
    receiver
}
