//! Create, update, patch and delete.

use std::sync::Arc;

use serde_json::{Value, json};

use super::patch::{decoded, json_patch, strategic};
use super::present::Manner;
use super::request::ResourcePath;
use super::status::{ApiStatus, success};
use super::validate::{self, Deletion};
use super::{ApiRequest, ApiResult, apply, defaults};
use crate::change::{Request, Resource};
use crate::cluster::{Core, SimCluster};
use crate::json::{list, map_mut, name, text};
use crate::resource::Spec;
use model::base::{Moment, ObjectKey};

/// The object in the store after a write, else as it was sent.
fn stored(core: &Core, spec: &Spec, object: Value) -> Arc<Value> {
    let namespace = crate::json::namespace(&object).to_owned();
    core.store
        .get(spec.resource, &namespace, name(&object))
        .unwrap_or_else(|| Arc::new(object))
}

/// `POST` of a new object.
///
/// # Errors
/// 400, 404, 409 and 422 as the real server.
pub fn create(
    cluster: &Arc<SimCluster>,
    asked: &ApiRequest,
    target: &ResourcePath,
    spec: &Spec,
) -> ApiResult {
    let manner = asked.manner()?;
    let dry_run = asked.dry_run()?;
    if spec.namespaced && target.namespace.is_empty() {
        return Err(ApiStatus::bad_request(format!(
            "an empty namespace may not be set during creation of {}",
            spec.plural
        )));
    }
    let mut object = validate::body(asked, spec.kind)?;
    validate::place(&mut object, target, spec)?;
    finish(cluster, spec, (&manner, dry_run), |core| {
        Ok((201, make(core, object, target, spec, dry_run)?))
    })
}

/// Carries out a write under one lock, announces it unless it is a dry run, and answers with the object and this code.
///
/// # Errors
/// Those of the write, and 406 for a form that does not exist.
pub fn finish(
    cluster: &Arc<SimCluster>,
    spec: &Spec,
    (manner, dry_run): (&Manner, bool),
    write: impl FnOnce(&mut Core) -> Result<(u16, Arc<Value>), ApiStatus>,
) -> ApiResult {
    let (code, object, now) = {
        let mut core = cluster.core();
        let now = core.world.now();
        let (code, object) = write(&mut core)?;
        (code, object, now)
    };
    if !dry_run {
        cluster.announce();
    }
    manner.object(code, spec, &object, now)
}

/// Makes a new object, or on a dry run returns what it would be.
///
/// # Errors
/// 404 without its namespace, 409 when it exists, 422 when it is invalid.
pub fn make(
    core: &mut Core,
    mut object: Value,
    target: &ResourcePath,
    spec: &Spec,
    dry_run: bool,
) -> Result<Arc<Value>, ApiStatus> {
    if spec.namespaced {
        check_namespace(core, target, spec, name(&object))?;
    }
    let now = core.world.now();
    defaults::begin(core, &mut object, spec, now)?;
    validate::shape(&object, spec)?;
    let key = name(&object).to_owned();
    if core
        .store
        .get(spec.resource, &target.namespace, &key)
        .is_some()
    {
        return Err(ApiStatus::already_exists(spec, &key));
    }
    if dry_run {
        return Ok(Arc::new(object));
    }
    core.carry_out(Request::Write(spec.resource, object.clone()));
    Ok(stored(core, spec, object))
}

fn check_namespace(
    core: &Core,
    target: &ResourcePath,
    spec: &Spec,
    name: &str,
) -> Result<(), ApiStatus> {
    let namespaces = crate::resource::spec(Resource::Namespaces);
    let Some(namespace) = core.store.get(Resource::Namespaces, "", &target.namespace) else {
        return Err(ApiStatus::not_found(namespaces, &target.namespace));
    };
    if text(&namespace, "/status/phase") == "Terminating" {
        return Err(ApiStatus::forbidden(
            spec.group,
            spec.plural,
            name,
            &format!(
                "unable to create new content in namespace {} because it is being terminated",
                target.namespace
            ),
        ));
    }
    Ok(())
}

