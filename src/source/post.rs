//! Sends one request to a receiver: its outcome, and whether it may be repeated.

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http::header::HeaderMap;
use reqwest::Client;
use tokio::time::timeout;

use crate::api_error::clipped;
use crate::api_stats::retry_after;
use crate::scrape::ask::unreachable;
use crate::scrape::page::beginning;

/// Outcome of a try.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PostOutcome {
    /// The receiver accepted it.
    Taken,
    /// Retry, not before this time: no answer, 429 or 5xx.
    Again(Option<Duration>, String),
    /// Never retry: any other answer, including redirects.
    Rejected(String),
}

/// Waits for the outcome of a try, up to a limit.
pub(crate) async fn within(
    limit: Duration,
    trying: impl Future<Output = PostOutcome>,
) -> PostOutcome {
    let late = limit.as_secs();
    let tried = timeout(limit, trying).await;
    tried.unwrap_or_else(|_| PostOutcome::Again(None, format!("no answer within {late} s")))
}

/// Sends one request. `refusal` returns what an answer means and the fix.
pub(crate) async fn post(
    client: &Client,
    url: &str,
    headers: HeaderMap,
    body: Bytes,
    refusal: impl Fn(StatusCode) -> &'static str,
) -> PostOutcome {
    let sent = client.post(url).headers(headers).body(body).send().await;
    let answer = match sent {
        Ok(answer) => answer,
        // The address may contain a password: it stays out of messages.
        Err(error) => {
            let words = unreachable(&error.without_url()).replace("the exporter", "the receiver");
            return PostOutcome::Again(None, words);
        }
    };
    let (status, asked) = (answer.status(), retry_after(answer.headers()));
    if status.is_success() {
        return PostOutcome::Taken;
    }
    let reply = beginning(futures::StreamExt::map(answer.bytes_stream(), |part| {
        part.map_err(|error| error.without_url().to_string())
    }))
    .await;
    let reply = match clipped(String::from_utf8_lossy(&reply).trim()) {
        reply if reply.is_empty() => reply,
        reply => format!(": {reply}"),
    };
    let fix = match status.as_u16() {
        300..=399 => "redirects are not followed; use the address that it redirects to",
        429 => "it is throttling",
        500.. => "it failed",
        _ => refusal(status),
    };
    let words = format!("the receiver answered {}; {fix}{reply}", status.as_u16());
    match status {
        StatusCode::TOO_MANY_REQUESTS => PostOutcome::Again(asked, words),
        status if status.is_server_error() => PostOutcome::Again(asked, words),
        _ => PostOutcome::Rejected(words),
    }
}
