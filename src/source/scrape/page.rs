//! One page over HTTP: requested, limited in size, decompressed, or refused with a message that names the fix.

use std::io::Read;
use std::time::Duration;

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use futures::{Stream, StreamExt};
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};
use http::{HeaderValue, StatusCode};
use model::fleet::visibility::HELP;

use crate::api_error::clipped;
use crate::api_stats::retry_after;

/// The largest page, unpacked. A page of 64 devices with a hundred metrics each takes 2 MiB.
pub const LARGEST: usize = 16 << 20;

/// The forms that are understood, the plainest first.
pub const ACCEPTED: &str =
    "text/plain;version=0.0.4;q=1,application/openmetrics-text;version=1.0.0;q=0.8,*/*;q=0.1";

/// Why there is no page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoPage {
    pub why: PageFault,
    /// The failure and the fix.
    pub message: String,
}

/// Sorts of failure that are met differently.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageFault {
    /// 429, with the requested wait.
    Throttled(Option<Duration>),
    /// 401 or 403: the server does not accept the credentials.
    Refused,
    /// More than is read of one answer.
    TooLarge,
    Failed,
}

impl NoPage {
    /// A failure of no special sort.
    pub fn failed(message: impl Into<String>) -> Self {
        Self {
            why: PageFault::Failed,
            message: message.into(),
        }
    }
}

/// The headers of a request for a page.
pub fn headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static(ACCEPTED));
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
    headers
}

/// How a page is requested, which also decides what a status means.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ScrapeRoute {
    /// Through the API server: within the request budget.
    Proxy,
    /// At the exporter's own address.
    Direct,
}

/// The failure and fix of a status other than success; `body` is the beginning of the response body.
pub fn refusal(status: StatusCode, asked: ScrapeRoute, headers: &HeaderMap, body: &[u8]) -> NoPage {
    let proxied = asked == ScrapeRoute::Proxy;
    let detail = error_in_brackets(body);
    let code = status.as_u16();
    let forbidden = format!(
        "reading exporters through the API server is not allowed (get on pods/proxy); {HELP}, or set scrape.mode = \"direct\""
    );
    let why = match code {
        401 | 403 => PageFault::Refused,
        429 => PageFault::Throttled(retry_after(headers)),
        _ => PageFault::Failed,
    };
    let words = match (code, proxied) {
        (401, true) => "the API server does not accept our credentials; log in again",
        (403, true) => &*forbidden,
        (401, false) => {
            "the exporter asks for credentials; give a bearer_file or headers for it under [[scrape.target]]"
        }
        (403, false) => {
            "the exporter denies access; check its access rules and our credentials for it"
        }
        (404, true) => {
            "the pod was deleted, or serves no such path; check port and path of the dialect"
        }
        (404, false) => "the exporter serves no such path; check the path",
        (429, _) => "throttled; scraping half as often for a while",
        (500, _) => "the exporter failed; its log says why",
        (502..=504, true) => {
            "the API server cannot reach the exporter's pod; check that it listens on that port, and network policies"
        }
        (502..=504, false) => "the exporter is not ready; its log says why",
        (300..=399, _) => {
            "the exporter redirects elsewhere, which is not followed; give the final address"
        }
        _ => "the exporter answers with an error; its log may say why",
    };
    NoPage {
        why,
        message: format!("{code}: {words}{detail}"),
    }
}

