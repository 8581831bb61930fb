//! `:what-if`: what the palette offers, what is asked, and how the answer is shown.

use std::sync::Arc;

use console::{App, AppOptions, Effect, Key, KeyPress, Msg, render_text};
use model::base::Name;
use model::fleet::TableState;
use model::fleet::observe::Table;
use table::Facts;
use table::navigation::ViewId;
use table::what_if::Supposed;

use crate::frames::{LARGE, console, press};

const SIZE: (u16, u16) = (140, 40);

/// The large fleet with every table known.
fn facts() -> Facts {
    let mut facts = LARGE.clone();
    let known = &mut Arc::make_mut(&mut facts.fleet).known;
    Arc::make_mut(known).extend(Table::ALL.iter().map(|table| (*table, TableState::Live)));
    facts
}

fn text(app: &App) -> String {
    render_text(app, SIZE.0, SIZE.1)
}

/// What was asked to be supposed.
fn supposed(effects: &[Effect]) -> Vec<Name> {
    let of = |effect: &Effect| match effect {
        Effect::Suppose(changes) => Some(changes.clone()),
        _ => None,
    };
    effects.iter().filter_map(of).collect()
}

/// A console that has asked what these changes do, and the answer that it was given.
fn app_with(facts: &Facts, changes: &str) -> App {
    let mut app = console(facts, ViewId::Fleet, SIZE, AppOptions::default());
    let effects = press(&mut app, &format!(":what-if {changes}\n"));
    assert_eq!(supposed(&effects), [Name::new(changes)], "{changes}");
    assert!(text(&app).contains("computing…"), "{}", text(&app));
    let answer = Supposed::of(facts, changes);
    let _ = app.update(Msg::Supposed(Name::new(changes), answer));
    app
}

#[test]
fn the_palette_leads_to_a_whole_change_word_by_word() {
    let facts = facts();
    let pool = facts.fleet.pools[0].name.clone();
    let mut app = console(&facts, ViewId::Fleet, SIZE, AppOptions::default());
    press(&mut app, ":what-if\n");
    for verb in engine::what_if::KEYWORDS {
        assert!(text(&app).contains(&format!("what-if {verb}")), "{verb}");
    }
    // Enter takes a word that is no whole change, and the palette stays open for the next.
    press(&mut app, "pool\n");
    assert!(
        text(&app).contains(&format!("what-if pool {pool}")),
        "{}",
        text(&app)
    );
    press(&mut app, &format!("{pool}\n"));
    assert!(
        text(&app).contains(&format!("what-if pool {pool} lost")),
        "{}",
        text(&app)
    );
    let effects = press(&mut app, "\n");
    assert_eq!(
        supposed(&effects),
        [Name::new(&format!("pool {pool} lost"))]
    );
    // Nothing is written, and nothing but the answer is asked for.
    assert!(
        !effects
            .iter()
            .any(|effect| matches!(effect, Effect::Plan(_) | Effect::CarryOut(_)))
    );
}

/// Four more nodes are four keys away from the list of jobs, whether the job's page has a change of its own or none.
#[test]
fn u_on_a_waiting_job_offers_more_nodes_of_its_pool() {
    let facts = facts();
    let mut jobs = facts.fleet.jobs.iter();
    let job = jobs.find(|job| job.id.key.name.as_str() == "llm-70b-sft-next");
    let job = job.expect("it waits");
    let pools = facts
        .fleet
        .pools_of(facts.now, |_| false, |own| own.id == job.id);
    let pool = pools.iter().find(|pool| pool.waiting_devices > 0);
    let wanted = format!("nodes {} +4", pool.expect("its pool").name);
    for explained in [false, true] {
        let mut app = console(&facts, ViewId::Jobs, SIZE, AppOptions::default());
        if explained {
            let answer = crate::keys::answer_for("llm-70b-sft-next");
            let _ = app.update(Msg::JobExplanations(Arc::new(answer)));
        }
        press(&mut app, "/llm-70b-sft-next\nu");
        assert!(
            text(&app).contains(&format!("what-if {wanted}")),
            "{}",
            text(&app)
        );
        let effects = press(&mut app, "\t\n");
        assert_eq!(supposed(&effects), [Name::new(&wanted)], "{explained}");
    }
}

#[test]
fn a_parse_error_is_shown_at_the_input() {
    let facts = facts();
    let mut app = console(&facts, ViewId::Fleet, SIZE, AppOptions::default());
    press(&mut app, ":what-if nodse a +1");
    assert!(
        text(&app).contains("unknown change `nodse`; did you mean `node`?"),
        "{}",
        text(&app)
    );
    let effects = press(&mut app, "\n");
    assert_eq!(supposed(&effects), [], "nothing is asked");
    assert!(
        text(&app).contains("nodse a +1"),
        "the words stay to be mended"
    );
}

#[test]
fn an_answer_shows_figures_of_both_sides_and_who_is_evicted() {
    let facts = facts();
    let pool = &facts.fleet.pools[0].name;
    let app = app_with(&facts, &format!("pool {pool} lost"));
    let shown = text(&app);
    for words in [
        "as of",
        "BEFORE",
        "AFTER",
        "median time to start",
        "cost",
        "jobs running",
        "evicted",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    assert!(
        !shown.contains("seconds") && !shown.contains("computing"),
        "{shown}"
    );
    assert_eq!(app.trail(), [format!("what if pool {pool} lost")]);
}

#[test]
fn several_changes_stand_behind_each_other() {
    let facts = facts();
    let pools: Vec<&Name> = facts.fleet.pools.iter().map(|pool| &pool.name).collect();
    let app = app_with(
        &facts,
        &format!("nodes {} +1; pool {} lost", pools[0], pools[1]),
    );
    assert!(text(&app).contains(&format!("nodes {} +1; pool {} lost", pools[0], pools[1])));
}

#[test]
fn an_unknown_name_is_reported_and_a_job_opens_its_page() {
    let facts = facts();
    let app = app_with(&facts, "pool nowhere lost");
    assert!(
        text(&app).contains("unknown pool `nowhere`"),
        "{}",
        text(&app)
    );

    let pool = &facts.fleet.pools[0].name;
    let mut app = app_with(&facts, &format!("pool {pool} lost"));
    let before = text(&app);
    press(&mut app, "\n");
    let page = app.trail().last().cloned().unwrap_or_default();
    let mut jobs = facts.fleet.jobs.iter();
    assert!(jobs.any(|job| job.id.to_string() == page), "{page}");
    let _ = app.update(Msg::Key(KeyPress::plain(Key::Esc)));
    assert_eq!(text(&app), before, "the answer stands as it was");
    // Again, of the fleet as it is now.
    let effects = app.update(Msg::Key(KeyPress::ctrl('r')));
    assert_eq!(
        supposed(&effects),
        [Name::new(&format!("pool {pool} lost"))]
    );
    assert_eq!(
        text(&app),
        before,
        "what is known stands until the new answer comes"
    );
}

#[test]
fn it_fits_every_screen() {
    let facts = facts();
    let mut app = app_with(&facts, &format!("pool {} lost", facts.fleet.pools[0].name));
    for (width, height) in [(200, 50), (80, 24), (40, 10), (10, 4), (1, 1)] {
        let _ = app.update(Msg::Resize(width, height));
        let drawn = render_text(&app, width, height);
        assert!(drawn.lines().count() <= usize::from(height));
        if height >= 10 {
            assert!(drawn.contains("evict"), "{width}x{height}: {drawn}");
        }
    }
}
