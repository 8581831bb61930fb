//! Per-view memory for the lifetime of the console: used filters and chosen columns.

use std::collections::BTreeMap;

use table::navigation::ViewId;

use crate::view::table_view::TableView;

/// Filters remembered per view.
const FILTERS: usize = 20;

/// Filters and columns by view.
#[derive(Default)]
pub(crate) struct Memory {
    /// Accepted filters, the latest last.
    filters: BTreeMap<ViewId, Vec<String>>,
    /// Chosen columns by table, since several tabs can share one: the address of its columns, which are static.
    columns: BTreeMap<usize, Vec<bool>>,
}

impl Memory {
    /// The filters used in a view, the latest last.
    pub(crate) fn filters(&self, view: ViewId) -> &[String] {
        self.filters.get(&view).map_or(&[], Vec::as_slice)
    }

    /// Remembers an accepted filter.
    pub(super) fn remember(&mut self, view: ViewId, words: &str) {
        let words = words.trim();
        if words.is_empty() {
            return;
        }
        let known = self.filters.entry(view).or_default();
        known.retain(|other| other != words);
        known.push(words.to_owned());
        if known.len() > FILTERS {
            known.remove(0);
        }
    }

    /// Shows or hides a column of a table, and remembers the choice.
    pub(super) fn toggle_column(&mut self, table: &mut TableView, at: usize) {
        let mut chosen = table.columns();
        if let Some(shown) = chosen.get_mut(at) {
            *shown = !*shown;
        }
        table.choose_columns(chosen);
        if let Some(chosen) = table.chosen_columns() {
            self.columns.insert(id_of(table), chosen.to_vec());
        }
    }

    /// Gives a table the columns that were chosen for it, where it has no choice of its own.
    pub(super) fn recall_columns(&self, table: &mut TableView) {
        if let (Some(chosen), None) = (self.columns.get(&id_of(table)), table.chosen_columns()) {
            table.choose_columns(chosen.clone());
        }
    }
}

/// The address of a table's columns, which are static.
fn id_of(table: &TableView) -> usize {
    table.table_model.kind.columns.as_ptr().addr()
}
