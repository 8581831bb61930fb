//! Errors of theme and key map files, with file, line and the nearest valid spelling.

use std::fmt;
use std::ops::Range;

/// A theme or key map file that cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoadError {
    /// The file, as the user knows it.
    pub file: String,
    /// Line, from 1, where known.
    pub line: Option<usize>,
    /// The error and its fix.
    pub message: String,
}

impl LoadError {
    /// An error at a byte range of the file's text.
    pub fn at(
        file: &str,
        text: &str,
        span: Option<Range<usize>>,
        message: impl Into<String>,
    ) -> Self {
        let line = span.map(|span| {
            let before = text.get(..span.start.min(text.len())).unwrap_or(text);
            before.bytes().filter(|byte| *byte == b'\n').count() + 1
        });
        Self {
            file: file.to_owned(),
            line,
            message: message.into(),
        }
    }

    /// The error of the TOML reader.
    pub fn toml(file: &str, text: &str, error: &toml::de::Error) -> Self {
        Self::at(file, text, error.span(), error.message().trim())
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.message),
            None => write!(f, "{}: {}", self.file, self.message),
        }
    }
}

impl std::error::Error for LoadError {}

/// `; did you mean `x`?` for the closest of `known`, or nothing when none is close.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    known
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= 2.max(candidate.len() / 3))
        .min()
        .map(|(_, candidate)| format!("; did you mean `{candidate}`?"))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_file_and_line() {
        let error = LoadError::at("keys.toml", "a\nb\nc", Some(2..3), "wrong");
        assert_eq!(error.to_string(), "keys.toml:2: wrong");
        assert_eq!(nearest("warm", ["warn", "crit"]), "; did you mean `warn`?");
        assert_eq!(nearest("zebra", ["warn", "crit"]), "");
    }
}
