//! The program in a root folder that holds nothing else: no /etc, /proc, /dev or /tmp, no home, TLS roots, terminfo or time zones.
//! The program under test comes with the shared libraries it is linked to; the static one of `.ci/release` comes alone.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;

use super::{alone, text};

/// The most that the static binary may take, in bytes.
const MOST_BYTES: u64 = 25_000_000;

/// A folder that is `/` to the program in it.
struct Root(TempDir);

impl Root {
    fn new(program: &Path, libraries: &[PathBuf]) -> Self {
        let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
        let link = |from: &Path, to: PathBuf| {
            fs::create_dir_all(to.parent().expect("has a folder")).expect("can be made");
            // What a library's name links to, not the link.
            let from = from.canonicalize().expect("is there");
            if fs::hard_link(&from, &to).is_err() {
                fs::copy(&from, &to).expect("can be copied");
            }
        };
        link(program, folder.path().join("stokehold"));
        for library in libraries {
            let inside = library.strip_prefix("/").expect("is absolute");
            link(library, folder.path().join(inside));
        }
        Self(folder)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("unshare");
        if !rustix::process::geteuid().is_root() {
            command.arg("--map-root-user");
        }
        command
            .arg(format!("--root={}", self.0.path().display()))
            .arg("/stokehold")
            .args(arguments)
            .env_clear()
            .stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("can be run")
    }

    /// What it prints when all is well.
    fn prints(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {message}");
        text(&output.stdout)
    }
}

/// The shared libraries of a program, as its loader finds them.
fn libraries(program: &Path) -> Vec<PathBuf> {
    let mut ldd = Command::new("ldd");
    // A library that is loaded into every program, such as one that sets the date, is none of its own.
    let output = ldd.arg(program).env_remove("LD_PRELOAD").output();
    let output = output.expect("ldd");
    let words = text(&output.stdout);
    let words = words
        .split_whitespace()
        .filter(|word| word.starts_with('/'));
    words.map(PathBuf::from).collect()
}

/// What `.ci/release` has built for this machine into this target folder.
fn released() -> Option<PathBuf> {
    let program = Path::new(env!("CARGO_BIN_EXE_stokehold"));
    let target = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    let places = program.ancestors().skip(1);
    let mut places = places.map(|folder| folder.join(&target).join("dist/stokehold"));
    places.find(|place| place.is_file())
}

/// The programs in their roots; none where this machine allows no other root.
fn roots() -> Vec<Root> {
    let program = Path::new(env!("CARGO_BIN_EXE_stokehold"));
    let dynamic = Root::new(program, &libraries(program));
    let allowed = dynamic.command(&["--version"]).output();
    if let Err(error) = &allowed {
        println!("skipped: unshare (util-linux) cannot be run: {error}");
        return Vec::new();
    }
    let message = allowed
        .map(|output| text(&output.stderr))
        .unwrap_or_default();
    if message.starts_with("unshare:") && message.contains("not permitted") {
        println!("skipped: this machine allows no root folder of one's own: {message}");
        return Vec::new();
    }
    let mut roots = vec![dynamic];
    match released() {
        Some(program) => {
            let size = program.metadata().expect("is there").len();
            assert!(size < MOST_BYTES, "{}: {size} bytes", program.display());
            roots.push(Root::new(&program, &[]));
        }
        None => println!("skipped: no static binary here; .ci/release builds it"),
    }
    roots
}

