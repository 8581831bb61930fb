//! What one program hands on to the next: since when a finding has been firing.

use std::time::Duration;

use ledger::checks::{self, CheckStates};
use model::base::Moment;
use model::fleet::finding::Finding;
use model::fleet::finding::PATIENCE;
use model::fleet::signal::Signal;
use model::fleet::thresholds::Thresholds;

use crate::parts::{Parts, start};

fn at(minutes: u64) -> Moment {
    start().plus(Duration::from_secs(60 * minutes))
}

/// The findings about heat at a minute, after a change to a fleet in which all is well.
fn heat(state: &mut CheckStates, minute: u64, change: impl FnOnce(&mut Parts)) -> Vec<Finding> {
    let mut parts = Parts::well(at(minute));
    change(&mut parts);
    let thresholds = Thresholds::default();
    let mut found = checks::run(state, &parts.fleet(), at(minute), &thresholds);
    found.retain(|finding| finding.code.as_str() == "heat");
    found
}

fn hot(parts: &mut Parts) {
    parts.set(0, 3, Signal::Temp, 90.0);
}

#[test]
fn the_next_program_knows_since_when_a_finding_has_been_firing() {
    let mut before = CheckStates::default();
    for minute in 0..10 {
        heat(&mut before, minute, hot);
    }
    let found = heat(&mut before, 10, hot);
    assert_eq!((found[0].since, found[0].first_seen), (at(0), true));
    // (A file keeps it.)
    let file = serde_json::to_string(&before.handed_on(at(10))).expect("is written");
    let handed_on: CheckStates = serde_json::from_str(&file).expect("is read");

    // The next one has listed nothing at first: that ends nothing.
    let mut next = handed_on.clone();
    assert_eq!(heat(&mut next, 15, |parts| parts.nodes.clear()), []);
    let found = heat(&mut next, 16, hot);
    assert_eq!((found[0].since, found[0].first_seen), (at(0), true));
    // What ends and begins again is another one.
    assert_eq!(heat(&mut next, 17, |_| {}), []);
    assert_eq!(heat(&mut next, 18, hot), [], "not for two minutes yet");
    assert_eq!(heat(&mut next, 21, hot)[0].since, at(18));

    // What has ended before the next one looked begins anew, too.
    let mut ended = handed_on.clone();
    assert_eq!(heat(&mut ended, 12, |_| {}), []);
    assert_eq!(heat(&mut ended, 13, hot), [], "not for two minutes yet");
    assert_eq!(heat(&mut ended, 16, hot)[0].since, at(13));

    // One that ends before it has read anything hands on what it had.
    let mut short = handed_on.clone();
    heat(&mut short, 12, |parts| parts.nodes.clear());
    let mut third = short.handed_on(at(12));
    assert_eq!(heat(&mut third, 14, hot)[0].since, at(0));

    // After a longer time it may have ended and begun again.
    let mut late = handed_on;
    let after = 11 + PATIENCE.as_secs() / 60;
    assert_eq!(heat(&mut late, after, hot), []);
}
