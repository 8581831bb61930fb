//! Prints the settings: every value with its origin.

use toml::Value;

use model::base::SmallSort;
use model::base::document::quoted;

use super::load::WITHOUT_DEFAULT;
use super::types::Settings;

/// Every value as a line of TOML followed by its origin. Header values are secrets and are hidden.
pub fn print(settings: &Settings) -> String {
    let mut lines: Vec<(String, String)> = settings
        .origins
        .iter()
        .map(|(path, value, origin)| {
            let key: Vec<String> = path.iter().map(|part| quoted(part)).collect();
            let line = format!("{} = {}", key.join("."), hidden(path, value));
            (line, origin.to_string())
        })
        .collect();
    for key in WITHOUT_DEFAULT {
        if settings.origins.of(key).is_none() {
            lines.push((format!("#{key} ="), "not set".to_owned()));
        }
    }
    lines.small_sort_by(|(a, _), (b, _)| a.trim_start_matches('#').cmp(b.trim_start_matches('#')));
    // Origins are aligned in one column, except after lines that are too long.
    let width = lines
        .iter()
        .map(|(line, _)| line.chars().count())
        .filter(|width| *width <= 60)
        .max()
        .unwrap_or(0);
    let mut out = String::new();
    for (line, origin) in lines {
        out.push_str(&format!("{line:width$}  # {origin}\n"));
    }
    out
}

fn hidden(path: &[String], value: &Value) -> Value {
    let mut value = value.clone();
    if matches!(path, [first, second, ..] if first == "prometheus" && second == "headers")
        && value.is_str()
    {
        return Value::String("(hidden)".to_owned());
    }
    if path.join(".") == "scrape.target"
        && let Value::Array(targets) = &mut value
    {
        for headers in targets
            .iter_mut()
            .filter_map(|target| target.get_mut("headers"))
        {
            if let Value::Table(headers) = headers {
                for (_, secret) in headers.iter_mut() {
                    *secret = Value::String("(hidden)".to_owned());
                }
            }
        }
    }
    value
}
