//! A partial object in the form that kube's watcher carries.

use std::borrow::Cow;

use kube::Resource;
use kube::api::{ApiResource, DynamicObject, ObjectMeta};
use kube::core::DynamicResourceScope;
use serde::{Deserialize, Deserializer};

use cluster::{Projected, table};
use model::fleet::observe::Table;

/// A partial object, with just the metadata that a watcher needs to go on from it.
#[derive(Clone, Debug)]
pub struct WatchObject<T> {
    /// The object.
    pub object: T,
    meta: ObjectMeta,
}

impl<'de, T: Projected> Deserialize<'de> for WatchObject<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let object = T::deserialize(from)?;
        let meta = ObjectMeta {
            resource_version: object.meta().resource_version.get().map(str::to_owned),
            ..ObjectMeta::default()
        };
        Ok(Self { object, meta })
    }
}

impl<T> Resource for WatchObject<T> {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(of: &ApiResource) -> Cow<'_, str> {
        DynamicObject::kind(of)
    }
    fn group(of: &ApiResource) -> Cow<'_, str> {
        DynamicObject::group(of)
    }
    fn version(of: &ApiResource) -> Cow<'_, str> {
        DynamicObject::version(of)
    }
    fn plural(of: &ApiResource) -> Cow<'_, str> {
        DynamicObject::plural(of)
    }
    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}

/// The API resource of `table` in `version`.
pub fn resource(table: Table, version: &str) -> ApiResource {
    let place = table::place(table);
    ApiResource {
        group: place.group.to_owned(),
        version: version.to_owned(),
        api_version: match place.group {
            "" => version.to_owned(),
            group => format!("{group}/{version}"),
        },
        kind: place.kind.to_owned(),
        plural: table.plural().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use kube::api::WatchEvent;
    use kube::core::ObjectList;
    use proptest::prelude::*;

    use super::*;
    use cluster::node::NodeObject;
    use cluster::pod::PodObject;
    use model::base::Names;

    /// The names of the pods that survive reading `body` as a list.
    fn names(body: &str) -> Vec<String> {
        let list: ObjectList<WatchObject<PodObject>> = serde_json::from_str(body).expect("a list");
        list.items
            .iter()
            .filter_map(|item| item.object.seen(false, &mut Names::default()))
            .map(|seen| seen.key.name.to_string())
            .collect()
    }

    #[test]
    fn events_are_read_whichever_key_comes_first() {
        for line in [
            r#"{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"7"},"status":{}}}"#,
            r#"{"object":{"metadata":{"resourceVersion":"7","name":"a"}},"type":"ADDED"}"#,
        ] {
            match serde_json::from_str(line).expect("an event") {
                WatchEvent::Added(watched) => {
                    let watched: WatchObject<NodeObject> = watched;
                    assert_eq!(watched.meta().resource_version.as_deref(), Some("7"));
                    assert_eq!(&*watched.object.meta().name, "a");
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn paths_are_those_of_the_api() {
        let url =
            |table, version| WatchObject::<PodObject>::url_path(&resource(table, version), None);
        assert_eq!(url(Table::Pods, "v1"), "/api/v1/pods");
        assert_eq!(url(Table::Jobs, "v1"), "/apis/batch/v1/jobs");
        assert_eq!(
            url(Table::JobSets, "v1alpha2"),
            "/apis/jobset.x-k8s.io/v1alpha2/jobsets"
        );
    }

    fn any_item() -> impl Strategy<Value = String> {
        prop_oneof![
            Just("null".to_owned()),
            Just("7".to_owned()),
            Just("[]".to_owned()),
            Just("\"pod\"".to_owned()),
            Just("{}".to_owned()),
            Just(r#"{"metadata":null}"#.to_owned()),
            Just(r#"{"metadata":{"name":null}}"#.to_owned()),
            Just(r#"{"metadata":{"name":"x","name":7},"spec":[{}],"status":"gone"}"#.to_owned()),
            Just(r#"{"metadata":{"labels":{"a":["b"]},"managedFields":[[[[[[]]]]]]}}"#.to_owned()),
            "[a-z]{0,6}".prop_map(|text| format!(r#"{{"spec":{{"nodeName":{{"{text}":1}}}}}}"#)),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

        #[test]
        fn neighbors_of_any_item_survive(items in prop::collection::vec(any_item(), 0..6)) {
            let good = |name: &str| format!(r#"{{"metadata":{{"name":"{name}","namespace":"n","resourceVersion":"1"}}}}"#);
            let mut all = vec![good("first")];
            all.extend(items);
            all.push(good("last"));
            let body = format!(
                r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"9"}},"items":[{}]}}"#,
                all.join(",")
            );
            let kept = names(&body);
            prop_assert_eq!(kept.first().map(String::as_str), Some("first"));
            prop_assert_eq!(kept.last().map(String::as_str), Some("last"));
        }

        #[test]
        fn any_bytes_are_an_object_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = serde_json::from_slice::<WatchEvent<WatchObject<PodObject>>>(&bytes);
            let _ = serde_json::from_slice::<ObjectList<WatchObject<NodeObject>>>(&bytes);
        }

        #[test]
        fn a_cut_event_is_an_error_and_no_panic(at in 0usize..400) {
            let whole = r#"{"type":"MODIFIED","object":{"kind":"Pod","metadata":{"name":"p","resourceVersion":"5","labels":{"a":"b"}},
                "spec":{"nodeName":"n","containers":[{"resources":{"limits":{"nvidia.com/gpu":"8"}}}]},"status":{"phase":"Running"}}}"#;
            let cut = &whole[..at.min(whole.len())];
            let read = serde_json::from_str::<WatchEvent<WatchObject<PodObject>>>(cut);
            prop_assert_eq!(read.is_ok(), cut.len() == whole.len());
        }
    }
}
