//! Keeps the house tidy: layers, purity, clocks, sizes, names, words. Each rule is a function over text, and each is
//! also fed a text that breaks it, so that a rule which sees nothing is found out.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The rooms in layer order: a room may use itself and those before it.
const ROOMS: &[&str] = &[
    "base", "fleet", "cost", "engine", "exporter", "cluster", "settings", "grant", "action",
    "report", "console", "sim", "source", "exec", "govern", "runtime", "cli",
];
/// Rooms without async, clock, I/O or global state. Of `sim` only its world is.
const PURE: &[&str] = &[
    "base",
    "fleet",
    "cost",
    "engine",
    "exporter",
    "cluster",
    "settings",
    "grant",
    "action",
    "report",
    "console",
    "sim/world",
];
/// What a pure room must not name.
const IMPURE: &[&str] = &[
    "async",
    "await",
    "tokio",
    "reqwest",
    "hyper",
    "std::fs",
    "std::env",
    "std::net",
    "std::process",
    "std::thread",
    "println",
    "eprintln",
    "Mutex",
    "RwLock",
    "OnceLock",
    "thread_local",
    "kube::Client",
];
/// Reads of a clock, allowed in `runtime` only.
const CLOCKS: &[&str] = &[
    "SystemTime::now",
    "Instant::now",
    "Timestamp::now",
    "Zoned::now",
    "SystemTime::elapsed",
];
/// Words that say nothing about a type.
const EMPTY_SUFFIXES: &[&str] = &[
    "Manager", "Helper", "Helpers", "Handler", "Util", "Utils", "Info", "Data",
];
/// Most lines of a file of the program, and of a file of tests, where tables of cases are long.
const MOST_LINES: usize = 600;
const MOST_TEST_LINES: usize = 800;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every file below `dir`, as (path from the root, path), in order.
fn files(dir: &Path, out: &mut Vec<(String, PathBuf)>) {
    let Ok(entries) = fs::read_dir(dir) else {
        return;
    };
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("a directory that can be read").path())
        .collect();
    paths.sort();
    for path in paths {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or("");
        if path.is_dir() {
            if !matches!(name, "target" | ".git" | "node_modules") {
                files(&path, out);
            }
        } else if let Ok(short) = path.strip_prefix(root()) {
            out.push((short.to_string_lossy().replace('\\', "/"), path.clone()));
        }
    }
}

fn rust_files(folder: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    files(&root().join(folder), &mut all);
    all.into_iter()
        .filter(|(name, _)| name.ends_with(".rs"))
        .map(|(name, path)| (name, fs::read_to_string(path).expect("a text")))
        .collect()
}

/// The text with comments and the insides of literals blanked, line by line in place.
fn code_only(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = chars.clone();
    let blank = |out: &mut Vec<char>, from: usize, to: usize| {
        for c in &mut out[from..to] {
            if *c != '\n' {
                *c = ' ';
            }
        }
    };
    let is_word =
        |at: Option<usize>| at.is_some_and(|at| chars[at].is_alphanumeric() || chars[at] == '_');
    let mut at = 0;
    while at < chars.len() {
        let begin = at;
        match (chars[at], chars.get(at + 1)) {
            ('/', Some('/')) => {
                while at < chars.len() && chars[at] != '\n' {
                    at += 1;
                }
                blank(&mut out, begin, at);
            }
            ('/', Some('*')) => {
                let mut depth = 0;
                while at < chars.len() {
                    match (chars[at], chars.get(at + 1)) {
                        ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
                        ('*', Some('/')) => (depth, at) = (depth - 1, at + 2),
                        _ => at += 1,
                    }
                    if depth == 0 {
                        break;
                    }
                }
                blank(&mut out, begin, at.min(chars.len()));
            }
            ('r', Some('"' | '#')) if !is_word(at.checked_sub(1)) || chars[at - 1] == 'b' => {
                let hashes = chars[at + 1..].iter().take_while(|c| **c == '#').count();
                if chars.get(at + 1 + hashes) != Some(&'"') {
                    at += 1;
                    continue;
                }
                let close: Vec<char> = std::iter::once('"')
                    .chain(std::iter::repeat_n('#', hashes))
                    .collect();
                at += 2 + hashes;
                let body = at;
                while at < chars.len() && !chars[at..].starts_with(&close) {
                    at += 1;
                }
                blank(&mut out, body, at.min(chars.len()));
                at += close.len();
            }
            ('"', _) => {
                at += 1;
                while at < chars.len() && chars[at] != '"' {
                    at += if chars[at] == '\\' { 2 } else { 1 };
                }
                blank(&mut out, begin + 1, at.min(chars.len()));
                at += 1;
            }
            ('\'', Some('\\')) => {
                at += 3;
                while at < chars.len() && chars[at] != '\'' {
                    at += 1;
                }
                blank(&mut out, begin + 1, at.min(chars.len()));
                at += 1;
            }
            ('\'', Some(_)) if chars.get(at + 2) == Some(&'\'') => {
                blank(&mut out, begin + 1, begin + 2);
                at += 3;
            }
            _ => at += 1,
        }
    }
    out.into_iter().collect()
}

