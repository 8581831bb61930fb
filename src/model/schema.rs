//! JSON Schema (draft 2020-12) of what is printed and stored: derived from the types that are written.

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

use crate::value::Json as OrderedValue;

/// What a schema says about itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SchemaHead {
    /// Last part of its `$id`, without `.json`: the name on the command line.
    pub name: &'static str,
    pub title: &'static str,
    /// How to read the values: what null means, where units are.
    pub description: &'static str,
}

impl SchemaHead {
    fn map(self) -> Map<String, Value> {
        let id = format!("https://stokehold.dev/schema/{}.json", self.name);
        let texts = [
            ("$schema", "https://json-schema.org/draft/2020-12/schema"),
            ("$id", &id),
            ("title", self.title),
            ("description", self.description),
        ];
        let texts = texts.into_iter();
        texts.map(|(key, text)| (key.into(), text.into())).collect()
    }
}

/// The schema of a list of rows, with all of a row in one place.
pub fn of_rows<R: JsonSchema>(head: SchemaHead) -> Value {
    let mut row = derived::<R>(false, true);
    for key in ["$schema", "title", "description"] {
        row.remove(key);
    }
    let mut schema = head.map();
    schema.insert("type".into(), "array".into());
    schema.insert("items".into(), row.into());
    schema.into()
}

/// The schema of one document, whose parts are in `$defs`.
pub fn of_document<D: JsonSchema>(head: SchemaHead) -> Value {
    of_object::<D>(head, false)
}

/// The schema of a document that is also read back: its integers have the bounds of their types.
pub fn of_readable_document<D: JsonSchema>(head: SchemaHead) -> Value {
    of_object::<D>(head, true)
}

fn of_object<D: JsonSchema>(head: SchemaHead, bounded: bool) -> Value {
    let mut schema = derived::<D>(bounded, false);
    schema.extend(head.map());
    schema.into()
}

