//! The Prometheus HTTP API over the exporters' pages as they are now.
//!
//! Each exporter is a target with the labels that a pod monitor gives it (`job`, `instance`, `namespace`, `pod`,
//! `container`). Instant vector selectors and `timestamp` of them are evaluated; every other expression is refused as
//! Prometheus refuses what it cannot parse. No sample is kept: the world computes a page at any past moment, so that a range
//! costs time, bounded as in Prometheus, and no memory.

mod pages;
mod selector;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Limited};
use serde_json::{Value, json};

use self::pages::{SimSeries, scrape};
use self::selector::{QueryExpression, SeriesSelector};
use super::api::request::{UrlQuery, decoded};
use super::api::{Body, BoxError, respond};
use super::cluster::SimCluster;
use model::base::Moment;

/// How far back a query may ask and still be given the present samples, in milliseconds: Prometheus' own look-back.
const LOOKBACK: i64 = 300_000;

/// Most points of a series in one answer, as in Prometheus.
const MOST_POINTS: i64 = 11_000;

/// Most samples that one query may touch.
const MOST_SAMPLES: usize = 5_000_000;

/// Pages that one query may work out.
const MOST_PAGES: i64 = 250_000;

/// Why a query has no answer: its status, Prometheus' word for the sort of error, and its sentence.
type Refusal = (u16, &'static str, String);

fn bad_data(why: String) -> Refusal {
    (400, "bad_data", why)
}

fn too_much(why: &str) -> Refusal {
    (422, "execution", why.to_owned())
}

/// Answers a request. With `honor_labels` an exporter's own labels win over the target's; else a label that
/// both have becomes `exported_LABEL`.
pub async fn answer<B>(
    cluster: &Arc<SimCluster>,
    request: Request<B>,
    honor_labels: bool,
) -> Response<Body>
where
    B: hyper::body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let (parts, body) = request.into_parts();
    let mut raw = parts.uri.query().unwrap_or("").to_owned();
    if parts.method == Method::POST {
        match Limited::new(body, 1 << 20).collect().await {
            Ok(form) => {
                raw.push('&');
                raw.push_str(&String::from_utf8_lossy(&form.to_bytes()));
            }
            Err(error) => {
                return failed(
                    400,
                    "bad_data",
                    &format!("the form cannot be read: {error}"),
                );
            }
        }
    }
    let query = UrlQuery::parse(&raw);
    let path = decoded(parts.uri.path(), false);
    match path.as_str() {
        "/-/healthy" => return respond(200, "text/plain", "Prometheus Server is Healthy.\n"),
        "/-/ready" => return respond(200, "text/plain", "Prometheus Server is Ready.\n"),
        _ => {}
    }
    // Reading a large fleet's pages takes a while; it must not block the server's threads.
    let cluster = cluster.clone();
    let work = move || data(&cluster, &path, &query, honor_labels);
    match tokio::task::spawn_blocking(work).await {
        Ok(Some(Ok(data))) => {
            let body = json!({"status": "success", "data": data});
            respond(200, "application/json", body.to_string())
        }
        Ok(Some(Err((status, kind, why)))) => failed(status, kind, &why),
        Ok(None) => respond(404, "text/plain; charset=utf-8", "404 page not found\n"),
        Err(error) => failed(500, "internal", &error.to_string()),
    }
}

/// The data that a path answers; `None` when it answers nothing.
fn data(
    cluster: &SimCluster,
    path: &str,
    query: &UrlQuery,
    honor_labels: bool,
) -> Option<Result<Value, Refusal>> {
    let served = match path {
        "/api/v1/status/buildinfo" => Ok(json!({
            "version": "3.7.0", "revision": "stokehold-simulated", "branch": "none", "buildUser": "stokehold",
            "buildDate": "20260701-00:00:00", "goVersion": "none",
        })),
        "/api/v1/query" => instant(cluster, query, honor_labels),
        "/api/v1/query_range" => range(cluster, query, honor_labels),
        "/api/v1/series" => selected(cluster, query, honor_labels, true)
            .map(|series| series.iter().map(|s| json!(s.labels)).collect()),
        "/api/v1/labels" => selected(cluster, query, honor_labels, false).map(|series| {
            let names: BTreeSet<&String> = series.iter().flat_map(|s| s.labels.keys()).collect();
            json!(names)
        }),
        "/api/v1/metadata" => Ok(metadata(cluster, query)),
        "/api/v1/targets" => Ok(targets(cluster)),
        other => {
            let label = label_of(other)?;
            selected(cluster, query, honor_labels, false).map(|series| {
                let values: BTreeSet<&String> =
                    series.iter().filter_map(|s| s.labels.get(label)).collect();
                json!(values)
            })
        }
    };
    Some(served)
}

