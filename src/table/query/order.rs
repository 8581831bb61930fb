//! Row order: `--sort-by` with a field or a column. Unknown values are last in either direction.

use std::cmp::Ordering;

use model::base::natural;
use model::value::Json;

use super::select::sorted_by;
use crate::Kind;

/// What rows are sorted by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sort {
    /// Fields to compare; the first known one decides.
    fields: Vec<String>,
    falls: bool,
}

impl Sort {
    /// Parses `COLUMN` (its title, or its id as filters name it), `FIELD`, `.FIELD` or `{.FIELD}`; a leading `-` means
    /// descending. `columns` maps titles to fields.
    ///
    /// # Errors
    /// The kind has no such column or field.
    pub fn parse(
        kind: Kind,
        text: &str,
        columns: &[(&'static str, &'static str)],
    ) -> Result<Self, String> {
        let (falls, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let bare = text.trim().trim_start_matches('{').trim_end_matches('}');
        let bare = bare.trim_start_matches(".items[*]").trim_start_matches('.');
        let titled = columns
            .iter()
            .find(|(title, _)| title.eq_ignore_ascii_case(bare));
        // A field of the rows comes before a column that is named so.
        let field = sorted_by(kind, bare);
        let named = || named(kind, bare).filter(|_| field.is_err());
        if let Some((title, fields)) = titled.copied().or_else(named) {
            // The later a moment, the less its age.
            let is_moment = title == "AGE" && !fields.contains("seconds");
            return Ok(Self {
                fields: fields.split('|').map(str::to_owned).collect(),
                falls: falls != is_moment,
            });
        }
        let (field, turned) = field.map_err(|why| {
            let titles: Vec<&str> = columns.iter().map(|(title, _)| *title).collect();
            format!("--sort-by: {why}; or a column: {}", titles.join(", "))
        })?;
        Ok(Self {
            fields: vec![field],
            falls: falls != turned,
        })
    }

    /// By a field, descending.
    pub fn falling(field: &str) -> Self {
        Self {
            fields: vec![field.to_owned()],
            falls: true,
        }
    }

    /// The fields that it compares.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(String::as_str)
    }

    pub fn compare(&self, a: &Json, b: &Json) -> Ordering {
        let of = |row: &Json| self.fields.iter().find_map(|field| row.at(field).cloned());
        match (of(a), of(b)) {
            (Some(a), Some(b)) if self.falls => order(&b, &a),
            (Some(a), Some(b)) => order(&a, &b),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => Ordering::Equal,
        }
    }
}

/// The title of the column of this id, and the fields that it shows.
fn named(kind: Kind, id: &str) -> Option<(&'static str, &'static str)> {
    let columns = kind.spec().columns.iter();
    let mut columns = columns.filter(|column| !column.field.is_empty());
    let named = columns.find(|column| column.id.eq_ignore_ascii_case(id))?;
    Some((named.printed_title(), named.field))
}

fn order(a: &Json, b: &Json) -> Ordering {
    let number = |value: &Json| match value {
        Json::Bool(value) => Some(f64::from(u8::from(*value))),
        Json::Int(value) => Some(*value as f64),
        Json::Uint(value) => Some(*value as f64),
        Json::Float(value) => Some(*value),
        _ => None,
    };
    match (number(a), number(b)) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => natural(&a.flat(), &b.flat()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_is_sorted_by_a_field_that_rows_have() {
        use crate::output::{fields, titles};
        for kind in Kind::ALL {
            let known = fields(kind);
            for (title, own) in titles(kind) {
                for field in own.split('|') {
                    let has = |known: &str| {
                        let below = field.strip_prefix(known);
                        below.is_some_and(|below| below.is_empty() || below.starts_with('.'))
                    };
                    assert!(known.iter().any(|known| has(known)), "{title}: {field}");
                }
            }
        }
        let jobs: Vec<&str> = titles(Kind::Jobs)
            .into_iter()
            .map(|(title, _)| title)
            .collect();
        assert!(
            jobs.contains(&"WAIT/RUN") && jobs.contains(&"DEVICES"),
            "{jobs:?}"
        );
    }

    #[test]
    fn numbers_names_and_the_unknown_are_ordered() {
        let rows = [
            r#"{"name":"a100-10","util_ratio":0.5}"#,
            r#"{"name":"a100-2","util_ratio":null}"#,
            r#"{"name":"a100-1","util_ratio":0.75}"#,
        ];
        let sorted = |text: &str| -> Vec<String> {
            let sort = Sort::parse(Kind::Pools, text, &[("UTIL", "util_ratio")]).expect(text);
            let mut all: Vec<Json> = rows.iter().map(|row| Json::of(row)).collect();
            all.sort_by(|a, b| sort.compare(a, b));
            let name = |row: &Json| row.at("name").map(Json::flat).unwrap_or_default();
            all.iter().map(name).collect()
        };
        assert_eq!(sorted("name"), ["a100-1", "a100-2", "a100-10"]);
        assert_eq!(sorted("{.metadata.name}"), ["a100-1", "a100-2", "a100-10"]);
        assert_eq!(sorted("util"), ["a100-10", "a100-1", "a100-2"]);
        assert_eq!(sorted("-UTIL"), ["a100-1", "a100-10", "a100-2"]);
        // As in kubectl: the oldest first.
        let oldest = Sort::parse(Kind::Pods, ".metadata.creationTimestamp", &[]);
        assert_eq!(oldest, Ok(Sort::falling("age_seconds")));
        let newest = Sort::parse(Kind::Nodes, "-{.metadata.creationTimestamp}", &[]);
        assert_eq!(
            newest.map(|sort| (sort.fields, sort.falls)),
            Ok((vec![String::from("age_seconds")], false))
        );
        let alerts = crate::output::titles(Kind::Alerts);
        let youngest = Sort::parse(Kind::Alerts, "age", &alerts).expect("a column");
        let fields: Vec<&str> = youngest.fields().collect();
        assert_eq!(
            (fields.join("|").as_str(), youngest.falls),
            ("since|first_seen", true)
        );
        // A source's age is that of its last answer, not of its creation.
        assert!(Sort::parse(Kind::Sources, "metadata.creationTimestamp", &[]).is_err());
        let wrong = Sort::parse(Kind::Pools, "utl", &[]).expect_err("no such column");
        assert!(
            wrong.starts_with("--sort-by: no field `utl` in pools"),
            "{wrong}"
        );
    }
}
