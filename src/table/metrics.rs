//! Metrics: rows as families of Prometheus samples, and their text format.

use std::fmt::Write;

use model::fleet::finding::Finding;
use usage::{BudgetState, CostPart, UsageClass, UsageCounters};

use super::Facts;
use super::notify::alertmanager;
use super::rows::queues;

/// The text format of Prometheus.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Labels of a sample, by name.
pub type Labels = Vec<(&'static str, String)>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MetricKind {
    /// A value that only increases while its process runs.
    Counter,
    /// A value that can go up and down.
    Gauge,
}

/// A metric with its samples.
#[derive(Clone, PartialEq, Debug)]
pub struct MetricFamily {
    pub name: &'static str,
    /// Help text, a sentence.
    pub help: &'static str,
    pub kind: MetricKind,
    /// Its samples; an unknown value has no sample.
    pub samples: Vec<(Labels, f64)>,
}

impl MetricFamily {
    /// A family without samples yet.
    pub fn new(kind: MetricKind, name: &'static str, help: &'static str) -> Self {
        Self {
            name,
            help,
            kind,
            samples: Vec::new(),
        }
    }

    /// Adds a sample, where the value is known, and returns the family.
    #[must_use]
    pub fn with(mut self, labels: Labels, value: impl Into<Option<f64>>) -> Self {
        self.push(labels, value);
        self
    }

    /// Adds a sample, where the value is known.
    pub fn push(&mut self, labels: Labels, value: impl Into<Option<f64>>) {
        if let Some(value) = value.into().filter(|value| value.is_finite()) {
            self.samples.push((labels, value));
        }
    }
}

