//! The exporter room: pages of each dialect give the readings that their numbers mean.

use exporter::{Dialects, PageSource, ParsedPage, Rates, read};
use model::base::{Moment, Names, ObjectKey};
use model::fleet::reading::{Reading, ReadingScope as Scope};
use model::fleet::signal::Signal;

use crate::skipped::skipped;

const MIB: f64 = 1_048_576.0;

/// Reads a page as no particular target's.
fn page(text: &str) -> ParsedPage {
    page_of(text, &PageSource::default())
}

pub fn page_of(text: &str, target: &PageSource<'_>) -> ParsedPage {
    read(
        &Dialects::builtin(),
        text.as_bytes(),
        target,
        &mut Names::default(),
    )
}

fn of(read: &ParsedPage, scope: Scope) -> Vec<&Reading> {
    read.readings
        .iter()
        .filter(|reading| reading.scope == scope)
        .collect()
}

/// Every listed signal has its value, within a billionth; `None` is unknown.
fn check(reading: &Reading, wanted: &[(Signal, Option<f64>)]) {
    for (signal, want) in wanted {
        let got = reading.signals.get(*signal);
        let near = match (got, want) {
            (Some(got), Some(want)) => (got - want).abs() <= want.abs() * 1e-9,
            (None, None) => true,
            _ => false,
        };
        assert!(
            near,
            "{} of {:?} {:?}: {got:?}, not {want:?}",
            signal.name(),
            reading.index,
            reading.slice
        );
    }
}

fn pod(namespace: &str, name: &str) -> Option<ObjectKey> {
    Some(ObjectKey::new(namespace, name))
}

#[test]
fn dcgm_units_and_labels() {
    let read = page(include_str!("pages/dcgm.prom"));
    assert_eq!(read.report.dialect.as_deref(), Some("dcgm"));
    assert_eq!(read.readings.len(), 2);
    let [busy, idle] = &*of(&read, Scope::Device) else {
        panic!("{:?}", read.readings)
    };
    assert_eq!(busy.index, Some(0));
    assert_eq!(
        busy.uuid.as_deref(),
        Some("GPU-a0000000-0000-4000-8000-000000000000")
    );
    assert_eq!(busy.host.as_deref(), Some("exporter-x1"));
    assert_eq!(busy.model.as_deref(), Some("NVIDIA H100 80GB HBM3"));
    assert_eq!(busy.driver.as_deref(), Some("570.86.15"));
    assert_eq!(busy.pci.as_deref(), Some("00000000:19:00.0"));
    assert_eq!(busy.pod, pod("nlp", "llm-0"));
    assert_eq!(busy.container.as_deref(), Some("train"));
    check(
        busy,
        &[
            (Signal::Util, Some(0.97)),
            (Signal::TensorActive, Some(0.412)),
            (Signal::Temp, Some(61.0)),
            (Signal::MemTemp, Some(74.0)),
            (Signal::Power, Some(652.125)),
            (Signal::Energy, Some(4500.0)),
            (Signal::SmClock, Some(1.98e9)),
            (Signal::MemUsed, Some(61000.0 * MIB)),
            (Signal::MemFree, Some(20000.0 * MIB)),
            (Signal::MemReserved, Some(559.0 * MIB)),
            (Signal::MemTotal, Some(81559.0 * MIB)),
            (Signal::MemUsedRatio, Some(61.0 / 81.0)),
            (Signal::Nvlink, Some(2.56e8)),
            (Signal::PcieTx, Some(1.5e9)),
            (Signal::XidLast, Some(0.0)),
        ],
    );
    // A percentage is divided, not multiplied by a hundredth that no double holds.
    assert_eq!(busy.signals.get(Signal::Util), Some(0.97));
    assert_eq!(idle.pod, None);
    check(
        idle,
        &[
            (Signal::MemTemp, None),
            (Signal::Util, Some(0.0)),
            (Signal::MemUsed, Some(0.0)),
            (Signal::XidLast, Some(79.0)),
            (Signal::Energy, None),
        ],
    );
    assert_eq!(skipped(&read), ["DCGM_FI_DEV_MEM_COPY_UTIL 1 no-mapping"]);
    assert_eq!(read.report.missing_values, 1, "the memory temperature of 0");
    assert_eq!((read.report.bad_lines, read.report.duplicates), (0, 0));
    assert_eq!(read.report.messages, Vec::<String>::new());
}

