//! The corpus, and some thousand mutations of it, through every target.

use std::path::PathBuf;

use stokehold_fuzz::runner::{Options, run};
use stokehold_fuzz::{TARGETS, Target, corpus, files};

/// The corpus is not larger than this, bytes.
const MOST: u64 = 300_000;

fn tried(name: &str) {
    let target = Target::named(name).expect("a target");
    let failures = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("fuzz-failures");
    let options = Options {
        runs: target.tried,
        seed: 17,
        failures,
        watched: false,
    };
    let outcome = run(target, &options);
    assert_eq!(outcome.runs, target.tried);
    // A body that says the same of everything reads nothing.
    assert!(outcome.shapes > 8, "{} shapes", outcome.shapes);
}

macro_rules! targets {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                tried(stringify!($name));
            }
        )*

        #[test]
        fn every_target_is_tried() {
            let names = TARGETS.iter().map(|target| target.name);
            assert_eq!(names.collect::<Vec<_>>(), [$(stringify!($name)),*]);
        }
    };
}

targets! {
    exposition watch fleet kubeconfig settings filter document journal segment queues prices accelerators look
}

#[test]
fn the_corpus_is_small_and_belongs_to_targets() {
    let mut size = 0;
    for folder in files(&corpus()) {
        let name = folder.file_name().and_then(|name| name.to_str());
        assert!(
            name.and_then(Target::named).is_some(),
            "{} belongs to no target",
            folder.display()
        );
        for file in files(&folder) {
            size += file.metadata().expect("is there").len();
        }
    }
    assert!(size <= MOST, "{size} bytes");
}
