//! The exporter room: the dialects of Intel, AWS, nvidia-smi, all-smi and HAMi, each on a page of its own.

use exporter::{Dialects, HostRule, PageSource, ParsedPage, Rates, read};
use model::base::{Moment, Names, ObjectKey};
use model::fleet::reading::{Reading, ReadingScope};
use model::fleet::signal::Signal as S;

const GIB: f64 = 1_073_741_824.0;

fn page(text: &str) -> ParsedPage {
    read(
        &Dialects::builtin(),
        text.as_bytes(),
        &PageSource::default(),
        &mut Names::default(),
    )
}

/// A page that this dialect reads without complaint.
fn well(dialect: &str, text: &str) -> ParsedPage {
    let read = page(text);
    assert_eq!(read.report.dialect.as_deref(), Some(dialect));
    assert_eq!(read.report.messages, Vec::<String>::new());
    assert_eq!((read.report.bad_lines, read.report.duplicates), (0, 0));
    read
}

fn of(read: &ParsedPage, scope: ReadingScope) -> Vec<&Reading> {
    let all = read.readings.iter();
    all.filter(|reading| reading.scope == scope).collect()
}

/// The reading has exactly these signals, each within a billionth.
fn exactly(reading: &Reading, wanted: &[(S, f64)]) {
    let got: Vec<(S, f64)> = reading.signals.iter().collect();
    let mut wanted = wanted.to_vec();
    wanted.sort_by_key(|(signal, _)| *signal);
    let names = |all: &[(S, f64)]| all.iter().map(|(s, _)| s.name()).collect::<Vec<_>>();
    assert_eq!(names(&got), names(&wanted), "of {:?}", reading.index);
    for ((signal, got), (_, want)) in got.iter().zip(&wanted) {
        assert!(
            (got - want).abs() <= want.abs() * 1e-9,
            "{}: {got}, not {want}",
            signal.name()
        );
    }
}

fn pod(namespace: &str, name: &str) -> Option<ObjectKey> {
    Some(ObjectKey::new(namespace, name))
}

#[test]
fn xpum_takes_the_device_before_its_tiles_and_never_the_card() {
    let read = well("xpum", include_str!("pages/xpum.prom"));
    let [first, second] = &*read.readings else {
        panic!("{:?}", read.readings)
    };
    assert_eq!(first.host.as_deref(), Some("xpu-1"));
    assert_eq!(first.pci.as_deref(), Some("0000:29:00.0"));
    assert_eq!(
        first.model.as_deref(),
        Some("Intel(R) Data Center GPU Max 1550")
    );
    assert_eq!(first.pod, pod("nlp", "bert-0"));
    assert_eq!(first.container.as_deref(), Some("train"));
    exactly(
        first,
        &[
            (S::Util, 0.62),
            (S::SmActive, 0.25),
            (S::MemUsed, 5e10),
            (S::MemUsedRatio, 0.4),
            (S::MemTotal, 1.25e11),
            (S::Temp, 56.0),
            (S::MemTemp, 48.0),
            (S::Power, 412.5),
            (S::Energy, 123_456.789),
            (S::SmClock, 1.4e9),
            (S::EccCorrected, 3.0),
            (S::EccUncorrected, 0.0),
        ],
    );
    // Tiles alone: their mean. A share too small to divide by tells no total; no sensor reads 0.
    exactly(
        second,
        &[(S::Util, 0.2), (S::MemUsed, 1e8), (S::MemUsedRatio, 0.0008)],
    );
    assert_eq!(second.pod, None);
    assert_eq!(read.report.missing_values, 1);
}

#[test]
fn xpum_counters_make_rates() {
    let at = |seconds: i64| Moment::from_millis(seconds * 1000);
    let text = include_str!("pages/xpum.prom");
    let later = text
        .replace("} 5000\n", "} 6000\n")
        .replace("} 7000\n", "} 9000\n");
    let mut rates = Rates::default();
    let mut read = page(text);
    rates.fill(at(0), &mut read);
    assert_eq!(read.readings[0].signals.get(S::NvlinkTx), None);
    let mut read = page(&later);
    rates.fill(at(10), &mut read);
    assert_eq!(read.readings[0].signals.get(S::NvlinkTx), Some(300.0));
    assert_eq!(read.readings[0].signals.get(S::PcieRx), Some(0.0));
}

