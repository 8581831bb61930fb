//! Filters: words, `!word`, `-l label=x` and typed comparisons, joined by and, or, not and parentheses.
//!
//! What is not known matches neither a comparison nor its opposite.

use crate::base::Moment;
use crate::base::time::parse_span;

use super::load::nearest;
use super::widget::Value;

/// A column that a filter can name.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its name in filters.
    pub id: &'static str,
    /// It holds numbers, ages or money.
    pub numeric: bool,
}

/// What a filter asks of a row.
pub trait Row {
    /// The value of the column at this place in the list of fields.
    fn value(&self, column: usize) -> Value<'_>;
    /// The value of a label; `None` when there is no such label.
    fn label(&self, key: &str) -> Option<String>;
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Op {
    Has,
    Is,
    IsNot,
    Less,
    LessOrIs,
    More,
    MoreOrIs,
}

#[derive(Clone, PartialEq, Debug)]
struct Literal {
    text: String,
    number: Option<f64>,
    seconds: Option<f64>,
    bytes: Option<f64>,
}

#[derive(Clone, PartialEq, Debug)]
enum Node {
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

/// How deep parentheses may go.
const DEEPEST: usize = 32;

impl Filter {
    /// Understands a filter over these columns. An error says what is wrong and what was meant.
    pub fn parse(text: &str, fields: &[Field]) -> Result<Self, String> {
        let tokens = tokens(text)?;
        let mut parser = Parser {
            tokens: &tokens,
            at: 0,
            fields,
        };
        let root = parser.any(0)?;
        if parser.at < tokens.len() {
            return Err(String::from("a `)` closes nothing"));
        }
        let words = (0..fields.len())
            .filter(|at| !fields[*at].numeric)
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
            Node::Word(word) => Some(self.any_text(row, |text| contains(text, word))),
            Node::Fuzzy(word) => Some(self.any_text(row, |text| fuzzy(text, word).is_some())),
            Node::Label(key, value) => Some(match (row.label(key), value) {
                (Some(found), Some(value)) => found == *value,
                (Some(_), None) => true,
                (None, _) => false,
            }),
            Node::Compare(column, op, literal) => compare(&row.value(*column), *op, literal, now),
        }
    }

