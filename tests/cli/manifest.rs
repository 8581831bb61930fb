//! The manifests in `config/kubernetes`.

use serde_json::Value;

/// An object of a manifest.
pub(super) fn object(manifest: &str, kind: &str) -> Value {
    let all: Vec<Value> = serde_saphyr::from_multiple(manifest).expect("is YAML");
    let found = all.into_iter().find(|object| object["kind"] == kind);
    found.unwrap_or_else(|| panic!("a {kind}"))
}
