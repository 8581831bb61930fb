//! Dialect files: what they can say, and how their mistakes are told.

use exporter::{Dialects, HostRule, PageSource, ParsedPage, read};
use model::base::{Names, ObjectKey};
use model::fleet::reading::ReadingScope;
use model::fleet::signal::Signal;

const HEAD: &str = r#"
name = "test"
title = "A test"
interval = "15s"

[detect]
names = ["test_*"]
"#;

/// Reads a page with a dialect of the test's own.
fn with(toml: &str, page: &str) -> ParsedPage {
    let text = format!("{HEAD}{toml}");
    let dialects = Dialects::with(&[("test.toml", &text)]).expect("a dialect");
    let target = PageSource {
        dialect: Some("test"),
        ..PageSource::default()
    };
    read(&dialects, page.as_bytes(), &target, &mut Names::default())
}

fn wrong(toml: &str) -> String {
    let errors = Dialects::with(&[("mine.toml", toml)]).expect_err("a mistake");
    errors.join("\n")
}

fn get(read: &ParsedPage, at: usize, signal: Signal) -> Option<f64> {
    read.readings[at].signals.get(signal)
}

#[test]
fn built_in_dialects_compile_and_say_who_they_are() {
    let dialects = Dialects::builtin();
    let names: Vec<&str> = dialects.iter().map(|dialect| &*dialect.name).collect();
    assert_eq!(
        names,
        [
            "dcgm",
            "amd",
            "tpu",
            "gke-gpu",
            "nvidia-smi",
            "xpum",
            "xpumd",
            "gaudi",
            "neuron",
            "hami",
            "hami-scheduler",
            "all-smi",
            "vllm",
            "triton",
            "sglang",
            "tgi",
            "trtllm",
            "nim"
        ]
    );
    for dialect in dialects.iter() {
        assert!(!dialect.title.is_empty() && !dialect.docs.is_empty());
        assert!(!dialect.discovery.selectors.is_empty() && !dialect.discovery.ports.is_empty());
        assert!(dialect.interval.as_secs() >= 10 && dialect.timeout <= dialect.interval);
        let serves = dialect.signals().contains(&Signal::RequestsWaiting);
        let measures = dialect.signals().contains(&Signal::Util);
        // The scheduler of HAMi measures nothing; its page is of every node.
        let schedules = &*dialect.name == "hami-scheduler";
        assert!(serves || measures || schedules, "{}", dialect.name);
        assert_eq!(dialect.host == HostRule::Target, !schedules);
    }
    let dcgm = dialects.get("dcgm").expect("built in");
    assert!(dcgm.metrics().contains(&"DCGM_FI_DEV_GPU_TEMP"));
    assert!(!dcgm.metrics().contains(&"DCGM_FI_DEV_MEM_COPY_UTIL"));
}

#[test]
fn discovery_matches_pod_labels() {
    let dialects = Dialects::builtin();
    let matches = |name: &str, labels: &[(&str, &str)]| {
        let dialect = dialects.get(name).expect("built in");
        dialect.discovery.matches(|key| {
            labels
                .iter()
                .find(|(known, _)| *known == key)
                .map(|(_, value)| *value)
        })
    };
    assert!(matches("dcgm", &[("app", "nvidia-dcgm-exporter")]));
    assert!(matches(
        "dcgm",
        &[("app.kubernetes.io/name", "dcgm-exporter"), ("x", "y")]
    ));
    assert!(!matches("dcgm", &[("app", "nvidia-device-plugin")]));
    assert!(matches(
        "amd",
        &[("app", "gpu-operator-amdgpu-metrics-exporter")]
    ));
    assert!(matches("tpu", &[("k8s-app", "tpu-device-plugin")]));
    assert!(!matches("tpu", &[]));
}

