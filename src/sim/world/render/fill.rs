//! Objects from templates: YAML files whose placeholders are filled from the world's state.
//!
//! `$(name)` is a value, and in the middle of a text the value's text. A field or a row whose value is missing is left out, as is
//! a field whose name ends in `?` and whose list or object comes out empty. An object with `$when: name` is left out unless
//! the value is there and true; with `$when: name=a|b`, unless it is one of these words. `$with: name` adds the fields of an object.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use model::base::{Moment, Name};

/// Every template by its name, which is its key at the top of a file.
static TEMPLATES: LazyLock<HashMap<String, ObjectTemplate>> = LazyLock::new(|| {
    let files = [
        include_str!("templates/pod.yaml"),
        include_str!("templates/node.yaml"),
        include_str!("templates/work.yaml"),
        include_str!("templates/kueue.yaml"),
        include_str!("templates/claims.yaml"),
        include_str!("templates/cluster.yaml"),
    ];
    let read = |text| serde_saphyr::from_str(text).expect("a test reads every template");
    let all = files
        .into_iter()
        .flat_map(|text| -> Map<String, Value> { read(text) });
    all.map(|(name, value)| (name, ObjectTemplate::parse(value)))
        .collect()
});

/// A part of a template.
enum ObjectTemplate {
    Fixed(Value),
    /// The value of this name.
    Value(String),
    /// Literal text and names, in turn; the first is literal.
    Text(Vec<String>),
    List(Vec<ObjectTemplate>),
    Object(Vec<TemplateField>),
}

/// A part of an object.
enum TemplateField {
    /// The object is left out unless this value is one of these words, or without words is true.
    When(String, Vec<String>),
    /// The fields of an object.
    With(ObjectTemplate),
    /// A field; the last is whether it is left out when it is empty.
    Set(ObjectTemplate, ObjectTemplate, bool),
}

impl ObjectTemplate {
    fn parse(value: Value) -> Self {
        match value {
            Value::String(text) => Self::parse_text(text),
            Value::Array(rows) => {
                let rows: Vec<Self> = rows.into_iter().map(Self::parse).collect();
                match rows.iter().all(|row| matches!(row, Self::Fixed(_))) {
                    true => Self::Fixed(
                        rows.iter()
                            .filter_map(|row| row.fill(&mut TemplateValues::none()))
                            .collect(),
                    ),
                    false => Self::List(rows),
                }
            }
            Value::Object(fields) => {
                let fields: Vec<TemplateField> = fields
                    .into_iter()
                    .map(|(key, value)| TemplateField::parse(key, value))
                    .collect();
                let fixed = |field: &TemplateField| {
                    matches!(
                        field,
                        TemplateField::Set(Self::Fixed(_), Self::Fixed(_), false)
                    )
                };
                match fields.iter().all(fixed) {
                    true => Self::Fixed(
                        fill_object(&fields, &mut TemplateValues::none()).unwrap_or_default(),
                    ),
                    false => Self::Object(fields),
                }
            }
            value => Self::Fixed(value),
        }
    }

    fn parse_text(text: String) -> Self {
        let mut parts = Vec::new();
        let mut rest = &*text;
        while let Some((literal, (name, after))) = rest
            .split_once("$(")
            .and_then(|(literal, after)| Some((literal, after.split_once(')')?)))
        {
            parts.extend([literal.to_owned(), name.to_owned()]);
            rest = after;
        }
        match (&parts[..], rest) {
            ([], _) => Self::Fixed(Value::String(text)),
            ([literal, name], "") if literal.is_empty() => Self::Value(name.clone()),
            _ => {
                parts.push(rest.to_owned());
                Self::Text(parts)
            }
        }
    }

    fn fill(&self, values: &mut TemplateValues) -> Option<Value> {
        match self {
            Self::Fixed(value) => Some(value.clone()),
            Self::Value(name) => values.take(name),
            Self::Text(parts) => {
                let mut text = String::new();
                for (at, part) in parts.iter().enumerate() {
                    match at % 2 {
                        0 => text.push_str(part),
                        _ => text.push_str(&values.text(part)?),
                    }
                }
                Some(Value::String(text))
            }
            Self::List(rows) => Some(rows.iter().filter_map(|row| row.fill(values)).collect()),
            Self::Object(fields) => fill_object(fields, values),
        }
    }
}

impl TemplateField {
    fn parse(mut key: String, value: Value) -> Self {
        match (&*key, &value) {
            ("$when", Value::String(condition)) => {
                let (name, words) = condition.split_once('=').unwrap_or((condition, ""));
                let words = words.split('|').filter(|word| !word.is_empty());
                Self::When(name.to_owned(), words.map(str::to_owned).collect())
            }
            ("$with", _) => Self::With(ObjectTemplate::parse(value)),
            _ => {
                let optional = key.ends_with('?');
                key.truncate(key.len() - usize::from(optional));
                Self::Set(
                    ObjectTemplate::parse_text(key),
                    ObjectTemplate::parse(value),
                    optional,
                )
            }
        }
    }
}

