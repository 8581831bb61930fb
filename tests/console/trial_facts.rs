//! What trial users stumbled over in facts: readings of another's, failures that are over, who holds up a gang, what is lost.

use std::sync::Arc;
use std::time::Duration;

use console::{App, AppOptions, render_text};
use model::base::{DeviceAmount, Name, ObjectKey};
use model::cost::{Money, Spend, SpendScope};
use model::fleet::device::Device;
use model::fleet::finding::Severity;
use model::fleet::history::History;
use model::fleet::job::{Gang, Job, JobState};
use model::fleet::node::Node;
use model::fleet::observe::{SourceState, WorkloadFailure};
use model::fleet::pool::Unusable;
use model::fleet::signal::Signal;
use table::Facts;
use table::cell::Value;
use table::kinds::cost;
use table::navigation::{RowScope, ViewId};

use crate::frames::{LARGE, SMALL, console, press};

fn screen(facts: &Facts, view: ViewId, keys: &str, size: (u16, u16)) -> String {
    let mut app = console(facts, view, size, AppOptions::default());
    press(&mut app, keys);
    render_text(&app, size.0, size.1)
}

fn with_job(facts: &Facts, at: usize, change: impl FnOnce(&mut Job)) -> Facts {
    let mut facts = facts.clone();
    let fleet = Arc::make_mut(&mut facts.fleet);
    let mut jobs = fleet.jobs.to_vec();
    change(Arc::make_mut(&mut jobs[at]));
    fleet.jobs = jobs.into();
    facts
}

fn place(facts: &Facts, at: usize) -> String {
    let column = table::kinds::jobs::KIND
        .columns
        .iter()
        .find(|it| it.id == "place");
    let cell = (column.expect("there").cell)(facts, (0, at as u32));
    cell.value.words().expect("words").1.to_owned()
}

#[test]
fn a_new_pod_shows_no_reading_of_the_previous_holder() {
    let mut facts = SMALL.clone();
    let fleet = Arc::make_mut(&mut facts.fleet);
    let mut nodes: Vec<Arc<Node>> = fleet.nodes.to_vec();
    let held = |device: &Device| device.util().is_some() && device.held_since().is_some();
    let at = nodes.iter().position(|node| node.devices.iter().any(held));
    let at = at.expect("one is held and read");
    let node = Arc::make_mut(&mut nodes[at]);
    let within = node.devices.iter().position(held).expect("held");
    let device = &mut node.devices[within];
    let since = device.held_since().expect("held");
    device.read_at = Some(since.minus(Duration::from_secs(10)));
    fleet.nodes = nodes.into();
    let row = (at as u32, within as u32);
    let column = table::kinds::devices::KIND
        .columns
        .iter()
        .find(|it| it.id == "util");
    let column = column.expect("there");
    assert!(matches!(
        (column.cell)(&facts, row).value,
        Value::Trend(_, None)
    ));
    let trend = column.trend.expect("has a past");
    assert_eq!(trend(&facts, row).expect("a device").1, Some(since));
}

#[test]
fn what_restarted_is_over_and_what_failed_says_when() {
    let of = |state: JobState| SMALL.fleet.jobs.iter().position(|job| job.state == state);
    let at = of(JobState::Running).expect("one runs");
    let ago = |seconds| SMALL.now.minus(Duration::from_secs(seconds));
    let failure = WorkloadFailure {
        message: Name::new("OOMKilled"),
        exit_code: Some(137),
        restarts: 1,
        restarted: Some(ago(720)),
        ..WorkloadFailure::default()
    };
    let facts = with_job(&SMALL, at, |job| job.failure = Some(failure.clone()));
    let words = place(&facts, at);
    assert!(
        words.starts_with("restarted 12m ago after OOMKilled, exit code 137 · "),
        "{words}"
    );
    let facts = with_job(&SMALL, at, |job| {
        job.state = JobState::Failed;
        job.finished = Some(ago(720));
        job.failure = Some(WorkloadFailure {
            restarted: None,
            restarts: 0,
            ..failure
        });
    });
    assert_eq!(place(&facts, at), "12m ago: OOMKilled, exit code 137");
}

