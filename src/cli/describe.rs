//! `describe`: all facts of one object, in the words and the order of its page in the console.

use std::io::Write;

use clap::{Args, ValueEnum};

use console::view::describe::page::{Events, object_request, text};
use model::base::{Exit, Failure};
use model::object::ObjectNews;
use settings::Settings;
use table::navigation::Selection;
use table::output;
use table::{Facts, Format, Kind, Needs, Query, is_remainder, losses, silent};

use super::common::setup::{self, Situation};
use super::common::{console_options, out};
use super::get::get_kind::GetKind;
use super::get::objects::job_kind;

#[derive(Args, Clone, PartialEq, Eq, Debug)]
pub struct Describe {
    /// KIND NAME, or KIND/NAME as `get -o name` prints it; jobs and pods also as NAMESPACE/NAME
    #[arg(required = true, num_args = 1..=2, value_name = "OBJECT")]
    pub object: Vec<String>,
}

pub(super) fn run(
    situation: &Situation,
    describe: &Describe,
    out: &mut dyn Write,
    err: &mut (dyn Write + Send),
) -> Result<Exit, Failure> {
    let query = query(describe, &situation.settings)?;
    // The page may depend on readings: on those of its nodes, where the name determines them.
    let needs = Needs {
        readings: Needs::of(&query, Format::Json).readings,
        ..Needs::decision()
    };
    let (facts, news) = setup::page(
        situation,
        &needs,
        &|facts| {
            let (selection, _) = found(facts, &query).ok()?;
            object_request(facts, selection.first()?)
        },
        err,
    )?;
    let facts = crate::runtime::actions::explanation_task::answered(facts);
    let lost = losses(&facts, query.kind);
    let (all, others) = found(&facts, &query).map_err(|missing| {
        let exit = lost.iter().map(|(exit, _)| *exit).max();
        for (_, loss) in &lost {
            out::print_message(err, loss);
        }
        Failure::new(exit.unwrap_or(Exit::Failed), missing)
    })?;
    let [selection] = all.as_slice() else {
        let kind = query.kind.name();
        let message = match all.len() {
            0 => format!("this row has no page: use stokehold get {kind}"),
            count => format!(
                "{count} {kind} have that name: give one of {}",
                others.join(", ")
            ),
        };
        return Err(Failure::new(Exit::Usage, message));
    };
    let events = match &news {
        None => Events::None,
        Some(ObjectNews::Events(events, _)) => Events::Told(events),
        Some(ObjectNews::Failed(why)) => Events::Failed(why),
        Some(_) => Events::None,
    };
    out::write(out, &text(&facts, selection, &events))?;
    for (_, loss) in &lost {
        out::print_message(err, loss);
    }
    if let Some(loss) = silent(&facts, query.kind) {
        out::print_message(err, &loss);
    }
    let exit = lost.iter().map(|(exit, _)| *exit).max();
    Ok(exit.unwrap_or(Exit::Done))
}

fn query(describe: &Describe, settings: &Settings) -> Result<Query, Failure> {
    let usage = |message: String| Failure::new(Exit::Usage, message);
    let (kind, name) = match describe.object.as_slice() {
        [kind, name] => (kind.as_str(), name.as_str()),
        [one] => one
            .split_once('/')
            .ok_or_else(|| usage(format!("`{one}`: a name is missing: describe KIND NAME")))?,
        _ => return Err(usage("describe KIND NAME".to_owned())),
    };
    let (kind, name) = match GetKind::from_str(kind, true) {
        Ok(named) => match named.snapshot_kind() {
            Some(Kind::Cost | Kind::Fleet) | None => {
                let message = format!("{kind} has no objects: use stokehold get {kind}");
                return Err(usage(message));
            }
            Some(kind) => (kind, name.to_owned()),
        },
        // The kind of a job's own object, as `get jobs -o name` prints it.
        Err(_) if job_kind(kind).is_some() => (Kind::Jobs, name.to_owned()),
        Err(_) => {
            let known: Vec<&str> = Kind::ALL.iter().map(|kind| kind.singular()).collect();
            return Err(usage(model::base::document::unknown("kind", kind, &known)));
        }
    };
    Ok(Query {
        names: vec![name],
        scope: console_options::scope(settings),
        ..Query::all(kind)
    })
}

/// The objects that are called so, and their names.
fn found(facts: &Facts, query: &Query) -> Result<(Vec<Selection>, Vec<String>), String> {
    let rows = output::rows_of(facts, query).map_err(|missing| missing.to_string())?;
    let (spec, output) = (query.kind.spec(), query.kind.output());
    let (mut all, mut names) = (Vec::new(), Vec::new());
    for row in rows {
        let selection = (spec.selection)(facts, row);
        let selection = selection.filter(|_| !is_remainder(&(output.key)(facts, row)));
        // A device and its slices are one page.
        if let Some(selection) = selection.filter(|own| !all.contains(own)) {
            all.push(selection);
            names.push(output.printed_name(facts, row));
        }
    }
    Ok((all, names))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(object: &[&str]) -> Result<Query, Failure> {
        let object = object.iter().map(|word| (*word).to_owned()).collect();
        query(&Describe { object }, &crate::cli::tests::defaults())
    }

    #[test]
    fn objects_are_named_as_get_and_kubectl_name_them() {
        for (words, kind, name) in [
            (&["node", "a-1"][..], Kind::Nodes, "a-1"),
            (&["no", "a-1"], Kind::Nodes, "a-1"),
            (&["jobset/nlp/pretrain"], Kind::Jobs, "nlp/pretrain"),
            (&["device/a-1/gpu3"], Kind::Devices, "a-1/gpu3"),
            (&["pods", "nlp/x"], Kind::Pods, "nlp/x"),
        ] {
            let query = of(words).unwrap_or_else(|failure| panic!("{words:?}: {failure}"));
            assert_eq!(
                (query.kind, query.names.first().map(String::as_str)),
                (kind, Some(name))
            );
        }
        for wrong in [&["node"][..], &["cost", "x"], &["nod", "x"]] {
            assert_eq!(of(wrong).expect_err("is wrong").exit, Exit::Usage);
        }
    }

    #[test]
    fn every_row_of_every_kind_has_a_page() {
        let facts = table::sample::facts();
        for kind in Kind::ALL {
            if matches!(kind, Kind::Cost | Kind::Fleet) {
                continue;
            }
            let (all, names) = found(&facts, &Query::all(kind)).expect("all");
            for (selection, name) in all.iter().zip(&names) {
                let page = text(&facts, selection, &Events::None);
                assert!(
                    page.lines().count() > 1 && !page.contains("no longer exists"),
                    "{name}: {page}"
                );
            }
        }
    }
}
