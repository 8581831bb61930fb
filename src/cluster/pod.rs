//! Pods: their requests, node, reason for waiting or failing, and the devices that the API reports as allocated to them.

use model::base::{Moment, Name, Names, SmallSort};
use model::fleet::observe::{
    Claimed, Observation, Phase, PodSeen, Table, WorkloadFailure, is_hami_allocation,
};

use super::Projected;
use super::accelerators::counts_devices;
use super::lenient_json::{List, Maybe, Text, Whole, partial};
use super::meta::{Meta, RawCondition, find, labels};
use super::pod_placement::{membership, siting};
use super::queues::kai;
use super::resources::PodShape;

partial! {
    PodObject {
        meta: Meta = "metadata",
        spec: PodShape = "spec",
        status: PodStatus = "status",
    }
}

partial! {
    PodStatus {
        phase: Text = "phase",
        /// Reason for the phase (`Evicted`).
        reason: Text = "reason",
        /// The same in a sentence.
        message: Text = "message",
        /// When the kubelet acknowledged it.
        started: Text = "startTime",
        ip: Text = "podIP",
        conditions: List<RawCondition> = "conditions",
        containers: List<ContainerStatus> = "containerStatuses",
        /// Init containers and sidecars.
        init_containers: List<ContainerStatus> = "initContainerStatuses",
        /// Claims generated for it.
        claims: List<MadeClaim> = "resourceClaimStatuses",
        /// The claim that backs its extended resource requests.
        extended: ExtendedClaim = "extendedResourceClaimStatus",
    }
}

partial! {
    /// A claim that was made for a pod.
    MadeClaim {
        claim: Text = "resourceClaimName",
    }
}

partial! {
    /// A claim that serves extended resources.
    ExtendedClaim {
        claim: Text = "resourceClaimName",
        /// The extended resources that the claim backs.
        mappings: List<ExtendedMapping> = "requestMappings",
    }
}

partial! {
    /// One extended resource that a claim backs.
    ExtendedMapping {
        resource: Text = "resourceName",
    }
}

partial! {
    /// What became of a container.
    ContainerStatus {
        /// Times that it was restarted.
        restarts: Whole = "restartCount",
        state: ContainerState = "state",
        /// State before the last restart.
        last: ContainerState = "lastState",
        allocated: List<AllocatedResource> = "allocatedResourcesStatus",
    }
}

partial! {
    /// Exactly one of these is set.
    ContainerState {
        waiting: Maybe<Waiting> = "waiting",
        running: Maybe<Running> = "running",
        terminated: Maybe<Terminated> = "terminated",
    }
}

partial! {
    /// Why a container does not run.
    Waiting {
        reason: Text = "reason",
        /// A sentence for people.
        message: Text = "message",
    }
}

partial! {
    /// A container that runs.
    Running {
        started: Text = "startedAt",
    }
}

partial! {
    /// A container that ended.
    Terminated {
        exit_code: Whole = "exitCode",
        /// `OOMKilled`, `Error`, `Completed`, ….
        reason: Text = "reason",
        /// Contents of its termination log.
        message: Text = "message",
        started: Text = "startedAt",
        finished: Text = "finishedAt",
    }
}

partial! {
    /// Devices of one resource that are allocated to a container.
    AllocatedResource {
        /// Resource name, or `claim:NAME/REQUEST`.
        name: Text = "name",
        resources: List<ResourceId> = "resources",
    }
}

partial! {
    ResourceId {
        /// The device plugin's id, or `DRIVER/POOL/DEVICE`.
        id: Text = "resourceID",
    }
}

/// Reasons of a container that waits in the ordinary course of things.
const ORDINARY: &[&str] = &["", "ContainerCreating", "PodInitializing"];

