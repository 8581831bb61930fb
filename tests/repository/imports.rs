//! Which file imports which, and the circles that this makes: by `use` declarations, and by paths in code that begin with
//! `crate`, `self` or `super`. What a file exports again (`pub use`) is no import.

use std::collections::{BTreeMap, BTreeSet};

use super::rust_tokens::{Token, is_name};
use super::workspace::LAYERS;

/// The package of a file, and where its modules begin.
fn package(path: &str) -> (&str, &str) {
    let inner = path.trim_start_matches("src/");
    match inner.split_once('/') {
        Some((layer, rest)) if LAYERS.contains(&layer) => (layer, rest),
        _ => ("stokehold", inner),
    }
}

/// The path of the module that a file is, from its package on.
fn module(path: &str) -> Vec<&str> {
    let (package, inner) = package(path);
    let inner = inner.trim_end_matches(".rs");
    let mut out: Vec<&str> = [package].into_iter().chain(inner.split('/')).collect();
    if matches!(out.last(), Some(&"mod" | &"lib")) {
        out.pop();
    }
    out
}

/// A path that a file names: whether it is a declaration (`use`), whether that is public, and the inline modules around it.
struct Named<'a> {
    path: Vec<&'a str>,
    is_use: bool,
    is_public: bool,
    inline: Vec<&'a str>,
}

/// Reads the tree of a `use` declaration; gives where it ends.
fn use_tree<'a>(
    tokens: &[Token<'a>],
    mut at: usize,
    before: &[&'a str],
    out: &mut Vec<Vec<&'a str>>,
) -> usize {
    let mut path = before.to_vec();
    while let Some(token) = tokens.get(at) {
        match token.text {
            "::" => at += 1,
            "{" => {
                at += 1;
                while tokens.get(at).is_some_and(|token| token.text != "}") {
                    let next = use_tree(tokens, at, &path, out);
                    let is_comma = tokens.get(next).is_some_and(|token| token.text == ",");
                    at = (next + usize::from(is_comma)).max(at + 1);
                }
                return at + 1;
            }
            text if text == "*" || is_name(token) => {
                path.push(text);
                at += 1;
                match tokens.get(at).map(|token| token.text) {
                    Some("::") => {}
                    Some("as") => {
                        out.push(path);
                        return at + 2;
                    }
                    _ => {
                        out.push(path);
                        return at;
                    }
                }
            }
            _ => return at,
        }
    }
    at
}

/// Whether the visibility before `at` is one: `pub`, `pub(super)`.
fn is_public(tokens: &[Token], at: usize) -> bool {
    let before = &tokens[..at];
    let open = match before.last().map(|token| token.text) {
        Some(")") => before.iter().rposition(|token| token.text == "("),
        _ => Some(before.len()),
    };
    open.and_then(|open| before[..open].last())
        .is_some_and(|token| token.text == "pub")
}

/// Whether the path at `at` says who sees an item: `pub(in crate::world)`.
fn is_visibility(tokens: &[Token], at: usize) -> bool {
    let before = tokens[..at].iter().rev().map(|token| token.text);
    before.take(3).eq(["in", "(", "pub"])
}

/// The paths that a file names.
fn named<'a>(tokens: &[Token<'a>]) -> Vec<Named<'a>> {
    let mut out = Vec::new();
    let (mut at, mut depth, mut inline) = (0, 0, Vec::<(&str, usize)>::new());
    while at < tokens.len() {
        let next = |step: usize| tokens.get(at + step).map_or("", |token| token.text);
        let around = || inline.iter().map(|(name, _)| *name).collect();
        match tokens[at].text {
            "{" => depth += 1,
            "}" => {
                depth -= 1;
                inline.pop_if(|(_, begin)| *begin == depth);
            }
            "mod" if next(2) == "{" => inline.push((next(1), depth)),
            "use" if next(1) != "<" => {
                let mut paths = Vec::new();
                let end = use_tree(tokens, at + 1, &[], &mut paths);
                let is_public = is_public(tokens, at);
                out.extend(paths.into_iter().map(|path| Named {
                    path,
                    is_use: true,
                    is_public,
                    inline: around(),
                }));
                at = end;
            }
            "crate" | "self" | "super" if next(1) == "::" && !is_visibility(tokens, at) => {
                let mut path = vec![tokens[at].text];
                while next(2 * path.len() - 1) == "::"
                    && tokens.get(at + 2 * path.len()).is_some_and(is_name)
                {
                    path.push(next(2 * path.len()));
                }
                let end = at + 2 * (path.len() - 1);
                out.push(Named {
                    path,
                    is_use: false,
                    is_public: false,
                    inline: around(),
                });
                at = end;
            }
            _ => {}
        }
        at += 1;
    }
    out
}