#[test]
fn dcgm_mig_has_a_row_for_the_device_and_one_for_each_instance() {
    let read = page(include_str!("pages/dcgm-mig.prom"));
    let shape: Vec<_> = read
        .readings
        .iter()
        .map(|reading| (reading.scope, reading.index, reading.slice.as_deref()))
        .collect();
    assert_eq!(
        shape,
        [
            (Scope::Device, Some(0), None),
            (Scope::Slice, Some(0), Some("3g.40gb-1")),
            (Scope::Slice, Some(0), Some("2g.20gb-3")),
            (Scope::Slice, Some(0), Some("2g.20gb-5")),
            (Scope::Device, Some(1), None),
        ]
    );
    let [parent, large, middle, free, whole] = &*read.readings else {
        panic!()
    };
    // Device values once, the highest; use and memory out of the instances; nobody holds the parent.
    assert_eq!(parent.pod, None);
    check(
        parent,
        &[
            (Signal::Power, Some(112.25)),
            (Signal::Temp, Some(41.0)),
            (Signal::SmClock, Some(1.41e9)),
            (Signal::Util, Some(0.7 * 3.0 / 7.0 + 0.35 * 2.0 / 7.0)),
            (Signal::MemUsed, Some(25010.0 * MIB)),
            (Signal::MemTotal, None),
            (Signal::TensorActive, None),
        ],
    );
    assert_eq!(large.pod, pod("nlp", "eval-0"));
    assert_eq!(large.uuid, parent.uuid);
    check(
        large,
        &[
            (Signal::Util, Some(0.7)),
            (Signal::TensorActive, Some(0.5)),
            (Signal::Power, None),
            (Signal::Temp, None),
            (Signal::MemUsed, Some(20000.0 * MIB)),
            (Signal::MemTotal, Some(40300.0 * MIB)),
        ],
    );
    assert_eq!(middle.pod, pod("vision", "notebook-0"));
    check(
        middle,
        &[
            (Signal::Util, Some(0.35)),
            // Nothing reserved is said: the profile's size.
            (Signal::MemTotal, Some(20.0 * 1024.0 * MIB)),
        ],
    );
    assert_eq!(free.pod, None);
    check(free, &[(Signal::Util, Some(0.0))]);
    assert_eq!(whole.pod, pod("nlp", "train-0"));
    check(
        whole,
        &[(Signal::Util, Some(0.88)), (Signal::Power, Some(301.0))],
    );
}

#[test]
fn dcgm_mig_of_a_model_with_four_parts() {
    let text = r#"
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",UUID="GPU-1",modelName="NVIDIA A30",GPU_I_PROFILE="2g.12gb",GPU_I_ID="1"} 0.5
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",UUID="GPU-1",modelName="NVIDIA A30",GPU_I_PROFILE="1g.6gb",GPU_I_ID="2"} 1
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="1",UUID="GPU-2",modelName="NVIDIA A100",GPU_I_PROFILE="1g.5gb",GPU_I_ID="2"} 1
DCGM_FI_DEV_XID_ERRORS{gpu="1",UUID="GPU-2",modelName="NVIDIA A100",GPU_I_PROFILE="1g.5gb",GPU_I_ID="3"} 0
"#;
    let read = page(text);
    let devices = of(&read, Scope::Device);
    check(devices[0], &[(Signal::Util, Some(0.5))]);
    // One instance says nothing: the device's use is not known.
    check(devices[1], &[(Signal::Util, None)]);
}

#[test]
fn dcgm_mig_of_a_board_for_workstations_has_four_parts_too() {
    let row = |id: u32| {
        format!(
            "DCGM_FI_PROF_GR_ENGINE_ACTIVE{{gpu=\"0\",UUID=\"GPU-1\",modelName=\"NVIDIA RTX PRO 6000 Blackwell Server Edition\",GPU_I_PROFILE=\"1g.24gb\",GPU_I_ID=\"{id}\"}} 1\n"
        )
    };
    let all: String = (3..7).map(row).collect();
    let read = page(&all);
    check(of(&read, Scope::Device)[0], &[(Signal::Util, Some(1.0))]);
}

