//! Queries, and why a query may fail.

pub(super) mod missing_data;
pub(super) mod needs;
pub(super) mod order;
pub(super) mod scope;
pub mod select;
pub(super) mod unselected;

use super::table::cell;
use super::{Kind, Scope, Select, Sort, Template};

/// A query for rows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Query {
    pub kind: Kind,
    /// Only objects with these names; empty for all.
    pub names: Vec<String>,
    /// Only objects of a team or of these namespaces; for pools and nodes, those that its jobs are on.
    pub scope: Scope,
    /// Only objects with these labels and fields.
    pub select: Select,
    /// The order; `None` for the kind's own order.
    pub sort: Option<Sort>,
    /// Only these columns of a table, in this order; empty for all.
    pub columns: &'static [&'static str],
    /// Whether tables and CSV start with titles.
    pub titled: bool,
    /// The template of [`super::Format::Template`].
    pub template: Option<Template>,
}

impl Query {
    /// A query for every object of a kind.
    pub fn all(kind: Kind) -> Self {
        Self {
            kind,
            names: Vec::new(),
            scope: Scope::default(),
            select: Select::default(),
            sort: None,
            columns: &[],
            titled: true,
            template: None,
        }
    }

    /// True when the bottleneck of jobs determines which rows are printed, or their order: it needs half an hour of readings.
    pub fn asks_half_hour(&self) -> bool {
        let sorted = self.sort.iter().flat_map(Sort::fields);
        let mut all = self.select.fields().chain(sorted);
        self.kind == Kind::Jobs && all.any(|field| field == "bound")
    }

    /// True when an exporter's reading determines which rows are printed, their order, or a chosen column.
    pub(super) fn asks_readings(&self) -> bool {
        let sorted = self.sort.iter().flat_map(Sort::fields);
        let read = |field: &str| {
            let parts = [
                "util", "mem_used", "temp", "power", "signals", "idle", "health",
            ];
            parts.iter().any(|part| field.contains(part))
        };
        self.columns.contains(&"UTIL") || self.select.fields().chain(sorted).any(read)
    }
}

/// No object has the requested name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotFound {
    pub kind: Kind,
    pub name: String,
    /// The nearest existing name.
    pub nearest: Option<String>,
}

impl std::fmt::Display for NotFound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "no {} named `{}`", self.kind.name(), cell(&self.name))?;
        if let Some(near) = &self.nearest {
            write!(f, "; did you mean `{}`?", cell(near))?;
        }
        Ok(())
    }
}

impl std::error::Error for NotFound {}

/// Why a query failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unanswered {
    /// No object has the requested name.
    NotFound(NotFound),
    /// The template does not fit the rows.
    Refused(String),
}

impl From<NotFound> for Unanswered {
    fn from(missing: NotFound) -> Self {
        Self::NotFound(missing)
    }
}

impl std::fmt::Display for Unanswered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotFound(missing) => missing.fmt(f),
            Self::Refused(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Unanswered {}
