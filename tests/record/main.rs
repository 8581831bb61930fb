//! The record through its public side: what is written comes back, whatever happens to the file meanwhile.

mod damaged;
mod kept;
mod round_trip;
mod usage;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use model::base::{Moment, Name, ObjectKey};
use model::fleet::observe::{
    Labels, NodeSeen, Observation, Phase, PodSeen, Resources, SourceHealth, SourceState, Table,
};
use model::fleet::reading::{Page, Reading, ReadingScope};
use model::fleet::signal::Signal;
use model::fleet::skipped_series::{SkipReason, SkippedSeries};
use model::fleet::source_errors::SourceErrors;
use record::{Archive, RecordFault, RecordOptions, RecordedEvent, Recorder, ReplayStep, Saved};

const START: Moment = Moment::from_seconds(1_800_000_000);

/// So many seconds after the start.
fn at(seconds: u64) -> Moment {
    START.plus(Duration::from_secs(seconds))
}

fn options(folder: &Path) -> RecordOptions {
    RecordOptions {
        folder: folder.to_owned(),
        cluster: "0b1e".to_owned(),
        context: "prod".to_owned(),
        program: "0.1.0".to_owned(),
        keep: Duration::from_secs(30 * 86_400),
        max_bytes: 1 << 30,
    }
}

fn recorder(folder: &Path, at: Moment) -> Recorder {
    Recorder::open(options(folder), at).expect("can be recorded")
}

fn node(name: &str, cordoned: bool) -> Observation {
    Observation::Node(Box::new(NodeSeen {
        name: Name::new(name),
        uid: Name::new(name),
        labels: Labels::from_iter([(Name::new("pool"), Name::new("h100"))]),
        unschedulable: cordoned,
        capacity: Resources {
            devices: Box::from([(Name::new("nvidia.com/gpu"), 8)]),
            ..Resources::default()
        },
        ..NodeSeen::default()
    }))
}

fn pod(name: &str, phase: Phase) -> Observation {
    Observation::Pod(Box::new(PodSeen {
        key: ObjectKey::new("nlp", name),
        uid: Name::new(name),
        phase,
        ..PodSeen::default()
    }))
}

/// A page of two devices; `value` is what both say.
fn page(node: &str, at: Moment, value: f64) -> Observation {
    let readings = (0..2).map(|index| {
        let mut reading = Reading::new(Name::new("dcgm"), ReadingScope::Device);
        reading.index = Some(index);
        reading.uuid = Some(Name::from(format!("GPU-{node}-{index}")));
        reading.signals = [
            (Signal::Util, value / 200.0),
            (Signal::Power, value),
            (Signal::MemTotal, 85_520_809_984.0),
            (Signal::Energy, value * 1000.0),
        ]
        .into_iter()
        .collect();
        reading
    });
    Observation::Page(Box::new(Page {
        node: Some(Name::new(node)),
        at,
        interval: Duration::from_secs(30),
        readings: readings.collect(),
    }))
}

fn source(name: &str, last_ok: Moment, message: &str) -> Observation {
    let mut errors = SourceErrors::default();
    if !message.is_empty() {
        errors.add(last_ok, message);
    }
    Observation::Source(SourceHealth {
        last_ok: Some(last_ok),
        latency_ms: Some(17),
        last_errors: errors.last,
        series_used: Some(200),
        series_skipped: Some(8),
        skipped: Arc::new([SkippedSeries {
            metric: Name::new("DCGM_FI_DEV_MEM_COPY_UTIL"),
            series: 8,
            reason: SkipReason::NoMapping,
        }]),
        calls_per_minute: Some(2),
        message: message.to_owned(),
        ..SourceHealth::new(
            Name::new(name),
            Name::new("dcgm"),
            SourceState::Live,
            Duration::from_secs(90),
        )
    })
}

/// An entry as a text that tells it from any other.
fn describe_observation(at: Moment, observation: &Observation) -> String {
    format!("{} {observation:?}", at.millis())
}

/// Everything in the record from its first keyframe on; restarts are told by their first word.
fn everything(archive: &Archive) -> Vec<String> {
    let (keyframe, mut player) = archive.seek(archive.start()).expect("begins");
    let mut all: Vec<String> = keyframe
        .observations
        .iter()
        .map(|observation| describe_observation(keyframe.at, observation))
        .collect();
    let end = archive.end().plus(Duration::from_secs(86_400 * 365));
    player
        .until(end, |step| match step {
            ReplayStep::Entry((at, RecordedEvent::Seen(observation))) => {
                all.push(describe_observation(at, &observation))
            }
            ReplayStep::Entry((at, RecordedEvent::Judged)) => {
                all.push(format!("{} judged", at.millis()))
            }
            ReplayStep::Restart(keyframe) => {
                all.push(format!("restart with {}", keyframe.observations.len()));
            }
        })
        .expect("can be read");
    all
}

/// What was known at a moment: the last observation of everything that is still there.
fn known(archive: &Archive, when: Moment) -> Vec<String> {
    let (keyframe, mut player) = archive.seek(when).expect("was recorded");
    let mut all = keyframe.observations;
    player
        .until(when, |step| match step {
            ReplayStep::Entry((_, RecordedEvent::Seen(observation))) => all.push(*observation),
            ReplayStep::Entry((_, RecordedEvent::Judged)) => {}
            ReplayStep::Restart(keyframe) => all = keyframe.observations,
        })
        .expect("can be read");
    let mut names: Vec<String> = Vec::new();
    for observation in all {
        match observation {
            Observation::Node(node) => {
                names.retain(|known| !known.starts_with(node.name.as_str()));
                names.push(format!(
                    "{}{}",
                    node.name,
                    if node.unschedulable { " cordoned" } else { "" }
                ));
            }
            Observation::Gone(Table::Nodes, key) => {
                names.retain(|known| !known.starts_with(key.name.as_str()));
            }
            _ => {}
        }
    }
    names.sort();
    names
}

fn flush(recorder: &mut Recorder, at: Moment) {
    recorder.flush(at, Saved::default).expect("can be written");
}
