//! What a record hands on to the next program: how long past jobs ran.

use std::sync::Arc;
use std::time::Duration;

use ledger::Ledger;
use model::base::Moment;
use model::fleet::Fleet;
use model::fleet::policy::Policy;
use record::{RecordOptions, Recorder, Saved, recalled};
use sim::world::Options;
use tempfile::TempDir;

use super::accounts::{Lived, begin, memory};

fn learned(saved: Saved, at: Moment) -> Fleet {
    let mut ledger = Ledger::new(Arc::new(Policy::default()));
    ledger.restore(saved.ledger);
    ledger.publish(at)
}

#[test]
fn a_record_keeps_past_runs() {
    let options = Options {
        nodes: Some(24),
        ..Options::new(begin())
    };
    let mut lived = Lived::begin(options, true, memory());
    let end = begin().plus(Duration::from_secs(2 * 3_600));
    lived.live(end, Duration::from_secs(120), None);
    let before = lived.store.publish(end).fleet;
    assert!(before.runtimes.iter().count() > 0, "no job has ended");

    let folder = TempDir::new().expect("a folder");
    let recorder = |at: Moment| {
        let options = RecordOptions {
            folder: folder.path().to_owned(),
            cluster: "0b1e".to_owned(),
            context: "prod".to_owned(),
            program: "0.1.0".to_owned(),
            keep: Duration::from_secs(86_400),
            max_bytes: 1 << 30,
        };
        Recorder::open(options, at).expect("can be recorded")
    };
    let mut first = recorder(begin());
    assert_eq!(
        learned(first.take_recalled(), end).runtimes.iter().count(),
        0
    );
    first.want_keyframe();
    let saved = || lived.store.saved();
    first.flush(end, saved).expect("can be written");
    drop(first);

    // A killed recorder is followed by two more, of which the first has no time to learn anything.
    drop(recorder(end.plus(Duration::from_secs(60))));
    let later = end.plus(Duration::from_secs(120));
    let saved = recorder(later).take_recalled();
    assert_eq!(learned(saved, later).runtimes, before.runtimes);

    // Who does not record has it, too, and nobody has what another cluster's record says.
    let own = recalled(folder.path(), Some("prod"));
    assert_eq!(learned(own, later).runtimes, before.runtimes);
    let other = recalled(folder.path(), Some("test"));
    assert_eq!(learned(other, later).runtimes.iter().count(), 0);
}
