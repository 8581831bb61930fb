//! Queries to Prometheus for what a dialect reads, and the label matchers that an operator adds to each.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::dialect::{Dialect, How, MetricUse};
use model::fleet::signal::Signal;

/// Longest list of metric names in one query, in bytes: servers and proxies take some 8 KiB of address.
const LONGEST: usize = 3000;

/// Label matchers that every query carries: `cluster="prod",env=~"a|b"`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Matchers(String);

impl Matchers {
    /// Reads matchers as PromQL writes them, with or without braces.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let inside = match text.strip_prefix('{') {
            Some(rest) => rest
                .strip_suffix('}')
                .ok_or_else(|| "the brace `{` is never closed".to_owned())?,
            None => text,
        };
        let mut rest = inside.trim();
        let mut out = String::new();
        while !rest.is_empty() {
            let end = rest
                .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
                .unwrap_or(rest.len());
            let (label, after) = rest.split_at(end);
            if label.is_empty() || label.starts_with(|c: char| c.is_ascii_digit()) {
                return Err(format!(
                    "expected a label name at `{rest}`, as in cluster=\"prod\""
                ));
            }
            let after = after.trim_start();
            let operator = ["=~", "!~", "!=", "="]
                .into_iter()
                .find(|operator| after.starts_with(operator))
                .ok_or_else(|| format!("expected one of = != =~ !~ after `{label}`"))?;
            let value = after[operator.len()..].trim_start();
            let length = quoted(value)
                .ok_or_else(|| format!("the value of `{label}` is not a quoted string"))?;
            if !out.is_empty() {
                out.push(',');
            }
            let _ = write!(out, "{label}{operator}{}", &value[..length]);
            rest = value[length..].trim_start();
            match rest.strip_prefix(',') {
                Some(next) => rest = next.trim_start(),
                None if rest.is_empty() => {}
                None => return Err(format!("expected a comma before `{rest}`")),
            }
        }
        Ok(Self(out))
    }

    /// The matchers as written between braces; empty without any.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A selector of these matchers and one more.
    pub fn with(&self, more: &str) -> String {
        match (self.0.is_empty(), more.is_empty()) {
            (true, _) => format!("{{{more}}}"),
            (false, true) => format!("{{{}}}", self.0),
            (false, false) => format!("{{{more},{}}}", self.0),
        }
    }
}

/// The length of the quoted text that `text` begins with, quotes included.
fn quoted(text: &str) -> Option<usize> {
    let mark = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '\n' => return None,
            c if c == mark => return Some(at + c.len_utf8()),
            _ => {}
        }
    }
    None
}

/// A text in quotes, as PromQL reads it.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A pattern that matches this text and no other.
fn literal(text: &str, out: &mut String) {
    for c in text.chars() {
        if !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | ':' | '/')) {
            out.push('\\');
        }
        out.push(c);
    }
}

/// `label=~"a|b"`, each a whole value.
pub fn any_of<'t>(label: &str, texts: impl IntoIterator<Item = &'t str>) -> String {
    let mut pattern = String::new();
    for text in texts {
        if !pattern.is_empty() {
            pattern.push('|');
        }
        literal(text, &mut pattern);
    }
    format!("{label}=~{}", quote(&pattern))
}

