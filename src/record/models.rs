//! What is learned of the heads of entries: their kinds, their times, which page and which source comes next.

use rustc_hash::FxHashMap;

use super::coder::{Flag, Number, Road};
use super::rows::Rows;

/// What kind of entry comes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    End,
    Object,
    Page,
    Source,
    Judged,
}

const KINDS: [Next; 5] = [
    Next::End,
    Next::Object,
    Next::Page,
    Next::Source,
    Next::Judged,
];

/// A number that most often is the one that followed the last one before.
#[derive(Default)]
pub(crate) struct Followed {
    next: FxHashMap<u32, u32>,
    last: u32,
    hit: Flag,
    number: Number,
}

impl Followed {
    pub(crate) fn code(&mut self, road: &mut impl Road, value: u32) -> u32 {
        let guess = self.next.get(&self.last).copied().unwrap_or(self.last + 1);
        let value = match self.hit.code(road, value == guess) {
            true => guess,
            false => self.number.code(road, i64::from(value)) as u32,
        };
        self.next.insert(self.last, value);
        self.last = value;
        value
    }
}

/// Numbers that are learned from frame to frame.
#[derive(Default)]
pub(crate) struct Models {
    kind: [[Flag; 5]; 5],
    last_kind: usize,
    /// Milliseconds since the entry before.
    pub(crate) pause: Number,
    /// How old a page is, milliseconds.
    pub(crate) age: Number,
    pub(crate) shape: Followed,
    pub(crate) source: Followed,
    pub(crate) rows: Rows,
    /// How sources fare: when they answered, then their numbers.
    pub(crate) fare: [Number; 6],
}

impl Models {
    pub(crate) fn kind(&mut self, road: &mut impl Road, next: Next) -> Next {
        let flags = &mut self.kind[self.last_kind];
        for (at, kind) in KINDS.iter().enumerate() {
            if at + 1 == KINDS.len() || flags[at].code(road, *kind == next) {
                self.last_kind = at;
                return *kind;
            }
        }
        Next::End
    }
}