/// The message of an error response, in brackets: a Kubernetes Status has it in `message`, others in plain text.
fn error_in_brackets(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let text = text.trim();
    let message = serde_json::from_str::<serde_json::Value>(text)
        .ok()
        .and_then(|value| Some(value.get("message")?.as_str()?.to_owned()));
    let words = message.unwrap_or_else(|| {
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

/// Reads a body to its end, up to `largest` bytes.
///
/// # Errors
/// It is larger, or breaks off.
pub async fn gathered<E: std::fmt::Display>(
    body: impl Stream<Item = Result<Bytes, E>>,
    largest: usize,
) -> Result<Vec<u8>, NoPage> {
    let mut body = std::pin::pin!(body);
    let mut out = Vec::new();
    while let Some(part) = body.next().await {
        let part = part.map_err(|error| {
            NoPage::failed(format!(
                "the page was cut off: {}",
                clipped(&error.to_string())
            ))
        })?;
        if out.len() + part.len() > largest {
            return Err(too_large(largest));
        }
        out.extend_from_slice(&part);
    }
    Ok(out)
}

/// The beginning of a body that explains an error.
pub async fn beginning<E>(body: impl Stream<Item = Result<Bytes, E>>) -> Vec<u8> {
    const ENOUGH: usize = 4096;
    let mut body = std::pin::pin!(body);
    let mut out = Vec::new();
    while let Some(Ok(part)) = body.next().await {
        out.extend_from_slice(&part[..part.len().min(ENOUGH - out.len())]);
        if out.len() >= ENOUGH {
            break;
        }
    }
    out
}

/// The page as text bytes: unpacked where it is gzip, whether its headers say so or not.
///
/// # Errors
/// It unpacks to more than `largest` bytes, is damaged, is packed in another way, or is HTML.
pub fn unpacked(headers: &HeaderMap, body: Vec<u8>, largest: usize) -> Result<Vec<u8>, NoPage> {
    let encoding = headers
        .get(CONTENT_ENCODING)
        .and_then(|value| value.to_str().ok())
        .unwrap_or("")
        .trim()
        .to_ascii_lowercase();
    let packed = body.starts_with(&[0x1f, 0x8b]);
    let plain = if packed {
        let mut out = Vec::new();
        let limit = u64::try_from(largest).unwrap_or(u64::MAX).saturating_add(1);
        MultiGzDecoder::new(&*body)
            .take(limit)
            .read_to_end(&mut out)
            .map_err(|error| NoPage::failed(format!("the page is damaged gzip ({error}); is something between us and the exporter changing it?")))?;
        if out.len() > largest {
            return Err(too_large(largest));
        }
        out
    } else if matches!(&*encoding, "" | "identity" | "gzip" | "x-gzip") {
        body
    } else {
        return Err(NoPage::failed(format!(
            "the page has Content-Encoding {}, which was not requested; check the exporter",
            clipped(&encoding)
        )));
    };
    let html = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|kind| kind.to_ascii_lowercase().contains("html"));
    let markup = plain.trim_ascii_start().first() == Some(&b'<');
    if html && markup {
        return Err(NoPage::failed(
            "this is HTML, not metrics; check port and path (the page is mostly at /metrics)",
        ));
    }
    Ok(plain)
}

fn too_large(largest: usize) -> NoPage {
    NoPage {
        why: PageFault::TooLarge,
        message: format!(
            "the page is larger than {} MiB and was not read; is it an exporter's?",
            largest >> 20
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        out.write_all(bytes).expect("memory takes it");
        out.finish().expect("memory takes it")
    }

    #[test]
    fn gzip_is_unpacked_and_bombs_are_refused() {
        let none = HeaderMap::new();
        assert_eq!(
            unpacked(&none, b"a 1\n".to_vec(), LARGEST),
            Ok(b"a 1\n".to_vec())
        );
        assert_eq!(
            unpacked(&none, gzip(b"a 1\n"), LARGEST),
            Ok(b"a 1\n".to_vec())
        );
        let mut two = gzip(b"a 1\n");
        two.extend(gzip(b"b 2\n"));
        assert_eq!(unpacked(&none, two, LARGEST), Ok(b"a 1\nb 2\n".to_vec()));
        let bomb = gzip(&vec![b' '; LARGEST + 1]);
        assert!(bomb.len() < 100_000);
        assert!(
            unpacked(&none, bomb, LARGEST)
                .expect_err("too large")
                .message
                .contains("larger than 16 MiB")
        );
        let mut cut = gzip(&vec![b'x'; 100_000]);
        cut.truncate(cut.len() / 2);
        assert!(
            unpacked(&none, cut, LARGEST)
                .expect_err("damaged")
                .message
                .contains("damaged gzip")
        );
        let mut brotli = HeaderMap::new();
        brotli.insert(CONTENT_ENCODING, HeaderValue::from_static("br"));
        assert!(
            unpacked(&brotli, b"??".to_vec(), LARGEST)
                .expect_err("unknown")
                .message
                .contains("br")
        );
    }

    #[test]
    fn html_is_named_as_such() {
        let mut headers = HeaderMap::new();
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("text/html; charset=utf-8"),
        );
        let no = unpacked(&headers, b"\n<html>".to_vec(), LARGEST).expect_err("HTML");
        assert!(no.message.contains("HTML"), "{}", no.message);
        assert!(
            unpacked(&headers, b"a 1\n".to_vec(), LARGEST).is_ok(),
            "some exporters mislabel their page"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_without_end_is_cut() {
        let endless = futures::stream::repeat_with(|| {
            Ok::<_, std::io::Error>(Bytes::from_static(&[b'x'; 65_536]))
        });
        assert!(
            gathered(endless, LARGEST)
                .await
                .expect_err("too large")
                .message
                .contains("larger")
        );
        let broken = futures::stream::iter([
            Ok(Bytes::from_static(b"a")),
            Err(std::io::Error::other("reset")),
        ]);
        assert!(
            gathered(broken, LARGEST)
                .await
                .expect_err("broken")
                .message
                .contains("cut off: reset")
        );
    }

    #[test]
    fn every_status_names_its_mend() {
        let status = br#"{"kind":"Status","message":"pods \"d\" is forbidden","code":403}"#;
        let no = refusal(
            StatusCode::FORBIDDEN,
            ScrapeRoute::Proxy,
            &HeaderMap::new(),
            status,
        );
        assert_eq!(no.why, PageFault::Refused);
        assert!(
            no.message.contains("pods/proxy") && no.message.contains("is forbidden"),
            "{}",
            no.message
        );
        let no = refusal(
            StatusCode::SERVICE_UNAVAILABLE,
            ScrapeRoute::Proxy,
            &HeaderMap::new(),
            b"<html>no</html>",
        );
        assert!(
            no.message.contains("cannot reach") && !no.message.contains('<'),
            "{}",
            no.message
        );
        let mut headers = HeaderMap::new();
        headers.insert(http::header::RETRY_AFTER, HeaderValue::from_static("9"));
        let no = refusal(
            StatusCode::TOO_MANY_REQUESTS,
            ScrapeRoute::Direct,
            &headers,
            b"",
        );
        assert_eq!(no.why, PageFault::Throttled(Some(Duration::from_secs(9))));
        for code in [401, 404, 500, 301, 418] {
            let status = StatusCode::from_u16(code).expect("a status");
            for asked in [ScrapeRoute::Proxy, ScrapeRoute::Direct] {
                let no = refusal(status, asked, &HeaderMap::new(), b"");
                assert!(no.message.starts_with(&code.to_string()) && no.message.len() > 20);
            }
        }
    }
}
