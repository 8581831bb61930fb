//! The record end to end: a simulated fleet is recorded while it is looked at, and what a replay shows of each
//! moment is compared with what was shown then.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use console::msg::{self, Switch};
use console::{Effect, Msg};
use model::base::Moment;
use record::Archive;
use settings::{Inputs, Rulebook, Texts, load};
use stokehold::runtime::connection::{ConnectionEvent, Connections, Opened};
use stokehold::runtime::identity::random_identity;
use stokehold::runtime::records::playback::ReplayEvent;
use stokehold::runtime::records::recorder::RecordSettings;
use stokehold::runtime::session::{self, ClusterTarget, Demo};
use stokehold::runtime::setup::Setup;
use stokehold::runtime::{records::past, screen::effects};
use table::changes::FleetChanges;
use table::output::render;
use table::timeline::{Playback, Timeline};
use table::{Facts, Format, Kind, Query, Scope};

use crate::exec::stage::{host, ticking};

pub(super) fn setup() -> Setup {
    let settings = load(&Inputs::default()).expect("the defaults are right");
    let rulebook = Rulebook::new(&settings, &Texts::default()).expect("is right");
    Setup {
        settings,
        rulebook,
        interactive: false,
        every_namespace: false,
        host: host(),
    }
}

/// Records a simulated fleet for so long, and gives every picture that was made meanwhile.
async fn recorded(folder: &Path, nodes: u32, speed: f64, span: Duration) -> Vec<Arc<Facts>> {
    let begin = Moment::parse("2026-11-21T08:00:00Z").expect("a moment");
    let world = sim::world::Options {
        nodes: Some(nodes),
        ..sim::world::Options::new(begin)
    };
    let target = ClusterTarget::Demo(Demo { world, speed });
    let record = RecordSettings {
        counts: None,
        state_dir: None,
        folder: Some(folder.to_owned()),
        keep: Duration::from_secs(86_400),
        max_bytes: 1 << 30,
    };
    let (mut session, mut control, _) = session::record(&setup(), target, &record)
        .await
        .expect("can be recorded");
    let mut seen = Vec::new();
    let look = async {
        while session.facts.changed().await.is_ok() {
            seen.extend(session.facts.borrow_and_update().clone());
        }
    };
    let _ = tokio::time::timeout(span, look).await;
    let state = control.stop().await;
    assert_eq!(state.fault, None);
    assert!(state.written.readings > 0, "{state:?}");
    seen
}

/// Every kind as it is printed, with what says where it comes from left out. What changed is of a span and not of a moment:
/// [`same_changes`] compares it.
fn printed(facts: &Facts) -> Vec<(Kind, String)> {
    Kind::ALL
        .iter()
        .filter(|kind| **kind != Kind::Changes)
        .map(|kind| {
            let mut facts = facts.clone();
            facts.context = "any".into();
            let mut fleet = (*facts.fleet).clone();
            // It counts pictures, of which a replay makes others.
            fleet.revision = 1;
            facts.fleet = Arc::new(fleet);
            let text = render(&facts, &Query::all(*kind), Format::Json);
            (*kind, text.expect("can be printed"))
        })
        .collect()
}

fn first_difference(live: &str, replayed: &str) -> String {
    let lines = live.lines().zip(replayed.lines());
    let found = lines.enumerate().find(|(_, (a, b))| a != b);
    match found {
        Some((at, (a, b))) => format!("line {at}:\n  live     {a}\n  replayed {b}"),
        None => format!(
            "{} and {} lines",
            live.lines().count(),
            replayed.lines().count()
        ),
    }
}

