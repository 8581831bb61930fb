//! Pictures of a simulated cluster, for tests whose clock stands still.

use std::collections::HashMap;
use std::sync::Arc;

use cluster::seen;
use ledger::Ledger;
use model::base::Names;
use model::fleet::Fleet;
use model::fleet::observe::{Observation, Table};
use model::fleet::policy::Policy;
use serde_json::Value;
use sim::SimCluster;
use sim::change::Resource;
use sim::specs::SPECS;
use sim::store::ListOptions;

/// Pictures of a simulated cluster as a console sees it that has read every object. An object that has not changed since the last
/// picture is not read again.
#[derive(Default)]
pub struct Pictures {
    names: Names,
    /// What was read of the objects of the last picture, by their address, which is no other's while they are held here.
    known: HashMap<usize, (Arc<Value>, Option<Observation>)>,
}

impl Pictures {
    /// The fleet at this moment.
    pub fn take(&mut self, cluster: &SimCluster, policy: Arc<Policy>) -> Fleet {
        let mut ledger = Ledger::new(policy);
        let mut known = HashMap::with_capacity(self.known.len());
        let core = cluster.core();
        for table in Table::ALL {
            ledger.apply(Observation::Begin(*table));
        }
        for spec in SPECS {
            let queues = (spec.resource == Resource::ConfigMaps).then_some(Table::GovernQueues);
            let table = spec.table.filter(|table| !table.holds_scaling());
            let Some(table) = table.or(queues) else {
                continue;
            };
            let all = core
                .store
                .list(spec.resource, &ListOptions::default(), &|_| true);
            for object in all.map(|page| page.items).unwrap_or_default() {
                // Of the ConfigMaps only the one with the queues of `govern`.
                let name = object.pointer("/metadata/name");
                if queues.is_some() && name.is_none_or(|name| name != "stokehold-queues") {
                    continue;
                }
                let address = Arc::as_ptr(&object).addr();
                let read = match self.known.remove(&address) {
                    Some((_, read)) => read,
                    None => seen(table, &object, &mut self.names),
                };
                if let Some(observation) = &read {
                    ledger.apply(observation.clone());
                }
                known.insert(address, (object, read));
            }
        }
        self.known = known;
        for table in Table::ALL {
            ledger.apply(Observation::End(*table));
        }
        let now = core.world.now();
        drop(core);
        ledger.publish(now)
    }
}