/// Code without the items under `#[cfg(test)]`, and the names of the modules that those declare.
fn without_tests(code: &str) -> (String, Vec<String>) {
    const MARK: &str = "#[cfg(test)]";
    let mut out = code.to_owned();
    let mut modules = Vec::new();
    let mut from = 0;
    while let Some(found) = out[from..].find(MARK) {
        let begin = from + found;
        let rest = &out[begin..];
        let stop = rest.find(['{', ';']).unwrap_or(rest.len());
        let mut end = stop + 1;
        if rest[stop..].starts_with('{') {
            let mut depth = 0;
            for (at, c) in rest[stop..].char_indices() {
                match c {
                    '{' => depth += 1,
                    '}' => depth -= 1,
                    _ => {}
                }
                if depth == 0 {
                    end = stop + at + 1;
                    break;
                }
            }
        } else {
            modules.extend(
                rest[..stop]
                    .split_once("mod ")
                    .map(|(_, name)| name.trim().to_owned()),
            );
        }
        let end = (begin + end).min(out.len());
        let blank: String = out[begin..end]
            .chars()
            .map(|c| if c == '\n' { '\n' } else { ' ' })
            .collect();
        out.replace_range(begin..end, &blank);
        from = begin;
    }
    (out, modules)
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// Where `word` stands as whole words, not as a part of others.
fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word)
        .map(|(at, _)| at)
        .filter(move |at| {
            !code[..*at].ends_with(is_word) && !code[at + word.len()..].starts_with(is_word)
        })
}

/// The first names of what follows a `::`: one, or those of a group in braces.
fn heads(rest: &str) -> Vec<String> {
    let name = |text: &str| -> String {
        text.trim_start()
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect()
    };
    let rest = rest.trim_start();
    let Some(group) = rest.strip_prefix('{') else {
        return vec![name(rest)];
    };
    let (mut depth, mut heads, mut start) = (0, Vec::new(), 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                heads.push(name(&group[start..at]));
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                heads.push(name(&group[start..at]));
                start = at + 1;
            }
            _ => {}
        }
    }
    heads.retain(|head| !head.is_empty());
    heads
}

/// The modules of a file of `src/`, `fleet/checks/heat.rs` say, from the room inward.
fn module_of(name: &str) -> Vec<&str> {
    let mut path: Vec<&str> = name.trim_end_matches(".rs").split('/').collect();
    if path.last() == Some(&"mod") {
        path.pop();
    }
    path
}

/// Every room that a file's code names, with the line.
fn rooms_used(name: &str, code: &str) -> Vec<(usize, String)> {
    let mut used = Vec::new();
    for at in words(code, "crate") {
        if let Some(rest) = code[at + 5..].trim_start().strip_prefix("::") {
            used.extend(
                heads(rest)
                    .into_iter()
                    .map(|head| (line_of(code, at), head)),
            );
        }
    }
    let depth = module_of(name).len();
    for at in words(code, "super") {
        if code[..at].trim_end().ends_with("super::") || code[..at].trim_end().ends_with("::") {
            continue;
        }
        let (mut rest, mut up) = (&code[at..], 0);
        while let Some(further) = rest.strip_prefix("super") {
            let Some(further) = further.trim_start().strip_prefix("::") else {
                break;
            };
            rest = further.trim_start();
            up += 1;
        }
        if up >= depth {
            used.extend(
                heads(rest)
                    .into_iter()
                    .map(|head| (line_of(code, at), head)),
            );
        }
    }
    used.retain(|(_, head)| ROOMS.contains(&head.as_str()));
    used
}

