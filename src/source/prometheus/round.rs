//! One round: the dialects with metrics in Prometheus, all their samples, the state of their targets, and the readings.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::scrape::page::{NoPage, PageFault};
use crate::scrape_coverage::{Covered, ScrapeCoverage};
use crate::serving::ServingPod;
use exporter::promql::any_of;
use exporter::samples::{BadAnswer, words};
use exporter::{Dialect, Dialects, HostRule, Matchers, Rates, Samples, Scrape, Ups};
use model::base::{Moment, Name, Names};
use model::fleet::observe::Observation;
use model::fleet::reading::Page;
use model::fleet::skipped_series::SkippedSeries;

use super::prometheus_client::{PrometheusClient, RequestPriority};
use super::{Feed, PastTarget, Round, RoundError, RoundState, TargetState};

/// The list of metric names is queried this often.
const NAMES_EVERY: Duration = Duration::from_secs(300);

/// The same while no metric of an exporter is known.
const NAMES_SOON: Duration = Duration::from_secs(60);

/// The first round waits this long for the list of pods, which has the node of each target.
const PODS_PATIENCE: Duration = Duration::from_secs(5);

/// The assumed scrape interval of a target whose interval is not known yet: Prometheus' default.
const USUAL_SPACING: Duration = Duration::from_secs(60);

/// Observations of one batch.
const BATCH: usize = 256;

impl Feed {
    /// Runs all queries once.
    pub(super) async fn round(
        &mut self,
        state: &mut RoundState,
        asker: &Arc<PrometheusClient>,
        number: u64,
    ) -> Result<Round, RoundError> {
        self.plan(state, asker).await?;
        if state.plan.is_empty() {
            return Ok(Round {
                cover: ScrapeCoverage::nothing(),
                used: 0,
                skipped: 0,
                skipped_series: Vec::new(),
                message: "it knows no metric of any exporter; does it scrape them, and does prometheus.matcher fit? Exporters are scraped instead".to_owned(),
                targets: Vec::new(),
            });
        }
        let mut found: Vec<(Name, Samples)> = Vec::new();
        let mut failed: Vec<(Name, NoPage)> = Vec::new();
        for dialect in state.plan.keys().cloned().collect::<Vec<_>>() {
            match self.samples(state, asker, &dialect).await {
                Ok(samples) => found.push((dialect, samples)),
                Err(no) => failed.push((dialect, no)),
            }
        }
        if found.is_empty()
            && let Some((_, no)) = failed.pop()
        {
            return Err(no.into());
        }
        let jobs: BTreeSet<String> = found
            .iter()
            .flat_map(|(_, samples)| samples.jobs())
            .map(str::to_owned)
            .collect();
        let received = self.stats.now();
        let ups = self.ups(asker, &jobs).await;
        let mut times: FxHashMap<String, Moment> = FxHashMap::default();
        for (dialect, samples) in &found {
            self.times(asker, dialect, samples, &ups, &mut times).await;
        }
        if !state.settled {
            self.await_pods(state).await;
        }
        self.hear(state);
        let job = ReadingsInput {
            dialects: Arc::clone(&self.dialects),
            names: Arc::clone(&self.names),
            found,
            ups,
            times,
            received,
            number,
            interval: self.options.interval,
            pods: state.pods.values().cloned().collect(),
            kept: std::mem::take(&mut state.targets),
        };
        let done = tokio::task::spawn_blocking(move || job.read())
            .await
            .map_err(|_| {
                NoPage::failed(
                    "the samples could not be read: a bug in Stokehold, please report it",
                )
            })?;
        state.targets = done.kept;
        for batch in done.pages.chunks(BATCH) {
            self.out
                .send(batch.to_vec())
                .await
                .map_err(|_| RoundError::ChannelClosed)?;
        }
        let mut round = done.round;
        for (dialect, no) in failed {
            let message = format!("{dialect}: {}", no.message);
            round.message.push_str(&format!("; {message}"));
            state.errors.add(self.stats.now(), message);
        }
        Ok(round)
    }

