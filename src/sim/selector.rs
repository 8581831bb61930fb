//! Label and field selectors, with the grammar and the error texts of the API server.

use std::collections::BTreeSet;

use serde_json::Value;

use model::base::SmallSort;

use super::json::{list, text};
use super::names::{bad_key, bad_value, quoted};

/// One requirement of a label selector.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Need {
    /// The label is there and has one of these values.
    In(String, BTreeSet<String>),
    /// The label is absent or has none of these values.
    NotIn(String, BTreeSet<String>),
    /// The label is there.
    Exists(String),
    /// The label is absent.
    Absent(String),
    /// The label is a whole number above this one.
    Above(String, i64),
    /// The label is a whole number below this one.
    Below(String, i64),
}

/// A label selector: all requirements hold. An empty one matches everything.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Labels(Vec<Need>);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Token {
    Error,
    End,
    Close,
    Comma,
    Not,
    DoubleEquals,
    Equals,
    Above,
    Word,
    In,
    Below,
    NotEquals,
    NotIn,
    Open,
}

fn keyword(text: &str) -> Option<Token> {
    Some(match text {
        ")" => Token::Close,
        "," => Token::Comma,
        "!" => Token::Not,
        "==" => Token::DoubleEquals,
        "=" => Token::Equals,
        ">" => Token::Above,
        "in" => Token::In,
        "<" => Token::Below,
        "!=" => Token::NotEquals,
        "notin" => Token::NotIn,
        "(" => Token::Open,
        _ => return None,
    })
}

fn scan(input: &str) -> Vec<(Token, String)> {
    let special = |c: char| matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<');
    let blank = |c: char| matches!(c, ' ' | '\t' | '\r' | '\n');
    let mut tokens = Vec::new();
    let mut rest = input;
    loop {
        rest = rest.trim_start_matches(blank);
        let Some(first) = rest.chars().next() else {
            tokens.push((Token::End, String::new()));
            return tokens;
        };
        if !special(first) {
            let end = rest.find(|c| special(c) || blank(c)).unwrap_or(rest.len());
            let word = &rest[..end];
            tokens.push((keyword(word).unwrap_or(Token::Word), word.to_owned()));
            rest = &rest[end..];
            continue;
        }
        // The longest operator that the run of symbols begins with.
        let run = rest.find(|c| !special(c)).unwrap_or(rest.len());
        let longest = (1..=run.min(2))
            .rev()
            .find(|&n| keyword(&rest[..n]).is_some());
        match longest {
            Some(n) => {
                let token = keyword(&rest[..n]).unwrap_or(Token::Error);
                tokens.push((token, rest[..n].to_owned()));
                rest = &rest[n..];
            }
            None => {
                let found = format!("error expected: keyword found '{}'", &rest[..run]);
                tokens.push((Token::Error, found));
                rest = &rest[run..];
            }
        }
    }
}

struct Parser {
    tokens: Vec<(Token, String)>,
    at: usize,
}

impl Parser {
    /// The current token as a value: `in` and `notin` are plain words in the position of a value.
    fn peek(&self) -> (Token, &str) {
        let (token, text) = &self.tokens[self.at.min(self.tokens.len() - 1)];
        match token {
            Token::In | Token::NotIn => (Token::Word, text),
            other => (other.clone(), text),
        }
    }

    fn take(&mut self) -> (Token, String) {
        let (token, text) = self.peek();
        let taken = (token, text.to_owned());
        self.at += 1;
        taken
    }

    fn take_operator(&mut self) -> (Token, String) {
        let taken = self.tokens[self.at.min(self.tokens.len() - 1)].clone();
        self.at += 1;
        taken
    }

