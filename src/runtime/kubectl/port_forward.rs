//! Port-forwards by kubectl: started in the background, listed, stopped, and ended with this process.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use tokio::sync::mpsc;

use console::Msg;
use console::pod_access::{PortForward, Ports};
use model::base::ObjectKey;

use super::shell::last_line;
use super::{Kubectl, PROGRAM, not_started};

/// Every kubectl in the background, by its number, so that any exit path can end them.
static RUNNING: Mutex<Vec<(u64, Child)>> = Mutex::new(Vec::new());

/// Most bytes of kubectl's output that are read; it prints a line per connection.
const MOST_OUTPUT: u64 = 1 << 30;

/// What kubectl prints before the address that it listens on.
const LISTENS: &str = "Forwarding from ";

fn running() -> MutexGuard<'static, Vec<(u64, Child)>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends every port-forward of this process. Safe to call at any time and from any thread.
pub fn end_all() {
    let all = std::mem::take(&mut *running());
    for (_, child) in all {
        end(child);
    }
}

fn end(mut child: Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// Ends the port-forward of this number; false when it has ended already.
fn end_one(number: u64) -> bool {
    let mut all = running();
    let at = all.iter().position(|(known, _)| *known == number);
    let child = at.map(|at| all.swap_remove(at).1);
    drop(all);
    child.map(end).is_some()
}

enum PortForwardEvent {
    /// It listens on this address.
    Up(SocketAddr),
    /// It has ended by itself; kubectl's last line.
    Ended(String),
}

/// The port-forwards of one console.
pub struct PortForwards {
    list: Vec<PortForward>,
    started: u64,
    out: mpsc::UnboundedSender<(u64, PortForwardEvent)>,
    heard: mpsc::UnboundedReceiver<(u64, PortForwardEvent)>,
}

impl Default for PortForwards {
    fn default() -> Self {
        let (out, heard) = mpsc::unbounded_channel();
        Self {
            list: Vec::new(),
            started: 0,
            out,
            heard,
        }
    }
}

impl PortForwards {
    /// Starts a port-forward; returns the messages for the console.
    pub fn start(&mut self, kubectl: &Kubectl, pod: ObjectKey, ports: Ports) -> Vec<Msg> {
        match self.try_start(kubectl, pod, ports) {
            Ok(()) => self.notice(format!("port-forward {ports}: starting…")),
            Err(why) => vec![Msg::Notice(why)],
        }
    }

    fn try_start(&mut self, kubectl: &Kubectl, pod: ObjectKey, ports: Ports) -> Result<(), String> {
        let arguments = kubectl.port_forward(&pod, ports)?;
        let mut child = {
            use std::os::unix::process::CommandExt;
            Command::new(PROGRAM)
                .args(&arguments)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                // Its own process group, so that Ctrl-C and Ctrl-Z of a shell on this terminal do not reach it.
                .process_group(0)
                .spawn()
                .map_err(|error| not_started(&error))?
        };
        self.started += 1;
        let number = self.started;
        let (output, errors) = (child.stdout.take(), child.stderr.take());
        running().push((number, child));
        let out = self.out.clone();
        thread::spawn(move || {
            let lines = output
                .into_iter()
                .flat_map(|output| BufReader::new(output.take(MOST_OUTPUT)).lines());
            for line in lines.map_while(Result::ok) {
                let address = line
                    .strip_prefix(LISTENS)
                    .and_then(|rest| rest.split_once(" -> "));
                if let Some(address) = address.and_then(|(address, _)| address.parse().ok()) {
                    let _ = out.send((number, PortForwardEvent::Up(address)));
                }
            }
        });
        let out = self.out.clone();
        thread::spawn(move || {
            let mut last = Vec::new();
            let lines = errors
                .into_iter()
                .flat_map(|errors| BufReader::new(errors.take(MOST_OUTPUT)).split(b'\n'));
            for line in lines
                .map_while(Result::ok)
                .filter(|line| !line.trim_ascii().is_empty())
            {
                last = line;
            }
            // End of its output: it has ended, or was stopped and is no longer in the list.
            if end_one(number) {
                let _ = out.send((number, PortForwardEvent::Ended(last_line(&last))));
            }
        });
        tracing::info!(context = %kubectl.context(), %pod, %ports, "port-forward started");
        self.list.push(PortForward {
            number,
            context: kubectl.context().clone(),
            pod,
            ports,
            address: None,
        });
        Ok(())
    }

    /// Stops the port-forward of this number.
    pub fn stop(&mut self, number: u64) -> Vec<Msg> {
        end_one(number);
        match self.removed(number) {
            Some(gone) => self.notice(format!("port-forward to {} stopped", gone.pod)),
            None => Vec::new(),
        }
    }

    fn removed(&mut self, number: u64) -> Option<PortForward> {
        let at = self.list.iter().position(|known| known.number == number)?;
        Some(self.list.remove(at))
    }

    /// Waits until one is up or has ended by itself; returns the messages for the console.
    pub async fn news(&mut self) -> Vec<Msg> {
        loop {
            let Some((number, heard)) = self.heard.recv().await else {
                return std::future::pending().await;
            };
            match heard {
                PortForwardEvent::Up(address) => {
                    let known = self.list.iter_mut().find(|known| known.number == number);
                    // A second line is the same port on another address family, such as IPv6.
                    let Some(forward) = known.filter(|known| known.address.is_none()) else {
                        continue;
                    };
                    forward.address = Some(address.to_string());
                    let words = format!(
                        "{address} forwards to port {} of pod {}",
                        forward.ports.remote, forward.pod
                    );
                    return self.notice(words);
                }
                PortForwardEvent::Ended(why) => {
                    let Some(gone) = self.removed(number) else {
                        continue;
                    };
                    tracing::info!(pod = %gone.pod, %why, "port-forward ended");
                    let why = if why.is_empty() {
                        "kubectl gives no reason"
                    } else {
                        &why
                    };
                    return self.notice(format!("port-forward to {} ended: {why}", gone.pod));
                }
            }
        }
    }

    /// The current list, and a notice.
    fn notice(&self, words: String) -> Vec<Msg> {
        vec![Msg::PortForwards(self.list.clone()), Msg::Notice(words)]
    }
}

impl Drop for PortForwards {
    fn drop(&mut self) {
        end_all();
    }
}
