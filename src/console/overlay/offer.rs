//! An offer of the palette.

use super::verdict::Navigation;

/// A line of the palette: its words, what it is, and where it leads.
#[derive(Clone)]
pub(super) struct Offer {
    pub(super) label: String,
    pub(super) doc: String,
    pub(super) go: Navigation,
}
