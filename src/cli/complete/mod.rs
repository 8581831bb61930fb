//! Completion: the possible endings of a command line. A shell's script calls `__complete` with the
//! words so far, the last of them unfinished; the answer has the form of cobra's programs, which kubectl expects of its plugins:
//! one line per value with a tab and its help, then `:4`, or `:0` where the shell is to offer files.

mod names;
mod words;

use std::ffi::OsString;

use clap::{Arg, Command, ValueEnum};
use clap_complete::Shell;

use super::common::flags::{Global, GlobalFlags};
use crate::runtime::host::Host;
use names::CompletionCluster;

/// The command word of a completion script.
pub(super) const COMMAND: &str = "__complete";

/// The shell or program that completes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Completer {
    /// Completes names of objects, too
    Bash,
    /// Completes names of objects, too
    Zsh,
    /// Completes names of objects, too
    Fish,
    /// Commands, flags and their values
    Elvish,
    /// Commands, flags and their values
    Powershell,
    /// The program kubectl_complete-stokehold, which kubectl asks for its plugin
    Kubectl,
}

/// The script of a shell.
pub(super) fn script(completer: Completer, mut command: Command) -> String {
    let mut fixed = |shell: Shell| {
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut command, "stokehold", &mut text);
        String::from_utf8_lossy(&text).into_owned()
    };
    match completer {
        Completer::Bash => include_str!("stokehold.bash").to_owned(),
        Completer::Zsh => include_str!("stokehold.zsh").to_owned(),
        Completer::Fish => include_str!("stokehold.fish").to_owned(),
        Completer::Kubectl => include_str!("kubectl.sh").to_owned(),
        Completer::Elvish => fixed(Shell::Elvish),
        Completer::Powershell => fixed(Shell::PowerShell),
    }
}

/// The possible endings of these words, the last of which is unfinished. Nothing, without a message, where there are none.
pub(super) fn answer(host: Host, mut command: Command, words: &[OsString]) -> String {
    // Global flags are part of each subcommand once the command is built.
    command.build();
    let words: Vec<String> = words
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let words = words::read(&words, host.folders.home.as_deref());
    let line = CommandLine::read(&command, &words);
    let offers = line.offers(&CompletionCluster::of(&line.global(host)));
    let mut text: String = offers
        .all
        .iter()
        .map(|offer| match offer.help.is_empty() {
            true => format!("{}\n", offer.value),
            false => format!("{}\t{}\n", offer.value, offer.help),
        })
        .collect();
    text.push_str(if offers.files { ":0\n" } else { ":4\n" });
    text
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Completion {
    pub value: String,
    pub help: String,
}

impl Completion {
    fn new(value: impl Into<String>) -> Self {
        Self {
            value: value.into(),
            help: String::new(),
        }
    }

    fn with(value: impl Into<String>, help: Option<&clap::builder::StyledStr>) -> Self {
        let help = help.map(ToString::to_string).unwrap_or_default();
        Self {
            value: value.into(),
            help: help.lines().next().unwrap_or_default().to_owned(),
        }
    }
}

/// The possible endings, and whether file names are possible.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Completions {
    pub all: Vec<Completion>,
    pub files: bool,
}

/// A command line up to the cursor.
struct CommandLine<'c> {
    command: &'c Command,
    /// The names of the commands on the way there, without the program's own.
    path: Vec<&'c str>,
    flags: Vec<&'c Arg>,
    /// Flags that are given, with their values.
    given: Vec<(&'c str, String)>,
    /// The positional arguments so far.
    positional: Vec<String>,
    /// The flag whose value is unfinished.
    pending: Option<&'c Arg>,
    /// No flags follow any more.
    escaped: bool,
    /// The text before the unfinished value in its word: `--team=`.
    before: String,
    value: String,
}

impl<'c> CommandLine<'c> {
    fn read(command: &'c Command, words: &[String]) -> Self {
        let mut line = Self {
            command,
            path: Vec::new(),
            flags: command
                .get_arguments()
                .filter(|arg| !arg.is_positional())
                .collect(),
            given: Vec::new(),
            positional: Vec::new(),
            pending: None,
            escaped: false,
            before: String::new(),
            value: words.last().cloned().unwrap_or_default(),
        };
        for word in &words[..words.len().saturating_sub(1)] {
            line.take(word);
        }
        let flag = line.value.starts_with("--") && line.pending.is_none() && !line.escaped;
        if let Some((name, value)) = line.value.clone().split_once('=').filter(|_| flag)
            && let Some(arg) = line.long(&name[2..])
        {
            line.pending = Some(arg);
            line.before = format!("{name}=");
            line.value = value.to_owned();
        }
        line
    }