#[test]
fn a_gang_names_its_straggler() {
    let mut devices = LARGE.fleet.devices();
    let found = devices.find_map(|(node, device)| {
        let pod = device.holder.as_deref()?;
        let at = LARGE.fleet.jobs.iter().position(|job| job.id == pod.job)?;
        (LARGE.fleet.jobs[at].state == JobState::Running).then_some(())?;
        Some((node.name().clone(), device.id.clone(), pod, at))
    });
    let (node, id, pod, at) = found.expect("a job holds a device");
    let mut facts = with_job(&LARGE, at, |job| job.gang = Some(Gang { size: 8, min: 8 }));
    let fleet = Arc::make_mut(&mut facts.fleet);
    let mut findings = fleet.findings.to_vec();
    let mut straggler = findings[0].clone();
    straggler.code = Name::new("straggler");
    straggler.subject.kind = "Device";
    straggler.subject.key.name = id.clone();
    straggler.severity = Severity::Warn;
    straggler.message = String::from("its SM clock is low; likely cause: HW slowdown");
    findings.insert(0, straggler);
    fleet.findings = findings.into();
    let words = place(&facts, at);
    let expected = format!("straggler {} on {node}", pod.key().name);
    assert!(words.contains(&expected), "{words}");
    let keys = format!("/{}\nd", facts.fleet.jobs[at].id.key.name);
    let page = screen(&facts, ViewId::Jobs, &keys, (160, 50));
    assert!(
        page.contains(&format!("{id}: its SM clock is low;")),
        "{page}"
    );
}

#[test]
fn the_header_says_what_is_lost() {
    let mut facts = SMALL.clone();
    let fleet = Arc::make_mut(&mut facts.fleet);
    let mut sources = fleet.sources.to_vec();
    for source in &mut sources {
        source.state = SourceState::Live;
    }
    let exporter = sources.iter_mut().find(|one| one.gives_readings());
    exporter.expect("an exporter").state = SourceState::Lost;
    fleet.sources = sources.into();
    let frame = screen(&facts, ViewId::Fleet, "", (160, 44));
    let first = frame.lines().next().expect("a line");
    assert!(first.contains("1 exporter unreachable"), "{first}");
}

#[test]
fn a_pool_page_lists_unhealthy_devices_once() {
    let with = |unhealthy: u32| {
        let mut facts = SMALL.clone();
        let fleet = Arc::make_mut(&mut facts.fleet);
        let mut pools = fleet.pools.to_vec();
        let pool = &mut pools[0];
        pool.devices.free = pool.devices.free.max(DeviceAmount::ONE);
        pool.devices.unhealthy = unhealthy;
        pool.devices.unusable = Unusable {
            unhealthy: DeviceAmount::ONE,
            ..Unusable::default()
        };
        let keys = format!("/{}\nd", pool.name);
        fleet.pools = pools.into();
        screen(&facts, ViewId::Pools, &keys, (160, 44))
    };
    let page = with(1);
    assert_eq!(page.matches("unhealthy").count(), 1, "{page}");
    let page = with(3);
    assert!(page.contains("3 unhealthy in total"), "{page}");
}

#[test]
fn a_table_is_sorted_by_what_is_seen() {
    let mut app = console(&LARGE, ViewId::Jobs, (80, 24), AppOptions::default());
    let frame = render_text(&app, 80, 24);
    assert!(!frame.contains('↓') && !frame.contains('↑'), "{frame}");
    for press_number in 1..40 {
        press(&mut app, "s");
        let frame = render_text(&app, 80, 24);
        if !frame.contains('↓') && !frame.contains('↑') {
            assert!(press_number > 3, "some columns can be sorted by: {frame}");
            let table = app.view().table().expect("a table");
            assert_eq!(table.table_model.sorted(), None, "{frame}");
            return;
        }
    }
    panic!("the natural order never comes back");
}

