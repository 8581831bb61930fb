//! Folds ResourceSlices, claims, templates and classes, and marks the affected nodes, pods and jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::base::{Name, ObjectKey};
use model::fleet::admission::GroupSeen;
use model::fleet::claim::{
    ClaimAsk, ClaimSeen, ClassSeen, SliceSeen, TemplateSeen, is_accelerator_driver,
};
use model::fleet::fleet::TableState;
use model::fleet::kinds::Table;
use model::fleet::object_parts::{Labels, Resources};
use model::fleet::seen::{Claimed, PodSeen, WorkloadSeen};
use model::fleet::siting::JobPodSet;

use super::Ledger;
use super::claims::{AllocatedDevice, asks_by_class, concerns, home};

impl Ledger {
    /// A pod for the join: with the devices of its claims.
    pub(super) fn with_claims(&self, seen: Arc<PodSeen>) -> Arc<PodSeen> {
        let plain = !concerns(&seen.requests) && seen.claims.is_empty();
        match plain {
            true => seen,
            false => Arc::new(self.claims.pod(&seen)),
        }
    }

    fn resolve_set(&self, namespace: &Name, set: &mut JobPodSet) {
        set.request = self.claims.resolved(namespace, &set.request);
    }

    /// A workload with its claims counted as devices; the observation itself is kept, since claims may change later.
    pub(super) fn with_claims_of_workload(
        &mut self,
        id: &(Table, ObjectKey),
        mut workload: WorkloadSeen,
    ) -> WorkloadSeen {
        if !concerns(&workload.total) && !concerns(&workload.per_pod) {
            self.claims.workloads.remove(id);
            return workload;
        }
        self.claims.workloads.insert(id.clone(), workload.clone());
        let namespace = workload.key.namespace.clone();
        workload.per_pod = self.claims.resolved(&namespace, &workload.per_pod);
        workload.total = self.claims.resolved(&namespace, &workload.total);
        let mut sets = workload.pod_sets.to_vec();
        sets.iter_mut()
            .for_each(|set| self.resolve_set(&namespace, set));
        workload.pod_sets = sets.into();
        workload
    }

    /// The same for what a queueing system keeps of a job.
    pub(super) fn with_claims_of_group(
        &mut self,
        id: &(Table, ObjectKey),
        mut group: GroupSeen,
    ) -> GroupSeen {
        if !group.pod_sets.iter().any(|set| concerns(&set.request)) {
            self.claims.groups.remove(id);
            return group;
        }
        self.claims.groups.insert(id.clone(), group.clone());
        let namespace = group.key.namespace.clone();
        let mut sets = group.pod_sets.to_vec();
        sets.iter_mut()
            .for_each(|set| self.resolve_set(&namespace, set));
        group.pod_sets = sets.into();
        group
    }

    pub(super) fn see_slice(&mut self, slice: SliceSeen) {
        self.mention_wide(Table::ResourceSlices, &slice.name);
        if self
            .claims
            .slices
            .get(&slice.name)
            .is_some_and(|old| **old == slice)
        {
            return;
        }
        self.drop_slice(&slice.name.clone());
        let pool = (slice.driver.clone(), slice.pool.clone());
        let claims = &mut self.claims;
        for published in &slice.devices {
            match home(&slice, published) {
                Some(node) => claims
                    .by_node
                    .entry(node.clone())
                    .or_default()
                    .insert(slice.name.clone()),
                None => claims.wide.insert(slice.name.clone()),
            };
        }
        claims
            .by_pool
            .entry(pool.clone())
            .or_default()
            .insert(slice.name.clone());
        claims.slices.insert(slice.name.clone(), Arc::new(slice));
        self.pool_changed(&pool);
    }

    fn drop_slice(&mut self, name: &Name) {
        let Some(old) = self.claims.slices.get(name).cloned() else {
            return;
        };
        let pool = (old.driver.clone(), old.pool.clone());
        self.pool_changed(&pool);
        let claims = &mut self.claims;
        claims.slices.remove(name);
        claims.wide.remove(name);
        let homes: BTreeSet<&Name> = old
            .devices
            .iter()
            .filter_map(|published| home(&old, published))
            .collect();
        for node in homes {
            if let Some(slices) = claims.by_node.get_mut(node) {
                slices.remove(name);
                if slices.is_empty() {
                    claims.by_node.remove(node);
                }
            }
        }
        if let Some(slices) = claims.by_pool.get_mut(&pool) {
            slices.remove(name);
            if slices.is_empty() {
                claims.by_pool.remove(&pool);
            }
        }
    }

