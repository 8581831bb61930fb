//! TOML documents that people write: parsed so that a mistake names its file, line, key and nearest valid spelling.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error, Visitor};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A fault in a document, and its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DocumentFault {
    /// The file as the person who wrote it knows it; a variable or a flag where it came from one.
    pub place: String,
    /// Line, from 1, where one can be named.
    pub line: Option<usize>,
    /// Key with its tables, `idle.grace`; empty where none can be named.
    pub key: String,
    /// The fault and the fix.
    pub message: String,
}

impl DocumentFault {
    /// A fault of a key at a place that has no lines, or whose line is not known.
    pub fn new(
        place: impl Into<String>,
        key: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            place: place.into(),
            line: None,
            key: key.into(),
            message: message.into(),
        }
    }

    /// The same fault at a line.
    #[must_use]
    pub fn at_line(mut self, line: Option<usize>) -> Self {
        self.line = line;
        self
    }
}

impl fmt::Display for DocumentFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.place)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        f.write_str(": ")?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for DocumentFault {}

/// Parses a TOML document; `place` is the name of its file in errors.
pub fn parse<T: DeserializeOwned>(text: &str, place: &str) -> Result<T, DocumentFault> {
    toml::from_str(text).map_err(|error| explain(text, place, &error))
}

/// Reads a table as `R`, then checks it as a whole. What `check` refuses has the position of this table, also in an array of
/// tables, where the parser would name the position of the array.
pub fn whole<'de, D, R, T>(
    from: D,
    check: impl FnOnce(R) -> Result<T, String>,
) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    R: Deserialize<'de>,
{
    struct WholeVisitor<R, C>(C, PhantomData<R>);
    impl<'de, R, T, C> Visitor<'de> for WholeVisitor<R, C>
    where
        R: Deserialize<'de>,
        C: FnOnce(R) -> Result<T, String>,
    {
        type Value = T;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a table")
        }
        fn visit_newtype_struct<D: Deserializer<'de>>(self, from: D) -> Result<T, D::Error> {
            self.0(R::deserialize(from)?).map_err(D::Error::custom)
        }
    }
    // The parser gives an error of a newtype the position of its value.
    from.deserialize_newtype_struct("Whole", WholeVisitor(check, PhantomData))
}

/// The first line of the parser's message, with the place, the key and the nearest valid spelling.
fn explain(text: &str, place: &str, error: &toml::de::Error) -> DocumentFault {
    let span = error.span();
    let words = error.message().lines().next().unwrap_or_default();
    DocumentFault {
        place: place.to_owned(),
        line: span.as_ref().map(|span| line_of(text, span.start)),
        key: span.map_or_else(String::new, |span| key_at(text, &span)),
        message: spelled(words),
    }
}

/// Line of a byte offset, from 1.
pub fn line_of(text: &str, offset: usize) -> usize {
    let end = offset.min(text.len());
    1 + text.as_bytes()[..end]
        .iter()
        .filter(|byte| **byte == b'\n')
        .count()
}

/// The dotted key whose name or value covers the span; the deepest one.
fn key_at(text: &str, span: &Range<usize>) -> String {
    let Ok(table) = DeTable::parse(text) else {
        return String::new();
    };
    let mut path = Vec::new();
    descend(table.get_ref(), span, &mut path);
    path.join(".")
}

fn descend(table: &DeTable<'_>, wanted: &Range<usize>, path: &mut Vec<String>) -> bool {
    for (key, value) in table {
        path.push(quoted(key.get_ref()));
        if covers(&key.span(), wanted) || within(value, wanted, path) {
            return true;
        }
        path.pop();
    }
    false
}

fn within(value: &Spanned<DeValue<'_>>, wanted: &Range<usize>, path: &mut Vec<String>) -> bool {
    let found = match value.get_ref() {
        DeValue::Table(table) => descend(table, wanted, path),
        DeValue::Array(items) => items.iter().any(|item| within(item, wanted, path)),
        _ => false,
    };
    // A table's own span is its header only; its keys were looked at before.
    found || covers(&value.span(), wanted)
}

