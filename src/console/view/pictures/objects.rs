//! Which pictures an object has: a pool, a node, a device, a job, a service, a team, a queue.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::{Curve, Drawing, ObjectPicture, PartKey, TeamPart, cost, waiting};
use crate::text::{counted, dollars_of, per_hour};
use crate::view::subject;
use crate::widget::team_letters::TeamLetters;
use model::base::quantities::grouped;
use model::base::{Name, SmallSort, natural};
use model::cost::SpendScope;
use model::fleet::device::Device;
use model::fleet::history::{FleetSignal, ServedSignal, Track};
use model::fleet::job::{Job, JobKey, JobState};
use model::fleet::node::Node;
use model::fleet::observe::SourceHealth;
use model::fleet::pool::Unusable;
use model::fleet::signal::Signal;
use table::Facts;
use table::kinds::sources::is_well;
use table::navigation::Selection;
use table::role::Role;
use table::text::{bounded_latency, whole_percent};

/// Teams that a picture of shared devices names.
const MOST_TEAMS: usize = 9;

fn percent(share: f32) -> String {
    whole_percent(f64::from(share))
}
fn devices(count: f32) -> String {
    grouped(count.round() as i64)
}
fn dollars(usd: f32) -> String {
    dollars_of(f64::from(usd))
}
fn degrees(celsius: f32) -> String {
    format!("{celsius:.0}°")
}
fn watts(watts: f32) -> String {
    format!("{watts:.0} W")
}
fn seconds(seconds: f32) -> String {
    bounded_latency(f64::from(seconds), false)
}

fn curve(
    title: &str,
    note: String,
    track: Track,
    role: Role,
    words: fn(f32) -> String,
) -> ObjectPicture {
    let curve = Curve {
        track,
        role,
        scale: 1.0,
        words,
        limit: None,
        now: None,
    };
    ObjectPicture::new(title, note, Drawing::Curve(curve))
}

/// The pictures of an object, the most useful first. Curves are left out until there is history.
pub fn of_selection(facts: &Facts, selection: &Selection) -> Vec<ObjectPicture> {
    let mut all = all_of(facts, selection);
    if facts.history.since().is_none() {
        let is_past =
            |it: &ObjectPicture| matches!(it.drawing, Drawing::Curve(_) | Drawing::Sparks(_));
        all.retain(|picture| !is_past(picture));
    }
    all
}