impl PodObject {
    /// The pod in the fleet's model. `serves` keeps the labels of a pod that requests no device;
    /// labels of all other such pods are dropped. `None` for a pod without a name.
    pub fn seen(&self, serves: bool, names: &mut Names) -> Option<PodSeen> {
        let key = self.meta.key(names)?;
        let status = &self.status;
        let mut requests = kai::of_annotated_pod(&self.spec, &self.meta.annotations, names);
        let reserves = kai::reserved(&self.meta, &requests, names);
        if reserves.is_some() {
            // The device is that of the pods that share it.
            requests.devices = Box::default();
        }
        let wants_devices = requests.wants_devices();
        let keeps_labels = serves || wants_devices;
        let owner = self.meta.owner(names);
        let placed = find(&status.conditions, "PodScheduled");
        let phase = phase(&status.phase);
        Some(PodSeen {
            key,
            // Uids are unique, so interning them would only waste memory.
            uid: Name::new(&self.meta.uid),
            node: self.spec.node.get().map(|node| names.intern(node)),
            phase,
            labels: if keeps_labels {
                self.meta.labels(names)
            } else {
                Default::default()
            },
            annotations: self.meta.annotations(names),
            owner: owner.clone(),
            requests,
            priority: self.spec.priority.small().unwrap_or(0),
            created: self.meta.created(),
            scheduled: placed
                .filter(|placed| placed.status() == Some(true))
                .and_then(|placed| placed.since.moment()),
            started: self.started(phase),
            deleted: self.meta.deleted.moment(),
            ready: find(&status.conditions, "Ready")
                .is_some_and(|ready| ready.status() == Some(true)),
            unschedulable: placed
                .filter(|placed| placed.status() == Some(false))
                .map(|placed| (names.intern(&placed.reason), names.intern(&placed.message))),
            node_selector: labels(&self.spec.node_selector, names),
            siting: wants_devices
                .then(|| {
                    let member_of = match owner {
                        Some(_) => None,
                        None => membership(&self.meta, &self.spec, names),
                    };
                    siting(&self.spec, member_of, names)
                })
                .flatten(),
            failure: self.failure(phase),
            claimed: self.claimed(names),
            parts: Vec::new(),
            claims: self.claims(names),
            by_claim: {
                let served = status.extended.mappings.iter();
                let named = served.filter_map(|one| one.resource.get());
                named.map(|resource| names.intern(resource)).collect()
            },
            ip: status.ip.get().map(Name::new),
            reserves: reserves.map(Box::new),
        })
    }

    /// When its main containers first ran, or (some nodes report no containers) were accepted.
    fn started(&self, phase: Phase) -> Option<Moment> {
        let ran = self.status.containers.iter().flat_map(|container| {
            [&container.state, &container.last]
                .into_iter()
                .flat_map(|state| {
                    let running = state
                        .running
                        .0
                        .as_ref()
                        .and_then(|running| running.started.moment());
                    let ended = state
                        .terminated
                        .0
                        .as_ref()
                        .and_then(|ended| ended.started.moment());
                    running.into_iter().chain(ended)
                })
        });
        ran.min().or_else(|| {
            (phase != Phase::Pending)
                .then(|| self.status.started.moment())
                .flatten()
        })
    }

    /// Why it failed or restarts; `None` when it did neither.
    fn failure(&self, phase: Phase) -> Option<WorkloadFailure> {
        let status = &self.status;
        let all = || {
            status
                .containers
                .iter()
                .chain(status.init_containers.iter())
        };
        let restarts = all()
            .filter_map(|container| container.restarts.count())
            .sum();
        let ended = all()
            .flat_map(|container| [&container.state, &container.last])
            .filter_map(|state| state.terminated.0.as_ref())
            .filter(|ended| ended.exit_code.0 != Some(0))
            .max_by_key(|ended| ended.finished.moment());
        let waiting = all()
            .filter_map(|container| container.state.waiting.0.as_ref())
            .find(|waiting| !ORDINARY.contains(&&*waiting.reason));
        let disrupted = find(&status.conditions, "DisruptionTarget")
            .filter(|condition| condition.status() == Some(true));
        let last_eviction = disrupted
            .and_then(|condition| condition.since.moment())
            .or_else(|| {
                let evicted = &*status.reason == "Evicted";
                evicted.then(|| status.started.moment()).flatten()
            });
        let mut own_words = false;
        let words = if let Some(reason) = status.reason.get() {
            sentence(reason, &status.message)
        } else if let Some(waiting) = waiting {
            match ended.and_then(|ended| ended.reason.get()) {
                // The cause of the crash is more useful than the kubelet's back-off time.
                Some(cause) => sentence(&waiting.reason, cause),
                None => sentence(&waiting.reason, &waiting.message),
            }
        } else if let Some(ended) = ended {
            own_words = !ended.message.is_empty();
            sentence(ended.reason.get().unwrap_or("Error"), &ended.message)
        } else if let Some(disrupted) = disrupted {
            sentence(&disrupted.reason, &disrupted.message)
        } else {
            String::new()
        };
        // A running container still reports its previous termination, which no longer matters.
        let has_failed_now = waiting.is_some()
            || !status.reason.is_empty()
            || all().any(|container| {
                let now = container.state.terminated.0.as_ref();
                now.is_some_and(|ended| ended.exit_code.0 != Some(0))
            });
        let again = all().filter(|container| container.restarts.count() > Some(0));
        let restarted = again
            .filter_map(|container| container.state.running.0.as_ref()?.started.moment())
            .max()
            .filter(|_| phase == Phase::Running && !has_failed_now);
        let wrong = phase == Phase::Failed || !words.is_empty() || restarts > 0;
        wrong.then(|| WorkloadFailure {
            exit_code: ended.and_then(|ended| ended.exit_code.small()),
            message: Name::from(words),
            restarts,
            ended: ended.and_then(|ended| ended.finished.moment()),
            last_eviction,
            restarted,
            own_words,
        })
    }

