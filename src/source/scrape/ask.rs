//! Requests of a page: through the API server's pod proxy, or at an address.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http::header::{AUTHORIZATION, HeaderMap};
use http::{HeaderName, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;

use crate::api_error::ApiError;
use crate::local;
use crate::trust;
use model::base::ObjectKey;

use super::page::{
    LARGEST, NoPage, PageFault, ScrapeRoute, beginning, gathered, headers, refusal, unpacked,
};

/// An exporter outside the cluster's pods, as configured.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Endpoint {
    /// Its name under `sources`.
    pub name: String,
    /// Address of its page.
    pub url: String,
    /// The node that the page is about, where the page does not say.
    pub node: Option<String>,
    pub headers: BTreeMap<String, String>,
    /// File with a bearer token; read at each request, as tokens change.
    pub bearer_file: Option<PathBuf>,
    /// File with the CA of its certificate.
    pub ca_file: Option<PathBuf>,
}

/// Location of a page behind the API server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PodPage {
    pub pod: ObjectKey,
    pub ip: Option<String>,
    pub port: u16,
    /// Protocol of the page: `http` or `https`.
    pub scheme: String,
    pub path: String,
}

impl PodPage {
    /// The path through the API server's proxy.
    pub fn proxy_path(&self) -> String {
        let scheme = if self.scheme == "https" { "https:" } else { "" };
        format!(
            "/api/v1/namespaces/{}/pods/{scheme}{}:{}/proxy{}",
            self.pod.namespace, self.pod.name, self.port, self.path
        )
    }

    /// The URL of the page itself; `None` while the pod has no address.
    pub fn direct_url(&self) -> Option<String> {
        let ip = self.ip.as_deref()?;
        let host = if ip.contains(':') {
            format!("[{ip}]")
        } else {
            ip.to_owned()
        };
        Some(format!(
            "{}://{host}:{}{}",
            self.scheme, self.port, self.path
        ))
    }
}

/// Requests the page of a pod through the API server.
///
/// # Errors
/// Why there is no page.
pub async fn through_proxy(
    client: &Client,
    page: &PodPage,
    limit: Duration,
) -> Result<Vec<u8>, NoPage> {
    let uri: Uri = page
        .proxy_path()
        .parse()
        .map_err(|_| NoPage::failed("the pod's name makes no address"))?;
    let mut request = Request::new(Body::empty());
    *request.method_mut() = Method::GET;
    *request.uri_mut() = uri;
    *request.headers_mut() = headers();
    within(limit, async {
        let answer = client
            .send(request)
            .await
            .map_err(|error| NoPage::failed(ApiError::of_transport(&error).message))?;
        let (parts, body) = answer.into_parts();
        let body = body
            .into_data_stream()
            .map(|part| part.map_err(|error| error.to_string()));
        read(parts.status, &parts.headers, body, ScrapeRoute::Proxy).await
    })
    .await
}

/// Clients for pages outside the API server, one for each kind of trust.
#[derive(Debug)]
pub struct Direct {
    /// For pods: their certificates are rarely signed by a known CA; no secrets are sent to them.
    pods: Result<reqwest::Client, String>,
    /// For endpoints without a CA of their own.
    endpoints: Result<reqwest::Client, String>,
    /// For plain HTTP endpoints: needs no CA certificates.
    plain: Result<reqwest::Client, String>,
}

impl Default for Direct {
    fn default() -> Self {
        // Several crypto providers may be linked in: select one. A second call fails harmlessly.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let pods = base().no_proxy().tls_danger_accept_invalid_certs(true);
        let endpoints = trust::client("https://", base);
        let plain = endpoints.clone();
        Self {
            pods: pods.build().map_err(|error| trust::explained(&error)),
            endpoints,
            plain: plain.or_else(|_| trust::client("http://", base)),
        }
    }
}

fn base() -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .user_agent(crate::counting_layer::AGENT)
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(Duration::from_secs(5))
        .pool_max_idle_per_host(1)
        .user_agent(concat!("stokehold/", env!("CARGO_PKG_VERSION")))
}

impl Direct {
    /// Requests the page of a pod at its address.
    ///
    /// # Errors
    /// Why there is no page.
    pub async fn pod(&self, page: &PodPage, limit: Duration) -> Result<Vec<u8>, NoPage> {
        let url = page
            .direct_url()
            .ok_or_else(|| NoPage::failed("the pod has no address yet"))?;
        let client = self.pods.as_ref().map_err(NoPage::failed)?;
        fetch(client, &url, headers(), limit).await
    }

    /// Requests the page of an endpoint.
    ///
    /// # Errors
    /// The reason for which there is no page, or a fault of the endpoint's settings.
    pub async fn endpoint(&self, endpoint: &Endpoint, limit: Duration) -> Result<Vec<u8>, NoPage> {
        let place = format!("[[scrape.target]] {}", endpoint.name);
        let (client, asked) = self.prepared(endpoint, headers(), &place).await?;
        fetch(&client, &endpoint.url, asked, limit).await
    }

