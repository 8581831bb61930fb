//! kubectl arguments for shells and port-forwards: never a shell command line, and no name that is invalid in Kubernetes.

pub mod port_forward;
pub mod shell;

use std::ffi::OsString;
use std::io;

use serde_json::json;

use console::clipboard::quoted;
use console::pod_access::{Ports, ShellTarget};
use model::base::name::{is_dns_label, is_dns_subdomain, printable};
use model::base::{Name, ObjectKey};
use plan::grant::Grant;
use settings::ShellSettings;
use source::kubeconfig::{self, ContextChoice};

/// The program, found on PATH.
pub const PROGRAM: &str = "kubectl";

/// Command in a container: bash where it exists, else sh.
const IN_POD: &str = "command -v bash >/dev/null && exec bash || exec sh";

/// Command in the pod of a node: the node's own shell in a chroot, else the image's shell with the node's root at /host.
const ON_NODE: &str = "for shell in bash sh; do chroot /host $shell -c : 2>/dev/null && exec chroot /host $shell; done; \
    echo 'stokehold: the node has no shell; its root is at /host'; exec sh";

/// Seconds until the kubelet ends the pod of a node even if the console has crashed: a day.
const LONGEST: u32 = 86_400;

/// Message where a shell is requested on the simulated cluster.
pub const NO_CONTAINERS: &str = "the simulated cluster has no containers; `:ctx` opens a real one";

/// The right to run kubectl on one cluster, as the user of the console.
#[derive(Clone, Debug)]
pub struct Kubectl {
    context: Name,
    /// `--kubeconfig`, `--context`, `--as`, `--as-group`.
    identity: Vec<OsString>,
    shell: ShellSettings,
}

/// A kubectl command that opens a shell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShellCommand {
    pub arguments: Vec<OsString>,
    /// Arguments of the kubectl command that deletes a pod that the shell may have left.
    pub cleanup: Option<Vec<OsString>>,
}

impl Kubectl {
    /// kubectl for the granted cluster, with the kubeconfig and user of `choice`.
    pub fn new(grant: &Grant, choice: &ContextChoice, shell: &ShellSettings) -> Self {
        let mut identity = Vec::new();
        let mut say = |flag: &str, value: OsString| identity.extend([flag.into(), value]);
        if let Some(file) = &choice.kubeconfig {
            say("--kubeconfig", file.clone().into());
        }
        // In a pod there is no kubeconfig and no context: kubectl uses the in-cluster configuration as we do.
        let known = kubeconfig::contexts(choice).map_or_else(|_| Vec::new(), |(names, _)| names);
        if known.iter().any(|name| *name == **grant.context()) {
            say("--context", grant.context().as_str().into());
        }
        if let Some(user) = &choice.impersonate {
            say("--as", user.into());
        }
        for group in &choice.impersonate_groups {
            say("--as-group", group.into());
        }
        Self {
            context: grant.context().clone(),
            identity,
            shell: shell.clone(),
        }
    }

    /// Context of the cluster.
    pub fn context(&self) -> &Name {
        &self.context
    }

    fn with(&self, arguments: &[&str]) -> Vec<OsString> {
        let own = arguments.iter().map(OsString::from);
        self.identity.iter().cloned().chain(own).collect()
    }

    /// A shell. `number` is unique among shells and makes the name of a node's pod unique.
    ///
    /// # Errors
    /// A name is invalid in Kubernetes.
    pub fn shell(&self, target: &ShellTarget, number: u64) -> Result<ShellCommand, String> {
        match target {
            ShellTarget::Pod(key, container) => {
                let (namespace, pod) = checked(key)?;
                let mut words = vec!["-n", namespace, "exec", "-it", pod];
                if let Some(container) = container {
                    words.extend(["-c", valid(container, is_dns_label)?]);
                }
                words.extend(["--", "sh", "-c", IN_POD]);
                Ok(ShellCommand {
                    arguments: self.with(&words),
                    cleanup: None,
                })
            }
            ShellTarget::Node(node) => {
                let overrides = self.pod_on(valid(node, is_dns_subdomain)?).to_string();
                let (name, namespace) = (
                    format!("stokehold-shell-{number:016x}"),
                    &self.shell.namespace,
                );
                let image = format!("--image={}", self.shell.image);
                let overrides = format!("--overrides={overrides}");
                let run = [
                    "-n",
                    namespace,
                    "run",
                    &name,
                    "--rm",
                    "-it",
                    "--restart=Never",
                    &image,
                    &overrides,
                ];
                let delete = [
                    "-n",
                    namespace,
                    "delete",
                    "pod",
                    &name,
                    "--ignore-not-found",
                    "--wait=false",
                ];
                Ok(ShellCommand {
                    arguments: self.with(&run),
                    cleanup: Some(self.with(&delete)),
                })
            }
        }
    }