#[test]
fn dcgm_shared_device_is_never_summed() {
    let read = page(include_str!("pages/dcgm-shared.prom"));
    let [device] = &*of(&read, Scope::Device) else {
        panic!()
    };
    assert_eq!(device.pod, None, "three share it");
    check(
        device,
        &[
            (Signal::Util, Some(0.6)),
            (Signal::MemUsed, Some(9000.0 * MIB)),
            (Signal::Power, Some(55.5)),
            (Signal::MemFree, Some(6000.0 * MIB)),
        ],
    );
    let copies = of(&read, Scope::PodCopy);
    assert_eq!(copies.len(), 3);
    for (copy, (at, util)) in copies.iter().zip([(0, 0.2), (1, 0.3), (2, 0.1)]) {
        assert_eq!(copy.pod, pod("serve", &format!("api-{at}")));
        assert_eq!(copy.uuid, device.uuid);
        check(
            copy,
            &[(Signal::Util, Some(util)), (Signal::Power, Some(55.5))],
        );
    }
    // Sharing shows without the label too: two pods on one device, or a device's row beside a pod's.
    let two = page(
        r#"DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1",namespace="a",pod="x"} 50
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1",namespace="a",pod="y"} 50
"#,
    );
    assert_eq!(of(&two, Scope::PodCopy).len(), 2);
    check(of(&two, Scope::Device)[0], &[(Signal::Util, Some(0.5))]);
    let one = page(
        r#"DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1",namespace="a",pod="x"} 20
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1"} 50
"#,
    );
    check(of(&one, Scope::Device)[0], &[(Signal::Util, Some(0.5))]);
    assert_eq!(of(&one, Scope::Device)[0].pod, None);
    check(of(&one, Scope::PodCopy)[0], &[(Signal::Util, Some(0.2))]);
}

#[test]
fn dcgm_names_of_4_6() {
    let read = page(include_str!("pages/dcgm-renamed.prom"));
    let [device] = &*read.readings else { panic!() };
    assert_eq!(device.host.as_deref(), Some("gpu-11"));
    assert_eq!(device.pod, pod("nlp", "big-2"));
    check(
        device,
        &[
            (Signal::Util, Some(0.45)),
            (Signal::SmActive, Some(0.4)),
            (Signal::SmOccupancy, Some(0.3)),
            (Signal::TensorActive, Some(0.2)),
            (Signal::DramActive, Some(0.6)),
            (Signal::MemUsedRatio, Some(0.25)),
            (Signal::MemTotal, Some(183_359.0 * MIB)),
            (Signal::Temp, Some(57.0)),
            (Signal::MemTemp, Some(63.0)),
            (Signal::TempSlowdown, Some(90.0)),
            (Signal::TempShutdown, Some(95.0)),
            (Signal::TempMargin, Some(-2.0)),
            (Signal::Power, Some(811.5)),
            (Signal::PowerLimit, Some(1000.0)),
            (Signal::Nvlink, Some(1.024e9)),
            (Signal::NvlinkErrors, Some(15.0)),
            (Signal::PcieReplay, Some(7.0)),
            (Signal::XidLast, Some(31.0)),
            (Signal::XidWindow, Some(3.0)),
            (Signal::RemappedUncorrectable, Some(2.0)),
            (Signal::RemappedCorrectable, Some(3.0)),
            (Signal::RemapFailed, Some(1.0)),
            (Signal::RemapPending, Some(1.0)),
            (Signal::ThrottleReasons, Some(4.0)),
            (Signal::PowerViolation, Some(2.5)),
            (Signal::Health, Some(0.0)),
            (Signal::RecoveryAction, Some(1.0)),
        ],
    );
}

