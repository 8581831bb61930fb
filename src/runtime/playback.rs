//! The task that plays a record: it goes where it is told to, plays on from there, and looks through the record beside that for
//! what matters.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use model::base::quantities::counted;
use model::base::{Moment, Name};
use record::{Archive, KEYFRAMES, RecordFault};
use table::Facts;
use table::changes::Changes;
use table::timeline::{Playback, Timeline};

use super::clock::ClockHands;
use super::past::{Replay, changes, facts_at};
use super::scanner::{Aim, Marks, ScannedPart, Scanner, Search, windows};
use super::store::Rules;

/// While a record is played, pictures are this far apart.
const PACE: Duration = Duration::from_millis(250);

/// So often it is looked whether more was written.
const GROWTH: Duration = Duration::from_secs(5);

/// So often a record that grows is looked through anew from its last keyframe on.
const RESCAN: Duration = Duration::from_secs(30);

/// What the console is told of a replay.
#[derive(Debug)]
pub enum ReplayEvent {
    /// How it stands.
    Timeline(Timeline),
    /// What could not be done, and why.
    Said(String),
    /// What came of the comparison of this name.
    Changes(Name, Result<Changes, String>),
}

/// The other end of a replay: moves it, and tells how it stands.
pub struct ReplayControl {
    /// How it stood when it began.
    pub timeline: Timeline,
    commands: mpsc::UnboundedSender<Playback>,
    events: mpsc::UnboundedReceiver<ReplayEvent>,
}

impl ReplayControl {
    /// Moves it.
    pub fn send(&self, playback: Playback) {
        // The task ends with the session alone, and this with it.
        let _ = self.commands.send(playback);
    }

    /// What comes next of it; never again once it has ended.
    pub async fn next(&mut self) -> ReplayEvent {
        match self.events.recv().await {
            Some(event) => event,
            None => std::future::pending().await,
        }
    }
}

