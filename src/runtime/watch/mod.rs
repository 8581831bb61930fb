//! Loop of `watch`: snapshots in, messages to receivers out. A failing receiver delays no other: each has at most one message in
//! flight, on a task of its own, and its next message is built after the outcome of that one.

pub mod metrics;
pub mod state;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout_at};

use exec::blocking;
use exec::lease::Lead;
use model::base::quantities::counted;
use model::base::{Exit, Failure};
use model::fleet::Fleet;
use model::fleet::thresholds::Thresholds;
use model::notify::ReceiverKind;
use settings::{NotifySettings, Settings};
use source::notify::{Notifier, NotifyEndpoint};
use source::post::PostOutcome;
use source::scrape::Endpoint;
use table::notify::{Beat, CurrentAlerts, Delivery, DeliveryCounts, DeliveryRules, SendOutcome};
use table::spend::UsageFacts;
use table::{Facts, Scope};

use super::clock::SessionClock;
use super::exporter_answers::{has_found_all, readings};
use super::identity::random_identity;
use super::silence;
use super::watch::metrics::WatchStatus;
use super::watch::state::DeliveryState;

/// Interval between snapshots: a finding is sent within five seconds.
pub const SNAPSHOT_INTERVAL: Duration = Duration::from_secs(1);
/// How often due messages are looked for.
const TICK: Duration = Duration::from_millis(500);
/// Longest wait for exporters at startup, and then for the checks to evaluate their readings: before that, one fault may look like another.
const SETTLES: Duration = Duration::from_secs(30);
const JUDGED: Duration = Duration::from_secs(3);
/// A process that does not lead assumes that the leader has sent findings this old; younger ones may have been unsent when it failed.
const FOLLOWS: Duration = Duration::from_secs(20);
/// Longest wait for messages in flight at the end.
const LAST: Duration = Duration::from_secs(5);

/// A receiver of the settings: its delivery rules and endpoint.
pub type Receiver = (DeliveryRules, NotifyEndpoint);

pub fn receivers(settings: &Settings, cluster: &str) -> Vec<Receiver> {
    let one = |own: &NotifySettings| {
        let rules = DeliveryRules {
            receiver: own.name.as_str().into(),
            kind: own.kind,
            filter: own.filter.clone(),
            cluster: cluster.to_owned(),
        };
        let endpoint = NotifyEndpoint {
            endpoint: Endpoint {
                name: own.name.clone(),
                url: own.url.clone().unwrap_or_default(),
                bearer_file: own.token_file.clone(),
                ca_file: own.ca_file.clone(),
                ..Endpoint::default()
            },
            url_file: own.url_file.clone(),
            path: match own.kind {
                ReceiverKind::Alertmanager => "/api/v2/alerts",
                ReceiverKind::Slack | ReceiverKind::Webhook => "",
            },
            timeout: own.timeout,
        };
        (rules, endpoint)
    };
    settings.notify.iter().map(one).collect()
}

/// Prints the body of a message to a receiver.
pub type PrintMessage<'p> = dyn FnMut(&DeliveryRules, &str) -> Result<(), Failure> + 'p;

pub enum Delivers<'p> {
    Sends(Arc<Notifier>),
    /// To standard output, with the name of the receiver.
    Prints(Box<PrintMessage<'p>>),
}

/// Inputs of the loop.
pub struct WatchInputs {
    pub facts: watch::Receiver<Option<Arc<Facts>>>,
    /// States of the budgets.
    pub usage: watch::Receiver<Arc<UsageFacts>>,
    /// The clock of the cluster.
    pub clock: SessionClock,
    /// Scope of the findings that are sent.
    pub scope: Scope,
    pub thresholds: Arc<Thresholds>,
    /// File of silenced and acknowledged findings of this machine.
    pub silences: Option<PathBuf>,
}

/// Index of a receiver in the settings, and the outcome of its message.
type Outcome = (usize, PostOutcome);

/// Delivers findings to receivers, and keeps what was sent.
pub struct Watcher<'p> {
    inputs: WatchInputs,
    delivers: Delivers<'p>,
    receivers: Vec<(Delivery, NotifyEndpoint, ReceiverNews)>,
    state: Option<DeliveryState>,
    status: watch::Sender<WatchStatus>,
    sends: JoinSet<()>,
    outcomes: (mpsc::Sender<Outcome>, mpsc::Receiver<Outcome>),
    begun: Instant,
    /// When all exporters had been read for the first time.
    read: Option<Instant>,
    /// Leader election; see [`Lead`].
    lead: Lead,
    /// Recent standings, while another process leads.
    followed: VecDeque<(Instant, CurrentAlerts)>,
}

/// Messages about a receiver: when it begins to fail, and when it works again.
#[derive(Default)]
struct ReceiverNews {
    fails: bool,
}

