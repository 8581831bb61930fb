//! What is read out of labels: values with transforms and fallbacks, filters, globs.

use std::borrow::Cow;

use regex_lite::Regex;

use model::base::{Name, Names};

use super::line::Label;

/// A label's value, where it is there; an empty one is not.
pub(super) fn label<'s>(labels: &'s [Label<'_>], name: &str) -> Option<&'s str> {
    labels
        .iter()
        .find(|label| label.name == name)
        .map(|label| &*label.value)
        .filter(|value| !value.is_empty())
}

/// One place a text may come from.
#[derive(Debug, Clone)]
pub(super) struct LabelSource {
    pub label: String,
    /// What Prometheus calls it where the scrape target has a label of that name.
    pub moved: String,
    pub regex: Option<Regex>,
    pub strip: Option<String>,
    pub prefix: Option<String>,
    pub lower: bool,
    pub add: Option<i64>,
    pub filter: LabelFilter,
}

impl LabelSource {
    fn get<'s>(&self, labels: &'s [Label<'_>], absent: &[String]) -> Option<Cow<'s, str>> {
        if !self.filter.passes(labels) {
            return None;
        }
        let mut text = label(labels, &self.moved)
            .or_else(|| label(labels, &self.label))?
            .trim();
        if absent.iter().any(|word| word == text) {
            return None;
        }
        if let Some(regex) = &self.regex {
            let groups = regex.captures(text)?;
            text = groups.get(1).or_else(|| groups.get(0))?.as_str();
        }
        if let Some(strip) = &self.strip {
            text = text.strip_prefix(&**strip).unwrap_or(text);
        }
        if text.is_empty() || absent.iter().any(|word| word == text) {
            return None;
        }
        let mut value = Cow::Borrowed(text);
        if let Some(prefix) = &self.prefix
            && !value.starts_with(&**prefix)
        {
            value = Cow::Owned(format!("{prefix}{value}"));
        }
        if self.lower && value.chars().any(char::is_uppercase) {
            value = Cow::Owned(value.to_lowercase());
        }
        if let Some(add) = self.add {
            let number = value.parse::<i64>().ok()?.checked_add(add)?;
            value = Cow::Owned(number.to_string());
        }
        Some(value)
    }
}

/// Places in order: the first that answers.
#[derive(Debug, Clone, Default)]
pub(super) struct LabelSources(pub Vec<LabelSource>);

impl LabelSources {
    /// The first answer; texts in `absent` are none.
    pub fn get<'s>(&self, labels: &'s [Label<'_>], absent: &[String]) -> Option<Cow<'s, str>> {
        self.0.iter().find_map(|source| source.get(labels, absent))
    }
}

/// Labels that say which device a row is about.
#[derive(Debug, Clone, Default)]
pub(super) struct DeviceLabels {
    /// The identity of a device within the page.
    pub key: LabelSources,
    pub host: LabelSources,
    pub index: LabelSources,
    pub uuid: LabelSources,
    pub serial: LabelSources,
    pub pci: LabelSources,
    pub model: LabelSources,
    pub driver: LabelSources,
}

/// Conditions on labels, all of which must hold.
#[derive(Debug, Clone, Default)]
pub(super) struct LabelFilter {
    /// The label's value is one of these (globs; the empty text is an absent label).
    pub equal: Vec<(String, Vec<String>)>,
    pub absent: Vec<String>,
    pub present: Vec<String>,
}

impl LabelFilter {
    /// True when the labels meet every condition.
    pub fn passes(&self, labels: &[Label<'_>]) -> bool {
        self.equal.iter().all(|(name, values)| {
            let value = label(labels, name).unwrap_or("");
            values.iter().any(|wanted| glob(wanted, value))
        }) && self.absent.iter().all(|name| label(labels, name).is_none())
            && self
                .present
                .iter()
                .all(|name| label(labels, name).is_some())
    }

    /// True when it has no condition.
    pub fn is_empty(&self) -> bool {
        self.equal.is_empty() && self.absent.is_empty() && self.present.is_empty()
    }
}

/// True when `text` matches `pattern`, in which `*` matches any text.
pub(super) fn glob(pattern: &str, text: &str) -> bool {
    let Some((head, mut rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut text) = text.strip_prefix(head) else {
        return false;
    };
    while let Some((part, next)) = rest.split_once('*') {
        let Some(at) = text.find(part) else {
            return false;
        };
        text = &text[at + part.len()..];
        rest = next;
    }
    text.ends_with(rest)
}

/// A vendor's id, unless it is nothing but zeros: virtual functions and privacy filters print those.
pub(super) fn real_id(id: &str) -> bool {
    let tail = id
        .find('-')
        .filter(|at| id[..*at].chars().all(|c| c.is_ascii_uppercase()))
        .map_or(id, |at| &id[at + 1..]);
    !tail.is_empty()
        && tail
            .chars()
            .any(|c| !matches!(c, '0' | '-' | 'x' | 'X' | ':'))
}

/// Interns a label's text.
pub(super) fn intern(names: &mut Names, text: Option<Cow<'_, str>>) -> Option<Name> {
    text.map(|text| names.intern(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_whole_texts() {
        for (pattern, text, want) in [
            ("abc", "abc", true),
            ("abc", "abcd", false),
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("*b*", "abc", true),
            ("a*b*c", "a--b--c", true),
            ("a*b*c", "a--c", false),
            ("*", "", true),
            ("ab*ba", "aba", false),
        ] {
            assert_eq!(glob(pattern, text), want, "{pattern} {text}");
        }
    }

    #[test]
    fn zero_ids_are_no_ids() {
        for id in [
            "",
            "0",
            "GPU-",
            "00000000-0000-0000-0000-000000000000",
            "GPU-00000000-0000-0000-0000-000000000000",
            "0x0000000000000000",
        ] {
            assert!(!real_id(id), "{id}");
        }
        for id in [
            "GPU-00000000-0000-0000-0000-000000000001",
            "MIG-8",
            "692237000123",
            "ff-0",
        ] {
            assert!(real_id(id), "{id}");
        }
    }
}
