//! The journal on disk: append-only JSON lines that only their owner may read.
//!
//! Each line is written with one write and synced before the run continues. A crash can truncate the last line: the next writer
//! starts a new line, and readers skip unreadable lines and count them. A file that has grown large is renamed and kept. Each
//! run holds a lock file while its process lives, so that no second process resumes a run that is still being carried out.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use model::base::{Moment, SmallSort};
use source::local::{make_folder, private};

use super::blocking;
use super::record::{JournalLine, Record};
use super::run::is_name_of_run;

/// Size from which a file is renamed when the next run begins, bytes.
const LARGE: u64 = 8 << 20;

#[derive(Clone, Debug)]
pub struct Journal {
    folder: PathBuf,
    large: u64,
}

/// Lines read from the journal.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Pages {
    /// In the order in which they were written.
    pub lines: Vec<JournalLine>,
    /// Number of unreadable lines: truncated by a crash, or written by a later version.
    pub unreadable: usize,
}

/// An I/O failure: the file, the operation, and how to repair it.
#[derive(Debug)]
pub struct JournalFault {
    path: PathBuf,
    what: &'static str,
    error: io::Error,
}

impl std::fmt::Display for JournalFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "the journal {} cannot be {} ({}); nothing is changed without a journal: make room or set journal_dir",
            self.path.display(),
            self.what,
            self.error
        )
    }
}

impl std::error::Error for JournalFault {}

fn fault<'a>(path: &'a Path, what: &'static str) -> impl Fn(io::Error) -> JournalFault + 'a {
    move |error| JournalFault {
        path: path.to_owned(),
        what,
        error,
    }
}

/// Opens a journal file. Fails if other users could have written to it, and removes their read permission.
fn guarded(options: &OpenOptions, path: &Path) -> io::Result<File> {
    let no = |words: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, words));
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt, PermissionsExt};
        let file = match options.open(path) {
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
                return no("it is a symbolic link, and links are not followed".to_owned());
            }
            opened => opened?,
        };
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return no("it is not a regular file".to_owned());
        }
        if metadata.uid() != rustix::process::geteuid().as_raw() {
            return no(format!("it belongs to another user, {}", metadata.uid()));
        }
        let mode = metadata.mode() & 0o777;
        if mode & 0o022 != 0 {
            return no(format!(
                "other users than its owner may write to it, mode {mode:o}; check its contents, then chmod 600"
            ));
        }
        if mode & 0o077 != 0 {
            file.set_permissions(fs::Permissions::from_mode(0o600))?;
        }
        Ok(file)
    }
    #[cfg(not(unix))]
    {
        let file = options.open(path)?;
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => no("it is not a regular file".to_owned()),
        }
    }
}

