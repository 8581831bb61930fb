//! Everything known of an object, as lines: for the facts popup, the heatmap's panel and the detail views.

use ratatui::layout::Rect;

use crate::console::brush::Brush;
use crate::console::text::{self, UNKNOWN, counted, percent};
use crate::console::theme::Role;
use crate::console::widget::bar::bar;
use crate::console::widget::cell::bytes_of;
use crate::console::widget::spark::spark;
use crate::fleet::device::{Attribution, Device};
use crate::fleet::finding::Finding;
use crate::fleet::history::Track;
use crate::fleet::job::Job;
use crate::fleet::node::Node;
use crate::fleet::signal::Signal;
use crate::report::Facts;

use super::{Picked, alerts, devices, jobs, nodes, pools, sources};

/// One line.
pub enum Line {
    /// A label and words.
    Words(&'static str, String, Role),
    /// A label, a share as a bar, and words.
    Bar(&'static str, f64, String, Role),
    /// A label and a past.
    Past(&'static str, Vec<Option<f32>>),
    /// Air.
    Gap,
}

/// An object's title, a note, and its lines.
#[derive(Default)]
pub struct Sheet {
    /// Its name.
    pub title: String,
    /// Where it is.
    pub note: String,
    /// What is known.
    pub lines: Vec<Line>,
}

impl Sheet {
    fn words(&mut self, label: &'static str, words: impl Into<String>, role: Role) {
        self.lines.push(Line::Words(label, words.into(), role));
    }

    fn known(&mut self, label: &'static str, words: Option<impl ToString>) {
        match words {
            Some(words) => self.words(label, words.to_string(), Role::Text),
            None => self.words(label, UNKNOWN, Role::Muted),
        }
    }

    fn gap(&mut self) {
        if !matches!(self.lines.last(), None | Some(Line::Gap)) {
            self.lines.push(Line::Gap);
        }
    }

    fn findings<'a>(&mut self, findings: impl Iterator<Item = &'a Finding>) {
        for finding in findings.take(4) {
            let (_, role) = alerts::sign(finding.severity);
            self.words("finding", finding.message.clone(), role);
            if !finding.repair.is_empty() {
                self.words("repair", finding.repair.clone(), Role::Warn);
            }
        }
    }
}

/// What is known of an object; nothing when it has gone.
pub fn describe(facts: &Facts, picked: &Picked, brush: &mut Brush<'_>) -> Option<Sheet> {
    let mut sheet = Sheet {
        title: picked.name(),
        ..Sheet::default()
    };
    match picked {
        Picked::Device(node, index) => {
            let node = facts.fleet.node(node)?;
            let device = node.devices.iter().find(|device| device.index == *index)?;
            of_device(&mut sheet, facts, node, device, brush);
        }
        Picked::Node(name) => of_node(&mut sheet, facts, facts.fleet.node(name)?, brush),
        Picked::Job(id) => of_job(&mut sheet, facts, facts.fleet.job(id)?, brush),
        Picked::Pod(key) => {
            let pod = facts.fleet.pod(key)?;
            sheet.known("job", Some(&pod.job));
            sheet.known("node", pod.seen.node.as_ref());
        }
        Picked::Pool(name) => of_pool(&mut sheet, facts, name)?,
        Picked::Finding(id) => {
            let finding = facts
                .fleet
                .findings
                .iter()
                .find(|finding| finding.id == *id)?;
            let (_, role) = alerts::sign(finding.severity);
            sheet.words("severity", finding.severity.name(), role);
            sheet.known("code", Some(&finding.code));
            sheet.words(
                "object",
                format!("{} {}", finding.subject.kind, finding.subject.key),
                Role::Title,
            );
            sheet.words("for", brush.age(finding.since), Role::Text);
            sheet.known("value", finding.value);
            sheet.known("threshold", finding.threshold);
            sheet.gap();
            sheet.words("message", finding.message.clone(), Role::Text);
            sheet.words("repair", finding.repair.clone(), Role::Warn);
        }
        Picked::Source(name) => {
            let source = facts
                .fleet
                .sources
                .iter()
                .find(|source| source.name == *name)?;
            let (_, role, word) = sources::state_of(source.state);
            sheet.words("state", word, role);
            sheet.known("kind", Some(&source.kind));
            let age = source.last_ok.map(|at| brush.age(at));
            sheet.known("answered", age.map(|age| format!("{age} ago")));
            sheet.known("latency", source.latency_ms.map(|ms| format!("{ms} ms")));
            sheet.known("errors", Some(source.errors));
            sheet.known("series used", source.series_used);
            sheet.known("skipped", source.series_skipped);
            sheet.known("calls/min", source.calls_per_minute);
            sheet.gap();
            sheet.words("message", source.message.clone(), Role::Warn);
        }
        Picked::Cost(scope, name) => {
            let row = facts.burn.row(*scope, name)?;
            sheet.note = format!("{} of cost", scope.name());
            sheet.known("devices", Some(row.devices));
            sheet.words("burn", format!("${}/h", row.spend.burn), Role::Accent);
            sheet.words("free", format!("${}/h", row.spend.free), Role::IdleMoney);
            sheet.words(
                "held idle",
                format!("${}/h", row.spend.idle_allocated),
                Role::IdleMoney,
            );
            sheet.known("no price", Some(row.unpriced));
            sheet.known("price from", row.price_source.as_ref());
            sheet.known("as of", row.price_as_of.as_ref());
        }
    }
    Some(sheet)
}

fn of_device(
    sheet: &mut Sheet,
    facts: &Facts,
    node: &Node,
    device: &Device,
    brush: &mut Brush<'_>,
) {
    sheet.title = format!("{} / gpu {}", node.name(), device.index);
    if device.kind == crate::fleet::accelerator::DeviceKind::Tpu {
        sheet.title = format!("{} / tpu {}", node.name(), device.index);
    }
    let place = [("rack", &node.rack), ("domain", &node.clique)];
    sheet.note = place
        .iter()
        .filter_map(|(what, name)| name.as_ref().map(|name| format!("{what} {name}")))
        .collect::<Vec<_>>()
        .join(" · ");
    let model = if device.model.is_empty() {
        &device.class
    } else {
        &device.model
    };
    sheet.known("model", Some(model));
    let (_, role, health) = devices::health_of(device);
    sheet.words("health", health, role);
    let about = |finding: &&Finding| {
        finding.subject.kind == "Device" && finding.subject.key.name == device.id
    };
    sheet.findings(facts.fleet.findings.iter().filter(about));
    sheet.gap();
    readings(sheet, facts, device);
    let age = device.read_at.map(|at| brush.age(at));
    match (device.is_stale(facts.now), age) {
        (true, Some(age)) => sheet.words("read", format!("{age} ago: stale"), Role::Warn),
        (false, Some(_)) => {}
        (_, None) => sheet.words("read", "never: no exporter speaks of it", Role::Muted),
    }
    if facts.history.since().is_some() {
        sheet.gap();
        let track = Track::DeviceUtil(device.id.clone());
        sheet.lines.push(Line::Past(
            "last hour",
            super::sheet::past(facts, &track, 40),
        ));
    }
    sheet.gap();
    holders(sheet, facts, device, brush);
    if let Some(rate) = facts.burn.nodes.get(node.name()) {
        let share = rate.share(1, node.devices.len() as u64);
        sheet.words("cost", format!("${share}/h"), Role::Accent);
    }
}

fn readings(sheet: &mut Sheet, facts: &Facts, device: &Device) {
    let stale = device.is_stale(facts.now);
    let hot = if stale { Role::Muted } else { Role::Accent };
    let util_role = match (stale, facts.fleet.is_idle(device)) {
        (true, _) => Role::Muted,
        (false, true) => Role::IdleMoney,
        (false, false) => Role::Accent,
    };
    match device.util() {
        Some(util) => {
            let idle = if util_role == Role::IdleMoney {
                "  idle"
            } else {
                ""
            };
            let words = format!("{}{idle}", percent(util));
            sheet.lines.push(Line::Bar("util", util, words, util_role));
        }
        None => sheet.words("util", UNKNOWN, Role::Muted),
    }
    match (device.memory(), device.memory_ratio()) {
        ((Some(used), Some(total)), Some(ratio)) => {
            let words = bytes_of(used, total).replace('/', " / ");
            sheet.lines.push(Line::Bar("memory", ratio, words, hot));
        }
        (_, Some(ratio)) => {
            sheet
                .lines
                .push(Line::Bar("memory", ratio, percent(ratio), hot));
        }
        _ => sheet.words("memory", UNKNOWN, Role::Muted),
    }
    if let Some(tensor) = device.signals.get(Signal::TensorActive) {
        sheet
            .lines
            .push(Line::Bar("tensor", tensor, percent(tensor), hot));
    }
    match (
        device.signals.get(Signal::Power),
        device.signals.get(Signal::PowerLimit),
    ) {
        (Some(watts), Some(limit)) if limit > 0.0 => {
            let words = format!("{watts:.0} / {limit:.0} W");
            sheet
                .lines
                .push(Line::Bar("power", watts / limit, words, hot));
        }
        (Some(watts), _) => sheet.words("power", format!("{watts:.0} W"), Role::Text),
        (None, _) => {}
    }
    if let Some(degrees) = device.signals.get(Signal::Temp) {
        let slowdown = device
            .signals
            .get(Signal::TempSlowdown)
            .or_else(|| {
                facts
                    .fleet
                    .policy
                    .catalog
                    .of_class(&device.class)?
                    .slowdown_celsius
            })
            .unwrap_or(90.0);
        let role = if degrees >= slowdown { Role::Crit } else { hot };
        sheet.lines.push(Line::Bar(
            "temp",
            degrees / slowdown.max(1.0),
            format!("{degrees:.0}°"),
            role,
        ));
    }
}

fn holders(sheet: &mut Sheet, facts: &Facts, device: &Device, brush: &mut Brush<'_>) {
    let Some((pod, attribution)) = device.first_holder() else {
        sheet.words("pod", "free: nobody holds it", Role::Muted);
        return;
    };
    sheet.words(
        "pod",
        format!("{}{}", pod.key(), attribution.mark()),
        Role::Title,
    );
    let how = match attribution {
        Attribution::Exporter => "stated by the exporter",
        Attribution::Claim => "stated by the API",
        Attribution::Counted => "~ counted: which of the node's devices is a guess",
        Attribution::None => "not known how",
    };
    sheet.words("", how, Role::Muted);
    let others = device.holders().count() - 1;
    if others > 0 {
        sheet.words(
            "",
            format!("and {}", counted(others as u64, "other pod")),
            Role::Muted,
        );
    }
    let job = facts.fleet.job(&pod.job);
    let mut words = pod.job.key.name.to_string();
    if let Some(job) = job {
        let class = job.class.as_ref().map_or("", |class| class.as_str());
        words.push_str(&format!(" · {} {class}", job.devices_allocated));
        if job.idle_devices > 0 {
            words.push_str(&format!(", {} idle", job.idle_devices));
        }
    }
    sheet.words("job", words, Role::Text);
    sheet.known("queue", pod.queue.as_ref());
    sheet.words("team", pod.team.to_string(), Role::Text);
    if let Some(since) = device.held_since() {
        sheet.words("held", brush.age(since), Role::Text);
    }
    if let Some(since) = device.idle_since {
        sheet.words("idle for", brush.age(since), Role::IdleMoney);
    }
}

fn of_node(sheet: &mut Sheet, facts: &Facts, node: &Node, brush: &mut Brush<'_>) {
    let (_, role, words) = nodes::state_of(facts, node);
    sheet.note = format!("pool {}", node.pool);
    sheet.words("state", words, role);
    if let Some(cordon) = &node.cordon {
        let by = cordon
            .by
            .as_ref()
            .map_or(String::new(), |by| format!(" by {by}"));
        let why = cordon
            .reason
            .as_ref()
            .map_or(String::new(), |why| format!(": {why}"));
        let ago = cordon
            .at
            .map_or(String::new(), |at| format!(" {} ago", brush.age(at)));
        sheet.words("cordoned", format!("yes{by}{ago}{why}"), Role::Warn);
    }
    for condition in &node.seen.conditions {
        let bad = (&*condition.kind == "Ready") != (condition.status == Some(true));
        if bad && condition.status.is_some() {
            sheet.words(
                "condition",
                format!(
                    "{} {} {}",
                    condition.kind, condition.reason, condition.message
                ),
                Role::Warn,
            );
        }
    }
    let about = |finding: &&Finding| {
        finding.subject.kind == "Node" && finding.subject.key.name == *node.name()
    };
    sheet.findings(facts.fleet.findings.iter().filter(about));
    sheet.known("type", node.instance_type.as_ref());
    let place: Vec<&str> = [&node.zone, &node.rack, &node.clique]
        .into_iter()
        .filter_map(|name| name.as_deref())
        .collect();
    sheet.known("place", (!place.is_empty()).then(|| place.join(" · ")));
    sheet.known("billing", node.billing.map(|billing| billing.name()));
    sheet.known("driver", node.driver.as_ref());
    sheet.words(
        "devices",
        format!(
            "{} seen, {} allocatable of {}",
            node.devices.len(),
            node.device_allocatable,
            node.device_capacity
        ),
        if node.device_allocatable < node.device_capacity {
            Role::Warn
        } else {
            Role::Text
        },
    );
    sheet.known(
        "power",
        node.power_watts()
            .map(|watts| format!("{:.1} kW", watts / 1000.0)),
    );
    if let Some(rate) = facts.burn.nodes.get(node.name()) {
        sheet.words("cost", format!("${rate}/h"), Role::Accent);
    }
    sheet.words("age", brush.age(node.seen.created), Role::Text);
}

fn of_job(sheet: &mut Sheet, facts: &Facts, job: &Job, brush: &mut Brush<'_>) {
    let (_, role) = jobs::sign(job.state);
    sheet.note = job.id.kind.to_string();
    sheet.words("state", job.state.name(), role);
    let reason = jobs::where_or_why(job);
    sheet.words(
        if job.devices_allocated > 0 {
            "place"
        } else {
            "reason"
        },
        reason,
        Role::Text,
    );
    if let Some(failure) = &job.failure {
        sheet.words("failure", jobs::why_failed(failure), Role::Crit);
    }
    let about =
        |finding: &&Finding| finding.subject.kind == "Job" && finding.subject.key == job.id.key;
    sheet.findings(facts.fleet.findings.iter().filter(about));
    let class = job.class.as_ref().map_or(UNKNOWN, |class| class.as_str());
    sheet.words(
        "devices",
        format!(
            "{} of {} {class}",
            job.devices_allocated, job.devices_requested
        ),
        Role::Text,
    );
    if let Some(gang) = job.gang {
        sheet.words(
            "gang",
            format!(
                "{}, at least {} together",
                counted(u64::from(gang.size), "pod"),
                gang.min
            ),
            Role::Text,
        );
    }
    let held = |job: &Job| match job.util {
        Some(util) => format!(
            "{}, {} idle",
            percent(util),
            counted(u64::from(job.idle_devices), "device")
        ),
        None => UNKNOWN.to_owned(),
    };
    if job.devices_allocated > 0 {
        sheet.words("util", held(job), Role::Text);
    }
    if let Some(serving) = &job.serving {
        sheet.words("serves", crate::report::text::serving(serving), Role::Text);
    }
    sheet.known("queue", job.queue.as_ref());
    sheet.words(
        "team",
        format!("{} · by {}", job.team, job.team_source.name()),
        Role::Text,
    );
    sheet.known("priority", job.priority);
    let chain: Vec<String> = job
        .chain
        .iter()
        .map(|owner| format!("{} {}", owner.kind, owner.name))
        .collect();
    if !chain.is_empty() {
        sheet.words("owners", chain.join(" ▸ "), Role::Muted);
    }
    sheet.words(
        "made",
        format!("{} ago", brush.age(job.created)),
        Role::Text,
    );
    if let Some(started) = job.started {
        sheet.words("started", format!("{} ago", brush.age(started)), Role::Text);
    }
    if let Some((spend, so_far)) = facts.burn.jobs.get(&job.id) {
        sheet.words(
            "cost",
            format!("${}/h · ${so_far} so far", spend.burn),
            Role::Accent,
        );
    }
}

fn of_pool(sheet: &mut Sheet, facts: &Facts, name: &str) -> Option<()> {
    let pool = facts.fleet.pool(name)?;
    sheet.note = pools::classes(pool);
    sheet.known("mode", pool.mode.map(|mode| mode.name()));
    let billing = pool.billing.map(|billing| billing.name());
    sheet.known(
        "billing",
        if pool.billing_mixed {
            Some("mixed")
        } else {
            billing
        },
    );
    sheet.known("owner", pool.owner.as_ref());
    sheet.words(
        "nodes",
        format!(
            "{} of {} ready, {} cordoned",
            pool.nodes.ready, pool.nodes.total, pool.nodes.cordoned
        ),
        Role::Text,
    );
    sheet.words(
        "devices",
        format!(
            "{}, {} held, {} free, {} unhealthy, {} held idle",
            pool.devices.total,
            pool.devices.allocated,
            pool.devices.free,
            pool.devices.unhealthy,
            pool.devices.idle_allocated
        ),
        Role::Text,
    );
    for class in &pool.classes {
        sheet.words(
            "class",
            format!("{} × {}", class.devices, class.class),
            Role::Text,
        );
    }
    sheet.known("util", pool.util.map(percent));
    sheet.known("memory", pool.mem_used.map(percent));
    sheet.known(
        "hottest",
        pool.temp_max.map(|degrees| format!("{degrees:.0}°")),
    );
    if let Some(row) = facts.burn.row(crate::cost::Scope::Pool, name) {
        sheet.words("burn", format!("${}/h", row.spend.burn), Role::Accent);
        sheet.words(
            "idle",
            format!(
                "${}/h free, ${}/h held",
                row.spend.free, row.spend.idle_allocated
            ),
            Role::IdleMoney,
        );
        sheet.known("price from", row.price_source.as_ref());
    }
    Some(())
}

/// Cells of the labels.
const LABEL: u16 = 12;

/// Draws lines from `skip` on; words that are too long go on below themselves. Returns the lines that all would take.
pub fn draw_lines(brush: &mut Brush<'_>, area: Rect, lines: &[Line], skip: usize) -> usize {
    let label = LABEL.min(area.width / 3);
    let room = area.width.saturating_sub(label);
    let graphic = room.saturating_sub(14).min(24);
    let mut at = 0usize;
    let mut slot = |height: usize| -> Vec<Option<u16>> {
        let rows = (at..at + height)
            .map(|line| {
                let y = line.checked_sub(skip)?;
                (y < usize::from(area.height)).then(|| area.y + y as u16)
            })
            .collect();
        at += height;
        rows
    };
    for line in lines {
        match line {
            Line::Gap => {
                slot(1);
            }
            Line::Words(name, words, role) => {
                let clean = text::clean(words, brush.ink.ascii).into_owned();
                let wrapped = text::wrap(&clean, usize::from(room));
                let rows = slot(wrapped.len());
                for (part, y) in wrapped.iter().zip(rows) {
                    if let Some(y) = y {
                        brush.say(area.x + label, y, room, part, *role);
                        if std::ptr::eq(part, &wrapped[0]) {
                            brush.say(area.x, y, label, name, Role::Muted);
                        }
                    }
                }
            }
            Line::Bar(name, ratio, words, role) => {
                if let Some(y) = slot(1)[0] {
                    brush.say(area.x, y, label, name, Role::Muted);
                    let x = area.x + label;
                    if graphic >= 4 {
                        bar(brush, x, y, graphic, *ratio, *role);
                        let rest = room - graphic - 1;
                        brush.say(x + graphic + 1, y, rest, words, Role::Text);
                    } else {
                        brush.say(x, y, room, words, Role::Text);
                    }
                }
            }
            Line::Past(name, values) => {
                if let Some(y) = slot(1)[0] {
                    brush.say(area.x, y, label, name, Role::Muted);
                    let skip = values.len().saturating_sub(usize::from(room));
                    spark(brush, area.x + label, y, &values[skip..], false);
                }
            }
        }
    }
    at
}
