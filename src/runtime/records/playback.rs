//! Playback task of a record: seeks, plays, and scans the record for events meanwhile.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use exec::blocking;
use model::base::quantities::counted;
use model::base::{Moment, Name};
use record::{Archive, KEYFRAMES, RecordFault};
use table::Facts;
use table::changes::FleetChanges;
use table::timeline::{Playback, Timeline};

use super::past::{RecordReplay, changes, facts_at};
use super::scanner::{Aim, MarkSearch, Marks, ScannedPart, Scanner, windows};
use crate::runtime::clock::ClockHands;
use crate::runtime::store::Rules;

/// Interval between snapshots while a record is played.
const PACE: Duration = Duration::from_millis(250);

/// How often the record is checked for new data.
const GROWTH: Duration = Duration::from_secs(5);

/// How often a growing record is scanned again from its last keyframe.
const RESCAN: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub enum ReplayEvent {
    /// The timeline: position, speed and marks.
    Timeline(Timeline),
    /// What failed, and why.
    Said(String),
    /// Result of the comparison of this name.
    Changes(Name, Result<FleetChanges, String>),
}

/// Controls a replay and receives its events.
pub struct ReplayControl {
    /// The timeline at the start.
    pub timeline: Timeline,
    commands: mpsc::UnboundedSender<Playback>,
    events: mpsc::UnboundedReceiver<ReplayEvent>,
}

impl ReplayControl {
    /// Sends a playback command.
    pub fn send(&self, playback: Playback) {
        // The task ends with the session only, as does this handle.
        let _ = self.commands.send(playback);
    }

    /// The next event; pends forever once the task has ended.
    pub async fn next(&mut self) -> ReplayEvent {
        match self.events.recv().await {
            Some(event) => event,
            None => std::future::pending().await,
        }
    }
}

/// Plays a record from `at` on, at `speed` seconds of the record per second; 0 pauses. Must be called within a tokio runtime, on
/// a thread that may block.
///
/// # Errors
/// The record cannot be read, or has no data at that time.
pub(crate) fn play(
    archive: Archive,
    rules: Rules,
    at: Moment,
    speed: f64,
    clock_setter: ClockHands,
    out: watch::Sender<Option<Arc<Facts>>>,
) -> Result<(JoinHandle<()>, ReplayControl), RecordFault> {
    let first = facts_at(&archive, rules.clone(), at)?;
    clock_setter.set(at);
    out.send_replace(Some(Arc::new(first)));
    let (commands, orders) = mpsc::unbounded_channel();
    let (say, events) = mpsc::unbounded_channel();
    let timeline = Timeline {
        speed: (speed > 0.0 && at < archive.end()).then_some(speed),
        ..Timeline::new(archive.start(), archive.end())
    };
    let begun = timeline.clone();
    let task = tokio::spawn(async move {
        let (aim, _) = watch::channel(Aim { at, search: None });
        let windows = windows(&archive);
        let known = windows.iter().map(|_| None).collect();
        let player = PlaybackTask {
            archive,
            rules,
            replay: None,
            clock_setter,
            out,
            say,
            aim,
            at,
            since: (Instant::now(), at),
            // Resumed without a speed, it plays at the recorded speed.
            speed: if speed > 0.0 { speed } else { 1.0 },
            timeline,
            marks: Marks { windows, known },
            scanned_at: Instant::now(),
            search: None,
        };
        let marks = player.scan();
        player.run(orders, marks).await;
    });
    let control = ReplayControl {
        timeline: begun,
        commands,
        events,
    };
    Ok((task, control))
}

struct PlaybackTask {
    archive: Archive,
    rules: Rules,
    /// The store at `at`; opened on first use.
    replay: Option<RecordReplay>,
    clock_setter: ClockHands,
    out: watch::Sender<Option<Arc<Facts>>>,
    say: mpsc::UnboundedSender<ReplayEvent>,
    aim: watch::Sender<Aim>,
    at: Moment,
    /// When playing began, and at which position.
    since: (Instant, Moment),
    speed: f64,
    timeline: Timeline,
    marks: Marks,
    /// When a scan was last started.
    scanned_at: Instant,
    /// A jump that waits until the record is scanned that far; true for forward.
    search: Option<bool>,
}

