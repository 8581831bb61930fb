//! `.ci/release` packs the same bytes from the same program, and each package holds what its readers look for. A script
//! that calls the program under test stands for the static one, which takes a quarter of an hour to build.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

const TARGETS: [(&str, &str); 2] = [
    ("x86_64-unknown-linux-musl", "amd64"),
    ("aarch64-unknown-linux-musl", "arm64"),
];
const VERSION: &str = env!("CARGO_PKG_VERSION");

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("is text")
}

/// What a command prints; fails unless it ends well.
fn printed(command: &mut Command) -> String {
    let output = command.output().expect("can be run");
    let message = text(&output.stderr);
    assert!(output.status.success(), "{command:?}: {message}");
    text(&output.stdout)
}

fn digest(path: &Path) -> String {
    let line = printed(Command::new("sha256sum").arg(path));
    line.split(' ').next().unwrap_or_default().to_owned()
}

fn package(program: &Path, out: &Path) -> Output {
    let mut command = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join(".ci/release"));
    command
        .arg("--out")
        .arg(out)
        .args(["--url", "https://releases.invalid/v1/"])
        .args(["--homepage", "https://stokehold.invalid"])
        .env("SOURCE_DATE_EPOCH", "1790000000");
    for (target, _) in TARGETS {
        let given = format!("{target}={}", program.display());
        command.args(["--binary", &given]);
    }
    // A target that is named twice is packed once.
    command.args(TARGETS.map(|(target, _)| target));
    command.output().expect("can be run")
}

/// Packages of the program in a folder of its own, and whether Debian's are among them.
fn packaged(folder: &Path, name: &str) -> (BTreeMap<String, String>, bool) {
    let program = folder.join("stokehold");
    let call = format!(
        "#!/bin/sh\nexec {} \"$@\"\n",
        env!("CARGO_BIN_EXE_stokehold")
    );
    // (Another process writes it: one that a test starts meanwhile cannot have it open, and it can be executed.)
    let mut install = Command::new("install");
    install.args(["-m", "755", "/dev/stdin"]).arg(&program);
    let mut install = install.stdin(Stdio::piped()).spawn().expect("can be run");
    let mut input = install.stdin.take().expect("is piped");
    input.write_all(call.as_bytes()).expect("is read");
    drop(input);
    assert!(install.wait().expect("ends").success());
    let out = folder.join(name);
    let output = package(&program, &out);
    let message = text(&output.stderr);
    let debian = !message.contains("dpkg-deb is not on the PATH");
    assert_eq!(output.status.success(), debian, "{message}");
    let sums = fs::read_to_string(out.join("SHA256SUMS")).expect("was written");
    let sums: BTreeMap<String, String> = sums
        .lines()
        .filter_map(|line| line.split_once("  "))
        .map(|(sum, file)| (file.to_owned(), sum.to_owned()))
        .collect();
    for entry in fs::read_dir(&out).expect("was made") {
        let name = entry.expect("an entry").file_name();
        let name = name.to_str().expect("a plain name");
        assert!(
            name == "SHA256SUMS" || sums.contains_key(name),
            "{name} has no sum"
        );
    }
    for (file, sum) in &sums {
        assert_eq!(&digest(&out.join(file)), sum, "{file}");
    }
    (sums, debian)
}

/// What a package installs, in a folder.
fn unpacked(package: &Path) -> TempDir {
    let folder = TempDir::new().expect("a temporary folder");
    let mut unpack = Command::new("dpkg-deb");
    printed(unpack.arg("--extract").arg(package).arg(folder.path()));
    folder
}

/// Follows an image's descriptors: each digest and size must be those of its blob. Returns the architectures.
fn architectures(layout: &Path, descriptor: &Value) -> Vec<String> {
    let sum = descriptor["digest"].as_str().expect("a digest");
    let sum = sum.strip_prefix("sha256:").expect("is SHA-256");
    let blob = layout.join("blobs/sha256").join(sum);
    assert_eq!(digest(&blob), sum);
    let bytes = fs::read(&blob).expect("is there");
    assert_eq!(descriptor["size"].as_u64(), Some(bytes.len() as u64));
    let kind = descriptor["mediaType"].as_str().expect("a media type");
    if kind.ends_with(".tar+gzip") {
        return Vec::new();
    }
    let json: Value = serde_json::from_slice(&bytes).expect("is JSON");
    if kind.ends_with(".config.v1+json") {
        assert_eq!(json["config"]["Entrypoint"][0], "/stokehold");
        return vec![json["architecture"].as_str().expect("a name").to_owned()];
    }
    let mut all = Vec::new();
    for list in ["manifests", "layers"] {
        let list = json[list].as_array().into_iter().flatten();
        all.extend(list.flat_map(|one| architectures(layout, one)));
    }
    if json.get("config").is_some() {
        all.extend(architectures(layout, &json["config"]));
    }
    all
}

