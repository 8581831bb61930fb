//! The running plane: its folder, its `kubectl`, and our program pointed at it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::Value;

pub use super::turns::{Wait, acts, acts_for_long, alone, at_rest, beside, calm};

/// How long anything is waited for that is not held to a time: tests say what comes, and on a machine that is busy with other
/// things all of it comes late.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// The plane's state folder.
pub fn folder() -> PathBuf {
    variable("STOKEHOLD_LIVE_DIR")
}

/// The kubeconfig with a context for each of the plane's users.
pub fn kubeconfig() -> PathBuf {
    variable("STOKEHOLD_LIVE_KUBECONFIG")
}

/// What the API server has written down of each request.
pub fn audit() -> PathBuf {
    variable("STOKEHOLD_LIVE_AUDIT")
}

fn variable(name: &str) -> PathBuf {
    match std::env::var_os(name) {
        Some(path) => path.into(),
        None => panic!("{name} is not set: run tests/live/run"),
    }
}

/// What the exporters tell: which pod holds which device.
pub fn placement() -> Value {
    let text = std::fs::read_to_string(folder().join("placement.json")).expect("a placement");
    serde_json::from_str(&text).expect("a document")
}

/// Tells the exporters anew which of them there are and who holds what.
pub fn place() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/live/place");
    let done = Command::new(script).status().expect("place runs");
    assert!(done.success(), "tests/live/place: {done}");
}

/// What `kubectl` prints, as the administrator.
pub fn kubectl(arguments: &[&str]) -> String {
    let output = Command::new("kubectl")
        .arg("--context=live-admin")
        .args(arguments)
        .output()
        .expect("kubectl runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "kubectl {arguments:?}: {error}");
    String::from_utf8(output.stdout).expect("a text")
}

/// `kubectl`, for what is undone when a test ends: a failure is printed, because the test may have failed already.
pub fn undo(arguments: &[&str]) {
    let done = Command::new("kubectl")
        .args(["--context=live-admin", "--request-timeout=180s"])
        .args(arguments)
        .stdout(Stdio::null())
        .status();
    if !done.is_ok_and(|done| done.success()) {
        eprintln!("not undone: kubectl {arguments:?}");
    }
}

/// Undoes what a test has changed when the value ends, whatever becomes of the test.
pub struct Undo<F: FnMut()>(pub F);

impl<F: FnMut()> Drop for Undo<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// A process that is killed when the value ends.
pub struct Ends(pub Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A configuration home (`XDG_CONFIG_HOME`) with these settings.
pub fn home(settings: &str) -> tempfile::TempDir {
    let home = tempfile::tempdir().expect("a folder");
    let folder = home.path().join("stokehold");
    std::fs::create_dir(&folder).expect("a folder");
    std::fs::write(folder.join("stokehold.toml"), settings).expect("written");
    home
}

/// What curl prints.
pub fn curl(arguments: &[&str]) -> String {
    let output = Command::new("curl").arg("-sSf").args(arguments).output();
    let output = output.expect("curl runs");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "curl {arguments:?}: {message}");
    String::from_utf8(output.stdout).expect("a text")
}

/// `kubectl apply` of these objects.
pub fn apply(objects: &str) {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), objects).expect("written");
    let path = file.path().to_str().expect("a path");
    // (For its validation kubectl would read all schemas of the server, which makes them anew whenever an API is added.)
    let flags = ["--server-side", "--force-conflicts", "--validate=false"];
    kubectl(&[&["apply"], &flags[..], &["-f", path]].concat());
}

/// Gives a user exactly the role that `stokehold rbac viewer` prints.
pub fn listed_role(user: &str) {
    let role = HttpAnswer::of(&mut stokehold("live-admin", &["rbac", "viewer"]));
    assert_eq!(role.code, Some(0), "{role:?}");
    apply(&role.out);
    apply(&format!(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {{name: {user}}}\n\
         roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: stokehold-viewer}}\n\
         subjects: [{{apiGroup: rbac.authorization.k8s.io, kind: User, name: {user}}}]\n"
    ));
}

/// A kubeconfig of one context `name` with this cluster and user, in a folder of its own.
pub fn own_kubeconfig(name: &str, cluster: &Value, user: &Value) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("kubeconfig");
    let config = serde_json::json!({
        "apiVersion": "v1", "kind": "Config", "current-context": name,
        "clusters": [{"name": "live", "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": "live", "user": name}}],
    });
    std::fs::write(&path, config.to_string()).expect("written");
    (folder, path)
}

/// The cluster and the user of a context of the plane's kubeconfig.
pub fn parts(context: &str) -> (Value, Value) {
    let view = ["config", "view", "--raw", "--minify", "-o", "json"];
    let output = Command::new("kubectl")
        .arg(format!("--context={context}"))
        .args(view)
        .output()
        .expect("kubectl runs");
    let config: Value = serde_json::from_slice(&output.stdout).expect("a document");
    (
        config["clusters"][0]["cluster"].clone(),
        config["users"][0]["user"].clone(),
    )
}

/// The items of a list, as `kubectl` gets them.
pub fn items(what: &str) -> Vec<Value> {
    let mut list: Value =
        serde_json::from_str(&kubectl(&["get", what, "-A", "-o", "json"])).expect("a list");
    match list["items"].take() {
        Value::Array(items) => items,
        other => panic!("kubectl get {what}: {other}"),
    }
}

