//! Bodies in protocol buffers, which kubectl's typed clients send, read into the same JSON that others send.
//!
//! A body is the four bytes `k8s\0` and an envelope with version, kind and the message. Field numbers are in `messages.txt`.
//! Only reading is offered: answers are JSON, which the same clients accept.

use std::collections::HashMap;
use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

/// A message nests at most this deep; the deepest real one is a pod template inside a job.
const DEPTH: usize = 32;

#[derive(Clone, Debug)]
struct ProtobufField {
    /// Empty for an inlined field.
    name: &'static str,
    /// Zero and empty are values, not absence.
    pointer: bool,
    kind: &'static str,
}

type Message = HashMap<u64, ProtobufField>;

static MESSAGES: LazyLock<HashMap<&'static str, Message>> =
    LazyLock::new(|| read_table(include_str!("messages.txt")));

fn read_table(text: &'static str) -> HashMap<&'static str, Message> {
    let mut messages: HashMap<&str, Message> = HashMap::new();
    let mut current = "";
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let fields = match line.split_once(" =") {
            Some((name, fields)) if !line.starts_with(' ') => {
                current = name;
                fields
            }
            _ => line,
        };
        let message = messages.entry(current).or_default();
        for field in fields.split_whitespace() {
            let Some((name, rest)) = field.split_once(':') else {
                continue;
            };
            let digits = rest
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(rest.len());
            let (number, kind) = rest.split_at(digits);
            let Ok(number) = number.parse() else { continue };
            let pointer = kind.starts_with('?');
            let kind = kind.trim_start_matches('?');
            message.insert(
                number,
                ProtobufField {
                    name,
                    pointer,
                    kind,
                },
            );
        }
    }
    messages
}

/// One value off the wire.
enum FieldValue<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Reads fields one after another.
struct ProtobufReader<'a>(&'a [u8]);

const BROKEN: &str = "the protocol buffer is cut short or malformed";

impl<'a> ProtobufReader<'a> {
    fn varint(&mut self) -> Result<u64, String> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (first, rest) = self.0.split_first().ok_or(BROKEN)?;
            self.0 = rest;
            value |= u64::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(BROKEN.into())
    }

    fn bytes(&mut self, count: usize) -> Result<&'a [u8], String> {
        if count > self.0.len() {
            return Err(BROKEN.into());
        }
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        Ok(taken)
    }

    fn field(&mut self) -> Result<(u64, FieldValue<'a>), String> {
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => FieldValue::Number(self.varint()?),
            1 => FieldValue::Bytes(self.bytes(8)?),
            2 => {
                let count = usize::try_from(self.varint()?).map_err(|_| BROKEN)?;
                FieldValue::Bytes(self.bytes(count)?)
            }
            5 => FieldValue::Bytes(self.bytes(4)?),
            _ => return Err(BROKEN.into()),
        };
        Ok((tag >> 3, value))
    }
}

fn fields(message: &[u8]) -> Result<Vec<(u64, FieldValue<'_>)>, String> {
    let mut reader = ProtobufReader(message);
    let mut fields = Vec::new();
    while !reader.0.is_empty() {
        fields.push(reader.field()?);
    }
    Ok(fields)
}

/// The last text or bytes under this number of a message; empty when there is none.
fn part(message: &[u8], number: u64) -> Result<&[u8], String> {
    let mut found = &[][..];
    for field in fields(message)? {
        if let (n, FieldValue::Bytes(bytes)) = field
            && n == number
        {
            found = bytes;
        }
    }
    Ok(found)
}

/// The last number under this number of a message; zero when there is none.
fn number(message: &[u8], number: u64) -> Result<i64, String> {
    let mut found = 0;
    for field in fields(message)? {
        if let (n, FieldValue::Number(value)) = field
            && n == number
        {
            found = value.cast_signed();
        }
    }
    Ok(found)
}

fn text(bytes: &[u8]) -> Result<String, String> {
    String::from_utf8(bytes.to_vec())
        .map_err(|_| "a text in the protocol buffer is no UTF-8".into())
}

