//! Generated fleets: nodes whose devices are whole, time-sliced, MIG instances, AMD partitions, HAMi's shares, KAI's fractions or devices
//! of a DRA driver, with pods of three teams on them, as the Kubernetes API gives them to users of different rights.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use ledger::Ledger;
use model::base::{Moment, Name, Names, Rate};
use model::cost::{Override, Prices, spend_rates};
use model::fleet::accelerator::Catalog;
use model::fleet::observe::{ListedNamespaces, Lost, LostKind, Observation, Table};
use model::fleet::policy::Policy;
use table::Facts;

const NOW: Moment = Moment::from_seconds(1_800_000_000);

/// Namespaces; each is a team.
const TEAMS: [&str; 3] = ["nlp", "speech", "vision"];

/// How a node's devices are shared.
#[derive(Clone, Copy, Debug)]
pub enum Sharing {
    Whole,
    TimeSliced,
    Mps,
    Mig,
    MigTimeSliced,
    MigSingle,
    AmdPartitions,
    Hami,
    DraWhole,
    DraPartitions,
    DraCapacity,
    /// Fractions that KAI gives; a placeholder of its own holds each shared device.
    KaiFractions,
    /// NVIDIA's and Intel's side by side, each a resource of its own.
    TwoKinds,
    /// No device.
    Cpu,
}

const SHARINGS: [Sharing; 14] = [
    Sharing::Whole,
    Sharing::TimeSliced,
    Sharing::Mps,
    Sharing::Mig,
    Sharing::MigTimeSliced,
    Sharing::MigSingle,
    Sharing::AmdPartitions,
    Sharing::Hami,
    Sharing::DraWhole,
    Sharing::DraPartitions,
    Sharing::DraCapacity,
    Sharing::KaiFractions,
    Sharing::TwoKinds,
    Sharing::Cpu,
];

/// A node.
#[derive(Clone, Debug)]
pub struct AnyNode {
    pub sharing: Sharing,
    /// Devices, 1 to 3.
    pub devices: u32,
    /// One of three pools, or none.
    pub pool: usize,
    pub ready: bool,
    pub cordoned: bool,
    /// Pods that it is offered, each with its team, how much it asks for and how far it has come.
    pub pods: Vec<AnyPod>,
}

/// A pod of a node.
#[derive(Clone, Debug)]
pub struct AnyPod {
    pub team: usize,
    pub amount: u32,
    /// 0 and 1: waiting, 2: ended; else it runs.
    pub phase: u32,
}

/// Any fleet of up to four nodes.
pub fn any_fleet() -> impl Strategy<Value = Vec<AnyNode>> {
    let pod = (0..TEAMS.len(), 1u32..4, 0u32..12);
    let pod = pod.prop_map(|(team, amount, phase)| AnyPod {
        team,
        amount,
        phase,
    });
    let node = (
        prop::sample::select(SHARINGS.to_vec()),
        1u32..4,
        0usize..4,
        prop::bool::weighted(0.9),
        prop::bool::weighted(0.1),
        prop::collection::vec(pod, 0..6),
    );
    let node = node.prop_map(|(sharing, devices, pool, ready, cordoned, pods)| AnyNode {
        sharing,
        devices,
        pool,
        ready,
        cordoned,
        pods,
    });
    prop::collection::vec(node, 0..5)
}

/// What a user may list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct User {
    /// Nodes, and what drivers publish of their devices.
    pub nodes: bool,
    /// The one namespace that it may list; `None` for all.
    pub namespace: Option<&'static str>,
}

/// Who sees all, who does not see nodes, who sees one namespace, and who sees one namespace without nodes.
pub const USERS: [User; 4] = [
    User {
        nodes: true,
        namespace: None,
    },
    User {
        nodes: false,
        namespace: None,
    },
    User {
        nodes: true,
        namespace: Some(TEAMS[0]),
    },
    User {
        nodes: false,
        namespace: Some(TEAMS[0]),
    },
];

/// The objects of one fleet while they are made.
#[derive(Default)]
struct Objects(Vec<(Table, Value)>);

impl Objects {
    fn add(&mut self, table: Table, object: Value) {
        self.0.push((table, object));
    }
}

