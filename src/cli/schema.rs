//! `schema`: the JSON Schema of what `-o json` prints.

use std::io::Write;

use clap::Args;
use clap::builder::PossibleValuesParser;

use model::base::{Exit, Failure};
use table::schemas;

use super::common::out;

/// Which schema to print.
#[derive(Args, Clone, PartialEq, Eq, Debug)]
pub struct Schema {
    /// Whose schema; without it, the names of all are listed
    #[arg(value_parser = PossibleValuesParser::new(schemas::names()))]
    pub kind: Option<String>,
}

pub(super) fn run(schema: &Schema, out: &mut dyn Write) -> Result<Exit, Failure> {
    let text = match schema.kind.as_deref().and_then(schemas::schema) {
        Some(schema) => model::schema::text(&schema),
        None => schemas::names().map(|name| format!("{name}\n")).collect(),
    };
    out::write(out, &text)?;
    Ok(Exit::Done)
}