fn failed(status: u16, kind: &str, why: &str) -> Response<Body> {
    let body = json!({"status": "error", "errorType": kind, "error": why});
    respond(status, "application/json", body.to_string())
}

fn label_of(path: &str) -> Option<&str> {
    path.strip_prefix("/api/v1/label/")?.strip_suffix("/values")
}

/// A moment as Prometheus takes it: seconds, or RFC 3339.
fn moment(text: &str, parameter: &str) -> Result<Moment, Refusal> {
    let seconds = text
        .parse::<f64>()
        .ok()
        .filter(|s| s.is_finite() && s.abs() < 1e12);
    seconds
        .map(|seconds| Moment::from_millis((seconds * 1000.0) as i64))
        .or_else(|| Moment::parse(text))
        .ok_or_else(|| {
            bad_data(format!(
                "invalid parameter \"{parameter}\": cannot parse \"{text}\" to a valid timestamp"
            ))
        })
}

fn seconds(at: Moment) -> Value {
    json!(at.millis() as f64 / 1000.0)
}

/// The value as Prometheus writes it: a text, so that `NaN` and infinities fit.
fn shown(value: f64) -> String {
    match value.is_infinite() {
        true if value > 0.0 => "+Inf".to_owned(),
        true => "-Inf".to_owned(),
        false => value.to_string(),
    }
}

fn invalid(parameter: &str) -> impl Fn(String) -> Refusal {
    move |why| bad_data(format!("invalid parameter \"{parameter}\": {why}"))
}

fn expression(query: &UrlQuery) -> Result<QueryExpression, Refusal> {
    let text = query.get("query").unwrap_or("");
    QueryExpression::parse(text).map_err(invalid("query"))
}

/// The series of an expression at a moment (now without one), each with its labels and value as they are answered.
fn evaluated(
    cluster: &SimCluster,
    expression: &QueryExpression,
    targets: &[pages::ExporterPage],
    at: Option<Moment>,
    honor_labels: bool,
) -> Vec<(pages::Labels, f64)> {
    let selector = &expression.selector;
    let found = scrape(cluster, targets, at, honor_labels, &|name| {
        selector.selects_name(name)
    });
    let scraped = at.unwrap_or_else(|| cluster.now());
    found
        .into_iter()
        .filter(|series| selector.matches(&series.labels))
        .map(|mut series| {
            if expression.timestamp {
                series.labels.remove("__name__");
                series.value = scraped.millis() as f64 / 1000.0;
            }
            (series.labels, series.value)
        })
        .collect()
}

/// The targets that an expression can be about.
fn reached(cluster: &SimCluster, expression: &QueryExpression) -> Vec<pages::ExporterPage> {
    let mut targets = pages::targets(cluster);
    targets.retain(|target| expression.selector.reaches(&target.labels));
    targets
}

fn instant(cluster: &SimCluster, query: &UrlQuery, honor_labels: bool) -> Result<Value, Refusal> {
    let expression = expression(query)?;
    let now = cluster.now();
    let at = query
        .get("time")
        .map_or(Ok(now), |text| moment(text, "time"))?;
    let targets = reached(cluster, &expression);
    let found = if at < now {
        evaluated(cluster, &expression, &targets, Some(at), honor_labels)
    } else if at.millis() - now.millis() <= LOOKBACK {
        evaluated(cluster, &expression, &targets, None, honor_labels)
    } else {
        Vec::new()
    };
    let result: Vec<Value> = found
        .into_iter()
        .map(|(labels, value)| json!({"metric": labels, "value": [seconds(at), shown(value)]}))
        .collect();
    Ok(json!({"resultType": "vector", "result": result}))
}

