//! The task that plays a record: it goes where it is told to, plays on from there, and looks through the record beside that for
//! what matters.

use std::collections::BTreeSet;
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
use table::timeline::{Mark, Playback, Timeline};

use super::clock::ClockHands;
use super::past::{Replay, changes, facts_at};
use super::store::Rules;

/// While a record is played, pictures are this far apart.
const PACE: Duration = Duration::from_millis(250);

/// The record is looked through for what matters so far from the moment on screen; further only when a jump needs it.
const AROUND: Duration = Duration::from_secs(12 * 3600);

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
    let archive = Arc::new(archive);
    let first = facts_at(&archive, rules.clone(), at)?;
    hands.set(at);
    out.send_replace(Some(Arc::new(first)));
    let (commands, orders) = mpsc::unbounded_channel();
    let (say, events) = mpsc::unbounded_channel();
    let task = tokio::spawn(async move {
        let (aim, aimed) = watch::channel(Aim { at, search: None });
        let windows = windows(&archive);
        let (found, marks) = mpsc::channel(4);
        let scanner = Scanner {
            archive: Arc::clone(&archive),
            rules: rules.clone(),
            windows: windows.clone(),
            aim: aimed,
            found,
        };
        let handle = tokio::runtime::Handle::current();
        tokio::task::spawn_blocking(move || scanner.run(&handle));
        let known = windows.iter().map(|_| None).collect();
        let timeline = Timeline {
            speed: (speed > 0.0 && at < archive.end()).then_some(speed),
            ..Timeline::new(archive.start(), archive.end())
        };
        let player = PlaybackTask {
            archive: &archive,
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
            search: None,
        };
        player.run(orders, marks).await;
    });
    let control = ReplayControl { commands, events };
    Ok((task, control))
}

/// The parts of a record between two keyframes, by time.
fn windows(archive: &Archive) -> Vec<(Moment, Moment)> {
    let keys = archive.keyframes();
    let ends = keys.iter().skip(1).copied().chain([archive.end()]);
    keys.iter().copied().zip(ends).collect()
}

/// The part in which a moment lies.
fn window_of(windows: &[(Moment, Moment)], at: Moment) -> usize {
    windows
        .partition_point(|(from, _)| *from <= at)
        .saturating_sub(1)
}

/// Where the record is looked through next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Aim {
    /// Nearest to here.
    at: Moment,
    /// Only later than that, or only earlier, and however far.
    search: Option<bool>,
}

/// Looks through a record for what matters, part by part, on a thread of its own.
struct Scanner {
    archive: Arc<Archive>,
    rules: Rules,
    windows: Vec<(Moment, Moment)>,
    aim: watch::Receiver<Aim>,
    found: mpsc::Sender<(usize, Result<Vec<Mark>, RecordFault>)>,
}

impl Scanner {
    fn run(mut self, handle: &tokio::runtime::Handle) {
        let mut done = BTreeSet::new();
        while !self.found.is_closed() {
            let aim = *self.aim.borrow_and_update();
            let Some(next) = next_window(&self.windows, &done, aim) else {
                if done.len() == self.windows.len() || handle.block_on(self.aim.changed()).is_err()
                {
                    return;
                }
                continue;
            };
            let begun = Instant::now();
            let marks = self.marks(self.windows[next]);
            done.insert(next);
            if self.found.blocking_send((next, marks)).is_err() {
                return;
            }
            // A background scan uses at most half of one core.
            if aim.search.is_none() {
                let (pause, changed) = (begun.elapsed(), self.aim.changed());
                let paused = async { tokio::time::timeout(pause, changed).await };
                if let Ok(Err(_)) = handle.block_on(paused) {
                    return;
                }
            }
        }
    }

    fn marks(&self, (from, to): (Moment, Moment)) -> Result<Vec<Mark>, RecordFault> {
        let mut replay = Replay::open(&self.archive, self.rules.clone(), from)?;
        let (mut last, mut marks) = (replay.facts(from), Vec::new());
        replay.look(to, |facts| {
            marks.extend(Mark::of(&Changes::between(&last, &facts)));
            last = facts;
        })?;
        Ok(marks)
    }
}

/// The part that is looked through next: the nearest one that was not, where it is asked for.
fn next_window(windows: &[(Moment, Moment)], done: &BTreeSet<usize>, aim: Aim) -> Option<usize> {
    let here = window_of(windows, aim.at);
    let wanted = |window: &usize| match aim.search {
        Some(true) => *window >= here,
        Some(false) => *window <= here,
        None => {
            let (from, to) = windows[*window];
            from.since(aim.at) < AROUND.into() && aim.at.since(to) < AROUND.into()
        }
    };
    let open = (0..windows.len()).filter(|window| !done.contains(window));
    // What comes is more often asked for than what was.
    open.filter(wanted)
        .min_by_key(|window| (window.abs_diff(here), *window < here))
}

/// What is known of the parts of a record.
struct Marks {
    windows: Vec<(Moment, Moment)>,
    /// Of each part, once it was scanned, what matters in it, or why it cannot be read.
    known: Vec<Option<Result<Vec<Mark>, RecordFault>>>,
}

/// What a search for a mark came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Search {
    Found(Moment),
    /// A part that lies on the way was not looked through yet.
    Open,
    None,
}

