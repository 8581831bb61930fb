//! Which part of everything one works in: a team, some namespaces. Every view keeps to it.

use std::collections::BTreeSet;

use rustc_hash::FxHashSet;

use crate::view::Selection;
use model::base::{Name, ObjectKey};
use model::fleet::device::{Device, Pod};
use model::fleet::finding::Subject;
use model::fleet::job::Job;
use table::Facts;

/// A team, some namespaces, both or neither.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Scope {
    /// Only this team's.
    pub team: Option<Name>,
    /// Only what is of these namespaces; empty is all.
    pub namespaces: Vec<Name>,
}

impl Scope {
    /// True when it leaves nothing out.
    pub fn is_all(&self) -> bool {
        self.team.is_none() && self.namespaces.is_empty()
    }

    fn has(&self, team: &Name, key: &ObjectKey) -> bool {
        self.team.as_ref().is_none_or(|own| own == team)
            && (self.namespaces.is_empty() || self.namespaces.contains(&key.namespace))
    }

    /// True when the pod belongs to it.
    pub fn has_pod(&self, pod: &Pod) -> bool {
        self.has(&pod.team, pod.key())
    }

    /// True when the job belongs to it.
    pub fn has_job(&self, job: &Job) -> bool {
        self.has(&job.team, &job.id.key)
    }

    /// True when somebody of it holds the device or a part of it.
    pub fn has_device(&self, device: &Device) -> bool {
        self.is_all() || device.holders().any(|(pod, _)| self.has_pod(pod))
    }

    /// What is said where nothing of it is there: `none` where it leaves nothing out.
    pub fn says(&self, facts: &Facts, none: &str) -> String {
        if self.is_all() {
            return none.to_owned();
        }
        let mut what: Vec<String> = self
            .team
            .iter()
            .map(|team| format!("team {team}"))
            .collect();
        if !self.namespaces.is_empty() {
            let names: Vec<&str> = self.namespaces.iter().map(Name::as_str).collect();
            what.push(format!("namespace {}", names.join(", ")));
        }
        let what = what.join(" and ");
        let jobs = &facts.fleet.jobs;
        if jobs.iter().any(|job| self.has_job(job)) {
            return format!("nothing here is of {what}");
        }
        let teams: BTreeSet<&str> = jobs.iter().map(|job| job.team.as_str()).collect();
        let known = teams.iter().any(|team| self.team.as_deref() == Some(*team));
        if self.team.is_none() || known {
            return format!("no job is of {what}");
        }
        let teams: Vec<&str> = teams.into_iter().filter(|team| !team.is_empty()).collect();
        format!(
            "no job is of {what}; teams that have jobs: {}",
            teams.join(", ")
        )
    }
}

/// What a scope comes to on one picture: everything that its jobs hold, want or draw from.
pub(crate) struct Reach<'a> {
    scope: &'a Scope,
    nodes: FxHashSet<&'a str>,
    pools: FxHashSet<&'a str>,
    queues: FxHashSet<&'a str>,
}

impl<'a> Reach<'a> {
    pub(crate) fn of(facts: &'a Facts, scope: &'a Scope) -> Self {
        let mut reach = Self {
            scope,
            nodes: FxHashSet::default(),
            pools: FxHashSet::default(),
            queues: FxHashSet::default(),
        };
        for job in facts.fleet.jobs.iter().filter(|job| scope.has_job(job)) {
            reach
                .nodes
                .extend(job.places.iter().map(|place| place.node.as_str()));
            reach.pools.extend(job.pools.iter().map(Name::as_str));
            reach.queues.extend(job.queue.as_deref());
        }
        reach
    }

    /// True when the object is within reach. Sources serve everybody.
    pub(super) fn has(&self, facts: &Facts, selection: &Selection) -> bool {
        match selection {
            Selection::Pool(name) => self.pools.contains(name.as_str()),
            Selection::Node(name) => self.nodes.contains(name.as_str()),
            Selection::Device(node, index) => facts.fleet.node(node).is_some_and(|node| {
                let device = node.device(*index);
                device.is_some_and(|device| self.scope.has_device(device))
            }),
            Selection::Job(id) => facts
                .fleet
                .job(id)
                .is_some_and(|job| self.scope.has_job(job)),
            Selection::Pod(key) => facts
                .fleet
                .pod(key)
                .is_some_and(|pod| self.scope.has_pod(pod)),
            Selection::Finding(id) => facts
                .fleet
                .findings
                .iter()
                .find(|finding| finding.id == *id)
                .is_some_and(|finding| self.concerns(&finding.subject)),
            // Money is that of the scope already.
            _ => true,
        }
    }

    /// True when what a finding is about is within reach.
    pub(crate) fn concerns(&self, subject: &Subject) -> bool {
        let name = subject.key.name.as_str();
        match subject.kind {
            "Device" => name
                .rsplit_once('/')
                .is_some_and(|(node, _)| self.nodes.contains(node)),
            "Node" => self.nodes.contains(name),
            "Pool" => self.pools.contains(name),
            "Queue" => self.queues.contains(name),
            "Job" | "Pod" => {
                let namespace = &subject.key.namespace;
                self.scope.namespaces.is_empty() || self.scope.namespaces.contains(namespace)
            }
            _ => true,
        }
    }
}
