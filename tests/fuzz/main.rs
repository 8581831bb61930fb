//! `stokehold-fuzz TARGET --runs N [--seed S] [--jobs J]`: a long run of one target, or of `all` one after another.

#![allow(
    clippy::disallowed_methods,
    reason = "a run looks at the clock: a hang is an execution that takes too long"
)]

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Instant;

use stokehold_fuzz::runner::{Options, run};
use stokehold_fuzz::{TARGETS, Target};

const USAGE: &str =
    "usage: stokehold-fuzz TARGET|all [--runs N] [--seed S] [--jobs J] [--input FILE]";

struct Arguments {
    target: String,
    runs: u64,
    seed: u64,
    jobs: u64,
    input: Option<PathBuf>,
}

fn arguments() -> Result<Arguments, String> {
    let mut words = std::env::args().skip(1);
    let target = words.next().ok_or("which target?")?;
    let mut all = Arguments {
        target,
        runs: 1_000_000,
        seed: 1,
        jobs: 1,
        input: None,
    };
    while let Some(word) = words.next() {
        let value = words
            .next()
            .ok_or_else(|| format!("{word} needs a value"))?;
        let number = || {
            value
                .parse::<u64>()
                .map_err(|error| format!("{word} {value}: {error}"))
        };
        match word.as_str() {
            "--runs" => all.runs = number()?,
            "--seed" => all.seed = number()?,
            "--jobs" => all.jobs = number()?.max(1),
            "--input" => all.input = Some(PathBuf::from(value)),
            other => return Err(format!("unknown: {other}")),
        }
    }
    Ok(all)
}

fn main() -> ExitCode {
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(why) => {
            let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
            eprintln!("{why}\n{USAGE}\ntargets: {}", names.join(" "));
            return ExitCode::from(2);
        }
    };
    let targets: Vec<&Target> = TARGETS
        .iter()
        .filter(|target| arguments.target == "all" || target.name == arguments.target)
        .collect();
    if targets.is_empty() {
        eprintln!("there is no target `{}`\n{USAGE}", arguments.target);
        return ExitCode::from(2);
    }
    let mut failed = false;
    for target in targets {
        if let Some(input) = &arguments.input {
            let bytes = std::fs::read(input).expect("the input can be read");
            println!("{}: {:016x}", target.name, (target.body)(&bytes));
            continue;
        }
        failed |= match arguments.jobs {
            1 => {
                one(target, &arguments);
                false
            }
            _ => !many(target, &arguments),
        };
    }
    ExitCode::from(u8::from(failed))
}

fn one(target: &Target, arguments: &Arguments) {
    let begun = Instant::now();
    let options = Options {
        runs: arguments.runs,
        seed: arguments.seed,
        failures: PathBuf::from("fuzz-failures"),
        watched: true,
    };
    let outcome = run(target, &options);
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{}: {} executions in {seconds:.0} s ({:.0} a second), {} shapes, {} MiB at most",
        target.name,
        outcome.runs,
        outcome.runs as f64 / seconds.max(0.001),
        outcome.shapes,
        outcome.memory >> 20
    );
}

/// Processes with seeds of their own, the executions shared among them. True when all went well.
fn many(target: &Target, arguments: &Arguments) -> bool {
    let program = std::env::current_exe().expect("has a path");
    let runs = arguments.runs.div_ceil(arguments.jobs).to_string();
    let children: Vec<_> = (0..arguments.jobs)
        .map(|job| {
            let seed = (arguments.seed + job).to_string();
            Command::new(&program)
                .args([target.name, "--runs", &runs, "--seed", &seed])
                .spawn()
                .expect("can be started")
        })
        .collect();
    let ends = children.into_iter().map(|mut child| child.wait());
    ends.fold(true, |well, end| {
        well & end.is_ok_and(|status| status.success())
    })
}
