//! `govern`: queues, quotas and gangs for jobs on a cluster without a queueing system.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Subcommand;

use model::base::quantities::counted;
use model::base::{Exit, Failure, Name};
use model::fleet::accelerator::Catalog;
use model::fleet::queue::QueueKind;
use model::fleet::queue_document::{flavors_without_devices, read};
use source::local;

use super::out;

/// What to do besides governing.
#[derive(Subcommand, Clone, Debug)]
pub enum Govern {
    /// Check a document of queues, the content of `queues.toml`, before it is applied
    Check {
        /// The document
        file: PathBuf,
    },
}

/// Checks a document of queues: the first mistake with its line and the fix, else what it has.
pub(super) fn check(
    file: &Path,
    catalog: &Catalog,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Exit, Failure> {
    let place = file.display().to_string();
    let text = local::read_text(file)
        .map_err(|error| Failure::new(Exit::Usage, format!("{place}: cannot be read: {error}")))?;
    let queues =
        read(&text, &place).map_err(|fault| Failure::new(Exit::Usage, fault.to_string()))?;
    let known: Vec<Name> = (catalog.accelerators.iter())
        .map(|accelerator| Name::new(&accelerator.class))
        .collect();
    for (flavor, near) in flavors_without_devices(&queues, &known) {
        let near = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
        let words = format!(
            "{place}: `{flavor}` is no class of devices that comes with the program{near} `stokehold get pools` names those of a cluster"
        );
        out::say(err, &words);
    }
    let own = queues
        .iter()
        .filter(|queue| queue.key.kind == QueueKind::Queue);
    let mut parents: Vec<&Name> = queues.iter().filter_map(|it| it.parent.as_ref()).collect();
    parents.sort_unstable();
    parents.dedup();
    let parents = match parents.len() {
        0 => String::new(),
        count => format!(" and {}", counted(count as u64, "parent")),
    };
    let own = counted(own.count() as u64, "queue");
    out::write(out, &format!("{place}: ok, {own}{parents}\n"))?;
    Ok(Exit::Done)
}
