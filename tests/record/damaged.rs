//! Files that are not as they were written: cut anywhere, changed, foreign, of a later version.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use super::*;

fn only_segment(folder: &Path) -> PathBuf {
    let mut all: Vec<PathBuf> = fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "segment"))
        .collect();
    assert_eq!(all.len(), 1);
    all.remove(0)
}

/// A record of five frames.
struct Small {
    bytes: Vec<u8>,
    /// How many bytes there were after each frame, and how many entries stand in them.
    steps: Vec<(usize, usize)>,
    /// Every entry.
    all: Vec<String>,
    /// Name of its file.
    name: String,
}

fn small() -> Small {
    let folder = TempDir::new().expect("a folder");
    let mut recorder = recorder(folder.path(), START);
    let path = only_segment(folder.path());
    let size = || fs::metadata(&path).expect("is there").len() as usize;
    let mut steps = vec![(size(), 0)];
    let mut count = 0;
    for round in 0..5u64 {
        let second = round * 10 + 1;
        recorder.see(at(second), &node(&format!("n{round}"), false));
        recorder.see(at(second), &page("n0", at(second), round as f64));
        recorder.see(at(second), &source("dcgm n0", at(second), ""));
        count += 3;
        if round == 2 {
            recorder.want_keyframe();
        }
        flush(&mut recorder, at(second + 9));
        steps.push((size(), count));
    }
    drop(recorder);
    let archive = Archive::open(folder.path()).expect("can be read");
    let all = everything(&archive);
    assert_eq!(all.len(), count);
    let name = path
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    Small {
        bytes: fs::read(&path).expect("can be read"),
        steps,
        all,
        name,
    }
}

#[test]
fn a_file_cut_at_any_byte_gives_every_complete_entry_once() {
    let Small {
        bytes,
        steps,
        all,
        name,
    } = small();
    for length in 0..=bytes.len() {
        let folder = TempDir::new().expect("a folder");
        let path = folder.path().join(&name);
        fs::write(&path, &bytes[..length]).expect("is written");
        let whole = steps.iter().rev().find(|(size, _)| *size <= length);
        match (Archive::open(folder.path()), whole) {
            (Ok(archive), Some((size, count))) => {
                // A keyframe stands behind the third frame: its half is cut without a loss.
                let read = everything(&archive);
                assert!(read.len() >= *count, "{length}: {} of {count}", read.len());
                assert_eq!(read[..], all[..read.len()], "{length}");
                let more = steps.iter().find(|(size, _)| *size > length);
                assert!(more.is_none_or(|(_, next)| read.len() <= *next), "{length}");
                let is_cut = !archive.warnings().is_empty();
                assert!(is_cut || *size == length || read.len() > *count, "{length}");
            }
            (Err(fault), None) => {
                let words = fault.to_string();
                assert!(
                    matches!(fault, RecordFault::Foreign(_) | RecordFault::Empty(_)),
                    "{length}: {words}"
                );
            }
            (Ok(_), None) => panic!("{length}: there is nothing to read"),
            (Err(fault), Some(_)) => panic!("{length}: {fault}"),
        }
        // A recorder goes on in the same directory, and leaves what is there as it is.
        if length % 61 == 0 {
            let mut recorder = recorder(folder.path(), at(100));
            recorder.see(at(101), &node("later", false));
            recorder.close().expect("is written");
            assert_eq!(fs::read(&path).expect("is there"), &bytes[..length]);
            let archive = Archive::open(folder.path()).expect("can be read");
            assert_eq!(known(&archive, at(102)), ["later"], "{length}");
        }
    }
}

