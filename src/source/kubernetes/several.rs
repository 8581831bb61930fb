//! Several namespaces: each is listed and watched separately, and reported as one table.
//!
//! The ledger knows only lists of complete tables, so objects missing from a namespace's new list are reported as deleted here.
//! The table counts as listed when every permitted namespace is listed, and as lost while any is lost. A forbidden
//! namespace is not visible: the table then consists of the others, and its extent is limited to them.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use futures::{StreamExt, stream};
use rustc_hash::FxHashSet;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::serving::ServingSenders;
use model::base::{Name, ObjectKey};
use model::fleet::observe::{
    ListedNamespaces, Lost, LostKind, Observation, SourceHealth, SourceState, Table,
};
use model::fleet::source_errors::SourceErrors;

use super::{Namespaces, Shared};

/// Batches of one namespace that may be buffered.
const BACKLOG: usize = 16;

/// One namespace's part of the table.
#[derive(Default)]
struct NamespaceTable {
    namespace: String,
    listed: bool,
    lost: Option<Lost>,
    absent: bool,
    keys: FxHashSet<ObjectKey>,
    /// Keys that the list in progress has returned.
    listing: Option<FxHashSet<ObjectKey>>,
    row: Option<SourceHealth>,
}

impl NamespaceTable {
    /// True when the namespace is forbidden and was never listed.
    fn is_refused(&self) -> bool {
        let refused = |lost: &Lost| lost.kind == LostKind::Rights;
        !self.listed && self.lost.as_ref().is_some_and(refused)
    }
}

/// The parts as one table.
struct WholeTable {
    table: Table,
    parts: Vec<NamespaceTable>,
    begun: bool,
    ended: bool,
    reported_loss: Option<Lost>,
    /// The last reported extent.
    extent: Option<ListedNamespaces>,
    serving: Option<ServingSenders>,
}

/// Lists and watches `table` in each of `namespaces` until the task is dropped or the receiver is closed.
pub(crate) async fn follow(shared: Arc<Shared>, table: Table, namespaces: Vec<String>) {
    let mut tasks = JoinSet::new();
    let mut parts = Vec::new();
    let mut streams = Vec::new();
    for (number, namespace) in namespaces.into_iter().enumerate() {
        let (out, seen) = mpsc::channel(BACKLOG);
        let own = Shared {
            govern_namespace: shared.govern_namespace.clone(),
            client: shared.client.clone(),
            stats: Arc::clone(&shared.stats),
            server: Arc::clone(&shared.server),
            namespaces: Namespaces::One(namespace.clone()),
            names: Arc::clone(&shared.names),
            kept: AtomicUsize::new(0),
            out,
            serving: shared.serving.as_ref().map(ServingSenders::part),
            waiting: shared.waiting.clone(),
            again: shared.again.clone(),
        };
        tasks.spawn(super::follow(Arc::new(own), table));
        streams.push(Box::pin(stream::unfold(seen, move |mut seen| async move {
            let batch: Vec<Observation> = seen.recv().await?;
            Some(((number, batch), seen))
        })));
        parts.push(NamespaceTable {
            namespace,
            ..NamespaceTable::default()
        });
    }
    let serving = shared.serving.clone().filter(|_| table == Table::Pods);
    let mut whole = WholeTable {
        table,
        parts,
        begun: false,
        ended: false,
        reported_loss: None,
        extent: None,
        serving,
    };
    if let Some(serving) = &whole.serving {
        serving.begin();
    }
    let mut streams = stream::select_all(streams);
    loop {
        let next = tokio::select! {
            next = streams.next() => next,
            () = shared.out.closed() => return,
        };
        let Some((number, batch)) = next else { return };
        let mut out = Vec::with_capacity(batch.len());
        for observation in batch {
            whole.take(number, observation, &mut out);
        }
        if !out.is_empty() && shared.out.send(out).await.is_err() {
            return;
        }
    }
}

