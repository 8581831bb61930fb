//! Client of Prometheus: at an address, or as a service behind the API server; with a request budget.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::TryStreamExt;
use http::header::{ACCEPT, ACCEPT_ENCODING, HeaderMap};
use http::{HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;

use crate::api_error::{ApiError, clipped};
use crate::api_stats::{ApiStats, retry_after};
use crate::scrape::ask::{Direct, Endpoint, unreachable};
use crate::scrape::page::{NoPage, PageFault, beginning, gathered, unpacked};
use model::base::Moment;
use model::fleet::visibility::HELP;

/// The largest answer in bytes, decompressed. A metric of 80,000 devices takes some 30 MiB.
const LARGEST: usize = 64 << 20;

/// Paths of the API that this client requests.
pub const PATHS: &[&str] = &[
    "/api/v1/query",
    "/api/v1/query_range",
    "/api/v1/label/__name__/values",
    "/api/v1/status/buildinfo",
];

/// A service behind the API server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServiceAddress {
    pub namespace: String,
    pub name: String,
    /// Number or name of its port.
    pub port: String,
    /// True for HTTPS, false for plain HTTP.
    pub tls: bool,
    /// Prefix of the API's paths; empty or `/prefix`.
    pub prefix: String,
}

impl ServiceAddress {
    fn path(&self, path: &str) -> String {
        let scheme = if self.tls { "https:" } else { "" };
        format!(
            "/api/v1/namespaces/{}/services/{scheme}{}:{}/proxy{}{path}",
            self.namespace, self.name, self.port, self.prefix
        )
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PrometheusEndpoint {
    Direct(Endpoint),
    /// A service behind the API server.
    Service(ServiceAddress),
}

impl PrometheusEndpoint {
    /// Its name under `sources`.
    pub fn name(&self) -> String {
        match self {
            Self::Direct(_) => "prometheus".to_owned(),
            Self::Service(service) => {
                format!(
                    "prometheus {}/{}:{}",
                    service.namespace, service.name, service.port
                )
            }
        }
    }
}

/// A token bucket of requests per minute; a third of them may burst.
struct TokenBucket {
    tokens: f64,
    most: f64,
    per_milli: f64,
    at: Moment,
}

impl TokenBucket {
    /// Takes one request from the budget when more than `spare` are left; otherwise returns how long to wait.
    fn take(&mut self, now: Moment, spare: f64) -> Option<Duration> {
        let passed = now.since(self.at).millis() as f64;
        self.at = now;
        self.tokens = (self.tokens + passed * self.per_milli).min(self.most);
        let short = spare + 1.0 - self.tokens;
        if short <= 0.0 {
            self.tokens -= 1.0;
            return None;
        }
        Some(Duration::from_millis(
            (short / self.per_milli).ceil().max(1.0) as u64,
        ))
    }
}

pub struct PrometheusClient {
    /// For a service behind the API server.
    client: Option<Client>,
    direct: Direct,
    pub endpoint: PrometheusEndpoint,
    timeout: Duration,
    stats: Arc<ApiStats>,
    state: Mutex<(TokenBucket, VecDeque<Moment>)>,
}

/// Priority of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestPriority {
    Now,
    /// History: leaves half the budget to current readings.
    Later,
}

impl PrometheusClient {
    /// A client of an endpoint, which needs the `client` for a service behind the API server; at most `per_minute` requests a minute.
    pub fn new(
        client: impl Into<Option<Client>>,
        stats: Arc<ApiStats>,
        via: PrometheusEndpoint,
        timeout: Duration,
        per_minute: f64,
    ) -> Self {
        let per_minute = if per_minute.is_finite() {
            per_minute.clamp(1.0, 6000.0)
        } else {
            30.0
        };
        let most = (per_minute / 3.0).max(6.0);
        let budget = TokenBucket {
            tokens: most,
            most,
            per_milli: per_minute / 60_000.0,
            at: stats.local(),
        };
        Self {
            client: client.into(),
            direct: Direct::default(),
            endpoint: via,
            timeout,
            stats,
            state: Mutex::new((budget, VecDeque::new())),
        }
    }

