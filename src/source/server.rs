//! What the API server is and serves, asked once and kept.

use std::time::Duration;

use http::{Method, Request};
use kube::Client;
use serde::Deserialize;
use tokio::sync::OnceCell;

use crate::cluster::table::Group;
use crate::fleet::observe::Table;

use super::trouble::{Trouble, What};

/// Lists are streamed by default since this minor version of Kubernetes 1.
const STREAMS_SINCE: u32 = 34;

/// A version that does not come within this time is taken as old: it decides nothing of weight.
const PATIENCE: Duration = Duration::from_secs(10);

/// Whether an API group is served.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Served {
    /// In this version.
    In(String),
    /// Not at all.
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
}

impl Api {
    /// Nothing is asked yet.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            streams: OnceCell::new(),
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

    /// The version in which `group` is served.
    ///
    /// # Errors
    /// The server does not say.
    pub async fn version_of(&self, group: &str, table: Table) -> Result<Served, Trouble> {
        let asked: Result<Group, kube::Error> =
            self.client.request(get(&format!("/apis/{group}"))).await;
        match asked {
            Ok(group) => Ok(group
                .version()
                .map_or(Served::Not, |version| Served::In(version.to_owned()))),
            Err(error) => {
                let trouble = Trouble::of_client(table, "discover", &error);
                match trouble.what {
                    What::Missing => Ok(Served::Not),
                    _ => Err(trouble),
                }
            }
        }
    }
}

fn get(path: &str) -> Request<Vec<u8>> {
    let mut request = Request::new(Vec::new());
    *request.method_mut() = Method::GET;
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
