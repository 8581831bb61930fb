//! Filters: words, `!word`, `-l label=x` and typed comparisons, joined by and, or, not and parentheses.
//!
//! An unknown value matches neither a comparison nor its negation.

use std::borrow::Cow;

use model::base::Moment;

use table::cell::Value;

/// A column that a filter can name.
#[derive(Clone, Copy, Debug)]
pub struct FilterField {
    /// Its name in filters.
    pub id: &'static str,
    /// Its title on the screen, also accepted in filters.
    pub title: &'static str,
    /// True for numbers, ages and amounts of money.
    pub numeric: bool,
    /// True when bare words are searched in it; numeric columns are skipped.
    pub plain: bool,
}

impl FilterField {
    /// True for its filter name and for its title, with or without spaces, ignoring case.
    pub fn is_called(&self, name: &str) -> bool {
        let title = self.title;
        // `HELD/DEV` names two values in one column, `$/h` is one.
        let is_part = |part: &str| part.len() > 2 && part.eq_ignore_ascii_case(name);
        let is_title = title.eq_ignore_ascii_case(name)
            || title.split('/').any(is_part)
            || title.contains(' ') && title.replace(' ', "").eq_ignore_ascii_case(name);
        self.id.eq_ignore_ascii_case(name) || is_title
    }
}

/// A row as a filter reads it.
pub trait Row {
    /// The value of the column at this index of the fields.
    fn value(&self, column: usize) -> Value<'_>;
    /// The value of a label; `None` without that label.
    fn label(&self, key: &str) -> Option<String>;
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Op {
    Has,
    Is,
    IsNot,
    Less,
    LessOrIs,
    More,
    MoreOrIs,
}

/// A literal with every possible interpretation.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Literal {
    pub(super) text: String,
    pub(super) number: Option<f64>,
    pub(super) seconds: Option<f64>,
    pub(super) bytes: Option<f64>,
}

#[derive(Clone, PartialEq, Debug)]
pub(super) enum FilterNode {
    All(Vec<FilterNode>),
    Any(Vec<FilterNode>),
    Not(Box<FilterNode>),
    Word(String),
    Fuzzy(String),
    Label(String, Option<String>),
    Compare(usize, Op, Literal),
}

#[derive(Clone, PartialEq, Debug)]
pub struct RowFilter {
    /// The text as typed.
    pub text: String,
    root: FilterNode,
    words: Vec<usize>,
}

/// The filter without a trailing name of a numeric column: a comparison is still being typed.
pub fn without_open_end<'a>(text: &'a str, fields: &[FilterField]) -> &'a str {
    let start = text
        .rfind(|c: char| c.is_whitespace() || matches!(c, '(' | '!'))
        .map_or(0, |at| at + 1);
    let last = text.get(start..).unwrap_or_default();
    let names = |field: &FilterField| field.numeric && field.is_called(last);
    match fields.iter().any(names) {
        // The text before it may be incomplete on its own: `not`, `(`, `or`.
        true if !text[..start].ends_with(['(', '!']) => text[..start].trim_end(),
        _ => text,
    }
}

impl RowFilter {
    /// Parses a filter over these columns. An error says what is wrong and suggests a correction.
    pub fn parse(text: &str, fields: &[FilterField]) -> Result<Self, String> {
        let root = super::filter_parse::read(text, fields)?;
        let words = (0..fields.len())
            .filter(|at| fields[*at].plain && !fields[*at].numeric)
            .collect();
        Ok(Self {
            text: text.trim().to_owned(),
            root,
            words,
        })
    }

    pub fn matches(&self, row: &impl Row, now: Moment) -> bool {
        self.test(&self.root, row, now) == Some(true)
    }

    /// Three-valued: `None` where the result is unknown.
    fn test(&self, node: &FilterNode, row: &impl Row, now: Moment) -> Option<bool> {
        match node {
            FilterNode::All(parts) => {
                let mut known = true;
                for part in parts {
                    match self.test(part, row, now) {
                        Some(false) => return Some(false),
                        None => known = false,
                        Some(true) => {}
                    }
                }
                known.then_some(true)
            }
            FilterNode::Any(parts) => {
                let mut known = true;
                for part in parts {
                    match self.test(part, row, now) {
                        Some(true) => return Some(true),
                        None => known = false,
                        Some(false) => {}
                    }
                }
                known.then_some(false)
            }
            FilterNode::Not(part) => self.test(part, row, now).map(|is| !is),
            FilterNode::Word(word) => Some(self.any_text(row, |value| has(value, word))),
            FilterNode::Fuzzy(word) => {
                Some(self.any_text(row, |value| fuzzy(&joined(value), word).is_some()))
            }
            FilterNode::Label(key, value) => Some(match (row.label(key), value) {
                (Some(found), Some(value)) => found == *value,
                (Some(_), None) => true,
                (None, _) => false,
            }),
            FilterNode::Compare(column, op, literal) => {
                compare(&row.value(*column), *op, literal, now)
            }
        }
    }

