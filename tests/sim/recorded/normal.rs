//! What a server makes up becomes a placeholder, and back: `live/config/normalise.jq` in Rust, and its inverse.

use regex_lite::Regex;
use serde_json::{Map, Value};

/// The moment that stands for every recorded one.
pub const TIME: &str = "2026-11-21T06:00:00Z";
/// The template hash that stands for every recorded one.
const HASH: &str = "bd9b9b484";
/// The suffix that stands for every recorded one of a pod.
const SUFFIX: &str = "x7k2p";

/// What is put in place of a pattern, unless a character of this kind follows.
type Rule<P> = (P, &'static str, fn(char) -> bool);

/// Puts placeholders into texts.
pub struct Normal {
    rules: Vec<Rule<Regex>>,
    rbac: Regex,
    event: Regex,
}

impl Normal {
    pub fn new() -> Self {
        let never = |_: char| false;
        let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let number = |c: char| c.is_ascii_digit() || c == '/';
        let digit = |c: char| c.is_ascii_digit();
        let rules: [Rule<&str>; 13] = [
            ("sim-(admin|viewer|team|nobody)", "live-$1", never),
            (
                "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
                "<uid>",
                never,
            ),
            (
                r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?Z",
                "<time>",
                never,
            ),
            (r"10\.244\.[0-9]+\.[0-9]+", "<pod-ip>", number),
            (
                "nvidia-dcgm-exporter-[a-z0-9]{5}",
                "nvidia-dcgm-exporter-<suffix>",
                word,
            ),
            ("front-[a-z0-9]{8,10}", "front-<hash>", word),
            (
                "chat-[a-z0-9]{8,10}-[a-z0-9]{5}",
                "chat-<hash>-<suffix>",
                word,
            ),
            (r"waiting\.[0-9a-f]{16}", "waiting.<suffix>", never),
            (
                r"-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----\n",
                "<certificate>",
                never,
            ),
            ("hash=[0-9A-F]+", "hash=<hash>", never),
            ("continue=ey[A-Za-z0-9_=-]+", "continue=<continue>", never),
            (
                r"resource version: ([0-9]+) \([0-9]+\)",
                "resource version: $1 (<rv>)",
                never,
            ),
            (
                r"Too large resource version: ([0-9]+), current: [0-9]+",
                "Too large resource version: $1, current: <rv>",
                never,
            ),
        ];
        let regex = |text: &str| Regex::new(text).expect("a pattern of ours");
        let mut rules: Vec<_> = rules
            .iter()
            .map(|(p, to, not)| (regex(p), *to, *not))
            .collect();
        rules.push((
            regex("resourceVersion=[0-9]{3,7}"),
            "resourceVersion=<rv>",
            digit,
        ));
        Self {
            rules,
            rbac: regex("^RBAC: allowed by .*"),
            event: regex(r"\.[0-9a-f]+$"),
        }
    }

    /// A text with its placeholders.
    pub fn text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (pattern, to, not_before) in &self.rules {
            if !pattern.is_match(&text) {
                continue;
            }
            let mut out = String::new();
            let mut done = 0;
            for found in pattern.captures_iter(&text) {
                let whole = found.get(0).expect("the match itself");
                if text[whole.end()..].starts_with(not_before) {
                    continue;
                }
                out.push_str(&text[done..whole.start()]);
                found.expand(to, &mut out);
                done = whole.end();
            }
            out.push_str(&text[done..]);
            text = out;
        }
        text
    }

    /// A body with its placeholders: every text, then every object from the inside out.
    pub fn body(&self, body: Value) -> Value {
        self.walk(self.watched(body))
    }

    fn walk(&self, value: Value) -> Value {
        match value {
            Value::String(text) => self.text(&text).into(),
            Value::Array(items) => items.into_iter().map(|item| self.walk(item)).collect(),
            Value::Object(map) => {
                let mut map: Map<String, Value> = map
                    .into_iter()
                    .map(|(key, item)| (key, self.walk(item)))
                    .collect();
                self.object(&mut map);
                aged(&mut map, None);
                Value::Object(map)
            }
            other => other,
        }
    }

    fn object(&self, map: &mut Map<String, Value>) {
        let text = |map: &Map<String, Value>, key: &str| {
            map.get(key).and_then(Value::as_str).map(str::to_owned)
        };
        map.remove("managedFields");
        if text(map, "uid").is_some_and(|uid| !uid.is_empty() && !uid.starts_with("live-")) {
            map.insert("uid".into(), "<uid>".into());
        }
        // (jq's rule wants two digits; a simulated store begins to count at one.)
        let numbered = |version: String| {
            !matches!(version.as_str(), "" | "0") && version.bytes().all(|b| b.is_ascii_digit())
        };
        if text(map, "resourceVersion").is_some_and(numbered) {
            map.insert("resourceVersion".into(), "<rv>".into());
        }
        if text(map, "continue").is_some_and(|token| !token.is_empty()) {
            map.insert("continue".into(), "<continue>".into());
        }
        if let (Some(base), Some(_)) = (text(map, "generateName"), text(map, "name")) {
            map.insert("name".into(), format!("{base}<suffix>").into());
        }
        let reason = text(map, "reason");
        if matches!(reason.as_deref(), Some("FailedScheduling" | "Scheduled")) {
            let metadata = map
                .entry("metadata")
                .or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(metadata) = metadata {
                let name = metadata
                    .get("name")
                    .and_then(Value::as_str)
                    .unwrap_or_default();
                let name = self.event.replace(name, ".<suffix>").into_owned();
                metadata.insert("name".into(), name.into());
            }
            if let Some(Value::Object(series)) = map.get_mut("series") {
                series.insert("count".into(), "<count>".into());
            }
            if map.get("count").is_some_and(|count| !count.is_null()) {
                map.insert("count".into(), "<count>".into());
            }
        }
        if map.get("resourceRules").is_some_and(Value::is_array) {
            for key in ["resourceRules", "nonResourceRules"] {
                if let Some(Value::Array(rules)) = map.get_mut(key) {
                    rules.sort_by_key(Value::to_string);
                }
            }
        }
        if let Some(Value::Array(columns)) = map.get_mut("columnDefinitions") {
            for column in columns {
                column["description"] = "<text>".into();
            }
        }
        if let Some(reason) = reason.filter(|reason| self.rbac.is_match(reason)) {
            let reason = self
                .rbac
                .replace(&reason, "RBAC: allowed by <rule>")
                .into_owned();
            map.insert("reason".into(), reason.into());
        }
        if map.contains_key("major") && map.contains_key("gitVersion") {
            map.values_mut()
                .for_each(|value| *value = "<version>".into());
        }
    }

    /// In a watch of tables only the first event has the columns; the ages of the others are found by them.
    fn watched(&self, mut body: Value) -> Value {
        let Value::Array(events) = &mut body else {
            return body;
        };
        let columns = events
            .first()
            .and_then(|e| e.pointer("/object/columnDefinitions"))
            .cloned();
        for event in events {
            if let Some(Value::Object(table)) = event.get_mut("object") {
                aged(table, columns.as_ref());
            }
        }
        body
    }
}

