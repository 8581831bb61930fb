//! Files that are read from a path: each input is written to one in a folder of the process.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use source::kubeconfig::{ContextChoice, contexts, namespaces, resolve};

use super::{Shape, Target, none};

/// A folder of this process, in memory where the system has one.
pub(super) fn folder() -> &'static PathBuf {
    static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
        let memory = PathBuf::from("/dev/shm");
        let base = if memory.is_dir() {
            memory
        } else {
            std::env::temp_dir()
        };
        let folder = base.join(format!("stokehold-fuzz-{}", std::process::id()));
        source::local::make_folder(&folder).expect("a folder can be made");
        folder
    });
    &FOLDER
}

/// Writes an input to a file of this name.
pub(super) fn file(name: &str, data: &[u8]) -> PathBuf {
    use std::io::Write;
    let path = folder().join(name);
    let mut options = source::local::private();
    let file = options.write(true).create(true).truncate(true).open(&path);
    file.and_then(|mut file| file.write_all(data))
        .expect("a file can be written");
    path
}

pub(super) const KUBECONFIG: Target = Target {
    name: "kubeconfig",
    tried: 600,
    body: kubeconfig,
    words: &[
        "apiVersion: v1",
        "kind: Config",
        "current-context: ",
        "contexts:",
        "clusters:",
        "users:",
        "- name: ",
        "cluster:",
        "user:",
        "namespace: ",
        "server: ",
        "https://",
        "http://[::1]:6443",
        "certificate-authority-data: ",
        "insecure-skip-tls-verify: true",
        "proxy-url: ",
        "tls-server-name: ",
        "token: ",
        "tokenFile: ",
        "exec:",
        "command: ",
        "args: ",
        "env: ",
        "interactiveMode: Always",
        "&a ",
        "*a",
        "<<: *a",
        "!!binary ",
        "|",
        ">-",
        "---",
        "client-key-data: ",
        "as-groups: ",
        "extensions: ",
    ],
    most: 2_000,
    made: none,
};

/// Resolves a kubeconfig, and lists what completes from it.
fn kubeconfig(data: &[u8]) -> u64 {
    let choice = ContextChoice {
        kubeconfig: Some(file("kubeconfig", data)),
        environment: Arc::new(|_| None),
        ..ContextChoice::default()
    };
    let shape = match contexts(&choice) {
        Ok((all, current)) => Shape::default()
            .count(all.len())
            .count(usize::from(current.is_some())),
        Err(fault) => Shape::default().words(&fault.to_string()),
    };
    let shape = shape.count(namespaces(&choice).map_or(0, |all| all.len()));
    match resolve(&choice) {
        Ok(resolved) => {
            assert!(resolved.config.cluster_url.host().is_some());
            shape
                .words(resolved.config.cluster_url.scheme_str().unwrap_or_default())
                .count(usize::from(resolved.exec.is_some()))
                .count(usize::from(resolved.token_file.is_some()))
                .end()
        }
        Err(fault) => shape.words(&fault.to_string()).end(),
    }
}

pub(super) const JOURNAL: Target = Target {
    name: "journal",
    tried: 1000,
    body: journal,
    words: &[
        "{\"at\":",
        "\"run\":",
        "\"step\":",
        "\"record\":",
        "\"begin\"",
        "\"end\"",
        "\"intent\"",
        "\"finished\"",
        "\"how\":",
        "\"words\":",
        "\"plan\":",
        "\"steps\":",
        "\"guards\":",
        "\"mutation\":",
        "\"object\":",
        "\"uid\":",
        "\"cluster\":",
        "\"who\":",
        "\"reason\":",
        "\"undoes\":",
        "null",
        "[]",
        "{}",
    ],
    most: 4_000,
    made: none,
};

/// Reads a journal at once and piece by piece: both tell the same runs.
fn journal(data: &[u8]) -> u64 {
    let path = file("journal.jsonl", data);
    let journal = exec::Journal::new(folder());
    let pages = journal.read().expect("is read");
    let runs = exec::runs(&pages);
    let mut shape = Shape::default()
        .count(pages.lines.len())
        .count(pages.unreadable)
        .count(runs.len());
    for run in &runs {
        shape = shape
            .words(&format!("{:?}", run.end))
            .count(run.plan.steps.len());
    }
    // A follower sees whole lines alone.
    let whole = data
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |at| at + 1);
    fs::write(&path, &data[..whole]).expect("is written");
    let at_once = exec::runs(&journal.read().expect("is read"));
    let mut follower = exec::Runs::default();
    let half = data[..whole / 2].iter().rposition(|byte| *byte == b'\n');
    fs::write(&path, &data[..half.map_or(0, |at| at + 1)]).expect("is written");
    follower.look(&journal).expect("is read");
    fs::write(&path, &data[..whole]).expect("is written");
    let followed = follower.look(&journal).expect("is read");
    assert_eq!(followed, at_once);
    shape.end()
}
