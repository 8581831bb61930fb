//! A record of the plane shows what the console showed that wrote it, can be planned on, and cannot be changed.

use std::time::Duration;

use source::kubeconfig::ContextChoice;
use stokehold::runtime::session::ClusterTarget;
use tempfile::TempDir;

use super::plane::{calm, kubeconfig};
use crate::cli::{Home, frames};

#[test]
#[ignore = "needs the plane of tests/live/up"]
fn a_record_shows_of_ten_moments_what_the_console_showed() {
    let _plane = calm();
    let folder = TempDir::new().expect("a folder");
    let target = ClusterTarget::Cluster(ContextChoice {
        kubeconfig: Some(kubeconfig()),
        context: Some("live-viewer".to_owned()),
        ..ContextChoice::default()
    });
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let place = folder.path().join("r");
    let places = (place.as_path(), &Home::new());
    frames::a_record_equals_what_was_shown(&runtime, target, (10, Duration::from_secs(4)), places);
}
