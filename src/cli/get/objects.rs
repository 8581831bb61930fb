//! What `get` takes: one kind, `nodes`, several, `nodes,pods`, or objects as `-o name` prints them, `node/a100-1`.

use std::ffi::OsStr;
use std::io::Write;

use clap::ValueEnum;
use clap::builder::{EnumValueParser, PossibleValue, TypedValueParser};

use model::base::{Exit, Failure};
use model::cost::SpendScope;
use model::fleet::kinds;
use table::{Format, Kind};

use super::Get;
use super::get_kind::GetKind;
use crate::cli::common::out;

/// The first argument of `get`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Objects {
    /// At least one; each once, in the order of the command line.
    kinds: Vec<GetKind>,
    /// The name of `KIND/NAME`.
    name: Option<String>,
}

impl Objects {
    fn one(kind: GetKind) -> Self {
        Self {
            kinds: vec![kind],
            name: None,
        }
    }
}

/// Reads the first argument of `get`: help and completion list the kinds.
#[derive(Clone)]
pub struct ObjectsParser;

impl TypedValueParser for ObjectsParser {
    type Value = Objects;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<Objects, clap::Error> {
        let text = value.to_str().unwrap_or_default();
        if let Some((kind, name)) = object(text) {
            return Ok(Objects {
                name: Some(name),
                ..Objects::one(kind)
            });
        }
        let mut kinds = Vec::new();
        for word in text.split('/').next().unwrap_or(text).split(',') {
            let parser = EnumValueParser::<GetKind>::new();
            let kind = parser.parse_ref(command, argument, OsStr::new(word))?;
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        Ok(Objects { kinds, name: None })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let kinds = GetKind::value_variants().iter();
        Some(Box::new(kinds.filter_map(ValueEnum::to_possible_value)))
    }
}

/// The kind and name of an object as `-o name` prints it; `None` when the text has no `/` or its kind is not known.
fn object(text: &str) -> Option<(GetKind, String)> {
    let (word, name) = text.split_once('/')?;
    if let Ok(kind) = GetKind::from_str(word, true) {
        return Some((kind, name.to_owned()));
    }
    if let Some(kind) = job_kind(word) {
        // By the key of its row, which a job of another kind with the same name does not have.
        let exact = name.contains('/');
        let name = match exact {
            true => format!("{name} ({kind})"),
            false => name.to_owned(),
        };
        return Some((GetKind::Snapshot(Kind::Jobs), name));
    }
    // A row of `cost` begins with what the money is grouped by.
    let is_scope = SpendScope::ALL
        .into_iter()
        .any(|scope| scope.name() == word);
    is_scope.then(|| (GetKind::Snapshot(Kind::Cost), text.to_owned()))
}

/// The kind of a job's own object, in any case of letters: `jobset` is `JobSet`.
pub(in crate::cli) fn job_kind(word: &str) -> Option<&'static str> {
    let mut known = kinds::named().map(|known| known.kind);
    known.find(|kind| kind.eq_ignore_ascii_case(word))
}

/// The kind that the arguments of a `get` name first, as far as they are written.
pub(in crate::cli) fn first_kind(positional: &[String]) -> Option<GetKind> {
    let word = positional.first()?;
    if let Some((kind, _)) = object(word) {
        return Some(kind);
    }
    GetKind::from_str(word.split(',').next()?, true).ok()
}

impl Get {
    /// The only kind of a [part](Get::parts); otherwise the first.
    pub(in crate::cli) fn kind(&self) -> GetKind {
        self.objects
            .kinds
            .first()
            .copied()
            .unwrap_or(GetKind::Snapshot(Kind::Fleet))
    }

    /// One `get` for each kind, with the names of its objects.
    ///
    /// # Errors
    /// Arguments that do not go together.
    pub(in crate::cli) fn parts(&self) -> Result<Vec<Self>, Failure> {
        let refused = |message: String| Err(Failure::new(Exit::Usage, message));
        let mut parts: Vec<(GetKind, Vec<String>)> = Vec::new();
        match &self.objects.name {
            None if self.objects.kinds.len() > 1 && !self.names.is_empty() => {
                let message = "a NAME is of one kind: get KIND NAME, or get KIND/NAME KIND/NAME";
                return refused(message.to_owned());
            }
            None => {
                let kinds = self.objects.kinds.iter();
                parts.extend(kinds.map(|kind| (*kind, self.names.clone())));
            }
            Some(first) => {
                let mut all = vec![(self.kind(), first.clone())];
                for text in &self.names {
                    match object(text) {
                        Some(object) => all.push(object),
                        None => {
                            return refused(format!(
                                "`{text}` is not KIND/NAME, as the objects before it are"
                            ));
                        }
                    }
                }
                for (kind, name) in all {
                    if name.is_empty() {
                        return refused("a name is missing behind KIND/".to_owned());
                    }
                    match parts.iter_mut().find(|(known, _)| *known == kind) {
                        Some((_, names)) => names.push(name),
                        None => parts.push((kind, vec![name])),
                    }
                }
            }
        }
        if parts.len() > 1 {
            let several = "several kinds are printed only with -o table, wide or name";
            if !matches!(
                self.output.format(),
                Format::Table | Format::Wide | Format::Name
            ) {
                return refused(format!(
                    "{several}: get one kind at a time with this output"
                ));
            }
            if self.watch {
                return refused("--watch follows one kind: get one kind at a time".to_owned());
            }
        }
        let part = |(kind, names)| Self {
            objects: Objects::one(kind),
            names,
            ..self.clone()
        };
        Ok(parts.into_iter().map(part).collect())
    }
}

/// Runs each part of a `get`: one table after another, with a blank line between. If a part fails, the others
/// are printed all the same, unless the command line is wrong; the exit code is the highest.
///
/// # Errors
/// The command line is wrong, the only part fails, or output cannot be written.
pub(in crate::cli) fn each(
    parts: &[Get],
    out: &mut dyn Write,
    err: &mut (dyn Write + Send),
    mut run: impl FnMut(&Get, &mut dyn Write, &mut (dyn Write + Send)) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    if let [part] = parts {
        return run(part, out, err);
    }
    let mut exit = Exit::Done;
    let mut printed: Vec<String> = Vec::new();
    for part in parts {
        let mut text = Vec::new();
        match run(part, &mut text, err) {
            Ok(own) => exit = exit.max(own),
            Err(failure) if failure.exit == Exit::Usage => return Err(failure),
            Err(failure) => {
                out::print_message(err, &failure.message);
                exit = exit.max(failure.exit);
            }
        }
        let text = String::from_utf8_lossy(&text).into_owned();
        printed.extend((!text.is_empty()).then_some(text));
    }
    let names = parts
        .iter()
        .all(|part| part.output.format() == Format::Name);
    out::write(out, &printed.join(if names { "" } else { "\n" }))?;
    Ok(exit)
}
