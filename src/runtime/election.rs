//! Leader election by a Lease; the right to write it comes from the settings, as every other one.

use tokio::sync::oneshot;

use exec::lease::{Elector, LeaseName};
use model::base::{Exit, Failure, Name};
use plan::grant::Grant;
use settings::Settings;
use source::api_stats::ApiStats;
use source::kubeconfig::ContextChoice;

use super::host::Host;
use super::identity::random_identity;

/// An elector for a Lease on a cluster of the kubeconfig. Nothing is sent yet.
///
/// # Errors
/// The kubeconfig cannot be used, or the settings grant no writing, which a Lease needs.
#[expect(
    clippy::disallowed_methods,
    reason = "the composition root asks settings for a grant"
)]
pub fn elector(
    host: &Host,
    settings: &Settings,
    choice: ContextChoice,
    context: &Name,
    lease: LeaseName,
) -> Result<Elector, Failure> {
    let grant = Grant::from_settings(settings, context, false).map_err(|denied| {
        let message = format!("holding the Lease {lease} needs writing: {denied}");
        Failure::new(Exit::Refused, message)
    })?;
    let machine = rustix::system::uname();
    let machine = machine.nodename().to_string_lossy().into_owned();
    let identity = format!("{machine}_{:016x}", random_identity());
    let stats = ApiStats::new(host.clock.clone());
    Elector::connect(&grant, choice, stats, lease, identity)
        .map_err(|fault| Failure::new(Exit::Usage, fault.to_string()))
}

/// Runs `work` while holding the Lease, if there is an elector; releases the Lease only after `work` has ended, so that two
/// leaders never overlap. `say` as in [`Elector::run`].
pub async fn meanwhile<T>(
    elector: Option<Elector>,
    say: impl FnMut(&str),
    work: impl Future<Output = T>,
) -> T {
    let Some(elector) = elector else {
        return work.await;
    };
    let (stop, stopped) = oneshot::channel::<()>();
    let work = async {
        let done = work.await;
        drop(stop);
        done
    };
    let end = async { drop(stopped.await) };
    tokio::join!(work, elector.run(end, say)).0
}
