//! `get` and the console, compared on a simulated fleet that is read as any cluster is.

#[path = "../console/cells.rs"]
mod compared;
#[path = "../console/scoped.rs"]
mod scoped;

use model::base::Moment;
use stokehold::runtime::session::{self, ClusterTarget, Demo};
use table::Needs;

#[tokio::test(start_paused = true)]
async fn get_and_the_console_show_the_same_of_a_simulated_fleet() {
    let setup = super::recorded::setup();
    let begin = Moment::parse("2026-11-21T08:00:00Z").expect("a moment");
    let world = sim::world::Options {
        nodes: Some(60),
        ..sim::world::Options::new(begin)
    };
    let target = ClusterTarget::Demo(Demo { world, speed: 0.0 });
    let facts = session::snapshot(&setup, target, &Needs::everything(), &mut |_| {})
        .await
        .expect("a fleet");
    compared::compare(&[("simulated", &facts)]);
    scoped::add_up(&facts);
    let teams = scoped::teams(&facts);
    let teams: Vec<(&str, &table::Facts)> = teams.iter().map(|team| ("a team", team)).collect();
    compared::compare(&teams);
}