/// What a node offers beside CPU: extended resources, labels and annotations.
type Offer = (
    Vec<(String, u32)>,
    Vec<(String, String)>,
    Vec<(String, String)>,
);

fn offer(at: usize, node: &AnyNode) -> Offer {
    let n = node.devices;
    let h100 = "NVIDIA-H100-80GB-HBM3";
    let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let product = label("nvidia.com/gpu.product", h100);
    let count = label("nvidia.com/gpu.count", &n.to_string());
    let gpu = |count: u32| vec![("nvidia.com/gpu".to_owned(), count)];
    let mig = |profile: &str, count: u32| (format!("nvidia.com/mig-{profile}"), count);
    match node.sharing {
        Sharing::Whole | Sharing::KaiFractions => (gpu(n), vec![product, count], vec![]),
        Sharing::TimeSliced | Sharing::Mps => {
            let strategy = match node.sharing {
                Sharing::Mps => "mps",
                _ => "time-slicing",
            };
            let labels = vec![
                product,
                count,
                label("nvidia.com/gpu.replicas", "3"),
                label("nvidia.com/gpu.sharing-strategy", strategy),
            ];
            (gpu(3 * n), labels, vec![])
        }
        Sharing::Mig => {
            let all = vec![mig("3g.40gb", n), mig("1g.10gb", 2 * n)];
            let labels = vec![product, count, label("nvidia.com/mig.strategy", "mixed")];
            (all, labels, vec![])
        }
        Sharing::MigTimeSliced => {
            let labels = vec![
                product,
                count,
                label("nvidia.com/mig.strategy", "mixed"),
                label("nvidia.com/mig-2g.20gb.replicas", "2"),
            ];
            (vec![mig("2g.20gb.shared", 6 * n)], labels, vec![])
        }
        Sharing::MigSingle => {
            let labels = vec![
                label("nvidia.com/gpu.product", &format!("{h100}-MIG-1g.10gb")),
                label("nvidia.com/gpu.count", &(7 * n).to_string()),
                label("nvidia.com/mig.strategy", "single"),
            ];
            (gpu(7 * n), labels, vec![])
        }
        Sharing::AmdPartitions => {
            let labels = vec![
                label("amd.com/gpu.product-name", "AMD_Instinct_MI300X_OAM"),
                label("amd.com/gpu.compute-memory-partition", "cpx_nps4"),
            ];
            (vec![("amd.com/gpu".to_owned(), 8 * n)], labels, vec![])
        }
        Sharing::Hami => {
            let one = |index: u32| {
                json!({"id": format!("GPU-{at}-{index}"), "index": index, "count": 4, "devmem": 80_000,
                    "devcore": 100, "type": "NVIDIA-NVIDIA H100 80GB HBM3", "health": true})
            };
            let all: Value = (0..n).map(one).collect();
            let annotation = label("hami.io/node-nvidia-register", &all.to_string());
            (gpu(4 * n), vec![], vec![annotation])
        }
        Sharing::TwoKinds => {
            let intel = ("gpu.intel.com/i915".to_owned(), n + 1);
            (vec![gpu(n).remove(0), intel], vec![product, count], vec![])
        }
        Sharing::DraWhole | Sharing::DraPartitions | Sharing::DraCapacity | Sharing::Cpu => {
            (vec![], vec![], vec![])
        }
    }
}

fn node_object(at: usize, node: &AnyNode) -> Value {
    let (resources, labels, annotations) = offer(at, node);
    let mut capacity = json!({"cpu": "64", "memory": "512Gi", "pods": "110"});
    for (name, count) in resources {
        capacity[name] = json!(count.to_string());
    }
    let map = |pairs: Vec<(String, String)>| -> Value {
        let pairs = pairs.into_iter().map(|(key, value)| (key, json!(value)));
        Value::Object(pairs.collect())
    };
    let mut labels = map(labels);
    labels["kubernetes.io/hostname"] = json!(name(at));
    if node.pool < 3 {
        labels["nodepool"] = json!(format!("pool{}", node.pool));
    }
    let spec = match node.cordoned {
        true => json!({"unschedulable": true}),
        false => json!({}),
    };
    let ready = if node.ready { "True" } else { "False" };
    json!({
        "metadata": {"name": name(at), "uid": name(at), "labels": labels, "annotations": map(annotations)},
        "spec": spec,
        "status": {"capacity": capacity, "allocatable": capacity,
            "conditions": [{"type": "Ready", "status": ready}]}
    })
}

