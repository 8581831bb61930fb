//! `keys`: the keys of the console with this user's `keys.toml`.

use std::io::Write;

use clap::Args;

use console::Keymap;
use model::base::{Exit, Failure};
use table::table::text_table;

use super::common::flags::Global;
use super::common::{console_options, load, out};

/// Flags of `keys`.
#[derive(Args, Clone, PartialEq, Eq, Debug)]
pub struct Keys {
    /// Only keys whose description, place or name has this word: drain, heatmap, ctrl-l
    pub word: Option<String>,
}

pub(super) fn run(keys: &Keys, global: &Global, out: &mut dyn Write) -> Result<Exit, Failure> {
    let map = console_options::keys(&load::settings(global)?)?;
    let rows = rows(&map, keys.word.as_deref());
    if rows.is_empty() {
        let word = keys.word.as_deref().unwrap_or_default();
        let message = format!("no key has the word `{word}`; `stokehold keys` prints all");
        return Err(Failure::new(Exit::Usage, message));
    }
    let titles = vec![("KEYS", false), ("WHAT", false), ("WHERE", false)];
    out::write(out, &text_table(titles, &rows, true))?;
    Ok(Exit::Done)
}

/// A row for each command of each place that has a key: keys, description, place.
fn rows(map: &Keymap, word: Option<&str>) -> Vec<Vec<String>> {
    let word = word.unwrap_or_default().to_lowercase();
    let all = map.rows().map(|(keys, what, place)| {
        let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
        vec![keys.join(" "), what.to_owned(), place.to_owned()]
    });
    all.filter(|row| row.iter().any(|cell| cell.to_lowercase().contains(&word)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_ones_own_is_listed_and_a_word_chooses_rows() {
        let all = rows(&Keymap::builtin(), None);
        assert!(all.len() > 50, "{} rows", all.len());
        let own = Keymap::builtin()
            .with(
                "keys.toml",
                "[anywhere]\n\"ctrl-l\" = \"none\"\n\"ctrl-y\" = \"redraw\"\n",
            )
            .expect("a valid file");
        let redraw = rows(&own, Some("REDRAW the"));
        assert_eq!(redraw.len(), 1, "{redraw:?}");
        assert_eq!(redraw[0][0], "ctrl-y");
        assert!(rows(&own, Some("no such word")).is_empty());
    }
}
