//! The program as a shell calls it: exit codes, settings files, exporter pages, pipes that break.

mod accounts;
mod budgets;
mod cells;
mod complete;
pub mod frames;
mod heatmap;
mod manifest;
mod profiles;
mod receiver;
mod recorded;
mod remembered;
mod rights;
mod savings;
mod served;
mod services;
mod simulated;
mod steady;
mod unobserved;
mod usage;
mod usage_prometheus;
mod watch;
mod written;

use std::fs;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::exec::command_line::{Ended, Machine};

/// A home of its own, so that nothing of this machine's user counts.
pub struct Home {
    folder: TempDir,
    machine: Machine,
}

impl Home {
    pub fn new() -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        let machine = Machine::new(folder.path());
        Self { folder, machine }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("has a folder")).expect("can be made");
        fs::write(&path, text).expect("can be written");
        path
    }

    fn settings(&self, text: &str) -> PathBuf {
        self.write("config/stokehold/stokehold.toml", text)
    }

    /// Runs the program in this process.
    fn run(&self, arguments: &[&str]) -> Output {
        self.run_with(&[], arguments)
    }

    /// The same with these environment variables.
    fn run_with(&self, variables: &[(&str, &str)], arguments: &[&str]) -> Output {
        output(self.machine.run_with(variables, arguments))
    }

    /// The same with this text on standard input.
    fn run_with_input(&self, input: &str, arguments: &[&str]) -> Output {
        output(self.machine.run_with_input(input, arguments))
    }
}