    /// A privileged pod on a node. It ends with its shell, since standard input is read only once.
    fn pod_on(&self, node: &str) -> serde_json::Value {
        json!({
            "apiVersion": "v1",
            "metadata": {"labels": {"app.kubernetes.io/managed-by": "stokehold"}},
            "spec": {
                "nodeName": node,
                "hostPID": true,
                "hostNetwork": true,
                "restartPolicy": "Never",
                "activeDeadlineSeconds": LONGEST,
                "terminationGracePeriodSeconds": 0,
                "automountServiceAccountToken": false,
                "tolerations": [{"operator": "Exists"}],
                "containers": [{
                    "name": "shell",
                    "image": self.shell.image,
                    "command": ["sh", "-c", ON_NODE],
                    "stdin": true,
                    "stdinOnce": true,
                    "tty": true,
                    "securityContext": {"privileged": true},
                    "volumeMounts": [{"name": "host", "mountPath": "/host"}],
                }],
                "volumes": [{"name": "host", "hostPath": {"path": "/"}}],
            },
        })
    }

    /// A port-forward on the loopback interface.
    ///
    /// # Errors
    /// A name is invalid in Kubernetes.
    pub fn port_forward(&self, pod: &ObjectKey, ports: Ports) -> Result<Vec<OsString>, String> {
        let (namespace, pod) = checked(pod)?;
        let (pod, ports) = (format!("pod/{pod}"), ports.to_string());
        Ok(self.with(&[
            "-n",
            namespace,
            "port-forward",
            "--address=127.0.0.1",
            &pod,
            &ports,
        ]))
    }
}

fn checked(key: &ObjectKey) -> Result<(&str, &str), String> {
    Ok((
        valid(&key.namespace, is_dns_label)?,
        valid(&key.name, is_dns_subdomain)?,
    ))
}

fn valid(name: &str, is: fn(&str) -> bool) -> Result<&str, String> {
    match is(name) {
        true => Ok(name),
        false => Err(format!(
            "`{}` is not a valid Kubernetes name: kubectl is not run with it",
            printable(name)
        )),
    }
}

/// The command as a line to paste into a shell.
pub fn line(arguments: &[OsString]) -> String {
    let words = arguments.iter().map(|word| {
        let word = word.to_string_lossy();
        match word.strip_prefix("--").or(word.strip_prefix('-')) {
            // Our own flags stay unquoted; anything else that a shell could interpret is quoted.
            Some(flag) if flag.is_empty() || flag == quoted(flag) => word.into_owned(),
            _ => quoted(&word),
        }
    });
    let line: Vec<String> = std::iter::once(PROGRAM.to_owned()).chain(words).collect();
    line.join(" ")
}

