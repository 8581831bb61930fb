//! What a one-shot command (`get`, `explain`, `plan`) reads before it prints: tables of Kubernetes objects, and exporters. The command
//! prints no value from a source that it did not read.

use std::collections::BTreeSet;

use model::base::Name;
use model::fleet::Fleet;
use model::fleet::node::Node;
use model::fleet::observe::Table;

use crate::kind::{Exporters, GetRequest};
use crate::{Format, Kind, Query};

/// What a command must read for one snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Needs {
    pub tables: &'static [Table],
    /// Nodes whose exporters are read.
    pub readings: NeededReadings,
    /// Whether queue positions of pending work are read, where Kueue reports them.
    pub queue_positions: bool,
}

/// Which nodes' exporters are read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NeededReadings {
    /// Only nodes whose Kubernetes objects do not name their device model. All other values are known without an exporter.
    DevicesUnknown,
    /// The nodes of `DevicesUnknown`, and nodes with sliced devices (MIG, time-slicing): the cost of a slice depends on the other slices of
    /// its device, and exporters report these best.
    Priced,
    /// The nodes of `DevicesUnknown`, and the nodes that the query's rows are about.
    Of(Box<Query>),
    All,
}

/// Tables that nodes and their devices are built from.
const NODES: &[Table] = &[
    Table::Nodes,
    Table::Pods,
    Table::ResourceSlices,
    Table::ResourceClaims,
    Table::ResourceClaimTemplates,
    Table::DeviceClasses,
];

impl Needs {
    /// Everything: for views and checks of the whole fleet.
    pub const fn everything() -> Self {
        Self {
            tables: Table::ALL,
            readings: NeededReadings::All,
            queue_positions: true,
        }
    }

    /// What the engine needs to decide: every table, and exporters only of nodes whose objects do not name their device model.
    pub const fn decision() -> Self {
        Self {
            tables: Table::ALL,
            readings: NeededReadings::DevicesUnknown,
            queue_positions: true,
        }
    }

    /// True when the answer uses state saved in a record: runtimes of past jobs, start times of findings.
    pub fn uses_record(&self) -> bool {
        self.queue_positions || self.readings == NeededReadings::All
    }

    /// The inputs of a query's rows in this format.
    pub fn of(query: &Query, format: Format) -> Self {
        let asked = GetRequest {
            format,
            is_named: !query.names.is_empty(),
            uses_readings: query.asks_readings(),
        };
        let readings = match (query.kind.output().exporters)(&asked) {
            Exporters::DevicesUnknown => NeededReadings::DevicesUnknown,
            Exporters::Priced => NeededReadings::Priced,
            Exporters::OfRows => NeededReadings::Of(Box::new(query.clone())),
            Exporters::All => NeededReadings::All,
        };
        Self {
            tables: match query.kind {
                // With a scope every table is read: the team of a pod may follow from its controller.
                Kind::Nodes if query.scope.is_all() => NODES,
                _ => Table::ALL,
            },
            readings,
            queue_positions: query.kind == Kind::Fleet,
        }
    }

    /// The nodes whose exporters are read, once the tables are listed; `None` for all.
    pub fn nodes(&self, fleet: &Fleet) -> Option<BTreeSet<Name>> {
        let query = match &self.readings {
            NeededReadings::All => return None,
            NeededReadings::DevicesUnknown | NeededReadings::Priced => None,
            NeededReadings::Of(query) => Some(&**query),
        };
        let priced = self.readings == NeededReadings::Priced;
        let nodes = fleet.nodes.iter();
        let mut found: BTreeSet<Name> = nodes
            .filter(|node| is_unnamed(node) || (priced && is_sliced(node)))
            .map(|node| node.name().clone())
            .collect();
        if let Some(query) = query {
            found.extend(nodes_of_query(query, fleet)?);
        }
        Some(found)
    }
}

/// True when only an exporter can name the device models of the node.
fn is_unnamed(node: &Node) -> bool {
    node.withheld || node.devices.iter().any(|device| device.model.is_empty())
}

/// True when a device of the node is sliced.
fn is_sliced(node: &Node) -> bool {
    node.devices.iter().any(|device| !device.slices.is_empty())
}

