//! A Kubernetes object as kube's watcher carries it: raw JSON, decoded by the follower of its table.
//!
//! kube's watcher is compiled once for each type that it carries. This is the one.

use std::borrow::Cow;
use std::fmt;

use kube::Resource;
use kube::api::{ApiResource, DynamicObject, ObjectMeta};
use kube::core::DynamicResourceScope;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use cluster::meta::Versioned;
use model::fleet::observe::Table;

/// An object's JSON, with just the metadata that a watcher needs to resume after it.
#[derive(Clone, Debug)]
pub struct WatchObject {
    json: Box<RawValue>,
    meta: ObjectMeta,
}

impl WatchObject {
    /// The object as it was sent.
    pub fn json(&self) -> &str {
        self.json.get()
    }
}

/// The name under which `serde_json` passes the text of a value without a copy. With any other name, [`JsonText`] would get
/// the value itself, and write it out.
const RAW: &str = "$serde_json::private::RawValue";

/// Takes the JSON of a value: its text, or, where it was parsed already (an event whose `object` comes before its `type`), the
/// value written out again.
struct JsonText;

impl<'de> Visitor<'de> for JsonText {
    type Value = Box<RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        Box::<RawValue>::deserialize(MapAccessDeserializer::new(map))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        to_raw_value(&Value::deserialize(from)?).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for WatchObject {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let json = from.deserialize_newtype_struct(RAW, JsonText)?;
        let read: Versioned = serde_json::from_str(json.get()).map_err(D::Error::custom)?;
        let meta = ObjectMeta {
            resource_version: read.meta.resource_version.get().map(str::to_owned),
            ..ObjectMeta::default()
        };
        Ok(Self { json, meta })
    }
}

impl Resource for WatchObject {
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

pub fn resource(table: Table, version: &str) -> ApiResource {
    let place = table.api();
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
    use model::base::Names;

    /// The names of the pods that survive reading `body` as a list.
    fn names(body: &str) -> Vec<String> {
        let list: ObjectList<WatchObject> = serde_json::from_str(body).expect("a list");
        list.items
            .iter()
            .map(|item| cluster::read(Table::Pods, item.json()).expect("is read"))
            .filter_map(|pod| pod.as_pod()?.seen(false, &mut Names::default()))
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
                    let watched: WatchObject = watched;
                    assert_eq!(watched.meta().resource_version.as_deref(), Some("7"));
                    let node = cluster::read(Table::Nodes, watched.json()).expect("is read");
                    assert_eq!(&*node.meta().name, "a");
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn what_need_not_be_written_out_is_not() {
        // A parsed value would lose the spaces.
        let text = r#"{ "metadata": { "name": "a" } }"#;
        let watched: WatchObject = serde_json::from_str(text).expect("an object");
        assert_eq!(watched.json(), text);
    }

    #[test]
    fn paths_are_those_of_the_api() {
        let url = |table, version| WatchObject::url_path(&resource(table, version), None);
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
            let _ = serde_json::from_slice::<WatchEvent<WatchObject>>(&bytes);
            let _ = serde_json::from_slice::<ObjectList<WatchObject>>(&bytes);
        }

        #[test]
        fn a_cut_event_is_an_error_and_no_panic(at in 0usize..400) {
            let whole = r#"{"type":"MODIFIED","object":{"kind":"Pod","metadata":{"name":"p","resourceVersion":"5","labels":{"a":"b"}},
                "spec":{"nodeName":"n","containers":[{"resources":{"limits":{"nvidia.com/gpu":"8"}}}]},"status":{"phase":"Running"}}}"#;
            let cut = &whole[..at.min(whole.len())];
            let read = serde_json::from_str::<WatchEvent<WatchObject>>(cut);
            prop_assert_eq!(read.is_ok(), cut.len() == whole.len());
        }
    }
}
