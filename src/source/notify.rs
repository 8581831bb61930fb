//! Sends a message to a receiver of findings: one request and its outcome. The caller decides whether it is sent again.

use std::path::PathBuf;
use std::time::Duration;

use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{StatusCode, Uri};

use crate::local;
use crate::post::{PostOutcome, post, within};
use crate::scrape::Endpoint;
use crate::scrape::ask::{Direct, off_the_loop};

/// Where messages are sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotifyEndpoint {
    /// Its name in the settings, its address and the files that hold a bearer token and the CA of its certificate.
    pub endpoint: Endpoint,
    /// File with the address, read for each message; has precedence over that of `endpoint`.
    pub url_file: Option<PathBuf>,
    /// Added to the path of the address, where it does not end so: `/api/v2/alerts`.
    pub path: &'static str,
    /// How long one answer may take.
    pub timeout: Duration,
}

/// Sends messages. Clients of all receivers, made once.
#[derive(Debug, Default)]
pub struct Notifier {
    direct: Direct,
}

impl Notifier {
    /// Sends one message, JSON, and waits for the answer, for [`NotifyEndpoint::timeout`] at most.
    pub async fn send(&self, to: &NotifyEndpoint, body: String) -> PostOutcome {
        within(to.timeout, self.post(to, body)).await
    }

    async fn post(&self, to: &NotifyEndpoint, body: String) -> PostOutcome {
        // A file that cannot be read now may be readable in a minute.
        let url = match address(to).await {
            Ok(url) => url,
            Err(words) => return PostOutcome::Again(None, words),
        };
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let place = format!("[[notify]] {}", to.endpoint.name);
        let endpoint = Endpoint {
            url: url.clone(),
            ..to.endpoint.clone()
        };
        let prepared = self.direct.prepared(&endpoint, headers, &place).await;
        match prepared {
            Ok((client, headers)) => {
                let outcome = post(&client, &url, headers, body.into(), fix).await;
                // An answer may repeat the address, which may be the secret.
                match (outcome, &to.url_file) {
                    (PostOutcome::Again(wait, words), Some(_)) => {
                        PostOutcome::Again(wait, without_path(&words, &url))
                    }
                    (PostOutcome::Rejected(words), Some(_)) => {
                        PostOutcome::Rejected(without_path(&words, &url))
                    }
                    (outcome, _) => outcome,
                }
            }
            Err(fault) => {
                let words = fault.message.replace("bearer_file", "token_file");
                PostOutcome::Again(None, words)
            }
        }
    }
}

/// The words without the path and the query of this address, or long parts of them.
fn without_path(words: &str, url: &str) -> String {
    let Ok(parsed) = url.parse::<Uri>() else {
        return words.to_owned();
    };
    let whole = parsed.path_and_query().map_or("", |path| path.as_str());
    let parts = whole
        .split(['/', '?', '&', '='])
        .filter(|part| part.len() >= 6);
    let mut words = words.to_owned();
    for secret in [url, whole]
        .into_iter()
        .filter(|part| part.len() > 1)
        .chain(parts)
    {
        words = words.replace(secret, "…");
    }
    words
}

/// The address, with the path of the protocol.
async fn address(to: &NotifyEndpoint) -> Result<String, String> {
    let url = match &to.url_file {
        None => to.endpoint.url.clone(),
        Some(file) => {
            let read = off_the_loop(file, local::read_text).await;
            let text = read.map_err(|error| {
                format!("the url_file {} cannot be read ({error})", file.display())
            })?;
            let url = text.trim().to_owned();
            let parsed = url.parse::<Uri>();
            let known = matches!(&parsed, Ok(uri) if uri.host().is_some()
                && matches!(uri.scheme_str(), Some("http" | "https")));
            // The text may be a secret: it is not repeated.
            if !known {
                let file = file.display();
                return Err(format!(
                    "the url_file {file} must hold one address that starts with http:// or https://"
                ));
            }
            url
        }
    };
    let (place, query) = match url.split_once('?') {
        Some((place, query)) => (place, format!("?{query}")),
        None => (url.as_str(), String::new()),
    };
    let place = place.trim_end_matches('/');
    Ok(match place.ends_with(to.path) || to.path.is_empty() {
        true => url,
        false => format!("{place}{}{query}", to.path),
    })
}

/// The fix of a refusal.
fn fix(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 | 403 => "check token_file, or the address, under [[notify]]",
        404 | 405 | 410 => "check the address under [[notify]]",
        _ => "it does not accept the message",
    }
}
