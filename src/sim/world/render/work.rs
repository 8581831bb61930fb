//! Controllers and their children, with status numbers counted from their pods.

use serde_json::{Map, Value};

use super::super::World;
use super::super::noise::{mix, suffix, uuid};
use super::super::pod::{PodPhase, SimPod};
use super::super::work::{ReplicaGroup, Scheduler, Work, WorkId, WorkKind, WorkState};
use super::pod::{group_uid, template_hash};
use super::template::some_text;
use super::{
    Fill, api_of, fill_missing, filled, filled_with, flag, identity, lay, owner, served_kind, some,
    values,
};

/// The port of Ray's dashboard.
const DASHBOARD: u16 = 8265;

/// Values for a template.
type Values = Vec<(&'static str, Value)>;

/// Pods of a group by what they do.
#[derive(Clone, Copy, Default)]
struct PodCounts {
    active: u32,
    ready: u32,
    terminating: u32,
}

/// What its templates call the state of a work.
fn state_word(work: &Work) -> &'static str {
    match work.state {
        WorkState::Done(_, true) => "succeeded",
        WorkState::Done(_, false) => "failed",
        _ if work.suspended => "suspended",
        WorkState::Running => "running",
        WorkState::Waiting => "waiting",
    }
}

impl World {
    pub(super) fn render_work(&self, id: WorkId, work: &Work) -> Value {
        let mut object = self.render_work_base(id, work);
        work.edit.apply(&mut object);
        object
    }

