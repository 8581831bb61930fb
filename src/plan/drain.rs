//! Drain: cordons nodes, then evicts or requeues every workload on them, each by the gentlest mutation that its owner supports.
//!
//! A gang, and what Kueue admitted, is requeued as a whole: half of a gang is useless, and Kueue counts it whole. Independent
//! pods are evicted, which is the only mutation that respects disruption budgets. DaemonSet and static pods stay.

use std::collections::{BTreeMap, BTreeSet};

use engine::compiled::WorkloadId;
use engine::snapshot::{
    CORDON, Placement, PodSet, Snapshot, SnapshotNode, Status, Workload, belongs_to_node,
};
use model::base::quantities::first_named;
use model::base::{Moment, Name, ObjectKey, SmallSort};
use model::fleet::govern::CHECKPOINT_WANTED;
use model::fleet::job::JobKey;
use model::plan::{
    Alternative, Budgets, Displaced, Intent, Mutation, Plan, PlanEffect, Refusal, Step, Undo,
    Until, Verb, Wait, WaitOrder,
};

use super::effects::effect::{Leaver, Picture, compare, news};
use super::planner_context::{self, Author, EvictBy, seated};
use super::{cordon, evictions::unanswered, hold};

/// How long to wait for a budget and for a pod's end without a deadline, seconds.
const PATIENCE: u64 = 1_800;

/// The taint of a node whose kubelet stopped posting its status. Source: the node lifecycle controller of Kubernetes.
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// How one workload leaves the nodes.
struct Displacement {
    work: WorkloadId,
    way: EvictBy,
    /// Evict only its pods on the nodes.
    evicts: bool,
    /// Lost work, device-seconds; unknown sorts last.
    lost: u64,
}

struct Drain<'a> {
    snapshot: &'a Snapshot,
    nodes: BTreeSet<&'a Name>,
    deadline: Option<Moment>,
    plan: Plan,
    /// Numbers of the steps that cordon the nodes.
    closed: Vec<u32>,
    after: Snapshot,
    leavers: Vec<Leaver>,
    /// Steps (from 0) whose notes must say where their job goes.
    relaunch_notes: Vec<(usize, JobKey)>,
    /// Evictions that a budget can never allow: they come last.
    blocked: Vec<Step>,
    /// Requeued Kueue workloads, which are out of their queues for a moment.
    away: Vec<JobKey>,
    in_the_way: BTreeMap<ObjectKey, Vec<String>>,
}

/// The plan that drains nodes, by a deadline if there is one.
///
/// # Errors
/// A node does not exist, or there is nothing to do.
pub(super) fn plan(
    snapshot: &Snapshot,
    names: &[Name],
    deadline: Option<Moment>,
    author: &Author,
) -> Result<Plan, Refusal> {
    let found = cordon::find(snapshot, names)?;
    let mut drain = Drain {
        snapshot,
        nodes: found
            .iter()
            .map(|node| &snapshot.nodes[*node].name)
            .collect(),
        deadline,
        plan: Plan::new(
            format!("drain {}", cordon::words(names)),
            Intent::Drain {
                nodes: names.to_vec(),
                deadline,
            },
            snapshot.at,
        ),
        closed: Vec::new(),
        after: snapshot.clone(),
        leavers: Vec::new(),
        relaunch_notes: Vec::new(),
        blocked: Vec::new(),
        away: Vec::new(),
        in_the_way: BTreeMap::new(),
    };
    let why = match author.why.is_empty() {
        true => "drain",
        false => &author.why,
    };
    for node in found {
        drain.after.nodes[node].cordoned = true;
        if !snapshot.nodes[node].cordoned {
            drain.push(cordon::close(&snapshot.nodes[node], &author.by, why)?);
        }
    }
    drain.closed = u32::try_from(drain.plan.steps.len())
        .into_iter()
        .filter(|n| *n > 0)
        .collect();
    drain.residents()?;
    drain.workloads()?;
    for step in std::mem::take(&mut drain.blocked) {
        drain.push(step);
    }
    if drain.plan.steps.is_empty() {
        return Err(hold::already(format!(
            "{} is cordoned, and only DaemonSet pods remain there",
            cordon::words(names)
        )));
    }
    drain.budgets();
    let silent = unanswered::words(snapshot, &drain.nodes);
    drain.plan.warnings.extend(silent);
    Ok(drain.finish())
}

