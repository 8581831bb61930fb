//! Segments of a record. Checksums are mended before a segment is read, or nothing but checksums would be tried.

use std::time::Duration;

use model::base::{Moment, Name, ObjectKey};
use model::fleet::observe::{Labels, NodeSeen, Observation, Phase, PodSeen, Resources};
use model::fleet::reading::{Page, Reading, ReadingScope};
use model::fleet::signal::Signal;
use record::{Archive, RecordOptions, RecordedEvent, Recorder, ReplayStep, Saved};

use super::files::{file, folder};
use super::{Shape, Target};

pub(super) const SEGMENT: Target = Target {
    name: "segment",
    tried: 1000,
    body: segment,
    words: &[
        "FRAM",
        "STKHREC\n",
        "\0\0\0\0",
        "\u{1}",
        "\u{7f}",
        "continues",
        "started_ms",
    ],
    most: 6_000,
    made: recorded,
};

/// Bytes of a frame's head; its checksum are the last four.
const HEAD: usize = 48;

/// Records a few minutes of a small fleet.
fn recorded() -> Vec<Vec<u8>> {
    let start = Moment::from_seconds(1_800_000_000);
    let folder = folder().join("recorded");
    let _ = std::fs::remove_dir_all(&folder);
    let options = RecordOptions {
        folder: folder.clone(),
        cluster: "0b1e".to_owned(),
        context: "prod".to_owned(),
        program: "0.1.0".to_owned(),
        keep: Duration::from_secs(30 * 86_400),
        max_bytes: 1 << 30,
    };
    let mut recorder = Recorder::open(options, start).expect("can be recorded");
    for round in 0..6u64 {
        let at = start.plus(Duration::from_secs(round * 10));
        for node in 0..3u64 {
            let name = Name::from(format!("n{node}"));
            recorder.see(
                at,
                &Observation::Node(Box::new(NodeSeen {
                    name: name.clone(),
                    uid: name.clone(),
                    labels: Labels::from_iter([(Name::new("pool"), Name::new("h100"))]),
                    unschedulable: (round + node).is_multiple_of(3),
                    capacity: Resources {
                        devices: Box::from([(Name::new("nvidia.com/gpu"), 8)]),
                        ..Resources::default()
                    },
                    ..NodeSeen::default()
                })),
            );
            let mut reading = Reading::new(Name::new("dcgm"), ReadingScope::Device);
            reading.index = Some(node as u32);
            reading.signals = [
                (Signal::Util, 0.1 * round as f64),
                (Signal::Power, 300.0 + 7.0 * round as f64),
            ]
            .into_iter()
            .collect();
            recorder.see(
                at,
                &Observation::Page(Box::new(Page {
                    node: Some(name),
                    at,
                    interval: Duration::from_secs(30),
                    readings: vec![reading],
                })),
            );
        }
        recorder.see(
            at,
            &Observation::Pod(Box::new(PodSeen {
                key: ObjectKey::new("nlp", format!("p{round}")),
                uid: Name::new("u"),
                phase: Phase::Running,
                ..PodSeen::default()
            })),
        );
        recorder.judged(at);
        if round == 3 {
            recorder.want_keyframe();
        }
        recorder
            .flush(at.plus(Duration::from_secs(9)), Saved::default)
            .expect("is written");
    }
    drop(recorder);
    let segments = crate::files(&folder);
    let segments = segments
        .iter()
        .filter(|path| path.extension().is_some_and(|end| end == "segment"));
    segments
        .map(|path| std::fs::read(path).expect("can be read"))
        .collect()
}

/// Writes right checksums over those of the head and of every frame.
fn mended(data: &[u8]) -> Vec<u8> {
    let mut data = data.to_vec();
    let long = |data: &[u8], at: usize| {
        let bytes = data.get(at..at + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?) as usize)
    };
    let Some(length) = data.get(10..12) else {
        return data;
    };
    let mut at = 12 + usize::from(u16::from_le_bytes([length[0], length[1]]));
    if at + 4 > data.len() {
        return data;
    }
    let sum = crc32fast::hash(&data[..at]).to_le_bytes();
    data[at..at + 4].copy_from_slice(&sum);
    at += 4;
    while let (Some(numbers), Some(objects)) = (long(&data, at + 32), long(&data, at + 36)) {
        let end = at
            .saturating_add(HEAD)
            .saturating_add(numbers)
            .saturating_add(objects);
        if end > data.len() {
            break;
        }
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&data[at..at + HEAD - 4]);
        hasher.update(&data[at + HEAD..end]);
        data[at + HEAD - 4..at + HEAD].copy_from_slice(&hasher.finalize().to_le_bytes());
        at = end;
    }
    data
}

/// Opens a segment, goes to its begin and its end, and plays all of it.
fn segment(data: &[u8]) -> u64 {
    let path = file("00000001-20270115T080000Z.segment", &mended(data));
    let archive = match Archive::open(&path) {
        Ok(archive) => archive,
        Err(fault) => return Shape::default().words(&fault.to_string()).end(),
    };
    let (start, end) = (archive.start(), archive.end());
    assert!(start <= end);
    let mut shape = Shape::default()
        .count(archive.keyframes().len())
        .count(archive.warnings().len());
    for at in [start, end] {
        let (keyframe, mut player) = match archive.seek(at) {
            Ok(found) => found,
            Err(fault) => {
                shape = shape.words(&fault.to_string());
                continue;
            }
        };
        let (mut seen, mut restarts) = (0, 0);
        let played = player.until(Moment::from_millis(i64::MAX), |step| match step {
            ReplayStep::Entry((_, RecordedEvent::Seen(_))) => seen += 1,
            ReplayStep::Entry((_, RecordedEvent::Judged)) => {}
            ReplayStep::Restart(_) => restarts += 1,
        });
        shape = shape
            .count(keyframe.observations.len())
            .count(seen)
            .count(restarts)
            .words(
                &played
                    .err()
                    .map(|fault| fault.to_string())
                    .unwrap_or_default(),
            );
    }
    shape.end()
}
