//! The terminal: takes it, draws on it from a thread of its own, and restores it on every exit path.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc as threads;
use std::time::Duration;

use crossterm::event::{Event, EventStream};
use crossterm::{cursor, event, execute, terminal};
use futures::StreamExt;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use tokio::sync::mpsc;

use crate::runtime::{kubectl::port_forward, screen::encode};

/// True while the terminal is taken, so that it is restored exactly once, by whichever exit path comes first.
static TAKEN: AtomicBool = AtomicBool::new(false);

const BEGIN_UPDATE: &[u8] = b"\x1b[?2026h";
const END_UPDATE: &[u8] = b"\x1b[?2026l";

/// How long to wait on exit for a terminal that does not read.
const PATIENCE: Duration = Duration::from_millis(700);

/// Takes the terminal: raw mode, alternate screen, no cursor, bracketed paste.
///
/// # Errors
/// Standard input or output is not a terminal, or it refuses.
pub fn take(mouse: bool) -> io::Result<()> {
    terminal::enable_raw_mode()?;
    TAKEN.store(true, Ordering::SeqCst);
    execute!(
        io::stdout(),
        terminal::EnterAlternateScreen,
        cursor::Hide,
        event::EnableBracketedPaste
    )?;
    if mouse {
        execute!(io::stdout(), event::EnableMouseCapture)?;
    }
    Ok(())
}

/// Wakes the key reader. Where a key and a resize arrive together, crossterm reports the resize and drops the wake-up for the key
/// (its poll is edge-triggered, `event/source/unix/mio.rs`), which would stay unread until the next one. Setting the terminal
/// modes, even unchanged, wakes the poll.
pub fn look_again() {
    let terminal = io::stdin();
    if let Ok(modes) = rustix::termios::tcgetattr(&terminal) {
        // A lost terminal is reported elsewhere.
        let _ =
            rustix::termios::tcsetattr(&terminal, rustix::termios::OptionalActions::Now, &modes);
    }
}

/// Reader of terminal events.
#[derive(Debug)]
pub struct KeyReader(Option<EventStream>);

impl KeyReader {
    /// Starts to read. Every other reader must have stopped before: a reader holds a lock while it waits for a key.
    pub fn read() -> Self {
        Self(Some(EventStream::new()))
    }

    /// Stops reading, so that another program can.
    pub fn leave(&mut self) {
        self.0 = None;
    }

    /// The next event; `None` once the reader has stopped or the terminal is gone.
    pub async fn next(&mut self) -> Option<io::Result<Event>> {
        self.0.as_mut()?.next().await
    }
}

/// Gives the terminal back. Safe to call at any time and from any thread; only the first call acts. Waits only a moment for a
/// terminal that does not read (a dropped or stopped link).
pub fn give_back() {
    if !TAKEN.swap(false, Ordering::SeqCst) {
        return;
    }
    // The line discipline first: it needs no reader at the other end.
    let _ = terminal::disable_raw_mode();
    let (done, waits) = threads::channel();
    std::thread::spawn(move || {
        let _ = execute!(
            io::stdout(),
            event::DisableMouseCapture,
            event::DisableBracketedPaste,
            terminal::LeaveAlternateScreen,
            cursor::Show
        );
        let _ = done.send(());
    });
    let _ = waits.recv_timeout(PATIENCE);
}

/// The current line discipline; `None` where the terminal is gone.
pub fn line_modes() -> Option<rustix::termios::Termios> {
    rustix::termios::tcgetattr(io::stdin()).ok()
}

/// Restores the line discipline after a program that changed it, and turns off mouse capture.
pub fn set_line_modes(modes: &rustix::termios::Termios) {
    let _ = rustix::termios::tcsetattr(io::stdin(), rustix::termios::OptionalActions::Now, modes);
    let _ = execute!(io::stdout(), event::DisableMouseCapture);
}

/// Last step on exit: gives the terminal back, and ends background processes.
pub fn leave() {
    give_back();
    port_forward::end_all();
}

/// Installs a panic hook that gives the terminal back before the panic is reported.
pub fn restore_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        leave();
        tracing::error!("{panic}");
        report(panic);
    }));
}

/// Gives the terminal back when dropped.
#[derive(Debug)]
pub struct Guard(());

impl Guard {
    /// Takes the terminal until the guard is dropped.
    ///
    /// # Errors
    /// As [`take`].
    pub fn take(mouse: bool) -> io::Result<Self> {
        restore_on_panic();
        if let Err(error) = take(mouse) {
            give_back();
            return Err(error);
        }
        Ok(Self(()))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        leave();
    }
}

/// The screen as the terminal shows it. Only differences are written, by a thread of its own, one frame at a time: a slow
/// terminal delays frames, never keys, and no backlog builds up.
#[derive(Debug)]
pub struct Screen {
    shown: Buffer,
    /// The terminal's content is unknown: the next frame is written whole.
    fresh: bool,
    writer: threads::SyncSender<Vec<u8>>,
    ready: mpsc::Receiver<io::Result<()>>,
    busy: bool,
    /// Position of the visible cursor; `None` when hidden.
    cursor: Option<Position>,
    /// Bytes outside the frame (a copy to the clipboard) that are sent with the next one.
    aside: Vec<u8>,
}

impl Screen {
    /// A screen of this size that writes to `out`.
    pub fn new(size: Rect, mut out: impl Write + Send + 'static) -> Self {
        let (writer, frames) = threads::sync_channel::<Vec<u8>>(1);
        let (done, ready) = mpsc::channel(1);
        std::thread::spawn(move || {
            for frame in frames {
                let written = out.write_all(&frame).and_then(|()| out.flush());
                let failed = written.is_err();
                if done.blocking_send(written).is_err() || failed {
                    break;
                }
            }
        });
        Self {
            shown: Buffer::empty(size),
            fresh: true,
            writer,
            ready,
            busy: false,
            cursor: None,
            aside: Vec::new(),
        }
    }

