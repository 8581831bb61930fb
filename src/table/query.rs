//! What is asked for, and why there may be no answer.

use super::table::cell;
use super::{Kind, Scope, Select, Sort, Template};

/// What is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Query {
    /// Kind.
    pub kind: Kind,
    /// Only objects of these names; none is all of them.
    pub names: Vec<String>,
    /// Only what belongs to a team or to some namespaces; of pools and nodes, those that its jobs are on.
    pub scope: Scope,
    /// Only objects of these labels and fields.
    pub select: Select,
    /// In this order; none is that of the kind.
    pub sort: Option<Sort>,
    /// Only these columns of a table, in this order; none is all of them.
    pub columns: &'static [&'static str],
    /// Tables and CSV begin with their titles.
    pub titled: bool,
    /// What [`super::Format::Template`] makes of the rows.
    pub template: Option<Template>,
}

impl Query {
    /// Every object of a kind.
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

    /// True when what bounds jobs decides which rows are printed, or in which order: the last half hour tells it, and no single look.
    pub fn asks_half_hour(&self) -> bool {
        let sorted = self.sort.iter().flat_map(Sort::fields);
        let mut all = self.select.fields().chain(sorted);
        self.kind == Kind::Jobs && all.any(|field| field == "bound")
    }

    /// True when a reading of an exporter decides which rows are printed, or in which order, or one is among the chosen columns.
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

/// No object of the name that was asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotFound {
    /// Kind.
    pub kind: Kind,
    /// The name that was asked for.
    pub name: String,
    /// The nearest name that there is.
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

/// Why a query has no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unanswered {
    /// There is no object of its name.
    NotFound(NotFound),
    /// Its template does not fit what is found.
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