impl Drain<'_> {
    fn push(&mut self, step: Step) -> u32 {
        self.plan.steps.push(step);
        u32::try_from(self.plan.steps.len()).unwrap_or(u32::MAX)
    }

    /// Longest time of a wait, seconds.
    fn patience(&self) -> u64 {
        let left = self.deadline.map(|at| at.since(self.snapshot.at).seconds());
        left.unwrap_or(PATIENCE).max(1)
    }

    /// Whether the node is drained.
    fn is_here(&self, node: &Name) -> bool {
        self.nodes.contains(node)
    }

    /// Adds the pods without devices.
    fn residents(&mut self) -> Result<(), Refusal> {
        let mut daemons = 0;
        for pod in &self.snapshot.residents {
            if !self.is_here(&pod.node) {
                continue;
            }
            let name = planner_context::resident_name(pod);
            if belongs_to_node(&pod.owner) {
                daemons += 1;
                continue;
            }
            if pod.deleted.is_some() {
                let warning =
                    planner_context::stuck(&name.to_string(), pod.deleted, self.snapshot.at);
                self.plan.warnings.extend(warning);
                continue;
            }
            if pod.owner.is_empty() {
                self.plan.warnings.push(format!(
                    "{name} has no controller: nothing recreates it after the eviction"
                ));
            }
            let object = planner_context::pod(&pod.namespace, &pod.name, &pod.uid);
            let mut step = planner_context::evict(&object, &pod.node, self.patience())?;
            self.ends_by_deadline(&mut step);
            step.needs.clone_from(&self.closed);
            step.reason = format!("it runs on {}", pod.node);
            self.meets_budgets(&pod.namespace, &pod.name);
            match planner_context::never(self.snapshot, &pod.namespace, &pod.name) {
                Some(why) => self.block(step, &why),
                None => _ = self.push(step),
            }
        }
        if daemons > 0 {
            let (pods, stay) = match daemons {
                1 => (
                    "1 pod of a DaemonSet".to_owned(),
                    "stays: it belongs to its node",
                ),
                more => (
                    format!("{more} pods of DaemonSets"),
                    "stay: they belong to their nodes",
                ),
            };
            self.plan.reasons.push(format!("{pods} {stay}"));
        }
        Ok(())
    }

    /// Adds the workloads with devices, least lost work first.
    fn workloads(&mut self) -> Result<(), Refusal> {
        let snapshot = self.snapshot;
        let mut all = Vec::new();
        for (work, model) in snapshot.workloads.iter().enumerate() {
            let here: Vec<(&PodSet, &Placement)> = seated(model)
                .filter(|(_, pod)| self.is_here(&pod.node))
                .collect();
            if here.is_empty() {
                continue;
            }
            if model.key.kind.as_str() == "DaemonSet" {
                self.plan.reasons.push(format!(
                    "{} stays: the pods of a DaemonSet belong to their nodes",
                    model.key
                ));
                continue;
            }
            for (_, pod) in &here {
                let name = format!("{}/{}", model.key.key.namespace, pod.pod);
                let warning = planner_context::stuck(&name, pod.deleted, snapshot.at);
                self.plan.warnings.extend(warning);
            }
            if model.status == Status::Ending || here.iter().all(|(_, pod)| pod.deleted.is_some()) {
                self.plan
                    .reasons
                    .push(format!("{} is already terminating", model.key));
                continue;
            }
            let way = match planner_context::way(snapshot, model) {
                Ok(way) => way,
                // Pods can be evicted regardless of their owner.
                Err(_) => EvictBy::Pods(planner_context::pod(
                    &model.key.key.namespace,
                    &model.key.key.name,
                    &model.uid,
                )),
            };
            let gang = planner_context::gang(model).is_some();
            let evicts = match way {
                EvictBy::Kueue(_) => false,
                EvictBy::Suspend(_) | EvictBy::Volcano(_) => !gang,
                EvictBy::Pods(_) | EvictBy::Bare(_) => true,
            };
            let lost = planner_context::loss(snapshot, model, here.iter().copied()).device_seconds;
            all.push(Displacement {
                work,
                way,
                evicts,
                lost: lost.unwrap_or(u64::MAX),
            });
        }
        all.small_sort_by_key(|leave| (!leave.evicts, leave.lost, leave.work));
        for leave in &all {
            if leave.evicts {
                self.evict(leave)?;
            } else {
                self.requeue(leave)?;
            }
        }
        Ok(())
    }

    /// Evicts the workload's pods on the nodes one by one.
    fn evict(&mut self, leave: &Displacement) -> Result<(), Refusal> {
        let snapshot = self.snapshot;
        let model = &snapshot.workloads[leave.work];
        let bare = planner_context::has_no_controller(&model.key.kind);
        let back = self.comes_back(model);
        let (mut devices, mut gone) = (0, 0);
        let mut stays: BTreeSet<&Name> = BTreeSet::new();
        for set in &model.sets {
            for pod in &set.placements {
                if !self.is_here(&pod.node) || pod.deleted.is_some() {
                    continue;
                }
                let object = planner_context::pod(&model.key.key.namespace, &pod.pod, &pod.uid);
                let mut step = planner_context::evict(&object, &pod.node, self.patience())?;
                self.ends_by_deadline(&mut step);
                step.needs.clone_from(&self.closed);
                step.job = Some(planner_context::reference_of_pod(model, set));
                step.reason = format!("{} runs on {}", model.key, pod.node);
                self.meets_budgets(&model.key.key.namespace, &pod.pod);
                if let Some(why) =
                    planner_context::never(snapshot, &model.key.key.namespace, &pod.pod)
                {
                    stays.insert(&pod.pod);
                    self.block(step, &why);
                    continue;
                }
                let one = std::iter::once((set, pod));
                step.side_effects.loss = Some(planner_context::loss(snapshot, model, one));
                step.side_effects.gang_broken = planner_context::gang(model);
                let number = self.push(step);
                if !bare {
                    self.note_destination(number, planner_context::key_of_moved(&model.key), back);
                }
                devices += set.requests.device_count();
                gone += 1;
            }
        }
        if bare && gone > 0 {
            self.plan.warnings.push(format!(
                "{} has no controller: nothing recreates it after the eviction, and its work is lost",
                model.key
            ));
        }
        let goes = |pod: &Placement| self.is_here(&pod.node) && !stays.contains(&pod.pod);
        let here = seated(model).filter(|(_, pod)| goes(pod));
        let loss = planner_context::loss(snapshot, model, here);
        if devices > 0 {
            self.leavers.push(Leaver {
                key: model.key.clone(),
                devices,
                loss,
            });
        }
        // Remaining pods keep their devices; evicted ones are placed separately, as the scheduler places pods.
        let nodes = &self.nodes;
        planner_context::take_pods(&mut self.after, leave.work, |pod| {
            nodes.contains(&pod.node) && !stays.contains(&pod.pod)
        });
        Ok(())
    }

    /// Stops the whole workload and requeues it.
    fn requeue(&mut self, leave: &Displacement) -> Result<(), Refusal> {
        let snapshot = self.snapshot;
        let model = &snapshot.workloads[leave.work];
        let mut stop = planner_context::stop(snapshot, model)?;
        stop.needs.clone_from(&self.closed);
        stop.reason = match planner_context::gang(model) {
            Some(size) => format!("its gang of {size} has pods here and needs all of them"),
            None => "it runs here".to_owned(),
        };
        if let Some(wait) = self.checkpoint(planner_context::saves(self.snapshot, model)) {
            match &leave.way {
                // The annotation belongs on the job, not on its Kueue Workload.
                EvictBy::Kueue(_) => {
                    let top = planner_context::top(model)?;
                    let mutation = Mutation::Annotate {
                        key: CHECKPOINT_WANTED.to_owned(),
                        value: Some(snapshot.at.rfc3339()),
                    };
                    let mut ask = planner_context::step(Verb::Mark, &top, mutation)?;
                    ask.guards.push(planner_context::exists(&top));
                    ask.waits.push(Wait {
                        when: WaitOrder::After,
                        ..wait
                    });
                    ask.job = Some(planner_context::reference(model));
                    ask.needs.clone_from(&self.closed);
                    ask.reason = "it is asked to save a checkpoint".to_owned();
                    let number = self.push(ask);
                    stop.needs.push(number);
                }
                _ => stop.waits.push(wait),
            }
        }
        let back = self.comes_back(model);
        let stopped = self.push(stop);
        self.note_destination(stopped, model.key.clone(), back);
        if matches!(leave.way, EvictBy::Kueue(_)) {
            self.away.push(model.key.clone());
        }
        let mut again = planner_context::again(snapshot, model)?;
        again.needs.push(stopped);
        again.reason = "it is requeued".to_owned();
        self.push(again);
        self.leavers.extend(Leaver::whole(snapshot, leave.work));
        self.after.displace(leave.work, false);
        Ok(())
    }

    /// Whether pods of a workload may return to the nodes at once, because they tolerate the cordon; then adds a warning.
    fn comes_back(&mut self, model: &Workload) -> bool {
        let back = |(set, pod): (&PodSet, &Placement)| {
            set.tolerates_cordon() && self.nodes.contains(&pod.node)
        };
        let bare = planner_context::has_no_controller(&model.key.kind);
        if bare || !seated(model).any(back) {
            return false;
        }
        let job = planner_context::name(&model.key);
        self.plan.warnings.push(format!(
            "{job}: its pods tolerate the cordon ({CORDON}) and may be scheduled on the nodes again: hold it while they are drained, or exclude the nodes by node selector or affinity in its manifest"
        ));
        self.plan.alternatives.push(Alternative {
            sentence: format!("hold {job} while the nodes are drained"),
            command: Some(format!("plan hold {job}")),
        });
        true
    }

    /// Marks a step whose note says where its job goes: by the engine, unless its pods may return at once.
    fn note_destination(&mut self, number: u32, key: JobKey, back: bool) {
        let step = number as usize - 1;
        match back {
            true => self.plan.steps[step]
                .side_effects
                .notes
                .push("its pods tolerate the cordon and may be scheduled here again".to_owned()),
            false => self.relaunch_notes.push((step, key)),
        }
    }

    /// Adds an eviction that is tried last and fails unless its budget changes.
    fn block(&mut self, mut step: Step, why: &str) {
        step.side_effects.budgets = Budgets::Refusing;
        step.side_effects.notes.push(format!("stays: {why}"));
        self.blocked.push(step);
    }

    /// Limits the waits of a step to the deadline, whenever the plan is carried out.
    fn ends_by_deadline(&self, step: &mut Step) {
        for wait in &mut step.waits {
            wait.deadline = self.deadline;
        }
    }

    /// A wait for a newer checkpoint, where the workload saves any and there is a deadline.
    fn checkpoint(&mut self, last: Option<Moment>) -> Option<Wait> {
        let (last, _) = last.zip(self.deadline)?;
        Some(Wait {
            at_most_seconds: Some(self.patience()),
            deadline: self.deadline,
            go_on: true,
            ..Wait::new(WaitOrder::Before, Until::Checkpoint { after: last })
        })
    }

    fn meets_budgets(&mut self, namespace: &Name, pod: &Name) {
        let all: Vec<ObjectKey> = planner_context::budgets(self.snapshot, namespace, pod)
            .map(|budget| ObjectKey {
                namespace: budget.namespace.clone(),
                name: budget.name.clone(),
            })
            .collect();
        if let [_, _, ..] = all.as_slice() {
            self.plan.warnings.push(format!(
                "{namespace}/{pod} is covered by {} disruption budgets, and the server refuses to evict such a pod: delete all but one",
                all.len()
            ));
        }
        for key in all {
            self.in_the_way
                .entry(key)
                .or_default()
                .push(pod.to_string());
        }
    }

    /// Adds warnings about disruption budgets.
    fn budgets(&mut self) {
        for budget in &self.snapshot.budgets {
            let key = ObjectKey {
                namespace: budget.namespace.clone(),
                name: budget.name.clone(),
            };
            let Some(pods) = self.in_the_way.get(&key) else {
                continue;
            };
            let all = budget.pods.len();
            if planner_context::is_firm(budget) {
                self.plan.warnings.push(format!(
                    "disruption budget {key} requires {} of {all} pods healthy and can never allow an eviction: add replicas or loosen the budget, or {} {}",
                    budget.desired_healthy,
                    pods.join(", "),
                    if pods.len() == 1 { "stays" } else { "stay" }
                ));
            } else if (budget.allowed as usize) < pods.len() {
                self.plan.warnings.push(format!(
                    "the disruption budget {key} allows {} of {} evictions now: the others wait until replacements are ready",
                    budget.allowed,
                    pods.len()
                ));
            }
        }
    }

    fn finish(mut self) -> Plan {
        self.after.settle();
        let before = Picture::sure(self.snapshot, &[]);
        let after = Picture::sure(&self.after, &self.away);
        let mut plan = self.plan;
        for (step, key) in &self.relaunch_notes {
            let note = after.where_to(key);
            plan.steps[*step].side_effects.notes.push(note);
        }
        let mut forecast = compare(self.snapshot, &before, &after, self.leavers);
        after.estimate_moved(self.snapshot, &mut forecast);
        plan.reasons.extend(news(&forecast, self.snapshot.at));
        let saves = |one: &Displaced| {
            let work = planner_context::find(self.snapshot, &one.job).ok();
            let work = work.map(|work| &self.snapshot.workloads[work]);
            work.is_some_and(|work| planner_context::saves(self.snapshot, work).is_some())
        };
        let silent = |node: &&SnapshotNode| {
            let mut taints = node.taints.iter();
            self.nodes.contains(&node.name) && taints.any(|taint| taint.key.as_str() == UNREACHABLE)
        };
        let nodes = self.snapshot.nodes.iter().filter(silent);
        let nodes: Vec<&Name> = nodes.map(|node| &node.name).collect();
        if !nodes.is_empty() && !forecast.displaced.is_empty() {
            plan.warnings.push(format!(
                "unreachable: {}; a kubelet that does not answer ends no pod: evicted pods stay until it answers again or the node is deleted",
                first_named(&nodes, 5)
            ));
        }
        let hang: Vec<&model::plan::JobName> = forecast
            .displaced
            .iter()
            .map(|one| &one.job)
            .filter(|job| {
                let work = planner_context::find(self.snapshot, job);
                work.is_ok_and(|work| {
                    let work = &self.snapshot.workloads[work];
                    work.checkpoint.is_some() && planner_context::is_on_fault(self.snapshot, work)
                })
            })
            .collect();
        if !hang.is_empty() {
            plan.warnings.push(format!(
                "a failed device is allocated to {}: it may not save another checkpoint, and waiting for one may not help",
                first_named(&hang, 5)
            ));
        }
        if self.deadline.is_none() && forecast.displaced.iter().any(saves) {
            plan.alternatives.push(Alternative {
                sentence: "wait until its jobs save checkpoints, to lose less work".to_owned(),
                command: Some(format!("{} --deadline 30m", command(&plan.intent))),
            });
        }
        plan.alternatives.push(Alternative {
            sentence: "only cordon it, and wait until its jobs end".to_owned(),
            command: Some(command(&plan.intent).replace("plan drain", "plan cordon")),
        });
        plan.effect = PlanEffect::Forecast(forecast);
        plan.undo = Undo {
            possible: true,
            notes: vec!["undo uncordons the nodes; it does not move work back".to_owned()],
        };
        plan
    }
}

fn command(intent: &Intent) -> String {
    match intent {
        Intent::Drain { nodes, .. } => {
            let names: Vec<&str> = nodes.iter().map(Name::as_str).collect();
            format!("plan drain {}", names.join(" "))
        }
        _ => String::new(),
    }
}
