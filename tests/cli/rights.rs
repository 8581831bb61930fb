//! What two users with few rights see: every view at two sizes, and nothing on it that is not so.

use std::sync::Arc;

use console::{App, AppOptions, Msg, render_text};
use model::base::Moment;
use sim::world::{Options, World};
use source::kubeconfig::ContextChoice;
use stokehold::runtime::{actions::explanation_task, session};
use table::Facts;
use table::navigation::ViewId;

use crate::exec::stage::ticking;

/// What must not be said by who cannot know it.
const FALSE: &[&str] = &[
    "$0",
    // Slices that may be free or another team's.
    "·· free",
    "×× fault",
    "100%",
    "nothing waits",
    "there is none",
    "in all",
    "lost",
    "unreachable",
    "kubelet is silent",
    "no node has an accelerator",
    "the cluster has no node",
    "403",
    "config/kubernetes",
    "helm install",
    "no queue: neither",
    "source-lost",
    // It may read another namespace, which nothing has tried.
    "only namespace",
];

/// The facts of a user once every table has answered, with what the engine says of them.
async fn seen_by(context: &str) -> Facts {
    let folder = tempfile::tempdir().expect("a folder");
    let kubeconfig = folder.path().join("config");
    let begin = Moment::parse("2026-11-21T08:00:00Z").expect("a moment");
    let world = World::new(Options {
        seed: 3,
        nodes: Some(12),
        ..Options::new(begin)
    });
    let options = sim::ServeOptions {
        kubeconfig: Some(kubeconfig.clone()),
        speed: 0.0,
        ..sim::ServeOptions::default()
    };
    let server = sim::Server::start(options, Box::new(world), ticking());
    let _server = server.await.expect("serves");
    let setup = super::recorded::setup();
    let choice = ContextChoice {
        kubeconfig: Some(kubeconfig),
        context: Some(context.to_owned()),
        ..ContextChoice::default()
    };
    let mut session =
        session::open(&setup, session::ClusterTarget::Cluster(choice)).expect("opens");
    loop {
        session.facts.changed().await.expect("goes on");
        let facts = session.facts.borrow_and_update().clone();
        if let Some(facts) = facts.filter(|facts| facts.fleet.is_complete()) {
            return explanation_task::answered((*facts).clone());
        }
    }
}

fn frames(facts: &Facts) -> Vec<(ViewId, String)> {
    let mut all = Vec::new();
    for (width, height) in [(200, 50), (80, 24)] {
        for view in ViewId::ALL {
            let mut app = App::new(AppOptions {
                view: *view,
                ..AppOptions::default()
            });
            let _ = app.update(Msg::Resize(width, height));
            let _ = app.update(Msg::JobExplanations(Arc::clone(&facts.answers)));
            let _ = app.update(Msg::Facts(facts.clone()));
            // What is missing comes up by itself where nothing is seen: behind it the view says so, too.
            let _ = app.update(Msg::Key(console::KeyPress::plain(console::Key::Esc)));
            all.push((*view, render_text(&app, width, height)));
        }
    }
    all
}

#[tokio::test(start_paused = true)]
async fn a_team_lead_sees_no_false_statement() {
    let facts = seen_by("sim-team").await;
    assert!(
        facts
            .fleet
            .findings
            .iter()
            .all(|one| one.code.as_str() != "source-lost")
    );
    for (view, frame) in frames(&facts) {
        for words in FALSE {
            assert!(
                !frame.contains(words),
                "{words} on {}\n{frame}",
                view.name()
            );
        }
        let header = frame.lines().next().expect("a header");
        assert!(header.contains("ns ") || header.len() < 120, "{frame}");
        assert!(
            frame.contains("reading namespace lab (that of the context)"),
            "{}\n{frame}",
            view.name()
        );
    }
    let waiting = facts.answers.jobs.values();
    for reported in waiting {
        let explanation = &reported.answer.explanation;
        assert!(explanation.unblock.is_none() && explanation.alternatives.is_empty());
        assert!(reported.answer.start.is_none() && reported.now.is_none());
        assert_eq!(explanation.position, None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_user_without_rights_sees_that_nothing_is_visible() {
    let facts = seen_by("sim-nobody").await;
    assert!(
        facts.fleet.findings.is_empty(),
        "{:?}",
        facts.fleet.findings
    );
    for (view, frame) in frames(&facts) {
        for words in FALSE {
            assert!(
                !frame.contains(words),
                "{words} on {}\n{frame}",
                view.name()
            );
        }
        let header = frame.lines().next().expect("a header");
        assert!(!header.contains("live"), "{header}");
        assert!(
            frame.contains("not visible to you"),
            "{}\n{frame}",
            view.name()
        );
    }
}
