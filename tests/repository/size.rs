//! Counts the code of `src` and holds the counts: a change lowers a limit, and raises none without saying why.
//! `tests/size` prints the table.
//!
//! Lines of the program are those outside `#[cfg(test)]`; a module that only tests declare is theirs. A circle is a set of
//! files of one package of which each reaches each other by what it imports.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::imports::{circles, imports};
use super::rust_tokens::{Token, closing, is_name, item_end, tokens};
use super::workspace::{BESIDE, root, rust_files};

/// Most of each. A change that makes one less writes the new figure here.
const LIMITS: [(&str, usize); 6] = [
    // Kueue's own nomination (`engine::schedulers`) came in, 1,264 lines: flavors by quota, partial admission, preference. Then 397: its
    // topologies and usage beyond a queue's quotas, forecasts that stay while nothing happens, and the discipline `las` of `replay`. Then
    // 306: what Kueue decides by other rules is read and said (`engine::live::kueue`).
    ("lines of the program", 202_304),
    ("lines of hand-written JSON Schema", 0),
    ("doc lines of one to three words", 87),
    ("doc comments of one to three words", 41),
    ("names of several structs or enums", 4),
    ("circles of more than three files", 0),
];

/// Most words of a doc line, or of a whole doc comment, that says too little.
const FEW_WORDS: usize = 3;
/// Most files of a circle.
const CIRCLE: usize = 3;

/// Most files of a folder.
const FOLDER: usize = 25;

/// A file: its path in the repository and its text.
type Source = (String, String);

/// A file of the program.
struct File<'a> {
    path: &'a str,
    lines: usize,
    production: Production<'a>,
}

/// A file without what is only for tests.
struct Production<'a> {
    tokens: Vec<Token<'a>>,
    /// Lines that were cut.
    cut: usize,
    /// Files of the modules that are declared in what was cut: any of these paths, as far as they exist.
    test_files: Vec<String>,
}

/// The files in which the module `name` of the file `path` may stand; `own` is its `#[path]`.
fn module_files(path: &str, name: &str, own: Option<&str>) -> Vec<String> {
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    if let Some(own) = own {
        return vec![format!("{folder}/{}", own.trim_matches('"'))];
    }
    let folder = match file {
        "mod.rs" | "lib.rs" | "main.rs" => folder.to_owned(),
        file => format!("{folder}/{}", file.trim_end_matches(".rs")),
    };
    vec![
        format!("{folder}/{name}.rs"),
        format!("{folder}/{name}/mod.rs"),
    ]
}

/// The name of the module that an item declares in a file of its own.
fn declared<'a>(item: &[Token<'a>]) -> Option<&'a str> {
    let [.., keyword, name, end] = item else {
        return None;
    };
    (keyword.text == "mod" && end.text == ";").then_some(name.text)
}

fn production<'a>(path: &str, tokens: &[Token<'a>]) -> Production<'a> {
    let mut out = Production {
        tokens: Vec::with_capacity(tokens.len()),
        cut: 0,
        test_files: Vec::new(),
    };
    let (mut at, mut free) = (0, 0);
    while at < tokens.len() {
        let words = |range: std::ops::Range<usize>| {
            let words = tokens.get(range).unwrap_or_default();
            words.iter().map(|token| token.text)
        };
        if !words(at..at + 7).eq(["#", "[", "cfg", "(", "test", ")", "]"]) {
            out.tokens.push(tokens[at]);
            at += 1;
            continue;
        }
        let first = tokens[at].line.max(free);
        let (mut item, mut own) = (at + 7, None);
        while words(item..item + 2).eq(["#", "["]) {
            if words(item + 2..item + 4).eq(["path", "="]) {
                own = tokens.get(item + 4).map(|token| token.text);
            }
            item = closing(tokens, item + 1) + 1;
        }
        let end = item_end(tokens, item);
        if let Some(name) = declared(&tokens[item..=end]) {
            out.test_files.extend(module_files(path, name, own));
        }
        free = tokens[end].line + 1;
        out.cut += free.saturating_sub(first);
        at = end + 1;
    }
    out
}

/// What is counted of a folder.
#[derive(Default)]
struct Row {
    files: usize,
    lines: usize,
    doc_lines: usize,
    doc_comments: usize,
    names: usize,
    circles: usize,
    in_circles: usize,
    largest: usize,
}

