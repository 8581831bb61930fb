//! What the compiler cannot say of the workspace: layers may use only the layers above them, pure layers may use no crate
//! that waits, and files stay short enough to read.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use toml::Table;

/// The layers in order: each may depend on those before it.
pub const LAYERS: &[&str] = &[
    "model", "ledger", "usage", "record", "exporter", "cluster", "settings", "engine", "plan",
    "source", "exec", "table", "console", "sim", "replay",
];
/// Layers beside the product: `cargo build` builds none of them, and no other crate needs one.
pub const BESIDE: &[&str] = &["replay"];
/// Layers that wait and talk. All others are pure.
const IMPURE: &[&str] = &["record", "source", "exec", "sim", "replay"];
/// Crates that wait, talk, read clocks or draw random numbers: not for a pure layer.
const WAITING: &[&str] = &[
    "tokio",
    "futures",
    "hyper",
    "hyper-util",
    "reqwest",
    "kube",
    "tower",
    "rustls",
    "rand",
    "signal-hook",
    "directories",
    "tracing",
];
/// Most lines of a file of the program, and of a file of tests, where tables of cases are long.
const MOST_LINES: usize = 600;
const MOST_TEST_LINES: usize = 800;

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn manifest(folder: &Path) -> Table {
    let path = folder.join("Cargo.toml");
    let text =
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.parse()
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn names(manifest: &Table, section: &str) -> BTreeSet<String> {
    let table = manifest.get(section).and_then(toml::Value::as_table);
    table
        .into_iter()
        .flat_map(|table| table.keys().cloned())
        .collect()
}

/// What a layer's manifest may not name.
fn misplaced(layer: &str, dependencies: &BTreeSet<String>) -> Vec<String> {
    let at = LAYERS
        .iter()
        .position(|other| *other == layer)
        .expect("a layer");
    let below = LAYERS[at..]
        .iter()
        .filter(|other| dependencies.contains(**other));
    let waiting = WAITING
        .iter()
        .filter(|name| !IMPURE.contains(&layer) && dependencies.contains(**name));
    let mut out: Vec<String> = below
        .chain(waiting)
        .map(|name| format!("{layer} depends on {name}"))
        .collect();
    if layer == "sim" {
        out.extend(
            LAYERS[1..at]
                .iter()
                .filter(|other| dependencies.contains(**other))
                .map(|name| format!("sim depends on {name}")),
        );
    }
    out
}

/// Packages of the workspace, by the folder in `src` where they are in one.
fn members(workspace: &Table, list: &str) -> BTreeSet<String> {
    let members = workspace["workspace"][list].as_array().expect("a list");
    let folder = |member: &toml::Value| {
        let path = member.as_str().expect("a path");
        path.trim_start_matches("src/").to_owned()
    };
    members.iter().map(folder).collect()
}

#[test]
fn layers_depend_only_on_layers_above_them_and_pure_ones_on_nothing_that_waits() {
    let workspace = manifest(root());
    // Beside the layers there is one crate of tests.
    let known = LAYERS.iter().chain(&["tests/fuzz"]);
    let known: BTreeSet<String> = known.map(|name| (*name).to_owned()).collect();
    assert_eq!(members(&workspace, "members"), known);
    let product = known.iter().filter(|name| !BESIDE.contains(&name.as_str()));
    let product = product.cloned().chain([".".to_owned()]);
    assert_eq!(members(&workspace, "default-members"), product.collect());
    let needed = names(&workspace, "dependencies");
    assert!(!BESIDE.iter().any(|name| needed.contains(*name)));
    for layer in LAYERS {
        let dependencies = names(&manifest(&root().join("src").join(layer)), "dependencies");
        assert_eq!(misplaced(layer, &dependencies), Vec::<String>::new());
    }
}

#[test]
fn the_layer_rule_sees_what_it_forbids() {
    let with = |name: &str| BTreeSet::from([name.to_owned()]);
    assert_eq!(misplaced("engine", &with("console")).len(), 1);
    assert_eq!(misplaced("engine", &with("engine")).len(), 1);
    assert_eq!(misplaced("engine", &with("tokio")).len(), 1);
    assert_eq!(misplaced("sim", &with("engine")).len(), 1);
    assert!(misplaced("engine", &with("model")).is_empty());
    assert!(misplaced("source", &with("tokio")).is_empty());
}

#[test]
fn pure_layers_are_linted_as_pure() {
    let pure =
        fs::read_to_string(root().join("src/.clippy-pure.toml")).expect("the lints of pure layers");
    for layer in LAYERS.iter().filter(|layer| !IMPURE.contains(layer)) {
        let own = fs::read_to_string(root().join("src").join(layer).join(".clippy.toml"));
        assert_eq!(
            own.ok().as_deref(),
            Some(pure.as_str()),
            "src/{layer}/.clippy.toml links to src/.clippy-pure.toml"
        );
    }
}

pub fn rust_files(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder that can be read") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            rust_files(&path, out);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            out.push(path);
        }
    }
}

