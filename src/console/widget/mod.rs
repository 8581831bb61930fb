//! Drawing parts without knowledge of the fleet.

pub mod bar;
pub mod cell;
pub mod field;
pub mod heat;
pub mod panel;
pub mod quota;
pub mod roofline;
pub mod spark;
pub mod table;
pub(crate) mod team_letters;
