//! UI loop, the only owner of the screen: input is drawn at once, data is paced, and without news nothing is drawn.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crossterm::event::Event;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep_until};

use console::msg::{Mouse, Switch};
use console::pod_access::ShellTarget;
use console::{App, Effect, KeyPress, Msg};
use exec::blocking;
use model::base::name::printable;
use model::base::{Exit, Failure, Moment};
use source::local;

use super::clipboard::{self, Between};
use super::frame_pacer::FramePacer;
use super::terminal::{self, Guard, KeyReader, Screen};
use crate::runtime::actions::own_runs::OwnRuns;
use crate::runtime::connection::{Connections, Open};
use crate::runtime::host::Host;
use crate::runtime::identity::random_identity;
use crate::runtime::kubectl::port_forward::PortForwards;
use crate::runtime::kubectl::shell::{self, ShellEnd};
use crate::runtime::{screen::effects, silence};

/// Shortest interval between frames for new data; keys do not wait.
const FRAME: Duration = Duration::from_millis(100);

/// Shortest interval between frames of an animation.
const SOONEST: Duration = Duration::from_millis(200);

/// How often, and how many times, the key reader is woken after the terminal was taken back: the end of another reader consumes a
/// wake-up, and a key that arrives then is missed as in [`terminal::look_again`].
const LOOKS: (Duration, u8) = (Duration::from_millis(50), 20);

/// How long the loop has to end by itself after the terminal hung up.
const PARTING: Duration = Duration::from_millis(500);

/// Why the console ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConsoleEnd {
    /// The operator quit, or the time of `--for` is over.
    Quit,
    Interrupted,
    /// The terminal is gone.
    Gone,
}

/// Inputs of the loop.
pub struct Ui {
    /// The screen's state machine.
    pub app: App,
    /// Take mouse events; off by default, because they disable the terminal's own text selection.
    pub mouse: bool,
    /// End after this time.
    pub end_after: Option<Duration>,
    /// File of silenced findings; `None` for a simulated fleet.
    pub silences: Option<PathBuf>,
    pub pictures: PathBuf,
}

struct ProcessSignals {
    term: Signal,
    hang_up: Signal,
    interrupt: Signal,
    stop: Signal,
    resize: Signal,
}

impl ProcessSignals {
    fn listen() -> io::Result<Self> {
        Ok(Self {
            term: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            stop: signal(SignalKind::from_raw(signal_hook::consts::SIGTSTP))?,
            resize: signal(SignalKind::window_change())?,
        })
    }
}

/// Why the loop ends before the next message.
enum LoopEnd {
    End(ConsoleEnd),
    Failed(io::Error),
}

impl From<io::Error> for LoopEnd {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

/// Everything that effects act on: the session, the terminal and two files.
struct Outside {
    connections: Connections,
    screen: Screen,
    keys: KeyReader,
    mouse: bool,
    silences: Option<PathBuf>,
    pictures: PathBuf,
    own_runs: OwnRuns,
    /// Between this process and the terminal.
    between: Between,
    port_forwards: PortForwards,
    /// A shell to open: the loop opens it, since only the loop can wait for its end.
    shell: Option<ShellTarget>,
    /// When the key reader is woken next, and how many times after that.
    look: Option<(Instant, u8)>,
}

/// Runs the console on the terminal until it ends. Draws the first frame before it calls `open`, which may take long; when that
/// fails, the screen says why and offers what to do. The terminal is given back on every exit path.
///
/// # Errors
/// Standard input or output is not a terminal, or no session could be opened before the operator quit.
pub async fn run(host: &Host, ui: Ui, open: Arc<Open>) -> Result<ConsoleEnd, Failure> {
    let unusable = |error: io::Error| Failure::new(Exit::Failed, format!("the terminal: {error}"));
    let mut signals = ProcessSignals::listen().map_err(unusable)?;
    leave_when_hung_up(host.clone()).map_err(unusable)?;
    let guard = Guard::take(ui.mouse).map_err(unusable)?;
    let screen = Screen::new(size().map_err(unusable)?, io::stdout());
    let mut app = ui.app;
    let mut outside = Outside {
        connections: Connections::idle(open, host.clock.clone()),
        screen,
        keys: KeyReader::read(),
        mouse: ui.mouse,
        silences: ui.silences,
        pictures: ui.pictures,
        between: Between::of(|name| host.text_variable(name)),
        own_runs: host.own_runs.clone(),
        port_forwards: PortForwards::default(),
        shell: None,
        look: None,
    };
    let left = drive(&mut app, &mut outside, &mut signals, ui.end_after).await;
    drop(guard);
    // Before the session ends, and its runs with it.
    for line in host.own_runs.hand_over() {
        let _ = writeln!(io::stderr(), "stokehold: {line}");
    }
    outside.connections.close().await;
    match (left, outside.connections.fault) {
        (Err(LoopEnd::Failed(error)), _) => Err(unusable(error)),
        (Ok(ConsoleEnd::Quit) | Err(LoopEnd::End(ConsoleEnd::Quit)), Some(fault)) => Err(fault),
        (Ok(end) | Err(LoopEnd::End(end)), _) => Ok(end),
    }
}

/// Ends the process when the terminal hangs up and the loop does not notice: crossterm's event reader spins forever on a terminal
/// whose reads fail, and the loop waits for it.
fn leave_when_hung_up(host: Host) -> io::Result<()> {
    let mut hang_up = signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        hang_up.recv().await;
        tokio::time::sleep(PARTING).await;
        terminal::leave();
        let _ = host.own_runs.hand_over();
        host.scratch.clear();
        std::process::exit(i32::from(Exit::Done.code()));
    });
    Ok(())
}

