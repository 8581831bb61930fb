//! Errors of the usage ledger's file: what failed, where, and how to repair it.

use std::fmt;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

/// Why the usage ledger cannot be written or read.
#[derive(Debug)]
pub enum UsageFault {
    /// The file does not exist.
    Absent(PathBuf),
    /// The file is not a usage ledger.
    Foreign(PathBuf),
    /// Written by a later version, with this table version.
    Newer(PathBuf, i64),
    /// An SQLite error: the operation, the path, the error.
    Sql(&'static str, PathBuf, rusqlite::Error),
    /// An I/O error: the operation, the path, the error.
    Io(&'static str, PathBuf, std::io::Error),
}

impl UsageFault {
    pub(super) fn sql<'a>(
        what: &'static str,
        path: &'a Path,
    ) -> impl Fn(rusqlite::Error) -> Self + 'a {
        move |error| match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => Self::Foreign(path.to_owned()),
            _ => Self::Sql(what, path.to_owned(), error),
        }
    }
}

impl fmt::Display for UsageFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent(path) => write!(
                f,
                "there is no usage ledger at {}: start one with `stokehold record`",
                path.display()
            ),
            Self::Foreign(path) => write!(
                f,
                "{} is not a usage ledger: move it away, or give another directory (--dir, or record.dir in the settings)",
                path.display()
            ),
            Self::Newer(path, version) => write!(
                f,
                "{} has version {version}, this program reads up to {}: use a later stokehold",
                path.display(),
                super::store::VERSION
            ),
            Self::Sql(what, path, error) => {
                let mend = match error.sqlite_error_code() {
                    Some(ErrorCode::DiskFull) => "; make room on the disk",
                    Some(
                        ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied,
                    ) => {
                        "; give a directory that you may write to (--dir, or record.dir in the settings)"
                    }
                    Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                        "; another program holds it: end its transaction"
                    }
                    Some(ErrorCode::DatabaseCorrupt) => {
                        "; move it away: it is rebuilt from the record"
                    }
                    _ => "",
                };
                write!(f, "cannot {what} {}: {error}{mend}", path.display())
            }
            Self::Io(what, path, error) => {
                write!(
                    f,
                    "cannot {what} {}: {error}; look at the rights of its directory",
                    path.display()
                )
            }
        }
    }
}

impl std::error::Error for UsageFault {}