/// Uses of a room that comes later in the list.
fn broken_layers(name: &str, code: &str) -> Vec<String> {
    let path = module_of(name);
    let Some(own) = ROOMS.iter().position(|room| path.first() == Some(room)) else {
        return Vec::new();
    };
    let world = path.starts_with(&["sim", "world"]);
    rooms_used(name, code)
        .into_iter()
        .filter(|(_, room)| {
            let used = ROOMS.iter().position(|known| known == room);
            used.is_some_and(|used| used > own) || world && room == "engine"
        })
        .map(|(line, room)| format!("src/{name}:{line}: `{}` must not use `{room}`", path[0]))
        .collect()
}

/// Async, I/O and global state in a pure room.
fn impurities(name: &str, code: &str) -> Vec<String> {
    let pure = PURE.iter().any(|room| {
        name.strip_prefix(room)
            .is_some_and(|rest| rest.starts_with('/') || rest == ".rs")
    });
    if !pure {
        return Vec::new();
    }
    IMPURE
        .iter()
        .chain(&["static mut"])
        .flat_map(|word| words(code, word).map(move |at| (at, word)))
        .map(|(at, word)| format!("src/{name}:{}: `{word}` in a pure room", line_of(code, at)))
        .collect()
}

/// Clock reads outside of `runtime`.
fn clock_reads(name: &str, code: &str) -> Vec<String> {
    if name.starts_with("runtime/") || name == "runtime.rs" {
        return Vec::new();
    }
    CLOCKS
        .iter()
        .flat_map(|word| words(code, word).map(move |at| (at, word)))
        .map(|(at, word)| format!("src/{name}:{}: `{word}` outside runtime", line_of(code, at)))
        .collect()
}

/// Grants that are asked for outside of `runtime`, and ungated clients made outside of `source` and `exec`.
fn grants(name: &str, code: &str) -> Vec<String> {
    let allowed = |rooms: &[&str]| rooms.iter().any(|room| name.starts_with(room));
    let mut out = Vec::new();
    for (word, rooms) in [
        ("Grant::from_settings", &["runtime/", "grant.rs"][..]),
        ("Client::new", &["source/", "exec/"]),
        ("Client::try_from", &["source/"]),
        ("Client::try_default", &[]),
    ] {
        let found = words(code, word).filter(|_| !allowed(rooms));
        out.extend(found.map(|at| format!("src/{name}:{}: `{word}` here", line_of(code, at))));
    }
    out
}

/// `unwrap()` outside of tests.
fn unwraps(name: &str, code: &str) -> Vec<String> {
    code.match_indices(".unwrap()")
        .map(|(at, _)| format!("src/{name}:{}: unwrap() outside tests", line_of(code, at)))
        .collect()
}

/// Types and files with names that say nothing.
fn empty_names(name: &str, code: &str) -> Vec<String> {
    let mut out = Vec::new();
    for keyword in ["struct", "enum", "trait", "type", "union"] {
        for at in words(code, keyword) {
            let Some(rest) = code[at + keyword.len()..].strip_prefix(' ') else {
                continue;
            };
            let head = heads(rest).remove(0);
            if EMPTY_SUFFIXES.iter().any(|suffix| head.ends_with(suffix)) {
                let line = line_of(code, at);
                out.push(format!(
                    "src/{name}:{line}: `{head}` does not say what it is"
                ));
            }
        }
    }
    let file = module_of(name)
        .last()
        .copied()
        .unwrap_or_default()
        .to_owned();
    if EMPTY_SUFFIXES
        .iter()
        .any(|suffix| file == suffix.to_ascii_lowercase())
    {
        out.push(format!("src/{name}: `{file}` does not say what it is"));
    }
    out
}

/// Files that are too long or do not begin by saying what they are.
fn unkempt(name: &str, text: &str, most: usize) -> Vec<String> {
    let mut out = Vec::new();
    let lines = text.lines().count();
    if lines > most {
        out.push(format!("{name}: {lines} lines, at most {most}"));
    }
    if !text.starts_with("//!") && !text.starts_with("#![doc = include_str!") {
        out.push(format!("{name}: does not begin with //!"));
    }
    out
}

