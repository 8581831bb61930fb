//! Temporary directories of sessions.

use std::io;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tempfile::{Builder, TempDir};

/// The temporary directories of this process. Each is removed with its last holder, and by [`Scratch::clear`] where the process ends
/// without dropping the holders.
#[derive(Clone, Default)]
pub struct Scratch(Arc<Mutex<Vec<Weak<TempDir>>>>);

impl Scratch {
    /// Makes a directory with this prefix.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) fn folder(&self, prefix: &str) -> io::Result<Arc<TempDir>> {
        let folder = Arc::new(Builder::new().prefix(prefix).tempdir()?);
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.push(Arc::downgrade(&folder));
        Ok(folder)
    }

    /// Removes the directories that are still there, as far as the system allows it.
    pub(crate) fn clear(&self) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for folder in known.drain(..).filter_map(|folder| folder.upgrade()) {
            let _ = std::fs::remove_dir_all(folder.path());
        }
    }
}
