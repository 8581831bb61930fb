//! The kinds of rows, one file each: what a row is, its columns, its object, where it leads, and how `get` writes it.

use serde_json::Value;

use crate::column::{KindSpec, RowOutput};

pub mod advice;
pub mod alerts;
pub mod cost;
pub mod devices;
pub mod fleet;
pub mod jobs;
pub mod nodes;
pub(crate) mod output;
pub mod pods;
pub mod pools;
pub mod queues;
pub mod scalers;
pub mod services;
pub mod sources;

/// Makes [`Kind`] of the modules in which the kinds are described.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $module:ident,)*) => {
        /// A kind of object that `get` prints.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Kind {
            $($(#[$doc])* $kind,)*
        }

        impl Kind {
            /// Every kind, in the order of help and schemas.
            pub const ALL: [Self; [$(stringify!($kind)),*].len()] = [$(Self::$kind),*];

            /// Its description, from which `get`, the console and their docs are made.
            pub fn spec(self) -> &'static KindSpec {
                match self {
                    $(Self::$kind => &$module::KIND,)*
                }
            }

            /// How `get` finds and writes its rows.
            pub fn output(self) -> &'static RowOutput {
                match self {
                    $(Self::$kind => &$module::OUTPUT,)*
                }
            }
        }
    };
}

kinds! {
    Pools = pools,
    Nodes = nodes,
    /// Devices and their slices.
    Devices = devices,
    Queues = queues,
    Jobs = jobs,
    /// Pods that request devices.
    Pods = pods,
    /// Models served by workloads.
    Services = services,
    Cost = cost,
    Alerts = alerts,
    /// Advice about jobs' devices.
    Advice = advice,
    /// Autoscalers of nodes and pods.
    Scalers = scalers,
    Sources = sources,
    /// The whole fleet as one document.
    Fleet = fleet,
}

impl Kind {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        self.output().names.plural
    }

    /// The singular, as shown before an object's name.
    pub fn singular(self) -> &'static str {
        self.output().names.singular
    }

    /// The JSON Schema of its rows.
    pub fn schema(self) -> Value {
        self.output().names.schema()
    }
}
