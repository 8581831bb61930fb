//! `watch`: sends findings to the receivers of the settings, until it is stopped.

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
use crate::runtime::record_metrics::RecordMetrics;
use crate::runtime::session::{self, Session};
use crate::runtime::usage_facts::{self, UsageReader};
use crate::runtime::watch::{self, Delivers, WatchInputs, Watcher};
use crate::runtime::watch_metrics::ServedWatch;
use crate::runtime::watch_state::{self, WatchState};
use crate::runtime::{silence, status_server};

use super::display_options;
use super::listen;
use super::out;
use super::setup::{self, FactsSource, Situation};
use super::simulated::FleetFlags;

/// What to watch, and where to say how it goes.
#[derive(Args, Clone, Debug)]
pub struct WatchFlags {
    /// The directory of the file that keeps what was sent to receivers; without it, one for the context in the state directory
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Answer /healthz, /readyz and /metrics there, over plain HTTP: 127.0.0.1:9844, or :9844 for all interfaces
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = listen::address)]
    listen: Option<SocketAddr>,
    /// Of several watchers, only the holder of this Lease sends: stokehold/watch. Needs --write, and writes nothing else
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
    at: &Situation,
    flags: &WatchFlags,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Exit, Failure> {
    if !flags.demo && flags.fleet != FleetFlags::default() {
        let message = "watch: --nodes, --devices, --seed, --speed and --at are of the simulated fleet; add --demo";
        return Err(Failure::new(Exit::Usage, message));
    }
    let prints = flags.dry_run || flags.demo;
    if !prints {
        has_receiver(at, "see with --dry-run what would be sent")?;
    }
    at.host.block_on(async {
        let setup = at.setup(true);
        let listener = match flags.listen {
            Some(address) => Some(status_server::listen(address).await?),
            None => None,
        };
        let (session, cluster) = session::watch(&setup, at.target()?, watch::PACE).await?;
        let common = RecordMetrics::common(&at.settings, &session.context);
        let name = common[0].1.clone();
        let mut receivers = watch::receivers(&at.settings, &name);
        if receivers.is_empty() {
            receivers.push(printed(name));
        }
        let inputs = inputs(at, &session);
        let (state, saved, news) = match prints {
            true => (None, Vec::new(), None),
            false => {
                let folder = flags.dir.clone();
                let folder = folder.or_else(|| watch_state::place(&at.settings, &session.context));
                let folder = folder.ok_or_else(|| {
                    let message =
                        "there is no home directory for the list of sent messages: give one (--dir)";
                    Failure::new(Exit::Usage, message)
                })?;
                let (state, saved, news) = WatchState::open(&folder, &cluster, &session.context)?;
                (Some(state), saved, news)
            }
        };
        let names: Vec<String> = receivers
            .iter()
            .map(|(rules, _)| format!("{} ({})", rules.receiver, rules.kind.name()))
            .collect();
        let does = match prints {
            true => "prints what it would send to",
            false => "sends findings to",
        };
        let words = format!(
            "watching {}: {does} {}; ctrl-c ends it\n",
            session.context,
            names.join(", ")
        );
        // With printed messages, standard output has nothing else.
        match prints {
            true => out::print_message(err, words.trim()),
            false => out::write(out, &words)?,
        }
        if let Some(address) = listener.as_ref().and_then(|known| known.local_addr().ok()) {
            let words = format!("answers http://{address}/healthz, /readyz and /metrics\n");
            match prints {
                true => out::print_message(err, words.trim()),
                false => out::write(out, &words)?,
            }
        }
        let delivers = match prints {
            true => Delivers::Prints(Box::new(|rules, body| print(out, rules, body))),
            false => Delivers::Sends(Arc::new(Notifier::default())),
        };
        let mut watcher = Watcher::new(inputs, delivers, receivers, state);
        for words in news.into_iter().chain(watcher.restore(saved)) {
            out::print_message(err, &words);
        }
        let elector = match (&flags.lease, &at.target) {
            (Some(lease), FactsSource::Cluster(choice)) => {
                let context = &session.context.as_str().into();
                let choice = choice.clone();
                let held = election::elector(&at.host, &at.settings, choice, context, lease.clone())?;
                watcher = watcher.led(held.lead());
                Some(held)
            }
            _ => None,
        };
        let served = Arc::new(ServedWatch {
            status: watcher.status(),
            common: common.into_iter().take(1).collect(),
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
/// The settings have no receiver; `else_do` is what else can be done.
pub(super) fn has_receiver(at: &Situation, else_do: &str) -> Result<(), Failure> {
    match at.settings.notify.is_empty() {
        true => {
            let message =
                format!("there is no receiver: add a [[notify]] to the settings, or {else_do}");
            Err(Failure::new(Exit::Usage, message))
        }
        false => Ok(()),
    }
}

/// A watcher beside a recorder, which keeps its sent messages in the record's directory.
///
/// # Errors
/// The file cannot be kept there.
pub(super) fn beside(
    at: &Situation,
    session: &Session,
    folder: &Path,
    err: &mut dyn Write,
) -> Result<Watcher<'static>, Failure> {
    if at.settings.notify.is_empty() {
        let message =
            "there is no receiver: add a [[notify]] to the settings, or leave --notify out";
        return Err(Failure::new(Exit::Usage, message));
    }
    let common = RecordMetrics::common(&at.settings, &session.context);
    let receivers = watch::receivers(&at.settings, &common[0].1);
    // The recorder made sure that the directory is this cluster's.
    let (state, saved, news) = WatchState::open(&folder.join("watch"), "", &session.context)?;
    let delivers = Delivers::Sends(Arc::new(Notifier::default()));
    let mut watcher = Watcher::new(inputs(at, session), delivers, receivers, Some(state));
    for words in news.into_iter().chain(watcher.restore(saved)) {
        out::print_message(err, &words);
    }
    Ok(watcher)
}

/// The inputs of a watcher in a session.
pub(super) fn inputs(at: &Situation, session: &Session) -> WatchInputs {
    let is_cluster = matches!(at.target, FactsSource::Cluster(_));
    let usage = match is_cluster && !at.settings.budget.is_empty() {
        true => {
            let reader = UsageReader::new(&at.host, &at.settings, &session.context).of_budgets();
            usage_facts::followed(reader, session.clock.clone())
        }
        false => session.usage.clone(),
    };
    WatchInputs {
        facts: session.facts.clone(),
        usage,
        clock: session.clock.clone(),
        scope: display_options::scope(&at.settings),
        thresholds: Arc::clone(&at.rulebook.thresholds),
        silences: silence::place(&at.settings).filter(|_| is_cluster),
    }
}

/// The receiver that is printed for where the settings have none.
fn printed(cluster: String) -> watch::Receiver {
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

/// Prints a message in the place of sending it.
fn print(out: &mut dyn Write, rules: &DeliveryRules, body: &str) -> Result<(), Failure> {
    let body: Option<&RawValue> = serde_json::from_str(body).ok();
    let line = serde_json::json!({
        "receiver": rules.receiver.as_str(),
        "kind": rules.kind.name(),
        "body": body,
    });
    out::write(out, &format!("{line}\n"))
}
