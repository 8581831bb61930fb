//! kube-scheduler: pods go to any node where they fit, and pods of lower priority are preempted for them. Nothing is reserved: a
//! small pod takes what a large gang waits for. Source: its plugin `DefaultPreemption`.

use super::{SchedulerRules, on_nodes};

pub(super) const SCHEDULER: SchedulerRules = SchedulerRules {
    turn: on_nodes::turn,
    nominate: on_nodes::nominate,
    start: on_nodes::start,
    victims: on_nodes::victims,
    ignores_nodes: |_, _| false,
    reserves: false,
    by_class: false,
};
