//! Label selectors (`-l`) and field selectors (`--field-selector`), in kubectl's syntax.

use std::collections::BTreeMap;

use engine::snapshot::Requirement;
use model::base::Name;
use model::base::document::nearest;
use model::fleet::siting::Operator;
use model::value::Json;

use crate::Kind;
use crate::kinds::sources::state_named;
use crate::output::fields;

/// A field that must, or must not, have a value.
#[derive(Clone, PartialEq, Eq, Debug)]
struct FieldRequirement {
    name: String,
    is: bool,
    value: String,
}

/// Label and field selectors; empty selects every row.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Select {
    labels: Vec<Requirement>,
    fields: Vec<FieldRequirement>,
    words: String,
}

impl Select {
    /// Parses both selectors for rows of a kind; an empty text selects everything.
    ///
    /// # Errors
    /// A selector is malformed, or the kind has no labels or no such field; the text names the alternatives.
    pub fn parse(kind: Kind, labels: &str, fields: &str) -> Result<Self, String> {
        let mut words = Vec::new();
        for (flag, text) in [("-l", labels), ("--field-selector", fields)] {
            if !text.trim().is_empty() {
                words.push(format!("{flag} {}", text.trim()));
            }
        }
        let labels: Vec<Requirement> = parts(labels)?
            .into_iter()
            .map(label)
            .collect::<Result<_, _>>()?;
        let has_labels = |kind: &Kind| kind.output().labels.is_some();
        if !labels.is_empty() && !has_labels(&kind) {
            let others = Kind::ALL.into_iter().filter(has_labels);
            let others: Vec<&str> = others.map(Kind::name).collect();
            return Err(format!(
                "-l: {} have no labels here; {} have; use --field-selector",
                kind.name(),
                others.join(", ")
            ));
        }
        let tests = parts(fields)?.into_iter().map(|text| field(kind, text));
        Ok(Self {
            labels,
            fields: tests.collect::<Result<_, _>>()?,
            words: words.join(" "),
        })
    }

    /// True when every row is selected.
    pub const fn is_all(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// True when labels are selected on.
    pub const fn asks_labels(&self) -> bool {
        !self.labels.is_empty()
    }

    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|field| field.name.as_str())
    }

    /// True when the selector requires this value of a field.
    pub fn selects(&self, name: &str, value: &str) -> bool {
        let mut fields = self.fields.iter();
        fields.any(|field| field.is && field.name == name && field.value == value)
    }

    /// The selector as given: `-l team=nlp`.
    pub fn words(&self) -> &str {
        &self.words
    }

    /// The first requested label key that no object has, with the nearest existing key.
    pub fn unheard<'a>(
        &self,
        known: impl Iterator<Item = &'a Name> + Clone,
    ) -> Option<(&Name, Option<&'a str>)> {
        let mut wanted = self.labels.iter().map(|one| &one.key);
        let key = wanted.find(|key| !known.clone().any(|known| known == *key))?;
        Some((key, nearest(key, known.map(Name::as_str))))
    }

    /// True when an object with these labels matches; unknown labels do not match.
    pub fn wants_labels(&self, labels: Option<&BTreeMap<Name, Name>>) -> bool {
        self.labels.is_empty()
            || labels.is_some_and(|labels| self.labels.iter().all(|one| one.is_met(labels)))
    }

    /// True when a row with these values matches.
    pub fn wants_row(&self, row: &Json) -> bool {
        self.fields.iter().all(|field| {
            let found = row.at(&field.name);
            let same = match (found, field.value.as_str()) {
                (None, "") => true,
                // A field with subfields is tested for presence: `cordoned=true`.
                (None, "false") => true,
                (Some(Json::Map(_) | Json::List(_)), "true") => true,
                (Some(value), wanted) => plain(value) == wanted,
                (None, _) => false,
            };
            same == field.is
        })
    }
}

/// A value as a selector writes it.
fn plain(value: &Json) -> String {
    match value {
        Json::Text(text) => text.clone(),
        other => other.flat(),
    }
}

