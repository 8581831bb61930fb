//! Interned names: one allocation per distinct text, cheap to clone and compare.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use rustc_hash::FxBuildHasher;
use unicode_width::UnicodeWidthChar;

/// A shared, immutable text. Orders and hashes by content.
#[derive(Clone, Eq)]
pub struct Name(Arc<str>);

/// Compares pointers first: most equal names share their allocation.
impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl Ord for Name {
    fn cmp(&self, other: &Self) -> Ordering {
        match Arc::ptr_eq(&self.0, &other.0) {
            true => Ordering::Equal,
            false => self.0.cmp(&other.0),
        }
    }
}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl Name {
    /// A name with its own allocation. Decoders use [`Names::intern`] instead, so that equal texts share one.
    pub fn new(text: &str) -> Self {
        Self(Arc::from(text))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Name {
    fn default() -> Self {
        Self::new("")
    }
}

impl Deref for Name {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Name {
    fn from(text: String) -> Self {
        Self(Arc::from(text))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

crate::written_as!(Name, schemars::json_schema!({ "type": "string" }));

impl serde::Serialize for Name {
    fn serialize<S: serde::Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(&self.0)
    }
}

impl<'de> serde::Deserialize<'de> for Name {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from).map(Self::from)
    }
}

/// A set of names that returns the same allocation for the same text.
#[derive(Default, Debug, Clone)]
pub struct Names(HashSet<Name, FxBuildHasher>);

impl Names {
    /// The shared [`Name`] of this text, created on first use.
    pub fn intern(&mut self, text: &str) -> Name {
        if let Some(known) = self.0.get(text) {
            return known.clone();
        }
        let name = Name::new(text);
        self.0.insert(name.clone());
        name
    }

    /// Drops names without another reference. Called after many objects were deleted.
    pub fn prune(&mut self) {
        self.0.retain(|name| Arc::strong_count(&name.0) > 1);
    }

    /// Number of distinct names.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True when the set has no name.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Namespace and name of a namespaced object. Orders by namespace, then name.
#[derive(
    Clone,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Debug,
    Default,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct ObjectKey {
    /// Namespace; empty for a cluster-scoped object.
    pub namespace: Name,
    /// Name within the namespace.
    pub name: Name,
}

impl ObjectKey {
    pub fn new(namespace: impl Into<Name>, name: impl Into<Name>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            return f.pad(&self.name);
        }
        f.pad(&format!("{}/{}", self.namespace, self.name))
    }
}

/// True for a character that could rewrite or falsify a terminal screen: controls (C0, C1, DEL), direction marks and overrides,
/// and invisible zero-width characters (fillers, tags, variation selectors beyond the common ones).
pub fn is_hostile(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// Maximum combining marks kept on one character; a stack of them covers the lines above and below.
const MOST_MARKS: usize = 4;

/// The text with every [hostile character](is_hostile) replaced by a visible one, and at most four combining marks on a character.
pub fn printable(text: &str) -> std::borrow::Cow<'_, str> {
    cleaned(text, |_| false)
}

/// The same for a text of several lines: line breaks and tabs stay.
pub fn printable_lines(text: &str) -> std::borrow::Cow<'_, str> {
    cleaned(text, |c| matches!(c, '\n' | '\t'))
}

fn cleaned(text: &str, stays: impl Fn(char) -> bool) -> std::borrow::Cow<'_, str> {
    let hostile = |c: char| is_hostile(c) && !stays(c);
    // True for a combining mark beyond the maximum.
    let counter = || {
        let mut marks = 0;
        move |c: char| {
            let mark = !c.is_ascii() && UnicodeWidthChar::width(c) == Some(0);
            marks = if mark { marks + 1 } else { 0 };
            marks > MOST_MARKS
        }
    };
    let mut is_too_much = counter();
    if !text.chars().any(|c| hostile(c) || is_too_much(c)) {
        return std::borrow::Cow::Borrowed(text);
    }
    let mut is_too_much = counter();
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if hostile(c) {
            out.push('\u{fffd}');
        } else if !is_too_much(c) {
            out.push(c);
        }
    }
    std::borrow::Cow::Owned(out)
}

/// True for a valid name of a Kubernetes namespace or container (RFC 1123 label). Such a name is never a flag, and has no shell
/// metacharacter or terminal control.
pub fn is_dns_label(text: &str) -> bool {
    text.len() <= 63 && has_label_shape(text)
}

