//! Interned names: one allocation for each distinct text, cheap to clone and compare.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use rustc_hash::FxBuildHasher;

/// A shared, immutable text. Orders and hashes by content.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

impl Name {
    /// A name of its own allocation. Decoders use [`Names::intern`] instead, so that equal texts share.
    pub fn new(text: &str) -> Self {
        Self(Arc::from(text))
    }

    /// The text.
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

/// A set of names that hands out the same allocation for the same text.
#[derive(Default, Debug, Clone)]
pub struct Names(HashSet<Name, FxBuildHasher>);

impl Names {
    /// The one [`Name`] of this text, made at its first mention.
    pub fn intern(&mut self, text: &str) -> Name {
        if let Some(known) = self.0.get(text) {
            return known.clone();
        }
        let name = Name::new(text);
        self.0.insert(name.clone());
        name
    }

    /// Forgets names that nobody else holds. Called when many objects have gone.
    pub fn prune(&mut self) {
        self.0.retain(|name| Arc::strong_count(&name.0) > 1);
    }

    /// How many distinct names are held.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True when no name is held.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Namespace and name of a namespaced object. Orders by namespace, then name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ObjectKey {
    /// Namespace; empty for a cluster-scoped object.
    pub namespace: Name,
    /// Name within the namespace.
    pub name: Name,
}

impl ObjectKey {
    /// The key `namespace/name`.
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

/// True for a character that could rewrite the screen of whoever reads it: controls (C0, C1, DEL) and
/// bidirectional overrides.
pub fn is_hostile(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}' | '\u{feff}')
}

/// The text without control characters (C0, C1, DEL) and without bidirectional overrides, which could
/// rewrite the screen of whoever reads a hostile object name or label.
pub fn printable(text: &str) -> std::borrow::Cow<'_, str> {
    if text.chars().any(is_hostile) {
        std::borrow::Cow::Owned(
            text.chars()
                .map(|c| if is_hostile(c) { '\u{fffd}' } else { c })
                .collect(),
        )
    } else {
        std::borrow::Cow::Borrowed(text)
    }
}

/// Orders words so that `node-2` comes before `node-10`.
pub fn natural(a: &str, b: &str) -> Ordering {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    // Names of one pool share most of their letters: skip to where they part, back to the begin of a number.
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
    }
}
