//! Pages of readings: which node each belongs to, and pages without a node so far.

use std::collections::BTreeMap;

use model::base::Name;
use model::fleet::idle::IdleBefore;
use model::fleet::reading::{Page, Reading, ReadingScope};
use model::fleet::seen::NodeSeen;

use super::Ledger;

/// Maximum number of unmatched hosts; more are a mistake or an attack.
const MOST_UNMATCHED: usize = 4096;

/// Maximum number of exporters per host, far more than a node has.
const MOST_PAGES: usize = 8;

impl Ledger {
    pub(super) fn read_page(&mut self, page: Page) {
        self.read_servers(&page);
        if let Some(node) = page.node.clone() {
            let listed = self
                .nodes
                .get(&node)
                .is_some_and(|state| state.seen.is_some());
            if listed || self.unseen_node(&node).as_ref() == Some(&node) {
                self.take_page(&node, &page);
            } else {
                self.keep_unmatched(node, page);
            }
            return;
        }
        // No pod identifies the node: match the rows' own hosts, where possible.
        let mut by_host: BTreeMap<Option<Name>, Vec<Reading>> = BTreeMap::new();
        for reading in page.readings {
            by_host
                .entry(reading.host.clone())
                .or_default()
                .push(reading);
        }
        for (host, readings) in by_host {
            let part = Page {
                node: None,
                at: page.at,
                interval: page.interval,
                readings,
            };
            let Some(host) = host else {
                // The hosts do not match either: use the node of the pods that the rows name.
                if let Some(node) = self.node_of_holders(&part.readings) {
                    self.take_page(&node, &part);
                }
                continue;
            };
            match self.node_of_host(&host) {
                Some(node) => self.take_page(&node, &part),
                None => self.keep_unmatched(host, part),
            }
        }
    }

    /// The known devices that a page has readings for.
    pub fn devices_of<'p>(&self, page: &'p Page) -> Vec<(Name, &'p Reading)> {
        let of_host = |host: &Name| self.node_of_host(host);
        let mut all = Vec::new();
        for reading in page
            .readings
            .iter()
            .filter(|reading| reading.scope == ReadingScope::Device)
        {
            let node = page
                .node
                .clone()
                .or_else(|| of_host(reading.host.as_ref()?));
            let Some(state) = node.and_then(|node| self.nodes.get(&node)) else {
                continue;
            };
            let slot = state.readings.known_slot(reading);
            let built = state.built.iter().flat_map(|node| node.devices.iter());
            if let Some(device) = built.into_iter().find(|device| Some(device.index) == slot) {
                all.push((device.id.clone(), reading));
            }
        }
        all
    }

    /// Stores the last page of each exporter of a host that matches no node yet. Bounded, since a page can name any host.
    fn keep_unmatched(&mut self, host: Name, page: Page) {
        // Readings of model servers belong to their pods and were processed already.
        let mut rows = page.readings.iter();
        let Some(first) = rows.find(|row| row.scope != ReadingScope::Serving) else {
            return;
        };
        let full = self.unmatched_pages.len() >= MOST_UNMATCHED;
        if full && !self.unmatched_pages.contains_key(&host) {
            return;
        }
        let pages = self.unmatched_pages.entry(host).or_default();
        pages.retain(|old| !old.readings.iter().any(|row| is_same_row(row, first)));
        if pages.len() >= MOST_PAGES {
            pages.remove(0);
        }
        pages.push(page);
    }

    pub(super) fn match_pages(&mut self) {
        for host in self.unmatched_pages.keys().cloned().collect::<Vec<_>>() {
            if let Some(node) = self.node_of_host(&host)
                && let Some(pages) = self.unmatched_pages.remove(&host)
            {
                for page in &pages {
                    self.take_page(&node, page);
                }
            }
        }
    }

    fn take_page(&mut self, node: &Name, page: &Page) {
        let state = self.nodes.entry(node.clone()).or_default();
        state.readings.take(page.at, page.interval, &page.readings);
        self.read_nodes.insert(node.clone());
    }

    /// The node for `host`: by name, by the first part of its name, or by the tail of its provider id (`aws:///us-east-1c/i-0abc`).
    fn node_of_host(&self, host: &Name) -> Option<Name> {
        if self
            .nodes
            .get(host)
            .is_some_and(|state| state.seen.is_some())
        {
            return Some(host.clone());
        }
        let seen = self.nodes.values().filter_map(|state| state.seen.as_ref());
        let mut found = seen
            .filter(|node| is_called(node, host))
            .map(|node| node.name.clone());
        match (found.next(), found.next()) {
            (Some(only), None) => Some(only),
            _ => self.unseen_node(host),
        }
    }

    /// Devices that are idle for longer than their own readings say. One that is idle no more stays so.
    pub(super) fn see_idle_before(&mut self, all: &[IdleBefore]) {
        for IdleBefore { node, device, idle } in all {
            let known = self.nodes.get_mut(node);
            let known = known.and_then(|state| state.readings.devices.get_mut(device));
            let Some(known) = known else { continue };
            if known.idle_since.is_some_and(|own| idle.since <= own) {
                known.idle_since = Some(idle.since);
                known.idle_first_seen = idle.at_least;
                self.dirty_nodes.insert(node.clone());
            }
        }
    }
}

/// True when two rows describe the same thing in the same dialect, so that their pages come from one exporter.
fn is_same_row(one: &Reading, other: &Reading) -> bool {
    (&one.dialect, one.scope, one.index) == (&other.dialect, other.scope, other.index)
        && (&one.uuid, &one.pci, &one.slice) == (&other.uuid, &other.pci, &other.slice)
}

fn is_called(node: &NodeSeen, host: &str) -> bool {
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    let by_provider = node
        .provider_id
        .as_ref()
        .and_then(|id| id.rsplit('/').next())
        .is_some_and(|tail| tail == host);
    by_provider || short(&node.name) == short(host)
}
