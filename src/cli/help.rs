//! The help of the command line: the commands in groups, and the flags of every command described once.

use clap::Command;

/// Longest line of help, columns.
pub(super) const MAX_WIDTH: usize = 100;

/// The groups of the commands in the program's own help, in its order.
const GROUPS: [(&str, &[&str]); 5] = [
    (
        "Look",
        &[
            "demo", "get", "describe", "top", "explain", "advise", "route", "what-if", "shot",
        ],
    ),
    ("Change", &["plan", "shell", "govern"]),
    ("Money", &["cost", "usage", "tco"]),
    ("Record", &["record", "replay", "diff", "watch", "export"]),
    (
        "Admin",
        &[
            "doctor",
            "config",
            "rbac",
            "keys",
            "schema",
            "exporter",
            "engine",
            "sim",
            "completions",
            "man",
        ],
    ),
];

/// The command line for help: the commands of `root` are in groups, and `-h` of a command names the place of the flags that every
/// command takes instead of listing them.
pub(super) fn grouped(root: Command) -> Command {
    let program = root.get_bin_name().unwrap_or_else(|| root.get_name());
    let hint = format!("Global flags: {program} --help");
    let root = root.mut_args(|arg| {
        let is_global = arg.is_global_set();
        arg.hide_short_help(is_global)
    });
    // clap has no headings for groups of subcommands: they are drawn here, and the flags as clap draws them.
    let mut flags = page("{all-args}")
        .version(env!("CARGO_PKG_VERSION"))
        .args(root.get_arguments().cloned());
    let short = format!("{}\n{hint}", flags.render_help().ansi());
    let long = flags.render_long_help().ansi().to_string();
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}{{after-help}}",
        commands(&root)
    );
    root.mut_subcommands(|command| with_hint(command, &hint))
        .help_template(template)
        .after_help(short)
        .after_long_help(long)
}

/// A command that only draws its help, by this template.
fn page(template: &'static str) -> Command {
    Command::new("page")
        .max_term_width(MAX_WIDTH)
        .disable_help_subcommand(true)
        .help_template(template)
}

/// The commands with their lines of help, each group under its heading.
fn commands(root: &Command) -> String {
    let names = GROUPS.iter().flat_map(|(_, names)| names.iter());
    let listed = names.enumerate().filter_map(|(order, name)| {
        let about = root.find_subcommand(name)?.get_about().cloned();
        let command = Command::new(*name).about(about.unwrap_or_default());
        Some(command.display_order(order))
    });
    let listed: Vec<Command> = listed.collect();
    let lines = page("{subcommands}").subcommands(listed).render_help();
    let lines = lines.ansi().to_string();
    let style = root.get_styles().get_header();
    let mut left = GROUPS.iter();
    // Commands of the group that are still to come.
    let mut rest = 0;
    let mut text = String::new();
    for line in lines.lines() {
        // A continued line is indented further.
        let is_command = line.starts_with("  ") && !line.starts_with("   ");
        if is_command && rest == 0 {
            let Some((title, names)) = left.next() else {
                break;
            };
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&format!("{style}{title}:{style:#}\n"));
            rest = names.len();
        }
        rest -= usize::from(is_command);
        text.push_str(line);
        text.push('\n');
    }
    text.trim_end().to_owned()
}

/// Ends the short help of a command, and of those below it, with `hint`.
fn with_hint(command: Command, hint: &str) -> Command {
    let command = command.mut_subcommands(|below| with_hint(below, hint));
    // Without a text of its own, the long help would end with the hint, too.
    let command = match command.get_after_long_help() {
        Some(_) => command,
        None => command.after_long_help(""),
    };
    command.after_help(hint.to_owned())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use clap::CommandFactory;

    use super::*;
    use crate::cli::get::EXAMPLES;
    use crate::cli::tests::defaults;
    use crate::cli::{Cli, CliCommand, get, parse};

    fn help(line: &str) -> String {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let help = parse(&words).expect_err("is help");
        assert!(!help.use_stderr(), "{line}");
        help.to_string()
    }

    #[test]
    fn each_command_is_in_one_group() {
        let root = Cli::command();
        let mut known: Vec<&str> = root.get_subcommands().map(Command::get_name).collect();
        let names = GROUPS.iter().flat_map(|(_, names)| names.iter().copied());
        let mut listed: Vec<&str> = names.collect();
        known.sort_unstable();
        listed.sort_unstable();
        assert_eq!(listed, known);
        grouped(Cli::command()).debug_assert();
    }

    #[test]
    fn the_commands_stand_under_the_heading_of_their_group() {
        for line in ["stokehold --help", "stokehold -h", "stokehold help"] {
            let text = help(line);
            let mut from = 0;
            for (title, names) in GROUPS {
                let names = names.iter().map(|name| format!("\n  {name} "));
                for wanted in [format!("\n{title}:\n")].into_iter().chain(names) {
                    let found = text[from..].find(&wanted);
                    let found = found.unwrap_or_else(|| panic!("{line}: no {wanted:?} in {text}"));
                    // The end of a line is the start of the next.
                    from += found + wanted.len() - 1;
                }
            }
            assert!(
                text.contains("Usage: stokehold [OPTIONS] [COMMAND]"),
                "{text}"
            );
        }
    }

    #[test]
    fn global_flags_are_in_long_help_and_short_help_names_it() {
        for line in [
            "stokehold --help",
            "stokehold get --help",
            "stokehold plan drain --help",
        ] {
            let text = help(line);
            assert!(text.contains("Cluster:\n"), "{line}: {text}");
            assert_eq!(text.matches("--kubeconfig <").count(), 1, "{line}: {text}");
            assert!(!text.contains("Global flags"), "{line}: {text}");
        }
        for line in [
            "stokehold -h",
            "stokehold get -h",
            "stokehold plan drain -h",
        ] {
            let text = help(line);
            assert!(!text.contains("--kubeconfig <"), "{line}: {text}");
            let hint = "\nGlobal flags: stokehold --help\n";
            assert!(text.ends_with(hint), "{line}: {text}");
        }
        let plugin = help("kubectl-stokehold get -h");
        let hint = "\nGlobal flags: kubectl stokehold --help\n";
        assert!(plugin.ends_with(hint), "{plugin}");
    }

    #[test]
    fn kinds_have_their_short_names_and_examples_are_understood() {
        let text = help("stokehold get --help");
        for wanted in ["(no)", "(po)", "(svc)", "(dev)", "Examples:"] {
            assert!(text.contains(wanted), "{wanted}: {text}");
        }
        let lines = EXAMPLES.lines().map(str::trim);
        let lines: Vec<&str> = lines
            .filter(|line| line.starts_with("stokehold "))
            .collect();
        assert!((3..=5).contains(&lines.len()), "{lines:?}");
        for line in lines {
            let words = plan::actions::split(line).expect("is quoted right");
            let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
            let cli = parse(&words).unwrap_or_else(|error| panic!("{line}: {error}"));
            let Some(CliCommand::Get(given)) = &cli.command else {
                panic!("{line}");
            };
            for part in given.parts().expect(line) {
                get::query(&part, &defaults()).expect(line);
            }
        }
    }
}
