//! The kinds that `get` prints, as the command line names them.

use std::sync::LazyLock;

use clap::ValueEnum;
use clap::builder::PossibleValue;

use table::Kind;
use table::kind::KindNames;

/// What `get` prints: rows of a snapshot of the fleet, rows of the usage ledger, or budgets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GetKind {
    Snapshot(Kind),
    Usage,
    Budgets,
}

/// Every kind in the order in which help lists them; `fleet`, the whole fleet as one document, is last.
static ALL: LazyLock<Vec<GetKind>> = LazyLock::new(|| {
    let mut all: Vec<GetKind> = Kind::ALL.into_iter().map(GetKind::Snapshot).collect();
    // `Kind::Fleet` is the last of `Kind::ALL`.
    let document = all.pop();
    all.extend([GetKind::Usage, GetKind::Budgets]);
    all.extend(document);
    all
});

impl GetKind {
    /// The kind of snapshot rows; `None` for the usage ledger and budgets.
    pub(in crate::cli) fn snapshot_kind(self) -> Option<Kind> {
        match self {
            Self::Snapshot(kind) => Some(kind),
            Self::Usage | Self::Budgets => None,
        }
    }

    fn names(self) -> &'static KindNames {
        match self {
            Self::Snapshot(kind) => &kind.output().names,
            Self::Usage => &table::spend::NAMES,
            Self::Budgets => &table::budgets::NAMES,
        }
    }
}

impl ValueEnum for GetKind {
    fn value_variants<'a>() -> &'a [Self] {
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let names = self.names();
        let short = names.aliases.iter().copied();
        let short: Vec<&str> = short
            .filter(|alias| alias.len() < names.singular.len())
            .collect();
        let help = match short.as_slice() {
            [] => names.help.to_owned(),
            short => format!("{} ({})", names.help, short.join(", ")),
        };
        let value = PossibleValue::new(names.plural).help(help);
        Some(value.aliases(names.aliases))
    }
}