impl PlaybackTask {
    /// Starts a scan of the unknown parts; results come through the channel, which closes at the end.
    fn scan(&self) -> mpsc::Receiver<ScannedPart> {
        let (found, marks) = mpsc::channel(4);
        let known = self.marks.known.iter().enumerate();
        let scanner = Scanner {
            archive: self.archive.clone(),
            rules: self.rules.clone(),
            windows: self.marks.windows.clone(),
            done: known
                .filter_map(|(window, known)| known.is_some().then_some(window))
                .collect(),
            aim: self.aim.subscribe(),
            found,
        };
        tokio::spawn(scanner.run());
        marks
    }

    /// Reads what was appended to the record; true where there is more.
    fn grow(&mut self) -> bool {
        let grown = blocking(|| self.archive.grown());
        let archive = match grown {
            Ok(Some(archive)) => archive,
            Ok(None) => return false,
            Err(fault) => {
                // The data that was read stays.
                tracing::warn!(%fault, "the record cannot be read again");
                return false;
            }
        };
        self.replay = self
            .replay
            .take()
            .and_then(|mut replay| replay.follow(&archive).then_some(replay));
        (self.timeline.from, self.timeline.to) = (archive.start(), archive.end());
        self.archive = archive;
        self.publish();
        true
    }

    /// Starts a scan of the new parts; results of the others are kept.
    fn scan_again(&mut self) -> mpsc::Receiver<ScannedPart> {
        self.marks.cover(windows(&self.archive));
        self.scanned_at = Instant::now();
        self.scan()
    }

    async fn run(
        mut self,
        mut orders: mpsc::UnboundedReceiver<Playback>,
        mut marks: mpsc::Receiver<ScannedPart>,
    ) {
        self.publish();
        let mut next = Instant::now() + PACE;
        let mut look = Instant::now() + GROWTH;
        loop {
            let plays = self.timeline.speed.is_some();
            tokio::select! {
                biased;
                () = self.out.closed() => return,
                order = orders.recv() => {
                    let Some(order) = order else { return };
                    let mut all = vec![order];
                    while let Ok(order) = orders.try_recv() {
                        // Of several pending seeks, only the last is carried out.
                        if let (Some(Playback::Go(to)), Playback::Go(later)) = (all.last_mut(), &order) {
                            *to = *later;
                        } else {
                            all.push(order);
                        }
                    }
                    for order in all {
                        self.obey(order);
                    }
                }
                Some((window, found)) = marks.recv() => {
                    self.marks.known[window] = Some(found);
                    self.timeline.marks = self.marks.all();
                    self.timeline.looked = self.marks.looked();
                    self.publish();
                    if let Some(forward) = self.search {
                        self.jump(forward);
                    }
                }
                () = sleep_until(next), if plays => {
                    self.play();
                    next = Instant::now() + PACE;
                }
                () = sleep_until(look) => {
                    self.grow();
                    look = Instant::now() + GROWTH;
                    // The last part grows with the record and is scanned again each time.
                    let behind = self.marks.end() < self.timeline.to;
                    if behind && self.scanned_at.elapsed() >= RESCAN {
                        marks = self.scan_again();
                    }
                }
            }
        }
    }

    fn publish(&self) {
        // The receiver is gone: the task ends at the next select.
        let _ = self.say.send(ReplayEvent::Timeline(self.timeline.clone()));
    }

    fn send_message(&self, words: String) {
        let _ = self.say.send(ReplayEvent::Said(words));
    }

