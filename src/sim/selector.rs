//! Label and field selectors, with the grammar and the error texts of the API server.

use std::collections::BTreeSet;

use serde_json::Value;

use model::base::SmallSort;

use super::json::{list, text};
use super::names::{bad_key, bad_value, quoted};

/// How a label is compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LabelOperator {
    /// It is there and has one of the values.
    In,
    /// It is absent or has none of the values.
    NotIn,
    Exists,
    Absent,
    /// It is a whole number above the value.
    Above,
    Below,
}

/// One requirement of a label selector.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Need {
    key: String,
    operator: LabelOperator,
    values: BTreeSet<String>,
}

/// A label selector: all requirements hold. An empty one matches everything.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LabelSelector(Vec<Need>);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SelectorToken {
    /// A key, a value, `in` or `notin`.
    Word,
    Symbol,
    Error,
    End,
}

const SYMBOLS: [&str; 9] = [")", ",", "!", "==", "=", ">", "<", "!=", "("];

fn scan(input: &str) -> Vec<(SelectorToken, String)> {
    let special = |c: char| matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<');
    let blank = |c: char| matches!(c, ' ' | '\t' | '\r' | '\n');
    let mut tokens = Vec::new();
    let mut rest = input;
    loop {
        rest = rest.trim_start_matches(blank);
        let Some(first) = rest.chars().next() else {
            tokens.push((SelectorToken::End, String::new()));
            return tokens;
        };
        if !special(first) {
            let end = rest.find(|c| special(c) || blank(c)).unwrap_or(rest.len());
            tokens.push((SelectorToken::Word, rest[..end].to_owned()));
            rest = &rest[end..];
            continue;
        }
        // The longest operator that the run of symbols begins with.
        let run = rest.find(|c| !special(c)).unwrap_or(rest.len());
        let mut lengths = (1..=run.min(2)).rev();
        let end = match lengths.find(|&n| SYMBOLS.contains(&&rest[..n])) {
            Some(n) => {
                tokens.push((SelectorToken::Symbol, rest[..n].to_owned()));
                n
            }
            None => {
                let found = format!("error expected: keyword found '{}'", &rest[..run]);
                tokens.push((SelectorToken::Error, found));
                run
            }
        };
        rest = &rest[end..];
    }
}

struct SelectorParser {
    tokens: Vec<(SelectorToken, String)>,
    at: usize,
}

impl SelectorParser {
    fn peek(&self) -> (SelectorToken, &str) {
        let (token, text) = &self.tokens[self.at.min(self.tokens.len() - 1)];
        (*token, text)
    }

    fn take(&mut self) -> (SelectorToken, String) {
        let (token, text) = self.peek();
        let taken = (token, text.to_owned());
        self.at += 1;
        taken
    }

    fn all(&mut self) -> Result<Vec<Need>, String> {
        let mut needs = Vec::new();
        let mut expected = "!, identifier, or 'end of string'";
        loop {
            match self.peek() {
                (SelectorToken::Word, _) | (_, "!") => {}
                (SelectorToken::End, _) if needs.is_empty() => return Ok(needs),
                (_, found) => return Err(format!("found '{found}', expected: {expected}")),
            }
            let need = self.need();
            needs.push(need.map_err(|why| format!("unable to parse requirement: {why}"))?);
            match self.take() {
                (SelectorToken::End, _) => return Ok(needs),
                (_, found) if found == "," => expected = "identifier after ','",
                (_, found) => {
                    return Err(format!("found '{found}', expected: ',' or 'end of string'"));
                }
            }
        }
    }

    fn need(&mut self) -> Result<Need, String> {
        let (mut token, mut key) = self.take();
        let negated = key == "!";
        if negated {
            (token, key) = self.take();
        }
        if token != SelectorToken::Word {
            return Err(format!("found '{key}', expected: identifier"));
        }
        if let Some(why) = bad_key(&key) {
            return Err(format!("<nil>: Invalid value: {}: {why}", quoted(&key)));
        }
        let alone = |key, operator| Need {
            key,
            operator,
            values: BTreeSet::new(),
        };
        if negated {
            return Ok(alone(key, LabelOperator::Absent));
        }
        if matches!(self.peek(), (SelectorToken::End, _) | (_, ",")) {
            return Ok(alone(key, LabelOperator::Exists));
        }
        let (_, found) = self.take();
        let operator = match found.as_str() {
            "in" | "=" | "==" => LabelOperator::In,
            "notin" | "!=" => LabelOperator::NotIn,
            ">" => LabelOperator::Above,
            "<" => LabelOperator::Below,
            _ => {
                return Err(format!(
                    "found '{found}', expected: in, notin, =, ==, !=, gt, lt"
                ));
            }
        };
        let values = match found.as_str() {
            "in" | "notin" => self.values()?,
            _ => BTreeSet::from([self.exact()?]),
        };
        for value in &values {
            if let Some(why) = bad_value(value) {
                return Err(format!(
                    "values[0][{key}]: Invalid value: {}: {why}",
                    quoted(value)
                ));
            }
        }
        let need = Need {
            key,
            operator,
            values,
        };
        if matches!(operator, LabelOperator::Above | LabelOperator::Below)
            && need.number().is_none()
        {
            return Err(format!(
                "values[0]: Invalid value: {}: for 'Gt', 'Lt' operators, the value must be an integer",
                quoted(need.first())
            ));
        }
        Ok(need)
    }

