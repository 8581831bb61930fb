//! The key map: keys to commands by context. A user's TOML file overrides the default; the result is validated as a whole.

use std::collections::BTreeMap;

use toml::Spanned;

use model::base::SmallSort;
use plan::actions::ActionName;
use table::Kind;
use table::navigation::ViewId;

use super::commands::{COMMANDS, Command, CommandSpec, Context};
use super::load::{LoadError, nearest};
use super::msg::{Key, KeyPress};

const DEFAULT: &str = include_str!("../../config/keys.toml");

/// Contexts that are active at the same time, in order of precedence. A key may have one meaning in each row.
const FOCUSES: [&[Context]; 14] = [
    &[Context::Table, Context::Global, Context::Anywhere],
    &[
        Context::Cost,
        Context::Table,
        Context::Global,
        Context::Anywhere,
    ],
    &[
        Context::Alerts,
        Context::Table,
        Context::Global,
        Context::Anywhere,
    ],
    &[
        Context::Plans,
        Context::Table,
        Context::Global,
        Context::Anywhere,
    ],
    &[Context::Heatmap, Context::Global, Context::Anywhere],
    &[Context::Text, Context::Global, Context::Anywhere],
    &[
        Context::Logs,
        Context::Text,
        Context::Global,
        Context::Anywhere,
    ],
    &[Context::Popup, Context::Anywhere],
    &[Context::Prompt, Context::Anywhere],
    &[Context::Copy, Context::Anywhere],
    &[Context::Columns, Context::Anywhere],
    &[Context::Leaving, Context::Anywhere],
    &[Context::Plan, Context::Anywhere],
    &[Context::Missing, Context::Anywhere],
];

type Meaning = (Context, Command);

/// Keys and their commands by context.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Keymap {
    bound: BTreeMap<(Context, KeyPress), Command>,
}

impl Keymap {
    /// The default key map.
    pub fn builtin() -> Self {
        let mut map = Self {
            bound: BTreeMap::new(),
        };
        let parse = |key: Option<&str>| key.and_then(KeyPress::parse);
        let tabs = ViewId::ALL.iter();
        let tabs = tabs.map(|tab| (Some(KeyPress::char(tab.digit())), Command::View(*tab)));
        let kinds = Kind::ALL.into_iter();
        let kinds = kinds.map(|kind| (parse(kind.view().key), Command::Kind(kind)));
        let actions = ActionName::ALL.iter();
        let actions = actions.map(|name| (parse(name.spec().key), Command::Action(*name)));
        for (press, command) in tabs.chain(kinds).chain(actions) {
            let here = press.map(|press| ((Context::Global, press), command));
            map.bound.extend(here);
        }
        map.read("config/keys.toml", DEFAULT)
            .expect("the key map that comes with the program is checked by a test");
        map
    }

    /// This key map with a user's file applied.
    pub fn with(mut self, file: &str, text: &str) -> Result<Self, LoadError> {
        self.read(file, text)?;
        Ok(self)
    }

    fn read(&mut self, file: &str, text: &str) -> Result<(), LoadError> {
        type Raw = BTreeMap<Spanned<String>, BTreeMap<Spanned<String>, Spanned<String>>>;
        let raw: Raw = toml::from_str(text).map_err(|error| LoadError::toml(file, text, &error))?;
        let mut bound: BTreeMap<(Context, KeyPress), std::ops::Range<usize>> = BTreeMap::new();
        for (place, keys) in &raw {
            let context = context_of(place.get_ref())
                .map_err(|message| LoadError::at(file, text, Some(place.span()), message))?;
            for (key, name) in keys {
                let wrong = |message: String| LoadError::at(file, text, Some(name.span()), message);
                let press = press_of(context, key.get_ref()).map_err(wrong)?;
                if bound.insert((context, press), name.span()).is_some() {
                    return Err(wrong(format!(
                        "key `{press}` appears twice in [{}]",
                        context.name()
                    )));
                }
                if name.get_ref() == "none" {
                    self.bound.remove(&(context, press));
                } else {
                    let command = command_of(context, name.get_ref()).map_err(wrong)?;
                    self.bound.insert((context, press), command);
                }
            }
        }
        match self.clash() {
            None => Ok(()),
            Some((press, a, b)) => {
                let span = bound
                    .get(&(a.0, press))
                    .or_else(|| bound.get(&(b.0, press)))
                    .cloned();
                Err(LoadError::at(
                    file,
                    text,
                    span,
                    format!(
                        "key `{press}` means `{}` in [{}] and `{}` in [{}]; take one away with `{press} = \"none\"`",
                        a.1.spec().name,
                        a.0.name(),
                        b.1.spec().name,
                        b.0.name()
                    ),
                ))
            }
        }
    }

