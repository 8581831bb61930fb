//! A way to the API server that stops at a write of our program: before it arrives, or after it was carried out and before anybody
//! hears so. It speaks plain HTTP, to `kubectl proxy`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::spawn;
use std::time::{Duration, Instant};

use serde_json::json;

use super::plane::{Ends, PATIENCE, own_kubeconfig};

/// Where a write is stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Point {
    /// It was sent, and has not arrived.
    Sent,
    /// It was carried out, and nobody has heard so.
    CarriedOut,
}

/// A write that was stopped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stopped {
    /// Method and path.
    pub line: String,
    /// The code of its answer; nothing where it has not arrived.
    pub code: Option<u16>,
}

#[derive(Default)]
struct State {
    /// So many writes pass, and the one after them is stopped.
    next: Option<(usize, Point)>,
    stopped: Option<Stopped>,
    /// Of each write that was ever stopped, whether it goes on; nothing while that is open.
    fates: Vec<Option<bool>>,
    is_cut: bool,
    /// Both ends of each connection.
    open: Vec<TcpStream>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a connection; false while the link is cut.
    fn opens(&self, ends: [&TcpStream; 2]) -> bool {
        let mut state = self.state();
        if state.is_cut {
            return false;
        }
        let ends = ends.iter().filter_map(|end| end.try_clone().ok());
        state.open.extend(ends);
        true
    }

    /// Whether the write with this first line is to be stopped.
    fn meets(&self, line: &str) -> Option<Point> {
        if !is_write(line) {
            return None;
        }
        let mut state = self.state();
        match state.next {
            Some((0, point)) => {
                state.next = None;
                Some(point)
            }
            Some((left, point)) => {
                state.next = Some((left - 1, point));
                None
            }
            None => None,
        }
    }

