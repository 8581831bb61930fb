//! Where two answers differ, said by path.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::Value;

use super::recording::RecordedResponse;

/// One place where two answers differ.
#[derive(Clone, PartialEq, Debug)]
pub struct Difference {
    /// `/status`, `/headers/...`, `/body/metadata/name`, `/body/resources[pods]/verbs`, ...
    pub path: String,
    /// What the real server answered here; `None` when nothing.
    pub recorded: Option<Value>,
    /// What the simulated one answered here; `None` when nothing.
    pub simulated: Option<Value>,
}

/// Every difference between a recorded and a simulated answer.
pub fn between(recorded: &RecordedResponse, simulated: &RecordedResponse) -> Vec<Difference> {
    let parts = |answer: &RecordedResponse| {
        serde_json::json!({
            "status": answer.status,
            "content-type": answer.content_type,
            "headers": answer.headers,
            "body": answer.body,
        })
    };
    let mut found = Vec::new();
    compare("", &parts(recorded), &parts(simulated), &mut found);
    found
}

fn compare(path: &str, recorded: &Value, simulated: &Value, found: &mut Vec<Difference>) {
    let mut at = |path: String, recorded: Option<&Value>, simulated: Option<&Value>| match (
        recorded, simulated,
    ) {
        (Some(recorded), Some(simulated)) => compare(&path, recorded, simulated, found),
        _ => found.push(Difference {
            path,
            recorded: recorded.cloned(),
            simulated: simulated.cloned(),
        }),
    };
    match (recorded, simulated) {
        (Value::Object(left), Value::Object(right)) => {
            for key in left.keys().chain(right.keys()).collect::<BTreeSet<_>>() {
                at(format!("{path}/{key}"), left.get(key), right.get(key));
            }
        }
        (Value::Array(left), Value::Array(right)) => match (keys(left), keys(right)) {
            (Some(ours), Some(theirs)) => {
                for (key, item) in ours.iter().zip(left) {
                    let other = theirs
                        .iter()
                        .position(|k| k == key)
                        .map(|index| &right[index]);
                    at(format!("{path}[{key}]"), Some(item), other);
                }
                for (key, item) in theirs
                    .iter()
                    .zip(right)
                    .filter(|(key, _)| !ours.contains(key))
                {
                    at(format!("{path}[{key}]"), None, Some(item));
                }
                let common = |keys: &[String], others: &[String]| -> Vec<String> {
                    keys.iter()
                        .filter(|key| others.contains(key))
                        .cloned()
                        .collect()
                };
                let (ours, theirs) = (common(&ours, &theirs), common(&theirs, &ours));
                if ours != theirs {
                    found.push(Difference {
                        path: format!("{path}[order]"),
                        recorded: Some(ours.into()),
                        simulated: Some(theirs.into()),
                    });
                }
            }
            _ => {
                for index in 0..left.len().max(right.len()) {
                    at(
                        format!("{path}[{index}]"),
                        left.get(index),
                        right.get(index),
                    );
                }
            }
        },
        _ if recorded == simulated => {}
        _ => found.push(Difference {
            path: path.to_owned(),
            recorded: Some(recorded.clone()),
            simulated: Some(simulated.clone()),
        }),
    }
}

/// What names each item of a list; `None` when the items have no names of their own.
fn keys(items: &[Value]) -> Option<Vec<String>> {
    let keys: Vec<String> = items
        .iter()
        .map(|item| {
            [
                "/metadata/name",
                "/name",
                "/resource",
                "/version",
                "/type",
                "/subresource",
            ]
            .iter()
            .find_map(|pointer| item.pointer(pointer).and_then(Value::as_str))
            .map(str::to_owned)
        })
        .collect::<Option<_>>()?;
    let distinct: BTreeSet<&String> = keys.iter().collect();
    (distinct.len() == keys.len()).then_some(keys)
}

/// The differences as text, a place with two lines each.
pub fn text(differences: &[Difference]) -> String {
    let mut out = String::new();
    let short = |value: &Option<Value>| match value {
        None => "(nothing)".to_owned(),
        Some(value) => {
            let text = value.to_string();
            match text.char_indices().nth(400) {
                Some((end, _)) => format!("{}... ({} bytes)", &text[..end], text.len()),
                None => text,
            }
        }
    };
    for difference in differences {
        let Difference {
            path,
            recorded,
            simulated,
        } = difference;
        let (recorded, simulated) = (short(recorded), short(simulated));
        writeln!(out, "  {path}\n    - {recorded}\n    + {simulated}").expect("a text takes text");
    }
    out
}

#[test]
fn every_difference_is_found_and_named() {
    let answer = |status, body| RecordedResponse {
        status,
        content_type: String::new(),
        headers: Default::default(),
        only: None,
        first_lines: None,
        body,
    };
    let left = answer(
        200,
        serde_json::json!({"a": [{"name": "x", "v": 1}, {"name": "y"}], "b": [1, 2], "c": null}),
    );
    let right = answer(
        404,
        serde_json::json!({"a": [{"name": "y"}, {"name": "x", "v": 2}, {"name": "z"}], "b": [1]}),
    );
    let paths: Vec<String> = between(&left, &right).into_iter().map(|d| d.path).collect();
    assert_eq!(
        paths,
        [
            "/body/a[x]/v",
            "/body/a[z]",
            "/body/a[order]",
            "/body/b[1]",
            "/body/c",
            "/status"
        ]
    );
    assert_eq!(between(&left, &left), []);
}