#[test]
fn how_long_one_waits_and_how_long_one_runs_are_not_one_order() {
    let mut app = console(&LARGE, ViewId::Jobs, (200, 50), AppOptions::default());
    press(&mut app, ":sort wait-run\n");
    let states = |app: &App| -> Vec<JobState> {
        let table = app.view().table().expect("a table");
        let rows = table.table_model.rows().iter();
        rows.map(|row| LARGE.fleet.jobs[row.1 as usize].state)
            .collect()
    };
    let waits = |state: &JobState| matches!(state, JobState::Waiting | JobState::Suspended);
    for _ in 0..2 {
        let all = states(&app);
        let first = all.iter().take_while(|state| waits(state)).count();
        assert!(first > 1 && first < all.len(), "{all:?}");
        assert!(!all[first..].iter().any(waits), "{all:?}");
        press(&mut app, "o");
    }
    let foot = render_text(&app, 200, 50);
    assert!(foot.contains("sorted by WAIT/RUN, most first"), "{foot}");
    // After the last column comes the order at first, and it is named.
    for _ in 0..40 {
        press(&mut app, "s");
        if app
            .view()
            .table()
            .is_some_and(|table| table.table_model.sorted().is_none())
        {
            break;
        }
    }
    let foot = render_text(&app, 200, 50);
    assert!(foot.contains("default order"), "{foot}");
}

#[test]
fn faulty_jobs_are_those_that_fail_or_failed_lately() {
    let at = LARGE.fleet.jobs.iter();
    let at = at.clone().position(|job| job.state == JobState::Running);
    let at = at.expect("one runs");
    let is_listed = |minutes: u64, state: JobState| {
        let facts = with_job(&LARGE, at, |job| {
            job.state = state;
            job.failure = Some(WorkloadFailure {
                restarted: Some(LARGE.now.minus(Duration::from_secs(60 * minutes))),
                ..WorkloadFailure::default()
            });
        });
        let row = (0, at as u32);
        (table::kinds::jobs::KIND.faulty)(&facts, row)
    };
    assert!(is_listed(5, JobState::Running));
    assert!(!is_listed(24 * 60, JobState::Running));
    assert!(is_listed(24 * 60, JobState::Failed));
    assert!(!is_listed(5, JobState::Done));
}

#[test]
fn a_running_job_has_the_mark_of_its_worst_finding() {
    let is_well = |job: &Job| {
        job.state == JobState::Running
            && job.failure.is_none()
            && job.devices_allocated > 0
            && table::rows::jobs::worst(&LARGE, job).is_none()
    };
    let at = LARGE.fleet.jobs.iter().position(|job| is_well(job));
    let at = at.expect("one runs well");
    let job = &LARGE.fleet.jobs[at];
    let device = LARGE.fleet.devices().find(|(_, device)| {
        let mut holders = device.holders();
        holders.any(|(pod, _)| pod.job == job.id)
    });
    let device = device.expect("it holds one").1.id.clone();
    let marked = |kind: &'static str, severity: Severity, code: &str| {
        let mut facts = LARGE.clone();
        let fleet = Arc::make_mut(&mut facts.fleet);
        let mut finding = fleet.findings[0].clone();
        (finding.severity, finding.code) = (severity, Name::new(code));
        (finding.subject.kind, finding.subject.key) = match kind {
            "Job" => (kind, job.id.key.clone()),
            _ => (kind, ObjectKey::new("", device.clone())),
        };
        fleet.findings = vec![finding].into();
        let row = (0, at as u32);
        let kind = &table::kinds::jobs::KIND;
        let name = kind.columns.iter().find(|column| column.id == "job");
        let sign = name.and_then(|column| column.sign).expect("has a sign");
        (
            sign(&facts, row).0,
            (kind.faulty)(&facts, row),
            place(&facts, at).split(" · ").next().map(str::to_owned),
        )
    };
    let of = |words: &str| ("▲", true, Some(words.to_owned()));
    assert_eq!(
        marked("Job", Severity::Warn, "gang-stalled"),
        of("gang-stalled")
    );
    assert_eq!(
        marked("Device", Severity::Crit, "xid-79"),
        of(&format!("xid-79 on {device}"))
    );
    for (kind, severity, code) in [
        ("Job", Severity::Info, "under-used"),
        ("Device", Severity::Warn, "throttling"),
        ("Node", Severity::Crit, "node-not-ready"),
    ] {
        let (sign, is_faulty, _) = marked(kind, severity, code);
        assert_eq!((sign, is_faulty), ("●", false), "{code}");
    }
}

