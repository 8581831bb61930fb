//! Tests that every staged fault of the demo exists at the start.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde_json::Value;

use super::super::super::change::{Resource, SimBackend};
use super::super::{Options, World};
use super::{Store, begin, noon, of};
use model::base::{Moment, ObjectKey};

/// The demo at its start, drawn once for all read-only tests.
static DEMO: LazyLock<(World, Store)> = LazyLock::new(|| begin(Options::new(noon())));

fn demo() -> (World, Store) {
    begin(Options::new(noon()))
}

fn page_of(world: &World, node: &str) -> String {
    world
        .exporters()
        .into_iter()
        .find(|(pod, _, _)| {
            let pod = &world.pods[&world.pod_id(pod).expect("a pod")];
            &*world.nodes[pod.node.expect("a node")].name == node
        })
        .and_then(|(pod, port, path)| world.page(&pod, port, path))
        .map(|page| page.body)
        .unwrap_or_default()
}

/// Value of the first row of a metric whose labels contain all of `parts`.
fn value(page: &str, metric: &str, parts: &[&str]) -> Option<f64> {
    page.lines()
        .filter(|line| {
            line.strip_prefix(metric)
                .is_some_and(|rest| rest.starts_with('{'))
        })
        .find(|line| parts.iter().all(|part| line.contains(part)))
        .and_then(|line| line.rsplit(' ').next()?.parse().ok())
}

#[test]
fn the_fleet_has_the_pools_of_the_picture() {
    let (world, store) = &*DEMO;
    assert_eq!(world.devices(), 3296 + 72);
    let nodes: Vec<&Value> = of(store, Resource::Nodes).collect();
    let with = |label: &str, value: &str| {
        nodes
            .iter()
            .filter(|node| node["metadata"]["labels"][label] == value)
            .count()
    };
    assert_eq!(with("eks.amazonaws.com/nodegroup", "h100-train"), 128);
    assert_eq!(with("karpenter.sh/nodepool", "a100-shared"), 96);
    assert_eq!(with("karpenter.sh/capacity-type", "spot"), 100);
    assert_eq!(with("cloud.google.com/gke-tpu-topology", "4x4x4"), 128);
    assert_eq!(
        with("cloud.google.com/gke-tpu-accelerator", "tpu-v6e-slice"),
        32
    );
    assert_eq!(
        with("amd.com/gpu.product-name", "AMD_Instinct_MI300X_OAM"),
        8
    );
    assert_eq!(with("nvidia.com/mig.strategy", "mixed"), 5);
    // A multi-host slice is a node pool: 16 hosts with four chips each.
    assert_eq!(with("cloud.google.com/gke-nodepool", "tpu-v5p-s3"), 16);
    let mig = nodes
        .iter()
        .find(|node| node["metadata"]["name"] == "mig-5")
        .expect("mig-5");
    assert_eq!(mig["status"]["capacity"]["nvidia.com/mig-1g.10gb"], "42");
    assert_eq!(mig["status"]["capacity"]["nvidia.com/mig-2g.20gb"], "6");
    assert_eq!(mig["status"]["capacity"]["nvidia.com/gpu"], "0");
}

