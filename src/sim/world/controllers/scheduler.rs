//! A model of kube-scheduler with gangs: filters nodes, chooses one, binds the pod, or reports why it is unschedulable.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use model::base::{Name, SmallSort};

use crate::world::node::{NodeId, SimNode};
use crate::world::noise::{mix, unit};
use crate::world::pod::{PodId, PodPhase};
use crate::world::work::{Scheduler, SimToleration, Work, WorkId, WorkKind};
use crate::world::{Happening, Ref, World};

/// Why a node cannot take a pod, as kube-scheduler reports it.
enum No {
    Cordoned,
    Tainted(Name, Name),
    Selector,
    Insufficient(Vec<Name>),
    Claims,
}

/// True if a work cannot be placed where the work before it could not: it is no easier to place in the same pool. Works
/// whose nodes are not a whole pool are not compared.
fn is_no_easier(work: &Work, before: &Work) -> bool {
    let (ask, asked) = (&work.ask, &before.ask);
    work.pool.is_some()
        && work.pool == before.pool
        && work.foreign.is_none()
        && before.foreign.is_none()
        && work.tolerations == before.tolerations
        && ask.resource == asked.resource
        && ask.claim == asked.claim
        && ask.count >= asked.count
        && ask.cpu_milli >= asked.cpu_milli
        && ask.memory_mib >= asked.memory_mib
}

/// True when one of the tolerations covers the taint.
pub(in crate::world) fn tolerates(
    tolerations: &[SimToleration],
    key: &str,
    value: &str,
    effect: &str,
) -> bool {
    tolerations.iter().any(|toleration| {
        (toleration.key.is_empty() || &*toleration.key == key)
            && (toleration.effect.is_empty() || &*toleration.effect == effect)
            && toleration
                .value
                .as_ref()
                .is_none_or(|want| &**want == value)
    })
}

impl World {
    /// Tries every unscheduled pod, by priority, then age.
    pub(in crate::world) fn schedule(&mut self) {
        self.volcano_enqueue();
        let waiting: Vec<(WorkId, PodId)> = self
            .unplaced
            .iter()
            .map(|entry| (entry.2, entry.3))
            .collect();
        let mut gangs = BTreeSet::new();
        let mut hopeless: Vec<WorkId> = Vec::new();
        for (work_id, pod_id) in waiting {
            self.match_selector(work_id);
            let Some(work) = self.works.get(&work_id) else {
                continue;
            };
            if work.gang {
                if gangs.insert(work_id) {
                    self.place_gang(work_id);
                }
                continue;
            }
            let mut before = hopeless.iter().filter_map(|id| self.works.get(id));
            if before.any(|before| is_no_easier(work, before)) {
                self.explain(work_id, &[pod_id]);
                continue;
            }
            match self.best_node(work_id) {
                Some(node) => self.bind(pod_id, node),
                None => {
                    hopeless.push(work_id);
                    self.explain(work_id, &[pod_id]);
                }
            }
        }
    }

    /// True for a work whose selector must be matched against labels: the pool already implies the selector
    /// of work that was drawn here.
    fn selects(work: &Work) -> bool {
        (work.pool.is_none() || work.foreign.is_some()) && !work.selector.is_empty()
    }

    /// Finds the nodes that a work's selector matches, once per version of the fleet's labels.
    pub(in crate::world) fn match_selector(&mut self, id: WorkId) {
        let version = self.label_version;
        let Some(work) = self.works.get(&id) else {
            return;
        };
        if !Self::selects(work)
            || work
                .matching
                .as_ref()
                .is_some_and(|(seen, _)| *seen == version)
        {
            return;
        }
        let matches = |node: &NodeId| {
            let labels = self.node_labels(&self.nodes[*node]);
            work.selector
                .iter()
                .all(|(key, value)| labels.get(&**key).and_then(Value::as_str) == Some(&**value))
        };
        let mut nodes: Vec<NodeId> = self
            .pools
            .iter()
            .flatten()
            .copied()
            .filter(matches)
            .collect();
        nodes.small_sort();
        if let Some(work) = self.works.get_mut(&id) {
            work.matching = Some((version, nodes.into_boxed_slice()));
        }
    }

