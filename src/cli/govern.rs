//! `govern`: queues, quotas and gangs for jobs on a cluster without a queueing system.

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};

use cluster::rights;
use model::base::quantities::counted;
use model::base::{Exit, Failure, Name};
use model::fleet::accelerator::Catalog;
use model::fleet::queue::QueueKind;
use model::fleet::queue_document::{flavors_without_devices, read};
use source::local;

use crate::runtime::election;
use crate::runtime::govern::metrics::ServedGovern;
use crate::runtime::govern::{self, Governor};
use crate::runtime::status_server;

use super::common::flags::span;
use super::common::listen;
use super::common::out;
use super::common::setup::{self, FactsSource, Situation};

/// What runs it in a cluster.
const DEPLOYMENT: &str = include_str!("../../config/kubernetes/govern.yaml");

/// The policy that makes Jobs with the label suspended.
const SUSPEND: &str = include_str!("../../config/kubernetes/govern-suspend.yaml");

/// What `govern manifests` prints.
pub(super) fn manifests(suspend_policy: bool) -> String {
    match suspend_policy {
        true => SUSPEND.to_owned(),
        false => format!("{}---\n{DEPLOYMENT}", rights::govern()),
    }
}

/// Whether to write, and for how long.
#[derive(Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Govern {
    #[command(subcommand)]
    pub what: Option<GovernTask>,
    #[command(flatten)]
    pub flags: GovernFlags,
}

#[derive(Args, Clone, Debug)]
pub struct GovernFlags {
    /// Write nothing: say what would be admitted, preempted and kept waiting, and compare it to what kube-scheduler has done
    #[arg(long)]
    observe: bool,
    /// Of several processes, only the leader governs: the holder of the Lease stokehold-govern in the namespace of the queues
    #[arg(long, conflicts_with = "observe")]
    leader_elect: bool,
    /// End after this time
    #[arg(long = "for", value_name = "DURATION", value_parser = span)]
    lasts: Option<Duration>,
    /// Serve /healthz, /readyz and /metrics on this address, over plain HTTP: 127.0.0.1:9846, or :9846 for all interfaces
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = listen::address)]
    listen: Option<SocketAddr>,
}

/// What to do besides governing.
#[derive(Subcommand, Clone, Debug)]
pub enum GovernTask {
    /// Check a document of queues, the content of `queues.toml`, before it is applied
    Check {
        /// The document
        file: PathBuf,
    },
    /// Print what runs it in a cluster, for kubectl apply: account, roles, queues, Deployment, network policy, the check of queues
    Manifests {
        /// Only the policy that makes Jobs with the label suspended: for Kubernetes 1.36 and later
        #[arg(long)]
        suspend_policy: bool,
    },
}

/// Governs until it is stopped.
pub(super) fn run(
    situation: &Situation,
    flags: &GovernFlags,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Exit, Failure> {
    situation.host.block_on(async {
        let setup = situation.setup(true);
        let listener = match flags.listen {
            Some(address) => Some(status_server::listen(address).await?),
            None => None,
        };
        let writes = !flags.observe;
        let (session, writer) = govern::open(&setup, situation.target()?, writes)?;
        let mut governor = Governor::new(session.facts.clone(), writer, &situation.settings);
        let elector = match (&situation.target, flags.leader_elect) {
            (FactsSource::Cluster(choice), true) => {
                let lease = format!("{}/stokehold-govern", situation.settings.govern.namespace);
                let lease = lease
                    .parse()
                    .map_err(|why| Failure::new(Exit::Usage, why))?;
                let context = &session.context.as_str().into();
                let held = election::elector(
                    &situation.host,
                    &situation.settings,
                    choice.clone(),
                    context,
                    lease,
                )?;
                governor = governor.only_while_leading(held.lead());
                let status = governor.status();
                Some(held.unless(move || status.borrow().stuck()))
            }
            _ => None,
        };
        let does = match writes {
            true => "governs",
            false => "observes, without writing,",
        };
        let namespace = &situation.settings.govern.namespace;
        let words = format!(
            "{does} the jobs of {} by ConfigMap {namespace}/stokehold-queues; ctrl-c ends it",
            session.context
        );
        out::print_message(err, &words);
        if let Some(address) = listener.as_ref().and_then(|known| known.local_addr().ok()) {
            let words = format!("serves http://{address}/healthz, /readyz and /metrics");
            out::print_message(err, &words);
        }
        let served = Arc::new(ServedGovern(governor.status()));
        let answers = async {
            match listener {
                Some(listener) => status_server::accept(listener, served).await,
                None => std::future::pending().await,
            }
        };
        let ends = async {
            match flags.lasts {
                Some(span) => tokio::select! {
                    () = setup::ended() => {}
                    () = tokio::time::sleep(span) => {}
                },
                None => setup::ended().await,
            }
        };
        let mut gone = Ok(());
        let mut say = |words: &str| {
            let printed = out::write(out, &format!("{words}\n"));
            if gone.is_ok() {
                gone = printed;
            }
        };
        let governs = governor.run(ends, &mut say);
        let report = |words: &str| out::print_message(err, words);
        tokio::select! {
            ended = election::meanwhile(elector, report, governs) => ended?,
            () = answers => {}
        }
        gone?;
        Ok(Exit::Done)
    })
}

/// Checks a document of queues: the first mistake with its line and the fix, else what it has.
pub(super) fn check(
    file: &Path,
    catalog: &Catalog,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Exit, Failure> {
    let place = file.display().to_string();
    let text = local::read_text(file)
        .map_err(|error| Failure::new(Exit::Usage, format!("{place}: cannot be read: {error}")))?;
    let queues =
        read(&text, &place).map_err(|fault| Failure::new(Exit::Usage, fault.to_string()))?;
    let known: Vec<Name> = (catalog.accelerators.iter())
        .map(|accelerator| Name::new(&accelerator.class))
        .collect();
    for (flavor, near) in flavors_without_devices(&queues, &known) {
        let near = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
        let words = format!(
            "{place}: `{flavor}` is not a built-in class of devices{near} `stokehold get pools` names those of a cluster"
        );
        out::print_message(err, &words);
    }
    let own = queues
        .iter()
        .filter(|queue| queue.key.kind == QueueKind::Queue);
    let mut parents: Vec<&Name> = queues.iter().filter_map(|it| it.parent.as_ref()).collect();
    parents.sort_unstable();
    parents.dedup();
    let parents = match parents.len() {
        0 => String::new(),
        count => format!(" and {}", counted(count as u64, "parent")),
    };
    let own = counted(own.count() as u64, "queue");
    out::write(out, &format!("{place}: ok, {own}{parents}\n"))?;
    Ok(Exit::Done)
}
