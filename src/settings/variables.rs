//! Environment variables with our prefix that are not settings.

use model::base::document::{DocumentFault, nearest};

use super::load::variable_of_key;

/// Forbids writing, like `--readonly`, and overrides anything that allows it.
pub const READONLY: &str = "STOKEHOLD_READONLY";

/// Variables of the program that are not settings: write protection and log level.
const OTHERS: &[&str] = &[READONLY, "STOKEHOLD_LOG"];

/// Variables of the test and benchmark runners (`tests/acting`, `tests/live`), which the program ignores.
const RUNNERS: &[&str] = &["STOKEHOLD_KILLS", "STOKEHOLD_FLEETS", "STOKEHOLD_BIN"];

/// Prefixes of further runner variables.
const RUNNERS_PREFIXES: &[&str] = &["STOKEHOLD_LIVE_", "STOKEHOLD_SCALE_"];

/// True for a known variable that is not a setting: one of the program, one of a test runner, or one that Kubernetes adds to
/// every pod in a namespace with a Service whose name starts with `stokehold`.
pub fn is_known(name: &str) -> bool {
    OTHERS.contains(&name)
        || RUNNERS.contains(&name)
        || RUNNERS_PREFIXES
            .iter()
            .any(|prefix| name.starts_with(prefix))
        || is_of_a_service(name)
}

/// `NAME_SERVICE_HOST`, `NAME_SERVICE_PORT`, `NAME_SERVICE_PORT_PORTNAME`, `NAME_PORT` and
/// `NAME_PORT_443_TCP[_PROTO|_PORT|_ADDR]`. Source: Kubernetes' documentation of Services, environment variables.
fn is_of_a_service(name: &str) -> bool {
    if name.ends_with("_SERVICE_HOST") || name.ends_with("_PORT") {
        return true;
    }
    let port = |rest: &str| {
        let (number, protocol) = rest.split_once('_').unwrap_or((rest, ""));
        let protocol = protocol.split('_').next().unwrap_or_default();
        number.parse::<u16>().is_ok() && matches!(protocol, "TCP" | "UDP" | "SCTP")
    };
    name.contains("_SERVICE_PORT_")
        || name
            .match_indices("_PORT_")
            .any(|(at, word)| port(&name[at + word.len()..]))
}

/// The fault for an unknown variable.
pub(super) fn unknown(name: &str, keys: &[String]) -> DocumentFault {
    let settings = keys.iter().map(|key| variable_of_key(key));
    let all: Vec<String> = settings
        .chain(OTHERS.iter().map(|name| (*name).to_owned()))
        .collect();
    let message = match nearest(name, all.iter().map(String::as_str)) {
        Some(near) => format!("is not a setting; did you mean {near}?"),
        None => "is not a setting; unset it (`stokehold config print` lists the settings: scrape.mode is STOKEHOLD_SCRAPE_MODE)".to_owned(),
    };
    DocumentFault::new(name, "", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kubernetes_writes_into_pods_is_known() {
        for name in [
            "STOKEHOLD_SERVICE_HOST",
            "STOKEHOLD_SERVICE_PORT",
            "STOKEHOLD_SERVICE_PORT_HTTPS",
            "STOKEHOLD_PORT",
            "STOKEHOLD_PORT_443_TCP",
            "STOKEHOLD_PORT_443_TCP_PROTO",
            "STOKEHOLD_GOVERN_PORT_53_UDP_ADDR",
            "STOKEHOLD_KILLS",
            "STOKEHOLD_LIVE_KUBECONFIG",
        ] {
            assert!(is_known(name), "{name}");
        }
        for name in [
            "STOKEHOLD_READ_ONLY",
            "STOKEHOLD_THEM",
            "STOKEHOLD_PORT_X",
            "STOKEHOLD_",
        ] {
            assert!(!is_known(name), "{name}");
        }
    }
}