#[test]
fn mistakes_name_file_line_and_the_nearest_word() {
    let good = format!(
        "{HEAD}[device]\nindex = [\"i\"]\n[[map]]\nto = \"util_ratio\"\nfrom = [\"test_util\"]\n"
    );
    assert!(Dialects::with(&[("mine.toml", &good)]).is_ok());
    for (from, to, expected) in [
        (
            "util_ratio",
            "util_rato",
            &["mine.toml:11:", "util_rato", "did you mean \"util_ratio\"?"][..],
        ),
        (
            "to = ",
            "too = ",
            &["mine.toml:11:", "unknown field `too`", "did you mean `to`?"],
        ),
        (
            "interval = \"15s\"",
            "interval = \"soon\"",
            &["mine.toml:4:", "\"soon\" is not a duration"],
        ),
        ("interval = \"15s\"", "", &["mine.toml", "interval"]),
        (
            "name = \"test\"",
            "name = \"Te st\"",
            &["mine.toml:2:", "lower-case"],
        ),
        (
            "[\"test_*\"]",
            "[]",
            &["mine.toml:7:", "no metric name proves"],
        ),
        (
            "[\"test_util\"]",
            "[]",
            &["mine.toml:12:", "no metric name gives util_ratio"],
        ),
        (
            "from = ",
            "scale = 0\nfrom = ",
            &["mine.toml:12:", "a scale is a number"],
        ),
        (
            "from = ",
            "scale = \"by-weight\"\nfrom = ",
            &["mine.toml:12:", "by-size"],
        ),
        (
            "from = ",
            "scale = \"by-size\"\nfrom = ",
            &["mine.toml:12:", "[sizes]"],
        ),
        (
            "from = ",
            "scope = \"slize\"\nfrom = ",
            &["mine.toml:12:", "did you mean `slice`?"],
        ),
        (
            "from = ",
            "scope = \"slice\"\nfrom = ",
            &["mine.toml:11:", "[slice]"],
        ),
        (
            "from = ",
            "rollup = \"sum\"\nfrom = ",
            &["mine.toml:12:", "rolls up"],
        ),
        (
            "from = ",
            "values = { \"x\" = 1 }\nfrom = ",
            &["\"x\" is not a number"],
        ),
        (
            "util_ratio\"",
            "energy_joules_total\"\nkind = \"gauge\"",
            &["mine.toml:12:", "running total"],
        ),
        (
            "[\"i\"]",
            "[{ label = \"i\", regex = \"(\" }]",
            &["mine.toml:9:", "not a regular expression"],
        ),
        (
            "[\"i\"]",
            "[{ label = \"i\", regx = \"x\" }]",
            &["mine.toml:9:", "did you mean `regex`?"],
        ),
        ("[\"i\"]", "[3]", &["mine.toml:9:", "a label's name"]),
        (
            "[device]",
            "[discovery]\nselectors = [\"app\"]\n[device]",
            &["mine.toml:9:", "key=value"],
        ),
        (
            "[device]",
            "[discovery]\nscheme = \"ftp\"\n[device]",
            &["mine.toml:9:", "http"],
        ),
        (
            "[[map]]",
            "[[derive]]\nto = \"mem_total_bytes\"\n[[map]]",
            &["mine.toml:11:", "exactly one"],
        ),
        (
            "from = ",
            "scope = \"serving\"\nfrom = ",
            &["mine.toml:11:", "[serving]"],
        ),
        (
            "from = ",
            "count = [\"test_n\"]\nfrom = ",
            &["mine.toml:13:", "kind = \"mean\""],
        ),
        (
            "from = ",
            "newest = true\nfrom = ",
            &["mine.toml:11:", "value_label"],
        ),
        ("title", "= 3\ntitle", &["mine.toml:3:"]),
    ] {
        let message = wrong(&good.replacen(from, to, 1));
        for part in expected {
            assert!(message.contains(part), "{to}: {message}");
        }
    }
    // Every mistake of every file is told at once.
    let two = good
        .replace("util_ratio", "nothing_like_it")
        .replace("15s", "x");
    assert_eq!(wrong(&two).lines().count(), 2, "{}", wrong(&two));
}

#[test]
fn a_file_may_take_a_built_in_dialects_place_but_not_anothers() {
    let mine = format!(
        "{}[[map]]\nto = \"util_ratio\"\nfrom = [\"test_u\"]\n",
        HEAD.replace("test\"", "dcgm\"")
    );
    let dialects = Dialects::with(&[("mine.toml", &mine)]).expect("replaced");
    assert_eq!(dialects.iter().count(), Dialects::builtin().iter().count());
    assert_eq!(dialects.get("dcgm").expect("mine").file, "mine.toml");
    let errors = Dialects::with(&[("a.toml", &mine), ("b.toml", &mine)]).expect_err("twice");
    assert!(
        errors[0].contains("b.toml") && errors[0].contains("taken by a.toml"),
        "{errors:?}"
    );
}

