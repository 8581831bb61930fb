//! What is wrong with a dialect file, with its line and the nearest valid word.

use std::fmt;
use std::ops::Range;

use super::spec::DialectSpec;

/// Errors of one file, each with its line.
pub(super) struct FileFaults<'a> {
    pub file: &'a str,
    pub text: &'a str,
    pub found: Vec<String>,
}

impl FileFaults<'_> {
    /// Notes what is wrong at `span`.
    pub fn at(&mut self, span: Range<usize>, what: impl fmt::Display) {
        let line = 1 + self.text.as_bytes()[..span.start.min(self.text.len())]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        self.found.push(format!("{}:{line}: {what}", self.file));
    }

    /// Notes what is wrong with the file as a whole.
    pub fn whole(&mut self, what: impl fmt::Display) {
        self.found.push(format!("{}: {what}", self.file));
    }
}

/// Reads a file; an error names the line and, for a misspelt word, the nearest valid one.
pub(super) fn parse(faults: &mut FileFaults<'_>) -> Option<DialectSpec> {
    match toml::from_str::<DialectSpec>(faults.text) {
        Ok(spec) => Some(spec),
        Err(error) => {
            let message = error.message().replace('\n', " ");
            let mut words = message.split('`').skip(1).step_by(2);
            let hint = match (message.starts_with("unknown "), words.next()) {
                (true, Some(wrong)) => nearest(wrong, words)
                    .map(|near| format!("; did you mean `{near}`?"))
                    .unwrap_or_default(),
                _ => String::new(),
            };
            match error.span() {
                Some(span) => faults.at(span, format!("{message}{hint}")),
                None => faults.whole(format!("{message}{hint}")),
            }
            None
        }
    }
}

/// The word of `known` nearest to `wrong`, if one is near enough for a typing error.
pub(super) fn nearest<'k>(wrong: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    known
        .map(|word| (strsim::jaro_winkler(wrong, word), word))
        .filter(|(likeness, _)| *likeness > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, word)| word)
}