    fn any_text(&self, row: &impl Row, test: impl Fn(&str) -> bool) -> bool {
        self.words
            .iter()
            .any(|column| row.value(*column).words().is_some_and(&test))
    }
}

fn compare(value: &Value<'_>, op: Op, literal: &Literal, now: Moment) -> Option<bool> {
    if let Some(words) = value.words() {
        return Some(match op {
            Op::Has => contains(words, &literal.text),
            Op::Is => words.eq_ignore_ascii_case(&literal.text),
            Op::IsNot => !words.eq_ignore_ascii_case(&literal.text),
            // Words compare as people count.
            _ => ordered(op, super::widget::cell::natural(words, &literal.text)),
        });
    }
    let found = value.number(now)?;
    let wanted = match value {
        Value::Ratio(_) | Value::Bar(_) | Value::Trend(..) => literal.number? / 100.0,
        Value::Since(_) => literal.seconds?,
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

#[derive(Clone, PartialEq, Debug)]
enum Token {
    Open,
    Close,
    Word(String, bool),
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut out = Vec::new();
    let mut word = String::new();
    let mut quoted = false;
    let mut inside = false;
    let flush = |word: &mut String, quoted: &mut bool, out: &mut Vec<Token>| {
        if !word.is_empty() || *quoted {
            out.push(Token::Word(std::mem::take(word), *quoted));
        }
        *quoted = false;
    };
    for c in text.chars() {
        match c {
            '"' => {
                inside = !inside;
                quoted = true;
            }
            _ if inside => word.push(c),
            '(' | ')' => {
                flush(&mut word, &mut quoted, &mut out);
                out.push(if c == '(' { Token::Open } else { Token::Close });
            }
            '!' if word.is_empty() => out.push(Token::Word(String::from("!"), false)),
            _ if c.is_whitespace() => flush(&mut word, &mut quoted, &mut out),
            _ => word.push(c),
        }
    }
    if inside {
        return Err(String::from("a `\"` is not closed"));
    }
    flush(&mut word, &mut quoted, &mut out);
    Ok(out)
}

struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
    fields: &'a [Field],
}

impl Parser<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Some(Token::Word(text, false)) if text.eq_ignore_ascii_case(word))
    }

    fn any(&mut self, depth: usize) -> Result<Node, String> {
        if depth > DEEPEST {
            return Err(String::from("parentheses go too deep"));
        }
        let mut parts = vec![self.all(depth)?];
        while self.is_word("or") {
            self.at += 1;
            parts.push(self.all(depth)?);
        }
        Ok(if parts.len() == 1 {
            parts.remove(0)
        } else {
            Node::Any(parts)
        })
    }

    fn all(&mut self, depth: usize) -> Result<Node, String> {
        let mut parts = Vec::new();
        loop {
            if self.is_word("and") {
                self.at += 1;
                continue;
            }
            match self.peek() {
                None | Some(Token::Close) => break,
                Some(_) if self.is_word("or") => break,
                Some(_) => parts.push(self.one(depth)?),
            }
        }
        Ok(if parts.len() == 1 {
            parts.remove(0)
        } else {
            Node::All(parts)
        })
    }

    fn one(&mut self, depth: usize) -> Result<Node, String> {
        let mut turned = false;
        while self.is_word("not") || self.is_word("!") {
            turned = !turned;
            self.at += 1;
        }
        let node = match self.peek().cloned() {
            None | Some(Token::Close) => {
                return if turned {
                    Err(String::from("`not` needs something after it"))
                } else {
                    Ok(Node::All(Vec::new()))
                };
            }
            Some(Token::Open) => {
                self.at += 1;
                let inner = self.any(depth + 1)?;
                if self.peek() != Some(&Token::Close) {
                    return Err(String::from("a `(` is not closed"));
                }
                self.at += 1;
                inner
            }
            Some(Token::Word(word, quoted)) => {
                self.at += 1;
                self.word(word, quoted)?
            }
        };
        Ok(if turned {
            Node::Not(Box::new(node))
        } else {
            node
        })
    }

    fn word(&mut self, word: String, quoted: bool) -> Result<Node, String> {
        if !quoted && (word == "-l" || word == "-f") {
            let Some(Token::Word(next, _)) = self.peek().cloned() else {
                return Err(if word == "-l" {
                    String::from("`-l` needs `label` or `label=value` after it")
                } else {
                    String::from("`-f` needs letters after it")
                });
            };
            self.at += 1;
            if word == "-f" {
                return Ok(Node::Fuzzy(next.to_ascii_lowercase()));
            }
            return Ok(match next.split_once('=') {
                Some((key, value)) => Node::Label(key.to_owned(), Some(value.to_owned())),
                None => Node::Label(next, None),
            });
        }
        // Two signs first, or `<=` would be read as `<` and a literal that begins with `=`.
        const OPS: [(&str, Op); 7] = [
            ("<=", Op::LessOrIs),
            (">=", Op::MoreOrIs),
            ("!=", Op::IsNot),
            ("<", Op::Less),
            (">", Op::More),
            ("=", Op::Is),
            (":", Op::Has),
        ];
        let split = (!quoted)
            .then(|| {
                OPS.iter()
                    .filter_map(|(sign, op)| word.find(sign).map(|at| (at, *sign, *op)))
                    .filter(|(at, ..)| *at > 0)
                    .min_by_key(|(at, sign, _)| (*at, 2 - sign.len()))
            })
            .flatten();
        let Some((at, sign, op)) = split else {
            return Ok(Node::Word(word.to_ascii_lowercase()));
        };
        let (name, rest) = (&word[..at], &word[at + sign.len()..]);
        let column = self
            .fields
            .iter()
            .position(|field| field.id.eq_ignore_ascii_case(name))
            .ok_or_else(|| {
                let known = || self.fields.iter().map(|field| field.id);
                let close = nearest(name, known());
                if close.is_empty() {
                    format!(
                        "no column `{name}` here; there are {}",
                        known().collect::<Vec<_>>().join(" ")
                    )
                } else {
                    format!("no column `{name}` here{close}")
                }
            })?;
        let literal = literal(rest);
        let counts = literal.number.is_some() || literal.seconds.is_some();
        if self.fields[column].numeric && !counts {
            return Err(if rest.is_empty() {
                format!("`{name}{sign}` needs a number after it")
            } else {
                format!("`{name}` is a number; `{rest}` is not")
            });
        }
        Ok(Node::Compare(column, op, literal))
    }
}

/// A literal with every reading that it allows: a number with `% $ ° W ms`, a span, bytes (GiB when bare).
fn literal(text: &str) -> Literal {
    let bare = text
        .trim_start_matches('$')
        .trim_end_matches("/h")
        .trim_end_matches("ms")
        .trim_end_matches("kW")
        .trim_end_matches(['%', '°', 'W', 'C']);
    let number = bare.parse::<f64>().ok().filter(|value| value.is_finite());
    let bytes = [
        ("TiB", 4),
        ("Ti", 4),
        ("GiB", 3),
        ("Gi", 3),
        ("MiB", 2),
        ("Mi", 2),
        ("", 3),
    ]
    .iter()
    .find_map(|(unit, power)| {
        let value = text.strip_suffix(unit)?.parse::<f64>().ok()?;
        Some(value * 1024f64.powi(*power))
    });
    Literal {
        text: text.to_ascii_lowercase(),
        number: number.or(bytes.filter(|_| !bare.is_empty())),
        seconds: parse_span(text).map(|span| span.as_secs_f64()),
        bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Sample;

    impl Row for Sample {
        fn value(&self, column: usize) -> Value<'_> {
            match column {
                0 => Value::text("nlp/LLM-70b"),
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
        },
        Field {
            id: "class",
            numeric: false,
        },
        Field {
            id: "util",
            numeric: true,
        },
        Field {
            id: "held",
            numeric: true,
        },
        Field {
            id: "temp",
            numeric: true,
        },
        Field {
            id: "mem",
            numeric: true,
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
    fn fuzzy_prefers_the_closer() {
        assert!(fuzzy("jobs", "job") < fuzzy("j-o-b", "job"));
        assert_eq!(fuzzy("jobs", "sj"), None);
    }
}
