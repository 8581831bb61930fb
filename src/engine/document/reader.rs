//! Reads JSON such that an error names its path (`workloads[3].pod_sets[0].count`) and a repair. Absent and
//! null mean unknown; other values must be valid.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};

use model::base::document::unknown;
use model::base::quantities::{quantity, quantity_milli};
use model::base::{DeviceAmount, Moment, Name, SmallSort};

use crate::snapshot::unit_is_milli;

/// An error and its path in the document.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Flaw {
    pub(super) path: String,
    pub(super) message: String,
}

pub(super) type Read<T> = Result<T, Flaw>;

/// One step from the root: a key or an index.
#[derive(Clone, Copy)]
enum PathStep<'a> {
    Key(&'a str),
    Index(usize),
}

/// A value and its path.
#[derive(Clone, Copy)]
pub(super) struct DocumentCell<'a> {
    value: &'a Value,
    step: PathStep<'a>,
    up: Option<&'a DocumentCell<'a>>,
}

impl fmt::Display for DocumentCell<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let top = self.up.is_none_or(|up| up.up.is_none());
        if let Some(up) = self.up.filter(|_| !top) {
            fmt::Display::fmt(up, f)?;
        }
        match self.step {
            PathStep::Key(key) if top => f.write_str(&model::base::name::printable(key)),
            PathStep::Key(key) => write!(f, ".{}", model::base::name::printable(key)),
            PathStep::Index(at) => write!(f, "[{at}]"),
        }
    }
}

/// Name of a JSON type, for messages.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// A decimal number or a quantity in thousandths, rounded up. Plain decimals are parsed exactly: 4.035 is no binary fraction.
fn thousandths(text: &str) -> Option<i64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || part.is_empty() || !digits(whole) || !digits(part) {
        return quantity_milli(text);
    }
    let milli: i64 = format!("{part:0<3}").get(..3)?.parse().ok()?;
    let more = part.bytes().skip(3).any(|byte| byte != b'0');
    let whole = whole.parse::<i64>().ok()?.checked_mul(1_000)?;
    whole.checked_add(milli + i64::from(more))
}

/// Text of the document for messages: truncated and sanitized.
pub(super) fn shown(text: &str) -> String {
    let text = model::base::name::printable(text);
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into_owned(),
    }
}

impl<'a> DocumentCell<'a> {
    /// The root of the document.
    pub(super) fn root(value: &'a Value) -> Self {
        Self {
            value,
            step: PathStep::Key(""),
            up: None,
        }
    }

    /// An error at this path.
    pub(super) fn wrong<T>(&self, message: impl Into<String>) -> Read<T> {
        Err(Flaw {
            path: self.to_string(),
            message: message.into(),
        })
    }

    fn expected<T>(&self, what: &str) -> Read<T> {
        self.wrong(format!("is {}, must be {what}", kind(self.value)))
    }

