//! The whole path of a page: exporter, dialect, ledger, fleet, for accelerators of other makes and for servers.

use std::sync::Arc;
use std::time::Duration;

use exporter::{Dialects, HostRule, PageSource, read};
use ledger::Ledger;
use model::base::{Moment, Name, Names, ObjectKey};
use model::fleet::Fleet;
use model::fleet::accelerator::{Catalog, DeviceKind, Vendor};
use model::fleet::device::Attribution;
use model::fleet::observe::{Labels, NodeSeen, Observation, Phase, PodSeen, Resources};
use model::fleet::policy::Policy;
use model::fleet::reading::Page;
use model::fleet::signal::Signal as S;

const NOW: Moment = Moment::from_seconds(1_800_000_000);

/// A cluster under construction.
struct World(Ledger);

impl World {
    fn new() -> Self {
        let policy = Policy {
            catalog: Catalog::embedded(),
            ..Policy::default()
        };
        Self(Ledger::new(Arc::new(policy)))
    }

    fn node(&mut self, name: &str, resource: &str, count: u32) -> &mut Self {
        let devices = Resources {
            devices: Box::from([(Name::new(resource), count)]),
            ..Resources::default()
        };
        self.0.apply(Observation::Node(Box::new(NodeSeen {
            name: Name::new(name),
            uid: Name::new(name),
            provider_id: Some(Name::from(format!("aws:///us-east-1c/{name}"))),
            capacity: devices.clone(),
            allocatable: devices,
            ..NodeSeen::default()
        })));
        self
    }

    fn pod(
        &mut self,
        namespace: &str,
        name: &str,
        node: &str,
        resource: &str,
        count: u32,
    ) -> &mut Self {
        self.0.apply(Observation::Pod(Box::new(PodSeen {
            key: ObjectKey::new(namespace, name),
            uid: Name::new(name),
            node: Some(Name::new(node)),
            phase: Phase::Running,
            labels: Labels::default(),
            requests: Resources {
                devices: Box::from([(Name::new(resource), count)]),
                ..Resources::default()
            },
            created: NOW.minus(Duration::from_secs(600)),
            started: Some(NOW.minus(Duration::from_secs(500))),
            ..PodSeen::default()
        })));
        self
    }

    /// A page of an exporter on `node`, as a scrape tells it.
    fn page(&mut self, node: &str, text: &str) -> &mut Self {
        self.page_of(node, None, text)
    }

    fn page_of(&mut self, node: &str, pod: Option<ObjectKey>, text: &str) -> &mut Self {
        let dialects = Dialects::builtin();
        let target = PageSource {
            pod,
            node: Some(Name::new(node)),
            ..PageSource::default()
        };
        let read = read(&dialects, text.as_bytes(), &target, &mut Names::default());
        let dialect = read.report.dialect.expect("a known exporter");
        let dialect = dialects.get(&dialect).expect("built in");
        self.0.apply(Observation::Page(Box::new(Page {
            node: (dialect.host == HostRule::Target).then(|| Name::new(node)),
            at: NOW,
            interval: dialect.interval,
            readings: read.readings,
        })));
        self
    }

    fn fleet(&mut self) -> Fleet {
        self.0.publish(NOW)
    }
}

#[test]
fn gaudi_nodes_show_their_devices_class_and_holder() {
    let mut world = World::new();
    world
        .node("gaudi-7", "habana.ai/gaudi", 8)
        .pod("vision", "sd-xl-0", "gaudi-7", "habana.ai/gaudi", 1)
        .page("gaudi-7", include_str!("pages/gaudi.prom"));
    let fleet = world.fleet();
    let devices = &fleet.nodes[0].devices;
    assert_eq!(devices.len(), 8, "those that the page does not mention too");
    let first = &devices[0];
    assert_eq!(
        (first.vendor, first.kind),
        (Vendor::Intel, DeviceKind::Other)
    );
    assert_eq!(first.class.as_str(), "Gaudi2");
    assert_eq!(first.attribution, Attribution::Exporter);
    assert_eq!(first.signals.get(S::Power), Some(415.0));
    assert_eq!(devices[1].holder, None);
    assert_eq!(devices[7].signals.len(), 0);
}

#[test]
fn neuron_devices_are_found_by_their_instance() {
    let mut world = World::new();
    let text = include_str!("pages/neuron.prom");
    // Through Prometheus no pod tells the node: the instance's id does, against the provider's.
    world.node("ip-10-0-0-1", "aws.amazon.com/neuron", 16);
    world.0.apply(Observation::Node(Box::new(NodeSeen {
        name: Name::new("ip-10-0-0-1"),
        uid: Name::new("ip-10-0-0-1"),
        provider_id: Some(Name::new("aws:///us-east-1c/i-0aaa0bbb0ccc0ddd0")),
        capacity: Resources {
            devices: Box::from([(Name::new("aws.amazon.com/neuron"), 16)]),
            ..Resources::default()
        },
        ..NodeSeen::default()
    })));
    let dialects = Dialects::builtin();
    let read = read(
        &dialects,
        text.as_bytes(),
        &PageSource::default(),
        &mut Names::default(),
    );
    world.0.apply(Observation::Page(Box::new(Page {
        node: None,
        at: NOW,
        interval: Duration::from_secs(15),
        readings: read.readings,
    })));
    let fleet = world.fleet();
    let devices = &fleet.nodes[0].devices;
    assert_eq!(devices.len(), 16);
    assert_eq!(devices[0].class.as_str(), "Trainium1");
    assert_eq!(devices[0].signals.get(S::Util), Some(0.5));
    assert_eq!(devices[15].signals.get(S::EccUncorrected), Some(1.0));
    assert_eq!(devices[5].signals.get(S::Util), None);
}