    /// Looks up from time to time which of the dialects' metrics exist.
    async fn plan(
        &mut self,
        state: &mut RoundState,
        asker: &PrometheusClient,
    ) -> Result<(), NoPage> {
        let now = self.stats.local();
        let every = if state.plan.is_empty() {
            NAMES_SOON
        } else {
            NAMES_EVERY
        };
        if state
            .planned_at
            .is_some_and(|at| now.since(at) < every.into())
        {
            return Ok(());
        }
        let selector = self.options.matchers.with("");
        let mut parameters: Vec<(&str, &str)> = Vec::new();
        // Only metrics of the last ten minutes count, not all that Prometheus retains.
        let start = (self.stats.now().millis() / 1000 - 600).to_string();
        parameters.push(("start", &start));
        if !self.options.matchers.as_str().is_empty() {
            parameters.push(("match[]", &selector));
        }
        let path = "/api/v1/label/__name__/values";
        let names = match asker.get(path, &parameters, RequestPriority::Now).await {
            Ok(body) => Some(words(&body).map_err(bad)?),
            // Some gateways serve queries only.
            Err(no) if no.message.starts_with("404") || no.why == PageFault::Refused => None,
            Err(no) => return Err(no),
        };
        state.planned_at = Some(now);
        let mut plan = BTreeMap::new();
        for dialect in self.dialects.iter() {
            let known: BTreeSet<String> = match &names {
                Some(names) => {
                    let names: Vec<&str> = names.iter().map(String::as_str).collect();
                    dialect
                        .known_of(&names)
                        .into_iter()
                        .map(str::to_owned)
                        .collect()
                }
                None => dialect.metrics().into_iter().map(str::to_owned).collect(),
            };
            if known.is_empty() {
                continue;
            }
            // Query parts that were split because answers were too large are kept while they match.
            let parts = match state.plan.remove(&dialect.name) {
                Some(old) if old.iter().flatten().eq(known.iter()) => old,
                _ => vec![known],
            };
            plan.insert(dialect.name.clone(), parts);
        }
        state.plan = plan;
        Ok(())
    }

    /// Every sample of a dialect. A part whose answer is too large is split in halves from now on.
    async fn samples(
        &self,
        state: &mut RoundState,
        asker: &PrometheusClient,
        name: &Name,
    ) -> Result<Samples, NoPage> {
        let (Some(dialect), Some(parts)) = (self.dialects.get(name), state.plan.get_mut(name))
        else {
            return Ok(Samples::default());
        };
        let mut samples = Samples::default();
        let mut at = 0;
        'parts: while at < parts.len() {
            let names: BTreeSet<&str> = parts[at].iter().map(String::as_str).collect();
            for query in dialect.selectors(&names, &self.options.matchers, "") {
                let asked = ask(
                    asker,
                    "/api/v1/query",
                    &[("query", &query)],
                    RequestPriority::Now,
                    samples,
                )
                .await;
                samples = match asked {
                    (samples, Ok(())) => samples,
                    (kept, Err(no)) if no.why == PageFault::TooLarge && names.len() > 1 => {
                        samples = kept;
                        let middle = parts[at].iter().nth(names.len() / 2).cloned();
                        let rest = middle
                            .map(|middle| parts[at].split_off(&middle))
                            .unwrap_or_default();
                        parts.insert(at + 1, rest);
                        continue 'parts;
                    }
                    (_, Err(no)) => return Err(no),
                };
            }
            at += 1;
        }
        Ok(samples)
    }

    /// The targets' own labels and when each was scraped; empty where Prometheus has no `up`.
    async fn ups(&self, asker: &PrometheusClient, jobs: &BTreeSet<String>) -> Ups {
        if jobs.is_empty() {
            return Ups::default();
        }
        let inside = any_of("job", jobs.iter().map(String::as_str));
        let query = format!("timestamp(up{})", self.options.matchers.with(&inside));
        let (samples, asked) = ask(
            asker,
            "/api/v1/query",
            &[("query", &query)],
            RequestPriority::Now,
            Samples::default(),
        )
        .await;
        match asked {
            Ok(()) => Ups::of(&samples),
            Err(no) => {
                tracing::debug!(message = %no.message, "no `up`");
                Ups::default()
            }
        }
    }

    /// Scrape times of targets without `up`: the timestamps of a metric that many of them have.
    async fn times(
        &self,
        asker: &PrometheusClient,
        dialect: &Name,
        samples: &Samples,
        ups: &Ups,
        times: &mut FxHashMap<String, Moment>,
    ) {
        let mut names: BTreeMap<&str, usize> = BTreeMap::new();
        for scrape in samples.scrapes(ups) {
            if scrape.scraped_at().is_none()
                && let Some(name) = scrape.any_name()
            {
                *names.entry(name).or_default() += 1;
            }
        }
        let (Some((name, _)), Some(dialect)) = (
            names.into_iter().max_by_key(|(_, count)| *count),
            self.dialects.get(dialect),
        ) else {
            return;
        };
        let one = BTreeSet::from([name]);
        for selector in dialect.selectors(&one, &self.options.matchers, "") {
            let query = format!("timestamp({selector})");
            let (found, asked) = ask(
                asker,
                "/api/v1/query",
                &[("query", &query)],
                RequestPriority::Now,
                Samples::default(),
            )
            .await;
            if asked.is_ok() {
                times.extend(found.newest());
            }
        }
    }

    async fn await_pods(&mut self, state: &mut RoundState) {
        let limit = tokio::time::sleep(PODS_PATIENCE);
        tokio::pin!(limit);
        while !state.settled {
            tokio::select! {
                news = self.news.recv() => match news {
                    Some(news) => state.hear(news),
                    None => state.settled = true,
                },
                () = &mut limit => state.settled = true,
            }
        }
    }
}

