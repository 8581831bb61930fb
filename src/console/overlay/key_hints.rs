//! Replaces shell commands in the planners' texts by the keys that do the same on screen.

use crate::commands::{Command, Context};
use crate::keys::Keymap;
use plan::actions::ActionName;
use table::navigation::ViewId;

/// Replaces each command in backticks that has a key by the key: `explain job nlp/a` becomes `d on nlp/a`.
pub(super) fn with_keys(words: &str, keys: &Keymap) -> String {
    let mut out = String::with_capacity(words.len());
    for (at, piece) in words.split('`').enumerate() {
        match (at % 2, key_of(piece, keys)) {
            (0, _) => out.push_str(piece),
            (_, Some(words)) => out.push_str(&words),
            (_, None) => out.push_str(&format!("`{piece}`")),
        }
    }
    out
}

/// The key for a command; `None` where no key does the same.
pub(super) fn key_of(line: &str, keys: &Keymap) -> Option<String> {
    // No key sets a deadline: the command stays.
    if line.contains("--deadline") {
        return None;
    }
    let mut words = line
        .split_whitespace()
        .filter(|word| !word.starts_with("--"));
    let command = match (words.next()?, words.next()) {
        ("get", Some(kind)) => {
            let mut tabs = ViewId::ALL.iter();
            Command::View(*tabs.find(|tab| tab.name() == kind)?)
        }
        ("explain", Some("job")) => Command::Describe,
        ("plan", Some(verb)) => {
            let mut all = ActionName::ALL.iter();
            let name = all.find(|name| name.spec().verb == verb)?;
            Command::Action(name.spec().done_by.unwrap_or(*name))
        }
        _ => return None,
    };
    let key_of = |command| Some(keys.keys(Context::Global, command).first()?.to_string());
    let key = key_of(command)?;
    if command == Command::Action(ActionName::Undo) {
        // Runs have a view of their own.
        let run = words.next().filter(|run| *run != "RUN");
        return Some(format!(
            "{key} on {} in {}",
            run.unwrap_or("its run"),
            key_of(Command::View(ViewId::Plans))?
        ));
    }
    let on = words
        .next()
        .map_or(String::new(), |name| format!(" on {name}"));
    let then = words
        .next()
        .map_or(String::new(), |value| format!(", then {value}"));
    Some(format!("{key}{on}{then}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_its_key() {
        let keys = Keymap::builtin();
        for (words, expected) in [
            (
                "look at what holds it: `explain job nlp/a`",
                "look at what holds it: d on nlp/a",
            ),
            ("what waits: `get jobs`", "what waits: 5"),
            ("`plan admit nlp/a --preempt`", "A on nlp/a"),
            (
                "the number: `plan reprioritise nlp/a 80`",
                "the number: P on nlp/a, then 80",
            ),
            ("resume it: `plan resume q`", "resume it: H on q"),
            ("there is no class `x`: none", "there is no class `x`: none"),
            ("`plan undo RUN`", "U on its run in 9"),
            ("no command", "no command"),
        ] {
            assert_eq!(with_keys(words, &keys), expected);
        }
        assert_eq!(key_of("plan drain a100-17 --deadline 30m", &keys), None);
        let mine = Keymap::builtin().with("keys.toml", "[global]\nd = \"none\"\n");
        assert_eq!(key_of("explain job nlp/a", &mine.expect("a key map")), None);
    }
}
