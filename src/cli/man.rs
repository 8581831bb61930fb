//! `man`: manual pages, made from the command line itself.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_mangen::Man as Page;

use model::base::{Exit, Failure};

use super::common::out;

/// Which manual page to print, or where to write all of them.
#[derive(Args, Clone, Debug)]
pub struct Man {
    /// The command whose page to print, such as `explain job`; without one the page of stokehold itself
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
    /// Write the page of every command into this folder
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    all: Option<PathBuf>,
}

/// Runs `man` for the command line `root`.
///
/// # Errors
///
/// [`Exit::Usage`] for a command that does not exist, [`Exit::Failed`] for a folder that cannot be written.
pub(super) fn run(mut root: Command, man: &Man, out: &mut dyn Write) -> Result<Exit, Failure> {
    root.build();
    if let Some(folder) = &man.all {
        return write_all(&root, folder, out);
    }
    let page = render(&root, find(&root, &man.command)?);
    let page = page.map_err(|error| {
        let message = format!("man: cannot draw the page: {error}");
        Failure::new(Exit::Failed, message)
    })?;
    out::write(out, &String::from_utf8_lossy(&page))?;
    Ok(Exit::Done)
}

/// The subcommand that `words` name, one level a word.
fn find<'a>(root: &'a Command, words: &[String]) -> Result<&'a Command, Failure> {
    let mut at = root;
    for word in words {
        at = at.find_subcommand(word).ok_or_else(|| {
            let known: Vec<&str> = shown(at).map(Command::get_name).collect();
            let known = if known.is_empty() {
                "it has no subcommands".to_owned()
            } else {
                format!("its subcommands are {}", known.join(", "))
            };
            let name = at.get_bin_name().unwrap_or_else(|| at.get_name());
            let message = format!("man: {name} has no subcommand {word}; {known}");
            Failure::new(Exit::Usage, message)
        })?;
    }
    Ok(at)
}

/// The subcommands that help shows.
fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|sub| !sub.is_hide_set())
}

/// One page as roff. It names no date, so the same program writes the same bytes.
fn render(root: &Command, command: &Command) -> io::Result<Vec<u8>> {
    let version = root.get_version().unwrap_or_default();
    let mut page = Vec::new();
    Page::new(command.clone())
        .source(format!("{} {version}", root.get_name()))
        .manual("Stokehold")
        .render(&mut page)?;
    Ok(page)
}

fn write_all(root: &Command, folder: &Path, out: &mut dyn Write) -> Result<Exit, Failure> {
    let failed = |path: &Path, error: io::Error| {
        let message = format!("man: cannot write {}: {error}", path.display());
        Failure::new(Exit::Failed, message)
    };
    fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    let mut open = vec![root];
    while let Some(command) = open.pop() {
        open.extend(shown(command));
        // `stokehold-explain-job`: clap's own name for a subcommand on its own.
        let name = command
            .get_display_name()
            .unwrap_or_else(|| command.get_name());
        let path = folder.join(format!("{name}.1"));
        render(root, command)
            .and_then(|page| fs::write(&path, page))
            .map_err(|error| failed(&path, error))?;
        out::write(out, &format!("{}\n", path.display()))?;
    }
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    fn printed(words: &[&str]) -> Result<String, Failure> {
        let man = Man {
            command: words.iter().map(|word| (*word).to_owned()).collect(),
            all: None,
        };
        let mut out = Vec::new();
        run(Cli::command(), &man, &mut out)?;
        Ok(String::from_utf8(out).expect("is text"))
    }

    #[test]
    fn a_page_names_the_program_its_version_and_its_flags() {
        let page = printed(&[]).expect("is there");
        let title = format!(
            ".TH stokehold 1  \"stokehold {}\" Stokehold",
            env!("CARGO_PKG_VERSION")
        );
        assert!(page.contains(&title), "{page}");
        assert!(page.contains("stokehold\\-explain(1)"), "{page}");
        let page = printed(&["explain", "job"]).expect("is there");
        assert!(page.contains("stokehold explain job"), "{page}");
        assert!(page.contains("\\-\\-context"), "{page}");
        // What is required is named, and no more.
        let page = printed(&["engine", "plan"]).expect("is there");
        let usage = page.lines().find(|line| line.contains("[\\fB"));
        let required = r"] <\fB\-\-fleet\fR> <\fB\-\-intent\fR> ";
        assert!(usage.is_some_and(|line| line.ends_with(required)), "{page}");
    }

    #[test]
    fn an_unknown_command_is_wrong_use_and_the_known_ones_are_named() {
        let failure = printed(&["explain", "jbo"]).expect_err("is unknown");
        assert_eq!(failure.exit, Exit::Usage);
        assert!(failure.message.contains("job"), "{}", failure.message);
    }

    #[test]
    fn every_command_has_its_page() {
        fn count(command: &Command) -> usize {
            1 + shown(command).map(count).sum::<usize>()
        }
        let folder = tempfile::TempDir::new().expect("a temporary folder");
        let man = Man {
            command: Vec::new(),
            all: Some(folder.path().join("man1")),
        };
        let mut out = Vec::new();
        run(Cli::command(), &man, &mut out).expect("can be written");
        let pages = fs::read_dir(folder.path().join("man1")).expect("was made");
        let pages = pages.count();
        let mut root = Cli::command();
        root.build();
        assert_eq!(pages, count(&root), "two commands share a page");
        assert!(pages > 20, "{pages}");
        assert_eq!(String::from_utf8(out).expect("text").lines().count(), pages);
    }
}