/// The module that a name leads to, or the item with its module; `None` for another package, or a name that no module has.
/// `known` holds the modules that the file imported by name.
fn resolved<'a>(
    me: &[&'a str],
    named: &Named<'a>,
    modules: &BTreeMap<Vec<&'a str>, usize>,
    known: &BTreeMap<&'a str, Vec<&'a str>>,
) -> Option<Vec<&'a str>> {
    let mut path: Vec<&str> = me.iter().chain(&named.inline).copied().collect();
    let mut names = named.path.as_slice();
    if let (true, [rest @ .., "self"]) = (named.is_use, names) {
        names = rest;
    }
    match names {
        ["crate", rest @ ..] => {
            path.truncate(1);
            names = rest;
        }
        ["self", rest @ ..] => names = rest,
        ["super", ..] => {
            while let ["super", rest @ ..] = names {
                path.pop();
                names = rest;
            }
        }
        [name, rest @ ..] => {
            path.push(name);
            match known.get(name) {
                Some(module) => path.clone_from(module),
                None if modules.contains_key(&path) => {}
                None => return None,
            }
            names = rest;
        }
        [] => return None,
    }
    path.extend(names);
    Some(path)
}

/// The files, by their place, that each file imports.
pub fn imports(files: &[(&str, &[Token])]) -> Vec<BTreeSet<usize>> {
    let modules = files.iter().enumerate();
    let modules: BTreeMap<Vec<&str>, usize> =
        modules.map(|(at, (path, _))| (module(path), at)).collect();
    let imported = |(own, (path, tokens)): (usize, &(&str, &[Token]))| {
        let me = module(path);
        let (mut out, mut known) = (BTreeSet::new(), BTreeMap::new());
        for named in named(tokens) {
            let Some(mut path) = resolved(&me, &named, &modules, &known) else {
                continue;
            };
            if let (true, Some(last)) = (named.is_use && modules.contains_key(&path), path.last()) {
                known.insert(*last, path.clone());
            }
            while !named.is_public && !path.is_empty() && !modules.contains_key(&path) {
                path.pop();
            }
            let file = modules.get(&path).filter(|at| **at != own);
            out.extend(file.filter(|_| !named.is_public));
        }
        out
    };
    files.iter().enumerate().map(imported).collect()
}

/// The circles of more than one file.
pub fn circles(imports: &[BTreeSet<usize>]) -> Vec<BTreeSet<usize>> {
    let reached: Vec<BTreeSet<usize>> = (0..imports.len())
        .map(|from| {
            let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
            while let Some(at) = next.pop() {
                next.extend(imports[at].iter().filter(|to| seen.insert(**to)));
            }
            seen
        })
        .collect();
    let circle = |from: usize| -> BTreeSet<usize> {
        let back = |to: &&usize| reached[**to].contains(&from);
        reached[from].iter().filter(back).copied().collect()
    };
    let all: BTreeSet<BTreeSet<usize>> = (0..imports.len()).map(circle).collect();
    all.into_iter().filter(|circle| circle.len() > 1).collect()
}
