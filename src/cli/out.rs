//! Standard output, whose reader may go at any time.

use std::io::{self, IsTerminal, Write};

use crate::runtime::session::readings;
use model::base::name::printable;
use model::base::{Exit, Failure};
use model::fleet::Fleet;

use super::patience::Patience;

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

/// Tells how much of a first look is there, on one line of a terminal that is gone when the look is over. A look that takes
/// long says what it waits for, wherever standard error goes.
#[derive(Default)]
pub(super) struct Looking {
    /// What the line says.
    shown: Option<(usize, usize)>,
    patience: Patience,
}

impl Looking {
    /// The look has come so far.
    pub(super) fn at(&mut self, fleet: &Fleet) {
        if let Some(line) = self.patience.due(fleet) {
            if self.shown.take().is_some() {
                let _ = write!(io::stderr(), "\r\x1b[K");
            }
            say(&mut io::stderr(), &line);
        }
        let (answered, all) = readings(fleet);
        let news = self.shown != Some((answered, all));
        if news && answered < all && io::stderr().is_terminal() {
            self.shown = Some((answered, all));
            let _ = write!(
                io::stderr(),
                "\rreading exporters: {answered} of {all}\x1b[K"
            );
        }
    }
}

impl Drop for Looking {
    fn drop(&mut self) {
        if self.shown.is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
