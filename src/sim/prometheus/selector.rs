//! Instant vector selectors: `name{label="value",other=~"a|b"}`.

use regex_lite::Regex;

use super::pages::Labels;

#[derive(Clone, Debug)]
enum LabelTest {
    Equal(String),
    NotEqual(String),
    Like(Regex),
    NotLike(Regex),
}

/// A selector: every matcher holds.
#[derive(Clone, Debug)]
pub(super) struct SeriesSelector(Vec<(String, LabelTest)>);

/// Takes a quoted text off the front: its value and the rest.
fn quoted(input: &str) -> Result<(String, &str), String> {
    let unclosed = || "parse error: unterminated quoted string".to_owned();
    let mark = input
        .chars()
        .next()
        .filter(|c| matches!(c, '"' | '\'' | '`'));
    let mark =
        mark.ok_or_else(|| format!("parse error: a quoted text should stand at {input:?}"))?;
    let mut value = String::new();
    let mut chars = input.char_indices().skip(1);
    loop {
        let (at, c) = chars.next().ok_or_else(unclosed)?;
        if c == mark {
            return Ok((value, &input[at + c.len_utf8()..]));
        }
        if c == '\\' && mark != '`' {
            value.push(match chars.next().ok_or_else(unclosed)?.1 {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                c @ ('\\' | '"' | '\'') => c,
                other => return Err(format!("parse error: unknown escape sequence '\\{other}'")),
            });
        } else {
            value.push(c);
        }
    }
}

/// Takes a name off the front; it may be empty.
fn word(input: &str) -> (&str, &str) {
    let end = input
        .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | ':')))
        .unwrap_or(input.len());
    input.split_at(end)
}

/// What is evaluated: a selector, or the moments of its samples.
#[derive(Clone, Debug)]
pub(super) struct QueryExpression {
    pub selector: SeriesSelector,
    /// `timestamp(…)` of them, in seconds, without their name.
    pub timestamp: bool,
}

impl QueryExpression {
    /// Parses a selector, or `timestamp(SELECTOR)`.
    pub(super) fn parse(input: &str) -> Result<Self, String> {
        let inside = input
            .trim()
            .strip_prefix("timestamp")
            .map(str::trim_start)
            .and_then(|rest| rest.strip_prefix('(')?.trim_end().strip_suffix(')'));
        Ok(Self {
            selector: SeriesSelector::parse(inside.unwrap_or(input))?,
            timestamp: inside.is_some(),
        })
    }
}

impl SeriesSelector {
    pub(super) fn parse(input: &str) -> Result<Self, String> {
        let mut rest = input.trim();
        // Parentheses around the whole change nothing.
        while let Some(inside) = rest.strip_prefix('(').and_then(|r| r.strip_suffix(')')) {
            rest = inside.trim();
        }
        if rest.is_empty() {
            return Err("unknown position: parse error: no expression found in input".into());
        }
        let (name, after) = word(rest);
        let mut tests = Vec::new();
        if !name.is_empty() {
            if name.starts_with(|c: char| c.is_ascii_digit()) {
                return Err(format!(
                    "parse error: only instant vector selectors are served, not {input:?}"
                ));
            }
            tests.push(("__name__".to_owned(), LabelTest::Equal(name.to_owned())));
        }
        rest = after.trim_start();
        if let Some(inside) = rest.strip_prefix('{') {
            rest = inside.trim_start();
            loop {
                if let Some(after) = rest.strip_prefix('}') {
                    rest = after.trim_start();
                    break;
                }
                let (test, after) = matcher(rest)?;
                tests.push(test);
                rest = after.trim_start();
                match rest.strip_prefix(',') {
                    Some(after) => rest = after.trim_start(),
                    None if rest.starts_with('}') => {}
                    None => {
                        return Err(format!(
                            "parse error: unexpected {rest:?} in label matching, expected \",\" or \"}}\""
                        ));
                    }
                }
            }
        }
        if !rest.is_empty() {
            return Err(format!(
                "parse error: only instant vector selectors are served; {rest:?} goes beyond one"
            ));
        }
        let all_empty = tests.iter().all(|(_, test)| test.is_satisfied_by(""));
        if all_empty {
            return Err(
                "parse error: vector selector must contain at least one non-empty matcher".into(),
            );
        }
        Ok(Self(tests))
    }

    /// True when the matchers on the metric's name hold.
    pub(super) fn selects_name(&self, name: &str) -> bool {
        self.0
            .iter()
            .filter(|(label, _)| label == "__name__")
            .all(|(_, test)| test.is_satisfied_by(name))
    }