fn name(at: usize) -> String {
    format!("n{at}")
}

const DRIVER: &str = "gpu.example.com";

/// What the node's driver publishes: whole devices; devices and quarters of them, which draw from the same counters; or devices of
/// which several claims may each have some memory.
fn slices(at: usize, node: &AnyNode) -> Vec<Value> {
    let whole = |index: u32| {
        json!({
            "name": format!("gpu-{index}"),
            "attributes": {"uuid": {"string": format!("GPU-{at}-{index}")}, "model": {"string": "H100"}},
            "capacity": {"memory": {"value": "80Gi"}}
        })
    };
    let uses = |index: u32, compute: u32| {
        json!([{"counterSet": format!("set-{index}"),
            "counters": {"compute": {"value": compute.to_string()}}}])
    };
    let mut devices = Vec::new();
    let mut sets = Vec::new();
    for index in 0..node.devices {
        let mut device = whole(index);
        match node.sharing {
            Sharing::DraPartitions => {
                device["consumesCounters"] = uses(index, 100);
                sets.push(json!({"name": format!("set-{index}"),
                    "counters": {"compute": {"value": "100"}}}));
                for part in 0..4 {
                    devices.push(json!({
                        "name": format!("gpu-{index}-part-{part}"),
                        "capacity": {"memory": {"value": "20Gi"}},
                        "consumesCounters": uses(index, 25)
                    }));
                }
            }
            Sharing::DraCapacity => device["allowMultipleAllocations"] = json!(true),
            _ => {}
        }
        devices.push(device);
    }
    let slice = |suffix: &str, count: u32| {
        json!({
            "metadata": {"name": format!("{}-{suffix}", name(at))},
            "spec": {"driver": DRIVER, "nodeName": name(at),
                "pool": {"name": name(at), "generation": 1, "resourceSliceCount": count}}
        })
    };
    let mut all = vec![slice("devices", 1 + u32::from(!sets.is_empty()))];
    all[0]["spec"]["devices"] = json!(devices);
    if !sets.is_empty() {
        let mut counters = slice("counters", 2);
        counters["spec"]["sharedCounters"] = json!(sets);
        all.push(counters);
    }
    all
}

