//! Tests: the printed roles permit every read that resolving a job or queue needs.

use serde_json::Value;

use cluster::rights;
use model::fleet::kinds;

/// The two roles that `rbac operator` prints permit reading every kind among which a name is searched.
#[test]
fn the_printed_roles_may_read_every_kind_that_is_looked_for() {
    let role: Value = serde_saphyr::from_str(&rights::operator()).expect("is YAML");
    let rules = role["rules"].as_array().expect("rules").clone();
    let has = |list: &Value, wanted: &str| {
        let mut all = list.as_array().into_iter().flatten();
        all.any(|one| one == wanted)
    };
    let operator = |group: &str, plural: &str| {
        rules.iter().any(|rule| {
            has(&rule["apiGroups"], group)
                && has(&rule["resources"], plural)
                && has(&rule["verbs"], "get")
        })
    };
    let viewer = |group: &str, plural: &str| {
        let rights = rights::rights(false);
        rights.iter().any(|right| {
            right.group == group
                && right.only.is_none()
                && right.resources.contains(&plural)
                && right.verbs.contains(&"get")
        })
    };
    for of in kinds::jobs().chain(kinds::queues()) {
        let (group, plural) = (of.group, of.plural);
        assert!(
            operator(group, plural) || viewer(group, plural),
            "{plural}.{group}"
        );
    }
}