/// Refuses a folder in which other users may remove or replace files.
#[cfg(unix)]
fn closed(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let metadata = fs::metadata(folder)?;
    let mode = metadata.mode() & 0o7777;
    let foreign = ![0, rustix::process::geteuid().as_raw()].contains(&metadata.uid());
    let why = if foreign {
        format!("it belongs to another user, {}", metadata.uid())
    } else if mode & 0o022 != 0 && mode & 0o1000 == 0 {
        format!("other users than its owner may replace files in it, mode {mode:o}; chmod 700")
    } else {
        return Ok(());
    };
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

#[cfg(not(unix))]
fn closed(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Locks the file of a run. Who asks whether it is running holds a shared lock for a moment.
fn lock_run(file: &File) -> Result<(), TryLockError> {
    for _ in 0..20 {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => {
                blocking(|| std::thread::sleep(Duration::from_millis(5)));
            }
            other => return other,
        }
    }
    file.try_lock()
}

impl Journal {
    /// The journal in this folder. The folder is created with the first line.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            large: LARGE,
        }
    }

    /// Sets the size from which a file is renamed, bytes.
    #[must_use]
    pub fn renamed_from(mut self, large: u64) -> Self {
        self.large = large;
        self
    }

    /// The file to which lines are appended.
    pub fn path(&self) -> PathBuf {
        self.folder.join("journal.jsonl")
    }

    /// Length in bytes and modification time of the current file, to detect new lines. `None` if the file does not exist.
    pub fn stamp(&self) -> Option<(u64, SystemTime)> {
        let about = fs::metadata(self.path()).ok()?;
        Some((about.len(), about.modified().ok()?))
    }

    /// Opens the journal to write the lines of one run and locks that run.
    ///
    /// # Errors
    /// The folder or file cannot be written, or another process carries out the run.
    pub fn open(&self, run: &str, now: Moment) -> Result<JournalWriter, JournalFault> {
        let runs = self.folder.join("runs");
        if !is_name_of_run(run) {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "not the name of a run");
            return Err(fault(&runs, "used")(error));
        }
        make_folder(&runs).map_err(fault(&self.folder, "made"))?;
        for folder in [&self.folder, &runs] {
            closed(folder).map_err(fault(folder, "used"))?;
        }
        let lock_path = runs.join(format!("{run}.lock"));
        let mut options = private();
        options.create(true).truncate(false).write(true);
        let lock = guarded(&options, &lock_path).map_err(fault(&lock_path, "opened"))?;
        lock_run(&lock).map_err(|error| match error {
            TryLockError::WouldBlock => fault(
                &lock_path,
                "locked: another process carries out this run",
            )(io::ErrorKind::WouldBlock.into()),
            TryLockError::Error(error) => fault(&lock_path, "locked")(error),
        })?;
        let path = self.path();
        self.rename_large(&path, now)
            .map_err(fault(&path, "renamed"))?;
        let mut options = private();
        options.create(true).read(true).append(true);
        let mut file = guarded(&options, &path).map_err(fault(&path, "opened"))?;
        mend(&mut file).map_err(fault(&path, "written"))?;
        Ok(JournalWriter {
            run: run.to_owned(),
            path,
            file,
            lock_path,
            _lock: lock,
        })
    }

    /// True while a process carries out this run.
    pub fn is_running(&self, run: &str) -> bool {
        if !is_name_of_run(run) {
            return false;
        }
        let path = self.folder.join("runs").join(format!("{run}.lock"));
        guarded(private().write(true), &path)
            .is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    fn rename_large(&self, path: &Path, now: Moment) -> io::Result<()> {
        let mut options = private();
        options.create(true).truncate(false).write(true);
        let gate = guarded(&options, &self.folder.join("journal.lock"))?;
        gate.lock()?;
        let length = match fs::symlink_metadata(path) {
            Ok(metadata) => metadata.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        if length < self.large {
            return Ok(());
        }
        let stamp: String = now
            .rfc3339()
            .chars()
            .filter(|c| c.is_ascii_alphanumeric())
            .collect();
        for count in 0..1000 {
            let old = self
                .folder
                .join(format!("journal-{stamp}-{count:03}.jsonl"));
            if !old.exists() {
                return fs::rename(path, old);
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// All journal files, oldest first.
    pub(super) fn files(&self) -> io::Result<Vec<PathBuf>> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut old = Vec::new();
        for entry in entries {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            if name.is_some_and(|name| name.starts_with("journal-") && name.ends_with(".jsonl")) {
                old.push(path);
            }
        }
        old.small_sort();
        old.extend(Some(self.path()).filter(|path| path.symlink_metadata().is_ok()));
        Ok(old)
    }

    /// Reads all files.
    ///
    /// # Errors
    /// An existing file cannot be read.
    pub fn read(&self) -> Result<Pages, JournalFault> {
        let mut pages = Pages::default();
        for path in self.files().map_err(|error| self.unread(error))? {
            let mut bytes = Vec::new();
            guarded(private().read(true), &path)
                .and_then(|mut file| file.read_to_end(&mut bytes))
                .map_err(fault(&path, "read"))?;
            pages.take(&bytes);
        }
        Ok(pages)
    }

    pub(super) fn unread(&self, error: io::Error) -> JournalFault {
        fault(&self.folder, "read")(error)
    }
}

impl Pages {
    /// Parses the lines of a file.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        for line in bytes.split(|byte| *byte == b'\n').filter(|l| !l.is_empty()) {
            match serde_json::from_slice(line) {
                Ok(line) => self.lines.push(line),
                Err(_) => self.unreadable += 1,
            }
        }
    }
}

/// Reads a journal file from offset `from` to its last complete line. Also returns the file's identity, because a rename can put
/// another file under the same name.
pub(super) fn rest(
    path: &Path,
    from: impl FnOnce(FileId) -> u64,
) -> Result<(FileId, u64, Vec<u8>), JournalFault> {
    let read = || {
        let mut file = guarded(private().read(true), path)?;
        let metadata = file.metadata()?;
        let id = file_id(&metadata);
        let mut bytes = Vec::new();
        let from = from(id);
        file.seek(SeekFrom::Start(from))?;
        file.read_to_end(&mut bytes)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n');
        bytes.truncate(whole.map_or(0, |at| at + 1));
        Ok((id, metadata.len(), bytes))
    };
    read().map_err(fault(path, "read"))
}

/// Identity of a file, independent of its name.
pub(super) type FileId = (u64, u64);

#[cfg(unix)]
fn file_id(metadata: &fs::Metadata) -> FileId {
    use std::os::unix::fs::MetadataExt;
    (metadata.dev(), metadata.ino())
}

#[cfg(not(unix))]
fn file_id(metadata: &fs::Metadata) -> FileId {
    let made = metadata.created().ok();
    let since = made.and_then(|made| made.duration_since(std::time::UNIX_EPOCH).ok());
    (0, since.map_or(0, |since| since.as_nanos() as u64))
}

/// Terminates a line that a crash truncated, so that the next line starts cleanly.
fn mend(file: &mut File) -> io::Result<()> {
    let length = file.metadata()?.len();
    if length == 0 {
        return Ok(());
    }
    let mut last = [0];
    file.seek(SeekFrom::Start(length - 1))?;
    file.read_exact(&mut last)?;
    if last != *b"\n" {
        file.write_all(b"\n")?;
    }
    Ok(())
}

/// Appends the lines of one run.
#[derive(Debug)]
pub struct JournalWriter {
    run: String,
    path: PathBuf,
    file: File,
    lock_path: PathBuf,
    /// Locked while the process carries out the run. The kernel releases the lock when the process ends, however it ends.
    _lock: File,
}

impl JournalWriter {
    pub fn run(&self) -> &str {
        &self.run
    }

    /// Appends a line. The line is on disk when this returns.
    ///
    /// # Errors
    /// The line cannot be written. The action that it records must then not be sent.
    pub fn write(&mut self, at: Moment, record: Record) -> Result<(), JournalFault> {
        let over = matches!(
            record,
            Record::End { .. } | Record::Behind { .. } | Record::NotStarted { .. }
        );
        let line = JournalLine {
            at,
            run: self.run.clone(),
            record,
        };
        let mut text = serde_json::to_vec(&line)
            .map_err(io::Error::other)
            .map_err(fault(&self.path, "written"))?;
        text.push(b'\n');
        let file = &mut self.file;
        // A disk may take long to sync: the screen is still drawn meanwhile.
        blocking(|| file.write_all(&text).and_then(|()| file.sync_data()))
            .map_err(fault(&self.path, "written"))?;
        if over {
            // A finished run cannot be resumed, so it needs no lock.
            let _ = fs::remove_file(&self.lock_path);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{RunEnd, StepResult};

    fn at(seconds: i64) -> Moment {
        Moment::from_millis(seconds * 1000 + 7)
    }

    fn over(step: u32) -> Record {
        Record::Finished {
            step,
            how: StepResult::Done,
            words: "well".into(),
        }
    }

    #[test]
    fn lines_come_back_in_order_over_renamed_files() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let journal = Journal::new(folder.path().join("state/deep")).renamed_from(200);
        assert_eq!(journal.read().expect("nothing yet"), Pages::default());
        for run in 0..5_u32 {
            let mut pen = journal.open(&format!("r{run}"), at(0)).expect("opens");
            pen.write(at(run.into()), over(run)).expect("written");
            pen.write(at(run.into()), over(run + 100)).expect("written");
            pen.write(at(9), Record::End { end: RunEnd::Done })
                .expect("written");
        }
        let pages = journal.read().expect("reads");
        assert_eq!((pages.lines.len(), pages.unreadable), (15, 0));
        let runs: Vec<&str> = pages.lines.iter().map(|line| line.run.as_str()).collect();
        assert!(runs.is_sorted(), "{runs:?}");
        assert_eq!(pages.lines[3].at, at(1));
        assert!(
            journal.files().expect("lists").len() > 2,
            "large files are kept"
        );
    }

    #[cfg(unix)]
    #[test]
    fn only_its_owner_may_read_it() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::TempDir::new().expect("a folder");
        let journal = Journal::new(folder.path().join("state"));
        let mut pen = journal.open("r", at(0)).expect("opens");
        pen.write(at(0), over(1)).expect("written");
        let mode = |path: &Path| fs::metadata(path).expect("is there").permissions().mode() & 0o777;
        assert_eq!(mode(&journal.path()), 0o600);
        assert_eq!(mode(&folder.path().join("state")), 0o700);
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_in_which_others_may_replace_files_is_not_used() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::TempDir::new().expect("a folder");
        let state = folder.path().join("state");
        let journal = Journal::new(&state);
        drop(journal.open("r", at(0)).expect("opens"));
        for loose in [state.clone(), state.join("runs")] {
            for (mode, is_used) in [
                (0o777, false),
                (0o770, false),
                (0o1777, true),
                (0o755, true),
            ] {
                fs::set_permissions(&loose, fs::Permissions::from_mode(mode)).expect("is ours");
                let opened = journal.open("s", at(0)).map(drop);
                assert_eq!(opened.is_ok(), is_used, "{} {mode:o}", loose.display());
                if let Err(refused) = opened {
                    let words = refused.to_string();
                    assert!(words.contains(&format!("mode {mode:o}")), "{words}");
                }
            }
            fs::set_permissions(&loose, fs::Permissions::from_mode(0o700)).expect("is ours");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_link_a_foreign_or_a_loose_file_is_not_used() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::TempDir::new().expect("a folder");
        let elsewhere = folder.path().join("elsewhere");
        fs::write(&elsewhere, "mine").expect("written");
        let journal = Journal::new(folder.path().join("state"));
        drop(journal.open("r", at(0)).expect("opens"));
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("is ours");
        };
        // Readable by others: permissions are tightened. Writable by others: refused, because others may have changed the
        // contents.
        mode(&journal.path(), 0o644);
        journal.read().expect("reads");
        let now = fs::metadata(journal.path())
            .expect("is there")
            .permissions();
        assert_eq!(now.mode() & 0o777, 0o600);
        mode(&journal.path(), 0o620);
        let loose = [journal.open("s", at(0)).map(drop), journal.read().map(drop)];
        for refused in loose {
            let refused = refused.expect_err("others may write").to_string();
            assert!(refused.contains("mode 620"), "{refused}");
        }
        for name in ["journal.jsonl", "journal.lock", "runs/t.lock"] {
            let path = folder.path().join("state").join(name);
            let _ = fs::remove_file(&path);
            symlink(&elsewhere, &path).expect("linked");
            let refused = journal.open("t", at(0)).expect_err("is a link").to_string();
            assert!(refused.contains("symbolic link"), "{name}: {refused}");
            fs::remove_file(&path).expect("removed");
        }
        assert_eq!(fs::read_to_string(&elsewhere).expect("is there"), "mine");
        symlink("/etc/passwd", journal.path()).expect("linked");
        assert!(journal.read().is_err(), "a link is not read either");
    }

    #[test]
    fn only_names_of_runs_name_files() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let journal = Journal::new(folder.path().join("state"));
        for name in ["../../x", "", "a/b", "..", "-r", "r.lock", "r\0", "ü"] {
            let refused = journal.open(name, at(0)).expect_err("is none");
            assert!(
                refused.to_string().contains("not the name of a run"),
                "{refused}"
            );
            assert!(!journal.is_running(name));
        }
        let made: Vec<_> = fs::read_dir(folder.path()).expect("lists").collect();
        assert!(made.is_empty(), "{made:?}");
        assert!(is_name_of_run(&crate::name_of_run(at(0))));
    }

    #[test]
    fn a_torn_line_spoils_no_other() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let journal = Journal::new(folder.path());
        let mut pen = journal.open("r", at(0)).expect("opens");
        pen.write(at(0), over(1)).expect("written");
        pen.write(at(1), over(2)).expect("written");
        drop(pen);
        let whole = fs::read(journal.path()).expect("is there");
        let second = whole.iter().position(|b| *b == b'\n').expect("two lines") + 1;
        for cut in second..whole.len() {
            fs::write(journal.path(), &whole[..cut]).expect("cut");
            let mut pen = journal.open("r", at(2)).expect("opens");
            pen.write(at(2), over(3)).expect("written");
            let pages = journal.read().expect("reads");
            let steps: Vec<_> = pages.lines.iter().map(|line| line.record.clone()).collect();
            let torn = usize::from(cut > second && cut < whole.len() - 1);
            assert_eq!(pages.unreadable, torn, "cut at {cut}");
            assert_eq!(steps.first(), Some(&over(1)));
            assert_eq!(steps.last(), Some(&over(3)));
        }
    }

    #[test]
    fn two_processes_never_carry_out_one_run() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let journal = Journal::new(folder.path());
        let pen = journal.open("r", at(0)).expect("opens");
        assert!(journal.is_running("r"));
        let refused = journal.open("r", at(0)).expect_err("is being carried out");
        assert!(refused.to_string().contains("another process"), "{refused}");
        drop(pen);
        assert!(!journal.is_running("r"));
        // Who asks at this moment, as another console does, is no process that carries it out.
        let asks = File::open(folder.path().join("runs/r.lock")).expect("is there");
        asks.lock_shared().expect("is free");
        assert!(!journal.is_running("r"));
        std::thread::scope(|scope| {
            let opens = scope.spawn(|| journal.open("r", at(0)).map(drop));
            drop(asks);
            let opened = opens.join().expect("ends");
            opened.expect("can be taken up");
        });
    }

    #[test]
    fn a_journal_that_cannot_be_written_says_where() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let file = folder.path().join("file");
        fs::write(&file, "x").expect("written");
        let refused = Journal::new(&file).open("r", at(0)).expect_err("is a file");
        assert!(refused.to_string().contains("file"), "{refused}");
        assert!(refused.to_string().contains("journal_dir"), "{refused}");
    }
}