#[test]
fn an_xpum_error_page_is_no_fleet_without_devices() {
    let read = page("#nodata: failed to get devices (3)");
    assert!(read.report.starting);
    assert_eq!(read.readings, []);
}

#[test]
fn xpumd_sums_modules_and_takes_one_sensor() {
    let read = well("xpumd", include_str!("pages/xpumd.prom"));
    let [arc, max] = &*read.readings else {
        panic!("{:?}", read.readings)
    };
    assert_eq!((arc.index, max.index), (Some(0), Some(1)));
    assert_eq!(
        arc.uuid.as_deref(),
        Some("868011e2-0000-0000-0300-000000000000")
    );
    assert_eq!(
        arc.model.as_deref(),
        Some("Intel(R) Arc(TM) Pro B60 Graphics")
    );
    assert_eq!(
        (arc.serial.as_deref(), max.serial.as_deref()),
        (None, Some("LZXA0012"))
    );
    exactly(
        arc,
        &[
            // The busiest group that computes, whatever the group of all says; copies are no work.
            (S::Util, 0.98),
            (S::MemUsed, 8.0 * GIB),
            (S::MemTotal, 25_669_140_480.0),
            (S::MemUsedRatio, 0.334),
            (S::Temp, 66.0),
            (S::MemTemp, 70.0),
            (S::Power, 131.5),
            (S::Energy, 1234.5),
            (S::SmClock, 2.4e9),
            (S::EccUncorrected, 3.0),
            (S::Health, 0.0),
            (S::RecoveryAction, 1.0),
        ],
    );
    exactly(
        max,
        &[
            (S::Util, 0.375),
            (S::MemUsed, GIB),
            (S::MemTotal, 128.0 * GIB),
            (S::MemUsedRatio, 1.0 / 128.0),
            (S::Temp, 44.0),
            (S::Power, 310.0),
            (S::PowerLimit, 600.0),
            // A clock that is held back is no broken device.
            (S::Health, 1.0),
        ],
    );
}

#[test]
fn the_first_xpumd_names_devices_by_number() {
    let read = well(
        "xpumd",
        r#"hw_gpu_info{hw_id="1",hw_name="Intel(R) Graphics [0xe211]",pci_bdf="0000:2a:00.0",pci_vendor_id="8086"} 1
hw_power_watts{hw_id="1",hw_name="power-1",hw_sensor_location="gpu",pci_bdf="0000:2a:00.0"} 12
"#,
    );
    let [device] = &*read.readings else { panic!() };
    assert_eq!(device.index, Some(1));
    assert_eq!(device.uuid, None);
    assert_eq!(device.model.as_deref(), Some("Intel(R) Graphics [0xe211]"));
    exactly(device, &[(S::Power, 12.0)]);
    // Names of OpenTelemetry's that are not of a GPU are somebody else's.
    let other = page("hw_temperature_celsius{hw_id=\"cpu\"} 50\n");
    assert_eq!(other.report.dialect, None);
}

