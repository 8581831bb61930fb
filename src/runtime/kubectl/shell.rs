//! Runs a kubectl shell on the terminal of this process to its end, handles signals meanwhile, and cleans up.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};

use super::{PROGRAM, ShellCommand, not_started};
use crate::runtime::screen::terminal;

/// How long to wait after the shell has ended for signals meant for it that also reached this process.
const ECHO: Duration = Duration::from_millis(30);

/// How long kubectl may take to end after SIGTERM.
const PARTING: Duration = Duration::from_millis(300);

/// How many bytes at the end of kubectl's messages are kept.
const KEPT: usize = 2_000;

/// How a shell ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ShellEnd {
    /// It ended by itself.
    Exited(KubectlExit),
    /// This process received SIGTERM.
    Terminated,
    /// The terminal hung up.
    HungUp,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KubectlExit {
    pub status: ExitStatus,
    /// The last line on standard error; empty without any.
    pub last_line: String,
}

/// Runs a shell on the terminal, which must have been given back. Signals of the terminal are for the shell.
///
/// # Errors
/// Why kubectl did not start.
pub async fn run(command: &ShellCommand) -> Result<ShellEnd, String> {
    let listen = |kind| signal(kind).map_err(|error| format!("cannot listen to signals: {error}"));
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut stop = listen(SignalKind::from_raw(signal_hook::consts::SIGTSTP))?;
    let mut term = listen(SignalKind::terminate())?;
    let mut hang_up = listen(SignalKind::hangup())?;
    let modes = terminal::line_modes();
    let mut child = Command::new(PROGRAM)
        .args(&command.arguments)
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| not_started(&error))?;
    let errors = tokio::spawn(passed_on(child.stderr.take()));
    let end = loop {
        tokio::select! {
            status = child.wait() => break status.map(Some).map_err(|error| format!("kubectl: {error}"))?,
            // Both signals reach kubectl, too; SIGINT ends it only where it does not forward it to the shell.
            _ = interrupt.recv() => {}
            _ = stop.recv() => signal_child(&child, Signal::CONT),
            _ = term.recv() => { part(&mut child).await; break None; }
            _ = hang_up.recv() => { part(&mut child).await; cleaned(command, false); return Ok(ShellEnd::HungUp); }
        }
    };
    if let Some(modes) = &modes {
        terminal::set_line_modes(modes);
    }
    let Some(status) = end else {
        cleaned(command, false);
        return Ok(ShellEnd::Terminated);
    };
    while tokio::time::timeout(ECHO, interrupt.recv()).await.is_ok() {}
    cleaned(command, status.success());
    let errors = tokio::time::timeout(PARTING, errors).await;
    Ok(ShellEnd::Exited(KubectlExit {
        status,
        last_line: errors.ok().and_then(Result::ok).unwrap_or_default(),
    }))
}

fn signal_child(child: &Child, signal: Signal) {
    let pid = child
        .id()
        .and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    if let Some(pid) = pid {
        let _ = kill_process(pid, signal);
    }
}

/// Ends kubectl: SIGTERM, so that it can restore the terminal, then SIGKILL.
async fn part(child: &mut Child) {
    signal_child(child, Signal::TERM);
    if tokio::time::timeout(PARTING, child.wait()).await.is_err() {
        let _ = child.kill().await;
    }
}

/// Deletes the pod of a node where kubectl may not have done it; does not wait.
fn cleaned(command: &ShellCommand, is_done: bool) {
    let Some(arguments) = command.cleanup.as_ref().filter(|_| !is_done) else {
        return;
    };
    let begun = detached(arguments);
    if let Err(error) = begun {
        tracing::warn!(%error, ?arguments, "the pod of the shell may still exist");
    }
}

/// Starts a kubectl that survives the end of this process and the hang-up of its terminal.
fn detached(arguments: &[OsString]) -> io::Result<()> {
    use std::os::unix::process::CommandExt;
    let mut child = std::process::Command::new(PROGRAM)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()?;
    std::thread::spawn(move || child.wait());
    Ok(())
}

/// Forwards kubectl's messages to our standard error, and returns the last line.
async fn passed_on(from: Option<impl AsyncRead + Unpin>) -> String {
    let (mut kept, mut piece) = (VecDeque::new(), [0; 1024]);
    if let Some(mut from) = from {
        while let Ok(count @ 1..) = from.read(&mut piece).await {
            let _ = io::stderr().write_all(&piece[..count]);
            kept.extend(&piece[..count]);
            kept.drain(..kept.len().saturating_sub(KEPT));
        }
    }
    last_line(kept.make_contiguous())
}

/// The last non-empty line, without terminal control sequences.
pub(crate) fn last_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let line = text.lines().map(str::trim).rfind(|line| !line.is_empty());
    model::base::name::printable(line.unwrap_or_default()).into_owned()
}