#[tokio::test(start_paused = true)]
async fn a_replay_shows_of_every_moment_what_was_shown_then() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let seen = recorded(folder.path(), 40, 60.0, Duration::from_secs(32)).await;
    let archive = Archive::open(folder.path()).expect("can be read");
    assert_eq!(archive.warnings(), &[] as &[String]);
    let complete = seen
        .iter()
        .filter(|facts| facts.fleet.is_complete())
        .count();
    assert!(complete >= 3, "{complete} whole pictures of {}", seen.len());
    let last = seen.last().expect("a picture").fleet.at;
    assert!(
        last.since(archive.start()) > record::KEYFRAMES.into(),
        "a keyframe lies between"
    );
    let setup = setup();
    for facts in &seen {
        let at = facts.now;
        // Until the server has told its time, to the second, the clock may stand still or go back by a little, which a record
        // does not.
        if at <= archive.start().plus(Duration::from_secs(5)) {
            continue;
        }
        let rules = session::past_rules(&setup, &archive);
        let replayed = past::facts_at(&archive, rules, at).expect("was recorded");
        for ((kind, live), (_, replayed)) in printed(facts).iter().zip(printed(&replayed)) {
            assert!(
                *live == replayed,
                "{kind:?} at {at:?}: {}",
                first_difference(live, &replayed)
            );
        }
    }
    let whole = seen.iter().find(|facts| {
        facts.fleet.is_complete() && facts.now > archive.start().plus(Duration::from_secs(5))
    });
    let first = whole.expect("a whole picture");
    same_changes(&archive, &setup, first, seen.last().expect("a picture"));
}

/// What changed between two moments of the record is what differs between the pictures that were shown then.
fn same_changes(archive: &Archive, setup: &Setup, first: &Facts, last: &Facts) {
    let rules = session::past_rules(setup, archive);
    let whole = Scope::default();
    let replayed =
        past::changes(archive, &rules, first.now, last.now, &whole).expect("can be read");
    let live = FleetChanges::between(first, last);
    // Moments may be those of pictures in between.
    let plain = |changes: &FleetChanges| {
        let all = changes.changes.iter();
        let mut all: Vec<String> = all
            .map(|change| format!("{:?} {} {}", change.topic, change.id, change.subject()))
            .collect();
        all.sort();
        all
    };
    assert_eq!(plain(&live), plain(&replayed));
    assert_eq!(
        (&live.money, &live.notes),
        (&replayed.money, &replayed.notes)
    );
    let span = first.now..=last.now;
    let dated = replayed.changes.iter().filter_map(|change| change.at);
    assert!(dated.map(|dated| dated.at()).all(|at| span.contains(&at)));
}

#[tokio::test(start_paused = true)]
async fn nothing_can_be_done_in_a_replay() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let seen = recorded(folder.path(), 12, 60.0, Duration::from_secs(15)).await;
    let first = seen.iter().find(|facts| facts.fleet.is_complete());
    let at = first.expect("a whole picture").now;
    let place = folder.path().to_owned();
    let mut connections = Connections::begin(
        Arc::new(move |_| {
            let archive = Archive::open(&place).expect("can be read");
            let session = session::replay(&setup(), archive, at, 600.0)?;
            assert!(session.actions.is_none() && session.sources.is_none());
            let about = msg::SessionInfo::default();
            Ok(Opened { session, about })
        }),
        ticking(),
    );
    assert!(matches!(
        connections.news().await,
        ConnectionEvent::Session(_)
    ));
    for effect in [Effect::Refresh, Effect::GoOn("drain-1".to_owned())] {
        let result = effects::perform(&mut connections, effect);
        assert!(
            matches!(&result[..], [Msg::Notice(words)] if words.contains("this is a record")),
            "{result:?}"
        );
    }
    let refused = effects::kubectl(&connections).expect_err("there is no kubectl");
    assert!(refused.contains("this is a record"), "{refused}");
    // It plays, on its own clock.
    let mut last = at;
    while last <= at.plus(Duration::from_secs(30)) {
        if let ConnectionEvent::Facts(Some(facts)) = connections.news().await {
            assert!(facts.now >= last, "{:?} after {last:?}", facts.now);
            let context = facts.context.as_str();
            assert!(
                context.starts_with("record 11-21 08:") && context.ends_with(" demo"),
                "{context}"
            );
            last = facts.now;
            assert_eq!(connections.now(), last);
        }
    }
    connections.switch(&Switch::Again);
}