    fn object(&self) -> Read<&'a Map<String, Value>> {
        match self.value {
            Value::Object(map) => Ok(map),
            _ => self.expected("an object"),
        }
    }

    pub(super) fn must_be_object(&self) -> Read<()> {
        self.object().map(|_| ())
    }

    /// The value of a key; none if absent or null.
    pub(super) fn get<'c>(&'c self, key: &'c str) -> Option<DocumentCell<'c>> {
        let value = self.value.as_object()?.get(key)?;
        (!value.is_null()).then_some(DocumentCell {
            value,
            step: PathStep::Key(key),
            up: Some(self),
        })
    }

    /// The value of a required key.
    pub(super) fn need<T>(
        &self,
        key: &str,
        read: impl FnOnce(&DocumentCell<'_>) -> Read<T>,
    ) -> Read<T> {
        match self.get(key) {
            Some(cell) => read(&cell),
            None => {
                self.object()?;
                self.wrong(format!("lacks `{key}`"))
            }
        }
    }

    /// The value of a key, or a default.
    pub(super) fn or<T>(
        &self,
        key: &str,
        default: T,
        read: impl FnOnce(&DocumentCell<'_>) -> Read<T>,
    ) -> Read<T> {
        self.maybe(key, read).map(|read| read.unwrap_or(default))
    }

    /// The value of an optional key.
    pub(super) fn maybe<T>(
        &self,
        key: &str,
        read: impl FnOnce(&DocumentCell<'_>) -> Read<T>,
    ) -> Read<Option<T>> {
        self.get(key).map(|cell| read(&cell)).transpose()
    }

    /// Each item of a list.
    pub(super) fn items<T>(
        &self,
        mut read: impl FnMut(&DocumentCell<'_>) -> Read<T>,
    ) -> Read<Vec<T>> {
        let Value::Array(items) = self.value else {
            return self.expected("a list");
        };
        let each = |(at, value)| {
            read(&DocumentCell {
                value,
                step: PathStep::Index(at),
                up: Some(self),
            })
        };
        items.iter().enumerate().map(each).collect()
    }

    /// Each item of a key's list; empty if absent.
    pub(super) fn list<T>(
        &self,
        key: &str,
        read: impl FnMut(&DocumentCell<'_>) -> Read<T>,
    ) -> Read<Vec<T>> {
        self.or(key, Vec::new(), |cell| cell.items(read))
    }

    /// Each entry of an object, by key.
    pub(super) fn entries<T>(
        &self,
        mut read: impl FnMut(&str, &DocumentCell<'_>) -> Read<T>,
    ) -> Read<Vec<T>> {
        let map = self.object()?;
        let mut keys: Vec<&String> = map.keys().collect();
        keys.small_sort();
        let mut out = Vec::with_capacity(keys.len());
        for key in keys {
            let value = &map[key];
            if !value.is_null() {
                let step = PathStep::Key(key);
                out.push(read(
                    key,
                    &DocumentCell {
                        value,
                        step,
                        up: Some(self),
                    },
                )?);
            }
        }
        Ok(out)
    }

    /// An object of texts.
    pub(super) fn labels(&self) -> Read<BTreeMap<Name, Name>> {
        let pairs = self.entries(|key, cell| Ok((Name::from(key), cell.name()?)))?;
        Ok(pairs.into_iter().collect())
    }

    pub(super) fn text(&self) -> Read<&'a str> {
        match self.value {
            Value::String(text) => Ok(text),
            _ => self.expected("a string"),
        }
    }

    /// A text that may be empty.
    pub(super) fn name(&self) -> Read<Name> {
        self.text().map(Name::from)
    }

    /// A text that must not be empty.
    pub(super) fn filled(&self) -> Read<Name> {
        let name = self.name()?;
        if name.is_empty() {
            return self.wrong("is empty");
        }
        Ok(name)
    }

    pub(super) fn flag(&self) -> Read<bool> {
        match self.value {
            Value::Bool(flag) => Ok(*flag),
            _ => self.expected("true or false"),
        }
    }

    /// Whether it is a boolean.
    pub(super) fn is_flag(&self) -> bool {
        self.value.is_boolean()
    }

    /// Whether it is a number.
    pub(super) fn is_number(&self) -> bool {
        self.value.is_number()
    }

    /// A whole number in an inclusive range.
    pub(super) fn whole(&self, least: i64, most: i64) -> Read<i64> {
        let Value::Number(number) = self.value else {
            return self.expected("a whole number");
        };
        match number.as_i64() {
            Some(whole) if (least..=most).contains(&whole) => Ok(whole),
            _ => self.wrong(format!(
                "is {number}, must be a whole number from {least} to {most}"
            )),
        }
    }

    /// A count up to a maximum.
    pub(super) fn count(&self, most: u32) -> Read<u32> {
        let whole = self.whole(0, i64::from(most))?;
        Ok(u32::try_from(whole).unwrap_or(most))
    }

    /// A non-negative decimal number, in thousandths, up to a maximum in whole units.
    pub(super) fn milli(&self, most: i64) -> Read<i64> {
        let Value::Number(number) = self.value else {
            return self.expected("a number");
        };
        match thousandths(&number.to_string()) {
            Some(milli) if (0..=most.saturating_mul(1_000)).contains(&milli) => Ok(milli),
            _ => self.wrong(format!("is {number}, must be a number from 0 to {most}")),
        }
    }

    /// An amount of a resource, as a number of whole units or as Kubernetes writes it (`500m`, `64Gi`), in the resource's unit.
    pub(super) fn amount(&self, resource: &str, most: i64) -> Read<i64> {
        let text = match self.value {
            Value::Number(number) => number.to_string(),
            Value::String(text) => text.clone(),
            _ => return self.expected("a number or a quantity (`8`, `500m`, `64Gi`)"),
        };
        let amount = if unit_is_milli(resource) {
            thousandths(&text)
        } else {
            quantity(&text)
        };
        match amount {
            Some(amount) if (0..=most).contains(&amount) => Ok(amount),
            Some(_) => self.wrong(format!("is {}, out of range", shown(&text))),
            None => self.wrong(format!(
                "`{}` is not a quantity; write 8, 500m or 64Gi",
                shown(&text)
            )),
        }
    }

    /// A time, RFC 3339.
    pub(super) fn moment(&self) -> Read<Moment> {
        let text = self.text()?;
        match Moment::parse(text) {
            Some(moment) => Ok(moment),
            None => self.wrong(format!(
                "`{}` is not a time; write 2026-11-21T06:40:00Z",
                shown(text)
            )),
        }
    }

    /// A duration in seconds, or as text (`90s`, `2h`), in milliseconds.
    pub(super) fn span(&self) -> Read<i64> {
        if self.is_number() {
            return self.milli(100 * 366 * 86_400);
        }
        let text = self.text()?;
        let span = model::base::time::parse_span(text)
            .and_then(|span| i64::try_from(span.as_millis()).ok())
            .filter(|span| *span <= 100 * 366 * 86_400_000);
        match span {
            Some(span) => Ok(span),
            None => self.wrong(format!(
                "`{}` is not a duration; write 90s, 2h or a number of seconds",
                shown(text)
            )),
        }
    }

    /// Reads a rate in USD as micro-USD.
    pub(super) fn dollars(&self) -> Read<i64> {
        let rate = self
            .value
            .as_f64()
            .and_then(model::base::Rate::from_usd)
            .map(model::base::Rate::micros);
        match rate {
            Some(micros) => Ok(micros),
            None => self.wrong("must be dollars an hour, a number from 0"),
        }
    }

    /// A share of a device, 0 to 1.
    pub(super) fn share(&self) -> Read<DeviceAmount> {
        match self
            .value
            .as_f64()
            .filter(|share| (0.0..=1.0).contains(share))
        {
            Some(share) => Ok(DeviceAmount::of_millionths((share * 1e6).round() as u64)),
            None => self.wrong("must be a share of a device, from 0 to 1"),
        }
    }

    /// One of the given keywords.
    pub(super) fn word<T: Copy>(&self, what: &str, words: &[(&str, T)]) -> Read<T> {
        let text = self.text()?;
        match words.iter().find(|(word, _)| *word == text) {
            Some((_, value)) => Ok(*value),
            None => {
                let valid: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
                self.wrong(unknown(what, &shown(text), &valid))
            }
        }
    }
}