#[test]
fn a_byte_that_changed_is_noticed_and_the_rest_is_read() {
    let Small {
        bytes, all, name, ..
    } = small();
    let mut noticed = 0;
    for place in (0..bytes.len()).step_by(7) {
        let folder = TempDir::new().expect("a folder");
        let mut damaged = bytes.clone();
        damaged[place] ^= 0x40;
        fs::write(folder.path().join(&name), &damaged).expect("is written");
        let Ok(archive) = Archive::open(folder.path()) else {
            noticed += 1;
            continue;
        };
        let Ok((keyframe, mut player)) = archive.seek(archive.start()) else {
            noticed += 1;
            continue;
        };
        assert!(keyframe.observations.is_empty());
        let mut read = Vec::new();
        let mut restarted = false;
        let end = at(1000);
        player
            .until(end, |step| match step {
                ReplayStep::Entry((at, RecordedEvent::Seen(observation))) => {
                    read.push(describe_observation(at, &observation))
                }
                ReplayStep::Entry((_, RecordedEvent::Judged)) => {}
                ReplayStep::Restart(_) => restarted = true,
            })
            .expect("can be read");
        // What is told is what was said, at most less of it.
        assert!(read.iter().all(|one| all.contains(one)), "byte {place}");
        assert!(
            read.len() < all.len() || place > bytes.len() / 2,
            "byte {place}"
        );
        noticed += usize::from(read.len() < all.len() || restarted);
    }
    assert!(noticed > 20, "{noticed}");
}

#[test]
fn a_later_version_and_a_foreign_file_are_reported_and_not_changed() {
    let Small {
        bytes, all, name, ..
    } = small();
    let mut newer = bytes.clone();
    newer[8] = 99;
    for (strange, word) in [
        (newer, "format 99"),
        (b"my own notes".to_vec(), "not a segment of a record"),
        (Vec::new(), "not a segment of a record"),
    ] {
        let folder = TempDir::new().expect("a folder");
        let path = folder.path().join("00000007-20270115T080000Z.segment");
        fs::write(&path, &strange).expect("is written");
        for place in [folder.path(), &path] {
            let fault = Archive::open(place).err().expect("cannot be read");
            assert!(fault.to_string().contains(word), "{fault}");
        }
        // Beside good ones it is passed over, in words.
        fs::write(folder.path().join(&name), &bytes).expect("is written");
        let archive = Archive::open(folder.path()).expect("can be read");
        assert_eq!(everything(&archive), all);
        assert!(
            archive.warnings()[0].contains(word),
            "{:?}",
            archive.warnings()
        );
        // A recorder writes behind it, and deletes nothing that it cannot read.
        let mut small = options(folder.path());
        small.max_bytes = 1;
        let recorder = Recorder::open(small, at(500)).expect("can be recorded");
        recorder.close().expect("is written");
        assert_eq!(fs::read(&path).expect("is there"), strange);
    }
    let fault = Archive::open(Path::new("/nowhere/at/all"))
        .err()
        .expect("is not there");
    assert!(fault.to_string().contains("name a directory"), "{fault}");
    let folder = TempDir::new().expect("a folder");
    let fault = Archive::open(folder.path()).err().expect("is empty");
    assert!(fault.to_string().contains("stokehold record"), "{fault}");
}

#[test]
fn a_frame_that_goes_back_in_time_ends_its_segment() {
    let Small {
        mut bytes,
        steps,
        all,
        name,
    } = small();
    let [.., (last, count), _] = steps[..] else {
        panic!("has frames");
    };
    // The last frame with another span and a right checksum: magic, kind, then `from` and `to`; the checksum is at 44.
    let long_ago = at(0)
        .minus(Duration::from_secs(3600))
        .millis()
        .to_le_bytes();
    bytes[last + 8..last + 16].copy_from_slice(&long_ago);
    bytes[last + 16..last + 24].copy_from_slice(&long_ago);
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[last..last + 44]);
    hasher.update(&bytes[last + 48..]);
    bytes[last + 44..last + 48].copy_from_slice(&hasher.finalize().to_le_bytes());
    let folder = TempDir::new().expect("a folder");
    fs::write(folder.path().join(name), &bytes).expect("is written");
    let archive = Archive::open(folder.path()).expect("can be read");
    assert!(archive.start() <= archive.end());
    assert_eq!(everything(&archive), all[..count]);
    assert!(
        archive.warnings()[0].contains("left out"),
        "{:?}",
        archive.warnings()
    );
}