/// `PUT` of an object or of its status.
///
/// # Errors
/// 400, 404, 409 and 422 as the real server.
pub fn update(
    cluster: &Arc<SimCluster>,
    asked: &ApiRequest,
    target: &ResourcePath,
    spec: &Spec,
) -> ApiResult {
    let mut object = validate::body(asked, spec.kind)?;
    validate::place(&mut object, target, spec)?;
    let creates = matches!(spec.resource, Resource::Leases | Resource::Events);
    if creates
        && cluster
            .get(spec.resource, &target.namespace, &target.name)
            .is_none()
    {
        return create(cluster, asked, target, spec);
    }
    change(cluster, asked, target, spec, move |_| Ok(object))
}

const PATCHES: &str = "application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json";
const CUSTOM_PATCHES: &str =
    "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";

/// `PATCH` of an object or of its status.
///
/// # Errors
/// 400, 404, 409, 415 and 422 as the real server.
pub fn patch(
    cluster: &Arc<SimCluster>,
    asked: &ApiRequest,
    target: &ResourcePath,
    spec: &Spec,
) -> ApiResult {
    if apply::is_apply(asked) {
        return apply::serve(cluster, asked, target, spec);
    }
    let apply = patcher(asked, spec)?;
    change(cluster, asked, target, spec, move |old| {
        let mut object = old.clone();
        apply(&mut object)?;
        validate::place(&mut object, target, spec)?;
        Ok(object)
    })
}

/// How the body of a patch request changes an object.
type Patcher<'a> = Box<dyn FnOnce(&mut Value) -> Result<(), ApiStatus> + 'a>;

/// Reads the patch of a request.
///
/// # Errors
/// 400 when it does not parse, 415 when its type is not offered.
pub fn patcher<'a>(asked: &'a ApiRequest, spec: &Spec) -> Result<Patcher<'a>, ApiStatus> {
    let parsed = || decoded(&asked.body, "map[string]interface {}", Value::is_object);
    match asked.media_type() {
        "application/json-patch+json" => Ok(Box::new(|object| json_patch(object, &asked.body))),
        "application/merge-patch+json" => {
            let patch = parsed()?;
            Ok(Box::new(move |object| {
                json_patch::merge(object, &patch);
                Ok(())
            }))
        }
        "application/strategic-merge-patch+json" if !spec.is_custom() => {
            let patch = parsed()?;
            Ok(Box::new(move |object| strategic(object, &patch)))
        }
        "application/strategic-merge-patch+json" => {
            Err(ApiStatus::unsupported_media(CUSTOM_PATCHES))
        }
        // An object and its status are applied (see `apply`), other subresources are not.
        "application/apply-patch+yaml" => Err(ApiStatus::unsupported_media(PATCHES)),
        _ => Err(ApiStatus::unsupported_patch()),
    }
}

/// Reads, changes and writes one object under one lock.
fn change(
    cluster: &Arc<SimCluster>,
    asked: &ApiRequest,
    target: &ResourcePath,
    spec: &Spec,
    make: impl FnOnce(&Value) -> Result<Value, ApiStatus>,
) -> ApiResult {
    let manner = asked.manner()?;
    let dry_run = asked.dry_run()?;
    let status_only = target.subresource == "status";
    finish(cluster, spec, (&manner, dry_run), |core| {
        let old = target.object(core, spec)?;
        let new = make(&old)?;
        Ok((200, rewrite(core, spec, &old, new, status_only, dry_run)?))
    })
}