#[test]
fn nodes_in_trouble_are_there() {
    let (_, store) = &*DEMO;
    let nodes: Vec<&Value> = of(store, Resource::Nodes).collect();
    let cordoned: Vec<_> = nodes
        .iter()
        .filter(|node| node["spec"]["unschedulable"] == true)
        .collect();
    assert_eq!(cordoned.len(), 1);
    let notes = &cordoned[0]["metadata"]["annotations"];
    assert_eq!(notes["stokehold.dev/cordoned-by"], "rosa");
    assert!(
        notes["stokehold.dev/cordoned-why"]
            .as_str()
            .is_some_and(|why| why.contains("XID 48"))
    );
    let taint = &cordoned[0]["spec"]["taints"][0];
    assert_eq!(taint["key"], "node.kubernetes.io/unschedulable");
    assert!(Moment::parse(taint["timeAdded"].as_str().unwrap_or_default()).is_some());

    let ready = |node: &Value| {
        node["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|row| row["type"] == "Ready")
            .map(|row| row["status"].clone())
    };
    let silent: Vec<_> = nodes
        .iter()
        .filter(|node| ready(node) != Some(Value::from("True")))
        .collect();
    assert_eq!(silent.len(), 1);
    assert_eq!(ready(silent[0]), Some(Value::from("Unknown")));

    let short = |node: &Value, name: &str| {
        (
            node["status"]["capacity"][name].clone(),
            node["status"]["allocatable"][name].clone(),
        )
    };
    let plugin_down = nodes
        .iter()
        .any(|node| short(node, "nvidia.com/gpu") == (Value::from("4"), Value::from("0")));
    assert!(plugin_down, "a node whose device plugin is not ready");
    let broken = nodes
        .iter()
        .find(|node| node["metadata"]["name"] == "a100-17")
        .expect("a100-17");
    assert_eq!(
        short(broken, "nvidia.com/gpu"),
        (Value::from("8"), Value::from("7"))
    );
    assert!(
        broken["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|row| row["reason"] == "NvidiaXID79Error")
    );
    assert_eq!(
        broken["metadata"]["labels"]["topology.kubernetes.io/rack"],
        "r7"
    );
}

#[test]
fn jobs_wait_for_reasons_of_their_own() {
    let (_, store) = &*DEMO;
    let mut reasons = BTreeSet::new();
    let mut about = |text: &str| {
        for (word, part) in [
            ("quota", "insufficient unused quota"),
            ("ceiling", "request > maximum capacity"),
            ("devices", "Insufficient nvidia.com/gpu, "),
            ("slices", "Insufficient google.com/tpu"),
            ("memory", "Insufficient memory"),
        ] {
            if text.contains(part) {
                reasons.insert(word);
            }
        }
    };
    for workload in of(store, Resource::Workloads) {
        for row in workload["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten()
        {
            if row["type"] == "QuotaReserved" && row["status"] == "False" {
                about(row["message"].as_str().unwrap_or_default());
            }
        }
    }
    let pods = |prefix: &str| -> Vec<&Value> {
        of(store, Resource::Pods)
            .filter(|pod| {
                pod["metadata"]["name"]
                    .as_str()
                    .is_some_and(|name| name.starts_with(prefix))
            })
            .collect()
    };
    let verdict = |pod: &Value| {
        pod["status"]["conditions"][0]["message"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    for pod in of(store, Resource::Pods)
        .filter(|pod| pod["status"]["phase"] == "Pending" && pod["spec"]["nodeName"].is_null())
    {
        assert_eq!(pod["status"]["conditions"][0]["type"], "PodScheduled");
        assert_eq!(pod["status"]["conditions"][0]["reason"], "Unschedulable");
        about(&verdict(pod));
    }
    let giant = pods("llm-70b-sft-workers-0-");
    assert_eq!(giant.len(), 64);
    assert!(
        giant
            .iter()
            .all(|pod| pod["spec"]["nodeName"].is_null() && verdict(pod).starts_with("0/"))
    );
    assert!(verdict(pods("rocm-port-ci-")[0]).contains("untolerated taint {amd.com/gpu: present}"));
    let probe = verdict(pods("h200-probe-")[0]);
    assert!(
        probe.contains("didn't match Pod's node affinity/selector")
            && !probe.contains("Insufficient"),
        "{probe}"
    );
    let held = store
        .get(&(Resource::Jobs, ObjectKey::new("speech", "tts-multi-v2")))
        .expect("the held job");
    assert_eq!(held["spec"]["suspend"], true);
    assert!(reasons.len() >= 5, "{reasons:?}");
}

#[test]
fn devices_show_the_faults() {
    let (world, _) = &*DEMO;
    // The broken gang: one device off the bus, its peers idle with their memory allocated.
    let page = page_of(world, "a100-17");
    assert_eq!(
        value(&page, "DCGM_FI_DEV_XID_ERRORS", &["gpu=\"3\""]),
        Some(79.0)
    );
    assert!(page.contains("err_code=\"79\""));
    assert!(value(&page, "DCGM_FI_DEV_GPU_UTIL", &["gpu=\"2\""]).is_some_and(|util| util < 8.0));
    assert!(value(&page, "DCGM_FI_DEV_FB_USED", &["gpu=\"2\""]).is_some_and(|mib| mib > 60_000.0));

    // The hot rack: devices above 85 degrees with thermal slowdown.
    let hot: Vec<(f64, f64)> = (21..=23)
        .flat_map(|serial| {
            let page = page_of(world, &format!("a100-{serial}"));
            (0..8)
                .filter_map(|gpu| {
                    let gpu = format!("gpu=\"{gpu}\"");
                    Some((
                        value(&page, "DCGM_FI_DEV_GPU_TEMP", &[&gpu])?,
                        value(&page, "DCGM_FI_DEV_CLOCKS_EVENT_REASONS", &[&gpu])?,
                    ))
                })
                .collect::<Vec<_>>()
        })
        .collect();
    let throttled = hot
        .iter()
        .filter(|(_, mask)| *mask as u32 & 0x20 != 0)
        .count();
    assert!(
        hot.iter().filter(|(celsius, _)| *celsius >= 85.0).count() >= 8,
        "{hot:?}"
    );
    assert!(throttled >= 8);

    // The straggler: lower clocks than every peer, and higher utilization.
    let gang = world
        .works
        .values()
        .find(|work| &*work.name == "moe-8x7b-r2")
        .expect("the gang");
    let (index, device) = gang.straggler.expect("its straggler");
    let pod = gang
        .pods
        .iter()
        .map(|id| &world.pods[id])
        .find(|pod| pod.index == index)
        .expect("its pod");
    let node = &world.nodes[pod.node.expect("a node")].name;
    let page = page_of(world, node);
    let of_gpu = |metric: &str, gpu: u32| {
        value(&page, metric, &[&format!("gpu=\"{gpu}\"")]).expect("a value")
    };
    assert!(
        of_gpu("DCGM_FI_DEV_SM_CLOCK", device)
            < 0.7 * of_gpu("DCGM_FI_DEV_SM_CLOCK", (device + 1) % 8)
    );
    assert!(
        of_gpu("DCGM_FI_DEV_GPU_UTIL", device)
            > of_gpu("DCGM_FI_DEV_GPU_UTIL", (device + 1) % 8) + 10.0
    );

    // The hoarder: eight A100 allocated to an idle notebook for three hours.
    let hoarder = world
        .works
        .values()
        .find(|work| &*work.name == "notebook-4")
        .expect("the hoarder");
    let pod = &world.pods[hoarder.pods.first().expect("its pod")];
    assert_eq!(pod.units.len(), 8);
    assert!(world.now().since(pod.started.expect("started")).seconds() > 10_000);
    let page = page_of(world, &world.nodes[pod.node.expect("a node")].name);
    assert_eq!(
        value(&page, "DCGM_FI_DEV_GPU_UTIL", &["pod=\"notebook-4-0\""]),
        Some(0.0)
    );
    assert!(
        value(&page, "DCGM_FI_DEV_FB_USED", &["pod=\"notebook-4-0\""])
            .is_some_and(|mib| mib > 4_000.0)
    );
}

#[test]
fn every_kind_of_work_and_every_kind_of_end_is_there() {
    let (world, store) = &*DEMO;
    for resource in [
        Resource::JobSets,
        Resource::Jobs,
        Resource::Deployments,
        Resource::StatefulSets,
        Resource::DaemonSets,
        Resource::PodDisruptionBudgets,
        Resource::Events,
        Resource::Leases,
    ] {
        assert!(of(store, resource).next().is_some(), "{resource:?}");
    }
    let ended = |reason: &str| {
        of(store, Resource::Pods).any(|pod| {
            let state = &pod["status"]["containerStatuses"][0];
            state["state"]["terminated"]["reason"] == reason
                || state["lastState"]["terminated"]["reason"] == reason
        })
    };
    assert!(ended("Completed") && ended("Error") && ended("OOMKilled"));
    let bare = of(store, Resource::Pods).any(|pod| pod["metadata"]["ownerReferences"].is_null());
    assert!(bare, "a pod without a controller");
    let strict = of(store, Resource::PodDisruptionBudgets)
        .any(|budget| budget["status"]["disruptionsAllowed"] == 0);
    let loose = of(store, Resource::PodDisruptionBudgets)
        .any(|budget| budget["status"]["disruptionsAllowed"].as_u64() > Some(0));
    assert!(strict && loose);
    assert!(
        world
            .works
            .values()
            .any(|work| work.last_checkpoint.is_some())
    );
    let marked = of(store, Resource::JobSets).any(|set| {
        set["metadata"]["annotations"]["stokehold.dev/last-checkpoint"]
            .as_str()
            .and_then(Moment::parse)
            .is_some()
    });
    assert!(marked, "a checkpoint is on record");
}

/// A line of the text format: comment, or `name{labels} number`.
fn parses(line: &str) -> bool {
    if line.starts_with("# HELP ") || line.starts_with("# TYPE ") {
        return true;
    }
    let Some((series, number)) = line.rsplit_once(' ') else {
        return false;
    };
    if number.parse::<f64>().is_err() {
        return false;
    }
    let name = series.split('{').next().unwrap_or_default();
    let named = !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':');
    let labels = &series[name.len()..];
    named
        && (labels.is_empty()
            || (labels.starts_with('{')
                && labels.ends_with("\"}")
                && labels.matches('"').count() % 2 == 0))
}

#[test]
fn pages_are_exposition_text_with_each_family_once() {
    let (mut world, _) = demo();
    let mut models = BTreeSet::new();
    for step in 0..2 {
        let exporters = world.exporters();
        let servers = exporters.iter().filter(|(_, port, _)| *port == 8000);
        assert!(servers.count() > 20, "pods that serve models");
        let of_devices = exporters.iter().filter(|(_, port, _)| *port != 8000);
        assert_eq!(of_devices.count(), 506 - 1, "all but the silent node's");
        for (pod, port, path) in exporters {
            let page = world.page(&pod, port, path).expect("a page");
            let mut families = BTreeSet::new();
            let mut rows = BTreeSet::new();
            for line in page.body.lines() {
                assert!(parses(line), "{line}");
                if let Some(family) = line.strip_prefix("# TYPE ") {
                    assert!(families.insert(family.to_owned()), "{family} twice");
                } else if !line.starts_with('#') {
                    let series = line.rsplit_once(' ').expect("a row").0;
                    assert!(rows.insert(series.to_owned()), "{series} twice");
                }
            }
            assert!(rows.len() > 8);
            for model in ["H100", "A100", "L4", "v5p", "v6e", "MI300X", "1g.10gb"] {
                if page.body.contains(model) {
                    models.insert(model);
                }
            }
            assert_eq!(world.page(&pod, port + 1, path), None);
            assert_eq!(world.page(&pod, port, "/nothing"), None);
        }
        if step == 0 {
            let to = noon().plus(std::time::Duration::from_secs(60));
            world.advance(to);
        }
    }
    assert_eq!(models.len(), 7, "{models:?}");
}

#[test]
fn values_are_refreshed_at_the_exporters_pace_and_counters_never_fall() {
    let (mut world, _) = demo();
    let node = "a100-21";
    let energy = |world: &World| {
        value(
            &page_of(world, node),
            "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
            &["gpu=\"0\""],
        )
        .expect("energy")
    };
    let mut distinct = BTreeSet::new();
    let mut last = energy(&world);
    for second in 1..=120 {
        world.advance(noon().plus(std::time::Duration::from_secs(second)));
        let now = energy(&world);
        assert!(now >= last);
        last = now;
        distinct.insert(page_of(&world, node));
    }
    assert!(
        (4..=5).contains(&distinct.len()),
        "{} pages in two minutes",
        distinct.len()
    );
    // A busy A100 draws between 250 and 410 W.
    let first = energy(&begin(Options::new(noon())).0);
    let watts = (last - first) / 1000.0 / 120.0;
    assert!((250.0..410.0).contains(&watts), "{watts} W");
}

#[test]
fn the_exporter_of_one_node_cannot_name_pods() {
    let (world, _) = &*DEMO;
    let node = world.staged.unlabelled.expect("the node");
    let name = world.nodes[node].name.to_string();
    let page = page_of(world, &name);
    assert!(page.contains("DCGM_FI_DEV_GPU_UTIL") && !page.contains("pod=\""));
    // Other exporters do, for every allocated device.
    assert!(page_of(world, "a100-21").contains("pod=\"detr-xl-workers-0-"));
}

#[test]
fn a_fallen_device_leaves_the_page_and_spot_machines_leave_the_cluster() {
    let (mut world, mut store) = demo();
    let spot = |store: &Store| -> BTreeSet<String> {
        of(store, Resource::Nodes)
            .filter(|node| node["metadata"]["labels"]["karpenter.sh/capacity-type"] == "spot")
            .filter_map(|node| node["metadata"]["name"].as_str().map(str::to_owned))
            .collect()
    };
    let before = spot(&store);
    let to = noon().plus(std::time::Duration::from_secs(1_000));
    let changes = world.advance(to);
    super::fold(&mut store, changes);
    let after = spot(&store);
    assert!(
        before.difference(&after).count() >= 1,
        "a machine was reclaimed"
    );
    assert!(after.difference(&before).count() >= 1, "another has come");
    let page = page_of(&world, "a100-17");
    assert!(page.contains("gpu=\"2\"") && !page.contains("gpu=\"3\""));
}

#[test]
fn logs_report_the_events() {
    let (world, _) = &*DEMO;
    let of_work = |name: &str| {
        let work = world
            .works
            .values()
            .find(|work| &*work.name == name)
            .expect("the work");
        let pod = &world.pods[work.pods.first().expect("a pod")];
        (
            pod.key.clone(),
            world.log(&pod.key, None, false).expect("a log"),
        )
    };
    let (key, lines) = of_work("moe-8x7b-r2");
    assert!(lines.len() > 100 && lines.windows(2).all(|pair| pair[0].0 <= pair[1].0));
    assert!(
        lines
            .iter()
            .any(|(_, line)| line.contains("tokens/s") && line.contains("loss"))
    );
    assert!(world.log(&key, Some("no-such-container"), false).is_none());
    assert!(
        world.log(&key, None, true).is_none(),
        "there was no earlier run"
    );
    assert!(
        world
            .log(&ObjectKey::new("nlp", "nobody"), None, false)
            .is_none()
    );
    let (_, lines) = of_work("clip-h");
    assert!(
        lines
            .last()
            .is_some_and(|(_, line)| line.contains("watchdog"))
    );
    let (_, lines) = of_work("ranker-v3");
    assert!(
        lines
            .last()
            .is_some_and(|(_, line)| line.contains("POST /v1/completions"))
    );
    let (_, lines) = of_work("llm-70b-sft");
    assert!(lines.is_empty(), "what has not started has said nothing");
}

#[test]
fn autoscalers_report_what_the_world_does() {
    use std::time::Duration;

    use super::fold;
    use cluster::seen;
    use model::base::Names;
    use model::fleet::observe::{Observation, Table};

    let (mut world, mut store) = begin(Options::new(noon()));
    let mut names = Names::default();
    let mut pools = Vec::new();
    for object in of(&store, Resource::NodePools) {
        let Some(Observation::NodePool(pool)) = seen(Table::NodePools, object, &mut names) else {
            panic!("{object}")
        };
        pools.push((pool.name.to_string(), pool.now));
    }
    pools.sort();
    assert_eq!(
        pools,
        [
            ("a100-shared".to_owned(), Some(96)),
            ("l4-serve".to_owned(), Some(100))
        ]
    );
    let status = of(&store, Resource::ConfigMaps)
        .find(|map| map["metadata"]["name"] == "cluster-autoscaler-status")
        .expect("a status");
    let Some(Observation::NodeGroups(groups)) = seen(Table::NodeGroups, status, &mut names) else {
        panic!("{status}")
    };
    let [group] = &*groups.groups else {
        panic!("{groups:?}")
    };
    assert!(group.name.starts_with("eks-h100-train-"), "{group:?}");
    assert_eq!(
        (group.now, group.min, group.max),
        (Some(128), Some(128), Some(128))
    );
    assert_eq!(group.reported, Some(world.now()));
    assert!(of(&store, Resource::PodAutoscalers).count() > 0);
    assert_eq!(of(&store, Resource::ProvisioningRequests).count(), 1);
    let scaled = of(&store, Resource::ScaledObjects).next();
    let autoscaler = scaled.expect("KEDA scales one")["status"]["hpaName"].clone();
    let made =
        of(&store, Resource::PodAutoscalers).any(|one| one["metadata"]["name"] == autoscaler);
    assert!(made, "{autoscaler}");
    // Each of Karpenter's nodes has its NodeClaim; a reclaimed spot node's claim is replaced.
    let mut replaced = 0;
    for _ in 0..240 {
        let to = world.now().plus(Duration::from_secs(30));
        let changes = world.advance(to);
        fold(&mut store, changes);
        let claims: Vec<&Value> = of(&store, Resource::NodeClaims).collect();
        let coming = |claim: &&&Value| claim["status"]["nodeName"].is_null();
        let there = claims.len() - claims.iter().filter(coming).count();
        replaced += claims.iter().filter(coming).count();
        let nodes = of(&store, Resource::Nodes)
            .filter(|node| node["metadata"]["labels"]["karpenter.sh/nodepool"].is_string())
            .count();
        assert!(
            there.abs_diff(nodes) <= 1,
            "{there} claims of {nodes} nodes"
        );
    }
    assert!(replaced > 0, "in two hours a spot machine goes");
}