    /// True when a target of these labels can have a series that matches: no exporter's own label takes the place of these two.
    pub(super) fn reaches(&self, target: &Labels) -> bool {
        self.0
            .iter()
            .filter(|(label, _)| label == "job" || label == "instance")
            .all(|(label, test)| test.is_satisfied_by(target.get(label).map_or("", String::as_str)))
    }

    /// True when every matcher holds; an absent label is an empty one.
    pub(super) fn matches(&self, labels: &Labels) -> bool {
        self.0
            .iter()
            .all(|(label, test)| test.is_satisfied_by(labels.get(label).map_or("", String::as_str)))
    }
}

fn matcher(input: &str) -> Result<((String, LabelTest), &str), String> {
    let (label, rest) = if input.starts_with(['"', '\'', '`']) {
        let (name, rest) = quoted(input)?;
        let rest = rest.trim_start();
        if rest.starts_with([',', '}']) {
            // A quoted name alone is the metric's.
            return Ok((("__name__".into(), LabelTest::Equal(name)), rest));
        }
        (name, rest)
    } else {
        let (name, rest) = word(input);
        if name.is_empty() {
            return Err(format!(
                "parse error: unexpected {input:?} in label matching"
            ));
        }
        (name.to_owned(), rest.trim_start())
    };
    let operator = ["=~", "!~", "!=", "="]
        .into_iter()
        .find(|op| rest.starts_with(op))
        .ok_or_else(|| {
            format!("parse error: a label matching operator should stand at {rest:?}")
        })?;
    let (value, rest) = quoted(rest[operator.len()..].trim_start())?;
    let pattern = || {
        Regex::new(&format!("^(?s:{value})$"))
            .map_err(|error| format!("parse error: invalid regular expression: {error}"))
    };
    let test = match operator {
        "=~" => LabelTest::Like(pattern()?),
        "!~" => LabelTest::NotLike(pattern()?),
        "!=" => LabelTest::NotEqual(value),
        _ => LabelTest::Equal(value),
    };
    Ok(((label, test), rest))
}

impl LabelTest {
    fn is_satisfied_by(&self, value: &str) -> bool {
        match self {
            Self::Equal(wanted) => value == wanted,
            Self::NotEqual(unwanted) => value != unwanted,
            Self::Like(pattern) => pattern.is_match(value),
            Self::NotLike(pattern) => !pattern.is_match(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn selectors_match_whole_values() {
        let labels = Labels::from([
            ("__name__".into(), "DCGM_FI_DEV_GPU_UTIL".into()),
            ("gpu".into(), "0".into()),
        ]);
        for (text, matches) in [
            ("DCGM_FI_DEV_GPU_UTIL", true),
            (r#"{__name__=~"DCGM.*|other"}"#, true),
            (r#"{__name__=~"DCGM"}"#, false),
            (r#"DCGM_FI_DEV_GPU_UTIL{gpu!="1", pod=""}"#, true),
            (r#"{"DCGM_FI_DEV_GPU_UTIL", gpu!~'[1-9]',}"#, true),
            (r#"(up)"#, false),
        ] {
            let selector = SeriesSelector::parse(text).expect(text);
            assert_eq!(selector.matches(&labels), matches, "{text}");
        }
        for bad in [
            "",
            "{}",
            r#"{a=~".*"}"#,
            "sum(up)",
            "up[5m]",
            "up offset 5m",
            "up{a=}",
            "up{a=\"b",
            "1 + 1",
            r#"{a=~"("}"#,
        ] {
            assert!(SeriesSelector::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn timestamps_of_a_selector_are_an_expression() {
        let labels = Labels::from([("__name__".into(), "up".into()), ("job".into(), "a".into())]);
        let expression = QueryExpression::parse(" timestamp ( up{job=\"a\"} ) ").expect("is right");
        assert!(expression.timestamp && expression.selector.matches(&labels));
        assert!(
            expression.selector.selects_name("up") && !expression.selector.selects_name("down")
        );
        assert!(expression.selector.reaches(&labels));
        assert!(
            !expression
                .selector
                .reaches(&Labels::from([("job".into(), "b".into())]))
        );
        assert!(
            !QueryExpression::parse("timestamp_total")
                .expect("is right")
                .timestamp
        );
        assert!(QueryExpression::parse("timestamp(up").is_err());
        assert!(QueryExpression::parse("rate(up)").is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn parsing_never_panics(text in "[a-z{}=~!\"'`,\\\\ (\u{e9})]{0,30}") {
            let _ = SeriesSelector::parse(&text);
        }
    }
}