#[test]
fn a_finding_names_the_kind_of_its_workload() {
    let mut facts = with_job(&LARGE, 0, |job| job.id.kind = Name::new("Deployment"));
    let key = facts.fleet.jobs[0].id.key.clone();
    let fleet = Arc::make_mut(&mut facts.fleet);
    let mut finding = fleet.findings[0].clone();
    (finding.subject.kind, finding.subject.key) = ("Job", key.clone());
    fleet.findings = vec![finding].into();
    let page = screen(&facts, ViewId::Alerts, "", (200, 50));
    assert!(page.contains(&format!("Deployment {key}")), "{page}");
    assert!(!page.contains(&format!("Job {key}")), "{page}");
}

#[test]
fn the_panel_of_sources_is_that_of_the_cursor() {
    let mut facts = LARGE.clone();
    let fleet = Arc::make_mut(&mut facts.fleet);
    let mut sources = fleet.sources.to_vec();
    let kinds: std::collections::BTreeSet<_> = sources.iter().map(|one| one.kind.clone()).collect();
    sources
        .iter_mut()
        .for_each(|one| one.state = SourceState::Live);
    fleet.sources = sources.into();
    let mut app = console(&facts, ViewId::Sources, (160, 50), AppOptions::default());
    for _ in &kinds {
        let shown = render_text(&app, 160, 50);
        let name = shown.lines().find_map(|line| {
            let name = line.split('●').nth(1).filter(|_| line.starts_with('▌'))?;
            name.split_whitespace().next().map(str::to_owned)
        });
        let name = name.expect("a row is under the cursor");
        let titles = [format!("╭─ {name}"), format!("╭─ sources of {name}")];
        assert!(
            titles.iter().any(|it| shown.contains(it)),
            "{name}: {shown}"
        );
        press(&mut app, "j");
    }
}

/// The largest waste of all reads a few percent, and no device of it is idle.
#[test]
fn a_stalled_gang_is_in_the_waste_with_its_whole_cost() {
    let mut facts = LARGE.clone();
    let rows = facts
        .spend_rates
        .rows
        .get(&SpendScope::Job)
        .expect("jobs cost");
    let busy = rows.iter().filter(|row| {
        let none = |spend: Spend| spend.idle_allocated == Some(Money::ZERO);
        row.known().is_some_and(none) && facts.fleet.job_named(&row.name).is_some()
    });
    let most = busy.max_by_key(|row| row.known().map(|spend| spend.rate.all));
    let job = facts
        .fleet
        .job_named(&most.expect("one works").name)
        .expect("a job")
        .id
        .key
        .clone();
    let waste = |facts: &Facts| screen(facts, ViewId::Fleet, "$", (160, 60));
    let row_of = |screen: String| {
        let mut lines = screen.lines();
        let line = lines.find(|line| line.contains(&job.to_string()));
        line.map(str::to_owned)
    };
    assert_eq!(row_of(waste(&facts)), None, "it works");
    let mut stalled = facts.fleet.findings[0].clone();
    stalled.code = Name::new("gang-stalled");
    stalled.subject.kind = "Job";
    stalled.subject.key = job.clone();
    let fleet = Arc::make_mut(&mut facts.fleet);
    let others = fleet.findings.iter().cloned();
    fleet.findings = others.chain([stalled]).collect();
    let row = row_of(waste(&facts)).expect("it is listed");
    assert!(row.contains("gang-stalled"), "{row}");
}

/// A job of slices of unknown size has no number of devices, in whichever list it stands.
#[test]
fn the_waste_says_the_same_of_a_job_as_the_cost() {
    let mut facts = LARGE.clone();
    let burn = Arc::make_mut(&mut facts.spend_rates);
    let of_jobs = burn.rows.get_mut(&SpendScope::Job).expect("jobs cost");
    for row in of_jobs.iter_mut() {
        (row.devices, row.unknown_slices) = (DeviceAmount::ZERO, 1);
    }
    let rows = (cost::IDLE.collect)(&facts, &RowScope::Idle);
    assert!(!rows.is_empty(), "jobs have idle devices");
    for row in rows {
        for column in cost::IDLE.columns {
            let value = (column.cell)(&facts, row).value;
            if column.id == "devices" {
                assert_eq!(value, Value::Unknown);
            }
            if let Some(twin) = cost::KIND.columns.iter().find(|it| it.id == column.id) {
                assert_eq!(value, (twin.cell)(&facts, row).value, "{}", column.id);
            }
        }
    }
}