    pub(in crate::world) fn best_node(&self, work_id: WorkId) -> Option<NodeId> {
        let work = self.works.get(&work_id)?;
        let every: Vec<NodeId>;
        let nodes: &[NodeId] = match work.pool {
            Some(pool) => &self.pools[pool],
            None => {
                every = self.pools.iter().flatten().copied().collect();
                &every
            }
        };
        nodes
            .iter()
            .copied()
            .filter(|&node| self.refusal(&self.nodes[node], work).is_none())
            .min_by_key(|&node| (self.free_units(&self.nodes[node], work), node))
    }

    /// Free units of the pod's resource; zero for a pod without devices.
    fn free_units(&self, node: &SimNode, work: &Work) -> u32 {
        work.ask
            .resource
            .as_ref()
            .and_then(|name| node.resource(name))
            .map_or(0, |resource| node.free(resource))
    }

    fn refusal(&self, node: &SimNode, work: &Work) -> Option<No> {
        if node.cordoned
            && !tolerates(
                &work.tolerations,
                "node.kubernetes.io/unschedulable",
                "",
                "NoSchedule",
            )
        {
            return Some(No::Cordoned);
        }
        if let Some((key, value)) = node.spec().taint
            && !tolerates(&work.tolerations, key, value, "NoSchedule")
        {
            return Some(No::Tainted(Name::new(key), Name::new(value)));
        }
        for taint in &node.taints {
            if &*taint.effect != "PreferNoSchedule"
                && !tolerates(&work.tolerations, &taint.key, &taint.value, &taint.effect)
            {
                return Some(No::Tainted(taint.key.clone(), taint.value.clone()));
            }
        }
        if work.pool.is_some_and(|pool| pool != node.pool) {
            return Some(No::Selector);
        }
        let listed = |nodes: &[NodeId]| {
            self.node_names
                .get(&node.name)
                .is_some_and(|id| nodes.binary_search(id).is_ok())
        };
        if Self::selects(work)
            && work
                .matching
                .as_ref()
                .is_some_and(|(_, nodes)| !listed(nodes))
        {
            return Some(No::Selector);
        }
        let mut short = Vec::new();
        if node.cpu_free < work.ask.cpu_milli {
            short.push(Name::new("cpu"));
        }
        if node.memory_free < work.ask.memory_mib {
            short.push(Name::new("memory"));
        }
        if let Some(name) = &work.ask.resource
            && work.ask.count > 0
        {
            let free = node
                .resource(name)
                .map_or(0, |resource| node.free(resource));
            match (&work.ask.claim, node.by_claim()) {
                (Some(_), false) => return Some(No::Claims),
                (Some(_), true) if free < work.ask.count => return Some(No::Claims),
                (Some(_), true) => {}
                (None, claimed) if claimed || free < work.ask.count => short.push(name.clone()),
                (None, _) => {}
            }
        }
        (!short.is_empty()).then_some(No::Insufficient(short))
    }

    /// How many pods of the work the node could take now.
    pub(in crate::world) fn takes(&self, node: &SimNode, work: &Work) -> u32 {
        if self.refusal(node, work).is_some() {
            return 0;
        }
        let by_cpu = if work.ask.cpu_milli > 0 {
            node.cpu_free / work.ask.cpu_milli
        } else {
            i64::MAX
        };
        let by_memory = if work.ask.memory_mib > 0 {
            node.memory_free / work.ask.memory_mib
        } else {
            i64::MAX
        };
        let by_units = self
            .free_units(node, work)
            .checked_div(work.ask.count)
            .map_or(i64::MAX, i64::from);
        by_cpu.min(by_memory).min(by_units).min(1000) as u32
    }

    /// Binds every unbound pod of a gang, or none.
    pub(in crate::world) fn place_gang(&mut self, work_id: WorkId) {
        let Some(work) = self.works.get(&work_id) else {
            return;
        };
        let loose: Vec<PodId> = work
            .pods
            .iter()
            .copied()
            .filter(|id| {
                self.pods
                    .get(id)
                    .is_some_and(|pod| pod.node.is_none() && pod.is_active())
            })
            .collect();
        let wanted = work.width() as usize;
        let bound = work
            .pods
            .iter()
            .filter(|id| {
                self.pods
                    .get(id)
                    .is_some_and(|pod| pod.node.is_some() && pod.is_active())
            })
            .count();
        if loose.is_empty() || loose.len() + bound < wanted {
            return;
        }
        let plan = if self.kai_full(work).is_some() {
            None
        } else if work.sliced {
            self.plan_slices(work, &loose)
        } else {
            self.plan_racks(work, &loose)
        };
        match plan {
            Some(plan) => {
                for (pod, node) in plan {
                    self.bind(pod, node);
                }
            }
            None => {
                self.explain(work_id, &loose);
                self.kai_preempt(work_id);
            }
        }
    }

