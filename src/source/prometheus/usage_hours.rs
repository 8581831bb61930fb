//! The hours of the usage ledger, read back from a Prometheus that stores a recorder's metrics.
//!
//! Each hour is `increase()` over that hour, which tolerates counter resets. Where several recorders, or one recorder scraped
//! over several paths, fill the same hour, the copy that observed most counts: nothing is counted twice.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use exporter::Matchers;
use model::base::{Moment, Name, SmallSort};
use model::fleet::node::Billing;
use serde::Deserialize;
use usage::{
    CostPart, HOUR_MS, HourUsage, Span, UsageClass, UsageKey, UsageRow, hour_of, start_of,
};

use super::prometheus_client::{PrometheusClient, RequestPriority};

/// Hours that one query covers.
const STEP: i64 = 24;
/// An hour is final this long after its end: its last samples have arrived by then.
const SETTLED_MS: i64 = 120_000;
/// Labels that distinguish the series of one recorder, over one path, from another's.
type Copy = [String; 3];

/// Reads hours of usage.
pub struct UsageHours {
    client: Arc<PrometheusClient>,
    matchers: Matchers,
    /// The value of the label `cluster` to read.
    cluster: String,
}

impl UsageHours {
    /// Finds a recorder's hours from `from` on: those of the cluster that is `named`, or has the name of the `context`, or the
    /// only one. `None` where no recorder's metrics exist.
    ///
    /// # Errors
    /// Prometheus does not answer, or has hours of several clusters of which none matches.
    pub async fn find(
        client: Arc<PrometheusClient>,
        matchers: Matchers,
        named: Option<&str>,
        context: Option<&str>,
        from: Moment,
        now: Moment,
    ) -> Result<Option<Self>, String> {
        let seconds = (now.since(from).millis() / 1_000).max(3_600);
        let selector = matchers.with("");
        let query = format!(
            "group by (cluster) (last_over_time(stokehold_usage_observed_seconds_total{selector}[{seconds}s]))"
        );
        let body = ask(&client, &query, now.millis(), now.millis()).await?;
        let mut clusters: Vec<String> = parse(&body)?
            .into_iter()
            .map(|series| series.label("cluster").to_owned())
            .collect();
        clusters.small_sort();
        let wanted = named.or(context.filter(|name| clusters.iter().any(|known| known == name)));
        let cluster = match (wanted, &clusters[..]) {
            (Some(name), known) if known.iter().any(|known| known == name) => name.to_owned(),
            (_, []) => return Ok(None),
            (None, [one]) => one.clone(),
            (_, several) => {
                return Err(format!(
                    "it holds the hours of {}: name one, record.cluster in the settings",
                    several.join(", ")
                ));
            }
        };
        Ok(Some(Self {
            client,
            matchers,
            cluster,
        }))
    }

    /// The cluster whose hours are read.
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// The hours of a span that were observed by `now`.
    ///
    /// # Errors
    /// Prometheus does not answer, or its answer is invalid.
    pub async fn read(&self, span: Span, now: Moment) -> Result<Vec<HourUsage>, String> {
        let mut hours = Vec::new();
        for window in windows(span, now) {
            hours.extend(self.window(window, now).await?);
        }
        Ok(hours)
    }

    /// The hours of a query.
    async fn window(&self, window: Window, now: Moment) -> Result<Vec<HourUsage>, String> {
        let Window { length_ms, ends } = window;
        let cluster = quoted(&self.cluster);
        let selector = self.matchers.with(&format!("cluster={cluster}"));
        let question = |name: &str, by: &str| {
            format!("sum by ({by}) (increase({name}{selector}[{length_ms}ms]))")
        };
        const OF: &str = "recorder, job, instance";
        const ROW: &str = "recorder, job, instance, pool, class, billing, namespace, exported_namespace, team, queue, priced, part";
        let ask = async |name: &str, by: &str| {
            ask(&self.client, &question(name, by), ends[0], ends[1]).await
        };
        let observed = ask("stokehold_usage_observed_seconds_total", OF).await?;
        let best = best(&parse(&observed)?);
        let time = ask("stokehold_usage_device_seconds_total", ROW).await?;
        let cost = ask("stokehold_usage_cost_usd_total", ROW).await?;
        // The first parts of the cost are those of the time.
        let parts = &CostPart::ALL[..UsageClass::ALL.len()];
        let mut hours: BTreeMap<i64, Hour> = BTreeMap::new();
        for (at, (_, seen)) in &best {
            hours.entry(*at).or_default().observed = seen.min(length_ms as f64 / 1e3);
        }
        for (series, is_cost) in [(parse(&time)?, false), (parse(&cost)?, true)] {
            for series in series {
                let (copy, part) = (series.copy(), series.label("part"));
                let Some(part) = parts.iter().position(|known| known.field() == part) else {
                    continue;
                };
                let key = series.key(part);
                for (at, value) in series.values() {
                    if best.get(&at).is_none_or(|(known, _)| *known != copy) {
                        continue;
                    }
                    let hour = hours.entry(at).or_default();
                    let row = hour.rows.entry(key.clone()).or_default();
                    match is_cost {
                        true => row.1[part] += value,
                        false => row.0[part] += value,
                    }
                }
            }
        }
        let hours = hours
            .into_iter()
            .map(|(at, hour)| hour.usage(at, length_ms, now));
        Ok(hours.filter(|hour| hour.observed_ms > 0).collect())
    }
}