/// What is counted of all.
struct Size {
    /// By crate; `cli` and `runtime` are one crate with the program.
    rows: BTreeMap<String, Row>,
    schema: usize,
    /// Names that several structs or enums have.
    names: BTreeSet<String>,
    /// The circles of more than three files.
    circles: Vec<BTreeSet<String>>,
}

/// The folder in `src` that a file is in.
fn folder(path: &str) -> String {
    let inner = path.trim_start_matches("src/");
    let folder = inner.split_once('/').map(|(folder, _)| folder);
    folder.unwrap_or("(program)").to_owned()
}

/// The doc lines, and the doc comments, of one to three words. A heading (`# Errors`) is no line: what is under it counts.
fn short_docs(text: &str) -> (usize, usize) {
    let few = |words: usize| usize::from((1..=FEW_WORDS).contains(&words));
    let (mut lines, mut comments, mut words) = (0, 0, 0);
    for line in text.lines().chain([""]) {
        let doc = line.trim_start().strip_prefix("///");
        match doc.filter(|doc| !doc.starts_with('/')) {
            Some(doc) if doc.trim_start().starts_with("# ") => words += FEW_WORDS + 1,
            Some(doc) => {
                let own = doc.split_whitespace().count();
                lines += few(own);
                words += own;
            }
            None => {
                comments += few(words);
                words = 0;
            }
        }
    }
    (lines, comments)
}

/// The structs and enums that a file defines.
fn types<'a>(tokens: &[Token<'a>]) -> Vec<&'a str> {
    let is_type = |pair: &&[Token]| matches!(pair[0].text, "struct" | "enum") && is_name(&pair[1]);
    let pairs = tokens.windows(2).filter(is_type);
    pairs.map(|pair| pair[1].text).collect()
}

/// The files of the program: those that no test declares.
fn program(sources: &[Source]) -> Vec<File<'_>> {
    let mut files: BTreeMap<&str, File> = BTreeMap::new();
    let (mut tests, mut every) = (Vec::new(), BTreeMap::new());
    for (path, text) in sources {
        let all = tokens(text);
        let production = production(path, &all);
        tests.extend(production.test_files.iter().cloned());
        let lines = text.lines().count() - production.cut;
        every.insert(path.as_str(), all);
        files.insert(
            path,
            File {
                path,
                lines,
                production,
            },
        );
    }
    while let Some(path) = tests.pop() {
        files.remove(path.as_str());
        let Some(all) = every.remove(path.as_str()) else {
            continue;
        };
        let modules = all.windows(3).filter_map(declared);
        tests.extend(modules.flat_map(|name| module_files(&path, name, None)));
    }
    files.into_values().collect()
}

fn count(sources: &[Source], schema: usize) -> Size {
    let mut rows: BTreeMap<String, Row> = BTreeMap::new();
    for (path, text) in sources {
        let row = rows.entry(folder(path)).or_default();
        let (lines, comments) = short_docs(text);
        row.doc_lines += lines;
        row.doc_comments += comments;
    }
    let files = program(sources);
    let mut defined: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for file in &files {
        let row = rows.entry(folder(file.path)).or_default();
        row.files += 1;
        row.lines += file.lines;
        for name in types(&file.production.tokens) {
            defined.entry(name).or_default().push(folder(file.path));
        }
    }
    defined.retain(|_, folders| folders.len() > 1);
    for folders in defined.values() {
        for folder in folders.iter().collect::<BTreeSet<_>>() {
            rows.entry(folder.clone()).or_default().names += 1;
        }
    }
    let mut large = Vec::new();
    let read = files
        .iter()
        .map(|file| (file.path, file.production.tokens.as_slice()));
    for circle in circles(&imports(&read.collect::<Vec<_>>())) {
        let Some(any) = circle.first() else { continue };
        let row = rows.entry(folder(files[*any].path)).or_default();
        row.largest = row.largest.max(circle.len());
        if circle.len() > CIRCLE {
            row.circles += 1;
            row.in_circles += circle.len();
            large.push(circle.iter().map(|at| files[*at].path.to_owned()).collect());
        }
    }
    Size {
        rows,
        schema,
        names: defined.into_keys().map(str::to_owned).collect(),
        circles: large,
    }
}

impl Size {
    fn sum(&self, of: impl Fn(&Row) -> usize) -> usize {
        self.rows.values().map(of).sum()
    }

