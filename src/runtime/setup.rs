//! What every session starts from.

use settings::{Rulebook, Settings};

use super::host::Host;

/// Validated inputs of a session.
#[derive(Clone, Debug)]
pub struct Setup {
    pub settings: Settings,
    /// Rules, thresholds, prices and dialects.
    pub rulebook: Rulebook,
    /// Credential plugins may use the terminal; for commands without a screen.
    pub interactive: bool,
    /// List all namespaces; the first selected one is the fallback where that is forbidden.
    pub every_namespace: bool,
    /// The host: its clock.
    pub host: Host,
}
