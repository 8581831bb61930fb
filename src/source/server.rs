//! What the API server is and serves, requested once and kept.

use std::time::Duration;

use http::header::{ACCEPT, HeaderValue};
use http::{Method, Request};
use kube::Client;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::{Mutex, OnceCell};

use cluster::discovery::{Catalogue, Groups, PlainGroup, Resources, TableLocation};
use model::base::Moment;
use model::fleet::observe::Table;

use super::api_error::{ApiError, What};
use super::api_stats::Clock;

/// Lists are streamed by default since this minor version of Kubernetes 1.
const STREAMS_SINCE: u32 = 34;

/// Without a version within this time an old server is assumed: no important decision depends on it.
const PATIENCE: Duration = Duration::from_secs(10);

/// A discovery result is used for this long: all missing tables are looked up at about the same time.
const KEPT: Duration = Duration::from_secs(45);

/// The same when something has just been seen to change.
const AFRESH: Duration = Duration::from_secs(2);

/// Whether a table is served.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TableAvailability {
    In(String),
    Not,
}

/// What `GET /version` answers.
#[derive(Deserialize, Default, Clone, Debug)]
#[serde(default, rename_all = "camelCase")]
pub struct ServerVersion {
    major: String,
    minor: String,
    git_version: String,
}

impl ServerVersion {
    /// As the server writes it: `v1.34.1`.
    pub fn name(&self) -> &str {
        &self.git_version
    }

    fn minor(&self) -> Option<u32> {
        let digits: String = self
            .minor
            .chars()
            .take_while(char::is_ascii_digit)
            .collect();
        (self.major == "1").then_some(())?;
        digits.parse().ok()
    }
}

/// Questions about the server as a whole.
pub struct Api {
    client: Client,
    streams: OnceCell<bool>,
    /// The discovery result and its time; no catalogue where the server lists its groups only one by one.
    catalogue: Mutex<Option<(Moment, Option<Catalogue>)>>,
    clock: Clock,
}

impl Api {
    /// Nothing is requested yet. The clock is this machine's.
    pub fn new(client: Client, clock: Clock) -> Self {
        Self {
            client,
            clock,
            streams: OnceCell::new(),
            catalogue: Mutex::new(None),
        }
    }

    /// The server's version.
    ///
    /// # Errors
    /// It does not answer, or not as a Kubernetes API.
    pub async fn version(&self) -> Result<ServerVersion, kube::Error> {
        self.client.request(get("/version")).await
    }

    /// True when lists can be had as a stream, which costs the server least.
    pub async fn streams_lists(&self) -> bool {
        let asked = self.streams.get_or_try_init(|| async {
            match tokio::time::timeout(PATIENCE, self.version()).await {
                Ok(Ok(version)) => Ok(version.minor().is_some_and(|minor| minor >= STREAMS_SINCE)),
                // Ask again with the next list.
                _ => Err(()),
            }
        });
        asked.await.copied().unwrap_or(false)
    }

    /// Where `table` is served. A recent discovery result is used, unless `afresh` is set.
    ///
    /// # Errors
    /// Discovery failed.
    pub async fn served(&self, table: Table, afresh: bool) -> Result<TableAvailability, ApiError> {
        let group = table.api().group;
        let found = {
            let mut kept = self.catalogue.lock().await;
            let keep = if afresh { AFRESH } else { KEPT };
            let now = (self.clock)();
            // After the clock was set back the age of an answer is unknown.
            let known = kept
                .as_ref()
                .filter(|(at, _)| now >= *at && now.since(*at) < keep.into());
            match known {
                Some((_, catalogue)) => catalogue.as_ref().map(|all| all.find(table)),
                None => {
                    let catalogue = self.catalogue(table).await?;
                    let found = catalogue.as_ref().map(|all| all.find(table));
                    *kept = Some((now, catalogue));
                    found
                }
            }
        };
        match found {
            Some(TableLocation::In(version)) => Ok(TableAvailability::In(version)),
            Some(TableLocation::Nowhere) => Ok(TableAvailability::Not),
            Some(TableLocation::Among(versions)) => self.among(group, versions, table).await,
            Some(TableLocation::Unsaid) => Err(ApiError::unreachable(format!(
                "the server behind {} does not answer; its APIService says why",
                group
            ))),
            None => {
                let path = format!("/apis/{}", group);
                match self.ask::<PlainGroup>(&path, table).await? {
                    Some(named) => self.among(group, named.versions(), table).await,
                    None => Ok(TableAvailability::Not),
                }
            }
        }
    }

    /// All groups in one request; `None` where the server lists them only one by one.
    async fn catalogue(&self, table: Table) -> Result<Option<Catalogue>, ApiError> {
        let groups: Option<Groups> = self.ask("/apis", table).await?;
        Ok(groups.and_then(|groups| groups.catalogue()))
    }

    /// The first of these versions that has the table. A version without a resource list is tried.
    async fn among(
        &self,
        group: &str,
        versions: Vec<String>,
        table: Table,
    ) -> Result<TableAvailability, ApiError> {
        for version in versions {
            let path = format!("/apis/{group}/{version}");
            let resources: Option<Resources> = self.ask(&path, table).await?;
            if resources.is_none_or(|all| all.has(table.plural())) {
                return Ok(TableAvailability::In(version));
            }
        }
        Ok(TableAvailability::Not)
    }

    /// The discovery result at `path`; `None` where there is none.
    async fn ask<T: DeserializeOwned>(
        &self,
        path: &str,
        table: Table,
    ) -> Result<Option<T>, ApiError> {
        match self.client.request(get(path)).await {
            Ok(answer) => Ok(Some(answer)),
            Err(error) => {
                let trouble = ApiError::of_client(table, "discover", &error);
                match trouble.what {
                    What::Missing => Ok(None),
                    _ => Err(trouble),
                }
            }
        }
    }
}

fn get(path: &str) -> Request<Vec<u8>> {
    let mut request = Request::new(Vec::new());
    *request.method_mut() = Method::GET;
    if path == "/apis" {
        // Everything in one answer where the server supports it (Kubernetes 1.26 on), else only the groups.
        let accept = HeaderValue::from_static(
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
             application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,\
             application/json",
        );
        request.headers_mut().insert(ACCEPT, accept);
    }
    if let Ok(uri) = path.parse() {
        *request.uri_mut() = uri;
    }
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minors_are_read_as_clouds_write_them() {
        for (text, minor) in [
            (
                r#"{"major":"1","minor":"34","gitVersion":"v1.34.1"}"#,
                Some(34),
            ),
            (r#"{"major":"1","minor":"31+"}"#, Some(31)),
            (r#"{"major":"2","minor":"0"}"#, None),
            (r#"{}"#, None),
        ] {
            let version: ServerVersion = serde_json::from_str(text).expect("a version");
            assert_eq!(version.minor(), minor, "{text}");
        }
    }
}