    /// What is limited, in the order of [`LIMITS`].
    fn limited(&self) -> [usize; LIMITS.len()] {
        [
            self.sum(|row| row.lines),
            self.schema,
            self.sum(|row| row.doc_lines),
            self.sum(|row| row.doc_comments),
            self.names.len(),
            self.circles.len(),
        ]
    }

    fn table(&self) -> String {
        let mut out = String::from(
            "crate      files    lines  short doc lines  short docs  names  circles  files  largest\n",
        );
        let total = Row {
            files: self.sum(|row| row.files),
            lines: self.sum(|row| row.lines),
            doc_lines: self.sum(|row| row.doc_lines),
            doc_comments: self.sum(|row| row.doc_comments),
            names: self.names.len(),
            circles: self.circles.len(),
            in_circles: self.sum(|row| row.in_circles),
            largest: self.rows.values().map(|row| row.largest).max().unwrap_or(0),
        };
        let mut rows: Vec<(&str, &Row)> = Vec::new();
        rows.extend(self.rows.iter().map(|(name, row)| (name.as_str(), row)));
        rows.sort_by_key(|(_, row)| std::cmp::Reverse(row.lines));
        for (name, row) in rows.into_iter().chain([("total", &total)]) {
            writeln!(
                out,
                "{name:<10} {:>5} {:>8} {:>16} {:>11} {:>6} {:>8} {:>6} {:>8}",
                row.files,
                row.lines,
                row.doc_lines,
                row.doc_comments,
                row.names,
                row.circles,
                row.in_circles,
                row.largest
            )
            .unwrap();
        }
        out.push_str(
            "short: of one to three words; names: of several structs or enums, in each crate that has one, once in total;\n\
             circles: of more than three files, and the files in them; largest: also of two or three files\n\n",
        );
        for ((what, limit), now) in LIMITS.iter().zip(self.limited()) {
            writeln!(out, "{what:<36} {now:>8} of at most {limit}").unwrap();
        }
        let beside = BESIDE.iter().filter_map(|name| self.rows.get(*name));
        let beside: usize = beside.map(|row| row.lines).sum();
        let product = total.lines - beside;
        let what = format!("lines without {}", BESIDE.join(", "));
        writeln!(out, "{what:<36} {product:>8}: what `cargo build` builds").unwrap();
        out
    }

    /// Which limits do not hold, and every circle of more than three files.
    fn complaints(&self, limits: &[(&str, usize)]) -> Vec<String> {
        let counted = limits.iter().zip(self.limited());
        let above = counted.filter(|((_, limit), now)| now > limit);
        let mut out: Vec<String> = above
            .map(|((what, limit), now)| format!("{what}: {now}, at most {limit}"))
            .collect();
        out.extend(
            self.circles
                .iter()
                .map(|circle| format!("a circle: {circle:?}")),
        );
        out
    }
}

/// Lines of JSON Schema that somebody wrote: files of `config` that name its standard.
fn schema_lines(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).expect("a folder that can be read");
    let lines = entries.map(|entry| {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            return schema_lines(&path);
        }
        let text = fs::read_to_string(&path).unwrap_or_default();
        let is_schema = text.contains("\"$schema\"") && text.contains("json-schema.org");
        if is_schema { text.lines().count() } else { 0 }
    });
    lines.sum()
}

#[test]
fn the_code_grows_in_nothing_that_is_counted() {
    let mut files = Vec::new();
    rust_files(&root().join("src"), &mut files);
    let sources: Vec<Source> = files
        .iter()
        .map(|file| {
            let path = file.strip_prefix(root()).expect("of this workspace");
            let text = fs::read_to_string(file).expect("a text");
            (path.to_string_lossy().into_owned(), text)
        })
        .collect();
    let size = count(&sources, schema_lines(&root().join("config")));
    println!("{}", size.table());
    let complaints = size.complaints(&LIMITS);
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// Folders of too many files.
fn crowded<'a>(paths: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut folders: BTreeMap<&str, usize> = BTreeMap::new();
    for path in paths {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        *folders.entry(folder).or_default() += 1;
    }
    let full = folders.into_iter().filter(|(_, now)| *now > FOLDER);
    full.map(|(folder, now)| format!("{folder}: {now} files, at most {FOLDER}"))
        .collect()
}

