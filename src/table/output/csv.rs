//! Rows as CSV, with fixed columns.

use std::borrow::Cow;

use model::value::Json;

/// One row's cells in the order of its fields.
pub fn flat(fields: &[Cow<'static, str>], json: &str) -> Vec<String> {
    let value = Json::of(json);
    fields
        .iter()
        .map(|path| value.at(path).map(Json::flat).unwrap_or_default())
        .collect()
}

pub fn csv_line<T: AsRef<[u8]>>(cells: &[T]) -> String {
    let mut out = csv::Writer::from_writer(Vec::new());
    out.write_record(cells)
        .expect("a line of its own has no other length to agree with");
    let bytes = out.into_inner().expect("memory takes every byte");
    String::from_utf8(bytes).expect("cells are texts")
}
