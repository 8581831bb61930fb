//! Devices by claim, out of objects of every served version.

use serde_json::{Value, json};

use crate::claim::{ClaimObject, ClassObject, SliceObject, TemplateObject};
use crate::pod::PodObject;
use crate::{DeserializeOwned, Projected, workloads::workload::ReplicatedObject};
use model::base::{Name, Names};
use model::fleet::claim::{CapacityAmount, ClaimAsk, ClaimSeen, DeviceAccess, SliceSeen};
use model::fleet::observe::{Observation, PodSeen, Table};

fn project<T: Projected + DeserializeOwned>(value: &Value, table: Table) -> Option<Observation> {
    let object: T = serde_json::from_value(value.clone()).expect("read leniently");
    object.project(table, &mut Names::default())
}

fn slice(value: &Value) -> SliceSeen {
    match project::<SliceObject>(value, Table::ResourceSlices) {
        Some(Observation::Slice(slice)) => *slice,
        other => panic!("{other:?}"),
    }
}

fn claim(value: &Value) -> ClaimSeen {
    match project::<ClaimObject>(value, Table::ResourceClaims) {
        Some(Observation::Claim(claim)) => *claim,
        other => panic!("{other:?}"),
    }
}

fn pod(value: &Value) -> PodSeen {
    match project::<PodObject>(value, Table::Pods) {
        Some(Observation::Pod(pod)) => *pod,
        other => panic!("{other:?}"),
    }
}

fn fields(index: u32) -> Value {
    json!({
        "attributes": {
            "type": {"string": "gpu"}, "uuid": {"string": format!("GPU-{index}")},
            "productName": {"string": "NVIDIA H100 80GB HBM3"}, "index": {"int": index},
            "driverVersion": {"version": "580.95.5"},
            "resource.kubernetes.io/pciBusID": {"string": format!("0000:{index}8:00.0")}
        },
        "capacity": {"memory": {"value": "80Gi"}}
    })
}

fn of_node(devices: Value) -> Value {
    json!({
        "metadata": {"name": "n1-gpu"},
        "spec": {"driver": "gpu.nvidia.com", "nodeName": "n1",
            "pool": {"name": "n1", "generation": 3, "resourceSliceCount": 2}, "devices": devices}
    })
}

#[test]
fn a_slice_reads_the_same_in_every_version() {
    let mut flat = fields(0);
    flat["name"] = json!("gpu-0");
    let new = slice(&of_node(json!([flat])));
    let old = slice(&of_node(json!([{"name": "gpu-0", "basic": fields(0)}])));
    assert_eq!(new, old);
    assert_eq!((new.generation, new.slices), (3, 2));
    assert_eq!(new.reach, DeviceAccess::Node(Name::new("n1")));
    let device = &new.devices[0];
    assert_eq!(device.uuid.as_deref(), Some("GPU-0"));
    assert_eq!(device.pci.as_deref(), Some("0000:08:00.0"));
    assert_eq!(device.product.as_deref(), Some("NVIDIA H100 80GB HBM3"));
    assert_eq!(device.memory, Some(80 << 30));
    assert_eq!(device.version.as_deref(), Some("580.95.5"));
    assert_eq!((device.index, device.part), (Some(0), false));
}

#[test]
fn an_instance_is_a_part_and_knows_its_device() {
    let seen = slice(&of_node(json!([
        {"name": "gpu-2-mig-19-4-1", "attributes": {
            "gpu.nvidia.com/type": {"string": "mig"}, "uuid": {"string": "MIG-1"}, "parentUUID": {"string": "GPU-2"},
            "parentIndex": {"int": 2}, "index": {"int": 5}, "profile": {"string": "1g.10gb"}},
         "consumesCounters": [{"counterSet": "gpu-2", "counters": {"memory": {"value": "10Gi"}}}],
         "taints": [{"key": "xid", "value": "79", "effect": "NoExecute"}]}
    ])));
    let part = &seen.devices[0];
    assert!(part.part);
    assert_eq!(part.index, Some(2), "the index of its device");
    assert_eq!(part.parent.as_deref(), Some("GPU-2"));
    assert_eq!(part.profile.as_deref(), Some("1g.10gb"));
    assert_eq!(&part.counters[..], [Name::new("gpu-2")]);
    assert_eq!(part.taints[0].key.as_str(), "xid");
}

