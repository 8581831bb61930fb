//! The tree of an object: what stands on its lines, and the keys that lead there and back.

use std::collections::BTreeSet;

use console::table_model::TableModel;
use console::view::object_tree;
use console::{App, AppOptions, render_text};
use model::base::Name;
use model::fleet::queue::QueueKind;
use table::Facts;
use table::navigation::{RowScope, Selection, ViewId};

use crate::frames::{LARGE, SMALL, console, press};

fn app(facts: &Facts, view: ViewId) -> App {
    console(facts, view, (120, 40), AppOptions::default())
}

/// What stands on the lines of a tree, in order.
fn tree(facts: &Facts, of: Selection) -> Vec<Selection> {
    let mut model = TableModel::new(&object_tree::KIND, RowScope::Tree(of));
    model.refresh(facts, true);
    let mut lines = Vec::new();
    for row in model.rows() {
        let selection = (object_tree::KIND.selection)(facts, *row).expect("an object");
        let cell = (object_tree::KIND.columns[0].cell)(facts, *row);
        let (_, words) = cell.value.words().expect("words");
        let name = selection.title(facts);
        let name = name
            .rsplit_once('/')
            .map_or(name.as_str(), |(_, name)| name);
        assert!(words.ends_with(name), "{words} is not {name}");
        assert!(
            (object_tree::KIND.open)(facts, *row).is_some(),
            "{words} opens"
        );
        lines.push(selection);
    }
    lines
}

fn devices(lines: &[Selection]) -> Vec<(Name, u32)> {
    let devices = lines.iter().filter_map(|line| match line {
        Selection::Device(node, index) => Some((node.clone(), *index)),
        _ => None,
    });
    devices.collect()
}

#[test]
fn a_job_has_its_pods_and_each_of_its_devices_once() {
    let mut held = 0;
    for job in SMALL.fleet.jobs.iter() {
        let lines = tree(&SMALL, Selection::Job(job.id.clone()));
        assert_eq!(lines[0], Selection::Job(job.id.clone()));
        for pod in job.pods.iter() {
            let pod = Selection::Pod(pod.key().clone());
            assert_eq!(lines.iter().filter(|line| **line == pod).count(), 1);
        }
        for pool in &job.pools {
            assert!(lines.contains(&Selection::Pool(pool.clone())));
        }
        let mut own = devices(&lines);
        own.sort();
        let holds = |device: &model::fleet::device::Device| {
            let mut holders = device.holders();
            holders.any(|(pod, _)| job.pods.iter().any(|own| own.key() == pod.key()))
        };
        let all = SMALL.fleet.devices().filter(|(_, device)| holds(device));
        let mut all: Vec<_> = all
            .map(|(node, device)| (node.name().clone(), device.index))
            .collect();
        all.sort();
        assert_eq!(own, all, "{}", job.id);
        held += own.len();
    }
    assert!(held > 0);
}

#[test]
fn a_node_has_each_of_its_devices_and_a_pool_its_nodes() {
    for node in SMALL.fleet.nodes.iter() {
        let lines = tree(&SMALL, Selection::Node(node.name().clone()));
        assert_eq!(lines[1], Selection::Pool(node.pool.clone()));
        let own: BTreeSet<u32> = devices(&lines)
            .into_iter()
            .map(|(_, index)| index)
            .collect();
        let all: BTreeSet<u32> = node.devices.iter().map(|device| device.index).collect();
        assert_eq!(own, all, "{}", node.name());
        for device in &node.devices {
            let of = Selection::Device(node.name().clone(), device.index);
            let lines = tree(&SMALL, of.clone());
            assert_eq!(lines[..2], [of, Selection::Node(node.name().clone())]);
            for (pod, _) in device.holders() {
                assert!(lines.contains(&Selection::Pod(pod.key().clone())));
                assert!(lines.contains(&Selection::Job(pod.job.clone())));
            }
        }
    }
    for pool in SMALL.fleet.pools.iter() {
        let lines = tree(&SMALL, Selection::Pool(pool.name.clone()));
        let nodes = lines
            .iter()
            .filter(|line| matches!(line, Selection::Node(_)));
        assert_eq!(nodes.count() as u32, pool.nodes.total);
    }
}

#[test]
fn a_queue_has_the_jobs_of_all_queues_below_it() {
    let mut seen = 0;
    for queue in LARGE.fleet.queues.iter() {
        let name = queue.name().clone();
        let root = match queue.key.kind {
            QueueKind::Cohort => Selection::Cohort(name),
            QueueKind::Queue => Selection::Queue(name),
        };
        let lines = tree(&LARGE, root.clone());
        assert_eq!(lines[0], root);
        for line in &lines {
            if let Selection::Job(id) = line {
                let job = LARGE.fleet.job(id).expect("it is there");
                let queue = job.queue.clone().expect("of a queue");
                assert!(lines.contains(&Selection::Queue(queue)));
                seen += 1;
            }
        }
    }
    assert!(seen > 0);
}

#[test]
fn a_key_opens_it_enter_opens_a_line_and_esc_leads_back() {
    let mut app = console(&LARGE, ViewId::Jobs, (200, 50), AppOptions::default());
    press(&mut app, "/state:running\nt");
    let shown = render_text(&app, 200, 50);
    assert!(shown.contains("tree of "), "{shown}");
    press(&mut app, "/kind:Node\n\n");
    let trail = app.trail();
    assert!(
        trail.len() == 2 && !trail[1].starts_with("tree"),
        "{trail:?}"
    );
    press(&mut app, "\u{1b}");
    assert!(
        app.trail()
            .last()
            .is_some_and(|last| last.starts_with("tree of "))
    );
    press(&mut app, "\u{1b}\u{1b}");
    assert_eq!(app.trail(), Vec::<String>::new(), "back in the jobs");
}

#[test]
fn the_palette_opens_the_tree_of_any_name() {
    let node = SMALL.fleet.nodes[0].name().clone();
    for verb in ["tree", "xray", "xray node"] {
        let mut app = app(&SMALL, ViewId::Fleet);
        press(&mut app, &format!(":{verb} {node}\n"));
        assert_eq!(
            app.trail().last(),
            Some(&format!("tree of {node}")),
            "{verb}"
        );
        assert_eq!(
            app.view().selection(&SMALL),
            Some(Selection::Node(node.clone()))
        );
    }
    let mut app = app(&SMALL, ViewId::Sources);
    press(&mut app, &format!("/{}\nt", SMALL.fleet.sources[0].name));
    assert!(
        app.notice()
            .is_some_and(|words| words.ends_with("has no tree"))
    );
}