/// Writes families in the text format; every sample gets the `common` labels. Empty labels are left out, because Prometheus
/// treats them as missing.
pub fn text(families: &[MetricFamily], common: &[(&'static str, String)]) -> String {
    let mut out = String::new();
    for family in families.iter().filter(|known| !known.samples.is_empty()) {
        let kind = match family.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
        };
        let (name, help) = (family.name, family.help);
        let _ = write!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        for (labels, value) in &family.samples {
            out.push_str(name);
            let all = common.iter().chain(labels);
            for (at, (label, value)) in all.filter(|(_, value)| !value.is_empty()).enumerate() {
                out.push(if at == 0 { '{' } else { ',' });
                let _ = write!(out, "{label}=\"");
                for c in value.chars() {
                    match c {
                        '\\' => out.push_str("\\\\"),
                        '"' => out.push_str("\\\""),
                        '\n' => out.push_str("\\n"),
                        c => out.push(c),
                    }
                }
                out.push('"');
            }
            if !out.ends_with(name) {
                out.push('}');
            }
            let _ = writeln!(out, " {value}");
        }
    }
    out
}

/// The input of the usage ledger as counters since the process started, and gauges of the last snapshot.
pub fn usage(counters: &UsageCounters) -> Vec<MetricFamily> {
    use MetricKind::{Counter, Gauge};
    let mut time = MetricFamily::new(
        Counter,
        "stokehold_usage_device_seconds_total",
        "Time of whole devices since the recorder started, by what they were used for. Time that was not observed is not included.",
    );
    let mut cost = MetricFamily::new(
        Counter,
        "stokehold_usage_cost_usd_total",
        "Cost of that time in USD, estimated from list prices. Devices without a price have none.",
    );
    let mut devices = MetricFamily::new(
        Gauge,
        "stokehold_devices",
        "Devices, by what they are used for; a slice of a shared device is its share of it.",
    );
    let mut rate = MetricFamily::new(
        Gauge,
        "stokehold_cost_rate_usd_per_hour",
        "What devices cost in USD an hour, estimated from list prices.",
    );
    let (mut by_pool, mut by_team) = (LabeledSums::default(), LabeledSums::default());
    for (key, row) in counters.rows() {
        // The names of cost parts start with those of the time parts.
        let parts = CostPart::ALL.map(CostPart::field);
        for (part, name) in UsageClass::ALL
            .iter()
            .zip(parts)
            .filter(|(part, _)| row.has(**part))
        {
            let labels: Labels = vec![
                ("pool", key.pool.to_string()),
                ("class", key.class.to_string()),
                (
                    "billing",
                    key.billing.map_or("", |known| known.name()).to_owned(),
                ),
                ("namespace", key.namespace.to_string()),
                ("team", key.team.to_string()),
                ("queue", key.queue.to_string()),
                ("workload", key.job.to_string()),
                (
                    "priced",
                    if key.is_priced { "yes" } else { "no" }.to_owned(),
                ),
                ("part", name.to_owned()),
            ];
            if key.is_priced {
                cost.push(labels.clone(), row.usd(*part));
                by_team.add(
                    vec![
                        ("pool", key.pool.to_string()),
                        ("team", key.team.to_string()),
                        ("part", name.to_owned()),
                    ],
                    row.usd_per_hour(*part),
                );
            }
            by_pool.add(
                vec![
                    ("pool", key.pool.to_string()),
                    ("class", key.class.to_string()),
                    ("part", name.to_owned()),
                ],
                row.devices(*part),
            );
            time.push(labels, row.device_seconds(*part));
        }
    }
    if counters.is_current() {
        devices.samples = by_pool.0;
        rate.samples = by_team.0;
    }
    vec![
        time,
        cost,
        MetricFamily::new(
            Counter,
            "stokehold_usage_observed_seconds_total",
            "Time in which the whole fleet was observed, since the recorder started.",
        )
        .with(Vec::new(), counters.observed_seconds()),
        MetricFamily::new(
            Counter,
            "stokehold_usage_dropped_rows_total",
            "How often a row was above the limit of series and was counted under the name `other`.",
        )
        .with(Vec::new(), counters.dropped() as f64),
        devices,
        rate,
    ]
}

/// Sums by labels, in insertion order.
#[derive(Default)]
struct LabeledSums(Vec<(Labels, f64)>);

impl LabeledSums {
    fn add(&mut self, labels: Labels, value: f64) {
        match self.0.iter_mut().find(|(known, _)| *known == labels) {
            Some((_, sum)) => *sum += value,
            None => self.0.push((labels, value)),
        }
    }
}

/// Gauges of queues and findings, from the last snapshot.
pub fn fleet(facts: &Facts) -> Vec<MetricFamily> {
    use MetricKind::Gauge;
    let mut nominal = MetricFamily::new(
        Gauge,
        "stokehold_queue_nominal_devices",
        "Quota of a queue, in devices. A queue without a bound has none.",
    );
    let mut used = MetricFamily::new(
        Gauge,
        "stokehold_queue_used_devices",
        "Quota of a queue in use, in devices, borrowed quota included.",
    );
    let mut borrowed = MetricFamily::new(
        Gauge,
        "stokehold_queue_borrowed_devices",
        "Borrowed part of the quota in use, in devices.",
    );
    let mut running = MetricFamily::new(
        Gauge,
        "stokehold_queue_running_jobs",
        "Jobs of a queue with devices allocated.",
    );
    let mut waiting = MetricFamily::new(
        Gauge,
        "stokehold_queue_waiting_jobs",
        "Jobs of a queue that wait.",
    );
    let mut oldest = MetricFamily::new(
        Gauge,
        "stokehold_queue_oldest_waiting_seconds",
        "How long the job that waits longest has waited.",
    );
    for row in queues::rows(facts) {
        let labels: Labels = vec![
            ("queue", row.name.to_owned()),
            ("system", row.system.to_owned()),
        ];
        for cell in &row.quota {
            let mut labels = labels.clone();
            labels.push(("flavor", cell.flavor.unwrap_or_default().to_owned()));
            labels.push(("resource", cell.resource.to_owned()));
            nominal.push(
                labels.clone(),
                cell.nominal.map(queues::DeviceQuantity::devices),
            );
            used.push(
                labels.clone(),
                cell.used.map(queues::DeviceQuantity::devices),
            );
            borrowed.push(labels, cell.borrowed.map(queues::DeviceQuantity::devices));
        }
        running.push(labels.clone(), row.running.map(f64::from));
        waiting.push(labels.clone(), row.waiting.map(f64::from));
        oldest.push(labels, row.oldest_waiting_seconds.map(|age| age as f64));
    }
    let mut all = vec![nominal, used, borrowed, running, waiting, oldest];
    all.extend(findings(facts));
    all
}

/// Gauges of findings and sources, from the last snapshot.
pub fn findings(facts: &Facts) -> Vec<MetricFamily> {
    use MetricKind::Gauge;
    let mut findings = MetricFamily::new(Gauge, "stokehold_findings", "Active findings.");
    findings.samples = findings_of(&facts.fleet.findings).0;
    let mut sources = MetricFamily::new(
        Gauge,
        "stokehold_sources",
        "Sources of a kind, by their state.",
    );
    let mut age = MetricFamily::new(
        Gauge,
        "stokehold_source_age_seconds",
        "Time since the last good answer of a kind's source, of the one with the oldest.",
    );
    let (mut counts, mut ages) = (LabeledSums::default(), Vec::<(Labels, f64)>::new());
    for source in facts.fleet.sources.iter() {
        let kind: Labels = vec![("kind", source.kind.to_string())];
        let mut labels = kind.clone();
        labels.push(("state", source.state.name().to_owned()));
        counts.add(labels, 1.0);
        let Some(last) = source.last_ok else { continue };
        let seconds = facts.now.since(last).millis() as f64 / 1e3;
        match ages.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, oldest)) => *oldest = oldest.max(seconds),
            None => ages.push((kind, seconds)),
        }
    }
    (sources.samples, age.samples) = (counts.0, ages);
    vec![findings, sources, age]
}

fn findings_of(findings: &[Finding]) -> LabeledSums {
    let mut sums = LabeledSums::default();
    for finding in findings {
        let labels = vec![
            ("code", finding.code.to_string()),
            (
                "severity",
                alertmanager::severity(finding.severity).to_owned(),
            ),
        ];
        sums.add(labels, 1.0);
    }
    sums
}

/// Gauges of budgets, as shares of the budgeted amount.
pub fn budgets(states: &[BudgetState]) -> Vec<MetricFamily> {
    use MetricKind::Gauge;
    let mut spent = MetricFamily::new(
        Gauge,
        "stokehold_budget_spent_ratio",
        "Spend of a budget in its period so far, observed time only.",
    );
    let mut forecast = MetricFamily::new(
        Gauge,
        "stokehold_budget_forecast_ratio",
        "Forecast spend of a budget at the end of its period.",
    );
    let mut observed = MetricFamily::new(
        Gauge,
        "stokehold_budget_observed_ratio",
        "How much of the period so far was observed.",
    );
    for state in states {
        let labels: Labels = vec![("budget", state.budget.name.to_string())];
        let limit = state.budget.limit.max(1) as f64;
        spent.push(
            labels.clone(),
            state.spent.map(|spent| spent as f64 / limit),
        );
        let coming = state
            .forecast
            .as_ref()
            .map(|known| known.mid as f64 / limit);
        forecast.push(labels.clone(), coming);
        observed.push(labels, state.observed_ratio);
    }
    vec![spent, forecast, observed]
}
