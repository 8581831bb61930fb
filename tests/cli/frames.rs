//! Frames of the live console, and of the record of what it showed: text for text the same.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use console::{App, AppOptions, Msg, render_text};
use model::base::Moment;
use model::fleet::node::Node;
use model::plan::{Intent, Plan};
use record::Archive;
use settings::{Inputs, load};
use stokehold::runtime::identity::random_identity;
use stokehold::runtime::session::{self, ClusterTarget, Session};
use stokehold::runtime::{
    actions::{explanation_task, past_plans},
    records::past,
};
use table::Facts;
use table::navigation::ViewId;
use table::timeline::Timeline;

use super::recorded::setup;
use super::{Home, text};
use crate::exec::stage::{paused, ticking};

/// Wide enough that nothing of the header gives way to a longer context.
const SIZE: (u16, u16) = (220, 50);

/// Every view as the console draws it of these facts at their moment, without trends: of a record they begin at the keyframe before the
/// moment. Of a record with its line at the foot.
fn frames(facts: &Facts, record: Option<Timeline>) -> Vec<(ViewId, String)> {
    let mut facts = explanation_task::answered(facts.clone());
    facts.context = "any".into();
    facts.history = Arc::default();
    let frame = |view: &ViewId| {
        let mut app = App::new(AppOptions {
            view: *view,
            ..AppOptions::default()
        });
        app.picture([
            Msg::Resize(SIZE.0, SIZE.1),
            Msg::Tick(facts.now),
            Msg::JobExplanations(Arc::clone(&facts.answers)),
        ]);
        app.picture(record.clone().map(Msg::Timeline));
        app.picture([Msg::Facts(facts.clone())]);
        let text = render_text(&app, SIZE.0, SIZE.1);
        (*view, common(&text))
    };
    ViewId::ALL.iter().map(frame).collect()
}

/// A frame without what says whether it is of a record: how fresh it is, the line at the foot and the keys. (The context's name says
/// so as well.)
fn common(frame: &str) -> String {
    let mut lines: Vec<&str> = frame.lines().collect();
    lines.truncate(usize::from(SIZE.1) - 2);
    let (header, _) = lines[0]
        .split_once("read-only")
        .expect("nothing is written");
    // How fresh it is stands at the right: what is before it is further left or right.
    let header = header.split_whitespace().collect::<Vec<&str>>().join(" ");
    let rest = lines[1..].iter().map(|line| line.trim_end());
    let all: Vec<&str> = [header.as_str()].into_iter().chain(rest).collect();
    all.join("\n")
}

/// What a console draws of so many moments, so far apart, while it records.
async fn shown(mut session: Session, moments: usize, apart: Duration) -> Vec<Arc<Facts>> {
    assert_eq!(session.notice, None);
    let mut control = session.recording.take().expect("is recorded");
    let mut seen: Vec<Arc<Facts>> = Vec::new();
    let look = async {
        while seen.len() < moments {
            session.facts.changed().await.expect("the sources go on");
            let latest = session.facts.borrow_and_update().clone();
            let latest = latest.filter(|facts| facts.fleet.is_complete());
            let is_new = |facts: &Facts| match seen.last() {
                Some(last) => facts.now.since(last.now) >= apart.into(),
                None => true,
            };
            seen.extend(latest.filter(|facts| is_new(facts)));
        }
    };
    let patience = Duration::from_secs(240);
    let all = tokio::time::timeout(patience, look).await;
    all.expect("the moments come");
    assert_eq!(control.stop().await.fault, None);
    seen
}

fn difference(live: &str, replayed: &str) -> String {
    let mut lines = live.lines().zip(replayed.lines());
    let found = lines.find(|(live, replayed)| live != replayed);
    let (live, replayed) = found.unwrap_or((live, replayed));
    format!("live     {live}\nreplayed {replayed}")
}

/// A plan that needs the whole fleet: a drain of the node that holds most.
fn drain(facts: &Facts) -> Result<Plan, String> {
    let nodes = facts.fleet.nodes.iter();
    let held = |node: &Node| {
        let devices = node.devices.iter();
        devices.filter(|device| device.holder.is_some()).count()
    };
    let node = nodes.max_by_key(|node| (held(node), node.name().clone()));
    let intent = Intent::Drain {
        nodes: vec![node.expect("a node").name().clone()],
        deadline: None,
    };
    past_plans::past_plan(Some(facts), &intent, &Default::default())
        .map_err(|why| format!("{why:?}"))
}

