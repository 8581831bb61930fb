//! Which exporters need no scrape: those whose readings come from Prometheus, and those whose readings serve no purpose.

use std::collections::BTreeSet;

use rustc_hash::FxHashSet;

use model::base::{Name, ObjectKey};

use super::serving::ServingPod;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ScrapeCoverage {
    /// Prometheus has not answered yet: exporters are scraped after a short wait.
    Pending,
    /// These exporters; none where there is no Prometheus or it does not answer.
    Of(Covered),
}

/// Exporters that Prometheus scrapes and has fresh samples of.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Covered {
    pub pods: FxHashSet<ObjectKey>,
    /// By dialect and node, where the pod is not known.
    pub nodes: FxHashSet<(Name, Name)>,
}

impl ScrapeCoverage {
    pub fn nothing() -> Self {
        Self::Of(Covered::default())
    }

    /// True when this exporter needs no scrape now.
    pub fn spares(&self, pod: &ServingPod) -> bool {
        match self {
            Self::Pending => true,
            Self::Of(covered) => {
                covered.pods.contains(&pod.key)
                    || pod.node.as_ref().is_some_and(|node| {
                        covered.nodes.contains(&(pod.dialect.clone(), node.clone()))
                    })
            }
        }
    }
}

/// Whose readings are needed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ScrapedNodes {
    /// Not decided yet: nothing is scraped.
    Undecided,
    /// Those of these nodes.
    Nodes(BTreeSet<Name>),
    All,
}

impl ScrapedNodes {
    /// True when the page of an exporter on this node is needed; an exporter without a node, or of many nodes, is needed when any node is.
    pub fn includes(&self, node: Option<&Name>) -> bool {
        match self {
            Self::Undecided => false,
            Self::Nodes(nodes) => node.map_or(!nodes.is_empty(), |node| nodes.contains(node)),
            Self::All => true,
        }
    }
}