    /// Devices that the kubelet reports as allocated to its containers (feature ResourceHealthStatus).
    fn claimed(&self, names: &mut Names) -> Vec<Claimed> {
        let mut out = self.given_by_hami(names);
        let given = self
            .status
            .containers
            .iter()
            .chain(self.status.init_containers.iter());
        for allocated in given.flat_map(|container| container.allocated.iter()) {
            for device in allocated.resources.iter() {
                let Some(id) = device.id.get() else { continue };
                if counts_devices(&allocated.name) {
                    out.push(Claimed::Id(names.intern(id)));
                } else if allocated.name.starts_with("claim:") {
                    let mut parts = id.splitn(3, '/');
                    if let (Some(driver), Some(pool), Some(device)) =
                        (parts.next(), parts.next(), parts.next())
                    {
                        out.push(Claimed::Claim(
                            names.intern(driver),
                            names.intern(pool),
                            names.intern(device),
                        ));
                    }
                }
            }
        }
        out
    }

    /// Names of its claims: referenced claims, and claims generated for it.
    fn claims(&self, names: &mut Names) -> Box<[Name]> {
        let named = self.spec.claims.iter().filter_map(|claim| claim.claim());
        let made = self.status.claims.iter();
        let made = made.filter_map(|claim| claim.claim.get());
        let mut all: Vec<Name> = named
            .chain(made)
            .chain(self.status.extended.claim.get())
            .map(|claim| names.intern(claim))
            .collect();
        all.small_sort();
        all.dedup();
        all.into_boxed_slice()
    }

    /// Ids of the devices that HAMi's scheduler allocated.
    fn given_by_hami(&self, names: &mut Names) -> Vec<Claimed> {
        const MOST: usize = 64;
        let annotations = self.meta.annotations.iter();
        let given = annotations
            .filter(|(key, _)| is_hami_allocation(key))
            .flat_map(|(_, value)| value.split([':', ';']));
        let ids = given.filter_map(|row| row.split_once(',')?.0.trim().split('[').next());
        ids.filter(|id| !id.is_empty())
            .take(MOST)
            .map(|id| Claimed::Id(names.intern(id)))
            .collect()
    }

    /// Images of its main containers.
    pub fn images(&self) -> impl Iterator<Item = &str> {
        let containers = self.spec.containers.iter();
        containers.map(|container| &*container.image)
    }

    /// The named ports that its containers declare.
    pub fn ports(&self) -> Vec<(Box<str>, u16)> {
        self.spec
            .containers
            .iter()
            .chain(self.spec.init_containers.iter())
            .flat_map(|container| container.ports.iter())
            .filter_map(|port| {
                let number = u16::try_from(port.number.0?).ok()?;
                Some((Box::from(&*port.name), number))
            })
            .collect()
    }
}

impl Projected for PodObject {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn project(&self, _: Table, names: &mut Names) -> Option<Observation> {
        self.seen(false, names)
            .map(|seen| Observation::Pod(Box::new(seen)))
    }

    fn as_pod(&self) -> Option<&PodObject> {
        Some(self)
    }
}

fn phase(text: &str) -> Phase {
    match text {
        "Running" => Phase::Running,
        "Succeeded" => Phase::Succeeded,
        "Failed" => Phase::Failed,
        "Unknown" => Phase::Unknown,
        _ => Phase::Pending,
    }
}

/// A reason and its message, as one line of bounded length.
fn sentence(word: &str, more: &str) -> String {
    const LONGEST: usize = 240;
    let more = more.trim().lines().next().unwrap_or("");
    let mut out = if more.is_empty() {
        word.to_owned()
    } else {
        format!("{word}: {more}")
    };
    if let Some((at, _)) = out.char_indices().nth(LONGEST) {
        out.truncate(at);
        out.push('…');
    }
    out
}
