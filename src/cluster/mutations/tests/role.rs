//! Tests of the operator's RBAC role against the requests that mutations send.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::mutations::writable;
use crate::rights::{govern, operator};
use model::fleet::kinds;

#[derive(Deserialize)]
struct Role {
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    api_groups: Vec<String>,
    resources: Vec<String>,
    verbs: Vec<String>,
}

#[test]
fn the_operators_role_is_exactly_what_mutations_send() {
    let role: Role = serde_saphyr::from_str(&operator()).expect("is YAML");
    assert_eq!(granted(&role), writable().collect());
}

/// The role may write what `govern` governs and create its events, and the write gate permits each.
#[test]
fn the_role_of_govern_is_exactly_what_it_writes() {
    let text = govern();
    let (_, role) = text.split_once("---\n").expect("two roles");
    let role: Role = serde_saphyr::from_str(role).expect("is YAML");
    let governed = kinds::all()
        .filter(|kind| kind.governed)
        .map(|kind| (kind.group, kind.plural, "", "patch"));
    let events = std::iter::once(("", "events", "", "create"));
    let wanted: BTreeSet<_> = governed.chain(events).collect();
    assert_eq!(granted(&role), wanted);
    let writable: BTreeSet<_> = writable().collect();
    assert!(wanted.is_subset(&writable));
}

/// The write permissions of a role: group, plural, subresource and verb.
fn granted(role: &Role) -> BTreeSet<(&str, &str, &str, &str)> {
    let mut granted = BTreeSet::new();
    for rule in &role.rules {
        for group in &rule.api_groups {
            for resource in &rule.resources {
                assert!(
                    !format!("{group}{resource}").contains('*'),
                    "nothing by star"
                );
                let (plural, sub) = resource.split_once('/').unwrap_or((resource, ""));
                for verb in &rule.verbs {
                    match verb.as_str() {
                        "get" | "list" | "watch" => {}
                        "create" | "patch" => {
                            granted.insert((&**group, plural, sub, &**verb));
                        }
                        _ => panic!("{verb} on {resource}"),
                    }
                }
            }
        }
    }
    granted
}
