//! Fuzzing: one body for each reader of bytes that others write. `cargo test` runs the corpus and some thousand mutations of
//! it; `stokehold-fuzz` runs as many as one likes.
//!
//! What is new is told by what a reader makes of an input (its shape), and not by which of its lines ran: an input with a new
//! shape is kept and mutated further. Mutations come from a seed and are the same on every machine.

pub mod mutate;
pub mod runner;
mod shape;
mod targets;

use std::path::{Path, PathBuf};

pub use targets::TARGETS;

/// A reader, and what it is tried with.
pub struct Target {
    /// Its name; its corpus is in `corpus/NAME`.
    pub name: &'static str,
    /// Executions in `cargo test`, a second or two on a slow machine.
    pub tried: u64,
    /// Reads an input and panics when an invariant does not hold. What it returns tells answers apart.
    pub body: fn(&[u8]) -> u64,
    /// Words that the reader knows.
    pub words: &'static [&'static str],
    /// Inputs are no longer than this, bytes.
    pub most: usize,
    /// Inputs that are made and not kept as files.
    pub made: fn() -> Vec<Vec<u8>>,
}

impl Target {
    /// The target of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        TARGETS.iter().find(|target| target.name == name)
    }

    /// The corpus: files in order of their names, then what is made.
    pub fn seeds(&self) -> Vec<Vec<u8>> {
        let mut all: Vec<Vec<u8>> = files(&corpus().join(self.name))
            .iter()
            .map(|path| std::fs::read(path).expect("a file of the corpus can be read"))
            .collect();
        all.extend((self.made)());
        assert!(!all.is_empty(), "{} has no corpus", self.name);
        all
    }
}

/// Where the corpus is.
pub fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// The files of a folder by name; none where there is no folder.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let mut all: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    all.sort();
    all
}
