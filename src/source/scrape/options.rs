//! How exporters are read, as settings have it.

use std::time::Duration;

use super::Endpoint;

/// How exporters in pods are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ScrapeAccess {
    /// Through the API server.
    Proxy,
    /// At their pods' addresses.
    Direct,
    /// Through the API server, or at their addresses where that is refused.
    #[default]
    Auto,
}

/// How exporters are read.
#[derive(Clone, PartialEq, Debug)]
pub struct ScrapeOptions {
    pub mode: ScrapeAccess,
    /// Most requests a second through the API server's proxy.
    pub per_second: f64,
    /// Additional concurrent requests for exporters that were never read: the burst of a first look.
    pub burst: u32,
    /// Most requests under way at one time; one that takes longer than a second no longer counts, up to twice as many.
    pub in_flight: usize,
    /// How long one page may take at most; a dialect may be stricter.
    pub timeout: Duration,
    /// Exporters that no pod of the cluster serves.
    pub endpoints: Vec<Endpoint>,
}

impl Default for ScrapeOptions {
    fn default() -> Self {
        Self {
            mode: ScrapeAccess::Auto,
            per_second: 20.0,
            burst: 400,
            in_flight: 32,
            timeout: Duration::from_secs(10),
            endpoints: Vec::new(),
        }
    }
}
