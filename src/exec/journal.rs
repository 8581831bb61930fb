//! The journal on disk: JSON lines that are only ever added, readable by their owner alone.
//!
//! A line is written whole by one write and synced before anybody relies on it. A crash can tear the last line: the
//! next writer begins on a new one, and a reader passes over what it cannot read and says how many lines that were.
//! A file that has grown large is renamed and kept. A run holds a lock of its own while its process lives, so that
//! no second process takes up a run that is still being carried out.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use model::base::Moment;

use super::record::{Line, Record};

/// A file larger than this is renamed when the next run begins, bytes.
const LARGE: u64 = 8 << 20;

/// The journal's folder.
#[derive(Clone, Debug)]
pub struct Journal {
    folder: PathBuf,
    large: u64,
}

/// Lines that were read.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Pages {
    /// In the order of writing.
    pub lines: Vec<Line>,
    /// Lines that could not be read: torn by a crash, or written by a later version.
    pub unreadable: usize,
}

/// What failed, on which file, and the mend.
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

/// A new file is its owner's alone.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options
}

fn make_folder(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt;
        builder.mode(0o700);
    }
    builder.create(path)
}

impl Journal {
    /// The journal in this folder, which is made when the first line is written.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            large: LARGE,
        }
    }

    /// The same with another size from which a file is renamed, in bytes.
    #[must_use]
    pub fn renamed_from(mut self, large: u64) -> Self {
        self.large = large;
        self
    }

    /// Where the platform keeps state of ours; `None` for a user without a home.
    pub fn place() -> Option<PathBuf> {
        let own = directories::ProjectDirs::from("", "", "stokehold")?;
        let folder = own.state_dir().unwrap_or_else(|| own.data_local_dir());
        Some(folder.to_owned())
    }

    /// The file that lines are added to.
    pub fn path(&self) -> PathBuf {
        self.folder.join("journal.jsonl")
    }

    /// Opens it for the lines of one run, which nobody else carries out.
    ///
    /// # Errors
    /// Its folder or file cannot be written, or another process carries out the run.
    pub fn open(&self, run: &str, now: Moment) -> Result<Pen, JournalFault> {
        let runs = self.folder.join("runs");
        make_folder(&runs).map_err(fault(&self.folder, "made"))?;
        let lock_path = runs.join(format!("{run}.lock"));
        let lock = private()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&lock_path)
            .map_err(fault(&lock_path, "opened"))?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => fault(
                &lock_path,
                "taken: another process carries out this run",
            )(io::ErrorKind::WouldBlock.into()),
            TryLockError::Error(error) => fault(&lock_path, "locked")(error),
        })?;
        let path = self.path();
        self.rename_large(&path, now)
            .map_err(fault(&path, "renamed"))?;
        let mut file = private()
            .create(true)
            .read(true)
            .append(true)
            .open(&path)
            .map_err(fault(&path, "opened"))?;
        mend(&mut file).map_err(fault(&path, "written"))?;
        Ok(Pen {
            run: run.to_owned(),
            path,
            file,
            lock_path,
            _lock: lock,
        })
    }

    /// True while a process carries out this run.
    pub fn is_running(&self, run: &str) -> bool {
        let path = self.folder.join("runs").join(format!("{run}.lock"));
        OpenOptions::new()
            .write(true)
            .open(path)
            .is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
    }

    fn rename_large(&self, path: &Path, now: Moment) -> io::Result<()> {
        let gate = private()
            .create(true)
            .truncate(false)
            .write(true)
            .open(self.folder.join("journal.lock"))?;
        gate.lock()?;
        let length = match fs::metadata(path) {
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

    /// Every file of it, oldest first.
    fn files(&self) -> io::Result<Vec<PathBuf>> {
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
        old.sort();
        old.extend(Some(self.path()).filter(|path| path.exists()));
        Ok(old)
    }

    /// Reads all of it.
    ///
    /// # Errors
    /// A file that is there cannot be read.
    pub fn read(&self) -> Result<Pages, JournalFault> {
        let mut pages = Pages::default();
        for path in self.files().map_err(fault(&self.folder, "read"))? {
            let bytes = fs::read(&path).map_err(fault(&path, "read"))?;
            for line in bytes.split(|byte| *byte == b'\n').filter(|l| !l.is_empty()) {
                match serde_json::from_slice(line) {
                    Ok(line) => pages.lines.push(line),
                    Err(_) => pages.unreadable += 1,
                }
            }
        }
        Ok(pages)
    }
}

/// A line that a crash tore is ended, so that it spoils no other.
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

/// Adds the lines of one run.
#[derive(Debug)]
pub struct Pen {
    run: String,
    path: PathBuf,
    file: File,
    lock_path: PathBuf,
    /// Held as long as the process carries out the run; the kernel lets go of it whatever ends the process.
    _lock: File,
}

impl Pen {
    /// The run.
    pub fn run(&self) -> &str {
        &self.run
    }

    /// Adds a line; it is on disk when this returns.
    ///
    /// # Errors
    /// It cannot be written: then nothing may be sent that it was to record.
    pub fn write(&mut self, at: Moment, record: Record) -> Result<(), JournalFault> {
        let over = matches!(record, Record::End { .. } | Record::Behind { .. });
        let line = Line {
            at,
            run: self.run.clone(),
            record,
        };
        let mut text = serde_json::to_vec(&line)
            .map_err(io::Error::other)
            .map_err(fault(&self.path, "written"))?;
        text.push(b'\n');
        self.file
            .write_all(&text)
            .and_then(|()| self.file.sync_data())
            .map_err(fault(&self.path, "written"))?;
        if over {
            // Nobody takes up a run that has ended.
            let _ = fs::remove_file(&self.lock_path);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{End, Over};

    fn at(seconds: i64) -> Moment {
        Moment::from_millis(seconds * 1000 + 7)
    }

    fn over(step: u32) -> Record {
        Record::Over {
            step,
            how: Over::Done,
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
            pen.write(at(9), Record::End { end: End::Done })
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
        journal.open("r", at(0)).expect("can be taken up");
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
