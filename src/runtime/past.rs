//! A record in the place of a cluster: its observations go to the same store, on the record's own clock.

use std::sync::Arc;
use std::time::Duration;

use model::base::{Moment, Name};
use model::fleet::history::window_start;
use record::{Archive, Player, RecordFault, Said, Step};
use table::changes::Changes;
use table::silence::Silences;
use table::{Facts, Scope};

use super::silence;
use super::store::{Rules, Store};

/// About as far apart are the pictures that were judged when it was recorded.
const PICTURE: Duration = Duration::from_secs(9);

/// Pictures of a record that lie further apart have a gap between them.
const GAP: Duration = Duration::from_secs(60);

/// So many devices, picture for picture, are looked through to find when something changed: well below a second.
const WAY: u64 = 100_000;

/// So much of a record is gone through before it is asked whether to go on.
const STRETCH: Duration = Duration::from_secs(15 * 60);

/// Feeds a store what a record says.
pub(super) struct Replay {
    store: Store,
    player: Player,
    /// The moment of the keyframe that it began at.
    begun: Moment,
    /// The log of what was done with findings.
    silences: String,
}

impl Replay {
    /// A store as it was at `at`.
    pub(super) fn open(archive: &Archive, rules: Rules, at: Moment) -> Result<Self, RecordFault> {
        let mut replay = Self::at_keyframe(archive, rules, at)?;
        replay.go(at)?;
        Ok(replay)
    }

    /// A store as it was at the last keyframe at or before `at`.
    fn at_keyframe(archive: &Archive, rules: Rules, at: Moment) -> Result<Self, RecordFault> {
        let (keyframe, player) = archive.seek(at)?;
        let begun = keyframe.at;
        let mut store = Store::new(rules);
        store.restore(keyframe);
        Ok(Self {
            store,
            player,
            begun,
            silences: silence::log_of(archive.folder()),
        })
    }

    /// The facts as of `at`, to which it has come.
    pub(super) fn facts(&mut self, at: Moment) -> Facts {
        Facts {
            silences: Arc::new(Silences::by_log(&self.silences, at)),
            ..stamped(self.store.publish(at))
        }
    }

    /// Goes on in the same record with what was written since; false where it no longer holds what is read.
    pub(super) fn follow(&mut self, archive: &Archive) -> bool {
        self.player.follow(archive)
    }

    /// Goes on to `at`.
    pub(super) fn go(&mut self, at: Moment) -> Result<(), RecordFault> {
        self.advance(at, Store::pass)
    }

    /// Goes on to `at`, and hands over each picture on the way whose checks are run: at the moments at which they were when it
    /// was recorded.
    pub(super) fn look(
        &mut self,
        at: Moment,
        mut see: impl FnMut(Facts),
    ) -> Result<(), RecordFault> {
        self.advance(at, |store, at| see(store.publish(at)))
    }

    /// Goes on to `at`; `judge` runs the checks at a moment.
    fn advance(
        &mut self,
        at: Moment,
        mut judge: impl FnMut(&mut Store, Moment),
    ) -> Result<(), RecordFault> {
        let store = &mut self.store;
        self.player.until(at, |step| match step {
            Step::Entry((_, Said::Seen(observation))) => {
                store.apply(*observation);
            }
            Step::Entry((at, Said::Judged)) => judge(store, at),
            Step::Restart(keyframe) => store.restore(*keyframe),
        })
    }
}

/// A picture of a record says so, and of when it is, where the screen names the context.
fn stamped(facts: Facts) -> Facts {
    Facts {
        context: Name::from(format!("record {} {}", facts.now.short(), facts.context)),
        ..facts
    }
}

/// The facts as they were at `at`.
///
/// # Errors
/// The record cannot be read, or has nothing of that moment.
pub fn facts_at(archive: &Archive, rules: Rules, at: Moment) -> Result<Facts, RecordFault> {
    let mut replay = Replay::open(archive, rules, at)?;
    Ok(replay.facts(at))
}

/// The facts as they were at `at`, with history of what a profile looks back on.
///
/// # Errors
/// The record cannot be read, or has nothing of that moment.
pub fn half_hour(archive: &Archive, rules: Rules, at: Moment) -> Result<Facts, RecordFault> {
    let from = window_start(at).minus(PICTURE).max(archive.start()).min(at);
    let mut replay = Replay::at_keyframe(archive, rules, from)?;
    replay.go(at)?;
    Ok(replay.facts(at))
}

/// Hands over the pictures of a record that were judged when it was recorded, from the last keyframe at or before `from` on, until
/// `see` says that it is enough.
///
/// # Errors
/// The record cannot be read.
pub(super) fn pictures(
    archive: &Archive,
    rules: Rules,
    from: Moment,
    mut see: impl FnMut(&Facts) -> bool,
) -> Result<(), RecordFault> {
    let mut replay = Replay::at_keyframe(archive, rules, from.max(archive.start()))?;
    // A keyframe is made of a picture that was judged.
    let mut at = replay.begun;
    let mut go_on = see(&replay.facts(at));
    let end = archive.end();
    while go_on && at < end {
        at = at.plus(STRETCH).min(end);
        replay.look(at, |facts| go_on = go_on && see(&facts))?;
    }
    Ok(())
}

/// What changed between two moments, of what `scope` has. Changes of which no object says when they were get the moment of the
/// first picture that shows them, where the way is short enough to make every picture in between.
///
/// # Errors
/// The record cannot be read, or has nothing of the earlier moment.
pub fn changes(
    archive: &Archive,
    rules: &Rules,
    from: Moment,
    to: Moment,
    scope: &Scope,
) -> Result<Changes, RecordFault> {
    // The past of a moment is not compared: on the way to it the checks are run, and no picture is made.
    let seek = |at| {
        let mut replay = Replay::at_keyframe(archive, rules.clone(), at)?;
        replay.advance(at, Store::judge)?;
        Ok::<_, RecordFault>((replay.facts(at), replay))
    };
    // Each is a keyframe and every picture since: on a large fleet a second.
    let (before, after) = std::thread::scope(|threads| {
        let before = threads.spawn(|| seek(from));
        let after = seek(to);
        (before.join(), after)
    });
    let before = before.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    let ((before, mut replay), (after, _)) = (before?, after?);
    let mut changes = Changes::between(&before.scoped(scope), &after.scoped(scope));
    for at in [from, to] {
        if let Some((begin, end)) = archive.gap_at(at) {
            changes.notes.push(format!(
                "nothing was recorded from {} to {}: the state at {} is the last one before that",
                begin.rfc3339(),
                end.rfc3339(),
                at.rfc3339()
            ));
        }
    }
    let devices = after.fleet.devices().count().max(1) as u64;
    let pictures = to.since(from).millis() / PICTURE.as_millis() as u64;
    if !changes.is_undated() || pictures.saturating_mul(devices) > WAY {
        return Ok(changes);
    }
    let undated = changes.undated();
    let mut last = before;
    replay.look(to, |facts| {
        // The moment of a change within a gap is unknown.
        if facts.now.since(last.now) < GAP.into() {
            changes.date(&Changes::between(&last, &facts), &undated);
        }
        last = facts;
    })?;
    Ok(changes.dated())
}