    fn obey(&mut self, order: Playback) {
        if matches!(order, Playback::Go(_) | Playback::Change { .. }) {
            self.search = None;
        }
        match order {
            Playback::Go(at) => self.go(at),
            Playback::Change { forward } => self.jump(forward),
            Playback::Compare {
                name,
                from,
                to,
                scope,
            } => {
                let (archive, rules) = (self.archive.clone(), self.rules.clone());
                let say = self.say.clone();
                // This may take a second; the record plays on meanwhile.
                tokio::task::spawn_blocking(move || {
                    let compared = changes(&archive, &rules, from, to, &scope);
                    let compared = compared.map_err(|fault| fault.to_string());
                    let _ = say.send(ReplayEvent::Changes(name, compared));
                });
            }
            Playback::Toggle => {
                let playing = self.timeline.speed.take();
                if playing.is_none() {
                    if self.at >= self.timeline.to && !self.grow() {
                        self.send_message("this is the end of the record".to_owned());
                        return;
                    }
                    self.timeline.speed = Some(self.speed);
                    self.since = (Instant::now(), self.at);
                }
                self.publish();
            }
        }
    }

    /// Seeks to the next event, or waits until the record is scanned that far.
    fn jump(&mut self, forward: bool) {
        let found = self.marks.search(self.at, forward);
        let is_new = self.search.is_none();
        self.search = (found == MarkSearch::Open).then_some(forward);
        match found {
            MarkSearch::Found(at) => self.go(at),
            MarkSearch::Open => {
                if is_new {
                    self.send_message("scanning the record for the change".to_owned());
                }
                self.aim.send_replace(Aim {
                    at: self.at,
                    search: Some(forward),
                });
            }
            MarkSearch::None => {
                let way = if forward { "later" } else { "earlier" };
                let unreadable = match self.marks.unreadable() {
                    0 => String::new(),
                    parts => format!("; {} cannot be read", counted(parts, "part")),
                };
                self.send_message(format!(
                    "no {way} change in the record: no finding, drain, preemption, lost node, job start or end{unreadable}"
                ));
                self.aim.send_replace(Aim {
                    at: self.at,
                    search: None,
                });
            }
        }
    }

    /// Seeks to a time, and continues to play from there if it was playing.
    fn go(&mut self, at: Moment) {
        if at > self.timeline.to {
            self.grow();
        }
        let at = at.max(self.timeline.from).min(self.timeline.to);
        self.since = (Instant::now(), at);
        self.aim.send_replace(Aim { at, search: None });
        self.show(at);
    }

    /// Advances by the time that has passed.
    fn play(&mut self) {
        let (begun, from) = self.since;
        let played = begun.elapsed().as_secs_f64() * self.speed;
        let to = from.plus(Duration::from_secs_f64(played.clamp(0.0, 1e12)));
        if to >= self.timeline.to {
            // The record may have grown.
            self.grow();
        }
        if to >= self.timeline.to {
            self.timeline.speed = None;
            self.publish();
        }
        self.show(to.min(self.timeline.to));
    }

    /// Shows a time: advances to it where it is near, else starts at the keyframe before it.
    fn show(&mut self, at: Moment) {
        let near = at >= self.at && at.since(self.at) <= KEYFRAMES.into();
        let replay = self.replay.take().filter(|_| near);
        let shown = blocking(|| {
            let mut replay = match replay {
                Some(mut replay) => {
                    replay.go(at)?;
                    replay
                }
                None => RecordReplay::open(&self.archive, self.rules.clone(), at)?,
            };
            Ok::<_, RecordFault>((replay.facts(at), replay))
        });
        match shown {
            Ok((facts, replay)) => {
                self.at = at;
                self.replay = Some(replay);
                self.clock_setter.set(at);
                self.out.send_replace(Some(Arc::new(facts)));
            }
            Err(fault) => {
                tracing::error!(%fault, "the record cannot be read there");
                self.timeline.speed = None;
                self.publish();
                // The last snapshot shown stays.
                self.send_message(fault.to_string());
            }
        }
    }
}