impl WholeTable {
    /// Applies one part's observation; appends the table's observations to `out`.
    fn take(&mut self, number: usize, observation: Observation, out: &mut Vec<Observation>) {
        let part = &mut self.parts[number];
        if let Some(key) = key_of(&observation) {
            part.listing
                .as_mut()
                .unwrap_or(&mut part.keys)
                .insert(key.clone());
            out.push(observation);
            return;
        }
        match observation {
            Observation::Begin(_) => {
                part.listing = Some(FxHashSet::default());
                if !std::mem::replace(&mut self.begun, true) {
                    out.push(Observation::Begin(self.table));
                }
            }
            Observation::End(_) => {
                part.listed = true;
                part.absent = false;
                part.lost = None;
                let listed = part.listing.take().unwrap_or_default();
                for key in part.keys.difference(&listed) {
                    if let Some(serving) = &self.serving {
                        serving.gone(key);
                    }
                    out.push(Observation::Gone(self.table, key.clone()));
                }
                part.keys = listed;
                self.settle(out);
            }
            Observation::Lost(_, lost) => {
                part.lost = Some(lost);
                self.settle(out);
            }
            Observation::Back(_) => {
                part.lost = None;
                self.settle(out);
            }
            Observation::Absent(_) => {
                part.lost = None;
                part.keys.clear();
                part.listing = None;
                // A kind is served in all namespaces or in none: one report is enough.
                let first = !std::mem::replace(&mut part.absent, true);
                if first {
                    out.push(Observation::Absent(self.table));
                }
            }
            Observation::Gone(table, key) => {
                part.keys.remove(&key);
                if let Some(listing) = &mut part.listing {
                    listing.remove(&key);
                }
                out.push(Observation::Gone(table, key));
            }
            // Each part's extent covers only its own namespace.
            Observation::Covers(_) => {}
            Observation::Source(row) => {
                part.row = Some(row);
                out.extend(self.row().map(Observation::Source));
            }
            other => out.push(other),
        }
    }

    /// Reports the table's state once each part is listed or lost.
    fn settle(&mut self, out: &mut Vec<Observation>) {
        let settled = |part: &NamespaceTable| part.listed || part.absent || part.lost.is_some();
        if !self.parts.iter().all(settled) {
            return;
        }
        let lost = self.lost();
        if lost.is_none() {
            self.report_extent(out);
        }
        if let Some(lost) = lost {
            if self.reported_loss.as_ref() != Some(&lost) {
                self.reported_loss = Some(lost.clone());
                out.push(Observation::Lost(self.table, lost));
            }
        } else if !std::mem::replace(&mut self.ended, true) {
            self.reported_loss = None;
            out.push(Observation::End(self.table));
        } else if self.reported_loss.take().is_some() {
            out.push(Observation::Back(self.table));
        }
        if let Some(serving) = &self.serving {
            // The first time, this ends the list; later calls have no effect.
            serving.end();
        }
    }

    /// Reports which namespaces are listed, if that changed.
    fn report_extent(&mut self, out: &mut Vec<Observation>) {
        if self.table != Table::Pods {
            return;
        }
        let seen = self.parts.iter().filter(|part| !part.is_refused());
        let names: Vec<Name> = seen.map(|part| Name::new(&part.namespace)).collect();
        let extent = match names.len() == self.parts.len() {
            true => ListedNamespaces::Chosen(names.into()),
            false => ListedNamespaces::Only(names.into()),
        };
        if self.extent.as_ref() != Some(&extent) {
            self.extent = Some(extent.clone());
            out.push(Observation::Covers(extent));
        }
    }

    /// The losses of all parts as one. A namespace that is forbidden is no loss for the others.
    fn lost(&self) -> Option<Lost> {
        let all_refused = self.parts.iter().all(NamespaceTable::is_refused);
        let lost = || {
            self.parts
                .iter()
                .filter(|part| all_refused || !part.is_refused())
                .filter_map(|part| Some((&part.namespace, part.lost.as_ref()?)))
        };
        let since = lost().map(|(_, lost)| lost.since).min()?;
        let is = |kind: LostKind| lost().any(|(_, lost)| lost.kind == kind);
        let kinds = [LostKind::Unreachable, LostKind::Login];
        let worst = kinds.into_iter().find(|kind| is(*kind));
        let words: Vec<String> = lost()
            .map(|(namespace, lost)| format!("in namespace {namespace}: {}", lost.message))
            .collect();
        Some(Lost {
            kind: worst.unwrap_or(LostKind::Rights),
            since,
            message: words.join("; "),
        })
    }

    /// The rows of all parts as one: the worst state and the oldest data.
    fn row(&self) -> Option<SourceHealth> {
        let rows = || {
            self.parts
                .iter()
                .filter_map(|part| Some((part, part.row.as_ref()?)))
        };
        let (_, first) = rows().next()?;
        let mut words: Vec<String> = Vec::new();
        for (part, row) in rows().filter(|(_, row)| !row.message.is_empty()) {
            words.push(format!("{}: {}", part.namespace, row.message));
        }
        let errors = SourceErrors::sum(rows().map(|(part, row)| {
            let namespace = part.namespace.as_str();
            (namespace, row.errors, &*row.last_errors)
        }));
        let oldest = rows().map(|(_, row)| row.last_ok).min().flatten();
        Some(SourceHealth {
            state: rows()
                .map(|(_, row)| row.state)
                .max()
                .unwrap_or(SourceState::Stale),
            last_ok: oldest,
            node: None,
            failing_since: None,
            last_outage: None,
            latency_ms: rows().filter_map(|(_, row)| row.latency_ms).max(),
            errors: errors.count,
            last_errors: errors.last,
            // Requests are counted for the table as a whole.
            calls_per_minute: rows().filter_map(|(_, row)| row.calls_per_minute).max(),
            message: words.join("; "),
            ..first.clone()
        })
    }
}

