//! The scope of a session: a team, some namespaces. `get` and every view apply it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::FxHashSet;

use model::base::document::nearest;
use model::base::{DeviceAmount, Name, ObjectKey};
use model::cost::{Money, SpendRates, spend_rates_of};
use model::fleet::device::{Attribution, Device, Pod};
use model::fleet::finding::Finding;
use model::fleet::job::Job;
use model::fleet::node::Node;
use model::fleet::observe::{SourceHealth, Table};
use model::fleet::pool::{Pool, VisibleCounts};
use model::fleet::{Fleet, TableState};

use crate::kinds::pods;
use crate::navigation::Selection;
use crate::table::cell;
use crate::{Facts, budgets};

/// A team, some namespaces, both or neither.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Scope {
    /// Only objects of this team.
    pub team: Option<Name>,
    /// Only objects in these namespaces; empty for all.
    pub namespaces: Vec<Name>,
}

impl Scope {
    /// True when it excludes nothing.
    pub fn is_all(&self) -> bool {
        self.team.is_none() && self.namespaces.is_empty()
    }

    /// True when an object with this namespace and team is in the scope.
    pub fn has(&self, namespace: Option<&str>, team: Option<&str>) -> bool {
        let own = |own: &Name, name: Option<&str>| name == Some(own.as_str());
        let mut namespaces = self.namespaces.iter();
        self.team.as_ref().is_none_or(|known| own(known, team))
            && (self.namespaces.is_empty() || namespaces.any(|known| own(known, namespace)))
    }

    /// True when the pod is in the scope.
    pub fn has_pod(&self, pod: &Pod) -> bool {
        self.has(Some(&pod.key().namespace), Some(&pod.team))
    }

    /// True when the job is in the scope.
    pub fn has_job(&self, job: &Job) -> bool {
        self.has(Some(job.namespace()), Some(&job.team))
    }

    /// True when the device, or one of its slices, is allocated to a pod in the scope.
    pub fn has_device(&self, device: &Device) -> bool {
        device.holders().any(|(pod, _)| self.has_pod(pod))
    }

    /// Messages for a team or namespaces without a job, judged on unscoped facts: like kubectl's `No resources found`, with
    /// the nearest existing name. Empty where pods are not listed.
    pub fn unknown(&self, facts: &Facts) -> Vec<String> {
        let fleet = &facts.fleet;
        if *fleet.visibility(Table::Pods) != TableState::Live {
            return Vec::new();
        }
        let message = |what: String, near: Option<&str>| match near {
            Some(near) => format!("{what}; did you mean `{near}`?"),
            None => what,
        };
        let jobs = || fleet.jobs.iter();
        let mut messages = Vec::new();
        if let Some(team) = &self.team {
            let rules = fleet.policy.teams.iter().map(|rule| rule.name.as_str());
            let teams = jobs().map(|job| job.team.as_str()).chain(rules);
            if teams.clone().all(|known| known != team.as_str()) {
                let what = format!("no team {} is known", cell(team));
                messages.push(message(what, nearest(team, teams)));
            }
        }
        for namespace in &self.namespaces {
            if jobs().any(|job| job.namespace() == namespace) {
                continue;
            }
            let what = format!("no job with devices is in namespace {}", cell(namespace));
            // Where RBAC allows only some namespaces, the others' names are unknown.
            let all = jobs().map(|job| job.namespace().as_str());
            messages.push(message(what, nearest(namespace, all)));
        }
        messages
    }

    /// The scope in words: `team nlp`, `namespace a, b`; empty where it excludes nothing.
    pub fn words(&self) -> String {
        let team = self.team.iter().map(|team| format!("team {team}"));
        let names: Vec<&str> = self.namespaces.iter().map(Name::as_str).collect();
        let namespaces = (!names.is_empty()).then(|| format!("namespace {}", names.join(", ")));
        team.chain(namespaces).collect::<Vec<_>>().join(" and ")
    }
}

/// The objects of one snapshot that a scope's jobs use.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ScopedObjects {
    namespaces: Vec<Name>,
    nodes: FxHashSet<Name>,
    devices: FxHashSet<Name>,
    pools: FxHashSet<Name>,
    queues: FxHashSet<Name>,
    jobs: FxHashSet<ObjectKey>,
    pods: FxHashSet<ObjectKey>,
}