/// An object, as `kubectl` shows it.
pub fn object(namespace: &str, kind: &str, name: &str) -> Value {
    let shown = kubectl(&["-n", namespace, "get", kind, name, "-o", "json"]);
    serde_json::from_str(&shown).expect("an object")
}

/// Our program with these arguments, as this context, without its progress on standard error.
pub fn stokehold(context: &str, arguments: &[&str]) -> Command {
    stokehold_at(&kubeconfig(), context, arguments)
}

/// The same with another kubeconfig.
pub fn stokehold_at(kubeconfig: &Path, context: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stokehold"));
    command
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .args(["--context", context, "--quiet"])
        .args(arguments)
        .stdin(Stdio::null());
    command
}

/// What the program printed, and how it ended.
pub struct HttpAnswer {
    /// Exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl std::fmt::Debug for HttpAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let out: String = self.out.chars().take(2000).collect();
        write!(f, "exit code {:?}\n{}\n{out}", self.code, self.err)
    }
}

impl HttpAnswer {
    /// Runs a command to its end.
    pub fn of(command: &mut Command) -> Self {
        let output = command.output().expect("stokehold runs");
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).expect("a text"),
            err: String::from_utf8(output.stderr).expect("a text"),
        }
    }

    /// What a command prints that misses nothing.
    pub fn whole(command: &mut Command) -> Self {
        let answer = Self::read(command);
        let is_whole = answer.code == Some(0) && answer.err.is_empty();
        assert!(is_whole, "{command:?}: {answer:?}");
        answer
    }

    /// Runs a command, and runs it again while it says that exporters did not answer in time: the machine may be busy.
    pub fn read(command: &mut Command) -> Self {
        let _waited = Wait::begins("every exporter's answer");
        let end = Instant::now() + PATIENCE;
        loop {
            let answer = Self::of(command);
            let mut lines = answer.err.lines();
            let is_late = lines.any(|line| line.starts_with("stokehold: readings: "));
            if !is_late || Instant::now() > end {
                return answer;
            }
        }
    }

    /// The rows of `-o json`.
    pub fn rows(&self) -> Vec<Value> {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// The rows of a kind, as a context that may see everything.
pub fn rows(context: &str, kind: &str) -> Vec<Value> {
    HttpAnswer::whole(&mut stokehold(context, &["get", kind, "-o", "json"])).rows()
}

/// `get KIND --watch -o json`, line by line. Ends with the value.
pub struct Watch {
    child: Child,
    lines: Receiver<String>,
    /// Every line so far.
    pub seen: Vec<Value>,
    /// The objects that are there by the lines so far, by what tells them apart.
    there: BTreeMap<String, Value>,
}

impl Watch {
    /// Starts it.
    pub fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("stokehold runs");
        let (send, lines) = channel();
        let out = child.stdout.take().expect("a pipe");
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        // Read, so that the program never waits for us.
        let err = child.stderr.take().expect("a pipe");
        std::thread::spawn(move || BufReader::new(err).lines().map_while(Result::ok).count());
        Self {
            child,
            lines,
            seen: Vec::new(),
            there: BTreeMap::new(),
        }
    }

    /// Takes one line.
    fn take(&mut self, line: &str) -> Value {
        let line: Value = serde_json::from_str(line).expect("an object a line");
        let object = &line["object"];
        let id = serde_json::json!([object["namespace"], object["name"], object["id"]]).to_string();
        if line["event"] == "set" {
            self.there.insert(id, object.clone());
        } else {
            self.there.remove(&id);
        }
        self.seen.push(line.clone());
        line
    }

    /// Waits for a line that is looked for and gives it.
    pub fn wait(
        &mut self,
        what: &str,
        patience: Duration,
        wanted: impl Fn(&Value) -> bool,
    ) -> Value {
        let _waited = Wait::begins(what);
        let end = Instant::now() + patience;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    let line = self.take(&line);
                    if wanted(&line) {
                        return line;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    let last: Vec<_> = self.seen.iter().rev().take(5).collect();
                    panic!("waited {patience:?} for {what} in vain; the last lines: {last:#?}")
                }
                Err(RecvTimeoutError::Disconnected) => {
                    panic!(
                        "waiting for {what}, the program ended: {:?}",
                        self.child.wait()
                    )
                }
            }
        }
    }

    /// Takes the lines that have come until now.
    pub fn drain(&mut self) {
        while let Ok(line) = self.lines.try_recv() {
            self.take(&line);
        }
    }

    /// Waits until every object, by its last line, is as wanted.
    pub fn wait_all(&mut self, what: &str, patience: Duration, wanted: impl Fn(&Value) -> bool) {
        let _waited = Wait::begins(what);
        let end = Instant::now() + patience;
        loop {
            self.drain();
            if !self.there.is_empty() && self.there.values().all(&wanted) {
                return;
            }
            if Instant::now() >= end {
                let left = self.there.values().filter(|object| !wanted(object));
                let left: Vec<_> = left.collect();
                panic!("waited {patience:?} for {what} in vain: {left:#?}");
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// The objects that are there by the lines so far.
    pub fn now(&self) -> Vec<Value> {
        self.there.values().cloned().collect()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