/// Plays a record from `at` on, `speed` seconds of it a second; 0 stands still. Must be called within a tokio runtime, on
/// a thread that may block.
///
/// # Errors
/// The record cannot be read, or has nothing of that moment.
pub(super) fn play(
    archive: Archive,
    rules: Rules,
    at: Moment,
    speed: f64,
    hands: ClockHands,
    out: watch::Sender<Option<Arc<Facts>>>,
) -> Result<(JoinHandle<()>, ReplayControl), RecordFault> {
    let first = facts_at(&archive, rules.clone(), at)?;
    hands.set(at);
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
            hands,
            out,
            say,
            aim,
            at,
            since: (Instant::now(), at),
            // What is played without a speed of its own is played as it was.
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

/// What plays.
struct PlaybackTask {
    archive: Archive,
    rules: Rules,
    /// The store that stands at `at`; opened when it is first needed.
    replay: Option<Replay>,
    hands: ClockHands,
    out: watch::Sender<Option<Arc<Facts>>>,
    say: mpsc::UnboundedSender<ReplayEvent>,
    aim: watch::Sender<Aim>,
    at: Moment,
    /// When it was last begun to play, and from where.
    since: (Instant, Moment),
    speed: f64,
    timeline: Timeline,
    marks: Marks,
    /// When a scanner was last set to work.
    scanned_at: Instant,
    /// A jump that waits until the way is looked through: in which direction.
    search: Option<bool>,
}

impl PlaybackTask {
    /// Sets a scanner to the parts that are not known; what it finds comes through the channel, and it ends with that.
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
        let handle = tokio::runtime::Handle::current();
        tokio::task::spawn_blocking(move || scanner.run(&handle));
        marks
    }

    /// Takes what was written since the record was last looked at; true where there is more.
    fn grow(&mut self) -> bool {
        let grown = tokio::task::block_in_place(|| self.archive.grown());
        let archive = match grown {
            Ok(Some(archive)) => archive,
            Ok(None) => return false,
            Err(fault) => {
                // What was read of it stays.
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
        self.tell();
        true
    }

    /// Sets a scanner to the parts that are new: what is known of the others stays.
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
        self.tell();
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
                        // Of several places to go to that wait, only the last is gone to.
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
                    self.tell();
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
                    // The last part grows with the record, and is looked through anew each time.
                    let behind = self.marks.end() < self.timeline.to;
                    if behind && self.scanned_at.elapsed() >= RESCAN {
                        marks = self.scan_again();
                    }
                }
            }
        }
    }

    fn tell(&self) {
        // The receiver is gone: the task ends at the next select.
        let _ = self.say.send(ReplayEvent::Timeline(self.timeline.clone()));
    }

    fn say(&self, words: String) {
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
                // It may take a second, and the record is played on meanwhile.
                tokio::task::spawn_blocking(move || {
                    let told = changes(&archive, &rules, from, to, &scope);
                    let told = told.map_err(|fault| fault.to_string());
                    let _ = say.send(ReplayEvent::Changes(name, told));
                });
            }
            Playback::Toggle => {
                let playing = self.timeline.speed.take();
                if playing.is_none() {
                    if self.at >= self.timeline.to && !self.grow() {
                        self.say("this is the end of the record".to_owned());
                        return;
                    }
                    self.timeline.speed = Some(self.speed);
                    self.since = (Instant::now(), self.at);
                }
                self.tell();
            }
        }
    }

    /// Goes to the next change that matters, or waits until the way there is looked through.
    fn jump(&mut self, forward: bool) {
        let found = self.marks.search(self.at, forward);
        let is_new = self.search.is_none();
        self.search = (found == Search::Open).then_some(forward);
        match found {
            Search::Found(at) => self.go(at),
            Search::Open => {
                if is_new {
                    self.say("scanning the record for the change".to_owned());
                }
                self.aim.send_replace(Aim {
                    at: self.at,
                    search: Some(forward),
                });
            }
            Search::None => {
                let way = if forward { "later" } else { "earlier" };
                let unreadable = match self.marks.unreadable() {
                    0 => String::new(),
                    parts => format!("; {} of it cannot be read", counted(parts, "part")),
                };
                self.say(format!(
                    "no {way} change in the record: no finding, drain, preemption, lost node, job start or end{unreadable}"
                ));
                self.aim.send_replace(Aim {
                    at: self.at,
                    search: None,
                });
            }
        }
    }

    /// Goes to a moment, and plays on from there where it plays.
    fn go(&mut self, at: Moment) {
        if at > self.timeline.to {
            self.grow();
        }
        let at = at.max(self.timeline.from).min(self.timeline.to);
        self.since = (Instant::now(), at);
        self.aim.send_replace(Aim { at, search: None });
        self.show(at);
    }

    /// Goes on as far as time has gone on.
    fn play(&mut self) {
        let (begun, from) = self.since;
        let played = begun.elapsed().as_secs_f64() * self.speed;
        let to = from.plus(Duration::from_secs_f64(played.clamp(0.0, 1e12)));
        if to >= self.timeline.to {
            // What is recorded still may have gone on.
            self.grow();
        }
        if to >= self.timeline.to {
            self.timeline.speed = None;
            self.tell();
        }
        self.show(to.min(self.timeline.to));
    }

    /// Shows a moment: goes on to it where it is near, else begins at the keyframe before it.
    fn show(&mut self, at: Moment) {
        let near = at >= self.at && at.since(self.at) <= KEYFRAMES.into();
        let replay = self.replay.take().filter(|_| near);
        let shown = tokio::task::block_in_place(|| {
            let mut replay = match replay {
                Some(mut replay) => {
                    replay.go(at)?;
                    replay
                }
                None => Replay::open(&self.archive, self.rules.clone(), at)?,
            };
            Ok::<_, RecordFault>((replay.facts(at), replay))
        });
        match shown {
            Ok((facts, replay)) => {
                self.at = at;
                self.replay = Some(replay);
                self.hands.set(at);
                self.out.send_replace(Some(Arc::new(facts)));
            }
            Err(fault) => {
                tracing::error!(%fault, "the record cannot be read there");
                self.timeline.speed = None;
                self.tell();
                // What was shown last stays.
                self.say(fault.to_string());
            }
        }
    }
}
