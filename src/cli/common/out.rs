//! Standard output, whose reader may close it at any time.

use std::io::{self, Write};
use std::time::Duration;

use crate::runtime::clock::Stopwatch;
use crate::runtime::host::Host;
use crate::runtime::session::Coming;
use model::base::name::printable;
use model::base::{Exit, Failure};

/// Writes a whole text. A closed pipe ends the command without an error.
pub(crate) fn write(out: &mut dyn Write, text: &str) -> Result<(), Failure> {
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::quiet(Exit::Done),
            _ => Failure::new(Exit::Failed, format!("cannot write the output: {error}")),
        })
}

/// Prints a message to standard error line by line, without control characters. A closed standard error is ignored.
pub(crate) fn print_message(err: &mut dyn Write, text: &str) {
    for line in text.lines() {
        let _ = writeln!(err, "stokehold: {}", printable(line));
    }
}

/// Progress of a first look is shown after this time, and again after each further such time.
const PROGRESS_AFTER: Duration = Duration::from_secs(1);

/// Progress of a first look on standard error: on a terminal one line that is cleared at the end, elsewhere a line a second.
pub(crate) struct LookProgress<'e> {
    err: &'e mut (dyn Write + Send),
    quiet: bool,
    terminal: bool,
    begun: Stopwatch,
    reported_after: Duration,
    /// A terminal line must be cleared.
    shown: bool,
}

impl<'e> LookProgress<'e> {
    /// Starts the clock. A quiet command's prints nothing.
    pub(crate) fn new(host: &Host, quiet: bool, err: &'e mut (dyn Write + Send)) -> Self {
        Self {
            err,
            quiet,
            terminal: host.terminal.error,
            begun: Stopwatch::start(),
            reported_after: Duration::ZERO,
            shown: false,
        }
    }

    pub(crate) fn at(&mut self, coming: Coming) {
        let now = self.begun.elapsed();
        let due =
            now >= PROGRESS_AFTER && (self.terminal || now - self.reported_after >= PROGRESS_AFTER);
        if self.quiet || !due {
            return;
        }
        if let Some(words) = words(coming) {
            self.reported_after = now;
            self.shown |= self.terminal;
            if self.terminal {
                let _ = write!(self.err, "\r{words}\x1b[K");
            } else {
                print_message(self.err, &words);
            }
        }
    }

    /// Prints a message that is no progress.
    pub(crate) fn print_message(&mut self, text: &str) {
        self.clear();
        print_message(self.err, text);
    }

    /// Clears the line of a terminal.
    fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ = write!(self.err, "\r\x1b[K");
        }
    }
}

/// The progress as text; `None` when nothing countable is awaited.
fn words(coming: Coming) -> Option<String> {
    let Coming { tables, readings } = coming;
    if tables.0 < tables.1 {
        return Some(format!("listing: {} of {} kinds", tables.0, tables.1));
    }
    (readings.0 < readings.1)
        .then(|| format!("readings: {} of {} exporters", readings.0, readings.1))
}

impl Drop for LookProgress<'_> {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_says_what_is_waited_for() {
        let at = |tables, readings| words(Coming { tables, readings });
        assert_eq!(
            at((12, 41), (0, 0)).as_deref(),
            Some("listing: 12 of 41 kinds")
        );
        let line = at((41, 41), (120, 487));
        assert_eq!(line.as_deref(), Some("readings: 120 of 487 exporters"));
        assert_eq!(at((41, 41), (487, 487)), None);
    }
}