    /// The first key with two meanings in one focus.
    fn clash(&self) -> Option<(KeyPress, Meaning, Meaning)> {
        for focus in FOCUSES {
            for ((context, press), command) in &self.bound {
                if !focus.contains(context) {
                    continue;
                }
                for other in focus.iter().filter(|other| *other != context) {
                    if let Some(meaning) = self.bound.get(&(*other, *press)) {
                        return Some((*press, (*context, *command), (*other, *meaning)));
                    }
                }
            }
        }
        None
    }

    /// The command of a key, trying the contexts in this order.
    pub fn command(&self, press: KeyPress, contexts: &[Context]) -> Option<Command> {
        contexts
            .iter()
            .find_map(|context| self.bound.get(&(*context, press)))
            .copied()
    }

    /// The keys of a command in a context, characters first.
    pub fn keys(&self, context: Context, command: Command) -> Vec<KeyPress> {
        let mut keys: Vec<KeyPress> = self
            .bound
            .iter()
            .filter(|((place, _), bound)| *place == context && **bound == command)
            .map(|((_, press), _)| *press)
            .collect();
        keys.small_sort_by_key(|press| (!matches!(press.key, Key::Char(_)), press.ctrl));
        keys
    }

    /// Each command of a context with its keys, in the registry's order; commands without a key are left out.
    pub fn listed(
        &self,
        context: Context,
    ) -> impl Iterator<Item = (&'static CommandSpec, Vec<KeyPress>)> + '_ {
        COMMANDS
            .iter()
            .filter(move |spec| spec.contexts.contains(&context))
            .map(move |spec| (spec, self.keys(context, spec.command)))
            .filter(|(_, keys)| !keys.is_empty())
    }

    /// Every command that has a key, in each of its places: the keys, what it does, the title of the place.
    pub fn rows(&self) -> impl Iterator<Item = (Vec<KeyPress>, &'static str, &'static str)> + '_ {
        Context::ALL.iter().flat_map(move |context| {
            let listed = self.listed(*context);
            listed.map(move |(spec, keys)| (keys, spec.doc, context.title()))
        })
    }

    /// Every binding, for validation.
    pub fn bindings(&self) -> impl Iterator<Item = (Context, KeyPress, Command)> + '_ {
        self.bound
            .iter()
            .map(|((context, press), command)| (*context, *press, *command))
    }
}

impl Default for Keymap {
    fn default() -> Self {
        Self::builtin()
    }
}

fn context_of(name: &str) -> Result<Context, String> {
    Context::ALL
        .iter()
        .copied()
        .find(|context| context.name() == name)
        .ok_or_else(|| {
            let known = Context::ALL.iter().map(|context| context.name());
            format!("there is no place `{name}`{}", nearest(name, known))
        })
}

fn press_of(context: Context, text: &str) -> Result<KeyPress, String> {
    let press = KeyPress::parse(text).ok_or_else(|| {
        format!("`{text}` is not a key; write a character, `enter`, `ctrl-f`, `f5`")
    })?;
    let typed = matches!(press.key, Key::Char(_)) && !press.ctrl && !press.alt;
    if typed && matches!(context, Context::Anywhere | Context::Prompt) {
        return Err(format!(
            "key `{press}` cannot be bound in [{}]: text is typed there",
            context.name()
        ));
    }
    Ok(press)
}

fn command_of(context: Context, name: &str) -> Result<Command, String> {
    let here = COMMANDS
        .iter()
        .filter(|spec| spec.contexts.contains(&context));
    let Some(command) = Command::from_name(name) else {
        return Err(format!(
            "there is no command `{name}`{}",
            nearest(name, COMMANDS.iter().map(|spec| spec.name))
        ));
    };
    if here.clone().any(|spec| spec.command == command) {
        return Ok(command);
    }
    Err(format!(
        "command `{name}` cannot be given in [{}]; it belongs in {}",
        context.name(),
        command
            .spec()
            .contexts
            .iter()
            .map(|context| format!("[{}]", context.name()))
            .collect::<Vec<_>>()
            .join(", ")
    ))
}