#[test]
fn folders_are_divided_before_they_are_crowded() {
    let mut files = Vec::new();
    rust_files(&root().join("src"), &mut files);
    let paths: Vec<String> = files
        .iter()
        .map(|file| file.strip_prefix(root()).expect("of this workspace"))
        .map(|path| path.to_string_lossy().into_owned())
        .collect();
    assert!(paths.len() > 500, "src was not read");
    let complaints = crowded(paths.iter().map(String::as_str));
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    let many: Vec<String> = (0..=FOLDER).map(|at| format!("src/a/{at}.rs")).collect();
    let many = || many.iter().map(String::as_str);
    assert_eq!(crowded(many()), ["src/a: 26 files, at most 25"]);
    assert!(crowded(many().skip(1)).is_empty());
}

fn sources(files: &[(&str, &str)]) -> Vec<Source> {
    let owned = |(path, text): &(&str, &str)| (format!("src/{path}"), (*text).to_owned());
    files.iter().map(owned).collect()
}

#[test]
fn tests_are_no_lines_of_the_program_wherever_they_stand() {
    let files = sources(&[
        (
            "model/lib.rs",
            "//! Head.\nmod a;\n#[cfg(test)]\nmod tests;\n#[cfg(test)]\n#[path = \"b_tests.rs\"]\nmod other;\n",
        ),
        (
            "model/a.rs",
            "fn open() -> char {\n    let _: &'static str = r#\"} /* \" // {\"#; /* { /* */ */ '{'\n}\n\
             #[cfg(test)]\nmod tests {\n    const QUOTE: char = '\\'';\n    fn a() { \"}\"; }\n}\n\
             #[cfg(test)]\nconst A: [u8; 1] = [0];\nfn last() {}\n",
        ),
        ("model/tests/mod.rs", "mod deep;\nfn a() {}\n"),
        ("model/tests/deep.rs", "fn a() {}\n"),
        ("model/b_tests.rs", "fn a() {}\n"),
    ]);
    let size = count(&files, 0);
    let row = &size.rows["model"];
    assert_eq!((row.files, row.lines), (2, 2 + 4));
}

#[test]
fn doc_lines_count_by_their_words_and_comments_by_all_of_theirs() {
    let text = "/// Name.\nname: u8,\n/// What a node has for each of its\n/// many pods.\nfn a() {}\n///\n//// A b c.\n// Name.\n\
                /// Opens it.\n///\n/// # Errors\n/// It is gone.\nfn b() {}\n";
    assert_eq!(short_docs(text), (4, 1));
}

#[test]
fn a_name_counts_once_however_many_types_have_it() {
    let files = sources(&[
        ("model/a.rs", "struct Row;\nenum Only {}\nimpl Row {}\n"),
        (
            "table/b.rs",
            "pub enum Row {}\nfn f() { struct Row; }\n// struct Only;\n",
        ),
        ("table/c.rs", "#[cfg(test)]\nstruct Only;\n"),
    ]);
    assert_eq!(count(&files, 0).names, BTreeSet::from(["Row".to_owned()]));
}

#[test]
fn a_circle_goes_by_imports_and_not_by_what_a_file_exports_again() {
    let mut files = vec![
        (
            "table/lib.rs",
            "mod a; mod b; mod c; mod d; mod e; mod f;\npub use a::Row;\n",
        ),
        (
            "table/a.rs",
            "use super::{f, b::{self, c}};\nuse std::fmt;\n",
        ),
        ("table/b.rs", "use crate::{Row, c::*};\n"),
        ("table/c.rs", "fn f() { let _ = crate::d::new(); }\n"),
        ("table/f.rs", "pub(in crate::a) fn f() {}\n"),
        (
            "table/d.rs",
            "mod inner { use super::super::a as first; }\n",
        ),
        ("table/e.rs", "use super::a;\n"),
    ];
    let size = count(&sources(&files), 0);
    let found: Vec<Vec<&String>> = size
        .circles
        .iter()
        .map(|circle| circle.iter().collect())
        .collect();
    assert_eq!(
        found,
        [[
            "src/table/a.rs",
            "src/table/b.rs",
            "src/table/c.rs",
            "src/table/d.rs"
        ]]
    );

    let of = |most| size.complaints(&[("lines of the program", most)]).len();
    assert_eq!((of(100), of(6)), (1, 2));

    files[3].1 = "// No circle: crate::d::new() is named in a comment.\n";
    assert!(count(&sources(&files), 0).circles.is_empty());
}