#[test]
fn dcgm_names_of_the_first_exporter() {
    let read = page(
        r#"# TYPE dcgm_gpu_temp gauge
dcgm_gpu_temp{gpu="0",uuid="GPU-5",pod_name="job-1",pod_namespace="old",container_name="main"} 34
dcgm_gpu_utilization{gpu="0",uuid="GPU-5",pod_name="job-1",pod_namespace="old",container_name="main"} 57
dcgm_fb_used{gpu="0",uuid="GPU-5",pod_name="job-1",pod_namespace="old",container_name="main"} 12
"#,
    );
    let [device] = &*read.readings else { panic!() };
    assert_eq!(device.pod, pod("old", "job-1"));
    assert_eq!(device.container.as_deref(), Some("main"));
    assert_eq!(device.signals.get(Signal::Util), Some(0.57));
    check(
        device,
        &[
            (Signal::Temp, Some(34.0)),
            (Signal::MemUsed, Some(12.0 * MIB)),
        ],
    );
}

#[test]
fn the_exporters_own_pod_holds_nothing() {
    let plain = r#"DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-1",namespace="gpu-operator",pod="nvidia-dcgm-exporter-x7k2p",container="nvidia-dcgm-exporter"} 30
DCGM_FI_DEV_GPU_TEMP{gpu="1",UUID="GPU-2",namespace="nlp",pod="train-0",container="main"} 60
"#;
    let read = page(plain);
    let holders: Vec<_> = read.readings.iter().map(|one| one.pod.clone()).collect();
    assert_eq!(holders, [None, pod("nlp", "train-0")]);
    assert!(
        read.report
            .messages
            .iter()
            .any(|text| text.contains("own pod")),
        "{:?}",
        read.report.messages
    );

    // An exporter under a name of its own is known by its target.
    let odd = plain.replace("nvidia-dcgm-exporter", "metrics");
    assert_eq!(
        page(&odd).readings[0].pod,
        pod("gpu-operator", "metrics-x7k2p")
    );
    let target = PageSource {
        pod: pod("gpu-operator", "metrics-x7k2p"),
        ..PageSource::default()
    };
    let read = page_of(&odd, &target);
    assert_eq!(read.readings[0].pod, None);
    assert_eq!(read.readings[1].pod, pod("nlp", "train-0"));

    // honorLabels = false: the true labels were moved aside, and the plain ones are the target's on every row.
    let moved = r#"DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-1",namespace="mon",pod="odd-1",container="c"} 30
DCGM_FI_DEV_GPU_TEMP{gpu="1",UUID="GPU-2",namespace="mon",pod="odd-1",container="c",exported_namespace="nlp",exported_pod="train-0",exported_container="main"} 60
"#;
    let read = page(moved);
    assert_eq!(read.readings[0].pod, None);
    assert_eq!(read.readings[1].pod, pod("nlp", "train-0"));
    assert_eq!(read.readings[1].container.as_deref(), Some("main"));
    assert_eq!(of(&read, Scope::PodCopy).len(), 0);
}

#[test]
fn missing_pod_labels_are_unknown() {
    for labels in [
        "",
        r#",pod="",namespace="",container="""#,
        r#",pod="lonely""#,
    ] {
        let read = page(&format!(
            "DCGM_FI_DEV_GPU_UTIL{{gpu=\"0\",UUID=\"GPU-1\"{labels}}} 99\n"
        ));
        assert_eq!(read.readings[0].pod, None, "{labels}");
        check(&read.readings[0], &[(Signal::Util, Some(0.99))]);
    }
}

#[test]
fn sentinels_and_odd_values_are_unknown() {
    for value in [
        "2147483632",
        "2147483647",
        "9223372036854775792",
        "9223372036854775794",
        "9.223372036854776e+18",
        "140737488355328",
        "140737488355328.000000",
        "1.40737488355330e+14",
        "NaN",
        "+Inf",
        "-Inf",
        "-1",
    ] {
        let read = page(&format!("DCGM_FI_DEV_POWER_USAGE{{gpu=\"0\"}} {value}\n"));
        check(&read.readings[0], &[(Signal::Power, None)]);
        assert_eq!(read.report.missing_values, 1, "{value}");
        assert_eq!(read.report.bad_lines, 0, "{value}");
    }
    // Just below a sentinel is a value, as an energy counter may well be.
    let read = page(
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu=\"0\"} 2147483631\nDCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu=\"1\"} 5147483650\n",
    );
    check(&read.readings[0], &[(Signal::Energy, Some(2_147_483.631))]);
    check(&read.readings[1], &[(Signal::Energy, Some(5_147_483.65))]);
    // Text is a bad line, and the rest of the page stands.
    let read = page(
        "DCGM_FI_DEV_POWER_USAGE{gpu=\"0\"} ERROR - FAILED TO CONVERT TO STRING\nDCGM_FI_DEV_GPU_TEMP{gpu=\"0\"} 50\n",
    );
    check(
        &read.readings[0],
        &[(Signal::Power, None), (Signal::Temp, Some(50.0))],
    );
    assert_eq!(read.report.bad_lines, 1);
    assert!(read.report.messages[0].contains("line 1: the value is not a number"));
}