    fn values(&mut self) -> Result<BTreeSet<String>, String> {
        let (_, found) = self.take();
        if found != "(" {
            return Err(format!("found '{found}' expected: '('"));
        }
        let values = match self.peek() {
            (_, ")") => BTreeSet::from([String::new()]),
            (SelectorToken::Word, _) | (_, ",") => self.identifiers()?,
            (_, found) => {
                return Err(format!("found '{found}', expected: ',', ')' or identifier"));
            }
        };
        // The closing parenthesis.
        self.at += 1;
        Ok(values)
    }

    /// The values up to the closing parenthesis; where one is left out, it is empty.
    fn identifiers(&mut self) -> Result<BTreeSet<String>, String> {
        let mut values = BTreeSet::new();
        loop {
            match self.take() {
                (SelectorToken::Word, word) => {
                    values.insert(word);
                    match self.peek() {
                        (_, ",") => {}
                        (_, ")") => return Ok(values),
                        (_, found) => return Err(format!("found '{found}', expected: ',' or ')'")),
                    }
                }
                (_, comma) if comma == "," => {
                    let next = self.peek().1;
                    if values.is_empty() || matches!(next, ")" | ",") {
                        values.insert(String::new());
                    }
                    if self.peek().1 == ")" {
                        return Ok(values);
                    }
                }
                (_, found) => return Err(format!("found '{found}', expected: ',', or identifier")),
            }
        }
    }

    fn exact(&mut self) -> Result<String, String> {
        if matches!(self.peek(), (SelectorToken::End, _) | (_, ",")) {
            return Ok(String::new());
        }
        match self.take() {
            (SelectorToken::Word, word) => Ok(word),
            (_, found) => Err(format!("found '{found}', expected: identifier")),
        }
    }
}

impl LabelSelector {
    /// Parses `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>3`; the error is the API server's.
    pub fn parse(input: &str) -> Result<Self, String> {
        let mut parser = SelectorParser {
            tokens: scan(input),
            at: 0,
        };
        parser.all().map(Self)
    }

    /// The selector of a `metav1.LabelSelector`; `None` when the object is no valid one.
    pub fn of_object(selector: &Value) -> Option<Self> {
        let mut needs = Vec::new();
        let labels = selector.get("matchLabels").and_then(Value::as_object);
        for (key, value) in labels.into_iter().flatten() {
            needs.push(Need {
                key: key.clone(),
                operator: LabelOperator::In,
                values: BTreeSet::from([value.as_str()?.to_owned()]),
            });
        }
        for expression in list(selector, "/matchExpressions") {
            let values = list(expression, "/values").iter();
            needs.push(Need {
                key: text(expression, "/key").to_owned(),
                operator: match text(expression, "/operator") {
                    "In" => LabelOperator::In,
                    "NotIn" => LabelOperator::NotIn,
                    "Exists" => LabelOperator::Exists,
                    "DoesNotExist" => LabelOperator::Absent,
                    _ => return None,
                },
                values: values
                    .filter_map(Value::as_str)
                    .map(str::to_owned)
                    .collect(),
            });
        }
        needs.small_sort_by(|a, b| a.key.cmp(&b.key));
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
            let value = labels.and_then(|l| l.get(&need.key));
            need.holds(value.and_then(Value::as_str))
        })
    }

    /// The selector as tables print it: `a=b,c in (d,e),!f`; empty when it matches everything.
    pub fn show(&self) -> String {
        self.0.iter().map(Need::show).collect::<Vec<_>>().join(",")
    }
}

impl Need {
    fn first(&self) -> &str {
        self.values.first().map_or("", String::as_str)
    }

    fn number(&self) -> Option<i64> {
        self.first().parse().ok()
    }

    /// Whether a label of this value, or an absent one, fulfils it.
    fn holds(&self, value: Option<&str>) -> bool {
        let numbers = || Some((value?.parse::<i64>().ok()?, self.number()?));
        match self.operator {
            LabelOperator::In => value.is_some_and(|v| self.values.contains(v)),
            LabelOperator::NotIn => value.is_none_or(|v| !self.values.contains(v)),
            LabelOperator::Exists => value.is_some(),
            LabelOperator::Absent => value.is_none(),
            LabelOperator::Above => numbers().is_some_and(|(value, than)| value > than),
            LabelOperator::Below => numbers().is_some_and(|(value, than)| value < than),
        }
    }

    fn show(&self) -> String {
        let values: Vec<&str> = self.values.iter().map(String::as_str).collect();
        let (key, values) = (&self.key, values.join(","));
        match self.operator {
            LabelOperator::In if self.values.len() == 1 => format!("{key}={values}"),
            LabelOperator::In => format!("{key} in ({values})"),
            LabelOperator::NotIn => format!("{key} notin ({values})"),
            LabelOperator::Exists => key.clone(),
            LabelOperator::Absent => format!("!{key}"),
            LabelOperator::Above => format!("{key}>{values}"),
            LabelOperator::Below => format!("{key}<{values}"),
        }
    }
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
            let parsed = LabelSelector::parse(selector).expect(selector);
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
            assert_eq!(
                LabelSelector::parse(selector).unwrap_err(),
                why,
                "{selector}"
            );
        }
        assert!(
            LabelSelector::parse("-a=b")
                .unwrap_err()
                .contains("name part must consist of")
        );
        assert!(
            LabelSelector::parse("a=b$")
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
            if let Ok(selector) = LabelSelector::parse(&text) {
                selector.matches(&object);
                // What tables print reads back as the same selector.
                prop_assert_eq!(LabelSelector::parse(&selector.show()).map(|s| s.matches(&object)), Ok(selector.matches(&object)));
            }
            let _ = FieldSelector::parse(&text);
        }
    }
}
