//! Quota usage of a job, computed from Kueue's configuration where Kueue has not reported it; unknown without that configuration.

use std::collections::BTreeMap;

use crate::snapshot::unit_is_milli;
use model::base::Name;
use model::fleet::Fleet;
use model::fleet::job::{Job, JobState};
use model::fleet::kueue_resources::KueueResources;
use model::fleet::observe::Resources;
use model::fleet::queue::{DEVICES, Queue, QueueKind, QueueSystem};

use super::options;
use super::workloads::set_name;

fn configured(fleet: &Fleet) -> Option<&KueueResources> {
    fleet.kueue.as_ref()?.resources.as_ref()
}

/// Quota usage of each pod with this request; empty if it equals the request.
pub(super) fn quota(fleet: &Fleet, job: &Job, request: &Resources) -> BTreeMap<Name, i64> {
    let resources = configured(fleet).filter(|_| job.queue_system == QueueSystem::Kueue);
    let counted = resources.map(|resources| resources.count(request));
    let in_unit = |(resource, milli): (Name, i64)| match unit_is_milli(&resource) {
        true => (resource, milli),
        false => (resource, milli / 1000),
    };
    counted.into_iter().flatten().map(in_unit).collect()
}

/// True where one of the queue's quotas has this name, or counts devices of every kind.
fn covers(queue: &Queue, resource: &Name) -> bool {
    let mut all = queue.quotas.iter();
    all.any(|quota| quota.resource == *resource || quota.resource.as_str() == DEVICES)
}

/// Why it is not known what a pending job of Kueue uses of quotas; `None` where it is known.
pub(super) fn uncounted(fleet: &Fleet, job: &Job, has_quota: bool) -> Option<Name> {
    let waits = matches!(job.state, JobState::Waiting | JobState::Starting);
    if has_quota || !waits || job.queue_system != QueueSystem::Kueue {
        return None;
    }
    let reported = job.admission.iter().flat_map(|it| it.seen.requests.iter());
    let is_reported = |set: &Name| reported.clone().any(|(own, _)| own == set);
    let asked = job.pod_sets.iter();
    let mut asked = asked.filter(|set| set.count > 0 && !is_reported(&set_name(set)));
    let Some(resources) = configured(fleet) else {
        // A resource without a mapping counts as itself, if the queue has a quota for it.
        let name = job.queue.as_ref()?;
        let queue = fleet.queues.iter().find(|queue| {
            queue.system() == QueueSystem::Kueue
                && queue.key.kind == QueueKind::Queue
                && queue.name() == name
        })?;
        let devices = asked.flat_map(|set| set.request.devices.iter());
        let mut devices = devices
            .filter(|(_, count)| *count > 0)
            .map(|(name, _)| name);
        let other = devices.find(|resource| !covers(queue, resource))?;
        let why = options::unread(fleet);
        return Some(Name::from(format!(
            "queue {name} has no quota named {other}, and it is unknown which quota Kueue charges for {other}: {why}"
        )));
    };
    let class = asked.find_map(|set| resources.uncounted(&set.request))?;
    Some(Name::from(format!(
        "what Kueue counts {class} as is unknown: its configuration counts what the devices say, not their number"
    )))
}