fn derived<T: JsonSchema>(bounded: bool, inline: bool) -> Map<String, Value> {
    let tidy = RecursiveTransform(move |schema: &mut Schema| tidy(schema, bounded));
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let settings = settings
        .with(|settings| settings.inline_subschemas = inline)
        .with_transform(tidy);
    let schema = settings.into_generator().into_root_schema_for::<T>();
    match schema.to_value() {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// Brings a derived schema to this program's form: objects are closed, sets of words are an `enum`, no format is OpenAPI's.
fn tidy(schema: &mut Schema, bounded: bool) {
    let Some(map) = schema.as_object_mut() else {
        return;
    };
    map.remove("default");
    let format = map.get("format").and_then(Value::as_str);
    let (least, most) = match format {
        Some("int32") => (Some(i32::MIN.into()), Some(i32::MAX.into())),
        Some("uint32") => (None, Some(u32::MAX.into())),
        _ => (None, None),
    };
    if format.is_some_and(|format| format != "date-time") {
        map.remove("format");
    }
    for (key, bound) in [("minimum", least), ("maximum", most)] {
        if let Some(bound) = bound.filter(|_| bounded) {
            map.entry(key).or_insert(bound);
        }
    }
    if let Some(Value::String(text)) = map.get_mut("description") {
        *text = text.replace('\n', " ");
    }
    if map.contains_key("properties") {
        map.entry("additionalProperties").or_insert(false.into());
    }
    let words: Option<Vec<Value>> = map.get("oneOf").and_then(Value::as_array).and_then(|all| {
        let word = |one: &Value| one.get("const").filter(|word| word.is_string()).cloned();
        all.iter().map(word).collect()
    });
    if let Some(words) = words {
        map.remove("oneOf");
        map.insert("type".into(), "string".into());
        map.insert("enum".into(), words.into());
    }
}

/// The schema of one of these words.
pub fn one_of<'a>(words: impl IntoIterator<Item = &'a str>) -> Schema {
    let mut all: Vec<&str> = Vec::new();
    for word in words {
        if !all.contains(&word) {
            all.push(word);
        }
    }
    let mut schema = Schema::default();
    schema.insert("type".into(), "string".into());
    schema.insert("enum".into(), json!(all));
    schema
}

/// The columns of rows as CSV, in the order of their fields. The fields of an object are columns such as `nodes.total`; a list
/// or an open map is one column, and so is an object with `x-csv: json`.
pub fn columns(rows: &Value) -> Vec<String> {
    fn add(object: &Value, before: &str, into: &mut Vec<String>) {
        let names = object["required"].as_array().into_iter().flatten();
        for name in names.filter_map(Value::as_str) {
            let field = &object["properties"][name];
            match field.get("properties").is_some() && field.get("x-csv").is_none() {
                true => add(field, &format!("{before}{name}."), into),
                false => into.push(format!("{before}{name}")),
            }
        }
    }
    let mut all = Vec::new();
    add(&rows["items"], "", &mut all);
    all
}

/// Keywords in the order in which they are printed.
const KEYWORDS: [&str; 25] = [
    "$schema",
    "$id",
    "title",
    "description",
    "$ref",
    "type",
    "const",
    "enum",
    "format",
    "pattern",
    "minLength",
    "minimum",
    "maximum",
    "prefixItems",
    "items",
    "minItems",
    "maxItems",
    "oneOf",
    "anyOf",
    "properties",
    "required",
    "additionalProperties",
    "x-csv",
    "$comment",
    "$defs",
];

/// The schema as indented JSON with a final line break: fields stand in the order in which they are written.
pub fn text(schema: &Value) -> String {
    let text = serde_json::to_string_pretty(&ordered(schema));
    text.expect("a schema has text keys and finite numbers") + "\n"
}

/// A schema in the order of its keywords and fields.
fn ordered(schema: &Value) -> OrderedValue {
    let Some(map) = schema.as_object() else {
        return plain(schema);
    };
    let place = |key: &String| KEYWORDS.iter().position(|known| known == key);
    let mut all: Vec<(&String, &Value)> = map.iter().collect();
    all.sort_by_key(|(key, _)| place(key).unwrap_or(KEYWORDS.len()));
    let fields = all.into_iter().map(|(key, value)| {
        let value = match (key.as_str(), value) {
            ("properties", Value::Object(fields)) => named(fields, map.get("required")),
            ("$defs", Value::Object(parts)) => named(parts, None),
            ("items" | "additionalProperties", _) => ordered(value),
            ("oneOf" | "anyOf" | "prefixItems", Value::Array(all)) => {
                OrderedValue::List(all.iter().map(ordered).collect())
            }
            _ => plain(value),
        };
        (key.clone(), value)
    });
    OrderedValue::Map(fields.collect())
}

/// Schemas by name, those that are required first and in that order.
fn named(schemas: &Map<String, Value>, required: Option<&Value>) -> OrderedValue {
    let required = required
        .and_then(Value::as_array)
        .map_or(&[][..], |all| all);
    let place = |name: &String| required.iter().position(|one| one == name);
    let mut all: Vec<(&String, &Value)> = schemas.iter().collect();
    all.sort_by_key(|(name, _)| place(name).unwrap_or(required.len()));
    let all = all.into_iter();
    OrderedValue::Map(
        all.map(|(name, one)| (name.clone(), ordered(one)))
            .collect(),
    )
}

fn plain(value: &Value) -> OrderedValue {
    OrderedValue::of(&value.to_string())
}

/// Defines the words for an enum's variants: a function that gives a variant's word, `WORDS`, and the JSON Schema of one of them.
#[macro_export]
macro_rules! words {
    ($(#[$doc:meta])* impl $type:ident {
        $(#[$about:meta])* pub fn $name:ident($this:ident) { $($arms:tt)+ }
    }) => {
        $crate::words!(@ $type, [$(#[$about])*], $name, $this, [$this], $($arms)+);
    };
    ($(#[$doc:meta])* impl $type:ident {
        $(#[$about:meta])* pub fn $name:ident(&$this:ident) { $($arms:tt)+ }
    }) => {
        $crate::words!(@ $type, [$(#[$about])*], $name, $this, [&$this], $($arms)+);
    };
    (@ $type:ident, [$(#[$about:meta])*], $name:ident, $this:ident, [$($receiver:tt)+],
        $($variant:ident $(($($tuple:tt)*))? $({$($fields:tt)*})? => $word:literal,)+) => {
        impl $type {
            /// Every word, in the order of the variants.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            $(#[$about])*
            pub const fn $name($($receiver)+) -> &'static str {
                match $this {
                    $(Self::$variant $(($($tuple)*))? $({$($fields)*})? => $word,)+
                }
            }
        }

        $crate::written_as!($type, $crate::schema::one_of(Self::WORDS.iter().copied()));
    };
}

/// Implements `JsonSchema`, inline, for a type that is written by hand.
#[macro_export]
macro_rules! written_as {
    ($type:ty, $schema:expr) => {
        impl ::schemars::JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> ::std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut ::schemars::SchemaGenerator) -> ::schemars::Schema {
                $schema
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use serde::Serialize;

    use super::*;

    #[derive(Clone, Copy)]
    enum Light {
        Red,
        Green(()),
    }

    words! {
        impl Light {
            /// Its color.
            pub fn name(self) {
                Red => "red",
                Green(_) => "green",
            }
        }
    }

    #[derive(Serialize, JsonSchema)]
    struct Part {
        zeta: Option<u32>,
        alpha: f64,
    }

    #[derive(Serialize, JsonSchema)]
    struct Row {
        /// The name of it.
        name: &'static str,
        #[schemars(with = "Option<Light>")]
        light: Option<&'static str>,
        part: Option<Part>,
        #[schemars(extend("x-csv" = "json"))]
        whole: Part,
        list: Vec<Part>,
    }

    #[test]
    fn rows_are_closed_and_columns_follow_the_fields() {
        let schema = of_rows::<Row>(SchemaHead {
            name: "rows",
            title: "Rows",
            description: "Unknown is null.",
        });
        assert_eq!(schema["$id"], "https://stokehold.dev/schema/rows.json");
        let row = &schema["items"];
        assert_eq!(row["additionalProperties"], false);
        assert_eq!(row["properties"]["name"]["description"], "The name of it.");
        let light = &row["properties"]["light"];
        assert_eq!(light["enum"], json!(["red", "green", null]));
        let part = &row["properties"]["part"];
        assert_eq!(part["type"], json!(["object", "null"]));
        assert_eq!(part["required"], json!(["zeta", "alpha"]));
        assert_eq!(
            part["properties"]["zeta"],
            json!({"type": ["integer", "null"], "minimum": 0})
        );
        let all = ["name", "light", "part.zeta", "part.alpha", "whole", "list"];
        assert_eq!(columns(&schema), all);
        let text = text(&schema);
        let places =
            ["$schema", "\"zeta\": {", "\"alpha\": {", "\"required\""].map(|word| text.find(word));
        assert!(places.is_sorted() && places[0].is_some(), "{text}");
        assert_eq!(
            (Light::Red.name(), Light::Green(()).name()),
            ("red", "green")
        );
    }
}