fn size() -> io::Result<Rect> {
    let (width, height) = crossterm::terminal::size()?;
    Ok(Rect::new(0, 0, width.max(1), height.max(1)))
}

async fn drive(
    app: &mut App,
    outside: &mut Outside,
    signals: &mut ProcessSignals,
    end_after: Option<Duration>,
) -> Result<ConsoleEnd, LoopEnd> {
    let area = outside.screen.area();
    for msg in [
        Msg::Resize(area.width, area.height),
        Msg::Tick(outside.connections.now()),
    ] {
        effects::deliver(app, msg, |effect| outside.perform(effect))?;
    }
    frame(app, &mut outside.screen)?;
    outside.connections.switch(&Switch::Again);
    let started = Instant::now();
    let deadline = end_after.map(|after| started + after);
    let mut pace = FramePacer::new(FRAME);
    let mut drawn_at: Option<Instant> = None;
    let (mut dirty, mut urgent) = (true, true);
    let mut wake = None;
    loop {
        if let Some(target) = outside.shell.take() {
            let messages = outside.open_shell(&target).await?;
            *signals = ProcessSignals::listen()?;
            (dirty, urgent) = (true, true);
            for msg in messages {
                effects::deliver(app, msg, |effect| outside.perform(effect))?;
            }
        }
        if dirty && outside.screen.is_ready() {
            let elapsed = started.elapsed().as_millis() as u64;
            if urgent || pace.wait(elapsed).is_zero() {
                let begun = Instant::now();
                let Ok(next) = frame(app, &mut outside.screen) else {
                    return Ok(ConsoleEnd::Gone);
                };
                pace.drawn(elapsed, begun.elapsed());
                drawn_at = Some(begun);
                (dirty, urgent) = (false, false);
                wake = next.map(|after| begun + after.max(SOONEST));
            }
        }
        let due = dirty.then(|| {
            let wait = pace.wait(started.elapsed().as_millis() as u64);
            drawn_at.map_or_else(Instant::now, |_| Instant::now() + wait)
        });
        let ready = outside.screen.is_ready();
        let messages = tokio::select! {
            biased;
            event = outside.keys.next() => match event {
                Some(Ok(event)) => {
                    (dirty, urgent) = (true, true);
                    input(&event, outside.connections.now())
                }
                Some(Err(_)) | None => return Ok(ConsoleEnd::Gone),
            },
            _ = signals.term.recv() => return Ok(ConsoleEnd::Interrupted),
            _ = signals.interrupt.recv() => return Ok(ConsoleEnd::Interrupted),
            _ = signals.hang_up.recv() => return Ok(ConsoleEnd::Gone),
            _ = signals.stop.recv() => outside.suspend()?,
            _ = signals.resize.recv() => {
                (dirty, urgent) = (true, true);
                // The terminal's content is drawn over.
                let area = size()?;
                outside.screen.reset(area);
                vec![Msg::Resize(area.width, area.height)]
            }
            written = outside.screen.ready() => match written {
                Ok(()) => Vec::new(),
                Err(_) => return Ok(ConsoleEnd::Gone),
            },
            news = outside.connections.news() => {
                dirty = true;
                let msg = effects::message(news);
                urgent |= matches!(msg, Some(Msg::Session(_) | Msg::NoSession(_) | Msg::Rewound(..)));
                msg.map_or_else(Vec::new, |msg| outside.with_what_is_kept(msg))
            }
            news = outside.port_forwards.news() => news,
            () = until(due.filter(|_| ready)) => Vec::new(),
            () = until(outside.look.map(|(at, _)| at)) => {
                outside.look_again();
                Vec::new()
            }
            () = until(wake) => {
                wake = None;
                vec![Msg::Tick(outside.connections.now())]
            }
            () = until(deadline) => return Ok(ConsoleEnd::Quit),
        };
        dirty |= !messages.is_empty();
        for msg in messages {
            effects::deliver(app, msg, |effect| outside.perform(effect))?;
        }
    }
}

