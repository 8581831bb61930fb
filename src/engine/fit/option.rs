//! Flavors that a pod set may start with, in the order in which they are tried, and the quota that it uses with them.

use crate::compiled::{FlavorId, PairId, QueueId, ResourceGroup, WorkloadId};
use crate::snapshot::{DEVICES, DeviceRequest};
use crate::state::{PodSetAllocation, State};
use model::base::Name;

use super::gate::kept_out;
use super::{Miss, Relaxation, Why};

/// Maximum number of flavor combinations that are tried.
const MOST_OPTIONS: usize = 64;

impl State<'_> {
    /// Resource groups of a queue that a set's requests use.
    ///
    /// # Errors
    /// A requested resource that the queue must cover and does not.
    pub(crate) fn groups_of(
        &self,
        work: WorkloadId,
        set: usize,
        queue: QueueId,
    ) -> Result<Vec<usize>, Name> {
        match self.covering_groups(work, set, queue) {
            (_, Some(missing)) => Err(missing),
            (groups, None) => Ok(groups),
        }
    }

    /// Resource groups of a queue that cover a set's requests, and the first resource that the queue must cover and does not.
    pub(crate) fn covering_groups(
        &self,
        work: WorkloadId,
        set: usize,
        queue: QueueId,
    ) -> (Vec<usize>, Option<Name>) {
        let branch = &self.tree().branches[queue];
        let own = &self.compiled().workloads[work].sets[set];
        let ask = &self.compiled().requests[own.want].ask;
        let quota_requests = own.quota.iter().filter(|(_, each)| **each > 0);
        let quota_requests = quota_requests.map(|(resource, _)| (&**resource, false));
        let has_quota = !own.quota.is_empty();
        let devices = ask.devices.iter().map(|device| (&*device.resource, true));
        let plain = [("cpu", ask.cpu_milli), ("memory", ask.memory_bytes)];
        let plain = plain
            .into_iter()
            .filter(|(_, amount)| *amount > 0)
            .map(|(name, _)| (name, false));
        let asked = devices.chain(plain).filter(|_| !has_quota);
        let (mut used, mut missing) = (Vec::new(), None);
        for (resource, device) in quota_requests.chain(asked) {
            let own =
                |group: &ResourceGroup| group.resources.iter().any(|name| &**name == resource);
            let any = |group: &ResourceGroup| {
                device && group.resources.iter().any(|name| &**name == DEVICES)
            };
            let found = branch.groups.iter().position(own);
            match found.or_else(|| branch.groups.iter().position(any)) {
                Some(group) => used.push(group),
                None if resource != "pods"
                    && branch.covers_all
                    && !self.tree().passed_over.contains(resource) =>
                {
                    missing.get_or_insert_with(|| Name::from(resource));
                }
                None => {}
            }
        }
        // The number of pods may have a quota too.
        let pods = |group: &ResourceGroup| group.resources.iter().any(|name| &**name == "pods");
        used.extend(branch.groups.iter().position(pods));
        used.sort_unstable();
        used.dedup();
        (used, missing)
    }

    /// Flavors to try for each resource group that a set uses, in order.
    ///
    /// # Errors
    /// A requested resource has no quota, or a group has none of the workload's own flavors.
    pub(crate) fn flavor_lists(
        &self,
        work: WorkloadId,
        set: usize,
        queue: QueueId,
        relaxation: &Relaxation,
    ) -> Result<Vec<Vec<FlavorId>>, Vec<Miss>> {
        let groups = self
            .groups_of(work, set, queue)
            .map_err(|resource| Miss::plain(Why::NotCovered { resource }))?;
        let branch = &self.tree().branches[queue];
        let choices = self.compiled().workloads[work].choices.as_ref();
        let lists: Vec<Vec<FlavorId>> = groups
            .iter()
            .map(|&group| {
                let group = &branch.groups[group];
                let devices = group
                    .resources
                    .iter()
                    .any(|name| !matches!(&**name, "cpu" | "memory" | "pods"));
                match (relaxation.only_flavor, choices) {
                    (Some(only), _) if devices => {
                        let own = group.flavors.iter().filter(|flavor| **flavor == only);
                        own.copied().collect()
                    }
                    (_, Some(choices)) if devices => {
                        let own = choices.iter().map(|(flavor, _)| *flavor);
                        own.filter(|flavor| group.flavors.contains(flavor))
                            .collect()
                    }
                    _ => group.flavors.clone(),
                }
            })
            .collect();
        if lists.iter().any(Vec::is_empty) {
            return Err(Miss::plain(Why::NoFlavor));
        }
        Ok(lists)
    }

    /// Flavors to try, one for each group.
    pub(crate) fn options(
        &self,
        work: WorkloadId,
        set: usize,
        queue: QueueId,
        relaxation: &Relaxation,
    ) -> Result<Vec<Vec<FlavorId>>, Vec<Miss>> {
        let lists = self.flavor_lists(work, set, queue, relaxation)?;
        let choices = self.compiled().workloads[work].choices.as_ref();
        if lists.is_empty() {
            // Without quotas, flavors only select nodes.
            let only = relaxation.only_flavor.map(|flavor| vec![vec![flavor]]);
            let own = choices.map(|list| list.iter().map(|(flavor, _)| vec![*flavor]).collect());
            return match only.or(own) {
                Some(list) if Vec::is_empty(&list) => Err(Miss::plain(Why::NoFlavor)),
                Some(list) => Ok(list),
                None => Ok(vec![Vec::new()]),
            };
        }
        let mut options: Vec<Vec<FlavorId>> = vec![Vec::new()];
        for list in lists {
            let longer = |option: &Vec<FlavorId>| {
                let option = option.clone();
                list.clone().into_iter().map(move |flavor| {
                    let mut option = option.clone();
                    option.push(flavor);
                    option
                })
            };
            options = options.iter().flat_map(longer).take(MOST_OPTIONS).collect();
        }
        Ok(options)
    }

    /// Whether the flavors accept the pods at all, regardless of free resources.
    pub(crate) fn flavors_suit(
        &self,
        work: WorkloadId,
        set: usize,
        flavors: &[FlavorId],
        relaxation: &Relaxation,
    ) -> Result<(), Why> {
        let compiled = self.compiled();
        let constraint = &compiled.constraints[compiled.workloads[work].sets[set].constraint];
        for &flavor in flavors {
            let model = &compiled.snapshot.flavors[flavor];
            let tolerations = [
                &constraint.tolerations[..],
                &relaxation.tolerate[..],
                &model.tolerations[..],
            ];
            if !relaxation.no_taints
                && let Some(taint) = kept_out(&model.taints, &tolerations)
            {
                let key = taint.key.clone();
                return Err(Why::FlavorTaint { flavor, key });
            }
            // Required labels must match those that the flavor has; others are left to nodes. Source: Kueue's `flavorSelector`.
            let mut asked = constraint.selector.iter();
            let selects = asked.all(|(key, value)| {
                let own = model.labels.get(key);
                own.is_none_or(|own| own == value)
            });
            let mut terms = constraint.affinity.iter();
            let suits = selects
                && (constraint.affinity.is_empty()
                    || terms.any(|term| {
                        let mut needs = term.iter();
                        needs.all(|need| {
                            !model.labels.contains_key(&need.key) || need.is_met(&model.labels)
                        })
                    }));
            if !relaxation.no_labels && !suits {
                return Err(Why::FlavorLabels { flavor });
            }
        }
        Ok(())
    }

    /// Quota that this many pods of a set use in a queue with these flavors.
    pub(crate) fn amounts(
        &self,
        work: WorkloadId,
        set: usize,
        queue: QueueId,
        flavors: &[FlavorId],
        count: u32,
    ) -> Vec<(PairId, i64)> {
        let (groups, _) = self.covering_groups(work, set, queue);
        let pairs = groups.iter().zip(flavors);
        pairs
            .flat_map(|(&group, &flavor)| self.amounts_in(work, set, queue, (group, flavor), count))
            .collect()
    }

    /// How much of a resource, under its own name, a pod of a set uses of a quota.
    fn each(&self, work: WorkloadId, set: usize, resource: &Name) -> i64 {
        let own = &self.compiled().workloads[work].sets[set];
        let ask = &self.compiled().requests[own.want].ask;
        match &**resource {
            _ if !own.quota.is_empty() => own.quota.get(resource).copied().unwrap_or(0),
            "cpu" => ask.cpu_milli,
            "memory" => ask.memory_bytes,
            _ => {
                let devices = ask.devices.iter();
                let same = devices.filter(|device| device.resource == *resource);
                same.map(DeviceRequest::all_milli).sum()
            }
        }
    }

    /// What a set that was admitted uses of quotas that its queue does not list any more.
    pub(crate) fn amounts_beyond(
        &self,
        work: WorkloadId,
        set: usize,
        queue: QueueId,
        count: u32,
    ) -> Vec<(PairId, i64)> {
        let groups = &self.tree().branches[queue].groups;
        let is_listed = |resource: &Name| {
            let mut resources = groups.iter().flat_map(|group| &group.resources);
            resources.any(|own| own == resource || &**own == DEVICES)
        };
        let admitted = &self.workload(work).sets[set].admitted;
        let beyond = admitted.iter().filter(|(resource, _)| !is_listed(resource));
        let used = beyond.filter_map(|(resource, flavor)| {
            let pair = self
                .tree()
                .pair(queue, self.compiled().flavor(flavor)?, resource)?;
            let each = self.each(work, set, resource);
            Some((pair, each.saturating_mul(i64::from(count))))
        });
        used.collect()
    }

    /// The same in one resource group, with one of its flavors.
    pub(crate) fn amounts_in(
        &self,
        work: WorkloadId,
        set: usize,
        queue: QueueId,
        (group, flavor): (usize, FlavorId),
        count: u32,
    ) -> Vec<(PairId, i64)> {
        let branch = &self.tree().branches[queue];
        let own = &self.compiled().workloads[work].sets[set];
        let ask = &self.compiled().requests[own.want].ask;
        let named = |resource: &Name| {
            let mut groups = branch.groups.iter();
            groups.any(|group| group.resources.contains(resource))
        };
        let mut usage = Vec::new();
        for resource in &branch.groups[group].resources {
            let each = match &**resource {
                "pods" if !own.quota.contains_key(resource) => 1_000,
                DEVICES if own.quota.is_empty() => {
                    let devices = ask.devices.iter();
                    let others = devices.filter(|device| !named(&device.resource));
                    others.map(DeviceRequest::all_milli).sum()
                }
                _ => self.each(work, set, resource),
            };
            if each == 0 {
                continue;
            }
            if let Some(pair) = self.tree().pair(queue, flavor, resource) {
                usage.push((pair, each.saturating_mul(i64::from(count))));
            }
        }
        usage
    }

    /// Quota that a workload's sets use in a queue, each pair once.
    pub(crate) fn usage_of(
        &self,
        work: WorkloadId,
        queue: QueueId,
        sets: &[PodSetAllocation],
    ) -> Vec<(PairId, i64)> {
        let mut all: Vec<(PairId, i64)> = Vec::new();
        for (at, set) in sets.iter().enumerate() {
            all.extend(self.amounts(work, at, queue, &set.flavors, set.count));
        }
        all.sort_unstable();
        all.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 = kept.1.saturating_add(next.1);
            }
            same
        });
        all
    }
}