    /// The slices of a pool changed: every node of the pool is joined again.
    fn pool_changed(&mut self, pool: &(Name, Name)) {
        let claims = &mut self.claims;
        claims.slices_changed = true;
        let mut wide = false;
        for name in claims.by_pool.get(pool).into_iter().flatten() {
            let Some(slice) = claims.slices.get(name) else {
                continue;
            };
            wide |= claims.wide.contains(name);
            let homes = slice
                .devices
                .iter()
                .filter_map(|published| home(slice, published));
            self.dirty_nodes
                .extend(homes.filter(|node| self.nodes.contains_key(*node)).cloned());
        }
        claims.wide_changed |= wide;
    }

    pub(super) fn see_claim(&mut self, claim: ClaimSeen) {
        self.mention(Table::ResourceClaims, &claim.key);
        let key = claim.key.clone();
        let old = self.claims.claims.get(&key).cloned();
        if old.as_deref() == Some(&claim) {
            return;
        }
        let mut users: BTreeSet<Name> = claim.pods.iter().cloned().collect();
        for uid in &users {
            self.claims
                .by_user
                .entry(uid.clone())
                .or_default()
                .insert(key.clone());
        }
        for uid in old.iter().flat_map(|old| old.pods.iter()) {
            if users.insert(uid.clone()) {
                self.unlink_user(uid, &key);
            }
        }
        self.claims.claims.insert(key.clone(), Arc::new(claim));
        self.claim_changed(&key, users);
    }

    fn unlink_user(&mut self, uid: &Name, key: &ObjectKey) {
        if let Some(keys) = self.claims.by_user.get_mut(uid) {
            keys.remove(key);
            if keys.is_empty() {
                self.claims.by_user.remove(uid);
            }
        }
    }

    fn claim_changed(&mut self, key: &ObjectKey, users: BTreeSet<Name>) {
        let mut pods: BTreeSet<ObjectKey> = self
            .claims
            .pods
            .get(&(key.clone(), false))
            .cloned()
            .unwrap_or_default();
        pods.extend(
            users
                .iter()
                .filter_map(|uid| self.claims.uids.get(uid))
                .cloned(),
        );
        for pod in pods {
            self.rejoin_pod(&pod);
        }
        self.resee(
            |ask| *ask == ClaimAsk::Claim(key.name.clone()),
            Some(&key.namespace),
        );
        self.claims.nodes_changed();
    }

    pub(super) fn see_template(&mut self, template: TemplateSeen) {
        self.mention(Table::ResourceClaimTemplates, &template.key);
        let key = template.key.clone();
        if self
            .claims
            .templates
            .get(&key)
            .is_some_and(|old| **old == template)
        {
            return;
        }
        self.claims
            .templates
            .insert(key.clone(), Arc::new(template));
        self.template_changed(&key);
    }

    fn template_changed(&mut self, key: &ObjectKey) {
        let pods = self.claims.pods.get(&(key.clone(), true)).cloned();
        for pod in pods.into_iter().flatten() {
            self.rejoin_pod(&pod);
        }
        self.resee(
            |ask| *ask == ClaimAsk::Template(key.name.clone()),
            Some(&key.namespace),
        );
    }

    pub(super) fn see_device_class(&mut self, class: ClassSeen) {
        self.mention_wide(Table::DeviceClasses, &class.name);
        if self
            .claims
            .classes
            .get(&class.name)
            .is_some_and(|old| **old == class)
        {
            return;
        }
        self.claims
            .classes
            .insert(class.name.clone(), Arc::new(class));
        self.classes_changed();
    }

    fn classes_changed(&mut self) {
        self.claims.slices_changed = true;
        let nodes = self
            .claims
            .by_node
            .keys()
            .filter(|node| self.nodes.contains_key(*node));
        self.dirty_nodes.extend(nodes.cloned());
        self.rejoin_askers();
    }

