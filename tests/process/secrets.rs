//! Credentials that are planted everywhere and found nowhere: not in what is printed, logged at the most talkative level,
//! recorded, journaled, drawn or kept.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::link::Link;
use super::simulated::Sim;
use super::{Home, alone, text};

/// What stands in the file of a bearer token, in a proxy's address and in the environment of a credential plugin.
const PLANTED: [&str; 3] = [
    "planted-bearer-5b1f0d",
    "planted-password-77c2",
    "planted-environment-91aa",
];

/// Every file below a folder.
fn files(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => files(&path, out),
            false => out.push(path),
        }
    }
}

/// The tokens of a kubeconfig.
fn tokens(kubeconfig: &str) -> Vec<String> {
    let text = fs::read_to_string(kubeconfig).expect("is there");
    let lines = text.lines().map(str::trim);
    lines
        .filter_map(|line| line.strip_prefix("token: ").map(str::to_owned))
        .collect()
}

#[test]
fn planted_credentials_are_in_no_log_journal_record_picture_or_output() {
    let _alone = alone();
    let home = Home::new();
    let sim = Sim::start(&home, "kubeconfig");
    let prometheus = &sim.prometheus;
    let tokens = tokens(&sim.kubeconfig);
    assert_eq!(tokens.len(), 4);
    let bearer = home.write("bearer", PLANTED[0]);
    home.settings(&format!(
        "[prometheus]\nurl = \"{prometheus}\"\nbearer_file = \"{}\"\n",
        bearer.display()
    ));
    // The same cluster by way of a plugin.
    let credential = format!(
        r#"{{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{{"token":"{}"}}}}"#,
        tokens[0]
    );
    // The shell reads it: a file that was just written cannot be executed while a process that another test started
    // meanwhile still has it open for writing.
    let plugin = home.write("plugin", format!("echo '{credential}'\n"));
    let direct = fs::read_to_string(&sim.kubeconfig).expect("is there");
    let exec = format!(
        "exec:\n      apiVersion: client.authentication.k8s.io/v1\n      interactiveMode: Never\n      command: /bin/sh\n      args: [\"{}\"]\n      env:\n      - name: CLOUD_SECRET\n        value: {}",
        plugin.display(),
        PLANTED[2]
    );
    let by_plugin = direct.replacen(&format!("token: {}", tokens[0]), &exec, 1);
    assert_ne!(by_plugin, direct);
    let by_plugin = home.write("by-plugin", by_plugin).display().to_string();

    let mut printed = Vec::new();
    let mut run = |arguments: &[&str]| {
        let mut command = home.command(arguments);
        command
            .args(["--log-file", "log"])
            .env("STOKEHOLD_LOG", "trace");
        let output = command.output().expect("can be run");
        printed.extend_from_slice(&output.stdout);
        printed.extend_from_slice(&output.stderr);
        output
    };
    let nodes = run(&["get", "nodes", "-o", "name", "--kubeconfig", &by_plugin]);
    assert_eq!(nodes.status.code(), Some(0), "{}", text(&nodes.stderr));
    let node = text(&nodes.stdout)
        .lines()
        .next()
        .expect("a node")
        .to_owned();
    let name = node.rsplit('/').next().expect("a name").to_owned();
    for arguments in [
        &["get", "pods", "-o", "json", "--kubeconfig", &sim.kubeconfig][..],
        &["get", "devices", "-o", "csv", "--kubeconfig", &by_plugin],
        &["doctor", "--kubeconfig", &by_plugin],
        &["config", "print"],
        &[
            "get",
            "nodes",
            "--kubeconfig",
            &sim.kubeconfig,
            "--context",
            "sim-nobody",
        ],
    ] {
        run(arguments);
    }
    // Nothing listens there: what fails is told.
    let address = format!(
        "    proxy-url: http://user:{}@127.0.0.1:9\n    server: ",
        PLANTED[1]
    );
    let behind_proxy = direct.replacen("    server: ", &address, 1);
    assert_ne!(behind_proxy, direct);
    let behind_proxy = home
        .write("behind-proxy", behind_proxy)
        .display()
        .to_string();
    let proxied = run(&["get", "nodes", "--kubeconfig", &behind_proxy]);
    assert_ne!(proxied.status.code(), Some(0));
    let cordon = run(&[
        "plan",
        "cordon",
        &name,
        "--kubeconfig",
        &by_plugin,
        "--context",
        "sim-admin",
        "--write",
        "--yes",
        "--reason",
        "a test",
        "--apply",
    ]);
    assert_eq!(cordon.status.code(), Some(0), "{}", text(&cordon.stderr));

    // The console: it records, saves a picture, opens an object and its log.
    let variables = [
        ("XDG_CONFIG_HOME", home.path("config").display().to_string()),
        ("STOKEHOLD_LOG", "trace".to_owned()),
        ("STOKEHOLD_RECORD_ENABLED", "true".to_owned()),
        (
            "STOKEHOLD_RECORD_DIR",
            home.path("record").display().to_string(),
        ),
    ];
    let variables: Vec<(&str, &str)> = variables
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    let log = home.path("console.log").display().to_string();
    let arguments = [
        "--kubeconfig",
        &by_plugin,
        "--context",
        "sim-admin",
        "--log-file",
        &log,
    ];
    let mut link = Link::start_with(&arguments, &variables);
    link.until(" live ");
    for keys in ["6", "y", "\u{1b}", "\u{13}", "3", "l", "\u{1b}"] {
        link.keys(keys);
        link.read(Duration::from_millis(400), 65_536);
        printed.extend_from_slice(link.text().as_bytes());
    }
    link.keys("q");
    link.end();

    let mut all = Vec::new();
    files(&home.path(""), &mut all);
    files(link.home.path(), &mut all);
    let own = [
        "kubeconfig",
        "by-plugin",
        "behind-proxy",
        "plugin",
        "bearer",
    ]
    .map(|name| home.path(name));
    all.retain(|path| !own.contains(path));
    let named = |end: &str| all.iter().any(|path| path.to_string_lossy().ends_with(end));
    for kept in ["journal.jsonl", ".segment", "/log", "console.log", ".svg"] {
        assert!(named(kept), "no {kept} was kept: {all:?}");
    }
    let secrets = tokens.iter().map(String::as_str).chain(PLANTED);
    for secret in secrets {
        for shape in [secret.to_owned(), STANDARD.encode(secret)] {
            let holds = |bytes: &[u8]| {
                bytes
                    .windows(shape.len())
                    .any(|part| part == shape.as_bytes())
            };
            assert!(!holds(&printed), "{shape} was printed");
            for path in &all {
                let bytes = fs::read(path).expect("can be read");
                assert!(!holds(&bytes), "{shape} stands in {}", path.display());
            }
        }
    }
    // What is kept is its owner's alone.
    for path in all {
        let mode = fs::metadata(&path).expect("is there").permissions().mode() & 0o777;
        let is_settings = path.ends_with("stokehold.toml");
        assert!(
            is_settings || mode & 0o077 == 0,
            "{} {mode:o}",
            path.display()
        );
    }
}
