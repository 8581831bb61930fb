//! Gates: which zones of nodes are open to pods. A gate is computed once for all pods with the same constraints and tolerations.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::compiled::FlavorId;
use crate::snapshot::SnapshotToleration;

/// Constraint, flavors, labels ignored, taints ignored, additional tolerations.
pub(crate) type GateKey = (usize, Vec<FlavorId>, bool, bool, Vec<SnapshotToleration>);

/// The gates that were computed, by their key.
#[derive(Clone, Default, Debug)]
pub(crate) struct Gates {
    by_key: BTreeMap<GateKey, Arc<Gate>>,
}

/// For each zone, whether it is open to pods.
#[derive(Debug)]
pub(crate) struct Gate {
    /// Number of the gate; gates with the same number are equal.
    pub(crate) id: u32,
    zones: Box<[bool]>,
}

impl std::ops::Index<usize> for Gate {
    type Output = bool;

    fn index(&self, zone: usize) -> &bool {
        &self.zones[zone]
    }
}

impl Gates {
    /// The gate that was added for this key.
    pub(crate) fn get(&self, key: &GateKey) -> Option<Arc<Gate>> {
        self.by_key.get(key).cloned()
    }

    /// Adds a gate; `zones` says for each zone whether it is open.
    pub(crate) fn add(&mut self, key: GateKey, zones: Box<[bool]>) -> Arc<Gate> {
        let id = self.by_key.len() as u32;
        let gate = Arc::new(Gate { id, zones });
        self.by_key.insert(key, gate.clone());
        gate
    }
}