/// The object in a protocol buffer body.
///
/// # Errors
/// A message for a missing envelope, an unknown kind or a malformed message.
pub fn object(body: &[u8]) -> Result<Value, String> {
    let inside = body.strip_prefix(b"k8s\0").ok_or(
        "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]",
    )?;
    let meta = part(inside, 1)?;
    let (version, kind) = (text(part(meta, 1)?)?, text(part(meta, 2)?)?);
    let mut object = message(&kind, part(inside, 2)?, 0)?;
    object.insert("apiVersion".into(), version.into());
    object.insert("kind".into(), kind.into());
    Ok(Value::Object(object))
}

fn message(kind: &str, bytes: &[u8], depth: usize) -> Result<Map<String, Value>, String> {
    let known = MESSAGES
        .get(kind)
        .ok_or_else(|| format!("the simulated cluster reads {kind:?} as JSON or YAML only"))?;
    if depth > DEPTH {
        return Err("the protocol buffer nests too deep".into());
    }
    let mut out = Map::new();
    for (number, wire) in fields(bytes)? {
        // A field that is not known here is newer than the table; the rest still counts.
        let Some(field) = known.get(&number) else {
            continue;
        };
        if let Some(inner) = field.kind.strip_prefix('*') {
            let slot = out.entry(field.name).or_insert_with(|| json!([]));
            let Some(items) = slot.as_array_mut() else {
                continue;
            };
            match (inner, wire) {
                // Numbers may be packed.
                ("i", FieldValue::Bytes(packed)) => {
                    let mut packed = ProtobufReader(packed);
                    while !packed.0.is_empty() {
                        items.push(packed.varint()?.cast_signed().into());
                    }
                }
                (inner, wire) => items.push(value(inner, wire, depth)?),
            }
        } else if let Some(inner) = field.kind.strip_prefix('%') {
            let FieldValue::Bytes(entry) = wire else {
                return Err(BROKEN.into());
            };
            let key = text(part(entry, 1)?)?;
            let mut values = fields(entry)?.into_iter().filter(|(n, _)| *n == 2);
            let found = match values.next_back() {
                Some((_, wire)) => value(inner, wire, depth)?,
                None => json!(""),
            };
            let slot = out.entry(field.name).or_insert_with(|| json!({}));
            if let Some(map) = slot.as_object_mut() {
                map.insert(key, found);
            }
        } else {
            let found = value(field.kind, wire, depth)?;
            if field.name.is_empty() {
                if let Value::Object(inline) = found {
                    out.extend(inline);
                }
            } else if field.pointer || !is_zero(&found) {
                out.insert(field.name.to_owned(), found);
            }
        }
    }
    Ok(out)
}

/// True for what a field that is no pointer holds when it is not set.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(truth) => !truth,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