/// A span of time as Prometheus takes it: seconds, or a number with a unit.
fn step(text: &str) -> Option<i64> {
    let millis = match text.parse::<f64>() {
        Ok(seconds) => seconds * 1000.0,
        Err(_) => model::base::time::parse_span(text)?.as_millis() as f64,
    };
    (millis.is_finite() && (1.0..1e12).contains(&millis)).then_some(millis as i64)
}

fn range(cluster: &SimCluster, query: &UrlQuery, honor_labels: bool) -> Result<Value, Refusal> {
    let expression = expression(query)?;
    let start = moment(query.get("start").unwrap_or(""), "start")?;
    let end = moment(query.get("end").unwrap_or(""), "end")?;
    if end < start {
        let why = "invalid parameter \"end\": end timestamp must not be before start time";
        return Err(bad_data(why.into()));
    }
    let text = query.get("step").unwrap_or("");
    let step = step(text).ok_or_else(|| {
        bad_data(format!(
            "invalid parameter \"step\": cannot parse \"{text}\" to a valid duration"
        ))
    })?;
    let points = (end.millis() - start.millis()) / step + 1;
    if points > MOST_POINTS {
        let why = "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution (?step=XX)";
        return Err(bad_data(why.into()));
    }
    let samples = "query processing would load too many samples into memory in query execution";
    let targets = reached(cluster, &expression);
    if points.saturating_mul(targets.len() as i64) > MOST_PAGES {
        return Err(too_much(samples));
    }
    let now = cluster.now();
    let mut all: BTreeMap<pages::Labels, Vec<Value>> = BTreeMap::new();
    let mut count = 0;
    for point in 0..points {
        let at = Moment::from_millis(start.millis() + point * step);
        // Points up to the look-back period after now get the newest samples.
        let when = match at.millis() - now.millis() {
            later if later > LOOKBACK => break,
            later if later >= 0 => None,
            _ => Some(at),
        };
        for (labels, value) in evaluated(cluster, &expression, &targets, when, honor_labels) {
            count += 1;
            if count > MOST_SAMPLES {
                return Err(too_much(samples));
            }
            all.entry(labels)
                .or_default()
                .push(json!([seconds(at), shown(value)]));
        }
    }
    let result: Vec<Value> = all
        .into_iter()
        .map(|(labels, values)| json!({"metric": labels, "values": values}))
        .collect();
    Ok(json!({"resultType": "matrix", "result": result}))
}

/// The series that any `match[]` selects; all of them without one, unless one is needed.
fn selected(
    cluster: &SimCluster,
    query: &UrlQuery,
    honor_labels: bool,
    needed: bool,
) -> Result<Vec<SimSeries>, Refusal> {
    let selectors = query.all("match[]").map(SeriesSelector::parse);
    let selectors: Result<Vec<SeriesSelector>, String> = selectors.collect();
    let selectors = selectors.map_err(invalid("match[]"))?;
    if needed && selectors.is_empty() {
        return Err(bad_data("no match[] parameter provided".into()));
    }
    let wanted =
        |name: &str| selectors.is_empty() || selectors.iter().any(|s| s.selects_name(name));
    let mut found = scrape(
        cluster,
        &pages::targets(cluster),
        None,
        honor_labels,
        &wanted,
    );
    found.retain(|s| selectors.is_empty() || selectors.iter().any(|m| m.matches(&s.labels)));
    Ok(found)
}

fn metadata(cluster: &SimCluster, query: &UrlQuery) -> Value {
    let mut all: BTreeMap<String, Value> = BTreeMap::new();
    for (name, kind, help) in pages::metadata(cluster) {
        if query.get("metric").is_none_or(|wanted| wanted == name) {
            all.insert(name, json!([{"type": kind, "help": help, "unit": ""}]));
        }
    }
    json!(all)
}

fn targets(cluster: &SimCluster) -> Value {
    let active: Vec<Value> = pages::targets(cluster)
        .into_iter()
        .map(|target| {
            json!({
                "labels": target.labels,
                "scrapePool": "exporters",
                "scrapeUrl": format!("http://{}{}", target.labels.get("instance").map_or("", String::as_str), target.path),
                "health": "up",
                "lastError": "",
            })
        })
        .collect();
    json!({"activeTargets": active, "droppedTargets": []})
}