/// Writes the new state of an object, or on a dry run returns what it would be.
///
/// # Errors
/// 409 when it has changed since, 422 when the new state is invalid.
pub fn rewrite(
    core: &mut Core,
    spec: &Spec,
    old: &Value,
    new: Value,
    status_only: bool,
    dry_run: bool,
) -> Result<Arc<Value>, ApiStatus> {
    let new = merged(old, new, spec, status_only)?;
    if !status_only {
        validate::shape(&new, spec)?;
        validate::update(old, &new, spec)?;
    }
    Ok(match dry_run || new == *old {
        true => Arc::new(new),
        false => replace(core, spec, new),
    })
}

/// Writes an object; one that is being deleted is removed with its last finalizer.
pub fn replace(core: &mut Core, spec: &Spec, object: Value) -> Arc<Value> {
    let leaving = object.pointer("/metadata/deletionTimestamp").is_some();
    let held = !list(&object, "/metadata/finalizers").is_empty();
    let was_held = core
        .store
        .get(
            spec.resource,
            crate::json::namespace(&object),
            name(&object),
        )
        .is_some_and(|old| !list(&old, "/metadata/finalizers").is_empty());
    if leaving && was_held && !held && spec.resource != Resource::Pods {
        let key = key_of(&object);
        core.carry_out(Request::Delete(spec.resource, key, Some(0)));
        return Arc::new(object);
    }
    core.carry_out(Request::Write(spec.resource, object.clone()));
    stored(core, spec, object)
}

/// The new state of an object: server-owned fields are kept; a write of the main object keeps the status, a write
/// of the status keeps the rest.
fn merged(old: &Value, mut new: Value, spec: &Spec, status_only: bool) -> Result<Value, ApiStatus> {
    let version = text(&new, "/metadata/resourceVersion");
    if !version.is_empty() && version != "0" && version != text(old, "/metadata/resourceVersion") {
        return Err(ApiStatus::modified(spec, name(old)));
    }
    let uid = text(&new, "/metadata/uid");
    if !uid.is_empty() && uid != text(old, "/metadata/uid") {
        return Err(ApiStatus::conflict(
            spec,
            name(old),
            &format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                text(old, "/metadata/uid")
            ),
        ));
    }
    let metadata = map_mut(&mut new, "metadata");
    for key in [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "generation",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generateName",
        "selfLink",
    ] {
        match old.pointer(&format!("/metadata/{key}")) {
            Some(value) => metadata.insert(key.into(), value.clone()),
            None => metadata.remove(key),
        };
    }
    for key in ["labels", "annotations", "finalizers", "ownerReferences"] {
        let empty = match metadata.get(key) {
            Some(Value::Object(map)) => map.is_empty(),
            Some(Value::Array(list)) => list.is_empty(),
            Some(Value::Null) => true,
            _ => false,
        };
        if empty {
            metadata.remove(key);
        }
    }
    if status_only {
        let mut object = old.clone();
        object["status"] = new.get("status").cloned().unwrap_or_else(|| json!({}));
        if spec.resource == Resource::Nodes {
            object["metadata"] = new["metadata"].clone();
        }
        return Ok(object);
    }
    if spec.has_status() {
        match old.get("status") {
            Some(status) => new["status"] = status.clone(),
            None => {
                if let Some(map) = new.as_object_mut() {
                    map.remove("status");
                }
            }
        }
    }
    if spec.has_generation()
        && old.get("spec") != new.get("spec")
        && let Some(generation) = old.pointer("/metadata/generation").and_then(Value::as_i64)
    {
        new["metadata"]["generation"] = (generation + 1).into();
    }
    Ok(new)
}

fn key_of(object: &Value) -> ObjectKey {
    ObjectKey::new(crate::json::namespace(object), name(object))
}

