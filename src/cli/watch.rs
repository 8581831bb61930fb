//! `watch`: sends findings to the receivers in the settings (Alertmanager, Slack, webhooks) until it is interrupted.

use std::cell::RefCell;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde_json::value::RawValue;

use exec::lease::LeaseName;
use model::base::{Exit, Failure};
use model::fleet::finding::Severity;
use model::notify::{NotifyFilter, ReceiverKind};
use source::notify::{Notifier, NotifyEndpoint};
use table::notify::DeliveryRules;

use crate::runtime::election;
use crate::runtime::records::record_metrics::RecordMetrics;
use crate::runtime::session::{self, Session};
use crate::runtime::usage::facts::{self as usage_facts, UsageReader};
use crate::runtime::watch::metrics::ServedWatch;
use crate::runtime::watch::state::{self as watch_state, DeliveryState};
use crate::runtime::watch::{self, Delivers, WatchInputs, Watcher};
use crate::runtime::{silence, status_server};

use super::common::console_options;
use super::common::listen;
use super::common::out;
use super::common::setup::{self, FactsSource, Situation};
use super::common::simulated::FleetFlags;

/// Flags of `watch`.
#[derive(Args, Clone, Debug)]
pub struct WatchFlags {
    /// Directory for the delivery state, so that a restart sends nothing twice; default: one per context in the state directory
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Serve /healthz, /readyz and /metrics on this address, over plain HTTP: 127.0.0.1:9844, or :9844 for all interfaces
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = listen::address)]
    listen: Option<SocketAddr>,
    /// Leader election: of several watchers, only the holder of this Lease sends (e.g. stokehold/watch). Needs --write; writes only the Lease
    #[arg(long, value_name = "NAMESPACE/NAME", conflicts_with_all = ["dry_run", "demo"])]
    lease: Option<LeaseName>,
    /// Print messages, one JSON object a line, and send nothing
    #[arg(long)]
    dry_run: bool,
    /// Watch the simulated fleet, not the cluster: messages are printed, never sent
    #[arg(long)]
    demo: bool,
    #[command(flatten)]
    fleet: FleetFlags,
}

impl WatchFlags {
    /// The simulated fleet, if that is watched.
    pub(super) fn fleet(&self) -> Option<FleetFlags> {
        self.demo.then_some(self.fleet)
    }
}

