//! The keys for a shell and a port-forward: refused with a notice, or passed to the runtime.

use model::base::ObjectKey;
use table::actions::May;

use crate::msg::Effect;
use crate::overlay::Overlay;
use crate::pod_access::{running_pod, shell_target};
use table::navigation::Selection;

use super::App;

impl App {
    /// Requests a shell for the selected object.
    pub(super) fn shell(&mut self, meant: &[Selection], effects: &mut Vec<Effect>) {
        let target = self
            .granted()
            .and_then(|()| shell_target(meant, &self.facts));
        match target {
            Ok(target) => effects.push(Effect::Shell(target)),
            Err(why) => self.notify(why),
        }
    }

    /// Asks for the ports to forward to the selected pod. Running port-forwards can be stopped without one.
    pub(super) fn ask_for_ports(&mut self, meant: &[Selection]) {
        match self.port_forward_pod(meant) {
            Err(why) if self.port_forwards.is_empty() => self.notify(why),
            _ => self.overlay = Overlay::palette(self, "port-forward "),
        }
    }

    /// The selected pod, where a port can be forwarded to it.
    ///
    /// # Errors
    /// Why none can be forwarded.
    pub(crate) fn port_forward_pod(&self, meant: &[Selection]) -> Result<ObjectKey, String> {
        self.granted()?;
        running_pod(meant, &self.facts)
    }

    /// Fails only where writing is known to be forbidden. While that is unknown, the runtime decides: it has the grant.
    fn granted(&self) -> Result<(), String> {
        match &self.facts.acts.may {
            // The other ways to allow it do not fit on the line of notices.
            May::No { sentence, .. } => Err(sentence
                .split_once(", or ")
                .map_or_else(|| sentence.clone(), |(first, _)| first.to_owned())),
            May::Unknown | May::Yes => Ok(()),
        }
    }
}