/// Why kubectl did not start.
pub fn not_started(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => {
            String::from("kubectl is not on PATH: install it, or extend PATH")
        }
        _ => format!("kubectl does not start: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::sync::Arc;

    use settings::{Inputs, load};

    fn kubectl(choice: &ContextChoice, context: &str) -> Kubectl {
        let settings = load(&Inputs {
            flags: vec![("--write".into(), "write".into(), "true".into())],
            ..Inputs::default()
        });
        let settings = settings.expect("is right");
        #[expect(
            clippy::disallowed_methods,
            reason = "a test has no settings of its own"
        )]
        let grant = Grant::from_settings(&settings, &Name::new(context), false).expect("granted");
        Kubectl::new(&grant, choice, &settings.shell)
    }

    /// A choice whose kubeconfig has the context `prod`.
    fn choice(folder: &tempfile::TempDir) -> ContextChoice {
        let file = folder.path().join("a config");
        let text = "apiVersion: v1\nkind: Config\ncontexts: [{name: prod, context: {cluster: c, user: u}}]\n";
        std::fs::write(&file, text).expect("can be written");
        ContextChoice {
            kubeconfig: Some(file),
            environment: Arc::new(|_| None),
            ..ContextChoice::default()
        }
    }

    fn words(arguments: &[OsString]) -> Vec<&str> {
        let words = arguments.iter().map(|word| word.to_str().expect("is text"));
        words.collect()
    }

    fn pod(namespace: &str, name: &str) -> ShellTarget {
        ShellTarget::Pod(ObjectKey::new(namespace, name), None)
    }

    #[test]
    fn a_shell_in_a_pod_is_opened_as_the_user_of_the_console() {
        let folder = tempfile::tempdir().expect("a folder");
        let choice = ContextChoice {
            impersonate: Some("ada".into()),
            impersonate_groups: vec!["sre".into(), "--on call".into()],
            ..choice(&folder)
        };
        let file = choice.kubeconfig.clone().expect("one is named");
        let target = ShellTarget::Pod(ObjectKey::new("nlp", "train-0.a"), Some("main".into()));
        let shell = kubectl(&choice, "prod")
            .shell(&target, 1)
            .expect("is right");
        let expected = [
            "--kubeconfig",
            file.to_str().expect("is text"),
            "--context",
            "prod",
            "--as",
            "ada",
            "--as-group",
            "sre",
            "--as-group",
            "--on call",
            "-n",
            "nlp",
            "exec",
            "-it",
            "train-0.a",
            "-c",
            "main",
            "--",
            "sh",
            "-c",
            "command -v bash >/dev/null && exec bash || exec sh",
        ];
        assert_eq!(words(&shell.arguments), expected);
        assert_eq!(shell.cleanup, None, "it makes nothing");
        // In a pod there is no context to name.
        let inside = ContextChoice {
            environment: Arc::new(|_| None),
            ..ContextChoice::default()
        };
        let shell = kubectl(&inside, "in-cluster")
            .shell(&pod("nlp", "a"), 1)
            .expect("is right");
        assert_eq!(words(&shell.arguments)[..3], ["-n", "nlp", "exec"]);
    }

    #[test]
    fn a_shell_on_a_node_runs_in_a_pod_that_is_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let kubectl = kubectl(&choice(&folder), "prod");
        let shell = kubectl
            .shell(&ShellTarget::Node("gpu-1.local".into()), 255)
            .expect("is right");
        let all = words(&shell.arguments);
        let own = &all[4..];
        let name = "stokehold-shell-00000000000000ff";
        assert_eq!(
            own[..8],
            [
                "-n",
                "default",
                "run",
                name,
                "--rm",
                "-it",
                "--restart=Never",
                "--image=docker.io/library/busybox:1.37"
            ]
        );
        let cleanup = shell.cleanup.expect("it makes a pod");
        assert_eq!(
            words(&cleanup)[4..],
            [
                "-n",
                "default",
                "delete",
                "pod",
                name,
                "--ignore-not-found",
                "--wait=false"
            ]
        );
        let json = own[8].strip_prefix("--overrides=").expect("the pod");
        let pod: serde_json::Value = serde_json::from_str(json).expect("is JSON");
        for (path, value) in [
            ("/spec/nodeName", json!("gpu-1.local")),
            ("/spec/hostPID", json!(true)),
            ("/spec/hostNetwork", json!(true)),
            ("/spec/tolerations", json!([{"operator": "Exists"}])),
            ("/spec/automountServiceAccountToken", json!(false)),
            ("/spec/activeDeadlineSeconds", json!(86_400)),
            ("/spec/volumes/0/hostPath/path", json!("/")),
            (
                "/spec/containers/0/volumeMounts/0/mountPath",
                json!("/host"),
            ),
            ("/spec/containers/0/securityContext/privileged", json!(true)),
            ("/spec/containers/0/stdinOnce", json!(true)),
            ("/spec/containers/0/tty", json!(true)),
        ] {
            assert_eq!(pod.pointer(path), Some(&value), "{path}");
        }
        assert!(
            !pod["spec"]["containers"][0]["command"]
                .to_string()
                .contains("gpu-1"),
            "no name in a shell's line"
        );
        let other = kubectl
            .shell(&ShellTarget::Node("gpu-1.local".into()), 256)
            .expect("is right");
        assert_ne!(other.cleanup, Some(cleanup), "each has a pod of its own");
    }

    #[test]
    fn a_port_forward_listens_on_this_machine_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let kubectl = kubectl(&choice(&folder), "prod");
        let key = ObjectKey::new("nlp", "serve-0");
        for (local, remote, ports) in [(8080, 80, "8080:80"), (0, 80, ":80")] {
            let arguments = kubectl
                .port_forward(&key, Ports { local, remote })
                .expect("is right");
            assert_eq!(
                words(&arguments)[4..],
                [
                    "-n",
                    "nlp",
                    "port-forward",
                    "--address=127.0.0.1",
                    "pod/serve-0",
                    ports
                ]
            );
        }
    }

    #[test]
    fn a_hostile_name_never_becomes_an_argument() {
        let folder = tempfile::tempdir().expect("a folder");
        let kubectl = kubectl(&choice(&folder), "prod");
        let ports = Ports {
            local: 0,
            remote: 80,
        };
        for bad in [
            "",
            "-it",
            "--kubeconfig=/tmp/evil",
            "a b",
            "a;reboot",
            "$(reboot)",
            "a\u{1b}[2J",
            "../a",
            "A",
        ] {
            let refused = [
                kubectl.shell(&pod("nlp", bad), 1).err(),
                kubectl.shell(&pod(bad, "a"), 1).err(),
                kubectl.shell(&ShellTarget::Node(bad.into()), 1).err(),
                kubectl
                    .shell(
                        &ShellTarget::Pod(ObjectKey::new("nlp", "a"), Some(bad.into())),
                        1,
                    )
                    .err(),
                kubectl
                    .port_forward(&ObjectKey::new("nlp", bad), ports)
                    .err(),
                kubectl.port_forward(&ObjectKey::new(bad, "a"), ports).err(),
            ];
            for why in refused {
                let why = why.unwrap_or_else(|| panic!("`{bad}` is taken"));
                assert!(!why.contains(char::is_control), "{why:?}");
            }
        }
    }

    #[test]
    fn a_missing_kubectl_is_reported_with_the_fix() {
        let message = not_started(&io::Error::from(io::ErrorKind::NotFound));
        assert!(
            message.contains("not on PATH") && message.contains("install"),
            "{message}"
        );
    }
}
