//! What each kind says of itself. `Kind` alone is below everything that describes a kind: a destination names one.

use serde_json::Value;

use super::Kind;
use crate::column::{KindSpec, RowOutput};
use crate::kind::KindView;
use crate::navigation::{Destination, RowScope, ViewId};

macro_rules! described {
    ($($(#[$doc:meta])* $kind:ident = $module:ident,)*) => {
        impl Kind {
            /// Its columns and its rows, from which `get`, the console and their docs are made.
            pub fn spec(self) -> &'static KindSpec {
                match self {
                    $(Self::$kind => &super::$module::KIND,)*
                }
            }

            /// How `get` finds and writes its rows.
            pub fn output(self) -> &'static RowOutput {
                match self {
                    $(Self::$kind => &super::$module::OUTPUT,)*
                }
            }
        }
    };
}

kinds!(described);

impl Kind {
    /// The singular, as shown before an object's name.
    pub fn singular(self) -> &'static str {
        self.output().names.singular
    }

    /// The JSON Schema of its rows.
    pub fn schema(self) -> Value {
        self.output().names.schema()
    }

    /// How the console opens and draws it.
    pub fn view(self) -> &'static KindView {
        &self.output().view
    }

    /// The kind that a tab shows; `None` for a tab that shows no facts.
    pub fn of_tab(tab: ViewId) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|kind| kind.view().tab == tab && kind.view().doc.is_none())
    }

    /// The view of all its rows.
    pub fn destination(self) -> Destination {
        let rows = match self.view().doc {
            Some(_) => RowScope::Kind(self, None),
            None => RowScope::All,
        };
        Destination::Part(self.view().tab, rows)
    }

    /// Its names in the palette, the displayed one first.
    pub fn words(self) -> impl Iterator<Item = &'static str> {
        let names = &self.output().names;
        let all = [names.plural, names.singular].into_iter();
        let all = all.chain(names.aliases.iter().copied());
        all.chain(self.view().words.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_named_as_its_module_and_has_its_tab_or_is_under_one() {
        for kind in Kind::ALL {
            assert_eq!(kind.name(), kind.output().names.plural);
            let view = kind.view();
            match view.doc {
                Some(doc) => assert!(!doc.is_empty(), "{kind:?}"),
                None => {
                    assert_eq!((view.tab.name(), view.key), (kind.name(), None));
                    assert_eq!(Kind::of_tab(view.tab), Some(kind));
                }
            }
        }
    }

    #[test]
    fn a_word_of_the_palette_is_of_one_kind() {
        for kind in Kind::ALL {
            for word in kind.words() {
                let of_it = Kind::ALL
                    .into_iter()
                    .find(|other| other.words().any(|own| own == word));
                assert_eq!(of_it, Some(kind), "{word}");
            }
        }
    }
}
