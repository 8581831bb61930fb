//! The journal belongs to a cluster: what was done on one is neither shown, nor continued, nor taken back on another.

use exec::record::{Record, Who};
use exec::target_reader::Unseen;
use exec::{ClusterIdentity, RunEnd};
use model::base::Exit;
use model::plan::{Intent, RefusalCode};
use stokehold::runtime::actions::action_service::{ActionService, unwatched};

use super::stage::{begin, host, settings, world};
use super::*;

/// One simulated cluster under the name that all of them have.
fn action_service(folder: &std::path::Path, identity: u64) -> ActionService {
    let settings = settings(&[
        ("--write", "write", "true"),
        ("--journal", "journal_dir", &folder.display().to_string()),
    ]);
    let world = world(1, 14, false).identified(identity);
    let clock = Arc::new(begin);
    let service = embed(Box::new(world), clock, 0.0, 1).expect("a cluster");
    ActionService::on_simulated(&host(), &settings, "demo", service)
}

/// Writes a run into a journal: it suspended a job. It is under way while its writer is kept.
fn write(
    journal: &Journal,
    run: &str,
    cluster: &ClusterIdentity,
    intent: Intent,
    end: Option<RunEnd>,
) -> exec::journal::JournalWriter {
    let mut plan = Plan::new("suspend it", intent, begin());
    let suspend = Mutation::Suspend { value: true };
    plan.steps
        .push(Step::new(Verb::Suspend, job("train"), suspend));
    let mut pen = journal.open(run, begin()).expect("opens");
    let begun = Record::Begin {
        cluster: cluster.clone(),
        who: Who {
            user: "ana".into(),
            local: "ana".into(),
        },
        reason: String::new(),
        plan: Box::new(plan),
    };
    pen.write(begin(), begun).expect("written");
    if let Some(end) = end {
        pen.write(begin(), Record::End { end }).expect("written");
    }
    pen
}

fn hold() -> Intent {
    Intent::Hold {
        target: "nlp".into(),
    }
}

async fn names(action_service: &ActionService) -> Vec<String> {
    let runs = action_service.runs().await.into_iter();
    runs.map(|(run, doubt)| {
        assert_eq!(doubt, None, "its identity is known");
        run.name
    })
    .collect()
}

#[tokio::test(start_paused = true)]
async fn what_was_done_on_another_simulated_cluster_is_not_offered() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let journal = Journal::new(folder.path());
    let (one, two) = (
        action_service(folder.path(), 1),
        action_service(folder.path(), 2),
    );
    let (here, why) = one.cluster().await;
    assert_eq!(
        (here.context.as_str(), here.server.as_str(), why),
        ("demo", "", None)
    );
    assert!(!here.uid.is_empty());
    write(&journal, "done", &here, hold(), Some(RunEnd::Done));
    write(&journal, "stopped", &here, hold(), Some(RunEnd::Stopped));
    // One that an earlier version wrote, which knew no identity.
    let old = ClusterIdentity {
        uid: String::new(),
        ..here.clone()
    };
    write(&journal, "old", &old, hold(), Some(RunEnd::Done));
    assert_eq!(names(&one).await, ["done", "stopped"]);
    assert!(names(&two).await.is_empty());
    let refuse = |sentence| Unseen::Failed(model::base::Failure::new(Exit::Refused, sentence));
    let Err(Unseen::Failed(refused)) = two.undo("done", None, refuse).await else {
        panic!("it was done elsewhere");
    };
    assert!(refused.message.contains("done ran on demo"), "{refused}");
    let (progress, stop) = unwatched();
    let refused = two.resume_run("stopped", progress, stop).await;
    let refused = refused.expect_err("it was done elsewhere");
    assert_eq!(refused.exit, Exit::Refused);
    assert!(refused.message.contains("stopped ran on demo"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_under_way_is_not_taken_back() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let journal = Journal::new(folder.path());
    let action_service = action_service(folder.path(), 1);
    let (here, _) = action_service.cluster().await;
    let elsewhere = |sentence: String| -> Unseen { panic!("{sentence}") };
    let undo = async || match action_service.undo("r1", None, elsewhere).await {
        Err(Unseen::Refused(refusal)) => refusal.to_string(),
        other => panic!("{other:?}"),
    };
    let writer = write(&journal, "r1", &here, hold(), None);
    let message = undo().await;
    assert!(message.contains("r1 is under way"), "{message}");
    drop(writer);
    let message = undo().await;
    assert!(!message.contains("under way"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn a_run_is_taken_back_once() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let journal = Journal::new(folder.path());
    let action_service = action_service(folder.path(), 1);
    let (here, _) = action_service.cluster().await;
    let undo = |run: &str| Intent::Undo { run: run.into() };
    write(&journal, "r1", &here, hold(), Some(RunEnd::Done));
    write(&journal, "r2", &here, undo("r1"), Some(RunEnd::Stopped));
    let refused = |sentence: String| -> Unseen { panic!("{sentence}") };
    let again = async |run: &str| match action_service.undo(run, None, refused).await {
        Err(Unseen::Refused(refusal)) => {
            assert_eq!(refusal.code, RefusalCode::AlreadySo);
            refusal.to_string()
        }
        other => panic!("{other:?}"),
    };
    let message = again("r1").await;
    assert!(
        !message.contains("undone by"),
        "half of it is not all: {message}"
    );
    write(&journal, "r3", &here, undo("r1"), Some(RunEnd::Done));
    let message = again("r1").await;
    assert!(message.contains("r1 was already undone by r3"), "{message}");
    // The undoing is taken back in its turn: then the first stands again.
    write(&journal, "r4", &here, undo("r3"), Some(RunEnd::Done));
    assert!(!again("r1").await.contains("undone by"));
    assert!(again("r3").await.contains("r3 was already undone by r4"));
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_no_run_opens_nothing() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let state = folder.path().join("state");
    let action_service = action_service(&state, 1);
    for name in ["../../x", "20261122000000-abcdef"] {
        let (progress, stop) = unwatched();
        let refused = action_service.resume_run(name, progress, stop).await;
        assert_eq!(refused.expect_err("there is none").exit, Exit::Refused);
    }
    assert!(!state.exists() && !folder.path().join("x.lock").exists());
}
