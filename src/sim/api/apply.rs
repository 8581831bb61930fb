//! Server-side apply: a field manager's configuration is merged into the object, made if it does not exist.
//!
//! What the manager applied before and does not apply now is removed. A field that another manager applied with another value is a
//! conflict, unless it is forced. Owners of fields are kept beside the objects, not in `metadata.managedFields`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::patch::strategic;
use super::request::ResourcePath;
use super::status::ApiStatus;
use super::{ApiRequest, ApiResult, validate, write};
use crate::cluster::{Core, SimCluster};
use crate::field_owners::{Fields, Removal, fields};
use crate::resource::Spec;
use crate::users::refused;

/// The media type of an apply.
const KIND: &str = "application/apply-patch+yaml";

/// True for a patch that is an apply.
pub fn is_apply(asked: &ApiRequest) -> bool {
    asked.media_type() == KIND
}

/// `PATCH` of an object, or of its status, with an applied configuration.
///
/// # Errors
/// 400, 403, 404, 409 and 422 as the real server.
pub fn serve(
    cluster: &Arc<SimCluster>,
    asked: &ApiRequest,
    target: &ResourcePath,
    spec: &Spec,
) -> ApiResult {
    let manner = asked.manner()?;
    let dry_run = asked.dry_run()?;
    let manager = asked
        .query
        .get("fieldManager")
        .ok_or_else(ApiStatus::no_field_manager)?;
    let mut config = validate::configuration(asked)?;
    if config.pointer("/metadata/managedFields").is_some() {
        return Err(ApiStatus::bad_request("metadata.managedFields must be nil"));
    }
    validate::place(&mut config, target, spec)?;
    let status_only = target.subresource == "status";
    let mut own = fields(&config, spec.is_custom());
    // Whoever applies the object does not own its status, and the other way around.
    if spec.has_status() {
        own.retain(|path, _| path.starts_with(".status.") == status_only);
    }
    let ask = target.ask("create");
    let may_create = cluster.users().may(&asked.who, &ask);
    write::finish(cluster, spec, (&manner, dry_run), |core| {
        match target.object(core, spec) {
            Ok(old) => {
                let order = Order {
                    manager,
                    force: asked.query.flag("force"),
                    status_only,
                    dry_run,
                };
                Ok((200, change(core, spec, &old, &config, own, &order)?))
            }
            Err(missing) if status_only => Err(missing),
            Err(_) if !may_create => {
                let why = refused(&asked.who, &ask);
                let (group, plural) = (&target.group, &target.plural);
                Err(ApiStatus::forbidden(group, plural, &target.name, &why))
            }
            Err(_) => {
                let object = write::make(core, config, target, spec, dry_run)?;
                if !dry_run {
                    let paths = own.into_keys().collect();
                    let managers = BTreeMap::from([(manager.to_owned(), paths)]);
                    core.owners.set(spec.resource, &object, managers);
                }
                Ok((201, object))
            }
        }
    })
}

/// How a configuration is applied to an object that exists.
struct Order<'a> {
    manager: &'a str,
    force: bool,
    status_only: bool,
    dry_run: bool,
}

fn change(
    core: &mut Core,
    spec: &Spec,
    old: &Arc<Value>,
    config: &Value,
    own: Fields,
    order: &Order<'_>,
) -> Result<Arc<Value>, ApiStatus> {
    let live = fields(old, spec.is_custom());
    let mut managers = core.owners.of(spec.resource, old);
    let before = managers.remove(order.manager).unwrap_or_default();
    let is_part = |path: &str| path.starts_with(".status.") == order.status_only;
    let (before, other_part): (BTreeSet<String>, BTreeSet<String>) = before
        .into_iter()
        .partition(|path| !spec.has_status() || is_part(path));
    let mut conflicts = Vec::new();
    for (manager, theirs) in &mut managers {
        theirs.retain(|path| {
            let differs = own
                .get(path)
                .is_some_and(|value| live.get(path).is_some_and(|is| is != value));
            if differs {
                conflicts.push((manager.clone(), path.clone()));
            }
            !differs
        });
    }
    if !order.force && !conflicts.is_empty() {
        return Err(ApiStatus::apply_conflict(&conflicts));
    }
    let mut new = (**old).clone();
    {
        let theirs = managers.values().flatten();
        let kept = theirs.chain(own.keys()).map(String::as_str);
        let kept: BTreeSet<&str> = kept.collect();
        let gone = before
            .into_iter()
            .filter(|path| !kept.contains(path.as_str()))
            .collect();
        let removal = Removal {
            gone,
            kept,
            custom: spec.is_custom(),
        };
        removal.apply(&mut new);
    }
    match spec.is_custom() {
        true => json_patch::merge(&mut new, config),
        false => strategic(&mut new, config)?,
    }
    let object = write::rewrite(core, spec, old, new, order.status_only, order.dry_run)?;
    if !order.dry_run {
        let paths = own.into_keys().chain(other_part).collect();
        managers.insert(order.manager.to_owned(), paths);
        core.owners.set(spec.resource, &object, managers);
    }
    Ok(object)
}
