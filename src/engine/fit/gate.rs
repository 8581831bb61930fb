//! Gates: which node zones pods may use by labels, affinity and taints, computed once for equal pods.

use std::sync::Arc;

use crate::compiled::{CompiledFleet, FlavorId};
use crate::snapshot::{CORDON, SnapshotTaint, SnapshotToleration, TaintEffect};
use crate::state::{Gate, State};

use super::Relaxation;

/// The first taint that excludes pods. Cordons are handled separately.
pub(super) fn kept_out<'t>(
    taints: &'t [SnapshotTaint],
    tolerations: &[&[SnapshotToleration]],
) -> Option<&'t SnapshotTaint> {
    let covered = |taint: &SnapshotTaint| {
        let mut all = tolerations.iter().copied().flatten();
        all.any(|toleration| toleration.covers(taint))
    };
    taints.iter().find(|taint| {
        taint.effect != TaintEffect::PreferNoSchedule && &*taint.key != CORDON && !covered(taint)
    })
}

impl State<'_> {
    /// Per zone: whether pods of a constraint may use it with these flavors.
    pub(crate) fn gate(
        &mut self,
        constraint: usize,
        flavors: &[FlavorId],
        relaxation: &Relaxation,
    ) -> Arc<Gate> {
        let key = (
            constraint,
            flavors.to_vec(),
            relaxation.no_labels,
            relaxation.no_taints,
            relaxation.tolerate.clone(),
        );
        if let Some(gate) = self.gates.get(&key) {
            return gate;
        }
        let compiled = self.compiled();
        let zones = 0..compiled.zones.len();
        let zones = zones.map(|zone| opens(compiled, zone, constraint, flavors, relaxation));
        let zones = zones.collect();
        self.gates.add(key, zones)
    }
}

fn opens(
    compiled: &CompiledFleet,
    zone: usize,
    constraint: usize,
    flavors: &[FlavorId],
    relaxation: &Relaxation,
) -> bool {
    let node = &compiled.snapshot.nodes[compiled.zones[zone]];
    let constraint = &compiled.constraints[constraint];
    let carried = |(key, value)| node.labels.get(key) == Some(value);
    let flavors = || {
        flavors
            .iter()
            .map(|flavor| &compiled.snapshot.flavors[*flavor])
    };
    let own = relaxation.no_labels
        || constraint.selector.iter().all(carried)
            && (constraint.affinity.is_empty()
                || constraint.affinity.iter().any(|term| {
                    !term.is_empty() && term.iter().all(|need| need.is_met(&node.labels))
                }));
    let mut tolerations: Vec<&[SnapshotToleration]> =
        vec![&constraint.tolerations, &relaxation.tolerate];
    tolerations.extend(flavors().map(|flavor| &flavor.tolerations[..]));
    own && flavors().all(|flavor| flavor.labels.iter().all(carried))
        && (relaxation.no_taints || kept_out(&node.taints, &tolerations).is_none())
}