    /// Requests in the last minute.
    pub fn calls_per_minute(&self) -> u32 {
        let ago = self.stats.local().minus(Duration::from_secs(60));
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.1.front().is_some_and(|at| *at < ago) {
            state.1.pop_front();
        }
        u32::try_from(state.1.len()).unwrap_or(u32::MAX)
    }

    async fn wait_for_slot(&self, urgency: RequestPriority) {
        loop {
            let wait = {
                let now = self.stats.local();
                let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                let spare = match urgency {
                    RequestPriority::Now => 0.0,
                    RequestPriority::Later => state.0.most / 2.0,
                };
                match state.0.take(now, spare) {
                    None => {
                        state.1.push_back(now);
                        return;
                    }
                    Some(wait) => wait,
                }
            };
            tokio::time::sleep(wait).await;
        }
    }

    /// The answer of an API path; waits for the request budget.
    ///
    /// # Errors
    /// Why there is none, with the repair.
    pub async fn get(
        &self,
        path: &str,
        parameters: &[(&str, &str)],
        urgency: RequestPriority,
    ) -> Result<Vec<u8>, NoPage> {
        self.wait_for_slot(urgency).await;
        let mut query = String::new();
        for (name, value) in parameters {
            query.push(if query.is_empty() { '?' } else { '&' });
            query.push_str(name);
            query.push('=');
            encode(value, &mut query);
        }
        tokio::time::timeout(self.timeout, self.answer(path, &query))
            .await
            .unwrap_or_else(|_| {
                Err(NoPage::failed(format!(
                    "no answer within {} s; is it overloaded? prometheus.timeout allows for more",
                    self.timeout.as_secs()
                )))
            })
    }

    async fn answer(&self, path: &str, query: &str) -> Result<Vec<u8>, NoPage> {
        let mut asked = HeaderMap::new();
        asked.insert(ACCEPT, HeaderValue::from_static("application/json"));
        asked.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        match &self.endpoint {
            PrometheusEndpoint::Direct(endpoint) => {
                let (client, asked) = self
                    .direct
                    .prepared(endpoint, asked, "[prometheus]")
                    .await?;
                let url = format!("{}{path}{query}", endpoint.url.trim_end_matches('/'));
                let answer = client.get(url).headers(asked).send().await;
                // The address may contain a password: it stays out of messages.
                let answer = answer.map_err(|error| {
                    NoPage::failed(
                        unreachable(&error.without_url()).replace("the exporter", "Prometheus"),
                    )
                })?;
                let (status, headers) = (answer.status(), answer.headers().clone());
                let body = answer
                    .bytes_stream()
                    .map_err(|error| error.without_url().to_string());
                self.read(status, &headers, body).await
            }
            PrometheusEndpoint::Service(service) => {
                let uri: Uri = format!("{}{query}", service.path(path))
                    .parse()
                    .map_err(|_| NoPage::failed("the service's name makes no address"))?;
                let mut request = Request::new(Body::empty());
                *request.method_mut() = Method::GET;
                *request.uri_mut() = uri;
                *request.headers_mut() = asked;
                let client = self.client.as_ref().ok_or_else(|| {
                    NoPage::failed("there is no connection to the API server; give prometheus.url")
                })?;
                let answer = client
                    .send(request)
                    .await
                    .map_err(|error| NoPage::failed(ApiError::of_transport(&error).message))?;
                let (parts, body) = answer.into_parts();
                let body = body.into_data_stream().map_err(|error| error.to_string());
                self.read(parts.status, &parts.headers, body).await
            }
        }
    }

    async fn read(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
        body: impl futures::Stream<Item = Result<bytes::Bytes, String>>,
    ) -> Result<Vec<u8>, NoPage> {
        if status.is_success() {
            let body = gathered(body, LARGEST).await?;
            return unpacked(headers, body, LARGEST);
        }
        let start = beginning(body).await;
        let start = unpacked(headers, start.clone(), LARGEST).unwrap_or(start);
        Err(self.refusal(status, headers, &start))
    }

