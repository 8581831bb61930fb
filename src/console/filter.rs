//! Filters: words, `!word`, `-l label=x` and typed comparisons, joined by and, or, not and parentheses.
//!
//! What is not known matches neither a comparison nor its opposite.

use std::borrow::Cow;

use model::base::Moment;

use super::widget::Value;

/// A column that a filter can name.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its name in filters.
    pub id: &'static str,
    /// It holds numbers, ages or money.
    pub numeric: bool,
    /// A bare word is looked for in it, unless it is numeric.
    pub plain: bool,
}

/// What a filter asks of a row.
pub trait Row {
    /// The value of the column at this place in the list of fields.
    fn value(&self, column: usize) -> Value<'_>;
    /// The value of a label; `None` when there is no such label.
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

/// A literal with every reading that it allows.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Literal {
    pub(super) text: String,
    pub(super) number: Option<f64>,
    pub(super) seconds: Option<f64>,
    pub(super) bytes: Option<f64>,
}

#[derive(Clone, PartialEq, Debug)]
pub(super) enum Node {
    All(Vec<Node>),
    Any(Vec<Node>),
    Not(Box<Node>),
    Word(String),
    Fuzzy(String),
    Label(String, Option<String>),
    Compare(usize, Op, Literal),
}

/// A filter that was understood.
#[derive(Clone, PartialEq, Debug)]
pub struct Filter {
    /// As it was typed.
    pub text: String,
    root: Node,
    words: Vec<usize>,
}

/// What is typed without a last word that names a column of numbers: whoever types it goes on with a comparison.
pub fn without_open_end<'a>(text: &'a str, fields: &[Field]) -> &'a str {
    let start = text
        .rfind(|c: char| c.is_whitespace() || matches!(c, '(' | '!'))
        .map_or(0, |at| at + 1);
    let last = text.get(start..).unwrap_or_default();
    let names = |field: &Field| field.numeric && field.id.eq_ignore_ascii_case(last);
    match fields.iter().any(names) {
        // What stands before it alone may be half a sentence: `not`, `(`, `or`.
        true if !text[..start].ends_with(['(', '!']) => text[..start].trim_end(),
        _ => text,
    }
}

impl Filter {
    /// Understands a filter over these columns. An error says what is wrong and what was meant.
    pub fn parse(text: &str, fields: &[Field]) -> Result<Self, String> {
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

    /// True when the row is to be shown.
    pub fn matches(&self, row: &impl Row, now: Moment) -> bool {
        self.test(&self.root, row, now) == Some(true)
    }

    /// Three-valued: `None` where the answer is not known.
    fn test(&self, node: &Node, row: &impl Row, now: Moment) -> Option<bool> {
        match node {
            Node::All(parts) => {
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
            Node::Any(parts) => {
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
            Node::Not(part) => self.test(part, row, now).map(|is| !is),
            Node::Word(word) => Some(self.any_text(row, |value| has(value, word))),
            Node::Fuzzy(word) => {
                Some(self.any_text(row, |value| fuzzy(&joined(value), word).is_some()))
            }
            Node::Label(key, value) => Some(match (row.label(key), value) {
                (Some(found), Some(value)) => found == *value,
                (Some(_), None) => true,
                (None, _) => false,
            }),
            Node::Compare(column, op, literal) => compare(&row.value(*column), *op, literal, now),
        }
    }

    fn any_text(&self, row: &impl Row, test: impl Fn(&Value<'_>) -> bool) -> bool {
        self.words.iter().any(|column| test(&row.value(*column)))
    }

    /// True when it asks for nothing but words that must all occur.
    pub fn is_plain(&self) -> bool {
        match &self.root {
            Node::Word(_) => true,
            Node::All(parts) => parts.iter().all(|part| matches!(part, Node::Word(_))),
            _ => false,
        }
    }

    /// True when it lets through nothing that `other` does not: what happens as one types on.
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
            // Words compare as people count.
            _ => ordered(
                op,
                super::widget::cell::natural(&joined(value), &literal.text),
            ),
        });
    }
    let found = value.number(now)?;
    let wanted = match value {
        Value::Ratio(_) | Value::Bar(_) | Value::Trend(..) => literal.number? / 100.0,
        Value::Since(_) | Value::SeenSince(_) | Value::Span(_) => literal.seconds?,
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

/// The words of a value as they are shown.
fn joined<'a>(value: &'a Value<'_>) -> Cow<'a, str> {
    match value.words() {
        Some(("", words)) => Cow::Borrowed(words),
        Some((namespace, name)) => Cow::Owned(format!("{namespace}/{name}")),
        None => Cow::Borrowed(""),
    }
}

/// True when the value's words hold this one. A path is put together only for a word that spans its parts.
fn has(value: &Value<'_>, word: &str) -> bool {
    match value.words() {
        None => false,
        Some((namespace, _)) if !namespace.is_empty() && word.contains('/') => {
            contains(&joined(value), word)
        }
        Some((namespace, name)) => contains(name, word) || contains(namespace, word),
    }
}

/// True when the text holds the word, whatever the case of ASCII letters. `word` is in lower case.
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

/// How well the letters of `word` occur in `text` in order: the smaller the better. `word` is in lower case.
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

    const FIELDS: [Field; 6] = [
        Field {
            id: "job",
            numeric: false,
            plain: true,
        },
        Field {
            id: "class",
            numeric: false,
            plain: true,
        },
        Field {
            id: "util",
            numeric: true,
            plain: true,
        },
        Field {
            id: "held",
            numeric: true,
            plain: true,
        },
        Field {
            id: "temp",
            numeric: true,
            plain: true,
        },
        Field {
            id: "mem",
            numeric: true,
            plain: true,
        },
    ];

    fn shows(text: &str) -> bool {
        let filter = Filter::parse(text, &FIELDS).expect(text);
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
        let error = |text: &str| Filter::parse(text, &FIELDS).expect_err(text);
        assert!(error("utl<20").contains("did you mean `util`"));
        assert!(error("util<warm").contains("is a number"));
        assert!(error("util<").contains("needs a number"));
        assert!(error("zzzzzzzz:1").contains("there are job class"));
        for text in ["(", ")", "not", "-l", "\"x", "((((a)"] {
            error(text);
        }
        error(&"(".repeat(1000));
    }

    #[test]
    fn typing_on_narrows() {
        let parse = |text: &str| Filter::parse(text, &FIELDS).expect(text);
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
