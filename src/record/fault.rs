//! Errors of a record: what failed, where, and how to repair it.

use std::path::{Path, PathBuf};
use std::{fmt, io};

/// What is wrong with a file or one of its frames.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Damage {
    /// The file does not start like a segment.
    Foreign,
    /// Written by a later version, with this format version.
    Newer(u16),
    /// A frame does not match its checksum or format.
    Frame(&'static str),
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign => f.write_str("it is not a segment of a record"),
            Self::Newer(version) => write!(f, "its format is {version}"),
            Self::Frame(why) => f.write_str(why),
        }
    }
}

/// Why a record cannot be written or read.
#[derive(Debug)]
pub enum RecordFault {
    /// Another process writes to the same directory.
    Locked(PathBuf),
    /// The directory contains another cluster's record.
    OtherCluster {
        folder: PathBuf,
        /// Context and UID of the recorded cluster.
        held: String,
        /// Context and UID of the cluster that should be recorded.
        wanted: String,
    },
    /// There is no segment.
    Empty(PathBuf),
    /// The file is not a segment.
    Foreign(PathBuf),
    /// The file was written by a later version.
    Newer(PathBuf, u16),
    /// The requested frame is damaged.
    Damaged(PathBuf, String),
    /// Nothing was recorded at or before the requested time.
    Before {
        /// The requested time, RFC 3339.
        asked: String,
        /// First time in the record, RFC 3339.
        first: String,
    },
    /// An I/O error: the operation, the path, the error.
    Io(&'static str, PathBuf, io::Error),
}

impl RecordFault {
    /// True if nothing was recorded there: the directory does not exist, or holds no segment.
    pub fn is_absent(&self) -> bool {
        match self {
            Self::Empty(_) => true,
            Self::Io(_, _, error) => error.kind() == io::ErrorKind::NotFound,
            _ => false,
        }
    }

    pub(crate) fn io<'a>(
        what: &'static str,
        path: &'a Path,
    ) -> impl Fn(io::Error) -> RecordFault + 'a {
        move |error| Self::Io(what, path.to_owned(), error)
    }

    pub(crate) fn of(path: &Path, damage: Damage) -> Self {
        match damage {
            Damage::Foreign => Self::Foreign(path.to_owned()),
            Damage::Newer(version) => Self::Newer(path.to_owned(), version),
            Damage::Frame(why) => Self::Damaged(path.to_owned(), why.to_owned()),
        }
    }
}

impl fmt::Display for RecordFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Locked(folder) => write!(
                f,
                "another process records into {}: stop it, or give another directory (--dir, or record.dir in the settings)",
                folder.display()
            ),
            Self::OtherCluster {
                folder,
                held,
                wanted,
            } => write!(
                f,
                "{} holds the record of cluster {held}, not of {wanted}: give another directory (--dir, or record.dir in the settings)",
                folder.display()
            ),
            Self::Empty(path) => write!(
                f,
                "{} holds no record: start one with `stokehold record`, or name its directory",
                path.display()
            ),
            Self::Foreign(path) => write!(
                f,
                "{} is not a segment of a record: name a directory that `stokehold record` wrote, or a .segment file of it",
                path.display()
            ),
            Self::Newer(path, version) => write!(
                f,
                "{} has format {version}, this version reads up to {}: read it with a later stokehold",
                path.display(),
                super::VERSION
            ),
            Self::Damaged(path, why) => write!(
                f,
                "{} is damaged ({why}): ask for a moment before or after it",
                path.display()
            ),
            Self::Before { asked, first } => {
                write!(
                    f,
                    "nothing was recorded at {asked}: the record begins at {first}"
                )
            }
            Self::Io(what, path, error) => {
                let mend = match error.kind() {
                    io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                        "; make room, or keep less (keep, max_size)"
                    }
                    io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                        "; give a directory that you may write to (--dir, or record.dir in the settings)"
                    }
                    io::ErrorKind::NotFound if what.starts_with("read") => {
                        "; run `stokehold record`, or name a directory that it wrote"
                    }
                    _ => "",
                };
                write!(f, "cannot {what} {}: {error}{mend}", path.display())
            }
        }
    }
}

impl std::error::Error for RecordFault {}