impl ScopedObjects {
    fn of(facts: &Facts, scope: &Scope) -> Self {
        let mut reach = Self {
            // Only a pod's job tells its team.
            namespaces: match scope.team {
                None => scope.namespaces.clone(),
                Some(_) => Vec::new(),
            },
            ..Self::default()
        };
        for job in facts.fleet.jobs.iter().filter(|job| scope.has_job(job)) {
            reach.queues.extend(job.queue.clone());
            reach.jobs.insert(job.id.key.clone());
            reach
                .pods
                .extend(job.pods.iter().map(|pod| pod.key().clone()));
        }
        let devices = facts.fleet.devices();
        for (node, device) in devices.filter(|(_, device)| scope.has_device(device)) {
            reach.devices.insert(device.id.clone());
            reach.nodes.insert(node.name().clone());
            reach.pools.insert(node.pool.clone());
        }
        reach
    }

    /// True when a job of the scope runs in the pool or waits for it.
    pub fn has_pool(&self, name: &Name) -> bool {
        self.pools.contains(name)
    }

    /// True when a job of the scope has devices of the node.
    pub fn has_node(&self, name: &Name) -> bool {
        self.nodes.contains(name)
    }

    /// True when a job of the scope draws from the queue.
    pub fn has_queue(&self, name: &Name) -> bool {
        self.queues.contains(name)
    }

    /// True when an object of the scope has this namespace and name.
    pub fn has_named(&self, namespace: &Name, name: &Name) -> bool {
        let key = ObjectKey::new(namespace.clone(), name.clone());
        let all = [&self.devices, &self.nodes, &self.pools, &self.queues];
        match namespace.is_empty() {
            true => all.iter().any(|names| names.contains(name)),
            false => self.jobs.contains(&key) || self.pods.contains(&key),
        }
    }

    /// True when the finding is about an object of the scope, or about what such an object depends on.
    fn concerns(&self, finding: &Finding, fleet: &Fleet) -> bool {
        let (subject, members) = (&finding.subject, &finding.members);
        let name = &subject.key.name;
        let has_member = || members.iter().any(|id| self.devices.contains(id));
        match subject.kind {
            "Device" => self.devices.contains(name),
            "Node" | "Rack" | "Pool" if !members.is_empty() => has_member(),
            "Node" => self.nodes.contains(name),
            // Findings of earlier records name no devices.
            "Rack" => fleet
                .nodes
                .iter()
                .any(|node| node.rack.as_ref() == Some(name) && self.nodes.contains(node.name())),
            "Pool" => self.pools.contains(name),
            "Queue" => self.queues.contains(name),
            // Budgets are matched by their own scope: see `Facts::concerns`.
            budgets::SUBJECT => false,
            "Job" => self.jobs.contains(&subject.key),
            // A pod without a job is matched by its namespace.
            "Pod" => {
                self.pods.contains(&subject.key) || self.namespaces.contains(&subject.key.namespace)
            }
            "Source" => self.has_source(name, members, fleet),
            "Run" => self.has_run(name, fleet),
            _ => true,
        }
    }

    /// True when a source has readings of the scope's nodes, or none of a single node: then everybody depends on it.
    fn has_source(&self, name: &Name, members: &[Name], fleet: &Fleet) -> bool {
        let own = |source: &SourceHealth| {
            let node = source.node.as_ref();
            node.is_none_or(|node| self.nodes.contains(node))
        };
        let is_named = |source: &&SourceHealth| match members {
            [] => source.name == *name,
            all => all.contains(&source.name),
        };
        let mut named = fleet.sources.iter().filter(is_named).peekable();
        named.peek().is_none() || named.any(own)
    }

    /// True when the run keeps a job of the scope suspended.
    fn has_run(&self, name: &Name, fleet: &Fleet) -> bool {
        let mut open = fleet.open_runs.iter().filter(|open| open.run == *name);
        let is_held = |job: &Arc<Job>| job.held.as_ref().is_some_and(|held| held.run == *name);
        let mut held = fleet.jobs.iter().filter(|job| is_held(job));
        open.any(|open| open.jobs.iter().any(|job| self.jobs.contains(job)))
            || held.any(|job| self.jobs.contains(&job.id.key))
    }
}

/// The part of the fleet in a scope.
#[derive(Clone, PartialEq, Debug)]
pub struct ScopedFleet {
    pub scope: Scope,
    /// The objects that its jobs use.
    pub reach: ScopedObjects,
    /// Rates of the whole fleet.
    whole: Arc<SpendRates>,
    /// The fleet's pools in their order, with counts of the scope.
    pools: Vec<Pool>,
    /// Rate of the scope's pods on each node; `None` where a device has no price.
    nodes: BTreeMap<Name, Option<Money>>,
}