    fn long(&self, name: &str) -> Option<&'c Arg> {
        let mut flags = self.flags.iter().copied();
        flags.find(|arg| arg.get_long() == Some(name))
    }

    fn take(&mut self, word: &str) {
        if let Some(arg) = self.pending.take() {
            self.given.push((arg.get_id().as_str(), word.to_owned()));
            return;
        }
        if word == "--" && !self.escaped {
            self.escaped = true;
            return;
        }
        if let Some(long) = word.strip_prefix("--").filter(|_| !self.escaped) {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (long, None),
            };
            if let Some(arg) = self.long(name) {
                self.flag(arg, value);
            }
            return;
        }
        if let Some(short) = word.strip_prefix('-').filter(|rest| !rest.is_empty())
            && !self.escaped
        {
            // `-wn nlp`, `-nnlp`, `-n=nlp`: the first that takes a value has the rest.
            for (at, letter) in short.char_indices() {
                let mut flags = self.flags.iter().copied();
                let Some(arg) = flags.find(|arg| arg.get_short() == Some(letter)) else {
                    return;
                };
                let rest = &short[at + letter.len_utf8()..];
                if takes_value(arg) {
                    let rest = rest.strip_prefix('=').unwrap_or(rest);
                    self.flag(arg, Some(rest).filter(|rest| !rest.is_empty()));
                    return;
                }
                self.flag(arg, None);
            }
            return;
        }
        let named = |known: &&Command| known.get_name_and_visible_aliases().contains(&word);
        let mut below = self.command.get_subcommands();
        let found = below.find(|known| named(known) || known.get_all_aliases().any(|a| a == word));
        match found.filter(|_| self.positional.is_empty() && !self.escaped) {
            Some(next) => {
                // Flags of a command go with it; only global ones stay.
                self.flags.retain(|arg| arg.is_global_set());
                let own = next.get_arguments().filter(|arg| !arg.is_positional());
                self.flags.extend(own);
                self.path.push(next.get_name());
                self.command = next;
            }
            None => self.positional.push(word.to_owned()),
        }
    }

    fn flag(&mut self, arg: &'c Arg, value: Option<&str>) {
        match value {
            Some(value) => self.given.push((arg.get_id().as_str(), value.to_owned())),
            None if takes_value(arg) => self.pending = Some(arg),
            None => {}
        }
    }

    /// The values of a flag.
    fn all_of<'a>(&'a self, id: &'a str) -> impl Iterator<Item = &'a str> {
        let given = self.given.iter();
        given.filter_map(move |(known, value)| (*known == id).then_some(value.as_str()))
    }

    /// The selected cluster and scope.
    fn global(&self, host: Host) -> Global {
        let last = |id: &str| self.all_of(id).last().map(str::to_owned);
        let namespaces = self.all_of("namespace").flat_map(|names| names.split(','));
        let flags = GlobalFlags {
            kubeconfig: last("kubeconfig").map(Into::into),
            context: last("context"),
            namespace: namespaces.map(str::to_owned).collect(),
            impersonate: last("impersonate"),
            impersonate_groups: self
                .all_of("impersonate_groups")
                .map(str::to_owned)
                .collect(),
            team: last("team"),
            readonly: true,
            quiet: true,
            ..GlobalFlags::default()
        };
        Global { flags, host }
    }

    /// The possible endings of the line.
    fn offers(&self, cluster: &CompletionCluster) -> Completions {
        let mut offers = match self.pending {
            Some(arg) => self.values(arg, cluster),
            None if self.value.starts_with('-') && !self.escaped => self.flag_names(),
            None => {
                let mut offers = Completions::default();
                if self.positional.is_empty() && !self.escaped {
                    offers.all = commands(self.command);
                }
                if let Some(arg) = self.place() {
                    let values = self.values(arg, cluster);
                    offers.all.extend(values.all);
                    offers.files = values.files;
                }
                offers
            }
        };
        offers
            .all
            .retain(|offer| offer.value.starts_with(&self.value));
        for offer in &mut offers.all {
            offer.value.insert_str(0, &self.before);
        }
        offers
    }

    /// The positional argument that the unfinished word is.
    fn place(&self) -> Option<&'c Arg> {
        let all: Vec<&Arg> = self.command.get_positionals().collect();
        let many = |arg: &&&Arg| {
            let most = arg.get_num_args().map_or(1, |range| range.max_values());
            most > self.positional.len() + 1 - all.len()
        };
        match all.get(self.positional.len()) {
            Some(arg) => Some(arg),
            None => all.last().filter(many).copied(),
        }
    }

    fn flag_names(&self) -> Completions {
        let flags = self.flags.iter().filter(|arg| !arg.is_hide_set());
        let named = flags.filter_map(|arg| Some((arg.get_long()?, arg.get_help())));
        let all: Vec<Completion> = named
            .map(|(long, help)| Completion::with(format!("--{long}"), help))
            .collect();
        Completions { all, files: false }
    }

    fn values(&self, arg: &Arg, cluster: &CompletionCluster) -> Completions {
        let fixed = arg.get_possible_values();
        let fixed = fixed.iter().filter(|value| !value.is_hide_set());
        let mut all: Vec<Completion> = match takes_value(arg) {
            true => fixed
                .map(|value| Completion::with(value.get_name(), value.get_help()))
                .collect(),
            false => Vec::new(),
        };
        let path = self.path.join(" ");
        let named = names::of(
            &path,
            arg.get_id().as_str(),
            &self.positional,
            &self.value,
            cluster,
        );
        all.extend(named.into_iter().map(Completion::new));
        let files = arg.get_value_names().is_some_and(|names| {
            names
                .iter()
                .any(|name| matches!(name.as_str(), "FILE" | "FOLDER" | "DIR"))
        });
        Completions { all, files }
    }
}

fn takes_value(arg: &Arg) -> bool {
    arg.get_action().takes_values()
}

fn commands(of: &Command) -> Vec<Completion> {
    let shown = of
        .get_subcommands()
        .filter(|command| !command.is_hide_set());
    shown
        .map(|command| Completion::with(command.get_name(), command.get_about()))
        .collect()
}

#[cfg(test)]
mod tests;
