//! Standard output, whose reader may go at any time.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use crate::runtime::clock::Stopwatch;
use crate::runtime::session::Coming;
use model::base::name::printable;
use model::base::{Exit, Failure};

/// Writes all of a text. A reader that has gone ends the command quietly, as it ended `head`'s.
pub(super) fn write(out: &mut dyn Write, text: &str) -> Result<(), Failure> {
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::quiet(Exit::Done),
            _ => Failure::new(Exit::Failed, format!("cannot write the output: {error}")),
        })
}

/// Says something to the operator, a line each, without anything that could rewrite the screen. Whether
/// standard error is still there is nobody's concern.
pub(super) fn say(err: &mut dyn Write, text: &str) {
    for line in text.lines() {
        let _ = writeln!(err, "stokehold: {}", printable(line));
    }
}

/// A first look that takes longer than this is told of, and again after each further such time.
const TOLD_AFTER: Duration = Duration::from_secs(1);

/// Tells on standard error how far a first look has come: on one line of a terminal that is gone when the look is over,
/// elsewhere in a line a second.
pub(super) struct LookProgress {
    quiet: bool,
    begun: Stopwatch,
    told: Duration,
    /// A line of a terminal is to be wiped.
    shown: bool,
}

impl LookProgress {
    /// A look begins. One that is `quiet` tells nothing.
    pub(super) fn new(quiet: bool) -> Self {
        Self {
            quiet,
            begun: Stopwatch::start(),
            told: Duration::ZERO,
            shown: false,
        }
    }

    /// The look has come so far.
    pub(super) fn at(&mut self, coming: Coming) {
        let now = self.begun.elapsed();
        let terminal = io::stderr().is_terminal();
        let due = now >= TOLD_AFTER && (terminal || now - self.told >= TOLD_AFTER);
        if self.quiet || !due {
            return;
        }
        if let Some(words) = words(coming) {
            self.told = now;
            self.shown |= terminal;
            if terminal {
                let _ = write!(io::stderr(), "\r{words}\x1b[K");
            } else {
                say(&mut io::stderr(), &words);
            }
        }
    }
}

/// How far a look has come; `None` when nothing is waited for that can be counted.
fn words(coming: Coming) -> Option<String> {
    let Coming { tables, readings } = coming;
    if tables.0 < tables.1 {
        return Some(format!("listing: {} of {} kinds", tables.0, tables.1));
    }
    (readings.0 < readings.1)
        .then(|| format!("readings: {} of {} exporters", readings.0, readings.1))
}

impl Drop for LookProgress {
    fn drop(&mut self) {
        if self.shown {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
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
        let said = at((41, 41), (120, 487));
        assert_eq!(said.as_deref(), Some("readings: 120 of 487 exporters"));
        assert_eq!(at((41, 41), (487, 487)), None);
    }
}
