//! What stands where: sources by kind, alerts by node, quotas by flavor, and the panels of the fleet under the cursor.

use std::collections::BTreeMap;
use std::sync::Arc;

use console::table_model::TableModel;
use console::{AppOptions, render_text};
use model::base::Name;
use model::fleet::device::Slice;
use model::fleet::finding::Severity;
use model::fleet::node::Node;
use model::fleet::observe::SourceState;
use table::Facts;
use table::column::{KindSpec, Row};
use table::kinds::queues;
use table::kinds::{alerts, sources};
use table::navigation::{RowScope, Selection, ViewId};

use crate::frames::{LARGE, SMALL, console, press};

fn rows(facts: &Facts, kind: &'static KindSpec, row_scope: RowScope) -> Vec<Row> {
    let mut model = TableModel::new(kind, row_scope);
    model.refresh(facts, true);
    model.rows().to_vec()
}

#[test]
fn sources_are_a_row_a_kind_and_broken_ones_have_their_own() {
    let mut folded = 0;
    for facts in [&SMALL, &LARGE] {
        let mut kinds: BTreeMap<&Name, usize> = BTreeMap::new();
        for source in facts.fleet.sources.iter() {
            *kinds.entry(&source.kind).or_default() += 1;
        }
        let single = |kind: &Name| kinds[kind] == 1;
        let selected: Vec<Option<Selection>> = rows(facts, &sources::KIND, RowScope::All)
            .into_iter()
            .map(|row| (sources::KIND.selection)(facts, row))
            .collect();
        let several = kinds.values().filter(|count| **count > 1).count();
        let heads = selected.iter().filter(|selection| selection.is_none());
        assert_eq!(heads.count(), several);
        folded += several;
        for source in facts.fleet.sources.iter() {
            let well = matches!(source.state, SourceState::Live | SourceState::NotVisible);
            let shown = selected.contains(&Some(Selection::Source(source.name.clone())));
            assert_eq!(shown, single(&source.kind) || !well, "{}", source.name);
        }
        for kind in kinds.keys() {
            let of_kind = RowScope::Sources(Some((*kind).clone()));
            let all = rows(facts, &sources::KIND, of_kind);
            assert_eq!(all.len(), kinds[kind], "{kind}");
        }
    }
    assert!(folded > 0);
}

#[test]
fn a_search_finds_a_source_that_is_folded_away() {
    let live = |facts: &Facts| {
        let mut sources = facts.fleet.sources.iter();
        let found = sources.find(|source| {
            let alike = facts.fleet.sources.iter();
            let alike = alike.filter(|other| other.kind == source.kind).count();
            source.state == SourceState::Live && source.gives_readings() && alike > 1
        });
        found.expect("one of several").name.clone()
    };
    let name = live(&LARGE);
    let last = name.rsplit(['/', ' ']).next().expect("a word").to_owned();
    let mut app = console(&LARGE, ViewId::Sources, (200, 50), AppOptions::default());
    assert!(!render_text(&app, 200, 50).contains(&last));
    press(&mut app, &format!("/{last}\n"));
    assert!(render_text(&app, 200, 50).contains(&last));
    press(&mut app, "\u{1b}");
    assert!(!render_text(&app, 200, 50).contains(&last), "folded again");
}

#[test]
fn alerts_of_one_node_stand_together_and_the_worst_is_first() {
    let order = |facts: &Facts| -> Vec<u32> {
        let rows = rows(facts, &alerts::KIND, RowScope::All);
        rows.into_iter().map(|row| row.0).collect()
    };
    // The node of the first has one more that is as bad, the last that is told.
    let mut facts = LARGE.clone();
    let mut fleet = (*facts.fleet).clone();
    let mut all = fleet.findings.to_vec();
    let device = all.iter().find(|finding| finding.subject.kind == "Device");
    let mut least = device.expect("one is of a device").clone();
    assert_eq!(least.severity, Severity::Crit);
    least.id = Name::new("least");
    let node = least.subject.key.name.rsplit_once('/').expect("NODE/gpu").0;
    least.subject.key.name = Name::from(format!("{node}/gpu7"));
    all.push(least);
    fleet.findings = all.into();
    facts.fleet = Arc::new(fleet);
    let mut together = 0;
    for facts in [&*SMALL, &facts] {
        let order = order(facts);
        let mut all = order.clone();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..facts.fleet.findings.len() as u32));
        let loud = |at: &u32| {
            let finding = &facts.fleet.findings[*at as usize];
            facts.silences.of(finding, facts.now).is_none()
        };
        let host = |at: &u32| {
            let subject = &facts.fleet.findings[*at as usize].subject;
            let name = subject.key.to_string();
            match subject.kind {
                "Device" => name.split('/').next().unwrap_or_default().to_owned(),
                kind => format!("{}{name}", if kind == "Node" { "" } else { kind }),
            }
        };
        let severity = |at: &u32| facts.fleet.findings[*at as usize].severity;
        let loud: Vec<u32> = order.iter().copied().filter(|at| loud(at)).collect();
        assert!(loud.iter().map(severity).is_sorted(), "the worst first");
        let hosts: Vec<String> = (loud.iter())
            .map(|at| format!("{:?} {}", severity(at), host(at)))
            .collect();
        let mut begun: Vec<&String> = Vec::new();
        for pair in hosts.windows(2) {
            if pair[0] == pair[1] {
                together += 1;
            } else {
                begun.push(&pair[0]);
                assert!(!begun.contains(&&pair[1]), "{} stands twice", pair[1]);
            }
        }
        if let Some(first) = order.first() {
            let worst = (facts.fleet.findings.iter()).map(|finding| finding.severity);
            let first = facts.fleet.findings[*first as usize].severity;
            assert_eq!(Some(first), worst.min());
        }
    }
    assert!(together > 0, "no node has two alerts: nothing was tried");
}

