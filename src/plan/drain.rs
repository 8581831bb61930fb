//! Drain: nodes take no new work, and all work leaves them; each workload by the gentlest lever that its owner has.
//!
//! A gang, and what Kueue admitted, is queued again as a whole: half of it is of no use, and Kueue counts it whole. Pods that
//! stand alone are evicted, which is the only lever that asks disruption budgets. Daemons and static pods stay.

use std::collections::{BTreeMap, BTreeSet};

use engine::compiled::WorkloadId;
use engine::snapshot::{
    Budget, CORDON, Placement, PodSet, Snapshot, Status, Workload, belongs_to_node,
};
use model::base::quantities::first_named;
use model::base::{Moment, Name, ObjectKey, SmallSort};
use model::fleet::govern::CHECKPOINT_WANTED;
use model::fleet::job::JobKey;
use model::plan::{
    Alternative, Displaced, Effect, Intent, JobRef, Mutation, Plan, Refusal, Step, Undo, Until,
    Verb, Wait, When,
};

use super::effect::{Leaver, Picture, compare, news};
use super::planner_context::{self, Author, Way, seated};
use super::{cordon, hold};

/// How long a budget and a pod's end are waited for without a deadline, seconds.
const PATIENCE: u64 = 1_800;

/// A name for what is evicted of a workload, while the engine looks for room for it.
const MOVED: &str = "evicted pods of ";

/// What is done to one workload.
struct Leave {
    work: WorkloadId,
    way: Way,
    /// Only its pods on the nodes.
    evicts: bool,
    /// Device-seconds that are lost; unknown comes last.
    lost: u64,
}

struct Drain<'a> {
    snapshot: &'a Snapshot,
    nodes: BTreeSet<&'a Name>,
    deadline: Option<Moment>,
    plan: Plan,
    /// The number of the last step that closes a node.
    closed: Vec<u32>,
    after: Snapshot,
    leavers: Vec<Leaver>,
    /// Step (from 0) by the job whose whereabouts it is to tell.
    tells: Vec<(usize, JobKey)>,
    /// Evictions that a budget can never allow: they come last.
    blocked: Vec<Step>,
    /// Workloads of Kueue that are requeued, and so out of their queues for a moment.
    away: Vec<JobKey>,
    in_the_way: BTreeMap<ObjectKey, Vec<String>>,
}

/// The plan that drains nodes by a deadline, if there is one.
///
/// # Errors
/// A node is not there, or there is nothing to do.
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
        tells: Vec::new(),
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
    Ok(drain.finish())
}