async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// Draws a frame; returns when it next changes by itself.
fn frame(app: &App, screen: &mut Screen) -> io::Result<Option<Duration>> {
    let area = screen.area();
    let mut buffer = Buffer::empty(area);
    let drawn = app.draw(area, &mut buffer);
    screen.draw(buffer, drawn.cursor)?;
    Ok(drawn.wake_after)
}

/// The messages of a terminal event.
fn input(event: &Event, now: Moment) -> Vec<Msg> {
    let msg = match event {
        Event::Key(key) => KeyPress::from_crossterm(key).map(Msg::Key),
        Event::Mouse(mouse) => Mouse::from_crossterm(mouse).map(Msg::Mouse),
        Event::Paste(text) => Some(Msg::Paste(text.clone())),
        Event::Resize(..) => {
            // SIGWINCH reports the size: this event gets lost when a key comes with it.
            terminal::look_again();
            None
        }
        Event::FocusGained | Event::FocusLost => None,
    };
    // Every event advances the clock of ages first.
    [Some(Msg::Tick(now)), msg].into_iter().flatten().collect()
}

impl Outside {
    /// A message of the session, with the state that this machine keeps for it.
    fn with_what_is_kept(&self, msg: Msg) -> Vec<Msg> {
        // Another server may have another clock.
        let tick = Msg::Tick(self.connections.now());
        match msg {
            Msg::Session(about) => {
                let silences = silence::load(self.silences.as_deref(), &about.context);
                self.log_all(&silences);
                vec![tick, Msg::Session(about), Msg::Silences(silences)]
            }
            Msg::NoSession(why) => vec![tick, Msg::NoSession(why)],
            other => vec![other],
        }
    }

    /// Logs existing silences in the record as well.
    fn log_all(&self, silences: &table::silence::Silences) {
        let session = self.connections.session.as_ref();
        if let Some((session, record)) = session.and_then(|it| Some((it, it.record.as_ref().ok()?)))
        {
            let logged = blocking(|| record.log_all(silences, session.clock.now()));
            if let Err(fault) = logged {
                tracing::warn!(%fault, "muted alerts are not written to the record");
            }
        }
    }

    /// Gives the terminal back and stops the process until it is continued.
    fn suspend(&mut self) -> Result<Vec<Msg>, LoopEnd> {
        self.keys.leave();
        terminal::give_back();
        let _ = signal_hook::low_level::emulate_default_handler(signal_hook::consts::SIGTSTP);
        self.take_back()
    }

    /// Gives the terminal to a shell until it ends.
    async fn open_shell(&mut self, target: &ShellTarget) -> Result<Vec<Msg>, LoopEnd> {
        let kubectl = effects::kubectl(&self.connections);
        let command = kubectl.and_then(|kubectl| {
            let command = kubectl.shell(target, random_identity())?;
            Ok((command, kubectl.context().clone()))
        });
        let (command, context) = match command {
            Ok(command) => command,
            Err(why) => return Ok(vec![Msg::Notice(why)]),
        };
        // A frame in flight would be drawn over the shell.
        if !self.screen.is_ready() {
            let _ = tokio::time::timeout(PARTING, self.screen.ready()).await;
        }
        // From now on the shell reads the keys.
        self.keys.leave();
        terminal::give_back();
        let context = printable(&context);
        let _ = writeln!(
            io::stdout(),
            "stokehold: shell in {target} of {context}; exit or ctrl-d ends it"
        );
        tracing::info!(%context, %target, "shell opened");
        let end = shell::run(&command).await;
        tracing::info!(%context, %target, ?end, "shell ended");
        let words = match end {
            Ok(ShellEnd::Terminated) => return Err(LoopEnd::End(ConsoleEnd::Interrupted)),
            Ok(ShellEnd::HungUp) => return Err(LoopEnd::End(ConsoleEnd::Gone)),
            Ok(ShellEnd::Exited(ended)) if ended.status.success() => {
                format!("shell in {target} ended")
            }
            Ok(ShellEnd::Exited(ended)) if ended.last_line.is_empty() => {
                format!("shell in {target} ended: {}", ended.status)
            }
            Ok(ShellEnd::Exited(ended)) => format!("shell in {target} ended: {}", ended.last_line),
            Err(why) => why,
        };
        let mut messages = self.take_back()?;
        messages.push(Msg::Notice(words));
        Ok(messages)
    }

