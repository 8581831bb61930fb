//! Models for the heads of entries: kind, time, next page, next source.

use rustc_hash::FxHashMap;

use super::coder::{BitCoder, BitModel, Number};
use super::row_models::RowModels;

/// Kind of the next entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NextEntry {
    End,
    Object,
    Page,
    Source,
    Judged,
}

const KINDS: [NextEntry; 5] = [
    NextEntry::End,
    NextEntry::Object,
    NextEntry::Page,
    NextEntry::Source,
    NextEntry::Judged,
];

/// A number that is predicted from the previous one: usually the number that followed it last time.
#[derive(Default)]
pub(crate) struct Followed {
    next: FxHashMap<u32, u32>,
    last: u32,
    hit: BitModel,
    number: Number,
}

impl Followed {
    pub(crate) fn code(&mut self, coder: &mut impl BitCoder, value: u32) -> u32 {
        let guess = self.next.get(&self.last).copied().unwrap_or(self.last + 1);
        let value = match self.hit.code(coder, value == guess) {
            true => guess,
            false => self.number.code(coder, i64::from(value)) as u32,
        };
        self.next.insert(self.last, value);
        self.last = value;
        value
    }
}

/// Models that learn across frames.
#[derive(Default)]
pub(crate) struct Models {
    kind: [[BitModel; 5]; 5],
    last_kind: usize,
    /// Time since the previous entry, milliseconds.
    pub(crate) pause: Number,
    /// Age of a page, milliseconds.
    pub(crate) age: Number,
    pub(crate) shape: Followed,
    pub(crate) source: Followed,
    pub(crate) rows: RowModels,
    /// Source health: time of the last answer, then its numbers.
    pub(crate) fare: [Number; 6],
}

impl Models {
    pub(crate) fn kind(&mut self, coder: &mut impl BitCoder, next: NextEntry) -> NextEntry {
        let flags = &mut self.kind[self.last_kind];
        for (at, kind) in KINDS.iter().enumerate() {
            if at + 1 == KINDS.len() || flags[at].code(coder, *kind == next) {
                self.last_kind = at;
                return *kind;
            }
        }
        NextEntry::End
    }
}
