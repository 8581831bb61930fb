//! Delivery state of `watch` on disk, so that a restart sends nothing twice: one directory per cluster, locked by one process.

use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use model::base::{Exit, Failure};
use settings::Settings;
use source::local;
use table::notify::{SavedDelivery, read_saved, saved_text};

use crate::runtime::records::recorder;

/// Name of the delivery state's file.
const STATE_FILE: &str = "notified.json";

/// The directory for the delivery state of a context. `None` when the user has no home directory.
pub fn directory_of(settings: &Settings, context: &str) -> Option<PathBuf> {
    let folder = settings.state_dir.as_deref()?;
    Some(folder.join("watch").join(recorder::folder_of(context)))
}

/// The delivery state on disk. While this value exists, the lock keeps other processes out of the directory.
pub struct DeliveryState {
    path: PathBuf,
    cluster: String,
    _lock: File,
}

impl DeliveryState {
    /// Locks the directory and reads its state for this cluster, identified by its UID or, where that is unknown, by its context;
    /// also returns a message for the log, if any.
    ///
    /// # Errors
    /// The directory cannot be written, or another process has locked it.
    pub fn open(
        folder: &Path,
        uid: &str,
        context: &str,
    ) -> Result<(Self, Vec<SavedDelivery>, Option<String>), Failure> {
        let failed = |words: String| Failure::new(Exit::Failed, words);
        let io_error = |what: &str, path: &Path, error: &dyn std::fmt::Display| {
            failed(format!("cannot {what} {}: {error}", path.display()))
        };
        local::make_folder(folder).map_err(|error| io_error("make", folder, &error))?;
        let path = folder.join("lock");
        let options = local::private()
            .write(true)
            .create(true)
            .truncate(false)
            .to_owned();
        let lock = options
            .open(&path)
            .map_err(|error| io_error("write", &path, &error))?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => failed(format!(
                "another process uses {}: stop that process, or give another directory (--dir)",
                folder.display()
            )),
            TryLockError::Error(error) => io_error("lock", &path, &error),
        })?;
        let state = Self {
            path: folder.join(STATE_FILE),
            cluster: if uid.is_empty() { context } else { uid }.to_owned(),
            _lock: lock,
        };
        let (saved, notice) = state.read()?;
        Ok((state, saved, notice))
    }

    fn read(&self) -> Result<(Vec<SavedDelivery>, Option<String>), Failure> {
        let path = &self.path;
        let text = match local::read_text(path) {
            Ok(text) => Ok(text),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Default::default()),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                let words = format!("cannot read {}: {error}", path.display());
                return Err(Failure::new(Exit::Failed, words));
            }
            Err(error) => Err(error.to_string()),
        };
        let read = text.and_then(|text| read_saved(&text, &self.cluster));
        let (why, suffix) = match read {
            Ok(Some(saved)) => return Ok((saved, None)),
            Ok(None) => ("belongs to another cluster".to_owned(), "other"),
            Err(why) => (format!("cannot be used ({why})"), "damaged"),
        };
        let renamed = path.with_extension(format!("json.{suffix}"));
        fs::rename(path, &renamed).map_err(|error| {
            let words = format!("{} {why}, and cannot be renamed: {error}", path.display());
            Failure::new(Exit::Failed, words)
        })?;
        let notice = format!(
            "{} {why}. It was renamed to {}; every finding is sent again",
            path.display(),
            renamed.display()
        );
        Ok((Vec::new(), Some(notice)))
    }

    /// Replaces the saved state as a whole.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, saved: Vec<SavedDelivery>) -> Result<(), String> {
        let text = saved_text(&self.cluster, saved);
        let temporary = self.path.with_extension("json.part");
        local::replace(&self.path, &temporary, text.as_bytes())
            .map_err(|error| format!("cannot write {}: {error}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_directory_has_one_process_and_one_cluster_and_a_damaged_file_is_renamed() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path().join("watch");
        let saved = SavedDelivery {
            receiver: "pager".into(),
            ..SavedDelivery::default()
        };
        let (state, before, notice) = DeliveryState::open(&folder, "u-1", "prod").expect("is new");
        assert_eq!((before, notice), (Vec::new(), None));
        let other = DeliveryState::open(&folder, "u-1", "prod")
            .err()
            .expect("is taken");
        assert!(
            other.message.contains("another process"),
            "{}",
            other.message
        );
        state.write(vec![saved.clone()]).expect("is written");
        let path = folder.join(STATE_FILE);
        let mode = fs::metadata(&path).expect("is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        drop(state);
        let (state, before, notice) = DeliveryState::open(&folder, "u-1", "prod").expect("is read");
        assert_eq!((before, notice), (vec![saved], None));
        drop(state);
        let (state, before, notice) =
            DeliveryState::open(&folder, "u-2", "prod").expect("is another's");
        assert_eq!(before, Vec::new());
        assert!(notice.expect("is said").contains("another cluster"));
        drop(state);
        // A truncated file.
        fs::write(&path, "{\"version\":1,\"cluster\":\"u-1\",\"rec").expect("is written");
        let (state, before, notice) = DeliveryState::open(&folder, "u-1", "prod").expect("goes on");
        assert_eq!(before, Vec::new());
        assert!(notice.expect("is said").contains("notified.json.damaged"));
        assert!(folder.join("notified.json.damaged").is_file());
        drop(state);
        fs::write(&path, "{\"version\":2}").expect("is written");
        let (state, _, notice) = DeliveryState::open(&folder, "u-1", "prod").expect("goes on");
        assert!(notice.expect("is said").contains("version 2"));
        fs::remove_dir_all(&folder).expect("is removed");
        let why = state.write(Vec::new()).expect_err("has no place");
        assert!(why.starts_with("cannot write "), "{why}");
    }
}
