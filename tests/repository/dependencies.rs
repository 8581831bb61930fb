//! `deny.toml` is true of `Cargo.lock`: licenses, duplicate versions and sources, held without `cargo deny`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use toml::{Table, Value};

/// What is released; macOS has the same crates and a few more, which `cargo deny` reads.
const TARGETS: [&str; 2] = ["x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl"];

fn read(name: &str) -> Table {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    let text = fs::read_to_string(&path).expect("can be read");
    text.parse().expect("is TOML")
}

/// Name, version and license of every crate from a registry that the released binary is built from.
fn shipped() -> Vec<[String; 3]> {
    let mut command = Command::new(env!("CARGO"));
    command
        .args(["tree", "--locked", "--quiet", "--workspace", "--edges"])
        .args(["normal,build", "--prefix", "none", "--format", "{p}|{l}"])
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    for target in TARGETS {
        command.args(["--target", target]);
    }
    let output = command.output().expect("cargo can be run");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{message}");
    let text = String::from_utf8(output.stdout).expect("is text");
    let lines: BTreeSet<&str> = text
        .lines()
        .map(|line| line.trim_end_matches(" (*)"))
        .filter(|line| !line.is_empty() && !line.contains("(/"))
        .collect();
    let all: Vec<_> = lines
        .into_iter()
        .map(|line| {
            let (package, license) = line.rsplit_once('|').expect("has a license field");
            let mut words = package.split(' ');
            let mut word = || words.next().unwrap_or_default();
            let (name, version) = (word(), word().trim_start_matches('v'));
            [name, version, license].map(str::to_owned)
        })
        .collect();
    assert!(all.len() > 200, "{} crates: too few to be all", all.len());
    all
}

/// Whether the SPDX expression can be met with the licenses for which `allowed` holds. `AND` binds closer than `OR`;
/// the `/` of old manifests is `OR`.
fn met(expression: &str, allowed: &dyn Fn(&str) -> bool) -> bool {
    let expression = expression.trim();
    for (word, all) in [(" OR ", false), (" AND ", true)] {
        let parts = split(expression, word);
        if parts.len() > 1 {
            let mut parts = parts.into_iter();
            return if all {
                parts.all(|part| met(part, allowed))
            } else {
                parts.any(|part| met(part, allowed))
            };
        }
    }
    let inner = expression
        .strip_prefix('(')
        .and_then(|rest| rest.strip_suffix(')'));
    inner.map_or_else(|| allowed(expression), |inner| met(inner, allowed))
}

/// The parts between `word` outside of parentheses.
fn split<'a>(expression: &'a str, word: &str) -> Vec<&'a str> {
    let (mut parts, mut from, mut depth) = (Vec::new(), 0, 0);
    for (at, c) in expression.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ' ' if depth == 0 && at >= from && expression[at..].starts_with(word) => {
                parts.push(&expression[from..at]);
                from = at + word.len();
            }
            _ => {}
        }
    }
    parts.push(&expression[from..]);
    parts
}

fn spdx(license: &str) -> String {
    if license.contains(" / ") {
        license.replace(" / ", " OR ")
    } else {
        license.replace('/', " OR ")
    }
}

fn strings(value: &Value) -> BTreeSet<&str> {
    let list = value.as_array().expect("is a list");
    list.iter()
        .map(|item| item.as_str().expect("is text"))
        .collect()
}

/// What `deny.toml` allows, and what it allows single crates besides.
fn allowed(deny: &Table) -> (BTreeSet<&str>, BTreeMap<&str, BTreeSet<&str>>) {
    let licenses = &deny["licenses"];
    let exceptions = licenses["exceptions"].as_array().expect("is a list");
    let exceptions = exceptions.iter().map(|exception| {
        let name = exception["crate"].as_str().expect("is a name");
        (name, strings(&exception["allow"]))
    });
    (strings(&licenses["allow"]), exceptions.collect())
}