#[test]
fn a_device_may_say_itself_from_where_it_is_reached() {
    let seen = slice(
        &json!({"metadata": {"name": "s"}, "spec": {"driver": "tpu.google.com", "pool": {"name": "p"},
        "perDeviceNodeSelection": true, "devices": [
            {"name": "a", "nodeName": "n7"}, {"name": "b", "allNodes": true},
            {"name": "c", "nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "rack", "operator": "In", "values": ["r1"]}]}]}}, {"name": "d"}]}}),
    );
    let reach: Vec<&DeviceAccess> = seen.devices.iter().map(|device| &device.reach).collect();
    assert_eq!(*reach[0], DeviceAccess::Node(Name::new("n7")));
    assert_eq!(*reach[1], DeviceAccess::All);
    assert!(matches!(reach[2], DeviceAccess::Nodes(terms) if terms.len() == 1));
    assert_eq!(*reach[3], DeviceAccess::Unsaid);
    assert_eq!(seen.slices, 1, "a pool that does not say is one slice");
}

#[test]
fn requests_read_the_same_in_every_version() {
    let new = json!({"metadata": {"name": "c", "namespace": "ml"}, "spec": {"devices": {"requests": [
        {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "allocationMode": "ExactCount", "count": 4}},
        {"name": "any", "firstAvailable": [{"name": "big", "deviceClassName": "gpu.nvidia.com", "count": 2},
            {"name": "small", "deviceClassName": "mig.nvidia.com"}]},
        {"name": "all", "exactly": {"deviceClassName": "gpu.nvidia.com", "allocationMode": "All"}},
        {"name": "look", "exactly": {"deviceClassName": "gpu.nvidia.com", "adminAccess": true}}]}}});
    let mut old = new.clone();
    old["spec"]["devices"]["requests"] = json!([
        {"name": "gpu", "deviceClassName": "gpu.nvidia.com", "allocationMode": "ExactCount", "count": 4},
        {"name": "any", "firstAvailable": [{"name": "big", "deviceClassName": "gpu.nvidia.com", "count": 2}]},
        {"name": "all", "deviceClassName": "gpu.nvidia.com", "allocationMode": "All"},
        {"name": "look", "deviceClassName": "gpu.nvidia.com", "adminAccess": true}]);
    let seen = claim(&new);
    assert_eq!(seen, claim(&old));
    let counts: Vec<(u32, bool, bool)> = seen
        .requests
        .iter()
        .map(|request| (request.count, request.all, request.admin))
        .collect();
    assert_eq!(
        counts,
        [
            (4, false, false),
            (2, false, false),
            (1, true, false),
            (1, false, true)
        ]
    );
    assert_eq!(seen.results, None);
}

#[test]
fn an_allocation_names_its_devices_and_its_pods() {
    let seen = claim(&json!({"metadata": {"name": "c", "namespace": "ml"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}},
        "status": {"allocation": {"devices": {"results": [
            {"request": "gpu/big", "driver": "gpu.nvidia.com", "pool": "n1", "device": "gpu-3"},
            {"request": "gpu", "driver": "gpu.nvidia.com", "pool": "n1"}, 7, null]}},
          "reservedFor": [{"resource": "pods", "name": "a", "uid": "u-a"}, {"resource": "jobs", "name": "x", "uid": "u-x"},
            {"apiGroup": "other.io", "resource": "pods", "uid": "u-y"}]}}));
    let results = seen.results.expect("allocated");
    assert_eq!(results.len(), 1, "one that names no device is none");
    assert_eq!(results[0].device.as_str(), "gpu-3");
    assert_eq!(&seen.pods[..], [Name::new("u-a")]);
}

#[test]
fn a_class_says_whose_devices_it_takes() {
    let class = |expression: &str| {
        let value = json!({"metadata": {"name": "k"}, "spec": {"extendedResourceName": "nvidia.com/gpu",
            "selectors": [{"cel": {"expression": expression}}]}});
        match project::<ClassObject>(&value, Table::DeviceClasses) {
            Some(Observation::DeviceClass(class)) => *class,
            other => panic!("{other:?}"),
        }
    };
    let gpu = class(
        r#"device.driver == "gpu.nvidia.com" && device.attributes["gpu.nvidia.com"].type == "gpu""#,
    );
    assert_eq!(
        (gpu.driver.as_deref(), gpu.parts),
        (Some("gpu.nvidia.com"), false)
    );
    assert_eq!(gpu.extended.as_deref(), Some("nvidia.com/gpu"));
    let mig = class(
        "device.driver=='gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'mig'",
    );
    assert_eq!(
        (mig.driver.as_deref(), mig.parts),
        (Some("gpu.nvidia.com"), true)
    );
    for odd in [
        "",
        "device.driver",
        "device.driver ==",
        "device.driver == \"x",
        "device.driver != 'é'",
        "device.driver == é",
    ] {
        assert_eq!(class(odd).driver, None, "{odd}");
    }
}

#[test]
fn pods_and_templates_ask_by_claim() {
    let spec = json!({"containers": [{"name": "main", "resources": {"claims": [{"name": "gpu"}]}}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "each-two"},
            {"name": "net", "resourceClaimName": "shared"}, {"name": "odd"}, 5,
            {"name": "old", "source": {"resourceClaimTemplateName": "each-two"}}]});
    let seen = pod(
        &json!({"metadata": {"name": "p", "namespace": "ml", "labels": {"a": "b"}}, "spec": spec.clone(),
        "status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "p-gpu-x7k2"}, {"name": "odd"}],
            "extendedResourceClaimStatus": {"resourceClaimName": "p-extended",
                "requestMappings": [{"containerName": "main", "resourceName": "nvidia.com/gpu", "requestName": "r"}]}}}),
    );
    let asks: Vec<(ClaimAsk, u32)> = seen.requests.claims.to_vec();
    assert_eq!(
        asks,
        [
            (ClaimAsk::Claim(Name::new("shared")), 1),
            (ClaimAsk::Template(Name::new("each-two")), 2)
        ]
    );
    let names: Vec<&str> = seen.claims.iter().map(Name::as_str).collect();
    assert_eq!(names, ["p-extended", "p-gpu-x7k2", "shared"]);
    assert_eq!(&seen.by_claim[..], [Name::new("nvidia.com/gpu")]);
    assert!(
        seen.labels.get("a").is_some(),
        "its labels may name its team"
    );
    let set = json!({"metadata": {"name": "d", "namespace": "ml"}, "spec": {"replicas": 3, "template": {"spec": spec}}});
    match project::<ReplicatedObject>(&set, Table::Deployments) {
        Some(Observation::Workload(seen)) => {
            let asks: Vec<u32> = seen.total.claims.iter().map(|(_, count)| *count).collect();
            assert_eq!(asks, [1, 6], "a claim by name is one claim for all of them");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn hostile_objects_are_read_past() {
    let far = json!(i64::MAX);
    let mut many: Vec<Value> = (0..2000)
        .map(|at| json!({"name": format!("gpu-{at}")}))
        .collect();
    many.push(json!("text"));
    for spec in [
        json!(null),
        json!(7),
        json!({"driver": 7, "pool": [], "nodeName": {}, "devices": {"a": 1}}),
        json!({"driver": "gpu.x", "pool": {"generation": "9", "resourceSliceCount": -3}, "devices": [null, {}, {"name": ""},
            {"name": "\u{1b}[2J", "attributes": [1], "capacity": {"memory": {"value": "-5Gi"}}, "taints": "x", "consumesCounters": 4},
            {"name": "gpu-99999999999999999999", "attributes": {"index": {"int": far}, "uuid": {"int": 4}},
             "capacity": {"memory": 12}}]}),
        json!({"driver": "gpu.x", "pool": {"name": "p", "generation": far, "resourceSliceCount": far}, "devices": many}),
    ] {
        let seen = slice(&json!({"metadata": {"name": "s"}, "spec": spec}));
        assert!(seen.devices.len() <= 512 && seen.slices >= 1);
        assert!(
            seen.devices
                .iter()
                .all(|device| device.memory.is_none() && !device.name.is_empty())
        );
    }
    for count in [
        json!(-4),
        json!(0),
        json!("many"),
        far.clone(),
        json!(1e300),
    ] {
        let seen = claim(
            &json!({"metadata": {"name": "c"}, "spec": {"devices": {"requests": [
            {"name": "r", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": count}}, {"name": "none"}]}},
            "status": {"allocation": {"devices": {"results": "all"}}, "reservedFor": {"a": 1}}}),
        );
        assert_eq!(seen.requests.len(), 1);
        assert!((1..=32).contains(&seen.requests[0].count));
        assert_eq!(seen.results.as_deref(), Some(&[][..]));
    }
    assert!(project::<SliceObject>(&json!({"spec": {}}), Table::ResourceSlices).is_none());
    assert!(project::<ClaimObject>(&json!([]), Table::ResourceClaims).is_none());
    assert!(project::<TemplateObject>(&json!({}), Table::ResourceClaimTemplates).is_none());
    assert!(project::<ClassObject>(&json!(null), Table::DeviceClasses).is_none());
}

#[test]
fn parts_of_a_device_that_several_claims_share_are_read() {
    let mut shared = fields(0);
    shared["allowMultipleAllocations"] = json!(true);
    shared["name"] = json!("gpu-0");
    let mut own = fields(1);
    own["name"] = json!("gpu-1");
    let published = slice(&of_node(json!([shared, own]))).devices;
    let memory = |milli| CapacityAmount {
        name: Name::new("memory"),
        milli,
    };
    let all = published[0].shared.as_deref();
    assert_eq!(
        all,
        Some([memory(80 * 1024 * 1024 * 1024 * 1000)].as_slice())
    );
    assert_eq!(published[1].shared, None);
    let seen = claim(&json!({
        "metadata": {"name": "c", "namespace": "ns"},
        "status": {"allocation": {"devices": {"results": [
            {"request": "r", "driver": "gpu.nvidia.com", "pool": "n1", "device": "gpu-0",
                "shareID": "0f0a", "consumedCapacity": {"memory": "20Gi"}},
            {"request": "r", "driver": "gpu.nvidia.com", "pool": "n1", "device": "gpu-1"}
        ]}}}
    }));
    let results = seen.results.expect("allocated");
    let consumed = results[0].consumed.as_ref().expect("a part");
    assert_eq!(consumed.share.as_str(), "0f0a");
    assert_eq!(&*consumed.amounts, [memory(20 * 1024 * 1024 * 1024 * 1000)]);
    assert_eq!(results[1].consumed, None);
}