    /// The controller without clients' changes.
    pub(in super::super) fn render_work_base(&self, _id: WorkId, work: &Work) -> Value {
        let kind = work.kind.word();
        let mut object = match &work.foreign {
            Some(written) => (**written).clone(),
            None => self.filled_for(kind, work, self.spec_values(work)),
        };
        if work.kind == WorkKind::Job
            && work.foreign.is_some()
            && let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut)
        {
            fill_missing(spec, self.filled_for("Job-defaults", work, vec![]));
        }
        lay(
            &mut object,
            self.filled_for(&format!("{kind}-state"), work, self.state_values(work)),
        );
        object
    }

    /// The object of a template about a work.
    pub(super) fn filled_for(&self, template: &str, work: &Work, own: Values) -> Value {
        filled_with(template, own, &|name| self.of_work(work, name))
    }

    /// What templates name of a work.
    fn of_work(&self, work: &Work, name: &str) -> Option<Value> {
        let first = work.groups.first();
        let value = match name {
            "identity" => identity(&work.namespace, &work.name, work.uid, work.created).value(),
            "name" => work.name.value(),
            "namespace" => work.namespace.value(),
            "uid" => uuid(work.uid).value(),
            "api" => api_of(work.kind.word()).value(),
            "kind" => served_kind(work.kind.word()).value(),
            "created" => work.created.value(),
            "generation" => work.edit.generation().value(),
            "labels" => work_labels(work).value(),
            "podLabels" => self.template_labels(work).value(),
            "podSpec" => self.template_spec(work),
            "template" => self.filled_for("template", work, vec![]),
            "checkpoint" => work.last_checkpoint.value(),
            "exclusive" => work
                .sliced
                .then_some("cloud.google.com/gke-nodepool")
                .value(),
            "state" => state_word(work).value(),
            "end" => match work.state {
                WorkState::Done(end, _) => end.value(),
                _ => Value::Null,
            },
            "suspended" => work.suspended.value(),
            "suspendedSince" => work.suspended_since.value(),
            // Without a suspension there is no such condition.
            "resumed" => {
                (!work.is_over() && !work.suspended && work.suspended_since > work.created).value()
            }
            "runningSince" => work.running_since.value(),
            "since" => work.running_since.unwrap_or(work.created).value(),
            "started" => work
                .groups
                .iter()
                .filter_map(|group| group.started)
                .min()
                .value(),
            "restarts" => work.restarts.value(),
            "restartsText" => work.restarts.to_string().value(),
            "groups" => work.groups.len().value(),
            "groupsText" => work.groups.len().to_string().value(),
            "parallelism" => first.map(|group| group.parallelism).value(),
            "completions" => first.map(|group| group.completions).value(),
            "pods" => work.width().value(),
            "podsText" => work.width().to_string().value(),
            "devicesText" => work.ask.count.to_string().value(),
            "devices" => work.devices().to_string().value(),
            "class" => some_text(&work.class).value(),
            "groupClass" => some_text(&work.group_class).value(),
            "scheduler" => work.scheduler.name().value(),
            "schedulerQueue" => match &work.scheduler {
                Scheduler::Kube => "default".value(),
                Scheduler::Volcano(queue) | Scheduler::Kai(queue) => queue.value(),
            },
            _ => return None,
        };
        Some(value).filter(|value| !value.is_null())
    }

    /// What the template of a controller names besides.
    fn spec_values(&self, work: &Work) -> Values {
        let each = |template: &'static str| {
            move |group: &ReplicaGroup| {
                let own = values!(group: &group.name, replicas: group.completions);
                self.filled_for(template, work, own)
            }
        };
        match work.kind {
            WorkKind::Job => values!(jobSpec: self.job_spec(work, &work.groups[0], work.uid)),
            WorkKind::PyTorchJob => {
                let row = |group| (role(group).to_owned(), each("pytorch-role")(group));
                values!(roles: work.groups.iter().map(row).collect::<Map<_, _>>())
            }
            WorkKind::RayJob => values!(raySpec: self.ray_spec(work)),
            WorkKind::VolcanoJob => {
                values!(tasks: work.groups.iter().map(each("volcano-task")).collect::<Value>())
            }
            _ => vec![],
        }
    }

    /// What the template of its state names besides.
    fn state_values(&self, work: &Work) -> Values {
        let count = self.count(work, 0);
        match work.kind {
            WorkKind::JobSet => self.jobset_values(work),
            WorkKind::Job => values!(status: self.job_status(work, 0)),
            WorkKind::Deployment => {
                let (ready, group) = (count.ready, &work.groups[0]);
                values!(
                    active: count.active,
                    ready: ready,
                    terminating: some(count.terminating),
                    missing: some(group.parallelism.saturating_sub(ready)),
                    available: flag(ready + 1 >= group.parallelism && ready > 0),
                    set: &group.name,
                )
            }
            WorkKind::StatefulSet => {
                let revision = format!("{}-{}", work.name, suffix(work.uid, 9));
                values!(active: count.active, ready: count.ready, revision: revision)
            }
            WorkKind::DaemonSet => {
                values!(active: count.active, ready: count.ready, notReady: count.active - count.ready)
            }
            WorkKind::PyTorchJob => self.pytorch_values(work),
            WorkKind::RayJob => self.ray_values(work),
            WorkKind::LeaderWorkerSet => self.leader_values(work),
            WorkKind::VolcanoJob => self.volcano_values(work),
            WorkKind::Pod => vec![],
        }
    }

    fn job_spec(&self, work: &Work, group: &ReplicaGroup, uid: u64) -> Value {
        let own = values!(
            jobUid: uuid(uid),
            job: &group.name,
            parallelism: group.parallelism,
            completions: group.completions,
            backoffLimit: if work.gang { 0 } else { 3 + group.completions / 10 },
        );
        self.filled_for("job-spec", work, own)
    }

    fn job_status(&self, work: &Work, at: u32) -> Value {
        let group = &work.groups[at as usize];
        let count = self.count(work, at);
        let failure = work
            .failure
            .as_ref()
            .map(|(reason, message)| (&**reason, &**message));
        let default = (
            "BackoffLimitExceeded",
            "Job has reached the specified backoff limit",
        );
        let (reason, message) = failure.unwrap_or(default);
        let completed = match work.state {
            WorkState::Done(end, true) => Some(end),
            _ => None,
        };
        let own = values!(
            active: some(count.active),
            ready: count.ready,
            terminating: count.terminating,
            succeeded: some(group.done.len() as u32),
            completedIndexes: Some(ranges(group)).filter(|text| !text.is_empty()),
            failed: some(group.failed),
            startTime: group.started.filter(|_| !work.suspended),
            completionTime: completed,
            reason: if work.kind == WorkKind::JobSet { default.0 } else { reason },
            message: message,
        );
        self.filled_for("job-status", work, own)
    }

    fn jobset_values(&self, work: &Work) -> Values {
        let (mut ready, mut active) = (0_u32, 0_u32);
        let jobs = work.groups.len();
        let state = state_word(work);
        if matches!(state, "running" | "waiting") {
            for (at, group) in work.groups.iter().enumerate() {
                let count = self.count(work, at as u32);
                active += u32::from(count.active > 0);
                ready += u32::from(count.ready >= group.parallelism);
            }
        }
        let all = |word| if state == word { jobs } else { 0 };
        let terminal = match work.state {
            WorkState::Done(_, true) => Some("Completed"),
            WorkState::Done(_, false) => Some("Failed"),
            _ => None,
        };
        values!(
            ready: ready,
            active: active,
            succeeded: all("succeeded"),
            failed: all("failed"),
            suspendedJobs: all("suspended"),
            terminal: terminal,
            message: work.failure.as_ref().map_or("jobset failed", |(_, message)| message),
        )
    }

    fn pytorch_values(&self, work: &Work) -> Values {
        let lives = !work.is_over() && !work.suspended;
        let row = |(at, group): (usize, &ReplicaGroup)| {
            let (active, done) = (self.count(work, at as u32).active, group.done.len() as u32);
            let own =
                values!(active: some(active), succeeded: some(done), failed: some(group.failed));
            (role(group).to_owned(), filled("pytorch-role-status", own))
        };
        values!(
            roleStatuses: work.groups.iter().enumerate().map(row).collect::<Map<_, _>>(),
            runs: lives && work.running_since.is_some(),
            restarting: lives && work.running_since.is_none() && work.restarts > 0,
        )
    }

    /// The spec of a job's RayCluster.
    fn ray_spec(&self, work: &Work) -> Value {
        let row = |group: &ReplicaGroup| {
            let own = values!(group: &group.name, pods: group.completions);
            self.filled_for("ray-workers", work, own)
        };
        let workers: Value = work.groups.iter().skip(1).map(row).collect();
        self.filled_for("ray-spec", work, values!(workers: workers))
    }

    fn ray_values(&self, work: &Work) -> Values {
        let (cluster, _) = work.cluster(work.clusters);
        let (job, deployment) = match (work.state, work.suspended) {
            (WorkState::Done(_, true), _) => ("SUCCEEDED", "Complete"),
            (WorkState::Done(_, false), _) => ("FAILED", "Failed"),
            (_, true) => ("", "Suspended"),
            (WorkState::Running, _) => ("RUNNING", "Running"),
            (WorkState::Waiting, _) => ("", "Initializing"),
        };
        // While it is suspended, KubeRay clears the name of the last cluster.
        let lives = !work.suspended && !work.is_over();
        let dashboard = || {
            format!(
                "{cluster}-head-svc.{}.svc.cluster.local:{DASHBOARD}",
                work.namespace
            )
        };
        let failed = matches!(work.state, WorkState::Done(_, false));
        let message = work
            .failure
            .as_ref()
            .map_or("job failed", |(_, message)| message);
        values!(
            jobStatus: job,
            deployment: deployment,
            cluster: lives.then_some(&cluster),
            jobId: lives.then(|| format!("{}-{}", work.name, suffix(mix(work.uid, 0x1d), 5))),
            dashboard: (lives && work.running_since.is_some()).then(dashboard),
            reason: failed.then_some("AppFailed"),
            message: failed.then_some(message),
        )
    }

    fn leader_values(&self, work: &Work) -> Values {
        let wanted = replicas(work);
        let (mut leaders, mut ready) = (0_u32, 0_u32);
        for (at, group) in work.groups.iter().enumerate() {
            let count = self.count(work, at as u32);
            leaders += u32::from(group.live.contains_key(&0));
            ready += u32::from(group.parallelism > 0 && count.ready >= group.parallelism);
        }
        let whole = ready >= wanted;
        values!(replicas: wanted, leaders: leaders, ready: ready, available: flag(whole), progressing: flag(!whole))
    }

    pub(super) fn render_child(&self, work: &Work, at: u32) -> Option<Value> {
        let mut object = self.render_child_base(work, at)?;
        if matches!(work.kind, WorkKind::JobSet | WorkKind::Deployment) {
            work.groups[at as usize].edit.apply(&mut object);
        }
        Some(object)
    }

    /// A child without clients' changes.
    pub(in super::super) fn render_child_base(&self, work: &Work, at: u32) -> Option<Value> {
        match work.kind {
            WorkKind::JobSet | WorkKind::Deployment => Some(self.render_group_base(work, at)),
            WorkKind::RayJob => Some(self.ray_cluster(work)),
            WorkKind::LeaderWorkerSet => self.group_set(work, at),
            WorkKind::VolcanoJob => self.volcano_pod_group(work),
            WorkKind::PyTorchJob => self.kai_pod_group(work),
            _ => None,
        }
    }

    /// The reference to a work as an object's controller.
    pub(super) fn owner_work(&self, work: &Work) -> Value {
        let kind = work.kind.word();
        owner(api_of(kind), kind, &work.name, work.uid)
    }

    /// A child Job or ReplicaSet without clients' changes.
    fn render_group_base(&self, work: &Work, at: u32) -> Value {
        let group = &work.groups[at as usize];
        let uid = group_uid(work, at);
        let mut own = values!(
            childIdentity: identity(&work.namespace, &group.name, uid, group.created),
            childGeneration: group.edit.generation(),
            owner: self.owner_work(work),
            parallelism: group.parallelism,
        );
        if work.kind == WorkKind::JobSet {
            own.extend(values!(
                childIndex: at.to_string(),
                jobSpec: self.job_spec(work, group, uid),
                status: self.job_status(work, at),
            ));
            return self.filled_for("child-job", work, own);
        }
        let count = self.count(work, at);
        let written = work
            .foreign
            .as_deref()
            .and_then(|object| object.pointer("/spec/selector/matchLabels"));
        let selector = match written {
            Some(Value::Object(written)) => written.clone(),
            _ => Map::from_iter([("app".to_owned(), work.name.value())]),
        };
        own.extend(values!(
            hash: template_hash(work),
            replicasText: group.parallelism.to_string(),
            selector: selector,
            active: count.active,
            ready: count.ready,
        ));
        self.filled_for("replica-set", work, own)
    }

    /// A job's current RayCluster.
    fn ray_cluster(&self, work: &Work) -> Value {
        let (name, uid) = work.cluster(work.clusters);
        let pods = self
            .pods_of(work)
            .filter(|pod| pod.attempt == work.clusters);
        let created = pods
            .map(|pod| pod.created)
            .min()
            .unwrap_or(work.suspended_since);
        let (mut wanted, mut ready) = (0, 0);
        for (at, group) in work.groups.iter().enumerate().skip(1) {
            wanted += group.completions;
            ready += self.count(work, at as u32).ready;
        }
        let head = work
            .groups
            .first()
            .and_then(|group| self.pods.get(group.live.get(&0)?));
        let head = head.filter(|pod| pod.is_ready());
        let whole = head.filter(|_| ready >= wanted);
        let all = i64::from(work.width());
        let own = values!(
            childIdentity: identity(&work.namespace, &name, uid, created),
            owner: self.owner_work(work),
            raySpec: self.ray_spec(work),
            headReady: head.map(|pod| pod.ready.unwrap_or(pod.created)),
            provisioned: whole.and_then(|pod| work.running_since.or(pod.ready)),
            wanted: wanted,
            ready: ready,
            cpu: (all * work.ask.cpu_milli / 1000).to_string(),
            memory: format!("{}Mi", all * work.ask.memory_mib),
            gpus: (all * i64::from(work.ask.count)).to_string(),
            cluster: &name,
            headPod: head.map(|pod| &pod.key.name),
            headIp: head.and_then(|pod| Some(self.pod_ip(pod, pod.node?))),
            clusterState: whole.map(|_| "ready"),
        );
        self.filled_for("ray-cluster", work, own)
    }

    /// A StatefulSet of a LeaderWorkerSet: that of the leaders, or of one leader's workers.
    fn group_set(&self, work: &Work, child: u32) -> Option<Value> {
        let size = work.groups.first()?.completions;
        let (name, uid, created, of, wanted, pods): (_, _, _, _, _, Vec<&SimPod>) =
            match child.checked_sub(1) {
                None => {
                    let leaders = work
                        .groups
                        .iter()
                        .filter_map(|group| self.pods.get(group.live.get(&0)?));
                    let of = self.owner_work(work);
                    (
                        &work.name,
                        work.leaders_uid(),
                        work.created,
                        of,
                        replicas(work),
                        leaders.collect(),
                    )
                }
                Some(at) => {
                    let group = work.groups.get(at as usize)?;
                    let leader = self.pods.get(group.live.get(&0)?)?;
                    let uid = mix(group.uid, u64::from(leader.attempt));
                    let of = owner("v1", "Pod", &leader.key.name, leader.uid);
                    let workers = group
                        .live
                        .range(1..)
                        .filter_map(|(_, id)| self.pods.get(id));
                    (
                        &group.name,
                        uid,
                        leader.created,
                        of,
                        size - 1,
                        workers.collect(),
                    )
                }
            };
        let own = values!(
            childIdentity: identity(&work.namespace, name, uid, created),
            owner: of,
            index: child.checked_sub(1).map(|at| at.to_string()),
            leaders: (child == 0).then_some("0"),
            replicas: wanted,
            start: u32::from(child > 0),
            active: pods.iter().filter(|pod| pod.is_active()).count(),
            ready: pods.iter().filter(|pod| pod.is_ready()).count(),
            revision: format!("{name}-{}", suffix(work.uid, 9)),
        );
        Some(self.filled_for("child-set", work, own))
    }

    /// The pods of a work that exist.
    pub(super) fn pods_of(&self, work: &Work) -> impl Iterator<Item = &SimPod> {
        work.pods.iter().filter_map(|id| self.pods.get(id))
    }

    fn count(&self, work: &Work, group: u32) -> PodCounts {
        let mut count = PodCounts::default();
        for pod in self.pods_of(work).filter(|pod| pod.group == group) {
            if pod.deleting.is_some() && !pod.phase.is_over() {
                count.terminating += 1;
            } else if pod.is_active() {
                count.active += 1;
                count.ready += u32::from(self.serves(pod));
            }
        }
        count
    }

    /// True for a ready pod on a ready node.
    pub(super) fn serves(&self, pod: &SimPod) -> bool {
        pod.is_ready() && pod.node.is_none_or(|node| self.nodes[node].ready)
    }

    /// Active pods of a work in a phase.
    pub(super) fn active_in(&self, work: &Work, phase: PodPhase) -> u32 {
        self.pods_of(work)
            .filter(|pod| pod.is_active() && pod.phase == phase)
            .count() as u32
    }
}