    fn all(&mut self) -> Result<Vec<Need>, String> {
        let mut needs = Vec::new();
        loop {
            match self.peek() {
                (Token::Word | Token::Not, _) => {
                    let need = self
                        .need()
                        .map_err(|why| format!("unable to parse requirement: {why}"))?;
                    needs.push(need);
                    match self.take() {
                        (Token::End, _) => return Ok(needs),
                        (Token::Comma, _) => match self.peek() {
                            (Token::Word | Token::Not, _) => {}
                            (_, found) => {
                                return Err(format!(
                                    "found '{found}', expected: identifier after ','"
                                ));
                            }
                        },
                        (_, found) => {
                            return Err(format!(
                                "found '{found}', expected: ',' or 'end of string'"
                            ));
                        }
                    }
                }
                (Token::End, _) => return Ok(needs),
                (_, found) => {
                    return Err(format!(
                        "found '{found}', expected: !, identifier, or 'end of string'"
                    ));
                }
            }
        }
    }

    fn need(&mut self) -> Result<Need, String> {
        let (mut token, mut key) = self.take();
        let negated = token == Token::Not;
        if negated {
            (token, key) = self.take();
        }
        if token != Token::Word {
            return Err(format!("found '{key}', expected: identifier"));
        }
        if let Some(why) = bad_key(&key) {
            return Err(format!("<nil>: Invalid value: {}: {why}", quoted(&key)));
        }
        if negated {
            return Ok(Need::Absent(key));
        }
        if matches!(self.peek().0, Token::End | Token::Comma) {
            return Ok(Need::Exists(key));
        }
        let (operator, found) = self.take_operator();
        let values = match operator {
            Token::In | Token::NotIn => self.values()?,
            Token::Equals
            | Token::DoubleEquals
            | Token::NotEquals
            | Token::Above
            | Token::Below => BTreeSet::from([self.exact()?]),
            _ => {
                return Err(format!(
                    "found '{found}', expected: in, notin, =, ==, !=, gt, lt"
                ));
            }
        };
        for value in &values {
            if let Some(why) = bad_value(value) {
                return Err(format!(
                    "values[0][{key}]: Invalid value: {}: {why}",
                    quoted(value)
                ));
            }
        }
        let number = || {
            values
                .iter()
                .next()
                .and_then(|v| v.parse::<i64>().ok())
                .ok_or_else(|| {
                    let found = values.iter().next().map_or("", String::as_str);
                    format!(
                        "values[0]: Invalid value: {}: for 'Gt', 'Lt' operators, the value must be an integer",
                        quoted(found)
                    )
                })
        };
        Ok(match operator {
            Token::NotIn | Token::NotEquals => Need::NotIn(key, values),
            Token::Above => Need::Above(key, number()?),
            Token::Below => Need::Below(key, number()?),
            _ => Need::In(key, values),
        })
    }

    fn values(&mut self) -> Result<BTreeSet<String>, String> {
        let (token, found) = self.take();
        if token != Token::Open {
            return Err(format!("found '{found}' expected: '('"));
        }
        match self.peek() {
            (Token::Close, _) => {
                self.at += 1;
                Ok(BTreeSet::from([String::new()]))
            }
            (Token::Word | Token::Comma, _) => {
                let values = self.identifiers()?;
                // `identifiers` stops in front of the closing parenthesis.
                self.at += 1;
                Ok(values)
            }
            (_, found) => Err(format!("found '{found}', expected: ',', ')' or identifier")),
        }
    }

    fn identifiers(&mut self) -> Result<BTreeSet<String>, String> {
        let mut values = BTreeSet::new();
        loop {
            match self.take() {
                (Token::Word, word) => {
                    values.insert(word);
                    match self.peek() {
                        (Token::Comma, _) => {}
                        (Token::Close, _) => return Ok(values),
                        (_, found) => return Err(format!("found '{found}', expected: ',' or ')'")),
                    }
                }
                (Token::Comma, _) => {
                    if values.is_empty() {
                        values.insert(String::new());
                    }
                    match self.peek().0 {
                        Token::Close => {
                            values.insert(String::new());
                            return Ok(values);
                        }
                        Token::Comma => {
                            values.insert(String::new());
                        }
                        _ => {}
                    }
                }
                (_, found) => return Err(format!("found '{found}', expected: ',', or identifier")),
            }
        }
    }

