//! Follows the journal of this machine for runs that have left jobs suspended, and tells the store.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use exec::{ClusterIdentity, Journal, Run, Runs, Same, blocking};
use model::fleet::observe::Observation;
use model::fleet::run_hold::OpenRun;
use source::client::Connection;

/// How often the journal is checked. A process that was killed leaves no line in it.
const PACE: Duration = Duration::from_secs(5);

/// Longest time that the first answer waits for the cluster's identity.
const PROMPT: Duration = Duration::from_secs(5);

/// Begins to follow a journal for a cluster. The receiver fires once the store has the current runs.
pub(crate) fn follow(
    journal: Journal,
    connection: &Connection,
    out: mpsc::Sender<Vec<Observation>>,
) -> oneshot::Receiver<()> {
    let (ready, first) = oneshot::channel();
    let here = ClusterIdentity {
        context: connection.context.to_string(),
        server: connection.server.clone(),
        uid: String::new(),
    };
    let client = connection.client.clone();
    tokio::spawn(async move {
        let mut ready = Some(ready);
        let mut here = here;
        let mut runs = Runs::default();
        let mut known: Vec<OpenRun> = Vec::new();
        loop {
            // The same cluster may have had another name or address then.
            if here.uid.is_empty()
                && blocking(|| {
                    let may_be = |run: &Run| run.cluster.may_be(&here);
                    !left(&journal, &mut runs, may_be).is_empty()
                })
                && let Ok(Ok(uid)) =
                    tokio::time::timeout(PROMPT, exec::request::identity(&client)).await
            {
                here.uid = uid;
            }
            let open = blocking(|| {
                let of_here = |run: &Run| run.cluster.compare(&here) != Same::No;
                left(&journal, &mut runs, of_here)
            });
            if open != known {
                known.clone_from(&open);
                let open = Observation::OpenRuns(Arc::from(open));
                if out.send(vec![open]).await.is_err() {
                    return;
                }
            }
            if let Some(ready) = ready.take() {
                let _ = ready.send(());
            }
            tokio::select! {
                () = tokio::time::sleep(PACE) => {}
                () = out.closed() => return,
            }
        }
    });
    first
}

/// The runs that have left jobs suspended, of those that are meant; none where the journal cannot be read.
fn left(journal: &Journal, runs: &mut Runs, is_meant: impl Fn(&Run) -> bool) -> Vec<OpenRun> {
    let Ok(all) = runs.look(journal) else {
        return Vec::new();
    };
    all.iter()
        .filter(|run| is_meant(run))
        .filter_map(|run| run.left_suspended(all, |name| journal.is_running(name)))
        .collect()
}
