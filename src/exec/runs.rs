//! Runs followed in their journal: each look reads only what has been added since the last one.

use std::collections::BTreeMap;

use super::history::{Run, extend};
use super::journal::{FileId, Journal, JournalFault, Pages, rest};

/// The runs of a journal, kept up to date.
#[derive(Debug, Default)]
pub struct Runs {
    all: Vec<Run>,
    /// How far each file has been read, bytes.
    read: BTreeMap<FileId, u64>,
    /// Bytes that were read in all.
    total: u64,
}

impl Runs {
    /// The runs as the journal tells them now, oldest first.
    ///
    /// # Errors
    /// A file that is there cannot be read.
    pub fn look(&mut self, journal: &Journal) -> Result<&[Run], JournalFault> {
        if !self.take_in(journal)? {
            // A file is shorter than it was, or has gone: what was read of it holds no longer.
            *self = Self {
                total: self.total,
                ..Self::default()
            };
            self.take_in(journal)?;
        }
        Ok(&self.all)
    }

    /// Bytes that all looks together have read.
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
    use crate::machine::End;
    use crate::record::{Cluster, Record, Who};
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
            cluster: Cluster {
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
            for record in [begin(), Record::End { end: End::Done }] {
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
        pen.write(at(1), Record::End { end: End::Done })
            .expect("written");
        drop(pen);
        let whole = fs::read(journal.path()).expect("is there");
        let mut runs = Runs::default();
        fs::write(journal.path(), &whole[..whole.len() - 5]).expect("cut");
        assert_eq!(runs.look(&journal).expect("reads")[0].end, None);
        fs::write(journal.path(), &whole).expect("written");
        assert_eq!(runs.look(&journal).expect("reads")[0].end, Some(End::Done));
        fs::write(journal.path(), b"").expect("emptied");
        assert_eq!(runs.look(&journal).expect("reads"), []);
    }
}
