//! The operator's role, held to what levers send.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::kinds;
use crate::mutations::OPERATOR;

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
fn the_operators_role_is_exactly_what_levers_send() {
    let role: Role = serde_saphyr::from_str(OPERATOR).expect("is YAML");
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
    assert_eq!(granted, kinds::writable().collect());
}