    /// The fullest rack that fits them all, else the racks with most free devices one after another.
    pub(in crate::world) fn plan_racks(
        &self,
        work: &Work,
        loose: &[PodId],
    ) -> Option<Vec<(PodId, NodeId)>> {
        let nodes: Vec<NodeId> = match work.pool {
            Some(pool) => self.pools[pool].clone(),
            None => self.pools.iter().flatten().copied().collect(),
        };
        let mut racks: BTreeMap<u32, (u32, Vec<(NodeId, u32)>)> = BTreeMap::new();
        for id in nodes {
            let takes = self.takes(&self.nodes[id], work);
            if takes > 0 {
                let rack = racks.entry(self.nodes[id].rack).or_default();
                rack.0 += takes;
                rack.1.push((id, takes));
            }
        }
        let needed = loose.len() as u32;
        if racks.values().map(|rack| rack.0).sum::<u32>() < needed {
            return None;
        }
        let mut order: Vec<&(u32, Vec<(NodeId, u32)>)> = racks.values().collect();
        order.small_sort_by_key(|rack| {
            if rack.0 >= needed {
                (0, rack.0)
            } else {
                (1, u32::MAX - rack.0)
            }
        });
        let mut seats = order
            .iter()
            .flat_map(|rack| rack.1.iter())
            .flat_map(|(node, takes)| std::iter::repeat_n(*node, *takes as usize));
        loose
            .iter()
            .map(|pod| Some((*pod, seats.next()?)))
            .collect()
    }

    /// One entirely free slice per group.
    pub(in crate::world) fn plan_slices(
        &self,
        work: &Work,
        loose: &[PodId],
    ) -> Option<Vec<(PodId, NodeId)>> {
        let pool = work.pool?;
        let mut slices: BTreeMap<u32, Vec<NodeId>> = BTreeMap::new();
        for &id in &self.pools[pool] {
            let node = &self.nodes[id];
            let free = node.free(0) as usize == node.units.len();
            if free && self.refusal(node, work).is_none() {
                slices.entry(node.slice).or_default().push(id);
            }
        }
        let mut whole = slices
            .into_values()
            .filter(|nodes| nodes.len() as u32 >= self.nodes[nodes[0]].slice_hosts);
        let mut groups: BTreeMap<u32, Vec<PodId>> = BTreeMap::new();
        for id in loose {
            groups
                .entry(self.pods.get(id)?.group)
                .or_default()
                .push(*id);
        }
        let mut plan = Vec::with_capacity(loose.len());
        for pods in groups.into_values() {
            let nodes = whole.next()?;
            if nodes.len() < pods.len() {
                return None;
            }
            plan.extend(pods.into_iter().zip(nodes));
        }
        Some(plan)
    }

    /// Binds a pod to a node and allocates its devices.
    pub(in crate::world) fn bind(&mut self, pod_id: PodId, node_id: NodeId) {
        let now = self.now;
        let Some(pod) = self.pods.get_mut(&pod_id) else {
            return;
        };
        let Some(work) = self.works.get(&pod.work) else {
            return;
        };
        let node = &mut self.nodes[node_id];
        let resource = work
            .ask
            .resource
            .as_ref()
            .and_then(|name| node.resource(name));
        if let Some(resource) = resource {
            pod.units = node.take(pod_id, resource, work.ask.count);
        }
        node.pods.insert(pod_id);
        node.cpu_free -= work.ask.cpu_milli;
        node.memory_free -= work.ask.memory_mib;
        pod.node = Some(node_id);
        pod.scheduled = Some(now);
        pod.verdict = None;
        self.unplaced
            .remove(&(-work.priority, pod.created.millis(), pod.work, pod_id));
        let message = format!("Successfully assigned {} to {}", pod.key, node.name);
        let word = mix(pod.uid, 21);
        let start = match work.kind {
            WorkKind::DaemonSet => 900,
            _ => 1500 + (unit(word) * unit(mix(word, 1)) * 22_000.0) as i64,
        };
        let key = pod.key.clone();
        let uid = pod.uid;
        self.meter(node_id);
        self.touch(Ref::Pod(pod_id));
        self.touch_claim(pod_id);
        self.touch_group(pod_id);
        if self.live {
            self.pod_event(&key, uid, "Normal", "Scheduled", message);
            self.after(start, Happening::PodStarts(pod_id));
        }
    }