/// Runs a query and adds its samples to the others; a large answer is parsed on a blocking thread.
pub(super) async fn ask(
    asker: &PrometheusClient,
    path: &str,
    parameters: &[(&str, &str)],
    urgency: RequestPriority,
    mut samples: Samples,
) -> (Samples, Result<(), NoPage>) {
    let body = match asker.get(path, parameters, urgency).await {
        Ok(body) => body,
        Err(no) => return (samples, Err(no)),
    };
    let read = tokio::task::spawn_blocking(move || {
        let taken = samples.take(&body);
        (samples, taken)
    });
    match read.await {
        Ok((samples, taken)) => (samples, taken.map_err(bad)),
        Err(_) => (
            Samples::default(),
            Err(NoPage::failed(
                "the answer could not be read: a bug in Stokehold, please report it",
            )),
        ),
    }
}

/// The error of an invalid answer, with its repair.
pub(super) fn bad(answer: BadAnswer) -> NoPage {
    match answer {
        BadAnswer::TooMany => NoPage {
            why: PageFault::TooLarge,
            message: format!("{answer} of one exporter; narrow them with prometheus.matcher"),
        },
        BadAnswer::Refused(..) => NoPage::failed(crate::api_error::clipped(&answer.to_string())),
        BadAnswer::Nonsense(_) => NoPage::failed(format!(
            "{}; check address or service of [prometheus]",
            crate::api_error::clipped(&answer.to_string())
        )),
    }
}

/// The exporters' pods, by name and by address.
pub(super) struct ExporterPods<'p> {
    by_key: BTreeMap<&'p model::base::ObjectKey, &'p ServingPod>,
    by_ip: FxHashMap<&'p str, &'p ServingPod>,
}

impl<'p> ExporterPods<'p> {
    pub(super) fn of(pods: &'p [ServingPod]) -> Self {
        Self {
            by_key: pods.iter().map(|pod| (&pod.key, pod)).collect(),
            by_ip: pods
                .iter()
                .filter_map(|pod| Some((pod.ip.as_deref()?, pod)))
                .collect(),
        }
    }