impl Dialect {
    /// The metric names of a Prometheus that this dialect reads, with the prefixes that an
    /// operator may have given them. Empty when none of them proves the dialect.
    pub fn known_of<'n>(&self, names: &[&'n str]) -> BTreeSet<&'n str> {
        let prefixes: BTreeSet<&str> = names
            .iter()
            .filter_map(|name| self.signature_prefix(name))
            .collect();
        names
            .iter()
            .copied()
            .filter(|name| {
                prefixes
                    .iter()
                    .any(|prefix| self.family(prefix, name).is_some())
            })
            .collect()
    }

    /// The metric names, of these, that a signal is made of, with those that identify devices.
    pub fn needed_for<'n>(
        &self,
        signals: &[Signal],
        names: &BTreeSet<&'n str>,
    ) -> BTreeSet<&'n str> {
        let mut wanted: BTreeSet<Signal> = signals.iter().copied().collect();
        loop {
            let before = wanted.len();
            for rule in &self.derives {
                if !wanted.contains(&rule.to) {
                    continue;
                }
                match &rule.how {
                    How::Sum(parts) | How::Minus(parts) => wanted.extend(parts),
                    How::Ratio { of, to, .. } => {
                        wanted.insert(*of);
                        wanted.extend(to);
                    }
                }
            }
            if wanted.len() == before {
                break;
            }
        }
        let prefixes: BTreeSet<&str> = names
            .iter()
            .filter_map(|name| self.signature_prefix(name))
            .collect();
        let serves = |using: &MetricUse| match using {
            MetricUse::Map { map, .. } => wanted.contains(&self.maps[usize::from(*map)].signal),
            MetricUse::Join(_) | MetricUse::Cores => true,
        };
        names
            .iter()
            .copied()
            .filter(|name| {
                prefixes
                    .iter()
                    .filter_map(|prefix| self.family(prefix, name))
                    .any(|uses| uses.iter().any(serves))
            })
            .collect()
    }

    /// Selectors that together give every series of `names` on rows that the dialect reads.
    pub fn selectors(
        &self,
        names: &BTreeSet<&str>,
        matchers: &Matchers,
        more: &str,
    ) -> Vec<String> {
        let mut rows = more.to_owned();
        let mut and = |text: String| {
            if !rows.is_empty() {
                rows.push(',');
            }
            rows.push_str(&text);
        };
        for (label, values) in &self.only.equal {
            let mut pattern = String::new();
            for value in values {
                if !pattern.is_empty() {
                    pattern.push('|');
                }
                for (at, part) in value.split('*').enumerate() {
                    if at > 0 {
                        pattern.push_str(".*");
                    }
                    literal(part, &mut pattern);
                }
            }
            and(format!("{label}=~{}", quote(&pattern)));
        }
        for label in &self.only.absent {
            and(format!("{label}=\"\""));
        }
        for label in &self.only.present {
            and(format!("{label}!=\"\""));
        }
        let mut chunks: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
        let mut length = 0;
        for name in names {
            length += name.len() + 1;
            chunks.entry(length / LONGEST).or_default().push(name);
        }
        chunks
            .into_values()
            .map(|names| {
                let mut inside = any_of("__name__", names);
                if !rows.is_empty() {
                    inside.push(',');
                    inside.push_str(&rows);
                }
                matchers.with(&inside)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dialects;

    #[test]
    fn matchers_are_read_as_promql_writes_them() {
        for (text, want) in [
            ("", ""),
            ("{}", ""),
            ("cluster=\"a\"", "cluster=\"a\""),
            (
                " { cluster = \"a\" , env=~'b|c', } ",
                "cluster=\"a\",env=~'b|c'",
            ),
            ("a=\"x\\\"}y\"", "a=\"x\\\"}y\""),
        ] {
            let read = Matchers::parse(text).expect(text);
            assert_eq!(read.as_str(), want, "{text}");
        }
        for bad in [
            "cluster",
            "cluster=",
            "cluster=a",
            "{cluster=\"a\"",
            "1a=\"b\"",
            "a=\"b\" c=\"d\"",
            "a=\"b",
            "=\"b\"",
            "a==\"b\"",
        ] {
            assert!(Matchers::parse(bad).is_err(), "{bad}");
        }
        let some = Matchers::parse("a=\"b\"").expect("is right");
        assert_eq!(some.with("c=\"d\""), "{c=\"d\",a=\"b\"}");
        assert_eq!(Matchers::default().with("c=\"d\""), "{c=\"d\"}");
    }

    #[test]
    fn only_what_is_there_is_asked_for() {
        let dialects = Dialects::builtin();
        let amd = dialects.get("amd").expect("is built in");
        let names = [
            "amd_gpu_gfx_activity",
            "amd_gpu_clock",
            "amd_something",
            "up",
            "DCGM_FI_DEV_GPU_UTIL",
        ];
        let known = amd.known_of(&names);
        assert!(known.contains("amd_gpu_gfx_activity"), "{known:?}");
        assert!(!known.contains("up") && !known.contains("DCGM_FI_DEV_GPU_UTIL"));
        assert!(amd.known_of(&["up", "node_load1"]).is_empty());
        let dcgm = dialects.get("dcgm").expect("is built in");
        let names = dcgm.known_of(&[
            "DCGM_FI_DEV_GPU_UTIL",
            "DCGM_FI_DEV_FB_USED",
            "DCGM_FI_DEV_SM_CLOCK",
        ]);
        let needed = dcgm.needed_for(&[Signal::Util, Signal::MemUsedRatio], &names);
        assert_eq!(
            needed.into_iter().collect::<Vec<_>>(),
            ["DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_GPU_UTIL"]
        );
        let tpu = dialects.get("tpu").expect("is built in");
        let names = tpu.known_of(&["duty_cycle", "memory_used"]);
        let matchers = Matchers::parse("cluster=\"a\"").expect("is right");
        assert_eq!(
            tpu.selectors(&names, &matchers, ""),
            ["{__name__=~\"duty_cycle|memory_used\",make=~\"cloud-tpu|tpu|google\",cluster=\"a\"}"]
        );
    }

    #[test]
    fn long_lists_of_names_are_asked_for_in_parts() {
        let dialects = Dialects::builtin();
        let dcgm = dialects.get("dcgm").expect("is built in");
        let all: Vec<String> = (0..200)
            .map(|at| format!("DCGM_FI_DEV_SOMETHING_{at:03}"))
            .collect();
        let names: BTreeSet<&str> = all.iter().map(String::as_str).collect();
        let queries = dcgm.selectors(&names, &Matchers::default(), "");
        assert_eq!(queries.len(), 2);
        assert!(queries.iter().all(|query| query.len() < LONGEST + 200));
        let together = queries.concat();
        assert!(all.iter().all(|name| together.contains(name)));
    }

    #[test]
    fn texts_cannot_leave_their_quotes() {
        assert_eq!(quote("a\"} or up{\\\n"), "\"a\\\"} or up{\\\\\\n\"");
        assert_eq!(
            any_of("i", ["10.0.0.1:9400", "b|c"]),
            "i=~\"10\\\\.0\\\\.0\\\\.1:9400|b\\\\|c\""
        );
    }
}