fn covers(outer: &Range<usize>, inner: &Range<usize>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end && !outer.is_empty()
}

/// The key as TOML writes it: quoted when it is not bare.
pub fn quoted(key: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !key.is_empty() && key.chars().all(bare) {
        key.to_owned()
    } else {
        format!("{key:?}")
    }
}

/// Turns "unknown field `refesh`, expected one of `refresh`, `theme`" into a sentence that names the fix.
fn spelled(text: &str) -> String {
    let (what, rest) = match (
        text.strip_prefix("unknown field "),
        text.strip_prefix("unknown variant "),
    ) {
        (Some(rest), _) => ("key", rest),
        (_, Some(rest)) => ("value", rest),
        _ => return text.to_owned(),
    };
    let names: Vec<&str> = rest.split('`').skip(1).step_by(2).collect();
    match names.split_first() {
        Some((wrong, valid)) => unknown(what, wrong, valid),
        None => text.to_owned(),
    }
}

/// "unknown key `refesh`; did you mean `refresh`?", or the valid ones where none is near.
pub fn unknown(what: &str, wrong: &str, valid: &[&str]) -> String {
    match nearest(wrong, valid.iter().copied()) {
        Some(near) => format!("unknown {what} `{wrong}`; did you mean `{near}`?"),
        None if valid.is_empty() => format!("unknown {what} `{wrong}`"),
        None => format!("unknown {what} `{wrong}`; valid: {}", valid.join(", ")),
    }
}

/// The valid spelling nearest to a wrong one, when it is near enough to be meant.
pub fn nearest<'a>(wrong: &str, valid: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |text: &str| text.to_lowercase().replace(['_', ' '], "-");
    let wrong = plain(wrong);
    valid
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(&wrong, &plain(name)), name))
        .min()
        .filter(|(distance, name)| {
            *distance <= 1 + name.chars().count().min(wrong.chars().count()) / 4
        })
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Deserialize, Debug)]
    #[serde(deny_unknown_fields)]
    struct Outer {
        #[expect(dead_code, reason = "only parsed")]
        refresh: Option<u32>,
        #[expect(dead_code, reason = "only parsed")]
        pool: Option<Vec<Inner>>,
        #[expect(dead_code, reason = "only parsed")]
        idle: Option<Inner>,
    }

    #[derive(serde::Deserialize, Debug)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        #[expect(dead_code, reason = "only parsed")]
        owner: Option<String>,
    }

    fn fault(text: &str) -> String {
        parse::<Outer>(text, "stokehold.toml")
            .expect_err("is wrong")
            .to_string()
    }

    #[test]
    fn a_mistake_names_file_line_key_and_mend() {
        for (text, expected) in [
            (
                "\n\nrefesh = 2\n",
                "stokehold.toml:3: refesh: unknown key `refesh`; did you mean `refresh`?",
            ),
            (
                "[idle]\nowned = \"a\"\n",
                "stokehold.toml:2: idle.owned: unknown key `owned`; did you mean `owner`?",
            ),
            (
                "[[pool]]\nowner = \"a\"\n[[pool]]\nowner = 3\n",
                "stokehold.toml:4: pool.owner: invalid type: integer `3`, expected a string",
            ),
            (
                "zebra = 1\n",
                "stokehold.toml:1: zebra: unknown key `zebra`; valid: refresh, pool, idle",
            ),
        ] {
            assert_eq!(fault(text), expected);
        }
        let broken = fault("refresh = \n");
        assert!(broken.starts_with("stokehold.toml:1: "), "{broken}");
        assert!(!broken.contains('\n'), "{broken}");
    }

    #[test]
    fn only_near_spellings_are_suggested() {
        let valid = ["on-demand", "spot", "reserved", "owned"];
        assert_eq!(nearest("ondemand", valid), Some("on-demand"));
        assert_eq!(nearest("On_Demand", valid), Some("on-demand"));
        assert_eq!(nearest("spto", valid), Some("spot"));
        assert_eq!(nearest("free", valid), None);
    }
}