/// One query: `increase()` over windows of this length that end at each hour between two moments, which are milliseconds
/// since the Unix epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Window {
    length_ms: i64,
    ends: [i64; 2],
}

/// The queries for the part of a span before `now`. The window of the current hour ends at `now` to the millisecond: counters of
/// a large fleet grow in steps of several seconds, and a window that ended at the last full second would lack the last step.
fn windows(span: Span, now: Moment) -> Vec<Window> {
    let current = hour_of(now);
    let mut windows = Vec::new();
    let mut from = span.from;
    let over = span.to.min(current);
    while from < over {
        let to = over.min(from + STEP);
        windows.push(Window {
            length_ms: HOUR_MS,
            ends: [start_of(from + 1), start_of(to)].map(Moment::millis),
        });
        from = to;
    }
    let passed = now.millis() - start_of(current).millis();
    if (span.from..span.to).contains(&current) && passed > 0 {
        windows.push(Window {
            length_ms: passed,
            ends: [now.millis(); 2],
        });
    }
    windows
}

/// An hour under construction, in seconds.
#[derive(Default)]
struct Hour {
    observed: f64,
    /// Device-seconds and USD by part.
    rows: BTreeMap<UsageKey, ([f64; 6], [f64; 6])>,
}

impl Hour {
    /// `at` is the end of its window, milliseconds since the Unix epoch.
    fn usage(self, at: i64, length_ms: i64, now: Moment) -> HourUsage {
        // A window ends at the end of its hour, or now.
        let hour = (at - length_ms).div_euclid(HOUR_MS);
        let whole = |value: f64, unit: f64| (value * unit).round().max(0.0);
        let missing = (length_ms as f64 / 1e3 - self.observed).max(0.0);
        let rows = self.rows.into_iter().map(|(key, (time, cost))| {
            let devices = time.iter().sum::<f64>() / self.observed.max(1.0);
            UsageRow {
                device_ms: time.map(|seconds| whole(seconds, 1e3) as u64),
                unobserved_ms: whole(devices * missing, 1e3) as u64,
                energy_mwh: None,
                on_demand_micros: None,
                cost_micros: (!key.price_source.is_empty())
                    .then(|| cost.map(|usd| whole(usd, 1e6) as i64)),
                key,
            }
        });
        HourUsage {
            hour,
            closed: now.millis() - start_of(hour + 1).millis() >= SETTLED_MS,
            observed_ms: whole(self.observed, 1e3) as u64,
            until_ms: length_ms.min(HOUR_MS) as u64,
            rows: rows.collect(),
            losses: Vec::new(),
            finished: Vec::new(),
        }
    }
}

/// For each time, the copy that observed most, and how many seconds it observed.
fn best(observed: &[MatrixSeries<'_>]) -> BTreeMap<i64, (Copy, f64)> {
    let mut best: BTreeMap<i64, (Copy, f64)> = BTreeMap::new();
    for series in observed {
        for (at, seen) in series.values().filter(|(_, seen)| *seen > 0.0) {
            let copy = series.copy();
            let better = best.get(&at).is_none_or(|(known, most)| {
                // Copies of one recorder differ by a second or two: always prefer the same one.
                let even = (seen - most).abs() <= 5.0;
                if even { copy < *known } else { seen > *most }
            });
            if better {
                best.insert(at, (copy, seen));
            }
        }
    }
    best
}

#[derive(Deserialize)]
struct RangeResponse<'a> {
    #[serde(borrow)]
    data: Data<'a>,
}

#[derive(Deserialize)]
struct Data<'a> {
    #[serde(borrow)]
    result: Vec<MatrixSeries<'a>>,
}

/// A series of a matrix.
#[derive(Deserialize)]
struct MatrixSeries<'a> {
    #[serde(borrow)]
    metric: BTreeMap<Cow<'a, str>, Cow<'a, str>>,
    #[serde(borrow)]
    values: Vec<(f64, Cow<'a, str>)>,
}