fn value(kind: &str, wire: FieldValue<'_>, depth: usize) -> Result<Value, String> {
    let bytes = match (kind, wire) {
        ("b", FieldValue::Number(number)) => return Ok((number != 0).into()),
        ("i", FieldValue::Number(number)) => return Ok(number.cast_signed().into()),
        (_, FieldValue::Number(_)) => return Err(BROKEN.into()),
        (_, FieldValue::Bytes(bytes)) => bytes,
    };
    match kind {
        "s" => Ok(text(bytes)?.into()),
        "y" => Ok(STANDARD.encode(bytes).into()),
        "q" => Ok(text(part(bytes, 1)?)?.into()),
        "o" if number(bytes, 1)? == 1 => Ok(text(part(bytes, 3)?)?.into()),
        "o" => Ok(number(bytes, 2)?.into()),
        "t" | "m" if bytes.is_empty() => Ok(Value::Null),
        "t" | "m" => {
            let nanos = i32::try_from(number(bytes, 2)?).map_err(|_| BROKEN)?;
            let stamp = jiff::Timestamp::new(number(bytes, 1)?, nanos);
            let stamp = stamp.map_err(|_| "a time is out of range")?;
            let form = match kind {
                "t" => "%Y-%m-%dT%H:%M:%SZ",
                _ => "%Y-%m-%dT%H:%M:%S.%6fZ",
            };
            Ok(stamp.strftime(form).to_string().into())
        }
        "r" => Ok(serde_json::from_slice(part(bytes, 1)?).unwrap_or(Value::Null)),
        other => match other.strip_prefix('@') {
            Some(kind) => message(kind, bytes, depth + 1).map(Value::Object),
            // A list as the value of a map: the extras of a user.
            None => Ok(Value::Null),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded(number: u8, bytes: &[u8]) -> Vec<u8> {
        let count = u8::try_from(bytes.len()).expect("short");
        [&[number << 3 | 2, count][..], bytes].concat()
    }

    fn envelope(version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
        let meta = [encoded(1, version.as_bytes()), encoded(2, kind.as_bytes())].concat();
        [b"k8s\0".to_vec(), encoded(1, &meta), encoded(2, message)].concat()
    }

    #[test]
    fn every_type_of_the_table_is_known() {
        for (name, fields) in MESSAGES.iter() {
            for field in fields.values() {
                let inner = field.kind.trim_start_matches(['*', '%']);
                let known = matches!(inner, "s" | "b" | "i" | "y" | "t" | "m" | "q" | "o" | "r")
                    || inner
                        .strip_prefix('@')
                        .is_some_and(|m| MESSAGES.contains_key(m));
                assert!(known, "{name}.{} is {}", field.name, field.kind);
            }
        }
    }

    #[test]
    fn an_access_review_reads_as_its_json() {
        let attributes = [
            encoded(1, b"nlp"),
            encoded(2, b"list"),
            encoded(5, b"pods"),
            encoded(7, b""),
        ]
        .concat();
        let spec = encoded(1, &attributes);
        let body = envelope(
            "authorization.k8s.io/v1",
            "SelfSubjectAccessReview",
            &encoded(2, &spec),
        );
        assert_eq!(
            object(&body),
            Ok(json!({
                "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": {"namespace": "nlp", "verb": "list", "resource": "pods"}},
            }))
        );
    }

    #[test]
    fn a_job_keeps_set_zeros_and_inlines_volumes() {
        let quantity = encoded(1, b"2");
        let limits = encoded(
            1,
            &[encoded(1, b"nvidia.com/gpu"), encoded(2, &quantity)].concat(),
        );
        let container = [
            encoded(1, b"main"),
            encoded(2, b"image"),
            encoded(3, b"sh"),
            vec![0x80, 1, 0],
            encoded(8, &limits),
        ]
        .concat();
        let volume = [encoded(1, b"tmp"), encoded(2, &encoded(2, b""))].concat();
        let pod = [encoded(1, &volume), encoded(2, &container)].concat();
        let template = encoded(2, &pod);
        let job = [vec![1 << 3, 0], encoded(6, &template), vec![10 << 3, 1]].concat();
        let metadata = [encoded(1, b"j"), encoded(8, b"")].concat();
        let body = envelope(
            "batch/v1",
            "Job",
            &[encoded(1, &metadata), encoded(2, &job)].concat(),
        );
        assert_eq!(
            object(&body),
            Ok(json!({
                "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"},
                "spec": {
                    "parallelism": 0, "suspend": true,
                    "template": {"spec": {
                        "volumes": [{"name": "tmp", "emptyDir": {}}],
                        "containers": [{"name": "main", "image": "image", "command": ["sh"], "resources": {"limits": {"nvidia.com/gpu": "2"}}}],
                    }},
                },
            }))
        );
    }

    #[test]
    fn what_is_no_message_is_refused() {
        assert!(object(b"{}").is_err());
        assert!(object(&envelope("v1", "Nonsense", b"")).is_err());
        assert!(object(&envelope("v1", "Pod", &[0x0a, 9, 1])).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn hostile_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..120), kind in "(Pod|Job|Event|Service)") {
            let _ = object(&bytes);
            let _ = message(&kind, &bytes, 0);
        }
    }
}
