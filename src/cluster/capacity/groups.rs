//! The cluster autoscaler's status of its node groups: one ConfigMap, whose `status` is YAML since 1.30 and plain text before.
//!
//! Sources: the autoscaler's `clusterstate/api`, its FAQ, and ConfigMaps from its users' bug reports.

use model::base::{Moment, Name, Names, SmallSort};
use model::fleet::observe::{Observation, Table};
use model::fleet::scaling::{GroupsSeen, Scaler, ScalerKind, ScalerState};

use crate::Projected;
use crate::lenient_json::{List, Map, Text, Whole, partial, yaml};
use crate::meta::Meta;

/// The annotation with the time of the last write.
const LAST_UPDATED: &str = "cluster-autoscaler.kubernetes.io/last-updated";

partial! {
    NodeGroupsObject {
        meta: Meta = "metadata",
        /// `status` is the only key.
        data: Map<Text> = "data",
    }
}

partial! {
    StatusYaml {
        /// Time of the write, in Go's time format.
        time: Text = "time",
        groups: List<GroupYaml> = "nodeGroups",
    }
}

partial! {
    /// An entry of `nodeGroups`.
    GroupYaml {
        /// As its cloud calls it.
        name: Text = "name",
        health: HealthYaml = "health",
        up: ScaleUpYaml = "scaleUp",
        down: ScaleDownYaml = "scaleDown",
    }
}

partial! {
    HealthYaml {
        /// Health of the node group: `Healthy` or `Unhealthy`.
        status: Text = "status",
        counts: CountsYaml = "nodeCounts",
        /// Desired number of nodes.
        target: Whole = "cloudProviderTarget",
        /// Nodes at least; left out when zero.
        min: Whole = "minSize",
        max: Whole = "maxSize",
        /// When the status last changed.
        since: Text = "lastTransitionTime",
    }
}

partial! {
    CountsYaml {
        /// Machines that have become nodes.
        registered: RegisteredYaml = "registered",
        /// Machines that should be nodes for long.
        overdue: Whole = "longUnregistered",
    }
}

partial! {
    RegisteredYaml {
        total: Whole = "total",
        ready: Whole = "ready",
        unready: UnreadyYaml = "unready",
    }
}

partial! {
    UnreadyYaml {
        /// Ready but for their devices.
        resources: Whole = "resourceUnready",
    }
}

partial! {
    ScaleUpYaml {
        /// `NoActivity`, `InProgress`, `Backoff`, ….
        status: Text = "status",
        backoff: BackoffYaml = "backoffInfo",
        /// When the status last changed.
        since: Text = "lastTransitionTime",
    }
}

partial! {
    BackoffYaml {
        code: Text = "errorCode",
        message: Text = "errorMessage",
    }
}

partial! {
    ScaleDownYaml {
        /// Nodes that it would take away.
        candidates: Whole = "candidates",
    }
}

/// The status of a node group, from either form.
#[derive(Default)]
struct NodeGroupStatus {
    name: String,
    healthy: bool,
    up: String,
    now: Option<u32>,
    ready: Option<u32>,
    target: Option<u32>,
    min: Option<u32>,
    max: Option<u32>,
    resource_unready: u32,
    overdue: u32,
    candidates: Option<u32>,
    code: String,
    message: String,
    health_since: Option<Moment>,
    up_since: Option<Moment>,
}

impl NodeGroupStatus {
    fn scaler(self, reported: Option<Moment>, names: &mut Names) -> Option<Scaler> {
        if self.name.is_empty() {
            return None;
        }
        // A group of fixed size is not at an end of anything.
        let full = self.min != self.max
            && matches!((self.target, self.max), (Some(target), Some(max)) if target >= max);
        let (state, why, since) = match &*self.up {
            "Backoff" => (
                ScalerState::Backoff,
                (names.intern(&self.code), Name::from(self.message.as_str())),
                self.up_since,
            ),
            _ if !self.healthy => {
                let sentence = match (self.ready, self.now) {
                    (Some(ready), Some(now)) if self.overdue > 0 => format!(
                        "{ready} of {now} nodes ready, {} machines did not become nodes",
                        self.overdue
                    ),
                    (Some(ready), Some(now)) => format!("{ready} of {now} nodes ready"),
                    _ => String::new(),
                };
                (
                    ScalerState::Broken,
                    (names.intern("Unhealthy"), Name::from(sentence)),
                    self.health_since,
                )
            }
            "InProgress" => (ScalerState::Growing, Default::default(), self.up_since),
            _ if full => (ScalerState::Full, Default::default(), self.up_since),
            _ => (ScalerState::Steady, Default::default(), self.up_since),
        };
        Some(Scaler {
            kind: ScalerKind::NodeGroup,
            name: names.intern(&self.name),
            now: self.now,
            ready: self.ready,
            target: self.target,
            min: self.min,
            max: self.max,
            state,
            why,
            since,
            resource_unready: self.resource_unready,
            candidates: self.candidates,
            reported,
            ..Scaler::default()
        })
    }
}

/// The short name of a group: the last segment of a URL.
fn short(name: &str) -> String {
    let name = name.trim();
    match name.starts_with("http") {
        true => name.rsplit('/').next().unwrap_or(name).to_owned(),
        false => name.to_owned(),
    }
}