impl Drain<'_> {
    fn push(&mut self, step: Step) -> u32 {
        self.plan.steps.push(step);
        u32::try_from(self.plan.steps.len()).unwrap_or(u32::MAX)
    }

    /// Seconds that a wait may last.
    fn patience(&self) -> u64 {
        let left = self.deadline.map(|at| at.since(self.snapshot.at).seconds());
        left.unwrap_or(PATIENCE).max(1)
    }

    /// Whether a pod on this node is to go.
    fn is_here(&self, node: &Name) -> bool {
        self.nodes.contains(node)
    }

    /// Pods without devices.
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
                let told = planner_context::stuck(&name.to_string(), pod.deleted, self.snapshot.at);
                self.plan.warnings.extend(told);
                continue;
            }
            if pod.owner.is_empty() {
                self.plan.warnings.push(format!(
                    "{name} has no controller: once evicted, no controller recreates it"
                ));
            }
            let object = planner_context::pod(&pod.namespace, &pod.name, &pod.uid);
            let mut step = planner_context::evict(&object, &pod.node, self.patience())?;
            self.ends_by_deadline(&mut step);
            step.needs.clone_from(&self.closed);
            step.reason = format!("it runs on {}", pod.node);
            self.meets_budgets(&pod.namespace, &pod.name);
            match self.never(&pod.namespace, &pod.name) {
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

    /// Workloads that hold devices, those that lose least first.
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
                let told = planner_context::stuck(&name, pod.deleted, snapshot.at);
                self.plan.warnings.extend(told);
            }
            if model.status == Status::Ending || here.iter().all(|(_, pod)| pod.deleted.is_some()) {
                self.plan
                    .reasons
                    .push(format!("{} is ending by itself", model.key));
                continue;
            }
            let way = match planner_context::way(snapshot, model) {
                Ok(way) => way,
                // Pods can be evicted whatever owns them.
                Err(_) => Way::Pods(planner_context::pod(
                    &model.key.key.namespace,
                    &model.key.key.name,
                    &model.uid,
                )),
            };
            let gang = planner_context::gang(model).is_some();
            let evicts = match way {
                Way::Kueue(_) => false,
                Way::Suspend(_) | Way::Volcano(_) => !gang,
                Way::Pods(_) | Way::Bare(_) => true,
            };
            let lost = planner_context::loss(snapshot, model, here.iter().copied()).device_seconds;
            all.push(Leave {
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

    /// Its pods here are evicted one by one.
    fn evict(&mut self, leave: &Leave) -> Result<(), Refusal> {
        let snapshot = self.snapshot;
        let model = &snapshot.workloads[leave.work];
        let bare = matches!(leave.way, Way::Bare(_));
        let back = self.comes_back(leave, model);
        let (mut devices, mut gone) = (0, 0);
        let mut stays: BTreeSet<&Name> = BTreeSet::new();
        let mut moved = model.clone();
        for (set, part) in model.sets.iter().zip(&mut moved.sets) {
            part.placements.clear();
            let mut count = 0;
            for pod in &set.placements {
                if !self.is_here(&pod.node) || pod.deleted.is_some() {
                    continue;
                }
                let object = planner_context::pod(&model.key.key.namespace, &pod.pod, &pod.uid);
                let mut step = planner_context::evict(&object, &pod.node, self.patience())?;
                self.ends_by_deadline(&mut step);
                step.needs.clone_from(&self.closed);
                // One pod goes, not all of its job.
                step.job = Some(JobRef {
                    devices: Some(set.ask.device_count()),
                    ..planner_context::reference(model)
                });
                step.reason = format!("{} runs on {}", model.key, pod.node);
                self.meets_budgets(&model.key.key.namespace, &pod.pod);
                if let Some(why) = self.never(&model.key.key.namespace, &pod.pod) {
                    stays.insert(&pod.pod);
                    self.block(step, &why);
                    continue;
                }
                let one = std::iter::once((set, pod));
                step.side_effects.loss = Some(planner_context::loss(snapshot, model, one));
                step.side_effects.gang_broken = planner_context::gang(model);
                let number = self.push(step);
                self.tell(number, key_of_moved(&model.key), back);
                devices += set.ask.device_count();
                count += 1;
            }
            part.count = count;
            part.min = count.min(part.min);
            gone += count;
        }
        if bare && gone > 0 {
            self.plan.warnings.push(format!(
                "{} has no controller: once evicted, no controller recreates it, and its work is lost",
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
        // What stays holds what it holds; what goes looks for room on its own, as the scheduler places pods.
        let nodes = std::mem::take(&mut self.nodes);
        for set in &mut self.after.workloads[leave.work].sets {
            set.placements
                .retain(|pod| !nodes.contains(&pod.node) || stays.contains(&pod.pod));
            set.count = u32::try_from(set.placements.len()).unwrap_or(set.count);
            set.min = set.min.min(set.count);
        }
        self.nodes = nodes;
        if gone > 0 && !bare {
            moved.sets.retain(|set| set.count > 0);
            moved.key = key_of_moved(&model.key);
            moved.queue = None;
            moved.status = Status::Waiting;
            moved.admitted_at = None;
            moved.created = snapshot.at;
            self.after.workloads.push(moved);
        }
        Ok(())
    }

    /// All of it is stopped and queued again.
    fn requeue(&mut self, leave: &Leave) -> Result<(), Refusal> {
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
                // The mark stands on the job, not on what Kueue keeps of it.
                Way::Kueue(_) => {
                    let top = planner_context::top(model)?;
                    let lever = Mutation::Annotate {
                        key: CHECKPOINT_WANTED.to_owned(),
                        value: Some(snapshot.at.rfc3339()),
                    };
                    let mut ask = planner_context::step(Verb::Mark, &top, lever)?;
                    ask.guards.push(planner_context::exists(&top));
                    ask.waits.push(Wait {
                        when: When::After,
                        ..wait
                    });
                    ask.job = Some(planner_context::reference(model));
                    ask.needs.clone_from(&self.closed);
                    ask.reason = "it is asked to save its work".to_owned();
                    let number = self.push(ask);
                    stop.needs.push(number);
                }
                _ => stop.waits.push(wait),
            }
        }
        let back = self.comes_back(leave, model);
        let stopped = self.push(stop);
        self.tell(stopped, model.key.clone(), back);
        if matches!(leave.way, Way::Kueue(_)) {
            self.away.push(model.key.clone());
        }
        let mut again = planner_context::again(snapshot, model)?;
        again.needs.push(stopped);
        again.reason = "it is queued again".to_owned();
        self.push(again);
        self.leavers.extend(Leaver::whole(snapshot, leave.work));
        self.after.displace(leave.work, false);
        Ok(())
    }

    /// Whether pods of a workload may come straight back to the nodes, because they tolerate that these are cordoned: then it is
    /// said, with what works.
    fn comes_back(&mut self, leave: &Leave, model: &Workload) -> bool {
        let back = |(set, pod): (&PodSet, &Placement)| {
            set.tolerates_cordon() && self.nodes.contains(&pod.node)
        };
        if matches!(leave.way, Way::Bare(_)) || !seated(model).any(back) {
            return false;
        }
        let job = planner_context::name(&model.key);
        self.plan.warnings.push(format!(
            "{job}: its pods tolerate the cordon ({CORDON}) and may come straight back to the nodes: hold it while they are out of use, or keep it off by a node selector or affinity in its own manifest"
        ));
        self.plan.alternatives.push(Alternative {
            sentence: format!("hold {job} while the nodes are out of use"),
            command: Some(format!("plan hold {job}")),
        });
        true
    }

    /// A step tells where its job goes: what the engine says, unless it may come straight back.
    fn tell(&mut self, number: u32, key: JobKey, back: bool) {
        let step = number as usize - 1;
        match back {
            true => self.plan.steps[step]
                .side_effects
                .notes
                .push("its pods tolerate the cordon and may come straight back here".to_owned()),
            false => self.tells.push((step, key)),
        }
    }

    /// Why the server will never allow a pod's eviction, as its budgets stand.
    fn never(&self, namespace: &Name, pod: &Name) -> Option<String> {
        let all: Vec<&Budget> = planner_context::budgets(self.snapshot, namespace, pod).collect();
        match all.as_slice() {
            [] => None,
            [one] => is_firm(one).then(|| {
                format!(
                    "disruption budget {}/{} allows 0 evictions and can never allow one",
                    one.namespace, one.name
                )
            }),
            more => Some(format!(
                "{} disruption budgets cover it, and the server evicts no such pod",
                more.len()
            )),
        }
    }

    /// An eviction that is tried last, and comes to nothing unless its budget changes.
    fn block(&mut self, mut step: Step, why: &str) {
        step.side_effects.notes.push(format!("stays: {why}"));
        self.blocked.push(step);
    }

    /// No wait of a step lasts beyond the deadline, whenever the plan is carried out.
    fn ends_by_deadline(&self, step: &mut Step) {
        for wait in &mut step.waits {
            wait.deadline = self.deadline;
        }
    }

    /// A wait for newer saved work, where somebody saves it and there is a deadline to wait for.
    fn checkpoint(&mut self, last: Option<Moment>) -> Option<Wait> {
        let (last, _) = last.zip(self.deadline)?;
        Some(Wait {
            when: When::Before,
            until: Until::Checkpoint { after: last },
            at_most_seconds: Some(self.patience()),
            deadline: self.deadline,
            go_on: true,
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
                "{namespace}/{pod} is covered by {} disruption budgets, and the server evicts no such pod: delete all but one",
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

    /// What disruption budgets will say.
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
            if is_firm(budget) {
                self.plan.warnings.push(format!(
                    "disruption budget {key} needs {} of its {all} pods up and can never allow an eviction: raise the replicas or loosen the budget, or {} stay",
                    budget.desired_healthy,
                    pods.join(", ")
                ));
            } else if (budget.allowed as usize) < pods.len() {
                self.plan.warnings.push(format!(
                    "the disruption budget {key} allows {} of {} evictions now: the others wait until replacements are up",
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
        for (step, key) in &self.tells {
            let told = after.where_to(key);
            plan.steps[*step].side_effects.notes.push(told);
        }
        let mut forecast = compare(self.snapshot, &before, &after, self.leavers);
        for displaced in &mut forecast.displaced {
            if displaced.back.is_none() {
                let work = self.snapshot.workloads.iter();
                let key = work
                    .map(|work| &work.key)
                    .find(|key| key.key == displaced.job.0);
                displaced.back = key.and_then(|key| after.start(&key_of_moved(key)));
            }
        }
        plan.reasons.extend(news(&forecast, self.snapshot.at));
        let saves = |one: &Displaced| {
            let work = planner_context::find(self.snapshot, &one.job).ok();
            let work = work.map(|work| &self.snapshot.workloads[work]);
            work.is_some_and(|work| planner_context::saves(self.snapshot, work).is_some())
        };
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
                "a broken device is held by {}: no checkpoint is saved on it any more, and waiting for one is of no use",
                first_named(&hang, 5)
            ));
        }
        if self.deadline.is_none() && forecast.displaced.iter().any(saves) {
            plan.alternatives.push(Alternative {
                sentence: "wait until its jobs save checkpoints, and lose less".to_owned(),
                command: Some(format!("{} --deadline 30m", command(&plan.intent))),
            });
        }
        plan.alternatives.push(Alternative {
            sentence: "only let nothing new onto it, and wait until its work ends".to_owned(),
            command: Some(command(&plan.intent).replace("plan drain", "plan cordon")),
        });
        plan.effect = Effect::Forecast(forecast);
        plan.undo = Undo {
            possible: true,
            notes: vec![
                "nodes are opened again; what has left them does not come back by it, and work that is lost stays lost"
                    .to_owned(),
            ],
        };
        plan
    }
}

/// Whether a budget allows no eviction and never will: it keeps up all pods that it covers.
fn is_firm(budget: &Budget) -> bool {
    budget.allowed == 0 && budget.desired_healthy as usize >= budget.pods.len()
}

/// The key under which the evicted pods of a workload look for room.
fn key_of_moved(key: &JobKey) -> JobKey {
    JobKey {
        key: key.key.clone(),
        kind: Name::from(format!("{MOVED}{}", key.kind)),
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
