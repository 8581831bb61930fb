//! Replay of a record: feeds its observations to a store, on the record's own clock.

use std::sync::Arc;
use std::time::Duration;

use model::base::{Moment, Name};
use model::fleet::history::window_start;
use record::{Archive, Player, RecordFault, RecordedEvent, ReplayStep};
use table::changes::FleetChanges;
use table::silence::Silences;
use table::{Facts, Scope};

use crate::runtime::silence;
use crate::runtime::store::{Rules, Store};

/// Approximate interval between the snapshots that were evaluated while recording.
const PICTURE: Duration = Duration::from_secs(9);

/// Snapshots of a record that are further apart have a gap between them.
const GAP: Duration = Duration::from_secs(60);

/// Most devices times snapshots that are searched for the time of a change: takes well below a second.
const WAY: u64 = 100_000;

/// How much of a record is read between two checks whether to continue.
const STRETCH: Duration = Duration::from_secs(15 * 60);

/// Feeds the observations of a record to a store.
pub(crate) struct RecordReplay {
    store: Store,
    player: Player,
    /// Time of the keyframe that it began at.
    begun: Moment,
    /// Log of the silences of findings.
    silences: String,
}

impl RecordReplay {
    /// A store as it was at `at`.
    pub(crate) fn open(archive: &Archive, rules: Rules, at: Moment) -> Result<Self, RecordFault> {
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

    /// The facts at `at`, which must be the current position.
    pub(crate) fn facts(&mut self, at: Moment) -> Facts {
        Facts {
            silences: Arc::new(Silences::by_log(&self.silences, at)),
            ..stamped(self.store.publish(at))
        }
    }

    /// Continues in the same record with what was appended; false where the record no longer contains the current position.
    pub(crate) fn follow(&mut self, archive: &Archive) -> bool {
        self.player.follow(archive)
    }

    pub(crate) fn go(&mut self, at: Moment) -> Result<(), RecordFault> {
        self.advance(at, Store::pass)
    }

    /// Advances to `at`, and calls `see` with each snapshot on the way that was evaluated while recording.
    pub(crate) fn look(
        &mut self,
        at: Moment,
        mut see: impl FnMut(Facts),
    ) -> Result<(), RecordFault> {
        self.advance(at, |store, at| see(store.publish(at)))
    }

    /// Advances to `at`; `judge` is called at the times when checks are run.
    fn advance(
        &mut self,
        at: Moment,
        mut judge: impl FnMut(&mut Store, Moment),
    ) -> Result<(), RecordFault> {
        let store = &mut self.store;
        self.player.until(at, |step| match step {
            ReplayStep::Entry((_, RecordedEvent::Seen(observation))) => {
                store.apply(*observation);
            }
            ReplayStep::Entry((at, RecordedEvent::Judged)) => judge(store, at),
            ReplayStep::Restart(keyframe) => store.restore(*keyframe),
        })
    }
}

/// Adds `record` and the time to the context name shown on screen.
fn stamped(facts: Facts) -> Facts {
    Facts {
        context: Name::from(format!("record {} {}", facts.now.short(), facts.context)),
        ..facts
    }
}

/// The facts at `at`.
///
/// # Errors
/// The record cannot be read, or has no data at that time.
pub fn facts_at(archive: &Archive, rules: Rules, at: Moment) -> Result<Facts, RecordFault> {
    let mut replay = RecordReplay::open(archive, rules, at)?;
    Ok(replay.facts(at))
}

/// The facts at `at`, with the history that a profile covers.
///
/// # Errors
/// The record cannot be read, or has no data at that time.
pub fn half_hour(archive: &Archive, rules: Rules, at: Moment) -> Result<Facts, RecordFault> {
    let from = window_start(at).minus(PICTURE).max(archive.start()).min(at);
    let mut replay = RecordReplay::at_keyframe(archive, rules, from)?;
    replay.go(at)?;
    Ok(replay.facts(at))
}

/// Calls `see` with the snapshots of a record that were evaluated while recording, from the last keyframe at or before `from`,
/// until `see` returns false.
///
/// # Errors
/// The record cannot be read.
pub(crate) fn pictures(
    archive: &Archive,
    rules: Rules,
    from: Moment,
    mut see: impl FnMut(&Facts) -> bool,
) -> Result<(), RecordFault> {
    let mut replay = RecordReplay::at_keyframe(archive, rules, from.max(archive.start()))?;
    // Each keyframe is a snapshot that was evaluated.
    let mut at = replay.begun;
    let mut go_on = see(&replay.facts(at));
    let end = archive.end();
    while go_on && at < end {
        at = at.plus(STRETCH).min(end);
        replay.look(at, |facts| go_on = go_on && see(&facts))?;
    }
    Ok(())
}

/// What changed in `scope` between two times. A change without a time of its own gets the time of the first snapshot that shows
/// it, if the interval is short enough to replay every snapshot in it.
///
/// # Errors
/// The record cannot be read, or has no data at the earlier time.
pub fn changes(
    archive: &Archive,
    rules: &Rules,
    from: Moment,
    to: Moment,
    scope: &Scope,
) -> Result<FleetChanges, RecordFault> {
    // Only the two end points are compared: on the way the checks are run, and no snapshot is built.
    let seek = |at| {
        let mut replay = RecordReplay::at_keyframe(archive, rules.clone(), at)?;
        replay.advance(at, Store::judge)?;
        Ok::<_, RecordFault>((replay.facts(at), replay))
    };
    // Each reads a keyframe and every snapshot since: a second on a large fleet.
    let (before, after) = std::thread::scope(|threads| {
        let before = threads.spawn(|| seek(from));
        let after = seek(to);
        (before.join(), after)
    });
    let before = before.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    let ((before, mut replay), (after, _)) = (before?, after?);
    let mut changes = FleetChanges::between(&before.scoped(scope), &after.scoped(scope));
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
        // The time of a change within a gap is unknown.
        if facts.now.since(last.now) < GAP.into() {
            changes.date(&FleetChanges::between(&last, &facts), &undated);
        }
        last = facts;
    })?;
    Ok(changes.dated())
}
