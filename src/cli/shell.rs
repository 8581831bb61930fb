//! `shell`: opens a shell in a pod or on a node, with kubectl. It needs the grant to write, like the console's key `S`.

use std::io::Write;

use clap::{Args, Subcommand};

use crate::runtime::actions::action_service::ActionService;
use crate::runtime::identity::random_identity;
use crate::runtime::kubectl;
use crate::runtime::kubectl::shell::{self as shell_process, ShellEnd};
use console::pod_access::{ShellTarget, shell_target};
use model::base::{Exit, Failure, Name, ObjectKey};
use source::kubeconfig::ContextChoice;
use table::Needs;
use table::navigation::Selection;

use super::common::out;
use super::common::setup::{self, Situation};

/// Flags of `shell`.
#[derive(Args, Clone, PartialEq, Eq, Debug)]
pub struct ShellFlags {
    #[command(subcommand)]
    target: Target,
}

#[derive(Subcommand, Clone, PartialEq, Eq, Debug)]
enum Target {
    /// In a pod
    Pod {
        /// NAME or NAMESPACE/NAME
        pod: String,
        /// Container; default: the pod's default container
        #[arg(short, long, value_name = "NAME")]
        container: Option<String>,
    },
    /// On a node, in a privileged pod that is removed afterwards
    Node {
        /// NAME
        node: String,
    },
    /// In the first running pod of a job
    Job {
        /// NAMESPACE/NAME
        job: String,
    },
}

pub(super) fn run(
    situation: &Situation,
    choice: ContextChoice,
    flags: &ShellFlags,
    err: &mut (dyn Write + Send),
) -> Result<Exit, Failure> {
    let refused = |why: String| Failure::new(Exit::Refused, why);
    // The grant is checked first: without it, no job is looked up in the cluster.
    // `true`: a credential plugin may use the terminal.
    let action_service = situation.host.block_on(async {
        ActionService::open(&situation.host, &situation.settings, choice, true)
    })?;
    let kubectl = action_service.kubectl().map_err(refused)?;
    let target = match &flags.target {
        Target::Node { node } => ShellTarget::Node(Name::new(node)),
        Target::Pod { pod, container } => {
            let default_namespace = situation.settings.scope.namespaces.first();
            let default_namespace =
                default_namespace.map_or(action_service.namespace(), String::as_str);
            let (namespace, name) = pod.split_once('/').unwrap_or((default_namespace, pod));
            let container = container.as_deref().map(Name::new);
            ShellTarget::Pod(ObjectKey::new(namespace, name), container)
        }
        Target::Job { job } => {
            let facts = setup::snapshot(situation, &Needs::decision(), err)?;
            let found = facts.fleet.job_named(job).ok_or_else(|| {
                Failure::new(
                    Exit::Failed,
                    format!("there is no job {job}; `stokehold get jobs -o name` lists them"),
                )
            })?;
            let failed = |why| Failure::new(Exit::Failed, why);
            shell_target(&[Selection::Job(found.id.clone())], &facts).map_err(failed)?
        }
    };
    let command = kubectl
        .shell(&target, random_identity())
        .map_err(|why| Failure::new(Exit::Usage, why))?;
    let end = situation
        .host
        .block_on(async { Ok(shell_process::run(&command).await) })?;
    match end {
        Ok(ShellEnd::Exited(ended)) if ended.status.success() => Ok(Exit::Done),
        // kubectl has printed the reason.
        Ok(ShellEnd::Exited(_) | ShellEnd::HungUp) => Ok(Exit::Failed),
        Ok(ShellEnd::Terminated) => Ok(Exit::Interrupted),
        Err(why) => {
            let line = kubectl::line(&command.arguments);
            out::print_message(
                err,
                &format!("run this command in another terminal: {line}"),
            );
            Err(Failure::new(Exit::Failed, why))
        }
    }
}