/// The pods of a node, and their claims.
fn pods(at: usize, node: &AnyNode, out: &mut Objects) {
    // What is left of each device of HAMi or of a driver, in quarters: a scheduler gives away no more.
    let mut left = vec![4u32; node.devices as usize];
    let mut unasked: BTreeMap<String, u32> = offer(at, node).0.into_iter().collect();
    for (number, pod) in node.pods.iter().enumerate() {
        let (name, team) = (format!("p{at}-{number}"), TEAMS[pod.team]);
        let runs = pod.phase > 2;
        let mut object = json!({
            "metadata": {"name": name, "namespace": team, "uid": name,
                "creationTimestamp": "2027-01-15T06:00:00Z"},
            "spec": {"containers": [{"name": "c", "resources": {}}]},
            "status": {"phase": if runs { "Running" } else { "Pending" }}
        });
        let asked = match node.sharing {
            Sharing::Whole | Sharing::TimeSliced | Sharing::Mps | Sharing::MigSingle => {
                Some(("nvidia.com/gpu", pod.amount))
            }
            Sharing::TwoKinds if pod.amount == 1 => Some(("nvidia.com/gpu", 1)),
            Sharing::TwoKinds => Some(("gpu.intel.com/i915", pod.amount - 1)),
            Sharing::Hami => Some(("nvidia.com/gpu", 1)),
            Sharing::Mig if pod.amount == 1 => Some(("nvidia.com/mig-3g.40gb", 1)),
            Sharing::Mig => Some(("nvidia.com/mig-1g.10gb", pod.amount - 1)),
            Sharing::MigTimeSliced => Some(("nvidia.com/mig-2g.20gb.shared", pod.amount)),
            Sharing::AmdPartitions => Some(("amd.com/gpu", pod.amount)),
            Sharing::KaiFractions
            | Sharing::DraWhole
            | Sharing::DraPartitions
            | Sharing::DraCapacity
            | Sharing::Cpu => None,
        };
        let fits = asked.is_none_or(|(resource, count)| unasked[resource] >= count);
        if let Some((resource, count)) = asked {
            let amounts = json!({resource: count.to_string()});
            object["spec"]["containers"][0]["resources"] =
                json!({"requests": amounts, "limits": amounts});
        }
        // Quarters of a device for what is given by amount; all of it otherwise.
        let quarters = match node.sharing {
            Sharing::DraWhole => 4,
            _ => pod.amount,
        };
        let device = left.iter().position(|left| *left >= quarters);
        let given = device.filter(|_| runs && fits);
        match node.sharing {
            Sharing::Hami => {
                if let Some(device) = given {
                    let (mib, cores) = (quarters * 20_000, quarters * 25);
                    object["metadata"]["annotations"] = json!({
                        "hami.io/vgpu-devices-allocated": format!("GPU-{at}-{device},NVIDIA,{mib},{cores}:;")
                    });
                }
            }
            Sharing::KaiFractions => {
                object["spec"]["schedulerName"] = json!("kai-scheduler");
                object["metadata"]["annotations"] =
                    json!({"gpu-fraction": format!("{}", f64::from(quarters) / 4.0)});
                if let Some(device) = given {
                    let group = format!("g{at}-{device}");
                    object["metadata"]["labels"] = json!({"runai-gpu-group": group});
                    if left[device] == 4 {
                        out.add(Table::Pods, placeholder(at, device, &group));
                    }
                }
            }
            Sharing::DraWhole | Sharing::DraPartitions | Sharing::DraCapacity => {
                object["spec"]["resourceClaims"] =
                    json!([{"name": "g", "resourceClaimName": name}]);
                object["spec"]["containers"][0]["resources"] = json!({"claims": [{"name": "g"}]});
                let mut claim = json!({
                    "metadata": {"name": name, "namespace": team, "uid": format!("claim-{name}")},
                    "spec": {"devices": {"requests": [
                        {"name": "r", "exactly": {"deviceClassName": DRIVER}}]}}
                });
                if let Some(device) = given {
                    let results = results(at, node, device, quarters, left[device], &name);
                    claim["status"] = json!({
                        "allocation": {"devices": {"results": results}},
                        "reservedFor": [{"resource": "pods", "name": name, "uid": name}]
                    });
                }
                out.add(Table::ResourceClaims, claim);
            }
            _ => {}
        }
        let needs_device = matches!(
            node.sharing,
            Sharing::Hami
                | Sharing::KaiFractions
                | Sharing::DraWhole
                | Sharing::DraPartitions
                | Sharing::DraCapacity
        );
        let is_placed = (runs && fits && (!needs_device || given.is_some())) || pod.phase == 2;
        if is_placed {
            object["spec"]["nodeName"] = json!(self::name(at));
            object["status"]["conditions"] = json!([{"type": "PodScheduled", "status": "True",
                "lastTransitionTime": "2027-01-15T07:00:00Z"}]);
            if let (Some(device), true) = (given, needs_device) {
                left[device] -= quarters;
            }
            if let (Some((resource, count)), true) = (asked, runs) {
                *unasked.get_mut(resource).expect("offered") -= count;
            }
        } else {
            object["status"]["phase"] = json!("Pending");
        }
        if pod.phase == 2 {
            object["status"]["phase"] = json!("Succeeded");
        }
        out.add(Table::Pods, object);
    }
}