    /// The repair for a status that is not success.
    fn refusal(&self, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> NoPage {
        let detail = error_in_brackets(body);
        let proxied = matches!(self.endpoint, PrometheusEndpoint::Service(_));
        let code = status.as_u16();
        let forbidden = format!(
            "querying Prometheus through the API server is not allowed (get on services/proxy); {HELP}, or give prometheus.url"
        );
        let why = match code {
            401 | 403 => PageFault::Refused,
            413 | 422 => PageFault::TooLarge,
            429 => PageFault::Throttled(retry_after(headers)),
            _ => PageFault::Failed,
        };
        let words = match (code, proxied) {
            (401, true) => "the API server does not accept our credentials; log in again",
            (403, true) => &*forbidden,
            (401, false) => {
                "Prometheus asks for credentials; give a bearer_file or headers under [prometheus]"
            }
            (403, false) => {
                "Prometheus denies access; check its access rules and our credentials under [prometheus]"
            }
            (404, _) => {
                "there is no Prometheus API; check address or service, and whether /api/v1 needs a path prefix"
            }
            (413 | 422, _) => {
                "Prometheus refuses a query this large; narrow it with prometheus.matcher, or raise its query limits"
            }
            (429, _) => "throttled; querying less often for a while",
            (502..=504, true) => {
                "the API server cannot reach the service; do its pods run, and is the port right?"
            }
            (502..=504, false) => "Prometheus is not ready; its log says why",
            (300..=399, _) => {
                "it redirects elsewhere, which is not followed; give the final address (is it a login page?)"
            }
            (400, _) => "Prometheus does not understand the query; check prometheus.matcher",
            _ => "Prometheus answers with an error; its log may say why",
        };
        NoPage {
            why,
            message: format!("{code}: {words}{detail}"),
        }
    }
}

/// The body of an error, in brackets.
fn error_in_brackets(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let text = text.trim();
    let words = serde_json::from_str::<serde_json::Value>(text)
        .ok()
        .and_then(|value| {
            let word = value.get("error").or_else(|| value.get("message"))?;
            Some(word.as_str()?.to_owned())
        })
        .unwrap_or_else(|| {
            if text.starts_with(['<', '{']) {
                String::new()
            } else {
                text.to_owned()
            }
        });
    if words.is_empty() {
        String::new()
    } else {
        format!(" ({})", clipped(&words))
    }
}

/// Percent-encodes a query value.
fn encode(text: &str, out: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_kept_and_the_past_leaves_room() {
        let at = Moment::from_millis;
        let mut budget = TokenBucket {
            tokens: 10.0,
            most: 10.0,
            per_milli: 30.0 / 60_000.0,
            at: at(0),
        };
        let later = (0..20)
            .filter(|_| budget.take(at(0), 5.0).is_none())
            .count();
        assert_eq!(later, 5);
        let now = (0..20)
            .filter(|_| budget.take(at(0), 0.0).is_none())
            .count();
        assert_eq!(now, 5);
        assert_eq!(budget.take(at(0), 0.0), Some(Duration::from_secs(2)));
        let minute = (0..600)
            .filter(|tenth| budget.take(at(tenth * 100), 0.0).is_none())
            .count();
        assert!((28..=30).contains(&minute), "{minute}");
    }

    #[test]
    fn values_are_encoded_for_addresses() {
        let mut out = String::new();
        encode("{a=~\"b|c\"} +é", &mut out);
        assert_eq!(out, "%7Ba%3D~%22b%7Cc%22%7D%20%2B%C3%A9");
    }

    #[test]
    fn the_message_contains_the_error_from_prometheus() {
        assert_eq!(
            error_in_brackets(
                br#"{"status":"error","errorType":"bad_data","error":"parse error: x"}"#
            ),
            " (parse error: x)"
        );
        assert_eq!(error_in_brackets(b"<html>login</html>"), "");
        assert_eq!(
            error_in_brackets(b"upstream\x1b[2J"),
            " (upstream\u{fffd}[2J)"
        );
    }
}