    fn any_text(&self, row: &impl Row, test: impl Fn(&Value<'_>) -> bool) -> bool {
        self.words.iter().any(|column| test(&row.value(*column)))
    }

    /// True when the filter is a conjunction of bare words.
    pub fn is_plain(&self) -> bool {
        match &self.root {
            FilterNode::Word(_) => true,
            FilterNode::All(parts) => parts.iter().all(|part| matches!(part, FilterNode::Word(_))),
            _ => false,
        }
    }

    /// True when every row that it matches also matches `other`: the usual case while typing.
    pub fn narrows(&self, other: &Self) -> bool {
        self.is_plain() && other.is_plain() && self.text.starts_with(&other.text)
    }
}

fn compare(value: &Value<'_>, op: Op, literal: &Literal, now: Moment) -> Option<bool> {
    if value.words().is_some() {
        return Some(match op {
            Op::Has => has(value, &literal.text),
            Op::Is => joined(value).eq_ignore_ascii_case(&literal.text),
            Op::IsNot => !joined(value).eq_ignore_ascii_case(&literal.text),
            // Text is compared in natural order.
            _ => ordered(op, model::base::natural(&joined(value), &literal.text)),
        });
    }
    let found = value.number(now)?;
    let wanted = match value {
        Value::Ratio(_) | Value::Bar(_) | Value::Trend(..) => literal.number? / 100.0,
        Value::Since(_) | Value::SeenSince(_) | Value::Starts(..) | Value::Span(_) => {
            literal.seconds?
        }
        Value::Bytes(..) => literal.bytes?,
        Value::Power(..) => literal.number? * 1000.0,
        _ => literal.number?,
    };
    Some(ordered(op, found.total_cmp(&wanted)))
}

fn ordered(op: Op, order: std::cmp::Ordering) -> bool {
    match op {
        Op::Has | Op::Is => order.is_eq(),
        Op::IsNot => order.is_ne(),
        Op::Less => order.is_lt(),
        Op::LessOrIs => order.is_le(),
        Op::More => order.is_gt(),
        Op::MoreOrIs => order.is_ge(),
    }
}

/// The text of a value as displayed.
fn joined<'a>(value: &'a Value<'_>) -> Cow<'a, str> {
    match value.words() {
        Some(("", words)) => Cow::Borrowed(words),
        Some((namespace, name)) => Cow::Owned(format!("{namespace}/{name}")),
        None => Cow::Borrowed(""),
    }
}

/// True when the value's text contains the word. A path is joined only for a word that spans its parts.
fn has(value: &Value<'_>, word: &str) -> bool {
    match value.words() {
        None => false,
        Some((namespace, _)) if !namespace.is_empty() && word.contains('/') => {
            contains(&joined(value), word)
        }
        Some((namespace, name)) => contains(name, word) || contains(namespace, word),
    }
}

/// True when the text contains the word, ignoring ASCII case. `word` is lowercase.
fn contains(text: &str, word: &str) -> bool {
    let (text, word) = (text.as_bytes(), word.as_bytes());
    let Some((first, rest)) = word.split_first() else {
        return true;
    };
    if text.len() < word.len() {
        return false;
    }
    let last = text.len() - word.len();
    memchr::memchr2_iter(*first, first.to_ascii_uppercase(), &text[..=last])
        .any(|at| text[at + 1..at + word.len()].eq_ignore_ascii_case(rest))
}

/// How well the letters of `word` occur in `text` in order; smaller is better. `word` is lowercase.
pub fn fuzzy(text: &str, word: &str) -> Option<usize> {
    let mut score = 0;
    let mut letters = text.chars().enumerate();
    let mut last = None;
    for wanted in word.chars() {
        let (at, _) = letters.find(|(_, c)| c.to_ascii_lowercase() == wanted)?;
        score += last.map_or(at, |last| at - last - 1);
        last = Some(at);
    }
    Some(score)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Sample;

    impl Row for Sample {
        fn value(&self, column: usize) -> Value<'_> {
            match column {
                0 => Value::Path("nlp", "LLM-70b"),
                1 => Value::text("H100"),
                2 => Value::Ratio(0.15),
                3 => Value::Since(Moment::from_seconds(0)),
                4 => Value::Unknown,
                _ => Value::Bytes(71.0 * 1024f64.powi(3), None),
            }
        }
        fn label(&self, key: &str) -> Option<String> {
            (key == "tier").then(|| String::from("gold"))
        }
    }

