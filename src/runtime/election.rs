//! The right to hold a Lease, which comes from the settings as every right to write does.

use tokio::sync::oneshot;

use exec::lease::{Elector, LeaseName};
use model::base::{Exit, Failure, Name};
use plan::grant::Grant;
use settings::Settings;
use source::api_stats::ApiStats;
use source::kubeconfig::Choice;

use super::{clock, session};

/// Waits for a Lease of a cluster of the kubeconfig. Nothing is sent yet.
///
/// # Errors
/// The kubeconfig cannot be used, or nothing grants writing, which holding a Lease is.
#[expect(
    clippy::disallowed_methods,
    reason = "the composition root asks settings for a grant"
)]
pub fn elector(
    settings: &Settings,
    choice: Choice,
    context: &Name,
    lease: LeaseName,
) -> Result<Elector, Failure> {
    let grant = Grant::from_settings(settings, context, false).map_err(|denied| {
        let message = format!("holding the Lease {lease} needs writing: {denied}");
        Failure::new(Exit::Refused, message)
    })?;
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy().into_owned();
    let identity = format!("{host}_{:016x}", session::identity());
    let stats = ApiStats::new(clock::shared());
    Elector::connect(&grant, choice, stats, lease, identity)
        .map_err(|fault| Failure::new(Exit::Usage, fault.to_string()))
}

/// Does `work` and holds the Lease meanwhile, where there is one; lets go of it when the work has ended, so that nothing is done any
/// more when another may begin. `say` is told as in [`Elector::run`].
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
