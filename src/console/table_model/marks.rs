//! Marks: rows that an action applies to together. A mark belongs to the object, not to its row's position.

use crate::commands::Command;

use super::TableModel;
use table::column::Row;

impl TableModel {
    /// Handles a mark command; true when it was one.
    pub(super) fn mark(&mut self, command: Command) -> bool {
        let Some(id) = self.ids.get(self.cursor).copied() else {
            return matches!(
                command,
                Command::Mark | Command::Range | Command::Unmark | Command::Invert
            );
        };
        match command {
            Command::Mark => {
                if !self.marks.remove(&id) {
                    self.marks.insert(id);
                }
                self.anchor = Some(id);
            }
            Command::Range => {
                let anchor = self.anchor.unwrap_or(id);
                let from = self.ids.iter().position(|known| *known == anchor);
                let from = from.unwrap_or(self.cursor);
                let (first, last) = (from.min(self.cursor), from.max(self.cursor));
                self.marks.extend(&self.ids[first..=last]);
                self.anchor = Some(id);
            }
            Command::Unmark => {
                self.marks.clear();
                self.anchor = None;
            }
            Command::Invert => {
                for id in &self.ids {
                    if !self.marks.remove(id) {
                        self.marks.insert(*id);
                    }
                }
            }
            _ => return false,
        }
        true
    }

    /// True when the row at this place is marked.
    pub fn is_marked(&self, at: usize) -> bool {
        !self.marks.is_empty() && self.ids.get(at).is_some_and(|id| self.marks.contains(id))
    }

    /// The marked rows that are visible, in order. An action does not apply to rows that a filter hides.
    pub fn marked(&self) -> Vec<Row> {
        if self.marks.is_empty() {
            return Vec::new();
        }
        let rows = self.rows.iter().zip(&self.ids);
        rows.filter(|(_, id)| self.marks.contains(id))
            .map(|(row, _)| *row)
            .collect()
    }

    /// The marked rows, or the row under the cursor where none is marked.
    pub fn meant(&self) -> Vec<Row> {
        let marked = self.marked();
        if marked.is_empty() {
            self.current().into_iter().collect()
        } else {
            marked
        }
    }
}
