//! The `scale` subresource: `spec.replicas` of a workload as an `autoscaling/v1` Scale.

use std::sync::Arc;

use serde_json::{Value, json};

use super::request::ResourcePath;
use super::status::ApiStatus;
use super::{ApiRequest, ApiResult, validate, write};
use crate::cluster::SimCluster;
use crate::json::{int, text};
use crate::resource::Spec;
use crate::selector::LabelSelector;

fn scale_of(object: &Value) -> Value {
    let metadata = |key: &str| {
        object
            .pointer(&format!("/metadata/{key}"))
            .cloned()
            .unwrap_or_default()
    };
    let selector = object
        .pointer("/spec/selector")
        .and_then(LabelSelector::of_object);
    json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": metadata("name"),
            "namespace": metadata("namespace"),
            "uid": metadata("uid"),
            "resourceVersion": metadata("resourceVersion"),
            "creationTimestamp": metadata("creationTimestamp"),
        },
        "spec": {"replicas": object.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1)},
        "status": {
            "replicas": int(object, "/status/replicas"),
            "selector": selector.map(|s| s.show()).unwrap_or_default(),
        },
    })
}

/// Reads or writes the scale of a workload.
///
/// # Errors
/// 400, 404, 409, 415 and 422 as the real server.
pub fn serve(
    cluster: &Arc<SimCluster>,
    asked: &ApiRequest,
    target: &ResourcePath,
    spec: &Spec,
) -> ApiResult {
    let manner = asked.manner()?;
    if asked.method == http::Method::GET {
        let object = target.object(&cluster.core(), spec)?;
        return manner.document(200, &scale_of(&object));
    }
    let dry_run = asked.dry_run()?;
    let scale = {
        let mut core = cluster.core();
        let old = target.object(&core, spec)?;
        let scale = if asked.method == http::Method::PATCH {
            let mut scale = scale_of(&old);
            write::patcher(asked, spec)?(&mut scale)?;
            scale
        } else {
            validate::body(asked, "Scale")?
        };
        let version = text(&scale, "/metadata/resourceVersion");
        if !version.is_empty() && version != text(&old, "/metadata/resourceVersion") {
            return Err(ApiStatus::modified(spec, &target.name));
        }
        let replicas = int(&scale, "/spec/replicas");
        if replicas < 0 {
            let why = format!("Invalid value: {replicas}: must be greater than or equal to 0");
            let cause = ("FieldValueInvalid", why, "spec.replicas".to_owned());
            return Err(ApiStatus::invalid(spec, &target.name, vec![cause]));
        }
        let mut new = (*old).clone();
        if old.pointer("/spec/replicas").and_then(Value::as_i64) != Some(replicas) {
            new["spec"]["replicas"] = replicas.into();
            if let Some(generation) = old.pointer("/metadata/generation").and_then(Value::as_i64) {
                new["metadata"]["generation"] = (generation + 1).into();
            }
        }
        let unchanged = new == *old;
        if dry_run || unchanged {
            scale_of(&new)
        } else {
            scale_of(&write::replace(&mut core, spec, new))
        }
    };
    if !dry_run {
        cluster.announce();
    }
    manner.document(200, &scale)
}
