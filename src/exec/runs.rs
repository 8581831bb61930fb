//! Follows runs in their journal: each call reads only what was added since the last one.

use std::collections::BTreeMap;

use super::history::{Run, extend};
use super::journal::{FileId, Journal, JournalFault, Pages, rest};

/// The runs of a journal, kept up to date.
#[derive(Debug, Default)]
pub struct Runs {
    all: Vec<Run>,
    /// Bytes read of each file.
    read: BTreeMap<FileId, u64>,
    total: u64,
}

impl Runs {
    /// The current runs of the journal, oldest first.
    ///
    /// # Errors
    /// An existing file cannot be read.
    pub fn look(&mut self, journal: &Journal) -> Result<&[Run], JournalFault> {
        if !self.take_in(journal)? {
            // A file became shorter or was removed: read everything again.
            *self = Self {
                total: self.total,
                ..Self::default()
            };
            self.take_in(journal)?;
        }
        Ok(&self.all)
    }

    /// Total bytes that all calls have read.
    pub fn bytes_read(&self) -> u64 {
        self.total
    }

    /// Reads what is new; false when the files are no longer those that were read.
    fn take_in(&mut self, journal: &Journal) -> Result<bool, JournalFault> {
        let mut pages = Pages::default();
        let mut seen = BTreeMap::new();
        for path in journal.files().map_err(|error| journal.unread(error))? {
            let known = |id| self.read.get(&id).copied().unwrap_or(0);
            let (id, length, bytes) = rest(&path, known)?;
            let from = known(id);
            if length < from {
                return Ok(false);
            }
            pages.take(&bytes);
            self.total += bytes.len() as u64;
            seen.insert(id, from + bytes.len() as u64);
        }
        if self.read.keys().any(|id| !seen.contains_key(id)) {
            return Ok(false);
        }
        self.read = seen;
        extend(&mut self.all, &pages.lines);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::machine::RunEnd;
    use crate::record::{ClusterIdentity, Record, Who};
    use crate::runs as all_runs;
    use model::base::Moment;
    use model::plan::{Intent, Plan};

    fn at(seconds: i64) -> Moment {
        Moment::from_seconds(seconds)
    }

    fn begin() -> Record {
        let intent = Intent::Hold {
            target: "nlp".into(),
        };
        Record::Begin {
            cluster: ClusterIdentity {
                context: "c".into(),
                server: String::new(),
                uid: "u".into(),
            },
            who: Who {
                user: "ana".into(),
                local: "ana".into(),
            },
            reason: "why".into(),
            plan: Box::new(Plan::new("hold nlp", intent, at(0))),
        }
    }

    #[test]
    fn only_what_is_new_is_read() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let journal = Journal::new(folder.path()).renamed_from(2000);
        let mut runs = Runs::default();
        assert_eq!(runs.look(&journal).expect("nothing yet"), []);
        for run in 0..20 {
            let mut pen = journal.open(&format!("r{run}"), at(run)).expect("opens");
            for record in [begin(), Record::End { end: RunEnd::Done }] {
                pen.write(at(run), record).expect("written");
                let seen = runs.look(&journal).expect("reads").to_vec();
                assert_eq!(seen, all_runs(&journal.read().expect("reads")));
            }
        }
        let files = journal.files().expect("lists");
        assert!(files.len() > 2, "it was renamed on the way");
        let length = |path| fs::metadata(path).expect("is there").len();
        let whole: u64 = files.iter().map(length).sum();
        assert_eq!(runs.bytes_read(), whole, "each byte once");
        runs.look(&journal).expect("reads");
        assert_eq!(runs.bytes_read(), whole, "nothing is new");
    }

    #[test]
    fn half_a_line_waits_for_its_end_and_a_shorter_file_is_read_anew() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let journal = Journal::new(folder.path());
        let mut pen = journal.open("r", at(0)).expect("opens");
        pen.write(at(0), begin()).expect("written");
        pen.write(at(1), Record::End { end: RunEnd::Done })
            .expect("written");
        drop(pen);
        let whole = fs::read(journal.path()).expect("is there");
        let mut runs = Runs::default();
        fs::write(journal.path(), &whole[..whole.len() - 5]).expect("cut");
        assert_eq!(runs.look(&journal).expect("reads")[0].end, None);
        fs::write(journal.path(), &whole).expect("written");
        assert_eq!(
            runs.look(&journal).expect("reads")[0].end,
            Some(RunEnd::Done)
        );
        fs::write(journal.path(), b"").expect("emptied");
        assert_eq!(runs.look(&journal).expect("reads"), []);
    }
}
