//! Clipboard contents: names, rows, a Markdown table, or the kubectl command for the same objects.

use std::collections::BTreeMap;

use model::base::name::printable;
use table::Facts;

use table::navigation::Selection;

/// The form in which objects are copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum As {
    /// Names, one a line.
    Name,
    /// Rows with tab-separated cells.
    Row,
    /// The kubectl command that shows the objects.
    Kubectl,
    Markdown,
}

/// Maximum bytes: terminals drop longer OSC 52 sequences after base64 encoding.
pub const LONGEST: usize = 70_000;

/// A cell on one line, without tabs or other control characters.
fn cell(words: &str) -> String {
    printable(words).replace(['\t', '\n'], " ")
}

/// Names, one a line.
pub fn names(facts: &Facts, selection: &[Selection]) -> String {
    let names = selection
        .iter()
        .map(|selection| cell(&selection.title(facts)));
    let names: Vec<String> = names.collect();
    names.join("\n")
}

/// Rows, one a line, with tab-separated cells; several rows get a title line.
pub fn rows(heads: &[String], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|words| cell(words)).collect();
        cells.join("\t")
    };
    let titles = (rows.len() > 1).then(|| line(heads));
    let lines = titles
        .into_iter()
        .chain(rows.iter().map(|row| line(row)))
        .collect::<Vec<_>>();
    lines.join("\n")
}

pub fn markdown(heads: &[String], rows: &[Vec<String>]) -> String {
    let safe = |words: &str| cell(words).replace('\\', "\\\\").replace('|', "\\|");
    let mut out = String::new();
    let mut line = |cells: &mut dyn Iterator<Item = String>| {
        out.push('|');
        for words in cells {
            out.push(' ');
            out.push_str(&words);
            out.push_str(" |");
        }
        out.push('\n');
    };
    line(&mut heads.iter().map(|head| safe(head)));
    line(&mut heads.iter().map(|_| String::from("---")));
    for row in rows {
        line(&mut row.iter().map(|words| safe(words)));
    }
    out.trim_end().to_owned()
}

/// The kubectl commands that show these objects, one per kind and namespace; `None` when kubectl knows none of them.
pub fn kubectl(context: &str, selection: &[Selection]) -> Option<String> {
    let mut groups: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for selection in selection {
        let (kind, namespace, name) = match selection {
            Selection::Node(name) | Selection::Device(name, _) => {
                ("node".to_owned(), String::new(), name.to_string())
            }
            Selection::Pod(key) => (
                "pod".to_owned(),
                key.namespace.to_string(),
                key.name.to_string(),
            ),
            Selection::Job(job) => (
                job.kind.to_ascii_lowercase(),
                job.key.namespace.to_string(),
                job.key.name.to_string(),
            ),
            _ => continue,
        };
        let names = groups.entry((kind, namespace)).or_default();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let lines: Vec<String> = groups
        .into_iter()
        .map(|((kind, namespace), names)| {
            let mut line = format!("kubectl --context {}", quoted(context));
            if !namespace.is_empty() {
                line.push_str(&format!(" -n {}", quoted(&namespace)));
            }
            line.push_str(&format!(" get {}", quoted(&kind)));
            for name in names {
                line.push(' ');
                line.push_str(&quoted(&name));
            }
            line
        })
        .collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// A word quoted for the shell.
pub fn quoted(word: &str) -> String {
    let clean = cell(word);
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/:@=+".contains(&byte);
    if !clean.is_empty() && !clean.starts_with('-') && clean.bytes().all(plain) {
        return clean;
    }
    format!("'{}'", clean.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::base::{Name, ObjectKey};
    use model::fleet::job::JobKey;

    #[test]
    fn kubectl_names_kind_namespace_and_every_object_once() {
        let job = |name: &str| {
            Selection::Job(JobKey {
                key: ObjectKey::new("nlp", name),
                kind: Name::from("JobSet"),
            })
        };
        let selection = [
            job("llm"),
            job("sft"),
            Selection::Device(Name::from("n1"), 3),
            Selection::Device(Name::from("n1"), 4),
            Selection::Pool(Name::from("h100")),
        ];
        assert_eq!(
            kubectl("prod", &selection).expect("there are some"),
            "kubectl --context prod -n nlp get jobset llm sft\nkubectl --context prod get node n1"
        );
        assert_eq!(kubectl("prod", &selection[4..]), None);
        let hostile = [Selection::Node(Name::from("n1'; rm -rf ~ #\u{1b}[2J"))];
        assert_eq!(
            kubectl("a b", &hostile).expect("one"),
            "kubectl --context 'a b' get node 'n1'\\''; rm -rf ~ #\u{fffd}[2J'"
        );
    }

    #[test]
    fn tables_survive_any_text_in_their_cells() {
        let heads = ["JOB", "WHY"].map(String::from);
        let cells = vec![vec!["a|b".to_owned(), "two\nlines\tand \\".to_owned()]];
        let text = markdown(&heads, &cells);
        assert_eq!(text.lines().count(), 3);
        assert!(text.starts_with("| JOB | WHY |\n| --- | --- |\n| a\\|b |"));
        assert_eq!(rows(&heads, &cells).lines().count(), 1);
        assert_eq!(rows(&heads, &cells).matches('\t').count(), 1);
        let two = [cells.clone(), cells].concat();
        assert!(rows(&heads, &two).starts_with("JOB\tWHY\n"));
    }
}
