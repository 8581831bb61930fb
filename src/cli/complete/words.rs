//! The words of a command line as a shell passes them to a completion: as they were typed, with quotes and `~`. A script could expand
//! the words only by running them, so the program reads them itself.

use std::path::Path;

/// The words that the shell would pass to the program, the last of them unfinished. A word that was split within its quotes, as
/// the script for bash splits at each space, is one word again. `~` and `~/` are the home directory where no quotes hold them.
pub(super) fn read(typed: &[String], home: Option<&Path>) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = typed;
    while let Some((first, mut after)) = rest.split_first() {
        let mut text = first.clone();
        let mut word = Word::read(&text);
        while word.is_open
            && let Some((next, more)) = after.split_first()
        {
            text.push(' ');
            text.push_str(next);
            word = Word::read(&text);
            after = more;
        }
        // The shell continues an unfinished word as it was typed, so its `~` stays.
        let finished = !after.is_empty();
        words.push(match home.filter(|_| finished) {
            Some(home) => word.at_home(home),
            None => word.text,
        });
        rest = after;
    }
    words
}

/// A word without its quotes.
#[derive(PartialEq, Eq, Debug)]
struct Word {
    text: String,
    /// Length of the start of `text` that was not quoted, bytes.
    bare: usize,
    /// True when a quote is not closed, or a `\` is the last character.
    is_open: bool,
}

impl Word {
    fn read(typed: &str) -> Self {
        let mut text = String::new();
        let mut bare = None;
        let mut quote = None;
        let mut letters = typed.chars().peekable();
        let mut is_open = false;
        while let Some(letter) = letters.next() {
            match (letter, quote) {
                (letter, Some(open)) if letter == open => quote = None,
                ('\'' | '"', None) => {
                    bare.get_or_insert(text.len());
                    quote = Some(letter);
                }
                // Between double quotes a `\` escapes only these four characters.
                ('\\', Some('"')) if !matches!(letters.peek(), Some('"' | '\\' | '$' | '`')) => {
                    text.push('\\');
                }
                ('\\', None | Some('"')) => {
                    bare.get_or_insert(text.len());
                    match letters.next() {
                        Some(letter) => text.push(letter),
                        None => is_open = true,
                    }
                }
                (letter, _) => text.push(letter),
            }
        }
        Self {
            bare: bare.unwrap_or(text.len()),
            is_open: is_open || quote.is_some(),
            text,
        }
    }

    /// The word with its leading `~` replaced by the home directory; in `--flag=~/x`, the leading `~` of the value.
    fn at_home(self, home: &Path) -> String {
        let start = match self.text.split_once('=') {
            Some((flag, _)) if flag.starts_with("--") => flag.len() + 1,
            _ => 0,
        };
        let (before, value) = self.text.split_at(start);
        let rest = value.strip_prefix('~').filter(|_| start < self.bare);
        match rest.filter(|rest| rest.is_empty() || rest.starts_with('/')) {
            Some(rest) => format!("{before}{}{rest}", home.display()),
            None => self.text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_taken_off_and_the_home_directory_is_put_in() {
        for (typed, wanted) in [
            ("~/k1.yaml", "/home/ada/k1.yaml"),
            ("~", "/home/ada"),
            ("--kubeconfig=~/k1.yaml", "--kubeconfig=/home/ada/k1.yaml"),
            ("\"/path/k.yaml\"", "/path/k.yaml"),
            ("--kubeconfig=\"/path/k.yaml\"", "--kubeconfig=/path/k.yaml"),
            ("\"--kubeconfig=/path/k.yaml\"", "--kubeconfig=/path/k.yaml"),
            ("'/path/k'.yaml", "/path/k.yaml"),
            ("~/'my k'.yaml", "/home/ada/my k.yaml"),
            ("/my\\ k.yaml", "/my k.yaml"),
            ("\"a\\\"b\\c\"", "a\"b\\c"),
            ("'a\\b'", "a\\b"),
            // A quoted `~`, another user's, and one in the middle are no home directory.
            ("\"~/k1.yaml\"", "~/k1.yaml"),
            ("\\~/k1.yaml", "~/k1.yaml"),
            ("--kubeconfig='~/k'", "--kubeconfig=~/k"),
            ("~bob/k1.yaml", "~bob/k1.yaml"),
            ("/a/~/b", "/a/~/b"),
            ("", ""),
        ] {
            let typed = [typed.to_owned(), String::new()];
            let read = read(&typed, Some(Path::new("/home/ada")));
            assert_eq!(read, [wanted, ""], "{typed:?}");
        }
    }

    #[test]
    fn words_split_within_quotes_are_one_and_the_last_may_be_open() {
        for (line, wanted) in [
            (
                "--kubeconfig \"/my dir/k\" get ",
                &["--kubeconfig", "/my dir/k", "get", ""][..],
            ),
            (
                "--kubeconfig /my\\ dir/k g",
                &["--kubeconfig", "/my dir/k", "g"],
            ),
            ("get nodes \"a1", &["get", "nodes", "a1"]),
            ("get nodes 'a b", &["get", "nodes", "a b"]),
            ("get nodes ~/", &["get", "nodes", "~/"]),
        ] {
            let typed: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(read(&typed, Some(Path::new("/h"))), wanted, "{line}");
        }
    }
}