#[test]
fn a_first_choice_without_value_does_not_block_the_second() {
    let read = page(
        "DCGM_FI_DEV_ENFORCED_POWER_LIMIT{gpu=\"0\"} 9223372036854775794\nDCGM_FI_DEV_POWER_MGMT_LIMIT{gpu=\"0\"} 400\nDCGM_FI_DEV_GPU_UTIL{gpu=\"0\"} 2147483632\nDCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu=\"0\"} 0.3\n",
    );
    check(
        &read.readings[0],
        &[(Signal::PowerLimit, Some(400.0)), (Signal::Util, Some(0.3))],
    );
}

#[test]
fn duplicates_keep_the_last_and_are_reported() {
    let read = page(
        r#"DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-1"} 90
DCGM_FI_DEV_GPU_TEMP{UUID="GPU-1",gpu="0",pod=""} 40
DCGM_EXP_XID_ERRORS_COUNT{gpu="0",UUID="GPU-1",xid="31"} 5
DCGM_EXP_XID_ERRORS_COUNT{gpu="0",UUID="GPU-1",xid="31"} 2
DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-1"} 300
DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-1"} NaN
"#,
    );
    assert_eq!(read.report.duplicates, 3);
    check(
        &read.readings[0],
        &[
            (Signal::Temp, Some(40.0)),
            (Signal::XidWindow, Some(2.0)),
            (Signal::Power, None),
        ],
    );
    let message = &read.report.messages[0];
    assert!(
        message.contains("3 duplicate series") && message.contains("line 2"),
        "{message}"
    );
}

