//! Finds a Prometheus among the cluster's services, with a few requests: a service that has metrics of an exporter.

use std::sync::Arc;
use std::time::Duration;

use http::Request;
use kube::Client;
use serde::Deserialize;

use crate::api_stats::ApiStats;
use exporter::Dialects;
use exporter::samples::words;

use super::prometheus_client::{
    PrometheusClient, PrometheusEndpoint, RequestPriority, ServiceAddress,
};

/// Label selectors, URL-encoded, of the services of the Prometheus operator, of its Helm charts, and of plain manifests.
const SELECTORS: &[&str] = &[
    "operated-prometheus%3Dtrue",
    "app.kubernetes.io%2Fname%3Dprometheus",
    "app%3Dprometheus",
];

/// Names of the port of Prometheus' API, in order of preference; then port 9090, then the only port.
const PORTS: &[&str] = &["web", "http-web", "http", "https", "prometheus"];

/// Maximum number of services that are tried.
const MOST_SERVICES: usize = 6;

/// Timeout of one request.
const TIMEOUT: Duration = Duration::from_secs(4);

#[derive(Deserialize, Default)]
#[serde(default)]
struct ServiceList {
    items: Vec<FoundService>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct FoundService {
    metadata: ServiceMeta,
    spec: ServicePorts,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ServiceMeta {
    name: String,
    namespace: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ServicePorts {
    ports: Vec<Port>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Port {
    name: String,
    port: u16,
}

impl FoundService {
    /// Its address, at the port of the API; `None` where no port looks like it.
    fn address(&self) -> Option<ServiceAddress> {
        let ports = &self.spec.ports;
        let port = PORTS
            .iter()
            .find_map(|name| ports.iter().find(|port| port.name == *name))
            .or_else(|| ports.iter().find(|port| port.port == 9090))
            .or_else(|| ports.first().filter(|_| ports.len() == 1))?;
        Some(ServiceAddress {
            namespace: self.metadata.namespace.clone(),
            name: self.metadata.name.clone(),
            port: port.port.to_string(),
            tls: port.name == "https",
            prefix: String::new(),
        })
    }
}

/// Services that look like a Prometheus, at most six; none when services cannot be listed.
pub async fn candidates(client: &Client) -> Vec<ServiceAddress> {
    let mut all: Vec<ServiceAddress> = Vec::new();
    for selector in SELECTORS {
        let path = format!("/api/v1/services?labelSelector={selector}&limit=20");
        let Ok(request) = Request::get(path).body(Vec::new()) else {
            continue;
        };
        let response = tokio::time::timeout(TIMEOUT, client.request_text(request)).await;
        let Ok(Ok(text)) = response else {
            // Forbidden or timed out: the other selectors would be, too.
            break;
        };
        let list: ServiceList = serde_json::from_str(&text).unwrap_or_default();
        for service in list.items.iter().filter_map(FoundService::address) {
            let known = all
                .iter()
                .any(|known| known.namespace == service.namespace && known.name == service.name);
            if !known && all.len() < MOST_SERVICES {
                all.push(service);
            }
        }
    }
    all
}

/// The first service with a metric that one of the dialects knows.
pub async fn find(
    client: &Client,
    stats: &Arc<ApiStats>,
    dialects: &Dialects,
) -> Option<PrometheusEndpoint> {
    for service in candidates(client).await {
        let endpoint = PrometheusEndpoint::Service(service);
        let prometheus = PrometheusClient::new(
            client.clone(),
            Arc::clone(stats),
            endpoint.clone(),
            TIMEOUT,
            60.0,
        );
        let answer = prometheus
            .get("/api/v1/label/__name__/values", &[], RequestPriority::Now)
            .await;
        let Ok(Ok(names)) = answer.map(|body| words(&body)) else {
            continue;
        };
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        if dialects
            .iter()
            .any(|dialect| !dialect.known_of(&names).is_empty())
        {
            return Some(endpoint);
        }
    }
    None
}
