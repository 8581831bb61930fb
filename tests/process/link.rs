//! The console on a bad link: a terminal that reads slowly, stops reading, or goes away; and on a bad day, without a
//! cluster to look at.

use std::io::{ErrorKind, Read, Write};
use std::process::Child;
use std::time::{Duration, Instant};

use pty_process::blocking::{Command, Pty, open};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use tempfile::TempDir;
use vt100::Parser;

use super::{PATIENCE, alone, until};

const SIZE: (u16, u16) = (120, 40);

/// The program on a terminal that is read only when the test says so.
pub(super) struct Link {
    pub(super) pty: Option<Pty>,
    pub(super) child: Child,
    pub(super) screen: Parser,
    /// Its home, in which it runs.
    pub(super) home: TempDir,
}

impl Link {
    fn start(arguments: &[&str]) -> Self {
        Self::start_with(arguments, &[])
    }

    /// The same with these variables set.
    pub(super) fn start_with(arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let home = TempDir::new().expect("a folder");
        let (pty, pts) = open().expect("a terminal");
        pty.resize(pty_process::Size::new(SIZE.1, SIZE.0))
            .expect("a size");
        let mut command = Command::new(env!("CARGO_BIN_EXE_stokehold"))
            .args(arguments)
            .current_dir(home.path())
            .env("HOME", home.path())
            .env("XDG_CONFIG_HOME", home.path())
            .env("TMPDIR", home.path())
            .env("TERM", "xterm-256color")
            .env("COLORTERM", "truecolor");
        for name in ["NO_COLOR", "KUBECONFIG", "KUBERNETES_SERVICE_HOST", "TMUX"] {
            command = command.env_remove(name);
        }
        command = command.envs(variables.iter().copied());
        let child = command.spawn(pts).expect("the program starts");
        let flags = fcntl_getfl(&pty).expect("flags");
        fcntl_setfl(&pty, flags | OFlags::NONBLOCK).expect("flags");
        let size = |length: u16| length.try_into().expect("not zero");
        Self {
            pty: Some(pty),
            child,
            screen: Parser::new(size(SIZE.1), size(SIZE.0), 0),
            home,
        }
    }

    pub(super) fn pty(&self) -> &Pty {
        self.pty.as_ref().expect("the link is up")
    }

    pub(super) fn keys(&self, keys: &str) {
        self.pty()
            .write_all(keys.as_bytes())
            .expect("a terminal takes keys");
    }