impl Marks {
    fn all(&self) -> Arc<[Mark]> {
        let readable = self.known.iter().flatten().flatten();
        readable.flatten().copied().collect()
    }

    /// How many parts cannot be read: what changed in them is not known.
    fn unreadable(&self) -> u64 {
        let scanned = self.known.iter().flatten();
        scanned.filter(|found| found.is_err()).count() as u64
    }

    /// The parts that are known, those that touch as one.
    fn looked(&self) -> Arc<[(Moment, Moment)]> {
        let mut out: Vec<(Moment, Moment)> = Vec::new();
        for ((from, to), known) in self.windows.iter().zip(&self.known) {
            match out.last_mut() {
                _ if !matches!(known, Some(Ok(_))) => {}
                Some(last) if last.1 == *from => last.1 = *to,
                _ => out.push((*from, *to)),
            }
        }
        out.into()
    }

    /// The next mark after a moment, or the last one before it.
    fn search(&self, from: Moment, forward: bool) -> Search {
        let here = window_of(&self.windows, from);
        let ahead: Vec<usize> = match forward {
            true => (here..self.known.len()).collect(),
            false => (0..=here).rev().collect(),
        };
        for window in ahead {
            let Some(Some(found)) = self.known.get(window) else {
                return if window < self.known.len() {
                    Search::Open
                } else {
                    Search::None
                };
            };
            let marks = found.as_deref().unwrap_or_default();
            let found = match forward {
                true => marks.iter().find(|mark| mark.at > from),
                false => marks.iter().rev().find(|mark| mark.at < from),
            };
            if let Some(mark) = found {
                return Search::Found(mark.at);
            }
        }
        Search::None
    }
}

/// What plays.
struct PlaybackTask<'a> {
    archive: &'a Arc<Archive>,
    rules: Rules,
    /// The store that stands at `at`; opened when it is first needed.
    replay: Option<Replay<'a>>,
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
    /// A jump that waits until the way is looked through: in which direction.
    search: Option<bool>,
}

impl PlaybackTask<'_> {
    async fn run(
        mut self,
        mut orders: mpsc::UnboundedReceiver<Playback>,
        mut marks: mpsc::Receiver<(usize, Result<Vec<Mark>, RecordFault>)>,
    ) {
        self.tell();
        let mut next = Instant::now() + PACE;
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
                let (archive, rules) = (Arc::clone(self.archive), self.rules.clone());
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
                    if self.at >= self.timeline.to {
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
                None => Replay::open(self.archive, self.rules.clone(), at)?,
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

#[cfg(test)]
mod tests {
    use model::fleet::finding::Severity;

    use super::*;

    fn at(minute: i64) -> Moment {
        Moment::from_seconds(minute * 60)
    }

    fn marks(known: Vec<Option<Vec<i64>>>) -> Marks {
        let windows = (0..known.len() as i64).map(|window| (at(window * 15), at(window * 15 + 15)));
        let mark = |minute: i64| Mark {
            at: at(minute),
            weight: Severity::Warn,
        };
        let of = |minutes: Vec<i64>| minutes.into_iter().map(mark).collect();
        Marks {
            windows: windows.collect(),
            known: known
                .into_iter()
                .map(|own| own.map(|minutes| Ok(of(minutes))))
                .collect(),
        }
    }

    #[test]
    fn the_next_mark_is_found_and_never_one_behind_a_part_that_is_not_known() {
        let known = marks(vec![
            Some(vec![3, 9]),
            Some(vec![]),
            Some(vec![40]),
            None,
            Some(vec![70]),
        ]);
        let search = |minute, forward| known.search(at(minute), forward);
        assert_eq!(search(0, true), Search::Found(at(3)));
        assert_eq!(search(3, true), Search::Found(at(9)));
        assert_eq!(search(9, true), Search::Found(at(40)));
        assert_eq!(search(40, true), Search::Open);
        assert_eq!(search(70, true), Search::None);
        assert_eq!(search(70, false), Search::Open);
        assert_eq!(search(40, false), Search::Found(at(9)));
        assert_eq!(search(3, false), Search::None);
        assert_eq!(&*known.looked(), &[(at(0), at(45)), (at(60), at(75))]);
        assert_eq!(marks(Vec::new()).search(at(1), true), Search::None);
    }

    #[test]
    fn the_nearest_part_is_looked_through_first_and_only_in_the_direction_of_a_search() {
        let windows = marks(vec![None, None, None, None]).windows;
        let order = |minute, search| {
            let aim = Aim {
                at: at(minute),
                search,
            };
            let mut done = BTreeSet::new();
            while let Some(next) = next_window(&windows, &done, aim) {
                done.insert(next);
            }
            (next_window(&windows, &BTreeSet::new(), aim), done.len())
        };
        assert_eq!(order(20, None), (Some(1), 4));
        assert_eq!(order(35, Some(true)), (Some(2), 2));
        assert_eq!(order(35, Some(false)), (Some(2), 3));
        let aim = Aim {
            at: at(20),
            search: None,
        };
        assert_eq!(next_window(&windows, &BTreeSet::from([1]), aim), Some(2));
        // Half a day away nothing is looked through unasked.
        assert_eq!(order(60 * 24, None), (None, 0));
        assert_eq!(order(60 * 24, Some(false)), (Some(3), 4));
    }
}
