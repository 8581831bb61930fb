//! Who writes, how much is kept, and what happens when the directory or the clock misbehaves.

use std::fs;

use tempfile::TempDir;

use super::*;

fn names(folder: &Path) -> Vec<String> {
    let mut all: Vec<String> = fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .filter(|name| name.ends_with(".segment"))
        .collect();
    all.sort();
    all
}

#[test]
fn one_writes_and_many_read_meanwhile() {
    let folder = TempDir::new().expect("a folder");
    let mut first = recorder(folder.path(), START);
    let fault = Recorder::open(options(folder.path()), START)
        .err()
        .expect("is locked");
    assert!(matches!(fault, RecordFault::Locked(_)), "{fault}");
    assert!(
        fault.to_string().contains("another process records into"),
        "{fault}"
    );
    for round in 0..5 {
        first.see(at(round * 10), &node(&format!("n{round}"), false));
        flush(&mut first, at(round * 10));
        let readers = [(); 2].map(|()| Archive::open(folder.path()).expect("can be read"));
        for reader in readers {
            assert_eq!(known(&reader, at(round * 10)).len(), round as usize + 1);
        }
    }
    drop(first);
    // It has ended: the next one may.
    recorder(folder.path(), at(200))
        .close()
        .expect("is written");
    let archive = Archive::open(folder.path()).expect("can be read");
    let restarts = everything(&archive)
        .iter()
        .filter(|one| one.starts_with("restart"))
        .count();
    assert_eq!(restarts, 1);
    // Nobody recorded in between, and that is known.
    assert_eq!(archive.gap_at(at(150)), Some((at(40), at(200))));
    for covered in [0, 35, 60, 200] {
        assert_eq!(archive.gap_at(at(covered)), None, "{covered}");
    }
}

#[cfg(unix)]
#[test]
fn it_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = TempDir::new().expect("a folder");
    let place = folder.path().join("deep/record");
    recorder(&place, START).close().expect("is written");
    let mode = |path: &Path| fs::metadata(path).expect("is there").permissions().mode() & 0o777;
    assert_eq!(mode(&place), 0o700);
    for name in names(&place) {
        assert_eq!(mode(&place.join(name)), 0o600);
    }
}

#[test]
fn a_directory_holds_one_cluster() {
    let folder = TempDir::new().expect("a folder");
    recorder(folder.path(), START).close().expect("is written");
    let with = |cluster: &str, context: &str| {
        let mut other = options(folder.path());
        other.cluster = cluster.to_owned();
        other.context = context.to_owned();
        Recorder::open(other, at(10)).map(drop)
    };
    let fault = with("ffff", "prod").expect_err("is another one");
    assert!(
        fault
            .to_string()
            .contains("the record of cluster prod (0b1e), not of prod (ffff)"),
        "{fault}"
    );
    assert!(
        with("", "lab").is_err(),
        "by its name, where the UID may not be read"
    );
    with("", "prod").expect("by its name");
    with("0b1e", "prod-renamed").expect("a renamed context is the same cluster");
}

#[test]
fn a_clock_that_goes_back_begins_a_segment_and_the_later_record_counts() {
    let folder = TempDir::new().expect("a folder");
    let mut recorder = recorder(folder.path(), at(0));
    recorder.see(at(1), &node("before", false));
    // A second or two only stand still.
    recorder.see(at(0), &node("waver", false));
    flush(&mut recorder, at(10));
    assert_eq!(names(folder.path()).len(), 1);
    recorder.see(at(100), &node("late", false));
    flush(&mut recorder, at(100));
    recorder.see(at(50), &node("again", false));
    flush(&mut recorder, at(50));
    recorder.see(at(60), &node("after", false));
    recorder.close().expect("is written");
    assert_eq!(names(folder.path()).len(), 2);
    let archive = Archive::open(folder.path()).expect("can be read");
    assert_eq!(known(&archive, at(30)), ["before", "waver"]);
    assert_eq!(
        known(&archive, at(60)),
        ["after", "again", "before", "late", "waver"]
    );
    let all = everything(&archive);
    let stamped = |name: &str| {
        all.iter()
            .filter(|one| one.contains(&format!("\"{name}\"")))
            .count()
    };
    for name in ["before", "late", "after"] {
        assert_eq!(stamped(name), 1, "{name} stands once: {all:#?}");
    }
}

#[test]
fn the_oldest_segments_go_by_age_and_by_size_and_the_present_one_stays() {
    let folder = TempDir::new().expect("a folder");
    let mut narrow = options(folder.path());
    for start in [0, 1000, 2000, 3000] {
        let mut recorder = Recorder::open(narrow.clone(), at(start)).expect("can be recorded");
        recorder.see(at(start + 1), &node(&format!("n{start}"), false));
        recorder.close().expect("is written");
    }
    assert_eq!(names(folder.path()).len(), 4);
    // The first ended when the second began: 3000 s before.
    narrow.keep = Duration::from_secs(2500);
    drop(Recorder::open(narrow.clone(), at(4000)).expect("can be recorded"));
    assert_eq!(names(folder.path())[0][..8], *"00000002");
    assert_eq!(names(folder.path()).len(), 4);
    let one = fs::metadata(folder.path().join(&names(folder.path())[0]))
        .expect("is there")
        .len();
    narrow.max_bytes = one * 3;
    drop(Recorder::open(narrow.clone(), at(4100)).expect("can be recorded"));
    let left = names(folder.path());
    assert!((2..=4).contains(&left.len()), "{left:?}");
    narrow.max_bytes = 1;
    drop(Recorder::open(narrow, at(4200)).expect("can be recorded"));
    assert_eq!(names(folder.path()).len(), 1);
}

#[test]
fn a_directory_that_goes_away_loses_what_comes_meanwhile_and_nothing_else() {
    let folder = TempDir::new().expect("a folder");
    let place = folder.path().join("record");
    let aside = folder.path().join("aside");
    let mut recorder = recorder(&place, START);
    recorder.see(at(1), &node("a", false));
    flush(&mut recorder, at(10));
    fs::rename(&place, &aside).expect("goes away");
    // The clock goes back, so a segment is to begin: there is no place for it.
    recorder.see(at(5), &node("b", false));
    let fault = recorder
        .flush(at(5), Saved::default)
        .expect_err("cannot be written");
    assert!(matches!(fault, RecordFault::Io(..)), "{fault}");
    recorder.see(at(15), &node("c", false));
    recorder
        .flush(at(16), Saved::default)
        .expect_err("still not");
    fs::rename(&aside, &place).expect("comes back");
    recorder.see(at(25), &node("d", true));
    flush(&mut recorder, at(26));
    recorder.close().expect("is written");
    let archive = Archive::open(&place).expect("can be read");
    assert_eq!(known(&archive, at(3)), ["a"]);
    assert_eq!(archive.gap_at(at(20)), None, "too short to speak of");
    assert_eq!(known(&archive, at(27)), ["a", "b", "c", "d cordoned"]);
}