/// The SBOM and the license texts name what is linked, and nothing that only builds or tests it.
fn names_what_is_linked(out: &Path, notices: &str) {
    let file = out.join(format!("stokehold-{VERSION}.cdx.json"));
    let file = fs::read(file).expect("was written");
    let sbom: Value = serde_json::from_slice(&file).expect("is JSON");
    assert_eq!(sbom["bomFormat"], "CycloneDX");
    assert_eq!(sbom["metadata"]["component"]["version"], VERSION);
    let components = sbom["components"].as_array().expect("is a list");
    let named = |name: &str| components.iter().find(|one| one["name"] == name);
    for name in ["rust-std", "kube", "ring", "rustls", "tokio"] {
        assert!(named(name).is_some(), "no {name}");
    }
    for name in ["clap_derive", "cc", "criterion", "proptest"] {
        assert!(named(name).is_none(), "{name} is not linked");
    }
    for one in components.iter().skip(1) {
        let field = |key: &str| one[key].as_str().expect("is text").to_owned();
        let (name, version) = (field("name"), field("version"));
        assert_eq!(field("purl"), format!("pkg:cargo/{name}@{version}"));
        let sum = one["hashes"][0]["content"].as_str();
        assert_eq!(sum.map(str::len), Some(64), "{name}");
        let terms = one["licenses"][0]["expression"].as_str();
        let terms = terms.unwrap_or_default();
        assert!(!terms.is_empty() && !terms.contains('/'), "{name}: {terms}");
        assert!(
            notices.contains(&format!("\n{name} v{version}: ")),
            "{name}"
        );
    }
    assert!(notices.contains("Permission is hereby granted, free of charge"));
}

