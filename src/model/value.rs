//! A document whose fields keep their order, as between JSON and the other outputs.

use std::fmt;
use std::fmt::Write as _;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::base::name::{is_hostile, printable_lines};

/// A JSON value with its fields in order.
#[derive(Clone, PartialEq, Debug)]
pub enum Json {
    Null,
    Bool(bool),
    /// A whole number below zero.
    Int(i64),
    Uint(u64),
    Float(f64),
    Text(String),
    List(Vec<Self>),
    Map(Vec<(String, Self)>),
}

impl Json {
    /// The value that a row's JSON represents.
    pub fn of(json: &str) -> Self {
        serde_json::from_str(json).expect("rows are serialized by us")
    }

    /// The value without characters that could rewrite a screen; line breaks and tabs stay.
    #[must_use]
    pub fn printable(self) -> Self {
        match self {
            Self::Text(text) => Self::Text(clean(&text)),
            Self::List(items) => Self::List(items.into_iter().map(Self::printable).collect()),
            Self::Map(fields) => Self::Map(
                fields
                    .into_iter()
                    .map(|(key, value)| (clean(&key), value.printable()))
                    .collect(),
            ),
            plain => plain,
        }
    }

    /// The value without these fields, at any depth.
    #[must_use]
    pub fn without(self, names: &[&str]) -> Self {
        match self {
            Self::List(items) => {
                Self::List(items.into_iter().map(|item| item.without(names)).collect())
            }
            Self::Map(fields) => Self::Map(
                fields
                    .into_iter()
                    .filter(|(key, _)| !names.contains(&key.as_str()))
                    .map(|(key, value)| (key, value.without(names)))
                    .collect(),
            ),
            plain => plain,
        }
    }

    /// The value at a dotted path; `None` when there is none or it is null.
    pub fn at(&self, path: &str) -> Option<&Self> {
        let found = path.split('.').try_fold(self, |value, part| match value {
            Self::Map(fields) => fields
                .iter()
                .find(|(key, _)| key == part)
                .map(|(_, value)| value),
            _ => None,
        })?;
        (*found != Self::Null).then_some(found)
    }

    /// The value as one cell of a sheet: empty when unknown, JSON when it is a list or has fields. Before a text that a
    /// spreadsheet would take for a formula stands an apostrophe.
    pub fn flat(&self) -> String {
        match self {
            Self::Null => String::new(),
            Self::Bool(value) => value.to_string(),
            Self::Int(value) => value.to_string(),
            Self::Uint(value) => value.to_string(),
            Self::Float(value) => value.to_string(),
            Self::Text(text) if is_formula(text) => format!("'{}", clean(text)),
            Self::Text(text) => clean(text),
            nested => {
                let json = serde_json::to_string(nested);
                escaped(json.expect("has text keys and finite numbers"))
            }
        }
    }
}

fn clean(text: &str) -> String {
    printable_lines(text).into_owned()
}

/// True for a text that a spreadsheet would take for a formula.
fn is_formula(text: &str) -> bool {
    let begins = |text: &str| text.starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠']);
    text.starts_with(['\t', '\r']) || begins(text.trim_start())
}

/// JSON escapes only C0. What else could rewrite a screen stands only inside texts, where an escape means the same.
pub fn escaped(json: String) -> String {
    let hostile = |c: char| is_hostile(c) && c >= '\u{7f}';
    if !json.contains(hostile) {
        return json;
    }
    let mut out = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if hostile(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    out
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => out.serialize_unit(),
            Self::Bool(value) => out.serialize_bool(*value),
            Self::Int(value) => out.serialize_i64(*value),
            Self::Uint(value) => out.serialize_u64(*value),
            Self::Float(value) => out.serialize_f64(*value),
            Self::Text(text) => out.serialize_str(text),
            Self::List(items) => out.collect_seq(items),
            Self::Map(fields) => {
                let mut map = out.serialize_map(Some(fields.len()))?;
                for (key, value) in fields {
                    map.serialize_entry(key, value)?;
                }
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Json;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON value")
            }
            fn visit_unit<E>(self) -> Result<Json, E> {
                Ok(Json::Null)
            }
            fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
                Ok(Json::Bool(value))
            }
            fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
                Ok(Json::Int(value))
            }
            fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
                Ok(Json::Uint(value))
            }
            fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
                Ok(Json::Float(value))
            }
            fn visit_str<E>(self, text: &str) -> Result<Json, E> {
                Ok(Json::Text(text.to_owned()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
                let mut list = Vec::new();
                while let Some(item) = items.next_element()? {
                    list.push(item);
                }
                Ok(Json::List(list))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Json, A::Error> {
                let mut map = Vec::new();
                while let Some(field) = fields.next_entry()? {
                    map.push(field);
                }
                Ok(Json::Map(map))
            }
        }
        from.deserialize_any(Any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_of_a_sheet_is_no_formula() {
        let cell = |text: &str| Json::Text(text.to_owned()).flat();
        for formula in [
            "=cmd|' /C calc'!A0",
            "@SUM(A1)",
            "+1",
            "-2+3",
            "\t=1",
            "\r=1",
            " =1",
            "＝1",
        ] {
            assert!(cell(formula).starts_with('\''), "{formula:?}");
        }
        for plain in ["h100", "aws:///us-east-1a/i-0", "a=b", "", "(no pool)"] {
            assert_eq!(cell(plain), plain);
        }
        assert_eq!(
            (Json::Int(-2).flat(), Json::Float(-0.5).flat()),
            ("-2".into(), "-0.5".into())
        );
    }

    #[test]
    fn a_cell_with_fields_has_no_hostile_character() {
        let by = "a\u{9b}31m\u{202e}\u{e0041}\u{1b}";
        let cell = Json::Map(vec![("by".to_owned(), Json::Text(by.to_owned()))]).flat();
        assert!(!cell.chars().any(is_hostile), "{cell:?}");
        let back: serde_json::Value = serde_json::from_str(&cell).expect("is JSON");
        assert_eq!(back["by"], by);
    }
}
