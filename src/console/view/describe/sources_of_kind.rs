//! The page of a kind of sources: how many answer, and each source that does not.

use table::Facts;
use table::column::Row;
use table::kinds::sources::{
    is_well, live_of, message, not_visible, sources, state_sign, words_of,
};
use table::role::Role;

use super::Description;

/// The page of a row that combines several sources; `None` when none of these sources is left.
pub fn sources_of_kind(facts: &Facts, row: Row) -> Option<Description> {
    let all = || sources(facts, row);
    let mut table = Description {
        title: format!("sources of {}", all().next()?.kind),
        ..Description::default()
    };
    let worst = all().map(|source| source.state).max()?;
    let (live, readable) = live_of(all());
    table.words(
        "state",
        format!("{live} of {readable} live"),
        state_sign(worst).1,
    );
    if let Some(hidden) = not_visible(all()) {
        table.words("rights", hidden, Role::Muted);
    }
    for source in all().filter(|source| !is_well(source)) {
        let (role, word) = words_of(source);
        let message = message(facts, source);
        table.words(word, format!("{}: {message}", source.name), role);
    }
    table.words("", "enter lists each of them", Role::Muted);
    Some(table)
}