/// Records what a console shows of a cluster, and holds the record of so many moments, so far apart, to the frames, explanations and plans
/// of the console.
pub fn a_record_equals_what_was_shown(
    runtime: &tokio::runtime::Runtime,
    target: ClusterTarget,
    (moments, apart): (usize, Duration),
    places: (&Path, &Home),
) {
    let (folder, home) = places;
    let mut setup = setup();
    // What a Prometheus tells of the time before the console was opened is not recorded.
    let flag = ["--history", "prometheus.history", "0s"].map(str::to_owned);
    let [flag, key, value] = flag;
    let inputs = Inputs {
        flags: vec![(flag, key, value)],
        ..Inputs::default()
    };
    setup.settings = load(&inputs).expect("is right");
    setup.settings.record.enabled = true;
    setup.settings.record.dir = Some(folder.to_owned());
    let opening = setup.clone();
    let seen = runtime.block_on(async {
        let opened = tokio::task::spawn_blocking(move || session::console(&opening, target));
        let session = opened.await.expect("ends").expect("opens");
        shown(session, moments, apart).await
    });
    let archive = Archive::open(folder).expect("can be read");
    let timeline = Timeline::new(archive.start(), archive.end());
    for live in &seen {
        let rules = session::past_rules(&setup, &archive);
        let replayed = past::facts_at(&archive, rules, live.now).expect("was recorded");
        let stamp = live.now.rfc3339();
        let pairs = frames(live, None);
        let pairs = pairs.iter().zip(frames(&replayed, Some(timeline.clone())));
        for ((view, live), (_, replayed)) in pairs {
            assert!(
                *live == replayed,
                "{view:?} at {stamp}:\n{}",
                difference(live, &replayed)
            );
        }
        let (one, other) = (drain(live), drain(&replayed));
        let (one, mut other) = (one.expect("a plan"), other.expect("a plan"));
        // It counts pictures, of which a replay makes others.
        other.revision = one.revision;
        assert_eq!(
            serde_json::to_value(&one).expect("a document"),
            serde_json::to_value(&other).expect("a document"),
            "the plan at {stamp}"
        );
    }
    can_be_planned_and_not_changed(&seen[moments / 2], folder, home);
}

/// The program explains and plans on a moment of the record; carrying out is refused.
fn can_be_planned_and_not_changed(facts: &Facts, folder: &Path, home: &Home) {
    let (place, at) = (
        folder.display().to_string(),
        facts.now.plus(Duration::from_secs(1)).rfc3339(),
    );
    let past = ["--record", &place, "--at", &at];
    let node = facts.fleet.nodes[0].name().to_string();
    let run = |words: &[&str]| home.run(&[words, &past].concat());
    let plan = run(&["plan", "cordon", &node]);
    assert_eq!(plan.status.code(), Some(0), "{}", text(&plan.stderr));
    assert!(
        text(&plan.stdout).contains(&format!("cordon {node}")),
        "{}",
        text(&plan.stdout)
    );
    let refused = run(&["plan", "cordon", &node, "--apply", "--yes"]);
    assert_eq!(refused.status.code(), Some(3));
    assert!(text(&refused.stderr).contains("nothing can be changed in a record"));
    let held = run(&["plan", "hold", "nlp/any"]);
    assert_eq!(held.status.code(), Some(3), "{}", text(&held.stderr));
    assert!(text(&held.stderr).contains("which a record does not have"));
    let log = run(&["plan", "--log"]);
    assert_eq!(log.status.code(), Some(2));
    let waiting = facts.fleet.jobs.iter();
    let mut waiting = waiting.filter(|job| job.state == model::fleet::job::JobState::Waiting);
    let job = waiting.next().expect("a job waits").id.key.to_string();
    let explained = run(&["explain", "job", &job]);
    assert_eq!(
        explained.status.code(),
        Some(0),
        "{}",
        text(&explained.stderr)
    );
    let supposed = run(&["what-if", &format!("node {node} lost")]);
    assert_eq!(
        supposed.status.code(),
        Some(0),
        "{}",
        text(&supposed.stderr)
    );
}

#[test]
fn frames_of_a_record_are_those_of_the_console_that_recorded() {
    let begin = Moment::parse("2026-11-21T08:00:00Z").expect("a moment");
    let options = sim::world::Options {
        nodes: Some(16),
        ..sim::world::Options::new(begin)
    };
    let runtime = paused();
    let _within = runtime.enter();
    let world = sim::world::World::new(options).identified(random_identity());
    let service = sim::serve::embed(Box::new(world), ticking(), 10.0, 1).expect("is served");
    let home = Home::new();
    let folder: PathBuf = home.path("r");
    let target = ClusterTarget::Running(service);
    let moments = (4, Duration::from_secs(40));
    a_record_equals_what_was_shown(&runtime, target, moments, (&folder, &home));
}
