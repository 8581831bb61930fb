//! The simulator's API held to a real API server: every recorded answer is asked for again, in process, and compared.
//!
//! `recorded/scene.json` holds whole lists of the real cluster as they were before the first write; a simulated cluster
//! is loaded with those objects, each recorded request is sent to it in the recorded order, and both answers, normalised
//! alike, must be equal: status, headers, content type and body. What is not to be equal stands in
//! [`exclusions`], each with its reason; one that has become needless fails the test.

mod differences;
mod exclusions;
mod normal;
mod recorded_world;
mod recording;
mod replay;

use exclusions::Excuses;
use recording::Recording;

/// Replays a group of recordings on a fresh cluster and fails with every difference.
fn compare(group: &str) {
    let recordings = Recording::group(group);
    assert!(!recordings.is_empty(), "no recordings in {group}");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime");
    let answers = runtime.block_on(replay::replay(group, &recordings));
    let mut excuses = Excuses::of(group);
    let mut failures = Vec::new();
    for (recording, answer) in recordings.iter().zip(answers) {
        let found = differences::between(&recording.answer, &answer);
        let left = excuses.judge(&recording.name, found);
        if !left.is_empty() {
            let request = &recording.request;
            failures.push(format!(
                "{group}/{}: {} {} as {}\n{}",
                recording.name,
                request.method,
                request.path,
                request.user,
                differences::text(&left)
            ));
        }
    }
    failures.extend(excuses.needless());
    assert!(
        failures.is_empty(),
        "{} of {} recordings differ (- recorded from a real server, + simulated)\n\n{}",
        failures.len(),
        recordings.len(),
        failures.join("\n")
    );
}

macro_rules! groups {
    ($($group:ident)*) => {
        $(#[test]
        fn $group() {
            compare(stringify!($group));
        })*

        /// Every file of recordings is compared.
        #[test]
        fn no_group_is_forgotten() {
            let mut named = vec![$(stringify!($group).to_owned()),*];
            named.sort();
            assert_eq!(recording::groups(), named);
        }
    };
}

groups! { aggregated custom discovery errors eviction metadata objects pages proxy reviews scene selectors tables watch writes }