    /// Joins every pod and workload with claims again.
    fn rejoin_askers(&mut self) {
        let pods: Vec<ObjectKey> = self.claims.uids.values().cloned().collect();
        for pod in pods {
            self.rejoin_pod(&pod);
        }
        self.resee(|_| true, None);
    }

    /// Joins workloads and groups with a matching claim again.
    fn resee(&mut self, wanted: impl Fn(&ClaimAsk) -> bool, namespace: Option<&Name>) {
        let here = |key: &ObjectKey| namespace.is_none_or(|namespace| key.namespace == *namespace);
        let asks = |resources: &Resources| {
            resources.claims.iter().any(|(ask, _)| wanted(ask))
                || (namespace.is_none() && asks_by_class(resources))
        };
        let workloads: Vec<WorkloadSeen> = self
            .claims
            .workloads
            .values()
            .filter(|workload| {
                here(&workload.key) && (asks(&workload.total) || asks(&workload.per_pod))
            })
            .cloned()
            .collect();
        let groups: Vec<GroupSeen> = self
            .claims
            .groups
            .values()
            .filter(|group| here(&group.key) && group.pod_sets.iter().any(|set| asks(&set.request)))
            .cloned()
            .collect();
        for workload in workloads {
            self.fold_workload(workload);
        }
        for group in groups {
            self.fold_group(group);
        }
    }

    pub(super) fn forget_claims(&mut self, table: Table, key: &ObjectKey) {
        match table {
            Table::ResourceSlices => self.drop_slice(&key.name),
            Table::ResourceClaims => {
                if let Some(old) = self.claims.claims.remove(key) {
                    let users: BTreeSet<Name> = old.pods.iter().cloned().collect();
                    for uid in &users {
                        self.unlink_user(uid, key);
                    }
                    self.claim_changed(key, users);
                }
            }
            Table::DeviceClasses => {
                if self.claims.classes.remove(&key.name).is_some() {
                    self.classes_changed();
                }
            }
            _ => {
                if self.claims.templates.remove(key).is_some() {
                    self.template_changed(key);
                }
            }
        }
    }

    /// True when slices are withheld from us and none was ever seen.
    pub(super) fn slices_are_withheld(&self) -> bool {
        let known = self.known.get(&Table::ResourceSlices);
        matches!(known, Some(TableState::Lost(_) | TableState::NotVisible(_)))
            && self.claims.slices.is_empty()
    }

    /// Updates what depends on all slices together, before anything is built.
    pub(super) fn settle_claims(&mut self) {
        if std::mem::take(&mut self.claims.slices_changed) {
            let mut most: BTreeMap<Name, u32> = BTreeMap::new();
            for pool in self.claims.by_pool.keys() {
                let mut sums: BTreeMap<Name, u32> = BTreeMap::new();
                let published = self
                    .claims
                    .current(pool)
                    .flat_map(|slice| slice.devices.iter());
                for one in published.filter(|_| is_accelerator_driver(&pool.0)) {
                    *sums
                        .entry(self.claims.resource(&pool.0, one.part))
                        .or_default() += 1;
                }
                for (resource, count) in sums {
                    let known = most.entry(resource).or_default();
                    *known = count.max(*known);
                }
            }
            if most != self.claims.most {
                self.claims.most = most;
                self.rejoin_askers();
            }
        }
        if std::mem::take(&mut self.claims.wide_changed) {
            let nodes: Vec<(&Name, &Labels)> = self
                .nodes
                .iter()
                .filter_map(|(name, state)| Some((name, &state.seen.as_ref()?.labels)))
                .collect();
            let mut holders: BTreeMap<AllocatedDevice<'_>, &Name> = BTreeMap::new();
            for pod in self
                .claims
                .uids
                .values()
                .filter_map(|key| self.joined.get(key))
            {
                let Some(node) = pod.seen.node.as_ref().filter(|_| pod.holds_devices()) else {
                    continue;
                };
                for claimed in &pod.seen.claimed {
                    if let Claimed::Claim(driver, pool, device) = claimed {
                        holders.insert((driver, pool, device), node);
                    }
                }
            }
            let mut spread = self.claims.spread(&nodes, &holders);
            for (name, state) in &mut self.nodes {
                let wide = spread.remove(name).unwrap_or_default();
                if wide != state.wide {
                    state.wide = wide;
                    self.dirty_nodes.insert(name.clone());
                }
            }
        }
    }
}