impl ScopedFleet {
    /// True for an object of the scope, and for one with something of the scope on it. Sources and queues serve everybody; money is that
    /// of the scope already.
    pub fn has(&self, facts: &Facts, object: &Selection) -> bool {
        let fleet = &facts.fleet;
        match object {
            Selection::Pool(name) => self.reach.has_pool(name),
            Selection::Node(name) => self.reach.has_node(name),
            Selection::Device(node, index) => {
                let device = fleet.node(node).and_then(|node| node.device(*index));
                device.is_some_and(|device| self.scope.has_device(device))
            }
            Selection::Job(id) => fleet.job(id).is_some_and(|job| self.scope.has_job(job)),
            Selection::Pod(key) => fleet.pod(key).is_some_and(|pod| self.scope.has_pod(pod)),
            Selection::Finding(id) => {
                let mut findings = fleet.findings.iter();
                findings
                    .find(|finding| finding.id == *id)
                    .is_some_and(|finding| facts.concerns(finding))
            }
            _ => true,
        }
    }

    fn of(facts: &Facts, scope: &Scope) -> Self {
        let pools = facts.fleet.pools_of(
            facts.now,
            |pod| scope.has_pod(pod),
            |job| scope.has_job(job),
        );
        let mut reach = ScopedObjects::of(facts, scope);
        let waits = pools.iter().filter(|pool| pool.waiting_devices > 0);
        reach.pools.extend(waits.map(|pool| pool.name.clone()));
        let mut nodes: BTreeMap<Name, Option<Money>> = BTreeMap::new();
        let jobs = facts.fleet.jobs.iter().filter(|job| scope.has_job(job));
        for pod in jobs.flat_map(|job| job.pods.iter()) {
            let Some(node) = &pod.seen.node else { continue };
            let (_, rate) = pods::allocated_devices(facts, pod);
            let sum = nodes.entry(node.clone()).or_insert(Some(Money::ZERO));
            *sum = sum.zip(rate).map(|(sum, rate)| sum + rate);
        }
        Self {
            scope: scope.clone(),
            reach,
            whole: Arc::clone(&facts.spend_rates),
            pools,
            nodes,
        }
    }

    /// Nodes on which the scope has devices, and counts of its devices. Free devices belong to no scope, and where pods of the
    /// scope may be out of sight nothing is counted.
    pub fn counts(&self, facts: &Facts) -> (Option<u32>, VisibleCounts) {
        let fleet = &facts.fleet;
        let sees_pods = !fleet.is_hidden(Table::Pods)
            && fleet.extent.namespaces().is_none_or(|listed| {
                let mut own = self.scope.namespaces.iter();
                !self.scope.namespaces.is_empty() && own.all(|name| listed.contains(name))
            });
        if !sees_pods {
            return (None, VisibleCounts::default());
        }
        let sees_nodes = !fleet.is_hidden(Table::Nodes);
        let allocated = self.pools.iter().map(|pool| pool.devices.allocated);
        let idle = self.pools.iter().map(|pool| pool.devices.idle_allocated);
        let unhealthy = self.pools.iter().map(|pool| pool.devices.unhealthy);
        let counts = VisibleCounts {
            total: Some(self.reach.devices.len() as u32),
            allocated: Some(allocated.sum()),
            unhealthy: sees_nodes.then(|| unhealthy.sum()),
            idle_allocated: sees_nodes.then(|| idle.sum()),
            ..VisibleCounts::default()
        };
        (Some(self.reach.nodes.len() as u32), counts)
    }
}

impl Facts {
    /// The facts limited to a scope: rates, counts and readings are those of its jobs.
    #[must_use]
    pub fn scoped(&self, scope: &Scope) -> Self {
        if scope.is_all() {
            return self.clone();
        }
        let mut own = Self {
            spend_rates: Arc::new(spend_rates_of(&self.fleet, &self.spend_rates, |pod| {
                scope.has_pod(pod)
            })),
            part: Some(Arc::new(ScopedFleet::of(self, scope))),
            ..self.clone()
        };
        own.changes = match (&own.changes, &own.part) {
            (Some(changes), Some(part)) => Some(Arc::new(changes.scoped(&own, part))),
            _ => None,
        };
        own
    }

    /// Rates of the whole fleet, in any scope: for pages of one object, which show the whole object.
    pub fn whole_burn(&self) -> &SpendRates {
        match &self.part {
            Some(part) => &part.whole,
            None => &self.spend_rates,
        }
    }

