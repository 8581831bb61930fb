//! The runs that this process carries out on real clusters, and how each goes on in a process of its own once this one ends.
//!
//! A run does not end with the screen: jobs that it has suspended would stay so. Another process of this program continues it from
//! the journal, in a process group of its own, so that the end of the terminal does not reach it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use source::kubeconfig::ContextChoice;

/// The global flags by which a process reaches the cluster of a run.
pub type ClusterFlags = Vec<OsString>;

/// The runs of this process by name, with the flags of their clusters.
#[derive(Clone, Debug, Default)]
pub struct OwnRuns {
    /// This program; `None` where no process may be started.
    program: Option<PathBuf>,
    runs: Arc<Mutex<BTreeMap<String, ClusterFlags>>>,
}

/// A run in progress, until it is dropped.
#[derive(Debug)]
pub struct OwnRun {
    all: OwnRuns,
    name: String,
}

impl Drop for OwnRun {
    fn drop(&mut self) {
        self.all.locked().remove(&self.name);
    }
}

impl OwnRuns {
    /// Runs that go on by this program.
    pub fn of(program: Option<PathBuf>) -> Self {
        Self {
            program,
            ..Self::default()
        }
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<String, ClusterFlags>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a run that begins. It ends when the value is dropped.
    #[must_use = "the run ends when it is dropped"]
    pub fn begin(&self, name: &str, flags: ClusterFlags) -> OwnRun {
        self.locked().insert(name.to_owned(), flags);
        OwnRun {
            all: self.clone(),
            name: name.to_owned(),
        }
    }

    /// The name of a run that would go on in a process of its own.
    pub fn first(&self) -> Option<String> {
        self.program.as_ref()?;
        self.locked().keys().next().cloned()
    }

    /// Starts a process for each run, and says what has become of each, one line a run. Call it once, before this process ends:
    /// the new processes wait until this one has let go of its runs.
    pub fn hand_over(&self) -> Vec<String> {
        let Some(program) = &self.program else {
            return Vec::new();
        };
        let runs = std::mem::take(&mut *self.locked());
        let lines = runs.into_iter().map(|(run, flags)| {
            let mut command = Command::new(program);
            // The end of a session and the hang-up of its terminal are sent to the group in the foreground.
            #[cfg(unix)]
            std::os::unix::process::CommandExt::process_group(&mut command, 0);
            let begun = command
                .args(flags)
                .args(["--write", "plan", "continue", &run, "--apply", "--detached"])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn();
            match begun {
                Ok(process) => format!(
                    "run {run} continues in process {}; `stokehold plan --log` shows it",
                    process.id()
                ),
                Err(error) => format!(
                    "run {run} is interrupted: {} cannot be started ({error}); continue it with `stokehold plan continue {run} --apply`",
                    program.display()
                ),
            }
        });
        lines.collect()
    }
}

/// The flags of a cluster of the kubeconfig; `context` is the name of its context.
pub fn cluster_flags(choice: &ContextChoice, context: &str) -> ClusterFlags {
    let mut flags: ClusterFlags = Vec::new();
    let mut say = |flag: &str, value: OsString| flags.extend([flag.into(), value]);
    if let Some(file) = &choice.kubeconfig {
        say("--kubeconfig", file.clone().into());
    }
    say("--context", context.into());
    if let Some(user) = &choice.impersonate {
        say("--as", user.into());
    }
    for group in &choice.impersonate_groups {
        say("--as-group", group.into());
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_handed_over_while_it_is_in_progress() {
        let none = OwnRuns::default();
        let held = none.begin("r1", Vec::new());
        assert_eq!((none.first(), none.hand_over()), (None, Vec::new()));
        drop(held);
        let runs = OwnRuns::of(Some(PathBuf::from("/nowhere/stokehold")));
        let (first, second) = (runs.begin("r1", Vec::new()), runs.begin("r2", Vec::new()));
        assert_eq!(runs.first().as_deref(), Some("r1"));
        drop(first);
        let messages = runs.hand_over();
        assert_eq!(messages.len(), 1);
        assert!(
            messages[0].starts_with("run r2 is interrupted: /nowhere/stokehold cannot be started"),
            "{messages:?}"
        );
        assert_eq!(runs.first(), None);
        drop(second);
    }

    #[test]
    fn the_process_reaches_the_same_cluster() {
        let choice = ContextChoice {
            kubeconfig: Some("k.yaml".into()),
            context: Some("other".to_owned()),
            impersonate: Some("ana".to_owned()),
            impersonate_groups: vec!["a".to_owned(), "b".to_owned()],
            ..ContextChoice::default()
        };
        let flags: Vec<String> = cluster_flags(&choice, "here")
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        assert_eq!(
            flags.join(" "),
            "--kubeconfig k.yaml --context here --as ana --as-group a --as-group b"
        );
    }
}