/// The object; `None` when its `$when` is not met.
fn fill_object(fields: &[TemplateField], values: &mut TemplateValues) -> Option<Value> {
    let mut object = Map::new();
    for field in fields {
        match field {
            TemplateField::When(name, words) => {
                let holds = |text: String| match &words[..] {
                    [] => text != "false",
                    words => words.contains(&text),
                };
                if !values.text(name).is_some_and(holds) {
                    return None;
                }
            }
            TemplateField::With(template) => {
                if let Some(Value::Object(mut more)) = template.fill(values) {
                    object.append(&mut more);
                }
            }
            TemplateField::Set(key, value, optional) => {
                let (Some(Value::String(key)), Some(value)) =
                    (key.fill(values), value.fill(values))
                else {
                    continue;
                };
                let empty = match &value {
                    Value::Array(rows) => rows.is_empty(),
                    Value::Object(fields) => fields.is_empty(),
                    _ => false,
                };
                if !(*optional && empty) {
                    object.insert(key, value);
                }
            }
        }
    }
    Some(Value::Object(object))
}

/// What placeholders stand for: values of one object, and those that are looked up.
struct TemplateValues<'a> {
    own: Vec<(&'static str, Value)>,
    more: &'a dyn Fn(&str) -> Option<Value>,
}

impl TemplateValues<'_> {
    fn none() -> Self {
        Self {
            own: Vec::new(),
            more: &|_| None,
        }
    }

    fn find(&mut self, name: &str) -> Option<&mut Value> {
        let found = self.own.iter_mut().find(|(own, _)| *own == name);
        found
            .map(|(_, value)| value)
            .filter(|value| !value.is_null())
    }

    /// The value; an own list or object is moved, as it has one place in its template.
    fn take(&mut self, name: &str) -> Option<Value> {
        match self.find(name) {
            Some(value @ (Value::Array(_) | Value::Object(_))) => Some(value.take()),
            Some(value) => Some(value.clone()),
            None => (self.more)(name),
        }
    }

    fn text(&mut self, name: &str) -> Option<String> {
        match self.find(name).cloned().or_else(|| (self.more)(name))? {
            Value::String(text) => Some(text),
            value => Some(value.to_string()),
        }
    }
}

/// The object of a template, with these values and, for other names, those of `more`. An empty object where there is no such template.
pub(in super::super) fn filled_with(
    template: &str,
    own: Vec<(&'static str, Value)>,
    more: &dyn Fn(&str) -> Option<Value>,
) -> Value {
    let found = TEMPLATES.get(template);
    let object = found.and_then(|template| template.fill(&mut TemplateValues { own, more }));
    object.unwrap_or_else(|| Value::Object(Map::new()))
}

/// The object of a template with these values.
pub(in super::super) fn filled(template: &str, own: Vec<(&'static str, Value)>) -> Value {
    filled_with(template, own, &|_| None)
}

pub(in super::super) fn fields_of(object: Value) -> Map<String, Value> {
    match object {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// Something that a placeholder may stand for; null is a missing value.
pub(in super::super) trait Fill {
    fn value(self) -> Value;
}

macro_rules! fill_by {
    ($($kind:ty: $value:expr;)*) => { $(impl Fill for $kind {
        fn value(self) -> Value { $value(self) }
    })* };
}

fill_by! {
    &str: |it: &str| it.into();
    &&str: |it: &&str| (*it).into();
    String: Value::String;
    &String: |it: &String| it.clone().into();
    &Name: |it: &Name| it.to_string().into();
    Moment: |it: Moment| it.rfc3339().into();
    bool: Value::Bool;
    u8: Value::from;
    u16: Value::from;
    u32: Value::from;
    i32: Value::from;
    u64: Value::from;
    i64: Value::from;
    usize: Value::from;
    Value: |it| it;
    Vec<Value>: Value::Array;
    Map<String, Value>: Value::Object;
}

impl<T: Fill> Fill for Option<T> {
    fn value(self) -> Value {
        self.map_or(Value::Null, Fill::value)
    }
}

/// The values of a template, by name.
macro_rules! values {
    ($($name:ident: $value:expr),* $(,)?) => {
        vec![$((stringify!($name), $crate::world::render::Fill::value($value))),*]
    };
}
pub(in super::super) use values;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fill(template: Value, own: Vec<(&'static str, Value)>) -> Option<Value> {
        ObjectTemplate::parse(template).fill(&mut TemplateValues {
            own,
            more: &|_| None,
        })
    }

    #[test]
    fn every_template_is_read() {
        assert!(TEMPLATES.len() > 10);
    }

    #[test]
    fn what_is_missing_is_left_out() {
        let template = json!({
            "name": "$(name)", "text": "a $(name) of $(count)", "none": "$(none)", "$(name)/x": 1, "$with": "$(more)",
            "empty?": [{"$when": "none"}], "rows": [{"$when": "name=a|b", "x": null}, {"$when": "name=c", "x": "$(count)"}],
        });
        let more = json!({"b": 2});
        assert_eq!(
            fill(
                template,
                values!(name: "c", count: 3_u32, none: None::<u32>, more: more)
            ),
            Some(json!({"name": "c", "text": "a c of 3", "c/x": 1, "b": 2, "rows": [{"x": 3}]}))
        );
        assert_eq!(fill(json!({"$when": "off"}), values!(off: false)), None);
    }
}