/// Paths of a developer's machine. The needles are put together here, lest this file be found.
fn machine_paths(name: &str, text: &str) -> Vec<String> {
    ["work", "root"]
        .iter()
        .map(|dir| format!("/{dir}/"))
        .flat_map(|needle| {
            text.match_indices(&needle)
                .map(|(at, _)| at)
                .collect::<Vec<_>>()
        })
        .filter(|at| {
            let before = text[..*at].chars().next_back();
            before.is_none_or(|c| !c.is_alphanumeric() && !"._-}~*$/".contains(c))
        })
        .map(|at| format!("{name}:{}: a path of somebody's machine", line_of(text, at)))
        .collect()
}

/// Dependencies without a line that says why they are there.
fn unexplained_dependencies(manifest: &str) -> Vec<String> {
    let (mut inside, mut explained, mut out) = (false, false, Vec::new());
    for line in manifest.lines() {
        let line = line.trim();
        if line.starts_with('[') {
            inside = line.trim_matches(['[', ']']).ends_with("dependencies");
        } else if line.starts_with('#') {
            explained = true;
            continue;
        } else if inside && line.contains('=') && !explained {
            let name = line.split(['=', '.']).next().unwrap_or_default().trim();
            out.push(format!("Cargo.toml: `{name}` does not say why it is here"));
        }
        explained = false;
    }
    out
}

/// The variants and names of the registry of views.
fn views_of(registry: &str) -> Vec<(String, String)> {
    let Some((_, rest)) = registry.split_once("\nviews! {") else {
        return Vec::new();
    };
    let body = rest.split_once("\n}").map_or(rest, |(body, _)| body);
    body.lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let variant = words.next()?.to_owned();
            Some((variant, words.next()?.trim_matches('"').to_owned()))
        })
        .filter(|(variant, _)| variant.starts_with(char::is_uppercase))
        .collect()
}

/// Views that no frame test draws: each must be named by its variant, unless a test walks over all of them.
fn undrawn_views(registry: &str, frame_tests: &[String]) -> Vec<String> {
    if frame_tests.iter().any(|test| test.contains("ViewId::ALL")) {
        return Vec::new();
    }
    views_of(registry)
        .into_iter()
        .filter(|(variant, _)| {
            let named = format!("ViewId::{variant}");
            !frame_tests
                .iter()
                .any(|test| words(test, &named).next().is_some())
        })
        .map(|(_, name)| format!("the view `{name}` has no frame test"))
        .collect()
}

/// Every file of the program with its code outside of tests. Modules that only tests compile are left out.
fn program() -> Vec<(String, String, String)> {
    let all = rust_files("src");
    let mut tests = BTreeSet::new();
    let mut out = Vec::new();
    for (name, text) in &all {
        let (code, modules) = without_tests(&code_only(text));
        let dir = name
            .strip_suffix("/mod.rs")
            .or_else(|| name.strip_suffix("/lib.rs"))
            .unwrap_or(name.trim_end_matches(".rs"));
        tests.extend(modules.into_iter().map(|module| format!("{dir}/{module}")));
        out.push((name.clone(), text.clone(), code));
    }
    let is_test = |name: &str| {
        let module = name.trim_end_matches(".rs").trim_end_matches("/mod");
        tests
            .iter()
            .any(|test| module == test || module.starts_with(&format!("{test}/")))
    };
    out.retain(|(name, ..)| !is_test(name));
    out.into_iter()
        .map(|(name, text, code)| (name["src/".len()..].to_owned(), text, code))
        .collect()
}

fn assert_tidy(complaints: &[String]) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

type Rule = fn(&str, &str) -> Vec<String>;

#[test]
fn rooms_keep_their_layers_their_purity_and_their_manners() {
    let program = program();
    assert!(program.len() > 20, "the program was not found");
    let rules: [Rule; 6] = [
        broken_layers,
        impurities,
        clock_reads,
        grants,
        unwraps,
        empty_names,
    ];
    let complaints: Vec<String> = program
        .iter()
        .flat_map(|(name, _, code)| rules.iter().flat_map(move |rule| rule(name, code)))
        .collect();
    assert_tidy(&complaints);
}

#[test]
fn every_folder_of_the_program_is_a_room() {
    let rooms: BTreeSet<String> = program()
        .iter()
        .filter_map(|(name, ..)| module_of(name).first().map(|room| (*room).to_owned()))
        .filter(|room| !matches!(room.as_str(), "lib" | "main"))
        .collect();
    for room in rooms {
        assert!(
            ROOMS.contains(&room.as_str()),
            "`{room}` is not in the list of rooms"
        );
    }
}

