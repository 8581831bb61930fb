//! Shells and port-forwards: resolves the selection to a pod or node. kubectl opens them, in `runtime`.

use std::fmt;

use model::base::{Name, ObjectKey};
use model::fleet::observe::Phase;
use table::Facts;
use table::navigation::Selection;

use super::view::subject;

/// Where a shell is opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ShellTarget {
    /// In a container of a pod; `None` for the default container.
    Pod(ObjectKey, Option<Name>),
    /// On a node, in a debug pod that is removed afterwards.
    Node(Name),
}

impl fmt::Display for ShellTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(key, None) => write!(f, "pod {key}"),
            Self::Pod(key, Some(container)) => write!(f, "pod {key}, container {container}"),
            Self::Node(name) => write!(f, "node {name}"),
        }
    }
}

/// The two ends of a port-forward.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ports {
    /// Local port; 0 picks a free one.
    pub local: u16,
    pub remote: u16,
}

impl Ports {
    /// Parses `LOCAL`, `LOCAL:REMOTE` and `:REMOTE`; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let port = |text: &str| text.parse().ok().filter(|_| digits(text));
        let (local, remote) = match text.trim().split_once(':') {
            Some(("", remote)) => (0, port(remote)?),
            Some((local, remote)) => (port(local)?, port(remote)?),
            None => (port(text.trim())?, port(text.trim())?),
        };
        (remote > 0).then_some(Self { local, remote })
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.local {
            0 => write!(f, ":{}", self.remote),
            local => write!(f, "{local}:{}", self.remote),
        }
    }
}

/// A port-forward that is running or starting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortForward {
    /// Its number in this process.
    pub number: u64,
    /// The context of its cluster.
    pub context: Name,
    pub pod: ObjectKey,
    /// Its ports as requested.
    pub ports: Ports,
    /// Its listening address, `127.0.0.1:8080`; `None` until kubectl reports it.
    pub address: Option<String>,
}

/// Where to open a shell for the selection: the pod of a running job, the pod that a device is allocated to, otherwise its node.
///
/// # Errors
/// No such pod or node; the text says what to select.
pub fn shell_target(meant: &[Selection], facts: &Facts) -> Result<ShellTarget, String> {
    match meant {
        [Selection::Node(name)] => Ok(ShellTarget::Node(name.clone())),
        [Selection::Device(node, index)] => {
            let device = facts.fleet.node(node).and_then(|node| node.device(*index));
            let holder = device.and_then(|device| facts.first_holder(device));
            let running = holder.filter(|(pod, _)| pod.seen.phase == Phase::Running);
            Ok(match running {
                Some((pod, _)) => ShellTarget::Pod(pod.key().clone(), None),
                None => ShellTarget::Node(node.clone()),
            })
        }
        other => Ok(ShellTarget::Pod(
            pod_of(other, facts, "a node, a pod, a job or a device")?,
            None,
        )),
    }
}

/// The pod to forward ports to: itself, the first of a running job, or the one that a device is allocated to.
///
/// # Errors
/// No such pod, or it is not running.
pub fn running_pod(meant: &[Selection], facts: &Facts) -> Result<ObjectKey, String> {
    pod_of(meant, facts, "a pod, a job or a device")
}

fn pod_of(meant: &[Selection], facts: &Facts, fitting: &str) -> Result<ObjectKey, String> {
    let selection = match meant {
        [one @ (Selection::Pod(_) | Selection::Job(_) | Selection::Cost(..))] => one,
        [one @ (Selection::Device(..) | Selection::Source(_))] => one,
        [_, _, ..] => return Err(format!("one object at a time; {} are marked", meant.len())),
        _ => return Err(format!("put the cursor on {fitting}")),
    };
    let pods = subject::pods(facts, selection);
    // Exporter pods are not part of the fleet: kubectl reports whether they run.
    let mut running = pods.iter().filter(|key| {
        let pod = facts.fleet.pod(key);
        pod.is_none_or(|pod| pod.seen.phase == Phase::Running)
    });
    match running.next() {
        Some(key) => Ok(key.clone()),
        None => Err(format!("{} has no running pod", selection.heading(facts))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_read_as_kubectl_reads_them() {
        for (text, local, remote) in [
            ("8080", 8080, 8080),
            ("8080:80", 8080, 80),
            (" 8080:80 ", 8080, 80),
            (":80", 0, 80),
            ("0:80", 0, 80),
        ] {
            let ports = Ports::parse(text).expect(text);
            assert_eq!((ports.local, ports.remote), (local, remote), "{text}");
            assert_eq!(Ports::parse(&ports.to_string()), Some(ports), "{text}");
        }
        for bad in [
            "",
            ":",
            "0",
            "80:",
            "80:0",
            "65536",
            "-1",
            "+80",
            "http",
            "1:2:3",
            "8 0",
            "80 --address=0.0.0.0",
        ] {
            assert_eq!(Ports::parse(bad), None, "{bad}");
        }
    }
}