/// The cells of a table that tell an age become a placeholder.
fn aged(table: &mut Map<String, Value>, columns: Option<&Value>) {
    if table.get("kind").and_then(Value::as_str) != Some("Table") {
        return;
    }
    let own = table
        .get("columnDefinitions")
        .and_then(Value::as_array)
        .filter(|c| !c.is_empty());
    let Some(columns) = own.or(columns.and_then(Value::as_array)).cloned() else {
        return;
    };
    let is_age = |column: &Value| {
        matches!(
            column["name"].as_str(),
            Some("Age" | "Last Seen" | "First Seen" | "Duration")
        )
    };
    let Some(Value::Array(rows)) = table.get_mut("rows") else {
        return;
    };
    for cells in rows
        .iter_mut()
        .filter_map(|row| row["cells"].as_array_mut())
    {
        for (cell, _) in cells
            .iter_mut()
            .zip(&columns)
            .filter(|(_, column)| is_age(column))
        {
            if !matches!(cell.as_str(), Some("<unknown>" | "")) {
                *cell = "<age>".into();
            }
        }
    }
}

/// Takes the placeholders out again, each for a value of its kind. Uids and events' suffixes are numbered.
pub struct Filling {
    next: u32,
}

impl Filling {
    pub fn new() -> Self {
        Self { next: 0 }
    }

    fn uid(&mut self) -> String {
        self.next += 1;
        format!("{:08x}-0000-4000-8000-000000000000", self.next)
    }

    /// A text without placeholders. Where it matters which, `<continue>` and `<rv>` are filled in before.
    pub fn text(&mut self, text: &str) -> String {
        let mut text = text
            .replace("<time>", TIME)
            .replace("<pod-ip>", "10.244.22.7")
            .replace("<rv>", "4242")
            .replace("<hash>", HASH)
            .replace(
                "nvidia-dcgm-exporter-<suffix>",
                &format!("nvidia-dcgm-exporter-{SUFFIX}"),
            )
            .replace(&format!("-{HASH}-<suffix>"), &format!("-{HASH}-{SUFFIX}"))
            .replace("once-<suffix>", &format!("once-{SUFFIX}"));
        while text.contains("<uid>") {
            text = text.replacen("<uid>", &self.uid(), 1);
        }
        while text.contains(".<suffix>") {
            self.next += 1;
            text = text.replacen(".<suffix>", &format!(".18796c0d5e{:06x}", self.next), 1);
        }
        text
    }

    /// An object without placeholders.
    pub fn object(&mut self, value: Value) -> Value {
        match value {
            Value::String(text) => self.text(&text).into(),
            Value::Array(items) => items.into_iter().map(|item| self.object(item)).collect(),
            Value::Object(map) => map
                .into_iter()
                .map(|(key, item)| (key, self.object(item)))
                .collect(),
            other => other,
        }
    }
}

#[test]
fn texts_get_their_placeholders() {
    let normal = Normal::new();
    for (text, expected) in [
        ("10.244.1.17", "<pod-ip>"),
        ("10.244.22.0/24", "10.244.22.0/24"),
        ("10.244.22.145/24", "10.244.22.145/24"),
        ("front-bd9b9b484", "front-<hash>"),
        ("front-bd9b9b4841z9", "front-bd9b9b4841z9"),
        ("a?continue=eyJ2IjoibWV0YSJ9&b", "a?continue=<continue>&b"),
        ("resourceVersion=12", "resourceVersion=12"),
        (
            "at 2026-11-21T06:00:00.123456Z by sim-viewer",
            "at <time> by live-viewer",
        ),
    ] {
        assert_eq!(normal.text(text), expected, "{text}");
    }
}

/// What is loaded into the simulator is what was recorded, and comparing it is no matter of luck.
#[test]
fn normalising_undoes_the_filling() {
    let normal = Normal::new();
    for recording in super::Recording::group("scene") {
        let body = recording.answer.body;
        let filled = Filling::new().object(body.clone());
        assert!(
            !filled.to_string().contains('<') || filled.to_string().contains("<certificate>"),
            "{filled}"
        );
        assert_eq!(normal.body(filled), body, "{}", recording.name);
    }
}