#[test]
fn rows_of_one_device_come_together() {
    // By uuid whatever the index; by index where there is no uuid; zeros are no uuid.
    let read = page(
        r#"DCGM_FI_DEV_GPU_TEMP{gpu="0",Hostname="a"} 40
DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-1",Hostname="a"} 100
DCGM_FI_DEV_GPU_UTIL{gpu="0",Hostname="a"} 7
DCGM_FI_DEV_GPU_TEMP{gpu="1",UUID="GPU-00000000-0000-0000-0000-000000000000",Hostname="a"} 41
DCGM_FI_DEV_GPU_TEMP{gpu="2",UUID="GPU-00000000-0000-0000-0000-000000000000",Hostname="a"} 42
DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-9",Hostname="b"} 43
DCGM_FI_DEV_CPU_TEMP_CURRENT{cpu="0",Hostname="a"} 55
DCGM_FI_DEV_GPU_TEMP{cpu="0",Hostname="a"} 56
DCGM_FI_DEV_GPU_TEMP{Hostname="a"} 57
DCGM_FI_DEV_GPU_TEMP{device="nvidia3",Hostname="a"} 44
"#,
    );
    let found: Vec<_> = read
        .readings
        .iter()
        .map(|one| {
            (
                one.host.as_deref(),
                one.index,
                one.uuid.as_deref(),
                one.signals.get(Signal::Temp),
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            (Some("a"), Some(0), Some("GPU-1"), Some(40.0)),
            (Some("a"), Some(1), None, Some(41.0)),
            (Some("a"), Some(2), None, Some(42.0)),
            (Some("a"), Some(3), None, Some(44.0)),
            (Some("b"), Some(0), Some("GPU-9"), Some(43.0)),
        ]
    );
    check(
        &read.readings[0],
        &[(Signal::Power, Some(100.0)), (Signal::Util, Some(0.07))],
    );
    assert_eq!(read.report.no_device, 1, "the row without any device label");
    assert_eq!(read.report.series_skipped, 3);
}

#[test]
fn timestamps_carriage_returns_and_blanks() {
    let read = page(
        "DCGM_FI_DEV_GPU_TEMP{gpu=\"0\", UUID=\"GPU-1\" , } 4.5e+001 1763700000123\r\n  DCGM_FI_DEV_SM_CLOCK { gpu = \"0\" }\t1410\r\n",
    );
    check(
        &read.readings[0],
        &[(Signal::Temp, Some(45.0)), (Signal::SmClock, Some(1.41e9))],
    );
    assert_eq!(
        read.report.newest,
        Some(Moment::from_millis(1_763_700_000_123))
    );
}

#[test]
fn a_wrong_scale_shows() {
    let read =
        page("DCGM_FI_PROF_SM_ACTIVE{gpu=\"0\"} 45\nDCGM_FI_PROF_DRAM_ACTIVE{gpu=\"0\"} 1.003\n");
    check(
        &read.readings[0],
        &[(Signal::SmActive, None), (Signal::DramActive, Some(1.0))],
    );
    assert!(read.report.messages[0].contains("sm_active_ratio read 45"));
}

#[test]
fn amd_units_prefix_and_sizes() {
    let mut read = page(include_str!("pages/amd.prom"));
    assert_eq!(read.report.dialect.as_deref(), Some("amd"));
    let [node, busy, sick] = &*read.readings else {
        panic!("{:?}", read.readings)
    };
    assert_eq!(node.scope, Scope::Node);
    assert_eq!(node.host.as_deref(), Some("amd-3"));
    check(node, &[(Signal::DeviceCount, Some(8.0))]);
    assert_eq!(busy.serial.as_deref(), Some("692400000000"));
    assert_eq!(busy.model.as_deref(), Some("AMD Instinct MI300X"));
    assert_eq!(busy.slice, None);
    assert_eq!(busy.pod, pod("hpc", "cfd-0"));
    check(
        busy,
        &[
            // The mean over its dies, not the 13 % of gpu_gfx_activity.
            (Signal::Util, Some(0.7)),
            (Signal::DramActive, Some(0.25)),
            (Signal::MemTotal, Some(196_592.0 * MIB)),
            (Signal::MemUsed, Some(98_296.0 * MIB)),
            (Signal::MemUsedRatio, Some(0.5)),
            (Signal::Temp, Some(64.0)),
            (Signal::MemTemp, Some(58.0)),
            (Signal::Power, Some(650.0)),
            (Signal::Energy, Some(3.5e6)),
            (Signal::SmClock, Some(2.1e9)),
            (Signal::MemClock, Some(1.3e9)),
            (Signal::EccCorrected, Some(4.0)),
            (Signal::Health, Some(1.0)),
            (Signal::NvlinkTx, None),
        ],
    );
    assert_eq!(sick.pod, None);
    check(sick, &[(Signal::Power, None), (Signal::Health, Some(0.0))]);
    // xGMI counts kilobytes: the second page makes a rate of them.
    let mut rates = Rates::default();
    rates.fill(Moment::from_seconds(100), &mut read);
    check(&read.readings[1], &[(Signal::NvlinkTx, None)]);
    let later = include_str!("pages/amd.prom").replace("} 100000\n", "} 160000\n");
    let mut read = page(&later);
    rates.fill(Moment::from_seconds(130), &mut read);
    check(
        &read.readings[1],
        &[
            (Signal::NvlinkTx, Some(2.0 * 60_000.0 * 1024.0 / 30.0)),
            (Signal::NvlinkRx, Some(0.0)),
        ],
    );
    // A counter that fell has restarted.
    let mut read = page(include_str!("pages/amd.prom"));
    rates.fill(Moment::from_seconds(160), &mut read);
    check(&read.readings[1], &[(Signal::NvlinkTx, None)]);
}

#[test]
fn amd_sizes_in_million_bytes_and_in_bytes() {
    for (total, bytes) in [
        ("68702", 68_702e6),
        ("24560", 24_560.0 * MIB),
        ("206158430208", 206_158_430_208.0),
    ] {
        let read = page(&format!(
            "gpu_total_vram{{gpu_id=\"0\",hostname=\"a\"}} {total}\ngpu_used_vram{{gpu_id=\"0\",hostname=\"a\"}} 0\n"
        ));
        check(
            &read.readings[0],
            &[
                (Signal::MemTotal, Some(bytes)),
                (Signal::MemUsed, Some(0.0)),
            ],
        );
    }
}

#[test]
fn amd_partitions_are_slices_of_their_board() {
    let read = page(include_str!("pages/amd-cpx.prom"));
    let devices = of(&read, Scope::Device);
    assert_eq!(devices.len(), 2);
    assert_eq!(
        devices.iter().map(|one| one.index).collect::<Vec<_>>(),
        [Some(0), Some(4)]
    );
    assert_eq!(devices[0].uuid, None, "zeros are no id");
    assert_eq!(devices[1].serial.as_deref(), Some("S1"));
    check(
        devices[0],
        &[
            (Signal::Power, Some(500.0)),
            (Signal::Temp, Some(60.0)),
            (Signal::MemTotal, Some(4.0 * 24_560.0 * MIB)),
            (Signal::MemUsed, Some(4000.0 * MIB)),
        ],
    );
    check(devices[1], &[(Signal::Power, Some(504.0))]);
    let slices = of(&read, Scope::Slice);
    assert_eq!(slices.len(), 8);
    assert_eq!(slices[5].slice.as_deref(), Some("1"));
    assert_eq!(slices[5].index, Some(4), "its board's");
    assert_eq!(slices[5].pod, pod("hpc", "p-5"));
    check(
        slices[5],
        &[
            (Signal::Util, Some(0.2)),
            (Signal::Power, None),
            (Signal::Temp, None),
            (Signal::MemTotal, Some(24_560.0 * MIB)),
        ],
    );
    // Partitions that all call themselves 0 are still told apart.
    let same = include_str!("pages/amd-cpx.prom");
    let same = (1..4).fold(same.to_owned(), |text, at| {
        text.replace(
            &format!("gpu_partition_id=\"{at}\""),
            "gpu_partition_id=\"0\"",
        )
    });
    assert_eq!(of(&page(&same), Scope::Slice).len(), 8);
}

#[test]
fn amd_device_that_is_not_partitioned_has_no_slices() {
    for (kind, id) in [
        ("none", "NA"),
        ("none", "0"),
        ("SPX", "4294967295"),
        ("", "0"),
        ("dpx", "NA"),
    ] {
        let read = page(&format!(
            "gpu_used_vram{{card_model=\"\",gpu_compute_partition_type=\"{kind}\",gpu_id=\"0\",gpu_partition_id=\"{id}\",hostname=\"a\",serial_number=\"\",pod=\"\",namespace=\"\"}} 26\ngpu_edge_temperature{{gpu_id=\"0\",hostname=\"a\"}} 0\n"
        ));
        let [device] = &*read.readings else {
            panic!("{kind} {id}: {:?}", read.readings)
        };
        assert_eq!(
            (device.serial.as_ref(), device.model.as_ref()),
            (None, None)
        );
        check(
            device,
            &[(Signal::MemUsed, Some(26.0 * MIB)), (Signal::Temp, None)],
        );
    }
}

#[test]
fn tpu_chips_and_their_node_twins() {
    let read = page(include_str!("pages/tpu.prom"));
    assert_eq!(read.report.dialect.as_deref(), Some("tpu"));
    let chips = of(&read, Scope::Device);
    assert_eq!(chips.len(), 4);
    assert_eq!(
        chips.iter().map(|chip| chip.index).collect::<Vec<_>>(),
        [Some(0), Some(1), Some(2), Some(3)]
    );
    assert_eq!(chips[0].uuid.as_deref(), Some("77001122-0"));
    assert_eq!(chips[0].model.as_deref(), Some("tpu-v6e-slice"));
    assert_eq!(chips[1].pod, pod("pretrain", "slice-0-0"));
    check(
        chips[1],
        &[
            (Signal::Util, Some(0.9)),
            (Signal::TensorActive, Some(0.555)),
            (Signal::DramActive, Some(0.2)),
            (Signal::MemUsed, Some(1.6e10)),
            (Signal::MemTotal, Some(3.355_443_2e10)),
        ],
    );
    assert_eq!(chips[3].pod, None);
    check(
        chips[3],
        &[(Signal::Util, Some(0.0)), (Signal::TensorActive, None)],
    );
    let [node] = &*of(&read, Scope::Node) else {
        panic!()
    };
    check(
        node,
        &[
            (Signal::Util, Some(0.45)),
            (Signal::MemUsed, Some(3.2e10)),
            (Signal::MemTotal, Some(4.0 * 3.355_443_2e10)),
        ],
    );
    assert_eq!(of(&read, Scope::PodCopy).len(), 0, "twins are not copies");
    assert_eq!(read.report.series_skipped, 3);
}

#[test]
fn gke_gpu_and_tpu_are_distinguished_by_make() {
    let read = page(include_str!("pages/gke-gpu.prom"));
    assert_eq!(read.report.dialect.as_deref(), Some("gke-gpu"));
    let [busy, idle] = &*read.readings else {
        panic!()
    };
    assert_eq!(
        busy.uuid.as_deref(),
        Some("GPU-e0000000-0000-4000-8000-000000000000")
    );
    assert_eq!(busy.pod, pod("serve", "api-0"));
    check(
        busy,
        &[
            (Signal::Util, Some(0.35)),
            (Signal::MemUsedRatio, Some(1.0 / 3.0)),
        ],
    );
    assert_eq!(idle.pod, None);
    // Rows of another make on one page are another dialect's.
    let both = format!(
        "{}{}",
        include_str!("pages/tpu.prom"),
        include_str!("pages/gke-gpu.prom")
    );
    let target = PageSource {
        dialect: Some("gke-gpu"),
        ..PageSource::default()
    };
    assert_eq!(of(&page_of(&both, &target), Scope::Device).len(), 2);
}

#[test]
fn pages_that_are_no_metrics() {
    for (text, expected) in [
        ("", "starting"),
        ("# HELP a b\n\n", "starting"),
        ("<!DOCTYPE html><html>\n<body>404</body>", "HTML"),
        ("{\"kind\":\"Status\",\"code\":403}", "JSON"),
        ("\u{1f}\u{0}\u{1}\u{2}\u{3}\u{4}", "not text"),
        ("up 1\n", "no dialect knows these metrics"),
    ] {
        let read = page(text);
        assert_eq!(read.readings.len(), 0, "{text}");
        assert_eq!(read.report.starting, expected == "starting");
        assert!(
            read.report
                .messages
                .iter()
                .any(|message| message.contains(expected)),
            "{text}: {:?}",
            read.report.messages
        );
    }
    let gzip = [0x1f, 0x8b, 8, 0, 0, 0];
    let read = read(
        &Dialects::builtin(),
        &gzip,
        &PageSource::default(),
        &mut Names::default(),
    );
    assert!(
        read.report.messages[0].contains("gzip"),
        "{:?}",
        read.report
    );
}

#[test]
fn a_named_dialect_is_used_and_an_unknown_one_is_an_error() {
    let target = |dialect| PageSource {
        dialect: Some(dialect),
        ..PageSource::default()
    };
    let read = page_of("gpu_health{gpu_id=\"3\"} 1\n", &target("amd"));
    check(&read.readings[0], &[(Signal::Health, Some(1.0))]);
    let read = page_of("gpu_health{gpu_id=\"3\"} 1\n", &target("dgcm"));
    assert!(read.report.messages[0].contains("did you mean \"dcgm\""));
}

#[test]
fn other_exporters_of_like_names_are_left_alone() {
    for text in [
        "acme_gpu_power_usage{uuid=\"GPU-1\"} 60\n",
        "jetson_gpu_utilization{gpu=\"x\",gpu_uuid=\"GPU-1\"} 60\n",
        "node_gpu_total_vram 60\n",
    ] {
        assert_eq!(page(text).report.dialect, None, "{text}");
    }
}
