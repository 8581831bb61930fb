//! The exporters' pages over plain HTTP, for scrapers that go past the API server.
//!
//! Each page is at `/NAMESPACE/POD/PATH` (`/gpu-operator/dcgm-exporter-x7k2p/metrics`), or at
//! `/NAMESPACE/POD:PORT/PATH` where a pod serves several ports. `/` lists them all, one path a line.

use http::{Method, Request, Response};

use super::api::request::decoded;
use super::api::{Body, respond};
use super::cluster::SimCluster;
use model::base::ObjectKey;

const TEXT: &str = "text/plain; charset=utf-8";

/// Answers a request for a page.
pub fn answer<B>(cluster: &SimCluster, request: &Request<B>) -> Response<Body> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return respond(405, TEXT, "exporters are read with GET\n");
    }
    let path = decoded(request.uri().path(), false);
    let core = cluster.core();
    if path == "/" {
        let mut text = String::new();
        for (pod, _, path) in core.world.exporters() {
            text.push_str(&format!("/{}/{}{path}\n", pod.namespace, pod.name));
        }
        return respond(200, TEXT, text);
    }
    let nothing = || respond(404, TEXT, "no pod serves this page; / lists the pages\n");
    let mut parts = path.trim_start_matches('/').splitn(3, '/');
    let (Some(namespace), Some(pod), Some(rest)) = (parts.next(), parts.next(), parts.next())
    else {
        return nothing();
    };
    let (pod, port) = match pod.split_once(':') {
        Some((pod, port)) => (pod, port.parse().ok()),
        None => (pod, None),
    };
    let key = ObjectKey::new(namespace, pod);
    let rest = format!("/{rest}");
    let ports: Vec<u16> = match port {
        Some(port) => vec![port],
        None => {
            let all = core.world.exporters();
            all.iter()
                .filter(|(pod, _, _)| *pod == key)
                .map(|(_, port, _)| *port)
                .collect()
        }
    };
    ports
        .into_iter()
        .find_map(|port| core.world.page(&key, port, &rest))
        .map_or_else(nothing, |page| respond(200, page.content_type, page.body))
}
