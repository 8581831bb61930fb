//! error[E0308]: a writing client cannot be had without a grant.
use std::sync::Arc;

use stokehold::exec::{WritingClient, client_for};
use stokehold::plan::grant::Grant;
use stokehold::sim::Service;
use stokehold::source::api_stats::ApiStats;

pub fn client(_grant: &Grant, service: Service, wire: Arc<ApiStats>) -> WritingClient {
    client_for(&(), service, wire)
    //~ client_for(_grant, service, wire)
}
