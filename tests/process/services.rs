//! `record`, `watch` and `export` as services: started with the units and manifests in `config/`, and what they answer to probes.

use super::manifest::object;
use super::simulated::Sim;
use super::{Home, Running, alone, ask, text, until};

/// The arguments of a systemd unit, without the program.
fn of_unit(unit: &str) -> Vec<String> {
    let start = unit
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart=/usr/bin/stokehold "));
    let words = start.expect("starts it").split(' ');
    words.map(str::to_owned).collect()
}

/// The arguments of a manifest's container.
fn of_manifest(manifest: &str) -> Vec<String> {
    let arguments = &object(manifest, "Deployment")["spec"]["template"]["spec"]["containers"][0];
    serde_json::from_value(arguments["args"].clone()).expect("are words")
}

/// Started with these arguments, in the place of the service's own folders and ports with ours.
fn started(home: &Home, arguments: &[String], more: &[&str]) -> Running {
    let folder = home.path("state").display().to_string();
    let own = arguments.iter().map(|argument| {
        argument
            .replace("%S/stokehold-watch", &folder)
            .replace("%S/stokehold", &folder)
            .replace("/record", &folder)
            .replace("/state", &folder)
            .replace(":9843", ":0")
            .replace(":9844", ":0")
            .replace("0.0.0.0", "127.0.0.1")
    });
    let all: Vec<String> = own
        .chain(more.iter().map(|word| (*word).to_owned()))
        .collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    Running::start(home, &all)
}

const DEMO: [&str; 5] = ["--demo", "--nodes", "12", "--speed", "60"];

/// True where each of these begins a line of the metrics that are served here, of which there are not too many.
fn serves(address: &str, wanted: &[&str]) -> bool {
    let (code, page) = ask(address, "GET /metrics");
    assert_eq!(code, 200);
    let samples = page.lines().filter(|line| line.starts_with("stokehold_"));
    assert!(samples.count() <= 2_000);
    let mut wanted = wanted.iter();
    wanted.all(|start| page.lines().any(|line| line.starts_with(start)))
}

#[test]
fn a_recorder_is_ready_once_it_writes() {
    let _alone = alone();
    let home = Home::new();
    let manifest = include_str!("../../config/kubernetes/record.yaml");
    let mut recorder = started(&home, &of_manifest(manifest), &DEMO);
    assert!(recorder.line().starts_with("recording demo into "));
    let address = recorder.address("serves http://");
    assert_eq!(ask(&address, "GET /healthz"), (200, "ok\n".to_owned()));
    until("a recorder that is ready", || {
        ask(&address, "GET /readyz").0 == 200
    });
    let (code, metrics) = ask(&address, "GET /metrics");
    assert_eq!(code, 200);
    let value = |name: &str| -> f64 {
        let found = metrics.lines().find_map(|line| line.strip_prefix(name));
        let value = found.unwrap_or_else(|| panic!("{name}: {metrics}"));
        value.trim().parse().expect("a number")
    };
    assert_eq!(value("stokehold_record_up "), 1.0);
    assert!(value("stokehold_record_bytes_total ") > 0.0);
    assert!(value("stokehold_record_last_write_timestamp_seconds ") > 0.0);
    // Beside its own metrics stand those of the fleet, once there is a picture.
    let wanted = [
        "stokehold_usage_cost_usd_total{cluster=\"demo\",recorder=",
        "stokehold_devices{cluster=",
        "stokehold_queue_used_devices{cluster=",
    ];
    until("metrics of the fleet", || serves(&address, &wanted));
    assert_eq!(ask(&address, "DELETE /metrics").0, 405);
    assert_eq!(ask(&address, "GET /etc/passwd").0, 404);
    // Its address is taken.
    let taken = home.run(&["record", "--demo", "--listen", &address, "--dir", "other"]);
    assert_eq!(taken.status.code(), Some(1));
    let message = text(&taken.stderr);
    assert!(message.contains("--listen 127.0.0.1:"), "{message}");
}

#[test]
fn units_and_manifests_start_the_services() {
    let _alone = alone();
    let home = Home::new();
    let unit = of_unit(include_str!(
        "../../config/systemd/stokehold-record.service"
    ));
    let mut recorder = started(&home, &unit, &DEMO);
    assert!(recorder.line().starts_with("recording demo into "));
    let address = recorder.address("serves http://");
    assert_eq!(ask(&address, "HEAD /healthz"), (200, String::new()));

    let manifest = include_str!("../../config/kubernetes/watch.yaml");
    let unit = of_unit(include_str!("../../config/systemd/stokehold-watch.service"));
    let settings = &object(manifest, "ConfigMap")["data"]["stokehold.toml"];
    for arguments in [unit, of_manifest(manifest)] {
        let home = Home::new();
        let sim = Sim::start(&home, "kubeconfig");
        home.settings(settings.as_str().expect("is text"));
        let mut watcher = started(&home, &arguments, &["--kubeconfig", &sim.kubeconfig]);
        let watching = watcher.line();
        let receivers =
            "sends findings to alertmanager (alertmanager), chat (slack); ctrl-c ends it";
        assert!(watching.ends_with(receivers), "{watching}");
        let answers = watcher.line();
        let paths = "/healthz, /readyz and /metrics";
        assert!(answers.contains(paths), "{answers}");
    }
}

#[test]
fn export_serves_the_metrics_of_a_recorder_and_writes_nothing() {
    let _alone = alone();
    let home = Home::new();
    let listen = ["export", "--listen", "127.0.0.1:0"];
    let mut export = Running::start(&home, &[&listen[..], &DEMO].concat());
    let address = export.address("serves metrics of demo at http://");
    let wanted = [
        "stokehold_usage_cost_usd_total{cluster=\"demo\",recorder=",
        "stokehold_devices{cluster=",
        "stokehold_queue_used_devices{cluster=",
        "stokehold_source_age_seconds{cluster=",
        "stokehold_export_up 1",
    ];
    until("metrics of the fleet", || serves(&address, &wanted));
    assert_eq!(ask(&address, "GET /readyz").0, 200);
    drop(export);
    assert!(!home.path(".local").exists(), "nothing is kept");
    let other = home.run(&["export", "--nodes", "3"]);
    assert_eq!(other.status.code(), Some(2));
}
