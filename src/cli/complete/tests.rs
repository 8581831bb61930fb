//! Completion on a known fleet: which endings are offered where, and that no hostile name is offered.

use clap::CommandFactory;

use super::names::CompletionCluster;
use super::*;
use crate::cli::Cli;
use model::base::name::is_hostile;

/// The endings offered for this line, which is split at spaces.
fn offered(line: &str) -> Completions {
    let mut command = Cli::command();
    command.build();
    let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    let cluster = CompletionCluster::Known(Box::new(table::sample::facts()));
    CommandLine::read(&command, &words).offers(&cluster)
}

fn values(line: &str) -> Vec<String> {
    let all = offered(line).all.into_iter();
    all.map(|offer| offer.value).collect()
}

#[test]
fn commands_kinds_flags_and_columns_need_no_cluster() {
    assert_eq!(values("descr"), ["describe"]);
    assert!(values("get ").contains(&"queues".to_owned()));
    assert_eq!(values("get qu"), ["queues"]);
    assert_eq!(values("plan reb"), ["rebalance"]);
    assert_eq!(values("get jobs --sort"), ["--sort-by"]);
    assert!(values("get jobs --sort-by u").contains(&"util".to_owned()));
    assert_eq!(
        values("get nodes --sort-by=power_"),
        ["--sort-by=power_watts"]
    );
    assert_eq!(values("get jobs -o js"), ["json", "jsonpath="]);
    assert!(values("get jobs -o jsonpath=").contains(&"jsonpath={.items[*].team}".to_owned()));
    assert!(values("get jobs --context prod --co").contains(&"--color".to_owned()));
    assert_eq!(values("--theme emb"), ["ember"]);
    assert!(offered("--kubeconfig ").files && !offered("get ").files);
    assert!(
        values("sim --write g").is_empty(),
        "sim has no such command"
    );
}

#[test]
fn every_column_that_is_offered_is_one_to_sort_by() {
    for kind in table::Kind::ALL {
        if kind == table::Kind::Fleet {
            continue;
        }
        let all = values(&format!("get {} --sort-by ", kind.name()));
        assert!(!all.is_empty(), "{}", kind.name());
        for column in all {
            let titles = table::output::titles(kind);
            let sort = table::Sort::parse(kind, &column, &titles);
            assert!(sort.is_ok(), "{} {column}: {sort:?}", kind.name());
        }
    }
}

#[test]
fn names_are_those_of_the_kind_that_is_written() {
    assert_eq!(values("get pools h"), ["h100"]);
    assert_eq!(
        values("get -n nlp pools h"),
        ["h100"],
        "a flag with its value is no name"
    );
    assert_eq!(values("get -nnlp -w pools h"), ["h100"]);
    assert_eq!(values("describe node/n"), ["node/n1", "node/n2"]);
    assert_eq!(values("describe node n"), ["n1", "n2"]);
    assert_eq!(values("get node/n"), ["node/n1", "node/n2"]);
    assert_eq!(values("get node/n1 node/n"), ["node/n1", "node/n2"]);
    assert_eq!(values("get nodes,po"), ["nodes,pools", "nodes,pods"]);
    assert!(values("get node/n1 --sort-by u").contains(&"util".to_owned()));
    assert!(values("describe ").contains(&"queue".to_owned()));
    assert_eq!(values("top nodes n"), ["n1", "n2"]);
    assert_eq!(values("plan drain pool/"), ["pool/h100", "pool/mixed"]);
    assert_eq!(
        values("plan drain n1 n"),
        ["n1", "n2"],
        "several may stand there"
    );
    assert_eq!(
        values("get pools h100 "),
        ["h100", "mixed"],
        "several may stand there"
    );
    assert_eq!(values("plan hold queue/"), ["queue/research"]);
    assert_eq!(values("--team v"), ["vision"]);
    assert_eq!(values("-n nlp,v"), ["nlp,vision"]);
    let waiting = values("explain job ");
    assert!(waiting.iter().all(|job| values("explain ").contains(job)));
    let all = values("plan reprioritise ");
    assert!(
        !waiting.is_empty() && waiting.len() < all.len(),
        "{waiting:?} {all:?}"
    );
}

#[test]
fn no_name_that_a_shell_would_read_is_offered() {
    let facts = table::sample::facts();
    let hostile = |job: &std::sync::Arc<model::fleet::job::Job>| job.name().chars().any(is_hostile);
    assert!(facts.fleet.jobs.iter().any(hostile), "the sample has one");
    for line in [
        "get jobs ",
        "describe job/",
        "plan requeue ",
        "plan drain ",
        "get devices ",
        "get alerts ",
    ] {
        for value in values(line) {
            let plain =
                |letter: char| letter.is_ascii_alphanumeric() || "-_./:@+=,".contains(letter);
            assert!(value.chars().all(plain), "{line}{value:?}");
        }
    }
}

#[test]
fn the_scripts_ask_the_program_and_kubectl_gets_cobras_answer() {
    for completer in [
        Completer::Bash,
        Completer::Zsh,
        Completer::Fish,
        Completer::Kubectl,
    ] {
        assert!(
            script(completer, Cli::command()).contains("__complete"),
            "{completer:?}"
        );
    }
    let words = ["get", "qu"].map(Into::into);
    let answer = answer(crate::cli::tests::host(), Cli::command(), &words);
    assert_eq!(answer, "queues\tQueues that jobs wait in\n:4\n");
}