#[test]
fn cores_sum_over_runtimes_and_roll_up_to_devices() {
    // As a Neuron monitor speaks: cores only, one row for each runtime, sizes in an info metric's labels.
    let read = with(
        r#"
[device]
host = ["instance_id"]
index = ["neuron_device_index"]

[core]
index = ["neuroncore"]
per_device_from = "test_info"
per_device_label = "cores"

[[map]]
to = "util_ratio"
from = ["test_util"]
scope = "core"
reduce = "sum"
over = ["runtime_tag"]

[[map]]
to = "mem_used_bytes"
from = ["test_mem_model", "test_mem_tensors"]
together = true
scope = "core"
reduce = "sum"
over = ["runtime_tag"]
rollup = "sum"

[[map]]
to = "mem_total_bytes"
from = ["test_info"]
value_label = "size"
scope = "each"

[[map]]
to = "ecc_sbe_total"
from = ["test_ecc"]
where = { event = ["mem_corrected", "sram_corrected"] }
reduce = "sum"
over = ["event"]
"#,
        r#"test_info{instance_id="i-1",cores="2",size="8589934592"} 1
test_util{instance_id="i-1",neuroncore="0",runtime_tag="a"} 0.25
test_util{instance_id="i-1",neuroncore="0",runtime_tag="b"} 0.5
test_util{instance_id="i-1",neuroncore="1",runtime_tag="a"} 0.25
test_util{instance_id="i-1",neuroncore="2",runtime_tag="a"} 0.125
test_util{instance_id="i-1",neuroncore="2",runtime_tag="b"} 1
test_mem_model{instance_id="i-1",neuroncore="0",runtime_tag="a"} 1
test_mem_tensors{instance_id="i-1",neuroncore="0",runtime_tag="a"} 10
test_mem_tensors{instance_id="i-1",neuroncore="1",runtime_tag="b"} 100
test_ecc{instance_id="i-1",neuron_device_index="1",event="mem_corrected"} 3
test_ecc{instance_id="i-1",neuron_device_index="1",event="sram_corrected"} 4
test_ecc{instance_id="i-1",neuron_device_index="1",event="mem_uncorrected"} 9
"#,
    );
    assert_eq!(read.readings.len(), 2, "{:?}", read.readings);
    assert_eq!(read.readings[0].host.as_deref(), Some("i-1"));
    assert_eq!(get(&read, 0, Signal::Util), Some(0.5));
    // No core is used more than wholly.
    assert_eq!(get(&read, 1, Signal::Util), Some(1.0));
    assert_eq!(get(&read, 0, Signal::MemUsed), Some(111.0));
    assert_eq!(get(&read, 1, Signal::MemTotal), Some(8_589_934_592.0));
    assert_eq!(get(&read, 1, Signal::EccCorrected), Some(7.0));
    assert_eq!(read.report.series_skipped, 1);
}

#[test]
fn info_metrics_give_identity_and_prefixes_are_put_on() {
    // As nvidia_gpu_exporter speaks: everything by a uuid without its prefix, identity in an info metric.
    let read = with(
        r#"
[device]
uuid = [{ label = "uuid", prefix = "GPU-" }]
[missing]
texts = ["[N/A]"]
[[join]]
from = ["test_gpu_info"]
labels = { index = ["index"], model = ["name"], pci = [{ label = "pci", strip = "0000", lower = true }], driver = ["driver"], serial = ["serial"] }
[[join]]
from = ["test_host_info"]
on = "page"
labels = { host = ["node"] }
[[map]]
to = "util_ratio"
from = ["test_util"]
"#,
        r#"test_util{uuid="aa-1"} 0.5
test_gpu_info{uuid="aa-1",index="3",name="NVIDIA L4",pci="0000AB:00.0",driver="570",serial="[N/A]"} 1
test_host_info{node="gpu-12"} 1
"#,
    );
    let [device] = &*read.readings else { panic!() };
    assert_eq!(device.uuid.as_deref(), Some("GPU-aa-1"));
    assert_eq!(device.index, Some(3));
    assert_eq!(device.model.as_deref(), Some("NVIDIA L4"));
    assert_eq!(device.pci.as_deref(), Some("ab:00.0"));
    assert_eq!(device.driver.as_deref(), Some("570"));
    assert_eq!(device.serial, None);
    assert_eq!(device.host.as_deref(), Some("gpu-12"));
    assert_eq!(read.report.series_used, 3);
}

