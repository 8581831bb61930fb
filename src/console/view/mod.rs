//! The views, one file each. A view keeps its cursor, order and filter, and draws the facts.

use model::cost::SpendScope;
use table::kinds::{self, Kind};
use table::navigation::{Destination, RowScope, ViewId};

use table_view::TableView;
use table_with_facts::TableWithFacts;
use view_trait::View;

mod changes;
pub mod cost;
mod cost_history;
pub mod describe;
pub mod detail;
pub mod device_heat;
pub mod fleet;
mod fleet_panels;
mod fleet_sources;
pub mod heatmap;
mod heatmap_draw;
pub mod layout;
pub mod logs;
pub mod object_tree;
pub mod object_view;
mod pictures;
pub mod plans;
pub mod queues;
pub mod run_jobs;
pub(crate) mod scroll;
pub mod sparkline_strip;
pub mod subject;
pub mod table_view;
mod table_with_facts;
pub mod view_trait;
mod what_if;

pub use object_tree::tab as tree_of;
pub use table::waiting::longest_first as longest_waiting;

/// The view of a destination; `None` for an overlay.
pub fn at(place: &Destination) -> Option<Box<dyn View>> {
    match place {
        Destination::Part(id, row_scope) => Some(open(*id, row_scope.clone())),
        Destination::Paper(id, sort, selection) => Some(Box::new(object_view::ObjectView::new(
            *id,
            selection.clone(),
            *sort,
        ))),
        Destination::Logs(id, selection) => {
            Some(Box::new(logs::LogView::new(*id, selection.clone())))
        }
        Destination::Facts(_) => None,
    }
}

/// Opens a view of a scope; `RowScope::All` opens the tab's own view. What is not drawn in its own way is the table of its kind.
pub fn open(id: ViewId, row_scope: RowScope) -> Box<dyn View> {
    if let RowScope::Kind(Kind::Changes, _) = row_scope {
        return Box::new(changes::ChangesView::new(row_scope));
    }
    if let RowScope::Kind(kind, _) = row_scope {
        return of_kind(kind, row_scope);
    }
    match (id, row_scope) {
        (id, row_scope @ RowScope::Tree(_)) => {
            Box::new(TableView::new(id, &object_tree::KIND, row_scope))
        }
        (ViewId::Fleet, _) => Box::new(fleet::FleetView::new()),
        (ViewId::Devices, row_scope @ RowScope::Idle) => {
            Box::new(TableView::new(id, &kinds::devices::IDLE, row_scope))
        }
        (ViewId::Devices, row_scope) => Box::new(heatmap::Heatmap::new(row_scope)),
        (ViewId::Nodes, RowScope::Node(node)) => Box::new(detail::Detail::node(node)),
        (ViewId::Jobs, RowScope::Job(job)) => Box::new(detail::Detail::job(job)),
        (ViewId::Jobs, RowScope::Replicas(job)) => Box::new(detail::Detail::service(job)),
        (ViewId::Cost, RowScope::Team(team)) => Box::new(detail::Detail::team(team)),
        (ViewId::Cost, RowScope::Idle) => Box::new(cost::CostView::idle()),
        (ViewId::Cost, RowScope::Cost(scope)) => Box::new(cost::CostView::new(scope)),
        (ViewId::Cost, _) => Box::new(cost::CostView::new(SpendScope::Team)),
        (ViewId::Pools, RowScope::Pool(pool)) => Box::new(detail::Detail::pool(pool)),
        (ViewId::Queues, row_scope) => Box::new(queues::QueuesView::new(row_scope)),
        (ViewId::Jobs, RowScope::WhatIf(changes)) => Box::new(what_if::WhatIfView::new(changes)),
        (ViewId::Alerts, row_scope @ (RowScope::Changes(_) | RowScope::OneCause(..))) => {
            Box::new(changes::ChangesView::new(row_scope))
        }
        (id, row_scope) => match Kind::of_tab(id) {
            Some(kind) => of_kind(kind, row_scope),
            // Runs of plans are no facts.
            None => Box::new(plans::PlansView::new(id, row_scope)),
        },
    }
}

/// The table of a kind.
fn of_kind(kind: Kind, row_scope: RowScope) -> Box<dyn View> {
    let (view, spec) = (kind.view(), kind.spec());
    match view.has_facts {
        true => Box::new(TableWithFacts::new(view.tab, spec, row_scope)),
        false => Box::new(TableView::new(view.tab, spec, row_scope)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_under_a_tab_is_its_table_without_more_said() {
        let under = Kind::ALL
            .into_iter()
            .filter(|kind| kind.view().doc.is_some());
        for kind in under {
            let view = at(&kind.destination()).expect("a view");
            let table = view.table().expect("a table");
            assert!(
                std::ptr::eq(table.table_model.kind, kind.spec()),
                "{kind:?}"
            );
            assert_eq!(
                (view.id(), view.trail()),
                (kind.view().tab, kind.name().to_owned())
            );
        }
    }
}
