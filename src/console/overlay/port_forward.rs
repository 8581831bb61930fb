//! The palette's offers after `port-forward`: the typed ports, and running port-forwards to stop.

use crate::pod_access::Ports;
use crate::screen::Screen;

use super::verdict::{Navigation, Offer};

/// The words before the ports; alone they list what runs.
pub(super) const WORDS: &[&str] = &["port-forward", "port-forwards", "pf"];

/// The typed port-forward, or its error; then each running one.
pub(super) fn offers(screen: &dyn Screen, typed: &str) -> Vec<Offer> {
    let typed = typed.trim();
    let stays = |doc: String| Offer {
        label: format!("port-forward {typed}"),
        doc,
        go: Navigation::Palette(format!("port-forward {typed}")),
    };
    let new = match (screen.port_forward_pod(), Ports::parse(typed)) {
        (Err(why), _) => stays(why),
        (Ok(pod), Some(ports)) => Offer {
            label: format!("port-forward {ports}"),
            doc: match ports.local {
                0 => format!(
                    "any free port of 127.0.0.1 to port {} of pod {pod}",
                    ports.remote
                ),
                local => format!("127.0.0.1:{local} to port {} of pod {pod}", ports.remote),
            },
            go: Navigation::PortForward(pod, ports),
        },
        (Ok(pod), None) => stays(format!("LOCAL[:REMOTE], `8080:80` say, to pod {pod}")),
    };
    let running = screen.port_forwards().iter().map(|forward| {
        let ports = forward.ports.to_string();
        Offer {
            label: format!("stop {}", forward.address.as_ref().unwrap_or(&ports)),
            doc: format!(
                "port-forward to port {} of pod {} in {}",
                forward.ports.remote, forward.pod, forward.context
            ),
            go: Navigation::StopPortForward(forward.number),
        }
    });
    std::iter::once(new).chain(running).collect()
}
