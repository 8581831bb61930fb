//! Gates: which zones of nodes are open to pods, kept for all pods that ask the same.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::compiled::FlavorId;
use crate::snapshot::Toleration;

/// Constraint, flavors, labels ignored, taints ignored, additional tolerations.
pub(crate) type GateKey = (usize, Vec<FlavorId>, bool, bool, Vec<Toleration>);

/// Zones by constraint and flavors.
#[derive(Clone, Default, Debug)]
pub(crate) struct Gates {
    known: BTreeMap<GateKey, Arc<Gate>>,
}

/// Which zones are open to pods.
#[derive(Debug)]
pub(crate) struct Gate {
    /// Its number; gates with the same number are equal.
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
    /// The gate that was made before for the same key.
    pub(crate) fn get(&self, key: &GateKey) -> Option<Arc<Gate>> {
        self.known.get(key).cloned()
    }

    /// Adds a gate; `zones` states for each zone whether it is open.
    pub(crate) fn add(&mut self, key: GateKey, zones: Box<[bool]>) -> Arc<Gate> {
        let id = self.known.len() as u32;
        let gate = Arc::new(Gate { id, zones });
        self.known.insert(key, gate.clone());
        gate
    }
}
