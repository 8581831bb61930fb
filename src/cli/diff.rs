//! `diff`: what changed between two moments of a record.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use ::record::Archive;
use model::base::{Exit, Failure, When};
use table::changes;

use super::common::figures::TableOrJson;
use super::common::out;
use super::common::setup::{FactsSource, Situation};
use super::record::{self, PastFlags};

/// Which moments to compare.
#[derive(Args, Clone, PartialEq, Eq, Debug)]
pub struct Diff {
    /// The earlier moment: 03:12, yesterday 14:00, -2h (before the end), RFC 3339 (UTC)
    #[arg(long, value_name = "T", value_parser = When::parse, allow_hyphen_values = true)]
    from: When,
    /// The later moment; the end of the record without it
    #[arg(long, value_name = "T", value_parser = When::parse, allow_hyphen_values = true)]
    to: Option<When>,
    /// The record to look at; default: from the settings, else that of the context
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,
    /// How to print it
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: TableOrJson,
}

impl Diff {
    /// The record, at the later moment.
    pub(super) fn past(&self) -> PastFlags {
        PastFlags {
            at: self.to,
            record: self.record.clone(),
        }
    }
}

pub(super) fn run(
    situation: &Situation,
    diff: &Diff,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Exit, Failure> {
    let FactsSource::Record(later) = &situation.target else {
        return Err(Failure::new(
            Exit::Usage,
            "diff needs a record: --record DIR",
        ));
    };
    let from = |archive: &Archive, _| diff.from.in_record(archive.start(), archive.end());
    let changes = record::changes(situation, later, from, err)?;
    for note in &changes.notes {
        out::print_message(err, note);
    }
    let text = match diff.output {
        TableOrJson::Json => changes::document(&changes),
        TableOrJson::Table => changes::text(&changes),
    };
    out::write(out, &text)?;
    Ok(Exit::Done)
}
