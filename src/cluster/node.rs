//! Nodes and namespaces.

use model::base::Names;
use model::fleet::observe::{NodeSeen, Observation, Table};

use super::Projected;
use super::lenient_json::{List, OptionalBool, Text, partial};
use super::meta::{Meta, RawCondition, conditions};
use super::pod_placement::{RawTaint, taints};
use super::resources::{ResourceList, of_node};

partial! {
    NodeObject {
        meta: Meta = "metadata",
        spec: NodeSpec = "spec",
        status: NodeStatus = "status",
    }
}

partial! {
    NodeSpec {
        /// The cloud's id of the machine.
        provider_id: Text = "providerID",
        unschedulable: OptionalBool = "unschedulable",
        taints: List<RawTaint> = "taints",
    }
}

partial! {
    NodeStatus {
        /// Capacity of the machine.
        capacity: ResourceList = "capacity",
        /// Resources that pods may request.
        allocatable: ResourceList = "allocatable",
        conditions: List<RawCondition> = "conditions",
    }
}

impl Projected for NodeObject {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn project(&self, _: Table, names: &mut Names) -> Option<Observation> {
        let key = self.meta.key(names)?;
        Some(Observation::Node(Box::new(NodeSeen {
            name: key.name,
            uid: names.intern(&self.meta.uid),
            labels: self.meta.labels(names),
            annotations: self.meta.annotations(names),
            provider_id: self.spec.provider_id.get().map(|id| names.intern(id)),
            unschedulable: self.spec.unschedulable.is_set(),
            taints: taints(&self.spec.taints, names),
            conditions: conditions(&self.status.conditions, names),
            capacity: of_node(&self.status.capacity, names),
            allocatable: of_node(&self.status.allocatable, names),
            created: self.meta.created(),
        })))
    }
}

partial! {
    NamespaceObject {
        meta: Meta = "metadata",
    }
}

impl Projected for NamespaceObject {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn project(&self, _: Table, names: &mut Names) -> Option<Observation> {
        let name = names.intern(self.meta.name.get()?);
        Some(Observation::Namespace(name, self.meta.labels(names)))
    }
}