fn all_of(facts: &Facts, selection: &Selection) -> Vec<ObjectPicture> {
    match selection {
        Selection::Pool(name) | Selection::Cost(SpendScope::Pool, name) => of_pool(facts, name),
        Selection::Node(name) => facts
            .fleet
            .node(name)
            .map_or_else(Vec::new, |node| of_node(facts, node)),
        Selection::Device(node, index) => {
            let node = facts.fleet.node(node);
            let device = node.and_then(|node| node.device(*index));
            device.map_or_else(Vec::new, of_device)
        }
        Selection::Job(key) => of_job(facts, key),
        Selection::Pod(key) => {
            let pod = facts.fleet.pod(key);
            let job = pod.map(|pod| pod.job.clone());
            job.map_or_else(Vec::new, |job| of_job(facts, &job))
        }
        Selection::Queue(name) | Selection::Cost(SpendScope::Queue, name) => {
            waiting::of_queue_named(facts, Some(name), None)
        }
        Selection::Finding(id) => match subject::behind(facts, id) {
            Some(Selection::Finding(_) | Selection::Source(_)) | None => Vec::new(),
            Some(behind) => all_of(facts, &behind),
        },
        Selection::Cost(SpendScope::Team, name) => {
            cost::of_days(facts, Some(name)).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

fn of_pool(facts: &Facts, name: &Name) -> Vec<ObjectPicture> {
    let Some(pool) = facts.fleet.pool(name) else {
        return Vec::new();
    };
    let track = |signal| Track::Pool(name.clone(), signal);
    let util = pool.util.map_or_else(String::new, whole_percent);
    let counts = pool.counts();
    let total = counts.total.map_or_else(String::new, |total| {
        format!("of {}", grouped(i64::from(total)))
    });
    let rate = facts.whole_burn().row(SpendScope::Pool, name);
    let idle = rate.and_then(|row| row.known()?.idle());
    let mut allocated = curve(
        "allocated devices",
        total,
        track(FleetSignal::Allocated),
        Role::Text,
        devices,
    );
    if let Drawing::Curve(curve) = &mut allocated.drawing {
        curve.scale = pool.devices.total as f32;
    }
    let waits = pool.waiting_devices;
    let waits = format!("now {}", grouped(i64::from(waits)));
    let mut all = vec![
        curve(
            "utilization",
            util,
            track(FleetSignal::Util),
            Role::Text,
            percent,
        ),
        allocated,
        curve(
            "devices and slices requested by waiting jobs",
            waits,
            track(FleetSignal::Waiting),
            Role::Text,
            devices,
        ),
        curve(
            "idle $/h",
            per_hour(idle),
            track(FleetSignal::Idle),
            Role::IdleMoney,
            dollars,
        ),
    ];
    // What is counted of all pods is not known to who sees some.
    all.truncate(if facts.fleet.sees_devices() {
        4
    } else {
        usize::from(pool.util.is_some())
    });
    let nodes = facts.fleet.nodes.iter();
    let nodes = nodes.filter(|node| node.pool == *name);
    if let Some(parts) = of_parts(facts, nodes.map(|node| &**node)) {
        all.insert(0, parts);
    }
    all
}

/// The parts of shared devices, by team; `None` where no device has slices.
fn of_parts<'a>(facts: &Facts, nodes: impl Iterator<Item = &'a Node>) -> Option<ObjectPicture> {
    let shared = nodes.flat_map(Unusable::devices);
    let shared = shared.filter(|(device, _)| !device.slices.is_empty());
    let rows = shared.map(|(device, is_out)| {
        let cells = device.cells().map(|cell| {
            let is_uncut = cell.slice.is_none() && !device.uncut().is_zero();
            let resource = cell.slice.and_then(|slice| slice.resource.as_deref());
            Holding {
                teams: cell.holder.map(|pod| &pod.team).into_iter().collect(),
                device,
                size: resource.map(size_of_slice),
                is_unusable: is_out || is_uncut,
            }
        });
        (device.id.to_string(), cells.collect())
    });
    by_team(facts, "slices by team", "device", rows.collect())
}

/// Who has the devices of a class, node by node, a device a part.
pub(super) fn of_class(facts: &Facts, class: &Name) -> Option<ObjectPicture> {
    let nodes = facts.fleet.nodes.iter().filter_map(|node| {
        let own = Unusable::devices(node).filter(|(device, _)| device.class == *class);
        let own = own.map(|(device, is_unusable)| Holding {
            teams: device.holders().map(|(pod, _)| &pod.team).collect(),
            device,
            size: None,
            is_unusable,
        });
        let own: Vec<Holding<'_>> = own.collect();
        (!own.is_empty()).then(|| (node.name().to_string(), own))
    });
    let mut nodes: Vec<(String, Vec<Holding<'_>>)> = nodes.collect();
    nodes.small_sort_by(|one, other| natural(&one.0, &other.0));
    by_team(
        facts,
        &format!("who has the {class} devices, by node"),
        "node",
        nodes,
    )
}

/// The size of the slices of a resource: `1g.10gb` of `nvidia.com/mig-1g.10gb`.
fn size_of_slice(resource: &str) -> &str {
    let name = resource.rsplit('/').next().unwrap_or(resource);
    name.strip_prefix("mig-").unwrap_or(name)
}

/// A device, or a part of one.
struct Holding<'a> {
    /// The teams that it is allocated to.
    teams: BTreeSet<&'a Name>,
    device: &'a Device,
    /// The size of a slice: `1g.10gb`.
    size: Option<&'a str>,
    /// A new pod cannot use it where it is free.
    is_unusable: bool,
}

/// A part with the size of its slice.
type SizedPart<'a> = (TeamPart, Option<&'a str>);

/// Parts by team, a row for each entry; `None` without a row.
fn by_team(
    facts: &Facts,
    title: &str,
    unit: &str,
    rows: Vec<(String, Vec<Holding<'_>>)>,
) -> Option<ObjectPicture> {
    if rows.is_empty() {
        return None;
    }
    let note = counted(rows.len() as u64, unit);
    let letters = TeamLetters::of(facts);
    let part_of = |own: &Holding<'_>| match (own.teams.first(), own.teams.len()) {
        (None, _) if own.device.health.is_fault() => TeamPart::Fault,
        (None, _) if facts.fleet.sees_devices() && own.is_unusable => TeamPart::Unusable,
        (None, _) if facts.fleet.sees_devices() => TeamPart::Free,
        (None, _) => TeamPart::Unknown,
        (Some(team), 1) => letters.place(team).map_or(TeamPart::NoTeam, TeamPart::Team),
        _ => TeamPart::Several,
    };
    let rows = rows.iter().map(|(name, parts)| {
        let parts = parts.iter().map(|own| (part_of(own), own.size));
        (name.clone(), parts.collect())
    });
    let mut rows: Vec<(String, Vec<SizedPart<'_>>)> = rows.collect();
    let mut teams: BTreeMap<usize, usize> = BTreeMap::new();
    for (part, _) in rows.iter().flat_map(|row| &row.1) {
        if let TeamPart::Team(at) = part {
            *teams.entry(*at).or_default() += 1;
        }
    }
    // Those with most have a line in the legend.
    let mut teams: Vec<(usize, usize)> = teams.into_iter().collect();
    teams.small_sort_by_key(|(at, count)| (Reverse(*count), *at));
    let named: BTreeSet<usize> = teams.iter().take(MOST_TEAMS).map(|(at, _)| *at).collect();
    let mut sizes: BTreeMap<TeamPart, BTreeMap<Option<&str>, usize>> = BTreeMap::new();
    for (part, size) in rows.iter_mut().flat_map(|row| &mut row.1) {
        if matches!(part, TeamPart::Team(at) if !named.contains(at)) {
            *part = TeamPart::Others;
        }
        *sizes.entry(*part).or_default().entry(*size).or_default() += 1;
    }
    let others = [
        (TeamPart::Others, "other teams"),
        (TeamPart::NoTeam, "no team"),
        (TeamPart::Several, "several teams"),
        (TeamPart::Free, "free"),
        (TeamPart::Unusable, "free, not usable"),
        (TeamPart::Fault, "fault"),
        (TeamPart::Unknown, "not visible to you"),
    ];
    let legend = named
        .iter()
        .map(|at| (TeamPart::Team(*at), letters.name(*at)))
        .chain(others)
        .filter_map(|(part, name)| {
            let own = sizes.get(&part)?;
            let of_size =
                |(size, count): (&Option<&str>, &usize)| Some(format!("{count} × {}", (*size)?));
            let known: Vec<String> = own.iter().filter_map(of_size).collect();
            Some(PartKey {
                part,
                words: format!("{name} {}", own.values().sum::<usize>()),
                sizes: match known.is_empty() {
                    true => String::new(),
                    false => format!(": {}", known.join(", ")),
                },
            })
        });
    let legend = legend.collect();
    let signs = rows
        .into_iter()
        .map(|(name, parts)| (name, parts.into_iter().map(|(part, _)| part).collect()));
    let rows = signs.collect();
    Some(ObjectPicture::new(
        title,
        note,
        Drawing::Parts(rows, legend),
    ))
}

fn of_node(facts: &Facts, node: &Node) -> Vec<ObjectPicture> {
    let list = |title: &str,
                track: fn(Name) -> Track,
                most: f32,
                signal: &dyn Fn(&Device) -> Option<String>| {
        let rows = node.devices.iter().map(|device| {
            let words = signal(device).unwrap_or_else(|| String::from("–"));
            (
                format!("{}", device.index),
                track(device.id.clone()),
                most,
                words,
            )
        });
        ObjectPicture::new(
            title,
            "by device, the last hour",
            Drawing::Sparks(rows.collect()),
        )
    };
    let hot = |device: &Device| {
        device
            .signals
            .get(Signal::Temp)
            .map(|value| degrees(value as f32))
    };
    let power = |device: &Device| {
        device
            .signals
            .get(Signal::Power)
            .map(|value| watts(value as f32))
    };
    let limit = node
        .devices
        .iter()
        .filter_map(|device| device.signals.get(Signal::PowerLimit));
    let limit = limit.fold(0.0, f64::max) as f32;
    let mut all = vec![list("utilization", Track::DeviceUtil, 1.0, &|device| {
        device.util().map(whole_percent)
    })];
    let has = |signal| {
        node.devices
            .iter()
            .any(|device| device.signals.get(signal).is_some())
    };
    if node
        .devices
        .iter()
        .any(|device| device.memory_ratio().is_some())
    {
        let memory = |device: &Device| device.memory_ratio().map(whole_percent);
        all.push(list("memory", Track::DeviceMemory, 1.0, &memory));
    }
    if has(Signal::Temp) {
        all.push(list("temperature", Track::DeviceTemp, 100.0, &hot));
    }
    if has(Signal::Power) && limit > 0.0 {
        all.push(list("power", Track::DevicePower, limit, &power));
    }
    all.extend(of_parts(facts, std::iter::once(node)));
    all
}

fn of_device(device: &Device) -> Vec<ObjectPicture> {
    let id = || device.id.clone();
    let now = |words: Option<String>| words.unwrap_or_default();
    let signal = |signal| device.signals.get(signal);
    let util = now(device.util().map(whole_percent));
    let memory = now(device.memory_ratio().map(whole_percent));
    let mut all = vec![
        curve(
            "utilization",
            util,
            Track::DeviceUtil(id()),
            Role::Text,
            percent,
        ),
        curve(
            "memory",
            memory,
            Track::DeviceMemory(id()),
            Role::Info,
            percent,
        ),
    ];
    if let Some(value) = signal(Signal::Temp) {
        all.push(curve(
            "temperature",
            degrees(value as f32),
            Track::DeviceTemp(id()),
            Role::Text,
            degrees,
        ));
    }
    if let Some(value) = signal(Signal::Power) {
        all.push(curve(
            "power",
            watts(value as f32),
            Track::DevicePower(id()),
            Role::Text,
            watts,
        ));
    }
    all
}

fn of_job(facts: &Facts, key: &JobKey) -> Vec<ObjectPicture> {
    let Some(job) = facts.fleet.job(key) else {
        return Vec::new();
    };
    let mut all = match job.state {
        JobState::Waiting | JobState::Suspended => waiting::of_job(facts, job),
        // What it would find if it ran again.
        JobState::Failed | JobState::Done => {
            waiting::of_queue_named(facts, job.queue.as_ref(), job.class.as_ref())
        }
        _ => Vec::new(),
    };
    if let Some(serving) = &job.serving {
        let limits = serving.served.iter();
        let limit = limits
            .filter_map(|model| model.objectives.ttft)
            .reduce(f64::min);
        let served = |title, signal: ServedSignal, role, words: fn(f32) -> String| {
            let now = signal.now(serving).map(|value| value as f32);
            let note = now.map_or_else(String::new, |now| format!("now {}", words(now)));
            let mut all = curve(title, note, Track::Served(key.clone(), signal), role, words);
            if let Drawing::Curve(curve) = &mut all.drawing {
                curve.now = now;
            }
            all
        };
        let title = "time to first token p95";
        let mut ttft = served(title, ServedSignal::Ttft, Role::Text, seconds);
        if let (Drawing::Curve(curve), Some(limit)) = (&mut ttft.drawing, limit) {
            curve.limit = Some(limit as f32);
            let line = format!("objective {}", seconds(limit as f32));
            ttft.note = match curve.now {
                Some(now) => format!("{} · {line}", seconds(now)),
                None => line,
            };
        }
        let waiting = ServedSignal::Waiting;
        let title = "KV cache, fullest replica";
        all.extend([
            ttft,
            served("requests waiting", waiting, Role::Text, devices),
            served(title, ServedSignal::KvCache, Role::Info, percent),
            served("output tokens/s", ServedSignal::Tokens, Role::Text, devices),
        ]);
    }
    all.extend(of_gang(facts, job));
    all
}

/// Utilization of a job's devices, the lowest first: those that hold up the others are red.
fn of_gang(facts: &Facts, job: &Job) -> Option<ObjectPicture> {
    let held = job.places.iter().filter_map(|place| {
        let device = facts.fleet.node(&place.node)?.device(place.device)?;
        Some((
            device,
            device.util().filter(|_| device.is_fresh(facts.now))?,
        ))
    });
    let mut held: Vec<(&Device, f64)> = held.collect();
    if held.len() < 2 {
        return None;
    }
    held.small_sort_by(|one, other| one.1.total_cmp(&other.1));
    let findings = || facts.fleet.findings.iter();
    let is_behind = |device: &Device| {
        findings().any(|it| it.code.as_str() == "straggler" && it.subject.key.name == device.id)
    };
    let least = held.first().map_or_else(String::new, |(device, util)| {
        format!("lowest {} at {}", device.id, whole_percent(*util))
    });
    let behind = held.iter().filter(|(device, _)| is_behind(device)).count();
    let title = match behind {
        0 => String::from("utilization of each device, lowest first"),
        some => format!(
            "utilization of each device, lowest first; {} in red",
            counted(some as u64, "straggler")
        ),
    };
    let columns = held.iter().map(|(device, util)| {
        let role = if is_behind(device) {
            Role::Crit
        } else {
            Role::Text
        };
        (*util, role)
    });
    Some(ObjectPicture::new(
        title,
        least,
        Drawing::Columns(columns.collect(), [percent(1.0), percent(0.0)]),
    ))
}

/// How late and how slow each source of a kind is, the worst first.
pub fn of_sources(facts: &Facts, sources: &[&SourceHealth]) -> Vec<ObjectPicture> {
    let columns =
        |title: &str, words: fn(f64) -> String, value: &dyn Fn(&SourceHealth) -> Option<f64>| {
            let mut known: Vec<(f64, &SourceHealth)> = sources
                .iter()
                .filter_map(|source| Some((value(source)?, *source)))
                .collect();
            known.small_sort_by(|one, other| other.0.total_cmp(&one.0));
            let (most, _) = *known
                .first()
                .filter(|first| known.len() > 1 && first.0 > 0.0)?;
            let shares = known.iter().map(|(value, source)| {
                let role = if is_well(source) {
                    Role::Text
                } else {
                    Role::Crit
                };
                (value / most.max(f64::MIN_POSITIVE), role)
            });
            let ends = [words(most), words(0.0)];
            let note = counted(known.len() as u64, "source");
            Some(ObjectPicture::new(
                title,
                note,
                Drawing::Columns(shares.collect(), ends),
            ))
        };
    let age =
        |source: &SourceHealth| Some(facts.now.since(source.last_ok?).millis() as f64 / 1_000.0);
    let latency = |source: &SourceHealth| source.latency_ms.map(f64::from);
    [
        columns(
            "time since the last answer of each, longest first",
            |it| format!("{it:.0}s"),
            &age,
        ),
        columns(
            "latency of each, slowest first",
            |it| format!("{it:.0} ms"),
            &latency,
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}
