//! `get changes`: what changed up to now, or up to a moment of a record.

use std::io::Write;
use std::sync::Arc;

use ::record::Archive;
use model::base::{Exit, Failure, Moment};
use table::changes::{STATED_FOR, SeenChanges, seen_note};
use table::{Facts, Format, Needs, Query};

use super::{Get, part_of, print, say_unknown_scope};
use crate::cli::common::out;
use crate::cli::common::setup::{self, FactsSource, Situation};
use crate::cli::record::{self, PastFlags, RecordMoment};
use crate::runtime::records::past;
use crate::runtime::session;

pub(super) fn run(
    situation: &Situation,
    get: &Get,
    query: &Query,
    format: Format,
    out: &mut dyn Write,
    err: &mut (dyn Write + Send),
) -> Result<Exit, Failure> {
    let since = get.since.unwrap_or(STATED_FOR);
    let mut facts = setup::snapshot(situation, &Needs::of(query, format), err)?;
    say_unknown_scope(&facts, query, err);
    let changes = match &situation.target {
        FactsSource::Record(moment) => {
            let from = |_: &Archive, to: Moment| to.minus(since);
            let changes = record::changes(situation, moment, from, err)?;
            for note in &changes.notes {
                out::print_message(err, note);
            }
            SeenChanges::of(changes)
        }
        FactsSource::Cluster(_) | FactsSource::Demo(_) => {
            let from = facts.now.minus(since);
            match recorded(situation, &facts, from, err) {
                Some(before) => SeenChanges::between(&before, &facts),
                None => {
                    let seen = SeenChanges::stated(&facts, from);
                    out::print_message(err, &seen_note(&seen));
                    seen
                }
            }
        }
    };
    facts.changes = Some(Arc::new(changes));
    print(&part_of(&facts, query), query, format, out, err)
}

/// The facts at that moment out of the record of the cluster; `None` where no record has it.
fn recorded(
    situation: &Situation,
    facts: &Facts,
    from: Moment,
    err: &mut dyn Write,
) -> Option<Facts> {
    let FactsSource::Cluster(choice) = &situation.target else {
        return None;
    };
    let moment = RecordMoment {
        flags: PastFlags::default(),
        choice: choice.clone(),
        speed: 0.0,
    };
    let folder = record::directory_of(&moment, &situation.settings).ok()?;
    if !folder.is_dir() {
        return None;
    }
    let read = Archive::open(&folder).and_then(|archive| {
        let is_of_it = *archive.context() == *facts.context;
        if !is_of_it || archive.start() > from || archive.end() < from {
            return Ok(None);
        }
        let rules = session::past_rules(&situation.setup(true), &archive);
        past::facts_at(&archive, rules, from).map(Some)
    });
    read.unwrap_or_else(|fault| {
        out::print_message(err, &format!("the record is not used: {fault}"));
        None
    })
}