/// The alert waits for it to last; what the readings say already is not called idle.
#[test]
fn a_gang_that_has_stopped_is_waste_before_its_alert_fires() {
    let jobs = LARGE.fleet.jobs.iter().enumerate();
    let running = jobs.filter(|(_, job)| job.state == JobState::Running);
    let most = running.max_by_key(|(_, job)| job.devices_allocated);
    let (at, job) = most.expect("a job runs");
    let id = job.id.clone();
    let mut facts = with_job(&LARGE, at, |job| job.gang = Some(Gang { min: 2, size: 2 }));
    let end = facts.fleet.at;
    let mut history = History::default();
    // Half an hour at work, and then six minutes of next to nothing.
    for seconds in (0..2400).step_by(15) {
        let fleet = Arc::make_mut(&mut facts.fleet);
        fleet.at = end.plus(Duration::from_secs(seconds));
        let util = if seconds < 2000 { 0.9 } else { 0.03 };
        let mut nodes = fleet.nodes.to_vec();
        for node in &mut nodes {
            let held = |device: &Device| {
                let mut holders = device.holders();
                holders.any(|(pod, _)| pod.job == id)
            };
            if node.devices.iter().any(held) {
                for device in Arc::make_mut(node).devices.iter_mut().filter(|it| held(it)) {
                    device.read_at = Some(fleet.at);
                    device.signals = [(Signal::Util, util)].into_iter().collect();
                }
            }
        }
        fleet.nodes = nodes.into();
        history.record(fleet, &|_| (0.0, 0.0));
    }
    history.judge(&facts.fleet);
    let row_of = |facts: &Facts| {
        let screen = screen(facts, ViewId::Fleet, "$", (160, 60));
        let mut lines = screen.lines();
        let line = lines.find(|line| line.contains(&id.key.to_string()));
        line.map_or_else(String::new, str::to_owned)
    };
    assert!(!row_of(&facts).contains("gang-stalled"));
    facts.history = Arc::new(history);
    assert!(
        row_of(&facts).contains("gang-stalled"),
        "{}",
        row_of(&facts)
    );
}

#[test]
fn an_evicted_job_stays_the_first_of_those_that_wait() {
    let waits = |job: &Arc<Job>| job.state == JobState::Waiting;
    let mut jobs = LARGE.fleet.jobs.iter();
    let at = jobs.position(waits).expect("one waits");
    let facts = with_job(&LARGE, at, |job| {
        job.created = LARGE.now.minus(Duration::from_secs(400 * 86_400));
        job.waiting_since = Some(LARGE.now.minus(Duration::from_secs(26)));
        job.failure = Some(WorkloadFailure {
            last_eviction: job.waiting_since,
            ..WorkloadFailure::default()
        });
    });
    let job = &facts.fleet.jobs[at];
    let first = console::view::longest_waiting(&facts).first().copied();
    assert_eq!(first, Some(at as u32), "by its current wait it is the last");
    let page = screen(&facts, ViewId::Fleet, "b", (160, 50));
    assert!(page.contains(job.name().as_str()), "{page}");
    let words = table::rows::jobs::waited_words(job, |at| facts.now.since(at).to_string())
        .expect("it waits");
    assert!(
        words.starts_with("26s since") && words.ends_with(", created 400d00h ago"),
        "{words}"
    );
    let page = screen(&facts, ViewId::Fleet, "bd", (160, 50));
    assert!(page.contains(&words), "{page}");
    // The list shows what it goes by, and the current wait where there is room.
    for (width, shown) in [(120, "400d00h old "), (240, "400d00h old · 26s")] {
        let list = screen(&facts, ViewId::Fleet, "", (width, 50));
        assert!(list.contains(shown), "{list}");
    }
}