#[test]
fn every_license_is_allowed_and_every_allowed_one_is_met() {
    let deny = read("deny.toml");
    let (general, exceptions) = allowed(&deny);
    let shipped = shipped();
    for [name, version, license] in &shipped {
        let own = exceptions.get(name.as_str());
        let fits =
            |id: &str| general.contains(id) || own.is_some_and(|allowed| allowed.contains(id));
        assert!(
            met(&spdx(license), &fits),
            "{name} {version} is under {license:?}, which deny.toml does not allow"
        );
    }
    for id in &general {
        let used = shipped
            .iter()
            .any(|[_, _, license]| !met(&spdx(license), &|other| other != *id));
        let only = ["Apache-2.0", "MIT"].contains(id);
        assert!(used || only, "deny.toml allows {id}, which no crate needs");
    }
    for (name, extra) in &exceptions {
        let found = shipped.iter().find(|[crate_name, ..]| crate_name == name);
        let [_, _, license] =
            found.unwrap_or_else(|| panic!("deny.toml excepts {name}, which is not used"));
        assert!(
            !met(&spdx(license), &|id| general.contains(id)),
            "{name} needs no exception for {extra:?}"
        );
    }
}

#[test]
fn two_versions_of_a_crate_have_been_looked_at() {
    let deny = read("deny.toml");
    let skip = deny["bans"]["skip"].as_array().expect("is a list");
    let reviewed: BTreeSet<&str> = skip
        .iter()
        .map(|entry| {
            assert!(entry["reason"].as_str().is_some_and(|why| !why.is_empty()));
            entry["crate"].as_str().expect("is NAME@VERSION")
        })
        .collect();
    let shipped = shipped();
    let mut versions: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for [name, version, _] in &shipped {
        let found = versions.entry(name).or_default();
        found.insert(format!("{name}@{version}"));
    }
    let mut needed = BTreeSet::new();
    for (name, found) in versions.iter().filter(|(_, found)| found.len() > 1) {
        let open: Vec<&String> = found
            .iter()
            .filter(|one| !reviewed.contains(one.as_str()))
            .collect();
        assert_eq!(open.len(), 1, "{name}: {found:?}; deny.toml skips {skip:?}");
        needed.extend(found.iter().map(String::as_str));
    }
    let gone: Vec<_> = reviewed.difference(&needed).collect();
    assert!(gone.is_empty(), "no longer duplicates: {gone:?}");
}

#[test]
fn every_crate_comes_from_crates_io() {
    let deny = read("deny.toml");
    let sources = &deny["sources"];
    assert_eq!(sources["unknown-git"].as_str(), Some("deny"));
    assert_eq!(sources["unknown-registry"].as_str(), Some("deny"));
    let registries = strings(&sources["allow-registry"]);
    let lock = read("Cargo.lock");
    let packages = lock["package"].as_array().expect("is a list");
    for package in packages {
        let Some(source) = package.get("source").and_then(Value::as_str) else {
            continue;
        };
        let known = source
            .strip_prefix("registry+")
            .is_some_and(|registry| registries.contains(registry));
        assert!(known, "{}: {source}", package["name"]);
    }
}

#[test]
fn an_expression_of_licenses_is_read_as_spdx_says() {
    let fits = |id: &str| ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"].contains(&id);
    for (expression, wanted) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("GPL-3.0 OR MIT", true),
        ("GPL-3.0 AND MIT", false),
        ("(MIT OR GPL-3.0) AND ISC", true),
        ("(MIT OR GPL-3.0) AND (Zlib OR BSD-3-Clause)", false),
        ("GPL-3.0 AND Zlib OR MIT", true),
        ("Apache-2.0 WITH LLVM-exception", true),
        ("Apache-2.0", false),
        ("", false),
    ] {
        assert_eq!(met(expression, &fits), wanted, "{expression}");
    }
    assert!(met(&spdx("GPL-3.0/MIT"), &fits));
    assert!(met(&spdx("GPL-3.0 / MIT"), &fits));
}