impl ReceiverNews {
    fn of(&mut self, receiver: &str, counts: &DeliveryCounts) -> Option<String> {
        match (&counts.fault, self.fails) {
            (Some(why), false) => {
                self.fails = true;
                Some(format!(
                    "receiver {receiver} fails: {why}; it is tried again, other receivers are not affected"
                ))
            }
            (None, true) => {
                self.fails = false;
                Some(format!("receiver {receiver} works again"))
            }
            _ => None,
        }
    }
}

impl<'p> Watcher<'p> {
    /// A watcher for these receivers, with the file of what was sent. Must be called within a tokio runtime.
    pub fn new(
        inputs: WatchInputs,
        delivers: Delivers<'p>,
        receivers: Vec<Receiver>,
        state: Option<DeliveryState>,
    ) -> Self {
        let receivers = receivers
            .into_iter()
            .map(|(rules, endpoint)| (Delivery::new(rules), endpoint, ReceiverNews::default()));
        Self {
            inputs,
            delivers,
            receivers: receivers.collect(),
            status: watch::Sender::new(WatchStatus {
                keeps_state: state.is_some(),
                ..WatchStatus::default()
            }),
            state,
            sends: JoinSet::new(),
            outcomes: mpsc::channel(64),
            begun: Instant::now(),
            read: None,
            lead: Lead::default(),
            followed: VecDeque::new(),
        }
    }

    /// A watcher that sends only while it leads.
    #[must_use]
    pub fn only_while_leading(self, lead: Lead) -> Self {
        Self { lead, ..self }
    }

    /// Restores the saved delivery state; returns messages for the log.
    pub fn restore(&mut self, saved: Vec<table::notify::SavedDelivery>) -> Vec<String> {
        let mut news = Vec::new();
        for saved in saved {
            let mut own = self.receivers.iter_mut();
            let known = own.find(|(delivery, ..)| delivery.rules().receiver == saved.receiver);
            let Some((delivery, ..)) = known else {
                continue;
            };
            let name = saved.receiver.clone();
            let unsure = delivery.restore(saved);
            if unsure > 0 {
                news.push(format!(
                    "receiver {name}: a message about {} was being sent when the last process ended; it may not have arrived and is not sent again",
                    counted(unsure as u64, "finding")
                ));
            }
        }
        news
    }

    /// The status, from now on.
    pub fn status(&self) -> watch::Receiver<WatchStatus> {
        self.status.subscribe()
    }

    fn beat(&self) -> Beat {
        Beat {
            now: self.inputs.clock.now(),
            up: self.begun.elapsed(),
        }
    }

    /// Delivers messages until `end` resolves; `say` gets a line when a receiver begins to fail and when it works again.
    ///
    /// # Errors
    /// Every source has ended, or printing failed.
    pub async fn run(
        mut self,
        end: impl Future<Output = ()>,
        say: &mut dyn FnMut(&str),
    ) -> Result<(), Failure> {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        tokio::pin!(end);
        loop {
            tokio::select! {
                () = &mut end => break,
                changed = self.inputs.facts.changed() => {
                    if changed.is_err() {
                        let message = "every source has ended; start again";
                        return Err(Failure::new(Exit::Unreachable, message));
                    }
                    self.look();
                }
                Some((at, outcome)) = self.outcomes.1.recv() => self.done(at, outcome, say),
                _ = ticks.tick() => {}
            }
            self.send(say)?;
            self.publish();
        }
        let last = Instant::now() + LAST;
        while self
            .receivers
            .iter()
            .any(|(delivery, ..)| delivery.is_busy())
        {
            let Ok(Some((at, outcome))) = timeout_at(last, self.outcomes.1.recv()).await else {
                break;
            };
            self.done(at, outcome, say);
        }
        self.keep(say);
        Ok(())
    }

    /// Takes the latest facts.
    fn look(&mut self) {
        let Some(facts) = self.inputs.facts.borrow_and_update().clone() else {
            return;
        };
        // Before the first lists are complete, a missing finding has not cleared.
        if !facts.fleet.is_complete() || !self.has_settled(&facts.fleet) {
            return;
        }
        let mut seen = (*facts).clone();
        let silences = silence::load(self.inputs.silences.as_deref(), &seen.context);
        seen.silences = Arc::new(silences);
        seen.take_usage(Arc::clone(&self.inputs.usage.borrow()));
        let seen = seen.scoped(&self.inputs.scope);
        let standing = CurrentAlerts::of(&seen);
        match self.lead.leads() {
            true => {
                // What stood while the other process was still leading counts as sent; newer findings are sent now.
                if let Some((_, first)) = self.followed.pop_front() {
                    self.mark_all_sent(&first);
                    self.followed.clear();
                }
                self.update(&standing);
            }
            false => {
                self.followed.push_back((Instant::now(), standing));
                while let Some((_, old)) = self
                    .followed
                    .pop_front_if(|(at, _)| at.elapsed() >= FOLLOWS)
                {
                    self.mark_all_sent(&old);
                }
            }
        }
        self.status.send_modify(|status| {
            status.facts = Some((Arc::new(seen), Instant::now()));
        });
    }

