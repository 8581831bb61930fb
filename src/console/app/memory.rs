//! Per-view memory for the lifetime of the console: used filters and chosen columns.

use std::collections::BTreeMap;

use table::navigation::ViewId;

use super::App;

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
}

impl App {
    /// Remembers an accepted filter.
    pub(super) fn remember_filter(&mut self, words: &str) {
        let words = words.trim();
        if words.is_empty() {
            return;
        }
        let id = self.view().id();
        let known = self.memory.filters.entry(id).or_default();
        known.retain(|other| other != words);
        known.push(words.to_owned());
        if known.len() > FILTERS {
            known.remove(0);
        }
    }

    /// Toggles a column of the front view.
    pub(super) fn toggle_column(&mut self, at: usize) {
        let Some(table) = self.view_mut().table_mut() else {
            return;
        };
        let id = table.table_model.kind.columns.as_ptr().addr();
        let mut chosen = table.columns();
        if let Some(shown) = chosen.get_mut(at) {
            *shown = !*shown;
        }
        table.choose_columns(chosen);
        if let Some(chosen) = table.chosen_columns().map(<[bool]>::to_vec) {
            self.memory.columns.insert(id, chosen);
        }
    }

    /// Applies the remembered columns to the front view.
    pub(super) fn recall_columns(&mut self) {
        let Some(table) = self.view().table() else {
            return;
        };
        let id = table.table_model.kind.columns.as_ptr().addr();
        let known = self.memory.columns.get(&id).cloned();
        if let (Some(chosen), Some(table)) = (known, self.view_mut().table_mut())
            && table.chosen_columns().is_none()
        {
            table.choose_columns(chosen);
        }
    }
}
