//! File of silenced and acknowledged findings: read at startup, written on each change.

use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use model::base::Moment;
use settings::Settings;
use source::local;
use table::silence::{SilenceEntry, Silences};

/// Path of the file of silences: in the state directory, never with the settings; `None` for a user without a home directory.
pub fn file_path(settings: &Settings) -> Option<PathBuf> {
    let folder = settings.state_dir.as_deref()?;
    Some(folder.join("alerts.json"))
}

fn text(path: &Path) -> io::Result<String> {
    match local::read_text(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        other => other,
    }
}

/// The silences of `context`; empty if the file cannot be read.
pub fn load(path: Option<&Path>, context: &str) -> Silences {
    let Some(path) = path else {
        return Silences::default();
    };
    let read = text(path)
        .map_err(|error| error.to_string())
        .and_then(|text| Silences::read(&text, context));
    read.unwrap_or_else(|error| {
        tracing::warn!(path = %path.display(), %error, "alerts that were muted are not known");
        Silences::default()
    })
}

/// Writes one change. Safe with several consoles: each takes a lock, reads the file again and replaces it as a whole.
///
/// # Errors
/// The file cannot be locked, read or written.
pub fn save(
    path: &Path,
    context: &str,
    id: &str,
    entry: Option<SilenceEntry>,
    now: Moment,
) -> Result<(), String> {
    let failed = |error: io::Error| format!("cannot write {}: {error}", path.display());
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    local::make_folder(folder).map_err(failed)?;
    let mut options = local::private();
    options.write(true).create(true).truncate(false);
    let lock = options.open(path.with_extension("lock")).map_err(failed)?;
    lock.lock().map_err(failed)?;
    let before = text(path).map_err(failed)?;
    let after = Silences::written(&before, context, id, entry, now)
        .map_err(|error| format!("{} is left as it is: {error}", path.display()))?;
    local::replace(path, &path.with_extension("part"), after.as_bytes()).map_err(failed)
}

/// The log of silences in the directory of a record.
const LOG: &str = "silences.jsonl";

/// Most bytes of the log that are read; an entry has about a hundred.
const LARGEST: u64 = 8 << 20;

/// The text of the log in the directory of a record; empty where there is none or it cannot be read.
pub(super) fn log_of(folder: &Path) -> String {
    let mut text = String::new();
    if let Ok(file) = local::private().read(true).open(folder.join(LOG))
        && let Err(error) = file.take(LARGEST).read_to_string(&mut text)
    {
        tracing::warn!(%error, folder = %folder.display(), "the alerts muted in the record are not known");
    }
    text
}

/// Appends lines to the log in the directory of a record. Safe with several consoles: each appends whole lines.
///
/// # Errors
/// The log cannot be written.
fn add_to_log(folder: &Path, lines: &str) -> Result<(), String> {
    let path = folder.join(LOG);
    let failed = |error: io::Error| format!("cannot write {}: {error}", path.display());
    let mut options = local::private();
    let mut file = options
        .append(true)
        .create(true)
        .open(&path)
        .map_err(failed)?;
    file.write_all(lines.as_bytes()).map_err(failed)
}

/// Logs a change of one finding's silence at `now`; `None` removed it.
///
/// # Errors
/// The log cannot be written.
pub(super) fn log(
    folder: &Path,
    id: &str,
    entry: Option<SilenceEntry>,
    now: Moment,
) -> Result<(), String> {
    let at = entry.map_or(now, |entry| entry.at);
    add_to_log(
        folder,
        &Silences::logged(id, entry.map(|entry| entry.silence), at),
    )
}