    fn update(&mut self, standing: &CurrentAlerts) {
        let beat = self.beat();
        let thresholds = &self.inputs.thresholds;
        for (delivery, ..) in &mut self.receivers {
            delivery.update(beat, standing, |code| hold_duration(thresholds, code));
        }
    }

    fn mark_all_sent(&mut self, standing: &CurrentAlerts) {
        self.update(standing);
        let beat = self.beat();
        for (delivery, ..) in &mut self.receivers {
            delivery.mark_all_sent(beat);
        }
    }

    /// True once all exporters have answered or failed and the checks have evaluated them.
    fn has_settled(&mut self, fleet: &Fleet) -> bool {
        let (answered, all) = readings(fleet);
        let is_read = has_found_all(fleet) && answered == all;
        if self.read.is_none() && (is_read || self.begun.elapsed() >= SETTLES) {
            self.read = Some(Instant::now());
        }
        self.read.is_some_and(|at| at.elapsed() >= JUDGED)
    }

    /// Sends the due messages.
    fn send(&mut self, say: &mut dyn FnMut(&str)) -> Result<(), Failure> {
        let beat = self.beat();
        let mut due = Vec::new();
        if self.lead.leads() {
            for (at, (delivery, ..)) in self.receivers.iter_mut().enumerate() {
                if let Some(message) = delivery.next(beat) {
                    due.push((at, message.body));
                }
            }
        }
        // State is saved before sending: a process killed in between does not send twice.
        self.keep(say);
        for (at, body) in due {
            let (delivery, endpoint, _) = &mut self.receivers[at];
            match &mut self.delivers {
                Delivers::Prints(print) => {
                    print(delivery.rules(), &body)?;
                    delivery.done(beat, SendOutcome::Sent, 0.0);
                }
                Delivers::Sends(notifier) => {
                    let (notifier, endpoint) = (Arc::clone(notifier), endpoint.clone());
                    let outcomes = self.outcomes.0.clone();
                    self.sends.spawn(async move {
                        let outcome = notifier.send(&endpoint, body).await;
                        let _ = outcomes.send((at, outcome)).await;
                    });
                }
            }
        }
        while self.sends.try_join_next().is_some() {}
        Ok(())
    }

    fn done(&mut self, at: usize, outcome: PostOutcome, say: &mut dyn FnMut(&str)) {
        let beat = self.beat();
        // Jitter, so that receivers that failed together are not retried together.
        let jitter = random_identity() as f64 / u64::MAX as f64;
        let (delivery, _, news) = &mut self.receivers[at];
        let outcome = match outcome {
            PostOutcome::Taken => SendOutcome::Sent,
            PostOutcome::Again(after, why) => SendOutcome::Again(after, why),
            PostOutcome::Rejected(why) => SendOutcome::Refused(why),
        };
        delivery.done(beat, outcome, jitter);
        if let Some(words) = news.of(&delivery.rules().receiver, &delivery.counts()) {
            say(&words);
        }
        self.keep(say);
    }

    /// Saves the delivery state, where it has changed.
    fn keep(&mut self, say: &mut dyn FnMut(&str)) {
        let mut changed = false;
        for (delivery, ..) in &mut self.receivers {
            changed |= delivery.has_changed();
        }
        let Some(state) = self.state.as_ref().filter(|_| changed) else {
            return;
        };
        let all = self.receivers.iter().map(|(delivery, ..)| delivery.saved());
        let saved = all.collect();
        let fault = blocking(|| state.write(saved)).err();
        let had = self.status.borrow().state_fault.is_some();
        match &fault {
            Some(why) if !had => say(&format!(
                "{why}; messages are still sent, and sent again after a restart"
            )),
            None if had => say("the list of sent messages is kept again"),
            _ => {}
        }
        self.status.send_modify(|status| status.state_fault = fault);
    }

    fn publish(&self) {
        let all = self.receivers.iter();
        let counts: Vec<(DeliveryRules, DeliveryCounts)> = all
            .map(|(delivery, ..)| (delivery.rules().clone(), delivery.counts()))
            .collect();
        let leads = self.lead.leads_if_elected();
        self.status.send_if_modified(|status| {
            let differs = status.receivers != counts || status.leads != leads;
            (status.receivers, status.leads) = (counts, leads);
            differs
        });
    }
}

/// How long a finding with this code takes to fire again after a restart: its check's `for`, plus the window of counting checks.
fn hold_duration(thresholds: &Thresholds, code: &str) -> Duration {
    match code {
        "ecc-uncorrected" | "under-used" => {
            let rule = thresholds.rule(code);
            rule.hold + rule.window
        }
        code if code.starts_with("xid-") => thresholds.rule("xid").hold,
        code => thresholds.rule(code).hold,
    }
}
