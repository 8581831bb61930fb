//! Which part of everything one works in: a team, some namespaces. `get` and every view keep to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::FxHashSet;

use model::base::document::nearest;
use model::base::{Name, Rate};
use model::cost::Burn;
use model::fleet::Known;
use model::fleet::device::{Device, Pod};
use model::fleet::finding::Subject;
use model::fleet::job::Job;
use model::fleet::node::Node;
use model::fleet::observe::Table;
use model::fleet::pool::Pool;

use super::table::cell;
use super::{Facts, budgets, pods, scoped_cost};

/// A team, some namespaces, both or neither.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
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

    /// True when what is of this namespace and team belongs to it.
    pub fn has(&self, namespace: Option<&str>, team: Option<&str>) -> bool {
        let own = |own: &Name, name: Option<&str>| name == Some(own.as_str());
        let mut namespaces = self.namespaces.iter();
        self.team.as_ref().is_none_or(|known| own(known, team))
            && (self.namespaces.is_empty() || namespaces.any(|known| own(known, namespace)))
    }

    /// True when the pod belongs to it.
    pub fn has_pod(&self, pod: &Pod) -> bool {
        self.has(Some(&pod.key().namespace), Some(&pod.team))
    }

    /// True when the job belongs to it.
    pub fn has_job(&self, job: &Job) -> bool {
        self.has(Some(job.namespace()), Some(&job.team))
    }

    /// True when a pod of it holds the device or a part of it.
    pub fn has_device(&self, device: &Device) -> bool {
        device.holders().any(|(pod, _)| self.has_pod(pod))
    }

    /// What is to be said of a team without a job and of namespaces without one, on the facts of everything: kubectl's `No resources
    /// found`, with the nearest name that there is. Nothing where pods are not listed.
    pub fn unknown(&self, facts: &Facts) -> Vec<String> {
        let fleet = &facts.fleet;
        if *fleet.known(Table::Pods) != Known::Live {
            return Vec::new();
        }
        let told = |what: String, near: Option<&str>| match near {
            Some(near) => format!("{what}; did you mean `{near}`?"),
            None => what,
        };
        let jobs = || fleet.jobs.iter();
        let mut said = Vec::new();
        if let Some(team) = &self.team {
            let rules = fleet.policy.teams.iter().map(|rule| rule.name.as_str());
            let teams = jobs().map(|job| job.team.as_str()).chain(rules);
            if teams.clone().all(|known| known != team.as_str()) {
                let what = format!("no team {} is known", cell(team));
                said.push(told(what, nearest(team, teams)));
            }
        }
        for namespace in &self.namespaces {
            if jobs().any(|job| job.namespace() == namespace) {
                continue;
            }
            let what = format!("no job with devices is in namespace {}", cell(namespace));
            // Where only some may be read, the others' names are not known.
            let all = jobs().map(|job| job.namespace().as_str());
            said.push(told(what, nearest(namespace, all)));
        }
        said
    }

    /// Whose it is: `team nlp`, `namespace a, b`; empty where it leaves nothing out.
    pub fn words(&self) -> String {
        let team = self.team.iter().map(|team| format!("team {team}"));
        let names: Vec<&str> = self.namespaces.iter().map(Name::as_str).collect();
        let namespaces = (!names.is_empty()).then(|| format!("namespace {}", names.join(", ")));
        team.chain(namespaces).collect::<Vec<_>>().join(" and ")
    }
}

/// What a scope comes to on one picture: everything that its jobs hold or draw from.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Reach {
    namespaces: Vec<Name>,
    nodes: FxHashSet<Name>,
    pools: FxHashSet<Name>,
    queues: FxHashSet<Name>,
}

impl Reach {
    fn of(facts: &Facts, scope: &Scope) -> Self {
        let mut reach = Self {
            namespaces: scope.namespaces.clone(),
            ..Self::default()
        };
        for job in facts.fleet.jobs.iter().filter(|job| scope.has_job(job)) {
            reach.queues.extend(job.queue.clone());
        }
        let devices = facts.fleet.devices();
        for (node, _) in devices.filter(|(_, device)| scope.has_device(device)) {
            reach.nodes.insert(node.name().clone());
            reach.pools.insert(node.pool.clone());
        }
        reach
    }

    /// True when something of the scope runs in the pool or waits for it.
    pub fn has_pool(&self, name: &Name) -> bool {
        self.pools.contains(name)
    }

    /// True when something of the scope holds devices of the node.
    pub fn has_node(&self, name: &Name) -> bool {
        self.nodes.contains(name)
    }

    /// True when a job of the scope draws from the queue.
    pub fn has_queue(&self, name: &Name) -> bool {
        self.queues.contains(name)
    }

    /// True when what a finding is about is within reach.
    fn concerns(&self, subject: &Subject) -> bool {
        let name = &subject.key.name;
        match subject.kind {
            "Device" => name
                .rsplit_once('/')
                .is_some_and(|(node, _)| self.nodes.contains(node)),
            "Node" => self.nodes.contains(name),
            "Pool" => self.pools.contains(name),
            "Queue" => self.queues.contains(name),
            // Whose it is stands with the budget: see `Facts::concerns`.
            budgets::SUBJECT => false,
            "Job" | "Pod" => {
                let namespace = &subject.key.namespace;
                self.namespaces.is_empty() || self.namespaces.contains(namespace)
            }
            _ => true,
        }
    }
}