    /// The pools with counts of the scope.
    pub fn pools(&self) -> &[Pool] {
        match &self.part {
            Some(part) => &part.pools,
            None => &self.fleet.pools,
        }
    }

    /// True when the job is in the scope.
    pub fn has_job(&self, job: &Job) -> bool {
        self.part
            .as_ref()
            .is_none_or(|part| part.scope.has_job(job))
    }

    /// The part of the device that is allocated to pods; in a scope, to those of the scope.
    pub fn held_of(&self, device: &Device) -> DeviceAmount {
        match &self.part {
            None => device.allocated(),
            Some(part) => device.held_by(|pod| part.scope.has_pod(pod)),
        }
    }

    /// The pod to show of a device where only one fits: the first that has it or a part of it, in a scope the first of the scope.
    pub fn first_holder<'d>(&self, device: &'d Device) -> Option<(&'d Arc<Pod>, Attribution)> {
        let in_scope = |pod: &Pod| {
            let part = self.part.as_ref();
            part.is_none_or(|part| part.scope.has_pod(pod))
        };
        let own = device.holders().find(|(pod, _)| in_scope(pod));
        own.or_else(|| device.first_holder())
    }

    /// True when the device is in the scope; without a scope, for every device.
    pub fn has_device(&self, device: &Device) -> bool {
        let part = self.part.as_ref();
        part.is_none_or(|part| part.scope.has_device(device))
    }

    /// The message for an empty view: `none`, or the scope's own message.
    pub fn none_in_scope(&self, none: &str) -> String {
        let Some(part) = &self.part else {
            return self.fleet.within(none);
        };
        let scope = &part.scope;
        let what = scope.words();
        let jobs = &self.fleet.jobs;
        if jobs.iter().any(|job| scope.has_job(job)) {
            return format!("nothing here belongs to {what}");
        }
        let teams: BTreeSet<&str> = jobs.iter().map(|job| job.team.as_str()).collect();
        let known = teams
            .iter()
            .any(|team| scope.team.as_deref() == Some(*team));
        if scope.team.is_none() || known {
            return format!("no job belongs to {what}");
        }
        let teams: Vec<&str> = teams.into_iter().filter(|team| !team.is_empty()).collect();
        format!(
            "no job belongs to {what}; teams that have jobs: {}",
            teams.join(", ")
        )
    }

    /// The node's devices in the scope.
    pub fn devices_of<'a>(&'a self, node: &'a Node) -> impl Iterator<Item = &'a Device> {
        let devices = node.devices.iter();
        devices.filter(|device| self.has_device(device))
    }

    /// True when the finding concerns the scope: its devices, jobs, pods or queues, or what they depend on.
    pub fn concerns(&self, finding: &Finding) -> bool {
        if finding.subject.kind == budgets::SUBJECT {
            let name = &finding.subject.key.name;
            return self.budgets().any(|state| state.budget.name == *name);
        }
        let part = self.part.as_ref();
        part.is_none_or(|part| part.reach.concerns(finding, &self.fleet))
    }

    /// Rate of a node, in a scope that of its pods there.
    pub fn rate_of_node(&self, name: &Name) -> Option<Money> {
        match &self.part {
            Some(part) => part.nodes.get(name).copied().flatten(),
            None => self.spend_rates.nodes.get(name).copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use model::fleet::finding::Subject;
    use model::fleet::job::JobState;
    use model::fleet::observe::ListedNamespaces;

    use super::*;
    use crate::rows::document::figures;
    use crate::sample;

    /// A finding about this object that counts these devices.
    fn finding(facts: &Facts, kind: &'static str, key: ObjectKey, members: &[Name]) -> Finding {
        Finding {
            subject: Subject { kind, key },
            members: members.into(),
            ..facts.fleet.findings[0].clone()
        }
    }

    #[test]
    fn a_fault_of_others_on_the_same_node_rack_or_source_is_not_a_teams() {
        let mut facts = sample::facts();
        let fleet = Arc::make_mut(&mut facts.fleet);
        let rack = Name::new("r7");
        for node in Arc::make_mut(&mut fleet.nodes).iter_mut() {
            Arc::make_mut(node).rack = Some(rack.clone());
        }
        let team = Name::new("nlp");
        let scope = Scope {
            team: Some(team.clone()),
            ..Scope::default()
        };
        let scoped = facts.scoped(&scope);
        let devices = facts.fleet.devices();
        let (own, others): (Vec<_>, Vec<_>) =
            devices.partition(|(_, device)| scope.has_device(device));
        let id = |all: &[(&Arc<Node>, &Device)]| all.first().expect("a device").1.id.clone();
        let (own, others) = (id(&own), id(&others));
        let is_of = |kind, name: &Name, members: &[Name]| {
            let key = ObjectKey::new("", name.clone());
            scoped.concerns(&finding(&facts, kind, key, members))
        };
        assert!(is_of("Device", &own, &[]));
        assert!(!is_of("Device", &others, &[]), "of the same node or not");
        let hot = [others.clone(), own.clone()];
        assert!(is_of("Rack", &rack, &hot));
        assert!(!is_of("Rack", &rack, &hot[..1]));
        assert!(is_of("Rack", &rack, &[]), "which devices is not known");
        let (node, _) = own.rsplit_once('/').expect("a node");
        let node = Name::new(node);
        assert!(is_of("Node", &node, &[]));
        assert!(!is_of("Node", &node, &hot[..1]));
        assert!(
            !is_of("Run", &Name::new("run-1"), &[]),
            "it holds no job of the team"
        );
        assert!(is_of("Source", &Name::new("api pods"), &[]));
    }

    #[test]
    fn alerts_of_a_team_are_of_its_jobs_alone() {
        let facts = sample::facts();
        let mut teams = facts.fleet.jobs.iter().map(|job| job.team.clone());
        let team = teams.next().expect("a job");
        let scope = Scope {
            team: Some(team.clone()),
            ..Scope::default()
        };
        let scoped = facts.scoped(&scope);
        let (mut own, mut others) = (0, 0);
        for job in facts.fleet.jobs.iter() {
            let is_own = job.team == team;
            let about = |kind, key: &ObjectKey| finding(&facts, kind, key.clone(), &[]);
            assert_eq!(scoped.concerns(&about("Job", &job.id.key)), is_own);
            for pod in job.pods.iter() {
                assert_eq!(scoped.concerns(&about("Pod", pod.key())), is_own);
            }
            own += u32::from(is_own);
            others += u32::from(!is_own);
        }
        assert!(own > 0 && others > 0);
    }

    #[test]
    fn figures_of_a_team_are_what_its_jobs_have() {
        let facts = sample::facts();
        let whole = figures(&facts);
        let teams: BTreeSet<Name> = facts
            .fleet
            .jobs
            .iter()
            .map(|job| job.team.clone())
            .collect();
        assert!(teams.len() > 1);
        let (mut allocated, mut waiting) = (DeviceAmount::ZERO, 0);
        for team in teams {
            let scoped = facts.scoped(&Scope {
                team: Some(team.clone()),
                ..Scope::default()
            });
            let own = figures(&scoped);
            let jobs = facts.fleet.jobs.iter().filter(|job| job.team == team);
            let waits = jobs.filter(|job| job.state == JobState::Waiting).count();
            assert_eq!(own.waiting_jobs, Some(waits as u32), "{team}");
            assert!(own.devices < whole.devices && own.nodes <= whole.nodes);
            assert_eq!((own.free, own.free_usable), (None, None), "{team}");
            assert_eq!(own.free_usd_per_hour, None, "free devices are no team's");
            let of_team = scoped.spend_rates.row(model::cost::SpendScope::Team, &team);
            let rate = of_team.map_or(0.0, |row| row.spend.rate.usd());
            assert_eq!(own.burn_usd_per_hour, Some(rate), "{team}");
            allocated += own.allocated.expect("all is visible");
            waiting += own.waiting_devices.expect("all is visible");
        }
        assert_eq!(Some(allocated), whole.allocated);
        assert_eq!(Some(waiting), whole.waiting_devices);
    }

    #[test]
    fn a_team_with_invisible_pods_has_no_counts() {
        let mut facts = sample::facts();
        let lab = || std::sync::Arc::from([Name::new("lab")]);
        Arc::make_mut(&mut facts.fleet).extent = ListedNamespaces::Chosen(lab());
        let team = facts.fleet.jobs[0].team.clone();
        let of_team = facts.scoped(&Scope {
            team: Some(team),
            ..Scope::default()
        });
        let seen = figures(&of_team);
        assert_eq!(
            (seen.devices, seen.allocated, seen.nodes),
            (None, None, None)
        );
        let of_lab = facts.scoped(&Scope {
            namespaces: vec![Name::new("lab")],
            ..Scope::default()
        });
        assert!(figures(&of_lab).devices.is_some());
    }
}
