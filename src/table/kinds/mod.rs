//! The kinds of rows, one file each: what a row is, its columns, its object, where it leads, how `get` writes it, and how the
//! console opens it.

/// The kinds and the modules in which they are described, given to the macro `$make`.
macro_rules! kinds {
    ($make:ident) => {
        $make! {
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
            /// Teams with their jobs, devices and money.
            Teams = teams,
            Alerts = alerts,
            /// What changed, newest first.
            Changes = changes,
            /// Advice about jobs' devices.
            Advice = advice,
            /// Autoscalers of nodes and pods.
            Scalers = scalers,
            Sources = sources,
            /// The whole fleet as one document.
            Fleet = fleet,
        }
    };
}

pub mod advice;
pub mod alerts;
pub mod changes;
pub mod cost;
mod described;
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
pub mod teams;

macro_rules! named {
    ($($(#[$doc:meta])* $kind:ident = $module:ident,)*) => {
        /// A kind of object that `get` prints.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Kind {
            $($(#[$doc])* $kind,)*
        }

        impl Kind {
            /// Every kind, in the order of help and schemas.
            pub const ALL: [Self; [$(stringify!($kind)),*].len()] = [$(Self::$kind),*];

            /// Its name on the command line, which is that of its module.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => stringify!($module),)*
                }
            }
        }
    };
}

kinds!(named);