/// The pod with which KAI holds a device for the pods of a group.
fn placeholder(at: usize, device: usize, group: &str) -> Value {
    let amounts = json!({"nvidia.com/gpu": "1"});
    json!({
        "metadata": {"name": format!("gpu-reservation-{at}-{device}"), "namespace": "kai-resource-reservation",
            "uid": format!("placeholder-{at}-{device}"),
            "labels": {"app": "kai-resource-reservation", "runai-gpu-group": group},
            "annotations": {"run.ai/reserve_for_gpu_index": device.to_string()}},
        "spec": {"nodeName": name(at),
            "containers": [{"name": "c", "resources": {"requests": amounts, "limits": amounts}}]},
        "status": {"phase": "Running"}
    })
}

/// What a claim is given of a device, of which so many quarters are left.
fn results(at: usize, node: &AnyNode, device: usize, quarters: u32, left: u32, pod: &str) -> Value {
    let result = |device: String| json!({"request": "r", "driver": DRIVER, "pool": name(at), "device": device});
    match node.sharing {
        Sharing::DraPartitions => {
            let parts = (4 - left)..(4 - left + quarters);
            parts
                .map(|part| result(format!("gpu-{device}-part-{part}")))
                .collect()
        }
        Sharing::DraCapacity => {
            let mut one = result(format!("gpu-{device}"));
            one["shareID"] = json!(format!("share-{pod}"));
            one["consumedCapacity"] = json!({"memory": format!("{}Gi", 20 * quarters)});
            json!([one])
        }
        _ => json!([result(format!("gpu-{device}"))]),
    }
}

/// Everything that the API serves of the fleet.
fn objects(nodes: &[AnyNode]) -> Vec<(Table, Value)> {
    let mut out = Objects::default();
    for team in TEAMS {
        let labels = json!({"team": team});
        out.add(
            Table::Namespaces,
            json!({"metadata": {"name": team, "labels": labels}}),
        );
    }
    let class = json!({"metadata": {"name": DRIVER}, "spec": {"selectors": [
        {"cel": {"expression": format!("device.driver == '{DRIVER}'")}}]}});
    out.add(Table::DeviceClasses, class);
    for (at, node) in nodes.iter().enumerate() {
        out.add(Table::Nodes, node_object(at, node));
        if matches!(
            node.sharing,
            Sharing::DraWhole | Sharing::DraPartitions | Sharing::DraCapacity
        ) {
            for slice in slices(at, node) {
                out.add(Table::ResourceSlices, slice);
            }
        }
        pods(at, node, &mut out);
    }
    out.0
}

/// The facts as this user sees them.
pub fn facts(nodes: &[AnyNode], user: User) -> Facts {
    let mut ledger = Ledger::new(Arc::new(Policy {
        catalog: Catalog::embedded(),
        ..Policy::default()
    }));
    if let Some(namespace) = user.namespace {
        ledger.apply(Observation::Covers(ListedNamespaces::Fallback {
            namespace: Name::new(namespace),
            of_context: true,
        }));
    }
    let all = objects(nodes);
    let mut names = Names::default();
    for table in Table::ALL {
        if matches!(
            table,
            Table::Nodes | Table::ResourceSlices | Table::DeviceClasses
        ) && !user.nodes
        {
            ledger.apply(Observation::Lost(
                *table,
                Lost {
                    kind: LostKind::Rights,
                    since: NOW,
                    message: format!("{} is forbidden", table.name()),
                },
            ));
            continue;
        }
        ledger.apply(Observation::Begin(*table));
        for (_, object) in all.iter().filter(|(of, _)| of == table) {
            let namespace = object["metadata"]["namespace"].as_str();
            let is_hidden = user
                .namespace
                .zip(namespace)
                .is_some_and(|(own, of)| own != of);
            if !is_hidden {
                ledger.apply(cluster::seen(*table, object, &mut names).expect("an object"));
            }
        }
        ledger.apply(Observation::End(*table));
    }
    let fleet = Arc::new(ledger.publish(NOW));
    let price = |class: Option<&str>, micros: i64| Override {
        instance: None,
        class: class.map(str::to_owned),
        billing: None,
        rate: Rate::from_micros(micros),
    };
    // Rates that no share divides evenly.
    let prices = Prices::default()
        .with_override(price(Some("MI300X"), 3_000_017))
        .with_override(price(None, 7_000_003));
    let burnt = Arc::new(spend_rates(&fleet, &prices));
    Facts::new(Name::new("any"), fleet, burnt)
}
