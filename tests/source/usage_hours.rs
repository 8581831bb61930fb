//! The hours of a recorder, read from a Prometheus in this process whose counters grow in steps.

use std::sync::Arc;
use std::time::Duration;

use exporter::Matchers;
use model::base::Moment;
use source::api_stats::ApiStats;
use source::prometheus::prometheus_client::{PrometheusClient, PrometheusEndpoint};
use source::prometheus::usage_hours::UsageHours;
use source::scrape::Endpoint;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use usage::{HourUsage, Span, hour_of, start_of};

/// When the counters grow: every 8.5 s, as a picture of a large fleet is taken, across the hour.
const FIRST: &str = "2026-11-24T06:59:03.200Z";
const STEP_MS: i64 = 8_500;
const STEPS: i64 = 14;

/// The sum of what a step adds.
const USD: f64 = 17.0;

fn moment(text: &str) -> Moment {
    Moment::parse(text).expect("a moment")
}

/// How many of the steps lie after one moment, up to another; milliseconds since the Unix epoch.
fn steps(after: i64, to: i64) -> i64 {
    let first = moment(FIRST).millis();
    let all = (0..STEPS).map(|step| first + step * STEP_MS);
    let within = all.filter(|at| (after + 1..=to).contains(at));
    i64::try_from(within.count()).expect("a few")
}

/// The answer to a query between two times, which are seconds.
fn answer(query: &str, from: f64, to: f64) -> String {
    if query.starts_with("group by") {
        return format!(r#"{{"metric":{{"cluster":"prod"}},"values":[[{to},"1"]]}}"#);
    }
    let (_, range) = query.rsplit_once('[').expect("a range");
    let (range, _) = range.split_once("ms]").expect("in milliseconds");
    let length: i64 = range.parse().expect("a number");
    let ms = |seconds: f64| (seconds * 1e3).round() as i64;
    let mut values = Vec::new();
    let mut end = ms(from);
    while end <= ms(to) {
        let grown = steps(end - length, end) as f64;
        let value = match query {
            query if query.contains("cost_usd") => grown * USD,
            query if query.contains("observed_seconds") => grown * STEP_MS as f64 / 1e3,
            _ => grown * 8.0 * STEP_MS as f64 / 1e3,
        };
        if grown > 0.0 {
            values.push(format!(r#"[{},"{value}"]"#, end as f64 / 1e3));
        }
        end += 3_600_000;
    }
    let labels = match query.contains("observed_seconds") {
        true => r#""recorder":"a""#,
        false => r#""recorder":"a","pool":"h100","class":"H100","priced":"yes","part":"useful""#,
    };
    match &values[..] {
        [] => String::new(),
        values => format!(
            r#"{{"metric":{{{labels}}},"values":[{}]}}"#,
            values.join(",")
        ),
    }
}

/// The value of a parameter, decoded.
fn parameter(path: &str, name: &str) -> String {
    let (_, query) = path.split_once('?').expect("parameters");
    let found = query.split('&').find_map(|pair| {
        let (known, value) = pair.split_once('=')?;
        (known == name).then_some(value)
    });
    let mut bytes = found.expect("is asked for").bytes();
    let mut out = Vec::new();
    while let Some(byte) = bytes.next() {
        let mut digit = || char::from(bytes.next().expect("two digits")).to_digit(16);
        out.push(match byte {
            b'%' => {
                let (high, low) = (digit().expect("is hex"), digit().expect("is hex"));
                u8::try_from(high * 16 + low).expect("a byte")
            }
            byte => byte,
        });
    }
    String::from_utf8(out).expect("a text")
}

/// A Prometheus; gives its address.
async fn prometheus() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("has one").to_string();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut buffer = vec![0; 16_384];
                while let Ok(read @ 1..) = socket.read(&mut buffer).await {
                    let head = String::from_utf8_lossy(&buffer[..read]).into_owned();
                    let path = head.split(' ').nth(1).expect("a path");
                    let [from, to] = ["start", "end"]
                        .map(|name| parameter(path, name).parse::<f64>().expect("a time"));
                    let found = answer(&parameter(path, "query"), from, to);
                    let body = format!(
                        r#"{{"status":"success","data":{{"resultType":"matrix","result":[{found}]}}}}"#
                    );
                    let length = body.len();
                    let text = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}");
                    if socket.write_all(text.as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// The hours of the day up to `now`.
async fn read(address: &str, now: Moment) -> Vec<HourUsage> {
    let endpoint = PrometheusEndpoint::Direct(Endpoint {
        name: "prometheus".to_owned(),
        url: format!("http://{address}"),
        ..Endpoint::default()
    });
    let stats = ApiStats::new(Arc::new(move || now));
    let client = PrometheusClient::new(None, stats, endpoint, Duration::from_secs(10), 600.0);
    let span = Span {
        from: hour_of(now) - 23,
        to: hour_of(now) + 1,
    };
    let (client, matchers) = (Arc::new(client), Matchers::default());
    let found = UsageHours::find(client, matchers, None, None, start_of(span.from), now).await;
    let hours = found.expect("answers").expect("a recorder");
    hours.read(span, now).await.expect("answers")
}

/// What the hours cost, USD.
fn usd(hours: &[HourUsage]) -> f64 {
    let rows = hours.iter().flat_map(|hour| &hour.rows);
    let cost = rows.filter_map(|row| row.cost_micros);
    cost.flatten().sum::<i64>() as f64 / 1e6
}

#[tokio::test]
async fn each_step_is_in_the_sum_as_soon_as_prometheus_has_it() {
    let address = prometheus().await;
    let first = moment(FIRST);
    // Before the hour, right after it, and a minute and more after it; a few milliseconds after each step, and before it.
    for step in 1..STEPS {
        for late in [0, 1, 300, 900, STEP_MS - 1] {
            let now = Moment::from_millis(first.millis() + step * STEP_MS + late);
            let hours = read(&address, now).await;
            let all = (step + 1) as f64 * USD;
            assert_eq!(usd(&hours), all, "at {}: {hours:#?}", now.rfc3339());
            let observed: u64 = hours.iter().map(|hour| hour.observed_ms).sum();
            let most = (step + 1) * STEP_MS;
            assert!(observed <= most.unsigned_abs(), "{observed} of {most}");
        }
    }
}

#[tokio::test]
async fn the_current_hour_ends_now() {
    let address = prometheus().await;
    let now = moment("2026-11-24T07:00:13.345Z");
    let hours = read(&address, now).await;
    let [before, current] = &hours[..] else {
        panic!("two hours: {hours:#?}")
    };
    assert_eq!(
        (before.hour + 1, current.hour),
        (current.hour, hour_of(now))
    );
    assert_eq!((before.closed, current.closed), (false, false));
    assert_eq!((before.until_ms, current.until_ms), (3_600_000, 13_345));
    let later = read(&address, moment("2026-11-24T07:02:00Z")).await;
    assert!(later[0].closed && !later[1].closed, "{later:#?}");
}