fn output(ended: Ended) -> Output {
    Output {
        status: ExitStatus::from_raw(i32::from(ended.code) << 8),
        stdout: ended.out.into_bytes(),
        stderr: ended.err.into_bytes(),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("is text")
}

const PAGE: &str = "\
# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-a\",device=\"nvidia0\",modelName=\"NVIDIA L4\",Hostname=\"n1\",container=\"c\",namespace=\"nlp\",pod=\"train-0\"} 42
DCGM_FI_DEV_GPU_UTIL{gpu=\"1\",UUID=\"GPU-b\",device=\"nvidia1\",modelName=\"NVIDIA L4\",Hostname=\"n1\"} 0
DCGM_FI_DEV_GPU_TEMP{gpu=\"0\",UUID=\"GPU-a\",device=\"nvidia0\",modelName=\"NVIDIA L4\",Hostname=\"n1\",container=\"c\",namespace=\"nlp\",pod=\"train-0\"} 61
this line is broken
";

#[test]
fn version_help_and_wrong_use_have_their_codes() {
    let home = Home::new();
    assert_eq!(home.run(&["--version"]).status.code(), Some(0));
    let help = home.run(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    assert!(text(&help.stdout).contains("Usage: stokehold"));
    let wrong = home.run(&["get", "jbos"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("jobs"));
    assert!(wrong.stdout.is_empty());
    let unused = home.run(&["shot", "fleet", "--seed", "3"]);
    assert_eq!(unused.status.code(), Some(2));
    assert!(text(&unused.stderr).contains("need --demo"));
}

#[test]
fn a_misspelt_setting_is_refused_by_every_command_that_needs_settings() {
    let home = Home::new();
    let path = home.settings("theme = \"ember\"\n\n[scrape]\nmod = \"proxy\"\n");
    let expected = format!(
        "stokehold: {}:4: scrape.mod: unknown key `mod`; did you mean `mode`?\n",
        path.display()
    );
    for arguments in [
        &["config", "print"][..],
        &["config", "validate"],
        &["get", "pools"],
        &["exporter", "list"],
        &["demo", "--for", "1s"],
    ] {
        let output = home.run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert_eq!(text(&output.stderr), expected, "{arguments:?}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
    // Where they are is told all the same.
    let output = home.run(&["config", "path"]);
    assert!(text(&output.stdout).contains(&path.display().to_string()));
}

#[test]
fn settings_say_where_they_come_from() {
    let home = Home::new();
    let path = home.settings("refresh = \"3s\"\n[context.prod]\ntheme = \"ash\"\n");
    let kubeconfig = home.write(
        "kubeconfig",
        "apiVersion: v1\nkind: Config\ncurrent-context: prod\ncontexts: []\nclusters: []\nusers: []\n",
    );
    let kubeconfig = kubeconfig.display().to_string();
    let variables = [
        ("KUBECONFIG", kubeconfig.as_str()),
        ("STOKEHOLD_SCRAPE_PER_SECOND", "5"),
    ];
    let output = home.run_with(&variables, &["config", "print", "--ascii"]);
    let text = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0));
    let line = |start: &str| {
        let line = text.lines().find(|line| line.starts_with(start));
        line.unwrap_or_else(|| panic!("no {start} in {text}"))
    };
    assert!(line("refresh = \"3s\"").ends_with(&format!("# {}:1", path.display())));
    assert!(line("theme = \"ash\"").ends_with(&format!("# {}:3", path.display())));
    assert!(line("scrape.per_second = 5").ends_with("# STOKEHOLD_SCRAPE_PER_SECOND"));
    assert!(line("ascii = true").ends_with("# --ascii"));
    assert!(line("idle.grace = \"15m\"").ends_with("# default"));
}

#[test]
fn files_that_settings_name_are_checked_too() {
    let home = Home::new();
    home.settings("prices.files = [\"mine.toml\"]\n");
    let output = home.run(&["config", "validate"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("there is no file"),
        "{}",
        text(&output.stderr)
    );
    home.write(
        "config/stokehold/mine.toml",
        "provider = \"mine\"\nschemas = []\n",
    );
    let output = home.run(&["config", "validate"]);
    let errors = text(&output.stderr);
    assert!(
        errors.contains("mine.toml:2: schemas: unknown key `schemas`; did you mean `schemes`?"),
        "{errors}"
    );
    home.write("config/stokehold/mine.toml", "provider = \"mine\"\n");
    let output = home.run_with(&[("STOKEHOLD_THEEM", "x")], &["config", "validate"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("did you mean STOKEHOLD_THEME?"));
    let output = home.run(&["config", "validate"]);
    assert!(text(&output.stdout).ends_with("stokehold.toml: ok\n"));
    let other = home.write("other.toml", "wriet = true\n");
    let output = home.run(&["config", "validate", &other.display().to_string()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr)
            .contains("other.toml:1: wriet: unknown key `wriet`; did you mean `write`?")
    );
}

fn rows(output: &Output) -> Vec<Value> {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("is a JSON array")
}

#[test]
fn a_page_is_read_from_a_file_standard_input_or_gzip() {
    let home = Home::new();
    let file = home.write("page.txt", PAGE).display().to_string();
    let by_file = home.run(&["exporter", "read", &file, "-o", "json"]);
    let found = rows(&by_file);
    assert!(
        text(&by_file.stderr).contains("1 bad lines"),
        "{}",
        text(&by_file.stderr)
    );
    let busy = found
        .iter()
        .find(|row| row["uuid"] == "GPU-a" && row["slice"].is_null())
        .expect("has a row");
    assert_eq!(busy["dialect"], "dcgm");
    assert_eq!(
        (&busy["namespace"], &busy["pod"]),
        (&"nlp".into(), &"train-0".into())
    );
    assert_eq!(
        (&busy["index"], &busy["model"]),
        (&0.into(), &"NVIDIA L4".into())
    );
    assert_eq!(busy["signals"]["util_ratio"], 0.42);
    assert_eq!(busy["signals"]["temp_celsius"], 61.0);
    let idle = found
        .iter()
        .find(|row| row["uuid"] == "GPU-b")
        .expect("has a row");
    assert_eq!(
        (&idle["pod"], &idle["signals"]["temp_celsius"]),
        (&Value::Null, &Value::Null)
    );

    let by_input = home.run_with_input(PAGE, &["exporter", "read", "-", "-o", "json"]);
    assert_eq!(rows(&by_input), found);

    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(PAGE.as_bytes()).expect("memory takes it");
    let file = home.write("page.gz", packed.finish().expect("memory takes it"));
    let by_gzip = home.run(&[
        "exporter",
        "read",
        &file.display().to_string(),
        "-o",
        "json",
    ]);
    assert_eq!(rows(&by_gzip), found);

    let table = home.run(&["exporter", "read", &file.display().to_string()]);
    let lines: Vec<String> = text(&table.stdout).lines().map(str::to_owned).collect();
    assert!(lines[0].starts_with("NODE"), "{lines:?}");
    assert!(
        lines
            .iter()
            .any(|line| line.contains("42%") && line.ends_with("nlp/train-0")),
        "{lines:?}"
    );
}

#[test]
fn a_page_comes_over_http_and_its_refusals_have_their_codes() {
    let serve = |status: &'static str, body: &'static str| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!(
            "http://{}/metrics",
            listener.local_addr().expect("is bound")
        );
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("is asked");
            let mut asked = [0; 2048];
            let _ = stream.read(&mut asked);
            let head = format!(
                "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all((head + body).as_bytes());
        });
        url
    };
    let home = Home::new();
    let output = home.run(&["exporter", "read", &serve("200 OK", PAGE), "-o", "json"]);
    assert!(rows(&output).iter().any(|row| row["uuid"] == "GPU-a"));
    let refused = home.run(&["exporter", "read", &serve("403 Forbidden", "no")]);
    assert_eq!(refused.status.code(), Some(3));
    assert!(text(&refused.stderr).contains("403"));
    let unreachable = home.run(&["exporter", "read", "http://127.0.0.1:1/metrics"]);
    assert_eq!(
        unreachable.status.code(),
        Some(4),
        "{}",
        text(&unreachable.stderr)
    );
}

#[test]
fn pages_that_are_none_say_so() {
    let home = Home::new();
    let missing = home.run(&["exporter", "read", "nowhere.txt"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).contains("nowhere.txt"));
    for (name, bytes) in [
        ("other.txt", b"some_metric{a=\"b\"} 1\n".to_vec()),
        ("binary", (0..=255u8).cycle().take(4096).collect()),
        (
            "page.html",
            b"<html><body>401 \x1b[2J</body></html>\n".to_vec(),
        ),
        ("short.gz", vec![0x1f, 0x8b, 8, 0, 0, 0]),
    ] {
        let file = home.write(name, bytes).display().to_string();
        let output = home.run(&["exporter", "read", &file, "-o", "json"]);
        assert_eq!(output.status.code(), Some(1), "{name}");
        assert!(
            text(&output.stderr).contains(name),
            "{name}: {}",
            text(&output.stderr)
        );
        assert!(!output.stderr.contains(&0x1b), "{name}");
    }
    let dialect = home.run(&["exporter", "read", "-", "--dialect", "dgcm"]);
    assert_eq!(dialect.status.code(), Some(2));
    assert!(text(&dialect.stderr).contains("dcgm"));
}

#[test]
fn dialects_of_ones_own_are_listed() {
    let home = Home::new();
    let list = text(&home.run(&["exporter", "list"]).stdout);
    for name in ["dcgm", "amd", "tpu"] {
        assert!(list.lines().any(|line| line.starts_with(name)), "{list}");
    }
    home.settings("exporters_dir = \"exporters\"\n");
    home.write("config/stokehold/exporters/mine.toml", "nmae = \"mine\"\n");
    let output = home.run(&["exporter", "list"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("mine.toml"),
        "{}",
        text(&output.stderr)
    );
}

/// True for a line that only tells how far a first look has come, as it does after a second.
fn is_progress(line: &str) -> bool {
    line.starts_with("stokehold: listing: ")
        || (line.starts_with("stokehold: readings: ") && line.ends_with(" exporters"))
}

#[test]
fn every_schema_is_printed_by_its_name() {
    let home = Home::new();
    let names = text(&home.run(&["schema"]).stdout);
    assert!(names.lines().any(|name| name == "plan"), "{names}");
    for name in names.lines() {
        let printed = home.run(&["schema", name]);
        assert!(printed.status.success(), "{name}");
        let schema: Value = serde_json::from_slice(&printed.stdout).expect("is JSON");
        assert_eq!(Some(schema), table::schemas::schema(name), "{name}");
    }
    assert_eq!(home.run(&["schema", "nothing"]).status.code(), Some(2));
}