#[test]
fn gaudi_is_in_milliwatts_and_millijoules() {
    let read = well("gaudi", include_str!("pages/gaudi.prom"));
    let [busy, idle] = &*read.readings else {
        panic!("{:?}", read.readings)
    };
    assert_eq!(busy.host.as_deref(), Some("gaudi-7.example"));
    assert_eq!((busy.index, idle.index), (Some(0), Some(1)));
    assert_eq!(busy.serial.as_deref(), Some("AM11022334"));
    assert_eq!(busy.model.as_deref(), Some("HL2080"));
    assert_eq!(busy.driver.as_deref(), Some("1.21.0-c2a8e3c"));
    assert_eq!(
        (busy.pod.clone(), idle.pod.clone()),
        (pod("vision", "sd-xl-0"), None)
    );
    exactly(
        busy,
        &[
            (S::Util, 0.87),
            (S::MemUsed, 24.0 * GIB),
            (S::MemFree, 72.0 * GIB),
            (S::MemTotal, 96.0 * GIB),
            (S::MemUsedRatio, 0.25),
            (S::Temp, 58.0),
            (S::TempShutdown, 105.0),
            (S::Power, 415.0),
            (S::PowerLimit, 600.0),
            (S::Energy, 950_000.0),
            (S::SmClock, 1.65e9),
            (S::PcieReplay, 2.0),
            (S::EccCorrected, 0.0),
            (S::EccUncorrected, 1.0),
            (S::RemapPending, 1.0),
        ],
    );
    exactly(idle, &[(S::Util, 0.0)]);
}

#[test]
fn two_gaudi_nodes_on_one_page_share_no_host() {
    let two = "habanalabs_kube_info{node=\"a\"} 1\nhabanalabs_kube_info{node=\"b\"} 1\n\
               habanalabs_utilization{UUID=\"x-1\",id=\"0\"} 5\n";
    let read = page(two);
    assert_eq!(read.readings[0].host, None, "either of them");
}

#[test]
fn neuron_rolls_cores_up_and_knows_the_instance() {
    let read = well("neuron", include_str!("pages/neuron.prom"));
    let [node] = &*of(&read, ReadingScope::Node) else {
        panic!("{:?}", read.readings)
    };
    assert_eq!(node.host.as_deref(), Some("i-0aaa0bbb0ccc0ddd0"));
    exactly(node, &[(S::MemUsed, 6e9), (S::DeviceCount, 16.0)]);
    let [first, second, last] = &*of(&read, ReadingScope::Device) else {
        panic!("{:?}", read.readings)
    };
    assert_eq!(
        [first.index, second.index, last.index],
        [Some(0), Some(1), Some(15)]
    );
    for device in [first, second, last] {
        assert_eq!(device.host.as_deref(), Some("i-0aaa0bbb0ccc0ddd0"));
        assert_eq!(device.model.as_deref(), Some("trn1.32xlarge"));
    }
    let used = 1e8 + 2e7 + 5.325_234_872_32e9;
    exactly(
        first,
        &[
            (S::Util, 0.5),
            (S::MemUsed, used),
            (S::MemTotal, 32.0 * GIB),
            (S::MemUsedRatio, used / (32.0 * GIB)),
            (S::EccCorrected, 7.0),
            (S::EccUncorrected, 0.0),
        ],
    );
    assert_eq!(second.signals.get(S::Util), Some(0.5));
    // Nothing runs there: how busy it is, is not known; that it has memory and an error is.
    exactly(last, &[(S::MemTotal, 32.0 * GIB), (S::EccUncorrected, 1.0)]);
}

#[test]
fn older_neuron_monitors_do_not_say_how_many_cores_a_device_has() {
    let row = |instance: &str, kind: &str, core: u32, value: f64| {
        format!(
            "neuroncore_utilization_ratio{{instance_id=\"{instance}\",instance_type=\"{kind}\",neuroncore=\"{core}\",runtime_tag=\"1\"}} {value}\n"
        )
    };
    // One page of Prometheus, two instances of different make.
    let text: String = (0..4)
        .flat_map(|core| {
            [
                row("i-1", "inf1.xlarge", core, 0.25),
                row("i-2", "inf2.24xlarge", core, 0.75),
            ]
        })
        .collect();
    let read = page(&text);
    let shape: Vec<_> = read
        .readings
        .iter()
        .map(|one| (one.host.as_deref(), one.model.as_deref(), one.index))
        .collect();
    assert_eq!(
        shape,
        [
            (Some("i-1"), Some("inf1.xlarge"), Some(0)),
            (Some("i-2"), Some("inf2.24xlarge"), Some(0)),
            (Some("i-2"), Some("inf2.24xlarge"), Some(1)),
        ]
    );
    assert_eq!(read.readings[1].signals.get(S::Util), Some(0.75));
    let unknown = page(&row("i-3", "trn2.48xlarge", 5, 0.5));
    assert_eq!(unknown.readings[0].index, Some(5));
    assert!(unknown.report.messages[0].contains("how many cores"));
}

