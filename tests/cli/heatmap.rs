//! What the console sends to a terminal.

#[path = "../console/frames_fleet.rs"]
#[expect(dead_code, reason = "fleets that other tests draw")]
mod fleets;

use std::sync::Arc;
use std::time::Duration;

use console::app::{App, AppOptions};
use console::msg::Msg;
use model::fleet::signal;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use stokehold::runtime::screen::encode::encode;
use table::Facts;
use table::navigation::ViewId;

use fleets::{POOLS, PoolPlan, TestRng, build};

/// A heatmap of 8,000 devices on which every value changes and a fifth cross a level of color, every fifteen seconds: less than
/// 4 kB a second.
#[test]
fn a_heatmap_that_changes_everywhere_costs_little() {
    const WIDE: (u16, u16) = (200, 50);
    let plan = PoolPlan {
        nodes: 1_000,
        ..POOLS[2]
    };
    let mut facts = build(&[plan], 0);
    assert_eq!(facts.fleet.devices().count(), 8_000);
    let mut rng = TestRng::new(11);
    let mut levels: Vec<u32> = (0..8_000).map(|_| 1 + rng.below(14)).collect();
    let mut look = |facts: &mut Facts, crossing: u32| {
        let mut nodes = facts.fleet.nodes.to_vec();
        let devices = nodes
            .iter_mut()
            .flat_map(|node| Arc::make_mut(node).devices.iter_mut());
        for (at, device) in devices.enumerate() {
            if rng.below(100) < crossing {
                levels[at] = if levels[at] > 7 {
                    levels[at] - 1
                } else {
                    levels[at] + 1
                };
            }
            // Within its level, but never what it was.
            let within = 0.3 + f64::from(rng.below(1_000)) / 2_500.0;
            let util = (f64::from(levels[at]) + within) / 16.0;
            device.signals = [(signal::Signal::Util, util)].into_iter().collect();
        }
        Arc::make_mut(&mut facts.fleet).nodes = nodes.into();
    };
    look(&mut facts, 0);
    let mut app = App::new(AppOptions {
        view: ViewId::Devices,
        ..AppOptions::default()
    });
    let _ = app.update(Msg::Resize(WIDE.0, WIDE.1));
    let _ = app.update(Msg::Tick(facts.now));
    let _ = app.update(Msg::Facts(facts.clone()));
    let area = Rect::new(0, 0, WIDE.0, WIDE.1);
    let frame = |app: &App| {
        let mut buffer = Buffer::empty(area);
        app.draw(area, &mut buffer);
        buffer
    };
    let mut shown = frame(&app);
    let mut seconds = 0;
    let mut bytes = 0;
    for _ in 0..8 {
        look(&mut facts, 20);
        seconds += 15;
        facts.now = facts.now.plus(Duration::from_secs(15));
        let _ = app.update(Msg::Tick(facts.now));
        let _ = app.update(Msg::Facts(facts.clone()));
        let next = frame(&app);
        let changed = shown.content.iter().zip(&next.content);
        let changed = changed.filter(|(was, is)| was != is).count();
        assert!(changed > 300, "{changed} cells changed");
        bytes += encode(Some(&shown), &next, Vec::new()).len();
        shown = next;
    }
    let rate = bytes / seconds;
    println!("{rate} bytes a second");
    assert!(rate < 4_000, "{rate} bytes a second");
}
