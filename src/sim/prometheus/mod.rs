//! The Prometheus HTTP API over the exporters' pages.

use http::{Request, Response};

use super::api::{Body, respond};
use super::cluster::Cluster;

/// Answers a request.
pub async fn answer<B>(_cluster: &Cluster, _request: Request<B>) -> Response<Body> {
    respond(404, "text/plain", "404 page not found\n")
}