impl MatrixSeries<'_> {
    fn label(&self, name: &str) -> &str {
        self.metric.get(name).map_or("", |value| value)
    }

    fn copy(&self) -> Copy {
        ["recorder", "job", "instance"].map(|label| self.label(label).to_owned())
    }

    fn key(&self, part: usize) -> UsageKey {
        let name = |label: &str| Name::new(self.label(label));
        let held = |label: &str| match part < UsageClass::ALLOCATED {
            true => name(label),
            false => Name::default(),
        };
        // A scrape without honor_labels replaces the row's namespace by the recorder's own.
        let namespace = match self.label("exported_namespace") {
            "" => held("namespace"),
            _ => held("exported_namespace"),
        };
        UsageKey {
            pool: name("pool"),
            class: name("class"),
            billing: Billing::from_name(self.label("billing")),
            namespace,
            team: held("team"),
            queue: held("queue"),
            price_source: match self.label("priced") {
                "yes" => Name::new("prometheus"),
                _ => Name::default(),
            },
            ..UsageKey::default()
        }
    }

    /// Times in milliseconds since the Unix epoch, and the values that are numbers.
    fn values(&self) -> impl Iterator<Item = (i64, f64)> {
        let values = self.values.iter();
        values.filter_map(|(at, value)| {
            let value: f64 = value.parse().ok().filter(|value: &f64| value.is_finite())?;
            Some(((*at * 1e3).round() as i64, value))
        })
    }
}

fn parse(body: &[u8]) -> Result<Vec<MatrixSeries<'_>>, String> {
    let answer: Result<RangeResponse<'_>, _> = serde_json::from_slice(body);
    answer
        .map(|answer| answer.data.result)
        .map_err(|error| format!("its answer is not that of Prometheus ({error})"))
}

/// Asks for a value an hour between two moments, milliseconds since the Unix epoch.
async fn ask(
    client: &PrometheusClient,
    query: &str,
    from: i64,
    to: i64,
) -> Result<Vec<u8>, String> {
    let [from, to] = [from, to].map(|at| format!("{}.{:03}", at / 1_000, at % 1_000));
    let parameters = [
        ("query", query),
        ("start", &from),
        ("end", &to),
        ("step", "3600"),
    ];
    let answer = client.get("/api/v1/query_range", &parameters, RequestPriority::Now);
    answer.await.map_err(|fault| fault.message)
}

/// A label value as a PromQL string.
fn quoted(value: &str) -> String {
    let mut out = String::from("\"");
    for c in value.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hour() -> i64 {
        hour_of(Moment::parse("2026-11-24T06:00:00Z").expect("a moment"))
    }

    #[test]
    fn of_two_recorders_the_one_that_saw_more_counts() {
        let end = start_of(hour() + 1).millis() / 1_000;
        let body = format!(
            r#"{{"status":"success","data":{{"resultType":"matrix","result":[
            {{"metric":{{"recorder":"b"}},"values":[[{end},"3599.5"],[{},"3600"]]}},
            {{"metric":{{"recorder":"a"}},"values":[[{end},"3598"],[{},"1200"]]}},
            {{"metric":{{"recorder":"c"}},"values":[[{end},"NaN"],[{},"0"]]}}]}}}}"#,
            end + 3_600,
            end + 3_600,
            end + 7_200
        );
        let best = best(&parse(body.as_bytes()).expect("is read"));
        let names: Vec<&str> = best.values().map(|(copy, _)| copy[0].as_str()).collect();
        assert_eq!(
            names,
            ["a", "b"],
            "even, then more; nothing observed is no hour"
        );
    }

    #[test]
    fn time_without_pictures_is_unobserved() {
        let mut found = Hour {
            observed: 1_800.0,
            ..Hour::default()
        };
        let key = UsageKey {
            price_source: "prometheus".into(),
            ..UsageKey::default()
        };
        let unpriced = UsageKey::default();
        let parts = [0.0, 0.0, 0.0, 0.0, 3_600.0, 0.0];
        found
            .rows
            .insert(key, (parts, [0.0, 0.0, 0.0, 0.0, 2.5, 0.0]));
        found.rows.insert(unpriced, (parts, [0.0; 6]));
        let usage = found.usage(start_of(hour() + 1).millis(), HOUR_MS, start_of(hour() + 2));
        assert_eq!((usage.hour, usage.closed), (hour(), true));
        assert_eq!((usage.observed_ms, usage.until_ms), (1_800_000, 3_600_000));
        let [none, priced] = &usage.rows[..] else {
            panic!("two rows")
        };
        assert_eq!(none.cost_micros, None, "no price is not 0");
        assert_eq!(priced.device_ms[4], 3_600_000);
        assert_eq!(
            priced.unobserved_ms, 3_600_000,
            "two devices for half an hour"
        );
        assert_eq!(priced.cost_micros.expect("is priced")[4], 2_500_000);
    }

    #[test]
    fn a_name_cannot_leave_its_quotes() {
        assert_eq!(quoted("a\"} or x{\\\n"), "\"a\\\"} or x{\\\\\\n\"");
    }
}