/// Moves in the record, and gives the first answer that counts; what is told of the timeline meanwhile is kept.
async fn moved<T>(
    connections: &mut Connections,
    timeline: &mut Option<Timeline>,
    playback: Playback,
    mut counts: impl FnMut(&ConnectionEvent, Option<&Timeline>) -> Option<T>,
) -> T {
    let session = connections.session.as_ref().expect("a session runs");
    let replay = session.replay.as_ref().expect("of a record");
    replay.send(playback);
    let answer = async {
        loop {
            let event = connections.news().await;
            if let ConnectionEvent::Replay(ReplayEvent::Timeline(moments)) = &event {
                *timeline = Some(moments.clone());
            }
            if let Some(answer) = counts(&event, timeline.as_ref()) {
                return answer;
            }
        }
    };
    let patience = Duration::from_secs(60);
    let answer = tokio::time::timeout(patience, answer).await;
    answer.expect("an answer comes")
}

#[tokio::test(start_paused = true)]
async fn a_record_is_gone_through_both_ways() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let seen = recorded(folder.path(), 24, 60.0, Duration::from_secs(32)).await;
    let whole = seen.iter().find(|facts| facts.fleet.is_complete());
    let first = Arc::clone(whole.expect("a whole picture"));
    let place = folder.path().to_owned();
    let mut connections = Connections::begin(
        Arc::new(move |_| {
            let archive = Archive::open(&place).expect("can be read");
            let end = archive.end();
            let session = session::replay(&setup(), archive, end, 0.0)?;
            let about = msg::SessionInfo::default();
            Ok(Opened { session, about })
        }),
        ticking(),
    );
    assert!(matches!(
        connections.news().await,
        ConnectionEvent::Session(_)
    ));
    let mut timeline = None;
    let shows = |moment: Moment| {
        move |event: &ConnectionEvent, _: Option<&Timeline>| match event {
            ConnectionEvent::Facts(Some(facts)) if facts.now == moment => Some(facts.clone()),
            _ => None,
        }
    };
    // Back, which begins at the keyframe before: what is shown is what was shown then.
    let to = Playback::Go(first.now);
    let shown = moved(&mut connections, &mut timeline, to, shows(first.now)).await;
    assert_eq!(connections.now(), first.now);
    let jobs = |facts: &Facts| render(facts, &Query::all(Kind::Jobs), Format::Json);
    assert_eq!(
        jobs(&shown).expect("is printed"),
        jobs(&first).expect("is printed")
    );
    // The whole record is looked through; jumps lead from mark to mark, and back.
    let looked = |_: &ConnectionEvent, timeline: Option<&Timeline>| {
        let timeline = timeline?;
        let parts: Vec<_> = timeline.looked.iter().collect();
        let [(from, to)] = parts[..] else { return None };
        (*from <= first.now && *to == timeline.to).then(|| timeline.clone())
    };
    let stay = Playback::Go(first.now);
    let whole = moved(&mut connections, &mut timeline, stay, looked).await;
    let marks: Vec<Moment> = whole.marks.iter().map(|mark| mark.at).collect();
    let later: Vec<Moment> = marks.into_iter().filter(|at| *at > first.now).collect();
    assert!(
        later.len() >= 2,
        "half an hour of a fleet has changes: {later:?}"
    );
    for (forward, at) in [(true, later[0]), (true, later[1]), (false, later[0])] {
        let jump = Playback::Change { forward };
        moved(&mut connections, &mut timeline, jump, shows(at)).await;
    }
    let compare = Playback::Compare {
        name: "a".into(),
        from: first.now,
        to: later[1],
        scope: Scope::default(),
    };
    let compared = |event: &ConnectionEvent, _: Option<&Timeline>| match event {
        ConnectionEvent::Replay(ReplayEvent::Changes(name, compared)) if **name == *"a" => {
            Some(compared.clone().map(|changes| changes.weight()))
        }
        _ => None,
    };
    let compared = moved(&mut connections, &mut timeline, compare, compared).await;
    assert!(compared.expect("can be compared").is_some());
    // It plays, and at the end of the record it stands still.
    let end = Playback::Go(whole.to.minus(Duration::from_secs(1)));
    let near = whole.to.minus(Duration::from_secs(1));
    moved(&mut connections, &mut timeline, end, shows(near)).await;
    let over = moved(
        &mut connections,
        &mut timeline,
        Playback::Toggle,
        shows(whole.to),
    );
    over.await;
    let notice = |event: &ConnectionEvent, _: Option<&Timeline>| match event {
        ConnectionEvent::Replay(ReplayEvent::Said(words)) => Some(words.clone()),
        _ => None,
    };
    let notice = moved(&mut connections, &mut timeline, Playback::Toggle, notice).await;
    assert!(notice.contains("the end of the record"), "{notice}");
}