#[test]
fn nvidia_smi_joins_identity_and_profiles() {
    let read = well("nvidia-smi", include_str!("pages/nvidia-smi.prom"));
    let [whole, parent] = &*of(&read, ReadingScope::Device) else {
        panic!("{:?}", read.readings)
    };
    assert_eq!(
        whole.uuid.as_deref(),
        Some("GPU-1f2e3d4c-0000-4000-8000-00000000000a")
    );
    assert_eq!(whole.index, Some(0));
    assert_eq!(whole.model.as_deref(), Some("NVIDIA H200"));
    assert_eq!(whole.pci.as_deref(), Some("00000000:1B:00.0"));
    assert_eq!(whole.driver.as_deref(), Some("590.48.01"));
    assert_eq!(
        (whole.serial.as_deref(), parent.serial.as_deref()),
        (None, Some("1654925012345"))
    );
    exactly(
        whole,
        &[
            (S::Util, 0.42),
            (S::MemUsed, 7.067_402_24e8),
            (S::MemFree, 1.49e11),
            (S::MemTotal, 1.507_548_200_96e11),
            (S::MemUsedRatio, 7.067_402_24e8 / (7.067_402_24e8 + 1.49e11)),
            (S::Temp, 34.0),
            (S::TempMargin, -3.0),
            (S::Power, 128.07),
            (S::PowerLimit, 700.0),
            (S::Energy, 88_123.25),
            (S::SmClock, 1.98e9),
            (S::MemClock, 3.201e9),
            // The code that was seen last, not the one that stands last.
            (S::XidLast, 79.0),
            (S::EccCorrected, 1.0),
            (S::EccUncorrected, 2.0),
            (S::RemapFailed, 0.0),
            (S::RemapPending, 1.0),
            (S::ThrottleReasons, 4.0),
            (S::PowerViolation, 13.0),
            (S::RecoveryAction, 1.0),
        ],
    );
    let [middle, small] = &*of(&read, ReadingScope::Slice) else {
        panic!("{:?}", read.readings)
    };
    assert_eq!(middle.slice.as_deref(), Some("3g.71gb-2"));
    assert_eq!(small.slice.as_deref(), Some("1g.18gb-7"));
    exactly(middle, &[(S::Util, 0.35), (S::MemTotal, 71.0 * GIB)]);
    exactly(
        small,
        &[
            (S::Util, 0.7),
            (S::MemUsed, 1e9),
            (S::MemTotal, 1.8e10),
            (S::MemUsedRatio, 1.0 / 18.0),
        ],
    );
    exactly(
        parent,
        &[(S::Util, 0.35 * 3.0 / 7.0 + 0.7 / 7.0), (S::MemUsed, 3e9)],
    );
}

#[test]
fn a_uuid_of_zeros_still_groups_rows_of_one_device() {
    let zero = "00000000-0000-0000-0000-000000000000";
    let read = page(&format!(
        "nvidia_smi_utilization_gpu_ratio{{uuid=\"{zero}\"}} 0.5\n\
         nvidia_smi_gpu_info{{uuid=\"{zero}\",index=\"3\",name=\"NVIDIA L40S\"}} 1\n\
         nvidia_smi_power_draw_watts{{uuid=\"{zero}\"}} 90\n"
    ));
    let [device] = &*read.readings else {
        panic!("{:?}", read.readings)
    };
    assert_eq!(device.uuid, None);
    assert_eq!(device.index, Some(3));
    exactly(device, &[(S::Util, 0.5), (S::Power, 90.0)]);
}

