//! `top`: the rows with the most use first.

use std::io::Write;

use clap::{Args, ValueEnum};

use model::base::{Exit, Failure};
use settings::Settings;
use table::{Format, Kind, Needs, Query, Select, Sort, output};

use super::common::console_options;
use super::common::setup::{self, Situation};
use super::get::{self, FormatName};

#[derive(Args, Clone, PartialEq, Eq, Debug)]
pub struct Top {
    /// What to list
    pub what: TopName,
    /// Only this one
    pub name: Option<String>,
    /// How to print it
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub output: FormatName,
    /// Only objects of these labels (nodes, jobs), as `get` has it
    #[arg(
        short = 'l',
        long,
        value_name = "LABELS",
        default_value = "",
        hide_default_value = true
    )]
    pub selector: String,
    /// Sort by another column or field, as `get` has it
    #[arg(long, value_name = "COLUMN", allow_hyphen_values = true)]
    pub sort_by: Option<String>,
}

/// Of what the most used is listed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum TopName {
    /// Nodes, the most utilized first
    #[value(aliases = ["node", "no"])]
    Nodes,
    /// Devices, the most utilized first
    #[value(aliases = ["device", "dev"])]
    Devices,
    /// Jobs that hold devices, those with the most first
    #[value(alias = "job")]
    Jobs,
    /// Teams, those with the most devices first
    #[value(alias = "team")]
    Teams,
}

impl TopName {
    pub(super) const fn kind(self) -> Kind {
        match self {
            Self::Nodes => Kind::Nodes,
            Self::Devices => Kind::Devices,
            Self::Jobs => Kind::Jobs,
            Self::Teams => Kind::Cost,
        }
    }

    /// Columns of `get`, in their order.
    const fn columns(self) -> &'static [&'static str] {
        match self {
            Self::Nodes => &[
                "NAME", "POOL", "DEVICES", "UTIL", "MEM", "T MAX", "kW", "$/h",
            ],
            Self::Devices => &[
                "NAME", "CLASS", "UTIL", "MEM", "TEMP", "POWER", "POD", "TEAM",
            ],
            Self::Jobs => &[
                "NAME",
                "TEAM",
                "QUEUE",
                "DEVICES",
                "UTIL",
                "$/h",
                "COST SINCE START",
            ],
            Self::Teams => &["NAME", "DEVICES", "$/h", "IDLE ALLOC $/h"],
        }
    }

    /// What decides the order.
    const fn most(self) -> &'static str {
        match self {
            Self::Nodes | Self::Devices => "util_ratio",
            Self::Jobs => "devices_allocated",
            Self::Teams => "devices",
        }
    }
}

pub(super) fn run(
    situation: &Situation,
    top: &Top,
    out: &mut dyn Write,
    err: &mut (dyn Write + Send),
) -> Result<Exit, Failure> {
    let query = query(top, &situation.settings)?;
    let format: Format = top.output.into();
    let facts = setup::snapshot(situation, &Needs::of(&query, format), err)?;
    get::say_unknown_scope(&facts, &query, err);
    get::print(&get::part_of(&facts, &query), &query, format, out, err)
}

pub(super) fn query(top: &Top, settings: &Settings) -> Result<Query, Failure> {
    let usage = |message: String| Failure::new(Exit::Usage, message);
    let kind = top.what.kind();
    let teams = top.what == TopName::Teams;
    // A job without devices uses none; a team is a row of cost.
    let fields = match (&top.what, &top.name) {
        (TopName::Jobs, None) => "devices_allocated!=0".to_owned(),
        (TopName::Teams, None) => "scope=team".to_owned(),
        (TopName::Teams, Some(name)) => format!("scope=team,name={name}"),
        _ => String::new(),
    };
    let select = Select::parse(kind, &top.selector, &fields).map_err(usage)?;
    let sort = match &top.sort_by {
        Some(text) => Sort::parse(kind, text, &output::titles(kind)).map_err(usage)?,
        None => Sort::falling(top.what.most()),
    };
    Ok(Query {
        names: top.name.clone().filter(|_| !teams).into_iter().collect(),
        scope: console_options::scope(settings),
        select,
        sort: Some(sort),
        columns: top.what.columns(),
        ..Query::all(kind)
    })
}

#[cfg(test)]
mod tests {
    use table::output::json_style::JsonStyle;

    use super::*;

    /// The titles are those of `get`: a column with another title there would be missing here.
    #[test]
    fn every_column_is_one_of_gets() {
        let facts = table::sample::facts();
        for what in TopName::value_variants() {
            let top = Top {
                what: *what,
                name: None,
                output: FormatName::Table,
                selector: String::new(),
                sort_by: None,
            };
            let query = query(&top, &crate::cli::tests::defaults()).expect("is right");
            let sheet = output::output_table(&facts, &query, Format::Table, JsonStyle::Indented)
                .expect("all");
            let titles: Vec<&str> = sheet.titles.iter().map(|(title, _)| *title).collect();
            assert_eq!(titles, what.columns());
            assert!(!sheet.items.is_empty(), "{what:?}");
        }
    }

    #[test]
    fn the_most_used_comes_first() {
        let facts = table::sample::facts();
        let top = Top {
            what: TopName::Teams,
            name: None,
            output: FormatName::Csv,
            selector: String::new(),
            sort_by: None,
        };
        let query = query(&top, &crate::cli::tests::defaults()).expect("is right");
        let csv = output::render(&facts, &query, Format::Csv).expect("all");
        let mut lines = csv
            .lines()
            .skip(1)
            .filter(|line| !line.contains("unattributed"));
        let devices = |line: &str| line.split(',').nth(2).and_then(|it| it.parse::<f64>().ok());
        let counts: Vec<_> = lines.by_ref().filter_map(devices).collect();
        assert!(
            counts.len() > 1 && counts.is_sorted_by(|a, b| a >= b),
            "{csv}"
        );
        assert!(
            csv.lines().skip(1).all(|line| line.starts_with("team,")),
            "{csv}"
        );
    }
}