/// The key table of docs/keys.md: one row per command and context, from the registry and the default map.
pub fn markdown_table() -> String {
    let mut out = String::from("| keys | what | where |\n|---|---|---|\n");
    for (keys, what, place) in Keymap::builtin().rows() {
        let keys: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
        out.push_str(&format!(
            "| {} | {} | {place} |\n",
            keys.join(" "),
            what.replace('|', "\\|"),
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        Keymap::builtin()
            .with("keys.toml", text)
            .expect_err("must be refused")
            .to_string()
    }

    #[test]
    fn the_default_map_is_whole() {
        let map = Keymap::builtin();
        for spec in COMMANDS.iter() {
            // An action that the key of another does has none.
            if matches!(spec.command, Command::Action(name) if name.spec().key.is_none()) {
                continue;
            }
            for context in spec.contexts {
                assert!(
                    !map.keys(*context, spec.command).is_empty(),
                    "{} has no key in {context:?}",
                    spec.name
                );
            }
        }
    }

    #[test]
    fn no_capital_changes_anything_and_deletes_of_k9s_do_nothing() {
        let map = Keymap::builtin();
        for (_, press, command) in map.bindings() {
            if let Key::Char(c) = press.key
                && c.is_ascii_uppercase()
            {
                // A shell and a port-forward need the same grant, which `runtime` has.
                let is_other = matches!(
                    command,
                    Command::Bottom | Command::Shell | Command::PortForward | Command::GoToTime
                );
                assert!(is_other || command.opens_plan(), "{press}");
            }
            assert!(press != KeyPress::ctrl('d') && press != KeyPress::ctrl('k'));
        }
    }

    #[test]
    fn a_wrong_map_says_where_and_what_was_meant() {
        assert_eq!(
            error("[table]\nt = \"srot\"\n"),
            "keys.toml:2: there is no command `srot`; did you mean `sort`?"
        );
        assert!(
            error("[tabel]\nt = \"sort\"\n")
                .contains("keys.toml:1: there is no place `tabel`; did you mean `table`?")
        );
        assert!(error("[table]\nfoo = \"sort\"\n").contains("not a key"));
        assert!(error("[global]\nt = \"sort\"\n").contains("belongs in [table]"));
        assert!(error("[anywhere]\nx = \"quit\"\n").contains("text is typed there"));
        assert!(error("[global]\nj = \"help\"\n").contains("key `j` means"));
        assert!(error("[table]\nctrl-x = \"sort\"\nctrl-X = \"wide\"\n").contains("twice"));
        assert!(error("[table]\ns = 3\n").contains("keys.toml:2"));
    }

    /// A plan without any typed text.
    fn running() -> crate::overlay::Overlay {
        let request = crate::action_keys::ActionRequest::Continue(String::from("run-1"));
        crate::overlay::Overlay::plan(1, request, model::base::Moment::default())
    }

    #[test]
    fn every_focus_there_is_is_checked_for_clashes() {
        use crate::overlay::Overlay;
        use crate::view::view_trait as view;
        use table::actions::May;
        let views = [
            view::TABLE,
            view::COST,
            view::ALERTS,
            view::PLANS,
            view::HEATMAP,
            view::TEXT,
            view::LOGS,
        ];
        let dialogs = [
            Overlay::Help(Box::default()),
            Overlay::filter(""),
            Overlay::Copy,
            Overlay::Columns(0),
            running(),
            Overlay::Leaving(String::new()),
            Overlay::Missing(Default::default()),
        ];
        let dialogs = dialogs
            .iter()
            .filter_map(|dialog| dialog.contexts(&May::Yes));
        let all: Vec<_> = views.into_iter().chain(dialogs).collect();
        for focus in &all {
            assert!(FOCUSES.contains(focus), "{focus:?} is not checked");
        }
        assert_eq!(all.len(), FOCUSES.len(), "a focus that nothing has");
        assert!(error("[copy]\nctrl-z = \"copy-name\"\n").contains("means"));
    }

    #[test]
    fn a_users_map_names_only_what_differs() {
        let map = Keymap::builtin()
            .with("keys.toml", "[table]\ns = \"none\"\nt = \"sort\"\n")
            .expect("valid");
        assert_eq!(
            map.keys(Context::Table, Command::Sort),
            [KeyPress::char('t')]
        );
        assert_eq!(
            map.command(KeyPress::char('j'), &[Context::Table]),
            Some(Command::Down)
        );
    }

    #[test]
    fn the_markdown_table_has_every_command() {
        let table = markdown_table();
        let with_key = |spec: &&CommandSpec| !matches!(spec.command, Command::Action(name) if name.spec().key.is_none());
        for spec in COMMANDS.iter().filter(with_key) {
            assert!(
                table.contains(&spec.doc.replace('|', "\\|")),
                "{}",
                spec.name
            );
        }
    }
}