#[test]
fn all_smi_covers_many_vendors() {
    let read = well("all-smi", include_str!("pages/all-smi.prom"));
    let [nvidia, gaudi] = &*of(&read, ReadingScope::Device) else {
        panic!("{:?}", read.readings)
    };
    assert_eq!(nvidia.host.as_deref(), Some("dgx-2"));
    assert_eq!(nvidia.driver.as_deref(), Some("550.54.15"));
    exactly(
        nvidia,
        &[
            (S::Util, 0.425),
            (S::SmOccupancy, 0.67),
            (S::MemUsed, 4.0 * GIB),
            (S::MemTotal, 80.0 * GIB),
            (S::MemUsedRatio, 0.05),
            (S::Temp, 44.0),
            (S::TempSlowdown, 87.0),
            (S::Power, 180.25),
            (S::PowerLimit, 400.0),
            (S::Energy, 8_430_000.125),
            (S::SmClock, 1.41e9),
        ],
    );
    // 0 degrees and 0 MHz are what older versions print for a sensor that is not there.
    assert_eq!(gaudi.model.as_deref(), Some("Intel Gaudi 3"));
    exactly(gaudi, &[(S::Util, 0.07)]);
    let [slice] = &*of(&read, ReadingScope::Slice) else {
        panic!()
    };
    assert_eq!(slice.slice.as_deref(), Some("1g.10gb-7"));
    assert_eq!(slice.signals.get(S::Util), Some(0.75));
}

#[test]
fn all_smi_through_prometheus_keeps_its_host() {
    // Prometheus put the scrape target's address into `instance` and moved the exporter's own aside; old label names.
    let read = page(
        "all_smi_gpu_utilization{gpu=\"NVIDIA L4\", instance=\"10.1.2.3:9090\", exported_instance=\"node-a\", uuid=\"GPU-9\", index=\"2\"} 50\n",
    );
    assert_eq!(read.readings[0].host.as_deref(), Some("node-a"));
    assert_eq!(read.readings[0].index, Some(2));
    let starting = page("all_smi_up 0\n");
    assert_eq!(starting.report.dialect.as_deref(), Some("all-smi"));
    assert_eq!(starting.readings, []);
}

#[test]
fn hami_rows_of_a_device_and_of_its_sharers_differ() {
    let read = well("hami", include_str!("pages/hami.prom"));
    let [device] = &*of(&read, ReadingScope::Device) else {
        panic!("{:?}", read.readings)
    };
    assert_eq!(device.host.as_deref(), Some("gpu-9"));
    assert_eq!(device.model.as_deref(), Some("NVIDIA A100-SXM4-80GB"));
    assert_eq!(device.pod, None);
    exactly(
        device,
        &[
            (S::Util, 0.93),
            (S::MemUsed, 56_366_661_632.0),
            (S::Temp, 61.0),
            (S::Power, 301.5),
            (S::EccCorrected, 2.0),
            (S::EccUncorrected, 0.0),
        ],
    );
    let [first, second] = &*of(&read, ReadingScope::PodCopy) else {
        panic!("{:?}", read.readings)
    };
    assert_eq!(first.pod, pod("dev", "notebook-a"));
    exactly(
        first,
        &[
            (S::Util, 1.0),
            (S::MemUsed, 287_244_288.0),
            (S::MemTotal, 3_145_728_000.0),
            (S::MemUsedRatio, 287_244_288.0 / 3_145_728_000.0),
        ],
    );
    assert_eq!(second.pod, pod("dev", "notebook-b"));
    exactly(second, &[(S::MemUsed, 1000.0)]);
}