/// True for a valid name of a Kubernetes pod or node (RFC 1123 subdomain). Like a [label](is_dns_label), it is never a flag.
pub fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(has_label_shape)
}

fn has_label_shape(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    !text.is_empty()
        && !text.starts_with('-')
        && !text.ends_with('-')
        && text.bytes().all(|byte| plain(byte) || byte == b'-')
}

/// Natural order: `node-2` comes before `node-10`.
pub fn natural(a: &str, b: &str) -> Ordering {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    // Names in one pool share a prefix: skip it, back to the start of a number.
    let mut shared = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    while shared > 0 && a[shared - 1].is_ascii_digit() {
        shared -= 1;
    }
    let (mut i, mut j) = (shared, shared);
    while i < a.len() && j < b.len() {
        if a[i].is_ascii_digit() && b[j].is_ascii_digit() {
            let run = |text: &[u8], from: usize| {
                let end = text[from..]
                    .iter()
                    .position(|byte| !byte.is_ascii_digit())
                    .map_or(text.len(), |length| from + length);
                let start = text[from..end]
                    .iter()
                    .position(|byte| *byte != b'0')
                    .map_or(end, |zeros| from + zeros);
                (start, end)
            };
            let ((a_from, a_to), (b_from, b_to)) = (run(a, i), run(b, j));
            let order = (a_to - a_from)
                .cmp(&(b_to - b_from))
                .then_with(|| a[a_from..a_to].cmp(&b[b_from..b_to]));
            if order != Ordering::Equal {
                return order;
            }
            (i, j) = (a_to, b_to);
        } else {
            match a[i].cmp(&b[j]) {
                Ordering::Equal => (i, j) = (i + 1, j + 1),
                order => return order,
            }
        }
    }
    (a.len() - i).cmp(&(b.len() - j)).then_with(|| a.cmp(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_share_one_allocation() {
        let mut names = Names::default();
        let (a, b) = (names.intern("h100"), names.intern("h100"));
        assert!(Arc::ptr_eq(&a.0, &b.0));
        drop((a, b));
        names.prune();
        assert!(names.is_empty());
    }

    #[test]
    fn hostile_text_loses_its_teeth() {
        assert_eq!(printable("plain"), "plain");
        assert_eq!(
            printable("a\u{1b}[2Jb\u{202e}c\n"),
            "a\u{fffd}[2Jb\u{fffd}c\u{fffd}"
        );
        for hidden in [
            '\u{61c}',
            '\u{200b}',
            '\u{200d}',
            '\u{2060}',
            '\u{feff}',
            '\u{ad}',
            '\u{3164}',
            '\u{e0041}',
            '\u{e0100}',
        ] {
            let text = format!("tr{hidden}ain");
            assert_eq!(printable(&text), "tr\u{fffd}ain", "{hidden:?}");
        }
        assert_eq!(printable_lines("a\tb\nc\u{9b}"), "a\tb\nc\u{fffd}");
    }

    #[test]
    fn names_of_kubernetes_are_never_flags() {
        let long = "a".repeat(64);
        for good in ["a", "a-1", "0"] {
            assert!(is_dns_label(good) && is_dns_subdomain(good), "{good}");
        }
        for good in ["a.b", "ip-10-0-0-1.ec2.internal", &long] {
            assert!(!is_dns_label(good) && is_dns_subdomain(good), "{good}");
        }
        for bad in [
            "",
            "-a",
            "a-",
            "--rm",
            "a_b",
            "A",
            "a b",
            "a/b",
            "a..b",
            "a.-b",
            "a\u{1b}[2J",
            "a;b",
            "\u{e9}",
            &"a".repeat(254),
        ] {
            assert!(!is_dns_label(bad) && !is_dns_subdomain(bad), "{bad:?}");
        }
    }

    #[test]
    fn a_pile_of_marks_is_cut_down_and_an_honest_accent_stays() {
        for honest in [
            "e\u{301}te\u{301}",
            "訓練 プール",
            "ก็ ที่",
            "한국",
            "☀\u{fe0f}",
        ] {
            assert_eq!(printable(honest), honest);
        }
        let pile = format!("a{}b", "\u{334}".repeat(500));
        assert_eq!(printable(&pile), format!("a{}b", "\u{334}".repeat(4)));
    }
}