    /// The scraped pod, if the series name it.
    pub(super) fn pod(&self, scrape: &Scrape<'_>) -> Option<&'p ServingPod> {
        self.by_key.get(&scrape.pod()?).copied()
    }

    /// The node that a target is on: by its own label, by its pod, by its address.
    pub(super) fn node(&self, scrape: &Scrape<'_>) -> Option<Name> {
        if let Some(pod) = self.pod(scrape) {
            return pod.node.clone();
        }
        if let Some(node) = scrape.node() {
            return Some(Name::new(node));
        }
        self.by_ip
            .get(scrape.address()?)
            .and_then(|pod| pod.node.clone())
    }
}

/// Inputs of the readings.
struct ReadingsInput {
    dialects: Arc<Dialects>,
    names: Arc<Mutex<Names>>,
    found: Vec<(Name, Samples)>,
    ups: Ups,
    times: FxHashMap<String, Moment>,
    received: Moment,
    number: u64,
    interval: Duration,
    pods: Vec<ServingPod>,
    kept: FxHashMap<(String, Name), TargetState>,
}

struct Done {
    pages: Vec<Observation>,
    kept: FxHashMap<(String, Name), TargetState>,
    round: Round,
}

impl ReadingsInput {
    fn read(mut self) -> Done {
        let places = ExporterPods::of(&self.pods);
        let mut covered = Covered::default();
        let mut pages = Vec::new();
        let (mut used, mut skipped) = (0, 0);
        let mut skips = Vec::new();
        let mut counts: Vec<String> = Vec::new();
        let mut targets = Vec::new();
        let (mut late, mut timeless) = (0usize, 0usize);
        for (name, samples) in &self.found {
            let Some(dialect) = self.dialects.get(name) else {
                continue;
            };
            let evaluated = samples.evaluated();
            let mut count = 0;
            for scrape in samples.scrapes(&self.ups) {
                let id = scrape.id();
                let node = places.node(&scrape);
                let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
                let Some((_, mut read)) = scrape.read(dialect, node.as_ref(), &mut names).pop()
                else {
                    continue;
                };
                drop(names);
                count += 1;
                used += read.report.series_used;
                skipped += read.report.series_skipped;
                skips.append(&mut read.report.skipped);
                let stated = scrape.scraped_at().or_else(|| self.times.get(&id).copied());
                timeless += usize::from(stated.is_none());
                let then = stated.or(evaluated).unwrap_or(self.received);
                let age = evaluated.map_or(Duration::ZERO, |now| {
                    Duration::from_millis(now.since(then).millis())
                });
                let key = (id, name.clone());
                let kept = self.kept.entry(key.clone()).or_insert_with(|| TargetState {
                    rates: Rates::default(),
                    at: Moment::from_millis(i64::MIN),
                    spacing: None,
                    round: 0,
                });
                let first = kept.round == 0;
                let news = then > kept.at || then < kept.at.minus(Duration::from_secs(60));
                if !first && news {
                    let since = Duration::from_millis(then.since(kept.at).millis());
                    // A missed scrape makes one interval longer: the shorter of two is the true one.
                    kept.spacing = Some(
                        kept.spacing
                            .map_or(since, |old| if since > old * 2 { old } else { since }),
                    );
                }
                kept.round = self.number;
                let spacing = kept.spacing.unwrap_or(USUAL_SPACING);
                let interval = dialect.interval.max(self.interval).max(spacing);
                let stale = age > interval.saturating_mul(3).max(Duration::from_secs(90));
                late += usize::from(stale);
                if !stale {
                    match places.pod(&scrape) {
                        Some(pod) => drop(covered.pods.insert(pod.key.clone())),
                        None => {
                            if let Some(node) = &node {
                                covered.nodes.insert((name.clone(), node.clone()));
                            }
                        }
                    }
                }
                targets.push(PastTarget {
                    dialect: name.clone(),
                    job: scrape.label("job").unwrap_or_default().to_owned(),
                    instance: scrape.label("instance").unwrap_or_default().to_owned(),
                    id: key.0,
                    node: node.clone(),
                    series: scrape.series(),
                });
                // The same scrape again has no new values.
                if !news {
                    continue;
                }
                kept.at = then;
                kept.rates.fill(then, &mut read);
                if read.readings.is_empty() {
                    continue;
                }
                // Readings about hosts other than the target's belong to those.
                let of_its_node = dialect.host == HostRule::Target;
                pages.push(Observation::Page(Box::new(Page {
                    node: node.filter(|_| of_its_node),
                    at: self.received.minus(age),
                    interval,
                    readings: read.readings,
                })));
            }
            if count > 0 {
                counts.push(format!("{count} of {name}"));
            }
        }
        // Drop targets that Prometheus has not returned for ten rounds.
        let number = self.number;
        self.kept.retain(|_, kept| kept.round + 10 >= number);
        let mut message = match counts.as_slice() {
            [] => "no current exporter samples; does Prometheus still scrape them? Stokehold scrapes the exporters instead".to_owned(),
            counts => format!("targets: {}", counts.join(", ")),
        };
        if late > 0 {
            message.push_str(&format!(
                "; {late} not scraped lately, scraped by Stokehold instead"
            ));
        }
        if timeless > 0 {
            message.push_str(&format!("; scrape time unknown for {timeless}"));
        }
        Done {
            pages,
            kept: self.kept,
            round: Round {
                cover: ScrapeCoverage::Of(covered),
                used,
                skipped,
                skipped_series: SkippedSeries::sum(&skips),
                message,
                targets,
            },
        }
    }
}

/// Narrows a dialect's selector to these jobs and instances.
pub(super) fn narrowed(
    dialect: &Dialect,
    names: &BTreeSet<&str>,
    matchers: &Matchers,
    targets: &[&PastTarget],
) -> Vec<String> {
    let jobs: BTreeSet<&str> = targets.iter().map(|target| target.job.as_str()).collect();
    let instances: BTreeSet<&str> = targets
        .iter()
        .map(|target| target.instance.as_str())
        .collect();
    let mut more = Vec::new();
    if !jobs.contains("") {
        more.push(any_of("job", jobs));
    }
    if !instances.contains("") {
        more.push(any_of("instance", instances));
    }
    dialect.selectors(names, matchers, &more.join(","))
}
