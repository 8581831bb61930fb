//! What two users with few rights see: every view at two sizes, and nothing on it that is not so.

use std::sync::Arc;

use console::{App, AppOptions, Msg, render_text};
use model::base::Moment;
use sim::world::{Options, World};
use source::kubeconfig::ContextChoice;
use stokehold::runtime::{actions::explanation_task, session};
use table::Facts;
use table::navigation::ViewId;

use super::simulated::Sim;
use super::{Home, text};
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
    // Readings that never come.
    "collecting",
    "less than 24 of the last",
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
    let of = |view: ViewId| frames(&facts).into_iter().find(|(id, _)| *id == view);
    let (_, fleet) = of(ViewId::Fleet).expect("the first tab");
    let devices = format!("devices {}", facts.spend_rates.devices);
    assert!(
        fleet
            .lines()
            .next()
            .is_some_and(|header| header.contains(&devices)),
        "{devices} as in the costs\n{fleet}"
    );
    let (_, jobs) = of(ViewId::Jobs).expect("a tab");
    let why = "no device readings: no exporter is visible to you";
    assert!(jobs.contains(why), "{jobs}");
    assert_eq!(table::no_readings(&facts), Some(why));
    let waiting = facts.answers.jobs.values();
    for reported in waiting {
        let explanation = &reported.answer.explanation;
        assert!(explanation.unblock.is_none() && explanation.alternatives.is_empty());
        assert!(reported.answer.start.is_none() && reported.now.is_none());
        assert_eq!(explanation.position, None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_plan_that_would_be_refused_opens_no_dialog() {
    let facts = seen_by("sim-team").await;
    let mut app = App::new(AppOptions::default());
    let _ = app.update(Msg::Resize(200, 50));
    let _ = app.update(Msg::Facts(facts));
    let _ = app.update(Msg::Key(console::KeyPress::char('B')));
    let frame = render_text(&app, 200, 50);
    assert!(
        frame.contains("nodes are not visible to you: no plan can be made without them"),
        "{frame}"
    );
    assert!(!frame.contains("esc close"), "no dialog is open\n{frame}");
}

#[test]
fn what_kueue_says_comes_first_whatever_the_job_is_called() {
    let home = Home::new();
    let sim = Sim::start(&home, "kubeconfig");
    let explain = |job: &str| {
        let kubeconfig = &sim.kubeconfig;
        let team = ["--kubeconfig", kubeconfig, "--context", "sim-team"];
        home.run(&[&["explain", job], &team[..]].concat())
    };
    for name in ["hpo-quant", "lab/hpo-quant"] {
        let out = explain(name);
        let words = text(&out.stdout);
        assert!(
            words.contains("reason     Kueue says: insufficient unused quota"),
            "{name}\n{words}\n{}",
            text(&out.stderr)
        );
        assert!(!words.contains("reason     unknown"), "{words}");
        assert!(words.contains("cannot be worked out"), "{words}");
    }
    // A job of a namespace that is not read may be there.
    let missing = text(&explain("nlp/nothing").stderr);
    assert!(missing.contains("reading namespace lab"), "{missing}");
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
