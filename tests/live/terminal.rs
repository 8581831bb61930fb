//! A terminal of our own for the program to run in: what stands on it, its modes, keys and signals to it.

use std::io::{Read, Write};
use std::process::{Child, ExitStatus};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pty_process::blocking::{Command, Pty, open};
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{LocalModes, Termios, tcgetattr};
use vt100::{MouseProtocolMode, Parser};

use super::turns::Wait;

/// The first line of a screen.
pub fn header(text: &str) -> &str {
    text.lines().next().unwrap_or_default().trim_end()
}

/// Devices of the plane. Tests that act add some of their own.
const DEVICES: usize = 1_072;

/// True when every device of the plane stands in the header (thousands are set apart).
pub fn shows_the_fleet(text: &str) -> bool {
    let header = header(text).replace(char::is_whitespace, "");
    let count = header.split_once("devices").map(|(_, rest)| rest);
    let digits: String = count
        .unwrap_or_default()
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    digits.parse().is_ok_and(|count: usize| count >= DEVICES)
}

/// True when the whole fleet is there and every source speaks.
pub fn is_live(text: &str) -> bool {
    shows_the_fleet(text) && header(text).ends_with("live")
}

/// A program on a terminal. Ends with the value.
pub struct Terminal {
    pty: Arc<Pty>,
    child: Child,
    screen: Arc<Mutex<Parser>>,
    /// The line discipline before the program began.
    before: Termios,
}

fn parser(width: u16, height: u16) -> Parser {
    let size = |length: u16| length.try_into().expect("not zero");
    Parser::new(size(height), size(width), 0)
}

impl Terminal {
    /// Runs our program as this context on a terminal of this size.
    pub fn start(kubeconfig: &std::path::Path, context: &str, size: (u16, u16)) -> Self {
        Self::start_with(&[], kubeconfig, context, size)
    }

    /// The same with these variables set.
    pub fn start_with(
        variables: &[(&str, &std::path::Path)],
        kubeconfig: &std::path::Path,
        context: &str,
        (width, height): (u16, u16),
    ) -> Self {
        let (pty, pts) = open().expect("a terminal");
        pty.resize(pty_process::Size::new(height, width))
            .expect("a size");
        let before = tcgetattr(&pty).expect("modes");
        let child = Command::new(env!("CARGO_BIN_EXE_stokehold"))
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(["--context", context])
            .env("TERM", "xterm-256color")
            .env("COLORTERM", "truecolor")
            .env_remove("NO_COLOR")
            .envs(variables.iter().copied())
            .spawn(pts)
            .expect("stokehold runs");
        let pty = Arc::new(pty);
        let screen = Arc::new(Mutex::new(parser(width, height)));
        let (from, to) = (pty.clone(), screen.clone());
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // A terminal that nobody has open any more is an error to read.
            while let Ok(count @ 1..) = (&*from).read(&mut bytes) {
                to.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .process(&bytes[..count]);
            }
        });
        Self {
            pty,
            child,
            screen,
            before,
        }
    }

    /// What stands on the screen.
    pub fn text(&self) -> String {
        self.look(|parser| parser.screen().contents())
    }

    fn look<T>(&self, of: impl FnOnce(&Parser) -> T) -> T {
        of(&self.screen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The first line.
    pub fn header(&self) -> String {
        header(&self.text()).to_owned()
    }

    /// Waits until the screen is as wanted; gives it.
    pub fn wait(
        &mut self,
        what: &str,
        patience: Duration,
        wanted: impl Fn(&str) -> bool,
    ) -> String {
        let _waited = Wait::begins(what);
        let end = Instant::now() + patience;
        loop {
            let text = self.text();
            if wanted(&text) {
                return text;
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                panic!(
                    "waiting for {what}, the program ended with {status}:\n{}",
                    self.text()
                );
            }
            assert!(
                Instant::now() < end,
                "waited {patience:?} for {what} in vain:\n{text}"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Types.
    pub fn keys(&mut self, keys: &str) {
        (&*self.pty)
            .write_all(keys.as_bytes())
            .expect("a terminal that takes keys");
    }

    /// Changes the terminal's size.
    pub fn resize(&mut self, (width, height): (u16, u16)) {
        // (What was on it is cut or left: the program is to draw it anew.)
        *self.screen.lock().unwrap_or_else(PoisonError::into_inner) = parser(width, height);
        self.pty
            .resize(pty_process::Size::new(height, width))
            .expect("a size");
    }

    /// Sends the program a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id())
            .ok()
            .and_then(Pid::from_raw)
            .expect("a process");
        kill_process(pid, signal).expect("it is there");
    }

    /// Waits for the program's end.
    pub fn end(&mut self, patience: Duration) -> ExitStatus {
        let end = Instant::now() + patience;
        loop {
            if let Some(status) = self.child.try_wait().expect("a child of ours") {
                // What it wrote last may still be under way.
                std::thread::sleep(Duration::from_millis(100));
                return status;
            }
            assert!(
                Instant::now() < end,
                "it does not end within {patience:?}:\n{}",
                self.text()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What the program has left otherwise than it found it.
    pub fn changed(&self) -> Vec<&'static str> {
        let mut changed = self.look(|parser| {
            let screen = parser.screen();
            let mouse = screen.mouse_protocol_mode() != MouseProtocolMode::None;
            let marks = [
                (screen.alternate_screen(), "the alternate screen"),
                (screen.hide_cursor(), "the hidden cursor"),
                (screen.bracketed_paste(), "bracketed paste"),
                (screen.application_cursor(), "the application cursor keys"),
                (mouse, "the mouse"),
            ];
            marks
                .into_iter()
                .filter(|(on, _)| *on)
                .map(|(_, what)| what)
                .collect::<Vec<_>>()
        });
        let now = tcgetattr(&*self.pty).expect("modes");
        let own = LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
        if now.local_modes & own != self.before.local_modes & own {
            changed.push("raw mode");
        }
        if now.output_modes != self.before.output_modes
            || now.input_modes != self.before.input_modes
        {
            changed.push("the modes of input and output");
        }
        changed
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