    /// Takes the terminal back and redraws it.
    fn take_back(&mut self) -> Result<Vec<Msg>, LoopEnd> {
        if terminal::take(self.mouse).is_err() {
            return Err(LoopEnd::End(ConsoleEnd::Gone));
        }
        self.keys = KeyReader::read();
        self.look = Some((Instant::now() + LOOKS.0, LOOKS.1));
        let area = size()?;
        self.screen.reset(area);
        Ok(effects::resumed(
            area.width,
            area.height,
            self.connections.now(),
        ))
    }

    /// Wakes the key reader for a missed key.
    fn look_again(&mut self) {
        terminal::look_again();
        let left = self.look.and_then(|(_, left)| left.checked_sub(1));
        self.look = left.map(|left| (Instant::now() + LOOKS.0, left));
    }

    /// Carries out an effect and returns the resulting messages.
    fn perform(&mut self, effect: Effect) -> Result<Vec<Msg>, LoopEnd> {
        match effect {
            Effect::Quit => match self.own_runs.first() {
                Some(run) => return Ok(vec![Msg::Leaving(run)]),
                None => return Err(LoopEnd::End(ConsoleEnd::Quit)),
            },
            Effect::Leave => return Err(LoopEnd::End(ConsoleEnd::Quit)),
            Effect::Suspend => return self.suspend(),
            Effect::Shell(target) => self.shell = Some(target),
            Effect::PortForward(pod, ports) => {
                return Ok(match effects::kubectl(&self.connections) {
                    Ok(kubectl) => self.port_forwards.start(kubectl, pod, ports),
                    Err(why) => vec![Msg::Notice(why)],
                });
            }
            Effect::StopPortForward(number) => return Ok(self.port_forwards.stop(number)),
            Effect::Redraw => self.screen.reset(size()?),
            Effect::Copy(text) => {
                self.screen
                    .send_aside(&clipboard::bytes(&text, self.between));
            }
            Effect::Hush(id, entry) => {
                if let (Some(path), Some(session)) = (&self.silences, &self.connections.session) {
                    let now = session.clock.now();
                    let saved = silence::save(path, &session.context, &id, entry, now);
                    let logged = match &session.record {
                        Ok(record) => blocking(|| record.log(&id, entry, now)),
                        Err(_) => Ok(()),
                    };
                    let faults = [saved, logged].into_iter().filter_map(Result::err);
                    return Ok(faults.map(Msg::Notice).collect());
                }
            }
            Effect::SavePicture(svg) => {
                let stamp = self.connections.now().rfc3339().replace(':', "");
                let path = self.pictures.join(format!("stokehold-{stamp}.svg"));
                return Ok(vec![Msg::Notice(saved_picture(&path, &svg))]);
            }
            other => return Ok(effects::perform(&mut self.connections, other)),
        }
        Ok(Vec::new())
    }
}

/// Writes a screenshot as a new file, readable by its owner only; returns the notice.
fn saved_picture(path: &Path, svg: &str) -> String {
    let mut options = local::private();
    let file = options.write(true).create_new(true).open(path);
    match file.and_then(|mut file| file.write_all(svg.as_bytes())) {
        Ok(()) => format!("picture saved as {}", path.display()),
        Err(error) => format!("cannot write {}: {error}", path.display()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_picture_is_its_owners_alone_and_replaces_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.svg");
        assert!(saved_picture(&path, "<svg/>").starts_with("picture saved as "));
        let mode = fs::metadata(&path).expect("is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(saved_picture(&path, "<other/>").starts_with("cannot write "));
        assert_eq!(fs::read_to_string(&path).expect("is there"), "<svg/>");
        let link = folder.path().join("b.svg");
        symlink(folder.path().join("elsewhere"), &link).expect("is linked");
        assert!(saved_picture(&link, "<svg/>").starts_with("cannot write "));
        assert!(!folder.path().join("elsewhere").exists());
    }
}
