//! `rbac`: the least role that Stokehold needs, ready for `kubectl apply -f -`.

use std::io::Write;

use clap::{Args, ValueEnum};

use cluster::rights::{self, SHELL};
use model::base::{Exit, Failure};

use super::common::out;

/// Which role to print.
#[derive(Args, Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rbac {
    /// The role; with -n a Role in each namespace instead of a ClusterRole
    #[arg(default_value = "viewer")]
    pub role: RoleName,
}

/// A role on the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum RoleName {
    /// Reads everything that is shown, writes nothing
    Viewer,
    /// What viewer may, and carries out plans; bind it by a RoleBinding to keep it within a namespace
    Operator,
    /// Reads, and admits and suspends jobs: what `govern` runs with
    Govern,
    /// Reads, and opens shells and port-forwards in pods; bind it by a RoleBinding to keep it within a namespace
    Shell,
}

pub(super) fn run(rbac: Rbac, namespaces: &[String], out: &mut dyn Write) -> Result<Exit, Failure> {
    let text = match rbac.role {
        RoleName::Viewer => rights::viewer(namespaces),
        RoleName::Shell => format!("{}---\n{SHELL}", rights::viewer(namespaces)),
        RoleName::Govern => rights::govern(),
        RoleName::Operator => {
            format!("{}---\n{}", rights::viewer(namespaces), rights::operator())
        }
    };
    out::write(out, &text)?;
    Ok(Exit::Done)
}