#[test]
fn a_quota_is_under_its_flavor_in_every_row() {
    let mut quotas = 0;
    for facts in [&SMALL, &LARGE] {
        let columns = queues::KIND.columns.iter();
        let columns = columns.filter(|column| column.id.starts_with("quota"));
        for column in columns {
            let title = column.title(facts);
            let flavor = title.trim_end_matches(" used/quota");
            for row in rows(facts, &queues::KIND, RowScope::All) {
                let Some(queue) = facts.fleet.queues.get(row.1 as usize) else {
                    continue;
                };
                let own = (queue.quotas.iter()).any(|quota| {
                    quota.flavor.as_str() == flavor
                        && quota.measure == model::fleet::queue::Measure::MilliDevices
                });
                let cell = (column.cell)(facts, row).value;
                let shown = matches!(cell, table::cell::Value::Quota(_));
                assert!(shown || !own, "{flavor} of {}", queue.name());
                quotas += usize::from(own);
            }
        }
    }
    assert!(quotas > 0);
}

#[test]
fn tab_leads_through_the_panels_of_the_fleet_and_enter_opens_what_is_there() {
    for size in [(200, 50), (80, 24)] {
        let mut app = console(&LARGE, ViewId::Fleet, size, AppOptions::default());
        let kind = |app: &console::App| match app.view().selection(&LARGE) {
            Some(Selection::Pool(_)) => "pool",
            Some(Selection::Job(_)) => "job",
            Some(Selection::Cost(..)) => "team",
            Some(Selection::Finding(_)) => "finding",
            other => panic!("{other:?}"),
        };
        let mut seen = vec![kind(&app)];
        for _ in 0..4 {
            press(&mut app, "\t");
            seen.push(kind(&app));
        }
        // As they are drawn, and as help says.
        let wanted: &[&str] = match size.0 {
            200 => &["pool", "job", "team", "finding", "pool"],
            _ => &["pool", "job", "finding", "pool", "job"],
        };
        assert_eq!(seen, wanted);
        let text = render_text(&app, size.0, size.1);
        let place = |words: &str| text.find(words).expect(words);
        assert!(
            place("waiting, longest first") < place("needs you"),
            "{text}"
        );
    }
    let mut app = console(&LARGE, ViewId::Fleet, (200, 50), AppOptions::default());
    press(&mut app, "\tj");
    let Some(Selection::Job(job)) = app.view().selection(&LARGE) else {
        panic!("a waiting job is under the cursor");
    };
    assert!(render_text(&app, 200, 50).contains(&job.to_string()));
    press(&mut app, "G");
    let Some(Selection::Job(last)) = app.view().selection(&LARGE) else {
        panic!("a waiting job is under the cursor");
    };
    assert_ne!(last, job);
    assert!(
        render_text(&app, 200, 50).contains(&last.to_string()),
        "in sight"
    );
    press(&mut app, "\n");
    assert!(
        app.trail()
            .iter()
            .any(|part| part.contains(&last.to_string()))
    );
}

#[test]
fn a_node_of_shared_devices_says_which_sizes_of_slice_are_free() {
    let mut facts = LARGE.clone();
    let mut nodes = facts.fleet.nodes.to_vec();
    let is_open = |node: &Node| node.ready == Some(true) && node.cordon.is_none();
    let device = |node: &Node| {
        let mut all = node.devices.iter();
        all.position(|device| device.holder.is_some() && !device.health.is_fault())
    };
    let mut found = nodes.iter().enumerate();
    let found = found.find_map(|(at, node)| Some((at, device(node).filter(|_| is_open(node))?)));
    let (at, cut) = found.expect("such a node");
    let node = Arc::make_mut(&mut nodes[at]);
    let device = &mut node.devices[cut];
    let pod = device.holder.take();
    let small = Name::new("nvidia.com/mig-1g.10gb");
    let large = Name::new("nvidia.com/mig-3g.40gb");
    let named = |name: &str, size| Slice::free(Name::new(name), size);
    device.slices = Box::new([
        named("1g.10gb-0", &small),
        named("1g.10gb-1", &small),
        named("1g.10gb-2", &small),
        named("3g.40gb-0", &large),
    ]);
    device.slices[1].holder = pod;
    let name = node.name().clone();
    Arc::make_mut(&mut facts.fleet).nodes = nodes.clone().into();
    let page = |facts: &Facts| {
        let mut app = console(facts, ViewId::Nodes, (200, 50), AppOptions::default());
        press(&mut app, &format!("/{name}\n\n"));
        render_text(&app, 200, 50)
    };
    let text = page(&facts);
    let free = "mig-1g.10gb 2 of 3, mig-3g.40gb 1 of 1";
    assert!(text.contains(free), "{text}");
    // What no pod can start on is not free.
    Arc::make_mut(&mut nodes[at]).ready = Some(false);
    Arc::make_mut(&mut facts.fleet).nodes = nodes.into();
    let text = page(&facts);
    let none = "mig-1g.10gb 0 of 3 (2 more not usable)";
    assert!(text.contains(none), "{text}");
}
