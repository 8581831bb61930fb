//! The file that keeps which findings were muted or acknowledged: read at the start, written at each change.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use model::base::Moment;
use source::local;
use table::silence::{Entry, Silences};

/// Where it is kept on this machine: with the state of programs, never with settings.
pub fn place() -> Option<PathBuf> {
    let own = directories::ProjectDirs::from("", "", "stokehold")?;
    let folder = own.state_dir().unwrap_or_else(|| own.data_local_dir());
    Some(folder.join("alerts.json"))
}

fn text(path: &Path) -> io::Result<String> {
    match local::read_text(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        other => other,
    }
}

/// What was done with the findings of `context`; a file that cannot be read hushes nothing.
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

/// Writes one change. Another console may have written meanwhile: the file is read anew, and replaced as a whole.
///
/// # Errors
/// What is in the way, in words.
pub fn save(
    path: &Path,
    context: &str,
    id: &str,
    entry: Option<Entry>,
    now: Moment,
) -> Result<(), String> {
    let said = |error: io::Error| format!("cannot write {}: {error}", path.display());
    let before = text(path).map_err(said)?;
    let after = Silences::written(&before, context, id, entry, now)
        .map_err(|error| format!("{} is left as it is: {error}", path.display()))?;
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    fs::create_dir_all(folder).map_err(said)?;
    let part = path.with_extension(format!("part-{}", std::process::id()));
    let mut file = fs::File::create(&part).map_err(said)?;
    file.write_all(after.as_bytes()).map_err(said)?;
    file.sync_all().map_err(said)?;
    fs::rename(&part, path).map_err(said)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::base::Name;
    use table::silence::Silence;

    #[test]
    fn what_is_saved_is_loaded_and_a_strange_file_is_left_alone() {
        let folder = tempfile::TempDir::new().expect("a temporary folder");
        let path = folder.path().join("deep").join("alerts.json");
        let at = Moment::from_seconds(1_800_000_000);
        let entry = Entry {
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
}
