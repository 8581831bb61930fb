//! What an answer is made of: the tables and the readings that one look waits for. What is not waited for is not printed.

use std::collections::BTreeSet;

use model::base::Name;
use model::fleet::Fleet;
use model::fleet::node::Node;
use model::fleet::observe::Table;

use super::{Format, Kind, Query};

/// What one look waits for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Needs {
    /// The tables that are listed.
    pub tables: &'static [Table],
    /// Whose readings are asked for.
    pub readings: Readings,
    /// The places of pending work in its queues, where Kueue tells them.
    pub places: bool,
}

/// Whose readings are asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Readings {
    /// Those of nodes whose objects do not say what devices they have. All else is known without.
    Unnamed,
    /// Those, and of nodes with sliced devices: what a slice costs hangs on the others of its device, which exporters know best.
    Priced,
    /// Those of the first, and of the nodes that the rows of a query are about.
    Of(Box<Query>),
    /// All.
    All,
}

/// What nodes and their devices are made of.
const NODES: &[Table] = &[
    Table::Nodes,
    Table::Pods,
    Table::ResourceSlices,
    Table::ResourceClaims,
    Table::ResourceClaimTemplates,
    Table::DeviceClasses,
];

impl Needs {
    /// A whole picture: for views and checks of everything.
    pub const fn everything() -> Self {
        Self {
            tables: Table::ALL,
            readings: Readings::All,
            places: true,
        }
    }

    /// What the engine decides by: the objects of the cluster, as the scheduler sees them, and no reading.
    pub const fn decision() -> Self {
        Self {
            tables: Table::ALL,
            readings: Readings::Unnamed,
            places: true,
        }
    }

    /// What the rows of a query are made of in this format.
    pub fn of(query: &Query, format: Format) -> Self {
        let readings = match query.kind {
            // Names alone are known without.
            Kind::Pools | Kind::Nodes | Kind::Devices | Kind::Jobs | Kind::Pods
                if format == Format::Name && query.names.is_empty() && !query.asks_readings() =>
            {
                Readings::Unnamed
            }
            Kind::Scalers => Readings::Unnamed,
            // Money alone: what a device costs hangs on its class.
            Kind::Queues => Readings::Priced,
            // What exporters say is in columns of the wide table.
            Kind::Jobs if format == Format::Table && !query.asks_readings() => Readings::Priced,
            Kind::Nodes if format == Format::Table && !query.asks_readings() => Readings::Unnamed,
            Kind::Jobs => Readings::Of(Box::new(query.clone())),
            Kind::Nodes | Kind::Devices | Kind::Pools if !query.names.is_empty() => {
                Readings::Of(Box::new(query.clone()))
            }
            Kind::Pools
            | Kind::Nodes
            | Kind::Pods
            | Kind::Services
            | Kind::Devices
            | Kind::Cost
            | Kind::Alerts
            | Kind::Advice
            | Kind::Sources
            | Kind::Fleet => Readings::All,
        };
        Self {
            tables: match query.kind {
                // Whose a pod is, its controllers may say.
                Kind::Nodes if query.scope.is_all() => NODES,
                _ => Table::ALL,
            },
            readings,
            places: query.kind == Kind::Fleet,
        }
    }

    /// The nodes whose exporters are asked, once the tables are listed; `None` is all exporters.
    pub fn nodes(&self, fleet: &Fleet) -> Option<BTreeSet<Name>> {
        let query = match &self.readings {
            Readings::All => return None,
            Readings::Unnamed | Readings::Priced => None,
            Readings::Of(query) => Some(&**query),
        };
        let priced = self.readings == Readings::Priced;
        let nodes = fleet.nodes.iter();
        let mut found: BTreeSet<Name> = nodes
            .filter(|node| is_unnamed(node) || (priced && is_sliced(node)))
            .map(|node| node.name().clone())
            .collect();
        if let Some(query) = query {
            found.extend(asked_of(query, fleet)?);
        }
        Some(found)
    }
}

/// True when only readings can say what devices a node has.
fn is_unnamed(node: &Node) -> bool {
    node.withheld || node.devices.iter().any(|device| device.model.is_empty())
}

/// True when a device of it is handed out in slices.
fn is_sliced(node: &Node) -> bool {
    node.devices.iter().any(|device| !device.slices.is_empty())
}

/// The nodes that the rows of a query are about; `None` where its name does not tell.
fn asked_of(query: &Query, fleet: &Fleet) -> Option<Vec<Name>> {
    // Of several names each tells its own; where one does not, all are asked.
    if query.names.len() > 1 {
        let one = |name: &String| {
            let names = vec![name.clone()];
            asked_of(
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
    let own = |wanted: &dyn Fn(&Node) -> bool| {
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
        Kind::Pools => Some(own(&|node| {
            name.is_none_or(|name| node.pool.as_str() == name)
        })),
        // A device by its node, by `NODE/gpu3`; a UUID may be anybody's.
        Kind::Nodes | Kind::Devices => {
            let node = name?.split('/').next().unwrap_or_default();
            let known = fleet.node(node).is_some() || query.kind == Kind::Nodes;
            known.then(|| own(&|other| other.name().as_str() == node))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::facts;

    /// A fleet of which every node says what devices it has.
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

    fn asked(kind: Kind, name: Option<&str>, format: Format) -> Option<BTreeSet<Name>> {
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
    fn what_prints_no_reading_asks_for_none() {
        let fleet = fleet();
        let first = fleet.nodes[0].name();
        // (What a slice costs, the exporter of its node knows best.)
        let cut = |node: &&std::sync::Arc<Node>| is_sliced(node);
        let sliced = fleet
            .nodes
            .iter()
            .filter(cut)
            .map(|node| node.name().clone());
        let sliced: BTreeSet<Name> = sliced.collect();
        assert_eq!(sliced.len(), 1);
        assert_eq!(
            asked(Kind::Queues, None, Format::Json),
            Some(sliced.clone())
        );
        assert_eq!(asked(Kind::Jobs, None, Format::Table), Some(sliced));
        assert_eq!(asked(Kind::Nodes, None, Format::Table), names(&[]));
        assert_eq!(asked(Kind::Nodes, None, Format::Wide), None);
        assert_eq!(
            asked(Kind::Nodes, Some(first), Format::Wide),
            names(&[first])
        );
        assert_eq!(asked(Kind::Nodes, Some("nope"), Format::Wide), names(&[]));
        let device = format!("{first}/gpu0");
        assert_eq!(
            asked(Kind::Devices, Some(&device), Format::Json),
            names(&[first])
        );
        assert_eq!(asked(Kind::Devices, Some("GPU-1"), Format::Json), None);
        let pool = &fleet.nodes[0].pool;
        let of_pool = asked(Kind::Pools, Some(pool), Format::Json).expect("not all");
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
            let found = asked(Kind::Jobs, Some(&full), Format::Json).expect("not all");
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