    /// Stops a write; true if it goes on in the end.
    fn stops(&self, stopped: Stopped) -> bool {
        let mut state = self.state();
        state.stopped = Some(stopped);
        let number = state.fates.len();
        state.fates.push(None);
        self.changed.notify_all();
        loop {
            if let Some(goes_on) = state.fates[number] {
                return goes_on;
            }
            let waited = self.changed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A call that changes an object of the plan: no dry run, no Event, no question about rights.
fn is_write(line: &str) -> bool {
    let mut words = line.split(' ');
    let (method, path) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    let aside = ["dryRun=", "/events", "/selfsubject"];
    matches!(method, "POST" | "PUT" | "PATCH" | "DELETE")
        && !aside.iter().any(|part| path.contains(part))
}

/// The next request of a connection: its first line, and all of it. Nothing at its end.
fn request(from: &mut impl BufRead) -> Option<(String, Vec<u8>)> {
    let mut all = Vec::new();
    let (mut first, mut length) = (String::new(), 0);
    loop {
        let begin = all.len();
        if from.read_until(b'\n', &mut all).ok()? == 0 {
            return None;
        }
        let line = String::from_utf8_lossy(&all[begin..]).trim().to_owned();
        if first.is_empty() {
            first.clone_from(&line);
        }
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':') {
            assert!(
                !name.eq_ignore_ascii_case("transfer-encoding"),
                "our program states the length of its bodies: {first}"
            );
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().expect("a number");
            }
        }
    }
    let begin = all.len();
    all.resize(begin + length, 0);
    from.read_exact(&mut all[begin..]).ok()?;
    Some((first, all))
}

/// Carries what one connection asks for, and its answers. (A client sends a request once it has the whole answer to the one
/// before: what comes after a write is the answer to it.)
fn connection(from: TcpStream, to: TcpStream, shared: &Arc<Shared>) -> Option<()> {
    let [mut answers_from, mut answers_to] = [to.try_clone().ok()?, from.try_clone().ok()?];
    let awaited: Arc<Mutex<Option<String>>> = Arc::default();
    let (waits, gate) = (awaited.clone(), shared.clone());
    spawn(move || {
        let mut bytes = [0; 65_536];
        while let Ok(count @ 1..) = answers_from.read(&mut bytes) {
            let line = waits.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(line) = line {
                let head = String::from_utf8_lossy(&bytes[..count.min(64)]).into_owned();
                let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
                if !gate.stops(Stopped { line, code }) {
                    break;
                }
            }
            if answers_to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        let _ = answers_to.shutdown(Shutdown::Both);
        let _ = answers_from.shutdown(Shutdown::Both);
    });
    let mut to = to;
    let mut from = BufReader::new(from);
    while let Some((line, bytes)) = request(&mut from) {
        match shared.meets(&line) {
            Some(Point::CarriedOut) => {
                *awaited.lock().unwrap_or_else(PoisonError::into_inner) = Some(line);
            }
            Some(Point::Sent) if !shared.stops(Stopped { line, code: None }) => break,
            None | Some(Point::Sent) => {}
        }
        if to.write_all(&bytes).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.get_ref().shutdown(Shutdown::Both);
    Some(())
}

/// The gate. Ends with the value.
pub struct Gate {
    shared: Arc<Shared>,
    /// Where `kubectl proxy` listens, for who looks past the gate.
    pub server: String,
    /// A kubeconfig through the gate, with one context [`Gate::CONTEXT`].
    pub config: PathBuf,
    _folder: tempfile::TempDir,
    _proxy: Ends,
}

impl Gate {
    /// The context of [`Gate::config`].
    pub const CONTEXT: &str = "through-the-gate";

    /// An open gate, as the administrator.
    pub fn open() -> Self {
        let mut proxy = Command::new("kubectl")
            .args(["--context=live-admin", "proxy", "--port=0"])
            .stdout(Stdio::piped())
            // (It reports each connection that is lost.)
            .stderr(Stdio::null())
            .spawn()
            .expect("kubectl runs");
        let out = proxy.stdout.take().expect("a pipe");
        let proxy = Ends(proxy);
        let mut line = String::new();
        BufReader::new(out)
            .read_line(&mut line)
            .expect("its address");
        let end = line.trim().rsplit(' ').next().expect("an address");
        let end: SocketAddr = end.parse().expect("an address");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::<Shared>::default();
        let gate = shared.clone();
        spawn(move || {
            for from in listener.incoming().map_while(Result::ok) {
                let Ok(to) = TcpStream::connect(end) else {
                    // The test is over.
                    return;
                };
                if gate.opens([&from, &to]) {
                    let gate = gate.clone();
                    spawn(move || connection(from, to, &gate));
                }
            }
        });
        let (folder, config) = own_kubeconfig(
            Self::CONTEXT,
            &json!({"server": format!("http://{address}")}),
            &json!({}),
        );
        Self {
            shared,
            server: format!("http://{end}"),
            config,
            _folder: folder,
            _proxy: proxy,
        }
    }

    /// Lets so many writes pass and stops the one after them here.
    pub fn stops_after(&self, pass: usize, point: Point) {
        let mut state = self.shared.state();
        state.next = Some((pass, point));
        state.stopped = None;
    }

    /// Waits until a write is stopped; nothing where `is_over` says that none will come.
    pub fn stopped(&self, mut is_over: impl FnMut() -> bool) -> Option<Stopped> {
        let end = Instant::now() + PATIENCE;
        let mut state = self.shared.state();
        loop {
            if let Some(stopped) = state.stopped.take() {
                return Some(stopped);
            }
            assert!(Instant::now() < end, "no write came within {PATIENCE:?}");
            if is_over() {
                state.next = None;
                return None;
            }
            let waited = self
                .shared
                .changed
                .wait_timeout(state, Duration::from_millis(50));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn decides(&self, goes_on: bool, is_cut: bool) {
        let mut state = self.shared.state();
        for fate in &mut state.fates {
            fate.get_or_insert(goes_on);
        }
        state.is_cut = is_cut;
        if !goes_on {
            for end in state.open.drain(..) {
                let _ = end.shutdown(Shutdown::Both);
            }
        }
        self.shared.changed.notify_all();
    }

    /// The write that was stopped goes on.
    pub fn passes(&self) {
        self.decides(true, false);
    }

    /// The write that was stopped, or its answer, is lost, with every connection. New ones are open.
    pub fn loses(&self) {
        self.decides(false, false);
    }

    /// The same, and every new connection is closed at once, until [`Gate::heals`].
    pub fn cuts(&self) {
        self.decides(false, true);
    }

    /// Ends a cut.
    pub fn heals(&self) {
        self.shared.state().is_cut = false;
    }
}
