//! The console on a bad link: a terminal that reads slowly, stops reading, or goes away; and on a bad day, without a
//! cluster to look at.

use std::io::{ErrorKind, Read, Write};
use std::process::Child;
use std::time::{Duration, Instant};

use pty_process::blocking::{Command, Pty, open};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use tempfile::TempDir;
use vt100::Parser;

const SIZE: (u16, u16) = (120, 40);

/// The program on a terminal that is read only when the test says so.
struct Link {
    pty: Option<Pty>,
    child: Child,
    screen: Parser,
    _home: TempDir,
}

impl Link {
    fn start(arguments: &[&str]) -> Self {
        let home = TempDir::new().expect("a folder");
        let (pty, pts) = open().expect("a terminal");
        pty.resize(pty_process::Size::new(SIZE.1, SIZE.0))
            .expect("a size");
        let mut command = Command::new(env!("CARGO_BIN_EXE_stokehold"))
            .args(arguments)
            .env("HOME", home.path())
            .env("XDG_CONFIG_HOME", home.path())
            .env("TERM", "xterm-256color")
            .env("COLORTERM", "truecolor");
        for name in ["NO_COLOR", "KUBECONFIG", "KUBERNETES_SERVICE_HOST", "TMUX"] {
            command = command.env_remove(name);
        }
        let child = command.spawn(pts).expect("the program starts");
        let flags = fcntl_getfl(&pty).expect("flags");
        fcntl_setfl(&pty, flags | OFlags::NONBLOCK).expect("flags");
        let size = |length: u16| length.try_into().expect("not zero");
        Self {
            pty: Some(pty),
            child,
            screen: Parser::new(size(SIZE.1), size(SIZE.0), 0),
            _home: home,
        }
    }

    fn pty(&self) -> &Pty {
        self.pty.as_ref().expect("the link is up")
    }

    fn keys(&self, keys: &str) {
        self.pty()
            .write_all(keys.as_bytes())
            .expect("a terminal takes keys");
    }

    /// Reads for so long, at most so many bytes at a time; how many came.
    fn read(&mut self, span: Duration, piece: usize) -> usize {
        let (end, mut count) = (Instant::now() + span, 0);
        let mut bytes = vec![0; piece];
        while Instant::now() < end {
            match self.pty().read(&mut bytes) {
                Ok(0) => break,
                Ok(more) => {
                    self.screen.process(&bytes[..more]);
                    count += more;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // Nobody has the other end any more.
                Err(_) => break,
            }
            if piece < 4096 || count == 0 {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        count
    }

    fn text(&self) -> String {
        self.screen.screen().contents()
    }

    /// Reads until the screen shows this.
    fn until(&mut self, words: &str) {
        let end = Instant::now() + Duration::from_secs(60);
        while !self.text().contains(words) {
            assert!(
                Instant::now() < end,
                "`{words}` never came:\n{}",
                self.text()
            );
            self.read(Duration::from_millis(50), 65_536);
        }
    }

    /// Memory in use, kibibytes.
    fn memory(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).expect("it runs");
        let line = status.lines().find(|line| line.starts_with("VmRSS:"));
        line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok())
            .expect("a number of kB")
    }

    fn end(&mut self, patience: Duration) -> Option<i32> {
        let end = Instant::now() + patience;
        while Instant::now() < end {
            if let Some(status) = self.child.try_wait().expect("a child of ours") {
                return Some(status.code().unwrap_or(-1));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        None
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A console on a small fleet that stands still, with everything read.
fn settled() -> Link {
    let mut link = Link::start(&["demo", "--nodes", "6", "--speed", "0"]);
    link.until("reading");
    link.until(" live ");
    link.read(Duration::from_millis(500), 65_536);
    link
}

#[cfg(target_os = "linux")]
#[test]
fn a_terminal_that_stops_reading_costs_nothing_and_loses_no_key() {
    let mut link = settled();
    // Slow first: what is drawn waits, what is typed does not.
    for key in ["3", "l", "j", "2", "6"] {
        link.keys(key);
        link.read(Duration::from_millis(200), 40);
    }
    let before = link.memory();
    for _ in 0..40 {
        link.keys("2356");
        std::thread::sleep(Duration::from_millis(50));
    }
    link.keys("8");
    std::thread::sleep(Duration::from_millis(300));
    let grown = link.memory().saturating_sub(before);
    assert!(grown < 2048, "{grown} kB more while nobody read");
    // A picture of this size is 30 kB at most: the one under way, and the newest, not one for each of 160 keys.
    let released = link.read(Duration::from_millis(1500), 65_536);
    assert!(released < 120_000, "{released} bytes came at once");
    assert!(
        link.text().contains("REPAIR"),
        "the last key is the one that counts:\n{}",
        link.text()
    );
    let after = link.read(Duration::from_millis(300), 65_536);
    assert!(after < 4_000, "{after} bytes more, of what?");
}

#[test]
fn a_terminal_that_goes_away_ends_the_program() {
    let mut link = settled();
    link.keys("3");
    drop(link.pty.take());
    assert!(
        link.end(Duration::from_secs(2)).is_some(),
        "it runs on without a terminal"
    );
}

#[test]
fn without_a_cluster_the_screen_says_so_and_opens_the_demo() {
    let mut link = Link::start(&[]);
    link.until("no kubeconfig");
    assert!(link.text().contains("opens the demo fleet"));
    link.keys("q");
    link.read(Duration::from_millis(500), 65_536);
    assert_eq!(
        link.end(Duration::from_secs(3)),
        Some(2),
        "as without a screen"
    );
    assert!(!link.screen.screen().alternate_screen());
    assert!(link.text().contains("no cluster"), "{}", link.text());

    let mut link = Link::start(&["--context", "nowhere"]);
    link.until("nowhere");
    link.keys("d");
    link.until("demo");
    link.until(" dev 3 ");
    link.keys("q");
    link.read(Duration::from_millis(500), 65_536);
    assert_eq!(link.end(Duration::from_secs(3)), Some(0));
}
