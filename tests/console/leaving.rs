//! Leaving while a run of the console is in progress: what is asked, and what each key does.

use std::sync::Arc;
use std::time::Duration;

use console::{App, AppOptions, Effect, Key, KeyPress, Msg, render_text};
use model::base::Name;
use model::fleet::job::JobState;
use model::fleet::run_hold::RunHold;
use model::plan::JobName;
use table::actions::{ActionState, May, RunRow, RunState, StepRow, StepState};
use table::navigation::ViewId;

use crate::frames::{SMALL, console, press};

/// A console whose run has suspended a job, asked whether to leave.
fn asked(size: (u16, u16)) -> App {
    let mut facts = SMALL.clone();
    let fleet = Arc::make_mut(&mut facts.fleet);
    let mut jobs = fleet.jobs.to_vec();
    let job = Arc::make_mut(&mut jobs[0]);
    job.state = JobState::Suspended;
    job.held = Some(Arc::new(RunHold {
        run: Name::new("run-1"),
        by: Name::new("kim"),
        since: facts.now,
        until: facts.now.plus(Duration::from_secs(900)),
    }));
    let name = JobName(job.id.key.clone());
    fleet.jobs = jobs.into();
    let step = |state| StepRow {
        words: String::from("suspend Job nlp/train"),
        state,
        began: None,
        note: String::new(),
    };
    let run = RunRow {
        name: String::from("run-1"),
        title: String::from("start nlp/llm"),
        begun: facts.now,
        last: facts.now,
        by: String::from("kim"),
        reason: String::new(),
        state: RunState::Running,
        words: String::new(),
        steps: vec![step(StepState::Done), step(StepState::Waiting)],
        cordons: Vec::new(),
        no_undo: None,
        starts: None,
        stopped: Vec::new(),
        losses: Vec::new(),
        suspended_jobs: vec![name],
        evicted: Vec::new(),
    };
    let mut app = console(&facts, ViewId::Jobs, size, AppOptions::default());
    let _ = app.update(Msg::ActionState(Arc::new(ActionState {
        may: May::Yes,
        runs: vec![run],
        ..ActionState::default()
    })));
    let _ = app.update(Msg::Leaving(String::from("run-1")));
    app
}

#[test]
fn leaving_says_what_is_suspended_and_until_when() {
    for size in [(200, 50), (80, 24)] {
        let app = asked(size);
        let text = render_text(&app, size.0, size.1);
        for words in [
            "a run is in progress",
            "start nlp/llm: 1 of 2 steps are done.",
            "1 job is suspended until ",
            " at the latest.",
            "the run continues in its own process",
            "enter leave",
            "x stop",
            "esc stay",
        ] {
            assert!(text.contains(words), "{size:?}: {words}\n{text}");
        }
    }
}

#[test]
fn each_key_leaves_stops_or_stays() {
    let enter = KeyPress::plain(Key::Enter);
    let mut app = asked((120, 40));
    assert_eq!(app.update(Msg::Key(enter)), [Effect::Leave]);
    // The second ctrl-c leaves as well: the question was seen.
    let interrupt = KeyPress {
        ctrl: true,
        ..KeyPress::char('c')
    };
    let mut app = asked((120, 40));
    assert_eq!(app.update(Msg::Key(interrupt)), [Effect::Leave]);
    let mut app = asked((120, 40));
    let stop = Effect::Stop(String::from("run-1"));
    assert_eq!(press(&mut app, "x"), [stop]);
    assert_eq!(
        press(&mut app, "q"),
        [Effect::Quit],
        "the question is closed"
    );
    for key in [KeyPress::char('q'), KeyPress::plain(Key::Esc)] {
        let mut app = asked((120, 40));
        assert_eq!(app.update(Msg::Key(key)), []);
        let text = render_text(&app, 120, 40);
        assert!(!text.contains("a run is in progress"), "{text}");
    }
}