/// Logs the silences that existed before the record was begun.
///
/// # Errors
/// The log cannot be written.
pub(super) fn log_all(folder: &Path, silences: &Silences, now: Moment) -> Result<(), String> {
    let known = Silences::by_log(&log_of(folder), now);
    let new = silences.iter().filter(|(id, entry)| {
        // The log has times to the second.
        let logged = known.entry(id);
        logged.is_none_or(|logged| logged.silence != entry.silence)
    });
    let lines = new.map(|(id, entry)| Silences::logged(id, Some(entry.silence), entry.at));
    match lines.collect::<String>() {
        none if none.is_empty() => Ok(()),
        lines => add_to_log(folder, &lines),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use model::base::Name;
    use table::silence::Silence;

    #[test]
    fn mutes_are_recorded_with_their_time() {
        let folder = tempfile::TempDir::new().expect("a temporary folder");
        let at = |second: i64| Moment::from_seconds(1_800_000_000 + second);
        let muted = |second| {
            Some(SilenceEntry {
                silence: Silence::Muted,
                at: at(second),
            })
        };
        let mut before = Silences::default();
        before.set(Name::new("a"), muted(1));
        // Silences from before the record was begun are logged once.
        for _ in 0..2 {
            log_all(folder.path(), &before, at(5)).expect("is written");
        }
        log(folder.path(), "b", muted(7), at(7)).expect("is written");
        log(folder.path(), "a", None, at(9)).expect("is written");
        let text = log_of(folder.path());
        assert_eq!(text.lines().count(), 3, "{text}");
        let known = |second| {
            let silences = Silences::by_log(&text, at(second));
            let ids = silences.iter().map(|(id, _)| id.to_string());
            ids.collect::<Vec<_>>()
        };
        assert_eq!(
            [known(0), known(8), known(9)],
            [
                vec![],
                vec!["a".to_owned(), "b".to_owned()],
                vec!["b".to_owned()]
            ]
        );
        assert_eq!(log_of(&folder.path().join("none")), "");
    }

    #[test]
    fn what_is_saved_is_loaded_and_a_strange_file_is_left_alone() {
        let folder = tempfile::TempDir::new().expect("a temporary folder");
        let path = folder.path().join("deep").join("alerts.json");
        let at = Moment::from_seconds(1_800_000_000);
        let entry = SilenceEntry {
            silence: Silence::Muted,
            at,
        };
        save(&path, "prod", "xid-79 n/gpu3", Some(entry), at).expect("is written");
        let mut wanted = Silences::default();
        wanted.set(Name::new("xid-79 n/gpu3"), Some(entry));
        assert_eq!(load(Some(&path), "prod"), wanted);
        assert_eq!(load(Some(&path), "lab"), Silences::default());
        fs::write(&path, "mine").expect("is written");
        assert!(save(&path, "prod", "a", None, at).is_err());
        assert_eq!(fs::read_to_string(&path).expect("is there"), "mine");
        assert_eq!(load(Some(&path), "prod"), Silences::default());
    }

    #[test]
    fn consoles_that_mute_at_once_lose_nothing() {
        let folder = tempfile::TempDir::new().expect("a temporary folder");
        let path = folder.path().join("alerts.json");
        let at = Moment::from_seconds(1_800_000_000);
        let entry = SilenceEntry {
            silence: Silence::Muted,
            at,
        };
        std::thread::scope(|scope| {
            for console in 0..4 {
                let path = &path;
                scope.spawn(move || {
                    for finding in 0..10 {
                        let id = format!("xid-79 n{console}/gpu{finding}");
                        save(path, "prod", &id, Some(entry), at).expect("is written");
                    }
                });
            }
        });
        assert_eq!(load(Some(&path), "prod").iter().count(), 40);
    }

    #[test]
    fn what_was_muted_is_its_owners_alone_and_no_link_leads_elsewhere() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::TempDir::new().expect("a temporary folder");
        let path = folder.path().join("state").join("alerts.json");
        let at = Moment::from_seconds(1_800_000_000);
        let entry = SilenceEntry {
            silence: Silence::Muted,
            at,
        };
        save(&path, "prod", "a", Some(entry), at).expect("is written");
        let mode = |path: &Path| fs::metadata(path).expect("is there").permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().expect("a folder")), 0o700);
        let elsewhere = folder.path().join("elsewhere");
        fs::write(&elsewhere, "mine").expect("is written");
        for name in ["alerts.part", "alerts.lock"] {
            let link = path.with_file_name(name);
            let _ = fs::remove_file(&link);
            symlink(&elsewhere, &link).expect("is linked");
            assert!(save(&path, "prod", "b", Some(entry), at).is_err(), "{name}");
            fs::remove_file(&link).expect("is removed");
        }
        symlink(&elsewhere, folder.path().join(LOG)).expect("is linked");
        assert!(log(folder.path(), "b", Some(entry), at).is_err());
        assert_eq!(log_of(folder.path()), "");
        assert_eq!(fs::read_to_string(&elsewhere).expect("is there"), "mine");
    }
}