/// Parses a time in Go's format: `2026-11-21 08:00:00.5 +0000 UTC m=+7.5`. RFC 3339 is accepted too.
fn go_time(text: &str) -> Option<Moment> {
    let text = text.trim();
    if let Some(moment) = Moment::parse(text) {
        return Some(moment);
    }
    let mut parts = text.split_ascii_whitespace();
    let (date, time, zone) = (parts.next()?, parts.next()?, parts.next()?);
    let (hours, minutes) = zone.split_at_checked(3)?;
    Moment::parse(&format!("{date}T{time}{hours}:{minutes}")).filter(|moment| moment.millis() > 0)
}

fn of_yaml(text: &str) -> (Option<Moment>, Vec<NodeGroupStatus>) {
    let Ok(status) = yaml::<StatusYaml>(text) else {
        return (None, Vec::new());
    };
    let groups = status.groups.iter().map(|group| {
        let health = &group.health;
        NodeGroupStatus {
            name: short(&group.name),
            healthy: &*health.status != "Unhealthy",
            up: group.up.status.to_string(),
            // The writer omits a size of zero.
            now: health.counts.registered.total.count(),
            ready: health.counts.registered.ready.count(),
            target: health.target.count(),
            min: health.min.count(),
            max: health.max.count(),
            resource_unready: health
                .counts
                .registered
                .unready
                .resources
                .count()
                .unwrap_or(0),
            overdue: health.counts.overdue.count().unwrap_or(0),
            candidates: group.down.candidates.count(),
            code: group.up.backoff.code.to_string(),
            message: group.up.backoff.message.to_string(),
            health_since: go_time(&health.since),
            up_since: go_time(&group.up.since),
        }
    });
    (go_time(&status.time), groups.collect())
}

/// The number behind `key=`.
fn number(line: &str, key: &str) -> Option<u32> {
    let mut rest = line;
    loop {
        let at = rest.find(key)?;
        let before = rest[..at].chars().next_back();
        let behind = &rest[at + key.len()..];
        if let Some(digits) = behind.strip_prefix('=')
            && !before.is_some_and(char::is_alphanumeric)
        {
            let end = digits
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(digits.len());
            return digits[..end].parse().ok();
        }
        rest = behind;
    }
}

/// The section of a group that the time lines below it belong to.
#[derive(Clone, Copy)]
enum StatusSection {
    Health,
    Up,
    Other,
}

fn of_text(text: &str) -> (Option<Moment>, Vec<NodeGroupStatus>) {
    let first = text.lines().next().unwrap_or_default();
    let written = first
        .strip_prefix("Cluster-autoscaler status at ")
        .and_then(|time| go_time(time.trim_end_matches(':')));
    let mut groups: Vec<NodeGroupStatus> = Vec::new();
    let mut part = StatusSection::Other;
    let below = text
        .lines()
        .skip_while(|line| line.trim() != "NodeGroups:")
        .skip(1);
    for line in below {
        let Some((key, value)) = line.trim().split_once(':') else {
            continue;
        };
        let value = value.trim();
        if key == "Name" {
            groups.push(NodeGroupStatus {
                name: short(value),
                healthy: true,
                ..NodeGroupStatus::default()
            });
            part = StatusSection::Other;
            continue;
        }
        let Some(group) = groups.last_mut() else {
            continue;
        };
        let word = value.split(' ').next().unwrap_or_default();
        match key {
            "Health" => {
                part = StatusSection::Health;
                group.healthy = word != "Unhealthy";
                group.now = number(value, "registered");
                group.ready = number(value, "ready");
                group.target = number(value, "cloudProviderTarget");
                group.min = number(value, "minSize");
                group.max = number(value, "maxSize");
                group.resource_unready = number(value, "resourceUnready").unwrap_or(0);
                group.overdue = number(value, "longUnregistered").unwrap_or(0);
            }
            "ScaleUp" => {
                part = StatusSection::Up;
                group.up = word.to_owned();
            }
            "ScaleDown" => {
                part = StatusSection::Other;
                group.candidates = number(value, "candidates");
            }
            "LastTransitionTime" => match part {
                StatusSection::Health => group.health_since = go_time(value),
                StatusSection::Up => group.up_since = go_time(value),
                StatusSection::Other => {}
            },
            _ => {}
        }
    }
    (written, groups)
}

impl Projected for NodeGroupsObject {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn project(&self, _: Table, names: &mut Names) -> Option<Observation> {
        let text = self.data.get("status").map_or("", |status| status);
        let is_text = text.starts_with("Cluster-autoscaler status")
            || text.lines().any(|line| line.trim() == "NodeGroups:");
        let (written, listed) = match is_text {
            true => of_text(text),
            false => of_yaml(text),
        };
        let annotated = self.meta.annotations.get(LAST_UPDATED);
        let reported = annotated.and_then(|time| go_time(time)).or(written);
        let mut groups: Vec<Scaler> = listed
            .into_iter()
            .filter_map(|listed| listed.scaler(reported, names))
            .collect();
        groups.small_sort_by(|a, b| a.name.cmp(&b.name));
        groups.dedup_by(|later, first| later.name == first.name);
        Some(Observation::NodeGroups(Box::new(GroupsSeen {
            key: self.meta.key(names)?,
            groups: groups.into_boxed_slice(),
        })))
    }
}