#[test]
fn commands_without_a_cluster_run_and_obstacles_to_one_are_reported() {
    let _alone = alone();
    for root in roots() {
        let version = root.prints(&["--version"]);
        assert_eq!(
            version,
            format!("stokehold {}\n", env!("CARGO_PKG_VERSION"))
        );
        assert!(root.prints(&["demo", "--help"]).contains("--seed"));
        assert!(root.prints(&["man"]).starts_with(".ie"));
        assert!(
            root.prints(&["completions", "bash"])
                .contains("complete -F")
        );
        assert!(root.prints(&["config", "print"]).contains("default"));
        let fleet = ["--nodes", "12", "--seed", "3"];
        let shot = root.prints(&[&["shot", "pools", "--demo"], &fleet[..]].concat());
        assert!(shot.contains("h100"), "{shot}");
        let frame = root.prints(&[&["demo", "--size", "100x30"], &fleet[..]].concat());
        assert!(frame.contains("h100"), "{frame}");
        // Nothing was left behind.
        let left = fs::read_dir(root.0.path()).expect("can be read");
        let left = left.map(|entry| entry.expect("an entry").file_name());
        let mut left =
            left.filter(|name| !["stokehold", "lib", "lib64"].iter().any(|own| name == own));
        assert_eq!(left.next(), None);
        // Obstacles to reaching one are reported.
        for (server, code, wanted) in [
            (None, 2, "kubeconfig"),
            // As every login that cannot be made.
            (Some("https://127.0.0.1:1"), 3, "SSL_CERT_FILE"),
            // No certificates are needed for it, so their absence is not what fails.
            (Some("http://127.0.0.1:1"), 4, "refused"),
        ] {
            let mut arguments = vec!["get", "nodes"];
            if let Some(server) = server {
                let file = root.0.path().join("kubeconfig");
                fs::write(file, kubeconfig(server)).expect("can be written");
                arguments.extend(["--kubeconfig", "/kubeconfig"]);
            }
            let output = root.run(&arguments);
            let message = text(&output.stderr);
            assert_eq!(output.status.code(), Some(code), "{message}");
            assert!(
                message.to_lowercase().contains(&wanted.to_lowercase()),
                "{message}"
            );
        }
    }
}

fn kubeconfig(server: &str) -> String {
    format!(
        "apiVersion: v1
kind: Config
current-context: c
contexts: [{{name: c, context: {{cluster: c, user: u}}}}]
clusters: [{{name: c, cluster: {{server: \"{server}\"}}}}]
users: [{{name: u, user: {{token: t}}}}]
"
    )
}

/// A `sim` that ends with the test.
struct Sim(Child);

impl Drop for Sim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_cluster_is_read_by_the_ca_of_its_kubeconfig_and_an_exporter_without_certificates() {
    let _alone = alone();
    for root in roots() {
        let mut command = root.command(&["sim", "--nodes", "12", "--seed", "3", "--speed", "0"]);
        let child = command
            .args(["--kubeconfig", "/sim.yaml"])
            .stdout(Stdio::piped())
            .spawn();
        let mut sim = Sim(child.expect("can be run"));
        let mut ready = String::new();
        let stdout = sim.0.stdout.as_mut().expect("is piped");
        let _ = BufReader::new(stdout).read_line(&mut ready);
        assert!(ready.starts_with("ready https://127.0.0.1:"), "{ready}");
        let nodes = root.prints(&["get", "nodes", "--kubeconfig", "/sim.yaml", "-o", "json"]);
        let nodes: serde_json::Value = serde_json::from_str(&nodes).expect("is JSON");
        assert_eq!(nodes.as_array().map(Vec::len), Some(12));
        let devices = root.prints(&["get", "devices", "--kubeconfig", "/sim.yaml", "-o", "csv"]);
        assert!(devices.lines().count() > 12, "{devices}");
        // An exporter is read over plain HTTP where no certificates are installed.
        let devices = root.prints(&["exporter", "read", &exporter(), "-o", "json"]);
        assert!(devices.contains("GPU-a"), "{devices}");
        let output = root.run(&["exporter", "read", "https://127.0.0.1:1/metrics"]);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(4), "{message}");
        assert!(message.contains("SSL_CERT_FILE"), "{message}");
    }
}

/// A page of an exporter.
const PAGE: &str = "\
DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-a\",device=\"nvidia0\",modelName=\"NVIDIA L4\",Hostname=\"n1\"} 42
";

/// Serves [`PAGE`] once over plain HTTP; returns its address.
fn exporter() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("is asked");
        let _ = stream.read(&mut [0; 4096]);
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n";
        let _ = write!(stream, "{head}Content-Length: {}\r\n\r\n{PAGE}", PAGE.len());
    });
    format!("http://{address}/metrics")
}