/// What a scope has of the fleet.
#[derive(Clone, PartialEq, Debug)]
pub struct Part {
    /// Whose it is.
    pub scope: Scope,
    /// What its jobs hold or draw from.
    pub reach: Reach,
    /// The money of the whole fleet.
    whole: Arc<Burn>,
    /// The fleet's pools, in their order, with what the scope holds and waits for.
    pools: Vec<Pool>,
    /// What the scope's pods on a node cost; `None` where the price of a device is not known.
    nodes: BTreeMap<Name, Option<Rate>>,
}

impl Part {
    fn of(facts: &Facts, scope: &Scope) -> Self {
        let pools = facts.fleet.pools_of(
            facts.now,
            |device| scope.has_device(device),
            |job| scope.has_job(job),
        );
        let mut reach = Reach::of(facts, scope);
        let waits = pools.iter().filter(|pool| pool.waiting_devices > 0);
        reach.pools.extend(waits.map(|pool| pool.name.clone()));
        let mut nodes: BTreeMap<Name, Option<Rate>> = BTreeMap::new();
        let jobs = facts.fleet.jobs.iter().filter(|job| scope.has_job(job));
        for pod in jobs.flat_map(|job| job.pods.iter()) {
            let Some(node) = &pod.seen.node else { continue };
            let (_, rate) = pods::holds(facts, pod);
            let sum = nodes.entry(node.clone()).or_insert(Some(Rate::ZERO));
            *sum = sum.zip(rate).map(|(sum, rate)| sum + rate);
        }
        Self {
            scope: scope.clone(),
            reach,
            whole: Arc::clone(&facts.burn),
            pools,
            nodes,
        }
    }
}

impl Facts {
    /// The picture of the whole fleet as a scope has it: money, counts and readings are those of its jobs.
    #[must_use]
    pub fn scoped(&self, scope: &Scope) -> Self {
        if scope.is_all() {
            return self.clone();
        }
        Self {
            burn: Arc::new(scoped_cost::burn_of(self, scope)),
            part: Some(Arc::new(Part::of(self, scope))),
            ..self.clone()
        }
    }

    /// The money of the whole fleet, whatever the scope: for pages of one object, which are of all of it.
    pub fn whole_burn(&self) -> &Burn {
        match &self.part {
            Some(part) => &part.whole,
            None => &self.burn,
        }
    }

    /// The pools as the scope has them.
    pub fn pools(&self) -> &[Pool] {
        match &self.part {
            Some(part) => &part.pools,
            None => &self.fleet.pools,
        }
    }

    /// True when the job belongs to the scope.
    pub fn has_job(&self, job: &Job) -> bool {
        self.part
            .as_ref()
            .is_none_or(|part| part.scope.has_job(job))
    }

    /// True when the device is the scope's: all are without one.
    pub fn has_device(&self, device: &Device) -> bool {
        let part = self.part.as_ref();
        part.is_none_or(|part| part.scope.has_device(device))
    }

    /// What is said where nothing of the scope is there: `none` without one.
    pub fn none_in_scope(&self, none: &str) -> String {
        let Some(part) = &self.part else {
            return self.fleet.within(none);
        };
        let scope = &part.scope;
        let what = scope.words();
        let jobs = &self.fleet.jobs;
        if jobs.iter().any(|job| scope.has_job(job)) {
            return format!("nothing here is of {what}");
        }
        let teams: BTreeSet<&str> = jobs.iter().map(|job| job.team.as_str()).collect();
        let known = teams
            .iter()
            .any(|team| scope.team.as_deref() == Some(*team));
        if scope.team.is_none() || known {
            return format!("no job is of {what}");
        }
        let teams: Vec<&str> = teams.into_iter().filter(|team| !team.is_empty()).collect();
        format!(
            "no job is of {what}; teams that have jobs: {}",
            teams.join(", ")
        )
    }

    /// The devices of a node that are the scope's.
    pub fn devices_of<'a>(&'a self, node: &'a Node) -> impl Iterator<Item = &'a Device> {
        let devices = node.devices.iter();
        devices.filter(|device| self.has_device(device))
    }

    /// True when the scope concerns a finding.
    pub fn concerns(&self, subject: &Subject) -> bool {
        if subject.kind == budgets::SUBJECT {
            let name = &subject.key.name;
            return self.budgets().any(|state| state.budget.name == *name);
        }
        let part = self.part.as_ref();
        part.is_none_or(|part| part.reach.concerns(subject))
    }

    /// What a node costs an hour, or what the scope's pods on it do.
    pub fn rate_of_node(&self, name: &Name) -> Option<Rate> {
        match &self.part {
            Some(part) => part.nodes.get(name).copied().flatten(),
            None => self.burn.nodes.get(name).copied(),
        }
    }
}