#[test]
fn packages_are_whole_and_the_same_each_time() {
    let folder = TempDir::new().expect("a temporary folder");
    let (sums, debian) = packaged(folder.path(), "one");
    let again = packaged(folder.path(), "two");
    assert_eq!((&sums, debian), (&again.0, again.1), "the bytes differ");
    let out = folder.path().join("one");

    // krew takes a plugin's name from the file's.
    let krew = fs::read_to_string(out.join("stokehold.yaml")).expect("was written");
    let krew: Value = serde_saphyr::from_str(&krew).expect("is YAML");
    assert_eq!(krew["metadata"]["name"], "stokehold");
    assert_eq!(krew["spec"]["homepage"], "https://stokehold.invalid");
    assert_eq!(krew["spec"]["platforms"].as_array().map(Vec::len), Some(2));
    let manifest = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
    let manifest: toml::Table = manifest.expect("is there").parse().expect("is TOML");
    let binstall = &manifest["package"]["metadata"]["binstall"];
    for (at, (target, architecture)) in TARGETS.into_iter().enumerate() {
        let filled = |key: &str| {
            let words = binstall[key].as_str().expect("is text");
            let values = [
                ("{ name }", "stokehold"),
                ("{ bin }", "stokehold"),
                ("{ version }", VERSION),
                ("{ target }", target),
                ("{ archive-suffix }", ".tar.gz"),
                ("{ binary-ext }", ""),
            ];
            values
                .iter()
                .fold(words.to_owned(), |words, (name, value)| {
                    words.replace(name, value)
                })
        };
        // What `cargo binstall` asks for is there under that name, and the program in it.
        let address = filled("pkg-url");
        let file = address.rsplit('/').next().expect("an address").to_owned();
        let sum = sums.get(&file).unwrap_or_else(|| panic!("no {file}"));
        let listed = printed(Command::new("tar").arg("-tvf").arg(out.join(&file)));
        let program = filled("bin-dir");
        let folder = program.strip_suffix("/stokehold").expect("in a folder");
        for inside in [
            "stokehold",
            "LICENSE",
            "README.md",
            "completions/_stokehold",
            "completions/kubectl_complete-stokehold",
            "man/stokehold-explain-job.1",
            "docs/record.md",
            "config/systemd/stokehold-record.service",
            "config/kubernetes/watch.yaml",
            "config/prometheus/rules.yaml",
        ] {
            let line = listed
                .lines()
                .find(|line| line.ends_with(&format!(" {folder}/{inside}")));
            let line = line.unwrap_or_else(|| panic!("{file} lacks {inside}:\n{listed}"));
            assert!(line.contains(" 0/0 "), "{line}");
        }
        // krew finds the same.
        let platform = &krew["spec"]["platforms"][at];
        assert_eq!(platform["selector"]["matchLabels"]["arch"], architecture);
        assert_eq!(
            platform["uri"],
            format!("https://releases.invalid/v1/{file}")
        );
        assert_eq!(platform["sha256"], sum.as_str());
        assert_eq!(platform["files"][0]["from"], program);
        if debian {
            let file = out.join(format!("stokehold_{VERSION}-1_{architecture}.deb"));
            let field = |name: &str| {
                printed(Command::new("dpkg-deb").arg("--field").arg(&file).arg(name))
                    .trim()
                    .to_owned()
            };
            assert_eq!(
                (field("Version"), field("Architecture")),
                (format!("{VERSION}-1"), architecture.to_owned())
            );
            let maintainer = field("Maintainer");
            assert!(
                maintainer.contains(" <") && maintainer.ends_with('>'),
                "{maintainer}"
            );
            assert_eq!(field("Homepage"), "https://stokehold.invalid");
            let description = field("Description");
            assert!(!description.starts_with("The "), "{description}");
            let listed = printed(Command::new("dpkg-deb").arg("--contents").arg(&file));
            for inside in [
                "./usr/bin/stokehold",
                "./usr/bin/kubectl-stokehold -> stokehold",
                "./usr/bin/kubectl_complete-stokehold",
                "./usr/share/man/man1/stokehold-get.1.gz",
                "./usr/share/bash-completion/completions/stokehold",
                "./usr/share/man/man1/kubectl-stokehold.1.gz -> stokehold.1.gz",
                "./usr/share/man/man1/kubectl_complete-stokehold.1.gz -> stokehold-completions.1.gz",
                "./usr/share/doc/stokehold/copyright",
                "./usr/share/doc/stokehold/changelog.gz",
                "./usr/share/doc/stokehold/docs/record.md",
                "./usr/share/doc/stokehold/config -> examples",
                "./usr/share/doc/stokehold/examples/stokehold.toml",
                "./usr/share/doc/stokehold/examples/kubernetes/record.yaml",
                "./lib/systemd/system/stokehold-record.service",
                "./lib/systemd/system/stokehold-watch.service",
            ] {
                let line = listed.lines().find(|line| line.ends_with(inside));
                let line = line.unwrap_or_else(|| panic!("the package lacks {inside}:\n{listed}"));
                assert!(line.contains(" root/root "), "{line}");
            }
            // Installed, and not enabled.
            assert!(!listed.contains(".wants/"), "{listed}");
            let installed = unpacked(&file);
            let inside = |path: &str| {
                let path = installed.path().join("usr/share/doc/stokehold").join(path);
                printed(Command::new("gzip").arg("-cdf").arg(path))
            };
            let copyright = inside("copyright");
            assert!(
                copyright.starts_with(
                    "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n"
                ) && copyright.contains("/usr/share/common-licenses/Apache-2.0")
                    && !copyright.contains("TERMS AND CONDITIONS"),
                "{copyright}"
            );
            let changes = inside("changelog.Debian.gz");
            assert!(
                changes.starts_with(&format!(
                    "stokehold ({VERSION}-1) unstable; urgency=medium\n"
                )) && changes.contains(&format!("\n -- {maintainer}  ")),
                "{changes}"
            );
        }
    }

    let name = format!("stokehold-{VERSION}-{}", TARGETS[0].0);
    let mut notices = Command::new("tar");
    notices.arg("-xOf").arg(out.join(format!("{name}.tar.gz")));
    names_what_is_linked(&out, &printed(notices.arg(format!("{name}/THIRD-PARTY"))));

    let layout = folder.path().join("layout");
    fs::create_dir(&layout).expect("can be made");
    let image = out.join(format!("stokehold-{VERSION}.oci.tar"));
    printed(
        Command::new("tar")
            .arg("-xf")
            .arg(image)
            .arg("-C")
            .arg(&layout),
    );
    let index = fs::read(layout.join("index.json")).expect("is there");
    let index: Value = serde_json::from_slice(&index).expect("is JSON");
    assert_eq!(
        architectures(&layout, &index["manifests"][0]),
        ["amd64", "arm64"]
    );
}

#[test]
fn wrong_use_is_refused() {
    let release = |arguments: &[&str]| {
        let mut command = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join(".ci/release"));
        let output = command.args(arguments).output().expect("can be run");
        (output.status.code(), text(&output.stderr))
    };
    for (arguments, wanted) in [
        (&["--outt", "x"][..], "unknown flag --outt"),
        (&["wasm32-unknown-unknown"], "known: x86_64"),
        (
            &["--binary", "x86_64-unknown-linux-musl=/nowhere"],
            "is no program",
        ),
    ] {
        let (code, message) = release(arguments);
        assert_eq!(code, Some(1), "{message}");
        assert!(message.contains(wanted), "{message}");
    }
}