    /// Marks a pod's PodGroup as changed, if its scheduler keeps one.
    fn touch_group(&mut self, pod: PodId) {
        let Some(id) = self.pods.get(&pod).map(|pod| pod.work) else {
            return;
        };
        let work = self.works.get(&id);
        if work.is_some_and(|work| work.scheduler != Scheduler::Kube) {
            self.touch_work(id);
        }
    }

    /// Writes on the pods why no node fits. Messages are refreshed every five minutes at most.
    fn explain(&mut self, work_id: WorkId, pods: &[PodId]) {
        let now = self.now;
        let stale = |world: &Self, id: &PodId| {
            world.pods.get(id).is_some_and(|pod| {
                pod.verdict
                    .as_ref()
                    .is_none_or(|(_, since)| now.since(*since).seconds() >= 300)
            })
        };
        let due: Vec<PodId> = pods.iter().copied().filter(|id| stale(self, id)).collect();
        if due.is_empty() {
            return;
        }
        let Some(work) = self.works.get(&work_id) else {
            return;
        };
        let message = Name::from(match &work.scheduler {
            Scheduler::Kube => self.verdict(work),
            Scheduler::Volcano(_) => self.volcano_verdict(work),
            Scheduler::Kai(_) => self.kai_verdict(work),
        });
        for id in due {
            let Some(pod) = self.pods.get_mut(&id) else {
                continue;
            };
            let (first, same) = match &pod.verdict {
                None => (true, false),
                Some((old, _)) => (false, *old == message),
            };
            pod.verdict = Some((message.clone(), now));
            if !same {
                let (key, uid) = (pod.key.clone(), pod.uid);
                self.touch(Ref::Pod(id));
                if first {
                    self.pod_event(
                        &key,
                        uid,
                        "Warning",
                        "FailedScheduling",
                        message.to_string(),
                    );
                }
            }
        }
        if self
            .works
            .get(&work_id)
            .is_some_and(|work| work.scheduler != Scheduler::Kube)
        {
            self.touch_work(work_id);
        }
    }

    /// The message that kube-scheduler would write.
    pub(in crate::world) fn verdict(&self, work: &Work) -> String {
        let mut counts: BTreeMap<String, u32> = BTreeMap::new();
        let mut total = 0u32;
        for &id in self.pools.iter().flatten() {
            total += 1;
            let reasons = match self.refusal(&self.nodes[id], work) {
                Some(No::Cordoned) => vec!["node(s) were unschedulable".to_owned()],
                Some(No::Tainted(key, value)) => {
                    vec![format!("node(s) had untolerated taint {{{key}: {value}}}")]
                }
                Some(No::Selector) => {
                    vec!["node(s) didn't match Pod's node affinity/selector".to_owned()]
                }
                Some(No::Insufficient(short)) => short
                    .iter()
                    .map(|name| format!("Insufficient {name}"))
                    .collect(),
                Some(No::Claims) => vec!["cannot allocate all claims".to_owned()],
                // The node fits one pod, but its siblings would take it.
                None => {
                    let name = work.ask.resource.as_deref().unwrap_or("cpu");
                    vec![format!("Insufficient {name}")]
                }
            };
            for reason in reasons {
                *counts.entry(reason).or_default() += 1;
            }
        }
        let mut lines: Vec<String> = counts
            .into_iter()
            .map(|(reason, count)| format!("{count} {reason}"))
            .collect();
        lines.small_sort();
        // kube-scheduler's message for pods with `preemptionPolicy: Never`.
        format!(
            "0/{total} nodes are available: {}. preemption: not eligible due to preemptionPolicy=Never.",
            lines.join(", ")
        )
    }

    /// True when the pod waits for a node.
    pub(in crate::world) fn wants_node(&self, id: PodId) -> bool {
        self.pods.get(&id).is_some_and(|pod| {
            pod.node.is_none() && pod.phase == PodPhase::Pending && pod.deleting.is_none()
        })
    }
}