#[test]
fn files_are_short_and_say_what_they_are() {
    let mut complaints = Vec::new();
    for (folder, most) in [("src", MOST_LINES), ("tests", MOST_TEST_LINES)] {
        for (name, text) in rust_files(folder) {
            complaints.extend(unkempt(&name, &text, most));
        }
    }
    assert_tidy(&complaints);
}

#[test]
fn no_file_speaks_of_somebodys_machine() {
    let mut all = Vec::new();
    files(&root(), &mut all);
    let texts = [
        "rs", "md", "toml", "yaml", "json", "sh", "tsv", "txt", "run", "snap", "go",
    ];
    let complaints: Vec<String> = all
        .iter()
        .filter(|(name, _)| {
            texts
                .iter()
                .any(|end| name.rsplit(['.', '/']).next() == Some(end))
        })
        .filter_map(|(name, path)| Some((name, fs::read_to_string(path).ok()?)))
        .flat_map(|(name, text)| machine_paths(name, &text))
        .collect();
    assert_tidy(&complaints);
}

#[test]
fn every_dependency_says_why_it_is_here() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("the manifest");
    assert_tidy(&unexplained_dependencies(&manifest));
}

#[test]
fn every_view_has_a_frame_and_every_action_a_test() {
    let tests = rust_files("tests");
    let frames: Vec<String> = tests
        .iter()
        .chain(&rust_files("src/console"))
        .filter(|(name, _)| {
            name.contains("frame") && name.contains("test") || name.contains("tests/frames")
        })
        .map(|(_, text)| code_only(text))
        .collect();
    let mut complaints = Vec::new();
    if let Ok(registry) = fs::read_to_string(root().join("src/console/view/mod.rs")) {
        assert!(
            views_of(&registry).len() >= 7,
            "the registry of views was not understood"
        );
        complaints.extend(undrawn_views(&registry, &frames));
    }
    let own: Vec<(String, String)> = rust_files("src/action")
        .into_iter()
        .filter(|(name, _)| name.contains("/tests"))
        .collect();
    let mut planners = 0;
    for (name, text) in rust_files("src/action") {
        let action = module_of(&name)
            .last()
            .copied()
            .unwrap_or_default()
            .to_owned();
        let plans = text.contains("fn plan(") || text.contains(&format!("fn {action}("));
        if !plans || !text.contains("Result<Plan, Refusal>") {
            continue;
        }
        planners += 1;
        let tested = tests
            .iter()
            .chain(&own)
            .any(|(_, text)| words(text, &action).next().is_some());
        if action != "action" && !tested {
            complaints.push(format!("the action `{action}` has no test"));
        }
    }
    assert!(planners >= 7, "the actions were not understood");
    assert_tidy(&complaints);
}

// From here on: each rule must see what it is there to see.

#[test]
fn the_grant_rule_sees_a_grant_made_elsewhere() {
    let code = "let grant = Grant::from_settings(&settings, &context, true);";
    assert_eq!(grants("cli/plan.rs", code).len(), 1);
    assert_eq!(grants("runtime/acting.rs", code), [""; 0]);
    assert_eq!(
        grants("console/app.rs", "Client::new(service, \"\")").len(),
        1
    );
    assert_eq!(grants("exec/writer.rs", "Client::try_default()").len(), 1);
}

#[test]
fn the_layer_rule_sees_every_way_to_name_a_room() {
    for bad in [
        "use crate::cost::Burn;",
        "use crate::{base::Name, cost::{Burn, Spend}};",
        "use crate::{base, runtime};",
        "fn f() -> crate :: console::App { todo() }",
        "use super::super::super::cost::Burn;",
        "use super::super::super::{base, sim};",
    ] {
        let found = broken_layers("fleet/checks/heat.rs", bad);
        assert_eq!(found.len(), 1, "{bad}: {found:?}");
    }
    for good in [
        "use crate::base::Name;",
        "use crate::fleet::job::Job;",
        "use super::super::job::Job;",
        "// use crate::cost::Burn;",
        "/// See [`crate::runtime`].",
        "const TEXT: &str = \"crate::cost::Burn\";",
        "const RAW: &str = r#\"crate::cost \" crate::sim\"#;",
    ] {
        let found = broken_layers("fleet/checks/heat.rs", &code_only(good));
        assert_eq!(found, [] as [String; 0], "{good}");
    }
    assert_eq!(
        broken_layers("sim/world/plan.rs", "use crate::engine::Plan;").len(),
        1
    );
    assert_eq!(
        broken_layers("grant.rs", "use super::action::Action;").len(),
        1
    );
    assert!(broken_layers("runtime/store.rs", "use crate::cli::Args;").len() == 1);
}

