//! What several commands have in common: flags, the session that they start from, how they wait, and how they print.

pub(super) mod console_options;
pub(super) mod figures;
pub mod flags;
pub(super) mod listen;
pub(super) mod load;
pub(super) mod out;
pub(super) mod patience;
pub mod setup;
pub mod simulated;
