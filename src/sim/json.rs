//! Small readers of JSON objects as the API serves them: absent reads as empty, never as an error.

use serde_json::Value;

/// The text at a JSON pointer; empty when absent or not a text.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or("")
}

/// The whole number at a JSON pointer; zero when absent or not a whole number.
pub(crate) fn int(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

/// True when the value at the JSON pointer is `true`.
pub(crate) fn flag(object: &Value, pointer: &str) -> bool {
    object
        .pointer(pointer)
        .and_then(Value::as_bool)
        .unwrap_or(false)
}

/// The list at a JSON pointer; empty when absent or not a list.
pub(crate) fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object
        .pointer(pointer)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// The `status` of the condition of this type; empty when there is none.
pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> &'a str {
    list(object, "/status/conditions")
        .iter()
        .find(|condition| text(condition, "/type") == kind)
        .map_or("", |condition| text(condition, "/status"))
}

pub(crate) fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

/// `metadata.namespace`; empty for a cluster-scoped object.
pub(crate) fn namespace(object: &Value) -> &str {
    text(object, "/metadata/namespace")
}

/// The object's map at `key`, made when it is absent or something else.
pub(crate) fn map_mut<'a>(
    object: &'a mut Value,
    key: &str,
) -> &'a mut serde_json::Map<String, Value> {
    if !object.is_object() {
        *object = Value::Object(serde_json::Map::new());
    }
    let slot = &mut object[key];
    if !slot.is_object() {
        *slot = Value::Object(serde_json::Map::new());
    }
    slot.as_object_mut().expect("made an object just above")
}

/// The message of the real server's decoder for JSON that does not parse.
pub fn fault(bytes: &[u8], error: &serde_json::Error) -> String {
    if error.is_eof() {
        return "unexpected end of JSON input".to_owned();
    }
    let line = bytes
        .split(|b| *b == b'\n')
        .nth(error.line().saturating_sub(1));
    let found = line.and_then(|line| line.get(error.column().saturating_sub(1)));
    match found {
        Some(byte) if byte.is_ascii_graphic() || *byte == b' ' => {
            format!(
                "invalid character '{}' looking for beginning of value",
                char::from(*byte)
            )
        }
        Some(byte) => format!("invalid character '\\u{byte:04x}' looking for beginning of value"),
        None => error.to_string(),
    }
}
