//! The Prometheus HTTP API over the exporters' pages as they are now.
//!
//! Each exporter is a target with the labels that a pod monitor gives it (`job`, `instance`, `namespace`, `pod`,
//! `container`). Instant vector selectors are evaluated; every other expression is refused as Prometheus refuses
//! what it cannot parse. No history is kept: a range query gives at most the present sample of each series.

mod pages;
mod selector;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Limited};
use serde_json::{Value, json};

use self::pages::{Series, scrape};
use self::selector::Selector;
use super::api::request::{Query, decoded};
use super::api::{Body, BoxError, respond};
use super::cluster::Cluster;
use crate::base::Moment;

/// How far back a query may ask and still be given the present samples, in milliseconds: Prometheus' own look-back.
const LOOKBACK: i64 = 300_000;

/// Answers a request. With `honor_labels` an exporter's own labels win over the target's; else a label that both
/// have becomes `exported_LABEL`.
pub async fn answer<B>(
    cluster: &Arc<Cluster>,
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
            Err(error) => return failed("bad_data", &format!("the form cannot be read: {error}")),
        }
    }
    let query = Query::parse(&raw);
    let path = decoded(parts.uri.path(), false);
    match path.as_str() {
        "/-/healthy" => return respond(200, "text/plain", "Prometheus Server is Healthy.\n"),
        "/-/ready" => return respond(200, "text/plain", "Prometheus Server is Ready.\n"),
        _ => {}
    }
    // Reading a large fleet's pages takes a while; it must not hold up those who serve.
    let cluster = cluster.clone();
    let work = move || data(&cluster, &path, &query, honor_labels);
    match tokio::task::spawn_blocking(work).await {
        Ok(Some(Ok(data))) => {
            let body = json!({"status": "success", "data": data});
            respond(200, "application/json", body.to_string())
        }
        Ok(Some(Err(why))) => failed("bad_data", &why),
        Ok(None) => respond(404, "text/plain; charset=utf-8", "404 page not found\n"),
        Err(error) => failed("internal", &error.to_string()),
    }
}

/// The data that a path answers; `None` when it answers nothing.
fn data(
    cluster: &Cluster,
    path: &str,
    query: &Query,
    honor_labels: bool,
) -> Option<Result<Value, String>> {
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

fn failed(kind: &str, why: &str) -> Response<Body> {
    let body = json!({"status": "error", "errorType": kind, "error": why});
    respond(400, "application/json", body.to_string())
}

fn label_of(path: &str) -> Option<&str> {
    path.strip_prefix("/api/v1/label/")?.strip_suffix("/values")
}

/// A moment as Prometheus takes it: seconds, or RFC 3339.
fn moment(text: &str, parameter: &str) -> Result<Moment, String> {
    let seconds = text
        .parse::<f64>()
        .ok()
        .filter(|s| s.is_finite() && s.abs() < 1e12);
    seconds
        .map(|seconds| Moment::from_millis((seconds * 1000.0) as i64))
        .or_else(|| Moment::parse(text))
        .ok_or_else(|| {
            format!(
                "invalid parameter \"{parameter}\": cannot parse \"{text}\" to a valid timestamp"
            )
        })
}

fn seconds(at: Moment) -> Value {
    json!(at.millis() as f64 / 1000.0)
}

/// The value as Prometheus writes it: a text, so that `NaN` and infinities fit.
fn shown(value: f64) -> String {
    if value.is_nan() {
        "NaN".into()
    } else if value.is_infinite() {
        if value > 0.0 {
            "+Inf".into()
        } else {
            "-Inf".into()
        }
    } else {
        format!("{value}")
    }
}

fn parsed(text: &str, parameter: &str) -> Result<Selector, String> {
    Selector::parse(text).map_err(|why| format!("invalid parameter \"{parameter}\": {why}"))
}

fn instant(cluster: &Cluster, query: &Query, honor_labels: bool) -> Result<Value, String> {
    let selector = parsed(query.get("query").unwrap_or(""), "query")?;
    let now = cluster.now();
    let at = query
        .get("time")
        .map_or(Ok(now), |text| moment(text, "time"))?;
    let known = (0..=LOOKBACK).contains(&(at.millis() - now.millis()).abs());
    let found = if known {
        scrape(cluster, honor_labels)
    } else {
        Vec::new()
    };
    let result: Vec<Value> = found
        .iter()
        .filter(|series| selector.matches(&series.labels))
        .map(|series| json!({"metric": series.labels, "value": [seconds(at), shown(series.value)]}))
        .collect();
    Ok(json!({"resultType": "vector", "result": result}))
}

fn range(cluster: &Cluster, query: &Query, honor_labels: bool) -> Result<Value, String> {
    let selector = parsed(query.get("query").unwrap_or(""), "query")?;
    let start = moment(query.get("start").unwrap_or(""), "start")?;
    let end = moment(query.get("end").unwrap_or(""), "end")?;
    if end < start {
        return Err(
            "invalid parameter \"end\": end timestamp must not be before start time".into(),
        );
    }
    let now = cluster.now();
    let inside = start <= now && now <= end.plus(std::time::Duration::from_secs(1));
    let found = if inside {
        scrape(cluster, honor_labels)
    } else {
        Vec::new()
    };
    let result: Vec<Value> = found
        .iter()
        .filter(|series| selector.matches(&series.labels))
        .map(|series| json!({"metric": series.labels, "values": [[seconds(now), shown(series.value)]]}))
        .collect();
    Ok(json!({"resultType": "matrix", "result": result}))
}

/// The series that any `match[]` selects; all of them without one, unless one is needed.
fn selected(
    cluster: &Cluster,
    query: &Query,
    honor_labels: bool,
    needed: bool,
) -> Result<Vec<Series>, String> {
    let selectors: Vec<Selector> = query
        .all("match[]")
        .map(|text| parsed(text, "match[]"))
        .collect::<Result<_, _>>()?;
    if needed && selectors.is_empty() {
        return Err("no match[] parameter provided".into());
    }
    let mut found = scrape(cluster, honor_labels);
    found.retain(|s| selectors.is_empty() || selectors.iter().any(|m| m.matches(&s.labels)));
    Ok(found)
}

fn metadata(cluster: &Cluster, query: &Query) -> Value {
    let mut all: BTreeMap<String, Value> = BTreeMap::new();
    for (name, kind, help) in pages::metadata(cluster) {
        if query.get("metric").is_none_or(|wanted| wanted == name) {
            all.insert(name, json!([{"type": kind, "help": help, "unit": ""}]));
        }
    }
    json!(all)
}

fn targets(cluster: &Cluster) -> Value {
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
