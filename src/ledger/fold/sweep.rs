//! Lists of a table, from their first object to their last: an object missing from a complete list was deleted.

use model::base::{Name, ObjectKey};
use model::fleet::fleet::TableState;
use model::fleet::kinds::Table;

use super::Ledger;

/// The key of an object that is in no namespace.
pub(super) fn wide(name: &Name) -> ObjectKey {
    ObjectKey::new("", name.clone())
}

impl Ledger {
    pub(super) fn mention(&mut self, table: Table, key: &ObjectKey) {
        if let Some(sweep) = self.sweeps.get_mut(&table) {
            sweep.insert(key.clone());
        }
    }

    pub(super) fn mention_wide(&mut self, table: Table, name: &Name) {
        if self.sweeps.contains_key(&table) {
            self.mention(table, &wide(name));
        }
    }

    pub(super) fn keys_of(&self, table: Table) -> Vec<ObjectKey> {
        match table {
            Table::Nodes => self
                .nodes
                .iter()
                .filter(|(_, state)| state.seen.is_some())
                .map(|(name, _)| wide(name))
                .collect(),
            Table::Pods => self.pods.keys().cloned().collect(),
            Table::Namespaces => self.namespaces.keys().map(wide).collect(),
            table if table.holds_groups() => self.groups.keys_of(table),
            table if table.holds_claims() => self.claims.keys_of(table),
            table if table.holds_scaling() => self.scaling.keys_of(table),
            table if !table.holds_jobs() => self.tables.keys_of(table),
            _ => self
                .workloads
                .keys()
                .filter(|(of, _)| *of == table)
                .map(|(_, key)| key.clone())
                .collect(),
        }
    }

    pub(super) fn finish_list(&mut self, table: Table) {
        if let Some(mentioned) = self.sweeps.remove(&table) {
            for key in self.keys_of(table) {
                if !mentioned.contains(&key) {
                    self.forget(table, &key);
                }
            }
        }
        self.listed.insert(table);
        self.set_known(table, TableState::Live);
    }

    pub(super) fn clear(&mut self, table: Table) {
        for key in self.keys_of(table) {
            self.forget(table, &key);
        }
    }
}
