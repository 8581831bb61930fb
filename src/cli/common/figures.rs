//! How figures are printed.

use clap::ValueEnum;

/// A format for figures.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum TableOrJson {
    /// Lines
    Table,
    /// One object
    Json,
}
