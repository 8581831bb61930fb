//! The UI loop: the one owner of the screen. Input is drawn at once, data is paced, silence draws nothing.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crossterm::event::{Event, EventStream};
use futures::StreamExt;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep_until};

use console::msg::Mouse;
use console::{App, Effect, KeyPress, Msg};
use model::base::{Exit, Failure};

use super::clipboard::{self, Between};
use super::looking::{Looking, Open};
use super::pace::Pace;
use super::terminal::{self, Guard, Screen};
use super::{clock, desk, hush};

/// Frames for new data are at least this far apart; a key does not wait.
const FRAME: Duration = Duration::from_millis(100);

/// A picture that changes by itself is drawn again after this time at the soonest.
const SOONEST: Duration = Duration::from_millis(200);

/// How long the loop has to end by itself once the terminal has hung up.
const PARTING: Duration = Duration::from_millis(500);

/// Why the console ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The operator left, or the time that `--for` gave was over.
    Quit,
    /// Ctrl-c outside, SIGINT, SIGTERM.
    Interrupted,
    /// The terminal has gone.
    Gone,
}

/// What the loop is given.
pub struct Ui {
    /// The screen's state machine.
    pub app: App,
    /// Take mouse events; off by default, for they take the terminal's own selection away.
    pub mouse: bool,
    /// End after this time.
    pub end_after: Option<Duration>,
    /// Where it is kept which findings were muted; nowhere for a simulated fleet.
    pub hushed: Option<std::path::PathBuf>,
    /// Where pictures are written.
    pub pictures: std::path::PathBuf,
}

struct Signals {
    term: Signal,
    hang_up: Signal,
    interrupt: Signal,
    stop: Signal,
    resize: Signal,
}

impl Signals {
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

/// Runs the console on the terminal until it ends. The first frame is drawn before `open` is called, which may take
/// its time; when it fails, the screen says why and offers what can be done. The terminal is given back on every way
/// out.
///
/// # Errors
/// When standard input or output is not a terminal, or no session could be opened until the operator left.
pub async fn run(mut ui: Ui, open: Arc<Open>) -> Result<End, Failure> {
    let unusable = |error: io::Error| Failure::new(Exit::Failed, format!("the terminal: {error}"));
    let mut signals = Signals::listen().map_err(unusable)?;
    leave_when_hung_up().map_err(unusable)?;
    let guard = Guard::take(ui.mouse).map_err(unusable)?;
    let mut screen = Screen::new(size().map_err(unusable)?, io::stdout());
    let area = screen.area();
    ui.app.update(Msg::Resize(area.width, area.height));
    ui.app.update(Msg::Tick(clock::now()));
    frame(&ui, &mut screen).map_err(unusable)?;
    let mut looking = Looking::begin(open);
    let end = drive(&mut ui, &mut looking, &mut screen, &mut signals).await;
    drop(guard);
    match (end.map_err(unusable)?, looking.fault) {
        (End::Quit, Some(fault)) => Err(fault),
        (end, _) => Ok(end),
    }
}

/// Ends the process when the terminal hangs up and the loop does not see it: the reader of events goes round for ever on
/// a terminal that fails each read, and with it the loop that waits for events first.
fn leave_when_hung_up() -> io::Result<()> {
    let mut hang_up = signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        hang_up.recv().await;
        tokio::time::sleep(PARTING).await;
        terminal::give_back();
        std::process::exit(i32::from(Exit::Done.code()));
    });
    Ok(())
}

fn size() -> io::Result<Rect> {
    let (width, height) = crossterm::terminal::size()?;
    Ok(Rect::new(0, 0, width.max(1), height.max(1)))
}