    fn exact(&mut self) -> Result<String, String> {
        if matches!(self.peek().0, Token::End | Token::Comma) {
            return Ok(String::new());
        }
        match self.take() {
            (Token::Word, word) => Ok(word),
            (_, found) => Err(format!("found '{found}', expected: identifier")),
        }
    }
}

impl Labels {
    /// Parses `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>3`; the error is the API server's.
    pub fn parse(input: &str) -> Result<Self, String> {
        let mut parser = Parser {
            tokens: scan(input),
            at: 0,
        };
        parser.all().map(Self)
    }

    /// The selector of a `metav1.LabelSelector`; `None` when the object is no valid one.
    pub fn of_object(selector: &Value) -> Option<Self> {
        let mut needs = Vec::new();
        if let Some(labels) = selector.get("matchLabels").and_then(Value::as_object) {
            for (key, value) in labels {
                let value = value.as_str()?.to_owned();
                needs.push(Need::In(key.clone(), BTreeSet::from([value])));
            }
        }
        for expression in list(selector, "/matchExpressions") {
            let key = text(expression, "/key").to_owned();
            let values = list(expression, "/values")
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect();
            needs.push(match text(expression, "/operator") {
                "In" => Need::In(key, values),
                "NotIn" => Need::NotIn(key, values),
                "Exists" => Need::Exists(key),
                "DoesNotExist" => Need::Absent(key),
                _ => return None,
            });
        }
        needs.small_sort_by(|a, b| a.key().cmp(b.key()));
        Some(Self(needs))
    }

    /// True when it matches everything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True when the object's labels fulfil every requirement.
    pub fn matches(&self, object: &Value) -> bool {
        let labels = object
            .pointer("/metadata/labels")
            .and_then(Value::as_object);
        self.0.iter().all(|need| {
            let value = |key: &str| labels.and_then(|l| l.get(key)).and_then(Value::as_str);
            match need {
                Need::In(key, values) => value(key).is_some_and(|v| values.contains(v)),
                Need::NotIn(key, values) => value(key).is_none_or(|v| !values.contains(v)),
                Need::Exists(key) => value(key).is_some(),
                Need::Absent(key) => value(key).is_none(),
                Need::Above(key, than) => number(value(key)).is_some_and(|v| v > *than),
                Need::Below(key, than) => number(value(key)).is_some_and(|v| v < *than),
            }
        })
    }

    /// The selector as tables print it: `a=b,c in (d,e),!f`; empty when it matches everything.
    pub fn show(&self) -> String {
        let part = |need: &Need| match need {
            Need::In(key, values) if values.len() == 1 => {
                format!("{key}={}", values.iter().next().map_or("", String::as_str))
            }
            Need::In(key, values) => format!("{key} in ({})", joined(values)),
            Need::NotIn(key, values) => format!("{key} notin ({})", joined(values)),
            Need::Exists(key) => key.clone(),
            Need::Absent(key) => format!("!{key}"),
            Need::Above(key, than) => format!("{key}>{than}"),
            Need::Below(key, than) => format!("{key}<{than}"),
        };
        self.0.iter().map(part).collect::<Vec<_>>().join(",")
    }
}

impl Need {
    fn key(&self) -> &str {
        match self {
            Self::In(key, _)
            | Self::NotIn(key, _)
            | Self::Exists(key)
            | Self::Absent(key)
            | Self::Above(key, _)
            | Self::Below(key, _) => key,
        }
    }
}

fn joined(values: &BTreeSet<String>) -> String {
    values
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(",")
}

fn number(value: Option<&str>) -> Option<i64> {
    value.and_then(|v| v.parse().ok())
}

/// A field selector: each term is a field, whether it must equal, and the value.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FieldSelector(Vec<(String, bool, String)>);

