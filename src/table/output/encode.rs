//! Items as JSON and YAML.

use model::value::Json;

use super::OutputRow;
use crate::Kind;

pub(crate) fn array(kind: Kind, items: &[OutputRow]) -> String {
    if let (Kind::Fleet, [item]) = (kind, items) {
        return format!("{}\n", item.json);
    }
    if items.is_empty() {
        return "[]\n".to_owned();
    }
    let mut out = String::from("[");
    for (at, item) in items.iter().enumerate() {
        out.push_str(if at == 0 { "\n" } else { ",\n" });
        for (at, line) in item.json.lines().enumerate() {
            out.push_str(if at == 0 { "  " } else { "\n  " });
            out.push_str(line);
        }
    }
    out.push_str("\n]\n");
    out
}

pub(crate) fn yaml(kind: Kind, items: &[OutputRow]) -> String {
    let write = |value: &Json| {
        serde_saphyr::to_string(value).expect("rows have text keys and finite numbers")
    };
    if let (Kind::Fleet, [item]) = (kind, items) {
        return write(&Json::of(&item.json).printable());
    }
    if items.is_empty() {
        return "[]\n".to_owned();
    }
    let rows = items.iter();
    rows.map(|item| write(&Json::List(vec![Json::of(&item.json).printable()])))
        .collect()
}
