//! Filter parser: text into a tree.

use model::base::time::parse_span;

use super::filter::{FilterField, FilterNode, Literal, Op};
use super::load::nearest;

/// Maximum nesting of parentheses.
const DEEPEST: usize = 32;

/// Parses a filter over these columns. An error says what is wrong and suggests a correction.
pub(super) fn read(text: &str, fields: &[FilterField]) -> Result<FilterNode, String> {
    let tokens = tokens(text)?;
    let mut parser = FilterParser {
        tokens: &tokens,
        at: 0,
        fields,
    };
    let root = parser.any(0)?;
    if parser.at < tokens.len() {
        return Err(String::from("a `)` closes nothing"));
    }
    Ok(root)
}

#[derive(Clone, PartialEq, Debug)]
enum FilterToken {
    Open,
    Close,
    Word(String, bool),
}

fn tokens(text: &str) -> Result<Vec<FilterToken>, String> {
    let mut out = Vec::new();
    let mut word = String::new();
    let mut quoted = false;
    let mut inside = false;
    let flush = |word: &mut String, quoted: &mut bool, out: &mut Vec<FilterToken>| {
        if !word.is_empty() || *quoted {
            out.push(FilterToken::Word(std::mem::take(word), *quoted));
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
                out.push(if c == '(' {
                    FilterToken::Open
                } else {
                    FilterToken::Close
                });
            }
            '!' if word.is_empty() => out.push(FilterToken::Word(String::from("!"), false)),
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

struct FilterParser<'a> {
    tokens: &'a [FilterToken],
    at: usize,
    fields: &'a [FilterField],
}

impl FilterParser<'_> {
    fn peek(&self) -> Option<&FilterToken> {
        self.tokens.get(self.at)
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Some(FilterToken::Word(text, false)) if text.eq_ignore_ascii_case(word))
    }

    fn any(&mut self, depth: usize) -> Result<FilterNode, String> {
        if depth > DEEPEST {
            return Err(String::from("parentheses are nested too deep"));
        }
        let mut parts = vec![self.all(depth)?];
        while self.is_word("or") {
            self.at += 1;
            parts.push(self.all(depth)?);
        }
        Ok(if parts.len() == 1 {
            parts.remove(0)
        } else {
            FilterNode::Any(parts)
        })
    }

    fn all(&mut self, depth: usize) -> Result<FilterNode, String> {
        let mut parts = Vec::new();
        loop {
            if self.is_word("and") {
                self.at += 1;
                continue;
            }
            match self.peek() {
                None | Some(FilterToken::Close) => break,
                Some(_) if self.is_word("or") => break,
                Some(_) => parts.push(self.one(depth)?),
            }
        }
        Ok(if parts.len() == 1 {
            parts.remove(0)
        } else {
            FilterNode::All(parts)
        })
    }

    fn one(&mut self, depth: usize) -> Result<FilterNode, String> {
        let mut turned = false;
        while self.is_word("not") || self.is_word("!") {
            turned = !turned;
            self.at += 1;
        }
        let node = match self.peek().cloned() {
            None | Some(FilterToken::Close) => {
                return if turned {
                    Err(String::from("`not` needs something after it"))
                } else {
                    Ok(FilterNode::All(Vec::new()))
                };
            }
            Some(FilterToken::Open) => {
                self.at += 1;
                let inner = self.any(depth + 1)?;
                if self.peek() != Some(&FilterToken::Close) {
                    return Err(String::from("a `(` is not closed"));
                }
                self.at += 1;
                inner
            }
            Some(FilterToken::Word(word, quoted)) => {
                self.at += 1;
                self.word(word, quoted)?
            }
        };
        Ok(if turned {
            FilterNode::Not(Box::new(node))
        } else {
            node
        })
    }

    fn word(&mut self, word: String, quoted: bool) -> Result<FilterNode, String> {
        if !quoted && (word == "-l" || word == "-f") {
            let Some(FilterToken::Word(next, _)) = self.peek().cloned() else {
                return Err(if word == "-l" {
                    String::from("`-l` needs `label` or `label=value` after it")
                } else {
                    String::from("`-f` needs letters after it")
                });
            };
            self.at += 1;
            if word == "-f" {
                return Ok(FilterNode::Fuzzy(next.to_ascii_lowercase()));
            }
            return Ok(match next.split_once('=') {
                Some((key, value)) => FilterNode::Label(key.to_owned(), Some(value.to_owned())),
                None => FilterNode::Label(next, None),
            });
        }
        // Two-character operators first; otherwise `<=` would parse as `<` with a literal that starts with `=`.
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
            return Ok(FilterNode::Word(word.to_ascii_lowercase()));
        };
        let (name, rest) = (&word[..at], &word[at + sign.len()..]);
        let column = column(self.fields, name).ok_or_else(|| {
            let known = self.fields.iter().map(|field| field.id);
            // The full list does not fit in a line.
            let close = match nearest(name, known) {
                close if close.is_empty() => String::from("; `|` lists the columns"),
                close => close,
            };
            format!("no column `{name}` here{close}")
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
        Ok(FilterNode::Compare(column, op, literal))
    }
}

/// The column with this name. `name` is accepted in every table: its own column, an alert's object, otherwise the first text column.
fn column(fields: &[FilterField], name: &str) -> Option<usize> {
    let of = |id: &str| {
        let mut fields = fields.iter();
        fields.position(|field| field.id.eq_ignore_ascii_case(id))
    };
    let called = || fields.iter().position(|field| field.is_called(name));
    of(name).or_else(called).or_else(|| {
        let called = name.eq_ignore_ascii_case("name");
        let first = || fields.iter().position(|field| !field.numeric);
        called.then(|| of("object").or_else(first)).flatten()
    })
}

/// A literal with every possible interpretation: a number with `% $ ° W ms`, a duration, bytes (GiB without a unit).
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
