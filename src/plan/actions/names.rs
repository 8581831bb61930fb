//! The names and words of a typed action: jobs and nodes that are named on a command line, in `--intent` or in the palette.

use clap::{Parser, Subcommand};
use engine::explanations;
use engine::snapshot::Snapshot;
use model::base::{Name, ObjectKey, SmallSort};
use model::plan::{Intent, JobName, Refusal};

use super::ActionArguments;
use crate::places;

/// Why a text is no intent.
#[derive(Clone, PartialEq, Debug)]
pub enum ParseError {
    /// It does not follow the grammar.
    Usage(String),
    /// It names something that does not exist.
    Refused(Refusal),
}

impl From<Refusal> for ParseError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Resolves typed names in a snapshot.
#[derive(Clone, Copy)]
pub struct NameResolver<'a> {
    pub snapshot: &'a Snapshot,
    /// The namespace of names without one; `None` where a document is read, which has no such namespace.
    pub namespace: Option<&'a str>,
}

impl NameResolver<'_> {
    /// A job: `NAMESPACE/NAME`, or the name alone where one job has it.
    ///
    /// # Errors
    /// It has another form.
    pub fn job(&self, text: &str) -> Result<JobName, ParseError> {
        match text.split('/').collect::<Vec<_>>().as_slice() {
            [namespace, name] if !namespace.is_empty() && !name.is_empty() => {
                Ok(JobName(ObjectKey::new(*namespace, *name)))
            }
            [name] if !name.is_empty() => match (self.elsewhere(name), self.namespace) {
                (Some(found), _) => Ok(found),
                (None, Some(namespace)) => Ok(JobName(ObjectKey::new(namespace, *name))),
                (None, None) => Err(ParseError::Usage(
                    match explanations::find(self.snapshot, name) {
                        Err(why) => why,
                        Ok(_) => {
                            format!("`{text}` is also a queue; write NAMESPACE/NAME of the job")
                        }
                    },
                )),
            },
            _ => Err(ParseError::Usage(format!(
                "`{text}` is not NAMESPACE/NAME of a job"
            ))),
        }
    }

    /// The only job with this bare name, if no job in the namespace and no queue has the name.
    pub fn elsewhere(&self, name: &str) -> Option<JobName> {
        let found = explanations::find(self.snapshot, name).ok()?;
        let key = &self.snapshot.workloads[found].key.key;
        let is_queue = self
            .snapshot
            .queues
            .iter()
            .any(|queue| *queue.name == *name);
        let is_here = self.namespace.is_some_and(|own| *key.namespace == *own);
        (!is_here && !is_queue).then(|| JobName(key.clone()))
    }

    /// The nodes of places, sorted, each once.
    ///
    /// # Errors
    /// A place does not exist or has no node.
    pub fn nodes(&self, named: &[String]) -> Result<Vec<Name>, ParseError> {
        let mut all = Vec::new();
        for place in named {
            all.extend(places::nodes(self.snapshot, place)?);
        }
        all.small_sort();
        all.dedup();
        Ok(all)
    }
}

/// The words of a line, split and unquoted as a shell does.
///
/// # Errors
/// A quotation is not closed.
pub fn split(line: &str) -> Result<Vec<String>, String> {
    shlex::split(line).ok_or_else(|| format!("a quotation in `{line}` is not closed"))
}

/// How an action is typed: `stokehold plan drain [OPTIONS] <NODES>...`.
pub fn command_line(spec: &super::ActionSpec) -> String {
    let mut all = ActionArguments::augment_subcommands(clap::Command::new("stokehold plan"));
    all.build();
    let own = all.find_subcommand_mut(spec.verb);
    let usage = own.map(|own| own.render_usage().to_string());
    // (Other forms of the same are in the lines below.)
    let usage = usage.as_deref().and_then(|usage| usage.lines().next());
    let usage = usage.unwrap_or_default();
    usage.trim_start_matches("Usage: ").to_owned()
}

/// The message of clap in one line, without its advice on `--help`.
pub fn usage(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let lines = text.lines().map(str::trim);
    let lines: Vec<&str> = lines
        .filter(|line| !line.is_empty() && !line.starts_with("For more information"))
        .collect();
    let words = lines.join("; ");
    words.strip_prefix("error: ").unwrap_or(&words).to_owned()
}

/// A line that holds an action and nothing else.
#[derive(Parser)]
#[command(
    no_binary_name = true,
    disable_help_flag = true,
    disable_help_subcommand = true,
    subcommand_value_name = "ACTION"
)]
struct TypedAction {
    #[command(subcommand)]
    action: ActionArguments,
}

/// The action of a line such as `drain pool/h100 --deadline 30m`; `plan` may stand before it.
///
/// # Errors
/// It does not follow the grammar.
pub fn action(line: &str) -> Result<ActionArguments, String> {
    let mut words = split(line)?;
    if words.first().is_some_and(|word| word == "plan") {
        words.remove(0);
    }
    if words.is_empty() {
        let verbs: Vec<&str> = super::ACTIONS.iter().map(|spec| spec.verb).collect();
        return Err(format!(
            "no action is named; write one of {}",
            verbs.join(", ")
        ));
    }
    let parsed = TypedAction::try_parse_from(words).map_err(|error| usage(&error))?;
    Ok(parsed.action)
}

/// The intent of a line such as `drain pool/h100 --deadline 30m`.
///
/// # Errors
/// It does not follow the grammar, or names something that does not exist.
pub fn intent(line: &str, names: &NameResolver<'_>) -> Result<Intent, ParseError> {
    action(line).map_err(ParseError::Usage)?.intent(names)
}