/// The key of an observed object.
fn key_of(observation: &Observation) -> Option<&ObjectKey> {
    match observation {
        Observation::Pod(pod) => Some(&pod.key),
        Observation::Workload(workload) => Some(&workload.key),
        Observation::Group(group) => Some(&group.key),
        Observation::Door(door) => Some(&door.key),
        Observation::Budget(budget) => Some(&budget.key),
        Observation::Claim(claim) => Some(&claim.key),
        Observation::ClaimTemplate(template) => Some(&template.key),
        Observation::Provision(provision) => Some(&provision.key),
        Observation::PodScaler(scaler) => Some(&scaler.key),
        Observation::ScaledObject(object) => Some(&object.key),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::base::Moment;
    use model::fleet::observe::PodSeen;

    fn pod(namespace: &str, name: &str) -> Observation {
        Observation::Pod(Box::new(PodSeen {
            key: ObjectKey::new(namespace, name),
            ..PodSeen::default()
        }))
    }

    fn whole() -> WholeTable {
        let part = |namespace: &str| NamespaceTable {
            namespace: namespace.to_owned(),
            ..NamespaceTable::default()
        };
        WholeTable {
            table: Table::Pods,
            parts: vec![part("a"), part("b")],
            begun: false,
            ended: false,
            reported_loss: None,
            extent: None,
            serving: None,
        }
    }

    fn taken(whole: &mut WholeTable, number: usize, observations: Vec<Observation>) -> Vec<String> {
        let mut out = Vec::new();
        for one in observations {
            whole.take(number, one, &mut out);
        }
        out.iter()
            .map(|one| match one {
                Observation::Begin(_) => "begin".to_owned(),
                Observation::End(_) => "end".to_owned(),
                Observation::Back(_) => "back".to_owned(),
                Observation::Lost(_, lost) => format!("lost {}", lost.message),
                Observation::Pod(pod) => format!("+{}", pod.key),
                Observation::Gone(_, key) => format!("-{key}"),
                Observation::Covers(ListedNamespaces::Chosen(names)) => {
                    format!("all {}", names.join(" "))
                }
                Observation::Covers(ListedNamespaces::Only(names)) => {
                    format!("only {}", names.join(" "))
                }
                other => format!("{other:?}"),
            })
            .collect()
    }

    fn lost(message: &str) -> Observation {
        Observation::Lost(
            Table::Pods,
            Lost {
                kind: LostKind::Rights,
                since: Moment::from_millis(1),
                message: message.to_owned(),
            },
        )
    }

    #[test]
    fn two_lists_are_one() {
        let (begin, end) = (
            || Observation::Begin(Table::Pods),
            || Observation::End(Table::Pods),
        );
        let mut all = whole();
        assert_eq!(
            taken(
                &mut all,
                0,
                vec![begin(), pod("a", "x"), pod("a", "y"), end()]
            ),
            ["begin", "+a/x", "+a/y"]
        );
        assert_eq!(
            taken(&mut all, 1, vec![begin(), pod("b", "z"), end()]),
            ["+b/z", "all a b", "end"]
        );
        // A new list of one part removes missing objects of that part only.
        assert_eq!(
            taken(&mut all, 0, vec![begin(), pod("a", "y"), end()]),
            ["+a/y", "-a/x"]
        );
        let gone = Observation::Gone(Table::Pods, ObjectKey::new("b", "z"));
        assert_eq!(taken(&mut all, 1, vec![gone]), ["-b/z"]);
        assert!(taken(&mut all, 1, vec![begin(), end()]).is_empty());
    }

    #[test]
    fn a_forbidden_namespace_keeps_the_table_and_an_unreachable_one_fails_it() {
        let (begin, end) = (
            || Observation::Begin(Table::Pods),
            || Observation::End(Table::Pods),
        );
        let mut all = whole();
        assert!(taken(&mut all, 1, vec![lost("403")]).is_empty());
        assert_eq!(
            taken(&mut all, 0, vec![begin(), pod("a", "x"), end()]),
            ["begin", "+a/x", "only a", "end"]
        );
        assert_eq!(
            taken(&mut all, 1, vec![begin(), pod("b", "z"), end()]),
            ["+b/z", "all a b"]
        );
        assert_eq!(
            taken(&mut all, 0, vec![lost("gone")]),
            ["lost in namespace a: gone"]
        );
        assert_eq!(
            taken(&mut all, 0, vec![Observation::Back(Table::Pods)]),
            ["back"]
        );
    }
}
