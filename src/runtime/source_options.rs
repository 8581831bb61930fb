//! Options of the sources, from the settings.

use std::collections::BTreeSet;

use settings::{ScrapeMode, Settings};
use source::kubernetes::Namespaces;
use source::prometheus::PrometheusOptions;
use source::prometheus::prometheus_client::{PrometheusEndpoint, ServiceAddress};
use source::scrape::{Endpoint, ScrapeAccess, ScrapeOptions};
use source::{prometheus_paths, proxied_paths};

use super::setup::Setup;

/// The simulated cluster runs in this process: fast reads put no load on a real API server.
const DEMO_PER_SECOND: f64 = 2000.0;

/// The paths that may be requested from pods and services through the API server's proxy.
pub(super) fn proxied(setup: &Setup) -> BTreeSet<String> {
    let mut paths = proxied_paths(&setup.rulebook.dialects);
    if let Some(service) = &setup.settings.prometheus.service {
        paths.extend(prometheus_paths(&service.prefix));
    }
    paths
}

/// Prometheus options; `None` where the settings disable it.
pub(super) fn prometheus(settings: &Settings) -> Option<PrometheusOptions> {
    let own = &settings.prometheus;
    let prometheus_endpoint = match (&own.url, &own.service) {
        (Some(url), _) => Some(PrometheusEndpoint::Direct(Endpoint {
            name: "prometheus".to_owned(),
            url: url.clone(),
            node: None,
            headers: own.headers.clone(),
            bearer_file: own.bearer_file.clone(),
            ca_file: own.ca_file.clone(),
        })),
        (None, Some(service)) => Some(PrometheusEndpoint::Service(ServiceAddress {
            namespace: service.namespace.clone(),
            name: service.name.clone(),
            port: service.port.clone(),
            tls: service.tls,
            prefix: service.prefix.clone(),
        })),
        (None, None) if own.discover => None,
        (None, None) => return None,
    };
    Some(PrometheusOptions {
        endpoint: prometheus_endpoint,
        matchers: own.matcher.0.clone(),
        interval: own.interval.duration(),
        per_minute: own.per_minute.get(),
        timeout: own.timeout.duration(),
        history: own.history.duration(),
    })
}

/// Scrape options; exporters of a simulated cluster are read fast.
pub(super) fn scrape(settings: &Settings, demo: bool) -> ScrapeOptions {
    let endpoints = settings.scrape.target.iter().map(|target| Endpoint {
        name: target.name.clone(),
        url: target.url.clone(),
        node: target.node.clone(),
        headers: target.headers.clone(),
        bearer_file: target.bearer_file.clone(),
        ca_file: target.ca_file.clone(),
    });
    ScrapeOptions {
        mode: match settings.scrape.mode {
            ScrapeMode::Auto => ScrapeAccess::Auto,
            ScrapeMode::Proxy => ScrapeAccess::Proxy,
            ScrapeMode::Direct => ScrapeAccess::Direct,
        },
        per_second: if demo {
            DEMO_PER_SECOND
        } else {
            settings.scrape.per_second.get()
        },
        burst: settings.scrape.burst,
        in_flight: settings.scrape.in_flight.get() as usize,
        timeout: settings.scrape.timeout.duration(),
        endpoints: endpoints.collect(),
    }
}

/// Most namespaces with a watch each.
const MOST_NAMESPACES: usize = 12;

/// The namespaces to watch; `own` is that of the context.
pub(super) fn namespaces(setup: &Setup, own: &str) -> Namespaces {
    match setup.settings.scope.namespaces.as_slice() {
        [first, ..] if setup.every_namespace => Namespaces::All {
            otherwise: first.clone(),
            of_context: false,
        },
        [one] => Namespaces::One(one.clone()),
        // For more than these all namespaces are watched and the rows filtered: that costs less than a watch for each.
        several @ [_, ..] if several.len() <= MOST_NAMESPACES => {
            Namespaces::Several(several.to_vec())
        }
        _ => Namespaces::All {
            otherwise: own.to_owned(),
            of_context: true,
        },
    }
}
