//! What a reader made of an input, as a number: the same number, the same kind of answer.

use std::hash::{DefaultHasher, Hash, Hasher};

/// Collects what is told of an answer.
#[derive(Default)]
pub(crate) struct Shape(DefaultHasher);

impl Shape {
    /// A count, by its order of magnitude.
    pub(crate) fn count(mut self, count: usize) -> Self {
        count.checked_ilog2().hash(&mut self.0);
        self
    }

    /// A message, without the numbers and names in it.
    pub(crate) fn words(mut self, text: &str) -> Self {
        let mut quoted = false;
        for c in text.chars().take(300) {
            match c {
                '`' | '"' | '\'' => quoted = !quoted,
                c if quoted || c.is_ascii_digit() => {}
                c => c.hash(&mut self.0),
            }
        }
        self
    }

    pub(crate) fn end(self) -> u64 {
        self.0.finish()
    }
}