    /// Reads for so long, at most so many bytes at a time; how many came.
    pub(super) fn read(&mut self, span: Duration, piece: usize) -> usize {
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

    pub(super) fn text(&self) -> String {
        self.screen.screen().contents()
    }

    /// Reads until the screen shows this.
    pub(super) fn until(&mut self, words: &str) {
        let end = Instant::now() + PATIENCE;
        while !self.text().contains(words) {
            assert!(
                Instant::now() < end,
                "`{words}` never came:\n{}",
                self.text()
            );
            self.read(Duration::from_millis(50), 65_536);
        }
    }

    /// Reads until the alternate screen has been left, or taken.
    fn alternate_screen_is(&mut self, taken: bool) {
        let end = Instant::now() + PATIENCE;
        while self.screen.screen().alternate_screen() != taken {
            assert!(Instant::now() < end, "taken: {}", !taken);
            self.read(Duration::from_millis(20), 65_536);
        }
    }

    /// Waits until it ends; its exit code, -1 where a signal ended it.
    pub(super) fn end(&mut self) -> i32 {
        let mut ended = None;
        until("the end of the program", || {
            ended = self.child.try_wait().expect("a child of ours");
            ended.is_some()
        });
        let status = ended.expect("it has ended");
        status.code().unwrap_or(-1)
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

/// (That no frames pile up meanwhile: `runtime::terminal::tests`.)
#[test]
fn a_terminal_that_stops_reading_loses_no_key_and_one_that_goes_away_ends_the_program() {
    let _alone = alone();
    let mut link = settled();
    // Slow first: what is drawn waits, what is typed does not.
    for key in ["3", "l", "j", "2", "6"] {
        link.keys(key);
        link.read(Duration::from_millis(200), 40);
    }
    for key in ["2", "3", "5", "6"].repeat(60) {
        link.keys(key);
    }
    link.keys("8");
    link.until("REPAIR");
    let records = |link: &Link| {
        let all = std::fs::read_dir(link.home.path()).expect("a folder");
        let names = all.map(|entry| entry.expect("an entry").file_name());
        names
            .filter(|name| name.to_string_lossy().starts_with("stokehold-demo-"))
            .count()
    };
    assert_eq!(records(&link), 1, "of the fleet on the screen");
    drop(link.pty.take());
    link.end();
    assert_eq!(records(&link), 0);
}

/// A key and a new size may come at one moment, as when a pane is made larger and typed into.
#[test]
fn a_key_that_comes_with_a_resize_is_not_lost() {
    let _alone = alone();
    let mut link = settled();
    for turn in 0..150_u16 {
        let (key, shows) = if turn % 2 == 0 {
            ("5", "WAIT/RUN")
        } else {
            ("1", "FREE/TOTAL")
        };
        let size = pty_process::Size::new(SIZE.1, SIZE.0 - turn % 2);
        match turn % 3 {
            0 => {
                link.pty().resize(size).expect("a size");
                link.keys(key);
            }
            1 => {
                link.keys(key);
                link.pty().resize(size).expect("a size");
            }
            _ => {
                link.pty().resize(size).expect("a size");
                std::thread::sleep(Duration::from_micros(500));
                link.keys(key);
            }
        }
        let end = Instant::now() + PATIENCE;
        let heading = |link: &Link| link.text().lines().take(5).any(|line| line.contains(shows));
        while !heading(&link) {
            assert!(
                Instant::now() < end,
                "`{key}` of turn {turn} was not read:\n{}",
                link.text()
            );
            link.read(Duration::from_millis(10), 65_536);
        }
    }
}

/// Stopped from outside, while nothing is typed, it draws again as soon as it is continued, and takes keys.
#[test]
fn a_console_that_is_stopped_and_continued_waits_for_no_key() {
    let _alone = alone();
    let mut link = settled();
    let pid = Pid::from_raw(i32::try_from(link.child.id()).expect("a number")).expect("a process");
    for key in ["5", "1"] {
        kill_process(pid, Signal::TSTP).expect("it runs");
        link.alternate_screen_is(false);
        // The terminal is given back before the program stops: it can be continued once it has stopped.
        let options = WaitOptions::UNTRACED | WaitOptions::NOHANG;
        until("the program has stopped", || {
            let waited = waitpid(Some(pid), options).expect("a child of ours");
            waited.is_some_and(|(_, status)| status.stopped())
        });
        kill_process(pid, Signal::CONT).expect("it is stopped");
        link.alternate_screen_is(true);
        link.until(" live ");
        link.keys(key);
        link.until(if key == "5" { "WAIT/RUN" } else { "FREE/TOTAL" });
    }
}

#[test]
fn without_a_cluster_the_screen_says_so_and_opens_the_demo() {
    let _alone = alone();
    let mut link = Link::start(&[]);
    link.until("no kubeconfig");
    assert!(link.text().contains("opens the demo fleet"));
    link.keys("q");
    link.read(Duration::from_millis(500), 65_536);
    assert_eq!(link.end(), 2, "as without a screen");
    assert!(!link.screen.screen().alternate_screen());
    assert!(link.text().contains("no cluster"), "{}", link.text());

    let mut link = Link::start(&["--context", "nowhere"]);
    link.until("nowhere");
    link.keys("d");
    link.until("demo");
    link.until(" dev 3 ");
    link.keys("q");
    link.read(Duration::from_millis(500), 65_536);
    assert_eq!(link.end(), 0);
}