#[test]
fn the_purity_rule_sees_waiting_files_and_globals() {
    for bad in [
        "async fn f() {}",
        "fn f() { g().await; }",
        "use std::fs;",
        "fn f() { std::env::var(\"X\"); }",
        "static X: Mutex<u8> = Mutex::new(0);",
        "static mut X: u8 = 0;",
        "use tokio::sync::watch;",
    ] {
        for name in ["cost/burn.rs", "sim/world/fire.rs", "grant.rs"] {
            assert!(!impurities(name, bad).is_empty(), "{name}: {bad}");
        }
        assert!(impurities("source/wire.rs", bad).is_empty(), "{bad}");
        assert!(impurities("sim/serve.rs", bad).is_empty(), "{bad}");
    }
    assert!(
        impurities(
            "cost/burn.rs",
            "fn asynchronous() {} static X: LazyLock<u8> = l();"
        )
        .is_empty()
    );
}

#[test]
fn clocks_unwraps_and_names_are_seen() {
    for clock in CLOCKS {
        let bad = format!("let now = {clock}();");
        assert_eq!(clock_reads("source/wire.rs", &bad).len(), 1, "{bad}");
        assert_eq!(clock_reads("runtime/clock.rs", &bad).len(), 0);
    }
    let code = "fn f() { g().unwrap(); }\n#[cfg(test)]\nmod tests { fn f() { g().unwrap(); } }\n";
    let (outside, _) = without_tests(&code_only(code));
    assert_eq!(unwraps("cost/burn.rs", &outside).len(), 1);
    assert_eq!(unwraps("cost/burn.rs", code).len(), 2);
    let (outside, modules) = without_tests("#[cfg(test)]\nmod laws;\nfn f() {}\n");
    assert_eq!(
        (outside.trim(), modules),
        ("fn f() {}", vec![String::from("laws")])
    );
    for bad in [
        "pub struct NodeManager;",
        "enum PodInfo {}",
        "trait RowHandler {}",
        "type JobData = u8;",
    ] {
        assert_eq!(empty_names("fleet/node.rs", bad).len(), 1, "{bad}");
    }
    assert_eq!(empty_names("fleet/utils.rs", "").len(), 1);
    assert!(empty_names("fleet/node.rs", "struct Datacenter; struct Information;").is_empty());
}

#[test]
fn sizes_paths_dependencies_and_frames_are_seen() {
    assert_eq!(unkempt("a.rs", "//! Said.\n", 3), [] as [String; 0]);
    assert_eq!(unkempt("a.rs", "//! Said.\n\n\n\n", 3).len(), 1);
    assert_eq!(unkempt("a.rs", "use x;\n", 3).len(), 1);
    for dir in ["work", "root"] {
        let bad = format!("see /{dir}/main/x");
        assert_eq!(machine_paths("README.md", &bad).len(), 1, "{bad}");
        let good = format!("see ./{dir}/x and a/{dir}/x and https://x.io/{dir}/x");
        assert_eq!(machine_paths("README.md", &good), [] as [String; 0]);
    }
    let manifest = "[package]\nname = \"x\"\n[dependencies]\n# Why.\na = \"1\"\nb = \"1\"\n";
    let found = unexplained_dependencies(manifest);
    assert!(found.len() == 1 && found[0].contains("`b`"), "{found:?}");
    let registry = "\nviews! {\n    Fleet \"fleet\" '1';\n    Pools \"pools\" '2';\n}\n";
    let found = undrawn_views(registry, &[String::from("draw(ViewId::Fleet)")]);
    assert!(
        found.len() == 1 && found[0].contains("`pools`"),
        "{found:?}"
    );
    let all = [String::from("for view in ViewId::ALL {}")];
    assert!(undrawn_views(registry, &all).is_empty());
}