#[tokio::test(start_paused = true)]
async fn a_console_records_what_it_reads_where_the_settings_say_so() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let begin = Moment::parse("2026-11-21T08:00:00Z").expect("a moment");
    let options = sim::world::Options {
        nodes: Some(12),
        ..sim::world::Options::new(begin)
    };
    let world = sim::world::World::new(options).identified(random_identity());
    let service = sim::serve::embed(Box::new(world), ticking(), 20.0, 1).expect("is served");
    let open = |enabled: bool| {
        let mut setup = setup();
        assert!(!setup.settings.record.enabled, "off by default");
        setup.settings.record.enabled = enabled;
        setup.settings.record.dir = Some(folder.path().join("r"));
        let service = service.clone();
        Connections::begin(
            Arc::new(move |_| {
                let mut session =
                    session::console(&setup, ClusterTarget::Running(service.clone()))?;
                let about = msg::SessionInfo {
                    notice: session.notice.take(),
                    ..msg::SessionInfo::default()
                };
                Ok(Opened { session, about })
            }),
            ticking(),
        )
    };
    /// What the console is told of the session that is opened, once all is listed.
    async fn opened(connections: &mut Connections) -> (Option<String>, Arc<Facts>) {
        let mut latest = None;
        loop {
            match (connections.news().await, &latest) {
                (ConnectionEvent::Session(about), _) => latest = Some(about.notice),
                (ConnectionEvent::NoSession(why), _) => panic!("{why}"),
                // Until then they are of the one before.
                (ConnectionEvent::Facts(Some(facts)), Some(notice))
                    if facts.fleet.is_complete() =>
                {
                    return (notice.clone(), facts);
                }
                _ => {}
            }
        }
    }
    let records = |connections: &Connections| {
        let session = connections.session.as_ref();
        session.is_some_and(|session| session.recording.is_some())
    };
    let mut without = open(false);
    assert_eq!(opened(&mut without).await.0, None);
    assert!(!records(&without) && !folder.path().join("r").exists());
    let mut connections = open(true);
    assert_eq!(opened(&mut connections).await.0, None);
    assert!(records(&connections));
    // Another one says that the directory is taken, and goes on.
    let mut other = open(true);
    let (notice, facts) = opened(&mut other).await;
    let notice = notice.expect("it is said");
    assert!(
        notice.starts_with("not recorded: another process records into "),
        "{notice}"
    );
    assert!(!records(&other) && !facts.fleet.nodes.is_empty());
    // A new session of the same console goes on in the same directory.
    connections.switch(&Switch::Again);
    let (notice, facts) = opened(&mut connections).await;
    assert_eq!(notice, None);
    assert!(records(&connections));
    connections.close().await;
    assert!(!records(&connections));
    let archive = Archive::open(&folder.path().join("r")).expect("can be read");
    let rules = session::past_rules(&setup(), &archive);
    let replayed = past::facts_at(&archive, rules, archive.end()).expect("was recorded");
    assert_eq!(replayed.fleet.nodes.len(), facts.fleet.nodes.len());
    // What is looked at goes on.
    let more = tokio::time::timeout(Duration::from_secs(30), connections.news()).await;
    assert!(matches!(
        more,
        Ok(ConnectionEvent::Facts(Some(_)) | ConnectionEvent::JobExplanations(_))
    ));
}