#[test]
fn hami_under_its_first_names_and_its_scheduler() {
    let read = well(
        "hami",
        r#"Device_utilization_desc_of_container{ctrname="c",deviceuuid="GPU-1-a",podname="p",podnamespace="n",vdeviceid="0",zone="vGPU"} 99
HostCoreUtilization{deviceidx="1",deviceuuid="GPU-1-a",zone="vGPU"} 100
HostGPUMemoryUsage{deviceidx="1",deviceuuid="GPU-1-a",zone="vGPU"} 5.8484457472e+10
vGPU_device_memory_limit_in_bytes{ctrname="c",deviceuuid="GPU-1-a[0-2]",podname="p",podnamespace="n",vdeviceid="0",zone="vGPU"} 3.145728e+09
"#,
    );
    let [device] = &*of(&read, ReadingScope::Device) else {
        panic!("{:?}", read.readings)
    };
    assert_eq!(device.index, Some(1));
    exactly(device, &[(S::Util, 1.0), (S::MemUsed, 58_484_457_472.0)]);
    exactly(
        of(&read, ReadingScope::PodCopy)[0],
        &[(S::Util, 0.99), (S::MemTotal, 3_145_728_000.0)],
    );
    // The scheduler's page is of every node but its own.
    let read = well(
        "hami-scheduler",
        r#"hami_gpu_memory_limit_bytes{device_index="0",device_type="NVIDIA-Tesla T4",device_uuid="GPU-a",node="n1",zone="vGPU"} 1.610612736e+10
hami_gpu_memory_allocated_bytes{device_cores="100",device_index="0",device_type="NVIDIA-Tesla T4",device_uuid="GPU-a",node="n1",zone="vGPU"} 8e+09
hami_gpu_memory_limit_bytes{device_index="0",device_type="NVIDIA-Tesla T4",device_uuid="GPU-b",node="n2",zone="vGPU"} 1.610612736e+10
hami_vgpu_memory_allocated_bytes{container_index="0",device_uuid="GPU-b",namespace="ml",node="n2",pod="x",zone="vGPU"} 4e+09
hami_node_gpu_memory_allocated_ratio{device_index="0",device_uuid="GPU-a",node="n1",zone="vGPU"} 0.5
hami_gpu_core_allocated_ratio{device_index="0",device_type="NVIDIA-Tesla T4",device_uuid="GPU-a",node="n1",zone="vGPU"} 30
"#,
    );
    let hosts: Vec<_> = of(&read, ReadingScope::Device)
        .iter()
        .map(|one| (one.host.as_deref(), one.model.as_deref()))
        .collect();
    assert_eq!(
        hosts,
        [
            (Some("n1"), Some("Tesla T4")),
            (Some("n2"), Some("Tesla T4"))
        ]
    );
    for device in of(&read, ReadingScope::Device) {
        exactly(device, &[(S::MemTotal, 15.0 * GIB)]);
    }
    assert_eq!(of(&read, ReadingScope::PodCopy)[0].pod, pod("ml", "x"));
    let dialects = Dialects::builtin();
    assert_eq!(
        dialects.get("hami-scheduler").map(|one| one.host),
        Some(HostRule::Label)
    );
    assert_eq!(
        dialects.get("hami").map(|one| one.host),
        Some(HostRule::Target)
    );
}

#[test]
fn an_index_that_no_host_has_is_none() {
    let read = page(
        "nvidia_smi_gpu_info{uuid=\"a-1\",index=\"4294967295\",name=\"x\"} 1\nnvidia_smi_power_draw_watts{uuid=\"a-1\"} 5\n",
    );
    assert_eq!(read.readings[0].index, None);
}

#[test]
fn openmetrics_counters_and_exemplars_are_read() {
    let read = page(
        "# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION counter\n# UNIT x y\n\
         DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION_total{gpu=\"0\",UUID=\"GPU-1\"} 4500000 1.7634e9 # {trace=\"a\"} 3 1.7\n\
         DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION_created{gpu=\"0\",UUID=\"GPU-1\"} 1.7e9\n\
         DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-1\"} 12\n# EOF\n",
    );
    assert_eq!(read.report.bad_lines, 0);
    exactly(&read.readings[0], &[(S::Util, 0.12), (S::Energy, 4500.0)]);
    assert_eq!(
        read.report.newest,
        Some(Moment::from_millis(1_763_400_000_000))
    );
}