    /// The client and the headers for an endpoint; `place` is its section of the settings.
    ///
    /// # Errors
    /// A fault of these settings.
    pub(crate) async fn prepared(
        &self,
        endpoint: &Endpoint,
        mut asked: HeaderMap,
        place: &str,
    ) -> Result<(reqwest::Client, HeaderMap), NoPage> {
        for (name, value) in &endpoint.headers {
            let header = HeaderName::try_from(name.as_str())
                .ok()
                .zip(HeaderValue::try_from(value.as_str()).ok());
            let (name, value) = header.ok_or_else(|| {
                NoPage::failed(format!("\"{name}\" is not a valid header; correct {place}"))
            })?;
            asked.insert(name, value);
        }
        if let Some(file) = &endpoint.bearer_file {
            let read = |words: String| {
                NoPage::failed(format!("the bearer_file {} {words}", file.display()))
            };
            let token = off_the_loop(file, local::read_text)
                .await
                .map_err(|error| read(format!("cannot be read ({error})")))?;
            let mut value = HeaderValue::try_from(format!("Bearer {}", token.trim()))
                .map_err(|_| read("does not contain a token".to_owned()))?;
            value.set_sensitive(true);
            asked.insert(AUTHORIZATION, value);
        }
        let client = match &endpoint.ca_file {
            None if endpoint.url.starts_with("http://") => {
                self.plain.as_ref().map_err(NoPage::failed)?.clone()
            }
            None => self.endpoints.as_ref().map_err(NoPage::failed)?.clone(),
            Some(file) => {
                let wrong = |words: String| {
                    NoPage::failed(format!("the ca_file {} {words}", file.display()))
                };
                let pem = off_the_loop(file, local::read)
                    .await
                    .map_err(|error| wrong(format!("cannot be read ({error})")))?;
                let certificates = reqwest::Certificate::from_pem_bundle(&pem).ok();
                let certificates = certificates
                    .filter(|known| !known.is_empty())
                    .ok_or_else(|| wrong("contains no certificate in PEM".to_owned()))?;
                base()
                    .tls_certs_only(certificates)
                    .build()
                    .map_err(|error| wrong(format!("cannot be used ({error})")))?
            }
        };
        Ok((client, asked))
    }
}

/// Reads a file on a blocking thread.
pub(crate) async fn off_the_loop<T: Send + 'static>(
    path: &Path,
    read: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let path = path.to_owned();
    let read = tokio::task::spawn_blocking(move || read(&path)).await;
    read.unwrap_or_else(|error| Err(io::Error::other(error)))
}

async fn fetch(
    client: &reqwest::Client,
    url: &str,
    asked: HeaderMap,
    limit: Duration,
) -> Result<Vec<u8>, NoPage> {
    within(limit, async {
        let answer = client
            .get(url)
            .headers(asked)
            .send()
            .await
            .map_err(|error| {
                // The address may contain a password: it stays out of messages.
                NoPage::failed(unreachable(&error.without_url()))
            })?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        let body = answer
            .bytes_stream()
            .map(|part| part.map_err(|error| error.without_url().to_string()));
        read(status, &headers, body, ScrapeRoute::Direct).await
    })
    .await
}

pub(crate) fn unreachable(error: &reqwest::Error) -> String {
    let text = crate::kubeconfig::flat(error);
    let lower = text.to_ascii_lowercase();
    let words = if error.is_builder() {
        "the address is not valid for a request; correct it"
    } else if lower.contains("refused") {
        "nothing listens there; check address and port, and whether the exporter runs"
    } else if ["certificate", "tls", "handshake", "corrupt message"]
        .iter()
        .any(|word| lower.contains(word))
    {
        "no TLS connection; give the ca_file of its certificate, or check http against https"
    } else if lower.contains("dns") || lower.contains("lookup") {
        "the name does not resolve; check the address"
    } else {
        "it cannot be reached from here; check the address, the network, and network policies"
    };
    format!("{words} ({})", crate::api_error::clipped(&text))
}

async fn read(
    status: StatusCode,
    headers: &HeaderMap,
    body: impl futures::Stream<Item = Result<Bytes, String>>,
    asked: ScrapeRoute,
) -> Result<Vec<u8>, NoPage> {
    if !status.is_success() {
        return Err(refusal(status, asked, headers, &beginning(body).await));
    }
    unpacked(headers, gathered(body, LARGEST).await?, LARGEST)
}

async fn within(
    limit: Duration,
    page: impl Future<Output = Result<Vec<u8>, NoPage>>,
) -> Result<Vec<u8>, NoPage> {
    tokio::time::timeout(limit, page).await.unwrap_or_else(|_| {
        Err(NoPage {
            why: PageFault::Failed,
            message: format!(
                "no answer within {} s; it hangs, or a firewall drops what we send",
                limit.as_secs()
            ),
        })
    })
}