impl FieldSelector {
    /// Parses `a=b,c!=d` with `\,`, `\=` and `\\` escaped in values; the error is the API server's.
    pub fn parse(input: &str) -> Result<Self, String> {
        let mut terms = Vec::new();
        let (mut term, mut escaped) = (String::new(), false);
        for c in input.chars() {
            match c {
                ',' if !escaped => terms.push(std::mem::take(&mut term)),
                _ => term.push(c),
            }
            escaped = c == '\\' && !escaped;
        }
        terms.push(term);
        let mut parsed = Vec::new();
        for term in terms.iter().filter(|term| !term.is_empty()) {
            let bad = || format!("invalid selector: '{input}'; can't understand '{term}'");
            let at = term.find(['!', '=']).ok_or_else(bad)?;
            let (field, rest) = term.split_at(at);
            let (equal, value) = if let Some(value) = rest.strip_prefix("!=") {
                (false, value)
            } else if let Some(value) = rest.strip_prefix("==") {
                (true, value)
            } else {
                (true, rest.strip_prefix('=').ok_or_else(bad)?)
            };
            parsed.push((field.to_owned(), equal, unescaped(value)?));
        }
        Ok(Self(parsed))
    }

    /// The terms: field, whether the operator is equality, value.
    pub fn terms(&self) -> &[(String, bool, String)] {
        &self.0
    }

    /// True when it matches everything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value that `field` must equal, when one term requires it.
    pub fn exact(&self, field: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(name, equal, _)| name == field && *equal)
            .map(|(_, _, value)| value.as_str())
    }
}

fn unescaped(value: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(next @ ('\\' | ',' | '=')) => out.push(next),
                Some(next) => {
                    return Err(format!(
                        "invalid field selector: invalid escape sequence: \\{next}"
                    ));
                }
                None => return Err("invalid field selector: invalid escape sequence: \\".into()),
            },
            ',' | '=' => {
                return Err(format!(
                    "invalid field selector: unescaped character in value: {}",
                    c as u32
                ));
            }
            c => out.push(c),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn pod() -> Value {
        json!({"metadata": {"labels": {"app": "web", "tier": "gold", "n": "5"}}})
    }

    #[test]
    fn selectors_match_as_kubectl_expects() {
        for (selector, matches) in [
            ("", true),
            ("app=web", true),
            ("app==web,tier!=silver", true),
            ("app!=web", false),
            ("app in (web, db)", true),
            ("app notin (web)", false),
            ("other notin (x)", true),
            ("app", true),
            ("!app", false),
            ("!other", true),
            ("n>4,n<6", true),
            ("n>5", false),
            ("app in (in)", false),
            ("other=", false),
        ] {
            let parsed = Labels::parse(selector).expect(selector);
            assert_eq!(parsed.matches(&pod()), matches, "{selector}");
        }
    }

    #[test]
    fn bad_selectors_say_why() {
        for (selector, why) in [
            ("app=web,", "found '', expected: identifier after ','"),
            (
                "=web",
                "found '=', expected: !, identifier, or 'end of string'",
            ),
            (
                "a b",
                "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
            ),
            (
                "a in b",
                "unable to parse requirement: found 'b' expected: '('",
            ),
            ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ] {
            assert_eq!(Labels::parse(selector).unwrap_err(), why, "{selector}");
        }
        assert!(
            Labels::parse("-a=b")
                .unwrap_err()
                .contains("name part must consist of")
        );
        assert!(
            Labels::parse("a=b$")
                .unwrap_err()
                .contains("a valid label must be")
        );
    }

    #[test]
    fn field_selectors_unescape() {
        let fields =
            FieldSelector::parse(r"spec.nodeName=a\,b,status.phase!=Failed").expect("valid");
        assert_eq!(fields.exact("spec.nodeName"), Some("a,b"));
        assert_eq!(fields.exact("status.phase"), None);
        assert!(FieldSelector::parse("nonsense").is_err());
        assert!(FieldSelector::parse("a=b=c").is_err());
        assert!(FieldSelector::parse("a=\\x").is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn parsing_never_panics(text in "[a-z0-9=!(),<> in/.\\\\\u{e9}-]{0,40}") {
            let object = pod();
            if let Ok(selector) = Labels::parse(&text) {
                selector.matches(&object);
                // What tables print reads back as the same selector.
                prop_assert_eq!(Labels::parse(&selector.show()).map(|s| s.matches(&object)), Ok(selector.matches(&object)));
            }
            let _ = FieldSelector::parse(&text);
        }
    }
}