/// Splits at commas outside parentheses.
fn parts(text: &str) -> Result<Vec<&str>, String> {
    let (mut all, mut depth, mut from) = (Vec::new(), 0i32, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                all.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    if depth != 0 {
        return Err(format!("`{text}`: a parenthesis is not closed"));
    }
    all.push(&text[from..]);
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    Ok(all.into_iter().map(str::trim).collect())
}

/// Parses one label requirement.
fn label(text: &str) -> Result<Requirement, String> {
    let wrong = || {
        format!(
            "-l: `{text}` is not understood; write key=value, key!=value, key, !key, key in (a,b) or key notin (a,b)"
        )
    };
    let made = |key: &str, op: Operator, values: Vec<&str>| {
        let key = key.trim();
        let plain = |text: &str| {
            let own = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
            text.chars().all(own)
        };
        if key.is_empty() || !plain(key) || !values.iter().all(|value| plain(value.trim())) {
            return Err(wrong());
        }
        Ok(Requirement {
            key: Name::new(key),
            op,
            values: values.iter().map(|value| Name::new(value.trim())).collect(),
        })
    };
    if let Some(list) = text.strip_suffix(')') {
        let (head, list) = list.split_once('(').ok_or_else(wrong)?;
        let (key, op) = head.trim().rsplit_once(' ').ok_or_else(wrong)?;
        let op = match op {
            "in" => Operator::In,
            "notin" => Operator::NotIn,
            _ => return Err(wrong()),
        };
        return made(key, op, list.split(',').collect());
    }
    for (sign, op) in [
        ("!=", Operator::NotIn),
        ("==", Operator::In),
        ("=", Operator::In),
    ] {
        if let Some((key, value)) = text.split_once(sign) {
            return made(key, op, vec![value]);
        }
    }
    match text.strip_prefix('!') {
        Some(key) => made(key, Operator::DoesNotExist, Vec::new()),
        None => made(text, Operator::Exists, Vec::new()),
    }
}

/// Parses one field requirement.
fn field(kind: Kind, text: &str) -> Result<FieldRequirement, String> {
    let signs = [("!=", false), ("==", true), ("=", true)];
    let found = signs
        .iter()
        .find_map(|(sign, is)| Some((text.split_once(sign)?, *is)));
    let Some(((name, value), is)) = found else {
        return Err(format!(
            "--field-selector: `{text}` is not understood; write field=value or field!=value"
        ));
    };
    let name = named(kind, name.trim()).map_err(|why| format!("--field-selector: {why}"))?;
    let value = value.trim();
    // The state's word from the table is accepted as well.
    let state = (kind == Kind::Sources && name == "state").then(|| state_named(value));
    Ok(FieldRequirement {
        is,
        value: state.flatten().unwrap_or(value).to_owned(),
        name,
    })
}

/// kubectl's field names, each with ours.
const KUBECTL: &[(&str, &str)] = &[
    ("metadata.name", "name"),
    ("metadata.namespace", "namespace"),
    ("metadata.uid", "uid"),
    ("spec.nodeName", "node"),
    ("spec.unschedulable", "cordoned"),
    ("status.phase", "phase"),
];

/// The field of a kind's rows with this name: ours, or kubectl's, ignoring case.
///
/// # Errors
/// No such field; the text has the nearest name and lists all.
pub fn named(kind: Kind, name: &str) -> Result<String, String> {
    let all = fields(kind);
    let ours = KUBECTL.iter().find(|(theirs, _)| *theirs == name);
    let wanted = ours.map_or(name, |(_, ours)| ours);
    let is = |field: &&std::borrow::Cow<'static, str>| field.eq_ignore_ascii_case(wanted);
    // A list or a record matches by its own name; its parts follow a dot.
    if let Some(field) = all.iter().find(is) {
        return Ok(field.to_string());
    }
    // The kind's own identifier: a device's id.
    if wanted == "name" && all.iter().any(|field| field == "id") {
        return Ok(String::from("id"));
    }
    let near = nearest(wanted, all.iter().map(|field| &**field));
    let near = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
    Err(format!(
        "no field `{name}` in {}{near}; fields: {}",
        kind.name(),
        all.iter()
            .filter(|field| !field.starts_with("signals."))
            .map(|field| &**field)
            .collect::<Vec<&str>>()
            .join(", ")
    ))
}

/// The sort field for a name, and whether its order is reversed: kubectl sorts by creation time, rows have the age.
///
/// # Errors
/// Those of [`named`].
pub fn sorted_by(kind: Kind, name: &str) -> Result<(String, bool), String> {
    // The age of a device or a source is that of its last reading.
    let is_made = matches!(kind, Kind::Jobs | Kind::Pods | Kind::Nodes);
    match name {
        "metadata.creationTimestamp" if is_made => Ok((String::from("age_seconds"), true)),
        _ => Ok((named(kind, name)?, false)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<Name, Name> {
        let pair = |(key, value): &(&str, &str)| (Name::new(key), Name::new(value));
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn label_selectors_are_kubectls() {
        let node = labels(&[("team", "nlp"), ("a.b/c", "d")]);
        for (text, wanted) in [
            ("team=nlp", true),
            ("team==nlp", true),
            ("team=vision", false),
            ("team!=vision", true),
            ("rack!=r1", true),
            ("team", true),
            ("!team", false),
            ("!rack", true),
            ("team in (vision, nlp)", true),
            ("team notin (vision,nlp)", false),
            ("team=nlp,a.b/c=d", true),
            ("team=nlp,a.b/c=e", false),
            ("", true),
        ] {
            let select = Select::parse(Kind::Nodes, text, "").expect(text);
            assert_eq!(select.wants_labels(Some(&node)), wanted, "{text}");
        }
        let one = Select::parse(Kind::Nodes, "!team", "").expect("understood");
        assert!(!one.wants_labels(None), "what is not known is not matched");
        for wrong in ["team in nlp", "team in (nlp", "=a", "te am=b", "a=b=c"] {
            assert!(Select::parse(Kind::Nodes, wrong, "").is_err(), "{wrong}");
        }
        let refused = Select::parse(Kind::Queues, "team=nlp", "").expect_err("no labels");
        assert!(refused.contains("queues have no labels"), "{refused}");
    }

    #[test]
    fn field_selectors_know_our_fields_and_kubectls() {
        let row = Json::of(
            r#"{"name":"a","node":null,"phase":"Running","devices":{"free":3},"cordoned":{"by":"x"}}"#,
        );
        let wants = |kind, text: &str| {
            let select = Select::parse(kind, "", text).expect(text);
            select.wants_row(&row)
        };
        assert!(wants(Kind::Pods, "status.phase=Running"));
        assert!(wants(Kind::Pods, "phase=Running,metadata.name=a"));
        assert!(!wants(Kind::Pods, "status.phase!=Running"));
        assert!(wants(Kind::Pods, "spec.nodeName="));
        assert!(!wants(Kind::Pods, "spec.nodeName=n1"));
        assert!(wants(Kind::Nodes, "devices.free=3"));
        assert!(wants(Kind::Nodes, "spec.unschedulable=true"));
        assert!(!wants(Kind::Nodes, "cordoned=false"));
        // The table's word for a lost source.
        let lost = Json::of(r#"{"name":"dcgm a","state":"lost"}"#);
        for (text, is) in [
            ("state=unreachable", true),
            ("state=lost", true),
            ("state!=unreachable", false),
            ("state=stale", false),
        ] {
            let select = Select::parse(Kind::Sources, "", text).expect(text);
            assert_eq!(select.wants_row(&lost), is, "{text}");
        }
        let wrong = Select::parse(Kind::Pods, "", "status.hostIP=1").expect_err("not known");
        assert!(
            wrong.contains("no field `status.hostIP` in pods"),
            "{wrong}"
        );
        let near = Select::parse(Kind::Jobs, "", "stat=running").expect_err("not known");
        assert!(near.contains("did you mean `state`?"), "{near}");
        assert!(Select::parse(Kind::Jobs, "", "state").is_err());
    }
}
