//! Completion as shells ask for it: the scripts, names of a cluster, and one that does not answer.

use model::base::Age;

use super::simulated::Sim;
use super::{Home, text};
use crate::exec::command_line::SILENT;

/// What may stand at the end of these words; nothing is said and it is no failure, whatever comes of it.
fn offered(home: &Home, words: &[&str]) -> Vec<String> {
    let words: Vec<&str> = ["__complete"].iter().chain(words).copied().collect();
    let output = home.run(&words);
    assert_eq!(text(&output.stderr), "", "{words:?}");
    assert_eq!(output.status.code(), Some(0), "{words:?}");
    let answer = text(&output.stdout);
    let mut lines: Vec<String> = answer.lines().map(str::to_owned).collect();
    let end = lines.pop();
    assert!(matches!(end.as_deref(), Some(":0" | ":4")), "{answer}");
    lines
}

#[test]
fn completions_know_the_commands_or_ask_the_program() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish", "kubectl", "elvish", "powershell"] {
        let output = home.run(&["completions", shell]);
        assert_eq!(output.status.code(), Some(0), "{shell}");
        let script = text(&output.stdout);
        let fixed = script.contains("exporter") && script.contains("demo");
        assert!(fixed || script.contains("__complete"), "{shell}");
    }
}

#[test]
fn names_come_from_the_cluster() {
    let home = Home::new();
    let sim = Sim::start(&home, "kubeconfig");
    let cluster = ["--kubeconfig", &sim.kubeconfig];
    let of = |words: &[&str]| offered(&home, &[&cluster[..], words].concat());
    let pools = of(&["get", "pools", "h100"]);
    assert_eq!(pools, ["h100-train"]);
    assert_eq!(of(&["plan", "drain", "pool/h100"]), ["pool/h100-train"]);
    let nodes = of(&["describe", "node/h100"]);
    assert!(nodes.len() > 1 && nodes.iter().all(|node| node.starts_with("node/h100-")));
    let jobs = of(&["get", "jobs", ""]);
    assert!(
        jobs.len() > 2 && jobs.iter().all(|job| job.contains('/')),
        "{jobs:?}"
    );
    let own = of(&["-n", "nlp", "get", "jobs", ""]);
    assert!(own.len() < jobs.len() && own.iter().all(|job| job.starts_with("nlp/")));
    assert!(of(&["--context", "sim-t"]).contains(&"sim-team".to_owned()));
    // As shells hand words over: with quotes, and with `~` for the home directory.
    let folder = home.path("").display().to_string();
    let folder = folder.trim_end_matches('/');
    let under = sim.kubeconfig.trim_start_matches(folder);
    for words in [
        &["--kubeconfig", &format!("~{under}")][..],
        &[&format!("--kubeconfig=~{under}")],
        &["--kubeconfig", &format!("\"{folder}{under}\"")],
        &["--kubeconfig", &format!("'{folder}'{under}")],
        &[&format!("--kubeconfig='{folder}{under}'")],
    ] {
        let all = [words, &["get", "pools", "\"h100"]].concat();
        assert_eq!(offered(&home, &all), ["h100-train"], "{words:?}");
    }
    // Who may not read it is offered nothing.
    let unprivileged = of(&["--context", "sim-nobody", "get", "jobs", ""]);
    assert_eq!(unprivileged, Vec::<String>::new());
}

#[test]
fn a_cluster_that_does_not_answer_is_waited_for_two_seconds() {
    let home = Home::new();
    let server = format!("http://{SILENT}");
    let kubeconfig = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{{name: a, context: {{cluster: a, user: a}}}}]\n\
         clusters: [{{name: a, cluster: {{server: '{server}'}}}}]\nusers: [{{name: a, user: {{}}}}]\n"
    );
    let file = home.write("kubeconfig", kubeconfig).display().to_string();
    let begun = home.machine.now();
    let none = offered(&home, &["--kubeconfig", &file, "get", "jobs", ""]);
    assert_eq!(none, Vec::<String>::new());
    assert_eq!(home.machine.now().since(begun), Age::from_seconds(2));
    // What needs no cluster asks for none, and what is wrong with a file is not said here.
    let begun = home.machine.now();
    assert_eq!(
        offered(&home, &["--kubeconfig", &file, "get", "que"]).len(),
        1
    );
    let broken = home.write("broken", "{").display().to_string();
    assert!(offered(&home, &["--kubeconfig", &broken, "get", "jobs", ""]).is_empty());
    assert_eq!(home.machine.now(), begun, "nothing was waited for");
}
