//! Writing without a grant does not compile. Each text of `tests/repository/compile_fail` is compiled twice: as it stands, which
//! must fail with the error that its first line names, and with each line that a `//~ ` line follows replaced by that
//! line's words, which must compile: so it fails for the reason that it is about, and for no other.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The newest library of this crate beside the tests: what `cargo test` has just built.
fn library(deps: &Path) -> PathBuf {
    let entries = std::fs::read_dir(deps).expect("a folder of libraries");
    entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with("libstokehold-") && name.ends_with(".rlib"))
        })
        .max_by_key(|path| {
            let metadata = std::fs::metadata(path);
            metadata.and_then(|metadata| metadata.modified()).ok()
        })
        .expect("the library has been built")
}

/// The text with each line that a `//~ ` line follows replaced by that line's words.
fn twin(text: &str) -> String {
    let mut lines: Vec<&str> = Vec::new();
    for line in text.lines() {
        match line.trim_start().strip_prefix("//~ ") {
            Some(words) => {
                lines.pop();
                lines.push(words);
            }
            None => lines.push(line),
        }
    }
    lines.join("\n")
}

fn compile(name: &str, text: &str, deps: &Path, library: &Path, folder: &Path) -> Output {
    let file = folder.join(format!("{name}.rs"));
    std::fs::write(&file, text).expect("written");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    Command::new(rustc)
        .args([
            "--edition=2024",
            "--crate-type=lib",
            "--emit=metadata",
            "-Adead_code",
            "-Aunused",
        ])
        .arg("--extern")
        .arg(format!("stokehold={}", library.display()))
        .arg("-L")
        .arg(format!("dependency={}", deps.display()))
        .arg("--out-dir")
        .arg(folder)
        .arg(&file)
        .output()
        .expect("rustc runs")
}

#[test]
fn nothing_writes_without_a_grant() {
    let deps = std::env::current_exe().expect("a test");
    let deps = deps.parent().expect("stands in a folder");
    let library = library(deps);
    let folder = tempfile::TempDir::new().expect("a folder");
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/repository/compile_fail");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(cases)
        .expect("texts")
        .map(|entry| entry.expect("a text").path())
        .collect();
    paths.sort();
    assert!(paths.len() >= 7, "{paths:?}");
    for path in paths {
        let name = path
            .file_stem()
            .and_then(|name| name.to_str())
            .expect("a name");
        let text = std::fs::read_to_string(&path).expect("a text");
        let wanted = text
            .lines()
            .next()
            .and_then(|line| line.strip_prefix("//! error["))
            .and_then(|rest| rest.split_once(']'))
            .unwrap_or_else(|| panic!("{name} does not begin with `//! error[CODE]`"))
            .0;
        assert!(text.contains("//~ "), "{name} has no twin");
        let bad = compile(name, &text, deps, &library, folder.path());
        let message = String::from_utf8_lossy(&bad.stderr);
        assert!(!bad.status.success(), "{name} compiles");
        let errors: Vec<&str> = message
            .lines()
            .filter(|line| line.starts_with("error["))
            .collect();
        assert!(
            !errors.is_empty() && errors.iter().all(|line| line.contains(wanted)),
            "{name} fails for another reason than {wanted}:\n{message}"
        );
        let good = compile(
            &format!("{name}_twin"),
            &twin(&text),
            deps,
            &library,
            folder.path(),
        );
        let message = String::from_utf8_lossy(&good.stderr);
        assert!(
            good.status.success(),
            "the twin of {name} does not compile:\n{message}"
        );
    }
}