    /// True when the last frame is written and the next can be drawn.
    pub const fn is_ready(&self) -> bool {
        !self.busy
    }

    /// Waits until the last frame is written. Pends forever while none is in flight.
    ///
    /// # Errors
    /// The terminal is gone.
    pub async fn ready(&mut self) -> io::Result<()> {
        if !self.busy {
            std::future::pending::<()>().await;
        }
        let written = self.ready.recv().await;
        self.busy = false;
        written.unwrap_or_else(|| {
            Err(io::Error::new(
                io::ErrorKind::BrokenPipe,
                "the terminal was closed",
            ))
        })
    }

    /// Forgets the terminal's content and sets its size: the next frame is written whole.
    pub fn reset(&mut self, size: Rect) {
        self.shown = Buffer::empty(size);
        self.fresh = true;
        // Another program may have shown the cursor.
        self.cursor = None;
        self.aside.extend_from_slice(b"\x1b[0m\x1b[?25l");
    }

    /// Sends `bytes` with the next frame, even if nothing else changes.
    pub fn send_aside(&mut self, bytes: &[u8]) {
        self.aside.extend_from_slice(bytes);
    }

    /// The size of the screen.
    pub const fn area(&self) -> Rect {
        self.shown.area
    }

    /// Writes the differences to the last frame, and places the cursor in the text input; writes nothing when nothing differs.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn draw(&mut self, frame: Buffer, cursor: Option<Position>) -> io::Result<usize> {
        let mut whole = BEGIN_UPDATE.to_vec();
        whole.append(&mut self.aside);
        let known = (!self.fresh).then_some(&self.shown);
        let before = whole.len();
        let aside = before > BEGIN_UPDATE.len();
        whole = encode::encode(known, &frame, whole);
        let painted = whole.len() > before;
        // Painting has moved the cursor.
        let moved = cursor != self.cursor || (painted && cursor.is_some());
        if moved {
            encode::cursor(cursor, &mut whole);
        }
        self.shown = frame;
        if !(painted || moved || aside) {
            return Ok(0);
        }
        (self.fresh, self.cursor) = (false, cursor);
        whole.extend_from_slice(END_UPDATE);
        let length = whole.len();
        if self.writer.try_send(whole).is_err() {
            return Err(io::Error::new(
                io::ErrorKind::BrokenPipe,
                "the terminal was closed",
            ));
        }
        self.busy = true;
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use ratatui::style::Style;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0
                .lock()
                .expect("not poisoned")
                .extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn frame(text: &str) -> Buffer {
        let mut frame = Buffer::empty(Rect::new(0, 0, 20, 2));
        frame.set_string(0, 0, text, Style::default());
        frame
    }

    #[tokio::test]
    async fn an_unchanged_frame_writes_not_a_byte() {
        let sink = Sink::default();
        let mut screen = Screen::new(Rect::new(0, 0, 20, 2), sink.clone());
        assert!(screen.draw(frame("hello"), None).expect("drawn") > 0);
        screen.ready().await.expect("written");
        assert_eq!(screen.draw(frame("hello"), None).expect("drawn"), 0);
        let changed = screen.draw(frame("hellO"), None).expect("drawn");
        assert!(changed > 0 && changed < 60, "{changed}");
        screen.ready().await.expect("written");
        let at = Some(Position::new(3, 1));
        assert!(screen.draw(frame("hellO"), at).expect("drawn") > 0);
        screen.ready().await.expect("written");
        assert_eq!(screen.draw(frame("hellO"), at).expect("drawn"), 0);
        assert!(screen.draw(frame("hellO"), None).expect("drawn") > 0);
        screen.ready().await.expect("written");
        let text = String::from_utf8(sink.0.lock().expect("not poisoned").clone()).expect("text");
        assert!(text.contains("hello") && text.ends_with("\x1b[?25l\x1b[?2026l"));
        assert!(text.contains("\x1b[2;4H\x1b[?25h"), "the cursor is shown");
        assert!(!text.contains("\x1b[2J"), "nothing is ever cleared");
    }

    /// A terminal that reads nothing until it is released.
    #[derive(Clone, Default)]
    struct Stuck(Sink, Arc<Mutex<()>>);

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _released = self.1.lock().expect("not poisoned");
            self.0.write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn while_a_terminal_does_not_read_one_frame_is_under_way_and_none_waits() {
        let stuck = Stuck::default();
        let held = stuck.1.lock().expect("not poisoned");
        let mut screen = Screen::new(Rect::new(0, 0, 20, 2), stuck.clone());
        let first = screen.draw(frame("first"), None).expect("drawn");
        assert!(!screen.is_ready(), "the next frame is not drawn yet");
        assert!(screen.ready().now_or_never().is_none());
        drop(held);
        screen.ready().await.expect("written");
        assert!(screen.is_ready());
        let written = stuck.0.0.lock().expect("not poisoned").len();
        assert_eq!(written, first);
    }

    #[tokio::test]
    async fn a_terminal_that_has_gone_is_an_error_not_a_hang() {
        struct Gone;
        impl Write for Gone {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::Error::from_raw_os_error(5))
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut screen = Screen::new(Rect::new(0, 0, 20, 2), Gone);
        screen.draw(frame("x"), None).expect("handed over");
        assert!(screen.ready().await.is_err());
    }
}
