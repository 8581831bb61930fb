//! State of one scrape target: the address of its page, and the results of its scrapes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use exporter::Rates;
use model::base::{Moment, Name};
use model::fleet::source_errors::SourceErrors;

use super::super::serving::ServingPod;
use super::UNKNOWN_INTERVAL;
use super::ask::{Endpoint, PodPage};

/// Location of a page.
#[derive(Clone, Debug)]
pub(super) enum PageLocation {
    Pod(Arc<PodPage>),
    Endpoint(Arc<Endpoint>),
}

/// A target and its state.
pub(super) struct KnownTarget {
    pub(super) name: Name,
    pub(super) dialect: Option<Name>,
    pub(super) pod: Option<ServingPod>,
    pub(super) node: Option<Name>,
    pub(super) spot: PageLocation,
    pub(super) interval: Duration,
    pub(super) timeout: Duration,
    pub(super) rates: Rates,
    pub(super) asked: VecDeque<Moment>,
    pub(super) last_ok: Option<Moment>,
    /// Its first failure after its last good page.
    pub(super) failing_since: Option<Moment>,
    /// Its last outage that ended: its first failure, and the good page after it.
    pub(super) last_outage: Option<(Moment, Moment)>,
    pub(super) errors: SourceErrors,
    /// Not scraped: Prometheus covers it, or no view needs it.
    pub(super) spared: bool,
}

impl KnownTarget {
    /// A target that was never scraped.
    pub(super) fn new(name: Name, spot: PageLocation) -> Self {
        Self {
            name,
            dialect: None,
            pod: None,
            node: None,
            spot,
            interval: UNKNOWN_INTERVAL,
            timeout: Duration::ZERO,
            rates: Rates::default(),
            asked: VecDeque::new(),
            last_ok: None,
            failing_since: None,
            last_outage: None,
            errors: SourceErrors::default(),
            spared: false,
        }
    }
}