/// `DELETE` of one object.
///
/// # Errors
/// 404, 409 and 422 as the real server.
pub fn delete(
    cluster: &Arc<SimCluster>,
    asked: &ApiRequest,
    target: &ResourcePath,
    spec: &Spec,
) -> ApiResult {
    let manner = asked.manner()?;
    let deletion = Deletion::read(asked)?;
    let (body, gone, now) = {
        let mut core = cluster.core();
        let now = core.world.now();
        let object = target.object(&core, spec)?;
        deletion.check(&object, spec)?;
        let (object, gone) = go(&mut core, spec, &object, &deletion, now);
        (object, gone, now)
    };
    if !deletion.dry_run {
        cluster.announce();
    }
    // These kinds answer with the object even when it is deleted at once.
    let shown = matches!(
        spec.resource,
        Resource::Pods | Resource::Services | Resource::ServiceAccounts
    );
    if gone && !shown {
        let status = success(spec, &target.name, text(&body, "/metadata/uid"));
        return manner.document(200, &status);
    }
    manner.object(200, spec, &body, now)
}

/// Deletes an object, or on a dry run returns the result: the object afterwards, and whether it is removed.
pub fn go(
    core: &mut Core,
    spec: &Spec,
    object: &Arc<Value>,
    deletion: &Deletion,
    now: Moment,
) -> (Arc<Value>, bool) {
    let grace = match spec.resource {
        Resource::Pods => Some(validate::grace(object, deletion.grace)),
        _ => deletion.grace,
    };
    let leaving = || Arc::new(leaving(object, grace.unwrap_or(0), now));
    if !deletion.dry_run {
        core.carry_out(Request::Delete(spec.resource, key_of(object), grace));
        let key = key_of(object);
        let left = core.store.get(spec.resource, &key.namespace, &key.name);
        return match left {
            Some(left) => (left, false),
            // A pod is returned as it was when it was removed.
            None if spec.resource == Resource::Pods => (leaving(), true),
            None => (object.clone(), true),
        };
    }
    let held = !list(object, "/metadata/finalizers").is_empty();
    let waits = spec.resource == Resource::Pods && grace.is_some_and(|g| g > 0);
    if !held && !waits {
        return (object.clone(), true);
    }
    (leaving(), false)
}

/// An object marked as deleted: deletion timestamp, grace period, and incremented generation.
fn leaving(object: &Value, seconds: u64, now: Moment) -> Value {
    let mut leaving = object.clone();
    let end = now.plus(std::time::Duration::from_secs(seconds));
    let metadata = map_mut(&mut leaving, "metadata");
    metadata.insert("deletionTimestamp".into(), end.rfc3339().into());
    metadata.insert("deletionGracePeriodSeconds".into(), seconds.into());
    if let Some(generation) = metadata.get("generation").and_then(Value::as_i64) {
        metadata.insert("generation".into(), (generation + 1).into());
    }
    leaving
}

/// `DELETE` of everything that selectors select.
///
/// # Errors
/// 400 and 422 on malformed parameters.
pub fn delete_collection(
    cluster: &Arc<SimCluster>,
    asked: &ApiRequest,
    target: &ResourcePath,
    spec: &Spec,
) -> ApiResult {
    let manner = asked.manner()?;
    let deletion = Deletion::read(asked)?;
    let filter = super::read::ListFilter::read(&asked.query, target, spec)?;
    let (items, revision, now) = {
        let mut core = cluster.core();
        let now = core.world.now();
        let what = crate::store::ListOptions {
            namespace: Some(target.namespace.as_str()).filter(|n| !n.is_empty()),
            ..Default::default()
        };
        let page = core
            .store
            .list(spec.resource, &what, &|object| filter.keeps(spec, object))
            .map_err(ApiStatus::expired)?;
        for object in &page.items {
            deletion.check(object, spec)?;
        }
        let items: Vec<Arc<Value>> = page
            .items
            .iter()
            .map(|object| go(&mut core, spec, object, &deletion, now).0)
            .collect();
        (items, core.store.revision(), now)
    };
    if !deletion.dry_run {
        cluster.announce();
    }
    manner.list(
        spec,
        &items,
        json!({"resourceVersion": revision.to_string()}),
        now,
    )
}
