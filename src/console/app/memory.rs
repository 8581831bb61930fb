//! What the console remembers of each view for as long as it runs: filters that were used, columns that were chosen.

use std::collections::BTreeMap;

use crate::view::ViewId;

use super::App;

/// Filters that are remembered of a view.
const FILTERS: usize = 20;

/// Filters and columns by view.
#[derive(Default)]
pub(crate) struct Memory {
    /// Filters that were accepted, the latest last.
    filters: BTreeMap<ViewId, Vec<String>>,
    /// Chosen columns, by the table's first column and number of columns: one table may stand under several tabs.
    columns: BTreeMap<(&'static str, usize), Vec<bool>>,
}

impl Memory {
    /// The filters that were used in a view, the latest last.
    pub(crate) fn filters(&self, view: ViewId) -> &[String] {
        self.filters.get(&view).map_or(&[], Vec::as_slice)
    }
}

impl App {
    /// Remembers a filter that was accepted.
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

    /// Shows a column of the view in front, or hides it.
    pub(super) fn toggle_column(&mut self, at: usize) {
        let Some(table) = self.view_mut().table_mut() else {
            return;
        };
        let id = table.table_model.kind.columns[0].id;
        let mut chosen = table.columns();
        if let Some(shown) = chosen.get_mut(at) {
            *shown = !*shown;
        }
        table.choose_columns(chosen);
        if let Some(chosen) = table.chosen_columns().map(<[bool]>::to_vec) {
            self.memory.columns.insert((id, chosen.len()), chosen);
        }
    }

    /// Gives the view in front the columns that were chosen for its like.
    pub(super) fn recall_columns(&mut self) {
        let Some(table) = self.view().table() else {
            return;
        };
        let table = (table.table_model.kind.columns[0].id, table.columns().len());
        let known = self.memory.columns.get(&table).cloned();
        if let (Some(chosen), Some(table)) = (known, self.view_mut().table_mut())
            && table.chosen_columns().is_none()
        {
            table.choose_columns(chosen);
        }
    }
}