/// The nodes that the query's rows are about; `None` when the query does not tell which: then every exporter is read.
fn nodes_of_query(query: &Query, fleet: &Fleet) -> Option<Vec<Name>> {
    // Resolve each of several names alone; where one is unresolved, all nodes are read.
    if query.names.len() > 1 {
        let one = |name: &String| {
            let names = vec![name.clone()];
            nodes_of_query(
                &Query {
                    names,
                    ..query.clone()
                },
                fleet,
            )
        };
        let all: Option<Vec<Vec<Name>>> = query.names.iter().map(one).collect();
        return all.map(|all| all.concat());
    }
    let name = query.names.first().map(String::as_str);
    let nodes_where = |wanted: &dyn Fn(&Node) -> bool| {
        let nodes = fleet.nodes.iter().filter(|node| wanted(node));
        nodes.map(|node| node.name().clone()).collect()
    };
    match query.kind {
        Kind::Jobs => {
            let jobs = fleet.jobs.iter().filter(|job| {
                let (namespace, own) = (job.namespace(), job.name());
                let named = name.is_none_or(|name| {
                    // `NAME`, `NAMESPACE/NAME`, `NAMESPACE/NAME (KIND)`.
                    let name = name.split(" (").next().unwrap_or(name);
                    name == &**own || name == format!("{namespace}/{own}")
                });
                named && query.scope.has_job(job)
            });
            let pods = jobs.flat_map(|job| job.pods.iter());
            Some(pods.filter_map(|pod| pod.seen.node.clone()).collect())
        }
        Kind::Pools => Some(nodes_where(&|node| {
            name.is_none_or(|name| node.pool.as_str() == name)
        })),
        // A device is found by its node or by `NODE/gpu3`; a UUID does not identify the node.
        Kind::Nodes | Kind::Devices => {
            let node = name?.split('/').next().unwrap_or_default();
            let known = fleet.node(node).is_some() || query.kind == Kind::Nodes;
            known.then(|| nodes_where(&|other| other.name().as_str() == node))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::facts;

    /// A fleet in which every node says what devices it has.
    fn fleet() -> Fleet {
        let mut fleet = (*facts().fleet).clone();
        let mut nodes = fleet.nodes.to_vec();
        for node in &mut nodes {
            for device in &mut std::sync::Arc::make_mut(node).devices {
                device.model = Name::new("NVIDIA H100 80GB HBM3");
            }
        }
        fleet.nodes = nodes.into();
        fleet
    }

    fn requested_nodes(kind: Kind, name: Option<&str>, format: Format) -> Option<BTreeSet<Name>> {
        let query = Query {
            names: name.map(str::to_owned).into_iter().collect(),
            ..Query::all(kind)
        };
        Needs::of(&query, format).nodes(&fleet())
    }

    fn names(nodes: &[&str]) -> Option<BTreeSet<Name>> {
        Some(nodes.iter().map(|name| Name::new(name)).collect())
    }

    #[test]
    fn a_command_that_prints_no_reading_scrapes_no_exporter() {
        let fleet = fleet();
        let first = fleet.nodes[0].name();
        // Slice costs need the exporter of the node.
        let cut = |node: &&std::sync::Arc<Node>| is_sliced(node);
        let sliced = fleet
            .nodes
            .iter()
            .filter(cut)
            .map(|node| node.name().clone());
        let sliced: BTreeSet<Name> = sliced.collect();
        assert_eq!(sliced.len(), 1);
        assert_eq!(
            requested_nodes(Kind::Queues, None, Format::Json),
            Some(sliced.clone())
        );
        assert_eq!(
            requested_nodes(Kind::Jobs, None, Format::Table),
            Some(sliced)
        );
        assert_eq!(
            requested_nodes(Kind::Nodes, None, Format::Table),
            names(&[])
        );
        assert_eq!(requested_nodes(Kind::Nodes, None, Format::Wide), None);
        assert_eq!(
            requested_nodes(Kind::Nodes, Some(first), Format::Wide),
            names(&[first])
        );
        assert_eq!(
            requested_nodes(Kind::Nodes, Some("nope"), Format::Wide),
            names(&[])
        );
        let device = format!("{first}/gpu0");
        assert_eq!(
            requested_nodes(Kind::Devices, Some(&device), Format::Json),
            names(&[first])
        );
        assert_eq!(
            requested_nodes(Kind::Devices, Some("GPU-1"), Format::Json),
            None
        );
        let pool = &fleet.nodes[0].pool;
        let of_pool = requested_nodes(Kind::Pools, Some(pool), Format::Json).expect("not all");
        assert!(
            of_pool.contains(first) && of_pool.len() < fleet.nodes.len(),
            "{of_pool:?}"
        );
        for job in fleet.jobs.iter() {
            let full = format!("{}/{}", job.namespace(), job.name());
            let on: BTreeSet<Name> = job
                .pods
                .iter()
                .filter_map(|pod| pod.seen.node.clone())
                .collect();
            let found = requested_nodes(Kind::Jobs, Some(&full), Format::Json).expect("not all");
            assert!(found.is_superset(&on), "{full}: {found:?}");
        }
        assert_eq!(Needs::decision().nodes(&fleet), names(&[]));
        assert_eq!(Needs::everything().nodes(&fleet), None);
    }

    #[test]
    fn a_node_that_does_not_say_what_devices_it_has_is_read() {
        let mut fleet = fleet();
        let mut nodes = fleet.nodes.to_vec();
        let node = std::sync::Arc::make_mut(&mut nodes[0]);
        node.devices[0].model = Name::default();
        let name = node.name().clone();
        fleet.nodes = nodes.into();
        assert_eq!(Needs::decision().nodes(&fleet), Some([name].into()));
    }
}
