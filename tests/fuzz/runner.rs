//! Runs a target; in long runs of one target, a watch looks at its time and memory from another thread.

#![allow(
    clippy::disallowed_methods,
    reason = "a run looks at the clock: a hang is an execution that takes too long"
)]

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::Target;
use super::mutate::{Random, mutate};

/// An execution that takes longer hangs.
pub const LONGEST: Duration = Duration::from_secs(10);
/// The most memory that a run may take, bytes.
pub const MOST_MEMORY: u64 = 1 << 30;
/// Inputs that are kept beside the corpus.
const MOST_KEPT: usize = 4_000;

/// How a run goes.
#[derive(Clone, Debug)]
pub struct Options {
    /// Executions.
    pub runs: u64,
    /// The seed of mutations; two seeds try other inputs.
    pub seed: u64,
    /// Where an input is written that fails.
    pub failures: PathBuf,
    /// True for a process that runs this target and nothing else: an execution that hangs, or too much memory, ends it.
    pub watched: bool,
}

/// What came of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// Executions.
    pub runs: u64,
    /// Different answers that the reader gave.
    pub shapes: usize,
    /// The most memory that was in use, bytes; 0 where the system does not tell, or nobody watched.
    pub memory: u64,
}

/// What the watch looks at.
struct Current {
    input: Mutex<Vec<u8>>,
    /// When the execution began, milliseconds since the run did, plus one; 0 between two.
    since: AtomicU64,
    memory: AtomicU64,
    over: AtomicBool,
}

/// Runs a target. An input that panics is written to a file, and the panic goes on.
pub fn run(target: &Target, options: &Options) -> Outcome {
    let begun = Instant::now();
    let current = Arc::new(Current {
        input: Mutex::default(),
        since: AtomicU64::new(0),
        memory: AtomicU64::new(0),
        over: AtomicBool::new(false),
    });
    let watch = options.watched.then(|| {
        let (current, name, failures) =
            (Arc::clone(&current), target.name, options.failures.clone());
        std::thread::spawn(move || watch(&current, begun, name, &failures))
    });
    let seeds = target.seeds();
    let mut kept = seeds.clone();
    let mut shapes = HashSet::new();
    let mut random = Random::new(options.seed);
    let mut runs = 0;
    while runs < options.runs {
        let fixed = seeds
            .get(runs as usize)
            .filter(|_| runs < seeds.len() as u64);
        let input = fixed.cloned().unwrap_or_else(|| {
            // Half of the time one of the corpus, else one that was new.
            let from = if random.below(2) == 0 { &seeds } else { &kept };
            let one = &from[random.below(from.len())];
            mutate(one, &kept, target.words, target.most, &mut random)
        });
        current
            .input
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone_from(&input);
        let now = begun.elapsed().as_millis() as u64 + 1;
        current.since.store(now, Ordering::Relaxed);
        let body = std::panic::AssertUnwindSafe(|| (target.body)(&input));
        let shape = match std::panic::catch_unwind(body) {
            Ok(shape) => shape,
            Err(panic) => {
                let path = written(&options.failures, target.name, "panic", &input);
                eprintln!("{}: panicked on {}", target.name, path.display());
                std::panic::resume_unwind(panic);
            }
        };
        current.since.store(0, Ordering::Relaxed);
        runs += 1;
        if shapes.insert(shape) && fixed.is_none() {
            match kept.len() - seeds.len() < MOST_KEPT {
                true => kept.push(input),
                false => {
                    let at = seeds.len() + random.below(MOST_KEPT);
                    kept[at] = input;
                }
            }
        }
    }
    current.over.store(true, Ordering::Relaxed);
    if let Some(watch) = watch {
        let _ = watch.join();
    }
    Outcome {
        runs,
        shapes: shapes.len(),
        memory: current.memory.load(Ordering::Relaxed),
    }
}

/// Ends the process when an execution hangs or memory grows.
fn watch(current: &Current, begun: Instant, name: &str, failures: &Path) {
    while !current.over.load(Ordering::Relaxed) {
        let memory = resident();
        current.memory.fetch_max(memory, Ordering::Relaxed);
        let since = current.since.load(Ordering::Relaxed);
        let lasted = (begun.elapsed().as_millis() as u64 + 1).saturating_sub(since);
        let hangs = since > 0 && u128::from(lasted) > LONGEST.as_millis();
        if hangs || memory > MOST_MEMORY {
            let why = if hangs { "hang" } else { "memory" };
            let input = current.input.lock().unwrap_or_else(PoisonError::into_inner);
            let path = written(failures, name, why, &input);
            eprintln!(
                "{name}: {why} after {lasted} ms and {} MiB on {}",
                memory >> 20,
                path.display()
            );
            std::process::exit(1);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Memory of this process, bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text
        .split(' ')
        .nth(1)
        .and_then(|word| word.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
}

fn written(failures: &Path, name: &str, why: &str, input: &[u8]) -> PathBuf {
    let sum = crc32fast::hash(input);
    let path = failures.join(format!("{name}-{why}-{sum:08x}"));
    let _ = std::fs::create_dir_all(failures);
    if let Err(error) = std::fs::write(&path, input) {
        eprintln!("cannot write {}: {error}", path.display());
    }
    path
}