    const FIELDS: [FilterField; 6] = [
        FilterField {
            id: "job",
            title: "JOB",
            numeric: false,
            plain: true,
        },
        FilterField {
            id: "class",
            title: "CLASS",
            numeric: false,
            plain: true,
        },
        FilterField {
            id: "util",
            title: "UTIL",
            numeric: true,
            plain: true,
        },
        FilterField {
            id: "held",
            title: "HELD",
            numeric: true,
            plain: true,
        },
        FilterField {
            id: "temp",
            title: "T MAX",
            numeric: true,
            plain: true,
        },
        FilterField {
            id: "mem",
            title: "MEM",
            numeric: true,
            plain: true,
        },
    ];

    fn shows(text: &str) -> bool {
        let filter = RowFilter::parse(text, &FIELDS).expect(text);
        filter.matches(&Sample, Moment::from_seconds(10_000))
    }

    #[test]
    fn filters_mean_what_they_say() {
        for text in [
            "",
            "llm",
            "LLM 70B",
            "!gpt",
            "class:h100 util<20 held>2h",
            "util>=15%",
            "gpt or llm",
            "not (gpt or a100)",
            "-l tier=gold",
            "-l tier",
            "-f n7b",
            "class=h100",
            "class!=a100",
            "\"llm-70b\"",
            "mem>70 mem<=71GiB",
            "(llm)",
            "util=15 and llm",
            "name:llm",
            "name=nlp/llm-70b",
            // By a column's title.
            "\"t max\":x or tmax<1000 or util<20",
            "CLASS=h100",
        ] {
            assert!(shows(text), "{text}");
        }
        for text in [
            "gpt",
            "!llm",
            "util>20",
            "held>3h",
            "-l tier=iron",
            "-l other",
            "class:a100",
            "llm gpt",
            "not llm",
            "-f zz",
            "mem>72",
            "name:h100",
        ] {
            assert!(!shows(text), "{text}");
        }
    }

    #[test]
    fn unknown_matches_neither_way() {
        assert!(!shows("temp>10") && !shows("temp<=10") && !shows("!temp>10"));
        assert!(shows("temp>10 or llm"));
    }

    #[test]
    fn a_wrong_filter_says_why() {
        let error = |text: &str| RowFilter::parse(text, &FIELDS).expect_err(text);
        assert!(error("utl<20").contains("did you mean `util`"));
        assert!(error("util<warm").contains("is a number"));
        assert!(error("util<").contains("needs a number"));
        assert!(error("zzzzzzzz:1").ends_with("; `|` lists the columns"));
        for text in ["(", ")", "not", "-l", "\"x", "((((a)"] {
            error(text);
        }
        error(&"(".repeat(1000));
    }

    #[test]
    fn typing_on_narrows() {
        let parse = |text: &str| RowFilter::parse(text, &FIELDS).expect(text);
        assert!(parse("llm 70").narrows(&parse("llm")));
        assert!(parse("llm").narrows(&parse("ll")));
        for (new, old) in [
            ("!llm", "!l"),
            ("util<20", "ut"),
            ("ll or x", "ll"),
            ("l", "ll"),
        ] {
            assert!(!parse(new).narrows(&parse(old)), "{new} {old}");
        }
    }

    #[test]
    fn a_path_is_found_across_its_slash() {
        assert!(shows("nlp/llm") && shows("p/LL") && shows("job=nlp/llm-70b") && !shows("x/llm"));
    }

    #[test]
    fn fuzzy_prefers_the_closer() {
        assert!(fuzzy("jobs", "job") < fuzzy("j-o-b", "job"));
        assert_eq!(fuzzy("jobs", "sj"), None);
    }
}