#[test]
fn xpum_devices_keep_their_place_from_page_to_page() {
    let mut world = World::new();
    let text = include_str!("pages/xpum.prom");
    world
        .node("xpu-1", "gpu.intel.com/i915", 2)
        .pod("nlp", "bert-0", "xpu-1", "gpu.intel.com/i915", 1)
        .page("xpu-1", text);
    let place = |fleet: &Fleet| -> Vec<(u32, Option<String>)> {
        let devices = fleet.nodes[0].devices.iter();
        devices
            .map(|one| (one.index, one.pci.as_ref().map(ToString::to_string)))
            .collect()
    };
    let first = world.fleet();
    assert_eq!(
        place(&first),
        [
            (0, Some("0000:29:00.0".into())),
            (1, Some("0000:3a:00.0".into()))
        ]
    );
    assert_eq!(first.nodes[0].devices[0].class.as_str(), "Max-1550");
    assert_eq!(first.nodes[0].devices[0].attribution, Attribution::Exporter);
    // A page on which one of them is missing moves nobody.
    let later: String = text
        .lines()
        .filter(|line| !line.contains("0000:29:00.0"))
        .fold(String::new(), |all, line| all + line + "\n");
    world.page("xpu-1", &later);
    assert_eq!(place(&world.fleet()), place(&first));
}

#[test]
fn a_second_opinion_without_indices_adds_no_devices() {
    let gpu = |index: u32| format!("GPU-cccccccc-0000-4000-8000-{index:012}");
    let triton = include_str!("pages/triton.prom");
    let dcgm: String = (0..2)
        .map(|index| {
            format!("DCGM_FI_DEV_GPU_UTIL{{gpu=\"{index}\",UUID=\"{}\",modelName=\"Tesla T4\"}} 30\nDCGM_FI_DEV_POWER_USAGE{{gpu=\"{index}\",UUID=\"{}\"}} 35\n", gpu(index), gpu(index))
        })
        .collect();
    // Whichever speaks first, Triton's device is dcgm's second.
    for first in [true, false] {
        let mut world = World::new();
        world.node("n", "nvidia.com/gpu", 2);
        if first {
            world.page("n", triton).page("n", &dcgm).page("n", triton);
        } else {
            world.page("n", &dcgm).page("n", triton);
        }
        let fleet = world.fleet();
        let devices = &fleet.nodes[0].devices;
        assert_eq!(devices.len(), 2);
        assert_eq!(devices[1].uuid.as_deref(), Some(&*gpu(1)));
        assert_eq!(devices[1].signals.get(S::PowerLimit), Some(70.0));
        assert_eq!(devices[0].signals.get(S::PowerLimit), None);
    }
}

#[test]
fn a_page_of_many_nodes_says_nothing_of_its_own() {
    let text = "hami_gpu_memory_limit_bytes{device_index=\"0\",device_type=\"NVIDIA-Tesla T4\",device_uuid=\"GPU-a\",node=\"n1\"} 1.6e10\n";
    let mut world = World::new();
    world
        .node("n1", "nvidia.com/gpu", 1)
        .node("n2", "nvidia.com/gpu", 1)
        .page("n2", text);
    let fleet = world.fleet();
    assert_eq!(
        fleet.nodes[0].devices[0].signals.get(S::MemTotal),
        Some(1.6e10)
    );
    assert_eq!(fleet.nodes[1].devices[0].signals.len(), 0);
}

#[test]
fn requests_belong_to_the_job_that_serves_them() {
    let text = include_str!("pages/vllm.prom");
    let gpu = "nvidia.com/gpu";
    let mut world = World::new();
    world
        .node("n", gpu, 8)
        .pod("chat", "llama-0", "n", gpu, 4)
        .pod("chat", "other", "n", gpu, 1)
        .page_of("n", Some(ObjectKey::new("chat", "llama-0")), text);
    let fleet = world.fleet();
    let job = |fleet: &Fleet, name: &str| {
        let found = fleet.jobs.iter().find(|job| job.name().as_str() == name);
        found.map(|job| job.serving.clone()).expect("a job")
    };
    let serving = job(&fleet, "llama-0").expect("it serves");
    assert_eq!(serving.servers, 1);
    assert_eq!(serving.models, [Name::new("meta-llama/Llama-3.1-8B")]);
    assert_eq!(serving.signals.get(S::RequestsRunning), Some(12.0));
    assert_eq!(serving.signals.get(S::KvCache), Some(0.375));
    assert_eq!(job(&fleet, "other"), None);
    // Requests are no device: nothing of the node changed.
    assert!(
        fleet.nodes[0]
            .devices
            .iter()
            .all(|one| one.signals.is_empty())
    );
    // Long after the last page nobody knows.
    world.pod("chat", "llama-0", "n", gpu, 3);
    let later = world.0.publish(NOW.plus(Duration::from_secs(3600)));
    assert_eq!(job(&later, "llama-0"), None);
}