#[test]
fn tiles_stand_in_for_a_device_that_has_no_row() {
    // As XPU Manager speaks: device rows have no tile label; a family may have tiles only.
    let read = with(
        r#"
[device]
uuid = ["uuid"]
[[map]]
to = "mem_used_bytes"
from = ["test_used"]
absent = ["tile"]
[[map]]
to = "mem_used_bytes"
from = ["test_used"]
present = ["tile"]
reduce = "sum"
over = ["tile"]
[[map]]
to = "mem_used_ratio"
from = ["test_ratio"]
[[derive]]
to = "mem_total_bytes"
ratio = { of = "mem_used_bytes", to = ["mem_used_ratio"], at_least = 0.01 }
[[derive]]
to = "mem_free_bytes"
minus = ["mem_total_bytes", "mem_used_bytes"]
"#,
        r#"test_used{uuid="a"} 100
test_used{uuid="a",tile="0"} 40
test_used{uuid="b",tile="0"} 40
test_used{uuid="b",tile="1"} 50
test_ratio{uuid="a"} 0.5
test_ratio{uuid="b"} 0.001
"#,
    );
    assert_eq!(get(&read, 0, Signal::MemUsed), Some(100.0));
    assert_eq!(get(&read, 0, Signal::MemTotal), Some(200.0));
    assert_eq!(get(&read, 0, Signal::MemFree), Some(100.0));
    assert_eq!(get(&read, 1, Signal::MemUsed), Some(90.0));
    assert_eq!(
        get(&read, 1, Signal::MemTotal),
        None,
        "too small a ratio to divide by"
    );
}

#[test]
fn pod_rows_values_ceilings_and_clamps() {
    // As HAMi speaks of its containers, and as Rebellions speaks of health: 0 is good.
    let read = with(
        r#"
[device]
uuid = ["uuid"]
[pod]
labels = [{ pod = "podname", namespace = "podnamespace", container = "ctrname" }]
[[map]]
to = "util_ratio"
from = ["test_container_util"]
scope = "pod"
scale = 0.01
clamp = true
[[map]]
to = "mem_used_bytes"
from = ["test_host_used"]
ceiling = 1000
missing = [7]
[[map]]
to = "health"
from = ["test:HEALTH"]
values = { "0" = 1, "1" = 0 }
"#,
        r#"test_container_util{uuid="a",podname="p",podnamespace="n",ctrname="c"} 140
test_container_util{uuid="a"} 50
test_host_used{uuid="a"} 900
test_host_used{uuid="b"} 1001
test_host_used{uuid="c"} 7
test:HEALTH{uuid="a"} 1
test:HEALTH{uuid="b"} 0
test:HEALTH{uuid="c"} 2
"#,
    );
    let device: Vec<_> = read
        .readings
        .iter()
        .filter(|one| one.scope == ReadingScope::Device)
        .map(|one| {
            (
                one.signals.get(Signal::MemUsed),
                one.signals.get(Signal::Health),
            )
        })
        .collect();
    assert_eq!(
        device,
        [(Some(900.0), Some(0.0)), (None, Some(1.0)), (None, None)]
    );
    assert_eq!(
        get(&read, 0, Signal::Util),
        None,
        "a pod's use is not the device's"
    );
    let copy = &read.readings[1];
    assert_eq!(copy.scope, ReadingScope::PodCopy);
    assert_eq!(copy.pod, Some(ObjectKey::new("n", "p")));
    assert_eq!(copy.signals.get(Signal::Util), Some(1.0));
}

#[test]
fn a_prefix_is_found_and_taken_off() {
    let toml = HEAD
        .replace("[\"test_*\"]", "[\"test_power\"]")
        .replace("interval", "prefixes = [\"acme_\"]\ninterval");
    let maps =
        "[device]\nindex = [\"i\"]\n[[map]]\nto = \"power_watts\"\nfrom = [\"test_power\"]\n";
    let power = |toml: &str, page: &str| {
        let text = format!("{toml}{maps}");
        let dialects = Dialects::with(&[("test.toml", &text)]).expect("a dialect");
        let read = read(
            &dialects,
            page.as_bytes(),
            &PageSource::default(),
            &mut Names::default(),
        );
        read.readings
            .first()
            .and_then(|one| one.signals.get(Signal::Power))
    };
    assert_eq!(power(&toml, "test_power{i=\"0\"} 5\n"), Some(5.0));
    assert_eq!(power(&toml, "acme_test_power{i=\"0\"} 5\n"), Some(5.0));
    assert_eq!(power(&toml, "corp_test_power{i=\"0\"} 5\n"), None);
    let any = toml.replace("prefixes = [\"acme_\"]", "any_prefix = true");
    assert_eq!(power(&any, "corp_test_power{i=\"0\"} 5\n"), Some(5.0));
    assert_eq!(power(&any, "corptest_power{i=\"0\"} 5\n"), None);
}