#[test]
fn files_are_short_and_say_what_they_are() {
    let mut complaints = Vec::new();
    for (folder, most) in [("src", MOST_LINES), ("tests", MOST_TEST_LINES)] {
        let mut files = Vec::new();
        rust_files(&root().join(folder), &mut files);
        assert!(files.len() > 50, "{folder} was not read");
        for path in files {
            let text = fs::read_to_string(&path).expect("a text");
            let is_test = path.file_stem().is_some_and(|stem| {
                stem.to_string_lossy().starts_with("tests")
                    || path.components().any(|part| part.as_os_str() == "tests")
            });
            let lines = text.lines().count();
            if lines > if is_test { MOST_TEST_LINES } else { most } {
                complaints.push(format!("{}: {lines} lines", path.display()));
            }
            let is_case = path
                .components()
                .any(|part| part.as_os_str() == "compile_fail");
            if !is_case && !text.starts_with("//!") && !text.starts_with("#![doc") {
                complaints.push(format!("{}: does not begin with //!", path.display()));
            }
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// Dependencies of the workspace without a line that says why they are there.
fn unexplained(manifest: &str) -> Vec<String> {
    let section = manifest
        .split("[workspace.dependencies]\n")
        .nth(1)
        .unwrap_or_default();
    let section = section.split("\n[").next().unwrap_or_default();
    let (mut explained, mut out) = (false, Vec::new());
    for line in section.lines() {
        let is_layer = line.contains("path = \"src/");
        if line.contains('=') && !line.starts_with('#') && !explained && !is_layer {
            out.push(line.to_owned());
        }
        explained = line.starts_with('#');
    }
    out
}

#[test]
fn every_rule_of_the_page_on_security_names_a_test_that_exists() {
    let page = fs::read_to_string(root().join("docs/security.md")).expect("the page");
    let mut files = Vec::new();
    rust_files(&root().join("src"), &mut files);
    rust_files(&root().join("tests"), &mut files);
    let texts = files
        .iter()
        .map(|file| fs::read_to_string(file).expect("is text"));
    let all: String = texts.collect();
    let (mut named, mut in_rules) = (0, false);
    for line in page.lines() {
        in_rules = match line {
            "| rule | test |" => true,
            line => in_rules && line.starts_with('|'),
        };
        if !in_rules || line.starts_with("| rule") || line.starts_with("|-") {
            continue;
        }
        let cell = line.trim_end_matches(" |").rsplit(" | ").next();
        let names: Vec<&str> = cell
            .unwrap_or_default()
            .split('`')
            .skip(1)
            .step_by(2)
            .collect();
        assert!(!names.is_empty(), "a rule without a test: {line}");
        for name in names {
            assert!(
                all.contains(&format!("fn {name}(")),
                "no test is called {name}"
            );
            named += 1;
        }
    }
    assert!(named > 60, "{named}");
}

#[test]
fn every_dependency_says_why_it_is_here() {
    let text = fs::read_to_string(root().join("Cargo.toml")).expect("the manifest");
    assert_eq!(unexplained(&text), Vec::<String>::new());
    assert_eq!(
        unexplained(
            "[workspace.dependencies]\n# A reason.\na = \"1\"\nb = \"1\"\n\n[lints]\nc = 1\n"
        ),
        ["b = \"1\""]
    );
}

/// Where the console is told something whose effects are not carried out by `runtime::effects::deliver`.
fn lost_effects(file: &str, text: &str) -> Vec<String> {
    let most = usize::from(file == "effects.rs");
    let lines = text.lines().enumerate();
    let calls = lines.filter(|(_, line)| line.contains("app.update("));
    calls
        .skip(most)
        .map(|(at, _)| format!("{file}:{}: tell it by `desk::deliver`", at + 1))
        .collect()
}

#[test]
fn effects_are_carried_out_in_one_place() {
    let mut files = Vec::new();
    for folder in ["src/runtime", "src/cli"] {
        rust_files(&root().join(folder), &mut files);
    }
    assert!(files.len() > 20, "the program was not found");
    let mut lost = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).expect("a text");
        let name = file.file_name().and_then(|name| name.to_str());
        lost.extend(lost_effects(name.unwrap_or_default(), &text));
    }
    assert_eq!(lost, [] as [String; 0]);
    let code = "ui.app.update(msg);\napp.update(msg);\n";
    assert_eq!(lost_effects("ui.rs", code).len(), 2);
    assert_eq!(lost_effects("effects.rs", code).len(), 1);
}

/// Tests that are neither in `tests/process` nor in `tests/live` and need a terminal, a socket or a plugin: these wait in real time,
/// and say what happened, never how fast.
const REAL_TIME: &[&str] = &[
    "src/runtime/screen/terminal.rs",
    "tests/cli/receiver.rs",
    "tests/cli/watch.rs",
    "tests/fuzz/main.rs",
    "tests/fuzz/runner.rs",
    "tests/sim/serving.rs",
    "tests/source/login.rs",
    "tests/source/notify.rs",
    "tests/source/prometheus.rs",
    "tests/source/remote_write.rs",
    "tests/source/scrape.rs",
    "tests/source/simulated.rs",
    "tests/source/usage_hours.rs",
];

/// Folders of tests that run the program as a process.
const REAL: [&str; 2] = ["tests/live/", "tests/process/"];

/// Lines with which a test, or the program outside `runtime::clock`, follows this machine's clock.
fn real_time(file: &str, text: &str) -> Vec<String> {
    let is_test = file.starts_with("tests/");
    let reads = |line: &str| {
        let sleeps = line.contains("thread::sleep") && is_test;
        let std = line.contains("std::time::") && line.contains("Instant");
        let wall = line.contains("SystemTime::now") || line.contains("clock::shared(");
        let paused = !line.contains("#[tokio::test") || line.contains("start_paused = true");
        sleeps || std || wall || !paused
    };
    let lines = text.lines().enumerate();
    let found = lines.filter(|(_, line)| reads(line.trim_start()) && !line.contains("//"));
    found
        .map(|(at, line)| format!("{file}:{}: {}", at + 1, line.trim()))
        .collect()
}

#[test]
fn tests_and_the_program_take_their_time_from_one_clock_that_a_test_pauses() {
    let mut files = Vec::new();
    for folder in ["src", "tests"] {
        rust_files(&root().join(folder), &mut files);
    }
    let mut found = Vec::new();
    for path in files {
        let file = path.strip_prefix(root()).expect("of this workspace");
        let file = file.to_string_lossy().into_owned();
        let may = REAL_TIME.contains(&file.as_str())
            || REAL.iter().any(|folder| file.starts_with(folder))
            || [
                "src/runtime/clock.rs",
                "src/runtime/host.rs",
                "tests/repository/workspace.rs",
            ]
            .contains(&file.as_str());
        if !may {
            found.extend(real_time(
                &file,
                &fs::read_to_string(&path).expect("a text"),
            ));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    for planted in [
        "use std::time::{Duration, Instant};",
        "    std::thread::sleep(pause);",
        "let now = SystemTime::now();",
        "let clock = clock::shared();",
        "#[tokio::test]",
        "#[tokio::test(flavor = \"multi_thread\")]",
    ] {
        assert_eq!(real_time("tests/a.rs", planted).len(), 1, "{planted}");
    }
    let right = "#[tokio::test(start_paused = true)]\nuse tokio::time::Instant;\n";
    assert!(real_time("tests/a.rs", right).is_empty());
}

/// Lines with which a test starts a process.
fn processes(file: &str, text: &str) -> Vec<String> {
    let starts = |line: &str| line.contains("Command::new(") || line.contains("CARGO_BIN_EXE");
    let lines = text.lines().enumerate();
    let found = lines.filter(|(_, line)| starts(line));
    found
        .map(|(at, line)| format!("{file}:{}: {}", at + 1, line.trim()))
        .collect()
}

/// A process that is being started holds the files and locks of its parent for a moment, and starts when the machine likes: tests
/// of the program in process have none beside them.
#[test]
fn processes_are_started_by_one_target_of_at_most_25_tests_one_at_a_time() {
    let mut files = Vec::new();
    rust_files(&root().join("tests"), &mut files);
    let (mut found, mut tests) = (Vec::new(), 0);
    for path in files {
        let file = path.strip_prefix(root()).expect("of this workspace");
        let file = file.to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).expect("a text");
        if file.starts_with("tests/process/") {
            let all = text.match_indices("#[test]\n").map(|(at, _)| &text[at..]);
            for test in all {
                let body = test.split_once(" {\n").map_or("", |(_, body)| body);
                let name = test.lines().find(|line| line.starts_with("fn "));
                let is_long = test.starts_with("#[test]\n#[ignore");
                tests += usize::from(!is_long);
                let is_alone = body.trim_start().starts_with("let _alone = alone();");
                assert!(is_alone, "{file}: {name:?} runs beside others");
            }
            continue;
        }
        let may = file.starts_with("tests/live/")
            || file.starts_with("tests/repository/")
            // Credential plugins are processes; runs of one fuzz target are.
            || ["tests/source/login.rs", "tests/fuzz/main.rs"].contains(&file.as_str());
        if !may {
            found.extend(processes(&file, &text));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert!((1..=25).contains(&tests), "{tests} tests");
    let planted = "    let mut sh = Command::new(\"sh\");\n    env!(\"CARGO_BIN_EXE_stokehold\")\n";
    assert_eq!(processes("tests/a.rs", planted).len(), 2);
}

/// Where a process's streams and environment are read or written, and why.
const PROCESS: &[(&str, &str)] = &[
    ("src/runtime/host.rs", "the host of the process"),
    (
        "src/runtime/screen/terminal.rs",
        "the terminal that the console draws on",
    ),
    ("src/runtime/screen/ui.rs", "the same"),
    (
        "src/runtime/kubectl/shell.rs",
        "messages of kubectl, which has the terminal",
    ),
];

/// Lines with which a command uses the process's streams or environment, and not those that it was given.
fn of_process(file: &str, text: &str) -> Vec<String> {
    const FORBIDDEN: &[&str] = &[
        "env::var",
        "stdin()",
        "stdout()",
        "stderr()",
        "print!(",
        "println!(",
        "Host::of_process",
    ];
    let uses = |line: &str| {
        // `use_stderr()` of clap says where help belongs.
        let line = line.replace("use_stderr()", "");
        FORBIDDEN.iter().any(|word| line.contains(word))
    };
    let lines = text.lines().enumerate();
    let found = lines.filter(|(_, line)| uses(line.split("//").next().unwrap_or_default()));
    found
        .map(|(at, line)| format!("{file}:{}: {}", at + 1, line.trim()))
        .collect()
}

#[test]
fn commands_use_the_streams_and_the_environment_that_they_are_given() {
    let mut files = Vec::new();
    for folder in ["src/runtime", "src/cli"] {
        rust_files(&root().join(folder), &mut files);
    }
    assert!(files.len() > 50, "the program was not found");
    let mut found = Vec::new();
    let mut needed = BTreeSet::new();
    for path in files {
        let file = path.strip_prefix(root()).expect("of this workspace");
        let file = file.to_string_lossy().into_owned();
        let uses = of_process(&file, &fs::read_to_string(&path).expect("a text"));
        match PROCESS.iter().find(|(known, _)| *known == file) {
            Some(_) if !uses.is_empty() => {
                needed.insert(file);
            }
            Some(_) => {}
            None => found.extend(uses),
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    // A file that no longer needs its place in the list leaves it.
    assert_eq!(needed.len(), PROCESS.len(), "{needed:?}");
    for planted in [
        "let term = std::env::var(\"TERM\");",
        "let zones = env::var_os(\"TZDIR\");",
        "let all = std::env::vars();",
        "io::stdin().read_line(&mut text)",
        "let out = &mut std::io::stdout();",
        "    write!(io::stderr(), \"x\")?;",
        "println!(\"x\");",
        "    eprintln!(\"x\");",
        "eprint!(\"x\");",
        "run_on(Host::of_process(), &arguments, out, err)",
    ] {
        assert_eq!(of_process("src/cli/a.rs", planted).len(), 1, "{planted}");
    }
    let right = "writeln!(out, \"x\")?;\nhost.variable(\"TERM\");\nhost.input.lock();\nerror.use_stderr();\n// stdout()\n";
    assert!(of_process("src/cli/a.rs", right).is_empty());
}