fn work_labels(work: &Work) -> Map<String, Value> {
    let batch = work.kind.is_batch();
    let queue = if batch {
        "kueue.x-k8s.io/queue-name"
    } else {
        "stokehold.dev/queue"
    };
    let mut labels: Map<String, Value> =
        [("app", Some(&work.name)), ("team", some_text(&work.team))]
            .into_iter()
            .chain([
                ("owner", some_text(&work.user)),
                (queue, work.queue.as_ref()),
            ])
            .filter_map(|(key, value)| Some((key.to_owned(), value?.value())))
            .collect();
    labels.extend(
        work.labels
            .iter()
            .map(|(key, value)| (key.to_string(), value.value())),
    );
    labels
}

/// The role's key in a PyTorchJob's maps.
fn role(group: &ReplicaGroup) -> &'static str {
    match &*group.name {
        "master" => "Master",
        _ => "Worker",
    }
}

/// Desired number of groups of a LeaderWorkerSet.
fn replicas(work: &Work) -> u32 {
    work.groups
        .iter()
        .filter(|group| group.parallelism > 0)
        .count() as u32
}

/// The completed indexes of a Job as `completedIndexes` has them: `0-3,5`.
fn ranges(group: &ReplicaGroup) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for &index in &group.done {
        match parts.last_mut() {
            Some(last) if last.1 + 1 == index => last.1 = index,
            _ => parts.push((index, index)),
        }
    }
    let text = |(from, to): &(u32, u32)| match from == to {
        true => from.to_string(),
        false => format!("{from}-{to}"),
    };
    parts.iter().map(text).collect::<Vec<_>>().join(",")
}