pub(super) fn run(
    situation: &Situation,
    flags: &WatchFlags,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Exit, Failure> {
    flags.fleet.refuse_unless(flags.demo, "watch", "--demo")?;
    let prints_only = flags.dry_run || flags.demo;
    if !prints_only {
        require_receiver(situation, "see with --dry-run what would be sent")?;
    }
    situation.host.block_on(async {
        let setup = situation.setup(true);
        let listener = match flags.listen {
            Some(address) => Some(status_server::listen(address).await?),
            None => None,
        };
        let (session, cluster_uid) = session::watch(&setup, situation.target()?, watch::SNAPSHOT_INTERVAL).await?;
        let series_labels = RecordMetrics::common(&situation.settings, &session.context);
        let cluster_name = series_labels[0].1.clone();
        let mut receivers = watch::receivers(&situation.settings, &cluster_name);
        if receivers.is_empty() {
            receivers.push(stdout_receiver(cluster_name));
        }
        let inputs = inputs(situation, &session);
        let (state, saved, notice) = match prints_only {
            true => (None, Vec::new(), None),
            false => {
                let folder = flags.dir.clone();
                let folder = folder.or_else(|| watch_state::directory_of(&situation.settings, &session.context));
                let folder = folder.ok_or_else(|| {
                    let message =
                        "there is no home directory for the list of sent messages: give one (--dir)";
                    Failure::new(Exit::Usage, message)
                })?;
                let (state, saved, notice) = DeliveryState::open(&folder, &cluster_uid, &session.context)?;
                (Some(state), saved, notice)
            }
        };
        let names: Vec<String> = receivers
            .iter()
            .map(|(rules, _)| format!("{} ({})", rules.receiver, rules.kind.name()))
            .collect();
        let does = match prints_only {
            true => "prints what it would send to",
            false => "sends findings to",
        };
        let words = format!(
            "watching {}: {does} {}; ctrl-c ends it\n",
            session.context,
            names.join(", ")
        );
        // When messages are printed, they are all that standard output gets: everything else goes to standard error.
        match prints_only {
            true => out::print_message(err, words.trim()),
            false => out::write(out, &words)?,
        }
        if let Some(address) = listener.as_ref().and_then(|known| known.local_addr().ok()) {
            let words = format!("serves http://{address}/healthz, /readyz and /metrics\n");
            match prints_only {
                true => out::print_message(err, words.trim()),
                false => out::write(out, &words)?,
            }
        }
        let delivers = match prints_only {
            true => Delivers::Prints(Box::new(|rules, body| print(out, rules, body))),
            false => Delivers::Sends(Arc::new(Notifier::default())),
        };
        let mut watcher = Watcher::new(inputs, delivers, receivers, state);
        for words in notice.into_iter().chain(watcher.restore(saved)) {
            out::print_message(err, &words);
        }
        let elector = match (&flags.lease, &situation.target) {
            (Some(lease), FactsSource::Cluster(choice)) => {
                let context = &session.context.as_str().into();
                let choice = choice.clone();
                let held = election::elector(&situation.host, &situation.settings, choice, context, lease.clone())?;
                watcher = watcher.only_while_leading(held.lead());
                Some(held)
            }
            _ => None,
        };
        let served = Arc::new(ServedWatch {
            status: watcher.status(),
            // Only the label `cluster`: the others name the recorder.
            common: series_labels.into_iter().take(1).collect(),
        });
        let answers = async {
            match listener {
                Some(listener) => status_server::accept(listener, served).await,
                None => std::future::pending().await,
            }
        };
        let err = RefCell::new(err);
        let say = |words: &str| out::print_message(&mut **err.borrow_mut(), words);
        let mut log = say;
        let watches = watcher.run(setup::ended(), &mut log);
        tokio::select! {
            ended = election::meanwhile(elector, say, watches) => ended?,
            () = answers => {}
        }
        Ok(Exit::Done)
    })
}

/// Checks that the settings have a receiver.
///
/// # Errors
/// The settings have no receiver. `else_do` names another way for the message.
pub(super) fn require_receiver(situation: &Situation, else_do: &str) -> Result<(), Failure> {
    match situation.settings.notify.is_empty() {
        true => {
            let message =
                format!("there is no receiver: add a [[notify]] to the settings, or {else_do}");
            Err(Failure::new(Exit::Usage, message))
        }
        false => Ok(()),
    }
}

/// The watcher of `record --notify`. Its delivery state is in the record's directory.
///
/// # Errors
/// The delivery state cannot be written to `folder`.
pub(super) fn watcher_of_recorder(
    situation: &Situation,
    session: &Session,
    folder: &Path,
    err: &mut dyn Write,
) -> Result<Watcher<'static>, Failure> {
    if situation.settings.notify.is_empty() {
        let message =
            "there is no receiver: add a [[notify]] to the settings, or leave --notify out";
        return Err(Failure::new(Exit::Usage, message));
    }
    let series_labels = RecordMetrics::common(&situation.settings, &session.context);
    let cluster_name = &series_labels[0].1;
    let receivers = watch::receivers(&situation.settings, cluster_name);
    // The recorder made sure that the directory is this cluster's.
    let (state, saved, notice) = DeliveryState::open(&folder.join("watch"), "", &session.context)?;
    let delivers = Delivers::Sends(Arc::new(Notifier::default()));
    let mut watcher = Watcher::new(inputs(situation, session), delivers, receivers, Some(state));
    for words in notice.into_iter().chain(watcher.restore(saved)) {
        out::print_message(err, &words);
    }
    Ok(watcher)
}

/// The inputs of a watcher in a session.
pub(super) fn inputs(situation: &Situation, session: &Session) -> WatchInputs {
    let is_cluster = matches!(situation.target, FactsSource::Cluster(_));
    let usage = match is_cluster && !situation.settings.budget.is_empty() {
        true => {
            let reader = UsageReader::new(&situation.host, &situation.settings, &session.context)
                .of_budgets();
            usage_facts::followed(reader, session.clock.clone())
        }
        false => session.usage.clone(),
    };
    WatchInputs {
        facts: session.facts.clone(),
        usage,
        clock: session.clock.clone(),
        scope: console_options::scope(&situation.settings),
        thresholds: Arc::clone(&situation.rulebook.thresholds),
        silences: silence::file_path(&situation.settings).filter(|_| is_cluster),
    }
}

/// The receiver for `--dry-run` and `--demo` when the settings have none: messages are printed as a webhook would get them.
fn stdout_receiver(cluster: String) -> watch::Receiver {
    let rules = DeliveryRules {
        receiver: "stdout".into(),
        kind: ReceiverKind::Webhook,
        filter: NotifyFilter {
            min_severity: Severity::Warn,
            codes: Vec::new(),
            kinds: Vec::new(),
            namespaces: Vec::new(),
            pools: Vec::new(),
        },
        cluster,
    };
    let endpoint = NotifyEndpoint {
        endpoint: source::scrape::Endpoint::default(),
        url_file: None,
        path: "",
        timeout: std::time::Duration::from_secs(5),
    };
    (rules, endpoint)
}

/// Prints a message instead of sending it.
fn print(out: &mut dyn Write, rules: &DeliveryRules, body: &str) -> Result<(), Failure> {
    let body: Option<&RawValue> = serde_json::from_str(body).ok();
    let line = serde_json::json!({
        "receiver": rules.receiver.as_str(),
        "kind": rules.kind.name(),
        "body": body,
    });
    out::write(out, &format!("{line}\n"))
}