async fn drive(
    ui: &mut Ui,
    looking: &mut Looking,
    screen: &mut Screen,
    signals: &mut Signals,
) -> io::Result<End> {
    let mut events = EventStream::new();
    let started = Instant::now();
    let deadline = ui.end_after.map(|after| started + after);
    let mut pace = Pace::new(FRAME);
    let mut drawn_at: Option<Instant> = None;
    let (mut dirty, mut urgent) = (true, true);
    let mut wake = None;
    loop {
        if dirty && screen.is_ready() {
            let elapsed = started.elapsed().as_millis() as u64;
            if urgent || pace.wait(elapsed).is_zero() {
                let begun = Instant::now();
                let Ok(next) = frame(ui, screen) else {
                    return Ok(End::Gone);
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
        let ready = screen.is_ready();
        let effects = tokio::select! {
            biased;
            event = events.next() => match event {
                Some(Ok(event)) => {
                    (dirty, urgent) = (true, true);
                    input(ui, looking, &event)
                }
                Some(Err(_)) | None => return Ok(End::Gone),
            },
            _ = signals.term.recv() => return Ok(End::Interrupted),
            _ = signals.interrupt.recv() => return Ok(End::Interrupted),
            _ = signals.hang_up.recv() => return Ok(End::Gone),
            _ = signals.stop.recv() => vec![Effect::Suspend],
            _ = signals.resize.recv() => {
                (dirty, urgent) = (true, true);
                resize(ui, screen)?
            }
            written = screen.ready() => match written {
                Ok(()) => Vec::new(),
                Err(_) => return Ok(End::Gone),
            },
            news = looking.news() => {
                dirty = true;
                let msg = desk::message(news);
                let begun = match &msg {
                    Some(Msg::Session(about)) => Some(about.context.clone()),
                    _ => None,
                };
                if matches!(msg, Some(Msg::Session(_) | Msg::NoSession(_))) {
                    // Another server may have another clock.
                    urgent = true;
                    ui.app.update(Msg::Tick(looking.now()));
                }
                let effects = msg.map_or_else(Vec::new, |msg| ui.app.update(msg));
                if let Some(context) = begun {
                    let hushed = hush::load(ui.hushed.as_deref(), &context);
                    ui.app.update(Msg::Hushed(hushed));
                }
                effects
            }
            () = until(due.filter(|_| ready)) => Vec::new(),
            () = until(wake) => {
                wake = None;
                dirty = true;
                ui.app.update(Msg::Tick(looking.now()))
            }
            () = until(deadline) => return Ok(End::Quit),
        };
        for effect in effects {
            if let Some(end) = perform(ui, looking, screen, &mut events, effect)? {
                return Ok(end);
            }
            dirty = true;
        }
    }
}

async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// Draws a frame; says when the picture next changes by itself.
fn frame(ui: &Ui, screen: &mut Screen) -> io::Result<Option<Duration>> {
    let area = screen.area();
    let mut buffer = Buffer::empty(area);
    let drawn = ui.app.draw(area, &mut buffer);
    screen.draw(buffer, drawn.cursor)?;
    Ok(drawn.wake_after)
}

fn input(ui: &mut Ui, looking: &Looking, event: &Event) -> Vec<Effect> {
    // Ages count from now, whatever else the key does.
    let mut effects = ui.app.update(Msg::Tick(looking.now()));
    match event {
        Event::Key(key) => {
            if let Some(press) = KeyPress::from_crossterm(key) {
                effects.extend(ui.app.update(Msg::Key(press)));
            }
        }
        Event::Mouse(mouse) => {
            if let Some(mouse) = Mouse::from_crossterm(mouse) {
                effects.extend(ui.app.update(Msg::Mouse(mouse)));
            }
        }
        Event::Paste(text) => effects.extend(ui.app.update(Msg::Paste(text.clone()))),
        // The signal tells: this event gets lost when a key comes with it.
        Event::Resize(..) => terminal::look_again(),
        Event::FocusGained | Event::FocusLost => {}
    }
    effects
}

/// Takes the terminal's new size; whatever it shows now is drawn over.
fn resize(ui: &mut Ui, screen: &mut Screen) -> io::Result<Vec<Effect>> {
    let area = size()?;
    screen.reset(area);
    Ok(ui.app.update(Msg::Resize(area.width, area.height)))
}

fn perform(
    ui: &mut Ui,
    looking: &mut Looking,
    screen: &mut Screen,
    events: &mut EventStream,
    effect: Effect,
) -> io::Result<Option<End>> {
    match effect {
        Effect::Quit => return Ok(Some(End::Quit)),
        Effect::Suspend => {
            terminal::give_back();
            // Stops the whole process here; it goes on when somebody continues it.
            let _ = signal_hook::low_level::emulate_default_handler(signal_hook::consts::SIGTSTP);
            if terminal::take(ui.mouse).is_err() {
                return Ok(Some(End::Gone));
            }
            *events = EventStream::new();
            let area = size()?;
            screen.reset(area);
            ui.app.update(Msg::Resize(area.width, area.height));
            ui.app.update(Msg::Resume);
            ui.app.update(Msg::Tick(looking.now()));
        }
        Effect::Redraw => screen.reset(size()?),
        Effect::Copy(text) => {
            let between = Between::of(|name| std::env::var(name).ok());
            screen.send_aside(&clipboard::bytes(&text, between));
        }
        Effect::Hush(id, entry) => {
            if let (Some(path), Some(session)) = (&ui.hushed, &looking.session) {
                let now = session.clock.now();
                if let Err(said) = hush::save(path, &session.context, &id, entry, now) {
                    ui.app.update(Msg::Notice(said));
                }
            }
        }
        Effect::SavePicture(svg) => {
            let stamp = looking.now().rfc3339().replace(':', "");
            let path = ui.pictures.join(format!("stokehold-{stamp}.svg"));
            let said = match std::fs::write(&path, svg) {
                Ok(()) => format!("picture saved as {}", path.display()),
                Err(error) => format!("cannot write {}: {error}", path.display()),
            };
            ui.app.update(Msg::Notice(said));
        }
        other => desk::obey(&mut ui.app, looking, other),
    }
    Ok(None)
}
